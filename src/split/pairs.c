/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kind `pairs` (Shoeybi et al. 2019). Two dense layers with an activation between them are a
 * pair: the first is split by its outputs, the second by its inputs, so that a shard computes both
 * without a message; the sum over the shards is the output:
 *
 *     y = sum over t of f(x A_t) B_t  (+ x, the residual, and the bias of B: in shard 0)
 *
 * A pair is a range of nodes after a cut,
 *
 *     a | prefix ... | dense A | activation ... | dense B | add with a |     e
 *
 * with a cut possible behind e. The prefix (norms, activations) is computed by every shard from the
 * same input, so of its parameters each shard has a part of the gradient. A is split by rows, B by
 * columns, W [out][in]:
 *
 *     A, shard t of T   rows    [t out / T, (t + 1) out / T)     and the same part of the bias
 *     B, shard t of T   columns [t in / T, (t + 1) in / T)       bias, and the residual: shard 0
 *
 * Attention is a pair by itself, A its product for queries, keys and values, B that of its output:
 *
 *     in_proj   of each third the rows of the shard's heads       out_proj   their columns
 *
 * Exchanges of a micro-batch: the sum of the outputs forward, that of the gradient of the inputs
 * backward.
 */
#include "split/kinds.h"

/* The marks of a pair's nodes. */
typedef enum pair_role {
    ROLE_PREFIX,  /* computed by every shard, and each has a part of its parameters' gradient */
    ROLE_ROWS,    /* dense A */
    ROLE_MIDDLE,  /* activation or dropout of the outputs of A that the shard has */
    ROLE_COLUMNS, /* dense B */
    ROLE_HEADS,   /* attention, of which the shard has some heads: a pair by itself */
    ROLE_SUMMAND, /* dropout of the output of B: the same mask for each summand */
    ROLE_RESIDUAL /* the sum with the input of the pair, in shard 0 */
} pair_role;

/* Is it an activation of single elements? */
static bool is_activation(fast_op op)
{
    return op == FAST_OP_RELU || op == FAST_OP_LEAKY_RELU || op == FAST_OP_TANH ||
           op == FAST_OP_SIGMOID || op == FAST_OP_GELU;
}

/* Can a node be between the layers of a pair? Masks of a vector's range are those of the whole. */
static bool is_middle(const fast_node *node)
{
    return is_activation(node->op) || (node->op == FAST_OP_DROPOUT && node->rank == 1);
}

/* Can a node be before the first layer of a pair? */
static bool is_prefix(const fast_node *node)
{
    return is_middle(node) || node->op == FAST_OP_LAYER_NORM || node->op == FAST_OP_FLATTEN;
}

/* Is node i a dense layer on node `in` that is mapped to pairs and can be split? */
static bool is_dense(const fast_assembly *b, int i, int in)
{
    const fast_graph *graph = b->graph;
    const fast_node *node = &graph->nodes[i];

    return i < graph->node_count && node->op == FAST_OP_DENSE && node->inputs[0] == in &&
           node->weight[FAST_W_GAIN] < 0 && fast__assembly_maps(b, i);
}

/* Find the last product of a pair whose first one reads node i: a dense layer behind another, or
 * attention, which is both; 0: there is no pair. */
static int find_second(const fast_assembly *b, int i)
{
    const fast_graph *graph = b->graph;
    const int first = i + 1;

    if (fast__assembly_follows(b, first, i) && graph->nodes[first].op == FAST_OP_ATTENTION)
        return graph->nodes[first].heads % b->shards == 0 && fast__assembly_maps(b, first) ? first
                                                                                           : 0;
    if (!is_dense(b, first, i) || fast__dense_shape(graph, first).outputs % b->shards != 0)
        return 0;
    for (i = first; fast__assembly_follows(b, i + 1, i) && is_middle(&graph->nodes[i + 1]);)
        i++;
    return is_dense(b, i + 1, i) ? i + 1 : 0;
}

/* Return the last node of a pair whose last product is `second`: dropout and a residual behind it
 * belong to it. */
