/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: products with all positions of a sequence, and sums over them, have the bits of one product
 * a position, on every instruction set of this machine, whole and partial panels, tiles and runs of
 * terms. Method: compare with FAST's own kernel, position by position.
 */
#include "engine/cpu/gemm_kernels.h"
#include "engine/cpu/sequence_kernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { FLOATS = 1 << 18 };

static _Alignas(64) float x[FLOATS], w[FLOATS], y[FLOATS], z[FLOATS], memory[FLOATS];

/* Fill an array with numbers in [-0.5, 0.5). */
static void fill(float *to, unsigned seed)
{
    for (int i = 0; i < FLOATS; i++) {
        seed = seed * 1664525u + 1013904223u;
        to[i] = (float)(seed >> 8) / 16777216.0f - 0.5f;
    }
}

/* FAST's own kernel for one position. */
static fast_gemm own(int64_t m, int64_t n, int64_t k)
{
    return (fast_gemm){ .m = (int)m,
                        .n = (int)n,
                        .k = (int)k,
                        .lda = (int)m,
                        .ldb = (int)k,
                        .ldc = (int)m,
                        .method = FAST_GEMM_OWN };
}

/* y_p = or += w' x_p, from a block in the middle of the sequence. */
static void check_products(fast_isa isa, int64_t P, int64_t L, int64_t K, int64_t N, bool trans,
                           bool accumulate)
{
    fast_gemm gemm = own(L, N, K);

    gemm.trans_b = trans;
    gemm.accumulate = accumulate;
    gemm.own = FAST_KERNELS_PICK(gemm, isa);
    gemm.ldb = (int)(trans ? N : K);
    fill(x, 1);
    fill(w, 2);
    fill(y, 3);
    memcpy(z, y, sizeof z);
    FAST_KERNELS_PICK(sequence, isa)->pack(K, N, w, gemm.ldb, trans, memory);
    FAST_KERNELS_PICK(sequence, isa)->products(P, L, K, N, x, memory, accumulate, y);
    for (int64_t p = 0; p < P; p++)
        gemm.own->run(&gemm, x + p * K * L, w, z + p * N * L);
    assert_memory_equal(y, z, sizeof z);
}

/* All rows of dw in slabs of `slab`. */
static void check_sums(fast_isa isa, int64_t P, int64_t L, int64_t C, int64_t O, int64_t slab)
{
    const fast_sequence_kernels *kernels = FAST_KERNELS_PICK(sequence, isa);
    const fast_sequence_sums s = { .positions = P, .lanes = L, .inputs = C, .outputs = O };
    const int64_t tile = kernels->tile, panels = (C + tile - 1) / tile;
    fast_gemm gemm = own(C, O, L);

    gemm.own = FAST_KERNELS_PICK(gemm, isa);
    fill(x, 4); /* [P][L][C] */
    fill(w, 5); /* dy [P][O][L] */
    fill(y, 6);
    memcpy(z, y, sizeof z);
    float *scratch = calloc((size_t)(FAST_SEQUENCE_DEPTH * slab + 16), sizeof *scratch);
    assert_non_null(scratch);
    float *aligned = scratch + (64 - (uintptr_t)scratch % 64) / sizeof *scratch % 16;
    memset(memory, 0, sizeof memory);
    for (int64_t q = 0; q < P * L; q++)
        for (int64_t c = 0; c < C; c++)
            memory[(c / tile * P * L + q) * tile + c % tile] = x[q * C + c];
    assert_true(panels * P * L * tile <= FLOATS);
    for (int64_t o = 0; o < O; o += slab)
        kernels->sums(&s, o, O - o < slab ? O - o : slab, memory, w, aligned, y);
    for (int64_t p = 0; p < P; p++) {
        gemm.accumulate = p > 0;
        gemm.own->run(&gemm, x + p * L * C, w + p * O * L, z);
    }
    assert_memory_equal(y, z, sizeof z);
    free(scratch);
}

static void test_products_have_the_bits_of_single_ones(void **state)
{
    static const int64_t sizes[][4] = {
        { 1, 16, 1, 1 },    { 2, 16, 5, 6 },    { 9, 16, 130, 20 },
        { 3, 48, 40, 13 },  { 5, 32, 257, 7 },  { 2, 64, 128, 12 },
        { 1, 192, 64, 30 }, { 7, 80, 100, 25 }, { 16, 16, 256, 48 }
    };

    (void)state;
    for (int isa = FAST_ISA_BASE; isa <= (int)fast__isa(); isa++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int flags = 0; flags < 4; flags++)
                check_products((fast_isa)isa, sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3],
                               flags & 1, flags & 2);
}

static void test_sums_have_the_bits_of_single_ones(void **state)
{
    static const int64_t sizes[][5] = { { 1, 16, 1, 1, 1 },     { 2, 16, 5, 6, 4 },
                                        { 19, 16, 70, 20, 7 },  { 3, 48, 40, 13, 13 },
                                        { 5, 32, 100, 7, 6 },   { 2, 64, 128, 12, 12 },
                                        { 2, 192, 64, 30, 18 }, { 3, 80, 96, 25, 24 },
                                        { 1, 304, 17, 9, 5 } };

    (void)state;
    for (int isa = FAST_ISA_BASE; isa <= (int)fast__isa(); isa++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            check_sums((fast_isa)isa, sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3],
                       sizes[i][4]);
}

/* Sequences by every method: the choice does not change a bit, but for OpenBLAS. */
static void test_methods_agree_on_a_sequence(void **state)
{
    fast_gemm gemm = own(16, 21, 140);
    const int64_t P = 30;

    (void)state;
    gemm.positions = P;
    fill(x, 7);
    fill(w, 8);
    fast__gemm_init(&gemm);
    gemm.method = FAST_GEMM_OWN;
    assert_int_equal(fast__gemm_packed(&gemm), 0);
    fast__gemm_sequence(&gemm, P, x, w, NULL, y);
    gemm.method = FAST_GEMM_WHOLE;
    assert_int_equal(fast__gemm_packed(&gemm), 140 * 24);
    assert_true(fast__gemm_block(&gemm) >= 4);
    fast__gemm_pack(&gemm, w, memory);
    fast__gemm_sequence(&gemm, P, x, w, memory, z);
    assert_memory_equal(y, z, (size_t)(P * 21 * 16) * sizeof *y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products_have_the_bits_of_single_ones),
        cmocka_unit_test(test_sums_have_the_bits_of_single_ones),
        cmocka_unit_test(test_methods_agree_on_a_sequence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
