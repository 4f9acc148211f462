/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a network and the shape of its data to a graph: nodes, segments, loss.
 *
 * Layers become nodes in the order of their lines, which is topological because a line can only
 * name lines above it; a stack of recurrent layers becomes one node each. Segments follow in that
 * order, packed without gaps, so that the vector's length is the number of parameters. The graph is
 * one block of memory: header, nodes, segments of the parameters, segments of the state.
 *
 *     | fast_graph | nodes[node_count] | params.segments[] | state.segments[] | elements[] |
 *
 * Heads are finished after the loss of the network, since their lines precede it: they take its
 * kind, and answer rows of as many labels or targets.
 *
 * A layer may have fewer segments than its kind allows; the block has room for the most. A failed
 * build frees the block, so that a graph is complete or does not exist.
 */
#include "base/memory.h"
#include "engine/experts.h"
#include "model/layer.h"

#include <stdio.h>
#include <string.h>

/* Largest number of parameters of a graph. */
#define PARAM_MAX ((int64_t)1 << 36)

/* Write a shape as "3x32x32" to `text` and return it, for messages. */
const char *fast__shape_text(int rank, const int64_t *shape, char text[64])
{
    FAST_ASSERT(rank >= 1);
    FAST_ASSERT(rank <= 3);
    if (rank == 1)
        snprintf(text, 64, "%lld", (long long)shape[0]);
    else if (rank == 2)
        snprintf(text, 64, "%lldx%lld", (long long)shape[0], (long long)shape[1]);
    else
        snprintf(text, 64, "%lldx%lldx%lld", (long long)shape[0], (long long)shape[1],
                 (long long)shape[2]);
    return text;
}

/* Compute the product of a shape; false if it is too large. */
static bool shape_count(int rank, const int64_t *shape, int64_t *out)
{
    int64_t count = 1;

    for (int i = 0; i < rank; i++)
        if (!fast__mul_size(count, shape[i], &count) || count >= FAST_COUNT_MAX)
            return false;
    *out = count;
    return true;
}

/* Fill in a segment and extend the layout by it. */
static fast_err add_segment(fast_build *build, fast_segment *segment, fast_layout *layout,
                            const char *suffix, int rank, const int64_t *shape)
{
    int64_t total = 0;

    FAST_ASSERT(rank >= 1);
    FAST_ASSERT(rank <= FAST_RANK_MAX);
    *segment = (fast_segment){ .rank = rank, .offset = layout->count };
    for (int i = 0; i < rank; i++)
        segment->shape[i] = shape[i];
    snprintf(segment->name, sizeof segment->name, "%s.%s", build->layer->label, suffix);
    if (!shape_count(rank, shape, &segment->count) ||
        !fast__add_size(layout->count, segment->count, &total) || total > PARAM_MAX)
        return FAST_LAYER_FAIL(build, "its %s is too large", suffix);
    segment->layer = build->graph->node_count;
    segment->decay = rank > 1;
    layout->count = total;
    layout->segment_count++;
    return FAST_OK;
}

/* Append a parameter segment to the layout and note its index in the node's slot. It starts at
 * zero unless the caller sets `init`. */
fast_err fast__build_param(fast_build *build, fast_node *node, int slot, const char *suffix,
                           int rank, const int64_t *shape, fast_segment **out)
{
    fast_layout *layout = &build->graph->params;
    fast_segment *segment = &build->params[layout->segment_count];

    FAST_ASSERT(node->weight[slot] == -1);
    node->weight[slot] = layout->segment_count;
    FAST_TRY(add_segment(build, segment, layout, suffix, rank, shape));
    *out = segment;
    return FAST_OK;
}

/* Append a state segment, such as a running mean, to the state's layout and note its index in
 * the node's slot. */
fast_err fast__build_state(fast_build *build, fast_node *node, int slot, const char *suffix,
                           int64_t count, fast_segment **out)
{
    fast_layout *layout = &build->graph->state;
    fast_segment *segment = &build->state[layout->segment_count];

    FAST_ASSERT(node->state[slot] == -1);
    node->state[slot] = layout->segment_count;
    FAST_TRY(add_segment(build, segment, layout, suffix, 1, &count));
    *out = segment;
    return FAST_OK;
}

/* Build node 0 from its line, or from the data. A line wins: check_fit() compares both later, and
 * says which is wrong. */
