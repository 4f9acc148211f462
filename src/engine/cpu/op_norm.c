/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batch norm (with a residual sum and relu if they follow) and layer norm. The formulas are those
 * of the reference engine; with m elements under one mean, and dz the gradient that relu passed:
 *
 *     dx = w / dev (dz - mean(dz) - x^ mean(dz x^)),   x^ = (x - mean) / dev
 *        = a dz + b (x - mean) + c,   b = -a mean(dz (x - mean)) / dev^2,   c = -a mean(dz)
 *
 * The gradient of the added input is dz itself: it stays in place and becomes that input's
 * gradient. Without a sum dx replaces dy. Ghost batches run these passes on ranges of lanes. Over
 * shards (engine/pass_parts.h) the moments and the sums are exchanged before what follows them.
 *
 *     forward    moments -> mean, deviation -> scale, shift -> apply (+ add, relu; bits saved)
 *     backward   sums of dz and dz (x - mean) -> a, b, c -> apply_back; dz stays in dy
 */
#include "engine/cpu/cpu.h"
#include "engine/pass_parts.h"

#include <math.h>
#include <stdio.h>

enum {
    STATISTICS, /* [groups][2][channels]: mean, 1 / deviation; over shards then elements */
    BITS,       /* one bit per element that relu passed */
    FORWARD,    /* scratch of the forward pass */
    BACK        /* scratch of the backward pass */
};

/* Scratch of both passes: sums for kernels, then two rows of doubles, then four of floats. */
static int64_t plain_count(int64_t channels)
{
    return channels * (4 * FAST_VEC + 4 + 4);
}

/* With shards the own block of moments follows, and those of all. */
static int64_t scratch_count(const fast_node *node, int64_t channels)
{
    const int64_t blocks = node->exchange ? node->exchange->dim + 1 : 0;

    return plain_count(channels) + blocks * fast__moments_block(channels);
}

static float *block_of(const fast_cpu_run *run, const fast_cpu_step *step, int buffer)
{
    return fast__cpu_memory(run, step->buffer[buffer]) +
           plain_count(fast__cpu_channels(run->graph, step->node));
}

/* Samples per statistic. */
static int64_t ghost_of(const fast_node *node, int64_t count)
{
    return node->ghost > 0 ? node->ghost : count;
}

/* Memory for statistics, relu's bits and scratch. */
static fast_err norm_plan(fast_cpu_compile *compile, fast_cpu_step *step)
{
    const fast_node *node = &compile->graph->nodes[step->node];
    const int64_t C = fast__cpu_channels(compile->graph, step->node);
    const int64_t batch = compile->options->batch, ghost = ghost_of(node, batch);
    const int64_t groups = (batch + ghost - 1) / ghost;

    FAST_TRY(fast__cpu_saved(compile, step, groups * 2 * C + (node->exchange ? 1 : 0),
                             &step->buffer[STATISTICS]));
    FAST_TRY(fast__cpu_saved(compile, step,
                             node->count * compile->program->lanes / FAST_VEC / 2 + 1,
                             &step->buffer[BITS]));
    FAST_TRY(
        fast__cpu_scratch_forward(compile, step, scratch_count(node, C), &step->buffer[FORWARD]));
    FAST_TRY(fast__cpu_scratch_back(compile, step, scratch_count(node, C), &step->buffer[BACK]));
    snprintf(step->note, sizeof step->note, "batch_norm%s%s", step->add ? " + add" : "",
             step->act ? " + relu" : "");
    return FAST_OK;
}

/* The lanes of the group that starts at sample `first`. */
static fast_norm_shape group_of(const fast_cpu_run *run, const fast_cpu_step *step, int64_t first,
                                int64_t ghost)
{
    const int64_t rest = run->count - first, count = rest < ghost ? rest : ghost;

    return (fast_norm_shape){ .positions = fast__cpu_positions(run->graph, step->node),
                              .channels = fast__cpu_channels(run->graph, step->node),
                              .lanes = run->lanes,
                              .lo = first,
                              .hi = first + count,
                              .end = count == rest ? run->lanes : first + count };
}

