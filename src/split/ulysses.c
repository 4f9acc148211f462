/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kind `ulysses` (Jacobs et al. 2023, DeepSpeed-Ulysses): all layers are computed on slices of
 * the sequence, with whole weights, and attention on whole sequences of some of the heads. Queries,
 * keys and values change from slices of positions to slices of heads by all-to-all, and the outputs
 * of the heads back:
 *
 *     q, k, v of own positions  -- all-to-all --  own heads  -- all-to-all --  own positions
 *
 * Floats that a shard sends for a micro-batch of B samples [P, C] and an attention: 4 B P C
 * (T - 1) / T^2 forward and as many backward: less than the kind `sequence` for T > 2. Each shard
 * has a part of the gradient of every tensor: they are summed once a step.
 */
#include "split/kinds.h"
#include "split/positions.h"

static int heads_find(fast_assembly *b, int i)
{
    const fast_node *node = &b->graph->nodes[i];

    if (node->op != FAST_OP_ATTENTION)
        return 0;
    if (node->heads >= b->shards)
        return i;
    fast__assembly_unfit(b, i, "has %lld heads, fewer than %lld shards", (long long)node->heads,
                         (long long)b->shards);
    return 0;
}

/* A change from slices of positions to slices of heads, or back: `parts` of queries, keys, values
 * for each position. */
static fast_reshard swap_of(const fast_assembly *b, int i, int64_t parts, bool to_heads)
{
    const fast_node *node = &b->graph->nodes[i];

    return (fast_reshard){ .forward = to_heads ? FAST_RESHARD_SWAP_BACK : FAST_RESHARD_SWAP,
                           .backward = to_heads ? FAST_RESHARD_SWAP : FAST_RESHARD_SWAP_BACK,
                           .dim = node->shape[0],
                           .middle = parts,
                           .other = node->heads,
                           .inner = node->shape[1] / node->heads };
}

static void heads_before(fast_assembly *b, fast_split_section *section, int i)
{
    fast__sequence_product(b, section, i, b->index[b->graph->nodes[i].inputs[0]], false);
    section->leave = swap_of(b, i, 3, true);
}

static void heads_make(fast_assembly *b, int i, int last)
{
    const fast_node *node = &b->graph->nodes[i];
    const int64_t P = node->shape[0], D = node->shape[1] / node->heads;
    const int64_t heads =
        (b->shard + 1) * node->heads / b->shards - b->shard * node->heads / b->shards;
    fast_split_section *section = fast__assembly_begin(b, i);

    fast__sequence_shape(section->graph.nodes, P, 3 * heads * D);
    fast_node *core = fast__assembly_insert(b, section, FAST_OP_ATTENTION_CORE, 0, last);
    fast__sequence_shape(core, P, heads * D);
    core->heads = heads;
    section->leave = swap_of(b, i, 1, false);
    fast__assembly_end(b, section, last);
}

static void heads_behind(fast_assembly *b, fast_split_section *section, int i)
{
    fast__sequence_product(b, section, i, b->index[i], true);
}

static const fast_sequence_way way = { heads_find, heads_before, heads_make, heads_behind };

static int ulysses_find(fast_assembly *b, int a)
{
    return fast__sequence_find(b, &way, a);
}

static void ulysses_make(fast_assembly *b, int a, int e)
{
    fast__sequence_make(b, &way, a, e);
}

const fast_split_kind fast__split_ulysses = {
    .name = "ulysses",
    .help = "all layers by positions, attention by heads, all-to-all between them",
    .needs = "a sequence of layers with attention among them",
    .find = ulysses_find,
    .make = ulysses_make,
};
