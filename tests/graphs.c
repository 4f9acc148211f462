/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs by hand, for tests of engines. The words of a line become attributes, and shapes and
 * weights follow from them, by the rules of engine/graph.h. This is a second way to build graphs on
 * purpose: tests of engines do not depend on the network language, nor its mistakes.
 */
#include "graphs.h"

#include "base/memory.h"
#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The value of "key=value" in a line; false if the line has no such key. */
static bool word(const char *text, const char *key, char *value, size_t size)
{
    const size_t length = strlen(key);
    for (const char *at = strchr(text, ' '); at; at = strchr(at, ' ')) {
        at++;
        if (strncmp(at, key, length) != 0 || at[length] != '=')
            continue;
        at += length + 1;
        const size_t end = strcspn(at, " ");
        FAST_ASSERT(end < size);
        memcpy(value, at, end);
        value[end] = 0;
        return true;
    }
    return false;
}

double test_word_number(const char *text, const char *key, double standard)
{
    char value[64];
    return word(text, key, value, sizeof(value)) ? strtod(value, NULL) : standard;
}

static int64_t whole(const char *text, const char *key, int64_t standard)
{
    return (int64_t)test_word_number(text, key, (double)standard);
}

bool test_word_is(const char *text, const char *key, const char *value)
{
    char found[64];
    return word(text, key, found, sizeof(found)) && strcmp(found, value) == 0;
}

/* "3x7x9" -> rank and sizes. */
static int sizes(const char *text, int64_t shape[3])
{
    int rank = 0;
    char *end = NULL;
    for (const char *at = text;; at = end + 1) {
        FAST_ASSERT(rank < 3);
        shape[rank++] = strtoll(at, &end, 10);
        if (*end != 'x')
            return rank;
    }
}

static void pair(const char *text, const char *key, int64_t standard, int64_t out[2])
{
    char value[64];
    int64_t shape[3] = { standard, standard, 0 };
    if (word(text, key, value, sizeof(value)) && sizes(value, shape) == 1)
        shape[1] = shape[0];
    out[0] = shape[0];
    out[1] = shape[1];
}

static int64_t add_segment(fast_layout *layout, fast_segment *segments, int node, const char *name,
                           int64_t rows, int64_t columns)
{
    FAST_ASSERT(layout->segment_count < TEST_SEGMENTS_MAX);
    fast_segment *segment = &segments[layout->segment_count];
    *segment = (fast_segment){ .offset = layout->count,
                               .count = rows * columns,
                               .shape = { rows, columns },
                               .rank = columns == 1 ? 1 : 2,
                               .layer = node };
    snprintf(segment->name, sizeof(segment->name), "n%d.%s", node, name);
    layout->count += segment->count;
    return layout->segment_count++;
}

static int64_t add_weight(test_graph *g, const char *name, int64_t rows, int64_t columns)
{
    return add_segment(&g->graph.params, g->params, g->graph.node_count, name, rows, columns);
}

static fast_node *new_node(test_graph *g, fast_op op)
{
    FAST_ASSERT(g->graph.node_count < TEST_NODES_MAX);
    fast_node *node = &g->nodes[g->graph.node_count];
    *node = (fast_node){ .op = op, .state = { -1, -1 } };
    for (int w = 0; w < FAST_WEIGHTS_MAX; w++)
        node->weight[w] = -1;
    return node;
}

/* The node is complete: count its elements and move on. */
static int done_node(test_graph *g)
{
    fast_node *node = &g->nodes[g->graph.node_count];
    node->count = 1;
    for (int d = 0; d < node->rank; d++)
        node->count *= node->shape[d];
    return g->graph.node_count++;
}

void test_graph_begin(test_graph *g, const char *shape, int64_t vocabulary)
{
    memset(g, 0, sizeof(*g));
    g->graph.nodes = g->nodes;
    g->graph.params.segments = g->params;
    g->graph.state.segments = g->state;
    g->graph.tokens = vocabulary > 0;
    g->graph.vocabulary = vocabulary;
    fast_node *node = new_node(g, FAST_OP_INPUT);
    node->rank = sizes(shape, node->shape);
    done_node(g);
}

