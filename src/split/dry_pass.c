/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes of a dry run: a pass charges the operations of its sections, exchanges sizes over the
 * shards between and inside them, reports the ranges of its gradient while it computes, and sends
 * the size of its activations, or of their gradient, to the next stage. The order of passes is that
 * of the schedule; ampnet takes the message that is there.
 */
#include "split/dry_run.h"

#include "base/memory.h"
#include "comm/resharding.h"
#include "engine/pass_parts.h"
#include "fast/strategy.h"
#include "transport/transport.h"

enum { SLAB = 24576 }; /* floats of rows that are reported at once */

/* A pass under way. */
typedef struct dry_pass {
    fast_work work;        /* first: the transport's view */
    fast_dry_worker *self; /* whose pass it is */
    int64_t stage;         /* of the model */
    fast_pipe_kind kind;   /* of the pass */
    bool last;             /* the gradient of the stage is final behind it */
    double bytes;          /* moved besides its operations */
    double reported;       /* operations over which reports are spread; 0: it reports nothing */
} dry_pass;

/* The part of the model that a stage has. */
static const fast_plan_part *part_of(const fast_dry_worker *self, int64_t stage)
{
    return &self->run->parts[stage];
}

/* Is the gradient exchanged while it is computed? */
bool fast__dry_overlaps(const fast_dry_worker *self)
{
    const fast_plan_exchange exchange = self->run->plan->exchange;

    if (!self->replicas || self->step == 0)
        return false;
    return exchange == FAST_PLAN_ALLREDUCE
               ? self->network
               : exchange >= FAST_PLAN_ZERO_2 && exchange <= FAST_PLAN_ZERO_3;
}

/* Start the exchange of a range that is final. */
void fast__dry_start_bucket(fast_dry_worker *self)
{
    const int64_t count = self->high - self->low;

    if (self->err || count == 0)
        return;
    FAST_ASSERT(self->request_count < self->request_max);
    fast_request **request = &self->requests[self->request_count];
    self->err = self->run->plan->exchange == FAST_PLAN_ALLREDUCE
                    ? fast_allreduce_start(self->replicas, NULL, count, request)
                    : fast__sliced_gather(&self->sliced, NULL, count, -1, request);
    self->request_count += self->err == FAST_OK;
    self->low = self->high = 0;
}

/* Report of a pass: extend the pending range, and start it once it is as large as a bucket, as
 * strategies do. */
void fast__dry_report(void *ctx, int64_t offset, int64_t count)
{
    fast_dry_worker *self = ctx;

    if (self->low != self->high && offset + count != self->low && offset != self->high)
        fast__dry_start_bucket(self);
    if (self->low == self->high) {
        self->low = offset;
        self->high = offset + count;
    } else if (offset < self->low) {
        self->low = offset;
    } else {
        self->high = offset + count;
    }
    if (self->high - self->low >= FAST_DRY_BUCKET)
        fast__dry_start_bucket(self);
}

/* Report a node's gradient inside its pass, as engine cpu does: a dense layer's bias, then its
 * weights in slabs of rows; other layers whole. *covered: floats reported so far. */
static void report_node(dry_pass *pass, int node, int64_t from, double *covered)
{
    const fast_dry_worker *self = pass->self;
    const fast_graph *graph = self->run->space->job.graph;
    const bool dense = graph->nodes[node].op == FAST_OP_DENSE;
    const double each = pass->reported / (double)part_of(self, pass->stage)->params;
    int64_t offset, count, slab;

    if (!fast__node_params(graph, node, &offset, &count))
        return;
    const int64_t row = dense ? fast__dense_shape(graph, node).inputs : count;
    const int64_t weights = dense ? fast__dense_shape(graph, node).outputs * row : count;
    slab = dense ? SLAB / row / 8 * 8 * row : count;
    slab = dense && slab < 8 * row ? 8 * row : slab;
    if (weights < count) {
        *covered += (double)(count - weights);
        fast_work_report(&pass->work, each * *covered, offset + weights - from, count - weights);
    }
    for (int64_t at = 0; at < weights; at += slab) {
        const int64_t n = weights - at < slab ? weights - at : slab;

        *covered += (double)n;
        fast_work_report(&pass->work, each * *covered, offset + at - from, n);
    }
}

