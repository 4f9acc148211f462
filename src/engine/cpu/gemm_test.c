/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: every flag of a product is right, for shapes that are and are not multiples of the vectors,
 * by libxsmm's code and by what stands in for it. Method: compare with the definition in double.
 */
#include "engine/cpu/gemm.h"
#include "engine/cpu/simd.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SIZE_MAX_OF_TEST = 160 * 160 };

/* A number in [-0.5, 0.5). */
static float value(unsigned *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(*seed >> 8) / 16777216.0f - 0.5f;
}

/* Compare one product with the definition; elements past the rows must stay as they are. */
static void check(fast_gemm gemm, int method)
{
    static float a[SIZE_MAX_OF_TEST], b[SIZE_MAX_OF_TEST], c[SIZE_MAX_OF_TEST],
        c0[SIZE_MAX_OF_TEST];
    unsigned seed = 7;

    fast__gemm_init(&gemm);
    if (method == FAST_GEMM_OWN)
        gemm.method = FAST_GEMM_OWN;
    if (method == FAST_GEMM_PARTS && gemm.parts[0])
        gemm.method = FAST_GEMM_PARTS;
#ifdef FAST_HAVE_BLAS
    if (method == FAST_GEMM_BLAS)
        gemm.method = FAST_GEMM_BLAS;
#endif
    for (int i = 0; i < SIZE_MAX_OF_TEST; i++) {
        a[i] = value(&seed);
        b[i] = value(&seed);
        c0[i] = c[i] = value(&seed);
    }
    fast__gemm_run(&gemm, a, b, c);
    for (int j = 0; j < gemm.n; j++)
        for (int i = 0; i < gemm.ldc; i++) {
            double sum = gemm.accumulate || i >= gemm.m ? c0[j * gemm.ldc + i] : 0;
            for (int p = 0; p < gemm.k && i < gemm.m; p++)
                sum += (double)a[p * gemm.lda + i] *
                       b[gemm.trans_b ? p * gemm.ldb + j : j * gemm.ldb + p];
            assert_true(fabs(c[j * gemm.ldc + i] - sum) < 1e-5);
        }
}

/* Whole and partial tiles and panels, more than one depth, by every method. */
static void test_all_flags_and_odd_sizes(void **state)
{
    static const int sizes[][3] = { { 16, 1, 1 },   { 64, 10, 50 },   { 48, 33, 17 },
                                    { 112, 7, 64 }, { 5, 3, 2 },      { 144, 144, 64 },
                                    { 7, 95, 159 }, { 100, 50, 150 }, { 16, 9, 384 } };
    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int flags = 0; flags < 16; flags++) {
            const int m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
            const bool trans = flags & 1;
            check((fast_gemm){ .m = m,
                               .n = n,
                               .k = k,
                               .lda = m + 3 * (int)(s & 1),
                               .ldb = trans ? n : k + 1,
                               .ldc = m,
                               .trans_b = trans,
                               .accumulate = (flags & 2) != 0 },
                  flags / 4);
        }
}

/* A choice is measured once, stored, and read by the next compilation, to the same method. */
static void test_choice_is_stored(void **state)
{
    fast_gemm gemm = { .m = 64, .n = 256, .k = 256, .lda = 64, .ldb = 256, .ldc = 64 };
    fast_conv_plan *plan;

    (void)state;
    assert_int_equal(fast__plan_open("", &plan), FAST_OK);
    assert_int_equal(fast__plan_hash(plan), 0);
    assert_int_equal(fast__gemm_choose(&gemm, plan), FAST_OK);
    const uint64_t once = fast__plan_hash(plan);
    assert_int_not_equal(once, 0);
    const fast_gemm_method first = gemm.method;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(fast__gemm_choose(&gemm, plan), FAST_OK);
        assert_int_equal(gemm.method, first);
    }
    fast__plan_close(plan);
}

/* Names that are unknown, or better than the processor, change nothing. */
static void test_environment_lowers_the_instruction_set(void **state)
{
    (void)state;
    assert_int_equal(setenv("FAST_ISA", "base", 1), 0);
    assert_int_equal(fast__isa(), FAST_ISA_BASE);
    assert_int_equal(setenv("FAST_ISA", "nonsense", 1), 0);
    const fast_isa best = fast__isa();
    assert_int_equal(unsetenv("FAST_ISA"), 0);
    assert_int_equal(fast__isa(), best);
    assert_string_equal(fast__isa_name(FAST_ISA_AVX2), "avx2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_flags_and_odd_sizes),
        cmocka_unit_test(test_choice_is_stored),
        cmocka_unit_test(test_environment_lowers_the_instruction_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
