/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kind `samples`: shard t of T computes its samples of a micro-batch with all parameters of a
 * run of layers, as data-parallel workers do. With dense layers in pairs behind convolutions it is
 * Krizhevsky's hybrid ("One weird trick for parallelizing convolutional neural networks", 2014):
 *
 *     a | conv, relu, pool ... |  own samples      e: gathered, in the order of samples
 *                                                  dense layers: all samples, own rows and columns
 *
 * Each of M micro-batches has B / T samples of each shard: with --accumulate it is his scheme (c),
 * in which K batches follow each other and each worker sends 1 / K of its activations for each;
 * one micro-batch is his scheme (a), in which the dense layers have all samples at once.
 *
 * A run begins with a layer that is mapped to the kind. Layers behind it without parameters, and
 * batch norms, that the map does not name belong to it, so that pooled activations travel, not what
 * is pooled. Batch norm has the statistics of all samples: in the middle of its pass shards
 * exchange the moments of theirs (engine/pass_parts.h).
 *
 * Floats that a shard sends for a micro-batch: (T - 1) / T B e forward, of the outputs; backward
 * their gradient, as much if the layer behind has parts of it at each shard (they are summed where
 * they are scattered), else none; and that of node a if it is not the batch. At a step's end the
 * gradients of the parameters are summed over the shards. A batch norm of C channels sends (T - 1)
 * (2 C + 1), forward and backward.
 */
#include "split/kinds.h"

#include "split/stage.h"

/* Has a node parameters, or statistics? */
static bool has_tensors(const fast_node *node)
{
    for (int w = 0; w < FAST_WEIGHTS_MAX; w++)
        if (node->weight[w] >= 0)
            return true;
    return node->state[0] >= 0;
}

/* May node i continue a run? Its samples must not depend on each other. */
static bool continues(fast_assembly *b, int i)
{
    const fast_node *node = &b->graph->nodes[i];
    const bool mapped = fast__assembly_maps(b, i), norm = node->op == FAST_OP_BATCH_NORM;

    if (mapped && node->op == FAST_OP_HEAD)
        fast__assembly_unfit(b, i, "has a loss of all samples, and a shard has some of them");
    if (mapped && norm && node->ghost > 0)
        fast__assembly_unfit(b, i,
                             "has statistics of %lld samples each, and shards share those of "
                             "the whole batch",
                             (long long)node->ghost);
    if (!mapped &&
        ((has_tensors(node) && !norm) || fast__layout_map_find(b->map, b->graph, i) >= 0))
        return false;
    return node->op != FAST_OP_HEAD && node->op != FAST_OP_CUSTOM && (!norm || node->ghost == 0);
}

static int samples_find(fast_assembly *b, int a)
{
    const int last = b->graph->node_count - 1;
    int end = 0;

    if (a == last || !fast__assembly_maps(b, a + 1))
        return 0;
    for (int i = a + 1; i <= last && continues(b, i); i++)
        if (i == last || fast__split_can_cut(b->graph, i))
            end = i;
    return end;
}

static void samples_make(fast_assembly *b, int a, int e)
{
    fast_split_slice slices[FAST_WEIGHTS_MAX];
    fast_split_section *section = fast__assembly_begin(b, a);

    for (int w = 0; w < FAST_WEIGHTS_MAX; w++)
        slices[w] = (fast_split_slice){ .partial = true };
    for (int i = a + 1; i <= e; i++) {
        fast_node *node = fast__assembly_add(b, section, i, slices);

        if (node->op == FAST_OP_BATCH_NORM)
            fast__assembly_share_moments(b, node);
    }
    section->divided = true;
    section->enter = (fast_reshard){ .forward = FAST_RESHARD_SLICE,
                                     .backward = FAST_RESHARD_GATHER,
                                     .samples = true };
    section->leave = (fast_reshard){ .forward = FAST_RESHARD_GATHER,
                                     .backward = FAST_RESHARD_SLICE,
                                     .samples = true };
    fast__assembly_end(b, section, e);
}

const fast_split_kind fast__split_samples = {
    .name = "samples",
    .help = "own samples, with all parameters: data-parallel layers before those that are split",
    .needs = "layers whose samples do not depend on each other",
    .find = samples_find,
    .make = samples_make,
};
