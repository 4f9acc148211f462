/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of several workers. Goal: synchronous runs are the same to the bit on every transport, after
 * a cancel and after a resume, and equal to what one worker computes; every strategy stops when it
 * is asked to, repeats in sim, and says what it cannot do; who crashes is named or survived; a slow
 * evaluation fails nobody. Method: a small model on small data, compared by params_hash; limits of
 * one strategy that are another; faults in sim.
 *
 * With the argument "mpi", under mpirun: the same hash on the ranks as on threads; with "patient"
 * besides, without what has a short timeout.
 */
#include "base/hash.h"
#include "base/memory.h"
#include "run/team.h"
#include "tensor/sum.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { OPTIONS_MAX = 32, WORKERS_MAX = 4, STEPS = 12 };

#ifdef FAST_SANITIZED
enum { TRIES = 1, STRIDE = 29 };
#else
enum { TRIES = 4, STRIDE = 3 };
#endif
#ifdef __SANITIZE_THREAD__ /* which has nothing to say of the simulator: one thread */
enum { SIM = false };
#else
enum { SIM = true };
#endif

static char folder[128]; /* of this program's files */

/* Every test's job; later options win. */
static const char *const always[] = { "engine=ref",
                                      "model=mlp:hidden=12",
                                      "data=digits:train=160,test=24",
                                      "batch=8",
                                      "lr=0.1",
                                      "steps=12",
                                      "plan=no" };

#define LIST(...) ((const char *[]){ __VA_ARGS__, NULL })

static fast_err open_with(const char *const *more, fast_network *network, fast_run **run)
{
    const char *options[OPTIONS_MAX] = { NULL };
    int count = 0;

    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        options[count++] = always[i];
    for (; more && *more; more++)
        options[count++] = *more;
    assert_true(count < OPTIONS_MAX);
    return fast_run_open_with(options, network, NULL, NULL, run);
}

static fast_run *open_run(const char *const *more)
{
    fast_run *run = NULL;

    if (open_with(more, NULL, &run))
        fail_msg("%s", fast_error_detail());
    return run;
}

static void train(fast_run *run)
{
    if (fast_run_train(run))
        fail_msg("%s", fast_error_detail());
}

static fast_result result_of(const char *const *more)
{
    fast_run *run = open_run(more);
    fast_result result;

    train(run);
    result = *fast_run_result(run);
    fast_run_close(run);
    return result;
}

