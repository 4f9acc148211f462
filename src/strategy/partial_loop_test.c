/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops of `partial` alone. Goal: the newest models or gradients of neighbours are mixed once;
 * every part of every gradient is applied once by every worker; states are merged where they pass
 * the window; contributions follow; an error of any call ends the program that met it. Method: the
 * fake host on `sim`, where a message arrives two steps after it was sent, or in the flush.
 */
#include "fake_host.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { STEPS = 3 };

static void run(const char *strategy, int64_t workers, fake_result *out)
{
    fake_run(&(fake_options){ .strategy = strategy, .workers = workers, .steps = STEPS }, out);
    assert_int_equal(out->err, FAST_OK);
}

/* Worker k holds w in elements [low, high). */
static void assert_range(const fake_result *r, int64_t k, int64_t low, int64_t high, double w)
{
    for (int64_t j = low; j < high; j++)
        assert_float_equal(r->actors[k].w[j], (float)w, 1e-6f);
}

static void assert_share(const fake_result *r, int64_t k, int64_t of, double share)
{
    assert_true(fabs(r->actors[k].contributions[of] - share) < 1e-6);
}

/* Two workers by hand. Step 1: (1/2, 1). Step 2: (3/4, 3/2) are sent, then mixed with the models of
 * step 1: (7/8, 1). Step 3: (15/16, 3/2), mixed with those that were sent in step 2. */
static void scattered_models_are_mixed_once(void **state)
{
    fake_result r;

    (void)state;
    run("partial:how=scatter", 2, &r);
    assert_range(&r, 0, 0, FAKE_COUNT, (0.9375 + 1.5) / 2);
    assert_range(&r, 1, 0, FAKE_COUNT, (1.5 + 0.75) / 2);
    for (int64_t k = 0; k < 2; k++) {
        /* Own: 2, 4 / 2, (2 + 2) / 2; the other's: 2 / 2, (1 + 4) / 2. */
        assert_share(&r, k, k, 2);
        assert_share(&r, k, 1 - k, 2.5);
        assert_string_equal(r.actors[k].calls,
                            "persist next gradient update next gradient update apply_range "
                            "next gradient update apply_range next end");
    }
}

/* Without slack the models of a round, or its gradients, are averaged: synchronous SGD. */
static void rounds_average(void **state)
{
    static const char *const steps[][3] = {
        { "next gradient update", "next gradient update apply_range",
          "next gradient update apply_range apply_range" },
        { "next gradient apply update", "next gradient apply apply update",
          "next gradient apply apply apply update" },
    };

    (void)state;
    for (int64_t i = 0; i < 6; i++) {
        const int64_t workers = 1 + i % 3;
        fake_result r;

        run(i < 3 ? "partial:how=scatter,slack=0" : "partial:how=scatter,slack=0,sends=gradients",
            workers, &r);
        for (int64_t k = 0; k < workers; k++) {
            assert_range(&r, k, 0, FAKE_COUNT, (double)(workers + 1) / 2 * 0.875);
            for (int64_t j = 0; j < workers; j++)
                assert_share(&r, k, j, STEPS);
            fake_assert_calls(&r, k, "persist", steps[i / 3][workers - 1], "next end");
        }
    }
}

/* Two workers and two parts by hand, lr / P = 1/4. Each takes its own gradients at once: worker 0
 * -1, -3/4, -9/16, worker 1 -2, -3/2, -9/8. The parts that were sent in step 1 arrive before the
 * third gradient, which does not see them; all others come in the flush. */
