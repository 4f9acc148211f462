/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second half of making an encoder: the kinds of the columns, replacements and categories.
 *
 *   all fields numbers          numeric
 *   all fields dates            date; day and month are told apart by the column's other fields
 *   half of them or more are    an error at the first other field: a typing mistake must not make
 *     numbers or dates          a text of a column of numbers
 *   otherwise                   text: one-hot up to `categories` different ones, else hashed, or
 *                               dropped if each row has its own
 *
 * Missing fields count for no kind. One pass over the file counts the fields by form and sums the
 * numbers of the training samples; a second one, if there are dates or texts, sums and collects
 * those.
 */
#include "base/memory.h"
#include "data/category_set.h"
#include "data/table_fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Counts of one column over all records, and sums over the training samples. 200 bytes a column are
 * less than 100 times the text of the shortest record. */
typedef struct column_facts {
    int64_t missing;                    /* fields without a value */
    int64_t present;                    /* all others */
    int64_t points;                     /* numbers with a decimal point or without decimals */
    int64_t commas;                     /* numbers with a decimal comma */
    int64_t dates[FAST_DATE_ORDERS];    /* dates, by the order of day, month and year */
    int64_t decimals;                   /* numbers with a decimal point */
    bool clock;                         /* some date has a time of day */
    bool text;                          /* to be read as text by choice */
    int64_t numbers;                    /* numbers of training samples, with point or comma */
    double number_sum;                  /* their sum: of a column of numbers, all have one form */
    int64_t trained;                    /* dates or texts of training samples */
    int64_t untrained;                  /* fields of training samples without a date or text */
    double sums[FAST_DATE_CLOCK_WIDTH]; /* of the features of dates of training samples */
    fast_category_set set;              /* texts of training samples */
} column_facts;

/* Mark the columns of a list joined by +, such as age+sex or 0+3. A name that has a + inside is
 * found, because the longest name wins. */
static fast_err mark_list(const fast_table_fit *fit, const char *option, const char *list,
                          bool *marks)
{
    const fast_table *table = fit->table;
    while (*list != 0) {
        size_t used = 0;
        int64_t found = -1;
        for (int64_t i = 0; i < table->column_count; i++) {
            const size_t size = strlen(table->columns[i].name);
            if (size > used && strncmp(list, table->columns[i].name, size) == 0 &&
                (list[size] == 0 || list[size] == '+')) {
                used = size;
                found = i;
            }
        }
        /* Not a name: perhaps a number of a column. */
        char *end;
        const long long number = strtoll(list, &end, 10);
        if (found < 0 && end > list && (*end == 0 || *end == '+') && number >= 0 &&
            number < table->column_count) {
            used = (size_t)(end - list);
            found = number;
        }
        if (found < 0)
            return fast__fail(FAST_EINVAL, "%s: %s=%.64s is not a column, nor columns joined by +",
                              fit->view.name, option, list);
        marks[found] = true;
        list += used + (list[used] == '+');
    }
    return FAST_OK;
}

/* Mark the columns to use, then those to leave out, then those to read as text. The target is no
 * input, whatever the lists say; to leave it out is a mistake, most likely about which column it
 * is. */
static fast_err choose_columns(const fast_table_config *c, fast_table_fit *fit, column_facts *facts)
{
    fast_table *table = fit->table;
    bool *marks;
    FAST_TRY(fast__alloc("choice of columns", 3 * table->column_count, sizeof *marks, &marks));
    bool *drop = marks + table->column_count;
    bool *text = drop + table->column_count;
    fast_err err = mark_list(fit, "columns", c->columns, marks);
    if (!err)
        err = mark_list(fit, "drop", c->drop, drop);
    if (!err && drop[table->target])
        err =
            fast__fail(FAST_EINVAL,
                       "%s: drop= names column %lld, which is the target; choose another one with "
                       "target=",
                       fit->view.name, (long long)table->target);
    if (!err)
        err = mark_list(fit, "categorical", c->categorical, text);
    for (int64_t i = 0; i < table->column_count && !err; i++) {
        const bool used = (c->columns[0] == 0 || marks[i]) && !drop[i] && i != table->target;
        table->columns[i].kind = used ? FAST_COLUMN_NUMERIC : FAST_COLUMN_DROPPED;
        facts[i].text = text[i];
    }
    fast__free(marks);
    return err;
}

