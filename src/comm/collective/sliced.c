/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reduce-scatter and allgather by one message from each member to each other:
 *
 *     sum      member i sends slice j of its x to member j, which adds the P slices in the
 *              canonical order once all are there, a few thousand elements at a time
 *     gather   member i sends slice i to all others: one buffer, which is not copied for each
 *
 *   T = L (P - 1) + m G (P - 1) / P       each; a sum adds m (P - 1) / P numbers at each member
 *
 * As many bytes and messages as a ring, but the sums are canonical and any number of members sends
 * equally much; the halving of reduce_scatter.c has fewer messages, and for P that is no power of
 * two more bytes. The members start with the next rank, so that not all send to one at a time.
 * Empty slices are not sent.
 */
#include "comm/sliced.h"

#include "base/memory.h"
#include "comm/allgatherv.h"
#include "comm/allreduces.h"
#include "tensor/sum.h"
#include "tensor/vector.h"

#include <string.h>

enum { STATE = 0, NEXT = 1, CHUNK = 2048 }; /* words of a collective; floats added at a time */

fast_err fast__sliced_init(fast_sliced *s, fast_group *group)
{
    FAST_ASSERT(group != NULL);
    *s = (fast_sliced){ .group = group };
    fast_err err = fast__alloc("slices of a group", group->size, sizeof *s->msgs, &s->msgs);
    if (!err)
        err = fast__alloc("slices of a group", group->size, sizeof *s->x, &s->x);
    if (err)
        fast__sliced_fini(s);
    return err;
}

/* Messages of a sum that did not come to its end. */
static void release(fast_sliced *s)
{
    for (int64_t r = 0; s->msgs && r < s->group->size; r++) {
        fast_msg_free(s->msgs[r]);
        s->msgs[r] = NULL;
    }
}

void fast__sliced_fini(fast_sliced *s)
{
    FAST_ASSERT(s != NULL);
    FAST_ASSERT(!s->msgs || s->group);
    release(s);
    fast__free(s->msgs);
    fast__free(s->x);
    *s = (fast_sliced){ 0 };
}

/* The object of a collective under way. */
static fast_sliced *slices_of(const fast_collective *collective)
{
    return (fast_sliced *)(uintptr_t)collective->words[STATE];
}

/* A buffer with n floats of a vector. */
static fast_err copy_out(fast_group *group, const float *x, int64_t n, fast_buffer **out)
{
    FAST_TRY(fast_buffer_new(group->actor, (size_t)n * sizeof *x, out));
    fast__vector_copy(n, x, fast_buffer_data(*out));
    return FAST_OK;
}

/* Send a buffer's n floats to a rank; without a buffer their size alone. */
static fast_err post(fast_collective *collective, int64_t rank, fast_buffer **move, int64_t n)
{
    const size_t size = (size_t)n * sizeof(float);
    fast_msg *msg = NULL;

    FAST_ASSERT(rank != collective->group->rank);
    FAST_TRY(fast__collective_message(collective, &msg));
    msg->words[0] = (int64_t)size;
    if (!*move)
        msg->declared = size;
    else if (fast_buffer_is_frozen(*move))
        fast_msg_add_view(msg, *move, 0, size);
    else
        fast_msg_add(msg, move);
    return fast_send(collective->group->actor, fast_group_member(collective->group, rank), &msg);
}

/* Send every other member its slice. */
static fast_err send_all(fast_collective *collective)
{
    fast_group *group = collective->group;
    const float *x = collective->x;

    for (int64_t i = 1; i < group->size; i++) {
        const int64_t rank = (group->rank + i) % group->size;
        fast_buffer *buffer = NULL;
        int64_t offset, count;

        fast__range(collective->ask.count, group->size, rank, &offset, &count);
        if (count == 0)
            continue;
        FAST_TRY(copy_out(group, x + offset, count, &buffer));
        const fast_err err = post(collective, rank, &buffer, count);
        fast_buffer_free(buffer);
        FAST_TRY(err);
    }
    return FAST_OK;
}

/* Add all members' slices, whose messages are there, into the own one. */
static void add_all(const fast_sliced *s, float *own, int64_t count)
{
    const fast_group *group = s->group;
    float sum[CHUNK];

    FAST_ASSERT(count > 0);
    for (int64_t r = 0; r < group->size; r++)
        s->x[r] = r == group->rank ? own : fast_msg_data(s->msgs[r], 0);
    for (int64_t at = 0; at < count; at += CHUNK) {
        const int64_t n = count - at < CHUNK ? count - at : CHUNK;

        fast__sum_range(s->x, group->size, at, n, sum);
        fast__vector_copy(n, sum, own + at);
    }
}

/* Receive the others' slices in any order of arrival, and add them once all are there. */
static fast_err sum_advance(fast_collective *collective, bool *done)
{
    fast_group *group = collective->group;
    fast_sliced *s = slices_of(collective);
    int64_t offset, count;

    FAST_ASSERT(s->group == group);
    if (collective->phase++ == 0)
        FAST_TRY(send_all(collective));
    fast__range(collective->ask.count, group->size, group->rank, &offset, &count);
    for (; count > 0 && collective->words[NEXT] < (uint64_t)group->size;
         collective->words[NEXT]++) {
        const int64_t rank = (int64_t)collective->words[NEXT];

        if (rank == group->rank)
            continue;
        s->msgs[rank] = fast__collective_take(collective, rank);
        if (!s->msgs[rank])
            return FAST_OK;
        FAST_TRY(fast__collective_check(collective, (size_t)count * sizeof(float), s->msgs[rank]));
    }
    if (count > 0)
        add_all(s, (float *)collective->y + offset, count);
    release(s);
    *done = true;
    return fast_charge(group->actor, (double)(count * (group->size - 1)),
                       12.0 * (double)(count * (group->size - 1)));
}

