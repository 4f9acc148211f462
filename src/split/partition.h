/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/* Divide units 0 .. n - 1, which take `seconds` each, into `count` ranges of consecutive ones so
 * that the slowest is the fastest: ends[s] receives the last unit of range s. A boundary behind
 * unit i costs the ranges on both sides crossing[i] seconds; [n - 1] is not read. replicas[s]
 * workers divide range s, NULL: one each. 1 <= count <= n. FAST_ENOMEM. */
fast_err fast__split_partition(const double *seconds, const double *crossing, int64_t n,
                               const int16_t *replicas, int64_t count, int64_t *ends);
