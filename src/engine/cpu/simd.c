/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instruction set of the cpu engine's kernels: the best that the processor has and that this
 * build contains (cmake/simd.cmake), lowered by FAST_ISA in the environment. It is chosen when a
 * program is compiled, never while it runs.
 */
#include "engine/cpu/simd.h"

#include <stdlib.h>
#include <string.h>

/* The best instruction set of this processor and build. */
static fast_isa isa_of_processor(void)
{
#ifdef FAST_HAVE_X86_SIMD
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
        return FAST_ISA_AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return FAST_ISA_AVX2;
#endif
    return FAST_ISA_BASE;
}

/* A wish above the processor's set, or of an unknown name, is ignored. */
fast_isa fast__isa(void)
{
    const fast_isa best = isa_of_processor();
    const char *wish = getenv("FAST_ISA");

    for (int isa = FAST_ISA_BASE; wish && isa < (int)best; isa++)
        if (strcmp(wish, fast__isa_name((fast_isa)isa)) == 0)
            return (fast_isa)isa;
    return best;
}

/* The name as FAST_ISA has it. */
const char *fast__isa_name(fast_isa isa)
{
#ifdef __aarch64__
    static const char *const names[] = { "neon", "avx2", "avx512" };
#else
    static const char *const names[] = { "base", "avx2", "avx512" };
#endif

    FAST_ASSERT(isa >= FAST_ISA_BASE && isa <= FAST_ISA_AVX512);
    return names[isa];
}
