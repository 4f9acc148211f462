/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which model stands for a run. Goal: each policy of --representative is exactly what it says, for
 * every strategy at every evaluation; it depends neither on the order in which workers come nor on
 * the transport; an ensemble's figures are those of the mean of its members' predictions; who is
 * gone does not count. Method: a strategy that gives its replicas known weights; every strategy
 * under every policy; the members' files, loaded one by one.
 *
 * With the argument "mpi", under mpirun: the same evaluations on the ranks as on threads.
 */
#include "base/hash.h"
#include "base/memory.h"
#include "run/team.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { OPTIONS_MAX = 32, WORKERS = 4 };

#ifdef FAST_SANITIZED
enum { STRIDE = 5 }; /* of the strategies and policies that are tried together */
#else
enum { STRIDE = 1 };
#endif

#define LIST(...) ((const char *[]){ __VA_ARGS__, NULL })

static const char *const policies[] = {
    "representative=auto",          "representative=average",
    "representative=best",          "representative=consensus:rounds=3",
    "representative=worker:rank=2", "representative=ensemble"
};
enum { POLICIES = 6 };

/* Every test's job; later options win. */
static const char *const always[] = { "engine=ref",      "model=mlp:hidden=8",
                                      "workers=4",       "data=digits:train=160,test=24",
                                      "batch=8",         "lr=0.1",
                                      "steps=9",         "plan=no",
                                      "evaluate=2steps", "strategy=apart" };

static fast_err apart(fast_trainer *t, const void *config);

/* Replicas of known weights: worker i's are all 2^i; they never mix. On a ring. */
static const fast_strategy apart_strategy = {
    .name = "apart", .summary = "known replicas", .topology = "ring", .worker = apart
};

static fast_err apart(fast_trainer *t, const void *config)
{
    (void)config;
    for (int64_t i = 0; i < t->count; i++)
        t->w[i] = (float)(1 << t->rank);
    while (fast_trainer_next(t))
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
    return fast_trainer_end(t);
}

static fast_err open_run(const char *const *more, fast_run **out)
{
    const char *options[OPTIONS_MAX] = { NULL };
    int count = 0;

    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        options[count++] = always[i];
    for (; more && *more; more++)
        options[count++] = *more;
    assert_true(count < OPTIONS_MAX);
    return fast_run_open_strategy(options, &apart_strategy, out);
}

/* The tests' watcher: a hash of the losses of all evaluations, in their order. */
static void note_losses(void *ctx, const fast_event *event)
{
    uint64_t *hash = ctx;

    if (event->kind == FAST_EVENT_EVALUATE)
        *hash = fast__hash(&event->result->test_loss, sizeof(double), *hash);
}

/* Train; the run, and what its evaluations gave where that is asked for. */
static fast_run *train(const char *const *more, uint64_t *losses)
{
    fast_run *run = NULL;
    uint64_t hash = 0;

    if (open_run(more, &run))
        fail_msg("%s", fast_error_detail());
    fast_run_watch(run, note_losses, &hash);
    if (fast_run_train(run))
        fail_msg("%s", fast_error_detail());
    fast_run_watch(run, NULL, NULL);
    if (losses)
        *losses = hash;
    return run;
}

/* Every weight of the run's model. */
static double weight_of(const char *const *more)
{
    fast_run *run = train(more, NULL);
    const double w = (double)run->learner->w[0];

    for (int64_t i = 0; i < run->learner->params.count; i++)
        assert_true((double)run->learner->w[i] == w);
    fast_run_close(run);
    return w;
}

static void policies_are_what_they_say(void **state)
{
    static const char *const transports[] = { "transport=threads", "transport=sim" };

    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *t = transports[i];

        assert_true(weight_of(LIST(t)) == 3.75); /* of 1, 2, 4, 8 */
        assert_true(weight_of(LIST(t, "representative=average")) == 3.75);
        assert_true(weight_of(LIST(t, "representative=worker")) == 1);
        assert_true(weight_of(LIST(t, "representative=worker:rank=3")) == 8);
        assert_true(weight_of(LIST(t, "representative=consensus:rounds=0")) == 1);
        /* Thirds of oneself and of both neighbours. */
        assert_true(fabs(weight_of(LIST(t, "representative=consensus:rounds=1")) - 11.0 / 3) <
                    1e-6);
        assert_true(fabs(weight_of(LIST(t, "representative=consensus:rounds=1000")) - 3.75) < 1e-6);
        /* Ninths: three of one's own weight, two of each other worker's. */
        assert_true(fabs(weight_of(LIST(t, "representative=consensus:rounds=2")) -
                         (3.0 * 1 + 2 * 2 + 2 * 4 + 2 * 8) / 9) < 1e-5);
    }
}

