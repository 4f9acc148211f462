/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a snapshot of an asynchronous run is consistent, and a run that is resumed from it
 * continues as the one that was saved. Method: a learner whose first parameters count the steps of
 * each worker, with a learning rate of 1, and whose others depend on everything before. In sim
 * every copy of a checkpoint of a run is resumed, and ends with the run's bits. Of every snapshot,
 * on sim and threads, the counters are added up: no update is lost or doubled. With a number as
 * argument: at least as many snapshots in sim, at random moments; with a text after it: of the
 * strategies whose options have that text.
 */
#include "base/pack.h"
#include "base/rng.h"
#include "fast/learner.h"
#include "run/team.h"
#include "small_run.h"
#include "strategy/broadcaster.h"
#include "strategy/ps.h"
#include "tensor/vector.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { WORKERS = 4, COUNT = 40, STEPS = 24, COPIES = 12, PATH = 160, OPTIONS_MAX = 24 };

/* In memory, where the machine has that: thousands of files are written. */
static char folder[64] = "/dev/shm/cut_test.XXXXXX";

/* How the counters of a snapshot add up. */
typedef enum sum {
    SUM_NONE,     /* a strategy that does not conserve sums */
    SUM_REPLICAS, /* over the replicas */
    SUM_MASSES,   /* masses of replicas and of messages are 1 */
    SUM_SERVERS,  /* at the servers of `ps`; a group's mean has a part of each of its counters */
    SUM_CENTRE,   /* over the replicas and at the servers */
    SUM_BROADCAST /* over the replicas, and gradients that each has yet to apply or to send */
} sum;

typedef struct job {
    const char *strategy; /* option */
    const char *more;     /* another option */
    sum sum;              /* that is conserved */
} job;

