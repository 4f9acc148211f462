/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: predictions of plans are those of the simulator, and where the right plan is obvious it is
 * found.
 *
 * Method: plans of each dimension, schedule, exchange and uneven nodes are dry runs, and are
 * trained for a few steps; known answers on clusters where one thing decides.
 */
#include "fast/lab.h"
#include "fast/run.h"

#include "base/memory.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define DATA "data=digits:train=512,test=16"

/* Plan with these options; the result is the caller's. */
static fast_plan_result *plan(const char *const *options)
{
    fast_plan_result *result = NULL;

    if (fast_plan_run(options, NULL, NULL, &result))
        fail_msg("%s", fast_error_detail());
    assert_true(result->row_count >= 1);
    return result;
}

/* The prediction of the best plan is within a part of what a run takes. */
static void check_prediction(double part, const char *a, const char *b, const char *c)
{
    const char *const options[] = { DATA, "batch=32", "top=1", "cluster=hetero:speed_jitter=0",
                                    a,    b,          c,       NULL };
    fast_plan_result *r = plan(options);
    const fast_plan_row *row = &r->rows[0];

    assert_true(isfinite(row->verified_s) && row->verified_s > 0);
    if (fabs(row->step_s - row->verified_s) > part * row->verified_s)
        fail_msg("%s: %g s instead of %g s", row->options, row->step_s, row->verified_s);
    assert_true(row->estimate_s > row->verified_s / 2 && row->estimate_s < row->verified_s * 2);
    fast_plan_free(r);
}

static void predictions_are_those_of_runs(void **state)
{
    (void)state;
    check_prediction(0.02, "model=mlp:hidden=96x96", "mesh=data=1,pipe=3,tensor=1", "accumulate=4");
    check_prediction(0.02, "model=mlp:hidden=96x96", "mesh=data=4,pipe=1,tensor=1", "accumulate=1");
#ifndef FAST_SLOW
    check_prediction(0.02, "model=mlp:hidden=96x96", "mesh=data=1,pipe=2,tensor=1",
                     "pipeline=gpipe");
    check_prediction(0.02, "model=mlp:hidden=96x96", "mesh=data=2,pipe=2,tensor=1", "accumulate=2");
    check_prediction(0.02, "model=mlp:hidden=512x96", "mesh=data=1,pipe=1,tensor=4",
                     "accumulate=2");
    check_prediction(0.02, "model=lenet", "mesh=data=2,pipe=2,tensor=1", "accumulate=4");
    check_prediction(0.1, "model=mlp:hidden=96x96", "mesh=data=1,pipe=1,tensor=4", "layout=cannon");
    check_prediction(0.15, "model=mlp:hidden=256x256", "mesh=data=4,pipe=1,tensor=1",
                     "strategy=zero:stage=2");
    check_prediction(0.15, "model=mlp:hidden=256x256", "mesh=data=4,pipe=1,tensor=1",
                     "strategy=zero:stage=3");
    check_prediction(0.15, "model=mlp:hidden=96x96", "mesh=data=1,pipe=3,tensor=1",
                     "pipeline=pipedream");
#endif
}

/* The memory of a worker is predicted too. */
static void memory_is_that_of_runs(void **state)
{
    const char *const options[] = { DATA,    "model=mlp:hidden=256x256",    "batch=64",
                                    "top=1", "mesh=data=1,pipe=2,tensor=1", "cluster=ethernet-1g",
                                    NULL };
    fast_plan_result *r = plan(options);
    const double ratio = (double)r->rows[0].memory / (double)r->rows[0].verified_memory;

    (void)state;
    if (ratio < 0.9 || ratio > 1.1)
        fail_msg("%lld bytes instead of %lld", (long long)r->rows[0].memory,
                 (long long)r->rows[0].verified_memory);
    fast_plan_free(r);
}

/* The same where activations are computed twice: the network takes 13 MB otherwise. */
static void memory_of_recomputation_is_that_of_runs(void **state)
{
    const char *const options[] = { DATA,
                                    "model=resnet8",
                                    "batch=16",
                                    "top=1",
                                    "mesh=data=4,pipe=1,tensor=1",
                                    "cluster=infiniband:nodes=4,capacity=10MB",
                                    NULL };
    (void)state;
#ifdef FAST_SANITIZED
    skip(); /* blocks take more there */
#endif
    fast_plan_result *r = plan(options);
    const double ratio = (double)r->rows[0].memory / (double)r->rows[0].verified_memory;

    assert_non_null(strstr(r->rows[0].options, "--recompute yes"));
    if (ratio < 0.9 || ratio > 1.1)
        fail_msg("%lld bytes instead of %lld", (long long)r->rows[0].memory,
                 (long long)r->rows[0].verified_memory);
    fast_plan_free(r);
}

