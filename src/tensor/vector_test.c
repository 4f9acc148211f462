/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the kernels compute what their formulas say, to the bit, at every length and alignment.
 * Method: plain loops beside them, for lengths around the lanes and vectors, from every offset,
 * with guards around; sums against the definition of the lanes, written out once more; NaN,
 * infinity and negative zero.
 */
#include "base/memory.h"
#include "base/rng.h"
#include "tensor/vector.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { LENGTH_MAX = 200, OFFSETS = 17, SIZE = LENGTH_MAX + OFFSETS + 8 };

static const float GUARD = 12345.0f;

typedef struct vector_case {
    float x[SIZE];
    float y[SIZE];
    float expected[SIZE];
} vector_case;

static void fill_random(vector_case *v, uint64_t sample)
{
    fast_rng rng;
    fast__rng_init(&rng, 3, FAST_PURPOSE_TEST, 0, 0, sample);
    for (int i = 0; i < SIZE; i++) {
        v->x[i] = fast__rng_normal(&rng);
        v->y[i] = v->expected[i] = fast__rng_normal(&rng);
    }
}

static void test_elements(void **state)
{
    (void)state;
    static vector_case v;
    for (int n = 0; n <= LENGTH_MAX; n += n < 70 ? 1 : 13) {
        for (int offset = 0; offset < OFFSETS; offset++) {
            const float a = 1.1f, b = -0.3f;
            float *x = v.x + offset, *y = v.y + 3, *e = v.expected + 3;
            for (int kernel = 0; kernel < 7; kernel++) {
                fill_random(&v, (uint64_t)(n * OFFSETS + offset));
                y[n] = e[n] = y[-1] = e[-1] = GUARD;
                for (int i = 0; i < n; i++) {
                    const float ax = a * x[i], by = b * y[i];
                    const float less = x[i] - y[i], part = a * less;
                    const float results[7] = { a,       a * y[i],    y[i] + x[i], y[i] + ax,
                                               ax + by, y[i] + part, part };
                    e[i] = results[kernel];
                }
                if (kernel == 0)
                    fast__vector_fill(n, a, y);
                else if (kernel == 1)
                    fast__vector_scale(n, a, y);
                else if (kernel == 2)
                    fast__vector_add(n, x, y);
                else if (kernel == 3)
                    fast__vector_axpy(n, a, x, y);
                else if (kernel == 4)
                    fast__vector_axpby(n, a, x, b, y);
                else if (kernel == 5)
                    fast__vector_mix(n, a, x, y);
                else
                    fast__vector_difference(n, a, x, y);
                assert_memory_equal(v.y, v.expected, sizeof v.y);
            }
        }
    }
}

static void test_clear(void **state)
{
    float x[4] = { 0, 1, NAN, -0.0f }, y[4] = { 1, 2, 3, 4 };
    const float expected[4] = { 1, 0, 0, 4 };

    (void)state;
    fast__vector_clear(4, x, y);
    assert_memory_equal(y, expected, sizeof y);
}

/* x and y may be the same vector. */
static void test_same_vector(void **state)
{
    (void)state;
    static vector_case v;
    fill_random(&v, 1);
    for (int i = 0; i < LENGTH_MAX; i++) {
        const float doubled = v.y[i] + v.y[i], less = 0.5f * doubled;
        v.expected[i] = doubled + less;
    }
    fast__vector_add(LENGTH_MAX, v.y, v.y);
    fast__vector_axpy(LENGTH_MAX, 0.5f, v.y, v.y);
    assert_memory_equal(v.y, v.expected, sizeof v.y);
}

static double sum_of_lanes(int n, const float *x, const float *y)
{
    double lane[FAST_LANES] = { 0 };
    for (int i = 0; i < n; i++)
        lane[i % FAST_LANES] += (double)x[i] * (double)y[i];
    for (int width = FAST_LANES / 2; width > 0; width /= 2)
        for (int j = 0; j < width; j++)
            lane[j] += lane[j + width];
    return lane[0];
}

static void test_sums(void **state)
{
    (void)state;
    static vector_case v;
    fill_random(&v, 2);
    for (int n = 0; n <= LENGTH_MAX; n++) {
        for (int offset = 0; offset < OFFSETS; offset += 3) {
            const float *x = v.x + offset, *y = v.y + 1;
            assert_true(fast__vector_dot(n, x, y) == sum_of_lanes(n, x, y));
            assert_true(fast__vector_norm2(n, x) == sum_of_lanes(n, x, x));
            float most = -1;
            assert_true(fast__vector_norm2_max(n, x, &most) == sum_of_lanes(n, x, x));
            assert_true(most == fast__vector_max_abs(n, x));
        }
    }
    /* Where a sum of floats would stop growing. */
    enum { LONG = 20000000 };
    float *ones;
    assert_int_equal(fast__alloc("ones", LONG, sizeof *ones, &ones), FAST_OK);
    fast__vector_fill(LONG, 1.0f, ones);
    assert_true(fast__vector_norm2(LONG, ones) == LONG);
    for (int i = 0; i < LONG; i += 997)
        ones[i] = (float)(i % 1009) * -0.37f;
    float most = 0;
    assert_true(fast__vector_norm2_max(LONG, ones, &most) == fast__vector_norm2(LONG, ones));
    assert_true(most == fast__vector_max_abs(LONG, ones));
    fast__free(ones);
    /* Nothing is lost where squares leave the range of floats. */
    const float large[2] = { 3e30f, 4e30f };
    assert_true(fabs(sqrt(fast__vector_norm2(2, large)) / 5e30 - 1) < 1e-6);
}

static void test_checks(void **state)
{
    (void)state;
    static vector_case v;
    for (int n = 0; n <= LENGTH_MAX; n += n < 70 ? 1 : 13) {
        fill_random(&v, 3);
        float most = 0;
        for (int i = 0; i < n; i++)
            most = fabsf(v.x[i]) > most ? fabsf(v.x[i]) : most;
        v.x[n] = NAN; /* not looked at */
        assert_true(fast__vector_max_abs(n, v.x) == most);
        assert_true(fast__vector_finite(n, v.x));
        for (int bad = 0; bad < n; bad += 1 + n / 7) {
            const float before = v.x[bad];
            v.x[bad] = -INFINITY;
            assert_true(fast__vector_max_abs(n, v.x) == INFINITY);
            assert_false(fast__vector_finite(n, v.x));
            v.x[bad] = bad % 2 ? NAN : -NAN;
            assert_true(isnan(fast__vector_max_abs(n, v.x)));
            assert_false(fast__vector_finite(n, v.x));
            v.x[bad] = before;
        }
    }
    const float zeros[2] = { -0.0f, -0.0f };
    assert_true(fast__vector_max_abs(2, zeros) == 0 && !signbit(fast__vector_max_abs(2, zeros)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elements),    cmocka_unit_test(test_clear),
        cmocka_unit_test(test_same_vector), cmocka_unit_test(test_sums),
        cmocka_unit_test(test_checks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
