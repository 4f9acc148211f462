/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums at a master. Goal: a server that is reached by any path is `allreduce` to the bit, and a
 * master that averages models is `local` to the bit, for any number of workers, rule and state; the
 * master is on a node of its own; a crash ends the run with an error, and a checkpoint continues as
 * if nothing had happened. Method: small runs compared by their hashes; the times of the paths are
 * in ps_time_test.c.
 */
#include "replicas.h"
#include "small_run.h"

#include "base/folder_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *const paths[] = { "tree", "scatter", "direct" };

/* The bits of a run of a strategy, whose %s is the path. */
static uint64_t bits(const char *strategy, int i, int workers, const char *const *more)
{
    char text[96];

    if (i < 0)
        snprintf(text, sizeof text, "%s", strategy);
    else
        snprintf(text, sizeof text, "%s%s", strategy, paths[i]);
    return test_small_run(text, workers, more).params_hash;
}

/* Every path of `strategy` gives the bits of `other`. */
static void same(const char *strategy, const char *other, int workers, const char *const *more)
{
    const uint64_t expected = bits(other, -1, workers, more);

    for (int i = 0; i < 3; i++)
        if (bits(strategy, i, workers, more) != expected)
            fail_msg("%s%s and %s differ with %d workers", strategy, paths[i], other, workers);
}

/* Any number of workers, rules with a state and with norms of layers, and batch norm. */
static void a_server_is_allreduce_to_the_bit(void **state)
{
    static const char *const momentum[] = { "optimizer=momentum", NULL };
    static const char *const layers[] = { "optimizer=lars", "lr=1", NULL };
    static const char *const threads[] = { "transport=threads", NULL };
    static const char *const normed[] = { "model=resnet8:width=2", "steps=2", "optimizer=adam",
                                          NULL };

    (void)state;
    for (int n = 1; n <= 9; n += n < 5 ? 1 : 2)
        same("ps:slack=0,path=", "allreduce", n, NULL);
    same("ps:slack=0,path=", "allreduce", 3, momentum);
    same("ps:slack=0,path=", "allreduce", 4, layers);
    same("ps:slack=0,path=", "allreduce", 3, threads);
    same("ps:slack=0,path=", "allreduce", 3, normed);
}

/* Periods that divide the run and that do not; the rule's state stays at its worker, is averaged
 * or reset. */
static void a_master_is_local_to_the_bit(void **state)
{
    static const char *const momentum[] = { "optimizer=momentum", NULL };
    static const char *const normed[] = { "model=resnet8:width=2", "steps=2", NULL };

    (void)state;
    for (int n = 1; n <= 6; n++)
        same("local:period=5,master=", "local:period=5", n, NULL);
    same("local:period=4,state=average,master=", "local:period=4,state=average", 3, momentum);
    same("local:period=4,state=reset,master=", "local:period=4,state=reset", 3, momentum);
    same("local:period=4,polyak=0,master=", "local:period=4,polyak=0", 4, NULL);
    same("local:period=4,master=", "local:period=4", 3, normed);
    same("local:period=0,master=", "local:period=0", 3, NULL);
}

/* A run of 12 steps that is continued to 24 has the bits of a run of 24. */
static void a_resumed_run_is_the_same(void **state)
{
    static const char *const strategies[] = { "ps:slack=0,path=tree",
                                              "local:period=4,master=scatter,state=average" };
    char save[256], resume[256];

    (void)state;
    snprintf(save, sizeof save, "checkpoint=%s/m.safetensors", root);
    snprintf(resume, sizeof resume, "resume=%s/m.safetensors", root);
    for (int i = 0; i < 2; i++) {
        const char *const whole[] = { "optimizer=momentum", "schedule=constant", NULL };
        const char *const first[] = { "optimizer=momentum", "schedule=constant", "steps=12", save,
                                      NULL };
        const char *const rest[] = { "optimizer=momentum", "schedule=constant", resume, NULL };

        const uint64_t expected = bits(strategies[i], -1, 3, whole);
        bits(strategies[i], -1, 3, first);
        if (bits(strategies[i], -1, 3, rest) != expected)
            fail_msg("%s: a resumed run has other bits", strategies[i]);
    }
}

/* Without a penalty and an extrapolation, models that are gathered along a tree while workers train
 * are averaged once, as far as the run's model is concerned: that of the last round. No worker
 * waits, and penalty, extrapolation and period change the model. */
static void mpca_gathers_along_the_tree(void **state)
{
    static const char *const threads[] = { "transport=threads", NULL };
    static const char *const slow[] = { "cluster=ethernet-1g", NULL };
    static const char *const still[] = { "lr=0", NULL };
    static const char *const alone = "mpca:tree=yes,rho=0,length=0,period=3";
    uint64_t members[4];

    (void)state;
    for (int n = 1; n <= 7; n += 2)
        assert_int_equal(bits(alone, -1, n, NULL), bits("local:period=0", -1, n, NULL));
    assert_int_equal(bits(alone, -1, 4, threads), bits("local:period=0", -1, 4, threads));
    assert_int_equal(bits("mpca:tree=yes", -1, 4, still), bits("allreduce", -1, 4, still));
    assert_true(test_small_run("mpca:tree=yes", 4, slow).wait_s == 0);
    assert_true(test_small_run("local:period=4", 4, slow).wait_s > 0);
    members[0] = bits("mpca:tree=yes", -1, 4, slow);
    members[1] = bits("mpca:tree=yes,rho=0", -1, 4, slow);
    members[2] = bits("mpca:tree=yes,length=0", -1, 4, slow);
    members[3] = bits("mpca:tree=yes,period=12", -1, 4, slow);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < i; k++)
            assert_int_not_equal(members[i], members[k]);
}

