/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A team: from the options of a run to actors that train, and their end.
 *
 *   strategy -> roles, topology      checked when the run is opened
 *   transport -> world               when it trains: which actors live in this process
 *   seats                            a learner, a loader, a rule for each of them, kept for the
 *                                    next call after a cancel
 *
 * Every replica begins with the run's own weights (initial, loaded or resumed). On `sim` learners
 * take turns with a workspace for each thread that computes; elsewhere each has its own.
 *
 * A synchronous team fails with its first worker. An asynchronous one goes on with those who are
 * left: what happened to the others is a note. Where a team is spread over processes, each has its
 * own fast_team and they meet in messages only; the one with worker 0 speaks for all.
 */
#include "run/team.h"

#include "base/memory.h"
#include "run/keep.h"

#include <math.h>
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
    fast__seat_unshare(seat);
    if (seat->learner)
        seat->learner->ops->free(seat->learner);
    if (seat->workspace)
        run->engine->workspace_free(seat->workspace);
    fast__optimizer_free(seat->optimizer);
    fast__loader_free(seat->loader);
    fast__codec_uncut(seat);
    fast__coded_free(seat->coded);
    fast__flows_drop(&seat->flows);
    fast__kept_drop(seat);
    fast__spaces_drop(seat);
    fast__factors_free(seat);
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
    if (seat->carried)
        memset(seat->carried, 0, 2 * (size_t)t->workers * sizeof *seat->carried);
    if (seat->coded)
        fast__coded_restart(seat->coded, run->step);
    fast__flows_drop(&seat->flows);
    fast__kept_drop(seat);
    fast__spaces_drop(seat);
    fast__codec_uncut(seat);
    fast__factors_forget(seat);
    seat->settle = NULL;
    t->step = seat->step_begun = run->step;
    t->centre = NULL;
    seat->step_judged = -1;
    seat->loss = 0;
    seat->loss_count = 0;
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
                                          .accumulate = c->accumulate,
                                          .shard = (fast_shard)c->shard,
                                          .alpha = c->alpha,
                                          .augment =
                                              strcmp(c->augment, "no") == 0 ? NULL : c->augment,
                                          .prefetch = is_sim(team) ? 0 : c->prefetch_count,
                                          .shuffle = true };
    fast_native_options native = { .graph = run->graph,
                                   .engine = run->engine,
                                   .program = run->program,
                                   .accumulate = c->accumulate,
                                   .seed = (uint64_t)c->seed };

    if (run->train)
        FAST_TRY(fast__loader_new(run->train, &options, &seat->loader));
    native.loader = seat->loader;
    if (run->foreign) {
        FAST_TRY(fast__run_foreign(run, t->rank, seat->loader, &seat->learner));
    } else if (is_sim(team)) {
        native.workspaces = &team->workspaces;
        FAST_TRY(fast__native_new(&native, &seat->learner));
    } else {
        FAST_TRY(run->engine->workspace_new(run->program, &seat->workspace));
        native.workspace = seat->workspace;
        FAST_TRY(fast__native_new(&native, &seat->learner));
    }
    FAST_TRY(
        fast__alloc("contributions", 2 * team->workers, sizeof *seat->carried, &seat->carried));
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
                                    .servers = team->phases[team->phase].servers,
                                    .worker_ids = team->ids,
                                    .server_ids = team->ids + team->workers,
                                    .count = run->learner->params.count,
                                    .state_count = run->learner->state.count,
                                    .step_count = team->phases[team->phase].end,
                                    .epoch_steps = run->learner->epoch_steps,
                                    .parts = run->learner->parts > 1 ? run->learner->parts : 1,
                                    .period = 1,
                                    .run = seat };
    err = worker ? seat_worker(seat) : seat_server(seat);
    if (!err)
        err = fast__optimizer_new(run->config.optimizer, fast__run_params(run), &seat->optimizer);
    if (err) {
        seat_free(run, seat);
        return err;
    }
    seat_reset(seat);
    err = fast__owed_begin(seat);
    if (err)
        seat_free(run, seat);
    else
        *out = seat;
    return err;
}

