/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A team: from the options of a run to actors that train, and their end.
 *
 *   strategy -> roles, topology      checked when the run is opened
 *   transport -> world               when it trains: which actors live in this process
 *   seats                            a learner, a loader, a rule for each of them, kept for the
 * next call after a cancel
 *
 * Every replica begins with the run's own weights (initial, loaded or resumed). On `sim` learners
 * take turns with a workspace for each thread that computes; elsewhere each has its own.
 */
#include "run/team.h"

#include "base/memory.h"

#include <stdio.h>
#include <string.h>

static bool is_sim(const fast_team *team)
{
    return strcmp(team->run->config.transport, "sim") == 0;
}

/* Seats. */

static void seat_free(const fast_run *run, fast_seat *seat)
{
    if (!seat)
        return;
    if (seat->learner)
        seat->learner->ops->free(seat->learner);
    if (seat->workspace)
        run->engine->workspace_free(seat->workspace);
    fast__optimizer_free(seat->optimizer);
    fast__loader_free(seat->loader);
    fast__free(seat->first);
    fast__free(seat->centre);
    fast__free(seat->carried);
    fast__free(seat);
}

/* Begin with the run's model and its rule's state. */
static void seat_reset(fast_seat *seat)
{
    const fast_run *run = seat->team->run;
    fast_trainer *t = &seat->trainer;
    float *slot;

    memcpy(t->w, run->learner->w, (size_t)t->count * sizeof *t->w);
    memcpy(t->s, run->learner->s, (size_t)t->state_count * sizeof *t->s);
    for (int i = 0; (slot = fast__optimizer_slot(seat->optimizer, i)) != NULL; i++)
        memcpy(slot, fast__optimizer_slot(run->optimizer, i), (size_t)t->count * sizeof *slot);
    t->step = run->step;
    t->centre = NULL;
}

static fast_err seat_worker(fast_seat *seat)
{
    fast_team *team = seat->team;
    fast_run *run = team->run;
    const fast_run_config *c = &run->config;
    fast_trainer *t = &seat->trainer;
    const fast_loader_options options = { .seed = (uint64_t)c->seed,
                                          .batch = c->batch,
                                          .workers = team->workers,
                                          .worker = t->rank,
                                          .shard = (fast_shard)c->shard,
                                          .alpha = c->alpha,
                                          .augment =
                                              strcmp(c->augment, "no") == 0 ? NULL : c->augment,
                                          .prefetch = is_sim(team) ? 0 : c->prefetch_count,
                                          .shuffle = true };
    fast_native_options native = { .graph = run->graph,
                                   .engine = run->engine,
                                   .program = run->program,
                                   .seed = (uint64_t)c->seed };

    FAST_TRY(fast__loader_new(run->train, &options, &seat->loader));
    native.loader = seat->loader;
    if (is_sim(team)) {
        native.workspaces = &team->workspaces;
    } else {
        FAST_TRY(run->engine->workspace_new(run->program, &seat->workspace));
        native.workspace = seat->workspace;
    }
    FAST_TRY(fast__native_new(&native, &seat->learner));
    FAST_TRY(fast__alloc("contributions", team->workers, sizeof *seat->carried, &seat->carried));
    t->w = seat->learner->w;
    t->g = seat->learner->g;
    t->s = seat->learner->s;
    return FAST_OK;
}

static fast_err seat_server(fast_seat *seat)
{
    fast_trainer *t = &seat->trainer;

    FAST_TRY(fast__alloc("a server's parameters", t->count + t->state_count, sizeof(float),
                         &seat->first));
    t->w = seat->first;
    t->s = seat->first + t->count;
    return FAST_OK;
}

static fast_err seat_new(fast_team *team, int64_t i, fast_seat **out)
{
    fast_run *run = team->run;
    const bool worker = i < team->workers;
    fast_seat *seat = NULL;
    fast_err err;

    FAST_TRY(fast__alloc("a worker", 1, sizeof *seat, &seat));
    seat->team = team;
    seat->step_judged = -1;
    seat->trainer = (fast_trainer){ .topology = team->topology,
                                    .rank = worker ? i : i - team->workers,
                                    .workers = team->workers,
                                    .servers = team->servers,
                                    .worker_ids = team->ids,
                                    .server_ids = team->ids + team->workers,
                                    .count = run->learner->params.count,
                                    .state_count = run->learner->state.count,
                                    .step_count = run->step_count,
                                    .epoch_steps = run->learner->epoch_steps,
                                    .period = 1,
                                    .run = seat };
    err = worker ? seat_worker(seat) : seat_server(seat);
    if (!err)
        err = fast__optimizer_new(run->config.optimizer, &run->graph->params, &seat->optimizer);
    if (err) {
        seat_free(run, seat);
        return err;
    }
    seat_reset(seat);
    *out = seat;
    return FAST_OK;
}

