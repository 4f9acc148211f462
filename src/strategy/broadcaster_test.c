/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Broadcast of updates. Goal: every update reaches every worker that is up, once: along a tree that
 * has no loops and is rebuilt around crashes and slow links, and by gossip with a correction;
 * gossip alone reaches all workers as often as the exact law says. Method: gradients on a dyadic
 * grid, so that sums are exact in any order and replicas with the same updates have the same bits;
 * numbers of messages in closed form; simulated clusters with crashes and cuts; the law against
 * closed forms and random throws.
 */
#include "base/rng.h"
#include "replicas.h"
#include "small_run.h"
#include "strategy/broadcaster.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { P = 8, STEPS = 40 };

static void run_ok(const test_replicas_options *o, test_replicas *r)
{
    test_replicas_run(o, r);
    if (r->err != FAST_OK)
        fail_msg("%s, seed %d: %s", o->strategy, (int)o->seed, fast_error_detail());
}

/* Return the number of replicas that ended and whether they are equal to the bit. */
static int64_t live(const test_replicas *r, bool *equal_out)
{
    const float *first = NULL;
    int64_t count = 0;

    *equal_out = true;
    for (int64_t k = 0; k < r->workers; k++) {
        if (!r->last[k])
            continue;
        count++;
        if (first && memcmp(first, r->last[k], (size_t)r->count * sizeof *first) != 0)
            *equal_out = false;
        first = first ? first : r->last[k];
    }
    return count;
}

static const char *const members[] = {
    "broadcast:how=tree",
    "broadcast:how=tree,arity=1,period=3",
    "broadcast:how=tree,arity=100",
    "broadcast:how=gossip",
    "broadcast:how=gossip,rounds=1,width=2,period=3",
};

/* All replicas are w - lr / P times the sum of all gradients, whatever the order. */
static void all_updates_reach_all_workers(void **state)
{
    static const char *const clusters[] = { NULL, "cluster=hetero", "cluster=edge" };

    (void)state;
    for (size_t m = 0; m < sizeof members / sizeof *members; m++)
        for (int64_t c = 0; c < 3; c++) {
            const test_replicas_options o = { .strategy = members[m],
                                              .cluster = clusters[c],
                                              .lr = "0.125",
                                              .workers = P,
                                              .steps = STEPS };
            test_replicas r;
            bool equal;

            run_ok(&o, &r);
            assert_int_equal(live(&r, &equal), P);
            if (!equal)
                fail_msg("%s: replicas differ", members[m]);
            for (int64_t i = 0; i < 20; i++) {
                double sum = 0;

                for (int64_t k = 0; k < P; k++)
                    for (int64_t s = 0; s < STEPS; s++)
                        sum += (double)test_replicas_gradient(k, s, i);
                assert_true((double)r.last[3][i] == -0.125 / P * sum);
            }
            test_replicas_free(&r);
        }
}

/* On a tree each worker gets each update once: P - 1 messages for each of P STEPS updates. Every
 * worker's own update is answered by its neighbours, 2 (P - 1) answers of all workers at a step. At
 * the end each tells all others twice. */
static void a_tree_forwards_once(void **state)
{
    static const char *const strategies[] = { "broadcast", "broadcast:arity=1",
                                              "broadcast:arity=100" };

    (void)state;
    for (int i = 0; i < 3; i++)
        for (int64_t workers = 1; workers <= P; workers += 7) {
            const test_replicas_options o = {
                .strategy = strategies[i], .lr = "0.125", .workers = workers, .steps = STEPS
            };
            test_replicas r;

            run_ok(&o, &r);
            assert_int_equal(r.result.messages_sent, workers * (workers - 1) * STEPS +
                                                         2 * (workers - 1) * STEPS +
                                                         2 * workers * (workers - 1));
            test_replicas_free(&r);
        }
}

/* Crashes during the run: those that are left have the same updates, also of workers that crashed;
 * of the preset on both sides of a worker at nearly the same time, which a width of 1 cuts off.
 * Gossip without correction loses some of them, and a tree that were not rebuilt all of those that
 * went through the crashed worker. */
static void survivors_agree(void **state)
{
    static const char *const strategies[] = {
        "broadcast:how=tree",
        "broadcast:how=tree,arity=1",
        "broadcast:how=tree,arity=100",
        "broadcast:how=gossip,width=2",
        "broadcast:how=gossip,rounds=1,width=2",
        "broadcast:how=gossip,sure=0.9,width=2,period=4,slack=1",
        "broadcast:how=gossip,rounds=2,width=0",
    };
    int lost = 0;

    (void)state;
    for (int i = 0; i < 7; i++)
        for (int64_t seed = 1; seed <= 4; seed++) {
            char faults[96];
            const test_replicas_options o = { .strategy = strategies[i],
                                              .cluster = "cluster=ethernet-10g:detection=2ms",
                                              .faults = faults,
                                              .lr = "0.125",
                                              .workers = P,
                                              .steps = 200,
                                              .seed = seed };
            test_replicas r;
            bool equal;

            snprintf(faults, sizeof faults, "crash %d at %dus; crash %d at %dus",
                     (int)(seed * 3 % P), (int)(200 * seed),
                     (int)((seed * 3 + (i == 5 ? 2 : 1)) % P),
                     (int)(i == 5 ? 200 * seed + 20 : 700 + 100 * seed));
            run_ok(&o, &r);
            assert_int_equal(live(&r, &equal), P - 2);
            lost += !equal;
            if (!equal && i < 6)
                fail_msg("%s, %s: replicas differ", strategies[i], faults);
            test_replicas_free(&r);
        }
    assert_true(lost >= 3); /* those without correction */
}

