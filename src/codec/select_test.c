/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selections and gaps. Goal: exactly the k largest magnitudes, the lowest indices among equals,
 * whatever the sample said; gaps come back, and hostile ones are refused. Method: against a sort;
 * vectors whose large elements hide between the sampled ones, equal elements, NaN.
 */
#include "codec/select.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MANY = 40000 };

static const float *sorted_by; /* of compare() */

static int compare(const void *a, const void *b)
{
    const uint32_t i = *(const uint32_t *)a;
    const uint32_t k = *(const uint32_t *)b;
    const float x = isnan(sorted_by[i]) ? INFINITY : fabsf(sorted_by[i]);
    const float y = isnan(sorted_by[k]) ? INFINITY : fabsf(sorted_by[k]);

    if (x != y)
        return x > y ? -1 : 1;
    return i < k ? -1 : 1;
}

static int ascending(const void *a, const void *b)
{
    const uint32_t i = *(const uint32_t *)a;
    const uint32_t k = *(const uint32_t *)b;

    return i < k ? -1 : i > k;
}

static void try_top(int64_t n, int64_t k, const float *x, const float *residual)
{
    float *v = malloc((size_t)n * sizeof *v);
    float *sum = malloc((size_t)n * sizeof *sum);
    uint32_t *order = malloc((size_t)n * sizeof *order);
    void *scratch = malloc(fast__select_scratch(n));

    for (int64_t i = 0; i < n; i++) {
        order[i] = (uint32_t)i;
        v[i] = residual ? residual[i] : x[i];
        sum[i] = residual ? residual[i] + x[i] : x[i];
    }
    const uint32_t *got = fast__select_top(n, k, 77, residual ? x : NULL, v, scratch);
    sorted_by = sum;
    qsort(order, (size_t)n, sizeof *order, compare);
    qsort(order, (size_t)k, sizeof *order, ascending);
    assert_memory_equal(v, sum, (size_t)n * sizeof *v);
    for (int64_t i = 0; i < k; i++)
        if (got[i] != order[i])
            fail_msg("of %lld the %lld largest: element %lld is %u, not %u", (long long)n,
                     (long long)k, (long long)i, got[i], order[i]);
    free(v);
    free(sum);
    free(order);
    free(scratch);
}

static void the_largest_are_found(void **state)
{
    static const int64_t counts[] = { 1, 2, 31, 32, 33, 100, 8191, 8192, MANY };
    static float x[MANY], residual[MANY];
    fast_rng rng;

    (void)state;
    fast__rng_init(&rng, 1, FAST_PURPOSE_TEST, 0, 0, 0);
    for (int i = 0; i < MANY; i++) {
        x[i] = fast__rng_normal(&rng);
        residual[i] = fast__rng_normal(&rng);
    }
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        const int64_t n = counts[c];

        for (int64_t k = 1; k <= n; k = k < n && 3 * k > n ? n : 3 * k) {
            try_top(n, k, x, NULL);
            try_top(n, k, x, residual);
        }
    }
    for (int i = 0; i < MANY; i++) /* three magnitudes only */
        x[i] = (float)(i % 3) * (i % 2 ? 1.0f : -1.0f);
    try_top(MANY, 5, x, NULL);
    try_top(MANY, 20000, x, NULL);
    memset(x, 0, sizeof x); /* all equal */
    try_top(MANY, 7, x, NULL);
    x[39999] = NAN;
    x[20000] = -3;
    try_top(MANY, 2, x, NULL);
    /* A few large elements, all in one run, which a sample must not miss. */
    for (int i = 0; i < MANY; i++)
        x[i] = i < 300 ? 1000.0f + (float)i : 0.001f;
    try_top(MANY, 400, x, NULL);
    try_top(MANY, 200, x, NULL);
}

/* About k elements that are among the largest, never more; all of a vector as small as a sample. */
static void samples_find_a_threshold(void **state)
{
    enum { K = 400 };
    static float x[MANY], v[MANY];
    uint32_t *scratch = malloc(fast__select_scratch(MANY));
    int64_t count, sum = 0, exact = 0;
    fast_rng rng;

    (void)state;
    for (uint64_t key = 0; key < 40; key++) {
        float least = INFINITY;
        int64_t above = 0;

        fast__rng_init(&rng, key, FAST_PURPOSE_TEST, 0, 0, 0);
        for (int i = 0; i < MANY; i++) {
            x[i] = fast__rng_normal(&rng);
            v[i] = 1 - x[i] + fast__rng_normal(&rng) - 1;
        }
        const uint32_t *index = fast__select_sampled(MANY, K, key, x, v, scratch, &count);
        for (int64_t i = 0; i < count; i++) {
            assert_true(i == 0 || index[i] > index[i - 1]);
            least = fminf(least, fabsf(v[index[i]]));
        }
        for (int i = 0; i < MANY; i++)
            above += fabsf(v[i]) >= least;
        assert_int_equal(above, count);
        assert_in_range(count, 1, K);
        sum += count;
        exact += count == K;
        fast__select_sampled(1000, 37, key, NULL, v, scratch, &count);
        assert_int_equal(count, 37);
    }
    assert_in_range(sum, 40 * K * 7 / 10, 40 * K - 1); /* thresholds of a sample, not of all */
    assert_in_range(exact, 10, 35);
    free(scratch);
}

static void all_above_a_limit_are_found(void **state)
{
    float v[100], x[100];
    uint32_t scratch[100];
    int64_t count;

    (void)state;
    for (int i = 0; i < 100; i++) {
        v[i] = (float)i;
        x[i] = i % 2 ? -2.0f * (float)i : 0;
    }
    const uint32_t *index = fast__select_above(100, 90, x, v, scratch, &count);
    assert_int_equal(count, 10);
    for (int i = 0; i < 10; i++)
        assert_int_equal(index[i], 90 + i);
    assert_true(v[91] == -91);
    fast__select_above(100, 1000, NULL, v, scratch, &count);
    assert_int_equal(count, 0);
}

static void gaps_come_back(void **state)
{
    static const uint32_t index[] = { 0, 1, 127, 128, 300, 70000, 2000000, 2000001 };
    static const uint8_t flags[] = { 1, 0, 1, 1, 0, 0, 1, 0 };
    enum { K = 8, N = 2000002 };
    uint8_t bytes[64];
    uint32_t back[K];
    uint8_t back_flags[K];

    (void)state;
    for (int with = 0; with < 2; with++) {
        const size_t size = fast__gaps_put(K, index, with ? flags : NULL, bytes);
        const uint8_t *at = bytes;

        assert_true(size <= fast__gaps_bound(K));
        assert_true(fast__gaps_get(&at, bytes + size, N, K, back, with ? back_flags : NULL));
        assert_ptr_equal(at, bytes + size);
        assert_memory_equal(back, index, sizeof index);
        if (with)
            assert_memory_equal(back_flags, flags, sizeof flags);
        at = bytes;
        assert_false(fast__gaps_get(&at, bytes + size - 1, N, K, back, with ? back_flags : NULL));
        at = bytes;
        assert_false(fast__gaps_get(&at, bytes + size, N - 1, K, back, with ? back_flags : NULL));
    }
    /* The largest number there is, twice. */
    memset(bytes, 0xff, sizeof bytes);
    bytes[9] = bytes[19] = 1;
    const uint8_t *at = bytes;
    assert_false(fast__gaps_get(&at, bytes + 20, N, 2, back, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_are_found),
        cmocka_unit_test(samples_find_a_threshold),
        cmocka_unit_test(all_above_a_limit_are_found),
        cmocka_unit_test(gaps_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
