/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random streams: Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy
 * as 1, 2, 3" (SC 2011), and a permutation without memory.
 *
 * Philox is a keyed bijection of 128-bit counters. One round multiplies two of the four words,
 * swaps halves and mixes in a key that grows by the golden ratio and sqrt(3) - 1:
 *
 *     (c0, c1, c2, c3) <- (hi(M1 c2) ^ c1 ^ k0,  lo(M1 c2),  hi(M0 c0) ^ c3 ^ k1,  lo(M0 c0))
 *
 * The key of a stream is Philox of (purpose) under the seed, so streams of different purposes are
 * unrelated; the counter is (block, sample, step, actor). Cost: about 4 ns a word.
 *
 * The permutation is a Feistel network of eight rounds over 2h bits, (l, r) <- (r, l ^ F(r)), with
 * h the smallest such that 4^h >= count. A value outside [0, count) is permuted again: the cycle of
 * a bijection from a point inside returns inside, after fewer than four steps on average.
 */
#include "base/rng.h"

#include <math.h>
#include <string.h>

enum { PHILOX_ROUNDS = 10, FEISTEL_ROUNDS = 8 };

/* Actor fields of counters that belong to permutations and to keys of purposes. */
static const uint32_t PERMUTE_ACTOR = UINT32_MAX;
static const uint32_t KEY_ACTOR = UINT32_MAX - 1;

void fast__philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        const uint64_t a = (uint64_t)0xD2511F53u * c0;
        const uint64_t b = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)b;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* Derive the key of a purpose's streams. */
static void key_of(uint64_t seed, fast_purpose purpose, uint32_t key[2])
{
    const uint32_t counter[4] = { (uint32_t)purpose, 0, 0, KEY_ACTOR };
    const uint32_t from[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
    uint32_t block[4];
    fast__philox(counter, from, block);
    key[0] = block[0];
    key[1] = block[1];
}

void fast__rng_init(fast_rng *rng, uint64_t seed, fast_purpose purpose, uint64_t actor,
                    uint64_t step, uint64_t sample)
{
    FAST_ASSERT(actor < KEY_ACTOR);
    FAST_ASSERT(step <= UINT32_MAX);
    FAST_ASSERT(sample <= UINT32_MAX);
    memset(rng, 0, sizeof *rng);
    key_of(seed, purpose, rng->key);
    rng->counter[1] = (uint32_t)sample;
    rng->counter[2] = (uint32_t)step;
    rng->counter[3] = (uint32_t)actor;
}

uint32_t fast__rng_u32(fast_rng *rng)
{
    if (rng->left == 0) {
        fast__philox(rng->counter, rng->key, rng->block);
        rng->counter[0]++;
        FAST_ASSERT(rng->counter[0] != 0); /* a stream has 2^34 words */
        rng->left = 4;
    }
    return rng->block[4 - rng->left--];
}

float fast__rng_uniform(fast_rng *rng)
{
    return (float)(fast__rng_u32(rng) >> 8) * 0x1p-24f;
}

/* Computed in double, so that differences between math libraries vanish when rounding to float. */
float fast__rng_normal(fast_rng *rng)
{
    const double u = ((double)fast__rng_u32(rng) + 1.0) * 0x1p-32; /* (0, 1] */
    const double v = (double)fast__rng_u32(rng) * 0x1p-32;
    return (float)(sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v));
}

uint64_t fast__rng_below(fast_rng *rng, uint64_t bound)
{
    FAST_ASSERT(bound > 0);
    if (bound > UINT32_MAX) {
        /* 2^64 mod bound values at the bottom would favour small results. */
        const uint64_t uneven = (0 - bound) % bound;
        for (;;) {
            const uint64_t high = fast__rng_u32(rng);
            const uint64_t word = high << 32 | fast__rng_u32(rng);
            if (word >= uneven)
                return word % bound;
        }
    }
    /* The 32-bit case by multiplication (Lemire, "Fast Random Integer Generation in an Interval",
     * 2019): the high half of word * bound, unless the low half is among the uneven values. */
    uint64_t product = (uint64_t)fast__rng_u32(rng) * bound;
    if ((uint32_t)product < bound) {
        const uint32_t uneven = (0 - (uint32_t)bound) % (uint32_t)bound;
        while ((uint32_t)product < uneven)
            product = (uint64_t)fast__rng_u32(rng) * bound;
    }
    return product >> 32;
}

/* The round function: the finisher of SplitMix64 (Steele et al. 2014) mixes all 64 bits. */
static uint64_t feistel_mix(uint32_t half, uint32_t key)
{
    uint64_t z = ((uint64_t)key << 32 | half) + 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

uint64_t fast__rng_permute(uint64_t seed, fast_purpose purpose, uint64_t step, uint64_t count,
                           uint64_t i)
{
    FAST_ASSERT(i < count);
    FAST_ASSERT(step <= UINT32_MAX);
    int bits = 1; /* bits of one half */
    while (bits < 32 && (count - 1) >> (2 * bits) != 0)
        bits++;
    const uint32_t mask = (uint32_t)(((uint64_t)1 << bits) - 1);

    uint32_t key[2], round_key[FEISTEL_ROUNDS];
    key_of(seed, purpose, key);
    for (uint32_t block = 0; block < FEISTEL_ROUNDS / 4; block++) {
        const uint32_t counter[4] = { block, 0, (uint32_t)step, PERMUTE_ACTOR };
        fast__philox(counter, key, round_key + 4 * block);
    }

    do {
        uint32_t left = (uint32_t)(i >> bits) & mask, right = (uint32_t)i & mask;
        for (int round = 0; round < FEISTEL_ROUNDS; round++) {
            const uint32_t mixed = (uint32_t)feistel_mix(right, round_key[round]);
            const uint32_t next = left ^ (mixed & mask);
            left = right;
            right = next;
        }
        i = (uint64_t)left << bits | right;
    } while (i >= count);
    return i;
}
