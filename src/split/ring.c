/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kind `ring` (Liu et al. 2023): all layers are computed on slices of the sequence, with whole
 * weights. Queries stay, and keys and values of the slices go round the shards (engine/round_op.h,
 * engine/ring_attention.c), so that no shard ever has a whole sequence.
 *
 * Floats that a shard sends for a micro-batch of B samples [P, C] and an attention, with blocks of
 * B ceil(P / T) 2 C floats: T - 1 blocks forward, and backward T - 1 with their gradients. Each
 * shard has a part of the gradient of every tensor: they are summed once a step.
 */
#include "split/kinds.h"
#include "split/positions.h"

static int ring_at(fast_assembly *b, int i)
{
    return b->graph->nodes[i].op == FAST_OP_ATTENTION ? i : 0;
}

static void ring_before(fast_assembly *b, fast_split_section *section, int i)
{
    fast__sequence_product(b, section, i, b->index[b->graph->nodes[i].inputs[0]], false);
    section->leave.inner = section->graph.nodes[section->graph.node_count - 1].count;
}

static void ring_rounds(fast_assembly *b, int i, int last)
{
    const fast_node *node = &b->graph->nodes[i];
    const int64_t C = node->shape[1], own = fast__sequence_own(b, i);
    fast_split_section *section = fast__assembly_begin(b, i);

    fast__sequence_shape(section->graph.nodes, own, 3 * C);
    fast_node *core = fast__assembly_insert(b, section, FAST_OP_ATTENTION_CORE, 0, last);
    fast__sequence_shape(core, own, C);
    core->heads = node->heads;
    core->columns[1] = fast__sequence_positions(b, i);
    section->rounds = &fast__ring_attention;
    section->enter.inner = own * 3 * C;
    section->leave.inner = own * C;
    fast__assembly_end(b, section, last);
}

static void ring_behind(fast_assembly *b, fast_split_section *section, int i)
{
    fast__sequence_product(b, section, i, b->index[i], true);
}

static const fast_sequence_way way = { ring_at, ring_before, ring_rounds, ring_behind };

static int ring_find(fast_assembly *b, int a)
{
    return fast__sequence_find(b, &way, a);
}

static void ring_make(fast_assembly *b, int a, int e)
{
    fast__sequence_make(b, &way, a, e);
}

const fast_split_kind fast__split_ring = {
    .name = "ring",
    .help = "all layers by positions; keys and values go round the shards",
    .needs = "a sequence of layers with attention among them",
    .find = ring_find,
    .make = ring_make,
};
