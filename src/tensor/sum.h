/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tensor/device.h"

/*
 * The canonical sum of several vectors, at the speed of memory: with n = 2^k + r vectors, x[2i] and
 * x[2i+1] are added first for i < r, then the 2^k sums as a perfect binary tree, element by
 * element. The bits do not depend on the instruction set, nor on how the vectors are cut. The
 * vectors are on any devices.
 */
enum { FAST_SUM_MAX = 4096 }; /* vectors at most */

/* y[0 .. count) = the sum of x[0 .. n)[0 .. count). y must not overlap any of them. */
void fast__sum(const float *const *x, int64_t n, int64_t count, float *y);

/* y[0 .. count) = the sum of x[0 .. n)[offset .. offset + count). y must not overlap any x. */
void fast__sum_range(const float *const *x, int64_t n, int64_t offset, int64_t count, float *y);

/* Every x[i][offset .. offset + count) becomes their sum. No two overlap. */
void fast__sum_all(float *const *x, int64_t n, int64_t offset, int64_t count);
