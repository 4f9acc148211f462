/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The measures of several workers. Goal: every strategy tells all of them, and each is right where
 * the right answer is known: synchronous training, models that are never exchanged, models that are
 * always the same, closed forms of bytes and of the time that a slow node costs. Method: small runs
 * on the simulator, whose clock and bytes are exact.
 */
#include "run/team.h"
#include "small_run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Sanitizers look at every kind of exchange, once. */
#ifdef FAST_SANITIZED
enum { BRIEF = 1 };
#else
enum { BRIEF = 0 };
#endif

enum { WORKERS = 4, STEPS = 24, HEADER = 64 };

static fast_result train(const char *strategy, const char *more, const char *more2)
{
    const char *const list[] = { more ? more : "seed=1", more2, NULL };

    return test_small_run(strategy, WORKERS, list);
}

static void near(const char *what, double is, double should, double apart)
{
    if (!(fabs(is - should) <= apart))
        fail_msg("%s is %.9g, not %.9g", what, is, should);
}

/* Staleness falls in its bucket, and quantiles are the ends of buckets. */
static void staleness_is_counted_in_buckets(void **state)
{
    static const int64_t ends[] = { 0, 1, 2, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 2047, 4095 };
    fast_staleness s = { 0 };

    (void)state;
    for (int i = 0; i < 14; i++) {
        s = (fast_staleness){ 0 };
        fast__staleness_add(&s, ends[i]);
        assert_int_equal(s.counts[i], 1);
        fast__staleness_add(&s, ends[i] + 1);
        assert_int_equal(s.counts[i + 1], 1);
        assert_int_equal(s.sum, 2 * ends[i] + 1);
        assert_int_equal(s.max, ends[i] + 1);
    }
    fast__staleness_add(&s, INT64_MAX / 4);
    assert_int_equal(s.counts[FAST_STALENESS_BUCKETS - 1], 1);
    assert_int_equal(s.count, 3);
}

/* Check the rules that hold for every strategy. */
static void check_all(const char *name, const fast_result *r)
{
    int64_t updates = 0;

    for (int i = 0; i < FAST_STALENESS_BUCKETS; i++)
        updates += r->staleness[i];
    if (updates <= 0 || r->staleness_max < 0 || !(r->staleness_mean <= (double)r->staleness_max) ||
        r->staleness_p50 > r->staleness_p95 || r->staleness_p95 > r->staleness_max)
        fail_msg("%s: staleness %g, %lld, %lld, %lld", name, r->staleness_mean,
                 (long long)r->staleness_p50, (long long)r->staleness_p95,
                 (long long)r->staleness_max);
    if (!(r->divergence >= 0) || !(r->completeness > 0 && r->completeness <= 1))
        fail_msg("%s: divergence %g, completeness %g", name, r->divergence, r->completeness);
    if (!(r->compute_s > 0) || !(r->exchange_s >= 0) || !(r->wait_s >= 0) ||
        r->compute_s + r->exchange_s + r->wait_s > r->time_s * 1.000001)
        fail_msg("%s: %g + %g + %g of %g s", name, r->compute_s, r->exchange_s, r->wait_s,
                 r->time_s);
    near(name, r->bytes_per_step, (double)r->bytes_sent / (WORKERS * STEPS), 1e-9);
    assert_true(r->step_s > 0 && r->step_s <= r->time_s / STEPS * 1.000001);
}

static void every_strategy_tells_all(void **state)
{
    static const char *const members[] = {
        "ps",
        "ps:slack=0",
        "ps:slack=2",
        "quorum",
        "allreduce",
        "local",
        "local:delay=yes",
        "elastic",
        "elastic:servers=2",
        "elastic_sync",
        "elastic_sync:mu=0.9",
        "elastic_tree",
        "mpca",
        "federated:period=2",
        "dogwild",
        "dogwild:rate=0.3",
        "ensemble",
        "gossip",
        "gossip:push=yes",
        "gossip_async",
        "gossip_async:how=push",
        "gossip_async:how=pull",
        "partial",
        "partial:how=scatter",
        "partial:how=states",
    };

    (void)state;
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        const fast_result r = train(members[i], "cluster=hetero", NULL);

        check_all(members[i], &r);
    }
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "hogwild:clusters=2" : "hogwild";
        const fast_result r = train(name, "cluster=laptop", NULL);

        check_all(name, &r);
        assert_int_equal(r.bytes_sent, 0);
    }
}

