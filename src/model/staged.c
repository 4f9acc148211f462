/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The learner of a stage. A micro-batch in flight has a slot: workspaces, and at the first stage a
 * copy of its samples, since a loader lends a batch until the next one only.
 *
 *     forward     batch or activations that arrived -> activations that leave, or the loss
 *     backward    gradient that arrived, or the loss's -> gradient that leaves, and g
 *
 * A backward pass may be divided: g is then computed by a pass of its own, later.
 *
 * A stage whose tensors are split over shards is a chain of sections: the caller runs one after the
 * other, and changes the layout of the values over the shards on the way (tensor/reshard.h):
 *
 *     slot     value | enter | x | section | y | leave | value | enter | ...
 *     shared   value | enter | dx| section | dy| leave | value |             of one backward pass
 *
 * x, dx and y, dy are memory of their own only where a layout changes; else they are the values. A
 * section of a slice of the samples has its own count of them. A section may retain the end of its
 * outputs at the shard; the section after next has that at the end of its inputs:
 *
 *     section k    y | retained      leave, section k + 1, enter      section k + 2    x | retained
 *
 * where the engine sees both in one, `joint`. A section may be run in parts (engine/pass_parts.h).
 *
 * The gradients of a step's micro-batches are added in the canonical order and scaled once, as a
 * whole model that accumulates them does: a split model has the same bits as far as its engine has.
 *
 * Memory: `slots` workspaces, log2 M gradients of the stage with M micro-batches.
 */
#include "model/staged.h"

#include "base/memory.h"
#include "engine/loss.h"
#include "engine/pass_parts.h"
#include "model/half_pass.h"
#include "model/mapped_pass.h"
#include "model/rounds.h"
#include "tensor/device.h"
#include "tensor/tree_sum.h"
#include "tensor/vector.h"

#include <string.h>

/* One section of a micro-batch in flight. */
typedef struct staged_activations {
    fast_workspace *workspace; /* of the section */
    float *x;                  /* inputs; NULL: the value before */
    float *y;                  /* outputs; NULL: the value behind */
    float *behind;             /* the value behind; NULL at the last: the stage's outputs */
    float *joint;              /* x, and what section k - 2 has retained; NULL if that is nothing */
} staged_activations;

/* Gradients of the same values, of one backward pass. */
typedef struct staged_gradients {
    float *dx;     /* of inputs; NULL: of the value before */
    float *dy;     /* of outputs; NULL: of the value behind */
    float *behind; /* of the value behind; NULL at the last */
    float *joint;  /* dx and retained: from the pass of this section to that of k - 2 */
    float *whole;  /* y or dy of a section that retains something, during its pass */
} staged_gradients;

/* A micro-batch in flight. */
typedef struct staged_slot {
    staged_activations *sections; /* [section_count] */
    float *x;                     /* [batch][inputs] at the first stage; else NULL */
    uint32_t *ids;   /* [batch] of the samples: masks are drawn again where activations are; NULL
                     without batches */
    int32_t *labels; /* [batch][labels of a sample], for heads; NULL: it has none */
    float *targets;  /* [batch][targets of a sample], for heads */
    bool labelled;   /* the batch has labels, not targets */
} staged_slot;

