/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A change of strategy during a run: --phases SPEC@WHEN.
 *
 *     --strategy allreduce --phases local:period=8@epoch=2 --phases gossip@step=5000,state=reset
 *     --strategy ps --phases @epoch=1,codec=topk:ratio=0.01 --phases @epoch=6,codec=none
 *
 * Without a strategy it stays the one before. A codec stays until another one is named; it comes
 * last, since its options may have commas. It starts without a residual.
 *
 * A phase ends for every worker at the same step of its own; early workers wait for the others.
 * There the representative is made, by policy, and evaluated if that is due. The next phase starts
 * with it at every worker and every server: so a run of two phases is a run, its saved weights, and
 * a run from them. Each worker retains the rule's state, unless state=reset. It is reset also where
 * replicas are to be identical from now on and were not before; servers start with the workers'
 * where replicas were identical, else anew.
 *
 * Each phase is a world of its own: no message of one reaches the next, a transport's clock
 * continues where the last one's stopped, and servers that a phase does not need are idle. Every
 * world has as many servers as any phase needs, so that workers stay in their places.
 *
 * Several processes make the model in one of them. All actors synchronise between phases in a short
 * world: a sum of flags tells whether one is to stop, a broadcast brings the model.
 *
 * Cost of a change: the making of a world; over processes a broadcast of the model.
 *
 * Example: the first command above, with E steps in an epoch.
 *
 *     step          0               2 E                5000             step_count
 *     strategy      |   allreduce    |  local:period=8  |     gossip      |
 *     world         |------ 0 -------|------- 1 --------|------- 2 -------|
 *     list[i].end   = 2 E            = 5000             = step_count
 *
 * Refused with FAST_EINVAL when the run is opened: a change without a step or with two, one that is
 * not after the change before it or not before the end, "@WHEN" that changes nothing, more than
 * FAST_PHASES_MAX phases, a codec or a topology that the strategy cannot use, and faults=, whose
 * times count from the start of one world.
 */
#include "run/phases.h"

#include "base/exclusion.h"
#include "base/memory.h"
#include "run/sink/store_sink.h"
#include "run/team.h"
#include "strategy/systems.h"
#include "tensor/vector.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t HOUR_NS = 3600000000000; /* that an evaluation in another process may take */

/* Options of a change, behind the @. */
typedef struct when {
    double epoch;        /* -1: by step */
    int64_t step;        /* -1: by epoch */
    int state;           /* of the rule: 0 retained, 1 reset */
    char topology[64];   /* of the strategy, or auto */
    char codec_down[64]; /* codec of answers; "": as before */
    char codec
        [FAST_SPEC_MAX]; /* codec of messages; "": as before. Not in the table: it comes last */
} when;

static const fast_option when_options[] = {
    FAST_OPT_REAL(when, epoch, "-1", -1, 1e9, "when, in epochs"),
    FAST_OPT_INT(when, step, "-1", -1, 1e12, "when, in steps of a worker"),
    FAST_OPT_CHOICE(when, state, "keep", "keep|reset",
                    "the rule's state: continue with it, or reset it"),
    FAST_OPT_TEXT(when, topology, "auto", "topology", "who exchanges with whom"),
    FAST_OPT_TEXT(when, codec_down, "", "codec", "codec of what comes back"),
    FAST_OPT_END,
};

/* A named system stands for its strategy and topology; the rest of a run does not change. */
static fast_err resolve_system(char *spec, size_t size, when *w)
{
    const fast_system *system = NULL;
    char name[32], flag[FAST_SPEC_MAX];
    const char *rest = NULL;

    FAST_TRY(fast__spec_split(spec, name, sizeof name, &rest));
    for (int64_t i = 0; fast__strategies[i]; i++)
        if (strcmp(fast__strategies[i]->name, name) == 0)
            return FAST_OK;
    if (rest || fast__system_find(name, &system))
        return FAST_OK; /* the strategies' list says what is wrong */
    for (rest = system->flags; (rest = fast__system_flag(rest, flag, sizeof flag)) != NULL;) {
        if (strncmp(flag, "strategy=", 9) == 0)
            snprintf(spec, size, "%s", flag + 9);
        if (strncmp(flag, "topology=", 9) == 0 && strcmp(w->topology, "auto") == 0)
            snprintf(w->topology, sizeof w->topology, "%.63s", flag + 9);
    }
    return FAST_OK;
}

