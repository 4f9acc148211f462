/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One stage's part of a step: passes in the order of the schedule, and the messages between them.
 *
 *     forward   receive activations from the stage before, unless this is the first
 *               forward pass, in a slot of its own
 *               send activations to the stage behind, unless this is the last
 *     backward  receive their gradient from the stage behind, with the loss
 *               backward pass
 *               send the gradient of the inputs to the stage before, with the loss
 *
 * Messages of two neighbours arrive in the order of micro-batches, so they need no matching. The
 * activations that arrived are held until the backward pass has read them; those that leave are
 * written by the engine into the message. The loss travels backwards with the gradients, so that
 * every stage can tell it.
 *
 * pipedream: before the backward pass of batch n stage s has run the forward passes up to batch
 * n + S - 1 - s, each with the newest weights it had then, of which it keeps a copy (weight
 * stashing, Narayanan et al. 2019): the gradient is of one version of the weights, which is
 * S - 1 - s updates old when it is applied. The pipeline is never drained; at its start and after a
 * pause it fills again, and the first gradients are less stale.
 *
 * Shards of a stage run its sections together and sum what is partial between them; of parameters
 * that all shards have each has a part of the gradient, which is summed at the end of a step.
 *
 * Cost per micro-batch: a message of the boundary's activations each way. Memory: slots of the
 * engine, and with pipedream a copy of the stage's weights for each but the last stage's.
 */
#include "trainer/pipe.h"

#include "base/memory.h"
#include "tensor/vector.h"
#include "trainer/context.h"

#include <string.h>

enum { TAG_ACTIVATIONS = 0x7fffff10, TAG_GRADIENTS }; /* messages between stages */
enum { WORD_NUMBER, WORD_LOSS, WORD_CORRECT, WORD_POSITIONS, WORD_SAMPLES };

fast_err fast__pipe_init(fast_context *context, const fast_pipe_options *options)
{
    fast_pipe *pipe = &context->pipe;
    const bool stashes = options->place.pipeline == FAST_PIPELINE_PIPEDREAM && options->behind >= 0;
    const int64_t count = fast__pipe_flight(&options->place);

    FAST_ASSERT(context->learner->slots >= count);
    *pipe = (fast_pipe){ .options = *options, .next_forward = -1 };
    FAST_TRY(fast__alloc("micro-batches in flight", count, sizeof *pipe->slots, &pipe->slots));
    pipe->slot_count = count;
    for (int64_t i = 0; stashes && i < count; i++)
        FAST_TRY(fast__vector_new(fast__context_device(context), "older weights",
                                  context->trainer.count, &pipe->slots[i].stash));
    return FAST_OK;
}

void fast__pipe_drop(fast_pipe *pipe)
{
    for (int64_t i = 0; i < pipe->slot_count; i++) {
        fast_msg_free(pipe->slots[i].arrived);
        pipe->slots[i].arrived = NULL;
    }
    pipe->next_forward = -1;
    pipe->in_flight = 0;
}

void fast__pipe_fini(fast_pipe *pipe)
{
    fast__pipe_drop(pipe);
    for (int64_t i = 0; i < pipe->slot_count; i++)
        fast__vector_free(pipe->slots[i].stash);
    fast__free(pipe->slots);
    *pipe = (fast_pipe){ 0 };
}

/* A pass under way. */
typedef struct pipe_work {
    fast_work work;        /* first: the transport's view of it */
    fast_context *context; /* of the worker that computes it */
    fast_stage_pass pass;  /* the learner's view of it */
    int64_t covered;       /* elements reported */
    fast_err err;          /* of the learner, not of the actor */
} pipe_work;

/* A range of g is final. Reports are spread over the pass by the elements they cover. */
static void relay(void *ctx, int64_t offset, int64_t count)
{
    pipe_work *pw = ctx;
    const int64_t all = pw->context->learner->params.count;

    FAST_ASSERT(offset >= 0 && count >= 0 && offset + count <= all);
    pw->covered += count;
    fast_work_report(&pw->work, pw->work.operations * (double)pw->covered / (double)all, offset,
                     count);
}

