/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a layer's options and the shapes of its inputs to its own shape, attributes and weights.
 *
 *   window of a convolution or pooling:
 *   out = floor((in + 2 pad - dilation (kernel - 1) - 1) / stride) + 1
 *
 * Weights have PyTorch's names and shapes, in the order of its parameters():
 *   dense, conv        weight [, bias]; with weight norm weight_v, weight_g
 *   norms              weight, bias; running_mean, running_var in the state
 *   embed              weight [, position.weight]
 *   rnn, lstm, gru     weight_ih_lK, weight_hh_lK, bias_ih_lK, bias_hh_lK for layer K of the stack
 *   attention          in_proj_weight, in_proj_bias, out_proj.weight, out_proj.bias
 */
#include "base/memory.h"
#include "model/init.h"
#include "model/layer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Ranks of an input that a layer accepts, as bits. */
enum {
    VECTOR = 1 << 1,   /* [C] */
    SEQUENCE = 1 << 2, /* [T, C] */
    IMAGE = 1 << 3     /* [C, H, W] */
};

/* Node of input i. */
static const fast_node *input_of(const fast_build *build, const fast_node *node, int i)
{
    return &build->graph->nodes[node->inputs[i]];
}

/* Refuse inputs of the wrong rank, and tokens for any layer but embed. */
static fast_err need(const fast_build *build, const fast_node *x, int ranks)
{
    char text[64];

    if (x->op == FAST_OP_INPUT && build->graph->tokens)
        return FAST_LAYER_FAIL(build, "takes numbers, but its input is tokens; begin with \"%s\"",
                               "embed 64");
    if (ranks >> x->rank & 1)
        return FAST_OK;
    return FAST_LAYER_FAIL(
        build, "takes %s%s%s%s%s, but its input has the shape %s", ranks & VECTOR ? "a vector" : "",
        ranks & VECTOR && ranks & ~VECTOR ? " or " : "",
        ranks & SEQUENCE ? "a sequence (T x C)" : "",
        ranks & SEQUENCE && ranks & IMAGE ? " or " : "",
        ranks & IMAGE ? "an image (C x H x W)" : "", fast__shape_text(x->rank, x->shape, text));
}

/* The output has the shape of x. */
static void copy_shape(fast_node *node, const fast_node *x)
{
    node->rank = x->rank;
    memcpy(node->shape, x->shape, sizeof node->shape);
}

/* Parse "3" or "3x5", both in [min, 65536]. */
static fast_err parse_pair(const fast_build *build, const char *name, const char *text, int64_t min,
                           int64_t out[2])
{
    const char *x = strchr(text, 'x');
    char first[FAST_PAIR_MAX];
    char what[FAST_LABEL_MAX + 64];
    int64_t pair[2];

    snprintf(what, sizeof what, "line %d: %s: %s", build->layer->line, build->layer->label, name);
    snprintf(first, sizeof first, "%.*s", x ? (int)(x - text) : (int)strlen(text), text);
    FAST_TRY(fast__parse_int(what, first, &pair[0]));
    FAST_TRY(fast__parse_int(what, x ? x + 1 : text, &pair[1]));
    for (int i = 0; i < 2; i++)
        if (pair[i] < min || pair[i] > 65536)
            return fast__fail(FAST_EINVAL, "%s is %s; from %lld to 65536", what, text,
                              (long long)min);
    memcpy(out, pair, sizeof pair);
    return FAST_OK;
}

/* Compute height and width after a window slides over x. */
static fast_err slide(const fast_build *build, fast_node *node, const fast_node *x)
{
    for (int i = 0; i < 2; i++) {
        const int64_t span = node->dilation[i] * (node->kernel[i] - 1) + 1;
        const int64_t room = x->shape[1 + i] + 2 * node->pad[i];
        if (span > room)
            return FAST_LAYER_FAIL(build, "its window of %lld does not fit into %s %lld (with pad)",
                                   (long long)span, i ? "width" : "height", (long long)room);
        node->shape[1 + i] = (room - span) / node->stride[i] + 1;
    }
    node->rank = 3;
    return FAST_OK;
}

