/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layers as nodes of ONNX. Most are one node with the same attributes; the others are
 *
 *     dense        Gemm of a vector; MatMul and Add of a sequence, with W transposed
 *     gelu         0.5 x (1 + Erf(x / sqrt 2))
 *     global_pool  GlobalAveragePool and Flatten, or ReduceMean over the positions
 *     embed        Gather, and Add of the positions' vectors
 *     attention    MatMul, Slice, Reshape, Transpose, MatMul, Add of a mask, Softmax, MatMul
 *     last         Gather of the last position, and Flatten
 *     dropout      Identity: the file is for inference, or gets its dropout from its trainer
 *
 * Weight norm is multiplied out, and the ghost batches of a batch norm are gone: both are ways to
 * train and do not change the network.
 */
#include "base/memory.h"
#include "engine/weight_norm.h"
#include "model/onnx/onnx_export.h"

#include <math.h>

/* Return the values of a weight of the current node; NULL for a weight that it lacks. */
static const float *values_of(const onnx_export *ex, const fast_segment *segment)
{
    return segment ? ex->params + segment->offset : NULL;
}

/* Write a node's state, such as a running mean, as an initialiser. */
static onnx_name put_state(onnx_export *ex, int64_t index)
{
    const fast_segment *segment = &ex->graph->state.segments[index];

    return fast__export_segment(ex, segment, ex->state + segment->offset);
}

/* Write a weight. One that is trained as length and direction is multiplied out first: w = g v /
 * |v| for each output. */
static onnx_name put_weight(onnx_export *ex, bool transposed)
{
    const fast_segment *w = fast__export_weight(ex, FAST_W_WEIGHT);
    const fast_segment *gain = fast__export_weight(ex, FAST_W_GAIN);
    const float *values = values_of(ex, w);
    float *product = NULL;
    onnx_name name = { "" };

    if (gain && !ex->err) {
        ex->err = fast__alloc("a weight", w->count, sizeof *product, &product);
        if (ex->err)
            return name;
        fast__weight_norm_forward(w->shape[0], w->count / w->shape[0], values, values_of(ex, gain),
                                  product);
        values = product;
    }
    name =
        transposed ? fast__export_transposed(ex, w, values) : fast__export_segment(ex, w, values);
    fast__free(product);
    return name;
}

/* Write x W' + b by rows of a sequence: MatMul with the turned weight, then Add. */
static onnx_name put_linear(onnx_export *ex, onnx_name x, onnx_name w, const fast_segment *b,
                            onnx_name out)
{
    const onnx_name product =
        fast__export_node(ex, "MatMul", b ? fast__export_new(ex) : out, x.text, w.text, NULL);

    if (!b)
        return product;
    const onnx_name bias = fast__export_segment(ex, b, values_of(ex, b));
    return fast__export_node(ex, "Add", out, product.text, bias.text, NULL);
}

/* Write a dense layer: Gemm for a vector and for an image as a vector, MatMul for a sequence by
 * positions, as PyTorch's exporter does. */
static void put_dense(onnx_export *ex, const fast_node *node, onnx_name x, onnx_name y)
{
    const fast_node *in = &ex->graph->nodes[node->inputs[0]];
    const fast_segment *b = fast__export_weight(ex, FAST_W_BIAS);

    if (in->rank == 2) {
        put_linear(ex, x, put_weight(ex, true), b, y);
        return;
    }
    if (in->rank == 3)
        x = fast__export_node(ex, "Flatten", fast__export_new(ex), x.text, NULL);
    const onnx_name w = put_weight(ex, false);
    fast__export_int(ex, "transB", 1);
    if (b) {
        const onnx_name bias = fast__export_segment(ex, b, values_of(ex, b));
        fast__export_node(ex, "Gemm", y, x.text, w.text, bias.text, NULL);
    } else {
        fast__export_node(ex, "Gemm", y, x.text, w.text, NULL);
    }
}

