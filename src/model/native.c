/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The native learner: a graph's parameters, an engine's program, a loader's batches. It owns the
 * vectors w, g and s, one block each; everything else is borrowed. A step allocates nothing.
 *
 * Accumulation. With K micro-batches g is their mean: their gradients are added in the canonical
 * order, as those of K workers would be, and the sum is scaled once. This takes about log2 K
 * vectors more. During the last micro-batch each range is summed and scaled, then reported.
 *
 *     step n, K = 2      batch 2 n      -> row 0 of the sum
 *                        batch 2 n + 1  -> row 1; each range that is final: row 0 += row 1,
 *                                          times 1/2, report
 *
 * Distillation. With teachers the loss of a batch is (1 - share) times that of the data's answers y
 * plus share T^2 times the cross-entropy of softmax(z / T) and the mean P of the teachers'
 * predictions at the same temperature T (Hinton et al. 2015): a forward pass for each teacher. Its
 * gradient by the outputs z is that of the plain cross-entropy with the targets
 *
 *     q = (1 - share) y + share (softmax(z) - T softmax(z / T) + T P)
 *
 * which are (1 - share) y + share P for T = 1; for other T one more forward pass gives z.
 *
 * Devices. w, g and s are on the run's device, and a pass runs on mapped vectors (mapped_pass.c).
 *
 * Rows. A gradient reads of an embedding only the rows of its batch's tokens. Batches are a
 * function of their number, so that the rows of any later batch can be told without computing.
 *
 * Workspaces. Learners of one process may share them: a pass takes a free one and returns it. There
 * are as many as threads that compute at once, so one is always free.
 */
#include "model/native.h"

#include "base/memory.h"
#include "learner/figures.h"
#include "model/mapped_pass.h"
#include "model/network.h"
#include "tensor/tree_sum.h"
#include "tensor/vector.h"

#include <math.h>

enum { FACTOR_PAD = 16 }; /* samples that an engine may pad to */

typedef struct native_learner {
    fast_learner base;
    fast_native_options options; /* the caller's options; all pointers borrowed */
    fast_teachers teachers;      /* distillation teachers; count 0 without */
    float *taught;      /* [batch][outputs]: targets mixed with the teachers' outputs; or NULL */
    float *outputs;     /* [batch][outputs]: of one teacher, or of an evaluation; or NULL */
    float *own;         /* [batch][outputs]: the student's outputs; NULL: its temperature is 1 */
    float *spare;       /* [state]: what the pass that computes them may write; or NULL */
    fast_batch soft;    /* the batch with these targets */
    fast_tree_sum fold; /* of micro-batches' gradients; unused if there is one */
} native_learner;

/* A workspace for one pass. There are as many as learners that may compute at once, so one is free.
 * */
static fast_workspace *workspace_take(const native_learner *self, int *i_out)
{
    fast_workspaces *all = self->options.workspaces;

    *i_out = -1;
    if (!all)
        return self->options.late ? *self->options.late : self->options.workspace;
    for (;;) {
        unsigned long long free = atomic_load(&all->free);

        FAST_ASSERT(free != 0);
        *i_out = __builtin_ctzll(free);
        if (atomic_compare_exchange_weak(&all->free, &free, free & (free - 1)))
            return all->list[*i_out];
    }
}

/* Return a workspace. */
static void workspace_give(const native_learner *self, int i)
{
    if (i >= 0)
        atomic_fetch_or(&self->options.workspaces->free, 1ULL << i);
}

/* Run a pass on a free workspace. */
static fast_err run_pass(const native_learner *self, fast_pass *pass)
{
    const fast_native_options *o = &self->options;
    int i;

    if (o->late && !*o->late)
        FAST_TRY(o->engine->workspace_new(o->program, o->late));
    fast_workspace *workspace = workspace_take(self, &i);
    const fast_err err = fast__mapped_run(self->options.program, workspace, pass);

    workspace_give(self, i);
    return err;
}

/* Return the data's answer k of a row, weighted by the share that remains to them. */
static float answer_of(const native_learner *self, const fast_batch *batch, int64_t r, int64_t k)
{
    const int64_t outputs = self->options.graph->outputs;
    const float rest = (float)(1 - self->teachers.share);

    if (batch->labels)
        return batch->labels[r] == k ? rest : 0;
    return batch->targets ? rest * batch->targets[r * outputs + k] : 0;
}

