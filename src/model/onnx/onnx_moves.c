/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Import of operators that move elements. A reshape that leaves the batch in front writes no layer:
 * the value gets another shape, and a consumer that needs it writes the layer `reshape`. Heads of
 * an attention come and go in this way:
 *
 *     [batch, T, C] -> Reshape [batch, T, heads, C / heads] -> Transpose 0 2 1 3
 *                      no layer                                reshape Txheadsxd, transpose 1x0x2
 *
 * The batch may be a factor of the first dimension, as in [batch T, C], where PyTorch flattens a
 * sequence before a product. It may not move: layers see one sample at a time.
 *
 * Axes of ONNX count the batch; `front` is what is subtracted for those of a sample: 1, or 0 where
 * the batch is a factor of the first dimension.
 */
#include "model/onnx/onnx_import.h"

#include <math.h>
#include <string.h>

/* Give input 0 another shape, with the batch. No layer is written; the number of elements must
 * stay, and the batch must stay in front. */
static fast_err set_shape(onnx_import *im, const fast_onnx_node *node, int rank,
                          const int64_t *shape)
{
    import_value *x = NULL;
    int64_t before = 0;
    int64_t after = 0;

    FAST_TRY(fast__import_need_layer(im, node, 0, &x));
    if (rank > FAST_ONNX_RANK_MAX || !fast__onnx_count(x->rank, x->shape, &before) ||
        !fast__onnx_count(rank, shape, &after) || before != after || rank == 0 ||
        shape[0] % FAST_ONNX_BATCH != 0)
        return fast__onnx_fail(FAST_ENOTSUP, node,
                               "its elements do not fit the new shape, or the batch is not in "
                               "front of it");
    fast__import_set(im, node, 0, x->line, rank, shape);
    return FAST_OK;
}

/* Import a reshape to a constant shape. The target has the batch as a number where the file has a
 * fixed batch: it is made free. 0 copies a dimension, -1 follows from the others. */
static fast_err import_reshape(onnx_import *im, const fast_onnx_node *node)
{
    const fast_onnx_tensor *to = fast__import_constant(im, node, 1);
    const import_value *x = fast__import_in(im, node, 0);
    int64_t shape[FAST_ONNX_RANK_MAX];
    int64_t total = 0;
    int64_t known = 1;
    int free = -1;

    if (!to || to->count < 1 || to->count > FAST_ONNX_RANK_MAX || x->line < 0)
        return fast__onnx_fail(FAST_ENOTSUP, node, "its shape is no constant");
    if (!fast__onnx_count(x->rank, x->shape, &total))
        return fast__onnx_fail(FAST_EFORMAT, node, "is too large");
    for (int d = 0; d < to->count; d++) {
        shape[d] = fabs(to->values[d]) < 1e12 ? (int64_t)to->values[d] : -2;
        if (shape[d] == 0 && d < x->rank)
            shape[d] = x->shape[d];
        free = shape[d] == -1 ? d : free;
    }
    /* A file with a fixed batch of 2 reshapes to [2, 5] or [2 T, C]: the 2 stands for any batch. */
    if (im->batch > 0 && shape[0] > 0 && shape[0] % FAST_ONNX_BATCH && shape[0] % im->batch == 0 &&
        shape[0] < (int64_t)1 << 31)
        shape[0] = shape[0] / im->batch * FAST_ONNX_BATCH;
    for (int d = 0; d < to->count; d++)
        if (d != free && (shape[d] < 1 || __builtin_mul_overflow(known, shape[d], &known)))
            return fast__onnx_fail(FAST_EFORMAT, node, "its shape is negative or too large");
    if (free >= 0)
        shape[free] = total / known;
    return set_shape(im, node, (int)to->count, shape);
}

/* Join the dimensions before the axis and those from it on. */
static fast_err import_flatten(onnx_import *im, const fast_onnx_node *node)
{
    const import_value *x = fast__import_in(im, node, 0);
    int64_t axis = fast__onnx_int(node, "axis", 1);
    int64_t shape[2] = { 1, 1 };

    axis = axis < 0 ? axis + x->rank : axis;
    for (int d = 0; d < x->rank; d++)
        if (__builtin_mul_overflow(shape[d >= axis], x->shape[d], &shape[d >= axis]))
            return fast__onnx_fail(FAST_EFORMAT, node, "is too large");
    return set_shape(im, node, 2, shape);
}

/* Read the axes of Squeeze, Unsqueeze and Reduce as bits: input 1 of newer files, an attribute of
 * older ones. */
