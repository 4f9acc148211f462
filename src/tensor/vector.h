/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tensor/dtype.h"

/*
 * Kernels over contiguous vectors, at the speed of memory. Compiled for AVX-512, AVX2 and the
 * baseline, chosen when the program starts; every variant gives the same bits: no contraction, and
 * sums run in FAST_LANES partial sums that are added as a balanced tree.
 * x and y may be equal but must not overlap otherwise. n may be 0.
 */
enum { FAST_LANES = 32 };

void fast__vector_fill(int64_t n, float a, float *y);                           /* y = a */
void fast__vector_scale(int64_t n, float a, float *y);                          /* y *= a */
void fast__vector_add(int64_t n, const float *x, float *y);                     /* y += x */
void fast__vector_axpy(int64_t n, float a, const float *x, float *y);           /* y += a x */
void fast__vector_axpby(int64_t n, float a, const float *x, float b, float *y); /* y = a x + b y */
void fast__vector_mix(int64_t n, float a, const float *x, float *y);            /* y += a (x - y) */
void fast__vector_difference(int64_t n, float a, const float *x, float *y);     /* y = a (x - y) */
double fast__vector_dot(int64_t n, const float *x, const float *y);
double fast__vector_norm2(int64_t n, const float *x);                     /* the sum of squares */
float fast__vector_max_abs(int64_t n, const float *x);                    /* NaN if x has one */
double fast__vector_norm2_max(int64_t n, const float *x, float *max_out); /* both in one pass */
bool fast__vector_finite(int64_t n, const float *x);

/*
 * Convert n elements, from or to F32; x and y do not overlap, and need not be aligned. To F16,
 * BF16, I8, U8, I32 and I64 the nearest value is taken, ties to even. F16 overflows to infinity and
 * NaN stays NaN; whole numbers saturate and NaN becomes 0. `scale` is for I8 only, which has no
 * exponent of its own: it multiplies the value on the way, in both directions.
 */
void fast__vector_convert(int64_t n, fast_dtype from, const void *x, fast_dtype to, void *y,
                          float scale);
