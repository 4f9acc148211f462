/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pooling. The maximum of a window is found together with its index, one byte, which is all that
 * the backward pass needs: no input, no output. Windows of 2 x 2 at stride 2, which most networks
 * have, get a tournament of their own, and a backward pass that writes every gradient exactly once.
 *
 *     x0 x1     winner of the upper pair, of the lower pair, then of both: three comparisons a
 *     x2 x3     register, and the index 0 .. 3 follows from the same three masks
 *
 * Memory traffic: the forward pass reads the input once and writes a quarter; backward the reverse.
 */
#include "engine/cpu/kernel_tables.h"
#include "engine/cpu/vec.h"

enum { BLOCK = 32 /* positions of the first level of a sum */ };

/* True if a beats b: larger, or NaN. */
static inline vec_int beats(fast_vec a, fast_vec b)
{
    return (a > b) | (a != a);
}

/* Add the bias, apply relu, and store the result and the index of the winner. */
static inline void finish(fast_vec best, vec_int place, fast_vec bias, bool relu, float *y,
                          uint8_t *won, int64_t high)
{
    best += bias;
    if (relu) {
        place |= best <= 0.0f;
        best = vec_max(vec_set(0), best);
    }
    vec_store(y, best);
    vec_store_bytes(won, place);
    if (high)
        vec_store_bytes(won + high, place >> 8);
}

/* Load the indices of a register of winners; -1 if relu clipped them. */
static inline vec_int places(const uint8_t *won, int64_t high)
{
    vec_int place = vec_load_bytes(won);

    if (!high)
        return place | (place == FAST_POOL_BYTE_MAX);
    place |= vec_load_bytes(won + high) << 8;
    return place | (place == FAST_POOL_WINDOW_MAX);
}

/* Tell whether windows are 2 x 2 at stride 2 without padding. */
static bool pairs(const fast_pool_shape *s)
{
    return s->kernel[0] == 2 && s->kernel[1] == 2 && s->stride[0] == 2 && s->stride[1] == 2 &&
           !s->pad[0] && !s->pad[1] && s->dilation[0] == 1 && s->dilation[1] == 1;
}

/* a where the mask is -1, b where it is 0. */
static inline vec_int choose(vec_int mask, vec_int a, vec_int b)
{
    return (vec_int)vec_select(mask, (fast_vec)a, (fast_vec)b);
}

/* One output position of 2 x 2 windows: `right` and `down` are the offsets of the neighbours. */
static inline void max_pair(const fast_pool_shape *s, const float *x, int64_t right, int64_t down,
                            const float *bias, bool relu, float *y, uint8_t *won)
{
    const vec_int zero = { 0 };

    for (int64_t c = 0; c < s->channels; c++) {
        const fast_vec b = vec_set(bias ? bias[c] : 0);
        for (int64_t i = 0; i < s->lanes; i += VEC) {
            const float *at = x + c * s->lanes + i;
            const int64_t out = c * s->row_c * s->lanes + i;
            const fast_vec x0 = vec_load(at), x1 = vec_load(at + right);
            const fast_vec x2 = vec_load(at + down), x3 = vec_load(at + down + right);
            const vec_int m1 = beats(x1, x0), m3 = beats(x3, x2);
            const fast_vec u = vec_select(m1, x1, x0), v = vec_select(m3, x3, x2);
            const vec_int m = beats(v, u);
            const vec_int place = choose(m, choose(m3, zero + 3, zero + 2), m1 & 1);
            finish(vec_select(m, v, u), place, b, relu, y + out, won + out, 0);
        }
    }
}

/* One output position of any window; indices count all places, clipped ones included. */
static void max_window(const fast_pool_shape *s, const float *x, int64_t oy, int64_t ox,
                       const float *bias, bool relu, float *y, uint8_t *won)
{
    const int64_t y0 = oy * s->stride[0] - s->pad[0], x0 = ox * s->stride[1] - s->pad[1];

    for (int64_t c = 0; c < s->channels; c++)
        for (int64_t i = 0; i < s->lanes; i += VEC) {
            const int64_t out = c * s->row_c * s->lanes + i;
            fast_vec best = vec_set(0);
            vec_int place = { 0 };
            bool first = true;
            for (int64_t ky = 0; ky < s->kernel[0]; ky++)
                for (int64_t kx = 0; kx < s->kernel[1]; kx++) {
                    const int64_t iy = y0 + ky * s->dilation[0], ix = x0 + kx * s->dilation[1];
                    if (iy < 0 || iy >= s->in_h || ix < 0 || ix >= s->in_w)
                        continue;
                    const fast_vec v =
                        vec_load(x + ((iy * s->in_w + ix) * s->channels + c) * s->lanes + i);
                    const vec_int here = (vec_int){ 0 } + (int)(ky * s->kernel[1] + kx);
                    const vec_int m = first ? (vec_int){ 0 } - 1 : beats(v, best);
                    place = choose(m, here, place);
                    best = vec_select(m, v, best);
                    first = false;
                }
            finish(best, place, vec_set(bias ? bias[c] : 0), relu, y + out, won + out, s->high);
        }
}

