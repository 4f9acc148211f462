/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "strategy/links.h"

/*
 * The members of the family `partial`: partial.c has its options, parts and states, and
 * partial_scatter.c the rest.
 */
/* Options. */
typedef struct fast_partial_config {
    int how;          /* 0 scatter, 1 parts, 2 states */
    int64_t period;   /* scatter, states: steps between sends */
    int sends;        /* scatter: 0 weights, 1 gradients */
    int64_t slack;    /* scatter: rounds that neighbours may be behind; -1: any */
    int64_t parts;    /* parts: p; 0: by the bandwidth */
    double bandwidth; /* parts: bytes in a second */
    double part;      /* states: share of the weights that is sent */
    bool window;      /* states: merge by the test only */
    bool flush;       /* take in the last messages */
    double gamma;     /* of fast_links */
} fast_partial_config;

/* Words of a part's message; of a replica's the first is the same. */
enum { FAST_PARTIAL_STEP, FAST_PARTIAL_OFFSET, FAST_PARTIAL_COUNT, FAST_PARTIAL_GRADIENTS };

/* What a worker keeps. */
typedef struct fast_partial {
    fast_trainer *t;
    const fast_partial_config *c;
    fast_neighbours near; /* scatter, states: whom it sends to */
    fast_intake in;       /* what arrives */
    fast_links links;     /* scatter: through which weights travel */
    double gamma;         /* scatter: how much of them is to be taken */
    fast_flow **flows;    /* gradients, stretches: [flow_count], one for each part; NULL without a
                             codec */
    fast_flow **taken;    /* stretches: [flow_count], those that arrive */
    int64_t flow_count;   /* of both */
    fast_msg **newest;    /* scatter: [workers], of each sender, not yet taken; NULL elsewhere */
    int64_t *round;       /* scatter: [workers], of the newest, also if taken */
    float *sum;           /* parts: d; states: u */
    float *due;           /* parts: [count], gradients for the next update */
    int64_t due_count;    /* parts of others in it */
    double *due_shares;   /* parts: [workers], contributions of due */
    double *shares;       /* [workers] scratch: contributions of values that arrived */
    int64_t *summed;      /* parts: [parts], steps in each part of d */
    int64_t parts;        /* p */
    int64_t parts_max;    /* that fit */
    int64_t begun;        /* when the first step began */
} fast_partial;

/* Steps that the receiver is ahead of a message. */
int64_t fast__partial_age(const fast_partial *sh, const fast_msg *msg);

/* scatter: what sends and receives through the run's codec. */
fast_err fast__scatter_open(fast_partial *sh);
/* scatter: one step, and a message that arrived: the newest of each sender is kept. */
fast_err fast__scatter_step(fast_partial *sh);
fast_err fast__scatter_take(void *ctx, fast_msg **move);
