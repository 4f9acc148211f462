/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CSV: a table as people have it, one column of which is the answer.
 *
 * The text is scanned five times (count, answers, forms of fields, sums and categories, values), so
 * that memory is allocated once, in the size of the samples, and never for more values than the
 * file's fields make. table_fit.h says what is understood of a column, table.h how it is encoded.
 *
 * Numbers and dates are standardised with the constants of the training samples; features that are
 * 0 or 1 stay so.
 */
#include "base/memory.h"
#include "data/make.h"
#include "data/table_fit.h"
#include "data/table_summary.h"

#include <math.h>
#include <string.h>

static const size_t file_size_max = (size_t)1 << 34;
static const size_t recipe_size_max = (size_t)1 << 24;

static const char delimiters[] = { 0, ',', ';', '\t', ' ', '|' };

static const fast_option csv_options[] = {
    FAST_OPT_TEXT(fast_table_config, file, "", NULL, "file of the samples, a line each"),
    FAST_OPT_TEXT(fast_table_config, test_file, "", NULL,
                  "file of the test samples; columns are matched by name"),
    FAST_OPT_TEXT_FORMER(fast_table_config, target, "label", "-1", NULL,
                         "column of the answer: its name, or its number from 0; -1 is the last"),
    FAST_OPT_TEXT(fast_table_config, columns, "", NULL,
                  "columns to use, names or numbers joined by +; empty uses all"),
    FAST_OPT_TEXT(fast_table_config, drop, "", NULL, "columns to leave out, joined by +"),
    FAST_OPT_TEXT(fast_table_config, categorical, "", NULL,
                  "columns of numbers to read as text, joined by +"),
    FAST_OPT_CHOICE(fast_table_config, delimiter, "auto", "auto|comma|semicolon|tab|space|pipe",
                    "what stands between fields"),
    FAST_OPT_CHOICE(fast_table_config, decimal, "auto", "auto|point|comma",
                    "what stands before decimals"),
    FAST_OPT_CHOICE(fast_table_config, header, "auto", "auto|yes|no",
                    "whether the first line has names"),
    FAST_OPT_CHOICE(fast_table_config, task, "auto", "auto|classes|regression",
                    "what the answers are; auto takes words, few whole numbers and -1, 1 as "
                    "classes"),
    FAST_OPT_CHOICE(fast_table_config, text, "auto", "auto|onehot|hash|drop|refuse",
                    "columns of text; auto is one-hot, hashed where there are many texts, and "
                    "leaves out a column of which each row has its own"),
    FAST_OPT_INT(fast_table_config, categories, "100", 1, FAST_CLASSES_MAX,
                 "most different texts of a one-hot column"),
    FAST_OPT_INT(fast_table_config, buckets, "32", 1, 65536, "features of a hashed column"),
    FAST_OPT_CHOICE(fast_table_config, missing, "mean", "mean|indicator|refuse",
                    "missing numbers: the column's mean, the same with a feature that says so, or "
                    "an error; a missing text is a category of its own"),
    FAST_OPT_CHOICE(fast_table_config, missing_target, "drop", "drop|refuse",
                    "rows without an answer: left out, or an error"),
    FAST_OPT_CHOICE(fast_table_config, dates, "auto", "auto|ymd|dmy|mdy|text",
                    "order of year, month and day in dates, or read them as text"),
    FAST_OPT_CHOICE(fast_table_config, scale_target, "auto", "auto|yes|no",
                    "targets of a regression with mean 0 and deviation 1; auto where the deviation "
                    "is below 0.01 or above 100"),
    FAST_OPT_REAL(fast_table_config, test_fraction, "0.2", 0, 0.9,
                  "fraction of the samples to test on if there is no test file"),
    FAST_OPT_CHOICE(fast_table_config, normalize, "standard", FAST_NORMALIZE_CHOICES,
                    "mean 0 and deviation 1 per column (standard), or as they are"),
    FAST_OPT_END,
};

/* Read a file as UTF-8; the caller frees source->text. */
static fast_err read_source(const fast_table_config *c, const char *path, fast_table_source *out)
{
    char *text;
    size_t size;
    FAST_TRY(fast__file_read(path, file_size_max, &text, &size));
    const size_t size_before = size;
    const fast_err err = fast__csv_decode(path, &text, &size);
    if (err) {
        fast__free(text);
        return err;
    }
    *out = (fast_table_source){
        .name = path,
        .text = text,
        .size = size,
        .delimiter = delimiters[c->delimiter],
        .latin1 = size != size_before, /* a text grows only to become UTF-8 */
    };
    return FAST_OK;
}

/* Encode the records of the training file that are used. */
static fast_err make_train(const fast_table_fit *fit, int64_t missing[2], fast_data **out)
{
    fast_data *data;
    FAST_TRY(fast__table_make(fit->table, fit->samples, &data));
    fast_csv scan = fit->view.start;
    fast_err err = FAST_OK;
    int64_t sample = 0;
    for (int64_t row = 0; row < fit->view.rows && !err; row++) {
        fast_csv_field answer;
        if (fit->use[row] == FAST_USE_NONE) {
            err = fast__csv_skip(&scan);
            continue;
        }
        err = fast__table_encode(fit->table, &fit->view, &scan,
                                 (float *)data->x + sample * data->features, &answer, missing);
        if (!err)
            err = fast__table_answer(fit->table, &fit->view, &answer,
                                     data->labels != NULL ? data->labels + sample : NULL,
                                     data->targets != NULL ? data->targets + sample : NULL);
        sample++;
    }
    if (err) {
        fast_data_free(data);
        return err;
    }
    *out = data;
    return FAST_OK;
}

