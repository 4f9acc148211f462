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
 *     weights   the half of the backward pass that no other stage waits for, where the schedule
 *               divides it; else it is part of that
 *
 * A stage may have replicas, which take micro-batches round-robin. A worker counts its own: i of
 * replica j of r is micro-batch n = i r + j of the pipeline. n says which worker of another stage
 * has it: a gradient comes to the activations, and the stored weights, of its forward pass.
 *
 *     2 replicas    replica 0   F0 F2 B0 ...    sends to n mod 3    of 3 replicas
 *                   replica 1   F1 F3 B1 ...
 *
 * With chunks the stages are a ring of workers: the first worker's second chunk follows the last
 * worker's first one.
 *
 * Messages of two neighbours arrive in the order of the schedule, so they need no matching. The
 * activations that arrived are held until the backward pass has read them; those that leave are
 * written by the engine into the message. Losses of heads on the way travel forwards with the
 * activations, that of all backwards with the gradients, so that every stage can tell it.
 *
 * Never drained: before the backward pass of batch n stage s has run the forward passes up to batch
 * n + delay (S - 1 - s). Which weights both passes of a batch read is in pipe_versions.c. At the
 * start and after a pause the pipeline fills again, and the first gradients are less stale. Before
 * a step at which a checkpoint is due no batch enters that the checkpoint would cut off: the run
 * that made it and the one that resumes fill the same pipeline.
 *
 * ampnet: a stage takes the message that is there, a gradient before activations, or else waits for
 * the next one; the last one answers activations with their gradient. The first one lets a batch
 * enter while less than `active` are in flight. So no stage waits for a schedule, and the age of a
 * gradient's weights depends on the times of the stages.
 *
 * Shards of a stage run its sections together and exchange values between them; of parameters
 * that all shards have each has a part of the gradient, which is summed at the end of a step.
 *
 * Cost per micro-batch: a message of the boundary's activations each way. Memory: slots of the
 * engine, and older versions of the weights.
 */
#include "trainer/pipe.h"

#include "base/memory.h"
#include "comm/resharding.h"
#include "tensor/vector.h"
#include "trainer/context.h"

#include <string.h>

enum { TAG_ACTIVATIONS = 0x7fffff10, TAG_GRADIENTS, TAG_ANY }; /* messages between stages */
enum { WORD_NUMBER, WORD_LOSS, WORD_CORRECT, WORD_POSITIONS, WORD_SAMPLES, WORD_SHARE };
enum { WORD_VERSION = WORD_CORRECT }; /* of activations: the first stage's */

/* Allocate what a stage has in flight. */
static fast_err init_chunk(fast_context *context, int64_t i)
{
    const fast_pipe_options *o = &context->pipe.options;
    const fast_pipe_place *place = &o->place;
    const int64_t last = context->pipe.chunk_count * place->stages - 1;
    const int64_t count = fast__pipe_chunk_flight(place, i),
                  number = i * place->stages + place->stage;
    fast_pipe_chunk *chunk = &context->pipe.chunks[i];

    *chunk = (fast_pipe_chunk){ .learner = o->chunks[i],
                                .offset = o->chunks[i]->w - context->learner->w,
                                .before = number > 0 ? o->before : -1,
                                .behind = number < last ? o->behind : -1,
                                .number = number };
    FAST_ASSERT(chunk->learner->slots >= count);
    FAST_TRY(fast__alloc("micro-batches in flight", count, sizeof *chunk->slots, &chunk->slots));
    chunk->slot_count = count;
    return FAST_OK;
}

fast_err fast__pipe_init(fast_context *context, const fast_pipe_options *options)
{
    fast_pipe *pipe = &context->pipe;
    const int64_t count = options->place.chunks > 1 ? options->place.chunks : 1;

    *pipe = (fast_pipe){ .options = *options, .next_forward = -1 };
    FAST_TRY(fast__alloc("chunks", count, sizeof *pipe->chunks, &pipe->chunks));
    pipe->chunk_count = count;
    FAST_TRY(fast__pipe_log_init(&pipe->log, options->workers));
    for (int64_t i = 0; i < count; i++)
        FAST_TRY(init_chunk(context, i));
    return fast__pipe_versions_init(&pipe->versions, &options->place, options->extrapolate,
                                    fast__context_device(context), context->trainer.count);
}

