/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/thread.h"
#include "fast/actor.h"

#include <stdatomic.h>

/*
 * How threads hand messages to one thread, and how that thread sleeps until there are some. The
 * inbox is one word: a stack that any sender pushes on with compare-and-swap, and that its owner
 * takes whole with one exchange and turns around, so each sender's messages are in order. An owner
 * that sleeps writes a mark into the empty inbox; the sender that finds it there wakes the owner,
 * all others make no system call.
 *
 *     top: NULL (empty) | a mark (empty, its owner sleeps, or is gone) | newest -> ... -> oldest
 *
 * A send is one atomic operation, and so is taking any number of messages. Zeroed memory is an
 * empty inbox.
 */
typedef struct fast_inbox {
    _Atomic(void *) top; /* pushed on by anyone, taken by its owner */
    atomic_uint bell;    /* the futex: changed by whoever wakes the owner */
    atomic_bool woken;   /* fast__inbox_wake() was called since the last fast__inbox_woken() */
} fast_inbox;

/* Put a message in, and take it; or return false if the inbox is closed: it stays the caller's.
 * [any thread] */
bool fast__inbox_push(fast_inbox *inbox, fast_msg *msg);
/* Let the owner's sleep end, now or when it next begins. [any thread] */
void fast__inbox_wake(fast_inbox *inbox);

/* Take all messages, oldest first, linked by `next`; NULL if there are none. */
fast_msg *fast__inbox_take(fast_inbox *inbox);
/* The same, for the last time: nothing comes in any more. */
fast_msg *fast__inbox_close(fast_inbox *inbox);
/* True if it was woken since the last call. */
static inline bool fast__inbox_woken(fast_inbox *inbox)
{
    return atomic_load_explicit(&inbox->woken, memory_order_relaxed) &&
           atomic_exchange(&inbox->woken, false);
}
/* True if there are messages, or it was woken. */
static inline bool fast__inbox_has_news(fast_inbox *inbox)
{
    return atomic_load_explicit(&inbox->top, memory_order_relaxed) ||
           atomic_load_explicit(&inbox->woken, memory_order_relaxed);
}
/* Sleep until there is news, at most `time_ns`; may return early. */
void fast__inbox_sleep(fast_inbox *inbox, int64_t time_ns);
