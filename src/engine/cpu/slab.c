/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients of weights that sum over positions: dW [O][C] = sum over p of dY_p [O][L] X_p [L][C],
 * with X sample-major. A large dW does not fit the second-level cache, so it is computed in slabs
 * of rows that do, all positions of a slab before the next one; every element adds its terms in
 * order of p.
 *
 *     dW   rows 0 .. slab - 1
 *          rows slab .. 2 slab - 1
 *          the rest
 *
 * One position is a product by the plan's choice (gemm.h). A sequence is summed by kernels of its
 * own (sequence_simd.c), which keep the sums of several positions in registers; its X is stored in
 * panels of columns.
 */
#include "engine/cpu/cpu.h"
#include "engine/cpu/sequence_kernels.h"

#include <string.h>

enum {
    SLAB, /* all slabs but the last */
    REST  /* the last slab, if it is smaller */
};

enum {
    SLAB_FLOATS = 24576,      /* 96 KiB: with weights and momentum of that range, a third of L2 */
    SEQUENCE_FLOATS = 131072, /* of a sequence's slab, whose X is read once a slab: half of L2 */
    SEQUENCE_ROWS = 96        /* at least, for the same reason */
};

/* A multiple of 8 (of 48, for whole tiles) whose weights have about that number of floats. */
int64_t fast__cpu_slab_rows(int64_t C, int64_t O, int64_t P)
{
    int64_t rows = SLAB_FLOATS / C / 8 * 8;

    rows = rows < 8 ? 8 : rows;
    if (P > 1)
        rows =
            (SEQUENCE_FLOATS / C < SEQUENCE_ROWS ? SEQUENCE_ROWS : SEQUENCE_FLOATS / C) / 48 * 48;
    return rows < O ? rows : O;
}

/* Products of a whole slab and of the last one, or the sums of a sequence. */
fast_err fast__cpu_slab_plan(fast_cpu_compile *compile, int64_t C, int64_t O, int64_t P,
                             fast_gemm gemm[FAST_CPU_SLAB_GEMMS])
{
    const int c = (int)C, l = (int)compile->program->lanes;
    const int slab = (int)fast__cpu_slab_rows(C, O, P), rest = (int)(O % slab);

    for (int i = SLAB; i <= REST; i++) {
        gemm[i] = (fast_gemm){ .m = c, .n = slab, .k = l, .lda = c, .ldb = l, .ldc = c };
        gemm[i].positions = P;
        if (i == REST && rest)
            gemm[i].n = rest;
        if (P > 1)
            fast__gemm_init(&gemm[i]);
        else
            FAST_TRY(fast__gemm_choose(&gemm[i], compile->plan));
    }
    return FAST_OK;
}

/* Columns of X rounded up to whole panels, for a sequence. */
static int64_t columns_of(const fast_gemm *gemm)
{
    const int64_t tile = gemm->positions > 1 ? gemm->sequence->tile : 1;

    return (gemm->m + tile - 1) / tile * tile;
}

/* X, sample-major, of all positions. */
int64_t fast__cpu_slab_floats(const fast_gemm gemm[FAST_CPU_SLAB_GEMMS])
{
    const int64_t positions = gemm->positions > 1 ? gemm->positions : 1;

    return columns_of(gemm) * positions * gemm->k;
}

/* Terms of dY, which a sequence's sums copy next to each other. */
int64_t fast__cpu_slab_scratch(const fast_gemm gemm[FAST_CPU_SLAB_GEMMS])
{
    return gemm->positions > 1 ? (int64_t)FAST_SEQUENCE_DEPTH * gemm->n : 0;
}

/* [P][L][C] of one position; [C / tile][P][L][tile] of a sequence, zeros past the last column. */
void fast__cpu_slab_transpose(const fast_cpu_run *run, const fast_gemm gemm[FAST_CPU_SLAB_GEMMS],
                              int64_t P, const float *x, float *to)
{
    const fast_elem_kernels *elem = run->program->elem;
    const int64_t C = gemm->m, L = gemm->k;
    const int64_t tile = gemm->positions > 1 ? gemm->sequence->tile : C;

    for (int64_t c = 0; c < C; c += tile, to += P * L * tile) {
        const int64_t width = C - c < tile ? C - c : tile;
        if (width < tile)
            memset(to, 0, (size_t)(P * L * tile) * sizeof *to);
        for (int64_t p = 0; p < P; p++)
            elem->from_lanes(x + (p * C + c) * L, L, width, L, to + p * L * tile, tile);
    }
}

/* All positions of one slab. */
void fast__cpu_slab_run(const fast_gemm gemm[FAST_CPU_SLAB_GEMMS], int64_t first, int64_t O,
                        int64_t P, const float *x, const float *dy, float *scratch, float *dw)
{
    const int64_t C = gemm->m, L = gemm->k;
    const fast_gemm *own = &gemm[first + gemm[SLAB].n <= O ? SLAB : REST];

    if (gemm->positions > 1)
        gemm->sequence->sums(
            &(fast_sequence_sums){ .positions = P, .lanes = L, .inputs = C, .outputs = O }, first,
            own->n, x, dy, scratch, dw);
    else
        fast__gemm_run(own, x, dy + first * L, dw + first * C);
}

/* Slab by slab. */
void fast__cpu_slab_all(const fast_gemm gemm[FAST_CPU_SLAB_GEMMS], int64_t O, int64_t P,
                        const float *x, const float *dy, float *scratch, float *dw)
{
    for (int64_t o = 0; o < O; o += gemm[SLAB].n)
        fast__cpu_slab_run(gemm, o, O, P, x, dy, scratch, dw);
}
