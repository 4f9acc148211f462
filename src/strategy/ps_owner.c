/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An owner of a range of the model applies the updates x that reach it.
 *
 *     late      = updates of the model since the one that the writer read
 *     x         <- compensated by the change of the model since then (compensate.c)
 *     n = 1     w <- rule(w, scale(late) x)
 *     n > 1     sum += scale(late) x; of every n:  w <- rule(w, sum / n)
 *     slack 0   the gradients of a round are stored, and summed in the canonical order
 *
 * Explicit momentum mu is of the model's changes, whatever rule makes them (heavy ball):
 *
 *     d <- mu d + (rule(w) - w);   w <- w + d
 *
 * so that it may also be negative, against the momentum that asynchrony brings by itself
 * (Mitliagkas et al., "Asynchrony begets momentum", 2016).
 *
 * With l1 every update ends with a proximal step, which makes weights 0 (Li et al. 2014):
 *
 *     w <- sign(w) max(|w| - lr l1, 0)
 */
#include "base/memory.h"
#include "strategy/ps_keys.h"
#include "strategy/ps_tree.h"
#include "strategy/ps_visit.h"
#include "tensor/sum.h"
#include "tensor/vector.h"
#include "trainer/part.h"
#include "trainer/remember.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* Versions by which a gradient may be late, for each writer, and still be compensated exactly. */
enum { PAST = 2 };

/* Store a gradient of the round; the last one completes the sum, in the canonical order. */
static void collect_round(ps_owner *o, const fast_space_update *u, int64_t from, int64_t n)
{
    int64_t used = 0;

    FAST_ASSERT(!o->arrived[from]);
    FAST_ASSERT(o->pending < n);
    fast__vector_copy(u->count, u->x, o->round[from]);
    o->arrived[from] = true;
    if (++o->pending < n)
        return;
    for (int64_t i = 0; i < o->writer_count; i++)
        if (o->arrived[i])
            o->list[used++] = o->round[i];
    FAST_ASSERT(used == n);
    fast__sum(o->list, used, u->count, o->sum);
    memset(o->arrived, 0, (size_t)o->writer_count * sizeof *o->arrived);
}

/* x = w, d, before:  d <- mu d + (w - before);  w <- before + d */
static void run_momentum(const void *ctx, int64_t n, float *const *x)
{
    const float mu = *(const float *)ctx;

    FAST_ASSERT(x[0] != x[1] && x[0] != x[2]);
    for (int64_t i = 0; i < n; i++) {
        x[1][i] = mu * x[1][i] + (x[0][i] - x[2][i]);
        x[0][i] = x[2][i] + x[1][i];
    }
}

/* Continue the last change of w, which it had `before`. */
static void add_momentum(ps_owner *o, int64_t count, float *w)
{
    const float mu = (float)o->config->momentum;

    FAST_ASSERT(o->velocity && o->before);
    fast__device_run(run_momentum, &mu, count, 3, 2, (float *[]){ w, o->velocity, o->before });
}

/* Return the step of the schedule that an update belongs to. A round is counted here, because a
 * worker may miss some; with a value bound the clock counts versions. A resumed run, or its next
 * phase, continues the schedule. */
static int64_t step_of(const ps_owner *o, const fast_space_update *u, int64_t from)
{
    FAST_ASSERT(from >= 0 && from < o->writer_count);
    if (o->config->slack == 0)
        return o->begun + o->updates;
    return o->config->value > 0 ? o->begun + atomic_load(&o->contributions[from]) : u->clock;
}

/* Return the number of a writer's steps that its write holds: `push`, or fewer at the end of the
 * run. The clock of a write is the number of steps before its last one; with a value bound it
 * counts versions, and after a restart of the writer it is behind: then it is `push`. A write of
 * elements that waited, between two steps, has counted the step after it. */
static int64_t steps_in(ps_owner *o, const fast_space_update *u, int64_t from)
{
    const int64_t push = o->config->push, steps = u->clock + 1 - o->written[from];

    FAST_ASSERT(from >= 0 && from < o->writer_count);
    o->written[from] = u->clock + 1;
    return o->config->value == 0 && steps >= 0 && steps < push ? steps : push;
}

