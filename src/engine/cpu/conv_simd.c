/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of convolutions with the batch innermost.
 *
 * Weight gradients sum over lanes: dW[o][c] = sum over pixels and lanes of dY[o][l] X[c][l]. Both
 * operands have the lanes contiguous. 16 channels c are packed to [l][16], so that a lane of dY
 * times a vector of channels adds to 16 sums at once, and no sum is across a vector:
 *
 *     X [c][l]  ->  packed [l][16]        sums [o][16] += dY[o][l] packed[l]
 *
 * The terms of a sum follow each other, 128 at a time, so all instruction sets give the same bits.
 *
 * What is left, fewer than 4 rows or 16 columns, sums each vector across: a block of 4 x 4 sums
 * (4 x 3 with 16 registers) takes 8 loads for 16 multiply-adds. With AVX-512 sixteen vectors are
 * summed together by a tree: 16 shuffles, 14 blends and 15 additions for 16 sums. Narrower
 * registers take the lanes of a block part by part, then the same tree: the bits are the same.
 *
 *     lanes 0-7 + 8-15     then 0-3 + 4-7     then 0, 1 + 2, 3     then 0 + 1
 */
#define VEC_INLINE static inline __attribute__((always_inline))
#include "engine/cpu/conv_kernels.h"
#include "engine/cpu/transpose.h"
#include "engine/cpu/vec.h"

/* Add the bias and apply relu. */
static void finish(float *y, const float *bias, int64_t channels, int64_t lanes, bool relu)
{
    for (int64_t c = 0; c < channels; c++) {
        const fast_vec b = vec_set(bias ? bias[c] : 0.0f);
        float *row = y + c * lanes;
        if (relu) {
            for (int64_t v = 0; v < lanes; v += VEC)
                vec_store(row + v, vec_relu(vec_load(row + v) + b));
        } else {
            for (int64_t v = 0; v < lanes; v += VEC)
                vec_store(row + v, vec_load(row + v) + b);
        }
    }
}

/* Sums of a block, ROW to a row: the sums, the factors of a row and one of a column fit into the
 * registers, 16 of them or 32. */
#if defined(__AVX512F__) || defined(VEC_NEON)
enum { ROW = 4 };
#else
enum { ROW = 3 };
#endif

#ifdef __AVX512F__
/* Fold halves, quarters, pairs and single elements of two vectors: the steps of the tree. The first
 * three add a blend, for which any unit will do, to a shuffle, for which there is one. */
VEC_INLINE fast_vec fold_half(fast_vec a, fast_vec b)
{
    return (fast_vec)_mm512_mask_blend_ps(0xff00, (__m512)a, (__m512)b) +
           (fast_vec)_mm512_shuffle_f32x4((__m512)a, (__m512)b, 0x4e);
}

/* Elements 0-3 + 4-7 of a, then of b, then 8-11 + 12-15 of a, then of b. */
VEC_INLINE fast_vec fold_quarter(fast_vec a, fast_vec b)
{
    const __m512i other =
        _mm512_setr_epi32(4, 5, 6, 7, 16, 17, 18, 19, 12, 13, 14, 15, 24, 25, 26, 27);

    return (fast_vec)_mm512_mask_blend_ps(0xf0f0, (__m512)a, (__m512)b) +
           (fast_vec)_mm512_permutex2var_ps((__m512)a, other, (__m512)b);
}

/* Neighbouring pairs of elements, of a and b in turns of two. */
VEC_INLINE fast_vec fold_pair(fast_vec a, fast_vec b)
{
    return (fast_vec)_mm512_mask_blend_ps(0xcccc, (__m512)a, (__m512)b) +
           (fast_vec)_mm512_castpd_ps(_mm512_shuffle_pd((__m512d)a, (__m512d)b, 0x55));
}

/* Neighbouring elements, of a and b in turns of two. */
VEC_INLINE fast_vec fold_single(fast_vec a, fast_vec b)
{
    return __builtin_shufflevector(a, b, 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28,
                                   30) +
           __builtin_shufflevector(a, b, 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15, 29, 31);
}

