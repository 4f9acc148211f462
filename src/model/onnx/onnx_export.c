/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A graph with its weights as an ONNX file (IR 8, operators of version 17). Each node becomes one
 * or more nodes of ONNX; the batch is a free first dimension, which shapes write as -1. The loss is
 * not part of the file: the output has the last layer's values.
 *
 *     ModelProto   1 ir_version, 2 producer_name, 3 producer_version, 7 graph, 8 opset_import
 *     GraphProto   1 node, 2 name, 5 initializer, 11 input, 12 output
 *     NodeProto    1 input, 2 output, 3 name, 4 op_type, 5 attribute
 *
 * Tensors have the names of the segments, so that an import of the file gives the layers their
 * names back. Weights are written as they are trained; a batch norm has its running statistics.
 *
 * Failures of memory are collected in the buffers and looked at once, so that the functions that
 * write nodes read like the list of nodes that they write.
 */
#include "model/onnx/onnx_export.h"

#include "base/file.h"
#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { TYPE_FLOAT = 1, TYPE_INT64 = 7, IR = 8, OPSET = 17 };

/* Names are unique by their number; the graph's ends have fixed names for programs to use. */
onnx_name fast__export_value(const onnx_export *ex, int node)
{
    onnx_name name;

    if (node == 0)
        snprintf(name.text, sizeof name.text, "input");
    else if (node == ex->graph->node_count - 1)
        snprintf(name.text, sizeof name.text, "output");
    else
        snprintf(name.text, sizeof name.text, "%s_%d", fast__op_name(ex->graph->nodes[node].op),
                 node);
    return name;
}

/* A layer may need several nodes of ONNX: values between them are numbered in the layer's name. */
onnx_name fast__export_new(onnx_export *ex)
{
    onnx_name name;

    snprintf(name.text, sizeof name.text, "%s_%d.%d", fast__op_name(ex->graph->nodes[ex->node].op),
             ex->node, ex->temporaries++);
    return name;
}

/* Begin an attribute: its name and the type of its value (1 float, 2 int, 4 tensor, 7 ints). */
static fast_proto_out attribute(const char *name, int type)
{
    fast_proto_out out = { 0 };

    fast__proto_put_text(&out, 1, name); /* name */
    fast__proto_put_int(&out, 20, type); /* type */
    return out;
}

/* Attributes are collected until their node is written. */
void fast__export_int(onnx_export *ex, const char *name, int64_t value)
{
    fast_proto_out out = attribute(name, 2);

    fast__proto_put_int(&out, 3, value); /* i */
    fast__proto_put_message(&ex->attrs, 5, &out);
}

/* ONNX's attributes are 32-bit floats. */
void fast__export_real(onnx_export *ex, const char *name, float value)
{
    fast_proto_out out = attribute(name, 1);

    fast__proto_put_float(&out, 2, value); /* f */
    fast__proto_put_message(&ex->attrs, 5, &out);
}

/* Lists need not be packed. */
void fast__export_ints(onnx_export *ex, const char *name, int count, const int64_t *values)
{
    fast_proto_out out = attribute(name, 7);

    for (int i = 0; i < count; i++)
        fast__proto_put_int(&out, 8, values[i]); /* ints */
    fast__proto_put_message(&ex->attrs, 5, &out);
}

/* The node has the name of its output. The attributes so far are its own; the list is then empty.
 */
onnx_name fast__export_node(onnx_export *ex, const char *op, onnx_name output, ...)
{
    fast_proto_out node = { 0 };
    va_list inputs;

    va_start(inputs, output);
    for (const char *input = va_arg(inputs, const char *); input;
         input = va_arg(inputs, const char *))
        fast__proto_put_text(&node, 1, input); /* input */
    va_end(inputs);
    fast__proto_put_text(&node, 2, output.text); /* output */
    fast__proto_put_text(&node, 3, output.text); /* name */
    fast__proto_put_text(&node, 4, op);          /* op_type */
    fast__proto_put_fields(&node, &ex->attrs);   /* attribute */
    fast__proto_fini(&ex->attrs);
    fast__proto_put_message(&ex->nodes, 1, &node); /* node */
    return output;
}

/* Make a tensor of `bytes` bytes as raw_data. FAST runs on little-endian machines, whose memory is
 * the format's order. */
static fast_proto_out tensor(const char *name, int type, int rank, const int64_t *shape,
                             const void *values, size_t bytes)
{
    fast_proto_out out = { 0 };

    for (int d = 0; d < rank; d++)
        fast__proto_put_int(&out, 1, shape[d]);    /* dims */
    fast__proto_put_int(&out, 2, type);            /* data_type */
    fast__proto_put_text(&out, 8, name);           /* name */
    fast__proto_put_bytes(&out, 9, values, bytes); /* raw_data */
    return out;
}