/* Write the attributes of a window; padding is listed for both sides. */
static void put_window(onnx_export *ex, const fast_node *node)
{
    fast__export_ints(ex, "kernel_shape", 2, node->kernel);
    fast__export_ints(ex, "strides", 2, node->stride);
    fast__export_ints(ex, "pads", 4,
                      (int64_t[]){ node->pad[0], node->pad[1], node->pad[0], node->pad[1] });
}

/* Write Conv with groups and dilations. */
static void put_conv(onnx_export *ex, const fast_node *node, onnx_name x, onnx_name y)
{
    const fast_segment *b = fast__export_weight(ex, FAST_W_BIAS);
    const onnx_name w = put_weight(ex, false);

    put_window(ex, node);
    fast__export_ints(ex, "dilations", 2, node->dilation);
    fast__export_int(ex, "group", node->groups);
    if (b) {
        const onnx_name bias = fast__export_segment(ex, b, values_of(ex, b));
        fast__export_node(ex, "Conv", y, x.text, w.text, bias.text, NULL);
    } else {
        fast__export_node(ex, "Conv", y, x.text, w.text, NULL);
    }
}

/* Write the mean over the pixels, whose dimensions of 1 are dropped, or over the positions. */
static void put_global_pool(onnx_export *ex, const fast_node *node, onnx_name x, onnx_name y)
{
    if (ex->graph->nodes[node->inputs[0]].rank == 3) {
        x = fast__export_node(ex, "GlobalAveragePool", fast__export_new(ex), x.text, NULL);
        fast__export_node(ex, "Flatten", y, x.text, NULL);
        return;
    }
    fast__export_ints(ex, "axes", 1, (int64_t[]){ 1 });
    fast__export_int(ex, "keepdims", 0);
    fast__export_node(ex, "ReduceMean", y, x.text, NULL);
}

/* Write a normalisation by running statistics, or by rows. ONNX's momentum is the weight of the
 * running value. */
static void put_norm(onnx_export *ex, const fast_node *node, onnx_name x, onnx_name y)
{
    const fast_segment *w = fast__export_weight(ex, FAST_W_WEIGHT);
    const fast_segment *b = fast__export_weight(ex, FAST_W_BIAS);
    const onnx_name weight = fast__export_segment(ex, w, values_of(ex, w));
    const onnx_name bias = fast__export_segment(ex, b, values_of(ex, b));

    fast__export_real(ex, "epsilon", node->a);
    if (node->op == FAST_OP_LAYER_NORM) {
        fast__export_int(ex, "axis", -1);
        fast__export_node(ex, "LayerNormalization", y, x.text, weight.text, bias.text, NULL);
        return;
    }
    fast__export_real(ex, "momentum", 1 - node->b);
    const onnx_name mean = put_state(ex, node->state[0]);
    const onnx_name var = put_state(ex, node->state[1]);
    fast__export_node(ex, "BatchNormalization", y, x.text, weight.text, bias.text, mean.text,
                      var.text, NULL);
}

/* Write 0.5 x (1 + erf(x / sqrt 2)): ONNX has no operator for it before version 20. */
static void put_gelu(onnx_export *ex, onnx_name x, onnx_name y)
{
    const onnx_name root = fast__export_number(ex, 1.41421356F);
    const onnx_name one = fast__export_number(ex, 1);
    const onnx_name half = fast__export_number(ex, 0.5F);
    onnx_name t = fast__export_node(ex, "Div", fast__export_new(ex), x.text, root.text, NULL);

    t = fast__export_node(ex, "Erf", fast__export_new(ex), t.text, NULL);
    t = fast__export_node(ex, "Add", fast__export_new(ex), t.text, one.text, NULL);
    t = fast__export_node(ex, "Mul", fast__export_new(ex), x.text, t.text, NULL);
    fast__export_node(ex, "Mul", y, t.text, half.text, NULL);
}