static const char *text(char *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static const char *text(char *buffer, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(buffer, 256, format, arguments);
    va_end(arguments);
    return buffer;
}

/* Strategies whose workers write to one memory are simulated on one node. */
static const char *cluster_of(const fast_strategy *strategy)
{
    return strategy->shares_memory ? "cluster=laptop" : "cluster=ethernet-1g";
}

/* The same on every transport. */

static void same_bits_on_every_transport(void **state)
{
    static const char *const pools[] = { "pool=0", "pool=1", "pool=2" };
    const uint64_t plain = result_of(NULL).params_hash;
    char workers[256];

    (void)state;
    for (int n = 1; n <= WORKERS_MAX; n++) {
        const char *w = text(workers, "workers=%d", n);
        const uint64_t hash =
            result_of(LIST(w, "strategy=allreduce", "transport=threads")).params_hash;

        if (n == 1)
            assert_true(hash == plain);
        else
            assert_true(hash != plain);
        for (int i = 0; i < 3; i++) {
            const fast_result r = result_of(
                LIST(w, "strategy=allreduce", "transport=sim", "cluster=hetero", pools[i]));

            assert_true(r.params_hash == hash);
            assert_true(r.steps == STEPS && r.samples == STEPS * 8 * n);
        }
        assert_true(result_of(LIST(w, "strategy=allreduce:algorithm=tree")).params_hash == hash);
        assert_true(result_of(LIST(w, "strategy=allreduce:overlap=yes,bucket=4")).params_hash ==
                    hash);
        assert_true(result_of(LIST(w, "strategy=ps:slack=0", "transport=sim")).params_hash == hash);
        assert_true(result_of(LIST(w, "strategy=ps:slack=0,servers=2")).params_hash == hash);
    }
}

/* The largest distance of two runs' weights, after training. */
static double distance(const char *const *a, const char *const *b)
{
    fast_run *runs[2] = { open_run(a), open_run(b) };
    double largest = 0;

    train(runs[0]);
    train(runs[1]);
    for (int64_t i = 0; i < runs[0]->learner->params.count; i++)
        largest =
            fmax(largest, fabs((double)runs[0]->learner->w[i] - (double)runs[1]->learner->w[i]));
    fast_run_close(runs[0]);
    fast_run_close(runs[1]);
    return largest;
}

/* One worker that adds up the gradients of all in the canonical order. */
static uint64_t accumulate(const fast_run *run, int n)
{
    fast_loader *loaders[WORKERS_MAX] = { NULL };
    fast_learner *learners[WORKERS_MAX] = { NULL };
    const float *g[WORKERS_MAX];
    const int64_t count = run->learner->params.count;
    float *w = NULL, *sum = NULL;
    uint64_t hash;

    assert_int_equal(fast__alloc("weights", count, sizeof *w, &w), FAST_OK);
    assert_int_equal(fast__alloc("a sum", count, sizeof *sum, &sum), FAST_OK);
    memcpy(w, run->learner->w, (size_t)count * sizeof *w);
    for (int i = 0; i < n; i++) {
        const fast_loader_options options = {
            .seed = 1, .batch = 8, .workers = n, .worker = i, .shuffle = true
        };
        fast_native_options native = { .graph = run->graph,
                                       .engine = run->engine,
                                       .program = run->program,
                                       .workspace = run->workspace,
                                       .seed = 1 };

        assert_int_equal(fast__loader_new(run->data.train, &options, &loaders[i]), FAST_OK);
        native.loader = loaders[i];
        assert_int_equal(fast__native_new(&native, &learners[i]), FAST_OK);
        g[i] = learners[i]->g;
    }
    for (int64_t step = 0; step < STEPS; step++) {
        for (int i = 0; i < n; i++) {
            fast_gradient gradient = { .step = step };

            memcpy(learners[i]->w, w, (size_t)count * sizeof *w);
            assert_int_equal(learners[i]->ops->gradient(learners[i], &gradient), FAST_OK);
        }
        fast__sum(g, n, count, sum);
        fast__optimizer_apply_scaled(run->optimizer, step + 1,
                                     fast__schedule_lr(run->schedule, step), w, sum,
                                     1.0f / (float)n);
    }
    hash = fast__hash(w, (size_t)count * sizeof *w, 0);
    for (int i = 0; i < n; i++) {
        learners[i]->ops->free(learners[i]);
        fast__loader_free(loaders[i]);
    }
    fast__free(w);
    fast__free(sum);
    return hash;
}

static void equals_one_worker_that_accumulates(void **state)
{
    char workers[256];

    (void)state;
    for (int n = 2; n <= WORKERS_MAX; n++) {
        const char *w = text(workers, "workers=%d", n);
        fast_run *run = open_run(LIST(w));

        assert_true(accumulate(run, n) == result_of(LIST(w)).params_hash);
        fast_run_close(run);
    }
}

/* A network without statistics, but with dropout: masks belong to places of the global batch. */
static fast_network *plain_network(void)
{
    static const char *const lines[] = { "conv 3 kernel=5 stride=2", "relu", "dropout 0.3",
                                         "flatten", "dense 10" };
    fast_network *network = NULL;

    assert_int_equal(fast_network_new(&network), FAST_OK);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_int_equal(fast_network_add(network, lines[i]), FAST_OK);
    return network;
}

static fast_result result_with(const char *const *more, fast_network *network)
{
    fast_run *run = NULL;
    fast_result result;

    if (open_with(more, network, &run))
        fail_msg("%s", fast_error_detail());
    train(run);
    result = *fast_run_result(run);
    fast_run_close(run);
    return result;
}

/* Accumulation: N workers are one that accumulates N batches, over several epochs, with
 * any engine and rule; and where both are powers of two, fewer workers that accumulate more. */
static void workers_are_accumulated_batches(void **state)
{
    static const char *const rules[] = { "optimizer=momentum", "optimizer=adam", "optimizer=lars" };
    int64_t count = 0;
    const fast_part *engines = fast_part_list("engine", &count);
    fast_network *network = plain_network();

    (void)state;
    for (int64_t e = 0; e < count; e++)
        for (int n = 2; n <= WORKERS_MAX; n++) {
            char engine[256], w[256], a[256];
            const char *rule = rules[n % 3];
            const char *g = text(engine, "engine=%s", engines[e].name);
            const fast_result many = result_with(
                LIST(g, text(w, "workers=%d", n), rule, "lr=0.01", "augment=shift:1"), network);
            const fast_result one = result_with(LIST(g, "workers=1", text(a, "accumulate=%d", n),
                                                     rule, "lr=0.01", "augment=shift:1"),
                                                network);

            assert_true(one.params_hash == many.params_hash);
            assert_true(one.samples == many.samples && one.steps == many.steps);
            assert_true(one.test_loss == many.test_loss && fabs(one.loss - many.loss) < 1e-6);
        }
    fast_network_free(network);
    assert_true(result_of(LIST("workers=4")).params_hash ==
                result_of(LIST("workers=2", "accumulate=2")).params_hash);
    assert_true(result_of(LIST("workers=4", "accumulate=1")).params_hash ==
                result_of(LIST("workers=4")).params_hash);
    assert_true(result_of(LIST("workers=2", "accumulate=2",
                               "strategy=allreduce:overlap=yes,bucket=4", "transport=sim"))
                    .params_hash == result_of(LIST("accumulate=4")).params_hash);
    assert_true(distance(LIST("accumulate=4"), LIST("batch=32")) < 2e-7);
    assert_true(distance(LIST("accumulate=3", "shard=contiguous", "workers=2"),
                         LIST("batch=24", "shard=contiguous", "workers=2")) < 2e-7);
}

static void equals_others_to_rounding(void **state)
{
    (void)state;
    /* One worker of batch N B. */
    assert_true(distance(LIST("workers=4"), LIST("workers=1", "batch=32")) < 2e-7);
    /* Averaging at each step is the mean gradient, where the rule is linear. */
    assert_true(distance(LIST("workers=3", "optimizer=sgd"),
                         LIST("workers=3", "optimizer=sgd", "strategy=local:period=1")) < 1e-6);
    /* It matters which rule: this one is not. */
    assert_true(
        distance(LIST("workers=3", "optimizer=adam", "lr=0.01"),
                 LIST("workers=3", "optimizer=adam", "lr=0.01", "strategy=local:period=1")) > 1e-4);
}

/* Sums that begin during the gradient are the same. Where the engine reports layer by layer they
 * hide a slow network; the reference reports at its end. */
static void overlap_changes_the_time_only(void **state)
{
    static const char *const optimizers[] = { "optimizer=momentum", "optimizer=lamb" };
    static const char *const specs[] = { "strategy=allreduce:overlap=no", "strategy=allreduce" };
    int64_t count = 0;
    const fast_part *engines = fast_part_list("engine", &count);

    (void)state;
    for (int64_t e = 0; e < count; e++)
        for (int i = 0; i < 2; i++) {
            char engine[256];
            fast_result r[2];

            for (int k = 0; k < 2; k++)
                r[k] = result_of(LIST(text(engine, "engine=%s", engines[e].name), "workers=3",
                                      "transport=sim", "cluster=ethernet-1g",
                                      "model=mlp:hidden=256", optimizers[i], "lr=0.01", "steps=4",
                                      "batch=32", "evaluate=no", specs[k]));
            assert_true(r[0].params_hash == r[1].params_hash);
            if (strcmp(engines[e].name, "cpu") == 0)
                assert_true(r[1].time_s < 0.95 * r[0].time_s && r[1].wait_s < r[0].wait_s);
        }
}

/* A network with statistics that are not trained, and with dropout. */
static fast_network *odd_network(void)
{
    static const char *const lines[] = {
        "conv 3 kernel=5 stride=2", "batch_norm", "relu", "dropout 0.3", "flatten", "dense 10"
    };
    fast_network *network = NULL;

    assert_int_equal(fast_network_new(&network), FAST_OK);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_int_equal(fast_network_add(network, lines[i]), FAST_OK);
    return network;
}

/* Stopping, and continuing. */

typedef struct stopper {
    fast_run *run;
    int64_t step; /* cancel at the evaluation of this step */
    int delay_us; /* of the thread that cancels */
    int naps;     /* evaluations that sleep */
} stopper;

static void stop_at(void *ctx, const fast_event *event)
{
    stopper *s = ctx;

    if (event->kind == FAST_EVENT_EVALUATE && event->step == s->step)
        fast_run_cancel(s->run);
}

static void same_steps(const fast_run *run)
{
    for (int64_t i = 0; i < run->team->workers; i++)
        assert_int_equal(run->team->actors[i]->context.trainer.step, run->step);
}

/* Cut a run at a step, resume it from its file elsewhere, and give the hash of its end. */
static uint64_t cut(int64_t step, const char *transport, const char *then)
{
    char path[256], checkpoint[256], resume[256];
    fast_network *network = odd_network();
    stopper s = { .step = step };
    uint64_t hash;

    text(path, "%s/cut.safetensors", folder);
    text(checkpoint, "checkpoint=%s", path);
    text(resume, "resume=%s", path);
    if (open_with(LIST("workers=3", "evaluate=1steps", transport, checkpoint), network, &s.run))
        fail_msg("%s", fast_error_detail());
    fast_run_watch(s.run, stop_at, &s);
    train(s.run);
    assert_true(fast_run_result(s.run)->canceled);
    assert_string_equal(fast_run_result(s.run)->stop, "canceled");
    assert_in_range(s.run->step, step, step + 1);
    same_steps(s.run);
    fast_run_close(s.run);
    if (open_with(LIST("workers=3", "evaluate=1steps", then, resume), network, &s.run))
        fail_msg("%s", fast_error_detail());
    assert_in_range(s.run->step, step, step + 1);
    train(s.run);
    assert_int_equal(fast_run_result(s.run)->steps, STEPS);
    hash = fast_run_result(s.run)->params_hash;
    fast_run_close(s.run);
    fast_network_free(network);
    assert_int_equal(unlink(path), 0);
    return hash;
}

static void resumed_runs_are_the_same(void **state)
{
    fast_network *network = odd_network();
    fast_run *run = NULL;
    uint64_t hash;

    (void)state;
    assert_int_equal(open_with(LIST("workers=3"), network, &run), FAST_OK);
    train(run);
    hash = fast_run_result(run)->params_hash;
    fast_run_close(run);
    fast_network_free(network);
    for (int64_t step = 1; step < STEPS - 1; step += 3)
        assert_true(cut(step, "transport=sim", "transport=threads") == hash);
    assert_true(cut(5, "transport=threads", "transport=sim") == hash);
}

static void *cancel_soon(void *ctx)
{
    const stopper *s = ctx;
    const struct timespec delay = { 0, s->delay_us * 1000L };

    nanosleep(&delay, NULL);
    fast_run_cancel(s->run);
    return NULL;
}

/* Cancel at any moment, several times; the continued run comes to its end. */
static uint64_t cancel_often(const char *strategy, const char *transport, int seed)
{
    char spec[256];
    fast_run *run = open_run(
        LIST("workers=3", text(spec, "strategy=%s", strategy), transport, "steps=60", "timeout=20",
             strcmp(transport, "transport=sim") == 0 ? "pool=0" : "prefetch=auto"));
    uint64_t hash;

    srand((unsigned)seed);
    for (int i = 0; i < 3; i++) {
        stopper s = { .run = run, .delay_us = rand() % 3000 };
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, cancel_soon, &s), 0);
        train(run);
        pthread_join(thread, NULL);
        if (run->team->strategy->synchronous)
            same_steps(run);
    }
    while (run->step < run->step_count && !run->finished) /* the last cancel may come late */
        train(run);
    assert_int_equal(fast_run_result(run)->steps, 60);
    hash = fast_run_result(run)->params_hash;
    fast_run_close(run);
    return hash;
}

