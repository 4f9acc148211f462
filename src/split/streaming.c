/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kind `streaming` (Fischer et al. 2018): a chain of layers, each with a delay of one position
 * before it. A shard has some consecutive layers, with all of their tensors: shard t of T begins
 * where the operations before it are nearest to t / T of all. All shards compute each position at
 * once, and the outputs at a position move on to the next shard (engine/streaming_layers.c):
 *
 *     a - delay - layer 1 - delay - layer 2 -|- delay - layer 3 - delay - layer 4 - e
 *                                     shard 0 | shard 1
 *
 * Floats that a shard sends for a micro-batch of B samples of P positions: (P - 1) B N forward and
 * twice that backward, where N is the width of the widest layer in front of another shard, and its
 * part of the sum of the outputs, and of the gradient of a if there are weights before it.
 */
#include "engine/element.h"
#include "engine/streaming_layers.h"
#include "split/kinds.h"

#include <math.h>

/* Return the last node of a delayed layer behind node a, and set the node with its weights; 0: no
 * such layer follows. */
static int find_layer(const fast_assembly *b, int a, int *weights_out)
{
    const fast_graph *graph = b->graph;
    const int w = a + 2, last = graph->node_count - 1;

    if (w > last || !fast__assembly_follows(b, a + 1, a) || !fast__assembly_follows(b, w, a + 1) ||
        graph->nodes[a + 1].op != FAST_OP_DELAY || !fast__streaming_weights(&graph->nodes[w]) ||
        !fast__assembly_maps(b, w))
        return 0;
    const fast_element *delay = graph->nodes[a + 1].custom_config;
    const bool active = w < last && graph->nodes[w].op == FAST_OP_DENSE &&
                        fast__assembly_follows(b, w + 1, w) &&
                        fast__streaming_activation(graph->nodes[w + 1].op);
    const int end = w + active;

    if (delay->start[1] != 1 || (end < last && !fast__split_can_cut(graph, end)))
        return 0;
    *weights_out = w;
    return end;
}

/* Walk along the chain behind node a, `max` layers at most: return their number, and set the last
 * node and the operations of a position. */
static int64_t walk_chain(const fast_assembly *b, int a, int64_t max, int *end_out,
                          double *work_out)
{
    int64_t count = 0;
    int w = 0;

    *end_out = a;
    *work_out = 0;
    for (int end; count < max && (end = find_layer(b, *end_out, &w)) > 0; count++) {
        *end_out = end;
        *work_out += fast__streaming_operations(b->graph, w);
    }
    return count;
}

/* Return how far the work of the first k layers is from a share of all. */
static double distance(const fast_assembly *b, int a, int64_t k, double share)
{
    double work = 0;
    int end = 0;

    (void)walk_chain(b, a, k, &end, &work);
    return fabs(work - share);
}

/* Return the first layer of a shard, of `count` that take `work`: each shard has one at least. */
static int64_t first_layer(const fast_assembly *b, int a, int64_t count, double work, int64_t shard)
{
    int64_t k = 0;

    for (int64_t t = 1; t <= shard; t++) {
        const double share = work * (double)t / (double)b->shards;
        const int64_t last = count - (b->shards - t);

        k++;
        while (k < last && distance(b, a, k + 1, share) < distance(b, a, k, share))
            k++;
    }
    return shard == b->shards ? count : k;
}

static int streaming_find(fast_assembly *b, int a)
{
    double work = 0;
    int end = 0;
    const int64_t count = walk_chain(b, a, INT64_MAX, &end, &work);

    if (count == 0)
        return 0;
    if (count >= b->shards)
        return end;
    fast__assembly_unfit(b, a + 2,
                         "begins a chain of %lld layers behind delays, fewer than %lld shards",
                         (long long)count, (long long)b->shards);
    return 0;
}

/* Is there anything before node a, or in a stage before, that learns? */
static bool learns(const fast_assembly *b, int a)
{
    bool found = b->graph->input_grad;

    for (int i = 1; i <= a; i++)
        for (int w = 0; w < FAST_WEIGHTS_MAX; w++)
            found = found || b->graph->nodes[i].weight[w] >= 0;
    return found;
}

/* Return the largest width of the layers in front of another shard. */
static int64_t widest(const fast_assembly *b, int a, int64_t count, double work)
{
    int64_t most = 0;

    for (int64_t t = 1; t < b->shards; t++) {
        double unused = 0;
        int end = 0;

        (void)walk_chain(b, a, first_layer(b, a, count, work, t), &end, &unused);
        most = b->graph->nodes[end].shape[1] > most ? b->graph->nodes[end].shape[1] : most;
    }
    return most;
}

static void streaming_make(fast_assembly *b, int a, int e)
{
    double work = 0, unused = 0;
    int end = 0, from = 0, to = 0;
    const int64_t count = walk_chain(b, a, INT64_MAX, &end, &work);
    fast_split_section *section = fast__assembly_begin(b, a);
    fast_node *input = section->graph.nodes;

    FAST_ASSERT(end == e && count >= b->shards);
    (void)walk_chain(b, a, first_layer(b, a, count, work, b->shard), &from, &unused);
    (void)walk_chain(b, a, first_layer(b, a, count, work, b->shard + 1), &to, &unused);
    section->enter.inner = input->columns[0] = input->count;
    section->leave.inner = input->columns[1] = b->graph->nodes[e].count;
    input->groups = widest(b, a, count, work);
    input->shape[1] = b->graph->nodes[from].shape[1];
    input->count = input->shape[0] * input->shape[1];
    b->index[from] = 0; /* the first own layer reads the last one of the shard before */
    for (int i = from + 1; i <= to; i++)
        (void)fast__assembly_add(b, section, i, NULL);
    section->graph.input_grad = learns(b, a);
    section->rounds = &fast__streaming_layers;
    section->enter.backward = section->graph.input_grad ? FAST_RESHARD_SUM : FAST_RESHARD_NONE;
    section->leave.forward = FAST_RESHARD_SUM;
    fast__assembly_end(b, section, e);
}

const fast_split_kind fast__split_streaming = {
    .name = "streaming",
    .help = "a chain of delayed layers; all compute each position at once",
    .needs = "a chain of dense or rnn layers behind delays",
    .find = streaming_find,
    .make = streaming_make,
};
