/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The vocabulary of x_simd.c files: vectors as wide as a register, by the compiler's extension,
 * with intrinsics where the extension has no equivalent or compiles it badly. Included by those
 * files alone. The layout of activations is in blocks of FAST_VEC = 16 lanes on every machine; a
 * block is one register with AVX-512, two with AVX2, four with SSE2 and NEON:
 *
 *     lanes      0 .. 3    4 .. 7    8 .. 11   12 .. 15
 *     AVX-512    |                 VEC                 |
 *     AVX2       |       VEC       |       VEC         |
 *     NEON       |  VEC  |   VEC   |   VEC   |   VEC   |
 *
 * A sum over lanes has 16 partial sums on every machine, one a lane of a block (FOR_PARTS): so its
 * order is fixed, and instruction sets with multiply-add give the same bits.
 *
 * How to write a kernel:
 *
 *   - step by VEC where every lane is on its own: for (i = 0; i < lanes; i += VEC);
 *   - step by FAST_VEC, with FOR_PARTS inside, where lanes are summed, or where a block has one
 *     word of bits;
 *   - compare, select, convert and take maxima by the functions below. The operators + - * / & |
 *     compile to one instruction; comparisons do where a vector is one register, as here, and
 *     became scalar code when vectors were wider than registers (tests/house/lowering.py looks);
 *   - write a product and the sum that it is added to in one expression: it becomes one rounding,
 *     in the same way on every machine, if the sum has only one product.
 *
 * A mask is a vec_int of -1 and 0, as comparisons give it; saved for the backward pass it becomes a
 * bit a lane.
 *
 * Errors (kernel_tables_test.c): exp, tanh 2e-7, sigmoid 3e-7, relative; gelu 2e-7 of |x|.
 */
#include "engine/cpu/simd.h"

/* How the basic operations are inlined: a file whose loops the compiler would otherwise cut into
 * functions defines it as always_inline before it includes this header. */
#ifndef VEC_INLINE
#define VEC_INLINE static inline
#endif

#include <string.h>
#if defined(__AVX512F__)
#include <immintrin.h>
enum { VEC = 16 };
#elif defined(__AVX2__)
#include <immintrin.h>
enum { VEC = 8 };
#elif defined(__SSE2__)
#include <emmintrin.h>
enum { VEC = 4 };
#elif defined(__ARM_NEON) && defined(__aarch64__)
#define VEC_NEON
#include <arm_neon.h>
enum { VEC = 4 };
#else
enum { VEC = 4 }; /* the compiler makes of it what it can */
#endif

/* Registers: what a tile of sums may take. */
#if defined(__AVX512F__) || defined(VEC_NEON)
#define VEC_REGISTERS 32
#else
#define VEC_REGISTERS 16
#endif

/* A register of floats, of whole numbers, and of floats at any address. */
typedef float fast_vec __attribute__((vector_size(4 * VEC), aligned(4 * VEC)));
typedef int32_t vec_int __attribute__((vector_size(4 * VEC), aligned(4 * VEC)));
typedef float vec_any __attribute__((vector_size(4 * VEC), aligned(4), may_alias));

enum { PARTS = FAST_VEC / VEC }; /* registers of a block */

/* Loop over the registers of a block, unrolled: `part` is the first lane of each. Arrays of PARTS
 * vectors that are indexed by part / VEC stay in registers. */
#define FOR_PARTS(part) _Pragma("GCC unroll 4") for (int part = 0; part < FAST_VEC; part += VEC)

/* All elements a. */
VEC_INLINE fast_vec vec_set(float a)
{
    return a - (fast_vec){ 0 };
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
VEC_INLINE fast_vec vec_loadu(const float *p)
{
    return *(const vec_any *)(const void *)p;
}

/* Store to any address. */
VEC_INLINE void vec_storeu(float *p, fast_vec a)
{
    *(vec_any *)(void *)p = a;
}

/* a b + c with one rounding where there is an instruction for it: for sums with two products, where
 * the compiler may choose the one that it rounds. */
VEC_INLINE fast_vec vec_fma(fast_vec a, fast_vec b, fast_vec c)
{
#if defined(__AVX512F__)
    return (fast_vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__)
    return (fast_vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(VEC_NEON)
    return (fast_vec)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return a * b + c;
#endif
}

/* a where the mask is -1, b where it is 0. */
VEC_INLINE fast_vec vec_select(vec_int mask, fast_vec a, fast_vec b)
{
#if defined(__AVX512F__)
    return (fast_vec)_mm512_mask_blend_ps(_mm512_movepi32_mask((__m512i)mask), (__m512)b,
                                          (__m512)a);
#elif defined(__AVX2__)
    return (fast_vec)_mm256_blendv_ps((__m256)b, (__m256)a, (__m256)mask);
#elif defined(VEC_NEON)
    return (fast_vec)vbslq_f32((uint32x4_t)mask, (float32x4_t)a, (float32x4_t)b);
#else
    return (fast_vec)(((vec_int)a & mask) | ((vec_int)b & ~mask));
#endif
}

/* a where the mask is -1, 0 where it is 0: one instruction everywhere, so it is preferred to
 * vec_select() with a zero. */
VEC_INLINE fast_vec vec_and(vec_int mask, fast_vec a)
{
    return (fast_vec)((vec_int)a & mask);
}

/* The maximum; b if either is NaN. */
VEC_INLINE fast_vec vec_max(fast_vec a, fast_vec b)
{
#if defined(__AVX512F__)
    return (fast_vec)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (fast_vec)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__)
    return (fast_vec)_mm_max_ps((__m128)a, (__m128)b);
#else
    return vec_select(a > b, a, b);
#endif
}

/* The minimum; b if either is NaN. */
VEC_INLINE fast_vec vec_min(fast_vec a, fast_vec b)
{
#if defined(__AVX512F__)
    return (fast_vec)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (fast_vec)_mm256_min_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__)
    return (fast_vec)_mm_min_ps((__m128)a, (__m128)b);
#else
    return vec_select(a < b, a, b);
#endif
}