static void canceled_at_any_moment(void **state)
{
    const uint64_t hash = result_of(LIST("workers=3", "steps=60")).params_hash;
    static const char *const transports[] = { "transport=threads", "transport=sim" };

    (void)state;
    for (int t = 0; t < (SIM ? 2 : 1); t++)
        for (int64_t i = 0; fast__strategies[i]; i++) {
            const fast_strategy *strategy = fast__strategies[i];

            if (strategy->shares_memory && t == 1) /* the standard cluster is of many nodes */
                continue;
            for (int seed = 0; seed < TRIES; seed++) {
                const uint64_t h = cancel_often(strategy->name, transports[t], seed);

                if (strcmp(strategy->name, "allreduce") == 0)
                    assert_true(h == hash);
            }
        }
    for (int seed = 0; seed < TRIES; seed++) {
        /* Rounds are allreduce: none that somebody had begun is lost. */
        assert_true(cancel_often("ps:slack=0", transports[seed % 2], seed) == hash);
        assert_true(cancel_often("ps:slack=0,servers=2,priority=yes", transports[seed % 2], seed) ==
                    hash);
        cancel_often("ps:slack=2,servers=2", transports[seed % 2], seed);
    }
}

/* Properties of every strategy. */

static void every_strategy_stops_as_asked(void **state)
{
    (void)state;
    for (int64_t i = 0; fast__strategies[i]; i++) {
        const char *cluster = cluster_of(fast__strategies[i]);
        char spec[256];
        const char *s = text(spec, "strategy=%s", fast__strategies[i]->name);
        fast_result r = result_of(LIST("workers=3", s, "transport=sim", cluster, "target=0.001",
                                       "evaluate=2steps", "steps=400"));

        assert_string_equal(r.stop, "target");
        assert_true(r.steps < 400 && r.time_to_target_s > 0);
        r = result_of(LIST("workers=3", s, "evaluate=no"));
        assert_string_equal(r.stop, "done");
        assert_true(isnan(r.test_accuracy) && r.steps == STEPS);
        r = result_of(LIST("workers=2", s, "evaluate=end"));
        assert_true(isfinite(r.test_accuracy) && r.staleness_max >= -1);
        r = result_of(LIST("workers=2", s, "epochs=0", "steps=0"));
        assert_true(isfinite(r.test_accuracy) && r.steps == 0);
        r = result_of(LIST("workers=2", s, "data=linear", "lr=1e9", "optimizer=sgd",
                           "schedule=constant", "evaluate=no", "steps=60"));
        assert_string_equal(r.stop, "diverged");
    }
}

