/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* Monotonic nanoseconds. Only transports, prefetching and benchmarks may ask; what trains asks its
 * transport, or runs in the simulator would not repeat. */
int64_t fast__clock_ns(void);
