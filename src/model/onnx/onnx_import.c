/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Import of an ONNX graph: nodes in order, each computed at once if its inputs are constants, else
 * written as layers by the table of its operator; then the lines that the output depends on are
 * the network's text, and their weights go by segment name. For example
 *
 *     node 0   Conv      x, conv1.weight        conv1: conv 8 kernel=3x3 ... bias=no from input
 *     node 1   Relu                             relu_2: relu from conv1
 *     node 2   Shape                            constant [batch, 8, 26, 26]
 *     node 3   Gather    shape, 0               constant batch
 *     node 4   Concat    batch, -1              constant [batch, -1]
 *     node 5   Reshape   relu, [batch, -1]      no line: the value is relu_2, seen as [batch, 5408]
 *     node 6   Gemm      reshape, fc.weight     flatten_3: flatten from relu_2
 *                                               fc: dense 10 bias=yes from flatten_3
 *
 * The result is text rather than a graph, so that there is one way to build a graph: an imported
 * network is checked, shown, saved and rebuilt like any other.
 *
 * Cost: the file in memory, its weights once as doubles and once as floats.
 */
#include "model/onnx/onnx_import.h"

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Protobuf's own limit. */
#define FILE_MAX ((size_t)1 << 31)

/* Weights that survive the import. */
struct fast_onnx_weights {
    int64_t count; /* number of segments */
    struct {
        char name[FAST_SEGMENT_NAME_MAX]; /* of the segment */
        int64_t count;                    /* number of values */
        float *values;                    /* owned */
    } list[];                             /* the segments */
};

/* Inputs that a node leaves out at its end are as absent as those with an empty name. */
import_value *fast__import_in(onnx_import *im, const fast_onnx_node *node, int i)
{
    const int v = i < node->input_count ? im->model->io[node->input_first + i] : -1;

    return v < 0 ? NULL : &im->values[v];
}

/* An output without a name is one that nobody reads. */
import_value *fast__import_out(onnx_import *im, const fast_onnx_node *node, int i)
{
    const int v = i < node->output_count ? im->model->io[node->output_first + i] : -1;

    return v < 0 ? NULL : &im->values[v];
}

/* A value is a layer once a line computes it. */
import_value *fast__import_layer(onnx_import *im, const fast_onnx_node *node, int i)
{
    import_value *value = fast__import_in(im, node, i);

    return value && value->line >= 0 ? value : NULL;
}

/* A value is a constant once it has numbers: an initialiser that was read, or a computed tensor. */
const fast_onnx_tensor *fast__import_constant(onnx_import *im, const fast_onnx_node *node, int i)
{
    const import_value *value = fast__import_in(im, node, i);

    return value && value->tensor.values ? &value->tensor : NULL;
}

/* Operators with weights on the left, such as a constant times a layer, have no layer here. */
fast_err fast__import_need_layer(onnx_import *im, const fast_onnx_node *node, int i,
                                 import_value **out)
{
    *out = fast__import_layer(im, node, i);
    return *out ? FAST_OK
                : fast__onnx_fail(FAST_ENOTSUP, node,
                                  "input %d is a constant; it must depend on the network's input",
                                  i);
}

/* The batch is dimension 0, or a factor of it: [batch, 3, 8, 8] is [3, 8, 8] a sample, and [batch
 * 12, 24] is [12, 24] a sample. A value [batch] is one number a sample. */
fast_err fast__import_sample(const fast_onnx_node *node, int rank, const int64_t *shape,
                             import_shape *out, int *front_out)
{
    const int front = rank > 0 && shape[0] == FAST_ONNX_BATCH && rank > 1 ? 1 : 0;
    import_shape s = { .rank = rank - front };

    if (rank == 0 || shape[0] == 0 || shape[0] % FAST_ONNX_BATCH != 0)
        return fast__onnx_fail(FAST_ENOTSUP, node,
                               "moves the batch away from the first dimension, or loses it");
    if (s.rank > 3)
        return fast__onnx_fail(FAST_ENOTSUP, node,
                               "works on %d dimensions a sample; layers have up to 3", s.rank);
    for (int d = 0; d < s.rank; d++) {
        s.dims[d] = d == 0 && front == 0 ? shape[0] / FAST_ONNX_BATCH : shape[front + d];
        if (s.dims[d] < 1 || s.dims[d] >= FAST_COUNT_MAX || s.dims[d] % FAST_ONNX_BATCH == 0)
            return fast__onnx_fail(FAST_ENOTSUP, node, "has an empty or mixed dimension %d", d);
    }
    *out = s;
    if (front_out)
        *front_out = front;
    return FAST_OK;
}

