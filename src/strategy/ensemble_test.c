/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop of `ensemble` alone. Goal: workers take their own steps and exchange nothing; an error
 * of any call ends the program that met it and no other. Method: the fake host, whose quadratics
 * have exact solutions.
 */
#include "fake_host.h"
#include "small_run.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { STEPS = 3 };

static void workers_step_alone(void **state)
{
    static const char *const transports[] = { "sim", "threads" };

    (void)state;
    for (int64_t i = 0; i < 6; i++) {
        const int64_t workers = 1 + i % 3;
        const fake_options options = { .strategy = "ensemble",
                                       .transport = transports[i / 3],
                                       .workers = workers,
                                       .steps = STEPS };
        fake_result r;

        fake_run(&options, &r);
        assert_int_equal(r.err, FAST_OK);
        assert_int_equal(r.actor_count, workers);
        for (int64_t k = 0; k < workers; k++) {
            const fake_actor *a = &r.actors[k];

            fake_assert_calls(&r, k, "", "next gradient update", "next end");
            assert_int_equal(a->steps, STEPS);
            /* Each step halves the distance to the worker's own target. */
            for (int64_t j = 0; j < FAKE_COUNT; j++)
                assert_true(a->w[j] == (float)(k + 1) * 0.875f);
        }
    }
}

/* Without steps members differ by their initial weights; the first has those of a run alone. */
static void members_start_from_weights_of_their_own(void **state)
{
    static const char *const still[] = { "lr=0", "transport=sim", NULL };
    const fast_result one = test_small_run("ensemble", 1, still);
    const fast_result alone = test_small_run("local", 1, still);

    (void)state;
    assert_true(test_small_run("ensemble", 3, still).divergence > 1e-3);
    assert_true(test_small_run("local", 3, still).divergence == 0);
    assert_true(one.params_hash == alone.params_hash);
}

static void errors_end_one_program(void **state)
{
    (void)state;
    for (int64_t workers = 1; workers <= 3; workers++) {
        const fake_options options = { .strategy = "ensemble", .workers = workers, .steps = STEPS };
        const fake_options second = { .strategy = "ensemble",
                                      .workers = workers,
                                      .steps = STEPS,
                                      .fail_actor = workers - 1,
                                      .fail_call = 2 };
        fake_result r;

        /* Three calls in each step, and the last two. */
        assert_int_equal(fake_assert_errors(&options), workers * (3 * STEPS + 2));
        fake_run(&second, &r);
        assert_string_equal(r.actors[workers - 1].calls, "next gradient");
        for (int64_t k = 0; k + 1 < workers; k++)
            assert_int_equal(r.actors[k].err, FAST_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_step_alone),
        cmocka_unit_test(members_start_from_weights_of_their_own),
        cmocka_unit_test(errors_end_one_program),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
