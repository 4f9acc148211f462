/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of a range of nodes.
 *
 *   operations   of products, as textbooks count them (engine/graph.h)
 *   traffic      a node writes its output and its reader reads it; backward the gradient moves once
 *                each way too, and the output is read again: 2 + 4 floats for each element. Tensors
 *                that cross a boundary are written and read once more each way
 *   seconds      operations / speed + bytes / bandwidth: a roofline without overlap, which ranks
 *                ranges of one network well and needs two numbers of the machine
 */
#include "split/cost.h"

#include "base/err.h"

enum { PASSES_FLOATS = 6, BOUNDARY_FLOATS = 4 };

const fast_split_speed fast__split_speed_typical = { .operations = 40e9, .bytes = 8e9 };

/* Does the operator compute the gradients of its weights by a product of their own? */
static bool is_divided(fast_op op)
{
    return op == FAST_OP_DENSE || op == FAST_OP_CONV || op == FAST_OP_ATTENTION;
}

double fast__split_weights(const fast_graph *graph, const bool *needs, int node)
{
    const fast_node *n = &graph->nodes[node];
    int64_t offset, count;

    if (!fast__node_params(graph, node, &offset, &count))
        return 0;
    if (is_divided(n->op))
        return fast__node_flops_weights(graph, node);
    return needs[n->inputs[0]] ? 0 : fast__node_flops_backward(graph, node, false);
}

void fast__split_cost_add(const fast_graph *graph, const bool *needs, int node,
                          fast_split_cost *cost)
{
    const fast_node *n = &graph->nodes[node];
    int64_t offset, count;

    FAST_ASSERT(node > 0 && node < graph->node_count);
    cost->forward += fast__node_flops_forward(graph, node);
    cost->backward += fast__node_flops_backward(graph, node, needs[n->inputs[0]]);
    cost->weights += fast__split_weights(graph, needs, node);
    cost->floats += (double)(PASSES_FLOATS * n->count);
    cost->activations += n->count;
    if (fast__node_params(graph, node, &offset, &count))
        cost->params += count;
}

void fast__split_cost_bound(const fast_graph *graph, int first, int last, fast_split_cost *cost)
{
    FAST_ASSERT(first >= 0 && first < last && last < graph->node_count);
    cost->boundary = first > 0 ? graph->nodes[first].count : 0;
    cost->boundary += last < graph->node_count - 1 ? graph->nodes[last].count : 0;
    cost->floats += (double)(BOUNDARY_FLOATS * cost->boundary);
}

fast_split_cost fast__split_cost(const fast_graph *graph, const bool *needs, int first, int last)
{
    fast_split_cost cost = { 0 };

    for (int i = first + 1; i <= last; i++)
        fast__split_cost_add(graph, needs, i, &cost);
    fast__split_cost_bound(graph, first, last, &cost);
    return cost;
}

double fast__split_seconds(const fast_split_cost *cost, const fast_split_speed *speed)
{
    FAST_ASSERT(speed->operations > 0 && speed->bytes > 0);
    return (cost->forward + cost->backward) / speed->operations +
           cost->floats * (double)sizeof(float) / speed->bytes;
}