/* Tell whether a label is in use. Linear, as networks have a few thousand lines at most. */
static bool label_used(const onnx_import *im, const char *label)
{
    for (int i = 0; i < im->line_count; i++)
        if (strcmp(im->lines[i].label, label) == 0)
            return true;
    return false;
}

/* Name a line: by its weight's name up to the last dot, so that PyTorch's `layer1.0.conv1.weight`
 * is the weight of the layer `layer1.0.conv1` and has its name in saved files; else by operator
 * and number. Characters that the language does not allow become `_`. */
static void set_label(const onnx_import *im, import_line *line, fast_span name)
{
    size_t size = name.size;
    char *c = line->label;

    while (size > 0 && name.data[size - 1] != '.')
        size--;
    if (size > 1 && size < FAST_LABEL_MAX - 4) {
        memcpy(line->label, name.data, size - 1);
        line->label[size - 1] = '\0';
        for (; *c; c++)
            if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || *c == '_' ||
                  (c > line->label && ((*c >= '0' && *c <= '9') || *c == '.' || *c == '-'))))
                *c = '_';
        /* The language has taken some endings; a letter more is no such ending. */
        if (c - line->label >= 8 &&
            (strcmp(c - 8, "out_proj") == 0 || strcmp(c - 8, "position") == 0))
            memcpy(c, "_", sizeof "_");
        if (strcmp(line->label, "from") != 0 && strcmp(line->label, "input") != 0 &&
            !label_used(im, line->label))
            return;
    }
    for (int n = im->line_count;; n++) {
        snprintf(line->label, sizeof line->label, "%.*s_%d", (int)strcspn(line->text, " "),
                 line->text, n);
        if (!label_used(im, line->label))
            return;
    }
}

/* Append a line as it is, with a label of its own. The array doubles, so that lines are referred
 * to by index and never by address. */
static fast_err append_line(onnx_import *im, const fast_onnx_node *node, const import_line *draft,
                            fast_span label, int *line_out)
{
    import_line *line = NULL;

    if (im->line_count >= FAST_LAYERS_MAX)
        return fast__onnx_fail(FAST_ENOTSUP, node, "is one layer too many; at most %d",
                               FAST_LAYERS_MAX);
    if (im->line_count == im->line_max) {
        const int max = im->line_max ? 2 * im->line_max : 64;
        FAST_TRY(fast__alloc("imported layers", max, sizeof *line, &line));
        if (im->line_count > 0)
            memcpy(line, im->lines, (size_t)im->line_count * sizeof *line);
        fast__free(im->lines);
        im->lines = line;
        im->line_max = max;
    }
    line = &im->lines[im->line_count];
    *line = *draft;
    set_label(im, line, label);
    *line_out = im->line_count++;
    return FAST_OK;
}

/* Two nodes that compute the same thing of the same lines are one line, unless they have weights.
 * The language does not let a line name an input twice: a copy of it stands for the second. */
fast_err fast__import_line(onnx_import *im, const fast_onnx_node *node, const import_line *draft,
                           fast_span label, int *line_out)
{
    import_line line = *draft;

    /* The same text of the same inputs is the same value; the latest line is the likeliest. */
    for (int i = im->line_count - 1; i >= 0 && !draft->weights; i--)
        if (strcmp(im->lines[i].text, line.text) == 0 && !im->lines[i].weights &&
            im->lines[i].input_count == line.input_count &&
            memcmp(im->lines[i].inputs, line.inputs,
                   (size_t)line.input_count * sizeof line.inputs[0]) == 0) {
            *line_out = i;
            return FAST_OK;
        }
    for (int i = 1; i < line.input_count; i++)
        for (int j = 0; j < i; j++)
            if (line.inputs[j] == line.inputs[i]) {
                import_line copy = { .text = "map affine a=1 b=0",
                                     .input_count = 1,
                                     .inputs = { line.inputs[i] },
                                     .shape = im->lines[line.inputs[i]].shape };
                FAST_TRY(append_line(im, node, &copy, (fast_span){ NULL, 0 }, &line.inputs[i]));
            }
    return append_line(im, node, &line, label, line_out);
}

