/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of layers: the names, summaries and options that a line of a network may have. The
 * parser, help, completion and docs are generated from it. Rows are in the order of fast_op, so
 * that an operator is its own index.
 *
 * Initial values (option `init`): dense and conv start as PyTorch's do, uniform within
 * 1 / sqrt(fan_in), which suits the learning rates that people bring from there; conv before a
 * batch norm gains from init=he (He et al. 2015). Recurrent layers have orthogonal recurrent
 * weights (Saxe et al. 2013), Xavier's for the inputs (Glorot and Bengio 2010), zero biases and a
 * forget gate that starts open (Jozefowicz et al. 2015). Attention has Xavier's.
 */
#include "model/layer.h"

#include "engine/experts.h"
#include "model/init.h"

#include <stddef.h>
#include <string.h>

/* Rows that several layers have; arguments are their defaults or their help. */
#define CONFIG        fast_layer_config
#define OUTPUTS(help) FAST_OPT_INT(CONFIG, outputs, "0", 0, 1 << 24, help)
#define KERNEL \
    FAST_OPT_TEXT(CONFIG, kernel, "0", NULL, "size of the window, 3 or 3x5 (height x width)")
#define INIT(standard) \
    FAST_OPT_CHOICE(CONFIG, init, standard, FAST_INIT_CHOICES, "how the first weights are drawn")
#define STD(standard) \
    FAST_OPT_REAL(CONFIG, std, standard, 0, 100, "standard deviation of init=normal")
#define BIAS FAST_OPT_BOOL(CONFIG, bias, "yes", "add a bias")
#define WEIGHT_NORM \
    FAST_OPT_BOOL(CONFIG, weight_norm, "no", "train length and direction of each weight separately")
#define STACK FAST_OPT_INT(CONFIG, layers, "1", 1, FAST_STACK_MAX, "layers on top of each other")

static const fast_option input_options[] = {
    FAST_OPT_INT(CONFIG, tokens, "0", 0, 1 << 24,
                 "the input holds whole numbers below this; 0: any numbers"),
    FAST_OPT_END
};

static const fast_option dense_options[] = {
    OUTPUTS("outputs of the layer"), BIAS, WEIGHT_NORM, INIT("torch"), STD("0.02"), FAST_OPT_END
};

static const fast_option conv_options[] = {
    OUTPUTS("filters"),
    KERNEL,
    FAST_OPT_TEXT(CONFIG, stride, "1", NULL, "step of the window, 2 or 2x1"),
    FAST_OPT_TEXT(CONFIG, pad, "0", NULL, "zeros around the image, 1 or 1x2; same: keep the size"),
    FAST_OPT_TEXT(CONFIG, dilation, "1", NULL, "distance between the window's points"),
    FAST_OPT_INT(CONFIG, groups, "1", 1, 1 << 24, "independent groups of channels"),
    BIAS,
    WEIGHT_NORM,
    INIT("torch"),
    STD("0.02"),
    FAST_OPT_END
};

static const fast_option local_options[] = {
    OUTPUTS("filters of each place"),
    KERNEL,
    FAST_OPT_TEXT(CONFIG, stride, "1", NULL, "step of the window, 2 or 2x1"),
    FAST_OPT_TEXT(CONFIG, pad, "0", NULL, "zeros around the image, 1 or 1x2; same: keep the size"),
    FAST_OPT_TEXT(CONFIG, dilation, "1", NULL, "distance between the window's points"),
    { "tile", "0", "distance of places with equal weights, in rows and columns; 0: none have",
      FAST_OPTION_INT, offsetof(CONFIG, groups), 0, 0, 1 << 24, NULL },
    BIAS,
    INIT("torch"),
    STD("0.02"),
    FAST_OPT_END
};

static const fast_option pool_options[] = {
    KERNEL, FAST_OPT_TEXT(CONFIG, stride, "kernel", NULL, "step of the window; kernel: its size"),
    FAST_OPT_TEXT(CONFIG, pad, "0", NULL, "border, at most half of the kernel"), FAST_OPT_END
};

static const fast_option leaky_relu_options[] = {
    FAST_OPT_REAL(CONFIG, slope, "0.01", 0, 1, "slope below zero"), FAST_OPT_END
};

static const fast_option batch_norm_options[] = {
    FAST_OPT_INT(CONFIG, ghost, "0", 0, 1 << 24, "samples per statistic; 0: the whole batch"),
    FAST_OPT_REAL(CONFIG, eps, "1e-5", 1e-12, 1, "added to the variance"),
    FAST_OPT_REAL(CONFIG, momentum, "0.1", 0, 1, "weight of a batch in the running statistics"),
    FAST_OPT_END
};

