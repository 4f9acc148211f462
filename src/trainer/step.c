/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of a worker and its gradients. Computing goes through the actor, so that a simulated
 * node takes its time for it: a gradient costs the operations that the learner counts.
 *
 * Reports arrive during the backward pass. Updates inside them, which must not block, are charged
 * after the gradient.
 */
#include "trainer/context.h"
#include "trainer/operators.h"
#include "trainer/own_data.h"
#include "trainer/remember.h"
#include "trainer/ties.h"

#include <stdio.h>

bool fast_trainer_next(fast_trainer *t)
{
    fast_context *c = fast__context_of(t);
    bool more = false;

    FAST_ASSERT(c->learner != NULL);
    if (c->err)
        return false;
    c->err = c->options.host->next(c->options.host_ctx, &more);
    if (c->err)
        snprintf(c->why, sizeof c->why, "%s", fast_error_detail());
    /* Costs are told at steps that are powers of two, since averages change little later, and once
     * more at the end. */
    if (!more || (t->step & (t->step - 1)) == 0)
        fast__context_tell_cost(c);
    if (c->err || !more)
        return false;
    t->lr = fast_trainer_lr(t, t->step);
    fast_actor_at(t->actor, t->step, "");
    return true;
}

bool fast_trainer_resumed(const fast_trainer *t)
{
    FAST_ASSERT(t != NULL);
    return fast__context_of(t)->resumed;
}

fast_err fast_trainer_end(fast_trainer *t)
{
    const fast_context *c = fast__context_of(t);

    return c->err ? fast__fail(c->err, "%s", c->why) : FAST_OK;
}

double fast_trainer_lr(const fast_trainer *t, int64_t step)
{
    const fast_context *c = fast__context_of(t);

    FAST_ASSERT(step >= 0);
    return fast__schedule_lr(c->options.rates, step) * fast__pipe_lr(&c->pipe, step);
}

fast_own_data fast__trainer_own_data(const fast_trainer *t)
{
    const fast_learner *learner = fast__context_of(t)->learner;

    FAST_ASSERT(learner != NULL);
    const int64_t batch = learner->batch > 0 ? learner->batch : 1;
    const int64_t all = learner->own_samples > 0 ? learner->own_samples : t->epoch_steps * batch;
    return (fast_own_data){ .samples = all > 0 ? all : 1, .batch = batch };
}

void fast_trainer_settle(fast_trainer *t, fast_settle_fn *settle, void *ctx)
{
    fast_context_work *work = &fast__context_of(t)->work;

    FAST_ASSERT(settle != NULL || ctx == NULL);
    work->settle = settle;
    work->settle_ctx = ctx;
}

/* A gradient under way. */
typedef struct gradient_work {
    fast_work work;         /* first: the transport's view of it */
    fast_context *context;  /* of the worker that computes it */
    fast_gradient gradient; /* the learner's view of it */
    int64_t covered;        /* elements reported */
    fast_err err;           /* of the learner, not of the actor */
    fast_need_fn *need;     /* waits for a range of w; NULL: w is whole */
    void *ctx;              /* argument of need */
    bool again;             /* need is called in the backward pass, too */
    fast_err need_err;      /* first failure of need */
    double ahead;           /* operations that were done while w was waited for */
} gradient_work;

/* A learner that decides the learning rate has decided it when its gradient is known. */
static void follow_rate(fast_context *c)
{
    FAST_ASSERT(c->trainer.step >= 0);
    if (fast__schedule_is_live(c->options.rates))
        c->trainer.lr = fast_trainer_lr(&c->trainer, c->trainer.step);
}

/* The forward pass is a third of a pass's arithmetic; the backward pass reports as it computes, the
 * last one where a gradient has several micro-batches. */
static void relay(void *ctx, int64_t offset, int64_t count)
{
    gradient_work *gw = ctx;
    const fast_learner *learner = gw->context->learner;
    const int64_t passes = learner->passes > 0 ? learner->passes : learner->parts;
    const double pass = learner->flops / (double)(passes > 1 ? passes : 1);
    double left; /* of the backward pass */

    FAST_ASSERT(offset >= 0 && count >= 0);
    FAST_ASSERT(offset + count <= learner->params.count);
    follow_rate(gw->context);
    gw->covered += count;
    left = 1 - (double)gw->covered / (double)learner->params.count;
    fast_work_report(&gw->work, learner->flops - pass * 2.0 / 3 * left - gw->ahead, offset, count);
}

/* A layer's gradient is offered as factors: those that are wanted are final as a range is. */
static bool take_factors(void *ctx, const fast_factors *factors)
{
    gradient_work *gw = ctx;
    int64_t offset = 0, count = 0;

    FAST_ASSERT(factors != NULL);
    if (!fast__context_factors_take(gw->context, factors, &offset, &count))
        return false;
    if (gw->work.report)
        relay(gw, offset, count);
    return true;
}

