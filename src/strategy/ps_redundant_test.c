/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Redundant agents: groups of workers on the same data, of which the first result counts. Goal:
 * with rounds, r groups are one group to the bit, whichever worker of an agent is slow or crashes;
 * without rounds every step of an agent is applied once. Method: small runs, compared by hashes,
 * contributions and times; the two groups differ in speed, or one crashes.
 */
#include "small_run.h"

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

/* Eight workers in two groups compute what four do. */
static void groups_are_one_group(void **state)
{
    static const char *const members[] = { "ps:slack=0,redundant=2",
                                           "ps:slack=0,redundant=2,servers=3",
                                           "ps:slack=0,redundant=2,replicas=1,chain=yes" };
    static const char *const conditions[] = { NULL, "cluster=hetero", "faults=slow 5 at 0s by 100",
                                              "faults=slow 1 at 0s by 100; slow 6 at 0s by 30",
                                              "transport=threads" };
    const uint64_t hash = train("ps:slack=0", 4, NULL).params_hash;

    (void)state;
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        for (size_t k = 0; k < sizeof conditions / sizeof conditions[0]; k++) {
            const fast_result r = train(members[i], 8, conditions[k]);

            if (r.params_hash != hash || r.completeness != 1)
                fail_msg("%s with %s: other bits, or %g of the gradients", members[i],
                         conditions[k] ? conditions[k] : "nothing", r.completeness);
        }
    assert_true(train("ps:slack=0,redundant=3", 6, NULL).params_hash ==
                train("ps:slack=0", 2, NULL).params_hash);
    assert_true(train("ps:slack=0,redundant=1", 4, NULL).params_hash == hash);
}

/* One slow worker costs no time where another has its data. */
static void the_first_counts(void **state)
{
    static const char *const slow = "faults=slow 2 at 0s by 100";
    const fast_result one = train("ps:slack=0", 4, slow),
                      two = train("ps:slack=0,redundant=2", 8, slow);

    (void)state;
    if (!(two.virtual_time_s < 0.5 * one.virtual_time_s))
        fail_msg("%g s, not much less than %g s", two.virtual_time_s, one.virtual_time_s);
    assert_true(two.params_hash == one.params_hash);
}

/* A worker that crashes is not missed; both workers of an agent are, and are named. */
static void crashes_of_one_worker_change_nothing(void **state)
{
    const char *const crash[] = { test_separate_servers(8, 2),
                                  "faults=crash 2 at 1ms; crash 5 at 1500us", NULL };
    const char *options[] = { "strategy=ps:slack=0,redundant=2",
                              "workers=8",
                              "faults=crash 2 at 1ms; crash 6 at 1500us",
                              crash[0],
                              "transport=sim",
                              "timeout=5",
                              "model=mlp:hidden=12",
                              "data=digits:train=160,test=32",
                              "engine=ref",
                              "plan=no",
                              "batch=4",
                              "steps=24",
                              "optimizer=sgd",
                              NULL };
    fast_run *run = NULL;

    (void)state;
    assert_true(test_small_run("ps:slack=0,redundant=2", 8, crash).params_hash ==
                train("ps:slack=0", 4, NULL).params_hash);
    assert_int_equal(fast_run_open(options, &run), FAST_OK);
    assert_true(fast_run_train(run) != FAST_OK);
    if (!strstr(fast_error_detail(), "worker 2") && !strstr(fast_error_detail(), "worker 6"))
        fail_msg("%s", fast_error_detail());
    fast_run_close(run);
}

/* Without rounds: one agent of two workers, with plain SGD at a constant learning rate, makes as
 * many updates as one worker, whichever is slow; none is applied twice. */
static void steps_are_applied_once(void **state)
{
    static const char *const conditions[] = { NULL, "cluster=hetero", "faults=slow 1 at 0s by 20",
                                              "faults=slow 0 at 0s by 20", "transport=threads" };

    (void)state;
    for (size_t k = 0; k < sizeof conditions / sizeof conditions[0]; k++) {
        const fast_result one = train("ps:redundant=2", 2, conditions[k]),
                          many = train("ps:redundant=2,servers=3", 8, conditions[k]);
        int64_t applied = 0, ranges = 0;

        /* Updates are counted with their staleness, at each server. */
        for (size_t i = 0; i < sizeof one.staleness / sizeof one.staleness[0]; i++) {
            applied += one.staleness[i];
            ranges += many.staleness[i];
        }
        if (applied != 24 || ranges != 3 * 4 * 24)
            fail_msg("%s: %lld and %lld updates, not 24 and 288",
                     conditions[k] ? conditions[k] : "nothing", (long long)applied,
                     (long long)ranges);
        assert_true(one.completeness == 1);
    }
}

static void misfits_are_refused(void **state)
{
    static const char *const bad[] = { "strategy=ps:redundant=3", "strategy=ps:redundant=2,slack=1",
                                       "strategy=ps:redundant=2,proxies=2",
                                       "strategy=ps:slack=0,redundant=2,backup=1",
                                       "strategy=ps:redundant=2,replicas=1" };

    (void)state;
    test_refused(bad, sizeof bad / sizeof bad[0], "ps: ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_are_one_group),
        cmocka_unit_test(the_first_counts),
        cmocka_unit_test(crashes_of_one_worker_change_nothing),
        cmocka_unit_test(steps_are_applied_once),
        cmocka_unit_test(misfits_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
