/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: early stopping looks at the validation set alone, stops when its patience ends, tests and
 * saves the best model, repeats to the bit on one worker and several, and survives checkpoints.
 *
 * Method: a network that learns its 160 digits by heart, so that the validation loss turns; events
 * are recorded; weights that were saved are loaded and evaluated again; runs that are canceled and
 * resumed are compared with those that are not.
 */
#include "run/run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { EVENTS_MAX = 256, OPTIONS_MAX = 32 };

/* A run with its evaluations. */
typedef struct trained {
    fast_run *run;                 /* open while it is looked at */
    int64_t cancel_at;             /* step at which it is canceled; -1: never */
    int count;                     /* of evaluations */
    double validation[EVENTS_MAX]; /* loss of each */
    double test[EVENTS_MAX];       /* loss of each */
    fast_result result;            /* at the end */
} trained;

static void on_event(void *ctx, const fast_event *event)
{
    trained *t = ctx;

    if (event->kind != FAST_EVENT_EVALUATE)
        return;
    assert_true(t->count < EVENTS_MAX);
    t->validation[t->count] = event->result->validation_loss;
    t->test[t->count++] = event->result->test_loss;
    if (t->cancel_at >= 0 && event->step >= t->cancel_at)
        fast_run_cancel(t->run);
}

/* Options of every run here, and `more`, which ends with NULL. */
static void options_of(const char *const *more, const char *options[OPTIONS_MAX])
{
    static const char *const base[] = { "model=mlp:hidden=24",
                                        "data=digits:train=200,test=64",
                                        "engine=ref",
                                        "batch=8",
                                        "lr=0.1",
                                        "schedule=constant",
                                        "epochs=30",
                                        NULL };
    int n = 0;

    for (int i = 0; base[i]; i++)
        options[n++] = base[i];
    for (; *more; more++)
        options[n++] = *more;
    assert_true(n < OPTIONS_MAX);
    options[n] = NULL;
}

static void train(trained *t, int64_t cancel_at, const char *const *more)
{
    const char *options[OPTIONS_MAX];

    *t = (trained){ .cancel_at = cancel_at };
    options_of(more, options);
    if (fast_run_open(options, &t->run) != FAST_OK)
        fail_msg("%s", fast_error_detail());
    fast_run_watch(t->run, on_event, t);
    if (fast_run_train(t->run) != FAST_OK)
        fail_msg("%s", fast_error_detail());
    t->result = *fast_run_result(t->run);
}

#define TRAIN(t, cancel_at, ...) train(t, cancel_at, (const char *const[]){ __VA_ARGS__, NULL })

static void the_best_model_is_tested_and_saved(void **state)
{
    (void)state;
    trained t, loaded;
    int best = 0;

    unlink("early_best.safetensors");
    TRAIN(&t, -1, "validation=0.2", "patience=4", "save=early_best.safetensors");
    assert_string_equal(t.result.stop, "patience");
    /* The last event is the test; the four before it were not better than the one before them. */
    for (int i = 1; i < t.count - 1; i++)
        best = t.validation[i] < t.validation[best] ? i : best;
    assert_int_equal(t.count - 2 - best, 4);
    assert_int_equal(t.result.best_step, (best + 1) * 20);
    for (int i = 0; i < t.count - 1; i++)
        assert_true(isnan(t.test[i]));
    assert_true(isfinite(t.test[t.count - 1]));
    assert_non_null(fast_run_figures(t.run));
    assert_int_equal(fast_run_figures(t.run)->rows, 64);
    assert_true(fabs(fast_run_figures(t.run)->accuracy - t.result.test_accuracy) < 1e-12);
    /* The file has the model that was tested. */
    TRAIN(&loaded, -1, "load=early_best.safetensors", "epochs=0");
    assert_true(loaded.result.test_loss == t.result.test_loss);
    assert_true(loaded.result.test_accuracy == t.result.test_accuracy);
    fast_run_close(loaded.run);
    fast_run_close(t.run);
    unlink("early_best.safetensors");
    /* best=no: the model of the last evaluation, of the same training. */
    TRAIN(&loaded, -1, "validation=0.2", "patience=4", "best=no");
    assert_int_equal(loaded.result.steps, t.result.steps);
    assert_true(loaded.result.params_hash != t.result.params_hash);
    fast_run_close(loaded.run);
}

