/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A phase-fair reader-writer lock (Brandenburg and Anderson 2010) whose queue can be left, so that
 * waits may have deadlines. All of it is one word:
 *
 *     0..15 readers inside | 16..31 readers in the queue | 32..46 writers in the queue
 *     47 a writer is inside | 48..63 grants: readers that enter before the next writer
 *
 * A reader enters if no writer is inside and none queues. When a writer leaves, the readers that
 * queue at that moment are granted entry before any other writer; readers that arrive later queue
 * behind that writer. So no actor waits for more than one phase of the other kind.
 * Writers may overtake each other: on few cores a lock that is handed to a sleeping actor is idle.
 */
#include "space/space_lock.h"

#include "base/err.h"

enum { FIELD = 0xffff, WRITERS_FIELD = 0x7fff };

#define READER        ((uint64_t)1)
#define READER_QUEUED ((uint64_t)1 << 16)
#define WRITER_QUEUED ((uint64_t)1 << 32)
#define WRITER        ((uint64_t)1 << 47)
#define GRANT         ((uint64_t)1 << 48)

/* Readers inside. */
static uint64_t readers(uint64_t word)
{
    return word & FIELD;
}

/* Readers in the queue. */
static uint64_t readers_queued(uint64_t word)
{
    return word >> 16 & FIELD;
}

/* Writers in the queue. */
static uint64_t writers_queued(uint64_t word)
{
    return word >> 32 & WRITERS_FIELD;
}

/* Readers that enter before the next writer. */
static uint64_t grants(uint64_t word)
{
    return word >> 48;
}

/* Return true if a new, or a queued, actor may enter. */
static bool is_open(uint64_t word, bool write, bool queued)
{
    FAST_ASSERT(grants(word) <= readers_queued(word));
    if (word & WRITER)
        return false;
    if (write)
        return readers(word) == 0 && grants(word) == 0;
    return writers_queued(word) == 0 || (queued && grants(word) > 0);
}

/* Return which queued actors may enter now. */
static fast_space_wake next_to_wake(uint64_t word)
{
    FAST_ASSERT(!(word & WRITER) || readers(word) == 0);
    if (readers_queued(word) > 0 && is_open(word, false, true))
        return FAST_SPACE_WAKE_READERS;
    if (writers_queued(word) > 0 && is_open(word, true, true))
        return FAST_SPACE_WAKE_WRITER;
    return FAST_SPACE_WAKE_NONE;
}

/* Take the lock if the actor may enter, and leave the queue with it. */
static bool enter(fast_space_lock *lock, bool write, bool queued)
{
    uint64_t word = atomic_load(&lock->word);
    for (;;) {
        if (!is_open(word, write, queued))
            return false;
        uint64_t next = word + (write ? WRITER : READER);
        if (queued) {
            FAST_ASSERT((write ? writers_queued(word) : readers_queued(word)) > 0);
            next -= write ? WRITER_QUEUED : READER_QUEUED;
            if (!write && grants(word) > 0)
                next -= GRANT;
        }
        FAST_ASSERT(readers(word) < FIELD);
        if (atomic_compare_exchange_weak(&lock->word, &word, next))
            return true;
    }
}

/* Does not queue: a writer that fails leaves no trace. */
bool fast__space_lock_try(fast_space_lock *lock, bool write)
{
    FAST_ASSERT(lock);
    return enter(lock, write, false);
}

/* A granted reader enters although a writer queues. */
bool fast__space_lock_queued(fast_space_lock *lock, bool write)
{
    FAST_ASSERT(lock);
    return enter(lock, write, true);
}

/* The fields count up to 65535 readers and 32767 writers: more than the threads of a process. */
void fast__space_lock_queue(fast_space_lock *lock, bool write)
{
    const uint64_t before = atomic_fetch_add(&lock->word, write ? WRITER_QUEUED : READER_QUEUED);
    FAST_ASSERT(readers_queued(before) < FIELD);
    FAST_ASSERT(writers_queued(before) < WRITERS_FIELD);
}

/* The grant of an actor that leaves is taken back: the next writer would wait for it. */
fast_space_wake fast__space_lock_leave(fast_space_lock *lock, bool write)
{
    uint64_t word = atomic_load(&lock->word), next;
    do {
        FAST_ASSERT((write ? writers_queued(word) : readers_queued(word)) > 0);
        next = word - (write ? WRITER_QUEUED : READER_QUEUED);
        if (grants(next) > readers_queued(next))
            next -= GRANT;
    } while (!atomic_compare_exchange_weak(&lock->word, &word, next));
    return next_to_wake(next);
}

/* A writer grants entry to the readers that queue at this moment: the phase changes. */
fast_space_wake fast__space_lock_release(fast_space_lock *lock, bool write)
{
    uint64_t word = atomic_load(&lock->word), next;
    do {
        FAST_ASSERT(write ? (word & WRITER) != 0 : readers(word) > 0);
        next = word - (write ? WRITER : READER);
        if (write)
            next += readers_queued(word) * GRANT;
    } while (!atomic_compare_exchange_weak(&lock->word, &word, next));
    return next_to_wake(next);
}
