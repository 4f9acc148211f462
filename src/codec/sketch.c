/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sketch: sketched updates (Konecny et al. 2016), three steps that are each unbiased. For chunks of
 * 4,096 elements, with D random signs and H the Walsh-Hadamard matrix,
 *
 *     rotate   w = H D v / sqrt(n): spreads large elements over all, so that levels fit
 *     keep     a random fraction of w's elements, each times 1 / keep
 *     bits     random levels between the chunk's least and largest element of w
 *
 * and decoded D H q / sqrt(n), since H D / sqrt(n) is orthonormal. The signs and the selection are
 * functions of the key, which is sent instead of them. A rotated chunk is filled with zeros to the
 * next power of two.
 *
 *     block   the key (8 bytes); for each chunk its least and largest element (floats), then
 *             levels of 1, 2, 4 or 8 bits in words of 32 bits; or with bits=32 two zeros and
 *             floats
 *
 * 32 / (bits keep) times smaller. Cost: 12 passes of the rotation in the cache. A chunk with an
 * element that is not finite is decoded to NaN.
 */
#include "codec/codec.h"
#include "codec/integers.h"
#include "codec/noise.h"
#include "tensor/clones.h"
#include "tensor/vector.h"

#include <math.h>
#include <string.h>

enum { CHUNK = 4096, HEAD = 8, RANGE = 8, FLOATS = 4 };

typedef struct sketch_config {
    int bits;    /* of a level: log2 of them; FLOATS: no levels */
    double part; /* option keep: fraction of the elements that is sent */
    bool rotate; /* before all else */
} sketch_config;

static const fast_option options[] = {
    FAST_OPT_CHOICE(sketch_config, bits, "2", "1|2|4|8|32", "bits of an element; 32: floats"),
    { "keep", "1", "fraction of the elements that is sent", FAST_OPTION_REAL,
      offsetof(sketch_config, part), 0, 0.0001, 1, NULL },
    FAST_OPT_BOOL(sketch_config, rotate, "yes", "spread large elements over a chunk first"),
    FAST_OPT_END,
};

/* Elements of a chunk as it is sent: those of the vector, or more after a rotation. */
static int64_t width_of(const sketch_config *c, int64_t n)
{
    int64_t width = 1;

    if (!c->rotate)
        return n;
    while (width < n)
        width *= 2;
    return width;
}

/* Return the bytes of a chunk of which `count` elements are sent. */
static size_t size_of(const sketch_config *c, int64_t count)
{
    return RANGE + (c->bits == FLOATS ? (size_t)count * sizeof(float)
                                      : fast__levels_size(count, 1 << c->bits));
}

/* The key, and for each chunk its range and its levels, if all elements are sampled. */
static size_t bound(const void *config, const fast_block *block)
{
    const sketch_config *c = config;
    const int64_t rest = block->count % CHUNK;

    return HEAD + (size_t)(block->count / CHUNK) * size_of(c, CHUNK) +
           (rest ? size_of(c, width_of(c, rest)) : 0);
}

/* A chunk, and its sampled elements. */
static size_t scratch(const void *config, const fast_block *block)
{
    (void)config;
    (void)block;
    return 2 * CHUNK * sizeof(float);
}

/* D: a random sign for each element. */
FAST_CLONES static void flip(int64_t n, uint64_t key, uint32_t first, float *v)
{
    FAST_EACH
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;

        memcpy(&bits, v + i, sizeof bits);
        bits ^= fast__noise(key, first + (uint32_t)i) & 0x80000000u;
        memcpy(v + i, &bits, sizeof bits);
    }
}

/* H / sqrt(n), its own inverse; n is a power of two. */
FAST_CLONES static void hadamard(int64_t n, float *v)
{
    const float scale = 1 / sqrtf((float)n);

    for (int64_t half = 1; half < n; half *= 2)
        for (int64_t i = 0; i < n; i += 2 * half) {
            float *a = v + i;
            float *b = v + i + half;

            FAST_EACH
            for (int64_t j = 0; j < half; j++) {
                const float sum = a[j] + b[j];

                b[j] = a[j] - b[j];
                a[j] = sum;
            }
        }
    fast__vector_scale(n, scale, v);
}

/* The random numbers of the three steps must be independent. */
static uint64_t key_of(uint64_t key, uint64_t part)
{
    return (key ^ part * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xd6e8feb86659fd93);
}

/* Tell whether element i is sent, by a function of the key that the receiver has too. */
static bool is_sampled(const sketch_config *c, uint64_t key, uint32_t i)
{
    return c->part >= 1 || (double)fast__noise(key_of(key, 2), i) < c->part * 0x1p32;
}

/* Write the sampled elements of v[0 .. n), times 1 / keep, to w; return their number. */
static int64_t gather(const sketch_config *c, uint64_t key, uint32_t first, int64_t n,
                      const float *v, float *w)
{
    const float scale = (float)(1 / c->part);
    int64_t count = 0;

    for (int64_t i = 0; i < n; i++)
        if (is_sampled(c, key, first + (uint32_t)i))
            w[count++] = v[i] * scale;
    return count;
}

/* The least and the largest of n elements; zeros of none. */
static void range_of(int64_t n, const float *v, float range[2])
{
    range[0] = range[1] = n > 0 ? v[0] : 0;
    for (int64_t i = 1; i < n; i++) {
        range[0] = v[i] < range[0] ? v[i] : range[0];
        range[1] = v[i] > range[1] ? v[i] : range[1];
    }
}

