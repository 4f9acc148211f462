/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flexpoint: block floating point, integers that share one exponent (Koster et al. 2017). With
 * M = 2^(bits - 1) - 1 and E the least exponent that leaves room for the largest magnitude,
 *
 *     s = 2^E,   max |v_k| <= M s,   q_i = round(v_i / s),   decoded s q_i
 *
 * The error of round=nearest is s / 2 at most, where s < 2 max |v_k| / M; round=random is unbiased.
 * Nothing saturates: the vector is known, and its exponent is measured. A power of two as the scale
 * makes decoding exact. group=0 is a layer's tensor, as in the paper's flex16+5. An element that is
 * not finite is decoded to NaN.
 *
 * exponent_bits = b limits exponents to those of b bits, E = -(2^b - 1) to 0: flex16+5 has b = 5.
 * Elements beyond M saturate then, and steps are 2^-31 at least.
 *
 * exponent=predicted is the paper's Autoflex, for hardware that must know the exponent before it
 * computes: s of a vector comes from the maxima of the up to 16 vectors before it, f, alone.
 *
 *     G = min(max |v_k| / s, M),   f <- f, G s    (G = M: it may have saturated; f <- 2 G s)
 *     s <- 2^ceil(log2(2 (max f + 3 std f + c s)) - (bits - 1)),   c = 100 (8 bits: 100 / 256)
 *
 * Elements beyond M s saturate. Only the first vector other than 0 is measured, as the paper's
 * initialisation ends with an exponent that fits. State: f, its length and the next E.
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
/* Prediction: maxima that are remembered, and a group's state: the maxima, their number, and E. */
enum { HISTORY = 16, LENGTH = HISTORY, NEXT, GROUP_STATE };

typedef struct flex_config {
    int bits;              /* of a number: 0 is 8, 1 is 16 */
    int64_t group;         /* elements that share an exponent; 0: all */
    int round;             /* 0 nearest, 1 random */
    int exponent;          /* 0 measured, 1 predicted */
    int64_t exponent_bits; /* of an exponent; 0: any */
} flex_config;

static const fast_option options[] = {
    FAST_OPT_CHOICE(flex_config, bits, "16", "8|16", "bits of a number, with its sign"),
    FAST_OPT_INT(flex_config, group, "0", 0, GROUP_MAX,
                 "elements that share an exponent; 0: the whole block"),
    FAST_OPT_CHOICE(flex_config, round, "nearest", "nearest|random",
                    "to the nearest number, or stochastic rounding, which is unbiased"),
    FAST_OPT_CHOICE(flex_config, exponent, "measured", "measured|predicted",
                    "of the vector itself, or from the maxima of earlier vectors (Autoflex)"),
    FAST_OPT_INT(flex_config, exponent_bits, "0", 0, 6,
                 "bits of an exponent: steps of 2^-(2^bits - 1) to 1 (flex16+5: 5); 0: any step"),
    FAST_OPT_END,
};

/* Random rounding is unbiased, unless elements saturate. */
static unsigned more(const void *config)
{
    const flex_config *c = config;

    if (c->exponent == 1 || c->exponent_bits > 0)
        return FAST_CODEC_PLAIN;
    return FAST_CODEC_RAW | (c->round == 1 ? FAST_CODEC_UNBIASED : 0);
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

/* The history of each group. */
static int64_t state(const void *config, const fast_block *block)
{
    const flex_config *c = config;
    const int64_t group = group_of(c, block);

    return c->exponent == 1 ? (block->count + group - 1) / group * GROUP_STATE : 0;
}

/* Return the exponent of b bits that is next to E. */
static int limit(const flex_config *c, int exponent)
{
    const int lowest = c->exponent_bits > 0 ? 1 - (1 << c->exponent_bits) : LOWEST;
    const int highest = c->exponent_bits > 0 ? 0 : HIGHEST;

    return exponent < lowest ? lowest : exponent > highest ? highest : exponent;
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

/* Return max f + 3 std f of the remembered maxima. */
static double expected_of(const float *state)
{
    const int n = (int)state[LENGTH];
    double most = 0, sum = 0, square = 0;

    for (int i = 0; i < n; i++) {
        most = fmax(most, (double)state[i]);
        sum += (double)state[i];
    }
    for (int i = 0; i < n; i++)
        square += ((double)state[i] - sum / n) * ((double)state[i] - sum / n);
    return most + 3 * sqrt(square / n);
}

/* Return the exponent of a group, from its history alone once there is one, and predict the next
 * from the maximum that this exponent leaves. Maxima that are not finite are not remembered. */
static int predict(const flex_config *c, float *state, float most, float top)
{
    int length = (int)state[LENGTH];
    const int exponent = limit(c, length > 0 ? (int)state[NEXT] : exponent_of(most, top));
    const double step = ldexp(1, exponent);
    const double whole = fmin(rint((double)most / step), (double)top);
    const bool full = length > 0 && whole >= (double)top;
    int bits, next;

    if (!isfinite(most) || (length == 0 && most == 0))
        return exponent;
    if (full)
        length = 0;
    if (length == HISTORY)
        memmove(state, state + 1, (size_t)--length * sizeof *state);
    state[length] = (float)(whole * step * (full ? 2 : 1));
    state[LENGTH] = (float)(length + 1);
    frexp((double)top, &bits); /* top is 2^bits - 1 */
    const double room = 100 * ldexp(1, bits - 15) * step;
    next = (int)ceil(log2(2 * (expected_of(state) + room))) - bits;
    state[NEXT] = (float)limit(c, next);
    return exponent;
}

/* Measure or predict the exponent of each group, then write it and its integers. */
static size_t encode(const void *config, const fast_encoding *e, uint8_t *out)
{
    const flex_config *c = config;
    const int bytes = 1 + c->bits;
    const int64_t group = group_of(c, &e->block);
    const float top = bytes == 1 ? 127 : 32767;
    uint8_t *at = out;

    for (int64_t i = 0; i < e->block.count; i += group) {
        const int64_t n = e->block.count - i < group ? e->block.count - i : group;
        const float most = fast__vector_max_abs(n, e->x + i);
        const int16_t exponent =
            (int16_t)(c->exponent == 1 ? predict(c, e->state + i / group * GROUP_STATE, most, top)
                                       : limit(c, exponent_of(most, top)));

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
    .traits = FAST_CODEC_LAYERS | FAST_CODEC_EXACT,
    .more = more,
    .bound = bound,
    .state = state,
    .encode = encode,
    .decode = decode,
};
