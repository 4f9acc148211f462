/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the checking wrapper finds every kind of broken contract, says which, and is silent about
 * what is right. Method: `threads` with one operation replaced by a broken one, and programs that
 * break the rules; each run must fail with the sentence of its violation.
 */
#include "base/memory.h"
#include "base/thread.h"
#include "transport/transport.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* The way in which the transport is broken. */
typedef enum fault {
    NOTHING,
    DROP,     /* the fifth message of a pair */
    DOUBLE,   /* the fifth message arrives twice */
    OVERTAKE, /* it waits for the next */
    LATE,     /* waits take 20 s more by the clock */
    BACK,     /* the clock goes back after a wait */
    NEGATIVE, /* the clock begins before zero */
    ERROR,    /* a wait fails */
    FORGETFUL /* a canceled wait is one only once */
} fault;

static fault broken;              /* set before a run, read by its actors */
static atomic_llong number;       /* of messages sent from actor 0 to actor 1 */
static atomic_llong shift;        /* of the clock */
static _Atomic(fast_msg *) held;  /* the message that is overtaken */
static atomic_bool canceled_once; /* a wait was canceled */

static void broken_send(fast_actor *actor, fast_msg *msg)
{
    const bool fifth = msg->from == 0 && msg->to == 1 && atomic_fetch_add(&number, 1) == 4;
    if (broken == DROP && fifth) {
        fast_msg_free(msg);
        return;
    }
    if (broken == OVERTAKE && fifth) {
        atomic_store(&held, msg);
        return;
    }
    if (broken == DOUBLE && fifth) {
        fast_msg *twin = NULL;
        if (!fast_msg_new(actor, msg->tag, &twin)) {
            memcpy(twin->words, msg->words, sizeof twin->words);
            twin->from = msg->from;
            twin->to = msg->to;
            fast__envelope(twin)->proof = fast__envelope(msg)->proof;
            fast__transport_threads.send(actor, twin);
        }
    }
    const bool first = msg->from == 0;
    fast__transport_threads.send(actor, msg);
    fast_msg *late = first ? atomic_exchange(&held, NULL) : NULL;
    if (late)
        fast__transport_threads.send(actor, late);
}

static fast_err broken_wait(fast_actor *actor, int64_t deadline)
{
    if (broken == ERROR)
        return fast__fail(FAST_EIO, "the wire is cut");
    if (broken == FORGETFUL && !atomic_exchange(&canceled_once, true))
        return fast__fail(FAST_ECANCELED, "only joking");
    const fast_err err = fast__transport_threads.wait(actor, deadline);
    if (broken == LATE)
        atomic_fetch_add(&shift, 20000000000);
    if (broken == BACK)
        atomic_fetch_sub(&shift, 1000000);
    return err;
}

static int64_t broken_now(fast_actor *actor)
{
    /* Late enough that going back does not make it negative. */
    const int64_t now = fast__transport_threads.now(actor) + 1000000000;
    return (broken == NEGATIVE ? -now : now) + atomic_load(&shift);
}

/* `threads`, broken as asked for, with `check` around it. Returns the violation, or NULL. */
static const char *run(fault what, fast_actor_fn *main, const char *option)
{
    static char said[FAST_DETAIL_MAX];
    fast_transport transport = fast__transport_threads;
    transport.name = "broken";
    transport.send = broken_send;
    transport.wait = broken_wait;
    transport.now = broken_now;
    const fast_role role = { "worker", 2, main, NULL };
    const char *options[] = { "timeout=2", option, NULL };
    fast_actors_config config;
    fast_world *world = NULL;
    broken = what;
    atomic_store(&number, 0);
    atomic_store(&shift, 0);
    atomic_store(&canceled_once, false);
    assert_int_equal(fast__actors_parse(options, &config), FAST_OK);
    config.check = true;
    assert_int_equal(fast__world_open(&config, &role, 1, &world), FAST_OK);
    world->inner = &transport;
    fast_actors_result result = { .actor_count = -1 };
    const fast_err err = fast__world_run(world, &result);
    snprintf(said, sizeof said, "%s", err ? fast_error_detail() : "");
    fast__world_close(world);
    fast_msg *const late = atomic_exchange(&held, NULL);
    assert_null(late);
    assert_int_equal(result.actor_count, 2);
    return err ? said : NULL;
}

static void expect(const char *said, const char *part)
{
    if (!said)
        fail_msg("nothing was found, not even: %s", part);
    if (!strstr(said, "transport broken broke its contract: ") || !strstr(said, part))
        fail_msg("%s was expected, not: %s", part, said);
}

