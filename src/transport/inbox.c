/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inbox: a stack of messages in one word, and a futex to sleep on. A waker sets `woken` first
 * and then reads the mark; the owner sets the mark first and then reads `woken`. Both are in one
 * total order, so one of the two sees the other, and no wake-up is lost.
 *
 * The cost is the number of cache lines that move from core to core. A sender starts with the swap,
 * as if the inbox were empty, so that its line moves once, for writing; the owner prefetches the
 * lines of a message before it takes it.
 */
#include "transport/inbox.h"

#include "transport/message_pool.h"

/* Marks of an empty inbox whose owner sleeps or has left: addresses that are no message's. */
static char sleeping_mark, closed_mark;
#define SLEEPING ((void *)&sleeping_mark)
#define CLOSED   ((void *)&closed_mark)

/* Wake the owner, whose mark the caller has removed. */
static void ring(fast_inbox *inbox)
{
    atomic_fetch_add_explicit(&inbox->bell, 1, memory_order_release);
    fast__futex_wake(&inbox->bell);
}

bool fast__inbox_push(fast_inbox *inbox, fast_msg *msg)
{
    void *old = NULL;
    fast__envelope(msg)->next = NULL;
    while (!atomic_compare_exchange_weak_explicit(&inbox->top, &old, msg, memory_order_release,
                                                  memory_order_relaxed)) {
        if (old == CLOSED)
            return false;
        fast__envelope(msg)->next = old == SLEEPING ? NULL : old;
    }
    if (old == SLEEPING)
        ring(inbox);
    return true;
}

void fast__inbox_wake(fast_inbox *inbox)
{
    void *sleeping = SLEEPING;
    atomic_store(&inbox->woken, true);
    if (atomic_load(&inbox->top) == SLEEPING &&
        atomic_compare_exchange_strong(&inbox->top, &sleeping, NULL))
        ring(inbox);
}

/* Reverse a list: the newest message is on top of the stack. */
static fast_msg *reverse(fast_msg *msg)
{
    fast_msg *oldest = NULL;
    while (msg) {
        fast_msg *next = fast__envelope(msg)->next;
        fast__envelope(msg)->next = oldest;
        oldest = msg;
        msg = next;
    }
    return oldest;
}

fast_msg *fast__inbox_take(fast_inbox *inbox)
{
    char *top = atomic_load_explicit(&inbox->top, memory_order_relaxed);
    if (!top || top == CLOSED)
        return NULL;
    __builtin_prefetch(top, 1);
    __builtin_prefetch(top + 64, 1);
    __builtin_prefetch(top + 128, 1);
    void *taken = atomic_exchange_explicit(&inbox->top, NULL, memory_order_acquire);
    return taken == SLEEPING ? NULL : reverse(taken);
}

fast_msg *fast__inbox_close(fast_inbox *inbox)
{
    void *taken = atomic_exchange_explicit(&inbox->top, CLOSED, memory_order_acquire);
    return taken == SLEEPING || taken == CLOSED ? NULL : reverse(taken);
}

void fast__inbox_sleep(fast_inbox *inbox, int64_t time_ns)
{
    void *empty = NULL;
    const unsigned bell = atomic_load_explicit(&inbox->bell, memory_order_relaxed);
    if (!atomic_compare_exchange_strong(&inbox->top, &empty, SLEEPING))
        return;
    if (!atomic_load(&inbox->woken))
        fast__futex_wait(&inbox->bell, bell, time_ns);
    void *sleeping = SLEEPING;
    atomic_compare_exchange_strong(&inbox->top, &sleeping, NULL);
}
