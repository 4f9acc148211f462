/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "transport/message_pool.h"

#include <stdalign.h>
#include <stdatomic.h>

/*
 * The fast lane of a pair of actors, beside the inbox: a ring of slots of one cache line, each of
 * which holds a whole small message and the number that says that it is there. So a small message
 * costs what one cache line costs on its way from core to core, where the inbox takes three: its
 * own, the message's, and its own back. The receiver has to look at a lane for every sender, so
 * lanes are for worlds of few actors.
 *
 * What is not small, and what finds the ring full, goes through the inbox. All messages of a pair
 * are numbered (in `stamp`), so that the receiver knows which of the two ways the next one took.
 */
enum { FAST_LANE_SLOTS = 32 };

/* A small message: no parts, nothing declared, reliable. */
typedef struct fast_lane_slot {
    uint64_t tag;                  /* of the message, like the next two */
    int64_t words[FAST_MSG_WORDS]; /* all of them */
    uint32_t generation;           /* likewise */
    atomic_uint number;            /* of the message in its pair, written last */
} fast_lane_slot;

typedef struct fast_lane {
    alignas(128) fast_lane_slot slots[FAST_LANE_SLOTS]; /* written by the sender */
    alignas(128) atomic_uint taken; /* slots that the receiver has done with, from the start */
    alignas(128) uint32_t number;   /* the sender's: of the last message of the pair */
    uint32_t filled;                /* the sender's: slots used, from the start */
    uint32_t taken_seen;            /* the sender's: `taken` when it last looked */
    alignas(128) uint32_t next;     /* the receiver's: number of the message that is due */
    uint32_t emptied;               /* the receiver's: as `taken` */
} fast_lane;

/* Prepare a zeroed lane. */
void fast__lane_init(fast_lane *lane);

/* Send by the lane. True if a copy is under way: the message stays the caller's to free. False if
 * it has to go through the inbox: it has its number. */
bool fast__lane_send(fast_lane *lane, fast_msg *msg);

/* The lane's next message is there, and due. */
static inline bool fast__lane_has_news(fast_lane *lane)
{
    fast_lane_slot *slot = &lane->slots[lane->emptied % FAST_LANE_SLOTS];
    return atomic_load(&slot->number) == lane->next;
}

/* Take it; NULL if there is none, or no memory for it: then it stays. */
fast_msg *fast__lane_take(fast_lane *lane, fast_pool *pool);

/* After the run: messages but those with `tag` that were sent and never taken. */
int64_t fast__lane_left(const fast_lane *lane, uint64_t tag);
