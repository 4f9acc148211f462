/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of vectors as they come. Goal: they are the canonical sums to the bit, for every number of
 * vectors, whole and by ranges, again and again; a sum that ends early is complete; rows are few;
 * memory that is not there is an error. Method: the definition of the order, applied to arrays that
 * keep every vector.
 */
#include "tensor/fold.h"

#include "base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 37, TOTAL_MAX = 70 };

static float value(int64_t i, int64_t k, int64_t round)
{
    const uint32_t mixed = (uint32_t)(i * 2654435761u + k * 40503u + round * 97u);

    return ((float)(mixed % 20011u) - 10000.0f) / 977.0f;
}

/* By the definition, in place. */
static float canonical(float *x, int64_t n)
{
    int64_t power = 1, left;

    while (power * 2 <= n)
        power *= 2;
    for (int64_t i = 0; i < power; i++)
        x[i] = i < n - power ? x[2 * i] + x[2 * i + 1] : x[i + n - power];
    for (left = power; left > 1; left /= 2)
        for (int64_t i = 0; i < left / 2; i++)
            x[i] = x[2 * i] + x[2 * i + 1];
    return x[0];
}

static void fill(float *row, int64_t i, int64_t round)
{
    for (int64_t k = 0; k < COUNT; k++)
        row[k] = value(i, k, round);
}

static void sums_are_canonical(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= TOTAL_MAX; n++) {
        float y[COUNT];
        fast_fold fold;

        assert_int_equal(fast__fold_init(&fold, COUNT, n, y), FAST_OK);
        assert_true(fold.row_count <= 9);
        for (int64_t round = 0; round < 2; round++) {
            for (int64_t i = 0; i < n; i++) {
                fill(fast__fold_next(&fold), i, round);
                if (i < n - 1)
                    fast__fold_put(&fold);
            }
            fast__fold_finish(&fold, 30, COUNT - 30); /* in pieces, from behind */
            fast__fold_finish(&fold, 0, 30);
            fast__fold_clear(&fold);
            for (int64_t k = 0; k < COUNT; k++) {
                float x[TOTAL_MAX];

                for (int64_t i = 0; i < n; i++)
                    x[i] = value(i, k, round);
                assert_true(y[k] == canonical(x, n));
            }
        }
        fast__fold_fini(&fold);
    }
}

/* On whole numbers every order gives the same. */
static void early_ends_are_complete(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 20; n++)
        for (int64_t come = 1; come <= n; come++) {
            float y[COUNT];
            fast_fold fold;

            assert_int_equal(fast__fold_init(&fold, COUNT, n, y), FAST_OK);
            for (int64_t i = 0; i < come; i++) {
                float *row = fast__fold_next(&fold);

                for (int64_t k = 0; k < COUNT; k++)
                    row[k] = (float)(i + k + 1);
                if (i < come - 1)
                    fast__fold_put(&fold);
            }
            fast__fold_finish(&fold, 0, COUNT);
            for (int64_t k = 0; k < COUNT; k++)
                assert_true(y[k] == (float)(come * (come - 1) / 2 + come * (k + 1)));
            fast__fold_fini(&fold);
        }
}

static void memory_may_fail(void **state)
{
    float y[COUNT];
    fast_err err = FAST_ENOMEM;

    (void)state;
    for (int64_t n = 0; err; n++) {
        fast_fold fold;

        fast__alloc_fail_after(n, true);
        err = fast__fold_init(&fold, COUNT, 13, y);
        fast__alloc_fail_after(-1, true);
        assert_true(err == FAST_OK || err == FAST_ENOMEM);
        fast__fold_fini(&fold);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_canonical),
        cmocka_unit_test(early_ends_are_complete),
        cmocka_unit_test(memory_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
