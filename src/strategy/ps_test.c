/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The members of the family ps. Goal: the limits of its options are other members, to the bit; what
 * makes no sense is refused; compensation is its formula. Method: small runs on the simulator,
 * compared by their hashes; the formula on vectors.
 */
#include "base/memory.h"
#include "small_run.h"
#include "strategy/compensate.h"
#include "strategy/ps.h"
#include "transport/mailbox.h"
#include "transport/transport.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#ifdef FAST_SANITIZED
enum { BRIEF = 1 }; /* instrumented runs are slow, and each option is met once elsewhere */
#else
enum { BRIEF = 0 };
#endif

static fast_result train(const char *strategy, int workers, const char *more)
{
    const char *const list[] = { more, NULL };

    return test_small_run(strategy, workers, list);
}

static void same(const char *a, const char *b, int workers, const char *more)
{
    if (train(a, workers, more).params_hash != train(b, workers, more).params_hash)
        fail_msg("%s and %s differ with %d workers", a, b, workers);
}

static void differ(const char *a, const char *b, int workers, const char *more)
{
    if (train(a, workers, more).params_hash == train(b, workers, more).params_hash)
        fail_msg("%s and %s are the same with %d workers", a, b, workers);
}

static void limits_are_other_members(void **state)
{
    (void)state;
    same("ps:slack=0", "allreduce:algorithm=tree", 4, NULL);
    same("ps:slack=0,servers=3,backup=0", "allreduce:algorithm=tree", 4, NULL);
    same("ps:slack=1000", "ps", 4, NULL);
    same("ps:compensate=0", "ps", 4, NULL);
    same("ps:softsync=4", "ps", 4, NULL);
    same("ps:softsync=2", "ps:aggregate=2", 4, NULL);
    same("ps:send=mean", "ps:send=differences", 4, NULL); /* after one step they are the same */
    same("ps:filter=0", "ps", 4, NULL);
    same("ps:filter=1e-30", "ps", 1, NULL); /* everything is significant; zeros do not travel */
    same("ps:slack=0,filter=1e-30", "allreduce", 4, NULL);
    same("ps:filter=1e6", "ps:push=24", 1, NULL); /* all of it waits for the last push */
    same("ps:skip=1e-12,filter=1e-30", "ps", 1, NULL);
    same("ps:skip=0.9999,filter=1e6", "ps:push=24", 1, NULL);
    same("ps:reject=1000,staleness=none", "ps", 4, NULL);
    same("ps:slack=0,servers=0", "allreduce:algorithm=tree", 4, NULL); /* one for each worker */
}

/* Without a bound, a budget, momentum or an end of epochs the options are not there. */
static void bounds_that_bind_nothing(void **state)
{
    static const char *const hetero = "cluster=hetero";

    (void)state;
    same("ps:slack=1000000", "ps:fetch=1,push=1", 4, hetero); /* SSP(inf) is Downpour(1, 1) */
    same("ps:slack=1000000,servers=3", "ps:servers=3", 5, hetero);
    same("ps:value=1e30", "ps", 4, hetero);
    same("ps:value=1e30,weak=yes", "ps", 4, hetero);
    same("ps:value=1e30,servers=2", "ps:servers=2", 3, hetero);
    same("ps:budget=1000000000", "ps", 1, NULL);
    same("ps:slack=0,budget=1000000000", "allreduce:algorithm=tree", 4, NULL);
    same("ps:momentum=0", "ps", 4, hetero);
    same("ps:epochs=1", "ps", 4, hetero);
    same("ps:barrier=1000000000", "ps", 4, hetero);
    same("ps:slack=1000000,global=yes", "ps", 4, hetero); /* no worker reaches the barrier */
    same("ps:slack=0,global=yes", "ps:slack=0", 4, hetero);
    same("ps:warm=1", "ps", 1, NULL);
    same("ps:slack=0,eager=yes", "ps:slack=0", 4, hetero);
    same("ps:slack=0,stalest=yes", "ps:slack=0", 4, hetero);
}

/* Ranges of keys change nothing where rounds are whole; nor does one server with one. */
static void a_ring_moves_no_bit(void **state)
{
    (void)state;
    same("ps:slack=0,ring=4", "ps:slack=0", 4, "cluster=hetero");
    same("ps:slack=0,ring=3,servers=3,replicas=1", "allreduce:algorithm=tree", 4, NULL);
    same("ps:slack=0,ring=2,servers=2,proxies=2", "ps:slack=0", 4, NULL);
    same("ps:slack=0,ring=5,momentum=0.5", "ps:slack=0,momentum=0.5", 3, "transport=threads");
    same("ps:slack=0,ring=3,overlap=yes,priority=yes", "ps:slack=0", 3, NULL);
    same("ps:slack=0,ring=3,filter=0.5,cache=yes", "ps:slack=0,filter=0.5", 3, NULL);
    same("ps:ring=1", "ps", 4, "cluster=hetero"); /* one range */
    same("ps:ring=6,compensate=0.1", "ps:compensate=0.1", 1, NULL);
}

