/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One actor of a team: its learner, loader and context, the programs that it runs, and the host
 * operations that its trainer stands on (trainer/host.h).
 *
 * Every replica starts with the run's own weights (initial, loaded or resumed). On `sim` learners
 * share a workspace for each thread that computes; elsewhere each worker has its own.
 *
 * A worker's program, in its actor's thread:
 *
 *     start           attach the context to the actor; after a restart, begin with the run's model
 *     strategy        calls the trainer, which calls back through host_ops:
 *                       next      before each step: votes, checkpoints, whether to stop (monitor.c)
 *                       stepped   after each gradient: loss and counts, under the team's mutex
 *                       observed  staleness of an update, or measured momentum, under the mutex
 *                       failed    the learner's error ends the run for all
 *     leave           fast__monitor_leave(): votes that waited for this worker alone are counted
 *
 * Momentum m_k with standard error e_k is averaged by inverse variance, sum m_k / e_k^2 over
 * sum 1 / e_k^2, whose own error is 1 / sqrt(sum 1 / e_k^2); e_k is at least 1e-6, in effect.
 */
#include "base/memory.h"
#include "model/network.h"
#include "run/team.h"
#include "tensor/device_file.h"

#include <stdio.h>
#include <string.h>

/* Host operations. */

/* Complete w before it is read: an evaluation or a checkpoint is due. */
static fast_err settle_if_due(fast_team_actor *self)
{
    const fast_run *run = self->team->run;
    const int64_t step = self->context.trainer.step;

    if (!self->context.work.settle || !(fast__run_is_due(run, run->config.evaluate_period, step) ||
                                        fast__run_is_due(run, run->config.checkpoint_period, step)))
        return FAST_OK;
    return fast__context_settle(&self->context);
}

/* Take the computing time of the last step, while it is one of the first. */
static void take_first(fast_team_actor *self)
{
    fast_actor_measures *m = &self->measures;
    const int64_t ns = fast__counted(&self->context.trainer.actor->counters.compute_ns);

    if (m->begun.seen < FAST_FIRST_STEPS + FAST_FIRST_SKIPPED && ns > m->first_ns)
        fast__first_add(&m->begun, (double)(ns - m->first_ns) * 1e-9);
    m->first_ns = ns;
}

/* May the worker take its next step? */
static fast_err host_next(void *host, bool *more_out)
{
    fast_team_actor *self = host;
    fast_actor *actor = self->context.trainer.actor;

    self->err = settle_if_due(self);
    if (self->err)
        snprintf(self->why, sizeof self->why, "%s", fast_error_detail());
    const int64_t begin = fast__steady_now(actor);
    *more_out = !self->err && fast__monitor_next(self);
    fast__count(&self->measures.pause_ns, fast__steady_now(actor) - begin);
    take_first(self);
    if (!*more_out)
        fast__measure_leave(self);
    return self->err ? fast__fail(self->err, "%s", self->why) : FAST_OK;
}

/* A step was taken, or the worker continues at another one. */
static void host_stepped(void *host, int64_t step, const fast_gradient *gradient)
{
    fast_team_actor *self = host;

    if (step == self->context.trainer.step)
        fast__monitor_step(self, gradient);
    else
        fast__monitor_move(self, step);
}

/* The worker's learner failed: the run fails with it. */
static void host_failed(void *host, fast_err err)
{
    fast__team_break(host, err);
}

/* A measure of the trainer: staleness is counted, momentum averaged by its certainty. */
static void host_observed(void *host, fast_observation kind, double value, double error)
{
    fast_team *team = ((fast_team_actor *)host)->team;
    const double least = 1e-6; /* where nothing is noisy all count alike */
    const double weight = 1 / (error * error + least * least);

    fast__mutex_lock(&team->mutex);
    if (kind == FAST_OBSERVE_STALENESS) {
        fast__staleness_add(&team->measures.staleness, (int64_t)value);
    } else {
        team->measures.momentum_sum += weight * value;
        team->measures.momentum_weight += weight;
    }
    fast__mutex_unlock(&team->mutex);
}

