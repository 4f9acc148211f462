/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the range test of learning rates finds the limit of stability where it is known.
 *
 * Method: linear regression by gradient descent on the whole set. Its loss is a quadratic with the
 * Hessian H = 2/N sum (x, 1)(x, 1)^T, whose largest eigenvalue L, found by power iteration, makes
 * 2 / L the limit. Several workers must give the losses of one with their batches together.
 */
#include "fast/lab.h"
#include "run/run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { POINTS_MAX = 400, FEATURES = 10 };

/* The points of one test. */
typedef struct told {
    int count;                        /* of points */
    fast_lr_point points[POINTS_MAX]; /* in order */
} told;

static bool on_point(void *ctx, const fast_lr_point *point)
{
    told *t = ctx;

    assert_true(t->count < POINTS_MAX);
    t->points[t->count++] = *point;
    return true;
}

static const char *const quadratic[] = { "model=mlp:hidden=none",
                                         "data=linear:train=200",
                                         "batch=200",
                                         "engine=ref",
                                         "optimizer=sgd",
                                         "steps=300",
                                         NULL };

/* The largest eigenvalue of the Hessian of the mean squared error. */
static double largest_curvature(void)
{
    fast_run *run = NULL;
    double v[FEATURES + 1], next[FEATURES + 1], value = 0;

    assert_int_equal(fast_run_open(quadratic, &run), FAST_OK);
    const fast_data *data = run->data.train;
    assert_int_equal(data->features, FEATURES);
    for (int i = 0; i <= FEATURES; i++)
        v[i] = 1;
    for (int round = 0; round < 500; round++) {
        double norm = 0;

        memset(next, 0, sizeof next);
        for (int64_t n = 0; n < data->count; n++) {
            const float *raw = (const float *)data->x + n * FEATURES;
            double x[FEATURES + 1], dot = 0;

            for (int i = 0; i <= FEATURES; i++) {
                const int64_t c = data->channels == 1 ? 0 : i;

                x[i] = i < FEATURES
                           ? ((double)raw[i] - (double)data->mean[c]) * (double)data->scale[c]
                           : 1;
                dot += x[i] * v[i];
            }
            for (int i = 0; i <= FEATURES; i++)
                next[i] += 2 * dot * x[i] / (double)data->count;
        }
        for (int i = 0; i <= FEATURES; i++)
            norm += next[i] * next[i];
        value = sqrt(norm);
        for (int i = 0; i <= FEATURES; i++)
            v[i] = next[i] / value;
    }
    fast_run_close(run);
    return value;
}

static void the_limit_of_a_quadratic(void **state)
{
    (void)state;
    const double limit = 2 / largest_curvature();
    static told t;
    fast_lr_range range;

    assert_int_equal(fast_find_lr(quadratic, 1e-4, 100, on_point, &t, &range), FAST_OK);
    assert_true(range.diverged);
    assert_int_equal(range.steps, t.count);
    assert_true(fabs(t.points[0].lr - 1e-4) < 1e-12);
    /* Below the limit every step of gradient descent lowers the loss. */
    for (int i = 1; i < t.count && t.points[i - 1].lr < 0.99 * limit; i++)
        assert_true(t.points[i].loss <= t.points[i - 1].loss * (1 + 1e-5));
    assert_true(range.minimum > 0.99 * limit);
    assert_true(range.minimum < 3 * limit);
    assert_true(t.points[t.count - 1].lr > limit);
    assert_true(t.points[t.count - 1].lr < 5 * limit);
    assert_true(range.suggested < limit && range.suggested > limit / 20);
    assert_true(range.steepest < limit);
    assert_true(fabs(range.suggested - range.minimum / 10) < 1e-12);
}

static void workers_count_together(void **state)
{
    (void)state;
    static told one, four;
    fast_lr_range range;
    const char *const base[] = { "model=mlp:hidden=16",
                                 "data=digits:train=256,test=16",
                                 "engine=ref",
                                 "batch=32",
                                 "steps=20",
                                 NULL };
    const char *const team[] = { "model=mlp:hidden=16",
                                 "data=digits:train=256,test=16",
                                 "engine=ref",
                                 "batch=8",
                                 "steps=20",
                                 "workers=4",
                                 NULL };

    assert_int_equal(fast_find_lr(base, 1e-3, 1, on_point, &one, &range), FAST_OK);
    assert_int_equal(fast_find_lr(team, 1e-3, 1, on_point, &four, &range), FAST_OK);
    assert_int_equal(one.count, 20);
    for (int i = 0; i < 20; i++)
        assert_true(fabs(one.points[i].loss - four.points[i].loss) < 1e-5);
}

static void refused(const char *word, const char *option, double from, double to)
{
    const char *const options[] = { "data=digits:train=64,test=16", option, NULL };
    fast_lr_range range;

    assert_int_equal(fast_find_lr(options, from, to, NULL, NULL, &range), FAST_EINVAL);
    if (!strstr(fast_error_detail(), word))
        fail_msg("\"%s\" does not say \"%s\"", fast_error_detail(), word);
}

static void options_without_a_meaning(void **state)
{
    (void)state;
    refused("lr=0.1", "lr=0.1", 1e-3, 1);
    refused("schedule", "schedule=constant", 1e-3, 1);
    refused("save", "save=x.safetensors", 1e-3, 1);
    refused("steps=3", "steps=3", 1e-3, 1);
    refused("smaller one first", "seed=1", 1, 1);
    refused("smaller one first", "seed=1", 0, 1);
    refused("smaller one first", "seed=1", 1e-3, NAN);
    refused("colour", "colour=1", 1e-3, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_limit_of_a_quadratic),
        cmocka_unit_test(workers_count_together),
        cmocka_unit_test(options_without_a_meaning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
