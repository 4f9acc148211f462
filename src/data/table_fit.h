/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/file.h"
#include "data/table.h"

/*
 * From a training file to the encoder of its table. All of the file decides which kind a column is
 * of; replacements and categories come from the training samples alone.
 */
/* Kind of the answers. */
typedef enum fast_table_task {
    FAST_TASK_AUTO,
    FAST_TASK_CLASSES,
    FAST_TASK_REGRESSION
} fast_table_task;
/* Whether the first line has names. */
typedef enum fast_table_header {
    FAST_HEADER_AUTO,
    FAST_HEADER_YES,
    FAST_HEADER_NO
} fast_table_header;
/* How a column of text becomes features. */
typedef enum fast_table_text {
    FAST_TEXT_AUTO,   /* one-hot; hashed where there are many; dropped where each row has its own */
    FAST_TEXT_ONEHOT, /* one-hot; too many are an error */
    FAST_TEXT_HASH,   /* hashed */
    FAST_TEXT_DROP,   /* left out */
    FAST_TEXT_REFUSE  /* an error */
} fast_table_text;
/* How a missing number or date becomes features; a missing text is a category of its own. */
typedef enum fast_table_missing {
    FAST_MISSING_MEAN,      /* the mean of the training samples */
    FAST_MISSING_INDICATOR, /* the mean, and a further feature that is 1 */
    FAST_MISSING_REFUSE     /* an error; also for texts */
} fast_table_missing;
/* The order of year, month and day. FAST_DATES_YMD + order is the choice of a fast_date_order. */
typedef enum fast_table_dates {
    FAST_DATES_AUTO, /* found out, and asked for where it cannot be */
    FAST_DATES_YMD,
    FAST_DATES_DMY,
    FAST_DATES_MDY,
    FAST_DATES_TEXT /* not read as dates */
} fast_table_dates;

/* Bytes of a list of columns. */
enum { FAST_COLUMN_LIST_MAX = 4096 };

/* The options of data csv. */
typedef struct fast_table_config {
    char file[FAST_PATH_MAX];               /* the training set */
    char test_file[FAST_PATH_MAX];          /* "": split a test set off the training set */
    char target[FAST_WORD_MAX + 1];         /* name or number of its column; -1 is the last */
    char columns[FAST_COLUMN_LIST_MAX];     /* those to use, joined by +; "": all */
    char drop[FAST_COLUMN_LIST_MAX];        /* those to leave out, joined by + */
    char categorical[FAST_COLUMN_LIST_MAX]; /* numbers to read as text, joined by + */
    int delimiter;                          /* index into the delimiters of csv.c */
    int decimal;                            /* 0: guessed, 1: point, 2: comma */
    int header;                             /* a fast_table_header */
    int task;                               /* a fast_table_task */
    int text;                               /* a fast_table_text */
    int64_t categories;                     /* most categories of a one-hot column */
    int64_t buckets;                        /* features of a hashed column */
    int missing;                            /* a fast_table_missing */
    int missing_target;                     /* 0: drop the row, 1: refuse */
    int dates;                              /* a fast_table_dates */
    int scale_target;                       /* 0: where they are far from 1, 1: yes, 2: no */
    double test_fraction; /* fraction of the samples to test on, if there is no test file */
    int normalize;        /* a fast_normalize */
} fast_table_config;

/* Use of a record. */
typedef enum fast_table_use { FAST_USE_NONE, FAST_USE_TRAIN, FAST_USE_TEST } fast_table_use;

/* A training file and its encoder. */
typedef struct fast_table_fit {
    fast_table_view view;   /* records of the file */
    fast_table *table;      /* the encoder */
    fast_csv_field *labels; /* [rows]: the answers, pointing into the text */
    uint8_t *use;           /* [rows]: a fast_table_use each */
    int64_t samples;        /* records that are used */
    bool latin1;            /* the file was not UTF-8 */
    bool *dropped_own;      /* [columns]: dropped because each row has its own text, or none */
} fast_table_fit;

/*
 *   look         columns, the target, whether the first line has names
 *   count        records, each with as many fields
 *   answers      rows without one are left out; the rest is divided for training and test
 *   columns      kinds by all records; replacements and categories by training samples
 *   task         classes or regression, by the answers
 */

/* Make the encoder of a training file. `source` must outlive *out. FAST_EINVAL for options that the
 * file contradicts, FAST_EFORMAT for fields, FAST_ENOMEM; *out is then empty. */
fast_err fast__table_fit(const fast_table_config *config, const fast_table_source *source,
                         fast_table_fit *out);
void fast__table_fit_fini(fast_table_fit *fit);

/* Decide the kinds of the columns and compute replacements and categories: the second half of
 * fast__table_fit(), which needs target and use of the records. */
fast_err fast__table_fit_columns(const fast_table_config *config, fast_table_fit *fit);

/* Decide between classes and regression from the answers in use. */
fast_err fast__table_fit_task(const fast_table_config *config, fast_table_fit *fit);
