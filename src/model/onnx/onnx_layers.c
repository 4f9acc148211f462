/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Import of operators that are layers: products with weights, windows, normalisation, activations,
 * softmax, embeddings. ONNX and the layers agree but for these:
 *
 *     MatMul(x, W)          dense with W transposed; a following Add of [outputs] is its bias
 *     BatchNormalization    momentum is the weight of the running value: 1 - momentum here
 *     GlobalAveragePool     [C, 1, 1] there, [C] here: no layer is needed to drop the ones
 *     Softmax, at the end   left out for classes: the cross-entropy has one
 *     rank 3 a sample       dense, softmax and layer_norm work on rows: [a, b, c] as [a b, c]
 *
 * An attribute that a layer lacks is refused with a sentence. Nothing is approximated: a network
 * that was imported has the outputs of its file, up to rounding.
 */
#include "model/onnx/onnx_import.h"
#include "model/onnx/onnx_window.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Return a constant input or fail: weights that are computed from the input have no layer. */
static fast_err need_constant(onnx_import *im, const fast_onnx_node *node, int i,
                              const fast_onnx_tensor **out)
{
    *out = fast__import_constant(im, node, i);
    return *out ? FAST_OK
                : fast__onnx_fail(FAST_ENOTSUP, node, "input %d is no constant, as weights are", i);
}

/* Return the rows of a sample: [a, b, c] as [a b, c]; vectors and matrices stay. */
static import_shape as_rows(import_shape s)
{
    if (s.rank == 3)
        return (import_shape){ 2, { s.dims[0] * s.dims[1], s.dims[2], 0 } };
    return s;
}

/* Write a dense layer on the last dimension of x. `w` is [in, out], or [out, in] with `out_first`;
 * `scale` multiplies it. Samples of rank 3 are seen as rows, because the layer would flatten them.
 * The layer stays open for a bias that a later node adds. */
static fast_err add_dense(onnx_import *im, const fast_onnx_node *node, const import_value *x,
                          const fast_onnx_tensor *w, bool out_first, double scale, bool bias,
                          int *line_out)
{
    import_line line = { .input_count = 1, .weights = true, .open_bias = !bias };
    const int64_t outputs = w->shape[!out_first];
    import_shape shape;

    FAST_TRY(fast__import_sample(node, x->rank, x->shape, &shape, NULL));
    shape = as_rows(shape);
    if (w->rank != 2 || shape.dims[shape.rank - 1] != w->shape[out_first] || outputs < 1)
        return fast__onnx_fail(FAST_EFORMAT, node, "its weight does not fit its input");
    FAST_TRY(fast__import_view(im, node, x, shape, &line.inputs[0]));
    shape.dims[shape.rank - 1] = outputs;
    line.shape = shape;
    snprintf(line.text, sizeof line.text, "dense %lld bias=%s", (long long)outputs,
             bias ? "yes" : "no");
    FAST_TRY(fast__import_line(im, node, &line, fast__import_in(im, node, 1)->origin, line_out));
    return fast__import_weight(im, *line_out, "weight", w, scale, !out_first);
}

/* Import y = alpha x W + beta b: a dense layer, with both factors multiplied into its weights. */
static fast_err import_gemm(onnx_import *im, const fast_onnx_node *node)
{
    const fast_onnx_tensor *w = NULL;
    const fast_onnx_tensor *b = fast__import_constant(im, node, 2);
    const bool out_first = fast__onnx_int(node, "transB", 0) != 0;
    import_value *x = NULL;
    int line = 0;

    FAST_TRY(fast__import_need_layer(im, node, 0, &x));
    FAST_TRY(need_constant(im, node, 1, &w));
    if (fast__onnx_int(node, "transA", 0) || (node->input_count > 2 && !b) || x->rank != 2 ||
        w->rank != 2 || (b && b->count != w->shape[!out_first]))
        return fast__onnx_fail(FAST_ENOTSUP, node,
                               "transposes its input, or its bias has another shape");
    FAST_TRY(
        add_dense(im, node, x, w, out_first, fast__onnx_real(node, "alpha", 1), b != NULL, &line));
    if (b)
        FAST_TRY(fast__import_weight(im, line, "bias", b, fast__onnx_real(node, "beta", 1), false));
    fast__import_set(im, node, 0, line, 2, (int64_t[]){ x->shape[0], w->shape[!out_first] });
    return FAST_OK;
}

