/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures of a range of classes (engine/class_range.h): by sample, as the labels are. Saved: the
 * place of each label in the range.
 */
#include "engine/class_range.h"
#include "engine/cpu/cpu.h"

#include <string.h>

/* Buffers: logits and figures in samples, forward; the same and their gradients, backward; labels;
 * the gradient in lanes, if it is added. */
enum { FORTH, BACK, OWN, LANES };

static fast_err classes_plan(fast_cpu_compile *compile, fast_cpu_step *step)
{
    const int64_t batch = compile->options->batch;
    const int64_t in = compile->graph->nodes[step->in_node[0]].count;
    const int64_t out = compile->graph->nodes[step->node].count;

    FAST_TRY(fast__cpu_scratch_forward(compile, step, (in + out) * batch, &step->buffer[FORTH]));
    FAST_TRY(fast__cpu_scratch_back(compile, step, 2 * (in + out) * batch, &step->buffer[BACK]));
    FAST_TRY(fast__cpu_saved(compile, step, out / FAST_FIGURES * batch, &step->buffer[OWN]));
    return fast__cpu_scratch_back(compile, step, in * compile->program->lanes,
                                  &step->buffer[LANES]);
}

static void classes_forward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const fast_node *node = &run->graph->nodes[step->node];
    const int64_t in = run->graph->nodes[step->in_node[0]].count, n = run->count;
    const int64_t rows = node->count / FAST_FIGURES;
    float *z = fast__cpu_memory(run, step->buffer[FORTH]), *figures = z + in * n;

    fast__cpu_to_samples(run, step->in_node[0], fast__cpu_in(run, step, 0), z);
    fast__class_figures(n * rows, in / rows, node->columns[0], z, run->pass->batch->labels,
                        fast__cpu_memory(run, step->buffer[OWN]), figures);
    fast__cpu_to_lanes(run, step->node, figures, fast__cpu_out(run, step));
}

static void classes_backward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const fast_node *node = &run->graph->nodes[step->node];
    const int64_t in = run->graph->nodes[step->in_node[0]].count, n = run->count;
    const int64_t rows = node->count / FAST_FIGURES;
    float *z = fast__cpu_memory(run, step->buffer[BACK]), *dz = z + in * n;
    float *figures = dz + in * n, *grad = figures + node->count * n;
    float *dx = fast__cpu_in_grad(run, step, 0);
    float *lanes = fast__cpu_memory(run, step->buffer[LANES]);
    const bool add = step->how[0] == FAST_CPU_ADD;

    if (!dx)
        return;
    fast__cpu_to_samples(run, step->in_node[0], fast__cpu_in(run, step, 0), z);
    fast__cpu_to_samples(run, step->node, fast__cpu_out(run, step), figures);
    fast__cpu_to_samples(run, step->node, fast__cpu_out_grad(run, step), grad);
    memset(dz, 0, (size_t)(in * n) * sizeof *dz);
    fast__class_figures_back(n * rows, in / rows, z, fast__cpu_memory(run, step->buffer[OWN]),
                             figures, grad, dz);
    fast__cpu_to_lanes(run, step->in_node[0], dz, add ? lanes : dx);
    if (add)
        run->program->elem->add(in * run->lanes, lanes, dx);
}

const fast_cpu_op fast__cpu_classes = { .name = "class figures",
                                        .reads_input = true,
                                        .reads_output = true,
                                        .alias = -1,
                                        .plan = classes_plan,
                                        .forward = classes_forward,
                                        .backward = classes_backward };
