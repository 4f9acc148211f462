/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CSV: a table of numbers, one column of which is the answer.
 *
 * The label column holds classes or a regression target. Whole numbers from 0 to 999 are classes,
 * and so are words, which are numbered in sorted order; other numbers are targets. `task` overrides
 * that guess. Every other column is a feature; an empty field and anything that is not a finite
 * number is an error that names line and column, because no guess about missing values suits
 * everybody.
 *
 * The text is scanned three times (count, labels, values), so that memory is allocated once and
 * never for more values than the file has fields.
 */
#include "base/file.h"
#include "base/memory.h"
#include "data/csv_scan.h"
#include "data/make.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { LABEL_MAX = 128, GUESS_CLASSES_MAX = 1000, SHOWN_MAX = 32 };
static const size_t file_size_max = (size_t)1 << 34;

typedef enum csv_task { TASK_AUTO, TASK_CLASSES, TASK_REGRESSION } csv_task;
typedef enum csv_header { HEADER_AUTO, HEADER_YES, HEADER_NO } csv_header;

typedef struct csv_config {
    char file[FAST_PATH_MAX];      /* the training set */
    char test_file[FAST_PATH_MAX]; /* "": split a test set off the training set */
    char label[LABEL_MAX];         /* name or number of the label column; -1 is the last */
    int delimiter;                 /* index into `delimiters` */
    int header;                    /* a csv_header */
    int task;                      /* a csv_task */
    double test_fraction; /* fraction of the samples to test on, if there is no test file */
    int normalize;        /* a fast_normalize */
} csv_config;

static const char delimiters[] = { 0, ',', ';', '\t', ' ', '|' };

static const fast_option csv_options[] = {
    FAST_OPT_TEXT(csv_config, file, "", NULL, "file of the samples, a line each"),
    FAST_OPT_TEXT(csv_config, test_file, "", NULL, "file of the test samples"),
    FAST_OPT_TEXT(csv_config, label, "-1", NULL,
                  "column of the answer: its name, or its number from 0; -1 is the last"),
    FAST_OPT_CHOICE(csv_config, delimiter, "auto", "auto|comma|semicolon|tab|space|pipe",
                    "what stands between fields"),
    FAST_OPT_CHOICE(csv_config, header, "auto", "auto|yes|no", "whether the first line has names"),
    FAST_OPT_CHOICE(
        csv_config, task, "auto", "auto|classes|regression",
        "what the answers are; auto takes words and whole numbers below 1000 as classes"),
    FAST_OPT_REAL(csv_config, test_fraction, "0.2", 0, 0.9,
                  "fraction of the samples to test on if there is no test file"),
    FAST_OPT_CHOICE(csv_config, normalize, "standard", FAST_NORMALIZE_CHOICES,
                    "mean 0 and deviation 1 per column (standard), or as they are"),
    FAST_OPT_END,
};

/* A file in memory. */
typedef struct csv_table {
    const char *name;       /* name of the file */
    char *text;             /* the file's text */
    fast_csv start;         /* position of the first record with values */
    int64_t rows;           /* number of records with values */
    int64_t columns;        /* fields of a record */
    int64_t label;          /* column of the answer */
    fast_csv_field *labels; /* [rows]: the answers, pointing into `text` */
} csv_table;

/* The answers of the training file; those of the test file must have the same form. */
typedef struct csv_answers {
    bool regression;       /* targets instead of classes */
    int64_t classes;       /* number of classes */
    fast_csv_field *words; /* [classes], sorted; NULL for numbers */
} csv_answers;

/* Bytes of a field that messages show. */
static int shown(const fast_csv_field *field)
{
    return field->size < SHOWN_MAX ? (int)field->size : SHOWN_MAX;
}

/* Fail for a field that is not a finite number. */
static fast_err fail_number(const csv_table *t, const fast_csv_field *field, int64_t column)
{
    if (field->size == 0)
        return fast__fail(FAST_EFORMAT, "%s:%lld: column %lld is empty", t->name,
                          (long long)field->line, (long long)column);
    return fast__fail(FAST_EFORMAT, "%s:%lld: column %lld is \"%.*s\", not a finite number",
                      t->name, (long long)field->line, (long long)column, shown(field), field->at);
}

