/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conversions between F32 and the other element types, at the speed of memory.
 *
 *            sign exponent mantissa
 *     F32    1    8        23         bias 127
 *     F16    1    5        10         bias 15
 *     BF16   1    8        7          bias 127: the upper half of an F32
 *
 * The formulas have no branches, so that the compiler turns the loops into vector code, three times
 * over (clones.h). Rounding to nearest even is left to the float adder where it can be: x + m, for
 * a power of two m = 2^k 2^13, is rounded at the bit 2^k 2^-10, and has there, as the lowest bits
 * of its mantissa, the F16 mantissa of an x in [2^k, 2^(k+1)). Adding 1.5 * 2^23 rounds to integers
 * in the same manner. It holds in the default rounding mode.
 */
#include "tensor/clones.h"
#include "tensor/vector.h"
#include "tensor/wide.h"

#include <math.h>
#include <string.h>

static inline __attribute__((always_inline)) uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline __attribute__((always_inline)) float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline __attribute__((always_inline)) int32_t clamp(int32_t x, int32_t low, int32_t high)
{
    x = x < low ? low : x;
    return x > high ? high : x;
}

/* F16. With the exponent k limited to -14, below which there is no implied bit, and to 16, from
 * which on all is infinity:
 *
 *     h = (k + 14) 2^10 + x 2^(10 - k),  rounded, at most infinity
 *
 * The implied bit of x makes the first term one exponent larger. */

static inline __attribute__((always_inline)) uint16_t f16_from(float x)
{
    const int32_t infinity = 31 << 10, nan = 0x7e00;
    const uint32_t sign = bits_of(x) >> 16 & 0x8000;
    const int32_t u = (int32_t)(bits_of(x) & 0x7fffffff);
    const int32_t exponent = clamp(u & 0x7f800000, 113 << 23, 143 << 23);
    const int32_t m = exponent + (13 << 23);
    const float sum = float_of((uint32_t)u) + float_of((uint32_t)m);
    int32_t h = (int32_t)bits_of(sum) - m + (exponent >> 13) - (113 << 10);
    h = h > infinity ? infinity : h;
    h = u > 0x7f800000 ? nan : h;
    return (uint16_t)(sign | (uint32_t)h);
}

static inline __attribute__((always_inline)) float f16_to(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, u = (uint32_t)(h & 0x7fff) << 13;
    /* Below 2^-14: a mantissa with the exponent of 2^-14 is 2^-14 too large. */
    const uint32_t small = bits_of(float_of(u + (113u << 23)) - float_of(113u << 23));
    uint32_t f = u + (112u << 23);
    f = u < 1u << 23 ? small : f;
    f = u >= 31u << 23 ? u | 0x7f800000 : f; /* infinity and NaN */
    return float_of(sign | f);
}

/* BF16. A NaN gets a bit that the rounding cannot carry away. */

static inline __attribute__((always_inline)) uint16_t bf16_from(float x)
{
    const uint32_t u = bits_of(x);
    const uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    const uint32_t nan = u >> 16 | 0x40;
    return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

static inline __attribute__((always_inline)) float bf16_to(uint16_t h)
{
    return float_of((uint32_t)h << 16);
}

/* Integers of 8 bits. The limits are applied to bits, since compilers make branches of limits
 * of floats; the sign is set aside, and magnitudes above 256 can only saturate. */

static inline __attribute__((always_inline)) int32_t small_from(float x, int32_t low, int32_t high)
{
    const uint32_t sign = bits_of(x) & 0x80000000;
    const int32_t u = (int32_t)(bits_of(x) & 0x7fffffff);
    const int32_t size = clamp(u, 0, (int32_t)bits_of(256.0f));
    const float rounded = float_of(sign | (uint32_t)size) + 0x1.8p23f;
    const int32_t whole = clamp((int32_t)(bits_of(rounded) - bits_of(0x1.8p23f)), low, high);
    const int32_t is_number = -(u <= 0x7f800000); /* all bits, or none */
    return whole & is_number;
}

static inline __attribute__((always_inline)) float scaled(float x, float scale)
{
    return x * scale;
}

/* Nothing need be aligned: tensors in files and messages begin anywhere. `v` is an element. */
#define CONVERT(name, from, to, formula)                                                       \
    FAST_CLONES static void name(int64_t n, const unsigned char *restrict x, void *restrict y, \
                                 float scale)                                                  \
    {                                                                                          \
        (void)scale;                                                                           \
        FAST_EACH                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                      \
            from v;                                                                            \
            memcpy(&v, x + (size_t)i * sizeof v, sizeof v);                                    \
            const to w = formula;                                                              \
            memcpy((unsigned char *)y + (size_t)i * sizeof w, &w, sizeof w);                   \
        }                                                                                      \
    }

