/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The elementary layers as nodes of ONNX: most have one operator there. Axes move by one, because
 * shapes of ONNX have the batch in front:
 *
 *     transpose 1x0x2          Transpose perm = 0, 2, 1, 3
 *     slice 1 start=2 count=3  Slice of all axes 1 to 3, whole ones included
 *     reduce mean axes=0       ReduceMean axes = 1, keepdims = 0
 *     scale 3x1x1              Mul by a tensor [3, 1, 1], which ONNX aligns to the right
 *
 * The configuration of a node (fast_element) has three dimensions whatever its rank; `front` is the
 * number of ones that stand in front of the node's own.
 */
#include "model/onnx/onnx_export.h"

/* Write a function of each element: one operator, with numbers as attributes or as tensors of rank
 * 0; a x + b is Mul and Add. */
static void put_map(onnx_export *ex, const fast_element *e, onnx_name x, onnx_name y)
{
    static const char *const names[] = {
        [FAST_MAP_AFFINE] = "Mul",
        [FAST_MAP_POWER] = "Pow",
        [FAST_MAP_CLIP] = "Clip",
        [FAST_MAP_EXP] = "Exp",
        [FAST_MAP_LOG] = "Log",
        [FAST_MAP_ABS] = "Abs",
        [FAST_MAP_ERF] = "Erf",
        [FAST_MAP_SOFTPLUS] = "Softplus",
        [FAST_MAP_ELU] = "Elu",
        [FAST_MAP_HARD_SIGMOID] = "HardSigmoid",
        [FAST_MAP_HARD_SWISH] = "HardSwish",
    };
    const char *op = names[e->kind];
    onnx_name a;
    onnx_name b;

    switch ((fast_map)e->kind) {
    case FAST_MAP_AFFINE:
        a = fast__export_number(ex, e->a);
        b = fast__export_number(ex, e->b);
        x = fast__export_node(ex, op, fast__export_new(ex), x.text, a.text, NULL);
        fast__export_node(ex, "Add", y, x.text, b.text, NULL);
        return;
    case FAST_MAP_POWER:
        a = fast__export_number(ex, e->a);
        fast__export_node(ex, op, y, x.text, a.text, NULL);
        return;
    case FAST_MAP_CLIP:
        a = fast__export_number(ex, e->a);
        b = fast__export_number(ex, e->b);
        fast__export_node(ex, op, y, x.text, a.text, b.text, NULL);
        return;
    case FAST_MAP_ELU:
    case FAST_MAP_HARD_SIGMOID:
        fast__export_real(ex, "alpha", e->a);
        if (e->kind == FAST_MAP_HARD_SIGMOID)
            fast__export_real(ex, "beta", e->b);
        break;
    default:
        break;
    }
    fast__export_node(ex, op, y, x.text, NULL);
}

/* Write a function of two layers. ONNX aligns shapes to the right with the batch in front: a layer
 * of fewer dimensions gets ones behind its batch. */
static void put_arith(onnx_export *ex, const fast_node *node, const fast_element *e, onnx_name x,
                      onnx_name y)
{
    static const char *const names[] = { "Add", "Sub", "Mul", "Div", "Max", "Min" };
    const char *op = node->op == FAST_OP_MATMUL ? "MatMul" : names[e->kind];
    onnx_name z = fast__export_value(ex, node->inputs[1]);
    const int front = 3 - node->rank;

    /* At most one of them has fewer dimensions. */
    if (ex->graph->nodes[node->inputs[0]].rank < node->rank)
        x = fast__export_reshape(ex, x, fast__export_new(ex), node->rank, e->x + front);
    if (ex->graph->nodes[node->inputs[1]].rank < node->rank)
        z = fast__export_reshape(ex, z, fast__export_new(ex), node->rank, e->z + front);
    fast__export_node(ex, op, y, x.text, z.text, NULL);
}

/* Write a product or sum with a weight, or with a frozen tensor of the state, which has the
 * dimensions of a sample. */
