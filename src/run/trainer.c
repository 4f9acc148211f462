/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a strategy's program calls: the next step, a gradient, an update. Computing goes through the
 * actor, so that a simulated node takes its time for it: a gradient costs the operations that the
 * learner counts, an update FAST_UPDATE_OPERATIONS and _BYTES for each element. Updates inside
 * reports, which must not block, are charged after the gradient; those at a server by the space
 * that it owns.
 */
#include "run/team.h"

#include "base/memory.h"

#include <stdio.h>
#include <string.h>

static fast_seat *seat_of(const fast_trainer *t)
{
    FAST_ASSERT(t != NULL && t->run != NULL);
    return t->run;
}

/* What the last step computed, while it is one of the first. */
static void take_first(fast_seat *seat)
{
    const int64_t ns = fast__counted(&seat->trainer.actor->counters.compute_ns);

    if (seat->begun.seen < FAST_FIRST_STEPS + FAST_FIRST_SKIPPED && ns > seat->first_ns)
        fast__first_add(&seat->begun, (double)(ns - seat->first_ns) * 1e-9);
    seat->first_ns = ns;
}

bool fast_trainer_next(fast_trainer *t)
{
    fast_seat *seat = seat_of(t);

    FAST_ASSERT(seat->learner != NULL);
    const fast_run *run = seat->team->run;
    if (seat->settle && !seat->err &&
        (fast__run_is_due(run, run->config.evaluate_period, t->step) ||
         fast__run_is_due(run, run->config.checkpoint_period, t->step))) {
        seat->err = seat->settle(seat->settle_ctx);
        snprintf(seat->why, sizeof seat->why, "%s", fast_error_detail());
    }
    const int64_t begin = fast_now(t->actor);
    const bool go_on = !seat->err && fast__monitor_next(seat);
    fast__count(&seat->pause_ns, fast_now(t->actor) - begin);
    if (go_on)
        take_first(seat);
    if (!go_on) {
        fast__measure_leave(seat);
        return false;
    }
    t->lr = fast_trainer_lr(t, t->step);
    fast_actor_at(t->actor, t->step, "");
    return true;
}

fast_err fast_trainer_end(fast_trainer *t)
{
    const fast_seat *seat = seat_of(t);

    return seat->err ? fast__fail(seat->err, "%s", seat->why) : FAST_OK;
}

double fast_trainer_lr(const fast_trainer *t, int64_t step)
{
    return fast__schedule_lr(seat_of(t)->team->run->schedule, step);
}

/* A gradient under way. */
typedef struct gradient_work {
    fast_work work;         /* first: the transport's view of it */
    fast_seat *seat;        /* whose */
    fast_gradient gradient; /* the learner's */
    int64_t covered;        /* elements reported */
    fast_err err;           /* of the learner, not of the actor */
    fast_need_fn *need;     /* of w; NULL: all of it is there */
    void *ctx;              /* for it */
    fast_err need_err;      /* its first failure */
    double ahead;           /* operations that were done while w was waited for */
} gradient_work;

/* The way forward is a third of a pass's arithmetic; the way back reports as it goes, of the last
 * pass where there are several. */
static void relay(void *ctx, int64_t offset, int64_t count)
{
    gradient_work *gw = ctx;
    const fast_learner *learner = gw->seat->learner;
    const double pass = learner->flops / (double)(learner->parts > 1 ? learner->parts : 1);
    double left; /* of the way back */

    gw->covered += count;
    left = 1 - (double)gw->covered / (double)learner->params.count;
    fast_work_report(&gw->work, learner->flops - pass * 2.0 / 3 * left - gw->ahead, offset, count);
}

/* A layer's gradient is offered as factors: those that are wanted are final as a range is. */
static bool take_factors(void *ctx, const fast_factors *factors)
{
    gradient_work *gw = ctx;
    int64_t offset = 0, count = 0;

    if (!fast__factors_take(gw->seat, factors, &offset, &count))
        return false;
    if (gw->work.report)
        relay(gw, offset, count);
    return true;
}

/* The way forward comes to a range, in the actor's thread. */
static void need_range(void *ctx, int64_t offset, int64_t count)
{
    gradient_work *gw = ctx;

    if (!gw->need_err)
        gw->need_err = gw->need(gw->ctx, offset, count);
}

/* Where work is computed at one instant of virtual time, w is waited for before; the layers whose
 * weights came first would have been computed meanwhile: `at` is when the way forward comes to a
 * range, after `done` operations. */
static fast_err wait_ahead(gradient_work *gw)
{
    const fast_learner *learner = gw->seat->learner;
    fast_actor *actor = gw->seat->trainer.actor;
    const double rate = gw->seat->rate;
    double at = (double)fast_now(actor), done = 0;
    fast_reading r;

    for (int64_t i = 0; learner->ops->reads && learner->ops->reads(learner, i, &r); i++) {
        FAST_TRY(gw->need(gw->ctx, r.offset, r.count));
        const double came = (double)fast_now(actor);

        if (rate > 0)
            at += (r.operations - done) / rate;
        at = at > came ? at : came;
        done = r.operations;
    }
    FAST_TRY(gw->need(gw->ctx, 0, learner->params.count));
    if (rate > 0)
        gw->ahead = done - (at - (double)fast_now(actor)) * rate;
    gw->ahead = gw->ahead > 0 ? gw->ahead : 0;
    gw->need = NULL;
    return FAST_OK;
}

