/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A canonical sum as its vectors come: the carries of a binary counter.
 *
 * With n = 2^k + r vectors, the first 2 r begin at level 0 and all others at level 1. Two rows of
 * one level that lie on top of each other become one of the next level: so the pairs of the first
 * 2 r are added first, and then the 2^k sums as a perfect binary tree. At most k + 2 rows are held;
 * each vector is added once: n - 1 additions, as in any order.
 *
 * After the last vector all rows collapse into the first, from the top down; this can be done range
 * by range, so that who computes the last vector in pieces has each piece of the sum at once. A sum
 * that ends early collapses the same way.
 */
#include "tensor/fold.h"

#include "base/memory.h"
#include "tensor/vector.h"

/* The level at which vector i of n begins. */
static int level_of(int64_t i, int64_t n)
{
    int64_t power = 1;

    while (power * 2 <= n)
        power *= 2;
    return i < 2 * (n - power) ? 0 : 1;
}

/* Put a row on top, and let it carry. `add` is false where only the places are wanted. */
static void put(fast_fold *fold, bool add)
{
    FAST_ASSERT(fold->come < fold->total && fold->depth < FAST_FOLD_ROWS);
    fold->levels[fold->depth++] = level_of(fold->come++, fold->total);
    while (fold->depth > 1 && fold->levels[fold->depth - 1] == fold->levels[fold->depth - 2]) {
        fold->depth--;
        fold->levels[fold->depth - 1]++;
        if (add)
            fast__vector_add(fold->count, fold->rows[fold->depth], fold->rows[fold->depth - 1]);
    }
}

fast_err fast__fold_init(fast_fold *fold, int64_t count, int64_t total, float *y)
{
    FAST_ASSERT(total >= 1 && y != NULL);
    *fold = (fast_fold){ .count = count, .total = total, .row_count = 1, .rows = { y } };
    for (int64_t i = 0; i < total; i++) {
        if (fold->depth == fold->row_count) {
            const fast_err err = fast__alloc("sums of gradients", count, sizeof(float),
                                             &fold->rows[fold->row_count]);

            if (err) {
                fast__fold_fini(fold);
                return err;
            }
            fold->row_count++;
        }
        put(fold, false);
    }
    fast__fold_clear(fold);
    return FAST_OK;
}

void fast__fold_fini(fast_fold *fold)
{
    for (int i = 1; i < fold->row_count; i++)
        fast__free(fold->rows[i]);
    fold->row_count = 0;
}

float *fast__fold_next(const fast_fold *fold)
{
    FAST_ASSERT(fold->depth < fold->row_count);
    return fold->rows[fold->depth];
}

void fast__fold_put(fast_fold *fold)
{
    put(fold, true);
}

void fast__fold_finish(const fast_fold *fold, int64_t offset, int64_t count)
{
    FAST_ASSERT(offset >= 0 && count >= 0 && offset + count <= fold->count);
    for (int i = fold->depth; i > 0; i--)
        fast__vector_add(count, fold->rows[i] + offset, fold->rows[i - 1] + offset);
}

void fast__fold_clear(fast_fold *fold)
{
    fold->come = 0;
    fold->depth = 0;
}
