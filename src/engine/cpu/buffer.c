/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory layout of a workspace. Every buffer is alive during an interval of time; buffers whose
 * intervals do not overlap may share memory. Placement is greedy: largest first, at the lowest
 * offset that no placed buffer alive at that time uses. For the chain of buffers of a network this
 * is within a few percent of the largest sum of live buffers, and reused memory is still in cache.
 *
 *     time      0    1    2    S    ...                 S: the loss; step s runs back at 2 S - s
 *     y0        |==============================|         read by the backward pass of step 1
 *     y1             |====|                              not needed backward: freed early
 *     scratch             ||                             one step's own
 *     dy                       |===|                     from its first writer to its source
 *
 * In a divided backward pass what the gradients of weights read lives until the second half, where
 * step s is at 3 S - s. Scratch of a step that has a part in both has two lives; gradients of
 * weights that are there too early wait:
 *
 *     time      0    1    2    S    2S - 1    2S    3S - 1    3S
 *     x, dy of step 1               |===================|         a dense layer
 *     scratch                        ||                 ||
 *     its dx                         |======|                     of no weights: as above
 *     dw, db of step 0                      |=================|   a norm: both gradients at once
 *
 * Gradients: the backward pass visits the readers of a value in reverse; the first one writes its
 * gradient, later ones add. Two cases save a pass over memory: a residual sum leaves the gradient
 * of one input in the buffer of its output's gradient, and a convolution, which can only overwrite,
 * writes a second summand for a source that adds two. A batch norm without a sum writes the
 * gradient of its input over that of its output: no other lines enter the cache.
 */
#include "base/memory.h"
#include "engine/cpu/cpu.h"

/* Add a buffer that is in use from time `begin` to `end`, rounded up to whole vectors; an empty
 * one gets a vector, so that every buffer has an address. */
fast_err fast__cpu_buffer_new(fast_cpu_compile *compile, int64_t count, int begin, int end,
                              int *out)
{
    fast_cpu_program *program = compile->program;

    FAST_ASSERT(count >= 0);
    FAST_ASSERT(begin <= end);
    if (program->buffer_count == program->buffer_max) {
        const int max = program->buffer_max ? program->buffer_max * 2 : 64;
        fast_cpu_buffer *more;
        FAST_TRY(fast__alloc("buffers of a program", max, sizeof *more, &more));
        for (int i = 0; i < program->buffer_count; i++)
            more[i] = program->buffers[i];
        fast__free(program->buffers);
        program->buffers = more;
        program->buffer_max = max;
    }
    const int64_t whole = (count + FAST_VEC - 1) / FAST_VEC * FAST_VEC;
    program->buffers[program->buffer_count] = (fast_cpu_buffer){
        .count = whole ? whole : FAST_VEC, .begin = begin, .end = end, .again_begin = 1
    };
    *out = program->buffer_count++;
    return FAST_OK;
}

/* Alive during the step's forward pass alone. */
fast_err fast__cpu_scratch_forward(fast_cpu_compile *compile, fast_cpu_step *step, int64_t count,
                                   int *out)
{
    return fast__cpu_buffer_new(compile, count, step->index, step->index, out);
}

/* Alive during the step's backward pass alone; minimal if there is no such pass. */
fast_err fast__cpu_scratch_back(fast_cpu_compile *compile, fast_cpu_step *step, int64_t count,
                                int *out)
{
    const int back = fast__cpu_back(compile->program, step);

    FAST_TRY(fast__cpu_buffer_new(compile, step->train ? count : 0, back, back, out));
    if (step->late) {
        fast_cpu_buffer *buffer = &compile->program->buffers[*out];
        buffer->again_begin = buffer->again_end = fast__cpu_back_end(compile->program, step);
    }
    return FAST_OK;
}

/* Alive from the step's backward pass to the second half of a divided one. */
fast_err fast__cpu_between(fast_cpu_compile *compile, fast_cpu_step *step, int64_t count, int *out)
{
    return fast__cpu_buffer_new(compile, step->train ? count : 0,
                                fast__cpu_back(compile->program, step),
                                fast__cpu_back_end(compile->program, step), out);
}

/* Alive from the step's forward pass to its backward pass. */
fast_err fast__cpu_saved(fast_cpu_compile *compile, fast_cpu_step *step, int64_t count, int *out)
{
    const int end = step->train ? fast__cpu_back_end(compile->program, step) : step->index;
    return fast__cpu_buffer_new(compile, count, step->index, end, out);
}