/* The tournament for 2 x 2 windows, the general loop otherwise. */
static void max_forward(const fast_pool_shape *s, const float *x, const float *bias, bool relu,
                        float *y, uint8_t *won)
{
    const int64_t pixel = s->channels * s->lanes, out = s->row_p * s->lanes;
    const bool fast = pairs(s);

    for (int64_t oy = 0; oy < s->out_h; oy++)
        for (int64_t ox = 0; ox < s->out_w; ox++) {
            const int64_t p = (oy * s->out_w + ox) * out;
            if (fast)
                max_pair(s, x + (2 * oy * s->in_w + 2 * ox) * pixel, pixel, s->in_w * pixel, bias,
                         relu, y + p, won + p);
            else
                max_window(s, x, oy, ox, bias, relu, y + p, won + p);
        }
}

/* Distribute one row of dy to its winners of 2 x 2 windows; adds the gradients that passed to the
 * partial sums of a block. */
static inline void back_pair(int64_t lanes, const uint8_t *won, const float *dy, float *dx,
                             int64_t right, int64_t down, float *sums)
{
    fast_vec sum[PARTS] = { vec_set(0) };

    for (int64_t block = 0; block < lanes; block += FAST_VEC)
        FOR_PARTS(k)
        {
            const int64_t i = block + k;
            const vec_int place = places(won + i, 0);
            const fast_vec d = vec_load(dy + i);
            vec_store(dx + i, vec_and(place == 0, d));
            vec_store(dx + i + right, vec_and(place == 1, d));
            vec_store(dx + i + down, vec_and(place == 2, d));
            vec_store(dx + i + down + right, vec_and(place == 3, d));
            sum[k / VEC] += vec_and(place > -1, d);
        }
    FOR_PARTS(k)
    vec_store(sums + k, vec_load(sums + k) + sum[k / VEC]);
}

/* Distribute one register of dy to its winners of any window. */
static inline void back_place(const fast_pool_shape *s, vec_int place, fast_vec d, int64_t y0,
                              int64_t x0, float *dx)
{
    for (int64_t ky = 0; ky < s->kernel[0]; ky++)
        for (int64_t kx = 0; kx < s->kernel[1]; kx++) {
            const int64_t iy = y0 + ky * s->dilation[0], ix = x0 + kx * s->dilation[1];
            if (iy < 0 || iy >= s->in_h || ix < 0 || ix >= s->in_w)
                continue;
            float *at = dx + (iy * s->in_w + ix) * s->channels * s->lanes;
            vec_store(at, vec_load(at) + vec_and(place == (int)(ky * s->kernel[1] + kx), d));
        }
}

/* Distribute one row of dy to its winners of any window; adds to the partial sums as above. */
static void back_window(const fast_pool_shape *s, const uint8_t *won, const float *dy, float *dx,
                        int64_t oy, int64_t ox, float *sums)
{
    const int64_t y0 = oy * s->stride[0] - s->pad[0], x0 = ox * s->stride[1] - s->pad[1];

    FOR_PARTS(k)
    {
        fast_vec sum = vec_set(0);
        for (int64_t i = k; i < s->lanes; i += FAST_VEC) {
            const vec_int place = places(won + i, s->high);
            const fast_vec d = vec_load(dy + i);
            back_place(s, place, d, y0, x0, dx + i);
            sum += vec_and(place > -1, d);
        }
        vec_store(sums + k, vec_load(sums + k) + sum);
    }
}

/* Clear the pixels that no 2 x 2 window covers: the last column and row of odd sizes. */
static void clear_rest(const fast_pool_shape *s, float *dx)
{
    const int64_t pixel = s->channels * s->lanes;

    for (int64_t y = 0; y < s->in_h; y++) {
        const int64_t from = y < 2 * s->out_h ? 2 * s->out_w : 0;
        memset(dx + (y * s->in_w + from) * pixel, 0,
               (size_t)((s->in_w - from) * pixel) * sizeof *dx);
    }
}