/* Plan a wide mlp without a run on a cluster; returns the mesh of the best plan. */
static void best_mesh(const char *cluster, const char *model, const char *more, char mesh[64],
                      char *flags, size_t size)
{
    char place[512];
    const char *const options[] = { DATA,          model, "batch=64", "top=1", "verify=no",
                                    "dry_runs=24", place, more,       NULL };

    snprintf(place, sizeof place, "cluster=%s", cluster);
    fast_plan_result *r = plan(options);
    snprintf(mesh, 64, "%s", r->rows[0].mesh);
    if (flags)
        snprintf(flags, size, "%s", r->rows[0].options);
    fast_plan_free(r);
}

#define WIDE "model=mlp:hidden=512x512x512"

static void a_slow_link_wants_stages(void **state)
{
    char mesh[64];

    (void)state;
    best_mesh("ethernet-1g:nodes=2,bandwidth=200Mbit/s", WIDE, "workers=2", mesh, NULL, 0);
    assert_string_equal(mesh, "data=1,pipe=2");
}

static void a_fast_link_and_much_computing_want_replicas(void **state)
{
    char mesh[64];

    (void)state;
    best_mesh("infiniband:nodes=4", "model=resnet8", "workers=4", mesh, NULL, 0);
    assert_string_equal(mesh, "data=4");
}

static void a_link_that_is_too_slow_wants_one_worker(void **state)
{
    char mesh[64];

    (void)state;
    best_mesh("wan:nodes=4", WIDE, "workers=4", mesh, NULL, 0);
    assert_string_equal(mesh, "data=1");
}

static void little_memory_wants_parts(void **state)
{
    char mesh[64], flags[512];

    (void)state;
    /* Parameters, gradient and momentum take 11 MB. */
    best_mesh("infiniband:nodes=4,capacity=6MB", WIDE, "strategy=allreduce", mesh, flags,
              sizeof flags);
    assert_true(strstr(mesh, "pipe=") || strstr(mesh, "tensor="));
    best_mesh("infiniband:nodes=4,capacity=8MB", WIDE, "mesh=data=4,pipe=1,tensor=1", mesh, flags,
              sizeof flags);
    assert_non_null(strstr(flags, "--strategy zero"));
}

static void without_memory_there_is_no_plan(void **state)
{
    const char *const options[] = { DATA, WIDE, "batch=64", "memory=20kB", "verify=no", NULL };
    fast_plan_result *r = NULL;

    (void)state;
    assert_int_equal(fast_plan_run(options, NULL, NULL, &r), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "fits the memory"));
}

/* A plan that took too much memory in its run is not shown as one that is possible. */
static void what_does_not_fit_is_not_shown(void **state)
{
    const char *const options[] = { "data=copy:train=256,test=16",
                                    "model=gpt:depth=2,width=32",
                                    "cluster=infiniband:nodes=4,capacity=1.8MB",
                                    "batch=32",
                                    "top=1",
                                    "dry_runs=16",
                                    NULL };
    fast_plan_result *r = plan(options);

    (void)state;
    for (int64_t i = 0; i < r->other_count; i++)
        if (r->others[i].step_s < r->rows[0].step_s)
            fail_msg("%s takes %g s, the best %g s", r->others[i].mesh, r->others[i].step_s,
                     r->rows[0].step_s);
    fast_plan_free(r);
}

#ifdef FAST_HAVE_YAML

