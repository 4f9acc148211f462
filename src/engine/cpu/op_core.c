/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Causal attention between its two products, [T, 3 W] -> [T, W]: the heads of a split network,
 * whose queries, keys and values come from other workers. The formulas are in attention_simd.c.
 */
#include "engine/cpu/cpu.h"

/* Buffers: operands of one head and 16 samples, forward; the same and the scores' gradients,
 * backward; the gradient of the input, if it is added. */
enum { HEAD, HEAD_BACK, LANES };

static fast_err core_plan(fast_cpu_compile *compile, fast_cpu_step *step)
{
    const fast_node *node = &compile->graph->nodes[step->node];
    const int64_t T = node->shape[0], D = node->shape[1] / node->heads;
    const int64_t each = FAST_VEC * fast__attention_each(T, D), row = fast__attention_row(T);
    const int64_t panels = fast__attention_panels(T, D);

    FAST_ASSERT(node->heads > 0 && node->shape[1] % node->heads == 0);
    FAST_TRY(fast__cpu_scratch_forward(
        compile, step, 3 * each + panels + FAST_ATTENTION_BLOCK * row, &step->buffer[HEAD]));
    FAST_TRY(fast__cpu_scratch_back(compile, step, 4 * each + 2 * panels + 2 * T * row,
                                    &step->buffer[HEAD_BACK]));
    return fast__cpu_scratch_back(compile, step, 3 * node->count * compile->program->lanes,
                                  &step->buffer[LANES]);
}

static void core_forward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const fast_node *node = &run->graph->nodes[step->node];

    run->program->attention->forward(node->shape[0], node->shape[1], node->heads, run->lanes,
                                     run->count, fast__cpu_in(run, step, 0),
                                     fast__cpu_out(run, step),
                                     fast__cpu_memory(run, step->buffer[HEAD]));
}

static void core_backward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const fast_node *node = &run->graph->nodes[step->node];
    float *dx = fast__cpu_in_grad(run, step, 0);
    const bool add = step->how[0] == FAST_CPU_ADD;
    float *to = add ? fast__cpu_memory(run, step->buffer[LANES]) : dx;

    if (!dx)
        return;
    run->program->attention->backward(node->shape[0], node->shape[1], node->heads, run->lanes,
                                      run->count, fast__cpu_in(run, step, 0),
                                      fast__cpu_out_grad(run, step), to,
                                      fast__cpu_memory(run, step->buffer[HEAD_BACK]));
    if (add)
        run->program->elem->add(3 * node->count * run->lanes, to, dx);
}

const fast_cpu_op fast__cpu_attention_core = { .name = "attention core",
                                               .reads_input = true,
                                               .alias = -1,
                                               .plan = core_plan,
                                               .forward = core_forward,
                                               .backward = core_backward };
