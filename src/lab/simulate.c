/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fast simulate`: small programs on a simulated cluster in which things go wrong; one
 * simulation, or a campaign over seeds. A simulation is a pure function of its options and its
 * seed: what it did has a hash, and what failed has a command that repeats it. Random faults are
 * spread over as much time as the program takes without any, so that they hit it. A failing
 * schedule can be shrunk.
 *
 * A campaign, `fast simulate --faults random --seeds 1000 --shrink`:
 *
 *   1. Check all options; FAST_EINVAL before anything runs.
 *   2. Simulate once without faults, with the first seed. Its virtual time T, at least 1 ms, is the
 *      span: the faults become "random:span=T". A span that the user wrote stays as it is.
 *   3. For each seed: draw a schedule, simulate, check the guarantees (simulate_check.c), report.
 *   4. The first seed that fails is shrunk, and the small schedule is reported in its place. Later
 *      failures are reported as they are: shrinking costs up to 500 simulations.
 *
 * The campaign ends early when the caller's function returns false. Errors of actors are results
 * and are reported; an error of the simulation itself (no memory, a wrong cluster) is returned.
 *
 * A simulation fails if a worker gave up or a promise was broken. Workers that crashed by a fault
 * did not fail. Shrinking (transport/sim/shrink.c) searches for a smaller schedule that still
 * fails, first by dropping faults, then by rounding their numbers. From
 *
 *     slow 1 at 281us for 402us by 3.7; crash 3 at 917392ns; restart 3 at 1.2ms;
 *     cut 0-2 at 1.006ms for 81us
 *
 * of `--program ping` with four workers, six simulations lead to
 *
 *     crash 3 at 0s
 *
 * because the ring waits for worker 3 whenever it crashes before its last round, and 0 is the
 * roundest such time.
 *
 * The reported command names this schedule instead of `random`, so it repeats the failure without
 * the generator: the same seed, options and schedule give the same trace hash on every machine.
 */
#include "lab/simulate.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "comm/allreduces.h"
#include "lab/bench.h"
#include "transport/sim/shrink.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SHRINK_TRIES_MAX = 500, COMMAND_SIZE = 1 << 14, PAIRS_WORKERS_MAX = 512 };

typedef fast_simulate_config C;

const fast_option fast__simulate_options[] = {
    FAST_OPT_CHOICE(C, program, "allreduce", "ping|master|allreduce|space|gossip",
                    "what workers do: a ring, all to one, sums, get and add, or one to another"),
    FAST_OPT_INT(C, workers, "4", 1, 65536, "actors, one a node"),
    FAST_OPT_TEXT(C, cluster, "ethernet-10g", "cluster", "the cluster, a preset or a file"),
    FAST_OPT_TEXT(C, faults, "", NULL,
                  "what goes wrong: a schedule (crash 3 at 1.5s; ...), random, or a file"),
    FAST_OPT_INT(C, seed, "1", 0, 9007199254740992.0, "seed of everything that is random"),
    FAST_OPT_INT(C, seeds, "1", 1, 1e9, "simulations, with this many seeds from --seed on"),
    FAST_OPT_INT(C, rounds, "20", 1, 1e9, "exchanges of each worker"),
    FAST_OPT_INT(C, size, "4096", 0, 1e12, "bytes of a message, or of the vector that is summed"),
    FAST_OPT_TEXT(C, algorithm, "auto", "allreduce", "of the allreduce"),
    FAST_OPT_REAL(C, work, "1e6", 0, 1e18, "arithmetic operations before each exchange"),
    FAST_OPT_REAL(C, timeout, "30", 1e-6, 1e6, "seconds that a wait takes at most, virtual ones"),
    FAST_OPT_TEXT(C, trace, "", "file", "write a timeline of all workers to this file (Perfetto)"),
    FAST_OPT_BOOL(C, shrink, "no", "reduce the faults of the first failure to those that matter"),
    FAST_OPT_BOOL(C, check, "no", "verify the simulator's contract too"),
    FAST_OPT_END,
};

const fast_part fast__simulate_part = { "simulate", "simulate a small program with faults",
                                        fast__simulate_options };

/* Allocate the records of all actors. */
static fast_err outcome_init(fast_simulate_outcome *o)
{
    const int64_t n = o->config->workers;
    FAST_TRY(fast__alloc("simulated workers", n, sizeof *o->actors, &o->actors));
    if (n <= PAIRS_WORKERS_MAX)
        FAST_TRY(fast__alloc("pairs of workers", n * n, sizeof *o->pairs, &o->pairs));
    return FAST_OK;
}

void fast__simulate_fini(fast_simulate_outcome *outcome)
{
    fast__faults_free(outcome->faults);
    fast__free(outcome->faults_text);
    fast__free(outcome->actors);
    fast__free(outcome->pairs);
    *outcome = (fast_simulate_outcome){ 0 };
}

/* Keep what the world knows before it is closed. */
static fast_err outcome_take(fast_simulate_outcome *o, const fast_world *world)
{
    for (int64_t i = 0; i < o->config->workers; i++) {
        const fast_actor *actor = world->actors[i];
        fast_simulate_actor *a = &o->actors[i];
        a->node = world->places[i].node;
        a->life = actor->life;
        a->ended = actor->ended || actor->stopped;
        a->crashed = actor->stopped;
        a->err = actor->stopped ? FAST_ECANCELED : actor->err;
        a->culprit = a->err == FAST_ETIMEDOUT || a->err == FAST_EPEER ? actor->culprit : -1;
        if (a->err)
            snprintf(a->detail, sizeof a->detail, "%s", actor->detail);
        o->failed_count += a->err && !a->crashed;
        o->crashed_count += a->crashed;
        o->wrong_count += a->wrong;
    }
    const fast_faults *faults = fast__faults_of(world);
    if (!faults)
        return fast__alloc("text", 1, 1, &o->faults_text);
    bool chosen[FAST_FAULTS_MAX];
    memset(chosen, true, sizeof chosen);
    FAST_TRY(fast__faults_pick(faults, chosen, &o->faults));
    return fast__faults_text(o->faults, &o->faults_text);
}

/* Translate the options of a simulation into those of the actors. */
static fast_err config_fill(const fast_simulate_config *config, const char *faults, int64_t seed,
                            fast_actors_config *out)
{
    const char *const options[] = { "transport=sim", NULL };
    FAST_TRY(fast__actors_parse(options, out));
    if (strlen(faults) >= sizeof out->faults)
        return fast__fail(FAST_EINVAL, "a schedule of %zu bytes is too long; put it into a file",
                          strlen(faults));
    memcpy(out->cluster, config->cluster, sizeof out->cluster);
    memcpy(out->trace, config->trace, sizeof out->trace);
    snprintf(out->faults, sizeof out->faults, "%s", faults);
    out->seed = seed;
    out->timeout = config->timeout;
    out->check = config->check;
    return FAST_OK;
}

fast_err fast__simulate_once(const fast_simulate_config *config, const char *faults, int64_t seed,
                             fast_simulate_outcome *out)
{
    fast_simulate_outcome o = { .config = config, .seed = seed };
    fast_actors_config actors;
    const fast_role role = { "worker", config->workers, fast__simulate_main, &o };
    fast_world *world = NULL;
    const int64_t begin = fast__clock_ns();
    FAST_TRY(config_fill(config, faults ? faults : config->faults, seed, &actors));
    fast_err err = outcome_init(&o);
    if (!err)
        err = fast__world_open(&actors, &role, 1, &world);
    if (!err) {
        const fast_err ran = fast__world_run(world, &o.result);
        err = outcome_take(&o, world);
        /* A run fails because an actor did, or because the simulation itself did. */
        if (!err && ran && o.failed_count + o.crashed_count == 0)
            err = ran;
    }
    fast__world_close(world);
    if (err) {
        fast__simulate_fini(&o);
        return err;
    }
    o.time_s = (double)(fast__clock_ns() - begin) * 1e-9;
    fast__simulate_check(&o);
    *out = o;
    return FAST_OK;
}

fast_err fast__simulate_faults(const fast_simulate_config *config, char *text, size_t size)
{
    fast_simulate_outcome o;
    char span[FAST_TIME_TEXT];
    if (strncmp(config->faults, "random", 6) != 0 || strstr(config->faults, "span=")) {
        snprintf(text, size, "%s", config->faults);
        return FAST_OK;
    }
    fast_simulate_config quiet = *config;
    quiet.trace[0] = 0;
    FAST_TRY(fast__simulate_once(&quiet, "", config->seed, &o));
    /* An empty span would put all faults at one instant. */
    const int64_t least = 1000000;
    fast__time_text(o.result.time_ns > least ? o.result.time_ns : least, span);
    fast__simulate_fini(&o);
    snprintf(text, size, "%s%sspan=%s", config->faults, strchr(config->faults, ':') ? "," : ":",
             span);
    return FAST_OK;
}

/* A failure is the same if a promise is broken again, or else if somebody gives up again. Which
 * promise or worker it is may change while a schedule shrinks; that finds smaller schedules than
 * asking for an identical failure. A broken promise is a defect of FAST and never shrinks to a mere
 * time-out, which faults may cause: see still_fails(). */
static bool fails(const fast_simulate_outcome *o)
{
    return o->failed_count > 0 || o->broken[0] != 0;
}

/* Run the simulation with other faults and tell whether it still fails, for the search for a
 * smaller schedule. */
static fast_err still_fails(void *ctx, const fast_faults *faults, bool *fails_out)
{
    const fast_simulate_outcome *first = ctx;
    fast_simulate_outcome o;
    fast_simulate_config config = *first->config;
    char *text = NULL;
    config.trace[0] = 0; /* the user asked for the timeline of one simulation, not of 500 */
    FAST_TRY(fast__faults_text(faults, &text));
    const fast_err err = fast__simulate_once(&config, text, first->seed, &o);
    fast__free(text);
    if (err)
        return err;
    *fails_out = first->broken[0] ? o.broken[0] != 0 : fails(&o);
    fast__simulate_fini(&o);
    return FAST_OK;
}

fast_err fast__simulate_shrink(const fast_simulate_outcome *outcome, char **text_out,
                               int64_t *tries_out)
{
    fast_simulate_outcome copy = *outcome;
    fast_faults *small = NULL;
    FAST_ASSERT(outcome->faults != NULL);
    FAST_TRY(fast__faults_shrink(outcome->faults, still_fails, &copy, SHRINK_TRIES_MAX, &small,
                                 tries_out));
    const fast_err err = fast__faults_text(small, text_out);
    fast__faults_free(small);
    return err;
}

/* Append one word of a command, quoted for a shell; it is left out if it does not fit, as half of a
 * quoted word would be another command. */
static void put_word(char *text, size_t size, const char *word)
{
    const size_t used = strlen(text);

    if (used + 1 + fast_text_quote(word, NULL, 0) >= size)
        return;
    text[used] = ' ';
    fast_text_quote(word, text + used + 1, size - used - 1);
}

/* Append a flag to the command, unless it has its standard value. */
static void put_flag(char *text, size_t size, const char *flag, const char *value,
                     const char *standard)
{
    if (strcmp(value, standard) == 0)
        return;
    put_word(text, size, flag);
    put_word(text, size, value);
}

/* The standard value of an option. */
static const char *standard_of(const char *name)
{
    for (const fast_option *option = fast__simulate_options; option->name; option++)
        if (strcmp(option->name, name) == 0)
            return option->standard;
    return "";
}

/* Append a flag with a whole number, unless it is the standard one. */
static void put_int(char *text, size_t size, const char *flag, int64_t value)
{
    char number[32];
    snprintf(number, sizeof number, "%" PRId64, value);
    put_flag(text, size, flag, number, standard_of(flag + 2));
}

/* Append a flag with a number, unless it is the standard one. */
static void put_real(char *text, size_t size, const char *flag, double value)
{
    char number[32];
    double standard = 0;
    fast__real_text(value, number, sizeof number);
    if (fast__parse_real(flag, standard_of(flag + 2), &standard) != FAST_OK || standard != value)
        put_flag(text, size, flag, number, "");
}

static const char *const programs[] = { "ping", "master", "allreduce", "space", "gossip" };

/* Write one line that names the program, its size and the cluster. */
static void put_title(const fast_simulate_config *c, char *text, size_t size)
{
    char algorithm[300] = "";
    if (c->program == FAST_SIMULATE_ALLREDUCE && strcmp(c->algorithm, "auto") != 0)
        snprintf(algorithm, sizeof algorithm, " (%s)", c->algorithm);
    snprintf(text, size,
             "%s%s of %" PRId64 " bytes, %" PRId64 " round%s, %" PRId64 " worker%s on %s",
             programs[c->program], algorithm, c->size, c->rounds, c->rounds == 1 ? "" : "s",
             c->workers, c->workers == 1 ? "" : "s", c->cluster);
}

void fast__simulate_command(const fast_simulate_outcome *outcome, const char *faults, char *text,
                            size_t size)
{
    const fast_simulate_config *c = outcome->config;
    snprintf(text, size, "fast simulate");
    put_flag(text, size, "--program", programs[c->program], "allreduce");
    put_int(text, size, "--workers", c->workers);
    put_flag(text, size, "--cluster", c->cluster, standard_of("cluster"));
    put_int(text, size, "--rounds", c->rounds);
    put_int(text, size, "--size", c->size);
    put_flag(text, size, "--algorithm", c->algorithm, standard_of("algorithm"));
    put_real(text, size, "--work", c->work);
    put_real(text, size, "--timeout", c->timeout);
    put_int(text, size, "--seed", outcome->seed);
    put_flag(text, size, "--faults", faults, "");
}

/* Give one simulation to the caller. */
static fast_err report_one(const fast_simulate_outcome *o, const char *faults, int64_t tries,
                           fast_simulate_fn *report, void *ctx, bool *more)
{
    enum { NAME = 32 };
    const int64_t n = o->config->workers;
    fast_simulated *rows = NULL;
    char *names = NULL;
    char command[COMMAND_SIZE];
    char title[COMMAND_SIZE];
    FAST_TRY(fast__alloc("a report", n, sizeof *rows, &rows));
    const fast_err err = fast__alloc("a report", n, NAME, &names);
    if (err) {
        fast__free(rows);
        return err;
    }
    for (int64_t i = 0; i < n; i++)
        snprintf(names + i * NAME, NAME, "worker %" PRId64, i);
    for (int64_t i = 0; i < n; i++) {
        const fast_simulate_actor *a = &o->actors[i];
        rows[i] = (fast_simulated){ .name = names + i * NAME,
                                    .node = a->node,
                                    .life = a->life,
                                    .err = a->err,
                                    .detail = a->detail,
                                    .culprit = a->culprit < 0 ? NULL : names + a->culprit * NAME,
                                    .rounds = a->rounds };
    }
    fast__simulate_command(o, faults, command, sizeof command);
    put_title(o->config, title, sizeof title);
    const fast_simulation simulation = {
        .program = programs[o->config->program],
        .title = title,
        .seed = o->seed,
        .faults = faults,
        .broken = o->broken,
        .failed_count = o->failed_count,
        .crashed_count = o->crashed_count,
        .wrong_count = o->wrong_count,
        .actors = rows,
        .actor_count = n,
        .time_s = o->time_s,
        .virtual_time_ns = o->result.time_ns,
        .messages_sent = o->result.messages_sent,
        .bytes_sent = o->result.bytes_sent,
        .events = o->result.events,
        .trace_hash = o->result.trace_hash,
        .command = command,
        .shrunk_tries = tries,
    };
    *more = report(ctx, &simulation);
    fast__free(names);
    fast__free(rows);
    return FAST_OK;
}

/* Shrink a failure and show the small one instead. */
static fast_err report_small(const fast_simulate_outcome *o, fast_simulate_fn *report, void *ctx,
                             bool *more)
{
    fast_simulate_outcome small;
    char *text = NULL;
    int64_t tries = 0;
    FAST_TRY(fast__simulate_shrink(o, &text, &tries));
    fast_err err = fast__simulate_once(o->config, text, o->seed, &small);
    if (!err) {
        err = report_one(&small, text, tries, report, ctx, more);
        fast__simulate_fini(&small);
    }
    fast__free(text);
    return err;
}

/* Names of algorithms, for fast__name_find(). */
static const char *algorithm_at(const void *ctx, int64_t i)
{
    (void)ctx;
    return fast__allreduces[i]->name;
}

/* A wrong name is an error before anything runs, not one of every worker. */
static fast_err algorithm_check(const char *spec)
{
    char name[64];
    const char *rest = NULL;
    int64_t count = 0;
    while (fast__allreduces[count])
        count++;
    FAST_TRY(fast__spec_split(spec, name, sizeof name, &rest));
    if (strcmp(name, "auto") == 0)
        return FAST_OK;
    const int64_t i = fast__name_find(name, algorithm_at, NULL, count, NULL);
    if (i < 0)
        return fast__name_unknown("allreduce", name, algorithm_at, NULL, count);
    return fast__options_parse(name, fast__allreduces[i]->options, NULL, rest);
}

/* Parse and check the options of a simulation. */
static fast_err config_parse(const char *const *options, fast_simulate_config *out)
{
    static const char where[] = "fast simulate";
    FAST_TRY(fast__lab_options(where, fast__simulate_options, options, out));
    FAST_TRY(algorithm_check(out->algorithm));
    if (out->workers < 2 && out->program != FAST_SIMULATE_ALLREDUCE)
        return fast__fail(FAST_EINVAL, "%s: this program needs at least 2 workers", where);
    if (out->seeds > 1 && out->trace[0])
        return fast__fail(FAST_EINVAL, "%s: --trace shows one simulation, not %" PRId64, where,
                          out->seeds);
    return FAST_OK;
}

/* Tell what a large simulation takes: a stack, a mailbox and a vector for each actor. */
static void tell_memory(const fast_simulate_config *config)
{
    enum { ACTOR = 32 << 10, LARGE = 1 << 30 };
    const double bytes = (double)config->workers * (ACTOR + (double)config->size);

    if (bytes > LARGE)
        fast__log(FAST_LOG_INFO, "%lld simulated workers take about %.1f GB of memory",
                  (long long)config->workers, bytes / 1e9);
}

fast_err fast_simulate(const char *const *options, fast_simulate_fn *report, void *ctx)
{
    FAST_ASSERT(report != NULL);
    fast_simulate_config config = { 0 };
    char faults[sizeof config.faults];
    bool more = true;
    FAST_TRY(config_parse(options, &config));
    tell_memory(&config);
    bool shrink = config.shrink;
    FAST_TRY(fast__simulate_faults(&config, faults, sizeof faults));
    for (int64_t i = 0; i < config.seeds && more; i++) {
        fast_simulate_outcome o;
        FAST_TRY(fast__simulate_once(&config, faults, config.seed + i, &o));
        fast_err err = FAST_OK;
        if (shrink && fails(&o) && o.faults && o.faults->count > 0) {
            shrink = false;
            err = report_small(&o, report, ctx, &more);
        } else {
            err = report_one(&o, o.faults_text, 0, report, ctx, &more);
        }
        fast__simulate_fini(&o);
        if (err)
            return err;
    }
    return FAST_OK;
}