static fast_err read_axes(onnx_import *im, const fast_onnx_node *node, int rank, unsigned standard,
                          unsigned *out)
{
    const fast_onnx_tensor *in[2] = { NULL, fast__import_constant(im, node, 1) };
    const fast_onnx_call call = { .node = node, .in = in, .in_count = 2 };

    if (node->input_count > 1 && fast__import_in(im, node, 1) && !in[1])
        return fast__onnx_fail(FAST_ENOTSUP, node, "its axes are no constants");
    return fast__onnx_axes(&call, 1, "axes", rank, standard, out)
               ? FAST_OK
               : fast__onnx_fail(FAST_EFORMAT, node, "an axis is out of range");
}

/* Drop dimensions of size 1; the batch has another size. */
static fast_err import_squeeze(onnx_import *im, const fast_onnx_node *node)
{
    const import_value *x = fast__import_in(im, node, 0);
    int64_t shape[FAST_ONNX_RANK_MAX];
    unsigned ones = 0;
    unsigned axes = 0;
    int rank = 0;

    for (int d = 0; d < x->rank; d++)
        ones |= (unsigned)(x->shape[d] == 1) << d;
    FAST_TRY(read_axes(im, node, x->rank, ones, &axes));
    for (int d = 0; d < x->rank; d++)
        if (!(axes >> d & 1))
            shape[rank++] = x->shape[d];
    return set_shape(im, node, rank, shape);
}

/* Insert dimensions of size 1. */
static fast_err import_unsqueeze(onnx_import *im, const fast_onnx_node *node)
{
    const import_value *x = fast__import_in(im, node, 0);
    const fast_onnx_tensor *list = fast__import_constant(im, node, 1);
    int64_t shape[FAST_ONNX_RANK_MAX];
    const int64_t added =
        list ? list->count : fast__onnx_ints(node, "axes", FAST_ONNX_RANK_MAX, shape);
    unsigned axes = 0;
    int from = 0;

    if (added < 1 || x->rank + added > FAST_ONNX_RANK_MAX)
        return fast__onnx_fail(FAST_ENOTSUP, node, "its axes are no constants");
    FAST_TRY(read_axes(im, node, x->rank + (int)added, 0, &axes));
    if (__builtin_popcount(axes) != added)
        return fast__onnx_fail(FAST_EFORMAT, node, "an axis is given twice");
    for (int d = 0; d < x->rank + added; d++)
        shape[d] = axes >> d & 1 ? 1 : x->shape[from++];
    return set_shape(im, node, x->rank + (int)added, shape);
}

/* Write a transpose of the dimensions of a sample; order[i] is the source of dimension i. An order
 * that moves nothing needs no layer. */
static fast_err add_transpose(onnx_import *im, const fast_onnx_node *node, int input,
                              import_shape shape, const int64_t *order, int *line_out)
{
    import_shape out = { .rank = shape.rank };
    char text[64];
    bool moves = false;

    for (int d = 0; d < shape.rank; d++) {
        out.dims[d] = shape.dims[order[d]];
        moves = moves || order[d] != d;
    }
    *line_out = input;
    return !moves ? FAST_OK
                  : fast__import_simple(im, node, input, out, line_out, "transpose %s",
                                        fast__shape_text(shape.rank, order, text));
}

/* Import a transpose that leaves the batch in front; its order is that of the sample's dimensions,
 * one less than ONNX's. */
static fast_err import_transpose(onnx_import *im, const fast_onnx_node *node)
{
    import_value *x = NULL;
    import_shape shape;
    int64_t perm[FAST_ONNX_RANK_MAX] = { 0 };
    int64_t dims[FAST_ONNX_RANK_MAX];
    int64_t order[3] = { 0 };
    unsigned seen = 0;
    int front = 0;
    int line = 0;

    FAST_TRY(fast__import_need_layer(im, node, 0, &x));
    if (fast__onnx_ints(node, "perm", FAST_ONNX_RANK_MAX, perm) != x->rank || perm[0] != 0)
        return fast__onnx_fail(FAST_ENOTSUP, node, "moves the batch");
    for (int d = 0; d < x->rank; d++) {
        seen |= perm[d] >= 0 && perm[d] < x->rank ? 1U << perm[d] : 0;
        dims[d] = perm[d] >= 0 && perm[d] < x->rank ? x->shape[perm[d]] : 0;
    }
    if (seen != (1U << x->rank) - 1)
        return fast__onnx_fail(FAST_EFORMAT, node, "its perm is no permutation");
    FAST_TRY(fast__import_sample(node, x->rank, x->shape, &shape, &front));
    for (int d = 0; d < shape.rank; d++)
        order[d] = perm[d + front] - front;
    FAST_TRY(fast__import_view(im, node, x, shape, &line));
    FAST_TRY(add_transpose(im, node, line, shape, order, &line));
    fast__import_set(im, node, 0, line, x->rank, dims);
    return FAST_OK;
}

