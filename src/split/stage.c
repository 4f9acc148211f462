/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stages: where to cut a network, and the graphs between the cuts.
 *
 * Nodes are in topological order, so a cut is a place in that order. It is possible after node k if
 * every edge across it starts at k. Of the possible cuts c_0 = 0 < c_1 < ... < c_n the best S - 1
 * follow by dynamic programming over prefixes, as PipeDream partitions (Narayanan et al. 2019),
 * for equal workers:
 *
 *     best(s, j) = min over i < j of max(best(s - 1, i), seconds(i, j))
 *
 * Among equal times the smaller sum of boundaries wins, then the later cut: behind an activation,
 * which engines fuse with the layer before it. Cost: S n^2 steps, n possible cuts; the
 * costs of ranges are differences of the costs of prefixes.
 *
 * Segments follow the order of nodes without gaps, so the parameters of a range of nodes are a
 * range of the vector: a stage's vectors are copied, summed and saved as slices of the whole.
 */
#include "split/stage.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

bool fast__split_can_cut(const fast_graph *graph, int k)
{
    for (int i = k + 1; i < graph->node_count; i++)
        for (int j = 0; j < graph->nodes[i].input_count; j++)
            if (graph->nodes[i].inputs[j] < k)
                return false;
    return true;
}

/* The best way to cover a prefix with some number of stages. */
typedef struct prefix {
    double seconds;  /* of the slowest stage; INFINITY: there is no way */
    double boundary; /* sum of the floats that cross its cuts */
    int from;        /* cut before its last stage */
} prefix;

/* A search for stages. */
typedef struct stage_search {
    const fast_graph *graph;       /* the whole network */
    const fast_split_speed *speed; /* of each worker */
    const int16_t *replicas;       /* [stages] workers of a stage; NULL: one each */
    fast_split_cost *prefixes; /* [cut_count] cost of nodes up to each cut, without boundaries */
    int *cuts;                 /* [cut_count] nodes, from 0 to the last */
    int cut_count;             /* length of cuts */
    prefix *best;              /* [stages + 1][cut_count] */
} stage_search;

/* Return the cost of the nodes between two cuts. */
static fast_split_cost cost_between(const stage_search *search, int i, int j)
{
    const fast_split_cost *a = &search->prefixes[i], *b = &search->prefixes[j];
    fast_split_cost cost = { .forward = b->forward - a->forward,
                             .backward = b->backward - a->backward,
                             .floats = b->floats - a->floats,
                             .params = b->params - a->params,
                             .activations = b->activations - a->activations };

    fast__split_cost_bound(search->graph, search->cuts[i], search->cuts[j], &cost);
    return cost;
}

/* Extend all prefixes of s - 1 stages by one that ends at cut j. */
static void extend(const stage_search *search, int64_t s, int j)
{
    prefix *out = &search->best[s * search->cut_count + j];
    const double workers = search->replicas ? (double)search->replicas[s - 1] : 1;

    *out = (prefix){ .seconds = INFINITY };
    for (int i = 0; i < j; i++) {
        const prefix *before = &search->best[(s - 1) * search->cut_count + i];
        const fast_split_cost cost = cost_between(search, i, j);
        const double own = fast__split_seconds(&cost, search->speed) / workers;
        const double seconds = fmax(before->seconds, own);
        const double boundary = before->boundary + (double)cost.boundary;

        if (cost.params == 0 || !isfinite(before->seconds) || seconds > out->seconds ||
            (seconds >= out->seconds && boundary > out->boundary))
            continue;
        *out = (prefix){ .seconds = seconds, .boundary = boundary, .from = i };
    }
}