static void put_operand(onnx_export *ex, const fast_node *node, const fast_element *e, onnx_name x,
                        onnx_name y)
{
    const fast_segment *w = fast__export_weight(ex, FAST_W_WEIGHT);
    const int front = 3 - node->rank;
    onnx_name z = { "" };

    /* A trained weight is a parameter, a frozen one is in the state. */
    if (w) {
        z = fast__export_floats(ex, w->name, node->rank, e->z + front, ex->params + w->offset);
    } else {
        w = &ex->graph->state.segments[node->state[0]];
        z = fast__export_constant(ex, w->name, node->rank, e->z + front, ex->state + w->offset);
    }
    fast__export_node(ex, node->op == FAST_OP_SCALE ? "Mul" : "Add", y, x.text, z.text, NULL);
}

/* Write Transpose and Slice. The element's shapes have three dimensions with ones in front, ONNX's
 * have the batch in front of the node's rank. */
static void put_move(onnx_export *ex, const fast_node *node, const fast_element *e, onnx_name x,
                     onnx_name y)
{
    const int front = 3 - node->rank;
    int64_t perm[4] = { 0 };
    int64_t axes[3];
    int64_t ends[3];

    for (int d = 0; d < node->rank; d++) {
        perm[d + 1] = e->order[d + front] - front + 1;
        axes[d] = d + 1;
        ends[d] = e->start[d + front] + e->y[d + front];
    }
    if (node->op == FAST_OP_TRANSPOSE) {
        fast__export_ints(ex, "perm", node->rank + 1, perm);
        fast__export_node(ex, "Transpose", y, x.text, NULL);
        return;
    }
    const onnx_name from = fast__export_shape(ex, node->rank, e->start + front);
    const onnx_name to = fast__export_shape(ex, node->rank, ends);
    const onnx_name along = fast__export_shape(ex, node->rank, axes);
    fast__export_node(ex, "Slice", y, x.text, from.text, to.text, along.text, NULL);
}

/* Write a mean or sum. ReduceMean has its axes as an attribute, ReduceSum as an input. Where all
 * dimensions vanish, the layer leaves one of size 1. */
static void put_reduce(onnx_export *ex, const fast_node *node, const fast_element *e, onnx_name x,
                       onnx_name y)
{
    const int rank = ex->graph->nodes[node->inputs[0]].rank;
    int64_t axes[3];
    int count = 0;

    for (int d = 0; d < rank; d++)
        if (e->start[d + 3 - rank] == 1)
            axes[count++] = d + 1;
    fast__export_int(ex, "keepdims", count == rank);
    if (e->mean)
        fast__export_ints(ex, "axes", count, axes);
    const onnx_name along = e->mean ? x : fast__export_shape(ex, count, axes);
    const onnx_name to = count == rank && rank > 1 ? fast__export_new(ex) : y;
    fast__export_node(ex, e->mean ? "ReduceMean" : "ReduceSum", to, x.text,
                      e->mean ? NULL : along.text, NULL);
    if (count == rank && rank > 1)
        fast__export_reshape(ex, to, y, 1, (int64_t[]){ 1 });
}

/* The node's configuration is its fast_element. */
void fast__export_element(onnx_export *ex, const fast_node *node, onnx_name x, onnx_name y)
{
    const fast_element *e = node->custom_config;

    switch (node->op) {
    case FAST_OP_MAP:
        put_map(ex, e, x, y);
        break;
    case FAST_OP_ARITH:
    case FAST_OP_MATMUL:
        put_arith(ex, node, e, x, y);
        break;
    case FAST_OP_SCALE:
    case FAST_OP_SHIFT:
        put_operand(ex, node, e, x, y);
        break;
    case FAST_OP_REDUCE:
        put_reduce(ex, node, e, x, y);
        break;
    case FAST_OP_RESHAPE:
        fast__export_reshape(ex, x, y, node->rank, node->shape);
        break;
    case FAST_OP_LOG_SOFTMAX:
        fast__export_int(ex, "axis", -1);
        fast__export_node(ex, "LogSoftmax", y, x.text, NULL);
        break;
    default:
        put_move(ex, node, e, x, y);
    }
}