/* Send the own slice to all, or to the root. */
static fast_err send_own(fast_collective *collective)
{
    fast_group *group = collective->group;
    const float *x = collective->x;
    const int64_t root = collective->ask.root;
    fast_buffer *buffer = NULL;
    fast_err err = FAST_OK;
    int64_t offset, count;

    fast__range(collective->ask.count, group->size, group->rank, &offset, &count);
    if (count == 0 || root == group->rank || group->size == 1)
        return FAST_OK;
    if (x) {
        FAST_TRY(copy_out(group, x + offset, count, &buffer));
        fast_buffer_freeze(buffer);
    }
    for (int64_t i = 1; i < group->size && !err; i++) {
        const int64_t rank = (group->rank + i) % group->size;

        if (root < 0 || rank == root)
            err = post(collective, rank, &buffer, count);
    }
    fast_buffer_free(buffer);
    return err;
}

/* Copy the others' slices as they arrive. */
static fast_err gather_advance(fast_collective *collective, bool *done)
{
    fast_group *group = collective->group;
    const int64_t root = collective->ask.root;
    float *y = collective->y;

    FAST_ASSERT(root < group->size);
    if (collective->phase++ == 0)
        FAST_TRY(send_own(collective));
    for (; collective->words[NEXT] < (uint64_t)group->size; collective->words[NEXT]++) {
        const int64_t rank = (int64_t)collective->words[NEXT];
        int64_t offset, count;

        fast__range(collective->ask.count, group->size, rank, &offset, &count);
        if (rank == group->rank || count == 0 || (root >= 0 && root != group->rank))
            continue;
        fast_msg *msg = fast__collective_take(collective, rank);
        if (!msg)
            return FAST_OK;
        const fast_err err = fast__collective_check(collective, (size_t)count * sizeof(float), msg);
        if (!err && y)
            fast__vector_copy(count, fast_msg_data(msg, 0), y + offset);
        fast_msg_free(msg);
        FAST_TRY(err);
    }
    *done = true;
    return FAST_OK;
}

/* Messages that a sum has taken are of no use any more. */
static void sum_drop(fast_collective *collective)
{
    release(slices_of(collective));
}

static const fast_algorithm sum_slices = { .name = "reduce_scatter",
                                           .advance = sum_advance,
                                           .drop = sum_drop };
static const fast_algorithm gather_slices = { .name = "allgather", .advance = gather_advance };

/* Start one of the two. */
static fast_err start(fast_sliced *s, const fast_algorithm *algorithm, float *x, int64_t count,
                      int64_t root, fast_request **out)
{
    FAST_ASSERT(s->group != NULL && out != NULL);
    FAST_TRY(fast__group_check_count(algorithm->name, count));
    const fast_collective collective = {
        .group = s->group,
        .doing = algorithm->name,
        .ask = { .rank = s->group->rank, .size = s->group->size, .count = count, .root = root },
        .algorithm = algorithm,
        .x = x,
        .y = x,
        .element = sizeof *x,
        .words = { [STATE] = (uint64_t)(uintptr_t)s },
    };

    return fast__request_start(&collective, out);
}

fast_err fast__sliced_sum(fast_sliced *s, float *x, int64_t count, fast_request **out)
{
    return start(s, &sum_slices, x, count, -1, out);
}

fast_err fast__sliced_gather(fast_sliced *s, float *x, int64_t count, int64_t root,
                             fast_request **out)
{
    return start(s, &gather_slices, x, count, root, out);
}

fast_err fast__sum_doubles(fast_group *group, double *x, int64_t count)
{
    const size_t size = (size_t)count * sizeof *x;
    fast_allgatherv gather;
    fast_buffer *buffer = NULL;

    FAST_ASSERT(count >= 0);
    FAST_ASSERT(x != NULL || count == 0);
    if (count == 0 || group->size == 1)
        return FAST_OK;
    FAST_TRY(fast__allgatherv_init(&gather, group, "allgather of norms"));
    fast_err err = fast_buffer_new(group->actor, size, &buffer);
    if (!err) {
        memcpy(fast_buffer_data(buffer), x, size);
        memset(x, 0, size);
        err = fast__allgatherv_start(&gather, &buffer, size);
    }
    for (int64_t r = 0; r < group->size && !err; r++) {
        const fast_allgatherv_part *part = NULL;
        const double *values;

        err = fast__allgatherv_wait(&gather, r, FAST_SOON, &part);
        if (!err && part->size != size)
            err = fast__group_fail(group, fast__fail(FAST_EINVAL,
                                                     "a member sent %zu bytes of "
                                                     "norms, not %zu",
                                                     part->size, size));
        values = err ? NULL : part->data;
        for (int64_t i = 0; i < count && !err; i++)
            x[i] += values[i];
    }
    fast_buffer_free(buffer);
    fast__allgatherv_fini(&gather);
    return err;
}
