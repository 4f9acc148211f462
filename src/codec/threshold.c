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
 *
 * A byte or two an element sent. A value that is not finite cannot be sent as tau: then tau itself
 * is sent as NaN, and all that is sent with it. Cost: a pass over x and e, and k bytes written.
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
} threshold_config;

static const fast_option options[] = {
    FAST_OPT_REAL(threshold_config, tau, "0.01", 1e-30, 1e30,
                  "magnitude at which an element is sent, and as which"),
    FAST_OPT_END,
};

/* Every element may be sent: tau, the count, and the gaps with their signs. */
static size_t bound(const void *config, const fast_block *block)
{
    (void)config;
    return fast__sides_bound(block->count, HEAD);
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
} threshold_cursor;

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
    float tau = (float)((const threshold_config *)config)->tau;
    threshold_cursor c = { .at = out + HEAD + sizeof c.count };

    put_all(e->block.count, e->x, e->error, tau, &c);
    FAST_ASSERT(c.count <= e->block.count);
    if (c.bad)
        tau = NAN;
    memcpy(out, &tau, HEAD);
    memcpy(out + HEAD, &c.count, sizeof c.count);
    return (size_t)(c.at - out);
}

/* Each entry is tau with its sign. */
static fast_err pairs(const void *config, const fast_decoding *d, uint32_t *index, float *value,
                      int64_t *count_out)
{
    float tau = 0;

    (void)config;
    if (d->size >= HEAD) /* fewer bytes are refused below */
        memcpy(&tau, d->in, HEAD);
    const float both[2] = { tau, -tau };
    return fast__sides_pairs("threshold", d, HEAD, both, index, value, count_out);
}

const fast_codec fast__codec_threshold = {
    .name = "threshold",
    .summary = "elements that have grown to tau, as their sign (Strom)",
    .options = options,
    .config_size = sizeof(threshold_config),
    .traits = FAST_CODEC_SPARSE | FAST_CODEC_FEEDBACK,
    .bound = bound,
    .encode = encode,
    .pairs = pairs,
};
