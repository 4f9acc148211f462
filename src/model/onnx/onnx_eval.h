/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/onnx/onnx_file.h"

/*
 * Nodes computed on constant tensors, for shape arithmetic and derived weights at import: plain
 * loops over doubles, results rounded to the tensor's type. Checked with ONNX's own node tests.
 */

/* Limits of all computed tensors of one file, so that a small file cannot ask for much. */
typedef struct fast_onnx_budget {
    int64_t elements; /* numbers that may still be allocated */
    int64_t work;     /* multiplications that may still be done */
} fast_onnx_budget;

/* Return the limits for a file of this size. */
fast_onnx_budget fast__onnx_budget(int64_t file_size);

/* One node on its inputs. */
typedef struct fast_onnx_call {
    const fast_onnx_node *node;        /* operator and attributes */
    int64_t opset;                     /* version of the operators */
    fast_onnx_budget *budget;          /* remaining limits */
    const fast_onnx_tensor *const *in; /* inputs; NULL where omitted */
    int in_count;                      /* number of inputs */
    fast_onnx_tensor *out;             /* outputs, zeroed */
    int out_count;                     /* number of outputs */
} fast_onnx_call;

/* Compute a node. The caller frees the outputs, also after a failure. FAST_ENOTSUP names an
 * operator or attribute that is not supported, FAST_EFORMAT inputs that do not fit. */
fast_err fast__onnx_eval(fast_onnx_call *call);

/* List the operators, for tests and documentation; ends with NULL. */
const char *fast__onnx_operator(int i);

/* Return the number of inputs that an operator cannot do without; 0 if it is not in the tables. */
int fast__onnx_inputs_min(fast_span op);

/* One row of the tables of operators. */
typedef struct fast_onnx_operator {
    const char *name;                   /* as ONNX writes it */
    int inputs_min;                     /* inputs that must be there */
    fast_err (*run)(fast_onnx_call *c); /* computes the outputs */
} fast_onnx_operator;

/* The tables by file; each ends with a row without a name. */
extern const fast_onnx_operator fast__onnx_shape_operators[]; /* onnx_eval_shape.c */
extern const fast_onnx_operator fast__onnx_layer_operators[]; /* onnx_eval_layer.c */

/* Allocate output i within the budget. */
fast_err fast__onnx_out(fast_onnx_call *c, int i, int type, int rank, const int64_t *shape);

/* Spend multiplications. FAST_EFORMAT if the file asks for too many. */
fast_err fast__onnx_work(fast_onnx_call *c, int64_t count);

/* Compute the shape of tensors a and b broadcast against each other; false if they do not fit. */
bool fast__onnx_broadcast(const fast_onnx_tensor *a, int rank, int64_t *shape, int *rank_out);

/* Return the element of `t` at position `i` of a tensor of this shape that `t` is broadcast to. */
int64_t fast__onnx_broadcast_at(const fast_onnx_tensor *t, int rank, const int64_t *shape,
                                int64_t i);

/* Return an axis from 0, or -1 if it is out of range. */
int fast__onnx_axis(int64_t axis, int rank);

/* Read the axes of input `i` or of attribute `name` as bits; `standard` if the node has neither.
 * Returns false if one is out of range. */
bool fast__onnx_axes(const fast_onnx_call *c, int i, const char *name, int rank, unsigned standard,
                     unsigned *out);