/* Report the gradient's ranges, from the last layer to the first, inside fast_compute(). A worker's
 * chunks lie one after the other. */
static fast_err run_pass(fast_work *work)
{
    dry_pass *pass = (dry_pass *)work;
    const fast_dry_worker *self = pass->self;
    const fast_plan_space *space = self->run->space;
    const fast_plan *plan = self->run->plan;
    const int64_t k = pass->stage;
    const int first = k > 0 ? space->cuts[plan->cuts[k - 1]] : 0;
    int64_t from = k > 0 ? space->prefixes[plan->cuts[k - 1]].params : 0;
    double covered = 0;

    for (int64_t i = self->at.pipe; i < k; i += plan->mesh.pipe)
        from -= part_of(self, i)->params;
    for (int i = space->cuts[plan->cuts[k]]; pass->reported > 0 && i > first; i--)
        report_node(pass, i, from, &covered);
    return FAST_OK;
}

/* Exchange a value over the shards, as fast__reshard() does. */
static fast_err exchange_shards(fast_dry_worker *self, const fast_reshard *how,
                                fast_reshard_kind kind, int64_t samples)
{
    const int64_t T = self->run->plan->mesh.tensor, t = self->at.tensor;
    const fast_reshard_value value = { how, kind, samples, T };

    if (kind == FAST_RESHARD_NONE || kind == FAST_RESHARD_SLICE)
        return FAST_OK;
    if (kind == FAST_RESHARD_SUM) {
        const fast_reshard_box all = fast__reshard_before(&value, 0);

        return fast_allreduce(self->shards, NULL, fast__reshard_count(&value, &all), FAST_SOON);
    }
    for (int64_t i = 1; i < T; i++) {
        const fast_reshard_box part = fast__reshard_common(&value, t, (t + i) % T);
        const int64_t count = fast__reshard_count(&value, &part);
        fast_msg *msg = NULL;

        if (count == 0)
            continue;
        FAST_TRY(fast_msg_new(self->actor, FAST_DRY_SHARD, &msg));
        msg->declared = (size_t)count * sizeof(float);
        FAST_TRY(fast_send(self->actor, self->number - t + (t + i) % T, &msg));
    }
    for (int64_t i = 1; i < T; i++) {
        const int64_t from = (t + i) % T;
        const fast_reshard_box part = fast__reshard_common(&value, from, t);
        fast_msg *msg = NULL;

        if (fast__reshard_count(&value, &part) == 0)
            continue;
        FAST_TRY(
            fast_receive(self->actor, self->number - t + from, FAST_DRY_SHARD, FAST_SOON, &msg));
        fast_msg_free(msg);
    }
    return FAST_OK;
}

/* Move the blocks of a section's visitors to their next shards, with their gradients in a backward
 * pass, as fast__rounds_move() does. */
static fast_err shift_blocks(fast_dry_worker *self, const fast_round_op *op,
                             const fast_round_call *call, bool back)
{
    const int64_t first = self->number - self->at.tensor;
    fast_round_call own = *call;

    own.shard = self->at.tensor;
    for (int v = 0; v < FAST_VISITORS_MAX && op->floats(call, v) > 0; v++) {
        const int64_t floats = op->floats(call, v), to = first + op->next(&own, v, back);
        const int64_t from = first + op->next(&own, v, !back);
        fast_msg *msg = NULL;

        if (to == self->number)
            continue;
        FAST_TRY(fast_msg_new(self->actor, FAST_DRY_SHARD, &msg));
        msg->declared = (size_t)floats * (back ? 2 : 1) * sizeof(float);
        FAST_TRY(fast_send(self->actor, to, &msg));
        FAST_TRY(fast_receive(self->actor, from, FAST_DRY_SHARD, FAST_SOON, &msg));
        fast_msg_free(msg);
    }
    return FAST_OK;
}

