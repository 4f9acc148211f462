/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fast lanes: a ring between one sender and one receiver (Lamport, "Specifying Concurrent Program
 * Modules", 1983). Each slot has a number that says whether it is full, so the receiver reads no
 * other cache line of the sender, and the sender reads the receiver's position once in a ring.
 */
#include "transport/threads/lane.h"

#include <string.h>

_Static_assert(sizeof(fast_lane_slot) == 64, "a slot is a cache line");

void fast__lane_init(fast_lane *lane)
{
    /* Slots that were never filled have the number 0, which no message has. */
    lane->next = 1;
}

bool fast__lane_send(fast_lane *lane, fast_msg *msg)
{
    fast__envelope(msg)->stamp = ++lane->number;
    if (msg->part_count > 0 || msg->declared > 0 || msg->unreliable)
        return false;
    if (lane->filled - lane->taken_seen == FAST_LANE_SLOTS) {
        lane->taken_seen = atomic_load_explicit(&lane->taken, memory_order_acquire);
        if (lane->filled - lane->taken_seen == FAST_LANE_SLOTS)
            return false;
    }
    fast_lane_slot *slot = &lane->slots[lane->filled++ % FAST_LANE_SLOTS];
    slot->tag = msg->tag;
    memcpy(slot->words, msg->words, sizeof slot->words);
    slot->generation = msg->generation;
    /* In one total order with the read of the receiver's `asleep`, which follows. */
    atomic_store(&slot->number, lane->number);
    return true;
}

fast_msg *fast__lane_take(fast_lane *lane, fast_pool *pool)
{
    fast_msg *msg = NULL;
    fast_lane_slot *slot = &lane->slots[lane->emptied % FAST_LANE_SLOTS];
    if (atomic_load_explicit(&slot->number, memory_order_acquire) != lane->next)
        return NULL;
    if (fast__pool_msg(pool, slot->tag, &msg))
        return NULL;
    memcpy(msg->words, slot->words, sizeof msg->words);
    msg->generation = slot->generation;
    lane->next++;
    atomic_store_explicit(&lane->taken, ++lane->emptied, memory_order_release);
    return msg;
}

int64_t fast__lane_left(const fast_lane *lane, uint64_t tag)
{
    int64_t left = 0;
    for (uint32_t i = lane->emptied; i != lane->filled; i++)
        left += lane->slots[i % FAST_LANE_SLOTS].tag != tag;
    return left;
}
