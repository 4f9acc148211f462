/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values that workers of `ps` compute with. Goal: read-my-writes, the staleness bound for every
 * coordinate, the value bound at every moment. Method: a learner whose worker i has coordinates of
 * its own, all with the gradient -1: a coordinate of i is then the learning rate times the steps of
 * i that the reader sees, an exact number; on the simulator, with latencies and uneven speeds.
 */
#include "fast/learner.h"
#include "fast/run.h"
#include "strategy/ps.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

extern const fast_strategy fast__strategy_ps; /* ps.c */

enum { WORKERS = 4, EACH = 8, COUNT = WORKERS * EACH, STEPS = 40 };

/* Figures of the views that the learner was asked with, over a whole run. */
typedef struct views {
    int64_t slack;      /* staleness bound; -1: none */
    bool shared;        /* all workers change all coordinates */
    int64_t calls;      /* gradients */
    int64_t stale;      /* steps of another worker that the reader's view lacked, largest */
    int64_t own_wrong;  /* coordinates of the reader's own that were not its own steps */
    int64_t over_bound; /* coordinates that were older than the bound */
    int64_t epochs[4];  /* gradients of each epoch, of 10 steps a worker */
    int64_t parted;     /* other workers of whose updates worker 3 saw some coordinates, not all */
    int64_t messages;   /* of all actors */
    int64_t bytes;      /* of all actors */
    uint64_t hash;      /* of the final weights */
    double time_s;      /* of the run */
} views;

/* The views of workers of proxies: they are in use from the call of the learner on, for most of the
 * time of a gradient. The simulator runs one actor at a time, so that all can use one record. */
static struct {
    fast_actor *actors[WORKERS]; /* whose clocks are read */
    float newest[COUNT];         /* the largest values that any view had: they were sent */
    float view[WORKERS][COUNT];  /* weights that a worker computes with */
    double until_ns[WORKERS];    /* the time until which it does */
    double time_ns;              /* of a gradient, without most fractions of it */
    float difference;            /* largest between a view in use and the newest values */
} used;

/* Worker `rank` computes with w from now on. */
static void use(int64_t rank, const float *w)
{
    const double now = (double)fast_now(used.actors[rank]);

    memcpy(used.view[rank], w, sizeof used.view[0]);
    used.until_ns[rank] = now + used.time_ns * (rank == 3 ? 20 : 1);
    for (int64_t i = 0; i < COUNT; i++)
        used.newest[i] = fmaxf(used.newest[i], w[i]);
    for (int64_t k = 0; k < WORKERS; k++)
        for (int64_t i = 0; used.until_ns[k] > now && i < COUNT; i++)
            used.difference = fmaxf(used.difference, used.newest[i] - used.view[k][i]);
}

/* Learning rate 1: a coordinate is a number of steps. */
static fast_err look(void *ctx, fast_learner_request *r)
{
    views *v = ctx;

    if (used.actors[r->worker])
        use(r->worker, r->w);
    for (int64_t i = 0; i < COUNT; i++) {
        const int64_t of = i / EACH, seen = (int64_t)r->w[i];

        if (of == r->worker)
            v->own_wrong += r->w[i] != (float)r->step;
        else
            v->stale = r->step - seen > v->stale ? r->step - seen : v->stale;
        v->over_bound += v->slack >= 0 && seen < r->step - v->slack;
        v->parted += r->worker == 3 && i % EACH > 0 && r->w[i] != r->w[i - 1];
        r->g[i] = v->shared || of == r->worker ? -1 : 0;
    }
    v->calls++;
    v->epochs[r->step / (STEPS / 4)]++;
    r->loss = 1;
    r->samples = 1;
    return FAST_OK;
}

static const char *codec_down = "none";           /* of the next runs */
static const char *faults = "slow 3 at 0s by 20"; /* of the next runs */
static const char *checkpoint;                    /* option of the next runs; NULL: none */