/* The codecs of a phase: its own, or those of the one before; of the first the run's. */
static fast_err open_codecs(fast_team *team, const when *w, fast_phase *phase)
{
    fast_run *run = team->run;
    const bool first = phase == team->phases.list;
    const char *down = w->codec_down[0]                ? w->codec_down
                       : strcmp(w->codec, "none") == 0 ? "none"
                                                       : "";

    if (w->codec[0])
        FAST_TRY(fast__chain_open_with(w->codec, run->codecs.filter, &phase->own[0]));
    if (down[0])
        FAST_TRY(fast__chain_open_with(down, run->codecs.filter, &phase->own[1]));
    phase->codec = phase->own[0] ? phase->own[0] : first ? run->codecs.chains[0] : phase[-1].codec;
    phase->codec_down = phase->own[1] ? phase->own[1]
                        : first       ? run->codecs.chains[1]
                                      : phase[-1].codec_down;
    run->codecs.up = phase->codec; /* checked below */
    run->codecs.down = phase->codec_down;
    return fast__codec_check(run);
}

/* Return the text of a strategy's option; "" if it has none of that name. */
static const char *option_text(const fast_strategy *strategy, const void *config, const char *name,
                               char text[FAST_PATH_MAX])
{
    text[0] = '\0';
    for (const fast_option *o = strategy->options; o && o->name; o++)
        if (strcmp(o->name, name) == 0)
            fast__config_text(o, config, text, FAST_PATH_MAX);
    return text;
}

/* Refuse parts that change weights which are tied, and have equal gradients, in different ways:
 * some elements before others, or with other errors. */
static fast_err check_tied(const fast_team *team, const fast_strategy *strategy, const void *config)
{
    const fast_run *run = team->run;
    const bool alone = team->single || run->config.workers == 1;
    const unsigned traits =
        fast__chain_traits(run->codecs.up) & fast__chain_traits(run->codecs.down);
    char text[FAST_PATH_MAX];

    if (run->config.tied != 1)
        return FAST_OK;
    if (!alone && !(traits & FAST_CODEC_LOSSLESS))
        return fast__fail(FAST_EINVAL, "tied=yes: a lossy codec changes weights that are to stay "
                                       "equal in different ways; leave it out");
    if (!alone && (!strategy->synchronous ||
                   strtoll(option_text(strategy, config, "fragments", text), NULL, 10) > 1))
        return fast__fail(FAST_EINVAL,
                          "tied=yes: strategy %s may update some of the weights that are to stay "
                          "equal before others; use a synchronous one without fragments",
                          strategy->name);
    if (strncmp(run->config.optimizer, "muon", 4) == 0)
        return fast__fail(FAST_EINVAL, "tied=yes: optimizer muon changes weights that are to stay "
                                       "equal in different ways; use another one, like sgd");
    return FAST_OK;
}

/* Refuse a strategy that looks at the batches of an epoch ahead where other actors make them. */
static fast_err check_rows(const fast_strategy *strategy, const void *config,
                           const fast_run_config *c)
{
    char text[FAST_PATH_MAX];

    if (c->preprocess == 0 || strcmp(option_text(strategy, config, "rows", text), "yes") != 0)
        return FAST_OK;
    return fast__fail(FAST_EINVAL,
                      "%s:rows looks at the batches of an epoch ahead, and preprocess=%lld makes "
                      "them elsewhere; leave out one of them",
                      strategy->name, (long long)c->preprocess);
}

