/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * Choosing elements and sending them: what sparse codecs share.
 *
 * A choice of the k largest magnitudes is exact and breaks ties by the lowest index, so it is the
 * same on every machine. It costs about one pass over the vector: a sample gives a threshold that
 * is a little too low, one pass collects what is above it, and only those are sorted out. Where the
 * sample was wrong, a lower threshold is tried.
 */

/* Bytes of scratch that fast__select_top() needs for n elements. */
size_t fast__select_scratch(int64_t n);

/* The indices of the k (1 to n) largest |v|, ascending, at the begin of the scratch; NaN counts as
 * the largest of all. With x not NULL, v is first made: v = v + x. */
const uint32_t *fast__select_top(int64_t n, int64_t k, uint64_t key, const float *x, float *v,
                                 void *scratch);

/* Likewise all whose magnitude is at least `limit` (or not a number): so many in *count_out. */
const uint32_t *fast__select_above(int64_t n, float limit, const float *x, float *v, void *scratch,
                                   int64_t *count_out);

/* Indices as gaps: index - last - 1 (the first: index), of variable length, each with `extra` low
 * bits (0 or 1) from flags[] where that is not NULL. Bytes written; fast__gaps_bound() at most. */
size_t fast__gaps_put(int64_t k, const uint32_t *index, const uint8_t *flags, uint8_t *out);
size_t fast__gaps_bound(int64_t k);
/* Read k gaps at *at, which moves on; indices are below n. False if they are not. */
bool fast__gaps_get(const uint8_t **at, const uint8_t *end, int64_t n, int64_t k, uint32_t *index,
                    uint8_t *flags);