static const fast_option layer_norm_options[] = {
    FAST_OPT_REAL(CONFIG, eps, "1e-5", 1e-12, 1, "added to the variance"), FAST_OPT_END
};

static const fast_option dropout_options[] = {
    FAST_OPT_REAL(CONFIG, p, "0.5", 0, 0.99, "probability that a value becomes zero"), FAST_OPT_END
};

static const fast_option embed_options[] = { OUTPUTS("width of a token's vector"),
                                             FAST_OPT_BOOL(CONFIG, position, "no",
                                                           "also add a vector for each position"),
                                             INIT("normal"), STD("0.1"), FAST_OPT_END };

static const fast_option recurrent_options[] = { OUTPUTS("width of the hidden state"), STACK,
                                                 INIT("orthogonal"), STD("0.02"), FAST_OPT_END };

static const fast_option lstm_options[] = {
    OUTPUTS("width of the hidden state"),
    STACK,
    INIT("orthogonal"),
    STD("0.02"),
    FAST_OPT_REAL(CONFIG, forget, "1", -10, 10,
                  "first bias of the forget gate; init=torch ignores it"),
    FAST_OPT_END
};

static const fast_option attention_options[] = {
    FAST_OPT_INT(CONFIG, heads, "1", 1, 1 << 16, "heads; the width is a multiple of them"),
    INIT("xavier"), STD("0.02"), FAST_OPT_END
};

/* A row of the elementary layers' options. */
#define ELEMENT_TEXT(field, standard, help)                                        \
    {                                                                              \
#field, standard, help, FAST_OPTION_TEXT, offsetof(CONFIG, element.field), \
            sizeof(((CONFIG *)0)->element.field), 0, 0, NULL                       \
    }
#define ELEMENT_INT(field, standard, max, help)                                                   \
    {                                                                                             \
#field, standard, help, FAST_OPTION_INT, offsetof(CONFIG, element.field), 0, 0, max, NULL \
    }
#define ELEMENT_REAL(field, standard, help)                                                        \
    {                                                                                              \
#field, standard, help, FAST_OPTION_REAL, offsetof(CONFIG, element.field), 0, -1e30, 1e30, \
            NULL                                                                                   \
    }

static const fast_option map_options[] = {
    FAST_OPT_CHOICE(CONFIG, kind, "affine", FAST_MAP_CHOICES, "the function"),
    ELEMENT_REAL(a, "1", "its first number: factor, exponent or lower bound"),
    ELEMENT_REAL(b, "0", "its second number: summand or upper bound"), FAST_OPT_END
};

static const fast_option arith_options[] = {
    FAST_OPT_CHOICE(CONFIG, kind, "add", FAST_ARITH_CHOICES, "the function"), FAST_OPT_END
};

static const fast_option operand_options[] = {
    ELEMENT_TEXT(shape, "0", "shape of the weight, 8 or 1x8; a dimension of 1 is repeated"),
    { "frozen", "no", "the weight is not trained", FAST_OPTION_BOOL,
      offsetof(CONFIG, element.frozen), 0, 0, 0, NULL },
    FAST_OPT_END
};

static const fast_option transpose_options[] = {
    ELEMENT_TEXT(shape, "0", "source of each dimension, 1x0x2"), FAST_OPT_END
};

static const fast_option reshape_options[] = { ELEMENT_TEXT(shape, "0", "the new shape, 4x16"),
                                               FAST_OPT_END };

static const fast_option slice_options[] = {
    ELEMENT_INT(axis, "0", 2, "dimension, from 0"),
    ELEMENT_INT(start, "0", (int64_t)1 << 31, "first element"),
    ELEMENT_INT(count, "1", (int64_t)1 << 31, "number of elements"), FAST_OPT_END
};

static const fast_option reduce_options[] = {
    FAST_OPT_CHOICE(CONFIG, kind, "mean", "mean|sum", "what the elements become"),
    ELEMENT_TEXT(axes, "0", "dimensions, 0 or 1x2"), FAST_OPT_END
};

static const fast_option loss_options[] = {
    FAST_OPT_CHOICE(CONFIG, kind, "cross_entropy", "cross_entropy|mse", "what is minimised"),
    FAST_OPT_REAL(CONFIG, smoothing, "0", 0, 0.99,
                  "probability given to all classes alike (cross_entropy)"),
    FAST_OPT_BOOL(CONFIG, train, "yes",
                  "minimise it; no: it is for evaluation, and training minimises those of heads"),
    FAST_OPT_END
};