static void every_strategy_repeats_in_sim(void **state)
{
    static const char *const pools[] = { "pool=0", "pool=0", "pool=1", "pool=2" };

    (void)state;
    for (int64_t i = 0; fast__strategies[i]; i++) {
        const char *cluster =
            fast__strategies[i]->shares_memory ? "cluster=laptop" : "cluster=hetero";
        char spec[256];
        const char *s = text(spec, "strategy=%s", fast__strategies[i]->name);
        fast_result first = { 0 };

        for (int k = 0; k < 4; k += TRIES == 1 ? 3 : 1) {
            const fast_result r = result_of(
                LIST("workers=4", s, "transport=sim", cluster, "evaluate=5steps", pools[k]));

            if (k == 0)
                first = r;
            assert_true(r.params_hash == first.params_hash);
            assert_true(r.time_s == first.time_s && r.virtual_time_s == r.time_s);
            assert_true(r.loss == first.loss && r.test_loss == first.test_loss);
            assert_true(r.bytes_sent == first.bytes_sent && r.wait_s == first.wait_s);
        }
    }
}

static void refused(const char *const *more, const char *reason)
{
    fast_run *run = NULL;
    const fast_err err = open_with(more, NULL, &run);

    assert_true(err == FAST_EINVAL || err == FAST_ENOTSUP);
    assert_null(run);
    if (!strstr(fast_error_detail(), reason))
        fail_msg("\"%s\" does not say \"%s\"", fast_error_detail(), reason);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    for (int64_t i = 0; fast__strategies[i]; i++) /* every one can be saved */
        assert_true(fast__strategies[i]->identical || fast__strategies[i]->resumable);
    refused(LIST("workers=2", "strategy=allreduce", "topology=ring"), "has no topology");
    refused(LIST("workers=2", "strategy=alreduce"), "allreduce");
    refused(LIST("workers=2", "cluster=hetero"), "transport=sim");
    refused(LIST("workers=1", "cluster=hetero"), "transport=sim");
    refused(LIST("workers=2", "transport=sim", "cluster=moon"), "moon");
    refused(LIST("workers=2", "transport=sim", "faults=crash 9 at 1s"), "9");
    refused(LIST("workers=2", "transport=carrier"), "carrier");
}

