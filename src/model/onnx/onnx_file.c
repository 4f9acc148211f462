/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the bytes of an ONNX file to nodes over numbered values. The fields that are read:
 *
 *     ModelProto      7 graph, 8 opset_import
 *     OperatorSetId   1 domain, 2 version
 *     GraphProto      1 node, 5 initializer, 11 input, 12 output, 15 sparse_initializer (refused)
 *     NodeProto       1 input, 2 output, 3 name, 4 op_type, 5 attribute, 7 domain
 *     ValueInfoProto  1 name, 2 type: 1 tensor_type: 1 elem_type, 2 shape: 1 dim: 1 dim_value
 *
 * The graph is scanned twice: to count, and to fill arrays of the right size. Names become numbers
 * by a hash table. Subgraphs are never entered, so that a file's nesting costs nothing.
 */
#include "model/onnx/onnx_file.h"

#include "base/hash.h"
#include "base/memory.h"

#include <string.h>

/* A file that is being parsed. */
typedef struct onnx_parse {
    fast_onnx_model *model; /* the result so far */
    fast_span graph;        /* GraphProto */
    int64_t value_max;      /* capacity of model->values */
    int64_t io_count;       /* numbers in model->io so far */
    int32_t *table;         /* hash table of value indices, -1: free */
    uint64_t table_mask;    /* its size, a power of two, minus 1 */
} onnx_parse;

/* Counts of the first scan. */
typedef struct onnx_counts {
    int64_t nodes;        /* node messages */
    int64_t io;           /* inputs and outputs of nodes */
    int64_t values;       /* names that may be defined */
    int64_t inputs;       /* graph inputs */
    int64_t outputs;      /* graph outputs */
    int64_t initializers; /* initialisers */
} onnx_counts;

/* Fail for bytes that are no protobuf message, or lack a field that every valid file has. `what`
 * is the part that was being read. */
static fast_err damaged(const char *what)
{
    return fast__fail(FAST_EFORMAT, "is no ONNX file, or damaged: its %s is malformed", what);
}

/* Count the inputs and outputs of a node, and with them the values that may be defined. The limit
 * on both keeps the arrays of the evaluator on the stack. */
static fast_err count_node(fast_span message, onnx_counts *counts)
{
    fast_proto wire = fast__proto_open(message);
    fast_proto_field field;
    int io[2] = { 0, 0 };

    while (fast__proto_next(&wire, &field))
        if ((field.number == 1 || field.number == 2) && field.type == FAST_PROTO_BYTES)
            io[field.number - 1]++;
    if (wire.bad)
        return damaged("node");
    if (io[0] > FAST_ONNX_IO_MAX || io[1] > FAST_ONNX_IO_MAX)
        return fast__fail(FAST_EFORMAT, "node %lld has more than %d inputs or outputs",
                          (long long)counts->nodes, FAST_ONNX_IO_MAX);
    counts->io += io[0] + io[1];
    counts->values += io[1];
    counts->nodes++;
    return FAST_OK;
}

/* The first scan of the graph: count, so that the second can fill arrays that never grow. The
 * counts are bounded by the size of the file, since each counted thing has bytes in it, and by
 * limits of their own. */
static fast_err count_graph(fast_span graph, onnx_counts *counts)
{
    fast_proto wire = fast__proto_open(graph);
    fast_proto_field field;

    while (fast__proto_next(&wire, &field)) {
        if (field.type != FAST_PROTO_BYTES)
            continue;
        if (field.number == 1) /* node */
            FAST_TRY(count_node(field.bytes, counts));
        if (field.number == 15)
            return fast__fail(FAST_ENOTSUP, "has sparse initialisers, which are not supported");
        counts->initializers += field.number == 5; /* initializer */
        counts->inputs += field.number == 11;      /* input */
        counts->outputs += field.number == 12;     /* output */
    }
    counts->values += counts->initializers + counts->inputs;
    if (wire.bad)
        return damaged("graph");
    if (counts->nodes > FAST_ONNX_NODES_MAX || counts->values > 16 * FAST_ONNX_NODES_MAX)
        return fast__fail(FAST_EFORMAT, "has %lld nodes and %lld values; at most %d and %d",
                          (long long)counts->nodes, (long long)counts->values, FAST_ONNX_NODES_MAX,
                          16 * FAST_ONNX_NODES_MAX);
    return FAST_OK;
}

