/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the generator is Philox4x32-10, streams are what their keys say and look random, and the
 * permutation is one.
 * Method: the published vectors of Random123 1.14 (tests/kat_vectors); moments and chi-square sums
 * of fixed streams, with limits that a good generator fails once in a million streams; every
 * permutation of small sizes checked element by element.
 */
#include "base/memory.h"
#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_known_answers(void **state)
{
    (void)state;
    static const uint32_t vectors[3][10] = {
        /* counter, key, words */
        { 0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 },
        { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d,
          0x41c83b0e, 0xa20bc7c6, 0x6d5451fd },
        { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09,
          0x94fdcceb, 0x5001e420, 0x24126ea1 },
    };
    for (int i = 0; i < 3; i++) {
        uint32_t out[4];
        fast__philox(vectors[i], vectors[i] + 4, out);
        assert_memory_equal(out, vectors[i] + 6, sizeof out);
    }
}

/* Runs and saved files depend on these streams: a change of them must be seen. */
static void test_streams_stay(void **state)
{
    (void)state;
    fast_rng rng;
    fast__rng_init(&rng, 42, FAST_PURPOSE_INIT, 1, 2, 3);
    uint32_t words[5];
    for (int i = 0; i < 5; i++)
        words[i] = fast__rng_u32(&rng);
    for (uint64_t i = 0; i < 5; i++) {
        /* Every part of the key and every purpose matters. */
        fast_rng other;
        fast__rng_init(&other, i == 0 ? 43 : 42, i == 1 ? FAST_PURPOSE_SHUFFLE : FAST_PURPOSE_INIT,
                       i == 2 ? 0 : 1, i == 3 ? 0 : 2, i == 4 ? 0 : 3);
        assert_true(fast__rng_u32(&other) != words[0]);
    }
    fast__rng_init(&rng, 42, FAST_PURPOSE_INIT, 1, 2, 3);
    for (int i = 0; i < 5; i++)
        assert_int_equal(fast__rng_u32(&rng), words[i]);
    static const uint32_t expected[5] = { 0xbbd17ea9, 0x0875dcc8, 0x2f17f5ad, 0x79c222e7,
                                          0x027fc93d };
    assert_memory_equal(words, expected, sizeof words);
    assert_int_equal(fast__rng_permute(42, FAST_PURPOSE_SHUFFLE, 1, 60000, 12345), 23049);
}

static void test_uniform(void **state)
{
    (void)state;
    enum { COUNT = 100000, BINS = 100 };
    int bins[BINS] = { 0 };
    fast_rng rng;
    fast__rng_init(&rng, 1, FAST_PURPOSE_TEST, 0, 0, 0);
    for (int i = 0; i < COUNT; i++) {
        const float u = fast__rng_uniform(&rng);
        assert_true(u >= 0 && u < 1);
        bins[(int)(u * BINS)]++;
    }
    double chi = 0;
    for (int i = 0; i < BINS; i++)
        chi += pow(bins[i] - COUNT / BINS, 2) / (COUNT / BINS);
    assert_true(chi > 40 && chi < 180); /* 99 degrees of freedom */
}

static void test_normal(void **state)
{
    (void)state;
    enum { COUNT = 200000 };
    double sums[5] = { 0 };
    fast_rng rng;
    fast__rng_init(&rng, 7, FAST_PURPOSE_TEST, 0, 0, 0);
    for (int i = 0; i < COUNT; i++) {
        const double x = fast__rng_normal(&rng);
        assert_true(isfinite(x));
        for (int k = 1; k < 5; k++)
            sums[k] += pow(x, k) / COUNT;
    }
    assert_true(fabs(sums[1]) < 0.012);
    assert_true(fabs(sums[2] - 1) < 0.017);
    assert_true(fabs(sums[3]) < 0.045);
    assert_true(fabs(sums[4] - 3) < 0.12);
}

