/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From nodes to steps. A step takes a node and its only reader, if one pass over memory can do
 * both:
 *
 *     dense, conv + activation                 the activation's derivative follows from the output
 *     conv + max_pool + relu, either order     max(x) + b = max(x + b): the pooling adds the bias,
 *                                              and saves one byte per output for the backward pass
 *     max_pool + relu, relu + max_pool
 *     batch_norm + relu, + add, + add + relu
 *
 * For example, a small network of nine nodes is five steps:
 *
 *     nodes   input | conv  max_pool  relu | flatten | dense  relu | dense | loss
 *     steps   input | conv | max_pool + bias + relu  | dense + relu | dense
 *
 * A flatten whose rows are already in order is no step: a pooling whose readers all flatten writes
 * its rows in the order of [C, H, W]; otherwise a step permutes rows.
 */
#include "base/memory.h"
#include "engine/cpu/cpu.h"

#include <string.h>

typedef struct fuse_state {
    fast_cpu_compile *compile; /* the program under construction */
    const fast_graph *graph;   /* its graph */
    int *reader;               /* per node: its only reader; -1: none, -2: several */
    bool *absorbed;            /* per node: fused into another node's step */
    bool *through;             /* per node: a relu that the pooling after it applies */
    const bool *needs;         /* per node: its gradient is needed */
    bool *alive;               /* per node: a loss has a gradient of it */
} fuse_state;

/* Return the only reader of a node if it can still be fused, else NULL. */
static const fast_node *only_reader(const fuse_state *f, int node, int *reader_out)
{
    const int reader = f->reader[node];

    *reader_out = reader;
    if (reader < 0 || f->absorbed[reader])
        return NULL;
    return &f->graph->nodes[reader];
}

/* The activation of a node whose derivative follows from the output, or FAST_ACT_NONE. */
static fast_act act_of(const fast_node *node)
{
    switch (node->op) {
    case FAST_OP_RELU:
        return FAST_ACT_RELU;
    case FAST_OP_LEAKY_RELU:
        return node->a > 0 ? FAST_ACT_LEAKY : FAST_ACT_NONE; /* else the sign is lost */
    case FAST_OP_TANH:
        return FAST_ACT_TANH;
    case FAST_OP_SIGMOID:
        return FAST_ACT_SIGMOID;
    default:
        return FAST_ACT_NONE;
    }
}

/* Fuse the only reader of step->last if it is an activation (with `relu`: only a relu). */
static void take_act(fuse_state *f, fast_cpu_step *step, bool relu)
{
    int reader;
    const fast_node *next = only_reader(f, step->last, &reader);

    if (!next || act_of(next) == FAST_ACT_NONE || (relu && next->op != FAST_OP_RELU))
        return;
    step->act = act_of(next);
    step->slope = next->a;
    step->last = reader;
    f->absorbed[reader] = true;
}

/* conv [relu] max_pool: leave the bias to the pooling; otherwise fuse an activation. */
static void take_conv(fuse_state *f, fast_cpu_step *step)
{
    int reader, after;
    const fast_node *next = only_reader(f, step->node, &reader);

    if (next && next->op == FAST_OP_RELU) {
        const fast_node *pool = only_reader(f, reader, &after);
        if (pool && pool->op == FAST_OP_MAX_POOL) {
            step->no_bias = true;
            f->absorbed[reader] = f->through[reader] = true;
            return;
        }
    }
    if (next && next->op == FAST_OP_MAX_POOL) {
        step->no_bias = true;
        return;
    }
    take_act(f, step, false);
}

/* A pooling: read through a fused relu, take over the bias of a conv, or fuse a relu that
 * follows. */
static void take_pool(fuse_state *f, fast_cpu_step *step)
{
    int in = f->graph->nodes[step->node].inputs[0];

    if (f->through[in]) {
        step->act = FAST_ACT_RELU;
        in = f->graph->nodes[in].inputs[0];
    }
    step->in_node[0] = in;
    if (f->graph->nodes[in].op == FAST_OP_CONV && f->reader[in] >= 0 &&
        f->compile->program->steps[f->compile->program->step_of[in]].no_bias)
        step->bias = in;
    if (step->act == FAST_ACT_NONE)
        take_act(f, step, true);
}

/* A batch norm: fuse a residual sum and a relu that follow. */
static void take_norm(fuse_state *f, fast_cpu_step *step)
{
    int reader;
    const fast_node *next = only_reader(f, step->node, &reader);

    if (next && next->op == FAST_OP_ADD && next->input_count == 2 &&
        next->inputs[0] != next->inputs[1]) {
        step->add = true;
        step->last = reader;
        step->in_count = 2;
        step->in_node[1] = next->inputs[next->inputs[0] == step->node];
        f->absorbed[reader] = true;
    }
    take_act(f, step, true);
}

