/* SPDX-License-Identifier: Apache-2.0 */
/*
 * onebit: the sign of each element, and two means to which it is decoded:
 *
 *     q_i = mean of the v_k >= 0 of the group if v_i >= 0, else mean of the v_k < 0
 *
 * A group is a row of the layer's matrix, the weights of one output (Seide et al. 2014 call it a
 * column), or `group` elements; long rows are cut, so that a group stays in the cache between its
 * two passes. Error feedback, v = x + e and e <- v - q, is fused into them: without it 1-bit SGD
 * does not converge.
 *
 * With `beta` a worker's mean of gradients m <- beta m + (1 - beta) x, which starts as the first x,
 * is encoded instead of x: the momentum of 1-bit Adam (Tang et al. 2021), for adam:freeze=N.
 *
 * With `adagrad` x / (eps + sqrt(n)) is encoded instead of x, where n is the sum of x^2 of all
 * vectors so far: AdaGrad before the exchange, as Seide et al. apply it, so that means of a row are
 * those of elements of one size. The update rule is then plain SGD. AdaGrad after the exchange is
 * the rule adagrad.
 *
 * With `warmup` = N vectors up to step N are sent as they are, the warm start of both
 * papers (adam:freeze=N).
 *
 *     block   with `warmup`: a byte, 1 if floats follow instead of groups; then the groups
 *     group   the two means, then signs in words of 32 bits
 *
 * State, each where its option asks for it: n, then m.
 *
 * 1 bit an element and 8 bytes a group: 29 times smaller for rows of 800. Cost: x and e are read
 * and e is written once.
 */
#include "codec/codec.h"
#include "codec/signs.h"
#include "tensor/vector.h"

#include <math.h>
#include <string.h>

enum { GROUP_MAX = 4096, HEAD = 2 * sizeof(float) };

typedef struct onebit_config {
    int64_t group;  /* elements that share two means; 0: a row */
    int64_t warmup; /* N, the last step whose vectors are sent as they are; 0: no such step */
    double beta;    /* decay of the mean of gradients that is encoded; 0: the gradients are */
    bool adagrad;   /* gradients are divided by the root of the sum of their squares */
} onebit_config;

static const fast_option options[] = {
    FAST_OPT_INT(onebit_config, group, "0", 0, GROUP_MAX,
                 "elements that share two means; 0: a row of the layer"),
    FAST_OPT_INT(onebit_config, warmup, "0", 0, 1e12, "first steps, whose vectors go as they are"),
    FAST_OPT_REAL(onebit_config, beta, "0", 0, 0.9999999,
                  "encode a mean of gradients with this decay instead: momentum for adam:freeze "
                  "(1-bit Adam); 0: gradients"),
    FAST_OPT_BOOL(onebit_config, adagrad, "no",
                  "divide gradients by the root of the sum of their squares first (AdaGrad before "
                  "the exchange)"),
    FAST_OPT_END,
};

/* Groups do not reach over the end of a row. */
static int64_t group_of(const onebit_config *c, const fast_block *block)
{
    const int64_t group = c->group ? c->group : block->cols;

    return group < GROUP_MAX ? group : GROUP_MAX;
}

/* Elements of a row, at whose end a group ends; with groups by count the block is one row. */
static int64_t row_of(const onebit_config *c, const fast_block *block)
{
    return c->group ? block->count : block->cols;
}

/* Bytes of a row of n elements. */
static size_t row_size(int64_t n, int64_t group)
{
    const int64_t whole = n / group;
    const int64_t rest = n % group;

    return (size_t)whole * (HEAD + fast__signs_size(group)) +
           (rest ? HEAD + fast__signs_size(rest) : 0);
}

/* Bytes of a block: all of its rows. */
static size_t size_of(const onebit_config *c, const fast_block *block)
{
    const int64_t row = row_of(c, block);

    return (size_t)(block->count / row) * row_size(row, group_of(c, block));
}

/* The size does not depend on the values; with a warm-up it does on the step. */
static size_t bound(const void *config, const fast_block *block)
{
    const onebit_config *c = config;
    const size_t raw = (size_t)block->count * sizeof(float), size = size_of(c, block);

    return c->warmup == 0 ? size : 1 + (raw > size ? raw : size);
}

/* Without a warm-up all encodings have one size. */
static unsigned more(const void *config)
{
    const onebit_config *c = config;

    return (c->warmup == 0 ? FAST_CODEC_EXACT : 0) |
           (c->adagrad || c->beta > 0 ? FAST_CODEC_RULE : 0);
}

/* Write x + e as it is, and leave no loss. */
static size_t encode_raw(const fast_encoding *e, const float *x, uint8_t *out)
{
    const size_t size = (size_t)e->block.count * sizeof(float);

    out[0] = 1;
    memcpy(out + 1, x, size);
    for (int64_t i = 0; e->error && i < e->block.count; i++) {
        const float v = x[i] + e->error[i];

        memcpy(out + 1 + i * (int64_t)sizeof v, &v, sizeof v);
        e->error[i] = 0;
    }
    return 1 + size;
}

/* y = scale d or y += scale d, of floats. */
static void decode_raw(const fast_decoding *d)
{
    for (int64_t i = 0; i < d->block.count; i++) {
        float v;

        memcpy(&v, d->in + 1 + i * (int64_t)sizeof v, sizeof v);
        d->y[i] = (d->mode == FAST_DECODE_ADD ? d->y[i] : 0) + d->scale * v;
    }
}