static fast_err run_gradient(fast_work *work)
{
    gradient_work *gw = (gradient_work *)work;
    fast_learner *learner = gw->seat->learner;

    gw->gradient.report = work->report ? relay : NULL;
    gw->gradient.factor = gw->seat->taken && !gw->gradient.alone ? take_factors : NULL;
    gw->gradient.ctx = gw;
    gw->gradient.need = gw->need && learner->ops->reads ? need_range : NULL;
    fast__factors_begin(gw->seat);
    gw->err = learner->ops->gradient(learner, &gw->gradient);
    FAST_TRY(gw->err);
    FAST_TRY(gw->need_err);
    work->operations = gw->gradient.flops - gw->ahead;
    return FAST_OK;
}

/* Pay for what was updated in reports. */
static fast_err pay(fast_seat *seat)
{
    const double owed = seat->owed;

    seat->owed = 0;
    return owed > 0 ? fast_charge(seat->trainer.actor, FAST_UPDATE_OPERATIONS * owed,
                                  FAST_UPDATE_BYTES * owed)
                    : FAST_OK;
}

fast_err fast_trainer_gradient(fast_trainer *t, fast_report_fn *report, void *ctx)
{
    return fast_trainer_gradient_when(t, NULL, report, ctx);
}

void fast_trainer_settle(fast_trainer *t, fast_settle_fn *settle, void *ctx)
{
    fast_seat *seat = seat_of(t);

    seat->settle = settle;
    seat->settle_ctx = ctx;
}

fast_err fast_trainer_gradient_when(fast_trainer *t, fast_need_fn *need, fast_report_fn *report,
                                    void *ctx)
{
    fast_seat *seat = seat_of(t);
    gradient_work gw = { .work = { .run = run_gradient,
                                   .report = report,
                                   .ctx = ctx,
                                   .name = "gradient",
                                   .operations = seat->learner->flops },
                         .seat = seat,
                         .gradient = { .step = t->step },
                         .need = need,
                         .ctx = ctx };
    const bool is_virtual = seat->team->run->is_virtual;
    fast_err err;

    if (need && (is_virtual || !seat->learner->ops->reads))
        FAST_TRY(wait_ahead(&gw));
    const int64_t begin = fast_now(t->actor);
    seat->computing = true;
    err = fast_compute(t->actor, &gw.work);
    seat->computing = false;
    if (is_virtual && fast_now(t->actor) > begin)
        seat->rate = gw.work.operations / (double)(fast_now(t->actor) - begin);
    if (gw.err)
        fast__team_break(seat, gw.err);
    FAST_TRY(err);
    FAST_TRY(pay(seat));
    t->step++;
    t->loss = gw.gradient.loss;
    fast__monitor_step(seat, &gw.gradient);
    return FAST_OK;
}

fast_err fast_trainer_part(fast_trainer *t, int64_t number)
{
    fast_seat *seat = seat_of(t);
    fast_gradient *done = &seat->done;
    gradient_work gw = { .work = { .run = run_gradient,
                                   .name = "gradient",
                                   .operations = seat->learner->flops / (double)t->parts },
                         .seat = seat,
                         .gradient = { .step = number, .alone = true } };

    const fast_err err = fast_compute(t->actor, &gw.work);
    if (gw.err)
        fast__team_break(seat, gw.err);
    FAST_TRY(err);
    if (seat->done_count++ == 0)
        *done = (fast_gradient){ 0 };
    done->loss += gw.gradient.loss;
    done->correct += gw.gradient.correct;
    done->positions += gw.gradient.positions;
    done->samples += gw.gradient.samples;
    return FAST_OK;
}

void fast_trainer_count(fast_trainer *t)
{
    fast_seat *seat = seat_of(t);

    FAST_ASSERT(t->step < t->step_count);
    t->lr = fast_trainer_lr(t, t->step);
    t->step++;
    if (seat->done_count > 0) {
        seat->done.loss /= (double)seat->done_count;
        t->loss = seat->done.loss;
    }
    fast__monitor_step(seat, seat->done_count > 0 ? &seat->done : NULL);
    seat->done_count = 0;
}

void fast_trainer_move(fast_trainer *t, int64_t step)
{
    FAST_ASSERT(step >= 0 && step <= t->step_count);
    fast__monitor_move(seat_of(t), step);
}

fast_err fast_trainer_update(fast_trainer *t, const float *g, float scale)
{
    fast_seat *seat = seat_of(t);
    const int64_t step = t->step > 0 ? t->step : 1;
    const int64_t begin = fast_now(t->actor);

    fast__optimizer_apply_scaled(seat->optimizer, step, t->lr, t->w, g, scale);
    fast__count(&t->actor->counters.compute_ns, fast_now(t->actor) - begin);
    seat->owed += (double)t->count;
    return pay(seat);
}

