/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fixed: fixed point numbers <IL, FL>, with IL whole bits (the sign is one) and FL bits of fraction
 * (Gupta et al. 2015):
 *
 *     q_i = round(2^FL v_i), at most 2^(bits - 1) - 1 either way;   decoded 2^-FL q_i
 *
 * bits = IL + FL is 8 or 16, and FL is `fraction`: one step size for the whole run, unlike int8 and
 * flexpoint, which measure theirs. round=random is stochastic rounding, floor(2^FL v + u), without
 * which the paper could not train in 16 bits: the mean over keys is v, for |v| below 2^(IL - 1). In
 * that range the error of round=nearest is 2^-(FL + 1) at most; beyond it numbers saturate, and the
 * excess goes to the residual of error feedback, if that is on.
 *
 *     block   1 or 2 bytes an element; the lowest number stands for a value that is not finite
 *
 * 4 or 2 times smaller. Cost: one pass.
 */
#include "codec/codec.h"
#include "codec/integers.h"

#include <math.h>

typedef struct fixed_config {
    int bits;         /* of a number: 0 is 8, 1 is 16 */
    int64_t fraction; /* FL; -1: `bits` less 2 */
    int round;        /* 0 random, 1 nearest */
} fixed_config;

static const fast_option options[] = {
    FAST_OPT_CHOICE(fixed_config, bits, "16", "8|16", "bits of a number, with its sign"),
    FAST_OPT_INT(fixed_config, fraction, "-1", -1, 60,
                 "bits of fraction; -1: all but 2, for values from -2 to 2"),
    FAST_OPT_CHOICE(fixed_config, round, "random", "random|nearest",
                    "stochastic rounding, which is unbiased, or to the nearest number"),
    FAST_OPT_END,
};

/* Random rounding is unbiased; 16 bits are precise enough for weights. */
static unsigned more(const void *config)
{
    const fixed_config *c = config;

    return (c->round == 0 ? FAST_CODEC_UNBIASED : 0) | (c->bits == 1 ? FAST_CODEC_RAW : 0);
}

/* Bytes of a number. */
static int bytes_of(const fixed_config *c)
{
    return 1 + c->bits;
}

/* FL, the bits behind the point: as given, or all but the sign and one whole bit. */
static int fraction_of(const fixed_config *c)
{
    return (int)(c->fraction < 0 ? 8 * bytes_of(c) - 2 : c->fraction);
}

/* Every element has the same size. */
static size_t bound(const void *config, const fast_block *block)
{
    return (size_t)(block->count * bytes_of(config));
}

/* Multiply by 2^FL, round and saturate. */
static size_t encode(const void *config, const fast_encoding *e, uint8_t *out)
{
    const fixed_config *c = config;

    fast__integers_put(e->block.count, bytes_of(c), e->x, ldexpf(1, fraction_of(c)), c->round == 0,
                       e->key, 0, out);
    return bound(config, &e->block);
}

/* Multiply by 2^-FL, with the scale folded in. */
static fast_err decode(const void *config, const fast_decoding *d)
{
    const fixed_config *c = config;

    fast__integers_take(d->block.count, bytes_of(c), d->in, d->scale * ldexpf(1, -fraction_of(c)),
                        d->mode, d->y);
    return FAST_OK;
}

const fast_codec fast__codec_fixed = {
    .name = "fixed",
    .summary = "fixed point numbers of 8 or 16 bits, stochastically rounded",
    .options = options,
    .config_size = sizeof(fixed_config),
    .traits = FAST_CODEC_EXACT,
    .more = more,
    .bound = bound,
    .encode = encode,
    .decode = decode,
};
