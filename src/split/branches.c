/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kind `branches`: parts of a network that read one tensor, do not read each other, and are
 * summed, as the members of a TreeNet (Lee et al. 2015). Shard t of T has those from t M / T on of
 * M branches, with all of their tensors, and adds them up:
 *
 *     a -+- branch 0 -+
 *        +- branch 1 -+- add: node e
 *        +- branch 2 -+
 *
 * Between node a and the next cut, two nodes belong to one branch if one reads the other; these
 * classes are the branches if each ends in one input of the sum. Nodes are in topological order, so
 * one walk numbers the classes and joins two wherever a node reads both. Branches with statistics
 * or losses of their own are not divided: those are of all shards.
 *
 * Vectors of one length may be concatenated instead of summed: they are gathered.
 *
 * Exchanges of a micro-batch: the sum of the outputs forward, that of the gradient of node a
 * backward.
 */
#include "split/kinds.h"

#include "split/stage.h"

/* Return the next node behind a that a cut is possible behind; 0 if less than two nodes read a. */
static int next_cut(const fast_graph *graph, int a)
{
    int readers = 0;

    for (int i = a + 1; i < graph->node_count; i++)
        for (int k = 0; k < graph->nodes[i].input_count; k++)
            readers += graph->nodes[i].inputs[k] == a;
    if (readers < 2)
        return 0;
    for (int i = a + 1; i < graph->node_count; i++)
        if (i == graph->node_count - 1 || fast__split_can_cut(graph, i))
            return i;
    return 0;
}

/* Number the classes of the nodes between a and e by their first nodes. */
static void join_readers(const fast_graph *graph, int a, int e, int *class)
{
    for (int i = a + 1; i < e; i++) {
        class[i] = i;
        for (int k = 0; k < graph->nodes[i].input_count; k++) {
            const int in = graph->nodes[i].inputs[k];
            const int from = class[i], to = in > a ? class[in] : class[i];

            for (int j = a + 1; j <= i; j++)
                class[j] = class[j] == from ? to : class[j];
        }
    }
}

/* May a node be computed by one shard alone? */
static bool is_free(const fast_node *node)
{
    return node->op != FAST_OP_HEAD && node->op != FAST_OP_BATCH_NORM && node->state[0] < 0;
}

/* Mark the nodes between a and e with the number of their branch, in the order of the sum; false:
 * they are no branches. */
static bool mark_branches(const fast_graph *graph, int a, int e, int *marks)
{
    const fast_node *sum = &graph->nodes[e];

    join_readers(graph, a, e, marks);
    for (int m = 0; m < sum->input_count; m++) { /* classes become -1, -2, .. */
        const int class = sum->inputs[m] > a ? marks[sum->inputs[m]] : -1;

        if (class < 0) /* a itself, or a branch that is added twice */
            return false;
        for (int i = a + 1; i < e; i++)
            marks[i] = marks[i] == class ? -1 - m : marks[i];
    }
    for (int i = a + 1; i < e; i++) {
        if (marks[i] >= 0)
            return false;
        marks[i] = -1 - marks[i];
    }
    return true;
}

/* Does a node add its inputs, or put vectors of one length behind each other? */
static bool joins(const fast_graph *graph, const fast_node *node)
{
    if (node->op != FAST_OP_ADD && (node->op != FAST_OP_CONCAT || node->rank != 1))
        return false;
    for (int m = 1; m < node->input_count; m++)
        if (graph->nodes[node->inputs[m]].count != graph->nodes[node->inputs[0]].count)
            return false;
    return true;
}

static int branches_find(fast_assembly *b, int a)
{
    const fast_graph *graph = b->graph;
    const int e = next_cut(graph, a);
    const fast_node *sum = &graph->nodes[e];

    if (e == 0 || !joins(graph, sum) || sum->input_count < 2 || !fast__assembly_maps(b, e) ||
        !mark_branches(graph, a, e, b->marks))
        return 0;
    if (sum->input_count % b->shards != 0) {
        fast__assembly_unfit(b, e, "has %d branches, which %lld shards do not divide",
                             sum->input_count, (long long)b->shards);
        return 0;
    }
    for (int i = a + 1; i < e; i++)
        if (!is_free(&graph->nodes[i])) {
            fast__assembly_unfit(b, e, "has branches with statistics or losses of their own");
            return 0;
        }
    return e;
}

static void branches_make(fast_assembly *b, int a, int e)
{
    const fast_node *sum = &b->graph->nodes[e];
    const int64_t own = sum->input_count / b->shards, first = b->shard * own;
    fast_split_section *section = fast__assembly_begin(b, a);

    for (int i = a + 1; i < e; i++)
        if (b->marks[i] >= first && b->marks[i] < first + own)
            (void)fast__assembly_add(b, section, i, NULL);
    fast_node *node = fast__assembly_insert(b, section, sum->op, b->index[sum->inputs[first]], e);
    for (int64_t m = first + 1; m < first + own; m++)
        node->inputs[node->input_count++] = b->index[sum->inputs[m]];
    section->enter.backward = FAST_RESHARD_SUM;
    section->leave.forward = FAST_RESHARD_SUM;
    if (sum->op == FAST_OP_CONCAT) {
        const int64_t each = sum->count / sum->input_count;

        node->shape[0] = node->count = own * each;
        section->leave = (fast_reshard){ .forward = FAST_RESHARD_GATHER,
                                         .backward = FAST_RESHARD_SLICE,
                                         .dim = sum->input_count,
                                         .inner = each };
    }
    fast__assembly_end(b, section, e);
}

const fast_split_kind fast__split_branches = {
    .name = "branches",
    .help = "parts that read one tensor and are joined, each computed by one shard",
    .needs = "branches that are summed",
    .find = branches_find,
    .make = branches_make,
};
