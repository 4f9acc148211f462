/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dct: the largest coefficients of the discrete cosine transform of momentum, chunk by chunk:
 *
 *     m <- beta m + g,   q = the `top` largest of DCT(m),   send q,   m <- m - IDCT(q)
 *
 * Momentum stays at the worker and is never summed; its fast components, which are sent, leave it
 * (DeMo: Decoupled momentum optimization, Peng, Quesnelle and Kingma 2024). With beta = 1 it is
 * error feedback in the frequency domain, with all coefficients it sends g. The transform is
 * DCT-II, orthonormal, of chunks of neighbouring elements; the last chunk may be shorter.
 *
 *     chunk   the positions of the coefficients (a byte each), ascending; their values (floats)
 *
 * 5 top / (4 chunk) of the bytes: 6.4 times smaller with 8 of 64. Cost: 2 chunk operations an
 * element for each transform. A chunk with an element that is not finite is decoded to NaN.
 */
#include "codec/codec.h"
#include "tensor/clones.h"
#include "tensor/vector.h"

#include <math.h>
#include <string.h>

enum { CHUNK_MAX = 256, TABLES = 2 /* of a transform: as it is, and transposed */ };

typedef struct dct_config {
    int64_t chunk; /* elements of a transform */
    int64_t top;   /* coefficients that are sent of each */
    double beta;   /* decay of the momentum */
} dct_config;

static const fast_option options[] = {
    FAST_OPT_INT(dct_config, chunk, "64", 2, CHUNK_MAX, "elements of a transform"),
    FAST_OPT_INT(dct_config, top, "8", 1, CHUNK_MAX, "coefficients of a chunk that are sent"),
    FAST_OPT_REAL(dct_config, beta, "0.999", 0, 1, "decay of the momentum that is not sent yet"),
    FAST_OPT_END,
};

/* Return how many coefficients of a chunk of n elements are sent. */
static int64_t sent_of(const dct_config *c, int64_t n)
{
    return c->top < n ? c->top : n;
}

/* Positions and values of all chunks. */
static size_t bound(const void *config, const fast_block *block)
{
    const dct_config *c = config;
    const int64_t whole = block->count / c->chunk, rest = block->count % c->chunk;

    return (size_t)(whole * sent_of(c, c->chunk) + (rest ? sent_of(c, rest) : 0)) *
           (1 + sizeof(float));
}

/* The momentum. */
static int64_t state(const void *config, const fast_block *block)
{
    (void)config;
    return block->count;
}

/* The tables of whole chunks, and of the last one. */
static size_t scratch(const void *config, const fast_block *block)
{
    const int64_t chunk = ((const dct_config *)config)->chunk;

    (void)block;
    return (size_t)(2 * TABLES * chunk * chunk) * sizeof(float);
}

/* Write two tables of DCT-II of n elements, each the other transposed: row k of the first is the
 * k-th basis vector, of length 1. */
static void fill_tables(int64_t n, float *table)
{
    const double pi = 3.14159265358979323846;
    double wave[4 * CHUNK_MAX]; /* one period: the others repeat it */

    FAST_ASSERT(n <= CHUNK_MAX);
    for (int64_t j = 0; j < 4 * n; j++)
        wave[j] = cos(pi * (double)j / (2.0 * (double)n));
    for (int64_t k = 0; k < n; k++) {
        const double length = sqrt((k == 0 ? 1.0 : 2.0) / (double)n);

        for (int64_t i = 0; i < n; i++) {
            const float value = (float)(length * wave[k * (2 * i + 1) % (4 * n)]);

            table[k * n + i] = value;
            table[n * n + i * n + k] = value;
        }
    }
}

/* Fill the tables that a block needs, and return those of whole chunks. */
static float *tables_of(const dct_config *c, int64_t count, void *memory)
{
    float *tables = memory;

    if (count >= c->chunk)
        fill_tables(c->chunk, tables);
    if (count % c->chunk)
        fill_tables(count % c->chunk, tables + TABLES * c->chunk * c->chunk);
    return tables;
}

/* out = the transform of n elements. */
FAST_CLONES static void transform(int64_t n, const float *restrict transposed,
                                  const float *restrict x, float *restrict out)
{
    for (int64_t k = 0; k < n; k++)
        out[k] = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < n; k++)
            out[k] += transposed[i * n + k] * x[i];
}

