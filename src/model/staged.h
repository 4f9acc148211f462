/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "data/loader.h"
#include "engine/engine.h"
#include "engine/round_op.h"
#include "learner/learner.h"

/* A section of a stage: one if the stage is whole, several if its tensors are split over shards. */
typedef struct fast_staged_section {
    const fast_program *program; /* of its graph; borrowed */
    const fast_round_op *rounds; /* NULL, or it is computed in rounds, which are passes of their
                                    own to the caller; the engine does not run it */
    fast_reshard enter;          /* from the value before the section to its inputs; at the batch
                                    NONE or SLICE */
    fast_reshard leave;          /* from its outputs to the value behind */
    int64_t params_offset;       /* of its parameters in the stage's w */
    int64_t state_offset;        /* of its state in the stage's s */
    int64_t retained;            /* elements of a sample at the end of its outputs that stay at the
                                    shard: they follow the inputs of the section after next */
    int64_t first_row;           /* number of the section's first label in a sample */
    int64_t rows;                /* labels of a sample that it has; 0: all */
    bool divided;                /* its samples are those of this shard: losses of its heads are
                                    summed over the shards */
} fast_staged_section;

/* The learner of one stage of a split model: passes in phases, several micro-batches in flight. Its
 * vectors are those of the stage alone, ranges of the worker's (model/chunked.h). All pointers are
 * borrowed and must outlive it. */
typedef struct fast_staged_options {
    const fast_staged_section *sections; /* in the order of the forward pass; borrowed */
    int64_t section_count;               /* at least 1 */
    fast_layout params;                  /* of w and g: all sections */
    fast_layout state;                   /* of s: all sections */
    float *w, *g, *s;                    /* its vectors */
    fast_loader *loader;                 /* batches; NULL at a stage that needs nothing of them */
    bool first;                          /* the batch is the input */
    bool last;                           /* the batch has the answers */
    int64_t shards;                      /* of the stage: T */
    int64_t shard;                       /* which of them this is */
    int64_t batch;                       /* samples of a micro-batch at most */
    int64_t rows;                        /* labels of a sample; 0: not known */
    int64_t slots;                       /* micro-batches in flight at most, at least 1 */
    int64_t accumulate;                  /* micro-batches of a step; 0 means 1 */
    uint64_t seed;                       /* seed of the run */
    const fast_learner *model;           /* of the whole model: epochs and samples */
} fast_staged_options;

/* Make a learner without values. FAST_ENOMEM. */
fast_err fast__staged_new(const fast_staged_options *options, fast_learner **out);
