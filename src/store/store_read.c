/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows for callers: lists of runs, one run, a run's rows in other tables, metrics by column; tags
 * and deletion.
 *
 * A statement names the columns of store_columns.c in their order, and a row of C is filled field
 * by field; texts point into SQLite's memory until the next row. Times: a list in the order of an
 * index reads what it gives; other orders and filters read every run once, but not the JSON
 * columns, which lie behind on pages of their own.
 */
#include "base/memory.h"
#include "store/sql.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TAG_MAX = 64 };

/* Copy the row that a statement stands on; `row` has the form's size. Texts stay SQLite's, until
 * the statement is stepped. Columns that were left out of the statement (the JSON ones of a list)
 * stay none. */
static void read_row(const fast_store_form *form, sqlite3_stmt *stmt, void *row)
{
    const int count = sqlite3_column_count(stmt);
    for (int i = 0; i < count && i < form->count; i++) {
        void *at = (char *)row + form->columns[i].offset;
        const bool none = sqlite3_column_type(stmt, i) == SQLITE_NULL;
        if (form->columns[i].kind == FAST_COLUMN_INT)
            *(int64_t *)at = none ? -1 : sqlite3_column_int64(stmt, i);
        else if (form->columns[i].kind == FAST_COLUMN_REAL)
            *(double *)at = none ? NAN : sqlite3_column_double(stmt, i);
        else
            *(const char **)at = none ? NULL : (const char *)sqlite3_column_text(stmt, i);
    }
}

/* Give every row of a bound statement to `each`. */
static fast_err each_row(fast_store *store, fast_store_table table, sqlite3_stmt *stmt,
                         fast_store_row_fn *each, void *ctx)
{
    union {
        fast_stored_run run; /* the largest */
        fast_stored_metric metric;
    } row;
    const fast_store_form *form = &fast__store_tables[table];
    FAST_ASSERT(form->size <= sizeof row);

    for (;;) {
        const int code = sqlite3_step(stmt);
        if (code == SQLITE_DONE)
            return FAST_OK;
        if (code != SQLITE_ROW)
            return fast__store_fail(store, code);
        fast__store_row_init(table, &row);
        read_row(form, stmt, &row);
        FAST_TRY(each(ctx, &row));
    }
}

/* Read a column of JSON, in one line: NULL if another program wrote something else, which json()
 * alone would fail on. */
static void add_json(fast_store_sql *sql, const char *name)
{
    const char *const parts[] = { "CASE WHEN json_valid(", name, ") THEN json(", name, ") END" };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        fast__store_sql_add(sql, parts[i]);
}

/* "SELECT a,b,c FROM table" with the JSON columns, which are last, if asked for. */
static void add_select(fast_store_sql *sql, fast_store_table table, bool json)
{
    const fast_store_form *form = &fast__store_tables[table];
    fast__store_sql_add(sql, "SELECT ");
    for (int64_t i = 0; i < form->count; i++) {
        const char *name = form->columns[i].name;
        if (form->columns[i].kind == FAST_COLUMN_JSON && !json)
            break;
        fast__store_sql_add(sql, i ? "," : "");
        if (form->columns[i].kind == FAST_COLUMN_JSON)
            add_json(sql, name);
        else
            fast__store_sql_add(sql, table == FAST_STORE_RUNS && strcmp(name, "status") == 0
                                         ? FAST_STORE_STATUS
                                         : name);
    }
    fast__store_sql_add(sql, " FROM ");
    fast__store_sql_add(sql, form->name);
}

/* A statement with the values of `sql`. */
static fast_err prepare_query(fast_store *store, const fast_store_sql *sql, sqlite3_stmt **out)
{
    sqlite3_stmt *stmt = NULL;
    FAST_TRY(fast__store_prepare(store, sql->text, false, &stmt));
    const fast_err err = fast__store_sql_bind(store, sql, stmt);
    if (err) {
        sqlite3_finalize(stmt);
        return err;
    }
    *out = stmt;
    return FAST_OK;
}