void fast__pipe_drop(fast_pipe *pipe)
{
    for (int64_t c = 0; c < pipe->chunk_count; c++)
        for (int64_t i = 0; i < pipe->chunks[c].slot_count; i++) {
            fast_msg_free(pipe->chunks[c].slots[i].arrived);
            pipe->chunks[c].slots[i].arrived = NULL;
        }
    pipe->next_forward = -1;
    pipe->in_flight = 0;
}

void fast__pipe_fini(fast_pipe *pipe)
{
    fast__pipe_drop(pipe);
    for (int64_t c = 0; c < pipe->chunk_count; c++)
        fast__free(pipe->chunks[c].slots);
    fast__pipe_versions_fini(&pipe->versions);
    fast__free(pipe->chunks);
    fast__pipe_log_fini(&pipe->log);
    *pipe = (fast_pipe){ 0 };
}

double fast__pipe_lr(const fast_pipe *pipe, int64_t step)
{
    FAST_ASSERT(pipe->options.rate_steps >= 0);
    return pipe->options.rate_steps > 0
               ? fast__pipe_rate(&pipe->options.place, pipe->options.rate_steps, step)
               : 1;
}

/* A pass under way. */
typedef struct pipe_work {
    fast_work work;         /* first: the transport's view of it */
    fast_context *context;  /* of the worker that computes it */
    fast_pipe_chunk *chunk; /* of the worker's; NULL: of all of them */
    fast_stage_pass pass;   /* the learner's view of it */
    int64_t covered;        /* elements reported */
    fast_err err;           /* of the learner, not of the actor */
} pipe_work;

/* A range of g is final, and so is that of the weights which it is going to change. Reports are
 * spread over the pass by the elements they cover. */
static void relay(void *ctx, int64_t offset, int64_t count)
{
    pipe_work *pw = ctx;
    fast_trainer *t = &pw->context->trainer;
    const int64_t all = pw->chunk->learner->params.count;

    FAST_ASSERT(offset >= 0 && count >= 0 && offset + count <= all);
    fast__pipe_versions_retain(&pw->context->pipe.versions, t->step, t->w,
                               pw->chunk->offset + offset, count);
    pw->covered += count;
    fast_work_report(&pw->work, pw->work.operations * (double)pw->covered / (double)all,
                     pw->chunk->offset + offset, count);
}

