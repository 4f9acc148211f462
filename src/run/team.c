/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A team: from the options of a run to actors that train, and their end.
 *
 *   strategy -> roles, topology      checked when the run is opened
 *   transport -> world               when it trains: which actors live in this process
 *   actors                           a learner, a loader and a context for each (team_actor.c),
 *                                    which outlive the world and serve the next call
 *
 * A synchronous team fails with its first worker. An asynchronous one continues with the
 * workers that are left: the failure of the others is a note. Where a team is spread over
 * processes, each has its own fast_team and they exchange messages only; the one with worker 0
 * speaks for all.
 *
 * fast__team_train(), in the caller's thread:
 *
 *         fast__phase_find        a resumed run may start in a later phase
 *     +-> run_world               world, actors, begin(); all programs to their end; measures
 *     |   name_the_end            "done", "target", "diverged" or "canceled"
 *     |   fast__monitor_finish    the last replicas become the run's model; evaluate it.
 *     |                           After "target" the model that reached it stays
 *     +-- change                  the next phase; over processes after a short world that agrees
 *
 * How failures end (check_ends):
 *
 *     a learner fails                       the run fails with the learner's error: "worker R: ..."
 *     synchronous, any actor fails          its error; one that gave up on another comes before one
 *                                           whose peer left, and that before one that crashed
 *                                           (FAST_ECANCELED), since it tells more
 *     asynchronous, some workers fail       a note; their replicas leave the votes (`lost`)
 *     asynchronous, all workers fail, or    the error of the first
 *     a server with more than a crash
 *     a timeline that cannot be written     a note, if every actor came to its end
 */
#include "run/team.h"

#include "base/log.h"
#include "base/memory.h"
#include "run/sink/store_sink.h"
#include "tensor/vector.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Does the run simulate its workers? */
static bool is_sim(const fast_team *team)
{
    return strcmp(team->run->config.transport, "sim") == 0;
}

/* The team. */

/* Is the whole state of a strategy's workers in checkpoints? */
static bool can_resume(const fast_strategy *strategy)
{
    return strategy->identical || strategy->resumable;
}

/* Resolve what "auto" stands for, which a single worker's options do not tell, and open the phases;
 * refuse checkpoints where no phase can be saved. */
static fast_err open_strategy(fast_team *team)
{
    fast_run_config *c = &team->run->config;
    bool whole = false;

    if (strcmp(c->strategy, "auto") == 0 && !team->single)
        snprintf(c->strategy, sizeof c->strategy, "%s",
                 team->run->strategy ? team->run->strategy->name : "allreduce");
    if (strcmp(c->transport, "auto") == 0 && !team->single)
        snprintf(c->transport, sizeof c->transport, "threads");
    FAST_TRY(fast__phases_open(team));
    for (int64_t i = 0; i < team->phases.count; i++)
        whole = whole || can_resume(team->phases.list[i].strategy);
    if (!whole && c->checkpoint[0]) /* to resume the model of another strategy's is possible */
        FAST_TRY(fast__team_can_resume(team, "checkpoint"));
    return FAST_OK;
}

fast_err fast__team_can_resume(const fast_team *team, const char *option)
{
    if (can_resume(team->strategy))
        return FAST_OK;
    return fast__fail(FAST_ENOTSUP,
                      "strategy %s does not declare that it can be saved between steps "
                      "(fast_strategy.resumable): leave out %s",
                      team->strategy->name, option);
}

/* Do workers vote in any phase? Where replicas are identical at each step, worker 0's stands. */
static bool has_votes(const fast_team *team)
{
    for (int64_t i = 0; i < team->phases.count; i++) {
        const fast_strategy *strategy = team->phases.list[i].strategy;

        if (!strategy->identical || !strategy->synchronous)
            return true;
    }
    return false;
}

