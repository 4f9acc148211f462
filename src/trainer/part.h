/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "fast/strategy.h"

/*
 * The workers and servers of one part of the model: those that a strategy sees. Where the model is
 * split they are not all actors of their roles: worker_ids and server_ids list their numbers, which
 * are equally far apart, workers before servers.
 */

/* Return the index of an actor in a list of `count` numbers. */
static inline int64_t fast__index_in(const int64_t *ids, int64_t count, int64_t id)
{
    const int64_t stride = count > 1 ? ids[1] - ids[0] : 1;

    FAST_ASSERT(count > 0 && stride > 0);
    return (id - ids[0]) / stride;
}

/* Return true if the actor is a worker. */
static inline bool fast__trainer_is_worker(const fast_trainer *t, int64_t id)
{
    return t->servers == 0 || id < t->server_ids[0];
}

/* Return the rank of a worker or server of this part. */
static inline int64_t fast__trainer_rank(const fast_trainer *t, int64_t id)
{
    return fast__trainer_is_worker(t, id) ? fast__index_in(t->worker_ids, t->workers, id)
                                          : fast__index_in(t->server_ids, t->servers, id);
}

/* Return a number that the workers of this part have and those of others do not: the actor's number
 * of rank 0, which is 0 where the model is whole. */
static inline int64_t fast__trainer_part(const fast_trainer *t)
{
    return t->worker_ids[0];
}
