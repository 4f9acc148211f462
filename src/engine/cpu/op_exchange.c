/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A value that changes its layout over the shards in the middle of a pass (engine/pass_parts.h):
 * rows of lanes are copied to samples, which leave, and what arrives is copied back. Where
 * activations are recomputed what arrived is saved.
 */
#include "engine/cpu/cpu.h"
#include "engine/pass_parts.h"

enum {
    LEAVES, /* x in samples */
    COMES,  /* y in samples */
    BACK,   /* dy in samples, then dx */
    LANES   /* dx in lanes, if it is added */
};

/* Only one part of a pass uses these buffers, but for what is computed again. */
static fast_err exchange_plan(fast_cpu_compile *compile, fast_cpu_step *step)
{
    const fast_engine_options *o = compile->options;
    const int64_t in = compile->graph->nodes[step->in_node[0]].count;
    const int64_t out = compile->graph->nodes[step->node].count;

    FAST_TRY(fast__cpu_scratch_forward(compile, step, in * o->batch, &step->buffer[LEAVES]));
    FAST_TRY((o->recompute ? fast__cpu_saved : fast__cpu_scratch_forward)(
        compile, step, out * o->batch, &step->buffer[COMES]));
    FAST_TRY(fast__cpu_scratch_back(compile, step, (in + out) * o->batch, &step->buffer[BACK]));
    return fast__cpu_scratch_back(compile, step, in * compile->program->lanes,
                                  &step->buffer[LANES]);
}

/* Rows of lanes to samples, which leave: values, or gradients. */
static void exchange_offer(fast_cpu_run *run, const fast_cpu_step *step, bool back,
                           fast_pass_due *due)
{
    const int64_t out = run->graph->nodes[step->node].count;
    float *from = fast__cpu_memory(run, step->buffer[back ? BACK : LEAVES]);

    if (back && step->how[0] == FAST_CPU_SKIP)
        return;
    if (back)
        fast__cpu_to_samples(run, step->node, fast__cpu_out_grad(run, step), from);
    else
        fast__cpu_to_samples(run, step->in_node[0], fast__cpu_in(run, step, 0), from);
    *due = (fast_pass_due){ step->node, from,
                            back ? from + out * run->count
                                 : fast__cpu_memory(run, step->buffer[COMES]) };
}

/* Samples that came to rows of lanes. */
static void exchange_forward(fast_cpu_run *run, const fast_cpu_step *step)
{
    fast__cpu_to_lanes(run, step->node, fast__cpu_memory(run, step->buffer[COMES]),
                       fast__cpu_out(run, step));
}

/* Gradients that came to rows of lanes, added where x has another reader. */
static void exchange_backward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const int64_t in = run->graph->nodes[step->in_node[0]].count;
    const int64_t out = run->graph->nodes[step->node].count;
    const float *came = fast__cpu_memory(run, step->buffer[BACK]) + out * run->count;
    float *lanes = fast__cpu_memory(run, step->buffer[LANES]);
    float *dx = fast__cpu_in_grad(run, step, 0);
    const bool add = step->how[0] == FAST_CPU_ADD;

    if (!dx)
        return;
    fast__cpu_to_lanes(run, step->in_node[0], came, add ? lanes : dx);
    if (add)
        run->program->elem->add(in * run->lanes, lanes, dx);
}

const fast_cpu_op fast__cpu_exchange = { .name = "exchange",
                                         .alias = -1,
                                         .plan = exchange_plan,
                                         .forward = exchange_forward,
                                         .backward = exchange_backward,
                                         .offer = exchange_offer };