static const job jobs[] = {
    { "strategy=gossip_async", "seed=1", SUM_REPLICAS },
    { "strategy=gossip_async:overlap=no", "seed=2", SUM_REPLICAS },
    { "strategy=gossip_async:how=push,p=0.5", "seed=1", SUM_MASSES },
    { "strategy=gossip_async:how=push", "optimizer=momentum", SUM_MASSES },
    { "strategy=gossip_async:how=pull", "optimizer=adam", SUM_NONE },
    { "strategy=gossip_async", "codec=topk:ratio=0.3", SUM_NONE },
    { "strategy=gossip_async:how=push", "codec=qsgd", SUM_MASSES },
    { "strategy=gossip_async:how=pull", "codec=onebit", SUM_NONE },
    { "strategy=elastic:period=2", "seed=1", SUM_CENTRE },
    { "strategy=elastic:servers=2,period=3", "optimizer=momentum", SUM_NONE },
    { "strategy=elastic:servers=2", "codec=topk:ratio=0.3", SUM_NONE },
    { "strategy=elastic_tree:up=2,down=1,slack=1", "seed=1", SUM_NONE },
    { "strategy=elastic_tree", "codec=topk:ratio=0.3", SUM_NONE },
    { "strategy=mpca:period=2", "optimizer=momentum", SUM_NONE },
    { "strategy=mpca", "codec=qsgd", SUM_NONE },
    { "strategy=mpca:tree=yes,period=1", "seed=1", SUM_NONE },
    { "strategy=mpca:tree=yes,period=2", "optimizer=momentum", SUM_NONE },
    { "strategy=ensemble", "seed=1", SUM_REPLICAS },
    { "strategy=hogwild:chunk=8", "seed=1", SUM_NONE },
    { "strategy=hogwild:clusters=2,period=2,chunk=16", "seed=4", SUM_NONE },
    { "strategy=partial:how=scatter", "seed=1", SUM_NONE },
    { "strategy=partial:how=scatter,slack=1,sends=gradients", "seed=1", SUM_NONE },
    { "strategy=partial:how=scatter,period=2", "codec=topk:ratio=0.3", SUM_NONE },
    { "strategy=partial:how=parts,parts=3", "optimizer=momentum", SUM_NONE },
    { "strategy=partial:how=parts,parts=4", "codec=onebit", SUM_NONE },
    { "strategy=partial:how=states,part=0.5", "seed=1", SUM_NONE },
    { "strategy=dogwild:chunk=8", "seed=1", SUM_NONE },
    { "strategy=dogwild:chunk=16,rate=0.5", "optimizer=momentum", SUM_NONE },
    { "strategy=ps:slack=-1", "seed=1", SUM_SERVERS },
    { "strategy=ps:slack=2", "seed=3", SUM_SERVERS },
    { "strategy=ps:slack=3,cache_age=2,servers=2", "seed=2", SUM_SERVERS },
    { "strategy=ps:slack=2,servers=2,tasks=yes,ring=2", "seed=2", SUM_SERVERS },
    { "strategy=ps:slack=2,priority=yes", "seed=2", SUM_SERVERS },
    { "strategy=ps:slack=1,servers=3", "optimizer=adam", SUM_NONE },
    { "strategy=ps:slack=3,global=yes,servers=0", "seed=2", SUM_SERVERS },
    { "strategy=ps:slack=-1,fetch=3,push=2,servers=2", "optimizer=momentum", SUM_NONE },
    { "strategy=ps:slack=4,send=differences,push=3,fetch=3", "optimizer=momentum", SUM_NONE },
    { "strategy=ps:slack=-1,aggregate=3,momentum=0.3", "seed=1", SUM_NONE },
    { "strategy=ps:slack=-1,compensate=0.1,decay=0.9", "seed=1", SUM_NONE },
    { "strategy=ps:slack=-1,warm=0.1,staleness=inverse", "seed=1", SUM_NONE },
    { "strategy=ps:slack=2,servers=2", "codec=topk:ratio=0.3", SUM_NONE },
    { "strategy=ps:slack=-1,servers=2", "codec_down=qsgd", SUM_NONE },
    { "strategy=ps:slack=2,eager=yes", "seed=1", SUM_SERVERS },
    { "strategy=ps:slack=3,eager=yes,servers=2,push=2", "optimizer=momentum", SUM_NONE },
    { "strategy=ps:slack=2,eager=yes,servers=2", "codec_down=qsgd", SUM_NONE },
    { "strategy=ps:slack=3,eager=yes,servers=2", "codec_down=budget:bytes=60", SUM_NONE },
    { "strategy=ps:slack=4,servers=2", "codec_down=budget:bandwidth=2e5", SUM_NONE },
    { "strategy=ps:slack=0,eager=yes", "seed=2", SUM_NONE },
    { "strategy=ps:slack=4,servers=2", "codec=budget:bytes=60", SUM_NONE },
    { "strategy=ps:value=20", "seed=1", SUM_SERVERS },
    { "strategy=ps:value=5,servers=3", "seed=2", SUM_SERVERS },
    { "strategy=ps:value=3,weak=yes,fetch=2", "optimizer=momentum", SUM_NONE },
    { "strategy=ps:value=5,fetch=3", "seed=2", SUM_SERVERS },
    { "strategy=ps:value=1,proxies=2", "seed=1", SUM_SERVERS },
    { "strategy=ps:value=2,proxies=4,servers=2", "seed=2", SUM_SERVERS },
    { "strategy=ps:value=2,proxies=2,levels=2", "seed=1", SUM_SERVERS },
    { "strategy=ps:value=2,proxies=4,fetch=2", "seed=3", SUM_SERVERS },
    { "strategy=ps:value=1,weak=yes,proxies=4", "optimizer=momentum", SUM_NONE },
    { "strategy=ps:slack=0,backup=1", "seed=1", SUM_NONE },
    { "strategy=ps:slack=0,backup=2,servers=2,epochs=0.8", "optimizer=momentum", SUM_NONE },
    { "strategy=ps:slack=0,replicas=1", "seed=1", SUM_NONE },
    { "strategy=ps:slack=-1,replicas=2,servers=2", "seed=1", SUM_NONE },
    { "strategy=ps:slack=2,replicas=1", "optimizer=adam", SUM_NONE },
    { "strategy=ps:slack=0,proxies=2", "seed=1", SUM_NONE },
    { "strategy=ps:proxies=2,free_running=yes,softsync=2", "optimizer=momentum", SUM_NONE },
    { "strategy=ps:slack=-1,proxies=2,servers=2", "seed=2", SUM_NONE },
    { "strategy=ps:slack=2,proxies=4", "optimizer=momentum", SUM_NONE },
    { "strategy=ps:slack=1,proxies=2", "codec=significance", SUM_NONE },
    { "strategy=ps:slack=0,proxies=2,levels=2", "optimizer=momentum", SUM_NONE },
    { "strategy=ps:slack=-1,proxies=2,fetch=2,push=2", "optimizer=sgd", SUM_NONE },
    { "strategy=ps:slack=1,replicas=1,chain=yes", "optimizer=sgd", SUM_NONE },
    { "strategy=ps:slack=1,proxies=2,mirror=yes", "codec=significance", SUM_NONE },
    { "strategy=ps:slack=0,proxies=4,mirror=yes", "optimizer=momentum", SUM_NONE },
    { "strategy=ps:slack=-1,cache=yes", "codec=significance", SUM_NONE },
    { "strategy=ps:slack=1,proxies=2,rows=yes", "seed=1", SUM_NONE },
    { "strategy=ps:slack=2,flows=behind", "seed=1", SUM_SERVERS },
    { "strategy=ps:slack=1,proxies=2,levels=2,flows=rank,rate=1e6", "seed=3", SUM_NONE },
    { "strategy=ps:slack=-1,rate=2e5", "seed=2", SUM_SERVERS },
    { "strategy=ps:slack=-1,redundant=2", "seed=1", SUM_NONE },
    { "strategy=ps:slack=0,redundant=2", "optimizer=momentum", SUM_NONE },
    { "strategy=ps:slack=0,redundant=2,replicas=1,chain=yes", "seed=2", SUM_NONE },
    { "strategy=broadcast", "seed=1", SUM_BROADCAST },
    { "strategy=broadcast:slack=-1,period=2", "seed=2", SUM_BROADCAST },
    { "strategy=broadcast:arity=1,slack=1,slow=2", "optimizer=momentum", SUM_NONE },
    { "strategy=broadcast:how=gossip", "seed=3", SUM_BROADCAST },
    { "strategy=broadcast:how=gossip,width=0,period=3", "optimizer=adam", SUM_NONE },
    { "strategy=federated:period=3", "seed=1", SUM_NONE },
    { "strategy=federated:period=2,part=0.5,window=0.05", "optimizer=momentum", SUM_NONE },
    { "strategy=federated:period=2,part=0.5,pace=yes", "seed=2", SUM_NONE },
    { "strategy=federated:period=4,part=0.75,over=1", "codec=topk:ratio=0.3", SUM_NONE },
    { "strategy=federated:epochs=0.125,part=0.5", "codec_down=qsgd", SUM_NONE },
    { "strategy=quorum", "seed=1", SUM_NONE },
    { "strategy=quorum:backup=1,servers=2", "optimizer=momentum", SUM_NONE },
    { "strategy=quorum:quorum=2,late=add", "seed=2", SUM_NONE },
    { "strategy=quorum:quorum=2,late=add,servers=2", "codec=topk:ratio=0.3", SUM_NONE },
    { "strategy=quorum:quorum=2,partial=yes", "accumulate=3", SUM_NONE },
    { "strategy=quorum:backup=1,lag=2,servers=0", "codec_down=qsgd", SUM_NONE },
};

