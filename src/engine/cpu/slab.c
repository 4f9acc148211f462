/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients of weights that sum over positions: dW [O][C] = sum over p of dY_p [O][L] X_p [L][C],
 * with X sample-major. A large dW does not fit the second-level cache, so that one product a
 * position would read and write it in memory each time. It is computed in slabs of rows that fit,
 * all positions of a slab before the next one; every element still adds its terms in order of p.
 *
 *     dW   rows 0 .. slab - 1        one product a position
 *          rows slab .. 2 slab - 1   one product a position
 *          the rest                  products of their own size
 */
#include "engine/cpu/cpu.h"

enum {
    SLAB,     /* the first position overwrites */
    SLAB_ADD, /* later positions add */
    REST,     /* the last slab, if it is smaller */
    REST_ADD  /* later positions of the last slab */
};

enum {
    SLAB_FLOATS = 24576 /* 96 KiB: with weights and momentum of that range, a third of L2 */
};

/* A multiple of 8 whose weights have about SLAB_FLOATS floats. */
int64_t fast__cpu_slab_rows(int64_t C, int64_t O)
{
    int64_t rows = SLAB_FLOATS / C / 8 * 8;

    rows = rows < 8 ? 8 : rows;
    return rows < O ? rows : O;
}

/* Products of a whole slab and of the last one, the first position's and the later ones'. */
fast_err fast__cpu_slab_plan(fast_cpu_compile *compile, int64_t C, int64_t O,
                             fast_gemm gemm[FAST_CPU_SLAB_GEMMS])
{
    const int c = (int)C, l = (int)compile->program->lanes;
    const int slab = (int)fast__cpu_slab_rows(C, O), rest = (int)(O % slab);

    for (int i = SLAB; i <= REST_ADD; i++) {
        gemm[i] = (fast_gemm){ .m = c, .n = slab, .k = l, .lda = c, .ldb = l, .ldc = c };
        gemm[i].accumulate = i == SLAB_ADD || i == REST_ADD;
        if (i >= REST && rest)
            gemm[i].n = rest;
        FAST_TRY(fast__gemm_choose(&gemm[i], compile->plan));
    }
    return FAST_OK;
}

/* All positions of one slab. */
void fast__cpu_slab_run(const fast_gemm gemm[FAST_CPU_SLAB_GEMMS], int64_t first, int64_t C,
                        int64_t O, int64_t P, int64_t L, const float *x, const float *dy, float *dw)
{
    const bool whole = first + gemm[SLAB].n <= O;

    for (int64_t p = 0; p < P; p++)
        fast__gemm_run(&gemm[(whole ? SLAB : REST) + (p > 0)], x + p * C * L,
                       dy + (p * O + first) * L, dw + first * C);
}

/* Slab by slab. */
void fast__cpu_slab_all(const fast_gemm gemm[FAST_CPU_SLAB_GEMMS], int64_t C, int64_t O, int64_t P,
                        int64_t L, const float *x, const float *dy, float *dw)
{
    for (int64_t o = 0; o < O; o += gemm[SLAB].n)
        fast__cpu_slab_run(gemm, o, C, O, P, L, x, dy, dw);
}
