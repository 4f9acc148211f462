/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "data/loader.h"
#include "fast/learner.h"
#include "learner/learner.h"

/*
 * The foreign learner: functions of the caller's behind the contract of learner/learner.h, as the
 * native one is a graph and an engine behind it.
 */

/* What a caller declared, checked, and laid out in flat vectors. Immutable. */
typedef struct fast_foreign {
    fast_learner_kind kind; /* its functions and ctx; tensors are not looked at any more */
    char name[64];          /* of the kind */
    fast_layout params;     /* of w and g */
    fast_layout state;      /* of s */
    fast_segment *segments; /* of both */
    float *first;           /* [params + state]: first values */
} fast_foreign;

/* FAST_EINVAL names what makes no sense. */
fast_err fast__foreign_open(const fast_learner_kind *kind, fast_foreign **out);
void fast__foreign_close(fast_foreign *foreign); /* NULL is allowed */

/* One worker's learner. Everything is borrowed and lives longer. */
typedef struct fast_foreign_options {
    const fast_foreign *foreign; /* what it computes */
    fast_loader *loader;         /* training batches; NULL: it makes its own */
    fast_loader *test;           /* evaluation batches; NULL: likewise, or none */
    const fast_data *data;       /* that the loaders are of; NULL: none */
    int64_t worker;              /* its rank */
    int64_t workers;             /* their number */
    int64_t batch;               /* samples of one */
    int64_t accumulate;          /* batches that make a gradient */
    int64_t epoch_steps;         /* steps of an epoch */
    uint64_t seed;               /* of the run */
    bool small_stack;            /* its evaluation is asked for where there is little stack */
} fast_foreign_options;

fast_err fast__foreign_new(const fast_foreign_options *options, fast_learner **out);
