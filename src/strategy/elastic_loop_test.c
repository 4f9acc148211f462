/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops of `elastic` and its synchronous form alone. Goal: a gradient and an update in each
 * step, an exchange with the centre every period, by the formula; an error of any call ends the
 * program that met it. Method: the fake host, whose quadratics have exact solutions.
 */
#include "fake_host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { STEPS = 4 };

/* One worker with alpha = beta = 1/2, by hand: g = w - 1; d = w - z; w -= d / 2; z += d / 2;
 * w -= g / 2. */
static void springs_are_the_formula(void **state)
{
    static const char *const transports[] = { "sim", "threads" };
    float w = 0, z = 0;
    fake_result r;

    (void)state;
    for (int i = 0; i < STEPS; i++) {
        const float g = w - 1, d = w - z;

        w -= d / 2;
        z += d / 2;
        w -= g / 2;
    }
    /* In virtual time by get and add, on threads in the memory of the centre. */
    for (int i = 0; i < 2; i++) {
        fake_run(&(fake_options){ .strategy = "elastic:alpha=0.5,period=1",
                                  .transport = transports[i],
                                  .workers = 1,
                                  .steps = STEPS },
                 &r);
        assert_int_equal(r.err, FAST_OK);
        assert_true(r.actors[0].has_centre);
        for (int64_t j = 0; j < FAKE_COUNT; j++) {
            assert_true(r.actors[0].w[j] == w);
            assert_true(r.actors[0].centre[j] == z);
        }
    }
}

static void calls_of_free_workers(void **state)
{
    static const char *const transports[] = { "sim", "threads" };

    (void)state;
    for (int64_t i = 0; i < 6; i++) {
        const int64_t workers = 1 + i % 3;
        const fake_options options = { .strategy = "elastic:period=2",
                                       .transport = transports[i / 3],
                                       .workers = workers,
                                       .steps = STEPS };
        fake_result r;

        fake_run(&options, &r);
        assert_int_equal(r.err, FAST_OK);
        assert_int_equal(r.actor_count, workers + 1);
        /* On threads both ranges that a gradient reports are updated at once, and an exchange
         * updates what it has pulled. */
        for (int64_t k = 0; k < workers; k++)
            assert_string_equal(r.actors[k].calls,
                                i / 3 == 0 ? "centre space next gradient update "
                                             "next gradient apply update "
                                             "next gradient update "
                                             "next gradient apply update "
                                             "next end space_close"
                                           : "centre space next gradient update_range update_range "
                                             "next gradient update_range "
                                             "next gradient update_range update_range "
                                             "next gradient update_range "
                                             "next end space_close");
        fake_assert_calls(&r, workers, "", "", "space space_close"); /* applies what arrives */
    }
}

static void calls_of_rounds(void **state)
{
    (void)state;
    for (int64_t workers = 1; workers <= 3; workers++) {
        const fake_options options = { .strategy = "elastic_sync:period=2",
                                       .workers = workers,
                                       .steps = STEPS };
        fake_result r;

        fake_run(&options, &r);
        assert_int_equal(r.err, FAST_OK);
        for (int64_t k = 0; k < workers; k++) {
            /* Its memory comes before the first step. */
            assert_string_equal(strstr(r.actors[k].calls, "next"),
                                "next gradient update "
                                "next gradient apply sum_vector apply update "
                                "next gradient update "
                                "next gradient apply sum_vector apply update "
                                "next end");
            assert_memory_equal(r.actors[k].centre, r.actors[0].centre, sizeof(float) * FAKE_COUNT);
        }
    }
}

static void errors_end_the_program(void **state)
{
    static const char *const strategies[] = { "elastic:period=2", "elastic_sync:period=2" };

    (void)state;
    for (int64_t i = 0; i < 6; i++) {
        const fake_options options = { .strategy = strategies[i / 3],
                                       .workers = 1 + i % 3,
                                       .steps = STEPS };

        assert_true(fake_assert_errors(&options) >= options.workers * (3 * STEPS + 3));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(springs_are_the_formula),
        cmocka_unit_test(calls_of_free_workers),
        cmocka_unit_test(calls_of_rounds),
        cmocka_unit_test(errors_end_the_program),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