/* Allocate the lists of actors and the votes. */
static fast_err open_memory(fast_team *team)
{
    const int64_t actors = team->workers + team->servers;

    FAST_TRY(fast__representative_open(team));
    FAST_TRY(fast__alloc("actors' numbers", actors, sizeof *team->ids, &team->ids));
    FAST_TRY(fast__alloc("the workers", actors, sizeof *team->actors, &team->actors));
    FAST_TRY(fast__alloc("column means", fast__share_columns(team->workers),
                         sizeof *team->measures.column_means, &team->measures.column_means));
    FAST_TRY(fast__alloc("waits by actor", actors, sizeof *team->measures.waited,
                         &team->measures.waited));
    FAST_TRY(fast__alloc("missing actors", actors, sizeof *team->progress.missing,
                         &team->progress.missing));
    FAST_TRY(
        fast__alloc("actors of this process", actors, sizeof *team->place.mine, &team->place.mine));
    for (int64_t i = 0; i < actors; i++)
        team->ids[i] = i;
    for (int i = 0; i <= FAST_VOTES && has_votes(team); i++) {
        fast_vote *vote = i < FAST_VOTES ? &team->ballot.votes[i] : &team->ballot.last;

        FAST_TRY(fast__vote_new(team, vote));
    }
    return FAST_OK;
}

/* Workspaces of simulated workers: one for each thread that computes, since no more are used at a
 * time. */