/* Write rows of the table, and add the positions' vectors. */
static void put_embed(onnx_export *ex, onnx_name x, onnx_name y)
{
    const fast_segment *w = fast__export_weight(ex, FAST_W_WEIGHT);
    const fast_segment *p = fast__export_weight(ex, FAST_W_BIAS);
    const onnx_name table = fast__export_segment(ex, w, values_of(ex, w));
    const onnx_name rows =
        fast__export_node(ex, "Gather", p ? fast__export_new(ex) : y, table.text, x.text, NULL);

    if (p) {
        const onnx_name position = fast__export_segment(ex, p, values_of(ex, p));
        fast__export_node(ex, "Add", y, rows.text, position.text, NULL);
    }
}

/* Write one of q, k and v: columns of the projection as [heads, T, C / heads], or for k as its
 * transpose, by `perm`. */
static onnx_name put_head(onnx_export *ex, const fast_node *node, onnx_name x, int part,
                          const int64_t *perm)
{
    const int64_t T = node->shape[0];
    const int64_t C = node->shape[1];
    const onnx_name start = fast__export_shape(ex, 1, (int64_t[]){ part * C });
    const onnx_name end = fast__export_shape(ex, 1, (int64_t[]){ (part + 1) * C });
    const onnx_name axis = fast__export_shape(ex, 1, (int64_t[]){ 2 });
    onnx_name t = fast__export_node(ex, "Slice", fast__export_new(ex), x.text, start.text, end.text,
                                    axis.text, NULL);

    t = fast__export_reshape(ex, t, fast__export_new(ex), 3,
                             (int64_t[]){ T, node->heads, C / node->heads });
    fast__export_ints(ex, "perm", 4, perm);
    return fast__export_node(ex, "Transpose", fast__export_new(ex), t.text, NULL);
}

/* Write the causal mask [T, T]: 0, and -1e30 above the diagonal, which softmax makes 0. */
static onnx_name put_mask(onnx_export *ex, int64_t T)
{
    onnx_name name = fast__export_new(ex);
    float *mask = NULL;

    ex->err = fast__alloc("a mask", T * T, sizeof *mask, &mask);
    for (int64_t i = 0; !ex->err && i < T * T; i++)
        mask[i] = i % T > i / T ? -1e30F : 0;
    if (!ex->err)
        fast__export_constant(ex, name.text, 2, (int64_t[]){ T, T }, mask);
    fast__free(mask);
    return name;
}

/* Write softmax(q k' / sqrt(d) + mask) v, projected: about fifteen nodes. */
static void put_attention(onnx_export *ex, const fast_node *node, onnx_name x, onnx_name y)
{
    const fast_segment *in = fast__export_weight(ex, FAST_W_WEIGHT);
    const fast_segment *out = fast__export_weight(ex, FAST_W_WEIGHT2);
    const int64_t forth[] = { 0, 2, 1, 3 };  /* [T, heads, d] -> [heads, T, d], and back */
    const int64_t turned[] = { 0, 2, 3, 1 }; /* [T, heads, d] -> [heads, d, T] */
    const onnx_name w = fast__export_transposed(ex, in, values_of(ex, in));
    const onnx_name qkv =
        put_linear(ex, x, w, fast__export_weight(ex, FAST_W_BIAS), fast__export_new(ex));
    const onnx_name q = put_head(ex, node, qkv, 0, forth);
    const onnx_name k = put_head(ex, node, qkv, 1, turned);
    const onnx_name v = put_head(ex, node, qkv, 2, forth);
    const onnx_name factor =
        fast__export_number(ex, (float)(1 / sqrt((double)(node->shape[1] / node->heads))));
    const onnx_name mask = put_mask(ex, node->shape[0]);
    onnx_name t = fast__export_node(ex, "MatMul", fast__export_new(ex), q.text, k.text, NULL);

    t = fast__export_node(ex, "Mul", fast__export_new(ex), t.text, factor.text, NULL);
    t = fast__export_node(ex, "Add", fast__export_new(ex), t.text, mask.text, NULL);
    fast__export_int(ex, "axis", -1);
    t = fast__export_node(ex, "Softmax", fast__export_new(ex), t.text, NULL);
    t = fast__export_node(ex, "MatMul", fast__export_new(ex), t.text, v.text, NULL);
    fast__export_ints(ex, "perm", 4, forth);
    t = fast__export_node(ex, "Transpose", fast__export_new(ex), t.text, NULL);
    t = fast__export_reshape(ex, t, fast__export_new(ex), 2, node->shape);
    put_linear(ex, t, fast__export_transposed(ex, out, values_of(ex, out)),
               fast__export_weight(ex, FAST_W_BIAS2), y);
}

