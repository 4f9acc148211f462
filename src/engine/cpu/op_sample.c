/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps that work by sample, not by lane: dropout, whose masks belong to samples; embedding, which
 * gathers a row of a table per token; and the user's operators, which get samples one after the
 * other. They go through blocks in sample order and transpose.
 */
#include "engine/cpu/cpu.h"
#include "engine/dropout.h"

#include <string.h>

/* Buffers of dropout. */
enum {
    MASK,   /* 0 or 1 / (1 - p), in lanes; saved */
    SAMPLES /* the mask as it is drawn, sample-major */
};

/* The mask is saved, and made sample-major first, because streams are by sample. */
static fast_err dropout_plan(fast_cpu_compile *compile, fast_cpu_step *step)
{
    const int64_t count = compile->graph->nodes[step->node].count;

    FAST_TRY(fast__cpu_saved(compile, step, count * compile->program->lanes, &step->buffer[MASK]));
    return fast__cpu_scratch_forward(compile, step, count * compile->options->batch,
                                     &step->buffer[SAMPLES]);
}

/* Masks are drawn by sample and transposed; evaluation copies. */
static void dropout_forward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const fast_node *node = &run->graph->nodes[step->node];
    const int64_t n = node->count * run->lanes;
    float *samples = fast__cpu_memory(run, step->buffer[SAMPLES]);
    float *mask = fast__cpu_memory(run, step->buffer[MASK]);

    if (!run->pass->train) {
        run->program->elem->copy(n, fast__cpu_in(run, step, 0), fast__cpu_out(run, step));
        return;
    }
    for (int64_t i = 0; i < run->count; i++)
        fast__dropout_mask(run->pass, fast__node_number(run->graph, step->node), i, node->a,
                           node->columns[0], node->count, samples + i * node->count);
    fast__cpu_to_lanes(run, step->node, samples, mask);
    run->program->elem->multiply(n, fast__cpu_in(run, step, 0), mask, fast__cpu_out(run, step),
                                 false);
}

/* dx = dy mask, or += it. */
static void dropout_backward(fast_cpu_run *run, const fast_cpu_step *step)
{
    run->program->elem->multiply(run->graph->nodes[step->node].count * run->lanes,
                                 fast__cpu_out_grad(run, step),
                                 fast__cpu_memory(run, step->buffer[MASK]),
                                 fast__cpu_in_grad(run, step, 0), step->how[0] == FAST_CPU_ADD);
}

const fast_cpu_op fast__cpu_dropout = { .name = "dropout",
                                        .alias = -1,
                                        .plan = dropout_plan,
                                        .forward = dropout_forward,
                                        .backward = dropout_backward };

/* Buffers of an embedding. */
enum {
    ROWS,      /* [samples][C]: rows of the table for one position */
    ROWS_BACK, /* [samples][C]: their gradients */
    SUMS       /* two vectors a channel, for the position's gradient */
};

/* One position's rows, sample-major: forward to gather, backward to scatter. */
static fast_err embed_plan(fast_cpu_compile *compile, fast_cpu_step *step)
{
    const int64_t C = compile->graph->nodes[step->node].shape[1], L = compile->program->lanes;

    FAST_TRY(fast__cpu_scratch_forward(compile, step, C * L, &step->buffer[ROWS]));
    FAST_TRY(fast__cpu_scratch_back(compile, step, C * L, &step->buffer[ROWS_BACK]));
    return fast__cpu_scratch_back(compile, step, C * 2 * FAST_VEC, &step->buffer[SUMS]);
}

/* Return the row of the table for a token; clamped to the table, and -1 where the node has a part
 * of the table without it. */
static int64_t row_of(const fast_cpu_run *run, const fast_cpu_step *step, float token)
{
    const fast_node *node = &run->graph->nodes[step->node];
    const int64_t own =
        run->graph->params.segments[node->weight[FAST_W_WEIGHT]].count / node->shape[1];
    const int64_t rows = node->columns[1] > 0 ? node->columns[1] : own;
    const int64_t row = !(token >= 0.0f) ? 0 : token < (float)rows ? (int64_t)token : rows - 1;
    const int64_t at = row - node->columns[0];

    return at >= 0 && at < own ? at : -1;
}

