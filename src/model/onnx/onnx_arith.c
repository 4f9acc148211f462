/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Import of functions of elements.
 *
 *     f(x)                relu, tanh, sigmoid, leaky_relu; others are the layer `map`
 *     f(x, y)             add of one shape; others are the layer `arith`, which broadcasts
 *     f(x, number)        map affine, map pow, map clip
 *     x + C, x * C        shift and scale: C is a weight if it is one in the file, else frozen
 *     where(M, x, C)      x M + C (1 - M): scale and shift
 *
 * Formulas that exporters write out are imported as they are written: a gelu is a Div, an Erf, an
 * Add and two Mul, a layer norm two means, a difference, a power, a root, a quotient, a scale and a
 * shift. They train to the same weights; a layer of one piece would only be faster.
 *
 * Infinite numbers of masks become 1e30 in size: softmax makes zeros of both, and a finite number
 * survives averages over workers.
 */
#include "model/onnx/onnx_import.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Write `map KIND a= b=` behind a line, of the same shape. */
static fast_err add_map(onnx_import *im, const fast_onnx_node *node, int *line, const char *kind,
                        double a, double b)
{
    char text[2][32];

    return fast__import_simple(im, node, *line, im->lines[*line].shape, line, "map %s a=%s b=%s",
                               kind, fast__import_real(a, text[0]), fast__import_real(b, text[1]));
}

/* Functions of one value: the line's text, with the attributes and defaults of its a and b.
 *
 *     Elu with alpha 0.7   ->   map elu a=0.7 b=0
 *
 * A function without attributes has its numbers as defaults: a root is the power 0.5. */
static const struct {
    const char *name;  /* operator */
    const char *text;  /* layer, or kind of map */
    bool map;          /* `text` is a kind of map */
    const char *a, *b; /* attributes, or NULL: the number itself */
    double a0, b0;     /* their defaults */
} functions[] = {
    { "Relu", "relu", false, NULL, NULL, 0, 0 },
    { "Tanh", "tanh", false, NULL, NULL, 0, 0 },
    { "Sigmoid", "sigmoid", false, NULL, NULL, 0, 0 },
    { "Exp", "exp", true, NULL, NULL, 0, 0 },
    { "Log", "log", true, NULL, NULL, 0, 0 },
    { "Sqrt", "pow", true, NULL, NULL, 0.5, 0 },
    { "Reciprocal", "pow", true, NULL, NULL, -1, 0 },
    { "Neg", "affine", true, NULL, NULL, -1, 0 },
    { "Abs", "abs", true, NULL, NULL, 0, 0 },
    { "Erf", "erf", true, NULL, NULL, 0, 0 },
    { "Softplus", "softplus", true, NULL, NULL, 0, 0 },
    { "Elu", "elu", true, "alpha", NULL, 1, 0 },
    { "HardSigmoid", "hsig", true, "alpha", "beta", 0.2, 0.5 },
    { "HardSwish", "hswish", true, NULL, NULL, 0, 0 },
};

/* Import y = f(x) by its row of the table. The shape does not matter: the line's own is used. */
static fast_err import_function(onnx_import *im, const fast_onnx_node *node)
{
    import_value *x = NULL;
    size_t i = 0;
    int line = 0;

    FAST_TRY(fast__import_need_layer(im, node, 0, &x));
    line = x->line;
    while (!fast__span_is(node->op, functions[i].name))
        i++;
    if (functions[i].map)
        FAST_TRY(add_map(im, node, &line, functions[i].text,
                         functions[i].a ? fast__onnx_real(node, functions[i].a, functions[i].a0)
                                        : functions[i].a0,
                         functions[i].b ? fast__onnx_real(node, functions[i].b, functions[i].b0)
                                        : functions[i].b0));
    else
        FAST_TRY(fast__import_simple(im, node, line, im->lines[line].shape, &line, "%s",
                                     functions[i].text));
    fast__import_set(im, node, 0, line, x->rank, x->shape);
    return FAST_OK;
}

