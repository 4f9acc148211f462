/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gossip, synchronous and not. Goal: its theorems. Where the matrix of a topology is doubly
 * stochastic the mean moves by the mean update; without updates replicas come together at the rate
 * of the gap; masses are conserved, so that replicas converge to the mean of their initial values;
 * no schedule deadlocks; the asynchronous ones get over crashes. Method: replicas that begin with
 * unit vectors, so that element j of a replica is the share of worker j in it, and gradients that
 * are made up (replicas.h), on simulated clusters with jitter, pauses and crashes, and on threads.
 */
#include "replicas.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#ifdef FAST_SLOW
enum { SEEDS = 2 };
#else
enum { SEEDS = 12 };
#endif

static void run_ok(const test_replicas_options *o, test_replicas *r)
{
    test_replicas_run(o, r);
    if (r->err != FAST_OK)
        fail_msg("%s on %s, %d workers, seed %d: %s", o->strategy, o->topology ? o->topology : "-",
                 (int)o->workers, (int)o->seed, fast_error_detail());
}

/* The largest difference of the replicas' mean from `want` at the elements below `workers`, whose
 * values are all the same there. */
static double mean_error(const test_replicas *r, double want)
{
    double worst = 0;

    for (int64_t i = 0; i < r->workers; i++)
        worst = fmax(worst, fabs(test_replicas_mean(r->last, r->workers, i) - want));
    return worst;
}

/* Return the largest difference of any element of any replica from `want`. */
static double replica_error(const test_replicas *r, double want)
{
    double worst = 0;

    for (int64_t k = 0; k < r->workers; k++)
        for (int64_t i = 0; i < r->workers; i++)
            worst = fmax(worst, fabs((double)r->last[k][i] - want));
    return worst;
}

/* mean_i w_i after k + 1 steps = mean_i w_i after k steps - lr mean_i g_i. */
static void mean_moves_by_the_mean_gradient(void **state)
{
    static const char *const members[] = { "gossip", "gossip:first=adapt", "gossip:drop=0.4",
                                           "gossip:rounds=2,correct=1", "gossip:sends=gradients" };
    static const char *const topologies[] = { "full", "ring", "pairs", "halton" };

    (void)state;
    for (size_t m = 0; m < sizeof members / sizeof *members; m++)
        for (size_t k = 0; k < sizeof topologies / sizeof *topologies; k++) {
            test_replicas_options o = { .strategy = members[m],
                                        .topology = topologies[k],
                                        .lr = "0.125",
                                        .workers = 5,
                                        .steps = 6,
                                        .apart = true };
            test_replicas a, b;

            if (strstr(o.strategy, "drop") && strcmp(o.topology, "halton") == 0)
                continue; /* directed links drop one by one: rows sum to 1, columns do not */
            run_ok(&o, &a);
            o.steps++;
            run_ok(&o, &b);
            for (int64_t i = 0; i < a.count; i++) {
                double g = 0;

                for (int64_t w = 0; w < o.workers; w++)
                    g += (double)test_replicas_gradient(w, o.steps - 1, i) / (double)o.workers;
                assert_true(fabs(test_replicas_mean(b.last, o.workers, i) -
                                 (test_replicas_mean(a.last, o.workers, i) - 0.125 * g)) < 1e-6);
            }
            test_replicas_free(&a);
            test_replicas_free(&b);
        }
}

/* Where links drop, distant workers run ahead of each other; a target that is reached still stops
 * all of them at one step, and nobody is left waiting. */
static void all_stop_together(void **state)
{
    static const char *const topologies[] = { "topology=ring", "topology=full", "topology=pairs" };

    (void)state;
    for (size_t i = 0; i < 3; i++)
        for (int seed = 1; seed <= 8; seed++) {
            char text[32];
            const char *const options[] = { "model=mlp:hidden=8",
                                            "data=digits:train=320,test=32",
                                            "engine=ref",
                                            "plan=no",
                                            "transport=sim",
                                            "cluster=hetero:speed_jitter=3",
                                            "timeout=60",
                                            "batch=4",
                                            "steps=60",
                                            "evaluate=3steps",
                                            "target=0.001",
                                            "workers=8",
                                            "lr=0.01",
                                            "strategy=gossip:drop=0.9",
                                            topologies[i],
                                            text,
                                            NULL };
            fast_run *run = NULL;

            snprintf(text, sizeof text, "seed=%d", seed);
            assert_int_equal(fast_run_open(options, &run), FAST_OK);
            if (fast_run_train(run) != FAST_OK)
                fail_msg("%s, %s: %s", topologies[i], text, fast_error_detail());
            assert_string_equal(fast_run_result(run)->stop, "target");
            fast_run_close(run);
        }
}