/* Programs. */

static fast_seat *sit_down(fast_team *team, fast_actor *actor)
{
    fast_seat *seat = team->seats[fast_actor_id(actor)];

    FAST_ASSERT(seat != NULL);
    seat->trainer.actor = actor;
    seat->err = FAST_OK;
    seat->owed = 0;
    seat->done_count = 0;
    for (fast_left *left = seat->spaces; left; left = left->next)
        left->space = NULL;         /* of a program that did not come to its end */
    if (fast_actor_life(actor) > 0) /* a restarted process remembers nothing */
        seat_reset(seat);
    return seat;
}

/* Others look at these while they measure. */
static void note_end(fast_seat *seat, bool over, bool lost)
{
    fast__team_lock(seat);
    seat->over = over;
    seat->lost = lost;
    fast__team_unlock(seat);
}

static fast_err worker_main(fast_actor *actor, void *ctx)
{
    fast_team *team = ctx;
    fast_seat *seat = sit_down(team, actor);
    fast_err err, last;

    if (team->meeting)
        return fast__phase_meet(seat);
    err = fast_group_all(actor, "worker", &seat->trainer.group);
    if (fast_actor_life(actor) > 0)
        fast__monitor_return(seat);
    note_end(seat, false, false);
    fast__team_compare(seat, "begins");
    if (!err)
        err = team->strategy->worker(&seat->trainer, team->config);
    note_end(seat, seat->over, err != FAST_OK);
    fast__seat_unshare(seat);
    if (!err && seat->trainer.rank == 0)
        fast__forecast_sums(seat);
    fast__team_compare(seat, "ends");
    fast__codec_uncut(seat); /* its pieces know the group */
    fast_group_free(seat->trainer.group);
    seat->trainer.group = NULL;
    last = fast__monitor_leave(seat);
    return err ? err : last;
}

static fast_err server_main(fast_actor *actor, void *ctx)
{
    fast_team *team = ctx;
    fast_seat *seat = sit_down(team, actor);

    if (team->meeting)
        return fast__phase_meet(seat);
    if (seat->trainer.rank >= seat->trainer.servers) /* another phase's */
        return FAST_OK;
    fast__gather_serve(seat);
    return fast__gather_served(seat, team->strategy->server(&seat->trainer, team->config));
}

/* The team. */

/* Is all that a strategy's workers keep in checkpoints? */
static bool can_resume(const fast_strategy *strategy)
{
    return strategy->identical || strategy->resumes;
}

static fast_err open_strategy(fast_team *team)
{
    fast_run_config *c = &team->run->config;
    bool whole = false;

    if (strcmp(c->strategy, "auto") == 0)
        snprintf(c->strategy, sizeof c->strategy, "%s",
                 team->run->strategy ? team->run->strategy->name : "allreduce");
    if (strcmp(c->transport, "auto") == 0)
        snprintf(c->transport, sizeof c->transport, "threads");
    FAST_TRY(fast__phases_open(team));
    for (int64_t i = 0; i < team->phase_count; i++)
        whole = whole || can_resume(team->phases[i].strategy);
    if (!whole && (c->checkpoint[0] || c->resume[0]))
        FAST_TRY(fast__team_can_resume(team, c->checkpoint[0] ? "checkpoint" : "resume"));
    return FAST_OK;
}

fast_err fast__team_can_resume(const fast_team *team, const char *option)
{
    if (can_resume(team->strategy))
        return FAST_OK;
    return fast__fail(
        FAST_ENOTSUP,
        "strategy %s keeps more than replicas between steps, which workers do not take "
        "together, and a checkpoint does not hold that: leave out %s",
        team->strategy->name, option);
}