/* Fill the table, and read the best cuts from its end. */
static fast_err search_run(const stage_search *search, int64_t count, int *ends)
{
    int at = search->cut_count - 1;

    for (int j = 0; j < search->cut_count; j++)
        search->best[j] = (prefix){ .seconds = j == 0 ? 0 : INFINITY };
    for (int64_t s = 1; s <= count; s++)
        for (int j = 0; j < search->cut_count; j++)
            extend(search, s, j);
    if (!isfinite(search->best[count * search->cut_count + at].seconds))
        return fast__fail(FAST_EINVAL,
                          "the model cannot be cut into %lld stages: it has %d places where one "
                          "tensor passes, and each stage needs parameters; use fewer stages",
                          (long long)count, search->cut_count - 2);
    for (int64_t s = count; s > 0; s--) {
        ends[s - 1] = search->cuts[at];
        at = search->best[s * search->cut_count + at].from;
    }
    FAST_ASSERT(at == 0);
    return FAST_OK;
}

/* Find the possible cuts, and the cost of the nodes before each. */
static void list_cuts(stage_search *search, const bool *needs)
{
    const fast_graph *graph = search->graph;
    fast_split_cost sum = { 0 };

    for (int k = 0; k < graph->node_count; k++) {
        if (k > 0)
            fast__split_cost_add(graph, needs, k, &sum);
        if (k > 0 && k < graph->node_count - 1 && !fast__split_can_cut(graph, k))
            continue;
        search->cuts[search->cut_count] = k;
        search->prefixes[search->cut_count++] = sum;
    }
}

fast_err fast__split_choose(const fast_graph *graph, int64_t count, const int16_t *replicas,
                            const fast_split_speed *speed, int *ends)
{
    stage_search search = { .graph = graph, .speed = speed, .replicas = replicas };
    const int64_t nodes = graph->node_count;
    bool *needs = NULL;
    fast_err err;

    FAST_ASSERT(count >= 1 && nodes > 1);
    err = fast__alloc("needs of nodes", nodes, sizeof *needs, &needs);
    if (!err)
        err = fast__alloc("cuts", nodes, sizeof *search.cuts, &search.cuts);
    if (!err)
        err = fast__alloc("costs of cuts", nodes, sizeof *search.prefixes, &search.prefixes);
    if (!err)
        err = fast__alloc("stages", (count + 1) * nodes, sizeof *search.best, &search.best);
    if (!err) {
        fast__graph_needs(graph, needs);
        list_cuts(&search, needs);
        err = search_run(&search, count, ends);
    }
    fast__free(search.best);
    fast__free(search.prefixes);
    fast__free(search.cuts);
    fast__free(needs);
    return err;
}

/* Copy the segments whose node lies in the stage; they must be a range of the layout. */
static fast_err copy_layout(const fast_layout *whole, const fast_split_stage *stage,
                            fast_segment *segments, fast_layout *out, int64_t *first_out,
                            int64_t *offset_out)
{
    int64_t first = -1;

    *out = (fast_layout){ .segments = segments };
    for (int64_t s = 0; s < whole->segment_count; s++) {
        const fast_segment *segment = &whole->segments[s];

        if (segment->layer <= stage->first || segment->layer > stage->last)
            continue;
        if (first < 0)
            first = s;
        if (s != first + out->segment_count)
            return fast__fail(FAST_EINVAL, "the parameters of a stage are not in the order of its "
                                           "layers; the model cannot be cut");
        segments[out->segment_count] = *segment;
        segments[out->segment_count].offset = out->count;
        segments[out->segment_count++].layer = segment->layer - stage->first;
        out->count += segment->count;
    }
    *first_out = first < 0 ? 0 : first;
    *offset_out = first < 0 ? 0 : whole->segments[first].offset;
    return FAST_OK;
}

/* Copy a node with the numbers that its inputs and segments have in the stage. */
static void copy_node(const fast_graph *whole, const fast_split_stage *stage, int i,
                      int64_t params_first, int64_t state_first, fast_node *out)
{
    *out = whole->nodes[i];
    out->global = fast__node_number(whole, i) + 1;
    for (int k = 0; k < out->input_count; k++)
        out->inputs[k] -= stage->first;
    for (int w = 0; w < FAST_WEIGHTS_MAX; w++)
        out->weight[w] -= out->weight[w] >= 0 ? params_first : 0;
    for (int w = 0; w < 2; w++)
        out->state[w] -= out->state[w] >= 0 ? state_first : 0;
}

