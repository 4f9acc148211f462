/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "engine/cpu/plan.h"

/*
 * Convolutions with the batch innermost. Activations are [y][x][c][lanes]: `lanes` is the batch
 * padded to a multiple of 16, pixels are contiguous along x, so the (kx, c) part of a filter's
 * window is one contiguous run and no im2col is needed. Weights and their gradients are
 * [o][c/g][ky][kx], as they lie in the parameters; methods bring them into their own order.
 *
 * fast__conv_new() measures the methods that fit a shape, or reads what an earlier run on this
 * machine measured from the plan file, and keeps the best.
 */
typedef struct fast_conv_shape {
    int64_t in_c, in_h, in_w;                          /* of the input, all groups */
    int64_t out_c, out_h, out_w;                       /* of the output */
    int64_t kernel[2], stride[2], pad[2], dilation[2]; /* y, x */
    int64_t groups;                                    /* of channels */
    int64_t lanes;                                     /* padded batch */
    bool train;                                        /* backward passes are needed */
    bool data; /* the gradient of the input is needed (not for the first layer) */
} fast_conv_shape;

typedef struct fast_conv fast_conv; /* immutable: chosen methods, kernels */

/* `method` forces one by name (FAST_EINVAL with the nearest name if unknown; FAST_ENOTSUP if it
 * does not fit the shape); NULL picks. */
fast_err fast__conv_new(const fast_conv_shape *shape, fast_conv_plan *plan, const char *method,
                        fast_conv **out);
void fast__conv_free(fast_conv *conv);

/* What was chosen: "winograd4x4" or "xsmm / xsmm / im2col" (forward / data / weights). */
const char *fast__conv_describe(const fast_conv *conv);

/* Names of the methods in this build, for messages and `fast info`; the last is NULL. */
const char *const *fast__conv_methods(void);

/* Is this the name of a method, or NULL? The errors are those of fast__conv_new(). */
fast_err fast__conv_method_check(const char *name);

/* Return the floats of scratch memory that a pass needs, 64-byte aligned. Nothing in it survives a
 * call, so all convolutions of a workspace may share it. */
int64_t fast__conv_scratch_count(const fast_conv *conv);

/* What belongs to one workspace beside memory (oneDNN's memory objects); may be NULL. */
fast_err fast__conv_local_new(const fast_conv *conv, void **out);
void fast__conv_local_free(const fast_conv *conv, void *local);

typedef struct fast_conv_io {
    void *local;       /* of fast__conv_local_new() */
    float *scratch;    /* fast__conv_scratch_count() floats */
    const float *x;    /* [in_h][in_w][in_c][lanes] */
    const float *w;    /* [out_c][in_c / groups][kh][kw] */
    const float *bias; /* [out_c] or NULL; forward only */
    bool relu;         /* forward only: fuse max(0, .) */
    float *y;          /* forward: out [out_h][out_w][out_c][lanes] */
    const float *dy;   /* backward: gradient of y (before any fused activation: the caller masks) */
    float *dx;         /* backward: out, overwritten; NULL where not needed */
    float *dw;         /* backward: out, overwritten */
} fast_conv_io;

void fast__conv_forward(const fast_conv *conv, const fast_conv_io *io);

/* After the forward pass of the same batch. Padding lanes of dy are zero. Reads
 * w before it writes dw. The bias gradient is the caller's (a sum over pixels and lanes). */
void fast__conv_backward(const fast_conv *conv, const fast_conv_io *io);