void fast_trainer_update_range(fast_trainer *t, int64_t step, double lr, float *w, const float *g,
                               float scale, int64_t offset, int64_t count)
{
    fast_seat *seat = seat_of(t);

    const bool timed = seat->learner && !seat->computing;
    const int64_t begin = timed ? fast_now(t->actor) : 0;

    fast__optimizer_apply_range(seat->optimizer, step, lr, w, g, scale, offset, count);
    if (seat->learner)
        seat->owed += (double)count;
    if (timed)
        fast__count(&t->actor->counters.compute_ns, fast_now(t->actor) - begin);
}

bool fast_trainer_by_range(const fast_trainer *t)
{
    return fast__optimizer_by_range(seat_of(t)->optimizer);
}

float *fast_trainer_rule_slot(fast_trainer *t, int i)
{
    return fast__optimizer_slot(seat_of(t)->optimizer, i);
}

void fast_trainer_reset_rule(fast_trainer *t)
{
    float *slot;

    for (int i = 0; (slot = fast_trainer_rule_slot(t, i)) != NULL; i++)
        memset(slot, 0, (size_t)t->count * sizeof *slot);
}

fast_err fast_trainer_teach(fast_trainer *t, const float *models, int64_t model_count,
                            double temperature, double share)
{
    fast_learner *learner = seat_of(t)->learner;
    const fast_teachers teachers = { models, model_count, temperature, share };

    FAST_ASSERT(learner != NULL && model_count >= 0);
    if (!learner->ops->teach)
        return fast__fail(FAST_ENOTSUP, "learner %s takes no teachers", learner->ops->name);
    return learner->ops->teach(learner, &teachers);
}

fast_err fast_trainer_centre(fast_trainer *t, float **out)
{
    fast_seat *seat = seat_of(t);

    if (!seat->centre)
        FAST_TRY(
            fast__alloc("the centre", t->count + t->workers, sizeof *seat->centre, &seat->centre));
    memcpy(seat->centre, t->w, (size_t)t->count * sizeof *t->w);
    memset(seat->centre + t->count, 0, (size_t)t->workers * sizeof *seat->centre);
    t->centre = seat->centre;
    t->centre_version = 0;
    *out = seat->centre;
    return FAST_OK;
}

void fast_trainer_staleness(fast_trainer *t, int64_t staleness)
{
    fast_team *team = seat_of(t)->team;

    fast__mutex_lock(&team->mutex);
    fast__staleness_add(&team->staleness, staleness);
    fast__mutex_unlock(&team->mutex);
}

void fast_trainer_momentum(fast_trainer *t, double momentum, double error)
{
    fast_team *team = seat_of(t)->team;
    const double least = 1e-6; /* where nothing is noisy all count alike */
    const double weight = 1 / (error * error + least * least);

    FAST_ASSERT(error >= 0);
    fast__mutex_lock(&team->mutex);
    team->momentum_sum += weight * momentum;
    team->momentum_weight += weight;
    fast__mutex_unlock(&team->mutex);
}

void fast_trainer_carry(fast_trainer *t, int64_t from, double weight)
{
    fast_seat *seat = seat_of(t);

    FAST_ASSERT(from >= 0 && from < t->workers);
    if (seat->carried)
        seat->carried[from] += weight;
}

const double *fast_trainer_carried(const fast_trainer *t)
{
    return seat_of(t)->carried;
}

void fast_trainer_mix(fast_trainer *t, double keep, const double *carried, double take)
{
    double *own = seat_of(t)->carried;

    for (int64_t i = 0; own && carried && i < t->workers; i++)
        own[i] = keep * own[i] + take * carried[i];
}

void fast_trainer_average(fast_trainer *t)
{
    double *own = seat_of(t)->carried;

    for (int64_t i = 0; own && i < t->workers; i++)
        own[i] = (double)t->step;
}

void fast_trainer_cost(fast_trainer *t, const fast_cost *cost)
{
    fast_team *team = seat_of(t)->team;
    int64_t rest = 0;

    FAST_ASSERT(cost != NULL && cost->part_count >= 0);
    if (fast_trainer_codes(t) != FAST_CODES_NONE) /* what encodings cost is not foretold */
        return;
    if (t->rank != 0 || !seat_of(t)->learner)
        return;
    fast__mutex_lock(&team->mutex);
    team->cost = *cost;
    team->cost.parts = cost->parts ? team->parts : NULL;
    for (int64_t i = 0; cost->parts && i < cost->part_count; i++)
        if (i < FAST_COST_PARTS - 1)
            team->parts[i] = cost->parts[i];
        else
            team->parts[FAST_COST_PARTS - 1] = rest += cost->parts[i];
    if (team->cost.part_count > FAST_COST_PARTS)
        team->cost.part_count = FAST_COST_PARTS;
    team->costed = true;
    fast__mutex_unlock(&team->mutex);
}
