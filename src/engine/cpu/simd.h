/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * Kernels of the cpu engine are written once with the compiler's vectors of 16 floats. A file named
 * x_simd.c is compiled once per instruction set (FAST_ISA = avx512, avx2, base; contraction on) and
 * ends with one table, `const x_kernels FAST_SIMD(fast__x_kernels) = { ... };`. The right table is
 * picked when a program is compiled, by fast__isa().
 */
typedef enum fast_isa {
    FAST_ISA_BASE,  /* the compiler's baseline: SSE2 on x86, NEON on ARM */
    FAST_ISA_AVX2,  /* AVX2 and FMA: a vector is two registers */
    FAST_ISA_AVX512 /* AVX-512 F, BW, VL and DQ: a vector is one register */
} fast_isa;

/* Return the best instruction set that this processor has and this build contains. FAST_ISA in the
 * environment ("base", "avx2", "avx512") can lower it, for tests. */
fast_isa fast__isa(void);
/* Return "base", "avx2" or "avx512": plans of measured choices have it in their keys. */
const char *fast__isa_name(fast_isa isa);

/* 16 floats; loads and stores through it need 64-byte alignment. */
typedef float fast_vec __attribute__((vector_size(64), aligned(64)));
/* 16 floats with the alignment of a single float. */
typedef float fast_vecu __attribute__((vector_size(64), aligned(4)));

#define FAST_VEC 16 /* activations are padded to a multiple of it: lanes */

#define FAST_SIMD_PASTE2(name, isa) name##_##isa
#define FAST_SIMD_PASTE(name, isa)  FAST_SIMD_PASTE2(name, isa)
#ifdef FAST_ISA
#define FAST_SIMD(name) FAST_SIMD_PASTE(name, FAST_ISA)
#endif

/* Declare the tables of kernels fast__x_kernels, one per instruction set. */
#define FAST_KERNELS(x)                                       \
    extern const fast_##x##_kernels fast__##x##_kernels_base; \
    extern const fast_##x##_kernels fast__##x##_kernels_avx2; \
    extern const fast_##x##_kernels fast__##x##_kernels_avx512;

/* The table of kernels x for an instruction set. */
#ifdef FAST_HAVE_X86_SIMD
#define FAST_KERNELS_PICK(x, isa)                           \
    ((isa) == FAST_ISA_AVX512 ? &fast__##x##_kernels_avx512 \
     : (isa) == FAST_ISA_AVX2 ? &fast__##x##_kernels_avx2   \
                              : &fast__##x##_kernels_base)
#else
#define FAST_KERNELS_PICK(x, isa) ((void)(isa), &fast__##x##_kernels_base)
#endif
