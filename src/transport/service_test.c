/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Services. Goal: an actor that waits serves, so that actors that ask each other at once get their
 * answers; a message that a service takes stays its own; the next poll returns a failure; without
 * memory no service starts. Method: actors that ask all others and wait, on sim and on threads.
 */
#include "base/memory.h"
#include "transport/transport.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { ACTORS = 4, ASK = 1, REPLY, DONE, READY, LAST };

/* The state of an actor. */
typedef struct desk {
    fast_actor *actor;
    fast_msg *first; /* the first request, answered last */
    int64_t served;  /* requests so far */
    bool broken;     /* the next request fails */
} desk;

/* Send a number to another. */
static fast_err tell(fast_actor *actor, int64_t to, uint64_t tag, int64_t number)
{
    fast_msg *msg = NULL;

    FAST_TRY(fast_msg_new(actor, tag, &msg));
    msg->words[0] = number;
    return fast_send(actor, to, &msg);
}

/* The answer is one more than what was asked. The first request waits for the last. */
static fast_err serve(void *ctx, fast_msg **move)
{
    desk *d = ctx;

    if (d->broken)
        return fast__fail(FAST_EFORMAT, "broken");
    if (d->served++ == 0) {
        d->first = *move;
        *move = NULL;
        return FAST_OK;
    }
    FAST_TRY(tell(d->actor, (*move)->from, REPLY, (*move)->words[0] + 1));
    return d->served == ACTORS - 1 ? tell(d->actor, d->first->from, REPLY, d->first->words[0] + 1)
                                   : FAST_OK;
}

static fast_err ask_all(fast_actor *actor)
{
    const int64_t me = fast_actor_id(actor);
    fast_msg *msg = NULL;

    for (int64_t i = 1; i < ACTORS; i++)
        FAST_TRY(tell(actor, (me + i) % ACTORS, ASK, me));
    for (int64_t i = 1; i < ACTORS; i++) {
        FAST_TRY(fast_receive(actor, FAST_ANY, REPLY, FAST_SOON, &msg));
        const bool right = msg->words[0] == me + 1;
        fast_msg_free(msg);
        if (!right)
            return fast__fail(FAST_EFORMAT, "another's answer");
    }
    return FAST_OK;
}

/* Return once all actors have called it: a barrier. */
static fast_err wait_for_all(fast_actor *actor, uint64_t tag)
{
    const int64_t me = fast_actor_id(actor);
    fast_msg *msg = NULL;

    for (int64_t i = 1; i < ACTORS; i++)
        FAST_TRY(tell(actor, (me + i) % ACTORS, tag, 0));
    for (int64_t i = 1; i < ACTORS; i++) {
        FAST_TRY(fast_receive(actor, FAST_ANY, tag, FAST_SOON, &msg));
        fast_msg_free(msg);
    }
    return FAST_OK;
}

/* After the last request, ask each service once more: it fails. */
static fast_err fail_once(fast_actor *actor, desk *d, fast_service *service)
{
    const int64_t me = fast_actor_id(actor);

    FAST_TRY(wait_for_all(actor, DONE));
    FAST_TRY(fast_service_poll(service));
    d->broken = true;
    FAST_TRY(wait_for_all(actor, READY));
    FAST_TRY(tell(actor, (me + 1) % ACTORS, ASK, me));
    FAST_TRY(wait_for_all(actor, LAST));
    return fast_service_poll(service) == FAST_EFORMAT ? FAST_OK
                                                      : fast__fail(FAST_EINVAL, "no failure");
}

static fast_err program(fast_actor *actor, void *ctx)
{
    fast_service *service = NULL;
    desk d = { .actor = actor };
    fast_err err;

    (void)ctx;
    FAST_TRY(fast_serve(actor, ASK, serve, &d, &service));
    err = ask_all(actor);
    if (!err)
        err = fail_once(actor, &d, service);
    fast_service_end(service);
    fast_service_end(NULL);
    fast_msg_free(d.first);
    return err;
}

static void who_waits_serves(void **state)
{
    const char *const transports[] = { "transport=sim", "transport=threads" };

    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *const options[] = { transports[i], "timeout=60", NULL };
        const fast_role role = { "worker", ACTORS, program, NULL };

        if (fast_actors_run(options, &role, 1, NULL))
            fail_msg("%s: %s", transports[i], fast_error_detail());
    }
}

static fast_err without_memory(fast_actor *actor, void *ctx)
{
    fast_service *service = NULL;

    (void)ctx;
    fast__alloc_fail_after(0, true);
    const fast_err err = fast_serve(actor, ASK, serve, NULL, &service);
    fast__alloc_fail_after(-1, true);
    return err == FAST_ENOMEM && !service ? FAST_OK : fast__fail(FAST_EINVAL, "a service");
}

static void memory_may_run_out(void **state)
{
    const char *const options[] = { "transport=sim", NULL };
    const fast_role role = { "worker", 1, without_memory, NULL };

    (void)state;
    assert_int_equal(fast_actors_run(options, &role, 1, NULL), FAST_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_waits_serves),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