/* Tasks of ranges: sequential dependencies are rounds to the bit, a delay that is never reached is
 * eventual consistency, and one worker needs no dependencies. */
static void tasks_are_reads_and_writes(void **state)
{
    (void)state;
    same("ps:slack=0,tasks=yes", "allreduce:algorithm=tree", 4, "cluster=hetero");
    same("ps:slack=0,tasks=yes,ring=4,servers=2", "allreduce:algorithm=tree", 4, "cluster=hetero");
    same("ps:slack=0,tasks=yes,ring=3", "ps:slack=0", 3, "transport=threads");
    same("ps:slack=0,tasks=yes,ring=3,filter=0.5", "ps:slack=0,filter=0.5", 3, NULL);
    same("ps:slack=0,tasks=yes,servers=2", "ps:slack=0,servers=2", 3, "codec=int8");
    same("ps:slack=1000000,tasks=yes,ring=3", "ps:tasks=yes,ring=3", 4, "cluster=hetero");
    same("ps:slack=2,tasks=yes,groups=1", "ps:slack=2,tasks=yes", 4, "cluster=hetero");
    same("ps:tasks=yes,ring=5,servers=2", "ps", 1, NULL);
    same("ps:slack=0,tasks=yes,ring=2,replicas=1", "ps:slack=0", 3, "cluster=hetero");
    same("ps:slack=0,tasks=yes,ring=2,replicas=1,chain=yes", "ps:slack=0", 3, "cluster=hetero");
    same("ps:slack=3,tasks=yes,ring=5", "ps", 1, "transport=threads");
}

/* The slack holds inside a group: one group is all workers, a group of one waits for nobody, and a
 * slow worker delays its own group alone. */
static void groups_wait_for_their_own(void **state)
{
    static const char *const slow = "faults=slow 3 at 0s for 1000s by 1000";

    (void)state;
    same("ps:slack=2,groups=1", "ps:slack=2", 4, "cluster=hetero");
    same("ps:slack=1,groups=4", "ps", 4, "cluster=hetero");
    const double all = train("ps:slack=1", 4, slow).wait_s;
    const double grouped = train("ps:slack=1,groups=2", 4, slow).wait_s;
    const double alone = train("ps:slack=1,groups=4", 4, slow).wait_s;

    /* Of three workers that wait for the slow one, one is left. */
    assert_true(grouped - alone < 0.5 * (all - alone) && grouped - alone > 0.2 * (all - alone));
}

/* The trace, not only the model, is the same. */
static void unbounded_slack_is_downpour(void **state)
{
    const fast_result a = train("ps:slack=1000000", 5, "cluster=hetero"),
                      b = train("ps:fetch=1,push=1", 5, "cluster=hetero");

    (void)state;
    assert_true(a.params_hash == b.params_hash && a.virtual_time_s == b.virtual_time_s);
    assert_true(a.messages_sent == b.messages_sent && a.bytes_sent == b.bytes_sent);
    assert_true(a.staleness_mean == b.staleness_mean && a.staleness_max == b.staleness_max);
}

static void proxies_and_copies_change_nothing(void **state)
{
    (void)state;
    same("ps:slack=0,proxies=4", "ps:slack=0", 4, NULL); /* one worker each */
    same("ps:slack=0,proxies=3,servers=2", "ps:slack=0", 3, NULL);
    same("ps:slack=0,proxies=2", "ps:slack=0", 4, NULL); /* groups of 2: the canonical order */
    same("ps:slack=0,proxies=1", "ps:slack=0", 4, NULL);
    same("ps:proxies=1", "ps", 1, NULL);
    same("ps:slack=2,proxies=1", "ps:slack=0", 4, NULL); /* one writer is never late */
    same("ps:slack=0,replicas=1", "ps:slack=0", 4, "cluster=hetero");
    same("ps:slack=0,replicas=2,servers=2", "ps:slack=0", 3, "cluster=hetero");
    same("ps:replicas=1", "ps", 1, NULL);
    same("ps:slack=0,proxies=2,replicas=1", "ps:slack=0", 4, NULL);
}

/* Where memory is shared, writers change it by themselves, under locks. */
static void threads_do_the_same(void **state)
{
    static const char *const rounds[] = { "ps:slack=0,proxies=2", "ps:slack=0,replicas=1",
                                          "ps:slack=0,eager=yes,stalest=yes,servers=3" };
    static const char *const others[] = { "ps:proxies=2,slack=1,filter=0.1",
                                          "ps:replicas=1,servers=2",
                                          "ps:value=0.01",
                                          "ps:skip=0.5,l1=0.01,kkt=yes",
                                          "ps:epochs=0.5",
                                          "ps:slack=1,eager=yes,budget=400",
                                          "ps:momentum=-0.3,servers=0" };
    const uint64_t hash = train("ps:slack=0", 4, NULL).params_hash;
    static const char *const skips = "ps:slack=0,skip=0.5,l1=0.01,kkt=yes";

    (void)state;
    assert_true(train(skips, 4, NULL).params_hash ==
                train(skips, 4, "transport=threads").params_hash);
    for (size_t i = 0; i < sizeof rounds / sizeof rounds[0]; i++)
        assert_true(train(rounds[i], 4, "transport=threads").params_hash == hash);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_true(train(others[i], 4, "transport=threads").completeness > 0);
}

