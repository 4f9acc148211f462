/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A writer of the model: a worker, or a proxy for its group of workers.
 *
 *     read    t->w, t->s <- the model, under the condition of ps_consistency.c
 *     push    add(gradients since the last push), or the difference of weights
 *
 * A codec may select elements of a push, and hold back the others until a later one (codec/). The
 * residual is the codec's, in the space of each copy; the value bound (ps_consistency.c) and the
 * workers of a proxy (ps_proxy.c) ask the space for it.
 *
 * With `priority` a read is only started, and the gradient waits for each layer's weights (TicTac:
 * Hashemi et al. 2019; P3: Jayarajan et al. 2019). With `overlap` a push sends ranges of the
 * gradient as they become final. Where writer and owners share memory, a push and the read after it
 * are one visit of the model.
 */
#include "base/memory.h"
#include "space/space.h"
#include "strategy/ps_keys.h"
#include "strategy/ps_tree.h"
#include "strategy/ps_visit.h"
#include "tensor/vector.h"
#include "trainer/remember.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Number of persistent memory with slack 0: checkpoints include it. */
enum { PERSIST_MODEL_STEP, PERSIST_ROUNDS };
/* Number of the speed of gradients in snapshots, beyond all others. */
enum { PERSIST_SPEED = 1 << 20 };

/* Add x to a tensor of every copy. */
static fast_err add(ps_writer *wr, int64_t tensor, const float *x)
{
    FAST_ASSERT(tensor >= 0 && tensor < wr->copies.tensors.count);
    return fast__ps_copies_write(&wr->copies,
                                 &(ps_operation){ .kind = PS_WRITE_ADD, .tensor = tensor, .x = x });
}

/* Pieces. */

/* Return the vector that the servers get pieces of. */
static const float *sent_vector(const ps_writer *wr)
{
    const ps_hybrid *h = &wr->layers.hybrid;

    FAST_ASSERT(h->count == 0 || h->g);
    return h->count > 0 ? h->g : wr->g;
}

/* Send the waiting range to every copy. Called in reports, which return no error: it is stored. */
static void send_piece(ps_writer *wr)
{
    ps_pieces *p = &wr->pieces;
    const float *x = sent_vector(wr);

    FAST_ASSERT(p->low <= p->high);
    for (int64_t i = 0; i < wr->copies.count && !p->err && p->low < p->high; i++)
        if (wr->copies.spaces[i])
            p->err = fast_space_add_piece(wr->copies.spaces[i], x, p->low, p->high - p->low);
    if (p->err)
        snprintf(p->why, sizeof p->why, "%s", fast_error_detail());
    p->low = p->high = 0;
}

/* A range of the gradient is final: join it to the waiting range, and send that if it is large. */
static void report_range(void *ctx, int64_t offset, int64_t count)
{
    ps_writer *wr = ctx;
    ps_pieces *p = &wr->pieces;
    const bool factors = fast__ps_hybrid_report(wr, &offset, count, &p->err);
    const bool below = offset + count == p->low, above = offset == p->high;

    FAST_ASSERT(count >= 0);
    if (p->err && p->why[0] == 0)
        snprintf(p->why, sizeof p->why, "%s", fast_error_detail());
    if (factors)
        return;
    if (p->low != p->high && !below && !above)
        send_piece(wr);
    if (p->low == p->high) {
        p->low = offset;
        p->high = offset + count;
    } else if (below) {
        p->low = offset;
    } else {
        p->high = offset + count;
    }
    if (p->high - p->low >= PS_PIECE)
        send_piece(wr);
}

/* Reads. */

/* Start to read the model in the order of its layers. The state is read before: it is as new, and a
 * space has one get in progress at a time. */
static fast_err start_read(ps_writer *wr, const fast_space_read *condition)
{
    fast_trainer *t = wr->t;
    fast_space_read read = *condition;

    FAST_ASSERT(!wr->visit.arriving);
    FAST_TRY(fast__ps_order(wr));
    fast_actor_at(t->actor, wr->step, "weights");
    if (wr->state_read) {
        FAST_TRY(fast__ps_copies_get(&wr->copies, wr->copies.tensors.state, t->s, &read));
        fast__vector_copy(t->state_count, t->s, wr->state_read);
    }
    FAST_TRY(wr->c->tasks
                 ? fast__ps_pull(wr, condition)
                 : fast__space_get_start(wr->copies.spaces[0], t->w, condition, FAST_SOON));
    wr->visit.arriving = true;
    return FAST_OK;
}

