/* SPDX-License-Identifier: Apache-2.0 */
/*
 * entropy: bytes that are frequent become short, a stage without any library. It is a range coder
 * of Duda's asymmetric numeral systems (2014; the interleaving is Giesen's, 2014). With f_s the
 * frequency of byte s out of 2^12, c_s the sum of those before it, and a number x as the state,
 *
 *     encode s   x <- (x / f_s) 2^12 + x mod f_s + c_s
 *     decode     s from t = x mod 2^12: c_s <= t < c_s + f_s;   x <- f_s (x / 2^12) + t - c_s
 *
 * A byte so costs log2(2^12 / f_s) bits. x stays in [2^16, 2^32): before, or after, 16 bits of it
 * are written, or read. Four states alternate, so that their chains of operations overlap; the
 * last byte is encoded first, because the decoder undoes the encoder.
 *
 *     1, then the bytes as they are, where coding them does not make them fewer; or
 *     0, size (variable length), 32 bytes with a bit for each byte that occurs, f_s - 1 of each
 *     (variable length), 4 states of 32 bits, words of 16 bits
 *
 * At most 50 bytes and what the 12 bits round away above the entropy of order 0. Cost: a division
 * a byte to encode, a look in a table of 4 KiB to decode.
 */
#include "codec/codec.h"
#include "codec/packed_bytes.h"

enum {
    BITS = 12,
    TOTAL = 1 << BITS,
    SYMBOLS = 256,
    STATES = 4,
    MAP = SYMBOLS / 8,
    HEAD_MAX = 1 + FAST_VARINT_MAX + MAP + 2 * SYMBOLS + STATES * sizeof(uint32_t),
    LOW = 1 << 16, /* of a state */
};

/* Frequencies, their sums, and for the decoder the byte of each slot. */
typedef struct entropy_table {
    uint32_t f[SYMBOLS];
    uint32_t c[SYMBOLS];
    uint8_t symbol[TOTAL];
} entropy_table;

/* A byte more than the input, which is sent as it is if coding does not pay. */
static size_t bound(const void *config, size_t size)
{
    (void)config;
    return 1 + size;
}

/* The table; the words, from the end to the start; and the head, until it is known to pay. */
static size_t scratch(const void *config, size_t size)
{
    (void)config;
    return sizeof(entropy_table) + size + HEAD_MAX + 2 * STATES;
}

/* Frequencies out of TOTAL for bytes that occur, each at least 1. The rest of the rounding is
 * added to, or subtracted from, the most frequent ones. */
static void frequencies(const uint8_t *in, size_t size, entropy_table *t)
{
    uint64_t counts[SYMBOLS] = { 0 };
    int64_t left = TOTAL;

    FAST_ASSERT(size > 0);
    for (size_t i = 0; i < size; i++)
        counts[in[i]]++;
    for (int s = 0; s < SYMBOLS; s++) {
        const uint64_t f = (uint64_t)((double)counts[s] / (double)size * TOTAL + 0.5);

        t->f[s] = counts[s] == 0 ? 0 : f < 1 ? 1 : (uint32_t)f;
        left -= t->f[s];
    }
    while (left != 0) {
        int best = 0;

        for (int s = 1; s < SYMBOLS; s++)
            if (t->f[s] > t->f[best])
                best = s;
        /* At most half of it is subtracted at once: others may then be larger. */
        const int64_t half = (int64_t)t->f[best] / 2;
        const int64_t step = left > 0 ? left : -left < half ? left : -half;
        t->f[best] = (uint32_t)((int64_t)t->f[best] + step);
        left -= step;
    }
    for (uint32_t s = 0, sum = 0; s < SYMBOLS; sum += t->f[s++])
        t->c[s] = sum;
}

/* Write the size, the map of bytes that occur and their frequencies; return the next free byte. */
static uint8_t *put_head(const entropy_table *t, size_t size, uint8_t *at)
{
    uint8_t *map;

    *at++ = 0;
    at = fast__varint_put(at, size);
    map = at;
    memset(map, 0, MAP);
    at += MAP;
    for (int s = 0; s < SYMBOLS; s++)
        if (t->f[s] > 0) {
            map[s / 8] = (uint8_t)(map[s / 8] | 1u << s % 8);
            at = fast__varint_put(at, t->f[s] - 1);
        }
    return at;
}