/* Set the targets to the data's answers. */
static void put_labels(native_learner *self, const fast_batch *batch)
{
    const int64_t outputs = self->options.graph->outputs;
    const int64_t rows = batch->count * self->options.graph->positions;

    for (int64_t i = 0; i < rows * outputs; i++)
        self->taught[i] = answer_of(self, batch, i / outputs, i % outputs);
}

/* Add a row of a teacher's outputs with a weight: probabilities at the temperature, or values. */
static void add_row(const native_learner *self, const float *z, float weight, float *sum)
{
    const fast_graph *graph = self->options.graph;
    const double t = self->teachers.temperature;
    double total = 0, max = (double)z[0];

    for (int64_t k = 1; k < graph->outputs; k++)
        max = fmax(max, (double)z[k]);
    for (int64_t k = 0; k < graph->outputs; k++)
        total += exp(((double)z[k] - max) / t);
    for (int64_t k = 0; k < graph->outputs; k++)
        sum[k] += weight * (graph->loss == FAST_LOSS_CROSS_ENTROPY
                                ? (float)(exp(((double)z[k] - max) / t) / total)
                                : z[k]);
}

/* log sum_k exp(z_k / t), for outputs of any size. */
static double log_total(int64_t n, const float *z, double t)
{
    double total = 0, max = (double)z[0];

    for (int64_t k = 1; k < n; k++)
        max = fmax(max, (double)z[k]);
    for (int64_t k = 0; k < n; k++)
        total += exp(((double)z[k] - max) / t);
    return log(total) + max / t;
}

/* The temperature in the student's outputs: change the targets (1 - share) y + share P of row r to
 * q of the formula above, and return the row's loss; *right_out: its largest output is that of the
 * targets. */
static double soften_row(native_learner *self, const fast_batch *batch, int64_t r, bool *right_out)
{
    const int64_t n = self->options.graph->outputs;
    const double t = self->teachers.temperature, share = self->teachers.share;
    const float *z = self->own + r * n;
    float *q = self->taught + r * n;
    const double plain = log_total(n, z, 1), soft = log_total(n, z, t);
    int64_t wanted = 0, largest = 0;
    double loss = 0;

    for (int64_t k = 0; k < n; k++) {
        wanted = q[k] > q[wanted] ? k : wanted;
        largest = z[k] > z[largest] ? k : largest;
    }
    *right_out = wanted == largest;
    for (int64_t k = 0; k < n; k++) {
        const double y = (double)answer_of(self, batch, r, k), taught = (double)q[k] - y;
        const double log_plain = (double)z[k] - plain, log_soft = (double)z[k] / t - soft;

        loss -= y * log_plain + t * t * taught * log_soft;
        q[k] = (float)(y + share * (exp(log_plain) - t * exp(log_soft)) + t * taught);
    }
    return loss;
}

/* Compute the student's outputs as the gradient's pass will, and soften all rows; the pass's loss
 * and `correct` are stored for that pass. */
static fast_err soften_student(native_learner *self, const fast_pass *pass, const fast_batch *batch,
                               fast_pass *figures)
{
    fast_pass ask = { .params = pass->params,
                      .state = self->spare,
                      .batch = batch,
                      .train = true,
                      .seed = pass->seed,
                      .step = pass->step,
                      .outputs = self->own };
    const int64_t rows = batch->count * self->options.graph->positions;

    fast__vector_copy(self->base.state.count, pass->state, self->spare);
    FAST_TRY(run_pass(self, &ask));
    for (int64_t r = 0; r < rows; r++) {
        bool right;

        figures->loss += soften_row(self, batch, r, &right) / (double)rows;
        figures->correct += right;
    }
    return FAST_OK;
}

/* The outputs of a teacher that is a model of the same network. In evaluation a pass reads the
 * state and does not write it. */
static fast_err ask_model(native_learner *self, const float *model, const fast_batch *batch)
{
    fast_pass pass = { .params = model,
                       .state = (float *)model + self->options.graph->params.count,
                       .batch = batch,
                       .outputs = self->outputs };

    return run_pass(self, &pass);
}

