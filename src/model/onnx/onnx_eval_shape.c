/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators that move elements, and those that make tensors of shapes. An output is filled by
 * asking, for each of its elements, which element of the input it is:
 *
 *     Transpose   the strides of the input, in the output's order
 *     Slice       start + step times the position, along each axis
 *     Tile        the position modulo the input's size
 *     Gather      the index in place of the position along one axis
 *     Concat, Split   blocks of columns, seen as rows of everything from the axis on
 *
 * Moves do not change values: elements of a weight stay trainable (`trainable`), so that the
 * position vectors of a transformer, rows 0 to T - 1 of their table, can still be trained.
 *
 * Shapes that a file asks for pass the budget before anything is allocated.
 */
#include "model/onnx/onnx_eval.h"

#include <math.h>
#include <string.h>

/* Give the elements of input 0 another shape; their order does not change. The number of elements
 * must stay the same. */
static fast_err copy_as(fast_onnx_call *c, int rank, const int64_t *shape)
{
    const fast_onnx_tensor *x = c->in[0];
    int64_t count = 0;

    if (rank > FAST_ONNX_RANK_MAX || !fast__onnx_count(rank, shape, &count) || count != x->count)
        return fast__onnx_fail(FAST_EFORMAT, c->node, "its %lld elements do not fit the new shape",
                               (long long)x->count);
    FAST_TRY(fast__onnx_out(c, 0, x->type, rank, shape));
    if (x->count > 0)
        memcpy(c->out[0].values, x->values, (size_t)x->count * sizeof *x->values);
    c->out[0].trainable = x->trainable;
    return FAST_OK;
}

/* Compute y = x. Weights that are passed on stay trainable. */
static fast_err run_identity(fast_onnx_call *c)
{
    return copy_as(c, c->in[0]->rank, c->in[0]->shape);
}

/* Without training y = x, and the mask is true everywhere. A mask that is drawn at random is not a
 * constant. */
static fast_err run_dropout(fast_onnx_call *c)
{
    const bool train =
        c->in_count > 2 && c->in[2] && c->in[2]->count == 1 && c->in[2]->values[0] != 0;
    const double ratio =
        c->in_count > 1 && c->in[1] && c->in[1]->count == 1 ? c->in[1]->values[0] : 0.5;

    if (train && ratio > 0)
        return fast__onnx_fail(FAST_ENOTSUP, c->node, "draws at random from a constant");
    FAST_TRY(run_identity(c));
    if (c->out_count > 1) {
        FAST_TRY(fast__onnx_out(c, 1, FAST_ONNX_BOOL, c->in[0]->rank, c->in[0]->shape));
        for (int64_t i = 0; i < c->out[1].count; i++)
            c->out[1].values[i] = 1;
    }
    return FAST_OK;
}

/* The shape is input 1; 0 copies a dimension of the input unless `allowzero` is set, -1 follows
 * from the others. The product of the others is bounded, so that it cannot overflow. */
static fast_err run_reshape(fast_onnx_call *c)
{
    const fast_onnx_tensor *x = c->in[0];
    const fast_onnx_tensor *to = c->in[1];
    const bool zero = fast__onnx_int(c->node, "allowzero", 0) != 0;
    int64_t shape[FAST_ONNX_RANK_MAX];
    int64_t known = 1;
    int free = -1;

    if (to->count > FAST_ONNX_RANK_MAX)
        return fast__onnx_fail(FAST_ENOTSUP, c->node, "gives more than %d dimensions",
                               FAST_ONNX_RANK_MAX);
    for (int d = 0; d < to->count; d++) {
        shape[d] = fast__onnx_whole(to->values[d]);
        if (shape[d] == 0 && !zero && d < x->rank)
            shape[d] = x->shape[d];
        if (shape[d] == -1)
            free = d;
        else if (shape[d] < 0 || shape[d] > (int64_t)1 << 40 || known > (int64_t)1 << 22)
            known = -1;
        else
            known = known < 0 ? -1 : known * shape[d];
    }
    /* A product that is zero or unknown leaves nothing to divide by: the sizes will not fit. */
    if (free >= 0)
        shape[free] = known > 0 ? x->count / known : 0;
    return copy_as(c, (int)to->count, shape);
}