static void synchronous_training_is_complete(void **state)
{
    const char *const members[] = { "allreduce", "local:period=1", "local:period=6",
                                    "local:period=6,delay=yes" };

    (void)state;
    for (int i = 0; i < 4; i++) {
        const fast_result r = train(members[i], NULL, NULL);

        assert_int_equal(r.staleness_max, 0);
        assert_int_equal(r.staleness[0], WORKERS * STEPS);
        near(members[i], r.completeness, 1, 1e-12);
        near(members[i], r.divergence, 0, 0);
    }
    near("gossip on the full graph",
         train("gossip:first=adapt", "topology=full", NULL).completeness, 1, 1e-9);
    near("parts that all arrived", train("partial", "cluster=hetero", NULL).completeness, 1, 1e-9);
}

/* Models that are never exchanged hold their own worker's updates and no other's. */
static void models_without_exchange_are_alone(void **state)
{
    static const char *const members[] = {
        "ensemble",
        "gossip:drop=1",
        "gossip_async:p=0",
        "elastic:alpha=0,beta=0",
        "elastic_sync:alpha=0",
        "elastic_tree:up=100,down=100",
        "mpca:rho=0",
        "partial:how=states,period=100",
        "partial:how=scatter,period=100",
    };

    (void)state;
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        const fast_result r = train(members[i], "cluster=hetero", NULL);

        near(members[i], r.completeness, 1.0 / WORKERS, 1e-6);
        assert_true(r.divergence > 0);
        if (i == 0)
            assert_int_equal(r.bytes_sent, 0);
    }
}

/* The exchange of a step comes before its update, in steps that count P each: */
static void springs_carry_their_share(void **state)
{
    /* at step 12 a replica gives the centre a quarter of its 11 P; nothing came back yet. */
    const fast_result alone = train("elastic_sync:alpha=0.25,period=12", "steps=12", NULL);
    /* At step 24 it holds 3/4 of those and 12 P more; 3/4 of that stay, and a quarter of what the
     * centre has of each worker comes. Then the last update. */
    const fast_result met = train("elastic_sync:alpha=0.25,period=12", NULL, NULL);
    const double p = WORKERS, z = 0.25 * 11 * p;
    const double own = 0.75 * (0.75 * 11 * p + 12 * p) + 0.25 * z + p;
    const double other = 0.25 * z;
    const double mean = (own + 3 * other) / 4;

    (void)state;
    near("nobody's", alone.completeness, 0.25, 1e-12);
    near("a spring's", met.completeness, (fmin(1, own / mean) + 3 * (other / mean)) / 4, 1e-6);
}

static void staleness_keeps_its_bound(void **state)
{
    fast_result r = train("ps:slack=0", "cluster=hetero", NULL);

    (void)state;
    assert_int_equal(r.staleness_max, 0);
    near("rounds", r.divergence, 0, 0);
    for (int s = 1; s < 4; s++) {
        char name[32];

        snprintf(name, sizeof name, "ps:slack=%d", s);
        r = train(name, "cluster=hetero", NULL);
        assert_in_range(r.staleness_max, 1, (WORKERS - 1) * (2 * s + 1));
    }
}

/* 2 (P - 1) vectors are sent in a ring's sum, and as many by recursive halving and doubling. */
static void bytes_are_those_of_the_closed_form(void **state)
{
    const char *const members[] = { "allreduce:algorithm=ring,overlap=no",
                                    "allreduce:algorithm=rabenseifner,overlap=no" };

    (void)state;
    for (int i = 0; i < 2; i++) {
        const fast_result r = train(members[i], NULL, NULL);

        assert_int_equal(r.bytes_sent - HEADER * r.messages_sent,
                         STEPS * 2 * (WORKERS - 1) * r.param_count * 4);
    }
}

