/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first half of making an encoder: the first line, the column of the answer, which records are
 * used, and whether they are for training.
 *
 * Nothing is allocated by the number of columns before every record is known to have as many
 * fields and some record to have an answer: a hostile first line costs its own length.
 *
 * The first record has names if none of its fields is a number or a date and either a later record
 * has one there, or no field of it occurs again in its column: data repeat themselves, names do
 * not.
 */
#include "data/table_fit.h"

#include "base/memory.h"
#include "data/make.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_ROWS = 100 };

/* Tell whether a field is a number or a date in any spelling. */
static bool is_value(const fast_csv *csv, const fast_csv_field *field)
{
    double value;
    bool clock;
    bool found = fast__csv_number(field, '.', &value) || fast__csv_infinite(field) ||
                 (csv->delimiter != ',' && fast__csv_number(field, ',', &value));
    for (int order = 0; order < FAST_DATE_ORDERS && !found; order++)
        found = fast__date_parse(field->at, field->size, (fast_date_order)order, &value, &clock);
    return found;
}

/* Compare the records after the first with its fields: *number_out if one has a value where the
 * first has a text, *again_out if a text occurs again in its column. */
static fast_err compare_rows(const fast_table_view *view, const fast_csv_field *first,
                             fast_csv scan, bool *number_out, bool *again_out)
{
    for (int row = 0; row < HEADER_ROWS && fast__csv_record(&scan); row++) {
        fast_csv_field field = { 0 };
        for (int64_t i = 0; i < view->columns && !field.last; i++) {
            FAST_TRY(fast__csv_next(&scan, &field));
            if (first[i].size == 0)
                continue;
            *number_out = *number_out || is_value(&view->start, &field);
            *again_out = *again_out || (first[i].size == field.size &&
                                        memcmp(first[i].at, field.at, (size_t)field.size) == 0);
        }
        while (!field.last) /* the count of fields is checked later */
            FAST_TRY(fast__csv_next(&scan, &field));
    }
    return FAST_OK;
}

/* Guess whether the first record has names. */
static fast_err guess_header(const fast_table_view *view, int64_t target, bool *out)
{
    fast_csv scan = view->start;
    fast_csv_field *first;
    int64_t words = 0, values = 0;
    for (int64_t i = 0; i < view->columns; i++) {
        fast_csv_field field;
        FAST_TRY(fast__csv_next(&scan, &field));
        if (i == target || field.size == 0)
            continue;
        const bool value = is_value(&view->start, &field) || fast__csv_missing(&field);
        values += value;
        words += !value;
    }
    /* Most files end here: their first record has a number, or is empty. */
    *out = false;
    if (words == 0 || values > 0)
        return FAST_OK;
    FAST_TRY(fast__alloc("names of columns", view->columns, sizeof *first, &first));
    scan = view->start;
    fast_err err = FAST_OK;
    for (int64_t i = 0; i < view->columns && !err; i++)
        err = fast__csv_next(&scan, &first[i]);
    bool number = false, again = false;
    if (!err)
        err = compare_rows(view, first, scan, &number, &again);
    fast__free(first);
    *out = number || !again;
    return err;
}

/* Find the target by its name in the first record. */
static fast_err find_name(const char *name, const fast_table_view *view, int64_t *out)
{
    fast_csv scan = view->start;
    fast_csv_field field = { 0 };
    for (int64_t column = 0; !field.last; column++) {
        char word[FAST_WORD_MAX + 1];
        FAST_TRY(fast__csv_next(&scan, &field));
        if (fast__csv_word(&field, word) && strcmp(word, name) == 0) {
            *out = column;
            return FAST_OK;
        }
    }
    return fast__fail(FAST_EINVAL,
                      "%s has no column \"%s\"; name one of its first line's, or give "
                      "a number from 0",
                      view->name, name);
}

/* Inspect the first record: number of columns, the target's column, and whether it has names. */
static fast_err look(const fast_table_config *c, fast_table_view *view, fast_table *table,
                     fast_csv *names_out)
{
    if (!fast__csv_record(&view->start))
        return fast__fail(FAST_EFORMAT, "%s is empty", view->name);
    fast_csv scan = view->start;
    fast_csv_field field = { 0 };
    for (view->columns = 0; !field.last; view->columns++)
        FAST_TRY(fast__csv_next(&scan, &field));
    if (view->columns < 2)
        return fast__fail(FAST_EFORMAT,
                          "%s:%lld: one column, expected at least a feature and a target; check "
                          "delimiter=",
                          view->name, (long long)field.line);
    if (view->columns > FAST_TABLE_COLUMNS_MAX)
        return fast__fail(FAST_EFORMAT, "%s has %lld columns, at most %d are read", view->name,
                          (long long)view->columns, FAST_TABLE_COLUMNS_MAX);
    /* A target that is not a number is a name, and then the file must have names. */
    char *end;
    const long long number = strtoll(c->target, &end, 10);
    const bool named = *end != 0 || end == c->target;
    table->target = number < 0 ? view->columns + number : number;
    if (named && c->header == FAST_HEADER_NO)
        return fast__fail(FAST_EINVAL, "target=%s is a name, but header=no; give a number from 0",
                          c->target);
    if (named)
        FAST_TRY(find_name(c->target, view, &table->target));
    if (table->target < 0 || table->target >= view->columns)
        return fast__fail(FAST_EINVAL, "target=%s is not one of %s's %lld columns", c->target,
                          view->name, (long long)view->columns);
    table->header = named || c->header == FAST_HEADER_YES;
    if (!table->header && c->header == FAST_HEADER_AUTO)
        FAST_TRY(guess_header(view, table->target, &table->header));
    *names_out = view->start;
    if (table->header)
        view->start = scan;
    return FAST_OK;
}

