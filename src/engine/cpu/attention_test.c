/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: attention and its gradients are right for sizes that are and are not multiples of tiles,
 * blocks and registers, samples past the batch get zeros, and instruction sets with multiply-add
 * give the same bits. Method: compare with the formulas in double, position by position.
 */
#include "base/hash.h"
#include "engine/cpu/kernel_tables.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { T_MAX = 80, FLOATS = 1 << 18 };

static _Alignas(64) float qkv[FLOATS], z[FLOATS], dz[FLOATS], dqkv[FLOATS];

typedef struct attention_case {
    int64_t T, C, heads, L, count;
} attention_case;

/* Numbers in [-1, 1); lanes past the batch have some too, which nothing may read. */
static void fill(float *to, unsigned seed)
{
    for (int i = 0; i < FLOATS; i++) {
        seed = seed * 1664525u + 1013904223u;
        to[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
    }
}

/* Scratch memory of exactly the size that the kernels ask for, with numbers in it. */
static float *scratch_new(const attention_case *c, bool back)
{
    const int64_t D = c->C / c->heads, row = fast__attention_row(c->T);
    const int64_t panels = fast__attention_panels(c->T, D);
    const int64_t operands = (back ? 64 : 48) * fast__attention_each(c->T, D);
    const int64_t count =
        operands + (back ? 2 * panels + 2 * c->T * row : panels + FAST_ATTENTION_BLOCK * row);
    float *scratch = aligned_alloc(64, (size_t)count * sizeof *scratch);

    assert_non_null(scratch);
    for (int64_t i = 0; i < count; i++)
        scratch[i] = (float)(i % 7) - 3;
    return scratch;
}

/* Element of q, k or v (part 0, 1, 2) of an array [T][3 C][L]. */
static double at(const attention_case *c, const float *x, int part, int64_t t, int64_t d, int64_t h,
                 int64_t lane)
{
    const int64_t D = c->C / c->heads;

    return (double)x[(t * 3 * c->C + part * c->C + h * D + d) * c->L + lane];
}

/* The probabilities of position t. */
static void probabilities(const attention_case *c, int64_t t, int64_t h, int64_t lane, double *p)
{
    const int64_t D = c->C / c->heads;
    double sum = 0;

    for (int64_t s = 0; s <= t; s++) {
        double dot = 0;
        for (int64_t d = 0; d < D; d++)
            dot += at(c, qkv, 0, t, d, h, lane) * at(c, qkv, 1, s, d, h, lane);
        p[s] = exp(dot / sqrt((double)D));
        sum += p[s];
    }
    for (int64_t s = 0; s <= t; s++)
        p[s] /= sum;
}

/* Compare one head of one sample. */
static void check_head(const attention_case *c, int64_t h, int64_t lane)
{
    const int64_t D = c->C / c->heads, T = c->T;
    double(*want)[3] = calloc((size_t)(T * D), sizeof *want);
    double p[T_MAX], ds[T_MAX];

    assert_non_null(want);
    for (int64_t t = 0; t < T; t++) {
        double mean = 0;
        probabilities(c, t, h, lane, p);
        for (int64_t s = 0; s <= t; s++) {
            ds[s] = 0;
            for (int64_t d = 0; d < D; d++)
                ds[s] +=
                    (double)dz[(t * c->C + h * D + d) * c->L + lane] * at(c, qkv, 2, s, d, h, lane);
            mean += p[s] * ds[s];
        }
        for (int64_t d = 0; d < D; d++) {
            const int64_t out = (t * c->C + h * D + d) * c->L + lane;
            double sum = 0;
            for (int64_t s = 0; s <= t; s++) {
                const double g = p[s] * (ds[s] - mean) / sqrt((double)D);
                sum += p[s] * at(c, qkv, 2, s, d, h, lane);
                want[t * D + d][0] += g * at(c, qkv, 1, s, d, h, lane);
                want[s * D + d][1] += g * at(c, qkv, 0, t, d, h, lane);
                want[s * D + d][2] += p[s] * (double)dz[out];
            }
            assert_true(fabs((double)z[out] - sum) < 2e-6);
        }
    }
    for (int64_t t = 0; t < T; t++)
        for (int64_t d = 0; d < D; d++)
            for (int part = 0; part < 3; part++)
                assert_true(fabs(at(c, dqkv, part, t, d, h, lane) - want[t * D + d][part]) < 2e-5);
    free(want);
}

/* Compute and compare a case; returns the hash of the results. */
static uint64_t check(const attention_case *c, fast_isa isa)
{
    const fast_attention_kernels *kernels = FAST_KERNELS_PICK(attention, isa);
    const int64_t rows = c->T * c->C;

    fill(qkv, 1);
    fill(dz, 2);
    fill(z, 3);
    fill(dqkv, 4);
    float *scratch = scratch_new(c, false), *scratch_back = scratch_new(c, true);
    kernels->forward(c->T, c->C, c->heads, c->L, c->count, qkv, z, scratch);
    kernels->backward(c->T, c->C, c->heads, c->L, c->count, qkv, dz, dqkv, scratch_back);
    free(scratch);
    free(scratch_back);
    for (int64_t h = 0; h < c->heads; h++)
        for (int64_t lane = 0; lane < c->count; lane++)
            check_head(c, h, lane);
    for (int64_t r = 0; r < 3 * rows; r++)
        for (int64_t lane = c->count; lane < c->L; lane++) {
            assert_true(dqkv[r * c->L + lane] == 0);
            assert_true(r >= rows || z[r * c->L + lane] == 0);
        }
    return fast__hash(dqkv, (size_t)(3 * rows * c->L) * sizeof *dqkv,
                      fast__hash(z, (size_t)(rows * c->L) * sizeof *z, 0));
}

static void test_attention_is_its_formula(void **state)
{
    static const attention_case cases[] = {
        { 1, 1, 1, 16, 1 },    { 2, 4, 2, 16, 16 },  { 6, 16, 1, 16, 3 },  { 17, 20, 4, 16, 2 },
        { 25, 33, 3, 32, 19 }, { 64, 17, 1, 16, 1 }, { 80, 64, 1, 16, 2 }, { 49, 40, 2, 32, 17 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t first = 0;
        for (int isa = FAST_ISA_BASE; isa <= (int)fast__isa(); isa++) {
            const uint64_t bits = check(&cases[i], (fast_isa)isa);
            if (isa == FAST_ISA_AVX2)
                first = bits;
            assert_true(isa <= FAST_ISA_AVX2 || bits == first);
        }
    }
}

/* Scores that differ by hundreds: the largest one gets all, and nothing overflows. */
static void test_large_scores(void **state)
{
    const attention_case c = { 12, 4, 1, 16, 16 };
    float *scratch = scratch_new(&c, false);

    (void)state;
    for (int isa = FAST_ISA_BASE; isa <= (int)fast__isa(); isa++) {
        fill(qkv, 7);
        for (int64_t i = 0; i < c.T * 3 * c.C * c.L; i++)
            qkv[i] *= 100;
        FAST_KERNELS_PICK(attention, (fast_isa)isa)
            ->forward(c.T, c.C, c.heads, c.L, c.count, qkv, z, scratch);
        for (int64_t i = 0; i < c.T * c.C * c.L; i++)
            assert_true(isfinite(z[i]) && fabsf(z[i]) <= 100);
    }
    free(scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention_is_its_formula),
        cmocka_unit_test(test_large_scores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
