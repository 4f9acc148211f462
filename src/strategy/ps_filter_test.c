/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a filter and a budget send. Goal: of every vector the parts that are sent and those that
 * wait are the whole, to the bit; exactly the largest by relative size are sent, no more than fit.
 * Method: random vectors of odd sizes with ties, zeros and weights of 0, against sorting.
 */
#include "base/rng.h"
#include "strategy/ps.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { SIZE = 701 };

static float w[SIZE], x[SIZE], sum[SIZE], part[SIZE];

static void draw(uint64_t seed)
{
    fast_rng rng;

    fast__rng_init(&rng, seed, FAST_PURPOSE_TEST, 0, 0, 0);
    for (int i = 0; i < SIZE; i++) {
        w[i] = fast__rng_below(&rng, 9) == 0 ? 0 : (float)fast__rng_below(&rng, 1000) / 100 - 5;
        /* Few different values: ties. */
        x[i] = (float)fast__rng_below(&rng, seed % 2 ? 5 : 100000) / 16 - 1;
    }
    memcpy(sum, x, sizeof sum);
}

/* The size that is compared. */
static double size_of(int i)
{
    return (double)(0.5f * fabsf(x[i]) / (fabsf(w[i]) + 1e-30f));
}

static void budgets_take_the_largest(void **state)
{
    static const int64_t budgets[] = { 0, 1, 2, 7, 100, 350, 690, 701, 10000 };

    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++)
        for (size_t b = 0; b < sizeof budgets / sizeof budgets[0]; b++) {
            int64_t sent = 0, there = 0;
            double smallest = INFINITY, largest = 0;

            draw(seed);
            fast__ps_select(SIZE, w, 0.5f, 0, budgets[b], sum, part);
            for (int i = 0; i < SIZE; i++) {
                assert_true(part[i] + sum[i] == x[i] && (part[i] == 0 || sum[i] == 0));
                there += x[i] != 0;
                sent += part[i] != 0;
                if (part[i] != 0)
                    smallest = fmin(smallest, size_of(i));
                else if (x[i] != 0)
                    largest = fmax(largest, size_of(i));
            }
            assert_int_equal(sent, budgets[b] < there ? budgets[b] : there);
            assert_true(smallest >= largest);
        }
}

static void filters_take_what_matters(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        draw(seed);
        fast__ps_select(SIZE, w, 0.5f, 2, INT64_MAX, sum, part);
        for (int i = 0; i < SIZE; i++) {
            const bool matters = 0.5f * fabsf(x[i]) >= 2 * fabsf(w[i]);

            assert_true(part[i] == (matters ? x[i] : 0) && sum[i] == (matters ? 0 : x[i]));
        }
    }
    /* What is not a number is not kept back. */
    draw(1);
    sum[3] = NAN;
    fast__ps_select(SIZE, w, 0.5f, 2, 1, sum, part);
    assert_true(isnan(part[3]) && sum[3] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(budgets_take_the_largest),
        cmocka_unit_test(filters_take_what_matters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