/* Decide how each step writes the gradients of its inputs; contributions in order of time. */
static void choose_how(fast_cpu_compile *compile, int *total, int *done)
{
    fast_cpu_program *program = compile->program;

    for (int s = 0; s < program->step_count; s++)
        for (int i = 0; i < program->steps[s].in_count; i++)
            total[program->steps[s].in[i]] += program->train && !program->steps[s].dead;
    for (int s = program->step_count - 1; s >= 0; s--) {
        fast_cpu_step *step = &program->steps[s];
        for (int i = 0; i < step->in_count; i++) {
            const int v = step->in[i];
            const fast_cpu_op *source = program->steps[program->values[v].source].op;
            step->how[i] = FAST_CPU_SKIP;
            if (!step->train || !program->values[v].needs)
                continue;
            const int k = done[v]++;
            step->how[i] = k ? FAST_CPU_ADD : FAST_CPU_WRITE;
            if (k == 0 && (step->op->alias == i || (step->op->in_place && step->in_count == 1)))
                step->how[i] = FAST_CPU_ALIAS;
            if (k == 1 && total[v] == 2 && step->op->overwrites && source->sums)
                step->how[i] = FAST_CPU_SECOND;
        }
    }
}

bool fast__cpu_step_params(const fast_graph *graph, const fast_cpu_step *step, int64_t *offset_out,
                           int64_t *count_out)
{
    if (step->bias < 0)
        return fast__node_params(graph, step->node, offset_out, count_out);
    const fast_segment *bias =
        &graph->params.segments[graph->nodes[step->bias].weight[FAST_W_BIAS]];
    *offset_out = bias->offset;
    *count_out = bias->count;
    return true;
}

/* Find the steps that have a part in the second half of a divided backward pass: those whose
 * weights take products of their own, and those that only have weights. Others leave the gradients
 * of their weights in a buffer. */
static fast_err choose_late(fast_cpu_compile *compile)
{
    fast_cpu_program *program = compile->program;
    int64_t offset, count;

    for (int s = 0; s < program->step_count; s++) {
        fast_cpu_step *step = &program->steps[s];
        bool asks = false;

        step->grad = -1;
        /* A permutation has the node of the step before it, and none of its weights. */
        if (!(program->phases & FAST_CPU_DIVIDED) || !step->train ||
            step->op == &fast__cpu_permute ||
            !fast__cpu_step_params(compile->graph, step, &offset, &count))
            continue;
        for (int i = 0; i < step->in_count; i++)
            asks = asks || step->how[i] != FAST_CPU_SKIP;
        step->late = step->op->weights || !asks;
        if (step->op->weights)
            program->base.flops_weights += fast__node_flops_weights(compile->graph, step->node);
        else if (!asks)
            program->base.flops_weights +=
                fast__node_flops_backward(compile->graph, step->node, false);
        else
            FAST_TRY(fast__cpu_buffer_new(compile, count, fast__cpu_back(program, step),
                                          fast__cpu_back(program, step) + program->step_count,
                                          &step->grad));
    }
    return FAST_OK;
}

/* Allocate a gradient's buffer: it lives from its first contribution to its source's backward
 * pass. */
static fast_err place_gradient(fast_cpu_compile *compile, const fast_cpu_step *step, int i)
{
    fast_cpu_program *program = compile->program;
    fast_cpu_value *value = &program->values[step->in[i]];
    const int begin = fast__cpu_back(program, step);
    const int end = fast__cpu_back_end(program, &program->steps[value->source]);
    const int64_t count = value->rows * program->lanes;

    switch (step->how[i]) {
    case FAST_CPU_WRITE:
        return fast__cpu_buffer_new(compile, count, begin, end, &value->grad);
    case FAST_CPU_SECOND:
        return fast__cpu_buffer_new(compile, count, begin, end, &value->grad2);
    case FAST_CPU_ALIAS:
        value->grad = program->values[step->out].grad;
        if (program->buffers[value->grad].end < end)
            program->buffers[value->grad].end = end;
        return FAST_OK;
    default:
        return FAST_OK;
    }
}

/* Allocate a value's buffer: it lives from its source to the last step that reads it, in either
 * pass. */
static fast_err place_value(fast_cpu_compile *compile, int v)
{
    fast_cpu_program *program = compile->program;
    fast_cpu_value *value = &program->values[v];
    const fast_cpu_step *source = &program->steps[value->source];
    int end = value->source;

    if (v == program->out)
        end = program->step_count;
    if (source->train && source->op->reads_output)
        end = fast__cpu_back_end(program, source);
    for (int s = 0; s < program->step_count; s++)
        for (int i = 0; i < program->steps[s].in_count; i++) {
            const fast_cpu_step *step = &program->steps[s];
            if (step->in[i] != v)
                continue;
            const bool back = step->train && step->op->reads_input;
            const int time = back ? fast__cpu_back_end(program, step) : s;
            end = time > end ? time : end;
        }
    return fast__cpu_buffer_new(compile, value->rows * program->lanes, value->source, end,
                                &value->data);
}

