/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/* Compute the weights w[o] = g[o] v[o] / |v[o]| of a matrix or of filters, seen as v [out][in]. */
void fast__weight_norm_forward(int64_t out, int64_t in, const float *v, const float *g, float *w);

/* Compute dv [out][in] and dg [out] from dw; dv may be dw. */
void fast__weight_norm_backward(int64_t out, int64_t in, const float *v, const float *g,
                                const float *dw, float *dv, float *dg);
