/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the network language gives the graph that a reader of the text expects, and every mistake
 * gets a sentence that names the line. Method: small texts against shapes, attributes, names and
 * counts worked out by hand; a table of bad lines against parts of their messages; allocations that
 * fail one after the other.
 */
#include "base/memory.h"
#include "model/init.h"
#include "model/layer.h"
#include "model/network.h"
#include "model/network_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static fast_graph *parse(const char *text)
{
    fast_graph *graph = NULL;
    const fast_err err = fast__graph_parse(text, &graph);

    if (err)
        print_error("%s\n", fast_error_detail());
    assert_int_equal(err, FAST_OK);
    assert_int_equal(fast__graph_check(graph), FAST_OK);
    return graph;
}

static const fast_segment *segment(const fast_graph *graph, const char *name)
{
    for (int64_t i = 0; i < graph->params.segment_count; i++)
        if (strcmp(graph->params.segments[i].name, name) == 0)
            return &graph->params.segments[i];
    fail_msg("no segment %s", name);
    return NULL;
}

static void assert_shape(const fast_node *node, int rank, int64_t a, int64_t b, int64_t c)
{
    assert_int_equal(node->rank, rank);
    assert_int_equal(node->shape[0], a);
    assert_int_equal(node->shape[1], b);
    assert_int_equal(node->shape[2], c);
    assert_int_equal(node->count, a * (rank > 1 ? b : 1) * (rank > 2 ? c : 1));
}

static void test_lenet_by_hand(void **state)
{
    (void)state;
    fast_graph *graph = parse("# LeNet\n"
                              "input 1 28 28\n"
                              "\n"
                              "conv 20 kernel=5   # 24\n"
                              "max_pool 2\r\n"
                              "\trelu\n"
                              "conv outputs=50 kernel=5\n"
                              "max_pool kernel=2\n"
                              "relu\n"
                              "dense 500\n"
                              "relu\n"
                              "dense 10\n"
                              "loss cross_entropy smoothing=0.1");
    const fast_segment *segments = graph->params.segments;

    assert_int_equal(graph->node_count, 10);
    assert_shape(&graph->nodes[0], 3, 1, 28, 28);
    assert_shape(&graph->nodes[1], 3, 20, 24, 24);
    assert_shape(&graph->nodes[2], 3, 20, 12, 12);
    assert_shape(&graph->nodes[4], 3, 50, 8, 8);
    assert_shape(&graph->nodes[6], 3, 50, 4, 4);
    assert_shape(&graph->nodes[7], 1, 500, 0, 0);
    assert_shape(&graph->nodes[9], 1, 10, 0, 0);
    assert_int_equal(graph->params.count, 431080);
    assert_int_equal(graph->params.segment_count, 8);
    assert_string_equal(segments[0].name, "conv1.weight");
    assert_string_equal(segments[3].name, "conv2.bias");
    assert_string_equal(segments[4].name, "dense1.weight");
    assert_int_equal(segments[2].rank, 4);
    assert_int_equal(segments[2].shape[1], 20);
    assert_int_equal(segments[2].shape[3], 5);
    assert_int_equal(segments[4].shape[1], 800);
    assert_true(segments[4].decay);
    assert_false(segments[5].decay);
    assert_int_equal(segments[4].layer, 7);
    for (int i = 1; i < 8; i++)
        assert_int_equal(segments[i].offset, segments[i - 1].offset + segments[i - 1].count);
    assert_int_equal(graph->outputs, 10);
    assert_int_equal(graph->positions, 1);
    assert_int_equal(graph->loss, FAST_LOSS_CROSS_ENTROPY);
    assert_true(graph->label_smoothing > 0.09f);
    fast__graph_free(graph);
}