/* s[i][j] = the sum of the sixteen elements of v[i][j]. */
VEC_INLINE void sums(fast_vec v[4][ROW], float s[4][4])
{
    fast_vec group[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++)
        group[j] = fold_quarter(fold_half(v[0][j], v[2][j]), fold_half(v[1][j], v[3][j]));
    vec_storeu(s[0], fold_single(fold_pair(group[0], group[1]), fold_pair(group[2], group[3])));
}
#else
typedef float vec_quad __attribute__((vector_size(16)));

/* Elements 0-3 + 4-7 of a register: the second level of the tree with AVX-512. */
VEC_INLINE vec_quad fold_quarter(fast_vec a)
{
#ifdef __AVX2__
    return (vec_quad)_mm256_castps256_ps128((__m256)a) +
           (vec_quad)_mm256_extractf128_ps((__m256)a, 1);
#else
    return a;
#endif
}

/* s[i][j] = the sum of the elements of v[i][j], in the order of the tree with AVX-512. */
VEC_INLINE void sums(fast_vec v[4][ROW], float s[4][4])
{
#pragma GCC unroll 4
    for (int j = 0; j < ROW; j++) {
        const vec_quad a = fold_quarter(v[0][j]), b = fold_quarter(v[1][j]);
        const vec_quad c = fold_quarter(v[2][j]), d = fold_quarter(v[3][j]);
        const vec_quad ab =
            __builtin_shufflevector(a, b, 0, 1, 4, 5) + __builtin_shufflevector(a, b, 2, 3, 6, 7);
        const vec_quad cd =
            __builtin_shufflevector(c, d, 0, 1, 4, 5) + __builtin_shufflevector(c, d, 2, 3, 6, 7);
        const vec_quad r = __builtin_shufflevector(ab, cd, 0, 2, 4, 6) +
                           __builtin_shufflevector(ab, cd, 1, 3, 5, 7);
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            s[i][j] = r[i];
    }
}
#endif

/* The sums of the products of the lanes [part, part + VEC) of every block of lanes. */
VEC_INLINE void dot_part(const fast_dot *dot, const float *a, const float *b, int part,
                         fast_vec acc[4][ROW], const int m, const int n)
{
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < ROW; j++)
            acc[i][j] = vec_set(0.0f);
    }
    for (int64_t p = 0; p < dot->count; p++) {
        for (int64_t v = part; v < dot->length; v += FAST_VEC) {
            fast_vec right[ROW];
#pragma GCC unroll 4
            for (int j = 0; j < n; j++)
                right[j] = vec_load(b + j * dot->b_row + v);
#pragma GCC unroll 4
            for (int i = 0; i < m; i++) {
                const fast_vec left = vec_load(a + i * dot->a_row + v);
#pragma GCC unroll 4
                for (int j = 0; j < n; j++)
                    acc[i][j] += left * right[j];
            }
        }
        a += dot->a_step;
        b += dot->b_step;
    }
}

#ifndef __AVX512F__
/* acc += other, element by element. */
VEC_INLINE void dot_add(fast_vec acc[4][ROW], fast_vec other[4][ROW])
{
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < ROW; j++)
            acc[i][j] += other[i][j];
    }
}
#endif

/* Four sums of a row, added to C together: one by one they cost a third of a short dot. */
typedef float dot_row __attribute__((vector_size(16), aligned(4), may_alias));