/* Fuse a relu into the pooling that is its only reader. */
static bool leave_relu(fuse_state *f, int node)
{
    int reader;
    const fast_node *next = only_reader(f, node, &reader);

    if (f->graph->nodes[node].op != FAST_OP_RELU || !next || next->op != FAST_OP_MAX_POOL)
        return false;
    f->absorbed[node] = f->through[node] = true;
    return true;
}

/* Make the step of a node, unless the node is fused into another. */
static fast_err make_step(fuse_state *f, int node)
{
    fast_cpu_program *program = f->compile->program;
    const fast_node *n = &f->graph->nodes[node];
    fast_cpu_step *step = &program->steps[program->step_count];

    if (f->absorbed[node] || leave_relu(f, node))
        return FAST_OK;
    *step =
        (fast_cpu_step){ .op = fast__cpu_op_find(n->op), .node = node, .last = node, .bias = -1 };
    if (!step->op)
        return fast__fail(FAST_ENOTSUP, "engine cpu has no operator %s", fast__op_name(n->op));
    step->in_count = n->input_count;
    memcpy(step->in_node, n->inputs, sizeof step->in_node);
    program->step_of[node] = program->step_count++;
    if (n->op == FAST_OP_DENSE)
        take_act(f, step, false);
    else if (n->op == FAST_OP_CONV)
        take_conv(f, step);
    else if (n->op == FAST_OP_MAX_POOL)
        take_pool(f, step);
    else if (n->op == FAST_OP_BATCH_NORM)
        take_norm(f, step);
    return FAST_OK;
}

/* Order steps by their last node: every input of a step is then computed before it. */
static void sort_steps(fast_cpu_program *program)
{
    for (int i = 1; i < program->step_count; i++) {
        const fast_cpu_step step = program->steps[i];
        int at = i;
        for (; at > 0 && program->steps[at - 1].last > step.last; at--)
            program->steps[at] = program->steps[at - 1];
        program->steps[at] = step;
    }
}

/* Tell whether the rows of a node have the same order as [C, H, W]. */
static bool flat(const fast_node *node)
{
    return node->rank != 3 || node->shape[0] == 1 || node->shape[1] * node->shape[2] == 1;
}

/* Tell whether all readers of an image want its rows as [C, H, W]. */
static bool readers_flatten(const fuse_state *f, int node)
{
    int readers = 0;

    for (int i = node + 1; i < f->graph->node_count; i++)
        for (int k = 0; k < f->graph->nodes[i].input_count; k++)
            if (f->graph->nodes[i].inputs[k] == node) {
                const fast_op op = f->graph->nodes[i].op;
                if (op != FAST_OP_FLATTEN && op != FAST_OP_DENSE)
                    return false;
                readers++;
            }
    return readers > 0;
}

/* Add the value of a node's output; returns its index. */
static int add_value(fuse_state *f, int node, int source)
{
    fast_cpu_program *program = f->compile->program;

    program->values[program->value_count] = (fast_cpu_value){ .rows = f->graph->nodes[node].count,
                                                              .needs = f->needs[node],
                                                              .source = source,
                                                              .data = -1,
                                                              .grad = -1,
                                                              .grad2 = -1 };
    return program->value_count++;
}

/* Insert a step before `at` that permutes the rows of an image; returns its value. */
static int insert_permute(fuse_state *f, int *at, int node, int value)
{
    fast_cpu_program *program = f->compile->program;

    memmove(program->steps + *at + 1, program->steps + *at,
            (size_t)(program->step_count - *at) * sizeof *program->steps);
    program->steps[*at] = (fast_cpu_step){ .op = &fast__cpu_permute,
                                           .node = node,
                                           .last = node,
                                           .bias = -1,
                                           .in_count = 1,
                                           .in = { value },
                                           .in_node = { node } };
    program->steps[*at].out = add_value(f, node, *at);
    program->values[program->steps[*at].out].planar = true;
    program->step_count++;
    (*at)++;
    return program->steps[*at - 1].out;
}

