/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batch norm and layer norm. Batch norm reads its data twice forward (moments; apply) and twice
 * backward (sums; apply): with the batch innermost a channel is a row, so its factors are broadcast
 * once a row and every pass runs at the speed of memory.
 *
 * Moments are those of x - pivot, the pivot being the mean of the channel at the first position:
 * one pass gives the variance without cancellation unless a channel's mean differs by many
 * deviations from one position to the next. Sums have two levels (32 positions, then all) of 16
 * partial sums, the last of them in double.
 *
 *     level 1   [channel][sum, square][16]    the last positions, up to 32
 *     level 2   [channel][sum, square][16]    all positions before
 *
 * A range of lanes that does not end at a block's end is masked there; all other blocks take the
 * loop without masks, because the condition is the same for a whole block.
 */
#include "engine/cpu/kernel_tables.h"
#include "engine/cpu/vec.h"

#include <math.h>

enum { BLOCK = 32 };

/* The blocks that a range of lanes touches, in three runs: a partial block that needs masks, whole
 * blocks, partial blocks. Run r is [edge[r], edge[r + 1]). */
typedef struct norm_span {
    int64_t edge[4];
} norm_span;

/* The blocks that lanes [lo, end) touch; those with lanes from hi on count as partial. */
static norm_span span_of(int64_t lo, int64_t hi, int64_t end)
{
    const int64_t first = (lo + FAST_VEC - 1) / FAST_VEC, last = hi / FAST_VEC;

    return (norm_span){ { lo / FAST_VEC, first, last < first ? first : last,
                          (end + FAST_VEC - 1) / FAST_VEC } };
}

/* Loop over the blocks of a span, unrolled over its runs: whether blocks are whole is a constant in
 * each run, so the loop over whole blocks has no trace of masks. */
#define FOR_SPAN(span, v, run)                                                                   \
    _Pragma("GCC unroll 3") for (int run = 0; run < 3; run++) for (int64_t v = (span).edge[run]; \
                                                                   v < (span).edge[run + 1]; v++)

/* Add level 1 to level 2 and clear level 1. */
static void fold(int64_t n, float *level1, float *level2)
{
    for (int64_t i = 0; i < n; i += VEC) {
        vec_store(level2 + i, vec_load(level2 + i) + vec_load(level1 + i));
        vec_store(level1 + i, vec_set(0));
    }
}

/* Load the two partial sums of a channel. */
static inline __attribute__((always_inline)) void load_sums(const float *level, fast_vec a[PARTS],
                                                            fast_vec b[PARTS])
{
    FOR_PARTS(k)
    {
        a[k / VEC] = vec_load(level + k);
        b[k / VEC] = vec_load(level + FAST_VEC + k);
    }
}

/* Store them. */
static inline __attribute__((always_inline)) void store_sums(float *level, const fast_vec a[PARTS],
                                                             const fast_vec b[PARTS])
{
    FOR_PARTS(k)
    {
        vec_store(level + k, a[k / VEC]);
        vec_store(level + FAST_VEC + k, b[k / VEC]);
    }
}

/* The sum of 16 partial sums, in double. */
static double sum_of(const float *v)
{
    double s = 0;
    for (int i = 0; i < FAST_VEC; i++)
        s += (double)v[i];
    return s;
}

/* The mean of a row over the range of lanes. */
static float pivot_of(const fast_norm_shape *s, const float *row)
{
    double sum = 0;
    for (int64_t i = s->lo; i < s->hi; i++)
        sum += (double)row[i];
    return (float)(sum / (double)(s->hi - s->lo));
}

/* Sums of x - pivot and of its square in one pass over x. */
static void moments(const fast_norm_shape *s, const float *x, float *scratch, double *mean,
                    double *squares)
{
    const int64_t C = s->channels, L = s->lanes;
    const norm_span in = span_of(s->lo, s->hi, s->hi);
    float *level1 = scratch, *level2 = scratch + C * 2 * FAST_VEC;
    const double m = (double)(s->positions * (s->hi - s->lo));

    memset(scratch, 0, (size_t)C * 4 * FAST_VEC * sizeof *scratch);
    for (int64_t c = 0; c < C; c++)
        mean[c] = (double)pivot_of(s, x + c * L);
    for (int64_t p = 0; p < s->positions; p++) {
        for (int64_t c = 0; c < C; c++) {
            const float *row = x + (p * C + c) * L;
            const fast_vec pivot = vec_set((float)mean[c]);
            float *level = level1 + c * 2 * FAST_VEC;
            fast_vec sum[PARTS], square[PARTS];
            load_sums(level, sum, square);
            FOR_SPAN(in, v, run)
            {
                const bool whole = run == 1;
                FOR_PARTS(k)
                {
                    const int64_t lane = v * FAST_VEC + k;
                    fast_vec d = vec_load(row + lane) - pivot;
                    if (!whole)
                        d = vec_and(vec_lanes(s->lo - lane, s->hi - lane), d);
                    sum[k / VEC] += d;
                    square[k / VEC] += d * d;
                }
            }
            store_sums(level, sum, square);
        }
        if (p % BLOCK == BLOCK - 1 || p == s->positions - 1)
            fold(C * 2 * FAST_VEC, level1, level2);
    }
    for (int64_t c = 0; c < C; c++) {
        const double sum = sum_of(level2 + c * 2 * FAST_VEC);
        const double square = sum_of(level2 + (c * 2 + 1) * FAST_VEC) - sum * sum / m;
        mean[c] += sum / m;
        squares[c] = square > 0 ? square : 0;
    }
}

