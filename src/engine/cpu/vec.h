/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The vocabulary of x_simd.c files: vectors of 16 floats, by the compiler's extension, with
 * intrinsics only where the extension has no equivalent. Included by those files alone. A mask is a
 * vec_int of -1 and 0, as comparisons give it; saved for the backward pass it becomes 16 bits.
 *
 * Errors (kernels_test.c): exp, tanh 2e-7, sigmoid 3e-7, relative; gelu by erf 2e-7 of |x|.
 */
#include "engine/cpu/simd.h"

/* How the basic operations are inlined: a file whose loops the compiler would otherwise cut into
 * functions defines it as always_inline before it includes this header. */
#ifndef VEC_INLINE
#define VEC_INLINE static inline
#endif

/* Vectors wider than the baseline are passed between functions of one file only. */
#pragma GCC diagnostic ignored "-Wpsabi"

#include <string.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif

typedef int32_t vec_int __attribute__((vector_size(64), aligned(64)));
typedef uint8_t vec_byte __attribute__((vector_size(16), aligned(1)));

/* All elements a. */
VEC_INLINE fast_vec vec_set(float a)
{
    return (fast_vec){ a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a };
}

/* Load from an address that is aligned to a vector. */
VEC_INLINE fast_vec vec_load(const float *p)
{
    return *(const fast_vec *)(const void *)p;
}

/* Store to an address that is aligned to a vector. */
VEC_INLINE void vec_store(float *p, fast_vec a)
{
    *(fast_vec *)(void *)p = a;
}

/* Load from any address. */
static inline fast_vec vec_loadu(const float *p)
{
    return *(const fast_vecu *)(const void *)p;
}

/* a where the mask is -1, b where it is 0. */
static inline fast_vec vec_select(vec_int mask, fast_vec a, fast_vec b)
{
#ifdef __AVX512F__
    return (fast_vec)_mm512_mask_blend_ps(_mm512_movepi32_mask((__m512i)mask), (__m512)b,
                                          (__m512)a);
#else
    return (fast_vec)(((vec_int)a & mask) | ((vec_int)b & ~mask));
#endif
}

/* a where the mask is -1, 0 where it is 0. */
static inline fast_vec vec_and(vec_int mask, fast_vec a)
{
    return (fast_vec)((vec_int)a & mask);
}

/* The maximum; b if either is NaN. */
static inline fast_vec vec_max(fast_vec a, fast_vec b)
{
#ifdef __AVX512F__
    return (fast_vec)_mm512_max_ps((__m512)a, (__m512)b);
#else
    return vec_select(a > b, a, b);
#endif
}

/* max(0, x), and 0 for NaN; vec_max(0, x) passes NaN on. */
VEC_INLINE fast_vec vec_relu(fast_vec x)
{
    fast_vec y;
    for (int i = 0; i < FAST_VEC; i++)
        y[i] = x[i] > 0.0f ? x[i] : 0.0f;
    return y;
}

/* The minimum; b if either is NaN. */
static inline fast_vec vec_min(fast_vec a, fast_vec b)
{
#ifdef __AVX512F__
    return (fast_vec)_mm512_min_ps((__m512)a, (__m512)b);
#else
    return vec_select(a < b, a, b);
#endif
}

/* Clear the signs. */
static inline fast_vec vec_abs(fast_vec a)
{
    return (fast_vec)((vec_int)a & 0x7fffffff);
}

/* The correctly rounded square root. */
static inline fast_vec vec_sqrt(fast_vec a)
{
#ifdef __AVX512F__
    return (fast_vec)_mm512_sqrt_ps((__m512)a);
#else
    for (int i = 0; i < FAST_VEC; i++)
        a[i] = __builtin_sqrtf(a[i]);
    return a;
#endif
}

/* Sum pairwise, so that every instruction set gives the same bits. */
static inline float vec_sum(fast_vec a)
{
    float s[FAST_VEC];
    memcpy(s, &a, sizeof s);
    for (int width = FAST_VEC / 2; width; width /= 2)
        for (int i = 0; i < width; i++)
            s[i] += s[i + width];
    return s[0];
}

/* The mask of lanes [lo, hi) of a vector. */
static inline vec_int vec_lanes(int64_t lo, int64_t hi)
{
    const vec_int index = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
    const int a = lo < 0 ? 0 : lo > FAST_VEC ? FAST_VEC : (int)lo;
    const int b = hi < 0 ? 0 : hi > FAST_VEC ? FAST_VEC : (int)hi;
    return (index >= a) & (index < b);
}