/* Fail for a target that is missing; there are no columns with names yet. */
static fast_err fail_target(const fast_table_fit *fit, const fast_csv_field *field, bool all)
{
    return fast__fail(FAST_EFORMAT, "%s:%lld: column %lld is %s, and it is the target%s",
                      fit->view.name, (long long)field->line, (long long)fit->table->target,
                      field->size == 0 ? "empty" : "missing",
                      all ? ", as in every other row"
                          : "; missing_target=drop leaves such rows out");
}

/* Collect the answer of every record, and drop the records without one. */
static fast_err find_labels(const fast_table_config *c, fast_table_fit *fit)
{
    const int64_t rows = fit->view.rows;
    FAST_TRY(fast__alloc("labels of a table", rows, sizeof *fit->labels, &fit->labels));
    FAST_TRY(fast__alloc("use of records", rows, sizeof *fit->use, &fit->use));
    fast_csv scan = fit->view.start;
    for (int64_t row = 0; row < rows; row++) {
        fast__csv_record(&scan);
        for (int64_t column = 0; column < fit->view.columns; column++) {
            fast_csv_field field;
            FAST_TRY(fast__csv_next(&scan, &field));
            if (column == fit->table->target)
                fit->labels[row] = field;
        }
        /* A row without an answer teaches nothing, whatever its other fields are. */
        const bool missing =
            fast__csv_missing(&fit->labels[row]) || fast__csv_infinite(&fit->labels[row]);
        if (missing && c->missing_target == 1)
            return fail_target(fit, &fit->labels[row], false);
        fit->use[row] = missing ? FAST_USE_NONE : FAST_USE_TRAIN;
        fit->samples += !missing;
    }
    return fit->samples > 0 ? FAST_OK : fail_target(fit, &fit->labels[0], true);
}

/* Choose the records that fast__data_split() will move to the test set. */
static fast_err mark_test(const fast_table_config *c, fast_table_fit *fit)
{
    bool *test;
    if (c->test_file[0] != 0 || c->test_fraction == 0)
        return FAST_OK;
    FAST_TRY(fast__alloc("use of records", fit->samples, sizeof *test, &test));
    fast__data_split_mark(fit->samples, c->test_fraction, test);
    int64_t sample = 0;
    for (int64_t row = 0; row < fit->view.rows; row++) {
        if (fit->use[row] != FAST_USE_NONE && test[sample++])
            fit->use[row] = FAST_USE_TEST;
    }
    fast__free(test);
    return FAST_OK;
}

/* Make the columns with their names: those of the first line, or numbers. */
static fast_err make_columns(fast_table_fit *fit, fast_csv names)
{
    fast_table *table = fit->table;
    const int64_t count = fit->view.columns;
    FAST_TRY(fast__alloc("columns of a table", count, sizeof *table->columns, &table->columns));
    table->column_count = count;
    FAST_TRY(fast__alloc("columns", count, sizeof *fit->view.map, &fit->view.map));
    FAST_TRY(fast__alloc("columns", count, sizeof *fit->dropped_own, &fit->dropped_own));
    for (int64_t i = 0; i < count; i++) {
        fast_csv_field field;
        char word[FAST_WORD_MAX + 1];
        FAST_TRY(fast__csv_next(&names, &field));
        if (!table->header)
            snprintf(word, sizeof word, "%lld", (long long)i);
        else if (!fast__csv_word(&field, word))
            return fast__fail(FAST_EFORMAT, "%s: the name of column %lld is longer than %d bytes",
                              fit->view.name, (long long)i, FAST_WORD_MAX);
        FAST_TRY(
            fast__alloc("a column's name", (int64_t)strlen(word) + 1, 1, &table->columns[i].name));
        memcpy(table->columns[i].name, word, strlen(word) + 1);
        fit->view.map[i] = i;
    }
    return FAST_OK;
}

/* Free everything but the text; an empty fit is allowed. */
void fast__table_fit_fini(fast_table_fit *fit)
{
    fast__table_free(fit->table);
    fast__free(fit->view.map);
    fast__free(fit->labels);
    fast__free(fit->use);
    fast__free(fit->dropped_own);
    *fit = (fast_table_fit){ 0 };
}

/* Everything of fast__table_fit() that can fail. */
static fast_err fit_parts(const fast_table_config *config, fast_table_fit *fit)
{
    fast_csv names;
    FAST_TRY(fast__alloc("a table", 1, sizeof *fit->table, &fit->table));
    fit->table->target_scale = 1;
    FAST_TRY(look(config, &fit->view, fit->table, &names));
    FAST_TRY(fast__table_count(&fit->view));
    FAST_TRY(find_labels(config, fit));
    FAST_TRY(mark_test(config, fit));
    FAST_TRY(make_columns(fit, names));
    FAST_TRY(fast__table_fit_columns(config, fit));
    FAST_TRY(fast__table_fit_task(config, fit));
    return fast__table_finish(fit->view.name, fit->table);
}

/* The order matters: checks that cost nothing come before memory by the number of columns. */
fast_err fast__table_fit(const fast_table_config *config, const fast_table_source *source,
                         fast_table_fit *out)
{
    fast_table_fit fit = { .view = { .name = source->name }, .latin1 = source->latin1 };
    fast__csv_init(source->name, source->text, source->size, source->delimiter, &fit.view.start);
    const fast_err err = fit_parts(config, &fit);
    if (err) {
        fast__table_fit_fini(&fit);
        return err;
    }
    *out = fit;
    return FAST_OK;
}
