/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/layer.h"
#include "model/network_text.h"
#include "model/onnx/onnx.h"
#include "model/onnx/onnx_eval.h"

/*
 * Import: each value of the ONNX graph is a constant, or a layer of the network. Shapes of ONNX
 * include the batch, those of layers do not. While shapes are computed, the batch has the size
 * FAST_ONNX_BATCH, a prime that no other dimension has, so that products and quotients of
 * dimensions show where the batch went: [batch T, C] is a sequence of T positions a sample.
 *
 * Row-major order makes every reshape that leaves the batch in front a change of view: a value
 * remembers its layer and its own shape, and a layer `reshape` is written only where a consumer
 * needs another shape than the layer has.
 */
#define FAST_ONNX_BATCH ((int64_t)1000003)

/* A value: a constant if tensor.values is set, a layer if line >= 0, else not computed yet. */
typedef struct import_value {
    fast_onnx_tensor tensor;           /* the constant */
    fast_span origin;                  /* name of the initialiser that it moves elements of */
    int line;                          /* line that computes it, or -1 */
    int rank;                          /* of a layer's value, with the batch */
    int64_t shape[FAST_ONNX_RANK_MAX]; /* of a layer's value, with the batch */
    int uses;                          /* nodes that read it, plus 1 for an output of the graph */
} import_value;

/* The shape of one sample. */
typedef struct import_shape {
    int rank;        /* 1 to 3 */
    int64_t dims[3]; /* dimensions; 0 past the rank */
} import_shape;

/* A line of the network. */
typedef struct import_line {
    char label[FAST_LABEL_MAX];  /* unique */
    char text[160];              /* layer and options */
    int input_count;             /* number of inputs */
    int inputs[FAST_INPUTS_MAX]; /* earlier lines */
    import_shape shape;          /* shape of its output for one sample */
    bool weights;                /* has weights: never merged with an equal line */
    bool open_bias;              /* a dense layer that may still get a bias */
    bool used;                   /* the output depends on it */
} import_line;

/* Values of one segment. */
typedef struct import_weight {
    int line;                   /* its layer */
    const char *suffix;         /* "weight": the segment is label.suffix */
    int64_t count;              /* number of values */
    float *values;              /* owned */
    struct import_weight *next; /* list, latest first */
} import_weight;

/* An import that is under way. */
typedef struct onnx_import {
    const fast_onnx_model *model;  /* the file */
    const fast_model_input *input; /* the data; may be NULL */
    fast_onnx_budget budget;       /* limits of computed constants */
    int64_t batch;                 /* batch of the file's shapes; 0: free */
    import_value *values;          /* per value of the model */
    import_line *lines;            /* lines so far */
    int line_count;                /* number of lines */
    int line_max;                  /* capacity */
    import_weight *weights;        /* list of weights */
    int64_t vocabulary;            /* tokens, once an embedding is found */
} onnx_import;

/* A node that becomes layers. FAST_ENOTSUP says what has no layer. */
typedef fast_err import_fn(onnx_import *im, const fast_onnx_node *node);

/* A row of the tables of importers. An operator is in one table; the tables are searched in the
 * order below. Functions may rely on the inputs that ONNX demands, and on nothing else: shapes,
 * types and attributes are the file's. */
typedef struct import_row {
    const char *name; /* operator */
    import_fn *run;   /* writes its layers */
} import_row;

/* The tables by file; each ends with a row without a name. */
extern const import_row fast__import_layers[]; /* onnx_layers.c: products, windows, norms */
extern const import_row fast__import_moves[];  /* onnx_moves.c: shapes, cuts, joins */
extern const import_row fast__import_arith[];  /* onnx_arith.c: functions of elements */

/* Return input or output i of a node; NULL if it is omitted. */
import_value *fast__import_in(onnx_import *im, const fast_onnx_node *node, int i);
import_value *fast__import_out(onnx_import *im, const fast_onnx_node *node, int i);

/* Return input i if it is a layer, NULL if it is a constant or omitted; and the converse. */
import_value *fast__import_layer(onnx_import *im, const fast_onnx_node *node, int i);
const fast_onnx_tensor *fast__import_constant(onnx_import *im, const fast_onnx_node *node, int i);

/* Make input i a layer or fail: the node's operator takes no constant there. */
fast_err fast__import_need_layer(onnx_import *im, const fast_onnx_node *node, int i,
                                 import_value **out);

/* Compute the shape of one sample of a value. FAST_ENOTSUP if the batch is not its first
 * dimension, or a sample has more than 3 dimensions. `axis_out` may be NULL: number of dimensions
 * in front of the sample's, 0 if the batch is a factor of the first, else 1. */
fast_err fast__import_sample(const fast_onnx_node *node, int rank, const int64_t *shape,
                             import_shape *out, int *front_out);

/* Return in *line_out a line that gives the value in this shape: its own, or a reshape. */
fast_err fast__import_view(onnx_import *im, const fast_onnx_node *node, const import_value *value,
                           import_shape shape, int *line_out);

/* Write a line; *line_out is an equal earlier line if there is one and it has no weights. `label`
 * may be empty. */
fast_err fast__import_line(onnx_import *im, const fast_onnx_node *node, const import_line *draft,
                           fast_span label, int *line_out);

/* Write a line with one input and its shape, without weights. */
fast_err fast__import_simple(onnx_import *im, const fast_onnx_node *node, int input,
                             import_shape shape, int *line_out, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* Attach values to a line's segment label.suffix: the tensor's elements times `scale`. Matrices are
 * transposed if asked for. */
fast_err fast__import_weight(onnx_import *im, int line, const char *suffix,
                             const fast_onnx_tensor *tensor, double scale, bool transposed);

/* Write a number, within 1e30, as the shortest text that is the same 32-bit float. */
const char *fast__import_real(double value, char text[32]);

/* Set output i of a node to a line, with the batch in its shape. */
void fast__import_set(onnx_import *im, const fast_onnx_node *node, int i, int line, int rank,
                      const int64_t *shape);

/* Let output 0 be input 0. */
fast_err fast__import_alias(onnx_import *im, const fast_onnx_node *node);