/* Add weight, gain and bias of dense and conv. */
static fast_err add_weights(fast_build *build, fast_node *node, int rank, const int64_t *shape,
                            int64_t fan_in, int64_t fan_out)
{
    const fast_layer_config *config = &build->layer->config;
    const fast_init_rule rule = (fast_init_rule)config->init;
    const int64_t gain[FAST_RANK_MAX] = { shape[0], 1, 1, 1 };
    fast_segment *segment = NULL;

    FAST_TRY(fast__build_param(build, node, FAST_W_WEIGHT,
                               config->weight_norm ? "weight_v" : "weight", rank, shape, &segment));
    fast__init_weight(rule, config->std, fan_in, fan_out, segment);
    if (config->weight_norm) {
        FAST_TRY(fast__build_param(build, node, FAST_W_GAIN, "weight_g", rank, gain, &segment));
        segment->init = FAST_INIT_GAIN;
        segment->decay = false;
    }
    if (config->bias) {
        FAST_TRY(fast__build_param(build, node, FAST_W_BIAS, "bias", 1, shape, &segment));
        fast__init_bias(rule, fan_in, segment);
    }
    return FAST_OK;
}

/* Multiply to a fan. If it overflows the weight is too large as well, which add_segment()
 * reports. */
static int64_t product(int64_t a, int64_t b)
{
    int64_t out = FAST_COUNT_MAX;

    return fast__mul_size(a, b, &out) && out < FAST_COUNT_MAX ? out : FAST_COUNT_MAX;
}

/* y = W x + b per sample, or per position of a sequence.
 *
 *     [C] or [C, H, W] -> [outputs]; weight [outputs, all inputs]
 *     [T, C] -> [T, outputs];        weight [outputs, C]
 */
static fast_err infer_dense(fast_build *build, fast_node *node)
{
    const fast_node *x = input_of(build, node, 0);
    const int64_t outputs = build->layer->config.outputs;
    int64_t shape[2] = { outputs, 0 };

    FAST_TRY(need(build, x, VECTOR | SEQUENCE | IMAGE));
    shape[1] = x->rank == 2 ? x->shape[1] : x->count;
    node->rank = x->rank == 2 ? 2 : 1;
    node->shape[0] = x->rank == 2 ? x->shape[0] : outputs;
    node->shape[1] = x->rank == 2 ? outputs : 0;
    return add_weights(build, node, 2, shape, shape[1], outputs);
}

/* Experts: a dense layer for each range of positions. Their weights are one matrix, the rows of an
 * expert after those of the one before, so that rules and codecs see a dense layer's, and a part of
 * the experts is a range.
 *
 *     [E S, C] -> [E S, outputs];  weight [E outputs, C]
 */
static fast_err infer_experts(fast_build *build, fast_node *node)
{
    const fast_node *x = input_of(build, node, 0);
    const fast_layer_config *config = &build->layer->config;
    int64_t shape[2] = { 0, x->shape[1] };

    FAST_TRY(need(build, x, SEQUENCE));
    node->groups = config->element.count;
    if (node->groups < 1 || x->shape[0] % node->groups)
        return FAST_LAYER_FAIL(build, "%lld experts do not divide %lld positions",
                               (long long)node->groups, (long long)x->shape[0]);
    node->rank = 2;
    node->shape[0] = x->shape[0];
    node->shape[1] = config->outputs;
    shape[0] = product(node->groups, config->outputs);
    return add_weights(build, node, 2, shape, shape[1], config->outputs);
}

