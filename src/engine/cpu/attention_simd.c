/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Causal attention with samples in the lanes: per head and register of samples,
 *
 *     S[t][s] = q[t] . k[s] / sqrt(D), s <= t     P = softmax(S)     z[t] = sum_s P[t][s] v[s]
 *     dP = dz . v    dS = P (dP - sum(P dP)) / sqrt(D)
 *     dq[t] = sum_s dS k[s]    dk[s] = sum_t dS q[t]    dv[s] = sum_t P dz[t]
 *
 * All six are products of matrices whose elements are registers. A tile of 4 x COLUMNS results
 * stays in registers, so that a loaded register takes part in three or four multiply-adds. Causal
 * products are done for BLOCK positions together: they end at the last position of the block, and
 * P and dS are 0 where s > t inside the block.
 *
 *     s ->
 *   t  P P 0 0            block of 2: the product of its rows ends at the diagonal block's end
 *   |  P P P 0
 *      --------
 *      P P P P 0 0 ...
 *
 * The caller's qkv [T][3 C][L] has one channel of neighbouring positions 3 C L floats apart, often
 * a multiple of the cache's size, so the operands of a head are first copied to [T][D + 1]
 * registers: the unused last one spreads positions over the sets of the cache. p has the
 * registers of one head and VEC samples next to each other: [heads][L / VEC][T][T][VEC].
 */
#define VEC_INLINE static inline __attribute__((always_inline))
#include "engine/cpu/kernel_tables.h"
#include "engine/cpu/vec.h"

#include <math.h>

#if defined(__AVX512F__) || defined(VEC_NEON)
enum { COLUMNS = 4 };
#else
enum { COLUMNS = 3 }; /* 16 registers hold 4 x 3 sums and the operands */
#endif
enum { ROWS = 4, BLOCK = 8 };

/* A matrix of registers: element (i, p) is at i * row + p * step floats. */
typedef struct lane_matrix {
    const float *at;   /* element (0, 0) */
    int64_t row, step; /* floats from row to row, from element to element */
} lane_matrix;

/* c(i, j) = sum over p < k of a(i, p) b(j, p) for m <= ROWS rows and n <= COLUMNS columns. Rows
 * and columns past the last repeat it, and are not stored. */
static void tile(int64_t m, int64_t n, int64_t k, lane_matrix a, lane_matrix b, float *c,
                 int64_t c_row, int64_t c_column)
{
    fast_vec acc[ROWS][COLUMNS];
    const float *left[ROWS], *right[COLUMNS];

#pragma GCC unroll 4
    for (int i = 0; i < ROWS; i++) {
        left[i] = a.at + (i < m ? i : m - 1) * a.row;
#pragma GCC unroll 4
        for (int j = 0; j < COLUMNS; j++)
            acc[i][j] = vec_set(0);
    }
#pragma GCC unroll 4
    for (int j = 0; j < COLUMNS; j++)
        right[j] = b.at + (j < n ? j : n - 1) * b.row;
    for (int64_t p = 0, x = 0, y = 0; p < k; p++, x += a.step, y += b.step) {
        fast_vec factor[COLUMNS];
#pragma GCC unroll 4
        for (int j = 0; j < COLUMNS; j++)
            factor[j] = vec_load(right[j] + y);
#pragma GCC unroll 4
        for (int i = 0; i < ROWS; i++) {
            const fast_vec v = vec_load(left[i] + x);
#pragma GCC unroll 4
            for (int j = 0; j < COLUMNS; j++)
                acc[i][j] += v * factor[j];
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < ROWS; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < COLUMNS; j++)
            if (i < m && j < n)
                vec_store(c + i * c_row + j * c_column, acc[i][j]);
    }
}

/* The same for any m and n: tile by tile, all rows of a tile's columns first. */
static void product(int64_t m, int64_t n, int64_t k, lane_matrix a, lane_matrix b, float *c,
                    int64_t c_row, int64_t c_column)
{
    for (int64_t j = 0; j < n; j += COLUMNS)
        for (int64_t i = 0; i < m; i += ROWS)
            tile(m - i, n - j, k, (lane_matrix){ a.at + i * a.row, a.row, a.step },
                 (lane_matrix){ b.at + j * b.row, b.row, b.step }, c + i * c_row + j * c_column,
                 c_row, c_column);
}

/* Copy D channels of T positions, `wide` floats apart, to [T][D + 1][VEC]; returns the end. */
static float *pack(int64_t T, int64_t D, int64_t L, const float *from, int64_t wide, float *to)
{
    for (int64_t t = 0; t < T; t++, to += VEC)
        for (int64_t d = 0; d < D; d++, to += VEC)
            vec_store(to, vec_load(from + t * wide + d * L));
    return to;
}

