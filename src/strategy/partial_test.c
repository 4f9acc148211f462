/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Partial exchange. Goal: what is sent in parts and arrives late is not lost: with plain SGD, once
 * all updates were delivered, in whatever order, and flushed, replicas are equal, exactly where
 * sums are exact; the limits of the members are other members; all of them learn. Method: gradients
 * on a dyadic grid (replicas.h), rates and numbers of workers that are powers of two, on simulated
 * clusters with jitter, loss and stragglers and on threads; small runs for the rest.
 */
#include "replicas.h"
#include "small_run.h"
#include "strategy/partial.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#ifdef FAST_SLOW
enum { SEEDS = 12, TRANSPORTS = 1 };
static const char steps[] = "steps=30"; /* that it runs */
#else
enum { SEEDS = 1000, TRANSPORTS = 2 };
static const char steps[] = "steps=800";
#endif

/* Every replica is -lr / P times the sum of all gradients, to the bit. */
static void expect_all_delivered(const test_replicas_options *o, const test_replicas *r)
{
    if (r->err != FAST_OK)
        fail_msg("%s, seed %d: %s", o->strategy, (int)o->seed, fast_error_detail());
    for (int64_t i = 0; i < r->count; i++) {
        float sum = 0;

        for (int64_t w = 0; w < o->workers; w++)
            for (int64_t s = 0; s < o->steps; s++)
                sum += test_replicas_gradient(w, s, i);
        for (int64_t w = 0; w < o->workers; w++)
            if (r->last[w][i] != -sum * 0.125f / (float)o->workers)
                fail_msg("%s, %d workers, seed %d: replica %d lacks something at %d", o->strategy,
                         (int)o->workers, (int)o->seed, (int)w, (int)i);
    }
}

static void parts_are_never_lost(void **state)
{
    static const char *const members[] = { "partial:parts=1", "partial:parts=3",
                                           "partial:parts=100000", "partial:parts=0",
                                           "partial:parts=0,bandwidth=1e6" };
    static const char *const clusters[] = { "cluster=wan", "cluster=edge", "cluster=hetero", NULL };

    (void)state;
    for (int64_t seed = 1; seed <= SEEDS; seed++) {
        const test_replicas_options o = { .strategy = members[seed % 5],
                                          .cluster = clusters[seed % 4],
                                          .faults =
                                              seed % 3 ? NULL : "random:count=2,kinds=slow,span=2s",
                                          .lr = "0.125",
                                          .workers = (int64_t)1 << (1 + seed % 3),
                                          .steps = 6,
                                          .seed = seed };
        test_replicas r;

        test_replicas_run(&o, &r);
        expect_all_delivered(&o, &r);
        assert_true(fabs(r.result.completeness - 1) < 1e-9);
        test_replicas_free(&r);
    }
    for (size_t m = 0; m < sizeof members / sizeof *members; m++) {
        const test_replicas_options o = {
            .strategy = members[m], .transport = "threads", .lr = "0.125", .workers = 4, .steps = 25
        };
        test_replicas r;

        test_replicas_run(&o, &r);
        expect_all_delivered(&o, &r);
        test_replicas_free(&r);
    }
}

/* Without the flush something is missing at somebody: the flush is what does it. */
static void without_the_flush_they_differ(void **state)
{
    const test_replicas_options o = { .strategy = "partial:flush=no",
                                      .cluster = "cluster=wan",
                                      .lr = "0.125",
                                      .workers = 4,
                                      .steps = 6 };
    test_replicas r;

    (void)state;
    test_replicas_run(&o, &r);
    assert_int_equal(r.err, FAST_OK);
    assert_true(test_replicas_distance(r.last, 4, r.count) > 0);
    test_replicas_free(&r);
}

/* A state is merged if our own step goes towards it, and not otherwise: with equal gradients of
 * replicas that began apart nobody goes towards anybody. */
static void states_pass_the_window_or_do_not(void **state)
{
    static const char *const members[] = { "partial:how=states,part=1",
                                           "partial:how=states,part=1,window=no" };
    double apart[2];

    (void)state;
    for (int m = 0; m < 2; m++) {
        const test_replicas_options o = {
            .strategy = members[m], .workers = 4, .steps = 60, .apart = true
        };
        test_replicas r;

        test_replicas_run(&o, &r); /* the rate is 0: there is no step that goes anywhere */
        assert_int_equal(r.err, FAST_OK);
        apart[m] = test_replicas_distance(r.last, 4, r.count);
        test_replicas_free(&r);
    }
    assert_true(apart[0] > 1.7);
    assert_true(apart[1] < 0.1);
}