/* Import layers side by side. The layer `concat` joins channels, the first dimension of an image
 * and the last of a sequence: another axis changes places with that one before and after. */
static fast_err import_concat(onnx_import *im, const fast_onnx_node *node)
{
    import_line line = { .text = "concat", .input_count = node->input_count };
    import_value *first = NULL;
    int64_t dims[FAST_ONNX_RANK_MAX];
    int64_t order[3] = { 0, 1, 2 };
    int front = 0;
    int at = 0;

    FAST_TRY(fast__import_need_layer(im, node, 0, &first));
    memcpy(dims, first->shape, sizeof dims);
    FAST_TRY(fast__import_sample(node, first->rank, first->shape, &line.shape, &front));
    const int axis = fast__onnx_axis(fast__onnx_int(node, "axis", 1), first->rank) - front;
    const int channel = line.shape.rank == 2 ? 1 : 0;
    if (axis < 0 || (axis == 0 && front == 0) || node->input_count > FAST_INPUTS_MAX)
        return fast__onnx_fail(FAST_ENOTSUP, node, "joins the batch, or more than %d values",
                               FAST_INPUTS_MAX);
    /* A swap of two dimensions is its own inverse: the same order moves the axis there and back. */
    order[axis] = channel, order[channel] = axis;
    for (int k = 0; k < node->input_count; k++) {
        import_value *x = NULL;
        import_shape shape;
        FAST_TRY(fast__import_need_layer(im, node, k, &x));
        FAST_TRY(fast__import_sample(node, x->rank, x->shape, &shape, NULL));
        for (int d = 0; d < x->rank; d++)
            if (x->rank != first->rank || (d != axis + front && x->shape[d] != dims[d]))
                return fast__onnx_fail(FAST_EFORMAT, node, "its inputs' shapes do not fit");
        FAST_TRY(fast__import_view(im, node, x, shape, &line.inputs[k]));
        FAST_TRY(add_transpose(im, node, line.inputs[k], shape, order, &line.inputs[k]));
        if (k > 0)
            dims[axis + front] += x->shape[axis + front];
    }
    line.shape.dims[axis] = dims[axis + front];
    const import_shape joined = line.shape;
    for (int d = 0; d < joined.rank; d++)
        line.shape.dims[d] = joined.dims[order[d]];
    if (node->input_count == 1)
        return fast__import_alias(im, node);
    FAST_TRY(fast__import_line(im, node, &line, (fast_span){ NULL, 0 }, &at));
    FAST_TRY(add_transpose(im, node, at, line.shape, order, &at));
    fast__import_set(im, node, 0, at, first->rank, dims);
    return FAST_OK;
}

/* Write a slice of one axis of `from`. A whole axis needs no layer, not even for the batch. */
static fast_err add_slice(onnx_import *im, const fast_onnx_node *node, int i, import_value from,
                          int axis, int64_t start, int64_t count, import_value *out)
{
    import_shape shape;
    int front = 0;

    *out = from;
    if (start == 0 && count == from.shape[axis])
        return FAST_OK;
    FAST_TRY(fast__import_sample(node, from.rank, from.shape, &shape, &front));
    if (axis < front || (axis == 0 && front == 0) || count < 1)
        return fast__onnx_fail(FAST_ENOTSUP, node, "cuts the batch, or output %d is empty", i);
    FAST_TRY(fast__import_view(im, node, &from, shape, &out->line));
    shape.dims[axis - front] = count;
    out->shape[axis] = count;
    return fast__import_simple(im, node, out->line, shape, &out->line,
                               "slice %d start=%lld count=%lld", axis - front, (long long)start,
                               (long long)count);
}

