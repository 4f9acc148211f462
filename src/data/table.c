/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The encoder of a table at work: columns of a file are matched, and its records become samples.
 *
 * Names are matched by sorting those of the table and those of the file and walking both lists, so
 * that 10^5 columns cost no more than their text; a name that occurs twice is matched by its order.
 * A file without names, of a table with names, is read by position if it has as many columns.
 *
 *     file      town, age, note       table     age (numeric), town (category), note (dropped)
 *     map          1,   0,    2
 *     record    Bonn,  37, late       x         37 | 1 0 0     features of age | of town
 *
 * So the order of columns in a file does not matter, columns that the table does not have are
 * ignored, and a column that the table needs and the file lacks is an error with its name.
 */
#include "data/table.h"

#include "base/hash.h"
#include "base/memory.h"
#include "data/make.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_MAX = 32 };

/* A column's name with its number, to be sorted. */
typedef struct named_column {
    char name[FAST_WORD_MAX + 1]; /* of the first line */
    int64_t column;               /* number from 0 */
} named_column;

/* Free the texts; an empty list is allowed. */
void fast__table_words_fini(fast_table_words *words)
{
    fast__free(words->text);
    fast__free(words->at);
    *words = (fast_table_words){ 0 };
}

/* Measure the texts first, so that one block holds them all. */
fast_err fast__table_words_make(int64_t count, const char *const *texts, fast_table_words *out)
{
    fast_table_words words = { .count = count };
    size_t size = 0;
    for (int64_t i = 0; i < count; i++)
        size += strlen(texts[i]) + 1;
    FAST_TRY(fast__alloc("words of a table", (int64_t)size, 1, &words.text));
    const fast_err err = fast__alloc("words of a table", count, sizeof *words.at, &words.at);
    if (err) {
        fast__free(words.text);
        return err;
    }
    char *at = words.text;
    for (int64_t i = 0; i < count; i++) {
        words.at[i] = at;
        memcpy(at, texts[i], strlen(texts[i]) + 1);
        at += strlen(texts[i]) + 1;
    }
    *out = words;
    return FAST_OK;
}

/* Order of a text and a word, for bsearch(). */
static int compare_words(const void *text, const void *word)
{
    return strcmp(text, *(const char *const *)word);
}

/* Search by halves; a list without words has no block to search. */
int64_t fast__table_words_find(const fast_table_words *words, const char *text)
{
    if (words->count == 0)
        return -1;
    const char **found =
        bsearch(text, words->at, (size_t)words->count, sizeof *words->at, compare_words);
    return found != NULL ? found - words->at : -1;
}

/* Free a table that may be unfinished: columns may lack names and categories. */
void fast__table_free(fast_table *table)
{
    if (table == NULL)
        return;
    for (int64_t i = 0; i < table->column_count && table->columns != NULL; i++) {
        fast__free(table->columns[i].name);
        fast__table_words_fini(&table->columns[i].categories);
    }
    fast__free(table->columns);
    fast__table_words_fini(&table->classes);
    fast__free(table->values);
    fast__free(table);
}

/* Number the features of one column after those before it. */
static void number_features(fast_table *table, fast_table_column *column)
{
    if (column->kind == FAST_COLUMN_NUMERIC)
        column->width = 1;
    else if (column->kind == FAST_COLUMN_CATEGORY)
        column->width = column->categories.count;
    else if (column->kind == FAST_COLUMN_DATE)
        column->width = column->clock ? FAST_DATE_CLOCK_WIDTH : FAST_DATE_WIDTH;
    else if (column->kind == FAST_COLUMN_DROPPED)
        column->width = 0;
    if (column->kind != FAST_COLUMN_NUMERIC && column->kind != FAST_COLUMN_DATE)
        column->indicator = false;
    column->width += column->indicator;
    column->first = table->features;
    table->features += column->width;
}

/* Everything here follows from the kinds and the names of classes, so that a table that was read
 * from JSON is finished by the same code as one that was made. */