/* Train with a codec, or NULL, on a cluster. */
static views run_by(const fast_strategy *own, const char *strategy, const char *codec,
                    const char *cluster, int64_t slack)
{
    static const fast_learner_tensor tensors[] = { { "w", 1, { COUNT }, NULL } };
    views v = { .slack = slack, .shared = own != NULL };
    const fast_learner_kind kind = { .size = sizeof kind,
                                     .name = "views",
                                     .params = tensors,
                                     .param_count = 1,
                                     .samples = STEPS / 4 * WORKERS,
                                     .operations = 1e8,
                                     .gradient = look,
                                     .ctx = &v };
    char how[128], with[128], answers[128], where[128], slow[128];
    const char *options[] = { slow,
                              how,
                              with,
                              answers,
                              where,
                              "workers=4",
                              "batch=1",
                              "steps=40",
                              "transport=sim",
                              "lr=1",
                              "schedule=constant",
                              "optimizer=sgd",
                              checkpoint,
                              "checkpoint_every=3steps",
                              NULL };
    fast_run *opened = NULL;

    snprintf(how, sizeof how, "strategy=%s", strategy);
    snprintf(with, sizeof with, "codec=%s", codec ? codec : "none");
    snprintf(slow, sizeof slow, "faults=%s", faults);
    snprintf(answers, sizeof answers, "codec_down=%s", codec_down);
    snprintf(where, sizeof where, "cluster=%s", cluster);
    if (fast_run_open_learner(options, &kind, own, &opened) || fast_run_train(opened))
        fail_msg("%s: %s", strategy, fast_error_detail());
    if (v.calls != WORKERS * STEPS && !strstr(strategy, "epochs"))
        fail_msg("%s: %lld gradients, stop %s", strategy, (long long)v.calls,
                 fast_run_result(opened)->stop);
    v.time_s = fast_run_result(opened)->virtual_time_s;
    v.messages = fast_run_result(opened)->messages_sent;
    v.bytes = fast_run_result(opened)->bytes_sent;
    v.hash = fast_run_result(opened)->params_hash;
    fast_run_close(opened);
    return v;
}

static views run(const char *strategy, const char *codec, const char *cluster, int64_t slack)
{
    return run_by(NULL, strategy, codec, cluster, slack);
}

static const char *const clusters[] = { "hetero", "hetero:latency=200us,jitter=0.3", "wan",
                                        "ethernet-10g" };
enum { CLUSTERS = sizeof clusters / sizeof clusters[0] };

/* SSP's read-my-writes: a worker's view has all of its own updates, each once, also where a server
 * sent the values before it had them. */
static void workers_see_their_own_updates(void **state)
{
    static const struct {
        const char *strategy;
        int64_t slack;
    } cases[] = { { "ps:slack=3", 3 },
                  { "ps:slack=3,cache_age=3", 3 },
                  { "ps:slack=3,cache_age=1,servers=0", 3 },
                  { "ps:slack=5,cache_age=100,servers=3", 5 },
                  { "ps:slack=4,cache_age=4,global=yes", 4 },
                  { "ps:slack=3,eager=yes", 3 },
                  { "ps:slack=3,eager=yes,servers=0", 3 },
                  { "ps:slack=1,eager=yes,servers=3", 1 },
                  { "ps:slack=30,eager=yes,servers=2", 30 },
                  { "ps:slack=0,eager=yes", -1 } };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int k = 0; k < CLUSTERS; k++) {
            const views v = run(cases[i].strategy, NULL, clusters[k], cases[i].slack);

            if ((v.own_wrong > 0 && cases[i].slack > 0) || v.over_bound > 0)
                fail_msg("%s on %s: %lld own values wrong, %lld older than the bound",
                         cases[i].strategy, clusters[k], (long long)v.own_wrong,
                         (long long)v.over_bound);
        }
}

/* Servers that poll their budgets are slow under sanitizers. */
#ifdef FAST_SANITIZED
enum { TRIED = 1 };
#else
enum { TRIED = CLUSTERS };
#endif

/* The bound holds for every coordinate, also those that a budget holds back, or that wait for the
 * next write. */
static void every_coordinate_is_within_the_bound(void **state)
{
    static const struct {
        const char *strategy;
        const char *codec;
        int64_t slack;
    } cases[] = { { "ps:slack=1,eager=yes", "budget:bytes=8", 1 },
                  { "ps:slack=2,eager=yes,servers=0", "budget:bytes=8", 2 },
                  { "ps:slack=2,servers=2", "budget:bytes=24", 2 },
                  { "ps:slack=5,eager=yes,servers=3", "budget:bytes=8", 5 },
                  { "ps:slack=5,global=yes", "budget:bytes=8", 5 },
                  { "ps:slack=4,eager=yes", "budget:bandwidth=1e5", 4 },
                  { "ps:slack=4,eager=yes,servers=0", "budget:bandwidth=1e7", 4 },
                  { "ps:slack=2,cache_age=2,servers=2", "budget:bytes=24", 2 },
                  { "ps:slack=5,cache_age=3,push=2", NULL, 5 },
                  { "ps:slack=3,push=2", NULL, 3 },
                  { "ps:slack=3,push=4,fetch=4", NULL, 3 } };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int k = 0; k < TRIED; k++) {
            const views v = run(cases[i].strategy, cases[i].codec, clusters[k], cases[i].slack);

            if (v.over_bound > 0 || v.own_wrong > 0)
                fail_msg(
                    "%s with %s on %s: %lld values older than the bound, %lld own values wrong",
                    cases[i].strategy, cases[i].codec ? cases[i].codec : "no codec", clusters[k],
                    (long long)v.over_bound, (long long)v.own_wrong);
        }
}

