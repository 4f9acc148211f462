/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tensor/device.h"

/*
 * The canonical sum (sum.h) of vectors that arrive one after the other, without storing all:
 * about log2 of their number are in memory.
 *
 *     while (...) { write to fast__tree_sum_next(sum); fast__tree_sum_put(sum); }
 *     the last:     write to fast__tree_sum_next(sum); fast__tree_sum_finish(sum, 0, count);
 */
enum { FAST_TREE_SUM_ROWS = 32 };

typedef struct fast_tree_sum {
    int64_t total;                   /* vectors of a whole sum */
    int64_t count;                   /* elements of a vector */
    int64_t arrived;                 /* vectors that were put */
    int depth;                       /* rows that hold a sum */
    int levels[FAST_TREE_SUM_ROWS];  /* place of each such row in the tree, largest first */
    int row_count;                   /* rows allocated, with the caller's */
    float *rows[FAST_TREE_SUM_ROWS]; /* [count] each; the first is y and gets the sum */
} fast_tree_sum;

/* Prepare sums of `total` vectors of `count` elements into y, which is borrowed; rows are on y's
 * device. FAST_ENOMEM, after which fini is allowed but not needed. */
fast_err fast__tree_sum_init(fast_tree_sum *sum, int64_t count, int64_t total, float *y);
void fast__tree_sum_fini(fast_tree_sum *sum); /* a zero-initialised one is allowed */

/* Return where the next vector belongs. The first of a sum is y itself. */
float *fast__tree_sum_next(const fast_tree_sum *sum);
/* Add the vector that was written there; it is not the last. */
void fast__tree_sum_put(fast_tree_sum *sum);
/* Complete a range of y, of which the last vector is written, be it number `total` or an earlier
 * one. The ranges cover the vector exactly once; then fast__tree_sum_clear(). */
void fast__tree_sum_finish(const fast_tree_sum *sum, int64_t offset, int64_t count);
/* Start the next sum. */
void fast__tree_sum_clear(fast_tree_sum *sum);