/* The same as mixing in the open, round by round, on graphs of all kinds. */
static void consensus_is_mixing(void **state)
{
    static const char *const graphs[] = { "star", "exponential", "pairs", "random:degree=2" };

    (void)state;
    for (size_t g = 0; g < sizeof graphs / sizeof *graphs; g++)
        for (int rounds = 1; rounds <= 5; rounds += 2) {
            char spec[64], policy[64];
            double x[WORKERS] = { 1, 2, 4, 8 }, next[WORKERS], weights[WORKERS], self;
            int64_t ranks[WORKERS];
            fast_topology *topology = NULL;

            snprintf(spec, sizeof spec, "topology=%s", graphs[g]);
            snprintf(policy, sizeof policy, "representative=consensus:rounds=%d", rounds);
            assert_int_equal(fast_topology_new(graphs[g], WORKERS, 1, &topology), FAST_OK);
            for (int r = 0; r < rounds; r++) {
                for (int i = 0; i < WORKERS; i++) {
                    const int64_t n = fast_topology_in(topology, r, i, ranks, weights, &self);

                    next[i] = self * x[i];
                    for (int64_t k = 0; k < n; k++)
                        next[i] += weights[k] * x[ranks[k]];
                }
                memcpy(x, next, sizeof x);
            }
            assert_true(fabs(weight_of(LIST(spec, policy)) - x[0]) < 1e-5);
            fast_topology_free(topology);
        }
}

/* The mean of the replicas is that also where the strategy has a centre, which is elsewhere. */
static void the_average_is_not_the_centre(void **state)
{
    fast_run *run = train(
        LIST("strategy=elastic", "transport=sim", "representative=average", "evaluate=end"), NULL);
    double apart = 0;

    (void)state;
    for (int64_t i = 0; i < run->learner->params.count; i++) {
        double mean = 0;

        for (int k = 0; k < WORKERS; k++)
            mean += (double)run->team->actors[k]->context.trainer.w[i] / WORKERS;
        assert_true(fabs(mean - (double)run->learner->w[i]) < 1e-6);
        apart += fabs(mean - (double)run->team->actors[0]->context.trainer.centre[i]);
    }
    assert_true(apart > 1e-3);
    fast_run_close(run);
}

/* Without a topology everyone is everyone's neighbour: one round is the mean. */
static void consensus_without_a_topology_is_the_mean(void **state)
{
    fast_run *mean = train(LIST("strategy=local:period=3", "representative=average"), NULL);
    fast_run *mixed =
        train(LIST("strategy=local:period=3", "representative=consensus:rounds=1"), NULL);

    (void)state;
    for (int64_t i = 0; i < mean->learner->params.count; i++)
        assert_true(fabs((double)(mean->learner->w[i] - mixed->learner->w[i])) < 1e-6);
    fast_run_close(mean);
    fast_run_close(mixed);
}

/* The best is a worker's own replica, the one of the smallest training loss. */
static void best_has_the_smallest_loss(void **state)
{
    for (int seed = 1; seed < 6; seed++) {
        char text[64];
        int64_t best = 0;
        fast_run *run;

        (void)state;
        snprintf(text, sizeof text, "seed=%d", seed);
        run = train(LIST("strategy=ensemble", "representative=best:smooth=4", text, "shard=label"),
                    NULL);
        for (int64_t i = 1; i < WORKERS; i++)
            if (run->team->actors[i]->progress.loss < run->team->actors[best]->progress.loss)
                best = i;
        for (int64_t i = 0; i < WORKERS; i++) {
            const bool same = memcmp(run->team->actors[i]->context.trainer.w, run->learner->w,
                                     (size_t)run->learner->params.count * sizeof(float)) == 0;

            assert_true(same == (i == best));
        }
        fast_run_close(run);
    }
}

static const char *cluster_of(const fast_strategy *strategy)
{
    return strategy->shares_memory ? "cluster=laptop" : "cluster=hetero";
}

static void every_strategy_has_every_policy(void **state)
{
    (void)state;
    for (int64_t i = 0; fast__strategies[i]; i++)
        for (int p = 0; p < POLICIES; p++) {
            const fast_strategy *s = fast__strategies[i];
            char spec[64];
            uint64_t first = 0, again = 0, threads = 0;
            double loss;
            fast_run *run;

            if ((i + p) % STRIDE != 0)
                continue;
            snprintf(spec, sizeof spec, "strategy=%s", s->name);
            run = train(LIST(spec, policies[p], "transport=sim", cluster_of(s)), &first);
            loss = fast_run_result(run)->test_loss;
            assert_true(isfinite(loss));
            fast_run_close(run);
            run = train(LIST(spec, policies[p], "transport=sim", cluster_of(s), "pool=2"), &again);
            assert_true(first == again);
            fast_run_close(run);
            run = train(LIST(spec, policies[p], "transport=threads"), &threads);
            assert_true(isfinite(fast_run_result(run)->test_loss));
            if (s->identical)
                assert_true(first == threads);
            fast_run_close(run);
        }
}

