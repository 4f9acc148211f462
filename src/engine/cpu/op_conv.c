/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolution with bias and activation, by the method that conv.h measured for the shape. The bias
 * may be left to a pooling that follows (fuse.c). The backward pass masks the gradient in place and
 * sums the bias gradient in one pass, then calls the method.
 */
#include "engine/cpu/cpu.h"
#include "engine/weight_norm.h"

#include <stdio.h>

/* Buffers. */
enum {
    SUMS,        /* two vectors a channel, for the bias gradient */
    PART,        /* dX where another reader wrote its part before: methods cannot add */
    WEIGHT,      /* effective weight of a weight norm; saved */
    WEIGHT_GRAD, /* its gradient */
    SCRATCH,     /* of the method, forward */
    SCRATCH_BACK /* of the method, backward */
};

/* Number of a convolution's weights. */
static int64_t filter_count(const fast_graph *graph, int node)
{
    return graph->params.segments[graph->nodes[node].weight[FAST_W_WEIGHT]].count;
}

/* Open a convolution by the method that was asked for, or by the fastest one where that does not
 * fit the shape. */
static fast_err open_conv(fast_cpu_compile *compile, const fast_conv_shape *shape, fast_conv **out)
{
    const char *method = compile->options->method;
    const fast_err err = fast__conv_new(shape, compile->plan, method, out);

    compile->conv_count++;
    compile->fitted_count += !err;
    if (err == FAST_ENOTSUP && method)
        return fast__conv_new(shape, compile->plan, NULL, out);
    return err;
}

/* Choose the method for the shape, and ask for its scratch memory. */
static fast_err conv_plan(fast_cpu_compile *compile, fast_cpu_step *step)
{
    fast_cpu_program *program = compile->program;
    const fast_node *node = &compile->graph->nodes[step->node];
    const fast_node *in = &compile->graph->nodes[step->in_node[0]];
    fast_conv_shape shape = { .in_c = in->shape[0],
                              .in_h = in->shape[1],
                              .in_w = in->shape[2],
                              .out_c = node->shape[0],
                              .out_h = node->shape[1],
                              .out_w = node->shape[2],
                              .groups = node->groups > 0 ? node->groups : 1,
                              .lanes = program->lanes,
                              .train = step->train,
                              .data = step->train && step->how[0] != FAST_CPU_SKIP };

    for (int i = 0; i < 2; i++) {
        shape.kernel[i] = node->kernel[i];
        shape.stride[i] = node->stride[i] > 0 ? node->stride[i] : 1;
        shape.pad[i] = node->pad[i];
        shape.dilation[i] = node->dilation[i] > 0 ? node->dilation[i] : 1;
    }
    FAST_TRY(open_conv(compile, &shape, &step->conv));
    const int64_t scratch = fast__conv_scratch_count(step->conv);
    FAST_TRY(fast__cpu_scratch_forward(compile, step, scratch, &step->buffer[SCRATCH]));
    FAST_TRY(fast__cpu_scratch_back(compile, step, scratch, &step->buffer[SCRATCH_BACK]));
    FAST_TRY(
        fast__cpu_scratch_back(compile, step, shape.out_c * 2 * FAST_VEC, &step->buffer[SUMS]));
    if (step->how[0] == FAST_CPU_ADD)
        FAST_TRY(
            fast__cpu_scratch_back(compile, step, in->count * program->lanes, &step->buffer[PART]));
    if (node->weight[FAST_W_GAIN] >= 0) {
        const int64_t count = filter_count(compile->graph, step->node);
        FAST_TRY(fast__cpu_saved(compile, step, count, &step->buffer[WEIGHT]));
        FAST_TRY(fast__cpu_scratch_back(compile, step, count, &step->buffer[WEIGHT_GRAD]));
    }
    snprintf(step->note, sizeof step->note, "%s%s", fast__conv_describe(step->conv),
             step->no_bias ? ", bias in pooling"
             : step->act   ? ", activation"
                           : "");
    return FAST_OK;
}

/* The arrays that both passes share. */
static fast_conv_io conv_io(const fast_cpu_run *run, const fast_cpu_step *step, int scratch)
{
    const bool normed = run->graph->nodes[step->node].weight[FAST_W_GAIN] >= 0;

    return (fast_conv_io){ .local = run->workspace->locals[step->index],
                           .scratch = fast__cpu_memory(run, step->buffer[scratch]),
                           .x = fast__cpu_in(run, step, 0),
                           .w = normed ? fast__cpu_memory(run, step->buffer[WEIGHT])
                                       : fast__cpu_param(run, step->node, FAST_W_WEIGHT) };
}