static void parts_are_applied_once(void **state)
{
    fake_result r;

    (void)state;
    run("partial:parts=2", 2, &r);
    for (int64_t k = 0; k < 2; k++) {
        assert_range(&r, k, 0, FAKE_COUNT, (1 + 0.75 + 0.5625 + 2 + 1.5 + 1.125) / 4);
        assert_string_equal(r.actors[k].calls,
                            "next gradient apply update_by next gradient apply update_by "
                            "next apply_range gradient apply update_by next end "
                            "apply_range apply_range apply_range update_by");
    }
    for (int64_t workers = 1; workers <= 3; workers++) {
        run("partial:parts=4", workers, &r);
        for (int64_t k = 0; k < workers; k++) {
            assert_range(&r, k, 0, FAKE_COUNT, (double)r.actors[0].w[0]);
            for (int64_t j = 0; j < workers; j++)
                assert_share(&r, k, j, STEPS);
        }
    }
    run("partial:parts=1,flush=no", 2, &r); /* the last two messages are lost */
    assert_share(&r, 0, 0, STEPS);
    assert_share(&r, 0, 1, 1);
}

/* Two workers by hand. A state of worker 1 has one half of the elements. In step 2 its first model,
 * 1, arrives where worker 0 went from 1/2 to 3/4: 3/4 + (1 - 1/2) / 2 = 1. In step 3 its second
 * one, 3/2, arrives for the other half, where worker 0 went from 3/4 to 7/8: 7/8 + (3/2 - 3/4) / 2.
 * The states of worker 0 lie behind worker 1, which goes away from them. Each merge takes one half
 * of u back for one half of x, so that the contributions add up to those of the steps. */
static void states_are_merged_in_the_window(void **state)
{
    fake_result r;

    (void)state;
    run("partial:how=states", 2, &r);
    assert_range(&r, 0, 0, 3, 1.25);
    assert_range(&r, 0, 3, 6, 1);
    assert_range(&r, 1, 0, FAKE_COUNT, 1.75);
    assert_share(&r, 0, 0, 4.625);
    assert_share(&r, 0, 1, 1.375);
    assert_share(&r, 1, 0, 0);
    assert_share(&r, 1, 1, 2 * STEPS);
    assert_string_equal(r.actors[0].calls, "next gradient update next gradient update apply_range "
                                           "next gradient update apply_range next end");
    assert_string_equal(r.actors[1].calls,
                        "next gradient update next gradient update next gradient update next end");
}

/* The same two merges, of half of the learning rate 0.5. */
static void states_are_scaled_by_the_rate(void **state)
{
    fake_result r;

    (void)state;
    run("partial:how=states,scaled=yes", 2, &r);
    assert_range(&r, 0, 0, 3, 0.875 + 0.25 * (1.5 - 0.75));
    assert_range(&r, 0, 3, 6, 0.5 * (0.75 + 0.25 * (1 - 0.5) + 1));
}

/* Without the window all states are merged; one that arrives is at least two steps behind. */
static void states_are_merged_without_a_window(void **state)
{
    fake_result r;

    (void)state;
    run("partial:how=states,window=no", 2, &r);
    for (int64_t k = 0; k < 2; k++) {
        const double sum = r.actors[k].contributions[0] + r.actors[k].contributions[1];

        assert_string_equal(r.actors[k].calls,
                            "next gradient update next gradient update apply_range "
                            "next gradient update apply_range next end");
        assert_true(fabs(sum - 2 * STEPS) < 1e-6);
    }
}

static void errors_end_the_program(void **state)
{
    static const char *const strategies[] = {
        "partial:parts=2",
        "partial:how=scatter",
        "partial:how=scatter,slack=0",
        "partial:how=scatter,slack=1,sends=gradients",
        "partial:how=states,window=no",
    };
    const int64_t count = (int64_t)(sizeof strategies / sizeof *strategies);

    (void)state;
    for (int64_t i = 0; i < 3 * count; i++) {
        const fake_options options = { .strategy = strategies[i / 3],
                                       .workers = 1 + i % 3,
                                       .steps = STEPS };

        assert_true(fake_assert_errors(&options) >= options.workers * (3 * STEPS + 2));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scattered_models_are_mixed_once),
        cmocka_unit_test(rounds_average),
        cmocka_unit_test(parts_are_applied_once),
        cmocka_unit_test(states_are_merged_in_the_window),
        cmocka_unit_test(states_are_scaled_by_the_rate),
        cmocka_unit_test(states_are_merged_without_a_window),
        cmocka_unit_test(errors_end_the_program),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