/* The window of conv and local: pad=same computes the border. Sets the size of the output. */
static fast_err infer_window(fast_build *build, fast_node *node)
{
    const fast_node *x = input_of(build, node, 0);
    const fast_layer_config *config = &build->layer->config;

    FAST_TRY(need(build, x, IMAGE));
    FAST_TRY(parse_pair(build, "kernel", config->kernel, 1, node->kernel));
    FAST_TRY(parse_pair(build, "stride", config->stride, 1, node->stride));
    FAST_TRY(parse_pair(build, "dilation", config->dilation, 1, node->dilation));
    if (strcmp(config->pad, "same") == 0) {
        for (int i = 0; i < 2; i++) {
            const int64_t around = node->dilation[i] * (node->kernel[i] - 1);
            if (around % 2 || node->stride[i] != 1)
                return FAST_LAYER_FAIL(build, "pad=%s needs an odd kernel and stride 1", "same");
            node->pad[i] = around / 2;
        }
    } else {
        FAST_TRY(parse_pair(build, "pad", config->pad, 0, node->pad));
    }
    FAST_TRY(slide(build, node, x));
    node->shape[0] = config->outputs;
    return FAST_OK;
}

/* Window, groups and weights.
 *
 *     [C, H, W] -> [outputs, H', W'];  weight [outputs, C / groups, kh, kw]
 *
 * The fans of a weight are those of one group: inputs and outputs times the filter's area. */
static fast_err infer_conv(fast_build *build, fast_node *node)
{
    const fast_node *x = input_of(build, node, 0);
    const fast_layer_config *config = &build->layer->config;

    FAST_TRY(infer_window(build, node));
    node->groups = config->groups;
    if (x->shape[0] % node->groups || config->outputs % node->groups)
        return FAST_LAYER_FAIL(build, "%lld groups do not divide %lld inputs and %lld outputs",
                               (long long)node->groups, (long long)x->shape[0],
                               (long long)config->outputs);
    const int64_t area = node->kernel[0] * node->kernel[1];
    return add_weights(build, node, 4,
                       (int64_t[]){ config->outputs, x->shape[0] / node->groups, node->kernel[0],
                                    node->kernel[1] },
                       product(x->shape[0] / node->groups, area), product(config->outputs, area));
}

/* A window with weights of its own at each place, so that a range of rows has a range of them; in a
 * tiled layer (Ngiam et al. 2010) those of places `tile` apart are equal.
 *
 *     [C, H, W] -> [outputs, H', W'];  weight [H', W', outputs, C kh kw], bias [H', W', outputs]
 */
static fast_err infer_local(fast_build *build, fast_node *node)
{
    const fast_node *x = input_of(build, node, 0);
    const fast_layer_config *config = &build->layer->config;
    const fast_init_rule rule = (fast_init_rule)config->init;
    fast_segment *segment = NULL;

    FAST_TRY(infer_window(build, node));
    const int64_t taps = product(x->shape[0], node->kernel[0] * node->kernel[1]);
    const int64_t k = node->groups = config->groups;
    const int64_t shape[4] = { k > 0 ? k : node->shape[1], k > 0 ? k : node->shape[2],
                               config->outputs, taps };
    FAST_TRY(fast__build_param(build, node, FAST_W_WEIGHT, "weight", 4, shape, &segment));
    fast__init_weight(rule, config->std, taps, config->outputs, segment);
    if (config->bias) {
        FAST_TRY(fast__build_param(build, node, FAST_W_BIAS, "bias", 3, shape, &segment));
        fast__init_bias(rule, taps, segment);
    }
    return FAST_OK;
}

/* Window without weights: [C, H, W] -> [C, H', W']. The border is at most half of the kernel, so
 * that no window lies in it alone. */
