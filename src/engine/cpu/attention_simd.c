/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Causal attention, head by head and sample by sample:
 *
 *     S[t][s] = q[t] . k[s] / sqrt(D), s <= t     P = softmax(S)     z[t] = sum_s P[t][s] v[s]
 *     dP = dz . v    dS = P (dP - sum(P dP)) / sqrt(D)
 *     dq[t] = sum_s dS k[s]    dk[s] = sum_t dS q[t]    dv[s] = sum_t P dz[t]
 *
 * Activations have samples in the lanes. With lanes as elements of a product every operand would be
 * a register of its own, and the operands of a head, 1 MB each, would not fit a cache. So a head's
 * q, k and v of 16 samples are transposed to rows of one sample, [T][D], 64 KB each, and its
 * products are those of matrices, by the tiles of gemm_simd.c. The one that has k (or v) by columns
 * reads it in panels, [T / TILE][D][TILE].
 *
 * Causal products end at the last position of a tile of COLUMNS positions, inside which P and dS
 * are 0 where s > t:
 *
 *     s ->
 *   t  P P 0 0            tile of 2: its product ends here
 *   |  P P P 0
 *      --------
 *      P P P P 0 0 ...
 *
 * P is not saved, T floats a position, head and sample: the backward pass computes it again from q
 * and k, to the same bits, in the time that it would take to write and read it.
 *
 * Sums of a softmax have 16 partial sums, so that instruction sets with multiply-add give the same
 * bits.
 */
#define VEC_INLINE static inline __attribute__((always_inline))
#include "engine/cpu/gemm_kernels.h"
#include "engine/cpu/kernel_tables.h"
#include "engine/cpu/vec.h"

#include <math.h>

enum {
    ROWS = VEC_REGISTERS == 32 ? 4 : 2,
    TILE = ROWS * VEC,
    COLUMNS = FAST_GEMM_COLUMNS,
    BLOCK =
        FAST_ATTENTION_BLOCK /* positions whose scores are computed before those of the next ones */
};

/* The sizes of a head. */
typedef struct head_shape {
    int64_t T, D, L; /* positions, channels, lanes */
    int64_t wide;    /* channels of a row of one sample: D in whole blocks, zeros past D */
    int64_t row;     /* floats of a row of P, S and dS */
    int64_t each;    /* floats of one sample's operand */
    float scale;     /* 1 / sqrt(D) */
} head_shape;

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static head_shape shape_of(int64_t T, int64_t D, int64_t L)
{
    const int64_t wide = fast__attention_wide(D);

    return (head_shape){ .T = T,
                         .D = D,
                         .L = L,
                         .wide = wide,
                         .row = fast__attention_row(T),
                         .each = fast__attention_each(T, D),
                         .scale = 1.0f / sqrtf((float)D) };
}

/* c[j][i] = sum over k of a[k][i] b(k, j) for the columns j of a tile, and up to `columns` i. */
static void product(fast_gemm_right place, int64_t n, int64_t columns, fast_gemm_tile tile)
{
    static const int64_t side_by_side[FAST_GEMM_ROWS_MAX] = { 0, VEC, 2 * VEC, 3 * VEC };

    tile.at = side_by_side;
    for (int64_t i = 0; i < columns; i += TILE, tile.a += TILE, tile.c += TILE) {
        const int64_t rows = (least(columns - i, TILE) + VEC - 1) / VEC;
        FAST_SIMD(fast__gemm_kernels).tile[place][rows - 1][n - 1](&tile);
    }
}

/* Transpose 16 samples of a head to rows of one sample; those past `count` become zeros. */
static void to_rows(const head_shape *s, int64_t count, const float *from, int64_t stride,
                    float *to)
{
    if (s->wide > s->D || count < FAST_VEC)
        memset(to, 0, (size_t)(FAST_VEC * s->each) * sizeof *to);
    for (int64_t t = 0; t < s->T; t++)
        FAST_SIMD(fast__elem_kernels)
            .from_lanes(from + t * stride, s->L, s->D, count, to + t * s->wide, s->each);
}

/* q, k and v of a head, one after the other. */
static void to_operands(const head_shape *s, int64_t count, int64_t C, const float *qkv, float *q)
{
    for (int part = 0; part < 3; part++)
        to_rows(s, count, qkv + part * C * s->L, 3 * C * s->L, q + part * FAST_VEC * s->each);
}

/* Transpose rows of one sample to 16 samples in lanes. */
static void to_lanes(const head_shape *s, const float *from, int64_t stride, float *to)
{
    for (int64_t t = 0; t < s->T; t++)
        FAST_SIMD(fast__elem_kernels)
            .to_lanes(from + t * s->wide, s->each, FAST_VEC, s->D, FAST_VEC, to + t * stride, s->L);
}