static void other_figures_and_a_margin(void **state)
{
    (void)state;
    static const char *const monitors[] = { "monitor=accuracy", "monitor=f1" };
    trained t;

    for (int i = 0; i < 2; i++) {
        TRAIN(&t, -1, "validation=0.2", "patience=5", monitors[i]);
        assert_string_equal(t.result.stop, "patience");
        assert_true(t.result.best_step > 0);
        fast_run_close(t.run);
    }
    /* Nothing improves by 100: the first evaluation stays the best. */
    TRAIN(&t, -1, "validation=0.2", "patience=3", "min_delta=100");
    assert_int_equal(t.result.best_step, 20);
    assert_int_equal(t.result.steps, 80);
    fast_run_close(t.run);
    /* The target is looked for in the validation set. */
    TRAIN(&t, -1, "validation=0.2", "target=0.2", "best=yes");
    assert_string_equal(t.result.stop, "target");
    assert_true(t.result.validation_accuracy >= 0.2);
    fast_run_close(t.run);
}

/* Cancel in the middle, resume, and compare with the run that was not canceled. */
static void check_resume(const char *workers, const char *transport)
{
    trained whole, part, rest;

    unlink("early.safetensors");
    TRAIN(&whole, -1, "validation=0.2", "patience=4", "batch=4", workers, transport);
    assert_string_equal(whole.result.stop, "patience");
    TRAIN(&part, whole.result.best_step + 1, "validation=0.2", "patience=4", "batch=4", workers,
          transport, "checkpoint=early.safetensors");
    assert_string_equal(part.result.stop, "canceled");
    assert_true(isnan(part.result.test_loss));
    fast_run_close(part.run);
    TRAIN(&rest, -1, "validation=0.2", "patience=4", "batch=4", workers, transport,
          "resume=early.safetensors");
    assert_string_equal(rest.result.stop, "patience");
    assert_int_equal(rest.result.steps, whole.result.steps);
    assert_int_equal(rest.result.best_step, whole.result.best_step);
    assert_true(rest.result.params_hash == whole.result.params_hash);
    assert_true(rest.result.test_loss == whole.result.test_loss);
    fast_run_close(rest.run);
    fast_run_close(whole.run);
    unlink("early.safetensors");
}

static void patience_survives_a_checkpoint(void **state)
{
    (void)state;
    check_resume("workers=1", "transport=auto");
    check_resume("workers=2", "transport=threads");
}

static void the_last_model_is_in_the_checkpoint(void **state)
{
    (void)state;
    trained whole, part, rest;

    unlink("early_last.safetensors");
    TRAIN(&whole, -1, "validation=0.2", "best=yes", "epochs=16");
    TRAIN(&part, -1, "validation=0.2", "best=yes", "epochs=12");
    assert_true(part.result.best_step < part.result.steps);
    assert_int_equal(fast_run_checkpoint(part.run, "early_last.safetensors"), FAST_OK);
    assert_true(fast_run_result(part.run)->params_hash == part.result.params_hash);
    fast_run_close(part.run);
    TRAIN(&rest, -1, "validation=0.2", "best=yes", "epochs=16", "resume=early_last.safetensors");
    assert_true(rest.result.params_hash == whole.result.params_hash);
    assert_true(rest.result.validation_loss == whole.result.validation_loss);
    fast_run_close(whole.run);
    fast_run_close(rest.run);
    /* Another choice of the best is another run. */
    const char *options[OPTIONS_MAX];
    fast_run *run = NULL;
    options_of((const char *const[]){ "validation=0.2", "monitor=accuracy", "best=yes",
                                      "resume=early_last.safetensors", NULL },
               options);
    assert_int_equal(fast_run_open(options, &run), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "monitor=loss"));
    /* Its last weights load as weights. */
    TRAIN(&rest, -1, "load=early_last.safetensors", "epochs=0");
    fast_run_close(rest.run);
    unlink("early_last.safetensors");
}

