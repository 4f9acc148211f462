/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time of parameter servers and masters. Goal: a step takes the closed form of Langer et al.
 * 2020, section 3.4.1, within 2%, where T_w, R_w and U_w are the times of a transfer, an addition
 * and an update of the model:
 *
 *     as many servers as workers, on their nodes     2 (n - 1) / n T_w
 *     one server at its own node, synchronous        2 n T_w + (n - 1) R_w + U_w
 *                                 asynchronous       n T_w + U_w
 *         a binomial tree to it     2 ceil(log2(n + 1)) T_w + ceil(log2 n) R_w + U_w
 *         slices to it              (2 + 2 (n - 1) / n) T_w + (n - 1) / n R_w + U_w
 *
 * Method: the simulator with contention and without latency; the time of the first step, which all
 * workers start at once, or of some steps less that of fewer. Additions and updates take time where
 * the cluster has a speed; the time of a gradient, which is that of a worker without messages less
 * an update, is subtracted.
 */
#include "small_run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { HIDDEN = 100, COUNT = 784 * HIDDEN + HIDDEN + 10 * HIDDEN + 10 }; /* of mlp:hidden=100 */

/* Computing is free, or an addition takes a twentieth of a transfer and an update a fifth. */
static const char *const free_computing = "cluster=ideal:contention=yes,latency=0us";
static const char *const slow_computing = "cluster=ideal:contention=yes,latency=0us,speed=5GFLOP/s";
static const double MODEL = 4.0 * COUNT / 1e9; /* T_w: the cluster has 1 GB/s */
static const double R = 0.05, U = 0.2;         /* R_w and U_w by T_w, of slow_computing */

/* Return the virtual seconds of a run of `steps` steps. */
static double seconds_on(const char *cluster, const char *strategy, int workers, int steps)
{
    char length[32];
    const char *const more[] = { "model=mlp:hidden=100",
                                 cluster,
                                 "data=digits:train=256,test=16",
                                 "engine=auto",
                                 "batch=1",
                                 "evaluate=end",
                                 length,
                                 NULL };

    snprintf(length, sizeof length, "steps=%d", steps);
    return test_small_run(strategy, workers, more).virtual_time_s;
}

/* Return the time of a step, by T_w. */
static double step_of(const char *cluster, const char *strategy, int n)
{
    return (seconds_on(cluster, strategy, n, 9) - seconds_on(cluster, strategy, n, 3)) / 6 / MODEL;
}

/* Return the time of the first step, by T_w: all workers start it at once. Later steps may overlap,
 * since a worker that is answered early continues while the last one waits. */
static double first_of(const char *cluster, const char *strategy, int n)
{
    return seconds_on(cluster, strategy, n, 1) / MODEL;
}

/* Fail if a time is more than 2% off. */
static void check(const char *strategy, int n, double step, double closed)
{
    if (!(fabs(step - closed) < 0.02 * closed))
        fail_msg("%s of %d workers: %.3f T_w, and not %.3f", strategy, n, step, closed);
}

static void servers_of_all_workers_take_the_closed_form(void **state)
{
    static const char *const strategy = "ps:servers=0,slack=0";

    (void)state;
    for (int n = 4; n <= 16; n *= 2)
        check(strategy, n, step_of(free_computing, strategy, n), 2.0 * (n - 1) / n);
}

/* The time of a gradient, by T_w: workers that never exchange take it and an update. */
static double gradient(void)
{
    return step_of(slow_computing, "local:period=1000", 1) - U;
}

/* Powers of two, one less and one more: the depth of the tree changes there. */
static void a_tree_to_the_server_takes_the_closed_form(void **state)
{
    static const char *const strategy = "ps:slack=0,path=tree";
    static const int counts[] = { 1, 2, 3, 4, 5, 7, 8, 15, 16 };
    const double computing = gradient();

    (void)state;
    for (int i = 0; i < 9; i++) {
        const int n = counts[i];

        check(strategy, n, first_of(slow_computing, strategy, n) - computing,
              2 * ceil(log2(n + 1)) + ceil(log2(n)) * R + U);
    }
}

/* Slices of any number of workers, also where they are not equally long. */
static void slices_to_the_server_take_the_closed_form(void **state)
{
    static const char *const strategy = "ps:slack=0,path=scatter";
    const double computing = gradient();

    (void)state;
    for (int n = 2; n <= 16; n += 3)
        check(strategy, n, first_of(slow_computing, strategy, n) - computing,
              2 + 2.0 * (n - 1) / n + (double)(n - 1) / n * R + U);
}

static void one_server_takes_the_closed_form(void **state)
{
    static const char *const rounds = "ps:slack=0,path=direct", *const apart = "ps:dedicated=yes";
    const double computing = gradient();

    (void)state;
    for (int n = 2; n <= 8; n++) {
        check(rounds, n, first_of(slow_computing, rounds, n) - computing, 2 * n + (n - 1) * R + U);
        check(apart, n, step_of(free_computing, apart, n), n);
    }
}

/* Masters that average models are reached by the same paths. */
static void models_take_the_paths_too(void **state)
{
    (void)state;
    for (int n = 3; n <= 8; n++) {
        check("local by a tree", n, first_of(free_computing, "local:period=1,master=tree", n),
              2 * ceil(log2(n + 1)));
        check("local by slices", n, first_of(free_computing, "local:period=1,master=scatter", n),
              2 + 2.0 * (n - 1) / n);
        check("mpca by a tree", n, first_of(free_computing, "mpca:tree=yes", n),
              2 * ceil(log2(n + 1)));
        check("local with all", n, first_of(free_computing, "local:period=1,master=direct", n),
              2 * n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(servers_of_all_workers_take_the_closed_form),
        cmocka_unit_test(a_tree_to_the_server_takes_the_closed_form),
        cmocka_unit_test(slices_to_the_server_take_the_closed_form),
        cmocka_unit_test(one_server_takes_the_closed_form),
        cmocka_unit_test(models_take_the_paths_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