/* Import LeakyRelu: its slope is the layer's main option. */
static fast_err import_leaky(onnx_import *im, const fast_onnx_node *node)
{
    import_value *x = NULL;
    char text[32];
    int line = 0;

    FAST_TRY(fast__import_need_layer(im, node, 0, &x));
    FAST_TRY(fast__import_simple(im, node, x->line, im->lines[x->line].shape, &line,
                                 "leaky_relu %s",
                                 fast__import_real(fast__onnx_real(node, "alpha", 0.01), text)));
    fast__import_set(im, node, 0, line, x->rank, x->shape);
    return FAST_OK;
}

/* Import Clip: bounds are inputs since version 11 and attributes before. An absent bound is 1e30,
 * as large as the language's numbers get. */
static fast_err import_clip(onnx_import *im, const fast_onnx_node *node)
{
    double bound[2] = { fast__onnx_real(node, "min", -1e30), fast__onnx_real(node, "max", 1e30) };
    import_value *x = NULL;
    int line = 0;

    FAST_TRY(fast__import_need_layer(im, node, 0, &x));
    for (int k = 0; k < 2; k++) {
        const fast_onnx_tensor *t = fast__import_constant(im, node, k + 1);
        if (fast__import_layer(im, node, k + 1) || (t && t->count != 1))
            return fast__onnx_fail(FAST_ENOTSUP, node, "its bounds are no numbers");
        if (t)
            bound[k] = t->values[0];
    }
    line = x->line;
    FAST_TRY(add_map(im, node, &line, "clip", bound[0], bound[1]));
    fast__import_set(im, node, 0, line, x->rank, x->shape);
    return FAST_OK;
}

/* Write x op number, or number op x if `left`: sums and products are `map affine`, bounds `map
 * clip`, powers `map pow`; a quotient by x is a power of -1 first. */
static fast_err add_number(onnx_import *im, const fast_onnx_node *node, const import_value *x,
                           double c, bool left)
{
    int line = x->line;

    if (fast__span_is(node->op, "Add"))
        FAST_TRY(add_map(im, node, &line, "affine", 1, c));
    else if (fast__span_is(node->op, "Sub"))
        FAST_TRY(add_map(im, node, &line, "affine", left ? -1 : 1, left ? c : -c));
    else if (fast__span_is(node->op, "Mul"))
        FAST_TRY(add_map(im, node, &line, "affine", c, 0));
    else if (fast__span_is(node->op, "Max"))
        FAST_TRY(add_map(im, node, &line, "clip", c, 1e30));
    else if (fast__span_is(node->op, "Min"))
        FAST_TRY(add_map(im, node, &line, "clip", -1e30, c));
    else if (fast__span_is(node->op, "Pow") && !left)
        FAST_TRY(add_map(im, node, &line, "pow", c, 0));
    else if (fast__span_is(node->op, "Div") && !left)
        FAST_TRY(add_map(im, node, &line, "affine", 1 / c, 0));
    else if (fast__span_is(node->op, "Div")) {
        FAST_TRY(add_map(im, node, &line, "pow", -1, 0));
        FAST_TRY(add_map(im, node, &line, "affine", c, 0));
    } else
        return fast__onnx_fail(FAST_ENOTSUP, node, "its first input is a number");
    fast__import_set(im, node, 0, line, x->rank, x->shape);
    return FAST_OK;
}

/* Write `scale` or `shift` by a tensor that is broadcast to the samples of x. The tensor is
 * aligned to the right with the batch, in whose place it must have a dimension of 1 or none:
 *
 *     x   [batch, 12, 24]      c   [24], [12, 24], [1, 12, 1]
 *
 * It is a weight if it is one in the file, otherwise frozen. */