/* The slowest node is known, and who waits for it, for how long. */
static void waiting_is_for_the_slowest(void **state)
{
    static const char *const options[] = { "model=mlp:hidden=12",
                                           "data=digits:train=160,test=32",
                                           "engine=ref",
                                           "plan=no",
                                           "transport=sim",
                                           "batch=4",
                                           "steps=24",
                                           "evaluate=no",
                                           "workers=2",
                                           "cluster=infiniband:speed_jitter=0",
                                           "faults=slow 1 at 0s for 1000s by 5",
                                           "strategy=allreduce:algorithm=butterfly,overlap=no",
                                           NULL };
    fast_worker fast, slow, none;
    fast_run *run = NULL;

    (void)state;
    if (fast_run_open(options, &run) || fast_run_train(run))
        fail_msg("%s", fast_error_detail());
    assert_true(fast_run_worker(run, 0, &fast) && fast_run_worker(run, 1, &slow));
    assert_false(fast_run_worker(run, 2, &none) || fast_run_worker(run, -1, &none));
    assert_int_equal(fast.steps, STEPS);
    near("five times as slow", slow.compute_s / fast.compute_s, 5, 0.1);
    near("waiting", fast.wait_s, slow.compute_s - fast.compute_s, 0.1 * slow.compute_s);
    assert_true(slow.wait_s < 0.01 * slow.compute_s);
    assert_true(fast.exchange_s > 0 && slow.exchange_s < fast.exchange_s);
    assert_string_equal(fast_run_result(run)->waited_for, "worker 1");
    assert_true(fast_run_result(run)->waited_share > 0.98);
    fast_run_close(run);
}

/* A worker that crashed has no time after its crash; the time until its restart is not training. */
static void crashed_workers_have_no_time(void **state)
{
    static const char *const faults[] = { "faults=crash 1 at 2ms",
                                          "faults=crash 1 at 2ms; restart 1 at 6ms" };

    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *const options[] = { "model=mlp:hidden=12",
                                        "data=digits:train=160,test=32",
                                        "engine=ref",
                                        "plan=no",
                                        "transport=sim",
                                        "batch=4",
                                        "steps=400",
                                        "evaluate=no",
                                        "workers=3",
                                        "cluster=infiniband",
                                        "strategy=ps",
                                        faults[i],
                                        NULL };
        fast_worker lost, other;
        fast_run *run = NULL;

        if (fast_run_open(options, &run) || fast_run_train(run))
            fail_msg("%s", fast_error_detail());
        assert_true(fast_run_worker(run, 1, &lost) && fast_run_worker(run, 0, &other));
        const double time = lost.compute_s + lost.exchange_s + lost.wait_s;
        const double end = fast_run_result(run)->time_s;
        assert_true(end > 8e-3);
        if (i == 0)
            near("time until the crash", time, 2e-3, 1e-4);
        else
            assert_true(time > 2e-3 && time < end - 3.9e-3);
        fast_run_close(run);
    }
}

/* Results at the evaluations of a run. */
typedef struct seen {
    int count;                  /* number of results */
    fast_result results[STEPS]; /* of each evaluation */
} seen;

static void on_event(void *ctx, const fast_event *event)
{
    seen *s = ctx;

    if (event->kind == FAST_EVENT_EVALUATE)
        s->results[s->count++] = *event->result;
}

/* Between two exchanges models drift apart; at one they are the same. */
static void measures_are_taken_over_time(void **state)
{
    static const char *const options[] = { "model=mlp:hidden=12",
                                           "data=digits:train=160,test=32",
                                           "engine=ref",
                                           "plan=no",
                                           "transport=sim",
                                           "batch=4",
                                           "steps=24",
                                           "evaluate=4steps",
                                           "workers=4",
                                           "strategy=local:period=8",
                                           NULL };
    fast_run *run = NULL;
    seen s = { 0 };

    (void)state;
    assert_int_equal(fast_run_open(options, &run), FAST_OK);
    fast_run_watch(run, on_event, &s);
    assert_int_equal(fast_run_train(run), FAST_OK);
    assert_int_equal(s.count, 6);
    for (int i = 0; i < 6; i++) {
        const fast_result *r = &s.results[i];

        if (i % 2) {
            near("after an exchange", r->completeness, 1, 1e-12);
            near("after an exchange", r->divergence, 0, 0);
        } else {
            assert_true(r->divergence > 0);
            near("before one", r->completeness, (1 + 3 * (8.0 * i / 2) / (8.0 * i / 2 + 4)) / 4,
                 1e-9);
        }
        /* Who votes early may be a step ahead by then. */
        assert_in_range(r->staleness[0], WORKERS * 4 * (i + 1), WORKERS * (4 * (i + 1) + 1));
        assert_true(i == 0 || r->bytes_sent >= s.results[i - 1].bytes_sent);
        assert_true(i == 0 || r->compute_s > s.results[i - 1].compute_s);
    }
    assert_true(s.results[0].bytes_sent == 0 && s.results[1].bytes_sent > 0);
    fast_run_close(run);
}

/* The forecast, where the cluster is known and nothing but the model's own assumptions is in it. */