/* Open the strategy of a phase: everything that can be wrong with it is found here. */
static fast_err open_phase(fast_team *team, const char *spec, const char *topology, const when *w,
                           fast_phase *phase)
{
    const fast_run_config *c = &team->run->config;
    const fast_strategy *strategy;

    snprintf(phase->spec, sizeof phase->spec, "%s", spec);
    snprintf(phase->place, sizeof phase->place, "%.63s", topology);
    FAST_TRY(open_codecs(team, w, phase));
    FAST_TRY(fast__strategy_open(spec, team->run->strategy, &phase->strategy, &phase->config));
    strategy = phase->strategy;
    if (!team->single)
        FAST_TRY(fast__codec_check_strategy(team->run, strategy, phase->config));
    if (strategy->exclusions)
        FAST_TRY(fast__exclusions_check(strategy->name, strategy->options, strategy->exclusions,
                                        phase->config));
    if (strategy->check)
        FAST_TRY(strategy->check(phase->config, c->replicas, c->optimizer));
    FAST_TRY(check_rows(strategy, phase->config, c));
    FAST_TRY(check_tied(team, strategy, phase->config));
    const int64_t same = fast__run_redundancy(strategy, phase->config);
    if (c->replicas / same != team->run->data.agents)
        return fast__fail(FAST_EINVAL,
                          "%s: the phases of a run must agree on the workers that compute each "
                          "batch: %lld here",
                          strategy->name, (long long)same);
    phase->servers = strategy->servers ? strategy->servers(phase->config, c->replicas) : 0;
    FAST_ASSERT(phase->servers == 0 || strategy->server != NULL);
    if (strcmp(topology, "auto") != 0 && !strategy->topology)
        return fast__fail(FAST_EINVAL,
                          "strategy %s has no topology to choose; leave out topology=%s",
                          strategy->name, topology);
    if (strategy->topology)
        FAST_TRY(fast_topology_new(strcmp(topology, "auto") == 0 ? strategy->topology : topology,
                                   c->replicas, (uint64_t)c->seed, &phase->topology));
    /* The weights of undirected graphs are right by construction. */
    if (strategy->mixes && strategy->mixes(phase->config) &&
        fast_topology_is_directed(phase->topology)) {
        FAST_TRY(fast_topology_check(phase->topology));
        FAST_TRY(fast__codec_check_directed(team->run, strategy, phase->config));
    }
    const int64_t servers = phase->servers * (c->workers / c->replicas); /* of each part */
    if (servers > team->servers)
        team->servers = servers;
    return FAST_OK;
}

/* The step of a phase's begin, after that of the one before. */
static fast_err step_of(const fast_team *team, const char *text, const when *w, int64_t after,
                        int64_t *out)
{
    const fast_run *run = team->run;
    const int64_t step =
        w->step >= 0 ? w->step : llround(w->epoch * (double)run->learner->epoch_steps);

    if ((w->step >= 0) == (w->epoch >= 0))
        return fast__fail(FAST_EINVAL,
                          "phases=%.100s: say when, as in local@epoch=2 or local@step=500", text);
    if (step <= after)
        return fast__fail(
            FAST_EINVAL,
            "phases=%.100s: step %lld is not after step %lld, where the strategy before "
            "it begins",
            text, (long long)step, (long long)after);
    if (step >= run->step_count && run->step_count > 0)
        return fast__fail(FAST_EINVAL, "phases=%.100s: step %lld is not before the end, step %lld",
                          text, (long long)step, (long long)run->step_count);
    *out = step;
    return FAST_OK;
}

/* Cut off "codec=CHAIN", the last word: a chain may hold commas. */
static void cut_codec(char *words, when *w)
{
    char *at = strstr(words, "codec=");

    if (!at || (at != words && at[-1] != ','))
        return;
    snprintf(w->codec, sizeof w->codec, "%.500s", at + strlen("codec="));
    *(at == words ? at : at - 1) = 0;
}

/* "@WHEN": the strategy stays, and something else has to change. */
static fast_err as_before(const fast_phase *before, const char *text, char spec[FAST_SPEC_MAX],
                          when *w)
{
    if (!w->codec[0] && !w->codec_down[0] && strcmp(w->topology, "auto") == 0 && w->state == 0)
        return fast__fail(
            FAST_EINVAL,
            "phases=%.100s: nothing changes; write STRATEGY@epoch=N, or another codec, "
            "as in @epoch=1,codec=topk",
            text);
    snprintf(spec, FAST_SPEC_MAX, "%s", before->spec);
    if (strcmp(w->topology, "auto") == 0)
        snprintf(w->topology, sizeof w->topology, "%s", before->place);
    return FAST_OK;
}

