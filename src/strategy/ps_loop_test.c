/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The programs of `ps` alone. Goal: the calls of workers, owners and proxies, step by step; the
 * weights by the formulas of ps.c; an error of any call ends the program that met it. Method: the
 * fake host, whose quadratics have exact solutions, on the simulator.
 */
#include "fake_host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { STEPS = 3 };

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

/* Rounds end with a read, whose model is adopted; a round is one update of the owner. */
static void calls_of_rounds(void **state)
{
    (void)state;
    for (int64_t workers = 1; workers <= 3; workers++) {
        fake_result r;

        run("ps:slack=0", workers, &r);
        for (int64_t k = 0; k < workers; k++) {
            fake_assert_calls(&r, k, "persist space settle", "next gradient_when adopt",
                              "next settle end space_close");
            /* Each round halves the distance to the mean of the targets. */
            assert_w(&r, k, 0.875f * (float)(workers + 1) / 2);
        }
        assert_string_equal(r.actors[workers].calls,
                            "space update_range update_range update_range space_close");
    }
}

/* Every worker's gradient is an update of its own, whatever the slack. */
static void calls_of_free_workers(void **state)
{
    static const char *const strategies[] = { "ps:slack=2", "ps", "ps:value=0.05",
                                              "ps:priority=yes" };

    (void)state;
    for (int64_t i = 0; i < 12; i++) {
        const int64_t workers = 1 + i % 3;
        fake_result r;

        run(strategies[i / 3], workers, &r);
        for (int64_t k = 0; k < workers; k++)
            fake_assert_calls(&r, k, "space", "next gradient_when", "next end adopt space_close");
        assert_int_equal(r.actors[workers].observed[FAST_OBSERVE_STALENESS], workers * STEPS);
        if (workers == 1)
            assert_w(&r, 0, 0.875f);
    }
}

/* Downpour's client takes a local step after every gradient, and writes the gradients' sum: two
 * steps go from 0 to 0.75, and so does the server by that sum. */
static void periods_sum_gradients_of_local_steps(void **state)
{
    fake_result r;

    (void)state;
    run("ps:push=2,fetch=2", 1, &r);
    fake_assert_calls(&r, 0, "space", "next gradient_when", "next end adopt space_close");
    assert_string_equal(r.actors[1].calls, "space update_range update_range space_close");
    assert_w(&r, 0, 0.75f - 0.5f * (0.75f - 1));
    /* The last write holds one step, not two. */
    assert_true(r.actors[0].contributions[0] == STEPS);
    /* A write in every step: the server's steps are those of the worker, to the bit. */
    run("ps:fetch=3", 1, &r);
    assert_w(&r, 0, 0.875f);
}

/* On threads a write is a visit of the server's memory, with the next read, or with the worker's
 * own update of the weights that it uses again. One worker is plain SGD there too: 1 - 2^-3. */
static void visits_of_one_worker_are_sgd(void **state)
{
    static const char *const strategies[] = { "ps", "ps:slack=2", "ps:slack=3,cache_age=3",
                                              "ps:servers=2", "ps:fetch=2" };

    (void)state;
    for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++) {
        fake_result r;

        fake_run(
            &(fake_options){
                .strategy = strategies[i], .transport = "threads", .workers = 1, .steps = STEPS },
            &r);
        assert_int_equal(r.err, FAST_OK);
        for (int64_t j = 0; j < FAKE_COUNT; j++)
            assert_true(r.actors[0].w[j] == 0.875f);
    }
}

/* The server's rule is applied to the sum of the gradients, not to the local steps: Adagrad divides
 * the first sum by its own root, so that the step is lr whatever the sum is. */
static void servers_apply_their_rule_to_the_sum(void **state)
{
    fake_result r;

    (void)state;
    fake_run(
        &(fake_options){
            .strategy = "ps:push=2,fetch=2", .workers = 1, .steps = 2, .optimizer = "adagrad" },
        &r);
    assert_int_equal(r.err, FAST_OK);
    for (int64_t j = 0; j < FAKE_COUNT; j++)
        assert_float_equal(r.actors[0].w[j], 0.5f, 1e-5f);
}

/* Differences are those of local steps; their mean is divided by the number of steps. */
static void differences_are_local_steps(void **state)
{
    fake_result r;

    (void)state;
    run("ps:send=differences", 1, &r);
    fake_assert_calls(&r, 0, "space", "next gradient_when update", "next end adopt space_close");
    assert_string_equal(r.actors[1].calls, "space space_close");
    assert_w(&r, 0, 0.875f);
    /* Two local steps go from 0 to 0.75, of which half is added; the last one is added whole. */
    run("ps:send=mean,fetch=2,push=2", 1, &r);
    assert_w(&r, 0, 0.375f + 0.5f * (1 - 0.375f));
}