/* Wait for a range of the weights that the forward pass is about to read. */
static fast_err need_range(void *ctx, int64_t offset, int64_t count)
{
    ps_writer *wr = ctx;

    FAST_ASSERT(wr->visit.arriving);
    if (wr->c->tasks)
        return fast__ps_await_pulls(wr, offset, count);
    return fast__space_get_need(wr->copies.spaces[0], offset, count);
}

fast_err fast__ps_arrive(void *writer)
{
    ps_writer *wr = writer;
    fast_space_read read;

    FAST_ASSERT(wr->t != NULL);
    if (!wr->visit.arriving)
        return FAST_OK;
    wr->visit.arriving = false;
    if (wr->c->tasks) {
        const fast_space_read condition = fast__ps_condition(wr);

        FAST_TRY(fast__ps_await_pulls(wr, 0, wr->t->count));
        return fast__ps_copies_follow(&wr->copies, wr->c->slack == 0, &condition);
    }
    FAST_TRY(fast__space_get_end(wr->copies.spaces[0], &read));
    wr->version = read.version;
    wr->round = wr->begun + read.version / fast__ps_batch(wr->c, wr->writer_count);
    if (wr->base)
        fast__vector_copy(wr->t->count, wr->t->w, wr->base);
    return FAST_OK;
}

/* Other workers may end a round while this one reads: read again until all ranges are of one round.
 * Then all workers of an agent compute the same gradient. */
static fast_err read_one_round(ps_writer *wr, fast_space_read *read)
{
    const int64_t n = fast__ps_batch(wr->c, wr->writer_count);
    const fast_space *space = wr->copies.spaces[0];

    FAST_ASSERT(wr->copies.count == 1);
    for (int64_t round; (round = fast__space_read_newest(space, 0) / n) > read->version / n;) {
        *read = (fast_space_read){ .version_min = round * n };
        FAST_TRY(fast__ps_copies_get(&wr->copies, 0, wr->t->w, read));
    }
    return FAST_OK;
}

fast_err fast__ps_read_model(ps_writer *wr, const fast_space_read *condition)
{
    fast_trainer *t = wr->t;
    fast_space_read read = *condition;

    FAST_ASSERT(!wr->visit.arriving);
    fast_actor_at(t->actor, wr->step, "weights");
    if (wr->visit.fetched)
        read.version = wr->version;
    else
        FAST_TRY(fast__ps_get_or_send(wr, &read));
    if (wr->c->redundant > 1 && wr->c->slack == 0)
        FAST_TRY(read_one_round(wr, &read));
    if (fast__ps_recent_lost(wr)) { /* ask: an answer lacks no write */
        read.full_values = true;
        FAST_TRY(fast__ps_copies_get(&wr->copies, 0, t->w, &read));
        wr->recent.mixed = false;
    }
    if (!condition->full_values)
        fast__ps_add_own(wr);
    fast__ps_hybrid_unpack(wr);
    wr->visit.fetched = false;
    /* The other copies must count this version as read too: staleness is relative to it. */
    FAST_TRY(fast__ps_copies_follow(&wr->copies, wr->c->slack == 0, condition));
    wr->version = read.version;
    wr->visit.promised = false;
    wr->losses.too_few = condition->either && read.version < condition->version_min;
    wr->cached = wr->c->cache_age > 0 ? read.clock : -1;
    wr->round = wr->begun + read.version / fast__ps_batch(wr->c, wr->writer_count);
    if (wr->base)
        fast__vector_copy(t->count, t->w, wr->base);
    if (wr->c->value > 0)
        FAST_TRY(fast__ps_set_clock(wr, wr->version));
    if (!wr->state_read)
        return FAST_OK;
    FAST_TRY(fast__ps_copies_get(&wr->copies, wr->copies.tensors.state, t->s, NULL));
    fast__vector_copy(t->state_count, t->s, wr->state_read);
    return FAST_OK;
}