/* w <- sign(w) max(|w| - by, 0) */
static void run_shrink(const void *ctx, int64_t n, float *const *x)
{
    const float by = *(const float *)ctx;
    float *w = x[0];

    FAST_ASSERT(by >= 0);
    for (int64_t i = 0; i < n; i++)
        w[i] = fabsf(w[i]) <= by ? 0 : w[i] - copysignf(by, w[i]);
}

/* Update the model by scale x: one write, or the sum of n writes. */
static void change(ps_owner *o, const fast_space_update *u, int64_t step, float *w, const float *x,
                   float scale)
{
    const double lr = fast_trainer_lr(o->t, step);

    FAST_ASSERT(step >= 0);
    if (o->before)
        fast__vector_copy(u->count, w, o->before);
    o->updates++;
    if (o->layers->hybrid.count > 0)
        fast__ps_hybrid_update(o, u, lr, w, x, scale);
    else if (o->config->send == PS_SEND_GRADIENTS)
        fast_trainer_update_range(o->t, o->begun + o->updates, lr, w, x, scale, u->offset,
                                  u->count);
    else
        fast__vector_axpy(u->count, scale, x, w);
    if (o->before)
        add_momentum(o, u->count, w);
    const float by = (float)(lr * o->config->l1);
    if (o->config->l1 > 0)
        fast__device_run(run_shrink, &by, u->count, 1, 1, &w);
    /* Versions are the space's: they continue at a restarted server whose node has its memory. */
    fast__implicit_see(&o->implicit, u->version + 1, u->read, u->x, lr * (double)scale);
}

/* Return the scale of an update that is `late` updates late. */
static float scale_of(const ps_owner *o, int64_t late)
{
    FAST_ASSERT(o->writer_count > 0);
    if (o->config->staleness == PS_STALENESS_WORKERS)
        return 1.0f / (float)o->writer_count;
    return o->config->staleness == PS_STALENESS_INVERSE && late > 1 ? 1.0f / (float)late : 1.0f;
}

/* Slack 0: add the changes of the state once all have arrived, in the order of ranks. */
static void collect_state(ps_owner *o, const fast_space_update *u, int64_t from, float *w)
{
    FAST_ASSERT(o->states < o->writer_count);
    fast__vector_copy(u->count, u->x, o->state + from * u->count);
    if (++o->states < o->writer_count)
        return;
    for (int64_t i = 0; i < o->writer_count; i++)
        fast__vector_add(u->count, o->state + i * u->count, w);
    o->states = 0;
}

/* Apply an add to a tensor besides the model. The contributions are filled in when a writer asks
 * for them by an add; all other tensors are plain sums. */
static void apply_other(ps_owner *o, const fast_space_update *u, int64_t from, float *w)
{
    FAST_ASSERT(u->tensor > 0 && u->tensor < o->tensors.count);
    if (u->tensor == o->tensors.state && o->state) {
        collect_state(o, u, from, w);
    } else if (u->tensor != o->tensors.contributions) {
        fast__vector_add(u->count, u->x, w);
    } else {
        /* Counters are whole numbers of the host; they are sent as floats of the space. */
        float *to = fast__map(w, u->count, FAST_ACCESS_WRITE);
        for (int64_t i = 0; i < u->count; i++)
            to[i] = (float)atomic_load(&o->contributions[u->offset + i]);
        fast__unmap(w, u->count, FAST_ACCESS_WRITE);
    }
}

/* True if an update is dropped: it is later than `reject`, or with slack 0 of an older round. With
 * backup workers a round takes one gradient of each worker. */
static bool is_dropped(const ps_owner *o, int64_t late, int64_t from)
{
    const ps_config *c = o->config;

    FAST_ASSERT(late >= 0);
    return (c->reject >= 0 && late > c->reject) ||
           (c->slack == 0 && (late > 0 || o->arrived[from]));
}

/* Without rounds: true if another worker's gradient of the same batch was here before. The owner
 * knows the last 64 steps of each agent one by one: where there are several servers, a step may
 * overtake the one before it. */
