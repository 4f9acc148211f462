/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Learners that do not wait for the others of their proxy. Goal: one learner is SGD to the bit;
 * with n-softsync every gradient counts n / P of an update, none is lost, for any n up to P, above
 * the number of proxies too; the staleness is about n, as Gupta et al. 2016 report; a slow or lost
 * learner delays nobody. Method: runs on the simulator, with gradients that do not depend on the
 * weights where sums are checked.
 */
#include "replicas.h"
#include "small_run.h"

#include "base/err.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void one_learner_is_sgd(void **state)
{
    static const char *const momentum[] = { "optimizer=momentum", NULL };
    static const char *const strategy = "ps:proxies=1,free_running=yes";

    (void)state;
    assert_int_equal(test_small_run(strategy, 1, NULL).params_hash,
                     test_small_run("allreduce", 1, NULL).params_hash);
    assert_int_equal(test_small_run(strategy, 1, momentum).params_hash,
                     test_small_run("allreduce", 1, momentum).params_hash);
}

/* Return the largest distance of a replica to the model at the start, less lr n / P times the sum
 * of all gradients. */
static double distance(const test_replicas_options *o, const float *start, const test_replicas *r,
                       int64_t rank, double n)
{
    double most = 0;

    for (int64_t i = 0; i < r->count; i++) {
        double sum = 0;

        for (int64_t w = 0; w < o->workers; w++)
            for (int64_t s = 0; s < o->steps; s++)
                sum += (double)test_replicas_gradient(w, s, i);
        most = fmax(most, fabs((double)r->last[rank][i] - (double)start[i] +
                               sum * 0.125 * n / (double)o->workers));
    }
    return most;
}

/* A learner reads the model when it ends: the last one's holds all gradients. The servers' model at
 * the start is that of a run whose learning rate is 0. */
static void every_gradient_counts(void **state)
{
    static const int parts[] = { 2, 4, 8 };

    (void)state;
    for (int seed = 1; seed <= 6; seed++) {
        char strategy[96];
        const int n = parts[seed % 3];
        const test_replicas_options o = { .strategy = strategy,
                                          .cluster = seed % 2 ? "cluster=hetero" : "cluster=wan",
                                          .lr = "0.125",
                                          .workers = 8,
                                          .steps = 6,
                                          .seed = seed };
        test_replicas_options still = o;
        test_replicas r, start;
        double least = INFINITY;

        snprintf(strategy, sizeof strategy, "ps:proxies=2,free_running=yes,softsync=%d", n);
        still.lr = "0";
        test_replicas_run(&still, &start);
        test_replicas_run(&o, &r);
        assert_int_equal(r.err, FAST_OK);
        for (int64_t w = 0; w < o.workers; w++)
            least = fmin(least, distance(&o, start.last[0], &r, w, n));
        if (!(least < 1e-5))
            fail_msg("%s, seed %d: the last model is %g away from all gradients", strategy, seed,
                     least);
        test_replicas_free(&r);
        test_replicas_free(&start);
    }
}

static void staleness_is_about_n(void **state)
{
    static const char *const more[] = { "cluster=ethernet-1g", "steps=60", NULL };
    double before = 0;

    (void)state;
    for (int n = 1; n <= 8; n *= 2) {
        char strategy[96];

        snprintf(strategy, sizeof strategy, "ps:proxies=2,free_running=yes,softsync=%d", n);
        const double mean = test_small_run(strategy, 8, more).staleness_mean;

        if (!(mean > before && mean > 0.5 * n && mean < 2 * n))
            fail_msg("%d-softsync has a staleness of %g", n, mean);
        before = mean;
    }
}

/* A learner that is 50 times slower than the others makes those of its group wait, or not. */
static void nobody_waits_for_a_slow_learner(void **state)
{
    static const char *const more[] = { "cluster=infiniband", "faults=slow 3 at 0s by 50", NULL };
    const double bound = test_small_run("ps:proxies=2,softsync=2", 8, more).wait_s;
    const double free_running =
        test_small_run("ps:proxies=2,free_running=yes,softsync=2", 8, more).wait_s;

    (void)state;
    if (!(free_running < 0.4 * bound)) /* their own messages take the rest */
        fail_msg("learners wait for %g s of %g s", free_running, bound);
}

/* The others come to their end without a learner that crashed. */
static void a_lost_learner_is_left_out(void **state)
{
    static const char *const more[] = { "faults=crash 3 at 500us", NULL };

    (void)state;
    assert_int_equal(
        test_small_run("ps:proxies=2,free_running=yes,softsync=4", 8, more).workers_lost, 1);
}

static void refuse(const char *strategy, const char *reason)
{
    const char *const options[] = { "data=digits:train=160,test=32", "batch=4", "workers=4",
                                    strategy, NULL };
    fast_run *run = NULL;

    if (fast_run_open(options, &run) != FAST_EINVAL || !strstr(fast_error_detail(), reason))
        fail_msg("%s: %s", strategy, fast_error_detail());
}

static void other_options_are_refused(void **state)
{
    (void)state;
    refuse("strategy=ps:free_running=yes", "proxies");
    refuse("strategy=ps:proxies=2,free_running=yes,slack=1", "newest weights");
    refuse("strategy=ps:proxies=2,free_running=yes,levels=2", "newest weights");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_learner_is_sgd),
        cmocka_unit_test(every_gradient_counts),
        cmocka_unit_test(staleness_is_about_n),
        cmocka_unit_test(nobody_waits_for_a_slow_learner),
        cmocka_unit_test(a_lost_learner_is_left_out),
        cmocka_unit_test(other_options_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
