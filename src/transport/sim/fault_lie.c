/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node that lies: its messages are well formed, and false. Every part of a message whose size is
 * a multiple of that of a float is taken for floats:
 *
 *     negate   x -> -x           a worker that climbs the loss
 *     scale    x -> 10 x         a worker with a learning rate that is too large
 *     random   x -> [-1, 1)      noise
 *     nan      x -> not a number
 *
 * Sizes, tags and times stay: programs must detect the lie by the numbers.
 */
#include "transport/sim/fault.h"

#include <math.h>
#include <string.h>

/* Return the false value of x. */
static float lie_about(float x, fast_lie how, fast_rng *rng)
{
    switch (how) {
    case FAST_LIE_NEGATE:
        return -x;
    case FAST_LIE_SCALE:
        return 10 * x;
    case FAST_LIE_RANDOM:
        return 2 * fast__rng_uniform(rng) - 1;
    default:
        return NAN;
    }
}

/* Make a part private to the message; false without memory. */
static bool make_own(fast_actor *actor, fast_msg_part *part)
{
    fast_buffer *copy = NULL;
    if (!fast_buffer_is_frozen(part->buffer))
        return true;
    if (fast_buffer_new(actor, part->size, &copy) != FAST_OK)
        return false;
    memcpy(fast_buffer_data(copy), (const char *)fast_buffer_data(part->buffer) + part->offset,
           part->size);
    fast_buffer_free(part->buffer);
    *part = (fast_msg_part){ .buffer = copy, .offset = 0, .size = part->size };
    return true;
}

void fast__fault_lie(fast_actor *actor, fast_msg *msg, fast_lie how, fast_rng *rng)
{
    FAST_ASSERT(msg->part_count <= FAST_MSG_PARTS_MAX);
    for (int i = 0; i < msg->part_count; i++) {
        fast_msg_part *part = &msg->parts[i];
        if (part->size == 0 || part->size % sizeof(float) != 0 || !make_own(actor, part))
            continue;
        char *bytes = (char *)fast_buffer_data(part->buffer) + part->offset;
        for (size_t at = 0; at < part->size; at += sizeof(float)) {
            float x;
            memcpy(&x, bytes + at, sizeof x);
            x = lie_about(x, how, rng);
            memcpy(bytes + at, &x, sizeof x);
        }
    }
}