/* One instance of apply(). */
static inline __attribute__((always_inline)) void apply_of(const fast_norm_shape *s, const float *x,
                                                           const float *mean, const float *scale,
                                                           const float *shift, const float *add,
                                                           bool relu, float *y, uint16_t *bits)
{
    const int64_t C = s->channels, L = s->lanes;
    const norm_span in = span_of(s->lo, s->end, s->end);
    const fast_vec zero = vec_set(0);

    for (int64_t p = 0; p < s->positions; p++)
        for (int64_t c = 0; c < C; c++) {
            const int64_t row = (p * C + c) * L;
            const fast_vec m = vec_set(mean[c]), a = vec_set(scale[c]), b = vec_set(shift[c]);
            FOR_SPAN(in, v, run)
            {
                const bool whole = run == 1;
                uint16_t *save = relu && bits ? bits + row / FAST_VEC + v : NULL;
                unsigned passed = 0;
                FOR_PARTS(k)
                {
                    const int64_t lane = v * FAST_VEC + k, at = row + lane;
                    fast_vec r = (vec_load(x + at) - m) * a + b;
                    if (add)
                        r += vec_load(add + at);
                    vec_int pass = r > zero;
                    if (relu)
                        r = vec_max(zero, r);
                    if (!whole) {
                        const vec_int mask = vec_lanes(s->lo - lane, s->end - lane);
                        r = vec_select(mask, r, vec_load(y + at));
                        if (save)
                            pass = (pass & mask) | (vec_mask((unsigned)*save >> k) & ~mask);
                    }
                    vec_store(y + at, r);
                    if (save)
                        passed |= vec_bits(pass) << k;
                }
                if (save)
                    *save = (uint16_t)passed;
            }
        }
}

/* Instances with constant flags, so that the branches leave the loops. */
static void apply(const fast_norm_shape *s, const float *x, const float *mean, const float *scale,
                  const float *shift, const float *add, bool relu, float *y, uint16_t *bits)
{
    if (add && relu)
        apply_of(s, x, mean, scale, shift, add, true, y, bits);
    else if (relu)
        apply_of(s, x, mean, scale, shift, NULL, true, y, bits);
    else
        apply_of(s, x, mean, scale, shift, add, false, y, bits);
}

/* One instance of sums(). */
static inline __attribute__((always_inline)) void
sums_of(const fast_norm_shape *s, const float *x, const float *mean, float *dy, const float *dy2,
        const uint16_t *bits, bool store, float *scratch, double *sum, double *dot)
{
    const int64_t C = s->channels, L = s->lanes;
    const norm_span in = span_of(s->lo, s->hi, s->hi);
    float *level1 = scratch, *level2 = scratch + C * 2 * FAST_VEC;

    memset(scratch, 0, (size_t)C * 4 * FAST_VEC * sizeof *scratch);
    for (int64_t p = 0; p < s->positions; p++) {
        for (int64_t c = 0; c < C; c++) {
            const int64_t row = (p * C + c) * L;
            const fast_vec m = vec_set(mean[c]);
            float *level = level1 + c * 2 * FAST_VEC;
            fast_vec a[PARTS], b[PARTS];
            load_sums(level, a, b);
            FOR_SPAN(in, v, run)
            {
                const bool whole = run == 1;
                const unsigned passed = bits ? bits[row / FAST_VEC + v] : 0;
                FOR_PARTS(k)
                {
                    const int64_t lane = v * FAST_VEC + k, at = row + lane;
                    const fast_vec old = vec_load(dy + at);
                    fast_vec d = dy2 ? old + vec_load(dy2 + at) : old;
                    if (bits)
                        d = vec_and_bits(passed >> k, d);
                    if (!whole) {
                        const vec_int mask = vec_lanes(s->lo - lane, s->hi - lane);
                        if (store)
                            vec_store(dy + at, vec_select(mask, d, old));
                        d = vec_and(mask, d);
                    } else if (store) {
                        vec_store(dy + at, d);
                    }
                    a[k / VEC] += d;
                    b[k / VEC] += d * (vec_load(x + at) - m);
                }
            }
            store_sums(level, a, b);
        }
        if (p % BLOCK == BLOCK - 1 || p == s->positions - 1)
            fold(C * 2 * FAST_VEC, level1, level2);
    }
    for (int64_t c = 0; c < C; c++) {
        sum[c] = sum_of(level2 + c * 2 * FAST_VEC);
        dot[c] = sum_of(level2 + (c * 2 + 1) * FAST_VEC);
    }
}

