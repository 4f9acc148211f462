/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/strategy.h"

/*
 * Kernels that several strategies apply to their vectors. x[0] is the result; the cost for each
 * element stands beside their definitions. A strategy whose cost differs, because it hides behind
 * another pass, declares a kernel of its own on the same function. The functions are called on
 * mapped memory.
 */
extern const fast_kernel fast__kernel_scale;    /* y <- a y;            ctx: float a */
extern const fast_kernel fast__kernel_add;      /* y <- y + x;          ctx: NULL */
extern const fast_kernel fast__kernel_subtract; /* y <- y - x;          ctx: NULL */
extern const fast_kernel fast__kernel_mix;      /* y <- own y + other x; ctx: fast_mix */
extern const fast_kernel fast__kernel_approach; /* y <- y + a (x - y);  ctx: float a */

/* Weights of a mix. */
typedef struct fast_mix {
    double own;   /* of y */
    double other; /* of x */
} fast_mix;

/* Their functions, for kernels with another cost. */
void fast__run_scale(const void *ctx, int64_t n, float *const *x);
void fast__run_add(const void *ctx, int64_t n, float *const *x);
void fast__run_axpy(const void *ctx, int64_t n, float *const *x); /* y <- y + a x; ctx: float a */