/* A server that crashes loses nothing where there is a copy: rounds come to the same bits. */
static void copies_survive_their_servers(void **state)
{
    static const char *const crashes[] = { "faults=crash 4 at 1500us", "faults=crash 5 at 1500us" };
    const uint64_t hash = train("ps:slack=0", 4, NULL).params_hash;

    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *const crash[] = { test_separate_servers(4, 4), crashes[i], NULL };
        const fast_result r = test_small_run("ps:slack=0,replicas=1", 4, crash);

        assert_true(r.params_hash == hash && r.steps == 24);
        assert_true(r.virtual_time_s > 0.4); /* the crash was seen: after `detection` */
        assert_true(test_small_run("ps:slack=0,replicas=1,servers=2", 4, crash).params_hash ==
                    hash);
        assert_true(
            test_small_run("ps:slack=0,replicas=1,servers=2,tasks=yes", 4, crash).params_hash ==
            hash);
        assert_int_equal(test_small_run("ps:slack=2,replicas=1,tasks=yes", 4, crash).steps, 24);
        assert_int_equal(test_small_run("ps:replicas=1", 4, crash).steps, 24);
        assert_int_equal(test_small_run("ps:slack=2,replicas=1", 4, crash).steps, 24);
    }
}

/* A server that comes back has lost the model: a worker that comes back after it must not take that
 * for a copy, or all would wait for whom nobody else knows. */
static void servers_that_come_back_are_left_alone(void **state)
{
    const char *const both[] = { test_separate_servers(4, 3),
                                 "faults=crash 4 at 1ms; restart 4 at 1100us; crash 2 at "
                                 "1500us; restart 2 at 1600us",
                                 NULL };
    static const char *const members[] = { "ps:slack=3,replicas=1", "ps:slack=3,replicas=2" };

    (void)state;
    for (int i = 0; i < 2; i++) {
        const fast_result r = test_small_run(members[i], 4, both);

        assert_true(r.virtual_time_s < 1 && r.completeness > 0.8);
        assert_true(r.steps >= 22);
    }
}

/* A small run that may fail. */
static fast_err try(const char *strategy, const char *faults, char *detail, size_t size)
{
    char text[128];
    const char *options[] = { text,
                              faults,
                              "workers=4",
                              "model=mlp:hidden=12",
                              "data=digits:train=160,test=32",
                              "engine=ref",
                              "plan=no",
                              "transport=sim",
                              "timeout=5",
                              "batch=4",
                              "steps=200",
                              "evaluate=end",
                              "optimizer=sgd",
                              NULL };
    fast_run *run = NULL;
    fast_err err;

    snprintf(text, sizeof text, "strategy=%s", strategy);
    assert_int_equal(fast_run_open(options, &run), FAST_OK);
    err = fast_run_train(run);
    snprintf(detail, size, "%s", fast_error_detail());
    fast_run_close(run);
    return err;
}

/* Who crashes does not hold asynchronous workers; rounds stop, and name it. */
static void crashes_are_survived_or_named(void **state)
{
    static const char *const goes[] = { "ps",
                                        "ps:slack=3",
                                        "ps:value=0.01",
                                        "ps:softsync=2",
                                        "ps:slack=3,eager=yes",
                                        "ps:slack=3,barrier=1",
                                        "ps:slack=3,priority=yes",
                                        "ps:proxies=2",
                                        "ps:slack=0,backup=1" };
    static const char *const stops[] = { "ps:slack=0" };
    static const char *const crash = "faults=crash 2 at 3ms";
    char detail[256];

    (void)state;
    for (size_t i = 0; i < sizeof goes / sizeof goes[0]; i += BRIEF ? 3 : 1)
        if (try(goes[i], crash, detail, sizeof detail) != FAST_OK)
            fail_msg("%s does not continue: %s", goes[i], detail);
    for (size_t i = 0; i < sizeof stops / sizeof stops[0]; i++) {
        if (try(stops[i], crash, detail, sizeof detail) == FAST_OK)
            fail_msg("%s continues", stops[i]);
        if (!strstr(detail, "worker 2"))
            fail_msg("%s does not name worker 2: %s", stops[i], detail);
    }
    /* A server that begins anew, beside a worker that does; a copy has the model. */
    assert_int_equal(try("ps:servers=2,replicas=1,fetch=4,push=2",
                         "faults=crash 0 at 3ms; restart 0 at 3100us", detail, sizeof detail),
                     FAST_OK);
    assert_int_equal(try("ps:servers=2,replicas=1,fetch=4,push=2,compensate=0.1",
                         "faults=crash 0 at 3ms; restart 0 at 3100us", detail, sizeof detail),
                     FAST_OK);
    /* Without a copy the model is gone. */
    assert_true(try("ps", "faults=crash 0 at 3ms", detail, sizeof detail) != FAST_OK);
}

