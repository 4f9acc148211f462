/* SPDX-License-Identifier: Apache-2.0 */
/*
 * XXH64 (Collet, "xxHash fast digest algorithm", specification 0.1.1), written from its text.
 *
 * Four 64-bit accumulators each take every fourth word of 8 bytes, so that their multiplications
 * run side by side; the rest of fewer than 32 bytes is mixed in one by one, and a finisher spreads
 * every bit over the result. Words are little-endian on every host, so hashes can be compared
 * between machines. Cost: about 10 GB/s.
 */
#include "base/hash.h"

#include "base/err.h"

#include <string.h>

/* The five primes of the specification. */
static const uint64_t P1 = 0x9E3779B185EBCA87u;
static const uint64_t P2 = 0xC2B2AE3D27D4EB4Fu;
static const uint64_t P3 = 0x165667B19E3779F9u;
static const uint64_t P4 = 0x85EBCA77C2B2AE63u;
static const uint64_t P5 = 0x27D4EB2F165667C5u;

static uint64_t rotate(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

/* Little-endian words, on every host. */
static uint64_t read64(const unsigned char *p)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    x = __builtin_bswap64(x);
#endif
    return x;
}

static uint32_t read32(const unsigned char *p)
{
    uint32_t x;
    memcpy(&x, p, sizeof x);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    x = __builtin_bswap32(x);
#endif
    return x;
}

/* One round of an accumulator. */
static uint64_t round_of(uint64_t sum, uint64_t word)
{
    return rotate(sum + word * P2, 31) * P1;
}

/* Mix one accumulator into the result. */
static uint64_t merge(uint64_t hash, uint64_t sum)
{
    return (hash ^ round_of(0, sum)) * P1 + P4;
}

/* Add the whole stripes of a block to the sums; returns the first byte after them. */
static const unsigned char *stripes(const unsigned char *p, const unsigned char *end,
                                    uint64_t sums[4])
{
    uint64_t a = sums[0], b = sums[1], c = sums[2], d = sums[3];
    while (end - p >= FAST_HASH_STRIPE) {
        a = round_of(a, read64(p));
        b = round_of(b, read64(p + 8));
        c = round_of(c, read64(p + 16));
        d = round_of(d, read64(p + 24));
        p += FAST_HASH_STRIPE;
    }
    sums[0] = a, sums[1] = b, sums[2] = c, sums[3] = d;
    return p;
}

/* One number of the four sums. */
static uint64_t merge_all(const uint64_t s[4])
{
    const uint64_t hash = rotate(s[0], 1) + rotate(s[1], 7) + rotate(s[2], 12) + rotate(s[3], 18);
    return merge(merge(merge(merge(hash, s[0]), s[1]), s[2]), s[3]);
}

void fast__hash_begin(fast_hash_sum *hash, uint64_t seed)
{
    *hash = (fast_hash_sum){ .sums = { seed + P1 + P2, seed + P2, seed, seed - P1 }, .seed = seed };
}

void fast__hash_add(fast_hash_sum *hash, const void *bytes, size_t size)
{
    const unsigned char *p = bytes;

    FAST_ASSERT(size % FAST_HASH_STRIPE == 0);
    if (size > 0)
        (void)stripes(p, p + size, hash->sums);
    hash->size += size;
}

uint64_t fast__hash_end(fast_hash_sum *sum, const void *bytes, size_t size)
{
    if (size == 0)
        bytes = ""; /* NULL is allowed for an empty block */
    const unsigned char *p = bytes, *end = p + size;
    p = stripes(p, end, sum->sums);
    sum->size += size;
    uint64_t hash = sum->size >= FAST_HASH_STRIPE ? merge_all(sum->sums) : sum->seed + P5;
    hash += sum->size;

    for (; end - p >= 8; p += 8)
        hash = rotate(hash ^ round_of(0, read64(p)), 27) * P1 + P4;
    if (end - p >= 4) {
        hash = rotate(hash ^ read32(p) * P1, 23) * P2 + P3;
        p += 4;
    }
    for (; p < end; p++)
        hash = rotate(hash ^ *p * P5, 11) * P1;

    hash = (hash ^ hash >> 33) * P2;
    hash = (hash ^ hash >> 29) * P3;
    return hash ^ hash >> 32;
}

uint64_t fast__hash(const void *bytes, size_t size, uint64_t seed)
{
    fast_hash_sum hash;

    fast__hash_begin(&hash, seed);
    return fast__hash_end(&hash, bytes, size);
}
