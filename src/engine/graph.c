/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Static properties of a graph: names of operators, where gradients flow, the arithmetic of a
 * sample, and the invariants that engines rely on.
 *
 * Operations are counted as in textbooks: 2 m n k for a product of m x k and k x n, products only.
 * The backward pass costs that again for the weights, and once more for the input if its gradient
 * is needed (the first layer of a network does not need it).
 */
#include "engine/graph.h"

#include <math.h>

static const char *const op_names[] = {
    "input",
    "dense",
    "conv",
    "max_pool",
    "avg_pool",
    "global_pool",
    "relu",
    "leaky_relu",
    "tanh",
    "sigmoid",
    "gelu",
    "softmax",
    "batch_norm",
    "layer_norm",
    "dropout",
    "embed",
    "rnn",
    "lstm",
    "gru",
    "attention",
    "add",
    "concat",
    "last",
    "flatten",
    "map",
    "arith",
    "scale",
    "shift",
    "matmul",
    "transpose",
    "reshape",
    "slice",
    "reduce",
    "log_softmax",
    "head",
    "detach",
    "route",
    "dispatch",
    "combine",
    "experts",
    "part",
    "local",
    "delay",
    "repeat",
    "custom",
    "class_figures",
    "attention_core",
    "exchange",
};
_Static_assert(sizeof(op_names) / sizeof(op_names[0]) == FAST_OP_COUNT, "one name an operator");

/* The name of an operator, as in the network language. */
const char *fast__op_name(fast_op op)
{
    FAST_ASSERT((int)op >= 0);
    FAST_ASSERT(op < FAST_OP_COUNT);
    return op_names[op];
}

/* Tell whether a node has parameters of its own: a gradient must reach it. */
static bool has_weights(const fast_node *node)
{
    for (int w = 0; w < FAST_WEIGHTS_MAX; w++)
        if (node->weight[w] >= 0)
            return true;
    return false;
}

int fast__node_number(const fast_graph *graph, int node)
{
    FAST_ASSERT(node >= 0 && node < graph->node_count);
    return graph->nodes[node].global > 0 ? graph->nodes[node].global - 1 : node;
}

bool fast__graph_has_heads(const fast_graph *graph)
{
    for (int i = 0; i < graph->node_count; i++)
        if (graph->nodes[i].op == FAST_OP_HEAD)
            return true;
    return false;
}

/* One pass in topological order: a node needs a gradient if it has weights or reads a node that
 * needs one. */
void fast__graph_needs(const fast_graph *graph, bool *needs)
{
    FAST_ASSERT(graph != NULL);
    FAST_ASSERT(needs != NULL);
    for (int i = 0; i < graph->node_count; i++) {
        const fast_node *node = &graph->nodes[i];
        needs[i] = has_weights(node) || (i == 0 && graph->input_grad);
        for (int k = 0; k < node->input_count && node->op != FAST_OP_DETACH; k++)
            needs[i] = needs[i] || needs[node->inputs[k]];
    }
}

/* A sequence has a product for each position; any other input is one flat row. */
fast_dense_shape fast__dense_shape(const fast_graph *graph, int node)
{
    const fast_node *dense = &graph->nodes[node];
    const fast_node *in = &graph->nodes[dense->inputs[0]];
    FAST_ASSERT(dense->op == FAST_OP_DENSE);
    fast_dense_shape shape = { .rows = 1, .inputs = in->count, .outputs = dense->count };
    if (in->rank == 2) {
        shape.rows = in->shape[0];
        shape.inputs = in->shape[1];
        shape.outputs = dense->shape[dense->rank - 1];
    }
    return shape;
}

int64_t fast__attention_width(const fast_graph *graph, int node)
{
    const int64_t segment = graph->nodes[node].weight[FAST_W_WEIGHT];

    FAST_ASSERT(graph->nodes[node].op == FAST_OP_ATTENTION && segment >= 0);
    return graph->params.segments[segment].shape[0] / 3;
}

/* Operations in products with weights, and in attention's products of activations with each
 * other. */
typedef struct graph_flops {
    double weights;     /* operations with weights */
    double activations; /* operations of activations with each other */
} graph_flops;