/* Leave the features that are 0 or 1 as they are. */
static void leave_marks(const fast_table *table, fast_data *data)
{
    for (int64_t i = 0; i < table->column_count && data != NULL; i++) {
        const fast_table_column *column = &table->columns[i];
        const bool text =
            column->kind == FAST_COLUMN_CATEGORY || column->kind == FAST_COLUMN_HASHED;
        const int64_t end = column->first + column->width;
        for (int64_t f = text ? column->first : end - column->indicator; f < end; f++) {
            data->mean[f] = 0;
            data->scale[f] = 1;
        }
    }
}

/* Apply the table's constants to the targets of a set that was read without them. */
static void scale_set(const fast_table *table, fast_data *data)
{
    if (data == NULL)
        return;
    data->target_mean = table->target_mean;
    data->target_scale = table->target_scale;
    for (int64_t i = 0; i < data->count; i++)
        data->targets[i] = (data->targets[i] - table->target_mean) * table->target_scale;
}

/* Standardise the targets by those of the training set: a network starts with outputs of about 1,
 * and does not reach 200,000 with the learning rates that anything else needs. */
static void scale_targets(const fast_table_config *c, fast_table *table, fast_data *train,
                          fast_data *test)
{
    double sum = 0, squares = 0;
    if (!table->regression || c->scale_target == 2)
        return;
    for (int64_t i = 0; i < train->count; i++)
        sum += (double)train->targets[i];
    const double mean = sum / (double)train->count;
    for (int64_t i = 0; i < train->count; i++)
        squares += ((double)train->targets[i] - mean) * ((double)train->targets[i] - mean);
    const double deviation = sqrt(squares / (double)train->count);
    /* Equal targets have no deviation, and numbers at the limits of float none that helps. */
    if (!(deviation > 1e-30 && deviation < 1e30) ||
        (c->scale_target == 0 && deviation >= 0.01 && deviation <= 100))
        return;
    table->target_mean = (float)mean;
    table->target_scale = (float)(1 / deviation);
    scale_set(table, train);
    scale_set(table, test);
}

/* Give a set the names of its classes. */
static fast_err name_classes(const fast_table *table, fast_data *data)
{
    if (data == NULL || table->regression)
        return FAST_OK;
    size_t size = 0;
    for (int64_t i = 0; i < table->classes.count; i++)
        size += strlen(table->classes.at[i]) + 1;
    FAST_TRY(fast__alloc("names of classes", (int64_t)size, 1, &data->class_names));
    char *at = data->class_names;
    for (int64_t i = 0; i < table->classes.count; i++) {
        memcpy(at, table->classes.at[i], strlen(table->classes.at[i]) + 1);
        at += strlen(at) + 1;
    }
    return FAST_OK;
}

/* Describe both sets: names of classes, and for the training set the recipe and the summary. */
static fast_err describe(const fast_table_config *c, const fast_table_fit *fit,
                         const int64_t missing[2], fast_data *train, fast_data *test)
{
    FAST_TRY(name_classes(fit->table, train));
    FAST_TRY(name_classes(fit->table, test));
    json_t *json = fast__table_json(fit->table);
    FAST_TRY(fast__json_print(&json, &train->recipe));
    /* Such a model cannot be used on new tables, but it can be trained. */
    if (strlen(train->recipe) > recipe_size_max) {
        fast__free(train->recipe);
        train->recipe = NULL;
    }
    return fast__table_summary(c, fit, missing, &train->summary);
}

/* Read the test file by the encoder of the training file. */
static fast_err make_test(const fast_table_config *c, const fast_table *table, fast_data **out)
{
    fast_table_source source;
    FAST_TRY(read_source(c, c->test_file, &source));
    const fast_err err = fast__table_read(table, &source, true, out);
    fast__free((void *)source.text);
    return err;
}

/* Make both sets from a training file that is understood. */
static fast_err make_sets(const fast_table_config *c, fast_table_fit *fit, fast_data **train_out,
                          fast_data **test_out)
{
    fast_data *train, *test = NULL;
    int64_t missing[2] = { 0 };
    FAST_TRY(make_train(fit, missing, &train));
    fast_err err = c->test_file[0] != 0 ? make_test(c, fit->table, &test) : FAST_OK;
    if (err) {
        fast_data_free(train);
        return err;
    }
    /* The split is the one that fast__table_fit() took its training samples from. */
    FAST_TRY(fast__data_finish_split((fast_normalize)c->normalize, c->test_fraction, true, &train,
                                     &test, &train, &test));
    leave_marks(fit->table, train);
    leave_marks(fit->table, test);
    scale_targets(c, fit->table, train, test);
    err = describe(c, fit, missing, train, test);
    if (err) {
        fast_data_free(train);
        fast_data_free(test);
        return err;
    }
    *train_out = train;
    *test_out = test;
    return FAST_OK;
}

/* Read the training file, then the test file with the same columns, or split a fraction off. */
static fast_err csv_open(const void *config, uint64_t seed, fast_data **train_out,
                         fast_data **test_out)
{
    (void)seed;
    const fast_table_config *c = config;
    if (c->file[0] == 0)
        return fast__fail(FAST_EINVAL, "data csv needs a file: csv:file=FILE");
    fast_table_source source;
    FAST_TRY(read_source(c, c->file, &source));
    fast_table_fit fit = { 0 };
    fast_err err = fast__table_fit(c, &source, &fit);
    if (!err)
        err = make_sets(c, &fit, train_out, test_out);
    fast__table_fit_fini(&fit);
    fast__free((void *)source.text);
    return err;
}

const fast_data_kind fast__data_csv = {
    .name = "csv",
    .summary = "a table in a CSV file: numbers, text, dates; classes or regression",
    .options = csv_options,
    .config_size = sizeof(fast_table_config),
    .open = csv_open,
};