static void test_windows(void **state)
{
    (void)state;
    fast_graph *graph = parse("input 4 17 23\n"
                              "conv 6 kernel=3x5 stride=2x1 pad=1x2 dilation=2x1 groups=2 bias=no\n"
                              "same: conv 6 kernel=3x5 pad=same dilation=1x2 groups=6\n"
                              "max_pool 3 stride=2 pad=1\n"
                              "avg_pool 2x3\n"
                              "flatten\n"
                              "dense 2");
    const fast_node *conv = &graph->nodes[1];

    /* (17 + 2 - 2 * 2 - 1) / 2 + 1 = 8; (23 + 4 - 4 - 1) / 1 + 1 = 23 */
    assert_shape(conv, 3, 6, 8, 23);
    assert_int_equal(conv->kernel[0], 3);
    assert_int_equal(conv->kernel[1], 5);
    assert_int_equal(conv->stride[0], 2);
    assert_int_equal(conv->pad[1], 2);
    assert_int_equal(conv->dilation[0], 2);
    assert_int_equal(conv->groups, 2);
    assert_int_equal(conv->weight[FAST_W_BIAS], -1);
    assert_int_equal(segment(graph, "conv1.weight")->shape[1], 2);
    assert_shape(&graph->nodes[2], 3, 6, 8, 23);
    assert_int_equal(graph->nodes[2].pad[1], 4);
    assert_int_equal(segment(graph, "same.weight")->shape[1], 1);
    /* (8 + 2 - 3) / 2 + 1 = 4; (23 + 2 - 3) / 2 + 1 = 12 */
    assert_shape(&graph->nodes[3], 3, 6, 4, 12);
    assert_shape(&graph->nodes[4], 3, 6, 2, 4);
    assert_int_equal(graph->nodes[4].stride[1], 3);
    assert_shape(&graph->nodes[5], 1, 48, 0, 0);
    fast__graph_free(graph);
}

static void test_branches_and_norms(void **state)
{
    (void)state;
    fast_graph *graph = parse("input 3 8 8\n"
                              "a: conv 4 kernel=1 weight_norm=yes init=orthogonal\n"
                              "bn: batch_norm from a ghost=16 eps=1e-3 momentum=0.2\n"
                              "sum: add bn a\n"
                              "both: concat sum a input\n"
                              "leaky_relu 0.2\n"
                              "dropout 0.25\n"
                              "global_pool\n"
                              "layer_norm\n"
                              "batch_norm\n"
                              "tanh\nsigmoid\ngelu\n"
                              "dense 5 weight_norm=yes bias=no\n"
                              "softmax\n"
                              "loss mse");
    const fast_node *bn = &graph->nodes[2];

    assert_int_equal(bn->inputs[0], 1);
    assert_int_equal(bn->ghost, 16);
    assert_true(bn->a == 1e-3f);
    assert_true(bn->b == 0.2f);
    assert_int_equal(graph->nodes[3].input_count, 2);
    assert_shape(&graph->nodes[4], 3, 11, 8, 8);
    assert_int_equal(graph->nodes[4].inputs[2], 0);
    assert_true(graph->nodes[5].a == 0.2f);
    assert_true(graph->nodes[6].a == 0.25f);
    assert_shape(&graph->nodes[7], 1, 11, 0, 0);
    assert_int_equal(segment(graph, "a.weight_v")->init, FAST_INIT_ORTHOGONAL);
    assert_int_equal(segment(graph, "a.weight_g")->count, 4);
    assert_int_equal(segment(graph, "a.weight_g")->rank, 4);
    assert_false(segment(graph, "a.weight_g")->decay);
    assert_int_equal(segment(graph, "dense1.weight_g")->rank, 2);
    assert_int_equal(graph->state.segment_count, 4);
    assert_string_equal(graph->state.segments[0].name, "bn.running_mean");
    assert_string_equal(graph->state.segments[1].name, "bn.running_var");
    /* An ordinal counts all layers of its kind, named or not. */
    assert_string_equal(graph->state.segments[2].name, "batch_norm2.running_mean");
    assert_int_equal(graph->state.count, 2 * 4 + 2 * 11);
    assert_int_equal(bn->state[1], 1);
    assert_int_equal(graph->loss, FAST_LOSS_MSE);
    assert_int_equal(graph->outputs, 5);
    fast__graph_free(graph);
}