CONVERT(f32_f16, float, uint16_t, f16_from(v))
CONVERT(f16_f32, uint16_t, float, f16_to(v))
CONVERT(f32_bf16, float, uint16_t, bf16_from(v))
CONVERT(bf16_f32, uint16_t, float, bf16_to(v))
CONVERT(f32_i8, float, int8_t, (int8_t)small_from(scaled(v, scale), -128, 127))
CONVERT(i8_f32, int8_t, float, scaled(v, scale))
CONVERT(f32_u8, float, uint8_t, (uint8_t)small_from(v, 0, 255))
CONVERT(u8_f32, uint8_t, float, (float)v)
CONVERT(i32_f32, int32_t, float, (float)v)
CONVERT(i64_f32, int64_t, float, (float)v)
CONVERT(f32_f64, float, double, (double)v)
CONVERT(f64_f32, double, float, (float)v)

/* The limits of the wide integers are not floats: 2^31 and 2^63 are the first too large. */

static inline int64_t wide_from(float v, float limit, int64_t low, int64_t high)
{
    if (v >= limit)
        return high;
    if (v < -limit)
        return low;
    return v == v ? (int64_t)rintf(v) : 0;
}

CONVERT(f32_i32, float, int32_t, (int32_t)wide_from(v, 0x1p31f, INT32_MIN, INT32_MAX))
CONVERT(f32_i64, float, int64_t, wide_from(v, 0x1p63f, INT64_MIN, INT64_MAX))

#ifdef FAST_HAS_WIDE
/* Whole vectors of 16 elements by the machine's own instructions for halves; NaN as in the formulas
 * above, since the machine would preserve its payload. */

FAST_WIDE static void f32_f16_wide(int64_t n, const float *x, uint16_t *y)
{
    const __m256i sign = _mm256_set1_epi16((short)0x8000), nan = _mm256_set1_epi16(0x7e00);

    for (int64_t i = 0; i + FAST_WIDE_LANES <= n; i += FAST_WIDE_LANES) {
        const __m512 v = _mm512_loadu_ps(x + i);
        const __m256i h = _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        const __mmask16 is_nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
        const __m256i other = _mm256_or_si256(_mm256_and_si256(h, sign), nan);

        _mm256_storeu_si256((__m256i *)(void *)(y + i), _mm256_mask_mov_epi16(h, is_nan, other));
    }
}

FAST_WIDE static void f16_f32_wide(int64_t n, const uint16_t *x, float *y)
{
    const __m512i size = _mm512_set1_epi32(0x7fff), infinity = _mm512_set1_epi32(0x7f800000);

    for (int64_t i = 0; i + FAST_WIDE_LANES <= n; i += FAST_WIDE_LANES) {
        const __m256i h = _mm256_loadu_si256((const __m256i *)(const void *)(x + i));
        const __m512i u = _mm512_cvtepu16_epi32(h), rest = _mm512_and_si512(u, size);
        const __mmask16 is_nan = _mm512_cmpgt_epi32_mask(rest, _mm512_set1_epi32(0x7c00));
        __m512i f = _mm512_castps_si512(_mm512_cvtph_ps(h));

        if (is_nan) {
            const __m512i sign = _mm512_slli_epi32(_mm512_andnot_si512(size, u), 16);
            const __m512i other = _mm512_or_si512(_mm512_slli_epi32(rest, 13), infinity);

            f = _mm512_mask_or_epi32(f, is_nan, sign, other);
        }
        _mm512_storeu_si512(y + i, f);
    }
}

