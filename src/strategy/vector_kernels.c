/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vector kernels of the strategies. The rows at the end have their cost for each element:
 * floating-point operations, and bytes read and written.
 */
#include "strategy/vector_kernels.h"

#include "base/err.h"
#include "tensor/vector.h"

void fast__run_scale(const void *ctx, int64_t n, float *const *x)
{
    FAST_ASSERT(ctx != NULL);
    fast__vector_scale(n, *(const float *)ctx, x[0]);
}

void fast__run_add(const void *ctx, int64_t n, float *const *x)
{
    (void)ctx;
    FAST_ASSERT(x[0] != x[1]);
    fast__vector_add(n, x[1], x[0]);
}

void fast__run_axpy(const void *ctx, int64_t n, float *const *x)
{
    FAST_ASSERT(ctx != NULL && x[0] != x[1]);
    fast__vector_axpy(n, *(const float *)ctx, x[1], x[0]);
}

/* y <- y - x */
static void run_subtract(const void *ctx, int64_t n, float *const *x)
{
    (void)ctx;
    FAST_ASSERT(x[0] != x[1]);
    fast__vector_axpy(n, -1, x[1], x[0]);
}

/* y <- own y + other x */
static void run_mix(const void *ctx, int64_t n, float *const *x)
{
    const fast_mix *mix = ctx;

    FAST_ASSERT(mix != NULL);
    fast__vector_axpby(n, (float)mix->other, x[1], (float)mix->own, x[0]);
}

/* y <- y + a (x - y) */
static void run_approach(const void *ctx, int64_t n, float *const *x)
{
    const float a = *(const float *)ctx;

    FAST_ASSERT(n >= 0);
    for (int64_t i = 0; i < n; i++)
        x[0][i] += a * (x[1][i] - x[0][i]);
}

const fast_kernel fast__kernel_scale = { "scale", 1, 8, 1, 1, false, fast__run_scale };
const fast_kernel fast__kernel_add = { "add", 1, 12, 2, 1, false, fast__run_add };
const fast_kernel fast__kernel_subtract = { "subtract", 1, 12, 2, 1, false, run_subtract };
const fast_kernel fast__kernel_mix = { "mix", 3, 12, 2, 1, false, run_mix };
const fast_kernel fast__kernel_approach = { "approach", 3, 12, 2, 1, false, run_approach };
