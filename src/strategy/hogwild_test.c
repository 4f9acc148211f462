/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hogwild and its relatives, and ensembles. Goal: one worker is plain SGD; simulated races repeat
 * to the bit; all members learn, on threads too, where thread sanitizers look on; workers that
 * share no memory are refused; lost messages and workers are survived; models of clusters mix by
 * their formula; an ensemble's model is one of its members. Method: small runs, compared by their
 * hashes, losses and accuracies.
 */
#include "base/rng.h"
#include "fast/learner.h"
#include "replicas.h"
#include "small_run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static fast_result train_with(const char *strategy, int workers, const char *const *more)
{
    const char *list[24] = { "evaluate=12steps", "optimizer=momentum", "lr=0.02" };
    int used = 3;

    for (int i = 0; more && more[i]; i++)
        list[used++] = more[i];
    return test_small_run(strategy, workers, list);
}

static const char *const sim[] = { "transport=sim", "cluster=laptop", NULL };
static const char *const threads[] = { "transport=threads", NULL };

static const char *const members[] = { "hogwild", "hogwild:chunk=100",
                                       "hogwild:clusters=2,period=2", "dogwild:chunk=1000",
                                       "ensemble" };
enum { MEMBERS = sizeof members / sizeof *members };

static void one_worker_is_plain(void **state)
{
    static const char *const clipped[] = { "transport=sim", "optimizer=momentum:clip_norm=0.5",
                                           NULL };
    const uint64_t plain = train_with("allreduce", 1, sim).params_hash;

    (void)state;
    assert_int_equal(train_with("hogwild", 1, sim).params_hash, plain);
    assert_int_equal(train_with("hogwild:chunk=7", 1, sim).params_hash, plain);
    assert_int_equal(train_with("hogwild", 1, threads).params_hash, plain);
    assert_int_equal(train_with("ensemble", 1, threads).params_hash, plain);
    /* A rule that needs the norm of the whole is not cut. */
    assert_int_equal(train_with("hogwild:chunk=7", 1, clipped).params_hash,
                     train_with("allreduce", 1, clipped).params_hash);
    /* Dogwild adds up changes: the same to rounding. */
    assert_true(fabs(train_with("dogwild:chunk=1000", 1, sim).loss -
                     train_with("allreduce", 1, sim).loss) < 0.05);
}

static void members_run_and_repeat(void **state)
{
    static const char *const still[] = { "transport=sim", "cluster=laptop", "lr=0", NULL };
    const uint64_t first = train_with("allreduce", 4, still).params_hash;

    (void)state;
    for (int i = 0; i < MEMBERS; i++) {
        const fast_result a = train_with(members[i], 4, sim);
        const fast_result b = train_with(members[i], 4, sim);

        assert_int_equal(a.params_hash, b.params_hash);
        assert_memory_equal(&a.virtual_time_s, &b.virtual_time_s, sizeof a.virtual_time_s);
        assert_int_not_equal(a.params_hash, first);
        /* Members of an ensemble have initial weights of their own. */
        assert_true((train_with(members[i], 4, still).params_hash == first) ==
                    (strcmp(members[i], "ensemble") != 0));
        assert_int_equal(train_with(members[i], 4, threads).steps, 24);
    }
    /* How the scheduler interleaves chunks matters: it is a race. */
    assert_int_not_equal(train_with(members[0], 4, sim).params_hash,
                         train_with(members[1], 4, sim).params_hash);
    assert_true(train_with("hogwild", 4, sim).staleness_max > 0);
}

static void memory_must_be_shared(void **state)
{
    const char *options[] = { "model=mlp:hidden=12", "data=digits:train=160,test=32",
                              "engine=ref",          "workers=2",
                              "strategy=hogwild",    "transport=sim",
                              "cluster=ideal",       NULL };
    fast_run *run = NULL;

    (void)state;
    assert_int_equal(fast_run_open(options, &run), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "workers 0 and 1 do not share memory"));
    options[6] = NULL; /* where no cluster is given, it is one that has shared memory */
    assert_int_equal(fast_run_open(options, &run), FAST_OK);
    assert_int_equal(fast_run_train(run), FAST_OK);
    fast_run_close(run);
    options[6] = "cluster=ideal";
    options[3] = "workers=1"; /* nobody to share it with */
    assert_int_equal(fast_run_open(options, &run), FAST_OK);
    assert_int_equal(fast_run_train(run), FAST_OK);
    fast_run_close(run);
}

/* Messages of dogwild get lost; a worker of it, and one of an ensemble, crashes. */
static void losses_are_survived(void **state)
{
    static const char *const lossy[] = { "transport=sim", "cluster=ideal:loss=0.3", "steps=60",
                                         NULL };
    static const char *const crash[] = { "transport=sim", "faults=crash 2 at 300us", "steps=60",
                                         NULL };

    (void)state;
    assert_int_equal(train_with("dogwild:chunk=1000", 3, lossy).steps, 60);
    assert_true(train_with("dogwild:chunk=1000", 4, crash).steps < 60);
    assert_true(train_with("ensemble", 4, crash).steps < 60);
}

