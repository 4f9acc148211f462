/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Micro-batches inside a pass, and the choice among them (Oyama et al., "Accelerating Deep Learning
 * Frameworks with Micro-batches", 2018; ZNNi, Zlateski et al. 2016).
 *
 *     choice   T(b) = min over sizes m of t(m) + T(b - m), T(b) = 0 for b <= 0
 *
 * where t(m) is the measured time of a pass of m samples. A pass may have two sizes, and each has a
 * workspace: the sum of theirs is compared with the limit. Cost: pairs of sizes times b.
 *
 *     pass     g = sum_k (d_k / d) g_k,   loss = sum_k (d_k / d) loss_k
 *
 * where d_k is the divisor of micro-batch k's loss (its samples, or the sum of their classes'
 * weights) and d that of the batch. The first micro-batch writes the caller's g, each other one a
 * vector of the workspace that is added to it; in the last one range by range, as its backward pass
 * reports them. Dropout masks are those of the whole batch, because samples are named by their
 * place in it. Batch norm has the statistics of each micro-batch, and follows them one by one.
 */
#include "engine/micro_batch.h"

#include "base/hash.h"
#include "base/memory.h"
#include "engine/loss.h"
#include "tensor/vector.h"

#include <math.h>
#include <string.h>

/* A program for batches, of programs for micro-batches. */
typedef struct micro_program {
    fast_program base;                        /* first: the contract's pointers convert */
    fast_program *programs[FAST_MICRO_KINDS]; /* one for each size; NULL: fewer sizes */
    int kind_count;                           /* of programs */
    bool train;                               /* the backward pass is compiled */
    int part_count;                           /* micro-batches of a whole batch */
    unsigned char *kinds;                     /* [part_count] index of each one's program */
} micro_program;

/* A workspace of the program. */
typedef struct micro_workspace {
    fast_workspace base;                          /* first */
    fast_workspace *workspaces[FAST_MICRO_KINDS]; /* of the programs */
    float *grad;                                  /* [params]: of a micro-batch but the first */
    uint32_t *ids;                                /* 0, 1, 2, ...: of a batch without ids */
} micro_workspace;

/* A pass under way. */
typedef struct micro_run {
    fast_pass *whole;     /* the caller's */
    const float *grad;    /* of the last micro-batch */
    float weight, before; /* of the last micro-batch, and of the sum so far */
} micro_run;

/* T of all b from 1 to `batch` with sizes a and b; chosen[b]: 0 or 1. */
static double fastest(const fast_micro_size *const kinds[FAST_MICRO_KINDS], int64_t batch,
                      double *seconds, unsigned char *chosen)
{
    seconds[0] = 0;
    for (int64_t b = 1; b <= batch; b++) {
        seconds[b] = INFINITY;
        for (int k = 0; k < FAST_MICRO_KINDS; k++) {
            const int64_t rest = b > kinds[k]->count ? b - kinds[k]->count : 0;
            const double time = kinds[k]->seconds + seconds[rest];

            if (time < seconds[b]) {
                seconds[b] = time;
                chosen[b] = (unsigned char)k;
            }
        }
    }
    return seconds[batch];
}

/* Read the micro-batches of a choice: the larger ones first. */
static void trace_back(const fast_micro_size *const kinds[FAST_MICRO_KINDS], int64_t batch,
                       const unsigned char *chosen, fast_micro_plan *out)
{
    int64_t left = batch;
    int counts[FAST_MICRO_KINDS] = { 0 };
    const int large = kinds[1]->count > kinds[0]->count;

    for (; left > 0; left -= kinds[chosen[left]]->count)
        counts[chosen[left]]++;
    out->part_count = 0;
    for (int k = 0; k < FAST_MICRO_KINDS; k++)
        for (int i = 0; i < counts[k == 0 ? large : !large]; i++)
            out->parts[out->part_count++] = kinds[k == 0 ? large : !large]->count;
}

