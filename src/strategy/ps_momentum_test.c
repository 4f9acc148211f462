/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The momentum that is measured. Goal: on a problem where the theorem holds, P workers that finish
 * in random order give 1 - 1/P, within its standard error; one worker gives 0 exactly; constant
 * delays d give d / (d + 1). Method: asynchronous gradients of a noisy quadratic, applied by hand.
 */
#include "base/memory.h"
#include "base/rng.h"
#include "strategy/ps_momentum.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { SIZE = 600, WORKERS_MAX = 8 };

static float model[SIZE], read_models[WORKERS_MAX][SIZE];
static int64_t read_versions[WORKERS_MAX];

static void read_model(int worker, int64_t version)
{
    memcpy(read_models[worker], model, sizeof model);
    read_versions[worker] = version;
}

/* f = sum h_i (w_i - m_i)^2 / 2 with a goal m that moves, so that there is always a way to go. */
static double measure(int workers, bool in_turn, double noise, int updates, double *error_out)
{
    const double lr = 0.02;
    fast_implicit m;
    fast_rng rng;
    double mu;

    fast__rng_init(&rng, 3, FAST_PURPOSE_TEST, 0, 0, 0);
    assert_int_equal(fast__implicit_init(SIZE, workers, &m), FAST_OK);
    memset(model, 0, sizeof model);
    for (int i = 0; i < workers; i++)
        read_model(i, 0);
    for (int t = 0; t < updates; t++) {
        const int worker = in_turn ? t % workers : (int)fast__rng_below(&rng, (uint64_t)workers);
        float g[SIZE];

        for (int i = 0; i < SIZE; i++) {
            const double h = 0.2 + 0.8 * i / SIZE;
            const double goal = sin(0.02 * (double)read_versions[worker] + i);
            const double u = (double)fast__rng_below(&rng, 2001) / 1000 - 1;

            g[i] = (float)(h * ((double)read_models[worker][i] - goal) + noise * u);
        }
        for (int i = 0; i < SIZE; i++)
            model[i] -= (float)lr * g[i];
        fast__implicit_see(&m, t + 1, read_versions[worker], g, lr);
        read_model(worker, t + 1);
    }
    mu = fast__implicit_estimate(&m, error_out);
    fast__implicit_fini(&m);
    return mu;
}

static void asynchrony_begets_momentum(void **state)
{
    double error;

    (void)state;
    assert_true(measure(1, true, 0.01, 2000, &error) == 0);
    for (int workers = 2; workers <= 8; workers *= 2) {
        const double theory = 1 - 1.0 / workers;
        double mu = measure(workers, true, 0.001, 4000, &error);

        print_message("%d workers in turn: %.3f +- %.3f, %.3f in theory\n", workers, mu, error,
                      theory);
        assert_true(fabs(mu - theory) < 0.05);
        mu = measure(workers, false, 0.001, 4000, &error);
        print_message("%d workers at random: %.3f +- %.3f\n", workers, mu, error);
        assert_true(fabs(mu - theory) < 0.1);
    }
}

static void memory_may_run_out(void **state)
{
    fast_err err = FAST_ENOMEM;

    (void)state;
    for (int64_t n = 0; err == FAST_ENOMEM; n++) {
        fast_implicit m = { .size = 0 };

        fast__alloc_fail_after(n, false);
        err = fast__implicit_init(10, 3, &m);
        fast__alloc_fail_after(-1, false);
        assert_true(n < 8 && (err == FAST_OK) == (m.steps != NULL));
        fast__implicit_fini(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asynchrony_begets_momentum),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