static void test_sequences(void **state)
{
    (void)state;
    fast_graph *graph = parse("input 12 tokens=30\n"
                              "embed 8 position=yes\n"
                              "lstm 6 layers=2\n"
                              "gru 5\n"
                              "rnn 8 init=torch\n"
                              "attention 2\n"
                              "layer_norm\n"
                              "dense 30\n");

    assert_true(graph->tokens);
    assert_int_equal(graph->vocabulary, 30);
    assert_int_equal(graph->positions, 12);
    assert_int_equal(graph->outputs, 30);
    assert_int_equal(graph->node_count, 9);
    assert_shape(&graph->nodes[0], 1, 12, 0, 0);
    assert_shape(&graph->nodes[1], 2, 12, 8, 0);
    assert_shape(&graph->nodes[3], 2, 12, 6, 0);
    assert_int_equal(graph->nodes[3].inputs[0], 2);
    assert_int_equal(graph->nodes[4].inputs[0], 3);
    assert_int_equal(segment(graph, "embed1.position.weight")->count, 96);
    assert_int_equal(segment(graph, "lstm1.weight_ih_l0")->count, 24 * 8);
    assert_int_equal(segment(graph, "lstm1.weight_ih_l1")->count, 24 * 6);
    assert_int_equal(segment(graph, "lstm1.bias_hh_l1")->count, 24);
    assert_int_equal(segment(graph, "lstm1.bias_ih_l1")->init, FAST_INIT_FORGET);
    assert_int_equal(segment(graph, "gru1.weight_hh_l0")->shape[0], 15);
    assert_int_equal(segment(graph, "rnn1.weight_hh_l0")->count, 64);
    assert_int_equal(segment(graph, "rnn1.bias_hh_l0")->init, FAST_INIT_UNIFORM);
    assert_int_equal(segment(graph, "attention1.in_proj_weight")->shape[0], 24);
    assert_int_equal(segment(graph, "attention1.out_proj.bias")->count, 8);
    assert_int_equal(graph->nodes[6].heads, 2);
    assert_int_equal(segment(graph, "dense1.weight")->shape[1], 8);
    fast__graph_free(graph);

    graph = parse("input 7 3\nlstm 4\nlast\ndense 2");
    assert_shape(&graph->nodes[2], 1, 4, 0, 0);
    assert_int_equal(graph->positions, 1);
    fast__graph_free(graph);
    graph = parse("input 7 3\nglobal_pool\ndense 2");
    assert_shape(&graph->nodes[1], 1, 3, 0, 0);
    fast__graph_free(graph);
}

