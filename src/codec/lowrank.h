/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "codec/codec.h"

/*
 * Products of a matrix M [rows x cols] with few vectors, for codecs of low rank. P [rank x rows]
 * and Q [rank x cols] hold their vectors one after the other, so that every loop is over contiguous
 * floats, in an order that is fixed (tensor/vector.h): the same bits on every machine.
 */

/* P_k = M Q_k. */
void fast__lowrank_left(const fast_block *m, int64_t rank, const float *matrix, const float *q,
                        float *p);
/* Q_k = M^T P_k. */
void fast__lowrank_right(const fast_block *m, int64_t rank, const float *matrix, const float *p,
                         float *q);
/* y = a sum of P_k Q_k^T, or that added to y. */
void fast__lowrank_product(const fast_block *m, int64_t rank, float a, const float *p,
                           const float *q, fast_decode_mode mode, float *y);
/* Gram-Schmidt, twice for each vector: v_k of n elements become orthonormal. A vector that
 * depends on those before it, up to rounding, becomes 0. */
void fast__lowrank_orthonormal(int64_t n, int64_t rank, float *v);
/* Elements uniform in [-1, 1), from a key. */
void fast__lowrank_random(int64_t n, uint64_t key, float *v);