/* One bit per lane, for masks that are saved for the backward pass. */
static inline uint16_t vec_bits(vec_int mask)
{
#ifdef __AVX512F__
    return (uint16_t)_mm512_movepi32_mask((__m512i)mask);
#else
    unsigned bits = 0;
    for (int i = 0; i < FAST_VEC; i++)
        bits |= ((unsigned)mask[i] & 1u) << i;
    return (uint16_t)bits;
#endif
}

/* The mask of vec_bits(). */
static inline vec_int vec_mask(uint16_t bits)
{
#ifdef __AVX512F__
    return (vec_int)_mm512_movm_epi32(bits);
#else
    const vec_int bit = { 1,   2,   4,    8,    16,   32,   64,    128,
                          256, 512, 1024, 2048, 4096, 8192, 16384, 32768 };
    return ((((vec_int){ 0 }) + (int)bits) & bit) != 0;
#endif
}

/* a where the bit is 1, else 0. */
static inline fast_vec vec_and_bits(uint16_t bits, fast_vec a)
{
#ifdef __AVX512F__
    return (fast_vec)_mm512_maskz_mov_ps(bits, (__m512)a);
#else
    return vec_and(vec_mask(bits), a);
#endif
}

/* exp(r) = 1 + r + r^2 q(r) on |r| <= ln 2 / 2, times 2^n. Saturates to 0 and to the largest
 * float. */
static inline fast_vec vec_exp(fast_vec x)
{
    const fast_vec magic = vec_set(12582912.0f); /* 1.5 2^23: adding it rounds to a whole number */

    x = vec_min(vec_max(x, vec_set(-87.3f)), vec_set(88.7f));
    const fast_vec n = (x * 1.44269504f + magic) - magic;
    fast_vec r = x - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    fast_vec q = vec_set(0.00138131424f);
    q = q * r + 0.00836941879f;
    q = q * r + 0.041668456f;
    q = q * r + 0.166665152f;
    q = q * r + 0.49999994f;
    const fast_vec y = (q * r * r + r) + 1.0f;
    /* In two steps: 2^128 is no float, but the product may be one. */
    const vec_int whole = __builtin_convertvector(n, vec_int), half = whole >> 1;
    const fast_vec a = (fast_vec)((half + 127) << 23), b = (fast_vec)((whole - half + 127) << 23);
    return y * a * b;
}

/* Near 0 x + x u q(u), u = x^2, because 1 - 2 / (exp(2 x) + 1) cancels there. */
static inline fast_vec vec_tanh(fast_vec x)
{
    const fast_vec t = vec_min(vec_abs(x), vec_set(10.0f)), u = t * t;
    fast_vec q = vec_set(0.00214753696f);

    q = q * u - 0.00818267372f;
    q = q * u + 0.0217029676f;
    q = q * u - 0.0539472029f;
    q = q * u + 0.133332103f;
    q = q * u - 0.333333313f;
    const fast_vec small = t + t * u * q, large = 1.0f - 2.0f / (vec_exp(2.0f * t) + 1.0f);
    const fast_vec y = vec_select(t < 0.625f, small, large);
    return (fast_vec)((vec_int)y | ((vec_int)x & (int)0x80000000));
}

/* 1 / (1 + exp(-x)); exp saturates, so neither end overflows. */
static inline fast_vec vec_sigmoid(fast_vec x)
{
    return 1.0f / (1.0f + vec_exp(-x));
}

/* x + x q(x^2) below 1; above, 1 - exp(-p(x)) with p a polynomial of -log erfc. */
static inline fast_vec vec_erf(fast_vec x)
{
    const fast_vec t = vec_min(vec_abs(x), vec_set(4.0f)), u = t * t;
    fast_vec q = vec_set(-9.68013683e-06f), p = vec_set(2.16868502e-05f);

    q = q * u + 0.000112705449f;
    q = q * u - 0.000848471129f;
    q = q * u + 0.00522107491f;
    q = q * u - 0.0268654451f;
    q = q * u + 0.112837829f;
    q = q * u - 0.376126379f;
    q = q * u + 0.128379166f;
    p = p * t - 0.000441336364f;
    p = p * t + 0.00420456193f;
    p = p * t - 0.0252082571f;
    p = p * t + 0.108418576f;
    p = p * t + 0.633219898f;
    p = p * t + 1.12957847f;
    p = p * t - 0.000188040227f;
    const fast_vec y = vec_select(t < 1.0f, t + t * q, 1.0f - vec_exp(-p));
    return (fast_vec)((vec_int)y | ((vec_int)x & (int)0x80000000));
}