static unsigned pause_us; /* of a gradient: over processes a run must last longer than a message */

/* A gradient that counts, and that depends on the worker, the step and all earlier values. */
static fast_err gradient(void *ctx, fast_learner_request *r)
{
    (void)ctx;
    if (pause_us > 0)
        usleep(pause_us);
    for (int64_t i = 0; i < COUNT; i++)
        r->g[i] = i < WORKERS ? (i == r->worker ? -1.0f : 0.0f)
                              : 0.1f * (r->w[i] - sinf((float)(i + 7 * r->worker + 3 * r->step)));
    r->loss = (double)r->w[COUNT - 1];
    r->samples = r->batch;
    return FAST_OK;
}

static const fast_learner_tensor tensors[] = { { "w", 1, { COUNT }, NULL } };
static const fast_learner_kind counting = { .name = "counting",
                                            .params = tensors,
                                            .param_count = 1,
                                            .samples = 4 * WORKERS * STEPS,
                                            .operations = 2e5,
                                            .gradient = gradient };

static fast_run *open_job(const job *j, const char *const *extra)
{
    const char *options[OPTIONS_MAX] = { "workers=4",         "batch=4",   "lr=1",
                                         "schedule=constant", "steps=24",  "evaluate=no",
                                         "optimizer=sgd",     j->strategy, j->more };
    int count = 9;
    fast_run *run = NULL;

    if (strncmp(j->more, "optimizer=", 10) == 0) { /* an option is given once */
        options[6] = j->more;
        options[8] = "seed=1";
    }
    for (; *extra; extra++)
        options[count++] = *extra;
    if (fast_run_open_learner(options, &counting, NULL, &run))
        fail_msg("%s %s: %s", j->strategy, j->more, fast_error_detail());
    return run;
}

