/* SPDX-License-Identifier: Apache-2.0 */
/*
 * threshold: elements that have grown to tau are sent as tau (Strom 2015). With v = x + e,
 *
 *     q_i = sign(v_i) tau where |v_i| >= tau, else 0,   e <- v - q
 *
 * An element that changes faster than tau a step falls behind until it slows down; one that hardly
 * changes waits until it has accumulated tau. Without error feedback small gradients are lost for
 * good. The error of sent elements is |v_i| - tau, of the others less than tau.
 *
 *     block   tau (float), k (32 bits), the gaps between indices with the sign as the flag
 *             (select.h)
 *             pack=bits: tau, then 2 bits an element, bit 0 tells whether it is sent, bit 1 the
 *             sign, as in MXNet's gradient compression
 *
 * A byte or two an element sent, or 16 times smaller than floats with pack=bits. A value that is
 * not finite cannot be sent as tau: then tau itself is sent as NaN, and all that is sent with it.
 * Cost: a pass over x and e, and k bytes written.
 */
#include "codec/bits.h"
#include "codec/codec.h"
#include "codec/entries.h"
#include "tensor/clones.h"

#include <math.h>
#include <string.h>

enum { HEAD = sizeof(float), WORD = 32 };

typedef struct threshold_config {
    double tau; /* threshold, and magnitude of the sent elements */
    int pack;   /* 0 a list of entries, 1 bits */
} threshold_config;

static const fast_option options[] = {
    FAST_OPT_REAL(threshold_config, tau, "0.01", 1e-30, 1e30,
                  "magnitude at which an element is sent, and as which"),
    FAST_OPT_CHOICE(threshold_config, pack, "list", "list|bits",
                    "a list of the elements that are sent, or 2 bits for every element"),
    FAST_OPT_END,
};

/* Bytes of n elements of 2 bits. */
static size_t bits_size(int64_t n)
{
    return (size_t)(2 * n + 7) / 8;
}

/* Every element may be sent: tau, the count, and the gaps with their signs. The size of bits does
 * not depend on the values. */
static size_t bound(const void *config, const fast_block *block)
{
    const threshold_config *c = config;

    return c->pack ? HEAD + bits_size(block->count) : fast__sides_bound(block->count, HEAD);
}

static unsigned more(const void *config)
{
    return ((const threshold_config *)config)->pack ? FAST_CODEC_EXACT : 0;
}

/* Subtract the sent values from 32 elements v; return a bit for each that is sent, their signs, and
 * in *bad whether one is not finite. NaN is above all limits. */
static inline __attribute__((always_inline)) uint32_t look(float *v, float tau, uint32_t *signs,
                                                           uint32_t *bad)
{
    uint32_t bits[WORD], sent[WORD];
    uint32_t limit, word = 0, sign = 0, infinite = 0;

    memcpy(&limit, &tau, sizeof limit);
    memcpy(bits, v, sizeof bits);
    for (int j = 0; j < WORD; j++) {
        const uint32_t size = bits[j] & 0x7fffffff;
        const uint32_t above = size >= limit;
        const uint32_t taken = (limit | (bits[j] & 0x80000000)) & (0 - above);
        float q;

        memcpy(&q, &taken, sizeof q);
        v[j] -= q;
        infinite |= size >= 0x7f800000;
        sent[j] = above << j;
        bits[j] = bits[j] >> 31 << j;
    }
    for (int j = 0; j < WORD; j++) {
        word |= sent[j];
        sign |= bits[j];
    }
    *signs = sign;
    *bad |= infinite;
    return word;
}

/* The end of an encoding so far. */
typedef struct threshold_cursor {
    uint8_t *at;    /* next byte */
    uint32_t next;  /* the first index that the next gap can lead to */
    uint32_t count; /* gaps so far */
    uint32_t bad;   /* one of the elements is not finite */
    bool bits;      /* 2 bits an element, instead of gaps */
} threshold_cursor;

/* Move bit j of a word to bit 2 j. */
static inline uint64_t spread(uint32_t word)
{
    uint64_t w = word;

    w = (w | w << 16) & UINT64_C(0x0000ffff0000ffff);
    w = (w | w << 8) & UINT64_C(0x00ff00ff00ff00ff);
    w = (w | w << 4) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    w = (w | w << 2) & UINT64_C(0x3333333333333333);
    return (w | w << 1) & UINT64_C(0x5555555555555555);
}

