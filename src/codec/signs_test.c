/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signs, sums and residuals of groups. Goal: whatever vectors the machine has, the bits are those
 * of the formulas. Method: against loops over single elements that follow the order of the contract
 * (32 lanes, folded in halves), for every length up to some words and for long groups, with and
 * without a residual; nothing behind the end is touched.
 */
#include "codec/signs.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { MANY = 4100, LANES = 32, GUARD = 40 };

/* Normal numbers, some of them zero of either sign. */
static void draw(uint64_t seed, int64_t n, float *x)
{
    fast_rng rng;

    fast__rng_init(&rng, seed, FAST_PURPOSE_SYNTHETIC, 0, 0, 0);
    for (int64_t i = 0; i < n; i++) {
        const float v = fast__rng_normal(&rng);

        x[i] = i % 7 == 3 ? 0.0f : i % 11 == 5 ? -0.0f : v;
    }
}

static fast_signs_sums sums_of(int64_t n, const float *v)
{
    float sum[LANES] = { 0 }, size[LANES] = { 0 };
    fast_signs_sums out = { 0 };

    for (int64_t i = 0; i < n; i++) {
        sum[i % LANES] += v[i];
        size[i % LANES] += fabsf(v[i]);
        out.negative += signbit(v[i]) ? 1 : 0;
    }
    for (int width = LANES / 2; width; width /= 2)
        for (int j = 0; j < width; j++) {
            sum[j] += sum[j + width];
            size[j] += size[j + width];
        }
    out.sum = sum[0];
    out.size = size[0];
    return out;
}

static void try_group(int64_t n, bool feeds)
{
    static float x[MANY + GUARD], e[MANY + GUARD], before[MANY + GUARD], v[MANY + GUARD];
    static uint8_t words[(MANY + GUARD) / 8];
    const float both[2] = { 0.75f, -0.5f };
    fast_signs_sums all, size;

    draw(1, n + GUARD, x);
    draw(2, n + GUARD, e);
    memcpy(before, e, sizeof e);
    for (int64_t i = 0; i < n; i++)
        v[i] = feeds ? x[i] + e[i] : x[i];
    const fast_signs_sums want = sums_of(n, v);
    fast__signs_sum(FAST_SIGNS_SIZE, n, x, feeds ? e : NULL, &size);
    memcpy(e, before, sizeof e);
    fast__signs_sum(FAST_SIGNS_ALL, n, x, feeds ? e : NULL, &all);
    assert_memory_equal(&all.sum, &want.sum, sizeof want.sum);
    assert_memory_equal(&all.size, &want.size, sizeof want.size);
    assert_memory_equal(&size.size, &want.size, sizeof want.size);
    assert_int_equal(all.negative, want.negative);
    if (feeds)
        assert_memory_equal(e, v, (size_t)n * sizeof *v);

    memset(words, 0xa5, sizeof words);
    fast__signs_put(n, feeds ? e : x, both, feeds ? e : NULL, NULL, words);
    for (int64_t i = 0; i < n; i++) {
        const float left = v[i] - both[signbit(v[i]) ? 1 : 0];

        assert_int_equal(words[i / 8] >> i % 8 & 1, signbit(v[i]) ? 1 : 0);
        assert_memory_equal(&e[i], feeds ? &left : &before[i], sizeof left);
    }
    for (int64_t i = n; i < (int64_t)fast__signs_size(n) * 8; i++)
        assert_int_equal(words[i / 8] >> i % 8 & 1, 0);
    assert_int_equal(words[fast__signs_size(n)], 0xa5);
    assert_memory_equal(e + n, before + n, GUARD * sizeof *e);
}

static void every_length(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 130; n++) {
        try_group(n, true);
        try_group(n, false);
    }
    try_group(1000, true);
    try_group(1024, true);
    try_group(MANY, true);
    try_group(MANY, false);
}

/* Fetching ahead reads nothing: the end of memory may follow. */
static void fetching_changes_nothing(void **state)
{
    static float x[2 * LANES], e[2][2 * LANES];
    const float both[2] = { 1, -1 };
    uint8_t words[2][2 * LANES / 8];

    (void)state;
    draw(3, 2 * LANES, x);
    for (int k = 0; k < 2; k++) {
        memcpy(e[k], x, sizeof x);
        fast__signs_put(2 * LANES, e[k], both, e[k], k ? x + 2 * LANES : NULL, words[k]);
    }
    assert_memory_equal(e[0], e[1], sizeof x);
    assert_memory_equal(words[0], words[1], sizeof words[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length),
        cmocka_unit_test(fetching_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
