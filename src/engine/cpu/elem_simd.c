/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elementwise kernels, and transposition between sample-major and batch-innermost order in blocks
 * of VEC x VEC that stay in registers. Sums over positions have two levels (32 positions, then all)
 * of 16 partial sums, so that their error grows with the square root of the square root of the
 * length.
 *
 *     to_lanes      [sample][feature]          ->  [feature][sample, 0 past the batch]
 *     from_lanes    [feature][sample]          ->  [sample][feature]
 *
 * A kernel with an activation is an instance per activation: the choice is made once a call, and
 * its loop has no branch.
 */
#include "engine/cpu/kernel_tables.h"
#include "engine/cpu/transpose.h"
#include "engine/cpu/vec.h"

enum { BLOCK = 32 /* positions of the first level of a sum */ };

/* dst[j * dst_stride + i] = src[i * src_stride + j] for i < rows, j < columns, both at most VEC;
 * rows to VEC are filled with zeros if `fill`. */
static inline void transpose_block(const float *src, int64_t src_stride, int64_t rows,
                                   int64_t columns, float *dst, int64_t dst_stride, bool fill)
{
    if (rows == VEC && columns == VEC) {
        fast_vec r[VEC];
        for (int i = 0; i < VEC; i++)
            r[i] = vec_loadu(src + i * src_stride);
        vec_transpose(r);
        for (int i = 0; i < VEC; i++)
            vec_storeu(dst + i * dst_stride, r[i]);
        return;
    }
#ifdef __AVX512F__
    const __mmask16 in = (__mmask16)((1u << columns) - 1u);
    const __mmask16 out = (__mmask16)(fill ? 0xffffu : (1u << rows) - 1u);
    fast_vec r[16];

    for (int i = 0; i < 16; i++)
        r[i] = i < rows ? (fast_vec)_mm512_maskz_loadu_ps(in, src + i * src_stride) : vec_set(0);
    vec_transpose(r);
    for (int i = 0; i < 16; i++)
        if (i < columns)
            _mm512_mask_storeu_ps(dst + i * dst_stride, out, (__m512)r[i]);
#else
    for (int64_t j = 0; j < columns; j++)
        for (int64_t i = 0; i < (fill ? VEC : rows); i++)
            dst[j * dst_stride + i] = i < rows ? src[i * src_stride + j] : 0;
#endif
}

/* The smaller of two numbers. */
static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Sample-major rows to lanes; lanes past `count` become zero. */
static void to_lanes(const float *src, int64_t src_stride, int64_t count, int64_t columns,
                     int64_t lanes, float *dst, int64_t dst_stride)
{
    for (int64_t j = 0; j < columns; j += VEC)
        for (int64_t i = 0; i < lanes; i += VEC) {
            const int64_t rows = i >= count ? 0 : least(count - i, VEC);
            transpose_block(rows ? src + i * src_stride + j : src, src_stride, rows,
                            least(columns - j, VEC), dst + j * dst_stride + i, dst_stride, true);
        }
}

/* Lanes to sample-major rows. */
static void from_lanes(const float *src, int64_t src_stride, int64_t rows, int64_t count,
                       float *dst, int64_t dst_stride)
{
    for (int64_t i = 0; i < count; i += VEC)
        for (int64_t f = 0; f < rows; f += VEC)
            transpose_block(src + f * src_stride + i, src_stride, least(rows - f, VEC),
                            least(count - i, VEC), dst + i * dst_stride + f, dst_stride, false);
}

/* y = x */
static void copy(int64_t n, const float *x, float *y)
{
    memcpy(y, x, (size_t)n * sizeof *y);
}

/* y += x */
static void add(int64_t n, const float *x, float *y)
{
    for (int64_t i = 0; i < n; i += VEC)
        vec_store(y + i, vec_load(y + i) + vec_load(x + i));
}

