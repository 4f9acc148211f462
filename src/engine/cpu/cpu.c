/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cpu engine: compile a graph to steps, and run them. A pass is the list of steps forward, the
 * loss, and the list backward. It allocates nothing and reads only the program, the parameters and
 * its workspace, so any number of threads can run one program.
 */
#include "engine/cpu/cpu.h"

#include "base/clock.h"
#include "base/memory.h"
#include "engine/class_range.h"
#include "engine/loss.h"
#include "engine/pass_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A segment's offset is its place in the flat vector. */
const float *fast__cpu_param(const fast_cpu_run *run, int node, int which)
{
    const int64_t segment = run->graph->nodes[node].weight[which];
    return segment < 0 ? NULL : run->pass->params + run->graph->params.segments[segment].offset;
}

/* Gradients have the layout of the parameters. */
float *fast__cpu_param_grad(const fast_cpu_run *run, int node, int which)
{
    const int64_t segment = run->graph->nodes[node].weight[which];
    return segment < 0
               ? NULL
               : run->grad + (run->graph->params.segments[segment].offset - run->grad_first);
}

/* Reports are optional. */
void fast__cpu_report_range(const fast_cpu_run *run, int64_t offset, int64_t count)
{
    if (run->pass->report && run->pass->phase != FAST_PASS_INPUTS)
        run->pass->report(run->pass->ctx, offset, count);
}

/* A weight that the node lacks is not reported. */
void fast__cpu_report(const fast_cpu_run *run, int node, int which)
{
    const int64_t segment = run->graph->nodes[node].weight[which];

    if (segment >= 0)
        fast__cpu_report_range(run, run->graph->params.segments[segment].offset,
                               run->graph->params.segments[segment].count);
}

/* The contract's program_free(): a program that was only partly compiled is allowed. */
static void cpu_program_free(fast_program *base)
{
    fast_cpu_program *program = (fast_cpu_program *)base;

    if (!program)
        return;
    for (int s = 0; program->steps && s < program->step_count; s++)
        fast__conv_free(program->steps[s].conv);
    fast__free(program->steps);
    fast__free(program->values);
    fast__free(program->buffers);
    fast__free(program->step_of);
    fast__free(program->value_of);
    fast__free(program->needs);
    fast__free(program);
}

/* Make the steps of a program, choose their kernels and lay out the memory. */
static fast_err compile_steps(fast_cpu_compile *compile)
{
    fast_cpu_program *program = compile->program;
    /* A dense layer may need a permutation of its input, which is one more step. */
    const int64_t count = (int64_t)compile->graph->node_count * 2;

    FAST_TRY(fast__alloc("steps of a program", count, sizeof *program->steps, &program->steps));
    FAST_TRY(fast__alloc("values of a program", count, sizeof *program->values, &program->values));
    FAST_TRY(fast__alloc("steps of nodes", count, sizeof *program->step_of, &program->step_of));
    FAST_TRY(fast__alloc("values of nodes", count, sizeof *program->value_of, &program->value_of));
    FAST_TRY(fast__alloc("needs of nodes", count, sizeof *program->needs, &program->needs));
    fast__graph_needs(compile->graph, program->needs);
    FAST_TRY(fast__cpu_fuse(compile));
    FAST_TRY(fast__cpu_gradients(compile));
    for (int s = 0; s < program->step_count; s++) {
        fast_cpu_step *step = &program->steps[s];
        snprintf(step->note, sizeof step->note, "%s", step->op->name);
        if (step->op->plan)
            FAST_TRY(step->op->plan(compile, step));
    }
    if (compile->conv_count > 0 && compile->fitted_count == 0)
        return fast__fail(FAST_ENOTSUP,
                          "convolution method \"%s\" fits none of the %d convolutions; "
                          "docs/engines.md says what each fits",
                          compile->options->method, compile->conv_count);
    const int64_t labels =
        program->lanes * (compile->graph->positions + program->values[program->out].rows);
    FAST_TRY(fast__cpu_buffer_new(compile, labels, program->step_count, program->step_count,
                                  &program->soft));
    if (program->train && compile->options->recompute)
        return fast__cpu_recompute(compile);
    return fast__cpu_buffers_place(program);
}

