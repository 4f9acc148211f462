/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the simulator's clock is right to the nanosecond. Method: small programs on clusters whose
 * links and nodes are given by options, so that every time is known by arithmetic: single messages,
 * several at a contended end, charges on one core and on several, deadlines, sleeps, polls, wakes.
 */
#include "base/err.h"
#include "transport/transport.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { TAG = 7, MB = 1000000 };

/* Arguments and results of a program. */
typedef struct notes {
    int64_t count;     /* messages, or whatever is counted */
    int64_t size;      /* declared of each */
    int64_t times[16]; /* when what happened */
    fast_err err;      /* how a call failed */
} notes;

static fast_actors_result run(const char *cluster, int64_t actors, fast_actor_fn *main, void *ctx)
{
    char option[256];
    snprintf(option, sizeof option, "cluster=%s", cluster);
    const char *options[] = { "transport=sim", option, "timeout=10", NULL };
    const fast_role role = { "worker", actors, main, ctx };
    fast_actors_result result;
    const fast_err err = fast_actors_run(options, &role, 1, &result);
    if (err)
        fail_msg("%s", fast_error_detail());
    return result;
}

static void send_declared(fast_actor *actor, int64_t to, size_t size)
{
    fast_msg *msg = NULL;
    assert_int_equal(fast_msg_new(actor, TAG, &msg), FAST_OK);
    msg->declared = size;
    assert_int_equal(fast_send(actor, to, &msg), FAST_OK);
}

static int64_t receive_from(fast_actor *actor, int64_t from)
{
    fast_msg *msg = NULL;
    assert_int_equal(fast_receive(actor, from, TAG, FAST_SOON, &msg), FAST_OK);
    const int64_t sender = msg->from;
    fast_msg_free(msg);
    return sender;
}

/* Actor 1 sends `count` messages to actor 0, which notes when each is there. */
static fast_err stream(fast_actor *actor, void *ctx)
{
    notes *n = ctx;
    for (int64_t i = 0; i < n->count; i++) {
        if (fast_actor_id(actor) == 1)
            send_declared(actor, 0, (size_t)n->size);
        else if (fast_actor_id(actor) == 0) {
            receive_from(actor, 1);
            n->times[i] = fast_now(actor);
        }
    }
    return FAST_OK;
}

static void test_message_takes_latency_and_transfer(void **state)
{
    (void)state;
    notes n = { .count = 1, .size = MB };
    run("ideal", 2, stream, &n);
    assert_int_equal(n.times[0], 1000 + 1000000); /* 1 us and 1 MB at 1 GB/s */
    n.size = 0;
    run("ideal", 2, stream, &n);
    assert_int_equal(n.times[0], 1000);
    n.size = 1;
    run("ideal:latency=0,bandwidth=3", 2, stream, &n);
    assert_int_equal(n.times[0], 333333333);
}

static void test_contention_queues_at_the_sender(void **state)
{
    (void)state;
    notes n = { .count = 3, .size = MB };
    run("ideal", 2, stream, &n); /* without it all are there together */
    assert_int_equal(n.times[2], 1001000);
    run("ideal:contention=yes", 2, stream, &n);
    for (int i = 0; i < 3; i++)
        assert_int_equal(n.times[i], 1000 + (i + 1) * 1000000);
}

/* Actor 0 sends one message to each other, which notes when it is there. */
static fast_err scatter(fast_actor *actor, void *ctx)
{
    notes *n = ctx;
    const int64_t id = fast_actor_id(actor);
    for (int64_t to = 1; to < fast_actor_count(actor) && id == 0; to++)
        send_declared(actor, to, (size_t)n->size);
    if (id > 0) {
        receive_from(actor, 0);
        n->times[id] = fast_now(actor);
    }
    return FAST_OK;
}

static void test_contention_is_at_the_sender_too(void **state)
{
    (void)state;
    notes n = { .size = MB };
    run("ideal:contention=yes", 4, scatter, &n);
    for (int i = 1; i < 4; i++)
        assert_int_equal(n.times[i], 1000 + i * 1000000);
}

/* Everybody else sends one message to actor 0. */
static fast_err gather(fast_actor *actor, void *ctx)
{
    notes *n = ctx;
    if (fast_actor_id(actor) > 0) {
        send_declared(actor, 0, (size_t)n->size);
        return FAST_OK;
    }
    for (int64_t i = 1; i < fast_actor_count(actor); i++) {
        receive_from(actor, FAST_ANY);
        n->times[i] = fast_now(actor);
    }
    return FAST_OK;
}

static void test_contention_queues_at_the_receiver(void **state)
{
    (void)state;
    notes n = { .size = MB };
    run("ideal:contention=yes", 4, gather, &n);
    for (int i = 1; i < 4; i++)
        assert_int_equal(n.times[i], 1000 + i * 1000000);
    run("ideal", 4, gather, &n);
    for (int i = 1; i < 4; i++)
        assert_int_equal(n.times[i], 1001000);
}

static fast_err charge(fast_actor *actor, void *ctx)
{
    notes *n = ctx;
    const fast_err err = fast_charge(actor, 1e9, 0);
    n->times[fast_actor_id(actor)] = fast_now(actor);
    return err;
}