FAST_WIDE static void f32_bf16_wide(int64_t n, const float *x, uint16_t *y)
{
    const __m512i one = _mm512_set1_epi32(1), half = _mm512_set1_epi32(0x7fff);

    for (int64_t i = 0; i + FAST_WIDE_LANES <= n; i += FAST_WIDE_LANES) {
        const __m512 v = _mm512_loadu_ps(x + i);
        const __m512i u = _mm512_castps_si512(v), high = _mm512_srli_epi32(u, 16);
        const __m512i up = _mm512_add_epi32(half, _mm512_and_si512(high, one));
        const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(u, up), 16);
        const __mmask16 is_nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
        const __m512i h = _mm512_mask_or_epi32(rounded, is_nan, high, _mm512_set1_epi32(0x40));

        _mm256_storeu_si256((__m256i *)(void *)(y + i), _mm512_cvtepi32_epi16(h));
    }
}
#endif

/* Convert by hand-written vector code where there is some; return how many of the n elements. */
static int64_t convert_wide(int64_t n, fast_dtype from, const void *x, fast_dtype to, void *y)
{
#ifdef FAST_HAS_WIDE
    if (n >= FAST_WIDE_LANES && fast__is_wide()) {
        const int64_t whole = n / FAST_WIDE_LANES * FAST_WIDE_LANES;

        if (from == FAST_F32 && to == FAST_F16)
            f32_f16_wide(n, x, y);
        else if (from == FAST_F32 && to == FAST_BF16)
            f32_bf16_wide(n, x, y);
        else if (from == FAST_F16)
            f16_f32_wide(n, x, y);
        else
            return 0;
        return whole;
    }
#else
    (void)n, (void)from, (void)x, (void)to, (void)y;
#endif
    return 0;
}

static void f32_f32(int64_t n, const unsigned char *restrict x, void *restrict y, float scale)
{
    (void)scale;
    memcpy(y, x, (size_t)n * sizeof(float));
}

typedef void convert_fn(int64_t n, const unsigned char *restrict x, void *restrict y, float scale);

/* By the other type: conversions from F32 to it, and from it to F32. */
static convert_fn *const from_f32[FAST_DTYPE_COUNT] = {
    [FAST_F32] = f32_f32, [FAST_F16] = f32_f16, [FAST_BF16] = f32_bf16, [FAST_I8] = f32_i8,
    [FAST_U8] = f32_u8,   [FAST_I32] = f32_i32, [FAST_I64] = f32_i64,   [FAST_F64] = f32_f64,
};
static convert_fn *const to_f32[FAST_DTYPE_COUNT] = {
    [FAST_F16] = f16_f32, [FAST_BF16] = bf16_f32, [FAST_I8] = i8_f32,   [FAST_U8] = u8_f32,
    [FAST_I32] = i32_f32, [FAST_I64] = i64_f32,   [FAST_F64] = f64_f32,
};

/* Convert in host memory. */
static void convert(int64_t n, fast_dtype from, const void *x, fast_dtype to, void *y, float scale)
{
    const int64_t done = convert_wide(n, from, x, to, y);
    if (done == n)
        return;
    x = (const char *)x + (size_t)done * fast__dtype_size(from);
    y = (char *)y + (size_t)done * fast__dtype_size(to);
    (from == FAST_F32 ? from_f32[to] : to_f32[from])(n - done, x, y, scale);
}

void fast__vector_convert(int64_t n, fast_dtype from, const void *x, fast_dtype to, void *y,
                          float scale)
{
    FAST_ASSERT(n >= 0);
    FAST_ASSERT((unsigned)from < FAST_DTYPE_COUNT && (unsigned)to < FAST_DTYPE_COUNT);
    FAST_ASSERT(from == FAST_F32 || to == FAST_F32);
    convert(n, from, fast__map(x, n, FAST_ACCESS_READ), to, fast__map(y, n, FAST_ACCESS_WRITE),
            scale);
    fast__unmap(y, n, FAST_ACCESS_WRITE);
    fast__unmap(x, n, FAST_ACCESS_READ);
}
