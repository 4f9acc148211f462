/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the vector functions keep the errors that vec.h states, NaN passes where it must, and
 * transposes are right for odd sizes; with every instruction set of this machine. Those with
 * multiply-add give the same bits. Method: floats of all magnitudes against the C library in
 * double; transposes against their definition; bits against one hash for all processors.
 */
#include "engine/cpu/conv_kernels.h"
#include "engine/cpu/kernel_tables.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 1 << 16 };

#define SAME_BITS 0xb455216b4a39b1ebu /* hash of bits_of() on every processor with multiply-add */

static _Alignas(64) float x[COUNT], y[COUNT], z[COUNT];

/* The activation by the C library. */
static double wanted(fast_act act, double v)
{
    switch (act) {
    case FAST_ACT_TANH:
        return tanh(v);
    case FAST_ACT_SIGMOID:
        return 1 / (1 + exp(-v));
    default:
        return 0.5 * v * erfc(-v * sqrt(0.5));
    }
}

/* Numbers from 1e-6 to `largest`, both signs, evenly in the logarithm. */
static void fill(double largest)
{
    for (int i = 0; i < COUNT; i++) {
        const double size = exp(log(1e-6) + (log(largest) - log(1e-6)) * (i / 2) / (COUNT / 2));
        x[i] = (float)(i % 2 ? -size : size);
    }
}

/* Compare an activation with the C library, relative to the result or to max(1, |x|). */
static void check_act(const fast_elem_kernels *k, fast_act act, double largest, double bound,
                      bool relative)
{
    fill(largest);
    k->act(COUNT, act, 0, x, y);
    for (int i = 0; i < COUNT; i++) {
        const double want = wanted(act, (double)x[i]);
        const double scale = relative ? fabs(want) : fmax(1, fabs((double)x[i]));
        if (!(fabs((double)y[i] - want) <= bound * scale))
            fail_msg("act %d at %g: %.9g instead of %.9g", act, (double)x[i], (double)y[i], want);
    }
}

/* NaN stays NaN through activations that pass large values on. */
static void check_nan(const fast_elem_kernels *k)
{
    static const fast_act acts[] = { FAST_ACT_RELU, FAST_ACT_LEAKY, FAST_ACT_GELU };

    memset(x, 0, 16 * sizeof *x);
    x[3] = NAN;
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
        k->act(16, acts[i], 0.1f, x, y);
        assert_true(isnan(y[3]));
        assert_true(y[2] == 0);
    }
}

/* Both directions for whole and partial blocks; nothing is written past the end. */
static void check_transposes(const fast_elem_kernels *k)
{
    for (int64_t count = 1; count <= 37; count += 4)
        for (int64_t columns = 1; columns <= 50; columns += 7) {
            const int64_t lanes = (count + 15) / 16 * 16 + 16;
            for (int64_t i = 0; i < count * columns; i++)
                x[i] = (float)(i + 1);
            memset(y, 0xff, (size_t)(columns * lanes) * sizeof *y);
            k->to_lanes(x, columns, count, columns, lanes, y, lanes);
            for (int64_t f = 0; f < columns; f++)
                for (int64_t i = 0; i < lanes; i++)
                    assert_true(y[f * lanes + i] == (i < count ? x[i * columns + f] : 0));
            memset(z, 0, (size_t)(count * columns + 1) * sizeof *z);
            k->from_lanes(y, lanes, columns, count, z, columns);
            assert_memory_equal(x, z, (size_t)(count * columns) * sizeof *x);
            assert_true(z[count * columns] == 0);
        }
}

/* Probabilities of small, usual and masked values. */
static void check_softmax(const fast_loss_kernels *k)
{
    static const float rows[3] = { -100, 3, 88 };

    for (int c = 0; c < 3; c++)
        for (int i = 0; i < 16; i++)
            x[c * 16 + i] = rows[c] * (float)(i + 1);
    k->softmax(3, 16, x, y);
    for (int i = 0; i < 16; i++) {
        const double a = exp((double)(x[i] - x[32 + i])), b = exp((double)(x[16 + i] - x[32 + i]));
        assert_true(fabs((double)y[32 + i] - 1 / (1 + a + b)) < 2e-7);
        assert_true(y[i] >= 0 && y[16 + i] >= 0);
    }

    /* A masked value gets probability 0, and no denormal number, which later products pay for. */
    for (int i = 0; i < 16; i++)
        x[32 + i] = -1e4f;
    k->softmax(3, 16, x, y);
    for (int i = 0; i < 16; i++)
        assert_true(y[32 + i] == 0);
}