/* Find the label column by its name in the header, where the scanner stands. */
static fast_err find_name(const csv_config *c, csv_table *t)
{
    fast_csv scan = t->start;
    fast_csv_field field = { 0 };
    const size_t size = strlen(c->label);
    for (int64_t column = 0; !field.last; column++) {
        FAST_TRY(fast__csv_next(&scan, &field));
        if ((size_t)field.size == size && memcmp(field.at, c->label, size) == 0) {
            t->label = column;
            return FAST_OK;
        }
    }
    return fast__fail(FAST_EINVAL,
                      "%s has no column \"%s\"; name one of its first line's, or give "
                      "a number from 0",
                      t->name, c->label);
}

/* Tell whether a field spells a non-finite number: a line with one of them has values. */
static bool is_no_number(const fast_csv_field *field)
{
    static const char *const words[] = { "nan", "inf", "infinity" };
    const bool sign = field->size > 0 && (field->at[0] == '-' || field->at[0] == '+');
    const size_t size = (size_t)field->size - sign;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (size == strlen(words[i]) && strncasecmp(field->at + sign, words[i], size) == 0)
            return true;
    return false;
}

/* Guess whether the first record has names: it does if no feature of it is a number. One word among
 * numbers is a mistake in a sample, not a name. */
static fast_err guess_header(const csv_table *t, bool *out)
{
    fast_csv scan = t->start;
    fast_csv_field field = { 0 };
    int64_t words = 0, numbers = 0;
    for (int64_t i = 0; i < t->columns; i++) {
        double value;
        FAST_TRY(fast__csv_next(&scan, &field));
        if (i == t->label || field.size == 0)
            continue;
        if (fast__csv_number(&field, &value) || is_no_number(&field))
            numbers++;
        else
            words++;
    }
    *out = words > 0 && numbers == 0;
    return FAST_OK;
}

/* Inspect the first record: number of columns, the label's column, and whether it is a header. */
static fast_err look(const csv_config *c, csv_table *t)
{
    if (!fast__csv_record(&t->start))
        return fast__fail(FAST_EFORMAT, "%s is empty", t->name);
    fast_csv scan = t->start;
    fast_csv_field field = { 0 };
    for (t->columns = 0; !field.last; t->columns++)
        FAST_TRY(fast__csv_next(&scan, &field));
    if (t->columns < 2)
        return fast__fail(FAST_EFORMAT,
                          "%s:%lld: one column, expected at least a feature and a label; check "
                          "delimiter=",
                          t->name, (long long)field.line);
    char *end;
    const long long number = strtoll(c->label, &end, 10);
    const bool named = *end != 0 || end == c->label;
    t->label = number < 0 ? t->columns + number : number;
    if (named && c->header == HEADER_NO)
        return fast__fail(FAST_EINVAL, "label=%s is a name, but header=no; give a number from 0",
                          c->label);
    if (named)
        FAST_TRY(find_name(c, t));
    if (t->label < 0 || t->label >= t->columns)
        return fast__fail(FAST_EINVAL, "label=%s is not one of %s's %lld columns", c->label,
                          t->name, (long long)t->columns);
    bool header = named || c->header == HEADER_YES;
    if (!header && c->header == HEADER_AUTO)
        FAST_TRY(guess_header(t, &header));
    if (header)
        t->start = scan;
    return FAST_OK;
}

/* Count the records and check that all have the same number of fields. */
static fast_err count_rows(csv_table *t)
{
    fast_csv scan = t->start;
    for (t->rows = 0; fast__csv_record(&scan); t->rows++) {
        const int64_t line = scan.line;
        fast_csv_field field = { 0 };
        int64_t count = 0;
        for (; !field.last; count++)
            FAST_TRY(fast__csv_next(&scan, &field));
        if (count != t->columns)
            return fast__fail(FAST_EFORMAT, "%s:%lld: %lld fields, expected %lld", t->name,
                              (long long)line, (long long)count, (long long)t->columns);
    }
    if (t->rows == 0)
        return fast__fail(FAST_EFORMAT, "%s has names but no samples", t->name);
    return FAST_OK;
}