/* How many runs the conditions of a query leave. */
static fast_err count_runs(fast_store *store, const fast_store_query *query, fast_store_sql *sql,
                           int64_t *out)
{
    sqlite3_stmt *stmt = NULL;

    fast__store_sql_add(sql, "SELECT count(*) FROM runs");
    FAST_TRY(fast__store_where(sql, query));
    FAST_TRY(prepare_query(store, sql, &stmt));
    const int code = sqlite3_step(stmt);
    const fast_err err = code == SQLITE_ROW ? FAST_OK : fast__store_fail(store, code);
    if (!err)
        *out = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    return err;
}

/* Rows of a list, without their JSON columns. */
static fast_err list_runs(fast_store *store, const fast_store_query *query, fast_store_sql *sql,
                          fast_store_row_fn *each, void *ctx)
{
    sqlite3_stmt *stmt = NULL;

    add_select(sql, FAST_STORE_RUNS, false);
    FAST_TRY(fast__store_where(sql, query));
    FAST_TRY(fast__store_order(sql, query));
    FAST_TRY(prepare_query(store, sql, &stmt));
    const fast_err err = each_row(store, FAST_STORE_RUNS, stmt, each, ctx);
    sqlite3_finalize(stmt);
    return err;
}

/* The count and the list are two statements over the same conditions. A run that starts between
 * them is in the list and not in the count, which a page of a list can bear. */
fast_err fast_store_list(fast_store *store, const fast_store_query *query, fast_store_row_fn *each,
                         void *ctx, int64_t *total_out)
{
    static const fast_store_query all = { 0 };
    fast_store_sql sql = { .text = store->scratch };
    fast_err err = FAST_OK;
    int64_t total = 0;

    FAST_ASSERT(each != NULL);
    query = query ? query : &all;
    FAST_TRY(fast__check_size("fast_store_query", query->size, sizeof *query));
    if (total_out)
        err = count_runs(store, query, &sql, &total);
    fast__store_sql_fini(&sql);
    if (err)
        return err;
    sql = (fast_store_sql){ .text = store->scratch };
    err = list_runs(store, query, &sql, each, ctx);
    fast__store_sql_fini(&sql);
    if (!err && total_out)
        *total_out = total;
    return err;
}

/* Whether a row came. */
typedef struct found_row {
    fast_store_row_fn *each; /* whom to give it to; or NULL */
    void *ctx;               /* his */
    bool found;              /* it did */
    bool running;            /* and its process lives */
} found_row;

/* Takes the one row of find_run() and passes it on to the caller's function, if it has one. */
static fast_err on_found(void *ctx, const void *row)
{
    found_row *found = ctx;
    const fast_stored_run *run = row;
    found->found = true;
    found->running = run->status && strcmp(run->status, "running") == 0;
    return found->each ? found->each(found->ctx, row) : FAST_OK;
}

/* Find one run with all its columns. FAST_ENOENT if the store has no such run. */
static fast_err find_run(fast_store *store, int64_t run, found_row *found)
{
    fast_store_sql sql = { .text = store->scratch };
    sqlite3_stmt *stmt = NULL;
    char where[64];

    add_select(&sql, FAST_STORE_RUNS, true);
    snprintf(where, sizeof where, " WHERE id=%lld", (long long)run);
    fast__store_sql_add(&sql, where);
    FAST_ASSERT(!sql.full);
    FAST_TRY(fast__store_prepare(store, sql.text, false, &stmt));
    const fast_err err = each_row(store, FAST_STORE_RUNS, stmt, on_found, found);
    sqlite3_finalize(stmt);
    if (!err && !found->found)
        return fast__fail(FAST_ENOENT, "there is no run %lld in \"%s\"", (long long)run,
                          store->path);
    return err;
}

/* The row is lent for the call of `each` only. */
fast_err fast_store_find(fast_store *store, int64_t run, fast_store_row_fn *each, void *ctx)
{
    found_row found = { each, ctx, false, false };
    return find_run(store, run, &found);
}

/* The statement of a table is prepared once and reused: live views ask several times a second.
 * `each` may end the reading early by returning an error, which is passed on. */