/* Write the sum or concatenation of all inputs, two at a time. */
static void put_join(onnx_export *ex, const fast_node *node, onnx_name x, onnx_name y)
{
    for (int k = 1; k < node->input_count; k++) {
        const onnx_name z = fast__export_value(ex, node->inputs[k]);
        const onnx_name to = k == node->input_count - 1 ? y : fast__export_new(ex);
        if (node->op == FAST_OP_CONCAT)
            fast__export_int(ex, "axis", node->rank == 2 ? 2 : 1);
        x = fast__export_node(ex, node->op == FAST_OP_CONCAT ? "Concat" : "Add", to, x.text, z.text,
                              NULL);
    }
}

/* Write layers that are one node of ONNX without weights. */
static void put_simple(onnx_export *ex, const fast_node *node, onnx_name x, onnx_name y)
{
    static const char *const names[FAST_OP_COUNT] = {
        [FAST_OP_MAX_POOL] = "MaxPool", [FAST_OP_AVG_POOL] = "AveragePool",
        [FAST_OP_RELU] = "Relu",        [FAST_OP_LEAKY_RELU] = "LeakyRelu",
        [FAST_OP_TANH] = "Tanh",        [FAST_OP_SIGMOID] = "Sigmoid",
        [FAST_OP_SOFTMAX] = "Softmax",  [FAST_OP_DROPOUT] = "Identity",
        [FAST_OP_FLATTEN] = "Flatten",  [FAST_OP_HEAD] = "Identity",
        [FAST_OP_DETACH] = "Identity",
    };

    if (node->op == FAST_OP_MAX_POOL || node->op == FAST_OP_AVG_POOL)
        put_window(ex, node);
    if (node->op == FAST_OP_AVG_POOL)
        fast__export_int(ex, "count_include_pad", 1);
    if (node->op == FAST_OP_LEAKY_RELU)
        fast__export_real(ex, "alpha", node->a);
    if (node->op == FAST_OP_SOFTMAX)
        fast__export_int(ex, "axis", -1);
    FAST_ASSERT(names[node->op] != NULL);
    fast__export_node(ex, names[node->op], y, x.text, NULL);
}

/* One case for each layer that is more than one node or has weights. */
void fast__export_layer(onnx_export *ex, const fast_node *node, onnx_name x, onnx_name y)
{
    onnx_name index; /* of the last position */

    switch (node->op) {
    case FAST_OP_DENSE:
        put_dense(ex, node, x, y);
        break;
    case FAST_OP_CONV:
        put_conv(ex, node, x, y);
        break;
    case FAST_OP_GLOBAL_POOL:
        put_global_pool(ex, node, x, y);
        break;
    case FAST_OP_BATCH_NORM:
    case FAST_OP_LAYER_NORM:
        put_norm(ex, node, x, y);
        break;
    case FAST_OP_GELU:
        put_gelu(ex, x, y);
        break;
    case FAST_OP_EMBED:
        put_embed(ex, x, y);
        break;
    case FAST_OP_ATTENTION:
        put_attention(ex, node, x, y);
        break;
    case FAST_OP_ADD:
    case FAST_OP_CONCAT:
        put_join(ex, node, x, y);
        break;
    case FAST_OP_LAST:
        index = fast__export_shape(ex, 1,
                                   (int64_t[]){ ex->graph->nodes[node->inputs[0]].shape[0] - 1 });
        fast__export_int(ex, "axis", 1);
        x = fast__export_node(ex, "Gather", fast__export_new(ex), x.text, index.text, NULL);
        fast__export_node(ex, "Flatten", y, x.text, NULL);
        break;
    default:
        put_simple(ex, node, x, y);
    }
}
