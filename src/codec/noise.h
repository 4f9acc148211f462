/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tensor/wide.h"

#include <stdint.h>

/*
 * Random numbers at the speed of memory: a word for each element, a pure function of a key and the
 * element's number, so that the bits do not depend on how a loop is cut or vectorised. The mix is
 * C. Wellons' lowbias32, whose avalanche is within 0.2% of ideal; Philox, of which the key comes,
 * would be slower than the codecs. It is fit for rounding, not for statistics across keys that
 * differ by a constant: keys are random words.
 */
static inline uint32_t fast__noise(uint64_t key, uint32_t i)
{
    uint32_t x = i * 0x9e3779b9u + (uint32_t)key;

    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x += (uint32_t)(key >> 32);
    x *= 0x846ca68bu;
    x ^= x >> 16;
    return x;
}

/* Return a uniform number in [0, 1) with 24 bits. */
static inline float fast__noise_uniform(uint64_t key, uint32_t i)
{
    return (float)(fast__noise(key, i) >> 8) * 0x1p-24f;
}

#ifdef FAST_HAS_WIDE
/* Random words for 16 elements at once: begin() gives a position, and each call advances it by 16
 * elements. */
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