/* Snapshots of a run. */
typedef struct watcher {
    fast_run *run;
    const job *job;
    bool copies;     /* files are copied */
    int64_t cancel;  /* snapshots after which the run is canceled; 0: it is not */
    int64_t count;   /* snapshots so far */
    int64_t inside;  /* those that were not at the end */
    char wrong[256]; /* a wrong sum, told by the test's own thread */
} watcher;

/* Counters at the places of a snapshot. */
typedef struct counted {
    double at_replicas[WORKERS], at_servers[WORKERS]; /* sums of each worker's counter */
    double mass;                                      /* of replicas and messages */
    double steps[WORKERS];                            /* of each worker */
} counted;

/* Add the counters of a record of a worker. */
static void count_worker(const watcher *v, int64_t rank, const fast_pack_record *r, counted *c)
{
    const fast_run *run = v->run;
    const int64_t number = r->number - FAST_REMEMBERED;
    const float *w = r->size > 0 ? r->data : run->learner->w;
    int64_t words[16];

    if (r->kind == FAST_SAVED_NUMBERS)
        memcpy(&c->steps[rank], (const double *)r->data + 2, sizeof c->steps[rank]);
    for (int64_t i = 0; r->kind == FAST_SAVED_WEIGHTS && i < WORKERS; i++)
        c->at_replicas[i] += (double)w[i];
    if (v->job->sum == SUM_BROADCAST && r->kind == FAST_SAVED_BLOCK &&
        (number == FAST_BROADCAST_SUM || number == FAST_BROADCAST_DUE))
        for (int64_t i = 0; i < WORKERS; i++) /* others have to get gradients that are not sent */
            c->at_replicas[i] -= (double)((const float *)r->data)[i] / WORKERS *
                                 (number == FAST_BROADCAST_SUM ? WORKERS - 1 : 1);
    if (r->kind == FAST_SAVED_BLOCK && r->number == 0 && r->size >= 2 * sizeof(int64_t)) {
        double mass = 0;

        memcpy(&mass, (const int64_t *)r->data + 1, sizeof mass);
        c->mass += mass;
    }
    if (r->kind == FAST_SAVED_MESSAGE) {
        double mass = 0;

        memcpy(words, r->data, sizeof words);
        memcpy(&mass, &words[5 + 1], sizeof mass); /* the second word: see saved_actor.c */
        c->mass += mass;
    }
}

/* Add the counters of the space of a server: VALUES of tensor 0 (space_checkpoint.c). */
static void count_server(const fast_pack_record *space, counted *c)
{
    float w[COUNT + WORKERS] = { 0 }; /* contributions may follow */

    if (space->kind != FAST_SAVED_SPACE ||
        fast__space_values_load(space->data, space->size, 0, COUNT + WORKERS, w))
        return;
    for (int64_t i = 0; i < WORKERS; i++)
        c->at_servers[i] += (double)w[i];
}

static void count(watcher *v)
{
    const fast_team *team = v->run->team;
    const double close = 1e-4;
    const ps_config *ps = v->job->sum == SUM_SERVERS ? team->config : NULL;
    const double part = ps && ps->proxies > 0 ? (double)ps->proxies / WORKERS : 1;
    const int64_t servers = ps ? fast__ps_owners(ps, WORKERS) : team->saved.servers;
    fast_pack_record r;
    counted c = { 0 };

    for (int64_t i = 0; i < team->workers + servers; i++) /* proxies follow the servers */
        for (size_t at = 0;
             fast__pack_next(team->saved.states[i].bytes, team->saved.states[i].size, &at, &r);)
            if (i < team->workers)
                count_worker(v, i, &r, &c);
            else
                count_server(&r, &c);
    if (v->job->sum == SUM_MASSES && !(fabs(c.mass - 1) < close))
        snprintf(v->wrong, sizeof v->wrong, "masses are %g in all", c.mass);
    for (int64_t i = 0; i < WORKERS; i++) {
        const double sums[] = { [SUM_NONE] = c.steps[i],
                                [SUM_REPLICAS] = c.at_replicas[i],
                                [SUM_MASSES] = c.steps[i],
                                [SUM_SERVERS] = c.at_servers[i] / part,
                                [SUM_CENTRE] = c.at_replicas[i] + c.at_servers[i],
                                [SUM_BROADCAST] = c.at_replicas[i] };

        if (!(fabs(sums[v->job->sum] - c.steps[i]) < close * (1 + c.steps[i])))
            snprintf(v->wrong, sizeof v->wrong, "%g steps of worker %lld are there, not %g",
                     sums[v->job->sum], (long long)i, c.steps[i]);
    }
}