/* Update the running statistics, the variance by its unbiased estimate. */
static void follow(const fast_cpu_run *run, const fast_node *node, int64_t channels, double m,
                   const double *mean, const double *squares)
{
    const fast_segment *state = run->graph->state.segments;
    float *mean_run = run->pass->state + state[node->state[0]].offset;
    float *var_run = run->pass->state + state[node->state[1]].offset;
    const double b = (double)node->b;

    for (int64_t c = 0; c < channels; c++) {
        const double var = squares[c] / (m > 1 ? m - 1 : m);
        mean_run[c] = (float)((1.0 - b) * (double)mean_run[c] + b * mean[c]);
        var_run[c] = (float)((1.0 - b) * (double)var_run[c] + b * var);
    }
}

/* Take the moments of all shards; return the number of elements. */
static double join_moments(const fast_cpu_run *run, const fast_cpu_step *step, double *mean,
                           double *squares)
{
    const int64_t C = fast__cpu_channels(run->graph, step->node);
    const float *all = block_of(run, step, FORWARD) + fast__moments_block(C);
    double m = 0;

    for (int64_t c = 0; c < C; c++)
        m = fast__moments_join(run->graph->nodes[step->node].exchange, C, c, all, &mean[c],
                               &squares[c]);
    return m;
}

/* Per ghost batch: moments (or running statistics), factors, result. What shards have exchanged is
 * gone when the step is computed again: the statistics are those that were saved. */
static void norm_forward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const fast_node *node = &run->graph->nodes[step->node];
    const int64_t C = fast__cpu_channels(run->graph, step->node);
    const int64_t ghost = run->pass->train ? ghost_of(node, run->count) : run->count;
    const float *w = fast__cpu_param(run, step->node, FAST_W_WEIGHT);
    const float *b = fast__cpu_param(run, step->node, FAST_W_BIAS);
    const fast_segment *state = run->graph->state.segments;
    const float *x = fast__cpu_in(run, step, 0),
                *add = step->add ? fast__cpu_in(run, step, 1) : NULL;
    float *saved = fast__cpu_memory(run, step->buffer[STATISTICS]);
    float *scratch = fast__cpu_memory(run, step->buffer[FORWARD]);
    double *mean = (double *)(void *)(scratch + C * 4 * FAST_VEC), *squares = mean + C;
    float *scale = (float *)(void *)(squares + C), *shift = scale + C;

    for (int64_t first = 0; first < run->count; first += ghost, saved += 2 * C) {
        const fast_norm_shape s = group_of(run, step, first, ghost);
        const bool known = node->exchange && run->again;
        double m = (double)(s.positions * (s.hi - s.lo));
        if (node->exchange && !known)
            saved[2 * C] = (float)(m = join_moments(run, step, mean, squares));
        else if (run->pass->train && !known)
            run->program->norm->moments(&s, x, scratch, mean, squares);
        if (run->pass->train && !run->again)
            follow(run, node, C, m, mean, squares);
        for (int64_t c = 0; c < C; c++) {
            const double var = run->pass->train
                                   ? squares[c] / m
                                   : (double)run->pass->state[state[node->state[1]].offset + c];
            if (!known) {
                saved[c] = run->pass->train ? (float)mean[c]
                                            : run->pass->state[state[node->state[0]].offset + c];
                saved[C + c] = (float)(1.0 / sqrt(var + (double)node->a));
            }
            scale[c] = saved[C + c] * (w ? w[c] : 1);
            shift[c] = b ? b[c] : 0;
        }
        run->program->norm->apply(&s, x, saved, scale, shift, add, step->act == FAST_ACT_RELU,
                                  fast__cpu_out(run, step),
                                  (uint16_t *)(void *)fast__cpu_memory(run, step->buffer[BITS]));
    }
}

/* Compute the factors of one group from its sums over m elements. */
static void factors(int64_t C, double m, const float *saved, const float *w, const double *sum,
                    const double *dot, float *abc)
{
    for (int64_t c = 0; c < C; c++) {
        const double inverse = (double)saved[C + c], a = inverse * (w ? (double)w[c] : 1);
        abc[c] = (float)a;
        abc[C + c] = (float)(-a * inverse * inverse * dot[c] / m);
        abc[2 * C + c] = (float)(-a * sum[c] / m);
    }
}