/* Join the dimensions before the axis and those from it on: [a, b, c, d] with axis 2 becomes [a b,
 * c d]. */
static fast_err run_flatten(fast_onnx_call *c)
{
    const fast_onnx_tensor *x = c->in[0];
    int64_t axis = fast__onnx_int(c->node, "axis", 1);
    int64_t shape[2] = { 1, 1 };

    axis = axis < 0 ? axis + x->rank : axis;
    for (int d = 0; d < x->rank; d++)
        shape[d >= axis] *= x->shape[d];
    return copy_as(c, 2, shape);
}

/* Drop the dimensions of the axes, by default all of size 1. That they have size 1 follows from
 * the number of elements. */
static fast_err run_squeeze(fast_onnx_call *c)
{
    const fast_onnx_tensor *x = c->in[0];
    int64_t shape[FAST_ONNX_RANK_MAX];
    unsigned axes = 0;
    unsigned ones = 0;
    int rank = 0;

    for (int d = 0; d < x->rank; d++)
        ones |= (unsigned)(x->shape[d] == 1) << d;
    if (!fast__onnx_axes(c, 1, "axes", x->rank, ones, &axes))
        return fast__onnx_fail(FAST_EFORMAT, c->node, "an axis is out of range");
    for (int d = 0; d < x->rank; d++)
        if (!(axes >> d & 1))
            shape[rank++] = x->shape[d];
    return copy_as(c, rank, shape);
}

/* Insert dimensions of size 1. Axes count in the result, and none may be given twice. */
static fast_err run_unsqueeze(fast_onnx_call *c)
{
    const fast_onnx_tensor *x = c->in[0];
    int64_t shape[FAST_ONNX_RANK_MAX];
    int64_t listed[FAST_ONNX_RANK_MAX];
    int64_t added = fast__onnx_ints(c->node, "axes", FAST_ONNX_RANK_MAX, listed);
    unsigned axes = 0;
    int from = 0;

    if (c->in_count > 1 && c->in[1])
        added = c->in[1]->count;
    if (added < 0 || x->rank + added > FAST_ONNX_RANK_MAX ||
        !fast__onnx_axes(c, 1, "axes", x->rank + (int)added, 0, &axes) ||
        __builtin_popcount(axes) != added)
        return fast__onnx_fail(FAST_EFORMAT, c->node, "an axis is out of range");
    for (int d = 0; d < x->rank + added; d++)
        shape[d] = axes >> d & 1 ? 1 : x->shape[from++];
    return copy_as(c, x->rank + (int)added, shape);
}

/* Compute y[i, j, k] = x[j, i, k] for perm 1, 0, 2; without perm all dimensions are reversed. For
 * each element of the output the strides of the input in the output's order give its source. */
static fast_err run_transpose(fast_onnx_call *c)
{
    const fast_onnx_tensor *x = c->in[0];
    int64_t perm[FAST_ONNX_RANK_MAX];
    int64_t shape[FAST_ONNX_RANK_MAX];
    int64_t stride[FAST_ONNX_RANK_MAX];
    unsigned seen = 0;
    const int given = fast__onnx_ints(c->node, "perm", FAST_ONNX_RANK_MAX, perm);
    int64_t step = 1;

    for (int d = 0; d < x->rank && given < 0; d++)
        perm[d] = x->rank - 1 - d;
    for (int d = 0; d < x->rank; d++)
        seen |= perm[d] >= 0 && perm[d] < x->rank ? 1U << perm[d] : 0;
    if ((given >= 0 && given != x->rank) || seen != (1U << x->rank) - 1)
        return fast__onnx_fail(FAST_EFORMAT, c->node, "its perm is no permutation");
    for (int d = x->rank - 1; d >= 0; d--) {
        stride[d] = step;
        step *= x->shape[d];
    }
    for (int d = 0; d < x->rank; d++)
        shape[d] = x->shape[perm[d]];
    FAST_TRY(fast__onnx_out(c, 0, x->type, x->rank, shape));
    for (int64_t i = 0; i < x->count; i++) {
        int64_t rest = i;
        int64_t at = 0;
        for (int d = x->rank - 1; d >= 0; d--) {
            at += rest % shape[d] * stride[perm[d]];
            rest /= shape[d];
        }
        c->out[0].values[i] = x->values[at];
    }
    c->out[0].trainable = x->trainable;
    return FAST_OK;
}