/* Instances with constant flags, as in apply(). dy is stored where a later pass needs the masked
 * gradient, because the other branch of an addition reads it too. */
static void sums(const fast_norm_shape *s, const float *x, const float *mean, float *dy,
                 const float *dy2, const uint16_t *bits, bool store, float *scratch, double *sum,
                 double *dot)
{
    if (!store)
        sums_of(s, x, mean, dy, NULL, bits, false, scratch, sum, dot);
    else if (dy2)
        sums_of(s, x, mean, dy, dy2, bits, true, scratch, sum, dot);
    else
        sums_of(s, x, mean, dy, NULL, bits, true, scratch, sum, dot);
}

/* One instance of apply_back(). */
static inline __attribute__((always_inline)) void
apply_back_of(const fast_norm_shape *s, const float *x, const float *mean, const float *dy,
              const uint16_t *bits, const float *fa, const float *fb, const float *fc, float *dx,
              bool accumulate)
{
    const int64_t C = s->channels, L = s->lanes;
    const norm_span in = span_of(s->lo, s->hi, s->end);

    for (int64_t p = 0; p < s->positions; p++)
        for (int64_t c = 0; c < C; c++) {
            const int64_t row = (p * C + c) * L;
            const fast_vec m = vec_set(mean[c]), a = vec_set(fa[c]), b = vec_set(fb[c]);
            const fast_vec e = vec_set(fc[c]);
            FOR_SPAN(in, v, run)
            {
                const bool whole = run == 1;
                const unsigned passed = bits ? bits[row / FAST_VEC + v] : 0;
                FOR_PARTS(k)
                {
                    const int64_t lane = v * FAST_VEC + k, at = row + lane;
                    fast_vec d = vec_load(dy + at);
                    if (bits)
                        d = vec_and_bits(passed >> k, d);
                    d = vec_fma(a, d, vec_fma(b, vec_load(x + at) - m, e));
                    if (!whole) {
                        d = vec_and(vec_lanes(s->lo - lane, s->hi - lane), d);
                        if (!accumulate)
                            d = vec_select(vec_lanes(s->lo - lane, s->end - lane), d,
                                           vec_load(dx + at));
                    }
                    vec_store(dx + at, accumulate ? vec_load(dx + at) + d : d);
                }
            }
        }
}

/* Instances with constant flags, as in apply(). */
static void apply_back(const fast_norm_shape *s, const float *x, const float *mean, const float *dy,
                       const uint16_t *bits, const float *a, const float *b, const float *c,
                       float *dx, bool accumulate)
{
    if (accumulate)
        apply_back_of(s, x, mean, dy, bits, a, b, c, dx, true);
    else if (bits)
        apply_back_of(s, x, mean, dy, bits, a, b, c, dx, false);
    else
        apply_back_of(s, x, mean, dy, NULL, a, b, c, dx, false);
}

/* a b with its own rounding: of a plain product that is subtracted later the compiler may round the
 * difference alone, on some processors. */
static inline fast_vec rounded(fast_vec a, float b)
{
    return vec_fma(a, vec_set(b), vec_set(0));
}

/* Three passes over the channels of a block of lanes: mean, variance, result. The variance is that
 * of the differences from the mean, so nothing cancels; mean and 1 / deviation are saved. */