/* Adapt, then combine on the full graph is to average at each step; so is one's own gradient mixed
 * with all others'. With real gradients. */
static void full_graph_is_averaging(void **state)
{
    static const char *const members[] = { "gossip:first=adapt", "gossip:sends=gradients",
                                           "gossip:push=yes", "partial:how=scatter,slack=0",
                                           "partial:how=scatter,sends=gradients,slack=0" };

    (void)state;
    for (int64_t workers = 2; workers <= 5; workers += 3)
        for (size_t m = 0; m < sizeof members / sizeof *members; m++) {
            test_replicas_options o = {
                .workers = workers, .steps = 12, .lr = "0.1", .learner = true
            };
            test_replicas a, b;

            o.strategy = "local:period=1";
            run_ok(&o, &a);
            o.strategy = members[m];
            o.topology = "full";
            run_ok(&o, &b);
            for (int64_t i = 0; i < a.count; i++)
                assert_true(fabs((double)a.last[0][i] - (double)b.last[workers - 1][i]) < 2e-6);
            test_replicas_free(&a);
            test_replicas_free(&b);
        }
}

/* Without updates the distance to the mean shrinks by 1 - gap in each exchange. */
static void replicas_converge_at_the_rate_of_the_gap(void **state)
{
    static const char *const topologies[] = { "full",  "ring",   "line",       "star",
                                              "torus", "halton", "exponential" };
    static const char *const members[] = { "gossip", "gossip:first=adapt", "gossip:push=yes" };

    (void)state;
    for (size_t k = 0; k < sizeof topologies / sizeof *topologies; k++)
        for (size_t m = 0; m < sizeof members / sizeof *members; m++) {
            const test_replicas_options o = { .strategy = members[m],
                                              .topology = topologies[k],
                                              .workers = 6,
                                              .steps = 10,
                                              .apart = true };
            fast_topology *topology = NULL;
            test_replicas r;
            double bound;

            assert_int_equal(fast_topology_new(topologies[k], 6, 1, &topology), FAST_OK);
            run_ok(&o, &r);
            bound = pow(1 - fast_topology_gap(topology), 10) *
                    test_replicas_distance(r.first, 6, r.count);
            if (test_replicas_distance(r.last, 6, r.count) > bound * 1.0001 + 1e-5)
                fail_msg("%s on %s: %g > %g", members[m], topologies[k],
                         test_replicas_distance(r.last, 6, r.count), bound);
            assert_true(mean_error(&r, 1.0 / 6) < 1e-6);
            test_replicas_free(&r);
            fast_topology_free(topology);
        }
}

/* Graphs that change: pairs rotate through all partners in a period; dimensions of a cube one by
 * one make the mean in log P steps; drops and corrections only delay it. */