/* Import the product of two layers: [.., m, k] [.., k, n] of equal leading dimensions, as the
 * attention of transformers has it. */
static fast_err import_product(onnx_import *im, const fast_onnx_node *node, const import_value *a,
                               const import_value *b)
{
    import_line line = { .text = "matmul", .input_count = 2 };
    import_shape s;
    import_shape t;
    int64_t shape[FAST_ONNX_RANK_MAX];

    FAST_TRY(fast__import_sample(node, a->rank, a->shape, &s, NULL));
    FAST_TRY(fast__import_sample(node, b->rank, b->shape, &t, NULL));
    if (a->rank != b->rank || s.rank != t.rank || s.rank < 2 ||
        s.dims[s.rank - 1] != t.dims[t.rank - 2] || (s.rank == 3 && s.dims[0] != t.dims[0]))
        return fast__onnx_fail(FAST_ENOTSUP, node, "multiplies samples of shapes that differ");
    FAST_TRY(fast__import_view(im, node, a, s, &line.inputs[0]));
    FAST_TRY(fast__import_view(im, node, b, t, &line.inputs[1]));
    /* All dimensions but the last are those of a. */
    memcpy(shape, a->shape, sizeof shape);
    shape[a->rank - 1] = b->shape[b->rank - 1];
    line.shape = s;
    line.shape.dims[s.rank - 1] = t.dims[t.rank - 1];
    int at = 0;
    FAST_TRY(fast__import_line(im, node, &line, (fast_span){ NULL, 0 }, &at));
    fast__import_set(im, node, 0, at, a->rank, shape);
    return FAST_OK;
}

/* Import a product with a weight as a dense layer, one of two layers as a matmul. */
static fast_err import_matmul(onnx_import *im, const fast_onnx_node *node)
{
    const fast_onnx_tensor *w = fast__import_constant(im, node, 1);
    import_value *x = NULL;
    int64_t shape[FAST_ONNX_RANK_MAX];
    int line = 0;

    FAST_TRY(fast__import_need_layer(im, node, 0, &x));
    if (!w)
        return import_product(im, node, x, fast__import_in(im, node, 1));
    if (w->rank != 2 || x->rank < 2)
        return fast__onnx_fail(FAST_ENOTSUP, node, "its weight has %d dimensions, not 2", w->rank);
    FAST_TRY(add_dense(im, node, x, w, false, 1, false, &line));
    memcpy(shape, x->shape, sizeof shape);
    shape[x->rank - 1] = w->shape[1];
    fast__import_set(im, node, 0, line, x->rank, shape);
    return FAST_OK;
}

/* Return the sample of an image [C, H, W], or fail: windows slide over two dimensions here. */
static fast_err need_image(const fast_onnx_node *node, const import_value *x, import_shape *out)
{
    FAST_TRY(fast__import_sample(node, x->rank, x->shape, out, NULL));
    return x->rank == 4 && out->rank == 3
               ? FAST_OK
               : fast__onnx_fail(FAST_ENOTSUP, node, "slides over %d dimensions; only 2",
                                 x->rank - 2);
}

/* Fail if a window pads one side more than the other, as exports of TensorFlow do with SAME. */
static fast_err need_symmetric(const fast_onnx_node *node, const fast_onnx_window *w)
{
    if (w->pad[0] != w->pad_end[0] || w->pad[1] != w->pad_end[1])
        return fast__onnx_fail(FAST_ENOTSUP, node,
                               "pads %lldx%lld before and %lldx%lld behind; "
                               "only the same on both sides",
                               (long long)w->pad[0], (long long)w->pad[1], (long long)w->pad_end[0],
                               (long long)w->pad_end[1]);
    return FAST_OK;
}

