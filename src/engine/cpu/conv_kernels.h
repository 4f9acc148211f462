/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/cpu/simd.h"

/*
 * Sums of products over lanes, the building block of weight gradients:
 *
 *   c[i * ldc + j] += sum over p < count, v < length of a[p * a_step + i * a_row + v]
 *                                                     * b[p * b_step + j * b_row + v]
 *
 * for i < m, j < n. `length` is a multiple of 16; a, b and all strides are 64-byte aligned.
 */
typedef struct fast_dot {
    int64_t m, n;           /* rows and columns of c */
    int64_t count;          /* number of pixels */
    int64_t length;         /* contiguous floats at each pixel */
    int64_t a_step, b_step; /* floats from pixel to pixel */
    int64_t a_row, b_row;   /* from i to i + 1, from j to j + 1 */
    int64_t ldc;            /* floats from row to row of c */
    bool ahead;             /* prefetch b: it is in memory rather than in a cache */
} fast_dot;

/* The kernels of convolutions, per instruction set. */
typedef struct fast_conv_kernels {
    /* y[c][lanes] += bias[c] (NULL: none), then max(0, .) where `relu`. */
    void (*finish)(float *y, const float *bias, int64_t channels, int64_t lanes, bool relu);

    /* Add the sums of products to c. */
    void (*dot)(const fast_dot *dot, const float *a, const float *b, float *c);
} fast_conv_kernels;

FAST_KERNELS(conv)

/* Return the kernels for this processor. */
const fast_conv_kernels *fast__conv_kernels(void);