static void measures_mean_what_they_say(void **state)
{
    fast_result r = result_of(LIST("workers=3", "transport=sim"));

    (void)state;
    assert_true(r.divergence == 0 && fabs(r.completeness - 1) < 1e-12);
    assert_true(r.staleness_mean == 0 && r.staleness_max == 0);
    /* Every algorithm sends each gradient at least 2 (P - 1) / P times. */
    assert_true(r.bytes_sent >= STEPS * 2 * 2 * r.param_count * 4 && r.messages_sent > STEPS * 4);
    assert_true(r.wait_s > 0 && r.compute_s > 0 && r.wait_s + r.compute_s <= r.time_s * 1.001);
    assert_true(r.wall_time_s > 0 && r.virtual_time_s == r.time_s);
    r = result_of(LIST("workers=3", "strategy=local:period=100", "evaluate=5steps"));
    assert_true(r.divergence == 0 && isnan(r.virtual_time_s)); /* the last mean is everybody's */
    r = result_of(LIST("workers=3", "strategy=ps", "transport=sim"));
    assert_true(r.staleness_max > 0 && r.staleness_mean > 0 && r.staleness_mean <= 3);
    assert_true(r.divergence >= 0);
    r = result_of(NULL);
    assert_true(isnan(r.divergence) && isnan(r.completeness) && r.staleness_max == -1);
    assert_true(r.bytes_sent == 0 && r.wait_s == 0);
}