/* Choose with memory for the table: seconds and chosen have batch + 1 elements. */
static fast_err choose(const fast_micro_size *sizes, int count, int64_t batch, int64_t memory,
                       double *seconds, unsigned char *chosen, fast_micro_plan *out)
{
    double best = INFINITY;

    for (int i = 0; i < count; i++)
        for (int j = i; j < count; j++) {
            const fast_micro_size *const kinds[FAST_MICRO_KINDS] = { &sizes[i], &sizes[j] };
            const int64_t taken = sizes[i].memory + (j > i ? sizes[j].memory : 0);

            FAST_ASSERT(sizes[i].count > 0 && sizes[i].seconds > 0);
            if ((memory > 0 && taken > memory) ||
                (batch + sizes[i].count - 1) / sizes[i].count > FAST_MICRO_PARTS_MAX ||
                (batch + sizes[j].count - 1) / sizes[j].count > FAST_MICRO_PARTS_MAX ||
                !(fastest(kinds, batch, seconds, chosen) < best))
                continue;
            best = seconds[batch];
            trace_back(kinds, batch, chosen, out);
            out->memory = taken;
        }
    out->seconds = best;
    return isfinite(best)
               ? FAST_OK
               : fast__fail(FAST_EINVAL, "no micro-batches of %lld samples fit into %lld bytes",
                            (long long)batch, (long long)memory);
}

fast_err fast__micro_choose(const fast_micro_size *sizes, int count, int64_t batch, int64_t memory,
                            fast_micro_plan *out)
{
    unsigned char *chosen = NULL;
    double *seconds = NULL;

    FAST_ASSERT(count > 0 && count <= FAST_MICRO_SIZES_MAX);
    FAST_ASSERT(batch > 0);
    fast_err err = fast__alloc("times of micro-batches", batch + 1, sizeof *seconds, &seconds);
    if (!err)
        err = fast__alloc("sizes of micro-batches", batch + 1, sizeof *chosen, &chosen);
    if (!err)
        err = choose(sizes, count, batch, memory, seconds, chosen, out);
    fast__free(chosen);
    fast__free(seconds);
    return err;
}

bool fast__micro_is_exact(const fast_graph *graph, int64_t size)
{
    FAST_ASSERT(size > 0);
    if (graph->class_weights && fast__graph_has_heads(graph))
        return false; /* each head has a divisor of its own */
    for (int i = 0; i < graph->node_count; i++) {
        const fast_node *node = &graph->nodes[i];

        if (node->op == FAST_OP_CUSTOM ||
            (node->op == FAST_OP_BATCH_NORM && (node->ghost == 0 || size % node->ghost != 0)))
            return false;
    }
    return true;
}

/* The contract's program_free(). */
static void micro_program_free(fast_program *program)
{
    micro_program *self = (micro_program *)program;

    if (!self)
        return;
    for (int k = 0; k < FAST_MICRO_KINDS; k++)
        if (self->programs[k])
            self->programs[k]->engine->program_free(self->programs[k]);
    fast__free(self->kinds);
    fast__free(self);
}

/* The contract's workspace_free(). */
static void micro_workspace_free(fast_workspace *workspace)
{
    micro_workspace *self = (micro_workspace *)workspace;

    if (!self)
        return;
    for (int k = 0; k < FAST_MICRO_KINDS; k++)
        if (self->workspaces[k])
            self->workspaces[k]->program->engine->workspace_free(self->workspaces[k]);
    fast__free(self->grad);
    fast__free(self->ids);
    fast__free(self);
}

/* The contract's workspace_new(). */
static fast_err micro_workspace_new(const fast_program *program, fast_workspace **out)
{
    const micro_program *p = (const micro_program *)program;
    micro_workspace *self = NULL;
    fast_err err = FAST_OK;

    FAST_ASSERT(p->programs[0] != NULL);
    FAST_TRY(fast__alloc("a workspace of micro-batches", 1, sizeof *self, &self));
    self->base.program = program;
    for (int k = 0; k < FAST_MICRO_KINDS && p->programs[k] && !err; k++)
        err = p->programs[k]->engine->workspace_new(p->programs[k], &self->workspaces[k]);
    if (!err)
        err = fast__alloc("a gradient of micro-batches", program->graph->params.count,
                          sizeof *self->grad, &self->grad);
    if (!err)
        err = fast__alloc("names of samples", program->batch, sizeof *self->ids, &self->ids);
    if (err) {
        micro_workspace_free(&self->base);
        return err;
    }
    for (int64_t i = 0; i < program->batch; i++)
        self->ids[i] = (uint32_t)i;
    *out = &self->base;
    return FAST_OK;
}

/* Targets of one sample, of the outputs or of heads. */
static int64_t target_count(const fast_graph *graph)
{
    int64_t count = graph->positions * graph->outputs;

    FAST_ASSERT(count > 0);
    for (int i = 0; i < graph->node_count; i++) {
        const fast_node *node = &graph->nodes[i];
        const int64_t own = node->op == FAST_OP_HEAD ? fast__head_rows(node) * node->columns[1] : 0;

        count = own > count ? own : count;
    }
    return count;
}

