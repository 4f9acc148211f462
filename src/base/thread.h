/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

#include <pthread.h>
#include <stdatomic.h>

/* A thread of the library, for transports and prefetching. */
typedef struct fast_thread {
    pthread_t id; /* POSIX handle */
} fast_thread;

/* Start a thread that runs main(ctx) with all signals blocked. FAST_ENOMEM, FAST_EIO. */
fast_err fast__thread_start(fast_thread *thread, void *(*main)(void *ctx), void *ctx);
void fast__thread_join(fast_thread *thread);
/* Run main(ctx) on a thread of its own and wait for its end: for functions that need more stack
 * than the caller may have. It adds no concurrency. */
fast_err fast__thread_call(void *(*main)(void *ctx), void *ctx);

/* A mutex that spins briefly before it sleeps. */
typedef struct fast_mutex {
    pthread_mutex_t mutex; /* adaptive POSIX mutex */
} fast_mutex;

void fast__mutex_init(fast_mutex *mutex);
void fast__mutex_fini(fast_mutex *mutex);
void fast__mutex_lock(fast_mutex *mutex);
void fast__mutex_unlock(fast_mutex *mutex);

/* Sleep while *word equals `value`, at most `time` nanoseconds; may return early. The thread that
 * changes the word wakes the sleeper; a word has at most one. */
void fast__futex_wait(atomic_uint *word, unsigned value, int64_t time);
void fast__futex_wake(atomic_uint *word);
/* The same for a word in memory that processes share. */
void fast__futex_wait_shared(atomic_uint *word, unsigned value, int64_t time);
void fast__futex_wake_shared(atomic_uint *word);

/* Return the number of cores that this process may use, at least 1. */
int64_t fast__cpu_count(void);

/* Move the calling thread to the i-th allowed core, counted cyclically from `first`, and let the
 * system move it from there on: threads that start together and wake each other otherwise often
 * stay on one core. No effect if the system refuses. */
void fast__cpu_go(int64_t first, int64_t i);
int64_t fast__cpu_here(void); /* index of the current core, as fast__cpu_go() counts */

/* Return the system's number of the current core, below FAST_CPU_MAX, or -1. fast__cpu_avoid()
 * moves the thread to an allowed core that is not taken; no effect if all are. */
enum { FAST_CPU_MAX = 1024 };
int fast__cpu_number(void);
void fast__cpu_avoid(const bool taken[FAST_CPU_MAX]);

/* Pause briefly in a loop that polls memory: yields to the core's other hardware thread and saves
 * power. */
static inline void fast__cpu_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}