/* The contract's compile(): kernels of this processor, steps, memory, cost. */
static fast_err cpu_compile(const fast_graph *graph, const fast_engine_options *options,
                            fast_program **out)
{
    fast_cpu_compile compile = { .graph = graph, .options = options };
    fast_cpu_program *program = NULL;

    FAST_ASSERT(options->batch >= 1);
    FAST_ASSERT(!options->divide || !options->recompute);
    FAST_TRY(fast__graph_check(graph));
    FAST_TRY(fast__conv_method_check(options->method));
    FAST_TRY(fast__alloc("a program", 1, sizeof *program, &program));
    program->base =
        (fast_program){ .engine = &fast__engine_cpu, .graph = graph, .batch = options->batch };
    program->train = options->train;
    if (options->train)
        program->phases =
            (options->divide ? FAST_CPU_DIVIDED : 0u) | (options->flight ? FAST_CPU_FLIGHT : 0u);
    program->lanes = (options->batch + FAST_VEC - 1) / FAST_VEC * FAST_VEC;
    program->isa = fast__isa();
    program->elem = FAST_KERNELS_PICK(elem, program->isa);
    program->loss = FAST_KERNELS_PICK(loss, program->isa);
    program->pool = FAST_KERNELS_PICK(pool, program->isa);
    program->norm = FAST_KERNELS_PICK(norm, program->isa);
    program->cell = FAST_KERNELS_PICK(cell, program->isa);
    program->attention = FAST_KERNELS_PICK(attention, program->isa);
    compile.program = program;
    fast__gemm_setup();
    fast_err err = fast__plan_open(options->plan_path, &compile.plan);
    if (!err)
        err = compile_steps(&compile);
    if (!err) {
        program->base.flops_forward = fast__graph_flops_forward(graph);
        program->base.flops_train =
            fast__graph_flops_train(graph, program->needs) + program->base.flops_again;
        program->base.memory = program->memory_count * (int64_t)sizeof(float);
        program->base.memory_shared = program->shared_count * (int64_t)sizeof(float);
        program->base.plan_hash = fast__plan_hash(compile.plan);
    }
    fast__plan_close(compile.plan);
    if (err) {
        cpu_program_free(&program->base);
        return err;
    }
    FAST_ASSERT(program->step_count > 0);
    *out = &program->base;
    return FAST_OK;
}

/* The contract's workspace_free(): objects of convolutions before the memory. */
static void cpu_workspace_free(fast_workspace *base)
{
    fast_cpu_workspace *workspace = (fast_cpu_workspace *)base;

    if (!workspace)
        return;
    const fast_cpu_program *program = (const fast_cpu_program *)base->program;
    for (int s = 0; workspace->locals && !workspace->beside && s < program->step_count; s++)
        if (program->steps[s].conv)
            fast__conv_local_free(program->steps[s].conv, workspace->locals[s]);
    if (!workspace->beside) {
        fast__free(workspace->locals);
        fast__free(workspace->shared);
    }
    fast__free(workspace->memory);
    fast__free(workspace);
}

/* Allocate the memory and the objects of convolutions. */
static fast_err workspace_fill(const fast_cpu_program *program, fast_cpu_workspace *workspace)
{
    FAST_TRY(fast__alloc("a workspace", program->memory_count - program->shared_count,
                         sizeof(float), &workspace->memory));
    FAST_TRY(fast__alloc("a workspace", program->shared_count, sizeof(float), &workspace->shared));
    FAST_TRY(fast__alloc("a workspace", program->step_count, sizeof(void *), &workspace->locals));
    for (int s = 0; s < program->step_count; s++)
        if (program->steps[s].conv)
            FAST_TRY(fast__conv_local_new(program->steps[s].conv, &workspace->locals[s]));
    return FAST_OK;
}

/* The contract's workspace_new(): one block for all buffers. */
static fast_err cpu_workspace_new(const fast_program *program, fast_workspace **out)
{
    fast_cpu_workspace *workspace = NULL;

    FAST_TRY(fast__alloc("a workspace", 1, sizeof *workspace, &workspace));
    workspace->base.program = program;
    const fast_err err = workspace_fill((const fast_cpu_program *)program, workspace);
    if (err) {
        cpu_workspace_free(&workspace->base);
        return err;
    }
    *out = &workspace->base;
    return FAST_OK;
}

/* The contract's workspace_beside(): the rest is that of the first one. */
static fast_err cpu_workspace_beside(fast_workspace *first, fast_workspace **out)
{
    const fast_cpu_program *program = (const fast_cpu_program *)first->program;
    const fast_cpu_workspace *with = (const fast_cpu_workspace *)first;
    fast_cpu_workspace *workspace = NULL;

    FAST_TRY(fast__alloc("a workspace", 1, sizeof *workspace, &workspace));
    *workspace = (fast_cpu_workspace){
        .base = *first, .shared = with->shared, .locals = with->locals, .beside = true
    };
    const fast_err err = fast__alloc("a workspace", program->memory_count - program->shared_count,
                                     sizeof(float), &workspace->memory);
    if (err) {
        cpu_workspace_free(&workspace->base);
        return err;
    }
    *out = &workspace->base;
    return FAST_OK;
}