/* Import a convolution with its weight [out, in / groups, kh, kw], groups, dilations and bias. */
static fast_err import_conv(onnx_import *im, const fast_onnx_node *node)
{
    const fast_onnx_tensor *w = NULL;
    const fast_onnx_tensor *b = fast__import_constant(im, node, 2);
    const int64_t groups = fast__onnx_int(node, "group", 1);
    import_line line = { .input_count = 1, .weights = true };
    import_value *x = NULL;
    fast_onnx_window win;
    int at = 0;

    FAST_TRY(fast__import_need_layer(im, node, 0, &x));
    FAST_TRY(need_constant(im, node, 1, &w));
    FAST_TRY(need_image(node, x, &line.shape));
    if (w->rank != 4 || groups < 1 || groups > 1 << 24 ||
        w->shape[1] * groups != line.shape.dims[0] || w->shape[0] % groups ||
        (node->input_count > 2 && (!b || b->count != w->shape[0])))
        return fast__onnx_fail(FAST_EFORMAT, node, "its weight does not fit its input");
    FAST_TRY(fast__onnx_window_read(node, 2, x->shape + 2, w->shape + 2, &win));
    FAST_TRY(need_symmetric(node, &win));
    FAST_TRY(fast__import_view(im, node, x, line.shape, &line.inputs[0]));
    line.shape = (import_shape){ 3, { w->shape[0], win.out[0], win.out[1] } };
    /* Every option is written, also where it has its default: the text says what the file says. */
    snprintf(line.text, sizeof line.text,
             "conv %lld kernel=%lldx%lld stride=%lldx%lld pad=%lldx%lld dilation=%lldx%lld "
             "groups=%lld bias=%s",
             (long long)w->shape[0], (long long)win.kernel[0], (long long)win.kernel[1],
             (long long)win.stride[0], (long long)win.stride[1], (long long)win.pad[0],
             (long long)win.pad[1], (long long)win.dilation[0], (long long)win.dilation[1],
             (long long)groups, b ? "yes" : "no");
    FAST_TRY(fast__import_line(im, node, &line, fast__import_in(im, node, 1)->origin, &at));
    FAST_TRY(fast__import_weight(im, at, "weight", w, 1, false));
    if (b)
        FAST_TRY(fast__import_weight(im, at, "bias", b, 1, false));
    fast__import_set(im, node, 0, at, 4,
                     (int64_t[]){ x->shape[0], w->shape[0], win.out[0], win.out[1] });
    return FAST_OK;
}

/* Import MaxPool and AveragePool. A mean must count its padding, as the layer does; sizes that are
 * rounded up are accepted where there is nothing to round; the positions of MaxPool may not be
 * read. */