/* Replace the batch's targets by a mixture with the teachers' mean prediction. */
static fast_err ask_teachers(native_learner *self, fast_pass *pass)
{
    const fast_graph *graph = self->options.graph;
    const fast_batch *batch = pass->batch;
    const int64_t size = graph->params.count + graph->state.count;
    const float weight = (float)(self->teachers.share / (double)self->teachers.count);

    put_labels(self, batch);
    for (int64_t m = 0; m < self->teachers.count; m++) {
        FAST_TRY(self->teachers.ask
                     ? self->teachers.ask(self->teachers.ctx, m, batch, self->outputs)
                     : ask_model(self, self->teachers.models + m * size, batch));
        for (int64_t r = 0; r < batch->count * graph->positions; r++)
            add_row(self, self->outputs + r * graph->outputs, weight,
                    self->taught + r * graph->outputs);
    }
    self->soft = *batch;
    self->soft.labels = NULL;
    self->soft.targets = self->taught;
    pass->batch = &self->soft;
    return FAST_OK;
}

/* The contract's teach(). */
static fast_err native_teach(fast_learner *learner, const fast_teachers *teachers)
{
    native_learner *self = (native_learner *)learner;
    const fast_graph *graph = self->options.graph;
    const int64_t count = self->options.program->batch * graph->positions * graph->outputs;

    FAST_ASSERT(teachers->temperature > 0 && teachers->share >= 0 && teachers->share <= 1);
    if (teachers->count > 0 && teachers->temperature != 1 && fast__graph_has_heads(graph))
        return fast__fail(FAST_ENOTSUP,
                          "the temperature %g softens the loss of the outputs, and this network "
                          "has heads, whose losses it would change; use temperature 1",
                          teachers->temperature);
    if (teachers->count > 0 && !self->taught)
        FAST_TRY(fast__alloc("taught targets", count, sizeof(float), &self->taught));
    const bool soft =
        teachers->count > 0 && teachers->temperature != 1 && graph->loss == FAST_LOSS_CROSS_ENTROPY;
    if (soft && !self->own) {
        FAST_TRY(fast__alloc("a spare state", graph->state.count + 1, sizeof(float), &self->spare));
        FAST_TRY(fast__alloc("a student's outputs", count, sizeof(float), &self->own));
    }
    if (teachers->count > 0 && !self->outputs)
        FAST_TRY(fast__alloc("a teacher's outputs", count, sizeof(float), &self->outputs));
    self->teachers = *teachers;
    return FAST_OK;
}

/* Run one pass over the loader's batch `number`, of step `step`; adds to the gradient's
 * measures. */
static fast_err run_part(native_learner *self, fast_gradient *gradient, int64_t number,
                         int64_t step, fast_pass *pass)
{
    const fast_program *program = self->options.program;
    const bool soft = self->own && self->teachers.count > 0 && self->teachers.temperature != 1;
    const int64_t own = self->teachers.ask ? 0 : self->teachers.count;
    const double asked = /* operations of forward passes besides, for a sample */
        program->flops_forward * (double)(own + soft) + (own ? 0 : self->teachers.flops);
    fast_pass figures = { .loss = 0 };

    pass->params = self->base.w;
    pass->state = self->base.s;
    pass->train = true;
    pass->seed = self->options.seed;
    pass->step = (uint64_t)step;
    FAST_TRY(fast__loader_get(self->options.loader, number, &pass->batch));
    const fast_batch *plain = pass->batch;
    if (self->teachers.count > 0)
        FAST_TRY(ask_teachers(self, pass));
    if (soft)
        FAST_TRY(soften_student(self, pass, plain, &figures));
    FAST_TRY(run_pass(self, pass));
    gradient->flops += asked * (double)pass->batch->count;
    gradient->loss += soft ? figures.loss : pass->loss;
    gradient->correct += soft ? figures.correct : pass->correct;
    gradient->positions += pass->positions;
    gradient->samples += pass->batch->count;
    gradient->flops += program->flops_train * (double)pass->batch->count;
    return FAST_OK;
}

/* The context of the last micro-batch. */
typedef struct native_last_part {
    native_learner *self;
    const fast_gradient *gradient; /* its callbacks are called */
} native_last_part;