fast_err fast__ps_read(ps_writer *wr, bool last)
{
    fast_space_read condition = fast__ps_condition(wr);

    FAST_ASSERT(condition.clock_min <= wr->step || fast__ps_has_spare(wr->c));
    condition.full_values = last;
    wr->visit.fetched = wr->visit.fetched && !last;
    if (wr->losses.too_few && !last) /* a crashed worker has to restart */
        condition = (fast_space_read){ .version_min = condition.version_min };
    const int64_t begin = fast_now(wr->t->actor);
    FAST_TRY(!last && fast__ps_reads_slices(wr) ? start_read(wr, &condition)
                                                : fast__ps_read_model(wr, &condition));
    if (!wr->visit.arriving)
        fast__ps_time_read(wr, begin);
    if (wr->model_step && !fast__ps_has_spare(wr->c))
        *wr->model_step = wr->step + 1;
    return FAST_OK;
}

/* Steps. */

/* w <- w - lr g, plainly, whatever rule the servers apply to the gradients (Downpour's client). */
static fast_err step_locally(const ps_writer *wr)
{
    fast_trainer *t = wr->t;
    const double n = (double)t->count;

    FAST_ASSERT(wr->step > 0 && wr->c->send == PS_SEND_GRADIENTS);
    fast__vector_axpy(t->count, -(float)fast_trainer_lr(t, wr->step - 1), wr->g, t->w);
    return fast_charge(t->actor, 2 * n, 12 * n);
}

fast_err fast__ps_gradient(ps_writer *wr)
{
    fast_trainer *t = wr->t;

    const int64_t begin = fast_now(t->actor);
    const bool waits = wr->visit.arriving;

    FAST_ASSERT(wr->g == t->g);
    /* With `priority` each layer's forward pass waits for its weights; with `overlap` each layer's
     * gradient is sent when its backward pass ends. */
    FAST_TRY(fast_trainer_gradient_when(t, wr->visit.arriving ? need_range : NULL,
                                        wr->pieces.on ? report_range : NULL, wr));
    FAST_TRY(fast__ps_arrive(wr));
    if (!waits)
        fast__ps_time_gradient(wr, begin);
    wr->step = t->step;
    fast__ps_collect(wr);
    if (wr->base)
        return fast_trainer_update(t, t->g, 1);
    return wr->c->fetch > 1 ? step_locally(wr) : FAST_OK;
}

void fast__ps_collect(ps_writer *wr)
{
    FAST_ASSERT(wr->g != NULL);
    if (wr->sum)
        fast__vector_add(wr->t->count, wr->g, wr->sum);
}

/* Writes. */

/* Return the difference to the weights that were read, which it replaces; with `send=mean` divided
 * by the number of steps. */
static const float *difference(const ps_writer *wr)
{
    const int64_t steps = wr->step - wr->pushed;
    const float scale = wr->c->send == PS_SEND_MEAN ? 1.0f / (float)steps : 1.0f;

    FAST_ASSERT(steps > 0);
    fast__vector_difference(wr->t->count, scale, wr->t->w, wr->base);
    return wr->base;
}

/* Write x: with the next read in one visit, as factors, as one vector, or the rest of its
 * pieces. */
static fast_err write_model(ps_writer *wr, const float *x)
{
    fast_trainer *t = wr->t;
    ps_pieces *p = &wr->pieces;

    FAST_ASSERT(!wr->visit.fused || wr->copies.count == 1);
    wr->visit.fetched = wr->visit.fused && t->step % wr->c->fetch == 0 && t->step < t->step_count;
    if (wr->visit.direct)
        return fast__ps_push_visit(wr);
    if (wr->visit.fetched)
        return fast__space_add_get(wr->copies.spaces[0], x, t->w, &wr->version, FAST_SOON);
    if (wr->layers.count > 0)
        return fast__ps_copies_write(
            &wr->copies,
            &(ps_operation){ .kind = PS_WRITE_FACTORS, .g = wr->g, .layers = &wr->layers });
    if (wr->c->tasks)
        return fast__ps_push_ranges(wr, x);
    if (!p->on)
        return add(wr, 0, x);
    send_piece(wr);
    if (p->err)
        return fast__fail(p->err, "%s", p->why);
    return fast__ps_copies_write(&wr->copies,
                                 &(ps_operation){ .kind = PS_WRITE_END, .x = sent_vector(wr) });
}

