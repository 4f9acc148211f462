/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "data/loader.h"
#include "engine/engine.h"
#include "learner/learner.h"

#include <stdatomic.h>

/* Workspaces that learners share: as many as may compute at once, at most 64. */
typedef struct fast_workspaces {
    fast_workspace *list[64]; /* borrowed */
    atomic_ullong free;       /* bit i: list[i] is free */
} fast_workspaces;

/* The native learner: a graph run by an engine on batches of a loader. Its vectors w, g and s are
 * on a device, and are mapped for the engine, which computes on the host. All pointers are borrowed
 * and must outlive the learner. */
typedef struct fast_native_options {
    const fast_graph *graph;     /* the program's graph */
    const fast_engine *engine;   /* engine that compiled the program */
    const fast_program *program; /* for batches of the loaders' size */
    fast_workspace *workspace;   /* shared by learners that never run at once; or NULL, then */
    fast_workspaces *workspaces; /* workspaces of which each pass takes one; or NULL, then */
    fast_workspace **late;     /* where the workspace is that the first pass makes; the caller frees
                                    it. Such a learner only evaluates: it has no gradient */
    const fast_device *device; /* of w, g and s; NULL: the host */
    fast_loader *loader;       /* training batches */
    fast_loader *test;         /* evaluation batches: file order, partial; or NULL */
    fast_loader *validation;   /* batches of the validation set, in the same form; or NULL */
    uint64_t seed;             /* seed of the run: initial values, dropout */
    bool blank;                /* draw no initial values: the caller sets w and s */
    float *w;                  /* parameters that equal learners share; NULL: the learner's own */
    int64_t accumulate;        /* the loader's: micro-batches of a gradient; 0 means 1 */
} fast_native_options;

/* Make a learner with initial parameters and state (fast__graph_init). FAST_ENOMEM. */
fast_err fast__native_new(const fast_native_options *options, fast_learner **out);