/* Copy labels or targets to lanes, compute the loss, and the gradient of the loss. */
static void compute_loss(fast_cpu_run *run)
{
    const fast_cpu_program *program = run->program;
    const fast_graph *graph = run->graph;
    const fast_batch *batch = run->pass->batch;
    const fast_cpu_value *value = &program->values[program->out];
    const int64_t L = run->lanes, K = graph->outputs, positions = graph->positions;
    const float *y = fast__cpu_memory(run, value->data);
    const bool back = run->pass->grad || run->pass->phase == FAST_PASS_FORWARD;
    const bool trains = fast__loss_trains(graph, run->pass);
    float *dy =
        back && !run->pass->outputs_grad && trains ? fast__cpu_memory(run, value->grad) : NULL;
    if (back && !run->pass->outputs_grad && !trains)
        memset(fast__cpu_memory(run, value->grad), 0, (size_t)(value->rows * L) * sizeof(float));
    float *labels = fast__cpu_memory(run, program->soft), *soft = labels + positions * L;
    const double rows = (double)(run->count * positions);
    const float *weights = fast__loss_weights(graph, run->pass);
    const double divisor = fast__loss_divisor(graph, run->pass);
    double sum = 0;
    int64_t correct = 0;

    if (batch->targets)
        program->elem->to_lanes(batch->targets, positions * K, run->count, positions * K, L, soft,
                                L);
    for (int64_t p = 0; p < positions; p++)
        for (int64_t i = 0; i < L && batch->labels; i++)
            labels[p * L + i] = i < run->count ? (float)batch->labels[i * positions + p] : -1.0f;
    if (graph->loss == FAST_LOSS_MSE) {
        program->loss->squared(positions * K, L, run->count, y, soft,
                               (float)(2.0 / (rows * (double)K)), dy, &sum);
        sum /= (double)K;
    }
    if (graph->loss == FAST_LOSS_FIGURES) {
        const int last = graph->node_count - 1;
        fast__cpu_to_samples(run, last, y, soft);
        sum = divisor *
              fast__figures_loss(graph, run->count * positions, soft, &correct, dy ? soft : NULL);
        if (dy)
            fast__cpu_to_lanes(run, last, soft, dy);
    }
    for (int64_t p = 0; p < positions && graph->loss == FAST_LOSS_CROSS_ENTROPY; p++)
        program->loss->cross_entropy(
            K, L, run->count, y + p * K * L, batch->labels ? labels + p * L : NULL,
            batch->targets ? soft + p * K * L : NULL, graph->label_smoothing, weights,
            (float)(1.0 / divisor), dy ? dy + p * K * L : NULL, &sum, &correct);
    run->pass->loss = trains ? sum / divisor : 0;
    run->pass->correct = correct;
    run->pass->positions = run->count * positions;
}

/* Clear and report the gradients of a step that the outputs do not depend on: every range must be
 * reported exactly once, whatever the graph looks like. */
static void back_of_dead(const fast_cpu_run *run, const fast_cpu_step *step)
{
    for (int w = 0; w < FAST_WEIGHTS_MAX; w++) {
        const int64_t segment = run->graph->nodes[step->node].weight[w];
        if (segment < 0)
            continue;
        const fast_segment *s = &run->graph->params.segments[segment];
        memset(run->pass->grad + s->offset, 0, (size_t)s->count * sizeof(float));
        fast__cpu_report(run, step->node, w);
    }
}

/* Add the time since `since` to entry `at`, if a benchmark asks for times. */
static void stamp(const fast_cpu_run *run, int at, int64_t *since)
{
    if (!run->workspace->times)
        return;
    const int64_t now = fast__clock_thread_ns();
    run->workspace->times[at] += now - *since;
    *since = now;
}

/* Announce the weights that a step is about to read, and those of all nodes before it. */
static void announce_weights(const fast_cpu_run *run, const fast_cpu_step *step, int *asked)
{
    const int last = step->last > step->node ? step->last : step->node;
    int64_t offset, count;

    for (; run->pass->need && *asked <= last; ++*asked)
        if (fast__node_params(run->graph, *asked, &offset, &count))
            run->pass->need(run->pass->ctx, offset, count);
}

