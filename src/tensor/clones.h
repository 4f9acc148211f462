/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h> /* for __GLIBC__: only its linker picks clones */

/*
 * FAST_CLONES before a function compiles it for AVX-512, for AVX2 and for the baseline; the dynamic
 * linker picks when the program starts. It is empty on other machines, and under sanitizers, whose
 * run-time is not ready when the linker picks.
 *
 * FAST_EACH before a loop says that its iterations do not depend on each other, which the compiler
 * cannot know of arrays that may be equal. Under sanitizers it is empty: their checks prevent
 * vector code, of which clang would warn.
 */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(FAST_SANITIZED)
#define FAST_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FAST_CLONES
#endif

#if defined(FAST_SANITIZED)
#define FAST_EACH
#elif defined(__clang__)
#define FAST_EACH _Pragma("clang loop vectorize(assume_safety)")
#else
#define FAST_EACH _Pragma("GCC ivdep")
#endif