static fast_err open_memory(fast_team *team)
{
    const int64_t actors = team->workers + team->servers;

    FAST_TRY(fast__represent_open(team));
    FAST_TRY(fast__alloc("actors' numbers", actors, sizeof *team->ids, &team->ids));
    FAST_TRY(fast__alloc("the workers", actors, sizeof *team->seats, &team->seats));
    FAST_TRY(fast__alloc("waits by actor", actors, sizeof *team->waited, &team->waited));
    for (int64_t i = 0; i < actors; i++)
        team->ids[i] = i;
    for (int i = 0; i <= FAST_VOTES; i++) {
        fast_vote *vote = i < FAST_VOTES ? &team->votes[i] : &team->last;

        FAST_TRY(fast__vote_new(team, vote));
    }
    return FAST_OK;
}

static fast_err open_workspaces(fast_team *team)
{
    const fast_run *run = team->run;
    const int64_t count = run->config.pool > 0 ? run->config.pool + 1 : 1;

    FAST_ASSERT(count <= 64);
    for (int64_t i = 0; i < count && is_sim(team) && !run->foreign; i++) {
        FAST_TRY(run->engine->workspace_new(run->program, &team->workspaces.list[i]));
        atomic_fetch_or(&team->workspaces.free, 1ULL << i);
    }
    return FAST_OK;
}

/* The timeline's file: of later phases with their number before the last dot. */
static void trace_path(const fast_team *team, char *text, size_t size)
{
    const char *path = team->run->config.trace;
    const char *name = strrchr(path, '/');
    const char *dot = strrchr(name ? name : path, '.');
    const int head = dot ? (int)(dot - path) : (int)strlen(path);

    text[0] = 0;
    if (path[0] && !team->meeting && team->phase == 0)
        snprintf(text, size, "%s", path);
    else if (path[0] && !team->meeting)
        snprintf(text, size, "%.*s.%lld%s", head, path, (long long)team->phase, dot ? dot : "");
}

/* The cluster that is simulated where none is given: of one node where any strategy of the run
 * writes to one memory; "": the transport's own. */
static const char *cluster_of(const fast_team *team)
{
    bool near = false;

    for (int64_t i = 0; i < team->phase_count; i++)
        near = near || team->phases[i].strategy->near;
    if (!near || !is_sim(team) || team->run->config.cluster[0])
        return team->run->config.cluster;
    return "laptop";
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
    snprintf(config.cluster, sizeof config.cluster, "%s", cluster_of(team));
    snprintf(config.faults, sizeof config.faults, "%s", c->faults);
    trace_path(team, config.trace, sizeof config.trace);
    snprintf(config.record, sizeof config.record, "%s", c->record);
    snprintf(config.replay, sizeof config.replay, "%s", c->replay);
    config.job = team->job;
    config.glance = team->run->keep != NULL;
    config.seed = c->seed;
    config.timeout = c->timeout;
    config.pool = c->pool;
    FAST_TRY(fast__actors_check(&config));
    return fast__world_open(&config, team->roles, team->servers > 0 ? 2 : 1, &team->world);
}

/* Strategies whose workers write to one memory need them all where it is. */
static fast_err check_near(const fast_team *team, const fast_strategy *strategy)
{
    const fast_world *world = team->world;

    for (int64_t i = 0; strategy->near && i < team->workers; i++)
        if (!world->inner->share || !world->places[i].here ||
            world->places[i].node != world->places[0].node)
            return fast__fail(FAST_EINVAL,
                              "strategy %s: workers 0 and %lld do not share memory; use "
                              "transport=threads, or a cluster of one node as in "
                              "cluster=laptop",
                              strategy->name, (long long)i);
    return FAST_OK;
}

static void close_world(fast_team *team)
{
    fast__world_close(team->world);
    team->world = NULL;
}

/* Which actors are in this process, and whether the transport can have them at all: known before
 * anything trains. */
static fast_err look_around(fast_team *team)
{
    fast_err err = FAST_OK;

    if (team->run->config.record[0] || team->run->config.replay[0]) {
        FAST_TRY(fast__team_can_record(team));
        FAST_TRY(fast__run_job(team->run, &team->job));
    }
    FAST_TRY(open_world(team));
    team->alone = true;
    team->first = team->world->places[0].here;
    team->here = 0;
    for (int64_t i = 0; i < team->workers + team->servers; i++) {
        team->alone = team->alone && team->world->places[i].here;
        team->here += i < team->workers && team->world->places[i].here;
    }
    team->run->is_virtual = team->world->transport->virtual_clock;
    for (int64_t i = 0; i < team->phase_count && !err; i++)
        err = check_near(team, team->phases[i].strategy);
    close_world(team);
    return err;
}

