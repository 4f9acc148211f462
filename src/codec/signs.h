/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tensor/clones.h"

#include <stdbool.h>
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

/* The signs of v[0 .. 32). The bits are put in place and then folded: both are vector code. */
FAST_SIGNS_INLINE uint32_t fast__signs_all(const float *v)
{
    uint32_t bits[FAST_SIGNS];
    uint32_t word = 0;

    memcpy(bits, v, sizeof bits);
    for (int i = 0; i < FAST_SIGNS; i++)
        bits[i] = (bits[i] >> 31) << i;
    for (int i = 0; i < FAST_SIGNS; i++)
        word |= bits[i];
    return word;
}

/* The signs of v[0 .. n), n at most 32; the rest are 0. */
FAST_SIGNS_INLINE uint32_t fast__signs_of(const float *v, int64_t n)
{
    uint32_t word = 0;

    if (n == FAST_SIGNS)
        return fast__signs_all(v);
    for (int64_t i = 0; i < n; i++)
        word |= (uint32_t)(__builtin_signbitf(v[i]) ? 1 : 0) << i;
    return word;
}

/* Bytes of the signs of n elements. */
FAST_SIGNS_INLINE size_t fast__signs_size(int64_t n)
{
    return (size_t)(n + FAST_SIGNS - 1) / FAST_SIGNS * sizeof(uint32_t);
}

/* Sums of a group, for its means. */
typedef struct fast_signs_sums {
    float sum;        /* of all v; not for FAST_SIGNS_SIZE */
    float size;       /* of all |v| */
    int64_t negative; /* number of v below 0, -0 included; not for FAST_SIGNS_SIZE */
} fast_signs_sums;

typedef enum fast_signs_what { FAST_SIGNS_SIZE, FAST_SIGNS_ALL } fast_signs_what;

/* v = x + e into e, or x as it is where there is no e; the sums of v, each in 32 lanes that are
 * folded in halves, so that they are the same bits on every machine. */
void fast__signs_sum(fast_signs_what what, int64_t n, const float *x, float *e,
                     fast_signs_sums *out);
/* Signs of v to words; e, if there is one, becomes v - both[sign]. v and e may be equal; `both` may
 * be NULL where there is no e. `ahead`, if not NULL, is read after this, and so is what follows e:
 * they are fetched meanwhile. */
void fast__signs_put(int64_t n, const float *v, const float *both, float *e, const float *ahead,
                     uint8_t *out);
/* y = both[sign], or y += it. */
void fast__signs_take(int64_t n, const uint8_t *in, const float both[2], bool sum, float *y);
