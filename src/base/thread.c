/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads, on POSIX threads. A thread of the library takes no signals: they belong to the threads
 * of the program, whose handlers expect to run there.
 */
#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

fast_err fast__thread_start(fast_thread *thread, void *(*main)(void *ctx), void *ctx)
{
    FAST_ASSERT(thread != NULL);
    FAST_ASSERT(main != NULL);

    /* A new thread inherits the mask of the one that starts it. */
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
