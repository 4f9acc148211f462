/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Loops by hand for AVX-512, where it has what compilers do not find: comparisons of a vector as
 * the bits of a word, and words spread over others. FAST_WIDE before a function lets it use them,
 * and fast__is_wide() says whether this machine has them; the plain loop beside it gives the same
 * bits.
 */
#ifdef __x86_64__
#include <immintrin.h>

#define FAST_HAS_WIDE 1
#define FAST_WIDE     __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,bmi2")))

static inline bool fast__is_wide(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("bmi2");
}

enum { FAST_WIDE_LANES = 16 }; /* floats of a vector */
#endif
