/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/cpu/simd.h"

enum { FAST_SEQUENCE_DEPTH = 128 /* terms of a sum that are read together */ };

/* A gradient of weights [outputs][inputs] that sums over positions. */
typedef struct fast_sequence_sums {
    int64_t positions, lanes; /* terms: all lanes of all positions */
    int64_t inputs, outputs;  /* columns and rows */
} fast_sequence_sums;

/* Products with all positions of a sequence at once; x_p and y_p are rows of L lanes, as
 * everywhere. sequence_simd.c */
typedef struct fast_sequence_kernels {
    int64_t tile; /* columns of a panel of `sums` */
    /* Pack w for products: element (k, n) at n * ldw + k, or at k * ldw + n if `trans`; K times N
     * rounded up to a multiple of 6. */
    void (*pack)(int64_t K, int64_t N, const float *w, int64_t ldw, bool trans, float *to);
    /* y_p [N][L] = or += w' x_p [K][L] for P positions. Needs 34 KiB of stack. */
    void (*products)(int64_t P, int64_t L, int64_t K, int64_t N, const float *x,
                     const float *packed, bool accumulate, float *y);
    /* Rows [first, first + rows) of dw: the sums of dy_p x_p'. x in panels of sample-major columns,
     * [inputs / tile, rounded up][positions lanes][tile]; the last one is filled with zeros.
     * scratch: FAST_SEQUENCE_DEPTH floats a row. */
    void (*sums)(const fast_sequence_sums *s, int64_t first, int64_t rows, const float *x,
                 const float *dy, float *scratch, float *dw);
} fast_sequence_kernels;

FAST_KERNELS(sequence)
