/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The native learner: a graph's parameters, an engine's program, a loader's batches. It owns the
 * vectors w, g and s, one block each; everything else is borrowed. A step allocates nothing.
 */
#include "model/native.h"

#include "base/memory.h"
#include "model/network.h"

#include <math.h>

typedef struct native {
    fast_learner base;
    fast_native_options options; /* all borrowed */
} native;

/* A workspace for one pass. There are as many as learners that may compute at once, so one is free.
 * */
static fast_workspace *workspace_take(const native *self, int *i_out)
{
    fast_workspaces *all = self->options.workspaces;

    *i_out = -1;
    if (!all)
        return self->options.workspace;
    for (;;) {
        unsigned long long free = atomic_load(&all->free);

        FAST_ASSERT(free != 0);
        *i_out = __builtin_ctzll(free);
        if (atomic_compare_exchange_weak(&all->free, &free, free & (free - 1)))
            return all->list[*i_out];
    }
}

static void workspace_give(const native *self, int i)
{
    if (i >= 0)
        atomic_fetch_or(&self->options.workspaces->free, 1ULL << i);
}

static fast_err run_pass(const native *self, fast_pass *pass)
{
    int i;
    fast_workspace *workspace = workspace_take(self, &i);
    const fast_err err = self->options.engine->run(self->options.program, workspace, pass);

    workspace_give(self, i);
    return err;
}

static fast_err native_gradient(fast_learner *learner, fast_gradient *gradient)
{
    native *self = (native *)learner;
    const fast_program_head *head = fast__program_head(self->options.program);
    fast_pass pass = { .params = learner->w,
                       .state = learner->s,
                       .grad = learner->g,
                       .train = true,
                       .seed = self->options.seed,
                       .step = (uint64_t)gradient->step,
                       .report = gradient->report,
                       .ctx = gradient->ctx };

    FAST_ASSERT(gradient->step >= 0);
    FAST_TRY(fast__loader_get(self->options.loader, gradient->step, &pass.batch));
    FAST_TRY(run_pass(self, &pass));
    gradient->loss = pass.loss;
    gradient->correct = pass.correct;
    gradient->positions = pass.positions;
    gradient->samples = pass.batch->count;
    gradient->flops = head->flops_train * (double)pass.batch->count;
    return FAST_OK;
}

static fast_err native_evaluate(fast_learner *learner, fast_evaluation *out)
{
    native *self = (native *)learner;
    const bool classes = self->options.graph->loss == FAST_LOSS_CROSS_ENTROPY;
    double loss = 0;
    int64_t correct = 0;
    int64_t positions = 0;
    int64_t samples = 0;

    if (!self->options.test)
        return fast__fail(FAST_ENOTSUP, "there is no test set to evaluate on");
    for (int64_t i = 0; i < fast__loader_steps(self->options.test); i++) {
        fast_pass pass = { .params = learner->w, .state = learner->s };
        FAST_TRY(fast__loader_get(self->options.test, i, &pass.batch));
        FAST_TRY(run_pass(self, &pass));
        loss += pass.loss * (double)pass.batch->count;
        correct += pass.correct;
        positions += pass.positions;
        samples += pass.batch->count;
    }
    FAST_ASSERT(samples > 0);
    *out = (fast_evaluation){ .loss = loss / (double)samples,
                              .accuracy = classes ? (double)correct / (double)positions : NAN,
                              .samples = samples };
    return FAST_OK;
}

static void native_free(fast_learner *learner)
{
    if (!learner)
        return;
    fast__free(learner->w);
    fast__free(learner->g);
    fast__free(learner->s);
    fast__free(learner);
}

static const fast_learner_ops native_ops = {
    .name = "native",
    .gradient = native_gradient,
    .evaluate = native_evaluate,
    .free = native_free,
};

fast_err fast__native_new(const fast_native_options *options, fast_learner **out)
{
    const fast_graph *graph = options->graph;
    native *self = NULL;
    fast_err err = FAST_OK;

    FAST_ASSERT(options->engine != NULL);
    FAST_ASSERT(options->program != NULL);
    FAST_ASSERT((options->workspace != NULL) != (options->workspaces != NULL));
    FAST_ASSERT(fast__program_head(options->program)->graph == graph);
    FAST_TRY(fast__alloc("a learner", 1, sizeof *self, &self));
    self->options = *options;
    self->base.ops = &native_ops;
    self->base.params = graph->params;
    self->base.state = graph->state;
    self->base.flops = fast__program_head(options->program)->flops_train *
                       (double)fast__program_head(options->program)->batch;
    self->base.epoch_steps = options->loader ? fast__loader_steps(options->loader) : 0;
    err = fast__alloc("the parameters", graph->params.count, sizeof(float), &self->base.w);
    if (!err)
        err = fast__alloc("the gradients", graph->params.count, sizeof(float), &self->base.g);
    if (!err)
        err = fast__alloc("the state", graph->state.count, sizeof(float), &self->base.s);
    if (err) {
        native_free(&self->base);
        return err;
    }
    fast__graph_init(graph, options->seed, self->base.w, self->base.s);
    *out = &self->base;
    return FAST_OK;
}
