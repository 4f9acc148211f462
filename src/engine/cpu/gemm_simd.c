/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products by a packed micro-kernel (Goto and van de Geijn, "Anatomy of High-Performance
 * Matrix Multiplication", 2008), column major as in gemm.h: C (m x n) = A (m x k) B (k x n).
 *
 * A tile of C, TILE rows by COLUMNS columns, is summed in registers over up to DEPTH elements of k:
 * per element the loads of a column of A, and a broadcast of each element of B. With AVX2 a tile is
 * 16 x 6, 12 of 16 registers; with 32 registers it is 4 x 6 of them.
 *
 *                   GROUP columns of B
 *                   +------+------+---
 *                   | tile | tile |        k up to DEPTH
 *      panel of A   +------+------+---
 *     [DEPTH][TILE] | C    | C    |        TILE rows
 *                   +------+------+---
 *
 * Loops, outermost first: depths, groups of columns, panels of rows, tiles.
 *
 * A is packed because its columns are often a power of two apart, which a cache of few ways cannot
 * hold; that costs one copy a group of columns. B is read in place if its columns are contiguous,
 * six streams at a time; a transposed B is packed to [k][COLUMNS], a group of columns once for all
 * rows of A. Rows past the last whole tile are padded with zeros, and summed into a tile in memory.
 */
#define VEC_INLINE static inline __attribute__((always_inline))
#include "engine/cpu/gemm_kernels.h"
#include "engine/cpu/vec.h"

#if VEC_REGISTERS == 32
enum { ROWS = 4 }; /* registers of a tile's column: 32 registers hold 4 x 6 and the operands */
#define FOR_ROWS(x) x(1) x(2) x(3) x(4)
#else
enum { ROWS = 2 };
#define FOR_ROWS(x) x(1) x(2)
#endif
enum {
    TILE = ROWS * VEC, /* rows of a tile */
    COLUMNS = FAST_GEMM_COLUMNS,
    DEPTH = 128,  /* a panel of A has 8 KiB with AVX2: it stays in the first-level cache */
    GROUP = 48,   /* columns of a transposed B that are packed together: 24 KiB */
    PACK_MIN = 18 /* columns that a packed panel must serve: fewer do not pay for the copy */
};

/* One tile of `rows` registers and n columns. C is the start of the sums, not added at their end:
 * the bits do not depend on where sums are cut. */
VEC_INLINE void tile_of(const fast_gemm_tile *t, int64_t step, int64_t column, const int rows,
                        const int n)
{
    const int64_t lda = t->lda, ldc = t->ldc;
    const float *a = t->a, *b = t->b;
    fast_vec acc[COLUMNS][ROWS];
    float *c[ROWS];

#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
        c[i] = t->c + t->at[i];
#pragma GCC unroll 6
    for (int j = 0; j < n; j++) {
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++)
            acc[j][i] = t->accumulate ? vec_loadu(c[i] + j * ldc) : vec_set(0);
    }
    for (int64_t p = 0; p < t->k; p++, a += lda, b += step) {
        fast_vec left[ROWS];
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++)
            left[i] = vec_loadu(a + i * VEC);
#pragma GCC unroll 6
        for (int j = 0; j < n; j++) {
            const fast_vec right = vec_set(b[j * column]);
#pragma GCC unroll 4
            for (int i = 0; i < rows; i++)
                acc[j][i] += left[i] * right;
        }
    }
#pragma GCC unroll 6
    for (int j = 0; j < n; j++) {
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++)
            vec_storeu(c[i] + j * ldc, acc[j][i]);
    }
}

/* One function for each place of B, number of rows and of columns. */
#define TILE_OF(rows, n)                                     \
    static void packed_##rows##x##n(const fast_gemm_tile *t) \
    {                                                        \
        tile_of(t, COLUMNS, 1, rows, n);                     \
    }                                                        \
    static void down_##rows##x##n(const fast_gemm_tile *t)   \
    {                                                        \
        tile_of(t, 1, t->stride, rows, n);                   \
    }                                                        \
    static void across_##rows##x##n(const fast_gemm_tile *t) \
    {                                                        \
        tile_of(t, t->stride, 1, rows, n);                   \
    }
#define TILES_OF(rows) \
    TILE_OF(rows, 1)   \
    TILE_OF(rows, 2) TILE_OF(rows, 3) TILE_OF(rows, 4) TILE_OF(rows, 5) TILE_OF(rows, 6)
FOR_ROWS(TILES_OF)

#define PACKED(r)                                       \
    {                                                   \
        packed_##r##x1, packed_##r##x2, packed_##r##x3, \
        packed_##r##x4, packed_##r##x5, packed_##r##x6  \
    },
