/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fast bench codec`: what a codec saves, and what it costs.
 *
 * A vector like a gradient (normal, the scale of each of 64 stretches drawn log-normally, as layers
 * differ) is encoded and decoded by one thread, with error feedback where the codec uses it, and
 * beside it copied by memcpy. The three are timed one after the other, the fastest of ROUNDS
 * counts: other work on the machine only slows one down. With bytes b before and c after,
 *
 *     break-even   B = (b - c) / (t_encode + t_decode)
 *
 * is the bandwidth of a link below which the codec pays for one sender and one receiver: there the
 * time that the smaller message saves, (b - c) / B, is what the codec takes.
 *
 * Example: a codec that halves 16.8 MB and takes 5 ms for encoding and decoding together has B =
 * 8.4 MB / 5 ms = 1.7 GB/s: it pays on links below 13 Gbit/s. A negative figure says that a codec
 * makes this vector longer.
 *
 * The bound is memcpy: it reads and writes each float once. An encoder that writes a quarter of the
 * bytes moves less and may beat it; one at a tenth of it computes more than it moves. The error is
 * |decoded - x| / |x| in the Euclidean norm, of the first round, before error feedback adds the
 * residual of the round before.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "base/rng.h"
#include "codec/codec.h"
#include "lab/bench.h"
#include "run/run.h"
#include "tensor/vector.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROUNDS = 7, STRETCHES = 64 };

typedef struct codec_config {
    char codec[FAST_CHAIN_TEXT_MAX]; /* a chain; empty: all codecs */
    int64_t bytes;                   /* of the vector */
} codec_config;

static const fast_option options_table[] = {
    FAST_OPT_TEXT(codec_config, codec, "all", "codec", "a codec, or all of them"),
    FAST_OPT_INT(codec_config, bytes, "16777216", 4, 1 << 30, "of the vector"),
    FAST_OPT_END,
};

/* The vector that is encoded, and its encoding. */
typedef struct codec_bench {
    float *x;       /* [count]: the vector */
    float *y;       /* [count]: what it is decoded and copied to */
    int64_t count;  /* floats */
    uint8_t *bytes; /* [bound] of the codec that is measured */
} codec_bench;

/* Fill the vector with random numbers that are distributed like gradients. */
static void draw(codec_bench *b)
{
    fast_rng rng;
    float scale = 1;

    fast__rng_init(&rng, 1, FAST_PURPOSE_SYNTHETIC, 0, 0, 0);
    for (int64_t i = 0; i < b->count; i++) {
        if (i % (b->count / STRETCHES + 1) == 0)
            scale = 0.01f * expf(fast__rng_normal(&rng));
        b->x[i] = scale * fast__rng_normal(&rng);
    }
}

/* Seconds since a reading of the clock. */
static double seconds_since(int64_t begin)
{
    return (double)(fast__clock_ns() - begin) * 1e-9;
}

/* One codec, already opened. */
static fast_err measure_coder(codec_bench *b, fast_coder *coder, fast_codec_measure *m)
{
    double error = 0;

    m->encode_s = m->decode_s = m->copy_s = INFINITY;
    for (int r = 0; r < ROUNDS; r++) {
        int64_t begin = fast__clock_ns();
        const size_t size = fast__coder_encode(coder, r, 100, b->x, b->bytes);
        m->encode_s = fmin(m->encode_s, seconds_since(begin));
        m->bytes_out = (int64_t)size;
        begin = fast__clock_ns();
        FAST_TRY(fast__coder_decode(coder, b->bytes, size, FAST_DECODE_SET, 1, b->y));
        m->decode_s = fmin(m->decode_s, seconds_since(begin));
        if (r == 0) { /* the first round has no residual yet */
            for (int64_t i = 0; i < b->count; i++)
                error += ((double)b->y[i] - (double)b->x[i]) * ((double)b->y[i] - (double)b->x[i]);
            m->error = sqrt(error / fast__vector_norm2(b->count, b->x));
        }
        begin = fast__clock_ns();
        memcpy(b->y, b->x, (size_t)b->count * sizeof *b->y);
        m->copy_s = fmin(m->copy_s, seconds_since(begin));
    }
    m->encode_gb_per_s = (double)m->bytes_in * 1e-9 / m->encode_s;
    m->decode_gb_per_s = (double)m->bytes_in * 1e-9 / m->decode_s;
    m->copy_gb_per_s = (double)m->bytes_in * 1e-9 / m->copy_s;
    m->break_even_mbit_per_s =
        (double)(m->bytes_in - m->bytes_out) * 8e-6 / (m->encode_s + m->decode_s);
    return FAST_OK;
}

/* Encode and decode several times, take the shortest times, and report. */
static fast_err measure(codec_bench *b, const char *spec, fast_codec_measure_fn *report, void *ctx)
{
    const fast_segment whole = {
        .name = "x", .count = b->count, .shape = { b->count / 1024, 1024 }, .rank = 2
    };
    const fast_segment line = { .name = "x", .count = b->count, .shape = { b->count }, .rank = 1 };
    const fast_layout layout = { b->count % 1024 ? &line : &whole, 1, b->count };
    fast_codec_measure m = { .codec = spec, .bytes_in = b->count * (int64_t)sizeof(float) };
    fast_chain *chain = NULL;
    fast_coder *coder = NULL;

    FAST_TRY(fast__chain_open(spec, &chain));
    const fast_coder_options o = {
        .chain = chain, .layout = &layout, .count = b->count, .workers = 2, .seed = 1
    };
    fast_err err = fast__coder_new(&o, &coder);
    if (!err)
        err = fast__alloc("encoded bytes", (int64_t)fast__coder_bound(coder), 1, &b->bytes);
    if (!err)
        err = measure_coder(b, coder, &m);
    if (!err)
        report(ctx, &m);
    fast__free(b->bytes);
    b->bytes = NULL;
    fast__coder_free(coder);
    fast__chain_close(chain);
    return err;
}

fast_err fast_bench_codec(const char *const *options, fast_codec_measure_fn *report, void *ctx)
{
    codec_config config;
    codec_bench b = { 0 };

    FAST_ASSERT(report != NULL);
    memset(&config, 0, sizeof config);
    FAST_TRY(fast__lab_options("fast bench codec", options_table, options, &config));
    b.count = config.bytes / (int64_t)sizeof(float);
    fast_err err = fast__alloc("a vector", b.count, sizeof *b.x, &b.x);
    if (!err)
        err = fast__alloc("a vector", b.count, sizeof *b.y, &b.y);
    if (!err)
        draw(&b);
    if (!err && strcmp(config.codec, "all") != 0)
        err = measure(&b, config.codec, report, ctx);
    for (int i = 0; !err && strcmp(config.codec, "all") == 0 && fast__codecs[i]; i++)
        err = measure(&b, fast__codecs[i]->name, report, ctx);
    for (int i = 0; !err && strcmp(config.codec, "all") == 0 && fast__stages[i]; i++)
        err = measure(&b, fast__stages[i]->name, report, ctx);
    fast__free(b.x);
    fast__free(b.y);
    return err;
}