/* max(0, x), and 0 for NaN; vec_max(0, x) passes NaN on. */
VEC_INLINE fast_vec vec_relu(fast_vec x)
{
    return vec_max(x, vec_set(0));
}

/* Clear the signs. */
VEC_INLINE fast_vec vec_abs(fast_vec a)
{
    return (fast_vec)((vec_int)a & 0x7fffffff);
}

/* The correctly rounded square root. */
VEC_INLINE fast_vec vec_sqrt(fast_vec a)
{
#if defined(__AVX512F__)
    return (fast_vec)_mm512_sqrt_ps((__m512)a);
#elif defined(__AVX2__)
    return (fast_vec)_mm256_sqrt_ps((__m256)a);
#elif defined(__SSE2__)
    return (fast_vec)_mm_sqrt_ps((__m128)a);
#elif defined(VEC_NEON)
    return (fast_vec)vsqrtq_f32((float32x4_t)a);
#else
    for (int i = 0; i < VEC; i++)
        a[i] = __builtin_sqrtf(a[i]);
    return a;
#endif
}

/* Sum a block of 16 floats pairwise, so that every instruction set gives the same bits: lanes 0-7 +
 * 8-15, then 0-3 + 4-7, then 0, 1 + 2, 3, then 0 + 1. */
static __attribute__((noinline, unused)) float vec_sum(const float *block)
{
    typedef float quad __attribute__((vector_size(16)));
    const quad *q = (const quad *)(const void *)block;
    const quad s = (q[0] + q[2]) + (q[1] + q[3]);
#ifdef VEC_NEON
    return vpadds_f32(vadd_f32(vget_low_f32(s), vget_high_f32(s)));
#else
    return (s[0] + s[2]) + (s[1] + s[3]);
#endif
}

/* The maximum of a block of 16 floats. */
static __attribute__((noinline, unused)) float vec_most(float *block)
{
#ifdef VEC_NEON
    const float32x4_t a = vmaxq_f32(vld1q_f32(block), vld1q_f32(block + 4));
    return vmaxvq_f32(vmaxq_f32(a, vmaxq_f32(vld1q_f32(block + 8), vld1q_f32(block + 12))));
#else
    for (int i = 0; i < 8; i++)
        block[i] = block[i] > block[i + 8] ? block[i] : block[i + 8];
    for (int i = 0; i < 4; i++)
        block[i] = block[i] > block[i + 4] ? block[i] : block[i + 4];
    const float a = block[0] > block[1] ? block[0] : block[1];
    const float b = block[2] > block[3] ? block[2] : block[3];
    return a > b ? a : b;
#endif
}

/* The mask of lanes [lo, hi) of a vector. */
VEC_INLINE vec_int vec_lanes(int64_t lo, int64_t hi)
{
    static const int32_t count[16] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
    const int a = lo < 0 ? 0 : lo > VEC ? VEC : (int)lo;
    const int b = hi < 0 ? 0 : hi > VEC ? VEC : (int)hi;
    vec_int index;
    memcpy(&index, count, sizeof index);
    return (index > a - 1) & (index < b);
}

/* A bit a lane, from bit 0, for masks that are saved for the backward pass. */
VEC_INLINE unsigned vec_bits(vec_int mask)
{
#if defined(__AVX512F__)
    return _mm512_movepi32_mask((__m512i)mask);
#elif defined(__AVX2__)
    return (unsigned)_mm256_movemask_ps((__m256)mask);
#elif defined(__SSE2__)
    return (unsigned)_mm_movemask_ps((__m128)mask);
#elif defined(VEC_NEON)
    return (unsigned)vaddvq_s32((int32x4_t)(mask & (vec_int){ 1, 2, 4, 8 }));
#else
    unsigned bits = 0;
    for (int i = 0; i < VEC; i++)
        bits |= ((unsigned)mask[i] & 1u) << i;
    return bits;
#endif
}

