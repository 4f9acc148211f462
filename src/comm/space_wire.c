/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of a space. A tag is FAST_TAG_SPACE, 48 bits of the name's hash, and 0 for requests (to
 * owners) or 1 for answers. The words of a message:
 *
 *     0 kind | 1 tensor | 2 owner's number in the space | 3, 4, 5 as fast_space_kind lists them
 *
 * PUT, ADD and VALUE carry the floats of one range as one part. This file is where floats become
 * parts and back: encoded exchange has its place here, and nowhere else.
 */
#include "comm/space.h"

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
    fast_buffer *buffer;
    FAST_TRY(fast_buffer_new(space->actor, size, &buffer));
    memcpy(fast_buffer_data(buffer), x, size);
    fast_msg_add(msg, &buffer);
    return FAST_OK;
}

bool fast__space_unpack(const fast_msg *msg, int64_t count, const float **x_out)
{
    const size_t size = (size_t)count * sizeof **x_out;
    if (msg->part_count == 0 && msg->declared == size && count > 0) {
        *x_out = NULL;
        return true;
    }
    if (msg->part_count != 1 || msg->parts[0].size != size || msg->declared != 0)
        return false;
    *x_out = fast_msg_data(msg, 0);
    return (uintptr_t)*x_out % sizeof **x_out == 0;
}