static bool is_repeated(ps_owner *o, const fast_space_update *u, int64_t from)
{
    enum { KNOWN = 64 };
    const int64_t step = u->clock + 1;
    int64_t *last = &o->last[from];

    FAST_ASSERT(from >= 0 && from < o->writer_count);
    if (step > *last) {
        o->seen[from] = step - *last < KNOWN ? o->seen[from] << (step - *last) : 0;
        *last = step;
    }
    const int64_t back = *last - step;
    if (back >= KNOWN || (o->seen[from] >> back & 1))
        return true;
    o->seen[from] |= (uint64_t)1 << back;
    return false;
}

/* The space's apply function: the formula at the top of the file. False: the update is dropped. */
static bool apply(void *ctx, const fast_space_update *u, float *w)
{
    ps_owner *o = ctx;
    const ps_config *c = o->config;
    const int64_t n = fast__ps_batch(c, o->writer_count);
    /* Workers that compute the same batches are one writer. */
    const int64_t from =
        fast__index_in(o->writers, o->writer_count, u->from) % (o->writer_count / c->redundant);
    const int64_t late = u->version / n - u->read / n;
    const float scale = scale_of(o, late);
    const float *x = u->x;

    FAST_ASSERT(from >= 0 && from < o->writer_count);
    if (u->tensor != 0) {
        apply_other(o, u, from, w);
        return true;
    }
    if (is_dropped(o, late, from) || (o->seen && is_repeated(o, u, from)))
        return false;
    /* Before the contributions change: with a value bound they are the step. */
    const int64_t step = step_of(o, u, from);
    atomic_fetch_add(&o->contributions[from], steps_in(o, u, from));
    if (c->compensate > 0)
        x = fast__past_compensate(&o->past, &(fast_compensation){ c->compensate, c->decay },
                                  u->read, u->version, u->count, x, w);
    if (n == 1 && c->slack != 0) {
        change(o, u, step, w, x, scale);
        return true;
    }
    /* n gradients make an update: their sum is completed by the last one that arrives. */
    if (c->slack == 0) {
        collect_round(o, u, from, n);
    } else {
        fast__vector_axpy(u->count, scale, x, o->sum);
        o->pending++;
    }
    if (o->pending == n) {
        change(o, u, step, w, o->sum, 1.0f / (float)n);
        fast__vector_fill(u->count, 0, o->sum);
        o->pending = 0;
    }
    return true;
}

/* As apply() does for one gradient; visitors start one after the other. */
ps_change fast__ps_change_begin(ps_owner *o, const fast_space_update *u)
{
    const int64_t from = fast__index_in(o->writers, o->writer_count, u->from);
    const int64_t step = step_of(o, u, from);
    const float scale = scale_of(o, u->version - u->read);

    FAST_ASSERT(from >= 0 && from < o->writer_count);
    FAST_ASSERT(o->layers->hybrid.count == 0 && !o->before);
    atomic_fetch_add(&o->contributions[from], steps_in(o, u, from));
    o->updates++;
    const ps_change change = { o->begun + o->updates, fast_trainer_lr(o->t, step), scale };
    fast__implicit_see(&o->implicit, u->version + 1, u->read, u->x, change.lr * (double)scale);
    return change;
}

/* Set the mean cost of apply() for each float: the sum of a round or of n gradients, and once for n
 * gradients the rule, momentum and the proximal step. */
static void set_cost(const ps_config *c, int64_t n, fast_space_options *space)
{
    const double part = 1 / (double)n;
    const bool sums = n > 1 || c->slack == 0, ruled = c->send == PS_SEND_GRADIENTS;

    FAST_ASSERT(n > 0);
    space->operations = part * (ruled ? FAST_UPDATE_OPERATIONS : 1) + (sums ? 1 : 0);
    space->bytes = part * (ruled ? FAST_UPDATE_BYTES : 12) + (sums ? 12 : 0);
    if (c->momentum != 0) { /* a copy of the model, and one more move */
        space->operations += 4 * part;
        space->bytes += 28 * part;
    }
    if (c->l1 > 0) {
        space->operations += 2 * part;
        space->bytes += 8 * part;
    }
    if (c->compensate > 0) { /* x + how x^2 (w - past) */
        space->operations += 4;
        space->bytes += 20;
    }
}

