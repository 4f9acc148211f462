/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/json.h"
#include "fast/run.h"

/*
 * Figures of a model: outputs and answers are added batch by batch; the result is a fast_figures
 * (fast/run.h).
 *
 *     fast_figure_sums *sums;
 *     fast__figures_new(&(fast_figures_options){ .classes = 10, .outputs = 10, .rows = n }, &sums);
 *     fast__figures_add(sums, rows, outputs, labels, NULL);       for each batch
 *     fast_figures figures;
 *     fast__figures_compute(sums, &figures);                      any number of times
 *     fast__figures_clear(sums);                                  to count another set
 *     fast__figures_free(sums);
 *
 * fast__figures_new() takes all memory: for AUC 4 bytes for each row and class and 52 for each row,
 * of at most FAST_FIGURES_SCORES_MAX outputs. One thread at a time.
 */
typedef struct fast_figure_sums fast_figure_sums;

enum {
    FAST_FIGURES_CONFUSION_MAX = 1024, /* classes that a confusion matrix has at most */
    FAST_FIGURES_AUC_MAX = 64,         /* classes whose AUC is computed */
    FAST_FIGURES_SCORES_MAX = 1 << 23  /* outputs that are ranked for it: 32 MiB */
};

typedef struct fast_figures_options {
    int64_t classes; /* 0: regression */
    int64_t outputs; /* of a row: the classes, or the values of a regression */
    int64_t rows;    /* that will be added at most; with more there is no AUC */
} fast_figures_options;

/* Make empty sums. FAST_ENOMEM. */
fast_err fast__figures_new(const fast_figures_options *options, fast_figure_sums **out);
void fast__figures_free(fast_figure_sums *sums); /* NULL is allowed */
void fast__figures_clear(fast_figure_sums *sums);

/* Add rows: `outputs` [rows][outputs] as the model gives them (logits or logarithms of
 * probabilities; values), and their answers: `labels` [rows], below `classes`; or `targets`
 * [rows][outputs], of which a classification takes the largest. Exactly one of the two is set. */
void fast__figures_add(fast_figure_sums *sums, int64_t rows, const float *outputs,
                       const int32_t *labels, const float *targets);

/* Compute the figures of all rows so far. by_class and confusion are lent until the next call on
 * `sums`. Without rows every figure is NAN. */
void fast__figures_compute(fast_figure_sums *sums, fast_figures *out);

/* The figures as a JSON object: its keys are the fields of fast_figures, undefined ones null;
 * `by_class` is an array of objects, empty above FAST_FIGURES_CONFUSION_MAX classes. The matrix is
 * null above `matrix_max` classes. NULL where memory is missing (base/json.h). */
json_t *fast__figures_json(const fast_figures *figures, int64_t matrix_max);