/* Write one chunk: range, then levels or floats. Return the bytes written. */
static size_t put(const sketch_config *c, uint64_t key, uint32_t first, int64_t n, const float *w,
                  bool finite, uint8_t *out)
{
    const size_t size = size_of(c, n);
    float range[2];

    range_of(n, w, range);
    if (c->bits == FLOATS) {
        range[0] = range[1] = finite ? 0 : NAN;
        memcpy(out, range, RANGE);
        memcpy(out + RANGE, w, size - RANGE);
        return size;
    }
    const float factor = (float)((1 << (1 << c->bits)) - 1) / (range[1] - range[0]);
    if (!finite)
        range[0] = range[1] = NAN;
    else if (!isfinite(factor)) /* all are equal, or almost */
        range[1] = range[0];
    memcpy(out, range, RANGE);
    if (finite && isfinite(factor))
        fast__levels_put(n, 1 << c->bits, w, range[0], factor, key_of(key, 3), first, out + RANGE);
    else
        memset(out + RANGE, 0, size - RANGE);
    return size;
}

/* Chunk by chunk: rotate, sample, quantise. Random numbers are keyed by the element's index. */
static size_t encode(const void *config, const fast_encoding *e, uint8_t *out)
{
    const sketch_config *c = config;
    float *chunk = e->scratch;
    float *sampled = chunk + CHUNK;
    uint8_t *at = out + HEAD;

    memcpy(out, &e->key, HEAD);
    for (int64_t i = 0; i < e->block.count; i += CHUNK) {
        const int64_t n = e->block.count - i < CHUNK ? e->block.count - i : CHUNK;
        const int64_t width = width_of(c, n);

        memcpy(chunk, e->x + i, (size_t)n * sizeof *chunk);
        memset(chunk + n, 0, (size_t)(width - n) * sizeof *chunk);
        if (c->rotate) {
            flip(n, key_of(e->key, 1), (uint32_t)i, chunk);
            hadamard(width, chunk);
        }
        const int64_t count = gather(c, e->key, (uint32_t)i, width, chunk, sampled);
        at += put(c, e->key, (uint32_t)i, count, sampled, fast__vector_finite(n, e->x + i), at);
    }
    return (size_t)(at - out);
}

/* A chunk's bytes to v[0 .. n). */
static fast_err take(const sketch_config *c, uint64_t key, uint32_t first, int64_t n,
                     const uint8_t **at, const uint8_t *end, float *v, float *w)
{
    int64_t count = 0;

    for (int64_t i = 0; i < n; i++)
        count += is_sampled(c, key, first + (uint32_t)i);
    const size_t size = size_of(c, count);
    if ((size_t)(end - *at) < size)
        return fast__fail(FAST_EFORMAT, "sketch: %zu bytes are left, not the %zu of a chunk",
                          (size_t)(end - *at), size);
    float range[2];
    memcpy(range, *at, RANGE);
    if (c->bits == FLOATS)
        memcpy(w, *at + RANGE, size - RANGE);
    else
        fast__levels_take(count, 1 << c->bits, *at + RANGE, range[0],
                          (range[1] - range[0]) / (float)((1 << (1 << c->bits)) - 1),
                          FAST_DECODE_SET, w);
    *at += size;
    const float zero = 0 * range[0]; /* NaN where the range is */
    for (int64_t i = 0, k = 0; i < n; i++)
        v[i] = is_sampled(c, key, first + (uint32_t)i) ? w[k++] : zero;
    return FAST_OK;
}

/* Chunk by chunk: levels, rotation back, sum. FAST_EFORMAT if bytes are missing or left over. */
static fast_err decode(const void *config, const fast_decoding *d)
{
    const sketch_config *c = config;
    const uint8_t *at = d->in + HEAD;
    const uint8_t *end = d->in + d->size;
    float *chunk = d->scratch;
    uint64_t key;

    if (d->size < HEAD)
        return fast__fail(FAST_EFORMAT, "sketch: %zu bytes have no key", d->size);
    memcpy(&key, d->in, HEAD);
    for (int64_t i = 0; i < d->block.count; i += CHUNK) {
        const int64_t n = d->block.count - i < CHUNK ? d->block.count - i : CHUNK;
        const int64_t width = width_of(c, n);

        FAST_TRY(take(c, key, (uint32_t)i, width, &at, end, chunk, chunk + CHUNK));
        if (c->rotate) {
            hadamard(width, chunk);
            flip(n, key_of(key, 1), (uint32_t)i, chunk);
        }
        if (d->mode == FAST_DECODE_ADD) {
            fast__vector_axpy(n, d->scale, chunk, d->y + i);
        } else {
            memcpy(d->y + i, chunk, (size_t)n * sizeof *chunk);
            fast__vector_scale(n, d->scale, d->y + i);
        }
    }
    return at == end ? FAST_OK
                     : fast__fail(FAST_EFORMAT, "sketch: %zu bytes follow the last chunk",
                                  (size_t)(end - at));
}

const fast_codec fast__codec_sketch = {
    .name = "sketch",
    .summary = "rotated, subsampled and stochastically quantised (sketched updates)",
    .options = options,
    .config_size = sizeof(sketch_config),
    .traits = FAST_CODEC_UNBIASED,
    .bound = bound,
    .scratch = scratch,
    .encode = encode,
    .decode = decode,
};