/* A bad text, and a part of what must be said about it. */
static const struct {
    const char *text;
    const char *says;
} bad[] = {
    { "", "no layers" },
    { "input 784", "no layers" },
    { "dense 10", "line 1: begin with the shape" },
    { "input 784\ncovn 10", "line 2: no layer \"covn\"; did you mean \"conv\"?" },
    { "input 784\nqqqqqqqqqqqq", "line 2: no layer \"qqqqqqqqqqqq\"; docs" },
    { "input 784\nx:", "line 2: a name without a layer" },
    { "input 784\n:", "line 2: a name without a layer" },
    { "input 784\n: relu", "is no name" },
    { "input 784\n3a: relu", "line 2: \"3a\" is no name" },
    { "input 784\na$: relu", "no '$' in a name" },
    { "input 784\nfrom: relu", "taken by the language" },
    { "input 784\nx.position: relu", "taken by the language" },
    { "input 784\na: relu\n\na: relu", "line 4: the name \"a\" is taken by line 2" },
    { "input 784\nrelu2: relu\nrelu", "line 3: the name \"relu2\" is taken by line 2" },
    { "input 784\naaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeee: relu", "longer than 43 bytes" },
    { "input 784\ndense", "line 2: dense: needs outputs, as in \"dense 10\"" },
    { "input 784\ndense 0", "line 2: dense1: needs at least one output" },
    { "input 784\ndense ten", "line 2: dense" },
    { "input 784\ndense 10 20", "\"20\" is one word too many" },
    { "input 784\ndense 10 outputs=20", "outputs is given twice" },
    { "input 784\ndense 10 bias=no bias=yes", "bias is given twice" },
    { "input 784\ndense 10 bais=no", "did you mean \"bias\"" },
    { "input 784\ndense 10 bias=maybe", "line 2: dense" },
    { "input 784\nrelu 3", "\"3\" is one word too many; write \"relu\"" },
    { "input 784\nrelu from", "from which layer?" },
    { "input 784\nrelu from a", "line 2: relu: no layer" },
    { "input 784\nabc: relu\nrelu from abd", "did you mean \"abc\"?" },
    { "input 784\nrelu from input input", "named twice" },
    { "input 784\na: relu\nrelu from input a", "line 3: relu: takes one layer" },
    { "input 784\nadd input", "line 2: add: needs two layers or more" },
    { "input 784\na: relu\nb: relu from a\nadd a a", "\"a\" is named twice" },
    { "relu\ninput 784", "line 2: input: must be the first line" },
    { "input 3\ninput 4", "line 2: input: must be the first line" },
    { "input", "line 1: input: needs a shape" },
    { "input 0", "a dimension of 0" },
    { "input -3", "a dimension of -3" },
    { "input x", "line 1: input" },
    { "input 1 2 3 4", "more than 3 dimensions" },
    { "input 3 4 tokens=5", "tokens have one dimension" },
    { "input 3 from 4", "takes no inputs" },
    { "input 3000000000 1", "a dimension of 3000000000" },
    { "input 65536 65536\nrelu", "its output 65536x65536 is too large" },
    { "input 784\ndense 10\nloss mse\nrelu", "line 4: loss is the last line" },
    { "input 784\ndense 10\nloss mse\nloss mse", "line 4: loss is the last line" },
    { "input 784\nloss mse", "comes last, after the layers" },
    { "input 784\ndense 10\nloss huber", "line 3: loss" },
    { "input 784\ndense 10\nloss mse smoothing=0.1", "smoothing belongs to cross_entropy" },
    { "input 784\ndense 10\nx: loss mse", "line 3: loss: has no name" },
    { "input 784\ndense 1", "cross_entropy needs two outputs" },
    { "input 3 8 8\nrelu", "which the loss cannot use" },
    { "input 8 8\ndense 3\nloss mse", "which the loss cannot use" },
    { "input 784\na: relu\nrelu from input\ndense 2", "line 2: nothing uses \"a\"" },
    { "input 784\nconv 3 kernel=3", "takes an image (C x H x W), but its input has the shape 784" },
    { "input 1 8 8\nconv 3", "kernel" },
    { "input 1 8 8\nconv 3 kernel=0", "kernel is 0" },
    { "input 1 8 8\nconv 3 kernel=3x", "kernel must be a whole number" },
    { "input 1 8 8\nconv 3 kernel=3x3x3", "kernel must be a whole number" },
    { "input 1 8 8\nconv 3 kernel=9", "line 2: conv1: its window of 9 does not fit into height 8" },
    { "input 1 8 8\nconv 3 kernel=3 dilation=4", "its window of 9 does not fit" },
    { "input 1 8 8\nconv 3 kernel=3 stride=0", "stride is 0" },
    { "input 1 8 8\nconv 3 kernel=2 pad=same", "needs an odd kernel" },
    { "input 1 8 8\nconv 3 kernel=3 pad=-1", "pad is -1" },
    { "input 4 8 8\nconv 3 kernel=3 groups=2", "2 groups do not divide 4 inputs and 3 outputs" },
    { "input 1 8 8\nmax_pool 2 pad=2", "more than half of the kernel" },
    { "input 1 8 8\nmax_pool 0", "kernel is 0" },
    { "input 1 8 8\nsoftmax", "takes a vector or a sequence" },
    { "input 8 8\nbatch_norm", "takes a vector or an image" },
    { "input 8\nbatch_norm ghost=1", "at least 2" },
    { "input 8\nlast", "takes a sequence (T x C), but" },
    { "input 8\nflatten", "takes a sequence (T x C) or an image" },
    { "input 8\nembed 4", "takes tokens" },
    { "input 8 tokens=4\nrelu", "takes numbers, but its input is tokens" },
    { "input 8 tokens=4\nembed 4\nembed 4", "line 3: embed2: takes tokens" },
    { "input 8 6\nattention 4", "4 heads do not divide the width 6" },
    { "input 8 3\npart 20 shape=5", "from 20 on is no part" },
    { "input 3 8 8\npart 0 shape=5", "is no part of a vector or a sequence" },
    { "input 6\nroute 2", "takes logits of top to 1024 experts at each position" },
    { "input 8 3\nroute 4", "takes logits of top to 1024 experts at each position, not 3" },
    { "input 20000000 3\nroute", "slots of each expert are too many" },
    { "input 8 3\nr: route\ndispatch r input", "takes a sequence and a route" },
    { "input 8 3\nr: route\na: dispatch input r\nlast\ndispatch a r", "line 5" },
    { "input 8 3\nr: route\ncombine input r", "has 8 positions and 12 slots, its input 8" },
    { "input 8 3\nexperts 4 count=3", "3 experts do not divide 8 positions" },
    { "input 8\nexperts 4", "experts1: takes" },
    { "input 8 3\nhead balance smoothing=0.1\ndense 2", "neither smoothing nor first" },
    { "input 268435456 4\nattention 4", "4 heads over 268435456 positions are too many" },
    { "input 8\nlstm 4", "takes a sequence" },
    { "input 8\na: dense 4\nb: dense 5 from input\nadd a b", "shapes 4 and 5, which do not fit" },
    { "input 3 8 8\na: conv 4 kernel=3\nconcat a input\nflatten",
      "shapes 4x6x6 and 3x8x8, which do not fit" },
    { "input 16000000\ndense 16000000", "its weight is too large" },
    { "input 16000000\ndense 20000000000", "line 2: dense" },
    { "input 784\nre\x01lu", "0x01; only ASCII" },
    { "input 784\nrel\xc3\xbc", "0xc3; only ASCII" },
    { "input 784\nadd a b c d e f g h i j k l m n o p q r s t u v w x y", "more than 24 words" },
};

