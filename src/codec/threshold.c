/* SPDX-License-Identifier: Apache-2.0 */
/*
 * threshold: what has grown to tau is sent as tau (Strom 2015). With v = x + e,
 *
 *     q_i = sign(v_i) tau where |v_i| >= tau, else 0,   e <- v - q
 *
 * An element that changes faster than tau a step falls behind until it slows down; one that hardly
 * changes waits until it has gathered tau. Without error feedback small gradients are lost for
 * good. Sent elements are off by |v_i| - tau, the others by less than tau.
 *
 *     block   tau (float), k (32 bits), the gaps between indices with the sign as the flag
 *             (select.h)
 *
 * A byte or two an element sent. A value that is not finite cannot be sent as tau: then tau itself
 * is sent as NaN, and all that is sent with it. Cost: a pass over x and e, and k bytes written.
 */
#include "codec/bits.h"
#include "codec/codecs.h"
#include "codec/entries.h"
#include "tensor/clones.h"

#include <math.h>
#include <string.h>

enum { HEAD = sizeof(float), WORD = 32 };

typedef struct threshold_config {
    double tau; /* what is sent */
} threshold_config;

static const fast_option options[] = {
    FAST_OPT_REAL(threshold_config, tau, "0.01", 1e-30, 1e30,
                  "the size at which an element is sent, and as which"),
    FAST_OPT_END,
};

static size_t bound(const void *config, const fast_block *block)
{
    (void)config;
    return fast__sides_bound(block->count, HEAD);
}

/* Indices and flags of the decoding. */
static size_t scratch(const void *config, const fast_block *block)
{
    (void)config;
    return (size_t)block->count * (sizeof(uint32_t) + 1);
}

/* Of 32 elements v, which are followed by what stays of them: a bit for each that is sent; their
 * signs; whether one is not finite. NaN is above all limits. */
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

/* All elements; e may be NULL. Where the gaps end; their number, and whether one is not finite. */
FAST_CLONES static uint8_t *put(int64_t n, const float *x, float *e, float tau, uint8_t *at,
                                uint32_t *count_out, uint32_t *bad_out)
{
    uint32_t next = 0, count = 0, bad = 0, signs;

    for (int64_t i = 0; i < n; i += WORD) {
        const size_t size = (size_t)(n - i < WORD ? n - i : WORD) * sizeof(float);
        float v[WORD] = { 0 };
        float owed[WORD] = { 0 };

        memcpy(v, x + i, size);
        if (e)
            memcpy(owed, e + i, size);
        for (int j = 0; j < WORD; j++)
            v[j] += owed[j];
        uint32_t word = look(v, tau, &signs, &bad);
        if (e)
            memcpy(e + i, v, size);
        count += (uint32_t)__builtin_popcount(word);
        for (; word; word &= word - 1) {
            const unsigned j = (unsigned)__builtin_ctz(word);
            const uint32_t gap = (uint32_t)i + j - next;

            at = fast__varint_put(at, (uint64_t)gap << 1 | (signs >> j & 1));
            next = (uint32_t)i + j + 1;
        }
    }
    *count_out = count;
    *bad_out = bad;
    return at;
}

static size_t encode(const void *config, const fast_encoding *e, uint8_t *out)
{
    float tau = (float)((const threshold_config *)config)->tau;
    uint32_t count;
    uint32_t bad;
    const uint8_t *end =
        put(e->block.count, e->x, e->error, tau, out + HEAD + sizeof count, &count, &bad);

    FAST_ASSERT(count <= e->block.count);
    if (bad)
        tau = NAN;
    memcpy(out, &tau, HEAD);
    memcpy(out + HEAD, &count, sizeof count);
    return (size_t)(end - out);
}

/* What positive and negative elements come back as; 0 where the bytes are too few, which are
 * refused later. */
static void values_of(const fast_decoding *d, float value[2])
{
    float tau = 0;

    if (d->size >= HEAD)
        memcpy(&tau, d->in, HEAD);
    value[0] = tau;
    value[1] = -tau;
}

static fast_err pairs(const void *config, const fast_decoding *d, uint32_t *index, float *value,
                      int64_t *count_out)
{
    uint8_t *flags = d->scratch;
    float both[2];
    int64_t k;

    (void)config;
    values_of(d, both);
    FAST_TRY(fast__sides_get("threshold", d, HEAD, index, flags, &k));
    for (int64_t i = 0; i < k; i++)
        value[i] = both[flags[i]];
    *count_out = k;
    return FAST_OK;
}

static fast_err decode(const void *config, const fast_decoding *d)
{
    float both[2];

    (void)config;
    values_of(d, both);
    return fast__sides_decode("threshold", d, HEAD, both);
}

const fast_codec fast__codec_threshold = {
    .name = "threshold",
    .summary = "sign and tau of what has grown to tau (Strom)",
    .options = options,
    .config_size = sizeof(threshold_config),
    .traits = FAST_CODEC_SPARSE | FAST_CODEC_FEEDS,
    .bound = bound,
    .scratch = scratch,
    .encode = encode,
    .decode = decode,
    .pairs = pairs,
};
