/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: strads updates independent blocks of high priority, and its steps are those of coordinate
 * descent and of allreduce in the limits.
 *
 * Method: the scheduler by itself, over many rounds. Linear models on batches of all samples, whose
 * coordinate descent is done by hand with the learner's gradients; a network with each feature
 * twice, on which blocks that depend on each other overshoot; a Lasso whose least value follows
 * from many sweeps by hand. All blocks together are compared with allreduce to the bit.
 */
#include "fake_host.h"
#include "run/team.h"
#include "strategy/strads_schedule.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { BLOCKS = 12, ROUNDS = 4000, VARIABLES_MAX = 256 };

/* Blocks that are coupled are never chosen together, and all are chosen. */
static void dependent_blocks_are_never_together(void **state)
{
    float coupling[BLOCKS * BLOCKS];
    double changes[BLOCKS], weights[BLOCKS];
    int64_t chosen[BLOCKS], next = 0;
    int met[BLOCKS] = { 0 }, largest = 0;

    (void)state;
    for (int j = 0; j < BLOCKS; j++) {
        changes[j] = j;
        for (int k = 0; k < BLOCKS; k++) /* groups of three depend on each other */
            coupling[j * BLOCKS + k] = j / 3 == k / 3 ? 0.9f : 0.1f;
    }
    for (int order = 0; order < 3; order++)
        for (int round = 0; round < ROUNDS; round++) {
            const fast_strads_schedule s = { .order = (fast_strads_order)order,
                                             .count = BLOCKS,
                                             .candidates = 8,
                                             .chosen_max = 5,
                                             .floor = 0.1,
                                             .dependency = 0.5,
                                             .coupling = coupling,
                                             .changes = changes,
                                             .weights = weights,
                                             .chosen = chosen };
            fast_rng rng;
            fast__rng_init(&rng, 3, FAST_PURPOSE_TEST, (uint64_t)order, (uint64_t)round, 0);
            const int64_t count = fast__strads_choose(&s, &rng, &next);
            assert_true(count >= 1 && count <= 4); /* one of each group */
            largest = count > largest ? (int)count : largest;
            for (int64_t i = 0; i < count; i++) {
                met[chosen[i]]++;
                if (i > 0)
                    assert_true(chosen[i] / 3 > chosen[i - 1] / 3);
            }
        }
    assert_int_equal(largest, 4);
    for (int k = 0; k < BLOCKS; k++)
        assert_true(met[k] > ROUNDS / 20);
}

/* A single candidate is drawn with a probability proportional to its priority; one that was never
 * updated has that of the largest; without priorities all are alike; in a cyclic order each comes
 * once. */
static void priorities_are_probabilities(void **state)
{
    const double changes[4] = { 6, 1, -1, 3 };

    (void)state;
    for (int order = 0; order < 3; order++) {
        static const double right[3][4] = { { 6, 1, 6, 3 }, { 4, 4, 4, 4 }, { 4, 4, 4, 4 } };
        int met[4] = { 0 };
        int64_t next = 0, chosen[4];
        double weights[4];
        for (int round = 0; round < 16000; round++) {
            const fast_strads_schedule s = { .order = (fast_strads_order)order,
                                             .count = 4,
                                             .candidates = 1,
                                             .chosen_max = 1,
                                             .changes = changes,
                                             .weights = weights,
                                             .chosen = chosen };
            fast_rng rng;
            fast__rng_init(&rng, 4, FAST_PURPOSE_TEST, 0, (uint64_t)round, 0);
            assert_int_equal(fast__strads_choose(&s, &rng, &next), 1);
            met[chosen[0]]++;
            assert_true(order != FAST_STRADS_CYCLIC || chosen[0] == round % 4);
        }
        for (int k = 0; k < 4; k++)
            assert_true(fabs(met[k] / 1000.0 - right[order][k]) < 0.3);
    }
}

/* A linear model without bias in a file of its own; `twice`: with each feature twice. */
static void write_network(char *path, bool twice)
{
    strcpy(path, "/tmp/fast_strads_XXXXXX");
    const int fd = mkstemp(path);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    assert_non_null(file);
    fputs(twice ? "copy: map affine a=1\nconcat input copy\ndense 1 bias=no\nloss mse\n"
                : "dense 1 bias=no\nloss mse\n",
          file);
    fclose(file);
}

/* Open a run of full-batch steps on a linear model. */
static fast_run *open_linear(const char *path, const char *strategy, const char *data,
                             const char *steps, const char *more)
{
    char model[64];
    fast_run *run = NULL;
    snprintf(model, sizeof model, "model=file:%s", path);
    const char *const options[] = { model,         data,
                                    "engine=ref",  "plan=no",
                                    "batch=64",    "optimizer=sgd:weight_decay=0",
                                    "lr=1",        "schedule=constant",
                                    "evaluate=no", strategy,
                                    steps,         more,
                                    NULL };
    if (fast_run_open(options, &run))
        fail_msg("%s: %s", strategy, fast_error_detail());
    return run;
}