fast_err fast__table_finish(const char *where, fast_table *table)
{
    FAST_ASSERT(table->target >= 0 && table->target < table->column_count);
    table->features = 0;
    table->columns[table->target].kind = FAST_COLUMN_DROPPED;
    for (int64_t i = 0; i < table->column_count; i++) {
        number_features(table, &table->columns[i]);
        if (table->features > FAST_TABLE_FEATURES_MAX)
            return fast__fail(FAST_EFORMAT, "%s: a table has at most %d features", where,
                              FAST_TABLE_FEATURES_MAX);
    }
    if (table->features == 0)
        return fast__fail(FAST_EFORMAT, "%s: no column is left to predict from", where);
    if (table->regression || !table->numbers)
        return FAST_OK;
    FAST_TRY(fast__alloc("numbers of classes", table->classes.count, sizeof *table->values,
                         &table->values));
    for (int64_t i = 0; i < table->classes.count; i++) {
        const fast_csv_field field = { .at = table->classes.at[i],
                                       .size = (int64_t)strlen(table->classes.at[i]) };
        double value = 0;
        if (!fast__csv_number(&field, '.', &value) || (i > 0 && value <= table->values[i - 1]))
            return fast__fail(FAST_EFORMAT, "%s: classes are not numbers in order", where);
        table->values[i] = value;
    }
    return FAST_OK;
}

/* Say where and what: "iris.csv:3: column 1 (width) is "x", not a finite number". */
fast_err fast__table_fail(const fast_table *table, const fast_table_view *view, int64_t column,
                          const fast_csv_field *field, const char *expected)
{
    int64_t number = 0; /* of the column in this file */
    while (number < view->columns - 1 && view->map[number] != column)
        number++;
    const bool named = table->header;
    const int size = field->size < SHOWN_MAX ? (int)field->size : SHOWN_MAX;
    char value[SHOWN_MAX + 8];
    if (field->size == 0)
        snprintf(value, sizeof value, "empty");
    else
        snprintf(value, sizeof value, "\"%.*s\"", size, field->at);
    return fast__fail(FAST_EFORMAT, "%s:%lld: column %lld%s%.64s%s is %s%s%s", view->name,
                      (long long)field->line, (long long)number, named ? " (" : "",
                      named ? table->columns[column].name : "", named ? ")" : "", value,
                      expected[0] ? ", " : "", expected);
}

/* Scan every record once; the readers after this need not check the number of fields. */
fast_err fast__table_count(fast_table_view *view)
{
    fast_csv scan = view->start;
    for (view->rows = 0; fast__csv_record(&scan); view->rows++) {
        const int64_t line = scan.line;
        fast_csv_field field = { 0 };
        int64_t count = 0;
        for (; !field.last; count++)
            FAST_TRY(fast__csv_next(&scan, &field));
        if (count != view->columns)
            return fast__fail(FAST_EFORMAT, "%s:%lld: %lld fields, expected %lld", view->name,
                              (long long)line, (long long)count, (long long)view->columns);
    }
    if (view->rows == 0)
        return fast__fail(FAST_EFORMAT, "%s has names but no samples", view->name);
    return FAST_OK;
}

/* Encode a missing field. */
static fast_err encode_missing(const fast_table *table, const fast_table_view *view, int64_t index,
                               const fast_csv_field *field, float *x)
{
    const fast_table_column *column = &table->columns[index];
    if (table->refuse)
        return fast__table_fail(table, view, index, field,
                                field->size > 0 ? "a missing value; missing=mean replaces it" : "");
    if (column->kind == FAST_COLUMN_CATEGORY && column->categories.at[0][0] == 0)
        x[0] = 1;
    if (column->kind == FAST_COLUMN_CATEGORY || column->kind == FAST_COLUMN_HASHED)
        return FAST_OK;
    memcpy(x, column->fill, (size_t)(column->width - column->indicator) * sizeof *x);
    if (column->indicator)
        x[column->width - 1] = 1;
    return FAST_OK;
}

