/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * The canonical sum (comm/sum.h) of vectors that come one after the other, without keeping them
 * all: about log2 of them are in memory.
 *
 *     while (...) { write to fast__fold_next(fold); fast__fold_put(fold); }
 *     the last:     write to fast__fold_next(fold); fast__fold_finish(fold, 0, count);
 */
enum { FAST_FOLD_ROWS = 32 };

typedef struct fast_fold {
    int64_t count;               /* elements of a vector */
    int64_t total;               /* vectors of a whole sum */
    int64_t come;                /* vectors that were put */
    int depth;                   /* rows that hold a sum */
    int levels[FAST_FOLD_ROWS];  /* of their places in the tree, largest first */
    int row_count;               /* rows there are */
    float *rows[FAST_FOLD_ROWS]; /* [count]; the first is the caller's and gets the sum */
} fast_fold;

/* For sums of `total` vectors into `y`, which is borrowed. FAST_ENOMEM. */
fast_err fast__fold_init(fast_fold *fold, int64_t count, int64_t total, float *y);
void fast__fold_fini(fast_fold *fold);

/* Where the next vector belongs. The first of a sum is y itself. */
float *fast__fold_next(const fast_fold *fold);
/* It is written, and is not the last. */
void fast__fold_put(fast_fold *fold);
/* Its range is written, and it is the last, be there `total` or fewer: y of that range is the sum.
 * The ranges cover the vector exactly once; then fast__fold_clear(). */
void fast__fold_finish(const fast_fold *fold, int64_t offset, int64_t count);
/* Begin the next sum. */
void fast__fold_clear(fast_fold *fold);
