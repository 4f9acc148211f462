/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolution with stride, padding, dilation and groups, as a matrix product per sample and group:
 *
 *     y[o][p] = b[o] + sum over k of W[o][k] U[k][p]
 *
 * where k = (c, ky, kx) runs over a filter, p = (oy, ox) over output pixels, and U (`unfolded`,
 * im2col) holds the input that filter tap k reads at pixel p, 0 in the padding. Backward:
 *
 *     dW = dy U'      dU = W' dy, folded: every element is added to the input it came from
 *     db[o] = sum of dy[o][p] over pixels and samples
 *
 * Weight norm as in ref_dense.c. Cost: 2 n out_c out_h out_w (in_c / groups) kh kw operations a
 * product.
 */
#include "engine/ref/ref.h"
#include "engine/weight_norm.h"

#include <string.h>

/* The sizes of one group. */
typedef struct ref_conv_shape {
    const fast_node *node;       /* strides, padding and dilation */
    int64_t in_c, in_h, in_w;    /* input of one group */
    int64_t out_c, out_h, out_w; /* output of one group */
    int64_t taps;                /* in_c kh kw: columns of W */
    int64_t pixels;              /* out_h out_w */
} ref_conv_shape;

/* The sizes of one group of a node; groups are independent convolutions over their own channels, so
 * that all loops below are of one group. */
static ref_conv_shape shape_of(const fast_graph *graph, int index)
{
    const fast_node *node = &graph->nodes[index];
    const fast_node *in = &graph->nodes[node->inputs[0]];
    FAST_ASSERT(in->rank == 3 && node->rank == 3);
    FAST_ASSERT(node->groups > 0 && in->shape[0] % node->groups == 0);
    FAST_ASSERT(node->shape[0] % node->groups == 0);
    ref_conv_shape s = { .node = node,
                         .in_c = in->shape[0] / node->groups,
                         .in_h = in->shape[1],
                         .in_w = in->shape[2],
                         .out_c = node->shape[0] / node->groups,
                         .out_h = node->shape[1],
                         .out_w = node->shape[2] };
    s.taps = s.in_c * node->kernel[0] * node->kernel[1];
    s.pixels = s.out_h * s.out_w;
    return s;
}

/* Scratch: U or dU; saved: the effective weight of a weight norm. */
static fast_ref_need conv_need(const fast_graph *graph, int index, int64_t batch)
{
    (void)batch;
    const ref_conv_shape s = shape_of(graph, index);
    fast_ref_need need = { 0, s.taps * s.pixels };
    if (graph->nodes[index].weight[FAST_W_GAIN] >= 0)
        need.saved = fast__ref_weight_count(graph, &graph->nodes[index], FAST_W_WEIGHT);
    return need;
}

/* Set [*first, *end) to the output columns for which tap kx reads inside the input. */
static void inside(const ref_conv_shape *s, int64_t kx, int64_t *first, int64_t *end)
{
    const int64_t stride = s->node->stride[1];
    const int64_t start = kx * s->node->dilation[1] - s->node->pad[1]; /* ix of ox = 0 */
    const int64_t low = start >= 0 ? 0 : (-start + stride - 1) / stride;
    const int64_t high = s->in_w - start <= 0 ? 0 : (s->in_w - start + stride - 1) / stride;
    *end = high < s->out_w ? high : s->out_w;
    *first = low < *end ? low : *end;
}

/* U = unfolded x, or with `fold` dx += folded U, for one sample and group. */
static void unfold(const ref_conv_shape *s, bool fold, float *x, float *u)
{
    const fast_node *node = s->node;
    for (int64_t c = 0; c < s->in_c; c++)
        for (int64_t ky = 0; ky < node->kernel[0]; ky++)
            for (int64_t kx = 0; kx < node->kernel[1]; kx++, u += s->pixels) {
                int64_t first;
                int64_t end;
                inside(s, kx, &first, &end);
                const int64_t stride = node->stride[1];
                const int64_t start = kx * node->dilation[1] - node->pad[1];
                for (int64_t oy = 0; oy < s->out_h; oy++) {
                    const int64_t iy = oy * node->stride[0] - node->pad[0] + ky * node->dilation[0];
                    float *line = u + oy * s->out_w;
                    const bool hit = iy >= 0 && iy < s->in_h;
                    float *row = hit ? x + (c * s->in_h + iy) * s->in_w : NULL;
                    if (fold) {
                        for (int64_t ox = first; hit && ox < end; ox++)
                            row[ox * stride + start] += line[ox];
                        continue;
                    }
                    memset(line, 0, (size_t)s->out_w * sizeof(float));
                    for (int64_t ox = first; hit && ox < end; ox++)
                        line[ox] = row[ox * stride + start];
                }
            }
}

