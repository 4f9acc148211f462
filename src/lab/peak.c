/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bound that arithmetic sets: how many multiply-adds a second this core does when nothing
 * waits for memory. A loop over CHAINS independent registers hides the latency of one of them
 * (4 to 5 cycles, two a cycle: at least 10 chains); the best of a few short runs counts, because
 * other work on the machine only slows it down.
 *
 * Expected for a core of f Hz with two units: 2 units * lanes * 2 operations * f. At 3 GHz that is
 * 96 GFLOP/s for AVX2 (8 lanes) and 192 GFLOP/s for AVX-512 (16 lanes). 12 chains and two constants
 * fit into the 16 registers of AVX2, so that nothing is spilled. Values converge to 1, the fixed
 * point of 0.999 x + 0.001: they neither overflow nor become denormal, which would be slow.
 */
#include "base/clock.h"
#include "base/err.h"
#include "lab/bench.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { CHAINS = 12, ROUNDS = 200000, TRIALS = 12 };

typedef struct peak_loop {
    float (*run)(int64_t rounds); /* returns a sum, so that nothing is optimised away */
    int lanes;                    /* multiply-adds per instruction */
} peak_loop;

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static float loop_avx512(int64_t rounds)
{
    __m512 x[CHAINS];
    for (int i = 0; i < CHAINS; i++)
        x[i] = _mm512_set1_ps((float)i);
    const __m512 a = _mm512_set1_ps(0.999f);
    const __m512 b = _mm512_set1_ps(0.001f);
    for (int64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++)
            x[i] = _mm512_fmadd_ps(x[i], a, b);
    }
    float sum = 0;
    for (int i = 0; i < CHAINS; i++)
        sum += _mm512_cvtss_f32(x[i]);
    return sum;
}

__attribute__((target("avx2,fma"))) static float loop_avx2(int64_t rounds)
{
    __m256 x[CHAINS];
    for (int i = 0; i < CHAINS; i++)
        x[i] = _mm256_set1_ps((float)i);
    const __m256 a = _mm256_set1_ps(0.999f);
    const __m256 b = _mm256_set1_ps(0.001f);
    for (int64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++)
            x[i] = _mm256_fmadd_ps(x[i], a, b);
    }
    float sum = 0;
    for (int i = 0; i < CHAINS; i++)
        sum += _mm256_cvtss_f32(x[i]);
    return sum;
}
#endif

/* Any other machine: the compiler's vectors of 16 bytes. */
typedef float lanes4 __attribute__((vector_size(16)));

/* Multiply-adds in portable C. */
static float loop_plain(int64_t rounds)
{
    lanes4 x[CHAINS];
    for (int i = 0; i < CHAINS; i++)
        x[i] = (lanes4){ (float)i, 1, 2, 3 };
    const lanes4 a = { 0.999f, 0.999f, 0.999f, 0.999f };
    const lanes4 b = { 0.001f, 0.001f, 0.001f, 0.001f };
    for (int64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++)
            x[i] = x[i] * a + b;
    }
    float sum = 0;
    for (int i = 0; i < CHAINS; i++)
        sum += x[i][0];
    return sum;
}

/* Choose the loop with the widest vectors that this processor has. */
static peak_loop choose(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        return (peak_loop){ loop_avx512, 16 };
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return (peak_loop){ loop_avx2, 8 };
#endif
    return (peak_loop){ loop_plain, 4 };
}

double fast__peak_flops(void)
{
    const peak_loop loop = choose();
    volatile float sink = loop.run(ROUNDS); /* wakes the wide units up */
    int64_t best_ns = INT64_MAX;
    for (int trial = 0; trial < TRIALS; trial++) {
        const int64_t begin_ns = fast__clock_ns();
        sink = loop.run(ROUNDS);
        const int64_t spent_ns = fast__clock_ns() - begin_ns;
        if (spent_ns < best_ns)
            best_ns = spent_ns;
    }
    (void)sink;
    FAST_ASSERT(best_ns > 0);
    return 2.0 * loop.lanes * CHAINS * (double)ROUNDS / ((double)best_ns * 1e-9);
}
