/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/cpu/conv_method.h"

/*
 * Which taps of a filter read which input along one axis. The forward pass and the gradient of the
 * input have this form in common, so that one loop computes both. An output coordinate reads
 *
 *   first, first + step, ..., first + (count - 1) step
 *
 * under consecutive taps of its phase, starting with `tap`; taps outside the image are already cut
 * off. For 5 inputs, a filter of 3 taps, stride 2 and padding 1, the 3 outputs read
 *
 *     output   inputs    first  tap  count
 *     0         .  0  1    0     1     2       tap 0 lies in the padding
 *     1         1  2  3    1     0     3
 *     2         3  4  .    3     0     2       tap 2 lies in the padding
 *
 * The forward pass has one phase. The gradient of a convolution with stride s has s: the input
 * i is reached by the taps k with (i + pad - k dilation) divisible by s.
 */
/* The taps of one output coordinate. */
typedef struct fast_conv_point {
    int32_t first; /* input coordinate of the first tap inside */
    int32_t tap;   /* its index among the taps of the phase */
    int32_t count; /* taps inside; may be 0 */
    int32_t phase; /* index of its phase */
} fast_conv_point;

/* The taps that coordinates of one residue share. */
typedef struct fast_conv_phase {
    int64_t taps;   /* number of taps */
    int64_t kernel; /* the filter's index of tap 0 */
} fast_conv_phase;

/* All coordinates of one axis. */
typedef struct fast_conv_axis {
    int64_t outputs;        /* number of output coordinates */
    int64_t inputs;         /* number of input coordinates */
    int64_t step;           /* distance between the inputs of consecutive taps */
    int64_t kernel_step;    /* distance between the filter's indices of consecutive taps */
    int64_t phases;         /* number of phases */
    fast_conv_phase *phase; /* [phases] */
    fast_conv_point *point; /* [outputs] */
} fast_conv_axis;

/* Compute the taps of one axis (0 for y, 1 for x); `data` asks for the gradient of the input. */
fast_err fast__conv_axis_init(fast_conv_axis *self, const fast_conv_shape *shape, int axis,
                              bool data);
void fast__conv_axis_fini(fast_conv_axis *self);