/* Programs. */

static fast_seat *sit_down(fast_team *team, fast_actor *actor)
{
    fast_seat *seat = team->seats[fast_actor_id(actor)];

    FAST_ASSERT(seat != NULL);
    seat->trainer.actor = actor;
    seat->err = FAST_OK;
    if (fast_actor_life(actor) > 0) /* a restarted process remembers nothing */
        seat_reset(seat);
    return seat;
}

static fast_err worker_main(fast_actor *actor, void *ctx)
{
    fast_team *team = ctx;
    fast_seat *seat = sit_down(team, actor);
    fast_err err = fast_group_all(actor, "worker", &seat->trainer.group);

    seat->over = false;
    if (!err)
        err = team->strategy->worker(&seat->trainer, team->config);
    seat->lost = err != FAST_OK;
    fast_group_free(seat->trainer.group);
    seat->trainer.group = NULL;
    fast__monitor_leave(seat);
    return err;
}

static fast_err server_main(fast_actor *actor, void *ctx)
{
    fast_team *team = ctx;
    fast_seat *seat = sit_down(team, actor);

    return team->strategy->server(&seat->trainer, team->config);
}

/* The team. */

static fast_err open_strategy(fast_team *team)
{
    fast_run_config *c = &team->run->config;
    const fast_strategy *strategy;

    if (strcmp(c->strategy, "auto") == 0)
        snprintf(c->strategy, sizeof c->strategy, "allreduce");
    if (strcmp(c->transport, "auto") == 0)
        snprintf(c->transport, sizeof c->transport, "threads");
    FAST_TRY(fast__strategy_open(c->strategy, &team->strategy, &team->config));
    strategy = team->strategy;
    if (strategy->check)
        FAST_TRY(strategy->check(team->config, c->workers, c->optimizer));
    team->servers = strategy->servers ? strategy->servers(team->config, c->workers) : 0;
    FAST_ASSERT(team->servers == 0 || strategy->server != NULL);
    if (strcmp(c->topology, "auto") != 0 && !strategy->topology)
        return fast__fail(FAST_EINVAL,
                          "strategy %s has no topology to choose; leave out topology=%s",
                          strategy->name, c->topology);
    if (strategy->topology) {
        if (strcmp(c->topology, "auto") == 0)
            snprintf(c->topology, sizeof c->topology, "%s", strategy->topology);
        FAST_TRY(fast_topology_new(c->topology, c->workers, (uint64_t)c->seed, &team->topology));
    }
    if (!strategy->identical && (c->checkpoint[0] || c->resume[0]))
        return fast__fail(FAST_EINVAL,
                          "strategy %s keeps a replica of its own at each worker: it cannot be "
                          "checkpointed; leave out %s",
                          strategy->name, c->checkpoint[0] ? "checkpoint" : "resume");
    return FAST_OK;
}

static fast_err open_memory(fast_team *team)
{
    const int64_t actors = team->workers + team->servers;
    const int64_t count = team->run->learner->params.count + team->run->learner->state.count;

    FAST_TRY(fast__alloc("actors' numbers", actors, sizeof *team->ids, &team->ids));
    FAST_TRY(fast__alloc("the workers", actors, sizeof *team->seats, &team->seats));
    for (int64_t i = 0; i < actors; i++)
        team->ids[i] = i;
    for (int i = 0; i < FAST_VOTES; i++) {
        team->votes[i].step = -1;
        FAST_TRY(fast__alloc("the mean of replicas", count, sizeof(int64_t), &team->votes[i].sum));
        FAST_TRY(fast__alloc("a replica", count, sizeof(float), &team->votes[i].first));
    }
    return FAST_OK;
}

static fast_err open_workspaces(fast_team *team)
{
    const fast_run *run = team->run;
    const int64_t count = run->config.pool > 0 ? run->config.pool + 1 : 1;

    FAST_ASSERT(count <= 64);
    for (int64_t i = 0; i < count && is_sim(team); i++) {
        FAST_TRY(run->engine->workspace_new(run->program, &team->workspaces.list[i]));
        atomic_fetch_or(&team->workspaces.free, 1ULL << i);
    }
    return FAST_OK;
}

