/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference engine: plain C, one operator after the other, row-major activations. Other engines
 * are tested against it, and builds with nothing but a C library use it.
 *
 *     forward    for each node in order: y = f(x)
 *     loss       outputs -> loss and dy of the last node; heads add theirs as they run
 *     backward   for each node in reverse: dx += dy df/dx, grad = dy df/dw, report grad
 *
 * Every node has its own output, and in training its own gradient, which starts at zero and to
 * which each consumer adds: so a node may have any number of consumers. A workspace is one block; a
 * pass allocates nothing. A segment's gradient is final as soon as the backward pass has visited
 * its node.
 *
 *     workspace   | y, saved of node 1 | y, saved of node 2 | ... | dy of each node | scratch |
 *                                                                 cleared at once     shared
 *
 * With recomputation the nodes are cut into segments. Nodes that another segment reads have memory
 * of their own; all others have a place in one region, which the segments use in turn, so that
 * before its backward pass a segment is computed again there. The last one is still there. What
 * nodes have exchanged cannot be computed again, so these have memory of their own as well.
 *
 *     workspace   | y, saved, dy of nodes that cross a cut | region: y, saved, dy | scratch |
 *
 * In a program whose backward pass is divided, operators that compute both gradients in one go
 * leave those of their weights in the workspace, from which the second phase copies them:
 *
 *     workspace   | y, saved ... | dy ... | scratch | gradients of weights of such nodes |
 */
#include "engine/ref/ref.h"

#include "base/memory.h"
#include "engine/loss.h"
#include "engine/pass_parts.h"
#include "engine/recompute.h"

#include <math.h>
#include <string.h>

/* The operators; the input node has none. */
static const fast_ref_op *const ops[FAST_OP_COUNT] = {
    [FAST_OP_DENSE] = &fast__ref_dense,
    [FAST_OP_CONV] = &fast__ref_conv,
    [FAST_OP_MAX_POOL] = &fast__ref_max_pool,
    [FAST_OP_AVG_POOL] = &fast__ref_avg_pool,
    [FAST_OP_GLOBAL_POOL] = &fast__ref_global_pool,
    [FAST_OP_RELU] = &fast__ref_relu,
    [FAST_OP_LEAKY_RELU] = &fast__ref_leaky_relu,
    [FAST_OP_TANH] = &fast__ref_tanh,
    [FAST_OP_SIGMOID] = &fast__ref_sigmoid,
    [FAST_OP_GELU] = &fast__ref_gelu,
    [FAST_OP_SOFTMAX] = &fast__ref_softmax,
    [FAST_OP_BATCH_NORM] = &fast__ref_batch_norm,
    [FAST_OP_LAYER_NORM] = &fast__ref_layer_norm,
    [FAST_OP_DROPOUT] = &fast__ref_dropout,
    [FAST_OP_EMBED] = &fast__ref_embed,
    [FAST_OP_RNN] = &fast__ref_recurrent,
    [FAST_OP_LSTM] = &fast__ref_recurrent,
    [FAST_OP_GRU] = &fast__ref_recurrent,
    [FAST_OP_ATTENTION] = &fast__ref_attention,
    [FAST_OP_ADD] = &fast__ref_add,
    [FAST_OP_CONCAT] = &fast__ref_concat,
    [FAST_OP_LAST] = &fast__ref_last,
    [FAST_OP_FLATTEN] = &fast__ref_flatten,
    [FAST_OP_MAP] = &fast__ref_custom,
    [FAST_OP_ARITH] = &fast__ref_custom,
    [FAST_OP_SCALE] = &fast__ref_custom,
    [FAST_OP_SHIFT] = &fast__ref_custom,
    [FAST_OP_MATMUL] = &fast__ref_custom,
    [FAST_OP_TRANSPOSE] = &fast__ref_custom,
    [FAST_OP_RESHAPE] = &fast__ref_custom,
    [FAST_OP_SLICE] = &fast__ref_custom,
    [FAST_OP_REDUCE] = &fast__ref_custom,
    [FAST_OP_LOG_SOFTMAX] = &fast__ref_custom,
    [FAST_OP_HEAD] = &fast__ref_head,
    [FAST_OP_DETACH] = &fast__ref_flatten, /* a copy; its gradient is never asked for */
    [FAST_OP_ROUTE] = &fast__ref_custom,
    [FAST_OP_DISPATCH] = &fast__ref_custom,
    [FAST_OP_COMBINE] = &fast__ref_custom,
    [FAST_OP_PART] = &fast__ref_last,
    [FAST_OP_EXPERTS] = &fast__ref_experts,
    [FAST_OP_LOCAL] = &fast__ref_local,
    [FAST_OP_DELAY] = &fast__ref_custom,
    [FAST_OP_REPEAT] = &fast__ref_custom,
    [FAST_OP_CUSTOM] = &fast__ref_custom,
    [FAST_OP_CLASS_FIGURES] = &fast__ref_classes,
    [FAST_OP_ATTENTION_CORE] = &fast__ref_attention_core,
    [FAST_OP_EXCHANGE] = &fast__ref_exchange,
};

