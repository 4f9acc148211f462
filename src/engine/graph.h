/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/plugin.h"
#include "tensor/reshard.h"
#include "tensor/segment.h"

/*
 * A network as an engine sees it: nodes in topological order. Node 0 is the input; the loss is
 * computed from the last node's output. Shapes are those of one sample:
 *
 *   [C, H, W]   images          [T, C]   sequences          [C]   vectors
 *
 * Parameters are one flat vector (`params`), batch-norm statistics a second (`state`). Weights have
 * PyTorch's shapes and meaning everywhere, so that files and reference results agree.
 *
 *     node   op           inputs   shape          weight
 *     0      input                 [1, 28, 28]
 *     1      conv         0        [20, 24, 24]   conv1.weight, conv1.bias      = segments 0, 1
 *     2      max_pool     1        [20, 12, 12]
 *     3      relu         2        [20, 12, 12]
 *     4      dense        3        [10]           dense1.weight, dense1.bias    = segments 2, 3
 *
 *     params   | segment 0 | segment 1 | segment 2          | segment 3 |       no gaps
 */
typedef enum fast_op {
    FAST_OP_INPUT,       /* node 0; the batch itself */
    FAST_OP_DENSE,       /* y = x W' + b; W [out, in]. [T, C] per position; [C, H, W] flattened */
    FAST_OP_CONV,        /* W [out, in / groups, kh, kw], b [out] */
    FAST_OP_MAX_POOL,    /* padding never is the maximum */
    FAST_OP_AVG_POOL,    /* padding counts, as in PyTorch */
    FAST_OP_GLOBAL_POOL, /* mean over H, W -> [C]; over T -> [C] */
    FAST_OP_RELU,        /* max(x, 0) */
    FAST_OP_LEAKY_RELU,  /* slope a */
    FAST_OP_TANH,        /* hyperbolic tangent */
    FAST_OP_SIGMOID,     /* 1 / (1 + exp(-x)) */
    FAST_OP_GELU,        /* exact: x Phi(x), by erf */
    FAST_OP_SOFTMAX,     /* over the last dimension of [C] and [T, C] */
    FAST_OP_BATCH_NORM,  /* per channel; weight, bias [C]; state mean, var [C]; a = eps, b =
                           momentum; ghost = samples per statistic, 0 for the batch */
    FAST_OP_LAYER_NORM,  /* over the last dimension of [C], [T, C]; weight, bias [C]; a = eps */
    FAST_OP_DROPOUT,     /* a = probability; other values are scaled by 1 / (1 - a) */
    FAST_OP_EMBED,       /* input [T] of whole numbers -> [T, C]; weight [vocabulary, C]; position =
                           also adds position.weight [T, C] */
    FAST_OP_RNN,         /* Elman, tanh: h = tanh(Wih x + bih + Whh h + bhh); [T, C] -> [T, H] */
    FAST_OP_LSTM,        /* gates i, f, g, o; PyTorch's weight_ih, weight_hh, bias_ih, bias_hh */
    FAST_OP_GRU,         /* gates r, z, n; PyTorch's weights as for the LSTM */
    FAST_OP_ATTENTION,   /* causal multi-head self-attention, [T, C] -> [T, C]: in_proj [3C, C] +
                           bias, out_proj [C, C] + bias; heads; a part of the heads has a
                           part of the rows of in_proj and the columns of out_proj */
    FAST_OP_ADD,         /* sum of inputs of one shape */
    FAST_OP_CONCAT,      /* along C of [C, H, W], [T, C], [C] */
    FAST_OP_LAST,        /* last position of a sequence: [T, C] -> [C] */
    FAST_OP_FLATTEN,     /* [C, H, W] or [T, C] -> [C], row major */
    FAST_OP_MAP,         /* a function of each element (engine/element.h); a, b its numbers */
    FAST_OP_ARITH,       /* a function of two inputs, broadcast */
    FAST_OP_SCALE,       /* y = x w, broadcast; weight, or a frozen tensor in the state */
    FAST_OP_SHIFT,       /* y = x + w, as scale */
    FAST_OP_MATMUL,      /* [T, k] [k, C] or [h, T, k] [h, k, C] */
    FAST_OP_TRANSPOSE,   /* dimensions of a sample in another order */
    FAST_OP_RESHAPE,     /* another shape of a sample, row major */
    FAST_OP_SLICE,       /* a range of one dimension */
    FAST_OP_REDUCE,      /* mean or sum over some dimensions */
    FAST_OP_LOG_SOFTMAX, /* logarithm of softmax, over the last dimension */
    FAST_OP_HEAD,        /* y = x; in training a times the loss of x joins that of the pass; b =
                            label smoothing */
    FAST_OP_DETACH,      /* y = x; no gradient passes */
    FAST_OP_ROUTE,       /* logits [T, E] -> slots and gates of positions (engine/experts.h) */
    FAST_OP_DISPATCH,    /* [T, C] and a route -> [E slots, C] */
    FAST_OP_COMBINE,     /* [E slots, C] and a route -> [T, C] */
    FAST_OP_EXPERTS,     /* a dense layer for each of `groups` ranges of positions: [E S, C] ->
                           [E S, D]; weight [E D, C], bias [E D] */
    FAST_OP_PART,        /* a range of the elements of [C] or [T, C], from columns[0] on, in
                           another shape of that kind */
    FAST_OP_LOCAL,       /* a window as that of conv, with own weights at each place: weight [OH,
                           OW, out, in kh kw], bias [OH, OW, out]; with groups = k those of places
                           k apart are equal: [k, k, ...] */
    FAST_OP_DELAY,       /* [T, C], some positions later: y[t] = x[t - steps], zeros first */
    FAST_OP_REPEAT,      /* [C] or [C, H, W] -> [T, C H W]: the same at each position */
    FAST_OP_CUSTOM,      /* an operator that the user supplies */
    FAST_OP_CLASS_FIGURES,  /* of split networks: logits of the classes from columns[0] on, [P, K]
                           -> [P, 4] (engine/class_range.h) */
    FAST_OP_ATTENTION_CORE, /* of split networks: causal attention between its two products, q, k
                           and v in one, [T, 3 W] -> [T, W]; heads; columns[1]: positions in all
                           shards, of which T see all before, 0: T */
    FAST_OP_EXCHANGE,       /* of split networks: y is x in another layout over the shards */
    FAST_OP_COUNT
} fast_op;