/* The forward pass comes to a range, in the actor's thread. */
static void need_range(void *ctx, int64_t offset, int64_t count)
{
    gradient_work *gw = ctx;

    FAST_ASSERT(gw->need != NULL);
    FAST_ASSERT(offset >= 0 && count >= 0);
    if (!gw->need_err)
        gw->need_err = gw->need(gw->ctx, offset, count);
}

/* Where work is computed at one instant of virtual time, w is waited for before; the layers whose
 * weights came first would have been computed meanwhile: `at` is when the forward pass comes to a
 * range, after `done` operations. */
static fast_err wait_ahead(gradient_work *gw)
{
    const fast_learner *learner = gw->context->learner;
    fast_actor *actor = gw->context->trainer.actor;
    const double speed = gw->context->work.speed;
    double at = (double)fast_now(actor), done = 0;
    fast_reading r;

    FAST_ASSERT(gw->need != NULL);
    for (int64_t i = 0; learner->ops->reads && learner->ops->reads(learner, i, &r); i++) {
        FAST_TRY(gw->need(gw->ctx, r.offset, r.count));
        const double came = (double)fast_now(actor);

        if (speed > 0)
            at += (r.operations - done) / speed;
        at = at > came ? at : came;
        done = r.operations;
    }
    FAST_TRY(gw->need(gw->ctx, 0, learner->params.count));
    if (speed > 0)
        gw->ahead = done - (at - (double)fast_now(actor)) * speed;
    gw->ahead = gw->ahead > 0 ? gw->ahead : 0;
    gw->need = NULL;
    return FAST_OK;
}

/* Make the gradient that of shared values, and report it whole: a layer's sum is known once all of
 * its gradient is. */
static void tie_gradient(gradient_work *gw)
{
    const int64_t count = gw->context->learner->params.count;

    FAST_ASSERT(gw->context->ties != NULL);
    fast__ties_apply(gw->context->ties, gw->context->learner->g);
    gw->gradient.flops += 2 * (double)count;
    if (gw->work.report)
        relay(gw, 0, count);
}

/* Compute the gradient, inside fast_compute(): the learner calls back with finished ranges, offered
 * factors and the ranges of w that it is about to read. */
static fast_err run_gradient(fast_work *work)
{
    gradient_work *gw = (gradient_work *)work;
    fast_context *c = gw->context;

    FAST_ASSERT(c->learner != NULL);
    gw->gradient.report = work->report && !c->ties ? relay : NULL;
    gw->gradient.factor = c->layers && !gw->gradient.alone && !c->ties ? take_factors : NULL;
    gw->gradient.ctx = gw;
    gw->gradient.need = gw->need && c->learner->ops->reads ? need_range : NULL;
    gw->gradient.need_again = gw->again;
    fast__context_factors_start(c);
    gw->err = c->learner->ops->gradient(c->learner, &gw->gradient);
    FAST_TRY(gw->err);
    FAST_TRY(gw->need_err);
    if (c->ties)
        tie_gradient(gw);
    work->operations = gw->gradient.flops - gw->ahead;
    return FAST_OK;
}

/* Compute it through the actor. A learner's failure is the host's business too. */
static fast_err compute(gradient_work *gw)
{
    const fast_context_options *o = &gw->context->options;
    const int64_t several = gw->context->learner->parts;
    const int64_t parts = gw->gradient.alone || several < 1 ? 1 : several;

    FAST_ASSERT(gw->work.run != NULL);
    if (o->tied && !gw->context->ties)
        FAST_TRY(fast__ties_new(&o->model->params, o->model->w, &gw->context->ties));
    gw->err = o->host->prepare(o->host_ctx, gw->gradient.step * parts, parts);
    const fast_err err = gw->err ? gw->err : fast_compute(gw->context->trainer.actor, &gw->work);
    if (gw->err)
        o->host->failed(o->host_ctx, gw->err);
    return err;
}

fast_err fast_trainer_gradient(fast_trainer *t, fast_report_fn *report, void *ctx)
{
    return fast_trainer_gradient_when(t, NULL, report, ctx);
}

fast_err fast_trainer_gradient_when(fast_trainer *t, fast_need_fn *need, fast_report_fn *report,
                                    void *ctx)
{
    return fast__trainer_gradient_again(t, need, report, ctx, false);
}