/* Import a slice for each output that somebody reads. */
static fast_err import_split(onnx_import *im, const fast_onnx_node *node)
{
    const fast_onnx_tensor *list = fast__import_constant(im, node, 1);
    int64_t parts[FAST_ONNX_IO_MAX];
    int given = fast__onnx_ints(node, "split", FAST_ONNX_IO_MAX, parts);
    import_value *x = NULL;
    int64_t at = 0;

    FAST_TRY(fast__import_need_layer(im, node, 0, &x));
    const int axis = fast__onnx_axis(fast__onnx_int(node, "axis", 0), x->rank);
    if (axis < 0)
        return fast__onnx_fail(FAST_EFORMAT, node, "its axis is out of range");
    for (int k = 0; list && k < list->count && k < FAST_ONNX_IO_MAX; k++)
        parts[k] = fast__onnx_whole(list->values[k]), given = k + 1;
    for (int k = 0; k < node->output_count; k++) {
        const int64_t part =
            given == node->output_count ? parts[k] : x->shape[axis] / node->output_count;
        import_value cut;
        if (part < 1 || part > x->shape[axis] - at)
            return fast__onnx_fail(FAST_EFORMAT, node, "its parts do not fit");
        if (fast__import_out(im, node, k) && fast__import_out(im, node, k)->uses) {
            FAST_TRY(add_slice(im, node, k, *x, axis, at, part, &cut));
            fast__import_set(im, node, k, cut.line, cut.rank, cut.shape);
        }
        at += part;
    }
    return FAST_OK;
}

/* Return number k of slice input i, or of the attribute of older files. */
static double slice_number(onnx_import *im, const fast_onnx_node *node, int i, const char *name,
                           int k, double standard)
{
    const fast_onnx_tensor *t = fast__import_constant(im, node, i);
    int64_t list[FAST_ONNX_RANK_MAX];

    if (t)
        return k < t->count ? t->values[k] : standard;
    return fast__onnx_ints(node, name, FAST_ONNX_RANK_MAX, list) > k ? (double)list[k] : standard;
}

/* Import x[start:end] along each listed axis, one layer an axis, with step 1. */
static fast_err import_slice(onnx_import *im, const fast_onnx_node *node)
{
    const fast_onnx_tensor *starts = fast__import_constant(im, node, 1);
    import_value *x = NULL;
    import_value cut;
    int64_t list[FAST_ONNX_RANK_MAX];
    int64_t count = fast__onnx_ints(node, "starts", FAST_ONNX_RANK_MAX, list);

    FAST_TRY(fast__import_need_layer(im, node, 0, &x));
    count = starts ? starts->count : count;
    for (int i = 1; i < node->input_count; i++)
        if (fast__import_layer(im, node, i))
            return fast__onnx_fail(FAST_ENOTSUP, node, "its ranges are no constants");
    cut = *x;
    for (int k = 0; k < count; k++) {
        const int axis =
            fast__onnx_axis(fast__onnx_whole(slice_number(im, node, 3, "axes", k, k)), x->rank);
        const double size = axis < 0 ? 0 : (double)cut.shape[axis];
        double start = slice_number(im, node, 1, "starts", k, 0);
        double end = slice_number(im, node, 2, "ends", k, size);
        if (axis < 0 || slice_number(im, node, 4, "steps", k, 1) != 1)
            return fast__onnx_fail(FAST_ENOTSUP, node, "its step is not 1, or an axis is wrong");
        start = fmin(fmax(start < 0 ? start + size : start, 0), size);
        end = fmin(fmax(end < 0 ? end + size : end, 0), size);
        FAST_TRY(add_slice(im, node, 0, cut, axis, (int64_t)start, (int64_t)(end - start), &cut));
    }
    fast__import_set(im, node, 0, cut.line, cut.rank, cut.shape);
    return FAST_OK;
}

/* Import a mean or sum over axes; the mean over all pixels is the layer global_pool. The layer
 * drops the dimensions, which `keepdims` shows as ones. */