/* Weights overwrite the master's: with one worker and no answer in time the run's model is that of
 * plain SGD, to the bit. Two replicas that begin with unit vectors and do not learn still have them
 * in the end; changes, which are 0, leave the master's first model to both. */
static void weights_overwrite_the_master(void **state)
{
    static const char *const ideal[] = { "transport=sim", "cluster=ideal", NULL };
    static const char *const lossy[] = { "transport=sim", "cluster=ideal:loss=0.3", NULL };
    static const char *const strategies[] = { "dogwild:sends=weights", "dogwild" };

    (void)state;
    assert_int_equal(train_with("dogwild:chunk=1000,sends=weights", 1, ideal).params_hash,
                     train_with("allreduce", 1, ideal).params_hash);
    assert_int_equal(train_with("dogwild:chunk=1000,sends=weights", 3, lossy).steps, 24);
    for (int i = 0; i < 2; i++) {
        const test_replicas_options o = {
            .strategy = strategies[i], .workers = 2, .steps = 20, .apart = true
        };
        test_replicas r;

        test_replicas_run(&o, &r);
        assert_int_equal(r.err, FAST_OK);
        for (int64_t k = 0; k < 2; k++) {
            const bool unit = r.last[k][k] == 1 && r.last[k][1 - k] == 0;

            assert_true(unit == (i == 0));
        }
        test_replicas_free(&r);
    }
}

static void members_learn(void **state)
{
    static const char *const longer[] = { "data=digits:train=4000,test=400",
                                          "model=mlp:hidden=64",
                                          "transport=sim",
                                          "cluster=laptop",
                                          "steps=300",
                                          "evaluate=end",
                                          "engine=auto",
                                          "optimizer=sgd",
                                          "lr=0.4",
                                          "batch=16",
                                          NULL };
    const char *quarter[16];
    int n = 0;
#ifdef FAST_SANITIZED
    const bool all = false;
#else
    const bool all = true;
#endif
    const double sync = all ? train_with("allreduce", 4, longer).test_accuracy : 0;

    (void)state;
    for (; longer[n]; n++) /* updates of four workers add up: a quarter of the rate */
        quarter[n] = strncmp(longer[n], "lr=", 3) == 0 ? "lr=0.1" : longer[n];
    quarter[n] = NULL;
    for (int i = 0; i < MEMBERS && all; i++) {
        const char *const *how = strcmp(members[i], "ensemble") == 0 ? longer : quarter;
        const double accuracy = train_with(members[i], 4, how).test_accuracy;

        print_message("%-34s %.3f (allreduce %.3f)\n", members[i], accuracy, sync);
        if (!(accuracy > sync - 0.05)) /* it is 0.02 here; other engines round otherwise */
            fail_msg("%s learned only %.3f, allreduce %.3f", members[i], accuracy, sync);
    }
}

/* A sparse model that counts: each gradient adds 1 to few of its weights. */
enum { WEIGHTS = 2048, TOUCHED = 16 };
typedef struct counting {
    bool disjoint;     /* workers touch different weights of the same chunks */
    atomic_llong sent; /* increments of all gradients */
    double received;   /* sum of the weights at the last evaluation */
} counting;

static fast_err count_gradient(void *ctx, fast_learner_request *request)
{
    counting *c = ctx;
    fast_rng rng;

    fast__rng_init(&rng, 5, FAST_PURPOSE_TEST, (uint64_t)request->worker, (uint64_t)request->step,
                   0);
    memset(request->g, 0, WEIGHTS * sizeof *request->g);
    for (int i = 0; i < TOUCHED; i++) {
        uint64_t at = fast__rng_below(&rng, WEIGHTS / 4) * 4;

        if (c->disjoint)
            at += (uint64_t)request->worker;
        atomic_fetch_add(&c->sent, request->g[at] == 0);
        request->g[at] = -1;
    }
    request->loss = 1;
    request->samples = request->batch;
    return FAST_OK;
}

static fast_err count_evaluate(void *ctx, fast_learner_request *request)
{
    counting *c = ctx;

    c->received = 0;
    for (int i = 0; i < WEIGHTS; i++)
        c->received += (double)request->w[i];
    request->loss = 1;
    request->samples = 1;
    return FAST_OK;
}

/* Updates of few weights are never lost: neither to zero gradients of other workers in the same
 * chunk, nor to updates of the same weight. */
