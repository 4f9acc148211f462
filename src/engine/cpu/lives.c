/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recomputation in a cpu program: which steps run twice, and how long buffers live then.
 *
 *     time     forward 0 1 2 3 4 5 | loss | back 5 4 | again 2 3, back 3 2 | again 0 1, back 1 0
 *     y1       |===============================================================|    crosses a cut
 *     y2           |=|                             |=========|              stored for the backward
 *                                                                           pass: two lives
 *
 * The first segments are recomputed; the last one never, since its backward pass follows at once. A
 * buffer of a recomputed step lives twice at one address: while the forward pass needs it, and from
 * its recomputation on. A value that a step of another segment reads is stored all the time. Steps
 * of which nothing is needed again are not computed again. What a step has exchanged with other
 * shards is stored all the time, and it is computed again from that.
 *
 * Which segments: `sqrt` cuts n steps into ceil(sqrt(n)) segments. For a budget all numbers of
 * segments up to twice that, and of recomputed ones, are compared: the fewest operations whose
 * memory fits. The largest sum of buffers that live at one time stands for the memory until a
 * choice is placed.
 */
#include "engine/recompute.h"

#include "base/memory.h"
#include "engine/cpu/cpu.h"

#include <math.h>
#include <string.h>

/* The work of choosing. Arrays are by step, but for `plain` and `data`. */
typedef struct recompute_search {
    fast_cpu_program *program;
    fast_cpu_buffer *plain; /* the buffers without recomputation */
    int *data;              /* by buffer: the value that it holds, or -1 */
    int64_t *size;          /* floats that are stored for the backward pass */
    int64_t *crossing;      /* floats of values that are read after the step */
    double *flops;          /* of a sample's forward pass, as textbooks count */
    double *work;           /* the same, with what elementwise operators take */
    int *segment;           /* number of its segment */
    int *again;             /* time at which it is computed again */
    int *back;              /* time of its backward pass */
    bool *saves;            /* its own buffers are stored for the backward pass */
} recompute_search;

/* A choice. */
typedef struct recompute_choice {
    int segments;  /* number of segments; 1: no recomputation */
    int first;     /* segments that are recomputed, from the first on */
    int64_t count; /* floats that live at one time at most */
    double flops;  /* that are computed again, of a sample */
    double work;   /* the same, with elementwise operators */
} recompute_choice;

/* Is value v read after the end of its segment? */
static bool crosses_cut(const recompute_search *r, int v)
{
    const fast_cpu_program *p = r->program;
    const int segment = r->segment[p->values[v].source];

    if (v == p->out)
        return true;
    for (int s = 0; s < p->step_count; s++)
        for (int i = 0; i < p->steps[s].in_count; i++)
            if (p->steps[s].in[i] == v && r->segment[s] != segment)
                return true;
    return false;
}

/* Does the backward pass read value v? */
static bool is_read_back(const recompute_search *r, int v)
{
    const fast_cpu_program *p = r->program;

    return r->plain[p->values[v].data].end > p->step_count;
}

/* Is a step computed again? Later steps of its segment are decided. */
static bool is_again(const recompute_search *r, const recompute_choice *c, int s)
{
    const fast_cpu_program *p = r->program;
    const int v = p->steps[s].out;

    if (r->segment[s] >= c->first)
        return false;
    /* Masks, statistics and probabilities are stored beside the output: one step writes both. */
    if (r->saves[s])
        return true;
    if (crosses_cut(r, v))
        return false;
    if (is_read_back(r, v))
        return true;
    for (int t = s + 1; t < p->step_count && r->segment[t] == r->segment[s]; t++)
        for (int i = 0; i < p->steps[t].in_count; i++)
            if (p->steps[t].in[i] == v && p->steps[t].again)
                return true;
    return false;
}

/* Write the times of all steps: back, and again for steps of recomputed segments. */
static void set_times(const recompute_search *r, const recompute_choice *c)
{
    fast_cpu_program *p = r->program;
    int time = p->step_count;

    for (int s = p->step_count - 1; s >= 0; s--)
        p->steps[s].again = is_again(r, c, s);
    for (int s = p->step_count - 1; s >= 0; s--) {
        if (s + 1 == p->step_count || r->segment[s + 1] != r->segment[s]) {
            int first = s;

            while (first > 0 && r->segment[first - 1] == r->segment[s])
                first--;
            for (int t = first; t <= s; t++)
                if (p->steps[t].again)
                    r->again[t] = ++time;
        }
        r->back[s] = ++time;
    }
}