static void teams_stop_together(void **state)
{
    (void)state;
    static const char *const strategies[] = { "strategy=allreduce", "strategy=local:period=5",
                                              "strategy=gossip" };

    for (int i = 0; i < 3; i++) {
        trained threads, sim;

        TRAIN(&threads, -1, "validation=0.2", "patience=3", "workers=2", "batch=4", strategies[i],
              "transport=threads");
        TRAIN(&sim, -1, "validation=0.2", "patience=3", "workers=2", "batch=4", strategies[i],
              "transport=sim");
        assert_string_equal(threads.result.stop, "patience");
        assert_string_equal(sim.result.stop, "patience");
        assert_int_equal(threads.result.best_step, sim.result.best_step);
        assert_true(threads.result.params_hash == sim.result.params_hash);
        assert_true(threads.result.test_loss == sim.result.test_loss);
        fast_run_close(threads.run);
        fast_run_close(sim.run);
    }
    /* Asynchronous workers stop too, wherever they are; within 30 epochs one could be done before
     * the other one starts. */
    trained t;
    TRAIN(&t, -1, "validation=0.2", "patience=2", "min_delta=100", "workers=2", "batch=4",
          "strategy=hogwild", "epochs=3000");
    assert_string_equal(t.result.stop, "patience");
    assert_true(isfinite(t.result.test_loss));
    fast_run_close(t.run);
}

static void refused(const char *word, const char *const *more)
{
    const char *options[OPTIONS_MAX];
    fast_run *run = NULL;

    options_of(more, options);
    assert_int_equal(fast_run_open(options, &run), FAST_EINVAL);
    if (!strstr(fast_error_detail(), word))
        fail_msg("\"%s\" does not say \"%s\"", fast_error_detail(), word);
}

#define REFUSED(word, ...) refused(word, (const char *const[]){ __VA_ARGS__, NULL })

static void the_test_set_chooses_nothing(void **state)
{
    (void)state;
    REFUSED("give validation=0.1", "patience=3");
    REFUSED("give validation=0.1", "best=yes");
    REFUSED("give validation=0.1", "monitor=f1");
    REFUSED("needs evaluation", "validation=0.1", "evaluate=no");
    REFUSED("leave out evaluate=end", "validation=0.1", "patience=1", "evaluate=end");
    REFUSED("regression", "validation=0.1", "monitor=accuracy", "data=linear");
    REFUSED("ensemble", "validation=0.1", "best=yes", "workers=2", "strategy=ensemble");
    REFUSED("class_weights", "class_weights=1,2");
    REFUSED("has 3 numbers, and the data has 10", "class_weights=1,2,3");
    REFUSED("like 1,2.5,1", "class_weights=1,,3");
    REFUSED("not between", "class_weights=0,1,1,1,1,1,1,1,1,1");
    REFUSED("class_weights", "class_weights=many");
    REFUSED("regression", "class_weights=balanced", "data=linear");
}

static void class_weights_change_the_training(void **state)
{
    (void)state;
    trained plain, ones, weighted, balanced;

    TRAIN(&plain, -1, "epochs=2");
    TRAIN(&ones, -1, "epochs=2", "class_weights=1,1,1,1,1,1,1,1,1,1");
    TRAIN(&weighted, -1, "epochs=2", "class_weights=9,1,1,1,1,1,1,1,1,1");
    TRAIN(&balanced, -1, "epochs=2", "class_weights=balanced");
    assert_true(ones.result.params_hash == plain.result.params_hash);
    assert_true(weighted.result.params_hash != plain.result.params_hash);
    /* A class that weighs nine times as much is predicted more often. */
    assert_true(fast_run_figures(weighted.run)->by_class[0].predicted >
                fast_run_figures(plain.run)->by_class[0].predicted);
    /* sum over samples of their weights = samples */
    const fast_data *data = balanced.run->data.train;
    double sum = 0;
    for (int64_t i = 0; i < data->count; i++)
        sum += (double)balanced.run->graph->class_weights[data->labels[i]];
    assert_true(fabs(sum / (double)data->count - 1) < 1e-6);
    fast_run_close(plain.run);
    fast_run_close(ones.run);
    fast_run_close(weighted.run);
    fast_run_close(balanced.run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_model_is_tested_and_saved),
        cmocka_unit_test(other_figures_and_a_margin),
        cmocka_unit_test(patience_survives_a_checkpoint),
        cmocka_unit_test(the_last_model_is_in_the_checkpoint),
        cmocka_unit_test(teams_stop_together),
        cmocka_unit_test(the_test_set_chooses_nothing),
        cmocka_unit_test(class_weights_change_the_training),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