/* Encode a text: a category or the bucket of its hash. */
static void encode_text(const fast_table_column *column, const fast_csv_field *field, float *x)
{
    char word[FAST_WORD_MAX + 1];
    const bool fits = fast__csv_word(field, word);
    if (column->kind == FAST_COLUMN_CATEGORY) {
        const int64_t i = fits ? fast__table_words_find(&column->categories, word) : -1;
        if (i >= 0)
            x[i] = 1;
        return;
    }
    /* Models depend on this hash: another one needs another kind of column. */
    const uint64_t hash =
        fits ? fast__hash(word, strlen(word), 0) : fast__hash(field->at, (size_t)field->size, 0);
    x[hash % (uint64_t)column->width] = 1;
}

/* Encode one field at its features x. */
static fast_err encode_field(const fast_table *table, const fast_table_view *view, int64_t index,
                             const fast_csv_field *field, float *x)
{
    const fast_table_column *column = &table->columns[index];
    double value;
    bool clock;
    switch (column->kind) {
    case FAST_COLUMN_NUMERIC:
        if (!fast__csv_number(field, table->decimal, &value) || !isfinite((float)value))
            return fast__table_fail(table, view, index, field, "not a finite number");
        x[0] = (float)value;
        break;
    case FAST_COLUMN_DATE:
        if (!fast__date_parse(field->at, field->size, column->order, &value, &clock))
            return fast__table_fail(table, view, index, field, "not a date as in the other rows");
        fast__date_features(value, column->clock, x);
        break;
    case FAST_COLUMN_CATEGORY:
    case FAST_COLUMN_HASHED:
        encode_text(column, field, x);
        break;
    case FAST_COLUMN_DROPPED:
        break;
    }
    return FAST_OK;
}

/* Encode a record field by field, each at the features of its column, in any order of columns. */
fast_err fast__table_encode(const fast_table *table, const fast_table_view *view, fast_csv *scan,
                            float *x, fast_csv_field *answer, int64_t missing[2])
{
    fast__csv_record(scan);
    for (int64_t i = 0; i < view->columns; i++) {
        fast_csv_field field;
        FAST_TRY(fast__csv_next(scan, &field));
        const int64_t index = view->map[i];
        if (index == table->target)
            *answer = field;
        if (index < 0 || table->columns[index].kind == FAST_COLUMN_DROPPED)
            continue;
        float *to = x + table->columns[index].first;
        if (!fast__csv_missing(&field)) {
            FAST_TRY(encode_field(table, view, index, &field, to));
            continue;
        }
        FAST_TRY(encode_missing(table, view, index, &field, to));
        missing[table->columns[index].kind == FAST_COLUMN_CATEGORY ||
                table->columns[index].kind == FAST_COLUMN_HASHED]++;
    }
    return FAST_OK;
}

