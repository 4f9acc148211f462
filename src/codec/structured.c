/* SPDX-License-Identifier: Apache-2.0 */
/*
 * structured: structured updates (Konecny et al. 2016): the update lies in a random subspace, and
 * only its coordinates there are sent.
 *
 *     kind=mask      elements i with noise(key, i) < ratio: their values; the others are 0
 *     kind=lowrank   M ~ A B for the matrix [n x m] of a layer, A [n x r] from the key, with
 *                    orthonormal columns; B = A^T M, the best there is for that A, is sent;
 *                    r = ratio n, at least 1
 *
 * The paper trains inside that space: with M = A B the gradient of B is A^T G, so that a step of
 * gradient descent on B moves M by a multiple of A A^T G, and a step on the elements of a mask by
 * one of the masked gradient. Both are projections of the gradient, project(), which senders apply
 * before their update rule (federated:subspace); then nothing is lost. An update from elsewhere is
 * projected when it is encoded, and error feedback adds the rest to later ones. Unlike randk the
 * mask sends no count, and every element is drawn independently. Blocks of one row have no low
 * rank: they are masked.
 *
 *     block   a byte, 1 where some element is not finite (all are NaN then); the key (8 bytes); the
 *             sampled values, or B, vector by vector
 *
 * 1 / ratio times smaller. Cost: two passes for the mask; 2 ratio n operations an element for the
 * low rank, as often again for the feedback.
 */
#include "codec/codec.h"
#include "codec/lowrank.h"
#include "codec/noise.h"
#include "tensor/vector.h"

#include <math.h>
#include <string.h>

enum { HEAD = 9, RANK_MAX = 256 };

typedef struct structured_config {
    int kind;     /* 0 mask, 1 lowrank */
    double ratio; /* fraction of the elements, or of the rank */
} structured_config;

static const fast_option options[] = {
    FAST_OPT_CHOICE(structured_config, kind, "mask", "mask|lowrank",
                    "random elements, or a product with a random matrix"),
    FAST_OPT_REAL(structured_config, ratio, "0.1", 0.0001, 1, "fraction that is sent"),
    FAST_OPT_END,
};

/* A product of matrices needs a layer's shape. */
static unsigned more(const void *config)
{
    return ((const structured_config *)config)->kind == 1 ? FAST_CODEC_LAYERS : 0;
}

/* 0: a mask. */
static int64_t rank_of(const structured_config *c, const fast_block *b)
{
    const int64_t rank = (int64_t)(c->ratio * (double)b->rows + 0.5);

    if (c->kind == 0 || b->rows == 1)
        return 0;
    return rank < 1 ? 1 : rank < RANK_MAX ? rank : RANK_MAX;
}

/* The head, then B, or every element of a mask that lets all pass. */
static size_t bound(const void *config, const fast_block *block)
{
    const int64_t rank = rank_of(config, block);

    return HEAD + (size_t)(rank ? rank * block->cols : block->count) * sizeof(float);
}

/* A and B. */
static size_t scratch(const void *config, const fast_block *block)
{
    return (size_t)(rank_of(config, block) * (block->rows + block->cols)) * sizeof(float);
}

/* A, the left factor: random and orthonormal, equal at sender and receiver. */
static void draw_left(const fast_block *b, int64_t rank, uint64_t key, float *a)
{
    fast__lowrank_random(rank * b->rows, key, a);
    fast__lowrank_orthonormal(b->rows, rank, a);
}

/* Tell whether the mask lets element i pass. */
static bool is_sampled(const structured_config *c, uint64_t key, int64_t i)
{
    return (double)fast__noise(key, (uint32_t)i) < c->ratio * 0x1p32;
}

