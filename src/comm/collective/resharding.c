/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of layout by messages. Shard t sends to each other shard u what it has before the change
 * and u has after it, then receives in the order of shards, so that sums have one order:
 *
 *     to_u = 0;   for t = 0 .. T - 1:   to_u[t n u] (+)= from_t[t n u]
 *
 * Messages and floats that a shard sends, of a value of N floats:
 *
 *     SUM                   allreduce of N, by the group's algorithm
 *     GATHER, SCATTER       T - 1 messages, (T - 1) N / T
 *     HALO, HALO_ADD        a message for each shard whose rows are needed, those rows
 *     SWAP, SWAP_BACK       T - 1 messages, (T - 1) N / T^2
 *     SHIFT                 a message, N
 *     NONE, SLICE           nothing
 *
 * A message, TAG_RESHARD: words[0] kind; part 0: the floats.
 */
#include "comm/resharding.h"

#include "tensor/vector.h"

enum { TAG_RESHARD = 0x7fffff30 };

/* Send what shard u needs. */
static fast_err send_part(fast_group *group, fast_actor *actor, const fast_reshard_value *value,
                          const float *from, int64_t u)
{
    const int64_t t = fast_group_rank(group);
    const fast_reshard_box own = fast__reshard_before(value, t),
                           part = fast__reshard_common(value, t, u);
    fast_buffer *buffer = NULL;
    fast_msg *msg = NULL;
    const size_t size = (size_t)fast__reshard_count(value, &part) * sizeof(float);

    if (size == 0)
        return FAST_OK;
    FAST_TRY(fast_msg_new(actor, TAG_RESHARD, &msg));
    const fast_err err = fast_buffer_new(actor, size, &buffer);
    if (err) {
        fast_msg_free(msg);
        return err;
    }
    fast__reshard_move(value, &part, &own, from, &part, false, fast_buffer_data(buffer));
    fast_msg_add(msg, &buffer);
    msg->words[0] = (int64_t)value->kind;
    return fast_send(actor, fast_group_member(group, u), &msg);
}

/* Receive what shard t has for this one. */
static fast_err receive_part(fast_group *group, fast_actor *actor, const fast_reshard_value *value,
                             int64_t t, float *to)
{
    const int64_t u = fast_group_rank(group), peer = fast_group_member(group, t);
    const fast_reshard_box own = fast__reshard_after(value, u),
                           part = fast__reshard_common(value, t, u);
    const size_t size = (size_t)fast__reshard_count(value, &part) * sizeof(float);
    fast_msg *msg = NULL;

    if (size == 0)
        return FAST_OK;
    FAST_TRY(fast_receive(actor, peer, TAG_RESHARD, FAST_SOON, &msg));
    if (msg->part_count != 1 || msg->parts[0].size != size ||
        msg->words[0] != (int64_t)value->kind) {
        fast_msg_free(msg);
        return fast__fail(FAST_EFORMAT, "worker %lld sent another part of a tensor than is due",
                          (long long)peer);
    }
    fast__reshard_move(value, &part, &part, fast_msg_data(msg, 0), &own,
                       fast__reshard_adds(value->kind), to);
    fast_msg_free(msg);
    return FAST_OK;
}

/* Messages between all pairs of shards. */
static fast_err exchange_parts(fast_group *group, fast_actor *actor,
                               const fast_reshard_value *value, const float *from, float *to)
{
    const int64_t T = value->shards, t = fast_group_rank(group);
    const fast_reshard_box own = fast__reshard_after(value, t);

    FAST_ASSERT(from != to);
    for (int64_t i = 1; i < T; i++)
        FAST_TRY(send_part(group, actor, value, from, (t + i) % T));
    fast__vector_fill(fast__reshard_count(value, &own), 0, to);
    for (int64_t i = 0; i < T; i++)
        if (i == t)
            fast__reshard_own(value, t, from, to);
        else
            FAST_TRY(receive_part(group, actor, value, i, to));
    return FAST_OK;
}

/* Send the value to another shard, and receive that of another one. */
static fast_err shift(fast_group *group, fast_actor *actor, const fast_reshard_value *value,
                      const float *from, float *to)
{
    const int64_t t = fast_group_rank(group);

    FAST_ASSERT(from != to);
    if (value->how->to == t) {
        const fast_reshard_box all = fast__reshard_before(value, t);

        fast__vector_copy(fast__reshard_count(value, &all), from, to);
        return FAST_OK;
    }
    FAST_TRY(send_part(group, actor, value, from, value->how->to));
    return receive_part(group, actor, value, value->how->from, to);
}

fast_err fast__reshard(fast_group *group, fast_actor *actor, const fast_reshard_value *value,
                       const float *from, float *to)
{
    const fast_reshard_box all = fast__reshard_before(value, 0);

    FAST_ASSERT(group != NULL && value->samples > 0);
    FAST_ASSERT(value->shards == fast_group_size(group));
    if (value->kind == FAST_RESHARD_NONE || value->kind == FAST_RESHARD_SUM) {
        const int64_t count = fast__reshard_count(value, &all);

        if (from != to)
            fast__vector_copy(count, from, to);
        return value->kind == FAST_RESHARD_SUM ? fast_allreduce(group, to, count, FAST_SOON)
                                               : FAST_OK;
    }
    if (value->kind == FAST_RESHARD_SLICE) {
        fast__reshard_slice(value, fast_group_rank(group), from, to);
        return FAST_OK;
    }
    if (value->kind == FAST_RESHARD_SHIFT)
        return shift(group, actor, value, from, to);
    return exchange_parts(group, actor, value, from, to);
}
