/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: loss and accuracy of a synchronous run's log are those of the steps up to the evaluation,
 * whichever threads were ahead or behind at that moment.
 *
 * Method: runs of four threads that evaluate after every few steps are repeated; every number that
 * an evaluation tells must be equal to the bit, and equal to that of the simulator, where no thread
 * races.
 */
#include "fast/strategy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { EVALUATIONS_MAX = 64, REPEATS = 6 };

/* Numbers of the evaluations of one run. */
typedef struct told {
    int count;                             /* of evaluations */
    double loss[EVALUATIONS_MAX];          /* mean of the epoch's batches */
    double accuracy[EVALUATIONS_MAX];      /* of the same batches */
    double test_accuracy[EVALUATIONS_MAX]; /* of the model */
} told;

static void on_event(void *ctx, const fast_event *event)
{
    told *t = ctx;

    if (event->kind != FAST_EVENT_EVALUATE || t->count >= EVALUATIONS_MAX)
        return;
    t->loss[t->count] = event->result->loss;
    t->accuracy[t->count] = event->result->train_accuracy;
    t->test_accuracy[t->count++] = event->result->test_accuracy;
}

/* Worker 1 is interrupted in each gradient after its last range was reported, which is when others
 * could continue. */
static void on_report(void *ctx, int64_t offset, int64_t count)
{
    const fast_trainer *t = ctx;

    (void)count;
    if (offset == 0 && t->rank == 1)
        nanosleep(&(struct timespec){ .tv_nsec = 3000000 }, NULL);
}

static fast_err interrupted(fast_trainer *t, const void *config)
{
    fast_err err = FAST_OK;

    (void)config;
    while (!err && fast_trainer_next(t)) {
        err = fast_trainer_gradient(t, on_report, t);
        if (!err)
            err = fast_trainer_update(t, t->g, 1.0f);
    }
    return err ? err : fast_trainer_end(t);
}

/* With a learning rate of 0 the replicas of its two workers are identical without an exchange. */
static const fast_strategy late = { .size = sizeof late,
                                    .name = "late",
                                    .summary = "worker 1 counts its steps late",
                                    .synchronous = true,
                                    .identical = true,
                                    .sends = "nothing",
                                    .worker = interrupted };

static told train(const char *strategy, const char *transport, bool two)
{
    char name[64], where[64];
    const char *const options[] = { "model=mlp:hidden=16",
                                    "data=digits:train=256,test=32",
                                    "engine=ref",
                                    "batch=8",
                                    "steps=24",
                                    "evaluate=2steps",
                                    name,
                                    where,
                                    two ? "workers=2" : "workers=4",
                                    two ? "lr=0" : "lr=0.05",
                                    NULL };
    fast_run *run = NULL;
    told t = { 0 };

    snprintf(name, sizeof name, "strategy=%s", strategy);
    snprintf(where, sizeof where, "transport=%s", transport);
    if (strcmp(strategy, "late") == 0)
        assert_int_equal(fast_run_open_strategy(options, &late, &run), FAST_OK);
    else
        assert_int_equal(fast_run_open(options, &run), FAST_OK);
    fast_run_watch(run, on_event, &t);
    assert_int_equal(fast_run_train(run), FAST_OK);
    fast_run_close(run);
    assert_true(t.count >= 3);
    return t;
}

/* Train again and again; the first difference is told. */
static void repeat(const char *strategy)
{
    const told first = train(strategy, "sim", false);

    for (int i = 0; i < REPEATS; i++) {
        const told again = train(strategy, "threads", false);

        assert_int_equal(again.count, first.count);
        for (int k = 0; k < first.count; k++)
            if (again.loss[k] != first.loss[k] || again.accuracy[k] != first.accuracy[k] ||
                again.test_accuracy[k] != first.test_accuracy[k])
                fail_msg("%s, repeat %d, evaluation %d: loss %.17g, accuracy %g; first %.17g, %g",
                         strategy, i, k, again.loss[k], again.accuracy[k], first.loss[k],
                         first.accuracy[k]);
    }
}

static void identical_replicas(void **state)
{
    (void)state;
    repeat("allreduce");
}

static void replicas_that_vote(void **state)
{
    (void)state;
    repeat("local:period=4");
    repeat("gossip");
}

static void a_worker_that_counts_late(void **state)
{
    (void)state;
    const told whole = train("allreduce", "threads", true);
    const told again = train("late", "threads", true);

    assert_int_equal(again.count, whole.count);
    for (int k = 0; k < whole.count; k++) {
        assert_true(again.loss[k] == whole.loss[k]);
        assert_true(again.accuracy[k] == whole.accuracy[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(identical_replicas),
        cmocka_unit_test(replicas_that_vote),
        cmocka_unit_test(a_worker_that_counts_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
