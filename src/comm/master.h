/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "comm/collective.h"

/*
 * Collectives between n workers and a master that has no vector of its own: the group has n + 1
 * members, of which the last rank is the master. The sum of vectors goes up to it, and a vector
 * comes down (collective/master.c has the schedules and their costs).
 */
typedef enum fast_master_path {
    FAST_MASTER_TREE,   /* binomial tree: up, the sum in the canonical order of the workers */
    FAST_MASTER_SLICES, /* worker i sends and receives its fast__range() of the vector alone */
    FAST_MASTER_WHOLE,  /* every worker sends and receives the whole vector, none of it summed */
} fast_master_path;

/* Move the workers' x to the master's y: the sum, `count` floats put together from the slices, or
 * n * count floats by rank. x of the master and y of workers are not used. Fails as a collective
 * does. */
fast_err fast__master_up(fast_group *group, fast_master_path path, const float *x, float *y,
                         int64_t count, int64_t deadline);
/* Copy the master's x to the workers' x; with slices worker i gets its range. */
fast_err fast__master_down(fast_group *group, fast_master_path path, float *x, int64_t count,
                           int64_t deadline);
/* Start them along the tree; x and y are lent until the request is done. */
fast_err fast__master_up_start(fast_group *group, const float *x, float *y, int64_t count,
                               fast_request **out);
fast_err fast__master_down_start(fast_group *group, float *x, int64_t count, fast_request **out);
/* Return whether a request is done, without advancing it. */
bool fast__master_is_done(const fast_request *request);

/* Among workers alone: y[i * room] receives this rank's range of rank i's x, where room is the
 * length of the longest range. */
fast_err fast__slices_exchange(fast_group *workers, const float *x, int64_t count, float *y,
                               int64_t deadline);
/* Copy every rank's fast__range() to all ranks. Unlike fast_allgather() it is as fast where ranks
 * start one after the other. */
fast_err fast__slices_gather(fast_group *workers, float *x, int64_t count, int64_t deadline);
