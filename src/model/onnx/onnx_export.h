/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/element.h"
#include "model/onnx/onnx.h"
#include "model/onnx/onnx_wire.h"

enum { FAST_ONNX_NAME_MAX = 96 };

/* A graph that is being written. */
typedef struct onnx_export {
    const fast_graph *graph; /* its source */
    const float *params;     /* values of the parameters */
    const float *state;      /* values of the state */
    fast_proto_out nodes;    /* fields of the GraphProto: nodes, then initialisers */
    fast_proto_out tensors;  /* initialisers */
    fast_proto_out attrs;    /* attributes of the next node */
    int node;                /* node of the graph that is written */
    int temporaries;         /* values made inside of nodes so far */
    fast_err err;            /* first failure */
} onnx_export;

/* The name of a value or initialiser. */
typedef struct onnx_name {
    char text[FAST_ONNX_NAME_MAX]; /* zero-terminated */
} onnx_name;

/* Return the name of a node's output, a new name, and the name of a segment. */
onnx_name fast__export_value(const onnx_export *ex, int node);
onnx_name fast__export_new(onnx_export *ex);

/* Add an attribute to the next node. */
void fast__export_int(onnx_export *ex, const char *name, int64_t value);
void fast__export_real(onnx_export *ex, const char *name, float value);
void fast__export_ints(onnx_export *ex, const char *name, int count, const int64_t *values);

/* Write a node with the attributes so far; inputs end with NULL. Returns its output. */
onnx_name fast__export_node(onnx_export *ex, const char *op, onnx_name output, ...)
    __attribute__((sentinel));

/* Write an initialiser: floats, whole numbers, one number. Returns its name. */
onnx_name fast__export_floats(onnx_export *ex, const char *name, int rank, const int64_t *shape,
                              const float *values);
onnx_name fast__export_shape(onnx_export *ex, int count, const int64_t *values);
onnx_name fast__export_number(onnx_export *ex, float value);

/* Write a node `Constant` of floats that are not trained. Returns its name. */
onnx_name fast__export_constant(onnx_export *ex, const char *name, int rank, const int64_t *shape,
                                const float *values);

/* Write a segment of a weight as it is; a matrix [out, in] transposed. */
onnx_name fast__export_segment(onnx_export *ex, const fast_segment *segment, const float *values);
onnx_name fast__export_transposed(onnx_export *ex, const fast_segment *segment,
                                  const float *values);

/* Return a segment of the current node by slot; NULL if it has none. */
const fast_segment *fast__export_weight(const onnx_export *ex, int slot);

/* Write a value in another shape of a sample. */
onnx_name fast__export_reshape(onnx_export *ex, onnx_name x, onnx_name out, int rank,
                               const int64_t *shape);

/* Write one node of a graph that fast__onnx_check() accepts: onnx_export_layer.c,
 * onnx_export_element.c. Failures are in ex->err. */
void fast__export_layer(onnx_export *ex, const fast_node *node, onnx_name x, onnx_name y);
void fast__export_element(onnx_export *ex, const fast_node *node, onnx_name x, onnx_name y);
