/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tensor/clones.h"

#include <stdint.h>
#include <string.h>

/*
 * Signs of floats in words of 32 bits, element i of a word in bit i; 1 is negative (-0 too). Plain
 * loops over a word's elements, always inlined, so that the clones of the caller (FAST_CLONES) turn
 * them into vector code. A codec writes words in the byte order of the machine: little endian, as
 * all of FAST's files are.
 */
enum { FAST_SIGNS = 32 };

#define FAST_SIGNS_INLINE static inline __attribute__((always_inline))

/* The signs of v[0 .. n), n at most 32; the rest are 0. */
FAST_SIGNS_INLINE uint32_t fast__signs_of(const float *v, int64_t n)
{
    uint32_t word = 0;

    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;

        memcpy(&bits, v + i, sizeof bits);
        word |= (bits >> 31) << i;
    }
    return word;
}

/* Bytes of the signs of n elements. */
FAST_SIGNS_INLINE size_t fast__signs_size(int64_t n)
{
    return (size_t)(n + FAST_SIGNS - 1) / FAST_SIGNS * sizeof(uint32_t);
}