/* The samples of a batch from `first` on. */
static fast_batch cut(const fast_graph *graph, const fast_batch *batch, const uint32_t *ids,
                      int64_t first, int64_t count)
{
    const int64_t targets = target_count(graph);

    FAST_ASSERT(first >= 0 && first + count <= batch->count);
    return (fast_batch){ .count = count,
                         .x = batch->x + first * graph->nodes[0].count,
                         .labels = batch->labels ? batch->labels + first * graph->positions : NULL,
                         .targets = batch->targets ? batch->targets + first * targets : NULL,
                         .ids = ids + first };
}

/* A range of the last micro-batch's gradient is final, and so is the mean of all. */
static void report_range(void *ctx, int64_t offset, int64_t count)
{
    const micro_run *run = ctx;

    fast__vector_axpby(count, run->weight, run->grad + offset, run->before,
                       run->whole->grad + offset);
    if (run->whole->report)
        run->whole->report(run->whole->ctx, offset, count);
}

/* Only the first micro-batch asks for parameters. */
static void need_range(void *ctx, int64_t offset, int64_t count)
{
    const micro_run *run = ctx;

    run->whole->need(run->whole->ctx, offset, count);
}

/* Refuse a pass that cannot be cut, and one whose samples no micro-batch would accept. */
static fast_err check_pass(const micro_program *p, const fast_pass *pass)
{
    FAST_TRY(fast__pass_check(p->base.graph, p->base.batch, p->train, pass));
    if (pass->phase != FAST_PASS_WHOLE || pass->outputs_grad || pass->inputs_grad)
        return fast__fail(FAST_ENOTSUP, "a part of a split network cannot run in micro-batches of "
                                        "its own; leave out micro_batch");
    if (pass->need && pass->need_again)
        return fast__fail(FAST_ENOTSUP, "micro-batches read all parameters several times, and here "
                                        "they are there only once; leave out micro_batch");
    return FAST_OK;
}

/* The divisor of the loss of a batch; a prediction has none. */
static double divisor_of(const fast_graph *graph, const fast_pass *pass)
{
    return pass->batch->labels || pass->batch->targets ? fast__loss_divisor(graph, pass)
                                                       : (double)pass->batch->count;
}

/* Run micro-batch k, of samples `first` to `first + count`. */
static fast_err run_part(const micro_program *p, micro_workspace *self, micro_run *run, int k,
                         int64_t first, int64_t count)
{
    const fast_graph *graph = p->base.graph;
    fast_pass *whole = run->whole;
    const bool last = first + count == whole->batch->count, grad = whole->grad != NULL;
    const fast_batch batch =
        cut(graph, whole->batch, whole->batch->ids ? whole->batch->ids : self->ids, first, count);
    fast_pass pass = *whole;
    const int64_t outputs = graph->nodes[graph->node_count - 1].count;

    FAST_ASSERT(count <= p->programs[p->kinds[k]]->batch);
    pass.batch = &batch;
    pass.grad = grad && k > 0 ? self->grad : whole->grad;
    pass.report = grad && last ? report_range : NULL;
    pass.need = whole->need && k == 0 ? need_range : NULL;
    pass.factor = NULL;
    pass.ctx = run;
    pass.outputs = whole->outputs ? whole->outputs + first * outputs : NULL;
    const double weight = divisor_of(graph, &pass) / divisor_of(graph, whole);
    run->grad = self->grad;
    run->weight = (float)weight;
    FAST_TRY(p->programs[p->kinds[k]]->engine->run(p->programs[p->kinds[k]],
                                                   self->workspaces[p->kinds[k]], &pass));
    if (grad && k > 0 && !last)
        fast__vector_axpby(graph->params.count, run->weight, self->grad, run->before, whole->grad);
    run->before = k > 0 ? 1 : run->weight;
    whole->loss += weight * pass.loss;
    whole->correct += pass.correct;
    whole->positions += pass.positions;
    return FAST_OK;
}

/* The contract's run(). A batch that the first micro-batch holds runs as if it were alone. */
static fast_err micro_run_pass(const fast_program *program, fast_workspace *workspace,
                               fast_pass *pass)
{
    const micro_program *p = (const micro_program *)program;
    micro_workspace *self = (micro_workspace *)workspace;
    const fast_program *alone = p->programs[p->kinds[0]];
    micro_run run = { .whole = pass };
    int64_t first = 0;

    FAST_ASSERT(p->part_count > 0);
    if (pass->batch->count <= alone->batch)
        return alone->engine->run(alone, self->workspaces[p->kinds[0]], pass);
    FAST_TRY(check_pass(p, pass));
    pass->loss = 0;
    pass->correct = pass->positions = 0;
    for (int k = 0; first < pass->batch->count; k++) {
        const int64_t left = pass->batch->count - first, most = p->programs[p->kinds[k]]->batch;
        const int64_t count = left < most ? left : most;

        FAST_ASSERT(k < p->part_count);
        FAST_TRY(run_part(p, self, &run, k, first, count));
        first += count;
    }
    return FAST_OK;
}