/* The costs of worker 0's exchange; parts are copied, since they are lent for the call. */
static void host_costed(void *host, const fast_cost *cost)
{
    fast_team *team = ((fast_team_actor *)host)->team;
    fast_team_costs *c = &team->costs;

    FAST_ASSERT(cost->bucket_count >= 0 && cost->bucket_count <= FAST_COST_PARTS);
    fast__mutex_lock(&team->mutex);
    c->cost = *cost;
    c->cost.buckets = cost->buckets ? c->parts : NULL;
    for (int64_t i = 0; cost->buckets && i < cost->bucket_count; i++)
        c->parts[i] = cost->buckets[i];
    c->known = true;
    fast__mutex_unlock(&team->mutex);
}

/* A note of the strategy, told as an event of the run at the actor's time. */
static void host_noted(void *host, const char *text)
{
    const fast_team_actor *self = host;
    fast_run *run = self->team->run;

    fast__team_lock(self);
    run->clock.actor = self->context.trainer.actor;
    fast__run_tell(run, FAST_EVENT_NOTE, text);
    run->clock.actor = NULL;
    fast__team_unlock(self);
}

/* The batches of the next gradient, where preprocessing actors make them. */
static fast_err host_prepare(void *host, int64_t first, int64_t count)
{
    fast_team_actor *self = host;

    return fast__preprocess_fetch(&self->preprocess, self->context.trainer.actor, self->loader,
                                  first, count);
}

/* A space opens: load its saved state, if a checkpoint has it. */
static fast_err host_restore(void *host, int64_t id, fast_space *space)
{
    return fast__saved_states_restore(host, id, space);
}

/* Members of an ensemble have streams of their own. */
static void host_draw(void *host, int64_t member, float *w, float *s)
{
    const fast_team_actor *self = host;
    const fast_run *run = self->team->run;

    if (run->foreign || run->config.load[0] || run->config.resume[0])
        return;
    const fast_graph *graph = run->graph;

    fast__graph_init(graph, (uint64_t)run->config.seed, (uint64_t)member,
                     fast__map(w, graph->params.count, FAST_ACCESS_UPDATE),
                     fast__map(s, graph->state.count, FAST_ACCESS_UPDATE));
    fast__unmap(s, graph->state.count, FAST_ACCESS_UPDATE);
    fast__unmap(w, graph->params.count, FAST_ACCESS_UPDATE);
}

/* Teachers from files, for this worker alone. */
static fast_err host_teachers(void *host, const char *files, fast_teachers *out)
{
    fast_team_actor *self = host;

    fast__saved_teachers_close(self->teachers);
    self->teachers = NULL;
    return fast__saved_teachers_open(self->team->run, files, out, &self->teachers);
}

static const fast_host_ops host_ops = { .next = host_next,
                                        .stepped = host_stepped,
                                        .failed = host_failed,
                                        .observed = host_observed,
                                        .costed = host_costed,
                                        .noted = host_noted,
                                        .prepare = host_prepare,
                                        .restore = host_restore,
                                        .draw = host_draw,
                                        .teachers = host_teachers };

/* Creation. */

/* Make a worker's learner on its shard of the training set. Simulated workers borrow a workspace
 * for each gradient; others own one. */
static fast_err make_learner(fast_team_actor *self, int64_t rank, fast_learner **out)
{
    fast_team *team = self->team;
    const fast_run *run = team->run;

    FAST_TRY(fast__run_loader(run, rank, self->preprocess.server >= 0, &self->loader));
    fast_native_options native = { .graph = run->graph,
                                   .device = run->device,
                                   .engine = run->engine,
                                   .program = run->program,
                                   .loader = self->loader,
                                   .accumulate = run->config.accumulate,
                                   .seed = (uint64_t)run->config.seed,
                                   .blank = true,
                                   .w = team->place.equal.w };
    if (run->foreign)
        return fast__run_foreign(run, rank, self->loader, out);
    if (strcmp(run->config.transport, "sim") == 0) {
        native.workspaces = &team->place.workspaces;
        return fast__native_new(&native, out);
    }
    FAST_TRY(run->program->engine->workspace_new(run->program, &self->workspace));
    native.workspace = self->workspace;
    return fast__native_new(&native, out);
}

