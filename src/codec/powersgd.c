/* SPDX-License-Identifier: Apache-2.0 */
/*
 * powersgd: a layer's gradient as a product of low rank (Vogels et al. 2019). With M = x + e the
 * matrix [n x m] of a block, r its rank, and Q [m x r] that of the previous step,
 *
 *     P = orthonormal(M Q),   Q <- M^T P,   decoded P Q^T,   e <- M - P Q^T
 *
 * one step of power iteration on M M^T, which the warm start continues from step to step: P tends
 * to the largest singular vectors. Both products are linear in M, so workers can average them: a
 * round for M Q, then one for M^T P, each a small dense vector, after which all hold the same P
 * and the mean Q. A worker's residual is M - P (M^T P)^T, with its own Q: its mean over workers is
 * the error of the decoded mean. Transfers without rounds send P and Q.
 *
 *     block   P, then Q, vector by vector: r (n + m) floats
 *             blocks of one row, or that would not become smaller: n m floats
 *
 * The first Q, and columns of it that vanish, are drawn from a fixed key: they must be the same on
 * all workers. n m / (r (n + m)) times smaller. Cost: 6 r n m operations to encode, 2 r n m to
 * decode. A value that is not finite makes P, and with it the block, NaN.
 */
#include "codec/codec.h"
#include "codec/lowrank.h"
#include "tensor/vector.h"

#include <math.h>
#include <string.h>

enum { RANK_MAX = 64 };

typedef struct power_config {
    int64_t rank; /* r */
    bool warm;    /* start from the previous Q; false: draw a new one */
} power_config;

static const fast_option options[] = {
    FAST_OPT_INT(power_config, rank, "2", 1, RANK_MAX, "vectors for each side of a layer"),
    FAST_OPT_BOOL(power_config, warm, "yes",
                  "start from the previous step's vectors, not from random ones"),
    FAST_OPT_END,
};

/* Return the rank of a block; 0: it is sent as floats. */
static int64_t rank_of(const power_config *c, const fast_block *b)
{
    int64_t rank = c->rank < b->rows ? c->rank : b->rows;

    rank = rank < b->cols ? rank : b->cols;
    return b->rows > 1 && rank * (b->rows + b->cols) < b->count ? rank : 0;
}

/* Floats of P and Q, or of the block itself where that is less. */
static int64_t factors(const power_config *c, const fast_block *b)
{
    const int64_t rank = rank_of(c, b);

    return rank ? rank * (b->rows + b->cols) : b->count;
}

/* The size does not depend on the values. */
static size_t bound(const void *config, const fast_block *block)
{
    return (size_t)factors(config, block) * sizeof(float);
}

/* P and Q, and this worker's Q of the second round. */
static int64_t state(const void *config, const fast_block *block)
{
    const int64_t rank = rank_of(config, block);

    return rank * (block->rows + 2 * block->cols);
}

/* Aligned copy of the received factors. */
static size_t scratch(const void *config, const fast_block *block)
{
    return bound(config, block);
}

/* Prepare Q: the previous one, with new columns for those that are 0 or not finite. */
static void start(const power_config *c, const fast_block *b, float *q)
{
    const int64_t rank = rank_of(c, b);

    for (int64_t k = 0; k < rank; k++) {
        float *column = q + k * b->cols;
        const double size = fast__vector_norm2(b->cols, column);

        if (!c->warm || !(size > 0) || !isfinite(size))
            fast__lowrank_random(b->cols, UINT64_C(0x243f6a8885a308d3) * (uint64_t)(k + 1), column);
    }
    fast__lowrank_orthonormal(b->cols, rank, q); /* a scale that neither grows nor vanishes */
}

/* Return the matrix to encode: x, or x + e, which e becomes. */
static const float *take_in(const fast_encoding *e)
{
    if (!e->error)
        return e->x;
    fast__vector_add(e->block.count, e->x, e->error);
    return e->error;
}