static void sparse_updates_are_not_lost(void **state)
{
    static const char *const places[] = { "transport=sim", "transport=threads" };

    (void)state;
    for (int k = 0; k < 4; k++) {
        const char *options[] = { "strategy=hogwild", places[k % 2], "workers=2",
                                  "optimizer=sgd",    "lr=1",        "schedule=constant",
                                  "steps=400",        "batch=1",     "evaluate=end",
                                  "store=none",       NULL };
        const fast_learner_tensor weights = { .name = "w", .rank = 1, .shape = { WEIGHTS } };
        counting c = { .disjoint = k < 2 };
        const fast_learner_kind kind = { .name = "counting",
                                         .params = &weights,
                                         .param_count = 1,
                                         .samples = 1000,
                                         .operations = 1e4,
                                         .gradient = count_gradient,
                                         .evaluate = count_evaluate,
                                         .ctx = &c };
        fast_run *run = NULL;

        if (fast_run_open_learner(options, &kind, NULL, &run) || fast_run_train(run))
            fail_msg("%s", fast_error_detail());
        assert_int_equal(fast_run_result(run)->steps, 400);
        fast_run_close(run);
        assert_true(c.sent > 400 * (TOUCHED - 4));
        if (c.received != (double)c.sent)
            fail_msg("%s: %g of %lld updates are there", places[k % 2], c.received,
                     (long long)c.sent);
    }
}

/* Hogwild++ with a change of 1 by worker 0 in its first step: the models that workers see later. */
enum { CLUSTERS = 3, VIEWS = 60 };
typedef struct ring_views {
    double seen[CLUSTERS][VIEWS]; /* by each worker at each step */
} ring_views;

static fast_err ring_gradient(void *ctx, fast_learner_request *request)
{
    ring_views *views = ctx;

    views->seen[request->worker][request->step] = (double)request->w[0];
    request->g[0] = request->worker == 0 && request->step == 0 ? -1 : 0;
    request->loss = 1;
    request->samples = request->batch;
    return FAST_OK;
}

static fast_err ring_evaluate(void *ctx, fast_learner_request *request)
{
    (void)ctx;
    request->loss = 1;
    request->samples = 1;
    return FAST_OK;
}

/* Return the number of passes of the token, `passes` or more, after which a worker saw what it saw;
 * -1 if none of the next ones gives that. The reference is the formula in its own words:
 * beta + beta^2 + beta^3 = 1 and lambda = 1 - beta^2, in a ring of three models. */
static int64_t passes_of(int64_t worker, double seen, int64_t passes)
{
    const double beta = 0.54368901269207637, lambda = 1 - beta * beta;
    double model[CLUSTERS] = { 1, 0, 0 }, before[CLUSTERS] = { 0 };

    for (int64_t p = 0; p <= passes + 2 * CLUSTERS; p++) {
        const int64_t from = p % CLUSTERS, to = (p + 1) % CLUSTERS;
        const double change = model[from] - before[from];

        if (p >= passes && fabs(model[worker] - seen) < 1e-6)
            return p;
        before[from] = model[from];
        model[to] += lambda * beta * change + (1 - lambda) * (model[from] - model[to]);
    }
    return -1;
}

static void clusters_mix_by_the_formula(void **state)
{
    const fast_learner_tensor weight = { .name = "w", .rank = 1, .shape = { 1 } };
    const char *options[] = { "strategy=hogwild:clusters=3,period=1",
                              "transport=sim",
                              "workers=3",
                              "optimizer=sgd",
                              "lr=1",
                              "schedule=constant",
                              "steps=60",
                              "batch=1",
                              "store=none",
                              NULL };
    static ring_views views;
    const fast_learner_kind kind = { .name = "ring",
                                     .params = &weight,
                                     .param_count = 1,
                                     .samples = 1000,
                                     .operations = 1e6,
                                     .gradient = ring_gradient,
                                     .evaluate = ring_evaluate,
                                     .ctx = &views };
    fast_run *run = NULL;

    (void)state;
    if (fast_run_open_learner(options, &kind, NULL, &run) || fast_run_train(run))
        fail_msg("%s", fast_error_detail());
    fast_run_close(run);
    for (int64_t k = 0; k < CLUSTERS; k++) {
        int64_t passes = 0;

        /* A view is that of the step before: the first with the change is the third. */
        for (int64_t i = k == 0 ? 2 : 1; i < VIEWS && passes >= 0; i++) {
            passes = passes_of(k, views.seen[k][i], passes);
            if (passes < 0)
                fail_msg("worker %d saw %.9f at step %d", (int)k, views.seen[k][i], (int)i);
        }
        assert_true(passes > 2 * CLUSTERS);
    }
}

static void nonsense_is_refused(void **state)
{
    static const char *const bad[] = { "hogwild:clusters=3", "hogwild:chunk=0", "dogwild:rate=0",
                                       "ensemble:members=2" };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[128];
        const char *options[] = { text, "workers=2", "data=digits:train=64,test=16",
                                  "model=mlp:hidden=4", NULL };
        fast_run *run = NULL;

        snprintf(text, sizeof text, "strategy=%s", bad[i]);
        if (fast_run_open(options, &run) != FAST_EINVAL)
            fail_msg("%s is not refused", bad[i]);
        assert_null(run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_worker_is_plain),          cmocka_unit_test(members_run_and_repeat),
        cmocka_unit_test(memory_must_be_shared),        cmocka_unit_test(losses_are_survived),
        cmocka_unit_test(weights_overwrite_the_master), cmocka_unit_test(members_learn),
        cmocka_unit_test(clusters_mix_by_the_formula),  cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(sparse_updates_are_not_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
