/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kmeans: pruning and weight sharing, the first two steps of deep compression (Han, Mao and Dally
 * 2016); the stage huffman, or entropy, is the third. The k largest elements by magnitude are sent,
 * k = ratio n, each as the number of one of C shared values, the centroids: linearly spaced from
 * the least to the largest of them at first, which serves the few large values best, then moved by
 * `rounds` of Lloyd's algorithm,
 *
 *     a_i = arg min_j |v_i - c_j|,   c_j <- mean of the v_i with a_i = j
 *
 * until no centroid moves. Elements of at most C different values have these as centroids: a vector
 * that was shared before is encoded without loss. The squared error falls with each round; a
 * centroid without elements stays where it is. Ties go to the lower centroid; sums are of doubles,
 * in order, so that the bits are the same everywhere.
 *
 *     block   k (variable length), the gaps between indices (select.h), C floats, then k numbers
 *             of ceil(log2 C) bits
 *
 * At a tenth and 16 centroids an element sent takes 1.5 bytes: 26 times smaller. Among values that
 * are not finite all are sent as NaN. Cost: the selection, and log2 C comparisons for each element
 * sent and round.
 */
#include "codec/bits.h"
#include "codec/codec.h"
#include "codec/entries.h"
#include "codec/select.h"

#include <math.h>

enum { CLUSTERS_MAX = 256 };

typedef struct kmeans_config {
    double ratio;     /* fraction of the elements that is sent */
    int64_t clusters; /* number of shared values */
    int64_t rounds;   /* of Lloyd's algorithm, at most */
} kmeans_config;

static const fast_option options[] = {
    FAST_OPT_REAL(kmeans_config, ratio, "0.1", 1e-9, 1, "fraction of the elements that is sent"),
    FAST_OPT_INT(kmeans_config, clusters, "16", 2, CLUSTERS_MAX, "number of shared values"),
    FAST_OPT_INT(kmeans_config, rounds, "10", 0, 1000,
                 "rounds of Lloyd's algorithm at most; 0: linear levels"),
    FAST_OPT_END,
};

/* Bits of a centroid's number. */
static unsigned width_of(const kmeans_config *c)
{
    unsigned width = 1;

    while ((int64_t)1 << width < c->clusters)
        width++;
    return width;
}

/* Bytes behind the gaps: the centroids, then k numbers. */
static size_t tail_of(const kmeans_config *c, int64_t k)
{
    return (size_t)c->clusters * sizeof(float) + ((size_t)k * width_of(c) + 7) / 8;
}

/* As entries, whose gaps have the same bound, with another tail. */
static size_t bound(const void *config, const fast_block *block)
{
    const kmeans_config *c = config;
    const int64_t k = fast__entries_count(c->ratio, block->count);

    return fast__entries_bound(block->count, k, false) + tail_of(c, k);
}

/* Scratch of the selection, and a copy of x without a residual to select in. */
static size_t scratch(const void *config, const fast_block *block)
{
    (void)config;
    return fast__select_scratch(block->count) + (size_t)block->count * sizeof(float);
}

