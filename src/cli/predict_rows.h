/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/predict.h"

#include <stdio.h>

/* Forms of a prediction's file, and the values in it. The order is that of the flags' choices. */
typedef enum rows_format { ROWS_AUTO, ROWS_CSV, ROWS_JSON, ROWS_NPY } rows_format;
typedef enum rows_values { ROWS_CLASS, ROWS_PROBABILITIES, ROWS_LOGITS } rows_values;

/* A file of predictions under way. */
typedef struct cli_rows {
    FILE *out;                 /* where rows go */
    rows_format format;        /* not ROWS_AUTO */
    rows_values values;        /* of a classification */
    int64_t top;               /* classes of a row, the most probable first */
    const fast_predictor *of;  /* the model */
    const fast_samples *from;  /* the samples */
    bool named;                /* samples have names: a column `file` */
    int64_t rows;              /* written so far */
    fast_predictor_sizes size; /* of the model */
} cli_rows;

/* Write one batch, and before the first one the names of columns; the last has no samples. Returns
 * an exit code. */
int cli_rows_add(cli_rows *rows, const fast_prediction *batch);
/* Write what comes after the rows: the header of an NPY file, now that their number is known.
 * Returns an exit code. */
int cli_rows_end(cli_rows *rows);