/* Compute one block of m x n <= 4 x ROW sums; m and n are constants after inlining. */
VEC_INLINE void dot_block(const fast_dot *dot, const float *a, const float *b, float *c,
                          const int m, const int n)
{
    fast_vec acc[4][ROW];
    float s[4][4];

    dot_part(dot, a, b, 0, acc, m, n);
#ifndef __AVX512F__
    fast_vec half[4][ROW];
    dot_part(dot, a, b, 8, half, m, n);
    dot_add(acc, half);
#ifndef __AVX2__
    fast_vec odd[4][ROW];
    dot_part(dot, a, b, 4, odd, m, n);
    dot_part(dot, a, b, 12, half, m, n);
    dot_add(odd, half);
    dot_add(acc, odd);
#endif
#endif
    sums(acc, s);
#pragma GCC unroll 4
    for (int i = 0; i < m; i++) {
        float *to = c + i * dot->ldc;
        if (n == 4) {
            *(dot_row *)(void *)to += *(const dot_row *)(const void *)s[i];
            continue;
        }
#pragma GCC unroll 4
        for (int j = 0; j < n; j++)
            to[j] += s[i][j];
    }
}

/* One function per size of a block, so that its loops unroll. */
#define DOT_BLOCK(m, n)                                                                      \
    static void dot_##m##x##n(const fast_dot *dot, const float *a, const float *b, float *c) \
    {                                                                                        \
        dot_block(dot, a, b, c, m, n);                                                       \
    }
#define DOT_ROW(n) DOT_BLOCK(1, n) DOT_BLOCK(2, n) DOT_BLOCK(3, n) DOT_BLOCK(4, n)
#define DOT_OF(n)                                  \
    {                                              \
        dot_1x##n, dot_2x##n, dot_3x##n, dot_4x##n \
    }
DOT_ROW(1)
DOT_ROW(2)
DOT_ROW(3)
#if defined(__AVX512F__) || defined(VEC_NEON)
DOT_ROW(4)
#endif

typedef void dot_fn(const fast_dot *dot, const float *a, const float *b, float *c);
static dot_fn *const dot_blocks[ROW][4] = {
    DOT_OF(1),
    DOT_OF(2),
    DOT_OF(3),
#if defined(__AVX512F__) || defined(VEC_NEON)
    DOT_OF(4),
#endif
};

/* Compute the sums block by block. */
static void dot_narrow(const fast_dot *dot, const float *a, const float *b, float *c)
{
    for (int64_t i = 0; i < dot->m; i += 4) {
        const int64_t m = dot->m - i < 4 ? dot->m - i : 4;
        for (int64_t j = 0; j < dot->n; j += ROW) {
            const int64_t n = dot->n - j < ROW ? dot->n - j : ROW;
            dot_blocks[n - 1][m - 1](dot, a + i * dot->a_row, b + j * dot->b_row,
                                     c + i * dot->ldc + j);
        }
    }
}

enum {
    DEEP = 128,   /* terms of 16 columns that are packed together: 8 KiB of the first cache */
    TILE_MAX = 16 /* sums of a tile, in rows of 16 */
};

/* Some of the terms of each sum. */
typedef struct dot_terms {
    int64_t pixels; /* number of pixels */
    int64_t length; /* floats of each */
} dot_terms;

/* to[term][16] = 16 columns from b on. 64 shuffles of 16 vectors of 16 terms: a sixth of the time
 * of the products of 32 rows. `ahead` prefetches the terms after these, maybe past the end of b: by
 * an integer, since a pointer must not be formed there. */
VEC_INLINE void pack(const fast_dot *dot, const dot_terms *terms, const float *b, float *to,
                     const bool ahead)
{
    const uintptr_t next = (uintptr_t)(terms->pixels * dot->b_step) * sizeof *b;

    for (int64_t p = 0; p < terms->pixels; p++, b += dot->b_step)
        for (int64_t v = 0; v < terms->length; v += VEC, to += VEC * FAST_VEC)
            FOR_PARTS(k)
            {
                fast_vec r[VEC];
#pragma GCC unroll 16
                for (int i = 0; i < VEC; i++) {
                    const float *from = b + (k + i) * dot->b_row + v;
                    r[i] = vec_load(from);
                    if (ahead && v % FAST_VEC == 0)
                        __builtin_prefetch((const void *)((uintptr_t)from + next), 0, 2);
                }
                vec_transpose(r);
#pragma GCC unroll 16
                for (int i = 0; i < VEC; i++)
                    vec_store(to + i * FAST_VEC + k, r[i]);
            }
}