/* A range of the last micro-batch is final, and so is the mean of all. */
static void fold_range(void *ctx, int64_t offset, int64_t count)
{
    const native_last_part *last = ctx;
    native_learner *self = last->self;

    fast__tree_sum_finish(&self->fold, offset, count);
    fast__vector_scale(count, 1.0f / (float)self->fold.total, self->base.g + offset);
    if (last->gradient->report)
        last->gradient->report(last->gradient->ctx, offset, count);
}

/* Forward the need of parameters; only the first micro-batch asks. */
static void need_range(void *ctx, int64_t offset, int64_t count)
{
    const native_last_part *last = ctx;

    last->gradient->need(last->gradient->ctx, offset, count);
}

/* Compute the mean gradient of all micro-batches. */
static fast_err run_parts(native_learner *self, fast_gradient *gradient)
{
    const int64_t parts = self->fold.total;
    native_last_part last = { self, gradient };

    fast__tree_sum_clear(&self->fold);
    for (int64_t i = 0; i < parts; i++) {
        const bool is_last = i == parts - 1;
        fast_pass pass = { .grad = fast__tree_sum_next(&self->fold),
                           .report = is_last ? fold_range : NULL,
                           .need = i == 0 && gradient->need ? need_range : NULL,
                           .ctx = &last };

        FAST_TRY(run_part(self, gradient, gradient->step * parts + i, gradient->step, &pass));
        if (!is_last)
            fast__tree_sum_put(&self->fold);
    }
    gradient->loss /= (double)parts;
    return FAST_OK;
}

/* The contract's gradient(). */
static fast_err native_gradient(fast_learner *learner, fast_gradient *gradient)
{
    native_learner *self = (native_learner *)learner;
    fast_pass pass = { .grad = learner->g,
                       .report = gradient->report,
                       .factor = gradient->factor,
                       .need = gradient->need,
                       .need_again = gradient->need_again,
                       .ctx = gradient->ctx };

    FAST_ASSERT(gradient->step >= 0 && learner->g != NULL);
    gradient->loss = 0;
    gradient->correct = 0;
    gradient->positions = 0;
    gradient->samples = 0;
    gradient->flops = 0;
    if (learner->parts > 1 && !gradient->alone)
        return run_parts(self, gradient);
    return run_part(self, gradient, gradient->step, gradient->step / learner->parts, &pass);
}

/* The contract's factorable(): dense layers without weight norm; none if a gradient is the mean of
 * several micro-batches. Engines may pad samples to whole vectors. */
static bool native_factorable(const fast_learner *learner, int64_t i, fast_factorable *out)
{
    const native_learner *self = (const native_learner *)learner;
    const fast_graph *graph = self->options.graph;
    const int64_t batch = self->options.program->batch;
    /* A pass in micro-batches offers no factors. */
    const bool one = learner->parts == 1 && self->options.program->micro_batches == 0;
    int64_t found = 0;

    for (int n = 0; n < graph->node_count && one; n++) {
        const fast_node *node = &graph->nodes[n];

        if (node->op != FAST_OP_DENSE || node->weight[FAST_W_GAIN] >= 0 || found++ < i)
            continue;
        const int64_t rows = fast__dense_shape(graph, n).rows;
        *out =
            (fast_factorable){ .segment = node->weight[FAST_W_WEIGHT],
                               .samples = batch * rows,
                               .rows = (batch + FACTOR_PAD - 1) / FACTOR_PAD * FACTOR_PAD * rows };
        return true;
    }
    return false;
}

/* The contract's reads(): the i-th range of parameters, and the operations before it is read. */
static bool native_reads(const fast_learner *learner, int64_t i, fast_reading *out)
{
    const native_learner *self = (const native_learner *)learner;
    const fast_graph *graph = self->options.graph;
    const double batch = (double)self->options.program->batch;
    double operations = 0;
    int64_t found = 0, offset, count;

    for (int n = 0; n < graph->node_count; n++) {
        if (fast__node_params(graph, n, &offset, &count) && found++ == i) {
            *out = (fast_reading){ offset, count, operations };
            return true;
        }
        operations += batch * fast__node_flops_forward(graph, n);
    }
    return false;
}

/* The contract's node(): operators are the nodes of the graph, and node 0 is the batch. The
 * operations are those of the matrix products, as textbooks count them, so that a pooling or a norm
 * has none. */
