/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/onnx/onnx_wire.h"

/* An ONNX file as nodes over numbered values. Everything points into the file's bytes. */

enum {
    FAST_ONNX_RANK_MAX = 8,      /* dimensions of a tensor */
    FAST_ONNX_NODES_MAX = 65536, /* nodes of a graph */
    FAST_ONNX_IO_MAX = 64        /* inputs of a node, outputs of a node */
};

/* Element types, as ONNX numbers them. */
typedef enum fast_onnx_type {
    FAST_ONNX_FLOAT = 1,    /* 32 bits */
    FAST_ONNX_UINT8 = 2,    /* 8 bits, no sign */
    FAST_ONNX_INT8 = 3,     /* 8 bits */
    FAST_ONNX_UINT16 = 4,   /* 16 bits, no sign */
    FAST_ONNX_INT16 = 5,    /* 16 bits */
    FAST_ONNX_INT32 = 6,    /* 32 bits */
    FAST_ONNX_INT64 = 7,    /* 64 bits: shapes and indices */
    FAST_ONNX_BOOL = 9,     /* one byte, 0 or 1 */
    FAST_ONNX_FLOAT16 = 10, /* half precision */
    FAST_ONNX_DOUBLE = 11,  /* 64 bits */
    FAST_ONNX_UINT32 = 12,  /* 32 bits, no sign */
    FAST_ONNX_UINT64 = 13   /* 64 bits, no sign */
} fast_onnx_type;

/* A tensor in memory. Numbers of every type are doubles: whole numbers up to 2^53 are exact, and
 * results are rounded to the type. */
typedef struct fast_onnx_tensor {
    int type;                          /* a fast_onnx_type */
    int rank;                          /* 0 to FAST_ONNX_RANK_MAX */
    int64_t shape[FAST_ONNX_RANK_MAX]; /* dimensions; each may be 0 */
    int64_t count;                     /* product of shape */
    double *values;                    /* row major; owned; NULL: no tensor */
    bool trainable;                    /* moved elements of a float initialiser */
} fast_onnx_tensor;

/* One node. */
typedef struct fast_onnx_node {
    int index;         /* position in the file, from 0 */
    fast_span name;    /* may be empty */
    fast_span op;      /* operator */
    fast_span domain;  /* empty for ONNX's own operators */
    fast_span message; /* the node's bytes, for its attributes */
    int input_first;   /* first of its inputs in model->io */
    int input_count;   /* number of inputs; an omitted one is -1 */
    int output_first;  /* first of its outputs in model->io */
    int output_count;  /* number of outputs */
} fast_onnx_node;

/* A value: a tensor that flows through the graph. */
typedef struct fast_onnx_value {
    fast_span name;        /* unique */
    fast_span initializer; /* TensorProto; data NULL if it is computed or an input */
    int node;              /* node that gives it; -1: initialiser or input */
} fast_onnx_value;

/* An input or output of the graph. */
typedef struct fast_onnx_port {
    int value;                         /* its value; -1: none of that name */
    int type;                          /* element type; 0: unknown */
    int rank;                          /* -1: unknown */
    int64_t shape[FAST_ONNX_RANK_MAX]; /* -1: free */
} fast_onnx_port;

/* A parsed file. */
typedef struct fast_onnx_model {
    int64_t opset;           /* version of ONNX's operators */
    fast_onnx_node *nodes;   /* topologically sorted */
    int node_count;          /* number of nodes */
    fast_onnx_value *values; /* all tensors by name */
    int value_count;         /* number of values */
    int *io;                 /* values of the nodes' inputs and outputs */
    fast_onnx_port *inputs;  /* inputs that are no initialisers */
    int graph_inputs;        /* number of inputs */
    fast_onnx_port *outputs; /* outputs of the graph */
    int graph_outputs;       /* number of outputs */
    int64_t size;            /* bytes of the file */
} fast_onnx_model;

/* Parse a file. The model points into `data`. FAST_EFORMAT for damaged bytes, values without a
 * source, defined twice or read before they are defined; FAST_ENOTSUP for data in other files. */
fast_err fast__onnx_open(const void *data, size_t size, fast_onnx_model **out);
void fast__onnx_close(fast_onnx_model *model); /* NULL is allowed */

/* Decode a TensorProto. The caller frees it. FAST_EFORMAT if its shape and its bytes differ,
 * FAST_ENOTSUP for types that are no numbers and for data in other files. */
fast_err fast__onnx_tensor_decode(fast_span message, fast_onnx_tensor *out);

/* Allocate the values of a tensor, zeroed. FAST_ENOMEM. */
fast_err fast__onnx_tensor_new(int type, int rank, const int64_t *shape, fast_onnx_tensor *out);
void fast__onnx_tensor_fini(fast_onnx_tensor *tensor);

/* Multiply a shape's dimensions; false if one is negative or the product passes 2^40. */
bool fast__onnx_count(int rank, const int64_t *shape, int64_t *out);

/* Round a number to a type: whole numbers wrap as in C. */
double fast__onnx_round(int type, double value);

/* Convert a number of a tensor to a whole number: within 2^53, and -2^53 for NaN. */
int64_t fast__onnx_whole(double value);

/* Fail with the node in front: node 17 "/layer/Resize": ... */
fast_err fast__onnx_fail(fast_err err, const fast_onnx_node *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Read an attribute of a node, or give its default. A malformed attribute counts as absent. */
int64_t fast__onnx_int(const fast_onnx_node *node, const char *name, int64_t standard);
double fast__onnx_real(const fast_onnx_node *node, const char *name, double standard);
bool fast__onnx_text_is(const fast_onnx_node *node, const char *name, const char *text);
bool fast__onnx_has(const fast_onnx_node *node, const char *name);
/* Read up to `max` whole numbers; returns their number, -1 if the attribute is absent. */
int fast__onnx_ints(const fast_onnx_node *node, const char *name, int max, int64_t *out);
/* The same for 32-bit floats. */
int fast__onnx_reals(const fast_onnx_node *node, const char *name, int max, double *out);
/* Return the bytes of a tensor attribute; data NULL if it is absent. */
fast_span fast__onnx_tensor_attribute(const fast_onnx_node *node, const char *name);