static fast_err nothing(fast_actor *actor, void *ctx)
{
    (void)actor;
    (void)ctx;
    return FAST_OK;
}

/* Rounds end for want of a worker with the reason that this worker heard: one that another waited
 * for in vain may have crashed or not. */
static void lost_workers_are_said_as_heard(void **state)
{
    static const fast_role roles[] = { { "worker", 4, nothing, NULL } };
    static const struct {
        uint64_t tag;           /* of the news */
        int64_t from, words[2]; /* of the message */
        const char *said;       /* the error; NULL: none */
    } cases[] = {
        { FAST_TAG_SILENT, 1, { 2, 0 }, "worker 2 does not answer" },
        { FAST_TAG_DOWN, 1, { 2, 0 }, "worker 2 is down" },
        { FAST_TAG_ENDED, 2, { FAST_EPEER, 3 }, "worker 2 left: it had waited for worker 3" },
        { FAST_TAG_ENDED, 2, { FAST_OK, -1 }, NULL },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const ps_config c = { .slack = 0, .redundant = 1 };
        fast_actors_config config;
        fast_world *world = NULL;
        fast_msg *msg = NULL;

        assert_int_equal(fast__actors_parse(NULL, &config), FAST_OK);
        assert_int_equal(fast__world_open(&config, roles, 1, &world), FAST_OK);
        assert_int_equal(fast__pool_msg(world->pool, cases[i].tag, &msg), FAST_OK);
        msg->from = cases[i].from;
        msg->to = 0;
        memcpy(msg->words, cases[i].words, sizeof cases[i].words);
        fast__deliver(world->actors[0], msg);
        fast_trainer t = { .actor = world->actors[0], .workers = 4 };
        assert_int_equal(fast__ps_check_lost(&t, &c), cases[i].said ? FAST_EPEER : FAST_OK);
        if (cases[i].said)
            assert_string_equal(fast_error_detail(), cases[i].said);
        fast__world_close(world);
    }
}

/* Updates that are later than the limit change nothing. */
static void late_updates_are_rejected(void **state)
{
    static const char *const hetero = "cluster=hetero";
    const fast_result all = train("ps", 4, hetero), few = train("ps:reject=1", 4, hetero);

    (void)state;
    assert_true(all.staleness_max > 1 && few.staleness_max == 1);
    assert_true(few.completeness < all.completeness);
}

/* With one worker no update is late. */
static void nothing_is_late_alone(void **state)
{
    (void)state;
    same("ps:compensate=5", "ps", 1, NULL);
    same("ps:compensate=5,decay=0.9", "ps", 1, NULL);
    same("ps:staleness=inverse", "ps", 1, NULL);
    same("ps:staleness=workers", "ps", 1, NULL);
    same("ps", "allreduce", 1, NULL);
}

/* Gradients that a proximal step would undo need not be sent: the model is equal to the bit. */
static void kkt_changes_nothing_but_bytes(void **state)
{
    const fast_result all = train("ps:slack=0,l1=0.02,filter=1e-30", 4, NULL),
                      kkt = train("ps:slack=0,l1=0.02,kkt=yes", 4, NULL);

    (void)state;
    same("ps:l1=0.02,kkt=yes", "ps:l1=0.02", 1, NULL);
    same("ps:l1=0.02,kkt=yes,servers=3", "ps:l1=0.02,filter=1e-30", 1, NULL);
    if (!(kkt.bytes_sent < all.bytes_sent))
        fail_msg("%lld bytes with kkt, %lld without", (long long)kkt.bytes_sent,
                 (long long)all.bytes_sent);
}

/* Places that are sent once change nothing. */
static void cached_places_change_nothing(void **state)
{
    (void)state;
    same("ps:slack=0,filter=0.5,cache=yes", "ps:slack=0,filter=0.5", 4, NULL);
    same("ps:slack=0,budget=400,servers=3,replicas=1,cache=yes", "ps:slack=0,budget=400", 4, NULL);
    same("ps:slack=0,skip=0.9,cache=yes", "ps:slack=0,skip=0.9", 4, "transport=threads");
    /* Compressed as well, which loses nothing and is shorter than either alone. */
    same("ps:slack=0,cache=yes", "ps:slack=0", 4, "codec=significance:threshold=0.5+entropy");
    same("ps:slack=0,cache=yes,servers=3", "ps:slack=0,servers=3", 4,
         "codec=significance:threshold=0+entropy");
    const char *const both = "codec=kkt:l1=0.001+entropy", *const alone = "codec=kkt:l1=0.001";

    assert_true(train("ps:slack=2,l1=0.001,cache=yes", 3, both).bytes_sent <
                train("ps:slack=2,l1=0.001,cache=yes", 3, alone).bytes_sent);
}