/* Train with a fault, and return the error. */
static fast_err train_with(const char *strategy, const char *fault, char *why, size_t size)
{
    const char *const options[] = { "model=mlp:hidden=12",
                                    "data=digits:train=160,test=32",
                                    "engine=ref",
                                    "plan=no",
                                    "transport=sim",
                                    "batch=4",
                                    "steps=24",
                                    "workers=3",
                                    "optimizer=sgd",
                                    strategy,
                                    fault,
                                    NULL };
    fast_run *run = NULL;

    assert_int_equal(fast_run_open(options, &run), FAST_OK);
    const fast_err err = fast_run_train(run);
    snprintf(why, size, "%s", err ? fast_error_detail() : "");
    fast_run_close(run);
    return err;
}

/* The error names the actor that crashed, a worker or the master. */
static void a_crash_ends_the_run(void **state)
{
    static const char *const strategies[] = { "strategy=ps:slack=0,path=tree",
                                              "strategy=ps:slack=0,path=scatter",
                                              "strategy=local:period=2,master=direct",
                                              "strategy=mpca:tree=yes" };
    char why[512];

    (void)state;
    for (int i = 0; i < 4; i++) {
        /* Nodes 0 to 2 are the workers', and node 3 is the master's alone. */
        assert_int_not_equal(train_with(strategies[i], "faults=crash 1 at 300us", why, sizeof why),
                             FAST_OK);
        assert_non_null(strstr(why, "worker 1"));
        assert_int_not_equal(train_with(strategies[i], "faults=crash 3 at 300us", why, sizeof why),
                             FAST_OK);
        assert_non_null(strstr(why, "server 0"));
    }
}

/* Every failing allocation of an actor ends the run with that error, or with its peers' loss of it;
 * nothing hangs, and nothing is left for the sanitizers to find. */
static void allocations_may_fail(void **state)
{
    static const char *const members[] = { "ps:slack=0,path=tree", "ps:slack=0,path=scatter",
                                           "local:period=2,master=direct", "mpca:tree=yes,period=1",
                                           "ps:proxies=2,free_running=yes" };

    (void)state;
    for (size_t m = 0; m < sizeof members / sizeof *members; m++)
        for (int64_t n = 1; n < 40; n += n < 12 ? 1 : 4) {
            const test_replicas_options o = {
                .strategy = members[m], .workers = 3, .steps = 3, .alloc_fail = n
            };
            test_replicas r;

            test_replicas_run(&o, &r);
            if (r.err != FAST_OK && r.err != FAST_ENOMEM && r.err != FAST_EPEER &&
                r.err != FAST_ECANCELED)
                fail_msg("%s, allocation %d: %s", o.strategy, (int)n, fast_error_detail());
            test_replicas_free(&r);
        }
}

/* A run with these options is refused for a reason that has this word. */
static void refuse(const char *strategy, const char *codec, const char *reason)
{
    const char *const options[] = {
        "data=digits:train=160,test=32", "batch=4", "workers=3", strategy, codec, NULL
    };
    fast_run *run = NULL;

    assert_int_equal(fast_run_open(options, &run), FAST_EINVAL);
    if (!strstr(fast_error_detail(), reason))
        fail_msg("%s: %s", strategy, fast_error_detail());
}

/* The server makes one update of whole gradients, and a master one mean of whole models. */
static void other_options_are_refused(void **state)
{
    (void)state;
    refuse("strategy=ps:path=tree", NULL, "slack=0");
    refuse("strategy=ps:slack=0,path=tree,servers=2", NULL, "one server");
    refuse("strategy=ps:slack=0,path=tree,overlap=yes", NULL, "whole");
    refuse("strategy=ps:slack=0,path=tree", "codec=fp16", "does not encode the sums");
    refuse("strategy=local:master=tree,outer=nesterov", NULL, "mean of whole models");
    refuse("strategy=local:master=tree", "codec=fp16", "does not encode the sums");
    refuse("strategy=mpca:tree=yes", "codec=fp16", "does not encode the sums");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_is_allreduce_to_the_bit),
        cmocka_unit_test(a_master_is_local_to_the_bit),
        cmocka_unit_test_setup_teardown(a_resumed_run_is_the_same, make_root, drop_root),
        cmocka_unit_test(mpca_gathers_along_the_tree),
        cmocka_unit_test(a_crash_ends_the_run),
        cmocka_unit_test(allocations_may_fail),
        cmocka_unit_test(other_options_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