static void test_bad_texts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fast_graph *graph = NULL;
        const fast_err err = fast__graph_parse(bad[i].text, &graph);
        assert_null(graph);
        if (err != FAST_EINVAL || !strstr(fast_error_detail(), bad[i].says))
            fail_msg("\"%s\" gives %d: %s\nexpected: %s", bad[i].text, err, fast_error_detail(),
                     bad[i].says);
    }
}

/* Limits on the number of layers, the length of a line and the size of a text. */
static void test_limits(void **state)
{
    (void)state;
    fast_network *network = NULL;
    fast_graph *graph = NULL;
    char line[FAST_LINE_MAX + 8];
    int added = 0;

    assert_int_equal(fast_network_new(&network), FAST_OK);
    assert_int_equal(fast_network_add(network, "input 4"), FAST_OK);
    while (fast_network_add(network, "relu") == FAST_OK)
        added++;
    assert_int_equal(added, FAST_LAYERS_MAX - 2);
    assert_non_null(strstr(fast_error_detail(), "more than 4096 layers"));
    assert_int_equal(fast__network_graph(network, &graph), FAST_OK);
    assert_int_equal(graph->node_count, FAST_LAYERS_MAX - 1);
    fast__graph_free(graph);
    memset(line, ' ', sizeof line);
    line[FAST_LINE_MAX - 1] = '\0';
    assert_int_equal(fast_network_add(network, line), FAST_OK);
    line[FAST_LINE_MAX - 1] = ' ';
    line[FAST_LINE_MAX] = '\0';
    assert_int_equal(fast_network_add(network, line), FAST_EINVAL);
    assert_int_equal(fast_network_add(network, "relu\nrelu"), FAST_EINVAL);
    fast_network_free(network);
    fast_network_free(NULL);

    network = NULL;
    char *text = calloc(1, FAST_TEXT_MAX + 2);
    memset(text, '\n', FAST_TEXT_MAX + 1);
    assert_int_equal(fast__network_parse(text, FAST_TEXT_MAX, &network), FAST_OK);
    fast_network_free(network);
    network = NULL;
    assert_int_equal(fast__network_parse(text, FAST_TEXT_MAX + 1, &network), FAST_EINVAL);
    assert_null(network);
    free(text);
}

