/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The taps of a filter along one axis; see conv_axis.h.
 *
 * In the forward pass output o reads input o stride - pad + k dilation under tap k: one phase, taps
 * in the filter's order. For the gradient of input i, tap k reads output (i + pad - k dilation) /
 * stride if that is whole. With g = gcd(stride, dilation) those taps are stride / g apart and their
 * outputs dilation / g; taken from the last to the first, the outputs ascend.
 */
#include "engine/cpu/conv_axis.h"

#include "base/memory.h"

/* Greatest common divisor. */
static int64_t gcd(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Drop the taps whose inputs start, start + step, ... lie outside [0, inputs). */
static fast_conv_point clip(int64_t start, int64_t step, int64_t taps, int64_t inputs,
                            int64_t phase)
{
    int64_t low = start < 0 ? (-start + step - 1) / step : 0;
    int64_t high = start < inputs ? (inputs - 1 - start) / step + 1 : 0;
    if (high > taps)
        high = taps;
    if (low > high)
        low = high;
    return (fast_conv_point){ .first = (int32_t)(start + low * step),
                              .tap = (int32_t)low,
                              .count = (int32_t)(high - low),
                              .phase = (int32_t)phase };
}

/* The taps of the forward pass. */
static void fill_forward(fast_conv_axis *self, const fast_conv_shape *s, int axis)
{
    self->step = s->dilation[axis];
    self->kernel_step = 1;
    self->phase[0] = (fast_conv_phase){ .taps = s->kernel[axis], .kernel = 0 };
    for (int64_t o = 0; o < self->outputs; o++)
        self->point[o] =
            clip(o * s->stride[axis] - s->pad[axis], self->step, s->kernel[axis], self->inputs, 0);
}

/* The taps of the gradient of the input. */
static void fill_data(fast_conv_axis *self, const fast_conv_shape *s, int axis)
{
    const int64_t stride = s->stride[axis], dilation = s->dilation[axis];
    const int64_t pad = s->pad[axis], kernel = s->kernel[axis];
    const int64_t g = gcd(stride, dilation);
    const int64_t spacing = stride / g; /* between the taps of one phase */
    self->step = dilation / g;
    self->kernel_step = -spacing;
    for (int64_t p = 0; p < stride; p++) {
        int64_t k = 0;
        while (k < kernel && k * dilation % stride != p)
            k++;
        const int64_t taps = k < kernel ? (kernel - 1 - k) / spacing + 1 : 0;
        self->phase[p] = (fast_conv_phase){ .taps = taps, .kernel = k + (taps - 1) * spacing };
    }
    for (int64_t i = 0; i < self->outputs; i++) {
        const int64_t p = (i + pad) % stride;
        const fast_conv_phase *phase = &self->phase[p];
        if (phase->taps == 0) {
            self->point[i] = (fast_conv_point){ .phase = (int32_t)p };
            continue;
        }
        const int64_t start = (i + pad - phase->kernel * dilation) / stride;
        self->point[i] = clip(start, self->step, phase->taps, self->inputs, p);
    }
}

/* Precompute for each output which taps reach it from which inputs, so that the loops of a pass
 * have no conditions. FAST_ENOMEM. */
fast_err fast__conv_axis_init(fast_conv_axis *self, const fast_conv_shape *shape, int axis,
                              bool data)
{
    const int64_t in = axis == 0 ? shape->in_h : shape->in_w;
    const int64_t out = axis == 0 ? shape->out_h : shape->out_w;
    FAST_ASSERT(in > 0);
    FAST_ASSERT(out > 0);
    fast_conv_axis made = { .outputs = data ? in : out,
                            .inputs = data ? out : in,
                            .phases = data ? shape->stride[axis] : 1 };
    FAST_TRY(fast__alloc("a convolution's phases", made.phases, sizeof *made.phase, &made.phase));
    const fast_err err =
        fast__alloc("a convolution's points", made.outputs, sizeof *made.point, &made.point);
    if (err) {
        fast__free(made.phase);
        return err;
    }
    if (data)
        fill_data(&made, shape, axis);
    else
        fill_forward(&made, shape, axis);
    *self = made;
    return FAST_OK;
}

/* Free both tables; a zeroed axis is allowed. */
void fast__conv_axis_fini(fast_conv_axis *self)
{
    fast__free(self->phase);
    fast__free(self->point);
    *self = (fast_conv_axis){ 0 };
}
