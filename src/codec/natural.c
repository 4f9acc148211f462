/* SPDX-License-Identifier: Apache-2.0 */
/*
 * natural: powers of two at random (natural compression, Horvath et al. 2019). With e the exponent
 * of v and 2^e <= |v| < 2^(e + 1),
 *
 *     q = sign(v) 2^(e + b),   P(b = 1) = |v| / 2^e - 1
 *
 * The mean over keys is v, and the variance at most v^2 / 8. round=nearest takes the closer power,
 * with an error of |v| / 3 at most. A float's exponent and sign would be 9 bits; here they are 8:
 *
 *     byte    bit 7 the sign; below it 0 for 0, 1 to 126 for 2^-96 to 2^29, 127 for values
 *             that are not finite. Smaller values become 0, larger ones 2^29: gradients are neither
 *
 * 4 times smaller, without a scale: elements do not depend on each other, and sums of few such
 * numbers stay short. Cost: one pass; the random number is added to the fraction's bits, and the
 * carry is the rounding.
 */
#include "codec/codec.h"
#include "codec/noise.h"
#include "tensor/clones.h"

#include <string.h>

/* A code is a float's biased exponent less SHIFT. */
enum { FRACTION = 23, SHIFT = 127 - 97, LAST = 126, NOT_FINITE = 127 };

typedef struct natural_config {
    int round; /* 0 random, 1 nearest */
} natural_config;

static const fast_option options[] = {
    FAST_OPT_CHOICE(natural_config, round, "random", "random|nearest",
                    "at random, which is unbiased, or to the nearest power of two"),
    FAST_OPT_END,
};

/* Random rounding is unbiased. */
static unsigned more(const void *config)
{
    return ((const natural_config *)config)->round == 0 ? FAST_CODEC_UNBIASED : 0;
}

/* A byte an element. */
static size_t bound(const void *config, const fast_block *block)
{
    (void)config;
    return (size_t)block->count;
}

/* Add the noise, or half of a power, to the fraction's bits: the carry into the exponent is the
 * rounding. Then shift and clamp the exponent to a code. */
FAST_CLONES static void put(int64_t n, const float *x, bool random, uint64_t key, uint8_t *out)
{
    FAST_EACH
    for (int64_t i = 0; i < n; i++) {
        const uint32_t noise = fast__noise(key, (uint32_t)i) >> (32 - FRACTION);
        uint32_t bits;

        memcpy(&bits, x + i, sizeof bits);
        const uint32_t size = bits & 0x7fffffffu;
        const uint32_t up = size + (random ? noise : 1u << (FRACTION - 1));
        int32_t code = (int32_t)(up >> FRACTION) - SHIFT;
        code = code > 0 ? code : 0;
        code = code < LAST ? code : LAST;
        code = size >= 0x7f800000u ? NOT_FINITE : code;
        out[i] = (uint8_t)((uint32_t)code | bits >> 31 << 7);
    }
}

/* Rebuild the float from its sign and exponent, with a fraction of 0. */
FAST_CLONES static void take(int64_t n, const uint8_t *in, float scale, bool add, float *y)
{
    FAST_EACH
    for (int64_t i = 0; i < n; i++) {
        const uint32_t code = in[i] & 0x7fu;
        uint32_t bits = code == 0 ? 0 : (code + SHIFT) << FRACTION;
        float v;

        bits = code == NOT_FINITE ? 0x7fc00000u : bits; /* NaN */
        bits |= (uint32_t)(in[i] >> 7) << 31;
        memcpy(&v, &bits, sizeof v);
        y[i] = add ? y[i] + scale * v : scale * v;
    }
}

/* One pass; elements do not depend on each other. */
static size_t encode(const void *config, const fast_encoding *e, uint8_t *out)
{
    put(e->block.count, e->x, ((const natural_config *)config)->round == 0, e->key, out);
    return (size_t)e->block.count;
}

/* One pass; every byte is a valid code. */
static fast_err decode(const void *config, const fast_decoding *d)
{
    (void)config;
    take(d->block.count, d->in, d->scale, d->mode == FAST_DECODE_ADD, d->y);
    return FAST_OK;
}

const fast_codec fast__codec_natural = {
    .name = "natural",
    .summary = "powers of two at random: sign and exponent in 8 bits",
    .options = options,
    .config_size = sizeof(natural_config),
    .traits = FAST_CODEC_EXACT,
    .more = more,
    .bound = bound,
    .encode = encode,
    .decode = decode,
};