/* The contract's describe(): of the first micro-batch's program. */
static const char *micro_describe(const fast_program *program, int node)
{
    const fast_program *first = ((const micro_program *)program)->programs[0];

    return first->engine->describe ? first->engine->describe(first, node) : NULL;
}

/* Of programs for micro-batches; it is compiled by fast__micro_compile(). */
static const fast_engine micro_engine = {
    .name = "micro-batches",
    .summary = "batches in micro-batches, by another engine",
    .program_free = micro_program_free,
    .workspace_new = micro_workspace_new,
    .workspace_free = micro_workspace_free,
    .run = micro_run_pass,
    .describe = micro_describe,
};

/* Bytes of a workspace besides those of the programs. */
static int64_t own_bytes(const fast_program *program)
{
    return program->graph->params.count * (int64_t)sizeof(float) +
           program->batch * (int64_t)sizeof(uint32_t);
}

/* Return the index of the program for a size, compiling it if it is new. */
static fast_err find_kind(micro_program *p, const fast_engine *engine,
                          const fast_engine_options *options, int64_t size, unsigned char *out)
{
    fast_engine_options own = *options;
    unsigned char k = 0;

    while (k < FAST_MICRO_KINDS && p->programs[k] && p->programs[k]->batch != size)
        k++;
    FAST_ASSERT(k < FAST_MICRO_KINDS);
    *out = k;
    own.batch = size;
    if (options->memory > 0) {
        const int64_t room = (options->memory - own_bytes(&p->base)) / p->kind_count;

        own.memory = room > 0 ? room : 1;
    }
    return p->programs[k] ? FAST_OK : engine->compile(p->base.graph, &own, &p->programs[k]);
}

/* Fill in what all programs have, once those of the micro-batches are compiled. */
static void sum_up(micro_program *p)
{
    const fast_program *first = p->programs[0];
    int64_t least = own_bytes(&p->base);
    bool short_of = false;

    FAST_ASSERT(p->part_count > 0);
    p->base.flops_forward = first->flops_forward;
    p->base.flops_train = first->flops_train;
    p->base.flops_again = first->flops_again;
    p->base.segments = first->segments;
    p->base.memory = own_bytes(&p->base);
    p->base.plan_hash = fast__hash(p->kinds, (size_t)p->part_count, first->plan_hash);
    for (int k = 0; k < FAST_MICRO_KINDS && p->programs[k]; k++) {
        p->base.memory += p->programs[k]->memory;
        short_of |= p->programs[k]->memory_least > 0;
        least += p->programs[k]->memory_least > 0 ? p->programs[k]->memory_least
                                                  : p->programs[k]->memory;
        p->base.plan_hash =
            fast__hash(&p->programs[k]->batch, sizeof p->programs[k]->batch, p->base.plan_hash);
        p->base.plan_hash ^= p->programs[k]->plan_hash;
    }
    p->base.memory_least = short_of ? least : 0;
}

fast_err fast__micro_compile(const fast_engine *engine, const fast_graph *graph,
                             const fast_engine_options *options, const int64_t *parts,
                             int part_count, fast_program **out)
{
    micro_program *p = NULL;
    fast_err err;

    FAST_ASSERT(part_count > 0 && part_count <= FAST_MICRO_PARTS_MAX);
    FAST_TRY(fast__alloc("a program of micro-batches", 1, sizeof *p, &p));
    p->base = (fast_program){ .engine = &micro_engine, .graph = graph, .batch = options->batch };
    p->base.micro_batches = p->part_count = part_count;
    p->train = options->train;
    p->kind_count = 1;
    for (int k = 1; k < part_count; k++)
        if (parts[k] != parts[0])
            p->kind_count = FAST_MICRO_KINDS;
    err = fast__alloc("sizes of micro-batches", part_count, sizeof *p->kinds, &p->kinds);
    for (int k = 0; k < part_count && !err; k++)
        err = find_kind(p, engine, options, parts[k], &p->kinds[k]);
    if (err) {
        micro_program_free(&p->base);
        return err;
    }
    sum_up(p);
    *out = &p->base;
    return FAST_OK;
}