/* A time of the plain program on the new axis. */
static int time_of(const recompute_search *r, int time)
{
    const int S = r->program->step_count;

    return time <= S ? time : r->back[2 * S - time];
}

/* The lives of a value's buffer. */
static void set_value(const recompute_search *r, int v, fast_cpu_buffer *b)
{
    const fast_cpu_program *p = r->program;
    const int s = p->values[v].source;
    const bool twice = p->steps[s].again && !crosses_cut(r, v);
    int forward = s, again = p->steps[s].again ? r->again[s] : -1;

    for (int t = 0; t < p->step_count; t++)
        for (int i = 0; i < p->steps[t].in_count; i++)
            if (p->steps[t].in[i] == v) {
                forward = t > forward ? t : forward;
                if (p->steps[t].again && r->again[t] > again)
                    again = r->again[t];
            }
    if (b->end > again)
        again = b->end;
    /* A value that crosses a cut is written a second time, with the same bits, where its step has
     * something else to compute again: it must still live then. */
    if (twice) {
        b->end = forward;
        b->again_begin = r->again[s];
        b->again_end = again;
    } else if (again > b->end) {
        b->end = again;
    }
}

/* Set the lives of all buffers for a choice. */
static void set_lives(const recompute_search *r, const recompute_choice *c)
{
    fast_cpu_program *p = r->program;

    set_times(r, c);
    for (int i = 0; i < p->buffer_count; i++) {
        fast_cpu_buffer *b = &p->buffers[i];

        *b = r->plain[i];
        b->begin = time_of(r, b->begin);
        b->end = time_of(r, b->end);
        if (r->data[i] >= 0) {
            set_value(r, r->data[i], b);
            continue;
        }
        /* Stored for the backward pass, or scratch of the forward pass: both belong to the step at
         * which they begin. Gradients and scratch of the backward pass begin after the loss. */
        const int s = r->plain[i].begin;
        if (s >= p->step_count || !p->steps[s].again)
            continue;
        if (p->base.graph->nodes[p->steps[s].node].exchange && b->end > p->step_count)
            continue;
        b->again_begin = r->again[s];
        b->again_end = r->plain[i].end > p->step_count ? b->end : r->again[s];
        b->end = s;
    }
}

/* Evaluate a choice whose segments are set. */
static void evaluate(const recompute_search *r, recompute_choice *c)
{
    const fast_cpu_program *p = r->program;
    const int end = 3 * p->step_count;

    set_lives(r, c);
    c->count = 0;
    c->flops = c->work = 0;
    for (int s = 0; s < p->step_count; s++) {
        c->flops += p->steps[s].again ? r->flops[s] : 0;
        c->work += p->steps[s].again ? r->work[s] : 0;
    }
    for (int t = 0; t <= end; t++) {
        int64_t live = 0;

        for (int i = 0; i < p->buffer_count; i++) {
            const fast_cpu_buffer *b = &p->buffers[i];

            if ((b->begin <= t && t <= b->end) || (b->again_begin <= t && t <= b->again_end))
                live += b->count;
        }
        c->count = live > c->count ? live : c->count;
    }
}

/* Set the segments of a choice, its lives and its figures. */
static void take(const recompute_search *r, recompute_choice *c)
{
    fast__recompute_cut(r->program->step_count, r->size, r->crossing, c->segments, r->segment);
    evaluate(r, c);
}

/* Place the buffers of a choice; its memory is program->memory_count. */
static fast_err place(const recompute_search *r, recompute_choice *c)
{
    take(r, c);
    r->program->memory_count = 0;
    r->program->base.flops_again = c->flops;
    r->program->base.segments = c->first > 0 ? c->segments : 0;
    return fast__cpu_buffers_place(r->program);
}

/* Is a better than b? Less work among those that fit, less memory among the others. */
static bool is_better(const recompute_choice *a, const recompute_choice *b, int64_t limit)
{
    if ((a->count <= limit) != (b->count <= limit))
        return a->count <= limit;
    if (a->count > limit)
        return a->count < b->count;
    return a->work < b->work || (a->work <= b->work && a->count < b->count);
}

/* The best choice whose live buffers are at most `limit` floats; else the smallest. */
static recompute_choice search(const recompute_search *r, int64_t limit)
{
    const int most = 2 * fast__recompute_segments(r->program->step_count);
    recompute_choice best = { .segments = 1 };

    take(r, &best);
    for (int k = 2; k <= most; k++)
        for (int first = 1; first < k; first++) {
            recompute_choice c = { .segments = k, .first = first };

            take(r, &c);
            if (is_better(&c, &best, limit))
                best = c;
        }
    return best;
}