static void forecast(const char *strategy, const char *cluster, double apart)
{
    const fast_result r =
        train(strategy, cluster, BRIEF ? "model=mlp:hidden=100" : "model=mlp:hidden=400");

    if (!(fabs(r.predicted_step_s / r.step_s - 1) <= apart))
        fail_msg("%s on %s: predicted %g s, measured %g s", strategy, cluster, r.predicted_step_s,
                 r.step_s);
    near(strategy, r.predicted_step_s,
         r.predicted_compute_s + r.predicted_exchange_s + r.predicted_straggler_s,
         1e-12 * r.step_s);
}

static void synchronous_steps_are_forecast(void **state)
{
    static const char *const algorithms[] = { "ring", "tree", "butterfly", "rabenseifner" };

    (void)state;
    for (int i = 0; i < (BRIEF ? 1 : 4); i++) {
        char name[64];

        snprintf(name, sizeof name, "allreduce:overlap=no,algorithm=%s", algorithms[i]);
        forecast(name, "cluster=ethernet-1g", 0.03);
        forecast(name, "cluster=ethernet-10g:speed_jitter=0.3", 0.05);
        forecast(name, "cluster=hetero", 0.15); /* additions are not all by the slowest */
    }
    forecast("allreduce:algorithm=ring", "cluster=ethernet-1g", 0.25);
    forecast("local:period=4,algorithm=ring", "cluster=hetero", 0.1);
}

/* Within a factor, which docs/measures.md tells. */
static void every_family_is_forecast(void **state)
{
    static const char *const members[] = {
        "allreduce",
        "quorum",
        "local",
        "ps",
        "ps:slack=0",
        "ps:slack=2",
        "elastic",
        "elastic_sync",
        "elastic_tree",
        "mpca",
        "federated:period=2",
        "dogwild",
        "ensemble",
        "gossip",
        "gossip:first=adapt",
        "gossip_async",
        "partial",
        "partial:how=scatter",
    };

    (void)state;
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i += BRIEF ? 3 : 1) {
        if (!BRIEF)
            forecast(members[i], "cluster=ethernet-10g", 0.5);
        forecast(members[i], "cluster=hetero", 0.5);
    }
    forecast("hogwild", "cluster=laptop", 0.5);
}

/* Without contention transfers go side by side, and the forecast says so. */
static void free_links_are_forecast(void **state)
{
    static const char *const members[] = { "ps",     "ps:slack=0", "ps:slack=0,servers=0",
                                           "quorum", "gossip",     "allreduce:overlap=no" };

    (void)state;
    if (BRIEF) /* latency is too much of a small model's step */
        skip();
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        forecast(members[i], "cluster=ethernet-1g:contention=no", 0.15);
    forecast("elastic", "cluster=ethernet-1g:contention=no", 0.3);
    /* Chunks and buckets go side by side; `auto` measures in its first step. */
    forecast("allreduce:algorithm=chain,overlap=no", "cluster=ethernet-1g:contention=no", 0.03);
    forecast("allreduce:algorithm=ring", "cluster=ethernet-1g:contention=no", 0.25);
    forecast("allreduce:algorithm=ring", "cluster=ideal", 0.25);
    forecast("allreduce:algorithm=chain", "cluster=ethernet-1g:contention=no", 0.25);
}

/* Two dense layers of n inputs: depth by hand. */
static void depth_is_that_of_the_longest_way(void **state)
{
    const fast_result r = train("allreduce", NULL, "model=mlp:hidden=64x16");

    (void)state;
    /* 784 -> 64 -> 16 -> 10: 11, 7 and 5, and 1 for each of two activations; batch 4. */
    near("depth", r.depth, 3 * (11 + 1 + 7 + 1 + 5) + 2 + 4, 3 * 2);
    assert_true(r.work > r.depth);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(staleness_is_counted_in_buckets),
        cmocka_unit_test(every_strategy_tells_all),
        cmocka_unit_test(synchronous_training_is_complete),
        cmocka_unit_test(models_without_exchange_are_alone),
        cmocka_unit_test(springs_carry_their_share),
        cmocka_unit_test(staleness_keeps_its_bound),
        cmocka_unit_test(bytes_are_those_of_the_closed_form),
        cmocka_unit_test(waiting_is_for_the_slowest),
        cmocka_unit_test(crashed_workers_have_no_time),
        cmocka_unit_test(measures_are_taken_over_time),
        cmocka_unit_test(free_links_are_forecast),
        cmocka_unit_test(synchronous_steps_are_forecast),
        cmocka_unit_test(every_family_is_forecast),
        cmocka_unit_test(depth_is_that_of_the_longest_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
