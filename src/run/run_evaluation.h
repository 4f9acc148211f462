/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/run.h"
#include "tensor/device.h"

/*
 * Evaluation of a run's model on the test and the validation set, its figures, and early stopping.
 */

/* The figure of --monitor. */
typedef enum fast_monitor {
    FAST_MONITOR_LOSS,
    FAST_MONITOR_ACCURACY,
    FAST_MONITOR_F1
} fast_monitor;

/* The best model so far, by the validation set; evaluation/early_stop.c. */
typedef struct fast_run_best {
    double value;   /* of the monitored figure; NAN before the first evaluation */
    int64_t waited; /* evaluations since, without a better model */
    float *model;   /* [params + state] of that evaluation, or the last ones while `swapped`; NULL:
                       the last model is tested and saved */
    bool swapped;   /* the best model is the learner's, and the last one is here */
} fast_run_best;

/* Results of evaluations beside loss and accuracy. */
typedef struct fast_run_evaluation {
    struct fast_figure_sums *test;       /* of the test set; NULL: the outputs are not seen */
    struct fast_figure_sums *validation; /* of the validation set; NULL: nobody monitors F1 */
    fast_figures figures;                /* of the test set, as of the end of the last call */
    bool tested;                         /* the test set was evaluated */
    bool validated;                      /* the last evaluation was of the validation set */
    fast_run_best best;                  /* model by the validation set */
    /* Where several processes have parts of the model, the run's is on disk (split_model.c). */
    const fast_device *file; /* the device of it; NULL: the run's device has the model */
    bool partial;            /* on `file`: not all parts of it have been drawn or read */
} fast_run_evaluation;

/* evaluation/evaluate.c */

/* Take the memory of figures and of the best model; the team is open. FAST_EINVAL for figures that
 * the data does not have. */
fast_err fast__run_evaluation_open(fast_run *run);
void fast__run_evaluation_close(fast_run *run);
/* Evaluate the run's learner as it is, at run->step, on the validation set, or on the test set of
 * a run without one; look at the target and at the patience; tell and log it. */
fast_err fast__run_evaluate(fast_run *run);
/* End the run if its last evaluation reached the target or ran out of patience. */
void fast__run_look(fast_run *run);
/* After training: the best model becomes the run's, and is evaluated on the test set if training
 * was evaluated on the validation set. Not for a run that is canceled or diverged. */
fast_err fast__run_finish(fast_run *run);

/* evaluation/early_stop.c */

/* Compare the last evaluation of the validation set with the best so far. */
void fast__best_look(fast_run *run, double value);
/* Exchange the best model and the learner's. */
void fast__best_swap(fast_run *run);