/* A budget of the servers holds elements of their answers back, and the bound holds for each; own
 * updates that wait at a server are seen all the same. An answer then has fewer bytes. A slack of 0
 * sends everything: it is the run without a budget. */
static void servers_have_a_budget(void **state)
{
    static const struct {
        const char *strategy;
        const char *codec;
        const char *down;
        int64_t slack;
    } cases[] = { { "ps:slack=3,eager=yes", NULL, "budget:bytes=8", 3 },
                  { "ps:slack=2,eager=yes,servers=0", "budget:bytes=8", "budget:bytes=32", 2 },
                  { "ps:slack=5,eager=yes,servers=3", "budget:bytes=24", "budget:bytes=24", 5 },
                  { "ps:slack=4,eager=yes", NULL, "budget:bandwidth=1e4", 4 },
                  { "ps:slack=3,servers=2", NULL, "budget:bytes=16", 3 },
                  { "ps:slack=4,cache_age=2,servers=2", NULL, "budget:bytes=16", 4 },
                  { "ps:slack=9,eager=yes", "budget:bytes=8", "budget:bytes=16", 9 } };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int k = 0; k < 2; k++) {
            codec_down = cases[i].down;
            faults =
                k % 2 ? "slow 3 at 0s by 1.1" : "slow 3 at 0s by 20"; /* no reads at the bound */
            const views v = run(cases[i].strategy, cases[i].codec, clusters[k], cases[i].slack);

            codec_down = "none";
            if (v.over_bound > 0 || v.own_wrong > 0)
                fail_msg(
                    "%s with %s on %s: %lld values older than the bound, %lld own values wrong",
                    cases[i].strategy, cases[i].down, clusters[k], (long long)v.over_bound,
                    (long long)v.own_wrong);
            /* Of a short range the head of a message is the most. */
            if (k == 0 && !cases[i].codec && !strstr(cases[i].strategy, "servers") &&
                run(cases[i].strategy, cases[i].codec, clusters[k], cases[i].slack).bytes <=
                    v.bytes)
                fail_msg("%s with %s: no fewer bytes", cases[i].strategy, cases[i].down);
        }
    faults = "slow 3 at 0s by 20";
    const views whole = run("ps:slack=0,servers=2", NULL, "hetero", 0);

    codec_down = "budget:bytes=8";
    assert_int_equal(run("ps:slack=0,servers=2", NULL, "hetero", 0).hash, whole.hash);
    codec_down = "none";
}

/* Reads that the cache answers cost no message: with a slack of s a worker asks in one of s + 1
 * steps at best, in every step without a cache, and of two ages the smaller one asks more often. An
 * age of 0, or a slack of 0, is the run without a cache. */
static void cached_reads_send_nothing(void **state)
{
    (void)state;
    for (int k = 0; k < CLUSTERS; k += 2) {
        const views all = run("ps:slack=3", NULL, clusters[k], 3);
        const views none = run("ps:slack=3,cache_age=0", NULL, clusters[k], 3);
        const views one = run("ps:slack=3,cache_age=1", NULL, clusters[k], 3);
        const views three = run("ps:slack=3,cache_age=3", NULL, clusters[k], 3);
        const views rounds = run("ps:slack=0", NULL, clusters[k], 0);
        const views cached = run("ps:slack=0,cache_age=3", NULL, clusters[k], 0);

        assert_int_equal(none.messages, all.messages);
        assert_int_equal(none.hash, all.hash);
        assert_int_equal(cached.messages, rounds.messages);
        assert_int_equal(cached.hash, rounds.hash);
        /* A read is a request and an answer with all values. */
        const int64_t reads = WORKERS * STEPS, saved = (all.messages - three.messages) / 2;

        if (one.messages >= all.messages || three.messages >= one.messages || saved > reads * 3 / 4)
            fail_msg("on %s: %lld messages, with an age of 1 %lld, of 3 %lld", clusters[k],
                     (long long)all.messages, (long long)one.messages, (long long)three.messages);
        assert_true(all.bytes - three.bytes >= saved * COUNT * (int64_t)sizeof(float));
        assert_int_equal(three.stale, 3);
    }
}