/* A line that fails leaves the network as it was. */
static void test_failed_line_changes_nothing(void **state)
{
    (void)state;
    fast_network *network = NULL;
    fast_graph *graph = NULL;

    assert_int_equal(fast_network_new(&network), FAST_OK);
    assert_int_equal(fast_network_add(network, "dense"), FAST_EINVAL);
    assert_int_equal(network->layer_count, 0);
    assert_int_equal(fast_network_add(network, "input 4"), FAST_OK);
    assert_int_equal(fast_network_add(network, "a: dense 3 from b"), FAST_EINVAL);
    assert_int_equal(fast_network_add(network, "a: dense 3"), FAST_OK);
    assert_int_equal(network->layer_count, 2);
    assert_int_equal(fast__network_graph(network, &graph), FAST_OK);
    assert_int_equal(graph->params.count, 15);
    fast__graph_free(graph);
    fast_network_free(network);
}

/* Swaps the two halves of a vector; refuses odd ones. */
static fast_err swap_shape(const void *config, int input_count, const int *ranks,
                           const int64_t (*shapes)[3], int *rank_out, int64_t shape_out[3])
{
    const int *lie = config;

    if (input_count != 1 || ranks[0] != 1 || shapes[0][0] % 2)
        return FAST_EINVAL;
    *rank_out = lie ? *lie : 1;
    shape_out[0] = lie ? 0 : shapes[0][0];
    return FAST_OK;
}

static void swap_forward(const void *config, int64_t count, const int64_t *counts,
                         const float *const *x, float *y)
{
    (void)config;
    (void)counts;
    (void)count;
    (void)x;
    (void)y;
}

static void swap_backward(const void *config, int64_t count, const int64_t *counts,
                          const float *const *x, const float *y, const float *dy, float *const *dx)
{
    (void)config;
    (void)counts;
    (void)count;
    (void)x;
    (void)y;
    (void)dy;
    (void)dx;
}

static void test_operators(void **state)
{
    (void)state;
    const fast_operator swap = {
        .name = "swap", .shape = swap_shape, .forward = swap_forward, .backward = swap_backward
    };
    const fast_operator broken = { .name = "broken",
                                   .forward = swap_forward,
                                   .backward = swap_backward };
    fast_network *network = NULL;
    fast_graph *graph = NULL;
    int lie = 0;

    assert_int_equal(fast_network_new(&network), FAST_OK);
    assert_int_equal(fast_network_add_operator(network, NULL, &broken, NULL, NULL), FAST_EINVAL);
    assert_int_equal(fast_network_add(network, "input 6"), FAST_OK);
    assert_int_equal(fast_network_add_operator(network, NULL, &swap, NULL, NULL), FAST_OK);
    assert_int_equal(fast_network_add_operator(network, "twice", &swap, NULL, "swap1"), FAST_OK);
    assert_int_equal(fast_network_add_operator(network, "no", &swap, NULL, "swap9"), FAST_EINVAL);
    assert_int_equal(fast_network_add_operator(network, "no no", &swap, NULL, NULL), FAST_EINVAL);
    assert_int_equal(fast_network_add(network, "add twice input"), FAST_OK);
    assert_int_equal(fast__network_graph(network, &graph), FAST_OK);
    assert_int_equal(graph->nodes[1].op, FAST_OP_CUSTOM);
    assert_ptr_equal(graph->nodes[1].custom, &swap);
    assert_shape(&graph->nodes[2], 1, 6, 0, 0);
    fast__graph_free(graph);
    /* An operator that gives nonsense is not believed. */
    graph = NULL;
    assert_int_equal(fast_network_add_operator(network, "lies", &swap, &lie, NULL), FAST_OK);
    assert_int_equal(fast__network_graph(network, &graph), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "gives rank 0"));
    lie = 1;
    assert_int_equal(fast__network_graph(network, &graph), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "an empty shape"));
    fast_network_free(network);

    assert_int_equal(fast_network_new(&network), FAST_OK);
    assert_int_equal(fast_network_add(network, "input 5"), FAST_OK);
    assert_int_equal(fast_network_add_operator(network, NULL, &swap, NULL, NULL), FAST_OK);
    assert_int_equal(fast__network_graph(network, &graph), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "refuses the shapes"));
    assert_int_equal(fast_network_add(network, "loss mse"), FAST_OK);
    assert_int_equal(fast_network_add_operator(network, NULL, &swap, NULL, NULL), FAST_EINVAL);
    assert_null(graph);
    fast_network_free(network);
}