static bool removes = true; /* of several processes the first one saves, and removes the files */
static int64_t first_file;  /* number of a job's first copy, where processes must not mix them */

static void path_of(const char *option, const char *name, int64_t number, char path[PATH])
{
    snprintf(path, PATH, "%s%s/%s%lld.safetensors", option, folder, name,
             (long long)(first_file + number));
}

static void look(void *ctx, const fast_event *event)
{
    watcher *v = ctx;
    char copy[PATH];

    if (event->kind != FAST_EVENT_SAVE)
        return;
    v->count++;
    if (!v->run->team->place.world) /* at the end */
        return;
    count(v);
    if (v->copies && v->inside < COPIES) {
        path_of("", "copy", v->inside, copy);
        test_copy_file(event->text, copy);
    }
    if (++v->inside == v->cancel)
        fast_run_cancel(v->run);
}

/* Different speeds, jitter, loss, duplicates; memory that all share; slow links. */
static const char *const clusters[] = { "cluster=hetero", "cluster=edge", "cluster=laptop",
                                        "cluster=wan" };

/* Train with a snapshot every `every` steps; from a copy of an earlier run's if resume >= 0. */
static uint64_t train(const job *j, const char *transport, int every, int64_t resume, watcher *v)
{
    char checkpoint[PATH], from[PATH], period[64];
    const bool sim = strcmp(transport, "transport=sim") == 0;
    const char *cluster = strstr(j->strategy, "hogwild") ? clusters[2] : clusters[every % 4];
    const char *extra[] = {
        transport, checkpoint, period, sim ? cluster : NULL, resume >= 0 ? from : NULL, NULL
    };

    if (!sim) {
        extra[3] = extra[4];
        extra[4] = NULL;
    }

    path_of("checkpoint=", "whole", 0, checkpoint);
    path_of("resume=", "copy", resume, from);
    snprintf(period, sizeof period, "checkpoint_every=%dsteps", every);
    v->run = open_job(j, extra);
    v->job = j;
    removes = fast_run_is_first(v->run);
    fast_run_watch(v->run, look, v);
    if (fast_run_train(v->run))
        fail_msg("%s %s: %s", j->strategy, j->more, fast_error_detail());
    if (v->wrong[0])
        fail_msg("%s %s: in a snapshot %s", j->strategy, j->more, v->wrong);
    /* Late workers leave steps out where others make the rounds without them. */
    if (v->cancel == 0 && !strstr(j->strategy, "backup") && !strstr(j->strategy, "federated") &&
        !strstr(j->strategy, "redundant"))
        assert_int_equal(fast_run_result(v->run)->steps, STEPS);
    const uint64_t hash = fast_run_result(v->run)->params_hash;
    fast_run_close(v->run);
    return hash;
}

/* Every snapshot of a run in sim is resumed, and ends with the run's bits. Returns their number. */
static int64_t resume_all(const job *j, int every)
{
    watcher whole = { .copies = true };
    const uint64_t hash = train(j, "transport=sim", every, -1, &whole);

    /* With slow links worker 0 of a warm start comes to its end before the others begin. */
    if (whole.inside == 0 && !strstr(j->strategy, "warm"))
        fail_msg("%s %s: no snapshot every %d steps", j->strategy, j->more, every);
    for (int64_t i = 0; i < whole.inside && i < COPIES; i++) {
        watcher resumed = { 0 };

        if (train(j, "transport=sim", every, i, &resumed) != hash)
            fail_msg("%s %s: another model after a resume from snapshot %lld, every %d steps",
                     j->strategy, j->more, (long long)i, every);
        assert_int_equal(resumed.inside, whole.inside - i - 1);
    }
    return whole.inside;
}

#ifdef FAST_SLOW
static int64_t wanted = 50; /* snapshots */
enum { LONGEST = 3 };
#else
static int64_t wanted = 500;
enum { LONGEST = 6 };
#endif

