/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locally connected layers: a window as that of a convolution, with weights of its own at each
 * place p = (oy, ox):
 *
 *     y[o][p] = b[p][o] + sum over k of W[p][o][k] U[k][p]      k = (c, ky, kx), as PyTorch unfolds
 *
 * In a tiled layer (Ngiam et al. 2010) places k rows or columns apart have equal weights, whose
 * gradients are added. U holds the input that the window reads, 0 in the padding. For each place
 * one product over the samples of the batch, forward and backward:
 *
 *     dU[p] = W[p]' dy[p], folded     dW[p] = dy[p] U[p]'     db[p] = sum of dy[p]
 */
#include "engine/ref/ref.h"

#include <string.h>

/* The letters. */
typedef struct ref_local_shape {
    const fast_node *node; /* window, strides and padding */
    const fast_node *in;   /* the image before */
    int64_t O, K, P;       /* outputs of a place, elements of a window, places */
} ref_local_shape;

static ref_local_shape shape_of(const fast_graph *graph, int index)
{
    const fast_node *node = &graph->nodes[index], *in = &graph->nodes[node->inputs[0]];

    FAST_ASSERT(in->rank == 3 && node->rank == 3);
    return (ref_local_shape){ .node = node,
                              .in = in,
                              .O = node->shape[0],
                              .K = in->shape[0] * node->kernel[0] * node->kernel[1],
                              .P = node->shape[1] * node->shape[2] };
}

/* Scratch: windows and outputs of one place, of all samples, and their gradients. */
static fast_ref_need local_need(const fast_graph *graph, int index, int64_t batch)
{
    const ref_local_shape s = shape_of(graph, index);

    return (fast_ref_need){ 0, 2 * batch * (s.K + s.O) };
}

/* u = the window of a sample at place p; or with `fold` dx += u. */
static void move_window(const ref_local_shape *s, int64_t p, bool fold, float *x, float *u)
{
    const fast_node *n = s->node;
    const int64_t H = s->in->shape[1], W = s->in->shape[2];
    const int64_t y = p / n->shape[2] * n->stride[0] - n->pad[0],
                  x0 = p % n->shape[2] * n->stride[1] - n->pad[1];

    for (int64_t c = 0; c < s->in->shape[0]; c++)
        for (int64_t ky = 0; ky < n->kernel[0]; ky++)
            for (int64_t kx = 0; kx < n->kernel[1]; kx++, u++) {
                const int64_t iy = y + ky * n->dilation[0], ix = x0 + kx * n->dilation[1];
                const bool inside = iy >= 0 && iy < H && ix >= 0 && ix < W;

                if (fold && inside)
                    x[(c * H + iy) * W + ix] += *u;
                else if (!fold)
                    *u = inside ? x[(c * H + iy) * W + ix] : 0;
            }
}

/* Place by place: windows of all samples, one product. */
static void local_forward(fast_ref_call *call)
{
    const ref_local_shape s = shape_of(call->graph, call->index);
    const float *w = fast__ref_weight(call, FAST_W_WEIGHT),
                *b = fast__ref_weight(call, FAST_W_BIAS);
    float *u = call->scratch, *y = u + call->n * s.K;

    for (int64_t p = 0; p < s.P; p++) {
        const int64_t q = fast__local_filter(s.node, p);

        for (int64_t i = 0; i < call->n; i++) /* only read */
            move_window(&s, p, false, (float *)(uintptr_t)call->x[0] + i * s.in->count,
                        u + i * s.K);
        fast__ref_linear(call->n, s.K, s.O, u, w + q * s.O * s.K, b ? b + q * s.O : NULL, y);
        for (int64_t i = 0; i < call->n * s.O; i++)
            call->y[i * s.P + p] = y[i];
    }
}

/* Place by place: dx first, since weights are not read after a report. */
static void local_backward(fast_ref_call *call)
{
    const ref_local_shape s = shape_of(call->graph, call->index);
    const int64_t n = call->n, filters = fast__local_filters(s.node);
    const float *w = fast__ref_weight(call, FAST_W_WEIGHT);
    float *dw = fast__ref_grad(call, FAST_W_WEIGHT), *db = fast__ref_grad(call, FAST_W_BIAS);
    float *u = call->scratch, *dy = u + n * s.K, *du = dy + n * s.O;

    memset(dw, 0, (size_t)(filters * s.O * s.K) * sizeof *dw);
    if (db)
        memset(db, 0, (size_t)(filters * s.O) * sizeof *db);
    for (int64_t p = 0; p < s.P; p++) {
        const int64_t q = fast__local_filter(s.node, p);

        for (int64_t i = 0; i < n; i++)
            move_window(&s, p, false, (float *)(uintptr_t)call->x[0] + i * s.in->count,
                        u + i * s.K);
        for (int64_t i = 0; i < n * s.O; i++) {
            dy[i] = call->dy[i * s.P + p];
            if (db)
                db[q * s.O + i % s.O] += dy[i];
        }
        fast__ref_product(s.O, s.K, n, (fast_ref_view){ dy, 1, s.O }, (fast_ref_view){ u, s.K, 1 },
                          dw + q * s.O * s.K, s.K);
        if (!call->dx[0])
            continue;
        memset(du, 0, (size_t)(n * s.K) * sizeof *du);
        fast__ref_linear_dx(n, s.K, s.O, dy, w + q * s.O * s.K, du);
        for (int64_t i = 0; i < n; i++)
            move_window(&s, p, true, call->dx[0] + i * s.in->count, du + i * s.K);
    }
}

const fast_ref_op fast__ref_local = { local_need, local_forward, local_backward };