/* Failures. */

static void who_crashed_is_named_or_survived(void **state)
{
    static const char *const synchronous[] = { "strategy=allreduce", "strategy=local:period=2" };
    fast_run *run;

    (void)state;
    for (int i = 0; i < 2; i++)
        for (int node = 0; node < 3; node += 2) {
            char faults[256], name[256];

            run = open_run(LIST("workers=3", synchronous[i], "transport=sim", "timeout=2",
                                text(faults, "faults=crash %d at 1ms", node), "steps=400"));
            assert_int_not_equal(fast_run_train(run), FAST_OK);
            if (!strstr(fast_error_detail(), text(name, "worker %d", node)))
                fail_msg("%s", fast_error_detail());
            assert_true(fast_run_result(run)->time_s < 4);
            fast_run_close(run);
        }
    /* An asynchronous one continues: without the one that is gone, or with it once it is back. */
    run = open_run(LIST("workers=3", "strategy=ps", "transport=sim", "timeout=2",
                        "faults=crash 1 at 1ms", "steps=100", "evaluate=end"));
    train(run);
    assert_true(run->team->actors[1]->lost && !run->team->actors[0]->lost);
    assert_string_equal(fast_run_result(run)->stop, "done");
    assert_true(isfinite(fast_run_result(run)->test_accuracy));
    fast_run_close(run);
    run = open_run(LIST("workers=3", "strategy=ps", "transport=sim", "timeout=2",
                        "faults=crash 1 at 1ms; restart 1 at 3ms", "steps=100"));
    train(run);
    assert_int_equal(run->team->progress.workers_up, 0);
    fast_run_close(run);
}

