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

/* Ask for floats that will be stored soon: their lines come from the other core meanwhile, once and
 * for writing, instead of once for the load and again for the store. */
static inline void fast__race_expect(const _Atomic float *at, int64_t count)
{
#if defined(__GNUC__)
    for (int64_t i = 0; i < count; i += 16)
        __builtin_prefetch((const void *)(at + i), 1, 3);
#else
    (void)at;
    (void)count;
#endif
}

/* How many elements of a gradient are not 0. */
typedef enum fast_race_density {
    FAST_RACE_DENSE, /* all */
    FAST_RACE_MIXED, /* more than an eighth */
    FAST_RACE_SPARSE /* an eighth at most */
} fast_race_density;
fast_race_density fast__race_look(const float *x, int64_t count);

/* Store the elements of x that differ from `before`, the host's copy of what was loaded, and no
 * others; x is on any device, `density` that of the gradient. If at most an eighth differ, their
 * changes are added by atomic operations, and no update of another thread is lost; else they are
 * stored as they are. */
void fast__race_merge(_Atomic float *to, const float *before, const float *x, int64_t count,
                      fast_race_density density);
