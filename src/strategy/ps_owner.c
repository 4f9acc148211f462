/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An owner of a range of the model: what it does with the updates that reach it.
 *
 *     late      = updates of the model since the one that the writer read
 *     x         <- compensated, by how the model changed since (compensate.c)
 *     n = 1     w <- rule(w, scale(late) x)
 *     n > 1     sum += scale(late) x; of every n:  w <- rule(w, sum / n)
 *     slack 0   the gradients of a round are kept apart and summed in the canonical order
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
#include "comm/sum.h"
#include "strategy/ps.h"
#include "tensor/vector.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* Versions by which a gradient may be late, for each writer, and still be compensated exactly. */
enum { PAST = 2 };

/* Keep a gradient for the round; the last one makes the sum, in the canonical order. */
static void collect_round(ps_owner *o, const fast_space_update *u, int64_t from, int64_t n)
{
    int64_t used = 0;

    FAST_ASSERT(!o->came[from]);
    memcpy(o->round[from], u->x, (size_t)u->count * sizeof *u->x);
    o->came[from] = true;
    if (++o->pending < n)
        return;
    for (int64_t i = 0; i < o->writer_count; i++)
        if (o->came[i])
            o->list[used++] = o->round[i];
    fast__sum(o->list, used, u->count, o->sum);
    memset(o->came, 0, (size_t)o->writer_count * sizeof *o->came);
}

/* d <- mu d + (w - before);  w <- before + d */
static void add_momentum(ps_owner *o, int64_t count, float *w)
{
    const float mu = (float)o->config->momentum;

    for (int64_t i = 0; i < count; i++) {
        o->velocity[i] = mu * o->velocity[i] + (w[i] - o->before[i]);
        w[i] = o->before[i] + o->velocity[i];
    }
}

/* The step of the schedule that an update belongs to. Rounds count themselves, because a worker may
 * miss some; with a value bound the clock counts versions. A run that goes on, or its next phase,
 * goes on in the schedule. */
static int64_t step_of(const ps_owner *o, const fast_space_update *u, int64_t from)
{
    if (o->config->slack == 0)
        return o->begun + o->updates;
    return o->config->value > 0 ? o->begun + atomic_load(&o->contributions[from]) : u->clock;
}

/* w <- sign(w) max(|w| - by, 0) */
static void shrink(int64_t count, float by, float *w)
{
    for (int64_t i = 0; i < count; i++)
        w[i] = fabsf(w[i]) <= by ? 0 : w[i] - copysignf(by, w[i]);
}

/* Change the model by the sum of n writes, or by one. */
static void change(ps_owner *o, const fast_space_update *u, int64_t step, float *w, const float *x,
                   float scale)
{
    const double lr = fast_trainer_lr(o->t, step);

    if (o->before)
        memcpy(o->before, w, (size_t)u->count * sizeof *w);
    o->updates++;
    if (o->config->send == PS_SEND_GRADIENTS)
        fast_trainer_update_range(o->t, o->begun + o->updates, lr, w, x, scale, u->offset,
                                  u->count);
    else
        fast__vector_axpy(u->count, scale, x, w);
    if (o->before)
        add_momentum(o, u->count, w);
    if (o->config->l1 > 0)
        shrink(u->count, (float)(lr * o->config->l1), w);
    /* By the space's numbers: those of a server that begins anew go on where its node's memory is
     * left. */
    fast__implicit_see(&o->implicit, u->version + 1, u->read, u->x, lr * (double)scale);
}

/* How much an update counts that is so many updates late. */
static float scale_of(const ps_owner *o, int64_t late)
{
    if (o->config->staleness == 2)
        return 1.0f / (float)o->writer_count;
    return o->config->staleness == 1 && late > 1 ? 1.0f / (float)late : 1.0f;
}

/* Rounds change the state as they change the model: when all have come, in their order. */
static void collect_state(ps_owner *o, const fast_space_update *u, int64_t from, float *w)
{
    memcpy(o->state + from * u->count, u->x, (size_t)u->count * sizeof *u->x);
    if (++o->states < o->writer_count)
        return;
    for (int64_t i = 0; i < o->writer_count; i++)
        fast__vector_add(u->count, o->state + i * u->count, w);
    o->states = 0;
}

/* Tensors besides the model: what it holds of whom is written when somebody asks by adding to it;
 * all else is added as it is. */
