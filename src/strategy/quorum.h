/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "strategy/strategy.h"

/*
 * What the two sides of the strategy quorum share: quorum.c is the workers', quorum_server.c the
 * servers'. The vector of a round is the gradient and behind it the state, cut over the servers;
 * the first server leads: it decides who is in a round.
 */
typedef struct quorum_config {
    int64_t quorum;  /* gradients that end a round; 0: by backup */
    int64_t backup;  /* workers that a round does not wait for */
    int late;        /* gradients that missed their round: 0 dropped, 1 added to a later one */
    bool partial;    /* who is not done when the quorum is sends the part that it has */
    int64_t lag;     /* rounds that a worker may miss before the others wait for it */
    int64_t servers; /* that add up; 0: one for each worker */
} quorum_config;

/* Tags of the messages. Their words: kind, round, and a number of the kind's. */
enum { FAST_QUORUM_UP = 1, FAST_QUORUM_DOWN, FAST_QUORUM_MODEL };
enum { FAST_QUORUM_KIND, FAST_QUORUM_ROUND, FAST_QUORUM_NUMBER };

typedef enum fast_quorum_kind {
    FAST_QUORUM_HELLO,    /* up: a worker begins with this round */
    FAST_QUORUM_GRADIENT, /* up: a stretch of a worker's vector; number: its micro-batches */
    FAST_QUORUM_AT,       /* up: a worker that missed rounds is at this one now */
    FAST_QUORUM_STOP,     /* up: a worker was asked to stop before this round */
    FAST_QUORUM_LEAVE,    /* up: a worker has all that it needs */
    FAST_QUORUM_HAVE,     /* server to leader: it has the stretch of worker `number` */
    FAST_QUORUM_DECIDE,   /* leader to servers: who is in the round, as int64_t[workers] */
    FAST_QUORUM_SUM,      /* down: a stretch of the sum, and who is in it; number: whole weight */
    FAST_QUORUM_FLUSH,    /* down, of the leader: send the part that you have */
    FAST_QUORUM_END,      /* down, of the leader: all stopped; there is no such round */
    FAST_QUORUM_FEW,      /* down, of the leader: the quorum is out of reach; why, as text; number:
                             the actor that is to blame */
    FAST_QUORUM_REFUSE,   /* down, of the leader: you missed rounds; number 1: and it is too late */
    FAST_QUORUM_JOIN,     /* up: a worker was away and asks for a model; number: which time. Leader
                             to servers: worker `number` gets sums again */
    FAST_QUORUM_WELCOME,  /* down, of the leader: begin with this round and the model of worker
                             `number`; -1: with your own */
    FAST_QUORUM_GIVE      /* down, of the leader: send worker `number` your model of this round */
} fast_quorum_kind;

/* A model that a worker gives to one who was away (tag MODEL): doubles, what it carries of each
 * worker; then floats: w, s and the rule's vectors. Its round is the one that it begins with. */

/* Gradients that end a round. */
int64_t fast__quorum_of(const quorum_config *c, int64_t workers);
/* The stretch of the vector that a server adds up. */
void fast__quorum_range(const fast_trainer *t, int64_t server, int64_t *first_out,
                        int64_t *count_out);
/* A message of this kind; takes a buffer as its part where *move is one. */
fast_err fast__quorum_msg(fast_trainer *t, uint64_t tag, fast_quorum_kind kind, int64_t round,
                          int64_t number, fast_buffer **move, fast_msg **out);

/* Are these the micro-batches of each worker in a round, at least one in all? FAST_EFORMAT. */
fast_err fast__quorum_check(const int64_t *weights, int64_t workers);

/* quorum_code.c: a server's stretch, where the run has codecs. */
typedef struct fast_quorum_code {
    bool on;         /* the run has codecs */
    fast_flow *flow; /* of the gradient in the stretch; NULL: there is none */
    int64_t coded;   /* floats of that */
    int64_t rest;    /* floats behind it, of the state */
    uint8_t *bytes;  /* who encodes: the last encoding */
    size_t size;     /* of it */
} fast_quorum_code;

/* Of a server's stretch; `how` says number, down and decodes. FAST_EINVAL, FAST_ENOMEM. */
fast_err fast__quorum_code_open(fast_trainer *t, int64_t server, const fast_flow_options *how,
                                fast_quorum_code *out);
void fast__quorum_code_close(fast_quorum_code *code);
/* Encode a stretch's gradient, once; pack that encoding and the state as a part of messages, as
 * often as it is sent. */
fast_err fast__quorum_encode(fast_trainer *t, fast_quorum_code *code, const float *x);
fast_err fast__quorum_pack(fast_trainer *t, const fast_quorum_code *code, const float *rest,
                           fast_buffer **out, size_t *size_out);
/* The stretch in part 0 of a message, to x. FAST_EFORMAT. */
fast_err fast__quorum_unpack(fast_trainer *t, const fast_quorum_code *code, const fast_msg *msg,
                             float *x);

/* The servers' program. */
fast_err fast__quorum_server(fast_trainer *t, const void *config);
