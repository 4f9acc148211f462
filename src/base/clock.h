/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* Monotonic nanoseconds. Only transports, prefetching and benchmarks may ask; what trains asks its
 * transport, or runs in the simulator would not repeat. */
int64_t fast__clock_ns(void);

/* Nanoseconds that this thread has computed: what other programs take does not count. For choosing
 * among methods by measurement on a busy machine. */
int64_t fast__clock_thread_ns(void);

/* Seconds since 1970 by the calendar, which may jump: for saying when something was. */
double fast__clock_date(void);