/* Elements i to i + m, m at most 32; e may be NULL. */
static inline __attribute__((always_inline)) void put(const float *x, float *e, int64_t i,
                                                      int64_t m, float tau, threshold_cursor *c)
{
    float v[WORD] = { 0 };
    uint32_t signs;

    for (int64_t j = 0; j < m; j++)
        v[j] = e ? x[i + j] + e[i + j] : x[i + j];
    uint32_t word = look(v, tau, &signs, &c->bad);
    if (e)
        memcpy(e + i, v, (size_t)m * sizeof *e);
    if (c->bits) {
        const uint64_t both = spread(word) | spread(word & signs) << 1;

        memcpy(c->at, &both, bits_size(m));
        c->at += bits_size(m);
        return;
    }
    c->count += (uint32_t)__builtin_popcount(word);
    for (; word; word &= word - 1) {
        const unsigned j = (unsigned)__builtin_ctz(word);
        const uint32_t gap = (uint32_t)i + j - c->next;

        c->at = fast__varint_put(c->at, (uint64_t)gap << 1 | (signs >> j & 1));
        c->next = (uint32_t)i + j + 1;
    }
}

/* Words of 32 elements, then the rest. Two loops, so that `e` is known in each. */
FAST_CLONES static void put_all(int64_t n, const float *x, float *e, float tau,
                                threshold_cursor *out)
{
    threshold_cursor c = *out;
    int64_t i = 0;

    if (e)
        for (; i + WORD <= n; i += WORD)
            put(x, e, i, WORD, tau, &c);
    else
        for (; i + WORD <= n; i += WORD)
            put(x, NULL, i, WORD, tau, &c);
    if (i < n)
        put(x, e, i, n - i, tau, &c);
    *out = c;
}

/* One pass writes gaps and residual. The count is known at its end and stored in front. */
static size_t encode(const void *config, const fast_encoding *e, uint8_t *out)
{
    const bool bits = ((const threshold_config *)config)->pack != 0;
    float tau = (float)((const threshold_config *)config)->tau;
    threshold_cursor c = { .at = out + HEAD + (bits ? 0 : sizeof c.count), .bits = bits };

    put_all(e->block.count, e->x, e->error, tau, &c);
    FAST_ASSERT(c.count <= e->block.count);
    if (c.bad)
        tau = NAN;
    memcpy(out, &tau, HEAD);
    if (!bits)
        memcpy(out + HEAD, &c.count, sizeof c.count);
    return (size_t)(c.at - out);
}

/* The entries of 2 bits an element. A sign of an element that is not sent, and bits behind the last
 * element, are refused. */
static fast_err bits_pairs(const fast_decoding *d, const float side[2], uint32_t *index,
                           float *value, int64_t *count_out)
{
    const int64_t n = d->block.count;
    fast_bit_reader r = { .at = d->in + HEAD, .end = d->in + d->size };
    int64_t k = 0;
    bool bad = d->size != HEAD + bits_size(n);

    for (int64_t i = 0; i < n && !bad; i++) {
        const uint64_t code = fast__bits_get(&r, 2);

        bad = code == 2;
        if (code & 1) {
            index[k] = (uint32_t)i;
            value[k++] = side[code >> 1];
        }
    }
    if (bad || r.word != 0)
        return fast__fail(FAST_EFORMAT,
                          "codec threshold: %zu bytes are not 2 bits for each of "
                          "%lld elements",
                          d->size, (long long)n);
    *count_out = k;
    return FAST_OK;
}

/* Each entry is tau with its sign. */
static fast_err pairs(const void *config, const fast_decoding *d, uint32_t *index, float *value,
                      int64_t *count_out)
{
    float tau = 0;

    if (d->size >= HEAD) /* fewer bytes are refused below */
        memcpy(&tau, d->in, HEAD);
    const float both[2] = { tau, -tau };
    if (((const threshold_config *)config)->pack)
        return bits_pairs(d, both, index, value, count_out);
    return fast__sides_pairs("threshold", d, HEAD, both, index, value, count_out);
}

const fast_codec fast__codec_threshold = {
    .name = "threshold",
    .summary = "elements that have grown to tau, as their sign (Strom)",
    .options = options,
    .config_size = sizeof(threshold_config),
    .traits = FAST_CODEC_SPARSE | FAST_CODEC_FEEDBACK,
    .more = more,
    .bound = bound,
    .encode = encode,
    .pairs = pairs,
};