/* Synchronous workers come to a vote in any order, and every evaluation is the same. */
static void threads_give_the_bits_of_sim(void **state)
{
    (void)state;
    for (int p = 0; p < POLICIES; p++) {
        uint64_t a, b, c;

        fast_run_close(train(LIST("strategy=local:period=4", policies[p], "transport=sim"), &a));
        fast_run_close(
            train(LIST("strategy=local:period=4", policies[p], "transport=threads"), &b));
        fast_run_close(train(LIST("strategy=local:period=4", policies[p], "transport=sim",
                                  "cluster=hetero", "pool=1"),
                             &c));
        assert_true(a == b && a == c);
    }
}

/* Where replicas are equal, all policies are the same model. */
static void identical_replicas_have_one_model(void **state)
{
    uint64_t hash = 0;

    (void)state;
    for (int p = 0; p < POLICIES; p++) {
        fast_run *run = train(LIST("strategy=allreduce", policies[p]), NULL);

        if (p == 0)
            hash = fast_run_result(run)->params_hash;
        assert_true(fast_run_result(run)->params_hash == hash);
        fast_run_close(run);
    }
}

/* Ensembles. */

enum { SAMPLES = 24, CLASSES = 10 };

static void add_softmax(const float *z, double *sum)
{
    double total = 0;

    for (int k = 0; k < CLASSES; k++)
        total += exp((double)z[k]);
    for (int k = 0; k < CLASSES; k++)
        sum[k] += exp((double)z[k]) / total / WORKERS;
}

/* The samples of the run's test set, not normalised: as fast_run_predict() takes them. */
static void test_samples(const fast_run *run, float *x, int32_t *labels)
{
    const fast_data *data = run->data.test;

    assert_int_equal(data->count, SAMPLES);
    assert_int_equal(data->channels, 1);
    for (int64_t i = 0; i < fast__loader_steps(run->data.test_loader); i++) {
        const fast_batch *batch = NULL;

        assert_int_equal(fast__loader_get(run->data.test_loader, i, &batch), FAST_OK);
        for (int64_t k = 0; k < batch->count * data->features; k++)
            *x++ = batch->x[k] / data->scale[0] + data->mean[0];
        for (int64_t k = 0; k < batch->count; k++)
            *labels++ = batch->labels[k];
    }
}

static void an_ensemble_is_the_mean_of_predictions(void **state)
{
    static double p[SAMPLES][CLASSES];
    static float y[SAMPLES][CLASSES], together[SAMPLES][CLASSES], x[SAMPLES * 784];
    int32_t labels[SAMPLES];
    char folder[] = "represent-test-XXXXXX", save[64], load[80], path[64];
    double loss = 0, accuracy = 0;
    fast_run *run;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(save, sizeof save, "save=%s/m.safetensors", folder);
    run = train(LIST("strategy=ensemble", "steps=30", "model=mlp:hidden=8", save), NULL);
    test_samples(run, x, labels);
    assert_int_equal(fast_run_predict(run, SAMPLES, x, &together[0][0]), FAST_OK);
    for (int m = -1; m < WORKERS; m++) {
        fast_run *member = NULL;

        if (m < 0)
            snprintf(path, sizeof path, "%s/m.safetensors", folder);
        else
            snprintf(path, sizeof path, "%s/m.%d.safetensors", folder, m);
        snprintf(load, sizeof load, "load=%s", path);
        if (open_run(LIST("strategy=ensemble", load), &member))
            fail_msg("%s", fast_error_detail());
        assert_int_equal(fast_run_predict(member, SAMPLES, x, &y[0][0]), FAST_OK);
        for (int i = 0; i < SAMPLES && m >= 0; i++)
            add_softmax(y[i], p[i]);
        fast_run_close(member);
        assert_int_equal(unlink(path), 0);
    }
    for (int i = 0; i < SAMPLES; i++) {
        int best = 0;

        for (int k = 0; k < CLASSES; k++) {
            assert_true(fabs(log(p[i][k]) - (double)together[i][k]) < 1e-4);
            best = p[i][k] > p[i][best] ? k : best;
        }
        loss -= log(p[i][labels[i]]) / SAMPLES;
        accuracy += best == labels[i] ? 1.0 / SAMPLES : 0;
    }
    assert_true(fabs(loss - fast_run_result(run)->test_loss) < 1e-5);
    assert_true(fabs(accuracy - fast_run_result(run)->test_accuracy) < 1e-9);
    fast_run_close(run);
    assert_int_equal(rmdir(folder), 0);
}

