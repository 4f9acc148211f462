/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps that only move or map values: the input into lanes, permutation of an image's rows,
 * activations that stand alone, sums, concatenation, the last position of a sequence, parts.
 *
 * Gradients of inputs are written or added as `how` says; a step whose op has an alias may also
 * find its output's gradient in the buffer of that input's, and then leaves it there.
 */
#include "engine/cpu/cpu.h"

#include <string.h>

/* [n][C][H][W] to [H][W][C][lanes], one channel at a time; vectors and sequences need no
 * reordering. */
void fast__cpu_to_lanes(const fast_cpu_run *run, int index, const float *samples, float *value)
{
    const fast_node *node = &run->graph->nodes[index];
    const int64_t C = node->rank == 3 ? node->shape[0] : 1, P = node->count / C, L = run->lanes;

    for (int64_t c = 0; c < C; c++)
        run->program->elem->to_lanes(samples + c * P, node->count, run->count, P, L, value + c * L,
                                     C * L);
}

/* The inverse of fast__cpu_to_lanes(), for the samples of the pass alone. */
void fast__cpu_to_samples(const fast_cpu_run *run, int index, const float *value, float *samples)
{
    const fast_node *node = &run->graph->nodes[index];
    const int64_t C = node->rank == 3 ? node->shape[0] : 1, P = node->count / C, L = run->lanes;

    for (int64_t c = 0; c < C; c++)
        run->program->elem->from_lanes(value + c * L, C * L, P, run->count, samples + c * P,
                                       node->count);
}

/* Transpose the batch to lanes; those past its end become zero. */
static void input_forward(fast_cpu_run *run, const fast_cpu_step *step)
{
    fast__cpu_to_lanes(run, step->node, run->pass->batch->x, fast__cpu_out(run, step));
}

/* The gradient of the batch itself, where this is a part of a network that continues another. */
static void input_backward(fast_cpu_run *run, const fast_cpu_step *step)
{
    if (run->pass->inputs_grad)
        fast__cpu_to_samples(run, step->node, fast__cpu_out_grad(run, step),
                             run->pass->inputs_grad);
}

const fast_cpu_op fast__cpu_input = {
    .name = "transpose", .alias = -1, .forward = input_forward, .backward = input_backward
};

/* Rows [position][channel] to [channel][position]; the backward pass inverts it. */
static void permute_forward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const int64_t P = fast__cpu_positions(run->graph, step->node), L = run->lanes;
    const int64_t C = fast__cpu_channels(run->graph, step->node);
    const float *x = fast__cpu_in(run, step, 0);
    float *y = fast__cpu_out(run, step);

    for (int64_t p = 0; p < P; p++)
        for (int64_t c = 0; c < C; c++)
            memcpy(y + (c * P + p) * L, x + (p * C + c) * L, (size_t)L * sizeof *y);
}

/* dx[position][channel] = dy[channel][position], or += it. */
static void permute_backward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const int64_t P = fast__cpu_positions(run->graph, step->node), L = run->lanes;
    const int64_t C = fast__cpu_channels(run->graph, step->node);
    const float *dy = fast__cpu_out_grad(run, step);
    float *dx = fast__cpu_in_grad(run, step, 0);
    const bool add = step->how[0] == FAST_CPU_ADD;

    for (int64_t p = 0; p < P; p++)
        for (int64_t c = 0; c < C; c++)
            (add ? run->program->elem->add : run->program->elem->copy)(L, dy + (c * P + p) * L,
                                                                       dx + (p * C + c) * L);
}

const fast_cpu_op fast__cpu_permute = {
    .name = "permute", .alias = -1, .forward = permute_forward, .backward = permute_backward
};

/* The activation of an operator. */
static fast_act act_of(fast_op op)
{
    switch (op) {
    case FAST_OP_RELU:
        return FAST_ACT_RELU;
    case FAST_OP_LEAKY_RELU:
        return FAST_ACT_LEAKY;
    case FAST_OP_TANH:
        return FAST_ACT_TANH;
    case FAST_OP_SIGMOID:
        return FAST_ACT_SIGMOID;
    default:
        return FAST_ACT_GELU;
    }
}

/* y = act(x), for activations that no other step took over. */
static void act_forward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const fast_node *node = &run->graph->nodes[step->node];

    run->program->elem->act(node->count * run->lanes, act_of(node->op), node->a,
                            fast__cpu_in(run, step, 0), fast__cpu_out(run, step));
}

/* dx = dy act'(x), by the output where the derivative follows from it. */
static void act_backward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const fast_node *node = &run->graph->nodes[step->node];
    const float *x = fast__cpu_in(run, step, 0);
    /* A leaky relu with a negative slope hides the sign of x in y. */
    const float *y = node->op == FAST_OP_LEAKY_RELU ? x : fast__cpu_out(run, step);

    run->program->elem->act_back(node->count * run->lanes, act_of(node->op), node->a, x, y,
                                 fast__cpu_out_grad(run, step), fast__cpu_in_grad(run, step, 0),
                                 step->how[0] == FAST_CPU_ADD);
}

const fast_cpu_op fast__cpu_act = { .name = "elementwise",
                                    .reads_input = true,
                                    .reads_output = true,
                                    .alias = -1,
                                    .forward = act_forward,
                                    .backward = act_backward };