/* Multiply the dimensions from `first` to before `end`. */
static int64_t product(const fast_onnx_tensor *t, int first, int end)
{
    int64_t p = 1;

    for (int d = first; d < end; d++)
        p *= t->shape[d];
    return p;
}

/* Lay the inputs side by side along an axis. Seen as rows of everything from the axis on, each
 * input is a block of columns. */
static fast_err run_concat(fast_onnx_call *c)
{
    const fast_onnx_tensor *first = c->in[0];
    const int axis = fast__onnx_axis(fast__onnx_int(c->node, "axis", 0), first->rank);
    int64_t shape[FAST_ONNX_RANK_MAX];
    int64_t at = 0;

    if (axis < 0)
        return fast__onnx_fail(FAST_EFORMAT, c->node, "its axis is out of range");
    memcpy(shape, first->shape, sizeof shape);
    for (int k = 1; k < c->in_count; k++) {
        if (!c->in[k] || c->in[k]->rank != first->rank)
            return fast__onnx_fail(FAST_EFORMAT, c->node, "its inputs differ in rank");
        for (int d = 0; d < first->rank; d++)
            if (d != axis && c->in[k]->shape[d] != first->shape[d])
                return fast__onnx_fail(FAST_EFORMAT, c->node, "its inputs' shapes do not fit");
        shape[axis] += c->in[k]->shape[axis];
    }
    FAST_TRY(fast__onnx_out(c, 0, first->type, first->rank, shape));
    for (int k = 0; k < c->in_count; k++) {
        const int64_t rows = product(c->in[k], 0, axis);
        const int64_t width = product(c->in[k], axis, first->rank);
        const int64_t stride = product(&c->out[0], axis, first->rank);
        for (int64_t r = 0; r < rows && width > 0; r++)
            memcpy(c->out[0].values + r * stride + at, c->in[k]->values + r * width,
                   (size_t)width * sizeof(double));
        at += width;
    }
    return FAST_OK;
}

/* Cut input 0 along an axis, into the parts of input 1 or attribute `split`, or into equal ones:
 * the reverse of Concat. */
static fast_err run_split(fast_onnx_call *c)
{
    const fast_onnx_tensor *x = c->in[0];
    const int axis = fast__onnx_axis(fast__onnx_int(c->node, "axis", 0), x->rank);
    int64_t parts[FAST_ONNX_IO_MAX];
    int given = fast__onnx_ints(c->node, "split", FAST_ONNX_IO_MAX, parts);
    int64_t at = 0;

    if (axis < 0)
        return fast__onnx_fail(FAST_EFORMAT, c->node, "its axis is out of range");
    if (c->in_count > 1 && c->in[1])
        for (given = 0; given < c->in[1]->count && given < FAST_ONNX_IO_MAX; given++)
            parts[given] = fast__onnx_whole(c->in[1]->values[given]);
    for (int k = 0; k < c->out_count; k++) {
        int64_t shape[FAST_ONNX_RANK_MAX];
        const int64_t part = given == c->out_count ? parts[k] : x->shape[axis] / c->out_count;
        const int64_t rows = product(x, 0, axis);
        const int64_t inner = product(x, axis + 1, x->rank);
        if (part < 0 || part > x->shape[axis] - at)
            return fast__onnx_fail(FAST_EFORMAT, c->node, "its parts do not fit");
        memcpy(shape, x->shape, sizeof shape);
        shape[axis] = part;
        FAST_TRY(fast__onnx_out(c, k, x->type, x->rank, shape));
        for (int64_t r = 0; r < rows && part * inner > 0; r++)
            memcpy(c->out[k].values + r * part * inner,
                   x->values + (r * x->shape[axis] + at) * inner,
                   (size_t)(part * inner) * sizeof(double));
        c->out[k].trainable = x->trainable;
        at += part;
    }
    return FAST_OK;
}