static fast_err add_operand(onnx_import *im, const fast_onnx_node *node, const import_value *x,
                            const fast_onnx_tensor *c, const char *layer, double sign,
                            fast_span origin, int *line_out)
{
    import_line line = { .input_count = 1, .weights = true };
    import_shape shape = { 0 };
    char text[64];
    int front = 0;

    FAST_TRY(fast__import_sample(node, x->rank, x->shape, &line.shape, &front));
    shape.rank = line.shape.rank;
    for (int d = 0; d < c->rank; d++) {
        /* Dimension d of the constant is aligned with dimension `at` of the sample. */
        const int at = x->rank - c->rank + d - front;
        const bool batch = at < 0 || (at == 0 && front == 0);
        if (at < -front || (batch && c->shape[d] != 1) ||
            (at >= 0 && c->shape[d] != 1 && c->shape[d] != line.shape.dims[at]))
            return fast__onnx_fail(FAST_ENOTSUP, node,
                                   "its constant does not fit the shape of one sample");
    }
    /* The weight gets the rank of the sample, with ones where the constant has no dimension. */
    for (int d = 0; d < shape.rank; d++) {
        const int at = c->rank - x->rank + d + front;
        shape.dims[d] = at >= 0 ? c->shape[at] : 1;
    }
    FAST_TRY(fast__import_view(im, node, x, line.shape, &line.inputs[0]));
    snprintf(line.text, sizeof line.text, "%s %s frozen=%s", layer,
             fast__shape_text(shape.rank, shape.dims, text), c->trainable ? "no" : "yes");
    FAST_TRY(fast__import_line(im, node, &line, origin, line_out));
    return fast__import_weight(im, *line_out, "weight", c, sign, false);
}

/* Make a dense layer's bias of a constant that is added to all of its rows. Nobody else may read
 * the product without the bias: every value of that line has one reader. */
static fast_err try_bias(onnx_import *im, const import_value *x, const fast_onnx_tensor *c,
                         bool *done)
{
    import_line *line = &im->lines[x->line];
    const int64_t outputs = line->shape.dims[line->shape.rank - 1];
    char *bias = strstr(line->text, "bias=no");

    *done = line->open_bias && bias && x->uses == 1 && c->trainable && c->count == outputs &&
            c->rank >= 1 && c->shape[c->rank - 1] == outputs && x->shape[x->rank - 1] == outputs;
    for (int v = 0; *done && v < im->model->value_count; v++)
        *done = im->values[v].line != x->line || im->values[v].uses <= 1;
    line->open_bias = line->open_bias && !*done && x->uses == 1;
    if (!*done)
        return FAST_OK;
    memcpy(bias, "bias=yes", sizeof "bias=yes");
    return fast__import_weight(im, x->line, "bias", c, 1, false);
}

/* Write x op tensor. Subtraction adds the negative tensor, or adds the tensor to the negative x. */
static fast_err add_tensor(onnx_import *im, const fast_onnx_node *node, const import_value *x,
                           const fast_onnx_tensor *c, bool left, fast_span origin)
{
    const bool add = fast__span_is(node->op, "Add");
    const bool sub = fast__span_is(node->op, "Sub");
    import_value from = *x;
    bool done = false;

    if (add) {
        FAST_TRY(try_bias(im, x, c, &done));
        if (done) {
            fast__import_set(im, node, 0, x->line, x->rank, x->shape);
            return FAST_OK;
        }
    }
    if (!add && !sub && !fast__span_is(node->op, "Mul"))
        return fast__onnx_fail(FAST_ENOTSUP, node, "its constant is no number");
    if (sub && left)
        FAST_TRY(add_map(im, node, &from.line, "affine", -1, 0));
    FAST_TRY(add_operand(im, node, &from, c, add || sub ? "shift" : "scale", sub && !left ? -1 : 1,
                         origin, &from.line));
    fast__import_set(im, node, 0, from.line, x->rank, x->shape);
    return FAST_OK;
}

/* Write a function of two layers: `add` of one shape, which engines fuse, else `arith`, which
 * repeats dimensions of 1. */