/* d <- mu d + (rule(w) - w);  w <- w + d. With l1 the step shrinks w by lr l1. */
static void servers_add_momentum_and_shrink(void **state)
{
    float w = 0, d = 0, x = 0;
    fake_result r;

    (void)state;
    for (int i = 0; i < STEPS; i++) {
        d = 0.5f * d - 0.5f * (w - 1);
        w += d;
        x -= 0.5f * (x - 1);
        x -= 0.5f * 0.25f;
    }
    run("ps:momentum=0.5", 1, &r);
    assert_w(&r, 0, w);
    assert_string_equal(r.actors[1].calls,
                        "persist space update_range update_range update_range space_close");
    run("ps:l1=0.25", 1, &r);
    assert_w(&r, 0, x);
}

/* An update of two gradients is their mean; one that waits is not in the model. */
/* Four updates of one version, the later ones 1, 2 and 3 late: from 0, by half of 1, 2, 3 / 2 and
 * 4 / 3, or of their sum / P. */
static void late_updates_are_scaled(void **state)
{
    fake_result r;

    (void)state;
    fake_run(&(fake_options){ .strategy = "ps:staleness=inverse", .workers = 4, .steps = 1 }, &r);
    assert_int_equal(r.err, FAST_OK);
    assert_float_equal(r.actors[3].w[0], 0.5f * (1 + 2 + 1.5f + 4.0f / 3), 1e-6f);
    fake_run(&(fake_options){ .strategy = "ps:staleness=workers", .workers = 4, .steps = 1 }, &r);
    assert_int_equal(r.err, FAST_OK);
    assert_float_equal(r.actors[3].w[0], 0.5f * (1 + 2 + 3 + 4) / 4, 1e-6f);
}

static void updates_are_means(void **state)
{
    fake_result r;

    (void)state;
    run("ps:aggregate=2", 1, &r);
    assert_string_equal(r.actors[1].calls, "space update_range space_close");
    assert_w(&r, 0, 0.5f);
}

/* One of three gradients of a round is not waited for: the first two are its update. */
static void backup_workers_are_not_awaited(void **state)
{
    fake_result r;

    (void)state;
    run("ps:slack=0,backup=1", 3, &r);
    assert_string_equal(r.actors[3].calls,
                        "space update_range update_range update_range space_close");
    for (int64_t k = 0; k < 3; k++) {
        fake_assert_calls(&r, k, "persist space", "next gradient_when",
                          "next end adopt space_close");
        assert_w(&r, k, 0.875f * 1.5f); /* the mean of workers 0 and 1 */
    }
}

/* A proxy makes one gradient of its workers'; every copy gets all updates. */
static void proxies_and_replicas_are_rounds(void **state)
{
    (void)state;
    for (int64_t workers = 1; workers <= 3; workers++) {
        fake_result r;

        run("ps:proxies=1", workers, &r);
        for (int64_t k = 0; k < workers; k++) {
            fake_assert_calls(&r, k, "", "next gradient", "next end adopt space_close");
            for (int64_t j = 0; j < FAKE_COUNT; j++)
                assert_float_equal(r.actors[k].w[j], 0.875f * (float)(workers + 1) / 2, 1e-6f);
        }
        assert_string_equal(r.actors[workers + 1].calls,
                            "space sum_list sum_list sum_list space_close space_close");
        run("ps:slack=0,replicas=1", workers, &r);
        for (int64_t k = 0; k < workers; k++) {
            fake_assert_calls(&r, k, "persist space space", "next gradient_when",
                              "next end adopt space_close space_close");
            assert_w(&r, k, 0.875f * (float)(workers + 1) / 2);
        }
        assert_string_equal(r.actors[workers].calls, r.actors[workers + 1].calls);
    }
}

static void errors_end_the_program(void **state)
{
    static const char *const strategies[] = {
        "ps:slack=0",        "ps:slack=2",          "ps",
        "ps:push=2,fetch=2", "ps:value=0.05",       "ps:proxies=1",
        "ps:replicas=1",     "ps:send=differences", "ps:momentum=0.5",
    };

    (void)state;
    for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++)
        for (int64_t workers = 1; workers <= 3; workers++) {
            const fake_options options = { .strategy = strategies[i],
                                           .workers = workers,
                                           .steps = STEPS };

            assert_true(fake_assert_errors(&options) >= workers * (2 * STEPS + 2));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_of_rounds),
        cmocka_unit_test(calls_of_free_workers),
        cmocka_unit_test(periods_sum_gradients_of_local_steps),
        cmocka_unit_test(visits_of_one_worker_are_sgd),
        cmocka_unit_test(servers_apply_their_rule_to_the_sum),
        cmocka_unit_test(differences_are_local_steps),
        cmocka_unit_test(servers_add_momentum_and_shrink),
        cmocka_unit_test(late_updates_are_scaled),
        cmocka_unit_test(updates_are_means),
        cmocka_unit_test(backup_workers_are_not_awaited),
        cmocka_unit_test(proxies_and_replicas_are_rounds),
        cmocka_unit_test(errors_end_the_program),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