/* Offsets of a node's memory in a workspace, in floats. */
typedef struct ref_node {
    int64_t y;     /* output; unused for the input node */
    int64_t dy;    /* gradient of the output; -1 if it is not needed */
    int64_t saved; /* from forward to backward */
    int64_t grad;  /* gradients of its weights, between the phases of a divided pass; else -1 */
    int segment;   /* of the nodes that are recomputed together; 0 without recomputation */
    bool crosses;  /* its memory is its own, not of the region that segments share: it is read
                      across a cut, or exchanges */
} ref_node;

typedef struct ref_program {
    fast_program base; /* first, so that the contract's pointers convert */
    bool train;        /* the backward pass is compiled */
    bool divided;      /* it may run in two phases */
    ref_node *nodes;   /* per node */
    bool *needs;       /* per node, from fast__graph_needs() */
    int64_t scratch;   /* offset of the memory that all operators share */
    int64_t dy_first;  /* the gradients are contiguous, to be cleared at once: from here */
    int64_t dy_end;    /* to here */
    int segments;      /* 1: nothing is recomputed */
    int64_t count;     /* floats of a workspace */
} ref_program;

typedef struct ref_workspace {
    fast_workspace base; /* first, so that the contract's pointers convert */
    float *memory;       /* outputs, saved values, gradients and scratch, as the program laid out */
} ref_workspace;

/* The contract's program_free(). */
static void ref_program_free(fast_program *base)
{
    ref_program *program = (ref_program *)base;

    if (!program)
        return;
    fast__free(program->nodes);
    fast__free(program->needs);
    fast__free(program);
}

/* Reserve `count` more floats, each block on a cache line of its own. */
static fast_err reserve(int64_t *used, int64_t count, int64_t *at_out)
{
    const int64_t line = FAST_ALIGN / (int64_t)sizeof(float);
    int64_t end;
    if (!fast__add_size(*used, count, &end) || !fast__add_size(end, line - 1, &end))
        return fast__fail(FAST_ENOMEM, "a workspace of more than %lld floats", (long long)*used);
    *at_out = *used;
    *used = end / line * line;
    return FAST_OK;
}

/* Lay out a workspace: outputs and saved values, gradients, scratch. */
static fast_err plan_memory(ref_program *program, const fast_graph *graph, int64_t batch)
{
    int64_t used = 0;
    int64_t scratch = 0;
    for (int i = 0; i < graph->node_count; i++) {
        ref_node *node = &program->nodes[i];
        const fast_ref_op *op = ops[graph->nodes[i].op];
        int64_t count;
        if (!fast__mul_size(graph->nodes[i].count, batch, &count))
            return fast__fail(FAST_ENOMEM, "node %d: %lld outputs times a batch of %lld", i,
                              (long long)graph->nodes[i].count, (long long)batch);
        FAST_TRY(reserve(&used, i > 0 ? count : 0, &node->y));
        const fast_ref_need need =
            op && op->need ? op->need(graph, i, batch) : (fast_ref_need){ 0, 0 };
        FAST_TRY(reserve(&used, need.saved, &node->saved));
        scratch = need.scratch > scratch ? need.scratch : scratch;
    }
    program->dy_first = used;
    for (int i = 0; i < graph->node_count; i++) {
        program->nodes[i].dy = -1;
        if (program->train && program->needs[i])
            FAST_TRY(reserve(&used, graph->nodes[i].count * batch, &program->nodes[i].dy));
    }
    program->dy_end = used;
    FAST_TRY(reserve(&used, scratch, &program->scratch));
    program->count = used;
    return FAST_OK;
}