/* y = a + b */
static void sum(int64_t n, const float *a, const float *b, float *y)
{
    for (int64_t i = 0; i < n; i += VEC)
        vec_store(y + i, vec_load(a + i) + vec_load(b + i));
}

/* y = a b, or y += a b */
static void multiply(int64_t n, const float *a, const float *b, float *y, bool accumulate)
{
    for (int64_t i = 0; i < n; i += VEC) {
        const fast_vec p = vec_load(a + i) * vec_load(b + i);
        vec_store(y + i, accumulate ? vec_load(y + i) + p : p);
    }
}

/* The activation, with constants folded after inlining. */
static inline __attribute__((always_inline)) fast_vec apply(fast_act act, float slope, fast_vec x)
{
    const fast_vec zero = vec_set(0);
    fast_vec e;

    switch (act) {
    case FAST_ACT_RELU:
        return vec_max(zero, x); /* in this order NaN passes */
    case FAST_ACT_LEAKY:
        return vec_select(x > zero, x, x * slope);
    case FAST_ACT_TANH:
        return vec_tanh(x);
    case FAST_ACT_SIGMOID:
        return vec_sigmoid(x);
    case FAST_ACT_GELU:
        return x * vec_normal(x, &e);
    default:
        return x;
    }
}

/* The derivative times d, from the output y for all but GELU; relu's at 0 is 0. */
static inline __attribute__((always_inline)) fast_vec apply_back(fast_act act, float slope,
                                                                 fast_vec x, fast_vec y, fast_vec d)
{
    const fast_vec zero = vec_set(0);
    fast_vec e;

    switch (act) {
    case FAST_ACT_RELU:
        return vec_and(y > zero, d);
    case FAST_ACT_LEAKY:
        return vec_select(y > zero, d, d * slope);
    case FAST_ACT_TANH:
        return d * (1.0f - y * y);
    case FAST_ACT_SIGMOID:
        return d * y * (1.0f - y);
    case FAST_ACT_GELU: {
        const fast_vec whole = vec_normal(x, &e);
        return d * (whole + 0.398942280f * x * e);
    }
    default:
        return d;
    }
}

/* Call an instance per activation, so that the switch is outside the loops. */
#define EACH_ACT(call)          \
    switch (act) {              \
    case FAST_ACT_RELU:         \
        call(FAST_ACT_RELU);    \
        break;                  \
    case FAST_ACT_LEAKY:        \
        call(FAST_ACT_LEAKY);   \
        break;                  \
    case FAST_ACT_TANH:         \
        call(FAST_ACT_TANH);    \
        break;                  \
    case FAST_ACT_SIGMOID:      \
        call(FAST_ACT_SIGMOID); \
        break;                  \
    case FAST_ACT_GELU:         \
        call(FAST_ACT_GELU);    \
        break;                  \
    default:                    \
        call(FAST_ACT_NONE);    \
    }

/* One instance of bias_act(). */
static inline __attribute__((always_inline)) void bias_act_of(fast_act act, int64_t positions,
                                                              int64_t channels, int64_t lanes,
                                                              const float *bias, float slope,
                                                              float *y)
{
    for (int64_t p = 0; p < positions; p++)
        for (int64_t c = 0; c < channels; c++, y += lanes) {
            const fast_vec b = vec_set(bias ? bias[c] : 0);
            for (int64_t i = 0; i < lanes; i += VEC)
                vec_store(y + i, apply(act, slope, vec_load(y + i) + b));
        }
}

/* y = act(y + bias), by the instance of the activation. */
static void bias_act(int64_t positions, int64_t channels, int64_t lanes, const float *bias,
                     fast_act act, float slope, float *y)
{
    if (!bias && act == FAST_ACT_NONE)
        return;
#define CALL(a) bias_act_of(a, positions, channels, lanes, bias, slope, y)
    EACH_ACT(CALL)
#undef CALL
}

