/* SPDX-License-Identifier: Apache-2.0 */
/*
 * huffman: frequent bytes get short codes, a stage without any library, and the last step of deep
 * compression (Han, Mao and Dally 2016). The two rarest nodes are joined until one tree is left; a
 * byte's code has as many bits as its leaf is deep (Huffman 1952). Codes are canonical: of one
 * length they ascend with the byte, and shorter ones come first, so that the lengths are enough to
 * know them. Where a code would have more than 15 bits, all counts are halved, rounded up, and the
 * tree is built again.
 *
 *     1, then the bytes as they are, where coding them does not make them fewer; or
 *     0, size (variable length), 32 bytes with a bit for each byte that occurs, the lengths of
 *     these codes, 4 bits each, filled to a byte; the codes, from their highest bit on
 *
 * A byte costs at most one bit above its entropy; `entropy` costs a fraction of a bit. Cost: a look
 * in a table for each byte, of 64 KiB to decode.
 */
#include "codec/codec.h"
#include "codec/packed_bytes.h"

enum {
    LONGEST = 15, /* bits of a code */
    SLOTS = 1 << LONGEST,
    SYMBOLS = 256,
    MAP = SYMBOLS / 8,
    HEAD_MAX = 1 + FAST_VARINT_MAX + MAP + SYMBOLS / 2,
};

/* The codes, and for the decoder the byte and the length of the code that the next bits begin. */
typedef struct huffman_table {
    uint8_t length[SYMBOLS]; /* bits of each byte's code; 0: it does not occur */
    uint16_t code[SYMBOLS];  /* from its first bit, the lowest here, on */
    uint16_t slot[SLOTS];    /* length << 8 | byte; 0: no code */
} huffman_table;

/* A byte more than the input, which is sent as it is if coding does not pay. */
static size_t bound(const void *config, size_t size)
{
    (void)config;
    return 1 + size;
}

/* The table. */
static size_t scratch(const void *config, size_t size)
{
    (void)config;
    (void)size;
    return sizeof(huffman_table);
}

/* Join the two rarest of `count` nodes, which have no parent yet, to node `count`. */
static void join(int count, uint64_t *weight, int *parent)
{
    int rare[2] = { -1, -1 };

    for (int i = 0; i < count; i++) {
        if (weight[i] == 0 || parent[i] >= 0)
            continue;
        if (rare[0] < 0 || weight[i] < weight[rare[0]]) {
            rare[1] = rare[0];
            rare[0] = i;
        } else if (rare[1] < 0 || weight[i] < weight[rare[1]]) {
            rare[1] = i;
        }
    }
    FAST_ASSERT(rare[0] >= 0 && rare[1] >= 0);
    weight[count] = weight[rare[0]] + weight[rare[1]];
    parent[rare[0]] = parent[rare[1]] = count;
    parent[count] = -1;
}

/* Set the lengths of all codes; return the longest. */
static int find_lengths(const uint64_t *counts, uint8_t *length)
{
    uint64_t weight[2 * SYMBOLS];
    int parent[2 * SYMBOLS], used = 0, longest = 0, nodes = SYMBOLS;

    for (int s = 0; s < SYMBOLS; s++) {
        weight[s] = counts[s];
        parent[s] = -1;
        used += counts[s] > 0;
    }
    for (int left = used; left > 1; left--)
        join(nodes++, weight, parent);
    for (int s = 0; s < SYMBOLS; s++) {
        int bits = counts[s] > 0 && used == 1 ? 1 : 0;

        for (int i = s; counts[s] > 0 && parent[i] >= 0; i = parent[i])
            bits++;
        length[s] = (uint8_t)(bits < 255 ? bits : 255);
        longest = bits > longest ? bits : longest;
    }
    return longest;
}

/* Number the codes by length and byte. False if the lengths are not those of one tree: a single
 * byte has the code 0. */
static bool number_codes(huffman_table *t)
{
    uint32_t next = 0;
    int used = 0;

    for (int bits = 1; bits <= LONGEST; bits++) {
        next <<= 1;
        for (int s = 0; s < SYMBOLS; s++) {
            if (t->length[s] != bits)
                continue;
            if (next >> bits != 0)
                return false;
            t->code[s] = 0;
            for (int b = 0; b < bits; b++)
                t->code[s] = (uint16_t)(t->code[s] | (next >> (bits - 1 - b) & 1) << b);
            next++;
            used++;
        }
    }
    return next == SLOTS || (used == 1 && next << 1 == SLOTS);
}