/* Weight, bias and gain of a dense or convolutional layer. */
static void linear_weights(test_graph *g, fast_node *node, const char *text, int64_t out,
                           int64_t in)
{
    node->weight[FAST_W_WEIGHT] = add_weight(g, "weight", out, in);
    if (whole(text, "bias", 1))
        node->weight[FAST_W_BIAS] = add_weight(g, "bias", out, 1);
    if (whole(text, "norm", 0))
        node->weight[FAST_W_GAIN] = add_weight(g, "gain", out, 1);
}

static void norm_weights(test_graph *g, fast_node *node, const char *text, int64_t C)
{
    if (!whole(text, "bias", 1))
        return;
    node->weight[FAST_W_WEIGHT] = add_weight(g, "weight", C, 1);
    node->weight[FAST_W_BIAS] = add_weight(g, "bias", C, 1);
}

static void dense_node(test_graph *g, fast_node *node, const fast_node *in, const char *text)
{
    const int64_t out = whole(text, "out", 1);
    const bool sequence = in->rank == 2;
    node->rank = sequence ? 2 : 1;
    node->shape[0] = sequence ? in->shape[0] : out;
    node->shape[1] = sequence ? out : 0;
    linear_weights(g, node, text, out, sequence ? in->shape[1] : in->count);
}

/* Convolutions and pools: a window that moves over an image. */
static void window_node(test_graph *g, fast_node *node, const fast_node *in, const char *text)
{
    const bool conv = node->op == FAST_OP_CONV || node->op == FAST_OP_LOCAL;
    pair(text, "kernel", 2, node->kernel);
    pair(text, "stride", conv ? 1 : node->kernel[0], node->stride);
    pair(text, "pad", 0, node->pad);
    pair(text, "dilation", 1, node->dilation);
    node->rank = 3;
    node->shape[0] = in->shape[0];
    for (int d = 0; d < 2; d++)
        node->shape[1 + d] =
            (in->shape[1 + d] + 2 * node->pad[d] - node->dilation[d] * (node->kernel[d] - 1) - 1) /
                node->stride[d] +
            1;
    if (!conv)
        return;
    node->groups = whole(text, "groups", 1);
    node->shape[0] = whole(text, "out", 1);
    if (node->op == FAST_OP_LOCAL) { /* a filter for each place */
        node->groups = whole(text, "tile", 0);
        linear_weights(g, node, text, node->shape[0] * fast__local_filters(node),
                       in->shape[0] * node->kernel[0] * node->kernel[1]);
        return;
    }
    linear_weights(g, node, text, node->shape[0],
                   in->shape[0] / node->groups * node->kernel[0] * node->kernel[1]);
    fast_segment *weight = &g->params[node->weight[FAST_W_WEIGHT]];
    weight->rank = 4;
    weight->shape[1] = in->shape[0] / node->groups;
    weight->shape[2] = node->kernel[0];
    weight->shape[3] = node->kernel[1];
}

static void batch_norm_node(test_graph *g, fast_node *node, const char *text)
{
    const int64_t C = node->rank == 2 ? node->shape[1] : node->shape[0];
    const int index = g->graph.node_count;
    node->a = (float)test_word_number(text, "a", 1e-5);
    node->b = (float)test_word_number(text, "b", 0.1);
    node->ghost = whole(text, "ghost", 0);
    norm_weights(g, node, text, C);
    node->state[0] = add_segment(&g->graph.state, g->state, index, "mean", C, 1);
    node->state[1] = add_segment(&g->graph.state, g->state, index, "var", C, 1);
}

static void recurrent_node(test_graph *g, fast_node *node, const fast_node *in, const char *text)
{
    const int64_t H = whole(text, "out", 1);
    const int64_t G = H * (node->op == FAST_OP_RNN ? 1 : node->op == FAST_OP_GRU ? 3 : 4);
    node->shape[1] = H;
    node->weight[FAST_W_WEIGHT] = add_weight(g, "weight_ih", G, in->shape[1]);
    node->weight[FAST_W_WEIGHT2] = add_weight(g, "weight_hh", G, H);
    if (!whole(text, "bias", 1))
        return;
    node->weight[FAST_W_BIAS] = add_weight(g, "bias_ih", G, 1);
    node->weight[FAST_W_BIAS2] = add_weight(g, "bias_hh", G, 1);
}

