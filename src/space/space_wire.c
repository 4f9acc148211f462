/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of a space. A tag is FAST_TAG_SPACE, 48 bits of the name's hash, and 0 for requests (to
 * owners) or 1 for answers. The words of a message:
 *
 *     0 kind | 1 tensor | 2 owner's number in the space | 3, 4, 5 as fast_space_kind lists them
 *
 * PUT, ADD and VALUE carry the floats of one range as one part, ADD and VALUE encoded where the
 * space has a codec (space_codec.c). In a sparse space, where it is shorter, an ADD has two: places
 * and values (space_entries.c); two, as well, where layers travel as factors (space_factors.c).
 * This file is where floats become parts and back.
 */
#include "space/space.h"

#include <string.h>

uint64_t fast__space_tag(const fast_space *space, bool answer)
{
    return FAST_TAG_SPACE | space->key << 8 | (answer ? 1 : 0);
}

fast_err fast__space_message(fast_space *space, fast_space_kind kind, int64_t tensor, int64_t owner,
                             const int64_t words[3], fast_msg **out)
{
    fast_msg *msg;
    FAST_TRY(fast_msg_new(space->actor, fast__space_tag(space, kind >= FAST_SPACE_ACK), &msg));
    msg->words[FAST_SPACE_W_KIND] = kind;
    msg->words[FAST_SPACE_W_TENSOR] = tensor;
    msg->words[FAST_SPACE_W_OWNER] = owner;
    memcpy(&msg->words[FAST_SPACE_W_A], words, 3 * sizeof *words);
    *out = msg;
    return FAST_OK;
}

fast_err fast__space_tell(fast_space *space, int64_t to, fast_space_kind kind, int64_t tensor,
                          int64_t owner, const int64_t words[3])
{
    fast_msg *msg;
    FAST_TRY(fast__space_message(space, kind, tensor, owner, words, &msg));
    return fast_send(space->actor, to, &msg);
}

fast_err fast__space_pack(fast_space *space, fast_msg *msg, const float *x, int64_t count)
{
    const size_t size = (size_t)count * sizeof *x;
    FAST_ASSERT(msg->part_count == 0);
    if (!x) {
        msg->declared = size;
        return FAST_OK;
    }
    if (space->ending && msg->words[FAST_SPACE_W_KIND] == FAST_SPACE_ADD)
        return FAST_OK;
    if (msg->words[FAST_SPACE_W_KIND] == FAST_SPACE_ADD &&
        fast__space_is_coded(space, FAST_SPACE_UP, msg->words[FAST_SPACE_W_TENSOR])) {
        fast_buffer *coded;
        size_t bytes;
        FAST_TRY(fast__space_encode(space, FAST_SPACE_UP, msg->words[FAST_SPACE_W_OWNER], -1, x,
                                    &coded, &bytes));
        fast_msg_add_view(msg, coded, 0, bytes);
        fast_buffer_free(coded);
        return FAST_OK;
    }
    if (space->factors && msg->words[FAST_SPACE_W_KIND] == FAST_SPACE_ADD)
        return fast__space_pack_factors(space, msg, msg->words[FAST_SPACE_W_OWNER], x);
    if (space->sparse && count < UINT32_MAX && msg->words[FAST_SPACE_W_KIND] == FAST_SPACE_ADD) {
        const int64_t entries = fast__space_entries(x, count);
        if (entries > 0 && entries < count / 2)
            return fast__space_pack_entries(space, msg, x, count, entries);
    }
    fast_buffer *buffer;
    FAST_TRY(fast_buffer_new(space->actor, size, &buffer));
    memcpy(fast_buffer_data(buffer), x, size);
    fast_msg_add(msg, &buffer);
    return FAST_OK;
}

bool fast__space_unpack(fast_space *space, const fast_msg *msg, int64_t count, const float **x_out)
{
    const size_t size = (size_t)count * sizeof **x_out;
    if (msg->part_count == 0 && msg->declared == size && count > 0) {
        *x_out = NULL;
        return true;
    }
    const int64_t kind = msg->words[FAST_SPACE_W_KIND];
    const fast_space_way way = kind == FAST_SPACE_ADD ? FAST_SPACE_UP : FAST_SPACE_DOWN;
    if (kind == FAST_SPACE_VALUE && fast__space_differs(space, msg->words[FAST_SPACE_W_TENSOR])) {
        *x_out = fast__space_held(space, msg->words[FAST_SPACE_W_OWNER]); /* taken in before */
        return *x_out != NULL;
    }
    if ((kind == FAST_SPACE_ADD || kind == FAST_SPACE_VALUE) &&
        fast__space_is_coded(space, way, msg->words[FAST_SPACE_W_TENSOR]))
        return msg->part_count == 1 && msg->declared == 0 &&
               fast__space_decode(space, way, msg->words[FAST_SPACE_W_OWNER], fast_msg_data(msg, 0),
                                  msg->parts[0].size, x_out);
    if (msg->part_count == 2 && space->layers)
        return kind == FAST_SPACE_ADD && msg->words[FAST_SPACE_W_TENSOR] == 0 &&
               fast__space_unpack_factors(space, msg, x_out);
    if (msg->part_count == 2) /* what an owner has room for is its own range */
        return kind == FAST_SPACE_ADD && fast__space_unpack_entries(space, msg, count, x_out);
    if (msg->part_count != 1 || msg->parts[0].size != size || msg->declared != 0)
        return false;
    *x_out = fast_msg_data(msg, 0);
    return (uintptr_t)*x_out % sizeof **x_out == 0;
}
