/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Updates of shared floats that touch some of them. Of n elements k changed:
 *
 *   k > n / SPARSE   each that changed is stored; a concurrent update of the same element is lost
 *   otherwise        each that changed is added, by compare and exchange: x itself where no other
 *                    thread was there, so that one thread alone has the bits of a store
 *
 * An exchange takes 20 cycles, a store one. Few changes are cheap either way; where many change,
 * threads that add would spend more time than their updates are worth. k is counted only where the
 * gradient is sparse; a rule with momentum changes all elements nevertheless.
 */
#include "tensor/race.h"

#include "base/err.h"
#include "tensor/clones.h"

#include <string.h>

enum {
    SPARSE = 8, /* see above */
    LOOK = 256  /* elements that are looked at together */
};

/* The bits of element i, whatever its value: NaN equals itself, and -0 is not 0. */
static inline uint32_t bits_at(const float *x, int64_t i)
{
    uint32_t bits;

    memcpy(&bits, x + i, sizeof bits);
    return bits;
}

/* Return the number of elements whose bits differ. */
FAST_CLONES static int64_t count_changed(const float *restrict before, const float *restrict x,
                                         int64_t count)
{
    int64_t changed = 0;

    for (int64_t i = 0; i < count; i++)
        changed += bits_at(before, i) != bits_at(x, i);
    return changed;
}

/* Add x - before to an element that may have changed since it was `before`. */
static void add(_Atomic float *to, float before, float x)
{
    float now = before;
    float sum = x;

    while (!atomic_compare_exchange_weak_explicit(to, &now, sum, memory_order_relaxed,
                                                  memory_order_relaxed))
        sum = bits_at(&now, 0) == bits_at(&before, 0) ? x : now + (x - before);
}

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define MASKED_MOVES
/* Store 16 elements at a time by masked moves, which write the selected words and no others, each
 * one at once, as the program sees it. Return the number of elements that it did. */
__attribute__((target("avx512f"))) static int64_t store_wide(_Atomic float *to, const float *before,
                                                             const float *x, int64_t count)
{
    int64_t i = 0;

    for (; i + 16 <= count; i += 16)
        __asm__ __volatile__("vmovdqu32 (%2), %%zmm0\n\t"
                             "vpcmpneqd (%1), %%zmm0, %%k1\n\t"
                             "vmovdqu32 %%zmm0, (%0)%{%%k1%}"
                             :
                             : "r"(to + i), "r"(before + i), "r"(x + i)
                             : "xmm0", "k1", "memory");
    return i;
}
#endif

/* Store the elements that changed. */
static void store_changed(_Atomic float *to, const float *before, const float *x, int64_t count)
{
    int64_t i = 0;

#ifdef MASKED_MOVES
    if (__builtin_cpu_supports("avx512f"))
        i = store_wide(to, before, x, count);
#endif
    for (; i < count; i++)
        if (bits_at(before, i) != bits_at(x, i))
            atomic_store_explicit(&to[i], x[i], memory_order_relaxed);
}

FAST_CLONES static int64_t count_zeros(const float *x, int64_t count)
{
    int64_t zeros = 0;

    for (int64_t i = 0; i < count; i++)
        zeros += x[i] == 0.0f;
    return zeros;
}

fast_race_density fast__race_look(const float *x, int64_t count)
{
    const float *from = fast__map(x, count, FAST_ACCESS_READ);
    int64_t zeros = 0, seen = 0;

    /* The rest does not change that some are 0 and too many are not. */
    while (seen < count && (zeros == 0 || seen - zeros <= count / SPARSE)) {
        const int64_t n = count - seen < LOOK ? count - seen : LOOK;

        zeros += count_zeros(from + seen, n);
        seen += n;
    }
    fast__unmap(x, count, FAST_ACCESS_READ);
    return zeros == 0                       ? FAST_RACE_DENSE
           : seen - zeros <= count / SPARSE ? FAST_RACE_SPARSE
                                            : FAST_RACE_MIXED;
}

void fast__race_merge(_Atomic float *to, const float *before, const float *x, int64_t count,
                      fast_race_density density)
{
    const float *from = fast__map(x, count, FAST_ACCESS_READ);
    const bool sparse =
        density == FAST_RACE_SPARSE && count_changed(before, from, count) <= count / SPARSE;

    FAST_ASSERT(density != FAST_RACE_DENSE);
    for (int64_t i = 0; sparse && i < count; i++)
        if (bits_at(before, i) != bits_at(from, i))
            add(&to[i], before[i], from[i]);
    if (!sparse)
        store_changed(to, before, from, count);
    fast__unmap(x, count, FAST_ACCESS_READ);
}
