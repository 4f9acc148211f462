/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * A reader-writer lock in one word that never blocks by itself: an actor that does not get it
 * queues, sleeps as its transport sleeps, and tries again when it is woken. Zeroed memory is a free
 * lock.
 */
typedef struct fast_space_lock {
    _Atomic uint64_t word; /* counters of readers and writers: space_lock.c */
} fast_space_lock;

/* Which actors to wake after a release or a leave. */
typedef enum fast_space_wake {
    FAST_SPACE_WAKE_NONE,    /* no actor waits, or none of them may enter yet */
    FAST_SPACE_WAKE_READERS, /* all readers in the queue */
    FAST_SPACE_WAKE_WRITER   /* one writer */
} fast_space_wake;

/* Take the lock if it is free and no queued actor comes first. */
bool fast__space_lock_try(fast_space_lock *lock, bool write);
/* Queue; then try until the lock is taken, or leave the queue. */
void fast__space_lock_queue(fast_space_lock *lock, bool write);
bool fast__space_lock_queued(fast_space_lock *lock, bool write);
fast_space_wake fast__space_lock_leave(fast_space_lock *lock, bool write);
/* Release the lock. */
fast_space_wake fast__space_lock_release(fast_space_lock *lock, bool write);