static fast_err build_input(fast_build *build, const fast_model_input *input, fast_node *node)
{
    const fast_layer *layer = build->layer;
    fast_graph *graph = build->graph;

    if (layer->rank == 0 && !input)
        return fast__fail(FAST_EINVAL, "line 1: begin with the shape of one sample, as in "
                                       "\"input 1 28 28\"");
    node->rank = layer->rank ? layer->rank : input->rank;
    memcpy(node->shape, layer->rank ? layer->shape : input->shape, sizeof node->shape);
    graph->vocabulary = layer->rank ? layer->config.tokens : input->tokens ? input->vocabulary : 0;
    graph->tokens = graph->vocabulary > 0;
    for (int i = node->rank; i < 3; i++)
        node->shape[i] = 0;
    return FAST_OK;
}

/* Build one node of the current layer. */
static fast_err build_node(fast_build *build, const fast_model_input *input, const int *node_of)
{
    const fast_layer *layer = build->layer;
    fast_graph *graph = build->graph;
    fast_node *node = &graph->nodes[graph->node_count];
    char text[64];

    *node = (fast_node){ .op = layer->op, .input_count = layer->input_count };
    memset(node->weight, -1, sizeof node->weight);
    memset(node->state, -1, sizeof node->state);
    for (int i = 0; i < layer->input_count; i++)
        node->inputs[i] = build->part > 0 ? graph->node_count - 1 : node_of[layer->inputs[i]];
    if (layer->op == FAST_OP_INPUT)
        FAST_TRY(build_input(build, input, node));
    else
        FAST_TRY(fast__layer_infer(build, node));
    FAST_ASSERT(node->rank >= 1);
    FAST_ASSERT(node->rank <= 3);
    if (!shape_count(node->rank, node->shape, &node->count))
        return FAST_LAYER_FAIL(build, "its output %s is too large",
                               fast__shape_text(node->rank, node->shape, text));
    graph->node_count++;
    return FAST_OK;
}

/* Check that every layer but heads and the last is the input of another: an unused layer is a
 * mistake. */
static fast_err check_used(const fast_network *network, unsigned char *used)
{
    for (int i = 0; i < network->layer_count; i++)
        for (int j = 0; j < network->layers[i].input_count; j++)
            used[network->layers[i].inputs[j]] = 1;
    for (int i = 0; i + 1 < network->layer_count; i++)
        if (!used[i] && network->layers[i].op != FAST_OP_HEAD)
            return fast__fail(FAST_EINVAL,
                              "line %d: nothing uses \"%s\"; name it in a later line or delete it",
                              network->layers[i].line, network->layers[i].label);
    return FAST_OK;
}

/* Give a head its loss, unless its line has one, and check that it can answer as the outputs do. */
static fast_err finish_head(const fast_build *build, const fast_layer *layer, fast_node *head)
{
    const fast_graph *graph = build->graph;
    const int64_t positions = head->rank == 2 ? head->shape[0] : 1;
    const int64_t outputs = head->shape[head->rank - 1];

    if (head->loss == FAST_LOSS_BALANCE) { /* of a router: it answers nothing */
        if (head->b > 0 || head->columns[0] > 0 || outputs > FAST_EXPERTS_MAX)
            return fast__fail(FAST_EINVAL,
                              "line %d: %s: balance takes logits of at most %d experts, and "
                              "neither smoothing nor first",
                              layer->line, layer->label, FAST_EXPERTS_MAX);
        return FAST_OK;
    }
    if (head->loss == FAST_LOSS_BEST) {
        head->columns[1] = graph->outputs;
        if (graph->loss != FAST_LOSS_CROSS_ENTROPY || graph->positions > 1 || head->rank != 1 ||
            outputs % graph->outputs != 0 || head->columns[0] > 0)
            return fast__fail(FAST_EINVAL,
                              "line %d: %s: best takes the scores of several members, %lld classes "
                              "each, in a network with cross_entropy and one label a sample",
                              layer->line, layer->label, (long long)graph->outputs);
        return FAST_OK;
    }
    if (layer->config.kind == 0)
        head->loss = graph->loss; /* known only now: the loss line comes last, or from the data */
    const bool squares = head->loss == FAST_LOSS_MSE;
    head->columns[1] = graph->outputs; /* a row of the targets is that of the output */
    if (head->loss != graph->loss)
        return fast__fail(FAST_EINVAL,
                          "line %d: %s: has the loss %s, and the network %s; both "
                          "learn from the same answers",
                          layer->line, layer->label, squares ? "mse" : "cross_entropy",
                          squares ? "cross_entropy" : "mse");
    if (positions != graph->positions ||
        (head->loss == FAST_LOSS_CROSS_ENTROPY && outputs != graph->outputs) ||
        head->columns[0] + outputs > graph->outputs)
        return fast__fail(FAST_EINVAL,
                          "line %d: %s: has %lld times %lld outputs, from target "
                          "%lld on, and the network %lld times %lld",
                          layer->line, layer->label, (long long)positions, (long long)outputs,
                          (long long)head->columns[0], (long long)graph->positions,
                          (long long)graph->outputs);
    if (head->loss == FAST_LOSS_MSE ? head->b > 0 : head->columns[0] > 0)
        return fast__fail(FAST_EINVAL, "line %d: %s: %s", layer->line, layer->label,
                          head->loss == FAST_LOSS_MSE ? "smoothing belongs to cross_entropy"
                                                      : "first belongs to mse");
    return FAST_OK;
}