/* Add this writer's change of the state; each writer's counts 1/P. */
static fast_err write_state(ps_writer *wr)
{
    fast_trainer *t = wr->t;

    FAST_ASSERT(wr->writer_count > 0);
    fast__vector_difference(t->state_count, 1, t->s, wr->state_read);
    fast__vector_divide(t->state_count, (float)wr->writer_count, wr->state_read);
    FAST_TRY(add(wr, wr->copies.tensors.state, wr->state_read));
    fast__vector_copy(t->state_count, t->s, wr->state_read);
    return FAST_OK;
}

fast_err fast__ps_push(ps_writer *wr)
{
    fast_trainer *t = wr->t;
    const float *x = wr->base ? difference(wr) : wr->sum ? wr->sum : wr->g;

    FAST_ASSERT(!wr->visit.arriving);
    fast_actor_at(t->actor, wr->step, wr->base ? "difference" : "gradient");
    /* Elements that the codec held back may be sent now; those that still wait are subtracted after
     * the write. */
    if (wr->unseen && wr->c->weak)
        fast__ps_unseen(wr, 1, NULL);
    else if (wr->unseen)
        FAST_TRY(fast__ps_bound_next(wr, x));
    if (wr->layers.count > 0)
        fast__ps_layers_take(t, &wr->layers);
    fast__ps_hold_begin(wr);
    fast__ps_recent_begin(wr, x);
    if (wr->copies.flow.actor)
        FAST_TRY(fast__ps_flow_begin(&wr->copies.flow, fast__ps_priority(t, wr->c)));
    FAST_TRY(write_model(wr, x));
    if (wr->copies.flow.actor)
        FAST_TRY(fast__ps_flow_end(&wr->copies.flow));
    fast__ps_recent_end(wr);
    fast__ps_hold_end(wr);
    wr->pushed = wr->step;
    wr->written = true;
    if (wr->state_read)
        FAST_TRY(write_state(wr));
    if (wr->unseen && wr->c->weak)
        FAST_TRY(fast__ps_bound_value(wr, x));
    if (wr->sum)
        fast__vector_fill(t->count, 0, wr->sum);
    return FAST_OK;
}

fast_err fast__ps_ask_contributions(ps_writer *wr, float *counts)
{
    FAST_ASSERT(wr->copies.tensors.contributions > 0);
    memset(counts, 0, (size_t)wr->writer_count * sizeof *counts);
    FAST_TRY(add(wr, wr->copies.tensors.contributions, counts)); /* the owner fills it in */
    return fast__ps_copies_get(&wr->copies, wr->copies.tensors.contributions, counts, NULL);
}

/* Open and close. */

/* Get persistent memory of the trainer; *out is a pointer of any type. */
static fast_err persist(fast_trainer *t, int64_t number, size_t size, void *out)
{
    void *memory = NULL;

    FAST_ASSERT(size > 0);
    FAST_TRY(fast_trainer_persist(t, number, size, &memory));
    memcpy(out, &memory, sizeof memory);
    return FAST_OK;
}

/* Allocate the vectors that the options need. */
static fast_err writer_alloc(ps_writer *wr)
{
    const ps_config *c = wr->c;
    const int64_t count = wr->t->count;
    const fast_device *device = fast__device_of(wr->t->w);

    FAST_ASSERT(count > 0);
    if (c->send != PS_SEND_GRADIENTS)
        FAST_TRY(fast__vector_new(device, "the weights read", count, &wr->base));
    else if (c->push > 1)
        FAST_TRY(fast__vector_new(device, "gradients to push", count, &wr->sum));
    if (c->slack == 0)
        FAST_TRY(persist(wr->t, fast__ps_has_spare(c) ? PERSIST_ROUNDS : PERSIST_MODEL_STEP,
                         sizeof *wr->model_step, &wr->model_step));
    if (c->value > 0)
        FAST_TRY(fast__vector_new(device, "unseen updates", count, &wr->unseen));
    if (wr->t->state_count > 0)
        FAST_TRY(fast__vector_new(device, "the state read", wr->t->state_count, &wr->state_read));
    return FAST_OK;
}

