/* SPDX-License-Identifier: Apache-2.0 */
/*
 * adaptive: two thresholds that follow the gradient (Dryden, Moon, Jacobs and Van Essen 2016). Of
 * v = x + e, a fraction `ratio` of the positive elements and of the negative ones is sent, the
 * largest, at least one of a side that has any; each is decoded to the mean of its side:
 *
 *     q_i = mean of the selected v_k > 0, or of the selected v_k < 0, where i is one of them;
 *           else 0,   e <- v - q
 *
 * The thresholds are those of an exact selection (select.h), made at each step.
 *
 *     block   the two means (floats), k (32 bits), the gaps between indices with the sign
 *             as the flag (select.h)
 *
 * 1.4 bytes an element sent at 1%: 280 times smaller. A value that is not finite is the largest of
 * its side and makes the mean so. Cost: for each side a copy of v and a selection in it, 6 passes.
 */
#include "codec/codec.h"
#include "codec/entries.h"
#include "codec/select.h"
#include "tensor/clones.h"
#include "tensor/vector.h"

#include <string.h>

enum { HEAD = 2 * sizeof(float) };

typedef struct adaptive_config {
    double ratio; /* fraction of the elements of each sign that is sent */
} adaptive_config;

static const fast_option options[] = {
    FAST_OPT_REAL(adaptive_config, ratio, "0.01", 1e-9, 1,
                  "fraction of the positive and of the negative elements that is sent"),
    FAST_OPT_END,
};

/* Bytes of a block in which every element is sent: both means, the count, and the gaps with
 * their flags. */
static size_t bound(const void *config, const fast_block *block)
{
    (void)config;
    return fast__sides_bound(block->count, HEAD);
}

/* Scratch of the selection, one side of v, v itself, the selected indices of the first side, those
 * of both, and flags. */
static size_t scratch(const void *config, const fast_block *block)
{
    (void)config;
    return fast__select_scratch(block->count) + (size_t)block->count * (4 * sizeof(float) + 1);
}

/* Write the magnitudes of one side, zeros elsewhere; return their number. NaN is positive. */
FAST_CLONES static int64_t side_of(int64_t n, const float *v, bool negative, float *out)
{
    int64_t count = 0;

    if (negative) {
        FAST_EACH
        for (int64_t i = 0; i < n; i++) {
            out[i] = v[i] < 0 ? -v[i] : 0;
            count += v[i] < 0;
        }
        return count;
    }
    FAST_EACH
    for (int64_t i = 0; i < n; i++) {
        out[i] = v[i] <= 0 ? 0 : v[i];
        count += !(v[i] <= 0);
    }
    return count;
}

/* Merge two ascending disjoint lists of indices; the flag tells the second list. */
static void merge(int64_t up, const uint32_t *a, int64_t down, const uint32_t *b, uint32_t *index,
                  uint8_t *flags)
{
    for (int64_t i = 0, j = 0; i + j < up + down;) {
        const bool second = i == up || (j < down && b[j] < a[i]);

        flags[i + j] = second;
        index[i + j] = second ? b[j] : a[i];
        i += !second;
        j += second;
    }
}

/* Return the mean of the selected elements, summed in double; 0 of none. */
static float mean_of(int64_t k, const uint32_t *index, const float *v)
{
    double sum = 0;

    for (int64_t i = 0; i < k; i++)
        sum += (double)v[index[i]];
    return k > 0 ? (float)(sum / (double)k) : 0;
}

/* Select in each side by magnitudes, so that one selection serves both signs; subtract the mean
 * that is sent from v, which is the residual where there is one. */
static size_t encode(const void *config, const fast_encoding *e, uint8_t *out)
{
    const double ratio = ((const adaptive_config *)config)->ratio;
    const int64_t n = e->block.count;
    float *side = (float *)(void *)((char *)e->scratch + fast__select_scratch(n));
    uint32_t *first = (uint32_t *)(void *)(side + 2 * n);
    uint32_t *index = first + n;
    uint8_t *flags = (uint8_t *)(index + n);
    float *v = e->error ? e->error : side + n;
    float mean[2];

    if (e->error)
        fast__vector_add(n, e->x, v);
    else
        memcpy(v, e->x, (size_t)n * sizeof *v);
    const int64_t positive = side_of(n, v, false, side);
    const int64_t up = positive > 0 ? fast__entries_count(ratio, positive) : 0;
    if (up > 0)
        memcpy(first, fast__select_top(n, up, e->key, NULL, side, e->scratch),
               (size_t)up * sizeof *first);
    mean[0] = mean_of(up, first, v);
    const int64_t negative = side_of(n, v, true, side);
    const int64_t down = negative > 0 ? fast__entries_count(ratio, negative) : 0;
    const uint32_t *second = e->scratch;
    if (down > 0)
        second = fast__select_top(n, down, e->key, NULL, side, e->scratch);
    mean[1] = mean_of(down, second, v);
    merge(up, first, down, second, index, flags);
    for (int64_t i = 0; i < up + down; i++)
        v[index[i]] -= mean[flags[i]];
    memcpy(out, mean, HEAD);
    return (size_t)(fast__sides_put(up + down, index, flags, out + HEAD) - out);
}

/* Each entry is the mean of its side; the flag of a gap tells which. */
static fast_err pairs(const void *config, const fast_decoding *d, uint32_t *index, float *value,
                      int64_t *count_out)
{
    float mean[2] = { 0 };

    (void)config;
    if (d->size >= HEAD) /* fewer bytes are refused below */
        memcpy(mean, d->in, HEAD);
    return fast__sides_pairs("adaptive", d, HEAD, mean, index, value, count_out);
}

const fast_codec fast__codec_adaptive = {
    .name = "adaptive",
    .summary = "the largest elements of each sign, as their mean (adaptive thresholds)",
    .options = options,
    .config_size = sizeof(adaptive_config),
    .traits = FAST_CODEC_SPARSE | FAST_CODEC_FEEDBACK,
    .bound = bound,
    .scratch = scratch,
    .encode = encode,
    .pairs = pairs,
};