/* Add the sums of one group to the gradients of the weights. */
static void add_weights(const fast_cpu_run *run, const fast_cpu_step *step,
                        const fast_norm_shape *s, const float *saved, const double *sum,
                        const double *dot)
{
    float *dw = fast__cpu_param_grad(run, step->node, FAST_W_WEIGHT);
    float *db = fast__cpu_param_grad(run, step->node, FAST_W_BIAS);

    for (int64_t c = 0; c < s->channels; c++) {
        if (dw)
            dw[c] = (float)((s->lo ? (double)dw[c] : 0) + dot[c] * (double)saved[s->channels + c]);
        if (db)
            db[c] = (float)((s->lo ? (double)db[c] : 0) + sum[c]);
    }
}

/* The passing bits of a fused relu; NULL without a relu. */
static const uint16_t *bits_of(const fast_cpu_run *run, const fast_cpu_step *step)
{
    return step->act ? (const uint16_t *)(const void *)fast__cpu_memory(run, step->buffer[BITS])
                     : NULL;
}

/* Does the gradient that relu passed, or the sum of two, take the place of dy? */
static bool stores(const fast_cpu_run *run, const fast_cpu_step *step)
{
    return run->program->values[step->out].grad2 >= 0 || (step->add && step->act);
}

/* Sum the gradients of one group. */
static void back_sums(const fast_cpu_run *run, const fast_cpu_step *step, const fast_norm_shape *s,
                      const float *saved, double *sum, double *dot)
{
    const fast_cpu_value *out = &run->program->values[step->out];

    run->program->norm->sums(s, fast__cpu_in(run, step, 0), saved, fast__cpu_out_grad(run, step),
                             out->grad2 >= 0 ? fast__cpu_memory(run, out->grad2) : NULL,
                             bits_of(run, step), stores(run, step),
                             fast__cpu_memory(run, step->buffer[BACK]), sum, dot);
    add_weights(run, step, s, saved, sum, dot);
}

/* Over shards, first half: the moments of the own elements, or the sums of their gradients. */
static void norm_offer(fast_cpu_run *run, const fast_cpu_step *step, bool back, fast_pass_due *due)
{
    const int buffer = back ? BACK : FORWARD;
    const int64_t C = fast__cpu_channels(run->graph, step->node);
    const fast_norm_shape s = group_of(run, step, 0, run->count);
    const float *saved = fast__cpu_memory(run, step->buffer[STATISTICS]);
    float *scratch = fast__cpu_memory(run, step->buffer[buffer]);
    float *own = block_of(run, step, buffer);
    double *first = (double *)(void *)(scratch + C * 4 * FAST_VEC), *second = first + C;

    if (back)
        back_sums(run, step, &s, saved, first, second);
    else
        run->program->norm->moments(&s, fast__cpu_in(run, step, 0), scratch, first, second);
    for (int64_t c = 0; c < C; c++) {
        own[c] = (float)first[c];
        own[C + c] = (float)second[c];
    }
    own[2 * C] = (float)(s.positions * (s.hi - s.lo));
    if (!back || step->how[0] != FAST_CPU_SKIP)
        *due = (fast_pass_due){ step->node, own, own + fast__moments_block(C) };
}

/* Take the sums of all shards. */
static void join_sums(const fast_cpu_run *run, const fast_cpu_step *step, double *sum, double *dot)
{
    const fast_reshard *how = run->graph->nodes[step->node].exchange;
    const int64_t C = fast__cpu_channels(run->graph, step->node);
    const float *all = block_of(run, step, BACK) + fast__moments_block(C);

    for (int64_t c = 0; c < C; c++) {
        sum[c] = fast__moments_sum(how, C, c, all);
        dot[c] = fast__moments_sum(how, C, C + c, all);
    }
}

