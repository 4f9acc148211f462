/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads: outputs with a loss of their own. A head copies its input; in training it adds a L(x) to
 * the loss of the pass, and a dL/dx to the gradient that comes from its readers, if it has any. The
 * gradient of the loss is computed in the backward pass from the same answers.
 */
#include "engine/cpu/cpu.h"
#include "engine/experts.h"
#include "engine/loss.h"

#include <string.h>

/* Buffers of a head: answers in lanes, as [rows] labels and [rows][columns] targets, for each pass,
 * or samples and their gradients; and the gradient of the loss. */
enum { ANSWERS, ANSWERS_BACK, GRADIENT };

static fast_err head_plan(fast_cpu_compile *compile, fast_cpu_step *step)
{
    const fast_node *head = &compile->graph->nodes[step->node];
    const bool samples = head->loss == FAST_LOSS_BALANCE || head->loss == FAST_LOSS_BEST;
    const int64_t L = compile->program->lanes;
    const int64_t answers = (samples ? 2 * head->count : fast__head_rows(head) + head->count) * L;

    FAST_TRY(fast__cpu_scratch_forward(compile, step, answers, &step->buffer[ANSWERS]));
    FAST_TRY(fast__cpu_scratch_back(compile, step, answers, &step->buffer[ANSWERS_BACK]));
    return fast__cpu_scratch_back(compile, step, head->count * L, &step->buffer[GRADIENT]);
}

/* Copy labels or targets to lanes at `at`; the targets follow the labels. */
static void put_answers(const fast_cpu_run *run, const fast_node *head, float *at)
{
    const fast_batch *batch = run->pass->batch;
    const int64_t P = fast__head_rows(head), K = fast__head_columns(head), L = run->lanes;
    const int64_t row = head->columns[1];
    float *soft = at + P * L;

    for (int64_t p = 0; p < P; p++) {
        for (int64_t i = 0; i < L && batch->labels; i++)
            at[p * L + i] = i < run->count ? (float)batch->labels[i * P + p] : -1.0f;
        if (batch->targets)
            run->program->elem->to_lanes(batch->targets + p * row + head->columns[0], P * row,
                                         run->count, K, L, soft + p * K * L, L);
    }
}

/* The balance of experts, from samples: `at` has room for them and their gradients. */
static double balance_of(const fast_cpu_run *run, const fast_cpu_step *step, float *at, float *dx)
{
    const fast_node *head = &run->graph->nodes[step->node];
    float *back = dx ? at + head->count * run->count : NULL;

    fast__cpu_to_samples(run, step->node, fast__cpu_in(run, step, 0), at);
    const double loss = fast__balance_loss(head, run->count, at, head->a, back);
    if (dx)
        fast__cpu_to_lanes(run, step->node, back, dx);
    return (double)head->a * loss;
}

/* The loss of the best members, from samples. */
static double best_of(const fast_cpu_run *run, const fast_cpu_step *step, float *at, float *dx)
{
    const fast_node *head = &run->graph->nodes[step->node];
    float *back = dx ? at + head->count * run->count : NULL;

    fast__cpu_to_samples(run, step->node, fast__cpu_in(run, step, 0), at);
    const double loss = fast__head_loss(run->graph, step->node, run->pass, at, back);
    if (dx)
        fast__cpu_to_lanes(run, step->node, back, dx);
    return loss;
}

/* Return the weighted loss; write its gradient to dx unless that is NULL. */
static double loss_of(const fast_cpu_run *run, const fast_cpu_step *step, float *at, float *dx)
{
    const fast_node *head = &run->graph->nodes[step->node];
    const fast_batch *batch = run->pass->batch;
    const fast_loss_kernels *kernels = run->program->loss;
    const int64_t P = fast__head_rows(head), K = fast__head_columns(head), L = run->lanes;
    const double rows = (double)(run->count * P), weight = (double)head->a;
    const float *x = fast__cpu_in(run, step, 0), *soft = at + P * L;
    double sum = 0;
    int64_t correct = 0;

    if (head->loss == FAST_LOSS_BALANCE)
        return balance_of(run, step, at, dx);
    if (head->loss == FAST_LOSS_BEST)
        return best_of(run, step, at, dx);
    put_answers(run, head, at);
    if (head->loss == FAST_LOSS_MSE) {
        kernels->squared(P * K, L, run->count, x, soft, (float)(2.0 * weight / (rows * (double)K)),
                         dx, &sum);
        return weight * sum / (rows * (double)K);
    }
    const fast_graph figures = { .positions = P, .class_weights = run->graph->class_weights };
    const double divisor = fast__loss_divisor(&figures, run->pass);
    for (int64_t p = 0; p < P; p++)
        kernels->cross_entropy(K, L, run->count, x + p * K * L, batch->labels ? at + p * L : NULL,
                               batch->targets ? soft + p * K * L : NULL, head->b,
                               fast__loss_weights(run->graph, run->pass), (float)(weight / divisor),
                               dx ? dx + p * K * L : NULL, &sum, &correct);
    return weight * sum / divisor;
}

/* Copy, and tell the loss, unless it was told before. */
static void head_forward(fast_cpu_run *run, const fast_cpu_step *step)
{
    run->program->elem->copy(run->graph->nodes[step->node].count * run->lanes,
                             fast__cpu_in(run, step, 0), fast__cpu_out(run, step));
    if (fast__head_counts(&run->graph->nodes[step->node], run->pass) && !run->again)
        run->head_loss += loss_of(run, step, fast__cpu_memory(run, step->buffer[ANSWERS]), NULL);
}

/* The readers' gradient, if there are readers, and that of the loss. */
static void head_backward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const int64_t n = run->graph->nodes[step->node].count * run->lanes;
    const fast_elem_kernels *elem = run->program->elem;
    const bool is_read = run->program->values[step->out].grad >= 0;
    float *own = fast__cpu_memory(run, step->buffer[GRADIENT]);
    float *dx = fast__cpu_in_grad(run, step, 0);

    if (!dx)
        return;
    memset(own, 0, (size_t)n * sizeof *own);
    if (fast__head_counts(&run->graph->nodes[step->node], run->pass))
        loss_of(run, step, fast__cpu_memory(run, step->buffer[ANSWERS_BACK]), own);
    if (is_read)
        elem->add(n, fast__cpu_out_grad(run, step), own);
    (step->how[0] == FAST_CPU_ADD ? elem->add : elem->copy)(n, own, dx);
}

const fast_cpu_op fast__cpu_head = { .name = "head",
                                     .reads_input = true,
                                     .alias = -1,
                                     .plan = head_plan,
                                     .forward = head_forward,
                                     .backward = head_backward };