/* Most operators: one input, one output, options in the text. */
fast_err fast__import_simple(onnx_import *im, const fast_onnx_node *node, int input,
                             import_shape shape, int *line_out, const char *format, ...)
{
    import_line line = { .input_count = 1, .inputs = { input }, .shape = shape };
    va_list args;

    va_start(args, format);
    vsnprintf(line.text, sizeof line.text, format, args);
    va_end(args);
    return fast__import_line(im, node, &line, (fast_span){ NULL, 0 }, line_out);
}

/* Tell whether two shapes of a sample are equal; dimensions past the rank are zero. */
static bool same_shape(import_shape a, import_shape b)
{
    return a.rank == b.rank && memcmp(a.dims, b.dims, sizeof a.dims) == 0;
}

/* Row-major order makes this a change of view only, but layers have shapes: where the shape of the
 * line differs from the wanted one, a reshape is written once. */
fast_err fast__import_view(onnx_import *im, const fast_onnx_node *node, const import_value *value,
                           import_shape shape, int *line_out)
{
    char text[64];

    if (same_shape(im->lines[value->line].shape, shape)) {
        *line_out = value->line;
        return FAST_OK;
    }
    if (shape.rank == 1)
        return fast__import_simple(im, node, value->line, shape, line_out, "flatten");
    return fast__import_simple(im, node, value->line, shape, line_out, "reshape %s",
                               fast__shape_text(shape.rank, shape.dims, text));
}

/* The values are floats from here on. An [in, out] matrix of MatMul is turned, because dense
 * layers have [out, in]: element (i, j) goes to (j, i). */
fast_err fast__import_weight(onnx_import *im, int line, const char *suffix,
                             const fast_onnx_tensor *tensor, double scale, bool transposed)
{
    import_weight *weight = NULL;
    const int64_t rows = transposed ? tensor->shape[0] : 1;
    const int64_t columns = transposed ? tensor->shape[1] : tensor->count;
    fast_err err = FAST_OK;

    /* A small file may use one weight in many layers: their copies are bounded too. */
    if (tensor->count > im->budget.elements)
        return fast__fail(FAST_ENOTSUP, "uses a weight in more layers than its size allows");
    im->budget.elements -= tensor->count;
    err = fast__alloc("an imported weight", 1, sizeof *weight, &weight);
    if (!err)
        err = fast__alloc("an imported weight", tensor->count, sizeof(float), &weight->values);
    if (err) {
        fast__free(weight);
        return err;
    }
    for (int64_t i = 0; i < tensor->count; i++) {
        const double v = tensor->values[i] * scale;
        /* Masks are infinite; a finite number masks as well and survives averages. */
        weight->values[i % columns * rows + i / columns] = v > 1e30    ? 1e30F
                                                           : v < -1e30 ? -1e30F
                                                                       : (float)v;
    }
    weight->line = line;
    weight->suffix = suffix;
    weight->count = tensor->count;
    weight->next = im->weights;
    im->weights = weight;
    return FAST_OK;
}

/* Six digits are enough for the numbers that people write, nine for any float. */
const char *fast__import_real(double value, char text[32])
{
    const float wanted = (float)fmin(fmax(value, -1e30), 1e30);
    double found = (double)wanted;

    for (int digits = 6; digits < 9; digits++) {
        snprintf(text, 32, "%.*g", digits, (double)wanted);
        if ((float)strtod(text, NULL) == wanted) {
            found = strtod(text, NULL);
            break;
        }
    }
    fast__real_text(found, text, 32); /* with a point in every locale */
    return text;
}

/* The line's own shape may differ from that of the value: see fast__import_view(). */
void fast__import_set(onnx_import *im, const fast_onnx_node *node, int i, int line, int rank,
                      const int64_t *shape)
{
    import_value *out = fast__import_out(im, node, i);

    if (!out)
        return;
    FAST_ASSERT(rank <= FAST_ONNX_RANK_MAX);
    out->line = line;
    out->rank = rank;
    memcpy(out->shape, shape, (size_t)rank * sizeof *shape);
}