/* Panels of k by columns: to[panel][d][TILE]. */
static void to_panels(const head_shape *s, const float *from, float *to)
{
    for (int64_t t = 0; t < s->T; t += TILE, to += TILE * s->wide) {
        const int64_t rows = least(s->T - t, TILE);
        if (rows < TILE)
            memset(to, 0, (size_t)(TILE * s->wide) * sizeof *to);
        FAST_SIMD(fast__elem_kernels)
            .from_lanes(from + t * s->wide, s->wide, rows, s->wide, to, TILE);
    }
}

/* c[t - first][s] = a[t] . panels[s] for the positions [first, last) and all s that they see. */
static void scores(const head_shape *h, int64_t first, int64_t last, const float *a,
                   const float *panels, float *c)
{
    for (int64_t s = 0; s < last; s += TILE)
        for (int64_t t = first; t < last; t += COLUMNS) {
            const int64_t n = least(last - t, COLUMNS);
            if (t + n > s)
                product(FAST_GEMM_DOWN, n, least(t + n - s, TILE),
                        (fast_gemm_tile){ .k = h->D,
                                          .a = panels + s * h->wide,
                                          .lda = TILE,
                                          .b = a + t * h->wide,
                                          .stride = h->wide,
                                          .c = c + (t - first) * h->row + s,
                                          .ldc = h->row });
        }
}

/* to[t] = sum over s of p[t - first][s] b[s] for the positions [first, last). */
static void weighted(const head_shape *h, int64_t first, int64_t last, const float *p,
                     const float *b, float *to)
{
    for (int64_t t = first; t < last; t += COLUMNS) {
        const int64_t n = least(last - t, COLUMNS);
        product(FAST_GEMM_DOWN, n, h->wide,
                (fast_gemm_tile){ .k = t + n,
                                  .a = b,
                                  .lda = h->wide,
                                  .b = p + (t - first) * h->row,
                                  .stride = h->row,
                                  .c = to + t * h->wide,
                                  .ldc = h->wide });
    }
}

/* to[s] = sum over t of p[t][s] b[t]. */
static void weighted_across(const head_shape *h, const float *p, const float *b, float *to)
{
    for (int64_t s = 0; s < h->T; s += COLUMNS)
        product(FAST_GEMM_ACROSS, least(h->T - s, COLUMNS), h->wide,
                (fast_gemm_tile){ .k = h->T - s,
                                  .a = b + s * h->wide,
                                  .lda = h->wide,
                                  .b = p + s * h->row + s,
                                  .stride = h->row,
                                  .c = to + s * h->wide,
                                  .ldc = h->wide });
}

/* The lanes of a block's register that are below `count`. */
VEC_INLINE vec_int below(int64_t count, int64_t first)
{
    return vec_lanes(0, count - first);
}

/* Softmax of `count` scores times `scale`, in place; zeros from there to `end`. */
static void softmax_row(int64_t count, int64_t end, float scale, float *row)
{
    _Alignas(64) float parts[FAST_VEC];
    fast_vec max[PARTS], sum[PARTS];

    FOR_PARTS(part)
    {
        max[part / VEC] = vec_set(row[0]);
        sum[part / VEC] = vec_set(0);
    }
    for (int64_t s = 0; s < count; s += FAST_VEC)
        FOR_PARTS(part)
    max[part / VEC] =
        vec_max(vec_select(below(count, s + part), vec_load(row + s + part), max[part / VEC]),
                max[part / VEC]);
    FOR_PARTS(part)
    vec_store(parts + part, max[part / VEC]);
    const fast_vec most = vec_set(vec_most(parts));
    for (int64_t s = 0; s < count; s += FAST_VEC)
        FOR_PARTS(part)
        {
            const fast_vec e = vec_exp((vec_load(row + s + part) - most) * scale);
            const fast_vec seen = vec_and(below(count, s + part), e);
            vec_store(row + s + part, seen);
            sum[part / VEC] += seen;
        }
    FOR_PARTS(part)
    vec_store(parts + part, sum[part / VEC]);
    const float total = 1.0f / vec_sum(parts);
    for (int64_t s = 0; s < count; s += VEC)
        vec_store(row + s, vec_load(row + s) * total);
    for (int64_t s = (count + FAST_VEC - 1) / FAST_VEC * FAST_VEC; s < end; s++)
        row[s] = 0;
}

/* The gradient of a row of scores from that of its probabilities, in place; zeros to `end`. */
static void softmax_back(int64_t count, int64_t end, float scale, const float *p, float *ds)
{
    _Alignas(64) float parts[FAST_VEC];
    fast_vec dot[PARTS];

    FOR_PARTS(part)
    dot[part / VEC] = vec_set(0);
    for (int64_t s = 0; s < count; s += FAST_VEC)
        FOR_PARTS(part)
        {
            const fast_vec d = vec_and(below(count, s + part), vec_load(ds + s + part));
            dot[part / VEC] += vec_load(p + s + part) * d;
        }
    FOR_PARTS(part)
    vec_store(parts + part, dot[part / VEC]);
    const float mean = vec_sum(parts);
    for (int64_t s = 0; s < count; s += VEC) {
        const fast_vec d = vec_load(p + s) * (vec_load(ds + s) - mean) * scale;
        vec_store(ds + s, vec_and(below(count, s), d));
    }
    for (int64_t s = (count + VEC - 1) / VEC * VEC; s < end; s++)
        ds[s] = 0;
}