/* Count the operations of one sample at one node, forward. */
static graph_flops count_flops(const fast_graph *graph, int index)
{
    const fast_node *node = &graph->nodes[index];
    const fast_node *in = node->input_count > 0 ? &graph->nodes[node->inputs[0]] : NULL;
    graph_flops flops = { 0, 0 };
    switch (node->op) {
    case FAST_OP_DENSE: {
        const fast_dense_shape shape = fast__dense_shape(graph, index);
        flops.weights = 2.0 * (double)shape.rows * (double)shape.inputs * (double)shape.outputs;
        break;
    }
    case FAST_OP_CONV:
        flops.weights = 2.0 * (double)node->count * (double)(in->shape[0] / node->groups) *
                        (double)(node->kernel[0] * node->kernel[1]);
        break;
    case FAST_OP_LOCAL:
        flops.weights = 2.0 * (double)node->count * (double)in->shape[0] *
                        (double)(node->kernel[0] * node->kernel[1]);
        break;
    case FAST_OP_RNN:
    case FAST_OP_LSTM:
    case FAST_OP_GRU: {
        const double gates = node->op == FAST_OP_RNN ? 1 : node->op == FAST_OP_GRU ? 3 : 4;
        flops.weights = 2.0 * gates * (double)node->count * (double)(in->shape[1] + node->shape[1]);
        break;
    }
    case FAST_OP_ATTENTION: {
        const double T = (double)node->shape[0];
        const double C = (double)node->shape[1];
        const double W = (double)fast__attention_width(graph, index);
        flops.weights = 2.0 * T * C * 4.0 * W;
        flops.activations = 2.0 * T * (T + 1) * W;
        break;
    }
    case FAST_OP_ATTENTION_CORE:
        flops.activations =
            2.0 * (double)node->count *
            (double)((node->columns[1] > 0 ? node->columns[1] : node->shape[0]) + 1);
        break;
    case FAST_OP_EXPERTS:
        flops.weights = 2.0 * (double)node->count * (double)in->shape[1];
        break;
    case FAST_OP_MATMUL:
        flops.activations = 2.0 * (double)node->count * (double)in->shape[in->rank - 1];
        break;
    default:
        break;
    }
    return flops;
}

/* Multiply-adds of the node's products count as two operations; everything else as none. */
double fast__node_depth(const fast_graph *graph, int node)
{
    const fast_node *n = &graph->nodes[node];
    const bool serial = n->op == FAST_OP_RNN || n->op == FAST_OP_LSTM || n->op == FAST_OP_GRU;
    const double inner =
        fast__node_flops_forward(graph, node) / (2 * (double)(n->count > 0 ? n->count : 1));

    if (node == 0)
        return 0;
    return (serial ? (double)n->shape[0] : 1) * (1 + (inner > 1 ? ceil(log2(inner)) : 0));
}

double fast__node_flops_forward(const fast_graph *graph, int node)
{
    FAST_ASSERT(node >= 0 && node < graph->node_count);
    const graph_flops flops = count_flops(graph, node);
    return flops.weights + flops.activations;
}

/* A product of the forward pass's size for the weights, and one for the input if its gradient is
 * needed. */
double fast__node_flops_weights(const fast_graph *graph, int node)
{
    FAST_ASSERT(node >= 0 && node < graph->node_count);
    return count_flops(graph, node).weights;
}

double fast__node_flops_backward(const fast_graph *graph, int node, bool input_needed)
{
    FAST_ASSERT(node >= 0 && node < graph->node_count);
    const graph_flops flops = count_flops(graph, node);
    return flops.weights * (input_needed ? 2 : 1) + flops.activations * 2;
}

/* The sum over all nodes, for one sample. */
double fast__graph_flops_forward(const fast_graph *graph)
{
    double sum = 0;
    for (int i = 0; i < graph->node_count; i++)
        sum += fast__node_flops_forward(graph, i);
    return sum;
}

/* Forward and backward pass; inputs without a needed gradient are not counted. */
double fast__graph_flops_train(const fast_graph *graph, const bool *needs)
{
    FAST_ASSERT(needs != NULL);
    double sum = fast__graph_flops_forward(graph);
    for (int i = 1; i < graph->node_count; i++)
        sum += fast__node_flops_backward(graph, i, needs[graph->nodes[i].inputs[0]]);
    return sum;
}

/* Check that the segments of a layout follow each other from 0 to its end. */
static fast_err check_layout(const char *what, const fast_layout *layout)
{
    int64_t end = 0;
    for (int64_t s = 0; s < layout->segment_count; s++) {
        const fast_segment *segment = &layout->segments[s];
        if (segment->offset != end || segment->count < 1)
            return fast__fail(FAST_EINVAL, "%s segment %lld \"%s\" does not follow the one before",
                              what, (long long)s, segment->name);
        end += segment->count;
    }
    if (end != layout->count)
        return fast__fail(FAST_EINVAL, "%s segments hold %lld elements of %lld", what,
                          (long long)end, (long long)layout->count);
    return FAST_OK;
}

