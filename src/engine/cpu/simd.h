/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * Kernels of the cpu engine are written once with the compiler's vectors of 16 floats. A file named
 * x_simd.c is compiled once per instruction set (FAST_ISA = avx512, avx2, base; contraction on) and
 * ends with one table, `const x_kernels FAST_SIMD(fast__x_kernels) = { ... };`. The right table is
 * picked when a program is compiled, by fast__isa().
 */
typedef enum fast_isa { FAST_ISA_BASE, FAST_ISA_AVX2, FAST_ISA_AVX512 } fast_isa;

/* The best set that this processor has and this build was compiled for. FAST_ISA in the environment
 * ("base", "avx2", "avx512") can lower it, for tests. */
fast_isa fast__isa(void);
const char *fast__isa_name(fast_isa isa);

/* 16 floats; loads and stores through it need 64-byte alignment. */
typedef float fast_vec __attribute__((vector_size(64), aligned(64)));
/* The same with the alignment of a float. */
typedef float fast_vecu __attribute__((vector_size(64), aligned(4)));

#define FAST_VEC 16 /* activations are padded to a multiple of it: lanes */

#define FAST_SIMD_PASTE2(name, isa) name##_##isa
#define FAST_SIMD_PASTE(name, isa)  FAST_SIMD_PASTE2(name, isa)
#ifdef FAST_ISA
#define FAST_SIMD(name) FAST_SIMD_PASTE(name, FAST_ISA)
#endif
