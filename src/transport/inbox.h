/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/thread.h"
#include "fast/comm.h"

#include <stdatomic.h>

/*
 * A queue of messages from many threads to one, its owner, which may sleep until a message arrives.
 * The inbox is one word: a stack that senders push on with compare-and-swap, and that its owner
 * takes whole with one exchange and reverses, so each sender's messages are in order. An owner
 * that sleeps writes a mark into the empty inbox; the sender that finds the mark wakes the owner,
 * all other senders make no system call.
 *
 *     top: NULL (empty) | a mark (empty, its owner sleeps or has left) | newest -> ... -> oldest
 *
 * A send is one atomic operation, and so is taking any number of messages. Zeroed memory is an
 * empty inbox.
 */
typedef struct fast_inbox {
    _Atomic(void *) top; /* pushed on by any thread, taken by the owner */
    atomic_uint bell;    /* the futex: changed by a thread that wakes the owner */
    atomic_bool woken;   /* fast__inbox_wake() was called since the last fast__inbox_woken() */
} fast_inbox;

/* Push a message and take it; false, and the message stays the caller's, if the inbox is closed.
 * [any thread] */
bool fast__inbox_push(fast_inbox *inbox, fast_msg *msg);
/* End the owner's sleep, now or when it next starts. [any thread] */
void fast__inbox_wake(fast_inbox *inbox);

/* Take all messages, oldest first, linked by `next`; NULL if the inbox is empty. */
fast_msg *fast__inbox_take(fast_inbox *inbox);
/* Take all messages and refuse later ones. */
fast_msg *fast__inbox_close(fast_inbox *inbox);
/* Return whether fast__inbox_wake() was called since the last call. */
static inline bool fast__inbox_woken(fast_inbox *inbox)
{
    return atomic_load_explicit(&inbox->woken, memory_order_relaxed) &&
           atomic_exchange(&inbox->woken, false);
}
/* Return whether messages have arrived or fast__inbox_wake() was called. */
static inline bool fast__inbox_has_news(fast_inbox *inbox)
{
    return atomic_load_explicit(&inbox->top, memory_order_relaxed) ||
           atomic_load_explicit(&inbox->woken, memory_order_relaxed);
}
/* Sleep until fast__inbox_has_news(), at most `time_ns`; may return early. */
void fast__inbox_sleep(fast_inbox *inbox, int64_t time_ns);