/* A value may have several names and one line. */
fast_err fast__import_alias(onnx_import *im, const fast_onnx_node *node)
{
    import_value *x = NULL;

    FAST_TRY(fast__import_need_layer(im, node, 0, &x));
    fast__import_set(im, node, 0, x->line, x->rank, x->shape);
    return FAST_OK;
}

/* Decode an initialiser when it is first read, and never one that nothing reads. A float tensor of
 * more than one number is a weight; a single number is a constant of the formula. */
static fast_err load_constant(onnx_import *im, int v)
{
    const fast_onnx_value *value = &im->model->values[v];
    import_value *into = &im->values[v];

    if (into->tensor.values || into->line >= 0 || !value->initializer.data)
        return FAST_OK;
    FAST_TRY(fast__onnx_tensor_decode(value->initializer, &into->tensor));
    into->tensor.trainable = into->tensor.type == FAST_ONNX_FLOAT && into->tensor.count > 1;
    into->origin = value->name;
    return FAST_OK;
}

/* Compute a node on constants. The node Shape may read a layer, of which only the shape counts: it
 * holds the batch as FAST_ONNX_BATCH, which arithmetic on shapes passes on. Elements that are only
 * moved stay weights, with the name of their initialiser. */
static fast_err fold_node(onnx_import *im, const fast_onnx_node *node)
{
    const fast_onnx_tensor *in[FAST_ONNX_IO_MAX];
    fast_onnx_tensor out[FAST_ONNX_IO_MAX] = { 0 };
    fast_onnx_tensor shaped;
    fast_onnx_call call = { .node = node,
                            .opset = im->model->opset,
                            .budget = &im->budget,
                            .in = in,
                            .in_count = node->input_count,
                            .out = out,
                            .out_count = node->output_count };
    fast_err err = FAST_OK;

    for (int i = 0; i < node->input_count; i++) {
        const import_value *value = fast__import_in(im, node, i);
        in[i] = value && value->tensor.values ? &value->tensor : NULL;
        if (value && value->line >= 0) { /* Shape reads no elements */
            shaped = (fast_onnx_tensor){ .rank = value->rank };
            memcpy(shaped.shape, value->shape, sizeof shaped.shape);
            in[i] = &shaped;
        }
    }
    err = fast__onnx_eval(&call);
    for (int i = 0; i < node->output_count; i++) {
        import_value *value = fast__import_out(im, node, i);
        if (!err && value) {
            value->tensor = out[i];
            if (out[i].trainable && fast__import_in(im, node, 0))
                value->origin = fast__import_in(im, node, 0)->origin;
        } else {
            fast__onnx_tensor_fini(&out[i]);
        }
    }
    return err;
}

/* Import one node: compute it if all inputs are constants, else hand it to the function of its
 * operator. Inputs are loaded first; an input that has neither numbers nor a line is an output
 * that its node does not have here, such as the mask of a dropout. */
static fast_err import_node(onnx_import *im, const fast_onnx_node *node)
{
    static const import_row *const tables[] = { fast__import_layers, fast__import_moves,
                                                fast__import_arith };
    bool constant = true;
    char text[FAST_SPAN_TEXT_MAX];

    for (int i = 0; i < node->input_count; i++) {
        const int v = im->model->io[node->input_first + i];
        if (v < 0)
            continue;
        FAST_TRY(load_constant(im, v));
        constant = constant && im->values[v].line < 0;
        if (!im->values[v].tensor.values && im->values[v].line < 0)
            return fast__onnx_fail(FAST_ENOTSUP, node,
                                   "reads output %d of a node that has no such "
                                   "value here",
                                   i);
    }
    /* The shape of a layer is known, even though its values are not. */
    if (constant || fast__span_is(node->op, "Shape"))
        return fold_node(im, node);
    for (int i = 0; i < fast__onnx_inputs_min(node->op); i++)
        if (!fast__import_in(im, node, i))
            return fast__onnx_fail(FAST_EFORMAT, node, "lacks input %d", i);
    for (size_t t = 0; node->domain.size == 0 && t < sizeof tables / sizeof tables[0]; t++)
        for (const import_row *row = tables[t]; row->name; row++)
            if (fast__span_is(node->op, row->name))
                return row->run(im, node);
    return fast__onnx_fail(FAST_ENOTSUP, node, "operator %s is not supported",
                           fast__span_text(node->op, text));
}

