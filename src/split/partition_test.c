/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the partition's slowest range is the fastest that there is. Method: random times of units
 * and boundaries, all of whose partitions are tried; cases by hand; memory that runs out.
 */
#include "split/partition.h"

#include "base/memory.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { UNITS = 10, TRIALS = 200 };

/* The slowest range of a partition. */
static double slowest(const double *seconds, const double *crossing, int64_t n,
                      const int16_t *replicas, int64_t count, const int64_t *ends)
{
    double most = 0;
    for (int64_t s = 0, i = 0; s < count; s++) {
        double sum = (i > 0 ? crossing[i - 1] : 0) + (ends[s] < n - 1 ? crossing[ends[s]] : 0);
        assert_true(ends[s] >= i);
        for (; i <= ends[s]; i++)
            sum += seconds[i];
        most = fmax(most, sum / (replicas ? replicas[s] : 1));
    }
    assert_int_equal(ends[count - 1], n - 1);
    return most;
}

/* The best of all partitions: each set of count - 1 boundaries is a mask of n - 1 bits. */
static double exhaustive(const double *seconds, const double *crossing, int64_t n,
                         const int16_t *replicas, int64_t count)
{
    double best = INFINITY;
    for (uint32_t mask = 0; mask < UINT32_C(1) << (n - 1); mask++) {
        int64_t ends[UNITS], used = 0;
        for (int64_t i = 0; i < n - 1; i++)
            if (mask >> i & 1)
                ends[used++] = i;
        ends[used++] = n - 1;
        if (used == count)
            best = fmin(best, slowest(seconds, crossing, n, replicas, count, ends));
    }
    return best;
}

static void equals_exhaustive_search(void **state)
{
    uint64_t random = 12345;
    (void)state;
    for (int trial = 0; trial < TRIALS; trial++) {
        double seconds[UNITS], crossing[UNITS];
        const int64_t n = 1 + trial % UNITS, count = 1 + trial / UNITS % n;
        int64_t ends[UNITS];
        int16_t counts[UNITS];
        const int16_t *replicas = trial % 4 == 3 ? counts : NULL; /* beside one worker each */
        for (int i = 0; i < UNITS; i++) {
            counts[i] = (int16_t)(1 + (trial + i * i) % 3);
            random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            seconds[i] = (double)(random >> 40 & 1023) / (trial % 3 + 1);
            crossing[i] = (double)(random >> 50 & 255) * (trial % 2);
        }
        assert_int_equal(fast__split_partition(seconds, crossing, n, replicas, count, ends),
                         FAST_OK);
        assert_true(fabs(slowest(seconds, crossing, n, replicas, count, ends) -
                         exhaustive(seconds, crossing, n, replicas, count)) < 1e-9);
    }
}

static void cases_by_hand(void **state)
{
    const double seconds[] = { 4, 1, 1, 1, 1 }, free[5] = { 0 };
    const double dear[] = { 0, 0, 9, 9, 0 }, even[] = { 1, 1, 1, 1, 1 };
    int64_t ends[5];
    (void)state;
    assert_int_equal(fast__split_partition(seconds, free, 5, NULL, 2, ends), FAST_OK);
    assert_int_equal(ends[0], 0);
    assert_int_equal(ends[1], 4);
    /* The cheap boundary is before the middle. */
    assert_int_equal(fast__split_partition(even, dear, 5, NULL, 2, ends), FAST_OK);
    assert_int_equal(ends[0], 1);
    assert_int_equal(fast__split_partition(even, dear, 5, NULL, 5, ends), FAST_OK);
    for (int i = 0; i < 5; i++)
        assert_int_equal(ends[i], i);
    /* Three workers take three of five units, or four of which the first is four. */
    const int16_t three[] = { 3, 2 }, one[] = { 1, 3 };
    assert_int_equal(fast__split_partition(even, free, 5, three, 2, ends), FAST_OK);
    assert_int_equal(ends[0], 2);
    assert_int_equal(fast__split_partition(seconds, free, 5, one, 2, ends), FAST_OK);
    assert_int_equal(ends[0], 0);
    assert_int_equal(fast__split_partition(seconds, free, 5, three, 2, ends), FAST_OK);
    assert_int_equal(ends[0], 1);
}

static void memory_can_run_out(void **state)
{
    const double even[] = { 1, 1, 1 };
    int64_t ends[3];
    fast_err err = FAST_ENOMEM;
    (void)state;
    for (int64_t n = 0; err; n++) {
        fast__alloc_fail_after(n, true);
        err = fast__split_partition(even, even, 3, NULL, 2, ends);
        fast__alloc_fail_after(-1, true);
        assert_true(err == FAST_OK || err == FAST_ENOMEM);
        assert_true(n < 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_exhaustive_search),
        cmocka_unit_test(cases_by_hand),
        cmocka_unit_test(memory_can_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