static void options_matter(void **state)
{
    (void)state;
    if (BRIEF)
        skip();
    differ("ps:compensate=5", "ps", 4, NULL);
    differ("ps:compensate=5,decay=0.9", "ps:compensate=5", 4, NULL);
    differ("ps:fetch=4,push=4,send=mean", "ps:fetch=4,push=4,send=differences", 4, NULL);
    differ("ps:filter=0.1", "ps", 4, NULL);
    differ("ps:skip=0.5", "ps", 4, NULL);
    differ("ps:l1=0.01", "ps", 4, NULL);
    differ("ps:slack=0,l1=0.01", "ps:slack=0", 4, NULL);
    differ("ps:staleness=workers", "ps", 4, NULL);
    differ("ps:staleness=inverse", "ps", 4, NULL);
    differ("ps:value=0.001", "ps", 4, NULL);
    differ("ps:value=0.001", "ps:value=0.001,weak=yes", 4, NULL);
    differ("ps:budget=400", "ps", 4, NULL);
    differ("ps:momentum=0.5", "ps", 4, NULL);
    differ("ps:momentum=-0.5", "ps", 4, NULL);
    differ("ps:slack=0,momentum=0.5", "ps:slack=0", 4, NULL);
    differ("ps:proxies=2", "ps", 4, NULL);
    differ("ps:proxies=2,slack=0,filter=0.5", "ps:proxies=2,slack=0", 4, NULL);
    differ("ps:slack=3,eager=yes", "ps:slack=3", 4, NULL);
}

/* Bounds limit the staleness that they name. */
static void bounds_bind(void **state)
{
    static const char *const slow = "faults=slow 3 at 0s by 100";
    const fast_result all = train("ps", 4, slow), part = train("ps:epochs=0.75", 4, slow);
    const fast_result free = train("ps", 4, "cluster=hetero"),
                      bound = train("ps:value=0.001,weak=yes", 4, "cluster=hetero");

    (void)state;
    /* The slow worker leaves out the rest of its epochs: 10 steps each. */
    assert_true(all.steps == 24 && part.steps < 24);
    assert_true(part.virtual_time_s < 0.7 * all.virtual_time_s);
    /* Who waits until its update is seen is less late. */
    assert_true(bound.staleness_mean < free.staleness_mean);
    /* Gradients that are held back are not sent. */
    assert_true(train("ps:budget=400", 4, NULL).bytes_sent < free.bytes_sent / 10 * 7);
    assert_true(train("ps:filter=0.5", 4, NULL).bytes_sent < free.bytes_sent / 10 * 9);
    assert_true(train("ps:skip=0.9", 4, NULL).bytes_sent < free.bytes_sent / 10 * 8);
    assert_true(free.completeness > 0.5 && free.completeness <= 1);
    assert_true(train("ps:slack=0", 4, NULL).completeness == 1);
    assert_true(train("ps:slack=0,proxies=2", 4, NULL).completeness == 1);
}

/* A warm start: while worker 0 is alone, slow as it may be, nothing is late. If it crashes the
 * others begin. */
static void the_first_goes_ahead(void **state)
{
    static const char *const slow = "faults=slow 0 at 0s by 100";
    char detail[256];

    (void)state;
    assert_true(train("ps", 4, slow).staleness_max > 3);
    assert_true(train("ps:warm=2.4", 4, slow).staleness_max <= 3); /* epochs of 10 steps */
    assert_true(train("ps:warm=2.4", 4, slow).staleness[0] >= 24);
    assert_true(train("ps:warm=0.8", 4, NULL).virtual_time_s > train("ps", 4, NULL).virtual_time_s);
    assert_true(train("ps:warm=100,push=2,fetch=2", 4, slow).staleness_max <= 3);
    assert_int_equal(train("ps:warm=0.8", 4, "transport=threads").steps, 24);
    assert_int_equal(try("ps:warm=2.4,replicas=1", "faults=crash 0 at 1ms", detail, sizeof detail),
                     FAST_OK);
}

/* Over a WAN: who reads what is announced, not what was there before, is less late. */
static void barriers_hold_reads(void **state)
{
    static const char *const wan = "cluster=wan";
    const fast_result free = train("ps:proxies=2,filter=0.01", 4, wan),
                      held = train("ps:proxies=2,filter=0.01,barrier=1", 4, wan);

    (void)state;
    if (!(held.staleness_mean < free.staleness_mean))
        fail_msg("staleness %g with the barrier, %g without", held.staleness_mean,
                 free.staleness_mean);
    assert_true(held.steps == 24);
    (void)train("ps:slack=2,servers=2,replicas=1,barrier=1", 4, wan);
    (void)train("ps:barrier=1,budget=400,value=0.01,weak=yes", 4, "cluster=hetero");
}

