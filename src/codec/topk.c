/* SPDX-License-Identifier: Apache-2.0 */
/*
 * topk: the k largest elements by magnitude, k = ratio n, at least one; the others are 0 (Aji and
 * Heafield 2017; Stich et al. 2018). It is a contraction, |v - C(v)|^2 <= (1 - k/n) |v|^2, so with
 * error feedback, which is fused into the selection, it converges at the rate of SGD.
 *
 *     block   k (variable length), the gaps between indices (select.h), then k values, float or
 *             (value=fp16) half
 *
 * At 1% a gap is a byte or two, and 5.3 bytes a value sent: 75 times smaller. Values that are not
 * finite are the largest of all, and are sent. Cost: about a pass over x and e, and k writes.
 */
#include "codec/bits.h"
#include "codec/codecs.h"
#include "codec/select.h"
#include "tensor/vector.h"

typedef struct topk_config {
    double ratio; /* part of the elements that is sent */
    int value;    /* 0 fp32, 1 fp16 */
} topk_config;

static const fast_option options[] = {
    FAST_OPT_REAL(topk_config, ratio, "0.01", 1e-9, 1, "part of the elements that is sent"),
    FAST_OPT_CHOICE(topk_config, value, "fp32", "fp32|fp16", "what values are sent as"),
    FAST_OPT_END,
};

static int64_t count_of(const topk_config *c, int64_t n)
{
    const int64_t k = (int64_t)(c->ratio * (double)n + 0.5);

    return k < 1 ? 1 : k > n ? n : k;
}

static size_t value_size(const topk_config *c)
{
    return c->value == 0 ? sizeof(float) : sizeof(uint16_t);
}

static size_t bound(const void *config, const fast_block *block)
{
    const topk_config *c = config;
    const int64_t k = count_of(c, block->count);

    return FAST_VARINT_MAX + fast__gaps_bound(k) + (size_t)k * value_size(c);
}

/* The selection's, and a copy of x where there is no residual to select in. */
static size_t scratch(const void *config, const fast_block *block)
{
    (void)config;
    return fast__select_scratch(block->count) + (size_t)block->count * sizeof(float);
}

static size_t encode(const void *config, const fast_encoding *e, uint8_t *out)
{
    const topk_config *c = config;
    const int64_t n = e->block.count;
    const int64_t k = count_of(c, n);
    float *v = e->error;

    if (!v) {
        v = (float *)(void *)((char *)e->scratch + fast__select_scratch(n));
        memcpy(v, e->x, (size_t)n * sizeof *v);
    }
    const uint32_t *index = fast__select_top(n, k, e->key, e->error ? e->x : NULL, v, e->scratch);
    uint8_t *at = fast__varint_put(out, (uint64_t)k);
    at += fast__gaps_put(k, index, NULL, at);
    for (int64_t i = 0; i < k; i++, at += value_size(c)) {
        float *value = &v[index[i]];

        if (c->value == 0) {
            memcpy(at, value, sizeof *value);
            *value = 0;
        } else {
            float back;

            fast__vector_convert(1, FAST_F32, value, FAST_F16, at, 1);
            fast__vector_convert(1, FAST_F16, at, FAST_F32, &back, 1);
            *value -= back;
        }
    }
    return (size_t)(at - out);
}

static fast_err pairs(const void *config, const fast_decoding *d, uint32_t *index, float *value,
                      int64_t *count_out)
{
    const topk_config *c = config;
    const uint8_t *at = d->in;
    const uint8_t *const end = d->in + d->size;
    uint64_t k;

    if (!fast__varint_get(&at, end, &k) || k > (uint64_t)d->block.count ||
        !fast__gaps_get(&at, end, d->block.count, (int64_t)k, index, NULL) ||
        (size_t)(end - at) != (size_t)k * value_size(c))
        return fast__fail(FAST_EFORMAT, "topk: %zu bytes are no entries of %lld elements", d->size,
                          (long long)d->block.count);
    if (c->value == 0)
        memcpy(value, at, (size_t)k * sizeof *value);
    else
        fast__vector_convert((int64_t)k, FAST_F16, at, FAST_F32, value, 1);
    *count_out = (int64_t)k;
    return FAST_OK;
}

static fast_err decode(const void *config, const fast_decoding *d)
{
    uint32_t *index = d->scratch;
    float *value = (float *)(void *)(index + d->block.count);
    int64_t k;

    FAST_TRY(pairs(config, d, index, value, &k));
    if (d->mode == FAST_DECODE_SET)
        memset(d->y, 0, (size_t)d->block.count * sizeof *d->y);
    for (int64_t i = 0; i < k; i++)
        d->y[index[i]] += d->scale * value[i];
    return FAST_OK;
}

const fast_codec fast__codec_topk = {
    .name = "topk",
    .summary = "the largest elements alone",
    .options = options,
    .config_size = sizeof(topk_config),
    .traits = FAST_CODEC_SPARSE | FAST_CODEC_FEEDS,
    .bound = bound,
    .scratch = scratch,
    .encode = encode,
    .decode = decode,
    .pairs = pairs,
};