/* Fill in the tensors of the model's space: w, the state, contributions, steps of each epoch. */
static ps_tensors list_tensors(const fast_trainer *t, const ps_config *c, const ps_hybrid *h,
                               int64_t writers, fast_space_tensor tensors[PS_TENSORS_MAX])
{
    ps_tensors which = { .count = 1, .state = -1, .contributions = -1, .epochs = -1 };

    tensors[0] = h->count > 0 ? (fast_space_tensor){ "w", h->floats, h->w }
                              : (fast_space_tensor){ "w", t->count, t->w };
    if (t->state_count > 0) {
        which.state = which.count;
        tensors[which.count++] = (fast_space_tensor){ "s", t->state_count, t->s };
    }
    which.contributions = which.count;
    tensors[which.count++] = (fast_space_tensor){ "contributions", writers, NULL };
    if (c->epochs < 1) {
        which.epochs = which.count;
        which.epochs_len = t->step_count / t->epoch_steps + 1;
        tensors[which.count++] = (fast_space_tensor){ "epochs", which.epochs_len, NULL };
    }
    FAST_ASSERT(which.count <= PS_TENSORS_MAX);
    return which;
}

fast_err fast__ps_open(fast_trainer *t, const ps_config *c, int64_t replica,
                       const ps_layers *layers, ps_owner *o, ps_tensors *tensors_out,
                       fast_space **out)
{
    static const char *const names[PS_REPLICAS_MAX + 1] = { "model", "model copy 1", "model copy 2",
                                                            "model copy 3" };
    const int64_t shards = fast__ps_shards(c, t->workers);
    fast_space_tensor tensors[PS_TENSORS_MAX];
    ps_ring ring;
    fast_space_options space = { .name = names[c->chain ? 0 : replica],
                                 .tensors = tensors,
                                 .owners = t->server_ids + (c->chain ? 0 : replica * shards),
                                 .owner_count = shards,
                                 .copies = t->server_ids + shards,
                                 .copy_count = c->chain ? c->replicas : 0,
                                 .eager = c->eager,
                                 .stalest_first = c->stalest,
                                 .cache_indices = c->cache,
                                 .announce = c->barrier,
                                 .replica = replica > 0 && !c->chain,
                                 .layers = layers->layers,
                                 .layer_count = layers->count,
                                 .pieces = fast__ps_in_pieces(c, layers),
                                 .apply = apply,
                                 .apply_on_device = true,
                                 .ctx = o };

    FAST_ASSERT(replica >= 0 && replica <= PS_REPLICAS_MAX);
    FAST_TRY(fast__ps_ring_new(c, t, c->chain ? 0 : replica, &ring));
    if (ring.owners) {
        space.owners = ring.owners;
        space.ends = ring.ends;
    }
    space.writer_count = fast__ps_writers(c, t, &space.writers);
    space.aggregate = fast__ps_batch(c, space.writer_count);
    set_cost(c, space.aggregate, &space);
    *tensors_out = list_tensors(t, c, &layers->hybrid, space.writer_count, tensors);
    space.tensor_count = tensors_out->count;
    const fast_err err = fast_trainer_space(t, &space, out);
    fast__ps_ring_free(&ring); /* the space has copied it */
    return err;
}

/* Free an owner's memory; the velocity is the trainer's. */
static void owner_fini(ps_owner *o)
{
    FAST_ASSERT(!o->round || o->writer_count > 0);
    for (int64_t i = 0; o->round && i < o->writer_count; i++)
        fast__vector_free(o->round[i]);
    fast__free(o->round);
    fast__free(o->arrived);
    fast__free(o->list);
    fast__free(o->contributions);
    fast__free(o->written);
    fast__free(o->last);
    fast__free(o->seen);
    fast__vector_free(o->sum);
    fast__vector_free(o->before);
    fast__vector_free(o->state);
    fast__past_fini(&o->past);
    fast__implicit_fini(&o->implicit);
}