/* Make the input line. The first dimension is the batch; other free dimensions are those of the
 * data, if they are known. */
static fast_err import_input(onnx_import *im)
{
    const fast_onnx_model *model = im->model;
    const fast_onnx_port *port = &model->inputs[0];
    const fast_onnx_node nobody = { .name = model->values[port->value].name, .op = { NULL, 0 } };
    import_line line = { .text = "input", .weights = true };
    int64_t shape[FAST_ONNX_RANK_MAX] = { FAST_ONNX_BATCH };
    import_value *value = &im->values[port->value];
    char name[FAST_SPAN_TEXT_MAX];

    if (port->rank < 2)
        return fast__fail(FAST_ENOTSUP, "the input \"%s\" has no batch dimension and another",
                          fast__span_text(nobody.name, name));
    for (int d = 1; d < port->rank; d++) {
        shape[d] = port->shape[d];
        if (shape[d] < 1 && im->input && im->input->rank == port->rank - 1)
            shape[d] = im->input->shape[d - 1];
        if (shape[d] < 1 || shape[d] % FAST_ONNX_BATCH == 0)
            return fast__fail(FAST_ENOTSUP, "dimension %d of the input \"%s\" is not given", d,
                              fast__span_text(nobody.name, name));
    }
    /* A fixed batch is only a number in the file's reshapes: any batch can be trained. */
    im->batch = port->shape[0] > 0 ? port->shape[0] : 0;
    FAST_TRY(fast__import_sample(&nobody, port->rank, shape, &line.shape, NULL));
    FAST_TRY(append_line(im, &nobody, &line, (fast_span){ NULL, 0 }, &value->line));
    memcpy(im->lines[0].label, "input", sizeof "input");
    value->rank = port->rank;
    memcpy(value->shape, shape, sizeof shape);
    return FAST_OK;
}

/* Mark the values that the first output depends on, backwards, and count who reads each: nodes
 * that nobody needs are not imported, so that their operators need no support. */
static void mark_needed(const onnx_import *im, unsigned char *needed)
{
    const fast_onnx_model *model = im->model;

    needed[model->outputs[0].value] = 1;
    im->values[model->outputs[0].value].uses = 1;
    for (int n = model->node_count - 1; n >= 0; n--) {
        const fast_onnx_node *node = &model->nodes[n];
        bool wanted = false;
        for (int i = 0; i < node->output_count; i++) {
            const int v = model->io[node->output_first + i];
            wanted = wanted || (v >= 0 && needed[v]);
        }
        for (int i = 0; i < node->input_count && wanted; i++) {
            const int v = model->io[node->input_first + i];
            if (v >= 0) {
                needed[v] = 1;
                im->values[v].uses++;
            }
        }
    }
}

/* Import all nodes that the output needs, in the file's order, which is topological. The last line
 * gives the output in the shape that the file says. */
static fast_err import_nodes(onnx_import *im, const unsigned char *needed, int *line_out)
{
    const fast_onnx_model *model = im->model;
    const fast_onnx_node nobody = { .name = model->values[model->outputs[0].value].name };
    const import_value *last = &im->values[model->outputs[0].value];
    import_shape shape;

    FAST_TRY(import_input(im));
    for (int n = 0; n < model->node_count; n++) {
        const fast_onnx_node *node = &model->nodes[n];
        bool wanted = false;
        for (int i = 0; i < node->output_count; i++) {
            const int v = model->io[node->output_first + i];
            wanted = wanted || (v >= 0 && needed[v]);
        }
        if (wanted)
            FAST_TRY(import_node(im, node));
    }
    /* Line 0 is the input itself: a network has at least one layer. */
    if (last->line < 1)
        return fast__fail(FAST_ENOTSUP, "its output does not depend on its input");
    FAST_TRY(fast__import_sample(&nobody, last->rank, last->shape, &shape, NULL));
    return fast__import_view(im, &nobody, last, shape, line_out);
}