static fast_err add_layers(onnx_import *im, const fast_onnx_node *node, const import_value *a,
                           const import_value *b)
{
    static const char *const kinds[][2] = { { "Add", "add" }, { "Sub", "sub" }, { "Mul", "mul" },
                                            { "Div", "div" }, { "Max", "max" }, { "Min", "min" } };
    const import_value *wide = a->rank >= b->rank ? a : b;
    import_line line = { .input_count = 2 };
    import_shape s;
    import_shape t;
    int64_t dims[FAST_ONNX_RANK_MAX];
    const char *kind = NULL;
    int at = 0;

    FAST_TRY(fast__import_sample(node, a->rank, a->shape, &s, NULL));
    FAST_TRY(fast__import_sample(node, b->rank, b->shape, &t, NULL));
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        kind = fast__span_is(node->op, kinds[i][0]) ? kinds[i][1] : kind;
    if (!kind || a->rank != b->rank || s.rank != t.rank)
        return fast__onnx_fail(FAST_ENOTSUP, node, "combines layers of %d and %d dimensions",
                               a->rank, b->rank);
    memcpy(dims, wide->shape, sizeof dims);
    line.shape = s;
    for (int d = 0; d < s.rank; d++) {
        if (s.dims[d] != t.dims[d] && s.dims[d] != 1 && t.dims[d] != 1)
            return fast__onnx_fail(FAST_EFORMAT, node, "its inputs' shapes do not fit");
        line.shape.dims[d] = s.dims[d] == 1 ? t.dims[d] : s.dims[d];
    }
    for (int d = 1; d < a->rank; d++)
        dims[d] = a->shape[d] == 1 ? b->shape[d] : a->shape[d];
    /* The batch, or the batch times the first dimension of a sample. */
    dims[0] = a->shape[0] > b->shape[0] ? a->shape[0] : b->shape[0];
    FAST_TRY(fast__import_view(im, node, a, s, &line.inputs[0]));
    FAST_TRY(fast__import_view(im, node, b, t, &line.inputs[1]));
    if (strcmp(kind, "add") == 0 && memcmp(s.dims, t.dims, sizeof s.dims) == 0)
        memcpy(line.text, "add", sizeof "add");
    else
        snprintf(line.text, sizeof line.text, "arith kind=%s", kind);
    FAST_TRY(fast__import_line(im, node, &line, (fast_span){ NULL, 0 }, &at));
    fast__import_set(im, node, 0, at, wide->rank, dims);
    return FAST_OK;
}

/* Write a function of a layer and one number. It is no weight, but for an initialiser [1] that is
 * added to the product of a dense layer with one output: its bias. */
static fast_err import_one(onnx_import *im, const fast_onnx_node *node, const import_value *x,
                           const import_value *constant, bool left)
{
    fast_onnx_tensor c = constant->tensor;
    bool done = false;

    c.trainable = c.type == FAST_ONNX_FLOAT && c.rank > 0 && constant->origin.size > 0;
    if (c.trainable && fast__span_is(node->op, "Add"))
        FAST_TRY(try_bias(im, x, &c, &done));
    if (!done)
        return add_number(im, node, x, c.values[0], left);
    fast__import_set(im, node, 0, x->line, x->rank, x->shape);
    return FAST_OK;
}

/* Import Add, Sub, Mul, Div, Pow, Max and Min of two inputs, at least one of them a layer. A
 * division by a frozen tensor multiplies by its inverse; one by a weight would train another thing
 * and is refused. */
static fast_err import_binary(onnx_import *im, const fast_onnx_node *node)
{
    import_value *a = fast__import_in(im, node, 0);
    import_value *b = fast__import_in(im, node, 1);

    if (node->input_count != 2 || !a || !b)
        return fast__onnx_fail(FAST_ENOTSUP, node, "has %d inputs, not 2", node->input_count);
    if (a->line >= 0 && b->line >= 0)
        return add_layers(im, node, a, b);
    const bool left = b->line >= 0;
    const import_value *x = left ? b : a;
    import_value *constant = left ? a : b;
    const fast_onnx_tensor *c = &constant->tensor;
    if (c->rank > x->rank)
        return fast__onnx_fail(FAST_ENOTSUP, node, "its constant has more dimensions than x");
    if (c->count == 1)
        return import_one(im, node, x, constant, left);
    if (fast__span_is(node->op, "Div") && !left && !c->trainable) {
        const fast_onnx_node product = { .index = node->index,
                                         .name = node->name,
                                         .op = { (const uint8_t *)"Mul", 3 },
                                         .output_first = node->output_first,
                                         .output_count = node->output_count };
        for (int64_t i = 0; i < c->count && constant->uses == 1; i++)
            c->values[i] = 1 / c->values[i];
        if (constant->uses == 1)
            return add_tensor(im, &product, x, c, false, constant->origin);
    }
    return add_tensor(im, node, x, c, left, constant->origin);
}

/* Compute a tensor of a Where: c where the mask is set, or where it is not with `invert`, and 0
 * elsewhere; mask and c are broadcast. */