/* Ten messages from 0 to 1, with parts, and one back. */
static fast_err stream_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    fast_msg *msg = NULL;
    if (fast_actor_id(actor) == 0) {
        for (int64_t i = 0; i < 10; i++) {
            FAST_TRY(fast_msg_new(actor, 7, &msg));
            msg->words[0] = i;
            FAST_TRY(fast_send(actor, 1, &msg));
        }
        FAST_TRY(fast_receive(actor, 1, 8, FAST_SOON, &msg));
        fast_msg_free(msg);
        return FAST_OK;
    }
    for (int64_t i = 0; i < 9; i++) {
        FAST_TRY(fast_receive(actor, 0, 7, FAST_SOON, &msg));
        fast_msg_free(msg);
    }
    FAST_TRY(fast_msg_new(actor, 8, &msg));
    return fast_send(actor, 0, &msg);
}

static void test_nothing(void **state)
{
    (void)state;
    const char *said = run(NOTHING, stream_main, NULL);
    if (said)
        fail_msg("%s", said);
}

static void test_delivery(void **state)
{
    (void)state;
    expect(run(DROP, stream_main, NULL),
           "actor 1 got message 6 of actor 0 (tag 7) where 5 was next");
    expect(run(DOUBLE, stream_main, NULL),
           "actor 1 got message 5 of actor 0 (tag 7) again or late");
    const char *said = run(OVERTAKE, stream_main, NULL);
    expect(said, "actor 1 got message 6 of actor 0 (tag 7) where 5 was next");
    assert_non_null(strstr(said, "violations)"));
}

static void test_time(void **state)
{
    (void)state;
    expect(run(LATE, stream_main, NULL), "past its deadline");
    expect(run(BACK, stream_main, NULL), "went back from");
    expect(run(NEGATIVE, stream_main, NULL), "reads -");
    expect(run(ERROR, stream_main, NULL), "failed with EIO");
}

static fast_err forgetful_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    const fast_transport *transport = actor->world->transport;
    if (fast_actor_id(actor) != 0)
        return FAST_OK;
    (void)transport->wait(actor, FAST_AT_ONCE);
    return transport->wait(actor, FAST_AT_ONCE);
}

static void test_canceled(void **state)
{
    (void)state;
    /* Whichever actor it happens to waits twice. */
    expect(run(FORGETFUL, forgetful_main, NULL), "returned FAST_OK after it was canceled");
}

/* A message to oneself whose bytes change on the way. */
static fast_err touch(fast_actor *actor, bool frozen)
{
    fast_buffer *buffer = NULL;
    fast_msg *msg = NULL;
    if (fast_actor_id(actor) != 0)
        return FAST_OK;
    FAST_TRY(fast_buffer_new(actor, 1000, &buffer));
    char *bytes = fast_buffer_data(buffer);
    memset(bytes, 0, 1000);
    if (frozen)
        fast_buffer_freeze(buffer);
    FAST_TRY(fast_msg_new(actor, 1, &msg));
    fast_msg_add(msg, &buffer);
    FAST_TRY(fast_send(actor, 0, &msg));
    bytes[999] = 1;
    FAST_TRY(fast_receive(actor, 0, 1, FAST_SOON, &msg));
    fast_msg_free(msg);
    return FAST_OK;
}

static fast_err touch_private_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    return touch(actor, false);
}

static fast_err touch_frozen_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    return touch(actor, true);
}

/* A word changes: the header counts too. */
static fast_err touch_word_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    fast_msg *msg = NULL;
    if (fast_actor_id(actor) != 0)
        return FAST_OK;
    FAST_TRY(fast_msg_new(actor, 1, &msg));
    fast_msg *again = msg;
    FAST_TRY(fast_send(actor, 0, &msg));
    again->words[3] = 9;
    FAST_TRY(fast_receive(actor, 0, 1, FAST_SOON, &msg));
    fast_msg_free(msg);
    return FAST_OK;
}

static void test_touched(void **state)
{
    (void)state;
    static const char said[] =
        "a message of actor 0 to actor 0 (tag 1) was changed after it was sent";
    expect(run(NOTHING, touch_private_main, NULL), said);
    expect(run(NOTHING, touch_frozen_main, NULL), said);
    expect(run(NOTHING, touch_word_main, NULL), said);
}

static void *foreign(void *ctx)
{
    (void)fast_now(ctx);
    return NULL;
}

static fast_err thread_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    fast_thread thread;
    (void)fast_now(actor);
    FAST_TRY(fast__thread_start(&thread, foreign, actor));
    fast__thread_join(&thread);
    return FAST_OK;
}

static fast_err blocking_run(fast_work *work)
{
    return fast_sleep_until(*(fast_actor **)work->ctx, INT64_C(1) << 40);
}

static fast_err inside_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    fast_work work = { .run = blocking_run, .ctx = &actor };
    atomic_store(&actor->world->canceled, true); /* so that it does not really sleep */
    const fast_err err = fast_compute(actor, &work);
    return err == FAST_ECANCELED ? FAST_OK : err;
}