/* Options that have no meaning for one worker without actors. */
static fast_err check_alone(const fast_run_config *c)
{
    if (c->cluster[0] || c->faults[0])
        return fast__fail(FAST_EINVAL, "%s needs transport=sim",
                          c->cluster[0] ? "cluster" : "faults");
    if (c->record[0] || c->replay[0])
        return fast__fail(FAST_EINVAL, "%s: one worker repeats to the bit by itself; leave it out",
                          c->record[0] ? "record" : "replay");
    return FAST_OK;
}

fast_err fast__team_new(fast_run *run, fast_team **out)
{
    const fast_run_config *c = &run->config;
    fast_team *team = NULL;
    fast_err err;

    *out = NULL;
    if (c->workers == 1 && !run->strategy && !c->then[0] && strcmp(c->strategy, "auto") == 0 &&
        strcmp(c->transport, "auto") == 0)
        return check_alone(c);
    FAST_TRY(fast__alloc("a team", 1, sizeof *team, &team));
    team->run = run;
    team->workers = c->workers;
    team->vote_step = -1;
    team->divergence = NAN;
    fast__mutex_init(&team->mutex);
    err = open_strategy(team);
    if (!err)
        err = open_memory(team);
    if (!err)
        err = open_workspaces(team);
    if (!err)
        err = look_around(team);
    if (!err && (c->checkpoint[0] || c->resume[0]))
        err = fast__owed_open(team);
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
    for (int i = 0; i <= FAST_VOTES; i++) {
        const fast_vote *vote = i < FAST_VOTES ? &team->votes[i] : &team->last;

        fast__vote_free(vote);
    }
    fast__owed_free(team);
    fast__free(team->shared_w);
    fast__optimizer_free(team->shared_rule);
    fast__represent_fini(&team->represent);
    if (team->phases)
        fast__phases_free(team);
    fast__mutex_fini(&team->mutex);
    fast__free(team->job);
    fast__free(team->seats);
    fast__free(team->waited);
    fast__free(team->ids);
    fast__free(team);
}

void fast__team_free_servers(fast_team *team)
{
    for (int64_t i = team->workers; i < team->workers + team->servers; i++) {
        seat_free(team->run, team->seats[i]);
        team->seats[i] = NULL;
    }
}

/* Seats for the actors of this process that have none yet. A server of a run that goes on begins
 * with the representative: the space that it served is gone. */
static fast_err open_seats(fast_team *team)
{
    const fast_learner *learner = team->run->learner;

    for (int64_t i = 0; i < team->workers + team->servers; i++) {
        fast_seat *seat = team->seats[i];

        if (!team->world->places[i].here)
            continue;
        if (!seat) {
            FAST_TRY(seat_new(team, i, &team->seats[i]));
            continue;
        }
        if (i < team->workers)
            continue;
        memcpy(seat->trainer.w, learner->w, (size_t)seat->trainer.count * sizeof(float));
        memcpy(seat->trainer.s, learner->s, (size_t)seat->trainer.state_count * sizeof(float));
        seat->trainer.step = team->run->step; /* its schedule goes on too */
    }
    return FAST_OK;
}