/* Workers that wait for a slow one send meanwhile the elements that their codec held back. */
static void idle_links_are_used(void **state)
{
    (void)state;
    for (int early = 0; early < 2; early++) {
        /* The slow worker is worker 3; workers that never wait for it send nothing early. */
        const views v = run(early ? "ps:slack=6,eager=yes" : "ps:slack=1000,eager=yes",
                            "budget:bytes=8", "ethernet-10g", early ? 6 : 1000);

        if ((v.parted > 0) != !early)
            fail_msg("slack %s: %lld coordinates without their neighbours", early ? "6" : "1000",
                     (long long)v.parted);
    }
}

/* An epoch ends at 75% of its samples, whoever computed them; a few gradients are under way. */
static void epochs_end_at_a_fraction_of_the_samples(void **state)
{
    static const char *const strategies[] = { "ps:epochs=0.75", "ps:epochs=0.75,servers=2,push=2",
                                              "ps:slack=3,epochs=0.75",
                                              "ps:slack=0,backup=1,epochs=0.75",
                                              "ps:slack=0,backup=2,epochs=0.75,servers=2" };
    const int64_t all = STEPS / 4 * WORKERS;

    (void)state;
    for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++)
        for (int k = 0; k < CLUSTERS; k++) {
            const views v = run(strategies[i], NULL, clusters[k], -1);

            for (int e = 0; e < 4; e++)
                if (v.epochs[e] < 3 * all / 4 || v.epochs[e] > 3 * all / 4 + WORKERS)
                    fail_msg("%s on %s: %lld of %lld gradients in epoch %d", strategies[i],
                             clusters[k], (long long)v.epochs[e], (long long)all, e);
        }
}

/* The true difference, measured between the calls of a worker's loop. The simulator runs one actor
 * at a time, so that all workers can use one record. */
static struct {
    float issued[COUNT];        /* updates that were sent, in flight ones too */
    float view[WORKERS][COUNT]; /* weights that a worker computes with */
    bool computes[WORKERS];     /* it computes with them now */
    float difference;           /* largest between a view in use and the true weights */
} record;

static void measure(void)
{
    for (int64_t k = 0; k < WORKERS; k++)
        for (int64_t i = 0; record.computes[k] && i < COUNT; i++)
            record.difference =
                fmaxf(record.difference, fabsf(record.issued[i] - record.view[k][i]));
}

/* The loop of ps.c, with a look before and after each gradient and write. */
static fast_err probe(fast_trainer *t, const void *config)
{
    const ps_config *c = config;
    ps_decision decision = PS_STEP;
    ps_writer wr;
    fast_err err = fast__ps_writer_open(t, c, t->g, &wr);

    while (!err && fast_trainer_next(t) && !(err = fast__ps_prepare(&wr, &decision))) {
        memcpy(record.view[t->rank], t->w, sizeof record.view[0]);
        record.computes[t->rank] = true;
        measure();
        if (!err)
            err = fast__ps_gradient(&wr);
        /* Other workers may send at the moment at which this one has ended its gradient. */
        record.computes[t->rank] = false;
        if (!err)
            err = fast__ps_push(&wr);
        for (int64_t i = 0; i < COUNT; i++)
            record.issued[i] += 1;
        measure();
        if (!err)
            err = fast__ps_tick(&wr);
    }
    if (!err)
        err = fast_trainer_end(t);
    const fast_err last = fast__ps_writer_close(&wr);
    return err ? err : last;
}

/* Weights that are in use differ from the true ones by no more than the bound, which falls with the
 * step: the first is the least strict. Here all workers change all weights, by 1 in each step. The
 * weak bound is exceeded. */
static void values_are_within_their_bound(void **state)
{
    static const struct {
        const char *options; /* of ps */
        float bound;         /* of the difference at step 1 */
        bool exceeded;       /* it does not hold */
    } cases[] = {
        { "value=4,weak=yes", 4, true },
        { "value=26,servers=1", 26, false }, /* 26 / (4 sqrt(40)): an update is within it */
        { "value=26,servers=3", 26, false },
        { "value=60,servers=0", 60, false },
        { "value=0.01", WORKERS, false }, /* updates that are larger: one of each worker */
        { "value=0.01,servers=2", WORKERS, false },
        { "value=0.01,fetch=3", WORKERS, false }, /* a worker that has waited reads */
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int k = 0; k < CLUSTERS; k++) {
            fast_strategy own = fast__strategy_ps;
            char text[64];

            memset(&record, 0, sizeof record);
            own.name = "probe";
            own.member = NULL;
            own.worker = probe;
            snprintf(text, sizeof text, "probe:%s", cases[i].options);
            (void)run_by(&own, text, NULL, clusters[k], -1);
            if ((record.difference > cases[i].bound) != cases[i].exceeded)
                fail_msg("ps:%s on %s: a difference of %g", cases[i].options, clusters[k],
                         (double)record.difference);
        }
}

