/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Loops by hand for AVX-512, where it has what compilers do not find: comparisons of a vector as
 * the bits of a word, and words spread over others. FAST_WIDE before a function lets it use them,
 * and fast__is_wide() says whether this machine has them; the plain loop beside it gives the same
 * bits.
 */
#ifdef __x86_64__
#include <immintrin.h>

#define FAST_HAS_WIDE 1
#define FAST_WIDE     __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,bmi2")))

static inline bool fast__is_wide(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("bmi2");
}

enum { FAST_WIDE_LANES = 16 }; /* floats of a vector */

/* Chance for 16 elements at once (noise.h): what begin() gives is stepped on by 16 elements each
 * time. */
FAST_WIDE static inline __m512i fast__wide_noise_begin(uint64_t key, uint32_t first)
{
    const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i i = _mm512_add_epi32(_mm512_set1_epi32((int)first), lane);

    return _mm512_add_epi32(_mm512_mullo_epi32(i, _mm512_set1_epi32((int)0x9e3779b9u)),
                            _mm512_set1_epi32((int)(uint32_t)key));
}

FAST_WIDE static inline __m512i fast__wide_noise(uint64_t key, __m512i *at)
{
    __m512i x = *at;

    *at = _mm512_add_epi32(x, _mm512_set1_epi32((int)(FAST_WIDE_LANES * 0x9e3779b9u)));
    x = _mm512_xor_si512(x, _mm512_srli_epi32(x, 16));
    x = _mm512_mullo_epi32(x, _mm512_set1_epi32(0x7feb352d));
    x = _mm512_xor_si512(x, _mm512_srli_epi32(x, 15));
    x = _mm512_add_epi32(x, _mm512_set1_epi32((int)(uint32_t)(key >> 32)));
    x = _mm512_mullo_epi32(x, _mm512_set1_epi32((int)0x846ca68bu));
    return _mm512_xor_si512(x, _mm512_srli_epi32(x, 16));
}
#endif
