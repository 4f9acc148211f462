/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditions of a user's query, as SQL.
 *
 *     status=done,workers>=4,model~net      a list of conditions, all of which must hold
 *     -test_accuracy                        a column to sort by
 *
 * Names are looked up in the table of columns and only the table's own text goes into a statement;
 * values are bound. So nothing that a user types, or that a file holds, is ever read as SQL. A
 * column of numbers wants a number; a text equals a value if it is the value, or begins with it and
 * a colon: strategy=ps finds ps:consistency=ssp.
 */
#include "base/memory.h"
#include "base/option.h"
#include "store/sql.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MAX_SIZE = 64, CONDITION_MAX = 4096, IDS_MAX = 200 };

/* The longer ones come first. */
static const char *const operators[] = { "!=", "<=", ">=", "=", "<", ">", "~" };

/* Append text of the program's own to a statement. Text that does not fit sets `full`, which the
 * caller checks once at the end instead of after every piece. */
void fast__store_sql_add(fast_store_sql *sql, const char *text)
{
    const size_t size = strlen(text);
    if (sql->used + size + 1 > FAST_STORE_SQL_MAX) {
        sql->full = true;
        return;
    }
    memcpy(sql->text + sql->used, text, size + 1);
    sql->used += size;
}

/* A "?" whose value is text. */
static fast_err add_text(fast_store_sql *sql, const char *value)
{
    char *copy = NULL;
    const int64_t size = (int64_t)strlen(value) + 1;
    if (sql->count == FAST_STORE_VALUES_MAX)
        return fast__fail(FAST_EINVAL, "a query of more than %d values", FAST_STORE_VALUES_MAX);
    FAST_TRY(fast__alloc("a value of a query", size, 1, &copy));
    memcpy(copy, value, (size_t)size);
    sql->values[sql->count++] = copy;
    return FAST_OK;
}

/* A "?" whose value is a number. FAST_EINVAL if the query has too many values. */
static fast_err add_number(fast_store_sql *sql, double value)
{
    if (sql->count == FAST_STORE_VALUES_MAX)
        return fast__fail(FAST_EINVAL, "a query of more than %d values", FAST_STORE_VALUES_MAX);
    sql->numbers[sql->count++] = value;
    return FAST_OK;
}

/* Free the values. The text is the caller's. */
void fast__store_sql_fini(fast_store_sql *sql)
{
    for (int i = 0; i < sql->count; i++)
        fast__free(sql->values[i]);
    sql->count = 0;
}

/* Bind all values in their order. Texts are bound without a copy: `sql` must outlive the
 * statement. */
fast_err fast__store_sql_bind(fast_store *store, const fast_store_sql *sql, sqlite3_stmt *stmt)
{
    for (int i = 0; i < sql->count; i++) {
        const int code = sql->values[i]
                             ? sqlite3_bind_text(stmt, i + 1, sql->values[i], -1, SQLITE_STATIC)
                             : sqlite3_bind_double(stmt, i + 1, sql->numbers[i]);
        if (code != SQLITE_OK)
            return fast__store_fail(store, code);
    }
    return FAST_OK;
}

/* Names that a query may use: the columns of `runs`, then "tag". */
static const char *name_at(const void *ctx, int64_t i)
{
    const fast_store_form *runs = ctx;
    return i < runs->count ? runs->columns[i].name : "tag";
}

/* The column of a name; *out is NULL for "tag". */
static fast_err find_column(const char *name, const fast_column **out)
{
    const fast_store_form *runs = &fast__store_tables[FAST_STORE_RUNS];
    const int64_t i = fast__name_find(name, name_at, runs, runs->count + 1, NULL);
    if (i < 0)
        return fast__name_unknown("column", name, name_at, runs, runs->count + 1);
    *out = i < runs->count ? &runs->columns[i] : NULL;
    return FAST_OK;
}

/* A pattern of LIKE that finds `value` anywhere, or as the beginning; \ is the escape. */
static fast_err add_pattern(fast_store_sql *sql, const char *before, const char *value,
                            const char *after)
{
    char pattern[2 * CONDITION_MAX + 8];
    size_t used = (size_t)snprintf(pattern, sizeof pattern, "%s", before);
    /* Characters that LIKE gives a meaning are escaped: a user's % is a percent sign. */
    for (const char *c = value; *c && used + 8 < sizeof pattern; c++) {
        if (*c == '%' || *c == '_' || *c == '\\')
            pattern[used++] = '\\';
        pattern[used++] = *c;
    }
    snprintf(pattern + used, sizeof pattern - used, "%s", after);
    return add_text(sql, pattern);
}

/* A condition on tags. A run may have several, so that "!=" means: no tag of the run equals the
 * value, and not: the run has another tag. */