static void rotating_partners_reach_the_mean(void **state)
{
    static const struct {
        const char *strategy, *topology;
        int64_t workers, steps;
        double within;
    } cases[] = { { "gossip:first=adapt", "hypercube:one=yes", 8, 3, 1e-6 },
                  { "gossip:push=yes", "exponential:one=yes", 8, 3, 1e-6 },
                  { "gossip:first=adapt", "exponential:one=yes,renumber=4", 8, 3, 1e-6 },
                  { "gossip:first=adapt", "exponential:one=yes,renumber=4", 16, 4, 1e-6 },
                  { "gossip:first=adapt", "grid", 12, 2, 1e-6 },
                  { "gossip:first=adapt", "grid:axes=3", 8, 3, 1e-6 },
                  { "gossip:first=adapt", "pairs", 7, 80, 1e-3 },
                  { "gossip:first=adapt,period=2", "pairs:order=random", 8, 120, 1e-3 },
                  { "gossip:drop=0.5", "ring", 5, 120, 1e-3 },
                  { "gossip:drop=1,correct=1", "pairs", 5, 60, 1e-3 },
                  { "gossip:push=yes,drop=0.3", "exponential", 6, 60, 1e-3 } };

    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const test_replicas_options o = { .strategy = cases[k].strategy,
                                          .topology = cases[k].topology,
                                          .workers = cases[k].workers,
                                          .steps = cases[k].steps,
                                          .apart = true };
        test_replicas r;

        run_ok(&o, &r);
        if (replica_error(&r, 1 / (double)o.workers) > cases[k].within)
            fail_msg("%s on %s: %g from the mean", o.strategy, o.topology,
                     replica_error(&r, 1 / (double)o.workers));
        test_replicas_free(&r);
    }
}

/* A directed graph with unequal degrees: push-sum finds the mean, plain mixing is refused. */
static void push_sum_keeps_the_mean(void **state)
{
    char path[] = "fast_gossip_XXXXXX";
    char topology[64];
    test_replicas_options o = { .strategy = "gossip:push=yes",
                                .topology = topology,
                                .workers = 4,
                                .steps = 150,
                                .apart = true };
    test_replicas r;
    const int file = mkstemp(path);
    FILE *f = fdopen(file, "w");

    (void)state;
    assert_non_null(f);
    fputs("directed\n0 1\n1 2\n2 3\n3 0\n0 2\n0 3\n1 3\n", f);
    fclose(f);
    snprintf(topology, sizeof topology, "file:%s", path);
    run_ok(&o, &r);
    assert_true(replica_error(&r, 0.25) < 1e-5);
    test_replicas_free(&r);
    snprintf(topology, sizeof topology, "topology=file:%s", path);
    fast_run *run = NULL;
    assert_int_equal(
        fast_run_open((const char *[]){ "strategy=gossip", "workers=4",
                                        "data=digits:train=400,test=100", topology, NULL },
                      &run),
        FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "fits push-sum only"));
    assert_null(run);
    unlink(path);
}

/* Pairwise averages leave the mean where it is, to rounding; nobody waits forever, on any graph, at
 * any pace, and nobody takes less than its steps. */
static void averages_never_deadlock(void **state)
{
    static const char *const topologies[] = { "full", "ring", "star", "halton" };
    static const char *const clusters[] = { "cluster=wan", "cluster=hetero", "cluster=edge" };

    (void)state;
    for (int64_t workers = 2; workers <= 9; workers++)
        for (int64_t seed = 1; seed <= SEEDS; seed++) {
            const test_replicas_options o = { .strategy = seed % 2
                                                              ? "gossip_async"
                                                              : "gossip_async:overlap=no,p=0.7",
                                              .topology = topologies[seed % 4],
                                              .cluster = clusters[seed % 3],
                                              .workers = workers,
                                              .steps = 30,
                                              .seed = seed,
                                              .apart = true };
            test_replicas r;

            run_ok(&o, &r);
            for (int64_t k = 0; k < workers; k++)
                assert_int_equal(r.steps[k], 30);
            assert_true(mean_error(&r, 1 / (double)workers) < 1e-6);
            test_replicas_free(&r);
        }
}

/* The same with nodes that stand still and links that are cut: all still finish. */
static void averages_get_over_pauses(void **state)
{
    (void)state;
    for (int64_t workers = 2; workers <= 9; workers += 2)
        for (int64_t seed = 1; seed <= SEEDS; seed++) {
            const test_replicas_options o = { .strategy = "gossip_async",
                                              .cluster = "cluster=wan",
                                              .faults =
                                                  "random:count=4,kinds=pause+slow+cut,span=2s",
                                              .workers = workers,
                                              .steps = 30,
                                              .seed = seed,
                                              .apart = true };
            test_replicas r;

            run_ok(&o, &r);
            for (int64_t k = 0; k < workers; k++)
                assert_int_equal(r.steps[k], 30);
            test_replicas_free(&r);
        }
}

