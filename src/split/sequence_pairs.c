/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kind `sequence` (Korthikanti et al. 2022): dense pairs and heads of attention are split as by
 * the kind `pairs`, and between them, where that kind computes everything at each shard, norms,
 * dropout and residuals are computed on slices of the sequence:
 *
 *     own slice | norm  -- gather --  pair of columns and rows, or heads  -- scatter --  add ...
 *
 * A sum is a scatter and a gather, so a pair has the same bytes as there: (T - 1) / T of B P C
 * floats at each of both, forward and backward. Of activations outside of pairs a shard has the
 * T-th part.
 */
#include "split/kinds.h"
#include "split/positions.h"

/* Is it an activation of single elements? */
static bool is_activation(fast_op op)
{
    return op == FAST_OP_RELU || op == FAST_OP_LEAKY_RELU || op == FAST_OP_TANH ||
           op == FAST_OP_SIGMOID || op == FAST_OP_GELU;
}

/* Is node i a dense layer on node `in` that can be split? */
static bool is_dense(const fast_assembly *b, int i, int in)
{
    return fast__assembly_follows(b, i, in) && b->graph->nodes[i].op == FAST_OP_DENSE &&
           b->graph->nodes[i].weight[FAST_W_GAIN] < 0 && fast__assembly_maps(b, i);
}

/* Attention, or a dense layer with an activation and another one behind it. */
static int pair_find(fast_assembly *b, int i)
{
    const fast_node *nodes = b->graph->nodes;
    int end = i;

    if (nodes[i].op == FAST_OP_ATTENTION) {
        if (nodes[i].heads % b->shards == 0)
            return i;
        fast__assembly_unfit(b, i, "has %lld heads, which %lld shards do not divide",
                             (long long)nodes[i].heads, (long long)b->shards);
        return 0;
    }
    if (!is_dense(b, i, nodes[i].inputs[0]) || nodes[i].shape[1] % b->shards != 0)
        return 0;
    while (fast__assembly_follows(b, end + 1, end) && is_activation(nodes[end + 1].op))
        end++;
    return end > i && is_dense(b, end + 1, end) ? end + 1 : 0;
}

/* The slices of the tensors of a node: the first product by its rows, those of each of queries,
 * keys and values; the second by its columns, with its bias in shard 0. */
static void cut_tensors(const fast_assembly *b, int i, int first, int last,
                        fast_split_slice slices[FAST_WEIGHTS_MAX])
{
    const bool heads = b->graph->nodes[i].op == FAST_OP_ATTENTION;

    for (int w = 0; w < FAST_WEIGHTS_MAX; w++) {
        const bool bias = w == FAST_W_BIAS || w == FAST_W_BIAS2;

        if (heads ? w < FAST_W_WEIGHT2 : i == first)
            slices[w] = (fast_split_slice){ .split = true, .groups = heads ? 3 : 1 };
        else if (heads || i == last)
            slices[w] = bias ? (fast_split_slice){ .absent = b->shard > 0 }
                             : (fast_split_slice){ .split = true, .axis = 1 };
        else
            slices[w] = (fast_split_slice){ .split = false };
    }
}

static void pair_make(fast_assembly *b, int first, int last)
{
    const int in = b->graph->nodes[first].inputs[0];
    fast_split_section *section = fast__assembly_begin(b, in);

    for (int i = first; i <= last; i++) {
        fast_split_slice slices[FAST_WEIGHTS_MAX];

        cut_tensors(b, i, first, last, slices);
        fast_node *node = fast__assembly_add(b, section, i, slices);
        if (i < last)
            fast__sequence_shape(node, node->shape[0], node->shape[1] / b->shards);
        node->heads /= b->shards;
    }
    section->leave = fast__sequence_layout(b, last, b->graph->nodes[last].shape[1],
                                           FAST_RESHARD_SCATTER, FAST_RESHARD_GATHER);
    fast__assembly_end(b, section, last);
}

static const fast_sequence_way way = { .find = pair_find, .cross = pair_make };

static int sequence_find(fast_assembly *b, int a)
{
    return fast__sequence_find(b, &way, a);
}

static void sequence_make(fast_assembly *b, int a, int e)
{
    fast__sequence_make(b, &way, a, e);
}

const fast_split_kind fast__split_sequence = {
    .name = "sequence",
    .help = "pairs and heads as by pairs; norms, dropout and residuals by positions",
    .needs = "a sequence of layers with attention or dense pairs among them",
    .find = sequence_find,
    .make = sequence_make,
};
