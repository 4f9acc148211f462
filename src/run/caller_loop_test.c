/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loops of the caller's. Goal: a loop computes what a function computes, to the bit, wherever the
 * requests come from; it may be left anywhere; misuse is refused. Method: a quadratic whose
 * gradient is w - c, as a function and as a loop, on a fiber (one worker, simulated workers) and
 * with threads (workers that are threads, a pool).
 */
#include "fast/learner.h"
#include "run/run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 5 };

static const fast_learner_tensor tensor = { "w", 1, { COUNT }, NULL };
static const fast_learner_kind kind = { .size = sizeof(fast_learner_kind),
                                        .name = "quadratic",
                                        .params = &tensor,
                                        .param_count = 1,
                                        .samples = 100,
                                        .operations = 1e6 };

/* Answer a request. */
static fast_err step_down(void *ctx, fast_learner_request *t)
{
    (void)ctx;
    t->loss = 0;
    for (int i = 0; i < COUNT; i++) {
        const float d = t->w[i] - (float)((i * 7 + t->worker * 3 + t->step) % 11);

        t->loss += (double)(d * d) / 2;
        t->g[i] = d;
    }
    t->samples = 1;
    return FAST_OK;
}

#define OPTIONS "batch=1", "evaluate=no", "steps=9", "lr=0.2", "optimizer=momentum", "store=none"

/* Options of runs. */
static const struct {
    const char *const options[12];
    bool repeats; /* the result does not depend on the order of threads */
} runs[] = {
    { { OPTIONS, NULL }, true },
    { { OPTIONS, "workers=3", "transport=sim", "cluster=hetero", "pool=0", "strategy=ps:slack=2",
        NULL },
      true },
    { { OPTIONS, "workers=3", "transport=sim", "cluster=hetero", "pool=2", NULL }, true },
    { { OPTIONS, "workers=3", "transport=threads", "strategy=allreduce", NULL }, true },
    { { OPTIONS, "workers=2", "transport=threads", "strategy=ps:slack=2", NULL }, false },
};

/* Train by a function; its loss. */
static double by_function(const char *const *options)
{
    fast_learner_kind mine = kind;
    fast_run *run = NULL;

    mine.gradient = step_down;
    assert_int_equal(fast_run_open_learner(options, &mine, NULL, &run), FAST_OK);
    assert_int_equal(fast_run_train(run), FAST_OK);
    const double loss = fast_run_result(run)->loss;
    fast_run_close(run);
    return loss;
}

/* Train by a loop that leaves after `steps` requests; -1: at the end. Returns the loss. */
static double by_loop(const char *const *options, int64_t steps)
{
    fast_run *run = NULL;
    fast_learner_request *request = NULL;

    assert_int_equal(fast_run_open_loop(options, &kind, NULL, &run), FAST_OK);
    while (steps-- != 0) {
        assert_int_equal(fast_run_next(run, &request), FAST_OK);
        if (!request)
            break;
        /* A failure of the loop's own business does not disturb the run. */
        fast_run *other = NULL;
        assert_int_equal(fast_run_open((const char *const[]){ "modell=x", NULL }, &other),
                         FAST_EINVAL);
        assert_int_equal(step_down(NULL, request), FAST_OK);
    }
    const double loss = fast_run_result(run)->loss;
    if (loss > 0 && !request) { /* after the end: the end again */
        assert_int_equal(fast_run_next(run, &request), FAST_OK);
        assert_null(request);
    }
    fast_run_close(run);
    return loss;
}

static void test_equal(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        const double a = by_function(runs[i].options), b = by_loop(runs[i].options, -1);

        assert_true(a > 0 && b > 0);
        if (runs[i].repeats)
            assert_memory_equal(&a, &b, sizeof a);
    }
}

static void test_left(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        for (int64_t steps = 0; steps < 4; steps++)
            by_loop(runs[i].options, steps);
}

/* A request without samples ends the run, and its error is that of the call. */
static void test_failure(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        fast_run *run = NULL;
        fast_learner_request *request = NULL;
        fast_err err = FAST_OK;

        assert_int_equal(fast_run_open_loop(runs[i].options, &kind, NULL, &run), FAST_OK);
        while (!err) {
            err = fast_run_next(run, &request);
            if (!err) {
                assert_non_null(request);
                strcpy(request->error, "no more");
            }
        }
        assert_int_equal(err, FAST_EINVAL);
        assert_non_null(strstr(fast_error_detail(), "no more"));
        fast_run_close(run);
    }
}

static void test_refused(void **state)
{
    fast_learner_kind mine = kind;
    fast_learner_request *request = NULL;
    fast_run *run = NULL;

    (void)state;
    mine.gradient = step_down;
    assert_int_equal(fast_run_open_loop(runs[0].options, &mine, NULL, &run), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "has functions"));
    assert_int_equal(fast_run_open_learner(runs[0].options, &mine, NULL, &run), FAST_OK);
    assert_int_equal(fast_run_next(run, &request), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "fast_run_open_loop"));
    fast_run_close(run);
    assert_int_equal(fast_run_open_loop(runs[0].options, &kind, NULL, &run), FAST_OK);
    assert_int_equal(fast_run_train(run), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "fast_run_next"));
    fast_run_close(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal),
        cmocka_unit_test(test_left),
        cmocka_unit_test(test_failure),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
