/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: one worker is a team of one actor and costs no more than a loop would: it trains the run's
 * own model in the caller's thread, stops where it is told to, and tells what it always told; a run
 * that was resumed continues the sums of its epoch, however many workers it has.
 * Method: small runs, watched by a callback that cancels them or notes their events.
 */
#include "run/team.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SMALL                                                                                   \
    "data=digits:train=480,test=40", "model=mlp:hidden=12", "batch=8", "engine=ref", "lr=0.05", \
        "schedule=constant"

static char folder[64] = "team_test.XXXXXX";

/* Events that a watcher saw, and when it cancels. */
typedef struct seen {
    fast_run *run;
    char kinds[64];      /* a letter for each event but progress */
    int64_t cancel_step; /* at whose evaluation the run is canceled; -1: never */
    bool elsewhere;      /* an event came in another thread */
    pthread_t thread;    /* of the caller */
} seen;

static void watch(void *ctx, const fast_event *event)
{
    seen *s = ctx;
    const size_t length = strlen(s->kinds);

    s->elsewhere = s->elsewhere || !pthread_equal(pthread_self(), s->thread);
    if (event->kind != FAST_EVENT_PROGRESS && length + 1 < sizeof s->kinds)
        s->kinds[length] = "S.ECN"[event->kind];
    if (event->kind == FAST_EVENT_EVALUATE && event->step == s->cancel_step)
        fast_run_cancel(s->run);
}

static fast_run *open_run(const char *const *options)
{
    fast_run *run = NULL;

    if (fast_run_open(options, &run))
        fail_msg("%s", fast_error_detail());
    return run;
}

static void train(fast_run *run)
{
    if (fast_run_train(run))
        fail_msg("%s", fast_error_detail());
}

static void file_option(const char *option, const char *name, char text[256])
{
    snprintf(text, 256, "%s=%.60s/%s", option, folder, name);
}

/* The worker has no vectors besides the run's, and no world is left behind. */
static void one_worker_trains_the_runs_model(void **state)
{
    const char *options[] = { SMALL, "optimizer=adam", "steps=20", NULL };
    fast_run *run = open_run(options);
    fast_worker worker;

    (void)state;
    train(run);
    assert_true(run->team->single);
    assert_ptr_equal(run->team->actors[0]->context.trainer.w, run->learner->w);
    assert_ptr_equal(run->team->actors[0]->context.trainer.g, run->learner->g);
    assert_ptr_equal(run->team->actors[0]->context.optimizer, run->optimizer);
    assert_null(run->team->ballot.last.parts);
    assert_null(run->team->place.world);
    assert_false(fast_run_worker(run, 0, &worker));
    assert_true(isnan(run->result.divergence) && isnan(run->result.staleness_mean));
    assert_true(run->result.compute_s > 0 && isfinite(run->result.predicted_step_s));
    fast_run_close(run);
}

/* Events come in the caller's thread, in their order, and a cancel stops the run where it is. */
static void one_worker_stops_at_once(void **state)
{
    char checkpoint[256];
    const char *options[] = { SMALL, "steps=20", "evaluate=5steps", checkpoint, NULL };
    seen s = { .cancel_step = 10, .thread = pthread_self() };

    (void)state;
    file_option("checkpoint", "stop.safetensors", checkpoint);
    s.run = open_run(options);
    fast_run_watch(s.run, watch, &s);
    train(s.run);
    assert_int_equal(s.run->result.steps, 10);
    assert_string_equal(s.run->result.stop, "canceled");
    assert_string_equal(s.kinds, "SEEC");
    train(s.run);
    assert_int_equal(s.run->result.steps, 20);
    assert_string_equal(s.run->result.stop, "done");
    assert_string_equal(s.kinds, "SEECSEEC");
    assert_false(s.elsewhere);
    fast_run_close(s.run);
}

/* A timeline is of any number of workers. */
static void one_worker_has_a_timeline(void **state)
{
    char trace[256];
    const char *options[] = { SMALL, "steps=5", trace, NULL };
    fast_run *run;

    (void)state;
    file_option("trace", "trace.json", trace);
    run = open_run(options);
    train(run);
    fast_run_close(run);
    assert_int_equal(access(strchr(trace, '=') + 1, R_OK), 0);
}

/* Replicas that are equal at each step are not voted on, and need no memory for it. */
static void only_different_replicas_are_voted_on(void **state)
{
    static const char *const strategies[] = { "strategy=allreduce", "strategy=local",
                                              "strategy=ps" };

    (void)state;
    for (int i = 0; i < 3; i++) {
        const char *options[] = { SMALL, "workers=2", "steps=8", strategies[i], NULL };
        fast_run *run = open_run(options);

        train(run);
        assert_true((run->team->ballot.last.parts == NULL) == (i == 0));
        fast_run_close(run);
    }
}

/* Two halves of an epoch tell the loss of the whole one. */
static void resumed_runs_continue_their_sums(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        char checkpoint[256], resume[256];
        const char *workers = i == 0 ? "workers=1" : "workers=2";
        const char *whole[] = { SMALL, workers, "steps=20", "evaluate=end", NULL };
        const char *half[] = { SMALL, workers, "steps=10", "evaluate=end", checkpoint, NULL };
        const char *rest[] = { SMALL, workers, "steps=20", "evaluate=end", resume, NULL };
        fast_run *a, *b, *c;

        file_option("checkpoint", "half.safetensors", checkpoint);
        file_option("resume", "half.safetensors", resume);
        a = open_run(whole);
        b = open_run(half);
        train(a);
        train(b);
        c = open_run(rest);
        train(c);
        assert_true(a->result.params_hash == c->result.params_hash);
        assert_true(fabs(a->result.loss - c->result.loss) < 1e-9);
        assert_true(a->result.train_accuracy == c->result.train_accuracy);
        fast_run_close(a);
        fast_run_close(b);
        fast_run_close(c);
    }
}

/* A checkpoint whose evaluation reached the target is not trained further. */
static void resumed_runs_remember_their_target(void **state)
{
    char checkpoint[256], resume[256];
    const char *options[] = {
        SMALL, "steps=20", "evaluate=5steps", "target=0.001", checkpoint, NULL
    };
    const char *again[] = { SMALL, "steps=20", "evaluate=5steps", "target=0.001", resume, NULL };
    fast_run *run;

    (void)state;
    file_option("checkpoint", "target.safetensors", checkpoint);
    file_option("resume", "target.safetensors", resume);
    for (int i = 0; i < 2; i++) {
        run = open_run(i == 0 ? options : again);
        train(run);
        assert_string_equal(run->result.stop, "target");
        assert_int_equal(run->result.steps, 5);
        assert_true(run->result.work > 0);
        fast_run_close(run);
    }
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_worker_trains_the_runs_model),
        cmocka_unit_test(one_worker_stops_at_once),
        cmocka_unit_test(one_worker_has_a_timeline),
        cmocka_unit_test(only_different_replicas_are_voted_on),
        cmocka_unit_test(resumed_runs_continue_their_sums),
        cmocka_unit_test(resumed_runs_remember_their_target),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
