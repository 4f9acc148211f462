/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops of `local` and `distill` alone. Goal: local steps and an exchange in each period, by
 * the formulas of outer momentum, delayed updates and means over time; members, then a student with
 * teachers; an error of any call ends the program that met it. Method: the fake host, whose
 * quadratics have exact solutions: one step halves the distance to the target.
 */
#include "fake_host.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { STEPS = 4 };

static void run(const char *strategy, int64_t workers, fake_result *out)
{
    fake_run(&(fake_options){ .strategy = strategy, .workers = workers, .steps = STEPS }, out);
    assert_int_equal(out->err, FAST_OK);
    assert_int_equal(out->actor_count, workers);
}

/* All replicas hold w, and of each worker the contributions `share`. */
static void assert_all(const fake_result *r, double w, double share)
{
    for (int64_t k = 0; k < r->actor_count; k++) {
        for (int64_t j = 0; j < FAKE_COUNT; j++)
            assert_float_equal(r->actors[k].w[j], (float)w, 1e-6f);
        for (int64_t j = 0; j < r->actor_count; j++)
            assert_true(fabs(r->actors[k].contributions[j] - share) < 1e-6);
    }
}

static void assert_all_calls(const fake_result *r, const char *calls)
{
    for (int64_t k = 0; k < r->actor_count; k++)
        assert_string_equal(r->actors[k].calls, calls);
}

/* Without an outer step the mean of quadratics is the quadratic of the means: 15/16 of the way. */
static void periods_average(void **state)
{
    (void)state;
    for (int64_t workers = 1; workers <= 3; workers++) {
        const double mean = (double)(workers + 1) / 2;
        fake_result r;

        run("local:period=2", workers, &r);
        assert_all(&r, mean * 0.9375, STEPS);
        assert_all_calls(&r, "persist next gradient update next gradient update sum apply "
                             "next gradient update next gradient update sum apply next end");
        run("local:period=3", workers, &r); /* the last step ends a period too */
        assert_all(&r, mean * 0.9375, STEPS);
        assert_all_calls(&r, "persist next gradient update next gradient update "
                             "next gradient update sum apply next gradient update sum apply "
                             "next end");
        run("local:period=0", workers, &r);
        assert_all(&r, mean * 0.9375, STEPS);
        assert_all_calls(&r, "persist next gradient update next gradient update "
                             "next gradient update next gradient update sum apply next end");
        run("local:period=4,after=0.5", workers, &r); /* an epoch has 4 steps */
        assert_all(&r, mean * 0.9375, STEPS);
        assert_all_calls(&r, "persist next gradient update sum apply next gradient update sum "
                             "apply next gradient update next gradient update sum apply next end");
    }
}

/* The formulas of the outer step, for values and, by the same coefficients, for contributions. */
static void outer_momentum_is_the_formula(void **state)
{
    static const char *const strategies[] = {
        "local:period=2,outer=classical,momentum=0.5,rate=0.5",
        "local:period=2,outer=nesterov,momentum=0.5,rate=0.5"
    };

    (void)state;
    for (int64_t i = 0; i < 6; i++) {
        const int64_t workers = 1 + i % 3;
        const double mean = (double)(workers + 1) / 2;
        double z = 0, d = 0, z_share = 0, d_share = 0;
        fake_result r;

        for (int period = 0; period < 2; period++) {
            const double gain = 0.5 * (z + 0.75 * (mean - z) - z); /* two steps: 3/4 of the way */

            d = 0.5 * d + gain;
            d_share = 0.5 * d_share + 0.5 * 2;
            z += i / 3 == 0 ? d : 0.5 * d + gain;
            z_share += i / 3 == 0 ? d_share : 0.5 * d_share + 0.5 * 2;
        }
        run(strategies[i / 3], workers, &r);
        assert_all(&r, z, z_share);
        assert_all_calls(&r, "persist persist_vector persist_vector "
                             "next gradient update next gradient update sum apply apply "
                             "next gradient update next gradient update sum apply apply next end");
    }
}