/* Write the size, the map of bytes that occur and their lengths; return the next free byte. */
static uint8_t *put_head(const huffman_table *t, size_t size, uint8_t *at)
{
    fast_bit_writer w;

    *at++ = 0;
    at = fast__varint_put(at, size);
    memset(at, 0, MAP);
    for (int s = 0; s < SYMBOLS; s++)
        if (t->length[s] > 0)
            at[s / 8] = (uint8_t)(at[s / 8] | 1u << s % 8);
    w = (fast_bit_writer){ .at = at + MAP };
    for (int s = 0; s < SYMBOLS; s++)
        if (t->length[s] > 0)
            fast__bits_put(&w, t->length[s], 4);
    return fast__bits_flush(&w);
}

/* Find the codes of the input, of at most LONGEST bits; return the bits that it takes. */
static uint64_t find_codes(const uint8_t *in, size_t size, huffman_table *t)
{
    uint64_t counts[SYMBOLS] = { 0 }, scaled[SYMBOLS], bits = 0;

    for (size_t i = 0; i < size; i++)
        counts[in[i]]++;
    memcpy(scaled, counts, sizeof scaled);
    while (find_lengths(scaled, t->length) > LONGEST)
        for (int s = 0; s < SYMBOLS; s++)
            scaled[s] = (scaled[s] + 1) / 2;
    for (int s = 0; s < SYMBOLS; s++)
        bits += counts[s] * t->length[s];
    const bool numbered = number_codes(t);
    FAST_ASSERT(numbered);
    return bits;
}

/* Code the input if that makes it smaller; else copy it behind a byte of 1. */
static size_t pack(const void *config, const uint8_t *in, size_t size, void *scratch_memory,
                   uint8_t *out)
{
    huffman_table *t = scratch_memory;
    uint8_t head[HEAD_MAX];

    (void)config;
    if (size > 0) {
        const uint64_t bytes = (find_codes(in, size, t) + 7) / 8;
        const size_t head_size = (size_t)(put_head(t, size, head) - head);

        if (head_size + bytes <= size) {
            fast_bit_writer w = { .at = out + head_size };

            memcpy(out, head, head_size);
            for (size_t i = 0; i < size; i++)
                fast__bits_put(&w, t->code[in[i]], t->length[in[i]]);
            return (size_t)(fast__bits_flush(&w) - out);
        }
    }
    return fast__packed_store(in, size, out);
}

/* Read the lengths of a head and fill the decoder's table; false if they are malformed. */
static bool get_table(const uint8_t **at, const uint8_t *end, huffman_table *t)
{
    const uint8_t *map = *at;

    if (end - *at < MAP)
        return false;
    fast_bit_reader r = { .at = *at + MAP, .end = end };
    for (int s = 0; s < SYMBOLS; s++)
        t->length[s] = map[s / 8] >> s % 8 & 1 ? (uint8_t)fast__bits_get(&r, 4) : 0;
    if (r.bad || !number_codes(t))
        return false;
    *at = r.at;
    memset(t->slot, 0, sizeof t->slot);
    for (int s = 0; s < SYMBOLS; s++)
        for (uint32_t i = t->code[s]; t->length[s] > 0 && i < SLOTS; i += 1u << t->length[s])
            t->slot[i] = (uint16_t)(t->length[s] << 8 | s);
    return true;
}

/* Decode `size` bytes; false for bits that are no code, and if the input ends early or is left
 * over. */
static bool get_bytes(const huffman_table *t, const uint8_t *at, const uint8_t *end, uint8_t *out,
                      size_t size)
{
    uint64_t word = 0;
    unsigned count = 0;

    for (size_t i = 0; i < size; i++) {
        for (; count < LONGEST && at < end; count += 8)
            word |= (uint64_t)*at++ << count;
        const uint16_t slot = t->slot[word & (SLOTS - 1)];
        const unsigned bits = slot >> 8;

        if (bits == 0 || bits > count)
            return false;
        out[i] = (uint8_t)slot;
        word >>= bits;
        count -= bits;
    }
    return at == end && count < 8 && word == 0;
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
    return fast__packed_read("huffman", get_all, in, size, scratch_memory, out, room, size_out);
}

const fast_stage fast__stage_huffman = {
    .name = "huffman",
    .summary = "lossless: a code of whole bits for each byte, short for frequent ones",
    .bound = bound,
    .scratch = scratch,
    .pack = pack,
    .unpack = unpack,
};