/* Per ghost batch: sums, factors, dx; then the gradient of the added input. */
static void norm_backward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const fast_node *node = &run->graph->nodes[step->node];
    const int64_t C = fast__cpu_channels(run->graph, step->node);
    const int64_t ghost = ghost_of(node, run->count);
    const float *x = fast__cpu_in(run, step, 0),
                *saved = fast__cpu_memory(run, step->buffer[STATISTICS]);
    const float *w = fast__cpu_param(run, step->node, FAST_W_WEIGHT);
    float *dy = fast__cpu_out_grad(run, step), *dx = fast__cpu_in_grad(run, step, 0);
    const uint16_t *bits = stores(run, step) ? NULL : bits_of(run, step);
    float *scratch = fast__cpu_memory(run, step->buffer[BACK]);
    double *sum = (double *)(void *)(scratch + C * 4 * FAST_VEC), *dot = sum + C;
    float *abc = (float *)(void *)(dot + C);

    for (int64_t first = 0; first < run->count; first += ghost, saved += 2 * C) {
        const fast_norm_shape s = group_of(run, step, first, ghost);
        if (!node->exchange)
            back_sums(run, step, &s, saved, sum, dot);
        else if (dx)
            join_sums(run, step, sum, dot);
        if (!dx)
            continue;
        factors(C, node->exchange ? (double)saved[2 * C] : (double)(s.positions * (s.hi - s.lo)),
                saved, w, sum, dot, abc);
        run->program->norm->apply_back(&s, x, saved, dy, bits, abc, abc + C, abc + 2 * C, dx,
                                       step->how[0] == FAST_CPU_ADD);
    }
    if (step->add && step->how[1] == FAST_CPU_WRITE)
        run->program->elem->copy(node->count * run->lanes, dy, fast__cpu_in_grad(run, step, 1));
    if (step->add && step->how[1] == FAST_CPU_ADD)
        run->program->elem->add(node->count * run->lanes, dy, fast__cpu_in_grad(run, step, 1));
    fast__cpu_report(run, step->node, FAST_W_WEIGHT);
    fast__cpu_report(run, step->node, FAST_W_BIAS);
}

const fast_cpu_op fast__cpu_batch_norm = { .name = "batch_norm",
                                           .reads_input = true,
                                           .sums = true,
                                           .alias = 1,
                                           .in_place = true,
                                           .plan = norm_plan,
                                           .forward = norm_forward,
                                           .backward = norm_backward,
                                           .offer = norm_offer };

/* Mean and 1 / deviation of each position are saved; sums for dw and db are scratch. */
static fast_err layer_plan(fast_cpu_compile *compile, fast_cpu_step *step)
{
    const int64_t P = fast__cpu_positions(compile->graph, step->node);
    const int64_t C = fast__cpu_channels(compile->graph, step->node);

    FAST_TRY(fast__cpu_saved(compile, step, P * 2 * compile->program->lanes, &step->buffer[0]));
    return fast__cpu_scratch_back(compile, step, C * 2 * FAST_VEC, &step->buffer[1]);
}

/* Normalise the channels of each position, sample by sample. */
static void layer_forward(fast_cpu_run *run, const fast_cpu_step *step)
{
    run->program->norm->layer(
        fast__cpu_positions(run->graph, step->node), fast__cpu_channels(run->graph, step->node),
        run->lanes, fast__cpu_in(run, step, 0), fast__cpu_param(run, step->node, FAST_W_WEIGHT),
        fast__cpu_param(run, step->node, FAST_W_BIAS), run->graph->nodes[step->node].a,
        fast__cpu_out(run, step), fast__cpu_memory(run, step->buffer[0]));
}

/* dx, dw and db in one pass; both weights are then final. */
static void layer_backward(fast_cpu_run *run, const fast_cpu_step *step)
{
    run->program->norm->layer_back(
        fast__cpu_positions(run->graph, step->node), fast__cpu_channels(run->graph, step->node),
        run->lanes, fast__cpu_in(run, step, 0), fast__cpu_param(run, step->node, FAST_W_WEIGHT),
        fast__cpu_memory(run, step->buffer[0]), fast__cpu_out_grad(run, step),
        fast__cpu_in_grad(run, step, 0), step->how[0] == FAST_CPU_ADD,
        fast__cpu_param_grad(run, step->node, FAST_W_WEIGHT),
        fast__cpu_param_grad(run, step->node, FAST_W_BIAS), fast__cpu_memory(run, step->buffer[1]));
    fast__cpu_report(run, step->node, FAST_W_WEIGHT);
    fast__cpu_report(run, step->node, FAST_W_BIAS);
}

const fast_cpu_op fast__cpu_layer_norm = { .name = "layer_norm",
                                           .reads_input = true,
                                           .alias = -1,
                                           .plan = layer_plan,
                                           .forward = layer_forward,
                                           .backward = layer_backward };