/* The range of one axis of a slice. */
typedef struct slice_range {
    int64_t start; /* first element */
    int64_t step;  /* not 0 */
    int64_t count; /* number of elements */
} slice_range;

/* Clamp start and end as numpy does: negative ones count from the end, and a negative step runs
 * from the last element down to before `end`, which may then be -1. */
static slice_range make_range(int64_t size, double start, double end, double step)
{
    slice_range r = { 0,
                      step < -1e9  ? -(int64_t)1e9
                      : step > 1e9 ? (int64_t)1e9
                                   : (int64_t)step,
                      0 };
    const double low = step < 0 ? -1 : 0;
    const double high = (double)size - (step < 0 ? 1 : 0);

    start += start < 0 ? (double)size : 0;
    end += end < 0 ? (double)size : 0;
    start = fmin(fmax(start, low), high);
    end = fmin(fmax(end, low), high);
    r.start = (int64_t)start;
    r.count = (int64_t)ceil((end - start) / (double)r.step);
    r.count = r.count < 0 ? 0 : r.count;
    return r;
}

/* Return number k of slice input i, or of the attribute of older files. Inputs that are left out
 * give the standard: all axes in order, steps of 1. */
static double slice_number(const fast_onnx_call *c, int i, const int64_t *listed, int k,
                           double standard)
{
    if (i < c->in_count && c->in[i])
        return k < c->in[i]->count ? c->in[i]->values[k] : standard;
    return c->in_count == 1 && listed ? (double)listed[k] : standard;
}

/* Fill the ranges of all axes; those that are not listed stay whole. An axis that is listed twice
 * has its last range. */
static fast_err slice_ranges(const fast_onnx_call *c, slice_range *ranges)
{
    const fast_onnx_tensor *x = c->in[0];
    int64_t starts[FAST_ONNX_RANK_MAX] = { 0 };
    int64_t ends[FAST_ONNX_RANK_MAX] = { 0 };
    int64_t axes[FAST_ONNX_RANK_MAX];
    int64_t count = fast__onnx_ints(c->node, "starts", FAST_ONNX_RANK_MAX, starts);
    const int listed = fast__onnx_ints(c->node, "axes", FAST_ONNX_RANK_MAX, axes);

    fast__onnx_ints(c->node, "ends", FAST_ONNX_RANK_MAX, ends);
    if (c->in_count > 2 && c->in[1] && c->in[2])
        count = c->in[1]->count;
    for (int d = 0; d < x->rank; d++)
        ranges[d] = (slice_range){ 0, 1, x->shape[d] };
    for (int k = 0; k < count; k++) {
        const double axis = slice_number(c, 3, listed > k ? axes : NULL, k, k);
        const int d = fast__onnx_axis(fast__onnx_whole(axis), x->rank);
        const double step = slice_number(c, 4, NULL, k, 1);
        if (d < 0 || !(fabs(step) >= 1))
            return fast__onnx_fail(FAST_EFORMAT, c->node, "an axis or a step is out of range");
        ranges[d] = make_range(x->shape[d], slice_number(c, 1, starts, k, 0),
                               slice_number(c, 2, ends, k, 0), step);
    }
    return FAST_OK;
}

/* Compute y = x[start:end:step, ...]: the position in the output, times step, plus start, is that
 * in the input. */
static fast_err run_slice(fast_onnx_call *c)
{
    const fast_onnx_tensor *x = c->in[0];
    slice_range ranges[FAST_ONNX_RANK_MAX];
    int64_t shape[FAST_ONNX_RANK_MAX];

    FAST_TRY(slice_ranges(c, ranges));
    for (int d = 0; d < x->rank; d++)
        shape[d] = ranges[d].count;
    FAST_TRY(fast__onnx_out(c, 0, x->type, x->rank, shape));
    for (int64_t i = 0; i < c->out[0].count; i++) {
        int64_t rest = i;
        int64_t at = 0;
        int64_t stride = 1;
        for (int d = x->rank - 1; d >= 0; d--) {
            at += (ranges[d].start + rest % shape[d] * ranges[d].step) * stride;
            rest /= shape[d];
            stride *= x->shape[d];
        }
        c->out[0].values[i] = x->values[at];
    }
    c->out[0].trainable = x->trainable;
    return FAST_OK;
}