/* Train it; the loss and the parameters at the end. */
static double train_linear(const char *path, const char *strategy, const char *data,
                           const char *steps, float *w)
{
    fast_run *run = open_linear(path, strategy, data, steps, NULL);
    fast_gradient gradient = { .step = 0 };
    if (fast_run_train(run))
        fail_msg("%s: %s", strategy, fast_error_detail());
    fast_learner *learner = run->learner;
    assert_true(learner->params.count <= VARIABLES_MAX);
    memcpy(w, learner->w, (size_t)learner->params.count * sizeof(float));
    assert_int_equal(learner->ops->gradient(learner, &gradient), FAST_OK);
    fast_run_close(run);
    return gradient.loss;
}

/* Steps of coordinate descent by hand, from the initial weights: w_k -= g_k / H_kk, then with l1
 * the soft threshold. */
static double descend(const char *path, const char *data, int steps, double l1, float *w)
{
    fast_run *run = open_linear(path, "strategy=allreduce", data, "steps=1", NULL);
    fast_learner *learner = run->learner;
    const int64_t n = learner->params.count;
    fast_gradient gradient = { .step = 0 };
    double curvature[VARIABLES_MAX];
    for (int64_t k = 0; k < n; k++) {
        assert_int_equal(learner->ops->gradient(learner, &gradient), FAST_OK);
        const double before = (double)learner->g[k];
        learner->w[k] += 1;
        assert_int_equal(learner->ops->gradient(learner, &gradient), FAST_OK);
        curvature[k] = (double)learner->g[k] - before;
        learner->w[k] -= 1;
    }
    for (int i = 0; i < steps; i++) {
        const int64_t k = i % n;
        assert_int_equal(learner->ops->gradient(learner, &gradient), FAST_OK);
        const double to = (double)learner->w[k] - (double)learner->g[k] / curvature[k];
        const double by = l1 / curvature[k];
        learner->w[k] = (float)(to > by ? to - by : to < -by ? to + by : 0);
    }
    assert_int_equal(learner->ops->gradient(learner, &gradient), FAST_OK);
    memcpy(w, learner->w, (size_t)n * sizeof(float));
    fast_run_close(run);
    return gradient.loss;
}

static const char linear6[] = "data=linear:train=64,test=8,features=6,noise=0.1";

/* One variable at a time, in turn, is coordinate descent. */
static void one_variable_is_coordinate_descent(void **state)
{
    static const char *const specs[] = {
        "strategy=strads:blocks=6,scheduled=1,order=cyclic,newton=yes,dependency=0",
        "strategy=strads:blocks=6,scheduled=1,order=cyclic,newton=yes,l1=0.2"
    };
    char path[40];
    float w[VARIABLES_MAX], right[VARIABLES_MAX];

    (void)state;
    write_network(path, false);
    for (int i = 0; i < 2; i++) {
        train_linear(path, specs[i], linear6, "steps=9", w);
        descend(path, linear6, 9, i * 0.2, right);
        for (int k = 0; k < 6; k++)
            if (!(fabsf(w[k] - right[k]) < 1e-4F))
                fail_msg("%s: w[%d] = %g, not %g", specs[i], k, (double)w[k], (double)right[k]);
    }
    remove(path);
}

/* Steps of two equal features add up to twice the error, unless they are told apart. */
static void correlated_variables_wait_for_each_other(void **state)
{
    static const char data[] = "data=linear:train=64,test=8,features=3,noise=0";
    char path[40];
    float w[VARIABLES_MAX];

    (void)state;
    write_network(path, true);
    const double apart =
        train_linear(path, "strategy=strads:blocks=6,scheduled=6,newton=yes,dependency=0.9", data,
                     "steps=40", w);
    const double at_once = train_linear(
        path, "strategy=strads:blocks=6,scheduled=6,newton=yes,dependency=0", data, "steps=40", w);
    const double first = train_linear(path, "strategy=allreduce", data, "steps=0", w);
    remove(path);
    if (!(apart < 0.2 * first) || !(at_once > first))
        fail_msg("loss %g at first, %g apart, %g at once", first, apart, at_once);
}

/* The value that a Lasso minimises. */
static double lasso_of(double loss, const float *w, int n, double l1)
{
    double sum = 0;
    for (int k = 0; k < n; k++)
        sum += fabs((double)w[k]);
    return loss + l1 * sum;
}

/* A Lasso of many variables, most of which are 0 in the end, comes to its least value; with
 * priorities sooner than at random. */