/* x <- A A^T x, or 0 where the mask lets nothing pass. */
static void project(const void *config, const fast_encoding *e, float *x)
{
    const structured_config *c = config;
    const int64_t rank = rank_of(c, &e->block);

    if (rank > 0) {
        float *a = e->scratch;
        float *b = a + rank * e->block.rows;

        draw_left(&e->block, rank, e->key, a);
        fast__lowrank_right(&e->block, rank, x, a, b);
        fast__lowrank_product(&e->block, rank, 1, a, b, FAST_DECODE_SET, x);
        return;
    }
    for (int64_t i = 0; i < e->block.count; i++)
        x[i] = is_sampled(c, e->key, i) ? x[i] : 0;
}

/* Send B = A' M, or the elements of the mask; a flag alone for a block that is not finite. */
static size_t encode(const void *config, const fast_encoding *e, uint8_t *out)
{
    const structured_config *c = config;
    const int64_t rank = rank_of(c, &e->block);
    uint8_t *at = out + HEAD;

    out[0] = !fast__vector_finite(e->block.count, e->x);
    memcpy(out + 1, &e->key, sizeof e->key);
    if (out[0])
        return HEAD;
    if (rank > 0) {
        float *a = e->scratch;
        float *b = a + rank * e->block.rows;
        const size_t size = (size_t)(rank * e->block.cols) * sizeof *b;

        draw_left(&e->block, rank, e->key, a);
        fast__lowrank_right(&e->block, rank, e->x, a, b);
        memcpy(at, b, size);
        return HEAD + size;
    }
    for (int64_t i = 0; i < e->block.count; i++)
        if (is_sampled(c, e->key, i)) {
            memcpy(at, e->x + i, sizeof *e->x);
            at += sizeof *e->x;
        }
    return (size_t)(at - out);
}

/* y = scale v where the mask lets it pass, 0 elsewhere; or y += it. */
static void take_mask(const structured_config *c, const fast_decoding *d, uint64_t key)
{
    const uint8_t *at = d->in + HEAD;

    for (int64_t i = 0; i < d->block.count; i++) {
        float v = 0;

        if (is_sampled(c, key, i)) {
            memcpy(&v, at, sizeof v);
            at += sizeof v;
        }
        d->y[i] = d->mode == FAST_DECODE_ADD ? d->y[i] + d->scale * v : d->scale * v;
    }
}

/* Decode a mask or a product. The size follows from the key, and any other is refused. */
static fast_err decode(const void *config, const fast_decoding *d)
{
    const structured_config *c = config;
    const int64_t rank = rank_of(c, &d->block);
    int64_t count = rank * d->block.cols;
    uint64_t key;

    if (d->size < HEAD || d->in[0] > 1)
        return fast__fail(FAST_EFORMAT, "structured: %zu bytes have no key", d->size);
    memcpy(&key, d->in + 1, sizeof key);
    if (d->in[0] == 1) {
        fast__vector_fill(d->block.count, NAN, d->y);
        return d->size == HEAD ? FAST_OK
                               : fast__fail(FAST_EFORMAT, "structured: values that are not finite");
    }
    for (int64_t i = 0; i < d->block.count && rank == 0; i++)
        count += is_sampled(c, key, i);
    if (d->size != HEAD + (size_t)count * sizeof(float))
        return fast__fail(FAST_EFORMAT, "structured: %zu bytes, not the %zu of %lld elements",
                          d->size, HEAD + (size_t)count * sizeof(float), (long long)d->block.count);
    if (rank == 0) {
        take_mask(c, d, key);
        return FAST_OK;
    }
    float *a = d->scratch;
    float *b = a + rank * d->block.rows;
    draw_left(&d->block, rank, key, a);
    memcpy(b, d->in + HEAD, (size_t)count * sizeof *b);
    fast__lowrank_product(&d->block, rank, d->scale, a, b, d->mode, d->y);
    return FAST_OK;
}

const fast_codec fast__codec_structured = {
    .name = "structured",
    .summary = "random elements, or a product with a random matrix (structured updates)",
    .options = options,
    .config_size = sizeof(structured_config),
    .more = more,
    .bound = bound,
    .scratch = scratch,
    .encode = encode,
    .decode = decode,
    .project = project,
};