/* Options of ps that are codecs now join the codec of the phase, or of the one before it. */
static fast_err move_options(const fast_phase *before, char *spec, when *w)
{
    const char *codec = before->codec ? fast__chain_text(before->codec) : "none";
    char text[FAST_SPEC_MAX];

    snprintf(text, sizeof text, "%s", w->codec[0] ? w->codec : codec);
    FAST_TRY(fast__options_moved(spec, text, sizeof text));
    if (w->codec[0] || strcmp(text, codec) != 0)
        snprintf(w->codec, sizeof w->codec, "%s", text);
    return FAST_OK;
}

/* One "SPEC@WHEN". */
static fast_err add_phase(fast_team *team, const char *text)
{
    const fast_run_config *c = &team->run->config;
    const char *at = strrchr(text, '@');
    const int64_t before =
        team->phases.count > 1 ? team->phases.list[team->phases.count - 2].end : 0;
    fast_phase *phase = &team->phases.list[team->phases.count];
    char spec[FAST_SPEC_MAX], words[FAST_PATH_MAX];
    int64_t begin = 0;
    when w;

    if (team->phases.count == FAST_PHASES_MAX)
        return fast__fail(FAST_EINVAL, "phases: at most %d changes", FAST_PHASES_MAX - 1);
    if (!at || (size_t)(at - text) >= sizeof spec)
        return fast__fail(FAST_EINVAL, "phases=%.100s: write STRATEGY@epoch=N or STRATEGY@step=N",
                          text);
    snprintf(spec, sizeof spec, "%.*s", (int)(at - text), text);
    snprintf(words, sizeof words, "%s", at + 1);
    memset(&w, 0, sizeof w);
    fast__options_default(when_options, &w);
    cut_codec(words, &w);
    FAST_TRY(fast__options_parse("phases", when_options, &w, words));
    FAST_TRY(at == text ? as_before(&phase[-1], text, spec, &w)
                        : resolve_system(spec, sizeof spec, &w));
    FAST_TRY(move_options(&phase[-1], spec, &w));
    FAST_TRY(step_of(team, text, &w, before, &begin));
    team->phases.count++; /* fast__phases_free() frees its contents from here on */
    FAST_TRY(open_phase(team, spec, w.topology, &w, phase));
    phase->reset = w.state == 1;
    phase->end = team->run->step_count;
    phase[-1].end = begin;
    if (c->faults[0])
        return fast__fail(FAST_EINVAL,
                          "faults=%.60s: a schedule of faults is of one world, and "
                          "phases=%.60s begins another; leave out one of them",
                          c->faults, text);
    return FAST_OK;
}

/* The team takes the part of a phase. */
static void enter(fast_team *team, int64_t phase)
{
    const fast_phase *p = &team->phases.list[phase];

    team->phases.current = phase;
    team->strategy = p->strategy;
    team->config = p->config;
    team->topology = p->topology;
    team->run->codecs.up = p->codec;
    team->run->codecs.down = p->codec_down;
}

fast_err fast__phases_open(fast_team *team)
{
    fast_run_config *c = &team->run->config;
    char text[FAST_PATH_MAX];
    char *next = NULL;
    when w;

    memset(&w, 0, sizeof w);
    fast__options_default(when_options, &w);
    FAST_TRY(fast__alloc("phases", FAST_PHASES_MAX, sizeof *team->phases.list, &team->phases.list));
    team->phases.count = 1;
    FAST_TRY(open_phase(team, team->single ? "allreduce" : c->strategy,
                        team->single ? "auto" : c->topology, &w, &team->phases.list[0]));
    team->phases.list[0].end = team->run->step_count;
    snprintf(text, sizeof text, "%s", c->phases);
    for (char *part = text; part && *part; part = next) {
        next = strchr(part, ';');
        if (next)
            *next++ = 0;
        FAST_TRY(add_phase(team, part + strspn(part, " ")));
    }
    enter(team, 0);
    if (strcmp(c->topology, "auto") == 0 && team->strategy->topology)
        snprintf(c->topology, sizeof c->topology, "%s", team->strategy->topology);
    return FAST_OK;
}

void fast__phases_free(fast_team *team)
{
    for (int64_t i = 0; i < team->phases.count; i++) {
        fast_topology_free(team->phases.list[i].topology);
        fast__free(team->phases.list[i].config);
        fast__chain_close(team->phases.list[i].own[0]);
        fast__chain_close(team->phases.list[i].own[1]);
    }
    fast__free(team->phases.list);
}

