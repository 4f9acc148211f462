/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "data/data.h"

/* Write x' = (x - mean) * scale of `count` samples, one after the other, to `out`
 * [count][features]. */
void fast__gather(const fast_data *data, const uint32_t *samples, int64_t count, float *out);

/* Write x' of one sample, whose bytes are at `x`, to `out` [features]. */
void fast__gather_row(const fast_data *data, const void *x, float *out);

/* Prefetch a sample that a gather will need soon. */
void fast__gather_request(const fast_data *data, uint32_t sample);
