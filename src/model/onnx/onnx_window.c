/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes of windows: kernel_shape, strides, pads, dilations, auto_pad, ceil_mode.
 *
 *     span   = dilation (kernel - 1) + 1
 *     out    = floor((in + pads - span) / stride) + 1       ceil with ceil_mode
 *     SAME   = ceil(in / stride); the odd element of padding is behind (UPPER) or before (LOWER)
 *
 *     pads = 1, 1      . x x x x .
 *     kernel 3         [---]             output 0 covers the border and two elements
 *     stride 2             [---]         output 1
 *
 * The evaluator slides over 1 to 3 dimensions, the importer over 2; both read their nodes here.
 */
#include "model/onnx/onnx_window.h"

/* Read a list of `count` numbers within [min, 2^20], or fill in `standard` if the attribute is
 * absent. The bound keeps products of sizes within 64 bits. A list of another length is an error.
 */
static bool read_list(const fast_onnx_node *node, const char *name, int count, int64_t min,
                      int64_t standard, int64_t *out)
{
    const int given = fast__onnx_ints(node, name, count, out);

    for (int i = 0; i < count; i++) {
        if (given < 0)
            out[i] = standard;
        if (out[i] < min || out[i] > 1 << 20)
            return false;
    }
    return given < 0 || given == count;
}

/* Fill in the padding and the size of the output along dimension d. `auto_pad` replaces the
 * padding of the node; with VALID and NOTSET it is as given. A window larger than its padded input
 * is an error. */
static bool slide(const fast_onnx_node *node, fast_onnx_window *w, int d)
{
    const bool upper = fast__onnx_text_is(node, "auto_pad", "SAME_UPPER");
    const bool lower = fast__onnx_text_is(node, "auto_pad", "SAME_LOWER");
    const bool ceil_mode = fast__onnx_int(node, "ceil_mode", 0) != 0;
    const int64_t span = w->dilation[d] * (w->kernel[d] - 1) + 1;
    int64_t room = 0;

    if (upper || lower) {
        const int64_t size = (w->in[d] + w->stride[d] - 1) / w->stride[d];
        const int64_t need = (size - 1) * w->stride[d] + span - w->in[d];
        const int64_t total = need > 0 ? need : 0;
        w->pad[d] = upper ? total / 2 : (total + 1) / 2;
        w->pad_end[d] = total - w->pad[d];
    }
    room = w->in[d] + w->pad[d] + w->pad_end[d] - span;
    if (room < 0 || w->in[d] < 1)
        return false;
    w->out[d] = (room + (ceil_mode ? w->stride[d] - 1 : 0)) / w->stride[d] + 1;
    return true;
}

/* The kernel of a convolution is that of its weight, which the attribute may repeat. */
fast_err fast__onnx_window_read(const fast_onnx_node *node, int dims, const int64_t *in,
                                const int64_t *kernel, fast_onnx_window *out)
{
    fast_onnx_window w = { .dims = dims };
    int64_t pads[6] = { 0 };
    bool good = true;

    if (dims > 3)
        return fast__onnx_fail(FAST_ENOTSUP, node, "slides over more than 3 dimensions");
    good = read_list(node, "strides", dims, 1, 1, w.stride) &&
           read_list(node, "dilations", dims, 1, 1, w.dilation) &&
           read_list(node, "pads", 2 * dims, 0, 0, pads) &&
           (kernel || read_list(node, "kernel_shape", dims, 1, 0, w.kernel));
    for (int d = 0; d < dims && good; d++) {
        w.in[d] = in[d];
        w.pad[d] = pads[d];
        w.pad_end[d] = pads[dims + d];
        if (kernel)
            w.kernel[d] = kernel[d];
        good = w.kernel[d] >= 1 && w.kernel[d] <= 1 << 20 && in[d] < (int64_t)1 << 40 &&
               slide(node, &w, d);
    }
    good = good && fast__onnx_count(dims, w.kernel, &w.points) &&
           fast__onnx_count(dims, w.in, &w.in_count) && fast__onnx_count(dims, w.out, &w.out_count);
    if (!good)
        return fast__onnx_fail(FAST_EFORMAT, node, "its window does not fit its input");
    *out = w;
    return FAST_OK;
}
