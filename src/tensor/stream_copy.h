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
 * a virtual machine, against 8 for lines that only the other one had written. `y` is aligned to 16
 * bytes. A thread that sees a later store of this thread sees the copy. `y` is mapped for an
 * update, although all of it is written: a device may fill memory that is mapped for writing alone,
 * and another thread would read that.
 */
static inline void fast__stream_copy(float *y, const float *x, int64_t count)
{
    float *to = fast__map(y, count, FAST_ACCESS_UPDATE);
    const float *from = fast__map(x, count, FAST_ACCESS_READ);

#ifdef FAST_HAS_STREAM
    int64_t i = 0;

    for (; i + 4 <= count; i += 4)
        _mm_stream_ps(to + i, _mm_loadu_ps(from + i));
    memcpy(to + i, from + i, (size_t)(count - i) * sizeof *to);
    _mm_sfence();
#else
    memcpy(to, from, (size_t)count * sizeof *to);
#endif
    fast__unmap(x, count, FAST_ACCESS_READ);
    fast__unmap(y, count, FAST_ACCESS_UPDATE);
}
