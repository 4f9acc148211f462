/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Updates of w by the rule, with their contributions and lag (vectors.c).
 *
 * An update is charged FAST_UPDATE_OPERATIONS and FAST_UPDATE_BYTES for each element: inside
 * reports, which must not block, after the gradient; at a server by the space that it owns.
 */
#include "trainer/context.h"

#include "tensor/vector.h"
#include "trainer/in_place.h"
#include "trainer/norms.h"

#include <string.h>

fast_err fast__context_charge_kernels(fast_context *context)
{
    fast_context_work *work = &context->work;
    const double operations = work->operations, bytes = work->bytes;

    FAST_ASSERT(operations >= 0 && bytes >= 0);
    work->operations = work->bytes = 0;
    return operations > 0 || bytes > 0 ? fast_charge(context->trainer.actor, operations, bytes)
                                       : FAST_OK;
}

/* Updates inside reports are charged here, when the gradient is over and the actor may block. */
fast_err fast__context_charge(fast_context *context)
{
    const double count = context->work.uncharged;

    FAST_ASSERT(count >= 0);
    FAST_TRY(fast__context_charge_kernels(context));
    context->work.uncharged = 0;
    return count > 0 ? fast_charge(context->trainer.actor, FAST_UPDATE_OPERATIONS * count,
                                   FAST_UPDATE_BYTES * count)
                     : FAST_OK;
}

/* Has another worker applied this update to the one copy of equal replicas? Else note that it is
 * applied now. */
static bool is_applied(fast_context *c, int64_t step, int64_t offset)
{
    const fast_equal_replicas *equal = c->options.equal;

    FAST_ASSERT(step > 0 && offset >= 0);
    if (!equal || offset >= c->trainer.count)
        return false;
    if (equal->applied[offset] >= step)
        return true;
    equal->applied[offset] = step;
    return false;
}

/* Apply the rule to all of w. */
static fast_err apply_all(fast_context *c, int64_t step, const float *x, float scale)
{
    fast_trainer *t = &c->trainer;
    const fast_slice all = { .count = t->count, .own_count = t->count };

    FAST_ASSERT(step >= 1);
    if (c->learner && fast__norms_are_shared(c))
        return fast__norms_update(c, x, NULL, &all, 1, scale);
    const int64_t begin = fast__steady_now(t->actor);
    if (!is_applied(c, step, 0))
        fast__optimizer_apply_scaled(c->optimizer, step, t->lr, t->w, x, scale);
    fast__count(&t->actor->counters.compute_ns, fast__steady_now(t->actor) - begin);
    c->work.uncharged += (double)t->count;
    return FAST_OK;
}

fast_err fast__context_update(fast_context *context, const float *x, const double *shares,
                              float scale)
{
    fast_trainer *t = &context->trainer;
    const int64_t step = t->step > 0 ? t->step : 1;

    FAST_ASSERT(x != NULL);
    FAST_ASSERT(t->w != NULL);
    for (int64_t i = 0; context->shares.w && shares && i < fast_trainer_share_count(t); i++)
        context->shares.w[i] += (double)scale * shares[i];
    FAST_TRY(apply_all(context, step, x, scale));
    if (t->staleness >= 0)
        fast__context_stale(context, t->staleness);
    t->staleness = -1;
    return fast__context_charge(context);
}

fast_err fast_trainer_update(fast_trainer *t, const float *g, float scale)
{
    fast_context *c = fast__context_of(t);

    FAST_ASSERT(c->learner != NULL);
    return fast__context_update(c, g, c->shares.g, scale);
}

void fast__context_update_shares(fast_context *context, int64_t step, float scale, int64_t count)
{
    const fast_trainer *t = &context->trainer;
    const double weight = (double)scale * (double)t->workers * (double)count / (double)t->count;

    FAST_ASSERT(step > 0);
    FAST_ASSERT(context->shares.w != NULL);
    /* A gradient that was summed holds every worker's contribution, else only this worker's own. */
    for (int64_t i = 0; i < fast_trainer_share_count(t); i++)
        if (fast_trainer_share_rank(t, i) == t->rank || context->shares.summed_step >= step)
            context->shares.w[i] += weight;
}