/* One step of power iteration: P = M Q, orthonormal; Q = M' P. With feedback e = M - P Q'. */
static size_t encode(const void *config, const fast_encoding *e, uint8_t *out)
{
    const power_config *c = config;
    const fast_block *b = &e->block;
    const int64_t rank = rank_of(c, b);
    const float *m = take_in(e);
    float *p = e->state;
    float *q = p + rank * b->rows;

    if (rank == 0) {
        memcpy(out, m, (size_t)b->count * sizeof *m);
        if (e->error)
            memset(e->error, 0, (size_t)b->count * sizeof *m);
        return bound(config, b);
    }
    start(c, b, q);
    fast__lowrank_left(b, rank, m, q, p);
    fast__lowrank_orthonormal(b->rows, rank, p);
    fast__lowrank_right(b, rank, m, p, q);
    memcpy(out, p, bound(config, b));
    if (e->error)
        fast__lowrank_product(b, rank, -1, p, q, FAST_DECODE_ADD, e->error);
    return bound(config, b);
}

/* y = scale P Q', or y += it. */
static fast_err decode(const void *config, const fast_decoding *d)
{
    const power_config *c = config;
    const fast_block *b = &d->block;
    const int64_t rank = rank_of(c, b);
    float *p = d->scratch;

    memcpy(p, d->in, d->size);
    if (rank > 0)
        fast__lowrank_product(b, rank, d->scale, p, p + rank * b->rows, d->mode, d->y);
    else if (d->mode == FAST_DECODE_ADD)
        fast__vector_axpy(b->count, d->scale, p, d->y);
    else
        for (int64_t i = 0; i < b->count; i++)
            d->y[i] = d->scale * p[i];
    return FAST_OK;
}

/* Blocks without a rank are sent in the last round, after which y is complete. */
static int64_t round_size(const void *config, const fast_block *block, int round)
{
    const int64_t rank = rank_of(config, block);

    if (rank == 0)
        return round == 1 ? block->count : 0;
    return rank * (round == 0 ? block->rows : block->cols);
}

/* Round 0 sends P = M Q, round 1 Q = M' P with the mean P of all workers made orthonormal. The
 * second is remembered: the residual is of this worker's own product. */
static void round_send(const void *config, const fast_encoding *e, int round, float *dense)
{
    const power_config *c = config;
    const fast_block *b = &e->block;
    const int64_t rank = rank_of(c, b);
    float *p = e->state;
    float *q = p + rank * b->rows;

    /* The first round leaves M in the residual, if there is one; else M is x in both rounds. */
    const float *m = round == 0 ? take_in(e) : e->error ? e->error : e->x;
    if (rank == 0) {
        if (round == 1)
            memcpy(dense, m, (size_t)b->count * sizeof *m);
        return;
    }
    if (round == 0) {
        start(c, b, q);
        fast__lowrank_left(b, rank, m, q, dense);
        return;
    }
    fast__lowrank_right(b, rank, m, p, dense);
    memcpy(q + rank * b->cols, dense, (size_t)(rank * b->cols) * sizeof *q);
}

/* Round 0 makes the mean P orthonormal; round 1 has y = P Q' of the means, and e = M - P Q of
 * this worker. */
static void round_take(const void *config, const fast_encoding *e, int round, const float *dense,
                       float *y)
{
    const power_config *c = config;
    const fast_block *b = &e->block;
    const int64_t rank = rank_of(c, b);
    float *p = e->state;
    float *q = p + rank * b->rows;

    FAST_ASSERT((round == 1) == (y != NULL));
    if (round == 0) {
        memcpy(p, dense, (size_t)(rank * b->rows) * sizeof *p);
        fast__lowrank_orthonormal(b->rows, rank, p);
        return;
    }
    if (rank == 0) {
        memcpy(y, dense, (size_t)b->count * sizeof *y);
        if (e->error)
            memset(e->error, 0, (size_t)b->count * sizeof *y);
        return;
    }
    if (e->error)
        fast__lowrank_product(b, rank, -1, p, q + rank * b->cols, FAST_DECODE_ADD, e->error);
    memcpy(q, dense, (size_t)(rank * b->cols) * sizeof *q);
    fast__lowrank_product(b, rank, 1, p, q, FAST_DECODE_SET, y);
}

static const fast_codec_rounds rounds = {
    .count = 2,
    .size = round_size,
    .send = round_send,
    .take = round_take,
};

const fast_codec fast__codec_powersgd = {
    .name = "powersgd",
    .summary = "a product of low rank for each layer, by power iteration; sums in two rounds",
    .options = options,
    .config_size = sizeof(power_config),
    .traits = FAST_CODEC_LAYERS | FAST_CODEC_FEEDBACK | FAST_CODEC_EXACT,
    .bound = bound,
    .state = state,
    .scratch = scratch,
    .encode = encode,
    .decode = decode,
    .rounds = &rounds,
};