/* Softmax of `count` scores times `scale`, in place; zeros from there to `end`. */
static void softmax_row(int64_t count, int64_t end, float scale, float *row)
{
    fast_vec max = vec_load(row), sum = vec_set(0);

    for (int64_t s = 1; s < count; s++)
        max = vec_max(max, vec_load(row + s * VEC));
    for (int64_t s = 0; s < count; s++) {
        const fast_vec e = vec_exp((vec_load(row + s * VEC) - max) * scale);
        vec_store(row + s * VEC, e);
        sum += e;
    }
    sum = 1.0f / sum;
    for (int64_t s = 0; s < count; s++)
        vec_store(row + s * VEC, vec_load(row + s * VEC) * sum);
    for (int64_t s = count; s < end; s++)
        vec_store(row + s * VEC, vec_set(0));
}

/* One head forward for a register of samples: scores, probabilities, and the weighted sums of v. */
static void head(int64_t T, int64_t C, int64_t D, int64_t L, const float *qkv, float *p, float *z,
                 float *scratch)
{
    const int64_t wide = 3 * C * L, row = T * VEC, packed = (D + 1) * VEC;
    const float scale = 1.0f / sqrtf((float)D);
    float *q = scratch, *k = pack(T, D, L, qkv, wide, q);
    float *v = pack(T, D, L, qkv + C * L, wide, k);

    pack(T, D, L, qkv + 2 * C * L, wide, v);
    for (int64_t t = 0; t < T; t += BLOCK) {
        const int64_t m = T - t < BLOCK ? T - t : BLOCK;
        float *block = p + t * row;
        product(m, t + m, D, (lane_matrix){ q + t * packed, packed, VEC },
                (lane_matrix){ k, packed, VEC }, block, row, VEC);
        for (int64_t i = 0; i < m; i++)
            softmax_row(t + i + 1, t + m, scale, block + i * row);
        product(m, D, t + m, (lane_matrix){ block, row, VEC }, (lane_matrix){ v, VEC, packed },
                z + t * C * L, C * L, L);
    }
}

/* All heads forward. */
static void forward(int64_t T, int64_t C, int64_t heads, int64_t L, const float *qkv, float *p,
                    float *z, float *scratch)
{
    const int64_t D = C / heads;

    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < L; i += VEC, p += T * T * VEC)
            head(T, C, D, L, qkv + h * D * L + i, p, z + h * D * L + i, scratch);
}

/* The gradient of a row of scores from that of its probabilities, in place. */
static void softmax_back(int64_t count, float scale, const float *p, float *ds)
{
    fast_vec dot = vec_set(0);

    for (int64_t s = 0; s < count; s++)
        dot += vec_load(p + s * VEC) * vec_load(ds + s * VEC);
    for (int64_t s = 0; s < count; s++)
        vec_store(ds + s * VEC, vec_load(p + s * VEC) * (vec_load(ds + s * VEC) - dot) * scale);
}

/* Backward pass of one head for a register of samples. */
static void back_head(int64_t T, int64_t C, int64_t D, int64_t L, const float *qkv, const float *p,
                      const float *dz, float *dqkv, float *scratch)
{
    const int64_t wide = 3 * C * L, row = T * VEC, packed = (D + 1) * VEC;
    const float scale = 1.0f / sqrtf((float)D);
    float *ds = scratch, *q = ds + T * row, *k = pack(T, D, L, qkv, wide, q);
    float *v = pack(T, D, L, qkv + C * L, wide, k);
    float *z = pack(T, D, L, qkv + 2 * C * L, wide, v);

    pack(T, D, L, dz, C * L, z);
    for (int64_t t = 0; t < T; t += BLOCK) {
        const int64_t m = T - t < BLOCK ? T - t : BLOCK;
        float *block = ds + t * row;
        product(m, t + m, D, (lane_matrix){ z + t * packed, packed, VEC },
                (lane_matrix){ v, packed, VEC }, block, row, VEC);
        for (int64_t i = 0; i < m; i++)
            softmax_back(t + m, scale, p + (t + i) * row, block + i * row);
        product(m, D, t + m, (lane_matrix){ block, row, VEC }, (lane_matrix){ k, VEC, packed },
                dqkv + t * wide, wide, L);
    }
    for (int64_t s = 0; s < T; s += BLOCK) {
        const int64_t m = T - s < BLOCK ? T - s : BLOCK, at = s * row + s * VEC;
        product(m, D, T - s, (lane_matrix){ ds + at, VEC, row },
                (lane_matrix){ q + s * packed, VEC, packed }, dqkv + s * wide + C * L, wide, L);
        product(m, D, T - s, (lane_matrix){ p + at, VEC, row },
                (lane_matrix){ z + s * packed, VEC, packed }, dqkv + s * wide + 2 * C * L, wide, L);
    }
}

/* All heads backward. */
static void backward(int64_t T, int64_t C, int64_t heads, int64_t L, const float *qkv,
                     const float *p, const float *dz, float *dqkv, float *scratch)
{
    const int64_t D = C / heads;

    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < L; i += VEC, p += T * T * VEC) {
            const int64_t at = h * D * L + i;
            back_head(T, C, D, L, qkv + at, p, dz + at, dqkv + at, scratch);
        }
}

const fast_attention_kernels FAST_SIMD(fast__attention_kernels) = {
    .forward = forward,
    .backward = backward,
};