/* A regression's ensemble is the mean of the outputs; one member is that member. */
static void an_ensemble_of_one_is_it(void **state)
{
    static const char *const datas[] = { "data=linear", "data=digits:train=160,test=24" };

    (void)state;
    for (int i = 0; i < 2; i++) {
        fast_run *one = train(LIST("strategy=ensemble", "workers=1", datas[i]), NULL);
        fast_run *plain =
            train(LIST("strategy=ensemble", "workers=1", datas[i], "representative=best"), NULL);
        const double loss = fast_run_result(plain)->test_loss;

        assert_true(fabs(fast_run_result(one)->test_loss - loss) < 1e-5 * loss);
        assert_true(fast_run_result(one)->params_hash == fast_run_result(plain)->params_hash);
        fast_run_close(one);
        fast_run_close(plain);
    }
}

/* Who crashed is no part of any policy: the next rank's replica, the others' mean. */
static void who_is_gone_does_not_count(void **state)
{
    (void)state;
#define GONE "transport=sim", "faults=crash 2 at 1us", "cluster=ethernet-1g"
    assert_true(weight_of(LIST(GONE, "representative=worker:rank=2")) == 8);
    assert_true(fabs(weight_of(LIST(GONE, "representative=average")) - 11.0 / 3) < 1e-6);
    assert_true(fabs(weight_of(LIST(GONE, "representative=consensus:rounds=2")) -
                     (3.0 * 1 + 2 * 2 + 2 * 8) / 7) < 1e-5);
#undef GONE
}

static void nonsense_is_refused(void **state)
{
    static const char *const bad[] = {
        "representative=worker:rank=4",      "representative=worker:rank=-1",
        "representative=consensus:rounds=x", "representative=median",
        "representative=average:rounds=1",   "representative=",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fast_run *run = NULL;

        if (open_run(LIST(bad[i]), &run) != FAST_EINVAL)
            fail_msg("%s is not refused", bad[i]);
        assert_null(run);
    }
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    for (int p = 3; p < POLICIES; p += 2) {
        fast_err err = FAST_ENOMEM;
        fast_run *run = NULL;

        for (int64_t n = 0; err; n++) {
            fast__alloc_fail_after(n, true);
            err = open_run(LIST(policies[p], "transport=sim"), &run);
            fast__alloc_fail_after(-1, true);
            assert_true(err == FAST_OK || (err == FAST_ENOMEM && !run));
        }
        fast_run_close(run);
    }
}

/* Over ranks: synchronous votes in mid-run, and the last one of any strategy, are of all. */
static void ranks_give_the_bits_of_threads(void **state)
{
    (void)state;
    for (int p = 0; p < POLICIES; p++) {
        uint64_t here = 0, there = 0;
        fast_run *run;

        fast_run_close(train(LIST("strategy=local:period=4", policies[p], "transport=sim"), &here));
        run = train(LIST("strategy=local:period=4", policies[p], "transport=mpi"), &there);
        assert_true(here == there || !fast_run_is_first(run));
        fast_run_close(run);
        fast_run_close(
            train(LIST("strategy=ensemble", policies[p], "transport=sim", "evaluate=end"), &here));
        run =
            train(LIST("strategy=ensemble", policies[p], "transport=mpi", "evaluate=end"), &there);
        assert_true(here == there || !fast_run_is_first(run));
        fast_run_close(run);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest on_ranks[] = { cmocka_unit_test(ranks_give_the_bits_of_threads) };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policies_are_what_they_say),
        cmocka_unit_test(consensus_is_mixing),
        cmocka_unit_test(the_average_is_not_the_centre),
        cmocka_unit_test(consensus_without_a_topology_is_the_mean),
        cmocka_unit_test(best_has_the_smallest_loss),
        cmocka_unit_test(every_strategy_has_every_policy),
        cmocka_unit_test(threads_give_the_bits_of_sim),
        cmocka_unit_test(identical_replicas_have_one_model),
        cmocka_unit_test(an_ensemble_is_the_mean_of_predictions),
        cmocka_unit_test(an_ensemble_of_one_is_it),
        cmocka_unit_test(who_is_gone_does_not_count),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };

    if (argc > 1 && strcmp(argv[1], "mpi") == 0)
        return cmocka_run_group_tests(on_ranks, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