/* Fill in the nodes, the layouts and the loss. */
static fast_err fill(const fast_graph *whole, fast_split_stage *stage, fast_node *nodes,
                     fast_segment *segments)
{
    fast_graph *graph = &stage->graph;
    int64_t params_first, state_first;

    *graph = *whole;
    graph->nodes = nodes;
    graph->node_count = stage->last - stage->first + 1;
    graph->initial = NULL;
    graph->input_grad = stage->first > 0;
    FAST_TRY(copy_layout(&whole->params, stage, segments, &graph->params, &params_first,
                         &stage->params_offset));
    FAST_TRY(copy_layout(&whole->state, stage, segments + graph->params.segment_count,
                         &graph->state, &state_first, &stage->state_offset));
    for (int i = stage->first + 1; i <= stage->last; i++) {
        copy_node(whole, stage, i, params_first, state_first, &nodes[i - stage->first]);
        stage->draws = stage->draws || whole->nodes[i].op == FAST_OP_DROPOUT;
        stage->answers = stage->answers || (whole->nodes[i].op == FAST_OP_HEAD &&
                                            whole->nodes[i].loss != FAST_LOSS_BALANCE);
    }
    nodes[0] = whole->nodes[stage->first];
    nodes[0].op = FAST_OP_INPUT;
    nodes[0].input_count = 0;
    nodes[0].global = fast__node_number(whole, stage->first) + 1;
    memset(nodes[0].weight, -1, sizeof nodes[0].weight);
    memset(nodes[0].state, -1, sizeof nodes[0].state);
    if (stage->first > 0) {
        graph->tokens = false;
        graph->vocabulary = 0;
    }
    if (stage->last < whole->node_count - 1) { /* the loss is elsewhere */
        graph->loss = FAST_LOSS_MSE;
        graph->loss_use = FAST_LOSS_ELSEWHERE;
        graph->label_smoothing = 0;
        graph->positions = 1;
        graph->outputs = whole->nodes[stage->last].count;
    }
    return fast__graph_check(graph);
}

fast_err fast__split_stage_new(const fast_graph *graph, int first, int last, fast_split_stage **out)
{
    fast_split_stage *stage = NULL;
    fast_node *nodes = NULL;
    fast_segment *segments = NULL;
    fast_err err;

    FAST_ASSERT(first >= 0 && first < last && last < graph->node_count);
    if ((first > 0 && !fast__split_can_cut(graph, first)) ||
        (last < graph->node_count - 1 && !fast__split_can_cut(graph, last)))
        return fast__fail(FAST_EINVAL, "the model cannot be cut after node %d",
                          first > 0 && !fast__split_can_cut(graph, first) ? first : last);
    FAST_TRY(fast__alloc("a stage", 1, sizeof *stage, &stage));
    stage->first = first;
    stage->last = last;
    err = fast__alloc("nodes of a stage", last - first + 1, sizeof *nodes, &nodes);
    stage->graph.nodes = nodes;
    if (!err)
        err = fast__alloc("tensors of a stage",
                          graph->params.segment_count + graph->state.segment_count + 1,
                          sizeof *segments, &segments);
    stage->graph.params.segments = segments;
    if (!err)
        err = fill(graph, stage, nodes, segments);
    if (err) {
        stage->graph.nodes = nodes;
        stage->graph.params.segments = segments;
        fast__split_stage_free(stage);
        return err;
    }
    *out = stage;
    return FAST_OK;
}

void fast__split_stage_free(fast_split_stage *stage)
{
    if (!stage)
        return;
    fast__free(stage->graph.nodes);
    fast__free((void *)(uintptr_t)stage->graph.params.segments);
    fast__free(stage);
}