bool fast__phases_left(const fast_team *team)
{
    return team->phases.current + 1 < team->phases.count;
}

fast_err fast__phase_next(fast_team *team)
{
    fast_run *run = team->run;
    const fast_phase *old = &team->phases.list[team->phases.current];
    char text[128];

    FAST_ASSERT(fast__phases_left(team) && !team->place.world);
    if (!old->strategy->identical || old[1].reset)
        fast__rule_state_clear(run->optimizer, run->learner->params.count);
    if (run->step < old->end) /* workers were lost: the others came to the end all the same */
        run->step = old->end;
    enter(team, team->phases.current + 1);
    for (int64_t i = 0; i < team->workers; i++)
        if (team->actors[i])
            fast__team_actor_enter(team->actors[i]);
    snprintf(text, sizeof text, "strategy %s", team->strategy->name);
    fast__store_sink_phase(run, text);
    fast__team_free_servers(team); /* they begin anew, with the run's model */
    FAST_TRY(fast__saved_states_reopen(team));
    return fast__representative_begin(team);
}

fast_err fast__phase_find(fast_team *team)
{
    while (fast__phases_left(team) &&
           team->run->step >= team->phases.list[team->phases.current].end) {
        enter(team, team->phases.current + 1);
        FAST_TRY(fast__saved_states_reopen(team));
        FAST_TRY(fast__representative_begin(team));
    }
    return FAST_OK;
}

/* Over processes. */

/* Broadcast the model, and the rule's state where it is the same at all workers. */
static fast_err share_model(fast_team_actor *self, fast_group *all)
{
    const fast_team *team = self->team;
    const fast_trainer *t = &self->context.trainer;
    const size_t size = (size_t)t->count * sizeof(float);
    float *slot;

    if (fast_group_rank(all) == 0) {
        fast__vector_copy(t->count, team->run->learner->w, t->w);
        fast__vector_copy(t->state_count, team->run->learner->s, t->s);
    }
    FAST_TRY(fast_broadcast(all, 0, t->w, size, FAST_SOON));
    if (t->state_count > 0)
        FAST_TRY(fast_broadcast(all, 0, t->s, (size_t)t->state_count * sizeof(float), FAST_SOON));
    for (int i = 0; team->strategy->identical &&
                    (slot = fast__optimizer_slot(self->context.optimizer, i)) != NULL;
         i++)
        FAST_TRY(fast_broadcast(all, 0, slot, size, FAST_SOON));
    return FAST_OK;
}

/* Does this process stop here? As bits. */
static int why_stop(const fast_run *run)
{
    if (run->finished)
        return fast__team_why(run->result.stop);
    return run->result.canceled ? FAST_WHY_CANCELED : 0;
}

fast_err fast__phase_agree(fast_team_actor *self)
{
    fast_team *team = self->team;
    fast_actor *actor = self->context.trainer.actor;
    const int own = why_stop(team->run);
    fast_group *all = NULL;
    bool stop = false;
    fast_err err;

    fast_actor_at(actor, team->run->step, "the next strategy");
    FAST_TRY(fast_group_all(actor, NULL, &all));
    if (!team->place.first) /* the first process may still evaluate the end of the phase */
        fast__world_hold(team->place.world, fast_now(actor) + HOUR_NS);
    err = fast__monitor_agree(team, all, own, &stop);
    if (!team->place.first)
        fast__world_hold(team->place.world, fast_now(actor) + 1);
    if (!err && !stop)
        err = share_model(self, all);
    fast_group_free(all);
    return err;
}

void fast__phase_agreed(fast_team *team)
{
    fast_run *run = team->run;

    for (int64_t i = 0; i < team->workers + team->servers; i++) {
        const fast_team_actor *self = team->actors[i];

        if (!self)
            continue;
        fast__vector_copy(self->context.trainer.count, self->context.trainer.w, run->learner->w);
        fast__vector_copy(self->context.trainer.state_count, self->context.trainer.s,
                          run->learner->s);
        fast__rule_state_copy(run->optimizer, self->context.optimizer, NULL,
                              self->context.trainer.count);
        return;
    }
}