/* The team's current phase, as a context sees it. */
static fast_context_phase current_phase(const fast_team *team)
{
    const fast_phase *phase = &team->phases.list[team->phases.current];
    const fast_strategy *s = phase->strategy;
    const char *sends = s->sends_by ? s->sends_by(phase->config) : s->sends;

    return (fast_context_phase){ .strategy = phase->strategy->name,
                                 .resumes = phase->strategy->resumable,
                                 .synchronous = phase->strategy->synchronous,
                                 .gradients = sends && strcmp(sends, "gradients") == 0,
                                 .config = phase->config,
                                 .cost = phase->strategy->cost,
                                 .topology = phase->topology,
                                 .servers = phase->servers,
                                 .step = team->run->step,
                                 .step_count = phase->end,
                                 .codecs = fast__run_codecs(team->run) };
}

/* Who reads a sharded state of the rule at the end: another strategy, a checkpoint, nobody. */
static fast_state_end state_end(const fast_team *team)
{
    const fast_run_config *c = &team->run->config;

    return team->phases.count > 1             ? FAST_STATE_ALL
           : c->checkpoint[0] || c->resume[0] ? FAST_STATE_FIRST
                                              : FAST_STATE_OWN;
}

/* Make the loader, the learner and the context of actor i. On failure fast__team_actor_free() frees
 * what there is. */
static fast_err make_parts(fast_team_actor *self, int64_t i)
{
    fast_team *team = self->team;
    fast_run *run = team->run;
    const bool worker = i < team->workers;
    const int64_t rank = worker ? i : i - team->workers;
    const bool may_share = team->place.alone && !team->place.job;
    fast_context_options o = { .host = &host_ops,
                               .host_ctx = self,
                               .rank = rank,
                               .workers = team->workers,
                               .worker_ids = team->ids,
                               .server_ids = team->ids + team->workers,
                               .seed = (uint64_t)run->config.seed,
                               .tied = run->config.tied == 1,
                               .state_end = state_end(team),
                               .is_virtual = run->clock.is_virtual,
                               .model = run->learner,
                               .device = run->device,
                               .learner = team->single ? run->learner : NULL,
                               .optimizer = run->config.optimizer,
                               .rule = team->single ? run->optimizer
                                       : worker     ? team->place.equal.rule
                                                    : NULL,
                               .rates = run->schedule,
                               .shared = may_share ? &team->shared : NULL,
                               .equal = worker && team->place.equal.w ? &team->place.equal : NULL,
                               .phase = current_phase(team) };

    fast__split_place(self, worker, &o);
    if (o.map)
        FAST_TRY(fast__split_model_draw(
            team, &(fast_team_part){ o.params, o.state, o.map, o.state_map }));
    if (worker)
        fast__preprocess_init(team, rank, &self->preprocess);
    if (worker && fast__split_is(team))
        FAST_TRY(fast__split_learner(self, &o, &self->pipe));
    else if (worker && !team->single)
        FAST_TRY(make_learner(self, rank, &o.learner));
    FAST_TRY(fast__context_init(&self->context, &o));
    if (worker)
        FAST_TRY(fast__alloc("contributions", fast__share_columns(self->context.trainer.workers),
                             sizeof(double), &self->measures.contributions));
    fast__team_actor_reset(self);
    return fast__saved_states_begin(self);
}

fast_err fast__team_actor_new(fast_team *team, int64_t i, fast_team_actor **out)
{
    fast_team_actor *self = NULL;
    fast_err err;

    FAST_ASSERT(i >= 0 && i < team->workers + team->servers);
    FAST_TRY(fast__alloc("a worker", 1, sizeof *self, &self));
    self->team = team;
    self->number = i < team->workers ? i : i - team->workers;
    self->progress.counted = -1;
    err = make_parts(self, i);
    if (err)
        fast__team_actor_free(self);
    else
        *out = self;
    return err;
}

void fast__team_actor_free(fast_team_actor *self)
{
    if (!self)
        return;
    fast_learner *learner = self->context.learner;

    fast__context_fini(&self->context);
    if (learner && !self->team->single)
        learner->ops->free(learner);
    if (self->workspace)
        self->team->run->program->engine->workspace_free(self->workspace);
    fast__loader_free(self->loader);
    fast__saved_teachers_close(self->teachers);
    fast__split_unlearn(self);
    fast__free(self->measures.contributions);
    fast__free(self);
}

