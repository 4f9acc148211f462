/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "strategy/exchange.h"

/*
 * Replicas between workers, through the run's codec. Without a codec, or with a lossless one,
 * replicas are sent as they are; with a lossy one as differences to the receiver's copy (links.c).
 */
typedef struct fast_links {
    fast_trainer *t;   /* the worker */
    bool coded;        /* parameters go through flows */
    bool differ;       /* as differences: mix by fast__links_mix(), not by fast__replica_mix() */
    bool per_receiver; /* every receiver has a flow of its own, because not all get each message */
    bool *started;     /* as `out`: the receiver has a copy that belongs to the flow */
    bool *owned;       /* memory of `started`; NULL: a persistent block, for snapshots */
    fast_flow **out; /* flows to each worker; only the first is used unless per_receiver. Of length
                          1 unless they differ, as `in` */
    fast_flow **in;  /* flows from each worker; only the first is used unless they differ */
    double *shares;  /* contributions of w when it was packed last; NULL unless they
                          differ */
    double gamma;    /* consensus step size; 0: measured from the codec's loss */
} fast_links;

/* Number of the persistent block of asynchronous links. */
enum { FAST_LINKS_BLOCK = 1000 };

/* The option `gamma` of strategies that use links. */
#define FAST_LINKS_GAMMA(type)                                                           \
    FAST_OPT_REAL(type, gamma, "0", 0, 1,                                                \
                  "lossy codecs: fraction of a neighbour's difference that is mixed in " \
                  "(consensus step size); 0: measured from the codec's loss")

/* Set up links to all workers. `per_receiver`: not all neighbours get each message. `synchronous`:
 * all messages of an earlier call of the run have arrived. FAST_ENOMEM. */
fast_err fast__links_init(fast_trainer *t, bool per_receiver, bool synchronous, double gamma,
                          fast_links *out);
void fast__links_fini(fast_links *links);
/* Allocate the flow to a worker, or (`in`) from one, before it is first used. Flows are reserved in
 * the order of that use. FAST_ENOMEM. */
fast_err fast__links_reserve(fast_links *links, int64_t rank, bool in);
/* Pack x for a worker, or unless per_receiver for all, as fast__replica_pack() does. *gamma_out is
 * the step size that this encoding allows. */
fast_err fast__links_pack(fast_links *links, int64_t rank, const float *x, fast_buffer **out,
                          size_t *size_out, double *gamma_out);
/* Create a message of it with its step size; the caller still owns the buffer. */
fast_err fast__links_msg(fast_links *links, uint64_t tag, double mass, double gamma,
                         fast_buffer *buffer, size_t size, fast_msg **out);
/* Decode a message of a worker, as fast__replica_open() with x. FAST_EFORMAT also if an earlier
 * message of the worker is missing. */
fast_err fast__links_open(fast_links *links, int64_t rank, const fast_msg *msg, fast_replica *out);
/* Return the step size of a message. */
double fast__links_gamma(const fast_msg *msg);
/* Return the copy of this worker's parameters that another worker holds. */
const float *fast__links_held(const fast_links *links, int64_t rank);
/* Return this worker's copy of another worker's parameters. */
const float *fast__links_known(const fast_links *links, int64_t rank);
/* Note that a message to a worker was lost: the next one has all of x. */
void fast__links_renew(fast_links *links, int64_t rank);

/* w <- w + other (x - h), h the copy of w that the worker holds. The state, the rule's state and
 * the contributions become `own` of themselves and `other` of the replica's. Charged. */
fast_err fast__links_mix(fast_links *links, int64_t rank, double own, const fast_replica *model,
                         double other);
