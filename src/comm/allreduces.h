/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "comm/collective.h"

/*
 * The contract of an algorithm for allreduce. Most are schedules (comm.h): `rounds` says it all.
 * Others (shared memory, the machine's own) give `run`, and `advance` if they can be nonblocking.
 */

/* The price of moving and adding: T = alpha messages + beta bytes + gamma additions, in seconds. */
typedef struct fast_price {
    double alpha; /* of a message */
    double beta;  /* of a byte */
    double gamma; /* of an addition */
} fast_price;

typedef struct fast_algorithm {
    const char *name;    /* as it is typed */
    const char *summary; /* one line, for help */
    const fast_option
        *options;   /* of its configuration, at most FAST_ALLREDUCE_CONFIG bytes; NULL */
    bool canonical; /* adds in the canonical order: `auto` may choose it */

    /* Prepare it for a group, the same at all members, without talking to them. Called once for a
     * group and a configuration, when it is first needed. FAST_ENOTSUP says why this group cannot.
     * *state_out is NULL before. NULL: always possible, no state. */
    fast_err (*open)(fast_group *group, const void *config, void **state_out);
    void (*close)(fast_group *group, void *state); /* NULL: nothing to free */

    fast_round_fn *rounds; /* the schedule; NULL: it is none, and the next two are used */

    /* All of it, blocking until the deadline. Also allowed beside `rounds` or `advance`, if it is
     * faster. Fails as a collective does. */
    fast_err (*run)(fast_group *group, void *state, float *x, int64_t count, int64_t deadline);
    /* A part of it, as fast__collective_advance(); sets collective->whom to what it waits for, a
     * zeroed phase and words are its own. NULL: cannot be nonblocking. */
    fast_err (*advance)(fast_collective *collective, bool *done);
    /* Called by fast__collective_drop() for one that was begun and is given up, or failed: once it
     * returns no other member touches the vector any more. NULL: nobody does anyway. */
    void (*drop)(fast_collective *collective);

    /* What the closed form says for ask->size members and ask->count floats. */
    double (*seconds)(const fast_price *price, const fast_ask *ask);
} fast_algorithm;

/* In the order of `fast help`; the last is NULL. At most FAST_ALLREDUCE_MAX. */
extern const fast_algorithm *const fast__allreduces[];
extern const fast_algorithm fast__allreduce_tree;
extern const fast_algorithm fast__allreduce_butterfly;
extern const fast_algorithm fast__allreduce_ring;
extern const fast_algorithm fast__allreduce_rabenseifner;
extern const fast_algorithm fast__allreduce_hierarchical;
extern const fast_algorithm fast__allreduce_direct;
extern const fast_algorithm fast__allreduce_native;

/* Open slot i of the group with its default options if it is not open yet. */
fast_err fast__allreduce_open(fast_group *group, int i);
/* For `auto`: the number of the algorithm for this count, open, the same at all members. May talk
 * to them when it first fits its model, so `blocking` says if it may; then, until the deadline,
 * which becomes a time. Fails as a collective does. */
fast_err fast__allreduce_choose(fast_group *group, int64_t count, bool blocking, int64_t *deadline,
                                int *out);

/* Called with count elements of a sum, at most FAST_USE_MAX, from `offset` on: a multiple of 32. */
enum { FAST_USE_MAX = 2048 };
typedef void fast_use_fn(void *ctx, int64_t offset, int64_t count, const float *sum);

/* Sum x over the members, who share memory, in the canonical order, and let each use one slice of
 * the sum, in pieces; returns once all members have used theirs, so that what they wrote is seen.
 * x, the same count and the same kind of use at all, is only read, by all of them. FAST_ENOTSUP
 * where they do not share memory; else it fails as a collective does. */
fast_err fast__direct_use(fast_group *group, const float *x, int64_t count, fast_use_fn *use,
                          void *ctx, int64_t deadline);