/* Make a tensor of floats; one of rank 0 is a number. */
static fast_proto_out floats(const char *name, int rank, const int64_t *shape, const float *values)
{
    int64_t count = 1;

    for (int d = 0; d < rank; d++)
        count *= shape[d];
    return tensor(name, TYPE_FLOAT, rank, shape, values, (size_t)count * sizeof *values);
}

/* An import trains initialisers of floats. */
onnx_name fast__export_floats(onnx_export *ex, const char *name, int rank, const int64_t *shape,
                              const float *values)
{
    fast_proto_out out = floats(name, rank, shape, values);
    onnx_name result;

    snprintf(result.text, sizeof result.text, "%s", name);
    fast__proto_put_message(&ex->tensors, 5, &out); /* initializer */
    return result;
}

/* An import does not train what a node gives. */
onnx_name fast__export_constant(onnx_export *ex, const char *name, int rank, const int64_t *shape,
                                const float *values)
{
    fast_proto_out value = floats(name, rank, shape, values);
    fast_proto_out out = attribute("value", 4);
    onnx_name result;

    snprintf(result.text, sizeof result.text, "%s", name);
    fast__proto_put_message(&out, 5, &value); /* t */
    fast__proto_put_message(&ex->attrs, 5, &out);
    return fast__export_node(ex, "Constant", result, NULL);
}

/* Shapes, starts, ends and axes are tensors of whole numbers in newer versions. */
onnx_name fast__export_shape(onnx_export *ex, int count, const int64_t *values)
{
    const onnx_name name = fast__export_new(ex);
    const int64_t size = count;

    fast_proto_out out =
        tensor(name.text, TYPE_INT64, 1, &size, values, (size_t)count * sizeof *values);

    fast__proto_put_message(&ex->tensors, 5, &out); /* initializer */
    return name;
}

/* A number of a formula, as a tensor of rank 0. */
onnx_name fast__export_number(onnx_export *ex, float value)
{
    return fast__export_floats(ex, fast__export_new(ex).text, 0, NULL, &value);
}

/* The segment's name is the tensor's, so that an import finds it again. */
onnx_name fast__export_segment(onnx_export *ex, const fast_segment *segment, const float *values)
{
    return fast__export_floats(ex, segment->name, segment->rank, segment->shape, values);
}

/* MatMul takes [in, out], dense layers have [out, in]. */
onnx_name fast__export_transposed(onnx_export *ex, const fast_segment *segment, const float *values)
{
    const int64_t rows = segment->shape[0];
    const int64_t columns = segment->count / rows;
    onnx_name name = { "" };
    float *turned = NULL;

    if (!ex->err)
        ex->err = fast__alloc("a transposed weight", segment->count, sizeof *turned, &turned);
    if (ex->err)
        return name;
    for (int64_t i = 0; i < segment->count; i++)
        turned[i % columns * rows + i / columns] = values[i];
    name = fast__export_floats(ex, segment->name, 2, (int64_t[]){ columns, rows }, turned);
    fast__free(turned);
    return name;
}

/* Slots are those of fast_node. */
const fast_segment *fast__export_weight(const onnx_export *ex, int slot)
{
    const int64_t i = ex->graph->nodes[ex->node].weight[slot];

    return i < 0 ? NULL : &ex->graph->params.segments[i];
}

/* The batch is -1: whatever is left. */
onnx_name fast__export_reshape(onnx_export *ex, onnx_name x, onnx_name out, int rank,
                               const int64_t *shape)
{
    int64_t target[4] = { -1, 0, 0, 0 };

    FAST_ASSERT(rank <= 3);
    memcpy(target + 1, shape, (size_t)rank * sizeof *shape);
    const onnx_name to = fast__export_shape(ex, rank + 1, target);
    return fast__export_node(ex, "Reshape", out, x.text, to.text, NULL);
}

/* Write the graph's input or output: name, element type, shape with a free batch. The messages are
 * nested five deep: info, type, tensor type, shape, dimension. */
