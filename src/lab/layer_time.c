/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time of one layer of a network, by the engine that computes it.
 *
 * A layer is timed as the difference of two small networks, forward and backward:
 *
 *     images:    input -> lead -> layer -> mean, mse
 *        minus   input -> lead -> mean, mse
 *     vectors:   input -> lead -> layer + layer -> mean, mse
 *        minus   input -> lead -> layer -> mean, mse
 *
 * The lead is a norm, whose weights make the engine compute the layer's gradient of its input as
 * it does in the model; the first layer needs none and has no lead. The mean over an image or a
 * sequence makes the loss cheap; a second copy of a small layer costs about what the layer does,
 * while the lead alone has another loss than the layer. Both networks run alternately, and the
 * fastest pass of each counts: other work on the machine only slows a pass down. Layers alone
 * have their operands in the cache, so that the parts do not add up to the whole: the whole is
 * the figure that counts. Only layers with matrix products are shown.
 */
#include "lab/layer_time.h"

#include "base/clock.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>

enum { NODES_MAX = 6, SEGMENTS_MAX = 16, PASSES_MAX = 10240 };

/* A graph of a few nodes, in the caller's memory. */
typedef struct small_graph {
    fast_graph graph;                  /* points to the arrays below */
    fast_node nodes[NODES_MAX];        /* in the order of the graph */
    fast_segment params[SEGMENTS_MAX]; /* of the weights */
    fast_segment state[SEGMENTS_MAX];  /* of running means and variances */
} small_graph;

/* Append a node to a small graph, with the shape of another node. */
static fast_node *small_add(small_graph *small, fast_op op, const fast_node *shape)
{
    fast_graph *graph = &small->graph;
    FAST_ASSERT(graph->node_count < NODES_MAX);
    fast_node *node = &small->nodes[graph->node_count];
    *node = (fast_node){ .op = op, .rank = shape->rank, .count = shape->count };
    memcpy(node->shape, shape->shape, sizeof node->shape);
    if (graph->node_count > 0) {
        node->input_count = 1;
        node->inputs[0] = graph->node_count - 1;
    }
    for (int i = 0; i < FAST_WEIGHTS_MAX; i++)
        node->weight[i] = -1;
    node->state[0] = node->state[1] = -1;
    graph->node_count++;
    return node;
}

/* Append a segment to a layout and return its index. */
static int64_t small_segment(fast_layout *layout, fast_segment *segments, int node,
                             const fast_segment *like)
{
    FAST_ASSERT(layout->segment_count < SEGMENTS_MAX);
    fast_segment *segment = &segments[layout->segment_count];
    *segment = *like;
    segment->offset = layout->count;
    segment->layer = node;
    layout->count += like->count;
    return layout->segment_count++;
}

/* A norm over the shape of `like`: weights whose gradient stands on the layer's. */
static void small_lead(small_graph *small, const fast_node *like)
{
    const bool image = like->rank == 3;
    const int64_t channels = image ? like->shape[0] : like->shape[like->rank - 1];
    fast_node *node = small_add(small, image ? FAST_OP_BATCH_NORM : FAST_OP_LAYER_NORM, like);
    const int at = small->graph.node_count - 1;
    node->a = 1e-5f;
    node->b = 0.1f;
    fast_segment segment = { .name = "lead.weight", .count = channels, .rank = 1 };
    segment.shape[0] = channels;
    node->weight[FAST_W_WEIGHT] = small_segment(&small->graph.params, small->params, at, &segment);
    snprintf(segment.name, sizeof segment.name, "lead.bias");
    node->weight[FAST_W_BIAS] = small_segment(&small->graph.params, small->params, at, &segment);
    if (!image)
        return;
    snprintf(segment.name, sizeof segment.name, "lead.running_mean");
    node->state[0] = small_segment(&small->graph.state, small->state, at, &segment);
    snprintf(segment.name, sizeof segment.name, "lead.running_var");
    node->state[1] = small_segment(&small->graph.state, small->state, at, &segment);
}

/* Append a copy of node `layer` of `graph` that stands on node `from`. */
static void small_layer(small_graph *small, const fast_graph *graph, int layer, int from, int copy)
{
    const fast_node *original = &graph->nodes[layer];
    fast_node *node = small_add(small, original->op, original);
    const int at = small->graph.node_count - 1;
    *node = *original;
    node->inputs[0] = from;
    for (int i = 0; i < FAST_WEIGHTS_MAX; i++) {
        if (original->weight[i] < 0)
            continue;
        fast_segment segment = graph->params.segments[original->weight[i]];
        snprintf(segment.name, sizeof segment.name, "layer%d.%d", copy, i);
        node->weight[i] = small_segment(&small->graph.params, small->params, at, &segment);
    }
}

/* input -> [lead] -> the sum of `copies` of node `layer` of `graph` -> mean, mse */
static void small_make(small_graph *small, const fast_graph *graph, int layer, int copies)
{
    memset(small, 0, sizeof *small);
    small->graph.nodes = small->nodes;
    small->graph.params.segments = small->params;
    small->graph.state.segments = small->state;
    const fast_node *original = &graph->nodes[layer];
    const fast_node *input = &graph->nodes[original->inputs[0]];
    small_add(small, FAST_OP_INPUT, input);
    if (original->inputs[0] == 0) {
        small->graph.tokens = graph->tokens;
        small->graph.vocabulary = graph->vocabulary;
    } else {
        small_lead(small, input);
    }
    const int from = small->graph.node_count - 1;
    for (int copy = 0; copy < copies; copy++)
        small_layer(small, graph, layer, from, copy);
    if (copies == 2) {
        fast_node *sum = small_add(small, FAST_OP_ADD, original);
        sum->input_count = 2;
        sum->inputs[0] = from + 1;
        sum->inputs[1] = from + 2;
    }
    fast_node mean = small->nodes[small->graph.node_count - 1];
    if (mean.rank > 1) {
        mean.count = mean.rank == 3 ? mean.shape[0] : mean.shape[1];
        mean.rank = 1;
        mean.shape[0] = mean.count;
        mean.shape[1] = mean.shape[2] = 0;
        small_add(small, FAST_OP_GLOBAL_POOL, &mean);
    }
    small->graph.loss = FAST_LOSS_MSE;
    small->graph.positions = 1;
    small->graph.outputs = mean.count;
}