/* Count one field by its form. */
static void count_field(const fast_csv_field *field, bool train, column_facts *facts)
{
    double value;
    if (fast__csv_missing(field)) {
        facts->missing++;
        return;
    }
    facts->present++;
    const bool point = fast__csv_number(field, '.', &value);
    const bool comma = !point && fast__csv_number(field, ',', &value);
    if (train && (point || comma)) {
        facts->numbers++;
        facts->number_sum += value;
    }
    facts->commas += comma;
    if (point) {
        facts->points++;
        facts->decimals += memchr(field->at, '.', (size_t)field->size) != NULL;
        return;
    }
    /* A text may be a date in two orders: 3/4/2024. The whole column decides. */
    for (int order = 0; order < FAST_DATE_ORDERS; order++) {
        bool clock;
        if (fast__date_parse(field->at, field->size, (fast_date_order)order, &value, &clock)) {
            facts->dates[order]++;
            facts->clock = facts->clock || clock;
        }
    }
}

/* Count the fields of all records by their form. */
static fast_err count_fields(const fast_table_fit *fit, column_facts *facts)
{
    fast_csv scan = fit->view.start;
    for (int64_t row = 0; row < fit->view.rows; row++) {
        fast__csv_record(&scan);
        for (int64_t i = 0; i < fit->view.columns; i++) {
            fast_csv_field field;
            FAST_TRY(fast__csv_next(&scan, &field));
            if (fit->table->columns[i].kind != FAST_COLUMN_DROPPED || i == fit->table->target)
                count_field(&field, fit->use[row] == FAST_USE_TRAIN, &facts[i]);
        }
    }
    return FAST_OK;
}

/* Choose the decimal character: a comma only if the file has numbers with commas and none with a
 * point, and fields are not separated by commas. */
static char choose_decimal(const fast_table_config *c, const fast_table_fit *fit,
                           const column_facts *facts)
{
    bool points = false, commas = false;
    for (int64_t i = 0; i < fit->view.columns; i++) {
        points = points || facts[i].decimals > 0;
        commas = commas || facts[i].commas > 0;
    }
    if (c->decimal != 0)
        return c->decimal == 2 ? ',' : '.';
    return commas && !points && fit->view.start.delimiter != ',' ? ',' : '.';
}

/* Tell whether a field has a form: a number, or a date in an order. */
static bool has_form(const fast_table *table, const fast_csv_field *field, bool date,
                     fast_date_order order)
{
    double value;
    bool clock;
    return date ? fast__date_parse(field->at, field->size, order, &value, &clock)
                : fast__csv_number(field, table->decimal, &value);
}

/* Fail at the first field of a column that is present and has not this form. */
static fast_err fail_first(const fast_table_fit *fit, int64_t column, bool date,
                           fast_date_order order, const char *expected)
{
    fast_csv scan = fit->view.start;
    for (int64_t row = 0; row < fit->view.rows; row++) {
        fast__csv_record(&scan);
        for (int64_t i = 0; i < fit->view.columns; i++) {
            fast_csv_field field;
            FAST_TRY(fast__csv_next(&scan, &field));
            if (i == column && !fast__csv_missing(&field) &&
                !has_form(fit->table, &field, date, order))
                return fast__table_fail(fit->table, &fit->view, column, &field, expected);
        }
    }
    FAST_ASSERT(false); /* the caller counted such a field */
    return FAST_EFORMAT;
}