/* Per position: gather rows, transpose, add the position's vector. */
static void embed_forward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const fast_node *node = &run->graph->nodes[step->node];
    const int64_t T = node->shape[0], C = node->shape[1], L = run->lanes;
    const float *w = fast__cpu_param(run, step->node, FAST_W_WEIGHT);
    const float *position = fast__cpu_param(run, step->node, FAST_W_BIAS);
    const float *x = fast__cpu_in(run, step, 0);
    float *rows = fast__cpu_memory(run, step->buffer[ROWS]), *y = fast__cpu_out(run, step);

    for (int64_t t = 0; t < T; t++) {
        for (int64_t i = 0; i < run->count; i++) {
            const int64_t row = row_of(run, step, x[t * L + i]);
            if (row < 0)
                memset(rows + i * C, 0, (size_t)C * sizeof *rows);
            else
                memcpy(rows + i * C, w + row * C, (size_t)C * sizeof *rows);
        }
        run->program->elem->to_lanes(rows, C, run->count, C, L, y + t * C * L, L);
        run->program->elem->bias_act(1, C, L, position ? position + t * C : NULL, FAST_ACT_NONE, 0,
                                     y + t * C * L);
    }
}

/* Per position: transpose, scatter rows; sums over samples for the position's vector. */
static void embed_backward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const fast_node *node = &run->graph->nodes[step->node];
    const int64_t T = node->shape[0], C = node->shape[1], L = run->lanes;
    const int64_t count = run->graph->params.segments[node->weight[FAST_W_WEIGHT]].count;
    const float *x = fast__cpu_in(run, step, 0);
    float *dy = fast__cpu_out_grad(run, step),
          *rows = fast__cpu_memory(run, step->buffer[ROWS_BACK]);
    float *dw = fast__cpu_param_grad(run, step->node, FAST_W_WEIGHT);
    float *dp = fast__cpu_param_grad(run, step->node, FAST_W_BIAS);

    memset(dw, 0, (size_t)count * sizeof *dw);
    for (int64_t t = 0; t < T; t++) {
        run->program->elem->from_lanes(dy + t * C * L, L, C, run->count, rows, C);
        for (int64_t i = 0; i < run->count; i++) {
            const int64_t row = row_of(run, step, x[t * L + i]);
            for (int64_t c = 0; row >= 0 && c < C; c++)
                dw[row * C + c] += rows[i * C + c];
        }
        run->program->elem->bias_act_back(1, C, L, NULL, FAST_ACT_NONE, 0, dy + t * C * L,
                                          dp ? dp + t * C : NULL,
                                          fast__cpu_memory(run, step->buffer[SUMS]));
    }
    /* Tokens have no gradient. */
    float *dx = fast__cpu_in_grad(run, step, 0);
    if (dx && step->how[0] == FAST_CPU_WRITE)
        memset(dx, 0, (size_t)(T * L) * sizeof *dx);
    fast__cpu_report(run, step->node, FAST_W_WEIGHT);
    fast__cpu_report(run, step->node, FAST_W_BIAS);
}

const fast_cpu_op fast__cpu_embed = { .name = "embed",
                                      .reads_input = true,
                                      .alias = -1,
                                      .plan = embed_plan,
                                      .forward = embed_forward,
                                      .backward = embed_backward };

/* Buffers: samples of all inputs and the output; their gradients; one value in lanes. */
enum { FORTH, BACK, LANES };

/* Sizes of one sample of each input and the output; returns their sum. */
static int64_t custom_count(const fast_graph *graph, const fast_cpu_step *step, int64_t *sizes)
{
    int64_t sum = graph->nodes[step->node].count;

    for (int i = 0; i < step->in_count; i++) {
        sizes[i] = graph->nodes[step->in_node[i]].count;
        sum += sizes[i];
    }
    sizes[step->in_count] = graph->nodes[step->node].count;
    return sum;
}