static fast_err import_pool(onnx_import *im, const fast_onnx_node *node)
{
    const bool max = fast__span_is(node->op, "MaxPool");
    import_value *x = NULL;
    import_shape shape;
    fast_onnx_window win;
    int line = 0;

    FAST_TRY(fast__import_need_layer(im, node, 0, &x));
    FAST_TRY(need_image(node, x, &shape));
    FAST_TRY(fast__onnx_window_read(node, 2, x->shape + 2, NULL, &win));
    FAST_TRY(need_symmetric(node, &win));
    if (win.dilation[0] != 1 || win.dilation[1] != 1)
        return fast__onnx_fail(FAST_ENOTSUP, node, "has dilations, which pooling layers lack");
    if (fast__onnx_int(node, "ceil_mode", 0) &&
        ((win.in[0] + 2 * win.pad[0] - win.kernel[0]) % win.stride[0] ||
         (win.in[1] + 2 * win.pad[1] - win.kernel[1]) % win.stride[1]))
        return fast__onnx_fail(FAST_ENOTSUP, node, "rounds its size up (ceil_mode)");
    if (!max && (win.pad[0] || win.pad[1]) && !fast__onnx_int(node, "count_include_pad", 0))
        return fast__onnx_fail(FAST_ENOTSUP, node, "does not count its padding");
    if (node->output_count > 1 && fast__import_out(im, node, 1) &&
        fast__import_out(im, node, 1)->uses)
        return fast__onnx_fail(FAST_ENOTSUP, node, "its second output is used");
    FAST_TRY(fast__import_view(im, node, x, shape, &line));
    shape.dims[1] = win.out[0];
    shape.dims[2] = win.out[1];
    FAST_TRY(fast__import_simple(
        im, node, line, shape, &line, "%s kernel=%lldx%lld stride=%lldx%lld pad=%lldx%lld",
        max ? "max_pool" : "avg_pool", (long long)win.kernel[0], (long long)win.kernel[1],
        (long long)win.stride[0], (long long)win.stride[1], (long long)win.pad[0],
        (long long)win.pad[1]));
    fast__import_set(im, node, 0, line, 4,
                     (int64_t[]){ x->shape[0], x->shape[1], win.out[0], win.out[1] });
    return FAST_OK;
}

/* Import the mean or largest value of each channel. ONNX gives [C, 1, 1], the layer global_pool
 * [C]: the value remembers both. */
static fast_err import_global_pool(onnx_import *im, const fast_onnx_node *node)
{
    import_value *x = NULL;
    import_shape shape;
    int line = 0;

    FAST_TRY(fast__import_need_layer(im, node, 0, &x));
    FAST_TRY(need_image(node, x, &shape));
    FAST_TRY(fast__import_view(im, node, x, shape, &line));
    if (fast__span_is(node->op, "GlobalMaxPool"))
        FAST_TRY(fast__import_simple(im, node, line, (import_shape){ 3, { shape.dims[0], 1, 1 } },
                                     &line, "max_pool kernel=%lldx%lld", (long long)shape.dims[1],
                                     (long long)shape.dims[2]));
    else
        FAST_TRY(fast__import_simple(im, node, line, (import_shape){ 1, { shape.dims[0], 0, 0 } },
                                     &line, "global_pool"));
    fast__import_set(im, node, 0, line, 4, (int64_t[]){ x->shape[0], x->shape[1], 1, 1 });
    return FAST_OK;
}

/* Import scale, bias, mean and variance, inputs 1 to 4, as weights and running statistics. The
 * momentum is that of the running value in ONNX and that of the batch here. */
static fast_err import_batch_norm(onnx_import *im, const fast_onnx_node *node)
{
    static const char *const suffixes[] = { "weight", "bias", "running_mean", "running_var" };
    import_line line = { .input_count = 1, .weights = true };
    import_value *x = NULL;
    char eps[32];
    char momentum[32];
    int at = 0;

    FAST_TRY(fast__import_need_layer(im, node, 0, &x));
    FAST_TRY(fast__import_sample(node, x->rank, x->shape, &line.shape, NULL));
    /* [C, L] is an image of width 1: sequences of the layer are [T, C]. */
    if (line.shape.rank == 2)
        line.shape = (import_shape){ 3, { line.shape.dims[0], line.shape.dims[1], 1 } };
    FAST_TRY(fast__import_view(im, node, x, line.shape, &line.inputs[0]));
    snprintf(line.text, sizeof line.text, "batch_norm eps=%s momentum=%s",
             fast__import_real(fast__onnx_real(node, "epsilon", 1e-5), eps),
             fast__import_real(round(1e6 * (1 - fast__onnx_real(node, "momentum", 0.9))) / 1e6,
                               momentum));
    FAST_TRY(fast__import_line(im, node, &line,
                               fast__import_in(im, node, 1) ? fast__import_in(im, node, 1)->origin
                                                            : (fast_span){ NULL, 0 },
                               &at));
    for (int k = 0; k < 4; k++) {
        const fast_onnx_tensor *w = NULL;
        FAST_TRY(need_constant(im, node, k + 1, &w));
        if (w->count != line.shape.dims[0])
            return fast__onnx_fail(FAST_EFORMAT, node, "its weight does not fit its input");
        FAST_TRY(fast__import_weight(im, at, suffixes[k], w, 1, false));
    }
    fast__import_set(im, node, 0, at, x->rank, x->shape);
    return FAST_OK;
}

