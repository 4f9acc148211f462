/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of vectors as they arrive. Goal: they are the canonical sums to the bit, for every number of
 * vectors, whole and by ranges, again and again; a sum that ends early is complete; rows are few;
 * memory that is not there is an error; all on every device. Method: the definition of the order,
 * applied to arrays that hold every vector.
 */
#include "tensor/tree_sum.h"

#include "base/memory.h"

#include "devices.h"

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
    float x[COUNT];

    for (int64_t k = 0; k < COUNT; k++)
        x[k] = value(i, k, round);
    fast__vector_copy(COUNT, x, row);
}

static void sums_are_canonical(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= TOTAL_MAX; n++) {
        float y[COUNT] = { 0 };
        float *out = devices_put(y, COUNT);
        fast_tree_sum sum;

        assert_int_equal(fast__tree_sum_init(&sum, COUNT, n, out), FAST_OK);
        assert_true(sum.row_count <= 9);
        for (int64_t round = 0; round < 2; round++) {
            for (int64_t i = 0; i < n; i++) {
                fill(fast__tree_sum_next(&sum), i, round);
                if (i < n - 1)
                    fast__tree_sum_put(&sum);
            }
            fast__tree_sum_finish(&sum, 30, COUNT - 30); /* in pieces, from behind */
            fast__tree_sum_finish(&sum, 0, 30);
            fast__tree_sum_clear(&sum);
            fast__vector_copy(COUNT, out, y);
            for (int64_t k = 0; k < COUNT; k++) {
                float x[TOTAL_MAX];

                for (int64_t i = 0; i < n; i++)
                    x[i] = value(i, k, round);
                assert_true(y[k] == canonical(x, n));
            }
        }
        fast__tree_sum_fini(&sum);
        fast__vector_free(out);
    }
}

/* On whole numbers every order gives the same. */
static void early_ends_are_complete(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 20; n++)
        for (int64_t arrived = 1; arrived <= n; arrived++) {
            float y[COUNT] = { 0 };
            float *out = devices_put(y, COUNT);
            fast_tree_sum sum;

            assert_int_equal(fast__tree_sum_init(&sum, COUNT, n, out), FAST_OK);
            for (int64_t i = 0; i < arrived; i++) {
                for (int64_t k = 0; k < COUNT; k++)
                    y[k] = (float)(i + k + 1);
                fast__vector_copy(COUNT, y, fast__tree_sum_next(&sum));
                if (i < arrived - 1)
                    fast__tree_sum_put(&sum);
            }
            fast__tree_sum_finish(&sum, 0, COUNT);
            fast__tree_sum_fini(&sum);
            devices_get(out, COUNT, y);
            for (int64_t k = 0; k < COUNT; k++)
                assert_true(y[k] == (float)(arrived * (arrived - 1) / 2 + arrived * (k + 1)));
        }
}

static void memory_may_fail(void **state)
{
    float y[COUNT] = { 0 };
    float *out = devices_put(y, COUNT);
    fast_err err = FAST_ENOMEM;

    (void)state;
    for (int64_t n = 0; err; n++) {
        fast_tree_sum sum;

        fast__alloc_fail_after(n, true);
        err = fast__tree_sum_init(&sum, COUNT, 13, out);
        fast__alloc_fail_after(-1, true);
        assert_true(err == FAST_OK || err == FAST_ENOMEM);
        fast__tree_sum_fini(&sum);
    }
    fast__vector_free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_canonical),
        cmocka_unit_test(early_ends_are_complete),
        cmocka_unit_test(memory_may_fail),
    };
    return devices_run(tests, sizeof tests / sizeof tests[0], NULL, NULL);
}
