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
 *     block   tau (float), k (variable length), the gaps between indices with the sign as the flag
 *             (select.h)
 *
 * A byte or two an element sent. A value that is not finite cannot be sent as tau: then tau itself
 * is sent as NaN, and all that is sent with it. Cost: a pass over x and e, and k writes.
 */
#include "codec/bits.h"
#include "codec/codecs.h"
#include "codec/entries.h"
#include "codec/select.h"

#include <math.h>

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
    return sizeof(float) + FAST_VARINT_MAX + fast__entries_gaps_bound(block->count, block->count);
}

/* Indices (the selection's, or the decoding's) and flags; and v, where there is no residual. */
static size_t scratch(const void *config, const fast_block *block)
{
    (void)config;
    return (size_t)block->count * (sizeof(uint32_t) + sizeof(float) + 1);
}

/* Flags of the elements at `index`, from which what is sent is taken. True if all are finite. */
static bool take(int64_t k, const uint32_t *index, float tau, float *v, uint8_t *flags)
{
    uint32_t bad = 0;

    for (int64_t i = 0; i < k; i++) {
        float *at = &v[index[i]];
        uint32_t bits;

        memcpy(&bits, at, sizeof bits);
        bad |= (bits & 0x7f800000) == 0x7f800000;
        flags[i] = (uint8_t)(bits >> 31);
        *at -= copysignf(tau, *at);
    }
    return !bad;
}

static size_t encode(const void *config, const fast_encoding *e, uint8_t *out)
{
    const int64_t n = e->block.count;
    uint32_t *index = e->scratch;
    float *copy = (float *)(void *)(index + n);
    uint8_t *flags = (uint8_t *)(copy + n);
    float tau = (float)((const threshold_config *)config)->tau;
    float *v = e->error ? e->error : copy;
    int64_t k;

    if (!e->error)
        memcpy(v, e->x, (size_t)n * sizeof *v);
    fast__select_above(n, tau, e->error ? e->x : NULL, v, index, &k);
    if (!take(k, index, tau, v, flags))
        tau = NAN;
    memcpy(out, &tau, sizeof tau);
    uint8_t *at = fast__varint_put(out + sizeof tau, (uint64_t)k);
    at += fast__gaps_put(k, index, flags, at);
    return (size_t)(at - out);
}

/* The entries' indices and signs, and tau. */
static fast_err read(const fast_decoding *d, uint32_t *index, uint8_t *flags, float *tau_out,
                     int64_t *count_out)
{
    const uint8_t *const end = d->in + d->size;
    const uint8_t *at = d->in + sizeof *tau_out;
    uint64_t k;

    if (d->size < sizeof *tau_out || !fast__varint_get(&at, end, &k) ||
        k > (uint64_t)d->block.count ||
        !fast__gaps_get(&at, end, d->block.count, (int64_t)k, index, flags) || at != end)
        return fast__fail(FAST_EFORMAT, "threshold: %zu bytes are no signs of %lld elements",
                          d->size, (long long)d->block.count);
    memcpy(tau_out, d->in, sizeof *tau_out);
    *count_out = (int64_t)k;
    return FAST_OK;
}

static fast_err pairs(const void *config, const fast_decoding *d, uint32_t *index, float *value,
                      int64_t *count_out)
{
    uint8_t *flags = d->scratch;
    float tau;
    int64_t k;

    (void)config;
    FAST_TRY(read(d, index, flags, &tau, &k));
    for (int64_t i = 0; i < k; i++)
        value[i] = flags[i] ? -tau : tau;
    *count_out = k;
    return FAST_OK;
}

static fast_err decode(const void *config, const fast_decoding *d)
{
    const int64_t n = d->block.count;
    uint32_t *index = d->scratch;
    uint8_t *flags = (uint8_t *)(index + n);
    float tau;
    int64_t k;

    (void)config;
    FAST_TRY(read(d, index, flags, &tau, &k));
    if (d->mode == FAST_DECODE_SET)
        memset(d->y, 0, (size_t)n * sizeof *d->y);
    const float value[2] = { d->scale * tau, -d->scale * tau };
    for (int64_t i = 0; i < k; i++)
        d->y[index[i]] += value[flags[i]];
    return FAST_OK;
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
