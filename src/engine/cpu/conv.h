/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "engine/cpu/plan.h"

/*
 * Convolutions with the batch innermost. Activations are [y][x][c][lanes]: `lanes` is the batch
 * padded to a multiple of 16, pixels are contiguous along x, so the (kx, c) part of a filter's
 * window is one contiguous run and no im2col is needed. Weights and their gradients are
 * [o][c/g][ky][kx], as in the parameters; methods reorder them as they need.
 *
 * fast__conv_new() measures the methods that fit a shape, or reads the choice of an earlier run on
 * this machine from the plan file.
 */
/* The shape of a convolution and the passes that are needed. */
typedef struct fast_conv_shape {
    int64_t in_c, in_h, in_w;    /* channels (all groups), height, width of the input */
    int64_t out_c, out_h, out_w; /* channels, height, width of the output */
    int64_t kernel[2], stride[2], pad[2], dilation[2]; /* y, x */
    int64_t groups;                                    /* independent groups of channels */
    int64_t lanes;                                     /* padded batch */
    bool train;                                        /* backward passes are needed */
    bool data; /* the gradient of the input is needed (not for the first layer) */
} fast_conv_shape;

typedef struct fast_conv fast_conv; /* immutable: chosen methods and their kernels */

/* Make a convolution. `method` forces one by name (FAST_EINVAL with the nearest name if unknown;
 * FAST_ENOTSUP if it does not fit the shape); NULL chooses the fastest. */
fast_err fast__conv_new(const fast_conv_shape *shape, fast_conv_plan *plan, const char *method,
                        fast_conv **out);
void fast__conv_free(fast_conv *conv);

/* Return the choice: "winograd_4x4_3x3" or "xsmm / xsmm / im2col" (forward / data / weights). */
const char *fast__conv_describe(const fast_conv *conv);

/* List the methods of this build, for messages and `fast info`; ends with NULL. */
const char *const *fast__conv_methods(void);

/* Check the name of a method, which may be NULL. The errors are those of fast__conv_new(). */
fast_err fast__conv_method_check(const char *name);

/* Return the floats of scratch memory that a pass needs, 64-byte aligned. Nothing in it survives a
 * call, so all convolutions of a workspace may share it. */
int64_t fast__conv_scratch_count(const fast_conv *conv);

/* Make the objects that one workspace needs beside memory (oneDNN's memory objects); *out may
 * become NULL. */
fast_err fast__conv_local_new(const fast_conv *conv, void **out);
void fast__conv_local_free(const fast_conv *conv, void *local);

/* The arrays of one call. */
typedef struct fast_conv_io {
    void *local;       /* from fast__conv_local_new() */
    float *scratch;    /* fast__conv_scratch_count() floats */
    const float *x;    /* [in_h][in_w][in_c][lanes] */
    const float *w;    /* [out_c][in_c / groups][kh][kw] */
    const float *bias; /* [out_c] or NULL; forward only */
    bool relu;         /* forward only: fuse max(0, .) */
    float *y;          /* forward: out [out_h][out_w][out_c][lanes] */
    const float *dy;   /* backward: gradient of y, already masked by a fused activation */
    float *dx;         /* backward: out, overwritten; NULL if not needed */
    float *dw;         /* backward: out, overwritten */
} fast_conv_io;

/* Compute y. */
void fast__conv_forward(const fast_conv *conv, const fast_conv_io *io);

/* After the forward pass of the same batch. Padding lanes of dy are zero. Reads
 * w before it writes dw. The bias gradient is the caller's (a sum over pixels and lanes). */
void fast__conv_backward(const fast_conv *conv, const fast_conv_io *io);
