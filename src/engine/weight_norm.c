/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weight normalisation (Salimans and Kingma, NIPS 2016), shared by the engines: the length of each
 * output's weight is a parameter of its own:
 *
 *     w = g v / |v|      dg = dw . v / |v|      dv = (g / |v|) (dw - dg v / |v|)
 *
 * dv is orthogonal to v. A zero v has no direction: w and both gradients are then 0.
 */
#include "engine/weight_norm.h"

#include "tensor/vector.h"

#include <math.h>

/* 1 / |v|, or 0 for a zero vector. The sum is in double: a row of a large layer has 10^5 terms. */
static float inverse_norm(int64_t in, const float *v)
{
    const double sum = fast__vector_norm2(in, v);
    return sum > 0 ? (float)(1.0 / sqrt(sum)) : 0.0F;
}

/* w = g v / |v| for each of `out` rows of `in` weights; 0 where v is. */
void fast__weight_norm_forward(int64_t out, int64_t in, const float *v, const float *g, float *w)
{
    FAST_ASSERT(out > 0);
    FAST_ASSERT(in > 0);
    for (int64_t o = 0; o < out; o++) {
        const float scale = g[o] * inverse_norm(in, v + o * in);
        for (int64_t i = 0; i < in; i++)
            w[o * in + i] = scale * v[o * in + i];
    }
}

/* dg = dw . v / |v| and dv = (g / |v|) (dw - dg v / |v|), row by row. dv may be dw. */
void fast__weight_norm_backward(int64_t out, int64_t in, const float *v, const float *g,
                                const float *dw, float *dv, float *dg)
{
    FAST_ASSERT(out > 0);
    FAST_ASSERT(in > 0);
    for (int64_t o = 0; o < out; o++) {
        const float *vo = v + o * in;
        const float inverse = inverse_norm(in, vo);
        const float along = (float)fast__vector_dot(in, dw + o * in, vo) * inverse;
        dg[o] = along;
        for (int64_t i = 0; i < in; i++)
            dv[o * in + i] = g[o] * inverse * (dw[o * in + i] - along * inverse * vo[i]);
    }
}