/* Is a gradient of an input of a node needed? */
static bool asks_inputs(const ref_program *program, const fast_graph *graph, int i)
{
    for (int k = 0; k < graph->nodes[i].input_count; k++)
        if (program->needs[graph->nodes[i].inputs[k]])
            return true;
    return false;
}

/* Reserve memory for the gradients of weights that a divided pass has too early, and count the
 * operations of those that it computes late. */
static fast_err plan_divided(ref_program *program, const fast_graph *graph)
{
    for (int i = 0; i < graph->node_count; i++) {
        const fast_ref_op *op = ops[graph->nodes[i].op];
        int64_t offset, count;

        program->nodes[i].grad = -1;
        if (!program->divided || !program->needs[i] ||
            !fast__node_params(graph, i, &offset, &count))
            continue;
        if (op->weights)
            program->base.flops_weights += fast__node_flops_weights(graph, i);
        else if (asks_inputs(program, graph, i))
            FAST_TRY(reserve(&program->count, count, &program->nodes[i].grad));
        else
            program->base.flops_weights += fast__node_flops_backward(graph, i, false);
    }
    return FAST_OK;
}

/* Floats that a node stores: output, saved values, gradient. */
static int64_t stored_by(const ref_program *program, const fast_graph *graph, int i, int64_t batch)
{
    const fast_ref_op *op = ops[graph->nodes[i].op];
    const int64_t outputs = graph->nodes[i].count * batch;
    const fast_ref_need need = op && op->need ? op->need(graph, i, batch) : (fast_ref_need){ 0, 0 };

    return (i > 0 ? outputs : 0) + need.saved + (program->needs[i] ? outputs : 0);
}

/* Cut the nodes into segments, and find those that are read across a cut. */
static fast_err cut(ref_program *program, const fast_graph *graph, int64_t batch, int segments)
{
    const int n = graph->node_count;
    int64_t *size = NULL;
    int *segment = NULL;

    FAST_TRY(fast__alloc("recomputation", 2 * (int64_t)n, sizeof *size, &size));
    const fast_err err = fast__alloc("recomputation", n, sizeof *segment, &segment);
    for (int i = 0; i < n && !err; i++) {
        size[i] = stored_by(program, graph, i, batch);
        for (int k = 0; k < graph->nodes[i].input_count; k++)
            for (int s = graph->nodes[i].inputs[k]; s < i; s++)
                size[n + s] += graph->nodes[graph->nodes[i].inputs[k]].count * batch;
    }
    if (!err)
        fast__recompute_cut(n, size, size + n, segments, segment);
    for (int i = 0; i < n && !err; i++) {
        program->nodes[i].segment = segment[i];
        program->nodes[i].crosses = i == 0 || i == n - 1 || graph->nodes[i].exchange;
        for (int k = 0; k < graph->nodes[i].input_count; k++) {
            ref_node *in = &program->nodes[graph->nodes[i].inputs[k]];

            in->crosses = in->crosses || in->segment != segment[i];
        }
    }
    program->segments = err ? 1 : segment[n - 1] + 1;
    fast__free(segment);
    fast__free(size);
    return err;
}

/* Reserve the memory of a node: of its own, or in the region. Gradients are floats from *dy on. */
static fast_err reserve_node(ref_program *program, const fast_graph *graph, int i, int64_t batch,
                             int64_t *used, int64_t *scratch)
{
    ref_node *node = &program->nodes[i];
    const fast_ref_op *op = ops[graph->nodes[i].op];
    const fast_ref_need need = op && op->need ? op->need(graph, i, batch) : (fast_ref_need){ 0, 0 };
    int64_t count;

    if (!fast__mul_size(graph->nodes[i].count, batch, &count))
        return fast__fail(FAST_ENOMEM, "node %d: %lld outputs times a batch of %lld", i,
                          (long long)graph->nodes[i].count, (long long)batch);
    FAST_TRY(reserve(used, i > 0 ? count : 0, &node->y));
    FAST_TRY(reserve(used, need.saved, &node->saved));
    node->dy = -1;
    if (program->needs[i])
        FAST_TRY(reserve(used, count, &node->dy));
    *scratch = need.scratch > *scratch ? need.scratch : *scratch;
    return FAST_OK;
}