/* Return the slot of a name in the hash table: that of the value of this name, or the free one
 * where it would go. The table is at least twice as large as the number of values, so that a free
 * slot is always found. */
static int32_t *find_slot(const onnx_parse *parse, fast_span name)
{
    uint64_t i = fast__hash(name.size ? (const void *)name.data : "", name.size, 0);

    for (;; i++) {
        int32_t *slot = &parse->table[i & parse->table_mask];
        const fast_span *other = *slot < 0 ? NULL : &parse->model->values[*slot].name;
        if (!other || (other->size == name.size && memcmp(other->data, name.data, name.size) == 0))
            return slot;
    }
}

/* Define a value. A name that is defined twice is an error: ONNX demands that each value has one
 * source, and a second one could replace a weight unseen. */
static fast_err define(onnx_parse *parse, fast_onnx_value value, int *out)
{
    int32_t *slot = find_slot(parse, value.name);
    char text[FAST_SPAN_TEXT_MAX];

    if (*slot >= 0)
        return fast__fail(FAST_EFORMAT, "defines the value \"%s\" twice",
                          fast__span_text(value.name, text));
    FAST_ASSERT(parse->model->value_count < parse->value_max);
    *slot = parse->model->value_count++;
    parse->model->values[*slot] = value;
    *out = *slot;
    return FAST_OK;
}

/* Define an initialiser by its name, which is field 8 of a TensorProto. Its numbers are decoded
 * when they are first needed. */
static fast_err take_initializer(onnx_parse *parse, fast_span message)
{
    fast_proto wire = fast__proto_open(message);
    fast_proto_field field;
    fast_onnx_value value = { .initializer = message, .node = -1 };
    int index = 0;

    while (fast__proto_next(&wire, &field))
        if (field.number == 8 && field.type == FAST_PROTO_BYTES)
            value.name = field.bytes;
    if (wire.bad || value.name.size == 0)
        return damaged("initialiser");
    return define(parse, value, &index);
}

/* Return the bytes of the first message `number` in a message, or an empty span. An empty span as
 * the message gives an empty span again, so that calls can be nested. */
static fast_span inside(fast_span message, uint32_t number)
{
    fast_proto wire = fast__proto_open(message);
    fast_proto_field field;

    while (message.data && fast__proto_next(&wire, &field))
        if (field.number == number && field.type == FAST_PROTO_BYTES)
            return field.bytes;
    return (fast_span){ NULL, 0 };
}

/* Return the first whole number `number` of a message, or `standard` if it has none. */
static int64_t inside_int(fast_span message, uint32_t number, int64_t standard)
{
    fast_proto wire = fast__proto_open(message);
    fast_proto_field field;

    while (message.data && fast__proto_next(&wire, &field))
        if (field.number == number && field.type == FAST_PROTO_VARINT)
            return (int64_t)field.value;
    return standard;
}

/* Read name, element type and shape of a graph's input or output. A dimension without a number, or
 * with a name instead, is free; a port without a shape has rank -1. */
static fast_err take_port(fast_span message, fast_onnx_port *port, fast_span *name_out)
{
    const fast_span tensor = inside(inside(message, 2), 1);
    const fast_span shape = inside(tensor, 2);
    fast_proto wire = fast__proto_open(shape);
    fast_proto_field field;
    char text[FAST_SPAN_TEXT_MAX];

    *name_out = inside(message, 1);
    *port = (fast_onnx_port){ .value = -1,
                              .type = (int)inside_int(tensor, 1, 0),
                              .rank = shape.data ? 0 : -1 };
    if (!name_out->data || name_out->size == 0)
        return damaged("input or output");
    while (shape.data && fast__proto_next(&wire, &field)) {
        if (field.number != 1 || field.type != FAST_PROTO_BYTES)
            continue;
        if (port->rank == FAST_ONNX_RANK_MAX)
            return fast__fail(FAST_ENOTSUP, "the value \"%s\" has more than %d dimensions",
                              fast__span_text(*name_out, text), FAST_ONNX_RANK_MAX);
        port->shape[port->rank++] = inside_int(field.bytes, 1, -1);
    }
    return wire.bad ? damaged("shape") : FAST_OK;
}