static bool native_node(const fast_learner *learner, int64_t i, fast_learner_node *out)
{
    const native_learner *self = (const native_learner *)learner;
    const fast_graph *graph = self->options.graph;

    _Static_assert((int)FAST_LEARNER_INPUTS_MAX >= (int)FAST_INPUTS_MAX, "all inputs fit");
    if (i < 0 || i >= graph->node_count)
        return false;
    const fast_node *node = &graph->nodes[i];
    *out = (fast_learner_node){ .operations = (double)self->options.program->batch *
                                              fast__node_flops_forward(graph, (int)i),
                                .input_count = node->input_count };
    if (!fast__node_params(graph, (int)i, &out->offset, &out->count))
        out->count = 0;
    for (int k = 0; k < node->input_count; k++)
        out->inputs[k] = node->inputs[k];
    return true;
}

/* Mark the rows of an embedding that a batch names; tokens are clamped to the table as the engines
 * do. */
static void mark_rows(const fast_segment *table, int64_t width, const fast_batch *batch,
                      int64_t tokens, fast_learner_report_fn *mark, void *ctx)
{
    const int64_t rows = table->count / width;

    for (int64_t i = 0; i < batch->count * tokens; i++) {
        const float x = batch->x[i];
        const int64_t row = !(x >= 0) ? 0 : x < (float)rows ? (int64_t)x : rows - 1;

        mark(ctx, table->offset + row * width, width);
    }
}

/* The contract's rows(): of an embedding of the input the rows of its tokens, of any other layer
 * all parameters. The batches are loaded as for a pass, and nothing is computed: a virtual
 * iteration. Rows that occur several times are marked several times. Positions, and embeddings of
 * computed values, are read whole: their rows are not known before the pass. */
static fast_err native_rows(fast_learner *learner, int64_t step, fast_learner_report_fn *mark,
                            void *ctx)
{
    native_learner *self = (native_learner *)learner;
    const fast_graph *graph = self->options.graph;

    for (int64_t i = 0; i < learner->parts; i++) {
        const fast_batch *batch = NULL;

        FAST_TRY(fast__loader_get(self->options.loader, step * learner->parts + i, &batch));
        for (int n = 0; n < graph->node_count; n++) {
            const fast_node *node = &graph->nodes[n];
            const bool embeds = node->op == FAST_OP_EMBED && node->inputs[0] == 0;
            int64_t offset, count;

            for (int k = 0; embeds && k < FAST_WEIGHTS_MAX; k++) {
                const fast_segment *s =
                    node->weight[k] < 0 ? NULL : &graph->params.segments[node->weight[k]];

                if (s && k == FAST_W_WEIGHT)
                    mark_rows(s, node->shape[1], batch, node->shape[0], mark, ctx);
                else if (s)
                    mark(ctx, s->offset, s->count);
            }
            if (!embeds && fast__node_params(graph, n, &offset, &count))
                mark(ctx, offset, count);
        }
    }
    return FAST_OK;
}

/* A pass is about to read a range of w. Vectors are not mapped meanwhile, so that no more than a
 * layer of a model on disk is in memory. */
static void forget_layers(void *ctx, int64_t offset, int64_t count)
{
    FAST_ASSERT(offset >= 0 && count >= 0);
    (void)ctx;
}

/* The contract's evaluate(). */
static fast_err native_evaluate(fast_learner *learner, fast_evaluation *inout)
{
    native_learner *self = (native_learner *)learner;
    fast_loader *loader = inout->validation ? self->options.validation : self->options.test;
    fast_figure_sums *figures = inout->figures;
    const bool classes = self->options.graph->loss == FAST_LOSS_CROSS_ENTROPY;
    double loss = 0;
    int64_t correct = 0;
    int64_t positions = 0;
    int64_t samples = 0;

    if (!loader)
        return fast__fail(FAST_ENOTSUP, "there is no %s set to evaluate on",
                          inout->validation ? "validation" : "test");
    /* Outputs are copied only for figures: the engine counts loss and accuracy by itself. */
    if (figures)
        fast__figures_clear(figures);
    for (int64_t i = 0; i < fast__loader_steps(loader); i++) {
        fast_pass pass = { .params = learner->w,
                           .state = learner->s,
                           .need = self->options.late ? forget_layers : NULL,
                           .outputs = figures ? self->outputs : NULL };
        FAST_TRY(fast__loader_get(loader, i, &pass.batch));
        FAST_TRY(run_pass(self, &pass));
        if (figures)
            fast__figures_add(figures, pass.batch->count * self->options.graph->positions,
                              self->outputs, pass.batch->labels, pass.batch->targets);
        loss += pass.loss * (double)pass.batch->count;
        correct += pass.correct;
        positions += pass.positions;
        samples += pass.batch->count;
    }
    FAST_ASSERT(samples > 0);
    inout->loss = loss / (double)samples;
    inout->accuracy = classes ? (double)correct / (double)positions : NAN;
    inout->samples = samples;
    return FAST_OK;
}

