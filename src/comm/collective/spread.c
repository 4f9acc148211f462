/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One buffer of each member to all the others, in two halves. A message has the buffer's bytes as
 * its one part, and their number in words[0]. Cost: P - 1 messages and P - 1 times the bytes at
 * each member; within a process the bytes are not copied.
 */
#include "comm/spread.h"

#include "base/memory.h"

fast_err fast__spread_init(fast_spread *spread, fast_group *group, const char *doing)
{
    *spread = (fast_spread){ .collective = { .group = group, .doing = doing, .element = 1 },
                             .size = group->size };
    return fast__alloc("parts of a group", group->size, sizeof *spread->parts, &spread->parts);
}

void fast__spread_drop(fast_spread *spread)
{
    for (int64_t r = 0; spread->parts && r < spread->size; r++) {
        fast_buffer_free(spread->parts[r].buffer);
        spread->parts[r] = (fast_spread_part){ 0 };
    }
}

void fast__spread_fini(fast_spread *spread)
{
    fast__spread_drop(spread);
    fast__free(spread->parts);
    spread->parts = NULL;
}

static fast_err post(fast_spread *spread, int64_t rank, const fast_spread_part *own)
{
    fast_group *group = spread->collective.group;
    fast_msg *msg = NULL;

    FAST_TRY(fast_msg_new(group->actor, spread->collective.tag, &msg));
    msg->generation = group->generation;
    msg->words[0] = (int64_t)own->size;
    fast_msg_add_view(msg, own->buffer, 0, own->size);
    return fast_send(group->actor, fast_group_member(group, rank), &msg);
}

fast_err fast__spread_start(fast_spread *spread, fast_buffer **move, size_t size)
{
    fast_group *group = spread->collective.group;
    fast_spread_part *own = &spread->parts[group->rank];
    fast_err err;

    FAST_ASSERT(own->buffer == NULL && fast_buffer_size(*move) >= size);
    fast_buffer_freeze(*move);
    *own = (fast_spread_part){ *move, fast_buffer_data(*move), size };
    *move = NULL;
    err = fast__collective_begin(&spread->collective);
    for (int64_t i = 1; i < group->size && !err; i++)
        err = post(spread, (group->rank + i) % group->size, own);
    return err ? fast__group_fail(group, err) : FAST_OK;
}

static fast_err receive(fast_spread *spread, int64_t rank, int64_t deadline, fast_spread_part *out)
{
    fast_group *group = spread->collective.group;
    const fast_wait wait = {
        .waiting = true,
        .whom = fast_group_member(group, rank),
        .tag = spread->collective.tag,
        .since = fast_now(group->actor),
        .deadline = fast__deadline(group->actor, deadline),
        .doing = spread->collective.doing,
    };
    fast_err err = FAST_OK;
    fast_msg *msg = fast__take(group->actor, wait.whom, wait.tag);

    while (!msg && !err) {
        err = fast__wait_once(group->actor, &wait);
        msg = fast__take(group->actor, wait.whom, wait.tag);
    }
    if (!msg)
        return err;
    if (msg->part_count != 1 || msg->words[0] != (int64_t)msg->parts[0].size) {
        err = fast__fail(FAST_EINVAL,
                         "%s: a message of actor %lld has another form; all members must make the "
                         "same calls",
                         wait.doing, (long long)wait.whom);
        fast_msg_free(msg);
        return err;
    }
    const void *data = fast_msg_data(msg, 0);
    const size_t size = msg->parts[0].size;
    *out = (fast_spread_part){ fast_msg_take(msg, 0), data, size };
    fast_msg_free(msg);
    return FAST_OK;
}

fast_err fast__spread_wait(fast_spread *spread, int64_t rank, int64_t deadline,
                           const fast_spread_part **out)
{
    fast_group *group = spread->collective.group;
    fast_spread_part *part = &spread->parts[rank];
    fast_err err = FAST_OK;

    FAST_ASSERT(rank >= 0 && rank < group->size);
    if (!part->buffer)
        err = receive(spread, rank, deadline, part);
    if (err)
        return fast__group_fail(group, err);
    *out = part;
    return FAST_OK;
}