/* The mask of vec_bits(); higher bits are ignored. */
VEC_INLINE vec_int vec_mask(unsigned bits)
{
#if defined(__AVX512F__)
    return (vec_int)_mm512_movm_epi32((__mmask16)bits);
#elif defined(__AVX2__)
    const vec_int bit = { 1, 2, 4, 8, 16, 32, 64, 128 };
    return (((vec_int){ 0 } + (int)bits) & bit) == bit;
#elif defined(VEC_NEON)
    return (vec_int)vtstq_s32(vdupq_n_s32((int)bits), (int32x4_t){ 1, 2, 4, 8 });
#else
    const vec_int bit = { 1, 2, 4, 8 };
    return (((vec_int){ 0 } + (int)bits) & bit) == bit;
#endif
}

/* a where the bit is 1, else 0. */
VEC_INLINE fast_vec vec_and_bits(unsigned bits, fast_vec a)
{
#ifdef __AVX512F__
    return (fast_vec)_mm512_maskz_mov_ps((__mmask16)bits, (__m512)a);
#else
    return vec_and(vec_mask(bits), a);
#endif
}

/* Store the low byte of every element. */
VEC_INLINE void vec_store_bytes(uint8_t *to, vec_int a)
{
#if defined(__AVX512F__)
    _mm_storeu_si128((__m128i *)(void *)to, _mm512_cvtepi32_epi8((__m512i)a));
#elif defined(__AVX2__)
    const __m256i words = _mm256_packus_epi32((__m256i)(a & 255), (__m256i)(a & 255));
    const __m128i low = _mm256_castsi256_si128(words), high = _mm256_extracti128_si256(words, 1);
    _mm_storel_epi64((__m128i *)(void *)to, _mm_packus_epi16(_mm_unpacklo_epi64(low, high), low));
#elif defined(__SSE2__)
    const __m128i words = _mm_packs_epi32((__m128i)(a & 255), (__m128i)(a & 255));
    const int bytes = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
    memcpy(to, &bytes, sizeof bytes);
#elif defined(VEC_NEON)
    const int16x4_t words = vmovn_s32((int32x4_t)a);
    const int8x8_t bytes = vmovn_s16(vcombine_s16(words, words));
    memcpy(to, &bytes, 4);
#else
    for (int i = 0; i < VEC; i++)
        to[i] = (uint8_t)a[i];
#endif
}

/* Load a byte an element, as whole numbers from 0 to 255: vec_store_bytes() backwards, except
 * that the sign is lost. */
VEC_INLINE vec_int vec_load_bytes(const uint8_t *from)
{
#if defined(__AVX512F__)
    return (vec_int)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)from));
#elif defined(__AVX2__)
    return (vec_int)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)from));
#elif defined(__SSE2__)
    int bytes;
    memcpy(&bytes, from, sizeof bytes);
    const __m128i zero = _mm_setzero_si128();
    const __m128i words = _mm_unpacklo_epi8(_mm_cvtsi32_si128(bytes), zero);
    return (vec_int)_mm_unpacklo_epi16(words, zero);
#elif defined(VEC_NEON)
    uint32_t bytes;
    memcpy(&bytes, from, sizeof bytes);
    return (vec_int)vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(bytes))));
#else
    vec_int a;
    for (int i = 0; i < VEC; i++)
        a[i] = from[i];
    return a;
#endif
}

/* exp(r) = 1 + r + r^2 q(r) on |r| <= ln 2 / 2, times 2^n. Saturates to 0 and to the largest
 * float. */
VEC_INLINE fast_vec vec_exp(fast_vec x)
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
VEC_INLINE fast_vec vec_tanh(fast_vec x)
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
VEC_INLINE fast_vec vec_sigmoid(fast_vec x)
{
    return 1.0f / (1.0f + vec_exp(-x));
}

/* The distribution function of the normal distribution, 1 - t q(t) e or t q(t) e with t = 1 / (1 +
 * 0.2316419 |x|) (Hastings, "Approximations for Digital Computers", 1955), and e = exp(-x^2 / 2),
 * which its density is a multiple of. */
VEC_INLINE fast_vec vec_normal(fast_vec x, fast_vec *e)
{
    const fast_vec t = 1.0f / (1.0f + 0.231641888f * vec_abs(x));
    fast_vec q = vec_set(0.5307027145f);

    q = q * t - 0.7265760135f;
    q = q * t + 0.7107068705f;
    q = q * t - 0.142248368f;
    q = q * t + 0.127414796f;
    *e = vec_exp(-0.5f * x * x);
    const fast_vec tail = q * t * *e;
    return vec_select(x > 0.0f, 1.0f - tail, tail);
}