/* Finish all heads. Layers and nodes are in the same order; a stack has several nodes. */
static fast_err build_heads(fast_build *build, const int *node_of)
{
    int heads = 0;

    for (int i = 0; i < build->network->layer_count; i++) {
        const fast_layer *layer = &build->network->layers[i];

        if (layer->op != FAST_OP_HEAD)
            continue;
        FAST_TRY(finish_head(build, layer, &build->graph->nodes[node_of[i]]));
        heads += build->graph->nodes[node_of[i]].loss != FAST_LOSS_BALANCE;
    }
    if (build->graph->loss_use == FAST_LOSS_EVALUATED && heads == 0)
        return fast__fail(FAST_EINVAL, "the loss has train=no, and no layer is a head; add a head, "
                                       "or leave it out");
    return FAST_OK;
}

/* Derive the loss, the positions and the outputs from the last node. */
static fast_err build_loss(fast_build *build, const fast_model_input *input)
{
    const fast_network *network = build->network;
    fast_graph *graph = build->graph;
    const fast_node *last = &graph->nodes[graph->node_count - 1];
    const bool regression = input && input->regression;
    char text[64];

    graph->loss = network->loss_given ? network->loss
                  : regression        ? FAST_LOSS_MSE
                                      : FAST_LOSS_CROSS_ENTROPY;
    graph->label_smoothing = network->label_smoothing;
    graph->loss_use = network->evaluated ? FAST_LOSS_EVALUATED : FAST_LOSS_TRAINED;
    if (last->rank == 3 || (last->rank == 2 && graph->loss == FAST_LOSS_MSE))
        return FAST_LAYER_FAIL(build,
                               "the last layer gives %s, which the loss cannot use; end with "
                               "flatten, global_pool or dense",
                               fast__shape_text(last->rank, last->shape, text));
    graph->positions = last->rank == 2 ? last->shape[0] : 1;
    graph->outputs = last->shape[last->rank - 1];
    if (graph->loss == FAST_LOSS_CROSS_ENTROPY && graph->outputs < 2)
        return FAST_LAYER_FAIL(build, "cross_entropy needs two outputs or more, not %lld",
                               (long long)graph->outputs);
    return FAST_OK;
}

/* Check that the graph fits the shape, the tokens and the answers of the data. */
static fast_err check_fit(const fast_graph *graph, const fast_model_input *input)
{
    const fast_node *first = &graph->nodes[0];
    const int64_t positions = input->positions > 0 ? input->positions : 1;
    bool same = first->rank == input->rank;
    char a[64];
    char b[64];

    for (int i = 0; i < first->rank && same; i++)
        same = first->shape[i] == input->shape[i];
    if (!same)
        return fast__fail(FAST_EINVAL,
                          "the network takes %s but the data have %s; change its input line or "
                          "leave it out",
                          fast__shape_text(first->rank, first->shape, a),
                          fast__shape_text(input->rank, input->shape, b));
    if (graph->tokens != input->tokens)
        return fast__fail(FAST_EINVAL, "the network takes %s but the data are %s",
                          graph->tokens ? "tokens" : "numbers",
                          input->tokens ? "tokens" : "numbers");
    if (graph->tokens && graph->vocabulary < input->vocabulary)
        return fast__fail(FAST_EINVAL, "the network knows %lld tokens but the data have %lld",
                          (long long)graph->vocabulary, (long long)input->vocabulary);
    if (graph->loss == FAST_LOSS_MSE && !input->regression)
        return fast__fail(FAST_EINVAL, "loss mse fits numbers but the data have classes; use "
                                       "cross_entropy");
    if (graph->positions != positions)
        return fast__fail(FAST_EINVAL,
                          "the network answers %lld times a sample but the data ask for %lld",
                          (long long)graph->positions, (long long)positions);
    if (graph->outputs != input->outputs)
        return fast__fail(FAST_EINVAL,
                          "the network has %lld outputs but the data have %lld %s; end with "
                          "\"dense %lld\"",
                          (long long)graph->outputs, (long long)input->outputs,
                          input->regression ? "targets" : "classes", (long long)input->outputs);
    return FAST_OK;
}

