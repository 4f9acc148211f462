/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pooling steps. Max pooling may also add the bias of the convolution before it and apply relu;
 * then its backward pass sums the bias gradient, while it has the gradient in registers.
 *
 *     max       y = relu(max(window) + b)      dx[winner] += dy      db = sum of dy that passed
 *     average   y = sum(window) / (kh kw)      dx += dy / (kh kw) over the window
 *     global    y = mean over positions        dx += dy / positions
 */
#include "engine/cpu/cpu.h"

#include <stdio.h>
#include <string.h>

/* Buffers. */
enum {
    WON, /* one or two bytes an output: the winner's index in its window; saved */
    SUMS /* two vectors a channel, for the bias gradient of a fused convolution */
};

/* The shape of a pooling step; output rows are in the order that its readers want. */
static fast_pool_shape shape_of(const fast_cpu_run *run, const fast_cpu_step *step)
{
    const fast_node *node = &run->graph->nodes[step->node];
    const fast_node *in = &run->graph->nodes[step->in_node[0]];
    const bool planar = run->program->values[step->out].planar;
    fast_pool_shape s = { .channels = in->shape[0],
                          .in_h = in->shape[1],
                          .in_w = in->shape[2],
                          .out_h = node->shape[1],
                          .out_w = node->shape[2],
                          .lanes = run->lanes };

    for (int i = 0; i < 2; i++) {
        s.kernel[i] = node->kernel[i];
        s.stride[i] = node->stride[i] > 0 ? node->stride[i] : 1;
        s.pad[i] = node->pad[i];
        s.dilation[i] = node->dilation[i] > 0 ? node->dilation[i] : 1;
    }
    if (s.kernel[0] * s.kernel[1] > FAST_POOL_BYTE_MAX)
        s.high = node->count * run->lanes;
    s.row_p = planar ? 1 : s.channels;
    s.row_c = planar ? s.out_h * s.out_w : 1;
    return s;
}

/* Memory for one or two bytes per output: the index of the winner. */
static fast_err max_plan(fast_cpu_compile *compile, fast_cpu_step *step)
{
    const fast_node *node = &compile->graph->nodes[step->node];

    if (node->kernel[0] * node->kernel[1] > FAST_POOL_WINDOW_MAX)
        return fast__fail(FAST_ENOTSUP, "engine cpu pools windows of at most %d, not %lld x %lld",
                          FAST_POOL_WINDOW_MAX, (long long)node->kernel[0],
                          (long long)node->kernel[1]);
    const int bytes = node->kernel[0] * node->kernel[1] > FAST_POOL_BYTE_MAX ? 2 : 1;
    FAST_TRY(fast__cpu_saved(compile, step, node->count * compile->program->lanes / 4 * bytes,
                             &step->buffer[WON]));
    FAST_TRY(
        fast__cpu_scratch_back(compile, step, node->shape[0] * 2 * FAST_VEC, &step->buffer[SUMS]));
    snprintf(step->note, sizeof step->note, "max_pool%s%s%s", step->bias >= 0 ? " + bias" : "",
             step->act ? " + relu" : "",
             compile->program->values[step->out].planar ? ", rows for dense" : "");
    return FAST_OK;
}

/* The winner's index is all that is saved. */
static void max_forward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const fast_pool_shape s = shape_of(run, step);

    run->program->pool->max(&s, fast__cpu_in(run, step, 0),
                            step->bias < 0 ? NULL : fast__cpu_param(run, step->bias, FAST_W_BIAS),
                            step->act == FAST_ACT_RELU, fast__cpu_out(run, step),
                            (uint8_t *)(void *)fast__cpu_memory(run, step->buffer[WON]));
}

/* Send each gradient to its winner; sum the bias gradient of a fused convolution on the way. */
static void max_backward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const fast_pool_shape s = shape_of(run, step);

    run->program->pool->max_back(
        &s, (const uint8_t *)(const void *)fast__cpu_memory(run, step->buffer[WON]),
        fast__cpu_out_grad(run, step), fast__cpu_in_grad(run, step, 0),
        step->how[0] == FAST_CPU_ADD,
        step->bias < 0 ? NULL : fast__cpu_param_grad(run, step->bias, FAST_W_BIAS),
        fast__cpu_memory(run, step->buffer[SUMS]));
    if (step->bias >= 0)
        fast__cpu_report(run, step->bias, FAST_W_BIAS);
}

const fast_cpu_op fast__cpu_max_pool = { .name = "max_pool",
                                         .alias = -1,
                                         .plan = max_plan,
                                         .forward = max_forward,
                                         .backward = max_backward };

/* The mean of each window; padding counts as zeros. */
static void avg_forward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const fast_pool_shape s = shape_of(run, step);

    run->program->pool->average(&s, fast__cpu_in(run, step, 0), fast__cpu_out(run, step));
}

/* The kernel adds, so dx is cleared first unless it accumulates. */
static void avg_backward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const fast_pool_shape s = shape_of(run, step);
    float *dx = fast__cpu_in_grad(run, step, 0);

    if (step->how[0] == FAST_CPU_WRITE)
        memset(dx, 0, (size_t)(s.in_h * s.in_w * s.channels * s.lanes) * sizeof *dx);
    run->program->pool->average_back(&s, fast__cpu_out_grad(run, step), dx);
}

const fast_cpu_op fast__cpu_avg_pool = {
    .name = "avg_pool", .alias = -1, .forward = avg_forward, .backward = avg_backward
};

/* The mean over positions of each channel. */
static void global_forward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const int in = step->in_node[0];

    run->program->pool->global(fast__cpu_positions(run->graph, in),
                               fast__cpu_channels(run->graph, in), run->lanes,
                               fast__cpu_in(run, step, 0), fast__cpu_out(run, step));
}

/* Every position gets an equal part of the gradient. */
static void global_backward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const int in = step->in_node[0];

    run->program->pool->global_back(fast__cpu_positions(run->graph, in),
                                    fast__cpu_channels(run->graph, in), run->lanes,
                                    fast__cpu_out_grad(run, step), fast__cpu_in_grad(run, step, 0),
                                    step->how[0] == FAST_CPU_ADD);
}

const fast_cpu_op fast__cpu_global_pool = {
    .name = "global_pool", .alias = -1, .forward = global_forward, .backward = global_backward
};
