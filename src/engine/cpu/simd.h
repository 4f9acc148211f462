/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * Kernels of the cpu engine are written once with vectors as wide as a register (vec.h). A file
 * named x_simd.c is compiled once per instruction set (FAST_ISA = avx512, avx2, base; contraction
 * on) and ends with one table, `const x_kernels FAST_SIMD(fast__x_kernels) = { ... };`. The right
 * table is picked when a program is compiled, by fast__isa().
 */
typedef enum fast_isa {
    FAST_ISA_BASE,  /* the compiler's baseline: SSE2 on x86, NEON on ARM */
    FAST_ISA_AVX2,  /* AVX2 and FMA: registers of 8 floats */
    FAST_ISA_AVX512 /* AVX-512 F, BW, VL and DQ: registers of 16 floats */
} fast_isa;

/* Return the best instruction set that this processor has and this build contains. FAST_ISA in the
 * environment (the names below) can lower it, for tests. */
fast_isa fast__isa(void);
/* Return "base" ("neon" on ARM), "avx2" or "avx512": plans of measured choices have it in their
 * keys. */
const char *fast__isa_name(fast_isa isa);

/* Lanes of a block: activations are padded to a multiple of it, and 64-byte aligned. A block is 1,
 * 2 or 4 registers (vec.h). */
#define FAST_VEC 16

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
