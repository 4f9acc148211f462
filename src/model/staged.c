/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The learner of a stage. A micro-batch in flight has a slot: workspaces, and at the first stage a
 * copy of its samples, since a loader lends a batch until the next one only.
 *
 *     forward     batch or activations that arrived -> activations that leave, or the loss
 *     backward    gradient that arrived, or the loss's -> gradient that leaves, and g
 *
 * A stage whose tensors are split over shards is a chain of sections: the caller runs one after the
 * other and sums what is partial in between, in place, so that the next section reads the sum.
 *
 *     slot    x | section 0 | y | section 1 | y | section 2      a workspace for each section
 *     shared             dx |            dx |                    of one backward pass
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

/* One section of a micro-batch in flight. */
typedef struct staged_activations {
    fast_workspace *workspace; /* of the section */
    float *y;                  /* [batch][outputs] that the next section reads; NULL at the last */
} staged_activations;

/* A micro-batch in flight. */
typedef struct staged_slot {
    staged_activations *sections; /* [section_count] */
    float *x;                     /* [batch][inputs] at the first stage; else NULL */
    int64_t count;                /* samples */
} staged_slot;

/* A learner with slots instead of one workspace. */
typedef struct staged_learner {
    fast_learner base;             /* first: the contract's pointers convert */
    fast_staged_options options;   /* the caller's options; all pointers borrowed */
    fast_staged_section *sections; /* a copy of the options' */
    staged_slot *slots;            /* [options.slots] */
    float **dx;                    /* [section_count]: gradient of a section's inputs; 0: NULL */
    fast_tree_sum fold;            /* of micro-batches' gradients; unused if there is one */
} staged_learner;

/* The context of a backward pass that reports. */
typedef struct staged_report {
    staged_learner *self;         /* whose gradient it is */
    const fast_stage_pass *asked; /* its report is called */
    int64_t offset;               /* of the section's parameters */
} staged_report;

/* A range of a section's gradient is final, and so is the mean of all micro-batches. */
static void report_range(void *ctx, int64_t offset, int64_t count)
{
    const staged_report *report = ctx;
    staged_learner *self = report->self;
    const int64_t at = report->offset + offset;

    if (self->base.parts > 1) {
        fast__tree_sum_finish(&self->fold, at, count);
        fast__vector_scale(count, 1.0f / (float)self->fold.total, self->base.g + at);
    }
    if (report->asked->report)
        report->asked->report(report->asked->ctx, at, count);
}

/* The samples and floats that a section's pass reads and writes. */
typedef struct staged_ends {
    const float *inputs; /* NULL: the batch's */
    float *outputs;      /* NULL: they are the loss's */
    int64_t input_count; /* floats of a micro-batch */
    int64_t output_count;
} staged_ends;

/* Find the ends of a section. */
static staged_ends ends_of(const staged_learner *self, const fast_stage_pass *asked)
{
    const int64_t k = asked->section, last = self->options.section_count - 1;
    const staged_slot *slot = &self->slots[asked->slot];
    const fast_program *program = self->sections[k].program;
    const fast_graph *graph = program->graph;

    return (staged_ends){
        .inputs = k > 0                 ? slot->sections[k - 1].y
                  : self->options.first ? slot->x
                                        : asked->inputs,
        .outputs = k < last ? slot->sections[k].y : asked->outputs,
        .input_count = slot->count * graph->nodes[0].count,
        .output_count = slot->count * graph->nodes[graph->node_count - 1].count,
    };
}

/* The samples of a micro-batch, as far as this section needs them. */
static fast_err load(const staged_learner *self, const fast_stage_pass *asked, staged_slot *slot,
                     fast_batch *batch)
{
    const fast_program *program = self->sections[0].program;
    const bool last = asked->section == self->options.section_count - 1;
    const fast_batch *lent = NULL;

    *batch = (fast_batch){ .count = program->batch };
    if (self->options.loader) {
        FAST_TRY(fast__loader_get(self->options.loader, asked->number, &lent));
        batch->count = lent->count;
        batch->ids = lent->ids;
    }
    if (self->options.last && last) {
        batch->labels = lent->labels;
        batch->targets = lent->targets;
    }
    if (self->options.first && asked->section == 0)
        memcpy(slot->x, lent->x,
               (size_t)(lent->count * program->graph->nodes[0].count) * sizeof *slot->x);
    slot->count = batch->count;
    return FAST_OK;
}