static fast_err open_workspaces(fast_team *team)
{
    const fast_run *run = team->run;
    const int64_t count = run->config.pool > 0 ? run->config.pool + 1 : 1;

    FAST_ASSERT(count <= 64);
    for (int64_t i = 0; i < count && is_sim(team) && !run->foreign && !fast__split_is(team); i++) {
        FAST_TRY(
            run->program->engine->workspace_new(run->program, &team->place.workspaces.list[i]));
        atomic_fetch_or(&team->place.workspaces.free, 1ULL << i);
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
    if (path[0] && !team->place.agreeing && team->phases.current == 0)
        snprintf(text, size, "%s", path);
    else if (path[0] && !team->place.agreeing)
        snprintf(text, size, "%.*s.%lld%s", head, path, (long long)team->phases.current,
                 dot ? dot : "");
}

/* The cluster that is simulated where none is given: of one node where any strategy of the run
 * writes to one memory; "": the transport's own. */
static const char *cluster_of(const fast_team *team)
{
    bool shares = false;

    for (int64_t i = 0; i < team->phases.count; i++)
        shares = shares || team->phases.list[i].strategy->shares_memory;
    if (!shares || !is_sim(team) || team->run->config.cluster[0])
        return team->run->config.cluster;
    return "laptop";
}

/* Do the servers of any phase live on nodes of their own? Actors stay in their places. */
static bool has_dedicated(const fast_team *team)
{
    for (int64_t i = 0; i < team->phases.count; i++) {
        const fast_phase *phase = &team->phases.list[i];

        if (phase->strategy->dedicated && phase->strategy->dedicated(phase->config))
            return true;
    }
    return false;
}

/* Open the world of actors that a call of the run takes place in. */
static fast_err open_world(fast_team *team)
{
    const fast_run_config *c = &team->run->config;
    fast_actors_config config;

    fast_role *roles = team->place.roles;
    int64_t role_count = 0;

    roles[role_count++] = (fast_role){ "worker", team->workers, fast__team_worker, team };
    if (team->servers > 0)
        roles[role_count++] = (fast_role){ "server", team->servers, fast__team_server, team };
    if (c->preprocess > 0)
        roles[role_count++] =
            (fast_role){ "preprocessor", c->preprocess, fast__team_preprocessor, team };
    memset(&config, 0, sizeof config);
    fast__options_default(fast__actors_options, &config);
    snprintf(config.transport, sizeof config.transport, "%s",
             team->single ? "threads" : c->transport);
    snprintf(config.cluster, sizeof config.cluster, "%s", cluster_of(team));
    snprintf(config.placement, sizeof config.placement, "%s", c->placement);
    snprintf(config.faults, sizeof config.faults, "%s", c->faults);
    trace_path(team, config.trace, sizeof config.trace);
    snprintf(config.record, sizeof config.record, "%s", c->record);
    snprintf(config.replay, sizeof config.replay, "%s", c->replay);
    config.job = team->place.job;
    config.snapshot = team->run->sinks.store != NULL && !team->single;
    config.in_flight = team->saved.open && !team->strategy->synchronous;
    config.dedicated = has_dedicated(team);
    config.seed = c->seed;
    config.timeout = c->timeout;
    config.bind = c->bind;
    config.pool = c->pool;
    FAST_TRY(fast__actors_check(&config));
    FAST_TRY(fast__world_open(&config, roles, role_count, &team->place.world));
    team->place.world->device = team->run->device;
    return FAST_OK;
}

/* Strategies whose workers write to one memory need them all where it is. */
static fast_err check_local(const fast_team *team, const fast_strategy *strategy)
{
    const fast_world *world = team->place.world;

    for (int64_t i = 0; strategy->shares_memory && i < team->workers; i++)
        if (!world->inner->share || !world->places[i].here ||
            world->places[i].node != world->places[0].node)
            return fast__fail(FAST_EINVAL,
                              "strategy %s: workers 0 and %lld do not share memory; use "
                              "transport=threads, or a cluster of one node as in "
                              "cluster=laptop",
                              strategy->name, (long long)(i > 0 ? i : team->workers - 1));
    return FAST_OK;
}

/* Close the world; actors and their contexts outlive it. */
static void close_world(fast_team *team)
{
    fast__world_close(team->place.world);
    team->place.world = NULL;
}

/* Which actors are in this process, and whether the transport can have them at all: known before
 * anything trains. */
static fast_err look_around(fast_team *team)
{
    fast_err err = FAST_OK;

    if (team->run->config.record[0] || team->run->config.replay[0]) {
        FAST_TRY(fast__team_can_record(team));
        FAST_TRY(fast__run_job(team->run, &team->place.job));
    }
    FAST_TRY(open_world(team));
    team->run->progress.awaited = strcmp(team->run->config.transport, "mpi") == 0;
    team->place.alone = true;
    team->place.first = team->place.world->places[0].here;
    team->place.here = 0;
    for (int64_t i = 0; i < team->workers + team->servers; i++) {
        team->place.alone = team->place.alone && team->place.world->places[i].here;
        team->place.here += i < team->workers && team->place.world->places[i].here;
        team->place.mine[i] = team->place.world->places[i].here;
    }
    team->place.actors_here = 0;
    for (int64_t i = 0; i < team->place.world->count; i++)
        team->place.actors_here += team->place.world->places[i].here;
    team->run->clock.is_virtual = team->place.world->transport->virtual_clock;
    for (int64_t i = 0; i < team->phases.count && !err; i++)
        err = check_local(team, team->phases.list[i].strategy);
    close_world(team);
    return err;
}

/* Refuse workers of one process that the machine has no memory for, and tell what many of them
 * take: w, g and two slots of the rule, contributions by worker, a stack. Replicas that share one
 * vector take less. */
static fast_err check_workers_memory(const fast_team *team)
{
    enum { LARGE = 1 << 30, STACK = 64 << 10, VECTORS = 4, SHARES = 3 };
    const double stages =
        fast__split_is(team) ? (double)(team->split.mesh.pipe * team->split.mesh.tensor) : 1;
    const double params = (double)team->run->learner->params.count / stages,
                 workers = (double)team->workers;
    const double each = params * VECTORS * sizeof(float) + STACK +
                        (double)fast__share_columns(team->workers) * SHARES * sizeof(double);
    const double bytes = each * workers, available = (double)fast__memory_available();

    if (bytes < LARGE || strcmp(team->run->config.transport, "mpi") == 0)
        return FAST_OK;
    if (bytes > 2 * available) /* an estimate: only what is clearly too much is refused */
        return fast__fail(FAST_ENOMEM,
                          "%lld workers take about %.1f GB, and %.1f GB of memory are free: take "
                          "fewer, or a smaller model",
                          (long long)team->workers, bytes / 1e9, available / 1e9);
    fast__log(FAST_LOG_INFO, "%lld workers take about %.1f GB of memory", (long long)team->workers,
              bytes / 1e9);
    return FAST_OK;
}

fast_err fast__team_new(fast_run *run, fast_team **out)
{
    const fast_run_config *c = &run->config;
    fast_team *team = NULL;
    fast_err err;

    FAST_TRY(fast__alloc("a team", 1, sizeof *team, &team));
    team->run = run;
    team->single = c->workers == 1 && !c->mesh[0] && c->preprocess == 0 && !run->strategy &&
                   !c->phases[0] && strcmp(c->strategy, "auto") == 0 &&
                   strcmp(c->transport, "auto") == 0;
    team->workers = c->workers;
    team->ballot.step = -1;
    team->measures.divergence = NAN;
    fast__mutex_init(&team->mutex);
    fast__shared_model_init(&team->shared);
    err = open_strategy(team);
    if (!err)
        err = fast__split_open(team);
    if (!err)
        err = check_workers_memory(team);
    if (!err)
        err = open_memory(team);
    if (!err)
        err = open_workspaces(team);
    if (!err)
        err = look_around(team);
    if (!err && !team->place.alone)
        err = fast__alloc("losses of other processes", team->workers, sizeof *team->progress.remote,
                          &team->progress.remote);
    if (!err)
        err = fast__split_model_open(team);
    if (!err && (c->checkpoint[0] || c->resume[0]))
        err = fast__saved_states_open(team);
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
    for (int64_t i = 0; team->actors && i < team->workers + team->servers; i++)
        fast__team_actor_free(team->actors[i]);
    fast__split_close(team);
    fast__vector_free(team->place.equal.w);
    fast__optimizer_free(team->place.equal.rule);
    fast__free(team->place.equal.applied);
    for (int i = 0; i < 64; i++)
        if (team->place.workspaces.list[i])
            team->run->program->engine->workspace_free(team->place.workspaces.list[i]);
    for (int i = 0; i <= FAST_VOTES; i++) {
        const fast_vote *vote = i < FAST_VOTES ? &team->ballot.votes[i] : &team->ballot.last;

        fast__vote_free(vote);
    }
    fast__saved_states_free(team);
    fast__shared_model_fini(&team->shared);
    fast__representative_fini(&team->representative);
    if (team->phases.list)
        fast__phases_free(team);
    fast__mutex_fini(&team->mutex);
    fast__free(team->place.job);
    fast__free(team->place.mine);
    fast__free(team->actors);
    fast__free(team->measures.column_means);
    fast__free(team->measures.waited);
    fast__free(team->progress.missing);
    fast__free(team->progress.remote);
    fast__free(team->ids);
    fast__free(team);
}

void fast__team_free_servers(fast_team *team)
{
    for (int64_t i = team->workers; i < team->workers + team->servers; i++) {
        fast__team_actor_free(team->actors[i]);
        team->actors[i] = NULL;
    }
}

/* Make one copy of the replicas of simulated workers, where the only strategy of the run keeps them
 * equal and no fault makes them differ. Computing threads would map it on a checked device. */
static fast_err open_equal(fast_team *team)
{
    fast_equal_replicas *equal = &team->place.equal;
    const fast_run *run = team->run;
    const int64_t count = run->learner->params.count;

    if (equal->applied)
        memset(equal->applied, 0, (size_t)count * sizeof *equal->applied);
    if (equal->w || team->single || fast__split_is(team) || team->workers == 1 || !is_sim(team) ||
        run->foreign || team->phases.count > 1 || !team->strategy->identical ||
        run->config.faults[0] || (run->config.pool > 0 && run->device != &fast__host))
        return FAST_OK;
    FAST_TRY(fast__optimizer_new(run->device, run->config.optimizer, &run->learner->params,
                                 &equal->rule));
    FAST_TRY(fast__alloc("steps of updates", count, sizeof *equal->applied, &equal->applied));
    return fast__vector_new(run->device, "the parameters", count, &equal->w);
}

/* Make the actors of this process that do not exist yet. A server of a run that continues starts
 * with the representative: the space that it served is gone. */
static fast_err open_actors(fast_team *team)
{
    FAST_TRY(open_equal(team));
    for (int64_t i = 0; i < team->workers + team->servers; i++) {
        fast_team_actor *self = team->actors[i];

        if (!team->place.world->places[i].here)
            continue;
        if (!self) {
            FAST_TRY(fast__team_actor_new(team, i, &team->actors[i]));
            continue;
        }
        if (i < team->workers)
            continue;
        fast__context_take_model(&self->context);
        self->context.trainer.step = team->run->step; /* its schedule continues too */
    }
    return FAST_OK;
}

/* Everything that the workers of one call share. */
static void begin(fast_team *team)
{
    fast_run *run = team->run;

    team->progress.workers_up = team->place.here;
    team->progress.steps_sum = 0;
    memset(team->progress.missing, 0,
           (size_t)(team->workers + team->servers) * sizeof *team->progress.missing);
    for (int64_t i = 0; i < team->workers; i++) {
        if (!team->actors[i])
            continue;
        /* Who crashed in an earlier call begins with the representative. */
        if (team->actors[i]->lost)
            fast__team_actor_reset(team->actors[i]);
        team->actors[i]->over = false;
        team->actors[i]->lost = false;
        team->progress.steps_sum += fast__monitor_counted(team->actors[i]);
    }
    fast__measure_begin(team);
    fast__cut_begin(team);
    team->ballot.opened = fast__run_dues(run, run->config.evaluate_period, run->step);
    for (int64_t i = 0; i < team->workers; i++)
        if (team->actors[i])
            team->actors[i]->progress.votes_cast = team->ballot.opened;
    for (int i = 0; i < FAST_VOTES; i++)
        team->ballot.votes[i].step = -1;
    team->ballot.step = -1;
    if (has_votes(team))
        fast__vote_clear(team, &team->ballot.last, run->step);
    if (team->single) /* the first progress is shown after a while */
        run->sinks.shown_ns = fast__run_wall();
    atomic_store(&team->stop.why, 0);
    atomic_store(&team->stop.broken, -1);
    atomic_store(&team->stop.step, INT64_MAX);
    team->progress.step_begun = 0;
    atomic_store(&team->stop.now, false);
    atomic_store(&team->stop.finished, false);
}

int fast__team_why(const char *stop)
{
    return strcmp(stop, "target") == 0     ? FAST_WHY_TARGET
           : strcmp(stop, "patience") == 0 ? FAST_WHY_PATIENCE
                                           : FAST_WHY_DIVERGED;
}

/* Set the reason why a run stopped that was not stopped here; perhaps another process saw it. A run
 * that came to its end has none until that is evaluated. */
static void name_the_end(fast_team *team)
{
    fast_run *run = team->run;
    const int why = atomic_load(&team->stop.why);

    if (run->finished)
        return;
    run->finished = (why & (FAST_WHY_TARGET | FAST_WHY_DIVERGED | FAST_WHY_PATIENCE)) != 0;
    run->result.canceled = !run->finished && (team->single || run->step < run->step_count) &&
                           (atomic_load(&run->cancel) || (why & FAST_WHY_CANCELED));
    run->result.stop = (why & FAST_WHY_DIVERGED)   ? "diverged"
                       : (why & FAST_WHY_TARGET)   ? "target"
                       : (why & FAST_WHY_PATIENCE) ? "patience"
                       : run->result.canceled      ? "canceled"
                                                   : "";
}

/* How much a failure tells: an actor that crashed says nothing, one that a peer left says who. */
static int telling(fast_err err)
{
    return err == FAST_OK ? 0 : err == FAST_ECANCELED ? 1 : err == FAST_EPEER ? 2 : 3;
}

/* The first failure that tells most. Returns the actor's number, or -1. */
static int64_t first_failure(const fast_team *team)
{
    int64_t found = -1;
    int most = 0;

    for (int64_t i = 0; i < team->workers + team->servers; i++) {
        const fast_actor *actor = team->place.world->actors[i];

        if (!actor || telling(actor->err) <= most)
            continue;
        most = telling(actor->err);
        found = i;
    }
    return found;
}

/* Is a worker lost? One of another process is as worker 0 sees it. */
static bool is_lost(const fast_team *team, int64_t i)
{
    const fast_actor *first = team->place.world->actors[0];
    const fast_peer *peer = first && i > 0 ? fast__peer(first, i) : NULL;

    if (team->actors[i])
        return team->actors[i]->lost;
    return peer && (peer->silent || (peer->down && !(peer->ended && peer->err == FAST_OK)));
}

/* Tell that workers did not come to the end, and what the model is worth. */
static void tell_lost(fast_team *team, const char *name, const char *why)
{
    const fast_run *run = team->run;
    const int64_t lost = run->result.workers_lost;
    char text[FAST_DETAIL_MAX + 256];
    int used = snprintf(text, sizeof text,
                        "%lld of %lld workers did not come to the end (%s: %.200s); the others "
                        "continued",
                        (long long)lost, (long long)team->workers, name, why);

    if (2 * lost > team->workers)
        snprintf(text + used, sizeof text - (size_t)used,
                 ": the model has seen %.0f%% of the steps",
                 100 * (double)run->step / (double)run->step_count);
    fast__run_tell(team->run, FAST_EVENT_NOTE, text);
}

/* How it ended: an asynchronous team needs one worker that comes to its end, and every server but
 * those that crashed: who needed one did not come to its end. */
static fast_err check_ends(fast_team *team)
{
    const long long broken = atomic_load(&team->stop.broken);
    const int64_t failed = first_failure(team);
    int64_t ended = 0;
    char text[FAST_DETAIL_MAX + 128], name[64];

    if (broken >= 0)
        return team->single
                   ? fast__fail(team->stop.err, "%s", team->stop.detail)
                   : fast__fail(team->stop.err, "worker %lld: %s", broken, team->stop.detail);
    if (failed < 0)
        return FAST_OK;
    for (int64_t i = 0; i < team->workers; i++)
        ended += team->actors[i] && !team->actors[i]->lost;
    for (int64_t i = team->workers; i < team->workers + team->servers; i++)
        if (team->place.world->actors[i] && team->place.world->actors[i]->err &&
            team->place.world->actors[i]->err != FAST_ECANCELED)
            ended = 0;
    fast__actor_name(team->place.world, failed, name, sizeof name);
    snprintf(text, sizeof text, "%s: %s", name,
             team->place.world->actors[failed]->err == FAST_ECANCELED
                 ? "it crashed"
                 : team->place.world->actors[failed]->detail);
    /* Another process does not know whether others came to the end: the first one tells. */
    if (team->strategy->synchronous || (ended == 0 && team->place.first))
        return fast__fail(team->place.world->actors[failed]->err, "%s", text);
    tell_lost(team, name,
              team->place.world->actors[failed]->err == FAST_ECANCELED
                  ? "it crashed"
                  : team->place.world->actors[failed]->detail);
    return FAST_OK;
}

/* Number of actors that live in this process. */
static int64_t count_actors(const fast_team *team)
{
    int64_t count = 0;

    for (int64_t i = 0; i < team->workers + team->servers; i++)
        count += team->actors[i] != NULL;
    return count;
}

/* Workers that crashed before they began had no program that could tell. */
static void note_unborn(fast_team *team)
{
    for (int64_t i = 0; i < team->workers; i++) {
        const fast_actor *actor = team->place.world->actors[i];

        if (team->actors[i] && actor && actor->err == FAST_ECANCELED)
            team->actors[i]->over = team->actors[i]->lost = true;
    }
}

/* Did a worker of a run that failed end it? It crashed, or it is missing to the actor whose failure
 * is told, or blamed by it; the others ended because of that. */
static bool is_cause(const fast_team *team, int64_t i)
{
    const fast_actor *actor = team->place.world->actors[i];
    const int64_t failed = first_failure(team);
    const long long broken = atomic_load(&team->stop.broken);

    if (broken >= 0)
        return i == broken;
    if (actor && actor->err == FAST_ECANCELED)
        return true;
    if (failed < 0 || i == failed)
        return false;
    const fast_actor *witness = team->place.world->actors[failed];
    const fast_peer *peer = fast__peer(witness, i);

    return witness->culprit == i || peer->silent || (peer->down && !peer->ended);
}

/* Count the workers that were lost, and list as many as there is room for. */
static void count_lost(fast_team *team, bool (*is_one)(const fast_team *team, int64_t i))
{
    fast_run *run = team->run;
    size_t used = 0;

    run->result.workers_lost = 0;
    run->text.lost[0] = '\0';
    for (int64_t i = 0; i < team->workers; i++) {
        char name[64];

        if (!is_one(team, i))
            continue;
        run->result.workers_lost++;
        fast__actor_name(team->place.world, i, name, sizeof name);
        if (used + strlen(name) + 3 < sizeof run->text.lost)
            used += (size_t)snprintf(run->text.lost + used, sizeof run->text.lost - used, "%s%s",
                                     used ? ", " : "", name);
    }
}

/* Tell which workers did not come to the end, where no failure of this process tells it. */
static void tell_missing(fast_team *team)
{
    fast_run *run = team->run;
    char text[sizeof run->text.lost + 64];

    if (!run->text.lost[0] || first_failure(team) >= 0)
        return;
    snprintf(text, sizeof text, "workers that did not come to the end: %s", run->text.lost);
    fast__run_tell(run, FAST_EVENT_NOTE, text);
}

/* Run the actors of one world to their end. */
static fast_err run_world(fast_team *team)
{
    fast_run *run = team->run;
    fast_actors_result result = { 0 };
    bool ran = false;
    fast_err err;

    if (team->place.recorded)
        return fast__fail(FAST_EINVAL, "a recording is of one call: open the run anew");
    team->place.recorded = team->place.job != NULL;
    run->progress.awaited = false;
    FAST_TRY(open_world(team));
    err = open_actors(team);
    if (!err) {
        begin(team);
        if (team->phases.current > 0 && run->progress.times.start_ns) /* since the last world */
            run->progress.times.total_ns += fast__run_now(run) - run->progress.times.start_ns;
        run->progress.times.start_ns = 1; /* the actors' clock begins at 0 */
        err = fast__world_run(team->place.world, &result);
        ran = true;
        note_unborn(team);
        count_lost(team, is_lost);
        tell_missing(team);
        run->progress.times.start_ns = 0;
        run->progress.times.total_ns += result.time_ns;
        fast__run_forecast(run);
        fast__measure_end(team);
        fast__store_sink_world(run, result.time_ns);
        /* The rest of the call is by the machine's clock again, where that is the actors'. */
        run->progress.times.start_ns = run->clock.is_virtual ? 0 : fast__run_now(run);
    }
    if (ran && fast__record_note(team->place.world)) /* it must not lose the run */
        fast__run_tell(run, FAST_EVENT_NOTE, fast__record_note(team->place.world));
    if (ran && (first_failure(team) >= 0 || atomic_load(&team->stop.broken) >= 0) &&
        !fast__record_is_broken(team->place.world))
        err = check_ends(team);
    else if (ran && err && run->config.trace[0] && result.ended_count == count_actors(team)) {
        /* All have trained to the end: a timeline that cannot be written must not lose that. */
        fast__run_tell(run, FAST_EVENT_NOTE, fast_error_detail());
        err = FAST_OK;
    }
    if (ran && err)
        count_lost(team, is_cause);
    if (ran && err)
        err = fast__team_crash(team, err);
    close_world(team);
    run->progress.awaited = fast__phases_left(team) && strcmp(run->config.transport, "mpi") == 0;
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
    if (!team->place.alone) {
        const int64_t step = run->step;
        fast_err err;

        team->place.agreeing = true;
        err = run_world(team);
        team->place.agreeing = false;
        FAST_TRY(err);
        run->step = step;
        if (atomic_load(&team->stop.why))
            name_the_end(team);
        else
            fast__phase_agreed(team);
    }
    if (run->finished || run->result.canceled)
        return FAST_OK;
    *stop_out = false;
    return fast__phase_next(team);
}

fast_err fast__team_train(fast_team *team)
{
    fast_run *run = team->run;
    bool stop = run->step >= run->step_count;

    fast__run_forecast(run); /* of the model alone: nothing has trained yet */
    if (run->finished)
        return FAST_OK;
    if (count_actors(team) == 0)
        fast__sums_resume(team);
    if (stop) { /* nothing to train: evaluate the model as it is */
        name_the_end(team);
        FAST_TRY(fast__monitor_finish(team));
    } else if (count_actors(team) == 0) {
        FAST_TRY(fast__phase_find(team));
    }
    while (!stop) {
        FAST_TRY(run_world(team));
        name_the_end(team);
        FAST_TRY(fast__monitor_finish(team));
        FAST_TRY(change(team, &stop));
    }
    run->progress.awaited = false;
    if (!run->result.stop[0])
        run->result.stop = "done";
    return FAST_OK;
}

fast_err fast__team_decline(fast_run *run, fast_err err)
{
    char why[FAST_DETAIL_MAX];

    if (!run->progress.awaited)
        return err;
    run->progress.awaited = false;
    snprintf(why, sizeof why, "%s", err ? fast_error_detail() : "it does not train its run");
    fast__world_decline(run->config.transport, why);
    return err ? fast__fail(err, "%s", why) : FAST_OK;
}