/* The link of the ranks 0 and 1 passes nothing for half a second: the tree avoids it, and updates
 * reach all in time; without a change they wait for its end. */
static void slow_links_are_avoided(void **state)
{
    static const char *const strategies[] = { "broadcast:how=tree", "broadcast:how=tree,slow=0" };
    double seconds[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        const test_replicas_options o = { .strategy = strategies[i],
                                          .cluster = "cluster=ethernet-10g",
                                          .faults = "cut 0-1 at 3ms for 500ms",
                                          .lr = "0.125",
                                          .workers = P,
                                          .steps = 400 };
        test_replicas r;
        bool equal;

        run_ok(&o, &r);
        assert_int_equal(live(&r, &equal), P);
        assert_true(equal);
        seconds[i] = r.result.virtual_time_s;
        test_replicas_free(&r);
    }
    print_message("%.3f s, without a change of the tree %.3f s\n", seconds[0], seconds[1]);
    assert_true(seconds[0] < 0.25 && seconds[1] > 0.5);
}

/* A plan has one root, at most `arity` children of each, no loops, and no link that is avoided
 * while others are left. */
static void plans_are_trees(void **state)
{
    enum { N = 23 };
    fast_rng rng;

    (void)state;
    fast__rng_init(&rng, 5, FAST_PURPOSE_EXCHANGE, 0, 0, 0);
    for (int trial = 0; trial < 500; trial++) {
        const int64_t arity = 1 + trial % 5;
        int64_t parent[N], children[N], order[N], count[N] = { 0 }, roots = 0;
        bool up[N], avoided[N * N] = { false };

        for (int64_t i = 0; i < N; i++)
            up[i] = fast__rng_below(&rng, 4) > 0;
        for (int64_t i = 0; i < N; i++) {
            const int64_t a = (int64_t)fast__rng_below(&rng, N);
            const int64_t b = (int64_t)fast__rng_below(&rng, N);

            avoided[a * N + b] = avoided[b * N + a] = arity > 1;
        }
        fast__tree_plan(N, arity, up, avoided, parent, children, order);
        for (int64_t i = 0; i < N; i++) {
            int64_t at = i, hops = 0;

            assert_true((parent[i] == FAST_TREE_OUTSIDE) == !up[i]);
            if (!up[i])
                continue;
            roots += parent[i] == FAST_TREE_ROOT;
            while (parent[at] != FAST_TREE_ROOT && hops++ < N)
                at = parent[at];
            assert_true(hops < N); /* no loop */
            if (parent[i] >= 0) {
                assert_true(up[parent[i]]);
                count[parent[i]]++;
            }
        }
        assert_true(roots == 1);
        for (int64_t i = 0; i < N; i++)
            assert_true(count[i] <= arity);
    }
    bool up[4] = { true, true, true, true }, avoided[16] = { false };
    int64_t parent[4], children[4], order[4];

    avoided[0 * 4 + 1] = avoided[1 * 4 + 0] = true;
    fast__tree_plan(4, 2, up, avoided, parent, children, order);
    assert_int_equal(parent[0], FAST_TREE_ROOT);
    assert_int_equal(parent[2], 0);
    assert_int_equal(parent[1], 2);
    assert_int_equal(parent[3], 0);
    for (int i = 1; i < 4; i++) /* all links of the root are avoided: one of them must do */
        avoided[i] = avoided[4 * i] = true;
    fast__tree_plan(4, 2, up, avoided, parent, children, order);
    assert_int_equal(parent[1], 0);
    assert_int_equal(parent[2], 1);
    assert_int_equal(parent[3], 1);
}

/* Two workers need a round, three miss with probability 4^-(T - 1), four have T = 2 with 0: the
 * first round informs one of three, the second at most two more. Of 8 and 16 random throws tell. */
