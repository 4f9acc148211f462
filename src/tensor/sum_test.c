/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: sums have the canonical order to the bit, for any number of vectors, length and alignment.
 * Method: the order as comm.h says it, written out as a recursion over one element at a time;
 * values of very different sizes, so that another order gives other bits; guards around every
 * vector; the same range cut in two.
 */
#include "base/rng.h"
#include "tensor/sum.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { VECTORS = 37, LENGTH = 1300, ROOM = LENGTH + 40 };

static const float GUARD = 12345.0f;
static float memory[VECTORS][ROOM];
static float before[VECTORS][ROOM];

/* The canonical sum of values v[0 .. n). */
static float tree(const float *v, int64_t n)
{
    return n == 1 ? v[0] : tree(v, n / 2) + tree(v + n / 2, n / 2);
}

static float canonical(const float *v, int64_t n)
{
    float leaf[VECTORS];
    int64_t leaves = 1;
    while (leaves * 2 <= n)
        leaves *= 2;
    const int64_t r = n - leaves;
    for (int64_t j = 0; j < leaves; j++)
        leaf[j] = j < r ? v[2 * j] + v[2 * j + 1] : v[j + r];
    return tree(leaf, leaves);
}

static void fill(uint64_t sample)
{
    static const float scales[4] = { 1e-6f, 1, 1e3f, 1e7f };
    fast_rng rng;
    fast__rng_init(&rng, 5, FAST_PURPOSE_TEST, 0, 0, sample);
    for (int i = 0; i < VECTORS; i++)
        for (int j = 0; j < ROOM; j++)
            memory[i][j] = fast__rng_normal(&rng) * scales[(i + j) % 4];
    memcpy(before, memory, sizeof memory);
}

static void expect_bits(float x, float y)
{
    assert_memory_equal(&x, &y, sizeof x);
}

static const int64_t lengths[] = { 0, 1, 7, 16, 33, 511, 512, 513, 1025, LENGTH };

static void test_sum_all(void **state)
{
    (void)state;
    float *x[VECTORS];
    float v[VECTORS];
    for (int64_t n = 1; n <= VECTORS; n++) {
        for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
            const int64_t length = lengths[l];
            fill((uint64_t)(n * 100) + l);
            for (int64_t i = 0; i < n; i++) {
                x[i] = memory[i] + 1 + (i * 5 + n) % 17; /* each from an offset of its own */
                x[i][-1] = x[i][length] = GUARD;
            }
            /* Two ranges that share a border. */
            const int64_t cut = length / 3;
            fast__sum_all(x, n, 0, cut);
            fast__sum_all(x, n, cut, length - cut);
            for (int64_t j = 0; j < length; j++) {
                for (int64_t i = 0; i < n; i++)
                    v[i] = before[i][x[i] - memory[i] + j];
                for (int64_t i = 0; i < n; i++)
                    expect_bits(x[i][j], canonical(v, n));
            }
            for (int64_t i = 0; i < n; i++) {
                expect_bits(x[i][-1], GUARD);
                expect_bits(x[i][length], GUARD);
            }
        }
    }
}

static void test_sum(void **state)
{
    (void)state;
    static float y[LENGTH + 2];
    const float *x[VECTORS];
    float v[VECTORS];
    for (int64_t n = 1; n <= VECTORS; n++) {
        for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
            const int64_t length = lengths[l];
            fill((uint64_t)(n * 100) + l);
            for (int64_t i = 0; i < n; i++)
                x[i] = memory[i] + (i * 3 + n) % 17;
            y[0] = y[length + 1] = GUARD;
            fast__sum(x, n, length, y + 1);
            for (int64_t j = 0; j < length; j++) {
                for (int64_t i = 0; i < n; i++)
                    v[i] = x[i][j];
                expect_bits(y[j + 1], canonical(v, n));
            }
            expect_bits(y[0], GUARD);
            expect_bits(y[length + 1], GUARD);
            assert_memory_equal(memory, before, sizeof memory);
        }
    }
}

/* As many vectors as are allowed: the stack has room. */
static void test_many(void **state)
{
    (void)state;
    static float ones[3] = { 1, 1, 1 };
    static const float *x[FAST_SUM_MAX];
    float y[3];
    for (int i = 0; i < FAST_SUM_MAX; i++)
        x[i] = ones;
    fast__sum(x, FAST_SUM_MAX, 3, y);
    expect_bits(y[2], FAST_SUM_MAX);
    fast__sum(x, FAST_SUM_MAX - 1, 3, y);
    expect_bits(y[0], FAST_SUM_MAX - 1);
}

/* The sum is -0 only if all values are -0. */
static void test_zero(void **state)
{
    (void)state;
    float a[2] = { -0.0f, -0.0f };
    float b[2] = { -0.0f, 0.0f };
    fast__sum_all((float *const[]){ a, b }, 2, 0, 2);
    expect_bits(a[0], -0.0f);
    expect_bits(b[0], -0.0f);
    expect_bits(a[1], 0.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sum_all),
        cmocka_unit_test(test_sum),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
