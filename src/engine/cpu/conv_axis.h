/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/cpu/conv_method.h"

/*
 * Which taps of a filter meet which input along one axis, for the forward pass and for the gradient
 * of the input alike, so that one loop computes both. An output coordinate sees the inputs
 *
 *   first, first + step, ..., first + (count - 1) step
 *
 * under consecutive taps of its phase, starting with `tap`; what lies outside the image is already
 * cut off. The forward pass has one phase. The gradient of a convolution with stride s has s: the
 * input i is reached by the taps k with (i + pad - k dilation) divisible by s.
 */
typedef struct fast_conv_point {
    int32_t first; /* input coordinate of the first tap inside */
    int32_t tap;   /* its index among the taps of the phase */
    int32_t count; /* taps inside; may be 0 */
    int32_t phase;
} fast_conv_point;

typedef struct fast_conv_phase {
    int64_t taps;   /* how many */
    int64_t kernel; /* the filter's own index of tap 0 */
} fast_conv_phase;

typedef struct fast_conv_axis {
    int64_t outputs; /* coordinates: [points] */
    int64_t inputs;
    int64_t step;        /* between the inputs of consecutive taps */
    int64_t kernel_step; /* between the filter's indices of consecutive taps */
    int64_t phases;
    fast_conv_phase *phase; /* [phases] */
    fast_conv_point *point; /* [outputs] */
} fast_conv_axis;

/* `axis` is 0 for y, 1 for x; `data` asks for the gradient of the input. */
fast_err fast__conv_axis_init(fast_conv_axis *self, const fast_conv_shape *shape, int axis,
                              bool data);
void fast__conv_axis_fini(fast_conv_axis *self);