/* The forward pass of a section. */
static fast_err run_forward(const staged_learner *self, fast_stage_pass *asked, fast_pass *pass)
{
    const fast_staged_section *section = &self->sections[asked->section];
    staged_slot *slot = &self->slots[asked->slot];
    fast_batch batch;

    FAST_TRY(load(self, asked, slot, &batch));
    const staged_ends ends = ends_of(self, asked);
    batch.x = ends.inputs;
    pass->phase = FAST_PASS_FORWARD;
    pass->batch = &batch;
    pass->outputs = ends.outputs;
    FAST_TRY(fast__mapped_run(section->program, slot->sections[asked->section].workspace, pass));
    const bool counts = batch.labels || batch.targets;
    asked->loss = counts ? pass->loss : 0;
    asked->correct = counts ? pass->correct : 0;
    asked->positions = counts ? pass->positions : 0;
    asked->flops = section->program->flops_forward * (double)batch.count;
    if (section->summed) {
        asked->sum = ends.outputs;
        asked->sum_count = ends.output_count;
    }
    return FAST_OK;
}

/* The backward pass of a section, into the step's mean. */
static fast_err run_backward(staged_learner *self, fast_stage_pass *asked, fast_pass *pass)
{
    const int64_t k = asked->section, last = self->options.section_count - 1;
    const fast_staged_section *section = &self->sections[k];
    const staged_slot *slot = &self->slots[asked->slot];
    const staged_ends ends = ends_of(self, asked);
    const fast_batch batch = { .count = slot->count, .x = ends.inputs };
    const int64_t parts = self->base.parts, part = asked->number % parts;
    staged_report report = { self, asked, section->params_offset };

    if (parts > 1 && part == 0 && k == last)
        fast__tree_sum_clear(&self->fold);
    pass->phase = FAST_PASS_BACKWARD;
    pass->batch = &batch;
    pass->grad =
        (parts > 1 ? fast__tree_sum_next(&self->fold) : self->base.g) + section->params_offset;
    pass->outputs_grad = k == last ? asked->outputs_grad : self->dx[k + 1];
    pass->inputs_grad = k == 0 ? asked->inputs_grad : self->dx[k];
    pass->report = part == parts - 1 ? report_range : NULL;
    pass->ctx = &report;
    FAST_TRY(fast__mapped_run(section->program, slot->sections[k].workspace, pass));
    if (part < parts - 1 && k == 0)
        fast__tree_sum_put(&self->fold);
    asked->flops =
        (section->program->flops_train - section->program->flops_forward) * (double)batch.count;
    if (section->summed && pass->inputs_grad) {
        asked->sum = pass->inputs_grad;
        asked->sum_count = ends.input_count;
    }
    return FAST_OK;
}

