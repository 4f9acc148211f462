/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "strategy/exchange.h"

/*
 * Replicas between workers, through the run's codec. Without one, or with one that loses nothing,
 * replicas travel as they are; else as differences to what the receiver holds; links.c says how.
 */
typedef struct fast_links {
    fast_trainer *t;
    bool coded;      /* parameters go through flows */
    bool differ;     /* as differences: mixing is fast__links_mix(), not fast__replica_mix() */
    bool apart;      /* each receiver has its own: not all get everything */
    bool *begun;     /* [workers]: what went to each in this program reached it */
    fast_flow **out; /* [workers]: to each; only the first one is used unless apart */
    fast_flow **in;  /* [workers]: from each; likewise unless they differ */
    double gamma;    /* how much of a difference is taken; 0: by what the codec keeps of it */
} fast_links;

/* The option of it. */
#define FAST_LINKS_GAMMA(type)                                                                     \
    FAST_OPT_REAL(type, gamma, "0", 0, 1,                                                          \
                  "codecs that lose something: part of neighbours' differences that is taken; 0: " \
                  "by what the codec keeps")

/* `apart`: not all neighbours get each message. `sure`: all that was sent in an earlier call of the
 * run has arrived, because workers go in step. */
fast_err fast__links_init(fast_trainer *t, bool apart, bool sure, double gamma, fast_links *out);
void fast__links_fini(fast_links *links);
/* Take the memory of a link now, to a worker or (`in`) from one, and not when it is first used.
 * Links are asked for in the order of that use. FAST_ENOMEM. */
fast_err fast__links_reserve(fast_links *links, int64_t rank, bool in);
/* x for a worker, or, unless apart, for all: as fast__replica_pack(); *gamma_out is how much of it
 * is to be taken. */
fast_err fast__links_pack(fast_links *links, int64_t rank, const float *x, fast_buffer **out,
                          size_t *size_out, double *gamma_out);
/* A message of it, with that number; the buffer stays the caller's too. */
fast_err fast__links_msg(fast_links *links, uint64_t tag, double mass, double gamma,
                         fast_buffer *buffer, size_t size, fast_msg **out);
/* What came from a worker: as fast__replica_open(), with x. FAST_EFORMAT also if something before
 * it is missing. */
fast_err fast__links_open(fast_links *links, int64_t rank, const fast_msg *msg, fast_replica *out);
/* How much of it is to be taken. */
double fast__links_gamma(const fast_msg *msg);
/* What a worker holds of this one's parameters. */
const float *fast__links_held(const fast_links *links, int64_t rank);
/* What this one holds of a worker's. */
const float *fast__links_known(const fast_links *links, int64_t rank);
/* Something did not reach a worker: the next has everything. */
void fast__links_renew(fast_links *links, int64_t rank);

/* w <- w + take (x - h), h what a worker holds of w; the state, the rule's and contributions
 * become keep of themselves and take of its; charged. */
fast_err fast__links_mix(fast_links *links, int64_t rank, double keep, const fast_replica *model,
                         double take);