fast_err fast__trainer_gradient_again(fast_trainer *t, fast_need_fn *need, fast_report_fn *report,
                                      void *ctx, bool again)
{
    fast_context *c = fast__context_of(t);
    const fast_context_options *o = &c->options;
    gradient_work gw = { .work = { .run = run_gradient,
                                   .report = report,
                                   .ctx = ctx,
                                   .name = "gradient",
                                   .operations = c->learner->flops },
                         .context = c,
                         .gradient = { .step = t->step },
                         .need = need,
                         .again = again,
                         .ctx = ctx };
    fast_err err;

    FAST_ASSERT(!c->work.computing);
    FAST_ASSERT(t->actor != NULL);
    FAST_TRY(fast__context_charge_kernels(c));
    if (need && (o->is_virtual || !c->learner->ops->reads))
        FAST_TRY(wait_ahead(&gw));
    const int64_t begin = o->is_virtual ? fast__steady_now(t->actor) : 0;
    c->work.computing = true;
    err = o->pipe ? fast__pipe_gradient(c, report, ctx, &gw.gradient) : compute(&gw);
    c->work.computing = false;
    if (o->is_virtual && !o->pipe && fast__steady_now(t->actor) > begin)
        c->work.speed = gw.work.operations / (double)(fast__steady_now(t->actor) - begin);
    FAST_TRY(err);
    FAST_TRY(fast__context_charge(c));
    follow_rate(c);
    t->step++;
    t->loss = gw.gradient.loss;
    fast__context_own_gradient(c);
    o->host->stepped(o->host_ctx, t->step, &gw.gradient);
    return FAST_OK;
}

double *fast__trainer_speed(fast_trainer *t)
{
    FAST_ASSERT(t != NULL);
    return &fast__context_of(t)->work.speed;
}

bool fast__trainer_node(const fast_trainer *t, int64_t i, fast_learner_node *out)
{
    const fast_learner *learner = fast__context_of(t)->learner;

    FAST_ASSERT(i >= 0 && out != NULL);
    return learner && learner->ops->node && learner->ops->node(learner, i, out);
}

fast_err fast__trainer_rows(const fast_trainer *t, int64_t step, fast_learner_report_fn *mark,
                            void *ctx)
{
    fast_learner *learner = fast__context_of(t)->learner;

    FAST_ASSERT(learner != NULL && step >= 0);
    if (learner->ops->rows)
        return learner->ops->rows(learner, step, mark, ctx);
    mark(ctx, 0, t->count);
    return FAST_OK;
}

fast_err fast_trainer_micro_gradient(fast_trainer *t, int64_t number)
{
    fast_context *c = fast__context_of(t);
    fast_gradient *parts = &c->work.parts;
    gradient_work gw = { .work = { .run = run_gradient,
                                   .name = "gradient",
                                   .operations = c->learner->flops / (double)t->micro_batches },
                         .context = c,
                         .gradient = { .step = number, .alone = true } };

    FAST_ASSERT(number >= 0);
    FAST_ASSERT(t->micro_batches > 0);
    FAST_TRY(compute(&gw));
    if (c->work.part_count++ == 0)
        *parts = (fast_gradient){ 0 };
    parts->loss += gw.gradient.loss;
    parts->correct += gw.gradient.correct;
    parts->positions += gw.gradient.positions;
    parts->samples += gw.gradient.samples;
    return FAST_OK;
}

void fast_trainer_count_step(fast_trainer *t)
{
    fast_context *c = fast__context_of(t);
    fast_context_work *work = &c->work;

    FAST_ASSERT(t->step < t->step_count);
    t->lr = fast_trainer_lr(t, t->step);
    t->step++;
    if (work->part_count > 0) {
        work->parts.loss /= (double)work->part_count;
        t->loss = work->parts.loss;
    }
    if (work->part_count > 0)
        fast__context_own_gradient(c);
    c->options.host->stepped(c->options.host_ctx, t->step,
                             work->part_count > 0 ? &work->parts : NULL);
    work->part_count = 0;
}

void fast_trainer_set_step(fast_trainer *t, int64_t step)
{
    const fast_context_options *o = &fast__context_of(t)->options;

    FAST_ASSERT(step >= 0 && step <= t->step_count);
    if (step != t->step)
        o->host->stepped(o->host_ctx, step, NULL);
    FAST_ASSERT(t->step == step);
}

/* Can the learner have teachers? */
static fast_err check_taught(const fast_learner *learner)
{
    if (!learner->ops->teach)
        return fast__fail(FAST_ENOTSUP,
                          "a student learns from the outputs of teachers, which FAST's own models "
                          "have and a learner of the caller's does not");
    return FAST_OK;
}

fast_err fast_trainer_teach(fast_trainer *t, const float *models, int64_t model_count,
                            double temperature, double share)
{
    fast_learner *learner = fast__context_of(t)->learner;
    const fast_teachers teachers = {
        .models = models, .count = model_count, .temperature = temperature, .share = share
    };

    FAST_ASSERT(learner != NULL && model_count >= 0);
    FAST_TRY(check_taught(learner));
    return learner->ops->teach(learner, &teachers);
}

fast_err fast__trainer_teach_saved(fast_trainer *t, const char *files, double temperature,
                                   double share)
{
    const fast_context *c = fast__context_of(t);
    fast_teachers teachers = { .temperature = temperature, .share = share };

    FAST_ASSERT(c->learner != NULL && files != NULL);
    FAST_TRY(check_taught(c->learner));
    FAST_TRY(c->options.host->teachers(c->options.host_ctx, files, &teachers));
    return c->learner->ops->teach(c->learner, &teachers);
}
