/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of factors. Goal: every element is the chain of additions that factors.h promises, to
 * the bit, for all shapes and pieces of a matrix; packing turns samples outermost. Method: against
 * the plain triple loop.
 */
#include "tensor/factors.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { OUTPUTS = 11, INPUTS = 77, ROWS = 9, PARTS = 3 };

static void draw(float *x, int64_t n, uint64_t seed)
{
    fast_rng rng;

    fast__rng_init(&rng, seed, FAST_PURPOSE_CODEC, 0, 0, 0);
    for (int64_t i = 0; i < n; i++)
        x[i] = fast__rng_normal(&rng);
}

static float element(const fast_outer *parts, int64_t count, int64_t inputs, int64_t o, int64_t i)
{
    float sum = 0;

    for (int64_t p = 0; p < count; p++)
        for (int64_t r = 0; r < parts[p].rows; r++)
            sum += parts[p].u[r * parts[p].u_stride + o] * parts[p].v[r * inputs + i];
    return sum;
}

static void elements_are_chains(void **state)
{
    static float u[PARTS][ROWS * OUTPUTS], v[PARTS][ROWS * INPUTS], y[OUTPUTS * INPUTS];
    static const int64_t inputs[] = { 1, 3, 32, 33, 64, INPUTS };
    fast_outer parts[PARTS];

    (void)state;
    for (int p = 0; p < PARTS; p++) {
        draw(u[p], ROWS * OUTPUTS, 1 + (uint64_t)p);
        draw(v[p], ROWS * INPUTS, 11 + (uint64_t)p);
        parts[p] = (fast_outer){ u[p], v[p], p == 1 ? 0 : ROWS - p, OUTPUTS };
    }
    for (size_t k = 0; k < sizeof inputs / sizeof inputs[0]; k++)
        for (int64_t n = 0; n <= OUTPUTS; n++) {
            fast__factors_compose(parts, PARTS, inputs[k], 0, n * inputs[k], y);
            for (int64_t i = 0; i < n * inputs[k]; i++) {
                const float wanted = element(parts, PARTS, inputs[k], i / inputs[k], i % inputs[k]);
                assert_memory_equal(&wanted, &y[i], sizeof wanted);
            }
        }
}

/* A piece begins in the middle of a row: u then begins with that row. */
static void pieces_are_of_the_whole(void **state)
{
    static float u[ROWS * OUTPUTS], v[ROWS * INPUTS];
    static float whole[OUTPUTS * INPUTS], piece[OUTPUTS * INPUTS + 1];
    fast_outer part = { u, v, ROWS, OUTPUTS };

    (void)state;
    draw(u, ROWS * OUTPUTS, 1);
    draw(v, ROWS * INPUTS, 2);
    fast__factors_compose(&part, 1, INPUTS, 0, OUTPUTS * INPUTS, whole);
    for (int64_t begin = 0; begin < OUTPUTS * INPUTS; begin += 13)
        for (int64_t end = begin; end <= OUTPUTS * INPUTS; end += 37) {
            const fast_outer from = { u + begin / INPUTS, v, ROWS, OUTPUTS };

            piece[end - begin] = 42;
            fast__factors_compose(&from, 1, INPUTS, begin, end, piece);
            assert_memory_equal(piece, whole + begin, (size_t)(end - begin) * sizeof *piece);
            assert_true(piece[end - begin] == 42);
        }
}

static void packing_turns(void **state)
{
    static float u[OUTPUTS * 16], v[INPUTS * 16], out[ROWS * (OUTPUTS + INPUTS)];
    const fast_factors f = { 0, ROWS, OUTPUTS, INPUTS, u, v, 16, 16 };

    (void)state;
    draw(u, OUTPUTS * 16, 1);
    draw(v, INPUTS * 16, 2);
    fast__factors_pack(&f, out);
    for (int64_t r = 0; r < ROWS; r++) {
        for (int64_t o = 0; o < OUTPUTS; o++)
            assert_true(out[r * OUTPUTS + o] == u[o * 16 + r]);
        for (int64_t i = 0; i < INPUTS; i++)
            assert_true(out[ROWS * OUTPUTS + r * INPUTS + i] == v[i * 16 + r]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_are_chains),
        cmocka_unit_test(pieces_are_of_the_whole),
        cmocka_unit_test(packing_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