/* Data give shape and loss where the text does not, and are compared with what it says. */
static void test_fit(void **state)
{
    (void)state;
    fast_model_input data = { .rank = 3, .shape = { 1, 8, 8 }, .outputs = 10, .positions = 1 };
    fast_model_input sums = { .rank = 1, .shape = { 5 }, .outputs = 2, .regression = true };
    fast_model_input text = {
        .rank = 1, .shape = { 9 }, .outputs = 7, .tokens = true, .vocabulary = 7, .positions = 9
    };
    const struct {
        const char *text;
        const fast_model_input *data;
        const char *says; /* NULL: fits */
    } cases[] = {
        { "dense 10", &data, NULL },
        { "input 1 8 8\ndense 10\nloss cross_entropy", &data, NULL },
        { "dense 2", &sums, NULL },
        { "dense 2\nloss mse", &sums, NULL },
        { "embed 4\nlstm 4\ndense 7", &text, NULL },
        { "input 9 tokens=8\nembed 4\nlstm 4\ndense 7", &text, NULL },
        { "input 64\ndense 10", &data, "takes 64 but the data have 1x8x8" },
        { "input 3 8 8\ndense 10", &data, "takes 3x8x8 but the data have 1x8x8" },
        { "dense 11", &data, "11 outputs but the data have 10 classes; end with \"dense 10\"" },
        { "dense 10\nloss mse", &data, "loss mse fits numbers" },
        { "dense 3", &sums, "the data have 2 targets" },
        { "input 9\ndense 7", &text, "takes numbers but the data are tokens" },
        { "input 9 tokens=6\nembed 4\ndense 7", &text, "knows 6 tokens but the data have 7" },
        { "embed 4\nlast\ndense 7", &text, "answers 1 times a sample but the data ask for 9" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fast_network *network = NULL;
        fast_graph *graph = NULL;
        assert_int_equal(fast__network_parse(cases[i].text, strlen(cases[i].text), &network),
                         FAST_OK);
        const fast_err err = fast__network_fit(network, cases[i].data, &graph);
        if ((err == FAST_OK) != (cases[i].says == NULL) ||
            (err && !strstr(fast_error_detail(), cases[i].says)))
            fail_msg("\"%s\": %s", cases[i].text, fast_error_detail());
        if (!err)
            assert_int_equal(graph->loss == FAST_LOSS_MSE, cases[i].data->regression);
        fast__graph_free(graph);
        fast_network_free(network);
    }
}

static void test_files(void **state)
{
    (void)state;
    char path[] = "network_test_XXXXXX";
    const int file = mkstemp(path);
    FILE *stream = fdopen(file, "w");
    fast_network *network = NULL;

    assert_non_null(stream);
    fputs("input 4\ndense 3\n", stream);
    fclose(stream);
    assert_int_equal(fast_network_open(path, &network), FAST_OK);
    assert_int_equal(network->layer_count, 2);
    fast_network_free(network);
    network = NULL;
    stream = fopen(path, "w");
    fwrite("input 4\nden\0se 3\n", 1, 17, stream);
    fclose(stream);
    assert_int_equal(fast_network_open(path, &network), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "line 2: byte 4 is 0x00"));
    remove(path);
    assert_int_equal(fast_network_open(path, &network), FAST_ENOENT);
    assert_null(network);
}

/* Every allocation may fail; nothing leaks and nothing is half built. */
static void test_out_of_memory(void **state)
{
    (void)state;
    char text[4096] = "input 4\n";
    fast_graph *graph = NULL;
    fast_err err = FAST_ENOMEM;
    int64_t n = 0;

    for (int i = 0; i < 40; i++)
        strcat(text, "dense 4\nbatch_norm\n");
    for (; err == FAST_ENOMEM; n++) {
        fast__alloc_fail_after(n, true);
        err = fast__graph_parse(text, &graph);
        fast__alloc_fail_after(-1, false);
        if (err)
            assert_null(graph);
    }
    assert_int_equal(err, FAST_OK);
    assert_true(n > 5);
    fast__graph_free(graph);
    fast__graph_free(NULL);
}

/* Heads take the network's loss, a range of targets, and may be unused; detach cuts gradients.
 *
 *     trunk - a - head           targets 1 and 2 of 3; nothing reads it
 *           - detach - dense     the output, which does not train the trunk
 */