/* Take slices of x by index along an axis: y has the shape of the indices in place of the axis.
 * Negative indices count from the end. */
static fast_err run_gather(fast_onnx_call *c)
{
    const fast_onnx_tensor *x = c->in[0];
    const fast_onnx_tensor *index = c->in[1];
    const int axis = fast__onnx_axis(fast__onnx_int(c->node, "axis", 0), x->rank);
    int64_t shape[2 * FAST_ONNX_RANK_MAX];
    int rank = 0;

    if (axis < 0)
        return fast__onnx_fail(FAST_EFORMAT, c->node, "its axis is out of range");
    for (int d = 0; d < axis; d++)
        shape[rank++] = x->shape[d];
    for (int d = 0; d < index->rank; d++)
        shape[rank++] = index->shape[d];
    for (int d = axis + 1; d < x->rank; d++)
        shape[rank++] = x->shape[d];
    FAST_TRY(fast__onnx_out(c, 0, x->type, rank, shape));
    /* Rows of `inner` adjacent elements are copied as a whole. */
    const int64_t inner = product(x, axis + 1, x->rank);
    for (int64_t o = 0; o < product(x, 0, axis); o++)
        for (int64_t k = 0; k < index->count; k++) {
            double at = index->values[k];
            at += at < 0 ? (double)x->shape[axis] : 0;
            if (!(at >= 0 && at < (double)x->shape[axis]))
                return fast__onnx_fail(FAST_EFORMAT, c->node, "an index is out of range");
            if (inner > 0)
                memcpy(c->out[0].values + (o * index->count + k) * inner,
                       x->values + (o * x->shape[axis] + (int64_t)at) * inner,
                       (size_t)inner * sizeof(double));
        }
    c->out[0].trainable = x->trainable;
    return FAST_OK;
}

/* Read a tensor of whole numbers as a shape. Negative and huge ones become -1, which no tensor can
 * have: its allocation then fails with a message. */
static fast_err read_shape(const fast_onnx_call *c, const fast_onnx_tensor *t, int64_t *shape)
{
    if (t->count > FAST_ONNX_RANK_MAX)
        return fast__onnx_fail(FAST_ENOTSUP, c->node, "gives more than %d dimensions",
                               FAST_ONNX_RANK_MAX);
    for (int d = 0; d < t->count; d++)
        shape[d] = t->values[d] >= 0 && t->values[d] <= 1e12 ? (int64_t)t->values[d] : -1;
    return FAST_OK;
}

/* Broadcast to the shape of input 1, in both directions as ONNX has it. */
static fast_err run_expand(fast_onnx_call *c)
{
    const fast_onnx_tensor *x = c->in[0];
    int64_t shape[FAST_ONNX_RANK_MAX] = { 0 };
    int rank = 0;

    FAST_TRY(read_shape(c, c->in[1], shape));
    if (!fast__onnx_broadcast(x, (int)c->in[1]->count, shape, &rank))
        return fast__onnx_fail(FAST_EFORMAT, c->node, "its inputs' shapes do not fit");
    FAST_TRY(fast__onnx_out(c, 0, x->type, rank, shape));
    for (int64_t i = 0; i < c->out[0].count; i++)
        c->out[0].values[i] = x->values[fast__onnx_broadcast_at(x, rank, shape, i)];
    return FAST_OK;
}

