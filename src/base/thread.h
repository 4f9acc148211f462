/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

#include <pthread.h>
#include <stdatomic.h>

/* Threads, for transports and for prefetching. */
typedef struct fast_thread {
    pthread_t id;
} fast_thread;

fast_err fast__thread_start(fast_thread *thread, void *(*main)(void *ctx), void *ctx);
void fast__thread_join(fast_thread *thread);
/* Run main(ctx) on a thread of its own and wait for its end: for what needs more stack than there
 * may be here. Nothing runs beside it that did not before. */
fast_err fast__thread_call(void *(*main)(void *ctx), void *ctx);

/* A lock. */
typedef struct fast_mutex {
    pthread_mutex_t mutex;
} fast_mutex;

void fast__mutex_init(fast_mutex *mutex);
void fast__mutex_fini(fast_mutex *mutex);
void fast__mutex_lock(fast_mutex *mutex);
void fast__mutex_unlock(fast_mutex *mutex);

/* Sleep while *word is `value`, at most `time` nanoseconds; may return early. Whoever changes the
 * word wakes the sleeper, of which there is one. */
void fast__futex_wait(atomic_uint *word, unsigned value, int64_t time);
void fast__futex_wake(atomic_uint *word);

/* Cores that this process may use, at least 1. */
int64_t fast__cpu_count(void);

/* Move the calling thread to the i-th of the cores that it may use, counted from `first` on and
 * around, and let the system move it on from there: threads that start together and wake each
 * other are otherwise often kept on one core. Does nothing where the system does not let it. */
void fast__cpu_go(int64_t first, int64_t i);
int64_t fast__cpu_here(void); /* the core that runs this, as fast__cpu_go() counts them */

/* The system's number of the core that runs this, below FAST_CPU_MAX; or -1. And a move, as above,
 * to a core that this thread may use and that is not taken; none if all are. */
enum { FAST_CPU_MAX = 1024 };
int fast__cpu_number(void);
void fast__cpu_avoid(const bool taken[FAST_CPU_MAX]);

/* A short rest inside a loop that watches memory: the core's other thread and its power are
 * spared. */
static inline void fast__cpu_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}