#ifdef __SANITIZE_THREAD__
enum { RACES = 1 }; /* a simulator is one thread, and slow where threads are watched */
#else
enum { RACES = 0 };
#endif

static const char *only = ""; /* jobs are those whose strategy has this text */

static void a_resumed_run_has_the_same_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++)
        for (int every = 3; every <= LONGEST && strstr(jobs[i].strategy, only); every++)
            (void)resume_all(&jobs[i], every);
}

/* Random strategies, seeds, periods and clusters: a counter is wrong in no snapshot, and one of
 * each run, at random, is resumed and ends with the run's bits. */
static void no_update_is_lost_or_doubled(void **state)
{
    int64_t snapshots = 0;
    size_t runs = 1;
    fast_rng rng;

    (void)state;
    fast__rng_init(&rng, 1, FAST_PURPOSE_ACTOR, 0, 0, 0);
    for (size_t i = 0; snapshots < wanted; i++) {
        const int jobs_count = (int)(sizeof jobs / sizeof jobs[0]);
        job j = jobs[fast__rng_below(&rng, (uint64_t)jobs_count)];
        watcher whole = { .copies = true }, resumed = { 0 };
        const int every = 1 + (int)fast__rng_below(&rng, 7);
        char seed[32];

        if (!strstr(j.strategy, only))
            continue;

        snprintf(seed, sizeof seed, "seed=%zu", i);
        if (strncmp(j.more, "seed=", 5) == 0)
            j.more = seed;
        const uint64_t hash = train(&j, "transport=sim", every, -1, &whole);
        const int64_t copies = whole.inside < COPIES ? whole.inside : COPIES;
        if (copies > 0 && train(&j, "transport=sim", every,
                                (int64_t)fast__rng_below(&rng, (uint64_t)copies), &resumed) != hash)
            fail_msg("%s %s: another model after a resume, snapshots every %d steps", j.strategy,
                     j.more, every);
        snapshots += whole.inside + resumed.inside;
        runs = i + 1;
    }
    print_message("%lld snapshots of runs with the seeds 0 to %zu\n", (long long)snapshots,
                  runs - 1);
}

/* On threads no two runs are equal, but every snapshot adds up, also after a resume and a
 * cancel. */
static void snapshots_on_threads_add_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        watcher whole = { .copies = true }, resumed = { 0 }, canceled = { .cancel = 2 };

        if (!strstr(jobs[i].strategy, only))
            continue;
        (void)train(&jobs[i], "transport=threads", 4, -1, &whole);
        if (whole.inside > 0 && (!RACES || i % 2 == 0)) /* a worker may have ended before */
            (void)train(&jobs[i], "transport=threads", 4, 0, &resumed);
        if (!RACES || i % 4 == 1)
            (void)train(&jobs[i], "transport=threads", 3, -1, &canceled);
    }
}

/* A snapshot of one transport is resumed on another. */
static void transports_change(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        watcher first = { .copies = true }, second = { .copies = true }, third = { 0 };

        if (!strstr(jobs[i].strategy, only))
            continue;
        (void)train(&jobs[i], "transport=sim", 4, -1, &first);
        assert_true(first.inside > 0);
        (void)train(&jobs[i], "transport=threads", 4, 0, &second);
        if (second.inside > 0) /* threads may have come to their end before */
            (void)train(&jobs[i], "transport=sim", 4, 0, &third);
    }
}

/* Over processes, under mpirun: every snapshot adds up, also after a resume and a cancel. The first
 * process saves; the others see by its copy that there was a snapshot. Workers of hogwild share
 * memory. */
static void snapshots_over_processes_add_up(void **state)
{
    int64_t found = 0;

    (void)state;
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        watcher whole = { .copies = true }, resumed = { 0 }, canceled = { .cancel = 2 };
        char copy[PATH];

        if (strstr(jobs[i].strategy, "=hogwild") || !strstr(jobs[i].strategy, only))
            continue;
        first_file = (int64_t)i * COPIES;
        path_of("", "copy", 0, copy);
        (void)train(&jobs[i], "transport=mpi", 3, -1, &whole);
        const bool saved = access(copy, R_OK) == 0;
        found += saved;
        if (saved && i % 2 == 0)
            (void)train(&jobs[i], "transport=mpi", 4, 0, &resumed);
        if (i % 6 == 0)
            (void)train(&jobs[i], "transport=mpi", 3, -1, &canceled);
    }
    assert_true(found > 0);
    print_message("snapshots of %lld strategies over processes\n", (long long)found);
}

