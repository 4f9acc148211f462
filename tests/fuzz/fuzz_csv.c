/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables: the first byte chooses delimiter, header and task, the second how columns are read; the
 * rest is the file. A table that opens is read again through its recipe: a set of the same samples
 * comes out.
 */
#include "data/table.h"
#include "data_file.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Read the file by the encoder of a recipe, as a prediction does. */
static void read_again(const char *recipe, const uint8_t *bytes, size_t size, char delimiter)
{
    json_t *json;
    fast_table *table = NULL;
    fast_data *again = NULL;
    char *text = malloc(size + 1);
    if (text == NULL || fast__json_read("recipe", recipe, strlen(recipe), &json) != FAST_OK ||
        fast__table_from_json("recipe", json, &table) != FAST_OK)
        abort();
    json_decref(json);
    memcpy(text, bytes, size);
    /* Only UTF-8 here: other texts move to memory that the library frees. */
    const fast_table_source source = {
        .name = "again", .text = text, .size = size, .delimiter = delimiter
    };
    if (fast__table_read(table, &source, false, &again) == FAST_OK &&
        fast__data_check(again) != FAST_OK)
        abort();
    fast_data_free(again);
    fast__table_free(table);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const delimiters[] = {
        "auto", "comma", "semicolon", "tab", "space", "pipe"
    };
    static const char marks[] = { 0, ',', ';', '\t', ' ', '|' };
    static const char *const headers[] = { "auto", "yes", "no" };
    static const char *const tasks[] = { "auto", "classes", "regression" };
    static const char *const targets[] = { "-1", "0", "a" };
    static const char *const texts[] = { "auto", "onehot", "hash", "drop", "refuse" };
    static const char *const missing[] = { "mean", "indicator", "refuse" };
    static const char *const dates[] = { "auto", "dmy", "mdy", "text" };
    static const char *const more[] = { "", ",categorical=0", ",decimal=comma", ",drop=0" };
    if (size < 2)
        return 0;
    const unsigned a = data[0], b = data[1];
    data_file file = data_file_make(data + 2, size - 2);
    char spec[384];
    snprintf(spec, sizeof spec,
             "csv:file=%s,delimiter=%s,header=%s,task=%s,target=%s,text=%s,missing=%s,dates=%s,"
             "categories=8,buckets=4%s",
             file.path, delimiters[a % 6], headers[a / 6 % 3], tasks[a / 18 % 3],
             targets[a / 54 % 3], texts[b % 5], missing[b / 5 % 3], dates[b / 15 % 4],
             more[b / 60 % 4]);
    data_file_open(spec, size);
    fast_data *train = NULL, *test = NULL;
    if (fast__data_open(spec, 1, &train, &test, NULL) == FAST_OK) {
        if (train->summary == NULL || train->recipe == NULL)
            abort();
        read_again(train->recipe, data + 2, size - 2, marks[a % 6]);
    }
    fast_data_free(train);
    fast_data_free(test);
    data_file_drop(&file);
    return 0;
}