/* Not inlined: most products have their operands in a cache, and dot_packed() stays small. */
static __attribute__((noinline)) void pack_ahead(const fast_dot *dot, const dot_terms *terms,
                                                 const float *b, float *to)
{
    pack(dot, terms, b, to, true);
}

/* Add the products of some rows of a with packed columns, 16 to a group, to c.
 *
 *     each term     right <- the packed columns              1 or 2 vectors of 16
 *                   sum[i] += a[i][term] right               one row after the other
 *
 * Rows are addressed from every fourth one, so that few registers hold where they are. With two
 * groups a row is loaded for two multiply-adds: 10 loads for 16 of them instead of 17. */
VEC_INLINE void tile(const fast_dot *dot, const dot_terms *terms, const float *a,
                     const float *packed, float *c, const int rows, const int groups)
{
    const int64_t step = dot->a_row, three = 3 * step;
    const float *fourth[TILE_MAX / 4];
    fast_vec sum[TILE_MAX][PARTS];

#pragma GCC unroll 16
    for (int i = 0; i < rows * groups; i++)
        FOR_PARTS(k) sum[i][k / VEC] = vec_set(0.0f);
    for (int64_t p = 0; p < terms->pixels; p++, a += dot->a_step) {
#pragma GCC unroll 4
        for (int i = 0; i < rows; i += 4)
            fourth[i / 4] = a + i * step;
        for (int64_t v = 0; v < terms->length; v++, packed += FAST_VEC) {
            fast_vec right[2][PARTS];
#pragma GCC unroll 2
            for (int g = 0; g < groups; g++)
                FOR_PARTS(k) right[g][k / VEC] = vec_load(packed + g * DEEP * FAST_VEC + k);
#pragma GCC unroll 16
            for (int i = 0; i < rows; i++) {
                const fast_vec left = vec_set(fourth[i / 4][i % 4 == 3 ? three : i % 4 * step]);
#pragma GCC unroll 2
                for (int g = 0; g < groups; g++)
                    FOR_PARTS(k) sum[i * groups + g][k / VEC] += left * right[g][k / VEC];
            }
#pragma GCC unroll 4
            for (int i = 0; i < rows; i += 4)
                fourth[i / 4]++;
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows * groups; i++) {
        float *to = c + i / groups * dot->ldc + i % groups * FAST_VEC;
        FOR_PARTS(k) vec_storeu(to + k, vec_loadu(to + k) + sum[i][k / VEC]);
    }
}

/* A function per size of a tile, named by rows and groups:
 *
 *     AVX-512       16 x 1, and 8 x 2 where there are 32 columns: 16 registers of sums
 *     AVX2          6 x 1: 12 registers of sums
 *     NEON          4 x 1: 16 registers of sums
 *     SSE2          2 x 1: 8 registers of sums
 */
typedef void tile_fn(const fast_dot *dot, const dot_terms *terms, const float *a,
                     const float *packed, float *c);
#define TILE(rows, groups)                                                            \
    static void tile_##rows##x##groups(const fast_dot *dot, const dot_terms *terms,   \
                                       const float *a, const float *packed, float *c) \
    {                                                                                 \
        tile(dot, terms, a, packed, c, rows, groups);                                 \
    }

/* choose() picks the tile for the next of `left` rows, a multiple of 4, and returns its height: as
 * much as registers hold, and so that what is left at the end is no smaller. */
