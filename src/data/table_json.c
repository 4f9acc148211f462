/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table's encoder as JSON, and back. Files of models have it, so that it may be hostile: sizes
 * are limited before memory is taken, and an encoder that was read is as consistent as one that was
 * made.
 *
 *   {"kind": "table", "header": true, "decimal": ".", "missing": "replace", "target": 2,
 *    "task": "classes", "target_mean": 0, "target_scale": 1, "numbers": false,
 *    "classes": ["no", "yes"],
 *    "columns": [{"name": "age", "kind": "numeric", "indicator": false, "fill": [29.5]},
 *                {"name": "town", "kind": "category", "categories": ["", "Bonn", "Ulm"]},
 *                {"name": "answer", "kind": "dropped"},
 *                {"name": "street", "kind": "hashed", "buckets": 32},
 *                {"name": "born", "kind": "date", "order": "ymd", "clock": false,
 *                 "indicator": false, "fill": [9000.5, 0, 1, 0, 1]}]}
 */
#include "base/memory.h"
#include "data/make.h"
#include "data/table.h"

#include <math.h>
#include <string.h>

/* Words of the enumerations, in their order. */
static const char *const kinds[] = { "numeric", "category", "hashed", "date", "dropped" };
static const char *const orders[] = { "ymd", "dmy", "mdy" };

enum { KIND_COUNT = sizeof kinds / sizeof *kinds, BUCKETS_MAX = 1 << 20 };

/* An array of texts. */
static json_t *words_json(const fast_table_words *words)
{
    json_t *array = json_array();
    for (int64_t i = 0; i < words->count; i++)
        fast__json_append(&array, fast__json_text(words->at[i]));
    return array;
}

/* The description of one column. */
static json_t *column_json(const fast_table_column *column)
{
    json_t *object = json_object();
    fast__json_set(&object, "name", fast__json_text(column->name));
    fast__json_set(&object, "kind", fast__json_text(kinds[column->kind]));
    if (column->kind == FAST_COLUMN_CATEGORY)
        fast__json_set(&object, "categories", words_json(&column->categories));
    if (column->kind == FAST_COLUMN_HASHED)
        fast__json_set(&object, "buckets", json_integer(column->width));
    if (column->kind == FAST_COLUMN_DATE) {
        fast__json_set(&object, "order", fast__json_text(orders[column->order]));
        fast__json_set(&object, "clock", json_boolean(column->clock));
    }
    if (column->kind != FAST_COLUMN_NUMERIC && column->kind != FAST_COLUMN_DATE)
        return object;
    json_t *fill = json_array();
    for (int64_t i = 0; i < column->width - column->indicator; i++)
        fast__json_append(&fill, fast__json_exact((double)column->fill[i]));
    fast__json_set(&object, "indicator", json_boolean(column->indicator));
    fast__json_set(&object, "fill", fill);
    return object;
}

/* Everything that fast__table_finish() cannot derive is written. */
json_t *fast__table_json(const fast_table *table)
{
    json_t *object = json_object();
    json_t *columns = json_array();
    const char decimal[] = { table->decimal, 0 };
    for (int64_t i = 0; i < table->column_count; i++)
        fast__json_append(&columns, column_json(&table->columns[i]));
    fast__json_set(&object, "kind", fast__json_text("table"));
    fast__json_set(&object, "header", json_boolean(table->header));
    fast__json_set(&object, "decimal", fast__json_text(decimal));
    fast__json_set(&object, "missing", fast__json_text(table->refuse ? "refuse" : "replace"));
    fast__json_set(&object, "target", json_integer(table->target));
    fast__json_set(&object, "task", fast__json_text(table->regression ? "regression" : "classes"));
    fast__json_set(&object, "target_mean", fast__json_exact((double)table->target_mean));
    fast__json_set(&object, "target_scale", fast__json_exact((double)table->target_scale));
    fast__json_set(&object, "numbers", json_boolean(table->numbers));
    fast__json_set(&object, "classes", words_json(&table->classes));
    fast__json_set(&object, "columns", columns);
    return object;
}

/* Fail for a member that is absent or wrong. */
static fast_err fail_member(const char *where, const char *key)
{
    return fast__fail(FAST_EFORMAT, "%s: \"%s\" of a table is missing or wrong", where, key);
}

/* Read a truth value; a member that is absent is false. */
static fast_err read_bool(const char *where, const json_t *object, const char *key, bool *out)
{
    const json_t *value = json_object_get(object, key);
    if (value != NULL && !json_is_boolean(value))
        return fail_member(where, key);
    *out = json_is_true(value);
    return FAST_OK;
}

/* Read a whole number of [least, most]. */
static fast_err read_int(const char *where, const json_t *object, const char *key, int64_t least,
                         int64_t most, int64_t *out)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value) || json_integer_value(value) < least ||
        json_integer_value(value) > most)
        return fail_member(where, key);
    *out = json_integer_value(value);
    return FAST_OK;
}

/* Read the place of a text in a list. */
static fast_err read_choice(const char *where, const json_t *object, const char *key,
                            const char *const *list, int count, int *out)
{
    const char *text = json_string_value(json_object_get(object, key));
    for (int i = 0; text != NULL && i < count; i++) {
        if (strcmp(text, list[i]) == 0) {
            *out = i;
            return FAST_OK;
        }
    }
    return fail_member(where, key);
}