static void priorities_come_sooner(void **state)
{
    enum { FEATURES = 160 };
    static const char *const orders[] = { "priority", "random" };
    char path[40];
    double gap[2] = { 0, 0 };

    (void)state;
    write_network(path, false);
    for (int seed = 0; seed < 3; seed++) {
        char data[96], spec[160];
        float w[VARIABLES_MAX];
        const int n = FEATURES + seed;
        snprintf(data, sizeof data, "data=linear:train=64,test=8,features=%d,noise=0.1", n);
        const double best = lasso_of(descend(path, data, 40 * n, 0.3, w), w, n, 0.3);
        for (int order = 0; order < 2; order++) {
            snprintf(spec, sizeof spec,
                     "strategy=strads:blocks=256,scheduled=2,newton=yes,l1=0.3,order=%s",
                     orders[order]);
            const double loss = train_linear(path, spec, data, "steps=240", w);
            gap[order] += lasso_of(loss, w, n, 0.3) - best;
        }
        snprintf(spec, sizeof spec, "strategy=strads:blocks=256,scheduled=4,newton=yes,l1=0.3");
        const double loss = train_linear(path, spec, data, "steps=1500", w);
        assert_true(fabs(lasso_of(loss, w, n, 0.3) - best) < 1e-3 * best);
    }
    remove(path);
    if (!(gap[0] < 0.6 * gap[1]))
        fail_msg("gap %g with priorities, %g at random", gap[0], gap[1]);
}

/* The hash of a network's run. */
static uint64_t hash_of(const char *strategy, const char *workers, const char *transport)
{
    const char *const options[] = { "model=mlp:hidden=12",
                                    "data=digits:train=160,test=32",
                                    "engine=ref",
                                    "plan=no",
                                    "batch=4",
                                    "accumulate=2",
                                    "steps=8",
                                    "evaluate=no",
                                    "optimizer=momentum",
                                    strategy,
                                    workers,
                                    transport,
                                    NULL };
    fast_run *run = NULL;
    if (fast_run_open(options, &run) || fast_run_train(run))
        fail_msg("%s: %s", strategy, fast_error_detail());
    const uint64_t hash = fast_run_result(run)->params_hash;
    fast_run_close(run);
    return hash;
}

static void all_blocks_are_allreduce(void **state)
{
    static const char *const workers[] = { "workers=1", "workers=2", "workers=4" };
    static const char all[] = "strategy=strads:blocks=16,scheduled=16,dependency=0";
    static const char some[] = "strategy=strads:blocks=16,scheduled=4,renew=3";

    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_true(hash_of(all, workers[i], "transport=threads") ==
                    hash_of("strategy=allreduce", workers[i], "transport=threads"));
        assert_true(hash_of(some, workers[i], "transport=threads") ==
                    hash_of(some, workers[i], "transport=sim"));
        assert_true(hash_of(some, workers[i], "transport=sim") !=
                    hash_of(all, workers[i], "transport=sim"));
    }
}

/* Fewer floats are summed than the model has. */
static void scheduled_blocks_are_sent(void **state)
{
    const fake_options options = { .strategy =
                                       "strads:blocks=3,scheduled=1,dependency=0,order=cyclic",
                                   .workers = 2,
                                   .steps = 3 };
    fake_result r;

    (void)state;
    fake_run(&options, &r);
    assert_int_equal(r.err, FAST_OK);
    /* Blocks of two elements in turn, each of which halves its distance to the mean target. */
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < FAKE_COUNT; i++)
            assert_true(r.actors[k].w[i] == 0.75f);
}

static void errors_are_passed_on(void **state)
{
    const fake_options options = { .strategy = "strads:blocks=3,scheduled=2,newton=yes,l1=0.1",
                                   .workers = 2,
                                   .steps = 2 };
    fast_run *run = NULL;
    static const char *const lars[] = { "strategy=strads",
                                        "optimizer=lars",
                                        "batch=8",
                                        "workers=2",
                                        "data=digits:train=64,test=16",
                                        "steps=2",
                                        NULL };

    (void)state;
    assert_true(fake_assert_errors(&options) > 20);
    assert_int_equal(fast_run_open(lars, &run), FAST_OK);
    assert_int_equal(fast_run_train(run), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "norms of whole layers"));
    fast_run_close(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dependent_blocks_are_never_together),
        cmocka_unit_test(priorities_are_probabilities),
        cmocka_unit_test(one_variable_is_coordinate_descent),
        cmocka_unit_test(correlated_variables_wait_for_each_other),
        cmocka_unit_test(priorities_come_sooner),
        cmocka_unit_test(all_blocks_are_allreduce),
        cmocka_unit_test(scheduled_blocks_are_sent),
        cmocka_unit_test(errors_are_passed_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