#if defined(__AVX512F__)
enum { GROUPS = 2 };
TILE(4, 1)
TILE(8, 1)
TILE(16, 1)
TILE(4, 2)
TILE(8, 2)
static int choose(int64_t left, int groups, tile_fn **fn)
{
    const int rows = left >= 16 && groups == 1 ? 16 : left >= 8 ? 8 : 4;

    *fn = rows == 16 ? tile_16x1 : rows == 8 ? tile_8x1 : tile_4x1;
    if (groups == 2)
        *fn = rows == 8 ? tile_8x2 : tile_4x2;
    return rows;
}
#elif defined(__AVX2__)
enum { GROUPS = 1 };
TILE(4, 1)
TILE(6, 1)
static int choose(int64_t left, int groups, tile_fn **fn)
{
    const bool six = left >= 12 || left % 4 != 0;

    (void)groups;
    *fn = six ? tile_6x1 : tile_4x1;
    return six ? 6 : 4;
}
#else
enum { GROUPS = 1 };
#ifdef VEC_NEON
enum { ROWS = 4 };
TILE(4, 1)
#define TILE_ONLY tile_4x1
#else
enum { ROWS = 2 };
TILE(2, 1)
#define TILE_ONLY tile_2x1
#endif
static int choose(int64_t left, int groups, tile_fn **fn)
{
    (void)left;
    (void)groups;
    *fn = TILE_ONLY;
    return ROWS;
}
#endif

/* Add some terms to the sums of all rows of a, a multiple of 4, with groups of columns. */
static void dot_packed(const fast_dot *dot, const dot_terms *terms, int groups, const float *a,
                       const float *b, float *c)
{
    _Alignas(64) float packed[GROUPS][DEEP * FAST_VEC];
    tile_fn *fn;

    for (int g = 0; g < groups; g++) {
        const float *from = b + g * FAST_VEC * dot->b_row;
        if (dot->ahead)
            pack_ahead(dot, terms, from, packed[g]);
        else
            pack(dot, terms, from, packed[g], false);
    }
    for (int64_t i = 0, rows; i < dot->m; i += rows) {
        rows = choose(dot->m - i, groups, &fn);
        fn(dot, terms, a + i * dot->a_row, packed[0], c + i * dot->ldc);
    }
}

/* All sums of rows, a multiple of 4, and columns, a multiple of 16: some terms at a time, so that
 * packed columns are in the first cache while all rows pass, and c in the second. */
static void dot_wide(const fast_dot *dot, const float *a, const float *b, float *c)
{
    const int64_t pixels = dot->length < DEEP ? DEEP / dot->length : 1;

    for (int64_t p = 0; p < dot->count; p += pixels)
        for (int64_t v = 0; v < dot->length; v += DEEP) {
            const dot_terms terms = {
                .pixels = dot->count - p < pixels ? dot->count - p : pixels,
                .length = dot->length - v < DEEP ? dot->length - v : DEEP,
            };
            const float *left = a + p * dot->a_step + v, *right = b + p * dot->b_step + v;
            for (int64_t j = 0, groups; j < dot->n; j += groups * FAST_VEC) {
                groups = dot->n - j >= GROUPS * FAST_VEC ? GROUPS : 1;
                dot_packed(dot, &terms, (int)groups, left, right + j * dot->b_row, c + j);
            }
        }
}

/* Compute all sums: those of 4 rows and 16 columns or more by packed columns, the others alone. */
static void dot_all(const fast_dot *dot, const float *a, const float *b, float *c)
{
    const int64_t rows = dot->m / 4 * 4, columns = dot->n / FAST_VEC * FAST_VEC;
    fast_dot part = *dot;

    if (rows == 0 || columns == 0) {
        dot_narrow(dot, a, b, c);
        return;
    }
    part.m = rows;
    part.n = columns;
    dot_wide(&part, a, b, c);
    part.n = dot->n - columns;
    dot_narrow(&part, a, b + columns * dot->b_row, c + columns);
    part.m = dot->m - rows;
    part.n = dot->n;
    dot_narrow(&part, a + rows * dot->a_row, b, c + rows * dot->ldc);
}

const fast_conv_kernels FAST_SIMD(fast__conv_kernels) = {
    .finish = finish,
    .dot = dot_all,
};