/* Repeat each axis as often as input 1 says: positions modulo the size of the input. */
static fast_err run_tile(fast_onnx_call *c)
{
    const fast_onnx_tensor *x = c->in[0];
    int64_t shape[FAST_ONNX_RANK_MAX] = { 0 };

    FAST_TRY(read_shape(c, c->in[1], shape));
    if (c->in[1]->count != x->rank)
        return fast__onnx_fail(FAST_EFORMAT, c->node, "needs a number for each axis");
    for (int d = 0; d < x->rank; d++)
        shape[d] = shape[d] < 0 || shape[d] > 1 << 30 || x->shape[d] > 1 << 30
                       ? -1
                       : shape[d] * x->shape[d];
    FAST_TRY(fast__onnx_out(c, 0, x->type, x->rank, shape));
    for (int64_t i = 0; i < c->out[0].count; i++) {
        int64_t rest = i;
        int64_t at = 0;
        int64_t stride = 1;
        for (int d = x->rank - 1; d >= 0; d--) {
            at += rest % shape[d] % x->shape[d] * stride;
            rest /= shape[d];
            stride *= x->shape[d];
        }
        c->out[0].values[i] = x->values[at];
    }
    return FAST_OK;
}

/* Give the dimensions of input 0 from `start` to before `end`. No element is read, so the importer
 * may ask for the shape of a layer. */
static fast_err run_shape(fast_onnx_call *c)
{
    const fast_onnx_tensor *x = c->in[0];
    int64_t start = fast__onnx_int(c->node, "start", 0);
    int64_t end = fast__onnx_int(c->node, "end", x->rank);
    int64_t count = 0;

    start += start < 0 ? x->rank : 0;
    end += end < 0 ? x->rank : 0;
    start = start < 0 ? 0 : start > x->rank ? x->rank : start;
    end = end < 0 ? 0 : end > x->rank ? x->rank : end;
    count = end > start ? end - start : 0;
    FAST_TRY(fast__onnx_out(c, 0, FAST_ONNX_INT64, 1, &count));
    for (int64_t i = 0; i < count; i++)
        c->out[0].values[i] = (double)x->shape[start + i];
    return FAST_OK;
}

/* Give the number of elements. */
static fast_err run_size(fast_onnx_call *c)
{
    FAST_TRY(fast__onnx_out(c, 0, FAST_ONNX_INT64, 0, NULL));
    c->out[0].values[0] = (double)c->in[0]->count;
    return FAST_OK;
}

/* Fill a tensor of the shape in input 0 with attribute `value`, a tensor of one element; zeros of
 * float32 by default. */
static fast_err run_constant_of_shape(fast_onnx_call *c)
{
    const fast_span message = fast__onnx_tensor_attribute(c->node, "value");
    int64_t shape[FAST_ONNX_RANK_MAX];
    fast_onnx_tensor value = { .type = FAST_ONNX_FLOAT };
    double fill = 0;

    FAST_TRY(read_shape(c, c->in[0], shape));
    if (message.data) {
        FAST_TRY(fast__onnx_tensor_decode(message, &value));
        fill = value.count > 0 ? value.values[0] : 0;
    }
    const int type = value.type;
    fast__onnx_tensor_fini(&value);
    FAST_TRY(fast__onnx_out(c, 0, type, (int)c->in[0]->count, shape));
    for (int64_t i = 0; i < c->out[0].count; i++)
        c->out[0].values[i] = fill;
    return FAST_OK;
}

/* Give the tensor or the numbers of an attribute, of which a node has exactly one. */
static fast_err run_constant(fast_onnx_call *c)
{
    const fast_span message = fast__onnx_tensor_attribute(c->node, "value");
    int64_t ints[FAST_ONNX_IO_MAX];
    double reals[FAST_ONNX_IO_MAX];
    const int64_t n = fast__onnx_ints(c->node, "value_ints", FAST_ONNX_IO_MAX, ints);
    const int64_t m = fast__onnx_reals(c->node, "value_floats", FAST_ONNX_IO_MAX, reals);

    if (message.data)
        return fast__onnx_tensor_decode(message, &c->out[0]);
    if (n >= 0) {
        FAST_TRY(fast__onnx_out(c, 0, FAST_ONNX_INT64, 1, &n));
        for (int64_t i = 0; i < n; i++)
            c->out[0].values[i] = (double)ints[i];
        return FAST_OK;
    }
    if (m >= 0) {
        FAST_TRY(fast__onnx_out(c, 0, FAST_ONNX_FLOAT, 1, &m));
        for (int64_t i = 0; i < m; i++)
            c->out[0].values[i] = reals[i];
        return FAST_OK;
    }
    if (!fast__onnx_has(c->node, "value_int") && !fast__onnx_has(c->node, "value_float"))
        return fast__onnx_fail(FAST_ENOTSUP, c->node, "has a value that is no number");
    const bool whole = fast__onnx_has(c->node, "value_int");
    FAST_TRY(fast__onnx_out(c, 0, whole ? FAST_ONNX_INT64 : FAST_ONNX_FLOAT, 0, NULL));
    c->out[0].values[0] = whole ? (double)fast__onnx_int(c->node, "value_int", 0)
                                : fast__onnx_real(c->node, "value_float", 0);
    return FAST_OK;
}