/* Import a normalisation over the last dimension; a node without bias is not supported. */
static fast_err import_layer_norm(onnx_import *im, const fast_onnx_node *node)
{
    import_line line = { .input_count = 1, .weights = true };
    import_value *x = NULL;
    const fast_onnx_tensor *w = NULL;
    const fast_onnx_tensor *b = NULL;
    char eps[32];
    int at = 0;

    FAST_TRY(fast__import_need_layer(im, node, 0, &x));
    FAST_TRY(fast__import_sample(node, x->rank, x->shape, &line.shape, NULL));
    line.shape = as_rows(line.shape);
    FAST_TRY(need_constant(im, node, 1, &w));
    FAST_TRY(need_constant(im, node, 2, &b));
    if (fast__onnx_axis(fast__onnx_int(node, "axis", -1), x->rank) != x->rank - 1 ||
        w->count != line.shape.dims[line.shape.rank - 1] || b->count != w->count)
        return fast__onnx_fail(FAST_ENOTSUP, node, "normalises over more than the last dimension");
    FAST_TRY(fast__import_view(im, node, x, line.shape, &line.inputs[0]));
    snprintf(line.text, sizeof line.text, "layer_norm eps=%s",
             fast__import_real(fast__onnx_real(node, "epsilon", 1e-5), eps));
    FAST_TRY(fast__import_line(im, node, &line, fast__import_in(im, node, 1)->origin, &at));
    FAST_TRY(fast__import_weight(im, at, "weight", w, 1, false));
    FAST_TRY(fast__import_weight(im, at, "bias", b, 1, false));
    fast__import_set(im, node, 0, at, x->rank, x->shape);
    return FAST_OK;
}

/* Import Softmax and LogSoftmax over the last dimension. The cross-entropy applies a softmax
 * itself: a last one is left out, or the network would have two. A LogSoftmax stays, since that of
 * one is itself. */
static fast_err import_softmax(onnx_import *im, const fast_onnx_node *node)
{
    const bool logs = fast__span_is(node->op, "LogSoftmax");
    const int64_t standard = im->model->opset < 13 ? 1 : -1;
    const bool last = fast__import_out(im, node, 0) == &im->values[im->model->outputs[0].value];
    import_value *x = NULL;
    import_shape shape;
    int line = 0;

    FAST_TRY(fast__import_need_layer(im, node, 0, &x));
    if (fast__onnx_axis(fast__onnx_int(node, "axis", standard), x->rank) != x->rank - 1)
        return fast__onnx_fail(FAST_ENOTSUP, node, "works along another axis than the last");
    if (last && !logs && !(im->input && im->input->regression))
        return fast__import_alias(im, node);
    FAST_TRY(fast__import_sample(node, x->rank, x->shape, &shape, NULL));
    shape = as_rows(shape);
    FAST_TRY(fast__import_view(im, node, x, shape, &line));
    FAST_TRY(fast__import_simple(im, node, line, shape, &line, logs ? "log_softmax" : "softmax"));
    fast__import_set(im, node, 0, line, x->rank, x->shape);
    return FAST_OK;
}

