/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tensor/device.h"

/*
 * Copies of floats that other threads read or write concurrently: a race by design. Every element
 * is one of the values that were ever stored to it, as with relaxed atomics, which the fallback
 * uses; compilers do not vectorise those, and on x86 an instruction that moves aligned words one by
 * one, as the program sees it, is three times as fast. The shared floats are host memory; x and y
 * are on any device.
 */
static inline void fast__race_load(const _Atomic float *from, float *y, int64_t count)
{
    float *to = fast__map(y, count, FAST_ACCESS_WRITE);
    const int64_t n = count;

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
    __asm__ __volatile__("rep movsl" : "+S"(from), "+D"(to), "+c"(count) : : "memory");
#else
    for (int64_t i = 0; i < count; i++)
        to[i] = atomic_load_explicit(&from[i], memory_order_relaxed);
#endif
    fast__unmap(y, n, FAST_ACCESS_WRITE);
}

static inline void fast__race_store(_Atomic float *to, const float *x, int64_t count)
{
    const float *from = fast__map(x, count, FAST_ACCESS_READ);
    const int64_t n = count;

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
    __asm__ __volatile__("rep movsl" : "+S"(from), "+D"(to), "+c"(count) : : "memory");
#else
    for (int64_t i = 0; i < count; i++)
        atomic_store_explicit(&to[i], from[i], memory_order_relaxed);
#endif
    fast__unmap(x, n, FAST_ACCESS_READ);
}