static void layer(int64_t positions, int64_t channels, int64_t lanes, const float *x,
                  const float *weight, const float *bias, float eps, float *y, float *saved)
{
    const float inverse = 1.0f / (float)channels;

    for (int64_t p = 0; p < positions; p++)
        for (int64_t i = 0; i < lanes; i += FAST_VEC) {
            const float *in = x + p * channels * lanes + i;
            float *out = y + p * channels * lanes + i, *save = saved + p * 2 * lanes + i;
            fast_vec mean[PARTS] = { { 0 } }, scale[PARTS] = { { 0 } };
            for (int64_t c = 0; c < channels; c++)
                FOR_PARTS(k) mean[k / VEC] += vec_load(in + c * lanes + k);
            FOR_PARTS(k)
            mean[k / VEC] = rounded(mean[k / VEC], inverse);
            for (int64_t c = 0; c < channels; c++)
                FOR_PARTS(k)
                {
                    const fast_vec d = vec_load(in + c * lanes + k) - mean[k / VEC];
                    scale[k / VEC] += d * d;
                }
            FOR_PARTS(k)
            {
                scale[k / VEC] = 1.0f / vec_sqrt(scale[k / VEC] * inverse + eps);
                vec_store(save + k, mean[k / VEC]);
                vec_store(save + lanes + k, scale[k / VEC]);
            }
            for (int64_t c = 0; c < channels; c++) {
                const fast_vec w = vec_set(weight ? weight[c] : 1), b = vec_set(bias ? bias[c] : 0);
                FOR_PARTS(k)
                vec_store(out + c * lanes + k,
                          (vec_load(in + c * lanes + k) - mean[k / VEC]) * scale[k / VEC] * w + b);
            }
        }
}

/* Backward pass of a block of lanes of one position: dx, and the products that dw and db sum. */
static void layer_back_of(int64_t channels, int64_t lanes, const float *x, const float *weight,
                          const float *saved, const float *dy, float *dx, bool accumulate,
                          float *sums)
{
    const float inverse = 1.0f / (float)channels;
    fast_vec mean[PARTS], scale[PARTS], sum[PARTS] = { { 0 } }, dot[PARTS] = { { 0 } };

    FOR_PARTS(k)
    {
        mean[k / VEC] = vec_load(saved + k);
        scale[k / VEC] = vec_load(saved + lanes + k);
    }
    for (int64_t c = 0; c < channels; c++, sums += 2 * FAST_VEC) {
        const fast_vec w = vec_set(weight ? weight[c] : 1);
        FOR_PARTS(k)
        {
            const fast_vec g = vec_load(dy + c * lanes + k), d = g * w;
            const fast_vec n = (vec_load(x + c * lanes + k) - mean[k / VEC]) * scale[k / VEC];
            sum[k / VEC] += d;
            dot[k / VEC] += d * n;
            vec_store(sums + k, vec_load(sums + k) + g * n);
            vec_store(sums + FAST_VEC + k, vec_load(sums + FAST_VEC + k) + g);
        }
    }
    FOR_PARTS(k)
    {
        sum[k / VEC] = rounded(sum[k / VEC], inverse);
        dot[k / VEC] = rounded(dot[k / VEC], inverse);
    }
    for (int64_t c = 0; dx && c < channels; c++) {
        const fast_vec w = vec_set(weight ? weight[c] : 1);
        FOR_PARTS(k)
        {
            const int64_t at = c * lanes + k;
            const fast_vec d = vec_load(dy + at) * w;
            const fast_vec n = (vec_load(x + at) - mean[k / VEC]) * scale[k / VEC];
            const fast_vec r = scale[k / VEC] * (d - sum[k / VEC] - n * dot[k / VEC]);
            vec_store(dx + at, accumulate ? vec_load(dx + at) + r : r);
        }
    }
}

/* The sums of dw and db collect 16 lanes each, and are added up at the end. */
static void layer_back(int64_t positions, int64_t channels, int64_t lanes, const float *x,
                       const float *weight, const float *saved, const float *dy, float *dx,
                       bool accumulate, float *dw, float *db, float *scratch)
{
    memset(scratch, 0, (size_t)channels * 2 * FAST_VEC * sizeof *scratch);
    for (int64_t p = 0; p < positions; p++)
        for (int64_t i = 0; i < lanes; i += FAST_VEC) {
            const int64_t at = p * channels * lanes + i;
            layer_back_of(channels, lanes, x + at, weight, saved + p * 2 * lanes + i, dy + at,
                          dx ? dx + at : NULL, accumulate, scratch);
        }
    for (int64_t c = 0; c < channels; c++) {
        if (dw)
            dw[c] = (float)sum_of(scratch + c * 2 * FAST_VEC);
        if (db)
            db[c] = (float)sum_of(scratch + (c * 2 + 1) * FAST_VEC);
    }
}

const fast_norm_kernels FAST_SIMD(fast__norm_kernels) = {
    .moments = moments,
    .apply = apply,
    .sums = sums,
    .apply_back = apply_back,
    .layer = layer,
    .layer_back = layer_back,
};
