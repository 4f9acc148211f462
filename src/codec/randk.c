/* SPDX-License-Identifier: Apache-2.0 */
/*
 * randk: random elements (Wangni et al. 2018; Stich et al. 2018). The block is cut into k
 * runs of n / k elements, k = ratio n, some longer by one where that does not divide, and one of
 * each run is drawn. The receiver draws the same from the key, so no index travels:
 *
 *     block   the key (8 bytes), then k floats
 *
 * unbiased=yes: a value is sent times the length of its run, n / k, so the mean over keys is x and
 * the variance (n / k - 1) |x|^2: the step must be small. unbiased=no: exact values, and
 * the residual of error feedback has the others; |v - C(v)|^2 is (1 - k / n) |v|^2 in the mean.
 *
 * Drawing one of each run, and not any k, gives sorted and evenly spread indices. A block with a
 * value that is not finite is sent with a NaN. Cost: a pass over x (and e) and k reads.
 */
#include "codec/codec.h"
#include "codec/entries.h"
#include "codec/noise.h"
#include "tensor/vector.h"

#include <math.h>
#include <string.h>

enum { HEAD = sizeof(uint64_t) };

typedef struct randk_config {
    double ratio;  /* fraction of the elements that is sent */
    bool unbiased; /* values times n / k, no error feedback */
} randk_config;

static const fast_option options[] = {
    FAST_OPT_REAL(randk_config, ratio, "0.01", 1e-9, 1, "fraction of the elements that is sent"),
    FAST_OPT_BOOL(randk_config, unbiased, "no",
                  "values times n / k, which is unbiased, instead of error feedback"),
    FAST_OPT_END,
};

/* The traits depend on how values are sent: all of them, scaled, or exact. */
static unsigned more(const void *config)
{
    const randk_config *c = config;

    if (c->ratio >= 1) /* every element is sent */
        return FAST_CODEC_LOSSLESS | FAST_CODEC_RAW;
    return c->unbiased ? FAST_CODEC_UNBIASED : 0;
}

/* The key, then k floats: indices are drawn, not sent. */
static size_t bound(const void *config, const fast_block *block)
{
    return HEAD + (size_t)fast__entries_count(((const randk_config *)config)->ratio, block->count) *
                      sizeof(float);
}

/* Indices of the encoding. */
static size_t scratch(const void *config, const fast_block *block)
{
    (void)config;
    return fast__entries_scratch(block->count);
}

/* One index of each of k runs of n elements. n is below 2^31, so products fit. */
static void draw(int64_t n, int64_t k, uint64_t key, uint32_t *index)
{
    FAST_ASSERT(k >= 1 && k <= n);
    for (int64_t i = 0; i < k; i++) {
        const uint64_t begin = (uint64_t)(i * n / k);
        const uint64_t length = (uint64_t)((i + 1) * n / k) - begin;

        index[i] = (uint32_t)(begin + (fast__noise(key, (uint32_t)i) * length >> 32));
    }
}

/* Length of run i: the inverse of the probability of each of its elements. */
static int64_t length_of(int64_t n, int64_t k, int64_t i)
{
    return (i + 1) * n / k - i * n / k;
}

/* Send the drawn elements; with feedback clear them in the residual. A NaN shows a block that is
 * not finite even if no such element was drawn. */
static size_t encode(const void *config, const fast_encoding *e, uint8_t *out)
{
    const randk_config *c = config;
    const int64_t n = e->block.count;
    const int64_t k = fast__entries_count(c->ratio, n);
    const float *v = e->error ? e->error : e->x;
    uint32_t *index = e->scratch;

    FAST_ASSERT(!(e->error && c->unbiased));
    if (e->error)
        fast__vector_add(n, e->x, e->error);
    draw(n, k, e->key, index);
    memcpy(out, &e->key, HEAD);
    for (int64_t i = 0; i < k; i++) {
        float value = v[index[i]];

        if (c->unbiased)
            value *= (float)length_of(n, k, i);
        if (e->error)
            e->error[index[i]] = 0;
        memcpy(out + HEAD + (size_t)i * sizeof value, &value, sizeof value);
    }
    if (!fast__vector_finite(n, e->x)) {
        const float seen = NAN;

        memcpy(out + HEAD, &seen, sizeof seen);
    }
    return HEAD + (size_t)k * sizeof(float);
}

/* Draw the indices again from the key. */
static fast_err pairs(const void *config, const fast_decoding *d, uint32_t *index, float *value,
                      int64_t *count_out)
{
    const int64_t k = fast__entries_count(((const randk_config *)config)->ratio, d->block.count);
    uint64_t key;

    FAST_ASSERT(d->size == HEAD + (size_t)k * sizeof *value);
    memcpy(&key, d->in, HEAD);
    draw(d->block.count, k, key, index);
    memcpy(value, d->in + HEAD, (size_t)k * sizeof *value);
    *count_out = k;
    return FAST_OK;
}

const fast_codec fast__codec_randk = {
    .name = "randk",
    .summary = "random elements, whose indices the receiver draws too",
    .options = options,
    .config_size = sizeof(randk_config),
    .traits = FAST_CODEC_SPARSE | FAST_CODEC_FEEDBACK | FAST_CODEC_EXACT,
    .more = more,
    .bound = bound,
    .scratch = scratch,
    .encode = encode,
    .pairs = pairs,
};
