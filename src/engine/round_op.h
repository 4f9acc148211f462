/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/graph.h"

/*
 * Operators of split networks that are computed in rounds: T shards have a block each of some
 * operand, and the blocks visit the shards one after the other, so that no shard ever holds more
 * than one of them besides its own. An operator may also write the block that leaves: what arrives
 * in a round is then the output of another shard in the round before.
 *
 *     forward     round 0, shift, round 1, shift, ... round R - 1      blocks move on
 *     backward    round R - 1, shift back, ... round 1, shift back, round 0
 *
 * In the backward pass the gradient of a block travels with it, from the last shard that it has
 * visited back to the one that owns it, and each adds its part. The caller moves blocks
 * (model/rounds.h); an operator computes. Values are in samples: [samples][elements].
 */
enum { FAST_VISITORS_MAX = 2 };

/* The arguments of a round, for both passes. */
typedef struct fast_round_call {
    const fast_graph *graph;         /* of the section: node 0 its input, node 1 the operator */
    int64_t samples;                 /* of the micro-batch */
    int64_t shards, shard;           /* T and t */
    int64_t round;                   /* from 0 on; backward to 0 */
    const float *x;                  /* own inputs */
    const float *w;                  /* parameters of the section; NULL: it has none */
    float *visit[FAST_VISITORS_MAX]; /* blocks that are here in this round */
    float *visit_grad[FAST_VISITORS_MAX]; /* backward: their gradients, added to */
    float *saved;                         /* from the forward pass to the backward pass */
    float *y;                             /* outputs: complete after the last round */
    const float *dy;                      /* backward: their gradient */
    float *dx;                            /* backward: complete after round 0; NULL: not needed */
    float *dw; /* backward: gradient of the parameters, complete after round 0 */
} fast_round_call;

typedef struct fast_round_op {
    /* Return the number of rounds, of a call without values. */
    int64_t (*rounds)(const fast_round_call *call);
    /* Return the shard that a visitor's block moves to after a round; with `back` the one that it
     * came from. */
    int64_t (*next)(const fast_round_call *call, int visitor, bool back);
    /* Return the floats of a visitor's blocks, which have one size; 0: there is no such visitor.
     * Return those of saved. */
    int64_t (*floats)(const fast_round_call *call, int visitor);
    int64_t (*saved)(const fast_round_call *call);
    /* Fill the own blocks, before round 0 of the forward pass. */
    void (*start)(const fast_round_call *call);
    /* Compute a round. The backward pass sets dx and dw in its first one, which is the last. */
    void (*forward)(const fast_round_call *call);
    void (*backward)(const fast_round_call *call);
    /* The own blocks are back: take their gradients, after round 0 of the backward pass. */
    void (*finish)(const fast_round_call *call);
    /* Return the operations of a round's forward pass. */
    double (*operations)(const fast_round_call *call);
} fast_round_op;

extern const fast_round_op fast__ring_attention;   /* keys and values visit queries */
extern const fast_round_op fast__cannon;           /* blocks of both factors of a product move */
extern const fast_round_op fast__streaming_layers; /* outputs of a frame move to the next layers */