/* Everything that the workers of one call share. */
static void begin(fast_team *team)
{
    fast_run *run = team->run;

    team->workers_up = team->here;
    team->steps_sum = 0;
    for (int64_t i = 0; i < team->workers; i++) {
        if (!team->seats[i])
            continue;
        /* Who crashed in an earlier call begins with the representative. */
        if (team->seats[i]->lost)
            seat_reset(team->seats[i]);
        team->seats[i]->over = false;
        team->seats[i]->lost = false;
        team->steps_sum += team->seats[i]->trainer.step;
    }
    fast__measure_begin(team);
    team->votes_opened = fast__run_dues(run, run->config.evaluate_period, run->step);
    for (int64_t i = 0; i < team->workers; i++)
        if (team->seats[i])
            team->seats[i]->votes_cast = team->votes_opened;
    for (int i = 0; i < FAST_VOTES; i++)
        team->votes[i].step = -1;
    team->vote_step = -1;
    fast__vote_clear(team, &team->last, run->step);
    atomic_store(&team->why, 0);
    atomic_store(&team->broken, -1);
    atomic_store(&team->stop_step, INT64_MAX);
    team->step_begun = 0;
    atomic_store(&team->stop, false);
    atomic_store(&team->finished, false);
}

/* What a run that was not stopped here ended with; perhaps another process saw it. */
static void name_the_end(fast_team *team)
{
    fast_run *run = team->run;
    const int why = atomic_load(&team->why);

    if (run->finished)
        return;
    run->finished = (why & (FAST_WHY_TARGET | FAST_WHY_DIVERGED)) != 0;
    run->result.canceled = !run->finished && run->step < run->step_count &&
                           (atomic_load(&run->cancel) || (why & FAST_WHY_CANCELED));
    run->result.stop = (why & FAST_WHY_DIVERGED) ? "diverged"
                       : run->finished           ? "target"
                       : run->result.canceled    ? "canceled"
                                                 : "done";
}

/* The failure that tells most: of a program that gave up on another, before one of an actor that
 * crashed. Returns the actor's number, or -1. */
static int64_t first_failure(const fast_team *team)
{
    int64_t found = -1;

    for (int64_t i = 0; i < team->workers + team->servers; i++) {
        const fast_actor *actor = team->world->actors[i];

        if (!actor || actor->err == FAST_OK)
            continue;
        if (actor->err != FAST_ECANCELED)
            return i;
        if (found < 0)
            found = i;
    }
    return found;
}

void fast__team_break(fast_seat *seat, fast_err err)
{
    fast_team *team = seat->team;
    long long none = -1;

    FAST_ASSERT(err != FAST_OK);
    if (atomic_compare_exchange_strong(&team->broken, &none, (long long)seat->trainer.rank)) {
        team->broken_err = err;
        snprintf(team->broken_why, sizeof team->broken_why, "%s", fast_error_detail());
    }
    atomic_store(&team->stop, true); /* synchronous workers see that this one is gone */
}

/* How it ended: an asynchronous team needs one worker that comes to its end, and every server but
 * those that crashed: who needed one did not come to its end. */
static fast_err judge_ends(fast_team *team)
{
    const int64_t failed = first_failure(team);
    int64_t ended = 0, gone = 0;
    char text[FAST_DETAIL_MAX + 128], name[64];

    if (atomic_load(&team->broken) >= 0)
        return fast__fail(team->broken_err, "worker %lld: %s", atomic_load(&team->broken),
                          team->broken_why);
    if (failed < 0)
        return FAST_OK;
    for (int64_t i = 0; i < team->workers; i++) {
        ended += team->seats[i] && !team->seats[i]->lost;
        gone += team->seats[i] && team->seats[i]->lost;
    }
    for (int64_t i = team->workers; i < team->workers + team->servers; i++)
        if (team->world->actors[i] && team->world->actors[i]->err &&
            team->world->actors[i]->err != FAST_ECANCELED)
            ended = 0;
    fast__actor_name(team->world, failed, name, sizeof name);
    snprintf(text, sizeof text, "%s: %s", name,
             team->world->actors[failed]->err == FAST_ECANCELED
                 ? "it crashed"
                 : team->world->actors[failed]->detail);
    if (team->strategy->synchronous || ended == 0)
        return fast__fail(team->world->actors[failed]->err, "%s", text);
    snprintf(text, sizeof text,
             "%lld of %lld workers did not come to the end (%s: %.200s); the "
             "others went on",
             (long long)gone, (long long)team->workers, name,
             team->world->actors[failed]->err == FAST_ECANCELED
                 ? "it crashed"
                 : team->world->actors[failed]->detail);
    fast__run_tell(team->run, FAST_EVENT_NOTE, text);
    return FAST_OK;
}

