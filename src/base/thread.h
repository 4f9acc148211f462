/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

#include <pthread.h>

/* Threads, for transports and for prefetching. */
typedef struct fast_thread {
    pthread_t id;
} fast_thread;

fast_err fast__thread_start(fast_thread *thread, void *(*main)(void *ctx), void *ctx);
void fast__thread_join(fast_thread *thread);
