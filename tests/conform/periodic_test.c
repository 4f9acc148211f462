/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Periodic averaging and its outer steps. Goal: what the strategies local and elastic_sync compute
 * is what their formulas say: block momentum (BMUF, SlowMo), Nesterov's (DiLoCo), one average at
 * the end (ParallelSGD), a synchronous beginning (post-local SGD), the mean of models over time
 * (Polyak), bunches of gradients, SMA with restarts; and averaging at each step is synchronous SGD
 * to the bit where sums are exact. Method: a learner of a few parameters whose gradient is a
 * formula, and the same algorithm in a few lines of double precision.
 */
#include "fast/learner.h"
#include "run/run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 5, WORKERS = 4, EPOCH = 10, STEPS = 36, SAMPLES = WORKERS * EPOCH };

static const double RATE = 0.125;

/* A fixed number in [-1, 1), a multiple of 1/64. */
static double noise(int64_t worker, int64_t step, int64_t i)
{
    const uint64_t mixed = (uint64_t)(worker * 7919 + step * 104729 + i * 1299709 + 12345);

    return (double)((int64_t)(mixed * 0x9e3779b97f4a7c15u >> 57) - 64) / 64;
}

/* The gradient of a bowl that lies elsewhere for each worker. */
static double slope(int64_t worker, int64_t step, int64_t i, double w)
{
    return 0.5 * (w - (double)(i + worker)) + noise(worker, step, i);
}

static fast_err bowl(void *ctx, fast_learner_request *request)
{
    (void)ctx;
    for (int64_t i = 0; i < COUNT; i++)
        request->g[i] = (float)slope(request->worker, request->step, i, (double)request->w[i]);
    request->loss = 1;
    request->samples = request->batch;
    return FAST_OK;
}

/* The gradient does not depend on w, and is a multiple of 1/64. */
static fast_err grid(void *ctx, fast_learner_request *request)
{
    (void)ctx;
    for (int64_t i = 0; i < COUNT; i++)
        request->g[i] = (float)noise(request->worker, request->step, i);
    request->loss = 1;
    request->samples = request->batch;
    return FAST_OK;
}

static void train(fast_learner_request_fn *gradient, const char *strategy, const char *optimizer,
                  float *w_out)
{
    static const float first[COUNT] = { 1, -2, 3, 0.5f, 0 };
    const fast_learner_tensor tensor = { "w", 1, { COUNT }, first };
    const fast_learner_kind kind = { .size = sizeof kind,
                                     .name = "bowl",
                                     .params = &tensor,
                                     .param_count = 1,
                                     .samples = SAMPLES,
                                     .gradient = gradient };
    char spec[128], rule[128];
    const char *options[] = { spec,
                              rule,
                              "lr=0.125",
                              "schedule=constant",
                              "batch=1",
                              "workers=4",
                              "transport=sim",
                              "evaluate=no",
                              "steps=36",
                              "timeout=100",
                              NULL };
    fast_run *run = NULL;

    snprintf(spec, sizeof spec, "strategy=%s", strategy);
    snprintf(rule, sizeof rule, "optimizer=%s", optimizer);
    if (fast_run_open_learner(options, &kind, NULL, &run) || fast_run_train(run))
        fail_msg("%s: %s", strategy, fast_error_detail());
    assert_int_equal(run->learner->epoch_steps, EPOCH);
    memcpy(w_out, run->learner->w, COUNT * sizeof *w_out);
    fast_run_close(run);
}

/* The family local, by hand. */
typedef struct local {
    int64_t period, after; /* steps; period 0: none */
    int outer;             /* 0 none, 1 classical, 2 nesterov */
    double momentum, rate; /* of the outer step */
    int64_t polyak;        /* step after which models are averaged; -1: never */
    bool delay;            /* one update a period */
} local;

static void local_by_hand(const local *c, const double *w0, double *out)
{
    for (int64_t i = 0; i < COUNT; i++) {
        double w[WORKERS], sum[WORKERS] = { 0 };
        double z = w0[i], d = 0, mean = z;
        int64_t summed = 0, meant = 0;

        for (int k = 0; k < WORKERS; k++)
            w[k] = z;
        for (int64_t step = 1; step <= STEPS; step++) {
            double a = 0;

            summed++;
            for (int k = 0; k < WORKERS; k++) {
                const double g = slope(k, step - 1, i, w[k]);

                sum[k] += g;
                w[k] -= c->delay ? 0 : RATE * g;
            }
            if (step > c->after && step != STEPS && (c->period == 0 || step % c->period != 0))
                continue;
            for (int k = 0; k < WORKERS; k++) {
                a += (c->delay ? w[k] - RATE * sum[k] / (double)summed : w[k]) / WORKERS;
                sum[k] = 0;
            }
            summed = 0;
            d = c->momentum * d + c->rate * (a - z);
            z = c->outer == 0 ? a : c->outer == 1 ? z + d : z + c->momentum * d + c->rate * (a - z);
            for (int k = 0; k < WORKERS; k++)
                w[k] = z;
            meant += step > c->polyak;
            mean = meant <= 1 ? z : mean + (z - mean) / (double)meant;
        }
        out[i] = c->polyak >= 0 ? mean : z;
    }
}

