/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages and buffers as a program sees them. A buffer has one owner until it is frozen; from then
 * on it is counted and nobody writes. A message owns or holds the buffers of its parts, so sending
 * hands over pointers: nothing is copied between actors that share memory. message_pool.c allocates
 * both and takes them back.
 */
#include "transport/message_pool.h"
#include "transport/transport.h"

/* Bytes of a header on a link: sender, receiver, tag, generation and the words. */
enum { HEADER_SIZE = 64 };

fast_err fast_buffer_new(fast_actor *actor, size_t size, fast_buffer **out)
{
    FAST_ASSERT(actor != NULL && out != NULL);
    return fast__pool_buffer(actor->world->pool, size, out);
}

void fast_buffer_freeze(fast_buffer *buffer)
{
    FAST_ASSERT(buffer != NULL);
    /* Its owner writes the flag before any other holder exists, so it needs no atomic. */
    buffer->frozen = true;
}

fast_buffer *fast_buffer_hold(fast_buffer *buffer)
{
    FAST_ASSERT(buffer != NULL && buffer->frozen);
    atomic_fetch_add_explicit(&buffer->holds, 1, memory_order_relaxed);
    return buffer;
}

void *fast_buffer_data(fast_buffer *buffer)
{
    FAST_ASSERT(buffer != NULL);
    return (unsigned char *)buffer + FAST_BUFFER_HEAD;
}

size_t fast_buffer_size(const fast_buffer *buffer)
{
    FAST_ASSERT(buffer != NULL);
    return buffer->size;
}

bool fast_buffer_is_frozen(const fast_buffer *buffer)
{
    FAST_ASSERT(buffer != NULL);
    return buffer->frozen;
}

fast_err fast_msg_new(fast_actor *actor, uint64_t tag, fast_msg **out)
{
    FAST_ASSERT(actor != NULL && out != NULL);
    return fast__pool_msg(actor->world->pool, tag, out);
}

void fast_msg_add(fast_msg *msg, fast_buffer **move)
{
    FAST_ASSERT(msg != NULL && move != NULL && *move != NULL);
    FAST_ASSERT(msg->part_count < FAST_MSG_PARTS_MAX);
    msg->parts[msg->part_count++] = (fast_msg_part){ *move, 0, (*move)->size };
    *move = NULL;
}

void fast_msg_add_view(fast_msg *msg, fast_buffer *frozen, size_t offset, size_t size)
{
    FAST_ASSERT(msg != NULL && frozen != NULL && frozen->frozen);
    FAST_ASSERT(msg->part_count < FAST_MSG_PARTS_MAX);
    FAST_ASSERT(offset <= frozen->size && size <= frozen->size - offset);
    msg->parts[msg->part_count++] = (fast_msg_part){ fast_buffer_hold(frozen), offset, size };
}

fast_buffer *fast_msg_take(fast_msg *msg, int i)
{
    FAST_ASSERT(msg != NULL && i >= 0 && i < msg->part_count);
    fast_buffer *buffer = msg->parts[i].buffer;
    /* The part stays as an empty one, so that the other parts keep their numbers. */
    msg->parts[i] = (fast_msg_part){ NULL, 0, 0 };
    return buffer;
}

const void *fast_msg_data(const fast_msg *msg, int i)
{
    FAST_ASSERT(msg != NULL && i >= 0 && i < msg->part_count);
    FAST_ASSERT(msg->parts[i].buffer != NULL);
    return (const unsigned char *)msg->parts[i].buffer + FAST_BUFFER_HEAD + msg->parts[i].offset;
}

size_t fast__msg_payload(const fast_msg *msg)
{
    size_t size = msg->declared;
    for (int i = 0; i < msg->part_count; i++)
        size += msg->parts[i].size;
    return size;
}

size_t fast_msg_size(const fast_msg *msg)
{
    FAST_ASSERT(msg != NULL);
    return HEADER_SIZE + fast__msg_payload(msg);
}