/* The last position that the tile of position t sees, plus one. */
static int64_t end_of(int64_t t, int64_t T)
{
    return least(t / COLUMNS * COLUMNS + COLUMNS, T);
}

/* Probabilities of the positions [first, last): p[t - first][s]. */
static void probabilities(const head_shape *h, int64_t first, int64_t last, const float *q,
                          const float *panels, float *p)
{
    scores(h, first, last, q, panels, p);
    for (int64_t t = first; t < last; t++, p += h->row)
        softmax_row(t + 1, end_of(t, h->T), h->scale, p);
}

/* One sample of a head forward: z takes the place of q. p: BLOCK rows. */
static void head(const head_shape *h, float *q, const float *k, const float *v, float *panels,
                 float *p)
{
    to_panels(h, k, panels);
    for (int64_t t = 0; t < h->T; t += BLOCK) {
        const int64_t last = least(t + BLOCK, h->T);
        probabilities(h, t, last, q, panels, p);
        weighted(h, t, last, p, v, q);
    }
}

/* All heads forward, 16 samples at a time. */
static void forward(int64_t T, int64_t C, int64_t heads, int64_t L, int64_t count, const float *qkv,
                    float *z, float *scratch)
{
    const head_shape h = shape_of(T, C / heads, L);
    float *q = scratch, *k = q + FAST_VEC * h.each, *v = k + FAST_VEC * h.each;
    float *panels = v + FAST_VEC * h.each, *p = panels + fast__attention_panels(T, h.D);

    for (int64_t i = 0; i < heads; i++)
        for (int64_t lane = 0; lane < L; lane += FAST_VEC) {
            const int64_t at = i * h.D * L + lane;
            const int64_t samples = count > lane ? least(count - lane, FAST_VEC) : 0;
            to_operands(&h, samples, C, qkv + at, q);
            for (int64_t s = 0; s < samples; s++)
                head(&h, q + s * h.each, k + s * h.each, v + s * h.each, panels, p);
            to_lanes(&h, q, C * L, z + at);
        }
}

/* Backward pass of one sample of a head: dk takes the place of k, dq that of v, dv that of q.
 * panels: of k, then of v; p and ds: T rows. */
static void back_head(const head_shape *h, float *q, float *k, float *v, const float *dz,
                      float *panels, float *p, float *ds)
{
    float *v_panels = panels + fast__attention_panels(h->T, h->D);

    to_panels(h, k, panels);
    to_panels(h, v, v_panels);
    for (int64_t t = 0; t < h->T; t += BLOCK) {
        const int64_t last = least(t + BLOCK, h->T), at = t * h->row;
        probabilities(h, t, last, q, panels, p + at);
        scores(h, t, last, dz, v_panels, ds + at);
        for (int64_t i = t; i < last; i++)
            softmax_back(i + 1, end_of(i, h->T), h->scale, p + i * h->row, ds + i * h->row);
        weighted(h, t, last, ds + at, k, v);
    }
    weighted_across(h, ds, q, k);
    weighted_across(h, p, dz, q);
}

/* All heads backward. */
static void backward(int64_t T, int64_t C, int64_t heads, int64_t L, int64_t count,
                     const float *qkv, const float *dz, float *dqkv, float *scratch)
{
    const head_shape h = shape_of(T, C / heads, L);
    float *q = scratch, *k = q + FAST_VEC * h.each, *v = k + FAST_VEC * h.each;
    float *d = v + FAST_VEC * h.each, *panels = d + FAST_VEC * h.each;
    float *p = panels + 2 * fast__attention_panels(T, h.D), *ds = p + T * h.row;

    for (int64_t i = 0; i < heads; i++)
        for (int64_t lane = 0; lane < L; lane += FAST_VEC) {
            const int64_t at = i * h.D * L + lane;
            const int64_t samples = count > lane ? least(count - lane, FAST_VEC) : 0;
            to_operands(&h, samples, C, qkv + at, q);
            to_rows(&h, samples, dz + at, C * L, d);
            for (int64_t s = 0; s < samples; s++)
                back_head(&h, q + s * h.each, k + s * h.each, v + s * h.each, d + s * h.each,
                          panels, p, ds);
            to_lanes(&h, v, 3 * C * L, dqkv + at);
            to_lanes(&h, k, 3 * C * L, dqkv + C * L + at);
            to_lanes(&h, q, 3 * C * L, dqkv + 2 * C * L + at);
        }
}

const fast_attention_kernels FAST_SIMD(fast__attention_kernels) = {
    .forward = forward,
    .backward = backward,
};
