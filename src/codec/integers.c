/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Integers and levels, at the speed of memory. A piece is rounded to words of 32 bits, which
 * stay in the cache, and those are narrowed to bytes: two simple loops that compilers turn into
 * vector code, where one that does both is not.
 */
#include "codec/integers.h"

#include "codec/noise.h"
#include "tensor/clones.h"

#include <math.h>
#include <string.h>

enum { PIECE = 1024 };

/* 1.5 * 2^23: adding and subtracting it rounds to the nearest integer, ties to even. */
#define MAGIC 12582912.0f

/* The comparisons are such that NaN passes as `top`; it is replaced by the caller. */
static inline __attribute__((always_inline)) float saturate(float v, float top)
{
    v = v < top ? v : top;
    return v > -top ? v : -top;
}

/* By the exponent's bits: a comparison would stop the loop from becoming vector code. */
static inline __attribute__((always_inline)) bool is_finite(float v)
{
    uint32_t bits;

    memcpy(&bits, &v, sizeof bits);
    return (bits & 0x7f800000u) != 0x7f800000u;
}

/* q = round(x factor) within +-top; the lowest integer for values that are not finite. */
FAST_CLONES static void round_nearest(int64_t n, const float *x, float factor, float top,
                                      int32_t *q)
{
    FAST_EACH
    for (int64_t i = 0; i < n; i++) {
        const float shifted = saturate(x[i] * factor, top) + MAGIC;
        const int32_t whole = (int32_t)(shifted - MAGIC);

        q[i] = is_finite(x[i]) ? whole : -(int32_t)top - 1;
    }
}

/* q = floor(x factor + u) within +-top; the lowest integer for values that are not finite. */
FAST_CLONES static void round_random(int64_t n, const float *x, float factor, float top,
                                     uint64_t key, uint32_t first, int32_t *q)
{
    FAST_EACH
    for (int64_t i = 0; i < n; i++) {
        const float u = fast__noise_uniform(key, first + (uint32_t)i);
        const float v = saturate(saturate(x[i] * factor, top) + u, top);
        const int32_t whole = (int32_t)v;
        const int32_t down = (float)whole > v; /* truncation is not floor below 0 */
        const int32_t mask = is_finite(x[i]) ? -1 : 0;

        /* By bits, not by a condition: a compiler would branch around all of the above. */
        q[i] = ((whole - down) & mask) | (~mask & (-(int32_t)top - 1));
    }
}

/* Store the lowest 1 or 2 bytes of each integer. */
FAST_CLONES static void narrow(int64_t n, int bytes, const int32_t *q, uint8_t *out)
{
    if (bytes == 1) {
        FAST_EACH
        for (int64_t i = 0; i < n; i++)
            out[i] = (uint8_t)(q[i] & 0xff);
        return;
    }
    FAST_EACH
    for (int64_t i = 0; i < n; i++) {
        const uint16_t low = (uint16_t)(q[i] & 0xffff);

        memcpy(out + 2 * i, &low, sizeof low);
    }
}

void fast__integers_put(int64_t n, int bytes, const float *x, float factor, bool random,
                        uint64_t key, uint32_t first, uint8_t *out)
{
    const float top = bytes == 1 ? 127 : 32767;
    int32_t q[PIECE];

    FAST_ASSERT(bytes == 1 || bytes == 2);
    for (int64_t i = 0; i < n; i += PIECE) {
        const int64_t m = n - i < PIECE ? n - i : PIECE;

        if (random)
            round_random(m, x + i, factor, top, key, first + (uint32_t)i, q);
        else
            round_nearest(m, x + i, factor, top, q);
        narrow(m, bytes, q, out + i * bytes);
    }
}

/* y = step q, or y += it, for integers of 1 byte; the lowest one is NaN. */
FAST_CLONES static void take_bytes(int64_t n, const uint8_t *in, float step, bool add, float *y)
{
    FAST_EACH
    for (int64_t i = 0; i < n; i++) {
        const int32_t q = (int32_t)(in[i] ^ 0x80u) - 0x80;
        const float v = q == -128 ? NAN : step * (float)q;

        y[i] = add ? y[i] + v : v;
    }
}

/* y = step q, or y += it, for integers of 2 bytes at any alignment; the lowest one is NaN. */
FAST_CLONES static void take_pairs(int64_t n, const uint8_t *in, float step, bool add, float *y)
{
    FAST_EACH
    for (int64_t i = 0; i < n; i++) {
        int16_t q;

        memcpy(&q, in + 2 * i, sizeof q);
        const float v = q == INT16_MIN ? NAN : step * (float)q;
        y[i] = add ? y[i] + v : v;
    }
}