#define DOWN(r) \
    { down_##r##x1, down_##r##x2, down_##r##x3, down_##r##x4, down_##r##x5, down_##r##x6 },
#define ACROSS(r)                                       \
    {                                                   \
        across_##r##x1, across_##r##x2, across_##r##x3, \
        across_##r##x4, across_##r##x5, across_##r##x6  \
    },

/* to[p][TILE] = rows [0, rows) of column p of a, zeros to TILE. */
static void pack_rows(const float *a, int64_t lda, int64_t rows, int64_t k, float *to)
{
    for (int64_t p = 0; p < k; p++, a += lda, to += TILE) {
        if (rows == TILE) {
#pragma GCC unroll 4
            for (int i = 0; i < TILE; i += VEC)
                vec_store(to + i, vec_loadu(a + i));
            continue;
        }
        memset(to, 0, TILE * sizeof *to);
        memcpy(to, a, (size_t)rows * sizeof *to);
    }
}

/* to[j / COLUMNS][p][COLUMNS] = b[p * ldb + j]; the last columns are left as they are. */
static void pack_columns(const float *b, int64_t ldb, int64_t columns, int64_t k, float *to)
{
    for (int64_t j = 0; j < columns; j += COLUMNS) {
        const int64_t n = columns - j < COLUMNS ? columns - j : COLUMNS;
        for (int64_t p = 0; p < k; p++, to += COLUMNS) {
            if (n == COLUMNS)
                memcpy(to, b + p * ldb + j, COLUMNS * sizeof *to);
            else
                memcpy(to, b + p * ldb + j, (size_t)n * sizeof *to);
        }
    }
}

/* Sum one panel of rows, `step` floats from column to column of A, into C, tile by tile. */
static void run_panel(const fast_gemm *g, int64_t rows, int64_t k, const float *a, int64_t step,
                      const float *b, int64_t columns, float *c, bool accumulate)
{
    static const int64_t side_by_side[FAST_GEMM_ROWS_MAX] = { 0, VEC, 2 * VEC, 3 * VEC };
    _Alignas(64) float edge[COLUMNS * TILE];

    for (int64_t j = 0; j < columns; j += COLUMNS) {
        const int64_t n = columns - j < COLUMNS ? columns - j : COLUMNS;
        float *to = c + j * g->ldc;
        fast_gemm_tile tile = { .k = k,
                                .a = a,
                                .lda = step,
                                .b = b + j * (g->trans_b ? k : g->ldb),
                                .stride = g->ldb,
                                .c = to,
                                .ldc = g->ldc,
                                .at = side_by_side,
                                .accumulate = accumulate };
        fast_gemm_tile_fn *run_tile =
            FAST_SIMD(fast__gemm_kernels)
                .tile[g->trans_b ? FAST_GEMM_PACKED : FAST_GEMM_DOWN][ROWS - 1][n - 1];
        if (rows == TILE) {
            run_tile(&tile);
            continue;
        }
        for (int64_t i = 0; accumulate && i < n; i++)
            memcpy(edge + i * TILE, to + i * g->ldc, (size_t)rows * sizeof *edge);
        tile.c = edge;
        tile.ldc = TILE;
        run_tile(&tile);
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * g->ldc, edge + i * TILE, (size_t)rows * sizeof *edge);
    }
}

/* Depth by depth, group by group of columns, panel by panel of rows. */
static void run(const fast_gemm *g, const float *a, const float *b, float *c)
{
    _Alignas(64) float left[DEPTH * TILE], right[GROUP * DEPTH];
    const int64_t group = g->trans_b ? GROUP : g->n;

    for (int64_t p = 0; p < g->k; p += DEPTH) {
        const int64_t k = g->k - p < DEPTH ? g->k - p : DEPTH;
        for (int64_t j = 0; j < g->n; j += group) {
            const int64_t columns = g->n - j < group ? g->n - j : group;
            const float *b_part = g->trans_b ? right : b + j * g->ldb + p;
            if (g->trans_b)
                pack_columns(b + p * g->ldb + j, g->ldb, columns, k, right);
            for (int64_t i = 0; i < g->m; i += TILE) {
                const int64_t rows = g->m - i < TILE ? g->m - i : TILE;
                const bool pack = rows < TILE || columns > PACK_MIN;
                const float *a_part = a + p * g->lda + i;
                if (pack)
                    pack_rows(a_part, g->lda, rows, k, left);
                run_panel(g, rows, k, pack ? left : a_part, pack ? TILE : g->lda, b_part, columns,
                          c + j * g->ldc + i, g->accumulate || p > 0);
            }
        }
    }
}

const fast_gemm_kernels FAST_SIMD(fast__gemm_kernels) = {
    .run = run,
    .tile = { [FAST_GEMM_PACKED] = { FOR_ROWS(PACKED) },
              [FAST_GEMM_DOWN] = { FOR_ROWS(DOWN) },
              [FAST_GEMM_ACROSS] = { FOR_ROWS(ACROSS) } },
    .rows = ROWS,
};
