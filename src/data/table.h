/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/json.h"
#include "data/csv_scan.h"
#include "data/data.h"
#include "data/date.h"

/*
 * The encoder of a table: how the fields of a record become features and an answer. It is made from
 * a training file (table_fit.h), reads every other file of the same columns, and is stored with a
 * model as JSON.
 *
 *   numeric     1 feature: the number
 *   category    1 feature a category: 1 for the field's, 0 for the others; all 0 if it is unknown
 *   hashed      `width` features: 1 for the bucket of the field's hash
 *   date        5 or 7 features (date.h)
 *   dropped     no feature; so is the target
 *
 * A missing number or date is replaced by the training set's means; with an indicator, a last
 * feature is 1 where it was missing. A missing text is the category "", if the training set has it.
 * Features are as they are read: fast_data.mean and fast_data.scale standardise them.
 */
typedef enum fast_column_kind {
    FAST_COLUMN_NUMERIC,  /* the number */
    FAST_COLUMN_CATEGORY, /* one-hot */
    FAST_COLUMN_HASHED,   /* one-hot by the hash */
    FAST_COLUMN_DATE,     /* trend and circles */
    FAST_COLUMN_DROPPED   /* not used; the target too */
} fast_column_kind;

/* Texts in one block; sorted by strcmp() if they are searched. */
typedef struct fast_table_words {
    int64_t count;   /* number of texts */
    char *text;      /* the texts, each with its zero byte, one after the other */
    const char **at; /* [count]: the start of each */
} fast_table_words;

typedef struct fast_table_column {
    char *name;                        /* of the first line, or its number from 0 */
    fast_column_kind kind;             /* how a field becomes features */
    int64_t first;                     /* number of its first feature */
    int64_t width;                     /* number of its features */
    bool indicator;                    /* its last feature says that the field was missing */
    bool clock;                        /* date: with time of day */
    fast_date_order order;             /* date: of day, month and year */
    float fill[FAST_DATE_CLOCK_WIDTH]; /* numeric and date: features of a missing field */
    fast_table_words categories;       /* category: sorted; the first may be "", a missing field */
} fast_table_column;

typedef struct fast_table {
    int64_t column_count;       /* columns of the training file, with target and dropped ones */
    fast_table_column *columns; /* in the order of the file */
    int64_t features;           /* of a sample */
    bool header;                /* columns have names: other files are matched by them */
    char decimal;               /* '.' or ',' */
    bool refuse;                /* a missing field is an error */
    int64_t target;             /* column of the answer */
    bool regression;            /* the answer is a number, not a class */
    float target_mean;          /* regression: t' = (t - target_mean) * target_scale is read */
    float target_scale;         /* never 0 */
    bool numbers;               /* classes are numbers: "1" and "1.0" are one class */
    fast_table_words classes;   /* names of the classes: sorted texts, or numbers in order */
    double *values;             /* [classes] if they are numbers, else NULL */
} fast_table;

/* Limits of files and of stored tables. */
enum { FAST_TABLE_COLUMNS_MAX = 1 << 18, FAST_TABLE_FEATURES_MAX = 1 << 22 };

void fast__table_free(fast_table *table); /* NULL is allowed */

/* Number the features and fill the derived fields: first, width, features, values. FAST_EFORMAT if
 * they are too many or a class is not a number. `where` is for messages. */
fast_err fast__table_finish(const char *where, fast_table *table);

/* Copy `count` texts. FAST_ENOMEM; *out is then unchanged. */
fast_err fast__table_words_make(int64_t count, const char *const *texts, fast_table_words *out);
void fast__table_words_fini(fast_table_words *words);

/* Return the place of a text among sorted words, -1 if it is absent. */
int64_t fast__table_words_find(const fast_table_words *words, const char *text);

/* Describe a table, with "kind": "table". NULL where memory is missing. */
json_t *fast__table_json(const fast_table *table);

/* Make the table of a description, which may be hostile. FAST_EFORMAT, FAST_ENOMEM. */
fast_err fast__table_from_json(const char *where, const json_t *json, fast_table **out);

/* A file's text in memory, UTF-8 (fast__csv_decode), or a block of it: the first line of names, if
 * the file has one, and whole records. */
typedef struct fast_table_source {
    const char *name; /* name of the file, for messages */
    const char *text; /* its text */
    size_t size;      /* bytes of the text */
    int64_t line;     /* line of the file that the first record is in; 0: where it stands */
    char delimiter;   /* between fields; 0 guesses */
    bool latin1;      /* the file was not UTF-8, which the summary says */
} fast_table_source;

/* Records of a source, in columns that are matched with those of a table. */
typedef struct fast_table_view {
    const char *name; /* name of the file, for messages */
    fast_csv start;   /* position of the first record */
    int64_t columns;  /* fields of a record */
    int64_t rows;     /* number of records */
    int64_t *map;     /* [columns]: column of the table, or -1 */
} fast_table_view;

/* Count the records from view->start and check that each has view->columns fields. */
fast_err fast__table_count(fast_table_view *view);

/* Encode the features of the record at `scan`, which moves to the next one. x is [features], and
 * zeroed. Store the field of the answer, if the file has it. Count missing numbers and dates in
 * missing[0], missing texts in missing[1]. FAST_EFORMAT names line and column. */
fast_err fast__table_encode(const fast_table *table, const fast_table_view *view, fast_csv *scan,
                            float *x, fast_csv_field *answer, int64_t missing[2]);

/* Convert the answer of a record: the class goes to *label, the number to *target. FAST_EFORMAT
 * names line and column. */
fast_err fast__table_answer(const fast_table *table, const fast_table_view *view,
                            const fast_csv_field *field, int32_t *label, float *target);

/* Return FAST_EFORMAT for a field that is not `expected`, with line and column. */
fast_err fast__table_fail(const fast_table *table, const fast_table_view *view, int64_t column,
                          const fast_csv_field *field, const char *expected);

/* Make an empty set for `rows` samples of the table. */
fast_err fast__table_make(const fast_table *table, int64_t rows, fast_data **out);

/* Read a source by a given table, one sample a record, not normalised. Columns are matched by their
 * names if the table has names. With `answers` the target must be there, and records without one
 * are left out; otherwise it may be absent and all answers are 0. */
fast_err fast__table_read(const fast_table *table, const fast_table_source *source, bool answers,
                          fast_data **out);