/* Write words from `end` down to `begin`; return where they start, or NULL if they do not fit. */
static uint8_t *put_words(const entropy_table *t, const uint8_t *in, size_t size,
                          uint32_t x[STATES], uint8_t *begin, uint8_t *end)
{
    for (size_t i = size; i-- > 0;) {
        const uint32_t f = t->f[in[i]];
        uint32_t state = x[i % STATES];

        if (state >= (uint64_t)f << (32 - BITS)) {
            const uint16_t word = (uint16_t)state;

            if (end - begin < (ptrdiff_t)sizeof word)
                return NULL;
            end -= sizeof word;
            memcpy(end, &word, sizeof word);
            state >>= 16;
        }
        x[i % STATES] = ((state / f) << BITS) + state % f + t->c[in[i]];
    }
    return end;
}

/* Code the input if that makes it smaller; else copy it behind a byte of 1. */
static size_t pack(const void *config, const uint8_t *in, size_t size, void *scratch_memory,
                   uint8_t *out)
{
    entropy_table *t = scratch_memory;
    uint8_t *head = (uint8_t *)(t + 1);
    uint32_t x[STATES] = { LOW, LOW, LOW, LOW };

    (void)config;
    if (size > 0) {
        frequencies(in, size, t);
        uint8_t *const words = put_head(t, size, head) + sizeof x;
        uint8_t *const end = head + HEAD_MAX + size;
        const uint8_t *first = put_words(t, in, size, x, words, end);
        const size_t head_size = (size_t)(words - head);

        if (first && head_size + (size_t)(end - first) <= size) {
            memcpy(words - sizeof x, x, sizeof x);
            memcpy(out, head, head_size);
            memcpy(out + head_size, first, (size_t)(end - first));
            return head_size + (size_t)(end - first);
        }
    }
    return fast__packed_store(in, size, out);
}

/* Read the table of a head; false if it is malformed. */
static bool get_table(const uint8_t **at, const uint8_t *end, entropy_table *t)
{
    const uint8_t *map = *at;
    uint32_t sum = 0;

    if (end - *at < MAP)
        return false;
    *at += MAP;
    for (int s = 0; s < SYMBOLS; s++) {
        uint64_t less = 0;

        t->c[s] = sum;
        t->f[s] = 0;
        if (!(map[s / 8] >> s % 8 & 1))
            continue;
        if (!fast__varint_get(at, end, &less) || less >= TOTAL - sum)
            return false;
        t->f[s] = (uint32_t)less + 1;
        memset(t->symbol + sum, s, t->f[s]);
        sum += t->f[s];
    }
    return sum == TOTAL;
}

/* Decode a byte from a state, which reads a word when it is low; false at the end of input. */
static inline bool step(const entropy_table *t, uint32_t *x, const uint8_t **at, const uint8_t *end,
                        uint8_t *out)
{
    const uint32_t slot = *x & (TOTAL - 1);
    const uint8_t s = t->symbol[slot];
    uint32_t state = t->f[s] * (*x >> BITS) + slot - t->c[s];

    if (state < LOW) {
        uint16_t word;

        if (end - *at < (ptrdiff_t)sizeof word)
            return false;
        memcpy(&word, *at, sizeof word);
        *at += sizeof word;
        state = state << 16 | word;
    }
    *x = state;
    *out = s;
    return true;
}

/* Decode `size` bytes by four alternating states; false if the input ends early or is left over. */
static bool get_bytes(const entropy_table *t, const uint8_t *at, const uint8_t *end, uint8_t *out,
                      size_t size)
{
    uint32_t x[STATES];
    size_t i = 0;

    if (end - at < (ptrdiff_t)sizeof x)
        return false;
    memcpy(x, at, sizeof x);
    at += sizeof x;
    for (; i + STATES <= size; i += STATES)
        for (int j = 0; j < STATES; j++)
            if (!step(t, &x[j], &at, end, out + i + j))
                return false;
    for (; i < size; i++)
        if (!step(t, &x[i % STATES], &at, end, out + i))
            return false;
    /* The encoder started with these: changed bytes seldom end so. */
    return at == end && x[0] == LOW && x[1] == LOW && x[2] == LOW && x[3] == LOW;
}

/* The table, then the code. */
static bool get_all(const uint8_t *at, const uint8_t *end, void *scratch_memory, uint8_t *out,
                    size_t count)
{
    return get_table(&at, end, scratch_memory) && get_bytes(scratch_memory, at, end, out, count);
}

/* Undo pack(). */
static fast_err unpack(const void *config, const uint8_t *in, size_t size, void *scratch_memory,
                       uint8_t *out, size_t room, size_t *size_out)
{
    (void)config;
    return fast__packed_read("entropy", get_all, in, size, scratch_memory, out, room, size_out);
}

const fast_stage fast__stage_entropy = {
    .name = "entropy",
    .summary = "lossless: frequent bytes become short",
    .bound = bound,
    .scratch = scratch,
    .pack = pack,
    .unpack = unpack,
};