/* Run a pass, inside fast_compute(). */
static fast_err run_pass(fast_work *work)
{
    pipe_work *pw = (pipe_work *)work;
    fast_learner *learner = pw->context->learner;

    FAST_ASSERT(learner->ops->stage != NULL);
    pw->pass.report = work->report ? relay : NULL;
    pw->pass.ctx = pw;
    pw->err = learner->ops->stage(learner, &pw->pass);
    work->operations = pw->pass.flops;
    return pw->err;
}

/* Run a section through the actor. A learner's failure is the host's business too. */
static fast_err compute_section(pipe_work *pw)
{
    const fast_context_options *o = &pw->context->options;
    const fast_err err = fast_compute(pw->context->trainer.actor, &pw->work);

    if (pw->err)
        o->host->failed(o->host_ctx, pw->err);
    return err;
}

/* Run a pass: section by section, with sums over the shards in between. Figures are those of the
 * last section, operations those of all. */
static fast_err compute(pipe_work *pw)
{
    const int64_t count = pw->context->learner->sections;
    double flops = 0;

    FAST_ASSERT(count >= 1);
    for (int64_t i = 0; i < count; i++) {
        pw->pass.section = pw->pass.backward ? count - 1 - i : i;
        FAST_TRY(compute_section(pw));
        flops += pw->pass.flops;
        pw->work.bytes = 0;
        if (!pw->pass.sum || !pw->context->pipe.shards)
            continue;
        fast_actor_at(pw->context->trainer.actor, pw->context->trainer.step, "a sum of shards");
        FAST_TRY(
            fast_allreduce(pw->context->pipe.shards, pw->pass.sum, pw->pass.sum_count, FAST_SOON));
    }
    pw->pass.flops = flops;
    return FAST_OK;
}

/* Report the whole gradient at once, inside fast_compute(). */
static fast_err run_report(fast_work *work)
{
    const pipe_work *pw = (pipe_work *)work;

    fast_work_report(work, 0, 0, pw->context->learner->params.count);
    return FAST_OK;
}

/* The gradient of a shard is complete: sum what each shard has a part of, then report it. */
static fast_err finish_shard(fast_context *c, fast_report_fn *report, void *ctx)
{
    const fast_pipe *pipe = &c->pipe;
    pipe_work pw = { .work = { .run = run_report, .report = report, .ctx = ctx, .name = "report" },
                     .context = c };

    FAST_ASSERT(pipe->shards != NULL);
    for (int64_t i = 0; i < pipe->options.partial_count; i++)
        FAST_TRY(fast_allreduce(pipe->shards, c->trainer.g + pipe->options.partial[i].offset,
                                pipe->options.partial[i].count, FAST_SOON));
    return report ? fast_compute(c->trainer.actor, &pw.work) : FAST_OK;
}

/* Make a message with a part of `count` floats. */
static fast_err make_message(fast_actor *actor, uint64_t tag, int64_t count, fast_msg **out)
{
    fast_buffer *buffer = NULL;
    fast_msg *msg = NULL;

    FAST_ASSERT(count > 0);
    FAST_TRY(fast_msg_new(actor, tag, &msg));
    const fast_err err = fast_buffer_new(actor, (size_t)count * sizeof(float), &buffer);
    if (err) {
        fast_msg_free(msg);
        return err;
    }
    fast_msg_add(msg, &buffer);
    *out = msg;
    return FAST_OK;
}

/* The floats of a message that is still private. */
static float *floats_of(const fast_msg *msg)
{
    return msg ? (float *)(uintptr_t)fast_msg_data(msg, 0) : NULL;
}

