/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of single elements, softmax over the last dimension, and dropout.
 *
 *     relu         max(0, x)                    dx = dy where y > 0
 *     leaky_relu   x > 0 ? x : a x              dx = dy or a dy
 *     tanh         tanh x                       dx = dy (1 - y^2)
 *     sigmoid      1 / (1 + exp(-x))            dx = dy y (1 - y)
 *     gelu         x Phi(x)                     dx = dy (Phi(x) + x phi(x)); Phi by erf, exact
 *     softmax      exp(x - max) / sum           dx = y (dy - sum(y dy))
 *     dropout      x mask                       dx = dy mask; the mask is saved
 */
#include "engine/dropout.h"
#include "engine/ref/ref.h"

#include <math.h>
#include <string.h>

/* Elements of a node's output in this batch. */
static int64_t elements(const fast_ref_call *call)
{
    return call->n * call->node->count;
}

static const float half_root = 0.70710678F;        /* 1 / sqrt(2) */
static const float inverse_root_2pi = 0.39894228F; /* 1 / sqrt(2 pi) */

/* Define an operator by two expressions: y of x, and the summand of dx by x, y and dy; a is the
 * node's attribute. */
#define ELEMENTWISE(name, value, gradient)                            \
    static void name##_forward(fast_ref_call *call)                   \
    {                                                                 \
        const float a = call->node->a;                                \
        for (int64_t i = 0; i < elements(call); i++) {                \
            const float x = call->x[0][i];                            \
            call->y[i] = value;                                       \
        }                                                             \
        (void)a;                                                      \
    }                                                                 \
    static void name##_backward(fast_ref_call *call)                  \
    {                                                                 \
        const float a = call->node->a;                                \
        for (int64_t i = 0; call->dx[0] && i < elements(call); i++) { \
            const float x = call->x[0][i], y = call->y[i];            \
            const float dy = call->dy[i];                             \
            (void)x, (void)y;                                         \
            call->dx[0][i] += gradient;                               \
        }                                                             \
        (void)a;                                                      \
    }                                                                 \
    const fast_ref_op fast__ref_##name = { NULL, name##_forward, name##_backward };

ELEMENTWISE(relu, x<0.0F ? 0.0F : x /* NaN stays NaN */, y> 0.0F ? dy : 0.0F)
ELEMENTWISE(leaky_relu, x > 0.0F ? x : a * x, x > 0.0F ? dy : a * dy)
ELEMENTWISE(tanh, tanhf(x), dy *(1.0F - y * y))
ELEMENTWISE(sigmoid, 1.0F / (1.0F + expf(-x)), dy *y *(1.0F - y))
ELEMENTWISE(gelu, 0.5F * x * (1.0F + erff(x * half_root)),
            dy *(0.5F * (1.0F + erff(x * half_root)) +
                 x * (inverse_root_2pi * expf(-0.5F * x * x))))

/* Subtract the maximum first, so that no exponential overflows. */
static void softmax_forward(fast_ref_call *call)
{
    const int64_t K = call->node->shape[call->node->rank - 1];
    for (int64_t r = 0; r < elements(call) / K; r++) {
        const float *x = call->x[0] + r * K;
        float *y = call->y + r * K;
        float max = x[0];
        for (int64_t k = 1; k < K; k++)
            max = x[k] > max ? x[k] : max;
        float sum = 0;
        for (int64_t k = 0; k < K; k++) {
            y[k] = expf(x[k] - max);
            sum += y[k];
        }
        for (int64_t k = 0; k < K; k++)
            y[k] /= sum;
    }
}

/* dx = y (dy - sum of y dy), row by row. */
static void softmax_backward(fast_ref_call *call)
{
    const int64_t K = call->node->shape[call->node->rank - 1];
    for (int64_t r = 0; call->dx[0] && r < elements(call) / K; r++) {
        const float *y = call->y + r * K;
        const float *dy = call->dy + r * K;
        float dot = 0;
        for (int64_t k = 0; k < K; k++)
            dot += y[k] * dy[k];
        for (int64_t k = 0; k < K; k++)
            call->dx[0][r * K + k] += y[k] * (dy[k] - dot);
    }
}

/* Dropout saves its mask. */
static fast_ref_need dropout_need(const fast_graph *graph, int index, int64_t batch)
{
    return (fast_ref_need){ batch * graph->nodes[index].count, 0 };
}

/* Evaluation copies; training draws a mask for each sample and saves it. */
static void dropout_forward(fast_ref_call *call)
{
    const int64_t count = call->node->count;
    if (!call->pass->train) {
        memcpy(call->y, call->x[0], (size_t)elements(call) * sizeof(float));
        return;
    }
    for (int64_t s = 0; s < call->n; s++)
        fast__dropout_mask(call->pass, fast__node_number(call->graph, call->index), s,
                           call->node->a, call->node->columns[0], count, call->saved + s * count);
    for (int64_t i = 0; i < elements(call); i++)
        call->y[i] = call->x[0][i] * call->saved[i];
}

/* dx += dy mask. */
static void dropout_backward(fast_ref_call *call)
{
    for (int64_t i = 0; call->dx[0] && i < elements(call); i++)
        call->dx[0][i] += call->dy[i] * call->saved[i];
}

const fast_ref_op fast__ref_softmax = { NULL, softmax_forward, softmax_backward };
const fast_ref_op fast__ref_dropout = { dropout_need, dropout_forward, dropout_backward };