/* Allocate, choose layers with factors, open the copies. On failure the caller closes. */
static fast_err writer_init(ps_writer *wr)
{
    const ps_config *c = wr->c;

    FAST_ASSERT(wr->writer_count > 0);
    FAST_TRY(writer_alloc(wr));
    FAST_TRY(fast__ps_layers_new(wr->t, c, &wr->layers));
    wr->pieces.on = fast__ps_in_pieces(c, &wr->layers);
    FAST_TRY(fast__ps_copies_open(wr->t, c, &wr->layers, &wr->copies));
    FAST_TRY(fast__ps_recent_init(wr));
    wr->hold.complete = wr->step;
    if (c->slack > 0 && c->push == 1 && fast__space_defers(wr->copies.spaces[0]))
        wr->hold.rounds = (c->slack + 1) / 2;
    /* One visit for a write and the next read is possible where no read waits for other writers. */
    wr->visit.fused = c->slack < 0 && c->value == 0 && c->replicas == 0 && c->proxies == 0 &&
                      c->epochs == 1 && !c->priority && !c->tasks && !wr->pieces.on &&
                      wr->layers.count == 0 && fast__space_is_local(wr->copies.spaces[0]);
    wr->visit.direct = fast__ps_can_visit(wr);
    if (c->redundant > 1)
        FAST_TRY(fast__alloc("contributions", wr->writer_count, sizeof *wr->copies.counts,
                             &wr->copies.counts));
    if (c->epochs < 1)
        FAST_TRY(fast__alloc("ends of epochs", wr->copies.tensors.epochs_len, sizeof *wr->ends,
                             &wr->ends));
    return FAST_OK;
}

/* Have snapshots include the writes that values may lack: each with its place among the requests to
 * every owner, which the space counts on. Values that arrived and were not read yet are the
 * space's own. */
static fast_err remember_recent(ps_writer *wr)
{
    enum { FIRST = 16 };
    ps_recent *r = &wr->recent;
    const size_t row = (size_t)r->shards * sizeof *r->sent;

    FAST_ASSERT(r->room >= 0);
    if (r->room == 0)
        return FAST_OK;
    FAST_TRY(fast__trainer_remember(wr->t, 9, &r->count, sizeof r->count));
    FAST_TRY(fast__trainer_remember(wr->t, 10, r->sent, (size_t)r->room * row));
    FAST_TRY(fast__trainer_remember(wr->t, 11, r->dropped, row));
    FAST_TRY(fast__trainer_remember_flags(wr->t, 25, &r->mixed, 1));
    for (int64_t i = 0; i < r->room; i++)
        FAST_TRY(fast__trainer_remember(wr->t, FIRST + i, r->x[i],
                                        (size_t)wr->t->count * sizeof(float)));
    return fast__trainer_check_saved(wr->t, r->count >= 0 && r->count < INT64_MAX);
}

/* Have snapshots include the writer's memory, with its numbers from `step` to `begun`. The step
 * of a proxy is that of its group. */