/* Check the operator, the shape, the inputs and the segments of one node. */
static fast_err check_node(const fast_graph *graph, int index)
{
    const fast_node *node = &graph->nodes[index];
    const bool source = node->op == FAST_OP_INPUT;
    if ((int)node->op < 0 || node->op >= FAST_OP_COUNT || source != (index == 0))
        return fast__fail(FAST_EINVAL, "node %d has no operator that fits its place", index);
    if (node->rank < 1 || node->rank > 3 || node->count < 1)
        return fast__fail(FAST_EINVAL, "node %d (%s) has no shape", index, fast__op_name(node->op));
    if (node->input_count < (source ? 0 : 1) || node->input_count > FAST_INPUTS_MAX)
        return fast__fail(FAST_EINVAL, "node %d (%s) has %d inputs", index, fast__op_name(node->op),
                          node->input_count);
    for (int k = 0; k < node->input_count; k++)
        if (node->inputs[k] < 0 || node->inputs[k] >= index)
            return fast__fail(FAST_EINVAL, "node %d (%s) takes node %d, which is not before it",
                              index, fast__op_name(node->op), node->inputs[k]);
    for (int w = 0; w < FAST_WEIGHTS_MAX; w++)
        if (node->weight[w] >= graph->params.segment_count)
            return fast__fail(FAST_EINVAL, "node %d (%s) names segment %lld of %lld", index,
                              fast__op_name(node->op), (long long)node->weight[w],
                              (long long)graph->params.segment_count);
    return FAST_OK;
}

/* Check that each segment belongs to exactly one node: then reports cover the vector exactly
 * once. */
static fast_err check_owners(const fast_graph *graph)
{
    for (int64_t s = 0; s < graph->params.segment_count; s++) {
        int owners = 0;
        for (int i = 0; i < graph->node_count; i++)
            for (int w = 0; w < FAST_WEIGHTS_MAX; w++)
                owners += graph->nodes[i].weight[w] == s;
        if (owners != 1)
            return fast__fail(FAST_EINVAL, "segment \"%s\" belongs to %d nodes instead of one",
                              graph->params.segments[s].name, owners);
    }
    return FAST_OK;
}

/* Check layouts, nodes, owners of segments and the last node's size, in that order: each relies
 * on those before. */
fast_err fast__graph_check(const fast_graph *graph)
{
    FAST_ASSERT(graph != NULL);
    if (graph->node_count < 1)
        return fast__fail(FAST_EINVAL, "a network needs an input");
    FAST_TRY(check_layout("parameter", &graph->params));
    FAST_TRY(check_layout("state", &graph->state));
    for (int i = 0; i < graph->node_count; i++)
        FAST_TRY(check_node(graph, i));
    FAST_TRY(check_owners(graph));
    const fast_node *last = &graph->nodes[graph->node_count - 1];
    if (graph->outputs < 1 || graph->positions < 1 ||
        graph->outputs * graph->positions != last->count)
        return fast__fail(
            FAST_EINVAL, "the last layer has %lld outputs, the loss expects %lld times %lld",
            (long long)last->count, (long long)graph->positions, (long long)graph->outputs);
    return FAST_OK;
}

int64_t fast__local_filters(const fast_node *node)
{
    FAST_ASSERT(node->op == FAST_OP_LOCAL && node->rank == 3);
    return node->groups > 0 ? node->groups * node->groups : node->shape[1] * node->shape[2];
}

/* Rows count from the first one of the whole image, so that a part of the rows has the weights that
 * they have there. */
int64_t fast__local_filter(const fast_node *node, int64_t p)
{
    const int64_t k = node->groups, W = node->shape[2];

    return k > 0 ? (node->columns[0] + p / W) % k * k + p % W % k : p;
}

/* The smallest range that holds all weights of a node: builders place them next to each other. */
bool fast__node_params(const fast_graph *graph, int node, int64_t *offset_out, int64_t *count_out)
{
    int64_t low = INT64_MAX, high = 0;

    FAST_ASSERT(node >= 0 && node < graph->node_count);
    for (int w = 0; w < FAST_WEIGHTS_MAX; w++) {
        const int64_t i = graph->nodes[node].weight[w];

        if (i < 0)
            continue;
        const fast_segment *s = &graph->params.segments[i];
        low = s->offset < low ? s->offset : low;
        high = s->offset + s->count > high ? s->offset + s->count : high;
    }
    *offset_out = low;
    *count_out = high - low;
    return high > low;
}