/* Give start, start + delta, ... below limit. The number of elements is computed first and must be
 * finite. */
static fast_err run_range(fast_onnx_call *c)
{
    double n = 0;
    int64_t count = 0;

    for (int k = 0; k < 3; k++)
        if (c->in[k]->count != 1)
            return fast__onnx_fail(FAST_EFORMAT, c->node, "needs three numbers");
    n = ceil((c->in[1]->values[0] - c->in[0]->values[0]) / c->in[2]->values[0]);
    if (!(n < 1e12))
        return fast__onnx_fail(FAST_EFORMAT, c->node, "does not end");
    count = n > 0 ? (int64_t)n : 0;
    FAST_TRY(fast__onnx_out(c, 0, c->in[0]->type, 1, &count));
    for (int64_t i = 0; i < count; i++)
        c->out[0].values[i] =
            fast__onnx_round(c->in[0]->type, c->in[0]->values[0] + (double)i * c->in[2]->values[0]);
    return FAST_OK;
}

/* Copy the upper or lower triangle of each matrix and set the other elements to zero; k moves the
 * diagonal. */
static fast_err run_trilu(fast_onnx_call *c)
{
    const fast_onnx_tensor *x = c->in[0];
    const bool upper = fast__onnx_int(c->node, "upper", 1) != 0;
    const double k = c->in_count > 1 && c->in[1] && c->in[1]->count == 1 ? c->in[1]->values[0] : 0;

    if (x->rank < 2)
        return fast__onnx_fail(FAST_EFORMAT, c->node, "needs a matrix");
    FAST_TRY(fast__onnx_out(c, 0, x->type, x->rank, x->shape));
    for (int64_t i = 0; i < x->count; i++) {
        const double column = (double)(i % x->shape[x->rank - 1]);
        const double row = (double)(i / x->shape[x->rank - 1] % x->shape[x->rank - 2]);
        const bool stays = upper ? column >= row + k : column <= row + k;
        c->out[0].values[i] = stays ? x->values[i] : 0;
    }
    return FAST_OK;
}

/* The operators of this file. Shape and Size read no elements of their input; Constant has no
 * inputs at all. */
const fast_onnx_operator fast__onnx_shape_operators[] = {
    { "Identity", 1, run_identity },                 /* y = x */
    { "Dropout", 1, run_dropout },                   /* y = x */
    { "Reshape", 2, run_reshape },                   /* shape in input 1 */
    { "Flatten", 1, run_flatten },                   /* to a matrix */
    { "Squeeze", 1, run_squeeze },                   /* drop ones */
    { "Unsqueeze", 1, run_unsqueeze },               /* insert ones */
    { "Transpose", 1, run_transpose },               /* permute axes */
    { "Concat", 1, run_concat },                     /* side by side */
    { "Split", 1, run_split },                       /* cut along an axis */
    { "Slice", 1, run_slice },                       /* ranges of axes */
    { "Gather", 2, run_gather },                     /* by index along an axis */
    { "Expand", 2, run_expand },                     /* broadcast */
    { "Tile", 2, run_tile },                         /* repeat */
    { "Shape", 1, run_shape },                       /* dimensions */
    { "Size", 1, run_size },                         /* number of elements */
    { "ConstantOfShape", 1, run_constant_of_shape }, /* one value, by shape */
    { "Constant", 0, run_constant },                 /* from an attribute */
    { "Range", 3, run_range },                       /* start, limit, delta */
    { "Trilu", 1, run_trilu },
    /* a triangle */ { NULL, 0, NULL },
};