/* Gradients that the codec holds back move no weight, so that a bound on values is not met; a bound
 * that is met costs two more reads of the model. The last step writes all, and they count. */
static void values_that_wait_are_not_bounded(void **state)
{
    const fast_result met = train("ps:value=0.0001,weak=yes", 4, NULL),
                      held = train("ps:value=0.0001,weak=yes,filter=1e6", 4, NULL),
                      free = train("ps:value=1000,weak=yes,filter=1e6", 4, NULL);

    (void)state;
    assert_true(held.bytes_sent < met.bytes_sent / 2);
    assert_true(held.bytes_sent > free.bytes_sent);
}

/* The workers of a proxy use gradients that it holds back: with plain SGD at a constant learning
 * rate they train as if nothing waited, up to rounding; workers without a proxy do not. */
static void groups_use_gradients_that_wait(void **state)
{
    static const char *const rate = "schedule=constant";
    const fast_result plain = train("ps:proxies=1", 1, rate),
                      used = train("ps:proxies=1,filter=1e6", 1, rate),
                      alone = train("ps:filter=1e6", 1, rate);

    (void)state;
    assert_true(fabs(used.test_loss - plain.test_loss) < 1e-4);
    assert_true(fabs(alone.test_loss - plain.test_loss) > 1e-3);
}

/* Selections of differences and of gradients that are sent early, which were refused once. */
static void codecs_select_any_write(void **state)
{
    (void)state;
    same("ps:send=differences,slack=2,fetch=2,push=2,filter=1e-30",
         "ps:send=differences,slack=2,fetch=2,push=2", 1, NULL);
    same("ps:slack=0,overlap=yes,filter=1e-30", "ps:slack=0", 4, NULL);
    differ("ps:send=mean,fetch=2,push=2,budget=400", "ps:send=mean,fetch=2,push=2", 4, NULL);
    differ("ps:slack=0,overlap=yes,skip=0.5", "ps:slack=0", 4, NULL);
    (void)train("ps:factors=auto,filter=0.1", 4, NULL);
    same("ps:cache=yes", "ps", 1, NULL); /* nothing is selected, nothing cached */
}

/* TicTac's orders change no bits, but the time where a network has branches. On a chain TIC is the
 * order of the layers: its messages are those, and one for each remote worker. */
static void the_graph_may_order_reads(void)
{
    static const char *const chain[] = { "model=mlp:hidden=200x200x200", "cluster=ethernet-1g",
                                         "steps=6", NULL };
    static const char *const branches[] = { "model=resnet8:width=16", "cluster=ethernet-1g",
                                            "steps=6", NULL };
    static const char *const orders[] = { "ps:slack=0,priority=tic", "ps:slack=0,priority=tac" };
    const fast_result layers = test_small_run("ps:slack=0,priority=yes", 3, chain);
    const fast_result plain = test_small_run("ps:slack=0", 3, branches);
    const fast_result by_layer = test_small_run("ps:slack=0,priority=yes", 3, branches);

    for (int i = 0; i < 2; i++) {
        const fast_result a = test_small_run(orders[i], 3, chain);
        const fast_result b = test_small_run(orders[i], 3, branches);

        assert_true(a.params_hash == layers.params_hash && b.params_hash == plain.params_hash);
        assert_true(b.time_s < plain.time_s && b.time_s != by_layer.time_s);
        if (i == 0)
            assert_in_range(a.messages_sent, layers.messages_sent + 1, layers.messages_sent + 3);
    }
}

/* The next step begins with its first layers while the last are on their way: no other bits with
 * rounds, and sooner. */
static void layers_are_read_in_order(void **state)
{
    static const char *const how[] = { "", ",servers=3", ",servers=0", ",overlap=yes,servers=2" };
    static const char *const state_too[] = { "model=resnet8:width=4", "steps=3", NULL };
    char plain[64], ordered[64];

    (void)state;
    for (size_t i = 0; i < sizeof how / sizeof how[0]; i += BRIEF ? 3 : 1) {
        const char *const far[] = { "model=mlp:hidden=200x200x200",
                                    "engine=auto",
                                    "steps=8",
                                    "cluster=ethernet-1g",
                                    "batch=16",
                                    "data=digits:train=640,test=32",
                                    NULL };
        const char *const near[] = { "model=mlp:hidden=200x200x200",
                                     "engine=auto",
                                     "steps=8",
                                     "transport=threads",
                                     "batch=16",
                                     "data=digits:train=640,test=32",
                                     NULL };

        snprintf(plain, sizeof plain, "ps:slack=0%s", how[i]);
        snprintf(ordered, sizeof ordered, "ps:slack=0,priority=yes%s", how[i]);
        const fast_result a = test_small_run(plain, 3, far), b = test_small_run(ordered, 3, far);

        if (a.params_hash != b.params_hash)
            fail_msg("%s: other bits than %s", ordered, plain);
        if (test_small_run(ordered, 3, near).params_hash != a.params_hash)
            fail_msg("%s: other bits on threads", ordered);
        if (i == 0 && b.time_s >= a.time_s)
            fail_msg("%s: %g s, %s: %g s", plain, a.time_s, ordered, b.time_s);
    }
    assert_true(test_small_run("ps:slack=0,priority=yes", 3, state_too).params_hash ==
                test_small_run("ps:slack=0", 3, state_too).params_hash);
    the_graph_may_order_reads();
    same("ps:priority=yes", "ps", 1, "evaluate=5");
    (void)train("ps:priority=yes,filter=0.1,fetch=2,push=2", 4, "cluster=hetero");
    (void)train("ps:priority=yes,slack=2,send=mean", 4, "cluster=hetero");
}