static fast_err masked(onnx_import *im, const fast_onnx_node *node, const fast_onnx_tensor *mask,
                       const fast_onnx_tensor *c, bool invert, fast_onnx_tensor *out)
{
    int64_t shape[FAST_ONNX_RANK_MAX] = { 0 };
    int rank = 0;
    fast_onnx_call call = { .node = node, .budget = &im->budget, .out = out, .out_count = 1 };

    if (!fast__onnx_broadcast(mask, rank, shape, &rank) ||
        !fast__onnx_broadcast(c, rank, shape, &rank))
        return fast__onnx_fail(FAST_EFORMAT, node, "its inputs' shapes do not fit");
    FAST_TRY(fast__onnx_out(&call, 0, FAST_ONNX_FLOAT, rank, shape));
    for (int64_t i = 0; i < out->count; i++) {
        const bool set = mask->values[fast__onnx_broadcast_at(mask, rank, shape, i)] != 0;
        out->values[i] = set != invert ? c->values[fast__onnx_broadcast_at(c, rank, shape, i)] : 0;
    }
    return FAST_OK;
}

/* Import where(M, x, C) as x M + C (1 - M): a frozen scale and a frozen shift. The mask and C are
 * constants, as in a causal attention. */
static fast_err import_where(onnx_import *im, const fast_onnx_node *node)
{
    const fast_onnx_tensor *mask = fast__import_constant(im, node, 0);
    const bool left = fast__import_layer(im, node, 1) != NULL;
    const fast_onnx_tensor *c = fast__import_constant(im, node, left ? 2 : 1);
    const fast_onnx_tensor one = { .count = 1, .values = (double[]){ 1 } };
    fast_onnx_tensor parts[2] = { { 0 }, { 0 } };
    import_value x = { 0 };
    fast_err err = FAST_OK;

    if (!mask || !c)
        return fast__onnx_fail(FAST_ENOTSUP, node, "chooses between two layers, or by a layer");
    x = *fast__import_in(im, node, left ? 1 : 2);
    err = masked(im, node, mask, &one, !left, &parts[0]);
    if (!err)
        err = masked(im, node, mask, c, left, &parts[1]);
    if (!err)
        err = add_operand(im, node, &x, &parts[0], "scale", 1, (fast_span){ NULL, 0 }, &x.line);
    if (!err)
        err = add_operand(im, node, &x, &parts[1], "shift", 1, (fast_span){ NULL, 0 }, &x.line);
    if (!err)
        fast__import_set(im, node, 0, x.line, x.rank, x.shape);
    fast__onnx_tensor_fini(&parts[0]);
    fast__onnx_tensor_fini(&parts[1]);
    return err;
}

/* The operators of this file, and the layers that they become: which of them depends on the second
 * input, a layer, a tensor or a number. */
const import_row fast__import_arith[] = {
    { "Relu", import_function },        /* relu */
    { "Tanh", import_function },        /* tanh */
    { "Sigmoid", import_function },     /* sigmoid */
    { "Exp", import_function },         /* map exp */
    { "Log", import_function },         /* map log */
    { "Sqrt", import_function },        /* map pow a=0.5 */
    { "Reciprocal", import_function },  /* map pow a=-1 */
    { "Neg", import_function },         /* map affine a=-1 */
    { "Abs", import_function },         /* map abs */
    { "Erf", import_function },         /* map erf */
    { "Softplus", import_function },    /* map softplus */
    { "Elu", import_function },         /* map elu */
    { "HardSwish", import_function },   /* map hswish */
    { "HardSigmoid", import_function }, /* map hsig */
    { "LeakyRelu", import_leaky },      /* leaky_relu */
    { "Clip", import_clip },            /* map clip */
    { "Add", import_binary },           /* add, arith, shift, map affine */
    { "Sub", import_binary },           /* arith, shift, map affine */
    { "Mul", import_binary },           /* arith, scale, map affine */
    { "Div", import_binary },           /* arith, scale, map affine */
    { "Pow", import_binary },           /* map pow */
    { "Max", import_binary },           /* arith, map clip */
    { "Min", import_binary },           /* arith, map clip */
    { "Where", import_where },          /* scale and shift, frozen */
    { NULL, NULL },
};