static fast_err remember(ps_writer *wr)
{
    fast_trainer *t = wr->t;
    const size_t size = (size_t)t->count * sizeof(float);
    double *speed = fast__trainer_speed(t);
    const int64_t batch = fast__ps_batch(wr->c, wr->writer_count);

    FAST_ASSERT(!wr->visit.arriving);
    FAST_TRY(fast__trainer_remember(t, 0, &wr->step, 6 * sizeof wr->step));
    FAST_TRY(fast__trainer_remember_flags(t, 1, &wr->written, 1));
    FAST_TRY(fast__trainer_remember_flags(t, 2, &wr->visit.fetched, 1));
    FAST_TRY(fast__trainer_remember(t, 3, wr->sum, size));
    FAST_TRY(fast__trainer_remember(t, 4, wr->base, size));
    FAST_TRY(fast__trainer_remember(t, 5, wr->state_read, (size_t)t->state_count * sizeof(float)));
    FAST_TRY(fast__trainer_remember(t, 6, wr->unseen, size));
    FAST_TRY(fast__trainer_remember(t, 7, &wr->hold.complete, sizeof wr->hold.complete));
    FAST_TRY(fast__trainer_remember_flags(t, 8, &wr->losses.too_few, 1));
    FAST_TRY(fast__trainer_remember_flags(t, 29, wr->unseen ? &wr->visit.promised : NULL, 1));
    FAST_TRY(fast__trainer_remember(t, PERSIST_SPEED,
                                    wr->c->tasks || wr->c->priority ? speed : NULL, sizeof *speed));
    FAST_TRY(remember_recent(wr));
    return fast__trainer_check_saved(
        t, (wr->c->proxies > 0 ? wr->step <= t->step_count : wr->step == t->step) &&
               wr->pushed >= 0 && wr->pushed <= wr->step && wr->begun >= 0 &&
               wr->round >= wr->begun && wr->version <= INT64_MAX / 4 &&
               wr->round - wr->begun <= wr->version / batch && wr->hold.complete >= 0 &&
               wr->hold.complete <= wr->step && wr->cached >= -1 && *speed >= 0 &&
               isfinite(*speed));
}

/* Say how snapshots find the moment at which nobody waits for this worker. With backup workers that
 * is a round: a worker that has written its gradient of a round has done its part in all rounds up
 * to it, whichever steps it has taken itself. With a value bound another worker may wait until this
 * one has read. */
static void join_cuts(ps_writer *wr)
{
    fast_trainer *t = wr->t;

    FAST_ASSERT(wr->writer_count > 0);
    if (wr->c->proxies > 0) /* a proxy is a server: its workers join */
        return;
    if (wr->c->backup > 0)
        fast__trainer_cut_at(t, &wr->round);
    if (wr->c->value > 0)
        fast__trainer_cut_yield(t, fast__ps_yield, wr);
}

fast_err fast__ps_writer_open(fast_trainer *t, const ps_config *c, float *g, ps_writer *out)
{
    const int64_t *ids;
    fast_err err;

    FAST_ASSERT(g != NULL);
    *out = (ps_writer){ .t = t, .c = c, .g = g, .step = t->step, .pushed = t->step, .cached = -1 };
    out->writer_count = fast__ps_writers(c, t, &ids);
    err = writer_init(out);
    if (!err && fast__ps_has_spare(c)) /* the number may be forged */
        out->begun = *out->model_step < 0               ? 0
                     : *out->model_step > t->step_count ? t->step_count
                                                        : *out->model_step;
    out->round = out->begun;
    if (!err)
        err = remember(out);
    join_cuts(out);
    /* A run that continues: so do its clocks. Those of a snapshot are there. */
    if (!err && t->step > 0 && !fast__ps_has_spare(c) && !fast_trainer_resumed(t))
        err = fast__ps_end_step(out);
    if (err)
        (void)!fast__ps_writer_close(out); /* its state is of no use after a failure */
    return err;
}

fast_err fast__ps_writer_close(ps_writer *wr)
{
    const fast_err first = wr->t ? fast__ps_copies_close(&wr->copies) : FAST_OK;

    for (int64_t i = 0; i < wr->layers.count; i++) {
        const fast_err err = fast_trainer_use_factors(wr->t, wr->layers.numbers[i], false);
        FAST_ASSERT(!err || !wr->layers.factors[i]); /* nothing is allocated */
    }
    fast__ps_layers_free(&wr->layers);
    fast__ps_recent_fini(&wr->recent);
    fast__vector_free(wr->sum);
    fast__vector_free(wr->base);
    fast__vector_free(wr->unseen);
    fast__free(wr->ends);
    fast__free(wr->copies.counts);
    fast__vector_free(wr->state_read);
    wr->sum = wr->base = wr->unseen = wr->ends = wr->state_read = wr->copies.counts = NULL;
    return first;
}
