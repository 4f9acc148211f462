/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fp16 and bf16: floats of half the size, the nearest one, ties to even.
 *
 *     fp16   1 + 5 + 10 bits: relative error 2^-11 from 6.1e-5 to 65504, which overflow to
 *            infinity; absolute error 2^-25 below
 *     bf16   1 + 8 + 7 bits: relative error 2^-8 over the whole range of floats
 *
 * 2 bytes an element, precise enough for weights as well as for gradients. Mixed precision training
 * (Micikevicius et al. 2018) scales losses for fp16; gradients here are those of float32 training
 * and of moderate size, so none is.
 */
#include "codec/codec.h"
#include "tensor/vector.h"

enum { HALF = 2, PIECE = 4096 };

/* Both formats have 2 bytes an element, always. */
static size_t bound(const void *config, const fast_block *block)
{
    (void)config;
    return (size_t)block->count * HALF;
}

/* Convert the whole block at once; the result is rounded to the nearest, ties to even. */
static size_t encode(fast_dtype to, const fast_encoding *e, uint8_t *out)
{
    fast__vector_convert(e->block.count, FAST_F32, e->x, to, out, 1);
    return (size_t)e->block.count * HALF;
}

/* Decode in pieces that stay in the cache between the conversion and the sum. */
static fast_err decode(fast_dtype from, const fast_decoding *d)
{
    float piece[PIECE];

    for (int64_t i = 0; i < d->block.count; i += PIECE) {
        const int64_t n = d->block.count - i < PIECE ? d->block.count - i : PIECE;
        const bool add = d->mode == FAST_DECODE_ADD;

        fast__vector_convert(n, from, d->in + i * HALF, FAST_F32, add ? piece : d->y + i, 1);
        if (add)
            fast__vector_axpy(n, d->scale, piece, d->y + i);
        else if (d->scale != 1)
            fast__vector_scale(n, d->scale, d->y + i);
    }
    return FAST_OK;
}

/* Encode to IEEE half precision. */
static size_t encode_fp16(const void *config, const fast_encoding *e, uint8_t *out)
{
    (void)config;
    return encode(FAST_F16, e, out);
}

/* Decode IEEE half precision. */
static fast_err decode_fp16(const void *config, const fast_decoding *d)
{
    (void)config;
    return decode(FAST_F16, d);
}

/* Encode to the upper halves of floats. */
static size_t encode_bf16(const void *config, const fast_encoding *e, uint8_t *out)
{
    (void)config;
    return encode(FAST_BF16, e, out);
}

/* Decode the upper halves of floats. */
static fast_err decode_bf16(const void *config, const fast_decoding *d)
{
    (void)config;
    return decode(FAST_BF16, d);
}

const fast_codec fast__codec_fp16 = {
    .name = "fp16",
    .summary = "half precision: 5 bits of exponent, 10 of fraction",
    .traits = FAST_CODEC_RAW | FAST_CODEC_EXACT,
    .operations = 2,
    .bound = bound,
    .encode = encode_fp16,
    .decode = decode_fp16,
};

const fast_codec fast__codec_bf16 = {
    .name = "bf16",
    .summary = "the upper half of a float: 8 bits of exponent, 7 of fraction",
    .traits = FAST_CODEC_RAW | FAST_CODEC_EXACT,
    .operations = 2,
    .bound = bound,
    .encode = encode_bf16,
    .decode = decode_bf16,
};