/* Samples of all inputs and of the output are saved: the user's backward function reads them. */
static fast_err custom_plan(fast_cpu_compile *compile, fast_cpu_step *step)
{
    int64_t sizes[FAST_INPUTS_MAX + 1], largest = 0;
    const int64_t count = custom_count(compile->graph, step, sizes) * compile->options->batch;

    for (int i = 0; i < step->in_count; i++)
        largest = sizes[i] > largest ? sizes[i] : largest;
    FAST_TRY(fast__cpu_saved(compile, step, count, &step->buffer[FORTH]));
    FAST_TRY(fast__cpu_scratch_back(compile, step, count, &step->buffer[BACK]));
    return fast__cpu_scratch_back(compile, step, largest * compile->program->lanes,
                                  &step->buffer[LANES]);
}

/* Return a weight, or a frozen tensor of the state, that the operator reads as one input more. */
static const float *custom_operand(const fast_cpu_run *run, const fast_cpu_step *step)
{
    const int64_t frozen = run->graph->nodes[step->node].state[0];

    return frozen < 0 ? fast__cpu_param(run, step->node, FAST_W_WEIGHT)
                      : run->pass->state + run->graph->state.segments[frozen].offset;
}

/* Inputs to samples, the operator's function, its output to lanes. */
static void custom_forward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const fast_node *node = &run->graph->nodes[step->node];
    float *at = fast__cpu_memory(run, step->buffer[FORTH]);
    const float *x[FAST_INPUTS_MAX + 1];
    int64_t sizes[FAST_INPUTS_MAX + 1];

    custom_count(run->graph, step, sizes);
    x[step->in_count] = custom_operand(run, step);
    for (int i = 0; i < step->in_count; i++) {
        fast__cpu_to_samples(run, step->in_node[i], fast__cpu_in(run, step, i), at);
        x[i] = at;
        at += sizes[i] * run->count;
    }
    node->custom->forward(node->custom_config, run->count, sizes, x, at);
    fast__cpu_to_lanes(run, step->node, at, fast__cpu_out(run, step));
}

/* The saved samples, the user's function, its gradients to lanes. */
static void custom_backward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const fast_node *node = &run->graph->nodes[step->node];
    const float *at = fast__cpu_memory(run, step->buffer[FORTH]), *x[FAST_INPUTS_MAX + 1];
    float *back = fast__cpu_memory(run, step->buffer[BACK]), *dx[FAST_INPUTS_MAX + 1];
    float *grad = fast__cpu_param_grad(run, step->node, FAST_W_WEIGHT);
    float *lanes = fast__cpu_memory(run, step->buffer[LANES]);
    int64_t sizes[FAST_INPUTS_MAX + 1];
    const int64_t count = custom_count(run->graph, step, sizes) * run->count;

    memset(back, 0, (size_t)count * sizeof *back);
    for (int i = 0; i < step->in_count; i++) {
        x[i] = at;
        dx[i] = step->how[i] == FAST_CPU_SKIP ? NULL : back;
        at += sizes[i] * run->count;
        back += sizes[i] * run->count;
    }
    x[step->in_count] = custom_operand(run, step);
    dx[step->in_count] = grad;
    if (grad)
        memset(grad, 0,
               (size_t)run->graph->params.segments[node->weight[FAST_W_WEIGHT]].count *
                   sizeof *grad);
    fast__cpu_to_samples(run, step->node, fast__cpu_out_grad(run, step), back);
    node->custom->backward(node->custom_config, run->count, sizes, x, at, back, dx);
    for (int i = 0; i < step->in_count; i++) {
        float *into = fast__cpu_in_grad(run, step, i);
        const bool add = step->how[i] == FAST_CPU_ADD;
        if (!into)
            continue;
        fast__cpu_to_lanes(run, step->in_node[i], dx[i], add ? lanes : into);
        if (add)
            run->program->elem->add(sizes[i] * run->lanes, lanes, into);
    }
    if (grad)
        fast__cpu_report(run, step->node, FAST_W_WEIGHT);
}

const fast_cpu_op fast__cpu_custom = { .name = "custom",
                                       .alias = -1,
                                       .plan = custom_plan,
                                       .forward = custom_forward,
                                       .backward = custom_backward };
