/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The all-gather of buffers of different sizes, in two halves. A message has the buffer's bytes as
 * its one part, and their number in words[0]. Cost: P - 1 messages and P - 1 times the bytes at
 * each member; within a process the bytes are not copied.
 */
#include "comm/allgatherv.h"

#include "base/memory.h"

/* One object serves any number of all-gathers, one after the other. */
fast_err fast__allgatherv_init(fast_allgatherv *gather, fast_group *group, const char *doing)
{
    FAST_ASSERT(gather && group);
    *gather = (fast_allgatherv){ .collective = { .group = group, .doing = doing, .element = 1 },
                                 .size = group->size };
    return fast__alloc("parts of a group", group->size, sizeof *gather->parts, &gather->parts);
}

/* Parts are released by reference: other members in this process may still read them. */
void fast__allgatherv_drop(fast_allgatherv *gather)
{
    FAST_ASSERT(gather);
    for (int64_t r = 0; gather->parts && r < gather->size; r++) {
        fast_buffer_free(gather->parts[r].buffer);
        gather->parts[r] = (fast_allgatherv_part){ 0 };
    }
}

/* Also for an object whose init failed. */
void fast__allgatherv_fini(fast_allgatherv *gather)
{
    fast__allgatherv_drop(gather);
    fast__free(gather->parts);
    gather->parts = NULL;
}

/* Send the own buffer to a rank. */
static fast_err post(fast_allgatherv *gather, int64_t rank, const fast_allgatherv_part *own)
{
    FAST_ASSERT(own->buffer);
    fast_group *group = gather->collective.group;
    fast_msg *msg = NULL;

    FAST_TRY(fast__collective_message(&gather->collective, &msg));
    msg->words[0] = (int64_t)own->size;
    fast_msg_add_view(msg, own->buffer, 0, own->size);
    return fast_send(group->actor, fast_group_member(group, rank), &msg);
}

/* The buffer is frozen and shared by all messages: it is not copied for each member. */
fast_err fast__allgatherv_start(fast_allgatherv *gather, fast_buffer **move, size_t size)
{
    fast_group *group = gather->collective.group;
    fast_allgatherv_part *own = &gather->parts[group->rank];
    fast_err err;

    FAST_ASSERT(own->buffer == NULL && fast_buffer_size(*move) >= size);
    fast_buffer_freeze(*move);
    *own = (fast_allgatherv_part){ *move, fast_buffer_data(*move), size };
    *move = NULL;
    err = fast__collective_begin(&gather->collective);
    for (int64_t i = 1; i < group->size && !err; i++)
        err = post(gather, (group->rank + i) % group->size, own);
    return err ? fast__group_fail(group, err) : FAST_OK;
}

/* Wait for a rank's buffer. */
static fast_err receive(fast_allgatherv *gather, int64_t rank, int64_t deadline,
                        fast_allgatherv_part *out)
{
    FAST_ASSERT(rank != gather->collective.group->rank);
    fast_group *group = gather->collective.group;
    fast_msg *msg = NULL;

    FAST_TRY(fast__collective_receive(&gather->collective, rank,
                                      fast__deadline(group->actor, deadline), &msg));
    if (msg->part_count != 1 || msg->words[0] != (int64_t)msg->parts[0].size) {
        const fast_err err =
            fast__fail(FAST_EINVAL,
                       "%s: a message of actor %lld has another form; all members must make the "
                       "same calls",
                       gather->collective.doing, (long long)msg->from);
        fast_msg_free(msg);
        return err;
    }
    const void *data = fast_msg_data(msg, 0);
    const size_t size = msg->parts[0].size;
    *out = (fast_allgatherv_part){ fast_msg_take(msg, 0), data, size };
    fast_msg_free(msg);
    return FAST_OK;
}

/* Ranks may be waited for in any order; parts that arrive early stay in the mailbox. */
fast_err fast__allgatherv_wait(fast_allgatherv *gather, int64_t rank, int64_t deadline,
                               const fast_allgatherv_part **out)
{
    fast_group *group = gather->collective.group;
    fast_allgatherv_part *part = &gather->parts[rank];
    fast_err err = FAST_OK;

    FAST_ASSERT(rank >= 0 && rank < group->size);
    if (!part->buffer)
        err = receive(gather, rank, deadline, part);
    if (err)
        return fast__group_fail(group, err);
    *out = part;
    return FAST_OK;
}