/* The role of the next step in this part of the pass. */
static fast_part_role role_of(const fast_cpu_run *run, const fast_cpu_step *step, int64_t *met)
{
    const bool exchanges = step->op->offer && run->graph->nodes[step->node].exchange;

    return fast__part_role(run->pass, exchanges, met);
}

/* The forward pass, the outputs and the loss. */
static void run_forward(fast_cpu_run *run, int64_t *since)
{
    const fast_cpu_program *program = run->program;
    const fast_cpu_value *out = &program->values[program->out];
    fast_pass *pass = run->pass;
    int asked = 0; /* nodes whose weights were announced */
    int64_t met = 0;

    for (int s = 0; s < program->step_count; s++) {
        const fast_cpu_step *step = &program->steps[s];
        const fast_part_role role = role_of(run, step, &met);
        if (role == FAST_PART_STOP) {
            step->op->offer(run, step, false, &pass->due);
            return;
        }
        if (role == FAST_PART_SKIP)
            continue;
        announce_weights(run, step, &asked);
        step->op->forward(run, step);
        stamp(run, s, since);
    }
    if (pass->outputs)
        program->elem->from_lanes(fast__cpu_memory(run, out->data), run->lanes, out->rows,
                                  run->count, pass->outputs, out->rows);
    pass->loss = NAN;
    pass->correct = pass->positions = 0;
    pass->head_loss = run->head_loss;
    if (pass->batch->labels || pass->batch->targets) {
        pass->loss = 0;
        if (program->base.graph->loss_use != FAST_LOSS_ELSEWHERE)
            compute_loss(run);
        pass->loss += run->head_loss;
    }
    stamp(run, program->step_count, since);
}

/* Announce the weights that the backward pass of a step is about to read, if that is asked for:
 * those of its nodes, and of the convolution whose bias it adds. */
static void announce_again(const fast_cpu_run *run, const fast_cpu_step *step)
{
    const int last = step->last > step->node ? step->last : step->node;
    int64_t offset, count;

    if (!run->pass->need || !run->pass->need_again)
        return;
    for (int n = last; n >= step->node; n--)
        if (fast__node_params(run->graph, n, &offset, &count))
            run->pass->need(run->pass->ctx, offset, count);
    if (step->bias >= 0 && fast__node_params(run->graph, step->bias, &offset, &count))
        run->pass->need(run->pass->ctx, offset, count);
}

/* Compute the steps of the segment that ends with step `last` again, where that is wanted. */
static void compute_again(fast_cpu_run *run, int last, int64_t *since)
{
    const fast_cpu_step *steps = run->program->steps;
    int s = last;

    while (s > 0 && steps[s - 1].segment == steps[last].segment)
        s--;
    run->again = true;
    for (; s <= last; s++) {
        if (!steps[s].again)
            continue;
        announce_again(run, &steps[s]);
        steps[s].op->forward(run, &steps[s]);
        stamp(run, s, since);
    }
    run->again = false;
}

/* The backward pass: all of it. */
static void run_backward(fast_cpu_run *run, int64_t *since)
{
    const fast_cpu_program *program = run->program;
    int64_t met = 0;

    for (int s = program->step_count - 1; s >= 0; s--) {
        const fast_cpu_step *step = &program->steps[s];
        const fast_part_role role = role_of(run, step, &met);
        if (role == FAST_PART_SKIP)
            continue;
        if (role != FAST_PART_RESUME &&
            (s + 1 == program->step_count || step[1].segment != step->segment))
            compute_again(run, s, since);
        if (role == FAST_PART_STOP && step->train)
            step->op->offer(run, step, true, &run->pass->due);
        if (role == FAST_PART_STOP)
            return;
        announce_again(run, step);
        if (step->train)
            step->op->backward(run, step);
        else if (step->op != &fast__cpu_permute)
            back_of_dead(run, step);
        stamp(run, 2 * program->step_count - s, since);
    }
}

/* First half of a divided backward pass: gradients of values. A step that computes those of its
 * weights with them leaves these in a buffer. A step that has weights and no gradient of an input
 * to compute has its whole backward pass in the second half. */
static void run_inputs(fast_cpu_run *run)
{
    const fast_cpu_program *program = run->program;
    int64_t count, met = 0;

    for (int s = program->step_count - 1; s >= 0; s--) {
        const fast_cpu_step *step = &program->steps[s];
        const fast_part_role role = role_of(run, step, &met);
        if (step->train && step->grad >= 0) {
            (void)fast__cpu_step_params(run->graph, step, &run->grad_first, &count);
            run->grad = fast__cpu_memory(run, step->grad);
        }
        if (role == FAST_PART_STOP && step->train && !step->late)
            step->op->offer(run, step, true, &run->pass->due);
        if (role == FAST_PART_STOP)
            return;
        if (role == FAST_PART_SKIP || !step->train)
            continue;
        if (step->op->inputs)
            step->op->inputs(run, step);
        else if (!step->late)
            step->op->backward(run, step);
    }
}