/* Write a topology of these lines to a file, and its option to text[64]. */
static void write_topology(const char *lines, char *path, char *text)
{
    FILE *f = fdopen(mkstemp(path), "w");

    assert_non_null(f);
    fputs(lines, f);
    fclose(f);
    snprintf(text, 64, "file:%s", path);
}

/* An edge of probability 0 is never chosen: 0 and 1 have the mean of theirs, 2 and 3 of theirs.
 * Chosen uniformly, the same edges lead all workers to one mean; so do optimised probabilities, and
 * on a line they leave less distance to it than uniform ones. */
static void edges_have_their_probabilities(void **state)
{
    char path[] = "fast_gossip_XXXXXX", topology[64];
    test_replicas_options o = { .topology = topology, .workers = 4, .steps = 60, .apart = true };
    double distance[2] = { 0 };
    test_replicas r;

    (void)state;
    write_topology("0 1 0.5\n1 2 0\n2 3 0.5\n", path, topology);
    o.strategy = "gossip_async:edges=weights";
    run_ok(&o, &r);
    for (int64_t k = 0; k < 4; k++)
        for (int64_t i = 0; i < 4; i++)
            assert_true((double)r.last[k][i] == (i / 2 == k / 2 ? 0.5 : 0));
    test_replicas_free(&r);
    o.strategy = "gossip_async";
    run_ok(&o, &r);
    assert_true(replica_error(&r, 0.25) < 0.01);
    test_replicas_free(&r);
    unlink(path);
    o = (test_replicas_options){ .topology = "line", .workers = 8, .steps = 40, .apart = true };
    for (int best = 0; best < 2; best++)
        for (o.seed = 1; o.seed <= 8; o.seed++) {
            o.strategy = best ? "gossip_async:edges=best" : "gossip_async:edges=weights";
            run_ok(&o, &r);
            distance[best] += test_replicas_distance(r.last, 8, r.count) / 8;
            assert_true(mean_error(&r, 1.0 / 8) < 1e-6);
            test_replicas_free(&r);
        }
    print_message("a line of 8: distance %g, best %g\n", distance[0], distance[1]);
    assert_true(distance[1] < 0.9 * distance[0]);
}