/* The bits of floats, after those that `seed` stands for (FNV-1a). */
static uint64_t hash(uint64_t seed, int64_t count, const float *v)
{
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, v + i, sizeof bits);
        seed = (seed ^ bits) * 0x100000001b3u;
    }
    return seed;
}

/* The hash of what kernels with sums over lanes compute: batch norm, layer norm, pooling, bias
 * gradients and sums of products. */
static uint64_t bits_of(fast_isa isa)
{
    enum { P = 36, C = 5, L = 48, N = P * C * L };
    const fast_norm_kernels *norm = FAST_KERNELS_PICK(norm, isa);
    const fast_pool_kernels *pool = FAST_KERNELS_PICK(pool, isa);
    const fast_norm_shape s = { P, C, L, 5, 39, 48 };
    const fast_pool_shape window = {
        C, 6, 6, 3, 3, L, { 2, 2 }, { 2, 2 }, { 0 }, { 1, 1 }, C, 1, 0
    };
    const fast_dot dot = { C, C, P, L, C * L, C * L, L, L, C };
    const fast_dot wide = { 3 * C, 7 * C, 5, L, 3 * C * L, 7 * C * L, L, L, 7 * C };
    static _Alignas(64) float scratch[C * 64], sum[C * C], sums[21 * C * C];
    static uint16_t bits[N / 16];
    static uint8_t won[N];
    static _Alignas(64) float saved[P * 2 * L];
    float one[C], mean[C], dw[C], db[C];
    double a[C], b[C];
    uint64_t h = 0xcbf29ce484222325u;

    for (int i = 0; i < N; i++) {
        x[i] = (float)((uint32_t)i * 2654435761u >> 8) * 0x1p-24f - 0.5f;
        y[i] = z[i] = 0;
    }
    norm->moments(&s, x, scratch, a, b);
    for (int c = 0; c < C; c++) {
        mean[c] = (float)a[c];
        one[c] = (float)b[c];
    }
    norm->apply(&s, x, mean, one, mean, x, true, y, bits);
    norm->sums(&s, x, mean, y, x, bits, true, scratch, a, b);
    norm->apply_back(&s, x, mean, y, bits, one, mean, one, z, true);
    h = hash(hash(h, N, y), N, z);
    for (int c = 0; c < C; c++)
        one[c] = (float)a[c] + (float)b[c];
    h = hash(h, C, one);
    pool->max(&window, x, mean, true, y, won);
    pool->max_back(&window, won, y, z, false, one, scratch);
    h = hash(hash(hash(h, N / 4, y), N, z), C, one);
    FAST_KERNELS_PICK(elem, isa)->bias_act_back(P, C, L, x, FAST_ACT_TANH, 0, z, one, scratch);
    memset(sum, 0, sizeof sum);
    memset(sums, 0, sizeof sums);
    FAST_KERNELS_PICK(conv, isa)->dot(&dot, x, z, sum);
    FAST_KERNELS_PICK(conv, isa)->dot(&wide, x, z, sums);
    norm->layer(P, C, L, x, mean, mean, 1e-5f, y, saved);
    h = hash(h, N, y);
    norm->layer_back(P, C, L, x, mean, saved, x, y, false, dw, db, scratch);
    h = hash(hash(hash(h, N, y), C, dw), C, db);
    return hash(hash(hash(hash(h, N, z), C, one), C * C, sum), 21 * C * C, sums);
}

/* Registers of 4, 8 and 16 floats, on any processor, sum in one order. Builds that optimise less
 * contract other products and sums, and have other bits. */
static void test_same_bits(void **state)
{
    (void)state;
#if !defined __OPTIMIZE__ || (defined FAST_SLOW && !defined __aarch64__)
    skip();
#endif
#ifdef __aarch64__
    assert_int_equal(bits_of(FAST_ISA_BASE), SAME_BITS);
#endif
    for (int isa = FAST_ISA_AVX2; isa <= (int)fast__isa(); isa++)
        assert_int_equal(bits_of((fast_isa)isa), SAME_BITS);
}

/* All checks on every table of kernels that this processor can run. */
static void test_every_instruction_set(void **state)
{
    const fast_isa best = fast__isa();

    (void)state;
    for (int isa = FAST_ISA_BASE; isa <= (int)best; isa++) {
        const fast_elem_kernels *k = FAST_KERNELS_PICK(elem, (fast_isa)isa);
        check_act(k, FAST_ACT_TANH, 100, 2e-7, true);
        check_act(k, FAST_ACT_SIGMOID, 80, 3e-7, true);
        check_act(k, FAST_ACT_GELU, 100, 2e-7, false);
        check_nan(k);
        check_transposes(k);
        check_softmax(FAST_KERNELS_PICK(loss, (fast_isa)isa));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_every_instruction_set),
                                        cmocka_unit_test(test_same_bits) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