static const fast_option head_options[] = {
    FAST_OPT_CHOICE(CONFIG, kind, "same", "same|cross_entropy|mse|balance|best",
                    "what is minimised; same: as in the loss line; balance: of a router's experts; "
                    "best: of the best of several members, whose scores follow each other"),
    FAST_OPT_REAL(CONFIG, weight, "1", 0, 1e6, "factor of the loss"),
    FAST_OPT_REAL(CONFIG, smoothing, "0", 0, 0.99,
                  "probability given to all classes alike (cross_entropy)"),
    { "first", "0", "first of the targets that it answers (mse)", FAST_OPTION_INT,
      offsetof(CONFIG, element.start), 0, 0, 1 << 24, NULL },
    FAST_OPT_END
};

static const fast_option route_options[] = {
    ELEMENT_INT(top, "1", FAST_ROUTES_MAX, "experts of a position"),
    { "capacity", "1.25",
      "slots of an expert in a sample: this times top times positions, divided by the experts",
      FAST_OPTION_REAL, offsetof(CONFIG, element.capacity), 0, 1e-3, 1024, NULL },
    FAST_OPT_END
};

static const fast_option part_options[] = {
    ELEMENT_INT(start, "0", (int64_t)1 << 31, "first element, row by row"),
    ELEMENT_TEXT(shape, "1", "shape of the part, 12 or 4x3"), FAST_OPT_END
};

static const fast_option delay_options[] = {
    { "steps", "1", "positions later; the first ones are zeros", FAST_OPTION_INT,
      offsetof(CONFIG, element.count), 0, 1, 1 << 24, NULL },
    FAST_OPT_END
};

static const fast_option repeat_options[] = { { "count", "1", "number of positions",
                                                FAST_OPTION_INT, offsetof(CONFIG, element.count), 0,
                                                1, 1 << 24, NULL },
                                              FAST_OPT_END };

static const fast_option experts_options[] = { OUTPUTS("outputs of an expert"),
                                               ELEMENT_INT(count, "1", FAST_EXPERTS_MAX,
                                                           "number of experts"),
                                               BIAS,
                                               INIT("torch"),
                                               STD("0.02"),
                                               FAST_OPT_END };