static fast_err add_tag(fast_store_sql *sql, const char *op, const char *value)
{
    const bool contains = strcmp(op, "~") == 0;
    if (!contains && strcmp(op, "=") != 0 && strcmp(op, "!=") != 0)
        return fast__fail(FAST_EINVAL, "a tag is compared with =, != or ~, not %s", op);
    fast__store_sql_add(sql, strcmp(op, "!=") == 0 ? "id NOT IN (SELECT run FROM tags WHERE tag "
                                                   : "id IN (SELECT run FROM tags WHERE tag ");
    fast__store_sql_add(sql, contains ? "LIKE ? ESCAPE '\\')" : "= ?)");
    return contains ? add_pattern(sql, "%", value, "%") : add_text(sql, value);
}

/* A column of text: exact, by what stands before a colon, or contained. */
static fast_err add_words(fast_store_sql *sql, const char *column, const char *op,
                          const char *value)
{
    const char *name = strcmp(column, "status") == 0 ? "(" FAST_STORE_STATUS ")" : column;
    const bool equal = strcmp(op, "=") == 0;

    if (strcmp(op, "~") == 0) {
        fast__store_sql_add(sql, name);
        fast__store_sql_add(sql, " LIKE ? ESCAPE '\\'");
        return add_pattern(sql, "%", value, "%");
    }
    if (!equal && strcmp(op, "!=") != 0)
        return fast__fail(FAST_EINVAL, "\"%s\" is a text: compare it with =, != or ~, not %s",
                          column, op);
    /* A column without a value equals nothing: coalesce() makes NULL false, so that "!=" finds it.
     * */
    fast__store_sql_add(sql, equal ? "coalesce(" : "NOT coalesce(");
    fast__store_sql_add(sql, name);
    fast__store_sql_add(sql, " = ? OR ");
    fast__store_sql_add(sql, name);
    fast__store_sql_add(sql, " LIKE ? ESCAPE '\\',0)");
    FAST_TRY(add_text(sql, value));
    return add_pattern(sql, "", value, ":%");
}

/* One condition: column, operator, value. The operator that comes first in the text counts, so that
 * a value may hold the characters of operators; `text` is changed. */
static fast_err add_condition(fast_store_sql *sql, char *text)
{
    const fast_column *column = NULL;
    char name[NAME_MAX_SIZE];
    const char *op = NULL;
    const size_t size = strcspn(text, "!<>=~");

    for (size_t i = 0; i < sizeof operators / sizeof *operators && !op; i++)
        if (strncmp(text + size, operators[i], strlen(operators[i])) == 0)
            op = operators[i];
    if (!op || size == 0 || size >= sizeof name)
        return fast__fail(FAST_EINVAL, "cannot read the condition \"%s\"; write it as column=value",
                          text);
    memcpy(name, text, size);
    name[size] = '\0';
    const char *value = text + size + strlen(op);
    FAST_TRY(find_column(name, &column));
    /* Tags are in a table of their own; all other names are columns of `runs`. */
    if (!column)
        return add_tag(sql, op, value);
    if (column->kind == FAST_COLUMN_TEXT || column->kind == FAST_COLUMN_JSON)
        return add_words(sql, column->name, op, value);
    /* Numbers are compared as numbers: "workers>=4" finds 16. */
    double number;
    if (strcmp(op, "~") == 0)
        return fast__fail(FAST_EINVAL, "\"%s\" is a number: it cannot contain a text", name);
    FAST_TRY(fast__parse_real(name, value, &number));
    fast__store_sql_add(sql, column->name);
    fast__store_sql_add(sql, op);
    fast__store_sql_add(sql, "?");
    return add_number(sql, number);
}

/* The next part of a list separated by commas, copied; false at its end. */
static fast_err next_part(const char **at, char part[CONDITION_MAX], bool *more_out)
{
    *more_out = **at != '\0';
    if (!*more_out)
        return FAST_OK;
    const size_t size = strcspn(*at, ",");
    if (size >= CONDITION_MAX)
        return fast__fail(FAST_EINVAL, "a condition of more than %d bytes", CONDITION_MAX - 1);
    memcpy(part, *at, size);
    part[size] = '\0';
    *at += size + ((*at)[size] == ',');
    return FAST_OK;
}

/* All conditions of a list; every one narrows the result further. */
static fast_err add_conditions(fast_store_sql *sql, const char *where)
{
    char part[CONDITION_MAX];
    bool more = true;

    for (const char *at = where;;) {
        FAST_TRY(next_part(&at, part, &more));
        if (!more)
            return FAST_OK;
        fast__store_sql_add(sql, " AND ");
        FAST_TRY(add_condition(sql, part));
    }
}

/* Statuses that a run may have, as a user types them. */
static const char *const status_names[] = { "running",  "done",     "target", "patience",
                                            "canceled", "diverged", "failed", "interrupted" };
enum { STATUS_COUNT = sizeof status_names / sizeof *status_names };

/* Names of statuses, for fast__name_find(). */
static const char *status_at(const void *ctx, int64_t i)
{
    (void)ctx;
    return status_names[i];
}

/* Runs whose status is one of a list. The status is computed (FAST_STORE_STATUS): a run whose
 * process is gone counts as interrupted before any writer has marked it. */