/* Receive the next message of a neighbour. Its size is that of a micro-batch. */
static fast_err receive(fast_context *c, int64_t from, uint64_t tag, int64_t count, int64_t number,
                        fast_msg **out)
{
    fast_trainer *t = &c->trainer;
    fast_msg *msg = NULL;

    fast_actor_at(t->actor, t->step, tag == TAG_ACTIVATIONS ? "activations" : "their gradient");
    FAST_TRY(fast_receive(t->actor, from, tag, FAST_SOON, &msg));
    if (msg->part_count != 1 || msg->parts[0].size != (size_t)count * sizeof(float) ||
        msg->words[WORD_NUMBER] != number) {
        const long long came = (long long)msg->words[WORD_NUMBER];

        fast_msg_free(msg);
        return fast__fail(FAST_EFORMAT, "micro-batch %lld of worker %lld arrived as number %lld",
                          came, (long long)from, (long long)number);
    }
    *out = msg;
    return FAST_OK;
}

/* The forward pass of a micro-batch, with the newest weights. */
static fast_err forward(fast_context *c, int64_t number)
{
    fast_pipe *pipe = &c->pipe;
    const fast_pipe_options *o = &pipe->options;
    const fast_learner *learner = c->learner;
    fast_trainer *t = &c->trainer;
    fast_pipe_slot *slot = &pipe->slots[number % pipe->slot_count];
    pipe_work pw = { .work = { .run = run_pass, .name = "forward" }, .context = c };
    fast_msg *leaves = NULL;
    fast_err err;

    FAST_ASSERT(slot->arrived == NULL);
    FAST_ASSERT(pipe->in_flight < pipe->slot_count);
    if (o->before >= 0)
        FAST_TRY(receive(c, o->before, TAG_ACTIVATIONS, learner->inputs, number, &slot->arrived));
    if (o->behind >= 0)
        FAST_TRY(make_message(t->actor, TAG_ACTIVATIONS, learner->outputs, &leaves));
    if (slot->stash) {
        fast__vector_copy(t->count, t->w, slot->stash);
        pw.work.bytes = 2 * (double)t->count * sizeof(float);
    }
    slot->version = t->step;
    pw.pass = (fast_stage_pass){ .slot = number % pipe->slot_count,
                                 .number = number,
                                 .w = t->w,
                                 .inputs = floats_of(slot->arrived),
                                 .outputs = floats_of(leaves) };
    err = compute(&pw);
    if (err) {
        fast_msg_free(leaves);
        return err;
    }
    slot->figures = pw.pass;
    pipe->in_flight++;
    if (pipe->in_flight > pipe->in_flight_max)
        pipe->in_flight_max = pipe->in_flight;
    if (!leaves)
        return FAST_OK;
    leaves->words[WORD_NUMBER] = number;
    return fast_send(t->actor, o->behind, &leaves);
}

/* Take the figures of the last stage from a message, or put them into one. */
static void read_figures(const fast_msg *msg, fast_stage_pass *pass)
{
    memcpy(&pass->loss, &msg->words[WORD_LOSS], sizeof pass->loss);
    pass->correct = msg->words[WORD_CORRECT];
    pass->positions = msg->words[WORD_POSITIONS];
    pass->samples = msg->words[WORD_SAMPLES];
}

static void write_figures(const fast_stage_pass *pass, int64_t number, fast_msg *msg)
{
    msg->words[WORD_NUMBER] = number;
    memcpy(&msg->words[WORD_LOSS], &pass->loss, sizeof pass->loss);
    msg->words[WORD_CORRECT] = pass->correct;
    msg->words[WORD_POSITIONS] = pass->positions;
    msg->words[WORD_SAMPLES] = pass->samples;
}

