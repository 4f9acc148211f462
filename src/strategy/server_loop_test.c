/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The programs of `quorum`, `federated`, `dogwild`, `hogwild` and `mpca` alone. Goal: the calls of
 * workers and servers, step by step; the weights by the formulas of their files; an error of any
 * call ends the program that met it. Method: the fake host, whose quadratics have exact solutions,
 * on the simulator, and for memory that workers share on threads.
 */
#include "fake_host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { STEPS = 4 };

/* Run without an error. */
static void run(const char *strategy, int64_t workers, fake_result *out)
{
    fake_run(&(fake_options){ .strategy = strategy, .workers = workers, .steps = STEPS }, out);
    if (out->err)
        fail_msg("%s: %s", strategy, out->detail);
}

static void assert_w(const fake_result *r, int64_t actor, float w)
{
    for (int64_t j = 0; j < FAKE_COUNT; j++)
        assert_true(r->actors[actor].w[j] == w);
}

/* With all workers in every round it is the synchronous mean, also in micro-batches. */
static void quorum_of_all_is_synchronous(void **state)
{
    static const char *const strategies[] = { "quorum", "quorum:servers=2", "quorum:partial=yes" };

    (void)state;
    for (int64_t i = 0; i < 9; i++) {
        const int64_t workers = 1 + i % 3;
        fake_result r;

        run(strategies[i / 3], workers, &r);
        for (int64_t k = 0; k < workers; k++) {
            fake_assert_calls(&r, k, "",
                              i < 6 ? "next gradient update_by"
                                    : "next micro_gradient apply count_step update_by",
                              "next end");
            for (int64_t j = 0; j < FAKE_COUNT; j++)
                assert_float_equal(r.actors[k].w[j], 0.9375f * (float)(workers + 1) / 2, 1e-6f);
        }
        for (int64_t k = workers; k < r.actor_count; k++)
            assert_string_equal(r.actors[k].calls, "sum_list sum_list sum_list sum_list");
    }
}

/* A backup worker applies the rounds of the other one, and contributes nothing. */
static void quorum_drops_late_gradients(void **state)
{
    fake_result r;

    (void)state;
    run("quorum:backup=1", 2, &r);
    for (int64_t k = 0; k < 2; k++) {
        fake_assert_calls(&r, k, "", "next gradient update_by", "next end");
        assert_w(&r, k, 0.9375f);
        assert_true(r.actors[k].contributions[0] == 4 && r.actors[k].contributions[1] == 0);
    }
}

/* A round of two local steps ends with the mean of the devices' models. */
static void federated_rounds_are_means(void **state)
{
    (void)state;
    for (int64_t workers = 1; workers <= 3; workers++) {
        fake_result r;

        run("federated:period=2", workers, &r);
        for (int64_t k = 0; k < workers; k++) {
            assert_string_equal(
                r.actors[k].calls,
                "centre adopt reset_rule set_step next gradient update "
                "next gradient update adopt reset_rule set_step next gradient update "
                "next gradient update adopt reset_rule set_step end");
            for (int64_t j = 0; j < FAKE_COUNT; j++) {
                assert_float_equal(r.actors[k].w[j], 0.9375f * (float)(workers + 1) / 2, 1e-6f);
                assert_true(r.actors[k].centre[j] == r.actors[k].w[j]);
            }
        }
        /* The server applies each report, and once a round their mean. */
        assert_int_equal(r.actors[workers].failable, 2 * (workers + 1));
    }
}

/* A device that is never selected takes no step, and ends with the model of the run. */
static void federated_leaves_devices_out(void **state)
{
    fake_result r;

    (void)state;
    run("federated:period=2,over=1,part=0.5", 2, &r);
    assert_int_equal(r.actors[0].steps + r.actors[1].steps, STEPS);
    assert_memory_equal(r.actors[0].w, r.actors[1].w, sizeof r.actors[0].w);
    assert_string_equal(r.actors[2].calls, "apply apply apply apply");
}

/* One worker with one chunk. An answer arrives two steps after its change, so that it lacks the
 * change in between: w <- z + (w - b);  b <- z. */