void fast__context_update_range(fast_context *c, int64_t step, double lr, float *w, const float *g,
                                float scale, int64_t offset, int64_t count)
{
    const fast_trainer *t = &c->trainer;
    const bool timed = c->learner && !c->work.computing;
    const int64_t begin = timed ? fast__steady_now(t->actor) : 0;

    FAST_ASSERT(w != NULL && g != NULL);
    FAST_ASSERT(offset >= 0 && count >= 0 && offset + count <= t->count);
    if (count > 0 && !is_applied(c, step, offset))
        fast__optimizer_apply_range(c->optimizer, step, lr, w, g, scale, offset, count);
    if (c->learner)
        c->work.uncharged += (double)count;
    if (timed)
        fast__count(&t->actor->counters.compute_ns, fast__steady_now(t->actor) - begin);
}

void fast_trainer_update_range(fast_trainer *t, int64_t step, double lr, float *w, const float *g,
                               float scale, int64_t offset, int64_t count)
{
    fast_context *c = fast__context_of(t);

    fast__context_update_range(c, step, lr, w, g, scale, offset, count);
    if (c->learner)
        fast__context_update_shares(c, step, scale, count);
}

bool fast_trainer_can_update_range(const fast_trainer *t)
{
    return fast__optimizer_by_range(fast__context_of(t)->optimizer);
}

bool fast__trainer_decays(const fast_trainer *t, int64_t offset, int64_t count)
{
    return fast__optimizer_decays(fast__context_of(t)->optimizer, offset, count);
}

bool fast__trainer_updates_early(const fast_trainer *t)
{
    const fast_context *c = fast__context_of(t);

    FAST_ASSERT(t->actor != NULL);
    return fast_trainer_can_update_range(t) && !c->options.is_virtual && !t->actor->world->record;
}

float *fast_trainer_rule_slot(fast_trainer *t, int i)
{
    FAST_ASSERT(i >= 0);
    return fast__optimizer_slot(fast__context_of(t)->optimizer, i);
}

void fast_trainer_reset_rule(fast_trainer *t)
{
    fast__rule_state_clear(fast__context_of(t)->optimizer, t->count);
}

/* The centre starts as a copy of w, without contributions of any worker. */
fast_err fast_trainer_centre(fast_trainer *t, float **out)
{
    fast_context *c = fast__context_of(t);

    FAST_ASSERT(out != NULL);
    if (!c->centre)
        FAST_TRY(fast__vector_new(fast__context_device(c), "the centre",
                                  t->count + fast_trainer_share_count(t), &c->centre));
    fast__vector_copy(t->count, t->w, c->centre);
    fast__vector_fill(fast_trainer_share_count(t), 0, c->centre + t->count);
    t->centre = c->centre;
    t->centre_version = 0;
    *out = c->centre;
    return FAST_OK;
}

/* An estimate of a server; the host averages those of all servers by their certainty. */
void fast_trainer_momentum(fast_trainer *t, double momentum, double error)
{
    const fast_context_options *o = &fast__context_of(t)->options;

    FAST_ASSERT(error >= 0);
    o->host->observed(o->host_ctx, FAST_OBSERVE_MOMENTUM, momentum, error);
}

/* Does this actor speak for all? */
static bool speaks(const fast_context *c)
{
    FAST_ASSERT(c != NULL);
    return c->trainer.rank == 0 && c->learner;
}

void fast_trainer_note(fast_trainer *t, const char *text)
{
    const fast_context *c = fast__context_of(t);

    FAST_ASSERT(text != NULL);
    if (speaks(c))
        c->options.host->noted(c->options.host_ctx, text);
}
