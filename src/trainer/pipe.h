/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/strategy.h"
#include "learner/learner.h"
#include "split/pairs.h"
#include "split/pipeline.h"

/*
 * The place of a worker in a pipeline, and what it has in flight. To a strategy a stage is a
 * learner like any other: fast_trainer_gradient() runs the stage's part of a step, with messages to
 * the stages before and behind. The strategy's workers are those of the same stage.
 */
typedef struct fast_pipe_options {
    fast_pipe_place place;           /* schedule, stage, micro-batches */
    int64_t before;                  /* actor of the stage before; -1: the first stage */
    int64_t behind;                  /* actor of the stage behind; -1: the last stage */
    const fast_split_range *partial; /* shards: ranges of g that are to be summed over them */
    int64_t partial_count;           /* length of partial */
} fast_pipe_options;

/* A micro-batch between its forward and its backward pass. */
typedef struct fast_pipe_slot {
    fast_msg *arrived; /* activations; NULL at the first stage, or without a micro-batch */
    float *stash;      /* pipedream: weights of its forward pass; NULL: those of the learner */
    int64_t version;   /* step at which its forward pass read the weights */
    fast_stage_pass figures; /* of its forward pass, or the last stage's */
} fast_pipe_slot;

typedef struct fast_pipe {
    fast_pipe_options options; /* place and neighbours */
    fast_group *shards;        /* workers with the other shards of the stage; set and freed by the
                                  host of the program; NULL: the stage is whole */
    fast_pipe_slot *slots;     /* [slot_count] micro-batches in flight */
    int64_t slot_count;        /* fast__pipe_flight(); 0: the model is whole */
    int64_t next_forward;      /* pipedream: the next batch to enter; -1: the pipeline is empty */
    int64_t in_flight_max;     /* micro-batches that were in flight at once, at most */
    int64_t in_flight;         /* micro-batches in flight now */
    int64_t staleness;         /* updates since the weights of the last gradient were read */
} fast_pipe;

struct fast_context;

/* Allocate what a stage has in flight. FAST_ENOMEM. */
fast_err fast__pipe_init(struct fast_context *context, const fast_pipe_options *options);
void fast__pipe_fini(fast_pipe *pipe); /* all 0 is allowed */
/* Forget all micro-batches in flight: a program has ended or starts. */
void fast__pipe_drop(fast_pipe *pipe);

/* Compute g of the next step: all passes of a schedule that is drained, or with pipedream the
 * passes that end with the backward pass of this step's batch. `report` is as in a gradient. Fails
 * as the learner, or as a receive does. */
fast_err fast__pipe_gradient(struct fast_context *context, fast_report_fn *report, void *ctx,
                             fast_gradient *out);