/* A worker of ps whose clock is read in its gradients. */
static fast_err clocked(fast_trainer *t, const void *config)
{
    used.actors[t->rank] = t->actor;
    return fast__strategy_ps.worker(t, config);
}

/* The bound holds through proxies, also while snapshots make groups yield to each other. Updates
 * are larger than it: with P proxies a view may lack one of each other group. Without a bound
 * groups leave the slow one behind. */
static void values_are_within_their_bound_through_proxies(void **state)
{
    static const struct {
        const char *options; /* of ps */
        float bound;         /* of the difference */
        bool exceeded;       /* it does not hold */
    } cases[] = {
        { "value=0.01,proxies=2", 1, false },
        { "value=0.01,proxies=4,servers=2", 3, false },
        { "value=0.01,proxies=2,levels=2", 1, false },
        { "value=0.01,proxies=4,fetch=3", 3, false },
        { "value=1e9,proxies=2", 1, true },
    };
    char path[64];

    (void)state;
    snprintf(path, sizeof path, "checkpoint=/tmp/ps_views_test.%d.safetensors", (int)getpid());
    for (size_t i = 0; i < 2 * sizeof cases / sizeof cases[0]; i++) {
        fast_strategy own = fast__strategy_ps;
        char text[64];

        memset(&used, 0, sizeof used);
        used.time_ns = 0.9e9 * run("ensemble", NULL, "ethernet-10g", -1).time_s / (20 * STEPS);
        own.name = "clocked";
        own.member = NULL;
        own.worker = clocked;
        snprintf(text, sizeof text, "clocked:%s", cases[i / 2].options);
        checkpoint = i % 2 ? path : NULL;
        (void)run_by(&own, text, NULL, "ethernet-10g", -1);
        checkpoint = NULL;
        if ((used.difference > cases[i / 2].bound) != cases[i / 2].exceeded)
            fail_msg("ps:%s, %s: a difference of %g", cases[i / 2].options,
                     i % 2 ? "with snapshots" : "without", (double)used.difference);
    }
    (void)remove(strchr(path, '=') + 1);
    memset(&used, 0, sizeof used);
}

/* Cancel the run in the fifth gradient. */
static fast_err stop_soon(void *ctx, fast_learner_request *r)
{
    if (r->step == 4)
        fast_run_cancel(*(fast_run **)ctx);
    r->g[0] = 1;
    r->loss = 1;
    r->samples = 1;
    return FAST_OK;
}

/* While worker 0 warms up alone the others have no message of it: a cancel ends them all the
 * same. */
static void a_warm_start_stops_when_asked(void **state)
{
    static const fast_learner_tensor tensors[] = { { "w", 1, { 1 }, NULL } };
    static const char *const options[] = { "strategy=ps:warm=20", "transport=sim",
                                           "workers=3",           "batch=1",
                                           "steps=100",           NULL };
    fast_run *run = NULL;
    const fast_learner_kind kind = { .size = sizeof kind,
                                     .name = "stops",
                                     .params = tensors,
                                     .param_count = 1,
                                     .samples = 9,
                                     .operations = 1e8,
                                     .gradient = stop_soon,
                                     .ctx = &run };

    (void)state;
    assert_int_equal(fast_run_open_learner(options, &kind, NULL, &run), FAST_OK);
    alarm(120); /* workers that wait for ever do so in virtual time */
    assert_int_equal(fast_run_train(run), FAST_OK);
    alarm(0);
    assert_true(fast_run_result(run)->canceled);
    fast_run_close(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_see_their_own_updates),
        cmocka_unit_test(every_coordinate_is_within_the_bound),
        cmocka_unit_test(cached_reads_send_nothing),
        cmocka_unit_test(servers_have_a_budget),
        cmocka_unit_test(idle_links_are_used),
        cmocka_unit_test(epochs_end_at_a_fraction_of_the_samples),
        cmocka_unit_test(values_are_within_their_bound),
        cmocka_unit_test(values_are_within_their_bound_through_proxies),
        cmocka_unit_test(a_warm_start_stops_when_asked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
