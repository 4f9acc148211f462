/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * A reader-writer lock in one word that never blocks by itself: who does not get it queues, sleeps
 * as its transport sleeps, and tries again when it is woken. Zeroed memory is a free lock.
 */
typedef struct fast_space_lock {
    _Atomic uint64_t word; /* see space_lock.c */
} fast_space_lock;

/* Whom to wake after a release or a leave. */
typedef enum fast_space_wake {
    FAST_SPACE_WAKE_NONE,    /* nobody waits, or it is not their turn */
    FAST_SPACE_WAKE_READERS, /* all readers that queue */
    FAST_SPACE_WAKE_WRITER   /* one writer */
} fast_space_wake;

/* Take it if it is free and nobody's turn comes first. */
bool fast__space_lock_try(fast_space_lock *lock, bool write);
/* Queue; then try until it is one's turn, or leave the queue. */
void fast__space_lock_queue(fast_space_lock *lock, bool write);
bool fast__space_lock_queued(fast_space_lock *lock, bool write);
fast_space_wake fast__space_lock_leave(fast_space_lock *lock, bool write);
/* Give it back. */
fast_space_wake fast__space_lock_release(fast_space_lock *lock, bool write);
