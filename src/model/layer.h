/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/option.h"
#include "engine/element.h"
#include "engine/graph.h"
#include "model/network.h"

/*
 * From a line of text to a node: the table of layers, parsed lines, and the construction of a
 * graph.
 *
 *   line of text --network.c--> fast_layer --build.c, shapes.c--> fast_node and its segments
 *
 * For example "skip: conv 50 kernel=3 pad=1 bias=no from pool1" becomes
 *
 *   fast_layer   op CONV, label "skip", inputs { index of pool1 }, config { outputs 50, ... }
 *   fast_node    op CONV, inputs { node of pool1 }, shape [50, H, W], kernel { 3, 3 }, ...
 *   segment      "skip.weight" [50, C, 3, 3], in the parameters behind those of earlier lines
 *
 * What depends on the data (shapes, counts, the default loss) is checked in the second step alone,
 * so that a network can be parsed once and fitted to several data sets.
 */
enum {
    FAST_LAYERS_MAX = 4096, /* nodes of a graph */
    FAST_LABEL_MAX = 44,    /* bytes of a layer's name; ".position.weight" must still fit */
    FAST_LINE_MAX = 1024,   /* bytes of a line */
    FAST_WORDS_MAX = 24,    /* words of a line */
    FAST_PAIR_MAX = 40,     /* bytes of "3x5" */
    FAST_STACK_MAX = 64,    /* recurrent layers of one line */
    /* The line `loss` takes the custom operator's place in the table, which has no line. */
    FAST_LAYER_LOSS = FAST_OP_CUSTOM
};

/* Largest number of elements of one sample in a node, of one segment, and of attention's scores of
 * one sample: products with a batch then fit 64 bits. */
#define FAST_COUNT_MAX ((int64_t)1 << 31)

/* The options of the elementary layers: map, scale, shift, transpose, reshape, slice, reduce,
 * route, delay, repeat; and of experts. */
typedef struct fast_layer_element {
    char shape[FAST_PAIR_MAX]; /* scale, shift: of the weight; reshape; transpose: the order */
    char axes[FAST_PAIR_MAX];  /* reduce: dimensions, "1x2" */
    int64_t axis;              /* slice: dimension */
    int64_t start;             /* slice: first element; head: first target that it answers */
    int64_t count;             /* slice: number of elements; experts: their number; delay: steps;
                                  repeat: positions */
    int64_t top;               /* route: experts of a position */
    double capacity;           /* route: slots of an expert, in shares of the positions */
    double a, b;               /* map: numbers of the function */
    bool frozen;               /* scale, shift: the weight is not trained */
} fast_layer_element;

/* The options of all layers; each layer uses its own. */
typedef struct fast_layer_config {
    int64_t outputs;              /* dense, conv, embed, rnn, lstm, gru; 0: not given */
    char kernel[FAST_PAIR_MAX];   /* conv, pools: "5" or "3x5" */
    char stride[FAST_PAIR_MAX];   /* conv, pools: step of the window; "kernel" for pools */
    char pad[FAST_PAIR_MAX];      /* conv, pools: border; "same" for conv */
    char dilation[FAST_PAIR_MAX]; /* conv: distance between the window's points */
    int64_t groups;               /* conv: independent groups of channels; local: its tile */
    int64_t ghost;                /* batch_norm: samples per statistic */
    int64_t heads;                /* attention: number of heads */
    int64_t layers;               /* rnn, lstm, gru: stacked layers */
    int64_t tokens;               /* input: vocabulary; 0: numbers */
    double eps;                   /* norms: added to the variance */
    double momentum;              /* batch_norm: weight of a batch in the running statistics */
    double p;                     /* dropout: probability */
    double slope;                 /* leaky_relu: slope below zero */
    double std;                   /* standard deviation of init=normal */
    double forget;                /* lstm: bias of the forget gate */
    double smoothing;             /* loss, head: label smoothing */
    double weight;                /* head: factor of its loss */
    bool train;                   /* loss: it is minimised */
    bool bias;                    /* dense, conv: add a bias */
    bool weight_norm;             /* dense, conv: train length and direction separately */
    bool position;                /* embed: also add position vectors */
    int init;                     /* a fast_init_rule */
    int kind;                     /* loss: a fast_loss; head: 0, or 1 + a fast_loss; map, arith:
                                     the function; reduce: sum */
    fast_layer_element element;   /* options of the elementary layers */
} fast_layer_config;

