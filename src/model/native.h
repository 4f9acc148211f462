/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "data/loader.h"
#include "engine/engine.h"
#include "learner/learner.h"

/* The native learner: a graph run by an engine on batches of a loader. Everything is borrowed and
 * lives longer than the learner. */
typedef struct fast_native_options {
    const fast_graph *graph;
    const fast_engine *engine;
    const fast_program *program;
    fast_workspace *workspace; /* may be shared by learners that never run at once */
    fast_loader *loader;       /* training batches */
    fast_loader *test;         /* evaluation batches: file order, partial; or NULL */
    uint64_t seed;
} fast_native_options;

fast_err fast__native_new(const fast_native_options *options, fast_learner **out);