/* One instance of bias_act_back(): masks dy and sums it over positions and lanes. */
static inline __attribute__((always_inline)) void
bias_act_back_of(fast_act act, int64_t positions, int64_t channels, int64_t lanes, const float *y,
                 float slope, float *dy, float *db, float *scratch)
{
    const fast_vec zero = vec_set(0);
    float *level1 = scratch, *level2 = scratch + channels * FAST_VEC;

    if (db)
        memset(level2, 0, (size_t)(channels * FAST_VEC) * sizeof *level2);
    for (int64_t p = 0; p < positions; p++) {
        for (int64_t c = 0; c < channels; c++) {
            const int64_t row = (p * channels + c) * lanes;
            float *level = level1 + c * FAST_VEC;
            fast_vec s[PARTS];
            FOR_PARTS(k)
            s[k / VEC] = p % BLOCK && db ? vec_load(level + k) : zero;
            for (int64_t i = row; i < row + lanes; i += FAST_VEC)
                FOR_PARTS(k)
                {
                    fast_vec d = vec_load(dy + i + k);
                    if (act != FAST_ACT_NONE) {
                        d = apply_back(act, slope, zero, vec_load(y + i + k), d);
                        vec_store(dy + i + k, d);
                    }
                    s[k / VEC] += d;
                }
            FOR_PARTS(k)
            if (db)
                vec_store(level + k, s[k / VEC]);
        }
        if (db && (p % BLOCK == BLOCK - 1 || p == positions - 1))
            add(channels * FAST_VEC, level1, level2);
    }
    for (int64_t c = 0; db && c < channels; c++)
        db[c] = vec_sum(level2 + c * FAST_VEC);
}

/* dy *= act'(y) and the sums of dy, by the instance of the activation. */
static void bias_act_back(int64_t positions, int64_t channels, int64_t lanes, const float *y,
                          fast_act act, float slope, float *dy, float *db, float *scratch)
{
    if (!db && act == FAST_ACT_NONE)
        return;
#define CALL(a) bias_act_back_of(a, positions, channels, lanes, y, slope, dy, db, scratch)
    EACH_ACT(CALL)
#undef CALL
}

/* One instance of act_forward(). */
static inline __attribute__((always_inline)) void act_of(fast_act act, int64_t n, float slope,
                                                         const float *x, float *y)
{
    for (int64_t i = 0; i < n; i += VEC)
        vec_store(y + i, apply(act, slope, vec_load(x + i)));
}

static void act_forward(int64_t n, fast_act act, float slope, const float *x, float *y)
{
#define CALL(a) act_of(a, n, slope, x, y)
    EACH_ACT(CALL)
#undef CALL
}

/* One instance of act_back(). */
static inline __attribute__((always_inline)) void act_back_of(fast_act act, int64_t n, float slope,
                                                              const float *x, const float *y,
                                                              const float *dy, float *dx,
                                                              bool accumulate)
{
    for (int64_t i = 0; i < n; i += VEC) {
        const fast_vec d =
            apply_back(act, slope, vec_load(x + i), vec_load(y + i), vec_load(dy + i));
        vec_store(dx + i, accumulate ? vec_load(dx + i) + d : d);
    }
}

/* dx = or += dy act', by the instance of the activation. */
static void act_back(int64_t n, fast_act act, float slope, const float *x, const float *y,
                     const float *dy, float *dx, bool accumulate)
{
#define CALL(a) act_back_of(a, n, slope, x, y, dy, dx, accumulate)
    EACH_ACT(CALL)
#undef CALL
}

const fast_elem_kernels FAST_SIMD(fast__elem_kernels) = {
    .to_lanes = to_lanes,
    .from_lanes = from_lanes,
    .copy = copy,
    .add = add,
    .sum = sum,
    .multiply = multiply,
    .bias_act = bias_act,
    .bias_act_back = bias_act_back,
    .act = act_forward,
    .act_back = act_back,
};