/* Slack 0: allocate for the gradients of a round, `room` floats each. */
static fast_err round_init(ps_owner *o, int64_t room)
{
    const fast_device *device = fast__device_of(o->t->w);

    FAST_ASSERT(o->writer_count > 0);
    FAST_TRY(fast__alloc("a round", o->writer_count, sizeof *o->round, &o->round));
    FAST_TRY(fast__alloc("a round's senders", o->writer_count, sizeof *o->arrived, &o->arrived));
    FAST_TRY(fast__alloc("a round's list", o->writer_count, sizeof *o->list, &o->list));
    for (int64_t i = 0; i < o->writer_count; i++)
        FAST_TRY(fast__vector_new(device, "a round's gradients", room, &o->round[i]));
    return FAST_OK;
}

/* Return the floats of the largest range of a vector that a server may hold. */
static int64_t room_for(const ps_owner *o, int64_t count)
{
    const int64_t shards = fast__ps_shards(o->config, o->t->workers);
    const int64_t wide = (int64_t)(o->widest * (double)count) + 1;

    FAST_ASSERT(o->widest >= 0 && o->widest <= 1);
    if (o->config->ring == 0)
        return (count + shards - 1) / shards;
    return wide < count ? wide : count;
}

/* Allocate an owner's memory, for the largest range that a server may hold. */
static fast_err owner_init(ps_owner *o)
{
    const ps_config *c = o->config;
    const int64_t shards = fast__ps_shards(c, o->t->workers);
    const int64_t room = room_for(o, o->t->count);
    const fast_device *device = fast__device_of(o->t->w);
    void *velocity = NULL;
    const bool simple = c->slack != 0 && c->send == PS_SEND_GRADIENTS;

    FAST_ASSERT(room > 0);
    FAST_TRY(
        fast__alloc("contributions", o->writer_count, sizeof *o->contributions, &o->contributions));
    FAST_TRY(fast__alloc("writes", o->writer_count, sizeof *o->written, &o->written));
    if (c->redundant > 1 && c->slack < 0) {
        FAST_TRY(fast__alloc("steps of agents", o->writer_count, sizeof *o->last, &o->last));
        FAST_TRY(fast__alloc("steps of agents", o->writer_count, sizeof *o->seen, &o->seen));
    }
    if (fast__ps_batch(c, o->writer_count) > 1 || c->slack == 0)
        FAST_TRY(fast__vector_new(device, "the sum of gradients", room, &o->sum));
    if (c->slack == 0)
        FAST_TRY(round_init(o, room));
    if (c->slack == 0 && !fast__ps_has_spare(c) && o->t->state_count > 0)
        FAST_TRY(fast__vector_new(device, "a round's state",
                                  o->writer_count * room_for(o, o->t->state_count), &o->state));
    if (c->momentum != 0) {
        FAST_TRY(fast__vector_new(device, "the model before", room, &o->before));
        FAST_TRY(fast_trainer_persist(o->t, 0, (size_t)room * sizeof *o->velocity, &velocity));
        o->velocity = velocity;
    }
    /* The implicit momentum is measured where each update is one gradient, in equal ranges. */
    if (simple && o->first && c->ring == 0 && fast__ps_batch(c, o->writer_count) == 1)
        FAST_TRY(fast__implicit_init(o->t->count / shards, o->writer_count, &o->implicit));
    if (c->compensate > 0) {
        const fast_compensation how = { c->compensate, c->decay };

        FAST_TRY(fast__past_init(&how, device, PAST * o->writer_count, room, &o->past));
    }
    return FAST_OK;
}

/* In a chain a state is sent in the middle of a round. */
static fast_err remember_round(ps_owner *o, size_t size)
{
    enum { FIRST_ROUND = 1 << 20 };
    const int64_t n = o->writer_count, shards = fast__ps_shards(o->config, o->t->workers);
    const int64_t floats = n * ((o->t->state_count + shards - 1) / shards);

    FAST_ASSERT(o->arrived != NULL);
    FAST_TRY(fast__trainer_remember_flags(o->t, 6, o->arrived, n));
    FAST_TRY(fast__trainer_remember(o->t, 7, &o->states, sizeof o->states));
    FAST_TRY(fast__trainer_remember(o->t, 8, o->state, (size_t)floats * sizeof *o->state));
    for (int64_t i = 0; i < n; i++)
        FAST_TRY(fast__trainer_remember(o->t, FIRST_ROUND + i, o->round[i], size));
    return FAST_OK;
}

