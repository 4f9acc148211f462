/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generators.
 *
 *     caller      next ----+  uses an item  +-- next ----+  uses an item  +-- next ...
 *     main                 +-- works -------+            +-- works -------+
 *
 * As a coroutine next() is two jumps, tens of nanoseconds, and no other thread takes a core from
 * the caller. With a thread the items queue in the order of giving, and the caller sleeps until
 * there is one.
 */
#include "base/handover.h"

#include "base/fiber.h"
#include "base/memory.h"
#include "base/thread.h"

enum { HANDOVER_STACK_SIZE = 8 << 20 }; /* bytes, as a thread has; unused pages cost nothing */

/* An item that waits; on the stack of its giver. */
typedef struct given_item {
    void *item;              /* the giver's */
    struct given_item *next; /* given later */
    bool used;               /* the caller has asked for the next one; guarded by the mutex */
} given_item;

struct fast_handover {
    bool threaded;            /* `thread` runs main, not `fiber` */
    bool started;             /* main was started */
    bool ended;               /* main has returned; guarded by the mutex */
    void (*main)(void *ctx);  /* the generator */
    void *ctx;                /* its argument */
    given_item *current;      /* in the caller's hands; NULL: none */
    fast_fiber fiber;         /* that runs main */
    fast_stacks stacks;       /* of the fiber: one */
    fast_thread thread;       /* that runs main */
    pthread_mutex_t mutex;    /* guards the list, `used` and `ended` */
    pthread_cond_t given;     /* there is an item, or main has returned */
    pthread_cond_t used;      /* an item was used */
    given_item *first, *last; /* items in the order of giving; guarded by the mutex */
};

fast_err fast__handover_new(bool threaded, void (*main)(void *ctx), void *ctx, fast_handover **out)
{
    fast_handover *h = NULL;

    FAST_ASSERT(main != NULL && out != NULL);
    FAST_TRY(fast__alloc("a handover", 1, sizeof *h, &h));
    h->threaded = threaded;
    h->main = main;
    h->ctx = ctx;
    pthread_mutex_init(&h->mutex, NULL);
    pthread_cond_init(&h->given, NULL);
    pthread_cond_init(&h->used, NULL);
    *out = h;
    return FAST_OK;
}

/* Queue an item, and sleep until it was used. */
static void give_from_thread(fast_handover *h, given_item *mine)
{
    pthread_mutex_lock(&h->mutex);
    if (h->last)
        h->last->next = mine;
    else
        h->first = mine;
    h->last = mine;
    pthread_cond_signal(&h->given);
    while (!mine->used)
        pthread_cond_wait(&h->used, &h->mutex);
    pthread_mutex_unlock(&h->mutex);
}

void fast__handover_give(fast_handover *handover, void *item)
{
    given_item mine = { .item = item };

    FAST_ASSERT(item != NULL && handover->started);
    if (handover->threaded) {
        give_from_thread(handover, &mine);
        return;
    }
    FAST_ASSERT(!handover->current);
    handover->current = &mine;
    /* The error buffer of a simulated actor is not for the caller's own calls. */
    char *detail = fast__fail_buffer(NULL);
    fast__fiber_yield(&handover->fiber);
    fast__fail_buffer(detail);
}

/* Run main to its end, and say so. */
static void run_main(void *ctx)
{
    fast_handover *h = ctx;

    h->main(h->ctx);
    pthread_mutex_lock(&h->mutex);
    h->ended = true;
    pthread_cond_signal(&h->given);
    pthread_mutex_unlock(&h->mutex);
}

static void *thread_main(void *ctx)
{
    run_main(ctx);
    return NULL;
}

/* Make the stack that main runs on; a thread starts at once. */
static fast_err start(fast_handover *h)
{
    h->started = true; /* before its thread looks */
    fast_err err = FAST_OK;
    if (h->threaded)
        err = fast__thread_start(&h->thread, thread_main, h);
    else
        err = fast__stacks_open(1, HANDOVER_STACK_SIZE, &h->stacks);
    if (!err && !h->threaded)
        fast__fiber_begin(&h->fiber, &h->stacks, 0, run_main, h);
    h->started = !err;
    return err;
}

/* Let the giver of the current item continue, and sleep until there is an item or the end. */
static void next_from_thread(fast_handover *h)
{
    pthread_mutex_lock(&h->mutex);
    if (h->current) {
        h->current->used = true;
        pthread_cond_broadcast(&h->used);
    }
    while (!h->first && !h->ended)
        pthread_cond_wait(&h->given, &h->mutex);
    h->current = h->first;
    h->first = h->first ? h->first->next : NULL;
    h->last = h->first ? h->last : NULL;
    pthread_mutex_unlock(&h->mutex);
}

fast_err fast__handover_next(fast_handover *handover, void **out)
{
    FAST_ASSERT(out != NULL);
    if (!handover->started)
        FAST_TRY(start(handover));
    if (handover->threaded) {
        next_from_thread(handover);
    } else if (!handover->ended) {
        handover->current = NULL;
        fast__fiber_resume(&handover->fiber);
        FAST_ASSERT(handover->ended || handover->current);
    }
    *out = handover->current ? handover->current->item : NULL;
    return FAST_OK;
}

void fast__handover_free(fast_handover *handover)
{
    if (!handover)
        return;
    if (handover->started && handover->threaded)
        fast__thread_join(&handover->thread);
    FAST_ASSERT(!handover->started || handover->ended);
    fast__stacks_close(&handover->stacks);
    pthread_cond_destroy(&handover->used);
    pthread_cond_destroy(&handover->given);
    pthread_mutex_destroy(&handover->mutex);
    fast__free(handover);
}
