/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * The samples of a set that are not in memory: read one at a time, when a batch is made. Answers,
 * sizes and normalisation are in the fast_data as always; its x is NULL. Any number of threads
 * read at once.
 */
typedef struct fast_rows fast_rows;

typedef struct fast_rows_ops {
    /* Copy sample `sample` to `out`, in the set's type, without normalisation. `when` is the number
     * of the window that it is read in, -1 for samples in order: shards with the smallest number
     * leave a cache first. May wait for a disk; allocates nothing that lasts. FAST_EIO,
     * FAST_EFORMAT, FAST_ENOMEM. */
    fast_err (*read)(fast_rows *rows, int64_t sample, int64_t when, void *out);
    /* Announce that the block of `sample` will be read in window `when`. Never waits, never fails.
     * NULL if nothing can be prepared. */
    void (*expect)(fast_rows *rows, int64_t sample, int64_t when);
    /* Free it. */
    void (*free)(fast_rows *rows);
} fast_rows_ops;

struct fast_rows {
    const fast_rows_ops *ops; /* of the kind of set */
    int64_t block;            /* samples that are read together; 0: each by itself */
    int64_t window;           /* blocks that are shuffled together, for all workers; block > 0 */
    uint64_t hash;            /* of all samples, or of their names and times */
};

/*
 * The order of samples that are read in blocks: blocks in random order, `window` neighbours of that
 * order shuffled together, so that a reader needs one window of blocks at a time. An incomplete
 * last block stays last. A window as large as the set is the shuffle of a set in memory.
 */
typedef struct fast_window_order {
    int64_t count;  /* samples */
    int64_t block;  /* samples of a block */
    int64_t window; /* blocks of a window, at least 1 */
} fast_window_order;

/* Return the number of windows of a pass. */
int64_t fast__window_count(const fast_window_order *order);

/* Return the block at place `place` of a pass. */
int64_t fast__window_block(const fast_window_order *order, uint64_t seed, uint64_t epoch,
                           int64_t place);

/* Return the sample at `position` of a pass. */
int64_t fast__window_sample(const fast_window_order *order, uint64_t seed, uint64_t epoch,
                            int64_t position);
