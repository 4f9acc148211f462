/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tensor/device.h"

#include <string.h>

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#include <xmmintrin.h>
#define FAST_HAS_STREAM 1
#endif

/*
 * Copy floats that other cores will read, past the caches. Lines that several cores have read then
 * need not be invalidated in all of them first, which took up to 45 ns a line between two cores of
 * a virtual machine, against 8 for lines that only the other one had written. A thread that sees a
 * store of this thread after fast__stream_end() sees the copy. `y` is mapped for an update,
 * although all of it is written: a device may fill memory that is mapped for writing alone, and
 * another thread would read that.
 */
static inline void fast__stream_copy(float *y, const float *x, int64_t count)
{
    float *to = fast__map(y, count, FAST_ACCESS_UPDATE);
    const float *from = fast__map(x, count, FAST_ACCESS_READ);

#ifdef FAST_HAS_STREAM
    int64_t i = 0;

    for (; i < count && (uintptr_t)(to + i) % 16 != 0; i++)
        to[i] = from[i];
    for (; i + 4 <= count; i += 4)
        _mm_stream_ps(to + i, _mm_loadu_ps(from + i));
    memcpy(to + i, from + i, (size_t)(count - i) * sizeof *to);
#else
    memcpy(to, from, (size_t)count * sizeof *to);
#endif
    fast__unmap(x, count, FAST_ACCESS_READ);
    fast__unmap(y, count, FAST_ACCESS_UPDATE);
}

/* Order copies past the caches before all later stores of this thread. */
static inline void fast__stream_end(void)
{
#ifdef FAST_HAS_STREAM
    _mm_sfence();
#endif
}