/* Write the lines that the output depends on. Each names its inputs, since the line above may be
 * another branch. */
static fast_err write_text(const onnx_import *im, fast_text *text)
{
    const import_line *input = &im->lines[0];

    FAST_TRY(fast__text_add(text, "input"));
    for (int d = 0; d < input->shape.rank; d++)
        FAST_TRY(fast__text_add(text, " %lld", (long long)input->shape.dims[d]));
    if (im->vocabulary > 0)
        FAST_TRY(fast__text_add(text, " tokens=%lld", (long long)im->vocabulary));
    FAST_TRY(fast__text_add(text, "\n"));
    for (int i = 1; i < im->line_count; i++) {
        const import_line *line = &im->lines[i];
        if (!line->used)
            continue;
        FAST_TRY(fast__text_add(text, "%s: %s from", line->label, line->text));
        for (int k = 0; k < line->input_count; k++)
            FAST_TRY(fast__text_add(text, " %s", im->lines[line->inputs[k]].label));
        FAST_TRY(fast__text_add(text, "\n"));
    }
    return FAST_OK;
}

/* Say which tensors of the file several nodes share: here each node trains a copy, whose values
 * will differ after the first step. */
static void warn_shared(const onnx_import *im)
{
    char name[FAST_SPAN_TEXT_MAX];
    int count = 0;
    int first = 0;

    for (int v = im->model->value_count - 1; v >= 0; v--)
        if (im->values[v].tensor.trainable && im->values[v].uses > 1 &&
            im->model->values[v].initializer.data) {
            first = v;
            count++;
        }
    if (count > 0)
        fast__log(FAST_LOG_WARN,
                  "several nodes share a tensor, as \"%s\" (%d such tensors); each trains its own "
                  "copy",
                  fast__span_text(im->model->values[first].name, name), count);
}

/* Hand the weights of used lines over. The arrays are moved, not copied. */
static fast_err take_weights(onnx_import *im, fast_onnx_weights **out)
{
    fast_onnx_weights *weights = NULL;
    int64_t count = 0;

    for (const import_weight *w = im->weights; w; w = w->next)
        count += im->lines[w->line].used;
    FAST_TRY(fast__alloc("imported weights",
                         (int64_t)sizeof *weights + count * (int64_t)sizeof weights->list[0], 1,
                         &weights));
    for (import_weight *w = im->weights; w; w = w->next) {
        if (!im->lines[w->line].used)
            continue;
        snprintf(weights->list[weights->count].name, FAST_SEGMENT_NAME_MAX, "%s.%s",
                 im->lines[w->line].label, w->suffix);
        weights->list[weights->count].count = w->count;
        weights->list[weights->count++].values = w->values;
        w->values = NULL;
    }
    *out = weights;
    return FAST_OK;
}

/* Free everything but the result: constants, weights that were not handed over, lines. */
static void import_fini(onnx_import *im)
{
    for (int v = 0; im->values && v < im->model->value_count; v++)
        fast__onnx_tensor_fini(&im->values[v].tensor);
    for (import_weight *w = im->weights, *next = NULL; w; w = next) {
        next = w->next;
        fast__free(w->values);
        fast__free(w);
    }
    fast__free(im->values);
    fast__free(im->lines);
}

/* Import an opened model: one input, of several outputs the first. Lines are marked from the last
 * one back, so that no unused layer reaches the network. */
static fast_err import_model(onnx_import *im, unsigned char *needed, fast_text *text,
                             fast_onnx_weights **out)
{
    int last = 0;

    if (im->model->graph_inputs != 1 || im->model->graph_outputs < 1)
        return fast__fail(FAST_ENOTSUP, "has %d inputs and %d outputs; a network has one input",
                          im->model->graph_inputs, im->model->graph_outputs);
    for (int v = 0; v < im->model->value_count; v++)
        im->values[v].line = -1;
    mark_needed(im, needed);
    FAST_TRY(import_nodes(im, needed, &last));
    /* Inputs come before their line: one pass backwards marks all ancestors. */
    im->lines[last].used = true;
    for (int i = last; i > 0; i--)
        for (int k = 0; im->lines[i].used && k < im->lines[i].input_count; k++)
            im->lines[im->lines[i].inputs[k]].used = true;
    FAST_TRY(write_text(im, text));
    FAST_TRY(take_weights(im, out));
    warn_shared(im);
    return FAST_OK;
}