/* The momentum of the servers is the rule's, to rounding, where nobody is late. */
static void momentum_is_the_rules(void **state)
{
    static const char *const plain[] = { "schedule=constant", NULL };
    static const char *const rule[] = { "schedule=constant", "optimizer=momentum:momentum=0.5",
                                        NULL };
    const double servers = test_small_run("ps:momentum=0.5", 1, plain).test_loss;

    (void)state;
    assert_true(fabs(test_small_run("ps", 1, rule).test_loss - servers) < 1e-4);
    assert_true(fabs(test_small_run("ps", 1, plain).test_loss - servers) > 1e-3);
}

/* A straggler does not hold the others when a backup worker makes up for it. */
static void backup_workers_outrun_stragglers(void **state)
{
    static const char *const slow = "faults=slow 3 at 0s by 50";
    const fast_result without = train("ps:slack=0", 4, slow),
                      with = train("ps:slack=0,backup=1", 4, slow);

    (void)state;
    assert_true(with.params_hash != without.params_hash);
    assert_int_equal(without.steps, 24);
    assert_true(with.steps < 24); /* the slow one missed most rounds */
    assert_true(with.staleness_max == 0 &&
                without.staleness_max == 0); /* late gradients are dropped */
    assert_true(with.virtual_time_s < 0.5 * without.virtual_time_s);
    (void)train("ps:slack=0,backup=3", 4, slow);
    (void)train("ps:slack=0,backup=2,servers=0", 5, slow);
    (void)train("ps:slack=0,backup=1,servers=3", 5, "cluster=hetero");
}

/* Slices are read as they are: known before anything runs. */
static void slices_are_not_encoded(void **state)
{
    static const char *const options[] = { "strategy=ps:slack=0,priority=yes",
                                           "workers=2",
                                           "model=mlp:hidden=4",
                                           "data=digits:train=64,test=16",
                                           "engine=ref",
                                           "batch=8",
                                           "codec_down=fp16",
                                           NULL };
    fast_run *run = NULL;

    (void)state;
    assert_int_equal(fast_run_open(options, &run), FAST_EINVAL);
    if (!strstr(fast_error_detail(), "read the weights in slices"))
        fail_msg("%s", fast_error_detail());
}

static void nonsense_is_refused(void **state)
{
    static const char *const bad[] = {
        "ps:backup=1",
        "ps:slack=0,backup=4",
        "ps:slack=0,softsync=2",
        "ps:slack=0,send=mean",
        "ps:slack=0,compensate=1",
        "ps:softsync=2,aggregate=2",
        "ps:send=mean,push=2",
        "ps:send=mean,compensate=1",
        "ps:decay=0.9",
        "ps:slack=0,aggregate=2",
        "ps:slack=0,push=2,fetch=2",
        "ps:slack=1,push=3",
        "ps:eager=yes",
        "ps:global=yes",
        "ps:slack=1,warm=2",
        "ps:value=1,warm=2",
        "ps:weak=yes",
        "ps:value=1,momentum=0.5",
        "ps:value=1,l1=0.5",
        "ps:value=1,push=2",
        "ps:value=1,weak=yes,push=2,proxies=2",
        "ps:value=1,proxies=2,rows=yes",
        "ps:proxies=2,warm=2",
        "ps:slack=1,value=1",
        "ps:slack=0,value=1",
        "ps:slack=0,epochs=0.5",
        "ps:send=mean,epochs=0.5",
        "ps:send=mean,l1=0.5",
        "ps:kkt=yes",
        "ps:priority=yes,replicas=1",
        "ps:priority=tic",
        "ps:priority=tac,slack=2",
        "ps:priority=yes,slack=1,eager=yes",
        "ps:slack=0,barrier=1",
        "ps:slack=2,eager=yes,barrier=1",
        "ps:barrier=1,send=mean",
        "ps:proxies=5",
        "ps:proxies=2,send=mean",
        "ps:replicas=1,value=1",
        "ps:slack=1,eager=yes,replicas=1",
        "ps:slack=0,overlap=yes,proxies=2",
        "ps:overlap=yes,push=2",
        "ps:overlap=yes,value=1",
        "ps:overlap=yes,factors=yes",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[128];
        const char *options[] = { text,
                                  "workers=4",
                                  "model=mlp:hidden=4",
                                  "transport=sim",
                                  "data=digits:train=64,test=16",
                                  "engine=ref",
                                  "batch=8",
                                  NULL };
        fast_run *run = NULL;

        snprintf(text, sizeof text, "strategy=%s", bad[i]);
        if (fast_run_open(options, &run) != FAST_EINVAL)
            fail_msg("%s is not refused", bad[i]);
        if (strncmp(fast_error_detail(), "ps: ", 4) != 0) /* and for its own sake */
            fail_msg("%s: %s", bad[i], fast_error_detail());
        assert_null(run);
    }
}

