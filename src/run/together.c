/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One model for all workers of a process, where a strategy keeps replicas equal anyway.
 *
 *     share    w and the rule's state become the team's: one vector each, whoever reads or updates
 *     update   each worker sums a slice of all gradients and updates that slice of w, piece by
 *              piece while it is in the cache: a reduce-scatter that ends in the update, and no
 *              allgather, since everyone reads the same w
 *     leave    when its program ends a worker takes a copy back
 *
 * Against replicas that are updated one by one, P workers do the update once instead of P times,
 * write no gradient, and keep P - 1 vectors less in the caches. But everyone's way forward reads
 * what others have just written, and what all have read is dear to write: the new values go past
 * the caches (tensor/stream.h). The more workers, the less each has to write; two may be faster
 * with replicas. The sum has the canonical order and the rule is applied element by element, so
 * that the bits are the same.
 *
 * Nobody reads w while another writes it: a worker enters the update after its gradient, the sum
 * begins when all have entered, and who leaves knows that all slices are written (comm/direct.c).
 *
 * Only where actors are threads of this process, the rule needs no norm of the whole and the run is
 * not recorded. Simulated workers keep replicas of their own: each has its own node's memory, or
 * pretends to.
 */
#include "run/team.h"

#include "base/memory.h"
#include "comm/allreduces.h"
#include "tensor/stream.h"

#include <string.h>

/* May this worker's replica be the team's? All workers find the same. */
static bool can_share(const fast_seat *seat)
{
    const fast_team *team = seat->team;
    const fast_trainer *t = &seat->trainer;

    if (!team->alone || team->run->is_virtual || team->job || t->workers == 1 ||
        !fast__optimizer_by_range(seat->optimizer) || !seat->learner->moves)
        return false;
    for (int64_t i = 0; i < t->workers; i++)
        if (!fast_actor_is_near(t->actor, t->worker_ids[i]))
            return false;
    return true;
}

static void copy_rule(fast_optimizer *to, fast_optimizer *from, int64_t count)
{
    float *slot;

    for (int i = 0; (slot = fast__optimizer_slot(to, i)) != NULL; i++)
        memcpy(slot, fast__optimizer_slot(from, i), (size_t)count * sizeof *slot);
}

/* The first who comes brings the model. The mutex is held: nobody updates before all have come. */
static fast_err open_shared(fast_team *team, const fast_seat *seat)
{
    const fast_run *run = team->run;
    const fast_trainer *t = &seat->trainer;

    if (!team->shared_w)
        FAST_TRY(fast__alloc("the shared parameters", t->count, sizeof(float), &team->shared_w));
    if (!team->shared_rule)
        FAST_TRY(
            fast__optimizer_new(run->config.optimizer, &run->learner->params, &team->shared_rule));
    if (team->sharers == 0) {
        memcpy(team->shared_w, t->w, (size_t)t->count * sizeof *t->w);
        copy_rule(team->shared_rule, seat->optimizer, t->count);
    }
    team->sharers++;
    return FAST_OK;
}

fast_err fast_trainer_share(fast_trainer *t, bool *out)
{
    fast_seat *seat = t->run;
    fast_team *team = seat->team;
    fast_err err;

    FAST_ASSERT(seat->learner != NULL && out != NULL);
    *out = seat->own_w != NULL;
    if (*out || !can_share(seat))
        return FAST_OK;
    fast__mutex_lock(&team->mutex);
    err = open_shared(team, seat);
    fast__mutex_unlock(&team->mutex);
    FAST_TRY(err);
    seat->own_w = seat->learner->w;
    seat->own_rule = seat->optimizer;
    seat->optimizer = team->shared_rule;
    seat->learner->w = team->shared_w;
    t->w = team->shared_w;
    *out = true;
    return FAST_OK;
}

void fast__seat_unshare(fast_seat *seat)
{
    fast_team *team = seat->team;
    fast_trainer *t = &seat->trainer;

    if (!seat->own_w)
        return;
    memcpy(seat->own_w, t->w, (size_t)t->count * sizeof *t->w);
    copy_rule(seat->own_rule, seat->optimizer, t->count);
    seat->learner->w = seat->own_w;
    seat->optimizer = seat->own_rule;
    t->w = seat->own_w;
    seat->own_w = NULL;
    seat->own_rule = NULL;
    fast__mutex_lock(&team->mutex);
    FAST_ASSERT(team->sharers > 0);
    team->sharers--;
    fast__mutex_unlock(&team->mutex);
}

/* An update under way. */
typedef struct together {
    fast_trainer *t; /* whose part it is */
    int64_t step;    /* from 1 */
    float scale;     /* of the sum */
} together;

static void update_piece(void *ctx, int64_t offset, int64_t count, const float *sum)
{
    const together *u = ctx;
    float *w = u->t->w + offset;
    float piece[FAST_USE_MAX];

    FAST_ASSERT(count <= FAST_USE_MAX);
    memcpy(piece, w, (size_t)count * sizeof *w);
    fast_trainer_update_range(u->t, u->step, u->t->lr, piece, sum, u->scale, offset, count);
    fast__stream_copy(w, piece, count);
}

fast_err fast_trainer_update_shared(fast_trainer *t, const float *g, float scale, int64_t deadline)
{
    const fast_seat *seat = t->run;
    together u = { t, t->step > 0 ? t->step : 1, scale };

    FAST_ASSERT(seat->own_w != NULL);
    return fast__direct_use(t->group, g, t->count, update_piece, &u, deadline);
}