/* The contract's stage(). */
static fast_err staged_stage(fast_learner *learner, fast_stage_pass *asked)
{
    staged_learner *self = (staged_learner *)learner;
    const fast_staged_section *section = &self->sections[asked->section];
    fast_pass pass = { .params = asked->w + section->params_offset,
                       .state = learner->s + section->state_offset,
                       .train = true,
                       .seed = self->options.seed,
                       .step = (uint64_t)(asked->number / learner->parts) };

    FAST_ASSERT(asked->slot >= 0 && asked->slot < self->options.slots);
    FAST_ASSERT((asked->inputs == NULL) == self->options.first);
    FAST_ASSERT(asked->number >= 0);
    asked->sum = NULL;
    asked->sum_count = 0;
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

/* Free what a micro-batch in flight has. */
static void free_slot(const staged_learner *self, const staged_slot *slot)
{
    for (int64_t k = 0; slot->sections && k < self->options.section_count; k++) {
        self->sections[k].program->engine->workspace_free(slot->sections[k].workspace);
        fast__free(slot->sections[k].y);
    }
    fast__free(slot->sections);
    fast__free(slot->x);
}

/* Free the vectors and the slots; everything in `options` is borrowed. */
static void staged_free(fast_learner *learner)
{
    staged_learner *self = (staged_learner *)learner;

    if (!learner)
        return;
    for (int64_t i = 0; self->slots && i < self->options.slots; i++)
        free_slot(self, &self->slots[i]);
    for (int64_t k = 0; self->dx && k < self->options.section_count; k++)
        fast__free(self->dx[k]);
    fast__free(self->dx);
    fast__free(self->slots);
    fast__free(self->sections);
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

/* Floats of a micro-batch at the first and the last node of a section. */
static int64_t floats_in(const fast_staged_section *section)
{
    return section->program->batch * section->program->graph->nodes[0].count;
}

static int64_t floats_out(const fast_staged_section *section)
{
    const fast_graph *graph = section->program->graph;

    return section->program->batch * graph->nodes[graph->node_count - 1].count;
}

/* Allocate what a micro-batch in flight has. */
static fast_err fill_slot(const staged_learner *self, staged_slot *slot)
{
    const int64_t count = self->options.section_count;

    if (self->options.first)
        FAST_TRY(fast__alloc("samples of a micro-batch", floats_in(&self->sections[0]),
                             sizeof(float), &slot->x));
    FAST_TRY(fast__alloc("sections", count, sizeof *slot->sections, &slot->sections));
    for (int64_t k = 0; k < count; k++) {
        const fast_staged_section *section = &self->sections[k];

        FAST_TRY(section->program->engine->workspace_new(section->program,
                                                         &slot->sections[k].workspace));
        if (k < count - 1)
            FAST_TRY(fast__alloc("activations between sections", floats_out(section), sizeof(float),
                                 &slot->sections[k].y));
    }
    return FAST_OK;
}

/* Allocate the vectors and the slots. */
static fast_err fill(staged_learner *self)
{
    const fast_staged_options *o = &self->options;
    const fast_device *device = o->device ? o->device : &fast__host;
    fast_learner *base = &self->base;

    FAST_TRY(fast__alloc("sections", o->section_count, sizeof *self->sections, &self->sections));
    memcpy(self->sections, o->sections, (size_t)o->section_count * sizeof *self->sections);
    FAST_TRY(fast__vector_new(device, "the parameters", base->params.count, &base->w));
    FAST_TRY(fast__vector_new(device, "the gradients", base->params.count, &base->g));
    FAST_TRY(fast__vector_new(device, "the state", base->state.count, &base->s));
    FAST_TRY(fast__alloc("micro-batches", o->slots, sizeof *self->slots, &self->slots));
    for (int64_t i = 0; i < o->slots; i++)
        FAST_TRY(fill_slot(self, &self->slots[i]));
    FAST_TRY(
        fast__alloc("gradients between sections", o->section_count, sizeof *self->dx, &self->dx));
    for (int64_t k = 1; k < o->section_count; k++)
        FAST_TRY(fast__alloc("gradients between sections", floats_in(&self->sections[k]),
                             sizeof(float), &self->dx[k]));
    if (base->parts > 1)
        FAST_TRY(fast__tree_sum_init(&self->fold, base->params.count, base->parts, base->g));
    return FAST_OK;
}

fast_err fast__staged_new(const fast_staged_options *options, fast_learner **out)
{
    const int64_t parts = options->accumulate > 1 ? options->accumulate : 1;
    const fast_staged_section *first = options->sections,
                              *last = first + options->section_count - 1;
    staged_learner *self = NULL;
    double flops = 0;

    FAST_ASSERT(options->slots >= 1 && options->section_count >= 1);
    FAST_ASSERT(options->loader != NULL || (!options->first && !options->last));
    for (int64_t k = 0; k < options->section_count; k++)
        flops += options->sections[k].program->flops_train;
    FAST_TRY(fast__alloc("a learner", 1, sizeof *self, &self));
    self->options = *options;
    self->base = (fast_learner){ .ops = &staged_ops,
                                 .params = options->params,
                                 .state = options->state,
                                 .epoch_steps = options->model->epoch_steps,
                                 .own_samples = options->model->own_samples,
                                 .batch = options->model->batch,
                                 .flops = flops * (double)(first->program->batch * parts),
                                 .parts = parts,
                                 .sections = options->section_count,
                                 .slots = options->slots,
                                 .inputs = options->first ? 0 : floats_in(first),
                                 .outputs = options->last ? 0 : floats_out(last) };
    const fast_err err = fill(self);
    if (err) {
        staged_free(&self->base);
        return err;
    }
    *out = &self->base;
    return FAST_OK;
}
