/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time of parameter servers. Goal: with as many servers as workers, on their nodes, a step
 * takes the closed form 2 (n - 1) / n T_w (Langer et al. 2020), where T_w is the time of the model
 * on a link: every link is used evenly. Method: the simulator with contention and free computing;
 * the time of some steps less that of fewer, so that the start does not count.
 */
#include "small_run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { HIDDEN = 100, COUNT = 784 * HIDDEN + HIDDEN + 10 * HIDDEN + 10 }; /* of mlp:hidden=100 */

/* Return the virtual seconds of a run of `steps` steps. */
static double seconds(const char *strategy, int workers, int steps)
{
    char length[32];
    const char *const more[] = { "model=mlp:hidden=100",
                                 "cluster=ideal:contention=yes,latency=0us",
                                 "data=digits:train=256,test=16",
                                 "engine=auto",
                                 "batch=1",
                                 "evaluate=end",
                                 length,
                                 NULL };

    snprintf(length, sizeof length, "steps=%d", steps);
    return test_small_run(strategy, workers, more).virtual_time_s;
}

static void servers_of_all_workers_take_the_closed_form(void **state)
{
    static const char *const strategy = "ps:servers=0,slack=0";
    const double model = 4.0 * COUNT / 1e9; /* the cluster has 1 GB/s */

    (void)state;
    for (int n = 4; n <= 16; n *= 2) {
        const double step = (seconds(strategy, n, 9) - seconds(strategy, n, 3)) / 6 / model;
        const double closed = 2.0 * (n - 1) / n;

        if (!(fabs(step - closed) < 0.02 * closed))
            fail_msg("%d workers: %.3f T_w, and not %.3f", n, step, closed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(servers_of_all_workers_take_the_closed_form),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