static void test_below(void **state)
{
    (void)state;
    fast_rng rng;
    fast__rng_init(&rng, 9, FAST_PURPOSE_TEST, 0, 0, 0);
    for (uint64_t bound = 1; bound < 20; bound++) {
        int counts[20] = { 0 };
        for (int i = 0; i < 20000; i++) {
            const uint64_t k = fast__rng_below(&rng, bound);
            assert_true(k < bound);
            counts[k]++;
        }
        double chi = 0;
        const double expected = 20000.0 / (double)bound;
        for (uint64_t k = 0; k < bound; k++)
            chi += pow(counts[k] - expected, 2) / expected;
        assert_true(chi < 65);
    }
    /* Of three quarters of the range, a plain remainder would give the lower third twice as often,
     * and a plain multiplication every third number. */
    for (int wide = 0; wide < 2; wide++) {
        const uint64_t bound = wide ? 0xC000000000000000u : 0xC0000000u;
        int low = 0, third[3] = { 0 };
        for (int i = 0; i < 30000; i++) {
            const uint64_t k = fast__rng_below(&rng, bound);
            assert_true(k < bound);
            low += k < bound / 3;
            third[k % 3]++;
        }
        assert_true(abs(low - 10000) < 410);
        for (int i = 0; i < 3; i++)
            assert_true(abs(third[i] - 10000) < 410);
    }
}

static void test_permutation_is_one(void **state)
{
    (void)state;
    static const uint64_t counts[] = { 1,  2,  3,  4,  5,   7,   8,   15,   16,
                                       17, 63, 64, 65, 255, 256, 257, 1000, 60000 };
    unsigned char *seen;
    assert_int_equal(fast__alloc("marks", 60000, 1, &seen), FAST_OK);
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        for (uint64_t step = 0; step < 3; step++) {
            memset(seen, 0, 60000);
            for (uint64_t i = 0; i < counts[c]; i++) {
                const uint64_t k = fast__rng_permute(5, FAST_PURPOSE_SHUFFLE, step, counts[c], i);
                assert_true(k < counts[c]);
                assert_int_equal(seen[k], 0);
                seen[k] = 1;
            }
        }
    }
    fast__free(seen);

    /* Sizes that no memory holds: some positions, all different. */
    const uint64_t huge[] = { ((uint64_t)1 << 32) + 1, (uint64_t)1 << 62, UINT64_MAX };
    for (int h = 0; h < 3; h++) {
        const uint64_t a = fast__rng_permute(5, FAST_PURPOSE_SHUFFLE, 0, huge[h], 0);
        const uint64_t b = fast__rng_permute(5, FAST_PURPOSE_SHUFFLE, 0, huge[h], huge[h] - 1);
        assert_true(a < huge[h] && b < huge[h] && a != b);
    }
}

/* Over many epochs every sample comes equally often at every place, and so does every pair of
 * neighbours; within one epoch the order has no trend. */
static void test_permutation_looks_uniform(void **state)
{
    (void)state;
    enum { N = 10, EPOCHS = 20000 };
    static int at[N][N], follows[N][N];
    for (uint64_t step = 0; step < EPOCHS; step++) {
        uint64_t before = 0;
        for (uint64_t i = 0; i < N; i++) {
            const uint64_t k = fast__rng_permute(11, FAST_PURPOSE_SHUFFLE, step, N, i);
            at[i][k]++;
            if (i > 0)
                follows[before][k]++;
            before = k;
        }
    }
    double chi_at = 0, chi_follows = 0;
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < N; k++) {
            chi_at += pow(at[i][k] - EPOCHS / N, 2) / (EPOCHS / N);
            if (i != k)
                chi_follows += pow(follows[i][k] - EPOCHS / N, 2) / (EPOCHS / N);
        }
    }
    assert_true(chi_at < 160);      /* 81 degrees of freedom */
    assert_true(chi_follows < 170); /* about 90 */

    enum { LONG = 60000 };
    double product = 0;
    for (uint64_t i = 0; i < LONG; i++) {
        const double k = (double)fast__rng_permute(11, FAST_PURPOSE_SHUFFLE, 0, LONG, i) / LONG;
        product += (k - 0.5) * ((double)i / LONG - 0.5);
    }
    assert_true(fabs(product / LONG * 12) < 5 / sqrt(LONG)); /* the correlation */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answers),
        cmocka_unit_test(test_streams_stay),
        cmocka_unit_test(test_uniform),
        cmocka_unit_test(test_normal),
        cmocka_unit_test(test_below),
        cmocka_unit_test(test_permutation_is_one),
        cmocka_unit_test(test_permutation_looks_uniform),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