/* Find the class of a number; -1 if there is no such class. */
static int64_t find_value(const fast_table *table, double value)
{
    int64_t low = 0, high = table->classes.count;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (table->values[middle] < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low < table->classes.count && table->values[low] == value ? low : -1;
}

/* Look up the class, or convert the number; what neither finds is an error with its place. */
fast_err fast__table_answer(const fast_table *table, const fast_table_view *view,
                            const fast_csv_field *field, int32_t *label, float *target)
{
    double value;
    char word[FAST_WORD_MAX + 1];
    if (table->regression) {
        if (!fast__csv_number(field, table->decimal, &value) || !isfinite((float)value))
            return fast__table_fail(table, view, table->target, field, "not a finite number");
        *target = ((float)value - table->target_mean) * table->target_scale;
        return FAST_OK;
    }
    int64_t class = -1;
    if (!table->numbers && fast__csv_word(field, word))
        class = fast__table_words_find(&table->classes, word);
    if (table->numbers && fast__csv_number(field, table->decimal, &value))
        class = find_value(table, value);
    if (class < 0)
        return fast__table_fail(table, view, table->target, field,
                                "a class that does not occur in the training file");
    *label = (int32_t) class;
    return FAST_OK;
}

/* One channel a feature: each has a mean and a scale of its own. */
fast_err fast__table_make(const fast_table *table, int64_t rows, fast_data **out)
{
    const fast_data like = { .count = rows,
                             .rank = 1,
                             .shape = { table->features },
                             .dtype = FAST_F32,
                             .channels = table->features,
                             .classes = table->regression ? 0 : table->classes.count,
                             .outputs = 1,
                             .target_mean = table->target_mean,
                             .target_scale = table->target_scale };
    return fast__data_make(&like, out);
}

/* Order of names, and of numbers where names are equal. */
static int compare_names(const void *left, const void *right)
{
    const named_column *a = left;
    const named_column *b = right;
    const int order = strcmp(a->name, b->name);
    return order != 0 ? order : (a->column > b->column) - (a->column < b->column);
}

/* Sort the names of the record at view->start, and move to the next record. */
static fast_err read_names(fast_table_view *view, named_column *names)
{
    for (int64_t i = 0; i < view->columns; i++) {
        fast_csv_field field;
        FAST_TRY(fast__csv_next(&view->start, &field));
        /* A name that is too long cannot be one of the table's. */
        if (!fast__csv_word(&field, names[i].name))
            names[i].name[0] = 0;
        names[i].column = i;
    }
    qsort(names, (size_t)view->columns, sizeof *names, compare_names);
    return FAST_OK;
}

/* Walk both sorted lists: view->map gets the matches. Returns how many there are; *absent_out is a
 * column of the table that has features and that the file lacks, or -1. */
static int64_t join_names(const fast_table *table, const named_column *ours,
                          const fast_table_view *view, const named_column *theirs, bool answers,
                          int64_t *absent_out)
{
    int64_t k = 0, found = 0;
    *absent_out = -1;
    for (int64_t i = 0; i < table->column_count; i++) {
        while (k < view->columns && strcmp(theirs[k].name, ours[i].name) < 0)
            k++;
        const int64_t index = ours[i].column;
        if (k < view->columns && strcmp(theirs[k].name, ours[i].name) == 0) {
            view->map[theirs[k++].column] = index;
            found++;
        } else if (table->columns[index].width > 0 || (answers && index == table->target)) {
            *absent_out = index;
        }
    }
    return found;
}

/* Match by position: the columns of the training file, or without an answer all but the target. */
static fast_err match_places(const fast_table *table, bool answers, fast_table_view *view)
{
    const bool whole = view->columns == table->column_count;
    if (!whole && (answers || view->columns != table->column_count - 1))
        return fast__fail(FAST_EFORMAT, "%s has %lld columns, and the training file has %lld",
                          view->name, (long long)view->columns, (long long)table->column_count);
    for (int64_t i = 0; i < view->columns; i++)
        view->map[i] = whole || i < table->target ? i : i + 1;
    return FAST_OK;
}

/* Tell whether the record at view->start has a field where the table expects a number or a date,
 * and none of them is one: then it has names. */
static bool is_header(const fast_table *table, const fast_table_view *view)
{
    fast_csv scan = view->start;
    bool words = false;
    for (int64_t i = 0; i < view->columns; i++) {
        fast_csv_field field;
        double value;
        bool clock;
        if (fast__csv_next(&scan, &field))
            return false;
        const int64_t index = view->map[i];
        const fast_table_column *column = &table->columns[index];
        const bool target = index == table->target && (table->regression || table->numbers);
        if (column->kind != FAST_COLUMN_NUMERIC && column->kind != FAST_COLUMN_DATE && !target)
            continue;
        if (column->kind == FAST_COLUMN_DATE
                ? fast__date_parse(field.at, field.size, column->order, &value, &clock)
                : fast__csv_number(&field, table->decimal, &value))
            return false;
        words = words || !fast__csv_missing(&field);
    }
    return words;
}

/* Match the names of the first record; *by_name_out is false if it has none of the table's. */
static fast_err match_names(const fast_table *table, bool answers, fast_table_view *view,
                            bool *by_name_out)
{
    named_column *names;
    const int64_t count = view->columns + table->column_count;
    fast_csv start = view->start;
    FAST_TRY(fast__alloc("names of columns", count, sizeof *names, &names));
    named_column *ours = names + view->columns;
    for (int64_t i = 0; i < table->column_count; i++) {
        memcpy(ours[i].name, table->columns[i].name, strlen(table->columns[i].name) + 1);
        ours[i].column = i;
    }
    qsort(ours, (size_t)table->column_count, sizeof *ours, compare_names);
    fast_err err = read_names(view, names);
    int64_t absent = -1, found = 0;
    if (!err)
        found = join_names(table, ours, view, names, answers, &absent);
    fast__free(names);
    if (!err && found > 0 && absent >= 0)
        err = fast__fail(FAST_EFORMAT, "%s has no column \"%s\", which the training file has",
                         view->name, table->columns[absent].name);
    if (found == 0)
        view->start = start;
    *by_name_out = found > 0;
    return err;
}

/* Inspect the first record, match the columns and count the records. */
static fast_err open_view(const fast_table *table, const fast_table_source *source, bool answers,
                          fast_table_view *view)
{
    if (!fast__csv_record(&view->start))
        return fast__fail(FAST_EFORMAT, "%s is empty", view->name);
    fast_csv scan = view->start;
    fast_csv_field field = { 0 };
    for (view->columns = 0; !field.last; view->columns++)
        FAST_TRY(fast__csv_next(&scan, &field));
    if (view->columns > FAST_TABLE_COLUMNS_MAX)
        return fast__fail(FAST_EFORMAT, "%s has %lld columns, at most %d are read", view->name,
                          (long long)view->columns, FAST_TABLE_COLUMNS_MAX);
    FAST_TRY(fast__alloc("columns", view->columns, sizeof *view->map, &view->map));
    memset(view->map, -1, (size_t)view->columns * sizeof *view->map);
    /* Names first; a file without the table's names may still be one without a first line. */
    bool by_name = false;
    if (table->header)
        FAST_TRY(match_names(table, answers, view, &by_name));
    if (!by_name) {
        FAST_TRY(match_places(table, answers, view));
        if (is_header(table, view)) {
            if (table->header)
                return fast__fail(FAST_EFORMAT, "%s has none of the training file's columns",
                                  view->name);
            view->start = scan;
        }
    }
    if (source->line > 0)
        view->start.line = source->line;
    return fast__table_count(view);
}

/* Encode all records of a view; those without an answer are left out if answers are wanted. */
static fast_err read_rows(const fast_table *table, const fast_table_view *view, bool answers,
                          fast_data *data)
{
    fast_csv scan = view->start;
    int64_t used = 0, missing[2] = { 0 };
    for (int64_t row = 0; row < view->rows; row++) {
        fast_csv_field answer = { 0 };
        float *x = (float *)data->x + used * data->features;
        FAST_TRY(fast__table_encode(table, view, &scan, x, &answer, missing));
        /* The row of x is used by the next record. */
        if (answers && (fast__csv_missing(&answer) || fast__csv_infinite(&answer))) {
            memset(x, 0, (size_t)data->features * sizeof *x);
            continue;
        }
        if (answers)
            FAST_TRY(fast__table_answer(table, view, &answer,
                                        data->labels != NULL ? data->labels + used : NULL,
                                        data->targets != NULL ? data->targets + used : NULL));
        used++;
    }
    if (used == 0)
        return fast__fail(FAST_EFORMAT, "%s: the target is missing in every row", view->name);
    data->count = used;
    return FAST_OK;
}

/* Match the columns, count the records, then encode them in one pass. */
fast_err fast__table_read(const fast_table *table, const fast_table_source *source, bool answers,
                          fast_data **out)
{
    fast_table_view view = { .name = source->name };
    fast_data *data = NULL;
    fast__csv_init(source->name, source->text, source->size, source->delimiter, &view.start);
    fast_err err = open_view(table, source, answers, &view);
    if (!err)
        err = fast__table_make(table, view.rows, &data);
    if (!err)
        err = read_rows(table, &view, answers, data);
    fast__free(view.map);
    if (err) {
        fast_data_free(data);
        return err;
    }
    *out = data;
    return FAST_OK;
}