/* Import rows of a table by token: the input of the network, which thereby holds tokens. */
static fast_err import_embed(onnx_import *im, const fast_onnx_node *node, const import_value *x)
{
    const fast_onnx_tensor *w = fast__import_constant(im, node, 0);
    import_line line = { .input_count = 1, .inputs = { x->line }, .weights = true };
    int at = 0;

    if (x->line != 0 || w->rank != 2 || fast__onnx_int(node, "axis", 0) != 0)
        return fast__onnx_fail(FAST_ENOTSUP, node,
                               "looks up another value than the network's input");
    if (im->vocabulary > 0 && im->vocabulary != w->shape[0])
        return fast__onnx_fail(FAST_ENOTSUP, node, "is a second table of tokens of another size");
    im->vocabulary = w->shape[0];
    line.shape = (import_shape){ 2, { im->lines[0].shape.dims[0], w->shape[1], 0 } };
    snprintf(line.text, sizeof line.text, "embed %lld", (long long)w->shape[1]);
    FAST_TRY(fast__import_line(im, node, &line, fast__import_in(im, node, 0)->origin, &at));
    FAST_TRY(fast__import_weight(im, at, "weight", w, 1, false));
    fast__import_set(im, node, 0, at, 3, (int64_t[]){ x->shape[0], x->shape[1], w->shape[1] });
    return FAST_OK;
}

/* Import one element or a range of a layer along an axis, for constant indices that follow each
 * other; a single index removes the axis. With a constant table and the tokens as indices it is an
 * embedding. */
static fast_err import_gather(onnx_import *im, const fast_onnx_node *node)
{
    const fast_onnx_tensor *index = fast__import_constant(im, node, 1);
    import_value *x = fast__import_layer(im, node, 0);
    import_shape shape;
    int64_t dims[FAST_ONNX_RANK_MAX];
    int front = 0;
    int line = 0;
    int rank = 0;

    if (!x)
        return import_embed(im, node, fast__import_in(im, node, 1));
    const int axis = fast__onnx_axis(fast__onnx_int(node, "axis", 0), x->rank);
    if (!index || index->rank > 1 || index->count < 1 || axis < 1)
        return fast__onnx_fail(FAST_ENOTSUP, node, "gathers by more than one constant index");
    FAST_TRY(fast__import_sample(node, x->rank, x->shape, &shape, &front));
    const double first =
        index->values[0] < 0 ? index->values[0] + (double)x->shape[axis] : index->values[0];
    /* A range of indices is a slice; any other choice of elements has no layer. */
    for (int64_t k = 0; k < index->count; k++)
        if (index->values[k] - index->values[0] != (double)k)
            return fast__onnx_fail(FAST_ENOTSUP, node, "gathers indices that do not follow");
    if (!(first >= 0 && first + (double)index->count <= (double)x->shape[axis]))
        return fast__onnx_fail(FAST_EFORMAT, node, "an index is out of range");
    FAST_TRY(fast__import_view(im, node, x, shape, &line));
    shape.dims[axis - front] = index->count;
    FAST_TRY(fast__import_simple(im, node, line, shape, &line, "slice %d start=%lld count=%lld",
                                 axis - front, (long long)first, (long long)index->count));
    for (int d = 0; d < x->rank; d++)
        if (d != axis || index->rank == 1)
            dims[rank++] = d == axis ? index->count : x->shape[d];
    fast__import_set(im, node, 0, line, rank, dims);
    return FAST_OK;
}

/* The operators of this file, and the layers that they become. */
const import_row fast__import_layers[] = {
    { "Gemm", import_gemm },                     /* dense */
    { "MatMul", import_matmul },                 /* dense, or matmul of two layers */
    { "Conv", import_conv },                     /* conv */
    { "MaxPool", import_pool },                  /* max_pool */
    { "AveragePool", import_pool },              /* avg_pool */
    { "GlobalAveragePool", import_global_pool }, /* global_pool */
    { "GlobalMaxPool", import_global_pool },     /* max_pool of the whole image */
    { "BatchNormalization", import_batch_norm }, /* batch_norm */
    { "LayerNormalization", import_layer_norm }, /* layer_norm */
    { "Softmax", import_softmax },               /* softmax */
    { "LogSoftmax", import_softmax },            /* log_softmax */
    { "Gather", import_gather },                 /* embed, or slice */
    { NULL, NULL },
};
