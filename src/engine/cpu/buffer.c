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
 * Gradients: the backward pass visits the readers of a value in reverse; the first one writes its
 * gradient, later ones add. Two cases save a pass over memory: a residual sum leaves the gradient
 * of one input in the buffer of its output's gradient, and a convolution, which can only overwrite,
 * writes a second summand for a source that adds two.
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
    return fast__cpu_buffer_new(compile, step->train ? count : 0, back, back, out);
}

/* Alive from the step's forward pass to its backward pass. */
fast_err fast__cpu_saved(fast_cpu_compile *compile, fast_cpu_step *step, int64_t count, int *out)
{
    const int end = step->train ? fast__cpu_back(compile->program, step) : step->index;
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
            if (k == 0 && step->op->alias == i)
                step->how[i] = FAST_CPU_ALIAS;
            if (k == 1 && total[v] == 2 && step->op->overwrites && source->sums)
                step->how[i] = FAST_CPU_SECOND;
        }
    }
}

/* Allocate a gradient's buffer: it lives from its first contribution to its source's backward
 * pass. */
static fast_err place_gradient(fast_cpu_compile *compile, const fast_cpu_step *step, int i)
{
    fast_cpu_program *program = compile->program;
    fast_cpu_value *value = &program->values[step->in[i]];
    const int begin = fast__cpu_back(program, step);
    const int end = fast__cpu_back(program, &program->steps[value->source]);
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
        end = fast__cpu_back(program, source);
    for (int s = 0; s < program->step_count; s++)
        for (int i = 0; i < program->steps[s].in_count; i++) {
            const fast_cpu_step *step = &program->steps[s];
            if (step->in[i] != v)
                continue;
            const bool back = step->train && step->op->reads_input;
            const int time = back ? fast__cpu_back(program, step) : s;
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
    for (int v = 0; v < program->value_count; v++)
        FAST_TRY(place_value(compile, v));
    if (!program->train)
        return FAST_OK;
    /* The loss writes the first gradient. */
    fast_cpu_value *out = &program->values[program->out];
    FAST_TRY(fast__cpu_buffer_new(compile, out->rows * program->lanes, program->step_count,
                                  fast__cpu_back(program, &program->steps[out->source]),
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
            if (!placed[i] ||
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

/* Greedy by size. Cost: O(n^2) comparisons a placement for n buffers, n^3 in all, which is
 * milliseconds for a deep network. */
fast_err fast__cpu_buffers_place(fast_cpu_program *program)
{
    bool *placed = NULL;

    FAST_TRY(fast__alloc("buffers", program->buffer_count, sizeof *placed, &placed));
    for (int n = 0; n < program->buffer_count; n++) {
        int best = -1;
        for (int i = 0; i < program->buffer_count; i++)
            if (!placed[i] &&
                (best < 0 || program->buffers[i].count > program->buffers[best].count))
                best = i;
        fast_cpu_buffer *b = &program->buffers[best];
        b->offset = lowest(program, placed, b);
        placed[best] = true;
        if (program->memory_count < b->offset + b->count)
            program->memory_count = b->offset + b->count;
    }
    fast__free(placed);
    return FAST_OK;
}
