/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One model for all workers of a process, where a strategy makes replicas equal anyway.
 *
 *     share    w and the rule's state become one vector each, which all workers read and update
 *     update   a range of w that all workers' backward passes are done with is summed and updated
 *              piece by piece while it is in the cache, each worker its part: a reduce-scatter that
 *              ends in the update, and no allgather, since everyone reads the same w
 *     unshare  when its program ends a worker takes a copy back
 *
 * Against replicas that are updated one by one, P workers do the update once instead of P times,
 * write no gradient, and have P - 1 vectors less in the caches. But everyone's forward pass reads
 * values that another worker has just written, and lines that all have read are expensive to write:
 * the new values go past the caches (tensor/stream_copy.h). The sum has the canonical order and the
 * rule is applied element by element, so that the bits are those of replicas.
 *
 * Nobody reads w while another writes it: a range is updated after all workers have reported it,
 * and a worker that leaves the update knows that all of w is written (collective/direct_use.c).
 *
 * Only where actors are threads of this process, the rule needs no norm of the whole and the run is
 * not recorded. Simulated workers have replicas of their own: each stands for a node's memory.
 */
#include "trainer/shared_model.h"

#include "base/memory.h"
#include "comm/allreduces.h"
#include "tensor/stream_copy.h"
#include "tensor/vector.h"
#include "trainer/context.h"
#include "trainer/in_place.h"

#include <string.h>

void fast__shared_model_init(fast_shared_model *shared)
{
    FAST_ASSERT(shared != NULL);
    *shared = (fast_shared_model){ 0 };
    fast__mutex_init(&shared->mutex);
}

void fast__shared_model_fini(fast_shared_model *shared)
{
    FAST_ASSERT(shared->sharers == 0);
    fast__vector_free(shared->w);
    fast__optimizer_free(shared->rule);
    fast__mutex_fini(&shared->mutex);
}

/* May this worker's replica be the shared one? All workers find the same. */
static bool can_share(const fast_context *c)
{
    const fast_trainer *t = &c->trainer;

    FAST_ASSERT(c->learner != NULL);
    if (!c->options.shared || c->options.is_virtual || t->workers == 1 ||
        !fast__optimizer_by_range(c->optimizer) || !c->learner->moves)
        return false;
    for (int64_t i = 0; i < t->workers; i++)
        if (!fast_actor_is_local(t->actor, t->worker_ids[i]))
            return false;
    return true;
}

/* The first worker that comes brings the model. The mutex is held: nobody updates before all have
 * come. */
static fast_err open_shared(fast_shared_model *shared, const fast_context *c)
{
    const fast_trainer *t = &c->trainer;

    FAST_ASSERT(shared->sharers >= 0);
    if (!shared->w)
        FAST_TRY(fast__vector_new(fast__context_device(c), "the shared parameters", t->count,
                                  &shared->w));
    if (!shared->rule)
        FAST_TRY(fast__optimizer_new(fast__context_device(c), c->options.optimizer,
                                     fast__context_layout(c), &shared->rule));
    if (shared->sharers == 0) {
        fast__vector_copy(t->count, t->w, shared->w);
        fast__rule_state_copy(shared->rule, c->optimizer, NULL, t->count);
    }
    shared->sharers++;
    return FAST_OK;
}

fast_err fast_trainer_share(fast_trainer *t, bool *out)
{
    fast_context *c = fast__context_of(t);
    fast_shared_model *shared = c->options.shared;
    fast_err err;

    FAST_ASSERT(c->learner != NULL && out != NULL);
    *out = c->own_w != NULL;
    if (*out || !can_share(c))
        return FAST_OK;
    FAST_TRY(fast__direct_use_open(t->group));
    fast__mutex_lock(&shared->mutex);
    err = open_shared(shared, c);
    fast__mutex_unlock(&shared->mutex);
    FAST_TRY(err);
    c->own_w = c->learner->w;
    c->own_optimizer = c->optimizer;
    c->optimizer = shared->rule;
    c->learner->w = shared->w;
    t->w = shared->w;
    *out = true;
    return FAST_OK;
}

void fast__context_unshare(fast_context *context)
{
    fast_shared_model *shared = context->options.shared;
    fast_trainer *t = &context->trainer;

    FAST_ASSERT(context->own_w != NULL && shared != NULL);
    fast__direct_use_drop(t->group);
    fast__vector_copy(t->count, t->w, context->own_w);
    fast__rule_state_copy(context->own_optimizer, context->optimizer, NULL, t->count);
    context->learner->w = context->own_w;
    context->optimizer = context->own_optimizer;
    t->w = context->own_w;
    context->own_w = NULL;
    context->own_optimizer = NULL;
    fast__mutex_lock(&shared->mutex);
    FAST_ASSERT(shared->sharers > 0);
    shared->sharers--;
    fast__mutex_unlock(&shared->mutex);
}

/* An update under way. */
typedef struct shared_update {
    fast_trainer *t; /* of the worker that updates a piece */
    int64_t step;    /* from 1 */
    float scale;     /* of the sum */
} shared_update;

/* Update a piece of w by its sum: in a copy that stays in the cache, then past the caches, since
 * all workers have read the old values. */
static void update_piece(void *ctx, int64_t offset, int64_t count, const float *sum)
{
    const shared_update *u = ctx;
    float *w = u->t->w + offset;
    float piece[FAST_USE_MAX];

    FAST_ASSERT(offset >= 0 && offset + count <= u->t->count);
    FAST_ASSERT(count <= FAST_USE_MAX);
    fast__vector_copy(count, w, piece);
    fast__context_update_range(fast__context_of(u->t), u->step, u->t->lr, piece, sum, u->scale,
                               offset, count);
    fast__stream_copy(w, piece, count);
}

void fast__trainer_share_range(fast_trainer *t, float scale, int64_t offset, int64_t count)
{
    shared_update u = { t, t->step + 1, scale };
    const fast_direct_use use = { t->g, t->count, update_piece, &u };

    FAST_ASSERT(fast__context_of(t)->own_w != NULL);
    fast__direct_use_range(t->group, &use, offset, count);
}

fast_err fast_trainer_update_shared(fast_trainer *t, const float *g, float scale, int64_t deadline)
{
    shared_update u = { t, t->step > 0 ? t->step : 1, scale };
    const fast_direct_use use = { g, t->count, update_piece, &u };

    FAST_ASSERT(g != NULL);
    FAST_ASSERT(fast__context_of(t)->own_w != NULL);
    fast__context_summed(fast__context_of(t), g);
    fast__context_sum_floats(fast__context_of(t), t->count, false);
    FAST_TRY(fast__direct_use(t->group, &use, deadline));
    fast__context_update_shares(fast__context_of(t), u.step, scale, t->count);
    return FAST_OK;
}
