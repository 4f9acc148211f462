/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "comm/collective.h"

/*
 * Sums and gathers of vectors that are cut into one slice for each member, its fast__range(): the
 * two halves of an allreduce, nonblocking, for state that is sharded. Each member sends each other
 * one a message, so that any number of members sends exactly (P - 1) / P of the vector, and the
 * sums have the canonical order.
 *
 *     fast__sliced_sum(&s, g, count, &request);       own slice of g: its sum over all members
 *     fast_request_wait(&request, deadline);
 *     fast__sliced_gather(&s, w, count, &request);    all of w: each slice from its member
 */
typedef struct fast_sliced {
    fast_group *group; /* borrowed */
    fast_msg **msgs;   /* [size] messages of a sum that have arrived, by rank; or NULL */
    const float **x;   /* [size] their values, while they are added */
} fast_sliced;

/* Prepare for one sum or gather at a time. FAST_ENOMEM. */
fast_err fast__sliced_init(fast_sliced *s, fast_group *group);
void fast__sliced_fini(fast_sliced *s); /* all 0 is allowed */

/* Start to sum x[0 .. count). The other members' slices of x are copied to messages, so they are
 * the caller's at once; the own slice becomes the sum when the request is done. Members start all
 * of a group's requests in the same order. Never blocks. */
fast_err fast__sliced_sum(fast_sliced *s, float *x, int64_t count, fast_request **out);
/* Start to copy every member's slice to all members, or to the member `root` alone if that is not
 * negative. The own slice is copied to a message at once. With x NULL only sizes travel: where the
 * members have one x in common. Never blocks. */
fast_err fast__sliced_gather(fast_sliced *s, float *x, int64_t count, int64_t root,
                             fast_request **out);

/* Replace x[0 .. count) by the sum over all members, which they add in the order of their ranks:
 * the same bits at all. For a few numbers: count P (P - 1) of them travel. It fails as all do. */
fast_err fast__sum_doubles(fast_group *group, double *x, int64_t count);
