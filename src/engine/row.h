/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * Rows of small products that are computed in rounds, beside an engine's own kernels: too short for
 * those of tensor/vector.h, and in float. Sums run in partial sums, which a compiler may compute
 * side by side; their order is fixed.
 */
enum { FAST_ROW_LANES = 16 };

/* Return the sum of x y. */
static inline float fast__row_dot(int64_t n, const float *restrict x, const float *restrict y)
{
    float part[FAST_ROW_LANES] = { 0 }, sum = 0;
    int64_t i = 0;

    for (; i + FAST_ROW_LANES <= n; i += FAST_ROW_LANES)
        for (int l = 0; l < FAST_ROW_LANES; l++)
            part[l] += x[i + l] * y[i + l];
    for (; i < n; i++)
        sum += x[i] * y[i];
    for (int l = 0; l < FAST_ROW_LANES; l++)
        sum += part[l];
    return sum;
}

/* y += a x. */
static inline void fast__row_add(int64_t n, float a, const float *restrict x, float *restrict y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += a * x[i];
}