/* One parsed line. */
typedef struct fast_layer {
    fast_op op;                  /* operator of its node */
    char label[FAST_LABEL_MAX];  /* unique in the network */
    uint64_t hash;               /* hash of the label, for a quick search */
    int line;                    /* line number, from 1; 0 for an implicit input */
    int input_count;             /* number of inputs */
    int inputs[FAST_INPUTS_MAX]; /* indices of earlier layers */
    int rank;                    /* FAST_OP_INPUT: rank of one sample; 0: the data's */
    int64_t shape[3];            /* FAST_OP_INPUT: shape of one sample */
    fast_layer_config config;    /* values of its options */
    const fast_operator *custom; /* FAST_OP_CUSTOM: borrowed */
    const void *custom_config;   /* passed to the operator's functions; borrowed */
} fast_layer;

/* A network under construction: the parsed lines. */
struct fast_network {
    fast_layer *layers;         /* the first is the input */
    int layer_count;            /* number of layers */
    int layer_capacity;         /* allocated layers */
    int line;                   /* number of lines added */
    int node_count;             /* number of nodes that the layers become */
    int ordinal[FAST_OP_COUNT]; /* layers of each operator so far, for default names */
    bool loss_given;            /* the `loss` line was added; nothing may follow it */
    fast_loss loss;             /* from the `loss` line */
    float label_smoothing;      /* from the `loss` line */
    bool evaluated;             /* from the `loss` line: training minimises the heads' losses */
};

/* The properties of a layer besides its options. */
typedef struct fast_layer_kind {
    const char *positional; /* option that the first bare word sets, or NULL */
    const char *example;    /* a correct line, for messages */
    int inputs_max;         /* 1, or FAST_INPUTS_MAX: bare words are inputs */
    int param_max;          /* largest number of parameter segments of a node */
    int state_max;          /* largest number of state segments of a node */
} fast_layer_kind;

/* Return the properties of a layer. fast__layer_list() is indexed by fast_op, with `loss` at
 * FAST_LAYER_LOSS. */
const fast_layer_kind *fast__layer_kind(fast_op op);

/* Find the operator of a layer's name; FAST_EINVAL names the line and the nearest name. */
fast_err fast__layer_find(const char *name, int line, fast_op *out);

/* A graph under construction. */
typedef struct fast_build {
    const fast_network *network; /* its source */
    fast_graph *graph;           /* node_count and the layouts' counts grow as layers are built */
    fast_segment *params;        /* graph->params.segments, writable */
    fast_segment *state;         /* graph->state.segments, writable */
    fast_element *elements;      /* configurations of elementary nodes, in the graph's block */
    int64_t element_count;       /* number of them so far */
    const fast_layer *layer;     /* layer that is being built */
    int64_t part;                /* index in a stack of recurrent layers, from 0 */
} fast_build;

/* Fill in rank, shape, attributes and weights of `node`, whose inputs are known. FAST_EINVAL. */
fast_err fast__layer_infer(fast_build *build, fast_node *node);

/* Do the same for the elementary operators. */
fast_err fast__layer_infer_element(fast_build *build, fast_node *node);

/* Do the same for a part. */
fast_err fast__layer_infer_part(fast_build *build, fast_node *node);

/* Add a parameter of this rank and shape to `node`, named label.suffix, or a vector to its state.
 * It is initialised with zeros unless the caller changes that. FAST_EINVAL if it is too large. */
fast_err fast__build_param(fast_build *build, fast_node *node, int slot, const char *suffix,
                           int rank, const int64_t *shape, fast_segment **out);
fast_err fast__build_state(fast_build *build, fast_node *node, int slot, const char *suffix,
                           int64_t count, fast_segment **out);

/* Write a shape as "3x28x28". Returns `text`. */
const char *fast__shape_text(int rank, const int64_t *shape, char text[64]);

/* Fail with the line and the layer in front: `line 3: conv1: ...`. */
#define FAST_LAYER_FAIL(build, format, ...)                                                      \
    fast__fail(FAST_EINVAL, "line %d: %s: " format, (build)->layer->line, (build)->layer->label, \
               __VA_ARGS__)