/* Collect the label of every record. */
static fast_err find_labels(csv_table *t)
{
    FAST_TRY(fast__alloc("labels of a table", t->rows, sizeof *t->labels, &t->labels));
    fast_csv scan = t->start;
    for (int64_t row = 0; row < t->rows; row++) {
        fast__csv_record(&scan);
        for (int64_t column = 0; column < t->columns; column++) {
            fast_csv_field field;
            FAST_TRY(fast__csv_next(&scan, &field));
            if (column == t->label)
                t->labels[row] = field;
        }
        if (t->labels[row].size == 0)
            return fail_number(t, &t->labels[row], t->label);
    }
    return FAST_OK;
}

/* Free the text and the columns of a table. */
static void close_table(csv_table *t)
{
    fast__free(t->text);
    fast__free(t->labels);
}

/* Read a file and find its records and labels. */
static fast_err open_table(const csv_config *c, const char *path, csv_table *out)
{
    csv_table t = { .name = path };
    size_t size;
    FAST_TRY(fast__file_read(path, file_size_max, &t.text, &size));
    fast__csv_init(path, t.text, size, delimiters[c->delimiter], &t.start);
    fast_err err = look(c, &t);
    if (!err)
        err = count_rows(&t);
    if (!err)
        err = find_labels(&t);
    if (err) {
        close_table(&t);
        return err;
    }
    *out = t;
    return FAST_OK;
}

/* Order of fields, for qsort() and bsearch(). */
static int compare(const void *left, const void *right)
{
    const fast_csv_field *a = left;
    const fast_csv_field *b = right;
    const int64_t size = a->size < b->size ? a->size : b->size;
    const int order = memcmp(a->at, b->at, (size_t)size);
    return order != 0 ? order : (a->size > b->size) - (a->size < b->size);
}

/* Collect the distinct words among the labels, sorted. */
static fast_err find_words(const csv_table *t, csv_answers *a)
{
    fast_csv_field *words;
    FAST_TRY(fast__alloc("words of labels", t->rows, sizeof *words, &words));
    memcpy(words, t->labels, (size_t)t->rows * sizeof *words);
    qsort(words, (size_t)t->rows, sizeof *words, compare);
    int64_t count = 1;
    for (int64_t i = 1; i < t->rows; i++) {
        if (compare(&words[i], &words[count - 1]) != 0)
            words[count++] = words[i];
    }
    if (count > FAST_CLASSES_MAX) {
        fast__free(words);
        return fast__fail(FAST_EFORMAT, "%s has %lld different labels, at most %d are classes",
                          t->name, (long long)count, FAST_CLASSES_MAX);
    }
    a->words = words;
    a->classes = count;
    return FAST_OK;
}

/* Decide whether the training file's answers are numbers of classes, words or targets. */
static fast_err decide(const csv_table *t, csv_task task, csv_answers *a)
{
    bool numbers = true, whole = true;
    double top = 0;
    for (int64_t i = 0; i < t->rows && numbers; i++) {
        double value;
        numbers = fast__csv_number(&t->labels[i], &value);
        whole = whole && numbers && value >= 0 && value == floor(value);
        top = numbers && value > top ? value : top;
    }
    const double limit = task == TASK_CLASSES ? FAST_CLASSES_MAX : GUESS_CLASSES_MAX;
    a->regression =
        task == TASK_REGRESSION || (task == TASK_AUTO && numbers && !(whole && top < limit));
    if (a->regression)
        return FAST_OK;
    if (!numbers || !whole || top >= limit)
        return find_words(t, a);
    a->classes = (int64_t)top + 1;
    return FAST_OK;
}

