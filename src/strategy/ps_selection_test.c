/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selections of a filter and a budget. Goal: of every vector the parts that are sent and those that
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
            fast__ps_select(SIZE, w, &(ps_selection){ .lr = 0.5f, .most = budgets[b] }, sum, part);
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
        fast__ps_select(SIZE, w, &(ps_selection){ .lr = 0.5f, .bound = 2, .most = INT64_MAX }, sum,
                        part);
        for (int i = 0; i < SIZE; i++) {
            const bool matters = 0.5f * fabsf(x[i]) >= 2 * fabsf(w[i]);

            assert_true(part[i] == (matters ? x[i] : 0) && sum[i] == (matters ? 0 : x[i]));
        }
    }
    /* A value that is not a number is never held back. */
    draw(1);
    sum[3] = NAN;
    fast__ps_select(SIZE, w, &(ps_selection){ .lr = 0.5f, .bound = 2, .most = 1 }, sum, part);
    assert_true(isnan(part[3]) && sum[3] == 0);
}

/* Every entry is sent or waits, to the bit, and about the right part of them waits. */
static void skips_keep_everything(void **state)
{
    int64_t waiting = 0, there = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        fast_rng rng;

        draw(seed);
        sum[5] = x[5] = seed == 0 ? NAN : x[5];
        fast__rng_init(&rng, 7, FAST_PURPOSE_TEST, 0, seed, 0);
        fast__ps_select(
            SIZE, w, &(ps_selection){ .lr = 0.5f, .skip = 0.75f, .rng = &rng, .most = INT64_MAX },
            sum, part);
        assert_true(seed > 0 || isnan(part[5])); /* NaN is always sent */
        for (int i = 0; i < SIZE; i++) {
            assert_true(isnan(x[i]) || (part[i] + sum[i] == x[i] && part[i] * sum[i] == 0));
            waiting += sum[i] != 0;
            there += x[i] != 0;
        }
    }
    assert_true(fabs((double)waiting / (double)there - 0.75) < 0.02);
}

/* Gradients that a proximal step would undo are dropped; they do not wait. */
static void kkt_drops_what_moves_nothing(void **state)
{
    const float lr = 0.5f, l1 = 2;
    int dropped = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        draw(seed);
        fast__ps_select(SIZE, w, &(ps_selection){ .lr = lr, .l1 = l1, .most = INT64_MAX }, sum,
                        part);
        for (int i = 0; i < SIZE; i++) {
            const bool moves = w[i] != 0 || lr * fabsf(x[i]) > lr * l1;

            assert_true(sum[i] == 0 && part[i] == (moves ? x[i] : 0));
            dropped += !moves && x[i] != 0;
        }
    }
    assert_true(dropped > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(budgets_take_the_largest),
        cmocka_unit_test(filters_take_what_matters),
        cmocka_unit_test(skips_keep_everything),
        cmocka_unit_test(kkt_drops_what_moves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