/* Sum all inputs. */
static void add_forward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const int64_t n = run->graph->nodes[step->node].count * run->lanes;
    float *y = fast__cpu_out(run, step);

    if (step->in_count == 1)
        run->program->elem->copy(n, fast__cpu_in(run, step, 0), y);
    else
        run->program->elem->sum(n, fast__cpu_in(run, step, 0), fast__cpu_in(run, step, 1), y);
    for (int i = 2; i < step->in_count; i++)
        run->program->elem->add(n, fast__cpu_in(run, step, i), y);
}

/* Input 0 comes last: if it takes the output's gradient over as its own, the other inputs must read
 * that gradient first. */
static void add_backward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const int64_t n = run->graph->nodes[step->node].count * run->lanes;
    const float *dy = fast__cpu_out_grad(run, step);

    for (int i = step->in_count - 1; i >= 0; i--) {
        float *dx = fast__cpu_in_grad(run, step, i);
        if (step->how[i] == FAST_CPU_WRITE)
            run->program->elem->copy(n, dy, dx);
        else if (step->how[i] == FAST_CPU_ADD)
            run->program->elem->add(n, dy, dx);
    }
}

const fast_cpu_op fast__cpu_add = {
    .name = "add", .alias = 0, .forward = add_forward, .backward = add_backward
};

/* Copy the channels of each input, position by position. */
static void concat_forward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const int64_t P = fast__cpu_positions(run->graph, step->node), L = run->lanes;
    const int64_t C = fast__cpu_channels(run->graph, step->node);
    float *y = fast__cpu_out(run, step);

    for (int i = 0; i < step->in_count; i++) {
        const int64_t part = fast__cpu_channels(run->graph, step->in_node[i]) * L;
        const float *x = fast__cpu_in(run, step, i);
        for (int64_t p = 0; p < P; p++)
            memcpy(y + p * C * L, x + p * part, (size_t)part * sizeof *y);
        y += part;
    }
}

/* Copy or add the channels of the gradient to each input. */
static void concat_backward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const int64_t P = fast__cpu_positions(run->graph, step->node), L = run->lanes;
    const int64_t C = fast__cpu_channels(run->graph, step->node);
    const float *dy = fast__cpu_out_grad(run, step);

    for (int i = 0; i < step->in_count; i++) {
        const int64_t part = fast__cpu_channels(run->graph, step->in_node[i]) * L;
        float *dx = fast__cpu_in_grad(run, step, i);
        const bool add = step->how[i] == FAST_CPU_ADD;
        for (int64_t p = 0; p < P && dx; p++)
            (add ? run->program->elem->add : run->program->elem->copy)(part, dy + p * C * L,
                                                                       dx + p * part);
        dy += part;
    }
}

const fast_cpu_op fast__cpu_concat = {
    .name = "concat", .alias = -1, .forward = concat_forward, .backward = concat_backward
};

/* Floats of the input before the last position, or a part. */
static int64_t skipped(const fast_cpu_run *run, const fast_cpu_step *step)
{
    const fast_node *node = &run->graph->nodes[step->node];

    return run->lanes * (node->op == FAST_OP_PART
                             ? node->columns[0]
                             : run->graph->nodes[step->in_node[0]].count - node->count);
}

/* Copy the last position, or a part. */
static void last_forward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const int64_t n = run->graph->nodes[step->node].count * run->lanes;

    memcpy(fast__cpu_out(run, step), fast__cpu_in(run, step, 0) + skipped(run, step),
           (size_t)n * sizeof(float));
}

/* All other elements have gradient 0. */
static void last_backward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const int64_t n = run->graph->nodes[step->node].count * run->lanes;
    const int64_t all = run->graph->nodes[step->in_node[0]].count * run->lanes;
    const int64_t skip = skipped(run, step);
    const float *dy = fast__cpu_out_grad(run, step);
    float *dx = fast__cpu_in_grad(run, step, 0);

    if (step->how[0] == FAST_CPU_ADD) {
        run->program->elem->add(n, dy, dx + skip);
        return;
    }
    memset(dx, 0, (size_t)skip * sizeof *dx);
    memcpy(dx + skip, dy, (size_t)n * sizeof *dx);
    memset(dx + skip + n, 0, (size_t)(all - skip - n) * sizeof *dx);
}

const fast_cpu_op fast__cpu_last = {
    .name = "last", .alias = -1, .forward = last_forward, .backward = last_backward
};

/* Softmax over the channels of each position. */
static void softmax_forward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const int64_t P = fast__cpu_positions(run->graph, step->node), L = run->lanes;
    const int64_t C = fast__cpu_channels(run->graph, step->node);

    for (int64_t p = 0; p < P; p++)
        run->program->loss->softmax(C, L, fast__cpu_in(run, step, 0) + p * C * L,
                                    fast__cpu_out(run, step) + p * C * L);
}

/* dx = y (dy - sum of y dy), position by position. */
static void softmax_backward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const int64_t P = fast__cpu_positions(run->graph, step->node), L = run->lanes;
    const int64_t C = fast__cpu_channels(run->graph, step->node);

    for (int64_t p = 0; p < P; p++) {
        const int64_t at = p * C * L;
        run->program->loss->softmax_back(
            C, L, fast__cpu_out(run, step) + at, fast__cpu_out_grad(run, step) + at,
            fast__cpu_in_grad(run, step, 0) + at, step->how[0] == FAST_CPU_ADD);
    }
}

const fast_cpu_op fast__cpu_softmax = { .name = "softmax",
                                        .reads_output = true,
                                        .alias = -1,
                                        .forward = softmax_forward,
                                        .backward = softmax_backward };