static fast_err infer_pool(fast_build *build, fast_node *node)
{
    const fast_node *x = input_of(build, node, 0);
    const fast_layer_config *config = &build->layer->config;
    const bool own = strcmp(config->stride, "kernel") != 0;

    FAST_TRY(need(build, x, IMAGE));
    FAST_TRY(parse_pair(build, "kernel", config->kernel, 1, node->kernel));
    FAST_TRY(parse_pair(build, "stride", own ? config->stride : config->kernel, 1, node->stride));
    FAST_TRY(parse_pair(build, "pad", config->pad, 0, node->pad));
    for (int i = 0; i < 2; i++) {
        node->dilation[i] = 1;
        if (2 * node->pad[i] > node->kernel[i])
            return FAST_LAYER_FAIL(build, "pad %s is more than half of the kernel", config->pad);
    }
    node->shape[0] = x->shape[0];
    return slide(build, node, x);
}

/* Layers that preserve the shape: activations, softmax, dropout. Their attribute is `a`. */
static fast_err infer_same(fast_build *build, fast_node *node)
{
    const fast_node *x = input_of(build, node, 0);

    FAST_TRY(need(build, x,
                  node->op == FAST_OP_SOFTMAX ? VECTOR | SEQUENCE : VECTOR | SEQUENCE | IMAGE));
    copy_shape(node, x);
    if (node->op == FAST_OP_LEAKY_RELU)
        node->a = (float)build->layer->config.slope;
    if (node->op == FAST_OP_DROPOUT)
        node->a = (float)build->layer->config.p;
    return FAST_OK;
}

/* Weight and bias, [C]; batch norm also has running statistics.
 *
 *     batch_norm   [C] or [C, H, W]: C channels, statistics over samples and pixels
 *     layer_norm   [C] or [T, C]: statistics over the last dimension
 */
static fast_err infer_norm(fast_build *build, fast_node *node)
{
    const fast_node *x = input_of(build, node, 0);
    const fast_layer_config *config = &build->layer->config;
    const bool batch = node->op == FAST_OP_BATCH_NORM;
    fast_segment *segment = NULL;
    int64_t channels = 0;

    FAST_TRY(need(build, x, batch ? VECTOR | IMAGE : VECTOR | SEQUENCE));
    copy_shape(node, x);
    channels = batch ? x->shape[0] : x->shape[x->rank - 1];
    node->a = (float)config->eps;
    FAST_TRY(fast__build_param(build, node, FAST_W_WEIGHT, "weight", 1, &channels, &segment));
    segment->init = FAST_INIT_ONES;
    FAST_TRY(fast__build_param(build, node, FAST_W_BIAS, "bias", 1, &channels, &segment));
    if (!batch)
        return FAST_OK;
    node->b = (float)config->momentum;
    node->ghost = config->ghost;
    if (node->ghost == 1 && x->rank == 1)
        return FAST_LAYER_FAIL(build, "ghost=%d leaves one value a statistic; at least 2", 1);
    FAST_TRY(fast__build_state(build, node, 0, "running_mean", channels, &segment));
    FAST_TRY(fast__build_state(build, node, 1, "running_var", channels, &segment));
    segment->init = FAST_INIT_ONES;
    return FAST_OK;
}

/* A table of vectors for tokens, and one for positions.
 *
 *     [T] -> [T, outputs];  weight [vocabulary, outputs], position.weight [T, outputs]
 */
static fast_err infer_embed(fast_build *build, fast_node *node)
{
    const fast_node *x = input_of(build, node, 0);
    const fast_layer_config *config = &build->layer->config;
    const fast_init_rule rule = (fast_init_rule)config->init;
    const int64_t vocabulary = build->graph->vocabulary;
    fast_segment *segment = NULL;

    if (x->op != FAST_OP_INPUT || !build->graph->tokens)
        return FAST_LAYER_FAIL(build, "takes tokens, as \"%s\" gives", "input 64 tokens=96");
    node->rank = 2;
    node->shape[0] = x->shape[0];
    node->shape[1] = config->outputs;
    FAST_TRY(fast__build_param(build, node, FAST_W_WEIGHT, "weight", 2,
                               (int64_t[]){ vocabulary, config->outputs }, &segment));
    /* PyTorch's embedding starts with variance 1, not with the rule of its dense layers. */
    fast__init_weight(rule == FAST_INIT_RULE_TORCH ? FAST_INIT_RULE_NORMAL : rule,
                      rule == FAST_INIT_RULE_TORCH ? 1 : config->std, vocabulary, config->outputs,
                      segment);
    if (config->position) {
        FAST_TRY(fast__build_param(build, node, FAST_W_BIAS, "position.weight", 2, node->shape,
                                   &segment));
        fast__init_weight(rule == FAST_INIT_RULE_TORCH ? FAST_INIT_RULE_NORMAL : rule,
                          rule == FAST_INIT_RULE_TORCH ? 1 : config->std, node->shape[0],
                          config->outputs, segment);
    }
    return FAST_OK;
}