/* Per sample and group: bias, unfold, product. */
static void conv_forward(fast_ref_call *call)
{
    const ref_conv_shape s = shape_of(call->graph, call->index);
    const float *w = fast__ref_weight(call, FAST_W_WEIGHT);
    const float *gain = fast__ref_weight(call, FAST_W_GAIN);
    const float *b = fast__ref_weight(call, FAST_W_BIAS);
    const int64_t groups = call->node->groups;
    if (gain) {
        fast__weight_norm_forward(groups * s.out_c, s.taps, w, gain, call->saved);
        w = call->saved;
    }
    for (int64_t i = 0; i < call->n * groups; i++) {
        const int64_t g = i % groups;
        /* unfold() only reads x if it does not fold. */
        float *x = (float *)(uintptr_t)(call->x[0] + i * s.in_c * s.in_h * s.in_w);
        float *y = call->y + i * s.out_c * s.pixels;
        unfold(&s, false, x, call->scratch);
        for (int64_t o = 0; o < s.out_c; o++)
            for (int64_t p = 0; p < s.pixels; p++)
                y[o * s.pixels + p] = b ? b[g * s.out_c + o] : 0.0F;
        fast__ref_product(s.out_c, s.pixels, s.taps,
                          (fast_ref_view){ w + g * s.out_c * s.taps, s.taps, 1 },
                          (fast_ref_view){ call->scratch, s.pixels, 1 }, y, s.pixels);
    }
}

/* Per sample and group: dx += fold(W' dy). */
static void conv_backward(fast_ref_call *call)
{
    const ref_conv_shape s = shape_of(call->graph, call->index);
    const int64_t groups = call->node->groups, count = s.taps * s.pixels;
    const bool normed = fast__ref_weight(call, FAST_W_GAIN) != NULL;
    const float *w = normed ? call->saved : fast__ref_weight(call, FAST_W_WEIGHT);
    float *du = call->scratch;
    for (int64_t i = 0; call->dx[0] && i < call->n * groups; i++) {
        memset(du, 0, (size_t)count * sizeof(float));
        fast__ref_product(s.taps, s.pixels, s.out_c,
                          (fast_ref_view){ w + i % groups * s.out_c * s.taps, 1, s.taps },
                          (fast_ref_view){ call->dy + i * s.out_c * s.pixels, s.pixels, 1 }, du,
                          s.pixels);
        unfold(&s, true, call->dx[0] + i * s.in_c * s.in_h * s.in_w, du);
    }
}

/* Per sample and group: dw += dy U', db += sums of dy; the weight norm comes last. */
static void conv_weights(fast_ref_call *call)
{
    const ref_conv_shape s = shape_of(call->graph, call->index);
    const int64_t groups = call->node->groups;
    const float *gain = fast__ref_weight(call, FAST_W_GAIN);
    float *dw = fast__ref_grad(call, FAST_W_WEIGHT);
    float *db = fast__ref_grad(call, FAST_W_BIAS);
    float *u = call->scratch;
    memset(dw, 0, (size_t)(groups * s.out_c * s.taps) * sizeof(float));
    if (db)
        memset(db, 0, (size_t)(groups * s.out_c) * sizeof(float));
    for (int64_t i = 0; i < call->n * groups; i++) {
        const int64_t g = i % groups;
        const float *dy = call->dy + i * s.out_c * s.pixels;
        /* unfold() only reads x if it does not fold. */
        unfold(&s, false, (float *)(uintptr_t)(call->x[0] + i * s.in_c * s.in_h * s.in_w), u);
        fast__ref_product(s.out_c, s.taps, s.pixels, (fast_ref_view){ dy, s.pixels, 1 },
                          (fast_ref_view){ u, 1, s.pixels }, dw + g * s.out_c * s.taps, s.taps);
        for (int64_t o = 0; db && o < s.out_c; o++) {
            double sum = 0;
            for (int64_t p = 0; p < s.pixels; p++)
                sum += (double)dy[o * s.pixels + p];
            db[g * s.out_c + o] += (float)sum;
        }
    }
    if (gain)
        fast__weight_norm_backward(groups * s.out_c, s.taps, fast__ref_weight(call, FAST_W_WEIGHT),
                                   gain, dw, dw, fast__ref_grad(call, FAST_W_GAIN));
}

const fast_ref_op fast__ref_conv = {
    .need = conv_need, .forward = conv_forward, .backward = conv_backward, .weights = conv_weights
};