fast_err fast_store_read(fast_store *store, fast_store_table table, int64_t run, int64_t after,
                         fast_store_row_fn *each, void *ctx)
{
    FAST_ASSERT(table > FAST_STORE_RUNS && table < FAST_STORE_TABLES);
    if (!store->selects[table]) {
        const char *key = fast__store_tables[table].columns[0].name;
        fast_store_sql sql = { .text = store->scratch };
        add_select(&sql, table, false);
        fast__store_sql_add(&sql, " WHERE run=?1");
        /* Tags have no number to continue after: they are always read whole. */
        if (table != FAST_STORE_TAGS) {
            fast__store_sql_add(&sql, " AND ");
            fast__store_sql_add(&sql, key);
            fast__store_sql_add(&sql, ">?2");
        }
        fast__store_sql_add(&sql, " ORDER BY ");
        fast__store_sql_add(&sql, table == FAST_STORE_LINKS ? "sender,receiver" : key);
        FAST_ASSERT(!sql.full);
        FAST_TRY(fast__store_prepare(store, sql.text, true, &store->selects[table]));
    }
    sqlite3_stmt *stmt = store->selects[table];
    sqlite3_bind_int64(stmt, 1, run);
    if (table != FAST_STORE_TAGS)
        sqlite3_bind_int64(stmt, 2, after);
    const fast_err err = each_row(store, table, stmt, each, ctx);
    sqlite3_reset(stmt);
    return err;
}

/* Change the tags of a run that exists. */
static fast_err change_tag(fast_store *store, const char *sql, int64_t run, const char *tag)
{
    sqlite3_stmt *stmt = NULL;
    found_row found = { NULL, NULL, false, false };

    if (!tag[0] || strlen(tag) > TAG_MAX || strchr(tag, ','))
        return fast__fail(FAST_EINVAL, "a tag is 1 to %d bytes without commas", TAG_MAX);
    for (const char *c = tag; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return fast__fail(FAST_EINVAL, "a tag holds no control characters");
    /* Tags of a run that does not exist would stay for ever. */
    FAST_TRY(find_run(store, run, &found));
    FAST_TRY(fast__store_prepare(store, sql, false, &stmt));
    sqlite3_bind_int64(stmt, 1, run);
    sqlite3_bind_text(stmt, 2, tag, -1, SQLITE_TRANSIENT);
    const int code = sqlite3_step(stmt);
    const fast_err err = code == SQLITE_DONE ? FAST_OK : fast__store_fail(store, code);
    sqlite3_finalize(stmt);
    return err;
}

/* Adding a tag twice is no error. */
fast_err fast_store_tag(fast_store *store, int64_t run, const char *tag)
{
    return change_tag(store, "INSERT OR IGNORE INTO tags (run,tag) VALUES (?,?)", run, tag);
}

/* Removing a tag that the run does not have is no error. */
fast_err fast_store_untag(fast_store *store, int64_t run, const char *tag)
{
    return change_tag(store, "DELETE FROM tags WHERE run=? AND tag=?", run, tag);
}

/* Delete the rows of a run in every table, the run's own row first. */
static fast_err delete_rows(fast_store *store, int64_t run)
{
    char sql[128];
    for (int i = 0; i < FAST_STORE_TABLES; i++) {
        snprintf(sql, sizeof sql, "DELETE FROM %s WHERE %s=%lld", fast__store_tables[i].name,
                 i == FAST_STORE_RUNS ? "id" : "run", (long long)run);
        FAST_TRY(fast__store_run(store, sql));
    }
    return FAST_OK;
}

/* One transaction: a reader sees the whole run or nothing of it. */
fast_err fast_store_delete(fast_store *store, int64_t run)
{
    found_row found = { NULL, NULL, false, false };

    FAST_TRY(find_run(store, run, &found));
    /* Its process would write rows of a run that is gone. */
    if (found.running)
        return fast__fail(FAST_EINVAL, "run %lld still runs; stop it first", (long long)run);
    FAST_TRY(fast__store_transaction_begin(store));
    const fast_err err = delete_rows(store, run);
    if (err) {
        sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
        return err;
    }
    return fast__store_transaction_end(store);
}

/* SQLite's own counter of commits by other connections: cheap enough to ask several times a
 * second. */
fast_err fast_store_changes(fast_store *store, int64_t *out)
{
    return fast__store_number(store, "PRAGMA data_version", out);
}