/* Lay out a workspace whose activations are recomputed, with this number of segments. */
static fast_err plan_segments(ref_program *program, const fast_graph *graph, int64_t batch,
                              int segments)
{
    int64_t used = 0, scratch = 0, end;

    FAST_TRY(cut(program, graph, batch, segments));
    if (program->segments == 1) /* a graph too small to be cut */
        return plan_memory(program, graph, batch);
    for (int i = 0; i < graph->node_count; i++)
        if (program->nodes[i].crosses)
            FAST_TRY(reserve_node(program, graph, i, batch, &used, &scratch));
    end = used;
    for (int k = 0; k < program->segments; k++) {
        int64_t at = used;

        for (int i = 0; i < graph->node_count; i++)
            if (!program->nodes[i].crosses && program->nodes[i].segment == k)
                FAST_TRY(reserve_node(program, graph, i, batch, &at, &scratch));
        end = at > end ? at : end;
    }
    program->dy_first = program->dy_end = 0; /* cleared node by node */
    FAST_TRY(reserve(&end, scratch, &program->scratch));
    program->count = end;
    return FAST_OK;
}

/* Sum over the nodes that are computed again: all segments but the last. */
static double sum_again(const ref_program *program, const fast_graph *graph,
                        double (*of)(const fast_graph *graph, int node))
{
    double sum = 0;

    for (int i = 1; i < graph->node_count && program->segments > 1; i++)
        if (program->nodes[i].segment + 1 < program->segments)
            sum += of(graph, i);
    return sum;
}

/* Lay out a workspace by the options: plainly, in sqrt(n) segments, or in those that fit the budget
 * with the fewest operations. */
static fast_err plan_options(ref_program *program, const fast_graph *graph,
                             const fast_engine_options *o, int64_t *least_out)
{
    const int root = fast__recompute_segments(graph->node_count);
    const int64_t limit = o->memory / (int64_t)sizeof(float);
    int64_t smallest = INT64_MAX;
    int best = 1;
    double work = INFINITY;

    *least_out = 0;
    program->segments = 1;
    if (!o->train || !o->recompute || o->memory > 0)
        FAST_TRY(plan_memory(program, graph, o->batch));
    if (!o->train || !o->recompute || (o->memory > 0 && program->count <= limit))
        return FAST_OK;
    if (o->memory == 0)
        return plan_segments(program, graph, o->batch, root);
    for (int k = 2; k <= 2 * root; k++) {
        FAST_TRY(plan_segments(program, graph, o->batch, k));
        const bool fits = program->count <= limit;

        const double again = sum_again(program, graph, fast__recompute_work);

        if (fits ? again < work : isinf(work) && program->count < smallest)
            best = k;
        work = fits ? fmin(work, again) : work;
        smallest = program->count < smallest ? program->count : smallest;
    }
    if (smallest > limit)
        *least_out = smallest * (int64_t)sizeof(float);
    return plan_segments(program, graph, o->batch, best);
}

/* The contract's compile(): the layout of a workspace is all there is to compute. */
static fast_err ref_compile(const fast_graph *graph, const fast_engine_options *options,
                            fast_program **out)
{
    FAST_ASSERT(options->batch >= 1);
    FAST_ASSERT(out != NULL);
    FAST_ASSERT(!options->divide || !options->recompute);
    ref_program *program = NULL;
    FAST_TRY(fast__graph_check(graph));
    if (options->method)
        return fast__fail(FAST_EINVAL,
                          "engine ref has one way to convolve; leave out method=%s, or take engine "
                          "cpu",
                          options->method);
    FAST_TRY(fast__alloc("program", 1, sizeof(*program), &program));
    fast_err err =
        fast__alloc("program's nodes", graph->node_count, sizeof(ref_node), &program->nodes);
    if (err)
        goto undo_program;
    err = fast__alloc("program's nodes", graph->node_count, sizeof(bool), &program->needs);
    if (err)
        goto undo_program;
    fast__graph_needs(graph, program->needs);
    program->train = options->train;
    program->divided = options->train && options->divide;
    int64_t least = 0;
    err = plan_options(program, graph, options, &least);
    if (!err)
        err = plan_divided(program, graph);
    if (err)
        goto undo_program;
    const double again = sum_again(program, graph, fast__node_flops_forward);
    program->base = (fast_program){
        .engine = &fast__engine_ref,
        .graph = graph,
        .batch = options->batch,
        .flops_forward = fast__graph_flops_forward(graph),
        .flops_train = fast__graph_flops_train(graph, program->needs) + again,
        .plan_hash = 0,
        .memory = program->count * (int64_t)sizeof(float),
        .memory_least = least,
        .flops_again = again,
        .segments = program->segments > 1 ? program->segments : 0,
        .flops_weights = program->base.flops_weights,
    };
    FAST_ASSERT(program->count >= program->dy_end);
    *out = &program->base;
    return FAST_OK;

undo_program:
    ref_program_free(&program->base);
    return err;
}