/* Return the number of the centroid next to v; they ascend. */
static int64_t assign(int64_t clusters, const float *centre, float v)
{
    int64_t low = 0, high = clusters - 1;

    while (low < high) {
        const int64_t middle = (low + high) / 2;

        if ((double)v <= ((double)centre[middle] + (double)centre[middle + 1]) / 2)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Space the centroids evenly over the values; all NaN if a value is not finite. */
static void spread(const kmeans_config *c, int64_t k, const uint32_t *index, const float *v,
                   float *centre)
{
    double least = INFINITY, most = -INFINITY;
    bool finite = true;

    for (int64_t i = 0; i < k; i++) {
        finite = finite && isfinite(v[index[i]]);
        least = fmin(least, (double)v[index[i]]);
        most = fmax(most, (double)v[index[i]]);
    }
    for (int64_t j = 0; j < c->clusters; j++) {
        const double part = (double)j / (double)(c->clusters - 1);

        centre[j] = finite ? (float)(least + (most - least) * part) : NAN;
    }
}

/* Take the values themselves as centroids, ascending; false if they are more, or not finite. */
static bool take_values(const kmeans_config *c, int64_t k, const uint32_t *index, const float *v,
                        float *centre)
{
    int64_t count = 0;

    for (int64_t i = 0; i < k; i++) {
        const float value = v[index[i]];
        int64_t at = count;

        while (at > 0 && centre[at - 1] >= value)
            at--;
        if (!isfinite(value))
            return false;
        if (at < count && centre[at] == value)
            continue;
        if (count == c->clusters)
            return false;
        memmove(centre + at + 1, centre + at, (size_t)(count - at) * sizeof *centre);
        centre[at] = value;
        count++;
    }
    for (int64_t j = count; j < c->clusters; j++)
        centre[j] = centre[count - 1];
    return true;
}

/* Move each centroid to the mean of its values; false if none moved. */
static bool move(const kmeans_config *c, int64_t k, const uint32_t *index, const float *v,
                 float *centre)
{
    double sum[CLUSTERS_MAX] = { 0 };
    int64_t count[CLUSTERS_MAX] = { 0 };
    bool moved = false;

    for (int64_t i = 0; i < k; i++) {
        const int64_t j = assign(c->clusters, centre, v[index[i]]);

        sum[j] += (double)v[index[i]];
        count[j]++;
    }
    for (int64_t j = 0; j < c->clusters; j++) {
        const float mean = count[j] ? (float)(sum[j] / (double)count[j]) : centre[j];

        moved = moved || mean != centre[j];
        centre[j] = mean;
    }
    return moved;
}

/* Select the largest of v = x + e, find their centroids, and leave the loss in v. */
static size_t encode(const void *config, const fast_encoding *e, uint8_t *out)
{
    const kmeans_config *c = config;
    const int64_t n = e->block.count;
    const int64_t k = fast__entries_count(c->ratio, n);
    float *v = e->error;
    float centre[CLUSTERS_MAX];

    if (!v) {
        v = (float *)(void *)((char *)e->scratch + fast__select_scratch(n));
        memcpy(v, e->x, (size_t)n * sizeof *v);
    }
    const uint32_t *index = fast__select_top(n, k, e->key, e->error ? e->x : NULL, v, e->scratch);
    if (!take_values(c, k, index, v, centre)) {
        spread(c, k, index, v, centre);
        for (int64_t r = 0; r < c->rounds && isfinite(centre[0]); r++)
            if (!move(c, k, index, v, centre))
                break;
    }
    uint8_t *at = fast__varint_put(out, (uint64_t)k);
    at += fast__gaps_put(k, index, NULL, at);
    memcpy(at, centre, (size_t)c->clusters * sizeof *centre);
    fast_bit_writer w = { .at = at + (size_t)c->clusters * sizeof *centre };
    for (int64_t i = 0; i < k; i++) {
        const int64_t j = assign(c->clusters, centre, v[index[i]]);

        fast__bits_put(&w, (uint64_t)j, width_of(c));
        v[index[i]] -= centre[j];
    }
    return (size_t)(fast__bits_flush(&w) - out);
}

/* The centroids of the sent elements. FAST_EFORMAT also for a number that no centroid has. */
static fast_err pairs(const void *config, const fast_decoding *d, uint32_t *index, float *value,
                      int64_t *count_out)
{
    const kmeans_config *c = config;
    const uint8_t *at = d->in;
    const uint8_t *const end = d->in + d->size;
    float centre[CLUSTERS_MAX];
    uint64_t k;

    if (!fast__varint_get(&at, end, &k) || k > (uint64_t)d->block.count ||
        !fast__gaps_get(&at, end, d->block.count, (int64_t)k, index, NULL) ||
        (size_t)(end - at) != tail_of(c, (int64_t)k))
        return fast__fail(FAST_EFORMAT, "codec kmeans: %zu bytes are not entries of %lld elements",
                          d->size, (long long)d->block.count);
    memcpy(centre, at, (size_t)c->clusters * sizeof *centre);
    fast_bit_reader r = { .at = at + (size_t)c->clusters * sizeof *centre, .end = end };
    for (uint64_t i = 0; i < k; i++) {
        const uint64_t j = fast__bits_get(&r, width_of(c));

        if (j >= (uint64_t)c->clusters)
            return fast__fail(FAST_EFORMAT, "codec kmeans: there is no centroid %d", (int)j);
        value[i] = centre[j];
    }
    *count_out = (int64_t)k;
    return FAST_OK;
}

const fast_codec fast__codec_kmeans = {
    .name = "kmeans",
    .summary = "the largest elements, as few shared values (deep compression)",
    .options = options,
    .config_size = sizeof(kmeans_config),
    .traits = FAST_CODEC_SPARSE | FAST_CODEC_FEEDBACK | FAST_CODEC_LAYERS,
    .operations = 40,
    .bound = bound,
    .scratch = scratch,
    .encode = encode,
    .pairs = pairs,
};