/* Convert the answer of one record. */
static fast_err read_answer(const csv_table *t, const csv_answers *a, int64_t row, fast_data *data)
{
    const fast_csv_field *field = &t->labels[row];
    double value = 0;
    if (a->words != NULL) {
        const fast_csv_field *word =
            bsearch(field, a->words, (size_t)a->classes, sizeof *field, compare);
        if (word == NULL)
            return fast__fail(FAST_EFORMAT,
                              "%s:%lld: label \"%.*s\" does not occur in the training file",
                              t->name, (long long)field->line, shown(field), field->at);
        data->labels[row] = (int32_t)(word - a->words);
        return FAST_OK;
    }
    if (!fast__csv_number(field, &value))
        return fail_number(t, field, t->label);
    if (a->regression) {
        data->targets[row] = (float)value;
        return FAST_OK;
    }
    if (!(value >= 0 && value < (double)a->classes && value == floor(value)))
        return fast__fail(FAST_EFORMAT, "%s:%lld: label %g is not a whole number from 0 to %lld",
                          t->name, (long long)field->line, value, (long long)a->classes - 1);
    data->labels[row] = (int32_t)value;
    return FAST_OK;
}

/* Convert the features of one record. */
static fast_err read_row(const csv_table *t, fast_csv *scan, float *x)
{
    fast__csv_record(scan);
    for (int64_t column = 0; column < t->columns; column++) {
        fast_csv_field field;
        double value;
        FAST_TRY(fast__csv_next(scan, &field));
        if (column == t->label)
            continue;
        if (!fast__csv_number(&field, &value) || !isfinite((float)value))
            return fail_number(t, &field, column);
        *x++ = (float)value;
    }
    return FAST_OK;
}

/* Make the data set of a table. */
static fast_err make_set(const csv_table *t, const csv_answers *a, fast_data **out)
{
    const fast_data like = { .count = t->rows,
                             .rank = 1,
                             .shape = { t->columns - 1 },
                             .dtype = FAST_F32,
                             .channels = t->columns - 1,
                             .classes = a->regression ? 0 : a->classes,
                             .outputs = 1 };
    fast_data *data;
    FAST_TRY(fast__data_make(&like, &data));
    fast_csv scan = t->start;
    fast_err err = FAST_OK;
    for (int64_t row = 0; row < t->rows && !err; row++) {
        err = read_row(t, &scan, (float *)data->x + row * data->features);
        if (!err)
            err = read_answer(t, a, row, data);
    }
    if (err) {
        fast_data_free(data);
        return err;
    }
    *out = data;
    return FAST_OK;
}

/* Read the test file, which must have the columns of the training file `t`. */
static fast_err make_test(const csv_config *c, const csv_table *t, const csv_answers *a,
                          fast_data **out)
{
    csv_table other;
    FAST_TRY(open_table(c, c->test_file, &other));
    fast_err err;
    if (other.columns != t->columns || other.label != t->label)
        err = fast__fail(FAST_EFORMAT, "%s has %lld columns, %s has %lld", t->name,
                         (long long)t->columns, other.name, (long long)other.columns);
    else
        err = make_set(&other, a, out);
    close_table(&other);
    return err;
}

/* Make the training and the test set from the training table `t` and its answers. */
static fast_err make_sets(const csv_config *c, const csv_table *t, const csv_answers *a,
                          fast_data **train_out, fast_data **test_out)
{
    fast_data *train;
    fast_data *test = NULL;
    FAST_TRY(make_set(t, a, &train));
    const fast_err err = c->test_file[0] != 0 ? make_test(c, t, a, &test) : FAST_OK;
    if (err) {
        fast_data_free(train);
        return err;
    }
    return fast__data_finish_split((fast_normalize)c->normalize, c->test_fraction, true, &train,
                                   &test, train_out, test_out);
}

/* Read the training file, then the test file with the same columns, or split a fraction off. */
static fast_err csv_open(const void *config, uint64_t seed, fast_data **train_out,
                         fast_data **test_out)
{
    (void)seed;
    const csv_config *c = config;
    if (c->file[0] == 0)
        return fast__fail(FAST_EINVAL, "data csv needs a file: csv:file=FILE");
    csv_table t;
    FAST_TRY(open_table(c, c->file, &t));
    csv_answers a = { 0 };
    fast_err err = decide(&t, (csv_task)c->task, &a);
    if (!err)
        err = make_sets(c, &t, &a, train_out, test_out);
    fast__free(a.words);
    close_table(&t);
    return err;
}

const fast_data_kind fast__data_csv = {
    .name = "csv",
    .summary = "a table in a CSV file, classes or regression",
    .options = csv_options,
    .config_size = sizeof(csv_config),
    .open = csv_open,
};