/* A learner with slots instead of one workspace. */
typedef struct staged_learner {
    fast_learner base;             /* first: the contract's pointers convert */
    fast_staged_options options;   /* the caller's options; all pointers borrowed */
    fast_staged_section *sections; /* a copy of the options' */
    staged_slot *slots;            /* [options.slots] */
    staged_gradients *gradients;   /* [section_count] */
    fast_rounds **rounds;          /* [section_count] NULL: the section is one pass, or its parts */
    int64_t *passes;               /* [section_count] of a section: its rounds, or parts */
    fast_pass_due due;             /* asked for by the last part of a section */
    fast_tree_sum fold;            /* of micro-batches' gradients; unused if there is one */
    int32_t *labels;               /* [batch][rows] of a section that has some of a sample's; NULL:
                                      none has */
    const fast_node *head;         /* the first one, whose answers all heads have; NULL: none */
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

/* Turn the number of a pass into that of its section, and return which of its rounds it is. */
static int64_t find_round(const staged_learner *self, int64_t *number)
{
    int64_t k = 0, round = *number;

    while (round >= self->passes[k])
        round -= self->passes[k++];
    FAST_ASSERT(k < self->options.section_count);
    *number = k;
    return round;
}

/* A value of a micro-batch in flight. */
static fast_reshard_value value_of(const staged_learner *self, const fast_reshard *how,
                                   fast_reshard_kind kind)
{
    return (fast_reshard_value){ how, kind, self->options.batch, self->options.shards };
}

/* Does a change of layout leave the value in its memory? */
static bool stays(fast_reshard_kind kind)
{
    return kind == FAST_RESHARD_NONE || kind == FAST_RESHARD_SUM;
}

/* The values around a section, and its inputs and outputs. */
typedef struct staged_ends {
    const float *before, *x; /* NULL before the batch: x is the batch's */
    float *y, *behind;       /* NULL: they are the loss's */
} staged_ends;

static staged_ends ends_of(const staged_learner *self, const fast_stage_pass *asked)
{
    const int64_t k = asked->section, last = self->options.section_count - 1;
    const staged_slot *slot = &self->slots[asked->slot];
    const staged_activations *own = &slot->sections[k];
    staged_ends ends = { .before = k > 0                 ? slot->sections[k - 1].behind
                                   : self->options.first ? slot->x
                                                         : asked->inputs,
                         .behind = k < last ? own->behind : asked->outputs };

    ends.x = own->x ? own->x : ends.before;
    ends.y = own->y ? own->y : ends.behind;
    return ends;
}

/* The gradients at both ends of a section. */
typedef struct staged_grad_ends {
    float *before, *dx;       /* NULL: nobody asks for them */
    const float *dy, *behind; /* NULL: the loss's */
} staged_grad_ends;

static staged_grad_ends grads_of(const staged_learner *self, const fast_stage_pass *asked)
{
    const int64_t k = asked->section, last = self->options.section_count - 1;
    const staged_gradients *own = &self->gradients[k];
    staged_grad_ends ends = { .before = k > 0 ? self->gradients[k - 1].behind : asked->inputs_grad,
                              .behind = k < last ? own->behind : asked->outputs_grad };

    ends.dx = own->dx && ends.before ? own->dx : ends.before;
    ends.dy = own->dy ? own->dy : ends.behind;
    return ends;
}

/* The exchange before a section, or behind it, in the order of the pass. What the batch's own
 * section enters by is done when it is loaded. */
static bool section_exchange(const staged_learner *self, const fast_stage_pass *pass, bool behind,
                             fast_stage_exchange *out)
{
    const fast_staged_section *section = &self->sections[pass->section];
    const staged_ends values = ends_of(self, pass);
    const staged_grad_ends grads = grads_of(self, pass);
    const fast_reshard *enter = &section->enter, *leave = &section->leave;

    if (pass->half == FAST_STAGE_WEIGHTS) /* values and their gradients are where they belong */
        return false;
    if (!pass->backward && !behind && !(self->options.first && pass->section == 0))
        *out = (fast_stage_exchange){ value_of(self, enter, enter->forward), values.before,
                                      (float *)(uintptr_t)values.x };
    else if (!pass->backward && behind)
        *out =
            (fast_stage_exchange){ value_of(self, leave, leave->forward), values.y, values.behind };
    else if (pass->backward && !behind)
        *out = (fast_stage_exchange){ value_of(self, leave, leave->backward), grads.behind,
                                      (float *)(uintptr_t)grads.dy };
    else if (pass->backward && grads.before)
        *out =
            (fast_stage_exchange){ value_of(self, enter, enter->backward), grads.dx, grads.before };
    else
        return false;
    return out->value.kind != FAST_RESHARD_NONE;
}

/* The exchange behind a part of a section, which its last pass has asked for. */
static bool part_exchange(const staged_learner *self, const fast_stage_pass *pass, bool behind,
                          fast_stage_exchange *out)
{
    if (!behind || self->due.node == 0)
        return false;
    const fast_node *node = &self->sections[pass->section].program->graph->nodes[self->due.node];
    const fast_reshard *how = node->exchange;
    const fast_reshard_kind kind = pass->backward ? how->backward : how->forward;

    *out = (fast_stage_exchange){ value_of(self, how, kind), self->due.from, self->due.to };
    out->value.samples = fast__exchange_samples(node, self->options.batch);
    return true;
}

/* The contract's exchange(): between rounds of a section blocks move, the first visitor's behind a
 * round and the second one's before the next; between its parts a node exchanges. */
static bool staged_exchange(const fast_learner *learner, const fast_stage_pass *asked, bool behind,
                            fast_stage_exchange *out)
{
    const staged_learner *self = (const staged_learner *)learner;
    fast_stage_pass pass = *asked;
    const int64_t round = find_round(self, &pass.section);
    const bool end = behind == pass.backward ? round == 0 : round == self->passes[pass.section] - 1;

    if (end)
        return section_exchange(self, &pass, behind, out);
    if (!self->rounds[pass.section])
        return part_exchange(self, &pass, behind, out);
    return fast__rounds_move(self->rounds[pass.section], pass.slot, pass.backward, behind ? 0 : 1,
                             out);
}

/* The samples of a micro-batch that a section runs on, from *first_out on. */
static int64_t samples_of(const staged_learner *self, int64_t section, int64_t *first_out)
{
    const int64_t t = self->options.shard, T = self->options.shards, count = self->options.batch;
    const bool split = self->sections[section].divided;

    *first_out = split ? t * count / T : 0;
    return split ? (t + 1) * count / T - *first_out : count;
}

/* Copy rows of `count` floats that are `from_row` and `to_row` floats apart. */
static void copy_rows(int64_t rows, int64_t count, const float *from, int64_t from_row, float *to,
                      int64_t to_row)
{
    for (int64_t r = 0; r < rows; r++)
        memcpy(to + r * to_row, from + r * from_row, (size_t)count * sizeof *to);
}

/* Elements of a sample of a section's inputs, or outputs. */
static int64_t inputs_of(const staged_learner *self, int64_t k)
{
    return self->sections[k].program->graph->nodes[0].count;
}

static int64_t outputs_of(const staged_learner *self, int64_t k)
{
    const fast_graph *graph = self->sections[k].program->graph;

    return graph->nodes[graph->node_count - 1].count;
}

/* Elements of a sample that section k has from section k - 2. */
static int64_t retained_before(const staged_learner *self, int64_t k)
{
    return k >= 2 ? self->sections[k - 2].retained : 0;
}

/* Floats of a whole micro-batch before a change of layout. */
static int64_t floats_before(const staged_learner *self, const fast_reshard *how,
                             fast_reshard_kind kind)
{
    return fast__reshard_floats(value_of(self, how, kind), self->options.shard, false);
}

/* Copy the batch's samples, as far as the first section needs them. */
static void load_inputs(const staged_learner *self, const fast_batch *lent, staged_slot *slot)
{
    const fast_staged_section *section = &self->sections[0];
    const fast_reshard_value value = value_of(self, &section->enter, section->enter.forward);

    if (value.kind == FAST_RESHARD_SLICE)
        fast__reshard_slice(&value, self->options.shard, lent->x, slot->sections[0].x);
    else
        memcpy(slot->x, lent->x,
               (size_t)floats_before(self, &section->enter, value.kind) * sizeof *slot->x);
}

/* Copy the answers of a batch: heads read them in both passes, and a loader lends until the next
 * batch. */
static void copy_answers(const staged_learner *self, const fast_batch *lent, staged_slot *slot)
{
    const int64_t rows = lent->count * fast__head_rows(self->head);

    slot->labelled = lent->labels != NULL;
    if (lent->labels)
        memcpy(slot->labels, lent->labels, (size_t)rows * sizeof *slot->labels);
    else
        memcpy(slot->targets, lent->targets,
               (size_t)(rows * self->head->columns[1]) * sizeof *slot->targets);
}

/* Give a section with heads the answers of its samples, from `first` on. */
static void put_answers(const staged_learner *self, const staged_slot *slot, int64_t section,
                        int64_t first, fast_batch *batch)
{
    if (!self->head || !fast__graph_has_heads(self->sections[section].program->graph))
        return;
    const int64_t row = first * fast__head_rows(self->head);
    batch->labels = slot->labelled ? slot->labels + row : NULL;
    batch->targets = slot->labelled ? NULL : slot->targets + row * self->head->columns[1];
}

/* Give a section of the last stage the answers of a batch: those of its rows, if it has not all. */
static void lend_answers(const staged_learner *self, const fast_batch *lent, int64_t k,
                         fast_batch *batch)
{
    const fast_staged_section *section = &self->sections[k];
    const int64_t all = self->options.rows, own = section->rows;

    batch->labels = lent->labels;
    batch->targets = lent->targets;
    if (own == 0)
        return;
    FAST_ASSERT(lent->labels != NULL && section->first_row + own <= all);
    for (int64_t i = 0; i < lent->count; i++)
        memcpy(self->labels + i * own, lent->labels + i * all + section->first_row,
               (size_t)own * sizeof *self->labels);
    batch->labels = self->labels;
}

/* The samples of a micro-batch, as far as this section needs them. */
static fast_err load(const staged_learner *self, const fast_stage_pass *asked, staged_slot *slot,
                     fast_batch *batch)
{
    const fast_batch *lent = NULL;
    int64_t first;

    *batch = (fast_batch){ .count = samples_of(self, asked->section, &first) };
    if (self->options.loader) {
        FAST_TRY(fast__loader_get(self->options.loader, asked->number, &lent));
        FAST_ASSERT(lent->count == self->options.batch);
        if (asked->section == 0)
            memcpy(slot->ids, lent->ids, (size_t)lent->count * sizeof *slot->ids);
        batch->ids = slot->ids + first;
    }
    if (self->options.last && !self->sections[asked->section].divided)
        lend_answers(self, lent, asked->section, batch);
    if (self->options.first && asked->section == 0)
        load_inputs(self, lent, slot);
    if (self->head && asked->section == 0)
        copy_answers(self, lent, slot);
    put_answers(self, slot, asked->section, first, batch);
    return FAST_OK;
}

/* A round of a section, with the values around it. Its vectors may be on a device: a round maps
 * them as an engine's pass does, and no callback comes in between. */
static void run_round(staged_learner *self, fast_stage_pass *asked, int64_t round, float *grad)
{
    const int64_t k = asked->section;
    const fast_layout *params = &self->sections[k].program->graph->params;
    const float *w = asked->w + self->sections[k].params_offset;
    const staged_ends ends = ends_of(self, asked);
    fast_round_call call = { .round = round, .x = ends.x, .y = ends.y };

    FAST_ASSERT(retained_before(self, k) == 0 && self->sections[k].retained == 0);
    if (asked->backward) {
        const staged_grad_ends grads = grads_of(self, asked);

        call.dy = grads.dy;
        call.dx = grads.dx;
    }
    if (params->count > 0) {
        call.w = fast__map(w, params->count, FAST_ACCESS_READ);
        call.dw = grad ? fast__map(grad, params->count, FAST_ACCESS_UPDATE) : NULL;
    }
    asked->flops = fast__rounds_run(self->rounds[k], asked->slot, asked->backward, &call);
    if (params->count > 0) {
        fast__unmap(w, params->count, FAST_ACCESS_READ);
        if (grad)
            fast__unmap(grad, params->count, FAST_ACCESS_UPDATE);
    }
}

/* The forward pass of a section, or of a round of it. */
static fast_err forward_round(staged_learner *self, fast_stage_pass *asked, int64_t round)
{
    fast_batch batch;

    if (round == 0)
        FAST_TRY(load(self, asked, &self->slots[asked->slot], &batch));
    run_round(self, asked, round, NULL);
    asked->loss = asked->share = 0;
    asked->correct = asked->positions = 0;
    return FAST_OK;
}

/* The backward pass of a round, into the step's mean. */
static fast_err backward_round(staged_learner *self, fast_stage_pass *asked, int64_t round)
{
    const int64_t k = asked->section, parts = self->base.parts, part = asked->number % parts;
    const bool last = k == self->options.section_count - 1;
    const int64_t offset = self->sections[k].params_offset;
    staged_report report = { self, asked, offset };

    if (parts > 1 && part == 0 && last && round == self->passes[k] - 1)
        fast__tree_sum_clear(&self->fold);
    run_round(self, asked, round,
              (parts > 1 ? fast__tree_sum_next(&self->fold) : self->base.g) + offset);
    if (round > 0)
        return FAST_OK;
    const int64_t count = self->sections[k].program->graph->params.count;
    if (part == parts - 1 && count > 0)
        report_range(&report, 0, count);
    if (part < parts - 1 && k == 0)
        fast__tree_sum_put(&self->fold);
    return FAST_OK;
}

/* The samples of a micro-batch that are loaded already. */
static fast_batch loaded(const staged_learner *self, int64_t k, const staged_slot *slot)
{
    int64_t first;
    fast_batch batch = { .count = samples_of(self, k, &first) };

    batch.ids = slot->ids ? slot->ids + first : NULL;
    put_answers(self, slot, k, first, &batch);
    return batch;
}

/* The forward pass of a section. */
static fast_err run_forward(const staged_learner *self, fast_stage_pass *asked, fast_pass *pass)
{
    const fast_staged_section *section = &self->sections[asked->section];
    staged_slot *slot = &self->slots[asked->slot];
    fast_batch batch = loaded(self, asked->section, slot);

    if (pass->part == 0)
        FAST_TRY(load(self, asked, slot, &batch));
    const staged_ends ends = ends_of(self, asked);
    const int64_t k = asked->section, n = batch.count, in = inputs_of(self, k);
    const int64_t came = in - retained_before(self, k);
    float *joint = slot->sections[k].joint;
    FAST_ASSERT(self->passes[k] == 1 || (!joint && section->retained == 0));
    batch.x = joint ? joint : ends.x;
    if (joint)
        copy_rows(n, came, ends.x, came, joint, in);
    pass->phase = FAST_PASS_FORWARD;
    pass->batch = &batch;
    pass->outputs = section->retained > 0 ? self->gradients[k].whole : ends.y;
    FAST_TRY(fast__mapped_run(section->program, slot->sections[k].workspace, pass));
    if (section->retained > 0) {
        const int64_t all = outputs_of(self, k), next = inputs_of(self, k + 2);

        copy_rows(n, all - section->retained, pass->outputs, all, ends.y, all - section->retained);
        copy_rows(n, section->retained, pass->outputs + all - section->retained, all,
                  slot->sections[k + 2].joint + next - section->retained, next);
    }
    const bool counts = batch.labels || batch.targets;
    asked->loss = counts ? pass->loss : section->divided ? 0 : pass->head_loss;
    asked->share = section->divided ? pass->head_loss : 0;
    asked->correct = counts ? pass->correct : 0;
    asked->positions = counts ? pass->positions : 0;
    asked->flops = section->program->flops_forward * (double)n / (double)self->passes[k];
    return FAST_OK;
}

/* The backward pass of a section, or a half of it, into the step's mean. */
static fast_err run_backward(staged_learner *self, fast_stage_pass *asked, fast_pass *pass)
{
    const int64_t k = asked->section, last = self->options.section_count - 1;
    const fast_staged_section *section = &self->sections[k];
    const staged_slot *slot = &self->slots[asked->slot];
    const staged_grad_ends grads = grads_of(self, asked);
    float *joint = slot->sections[k].joint, *whole = self->gradients[k].whole;
    const int64_t all = outputs_of(self, k), in = inputs_of(self, k);
    const int64_t retained = retained_before(self, k),
                  next = section->retained > 0 ? inputs_of(self, k + 2) : 0;
    fast_batch batch = loaded(self, k, slot);
    const int64_t parts = self->base.parts, part = asked->number % parts;
    const bool values = asked->half != FAST_STAGE_WEIGHTS;
    const bool weights = asked->half != FAST_STAGE_INPUTS;
    staged_report report = { self, asked, section->params_offset };

    batch.x = joint ? joint : ends_of(self, asked).x;
    if (weights && parts > 1 && part == 0 && k == last && pass->part == 0)
        fast__tree_sum_clear(&self->fold);
    pass->phase = FAST_PASS_BACKWARD;
    pass->batch = &batch;
    pass->grad =
        (parts > 1 ? fast__tree_sum_next(&self->fold) : self->base.g) + section->params_offset;
    pass->outputs_grad = whole ? whole : grads.dy;
    pass->inputs_grad = joint ? self->gradients[k].joint : grads.dx;
    if (whole && values) {
        copy_rows(batch.count, all - section->retained, grads.dy, all - section->retained, whole,
                  all);
        copy_rows(batch.count, section->retained,
                  self->gradients[k + 2].joint + next - section->retained, next,
                  whole + all - section->retained, all);
    }
    pass->report = part == parts - 1 ? report_range : NULL;
    pass->ctx = &report;
    fast__half_set(asked->half, pass);
    FAST_TRY(fast__mapped_run(section->program, slot->sections[k].workspace, pass));
    if (joint && grads.dx && values)
        copy_rows(batch.count, in - retained, pass->inputs_grad, in, grads.dx, in - retained);
    if (weights && part < parts - 1 && k == 0 && pass->part == self->passes[k] - 1)
        fast__tree_sum_put(&self->fold);
    asked->flops = fast__half_flops(section->program, asked->half) * (double)batch.count /
                   (double)self->passes[k];
    return FAST_OK;
}

/* A pass of a section, or a part of it: the last number is a backward pass's first part. */
static fast_err run_section(staged_learner *self, fast_stage_pass *asked, int64_t number)
{
    fast_learner *learner = &self->base;
    const fast_staged_section *section = &self->sections[asked->section];
    fast_pass pass = { .params = asked->w + section->params_offset,
                       .state = learner->s + section->state_offset,
                       .train = true,
                       .seed = self->options.seed,
                       .step = (uint64_t)(asked->number / learner->parts) };

    pass.part = asked->backward ? self->passes[asked->section] - 1 - number : number;
    FAST_TRY(asked->backward ? run_backward(self, asked, &pass) : run_forward(self, asked, &pass));
    self->due = pass.due;
    return FAST_OK;
}

/* The contract's stage(). */
static fast_err staged_stage(fast_learner *learner, fast_stage_pass *asked)
{
    staged_learner *self = (staged_learner *)learner;
    const int64_t number = asked->section, round = find_round(self, &asked->section);

    FAST_ASSERT(asked->slot >= 0 && asked->slot < self->options.slots);
    FAST_ASSERT((asked->inputs == NULL) == self->options.first);
    FAST_ASSERT(asked->number >= 0);
    const fast_err err = !self->rounds[asked->section] ? run_section(self, asked, round)
                         : asked->backward             ? backward_round(self, asked, round)
                                                       : forward_round(self, asked, round);
    asked->section = number;
    asked->samples = self->options.batch;
    return err;
}

/* Free what a micro-batch in flight has. */
static void free_slot(const staged_learner *self, const staged_slot *slot)
{
    for (int64_t k = 0; slot->sections && k < self->options.section_count; k++) {
        if (slot->sections[k].workspace)
            self->sections[k].program->engine->workspace_free(slot->sections[k].workspace);
        fast__free(slot->sections[k].x);
        fast__free(slot->sections[k].y);
        fast__free(slot->sections[k].behind);
        fast__free(slot->sections[k].joint);
    }
    fast__free(slot->sections);
    fast__free(slot->labels);
    fast__free(slot->targets);
    fast__free(slot->x);
    fast__free(slot->ids);
}

/* Free the slots; everything in `options` is borrowed, the vectors too. */
static void staged_free(fast_learner *learner)
{
    staged_learner *self = (staged_learner *)learner;

    if (!learner)
        return;
    for (int64_t i = self->options.slots - 1; self->slots && i >= 0; i--)
        free_slot(self, &self->slots[i]); /* the first has what the others share */
    for (int64_t k = 0; self->gradients && k < self->options.section_count; k++) {
        fast__free(self->gradients[k].dx);
        fast__free(self->gradients[k].dy);
        fast__free(self->gradients[k].behind);
        fast__free(self->gradients[k].joint);
        fast__free(self->gradients[k].whole);
    }
    fast__free(self->gradients);
    fast__free(self->slots);
    fast__free(self->sections);
    fast__tree_sum_fini(&self->fold);
    for (int64_t k = 0; self->rounds && k < self->options.section_count; k++)
        fast__rounds_free(self->rounds[k]);
    fast__free(self->rounds);
    fast__free(self->passes);
    fast__free(self->labels);
    fast__free(learner);
}

static const fast_learner_ops staged_ops = {
    .name = "stage",
    .stage = staged_stage,
    .exchange = staged_exchange,
    .free = staged_free,
};

/* Floats of a whole micro-batch after a change of layout. */
static int64_t floats_after(const staged_learner *self, const fast_reshard *how,
                            fast_reshard_kind kind)
{
    return fast__reshard_floats(value_of(self, how, kind), self->options.shard, true);
}

/* Allocate a workspace of a section. Phases follow each other on one thread, so that those of the
 * micro-batches in flight share with the first one the memory of a phase. */
static fast_err new_workspace(const staged_learner *self, int64_t k, fast_workspace **out)
{
    const fast_program *program = self->sections[k].program;
    fast_workspace *first = self->slots[0].sections[k].workspace;

    if (first && program->engine->workspace_beside)
        return program->engine->workspace_beside(first, out);
    return program->engine->workspace_new(program, out);
}

/* Allocate activations of a section. */
static fast_err fill_section(const staged_learner *self, int64_t k, staged_activations *out)
{
    const fast_staged_section *section = &self->sections[k];
    const fast_reshard *enter = &section->enter, *leave = &section->leave;

    if (!section->rounds)
        FAST_TRY(new_workspace(self, k, &out->workspace));
    if (!stays(enter->forward))
        FAST_TRY(fast__alloc("inputs of a section", floats_after(self, enter, enter->forward),
                             sizeof(float), &out->x));
    if (retained_before(self, k) > 0)
        FAST_TRY(fast__alloc("inputs of a section", self->options.batch * inputs_of(self, k),
                             sizeof(float), &out->joint));
    if (!stays(leave->forward))
        FAST_TRY(fast__alloc("outputs of a section", floats_before(self, leave, leave->forward),
                             sizeof(float), &out->y));
    if (k == self->options.section_count - 1)
        return FAST_OK;
    return fast__alloc("activations between sections", floats_after(self, leave, leave->forward),
                       sizeof(float), &out->behind);
}

/* Allocate gradients of a section. */
static fast_err fill_gradients(const staged_learner *self, int64_t k, staged_gradients *out)
{
    const fast_reshard *enter = &self->sections[k].enter, *leave = &self->sections[k].leave;

    if (retained_before(self, k) > 0)
        FAST_TRY(fast__alloc("gradients of inputs", self->options.batch * inputs_of(self, k),
                             sizeof(float), &out->joint));
    if (self->sections[k].retained > 0)
        FAST_TRY(fast__alloc("outputs of a section", self->options.batch * outputs_of(self, k),
                             sizeof(float), &out->whole));
    if (!stays(enter->backward))
        FAST_TRY(fast__alloc("gradients of inputs", floats_before(self, enter, enter->backward),
                             sizeof(float), &out->dx));
    if (!stays(leave->backward))
        FAST_TRY(fast__alloc("gradients of outputs", floats_after(self, leave, leave->backward),
                             sizeof(float), &out->dy));
    if (k == self->options.section_count - 1)
        return FAST_OK;
    return fast__alloc("gradients between sections", floats_after(self, leave, leave->forward),
                       sizeof(float), &out->behind);
}

/* Make the rounds of sections that have some, and count the passes of a micro-batch. */
static fast_err fill_rounds(staged_learner *self)
{
    const fast_staged_options *o = &self->options;

    FAST_TRY(
        fast__alloc("rounds of sections", o->section_count, sizeof *self->rounds, &self->rounds));
    FAST_TRY(
        fast__alloc("passes of sections", o->section_count, sizeof *self->passes, &self->passes));
    self->base.sections = 0;
    for (int64_t k = 0; k < o->section_count; k++) {
        if (o->sections[k].rounds)
            FAST_TRY(
                fast__rounds_new(&(fast_rounds_options){ .op = o->sections[k].rounds,
                                                         .graph = o->sections[k].program->graph,
                                                         .samples = o->batch,
                                                         .shards = o->shards,
                                                         .shard = o->shard,
                                                         .slots = o->slots },
                                 &self->rounds[k]));
        self->passes[k] = self->rounds[k]
                              ? fast__rounds_count(self->rounds[k])
                              : fast__graph_exchanges(o->sections[k].program->graph) + 1;
        self->base.sections += self->passes[k];
    }
    return FAST_OK;
}

/* Find a head that needs answers; all of a network have rows of the same ones. */
static const fast_node *find_head(const staged_learner *self)
{
    const fast_node *head = NULL;

    for (int64_t k = 0; !head && k < self->options.section_count; k++)
        head = fast__head_answered(self->sections[k].program->graph);
    return head;
}

/* Allocate what a micro-batch in flight has. */
static fast_err fill_slot(const staged_learner *self, staged_slot *slot)
{
    const int64_t count = self->options.section_count;
    const int64_t rows = self->head ? self->options.batch * fast__head_rows(self->head) : 0;

    if (self->head) {
        FAST_TRY(fast__alloc("labels of heads", rows, sizeof *slot->labels, &slot->labels));
        FAST_TRY(fast__alloc("targets of heads", rows * self->head->columns[1],
                             sizeof *slot->targets, &slot->targets));
    }
    if (self->options.first && self->sections[0].enter.forward == FAST_RESHARD_NONE)
        FAST_TRY(fast__alloc("samples of a micro-batch",
                             floats_before(self, &self->sections[0].enter, FAST_RESHARD_NONE),
                             sizeof(float), &slot->x));
    if (self->options.loader)
        FAST_TRY(
            fast__alloc("numbers of samples", self->options.batch, sizeof *slot->ids, &slot->ids));
    FAST_TRY(fast__alloc("sections", count, sizeof *slot->sections, &slot->sections));
    for (int64_t k = 0; k < count; k++)
        FAST_TRY(fill_section(self, k, &slot->sections[k]));
    return FAST_OK;
}

/* Allocate the slots. */
static fast_err fill(staged_learner *self)
{
    const fast_staged_options *o = &self->options;
    fast_learner *base = &self->base;

    FAST_TRY(fast__alloc("sections", o->section_count, sizeof *self->sections, &self->sections));
    memcpy(self->sections, o->sections, (size_t)o->section_count * sizeof *self->sections);
    FAST_TRY(fill_rounds(self));
    self->head = find_head(self);
    FAST_ASSERT(self->head == NULL || o->loader != NULL);
    const fast_reshard *enter = &self->sections[0].enter,
                       *leave = &self->sections[o->section_count - 1].leave;
    base->inputs = o->first ? 0 : floats_before(self, enter, enter->forward);
    base->outputs = o->last ? 0 : floats_after(self, leave, leave->forward);
    int64_t rows = 0;
    for (int64_t k = 0; k < o->section_count; k++)
        rows = self->sections[k].rows > rows ? self->sections[k].rows : rows;
    if (rows > 0)
        FAST_TRY(fast__alloc("labels of a section", o->batch * rows, sizeof *self->labels,
                             &self->labels));
    for (int64_t k = 0; k < o->section_count; k++)
        base->flops += self->sections[k].program->flops_train *
                       (double)(self->sections[k].program->batch * base->parts);
    FAST_TRY(fast__alloc("micro-batches", o->slots, sizeof *self->slots, &self->slots));
    for (int64_t i = 0; i < o->slots; i++)
        FAST_TRY(fill_slot(self, &self->slots[i]));
    FAST_TRY(fast__alloc("gradients between sections", o->section_count, sizeof *self->gradients,
                         &self->gradients));
    for (int64_t k = 0; k < o->section_count; k++)
        FAST_TRY(fill_gradients(self, k, &self->gradients[k]));
    if (base->parts > 1)
        FAST_TRY(fast__tree_sum_init(&self->fold, base->params.count, base->parts, base->g));
    return FAST_OK;
}

fast_err fast__staged_new(const fast_staged_options *options, fast_learner **out)
{
    const int64_t parts = options->accumulate > 1 ? options->accumulate : 1;
    staged_learner *self = NULL;

    FAST_ASSERT(options->slots >= 1 && options->section_count >= 1);
    FAST_ASSERT(options->loader != NULL || (!options->first && !options->last));
    FAST_ASSERT(options->shards >= 1 && options->batch >= 1);
    FAST_TRY(fast__alloc("a learner", 1, sizeof *self, &self));
    self->options = *options;
    self->base = (fast_learner){ .ops = &staged_ops,
                                 .params = options->params,
                                 .state = options->state,
                                 .w = options->w,
                                 .g = options->g,
                                 .s = options->s,
                                 .epoch_steps = options->model->epoch_steps,
                                 .own_samples = options->model->own_samples,
                                 .batch = options->model->batch,
                                 .parts = parts,
                                 .sections = options->section_count,
                                 .slots = options->slots };
    const fast_err err = fill(self);
    if (err) {
        staged_free(&self->base);
        return err;
    }
    *out = &self->base;
    return FAST_OK;
}