static void compare(const char *what, const float *w, const double *by_hand)
{
    for (int64_t i = 0; i < COUNT; i++)
        if (!(fabs((double)w[i] - by_hand[i]) < 2e-5))
            fail_msg("%s: w[%d] is %.9g, by hand %.9g", what, (int)i, (double)w[i], by_hand[i]);
}

static const double origin[COUNT] = { 1, -2, 3, 0.5, 0 };

static void outer_steps_are_their_formulas(void **state)
{
    static const struct {
        const char *spec;
        local by_hand;
    } cases[] = {
        { "local:period=1", { 1, 0, 0, 0, 0, -1, false } },
        { "local:period=5", { 5, 0, 0, 0, 0, -1, false } },
        { "local:period=0", { 0, 0, 0, 0, 0, -1, false } },
        { "local:period=6,after=1", { 6, EPOCH, 0, 0, 0, -1, false } },
        { "local:period=4,outer=classical,momentum=0.75,rate=1", { 4, 0, 1, 0.75, 1, -1, false } },
        { "local:period=4,outer=nesterov,momentum=0.75,rate=1", { 4, 0, 2, 0.75, 1, -1, false } },
        { "local:period=7,outer=nesterov,momentum=0.9,rate=0.7", { 7, 0, 2, 0.9, 0.7, -1, false } },
        { "local:period=3,polyak=1", { 3, 0, 0, 0, 0, EPOCH, false } },
        { "local:period=1,polyak=0", { 1, 0, 0, 0, 0, 0, false } },
        { "local:period=4,delay=yes", { 4, 0, 0, 0, 0, -1, true } },
        { "allreduce", { 1, 0, 0, 0, 0, -1, true } },
        { "quorum", { 1, 0, 0, 0, 0, -1, true } },
    };

    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        float w[COUNT];
        double by_hand[COUNT];

        train(bowl, cases[k].spec, "sgd", w);
        local_by_hand(&cases[k].by_hand, origin, by_hand);
        compare(cases[k].spec, w, by_hand);
    }
}

/* Elastic averaging in rounds: the gradient is of before the exchange. */
static void elastic_by_hand(double alpha, double mu, int64_t period, int64_t restart, double *out)
{
    for (int64_t i = 0; i < COUNT; i++) {
        double w[WORKERS], g[WORKERS];
        double z = origin[i], before = z;
        int64_t restarted = 0;

        for (int k = 0; k < WORKERS; k++)
            w[k] = z;
        for (int64_t step = 1; step <= STEPS; step++) {
            double sum = 0;

            if (restart > 0 && step - 1 - restarted >= restart) {
                restarted = step - 1;
                before = z;
                for (int k = 0; k < WORKERS; k++)
                    w[k] = z;
            }
            for (int k = 0; k < WORKERS; k++)
                g[k] = slope(k, step - 1, i, w[k]);
            if (step % period == 0 || step == STEPS) {
                const double last = z;

                for (int k = 0; k < WORKERS; k++) {
                    sum += w[k] - z;
                    w[k] -= alpha * (w[k] - z);
                }
                z += alpha * sum + mu * (z - before);
                before = last;
            }
            for (int k = 0; k < WORKERS; k++)
                w[k] -= RATE * g[k];
        }
        out[i] = z;
    }
}

static void elastic_rounds_are_their_formulas(void **state)
{
    float w[COUNT];
    double by_hand[COUNT];

    (void)state;
    train(bowl, "elastic_sync:alpha=0.2,period=3", "sgd", w);
    elastic_by_hand(0.2, 0, 3, 0, by_hand);
    compare("EASGD", w, by_hand);
    train(bowl, "elastic_sync:mu=0.5", "sgd", w);
    elastic_by_hand(1.0 / WORKERS, 0.5, 1, 0, by_hand);
    compare("SMA", w, by_hand);
    train(bowl, "elastic_sync:mu=0.5,period=2,restart=9", "sgd", w);
    elastic_by_hand(1.0 / WORKERS, 0.5, 2, 9, by_hand);
    compare("SMA with restarts", w, by_hand);
}

/* On gradients of a grid all sums are exact, whoever makes them: the mean of the models is the
 * model of the mean gradient. */
static void averaging_each_step_is_synchronous_to_the_bit(void **state)
{
    static const char *const same[] = { "local:period=1", "local:period=1,delay=yes",
                                        "ps:slack=0",     "quorum:servers=2",
                                        "local:period=9", "local:period=0" };
    float all[COUNT], w[COUNT];

    (void)state;
    train(grid, "allreduce", "sgd", all);
    for (size_t k = 0; k < sizeof same / sizeof *same; k++) {
        train(grid, same[k], "sgd", w);
        assert_memory_equal(w, all, sizeof w);
    }
    /* Momentum is linear too; a rule that is not tells them apart. */
    train(grid, "allreduce", "adam", all);
    train(grid, "local:period=1", "adam", w);
    assert_memory_not_equal(w, all, sizeof w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outer_steps_are_their_formulas),
        cmocka_unit_test(elastic_rounds_are_their_formulas),
        cmocka_unit_test(averaging_each_step_is_synchronous_to_the_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