static fast_err cost_run(fast_work *work)
{
    work->bytes = -1;
    return FAST_OK;
}

static fast_err cost_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    fast_work work = { .run = cost_run };
    return fast_compute(actor, &work);
}

static fast_err charge_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    return actor->world->transport->charge(actor, 1, (double)INFINITY);
}

static fast_err wake_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    actor->world->transport->wake(actor, 2);
    return FAST_OK;
}

static fast_err forged_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    fast_msg *msg = NULL;
    FAST_TRY(fast_msg_new(actor, 1, &msg));
    msg->from = 1 - fast_actor_id(actor);
    msg->to = fast_actor_id(actor);
    actor->world->transport->send(actor, msg);
    return FAST_OK;
}

static void test_calls(void **state)
{
    (void)state;
    expect(run(NOTHING, thread_main, NULL), "was called on a thread of others");
    expect(run(NOTHING, inside_main, NULL), "was called inside its fast_compute()");
    expect(run(NOTHING, cost_main, NULL), "charged 0 operations and -1 bytes");
    expect(run(NOTHING, charge_main, NULL), "charged 1 operations and inf bytes");
    expect(run(NOTHING, wake_main, NULL), "woke 2, with which it shares no memory");
    expect(run(NOTHING, forged_main, NULL), "sent a message from");
}

static fast_err leak_message_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    fast_msg *msg = NULL;
    return fast_actor_id(actor) == 0 ? fast_msg_new(actor, 1, &msg) : FAST_OK;
}

static fast_err leak_buffer_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    fast_buffer *buffer = NULL;
    return fast_buffer_new(actor, 5000, &buffer);
}

/* Left in a mailbox: nobody's fault. */
static fast_err unread_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    fast_buffer *buffer = NULL;
    fast_msg *msg = NULL;
    FAST_TRY(fast_buffer_new(actor, 100, &buffer));
    memset(fast_buffer_data(buffer), 0, 100);
    FAST_TRY(fast_msg_new(actor, 1, &msg));
    fast_msg_add(msg, &buffer);
    FAST_TRY(fast_send(actor, fast_actor_id(actor), &msg));
    fast_msg *none = NULL;
    const fast_err err = fast_receive(actor, fast_actor_id(actor), 2, FAST_AT_ONCE, &none);
    return err == FAST_ETIMEDOUT ? FAST_OK : err;
}

static void test_leaks(void **state)
{
    (void)state;
    expect(run(NOTHING, leak_message_main, NULL), "1 messages were not given back");
    expect(run(NOTHING, leak_buffer_main, NULL), "2 buffers were not given back");
    assert_null(run(NOTHING, unread_main, NULL));
}

/* The option does the same as wrapping by hand; a program's own error is not hidden by it. */
static fast_err fail_main(fast_actor *actor, void *ctx)
{
    (void)actor, (void)ctx;
    return fast__fail(FAST_EIO, "no disk");
}

static void test_option(void **state)
{
    (void)state;
    const fast_role roles[] = { { "worker", 2, stream_main, NULL } };
    const fast_role leaks[] = { { "worker", 2, leak_message_main, NULL } };
    const fast_role fails[] = { { "worker", 2, fail_main, NULL } };
    const char *const options[] = { "check=yes", NULL };
    assert_int_equal(fast_actors_run(options, roles, 1, NULL), FAST_OK);
    assert_int_equal(fast_actors_run(NULL, leaks, 1, NULL), FAST_OK);
    assert_int_equal(fast_actors_run(options, leaks, 1, NULL), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "transport threads broke its contract"));
    assert_int_equal(fast_actors_run(options, fails, 1, NULL), FAST_EIO);
    assert_string_equal(fast_error_detail(), "worker 0: no disk");
}

static void test_no_memory(void **state)
{
    (void)state;
    const fast_role role = { "worker", 3, stream_main, NULL };
    fast_actors_config config;
    assert_int_equal(fast__actors_parse(NULL, &config), FAST_OK);
    config.check = true;
    int64_t n = 0;
    for (;; n++) {
        fast_world *world = NULL;
        fast__alloc_fail_after(n, true);
        const fast_err err = fast__world_open(&config, &role, 1, &world);
        fast__alloc_fail_after(-1, true);
        fast__world_close(world);
        if (!err)
            break;
        assert_int_equal(err, FAST_ENOMEM);
        assert_null(world);
    }
    assert_true(n > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing),   cmocka_unit_test(test_delivery),
        cmocka_unit_test(test_time),      cmocka_unit_test(test_canceled),
        cmocka_unit_test(test_touched),   cmocka_unit_test(test_calls),
        cmocka_unit_test(test_leaks),     cmocka_unit_test(test_option),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
