/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* Return monotonic nanoseconds. Only transports, prefetching and benchmarks may call it; training
 * code asks its transport, or runs in the simulator would not repeat. */
int64_t fast__clock_ns(void);

/* Return the CPU time of this thread in nanoseconds, which other programs do not disturb: for
 * choosing among methods by measurement on a busy machine. */
int64_t fast__clock_thread_ns(void);

/* Return seconds since 1970 by the calendar, which may jump: for time stamps only. */
double fast__clock_date(void);