/* Build the whole graph; `node_of` and `used` are scratch, one entry a layer. */
static fast_err build_graph(fast_build *build, const fast_model_input *input, int *node_of,
                            unsigned char *used)
{
    const fast_network *network = build->network;

    if (network->layer_count < 2)
        return fast__fail(FAST_EINVAL, "the network has no layers");
    for (int i = 0; i < network->layer_count; i++) {
        const fast_layer *layer = &network->layers[i];
        const int64_t parts = layer->config.layers > 1 ? layer->config.layers : 1;
        build->layer = layer;
        for (build->part = 0; build->part < parts; build->part++)
            FAST_TRY(build_node(build, input, node_of));
        node_of[i] = build->graph->node_count - 1;
    }
    FAST_TRY(check_used(network, used));
    FAST_TRY(build_loss(build, input));
    FAST_TRY(build_heads(build, node_of));
    return input ? check_fit(build->graph, input) : FAST_OK;
}

/* Allocate memory for the largest graph that the network can become: the first pass over the arena
 * measures, the second has addresses. */
static fast_err new_graph(const fast_network *network, fast_build *build)
{
    fast_arena arena = { 0 };
    fast_graph *graph = NULL;
    int64_t params = 0;
    int64_t state = 0;
    int64_t elements = 0;

    for (int i = 0; i < network->layer_count; i++) {
        const fast_layer *layer = &network->layers[i];
        const int64_t parts = layer->config.layers > 1 ? layer->config.layers : 1;
        if (layer->op == FAST_OP_CUSTOM)
            continue;
        params += parts * fast__layer_kind(layer->op)->param_max;
        state += parts * fast__layer_kind(layer->op)->state_max;
        elements += fast__element_operator(layer->op) != NULL;
    }
    for (int pass = 0; pass < 2; pass++) {
        fast_node *nodes = NULL;
        arena.used = 0;
        graph = fast__arena_take(&arena, 1, sizeof *graph);
        nodes = fast__arena_take(&arena, network->node_count, sizeof *nodes);
        build->params = fast__arena_take(&arena, params, sizeof *build->params);
        build->state = fast__arena_take(&arena, state, sizeof *build->state);
        build->elements = fast__arena_take(&arena, elements, sizeof *build->elements);
        if (pass == 0) {
            FAST_TRY(fast__alloc("a graph", (int64_t)arena.used, 1, &arena.base));
            arena.size = arena.used;
        } else {
            graph->nodes = nodes;
            graph->params.segments = build->params;
            graph->state.segments = build->state;
        }
    }
    FAST_ASSERT((void *)graph == (void *)arena.base);
    build->network = network;
    build->graph = graph;
    return FAST_OK;
}

/* Build the graph of a network; `input` may be NULL. */
static fast_err network_build(const fast_network *network, const fast_model_input *input,
                              fast_graph **out)
{
    fast_build build = { 0 };
    int *node_of = NULL;
    unsigned char *used = NULL;
    fast_err err = FAST_OK;

    FAST_TRY(new_graph(network, &build));
    err = fast__alloc("a graph's layers", network->layer_count, sizeof *node_of, &node_of);
    if (!err)
        err = fast__alloc("a graph's layers", network->layer_count, 1, &used);
    if (!err)
        err = build_graph(&build, input, node_of, used);
    fast__free(node_of);
    fast__free(used);
    if (err) {
        fast__graph_free(build.graph);
        return err;
    }
    FAST_ASSERT(build.graph->node_count == network->node_count);
    *out = build.graph;
    return FAST_OK;
}

/* Build without data: the network must begin with an input line. */
fast_err fast__network_graph(const fast_network *network, fast_graph **out)
{
    return network_build(network, NULL, out);
}

/* Build for given data: shape, tokens, positions and outputs are checked. */
fast_err fast__network_fit(const fast_network *network, const fast_model_input *input,
                           fast_graph **out)
{
    FAST_ASSERT(input->rank >= 1);
    FAST_ASSERT(input->rank <= 3);
    return network_build(network, input, out);
}

/* Parse a text and build its graph, for tests and tools. */
fast_err fast__graph_parse(const char *text, fast_graph **out)
{
    fast_network *network = NULL;
    fast_err err = FAST_OK;

    FAST_TRY(fast__network_parse(text, strlen(text), &network));
    err = fast__network_graph(network, out);
    fast_network_free(network);
    return err;
}

/* Nodes and segments are in the graph's own block. */
void fast__graph_free(fast_graph *graph)
{
    if (graph) {
        fast__free(graph->initial);
        fast__free(graph->class_weights);
    }
    fast__free(graph);
}