/* Give every step its values; a flatten becomes the value that it reads. */
static void make_values(fuse_state *f)
{
    fast_cpu_program *program = f->compile->program;
    const fast_graph *graph = f->graph;

    for (int s = 0; s < program->step_count; s++) {
        fast_cpu_step *step = &program->steps[s];
        const fast_op op = graph->nodes[step->node].op;
        for (int i = 0; i < step->in_count; i++) {
            const int node = step->in_node[i];
            int value = program->value_of[node];
            FAST_ASSERT(value >= 0);
            if ((op == FAST_OP_FLATTEN || op == FAST_OP_DENSE) && !flat(&graph->nodes[node]) &&
                !program->values[value].planar) {
                value = insert_permute(f, &s, node, value);
                step = &program->steps[s];
            }
            step->in[i] = value;
        }
        if (op == FAST_OP_FLATTEN) {
            program->value_of[step->last] = step->in[0];
            memmove(step, step + 1, (size_t)(program->step_count - s - 1) * sizeof *step);
            program->step_count--;
            s--;
            continue;
        }
        step->out = add_value(f, step->last, s);
        program->value_of[step->last] = step->out;
        program->values[step->out].planar =
            (op == FAST_OP_MAX_POOL || op == FAST_OP_AVG_POOL) && readers_flatten(f, step->last);
    }
    const int last = graph->node_count - 1;
    program->out = program->value_of[last];
    if (!flat(&graph->nodes[last]) && !program->values[program->out].planar) {
        int end = program->step_count;
        program->out = insert_permute(f, &end, last, program->out);
    }
}

/* Has a value no gradient, since all steps that read it are dead or detach it? */
static bool is_value_dead(const fuse_state *f, int value)
{
    const fast_cpu_program *program = f->compile->program;
    bool dead = value != program->out;

    for (int s = program->values[value].source + 1; s < program->step_count && dead; s++) {
        const fast_cpu_step *step = &program->steps[s];
        const bool passes = !step->dead && f->graph->nodes[step->node].op != FAST_OP_DETACH;

        for (int i = 0; i < step->in_count && dead; i++)
            dead = step->in[i] != value || !passes;
    }
    return dead;
}

/* Set the indices of steps, and which of them take part in the backward pass. A node may be read as
 * an image, which has a gradient, and as rows, which have none: the steps that read rows decide.
 */
static void finish_steps(fuse_state *f)
{
    fast_cpu_program *program = f->compile->program;

    for (int i = 0; i < f->graph->node_count; i++)
        program->step_of[i] = -1;
    for (int s = 0; s < program->step_count; s++) {
        fast_cpu_step *step = &program->steps[s];
        step->index = s;
        program->values[step->out].source = s;
        step->dead = !f->alive[step->last];
    }
    for (int s = program->step_count - 1; s >= 0; s--) {
        fast_cpu_step *step = &program->steps[s];
        if (step->op == &fast__cpu_permute)
            step->dead = is_value_dead(f, step->out);
        step->train = program->train && !step->dead && f->needs[step->last];
        for (int b = 0; b < FAST_CPU_BUFFERS; b++)
            step->buffer[b] = -1;
        if (step->op != &fast__cpu_permute)
            program->step_of[step->node] = program->step_of[step->last] = s;
    }
}

/* Find the only readers of nodes, and the nodes that the outputs depend on. */
static void read_graph(fuse_state *f)
{
    const fast_graph *graph = f->graph;

    for (int i = 0; i < graph->node_count; i++)
        f->reader[i] = -1;
    for (int i = 0; i < graph->node_count; i++)
        for (int k = 0; k < graph->nodes[i].input_count; k++) {
            int *reader = &f->reader[graph->nodes[i].inputs[k]];
            *reader = *reader == -1 ? i : -2;
        }
    f->alive[graph->node_count - 1] = true;
    for (int i = 0; i < graph->node_count; i++)
        f->alive[i] = f->alive[i] || graph->nodes[i].op == FAST_OP_HEAD;
    for (int i = graph->node_count - 1; i >= 0; i--)
        for (int k = 0;
             k < graph->nodes[i].input_count && f->alive[i] && graph->nodes[i].op != FAST_OP_DETACH;
             k++)
            f->alive[graph->nodes[i].inputs[k]] = true;
}

/* Make steps from nodes, sort them, give them values, and number them. One block of scratch
 * holds four arrays by node. */
fast_err fast__cpu_fuse(fast_cpu_compile *compile)
{
    const int count = compile->graph->node_count;
    fuse_state f = { .compile = compile,
                     .graph = compile->graph,
                     .needs = compile->program->needs };
    void *memory = NULL;
    fast_err err = FAST_OK;

    FAST_TRY(fast__alloc("fusion", count, sizeof(int) + 3 * sizeof(bool), &memory));
    f.reader = memory;
    f.absorbed = (bool *)(f.reader + count);
    f.alive = f.absorbed + count;
    f.through = f.alive + count;
    read_graph(&f);
    for (int i = 0; i < count && !err; i++) {
        compile->program->value_of[i] = -1;
        err = make_step(&f, i);
    }
    if (!err) {
        sort_steps(compile->program);
        make_values(&f);
        finish_steps(&f);
    }
    fast__free(memory);
    return err;
}
