/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "strategy/links.h"

/*
 * The family `partial`: partial.c has the options, `parts` and `states`; partial_scatter.c has
 * `scatter`.
 */

/* Options. */
typedef struct fast_partial_config {
    int how;          /* 0 scatter, 1 parts, 2 states */
    int64_t period;   /* scatter, states: steps between sends */
    int sends;        /* scatter: 0 weights, 1 gradients */
    int64_t queue;    /* scatter: messages of a sender that wait to be mixed, at most */
    int64_t slack;    /* scatter: rounds that neighbours may be behind; -1: any number */
    int64_t parts;    /* parts: p; 0: derived from the bandwidth */
    double bandwidth; /* parts: bytes per second; 0: measured */
    double part;      /* states: fraction of the parameters in a message */
    bool window;      /* states: merge only states that pass the Parzen window */
    bool scaled;      /* states: move by the learning rate */
    bool flush;       /* parts: receive the messages in flight at the end */
    double gamma;     /* scatter: consensus step size of fast_links */
} fast_partial_config;

/* Words of the message of a part or a state; the first is that of a replica's message. */
enum { FAST_PARTIAL_STEP, FAST_PARTIAL_OFFSET, FAST_PARTIAL_COUNT, FAST_PARTIAL_GRADIENTS };

/* A worker's state besides its replica. */
typedef struct fast_partial {
    fast_trainer *t;              /* the worker */
    const fast_partial_config *c; /* its options */
    fast_neighbours neighbours;   /* scatter, states: receivers */
    fast_intake in;               /* messages that arrive */
    fast_links links;             /* scatter: of weights */
    double gamma;                 /* scatter: step size of the last message that was sent */
    fast_flow **flows;            /* gradients, states: [flow_count], out; NULL without a codec */
    fast_flow **flows_in;         /* states: [flow_count], in; NULL without a codec */
    int64_t flow_count;           /* length of flows and flows_in */
    fast_msg **newest;            /* scatter: [workers][queue], of each sender, not mixed yet */
    int64_t *reached;             /* scatter: [workers] scratch, after a crash; else NULL */
    bool *down;                   /* scatter: [2 workers] scratch, after a crash; else NULL */
    int64_t *round;               /* scatter: [workers], round of each sender's newest message */
    float *sum;                   /* parts: d; states: u */
    float *due;                   /* parts: [count], gradients of the next update */
    int64_t due_count;            /* parts: messages in due */
    double *due_shares;           /* parts: contributions of due */
    double *shares;               /* contributions: states: of u; else scratch */
    int64_t *summed;              /* parts: [parts], gradients in each part of d */
    int64_t parts;                /* parts: p */
    int64_t parts_max;            /* parts: length of summed */
    double byte_s;                /* parts: seconds of a byte, for parts=0 */
    int64_t start_ns;             /* time at which the first step started */
} fast_partial;

/* Return the number of steps that the receiver is ahead of a message; at least 0. */
int64_t fast__partial_age(const fast_partial *sh, const fast_msg *msg);

/* scatter: open the links or the flow of gradients. FAST_EINVAL for a lossy codec on a graph that
 * changes. */
fast_err fast__scatter_open(fast_partial *sh);
/* scatter: take one step. */
fast_err fast__scatter_step(fast_partial *sh);
/* scatter: store a message as the newest of its sender. */
fast_err fast__scatter_take(void *ctx, fast_msg **move);
/* scatter: append a message to a queue, oldest first, of which unused slots are NULL; the oldest of
 * a full queue is freed. */
void fast__scatter_queue(fast_msg **queue, int64_t length, fast_msg **move);
/* scatter: list in reached[size] the workers that a rank sends to, if those with down[i] crashed:
 * their receivers take their place. Return the number. `n` and seen[size] are scratch. */
int64_t fast__scatter_receivers(const fast_topology *topology, int64_t round, int64_t rank,
                                const bool *down, fast_neighbours *n, int64_t *reached, bool *seen);