static void test_charges_share_cores(void **state)
{
    (void)state;
    notes n = { 0 };
    fast_actors_result result = run("laptop:cores=2,speed=1e9", 4, charge, &n);
    assert_int_equal(n.times[0], 1000000000);
    assert_int_equal(n.times[1], 1000000000);
    assert_int_equal(n.times[2], 2000000000);
    assert_int_equal(n.times[3], 2000000000);
    assert_int_equal(result.time_ns, 2000000000);
    run("laptop:cores=0,speed=1e9", 4, charge, &n);
    assert_int_equal(n.times[3], 1000000000);
    run("ideal", 4, charge, &n);
    assert_int_equal(n.times[3], 0);
    run("hetero", 4, charge, &n); /* up to 10% more, on nodes of 20, 10, 10 and 5 GFLOP/s */
    assert_in_range(n.times[0], 50000000, 55000000);
    assert_in_range(n.times[1], 100000000, 110000000);
    assert_in_range(n.times[3], 200000000, 220000000);
    assert_int_not_equal(n.times[1], n.times[2]);
}

static fast_err wait_in_vain(fast_actor *actor, void *ctx)
{
    notes *n = ctx;
    fast_msg *msg = NULL;
    const int64_t other = 1 - fast_actor_id(actor);
    if (fast_actor_id(actor) == 1)
        return fast_sleep_until(actor, 5000000000);
    n->err = fast_receive(actor, other, TAG, 123456789, &msg);
    n->times[0] = fast_now(actor);
    n->count = fast_receive(actor, other, TAG, FAST_AT_ONCE, &msg);
    n->times[1] = fast_now(actor);
    return fast_sleep_until(actor, 2000000000);
}

static void test_deadlines_are_met_to_the_nanosecond(void **state)
{
    (void)state;
    notes n = { 0 };
    const fast_actors_result result = run("ideal", 2, wait_in_vain, &n);
    assert_int_equal(n.err, FAST_ETIMEDOUT);
    assert_int_equal(n.times[0], 123456789);
    assert_int_equal(n.count, FAST_ETIMEDOUT);
    assert_int_equal(n.times[1], 123456789);
    assert_int_equal(result.time_ns, 5000000000);
}

/* A program that only polls still sees time pass. */
static fast_err spin(fast_actor *actor, void *ctx)
{
    notes *n = ctx;
    fast_msg *msg = NULL;
    if (fast_actor_id(actor) == 1) {
        assert_int_equal(fast_sleep_until(actor, n->size), FAST_OK);
        send_declared(actor, 0, 0);
        return FAST_OK;
    }
    while (fast_receive(actor, 1, TAG, FAST_AT_ONCE, &msg) == FAST_ETIMEDOUT)
        n->count++;
    fast_msg_free(msg);
    n->times[0] = fast_now(actor);
    return FAST_OK;
}

static void test_polling_does_not_stop_the_clock(void **state)
{
    (void)state;
    notes n = { .size = 10000 };
    run("ideal", 2, spin, &n);
    assert_in_range(n.times[0], 11000, 12000);
    /* The longer it polls the coarser, or a second would take millions of polls. */
    n = (notes){ .size = 1000000000 };
    run("ideal", 2, spin, &n);
    assert_in_range(n.times[0], 1000001000, 1020000000);
    assert_true(n.count < 200000);
}

/* Local actors share memory. */
static fast_err share(fast_actor *actor, void *ctx)
{
    notes *n = ctx;
    int64_t *shared = NULL;
    const int64_t id = fast_actor_id(actor);
    assert_int_equal(fast_actor_share(actor, 1, sizeof *shared * 2, &shared), FAST_OK);
    assert_int_equal(fast_actor_share(actor, 1, sizeof *shared, &shared), FAST_EINVAL);
    assert_int_equal(fast_actor_share(actor, 1, sizeof *shared * 2, &shared), FAST_OK);
    assert_true(fast_actor_is_local(actor, id));
    shared[id % 2] += 1;
    assert_int_equal(fast_sleep_until(actor, 1), FAST_OK);
    n->times[id] = shared[0] + 10 * shared[1] + 100 * fast_actor_is_local(actor, (id + 2) % 4);
    return FAST_OK;
}

static void test_nodes_share_memory(void **state)
{
    (void)state;
    notes n = { 0 };
    run("ideal:nodes=1", 4, share, &n);
    for (int i = 0; i < 4; i++)
        assert_int_equal(n.times[i], 122);
    run("ideal:nodes=2", 4, share, &n); /* 0 and 2, 1 and 3 */
    for (int i = 0; i < 4; i++)
        assert_int_equal(n.times[i], i % 2 ? 120 : 102);
    run("ideal", 4, share, &n);
    for (int i = 0; i < 4; i++)
        assert_int_equal(n.times[i], i % 2 ? 10 : 1);
}

static fast_err charge_for_ever(fast_actor *actor, void *ctx)
{
    (void)ctx;
    for (;;)
        FAST_TRY(fast_charge(actor, 1e300, 0));
}

static void test_time_does_not_overflow(void **state)
{
    (void)state;
    const char *options[] = { "transport=sim", NULL };
    const fast_role role = { "worker", 2, charge_for_ever, NULL };
    assert_int_equal(fast_actors_run(options, &role, 1, NULL), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "146 years"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_message_takes_latency_and_transfer),
        cmocka_unit_test(test_contention_queues_at_the_sender),
        cmocka_unit_test(test_contention_is_at_the_sender_too),
        cmocka_unit_test(test_contention_queues_at_the_receiver),
        cmocka_unit_test(test_charges_share_cores),
        cmocka_unit_test(test_deadlines_are_met_to_the_nanosecond),
        cmocka_unit_test(test_polling_does_not_stop_the_clock),
        cmocka_unit_test(test_nodes_share_memory),
        cmocka_unit_test(test_time_does_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