/* Weights and biases of inputs and state, for all gates.
 *
 *     [T, C] -> [T, H];  weight_ih [gates H, C], weight_hh [gates H, H], both biases [gates H]
 *
 * `part` is the layer of the stack, which PyTorch's names end with. */
static fast_err infer_recurrent(fast_build *build, fast_node *node)
{
    static const char *const names[4] = { "weight_ih_l", "weight_hh_l", "bias_ih_l", "bias_hh_l" };
    static const int slots[4] = { FAST_W_WEIGHT, FAST_W_WEIGHT2, FAST_W_BIAS, FAST_W_BIAS2 };
    const fast_node *x = input_of(build, node, 0);
    const fast_layer_config *config = &build->layer->config;
    const fast_init_rule rule = (fast_init_rule)config->init;
    const int64_t hidden = config->outputs;
    const int64_t gates = node->op == FAST_OP_LSTM ? 4 : node->op == FAST_OP_GRU ? 3 : 1;

    FAST_TRY(need(build, x, SEQUENCE));
    node->rank = 2;
    node->shape[0] = x->shape[0];
    node->shape[1] = hidden;
    for (int i = 0; i < 4; i++) {
        const int64_t shape[2] = { gates * hidden, i == 0 ? x->shape[1] : hidden };
        fast_segment *segment = NULL;
        char suffix[24];
        snprintf(suffix, sizeof suffix, "%s%d", names[i], (int)build->part);
        FAST_TRY(fast__build_param(build, node, slots[i], suffix, i < 2 ? 2 : 1, shape, &segment));
        /* PyTorch draws all four within 1 / sqrt(hidden). */
        if (rule == FAST_INIT_RULE_TORCH) {
            fast__init_weight(rule, 0, hidden, hidden, segment);
        } else if (i < 2) {
            fast__init_weight(i == 0 && rule == FAST_INIT_RULE_ORTHOGONAL ? FAST_INIT_RULE_XAVIER
                                                                          : rule,
                              config->std, shape[1], hidden, segment);
            if (i == 1 && rule == FAST_INIT_RULE_ORTHOGONAL)
                segment->init = FAST_INIT_GATES;
        } else if (i == 2 && node->op == FAST_OP_LSTM) {
            segment->init = FAST_INIT_FORGET;
            segment->init_a = (float)config->forget;
        }
    }
    return FAST_OK;
}

/* The two projections; scores of one sample must fit FAST_COUNT_MAX.
 *
 *     [T, C] -> [T, C];  in_proj [3 C, C] for q, k and v, out_proj [C, C]
 */
