/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clock: monotonic time in nanoseconds since an arbitrary start, about 20 ns a call. It never
 * goes back and does not follow changes of the date, so differences are durations.
 */
#include "base/clock.h"

#include "base/err.h"

#include <time.h>

static int64_t read_clock(clockid_t clock)
{
    struct timespec now;
    const int failed = clock_gettime(clock, &now);
    FAST_ASSERT(!failed);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t fast__clock_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t fast__clock_thread_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

double fast__clock_date(void)
{
    return (double)read_clock(CLOCK_REALTIME) * 1e-9;
}