/* Free the vectors and the targets of teachers; everything in `options` is borrowed. */
static void native_free(fast_learner *learner)
{
    if (!learner)
        return;
    fast__tree_sum_fini(&((native_learner *)learner)->fold);
    fast__free(((native_learner *)learner)->taught);
    fast__free(((native_learner *)learner)->own);
    fast__free(((native_learner *)learner)->spare);
    fast__free(((native_learner *)learner)->outputs);
    if (!((native_learner *)learner)->options.w)
        fast__vector_free(learner->w);
    fast__vector_free(learner->g);
    fast__vector_free(learner->s);
    fast__free(learner);
}

static const fast_learner_ops native_ops = {
    .name = "native",
    .gradient = native_gradient,
    .evaluate = native_evaluate,
    .teach = native_teach,
    .factorable = native_factorable,
    .reads = native_reads,
    .node = native_node,
    .rows = native_rows,
    .free = native_free,
};

/* Allocate the vectors and draw the first parameters. Workers with one seed start with the same
 * bits. */
fast_err fast__native_new(const fast_native_options *options, fast_learner **out)
{
    const fast_graph *graph = options->graph;
    const fast_device *device = options->device ? options->device : &fast__host;
    native_learner *self = NULL;
    fast_err err = FAST_OK;

    FAST_ASSERT(options->engine != NULL);
    FAST_ASSERT(options->program != NULL);
    FAST_ASSERT((options->workspace != NULL) + (options->workspaces != NULL) +
                    (options->late != NULL) ==
                1);
    FAST_ASSERT(options->program->graph == graph);
    FAST_TRY(fast__alloc("a learner", 1, sizeof *self, &self));
    self->options = *options;
    self->base.ops = &native_ops;
    self->base.params = graph->params;
    self->base.moves = true;
    self->base.state = graph->state;
    self->base.parts = options->accumulate > 1 ? options->accumulate : 1;
    self->base.passes = self->base.parts *
                        (options->program->micro_batches > 1 ? options->program->micro_batches : 1);
    self->base.flops =
        options->program->flops_train * (double)options->program->batch * (double)self->base.parts;
    self->base.epoch_steps = options->loader ? fast__loader_steps(options->loader) : 0;
    if (options->loader)
        self->base.own_samples = fast__loader_own(options->loader, &self->base.batch);
    self->base.w = options->w;
    if (!options->w)
        err = fast__vector_new(device, "the parameters", graph->params.count, &self->base.w);
    if (!err && !options->late)
        err = fast__vector_new(device, "the gradients", graph->params.count, &self->base.g);
    if (!err)
        err = fast__vector_new(device, "the state", graph->state.count, &self->base.s);
    if (!err && (options->test || options->validation))
        err = fast__alloc("outputs of an evaluation",
                          options->program->batch * graph->positions * graph->outputs,
                          sizeof(float), &self->outputs);
    if (!err && self->base.parts > 1 && !options->late)
        err = fast__tree_sum_init(&self->fold, graph->params.count, self->base.parts, self->base.g);
    if (err) {
        native_free(&self->base);
        return err;
    }
    *out = &self->base;
    if (options->blank)
        return FAST_OK;
    fast__graph_init(graph, options->seed, 0,
                     fast__map(self->base.w, graph->params.count, FAST_ACCESS_UPDATE),
                     fast__map(self->base.s, graph->state.count, FAST_ACCESS_UPDATE));
    fast__unmap(self->base.s, graph->state.count, FAST_ACCESS_UPDATE);
    fast__unmap(self->base.w, graph->params.count, FAST_ACCESS_UPDATE);
    return FAST_OK;
}
