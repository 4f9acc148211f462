/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/cpu/gemm.h"
#include "engine/cpu/simd.h"

/* A tile of up to FAST_GEMM_ROWS_MAX registers by FAST_GEMM_COLUMNS columns that is summed in
 * registers: c(i, j) = sum over p < k of a(i, p) b(p, j). */
enum { FAST_GEMM_ROWS_MAX = 4, FAST_GEMM_COLUMNS = 6 };

/* Where the elements of b are. */
typedef enum fast_gemm_right {
    FAST_GEMM_PACKED, /* [p][FAST_GEMM_COLUMNS] */
    FAST_GEMM_DOWN,   /* those of a column are next to each other: b(p, j) at p + j * stride */
    FAST_GEMM_ACROSS, /* those of a row are: b(p, j) at p * stride + j */
    FAST_GEMM_RIGHTS
} fast_gemm_right;

typedef struct fast_gemm_tile {
    int64_t k;         /* terms of the sum */
    const float *a;    /* [k][registers], lda floats from term to term */
    int64_t lda;       /* see a */
    const float *b;    /* of the first column */
    int64_t stride;    /* see fast_gemm_right */
    float *c;          /* the tile */
    int64_t ldc;       /* floats from column to column of c */
    const int64_t *at; /* floats from c to each of its registers */
    bool accumulate;   /* the sums start with c */
} fast_gemm_tile;

typedef void fast_gemm_tile_fn(const fast_gemm_tile *tile);

/* The product of gemm.h without a library, and the tiles that it is made of. gemm_simd.c */
typedef struct fast_gemm_kernels {
    /* c = a b or c += a b. Needs 34 KiB of stack. */
    void (*run)(const fast_gemm *gemm, const float *a, const float *b, float *c);
    /* By place of b, registers of a column less one, columns less one; NULL past `rows`. */
    fast_gemm_tile_fn *tile[FAST_GEMM_RIGHTS][FAST_GEMM_ROWS_MAX][FAST_GEMM_COLUMNS];
    int rows; /* registers of a whole tile's column: FAST_GEMM_ROWS_MAX or 2 */
} fast_gemm_kernels;

FAST_KERNELS(gemm)
