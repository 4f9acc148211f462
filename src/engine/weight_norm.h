/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/* Weight norm of a matrix or of filters, seen as v [out][in]: w[o] = g[o] v[o] / |v[o]|. */
void fast__weight_norm_forward(int64_t out, int64_t in, const float *v, const float *g, float *w);

/* From dw to dv [out][in] and dg [out]; dv may be dw. */
void fast__weight_norm_backward(int64_t out, int64_t in, const float *v, const float *g,
                                const float *dw, float *dv, float *dg);
