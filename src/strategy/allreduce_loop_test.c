/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop of `allreduce` alone. Goal: one sum and one update in each step, or one update for each
 * bucket; replicas that are equal to the bit; an error of any call ends the program that met it.
 * Method: the fake host, whose quadratics have exact solutions.
 */
#include "fake_host.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { STEPS = 3 };

/* All replicas halve their distance to the mean of the targets at each step. */
static void assert_mean(const fake_result *r, int64_t workers)
{
    assert_int_equal(r->err, FAST_OK);
    for (int64_t k = 0; k < workers; k++)
        for (int64_t j = 0; j < FAKE_COUNT; j++) {
            const double mean = (double)(workers + 1) / 2 * 0.875;

            assert_memory_equal(r->actors[k].w, r->actors[0].w, sizeof r->actors[k].w);
            assert_float_equal(r->actors[k].w[j], mean, 1e-6);
        }
}

/* One worker sums nothing, and updates each range as it is reported. Several ask for a shared
 * model, which this run does not have. */
static void one_sum_a_step(void **state)
{
    static const char *const transports[] = { "sim", "threads" };

    (void)state;
    for (int64_t i = 0; i < 6; i++) {
        const int64_t workers = 1 + i % 3;
        const fake_options options = { .strategy = "allreduce:overlap=no",
                                       .transport = transports[i / 3],
                                       .workers = workers,
                                       .steps = STEPS };
        fake_result r;

        fake_run(&options, &r);
        assert_mean(&r, workers);
        for (int64_t k = 0; k < workers; k++)
            fake_assert_calls(&r, k, workers > 1 ? "share" : "",
                              workers > 1 ? "next gradient sum update"
                                          : "next gradient update_range update_range",
                              "next end");
    }
}

/* The first step counts the buckets; later ones sum each of them as soon as it is final. */
static void one_update_a_bucket(void **state)
{
    (void)state;
    for (int64_t workers = 2; workers <= 3; workers++) {
        fake_options options = { .strategy = "allreduce:overlap=yes,bucket=4",
                                 .workers = workers,
                                 .steps = STEPS };
        fake_result r;

        fake_run(&options, &r);
        assert_mean(&r, workers);
        for (int64_t k = 0; k < workers; k++)
            assert_string_equal(r.actors[k].calls, "next gradient sum update "
                                                   "next gradient sum_range_start sum_range_start "
                                                   "update_range update_range "
                                                   "next gradient sum_range_start sum_range_start "
                                                   "update_range update_range "
                                                   "next end");
        options.strategy = "allreduce:overlap=yes";
        fake_run(&options, &r);
        assert_mean(&r, workers);
        assert_string_equal(r.actors[0].calls,
                            "next gradient sum update "
                            "next gradient sum_range_start update_range "
                            "next gradient sum_range_start update_range next end");
    }
}

/* Workers ask for a shared model; if the run has no shared memory, replicas are updated. */
static void sharing_is_asked_for(void **state)
{
    const fake_options options = {
        .strategy = "allreduce:share=yes", .transport = "threads", .workers = 2, .steps = STEPS
    };
    fake_result r;

    (void)state;
    fake_run(&options, &r);
    assert_mean(&r, 2);
    fake_assert_calls(&r, 1, "share", "next gradient sum update", "next end");
}

/* With shared weights one call sums and updates. */
static void shared_weights_are_updated_once(void **state)
{
    (void)state;
    for (int64_t workers = 2; workers <= 3; workers++) {
        const fake_options options = { .strategy = "allreduce:share=yes,overlap=no",
                                       .transport = "threads",
                                       .workers = workers,
                                       .steps = STEPS,
                                       .share = true };
        fake_result r;

        fake_run(&options, &r);
        assert_mean(&r, workers);
        for (int64_t k = 0; k < workers; k++) {
            fake_assert_calls(&r, k, "share", "next gradient update_shared", "next end");
            for (int64_t j = 0; j < workers; j++)
                assert_true(fabs(r.actors[k].contributions[j] - STEPS) < 1e-6);
        }
    }
}

static int64_t count_calls(const char *calls, const char *name)
{
    const size_t length = strlen(name);
    int64_t count = 0;

    for (const char *at = strstr(calls, name); at; at = strstr(at + length, name))
        count += (at == calls || at[-1] == ' ') && (at[length] == ' ' || !at[length]);
    return count;
}

/* The first step sums at once, the second one starts 3 slices of 2 floats in its reports, and from
 * the third on the gradient waits for the ranges that it reads. All are updated in the end. */
static void priority_updates_every_slice(void **state)
{
    static const char *const head = "settle next gradient sum_range update next gradient "
                                    "sum_range_start sum_range_start sum_range_start update_range "
                                    "update_range update_range next gradient_when ";

    (void)state;
    for (int64_t workers = 2; workers <= 3; workers++) {
        const fake_options options = { .strategy = "allreduce:priority=yes,bucket=8",
                                       .workers = workers,
                                       .steps = STEPS };
        fake_result r;

        fake_run(&options, &r);
        assert_mean(&r, workers);
        for (int64_t k = 0; k < workers; k++) {
            const char *calls = r.actors[k].calls;

            assert_memory_equal(calls, head, strlen(head));
            assert_int_equal(count_calls(calls, "gradient_when"), STEPS - 2);
            assert_int_equal(count_calls(calls, "sum_range_start"), 3 * (STEPS - 1));
            assert_int_equal(count_calls(calls, "update_range"), 3 * (STEPS - 1));
            assert_int_equal(count_calls(calls, "settle"), 2);
            for (int64_t j = 0; j < workers; j++)
                assert_true(fabs(r.actors[k].contributions[j] - STEPS) < 1e-6);
        }
    }
}

static void errors_end_the_program(void **state)
{
    static const char *const strategies[] = { "allreduce:overlap=no",
                                              "allreduce:overlap=yes,bucket=4",
                                              "allreduce:priority=yes,bucket=8" };

    (void)state;
    for (int64_t i = 0; i < 9; i++) {
        const fake_options options = { .strategy = strategies[i / 3],
                                       .workers = 1 + i % 3,
                                       .steps = STEPS };

        assert_true(fake_assert_errors(&options) > 2 * STEPS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_sum_a_step),
        cmocka_unit_test(one_update_a_bucket),
        cmocka_unit_test(sharing_is_asked_for),
        cmocka_unit_test(shared_weights_are_updated_once),
        cmocka_unit_test(priority_updates_every_slice),
        cmocka_unit_test(errors_end_the_program),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
