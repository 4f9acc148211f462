/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of dense layers, one by one, by other divisions than the pairs of pairs.c:
 *
 *     outputs    shard t has a T-th of the outputs, rows of W and b: the outputs are gathered, the
 *                gradient of the inputs is summed. Beside R replicas along `data` this is the 1.5D
 *                product of Gholami et al. 2018: W on T shards with R copies, samples in R parts
 *     cannon     blocks on a grid of p x p shards, T = p^2, which move (engine/cannon.c)
 *
 * Floats that a shard sends for a micro-batch of B samples, with I inputs and O outputs: outputs
 * (T - 1) / T B O forward, the sum of B I backward; cannon (p - 1) (B I + I O) / T forward, twice
 * that backward, and a gather of the T blocks of the outputs and of the gradient of the inputs,
 * (T - 1) / T of each, since layers around it have whole values.
 */
#include "split/kinds.h"

/* Is node i a dense layer on node a that is mapped to the kind, with a cut behind it? */
static bool is_dense(const fast_assembly *b, int i, int a)
{
    const fast_graph *graph = b->graph;

    return fast__assembly_follows(b, i, a) && graph->nodes[i].op == FAST_OP_DENSE &&
           graph->nodes[i].weight[FAST_W_GAIN] < 0 && fast__assembly_maps(b, i) &&
           (i == graph->node_count - 1 || fast__split_can_cut(graph, i));
}

/* Give a node `columns` elements in each of its rows. */
static void set_columns(fast_node *node, int64_t rows, int64_t columns)
{
    node->shape[node->rank - 1] = columns;
    node->count = rows * columns;
}

static int outputs_find(fast_assembly *b, int a)
{
    const int i = a + 1;

    if (!is_dense(b, i, a))
        return 0;
    const fast_dense_shape shape = fast__dense_shape(b->graph, i);
    if (shape.outputs >= b->shards)
        return i;
    fast__assembly_unfit(b, i, "has %lld outputs, fewer than %lld shards", (long long)shape.outputs,
                         (long long)b->shards);
    return 0;
}

static void outputs_make(fast_assembly *b, int a, int i)
{
    const fast_dense_shape shape = fast__dense_shape(b->graph, i);
    const int64_t T = b->shards, t = b->shard;
    fast_split_slice slices[FAST_WEIGHTS_MAX] = {
        [FAST_W_WEIGHT] = { .split = true }, [FAST_W_BIAS] = { .split = true }
    };
    fast_split_section *section = fast__assembly_begin(b, a);
    fast_node *node = fast__assembly_add(b, section, i, slices);

    set_columns(node, shape.rows, (t + 1) * shape.outputs / T - t * shape.outputs / T);
    section->enter.backward = FAST_RESHARD_SUM;
    section->leave = (fast_reshard){ .forward = FAST_RESHARD_GATHER,
                                     .backward = FAST_RESHARD_SLICE,
                                     .outer = shape.rows,
                                     .dim = shape.outputs };
    fast__assembly_end(b, section, i);
}

/* Return p if T = p^2, else 0. */
static int64_t side_of(int64_t shards)
{
    int64_t p = 1;

    while (p * p < shards)
        p++;
    return p * p == shards ? p : 0;
}

static int cannon_find(fast_assembly *b, int a)
{
    const int64_t p = side_of(b->shards);
    const int i = a + 1;

    if (!is_dense(b, i, a))
        return 0;
    const fast_dense_shape shape = fast__dense_shape(b->graph, i);
    if (p == 0)
        fast__assembly_unfit(b, i, "needs a square number of shards, not %lld",
                             (long long)b->shards);
    else if (shape.rows > 1 || shape.inputs % p != 0 || shape.outputs < p)
        fast__assembly_unfit(b, i,
                             "has %lld rows of %lld inputs and %lld outputs, of which %lld rows "
                             "and columns of shards make no blocks",
                             (long long)shape.rows, (long long)shape.inputs,
                             (long long)shape.outputs, (long long)p);
    else
        return i;
    return 0;
}

/* A change of layout between whole values and blocks. */
static fast_reshard blocks_of(int64_t p, int64_t columns, bool whole_first)
{
    return (fast_reshard){ .forward = whole_first ? FAST_RESHARD_SLICE : FAST_RESHARD_GATHER,
                           .backward = whole_first ? FAST_RESHARD_GATHER : FAST_RESHARD_SLICE,
                           .samples = true,
                           .other = columns,
                           .grid = p,
                           .skewed = whole_first };
}

static void cannon_make(fast_assembly *b, int a, int i)
{
    const fast_dense_shape shape = fast__dense_shape(b->graph, i);
    const int64_t p = side_of(b->shards), row = b->shard / p, column = b->shard % p;
    fast_split_slice slices[FAST_WEIGHTS_MAX] = {
        [FAST_W_WEIGHT] = { .split = true, .grid = p, .row = column, .column = (row + column) % p },
        [FAST_W_BIAS] = { .partial = true },
    };
    fast_split_section *section = fast__assembly_begin(b, a);
    fast_node *input = section->graph.nodes;

    input->rank = 1;
    input->shape[0] = input->count = shape.inputs / p;
    input->shape[1] = input->shape[2] = 0;
    fast_node *node = fast__assembly_add(b, section, i, slices);
    set_columns(node, 1, (column + 1) * shape.outputs / p - column * shape.outputs / p);
    section->rounds = &fast__cannon;
    section->enter = blocks_of(p, shape.inputs, true);
    section->leave = blocks_of(p, shape.outputs, false);
    fast__assembly_end(b, section, i);
}

const fast_split_kind fast__split_outputs = {
    .name = "outputs",
    .help = "a dense layer by its outputs",
    .needs = "a dense layer",
    .find = outputs_find,
    .make = outputs_make,
};

const fast_split_kind fast__split_cannon = {
    .name = "cannon",
    .help = "a dense layer in blocks on a square of shards, which move",
    .needs = "a dense layer",
    .find = cannon_find,
    .make = cannon_make,
};