/* Copy the first snapshot of a run. */
static void copy_first(void *ctx, const fast_event *event)
{
    watcher *v = ctx;
    char copy[PATH];

    if (event->kind != FAST_EVENT_SAVE || v->count++ > 0)
        return;
    path_of("", "batches", 0, copy);
    test_copy_file(event->text, copy);
}

/* Runs of models of this library. */
static const char *const models[][4] = {
    { "strategy=gossip_async", "preprocess=2", "data=digits:train=400,test=10", "engine=ref" },
    { "strategy=ps:slack=3", "preprocess=1", "data=digits:train=400,test=10", "engine=ref" },
    { "strategy=ps:slack=1,proxies=2,rows=yes", "optimizer=sgd",
      "data=words:train=600,test=10,vocabulary=2000", "engine=ref" },
};
enum { MODELS = sizeof models / sizeof models[0] };

/* Train model i, and return its hash; resumed: from the first snapshot of the run before. */
static uint64_t train_model(size_t i, const char *transport, const char *cluster, bool resumed)
{
    char checkpoint[PATH], from[PATH];
    const char *const options[] = { models[i][0],
                                    models[i][1],
                                    models[i][2],
                                    models[i][3],
                                    checkpoint,
                                    "model=mlp:hidden=8",
                                    "checkpoint_every=10steps",
                                    "steps=40",
                                    "workers=3",
                                    "batch=8",
                                    transport,
                                    "evaluate=no",
                                    resumed   ? from
                                    : cluster ? cluster
                                              : NULL,
                                    resumed ? cluster : NULL,
                                    NULL };
    watcher v = { .count = resumed };

    path_of("checkpoint=", "whole", 0, checkpoint);
    path_of("resume=", "batches", 0, from);
    if (fast_run_open(options, &v.run))
        fail_msg("%s: %s", options[0], fast_error_detail());
    fast_run_watch(v.run, copy_first, &v);
    if (fast_run_train(v.run))
        fail_msg("%s: %s", options[0], fast_error_detail());
    const uint64_t hash = fast_run_result(v.run)->params_hash;
    fast_run_close(v.run);
    return hash;
}

/* Batches that preprocessing actors made ahead are not in a snapshot, and change no bits where
 * links have no jitter: the random streams of these actors are not saved. Rows that a worker reads
 * are in it. */
static void preprocessed_batches_change_no_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * MODELS; i++) {
        const char *cluster = clusters[i % 2 * 2];
        const uint64_t whole = train_model(i / 2, "transport=sim", cluster, false);

        if (train_model(i / 2, "transport=sim", cluster, true) != whole)
            fail_msg("%s %s: another model after a resume", models[i / 2][0], cluster);
    }
}

/* Over processes the messages of preprocessing actors are not counted, and none is in flight. */
static void models_are_resumed_over_processes(void **state)
{
    (void)state;
    for (size_t i = 0; i < MODELS; i++) {
        char copy[PATH];

        first_file = (int64_t)(sizeof jobs / sizeof jobs[0] + i) * COPIES;
        path_of("", "batches", 0, copy);
        (void)train_model(i, "transport=mpi", NULL, false);
        if (access(copy, R_OK) == 0)
            (void)train_model(i, "transport=mpi", NULL, true);
        else if (strstr(models[i][0], "slack")) /* no worker ends long before another one */
            fail_msg("%s: no snapshot", models[i][0]);
    }
}