/* Second half of a divided backward pass: gradients of weights. */
static void run_weights(fast_cpu_run *run)
{
    const fast_cpu_program *program = run->program;
    int64_t offset, count, met = 0;

    for (int s = program->step_count - 1; s >= 0; s--) {
        const fast_cpu_step *step = &program->steps[s];
        const fast_part_role role = role_of(run, step, &met);
        if (role == FAST_PART_STOP && step->late)
            step->op->offer(run, step, true, &run->pass->due);
        if (role == FAST_PART_STOP)
            return;
        if (role == FAST_PART_SKIP)
            continue;
        if (!step->train && step->op != &fast__cpu_permute) {
            back_of_dead(run, step);
        } else if (step->late) {
            (step->op->weights ? step->op->weights : step->op->backward)(run, step);
        } else if (step->train && step->grad >= 0) {
            (void)fast__cpu_step_params(run->graph, step, &offset, &count);
            memcpy(run->pass->grad + offset, fast__cpu_memory(run, step->grad),
                   (size_t)count * sizeof(float));
            fast__cpu_report_range(run, offset, count);
        }
    }
}

/* The contract's run(): forward, outputs, loss, backward. */
static fast_err cpu_run(const fast_program *base, fast_workspace *memory, fast_pass *pass)
{
    const fast_cpu_program *program = (const fast_cpu_program *)base;
    fast_cpu_workspace *workspace = (fast_cpu_workspace *)memory;
    const fast_graph *graph = base->graph;

    FAST_ASSERT(memory->program == base);
    FAST_ASSERT(pass->state != NULL || graph->state.count == 0);
    FAST_TRY(fast__pass_check(graph, program->base.batch, program->train, pass));
    FAST_ASSERT(program->phases & FAST_CPU_DIVIDED || pass->phase < FAST_PASS_INPUTS);
    fast_cpu_run run = { .program = program,
                         .workspace = workspace,
                         .pass = pass,
                         .graph = graph,
                         .lanes = program->lanes,
                         .count = pass->batch->count,
                         .grad = pass->grad };

    fast__gemm_setup();
    pass->due.node = 0;
    int64_t since = workspace->times ? fast__clock_thread_ns() : 0;
    if (pass->phase == FAST_PASS_WHOLE || pass->phase == FAST_PASS_FORWARD)
        run_forward(&run, &since);
    if ((pass->grad || pass->phase == FAST_PASS_INPUTS) && pass->phase != FAST_PASS_WEIGHTS &&
        pass->outputs_grad && pass->part == 0) {
        const fast_cpu_value *out = &program->values[program->out];
        program->elem->to_lanes(pass->outputs_grad, out->rows, run.count, out->rows, run.lanes,
                                fast__cpu_memory(&run, out->grad), run.lanes);
    }
    if (pass->phase == FAST_PASS_INPUTS)
        run_inputs(&run);
    else if (pass->phase == FAST_PASS_WEIGHTS)
        run_weights(&run);
    else if (pass->grad)
        run_backward(&run, &since);
    return FAST_OK;
}

/* The contract's describe(): the note of a node's step. */
static const char *cpu_describe(const fast_program *base, int node)
{
    const fast_cpu_program *program = (const fast_cpu_program *)base;

    if (node < 0 || node >= base->graph->node_count)
        return NULL;
    const int step = program->step_of[node];
    return step < 0 ? "fused" : program->steps[step].note;
}

/* The libraries of this build that compute products and convolutions. */
#if defined(FAST_HAVE_ONEDNN) && defined(FAST_HAVE_XSMM) && defined(FAST_HAVE_BLAS)
#define LIBRARIES "oneDNN, libxsmm and OpenBLAS, "
#elif defined(FAST_HAVE_XSMM)
#define LIBRARIES "libxsmm, "
#else
#define LIBRARIES "own kernels, "
#endif

const fast_engine fast__engine_cpu = {
    .name = "cpu",
    .summary = LIBRARIES "batch innermost",
    .compile = cpu_compile,
    .program_free = cpu_program_free,
    .workspace_new = cpu_workspace_new,
    .workspace_free = cpu_workspace_free,
    .workspace_beside = cpu_workspace_beside,
    .run = cpu_run,
    .describe = cpu_describe,
};