/* The contract's workspace_free(). */
static void ref_workspace_free(fast_workspace *base)
{
    if (!base)
        return;
    fast__free(((ref_workspace *)base)->memory);
    fast__free(base);
}

/* The contract's workspace_new(): one block, laid out by the program. */
static fast_err ref_workspace_new(const fast_program *program, fast_workspace **out)
{
    FAST_ASSERT(program != NULL);
    FAST_ASSERT(out != NULL);
    ref_workspace *workspace = NULL;
    FAST_TRY(fast__alloc("workspace", 1, sizeof(*workspace), &workspace));
    workspace->base.program = program;
    const fast_err err = fast__alloc("activations", ((const ref_program *)program)->count,
                                     sizeof(float), &workspace->memory);
    if (err) {
        ref_workspace_free(&workspace->base);
        return err;
    }
    *out = &workspace->base;
    return FAST_OK;
}

/* Return the output of a node; for the input it is the batch itself. */
static float *output_of(const ref_program *program, const ref_workspace *workspace,
                        const fast_pass *pass, int node)
{
    /* Operators only read their inputs: x is never written through this pointer. */
    return node == 0 ? (float *)(uintptr_t)pass->batch->x
                     : workspace->memory + program->nodes[node].y;
}

/* Collect the arguments of one operator. */
static fast_ref_call call_of(const ref_program *program, const ref_workspace *workspace,
                             const fast_pass *pass, int index)
{
    const fast_graph *graph = program->base.graph;
    const fast_node *node = &graph->nodes[index];
    fast_ref_call call = { .graph = graph,
                           .node = node,
                           .in = &graph->nodes[node->inputs[0]],
                           .index = index,
                           .pass = pass,
                           .n = pass->batch->count,
                           .grad = pass->grad,
                           .y = output_of(program, workspace, pass, index),
                           .saved = workspace->memory + program->nodes[index].saved,
                           .scratch = workspace->memory + program->scratch };
    for (int k = 0; k < node->input_count; k++) {
        const ref_node *in = &program->nodes[node->inputs[k]];
        call.x[k] = output_of(program, workspace, pass, node->inputs[k]);
        call.dx[k] = in->dy < 0 ? NULL : workspace->memory + in->dy;
    }
    if (program->nodes[index].dy >= 0)
        call.dy = workspace->memory + program->nodes[index].dy;
    return call;
}

/* Report that a node's gradients are final. */
static void report_node(const fast_ref_call *call)
{
    const fast_pass *pass = call->pass;
    for (int w = 0; pass->report && w < FAST_WEIGHTS_MAX; w++) {
        const int64_t s = call->node->weight[w];
        if (s < 0 || (w == FAST_W_WEIGHT && call->factored))
            continue;
        const fast_segment *segment = &call->graph->params.segments[s];
        pass->report(pass->ctx, segment->offset, segment->count);
    }
}

/* Say that the weights of a node are about to be read. */
static void announce(const fast_pass *pass, const fast_graph *graph, int node)
{
    int64_t offset, count;

    if (pass->need && fast__node_params(graph, node, &offset, &count))
        pass->need(pass->ctx, offset, count);
}

/* Set the gradients of nodes to 0: of those with memory of their own, or of a segment's others. */
static void clear_gradients(const ref_program *program, const ref_workspace *workspace,
                            bool crosses, int segment)
{
    const fast_graph *graph = program->base.graph;

    for (int i = 0; i < graph->node_count; i++) {
        const ref_node *node = &program->nodes[i];

        if (node->dy >= 0 && node->crosses == crosses && (crosses || node->segment == segment))
            memset(workspace->memory + node->dy, 0,
                   (size_t)(graph->nodes[i].count * program->base.batch) * sizeof(float));
    }
}