static int find_end(const fast_assembly *b, int a, int second)
{
    const fast_graph *graph = b->graph;
    int end = second;

    if (fast__assembly_follows(b, end + 1, end) && graph->nodes[end + 1].op == FAST_OP_DROPOUT)
        end++;
    if (end + 1 < graph->node_count && graph->nodes[end + 1].op == FAST_OP_ADD &&
        graph->nodes[end + 1].input_count == 2) {
        const int *in = graph->nodes[end + 1].inputs;

        if ((in[0] == a && in[1] == end) || (in[0] == end && in[1] == a))
            end++;
    }
    return end < graph->node_count - 1 && !fast__split_can_cut(graph, end) ? 0 : end;
}

static int pairs_find(fast_assembly *b, int a)
{
    const fast_graph *graph = b->graph;
    int i = a;

    while (fast__assembly_follows(b, i + 1, i) && is_prefix(&graph->nodes[i + 1]))
        i++;
    const int first = i + 1, second = find_second(b, i);
    const int end = second > 0 ? find_end(b, a, second) : 0;
    for (int k = a + 1; k <= end; k++)
        b->marks[k] = k < first                                 ? ROLE_PREFIX
                      : graph->nodes[k].op == FAST_OP_ATTENTION ? ROLE_HEADS
                      : k == first                              ? ROLE_ROWS
                      : k < second                              ? ROLE_MIDDLE
                      : k == second                             ? ROLE_COLUMNS
                      : graph->nodes[k].op == FAST_OP_DROPOUT   ? ROLE_SUMMAND
                                                                : ROLE_RESIDUAL;
    return end;
}

/* The slices of the tensors of a node, by its role. */
static void cut_tensors(const fast_assembly *b, pair_role role,
                        fast_split_slice slices[FAST_WEIGHTS_MAX])
{
    for (int w = 0; w < FAST_WEIGHTS_MAX; w++) {
        const bool bias = w == FAST_W_BIAS || w == FAST_W_BIAS2;
        const bool second = role == ROLE_COLUMNS || (role == ROLE_HEADS && w >= FAST_W_WEIGHT2);

        slices[w] = (fast_split_slice){ .partial = role == ROLE_PREFIX };
        if (second && bias)
            slices[w].absent = b->shard > 0;
        else if (second)
            slices[w] = (fast_split_slice){ .split = true, .axis = 1 };
        else if (role == ROLE_ROWS)
            slices[w] = (fast_split_slice){ .split = true };
        else if (role == ROLE_HEADS) /* of queries, keys and values each */
            slices[w] = (fast_split_slice){ .split = true, .groups = 3 };
    }
}

static void pairs_make(fast_assembly *b, int a, int e)
{
    fast_split_section *section = fast__assembly_begin(b, a);

    for (int i = a + 1; i <= e; i++) {
        const pair_role role = (pair_role)b->marks[i];
        fast_split_slice slices[FAST_WEIGHTS_MAX];

        cut_tensors(b, role, slices);
        fast_node *node = fast__assembly_add(b, section, i, slices);
        if (role == ROLE_ROWS || role == ROLE_MIDDLE) {
            node->shape[node->rank - 1] /= b->shards;
            node->count /= b->shards;
            node->columns[0] = node->op == FAST_OP_DROPOUT ? b->shard * node->count : 0;
        }
        if (role == ROLE_HEADS)
            node->heads /= b->shards;
        if (role == ROLE_RESIDUAL && b->shard > 0) {
            node->input_count = 1;
            node->inputs[0] = b->index[i - 1];
        }
    }
    section->enter.backward = FAST_RESHARD_SUM;
    section->leave.forward = FAST_RESHARD_SUM;
    fast__assembly_end(b, section, e);
}

const fast_split_kind fast__split_pairs = {
    .name = "pairs",
    .help = "two dense layers with an activation between them, by outputs and by inputs; heads",
    .needs = "attention, or two dense layers with an activation between them",
    .find = pairs_find,
    .make = pairs_make,
};
