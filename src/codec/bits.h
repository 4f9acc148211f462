/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * Fields of any width in bytes, the lowest bits first, and whole numbers of variable length
 * (LEB128). Writers have room by the codec's bound; readers never read past the end: missing bits
 * read as 0 and make `bad` true, which is checked once, at the end.
 */
typedef struct fast_bit_writer {
    uint8_t *at;    /* next byte */
    uint64_t word;  /* bits that are not written yet */
    unsigned count; /* bits in `word`: below 8 between calls */
} fast_bit_writer;

typedef struct fast_bit_reader {
    const uint8_t *at;  /* next byte */
    const uint8_t *end; /* behind the last byte */
    uint64_t word;      /* bits that were read ahead */
    unsigned count;     /* bits in `word` */
    bool bad;           /* a read went past the end */
} fast_bit_reader;

/* Write the lowest `width` bits of value, at most 56. */
static inline void fast__bits_put(fast_bit_writer *w, uint64_t value, unsigned width)
{
    w->word |= (value & ((UINT64_C(1) << width) - 1)) << w->count;
    w->count += width;
    while (w->count >= 8) {
        *w->at++ = (uint8_t)w->word;
        w->word >>= 8;
        w->count -= 8;
    }
}

/* Fill the last byte with zeros; returns the next free byte. */
static inline uint8_t *fast__bits_flush(fast_bit_writer *w)
{
    if (w->count > 0)
        *w->at++ = (uint8_t)w->word;
    w->word = 0;
    w->count = 0;
    return w->at;
}

/* Read `width` bits, at most 56. */
static inline uint64_t fast__bits_get(fast_bit_reader *r, unsigned width)
{
    while (r->count < width) {
        if (r->at == r->end) {
            r->bad = true;
            r->count = 0;
            r->word = 0;
            return 0;
        }
        r->word |= (uint64_t)*r->at++ << r->count;
        r->count += 8;
    }
    const uint64_t value = r->word & ((UINT64_C(1) << width) - 1);
    r->word >>= width;
    r->count -= width;
    return value;
}

enum { FAST_VARINT_MAX = 10 };

/* Write a number, 7 bits a byte from the lowest on, bit 7 set in all but the last; return the
 * next free byte. At most FAST_VARINT_MAX bytes. */
static inline uint8_t *fast__varint_put(uint8_t *at, uint64_t value)
{
    while (value >= 0x80) {
        *at++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *at++ = (uint8_t)value;
    return at;
}

/* Read the number at *at and advance it; false if it does not end before `end` or overflows. */
static inline bool fast__varint_get(const uint8_t **at, const uint8_t *end, uint64_t *out)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 64 && *at < end; shift += 7) {
        const uint8_t byte = *(*at)++;

        if (shift == 63 && byte > 1)
            return false;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *out = value;
            return true;
        }
    }
    return false;
}