static void experts_node(test_graph *g, fast_node *node, const char *text)
{
    const int64_t in = node->shape[1], out = whole(text, "out", 1);
    node->groups = whole(text, "count", 1);
    node->shape[1] = out;
    node->weight[FAST_W_WEIGHT] = add_weight(g, "weight", node->groups * out, in);
    if (whole(text, "bias", 1))
        node->weight[FAST_W_BIAS] = add_weight(g, "bias", node->groups * out, 1);
}

static void attention_node(test_graph *g, fast_node *node, const char *text)
{
    const int64_t C = node->shape[1];
    const bool bias = whole(text, "bias", 1);
    node->heads = whole(text, "heads", 1);
    node->weight[FAST_W_WEIGHT] = add_weight(g, "in_proj.weight", 3 * C, C);
    node->weight[FAST_W_BIAS] = bias ? add_weight(g, "in_proj.bias", 3 * C, 1) : -1;
    node->weight[FAST_W_WEIGHT2] = add_weight(g, "out_proj.weight", C, C);
    node->weight[FAST_W_BIAS2] = bias ? add_weight(g, "out_proj.bias", C, 1) : -1;
}

static void embed_node(test_graph *g, fast_node *node, const fast_node *in, const char *text)
{
    node->rank = 2;
    node->shape[0] = in->count;
    node->shape[1] = whole(text, "out", 1);
    node->weight[FAST_W_WEIGHT] =
        add_weight(g, "weight", whole(text, "vocabulary", g->graph.vocabulary), node->shape[1]);
    if (whole(text, "position", 0))
        node->weight[FAST_W_BIAS] =
            add_weight(g, "position.weight", node->shape[0], node->shape[1]);
}

static fast_op find_op(const char *text)
{
    const size_t length = strcspn(text, " ");
    for (int op = 0; op < FAST_OP_COUNT; op++)
        if (strlen(fast__op_name((fast_op)op)) == length &&
            strncmp(fast__op_name((fast_op)op), text, length) == 0)
            return (fast_op)op;
    fail_msg("no operator in \"%s\"", text);
    return FAST_OP_INPUT;
}

/* Operators whose shape is that of their inputs, seen another way. */
static void simple_node(test_graph *g, fast_node *node, const fast_node *in, const char *text)
{
    node->a = (float)test_word_number(text, "a", 0);
    switch (node->op) {
    case FAST_OP_GLOBAL_POOL:
    case FAST_OP_LAST:
        node->shape[0] = node->op == FAST_OP_LAST || in->rank == 2 ? in->shape[1] : in->shape[0];
        node->rank = 1;
        break;
    case FAST_OP_PART: {
        char value[64];
        node->rank = word(text, "shape", value, sizeof(value)) ? sizes(value, node->shape) : 0;
        node->columns[0] = whole(text, "first", 0);
        break;
    }
    case FAST_OP_FLATTEN:
        node->shape[0] = in->count;
        node->rank = 1;
        break;
    case FAST_OP_CONCAT:
        for (int k = 1; k < node->input_count; k++) {
            const int along = in->rank == 2 ? 1 : 0;
            node->shape[along] += g->nodes[node->inputs[k]].shape[along];
        }
        break;
    case FAST_OP_HEAD:
        node->b = (float)test_word_number(text, "b", 0);
        node->columns[0] = whole(text, "first", 0);
        node->loss = whole(text, "balance", 0) ? FAST_LOSS_BALANCE : FAST_LOSS_CROSS_ENTROPY;
        break;
    case FAST_OP_LAYER_NORM:
        node->a = (float)test_word_number(text, "a", 1e-5);
        norm_weights(g, node, text, in->shape[in->rank - 1]);
        break;
    default:
        break;
    }
}

/* Put ones in front of a shape. */
static void widen(int rank, const int64_t *shape, int64_t out[3])
{
    for (int d = 0; d < 3; d++)
        out[d] = d < 3 - rank ? 1 : shape[d - (3 - rank)];
}