/* Place the choice with the fewest operations that fits `limit` floats. Placing needs somewhat more
 * than the live buffers: where it does not fit the next try has a smaller limit. */
static fast_err fit(const recompute_search *r, int64_t limit)
{
    int64_t lower = limit, smallest = INT64_MAX;

    for (;;) {
        recompute_choice c = search(r, lower);

        FAST_TRY(place(r, &c));
        if (r->program->memory_count < smallest)
            smallest = r->program->memory_count;
        if (r->program->memory_count <= limit)
            return FAST_OK;
        if (c.count > lower)
            break; /* the smallest of all */
        lower = c.count - 1;
    }
    r->program->base.memory_least = smallest * (int64_t)sizeof(float);
    return FAST_OK;
}

/* Floats that cross each step, and that each step stores for the backward pass. */
static void measure(const recompute_search *r)
{
    const fast_cpu_program *p = r->program;

    for (int i = 0; i < p->buffer_count; i++) {
        const fast_cpu_buffer *b = &r->plain[i];

        if (b->begin >= p->step_count || b->end <= p->step_count)
            continue;
        r->size[b->begin] += b->count;
        r->saves[b->begin] = r->saves[b->begin] || r->data[i] < 0;
    }
    for (int v = 0; v < p->value_count; v++) {
        int last = p->values[v].source;

        for (int s = 0; s < p->step_count; s++)
            for (int i = 0; i < p->steps[s].in_count; i++)
                last = p->steps[s].in[i] == v && s > last ? s : last;
        for (int s = p->values[v].source; s < last; s++)
            r->crossing[s] += p->values[v].rows * p->lanes;
    }
    for (int s = 0; s < p->step_count; s++) {
        r->flops[s] = fast__node_flops_forward(p->base.graph, p->steps[s].node);
        r->work[s] = fast__recompute_work(p->base.graph, p->steps[s].node);
    }
}

/* Take the memory of a search. */
static fast_err open_search(fast_cpu_program *p, recompute_search *r)
{
    const int64_t steps = p->step_count;

    r->program = p;
    FAST_TRY(fast__alloc("lives of buffers", p->buffer_count, sizeof *r->plain, &r->plain));
    FAST_TRY(fast__alloc("lives of buffers", p->buffer_count, sizeof *r->data, &r->data));
    FAST_TRY(fast__alloc("recomputation", steps, sizeof *r->size, &r->size));
    FAST_TRY(fast__alloc("recomputation", steps, sizeof *r->crossing, &r->crossing));
    FAST_TRY(fast__alloc("recomputation", steps, sizeof *r->flops, &r->flops));
    FAST_TRY(fast__alloc("recomputation", steps, sizeof *r->work, &r->work));
    FAST_TRY(fast__alloc("recomputation", steps, sizeof *r->segment, &r->segment));
    FAST_TRY(fast__alloc("recomputation", steps, sizeof *r->again, &r->again));
    FAST_TRY(fast__alloc("recomputation", steps, sizeof *r->back, &r->back));
    FAST_TRY(fast__alloc("recomputation", steps, sizeof *r->saves, &r->saves));
    for (int i = 0; i < p->buffer_count; i++) {
        r->plain[i] = p->buffers[i];
        r->data[i] = -1;
    }
    for (int v = 0; v < p->value_count; v++)
        r->data[p->values[v].data] = v;
    measure(r);
    return FAST_OK;
}

/* Free the memory of a search. One that failed half-way has some of it: the rest is NULL, which may
 * be freed. The program retains the choice alone: the lives of its buffers and, of each step, the
 * segment and whether it is computed again. */
static void close_search(recompute_search *r)
{
    fast__free(r->plain);
    fast__free(r->data);
    fast__free(r->size);
    fast__free(r->crossing);
    fast__free(r->flops);
    fast__free(r->work);
    fast__free(r->segment);
    fast__free(r->again);
    fast__free(r->back);
    fast__free(r->saves);
}

fast_err fast__cpu_recompute(fast_cpu_compile *compile)
{
    const fast_engine_options *o = compile->options;
    recompute_search r = { 0 };
    fast_err err = open_search(compile->program, &r);

    if (!err && o->memory > 0) {
        err = fit(&r, o->memory / (int64_t)sizeof(float));
    } else if (!err) {
        const int segments = fast__recompute_segments(compile->program->step_count);
        recompute_choice c = { .segments = segments, .first = segments - 1 };

        err = place(&r, &c);
    }
    for (int s = 0; !err && s < compile->program->step_count; s++)
        compile->program->steps[s].segment = r.segment[s];
    close_search(&r);
    return err;
}