/* Decide the order of a date column; *best_out is the number of its fields that have it. */
static fast_err choose_order(const fast_table_config *c, const fast_table_fit *fit, int64_t i,
                             const column_facts *facts, int64_t *best_out)
{
    fast_table_column *column = &fit->table->columns[i];
    int64_t best = 0;
    for (int order = 0; order < FAST_DATE_ORDERS; order++) {
        const bool allowed = c->dates == FAST_DATES_AUTO || c->dates == FAST_DATES_YMD + order;
        if (allowed && facts->dates[order] > best) {
            best = facts->dates[order];
            column->order = (fast_date_order)order;
        }
    }
    *best_out = best;
    if (c->dates == FAST_DATES_AUTO && best == facts->present &&
        facts->dates[FAST_DATE_DMY] == best && facts->dates[FAST_DATE_MDY] == best)
        return fail_first(fit, i, true, FAST_DATE_YMD,
                          "a date with day or month first; give dates=dmy or dates=mdy");
    return FAST_OK;
}

/* Decide whether a column has numbers, dates or text; a text is FAST_COLUMN_CATEGORY for now. */
static fast_err choose_kind(const fast_table_config *c, const fast_table_fit *fit, int64_t i,
                            const column_facts *facts)
{
    fast_table_column *column = &fit->table->columns[i];
    const int64_t numbers =
        facts->points + (fit->table->decimal == ',' ? facts->commas - facts->decimals : 0);
    int64_t dates = 0;
    if (column->kind == FAST_COLUMN_DROPPED)
        return FAST_OK;
    column->kind = FAST_COLUMN_CATEGORY;
    if (facts->present == 0) {
        column->kind = FAST_COLUMN_DROPPED;
        fit->dropped_own[i] = true;
        return FAST_OK;
    }
    if (facts->text)
        return FAST_OK;
    if (numbers < facts->present)
        FAST_TRY(choose_order(c, fit, i, facts, &dates));
    if (numbers == facts->present)
        column->kind = FAST_COLUMN_NUMERIC;
    else if (dates == facts->present)
        column->kind = FAST_COLUMN_DATE;
    else if (2 * numbers >= facts->present)
        return fail_first(fit, i, false, FAST_DATE_YMD,
                          "not a finite number as most of its fields; correct it, or read the "
                          "column as text: categorical=");
    else if (2 * dates >= facts->present)
        return fail_first(fit, i, true, column->order,
                          "not a date as most of its fields; correct it, or read dates as text: "
                          "dates=text");
    else if (c->text == FAST_TEXT_REFUSE)
        return fail_first(fit, i, false, FAST_DATE_YMD, "not a finite number, and text=refuse");
    else if (c->text == FAST_TEXT_DROP)
        column->kind = FAST_COLUMN_DROPPED;
    column->clock = column->kind == FAST_COLUMN_DATE && facts->clock;
    return FAST_OK;
}

/* Add a date or a text of a training sample to the sums or the categories of its column. */
static fast_err add_field(const fast_table_column *column, const fast_csv_field *field,
                          column_facts *facts)
{
    double value;
    bool clock;
    if (column->kind != FAST_COLUMN_CATEGORY && column->kind != FAST_COLUMN_DATE)
        return FAST_OK;
    const bool missing = fast__csv_missing(field);
    facts->untrained += missing;
    facts->trained += !missing;
    if (missing)
        return FAST_OK;
    if (column->kind == FAST_COLUMN_CATEGORY)
        return fast__category_put(&facts->set, field);
    float features[FAST_DATE_CLOCK_WIDTH] = { 0 };
    if (fast__date_parse(field->at, field->size, column->order, &value, &clock))
        fast__date_features(value, column->clock, features);
    for (int k = 0; k < FAST_DATE_CLOCK_WIDTH; k++)
        facts->sums[k] += (double)features[k];
    return FAST_OK;
}

/* Sum the dates and collect the categories of the training samples. */
static fast_err add_fields(const fast_table_fit *fit, column_facts *facts)
{
    fast_csv scan = fit->view.start;
    bool any = false;
    for (int64_t i = 0; i < fit->view.columns; i++)
        any = any || fit->table->columns[i].kind == FAST_COLUMN_CATEGORY ||
              fit->table->columns[i].kind == FAST_COLUMN_DATE;
    for (int64_t row = 0; any && row < fit->view.rows; row++) {
        fast__csv_record(&scan);
        for (int64_t i = 0; i < fit->view.columns; i++) {
            fast_csv_field field;
            FAST_TRY(fast__csv_next(&scan, &field));
            if (fit->use[row] == FAST_USE_TRAIN)
                FAST_TRY(add_field(&fit->table->columns[i], &field, &facts[i]));
        }
    }
    return FAST_OK;
}

