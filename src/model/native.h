/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "data/loader.h"
#include "engine/engine.h"
#include "learner/learner.h"

#include <stdatomic.h>

/* Workspaces that learners take turns with: as many as may compute at once, at most 64. */
typedef struct fast_workspaces {
    fast_workspace *list[64]; /* borrowed */
    atomic_ullong free;       /* bit i: list[i] is free */
} fast_workspaces;

/* The native learner: a graph run by an engine on batches of a loader. Everything is borrowed and
 * lives longer than the learner. */
typedef struct fast_native_options {
    const fast_graph *graph;     /* the program's */
    const fast_engine *engine;   /* that compiled it */
    const fast_program *program; /* for batches of the loaders' size */
    fast_workspace *workspace;   /* may be shared by learners that never run at once; or NULL: */
    fast_workspaces *workspaces; /* to take one from while it computes */
    fast_loader *loader;         /* training batches */
    fast_loader *test;           /* evaluation batches: file order, partial; or NULL */
    uint64_t seed;               /* of the run: first values, dropout */
    int64_t accumulate;          /* the loader's: its batches that make a gradient; 0 means 1 */
} fast_native_options;

/* Its parameters and state have their first values (fast__graph_init). */
fast_err fast__native_new(const fast_native_options *options, fast_learner **out);
