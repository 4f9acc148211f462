/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/strategy.h"
#include "learner/learner.h"
#include "split/pipeline.h"
#include "split/shards.h"
#include "trainer/pipe_log.h"
#include "trainer/pipe_versions.h"

/* Parameters of a part of the model that lie together in its vector and in one tensor. */
typedef struct fast_pipe_piece {
    int64_t offset;  /* of the first one in the part's vector */
    int64_t count;   /* number of parameters */
    int64_t segment; /* of the whole model, in which they lie */
    bool counted;    /* in sums over the parts: no shard before has the same ones */
} fast_pipe_piece;

/*
 * The place of a worker in a pipeline, and what it has in flight. To a strategy a stage is a
 * learner like any other: fast_trainer_gradient() runs the worker's part of a step, with messages
 * to the workers before and behind. The strategy's workers are those of the same stage.
 */
typedef struct fast_pipe_options {
    fast_pipe_place place;             /* schedule, stage, micro-batches */
    fast_learner *const *chunks;       /* [chunks] learners of the worker's stages, in the order of
                                        the model: their vectors are ranges of its own; borrowed */
    int64_t workers;                   /* of the whole mesh */
    int64_t before;                    /* actor with the stages before, or the first of those with
                                        replicas of it; of the first worker the last one, which has
                                        the stages before its further chunks */
    int64_t behind;                    /* actor with the stages behind, as `before`; of the last
                                        worker the first one */
    const fast_split_range *partial;   /* shards: ranges of g that are to be summed over them */
    int64_t partial_count;             /* length of partial */
    bool shares;                       /* shards: each has a part of some losses, here or behind */
    fast_pipe_extrapolate extrapolate; /* of a pipeline that is never drained */
    int64_t rate_steps; /* first steps in which the learning rate is divided by the staleness */
    int64_t pause; /* no batch is in flight at each multiple of this step; 0: at the end only */
    const fast_pipe_piece *pieces; /* of the worker's w, in order; norms.h */
    int64_t piece_count;           /* length of pieces */
    int64_t segment_count;         /* tensors of the whole model */
} fast_pipe_options;

/* A micro-batch between its forward and its backward pass. */
typedef struct fast_pipe_slot {
    fast_msg *arrived; /* activations; NULL at the first stage, or without a micro-batch */
    int64_t version;   /* of the weights that its forward pass read: the step they were new at */
    fast_stage_pass figures; /* of its forward pass, or the last stage's */
} fast_pipe_slot;

/* A stage of the worker. */
typedef struct fast_pipe_chunk {
    fast_learner *learner; /* of the stage; borrowed */
    int64_t offset;        /* of its parameters in the worker's vectors */
    fast_pipe_slot *slots; /* [slot_count] micro-batches in flight, by number */
    int64_t slot_count;    /* fast__pipe_chunk_flight() */
    int64_t before;        /* first actor of the stage before; -1: this is the first of the model */
    int64_t behind;        /* first actor of the stage behind; -1: this is the last of the model */
    int64_t number;        /* of the stage in the model */
} fast_pipe_chunk;

typedef struct fast_pipe {
    fast_pipe_options options;   /* place and neighbours */
    fast_group *shards;          /* workers with the other shards of the stage; set and freed by the
                                  host of the program; NULL: the stage is whole */
    fast_group *replica;         /* workers with the parts of one model, or where stages have
                                  replicas of their own all, as `shards`; NULL: one */
    fast_pipe_chunk *chunks;     /* [chunk_count] stages of the worker */
    int64_t chunk_count;         /* V; 0: the model is whole */
    fast_pipe_versions versions; /* of the weights, where the pipeline is never drained */
    int64_t next_forward;  /* never drained: the next batch to enter; -1: nothing is in flight */
    int64_t in_flight_max; /* micro-batches that were in flight at once, at most; one that is in
                                  several chunks counts in each */
    int64_t in_flight;     /* micro-batches in flight now */
    double share;          /* losses of this step of which each shard has a part */
    int64_t staleness;     /* updates since the weights of the last gradient were read */
    int64_t staleness_max; /* of all gradients */
    int64_t gap_max;       /* updates between the weights of both passes of a batch, at most */
    fast_pipe_log log;     /* the first passes, for pictures */
} fast_pipe;

struct fast_context;

/* Return what the stage multiplies the learning rate of a step by: 1 of a model that is whole. */
double fast__pipe_lr(const fast_pipe *pipe, int64_t step);

/* Allocate what a stage has in flight. FAST_ENOMEM. */
fast_err fast__pipe_init(struct fast_context *context, const fast_pipe_options *options);
void fast__pipe_fini(fast_pipe *pipe); /* all 0 is allowed */
/* Forget all micro-batches in flight: a program has ended or starts. */
void fast__pipe_drop(fast_pipe *pipe);

/* Compute g of the next step: all passes of a schedule that is drained, or else the passes that end
 * with the backward pass of this step's last batch. `report` is as in a gradient. Fails as the
 * learner, or as a receive does. */
fast_err fast__pipe_gradient(struct fast_context *context, fast_report_fn *report, void *ctx,
                             fast_gradient *out);