const char *fast__op_name(fast_op op); /* "conv", as the network file writes it */

typedef enum fast_loss {
    FAST_LOSS_CROSS_ENTROPY, /* of softmax(outputs); labels or soft targets; mean over positions */
    FAST_LOSS_MSE,           /* mean over samples and outputs of (y - target)^2 */
    FAST_LOSS_BALANCE,       /* of heads: balance of experts, from logits alone */
    FAST_LOSS_BEST,          /* of heads: cross-entropy of the best of several members, whose scores
                                follow each other, for each sample */
    FAST_LOSS_FIGURES        /* of split networks: cross-entropy of figures of all shards */
} fast_loss;

/* The use of the loss of the outputs. */
typedef enum fast_loss_use {
    FAST_LOSS_TRAINED,   /* it is minimised, together with those of heads */
    FAST_LOSS_EVALUATED, /* training minimises the losses of heads alone */
    FAST_LOSS_ELSEWHERE  /* the outputs go to another part of a split network */
} fast_loss_use;

enum { FAST_INPUTS_MAX = 8, FAST_WEIGHTS_MAX = 6 };

/* Index in `weight` of each kind of weight. */
enum {
    FAST_W_WEIGHT = 0,  /* dense, conv, norms, embed; weight_ih; in_proj.weight */
    FAST_W_BIAS = 1,    /* bias_ih; in_proj.bias; embed: position.weight */
    FAST_W_WEIGHT2 = 2, /* weight_hh; out_proj.weight */
    FAST_W_BIAS2 = 3,   /* bias_hh; out_proj.bias */
    FAST_W_GAIN = 4     /* weight norm: g [out]; weight is v, the effective weight g v / |v| per
                           output (dense and conv only) */
};

/* One operation of the network. */
typedef struct fast_node {
    fast_op op;                       /* operation that it computes */
    int input_count;                  /* 0 for the input, else at least 1 */
    int inputs[FAST_INPUTS_MAX];      /* indices of earlier nodes */
    int rank;                         /* rank of the output */
    int64_t shape[3];                 /* of one sample's output; 0 past the rank */
    int64_t count;                    /* product of shape: elements of one sample's output */
    int64_t weight[FAST_WEIGHTS_MAX]; /* segment index in params, or -1 */
    int64_t state[2];                 /* segment index in state: mean, var; or -1 */
    /* Attributes; 0 if the operator does not use them. */
    int64_t kernel[2], stride[2], pad[2], dilation[2]; /* y, x */
    int64_t groups;                                    /* conv: independent groups of channels;
                                                          experts: their number; local: places to
                                                          the next ones of equal weights, or 0;
                                                          input of streaming layers: elements of a
                                                          sample in a block */
    int64_t heads;                                     /* attention */
    int64_t ghost;                                     /* batch norm: samples per statistic */
    fast_loss loss;                                    /* head: its loss */
    int64_t columns[2]; /* head: first target that it answers; targets of a row in all; part, and
                                    dropout of a part: first element; local of a part: first row;
                                    embed: first token of a part of the table, and tokens in all, 0:
                                    it has all; input of streaming layers: elements of a sample
                                    before the chain, and behind it */
    float a, b;         /* meaning depends on the operator, see fast_op */
    const fast_reshard *exchange; /* of split networks: what the node exchanges with other shards in
                                     the middle of a pass (engine/pass_parts.h): exchange, and batch
                                     norm with statistics of all shards; NULL: nothing; borrowed */
    const fast_operator *custom;  /* FAST_OP_CUSTOM; borrowed */
    const void *custom_config;    /* passed to its functions; borrowed */
    int global;                   /* part of a split network: 1 + its number in the whole one, which
                                    keys dropout masks; 0: its index is that number */
} fast_node;

