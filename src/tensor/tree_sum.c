/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A canonical sum as its vectors arrive: the carries of a binary counter.
 *
 * With n = 2^k + r vectors, the first 2 r start at level 0 and all others at level 1. Two rows of
 * one level that lie on top of each other become one of the next level: so the pairs of the first
 * 2 r are added first, and then the 2^k sums as a perfect binary tree. At most k + 2 rows are held;
 * each vector is added once: n - 1 additions, as in any order.
 *
 * After the last vector all rows collapse into the first, from the top down; this can be done range
 * by range, so that a learner that computes the last vector in pieces has each piece of the sum at
 * once. A sum that ends early collapses in the same order.
 */
#include "tensor/tree_sum.h"

#include "tensor/vector.h"

/* The level at which vector i of n starts. */
static int level_of(int64_t i, int64_t n)
{
    int64_t power = 1;

    while (power * 2 <= n)
        power *= 2;
    return i < 2 * (n - power) ? 0 : 1;
}

/* Put a row on top, and add rows of equal level. With `add` false only the levels change. */
static void put(fast_tree_sum *sum, bool add)
{
    FAST_ASSERT(sum->arrived < sum->total);
    FAST_ASSERT(sum->depth < FAST_TREE_SUM_ROWS);
    sum->levels[sum->depth++] = level_of(sum->arrived++, sum->total);
    while (sum->depth > 1 && sum->levels[sum->depth - 1] == sum->levels[sum->depth - 2]) {
        sum->depth--;
        sum->levels[sum->depth - 1]++;
        if (add)
            fast__vector_add(sum->count, sum->rows[sum->depth], sum->rows[sum->depth - 1]);
    }
}

fast_err fast__tree_sum_init(fast_tree_sum *sum, int64_t count, int64_t total, float *y)
{
    FAST_ASSERT(total >= 1);
    FAST_ASSERT(y != NULL);
    *sum = (fast_tree_sum){ .total = total, .count = count, .row_count = 1, .rows = { y } };
    for (int64_t i = 0; i < total; i++) { /* a rehearsal, for the number of rows */
        if (sum->depth == sum->row_count) {
            const fast_err err = fast__vector_new(fast__device_of(y), "sums of gradients", count,
                                                  &sum->rows[sum->row_count]);

            if (err) {
                fast__tree_sum_fini(sum);
                return err;
            }
            sum->row_count++;
        }
        put(sum, false);
    }
    fast__tree_sum_clear(sum);
    return FAST_OK;
}

void fast__tree_sum_fini(fast_tree_sum *sum)
{
    for (int i = 1; i < sum->row_count; i++)
        fast__vector_free(sum->rows[i]);
    sum->row_count = 0;
}

float *fast__tree_sum_next(const fast_tree_sum *sum)
{
    FAST_ASSERT(sum->depth < sum->row_count);
    return sum->rows[sum->depth];
}

void fast__tree_sum_put(fast_tree_sum *sum)
{
    put(sum, true);
}

void fast__tree_sum_finish(const fast_tree_sum *sum, int64_t offset, int64_t count)
{
    for (int i = sum->depth; i > 0; i--)
        fast__vector_add(count, sum->rows[i] + offset, sum->rows[i - 1] + offset);
}

void fast__tree_sum_clear(fast_tree_sum *sum)
{
    sum->arrived = 0;
    sum->depth = 0;
}
