/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bounded ring of slots between one producer, the thread of this file, and one consumer.
 *
 * Step s is in slot s % (depth + 1). The consumer holds step `held`; the producer may advance to
 * held + depth, which are the other slots of the ring, so the two never touch one slot at a time:
 *
 *      held           next           held + depth
 *   [ consumer ][ made ][ being made ][ free ]
 *
 * A step out of order moves both positions; the producer finishes its current step, sees that the
 * generation changed and continues at the new position. One mutex guards all of it; slots are
 * filled without it. Nothing is allocated after new. Cost: two short critical sections a step.
 */
#include "data/prefetch.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"

#include <time.h>

struct fast_prefetch {
    fast_prefetch_fn *make; /* fills a slot; constant after new, as are the next three */
    void *ctx;              /* context of `make` */
    int64_t depth;          /* largest number of steps ahead */
    int64_t deadline_ns;    /* longest wait of a get */
    fast_thread thread;     /* the producer */
    pthread_mutex_t mutex;  /* guards the fields from `held` on */
    pthread_cond_t made;    /* signalled by the producer: next has grown */
    pthread_cond_t moved;   /* signalled by the consumer: held has moved, or stop */
    /* Guarded by mutex. */
    int64_t held;       /* step of the consumer; -1 before the first get */
    int64_t next;       /* first step that is not made yet */
    int64_t generation; /* number of times the consumer jumped */
    bool stop;          /* the producer must return */
};

/* The producer's thread. */
static void *maker_main(void *ctx)
{
    fast_prefetch *p = ctx;
    pthread_mutex_lock(&p->mutex);
    while (!p->stop) {
        if (p->held < 0 || p->next > p->held + p->depth) {
            pthread_cond_wait(&p->moved, &p->mutex);
            continue;
        }
        const int64_t step = p->next;
        const int64_t generation = p->generation;
        pthread_mutex_unlock(&p->mutex);
        p->make(p->ctx, step, step % (p->depth + 1));
        pthread_mutex_lock(&p->mutex);
        if (generation == p->generation) {
            p->next = step + 1;
            pthread_cond_signal(&p->made);
        }
    }
    pthread_mutex_unlock(&p->mutex);
    return NULL;
}

/* Start the thread, which makes the first `depth` steps at once. */
fast_err fast__prefetch_new(fast_prefetch_fn *make, void *ctx, int64_t depth, int64_t deadline_ns,
                            fast_prefetch **out)
{
    FAST_ASSERT(make != NULL && depth > 0);
    fast_prefetch *p;
    FAST_TRY(fast__alloc("prefetching", 1, sizeof *p, &p));
    p->make = make;
    p->ctx = ctx;
    p->depth = depth;
    p->deadline_ns = deadline_ns;
    p->held = -1;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->made, &monotonic);
    pthread_cond_init(&p->moved, &monotonic);
    pthread_condattr_destroy(&monotonic);
    const fast_err err = fast__thread_start(&p->thread, maker_main, p);
    if (err)
        goto undo_sync;
    *out = p;
    return FAST_OK;

undo_sync:
    pthread_cond_destroy(&p->moved);
    pthread_cond_destroy(&p->made);
    pthread_mutex_destroy(&p->mutex);
    fast__free(p);
    return err;
}

/* Ask the thread to stop after the batch that it makes, and join it. */
void fast__prefetch_free(fast_prefetch *p)
{
    if (p == NULL)
        return;
    pthread_mutex_lock(&p->mutex);
    p->stop = true;
    pthread_cond_signal(&p->moved);
    pthread_mutex_unlock(&p->mutex);
    fast__thread_join(&p->thread);
    pthread_cond_destroy(&p->moved);
    pthread_cond_destroy(&p->made);
    pthread_mutex_destroy(&p->mutex);
    fast__free(p);
}

/* Wait until the batch of a step is made. A step outside the window restarts the thread there;
 * asking for a step releases the slots of those before it. FAST_ETIMEDOUT. */
fast_err fast__prefetch_get(fast_prefetch *p, int64_t step, int64_t *slot_out)
{
    FAST_ASSERT(step >= 0);
    fast_err err = FAST_OK;
    pthread_mutex_lock(&p->mutex);
    if (p->held < 0 || step < p->held || step > p->next) {
        p->generation++;
        p->next = step;
    }
    p->held = step;
    pthread_cond_signal(&p->moved);
    const int64_t deadline = fast__clock_ns() + p->deadline_ns;
    const struct timespec until = { .tv_sec = (time_t)(deadline / 1000000000),
                                    .tv_nsec = (long)(deadline % 1000000000) };
    while (p->next <= step && !err) {
        if (pthread_cond_timedwait(&p->made, &p->mutex, &until) != 0 && p->next <= step)
            err = fast__fail(FAST_ETIMEDOUT,
                             "the batch of step %lld was not made by the prefetching thread within "
                             "%g s; it is at step %lld",
                             (long long)step, (double)p->deadline_ns * 1e-9, (long long)p->next);
    }
    FAST_ASSERT(err || p->next > step);
    pthread_mutex_unlock(&p->mutex);
    if (!err)
        *slot_out = step % (p->depth + 1);
    return err;
}
