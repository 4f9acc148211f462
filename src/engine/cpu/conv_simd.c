/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of convolutions with the batch innermost.
 *
 * Weight gradients sum over lanes: dW[o][c] = sum over pixels and lanes of dY[o][l] X[c][l]. Both
 * operands have the lanes contiguous, so a block of 4 x 4 sums is 16 vectors that take 8 loads for
 * 16 multiply-adds and need no transposition; only at the end is each vector summed across. Sixteen
 * vectors are summed together by a tree of shuffles: 30 shuffles and 15 additions for 16 sums.
 */
#define VEC_INLINE static inline __attribute__((always_inline))
#include "engine/cpu/conv_kernels.h"
#include "engine/cpu/vec.h"

/* Add the bias and apply relu. */
static void finish(float *y, const float *bias, int64_t channels, int64_t lanes, bool relu)
{
    for (int64_t c = 0; c < channels; c++) {
        const fast_vec b = vec_set(bias ? bias[c] : 0.0f);
        fast_vec *row = (fast_vec *)(void *)(y + c * lanes);
        if (relu) {
            for (int64_t v = 0; v < lanes / FAST_VEC; v++)
                row[v] = vec_relu(row[v] + b);
        } else {
            for (int64_t v = 0; v < lanes / FAST_VEC; v++)
                row[v] += b;
        }
    }
}

/* Fold halves, quarters, pairs and single elements of two vectors: the steps of the tree. */
VEC_INLINE fast_vec fold_half(fast_vec a, fast_vec b)
{
    return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
           __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30,
                                   31);
}

/* Elements 0-3 + 4-7 and 8-11 + 12-15 of a, then of b. */
VEC_INLINE fast_vec fold_quarter(fast_vec a, fast_vec b)
{
    return __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
           __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30,
                                   31);
}

/* Neighbouring pairs of elements, of a and b in turns of two. */
VEC_INLINE fast_vec fold_pair(fast_vec a, fast_vec b)
{
    return __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) +
           __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30,
                                   31);
}

/* Neighbouring elements, of a and b in turns of two. */
VEC_INLINE fast_vec fold_single(fast_vec a, fast_vec b)
{
    return __builtin_shufflevector(a, b, 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28,
                                   30) +
           __builtin_shufflevector(a, b, 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15, 29, 31);
}

/* Return the vector whose element 4 i + j is the sum of the sixteen elements of v[i][j]. */
VEC_INLINE fast_vec sums(fast_vec v[4][4])
{
    fast_vec group[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++)
        group[j] = fold_quarter(fold_half(v[0][j], v[1][j]), fold_half(v[2][j], v[3][j]));
    return fold_single(fold_pair(group[0], group[1]), fold_pair(group[2], group[3]));
}

/* Compute one block of m x n <= 4 x 4 sums; m and n are constants after inlining. */
VEC_INLINE void dot_block(const fast_dot *dot, const float *a, const float *b, float *c,
                          const int m, const int n)
{
    fast_vec acc[4][4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++)
            acc[i][j] = vec_set(0.0f);
    }
    for (int64_t p = 0; p < dot->count; p++) {
        for (int64_t v = 0; v < dot->length; v += FAST_VEC) {
            fast_vec left[4];
#pragma GCC unroll 4
            for (int i = 0; i < m; i++)
                left[i] = vec_load(a + i * dot->a_row + v);
#pragma GCC unroll 4
            for (int j = 0; j < n; j++) {
                const fast_vec right = vec_load(b + j * dot->b_row + v);
#pragma GCC unroll 4
                for (int i = 0; i < m; i++)
                    acc[i][j] += left[i] * right;
            }
        }
        a += dot->a_step;
        b += dot->b_step;
    }
    const fast_vec s = sums(acc);
#pragma GCC unroll 4
    for (int i = 0; i < m; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < n; j++)
            c[i * dot->ldc + j] += s[4 * i + j];
    }
}

/* One function per size of a block, so that its loops unroll. */
#define DOT_BLOCK(m, n)                                                                      \
    static void dot_##m##x##n(const fast_dot *dot, const float *a, const float *b, float *c) \
    {                                                                                        \
        dot_block(dot, a, b, c, m, n);                                                       \
    }
#define DOT_BLOCKS(m) DOT_BLOCK(m, 1) DOT_BLOCK(m, 2) DOT_BLOCK(m, 3) DOT_BLOCK(m, 4)
DOT_BLOCKS(1)
DOT_BLOCKS(2)
DOT_BLOCKS(3)
DOT_BLOCKS(4)

typedef void dot_fn(const fast_dot *dot, const float *a, const float *b, float *c);
static dot_fn *const dot_blocks[4][4] = {
    { dot_1x1, dot_1x2, dot_1x3, dot_1x4 },
    { dot_2x1, dot_2x2, dot_2x3, dot_2x4 },
    { dot_3x1, dot_3x2, dot_3x3, dot_3x4 },
    { dot_4x1, dot_4x2, dot_4x3, dot_4x4 },
};

/* Compute all sums block by block. */
static void dot_all(const fast_dot *dot, const float *a, const float *b, float *c)
{
    for (int64_t i = 0; i < dot->m; i += 4) {
        const int64_t m = dot->m - i < 4 ? dot->m - i : 4;
        for (int64_t j = 0; j < dot->n; j += 4) {
            const int64_t n = dot->n - j < 4 ? dot->n - j : 4;
            dot_blocks[m - 1][n - 1](dot, a + i * dot->a_row, b + j * dot->b_row,
                                     c + i * dot->ldc + j);
        }
    }
}

const fast_conv_kernels FAST_SIMD(fast__conv_kernels) = {
    .finish = finish,
    .dot = dot_all,
};