/* Read an array of up to `most` texts, in strict order if `sorted`. */
static fast_err read_words(const char *where, const json_t *object, const char *key, bool sorted,
                           int64_t most, fast_table_words *out)
{
    const json_t *array = json_object_get(object, key);
    const char **texts;
    const int64_t count = (int64_t)json_array_size(array);
    if (!json_is_array(array) || count > most)
        return fail_member(where, key);
    FAST_TRY(fast__alloc("words of a table", count, sizeof *texts, &texts));
    fast_err err = FAST_OK;
    for (int64_t i = 0; i < count && !err; i++) {
        texts[i] = json_string_value(json_array_get(array, (size_t)i));
        if (texts[i] == NULL || strlen(texts[i]) > FAST_WORD_MAX ||
            (sorted && i > 0 && strcmp(texts[i - 1], texts[i]) >= 0))
            err = fail_member(where, key);
    }
    if (!err)
        err = fast__table_words_make(count, texts, out);
    fast__free(texts);
    return err;
}

/* Read the replacements of a missing field, as many as the column has features. */
static fast_err read_fill(const char *where, const json_t *object, fast_table_column *column)
{
    /* 15 digits, as JSON is printed with, give the same float again. */
    const json_t *fill = json_object_get(object, "fill");
    const size_t count = column->kind == FAST_COLUMN_NUMERIC ? 1
                         : column->clock                     ? FAST_DATE_CLOCK_WIDTH
                                                             : FAST_DATE_WIDTH;
    if (json_array_size(fill) != count)
        return fail_member(where, "fill");
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_array_get(fill, i);
        column->fill[i] = (float)json_number_value(value);
        if (!json_is_number(value) || !isfinite(column->fill[i]))
            return fail_member(where, "fill");
    }
    return FAST_OK;
}

/* Read one column. */
static fast_err read_column(const char *where, const json_t *object, fast_table_column *column)
{
    const char *name = json_string_value(json_object_get(object, "name"));
    int kind, order = 0;
    if (name == NULL || strlen(name) > FAST_WORD_MAX)
        return fail_member(where, "name");
    FAST_TRY(fast__alloc("a column's name", (int64_t)strlen(name) + 1, 1, &column->name));
    memcpy(column->name, name, strlen(name) + 1);
    FAST_TRY(read_choice(where, object, "kind", kinds, KIND_COUNT, &kind));
    column->kind = (fast_column_kind)kind;
    FAST_TRY(read_bool(where, object, "indicator", &column->indicator));
    FAST_TRY(read_bool(where, object, "clock", &column->clock));
    switch (column->kind) {
    case FAST_COLUMN_CATEGORY:
        FAST_TRY(
            read_words(where, object, "categories", true, FAST_CLASSES_MAX, &column->categories));
        if (column->categories.count == 0)
            return fail_member(where, "categories");
        break;
    case FAST_COLUMN_HASHED:
        return read_int(where, object, "buckets", 1, BUCKETS_MAX, &column->width);
    case FAST_COLUMN_DATE:
        FAST_TRY(read_choice(where, object, "order", orders, FAST_DATE_ORDERS, &order));
        column->order = (fast_date_order)order;
        return read_fill(where, object, column);
    case FAST_COLUMN_NUMERIC:
        return read_fill(where, object, column);
    case FAST_COLUMN_DROPPED:
        break;
    }
    return FAST_OK;
}

/* Read everything but the derived fields. */
static fast_err read_table(const char *where, const json_t *json, fast_table *table)
{
    static const char *const decimals[] = { ".", "," };
    static const char *const missing[] = { "replace", "refuse" };
    static const char *const tasks[] = { "classes", "regression" };
    int choice;
    const json_t *columns = json_object_get(json, "columns");
    /* The size of what is not an array is 0. */
    const size_t count = json_array_size(columns);
    if (count < 1 || count > FAST_TABLE_COLUMNS_MAX)
        return fail_member(where, "columns");
    FAST_TRY(
        fast__alloc("columns of a table", (int64_t)count, sizeof *table->columns, &table->columns));
    table->column_count = (int64_t)count;
    FAST_TRY(read_bool(where, json, "header", &table->header));
    FAST_TRY(read_choice(where, json, "decimal", decimals, 2, &choice));
    table->decimal = decimals[choice][0];
    FAST_TRY(read_choice(where, json, "missing", missing, 2, &choice));
    table->refuse = choice == 1;
    FAST_TRY(read_choice(where, json, "task", tasks, 2, &choice));
    table->regression = choice == 1;
    table->target_mean = (float)fast__json_number(json, "target_mean");
    table->target_scale = (float)fast__json_number(json, "target_scale");
    if (!isfinite(table->target_mean) || !(table->target_scale > 0) ||
        !isfinite(table->target_scale))
        return fail_member(where, "target_scale");
    FAST_TRY(read_bool(where, json, "numbers", &table->numbers));
    FAST_TRY(read_int(where, json, "target", 0, (int64_t)count - 1, &table->target));
    FAST_TRY(
        read_words(where, json, "classes", !table->numbers, FAST_CLASSES_MAX, &table->classes));
    if ((table->classes.count == 0) != table->regression)
        return fail_member(where, "classes");
    for (size_t i = 0; i < count; i++)
        FAST_TRY(read_column(where, json_array_get(columns, i), &table->columns[i]));
    return fast__table_finish(where, table);
}

/* Read into a new table, which is freed if any member is wrong. */
fast_err fast__table_from_json(const char *where, const json_t *json, fast_table **out)
{
    fast_table *table;
    FAST_TRY(fast__alloc("a table", 1, sizeof *table, &table));
    const fast_err err = read_table(where, json, table);
    if (err) {
        fast__table_free(table);
        return err;
    }
    *out = table;
    return FAST_OK;
}
