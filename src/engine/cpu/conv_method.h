/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/cpu/conv.h"

/*
 * A method of computing convolutions. conv.c measures those that fit a shape and may take the
 * forward pass from one and each gradient from another; so a method saves nothing from the forward
 * to the backward pass: recomputing costs less than a trip through memory.
 *
 *     method               fits                                    needs
 *     xsmm                 all but very wide shapes                libxsmm
 *     im2col               all shapes                              a library for products
 *     winograd_MxM_RxR     filters R x R, stride 1, one group      a library for products
 *     onednn               most shapes                             oneDNN
 *     onednn_winograd      filters 3 x 3, stride 1, one group      oneDNN
 */
typedef struct fast_conv_method {
    const char *name; /* as a plan and --method write it */

    /* Tell whether the method supports this shape in this build on this processor. */
    bool (*fits)(const fast_conv_shape *shape);

    /* Make the objects that all workspaces share: kernels, tables. FAST_ENOTSUP if a library cannot
     * make its kernel after all. Called on a large stack. */
    fast_err (*open)(const fast_conv_shape *shape, void **out);
    void (*close)(void *self); /* NULL is allowed */

    /* Return the floats of scratch memory that a pass needs. */
    int64_t (*scratch)(const void *self);

    /* Make and free the objects of one workspace; both NULL if the method has none. */
    fast_err (*local_open)(const void *self, void **out);
    void (*local_close)(void *local); /* NULL is allowed */

    /* Compute io->y. */
    void (*forward)(const void *self, const fast_conv_io *io);

    /* Compute io->dx and io->dw; either may be NULL and is then skipped. */
    void (*backward)(const void *self, const fast_conv_io *io);
} fast_conv_method;

extern const fast_conv_method fast__conv_xsmm, fast__conv_im2col;
extern const fast_conv_method fast__conv_onednn, fast__conv_onednn_winograd;
extern const fast_conv_method fast__conv_winograd_2x2_3x3, fast__conv_winograd_4x4_3x3;
extern const fast_conv_method fast__conv_winograd_6x6_3x3, fast__conv_winograd_2x2_5x5;
extern const fast_conv_method fast__conv_winograd_4x4_5x5;

/* The methods of this build; ends with NULL. Plans name them, so their order may change. */
extern const fast_conv_method *const fast__conv_registry[];
enum { FAST_CONV_METHODS_MAX = 16 };

/* The passes, whose methods may differ. */
typedef enum fast_conv_pass {
    FAST_CONV_FORWARD, /* computes y */
    FAST_CONV_DATA,    /* gradient of the input */
    FAST_CONV_WEIGHTS, /* gradient of the weights */
    FAST_CONV_PASSES
} fast_conv_pass;

/* Measure the methods that fit and set the best for each pass. */
fast_err fast__conv_choose(const fast_conv_shape *shape,
                           const fast_conv_method *best[FAST_CONV_PASSES]);
