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
 *   interleaved 1f1b of V chunks: the model has V S stages, and worker s has stages s, s + S, ...
 *               s + (V-1) S. Its micro-batches pass chunk 0 in a group of S, then chunk 1, ...:
 *               the bubble is 1/V as long, for V times the messages (Narayanan et al. 2021)
 *   pipedream   1f1b without the drain: a step is one batch, later batches are in the pipeline
 *               already, and the gradient of each is of the weights that its forward pass had
 *
 *   pipedream_2bw   1f1b of a stream of micro-batches that is never drained, an update after M of
 *               them: both passes of step n use the weights before the update of step n - 1, so
 *               that two versions are enough (Narayanan et al. 2021)
 *   stale       pipedream without stashed weights: each pass uses the newest ones, so that those of
 *               the two passes of a batch differ (Petrowski et al. 1993, Chen et al. 2012)
 *   ampnet      a stage runs the pass of whatever message is there, gradients first, and updates
 *               after M gradients; a bounded number of micro-batches is in flight (Gaunt et al.
 *               2017)
 *   zero_bubble 1f1b whose backward passes are divided: B computes gradients of values, which the
 *               stage before waits for, and W those of weights, which fill the time at the end. W
 *               is s micro-batches behind B, so that all stages have S activations at most
 *               (ZB-H1 of Qi et al. 2023)
 *
 * Where stages have r_s replicas, micro-batch n goes to replica n mod r_s of stage s, forward and
 * back. A worker is ceil((r_(s+1) + ... + r_(S-1)) / r_s) of its own micro-batches ahead instead of
 * S-1-s, so that each later worker has one (1F1B-RR of Narayanan et al. 2019).
 *
 *     1f1b, S = 2, M = 4       stage 0    F0 F1 B0 F2 B1 F3 B2    B3
 *                              stage 1       F0 B0 F1 B1 F2 B2 F3 B3
 *
 *     zero_bubble, B = W       stage 0    F0 F1    B0 W0 F2 B1 W1 F3 B2 W2 B3 W3
 *                              stage 1       F0 B0 F1 B1 W0 F2 B2 W1 F3 B3 W2 W3
 */
typedef enum fast_pipeline {
    FAST_PIPELINE_1F1B,        /* one forward, one backward */
    FAST_PIPELINE_GPIPE,       /* all forward, all backward */
    FAST_PIPELINE_PIPEDREAM,   /* one forward, one backward, never drained */
    FAST_PIPELINE_INTERLEAVED, /* one forward, one backward, of several chunks in turn */
    FAST_PIPELINE_2BW,         /* pipedream with two versions of the weights */
    FAST_PIPELINE_STALE,       /* pipedream without older weights */
    FAST_PIPELINE_AMPNET,      /* passes in the order of messages */
    FAST_PIPELINE_ZERO_BUBBLE  /* one forward, one backward, and gradients of weights later */
} fast_pipeline;

/* The names as an option's choices, in the order of the enumeration. */
#define FAST_PIPELINE_CHOICES \
    "1f1b|gpipe|pipedream|interleaved|pipedream_2bw|stale|ampnet|zero_bubble"

enum { FAST_PIPELINE_NAME_MAX = 32 }; /* bytes of a name, with its end */

/* Write the name of a schedule. */
void fast__pipe_name(fast_pipeline pipeline, char text[FAST_PIPELINE_NAME_MAX]);

/* How the two passes of a stale micro-batch are brought closer to each other. */
typedef enum fast_pipe_extrapolate {
    FAST_PIPE_EXTRAPOLATE_NO,
    FAST_PIPE_EXTRAPOLATE_FORWARD, /* forward passes read an estimate of a later version */
    FAST_PIPE_EXTRAPOLATE_BACKWARD /* backward passes read an estimate of an older version */
} fast_pipe_extrapolate;

/* The names as an option's choices, in the order of the enumeration. */
#define FAST_PIPE_EXTRAPOLATE_CHOICES "no|forward|backward"

/* Kinds of passes. */
typedef enum fast_pipe_kind {
    FAST_PIPE_FORWARD,  /* activations of a micro-batch */
    FAST_PIPE_BACKWARD, /* its gradients */
    FAST_PIPE_WEIGHTS,  /* gradients of weights alone, where these are computed later */
    FAST_PIPE_KINDS     /* their number */
} fast_pipe_kind;

/* Place of a worker in a pipeline. */
typedef struct fast_pipe_place {
    fast_pipeline pipeline; /* the schedule */
    int64_t stages;         /* S: workers of a pipeline */
    int64_t stage;          /* s: of the worker's first chunk */
    int64_t micro_batches;  /* M of a step; 1 with pipedream. With chunks a multiple of S. Of those
                               of a stage with replicas the worker's own */
    int64_t chunks;         /* V: stages of each worker; 0 means 1 */
    int64_t delay;          /* never drained: batches that a stage is ahead of the next one; 0 means
                               1 */
    int64_t active;         /* ampnet: micro-batches in flight at most; 0: as many as stages */
    bool vertical;          /* pipedream: a batch uses one version of the weights at all stages */
    const int16_t *replicas; /* [S] workers of each stage, which take the micro-batches of one
                                pipeline round-robin; NULL: one each. With 1f1b, gpipe and
                                pipedream */
    int64_t replica;         /* the worker's number among those of its stage */
} fast_pipe_place;

/* A pass of one micro-batch of the step. */
typedef struct fast_pipe_move {
    fast_pipe_kind kind; /* of the pass */
    int64_t micro_batch; /* from 0 */
    int64_t chunk;       /* of the worker's, from 0; its stage of the model is chunk S + s */
} fast_pipe_move;

/* Return the workers of a stage that take micro-batches round-robin; and the number in the pipeline
 * of a worker's own micro-batch `i`: i r + j for replica j of r. */
int64_t fast__pipe_width(const fast_pipe_place *place, int64_t stage);
int64_t fast__pipe_number(const fast_pipe_place *place, int64_t i);

/* Return the passes of a step, of a schedule that is drained; and pass i of them. */
int64_t fast__pipe_moves(const fast_pipe_place *place);
fast_pipe_move fast__pipe_move(const fast_pipe_place *place, int64_t i);

/* Return the largest number of micro-batches whose activations the worker has at once: one that is
 * in several chunks counts in each. And that of one chunk. */
int64_t fast__pipe_flight(const fast_pipe_place *place);
int64_t fast__pipe_chunk_flight(const fast_pipe_place *place, int64_t chunk);

/* Is the pipeline drained at the end of each step? */
bool fast__pipe_drains(fast_pipeline pipeline);
/* Return the forward passes that a stage of a pipeline that is never drained makes before the
 * backward pass of the first of their micro-batches: delay (S - 1 - s), or as many as later workers
 * need; not of ampnet. */
int64_t fast__pipe_ahead(const fast_pipe_place *place);
/* Return how many updates old the weights of a forward pass are, at most, when its gradient is
 * applied: 0 of a schedule that is drained; of ampnet as if all stages were equal. */
int64_t fast__pipe_staleness(const fast_pipe_place *place);
/* Return whether the schedule divides backward passes. */
bool fast__pipe_divides(fast_pipeline pipeline);

/* Return the share of its time that a worker of a drained schedule waits if all stages are equal
 * and transfers take no time: (S - 1) / (V M + S - 1). Of zero_bubble, with F, B and W of equal
 * length, (S - 1) / (3 M + S - 1) from M = S on: a third. */
double fast__pipe_bubble(const fast_pipe_place *place);