/* Open, import, close; on failure the text may hold a part of the network. */
fast_err fast__onnx_parse(const void *data, size_t size, const fast_model_input *input,
                          fast_text *text, fast_onnx_weights **out)
{
    onnx_import im = { .input = input };
    fast_onnx_model *model = NULL;
    unsigned char *needed = NULL;
    fast_err err = FAST_OK;

    FAST_TRY(fast__onnx_open(data, size, &model));
    im.model = model;
    im.budget = fast__onnx_budget((int64_t)size);
    err = fast__alloc("imported values", model->value_count, sizeof *im.values, &im.values);
    if (!err)
        err = fast__alloc("imported values", model->value_count, 1, &needed);
    if (!err)
        err = import_model(&im, needed, text, out);
    import_fini(&im);
    fast__free(needed);
    fast__onnx_close(model);
    return err;
}

/* Messages begin with the path, as those of network files do. */
fast_err fast__onnx_import(const char *path, const fast_model_input *input, fast_text *text,
                           fast_onnx_weights **out)
{
    void *data = NULL;
    size_t size = 0;
    fast_err err = FAST_OK;

    FAST_TRY(fast__file_read(path, FILE_MAX, &data, &size));
    err = fast__onnx_parse(data, size, input, text, out);
    fast__free(data);
    return err == FAST_EFORMAT || err == FAST_ENOTSUP || err == FAST_EINVAL
               ? fast__fail_in(err, path)
               : err;
}

/* A network file may end with anything: `file:net.onnx` stays a network file. */
bool fast__onnx_spec(const char *spec, const char **path_out)
{
    *path_out = spec;
    if (strncmp(spec, "onnx:", 5) == 0)
        *path_out = spec + (strncmp(spec + 5, "file=", 5) == 0 ? 10 : 5);
    return *path_out != spec || (fast__onnx_path(spec) && strncmp(spec, "file:", 5) != 0);
}

/* The name decides, as it does for pictures and archives elsewhere. */
bool fast__onnx_path(const char *path)
{
    const size_t size = strlen(path);

    return size > 5 && strcmp(path + size - 5, ".onnx") == 0;
}

/* Copy a segment's values from the file by name and size. That a segment is missing would be a
 * fault of the importer, but it is reported, as the file is not trusted. */
static fast_err set_segment(const fast_onnx_weights *weights, const fast_segment *segment,
                            float *into)
{
    for (int64_t i = 0; i < weights->count; i++)
        if (strcmp(weights->list[i].name, segment->name) == 0 &&
            weights->list[i].count == segment->count) {
            memcpy(into, weights->list[i].values, (size_t)segment->count * sizeof *into);
            return FAST_OK;
        }
    return fast__fail(FAST_EINVAL, "the file has no weight \"%s\" of %lld numbers", segment->name,
                      (long long)segment->count);
}

/* The graph owns the values: every learner that starts with it starts with them, in every process.
 */
fast_err fast__onnx_weights_set(const fast_onnx_weights *weights, fast_graph *graph)
{
    float *initial = NULL;
    fast_err err = fast__alloc("imported weights", graph->params.count + graph->state.count,
                               sizeof *initial, &initial);

    for (int64_t i = 0; i < graph->params.segment_count && !err; i++)
        err = set_segment(weights, &graph->params.segments[i],
                          initial + graph->params.segments[i].offset);
    for (int64_t i = 0; i < graph->state.segment_count && !err; i++)
        err = set_segment(weights, &graph->state.segments[i],
                          initial + graph->params.count + graph->state.segments[i].offset);
    if (err) {
        fast__free(initial);
        return err;
    }
    fast__free(graph->initial);
    graph->initial = initial;
    return FAST_OK;
}

/* Free the values and the list. */
void fast__onnx_weights_free(fast_onnx_weights *weights)
{
    for (int64_t i = 0; weights && i < weights->count; i++)
        fast__free(weights->list[i].values);
    fast__free(weights);
}