/* Name, summary and options of each layer. */
static const fast_part parts[FAST_LAYER_LOSS + 1] = {
    [FAST_OP_INPUT] = { "input", "shape of one sample: C H W, T C or C; the first line",
                        input_options },
    [FAST_OP_DENSE] = { "dense", "fully connected: y = W x + b", dense_options },
    [FAST_OP_CONV] = { "conv", "convolution over an image", conv_options },
    [FAST_OP_MAX_POOL] = { "max_pool", "largest value of each window", pool_options },
    [FAST_OP_AVG_POOL] = { "avg_pool", "mean of each window", pool_options },
    [FAST_OP_GLOBAL_POOL] = { "global_pool", "mean over the image, or over the sequence", NULL },
    [FAST_OP_RELU] = { "relu", "max(x, 0)", NULL },
    [FAST_OP_LEAKY_RELU] = { "leaky_relu", "x, or slope * x below zero", leaky_relu_options },
    [FAST_OP_TANH] = { "tanh", "hyperbolic tangent", NULL },
    [FAST_OP_SIGMOID] = { "sigmoid", "1 / (1 + exp(-x))", NULL },
    [FAST_OP_GELU] = { "gelu", "x times the normal distribution's Phi(x)", NULL },
    [FAST_OP_SOFTMAX] = { "softmax", "probabilities over the last dimension", NULL },
    [FAST_OP_BATCH_NORM] = { "batch_norm", "normalise each channel over the batch",
                             batch_norm_options },
    [FAST_OP_LAYER_NORM] = { "layer_norm", "normalise over the last dimension",
                             layer_norm_options },
    [FAST_OP_DROPOUT] = { "dropout", "zero values at random while training", dropout_options },
    [FAST_OP_EMBED] = { "embed", "a vector for each token", embed_options },
    [FAST_OP_RNN] = { "rnn", "recurrent layer of Elman, with tanh", recurrent_options },
    [FAST_OP_LSTM] = { "lstm", "long short-term memory", lstm_options },
    [FAST_OP_GRU] = { "gru", "gated recurrent unit", recurrent_options },
    [FAST_OP_ATTENTION] = { "attention", "causal multi-head self-attention", attention_options },
    [FAST_OP_ADD] = { "add", "sum of layers of one shape", NULL },
    [FAST_OP_CONCAT] = { "concat", "layers side by side along their channels", NULL },
    [FAST_OP_LAST] = { "last", "last position of a sequence", NULL },
    [FAST_OP_FLATTEN] = { "flatten", "an image or a sequence as one vector", NULL },
    [FAST_OP_MAP] = { "map", "a function of each element", map_options },
    [FAST_OP_ARITH] = { "arith", "a function of two layers, broadcast", arith_options },
    [FAST_OP_SCALE] = { "scale", "multiply by a weight, broadcast", operand_options },
    [FAST_OP_SHIFT] = { "shift", "add a weight, broadcast", operand_options },
    [FAST_OP_MATMUL] = { "matmul", "product of the matrices of two layers", NULL },
    [FAST_OP_TRANSPOSE] = { "transpose", "the dimensions in another order", transpose_options },
    [FAST_OP_RESHAPE] = { "reshape", "another shape with the same elements", reshape_options },
    [FAST_OP_SLICE] = { "slice", "a range of one dimension", slice_options },
    [FAST_OP_REDUCE] = { "reduce", "mean or sum over dimensions", reduce_options },
    [FAST_OP_LOG_SOFTMAX] = { "log_softmax", "logarithm of softmax", NULL },
    [FAST_OP_HEAD] = { "head", "the layer above, with a loss of its own", head_options },
    [FAST_OP_DETACH] = { "detach", "the layer above; no gradient passes", NULL },
    [FAST_OP_ROUTE] = { "route", "experts of each position, from a router's logits",
                        route_options },
    [FAST_OP_DISPATCH] = { "dispatch", "positions to the slots of their experts", NULL },
    [FAST_OP_COMBINE] = { "combine", "experts' outputs back to the positions, weighted", NULL },
    [FAST_OP_EXPERTS] = { "experts", "a dense layer for each expert", experts_options },
    [FAST_OP_LOCAL] = { "local", "a window with own weights at each place", local_options },
    [FAST_OP_PART] = { "part", "a range of the elements, in another shape", part_options },
    [FAST_OP_DELAY] = { "delay", "a sequence, some positions later", delay_options },
    [FAST_OP_REPEAT] = { "repeat", "a sequence of equal positions", repeat_options },
    [FAST_LAYER_LOSS] = { "loss", "what is minimised; the last line", loss_options },
};

/* Properties of each layer: the option that a bare word sets, a correct line, the most inputs that
 * a line may name, and the most segments of parameters and of state that a node may have. */