/* y += a x. */
FAST_CLONES static void add_scaled(int64_t n, float a, const float *restrict x, float *restrict y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += a * x[i];
}

/* True if a should be sent before b: not a number first, so that it shows. */
static bool is_larger(float a, float b)
{
    return isnan(b) ? false : isnan(a) || fabsf(a) > fabsf(b);
}

/* Mark the `top` largest of n coefficients, the first ones among equals. */
static void mark_largest(int64_t n, int64_t top, const float *coefficient, bool *marked)
{
    for (int64_t k = 0; k < n; k++)
        marked[k] = false;
    for (int64_t j = 0; j < top; j++) {
        int64_t best = -1;

        for (int64_t k = 0; k < n; k++)
            if (!marked[k] && (best < 0 || is_larger(coefficient[k], coefficient[best])))
                best = k;
        marked[best] = true;
    }
}

/* Encode one chunk of the momentum and subtract what was sent; return the end of its bytes. */
static uint8_t *encode_chunk(const float *table, int64_t n, int64_t top, float *m, uint8_t *out)
{
    float coefficient[CHUNK_MAX];
    bool marked[CHUNK_MAX];
    uint8_t *values = out + top;

    FAST_ASSERT(n <= CHUNK_MAX && top <= n);
    transform(n, table + n * n, m, coefficient);
    mark_largest(n, top, coefficient, marked);
    for (int64_t k = 0; k < n; k++) {
        if (!marked[k])
            continue;
        *out++ = (uint8_t)k;
        memcpy(values, &coefficient[k], sizeof coefficient[k]);
        values += sizeof coefficient[k];
        add_scaled(n, -coefficient[k], table + k * n, m);
    }
    return values;
}

static size_t encode(const void *config, const fast_encoding *e, uint8_t *out)
{
    const dct_config *c = config;
    const float *tables = tables_of(c, e->block.count, e->scratch);
    uint8_t *at = out;

    FAST_ASSERT(!e->error && e->state);
    fast__vector_axpby(e->block.count, 1, e->x, (float)c->beta, e->state);
    for (int64_t i = 0; i < e->block.count; i += c->chunk) {
        const int64_t n = e->block.count - i < c->chunk ? e->block.count - i : c->chunk;

        at = encode_chunk(n < c->chunk ? tables + TABLES * c->chunk * c->chunk : tables, n,
                          sent_of(c, n), e->state + i, at);
    }
    return (size_t)(at - out);
}

/* y += scale times the inverse transform of one chunk. FAST_EFORMAT for positions out of order. */
static fast_err decode_chunk(const float *table, int64_t n, int64_t top, const uint8_t *in,
                             float scale, float *y)
{
    for (int64_t j = 0; j < top; j++) {
        float value;

        if (in[j] >= n || (j > 0 && in[j] <= in[j - 1]))
            return fast__fail(FAST_EFORMAT, "codec dct: coefficient %d of %lld", (int)in[j],
                              (long long)n);
        memcpy(&value, in + top + j * (int64_t)sizeof value, sizeof value);
        add_scaled(n, scale * value, table + in[j] * n, y);
    }
    return FAST_OK;
}

static fast_err decode(const void *config, const fast_decoding *d)
{
    const dct_config *c = config;
    const float *tables = tables_of(c, d->block.count, d->scratch);
    const uint8_t *at = d->in;

    if (d->mode == FAST_DECODE_SET)
        memset(d->y, 0, (size_t)d->block.count * sizeof *d->y);
    for (int64_t i = 0; i < d->block.count; i += c->chunk) {
        const int64_t n = d->block.count - i < c->chunk ? d->block.count - i : c->chunk;
        const int64_t top = sent_of(c, n);

        FAST_TRY(decode_chunk(n < c->chunk ? tables + TABLES * c->chunk * c->chunk : tables, n, top,
                              at, d->scale, d->y + i));
        at += top * (int64_t)(1 + sizeof(float));
    }
    return FAST_OK;
}

const fast_codec fast__codec_dct = {
    .name = "dct",
    .summary = "the largest cosine coefficients of momentum that stays local (DeMo)",
    .options = options,
    .config_size = sizeof(dct_config),
    .traits = FAST_CODEC_ACCUMULATES | FAST_CODEC_EXACT,
    .operations = 300,
    .bound = bound,
    .state = state,
    .scratch = scratch,
    .encode = encode,
    .decode = decode,
};