/* The backward pass of a micro-batch, with the weights of its forward pass. */
static fast_err backward(fast_context *c, int64_t number, fast_report_fn *report, void *ctx,
                         fast_gradient *sum)
{
    fast_pipe *pipe = &c->pipe;
    const fast_pipe_options *o = &pipe->options;
    const fast_learner *learner = c->learner;
    fast_trainer *t = &c->trainer;
    fast_pipe_slot *slot = &pipe->slots[number % pipe->slot_count];
    pipe_work pw = { .work = { .run = run_pass, .report = report, .ctx = ctx, .name = "backward" },
                     .context = c };
    fast_msg *came = NULL, *leaves = NULL;
    fast_err err = FAST_OK;

    FAST_ASSERT(pipe->in_flight > 0);
    if (o->behind >= 0) {
        FAST_TRY(receive(c, o->behind, TAG_GRADIENTS, learner->outputs, number, &came));
        read_figures(came, &slot->figures);
    }
    if (o->before >= 0)
        err = make_message(t->actor, TAG_GRADIENTS, learner->inputs, &leaves);
    pw.pass = (fast_stage_pass){ .backward = true,
                                 .slot = number % pipe->slot_count,
                                 .number = number,
                                 .w = slot->stash ? slot->stash : t->w,
                                 .inputs = floats_of(slot->arrived),
                                 .outputs_grad = floats_of(came),
                                 .inputs_grad = floats_of(leaves) };
    pw.work.operations = learner->flops * 2 / 3 / (double)learner->parts;
    if (!err)
        err = compute(&pw);
    fast_msg_free(came);
    fast_msg_free(slot->arrived);
    slot->arrived = NULL;
    if (err) {
        fast_msg_free(leaves);
        return err;
    }
    pipe->in_flight--;
    pipe->staleness = t->step - slot->version;
    sum->loss += slot->figures.loss;
    sum->correct += slot->figures.correct;
    sum->positions += slot->figures.positions;
    sum->samples += slot->figures.samples;
    sum->flops += pw.pass.flops;
    if (!leaves)
        return FAST_OK;
    write_figures(&slot->figures, number, leaves);
    return fast_send(t->actor, o->before, &leaves);
}

/* One step of pipedream: fill the pipeline as far as this stage is from its end, then the backward
 * pass of the step's batch. No batch enters that the run does not use. */
static fast_err flow(fast_context *c, fast_report_fn *report, void *ctx, fast_gradient *sum)
{
    fast_pipe *pipe = &c->pipe;
    const fast_pipe_place *place = &pipe->options.place;
    const int64_t step = c->trainer.step, end = c->trainer.step_count;
    const int64_t ahead = step + place->stages - 1 - place->stage;

    if (pipe->next_forward < 0)
        pipe->next_forward = step;
    FAST_ASSERT(pipe->next_forward >= step);
    while (pipe->next_forward <= ahead && pipe->next_forward < end)
        FAST_TRY(forward(c, pipe->next_forward++));
    return backward(c, step, report, ctx, sum);
}

/* All passes of a step. */
static fast_err run_step(fast_context *context, fast_report_fn *report, void *ctx,
                         fast_gradient *out)
{
    const fast_pipe_place *place = &context->pipe.options.place;
    const int64_t micro = place->micro_batches;
    const int64_t first = context->trainer.step * micro;

    FAST_ASSERT(context->learner->slots > 0);
    FAST_ASSERT(micro == context->learner->parts);
    out->loss = out->flops = 0;
    out->correct = out->positions = out->samples = 0;
    if (place->pipeline == FAST_PIPELINE_PIPEDREAM)
        return flow(context, report, ctx, out);
    for (int64_t i = 0; i < 2 * micro; i++) {
        const fast_pipe_move move = fast__pipe_move(place, i);
        const bool last = move.micro_batch == micro - 1;

        if (move.backward)
            FAST_TRY(backward(context, first + move.micro_batch, last ? report : NULL, ctx, out));
        else
            FAST_TRY(forward(context, first + move.micro_batch));
    }
    out->loss /= (double)micro;
    return FAST_OK;
}

fast_err fast__pipe_gradient(fast_context *context, fast_report_fn *report, void *ctx,
                             fast_gradient *out)
{
    FAST_ASSERT(out != NULL);
    if (!context->pipe.shards)
        return run_step(context, report, ctx, out);
    FAST_TRY(run_step(context, NULL, NULL, out));
    return finish_shard(context, report, ctx);
}