/* A network: what engines compile and models build. */
typedef struct fast_graph {
    fast_node *nodes;       /* in topological order */
    int node_count;         /* number of nodes */
    fast_layout params;     /* layout of the trainable parameters */
    fast_layout state;      /* layout of the statistics: averaged whenever weights are averaged */
    fast_loss loss;         /* loss of the outputs */
    fast_loss_use loss_use; /* whether training minimises it */
    float label_smoothing;  /* cross-entropy: probability spread evenly over all classes */
    float *class_weights;   /* [outputs], positive: cross-entropy in training; NULL: all 1 */
    int64_t positions;      /* labels a sample: T where the output is [T, C], else 1 */
    int64_t outputs;        /* classes, or regression outputs */
    bool tokens;            /* the input holds whole numbers below `vocabulary` */
    bool input_grad;        /* the gradient of the input is computed too: part of a split network
                              that continues another part */
    int64_t vocabulary;     /* number of different tokens */
    float *initial;         /* NULL, or initial values: params, then state; owned by the graph */
} fast_graph;

/* Return the number of a node in the whole network. */
int fast__node_number(const fast_graph *graph, int node);

/* Return whether a node is a head: losses besides that of the outputs. */
bool fast__graph_has_heads(const fast_graph *graph);

/* Set needs[i] to whether the gradient of node i's output is needed: the node or one of its
 * ancestors has weights, or is an input whose gradient is asked for, and no node between them
 * detaches. `needs` has room for node_count entries. */
void fast__graph_needs(const fast_graph *graph, bool *needs);

/* Return the floating-point operations of one sample in a node's matrix products, as textbooks
 * count: a multiply and an add are two; all else is ignored. The backward pass of a product is one
 * product of that size for its weights and one for its input, if that is needed. */
double fast__node_flops_forward(const fast_graph *graph, int node);
double fast__node_flops_backward(const fast_graph *graph, int node, bool input_needed);
/* Return those of the products for its weights alone, in the backward pass. */
double fast__node_flops_weights(const fast_graph *graph, int node);

/* Return the dependent operations of a node's forward pass, its depth in Work-Depth models
 * (Blelloch 1996): a product of inner length k takes 1 + ceil(log2 k), a recurrent layer that for
 * each position, any other node 1; the input takes 0. */
double fast__node_depth(const fast_graph *graph, int node);

/* Return the operations of one sample for the whole graph; `needs` is from fast__graph_needs(). */
double fast__graph_flops_forward(const fast_graph *graph);
double fast__graph_flops_train(const fast_graph *graph, const bool *needs);

/* Set the range of a node's weights in the parameters; false if the node has no weights. */
bool fast__node_params(const fast_graph *graph, int node, int64_t *offset_out, int64_t *count_out);

/* Check the invariants of engines: inputs precede their nodes, segments follow each other without
 * gaps and belong to exactly one node, outputs fit the loss. FAST_EINVAL names the node. */
fast_err fast__graph_check(const fast_graph *graph);

/* Return the number of different weights of a local node, and which of them place p has. */
int64_t fast__local_filters(const fast_node *node);
int64_t fast__local_filter(const fast_node *node, int64_t p);

/* Return the channels of all heads of an attention node: those of its output, or with a part of the
 * heads a part of them. */
int64_t fast__attention_width(const fast_graph *graph, int node);

/* Rows and columns of a dense layer for one sample: one product per position of [T, C], otherwise
 * one product with the flattened sample. */
typedef struct fast_dense_shape {
    int64_t rows;    /* products per sample */
    int64_t inputs;  /* columns of W */
    int64_t outputs; /* rows of W */
} fast_dense_shape;
fast_dense_shape fast__dense_shape(const fast_graph *graph, int node);