/* Graphs that change have no probabilities of edges, and many workers no optimum of them. */
static void probabilities_need_few_fixed_edges(void **state)
{
    static const char *const cases[][4] = {
        { "strategy=gossip_async:edges=best", "topology=pairs", "workers=4", "stay the same" },
        { "strategy=gossip_async:edges=weights", "topology=grid", "workers=4", "stay the same" },
        { "strategy=gossip_async:edges=best", "topology=ring", "workers=1025", "at most 1024" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const options[] = { "data=digits:train=4100,test=100",
                                        "model=mlp:hidden=8",
                                        "engine=ref",
                                        "transport=sim",
                                        "steps=2",
                                        "batch=4",
                                        cases[i][0],
                                        cases[i][1],
                                        cases[i][2],
                                        NULL };
        fast_run *run = NULL;

        assert_int_equal(fast_run_open(options, &run), FAST_OK);
        assert_int_equal(fast_run_train(run), FAST_EINVAL);
        if (!strstr(fast_error_detail(), cases[i][3]))
            fail_msg("%s: %s", cases[i][0], fast_error_detail());
        fast_run_close(run);
    }
}

/* Of more than 64 workers worker 0 finds the probabilities and sends them. Where it is down, and
 * without messages, the others find the same ones for themselves. */
static void many_workers_have_probabilities(void **state)
{
    static const char *const edges[] = { "best", "weights", "best" };
    uint64_t hashes[3];

    (void)state;
    for (int i = 0; i < 3; i++) {
        char strategy[64];
        const char *const options[] = { "data=digits:train=400,test=100",
                                        "model=mlp:hidden=4",
                                        "engine=ref",
                                        "transport=sim",
                                        "topology=line",
                                        "workers=66",
                                        "steps=4",
                                        "batch=4",
                                        "evaluate=no",
                                        strategy,
                                        i < 2 ? "seed=1" : "faults=crash 0 at 1ns",
                                        NULL };
        fast_run *run = NULL;

        snprintf(strategy, sizeof strategy, "strategy=gossip_async:edges=%s", edges[i]);
        assert_int_equal(fast_run_open(options, &run), FAST_OK);
        if (fast_run_train(run) != FAST_OK)
            fail_msg("%s: %s", strategy, fast_error_detail());
        assert_int_equal(fast_run_result(run)->workers_lost, i == 2);
        hashes[i] = fast_run_result(run)->params_hash;
        fast_run_close(run);
    }
    assert_int_not_equal(hashes[0], hashes[1]);
}

/* Masses are conserved: where pushes come together is the mean of where they began. */
static void pushes_conserve_mass(void **state)
{
    (void)state;
    for (int64_t workers = 2; workers <= 8; workers += 3)
        for (int64_t seed = 1; seed <= 3; seed++) {
            const test_replicas_options o = { .strategy = "gossip_async:how=push,p=0.5",
                                              .workers = workers,
                                              .steps = 400,
                                              .seed = seed,
                                              .apart = true };
            test_replicas r;

            run_ok(&o, &r);
            if (replica_error(&r, 1 / (double)workers) > 2e-3)
                fail_msg("%d workers, seed %d: %g from the mean", (int)workers, (int)seed,
                         replica_error(&r, 1 / (double)workers));
            test_replicas_free(&r);
        }
}

/* Every asynchronous member comes to some agreement without updates, also where it has no mass. */
static void all_members_come_together(void **state)
{
    static const char *const members[] = { "gossip_async",
                                           "gossip_async:overlap=no,p=0.3",
                                           "gossip_async:how=push,mass=no",
                                           "gossip_async:how=pull",
                                           "gossip_async:how=pull,p=0.3",
                                           "partial:how=scatter",
                                           "partial:how=states,window=no,part=0.4" };

    (void)state;
    for (size_t m = 0; m < sizeof members / sizeof *members; m++)
        for (int threads = 0; threads < 2; threads++) {
            const test_replicas_options o = { .strategy = members[m],
                                              .transport = threads ? "threads" : "sim",
                                              .workers = 4,
                                              .steps = 300,
                                              .apart = true };
            test_replicas r;

            run_ok(&o, &r);
            if (!threads && test_replicas_distance(r.last, 4, r.count) > 0.02)
                fail_msg("%s: %g apart", members[m], test_replicas_distance(r.last, 4, r.count));
            for (int64_t k = 0; k < 4; k++) /* shares sum to 1 */
                assert_true(
                    fabs((double)(r.last[k][0] + r.last[k][1] + r.last[k][2] + r.last[k][3]) - 1) <
                    (strstr(members[m], "states") ? 1 : 1e-4));
            test_replicas_free(&r);
        }
}

static void the_same_seed_is_the_same_run(void **state)
{
    static const char *const members[] = { "gossip:drop=0.3",       "gossip_async",
                                           "gossip_async:how=push", "gossip_async:how=pull",
                                           "partial:parts=0",       "partial:how=scatter",
                                           "partial:how=states" };

    (void)state;
    for (size_t m = 0; m < sizeof members / sizeof *members; m++) {
        test_replicas_options o = { .strategy = members[m],
                                    .cluster = "cluster=wan",
                                    .workers = 4,
                                    .steps = 20,
                                    .lr = "0.1",
                                    .seed = 5,
                                    .learner = true };
        test_replicas r[3];

        run_ok(&o, &r[0]);
        run_ok(&o, &r[1]);
        o.seed = 6;
        run_ok(&o, &r[2]);
        assert_true(r[0].result.params_hash == r[1].result.params_hash);
        assert_true(r[0].result.params_hash != r[2].result.params_hash);
        for (int i = 0; i < 3; i++)
            test_replicas_free(&r[i]);
    }
}

/* A worker that crashes is left behind by the asynchronous members, and stops the synchronous one
 * by its name. */
static void survivors_finish(void **state)
{
    static const char *const members[] = { "gossip_async",
                                           "gossip_async:overlap=no",
                                           "gossip_async:how=push",
                                           "gossip_async:how=pull",
                                           "partial",
                                           "partial:how=scatter",
                                           "partial:how=states",
                                           "partial:how=scatter,slack=2" };

    (void)state;
    for (size_t m = 0; m < sizeof members / sizeof *members; m++)
        for (int restart = 0; restart < 2; restart++) {
            const test_replicas_options o = { .strategy = members[m],
                                              .cluster = "cluster=wan",
                                              .faults = restart
                                                            ? "crash 1 at 300ms; restart 1 at 900ms"
                                                            : "crash 1 at 300ms",
                                              .lr = "0.1",
                                              .workers = 4,
                                              .steps = 60,
                                              .learner = true };
            test_replicas r;

            test_replicas_run(&o, &r);
            if (r.err != FAST_OK && r.err != FAST_ECANCELED)
                fail_msg("%s: %s", members[m], fast_error_detail());
            for (int64_t k = 0; k < 4; k++)
                if (k != 1) {
                    assert_int_equal(r.steps[k], 60);
                    assert_non_null(r.last[k]);
                }
            test_replicas_free(&r);
        }
    {
        const test_replicas_options o = { .strategy = "gossip",
                                          .cluster = "cluster=wan",
                                          .faults = "crash 1 at 300ms",
                                          .workers = 4,
                                          .steps = 60 };
        test_replicas r;

        test_replicas_run(&o, &r);
        assert_true(r.err == FAST_EPEER || r.err == FAST_ETIMEDOUT);
        assert_non_null(strstr(fast_error_detail(), "worker 1"));
        test_replicas_free(&r);
    }
}

/* Whichever allocation fails, the run says so, and nothing is lost (sanitizers look for that). */
static void memory_may_run_out(void **state)
{
    static const char *const members[] = {
        "gossip:drop=0.1", "gossip_async",         "gossip_async:how=push",
        "partial",         "partial:how=scatter",  "partial:how=states",
        "broadcast",       "broadcast:how=gossip", "gossip_async:edges=best"
    };

    (void)state;
    for (size_t m = 0; m < sizeof members / sizeof *members; m++)
        for (int64_t n = 1; n < 60; n++) {
            const test_replicas_options o = {
                .strategy = members[m], .workers = 3, .steps = 4, .alloc_fail = n
            };
            test_replicas r;

            test_replicas_run(&o, &r);
            /* A simulated node that has no memory for its network's events crashes. */
            if (r.err != FAST_OK && r.err != FAST_ENOMEM && r.err != FAST_EPEER &&
                r.err != FAST_ECANCELED)
                fail_msg("%s, allocation %d: %s", members[m], (int)n, fast_error_detail());
            if (n == 1)
                assert_null(r.last[0]); /* the other workers may continue */
            test_replicas_free(&r);
        }
}

static void nonsense_is_refused(void **state)
{
    static const char *const bad[] = { "strategy=gossip:sends=gradients,push=yes",
                                       "strategy=gossip:sends=gradients,period=2",
                                       "strategy=gossip:sends=gradients,rounds=2",
                                       "strategy=gossip:drop=2", "strategy=gossip_async:p=-1" };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *const options[] = { bad[i], "workers=2", "data=digits:train=32,test=8",
                                        "plan=no", NULL };
        fast_run *run = NULL;

        assert_int_equal(fast_run_open(options, &run), FAST_EINVAL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mean_moves_by_the_mean_gradient),
        cmocka_unit_test(all_stop_together),
        cmocka_unit_test(full_graph_is_averaging),
        cmocka_unit_test(replicas_converge_at_the_rate_of_the_gap),
        cmocka_unit_test(rotating_partners_reach_the_mean),
        cmocka_unit_test(push_sum_keeps_the_mean),
        cmocka_unit_test(averages_never_deadlock),
        cmocka_unit_test(averages_get_over_pauses),
        cmocka_unit_test(edges_have_their_probabilities),
        cmocka_unit_test(probabilities_need_few_fixed_edges),
        cmocka_unit_test(many_workers_have_probabilities),
        cmocka_unit_test(pushes_conserve_mass),
        cmocka_unit_test(all_members_come_together),
        cmocka_unit_test(the_same_seed_is_the_same_run),
        cmocka_unit_test(survivors_finish),
        cmocka_unit_test(memory_may_run_out),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