/* Give every value a buffer, then walk the steps backwards and decide for each input whether its
 * gradient is written, added, left in place or a second summand. */
fast_err fast__cpu_gradients(fast_cpu_compile *compile)
{
    fast_cpu_program *program = compile->program;
    int *counts = NULL;

    FAST_TRY(fast__alloc("gradients", program->value_count * 2, sizeof *counts, &counts));
    choose_how(compile, counts, counts + program->value_count);
    fast__free(counts);
    FAST_TRY(choose_late(compile));
    for (int v = 0; v < program->value_count; v++)
        FAST_TRY(place_value(compile, v));
    if (!program->train)
        return FAST_OK;
    /* The loss writes the first gradient. */
    fast_cpu_value *out = &program->values[program->out];
    FAST_TRY(fast__cpu_buffer_new(compile, out->rows * program->lanes, program->step_count,
                                  fast__cpu_back_end(program, &program->steps[out->source]),
                                  &out->grad));
    for (int s = program->step_count - 1; s >= 0; s--)
        for (int i = 0; i < program->steps[s].in_count; i++)
            FAST_TRY(place_gradient(compile, &program->steps[s], i));
    return FAST_OK;
}

/* Do two lives have a time in common? The second may be none. */
static bool overlaps(int begin, int end, const fast_cpu_buffer *b)
{
    return begin <= end &&
           ((b->begin <= end && begin <= b->end) ||
            (b->again_begin <= b->again_end && b->again_begin <= end && begin <= b->again_end));
}

/* Return the lowest offset at which buffer b overlaps no placed buffer that is alive with it. */
static int64_t lowest(const fast_cpu_program *program, const bool *placed, const fast_cpu_buffer *b)
{
    int64_t offset = 0;

    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < program->buffer_count; i++) {
            const fast_cpu_buffer *o = &program->buffers[i];
            if (!placed[i] || o->shared != b->shared ||
                (!overlaps(b->begin, b->end, o) && !overlaps(b->again_begin, b->again_end, o)))
                continue;
            if (o->offset < offset + b->count && offset < o->offset + o->count) {
                offset = o->offset + o->count;
                moved = true;
            }
        }
    }
    return offset;
}

/* Does a life last from one phase to a later one? Phases end with the loss, and with the first half
 * of a divided backward pass. */
static bool crosses_phases(const fast_cpu_program *program, int begin, int end)
{
    const int loss = program->step_count, half = 2 * program->step_count;

    return begin <= end && ((begin <= loss && end > loss) ||
                            (program->phases & FAST_CPU_DIVIDED && begin <= half && end > half));
}

/* Set which buffers are shared. The input that a phase is given again is in a buffer of its own. */
static void choose_shared(fast_cpu_program *program)
{
    for (int i = 0; program->phases & FAST_CPU_FLIGHT && i < program->buffer_count; i++) {
        fast_cpu_buffer *b = &program->buffers[i];

        b->shared = !crosses_phases(program, b->begin, b->end) &&
                    !crosses_phases(program, b->again_begin, b->again_end);
    }
}

/* Greedy by size. Cost: O(n^2) comparisons a placement for n buffers, n^3 in all, which is
 * milliseconds for a deep network. */
fast_err fast__cpu_buffers_place(fast_cpu_program *program)
{
    bool *placed = NULL;

    FAST_TRY(fast__alloc("buffers", program->buffer_count, sizeof *placed, &placed));
    int64_t counts[2] = { program->memory_count, 0 }; /* of buffers of its own, and shared ones */
    choose_shared(program);
    for (int n = 0; n < program->buffer_count; n++) {
        int best = -1;
        for (int i = 0; i < program->buffer_count; i++)
            if (!placed[i] &&
                (best < 0 || program->buffers[i].count > program->buffers[best].count))
                best = i;
        fast_cpu_buffer *b = &program->buffers[best];
        b->offset = lowest(program, placed, b);
        placed[best] = true;
        if (counts[b->shared] < b->offset + b->count)
            counts[b->shared] = b->offset + b->count;
    }
    program->shared_count = counts[true];
    program->memory_count = counts[false] + counts[true];
    fast__free(placed);
    return FAST_OK;
}