/* A small graph, and everything that a pass over it needs. */
typedef struct small_run {
    const fast_engine *engine; /* that is measured */
    fast_program *program;     /* the compiled graph */
    fast_workspace *workspace; /* activations of a pass */
    float *memory;             /* params, grad, state, x, targets */
    fast_batch batch;          /* inputs and labels */
    fast_pass pass;            /* one forward and backward pass */
    int64_t best_ns;           /* of a pass */
    small_graph small;         /* the graph */
} small_run;

/* Free a small run; NULL is allowed. */
static void small_close(small_run *s)
{
    if (!s)
        return;
    fast__free(s->memory);
    s->engine->workspace_free(s->workspace);
    s->engine->program_free(s->program);
    fast__free(s);
}

/* Fill the inputs of a small run with values of the right kind. */
static fast_err small_fill(small_run *s, const fast_layer_bench *bench)
{
    const fast_graph *graph = &s->small.graph;
    const int64_t count = bench->options.batch;
    const int64_t inputs = count * graph->nodes[0].count;
    const int64_t targets = count * graph->outputs;
    const int64_t params = graph->params.count;
    FAST_TRY(bench->engine->compile(graph, &bench->options, &s->program));
    FAST_TRY(bench->engine->workspace_new(s->program, &s->workspace));
    FAST_TRY(fast__alloc("a layer to measure", 2 * params + graph->state.count + inputs + targets,
                         sizeof(float), &s->memory));
    float *w = s->memory;
    float *state = w + 2 * params;
    float *x = state + graph->state.count;
    for (int64_t i = 0; i < params; i++)
        w[i] = (float)(i % 7 - 3) * 0.01f;
    for (int64_t i = 0; i < graph->state.count; i++)
        state[i] = 1;
    for (int64_t i = 0; i < inputs; i++)
        x[i] = graph->tokens ? (float)(i % graph->vocabulary) : (float)(i % 11 - 5) * 0.1f;
    s->batch = (fast_batch){ .count = count, .x = x, .targets = x + inputs };
    s->pass = (fast_pass){
        .params = w, .state = state, .batch = &s->batch, .grad = w + params, .train = true
    };
    return FAST_OK;
}

/* Make a graph of `copies` copies of one layer, compiled by the engine. */
static fast_err small_open(const fast_layer_bench *bench, int layer, int copies, small_run **out)
{
    small_run *s = NULL;
    FAST_TRY(fast__alloc("a small graph", 1, sizeof *s, &s));
    s->engine = bench->engine;
    s->best_ns = INT64_MAX;
    small_make(&s->small, bench->graph, layer, copies);
    const fast_err err = small_fill(s, bench);
    if (err) {
        small_close(s);
        return err;
    }
    *out = s;
    return FAST_OK;
}

/* One forward and backward pass, in CPU time of this thread, which computes it alone. */
static fast_err small_pass(small_run *s)
{
    const int64_t begin_ns = fast__clock_thread_ns();
    FAST_TRY(s->engine->run(s->program, s->workspace, &s->pass));
    const int64_t spent_ns = fast__clock_thread_ns() - begin_ns;
    if (spent_ns < s->best_ns)
        s->best_ns = spent_ns;
    return FAST_OK;
}

/* The time of a layer: the pass with more of it, less the one with less (NULL: nothing). The two
 * alternate, so that a change of the clock rate affects both. */
static fast_err small_time(small_run *more, small_run *less, const fast_layer_bench *bench,
                           double *seconds_out)
{
    const int64_t end_ns = fast__clock_ns() + bench->limit_ns;
    FAST_ASSERT(bench->passes > 0);
    for (int i = 0; i < bench->passes || (i < PASSES_MAX && fast__clock_ns() < end_ns); i++) {
        FAST_TRY(small_pass(more));
        if (less)
            FAST_TRY(small_pass(less));
    }
    const int64_t floor_ns = 1 + more->best_ns / 50;
    const int64_t own_ns = more->best_ns - (less ? less->best_ns : 0);
    *seconds_out = (double)(own_ns > floor_ns ? own_ns : floor_ns) * 1e-9;
    return FAST_OK;
}

/* Graphs with more and fewer copies of the layer: the rest of a pass cancels out. */
fast_err fast__layer_time(const fast_layer_bench *bench, int node, double *seconds_out)
{
    const bool image = bench->graph->nodes[node].rank == 3;
    const bool first = bench->graph->nodes[node].inputs[0] == 0;
    small_run *more = NULL;
    small_run *less = NULL;
    FAST_ASSERT(node > 0 && node < bench->graph->node_count);
    FAST_TRY(small_open(bench, node, image ? 1 : 2, &more));
    fast_err err = FAST_OK;
    if (!image || !first)
        err = small_open(bench, node, image ? 0 : 1, &less);
    if (!err)
        err = small_time(more, less, bench, seconds_out);
    small_close(less);
    small_close(more);
    return err;
}