/* A run of other workers, another strategy or topology continues with the model of a snapshot. */
static void the_model_is_enough_for_others(void **state)
{
    static const char *const others[][4] = {
        { "workers=2", "strategy=gossip_async", "topology=full", "with workers=4, after step" },
        { "workers=6", "strategy=allreduce", "topology=auto", "strategy=gossip_async, topology=" },
        { "workers=4", "strategy=ps:slack=1,servers=2", "topology=auto", "strategy=gossip_async" },
        { "workers=4", "strategy=gossip_async", "topology=ring", "with topology=full, after step" },
        { "workers=3", "strategy=broadcast", "topology=auto", "with workers=4, strategy=" },
        { "workers=4", "strategy=quorum", "topology=auto", "strategy=gossip_async" },
    };
    watcher first = { .copies = true };
    char from[PATH];

    (void)state;
    (void)train(&jobs[0], "transport=sim", 6, -1, &first);
    assert_true(first.inside > 0);
    path_of("resume=", "copy", 0, from);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        const char *const options[] = { others[i][0],
                                        others[i][1],
                                        others[i][2],
                                        "batch=4",
                                        "lr=1",
                                        "steps=24",
                                        "seed=1",
                                        "schedule=constant",
                                        i % 2 == 0 ? "transport=sim" : "transport=threads",
                                        from,
                                        "optimizer=sgd",
                                        "evaluate=no",
                                        NULL };
        fast_run *run = NULL;

        if (fast_run_open_learner(options, &counting, NULL, &run))
            fail_msg("%s %s: %s", others[i][0], others[i][1], fast_error_detail());
        assert_non_null(strstr(run->text.resume_note, "are dropped"));
        if (!strstr(run->text.resume_note, others[i][3]))
            fail_msg("%s", run->text.resume_note);
        assert_in_range(run->step, 1, STEPS - 1);
        assert_int_equal(fast_run_train(run), FAST_OK);
        assert_int_equal(fast_run_result(run)->steps, STEPS);
        fast_run_close(run);
    }
}

/* Gradients that the servers have applied. */
static int64_t applied(const fast_result *result)
{
    int64_t updates = 0;

    for (size_t i = 0; i < sizeof result->staleness / sizeof result->staleness[0]; i++)
        updates += result->staleness[i];
    return updates;
}

/* A finished run with backup workers that is resumed for 12 more rounds makes 12 rounds, of the
 * gradients of 3 of 4 workers each: its workers continue at one round, however many steps each of
 * them has missed, and nobody waits for workers that have ended. */
static void a_finished_run_makes_more_rounds(void **state)
{
    static const char *const transports[] = { "transport=sim", "transport=threads" };
    char checkpoint[PATH], resume[PATH];

    (void)state;
    path_of("checkpoint=", "finished", 0, checkpoint);
    path_of("resume=", "finished", 0, resume);
    for (int i = 0; i < 2; i++) {
        const char *options[] = { "strategy=ps:slack=0,backup=1",
                                  "optimizer=sgd",
                                  "workers=4",
                                  "batch=4",
                                  "lr=1",
                                  "schedule=constant",
                                  "evaluate=no",
                                  transports[i],
                                  i == 0 ? "faults=slow 3 at 0s by 5" : "seed=1",
                                  "steps=24",
                                  checkpoint,
                                  NULL };

        for (int call = 0; call < 2; call++) {
            fast_run *run = NULL;

            options[9] = call ? "steps=36" : "steps=24";
            options[10] = call ? resume : checkpoint;
            assert_int_equal(fast_run_open_learner(options, &counting, NULL, &run), FAST_OK);
            assert_int_equal(fast_run_train(run), FAST_OK);
            assert_int_equal(applied(fast_run_result(run)), call ? 36 : 72);
            fast_run_close(run);
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest races[] = {
        cmocka_unit_test(snapshots_on_threads_add_up),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_resumed_run_has_the_same_bits),
        cmocka_unit_test(no_update_is_lost_or_doubled),
        cmocka_unit_test(snapshots_on_threads_add_up),
        cmocka_unit_test(transports_change),
        cmocka_unit_test(preprocessed_batches_change_no_bits),
        cmocka_unit_test(the_model_is_enough_for_others),
        cmocka_unit_test(a_finished_run_makes_more_rounds),
    };
    const struct CMUnitTest over_processes[] = {
        cmocka_unit_test(snapshots_over_processes_add_up),
        cmocka_unit_test(models_are_resumed_over_processes),
    };
    char command[128];

    if (argc > 2)
        only = argv[2];
    if (argc > 1 && strcmp(argv[1], "mpi") == 0) { /* all ranks have the same parent */
        snprintf(folder, sizeof folder, "/dev/shm/cut_test.%d", (int)getppid());
        (void)!mkdir(folder, 0777);
        pause_us = 1000;
        const int failed = cmocka_run_group_tests(over_processes, NULL, NULL);
        snprintf(command, sizeof command, "rm -rf %s", folder);
        return failed || (removes && system(command));
    }
    if (argc > 1)
        wanted = strtoll(argv[1], NULL, 10);
    if (!mkdtemp(folder) && !mkdtemp(strcpy(folder, "cut_test.XXXXXX")))
        return 1;
    const int failed = RACES ? cmocka_run_group_tests(races, NULL, NULL)
                             : cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) || failed;
}
