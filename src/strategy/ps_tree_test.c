/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trees of proxies, and proxies as caches. Goal: a tree of any depth computes the rounds of `ps`
 * without proxies, to the bit where groups are equal and to rounding where they are not; a cache
 * that is written back loses no gradient and sends less. Method: small runs, compared by their
 * hashes, losses and contributions; the shape of trees by hand.
 */
#include "small_run.h"
#include "strategy/ps_tree.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static fast_result train(const char *strategy, int workers, const char *more)
{
    const char *const list[] = { more, NULL };

    return test_small_run(strategy, workers, list);
}

/* Groups of equal size sum in the canonical order, whatever the depth. */
static void depth_changes_nothing(void **state)
{
    static const char *const trees[] = {
        "ps:slack=0,proxies=1,levels=2",
        "ps:slack=0,proxies=1,levels=4",
        "ps:slack=0,proxies=2,levels=3",
        "ps:slack=0,proxies=2,levels=2,fanin=4",
        "ps:slack=0,proxies=4,levels=5,fanin=1",
        "ps:slack=0,proxies=1,levels=3,servers=2,replicas=1",
    };
    const uint64_t hash = train("ps:slack=0", 8, NULL).params_hash;

    (void)state;
    for (size_t i = 0; i < sizeof trees / sizeof trees[0]; i++) {
        const fast_result r = train(trees[i], 8, i % 2 ? "transport=threads" : NULL);

        if (r.params_hash != hash || r.completeness != 1)
            fail_msg("%s: other bits, or %g of the gradients", trees[i], r.completeness);
    }
}

/* In unequal groups each worker's gradient has the same weight. */
static void unequal_groups_weigh_workers(void **state)
{
    static const char *const trees[] = { "ps:slack=0,proxies=2", "ps:slack=0,proxies=3",
                                         "ps:slack=0,proxies=2,levels=2",
                                         "ps:slack=0,proxies=1,levels=3,fanin=3" };
    static const char *const batch_norm[] = { "model=resnet8:width=4", "steps=3", NULL };
    const double loss = train("ps:slack=0", 5, NULL).test_loss;
    const double resnet = test_small_run("ps:slack=0", 4, batch_norm).test_loss;

    (void)state;
    for (size_t i = 0; i < sizeof trees / sizeof trees[0]; i++) {
        const double other = train(trees[i], 5, NULL).test_loss;

        if (!(fabs(other - loss) < 1e-5))
            fail_msg("%s: loss %.9g, not %.9g", trees[i], other, loss);
    }
    /* The state of batch norm is a mean over all workers at every level. */
    const double tree = test_small_run("ps:slack=0,proxies=1,levels=2", 4, batch_norm).test_loss;
    if (!(fabs(tree - resnet) < 1e-4))
        fail_msg("loss %.9g with state, not %.9g", tree, resnet);
}

/* One cache with plain SGD at a constant learning rate: the model is that of all gradients, to
 * rounding, though the servers get a fifth of the messages; the last rounds are written back. */
static void caches_write_back_everything(void **state)
{
    static const char *const rate = "schedule=constant";
    const fast_result plain = train("ps:slack=0", 4, rate),
                      through = train("ps:proxies=1", 4, rate);
    static const char *const caches[] = { "ps:proxies=1,fetch=5,push=5", "ps:proxies=1,push=5",
                                          "ps:proxies=1,fetch=7,push=3",
                                          "ps:proxies=1,levels=3,fanin=1,fetch=5,push=5",
                                          "ps:proxies=1,slack=6,fetch=5,push=5" };

    (void)state;
    for (size_t i = 0; i < sizeof caches / sizeof caches[0]; i++) {
        const fast_result r = train(caches[i], 4, rate);

        if (!(fabs(r.test_loss - plain.test_loss) < 1e-4) || r.completeness != 1)
            fail_msg("%s: loss %g, not %g; %g of the gradients", caches[i], r.test_loss,
                     plain.test_loss, r.completeness);
    }
    assert_true(train(caches[0], 4, rate).bytes_sent < through.bytes_sent);
    assert_true(train("ps:proxies=2,fetch=1,push=1", 4, NULL).params_hash ==
                train("ps:proxies=2", 4, NULL).params_hash);
    const char *const threads[] = { rate, "transport=threads", NULL };
    const fast_result shared =
        test_small_run("ps:proxies=1,levels=2,fanin=1,fetch=4,push=4", 4, threads);
    assert_true(shared.completeness == 1 && fabs(shared.test_loss - plain.test_loss) < 1e-4);
}