/* The sums of bias gradients have two levels, as in elem_simd.c. */
static void max_back(const fast_pool_shape *s, const uint8_t *won, const float *dy, float *dx,
                     bool accumulate, float *db, float *scratch)
{
    const int64_t C = s->channels, L = s->lanes, pixel = C * L, P = s->out_h * s->out_w;
    const bool fast = pairs(s) && !accumulate;
    float *level1 = scratch, *level2 = scratch + C * FAST_VEC;

    memset(scratch, 0, (size_t)C * 2 * FAST_VEC * sizeof *scratch);
    if (fast)
        clear_rest(s, dx);
    else if (!accumulate)
        memset(dx, 0, (size_t)(s->in_h * s->in_w * pixel) * sizeof *dx);
    for (int64_t p = 0; p < P; p++) {
        const int64_t oy = p / s->out_w, ox = p % s->out_w;
        float *at = dx + (2 * oy * s->in_w + 2 * ox) * pixel;
        for (int64_t c = 0; c < C; c++) {
            const int64_t out = (p * s->row_p + c * s->row_c) * L;
            float *sums = level1 + c * FAST_VEC;
            if (fast)
                back_pair(L, won + out, dy + out, at + c * L, pixel, s->in_w * pixel, sums);
            else
                back_window(s, won + out, dy + out, dx + c * L, oy, ox, sums);
        }
        if (p % BLOCK != BLOCK - 1 && p != P - 1)
            continue;
        for (int64_t i = 0; i < C * FAST_VEC; i += VEC) {
            vec_store(level2 + i, vec_load(level2 + i) + vec_load(level1 + i));
            vec_store(level1 + i, vec_set(0));
        }
    }
    for (int64_t c = 0; db && c < C; c++)
        db[c] = vec_sum(level2 + c * FAST_VEC);
}

/* Execute `body` for each input pixel `in` (a row of all channels) of each window `p`. */
#define FOR_WINDOWS(s, p, in, body)                                                  \
    for (int64_t p = 0; p < (s)->out_h * (s)->out_w; p++)                            \
        for (int64_t k_ = 0; k_ < (s)->kernel[0] * (s)->kernel[1]; k_++) {           \
            const int64_t iy_ = p / (s)->out_w * (s)->stride[0] - (s)->pad[0] +      \
                                k_ / (s)->kernel[1] * (s)->dilation[0];              \
            const int64_t ix_ = p % (s)->out_w * (s)->stride[1] - (s)->pad[1] +      \
                                k_ % (s)->kernel[1] * (s)->dilation[1];              \
            if (iy_ < 0 || iy_ >= (s)->in_h || ix_ < 0 || ix_ >= (s)->in_w)          \
                continue;                                                            \
            const int64_t in = (iy_ * (s)->in_w + ix_) * (s)->channels * (s)->lanes; \
            body                                                                     \
        }

/* Add every pixel of a window, scaled; padding adds nothing. */
static void average(const fast_pool_shape *s, const float *x, float *y)
{
    const fast_vec scale = vec_set(1.0f / (float)(s->kernel[0] * s->kernel[1]));
    const int64_t L = s->lanes;

    memset(y, 0, (size_t)(s->out_h * s->out_w * s->channels * L) * sizeof *y);
    FOR_WINDOWS(s, p, in, {
        for (int64_t c = 0; c < s->channels; c++)
            for (int64_t i = 0; i < L; i += VEC) {
                float *at = y + (p * s->row_p + c * s->row_c) * L + i;
                vec_store(at, vec_load(at) + scale * vec_load(x + in + c * L + i));
            }
    })
}

/* Add scale dy to every pixel of its window; dx is cleared by the caller. */
static void average_back(const fast_pool_shape *s, const float *dy, float *dx)
{
    const fast_vec scale = vec_set(1.0f / (float)(s->kernel[0] * s->kernel[1]));
    const int64_t L = s->lanes;

    FOR_WINDOWS(s, p, in, {
        for (int64_t c = 0; c < s->channels; c++)
            for (int64_t i = 0; i < L; i += VEC) {
                float *at = dx + in + c * L + i;
                vec_store(at, vec_load(at) +
                                  scale * vec_load(dy + (p * s->row_p + c * s->row_c) * L + i));
            }
    })
}

/* Two partial sums hide the latency of additions. */
static void global(int64_t positions, int64_t channels, int64_t lanes, const float *x, float *y)
{
    const int64_t n = channels * lanes;
    const fast_vec scale = vec_set(1.0f / (float)positions);

    for (int64_t i = 0; i < n; i += VEC) {
        fast_vec a = vec_set(0), b = vec_set(0);
        int64_t p = 0;
        for (; p + 1 < positions; p += 2) {
            a += vec_load(x + p * n + i);
            b += vec_load(x + (p + 1) * n + i);
        }
        if (p < positions)
            a += vec_load(x + p * n + i);
        vec_store(y + i, (a + b) * scale);
    }
}

/* dx = dy / positions at every position, or += it. */
static void global_back(int64_t positions, int64_t channels, int64_t lanes, const float *dy,
                        float *dx, bool accumulate)
{
    const int64_t n = channels * lanes;
    const fast_vec scale = vec_set(1.0f / (float)positions);

    for (int64_t p = 0; p < positions; p++)
        for (int64_t i = 0; i < n; i += VEC) {
            const fast_vec d = vec_load(dy + i) * scale;
            vec_store(dx + p * n + i, accumulate ? vec_load(dx + p * n + i) + d : d);
        }
}

const fast_pool_kernels FAST_SIMD(fast__pool_kernels) = {
    .max = max_forward,
    .max_back = max_back,
    .average = average,
    .average_back = average_back,
    .global = global,
    .global_back = global_back,
};