static fast_err import_reduce(onnx_import *im, const fast_onnx_node *node)
{
    const bool mean = fast__span_is(node->op, "ReduceMean");
    const bool retain = fast__onnx_int(node, "keepdims", 1) != 0;
    import_value *x = NULL;
    import_shape shape;
    import_shape out = { 0 };
    int64_t dims[FAST_ONNX_RANK_MAX];
    int64_t list[3];
    char text[64];
    unsigned axes = 0;
    int rank = 0;
    int front = 0;
    int line = 0;
    int count = 0;

    FAST_TRY(fast__import_need_layer(im, node, 0, &x));
    FAST_TRY(read_axes(im, node, x->rank, (1U << x->rank) - 1, &axes));
    FAST_TRY(fast__import_sample(node, x->rank, x->shape, &shape, &front));
    if (axes & 1)
        return fast__onnx_fail(FAST_ENOTSUP, node, "reduces over the batch");
    for (int d = 0; d < x->rank; d++)
        if (retain || !(axes >> d & 1))
            dims[rank++] = axes >> d & 1 ? 1 : x->shape[d];
    for (int d = 0; d < shape.rank; d++)
        if (axes >> (d + front) & 1)
            list[count++] = d;
        else
            out.dims[out.rank++] = shape.dims[d];
    if (out.rank == 0)
        out.dims[out.rank++] = 1;
    FAST_TRY(fast__import_view(im, node, x, shape, &line));
    if (mean && shape.rank == 3 && count == 2 && list[0] == 1)
        FAST_TRY(fast__import_simple(im, node, line, out, &line, "global_pool"));
    else if (count > 0)
        FAST_TRY(fast__import_simple(im, node, line, out, &line, "reduce %s axes=%s",
                                     mean ? "mean" : "sum", fast__shape_text(count, list, text)));
    fast__import_set(im, node, 0, line, rank, dims);
    return FAST_OK;
}

/* Import operators that change nothing here: floats stay floats, tokens stay tokens. */
static fast_err import_identity(onnx_import *im, const fast_onnx_node *node)
{
    const int64_t to = fast__onnx_int(node, "to", FAST_ONNX_FLOAT);
    const import_value *x = fast__import_in(im, node, 0);

    if (fast__span_is(node->op, "Cast") && to != FAST_ONNX_FLOAT && to != FAST_ONNX_DOUBLE &&
        !(x->line == 0 && (to == FAST_ONNX_INT64 || to == FAST_ONNX_INT32)))
        return fast__onnx_fail(FAST_ENOTSUP, node, "casts a layer to ONNX type %lld",
                               (long long)to);
    return fast__import_alias(im, node);
}

/* Import an Expand to the shape that the value has already, as exporters write for safety. */
static fast_err import_expand(onnx_import *im, const fast_onnx_node *node)
{
    const fast_onnx_tensor *to = fast__import_constant(im, node, 1);
    const import_value *x = fast__import_in(im, node, 0);

    for (int64_t d = 0; to && d < to->count; d++) {
        const int64_t mine =
            x->rank - (to->count - d) >= 0 ? x->shape[x->rank - (to->count - d)] : 0;
        if (to->values[d] != 1 && fast__onnx_whole(to->values[d]) != mine)
            to = NULL;
    }
    if (!to || to->count > x->rank)
        return fast__onnx_fail(FAST_ENOTSUP, node, "repeats elements of a layer");
    return fast__import_alias(im, node);
}

/* Import the layer `dropout`: training draws masks, whatever mode the file was written in. */
static fast_err import_dropout(onnx_import *im, const fast_onnx_node *node)
{
    const fast_onnx_tensor *ratio = fast__import_constant(im, node, 1);
    const double p =
        ratio && ratio->count == 1 ? ratio->values[0] : fast__onnx_real(node, "ratio", 0.5);
    import_value *x = NULL;
    char text[32];
    int line = 0;

    FAST_TRY(fast__import_need_layer(im, node, 0, &x));
    if (!(p > 0))
        return fast__import_alias(im, node);
    fast__import_real(p, text);
    FAST_TRY(fast__import_simple(im, node, x->line, im->lines[x->line].shape, &line, "dropout %s",
                                 text));
    im->lines[line].weights = true; /* masks differ: never merged with an equal line */
    fast__import_set(im, node, 0, line, x->rank, x->shape);
    return FAST_OK;
}

/* The operators of this file, and the layers that they become. A reshape is a layer only where its
 * reader cannot do without. */
const import_row fast__import_moves[] = {
    { "Reshape", import_reshape },     /* none, or reshape at its reader */
    { "Flatten", import_flatten },     /* none, or flatten at its reader */
    { "Squeeze", import_squeeze },     /* none */
    { "Unsqueeze", import_unsqueeze }, /* none */
    { "Transpose", import_transpose }, /* transpose */
    { "Concat", import_concat },       /* concat, between transposes */
    { "Split", import_split },         /* a slice for each output */
    { "Slice", import_slice },         /* a slice for each axis */
    { "ReduceMean", import_reduce },   /* global_pool, or reduce mean */
    { "ReduceSum", import_reduce },    /* reduce sum */
    { "Identity", import_identity },   /* none */
    { "Cast", import_identity },       /* none */
    { "Expand", import_expand },       /* none */
    { "Dropout", import_dropout },     /* dropout */
    { NULL, NULL },
};