/* Take an input of the graph. Files before IR version 4 list initialisers as inputs, too: those
 * are weights and no inputs. */
static fast_err take_input(onnx_parse *parse, fast_span message)
{
    fast_onnx_model *model = parse->model;
    fast_onnx_port *port = &model->inputs[model->graph_inputs];
    fast_span name;

    FAST_TRY(take_port(message, port, &name));
    if (*find_slot(parse, name) >= 0 &&
        model->values[*find_slot(parse, name)].initializer.data != NULL)
        return FAST_OK;
    FAST_TRY(define(parse, (fast_onnx_value){ .name = name, .node = -1 }, &port->value));
    model->graph_inputs++;
    return FAST_OK;
}

/* Add an input of a node. Nodes of a valid file are sorted, so that an input that is not defined
 * yet is an error; this also excludes cycles. An empty name is an input that is left out. */
static fast_err take_use(onnx_parse *parse, const fast_onnx_node *node, fast_span name)
{
    const int32_t value = name.size > 0 ? *find_slot(parse, name) : -1;
    char text[FAST_SPAN_TEXT_MAX];

    if (name.size > 0 && value < 0)
        return fast__onnx_fail(FAST_EFORMAT, node,
                               "reads \"%s\", which no earlier node gives: the graph has a "
                               "cycle, is not sorted, or lacks a value",
                               fast__span_text(name, text));
    parse->model->io[parse->io_count++] = value;
    return FAST_OK;
}

/* Add a node: inputs first, which must be defined, then outputs, which it defines. A node thus
 * cannot read its own output. */
static fast_err take_node(onnx_parse *parse, fast_span message)
{
    fast_onnx_model *model = parse->model;
    fast_onnx_node *node = &model->nodes[model->node_count];
    fast_proto_field field;

    *node = (fast_onnx_node){ .index = model->node_count,
                              .name = inside(message, 3),   /* name */
                              .op = inside(message, 4),     /* op_type */
                              .domain = inside(message, 7), /* domain */
                              .message = message,
                              .input_first = (int)parse->io_count };
    for (fast_proto wire = fast__proto_open(message); fast__proto_next(&wire, &field);)
        if (field.number == 1 && field.type == FAST_PROTO_BYTES) {
            FAST_TRY(take_use(parse, node, field.bytes));
            node->input_count++;
        }
    /* Outputs follow the inputs in `io`, whatever the order of the fields. */
    node->output_first = (int)parse->io_count;
    for (fast_proto wire = fast__proto_open(message); fast__proto_next(&wire, &field);) {
        int value = -1;
        if (field.number != 2 || field.type != FAST_PROTO_BYTES)
            continue;
        if (field.bytes.size > 0)
            FAST_TRY(define(parse, (fast_onnx_value){ .name = field.bytes, .node = node->index },
                            &value));
        model->io[parse->io_count++] = value;
        node->output_count++;
    }
    model->node_count++;
    return FAST_OK;
}

/* The second scan: initialisers, inputs, nodes, outputs, in this order, since the fields of a
 * message may come in any. */