void fast__team_actor_reset(fast_team_actor *self)
{
    const fast_team *team = self->team;

    const fast_run *run = team->run;
    const bool zero = run->evaluation.file && run->evaluation.partial; /* nothing was read */

    fast__context_reset(&self->context, zero ? NULL : run->optimizer, run->step);
    if (run->evaluation.file)
        fast__device_file_flush(run->evaluation.file);
    if (self->measures.contributions)
        memset(self->measures.contributions, 0,
               (size_t)fast__share_columns(self->context.trainer.workers) * sizeof(double));
    self->sums.step = run->step; /* earlier steps are counted, in the sums of the checkpoint */
    self->progress.step_voted = -1;
    self->progress.loss = 0;
    self->progress.loss_count = 0;
}

void fast__team_actor_enter(fast_team_actor *self)
{
    const fast_team *team = self->team;
    const fast_phase *phase = &team->phases.list[team->phases.current];
    const fast_context_phase now = current_phase(team);

    FAST_ASSERT(team->phases.current > 0);
    /* Replicas that are to stay equal need equal states. */
    fast__context_enter(&self->context, &now,
                        phase->reset ||
                            (phase->strategy->identical && !phase[-1].strategy->identical));
    self->progress.step_voted = team->run->step; /* the end of the phase before was evaluated */
    self->lost = false;
}

/* Programs. */

/* Return the state of an actor whose program starts, with no error of an earlier call. */
static fast_team_actor *start(fast_team *team, fast_actor *actor)
{
    fast_team_actor *self = team->actors[fast_actor_id(actor)];

    FAST_ASSERT(self != NULL);
    self->err = FAST_OK;
    self->preprocess.next = -1;
    self->progress.news = 0;
    fast__context_start(&self->context, actor);
    if (fast_actor_life(actor) > 0) /* a restarted process remembers nothing */
        fast__team_actor_reset(self);
    return self;
}

/* Others look at these while they measure. */
static void note_end(fast_team_actor *self, bool over, bool lost)
{
    fast__team_lock(self);
    self->over = over;
    self->lost = lost;
    fast__team_unlock(self);
}

fast_err fast__team_worker(fast_actor *actor, void *ctx)
{
    fast_team *team = ctx;
    fast_team_actor *self = start(team, actor);
    fast_trainer *t = &self->context.trainer;
    fast_err err, last;

    if (team->place.agreeing)
        return fast__phase_agree(self);
    err = fast__split_is(team) ? fast__split_groups(self)
                               : fast_group_all(actor, "worker", &t->group);
    if (fast_actor_life(actor) > 0) {
        fast__measure_return(self);
        fast__monitor_return(self);
    }
    note_end(self, false, false);
    fast__forecast_network(self);
    fast__team_compare(self, "begins");
    if (!err)
        err = fast__cut_serve(self);
    if (!err)
        err = team->strategy->worker(t, team->config);
    if (err && fast__counted(&self->measures.end_ns) == 0)
        fast__measure_leave(self); /* it crashed or failed: no more time is its own */
    fast__cut_end(self, err);
    fast__preprocess_end(&self->preprocess, actor);
    note_end(self, self->over, err != FAST_OK);
    if (!err && self->number == 0)
        fast__forecast_sums(self);
    fast__context_stop(&self->context);
    fast__team_compare(self, "ends");
    fast_group_free(t->group);
    fast__split_ungroup(self);
    t->group = NULL;
    last = fast__monitor_leave(self);
    return err ? err : last;
}

fast_err fast__team_server(fast_actor *actor, void *ctx)
{
    fast_team *team = ctx;
    fast_team_actor *self = start(team, actor);
    fast_trainer *t = &self->context.trainer;

    if (team->place.agreeing)
        return fast__phase_agree(self);
    if (t->rank >= t->servers) /* another phase's */
        return FAST_OK;
    FAST_TRY(fast__cut_serve(self));
    fast__collect_serve(self);
    const fast_err err = team->strategy->server(t, team->config);
    fast__cut_end(self, err);
    return fast__collect_served(self, err);
}

void fast__team_break(fast_team_actor *self, fast_err err)
{
    fast_team_stop *stop = &self->team->stop;
    long long none = -1;

    FAST_ASSERT(err != FAST_OK);
    if (atomic_compare_exchange_strong(&stop->broken, &none, (long long)self->number)) {
        stop->err = err;
        snprintf(stop->detail, sizeof stop->detail, "%s", fast_error_detail());
    }
    atomic_store(&stop->now, true); /* synchronous workers see that this one is gone */
}
