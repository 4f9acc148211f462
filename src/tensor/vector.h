/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tensor/device.h"
#include "tensor/dtype.h"

/*
 * Kernels over contiguous vectors of any device, at the speed of memory. Compiled for AVX-512, AVX2
 * and the baseline, chosen when the program starts; every variant gives the same bits: no
 * contraction, and sums run in FAST_LANES partial sums that are added as a balanced tree.
 * x and y may be equal but must not overlap otherwise, and may be on different devices. n may be 0.
 * The bits are the host's on every device that has no kernels of its own.
 */
enum { FAST_LANES = 32 };

void fast__vector_copy(int64_t n, const void *x, void *y);  /* y = x; floats of any alignment */
void fast__vector_fill(int64_t n, float a, float *y);       /* y = a */
void fast__vector_scale(int64_t n, float a, float *y);      /* y *= a */
void fast__vector_divide(int64_t n, float a, float *y);     /* y /= a */
void fast__vector_add(int64_t n, const float *x, float *y); /* y += x */
void fast__vector_axpy(int64_t n, float a, const float *x, float *y);           /* y += a x */
void fast__vector_axpby(int64_t n, float a, const float *x, float b, float *y); /* y = a x + b y */
void fast__vector_mix(int64_t n, float a, const float *x, float *y);            /* y += a (x - y) */
void fast__vector_difference(int64_t n, float a, const float *x, float *y);     /* y = a (x - y) */
void fast__vector_clear(int64_t n, const float *x, float *y); /* y = 0 where x is not 0 */
double fast__vector_dot(int64_t n, const float *x, const float *y);
double fast__vector_norm2(int64_t n, const float *x);                     /* the sum of squares */
float fast__vector_max_abs(int64_t n, const float *x);                    /* NaN if x has one */
double fast__vector_norm2_max(int64_t n, const float *x, float *max_out); /* both in one pass */
bool fast__vector_finite(int64_t n, const float *x);
bool fast__vector_equal(int64_t n, const void *x, const void *y); /* to the bit */
/* Return XXH64 of the elements' bytes, as fast__hash() does. */
uint64_t fast__vector_hash(int64_t n, const float *x, uint64_t seed);
/* Set *first to the first element whose bits are not all 0 and *end to the one behind the last;
 * both 0 if all are. */
void fast__vector_extent(int64_t n, const float *x, int64_t *first, int64_t *end);

/*
 * Convert n elements, from or to F32; x and y do not overlap, and need not be aligned. To F16,
 * BF16, I8, U8, I32 and I64 the nearest value is taken, ties to even. F16 overflows to infinity and
 * NaN stays NaN; whole numbers saturate and NaN becomes 0. `scale` is for I8 only, which has no
 * exponent of its own: it multiplies the value on the way, in both directions. Elements of other
 * types are in host memory.
 */
void fast__vector_convert(int64_t n, fast_dtype from, const void *x, fast_dtype to, void *y,
                          float scale);