/* Decide between one-hot, hashed and dropped for a column of text. */
static fast_err finish_text(const fast_table_config *c, const fast_table_fit *fit, int64_t i,
                            const column_facts *facts)
{
    fast_table_column *column = &fit->table->columns[i];
    const bool empty = facts->untrained > 0;
    const int64_t count = facts->set.count + empty;
    const bool fits = !facts->set.full && count <= c->categories;
    column->width = c->buckets;
    if (count == 0 || (count == 1 && empty)) { /* no training sample has a text */
        column->kind = FAST_COLUMN_DROPPED;
        fit->dropped_own[i] = true;
        return FAST_OK;
    }
    const bool own =
        c->text == FAST_TEXT_AUTO && !facts->text && fast__category_unique(&facts->set);
    if (fits && c->text != FAST_TEXT_HASH && !own)
        return fast__category_words(&facts->set, empty, &column->categories);
    if (c->text == FAST_TEXT_ONEHOT)
        return fast__fail(FAST_EINVAL,
                          "%s: column %lld (%s) has more than categories=%lld different texts; "
                          "raise it, or give text=hash",
                          fit->view.name, (long long)i, column->name, (long long)c->categories);
    column->kind = FAST_COLUMN_HASHED;
    if (own) {
        column->kind = FAST_COLUMN_DROPPED;
        fit->dropped_own[i] = true;
    }
    return FAST_OK;
}

/* Set the replacements and categories of all columns. */
static fast_err finish_columns(const fast_table_config *c, const fast_table_fit *fit,
                               const column_facts *facts)
{
    for (int64_t i = 0; i < fit->table->column_count; i++) {
        fast_table_column *column = &fit->table->columns[i];
        const double count = facts[i].trained > 0 ? (double)facts[i].trained : 1;
        if (column->kind == FAST_COLUMN_CATEGORY)
            FAST_TRY(finish_text(c, fit, i, &facts[i]));
        for (int k = 0; k < FAST_DATE_CLOCK_WIDTH; k++)
            column->fill[k] = (float)(facts[i].sums[k] / count);
        if (column->kind == FAST_COLUMN_NUMERIC && facts[i].numbers > 0)
            column->fill[0] = (float)(facts[i].number_sum / (double)facts[i].numbers);
        if (!isfinite(column->fill[0]))
            column->fill[0] = 0; /* the number that overflows is refused where it is read */
        column->indicator = c->missing == FAST_MISSING_INDICATOR && facts[i].missing > 0;
    }
    return FAST_OK;
}

/* Everything of fast__table_fit_columns() that can fail. */
static fast_err fit_parts(const fast_table_config *config, fast_table_fit *fit, column_facts *facts)
{
    /* Kinds by all records, then sums and categories by the training samples alone: test samples
     * must not take part in anything that the model learns from. */
    FAST_TRY(choose_columns(config, fit, facts));
    FAST_TRY(count_fields(fit, facts));
    fit->table->decimal = choose_decimal(config, fit, facts);
    fit->table->refuse = config->missing == FAST_MISSING_REFUSE;
    for (int64_t i = 0; i < fit->table->column_count; i++)
        FAST_TRY(choose_kind(config, fit, i, &facts[i]));
    FAST_TRY(add_fields(fit, facts));
    return finish_columns(config, fit, facts);
}

/* The counts live for this call only; the categories of the columns are copies. */
fast_err fast__table_fit_columns(const fast_table_config *config, fast_table_fit *fit)
{
    column_facts *facts;
    FAST_TRY(fast__alloc("counts of columns", fit->view.columns, sizeof *facts, &facts));
    const fast_err err = fit_parts(config, fit, facts);
    for (int64_t i = 0; i < fit->view.columns; i++)
        fast__category_fini(&facts[i].set);
    fast__free(facts);
    return err;
}