void fast__integers_take(int64_t n, int bytes, const uint8_t *in, float step, fast_decode_mode mode,
                         float *y)
{
    FAST_ASSERT(bytes == 1 || bytes == 2);
    if (bytes == 1)
        take_bytes(n, in, step, mode == FAST_DECODE_ADD, y);
    else
        take_pairs(n, in, step, mode == FAST_DECODE_ADD, y);
}

size_t fast__levels_size(int64_t n, int bits)
{
    const int64_t in_word = 32 / bits;

    return (size_t)((n + in_word - 1) / in_word) * sizeof(uint32_t);
}

/* q = floor((x - low) factor + u), at most `top`; x is at least `low`. */
FAST_CLONES static void round_levels(int64_t n, const float *x, float low, float factor, float top,
                                     uint64_t key, uint32_t first, uint32_t *q)
{
    FAST_EACH
    for (int64_t i = 0; i < n; i++) {
        const float u = fast__noise_uniform(key, first + (uint32_t)i);
        const float v = (x[i] - low) * factor + u;

        q[i] = (uint32_t)(int32_t)(v < top ? v : top);
    }
}

/* Words of levels; `bits` is a constant where this is inlined, so that shifts are too. */
static inline __attribute__((always_inline)) void pack(int64_t n, int bits, const uint32_t *q,
                                                       uint8_t *out)
{
    const int in_word = 32 / bits;
    int64_t i = 0;

    for (; i + in_word <= n; i += in_word, out += sizeof(uint32_t)) {
        uint32_t word = 0;

        for (int j = 0; j < in_word; j++)
            word |= q[i + j] << bits * j;
        memcpy(out, &word, sizeof word);
    }
    if (i < n) {
        uint32_t word = 0;

        for (int j = 0; i + j < n; j++)
            word |= q[i + j] << bits * j;
        memcpy(out, &word, sizeof word);
    }
}

/* Choose the loop whose shifts are constants. */
FAST_CLONES static void pack_levels(int64_t n, int bits, const uint32_t *q, uint8_t *out)
{
    switch (bits) {
    case 1:
        pack(n, 1, q, out);
        break;
    case 2:
        pack(n, 2, q, out);
        break;
    case 4:
        pack(n, 4, q, out);
        break;
    default:
        pack(n, 8, q, out);
    }
}

void fast__levels_put(int64_t n, int bits, const float *x, float low, float factor, uint64_t key,
                      uint32_t first, uint8_t *out)
{
    const float top = (float)((1 << bits) - 1);
    uint32_t q[PIECE];

    FAST_ASSERT(bits == 1 || bits == 2 || bits == 4 || bits == 8);
    for (int64_t i = 0; i < n; i += PIECE) { /* a piece is whole words */
        const int64_t m = n - i < PIECE ? n - i : PIECE;

        round_levels(m, x + i, low, factor, top, key, first + (uint32_t)i, q);
        pack_levels(m, bits, q, out);
        out += fast__levels_size(m, bits);
    }
}

/* y = low + step level, or y += it, word by word; `bits` is a constant where this is inlined. */
static inline __attribute__((always_inline)) void unpack(int64_t n, int bits, const uint8_t *in,
                                                         float low, float step, bool add, float *y)
{
    const int in_word = 32 / bits;
    const uint32_t mask = (1u << bits) - 1;

    for (int64_t i = 0; i < n; i += in_word, in += sizeof(uint32_t)) {
        const int64_t m = n - i < in_word ? n - i : in_word;
        uint32_t word;

        memcpy(&word, in, sizeof word);
        FAST_EACH
        for (int64_t j = 0; j < m; j++) {
            const float v = low + step * (float)(int32_t)(word >> bits * j & mask);

            y[i + j] = add ? y[i + j] + v : v;
        }
    }
}

/* Choose the loop whose shifts are constants. */
FAST_CLONES static void take_levels(int64_t n, int bits, const uint8_t *in, float low, float step,
                                    bool add, float *y)
{
    switch (bits) {
    case 1:
        unpack(n, 1, in, low, step, add, y);
        break;
    case 2:
        unpack(n, 2, in, low, step, add, y);
        break;
    case 4:
        unpack(n, 4, in, low, step, add, y);
        break;
    default:
        unpack(n, 8, in, low, step, add, y);
    }
}

void fast__levels_take(int64_t n, int bits, const uint8_t *in, float low, float step,
                       fast_decode_mode mode, float *y)
{
    FAST_ASSERT(bits == 1 || bits == 2 || bits == 4 || bits == 8);
    take_levels(n, bits, in, low, step, mode == FAST_DECODE_ADD, y);
}
