/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A square of registers is transposed in place, in log2 VEC rounds of shuffles: pairs of elements
 * first, then larger parts. With AVX-512 64 shuffles move 256 floats.
 *
 *     a0 a1 a2 a3         a0 b0 c0 d0
 *     b0 b1 b2 b3   ->    a1 b1 c1 d1
 *     c0 c1 c2 c3         a2 b2 c2 d2
 *     d0 d1 d2 d3         a3 b3 c3 d3
 */
#include "engine/cpu/vec.h"

/* v[i][j] -> v[j][i], for i, j < VEC, in three versions for the three widths of registers. */
#ifdef __AVX512F__
/* Unpack pairs, then quads, then exchange quarters twice. */
VEC_INLINE void vec_transpose(fast_vec v[16])
{
    __m512 *r = (__m512 *)v, t[16];

    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        const __m512d a = _mm512_castps_pd(t[i]), b = _mm512_castps_pd(t[i + 1]);
        const __m512d c = _mm512_castps_pd(t[i + 2]), d = _mm512_castps_pd(t[i + 3]);
        r[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
        r[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
        r[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
        r[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
    }
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
    }
    for (int i = 0; i < 4; i++) {
        r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
        r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
        r[i + 4] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0x88);
        r[i + 12] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0xdd);
    }
}
#elif defined(__AVX2__)
/* Unpack pairs, then quads, then exchange halves. */
VEC_INLINE void vec_transpose(fast_vec v[8])
{
    __m256 t[8];

    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps((__m256)v[i], (__m256)v[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps((__m256)v[i], (__m256)v[i + 1]);
    }
    for (int i = 0; i < 4; i++) {
        const int from = i / 2, pick = i % 2;
        const __m256 low = pick ? _mm256_shuffle_ps(t[from], t[from + 2], 0xee)
                                : _mm256_shuffle_ps(t[from], t[from + 2], 0x44);
        const __m256 high = pick ? _mm256_shuffle_ps(t[from + 4], t[from + 6], 0xee)
                                 : _mm256_shuffle_ps(t[from + 4], t[from + 6], 0x44);
        v[i] = (fast_vec)_mm256_permute2f128_ps(low, high, 0x20);
        v[i + 4] = (fast_vec)_mm256_permute2f128_ps(low, high, 0x31);
    }
}
#else
/* Exchange odd elements of neighbours, then halves. */
VEC_INLINE void vec_transpose(fast_vec v[4])
{
    const fast_vec a = __builtin_shufflevector(v[0], v[1], 0, 4, 1, 5);
    const fast_vec b = __builtin_shufflevector(v[0], v[1], 2, 6, 3, 7);
    const fast_vec c = __builtin_shufflevector(v[2], v[3], 0, 4, 1, 5);
    const fast_vec d = __builtin_shufflevector(v[2], v[3], 2, 6, 3, 7);

    v[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
    v[1] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
    v[2] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
    v[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
}
#endif