static void put_port(fast_proto_out *graph, uint32_t field, const char *name, int type,
                     const fast_node *node)
{
    fast_proto_out shape = { 0 };
    fast_proto_out dim = { 0 };
    fast_proto_out tensor = { 0 };
    fast_proto_out info = { 0 };
    fast_proto_out kind = { 0 };

    fast__proto_put_text(&dim, 2, "batch"); /* dim_param */
    fast__proto_put_message(&shape, 1, &dim);
    for (int d = 0; d < node->rank; d++) {
        fast__proto_put_int(&dim, 1, node->shape[d]); /* dim_value */
        fast__proto_put_message(&shape, 1, &dim);
    }
    fast__proto_put_int(&tensor, 1, type);       /* elem_type */
    fast__proto_put_message(&tensor, 2, &shape); /* shape */
    fast__proto_put_message(&kind, 1, &tensor);  /* tensor_type */
    fast__proto_put_text(&info, 1, name);        /* name */
    fast__proto_put_message(&info, 2, &kind);    /* type */
    fast__proto_put_message(graph, field, &info);
}

/* Write all nodes in the graph's order, which is topological, as ONNX demands. */
static fast_err put_nodes(onnx_export *ex)
{
    const fast_graph *graph = ex->graph;

    for (ex->node = 1; ex->node < graph->node_count; ex->node++) {
        const fast_node *node = &graph->nodes[ex->node];
        const onnx_name x = fast__export_value(ex, node->inputs[0]);
        const onnx_name y = fast__export_value(ex, ex->node);
        if (fast__element_operator(node->op))
            fast__export_element(ex, node, x, y);
        else
            fast__export_layer(ex, node, x, y);
        FAST_TRY(ex->err);
    }
    return FAST_OK;
}

/* Assemble the file: nodes, initialisers, ports, then versions around them. */
static void put_model(onnx_export *ex, fast_proto_out *model)
{
    const fast_graph *graph = ex->graph;
    fast_proto_out body = { 0 };
    fast_proto_out opset = { 0 };

    fast__proto_put_fields(&body, &ex->nodes);
    fast__proto_put_text(&body, 2, "fast"); /* name */
    fast__proto_put_fields(&body, &ex->tensors);
    put_port(&body, 11, "input", graph->tokens ? TYPE_INT64 : TYPE_FLOAT, &graph->nodes[0]);
    put_port(&body, 12, "output", TYPE_FLOAT, &graph->nodes[graph->node_count - 1]);
    fast__proto_put_int(model, 1, IR);              /* ir_version */
    fast__proto_put_text(model, 2, "fast");         /* producer_name */
    fast__proto_put_text(model, 3, fast_version()); /* producer_version */
    fast__proto_put_message(model, 7, &body);       /* graph */
    fast__proto_put_text(&opset, 1, "");            /* domain: ONNX itself */
    fast__proto_put_int(&opset, 2, OPSET);          /* version */
    fast__proto_put_message(model, 8, &opset);      /* opset_import */
}

/* Write everything at once: the writer of fast__file_replace(). */
static fast_err write_bytes(void *ctx, void *stream)
{
    const fast_proto_out *model = ctx;

    return fast__file_put(stream, model->data, model->size);
}

/* Recurrent and locally connected layers, delays, experts and the caller's operators are the only
 * ones without a translation. */
fast_err fast__onnx_check(const fast_graph *graph)
{
    for (int i = 0; i < graph->node_count; i++) {
        const fast_op op = graph->nodes[i].op;
        if (op == FAST_OP_RNN || op == FAST_OP_LSTM || op == FAST_OP_GRU || op == FAST_OP_CUSTOM ||
            op == FAST_OP_ROUTE || op == FAST_OP_DISPATCH || op == FAST_OP_COMBINE ||
            op == FAST_OP_EXPERTS || op == FAST_OP_PART || op == FAST_OP_LOCAL ||
            op == FAST_OP_DELAY || op == FAST_OP_REPEAT)
            return fast__fail(FAST_ENOTSUP,
                              "a network with a layer %s cannot be saved as ONNX; save it as "
                              "safetensors",
                              fast__op_name(op));
    }
    return FAST_OK;
}

/* The file is replaced as a whole, or stays as it was. */
fast_err fast__onnx_save(const fast_graph *graph, const float *params, const float *state,
                         const char *path)
{
    onnx_export ex = { .graph = graph, .params = params, .state = state };
    fast_proto_out model = { 0 };
    fast_err err = fast__onnx_check(graph);

    if (!err)
        err = put_nodes(&ex);
    if (!err) {
        put_model(&ex, &model);
        err = model.err;
    }
    if (!err)
        err = fast__file_replace(path, write_bytes, &model);
    fast__proto_fini(&ex.nodes);
    fast__proto_fini(&ex.tensors);
    fast__proto_fini(&ex.attrs);
    fast__proto_fini(&model);
    return err;
}
