/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chains of servers in training. Goal: a chain computes the bits of `ps` without copies; servers
 * that crash, come back, catch up and take over change nothing: neither the model, nor the rule's
 * state, nor rounds that were under way. Method: small runs, compared by their hashes, with a plan
 * of faults in which at the end only a server that came back is left.
 */
#include "small_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static fast_result train(const char *strategy, const char *more)
{
    const char *const list[] = { more, NULL };

    return test_small_run(strategy, 4, list);
}

static void chains_change_nothing(void **state)
{
    static const char *const pairs[][3] = {
        { "ps:slack=0,replicas=1,chain=yes", "ps:slack=0", NULL },
        { "ps:slack=0,replicas=3,chain=yes,servers=2", "ps:slack=0", "cluster=hetero" },
        { "ps:slack=0,replicas=2,chain=yes", "ps:slack=0", "transport=threads" },
        { "ps:slack=0,replicas=2,chain=yes,momentum=0.3", "ps:slack=0,momentum=0.3", NULL },
        { "ps:slack=0,replicas=1,chain=yes", "ps:slack=0", "codec=topk:ratio=0.1" },
        { "ps:slack=0,replicas=1,chain=yes", "ps:slack=0", "codec_down=fp16" },
        { "ps:slack=0,replicas=1,chain=yes,proxies=2,levels=2", "ps:slack=0", NULL },
        { "ps:slack=0,replicas=1,chain=yes", "ps:slack=0", "model=resnet8:width=4" },
        { "ps:slack=0,replicas=1,chain=yes,factors=yes", "ps:slack=0,factors=yes", "batch=1" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if (train(pairs[i][0], pairs[i][2]).params_hash !=
            train(pairs[i][1], pairs[i][2]).params_hash)
            fail_msg("%s and %s differ with %s", pairs[i][0], pairs[i][1], pairs[i][2]);
}

/* Each server crashes and comes back; then all that never crashed since are gone for good. */
static void servers_come_back_and_take_over(void **state)
{
    static const char *const plans[] = {
        "faults=slow 3 at 0s by 30; crash 4 at 1ms; restart 4 at 1100us; crash 5 at 2ms",
        "faults=slow 1 at 0s by 30; crash 5 at 1ms; restart 5 at 1050us; crash 4 at 2ms; restart 4 "
        "at 2100us; crash 5 "
        "at 3ms",
        "faults=crash 4 at 1ms; restart 4 at 1200us; crash 5 at 2ms; restart 5 at 2222us; crash 4 "
        "at 3ms; restart 4 at 3111us",
    };
    static const char *const rules[] = { "optimizer=sgd", "optimizer=adam", "optimizer=adagrad" };

    (void)state;
    for (int i = 0; i < 3; i++) {
        /* A slow worker: most of the time the gradients of the others wait for its own. */
        const char *const fault[] = { test_separate_servers(4, 4), plans[i], rules[i], NULL };
        const uint64_t hash = train("ps:slack=0", rules[i]).params_hash;
        const fast_result one = test_small_run("ps:slack=0,replicas=1,chain=yes", 4, fault);

        if (one.params_hash != hash || one.completeness != 1 || one.steps != 24)
            fail_msg("%s, %s: other bits, or %g of the gradients", plans[i], rules[i],
                     one.completeness);
    }
}

/* Three copies, and two owners of each; with state of batch norm, momentum and compensation. */
static void longer_chains_do_too(void **state)
{
    const char *const fault[] = { test_separate_servers(4, 6),
                                  "faults=crash 6 at 1ms; restart 6 at 1200us; crash 4 at 2ms; "
                                  "restart 4 at 2300us; crash 8 at 3500us; crash 5 at 1500us",
                                  NULL };
    const char *const batch_norm[] = { fault[0], "model=resnet8:width=4", "steps=6", NULL };
    const char *const failing[] = { fault[0], "model=resnet8:width=4", "steps=6",
                                    "faults=crash 4 at 3ms; restart 4 at 3100us; crash 6 at 5ms",
                                    NULL };

    (void)state;
    assert_true(test_small_run("ps:slack=0,replicas=2,chain=yes,servers=2,momentum=0.3", 4, fault)
                    .params_hash == train("ps:slack=0,momentum=0.3", NULL).params_hash);
    assert_true(
        test_small_run("ps:slack=0,replicas=2,chain=yes,servers=2", 4, failing).params_hash ==
        test_small_run("ps:slack=0", 4, batch_norm).params_hash);
    assert_int_equal(
        test_small_run("ps:replicas=2,chain=yes,servers=2,compensate=0.1", 4, fault).steps, 24);
    assert_int_equal(test_small_run("ps:slack=2,replicas=2,chain=yes,softsync=2", 4, fault).steps,
                     24);
}

/* A worker that comes back after the first server has changed finds the new one. */
static void workers_find_the_first_server(void **state)
{
    const char *const fault[] = { test_separate_servers(4, 3),
                                  "faults=crash 4 at 1ms; restart 4 at 1100us; crash 2 at 1500us; "
                                  "restart 2 at 1600us; crash 5 at 2500us",
                                  NULL };
    const fast_result r = test_small_run("ps:slack=3,replicas=2,chain=yes", 4, fault);

    (void)state;
    assert_true(r.steps >= 22 && r.completeness > 0.8 && r.virtual_time_s < 1);
}

static void other_options_are_refused(void **state)
{
    static const char *const bad[] = { "strategy=ps:chain=yes",
                                       "strategy=ps:replicas=1,chain=yes,stalest=yes",
                                       "strategy=ps:replicas=1,chain=yes,barrier=1",
                                       "strategy=ps:slack=0,replicas=1,chain=yes,overlap=yes" };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *options[] = { bad[i], "workers=4", "data=digits:train=64,test=16", "batch=8",
                                  NULL };
        fast_run *run = NULL;

        assert_int_equal(fast_run_open(options, &run), FAST_EINVAL);
        assert_int_equal(strncmp(fast_error_detail(), "ps: ", 4), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains_change_nothing),
        cmocka_unit_test(servers_come_back_and_take_over),
        cmocka_unit_test(longer_chains_do_too),
        cmocka_unit_test(workers_find_the_first_server),
        cmocka_unit_test(other_options_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
