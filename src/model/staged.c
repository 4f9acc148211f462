/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The learner of a stage. A micro-batch in flight has a slot: a workspace, and at the first stage a
 * copy of its samples, since a loader lends a batch until the next one only.
 *
 *     forward     batch or activations that arrived -> activations that leave, or the loss
 *     backward    gradient that arrived, or the loss's -> gradient that leaves, and g
 *
 * The gradients of a step's micro-batches are added in the canonical order and scaled once, as a
 * whole model that accumulates them does: a split model has the same bits as far as its engine has.
 *
 * Memory: `slots` workspaces, w, g and s of the stage, log2 M gradients more with M micro-batches.
 */
#include "model/staged.h"

#include "base/memory.h"
#include "model/mapped_pass.h"
#include "tensor/tree_sum.h"
#include "tensor/vector.h"

#include <string.h>

/* A micro-batch in flight. */
typedef struct staged_slot {
    fast_workspace *workspace; /* its activations */
    float *x;                  /* [batch][inputs] at the first stage; else NULL */
    int64_t count;             /* samples */
} staged_slot;

/* A learner with slots instead of one workspace. */
typedef struct staged_learner {
    fast_learner base;           /* first: the contract's pointers convert */
    fast_staged_options options; /* the caller's options; all pointers borrowed */
    staged_slot *slots;          /* [options.slots] */
    fast_tree_sum fold;          /* of micro-batches' gradients; unused if there is one */
} staged_learner;

/* The context of a step's last backward pass. */
typedef struct staged_last {
    staged_learner *self;         /* whose gradient it is */
    const fast_stage_pass *asked; /* its report is called */
} staged_last;

/* A range of the last micro-batch is final, and so is the mean of all. */
static void fold_range(void *ctx, int64_t offset, int64_t count)
{
    const staged_last *last = ctx;
    staged_learner *self = last->self;

    fast__tree_sum_finish(&self->fold, offset, count);
    fast__vector_scale(count, 1.0f / (float)self->fold.total, self->base.g + offset);
    if (last->asked->report)
        last->asked->report(last->asked->ctx, offset, count);
}

/* The samples of a micro-batch, as far as this stage needs them. */
static fast_err load(const staged_learner *self, const fast_stage_pass *asked, staged_slot *slot,
                     fast_batch *batch)
{
    const fast_program *program = self->options.program;
    const fast_batch *lent = NULL;

    *batch = (fast_batch){ .count = program->batch, .x = asked->inputs };
    if (self->options.loader) {
        FAST_TRY(fast__loader_get(self->options.loader, asked->number, &lent));
        batch->count = lent->count;
        batch->ids = lent->ids;
    }
    if (self->options.last) {
        batch->labels = lent->labels;
        batch->targets = lent->targets;
    }
    if (self->options.first) {
        memcpy(slot->x, lent->x,
               (size_t)(lent->count * program->graph->nodes[0].count) * sizeof *slot->x);
        batch->x = slot->x;
    }
    slot->count = batch->count;
    return FAST_OK;
}

/* The forward pass of a micro-batch. */
static fast_err run_forward(const staged_learner *self, fast_stage_pass *asked, fast_pass *pass)
{
    staged_slot *slot = &self->slots[asked->slot];
    fast_batch batch;

    FAST_TRY(load(self, asked, slot, &batch));
    pass->phase = FAST_PASS_FORWARD;
    pass->batch = &batch;
    pass->outputs = asked->outputs;
    FAST_TRY(fast__mapped_run(self->options.program, slot->workspace, pass));
    asked->loss = self->options.last ? pass->loss : 0;
    asked->correct = self->options.last ? pass->correct : 0;
    asked->positions = self->options.last ? pass->positions : 0;
    asked->flops = self->options.program->flops_forward * (double)batch.count;
    return FAST_OK;
}

/* The backward pass of a micro-batch, into the step's mean. */
static fast_err run_backward(staged_learner *self, fast_stage_pass *asked, fast_pass *pass)
{
    const fast_program *program = self->options.program;
    const staged_slot *slot = &self->slots[asked->slot];
    const fast_batch batch = { .count = slot->count,
                               .x = self->options.first ? slot->x : asked->inputs };
    const int64_t parts = self->base.parts, part = asked->number % parts;
    staged_last last = { self, asked };

    if (parts > 1 && part == 0)
        fast__tree_sum_clear(&self->fold);
    pass->phase = FAST_PASS_BACKWARD;
    pass->batch = &batch;
    pass->grad = parts > 1 ? fast__tree_sum_next(&self->fold) : self->base.g;
    pass->outputs_grad = asked->outputs_grad;
    pass->inputs_grad = asked->inputs_grad;
    pass->report = parts == 1 ? asked->report : part == parts - 1 ? fold_range : NULL;
    pass->ctx = parts == 1 ? asked->ctx : &last;
    FAST_TRY(fast__mapped_run(program, slot->workspace, pass));
    if (part < parts - 1)
        fast__tree_sum_put(&self->fold);
    asked->flops = (program->flops_train - program->flops_forward) * (double)batch.count;
    return FAST_OK;
}

