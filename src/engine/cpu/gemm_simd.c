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

#if defined(__AVX512F__) || defined(VEC_NEON)
enum { ROWS = 4 }; /* registers of a tile's column: 32 registers hold 4 x 6 and the operands */
#else
enum { ROWS = 2 };
#endif
enum {
    TILE = ROWS * VEC, /* rows of a tile */
    COLUMNS = 6,       /* columns of a tile */
    DEPTH = 128,       /* a panel of A has 8 KiB with AVX2: it stays in the first-level cache */
    GROUP = 48,        /* columns of a transposed B that are packed together: 24 KiB */
    PACK_MIN = 18      /* columns that a packed panel must serve: fewer do not pay for the copy */
};

/* One tile of n columns: c[j][TILE] = or += sum over p < k of a[p][TILE] b[p * step + j * column].
 * C is the start of the sums, not added at their end: the bits do not depend on DEPTH. */
VEC_INLINE void tile_of(int64_t k, const float *a, int64_t lda, const float *b, int64_t step,
                        int64_t column, float *c, int64_t ldc, bool accumulate, const int n)
{
    fast_vec acc[COLUMNS][ROWS];

#pragma GCC unroll 6
    for (int j = 0; j < n; j++) {
#pragma GCC unroll 4
        for (int i = 0; i < ROWS; i++)
            acc[j][i] = accumulate ? vec_loadu(c + j * ldc + i * VEC) : vec_set(0);
    }
    for (int64_t p = 0; p < k; p++, a += lda, b += step) {
        fast_vec left[ROWS];
#pragma GCC unroll 4
        for (int i = 0; i < ROWS; i++)
            left[i] = vec_loadu(a + i * VEC);
#pragma GCC unroll 6
        for (int j = 0; j < n; j++) {
            const fast_vec right = vec_set(b[j * column]);
#pragma GCC unroll 4
            for (int i = 0; i < ROWS; i++)
                acc[j][i] += left[i] * right;
        }
    }
#pragma GCC unroll 6
    for (int j = 0; j < n; j++) {
#pragma GCC unroll 4
        for (int i = 0; i < ROWS; i++)
            vec_storeu(c + j * ldc + i * VEC, acc[j][i]);
    }
}

/* One function per number of columns, for B in place and for B packed. */
#define TILES(n)                                                                                   \
    static void place_##n(int64_t k, const float *a, int64_t lda, const float *b, int64_t column,  \
                          float *c, int64_t ldc, bool accumulate)                                  \
    {                                                                                              \
        tile_of(k, a, lda, b, 1, column, c, ldc, accumulate, n);                                   \
    }                                                                                              \
    static void packed_##n(int64_t k, const float *a, int64_t lda, const float *b, int64_t column, \
                           float *c, int64_t ldc, bool accumulate)                                 \
    {                                                                                              \
        (void)column;                                                                              \
        tile_of(k, a, lda, b, COLUMNS, 1, c, ldc, accumulate, n);                                  \
    }
TILES(1)
TILES(2)
TILES(3)
TILES(4)
TILES(5)
TILES(6)

typedef void tile_fn(int64_t k, const float *a, int64_t lda, const float *b, int64_t column,
                     float *c, int64_t ldc, bool accumulate);
static tile_fn *const tiles[2][COLUMNS] = {
    { place_1, place_2, place_3, place_4, place_5, place_6 },
    { packed_1, packed_2, packed_3, packed_4, packed_5, packed_6 },
};

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
    _Alignas(64) float edge[COLUMNS * TILE];

    for (int64_t j = 0; j < columns; j += COLUMNS) {
        const int64_t n = columns - j < COLUMNS ? columns - j : COLUMNS;
        tile_fn *tile = tiles[g->trans_b][n - 1];
        const float *right = b + j * (g->trans_b ? k : g->ldb);
        float *to = c + j * g->ldc;
        if (rows == TILE) {
            tile(k, a, step, right, g->ldb, to, g->ldc, accumulate);
            continue;
        }
        for (int64_t i = 0; accumulate && i < n; i++)
            memcpy(edge + i * TILE, to + i * g->ldc, (size_t)rows * sizeof *edge);
        tile(k, a, step, right, g->ldb, edge, TILE, accumulate);
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

const fast_gemm_kernels FAST_SIMD(fast__gemm_kernels) = { .run = run };