static fast_err infer_attention(fast_build *build, fast_node *node)
{
    const fast_node *x = input_of(build, node, 0);
    const fast_layer_config *config = &build->layer->config;
    const fast_init_rule rule = (fast_init_rule)config->init;
    const int64_t width = x->shape[1];
    fast_segment *segment = NULL;
    int64_t scores = 0;

    FAST_TRY(need(build, x, SEQUENCE));
    copy_shape(node, x);
    node->heads = config->heads;
    if (!fast__mul_size(x->shape[0], x->shape[0], &scores) ||
        !fast__mul_size(scores, node->heads, &scores) || scores >= FAST_COUNT_MAX)
        return FAST_LAYER_FAIL(build, "%lld heads over %lld positions are too many",
                               (long long)node->heads, (long long)x->shape[0]);
    if (width % node->heads)
        return FAST_LAYER_FAIL(build, "%lld heads do not divide the width %lld",
                               (long long)node->heads, (long long)width);
    FAST_TRY(fast__build_param(build, node, FAST_W_WEIGHT, "in_proj_weight", 2,
                               (int64_t[]){ 3 * width, width }, &segment));
    fast__init_weight(rule == FAST_INIT_RULE_TORCH ? FAST_INIT_RULE_XAVIER : rule, config->std,
                      width, 3 * width, segment);
    FAST_TRY(fast__build_param(build, node, FAST_W_BIAS, "in_proj_bias", 1,
                               (int64_t[]){ 3 * width }, &segment));
    FAST_TRY(fast__build_param(build, node, FAST_W_WEIGHT2, "out_proj.weight", 2,
                               (int64_t[]){ width, width }, &segment));
    fast__init_weight(rule, config->std, width, width, segment);
    return fast__build_param(build, node, FAST_W_BIAS2, "out_proj.bias", 1, &width, &segment);
}

/* add and concat: inputs agree in all dimensions, or in all but the channels, which are the first
 * dimension of images and vectors and the last of sequences. */
static fast_err infer_join(fast_build *build, fast_node *node)
{
    const fast_node *x = input_of(build, node, 0);
    const int channel = x->rank == 2 ? 1 : 0;
    char a[64];
    char b[64];

    FAST_TRY(need(build, x, VECTOR | SEQUENCE | IMAGE));
    copy_shape(node, x);
    for (int i = 1; i < node->input_count; i++) {
        const fast_node *y = input_of(build, node, i);
        bool same = x->rank == y->rank;
        FAST_TRY(need(build, y, VECTOR | SEQUENCE | IMAGE));
        for (int j = 0; j < x->rank && same; j++)
            same = x->shape[j] == y->shape[j] || (node->op == FAST_OP_CONCAT && j == channel);
        if (!same)
            return FAST_LAYER_FAIL(build, "its inputs have the shapes %s and %s, which do not fit",
                                   fast__shape_text(x->rank, x->shape, a),
                                   fast__shape_text(y->rank, y->shape, b));
        if (node->op == FAST_OP_CONCAT)
            node->shape[channel] += y->shape[channel];
    }
    return FAST_OK;
}

/* global_pool, last, flatten: to a vector.
 *
 *     global_pool   [C, H, W] or [T, C] -> [C]
 *     last          [T, C] -> [C]
 *     flatten       [C, H, W] -> [C H W], [T, C] -> [T C]
 */
static fast_err infer_vector(fast_build *build, fast_node *node)
{
    const fast_node *x = input_of(build, node, 0);

    FAST_TRY(need(build, x, node->op == FAST_OP_LAST ? SEQUENCE : SEQUENCE | IMAGE));
    node->rank = 1;
    node->shape[0] = node->op == FAST_OP_FLATTEN ? x->count : x->shape[x->rank == 2 ? 1 : 0];
    return FAST_OK;
}

/* A head has the shape of its input, a row of outputs for each label. Its loss and the number of
 * targets follow from the loss of the network, which comes later.
 *
 *     [C] or [T, C] -> the same
 */
static fast_err infer_head(fast_build *build, fast_node *node)
{
    const fast_layer_config *config = &build->layer->config;
    const fast_node *x = input_of(build, node, 0);

    FAST_TRY(need(build, x, VECTOR | SEQUENCE));
    copy_shape(node, x);
    node->a = (float)config->weight;
    node->b = (float)config->smoothing;
    node->columns[0] = config->element.start;
    node->loss = (fast_loss)(config->kind > 0 ? config->kind - 1 : 0);
    return FAST_OK;
}