/* The accuracy of a small run. */
static double accuracy(const char *strategy, const char *transport, const char *topology)
{
    char texts[3][200];
    const char *options[] = { texts[0],
                              texts[1],
                              texts[2],
                              "workers=4",
                              "model=mlp:hidden=32",
                              "data=digits:train=3200,test=400",
                              "batch=10",
                              steps,
                              "lr=0.25",
                              "optimizer=sgd",
                              "plan=no",
                              "evaluate=end",
                              NULL };
    fast_run *run = NULL;
    double result;

    snprintf(texts[0], sizeof texts[0], "strategy=%s", strategy);
    snprintf(texts[1], sizeof texts[1], "transport=%s", transport);
    snprintf(texts[2], sizeof texts[2], "topology=%s", topology);
    if (fast_run_open(options, &run) != FAST_OK || fast_run_train(run) != FAST_OK)
        fail_msg("%s: %s", strategy, fast_error_detail());
    result = fast_run_result(run)->test_accuracy;
    print_message("%-48s %-12s %-8s %.3f  completeness %.2f  staleness %.2f\n", strategy, topology,
                  transport, result, fast_run_result(run)->completeness,
                  fast_run_result(run)->staleness_mean);
    fast_run_close(run);
    return result;
}

static void all_members_learn(void **state)
{
    static const struct {
        const char *strategy, *topology;
        double loss; /* of accuracy against allreduce that is accepted */
    } members[] = { { "gossip", "ring", 0.05 },
                    { "gossip:first=adapt", "pairs", 0.05 },
                    { "gossip:sends=gradients", "full", 0.02 },
                    { "gossip:push=yes", "exponential:one=yes", 0.05 },
                    { "gossip:drop=0.5,correct=1", "pairs", 0.05 },
                    { "gossip:drop=0.5", "ring", 0.05 },
                    { "gossip_async", "full", 0.05 },
                    { "gossip_async:overlap=no,p=0.5", "ring", 0.05 },
                    { "gossip_async:how=push,p=0.2", "full", 0.1 },
                    { "gossip_async:how=pull,p=0.5", "full", 0.1 },
                    { "partial:how=scatter", "halton", 0.15 },
                    { "partial:how=scatter,sends=gradients,slack=0", "full", 0.05 },
                    { "partial:parts=4", "full", 0.1 },
                    { "partial:parts=0", "full", 0.1 },
                    { "partial:how=states,part=0.5", "full", 0.15 } };
    const double best = accuracy("allreduce", "sim", "auto");

    (void)state;
    assert_true(best > (TRANSPORTS == 2 ? 0.7 : 0));
    for (size_t m = 0; m < sizeof members / sizeof *members; m++)
        for (int threads = 0; threads < TRANSPORTS; threads++) {
            /* On threads the machine decides who is how late: it only has to learn something, in
             * one of three runs, as a busy machine may leave a worker out until the others are
             * done. */
            const double least = threads ? 0.3 : best - members[m].loss;
            double a = 0;
            for (int tries = threads ? 3 : 1; tries > 0 && a < least; tries--)
                a = accuracy(members[m].strategy, threads ? "threads" : "sim", members[m].topology);
            if (TRANSPORTS == 2 && a < least)
                fail_msg("%s: %.3f, allreduce has %.3f", members[m].strategy, a, best);
        }
}

/* Append five messages to a queue of two: the last two are there, the older one first. */
static fast_err queue_main(fast_actor *actor, void *ctx)
{
    fast_msg *queue[3] = { NULL };
    int64_t *left = ctx;

    for (int64_t i = 0; i < 5; i++) {
        fast_msg *msg = NULL;

        FAST_TRY(fast_msg_new(actor, 7, &msg));
        msg->words[0] = i;
        fast__scatter_queue(queue, 2, &msg);
        left[4] += msg == NULL;
    }
    for (int i = 0; i < 3; i++) {
        left[i] = queue[i] ? queue[i]->words[0] : -1;
        fast_msg_free(queue[i]);
    }
    return FAST_OK;
}

static void queues_drop_the_oldest(void **state)
{
    int64_t left[5] = { 0 };
    const fast_role role = { "worker", 1, queue_main, left };
    const char *options[] = { "transport=sim", NULL };

    (void)state;
    assert_int_equal(fast_actors_run(options, &role, 1, NULL), FAST_OK);
    assert_true(left[0] == 3 && left[1] == 4 && left[2] == -1 && left[4] == 5);
}