static bool apply_other(ps_owner *o, const fast_space_update *u, int64_t from, float *w)
{
    if (u->tensor == o->tensors.state && o->state) {
        collect_state(o, u, from, w);
        return true;
    }
    if (u->tensor != o->tensors.contributions) {
        fast__vector_add(u->count, u->x, w);
        return true;
    }
    for (int64_t i = 0; i < u->count; i++)
        w[i] = (float)atomic_load(&o->contributions[u->offset + i]);
    return true;
}

static bool apply(void *ctx, const fast_space_update *u, float *w)
{
    ps_owner *o = ctx;
    const ps_config *c = o->config;
    const int64_t n = fast__ps_batch(c, o->writer_count), from = u->from - o->writers[0];
    const int64_t late = u->version / n - u->read / n;
    const float scale = scale_of(o, late);
    const float *x = u->x;
    int64_t step;

    FAST_ASSERT(from >= 0 && from < o->writer_count);
    if (u->tensor != 0)
        return apply_other(o, u, from, w);
    FAST_ASSERT(late >= 0);
    if (c->reject >= 0 && late > c->reject)
        return false;
    /* With backup workers a round takes one gradient of each, and none of an older round. */
    if (c->slack == 0 && (late > 0 || o->came[from]))
        return false;
    step = step_of(o, u, from);
    atomic_fetch_add(&o->contributions[from], c->push);
    if (c->compensate > 0) {
        const fast_compensation how = { c->compensate, c->decay };

        x = fast__past_compensate(&o->past, &how, u->read, u->version, u->count, x, w);
    }
    if (n == 1 && c->slack != 0) {
        change(o, u, step, w, x, scale);
        return true;
    }
    if (c->slack == 0) {
        collect_round(o, u, from, n);
    } else {
        fast__vector_axpy(u->count, scale, x, o->sum);
        o->pending++;
    }
    if (o->pending == n) {
        change(o, u, step, w, o->sum, 1.0f / (float)n);
        memset(o->sum, 0, (size_t)u->count * sizeof *o->sum);
        o->pending = 0;
    }
    return true;
}

/* What apply() costs for each float, on average: the sum of a round or of n gradients, and of every
 * n of them the rule and momentum. */