/* Read the byte of a codec with a warm-up, and check the size of the rest. FAST_EFORMAT. */
static fast_err check_head(const onebit_config *c, const fast_decoding *d)
{
    const size_t raw = (size_t)d->block.count * sizeof(float);

    if (d->size >= 1 && d->in[0] <= 1 && d->size - 1 == (d->in[0] ? raw : size_of(c, &d->block)))
        return FAST_OK;
    return fast__fail(FAST_EFORMAT, "codec onebit: %zu bytes are no encoding of %lld elements",
                      d->size, (long long)d->block.count);
}

/* Write the means of both signs and the signs of a group; return the next free byte. With e, v =
 * x + e is encoded and e becomes the loss. */
static uint8_t *encode_group(int64_t n, const float *x, float *e, uint8_t *out)
{
    fast_signs_sums of;
    float mean[2];

    fast__signs_sum(FAST_SIGNS_ALL, n, x, e, &of);
    /* The sum of the positive elements is half of the sum of all and of all magnitudes. The mean of
     * a sign without elements is not used, but must not hide a value that is not finite. */
    mean[0] = of.negative < n ? (of.size + of.sum) / (float)(2 * (n - of.negative)) : 0;
    mean[1] = of.negative > 0 ? (of.sum - of.size) / (float)(2 * of.negative) : 0;
    memcpy(out, mean, HEAD);
    fast__signs_put(n, e ? e : x, mean, e, e ? x + n : NULL, out + HEAD);
    return out + HEAD + fast__signs_size(n);
}

/* The sum of squares; the mean of gradients, and 1 once it has started. */
static int64_t state(const void *config, const fast_block *block)
{
    const onebit_config *c = config;

    return (c->adagrad ? block->count : 0) + (c->beta > 0 ? block->count + 1 : 0);
}

/* The vector by AdaGrad. */
static size_t scratch(const void *config, const fast_block *block)
{
    return ((const onebit_config *)config)->adagrad ? (size_t)block->count * sizeof(float) : 0;
}

/* Add x to the sum of squares and return x / (eps + root of it), in the scratch. */
static const float *adagrad_of(const fast_encoding *e)
{
    float *squares = e->state, *out = e->scratch;

    for (int64_t i = 0; i < e->block.count; i++) {
        squares[i] += e->x[i] * e->x[i];
        out[i] = e->x[i] / (1e-10f + sqrtf(squares[i]));
    }
    return out;
}

/* Update the mean of gradients by x and return it. */
static const float *mean_of(const onebit_config *c, const fast_encoding *e, const float *x)
{
    float *mean = e->state + (c->adagrad ? e->block.count : 0);

    if (mean[e->block.count] == 0)
        memcpy(mean, x, (size_t)e->block.count * sizeof *mean);
    else
        fast__vector_axpby(e->block.count, (float)(1 - c->beta), x, (float)c->beta, mean);
    mean[e->block.count] = 1;
    return mean;
}

/* Row by row, and in each row group by group. */
static size_t encode(const void *config, const fast_encoding *e, uint8_t *out)
{
    const onebit_config *c = config;
    const float *raw = c->adagrad ? adagrad_of(e) : e->x;
    const float *x = c->beta > 0 ? mean_of(c, e, raw) : raw;
    const int64_t group = group_of(c, &e->block);
    const int64_t row = row_of(c, &e->block);
    uint8_t *at = out;

    if (e->step <= c->warmup && c->warmup > 0)
        return encode_raw(e, raw, out);
    if (c->warmup > 0)
        *at++ = 0;
    for (int64_t r = 0; r < e->block.count; r += row)
        for (int64_t i = r; i < r + row; i += group) {
            const int64_t n = r + row - i < group ? r + row - i : group;

            at = encode_group(n, x + i, e->error ? e->error + i : NULL, at);
        }
    return (size_t)(at - out);
}

/* y = one of two means by the sign's bit, or y += it. */
static fast_err decode(const void *config, const fast_decoding *d)
{
    const onebit_config *c = config;
    const int64_t group = group_of(c, &d->block);
    const int64_t row = row_of(c, &d->block);
    const uint8_t *at = d->in;

    if (c->warmup > 0) {
        FAST_TRY(check_head(c, d));
        if (*at++) {
            decode_raw(d);
            return FAST_OK;
        }
    }
    for (int64_t r = 0; r < d->block.count; r += row)
        for (int64_t i = r; i < r + row; i += group) {
            const int64_t n = r + row - i < group ? r + row - i : group;
            float mean[2];

            memcpy(mean, at, HEAD);
            mean[0] *= d->scale;
            mean[1] *= d->scale;
            fast__signs_take(n, at + HEAD, mean, d->mode == FAST_DECODE_ADD, d->y + i);
            at += HEAD + fast__signs_size(n);
        }
    return FAST_OK;
}

const fast_codec fast__codec_onebit = {
    .name = "onebit",
    .summary = "1 bit an element: its sign, and two means a row (1-bit SGD)",
    .options = options,
    .config_size = sizeof(onebit_config),
    .traits = FAST_CODEC_LAYERS | FAST_CODEC_FEEDBACK,
    .more = more,
    .operations = 6,
    .bound = bound,
    .state = state,
    .scratch = scratch,
    .encode = encode,
    .decode = decode,
};