static void rounds_follow_the_law(void **state)
{
    fast_rng rng;

    (void)state;
    assert_true(fast__spread_probability(1, 0) == 1);
    assert_true(fast__spread_probability(2, 0) == 0 && fast__spread_probability(2, 1) == 1);
    for (int64_t t = 1; t < 12; t++)
        assert_true(fabs(fast__spread_probability(3, t) - (1 - pow(4, 1 - (double)t))) < 1e-12);
    /* Both of two informed workers hit the other two, each one of them: 2 / 9. */
    assert_true(fabs(fast__spread_probability(4, 2) - 2.0 / 9) < 1e-12);
    assert_int_equal(fast__spread_rounds(1, 0.9), 0);
    assert_int_equal(fast__spread_rounds(2, 0.999), 1);
    assert_int_equal(fast__spread_rounds(3, 0.9), 3); /* 15/16 */
    assert_int_equal(fast__spread_rounds(3, 0.95), 4);
    fast__rng_init(&rng, 9, FAST_PURPOSE_EXCHANGE, 1, 0, 0);
    for (int64_t n = 8; n <= 16; n += 8) {
        const int64_t rounds = fast__spread_rounds(n, 0.5);
        const double exact = fast__spread_probability(n, rounds);
        int reached = 0;

        assert_true(exact >= 0.5 && fast__spread_probability(n, rounds - 1) < 0.5);
        for (int trial = 0; trial < 20000; trial++) {
            bool informed[16] = { true };
            int64_t count = 0;

            for (int64_t t = 0; t < rounds; t++) {
                bool before[16];

                memcpy(before, informed, sizeof before);
                for (int64_t i = 0; i < n; i++)
                    if (before[i])
                        informed[(i + 1 + (int64_t)fast__rng_below(&rng, (uint64_t)n - 1)) % n] =
                            true;
            }
            for (int64_t i = 0; i < n; i++)
                count += informed[i];
            reached += count == n;
        }
        /* Five standard deviations of 20000 throws. */
        assert_true(fabs(reached / 20000.0 - exact) < 5 * sqrt(exact * (1 - exact) / 20000));
    }
    /* Pittel's law is the limit: above the exact numbers' range it continues them. */
    assert_in_range(fast__spread_rounds(600, 0.9) - fast__spread_rounds(500, 0.9), 0, 2);
}

/* Gossip in a run is gossip in lockstep: of three workers' updates, each misses one worker with
 * probability 1/4 in two rounds, that is, each of the two others with 1/8. Completeness compares
 * with the mean of replicas, (1 + 2 * 7/8) / 3: it is (1 + 2 (7/8) / (11/12)) / 3 = 32/33. */
static void runs_follow_the_law(void **state)
{
    static const char *const more[] = { "transport=sim", "steps=2000", "evaluate=end", NULL };
    const fast_result r = test_small_run("broadcast:how=gossip,rounds=2,width=0", 3, more);

    (void)state;
    print_message("completeness %.4f, 32/33 is %.4f\n", r.completeness, 32.0 / 33);
    assert_true(fabs(r.completeness - 32.0 / 33) < 0.004);
    assert_true(test_small_run("broadcast:how=gossip,rounds=2,width=1", 3, NULL).completeness >
                0.9999);
}

/* On threads the same bits arrive. */
static void threads_agree(void **state)
{
    (void)state;
    for (size_t m = 0; m < sizeof members / sizeof *members; m++) {
        const test_replicas_options o = { .strategy = members[m],
                                          .transport = "threads",
                                          .lr = "0.125",
                                          .workers = 4,
                                          .steps = STEPS };
        test_replicas r;
        bool equal;

        run_ok(&o, &r);
        assert_int_equal(live(&r, &equal), 4);
        assert_true(equal);
        test_replicas_free(&r);
    }
}

/* A watcher that cancels its run at a step. */
typedef struct stop {
    fast_run *run;
    int64_t step;
} stop;

static void cancel(void *ctx, const fast_event *event)
{
    const stop *s = ctx;

    if (event->kind == FAST_EVENT_EVALUATE && event->step >= s->step)
        fast_run_cancel(s->run);
}

/* A run that is canceled and continued loses and doubles no update: replicas are equal up to
 * rounding in the end. */
static void continued_runs_agree(void **state)
{
    static const char *const strategies[] = { "strategy=broadcast",
                                              "strategy=broadcast:how=gossip,rounds=6" };

    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *const options[] = { strategies[i],
                                        "engine=ref",
                                        "model=mlp:hidden=12",
                                        "data=digits:train=160,test=24",
                                        "batch=8",
                                        "plan=no",
                                        "workers=5",
                                        "transport=sim",
                                        "cluster=hetero",
                                        "steps=60",
                                        "evaluate=1steps",
                                        "optimizer=sgd",
                                        "lr=0.1",
                                        "schedule=constant",
                                        NULL };
        stop s = { .run = NULL };

        assert_int_equal(fast_run_open(options, &s.run), FAST_OK);
        fast_run_watch(s.run, cancel, &s);
        for (s.step = 10; s.step <= 70; s.step += 15)
            assert_int_equal(fast_run_train(s.run), FAST_OK);
        assert_int_equal(fast_run_result(s.run)->steps, 60);
        if (!(fast_run_result(s.run)->divergence < 1e-5))
            fail_msg("%s: divergence %g", strategies[i], fast_run_result(s.run)->divergence);
        fast_run_close(s.run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_updates_reach_all_workers),
        cmocka_unit_test(a_tree_forwards_once),
        cmocka_unit_test(survivors_agree),
        cmocka_unit_test(slow_links_are_avoided),
        cmocka_unit_test(plans_are_trees),
        cmocka_unit_test(rounds_follow_the_law),
        cmocka_unit_test(runs_follow_the_law),
        cmocka_unit_test(threads_agree),
        cmocka_unit_test(continued_runs_agree),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