/* The user's operator computes its own shape, which is checked. */
static fast_err infer_custom(fast_build *build, fast_node *node)
{
    const fast_layer *layer = build->layer;
    int ranks[FAST_INPUTS_MAX] = { 0 };
    int64_t shapes[FAST_INPUTS_MAX][3] = { { 0 } };
    int rank = 0;
    int64_t shape[3] = { 0 };

    for (int i = 0; i < node->input_count; i++) {
        const fast_node *x = input_of(build, node, i);
        FAST_TRY(need(build, x, VECTOR | SEQUENCE | IMAGE));
        ranks[i] = x->rank;
        memcpy(shapes[i], x->shape, sizeof shapes[i]);
    }
    node->custom = layer->custom;
    node->custom_config = layer->custom_config;
    if (node->custom->shape(node->custom_config, node->input_count, ranks,
                            (const int64_t(*)[3])shapes, &rank, shape) != FAST_OK)
        return FAST_LAYER_FAIL(build, "the operator %.40s refuses the shapes of its inputs",
                               node->custom->name);
    if (rank < 1 || rank > 3)
        return FAST_LAYER_FAIL(build, "the operator %.40s gives rank %d; 1 to 3",
                               node->custom->name, rank);
    for (int i = 0; i < rank; i++)
        if (shape[i] < 1)
            return FAST_LAYER_FAIL(build, "the operator %.40s gives an empty shape",
                                   node->custom->name);
    node->rank = rank;
    memcpy(node->shape, shape, (size_t)rank * sizeof shape[0]);
    return FAST_OK;
}

/* Set rank, shape, attributes and segments of a node whose inputs are built. FAST_EINVAL names
 * the layer and its line. */
fast_err fast__layer_infer(fast_build *build, fast_node *node)
{
    static fast_err (*const infer[FAST_OP_COUNT])(fast_build *, fast_node *) = {
        [FAST_OP_DENSE] = infer_dense,         [FAST_OP_CONV] = infer_conv,
        [FAST_OP_MAX_POOL] = infer_pool,       [FAST_OP_AVG_POOL] = infer_pool,
        [FAST_OP_GLOBAL_POOL] = infer_vector,  [FAST_OP_RELU] = infer_same,
        [FAST_OP_LEAKY_RELU] = infer_same,     [FAST_OP_TANH] = infer_same,
        [FAST_OP_SIGMOID] = infer_same,        [FAST_OP_GELU] = infer_same,
        [FAST_OP_SOFTMAX] = infer_same,        [FAST_OP_BATCH_NORM] = infer_norm,
        [FAST_OP_LAYER_NORM] = infer_norm,     [FAST_OP_DROPOUT] = infer_same,
        [FAST_OP_EMBED] = infer_embed,         [FAST_OP_RNN] = infer_recurrent,
        [FAST_OP_LSTM] = infer_recurrent,      [FAST_OP_GRU] = infer_recurrent,
        [FAST_OP_ATTENTION] = infer_attention, [FAST_OP_ADD] = infer_join,
        [FAST_OP_CONCAT] = infer_join,         [FAST_OP_LAST] = infer_vector,
        [FAST_OP_FLATTEN] = infer_vector,      [FAST_OP_CUSTOM] = infer_custom,
        [FAST_OP_HEAD] = infer_head,           [FAST_OP_DETACH] = infer_same,
        [FAST_OP_EXPERTS] = infer_experts,     [FAST_OP_PART] = fast__layer_infer_part,
        [FAST_OP_LOCAL] = infer_local,
    };

    FAST_ASSERT(node->input_count > 0);
    if (fast__element_operator(node->op))
        return fast__layer_infer_element(build, node);
    FAST_ASSERT(infer[node->op] != NULL);
    if (node->op != FAST_OP_CUSTOM && build->layer->config.outputs == 0) {
        const char *positional = fast__layer_kind(node->op)->positional;
        if (positional && strcmp(positional, "outputs") == 0)
            return FAST_LAYER_FAIL(build, "needs at least one output, not %d", 0);
    }
    return infer[node->op](build, node);
}