/* Compute a section; the first one of a pass moves its bytes. */
static fast_err compute(dry_pass *pass, double operations, double reported)
{
    pass->work = (fast_work){ .run = run_pass,
                              .report = reported > 0 ? fast__dry_report : NULL,
                              .ctx = pass->self,
                              .operations = operations,
                              .bytes = pass->bytes };
    pass->reported = reported;
    pass->bytes = 0;
    return fast_compute(pass->self->actor, &pass->work);
}

/* Operations of a section's pass for one sample. */
static double operations_of(const fast_dry_run *run, const fast_dry_section *section,
                            fast_pipe_kind kind)
{
    const bool divides = fast__pipe_divides(run->plan->way.pipeline);
    const bool again = run->plan->recompute || run->space->job.recomputes;

    if (kind == FAST_PIPE_FORWARD)
        return section->forward;
    if (kind == FAST_PIPE_WEIGHTS)
        return section->weights;
    return section->backward - (divides ? section->weights : 0) + (again ? section->forward : 0);
}

/* Compute a section in rounds, with blocks that move between them. The section is that of the last
 * shard, and so are sizes. */
static fast_err run_rounds(dry_pass *pass, const fast_split_section *section)
{
    fast_dry_worker *self = pass->self;
    const fast_round_op *op = section->rounds;
    const bool back = pass->kind != FAST_PIPE_FORWARD;
    fast_round_call call = { .graph = &section->graph,
                             .samples =
                                 (int64_t)fast__plan_computed(self->run->space, self->run->plan),
                             .shard = self->run->plan->mesh.tensor - 1,
                             .shards = self->run->plan->mesh.tensor };
    const int64_t count = op->rounds(&call);

    for (int64_t i = 0; i < count; i++) {
        call.round = back ? count - 1 - i : i;
        FAST_TRY(compute(pass, (back ? 2 : 1) * op->operations(&call), 0));
        if (i + 1 < count)
            FAST_TRY(shift_blocks(self, op, &call, back));
    }
    return FAST_OK;
}

/* Does a pass report the gradient of its stage? Where passes are divided the second half does. */
static bool reports(const dry_pass *pass)
{
    const bool divides = fast__pipe_divides(pass->self->run->plan->way.pipeline);

    return pass->last && pass->kind == (divides ? FAST_PIPE_WEIGHTS : FAST_PIPE_BACKWARD) &&
           !part_of(pass->self, pass->stage)->shard && fast__dry_overlaps(pass->self);
}

/* Exchange in the middle of a section, all of it behind its pass. */
static fast_err exchange_inside(fast_dry_worker *self, const fast_graph *graph, bool backward)
{
    const int64_t batch = self->run->batch;

    for (int i = 0; i < graph->node_count; i++) {
        const fast_reshard *how = graph->nodes[i].exchange;

        if (how)
            FAST_TRY(exchange_shards(self, how, backward ? how->backward : how->forward,
                                     fast__exchange_samples(&graph->nodes[i], batch)));
    }
    return FAST_OK;
}

