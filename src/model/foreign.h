/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "data/loader.h"
#include "fast/learner.h"
#include "learner/learner.h"

/*
 * The foreign learner: the caller's functions behind the contract of learner/learner.h, as the
 * native learner is a graph and an engine behind it.
 */

/* A caller's declaration, checked and laid out in flat vectors. Immutable. */
typedef struct fast_foreign {
    fast_learner_kind kind; /* functions and ctx; its tensors are not used any more */
    char name[64];          /* of the kind */
    fast_layout params;     /* layout of w and g */
    fast_layout state;      /* layout of s */
    fast_segment *segments; /* segments of both layouts */
    float *first;           /* [params + state]: initial values */
} fast_foreign;

/* Check a declaration. FAST_EINVAL names the contradiction. */
fast_err fast__foreign_open(const fast_learner_kind *kind, fast_foreign **out);
void fast__foreign_close(fast_foreign *foreign); /* NULL is allowed */

/* One worker's learner. All pointers are borrowed and must outlive it. Its vectors are on a device,
 * and are mapped for the caller's functions: these get host memory, valid during the call. */
typedef struct fast_foreign_options {
    const fast_foreign *foreign; /* the declaration */
    const fast_device *device;   /* of w, g and s; NULL: the host */
    fast_loader *loader;         /* training batches; NULL: the learner makes its own */
    fast_loader *test;       /* evaluation batches; NULL: the learner makes its own, or has none */
    fast_loader *validation; /* batches of the validation set; or NULL */
    const fast_data *data;   /* data set of the loaders; NULL: none */
    int64_t worker;          /* rank of this worker */
    int64_t workers;         /* number of workers */
    int64_t batch;           /* samples of a batch */
    int64_t accumulate;      /* micro-batches of a gradient */
    int64_t epoch_steps;     /* steps of an epoch */
    uint64_t seed;           /* seed of the run */
    bool small_stack;        /* evaluations are requested on a small stack */
} fast_foreign_options;

/* Make a learner with its initial values. FAST_ENOMEM. */
fast_err fast__foreign_new(const fast_foreign_options *options, fast_learner **out);