static fast_err add_statuses(fast_store_sql *sql, const char *statuses)
{
    char part[CONDITION_MAX];
    bool more = true;

    fast__store_sql_add(sql, " AND (" FAST_STORE_STATUS ") IN (");
    for (const char *at = statuses; more;) {
        const bool first = at == statuses;
        FAST_TRY(next_part(&at, part, &more));
        if (!more)
            break;
        if (fast__name_find(part, status_at, NULL, STATUS_COUNT, NULL) < 0)
            return fast__name_unknown("status", part, status_at, NULL, STATUS_COUNT);
        fast__store_sql_add(sql, first ? "?" : ",?");
        FAST_TRY(add_text(sql, part));
    }
    fast__store_sql_add(sql, ")");
    return FAST_OK;
}

/* Add the numbers of a list like "3,5,8". They are parsed and written anew: no text gets into the
 * statement. */
static fast_err add_ids(fast_store_sql *sql, const char *ids)
{
    char text[32];
    int count = 0;

    fast__store_sql_add(sql, " AND id IN (");
    for (const char *at = ids; *at; count++) {
        char *end = NULL;
        const long long id = *at >= '0' && *at <= '9' ? strtoll(at, &end, 10) : -1;

        if (id < 0 || count == IDS_MAX || (*end && *end != ',') || (*end && !end[1]))
            return fast__fail(FAST_EINVAL,
                              "ids are at most %d numbers of runs, separated by commas", IDS_MAX);
        snprintf(text, sizeof text, count ? ",%lld" : "%lld", id);
        fast__store_sql_add(sql, text);
        at = *end ? end + 1 : end;
    }
    fast__store_sql_add(sql, ")");
    return FAST_OK;
}

/* Conditions are joined by AND: the search for a word in any of the columns below, the list of
 * statuses, the tag, the numbers of runs, and the list of conditions. */
fast_err fast__store_where(fast_store_sql *sql, const fast_store_query *query)
{
    static const char *const searched[] = { "name",    "command", "system",   "strategy",
                                            "model",   "data",    "topology", "codec",
                                            "cluster", "error",   "batch_of" };
    /* "WHERE 1" lets every condition begin with AND. */
    fast__store_sql_add(sql, " WHERE 1");
    if (query->search && query->search[0]) {
        if (strlen(query->search) >= CONDITION_MAX)
            return fast__fail(FAST_EINVAL, "a search for more than %d bytes", CONDITION_MAX - 1);
        fast__store_sql_add(sql, " AND (id IN (SELECT run FROM tags WHERE tag LIKE ? ESCAPE '\\')");
        FAST_TRY(add_pattern(sql, "%", query->search, "%"));
        /* Notes are a table of their own, like tags: the run's row does not change with them. */
        fast__store_sql_add(sql, " OR id IN (SELECT run FROM notes WHERE text LIKE ? ESCAPE '\\')");
        FAST_TRY(add_pattern(sql, "%", query->search, "%"));
        for (size_t i = 0; i < sizeof searched / sizeof *searched; i++) {
            fast__store_sql_add(sql, " OR ");
            fast__store_sql_add(sql, searched[i]);
            fast__store_sql_add(sql, " LIKE ? ESCAPE '\\'");
            FAST_TRY(add_pattern(sql, "%", query->search, "%"));
        }
        fast__store_sql_add(sql, ")");
    }
    if (query->status && query->status[0])
        FAST_TRY(add_statuses(sql, query->status));
    if (query->tag && query->tag[0]) {
        fast__store_sql_add(sql, " AND ");
        FAST_TRY(add_tag(sql, "=", query->tag));
    }
    if (query->ids && query->ids[0])
        FAST_TRY(add_ids(sql, query->ids));
    if (query->where && query->where[0])
        FAST_TRY(add_conditions(sql, query->where));
    return sql->full ? fast__fail(FAST_EINVAL, "the query is too long") : FAST_OK;
}

fast_err fast__store_order(fast_store_sql *sql, const fast_store_query *query)
{
    const char *sort = query->sort && query->sort[0] ? query->sort : "-id";
    const bool down = sort[0] == '-';
    const fast_column *column = NULL;

    FAST_TRY(find_column(sort + down, &column));
    if (!column || column->kind == FAST_COLUMN_JSON)
        return fast__fail(FAST_EINVAL, "cannot sort by \"%s\"", sort + down);
    if (query->limit < 0 || query->offset < 0)
        return fast__fail(FAST_EINVAL, "limit and offset are not negative");
    fast__store_sql_add(sql, " ORDER BY ");
    fast__store_sql_add(sql, column->name);
    fast__store_sql_add(sql, down ? " DESC NULLS LAST, id DESC" : " ASC NULLS LAST, id ASC");
    char text[96];
    snprintf(text, sizeof text, " LIMIT %lld OFFSET %lld",
             query->limit ? (long long)query->limit : -1LL, (long long)query->offset);
    fast__store_sql_add(sql, text);
    return sql->full ? fast__fail(FAST_EINVAL, "the query is too long") : FAST_OK;
}