static void price(const ps_config *c, int64_t n, fast_space_options *space)
{
    const double part = 1 / (double)n;
    const bool sums = n > 1 || c->slack == 0, ruled = c->send == PS_SEND_GRADIENTS;

    FAST_ASSERT(n > 0);
    space->operations = part * (ruled ? FAST_UPDATE_OPERATIONS : 1) + (sums ? 1 : 0);
    space->bytes = part * (ruled ? FAST_UPDATE_BYTES : 12) + (sums ? 12 : 0);
    if (c->momentum != 0) { /* the model is kept, and moved once more */
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

fast_err fast__ps_open(fast_trainer *t, const ps_config *c, int64_t replica,
                       const ps_layers *layers, ps_owner *o, ps_tensors *tensors_out,
                       fast_space **out)
{
    static const char *const names[PS_REPLICAS_MAX + 1] = { "model", "model copy 1", "model copy 2",
                                                            "model copy 3" };
    const int64_t shards = fast__ps_shards(c, t->workers), steps = t->epoch_steps;
    fast_space_tensor tensors[4] = { { "w", t->count, t->w } };
    ps_tensors which = { .count = 1, .state = -1, .contributions = -1, .epochs = -1 };
    fast_space_options space = { .name = names[replica],
                                 .tensors = tensors,
                                 .owners = t->server_ids + replica * shards,
                                 .owner_count = shards,
                                 .eager = c->eager,
                                 .stalest_first = c->stalest,
                                 .sparse = fast__ps_filters(c),
                                 .cache_indices = c->cache,
                                 .replica = replica > 0,
                                 .layers = layers->layers,
                                 .layer_count = layers->count,
                                 .pieces = fast__ps_in_pieces(c, layers),
                                 .apply = apply,
                                 .ctx = o };

    FAST_ASSERT(replica >= 0 && replica <= PS_REPLICAS_MAX);
    space.aggregate = fast__ps_batch(c, fast__ps_writers(c, t, &space.writers));
    space.writer_count = fast__ps_writers(c, t, &space.writers);
    price(c, fast__ps_batch(c, space.writer_count), &space);
    if (t->state_count > 0) {
        which.state = which.count;
        tensors[which.count++] = (fast_space_tensor){ "s", t->state_count, t->s };
    }
    which.contributions = which.count;
    tensors[which.count++] = (fast_space_tensor){ "contributions", space.writer_count, NULL };
    if (c->epochs < 1) {
        which.epochs = which.count;
        which.epochs_len = t->step_count / steps + 1;
        tensors[which.count++] = (fast_space_tensor){ "epochs", which.epochs_len, NULL };
    }
    space.tensor_count = which.count;
    *tensors_out = which;
    return fast_trainer_space(t, &space, out);
}

static void owner_fini(ps_owner *o)
{
    for (int64_t i = 0; o->round && i < o->writer_count; i++)
        fast__free(o->round[i]);
    fast__free(o->round);
    fast__free(o->came);
    fast__free(o->list);
    fast__free(o->contributions);
    fast__free(o->sum);
    fast__free(o->before);
    fast__free(o->state);
    fast__past_fini(&o->past);
    fast__implicit_fini(&o->implicit);
}

/* Room for the gradients of a round. */
static fast_err round_init(ps_owner *o, int64_t room)
{
    FAST_TRY(fast__alloc("a round", o->writer_count, sizeof *o->round, &o->round));
    FAST_TRY(fast__alloc("a round's senders", o->writer_count, sizeof *o->came, &o->came));
    FAST_TRY(fast__alloc("a round's list", o->writer_count, sizeof *o->list, &o->list));
    for (int64_t i = 0; i < o->writer_count; i++)
        FAST_TRY(fast__alloc("a round's gradients", room, sizeof **o->round, &o->round[i]));
    return FAST_OK;
}

/* All of an owner's memory, of the largest range that a server may hold. */
static fast_err owner_init(ps_owner *o)
{
    const ps_config *c = o->config;
    const int64_t shards = fast__ps_shards(c, o->t->workers);
    const int64_t room = (o->t->count + shards - 1) / shards;
    void *kept = NULL;
    const bool simple = c->slack != 0 && c->send == PS_SEND_GRADIENTS;

    FAST_TRY(
        fast__alloc("contributions", o->writer_count, sizeof *o->contributions, &o->contributions));
    if (fast__ps_batch(c, o->writer_count) > 1 || c->slack == 0)
        FAST_TRY(fast__alloc("the sum of gradients", room, sizeof *o->sum, &o->sum));
    if (c->slack == 0)
        FAST_TRY(round_init(o, room));
    if (c->slack == 0 && c->backup == 0 && o->t->state_count > 0)
        FAST_TRY(fast__alloc("a round's state",
                             o->writer_count * ((o->t->state_count + shards - 1) / shards),
                             sizeof *o->state, &o->state));
    if (c->momentum != 0) {
        FAST_TRY(fast__alloc("the model before", room, sizeof *o->before, &o->before));
        FAST_TRY(fast_trainer_persist(o->t, 0, (size_t)room * sizeof *o->velocity, &kept));
        o->velocity = kept;
    }
    /* Measured where each update is one gradient. */
    if (simple && o->first && fast__ps_batch(c, o->writer_count) == 1)
        FAST_TRY(fast__implicit_init(o->t->count / shards, o->writer_count, &o->implicit));
    if (c->compensate > 0) {
        const fast_compensation how = { c->compensate, c->decay };

        FAST_TRY(fast__past_init(&how, PAST * o->writer_count, room, &o->past));
    }
    return FAST_OK;
}

/* What was measured, if it says anything. */
static void tell_momentum(const ps_owner *o)
{
    double error;
    const double mu = fast__implicit_estimate(&o->implicit, &error);

    if (isfinite(mu) && isfinite(error) && o->updates > 1)
        fast_trainer_momentum(o->t, mu, error);
}

fast_err fast__ps_own(fast_trainer *t, const ps_config *c, int64_t replica)
{
    ps_owner o = { .t = t, .config = c, .first = replica == 0, .begun = t->step };
    ps_layers layers = { 0 };
    fast_space *space = NULL;
    fast_err err;

    /* The writers have left this copy when its server crashed, and go on with the others: what it
     * would begin with is of no use to those who come later. */
    if (c->replicas > 0 && fast_actor_life(t->actor) > 0)
        return FAST_OK;
    o.writer_count = fast__ps_writers(c, t, &o.writers);
    err = owner_init(&o);
    if (!err)
        err = fast__ps_layers_new(t, c, &layers);
    if (!err)
        err = fast__ps_open(t, c, replica, &layers, &o, &o.tensors, &space);
    fast__ps_layers_free(&layers);
    if (!err)
        err = fast_space_serve(space, INT64_MAX);
    if (!err && o.first)
        tell_momentum(&o);
    const fast_err last = fast_trainer_space_close(t, space);
    owner_fini(&o);
    return err ? err : last;
}
