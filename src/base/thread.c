/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads, on POSIX threads. The library's threads block all signals: signals belong to the threads
 * of the program, whose handlers expect to run there. Waiting on a word is Linux's futex, which
 * costs nothing while no thread sleeps.
 */
#include "base/thread.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

fast_err fast__thread_start(fast_thread *thread, void *(*main)(void *ctx), void *ctx)
{
    FAST_ASSERT(thread != NULL);
    FAST_ASSERT(main != NULL);

    /* A new thread inherits the signal mask of its creator. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t id;
    const int failed = pthread_create(&id, NULL, main, ctx);
    pthread_sigmask(SIG_SETMASK, &before, NULL);

    if (failed)
        return fast__fail(failed == EAGAIN ? FAST_ENOMEM : FAST_EIO, "cannot start a thread: %s",
                          strerror(failed));
    thread->id = id;
    return FAST_OK;
}

void fast__thread_join(fast_thread *thread)
{
    FAST_ASSERT(thread != NULL);
    const int failed = pthread_join(thread->id, NULL);
    FAST_ASSERT(!failed);
}

fast_err fast__thread_call(void *(*main)(void *ctx), void *ctx)
{
    fast_thread thread;

    FAST_TRY(fast__thread_start(&thread, main, ctx));
    fast__thread_join(&thread);
    return FAST_OK;
}

/* Critical sections are shorter than a context switch: a waiting thread spins for a while first. */
void fast__mutex_init(fast_mutex *mutex)
{
    pthread_mutexattr_t adaptive;
    int failed = pthread_mutexattr_init(&adaptive);
    FAST_ASSERT(!failed);
    failed = pthread_mutexattr_settype(&adaptive, PTHREAD_MUTEX_ADAPTIVE_NP);
    FAST_ASSERT(!failed);
    failed = pthread_mutex_init(&mutex->mutex, &adaptive);
    FAST_ASSERT(!failed);
    pthread_mutexattr_destroy(&adaptive);
}

void fast__mutex_fini(fast_mutex *mutex)
{
    const int failed = pthread_mutex_destroy(&mutex->mutex);
    FAST_ASSERT(!failed);
}

void fast__mutex_lock(fast_mutex *mutex)
{
    const int failed = pthread_mutex_lock(&mutex->mutex);
    FAST_ASSERT(!failed);
}

void fast__mutex_unlock(fast_mutex *mutex)
{
    const int failed = pthread_mutex_unlock(&mutex->mutex);
    FAST_ASSERT(!failed);
}

/* Wait on a word by one of futex's two operations. It returns on a changed value, a signal or the
 * timeout; the caller checks in any case. */
static void futex_wait(atomic_uint *word, int operation, unsigned value, int64_t time)
{
    const struct timespec limit = { (time_t)(time / 1000000000), (long)(time % 1000000000) };
    FAST_ASSERT(word != NULL);
    FAST_ASSERT(time >= 0);
    syscall(SYS_futex, word, operation, value, &limit, NULL, 0);
}

void fast__futex_wait(atomic_uint *word, unsigned value, int64_t time)
{
    futex_wait(word, FUTEX_WAIT_PRIVATE, value, time);
}

void fast__futex_wake(atomic_uint *word)
{
    FAST_ASSERT(word != NULL);
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void fast__futex_wait_shared(atomic_uint *word, unsigned value, int64_t time)
{
    futex_wait(word, FUTEX_WAIT, value, time);
}

void fast__futex_wake_shared(atomic_uint *word)
{
    FAST_ASSERT(word != NULL);
    syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

int64_t fast__cpu_count(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return CPU_COUNT(&set);
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? online : 1;
}

int64_t fast__cpu_here(void)
{
    const int cpu = sched_getcpu();
    cpu_set_t set;
    if (cpu < 0 || sched_getaffinity(0, sizeof set, &set) != 0)
        return 0;
    int64_t before = 0;
    for (int i = 0; i < cpu && i < CPU_SETSIZE; i++)
        before += CPU_ISSET(i, &set) != 0;
    return before;
}

/* Move to one allowed core: the first call migrates the thread, the second lifts the
 * restriction. */
static void move_to(int cpu, const cpu_set_t *all)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one) == 0)
        (void)sched_setaffinity(0, sizeof *all, all);
}

void fast__cpu_go(int64_t first, int64_t i)
{
    FAST_ASSERT(first >= 0 && i >= 0);
    cpu_set_t all;
    if (sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) < 2)
        return;
    int64_t skip = (first + i) % CPU_COUNT(&all);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all) && skip-- == 0) {
            move_to(cpu, &all);
            return;
        }
}

int fast__cpu_number(void)
{
    const int cpu = sched_getcpu();
    return cpu < FAST_CPU_MAX ? cpu : -1;
}

void fast__cpu_avoid(const bool taken[FAST_CPU_MAX])
{
    _Static_assert((int)FAST_CPU_MAX == (int)CPU_SETSIZE, "as many cores as a set holds");
    cpu_set_t all;
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        return;
    for (int cpu = 0; cpu < FAST_CPU_MAX; cpu++)
        if (CPU_ISSET(cpu, &all) && !taken[cpu]) {
            move_to(cpu, &all);
            return;
        }
}
