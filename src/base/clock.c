/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clocks of the system in nanoseconds. The monotonic one starts at an arbitrary time, never goes
 * back and ignores changes of the date, so differences are durations; about 20 ns a call.
 */
#include "base/clock.h"

#include "base/err.h"

#include <time.h>

/* Read one of the system's clocks in nanoseconds. */
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