/* One update a period, by the mean of its gradients, which are all of the same weights. */
static void delayed_updates_are_means(void **state)
{
    (void)state;
    for (int64_t workers = 1; workers <= 3; workers++) {
        fake_result r;

        run("local:period=2,delay=yes", workers, &r);
        assert_all(&r, (double)(workers + 1) / 2 * 0.75, STEPS / 2);
        assert_all_calls(&r, "persist persist_vector "
                             "next gradient apply next gradient apply sum_vector update_by "
                             "next gradient apply next gradient apply sum_vector update_by "
                             "next end");
        /* Periods of 1, 1, 2 steps: it doubles after half an epoch, which has 4 steps. */
        run("local:period=1,delay=yes,grow=0.5,longest=2", workers, &r);
        assert_all(&r, (double)(workers + 1) / 2 * 0.875, 3);
        assert_all_calls(&r, "persist persist_vector next gradient apply sum_vector update_by "
                             "next gradient apply sum_vector update_by "
                             "next gradient apply next gradient apply sum_vector update_by "
                             "next end");
    }
}

/* The period of one step grows by 3 at the epochs 0.25 and 1.5, of 4 steps each, so updates are at
 * the steps 1, then 3 and 6, then 9, and at the end: step 6 is the first one at or after epoch 1.5
 * that ends a period. Where epochs are equal apart, milestones are `grow`. */
static void batches_grow_at_milestones(void **state)
{
    static const int64_t updates[] = { 1, 3, 6, 9, 10 };
    fake_result r, same;
    char calls[1024] = "persist persist_vector";

    (void)state;
    for (int64_t step = 1, next = 0; step <= 10; step++) {
        strcat(calls, " next gradient apply");
        if (step == updates[next] && ++next)
            strcat(calls, " sum_vector update_by");
    }
    strcat(calls, " next end");
    fake_run(&(fake_options){ .strategy = "local:period=1,delay=yes,milestones=0.25+1.5,factor=3",
                              .workers = 2,
                              .steps = 10 },
             &r);
    assert_int_equal(r.err, FAST_OK);
    assert_all_calls(&r, calls);
    assert_all(&r, 1.5 * (1 - pow(0.5, 5)), 5);
    run("local:period=1,delay=yes,milestones=0.5+1,longest=2", 3, &r);
    run("local:period=1,delay=yes,grow=0.5,longest=2", 3, &same);
    assert_all_calls(&r, same.actors[0].calls);
}

/* Targets 1 and 3, of mean 2: the variance of the mean gradient at 0 is (5 - 4) / 1 = 1/4 of its
 * square. The period doubles where noise^2 is less. */
static void noise_doubles_the_period(void **state)
{
    fake_result r;

    (void)state;
    run("local:period=1,delay=yes,noise=10,longest=2", 2, &r);
    assert_all_calls(&r, "persist persist_vector next gradient apply sum_vector update_by "
                         "next gradient apply sum_vector update_by "
                         "next gradient apply sum_vector update_by "
                         "next gradient apply sum_vector update_by next end");
    run("local:period=1,delay=yes,noise=0.1,longest=2", 2, &r);
    assert_all_calls(&r, "persist persist_vector next gradient apply sum_vector update_by "
                         "next gradient apply sum_vector update_by "
                         "next gradient apply next gradient apply sum_vector update_by next end");
}

/* Three workers at 1, after a step of half of the way to the mean target 2: gradients 0, 1 and 2 of
 * mean 1, whose deviation is sqrt((5 / 3 - 1) / 2) = 0.577. */
static void noise_is_that_of_the_mean(void **state)
{
    fake_result r;

    (void)state;
    fake_run(&(fake_options){ .strategy = "local:period=1,delay=yes,noise=0.57,longest=2",
                              .workers = 3,
                              .steps = 4 },
             &r);
    assert_all_calls(&r, "persist persist_vector next gradient apply sum_vector update_by "
                         "next gradient apply sum_vector update_by "
                         "next gradient apply next gradient apply sum_vector update_by next end");
    fake_run(&(fake_options){ .strategy = "local:period=1,delay=yes,noise=0.58,longest=2",
                              .workers = 3,
                              .steps = 4 },
             &r);
    assert_all_calls(&r, "persist persist_vector next gradient apply sum_vector update_by "
                         "next gradient apply sum_vector update_by "
                         "next gradient apply sum_vector update_by "
                         "next gradient apply sum_vector update_by next end");
}

