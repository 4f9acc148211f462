/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "transport/message_pool.h"

#include <stdalign.h>
#include <stdatomic.h>

/*
 * The fast lane of a pair of actors, beside the inbox: a ring of slots of one cache line, each of
 * which holds a whole small message and the number that marks it as present. So a small message
 * moves one cache line from core to core, where the inbox moves three: its own, the message's, and
 * its own back. The receiver polls a lane for every sender, so lanes are for worlds of few actors.
 *
 * Messages that are not small, or that find the ring full, go through the inbox. All messages of a
 * pair are numbered (in `stamp`), so that the receiver knows which of the two queues has the next.
 */
enum { FAST_LANE_SLOTS = 32 };

/* A small message: no parts, nothing declared, reliable. */
typedef struct fast_lane_slot {
    uint64_t tag;                  /* of the message */
    int64_t words[FAST_MSG_WORDS]; /* of the message */
    uint32_t generation;           /* of the message */
    atomic_uint number;            /* number of the message in its pair, written last */
} fast_lane_slot;

typedef struct fast_lane {
    alignas(128) fast_lane_slot slots[FAST_LANE_SLOTS]; /* written by the sender */
    alignas(128) atomic_uint taken; /* slots that the receiver has emptied, from the start */
    alignas(128) uint32_t number;   /* sender: number of the last message of the pair */
    uint32_t filled;                /* sender: slots filled, from the start */
    uint32_t taken_seen;            /* sender: its last reading of `taken` */
    alignas(128) uint32_t next;     /* receiver: number of the message that is due */
    uint32_t emptied;               /* receiver: value of `taken` */
} fast_lane;

/* Initialise a zeroed lane. */
void fast__lane_init(fast_lane *lane);

/* Send through the lane. True if a copy is in the lane: the caller frees the message. False if the
 * message, which is numbered now, must go through the inbox. */
bool fast__lane_send(fast_lane *lane, fast_msg *msg);

/* Return whether the lane has the message that is due. */
static inline bool fast__lane_has_news(fast_lane *lane)
{
    fast_lane_slot *slot = &lane->slots[lane->emptied % FAST_LANE_SLOTS];
    return atomic_load(&slot->number) == lane->next;
}

/* Take the message that is due; NULL if the lane has none, or without memory: then it stays. */
fast_msg *fast__lane_take(fast_lane *lane, fast_pool *pool);

/* After the run: return the number of messages that were never taken, without those of `tag`. */
int64_t fast__lane_left(const fast_lane *lane, uint64_t tag);