/* Run a pass of a micro-batch: its sections, with exchanges in between. */
static fast_err run_sections(dry_pass *pass)
{
    fast_dry_worker *self = pass->self;
    const fast_dry_run *run = self->run;
    const fast_dry_section *sections = run->sections[pass->stage];
    const fast_split_shard *shard = part_of(self, pass->stage)->shard;
    const int64_t count = shard ? shard->section_count : 1;
    const double n = fast__plan_computed(run->space, run->plan);
    const bool backward = pass->kind != FAST_PIPE_FORWARD;
    const double thirds = pass->kind == FAST_PIPE_WEIGHTS ? 1 : 2; /* as a run spreads reports */

    for (int64_t i = 0; i < count; i++) {
        const int64_t k = backward ? count - 1 - i : i;
        const fast_split_section *section =
            shard && pass->kind != FAST_PIPE_WEIGHTS ? &shard->sections[k] : NULL;
        const bool outer = pass->stage == 0 && k == 0; /* nothing is before it */
        const double train = sections[k].forward + sections[k].backward;

        if (section && (backward || !outer))
            FAST_TRY(exchange_shards(self, backward ? &section->leave : &section->enter,
                                     backward ? section->leave.backward : section->enter.forward,
                                     run->batch));
        FAST_TRY(section && section->rounds
                     ? run_rounds(pass, section)
                     : compute(pass, n * operations_of(run, &sections[k], pass->kind),
                               reports(pass) ? n * train * thirds / 3 : 0));
        if (section)
            FAST_TRY(exchange_inside(self, &section->graph, backward));
        if (section && !(backward && outer))
            FAST_TRY(exchange_shards(self, backward ? &section->enter : &section->leave,
                                     backward ? section->enter.backward : section->leave.forward,
                                     run->batch));
    }
    return FAST_OK;
}

/* Run a pass and count its time. */
static fast_err run_counted(dry_pass *pass)
{
    fast_dry_worker *self = pass->self;
    const int64_t begin = fast_now(self->actor);

    FAST_TRY(run_sections(pass));
    if (self->step >= self->run->warm && self->step < self->run->cold)
        self->compute_ns += fast_now(self->actor) - begin;
    return FAST_OK;
}

/* Send floats of each sample to a worker, or receive them; nothing for 0 floats. */
fast_err fast__dry_send(fast_dry_worker *self, int64_t to, uint64_t tag, int64_t floats)
{
    fast_msg *msg = NULL;

    FAST_TRY(fast_msg_new(self->actor, tag, &msg));
    msg->declared = (size_t)floats * sizeof(float);
    return fast_send(self->actor, to, &msg);
}

fast_err fast__dry_receive(fast_dry_worker *self, int64_t from, uint64_t tag)
{
    fast_msg *msg = NULL;

    FAST_TRY(fast_receive(self->actor, from, tag, FAST_SOON, &msg));
    fast_msg_free(msg);
    return FAST_OK;
}

/* The worker that has the stage before (-1) or behind (1) that of this one, its own shard of it. */
static int64_t neighbour(const fast_dry_worker *self, int64_t by)
{
    const fast_mesh *mesh = &self->run->plan->mesh;
    fast_mesh_place at = self->at;

    at.pipe = (at.pipe + by + mesh->pipe) % mesh->pipe;
    return fast__mesh_worker(mesh, at);
}

/* The tag of a message between stages: ampnet waits for any. */
static uint64_t tag_of(const fast_dry_worker *self, uint64_t tag)
{
    return self->run->plan->way.pipeline == FAST_PIPELINE_AMPNET ? FAST_DRY_ANY : tag;
}

/* The forward pass of a micro-batch; `here`: its activations have come. */
static fast_err forward(fast_dry_worker *self, int64_t stage, bool here)
{
    const fast_plan_part *part = part_of(self, stage);
    dry_pass pass = { .self = self, .stage = stage, .kind = FAST_PIPE_FORWARD };

    if (part->inputs > 0 && !here)
        FAST_TRY(fast__dry_receive(self, neighbour(self, -1), FAST_DRY_FORWARD));
    FAST_TRY(run_counted(&pass));
    return part->outputs > 0
               ? fast__dry_send(self, neighbour(self, 1), tag_of(self, FAST_DRY_FORWARD),
                                self->run->batch * part->outputs)
               : FAST_OK;
}

/* The backward pass of a micro-batch, or its first half; `last`: of the step; `here`: its gradient
 * has come. The weights are copied before the update where older ones are stored. */