fast_err fast__team_new(fast_run *run, fast_team **out)
{
    const fast_run_config *c = &run->config;
    fast_team *team = NULL;
    fast_err err;

    *out = NULL;
    if (c->workers == 1 && strcmp(c->strategy, "auto") == 0 && strcmp(c->transport, "auto") == 0)
        return c->cluster[0] || c->faults[0] ? fast__fail(FAST_EINVAL, "%s needs transport=sim",
                                                          c->cluster[0] ? "cluster" : "faults")
                                             : FAST_OK;
    FAST_TRY(fast__alloc("a team", 1, sizeof *team, &team));
    team->run = run;
    team->workers = c->workers;
    team->vote_step = -1;
    fast__mutex_init(&team->mutex);
    err = open_strategy(team);
    if (!err)
        err = open_memory(team);
    if (!err)
        err = open_workspaces(team);
    if (err) {
        fast__team_free(team);
        return err;
    }
    *out = team;
    return FAST_OK;
}

void fast__team_free(fast_team *team)
{
    if (!team)
        return;
    for (int64_t i = 0; team->seats && i < team->workers + team->servers; i++)
        seat_free(team->run, team->seats[i]);
    for (int i = 0; i < 64; i++)
        if (team->workspaces.list[i])
            team->run->engine->workspace_free(team->workspaces.list[i]);
    for (int i = 0; i < FAST_VOTES; i++) {
        fast__free(team->votes[i].sum);
        fast__free(team->votes[i].first);
    }
    fast_topology_free(team->topology);
    fast__mutex_fini(&team->mutex);
    fast__free(team->config);
    fast__free(team->seats);
    fast__free(team->ids);
    fast__free(team);
}

static fast_err open_world(fast_team *team)
{
    const fast_run_config *c = &team->run->config;
    fast_actors_config config;

    team->roles[0] = (fast_role){ "worker", team->workers, worker_main, team };
    team->roles[1] = (fast_role){ "server", team->servers, server_main, team };
    memset(&config, 0, sizeof config);
    fast__options_default(fast__actors_options, &config);
    snprintf(config.transport, sizeof config.transport, "%s", c->transport);
    snprintf(config.cluster, sizeof config.cluster, "%s", c->cluster);
    snprintf(config.faults, sizeof config.faults, "%s", c->faults);
    snprintf(config.trace, sizeof config.trace, "%s", c->trace);
    config.seed = c->seed;
    config.timeout = c->timeout;
    config.pool = c->pool;
    FAST_TRY(fast__actors_check(&config));
    return fast__world_open(&config, team->roles, team->servers > 0 ? 2 : 1, &team->world);
}

/* Strategies whose workers write to one memory need them all where it is. */
static fast_err check_near(const fast_team *team)
{
    const fast_world *world = team->world;

    for (int64_t i = 0; team->strategy->near && i < team->workers; i++)
        if (!world->inner->share || !world->places[i].here ||
            world->places[i].node != world->places[0].node)
            return fast__fail(FAST_EINVAL,
                              "strategy %s: workers 0 and %lld do not share memory; use "
                              "transport=threads, or a cluster of one node as in "
                              "cluster=laptop",
                              team->strategy->name, (long long)i);
    return FAST_OK;
}

/* Seats for the actors of this process that have none yet. */
static fast_err open_seats(fast_team *team)
{
    team->alone = true;
    for (int64_t i = 0; i < team->workers + team->servers; i++) {
        if (!team->world->places[i].here)
            team->alone = false;
        else if (!team->seats[i])
            FAST_TRY(seat_new(team, i, &team->seats[i]));
    }
    return FAST_OK;
}

/* What a run that was not stopped otherwise ended with. */
static void name_the_end(fast_run *run)
{
    if (run->finished)
        return;
    run->result.canceled = atomic_load(&run->cancel) && run->step < run->step_count;
    run->result.stop = run->result.canceled ? "canceled" : "done";
}

fast_err fast__team_train(fast_team *team)
{
    fast_run *run = team->run;
    fast_actors_result result = { 0 };
    fast_err err;

    if (run->finished || run->step >= run->step_count)
        return FAST_OK;
    FAST_TRY(open_world(team));
    err = check_near(team);
    if (!err)
        err = open_seats(team);
    if (!err) {
        team->workers_up = team->workers;
        team->steps_sum = run->step * team->workers;
        team->votes_opened = fast__run_dues(run, run->config.evaluate_period, run->step);
        atomic_store(&team->stop_step, INT64_MAX);
        atomic_store(&team->stop, false);
        atomic_store(&team->finished, false);
        run->times.start_ns = 1; /* the actors' clock begins at 0 */
        err = fast__world_run(team->world, &result);
        run->times.total_ns += result.time_ns;
        run->times.start_ns = 0;
        run->times.compute_ns += result.compute_ns / team->workers;
    }
    fast__world_close(team->world);
    team->world = NULL;
    FAST_TRY(err);
    name_the_end(run);
    return fast__monitor_finish(team);
}
