/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * Selecting elements, and writing their indices: the kernels of sparse codecs.
 *
 * The selection of the k largest magnitudes is exact and breaks ties by the lowest index: it does
 * not depend on the machine. It costs about one pass over the vector: a sample gives a threshold
 * that is a little too low, one pass collects the elements above it, and the k-th is found among
 * those. If fewer than k were collected, all elements are.
 */

/* Return the bytes of scratch that fast__select_top() needs for n elements. */
size_t fast__select_scratch(int64_t n);

/* Return the indices of the k (1 to n) largest |v|, ascending, at the start of the scratch; NaN
 * counts as the largest. With x not NULL, v = v + x first. */
const uint32_t *fast__select_top(int64_t n, int64_t k, uint64_t key, const float *x, float *v,
                                 void *scratch);

/* Return the indices of elements that reach a threshold, ascending, at the start of the scratch:
 * the threshold that a fraction k / n of a sample reaches, an element of a hundred and 1,024 or all
 * at least. Their number, about k and k at most, becomes *count_out: of more the k largest are
 * taken. With x not NULL, v = v + x first. The scratch is that of fast__select_top(). */
const uint32_t *fast__select_sampled(int64_t n, int64_t k, uint64_t key, const float *x, float *v,
                                     void *scratch, int64_t *count_out);

/* Return the indices of all elements whose magnitude is at least `limit`, or NaN; their number in
 * *count_out. */
const uint32_t *fast__select_above(int64_t n, float limit, const float *x, float *v, void *scratch,
                                   int64_t *count_out);

/* Indices as gaps: index - last - 1 (the first: index), of variable length, each with `extra` low
 * bits (0 or 1) from flags[] unless that is NULL. Return the bytes; fast__gaps_bound() at most. */
size_t fast__gaps_put(int64_t k, const uint32_t *index, const uint8_t *flags, uint8_t *out);
size_t fast__gaps_bound(int64_t k);
/* Read k gaps at *at, which moves on; indices are below n. False if they are not. */
bool fast__gaps_get(const uint8_t **at, const uint8_t *end, int64_t n, int64_t k, uint32_t *index,
                    uint8_t *flags);