/* Mark all survivors that messages of a rank reach in the rebuilt graph; return their number. */
static int64_t reach(const fast_topology *graph, const bool *down, int64_t from)
{
    enum { MOST = 16 };
    int64_t ranks[MOST], reached[MOST], list[MOST], count = 1;
    double weights[MOST];
    bool seen[MOST], marked[MOST] = { false };
    fast_neighbours n = { .ranks = ranks, .weights = weights };

    list[0] = from;
    marked[from] = true;
    for (int64_t i = 0; i < count; i++) {
        const int64_t found = fast__scatter_receivers(graph, 1, list[i], down, &n, reached, seen);

        for (int64_t k = 0; k < found; k++) {
            assert_true(!down[reached[k]] && reached[k] != list[i]);
            if (!marked[reached[k]])
                list[count++] = reached[k];
            marked[reached[k]] = true;
        }
    }
    return count;
}

/* Whichever workers crash, the messages of each survivor reach all others; without a crash the
 * graph is as it was. */
static void survivors_are_connected(void **state)
{
    enum { SIZE = 9 };
    static const char *const graphs[] = { "halton", "ring", "full", "exponential" };

    (void)state;
    for (size_t g = 0; g < sizeof graphs / sizeof *graphs; g++) {
        fast_topology *graph = NULL;

        assert_int_equal(fast_topology_new(graphs[g], SIZE, 1, &graph), FAST_OK);
        for (unsigned set = 0; set < (1u << SIZE) - 1; set++) {
            bool down[SIZE];
            int64_t up = 0;

            for (int64_t i = 0; i < SIZE; i++) {
                down[i] = set >> i & 1;
                up += !down[i];
            }
            for (int64_t i = 0; i < SIZE; i++)
                if (!down[i] && reach(graph, down, i) != up)
                    fail_msg("%s, set %u: worker %d does not reach all", graphs[g], set, (int)i);
        }
        fast_topology_free(graph);
    }
}

/* Updates of a threshold: no worker waits for another one, replicas that apply the same entries end
 * equal up to rounding, and each step sends far less than a gradient. */
static void thresholds_are_sent_to_all(void **state)
{
    static const char *const slow = "faults=slow 2 at 0s by 50";
    static const char *const whole[] = { "schedule=constant", slow, NULL };
    static const char *const few[] = { "schedule=constant", slow, "codec=threshold:tau=0.004",
                                       NULL };
    const fast_result all = test_small_run("partial:how=parts,parts=1", 4, whole);
    const fast_result r = test_small_run("partial:how=parts,parts=1", 4, few);

    (void)state;
    assert_true(r.divergence < 1e-6);
    assert_true(r.staleness_mean > 0);
    assert_true(r.bytes_sent < all.bytes_sent / 4);
    assert_true(r.params_hash != all.params_hash);
}

/* The measurement sends a few megabytes; p follows from the link: p = ceil(m (P - 1) f / B),
 * and a step sends P - 1 parts of m / p. */
static void parts_follow_the_link(void **state)
{
    static const char *const given[] = { "partial:parts=0,bandwidth=125e6",
                                         "partial:parts=0,bandwidth=1.25e9" };
    static const char *const clusters[] = { "cluster=ethernet-1g", "cluster=ethernet-10g" };
    int64_t sent[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *const more[] = { "transport=sim", clusters[i],           "steps=240",
                                     "evaluate=end",  "model=mlp:hidden=64", NULL };
        const fast_result measured = test_small_run("partial:parts=0", 4, more);
        const fast_result told = test_small_run(given[i], 4, more);
        const double apart = (double)measured.bytes_sent / (double)told.bytes_sent;

        sent[i] = measured.bytes_sent;
        print_message("%s: %.0f bytes, %.3f times those of its bandwidth\n", clusters[i],
                      (double)measured.bytes_sent, apart);
        assert_true(apart > 0.9 && apart < 1.3);
    }
    assert_true(2 * sent[0] < sent[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_never_lost),
        cmocka_unit_test(without_the_flush_they_differ),
        cmocka_unit_test(states_pass_the_window_or_do_not),
        cmocka_unit_test(all_members_learn),
        cmocka_unit_test(queues_drop_the_oldest),
        cmocka_unit_test(survivors_are_connected),
        cmocka_unit_test(parts_follow_the_link),
        cmocka_unit_test(thresholds_are_sent_to_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
