/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * Chance at the speed of memory: a word for each element, a pure function of a key and the
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

/* In [0, 1), 24 bits. */
static inline float fast__noise_uniform(uint64_t key, uint32_t i)
{
    return (float)(fast__noise(key, i) >> 8) * 0x1p-24f;
}