static int64_t seats_taken(const fast_team *team)
{
    int64_t count = 0;

    for (int64_t i = 0; i < team->workers + team->servers; i++)
        count += team->seats[i] != NULL;
    return count;
}

/* Workers that crashed before they began had no program that could tell. */
static void note_unborn(fast_team *team)
{
    for (int64_t i = 0; i < team->workers; i++) {
        const fast_actor *actor = team->world->actors[i];

        if (team->seats[i] && actor && actor->err == FAST_ECANCELED)
            team->seats[i]->over = team->seats[i]->lost = true;
    }
}

/* Run the actors of one world to their end. */
static fast_err run_world(fast_team *team)
{
    fast_run *run = team->run;
    fast_actors_result result = { 0 };
    bool ran = false;
    fast_err err;

    if (team->recorded)
        return fast__fail(FAST_EINVAL, "a recording is of one call: open the run anew");
    team->recorded = team->job != NULL;
    FAST_TRY(open_world(team));
    err = open_seats(team);
    if (!err) {
        begin(team);
        if (team->phase > 0 && run->times.start_ns) /* since the last world */
            run->times.total_ns += fast__run_now(run) - run->times.start_ns;
        run->times.start_ns = 1; /* the actors' clock begins at 0 */
        err = fast__world_run(team->world, &result);
        ran = true;
        note_unborn(team);
        run->times.start_ns = 0;
        run->times.total_ns += result.time_ns;
        fast__run_forecast(run);
        fast__measure_end(team);
        fast__keep_world(run, result.time_ns);
        /* The rest of the call is by the machine's clock again, where that is the actors'. */
        run->times.start_ns = run->is_virtual ? 0 : fast__run_now(run);
    }
    if (ran && fast__record_note(team->world)) /* it must not lose the run */
        fast__run_tell(run, FAST_EVENT_NOTE, fast__record_note(team->world));
    if (ran && (first_failure(team) >= 0 || atomic_load(&team->broken) >= 0) &&
        !fast__record_is_broken(team->world))
        err = judge_ends(team);
    else if (ran && err && run->config.trace[0] && result.ended_count == seats_taken(team)) {
        /* All have trained to the end: a timeline that cannot be written must not lose that. */
        fast__run_tell(run, FAST_EVENT_NOTE, fast_error_detail());
        err = FAST_OK;
    }
    close_world(team);
    return err;
}

/* A phase is over at this process. True in *stop_out if it was the last one, or if the run stops
 * here; other processes find the same. */
static fast_err change(fast_team *team, bool *stop_out)
{
    fast_run *run = team->run;

    *stop_out = true;
    if (!fast__phases_left(team))
        return FAST_OK;
    if (!team->alone) {
        const int64_t step = run->step;
        fast_err err;

        team->meeting = true;
        err = run_world(team);
        team->meeting = false;
        FAST_TRY(err);
        run->step = step;
        if (atomic_load(&team->why))
            name_the_end(team);
        else
            fast__phase_met(team);
    }
    if (run->finished || run->result.canceled)
        return FAST_OK;
    *stop_out = false;
    run->result.stop = "";
    return fast__phase_next(team);
}

fast_err fast__team_train(fast_team *team)
{
    fast_run *run = team->run;
    bool stop = run->step >= run->step_count;

    if (run->finished)
        return FAST_OK;
    if (stop) { /* nothing to train: what is there is judged */
        name_the_end(team);
        return fast__monitor_finish(team);
    }
    if (seats_taken(team) == 0)
        FAST_TRY(fast__phase_find(team));
    while (!stop) {
        FAST_TRY(run_world(team));
        name_the_end(team);
        FAST_TRY(fast__monitor_finish(team));
        FAST_TRY(change(team, &stop));
    }
    return FAST_OK;
}