/* Have snapshots include the owner's memory, with its numbers from `pending` to `updates`. The
 * measure of momentum starts anew. */
static fast_err remember(ps_owner *o)
{
    enum { FIRST_PAST = 16, FIRST_ROUND = 1 << 20 };
    const size_t size = (size_t)room_for(o, o->t->count) * sizeof(float);
    const size_t counters = (size_t)o->writer_count * sizeof(int64_t);
    fast_past *past = &o->past;
    int64_t arrived = 0;

    FAST_ASSERT(o->contributions != NULL);
    FAST_TRY(fast__trainer_remember(o->t, 0, &o->pending, 3 * sizeof o->pending));
    FAST_TRY(fast__trainer_remember(o->t, 1, (void *)o->contributions, counters));
    FAST_TRY(fast__trainer_remember(o->t, 2, o->written, counters));
    FAST_TRY(fast__trainer_remember(o->t, 3, o->sum, size));
    FAST_TRY(fast__trainer_remember(o->t, 4, &past->begin, sizeof past->begin));
    FAST_TRY(fast__trainer_remember(o->t, 5, past->square, size));
    FAST_TRY(fast__trainer_remember(o->t, 9, o->last, counters));
    FAST_TRY(fast__trainer_remember(o->t, 10, o->seen, counters));
    for (int64_t i = 0; past->models && i < past->room; i++)
        FAST_TRY(fast__trainer_remember(o->t, FIRST_PAST + i, past->models[i], size));
    if (o->round)
        FAST_TRY(remember_round(o, size));
    for (int64_t i = 0; o->round && i < o->writer_count; i++)
        arrived += o->arrived[i];
    return fast__trainer_check_saved(
        o->t, o->pending >= 0 && o->pending < fast__ps_batch(o->config, o->writer_count) &&
                  (!o->round || o->pending == arrived) && o->begun >= 0 && o->updates >= 0 &&
                  o->begun <= INT64_MAX / 4 && o->updates <= INT64_MAX / 4 && past->begin >= -1);
}

/* Report the measured momentum, if the estimate is reliable. */
static void tell_momentum(const ps_owner *o)
{
    double error;
    const double mu = fast__implicit_estimate(&o->implicit, &error);

    FAST_ASSERT(o->first);
    if (isfinite(mu) && isfinite(error) && o->updates > 1)
        fast_trainer_momentum(o->t, mu, error);
}

fast_err fast__ps_own(fast_trainer *t, const ps_config *c, int64_t replica)
{
    ps_owner o = { .t = t, .config = c, .first = replica == 0, .begun = t->step };
    ps_layers layers = { 0 };
    ps_flows *flows = NULL;
    fast_space *space = NULL;
    ps_ring ring;
    fast_err err;

    /* Writers left this copy when its server crashed, and continue with the other copies: the
     * initial values of a restarted server are of no use. In a chain it gets another's state. */
    if (c->replicas > 0 && !c->chain && fast_actor_life(t->actor) > 0)
        return FAST_OK;
    FAST_ASSERT(replica >= 0 && replica <= c->replicas);
    o.writer_count = fast__ps_writers(c, t, &o.writers);
    FAST_TRY(fast__ps_ring_new(c, t, replica, &ring));
    o.widest = ring.widest;
    fast__ps_ring_free(&ring);
    err = owner_init(&o);
    if (!err)
        err = remember(&o);
    o.layers = &layers;
    if (!err)
        err = fast__ps_layers_new(t, c, &layers);
    if (!err)
        err = fast__ps_open(t, c, replica, &layers, &o, &o.tensors, &space);
    if (!err && t->rank == 0) /* it grants slots for all servers */
        err = fast__ps_flows_init(t, c, o.writer_count, &flows);
    if (!err)
        err = fast_space_serve(space, INT64_MAX);
    if (!err && o.first)
        tell_momentum(&o);
    const fast_err last = fast_trainer_space_close(t, space);
    fast__ps_flows_close(flows);
    owner_fini(&o);
    fast__ps_layers_free(&layers);
    return err ? err : last;
}