/* The formula, by hand: models 1, 2, 4 of one number, gradients of older ones. */
static void compensation_is_its_formula(void **state)
{
    const fast_compensation constant = { 0.5, 0 }, adaptive = { 0.5, 0.75 };
    const float w[4] = { 1, 2, 4, 8 };
    const float g = 3;
    fast_past past;
    float square = 0;

    (void)state;
    assert_int_equal(fast__past_init(&constant, &fast__host, 3, 1, &past), FAST_OK);
    assert_true(*fast__past_compensate(&past, &constant, 0, 0, 1, &g, &w[0]) == 3);
    assert_true(*fast__past_compensate(&past, &constant, 0, 1, 1, &g, &w[1]) == 3 + 0.5f * 9 * 1);
    assert_true(*fast__past_compensate(&past, &constant, 0, 2, 1, &g, &w[2]) == 3 + 0.5f * 9 * 3);
    /* Version 0 is no longer stored: the oldest is version 1. */
    assert_true(*fast__past_compensate(&past, &constant, 0, 3, 1, &g, &w[3]) == 3 + 0.5f * 9 * 6);
    assert_true(*fast__past_compensate(&past, &constant, 3, 3, 1, &g, &w[3]) == 3);
    fast__past_fini(&past);

    assert_int_equal(fast__past_init(&adaptive, &fast__host, 3, 1, &past), FAST_OK);
    for (int i = 0; i < 3; i++) {
        const float *out = fast__past_compensate(&past, &adaptive, 0, i, 1, &g, &w[i]);

        square = 0.75f * square + 0.25f * 9;
        assert_true(fabsf(*out - (3 + 0.5f / sqrtf(square) * 9 * (w[i] - 1))) < 1e-4f);
    }
    fast__past_fini(&past);
}

static void memory_may_run_out(void **state)
{
    const fast_compensation how = { 1, 0.5 };
    fast_err err = FAST_ENOMEM;

    (void)state;
    for (int64_t n = 0; err == FAST_ENOMEM; n++) {
        fast_past past = { .models = NULL };

        fast__alloc_fail_after(n, false);
        err = fast__past_init(&how, &fast__host, 4, 8, &past);
        fast__alloc_fail_after(-1, false);
        assert_true(n < 32 && (err == FAST_OK) == (past.models != NULL));
        fast__past_fini(&past);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_are_other_members),
        cmocka_unit_test(bounds_that_bind_nothing),
        cmocka_unit_test(a_ring_moves_no_bit),
        cmocka_unit_test(tasks_are_reads_and_writes),
        cmocka_unit_test(groups_wait_for_their_own),
        cmocka_unit_test(unbounded_slack_is_downpour),
        cmocka_unit_test(proxies_and_copies_change_nothing),
        cmocka_unit_test(threads_do_the_same),
        cmocka_unit_test(copies_survive_their_servers),
        cmocka_unit_test(servers_that_come_back_are_left_alone),
        cmocka_unit_test(crashes_are_survived_or_named),
        cmocka_unit_test(lost_workers_are_said_as_heard),
        cmocka_unit_test(bounds_bind),
        cmocka_unit_test(the_first_goes_ahead),
        cmocka_unit_test(barriers_hold_reads),
        cmocka_unit_test(layers_are_read_in_order),
        cmocka_unit_test(momentum_is_the_rules),
        cmocka_unit_test(late_updates_are_rejected),
        cmocka_unit_test(nothing_is_late_alone),
        cmocka_unit_test(kkt_changes_nothing_but_bytes),
        cmocka_unit_test(values_that_wait_are_not_bounded),
        cmocka_unit_test(groups_use_gradients_that_wait),
        cmocka_unit_test(codecs_select_any_write),
        cmocka_unit_test(cached_places_change_nothing),
        cmocka_unit_test(options_matter),
        cmocka_unit_test(backup_workers_outrun_stragglers),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(slices_are_not_encoded),
        cmocka_unit_test(compensation_is_its_formula),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