/* Moves, to experts too: the shape of the output. */
static void move_node(fast_node *node, fast_element *e, const char *text)
{
    const int front = 3 - node->rank;
    int64_t dims[3] = { 0 };
    char value[64];
    if (node->op == FAST_OP_ROUTE || node->op == FAST_OP_DISPATCH || node->op == FAST_OP_COMBINE) {
        e->slots = whole(text, "slots", 1);
        e->y[1] = node->op == FAST_OP_ROUTE      ? e->x[1]
                  : node->op == FAST_OP_DISPATCH ? e->slots
                                                 : e->z[1];
        e->y[2] = node->op == FAST_OP_ROUTE ? 2 * e->kind : e->x[2];
    } else if (node->op == FAST_OP_DELAY) {
        e->start[1] = whole(text, "steps", 1);
    } else if (node->op == FAST_OP_REPEAT) {
        node->rank = 2;
        e->y[2] = e->x[0] * e->x[1] * e->x[2];
        e->y[1] = whole(text, "count", 1);
        e->y[0] = 1;
    } else if (node->op == FAST_OP_SLICE) {
        const int64_t d = whole(text, "axis", 0) + front;
        e->start[d] = whole(text, "start", 0);
        e->y[d] = whole(text, "count", 1);
    } else if (word(text, "order", value, sizeof(value))) {
        sizes(value, dims);
        for (int d = 0; d < node->rank; d++) {
            e->order[d + front] = dims[d] + front;
            e->y[d + front] = e->x[dims[d] + front];
        }
    } else if (node->op == FAST_OP_RESHAPE && word(text, "shape", value, sizeof(value))) {
        node->rank = sizes(value, dims);
        widen(node->rank, dims, e->y);
    } else if (node->op == FAST_OP_REDUCE && word(text, "axes", value, sizeof(value))) {
        for (int d = sizes(value, dims) - 1; d >= 0; d--)
            e->y[dims[d] + front] = 1;
    }
}

/* Elementary operators (engine/element.h). A reduction has ones where it reduces. */
static void element_node(test_graph *g, fast_node *node, const fast_node *in, const char *text)
{
    fast_element *e = &g->elements[g->graph.node_count];
    char value[64];
    int64_t dims[3] = { 0 };
    *e = (fast_element){ .kind = (int)whole(text, "kind", 0),
                         .a = (float)test_word_number(text, "a", 1),
                         .b = (float)test_word_number(text, "b", 0),
                         .order = { 0, 1, 2 },
                         .mean = whole(text, "mean", 1) != 0 };
    node->custom = fast__element_operator(node->op);
    node->custom_config = e;
    widen(in->rank, in->shape, e->x);
    memcpy(e->y, e->x, sizeof(e->y));
    if (node->input_count == 2) {
        const fast_node *z = &g->nodes[node->inputs[1]];
        widen(z->rank, z->shape, e->z);
        for (int d = 0; d < 3; d++)
            e->y[d] = node->op == FAST_OP_MATMUL && d == 2 ? e->z[2]
                      : e->x[d] == 1                       ? e->z[d]
                                                           : e->x[d];
    } else if (node->op == FAST_OP_SCALE || node->op == FAST_OP_SHIFT) {
        FAST_ASSERT(word(text, "shape", value, sizeof(value)));
        widen(sizes(value, dims), dims, e->z);
        e->kind = node->op == FAST_OP_SCALE ? FAST_ARITH_MUL : FAST_ARITH_ADD;
        e->shared = true;
        node->weight[FAST_W_WEIGHT] = add_weight(g, "weight", e->z[0] * e->z[1] * e->z[2], 1);
    } else {
        move_node(node, e, text);
    }
    memcpy(node->shape, e->y + 3 - node->rank, (size_t)node->rank * sizeof(int64_t));
}

int test_graph_add(test_graph *g, const char *text, int input_count, const int *inputs)
{
    fast_node *node = new_node(g, find_op(text));
    const fast_node *in = &g->nodes[inputs[0]];
    node->input_count = input_count;
    memcpy(node->inputs, inputs, (size_t)input_count * sizeof(int));
    node->rank = in->rank;
    memcpy(node->shape, in->shape, sizeof(node->shape));
    switch (node->op) {
    case FAST_OP_DENSE:
        dense_node(g, node, in, text);
        break;
    case FAST_OP_CONV:
    case FAST_OP_LOCAL:
    case FAST_OP_MAX_POOL:
    case FAST_OP_AVG_POOL:
        window_node(g, node, in, text);
        break;
    case FAST_OP_BATCH_NORM:
        batch_norm_node(g, node, text);
        break;
    case FAST_OP_EMBED:
        embed_node(g, node, in, text);
        break;
    case FAST_OP_RNN:
    case FAST_OP_LSTM:
    case FAST_OP_GRU:
        recurrent_node(g, node, in, text);
        break;
    case FAST_OP_ATTENTION:
        attention_node(g, node, text);
        break;
    case FAST_OP_EXPERTS:
        experts_node(g, node, text);
        break;
    default:
        if (fast__element_operator(node->op))
            element_node(g, node, in, text);
        else
            simple_node(g, node, in, text);
        break;
    }
    return done_node(g);
}