/* Write a cluster file; its name is the caller's. */
static void write_cluster(const char *text, char path[64])
{
    snprintf(path, 64, "/tmp/fast_plan_XXXXXX.yaml");
    const int fd = mkstemps(path, 5);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static void one_fast_node_wants_one_worker(void **state)
{
    char path[64], mesh[64], flags[512];

    (void)state;
    write_cluster("nodes:\n  count: 4\n  speed: 1GFLOP/s\n  overrides:\n    - nodes: 2\n"
                  "      speed: 100GFLOP/s\nlinks:\n  latency: 50us\n  bandwidth: 1Gbit/s\n",
                  path);
    best_mesh(path, WIDE, "workers=4", mesh, flags, sizeof flags);
    unlink(path);
    assert_string_equal(mesh, "data=1");
    assert_non_null(strstr(flags, "--placement 2"));
}

static void a_fast_node_gets_more_layers(void **state)
{
    char path[64], mesh[64], flags[512];

    (void)state;
    write_cluster("nodes:\n  count: 2\n  speed: 10GFLOP/s\n  overrides:\n    - nodes: 1\n"
                  "      speed: 30GFLOP/s\nlinks:\n  latency: 1us\n  bandwidth: 10Gbit/s\n",
                  path);
    best_mesh(path, "model=mlp:hidden=512x512x512x512x512", "mesh=data=1,pipe=2,tensor=1", mesh,
              flags, sizeof flags);
    unlink(path);
    /* Six layers of which four and a half are the fast node's share. */
    assert_true((strstr(flags, "--cuts dense2 ") || strstr(flags, "--cuts dense3 "))
                    ? strstr(flags, "--placement") == NULL
                    : strstr(flags, "--cuts dense5") && strstr(flags, "--placement 1,0"));
}

#endif

static void words_that_are_wrong_are_refused(void **state)
{
    static const char *const wrong[][2] = {
        { "planner=magic", "no planner" },
        { "strategy=gossip", "allreduce, zero and ps:slack=0" },
        { "strategy=ps", "ps:slack=0" },
        { "cuts=nothing", "no layer nothing" },
        { "memory=much", "memory=much: write a size" },
        { "memory=1KB", "the fastest takes" },
        { "memory=-1MB", "memory=-1MB: write a size" },
        { "workers=4000", "workers" },
        { "layout=diagonal", "no kind of split" },
        { "mesh=depth=2", "depth" },
        { "mesh=pipe=2,pipe=3", "pipe 2 times" },
        { "mesh=data=3", "as it is asked for" },
        { "strategy=zero:stage=4", "stage" },
        { "strategy=zero:stages=2", "no option" },
        { "strategy=ps:slack=0,nope=1", "no option" },
        { "system=gpipe", "system=gpipe has no meaning" },
        { "transport=mpi", "transport=mpi has no meaning" },
        { "tied=yes", "leave it out" },
        { "batch=513", "there are 512 samples" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const char *const options[] = { DATA, "model=mlp:hidden=8x8", "verify=no", wrong[i][0],
                                        NULL };
        fast_plan_result *r = NULL;

        assert_int_equal(fast_plan_run(options, NULL, NULL, &r), FAST_EINVAL);
        if (!strstr(fast_error_detail(), wrong[i][1]))
            fail_msg("%s: %s", wrong[i][0], fast_error_detail());
    }
}

/* Layers that have no time in plans are planned without their own kind of split. */
static void every_planner_takes_rollouts(void **state)
{
    static const char *const planners[] = { "planner=exhaustive",          "planner=pipedream",
                                            "planner=layerwise",           "planner=soap:budget=20",
                                            "planner=reinforce:budget=20", "planner=list" };

    (void)state;
    for (size_t i = 0; i < sizeof planners / sizeof planners[0]; i++) {
        const char *const options[] = { DATA,        "model=rollout:hidden=8x8",
                                        "workers=2", "verify=no",
                                        planners[i], NULL };
        fast_plan_free(plan(options));
    }
}

/* Every planner finds a plan that is not much slower than the exhaustive one. */
static void planners_find_good_plans(void **state)
{
    static const struct {
        const char *planner; /* its name */
        const char *cuts;    /* or none */
        double slower;       /* than the best, at most */
    } tried[] = {
        { "planner=exhaustive", "cuts=", 1 },
        { "planner=pipedream", "cuts=", 1.5 },
        { "planner=layerwise", "cuts=", 1.3 },
        { "planner=soap:budget=60", "cuts=", 1.3 },
        { "planner=reinforce:budget=80", "cuts=", 1.3 },
        { "planner=list", "cuts=", 1.5 },
        { "planner=list:rule=heft", "cuts=", 3 },
        { "planner=hand", "cuts=dense3", 3 },
    };
    double best = 0;

    (void)state;
    for (size_t i = 0; i < sizeof tried / sizeof tried[0]; i++) {
        const char *const options[] = { DATA,          WIDE,
                                        "batch=64",    "top=1",
                                        "verify=no",   "cluster=hetero:speed_jitter=0",
                                        "workers=4",   tried[i].planner,
                                        tried[i].cuts, NULL };
        fast_plan_result *r = plan(options);

        assert_true(r->offered > 0 && r->dry_runs > 0);
        best = i == 0 ? r->rows[0].step_s : best;
        if (r->rows[0].step_s > tried[i].slower * best * 1.001)
            fail_msg("%s: %s takes %.2f of the best", tried[i].planner, r->rows[0].options,
                     r->rows[0].step_s / best);
        fast_plan_free(r);
    }
}

/* Layers that no shard should divide are left whole, and those that it should are not. */
static void layers_have_layouts_of_their_own(void **state)
{
    const char *const options[] = { DATA,
                                    "model=mlp:hidden=512x512",
                                    "batch=16",
                                    "top=1",
                                    "verify=sim",
                                    "cluster=ethernet-10g:nodes=2",
                                    "planner=layerwise",
                                    "mesh=data=1,pipe=1,tensor=2",
                                    NULL };
    fast_plan_result *r = plan(options);

    (void)state;
    assert_non_null(strstr(r->rows[0].options, "--layout dense1=pairs,dense2=pairs"));
    assert_true(fabs(r->rows[0].verified_s / r->rows[0].step_s - 1) < 0.05);
    fast_plan_free(r);
}

/* Open a run with mesh=auto; the caller closes it. */
static fast_run *open_auto(const char *a, const char *b, const char *c)
{
    const char *const options[] = { DATA,          "mesh=auto",  a,   b, c, "batch=32", "steps=3",
                                    "evaluate=no", "store=none", NULL };
    fast_run *run = NULL;

    if (fast_run_open(options, &run))
        fail_msg("%s", fast_error_detail());
    return run;
}

static void a_mesh_is_chosen(void **state)
{
    fast_run *run =
        open_auto(WIDE, "transport=sim", "cluster=ethernet-1g:nodes=2,bandwidth=300Mbit/s");

    (void)state;
    assert_non_null(strstr(fast_run_option(run, "mesh"), "pipe=2"));
    assert_string_not_equal(fast_run_option(run, "cuts"), "");
    assert_int_equal(fast_run_train(run), FAST_OK);
    assert_int_equal(fast_run_result(run)->samples, 3 * 32);
    fast_run_close(run);
    run = open_auto(WIDE, "transport=sim", "cluster=wan:nodes=4");
    assert_string_equal(fast_run_option(run, "mesh"), "data=1");
    fast_run_close(run);
    /* As many workers as are given, each with a batch. */
    run = open_auto("model=mlp:hidden=32", "workers=4", "transport=sim");
    assert_string_equal(fast_run_option(run, "workers"), "4");
    assert_int_equal(fast_run_train(run), FAST_OK);
    assert_int_equal(fast_run_result(run)->samples, 3 * 4 * 32);
    fast_run_close(run);
    run = open_auto("model=mlp:hidden=32", "workers=1", "transport=sim");
    assert_string_equal(fast_run_option(run, "mesh"), "data=1");
    fast_run_close(run);
    /* Rules that need whole matrices, or whole gradients, have neither shards nor stages. */
    run = open_auto("model=mlp:hidden=512x512", "optimizer=muon", "transport=sim");
    assert_null(strstr(fast_run_option(run, "mesh"), "tensor"));
    fast_run_close(run);
    run = open_auto("model=mlp:hidden=512x512", "optimizer=yellowfin", "transport=sim");
    assert_null(strstr(fast_run_option(run, "mesh"), "tensor"));
    assert_null(strstr(fast_run_option(run, "mesh"), "pipe"));
    fast_run_close(run);
}

#ifndef FAST_SANITIZED /* whose memory is no run's */

/* A budget that several workers of a process do not fit into is no reason to refuse the run, as
 * long as one worker does. */
static void little_memory_wants_one_worker(void **state)
{
    static const double above[] = { 1.1, 1.2, 1.4, 1.7, 2, 3 };
    static const char *const models[][2] = {
        { "model=mlp:hidden=1024x1024x512", "optimizer=muon" }, /* which allows no shards */
        { "model=resnet8:width=4", "optimizer=momentum" },
        { "model=resnet8:width=4", "workers=1" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof above / sizeof above[0]; i++)
        for (size_t k = 0; k < sizeof models / sizeof models[0]; k++) {
            const char *const one[] = { models[k][1], DATA,          models[k][0], "mesh=data=1",
                                        "batch=64",   "evaluate=no", "store=none", NULL };
            fast_run *run = NULL;
            char memory[32];

            assert_int_equal(fast_run_open(one, &run), FAST_OK);
            const double least = (double)fast_run_result(run)->predicted_memory;
            fast_run_close(run);
            snprintf(memory, sizeof memory, "memory=%.0fkB", above[i] * least * 1e-3);
            fast_run_close(open_auto(models[k][0], models[k][1], memory));
        }
}

#endif

static void what_contradicts_auto_is_refused(void **state)
{
    static const char *const wrong[][2] = {
        { "strategy=gossip", "allreduce, zero and ps:slack=0" },
        { "placement=1,0", "chooses the nodes" },
        { "cuts=nothing", "no layer nothing" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const char *const options[] = { DATA,        WIDE,         "mesh=auto", "transport=sim",
                                        wrong[i][0], "store=none", NULL };
        fast_run *run = NULL;

        assert_int_equal(fast_run_open(options, &run), FAST_EINVAL);
        if (!strstr(fast_error_detail(), wrong[i][1]))
            fail_msg("%s: %s", wrong[i][0], fast_error_detail());
    }
}

/* Stops a search at once. */
static bool stop(void *ctx, const char *what, int64_t done, int64_t count)
{
    (void)what;
    (void)done;
    (void)count;
    *(int *)ctx += 1;
    return false;
}

static void a_search_can_be_stopped(void **state)
{
    const char *const options[] = { DATA, WIDE, "cluster=hetero", "workers=4", NULL };
    fast_plan_result *r = NULL;
    int calls = 0;

    (void)state;
    assert_int_equal(fast_plan_run(options, stop, &calls, &r), FAST_ECANCELED);
    assert_int_equal(calls, 1);
}

static void every_allocation_may_fail(void **state)
{
    const char *const options[] = { "data=digits:train=64,test=16",
                                    "model=mlp:hidden=8x8",
                                    "engine=ref",
                                    "batch=4",
                                    "verify=no",
                                    "dry_runs=2",
                                    "mesh=data=1,pipe=2",
                                    "accumulate=1",
                                    NULL };
    fast_plan_result *r = NULL;
    fast_err err = FAST_ENOMEM;
#ifdef FAST_SLOW
    const int64_t each = 29;
#else
    const int64_t each = 1;
#endif

    (void)state;
    for (int64_t n = 0; err != FAST_OK; n += each) {
        fast__alloc_fail_after(n, true);
        err = fast_plan_run(options, NULL, NULL, &r);
        fast__alloc_fail_after(-1, true);
        /* Another worker may have had no memory. */
        if (err != FAST_OK && err != FAST_ENOMEM && !strstr(fast_error_detail(), "out of memory"))
            fail_msg("allocation %lld: %s", (long long)n, fast_error_detail());
    }
    fast_plan_free(r);
    fast_plan_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(predictions_are_those_of_runs),
        cmocka_unit_test(memory_is_that_of_runs),
        cmocka_unit_test(memory_of_recomputation_is_that_of_runs),
        cmocka_unit_test(a_slow_link_wants_stages),
        cmocka_unit_test(a_fast_link_and_much_computing_want_replicas),
        cmocka_unit_test(a_link_that_is_too_slow_wants_one_worker),
        cmocka_unit_test(little_memory_wants_parts),
        cmocka_unit_test(without_memory_there_is_no_plan),
        cmocka_unit_test(what_does_not_fit_is_not_shown),
#ifdef FAST_HAVE_YAML
        cmocka_unit_test(one_fast_node_wants_one_worker),
        cmocka_unit_test(a_fast_node_gets_more_layers),
#endif
        cmocka_unit_test(words_that_are_wrong_are_refused),
        cmocka_unit_test(every_planner_takes_rollouts),
        cmocka_unit_test(planners_find_good_plans),
        cmocka_unit_test(layers_have_layouts_of_their_own),
        cmocka_unit_test(a_mesh_is_chosen),
#ifndef FAST_SANITIZED
        cmocka_unit_test(little_memory_wants_one_worker),
#endif
        cmocka_unit_test(what_contradicts_auto_is_refused),
        cmocka_unit_test(a_search_can_be_stopped),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