/* The centre is the mean of the models after the exchanges from the first epoch, or the second, on.
 * */
static void means_over_time_stand_for_the_run(void **state)
{
    (void)state;
    for (int64_t workers = 1; workers <= 3; workers++) {
        const double mean = (double)(workers + 1) / 2;
        fake_result r;

        run("local:period=2,polyak=0", workers, &r);
        assert_all(&r, mean * 0.9375, STEPS);
        assert_all_calls(&r, "persist persist_vector "
                             "next gradient update next gradient update sum apply apply "
                             "next gradient update next gradient update sum apply apply next end");
        for (int64_t k = 0; k < workers; k++)
            assert_float_equal(r.actors[k].centre[0], (float)(mean * (0.75 + 0.9375) / 2), 1e-6f);
        run("local:period=2,polyak=0.5", workers, &r); /* from step 3 on */
        assert_float_equal(r.actors[0].centre[0], (float)(mean * 0.9375), 1e-6f);
    }
}

static void state_of_the_rule_is_reset(void **state)
{
    fake_result r;

    (void)state;
    run("local:period=2,state=reset", 2, &r);
    assert_all(&r, 1.5 * 0.9375, STEPS);
    assert_all_calls(&r, "persist next gradient update next gradient update sum apply reset_rule "
                         "next gradient update next gradient update sum apply reset_rule next end");
}

/* Members halve the distance to their own targets twice, the student that to the mean of labels and
 * teachers, who are 3/4 of the way: the target is share * 3/4 mean + (1 - share) mean. */
static void students_learn_from_members(void **state)
{
    (void)state;
    for (int64_t workers = 1; workers <= 3; workers++) {
        const double mean = (double)(workers + 1) / 2;
        const double target = 0.5 * 0.75 * mean + 0.5 * mean;
        fake_result r;

        run("distill:teach=0.5,share=0.5", workers, &r);
        assert_all(&r, target * 0.75, 2);
        assert_all_calls(&r, "teach persist persist persist next gradient update "
                             "next gradient update teach adopt reset_rule next gradient sum update "
                             "next gradient sum update next end teach");
        /* From the members' mean, which holds all of their updates. */
        run("distill:teach=0.5,share=0.5,fresh=no", workers, &r);
        assert_all(&r, target + (0.75 * mean - target) / 4, STEPS);
        run("distill:teach=0.75,share=1", workers, &r);
        assert_all(&r, 0.875 * mean / 2, 1);
    }
}

static void errors_end_the_program(void **state)
{
    static const char *const strategies[] = {
        "local:period=2,outer=nesterov,polyak=0",
        "local:period=2,delay=yes,noise=1",
        "distill:teach=0.5",
    };

    (void)state;
    for (int64_t i = 0; i < 9; i++) {
        const fake_options options = { .strategy = strategies[i / 3],
                                       .workers = 1 + i % 3,
                                       .steps = STEPS };

        assert_true(fake_assert_errors(&options) >= options.workers * (3 * STEPS + 3));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(periods_average),
        cmocka_unit_test(outer_momentum_is_the_formula),
        cmocka_unit_test(delayed_updates_are_means),
        cmocka_unit_test(batches_grow_at_milestones),
        cmocka_unit_test(noise_doubles_the_period),
        cmocka_unit_test(noise_is_that_of_the_mean),
        cmocka_unit_test(means_over_time_stand_for_the_run),
        cmocka_unit_test(state_of_the_rule_is_reset),
        cmocka_unit_test(students_learn_from_members),
        cmocka_unit_test(errors_end_the_program),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