static fast_err take_graph(onnx_parse *parse)
{
    static const uint32_t order[] = { 5, 11, 1, 12 };
    fast_onnx_model *model = parse->model;
    fast_proto_field field;
    char text[FAST_SPAN_TEXT_MAX];

    for (int pass = 0; pass < 4; pass++)
        for (fast_proto wire = fast__proto_open(parse->graph); fast__proto_next(&wire, &field);) {
            if (field.number != order[pass] || field.type != FAST_PROTO_BYTES)
                continue;
            if (pass == 0) /* initialisers */
                FAST_TRY(take_initializer(parse, field.bytes));
            if (pass == 1) /* inputs */
                FAST_TRY(take_input(parse, field.bytes));
            if (pass == 2) /* nodes */
                FAST_TRY(take_node(parse, field.bytes));
            if (pass == 3) { /* outputs */
                fast_onnx_port *port = &model->outputs[model->graph_outputs];
                fast_span name;
                FAST_TRY(take_port(field.bytes, port, &name));
                port->value = *find_slot(parse, name);
                if (port->value < 0)
                    return fast__fail(FAST_EFORMAT, "no node gives its output \"%s\"",
                                      fast__span_text(name, text));
                model->graph_outputs++;
            }
        }
    return FAST_OK;
}

/* Allocate the arrays of the counted sizes, and a hash table of at least twice the values. */
static fast_err parse_reserve(onnx_parse *parse, const onnx_counts *counts)
{
    fast_onnx_model *model = parse->model;
    uint64_t size = 16;

    /* A power of two, so that a mask replaces the division. */
    while (size < 2 * (uint64_t)counts->values)
        size *= 2;
    parse->table_mask = size - 1;
    parse->value_max = counts->values;
    FAST_TRY(fast__alloc("ONNX names", (int64_t)size, sizeof *parse->table, &parse->table));
    memset(parse->table, -1, (size_t)size * sizeof *parse->table);
    FAST_TRY(fast__alloc("ONNX nodes", counts->nodes, sizeof *model->nodes, &model->nodes));
    FAST_TRY(fast__alloc("ONNX values", counts->values, sizeof *model->values, &model->values));
    FAST_TRY(fast__alloc("ONNX edges", counts->io, sizeof *model->io, &model->io));
    FAST_TRY(fast__alloc("ONNX inputs", counts->inputs, sizeof *model->inputs, &model->inputs));
    return fast__alloc("ONNX outputs", counts->outputs, sizeof *model->outputs, &model->outputs);
}

/* Find the graph and the version of the operators in a ModelProto. Versions of other domains are
 * of no use: nodes of other domains are refused when they are met. */
static fast_err take_model(onnx_parse *parse, fast_span file)
{
    fast_proto wire = fast__proto_open(file);
    fast_proto_field field;

    while (fast__proto_next(&wire, &field)) {
        if (field.type != FAST_PROTO_BYTES)
            continue;
        if (field.number == 7) /* graph */
            parse->graph = field.bytes;
        if (field.number == 8 && inside(field.bytes, 1).size == 0)
            parse->model->opset = inside_int(field.bytes, 2, 1);
    }
    if (wire.bad || !parse->graph.data)
        return damaged("model");
    if (parse->model->opset < 1)
        return fast__fail(FAST_EFORMAT, "does not say which version of the operators it uses");
    return FAST_OK;
}

/* Scan, allocate, scan again. A failed parse leaves nothing behind. */
fast_err fast__onnx_open(const void *data, size_t size, fast_onnx_model **out)
{
    onnx_parse parse = { 0 };
    onnx_counts counts = { 0 };
    fast_err err = fast__alloc("an ONNX model", 1, sizeof *parse.model, &parse.model);

    if (!err) {
        parse.model->size = (int64_t)size;
        err = take_model(&parse, (fast_span){ data, size });
    }
    if (!err)
        err = count_graph(parse.graph, &counts);
    if (!err)
        err = parse_reserve(&parse, &counts);
    if (!err)
        err = take_graph(&parse);
    fast__free(parse.table);
    if (err) {
        fast__onnx_close(parse.model);
        return err;
    }
    *out = parse.model;
    return FAST_OK;
}

/* Free the arrays; spans point into the caller's bytes. */
void fast__onnx_close(fast_onnx_model *model)
{
    if (!model)
        return;
    fast__free(model->nodes);
    fast__free(model->values);
    fast__free(model->io);
    fast__free(model->inputs);
    fast__free(model->outputs);
    fast__free(model);
}
