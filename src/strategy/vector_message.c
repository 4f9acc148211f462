/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of one vector, with its contributions and state; vector_message.h has their layout.
 * A buffer is frozen once it is filled, so that one encoding may go to many receivers.
 *
 * Cost: one copy of the vector, or its encoding.
 */
#include "strategy/vector_message.h"

#include "tensor/vector.h"

#include <string.h>

fast_err fast__vector_message_pack(fast_trainer *t, const fast_vector_message *what,
                                   fast_buffer **out, size_t *size_out)
{
    const size_t shares =
        what->shares ? (size_t)fast_trainer_share_count(t) * sizeof *what->shares : 0;
    const size_t state = what->s ? (size_t)t->state_count * sizeof *what->s : 0;
    size_t size = (size_t)what->count * sizeof *what->x;
    fast_buffer *buffer = NULL;
    fast_err err = FAST_OK;

    FAST_ASSERT(what->x != NULL && what->count > 0);
    FAST_TRY(fast_buffer_new(
        t->actor, shares + state + (what->flow ? fast_flow_bound(what->flow) : size), &buffer));
    char *data = fast_buffer_data(buffer);
    if (shares > 0)
        memcpy(data, what->shares, shares);
    if (state > 0)
        fast__vector_copy(t->state_count, what->s, data + shares);
    if (what->flow)
        err = fast_trainer_encode(t, what->flow, what->x, data + shares + state, &size);
    else
        fast__vector_copy(what->count, what->x, data + shares + state);
    if (err) {
        fast_buffer_free(buffer);
        return err;
    }
    fast_buffer_freeze(buffer);
    *out = buffer;
    *size_out = shares + state + size;
    return FAST_OK;
}

fast_err fast__vector_message_send(fast_trainer *t, const fast_vector_address *address,
                                   fast_buffer *buffer, size_t size)
{
    fast_msg *msg = NULL;

    FAST_ASSERT(address->word_count <= FAST_MSG_WORDS);
    FAST_TRY(fast_msg_new(t->actor, address->tag, &msg));
    memcpy(msg->words, address->words, (size_t)address->word_count * sizeof *address->words);
    msg->unreliable = address->unreliable;
    if (buffer)
        fast_msg_add_view(msg, buffer, 0, size);
    return fast_send(t->actor, address->to, &msg);
}