/* Compute the segment that ends with node `last` again, for its backward pass. */
static void compute_again(const ref_program *program, const ref_workspace *workspace,
                          const fast_pass *pass, int last)
{
    const int segment = program->nodes[last].segment;
    int i = last;

    while (i > 1 && program->nodes[i - 1].segment == segment)
        i--;
    for (; i <= last; i++) {
        fast_ref_call call = call_of(program, workspace, pass, i);

        call.again = true;
        if (pass->need_again)
            announce(pass, program->base.graph, i);
        ops[call.node->op]->forward(&call);
    }
    clear_gradients(program, workspace, false, segment);
}

/* Run the backward pass over all nodes that need it; false: another part of it follows. */
static bool run_backward(const ref_program *program, const ref_workspace *workspace,
                         fast_pass *pass)
{
    const fast_graph *graph = program->base.graph;
    int64_t met = 0;

    for (int i = graph->node_count - 1; i > 0; i--) {
        const fast_part_role role = fast__part_role(pass, graph->nodes[i].exchange, &met);
        if (role == FAST_PART_SKIP)
            continue;
        if (program->segments > 1 && i + 1 < graph->node_count && role != FAST_PART_RESUME &&
            program->nodes[i + 1].segment != program->nodes[i].segment)
            compute_again(program, workspace, pass, i);
        fast_ref_call call = call_of(program, workspace, pass, i);
        if (role == FAST_PART_STOP && program->needs[i])
            ops[call.node->op]->offer(&call, true, &pass->due);
        if (role == FAST_PART_STOP)
            return false;
        if (!program->needs[i])
            continue;
        if (pass->need_again)
            announce(pass, graph, i);
        ops[call.node->op]->backward(&call);
        if (ops[call.node->op]->weights)
            ops[call.node->op]->weights(&call);
        report_node(&call);
    }
    return true;
}

/* Run the first half of a divided backward pass: gradients of values. Those of weights that an
 * operator computes with them stay in the workspace. Nodes that have weights and no gradient of an
 * input to compute are left to the second half. */
static bool run_inputs(const ref_program *program, const ref_workspace *workspace, fast_pass *pass)
{
    const fast_graph *graph = program->base.graph;
    int64_t count, met = 0;

    for (int i = graph->node_count - 1; i > 0; i--) {
        const fast_part_role role = fast__part_role(pass, graph->nodes[i].exchange, &met);
        fast_ref_call call = call_of(program, workspace, pass, i);
        const bool weighs = fast__node_params(graph, i, &call.grad_first, &count);
        const bool late = weighs && !asks_inputs(program, graph, i) && !ops[call.node->op]->weights;
        const bool runs = program->needs[i] && !late;

        if (program->nodes[i].grad >= 0)
            call.grad = workspace->memory + program->nodes[i].grad;
        if (role == FAST_PART_STOP && runs)
            ops[call.node->op]->offer(&call, true, &pass->due);
        if (role == FAST_PART_STOP)
            return false;
        if (role != FAST_PART_SKIP && runs)
            ops[call.node->op]->backward(&call);
    }
    return true;
}

/* Run the second half: gradients of weights, in the order in which one backward pass would report
 * them. */
static void run_weights(const ref_program *program, const ref_workspace *workspace, fast_pass *pass)
{
    const fast_graph *graph = program->base.graph;
    int64_t offset, count, met = 0;

    for (int i = graph->node_count - 1; i > 0; i--) {
        const fast_part_role role = fast__part_role(pass, graph->nodes[i].exchange, &met);
        fast_ref_call call = call_of(program, workspace, pass, i);
        const bool runs = program->needs[i] && fast__node_params(graph, i, &offset, &count);

        if (role == FAST_PART_STOP && runs && program->nodes[i].grad < 0)
            ops[call.node->op]->offer(&call, true, &pass->due);
        if (role == FAST_PART_STOP)
            return;
        if (role == FAST_PART_SKIP || !runs)
            continue;
        if (ops[call.node->op]->weights)
            ops[call.node->op]->weights(&call);
        else if (program->nodes[i].grad >= 0)
            memcpy(pass->grad + offset, workspace->memory + program->nodes[i].grad,
                   (size_t)count * sizeof(float));
        else
            ops[call.node->op]->backward(&call);
        report_node(&call);
    }
}

