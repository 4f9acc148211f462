/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dense layers: y = x W' + b, on rows that are samples, or positions of sequences.
 *
 *     dx += dy W      dW = dy' x      db = sum of dy over rows
 *
 * The weight's gradient can be delivered as factors: dW[o][i] = sum over rows r of u[o][r] v[i][r],
 * with u = dy' and v = x'. For batches smaller than the layer that is far less to send. With weight
 * norm the effective weight is computed in the forward pass and saved for the backward pass; its
 * gradient goes through the norm and is never offered as factors.
 */
#include "engine/ref/ref.h"
#include "engine/weight_norm.h"

/* Scratch: the factors; saved: the effective weight of a weight norm. */
static fast_ref_need dense_need(const fast_graph *graph, int index, int64_t batch)
{
    const fast_node *node = &graph->nodes[index];
    const fast_dense_shape shape = fast__dense_shape(graph, index);
    fast_ref_need need = { 0, 0 };
    if (node->weight[FAST_W_GAIN] >= 0)
        need.saved = shape.inputs * shape.outputs;
    need.scratch = batch * shape.rows * (shape.inputs + shape.outputs);
    return need;
}

/* With weight norm the effective weight is computed first, and saved. */
static void dense_forward(fast_ref_call *call)
{
    const fast_dense_shape s = fast__dense_shape(call->graph, call->index);
    const float *w = fast__ref_weight(call, FAST_W_WEIGHT);
    const float *gain = fast__ref_weight(call, FAST_W_GAIN);
    if (gain) {
        fast__weight_norm_forward(s.outputs, s.inputs, w, gain, call->saved);
        w = call->saved;
    }
    fast__ref_linear(call->n * s.rows, s.inputs, s.outputs, call->x[0], w,
                     fast__ref_weight(call, FAST_W_BIAS), call->y);
}

/* to = from transposed. */
static void transpose(int64_t rows, int64_t columns, const float *from, float *to)
{
    for (int64_t c = 0; c < columns; c++)
        for (int64_t r = 0; r < rows; r++)
            to[c * rows + r] = from[r * columns + c];
}

/* Offer the gradient as factors; true if they were taken. Both are transposed first, because the
 * contract has samples innermost. */
static bool dense_offer(const fast_ref_call *call, const fast_dense_shape *s)
{
    const int64_t rows = call->n * s->rows;
    float *u = call->scratch;
    float *v = u + rows * s->outputs;
    transpose(rows, s->outputs, call->dy, u);
    transpose(rows, s->inputs, call->x[0], v);
    const fast_factors factors = {
        .segment = call->node->weight[FAST_W_WEIGHT],
        .rows = rows,
        .outputs = s->outputs,
        .inputs = s->inputs,
        .u = u,
        .v = v,
        .u_stride = rows,
        .v_stride = rows,
    };
    return call->pass->factor(call->pass->ctx, &factors);
}

/* dx alone: after a report of dW the weights must not be read. */
static void dense_backward(fast_ref_call *call)
{
    const fast_dense_shape s = fast__dense_shape(call->graph, call->index);
    const float *gain = fast__ref_weight(call, FAST_W_GAIN);
    if (call->dx[0])
        fast__ref_linear_dx(call->n * s.rows, s.inputs, s.outputs, call->dy,
                            gain ? call->saved : fast__ref_weight(call, FAST_W_WEIGHT),
                            call->dx[0]);
}

static void dense_weights(fast_ref_call *call)
{
    const fast_dense_shape s = fast__dense_shape(call->graph, call->index);
    const int64_t rows = call->n * s.rows;
    const float *gain = fast__ref_weight(call, FAST_W_GAIN);
    float *dw = fast__ref_grad(call, FAST_W_WEIGHT);
    if (call->pass->factor && !gain)
        call->factored = dense_offer(call, &s);
    fast__ref_linear_dw(rows, s.inputs, s.outputs, call->dy, call->x[0], call->factored ? NULL : dw,
                        fast__ref_grad(call, FAST_W_BIAS));
    if (gain)
        fast__weight_norm_backward(s.outputs, s.inputs, fast__ref_weight(call, FAST_W_WEIGHT), gain,
                                   dw, dw, fast__ref_grad(call, FAST_W_GAIN));
}

const fast_ref_op fast__ref_dense = { .need = dense_need,
                                      .forward = dense_forward,
                                      .backward = dense_backward,
                                      .weights = dense_weights };
