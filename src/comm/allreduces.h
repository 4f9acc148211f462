/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "comm/collective.h"

/*
 * The contract of an algorithm for allreduce, and the registry. Most algorithms are schedules
 * (collective.h): `rounds` is all they need. Others (shared memory, the transport's own) give
 * `run`, and `advance` if they can be nonblocking. A new algorithm is a file
 * collective/allreduce_NAME.c that defines fast__allreduce_NAME, and one line in FAST_ALLREDUCES.
 */

/* The cost of communication: T = alpha messages + beta bytes + gamma additions, in seconds. */
typedef struct fast_comm_cost {
    double alpha;      /* seconds of a message */
    double beta;       /* seconds of a byte */
    double gamma;      /* seconds of an addition */
    bool side_by_side; /* messages of one sender do not wait for one another: no contention */
} fast_comm_cost;

/* An algorithm. Constant: state is in fast_group_slot. */
typedef struct fast_algorithm {
    const char *name;    /* as it is typed */
    const char *summary; /* one line, for help */
    const fast_option
        *options;   /* of its configuration, at most FAST_ALLREDUCE_CONFIG bytes; NULL */
    bool canonical; /* adds in the canonical order: `auto` may choose it */
    bool by_place;  /* the order of an element's additions depends on its place in the vector: sums
                       of other ranges have other bits */

    /* Prepare it for a group, the same at all members, without talking to them. Called once for a
     * group and a configuration, when it is first needed. FAST_ENOTSUP says why this group cannot.
     * *state_out is NULL before. NULL: always possible, no state. */
    fast_err (*open)(fast_group *group, const void *config, void **state_out);
    void (*close)(fast_group *group, void *state); /* NULL: nothing to free */

    fast_round_fn *rounds; /* the schedule; NULL: `run` or `advance` is used instead */

    /* Do the whole allreduce, blocking until the deadline. Allowed beside `rounds` or `advance`, if
     * it is faster. Fails as a collective does. */
    fast_err (*run)(fast_group *group, void *state, float *x, int64_t count, int64_t deadline);
    /* Advance it as fast__collective_advance() does; set collective->whom to the actor that it
     * waits for. collective->phase and words, zeroed at the start, are its own. NULL: cannot be
     * nonblocking. */
    fast_err (*advance)(fast_collective *collective, bool *done);
    /* Give up a collective that was started, for fast__collective_drop(): once it returns no other
     * member touches the vector any more. NULL: no other member ever does. */
    void (*drop)(fast_collective *collective);

    /* Return the seconds of ask->size members and ask->count floats, by a closed form. */
    double (*seconds)(const fast_comm_cost *cost, const fast_ask *ask);
} fast_algorithm;

/* The algorithms in the order of `fast help`; at most FAST_ALLREDUCE_MAX. */
#define FAST_ALLREDUCES(X) \
    X(tree)                \
    X(butterfly)           \
    X(ring)                \
    X(chain)               \
    X(rabenseifner)        \
    X(hierarchical)        \
    X(dimensions)          \
    X(direct)              \
    X(native)

#define FAST_ALLREDUCE_DECLARE(name) extern const fast_algorithm fast__allreduce_##name;
FAST_ALLREDUCES(FAST_ALLREDUCE_DECLARE)
#undef FAST_ALLREDUCE_DECLARE

/* True if the bits of the group's sums depend on how a vector is cut into ranges (`by_place`). */
bool fast__group_is_by_place(const fast_group *group);

/* All of them; the last is NULL. */
extern const fast_algorithm *const fast__allreduces[];

/* Return the number of an algorithm in that list. */
int fast__allreduce_number(const fast_algorithm *algorithm);
/* Open slot i of the group with its default options if it is not open yet. */
fast_err fast__allreduce_open(fast_group *group, int i);
/* For `auto`: set *out to the number of the fastest algorithm for this count, open, the same at all
 * members. With `blocking` it may fit its cost model first, which exchanges messages until the
 * deadline; the deadline becomes a time. Fails as a collective does. */
fast_err fast__allreduce_choose(fast_group *group, int64_t count, bool blocking, int64_t *deadline,
                                int *out);

/* Called with `count` elements of a sum, at most FAST_USE_MAX, from `offset`. */
enum { FAST_USE_MAX = 2048 };
typedef void fast_use_fn(void *ctx, int64_t offset, int64_t count, const float *sum);

/* A vector of each member, whose sum the members use; all members give the same count. */
typedef struct fast_direct_use {
    const float *x;   /* only read */
    int64_t count;    /* of floats */
    fast_use_fn *use; /* called once for each element in all, at any member */
    void *ctx;        /* its first argument */
} fast_direct_use;

/* Sum x over the members, which share memory, in the canonical order, and call `use` with pieces of
 * the sum, each at one member. Return once all members have used theirs, so that their writes are
 * visible. FAST_ENOTSUP where they do not share memory; else it fails as a collective does. */
fast_err fast__direct_use(fast_group *group, const fast_direct_use *u, int64_t deadline);
/* Say that a range of x is final, before fast__direct_use() with the same u, and use ranges that
 * are final at all members. Does not wait, so it may be called in reports. Ranges do not overlap;
 * all of them, in the same order at all members and in all uses, make the vector. Requires
 * fast__direct_use_open(). */
void fast__direct_use_range(fast_group *group, const fast_direct_use *u, int64_t offset,
                            int64_t count);
/* Prepare a group for uses: FAST_ENOTSUP where members do not share memory; FAST_ENOMEM. */
fast_err fast__direct_use_open(fast_group *group);
/* Give up a use whose ranges were offered: nobody reads the vector any more. */
void fast__direct_use_drop(fast_group *group);