/* The forward pass and the loss; its gradient is left in that of the last node where a backward
 * pass follows, in this call or in the next phase. */
static void run_forward(const ref_program *program, const ref_workspace *workspace, fast_pass *pass)
{
    const fast_graph *graph = program->base.graph;
    double heads = 0;
    int64_t met = 0;
    for (int i = 1; i < graph->node_count; i++) {
        const fast_part_role role = fast__part_role(pass, graph->nodes[i].exchange, &met);
        if (role == FAST_PART_SKIP)
            continue;
        fast_ref_call call = call_of(program, workspace, pass, i);
        if (role == FAST_PART_STOP) {
            ops[call.node->op]->offer(&call, false, &pass->due);
            return;
        }
        announce(pass, graph, i);
        ops[call.node->op]->forward(&call);
        heads += call.loss;
    }
    const int last = graph->node_count - 1;
    const float *y = output_of(program, workspace, pass, last);
    const bool answers = pass->batch->labels || pass->batch->targets;
    float *dy = NULL;
    if (pass->grad || pass->phase == FAST_PASS_FORWARD) {
        memset(workspace->memory + program->dy_first, 0,
               (size_t)(program->dy_end - program->dy_first) * sizeof(float));
        if (program->segments > 1) {
            clear_gradients(program, workspace, true, 0);
            clear_gradients(program, workspace, false, program->nodes[last].segment);
        }
        if (program->nodes[last].dy >= 0 && answers && !pass->outputs_grad &&
            fast__loss_trains(graph, pass))
            dy = workspace->memory + program->nodes[last].dy;
    }
    fast__loss_run(graph, pass, y, dy);
    pass->loss += heads;
    pass->head_loss = heads;
    if (pass->outputs)
        memcpy(pass->outputs, y,
               (size_t)(pass->batch->count * graph->nodes[last].count) * sizeof(float));
}

/* The backward pass between gradients that come from and go to elsewhere. */
static void run_back(const ref_program *program, const ref_workspace *workspace, fast_pass *pass)
{
    const fast_graph *graph = program->base.graph;
    const int last = graph->node_count - 1;
    const size_t n = (size_t)pass->batch->count * sizeof(float);
    if (pass->outputs_grad && program->nodes[last].dy >= 0 && pass->part == 0)
        memcpy(workspace->memory + program->nodes[last].dy, pass->outputs_grad,
               n * (size_t)graph->nodes[last].count);
    const bool over = pass->phase == FAST_PASS_INPUTS ? run_inputs(program, workspace, pass)
                                                      : run_backward(program, workspace, pass);
    if (over && pass->inputs_grad)
        memcpy(pass->inputs_grad, workspace->memory + program->nodes[0].dy,
               n * (size_t)graph->nodes[0].count);
}

/* The contract's run(): forward, loss, outputs, backward. */
static fast_err ref_run(const fast_program *base, fast_workspace *memory, fast_pass *pass)
{
    const ref_program *program = (const ref_program *)base;
    const ref_workspace *workspace = (const ref_workspace *)memory;
    FAST_ASSERT(memory->program == base);
    FAST_ASSERT(pass->state != NULL || base->graph->state.count == 0);
    FAST_TRY(fast__pass_check(base->graph, program->base.batch, program->train, pass));
    FAST_ASSERT(program->divided || pass->phase < FAST_PASS_INPUTS);
    pass->due.node = 0;
    if (pass->phase == FAST_PASS_WHOLE || pass->phase == FAST_PASS_FORWARD)
        run_forward(program, workspace, pass);
    if (pass->phase == FAST_PASS_WEIGHTS)
        run_weights(program, workspace, pass);
    else if (pass->grad || pass->phase == FAST_PASS_INPUTS)
        run_back(program, workspace, pass);
    return FAST_OK;
}

/* The contract's describe(): the name of the operator. */
static const char *ref_describe(const fast_program *program, int node)
{
    const fast_graph *graph = program->graph;
    return node >= 0 && node < graph->node_count ? fast__op_name(graph->nodes[node].op) : NULL;
}

const fast_engine fast__engine_ref = {
    .name = "ref",
    .summary = "plain C, needs no library; the truth for tests",
    .compile = ref_compile,
    .program_free = ref_program_free,
    .workspace_new = ref_workspace_new,
    .workspace_free = ref_workspace_free,
    .run = ref_run,
    .describe = ref_describe,
};