static void test_heads(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *part; /* of the message */
    } wrong[] = {
        { "input 4\ndense 3\nhead mse\ndense 3\n", "line 3: head1: has the loss mse" },
        { "input 4\ndense 2\nhead\ndense 3\n", "line 3: head1: has 1 times 2 outputs" },
        { "input 4\ndense 2\nhead first=2\ndense 3\nloss mse\n", "from target 2 on" },
        { "input 4\ndense 3\nhead smoothing=0.1\ndense 3\nloss mse\n", "smoothing belongs" },
        { "input 4\ndense 3\nhead first=0 weight=-1\ndense 3\n", "weight" },
        { "input 4 5\ndense 3\nhead\nlast\n", "has 4 times 3 outputs" },
        { "input 4\ndense 3\nloss cross_entropy train=no\n", "no layer is a head" },
        { "input 1 4 4\nhead\ndense 3\n", "takes a vector" },
    };
    fast_graph *graph = NULL;

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(fast__graph_parse(wrong[i].text, &graph), FAST_EINVAL);
        if (!strstr(fast_error_detail(), wrong[i].part))
            fail_msg("%s", fast_error_detail());
    }
    assert_int_equal(fast__graph_parse("input 4\n"
                                       "trunk: dense 6\n"
                                       "a: dense 2 from trunk\n"
                                       "head first=1 weight=0.25\n"
                                       "detach from trunk\n"
                                       "dense 3\n"
                                       "loss mse train=no\n",
                                       &graph),
                     FAST_OK);
    bool needs[6];
    fast__graph_needs(graph, needs);
    assert_int_equal(graph->node_count, 6);
    assert_int_equal(graph->loss_use, FAST_LOSS_EVALUATED);
    assert_int_equal(graph->nodes[3].op, FAST_OP_HEAD);
    assert_int_equal(graph->nodes[3].loss, FAST_LOSS_MSE);
    assert_int_equal(graph->nodes[3].columns[0], 1);
    assert_int_equal(graph->nodes[3].columns[1], 3);
    assert_true(graph->nodes[3].a == 0.25f);
    assert_true(needs[3] && !needs[4] && needs[5]);
    fast__graph_free(graph);
}

/* The table is complete: defaults parse, examples and names are right. */
static void test_table(void **state)
{
    (void)state;
    int64_t count = 0;
    const fast_part *parts = fast__layer_list(&count);

    assert_int_equal(count, FAST_LAYER_LOSS + 1);
    for (int64_t i = 0; i < count; i++) {
        const fast_layer_kind *kind = fast__layer_kind((fast_op)i);
        fast_layer_config config = { 0 };
        fast_op op = FAST_OP_COUNT;
        assert_non_null(parts[i].name);
        assert_non_null(parts[i].summary);
        assert_int_equal(fast__layer_find(parts[i].name, 1, &op), FAST_OK);
        assert_int_equal(op, i);
        fast__options_default(parts[i].options, &config);
        assert_true(strncmp(kind->example, parts[i].name, strlen(parts[i].name)) == 0);
        if (kind->positional)
            assert_string_equal(parts[i].options[0].name, kind->positional);
    }
}

static void test_text(void **state)
{
    (void)state;
    fast_text text = { 0 };

    for (int i = 0; i < 1000; i++)
        assert_int_equal(fast__text_add(&text, "%d,", i % 10), FAST_OK);
    assert_int_equal(text.size, 2000);
    assert_int_equal(strlen(text.data), 2000);
    assert_true(strncmp(text.data + 1996, "8,9,", 4) == 0);
    fast__alloc_fail_after(0, true);
    assert_int_equal(fast__text_add(&text, "%4000d", 1), FAST_ENOMEM);
    fast__alloc_fail_after(-1, false);
    assert_int_equal(text.size, 2000);
    assert_int_equal(fast__text_add(&text, "%1048576d", 1), FAST_EINVAL);
    assert_int_equal(text.size, 2000);
    fast__text_fini(&text);
    fast__text_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lenet_by_hand),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_branches_and_norms),
        cmocka_unit_test(test_sequences),
        cmocka_unit_test(test_bad_texts),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_failed_line_changes_nothing),
        cmocka_unit_test(test_operators),
        cmocka_unit_test(test_fit),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_heads),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
