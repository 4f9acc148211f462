/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/onnx/onnx_file.h"

/* The window of a convolution or pooling over 1 to 3 dimensions, with padding made explicit. */
typedef struct fast_onnx_window {
    int dims;            /* spatial dimensions */
    int64_t in[3];       /* size of the input */
    int64_t kernel[3];   /* size of the window */
    int64_t stride[3];   /* step of the window */
    int64_t pad[3];      /* border before the input */
    int64_t pad_end[3];  /* border behind it */
    int64_t dilation[3]; /* distance between the window's points */
    int64_t out[3];      /* size of the output */
    int64_t points;      /* product of kernel */
    int64_t in_count;    /* product of in */
    int64_t out_count;   /* product of out */
} fast_onnx_window;

/* Read a node's window over `in`. `kernel` is from the weights; NULL: from the node. FAST_EFORMAT
 * for sizes that do not fit, FAST_ENOTSUP for more than 3 dimensions. */
fast_err fast__onnx_window_read(const fast_onnx_node *node, int dims, const int64_t *in,
                                const int64_t *kernel, fast_onnx_window *out);