/* Run a pass, inside fast_compute(). */
static fast_err run_pass(fast_work *work)
{
    pipe_work *pw = (pipe_work *)work;
    fast_learner *learner = pw->chunk->learner;

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

/* Make the exchange of shards that is due before or behind a section. */
static fast_err exchange_section(const pipe_work *pw, bool behind)
{
    const fast_context *c = pw->context;
    const fast_learner *learner = pw->chunk->learner;
    fast_stage_exchange due;

    FAST_ASSERT(pw->pass.section >= 0 && pw->pass.section < learner->sections);
    if (!c->pipe.shards || !learner->ops->exchange(learner, &pw->pass, behind, &due))
        return FAST_OK;
    due.value.shards = fast_group_size(c->pipe.shards);
    fast_actor_at(c->trainer.actor, c->trainer.step, "activations of shards");
    return fast__reshard(c->pipe.shards, c->trainer.actor, &due.value, due.from, due.to);
}

/* Run a pass: section by section, with exchanges over the shards in between. Figures are those of
 * the last section, operations and losses those of all. */
static fast_err compute(pipe_work *pw)
{
    const int64_t count = pw->chunk->learner->sections;
    double flops = 0, loss = 0, share = 0;

    FAST_ASSERT(count >= 1);
    for (int64_t i = 0; i < count; i++) {
        pw->pass.section = pw->pass.backward ? count - 1 - i : i;
        FAST_TRY(exchange_section(pw, false));
        FAST_TRY(compute_section(pw));
        flops += pw->pass.flops;
        loss += pw->pass.loss;
        share += pw->pass.share;
        pw->work.bytes = 0;
        FAST_TRY(exchange_section(pw, true));
    }
    pw->pass.flops = flops;
    pw->pass.loss = loss;
    pw->pass.share = share;
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

/* Add the losses of which each shard has a part. */
static fast_err sum_shares(fast_context *c, fast_gradient *out)
{
    const fast_pipe_place *place = &c->pipe.options.place;
    FAST_ASSERT(c->pipe.shards != NULL);
    float share = (float)(c->pipe.share / (double)place->micro_batches);

    if (!c->pipe.options.shares)
        return FAST_OK;
    FAST_TRY(fast_allreduce(c->pipe.shards, &share, 1, FAST_SOON));
    out->loss += (double)share;
    return FAST_OK;
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

/* Number the message of a micro-batch for a stage, which tells both. */
static int64_t number_of(const fast_pipe *pipe, int64_t stage, int64_t number)
{
    const fast_pipe_place *place = &pipe->options.place;

    FAST_ASSERT(stage >= 0 && number >= 0);
    return fast__pipe_number(place, number) * pipe->chunk_count * place->stages + stage;
}

/* The actor that has a micro-batch in the stage before, or behind. */
static int64_t actor_of(const fast_pipe *pipe, const fast_pipe_chunk *chunk, bool behind,
                        int64_t number)
{
    const fast_pipe_place *place = &pipe->options.place;
    const int64_t width = fast__pipe_width(place, place->stage + (behind ? 1 : -1));
    const int64_t first = behind ? chunk->behind : chunk->before;

    FAST_ASSERT(first >= 0);
    return first + fast__pipe_number(place, number) % width;
}

/* Take the message of a micro-batch, *move or if that is NULL the next one of a neighbour. Its size
 * is that of a micro-batch. */
static fast_err receive(fast_context *c, const fast_pipe_chunk *chunk, uint64_t tag, int64_t number,
                        fast_msg **move, fast_msg **out)
{
    const bool forward = tag == TAG_ACTIVATIONS;
    const int64_t from = actor_of(&c->pipe, chunk, !forward, number);
    const int64_t count = forward ? chunk->learner->inputs : chunk->learner->outputs;
    const int64_t due = number_of(&c->pipe, chunk->number, number);
    fast_trainer *t = &c->trainer;
    fast_msg *msg = *move;

    *move = NULL;
    fast_actor_at(t->actor, t->step, forward ? "activations" : "their gradient");
    if (!msg)
        FAST_TRY(fast_receive(t->actor, from, tag, FAST_SOON, &msg));
    if (msg->part_count != 1 || msg->parts[0].size != (size_t)count * sizeof(float) ||
        msg->words[WORD_NUMBER] != due) {
        const long long came = (long long)msg->words[WORD_NUMBER];

        fast_msg_free(msg);
        return fast__fail(FAST_EFORMAT, "micro-batch %lld of worker %lld arrived as number %lld",
                          came, (long long)from, (long long)due);
    }
    *out = msg;
    return FAST_OK;
}

/* Write down a pass that began at `begin` and is over. */
static void note_pass(fast_context *c, const fast_pipe_chunk *chunk, fast_pipe_kind kind,
                      int64_t number, int64_t staleness, int64_t begin)
{
    const fast_pipe_entry entry = { .kind = kind,
                                    .number = fast__pipe_number(&c->pipe.options.place, number),
                                    .step = c->trainer.step,
                                    .staleness = staleness,
                                    .begin = begin,
                                    .end = fast_now(c->trainer.actor),
                                    .chunk = chunk - c->pipe.chunks };

    fast__pipe_log_add(&c->pipe.log, &entry);
}

/* Take the losses from a message, or put them into one. */
static void read_losses(const fast_msg *msg, fast_stage_pass *pass)
{
    FAST_ASSERT(msg != NULL);
    memcpy(&pass->loss, &msg->words[WORD_LOSS], sizeof pass->loss);
    memcpy(&pass->share, &msg->words[WORD_SHARE], sizeof pass->share);
}

static void write_losses(const fast_stage_pass *pass, int64_t number, fast_msg *msg)
{
    FAST_ASSERT(number >= 0);
    msg->words[WORD_NUMBER] = number;
    memcpy(&msg->words[WORD_LOSS], &pass->loss, sizeof pass->loss);
    memcpy(&msg->words[WORD_SHARE], &pass->share, sizeof pass->share);
}

/* Take the figures of the last stage from a message, or put them into one. */
static void read_figures(const fast_msg *msg, fast_stage_pass *pass)
{
    read_losses(msg, pass);
    pass->correct = msg->words[WORD_CORRECT];
    pass->positions = msg->words[WORD_POSITIONS];
    pass->samples = msg->words[WORD_SAMPLES];
}

static void write_figures(const fast_stage_pass *pass, int64_t number, fast_msg *msg)
{
    write_losses(pass, number, msg);
    msg->words[WORD_CORRECT] = pass->correct;
    msg->words[WORD_POSITIONS] = pass->positions;
    msg->words[WORD_SAMPLES] = pass->samples;
}

/* Add the losses of the stages before, which came with their activations. */
static void add_losses(const fast_msg *arrived, fast_stage_pass *pass)
{
    fast_stage_pass before;

    FAST_ASSERT(!pass->backward);
    if (!arrived)
        return;
    read_losses(arrived, &before);
    pass->loss += before.loss;
    pass->share += before.share;
}

/* The place of a micro-batch in flight. */
static fast_pipe_slot *slot_of(const fast_pipe_chunk *chunk, int64_t number)
{
    return &chunk->slots[number % chunk->slot_count];
}

/* One more micro-batch is in flight. */
static void count_flight(fast_pipe *pipe)
{
    pipe->in_flight++;
    if (pipe->in_flight > pipe->in_flight_max)
        pipe->in_flight_max = pipe->in_flight;
}

/* The tag of a message to a neighbour: stages that take any message wait for one tag. */
static uint64_t tag_of(const fast_pipe *pipe, uint64_t tag)
{
    return pipe->options.place.pipeline == FAST_PIPELINE_AMPNET ? TAG_ANY : tag;
}

/* Send the activations of a micro-batch. Where a run stops before the step of a batch that is in
 * the pipeline, the stage behind may have ended, and nobody needs them. */
static fast_err send_ahead(fast_context *c, const fast_pipe_chunk *chunk, int64_t number,
                           fast_msg **move)
{
    FAST_ASSERT(chunk->behind >= 0 && *move != NULL);
    const bool later = number / c->pipe.options.place.micro_batches > c->trainer.step;
    const fast_err err = fast_send(c->trainer.actor, actor_of(&c->pipe, chunk, true, number), move);

    return err == FAST_EPEER && later ? FAST_OK : err;
}

/* The forward pass of a micro-batch. Its activations are in *move, or still to be received. */
static fast_err forward(fast_context *c, fast_pipe_chunk *chunk, int64_t number, fast_msg **move)
{
    fast_pipe *pipe = &c->pipe;
    const fast_learner *learner = chunk->learner;
    fast_trainer *t = &c->trainer;
    fast_pipe_slot *slot = slot_of(chunk, number);
    pipe_work pw = { .work = { .run = run_pass, .name = "forward" }, .context = c, .chunk = chunk };
    fast_msg *leaves = NULL;
    fast_err err;

    FAST_ASSERT(chunk->before >= 0 || *move == NULL);
    FAST_ASSERT(slot->arrived == NULL);
    if (chunk->before >= 0)
        FAST_TRY(receive(c, chunk, TAG_ACTIVATIONS, number, move, &slot->arrived));
    if (chunk->behind >= 0)
        FAST_TRY(make_message(t->actor, tag_of(pipe, TAG_ACTIVATIONS), learner->outputs, &leaves));
    const int64_t first = slot->arrived ? slot->arrived->words[WORD_VERSION] : t->step;
    slot->version = fast__pipe_version(&pipe->versions, t->step, number, first);
    const float *w =
        fast__pipe_versions_forward(&pipe->versions, t->step, number, slot->version, t->w);
    if (w == pipe->versions.estimate)
        pw.work.bytes = 3 * (double)t->count * sizeof(float);
    pw.pass = (fast_stage_pass){ .slot = number % chunk->slot_count,
                                 .number = number,
                                 .w = w + chunk->offset,
                                 .inputs = floats_of(slot->arrived),
                                 .outputs = floats_of(leaves) };
    const int64_t begin = fast_now(t->actor);
    err = compute(&pw);
    if (err) {
        fast_msg_free(leaves);
        return err;
    }
    note_pass(c, chunk, FAST_PIPE_FORWARD, number, -1, begin);
    slot->figures = pw.pass;
    add_losses(slot->arrived, &slot->figures);
    count_flight(&c->pipe);
    if (!leaves)
        return FAST_OK;
    write_losses(&slot->figures, number_of(pipe, chunk->number + 1, number), leaves);
    leaves->words[WORD_VERSION] = slot->version;
    return send_ahead(c, chunk, number, &leaves);
}

/* A micro-batch is not in flight any more. */
static void retire(fast_pipe *pipe, fast_pipe_slot *slot)
{
    fast_msg_free(slot->arrived);
    slot->arrived = NULL;
    pipe->in_flight--;
}

/* Add the figures of a micro-batch, which every stage is told: the worker's first one adds them. */
static void add_figures(fast_context *c, const fast_pipe_chunk *chunk,
                        const fast_stage_pass *figures, fast_gradient *sum)
{
    if (chunk != c->pipe.chunks)
        return;
    sum->loss += figures->loss;
    c->pipe.share += figures->share;
    sum->correct += figures->correct;
    sum->positions += figures->positions;
    sum->samples += figures->samples;
}

/* Count how old the weights of both passes of a micro-batch are. */
static void count_staleness(fast_pipe *pipe, int64_t step, int64_t version, bool first)
{
    const int64_t late = step - version;

    FAST_ASSERT(late >= 0);
    const int64_t gap = late - fast__pipe_versions_age(&pipe->versions, step, version);

    if (first || late > pipe->staleness)
        pipe->staleness = late;
    if (late > pipe->staleness_max)
        pipe->staleness_max = late;
    if (gap > pipe->gap_max)
        pipe->gap_max = gap;
}

/* The backward pass of a micro-batch. The gradient of its outputs is in *move, or still to be
 * received. The last one of a step retains the weights. */
static fast_err backward(fast_context *c, fast_pipe_chunk *chunk, int64_t number, fast_msg **move,
                         fast_report_fn *report, void *ctx, fast_gradient *sum)
{
    fast_pipe *pipe = &c->pipe;
    const fast_learner *learner = chunk->learner;
    fast_trainer *t = &c->trainer;
    fast_pipe_slot *slot = slot_of(chunk, number);
    pipe_work pw = { .work = { .run = run_pass, .report = report, .ctx = ctx, .name = "backward" },
                     .context = c,
                     .chunk = chunk };
    const bool divides = fast__pipe_divides(pipe->options.place.pipeline);
    const int64_t micro = pipe->options.place.micro_batches;
    fast_msg *came = NULL, *leaves = NULL;
    fast_err err = FAST_OK;

    FAST_ASSERT(pipe->in_flight > 0);
    if (chunk->behind >= 0) {
        FAST_TRY(receive(c, chunk, TAG_GRADIENTS, number, move, &came));
        read_figures(came, &slot->figures);
    }
    if (chunk->before >= 0)
        err = make_message(t->actor, tag_of(pipe, TAG_GRADIENTS), learner->inputs, &leaves);
    const float *w = fast__pipe_versions_backward(&pipe->versions, t->step, slot->version, t->w);
    if (w == pipe->versions.estimate)
        pw.work.bytes = 3 * (double)t->count * sizeof(float);
    pw.pass = (fast_stage_pass){ .backward = true,
                                 .slot = number % chunk->slot_count,
                                 .number = number,
                                 .w = w + chunk->offset,
                                 .inputs = floats_of(slot->arrived),
                                 .outputs_grad = floats_of(came),
                                 .inputs_grad = floats_of(leaves) };
    if ((number + 1) % micro == 0 && pipe->versions.room > 0)
        pw.work.bytes += 2 * (double)t->count * sizeof(float);
    pw.pass.half = divides ? FAST_STAGE_INPUTS : FAST_STAGE_BOTH;
    pw.work.operations = learner->flops * (divides ? 1 : 2) / 3 / (double)learner->parts;
    const int64_t begin = fast_now(t->actor);
    if (!err)
        err = compute(&pw);
    fast_msg_free(came);
    if (!divides)
        retire(pipe, slot);
    if (err) {
        fast_msg_free(leaves);
        return err;
    }
    if ((number + 1) % micro == 0 && pw.covered == 0)
        fast__pipe_versions_retain(&pipe->versions, t->step, t->w, 0, t->count);
    count_staleness(pipe, t->step, slot->version, number % micro == 0);
    note_pass(c, chunk, FAST_PIPE_BACKWARD, number, t->step - slot->version, begin);
    add_figures(c, chunk, &slot->figures, sum);
    sum->flops += pw.pass.flops;
    if (!leaves)
        return FAST_OK;
    write_figures(&slot->figures, number_of(pipe, chunk->number - 1, number), leaves);
    return fast_send(t->actor, actor_of(pipe, chunk, false, number), &leaves);
}

/* The half of a divided backward pass that computes gradients of weights. */
static fast_err weights(fast_context *c, fast_pipe_chunk *chunk, int64_t number,
                        fast_report_fn *report, void *ctx, fast_gradient *sum)
{
    const fast_learner *learner = chunk->learner;
    fast_pipe_slot *slot = slot_of(chunk, number);
    pipe_work pw = { .work = { .run = run_pass, .report = report, .ctx = ctx, .name = "weights" },
                     .context = c,
                     .chunk = chunk };

    FAST_ASSERT(c->pipe.in_flight > 0);
    pw.pass = (fast_stage_pass){ .backward = true,
                                 .half = FAST_STAGE_WEIGHTS,
                                 .slot = number % chunk->slot_count,
                                 .number = number,
                                 .w = c->trainer.w + chunk->offset,
                                 .inputs = floats_of(slot->arrived) };
    pw.work.operations = learner->flops / 3 / (double)learner->parts;
    const int64_t begin = fast_now(c->trainer.actor);
    const fast_err err = compute(&pw);
    retire(&c->pipe, slot);
    FAST_TRY(err);
    note_pass(c, chunk, FAST_PIPE_WEIGHTS, number, -1, begin);
    sum->flops += pw.pass.flops;
    return FAST_OK;
}

/* The batch that must not enter yet: the run ends, or pauses, before its step. */
static int64_t next_end(const fast_context *c)
{
    const int64_t pause = c->pipe.options.pause, end = c->trainer.step_count;

    FAST_ASSERT(pause >= 0);
    const int64_t next = pause > 0 ? (c->trainer.step / pause + 1) * pause : end;

    return (next < end ? next : end) * c->pipe.options.place.micro_batches;
}

/* A step of a pipeline that is never drained starts. */
static void start_step(fast_context *c)
{
    fast_pipe *pipe = &c->pipe;
    const int64_t step = c->trainer.step, pause = pipe->options.pause;

    if (pipe->next_forward < 0 || (pause > 0 && step % pause == 0)) {
        FAST_ASSERT(pipe->in_flight == 0);
        pipe->next_forward = step * pipe->options.place.micro_batches;
        fast__pipe_versions_restart(&pipe->versions, step);
    }
    fast__pipe_versions_step(&pipe->versions, step, c->trainer.w);
}

/* One step: fill the pipeline as far as this stage is from its end before each backward pass. */
static fast_err flow(fast_context *c, fast_report_fn *report, void *ctx, fast_gradient *sum)
{
    fast_pipe *pipe = &c->pipe;
    const fast_pipe_place *place = &pipe->options.place;
    const int64_t micro = place->micro_batches, first = c->trainer.step * micro;
    const int64_t end = next_end(c), ahead = fast__pipe_ahead(place);
    fast_msg *none = NULL;

    FAST_ASSERT(pipe->next_forward >= first);
    for (int64_t i = first; i < first + micro; i++) {
        FAST_ASSERT(pipe->next_forward >= i);
        while (pipe->next_forward <= i + ahead && pipe->next_forward < end)
            FAST_TRY(forward(c, pipe->chunks, pipe->next_forward++, &none));
        FAST_TRY(
            backward(c, pipe->chunks, i, &none, i == first + micro - 1 ? report : NULL, ctx, sum));
    }
    return FAST_OK;
}

/* Take the message that a stage acts on: a gradient if one is there, else what comes first. NULL:
 * the stage lets another batch enter. */
static fast_err take_any(fast_context *c, int64_t end, fast_msg **out)
{
    const fast_pipe *pipe = &c->pipe;
    const fast_pipe_chunk *chunk = pipe->chunks;
    fast_actor *actor = c->trainer.actor;
    fast_err err = FAST_ETIMEDOUT;

    FAST_ASSERT(actor != NULL);
    *out = NULL;
    if (chunk->behind >= 0)
        err = fast_receive(actor, chunk->behind, TAG_ANY, FAST_AT_ONCE, out);
    if (err != FAST_ETIMEDOUT)
        return err;
    if (chunk->before < 0 && pipe->in_flight < chunk->slot_count && pipe->next_forward < end)
        return FAST_OK;
    fast_actor_at(actor, c->trainer.step, "activations or their gradient");
    return fast_receive(actor, FAST_ANY, TAG_ANY, FAST_SOON, out);
}

/* One step of ampnet: passes as their messages come, until the step's last backward pass. */
static fast_err answer(fast_context *c, fast_report_fn *report, void *ctx, fast_gradient *sum)
{
    fast_pipe *pipe = &c->pipe;
    const fast_pipe_chunk *chunk = pipe->chunks;
    const int64_t micro = pipe->options.place.micro_batches, end = next_end(c);
    int64_t next = c->trainer.step * micro;
    const int64_t last = next + micro - 1;

    FAST_ASSERT(pipe->in_flight < chunk->slot_count);
    while (next <= last) {
        fast_msg *msg = NULL;
        fast_err err = FAST_OK;

        FAST_TRY(take_any(c, end, &msg));
        const bool gradient = msg && msg->from == chunk->behind;
        if (!gradient)
            err = forward(c, pipe->chunks, pipe->next_forward++, &msg);
        if (!err && (gradient || chunk->behind < 0)) {
            err = backward(c, pipe->chunks, next, &msg, next == last ? report : NULL, ctx, sum);
            next++;
        }
        fast_msg_free(msg);
        FAST_TRY(err);
    }
    return FAST_OK;
}

/* A step of a pipeline that is never drained. */
static fast_err run_undrained(fast_context *c, fast_report_fn *report, void *ctx,
                              fast_gradient *sum)
{
    start_step(c);
    return c->pipe.options.place.pipeline == FAST_PIPELINE_AMPNET ? answer(c, report, ctx, sum)
                                                                  : flow(c, report, ctx, sum);
}

/* All passes of a step. */
static fast_err run_step(fast_context *context, fast_report_fn *report, void *ctx,
                         fast_gradient *out)
{
    const fast_pipe_place *place = &context->pipe.options.place;
    const int64_t micro = place->micro_batches;
    const int64_t first = context->trainer.step * micro;
    const bool drains = fast__pipe_drains(place->pipeline);
    fast_msg *none = NULL;

    FAST_ASSERT(context->pipe.chunk_count > 0);
    FAST_ASSERT(micro == context->learner->parts);
    out->loss = out->flops = 0;
    out->correct = out->positions = out->samples = 0;
    if (!drains)
        FAST_TRY(run_undrained(context, report, ctx, out));
    for (int64_t i = 0; drains && i < fast__pipe_moves(place); i++) {
        const fast_pipe_move move = fast__pipe_move(place, i);
        fast_pipe_chunk *chunk = &context->pipe.chunks[move.chunk];
        const bool last = move.micro_batch == micro - 1;
        const int64_t number = first + move.micro_batch;

        if (move.kind == FAST_PIPE_FORWARD)
            FAST_TRY(forward(context, chunk, number, &none));
        else if (move.kind == FAST_PIPE_BACKWARD)
            FAST_TRY(backward(context, chunk, number, &none, last ? report : NULL, ctx, out));
        else
            FAST_TRY(weights(context, chunk, number, last ? report : NULL, ctx, out));
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
    context->pipe.share = 0;
    FAST_TRY(run_step(context, NULL, NULL, out));
    FAST_TRY(sum_shares(context, out));
    return finish_shard(context, report, ctx);
}
