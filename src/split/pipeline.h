/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * Schedules of a pipeline: the order in which a stage runs the forward and backward passes of its
 * micro-batches. With S stages, of which this is stage s from the input on, and M micro-batches a
 * step:
 *
 *   gpipe       F0 F1 ... F(M-1)  B0 B1 ... B(M-1), then an update: M activations at once
 *               (Huang et al. 2019)
 *   1f1b        S-1-s forward passes, then one forward and one backward pass in turn, then the
 *               backward passes that are left, then an update: at most S-s activations, the same
 *               sums and the same bubble (Narayanan et al. 2019, 2021)
 *   pipedream   1f1b without the drain: a step is one batch, later batches are in the pipeline
 *               already, and the gradient of each is of the weights that its forward pass had
 *
 *     1f1b, S = 2, M = 4       stage 0    F0 F1 B0 F2 B1 F3 B2    B3
 *                              stage 1       F0 B0 F1 B1 F2 B2 F3 B3
 */
typedef enum fast_pipeline {
    FAST_PIPELINE_1F1B,     /* one forward, one backward */
    FAST_PIPELINE_GPIPE,    /* all forward, all backward */
    FAST_PIPELINE_PIPEDREAM /* one forward, one backward, never drained */
} fast_pipeline;

/* The names as an option's choices, in the order of the enumeration. */
#define FAST_PIPELINE_CHOICES "1f1b|gpipe|pipedream"

/* Place of a stage in a pipeline. */
typedef struct fast_pipe_place {
    fast_pipeline pipeline; /* the schedule */
    int64_t stages;         /* S */
    int64_t stage;          /* s */
    int64_t micro_batches;  /* M of a step; 1 with pipedream */
} fast_pipe_place;

/* A pass of one micro-batch of the step. */
typedef struct fast_pipe_move {
    bool backward;       /* else forward */
    int64_t micro_batch; /* from 0 */
} fast_pipe_move;

/* Return move i of a step, 0 <= i < 2 M, of a schedule that is drained. */
fast_pipe_move fast__pipe_move(const fast_pipe_place *place, int64_t i);

/* Return the largest number of micro-batches whose activations the stage has at once. */
int64_t fast__pipe_flight(const fast_pipe_place *place);

/* Return the share of its time that a stage of a drained schedule waits if all stages are equal and
 * transfers take no time: (S - 1) / (M + S - 1). */
double fast__pipe_bubble(const fast_pipe_place *place);