/* Random faults: it ends, in time, and says why. */
static void faults_end_every_run(void **state)
{
    char spec[256], seed[256];

    (void)state;
    for (int64_t i = 0; SIM && fast__strategies[i]; i++)
        for (int k = 0; k < 2 * TRIES; k++) {
            fast_run *run =
                open_run(LIST("workers=4", text(spec, "strategy=%s", fast__strategies[i]->name),
                              "transport=sim", cluster_of(fast__strategies[i]), "timeout=1",
                              "faults=random:count=2,kinds=crash+pause+restart,span=20ms",
                              "steps=40", text(seed, "seed=%d", k)));

            if (fast_run_train(run))
                assert_true(fast_error_detail()[0] != '\0');
            assert_true(fast_run_result(run)->time_s < 300);
            fast_run_close(run);
        }
}

static void nap(void *ctx, const fast_event *event)
{
    stopper *s = ctx;
    const struct timespec delay = { 3, 500000000L };

    if (event->kind != FAST_EVENT_EVALUATE || event->step >= event->step_count || s->naps-- <= 0)
        return;
    nanosleep(&delay, NULL);
}

/* A run whose first evaluation takes longer than its timeout, which is long enough for a machine
 * that is busy with other tests. */
static void evaluate_slowly(const char *spec, const char *transport)
{
    stopper s = { .naps = 1 };

    s.run = open_run(LIST("workers=3", spec, transport, "timeout=3", "evaluate=4steps"));
    fast_run_watch(s.run, nap, &s);
    train(s.run);
    assert_int_equal(fast_run_result(s.run)->steps, s.run->team->place.here > 0 ? STEPS : 0);
    assert_int_equal(s.naps > 0, !fast_run_is_first(s.run));
    fast_run_close(s.run);
}

static void slow_evaluation_fails_no_worker(void **state)
{
    (void)state;
    evaluate_slowly("strategy=allreduce:algorithm=tree", "transport=threads");
    evaluate_slowly("strategy=ps:slack=0", "transport=threads");
}

static void slow_evaluation_fails_no_rank(void **state)
{
    (void)state;
    evaluate_slowly("strategy=local:period=2", "transport=mpi");
}

/* Memory that is not there, at opening and in training, is an error and nothing more. */
static void every_allocation_may_fail(void **state)
{
    static const char *const specs[] = { "strategy=allreduce", "strategy=ps", "strategy=gossip" };
    fast_run *run;

    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        const char **more =
            LIST("workers=2", specs[i], "transport=sim", "steps=2", "evaluate=end", "pool=0");
        fast_err err = FAST_ENOMEM;

        for (int64_t n = 0; err; n++) {
            run = NULL;
            fast__alloc_fail_after(n, true);
            err = open_with(more, NULL, &run);
            fast__alloc_fail_after(-1, true);
            assert_true(err == FAST_OK || (err == FAST_ENOMEM && !run));
        }
        fast_run_close(run);
        err = FAST_ENOMEM;
        for (int64_t n = 0; err; n += STRIDE) {
            run = open_run(more);
            fast__alloc_fail_after(n, true);
            err = fast_run_train(run);
            fast__alloc_fail_after(-1, true);
            fast_run_close(run);
        }
    }
}

