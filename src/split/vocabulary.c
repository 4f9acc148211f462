/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kind `vocabulary` (Shoeybi et al. 2019): shard t of T has the tokens, or the classes,
 * [t V / T, (t + 1) V / T).
 *
 *     embed            rows of the table; tokens of other shards give zeros     sum of the outputs
 *                      positions: shard 0
 *     last dense       rows of W and b -> logits of the own classes             gather of 4 figures
 *                      a row (engine/class_range.h), from which every shard has the loss
 *
 * Floats that a shard sends for a micro-batch of B samples of P rows: the sum of B P C outputs for
 * the table; for the last layer (T - 1) 4 B P forward, and the sum of the gradient of its B P C
 * inputs backward, in the place of B P V logits.
 */
#include "split/kinds.h"

#include "engine/class_range.h"

/* Is it the last layer, with a loss that its classes can share? */
static bool has_classes(fast_assembly *b, int i)
{
    const fast_graph *graph = b->graph;

    return i == graph->node_count - 1 && graph->nodes[i].op == FAST_OP_DENSE &&
           graph->nodes[i].weight[FAST_W_GAIN] < 0 && graph->loss == FAST_LOSS_CROSS_ENTROPY &&
           graph->loss_use == FAST_LOSS_TRAINED && !graph->class_weights &&
           graph->outputs >= b->shards;
}

static int vocabulary_find(fast_assembly *b, int a)
{
    const int i = a + 1;

    if (!fast__assembly_follows(b, i, a) || !fast__assembly_maps(b, i))
        return 0;
    if (b->graph->nodes[i].op == FAST_OP_EMBED && b->graph->vocabulary >= b->shards)
        return i == b->graph->node_count - 1 || fast__split_can_cut(b->graph, i) ? i : 0;
    return has_classes(b, i) ? i : 0;
}

/* First row of shard t. */
static int64_t first_of(const fast_assembly *b, int64_t rows, int64_t t)
{
    return t * rows / b->shards;
}

/* The section of the embedding. */
static void make_embed(fast_assembly *b, int a, int i)
{
    const int64_t table = b->graph->nodes[i].weight[FAST_W_WEIGHT];
    const int64_t rows = b->graph->params.segments[table].shape[0];
    fast_split_slice slices[FAST_WEIGHTS_MAX] = {
        [FAST_W_WEIGHT] = { .split = true }, [FAST_W_BIAS] = { .absent = b->shard > 0 }
    };
    fast_split_section *section = fast__assembly_begin(b, a);
    fast_node *node = fast__assembly_add(b, section, i, slices);

    node->columns[0] = first_of(b, rows, b->shard);
    node->columns[1] = rows;
    section->leave.forward = FAST_RESHARD_SUM;
    fast__assembly_end(b, section, i);
}

/* Give a node `columns` elements in each of its rows. */
static void set_columns(fast_node *node, int64_t rows, int64_t columns)
{
    node->shape[node->rank - 1] = columns;
    node->count = rows * columns;
}

/* The sections of the last layer: own classes, and the loss. */
static void make_classes(fast_assembly *b, int a, int i)
{
    const int64_t classes = b->graph->outputs, rows = b->graph->positions;
    const int64_t first = first_of(b, classes, b->shard);
    fast_split_slice slices[FAST_WEIGHTS_MAX] = {
        [FAST_W_WEIGHT] = { .split = true }, [FAST_W_BIAS] = { .split = true }
    };
    fast_split_section *section = fast__assembly_begin(b, a);
    fast_node *node = fast__assembly_add(b, section, i, slices);

    set_columns(node, rows, first_of(b, classes, b->shard + 1) - first);
    node = fast__assembly_insert(b, section, FAST_OP_CLASS_FIGURES, b->index[i], -1);
    set_columns(node, rows, FAST_FIGURES);
    node->columns[0] = first;
    section->enter.backward = FAST_RESHARD_SUM;
    section->leave = (fast_reshard){ .forward = FAST_RESHARD_GATHER,
                                     .backward = FAST_RESHARD_SLICE,
                                     .outer = rows,
                                     .dim = b->shards,
                                     .inner = FAST_FIGURES };
    fast__assembly_end(b, section, i);

    section = fast__assembly_begin(b, i);
    set_columns(section->graph.nodes, rows, b->shards * FAST_FIGURES);
    node = fast__assembly_insert(b, section, FAST_OP_ADD, 0, -1);
    node->columns[1] = classes;
    section->graph.loss = FAST_LOSS_FIGURES;
    section->graph.outputs = b->shards * FAST_FIGURES;
    fast__assembly_end(b, section, i);
}

static void vocabulary_make(fast_assembly *b, int a, int e)
{
    if (b->graph->nodes[e].op == FAST_OP_EMBED)
        make_embed(b, a, e);
    else
        make_classes(b, a, e);
}

const fast_split_kind fast__split_vocabulary = {
    .name = "vocabulary",
    .help = "an embedding by tokens; the last dense layer and its loss by classes",
    .needs = "an embedding of tokens, or a last dense layer with cross-entropy",
    .find = vocabulary_find,
    .make = vocabulary_make,
};
