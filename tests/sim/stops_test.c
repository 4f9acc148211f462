/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults that stop a run. Goal: strategies whose workers go in step, and a quorum that cannot be
 * reached, stop by the deadline when one of them crashes or stands still, and name who
 * is to blame. Method: one fault at a known node, at several moments of a long run.
 */
#include "fast/run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *const specs[] = {
    "allreduce",
    "allreduce:algorithm=ring",
    "allreduce:algorithm=tree",
    "allreduce:algorithm=rabenseifner,overlap=yes,bucket=1000",
    "local:period=2",
    "local:period=3,delay=yes,noise=1",
    "elastic_sync:mu=0.9",
    "quorum",
    "quorum:quorum=3,partial=yes",
};

/* Train with a fault; the virtual time that it took. */
static double stop(const char *spec, const char *fault, int node)
{
    char strategy[128], faults[128], name[32];
    const char *options[] = { strategy,
                              faults,
                              "engine=ref",
                              "model=mlp:hidden=12",
                              "data=digits:train=160,test=24",
                              "batch=8",
                              "plan=no",
                              "workers=3",
                              "transport=sim",
                              "timeout=2",
                              "steps=100000",
                              "evaluate=end",
                              NULL };
    fast_run *run = NULL;
    double time_s;

    snprintf(strategy, sizeof strategy, "strategy=%s", spec);
    snprintf(faults, sizeof faults, "faults=%s", fault);
    snprintf(name, sizeof name, "worker %d", node);
    if (fast_run_open(options, &run))
        fail_msg("%s", fast_error_detail());
    if (fast_run_train(run) == FAST_OK)
        fail_msg("%s, %s: it did not stop", spec, fault);
    if (!strstr(fast_error_detail(), name))
        fail_msg("%s, %s: %s", spec, fault, fast_error_detail());
    time_s = fast_run_result(run)->time_s;
    fast_run_close(run);
    return time_s;
}

static void crashes_stop_the_others(void **state)
{
    static const char *const moments[] = { "0us", "1us", "1ms", "3.3ms", "20ms" };

    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        for (int k = 0; k < 5; k++) {
            char fault[64];

            snprintf(fault, sizeof fault, "crash %d at %s", 1 + k % 2, moments[k]);
            assert_true(stop(specs[i], fault, 1 + k % 2) < 4);
        }
}

/* A worker that stands still ends after its pause; the others are gone by then. */
static void pauses_stop_the_others(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        assert_true(stop(specs[i], "pause 2 at 2ms for 9s", 2) < 13);
}

/* Who crashes before it begins has not come to the end. */
static void nobody_ends_who_never_began(void **state)
{
    (void)state;
    stop("gossip_async", "crash 0 at 0us; crash 1 at 0us; crash 2 at 0us", 0);
    stop("ps", "crash 0 at 0us", 1); /* which says that the server is down */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crashes_stop_the_others),
        cmocka_unit_test(pauses_stop_the_others),
        cmocka_unit_test(nobody_ends_who_never_began),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