/* Over ranks. */

static void same_bits_on_ranks(void **state)
{
    static const char *const specs[] = { "strategy=allreduce", "strategy=ps:slack=0",
                                         "strategy=local:period=5", "strategy=quorum:servers=2",
                                         "strategy=allreduce:algorithm=ring,bucket=64" };
    (void)state;
    for (int n = 2; n <= WORKERS_MAX; n++)
        for (int i = 0; i < 5; i++) {
            char workers[256];
            const char *w = text(workers, "workers=%d", n);
            const fast_result here = result_of(LIST(w, specs[i], "transport=threads"));
            fast_run *run = open_run(LIST(w, specs[i], "transport=mpi"));

            train(run);
            assert_true(fast_run_is_first(run) == (run->team->actors[0] != NULL));
            if (fast_run_is_first(run)) {
                assert_true(fast_run_result(run)->params_hash == here.params_hash);
                assert_true(fast_run_result(run)->test_loss == here.test_loss);
                /* of all replicas, whatever process they are in */
                assert_true(fast_run_result(run)->loss == here.loss);
                assert_true(fast_run_result(run)->train_accuracy == here.train_accuracy);
            } else if (i == 0 &&
                       run->team->place.here > 0) { /* a rank without workers has no model */
                assert_true(fast_run_result(run)->params_hash == here.params_hash);
            }
            assert_int_equal(fast_run_result(run)->steps, run->team->place.here > 0 ? STEPS : 0);
            fast_run_close(run);
        }
}

static void ranks_stop_together(void **state)
{
    static const char *const specs[] = { "strategy=allreduce", "strategy=ps" };

    (void)state;
    for (int i = 0; i < 2; i++) {
        fast_run *run = open_run(LIST("workers=2", specs[i], "transport=mpi", "target=0.001",
                                      "evaluate=2steps", "steps=4000"));

        train(run);
        if (run->team->place.here > 0)
            assert_string_equal(fast_run_result(run)->stop, "target");
        assert_true(fast_run_result(run)->steps < 4000);
        fast_run_close(run);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest patient_on_ranks[] = { cmocka_unit_test(same_bits_on_ranks),
                                                   cmocka_unit_test(ranks_stop_together) };
    const struct CMUnitTest on_ranks[] = { cmocka_unit_test(same_bits_on_ranks),
                                           cmocka_unit_test(ranks_stop_together),
                                           cmocka_unit_test(slow_evaluation_fails_no_rank) };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_on_every_transport),
        cmocka_unit_test(equals_one_worker_that_accumulates),
        cmocka_unit_test(workers_are_accumulated_batches),
        cmocka_unit_test(equals_others_to_rounding),
        cmocka_unit_test(overlap_changes_the_time_only),
        cmocka_unit_test(resumed_runs_are_the_same),
        cmocka_unit_test(canceled_at_any_moment),
        cmocka_unit_test(every_strategy_stops_as_asked),
        cmocka_unit_test(every_strategy_repeats_in_sim),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(measures_mean_what_they_say),
        cmocka_unit_test(who_crashed_is_named_or_survived),
        cmocka_unit_test(faults_end_every_run),
        cmocka_unit_test(slow_evaluation_fails_no_worker),
        cmocka_unit_test(every_allocation_may_fail),
    };
    int failed;

    if (argc > 2 && strcmp(argv[1], "mpi") == 0 && strcmp(argv[2], "patient") == 0)
        return cmocka_run_group_tests(patient_on_ranks, NULL, NULL);
    if (argc > 1 && strcmp(argv[1], "mpi") == 0)
        return cmocka_run_group_tests(on_ranks, NULL, NULL);
    snprintf(folder, sizeof folder, "strategy-test-XXXXXX");
    if (!mkdtemp(folder))
        return 1;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(folder);
    return failed;
}