static void dogwild_is_the_formula(void **state)
{
    float w = 0, b = 0, z = 0, answers[STEPS];
    fake_result r;

    (void)state;
    for (int i = 0; i <= STEPS; i++) {
        if (i >= 2) {
            w = answers[i - 2] + (w - b);
            b = answers[i - 2];
        }
        if (i == STEPS)
            break;
        w -= 0.5f * (w - 1);
        z += w - b;
        b = w;
        answers[i] = z;
    }
    z += w - b;
    run("dogwild", 1, &r);
    assert_string_equal(r.actors[0].calls,
                        "centre next gradient update apply_range next gradient update apply_range "
                        "next adopt apply_range gradient update apply_range "
                        "next adopt apply_range gradient update apply_range "
                        "next end adopt apply_range apply_range adopt");
    assert_w(&r, 0, z);
    assert_w(&r, 1, z);
    /* With several workers the last one has the whole model of the master. */
    run("dogwild:chunk=4", 3, &r);
    assert_int_equal(r.actors[3].failable, 3 * (2 * STEPS + 1));
}

/* One worker is plain SGD, in one chunk or in three. */
static void hogwild_is_sgd_alone(void **state)
{
    fake_result r;

    (void)state;
    run("hogwild", 1, &r);
    fake_assert_calls(&r, 0, "", "next gradient apply_range update adopt", "next adopt end");
    assert_w(&r, 0, 0.9375f);
    run("hogwild:chunk=2", 1, &r);
    fake_assert_calls(&r, 0, "",
                      "next gradient apply_range update_range apply_range update_range "
                      "apply_range update_range adopt",
                      "next adopt end");
    assert_w(&r, 0, 0.9375f);
    for (int64_t workers = 2; workers <= 3; workers++) {
        fake_run(
            &(fake_options){
                .strategy = "hogwild", .transport = "threads", .workers = workers, .steps = STEPS },
            &r);
        assert_int_equal(r.err, FAST_OK);
        for (int64_t k = 0; k < workers; k++)
            fake_assert_calls(&r, k, "", "next gradient update_range update_range adopt",
                              "next adopt end");
    }
    /* The same bits where the ranges that the gradient reports are updated at once. */
    fake_run(
        &(fake_options){
            .strategy = "hogwild:chunk=2", .transport = "threads", .steps = STEPS, .workers = 1 },
        &r);
    assert_w(&r, 0, 0.9375f);
}

/* One worker, whose first model is sent after its last step: m <- w, v <- m, z <- m + 2 v; before
 * that the penalty pulls it to the initial z = 0. */
static void mpca_is_the_formula(void **state)
{
    const float rho = 0.5f;
    fake_result r;
    float w = 0;

    (void)state;
    for (int i = 0; i < STEPS; i++)
        w -= 0.5f * ((w - 1) + rho * w);
    run("mpca:rho=0.5,period=4", 1, &r);
    fake_assert_calls(&r, 0, "centre", "next gradient apply adopt update", "next end");
    assert_string_equal(r.actors[1].calls, "apply");
    assert_w(&r, 0, w);
    for (int64_t j = 0; j < FAKE_COUNT; j++)
        assert_float_equal(r.actors[0].centre[j], 3 * w, 1e-6f);
}

/* The model of the last step but one is in transit at the last step: the model of the last step is
 * sent too, so that the master has all steps. */
static void mpca_sends_the_last_model(void **state)
{
    fake_result r;
    float w = 0, before = 0;

    (void)state;
    for (int i = 0; i < STEPS; i++) {
        before = w;
        w -= 0.5f * ((w - 1) + 0.5f * w);
    }
    run("mpca:rho=0.5,period=3", 1, &r);
    assert_string_equal(r.actors[1].calls, "apply apply");
    assert_w(&r, 0, w);
    for (int64_t j = 0; j < FAKE_COUNT; j++)
        assert_float_equal(r.actors[0].centre[j], w + 2 * (w - before), 1e-6f);
}

static void errors_end_the_program(void **state)
{
    static const char *const strategies[] = {
        "quorum",  "quorum:partial=yes", "dogwild", "dogwild:chunk=4", "mpca:period=2",
        "hogwild", "federated:period=2"
    };

    (void)state;
    for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++)
        for (int64_t workers = 1; workers <= 3; workers++) {
            const fake_options options = { .strategy = strategies[i],
                                           .workers = workers,
                                           .steps = STEPS };

            assert_true(fake_assert_errors(&options) >= workers * (3 * STEPS + 2));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quorum_of_all_is_synchronous),
        cmocka_unit_test(quorum_drops_late_gradients),
        cmocka_unit_test(federated_rounds_are_means),
        cmocka_unit_test(federated_leaves_devices_out),
        cmocka_unit_test(dogwild_is_the_formula),
        cmocka_unit_test(hogwild_is_sgd_alone),
        cmocka_unit_test(mpca_is_the_formula),
        cmocka_unit_test(mpca_sends_the_last_model),
        cmocka_unit_test(errors_end_the_program),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