static const fast_layer_kind kinds[FAST_LAYER_LOSS + 1] = {
    [FAST_OP_INPUT] = { NULL, "input 1 28 28", 0, 0, 0 },
    [FAST_OP_DENSE] = { "outputs", "dense 10", 1, 3, 0 },
    [FAST_OP_CONV] = { "outputs", "conv 20 kernel=5", 1, 3, 0 },
    [FAST_OP_MAX_POOL] = { "kernel", "max_pool 2", 1, 0, 0 },
    [FAST_OP_AVG_POOL] = { "kernel", "avg_pool 2", 1, 0, 0 },
    [FAST_OP_GLOBAL_POOL] = { NULL, "global_pool", 1, 0, 0 },
    [FAST_OP_RELU] = { NULL, "relu", 1, 0, 0 },
    [FAST_OP_LEAKY_RELU] = { "slope", "leaky_relu 0.01", 1, 0, 0 },
    [FAST_OP_TANH] = { NULL, "tanh", 1, 0, 0 },
    [FAST_OP_SIGMOID] = { NULL, "sigmoid", 1, 0, 0 },
    [FAST_OP_GELU] = { NULL, "gelu", 1, 0, 0 },
    [FAST_OP_SOFTMAX] = { NULL, "softmax", 1, 0, 0 },
    [FAST_OP_BATCH_NORM] = { NULL, "batch_norm", 1, 2, 2 },
    [FAST_OP_LAYER_NORM] = { NULL, "layer_norm", 1, 2, 0 },
    [FAST_OP_DROPOUT] = { "p", "dropout 0.5", 1, 0, 0 },
    [FAST_OP_EMBED] = { "outputs", "embed 64", 1, 2, 0 },
    [FAST_OP_RNN] = { "outputs", "rnn 128", 1, 4, 0 },
    [FAST_OP_LSTM] = { "outputs", "lstm 128", 1, 4, 0 },
    [FAST_OP_GRU] = { "outputs", "gru 128", 1, 4, 0 },
    [FAST_OP_ATTENTION] = { "heads", "attention 4", 1, 4, 0 },
    [FAST_OP_ADD] = { NULL, "add a b", FAST_INPUTS_MAX, 0, 0 },
    [FAST_OP_CONCAT] = { NULL, "concat a b", FAST_INPUTS_MAX, 0, 0 },
    [FAST_OP_LAST] = { NULL, "last", 1, 0, 0 },
    [FAST_OP_FLATTEN] = { NULL, "flatten", 1, 0, 0 },
    [FAST_OP_MAP] = { "kind", "map clip a=0 b=6", 1, 0, 0 },
    [FAST_OP_ARITH] = { NULL, "arith a b kind=mul", FAST_INPUTS_MAX, 0, 0 },
    [FAST_OP_SCALE] = { "shape", "scale 1x8", 1, 1, 1 },
    [FAST_OP_SHIFT] = { "shape", "shift 1x8", 1, 1, 1 },
    [FAST_OP_MATMUL] = { NULL, "matmul a b", FAST_INPUTS_MAX, 0, 0 },
    [FAST_OP_TRANSPOSE] = { "shape", "transpose 1x0x2", 1, 0, 0 },
    [FAST_OP_RESHAPE] = { "shape", "reshape 4x16", 1, 0, 0 },
    [FAST_OP_SLICE] = { "axis", "slice 1 start=0 count=8", 1, 0, 0 },
    [FAST_OP_REDUCE] = { "kind", "reduce mean axes=1x2", 1, 0, 0 },
    [FAST_OP_LOG_SOFTMAX] = { NULL, "log_softmax", 1, 0, 0 },
    [FAST_OP_HEAD] = { "kind", "head weight=0.3", 1, 0, 0 },
    [FAST_OP_DETACH] = { NULL, "detach", 1, 0, 0 },
    [FAST_OP_ROUTE] = { "top", "route 2", 1, 0, 0 },
    [FAST_OP_DISPATCH] = { NULL, "dispatch a route1", FAST_INPUTS_MAX, 0, 0 },
    [FAST_OP_COMBINE] = { NULL, "combine experts1 route1", FAST_INPUTS_MAX, 0, 0 },
    [FAST_OP_EXPERTS] = { "outputs", "experts 64 count=4", 1, 2, 0 },
    [FAST_OP_PART] = { "start", "part 8 shape=4x3", 1, 0, 0 },
    [FAST_OP_LOCAL] = { "outputs", "local 8 kernel=5", 1, 2, 0 },
    [FAST_OP_DELAY] = { "steps", "delay 1", 1, 0, 0 },
    [FAST_OP_REPEAT] = { "count", "repeat 8", 1, 0, 0 },
    [FAST_LAYER_LOSS] = { "kind", "loss cross_entropy", 0, 0, 0 },
};

/* Name of layer `i`, for fast__name_find(). */
static const char *part_name(const void *ctx, int64_t i)
{
    return ((const fast_part *)ctx)[i].name;
}

/* The table as help, completion and documentation read it. */
const fast_part *fast__layer_list(int64_t *count_out)
{
    *count_out = FAST_LAYER_LOSS + 1;
    return parts;
}

/* The properties of an operator's line; `loss` is at FAST_LAYER_LOSS. */
const fast_layer_kind *fast__layer_kind(fast_op op)
{
    FAST_ASSERT((int)op >= 0);
    FAST_ASSERT((int)op <= FAST_LAYER_LOSS);
    return &kinds[op];
}

/* Look a name up. The message suggests a similar name, or the page that lists all. */
fast_err fast__layer_find(const char *name, int line, fast_op *out)
{
    const char *nearest = NULL;
    const int64_t i = fast__name_find(name, part_name, parts, FAST_LAYER_LOSS + 1, &nearest);

    if (i < 0 && nearest)
        return fast__fail(FAST_EINVAL, "line %d: no layer \"%.40s\"; did you mean \"%s\"?", line,
                          name, nearest);
    if (i < 0)
        return fast__fail(FAST_EINVAL,
                          "line %d: no layer \"%.40s\"; docs/networks.md lists the layers", line,
                          name);
    *out = (fast_op)i;
    return FAST_OK;
}
