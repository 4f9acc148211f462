/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of convolutions with the batch innermost.
 *
 * Weight gradients sum over lanes: dW[o][c] = sum over pixels and lanes of dY[o][l] X[c][l]. Both
 * operands have the lanes contiguous, so a block of 4 x 4 sums (4 x 3 with 16 registers) takes 8
 * loads for 16 multiply-adds and needs no transposition; only at the end is each vector summed
 * across. With AVX-512 sixteen vectors are summed together by a tree: 16 shuffles, 14 blends and
 * 15 additions for 16 sums. Narrower registers take the lanes of a block part by part, then the
 * same tree, so that all give the same bits:
 *
 *     lanes 0-7 + 8-15     then 0-3 + 4-7     then 0, 1 + 2, 3     then 0 + 1
 */
#define VEC_INLINE static inline __attribute__((always_inline))
#include "engine/cpu/conv_kernels.h"
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

/* Compute all sums block by block. */
static void dot_all(const fast_dot *dot, const float *a, const float *b, float *c)
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

const fast_conv_kernels FAST_SIMD(fast__conv_kernels) = {
    .finish = finish,
    .dot = dot_all,
};