/* The effective weight of a weight norm first; relu is the method's, others follow. */
static void conv_forward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const fast_node *node = &run->graph->nodes[step->node];
    const int64_t O = node->shape[0], P = node->count / O;
    fast_conv_io io = conv_io(run, step, SCRATCH);

    if (node->weight[FAST_W_GAIN] >= 0)
        fast__weight_norm_forward(O, filter_count(run->graph, step->node) / O,
                                  fast__cpu_param(run, step->node, FAST_W_WEIGHT),
                                  fast__cpu_param(run, step->node, FAST_W_GAIN),
                                  fast__cpu_memory(run, step->buffer[WEIGHT]));
    io.bias = step->no_bias ? NULL : fast__cpu_param(run, step->node, FAST_W_BIAS);
    io.relu = step->act == FAST_ACT_RELU;
    io.y = fast__cpu_out(run, step);
    fast__conv_forward(step->conv, &io);
    if (!io.relu)
        run->program->elem->bias_act(P, O, run->lanes, NULL, step->act, step->slope, io.y);
}

/* Mask the gradient of the output by the activation, if `masks`, and sum it for the bias, if
 * `sums`: one pass for both. */
static void conv_bias(fast_cpu_run *run, const fast_cpu_step *step, bool masks, bool sums)
{
    const fast_node *node = &run->graph->nodes[step->node];
    const int64_t O = node->shape[0], P = node->count / O;

    if (step->no_bias)
        return;
    run->program->elem->bias_act_back(
        P, O, run->lanes, fast__cpu_out(run, step), masks ? step->act : FAST_ACT_NONE, step->slope,
        fast__cpu_out_grad(run, step),
        sums ? fast__cpu_param_grad(run, step->node, FAST_W_BIAS) : NULL,
        fast__cpu_memory(run, step->buffer[SUMS]));
    if (sums)
        fast__cpu_report(run, step->node, FAST_W_BIAS);
}

/* Compute dX, dW, or both. */
static void conv_gradients(fast_cpu_run *run, const fast_cpu_step *step, bool inputs, bool weights)
{
    const fast_node *node = &run->graph->nodes[step->node];
    const int64_t O = node->shape[0], L = run->lanes;
    const bool normed = node->weight[FAST_W_GAIN] >= 0, adds = step->how[0] == FAST_CPU_ADD;
    float *dx = inputs ? fast__cpu_in_grad(run, step, 0) : NULL;
    float *dw = weights ? fast__cpu_param_grad(run, step->node, FAST_W_WEIGHT) : NULL;
    fast_conv_io io = conv_io(run, step, SCRATCH_BACK);

    io.dy = fast__cpu_out_grad(run, step);
    io.dx = dx && adds ? fast__cpu_memory(run, step->buffer[PART]) : dx;
    io.dw = weights && normed ? fast__cpu_memory(run, step->buffer[WEIGHT_GRAD]) : dw;
    if (io.dx || io.dw)
        fast__conv_backward(step->conv, &io);
    if (dx && adds)
        run->program->elem->add(run->graph->nodes[step->in_node[0]].count * L, io.dx, dx);
    if (!weights)
        return;
    if (normed) {
        fast__weight_norm_backward(O, filter_count(run->graph, step->node) / O,
                                   fast__cpu_param(run, step->node, FAST_W_WEIGHT),
                                   fast__cpu_param(run, step->node, FAST_W_GAIN), io.dw, dw,
                                   fast__cpu_param_grad(run, step->node, FAST_W_GAIN));
        fast__cpu_report(run, step->node, FAST_W_GAIN);
    }
    fast__cpu_report(run, step->node, FAST_W_WEIGHT);
}

/* Bias and mask, the method, then the weight norm. */
static void conv_backward(fast_cpu_run *run, const fast_cpu_step *step)
{
    conv_bias(run, step, true, true);
    conv_gradients(run, step, true, true);
}

/* The mask, then dX; later the bias and dW. */
static void conv_inputs(fast_cpu_run *run, const fast_cpu_step *step)
{
    conv_bias(run, step, true, false);
    conv_gradients(run, step, true, false);
}

static void conv_weights(fast_cpu_run *run, const fast_cpu_step *step)
{
    conv_bias(run, step, false, true);
    conv_gradients(run, step, false, true);
}

const fast_cpu_op fast__cpu_conv = { .name = "conv",
                                     .reads_input = true,
                                     .reads_output = true,
                                     .overwrites = true,
                                     .alias = -1,
                                     .plan = conv_plan,
                                     .forward = conv_forward,
                                     .backward = conv_backward,
                                     .inputs = conv_inputs,
                                     .weights = conv_weights };
