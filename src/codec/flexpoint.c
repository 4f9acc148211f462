/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flexpoint: block floating point, integers that share one exponent (Koster et al. 2017). With
 * M = 2^(bits - 1) - 1 and E the least exponent that leaves room for the largest magnitude,
 *
 *     s = 2^E,   max |v_k| <= M s,   q_i = round(v_i / s),   decoded s q_i
 *
 * The error of round=nearest is s / 2 at most, where s < 2 max |v_k| / M; round=random is unbiased.
 * Nothing saturates: the paper predicts exponents from those of earlier steps, since hardware must
 * know them before it computes; here the vector is known, and its exponent is measured. A power of
 * two as the scale makes decoding exact. group=0 is a layer's tensor, as in the paper's flex16+5.
 * An element that is not finite is decoded to NaN.
 *
 *     group   E in 2 bytes, low byte first; then 1 or 2 bytes an element
 *
 * 2 or 4 times smaller. Cost: a pass for the largest magnitude and one to round.
 */
#include "codec/codec.h"
#include "codec/integers.h"
#include "tensor/vector.h"

#include <math.h>
#include <string.h>

/* Exponents of steps that floats can multiply and divide by. */
enum { HEAD = 2, LOWEST = -120, HIGHEST = 124, GROUP_MAX = 1 << 30 };

typedef struct flex_config {
    int bits;      /* of a number: 0 is 8, 1 is 16 */
    int64_t group; /* elements that share an exponent; 0: all */
    int round;     /* 0 nearest, 1 random */
} flex_config;

static const fast_option options[] = {
    FAST_OPT_CHOICE(flex_config, bits, "16", "8|16", "bits of a number, with its sign"),
    FAST_OPT_INT(flex_config, group, "0", 0, GROUP_MAX,
                 "elements that share an exponent; 0: the whole block"),
    FAST_OPT_CHOICE(flex_config, round, "nearest", "nearest|random",
                    "to the nearest number, or stochastic rounding, which is unbiased"),
    FAST_OPT_END,
};

/* Random rounding is unbiased. */
static unsigned more(const void *config)
{
    return ((const flex_config *)config)->round == 1 ? FAST_CODEC_UNBIASED : 0;
}

/* Elements that share an exponent; 0 in the options is the whole block. */
static int64_t group_of(const flex_config *c, const fast_block *block)
{
    return c->group > 0 && c->group < block->count ? c->group : block->count;
}

/* An exponent for each group, then the integers. */
static size_t bound(const void *config, const fast_block *block)
{
    const flex_config *c = config;
    const int64_t group = group_of(c, block);

    return (size_t)(block->count * (1 + c->bits) + (block->count + group - 1) / group * HEAD);
}

/* The least exponent of a step with which `most` is at most `top` steps. */
static int exponent_of(float most, float top)
{
    int exponent;

    if (!isfinite(most) || most == 0)
        return 0;
    frexpf(most / top, &exponent); /* most / top is below 2^exponent, and at least half of it */
    if (exponent - 1 >= LOWEST && most <= top * ldexpf(1, exponent - 1))
        exponent--;
    return exponent < LOWEST ? LOWEST : exponent;
}

/* Measure each group, then write its exponent and its integers. */
static size_t encode(const void *config, const fast_encoding *e, uint8_t *out)
{
    const flex_config *c = config;
    const int bytes = 1 + c->bits;
    const int64_t group = group_of(c, &e->block);
    const float top = bytes == 1 ? 127 : 32767;
    uint8_t *at = out;

    for (int64_t i = 0; i < e->block.count; i += group) {
        const int64_t n = e->block.count - i < group ? e->block.count - i : group;
        const int16_t exponent = (int16_t)exponent_of(fast__vector_max_abs(n, e->x + i), top);

        memcpy(at, &exponent, HEAD);
        fast__integers_put(n, bytes, e->x + i, ldexpf(1, -exponent), c->round == 1, e->key,
                           (uint32_t)i, at + HEAD);
        at += HEAD + n * bytes;
    }
    return (size_t)(at - out);
}

/* Multiply the integers of each group by 2^E. FAST_EFORMAT for an exponent that no group has. */
static fast_err decode(const void *config, const fast_decoding *d)
{
    const flex_config *c = config;
    const int bytes = 1 + c->bits;
    const int64_t group = group_of(c, &d->block);
    const uint8_t *at = d->in;

    for (int64_t i = 0; i < d->block.count; i += group) {
        const int64_t n = d->block.count - i < group ? d->block.count - i : group;
        int16_t exponent;

        memcpy(&exponent, at, HEAD);
        if (exponent < LOWEST || exponent > HIGHEST)
            return fast__fail(FAST_EFORMAT, "codec flexpoint: %d is not an exponent", exponent);
        fast__integers_take(n, bytes, at + HEAD, d->scale * ldexpf(1, exponent), d->mode, d->y + i);
        at += HEAD + n * bytes;
    }
    return FAST_OK;
}

const fast_codec fast__codec_flexpoint = {
    .name = "flexpoint",
    .summary = "integers of 8 or 16 bits, one exponent for each layer or group",
    .options = options,
    .config_size = sizeof(flex_config),
    .traits = FAST_CODEC_RAW | FAST_CODEC_LAYERS | FAST_CODEC_EXACT,
    .more = more,
    .bound = bound,
    .encode = encode,
    .decode = decode,
};
