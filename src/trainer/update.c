/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Updates of w, and the measures that a strategy reports with them.
 *
 * An update is charged FAST_UPDATE_OPERATIONS and FAST_UPDATE_BYTES for each element: inside
 * reports, which must not block, after the gradient; at a server by the space that it owns.
 *
 * Contributions: c_j is the weight of all updates of worker j in this replica, 1 for a whole one.
 * They follow the arithmetic that replicas are mixed by.
 */
#include "trainer/context.h"

#include "base/memory.h"

#include <string.h>

fast_err fast__context_charge(fast_context *context)
{
    const double count = context->work.uncharged;

    context->work.uncharged = 0;
    return count > 0 ? fast_charge(context->trainer.actor, FAST_UPDATE_OPERATIONS * count,
                                   FAST_UPDATE_BYTES * count)
                     : FAST_OK;
}

fast_err fast_trainer_update(fast_trainer *t, const float *g, float scale)
{
    fast_context *c = fast__context_of(t);
    const int64_t step = t->step > 0 ? t->step : 1;
    const int64_t begin = fast_now(t->actor);

    fast__optimizer_apply_scaled(c->optimizer, step, t->lr, t->w, g, scale);
    fast__count(&t->actor->counters.compute_ns, fast_now(t->actor) - begin);
    c->work.uncharged += (double)t->count;
    return fast__context_charge(c);
}

void fast_trainer_update_range(fast_trainer *t, int64_t step, double lr, float *w, const float *g,
                               float scale, int64_t offset, int64_t count)
{
    fast_context *c = fast__context_of(t);
    const bool timed = c->learner && !c->work.computing;
    const int64_t begin = timed ? fast_now(t->actor) : 0;

    FAST_ASSERT(offset >= 0 && count >= 0 && offset + count <= t->count);
    fast__optimizer_apply_range(c->optimizer, step, lr, w, g, scale, offset, count);
    if (c->learner)
        c->work.uncharged += (double)count;
    if (timed)
        fast__count(&t->actor->counters.compute_ns, fast_now(t->actor) - begin);
}

bool fast_trainer_by_range(const fast_trainer *t)
{
    return fast__optimizer_by_range(fast__context_of(t)->optimizer);
}

float *fast_trainer_rule_slot(fast_trainer *t, int i)
{
    return fast__optimizer_slot(fast__context_of(t)->optimizer, i);
}

void fast_trainer_reset_rule(fast_trainer *t)
{
    fast__rule_state_clear(fast__context_of(t)->optimizer, t->count);
}

fast_err fast_trainer_centre(fast_trainer *t, float **out)
{
    fast_context *c = fast__context_of(t);

    if (!c->centre)
        FAST_TRY(fast__alloc("the centre", t->count + t->workers, sizeof *c->centre, &c->centre));
    memcpy(c->centre, t->w, (size_t)t->count * sizeof *t->w);
    memset(c->centre + t->count, 0, (size_t)t->workers * sizeof *c->centre);
    t->centre = c->centre;
    t->centre_version = 0;
    *out = c->centre;
    return FAST_OK;
}

/* Contributions. */

void fast_trainer_carry(fast_trainer *t, int64_t from, double weight)
{
    double *own = fast__context_of(t)->contributions;

    FAST_ASSERT(from >= 0 && from < t->workers);
    if (own)
        own[from] += weight;
}

const double *fast_trainer_carried(const fast_trainer *t)
{
    return fast__context_of(t)->contributions;
}

void fast_trainer_mix(fast_trainer *t, double keep, const double *carried, double take)
{
    double *own = fast__context_of(t)->contributions;

    for (int64_t i = 0; own && carried && i < t->workers; i++)
        own[i] = keep * own[i] + take * carried[i];
}

void fast_trainer_average(fast_trainer *t)
{
    double *own = fast__context_of(t)->contributions;

    for (int64_t i = 0; own && i < t->workers; i++)
        own[i] = (double)t->step;
}

/* Measures. */

void fast_trainer_staleness(fast_trainer *t, int64_t staleness)
{
    const fast_context_options *o = &fast__context_of(t)->options;

    FAST_ASSERT(staleness >= 0);
    o->host->observed(o->host_ctx, FAST_OBSERVE_STALENESS, (double)staleness, 0);
}

void fast_trainer_momentum(fast_trainer *t, double momentum, double error)
{
    const fast_context_options *o = &fast__context_of(t)->options;

    FAST_ASSERT(error >= 0);
    o->host->observed(o->host_ctx, FAST_OBSERVE_MOMENTUM, momentum, error);
}

/* Does this actor speak for all? */
static bool speaks(const fast_context *c)
{
    return c->trainer.rank == 0 && c->learner;
}

void fast_trainer_cost(fast_trainer *t, const fast_cost *cost)
{
    const fast_context *c = fast__context_of(t);

    FAST_ASSERT(cost != NULL && cost->part_count >= 0);
    /* The cost of encodings is not forecast. */
    if (speaks(c) && fast_trainer_codes(t) == FAST_CODES_NONE)
        c->options.host->costed(c->options.host_ctx, cost);
}

void fast_trainer_note(fast_trainer *t, const char *text)
{
    const fast_context *c = fast__context_of(t);

    FAST_ASSERT(text != NULL);
    if (speaks(c))
        c->options.host->noted(c->options.host_ctx, text);
}
