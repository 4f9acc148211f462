/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/option.h"

/*
 * The learning rate of a step: a pure function, so that a resumed run needs no state.
 *   constant · step · polynomial · cosine · cyclic, each with a linear warm-up; the linear scaling
 *   rule (Goyal et al. 2017) multiplies by global batch / reference batch.
 */
typedef struct fast_schedule fast_schedule;

typedef struct fast_schedule_options {
    const char *spec;     /* "cosine:warmup=1,floor=0.01"; times in epochs */
    double lr;            /* base learning rate */
    int64_t steps;        /* of the whole run */
    int64_t epoch_steps;  /* steps of an epoch */
    int64_t global_batch; /* for the linear scaling rule */
    const double *live; /* rate of now, of a learner that decides it; borrowed; NULL: by the spec */
} fast_schedule_options;

/* Make a schedule. FAST_EINVAL for unknown names and options and for rates below 0; FAST_ENOMEM. */
fast_err fast__schedule_new(const fast_schedule_options *options, fast_schedule **out);
void fast__schedule_free(fast_schedule *schedule);

/* Return the learning rate of step 0, 1, ... */
double fast__schedule_lr(const fast_schedule *schedule, int64_t step);

/* Return whether the rate is a learner's, and is known once its gradient is. */
bool fast__schedule_is_live(const fast_schedule *schedule);

/* Return the kinds, for help. */
const fast_part *fast__schedule_list(int64_t *count_out);