int test_graph_add1(test_graph *g, const char *text, int input)
{
    return test_graph_add(g, text, 1, &input);
}

int test_graph_add2(test_graph *g, const char *text, int input, int input2)
{
    return test_graph_add(g, text, 2, (const int[]){ input, input2 });
}

int test_graph_then(test_graph *g, const char *text)
{
    return test_graph_add1(g, text, g->graph.node_count - 1);
}

static void reshape_forward(const void *config, int64_t count, const int64_t *counts,
                            const float *const *x, float *y)
{
    (void)config;
    memcpy(y, x[0], (size_t)(count * counts[0]) * sizeof(float));
}

static void reshape_backward(const void *config, int64_t count, const int64_t *counts,
                             const float *const *x, const float *y, const float *dy,
                             float *const *dx)
{
    (void)config, (void)x, (void)y;
    for (int64_t i = 0; dx[0] && i < count * counts[0]; i++)
        dx[0][i] += dy[i];
}

static const fast_operator reshape = { .name = "reshape",
                                       .forward = reshape_forward,
                                       .backward = reshape_backward };

int test_graph_reshape(test_graph *g, const char *shape, int input)
{
    fast_node *node = new_node(g, FAST_OP_CUSTOM);
    node->input_count = 1;
    node->inputs[0] = input;
    node->rank = sizes(shape, node->shape);
    node->custom = &reshape;
    const int index = done_node(g);
    FAST_ASSERT(g->nodes[index].count == g->nodes[input].count);
    return index;
}

void test_graph_end(test_graph *g, fast_loss loss, float label_smoothing)
{
    const fast_node *last = &g->nodes[g->graph.node_count - 1];
    g->graph.loss = loss;
    g->graph.label_smoothing = label_smoothing;
    g->graph.positions = last->rank == 2 ? last->shape[0] : 1;
    g->graph.outputs = last->count / g->graph.positions;
    for (int i = 0; i < g->graph.node_count; i++)
        if (g->nodes[i].op == FAST_OP_HEAD) {
            if (g->nodes[i].loss != FAST_LOSS_BALANCE)
                g->nodes[i].loss = loss;
            g->nodes[i].columns[1] = g->graph.outputs;
        }
}

/* Inputs of a case as parameters: sample i holds token i, whose row in table k is its input k. */
static void case_inputs(test_graph *g, const char *in, int inputs[FAST_INPUTS_MAX])
{
    for (const char *at = in; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        char shape[64] = { 0 };
        memcpy(shape, at, strcspn(at, ","));
        int64_t dims[3] = { 1, 1, 1 };
        const int rank = sizes(shape, dims);
        char text[64];
        int64_t count = 1;
        for (int d = 0; d < rank; d++)
            count *= dims[d];
        snprintf(text, sizeof(text), "embed out=%lld", (long long)count);
        const int table = test_graph_add1(g, text, 0);
        g->x[g->input_count] = g->nodes[table].weight[FAST_W_WEIGHT];
        g->x_count[g->input_count] = count;
        inputs[g->input_count++] = test_graph_reshape(g, shape, table);
    }
}

void test_graph_case(test_graph *g, const char *text, bool direct)
{
    char in[64];
    const int64_t n = whole(text, "n", 2);
    const int64_t vocabulary = whole(text, "vocabulary", 0);
    FAST_ASSERT(word(text, "in", in, sizeof(in)));
    if (direct || vocabulary > 0) {
        test_graph_begin(g, in, vocabulary);
        g->x[0] = -1;
        g->x_count[0] = g->nodes[0].count;
        g->input_count = 1;
        g->op = test_graph_add1(g, text, 0);
    } else {
        int inputs[FAST_INPUTS_MAX];
        test_graph_begin(g, "1", n);
        case_inputs(g, in, inputs);
        g->op = test_graph_add(g, text, g->input_count, inputs);
    }
    g->n = n;
    test_graph_end(g, FAST_LOSS_MSE, 0);
}

