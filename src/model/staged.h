/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "data/loader.h"
#include "engine/engine.h"
#include "learner/learner.h"

/* The learner of one stage of a split model: passes in phases, several micro-batches in flight. Its
 * vectors are those of the stage alone. All pointers are borrowed and must outlive it. */
typedef struct fast_staged_options {
    const fast_program *program; /* of the stage's graph */
    const fast_device *device;   /* of w, g and s; NULL: the host */
    fast_loader *loader;         /* batches; NULL at a stage that needs nothing of them */
    bool first;                  /* the batch is the input */
    bool last;                   /* the batch has the answers */
    int64_t slots;               /* micro-batches in flight at most, at least 1 */
    int64_t accumulate;          /* micro-batches of a step; 0 means 1 */
    uint64_t seed;               /* seed of the run */
    const fast_learner *model;   /* of the whole model: epochs and samples */
} fast_staged_options;

/* Make a learner without values. FAST_ENOMEM. */
fast_err fast__staged_new(const fast_staged_options *options, fast_learner **out);
