/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "strategy/strategy.h"
#include "tensor/tree_sum.h"

/*
 * Inside the family quorum:
 *
 *   quorum.c         options and the workers' program
 *   quorum_join.c    the return of a worker that was cut off
 *   quorum_server.c  the servers' program
 *   quorum_code.c    codecs
 *
 * The vector of a round is the gradient followed by the state, cut into one range for each server.
 * The first server is the leader: it decides which workers are in a round.
 */

/* The options. */
typedef struct quorum_config {
    int64_t quorum; /* gradients that end a round; 0: by backup */
    int64_t backup; /* workers that a round does not wait for */
    int late;       /* gradients that missed their round: 0 dropped, 1 added to a later one */
    bool partial;   /* when the quorum is done, the other workers send their micro-batches so far */
    int64_t lag;    /* rounds that a worker may miss before the others wait for it */
    int64_t servers; /* that share the sum; 0: one for each worker */
} quorum_config;

/* Tags of the messages, and their words: the kind, the round, and a number with a meaning for each
 * kind. */
enum { FAST_QUORUM_UP = 1, FAST_QUORUM_DOWN, FAST_QUORUM_MODEL };
enum { FAST_QUORUM_KIND, FAST_QUORUM_ROUND, FAST_QUORUM_NUMBER };

typedef enum fast_quorum_kind {
    FAST_QUORUM_HELLO,    /* up: a worker starts with this round */
    FAST_QUORUM_GRADIENT, /* up: a range of a worker's vector; number: its micro-batches */
    FAST_QUORUM_AT,       /* up: a worker that missed rounds is at this round now */
    FAST_QUORUM_STOP,     /* up: a worker was asked to stop before this round */
    FAST_QUORUM_LEAVE,    /* up: a worker ends; it needs no more messages */
    FAST_QUORUM_HAVE,     /* server to leader: it has the range of worker `number` */
    FAST_QUORUM_DECIDE,   /* leader to servers: workers in the round, as int64_t[workers] weights */
    FAST_QUORUM_SUM,      /* down: a range of the sum, and those weights; number: their sum */
    FAST_QUORUM_FLUSH,    /* down, of the leader: send the micro-batches that you have */
    FAST_QUORUM_END,      /* down, of the leader: all workers stopped before this round */
    FAST_QUORUM_FEW,      /* down, of the leader: the quorum is out of reach; the reason, as text;
                             number: the actor that caused it */
    FAST_QUORUM_REFUSE,   /* down, of the leader: you missed rounds; number 1: it is too late to
                             join */
    FAST_QUORUM_JOIN,     /* up: a worker was cut off and asks for a model; number: of the request.
                             Leader to servers: worker `number` gets sums again */
    FAST_QUORUM_WELCOME,  /* down, of the leader: start with this round and the model of worker
                             `number`; -1: with your own model */
    FAST_QUORUM_GIVE      /* down, of the leader: send worker `number` your model of this round */
} fast_quorum_kind;

/* A model for a worker that joins again (tag MODEL) is doubles, the contributions, and
 * floats: w, the rule's vectors and s. Its round is the one that the worker starts with. */

/* Return the number of gradients that end a round. */
int64_t fast__quorum_of(const quorum_config *c, int64_t workers);
/* Set the range of the vector that a server sums. */
void fast__quorum_range(const fast_trainer *t, int64_t server, int64_t *first_out,
                        int64_t *count_out);
/* Make a message of this kind, with the buffer *move as its part; `move` NULL: without a part. */
fast_err fast__quorum_msg(fast_trainer *t, uint64_t tag, fast_quorum_kind kind, int64_t round,
                          int64_t number, fast_buffer **move, fast_msg **out);

/* FAST_EFORMAT unless the weights are possible numbers of micro-batches, at least one in all. */
fast_err fast__quorum_check(const int64_t *weights, int64_t workers);

/* quorum_code.c: the codec of a server's range, where the run has codecs. */
typedef struct fast_quorum_code {
    bool on;         /* the run has codecs */
    fast_flow *flow; /* of the gradient in the range; NULL if the range has no gradient */
    int64_t coded;   /* floats of the gradient in the range */
    int64_t rest;    /* floats of the state, which follow */
    uint8_t *bytes;  /* at the encoding end: the last encoding; else NULL */
    size_t size;     /* length of bytes */
} fast_quorum_code;

/* Open the codec of a server's range; `how` sets number, down and decodes. FAST_EINVAL,
 * FAST_ENOMEM. */
fast_err fast__quorum_code_open(fast_trainer *t, int64_t server, const fast_flow_options *how,
                                fast_quorum_code *out);
/* Free the encoding; the flow is the trainer's. All 0 is allowed. */
void fast__quorum_code_close(fast_quorum_code *code);
/* Encode the gradient x of a range, once for each gradient. */
fast_err fast__quorum_encode(fast_trainer *t, fast_quorum_code *code, const float *x);
/* Pack the last encoding and the state `rest` as a part of a message, as often as it is sent. */
fast_err fast__quorum_pack(fast_trainer *t, const fast_quorum_code *code, const float *rest,
                           fast_buffer **out, size_t *size_out);
/* Have snapshots include the last encoding, under two numbers from `number` on. */
fast_err fast__quorum_code_remember(fast_trainer *t, fast_quorum_code *code, int64_t number);
/* Decode the range in part 0 of a message to x. FAST_EFORMAT. */
fast_err fast__quorum_unpack(fast_trainer *t, const fast_quorum_code *code, const fast_msg *msg,
                             float *x);

/* A worker's memory besides its replica. */
typedef struct quorum_worker {
    fast_trainer *t;             /* the worker's */
    const quorum_config *config; /* the options */
    float *sum;                  /* [count + state_count]: the sum of the last round */
    fast_tree_sum fold;      /* partial: the sum of a round's micro-batches, in canonical order */
    float *folded;           /* partial: [count] result of the fold; else NULL */
    int64_t next;            /* partial: number of the next micro-batch */
    int64_t made;            /* the round that the gradient in t->g was computed for */
    int64_t weight;          /* its micro-batches, until a round has it or it is dropped; then 0 */
    int64_t *weights;        /* [workers]: micro-batches in the last sum */
    double *shares;          /* scratch: contributions of the last sum */
    bool over;               /* the leader sent END */
    bool refused;            /* the leader sent REFUSE: this worker missed updates */
    int64_t joins;           /* requests to join so far */
    bool encoded;            /* the last gradient is encoded, for all servers */
    fast_quorum_code *codes; /* [2 servers]: of gradients up, and of sums down; NULL: no codecs */
} quorum_worker;

/* quorum_join.c */
/* Join again: receive the newest model from another worker, and start with its round. FAST_ENOTSUP
 * if it is too late; FAST_EPEER if the quorum is out of reach. */
fast_err fast__quorum_rejoin(quorum_worker *m);
/* Send this worker's model, which is that of the round in the GIVE message, to the worker that
 * joins again. */
fast_err fast__quorum_send_model(quorum_worker *m, const fast_msg *msg);
/* FAST_EPEER with the leader's reason, from its FEW message. */
fast_err fast__quorum_fail_few(const quorum_worker *m, const fast_msg *msg);
/* Set *out if this worker was cut off, and is back. It was cut off if all other workers are down
 * together with the server; it waits until the server is up again, at most a timeout. */
fast_err fast__quorum_wait_for_return(const quorum_worker *m, bool *out);

/* The servers' program. */
fast_err fast__quorum_server(fast_trainer *t, const void *config);
