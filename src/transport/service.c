/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Services: an actor handles the messages of one tag in all of its waits, so that two actors that
 * wait for each other both get their answer. A service is a background task, advanced between the
 * actor's own steps and never inside of another task: its callback needs no lock. Cost: one lookup
 * in the mailbox in each wait.
 */
#include "base/memory.h"
#include "transport/transport.h"

struct fast_service {
    fast_task task;       /* first: advanced by the actor */
    fast_actor *actor;    /* that serves */
    uint64_t tag;         /* of the served messages */
    fast_serve_fn *serve; /* called for each message */
    void *ctx;            /* passed to serve */
};

/* Serve all messages of the tag that are in the mailbox. */
static fast_err advance(fast_actor *actor, fast_task *task, bool *done)
{
    const fast_service *s = (const fast_service *)task;
    fast_msg *msg;

    (void)done; /* ended by fast_service_end() or a failure */
    while ((msg = fast__take(actor, FAST_ANY, s->tag))) {
        const fast_err err = s->serve(s->ctx, &msg);

        fast_msg_free(msg);
        FAST_TRY(err);
    }
    return FAST_OK;
}

fast_err fast_serve(fast_actor *actor, uint64_t tag, fast_serve_fn *serve, void *ctx,
                    fast_service **out)
{
    fast_service *s = NULL;

    FAST_ASSERT(actor != NULL && serve != NULL);
    FAST_TRY(fast__alloc("a service", 1, sizeof *s, &s));
    *s = (fast_service){ .task = { .advance = advance, .background = true },
                         .actor = actor,
                         .tag = tag,
                         .serve = serve,
                         .ctx = ctx };
    fast__post(actor, &s->task);
    *out = s;
    return FAST_OK;
}

fast_err fast_service_poll(fast_service *s)
{
    FAST_ASSERT(s != NULL);
    fast__progress(s->actor);
    return s->task.err;
}

void fast_service_end(fast_service *s)
{
    if (!s)
        return;
    fast__unpost(s->actor, &s->task);
    fast__free(s);
}