static fast_err backward(fast_dry_worker *self, int64_t stage, bool last, bool here)
{
    const fast_plan_part *part = part_of(self, stage);
    const fast_pipe_place place =
        fast__plan_place(self->run->space, self->run->plan, self->at.pipe);
    const bool stores =
        place.pipeline == FAST_PIPELINE_PIPEDREAM || place.pipeline == FAST_PIPELINE_2BW;
    dry_pass pass = { .self = self, .stage = stage, .kind = FAST_PIPE_BACKWARD, .last = last };

    if (part->outputs > 0 && !here)
        FAST_TRY(fast__dry_receive(self, neighbour(self, 1), FAST_DRY_BACKWARD));
    if (last && stores && fast__pipe_staleness(&place) > 0)
        pass.bytes = 2.0 * sizeof(float) * (double)self->params;
    FAST_TRY(run_counted(&pass));
    return part->inputs > 0
               ? fast__dry_send(self, neighbour(self, -1), tag_of(self, FAST_DRY_BACKWARD),
                                self->run->batch * part->inputs)
               : FAST_OK;
}

/* The passes of an update of a schedule that is drained. */
static fast_err run_drained(fast_dry_worker *self, const fast_pipe_place *place)
{
    for (int64_t i = 0; i < fast__pipe_moves(place); i++) {
        const fast_pipe_move move = fast__pipe_move(place, i);
        const int64_t stage = move.chunk * place->stages + place->stage;
        const bool last = move.micro_batch == place->micro_batches - 1;
        dry_pass late = { .self = self, .stage = stage, .kind = FAST_PIPE_WEIGHTS, .last = last };

        FAST_TRY(move.kind == FAST_PIPE_FORWARD    ? forward(self, stage, false)
                 : move.kind == FAST_PIPE_BACKWARD ? backward(self, stage, last, false)
                                                   : run_counted(&late));
    }
    return FAST_OK;
}

/* The passes of an update of ampnet, as messages come. */
static fast_err run_any(fast_dry_worker *self, const fast_pipe_place *place, int64_t all)
{
    const fast_plan_part *part = part_of(self, place->stage);
    const int64_t last = (self->step + 1) * place->micro_batches - 1;

    while (self->done <= last) {
        fast_msg *msg = NULL;
        fast_err err = FAST_ETIMEDOUT;

        if (part->outputs > 0)
            err = fast_receive(self->actor, neighbour(self, 1), FAST_DRY_ANY, FAST_AT_ONCE, &msg);
        if (err == FAST_ETIMEDOUT && part->inputs == 0 && self->next < all &&
            self->next - self->done < fast__pipe_flight(place))
            err = FAST_OK; /* another one enters */
        else if (err == FAST_ETIMEDOUT)
            err = fast_receive(self->actor, FAST_ANY, FAST_DRY_ANY, FAST_SOON, &msg);
        FAST_TRY(err);
        const bool gradient = msg && part->outputs > 0 && msg->from == neighbour(self, 1);
        fast_msg_free(msg);
        if (!gradient) {
            FAST_TRY(forward(self, place->stage, true));
            self->next++;
        }
        if (gradient || part->outputs == 0) {
            FAST_TRY(backward(self, place->stage, self->done == last, true));
            self->done++;
        }
    }
    return FAST_OK;
}

/* All passes of an update. */
fast_err fast__dry_passes(fast_dry_worker *self)
{
    const fast_plan *plan = self->run->plan;
    const fast_pipe_place place = fast__plan_place(self->run->space, plan, self->at.pipe);
    const int64_t M = place.micro_batches, all = self->run->steps * M;

    if (fast__pipe_drains(place.pipeline))
        return run_drained(self, &place);
    if (place.pipeline == FAST_PIPELINE_AMPNET)
        return run_any(self, &place, all);
    for (int64_t i = 0; i < M; i++, self->done++) {
        for (; self->next <= self->done + fast__pipe_ahead(&place) && self->next < all;
             self->next++)
            FAST_TRY(forward(self, place.stage, false));
        FAST_TRY(backward(self, place.stage, i == M - 1, false));
    }
    return FAST_OK;
}
