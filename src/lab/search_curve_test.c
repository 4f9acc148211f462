/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the statistics of searchers are right: extrapolated curves have the uncertainty that they
 * state, and Welch's test has tabled values. Method: known curves with noise of many seeds.
 */
#include "base/memory.h"
#include "lab/search.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* A trial with a curve of `count` points up to `end` of a run. */
static void make_curve(fast_trial *t, int count, double end, double (*f)(double), uint64_t seed)
{
    fast_rng rng;

    *t = (fast_trial){ .parent = -1, .point_count = count };
    assert_int_equal(fast__alloc("a curve", count, sizeof *t->points, &t->points), FAST_OK);
    fast__rng_init(&rng, seed, FAST_PURPOSE_SEARCH, 0, 0, 0);
    for (int i = 0; i < count; i++) {
        const double x = end * (i + 1) / count;

        t->points[i] = (fast_search_point){ x, f(x) + 0.01 * (double)fast__rng_normal(&rng) };
        t->value = t->points[i].value;
    }
}

static double power_curve(double x)
{
    return 0.1 + 0.08 / sqrt(x + 0.01);
}

static double falling_curve(double x)
{
    return 0.3 + 0.6 * exp(-6 * x);
}

/* Extrapolated curves: the value at the end is inside a central interval as often as its
 * probability says, or more often; more points make it narrower; a flat curve will not fall. */
static void curves(void **state)
{
    (void)state;
    double (*const f[])(double) = { power_curve, falling_curve };
    fast_trial t;

    for (int k = 0; k < 2; k++) {
        int inside = 0, early = 0;

        for (uint64_t seed = 1; seed <= 200; seed++) {
            make_curve(&t, 12, 0.4, f[k], seed);
            const double below = fast__curve_below(&t, 1, f[k](1));
            inside += below > 0.05 && below < 0.95;
            assert_true(fast__curve_below(&t, 1, f[k](1) + 0.25) > 0.95);
            assert_true(fast__curve_below(&t, 1, f[k](1) - 0.25) < 0.05);
            fast__free(t.points);
            make_curve(&t, 5, 0.05, f[k], seed);
            early += fast__curve_below(&t, 1, f[k](1) - 0.05) > 0.05;
            fast__free(t.points);
        }
        assert_true(inside >= 160);
        assert_true(early >= 100); /* a twentieth of a run leaves much open */
    }
    make_curve(&t, 3, 0.5, power_curve, 1);
    assert_true(isnan(fast__curve_below(&t, 1, 0.5)));
    t.points[1].value = INFINITY;
    assert_true(fast__curve_below(&t, 1, 0.5) == 0);
    fast__free(t.points);
}

/* Welch's test against tabled values: t = 2.19 with 6 degrees of freedom has p = 0.0355. */
static void welch(void **state)
{
    (void)state;
    fast_search_point low[] = { { 0.1, 1 }, { 0.2, 2 }, { 0.3, 3 }, { 0.4, 4 } };
    fast_search_point high[] = { { 0.1, 3 }, { 0.2, 4 }, { 0.3, 5 }, { 0.4, 6 } };
    fast_trial a = { .points = low, .point_count = 4, .value = 4 };
    fast_trial b = { .points = high, .point_count = 4, .value = 6 };

    assert_true(fast__welch_below(&a, &b, 0.9644));
    assert_false(fast__welch_below(&a, &b, 0.9646));
    assert_false(fast__welch_below(&b, &a, 0.5));
    assert_false(fast__welch_below(&a, &a, 0.5));
    high[3].value = 9; /* t = 1.8773, 4.37 degrees of freedom: p = 0.0638 */
    assert_true(fast__welch_below(&a, &b, 0.9361));
    assert_false(fast__welch_below(&a, &b, 0.9362));
    b.value = INFINITY;
    assert_true(fast__welch_below(&a, &b, 0.99));
    assert_false(fast__welch_below(&b, &a, 0.5));
    b = (fast_trial){ .points = high, .point_count = 1, .value = 6 };
    assert_true(fast__welch_below(&a, &b, 0.99)); /* the last values are compared */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(curves),
        cmocka_unit_test(welch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
