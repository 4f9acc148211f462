/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/option.h"
#include "engine/graph.h"
#include "model/network.h"

/*
 * Between a line of text and a node: the table of layers, parsed lines, and the building of a
 * graph.
 *
 *   line of text --network.c--> fast_layer --build.c, shapes.c--> fast_node and its segments
 */
enum {
    FAST_LAYERS_MAX = 4096, /* nodes of a graph */
    FAST_LABEL_MAX = 44,    /* bytes of a layer's name; ".position.weight" must still fit */
    FAST_LINE_MAX = 1024,   /* bytes of a line */
    FAST_WORDS_MAX = 24,    /* words of a line */
    FAST_PAIR_MAX = 24,     /* bytes of "3x5" */
    FAST_STACK_MAX = 64,    /* recurrent layers of one line */
    FAST_LAYER_LOSS = FAST_OP_CUSTOM /* the line `loss` takes the custom operator's place in the
                                        table: that one has no line */
};

/* Elements of one sample in a node, of one segment, and of attention's scores of one sample, at
 * most: products with a batch then fit 64 bits. */
#define FAST_COUNT_MAX ((int64_t)1 << 31)

/* The options of all layers. */
typedef struct fast_layer_config {
    int64_t outputs;              /* dense, conv, embed, rnn, lstm, gru; 0: not given */
    char kernel[FAST_PAIR_MAX];   /* conv, pools: "5" or "3x5" */
    char stride[FAST_PAIR_MAX];   /* likewise; "kernel" for pools */
    char pad[FAST_PAIR_MAX];      /* likewise; "same" for conv */
    char dilation[FAST_PAIR_MAX]; /* conv */
    int64_t groups;               /* conv */
    int64_t ghost;                /* batch_norm */
    int64_t heads;                /* attention */
    int64_t layers;               /* rnn, lstm, gru */
    int64_t tokens;               /* input: vocabulary; 0: numbers */
    double eps;                   /* norms */
    double momentum;              /* batch_norm */
    double p;                     /* dropout */
    double slope;                 /* leaky_relu */
    double std;                   /* of init=normal */
    double forget;                /* lstm: bias of the forget gate */
    double smoothing;             /* loss cross_entropy */
    bool bias;                    /* dense, conv */
    bool weight_norm;             /* dense, conv */
    bool position;                /* embed */
    int init;                     /* fast_init_rule */
    int kind;                     /* loss: fast_loss */
} fast_layer_config;

/* One line, parsed. */
typedef struct fast_layer {
    fast_op op;
    char label[FAST_LABEL_MAX]; /* unique in the network */
    uint64_t hash;              /* of the label, for a quick search */
    int line;                   /* where it stands, from 1; 0 for an input that no line gives */
    int input_count;
    int inputs[FAST_INPUTS_MAX]; /* layers before this one */
    int rank;                    /* FAST_OP_INPUT: of one sample; 0: the data's */
    int64_t shape[3];
    fast_layer_config config;
    const fast_operator *custom; /* FAST_OP_CUSTOM: borrowed */
    const void *custom_config;
} fast_layer;

struct fast_network {
    fast_layer *layers; /* the first is the input */
    int layer_count;
    int layer_capacity;
    int line;                   /* lines added so far */
    int node_count;             /* nodes that the layers become */
    int ordinal[FAST_OP_COUNT]; /* layers of each operator, for names */
    bool loss_given;            /* a `loss` line came; nothing may follow it */
    fast_loss loss;
    float label_smoothing;
};

/* What the table knows of a layer besides its options. */
typedef struct fast_layer_kind {
    const char *positional; /* option that the first bare word sets, or NULL */
    const char *example;    /* a right line, for messages */
    int inputs_max;         /* 1, or FAST_INPUTS_MAX: bare words are inputs */
    int param_max;          /* segments of a node at most */
    int state_max;
} fast_layer_kind;

/* fast__layer_list() is indexed by fast_op, with `loss` at FAST_LAYER_LOSS. */
const fast_layer_kind *fast__layer_kind(fast_op op);

/* The operator of a layer's name; FAST_EINVAL names the line and the nearest one. */
fast_err fast__layer_find(const char *name, int line, fast_op *out);

/* A graph under construction. */
typedef struct fast_build {
    const fast_network *network;
    fast_graph *graph;       /* node_count and the layouts' counts grow as layers are built */
    fast_segment *params;    /* graph->params.segments, writable */
    fast_segment *state;     /* graph->state.segments, writable */
    const fast_layer *layer; /* being built */
    int64_t part;            /* of a stack of recurrent layers, from 0 */
} fast_build;

/* Fill in rank, shape, attributes and weights of `node`, whose inputs are known. */
fast_err fast__layer_infer(fast_build *build, fast_node *node);

/* Add a parameter to `node` with this rank and shape, named label.suffix. Its initialisation is
 * zeros until the caller sets another. Overflow is FAST_EINVAL. */
fast_err fast__build_param(fast_build *build, fast_node *node, int slot, const char *suffix,
                           int rank, const int64_t *shape, fast_segment **out);
fast_err fast__build_state(fast_build *build, fast_node *node, int slot, const char *suffix,
                           int64_t count, fast_segment **out);

/* "3x28x28", of a node or of data. Returns `text`. */
const char *fast__shape_text(int rank, const int64_t *shape, char text[64]);

/* Fail with the line and the layer in front: `line 3: conv1: ...`. */
#define FAST_LAYER_FAIL(build, format, ...)                                                      \
    fast__fail(FAST_EINVAL, "line %d: %s: " format, (build)->layer->line, (build)->layer->label, \
               __VA_ARGS__)