/* The contract's stage(). */
static fast_err staged_stage(fast_learner *learner, fast_stage_pass *asked)
{
    staged_learner *self = (staged_learner *)learner;
    fast_pass pass = { .params = asked->w,
                       .state = learner->s,
                       .train = true,
                       .seed = self->options.seed,
                       .step = (uint64_t)(asked->number / learner->parts) };

    FAST_ASSERT(asked->slot >= 0 && asked->slot < self->options.slots);
    FAST_ASSERT((asked->inputs == NULL) == self->options.first);
    FAST_ASSERT(asked->number >= 0);
    const fast_err err =
        asked->backward ? run_backward(self, asked, &pass) : run_forward(self, asked, &pass);
    asked->samples = self->slots[asked->slot].count;
    return err;
}

/* The contract's gradient(): a stage has none of its own. */
static fast_err staged_gradient(fast_learner *learner, fast_gradient *gradient)
{
    FAST_ASSERT(learner->slots > 0);
    (void)gradient;
    return fast__fail(FAST_ENOTSUP, "a stage of a split model has no gradient of one micro-batch");
}

/* The contract's evaluate(): the whole model is evaluated. */
static fast_err staged_evaluate(fast_learner *learner, fast_evaluation *inout)
{
    FAST_ASSERT(learner->slots > 0);
    (void)inout;
    return fast__fail(FAST_ENOTSUP, "a stage of a split model cannot be evaluated by itself");
}

/* Free the vectors and the slots; everything in `options` is borrowed. */
static void staged_free(fast_learner *learner)
{
    staged_learner *self = (staged_learner *)learner;

    if (!learner)
        return;
    for (int64_t i = 0; self->slots && i < self->options.slots; i++) {
        self->options.program->engine->workspace_free(self->slots[i].workspace);
        fast__free(self->slots[i].x);
    }
    fast__free(self->slots);
    fast__tree_sum_fini(&self->fold);
    fast__vector_free(learner->w);
    fast__vector_free(learner->g);
    fast__vector_free(learner->s);
    fast__free(learner);
}

static const fast_learner_ops staged_ops = {
    .name = "stage",
    .gradient = staged_gradient,
    .evaluate = staged_evaluate,
    .stage = staged_stage,
    .free = staged_free,
};

/* Allocate the vectors and the slots. */
static fast_err fill(staged_learner *self)
{
    const fast_staged_options *o = &self->options;
    const fast_device *device = o->device ? o->device : &fast__host;
    const fast_program *program = o->program;
    const fast_graph *graph = program->graph;
    fast_learner *base = &self->base;

    FAST_TRY(fast__vector_new(device, "the parameters", graph->params.count, &base->w));
    FAST_TRY(fast__vector_new(device, "the gradients", graph->params.count, &base->g));
    FAST_TRY(fast__vector_new(device, "the state", graph->state.count, &base->s));
    FAST_TRY(fast__alloc("micro-batches", o->slots, sizeof *self->slots, &self->slots));
    for (int64_t i = 0; i < o->slots; i++) {
        FAST_TRY(program->engine->workspace_new(program, &self->slots[i].workspace));
        if (o->first)
            FAST_TRY(fast__alloc("samples of a micro-batch", program->batch * graph->nodes[0].count,
                                 sizeof(float), &self->slots[i].x));
    }
    if (base->parts > 1)
        FAST_TRY(fast__tree_sum_init(&self->fold, graph->params.count, base->parts, base->g));
    return FAST_OK;
}

fast_err fast__staged_new(const fast_staged_options *options, fast_learner **out)
{
    const fast_program *program = options->program;
    const fast_graph *graph = program->graph;
    staged_learner *self = NULL;

    FAST_ASSERT(options->slots >= 1);
    FAST_ASSERT(options->loader != NULL || (!options->first && !options->last));
    FAST_TRY(fast__alloc("a learner", 1, sizeof *self, &self));
    self->options = *options;
    self->base = (fast_learner){ .ops = &staged_ops,
                                 .params = graph->params,
                                 .state = graph->state,
                                 .epoch_steps = options->model->epoch_steps,
                                 .own_samples = options->model->own_samples,
                                 .batch = options->model->batch,
                                 .parts = options->accumulate > 1 ? options->accumulate : 1,
                                 .slots = options->slots };
    self->base.flops = program->flops_train * (double)(program->batch * self->base.parts);
    if (!options->first)
        self->base.inputs = program->batch * graph->nodes[0].count;
    if (!options->last)
        self->base.outputs = program->batch * graph->nodes[graph->node_count - 1].count;
    const fast_err err = fill(self);
    if (err) {
        staged_free(&self->base);
        return err;
    }
    *out = &self->base;
    return FAST_OK;
}