void test_fill(uint64_t seed, int64_t count, float spread, float *out)
{
    fast_rng rng;
    fast__rng_init(&rng, seed, FAST_PURPOSE_TEST, 0, 0, 0);
    for (int64_t i = 0; i < count; i++)
        out[i] = spread * (2.0F * fast__rng_uniform(&rng) - 1.0F);
}

/* Tell whether an elementary function takes positive numbers only. */
static bool takes_positive(const fast_node *node)
{
    const fast_element *e = node->custom_config;
    return node->op == FAST_OP_MAP &&
           (e->kind == FAST_MAP_LOG || (e->kind == FAST_MAP_POWER && e->a != roundf(e->a)));
}

/* Inputs of functions with kinks or poles stay away from them: not within 0.2 of 0 (0.6 of a
 * pole), or of each other. */
static void fill_input(const fast_node *node, uint64_t seed, int64_t count, float *out)
{
    const fast_op op = node->op;
    test_fill(seed, count, 1.0F, out);
    for (int64_t i = 0; i < count; i++) {
        if (op == FAST_OP_RELU || op == FAST_OP_LEAKY_RELU)
            out[i] += out[i] < 0 ? -0.2F : 0.2F;
        if (op == FAST_OP_MAP || op == FAST_OP_ARITH)
            out[i] += out[i] < 0 ? -0.6F : 0.6F;
        if (takes_positive(node))
            out[i] = fabsf(out[i]);
        if (op == FAST_OP_MAX_POOL || op == FAST_OP_ROUTE)
            out[i] = 0.2F * ((float)fast__rng_permute(seed, FAST_PURPOSE_TEST, 0, (uint64_t)count,
                                                      (uint64_t)i) -
                             (float)count / 2);
    }
}

void test_graph_init(const test_graph *g, uint64_t seed, float *params, float *state, float *x)
{
    const fast_op op = g->nodes[g->op].op;
    test_fill(seed, g->graph.params.count, 0.8F, params);
    for (int k = 0; k < g->input_count; k++)
        if (g->x[k] >= 0)
            fill_input(&g->nodes[g->op], seed + 1 + (uint64_t)k, g->params[g->x[k]].count,
                       params + g->params[g->x[k]].offset);
    for (int64_t i = 0; i < g->graph.state.segment_count; i++)
        for (int64_t j = 0; j < g->state[i].count; j++)
            state[g->state[i].offset + j] = i % 2 ? 1.5F - 0.1F * (float)j : 0.1F * (float)j;
    const int64_t count = g->n * g->nodes[0].count;
    if (!g->graph.tokens) {
        fill_input(&g->nodes[g->op], seed + 1, count, x);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        x[i] = (float)(op == FAST_OP_EMBED ? i * 7 % g->graph.vocabulary : i);
}

void test_runner_open(test_runner *runner, const fast_engine *engine, const fast_graph *graph,
                      int64_t batch)
{
    *runner = (test_runner){ .engine = engine };
    const fast_engine_options options = { .batch = batch, .train = true, .plan_path = "" };
    const fast_err err = engine->compile(graph, &options, &runner->program);
    if (err)
        fail_msg("%s: %s", engine->name, fast_error_detail());
    assert_int_equal(engine->workspace_new(runner->program, &runner->workspace), FAST_OK);
}

void test_runner_close(test_runner *runner)
{
    runner->engine->workspace_free(runner->workspace);
    runner->engine->program_free(runner->program);
}

double test_distance(int64_t count, const float *a, const float *b, double floor)
{
    double far = 0;
    double large = floor;
    for (int64_t i = 0; i < count; i++) {
        const double difference = fabs((double)a[i] - (double)b[i]);
        if (isnan(difference))
            return INFINITY;
        far = difference > far ? difference : far;
        large = fabs((double)b[i]) > large ? fabs((double)b[i]) : large;
    }
    return far / large;
}

float *test_floats(int64_t count)
{
    float *memory = NULL;
    FAST_ASSERT(fast__alloc("a test", count > 0 ? count : 1, sizeof(float), &memory) == FAST_OK);
    return memory;
}
