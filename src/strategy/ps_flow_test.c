/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flows of gradients. Goal: they enter a receiver one at a time, by their priorities; a sender that
 * crashes in its slot holds nobody up; no flow exceeds its rate; and none of it changes the model.
 * Method: actors that send one at a time, in the simulator and on threads, and small runs.
 */
#include "small_run.h"
#include "strategy/ps_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { SENDERS = 4, SLOTS = 3 };

typedef struct slots {
    const int64_t *priorities;      /* of the senders */
    _Atomic int64_t inside;         /* senders whose slot it is */
    _Atomic int64_t count;          /* slots so far */
    int64_t order[SENDERS * SLOTS]; /* senders in the order of their slots */
    _Atomic int64_t ended;          /* senders that ended */
    _Atomic int64_t crowded;        /* times that two were inside */
} slots;

/* Send three times, for a millisecond each; sender 3 is there first. */
static fast_err take_slots(fast_actor *actor, void *ctx)
{
    slots *s = ctx;
    const int64_t me = fast_actor_id(actor);
    ps_flow flow = { .actor = actor, .to = SENDERS, .ordered = true };
    fast_err err = FAST_OK;

    if (me < 3)
        err = fast_sleep_until(actor, 100000);
    for (int i = 0; i < SLOTS && !err; i++) {
        err = fast__ps_flow_begin(&flow, s->priorities[me]);
        if (err)
            break;
        s->crowded += s->inside++ > 0;
        s->order[s->count++] = me;
        err = fast_sleep_until(actor, fast_now(actor) + 1000000);
        s->inside--;
        if (!err)
            err = fast__ps_flow_end(&flow);
    }
    s->ended += !err;
    return err;
}

/* Grant slots until all senders are gone. */
static fast_err grant_slots(fast_actor *actor, void *ctx)
{
    ps_flows *flows = NULL;
    fast_err err = fast__ps_flows_open(actor, SENDERS, &flows);

    (void)ctx;
    for (int64_t i = 0; i < SENDERS && !err; i++)
        while (!err && !fast_member_is_down(actor, i))
            err = fast_sleep_until(actor, fast_now(actor) + 500000);
    fast__ps_flows_close(flows);
    return err;
}

static fast_err run(slots *s, const char *transport, const char *faults)
{
    const char *const options[] = { transport, "timeout=5", faults, NULL };
    const fast_role roles[] = { { "worker", SENDERS, take_slots, s },
                                { "server", 1, grant_slots, NULL } };

    return fast_actors_run(options, roles, 2, NULL);
}

/* Sender 3 starts alone; then sender 1 is the most urgent, then 2, 3 and 0. A sender asks
 * again when its last flow has ended, so that the next in line comes between. */
static void urgent_flows_are_first(void **state)
{
    static const int64_t priorities[SENDERS] = { 9, 1, 2, 3 };
    static const int64_t expected[SENDERS * SLOTS] = { 3, 1, 2, 1, 2, 1, 2, 3, 0, 3, 0, 0 };
    slots s = { .priorities = priorities };

    (void)state;
    assert_int_equal(run(&s, "transport=sim", NULL), FAST_OK);
    assert_int_equal(s.crowded, 0);
    for (int i = 0; i < SENDERS * SLOTS; i++)
        if (s.order[i] != expected[i])
            fail_msg("slot %d is of sender %d, not %d", i, (int)s.order[i], (int)expected[i]);
    s = (slots){ .priorities = priorities };
    assert_int_equal(run(&s, "transport=threads", NULL), FAST_OK);
    assert_true(s.crowded == 0 && s.count == SENDERS * SLOTS);
}

/* Sender 1 crashes in its first slot: the others are not held up for long. */
static void crashed_senders_are_passed_over(void **state)
{
    static const int64_t priorities[SENDERS] = { 9, 1, 2, 3 };
    const char *cluster = test_separate_servers(SENDERS, 1);
    slots s = { .priorities = priorities };
    const char *const options[] = { "transport=sim", "timeout=5", cluster,
                                    "faults=crash 1 at 1500us", NULL };
    const fast_role roles[] = { { "worker", SENDERS, take_slots, &s },
                                { "server", 1, grant_slots, NULL } };
    const fast_err err = fast_actors_run(options, roles, 2, NULL);

    (void)state;
    (void)err; /* that of the sender that crashed */
    assert_int_equal(s.ended, SENDERS - 1);
    assert_int_equal(s.count, 1 + (SENDERS - 1) * SLOTS);
}

static fast_result train(const char *strategy, const char *more)
{
    const char *const list[] = { more, NULL };

    return test_small_run(strategy, 8, list);
}

/* Rounds have the same bits in any order of their gradients; a rate takes its time. */
static void order_and_rate_change_nothing_but_time(void **state)
{
    static const char *const members[] = { "ps:slack=0,flows=rank",
                                           "ps:slack=0,flows=behind,servers=2",
                                           "ps:slack=0,proxies=1,levels=3,flows=rank",
                                           "ps:slack=0,proxies=2,levels=2,flows=behind,rate=1e8" };
    const fast_result plain = train("ps:slack=0", NULL), slow = train("ps:slack=0,rate=1e7", NULL);

    (void)state;
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        if (train(members[i], NULL).params_hash != plain.params_hash ||
            train(members[i], "transport=threads").params_hash != plain.params_hash)
            fail_msg("%s: other bits", members[i]);
    }
    /* 9550 floats at 10 MB/s: 3.8 ms for each of 23 gradients before the last. */
    assert_true(slow.params_hash == plain.params_hash);
    if (!(slow.virtual_time_s > 23 * 0.0038 && slow.virtual_time_s < 0.1))
        fail_msg("%g s, at 10 MB/s", slow.virtual_time_s);
    assert_true(plain.virtual_time_s < 0.03);
    /* Workers that crash in their slot, or while they wait. */
    assert_true(train("ps:proxies=2,flows=behind", "faults=crash 5 at 1500us").steps >= 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urgent_flows_are_first),
        cmocka_unit_test(crashed_senders_are_passed_over),
        cmocka_unit_test(order_and_rate_change_nothing_but_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