/* The bound is a bound: gradients of a cache are late by what it holds back, and a slack that is
 * smaller is refused. */
static void bounds_hold_back_no_more(void **state)
{
    const fast_result often = train("ps:proxies=2", 4, NULL),
                      seldom = train("ps:proxies=2,fetch=8,push=8", 4, NULL);
    static const char *const options[] = { "strategy=ps:slack=2,proxies=2,fetch=4,push=4",
                                           "workers=4", "data=digits:train=64,test=16", "batch=8",
                                           NULL };
    fast_run *run = NULL;

    (void)state;
    assert_true(seldom.params_hash != often.params_hash);
    /* Writes of 24 steps: 24 and 3 for each proxy, all of which are counted at the servers. */
    assert_true(often.staleness[0] + often.staleness[1] >= 24);
    assert_int_equal(seldom.steps, 24);
    assert_int_equal(fast_run_open(options, &run), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "push=4 holds gradients back"));
}

/* Workers that crash below two levels of proxies hold nobody up, not even where a proxy has no
 * worker left. */
static void trees_outlive_workers(void **state)
{
    const char *const one[] = { test_separate_servers(8, 8), "faults=crash 2 at 1500us", NULL };
    const char *const all[] = { one[0], "faults=crash 2 at 1ms; crash 3 at 1200us", NULL };
    static const char *const trees[] = { "ps:proxies=1,levels=3", "ps:proxies=2,levels=2",
                                         "ps:proxies=2,levels=2,fetch=3,push=3" };

    (void)state;
    for (size_t i = 0; i < sizeof trees / sizeof trees[0]; i++) {
        const fast_result r = test_small_run(trees[i], 8, one),
                          s = test_small_run(trees[i], 8, all);

        /* Steps are the mean of all workers: seven or six take 24, the others fewer. */
        if (r.steps < 21 || s.steps < 18 || r.steps == 24 || r.virtual_time_s < 0.4)
            fail_msg("%s: %lld, %lld steps", trees[i], (long long)r.steps, (long long)s.steps);
    }
}

static void shapes_are_refused(void **state)
{
    static const char *const bad[] = { "strategy=ps:levels=2", "strategy=ps:proxies=2,fanin=3",
                                       "strategy=ps:proxies=2,levels=2,fetch=3" };

    (void)state;
    test_refused(bad, sizeof bad / sizeof bad[0], "ps: ");
}

/* By hand: 2 proxies for 5 workers, with 4 below them. */
static void nodes_cover_the_workers(void **state)
{
    const ps_config c = { .servers = 1, .proxies = 2, .levels = 2, .fanin = 2 };
    const int64_t workers[] = { 0, 1, 2, 3, 4 }, servers[] = { 5, 6, 7, 8, 9, 10, 11 };
    const fast_trainer t = {
        .workers = 5, .servers = 7, .worker_ids = workers, .server_ids = servers
    };
    const ps_node first = fast__ps_node(&c, &t, 1, 0), second = fast__ps_node(&c, &t, 1, 1);
    int64_t covered = 0;

    (void)state;
    assert_int_equal(fast__ps_proxies(&c, 5), 6);
    assert_true(first.id == 6 && first.size == 2 && first.members[0] == 8 && first.workers == 2);
    assert_true(second.id == 7 && second.members[0] == 10 && second.workers == 3);
    assert_true(first.weight == 0.8 && second.weight == 1.2);
    for (int64_t i = 0; i < 4; i++) {
        const ps_node n = fast__ps_node(&c, &t, 2, i);

        assert_true(n.first == covered && n.members == workers + covered && n.size == n.workers);
        covered += n.size;
    }
    assert_int_equal(covered, 5);
    assert_int_equal(fast__ps_node_above(&c, &t, 1, 4).index, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(depth_changes_nothing),
        cmocka_unit_test(unequal_groups_weigh_workers),
        cmocka_unit_test(caches_write_back_everything),
        cmocka_unit_test(bounds_hold_back_no_more),
        cmocka_unit_test(trees_outlive_workers),
        cmocka_unit_test(shapes_are_refused),
        cmocka_unit_test(nodes_cover_the_workers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
