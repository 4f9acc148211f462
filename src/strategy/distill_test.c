/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Distillation. Goal: who is taught by itself has nothing to learn, by another it has, and at a
 * high temperature a student matches the outputs of its teacher; the gradient is that of the
 * softened loss; a student without labels comes past the mean member of the ensemble that taught
 * it; all replicas of it are equal; members stop when asked; saved models teach as the same ones
 * in memory to the bit, and a smaller student without labels. Method: gradients under teachers, in
 * strategies of the test's own; small runs in the simulator.
 */
#include "base/memory.h"
#include "small_run.h"
#include "strategy/strategy.h"
#include "trainer/remember.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static double norms[4]; /* of gradients: own teacher; two; a hot one; none. One worker writes */

static double norm(const fast_trainer *t)
{
    double sum = 0;

    for (int64_t i = 0; i < t->count; i++)
        sum += (double)t->g[i] * (double)t->g[i];
    return sqrt(sum);
}

static fast_err ask(fast_trainer *t, const void *config)
{
    const int64_t size = t->count + t->state_count;
    float *models = NULL;

    (void)config;
    FAST_TRY(fast__alloc("teachers", 2 * size, sizeof *models, &models));
    /* The second has the outputs 1, 0, 0 and so on, by its last biases. */
    models[size + t->count - 10] = 1;
    memcpy(models, t->w, (size_t)t->count * sizeof *models);
    for (int i = 0; i < 4 && fast_trainer_next(t); i++) {
        if (i == 2) /* a student that knows nothing */
            memset(t->w, 0, (size_t)t->count * sizeof *t->w);
        FAST_TRY(fast_trainer_teach(t, i == 2 ? models + size : models,
                                    i == 3   ? 0
                                    : i == 1 ? 2
                                             : 1,
                                    i == 2 ? 1e3 : 1, 1));
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        norms[i] = norm(t);
    }
    fast__free(models);
    return fast_trainer_end(t);
}

static void teachers_are_the_targets(void **state)
{
    static const fast_strategy strategy = { .name = "ask", .summary = "teachers", .worker = ask };
    const char *const options[] = { "engine=ref",
                                    "model=mlp:hidden=8",
                                    "data=digits:train=64,test=16",
                                    "batch=8",
                                    "steps=4",
                                    "evaluate=no",
                                    "plan=no",
                                    NULL };
    fast_run *run = NULL;

    (void)state;
    assert_int_equal(fast_run_open_strategy(options, &strategy, &run), FAST_OK);
    assert_int_equal(fast_run_train(run), FAST_OK);
    fast_run_close(run);
    assert_true(norms[0] < 1e-5);
    assert_true(norms[1] > 1e-3);
    /* The gradient by output k tends to -(v_k - mean v) / 10: -0.09, and 0.01 nine times. */
    assert_true(fabs(norms[2] - sqrt(0.009)) < 2e-4);
    assert_true(norms[3] > 1e-2);
}

static double slopes[2]; /* |g|^2 of the softened loss, and its slope along g. One worker writes */

/* The gradient of one batch under a teacher at T = 3, beside differences of its loss. */
static fast_err differ(fast_trainer *t, const void *config)
{
    const int64_t size = t->count + t->state_count;
    const float step = 3e-3f;
    float *models = NULL;
    double loss[2];

    (void)config;
    FAST_TRY(fast__alloc("a teacher and a gradient", 2 * size, sizeof *models, &models));
    float *g = models + size;
    for (int64_t i = 0; i < t->count; i++)
        models[i] = -2 * t->w[i];
    if (fast_trainer_next(t)) {
        FAST_TRY(fast_trainer_teach(t, models, 1, 3, 0.7));
        FAST_TRY(fast_trainer_micro_gradient(t, 0));
        memcpy(g, t->g, (size_t)t->count * sizeof *g);
        slopes[0] = norm(t) * norm(t);
        fast_trainer_count_step(t);
        for (int k = 0; k < 2; k++) {
            for (int64_t i = 0; i < t->count; i++)
                t->w[i] += (k == 0 ? 1 : -2) * step * g[i];
            FAST_TRY(fast_trainer_micro_gradient(t, 0));
            fast_trainer_count_step(t);
            loss[k] = t->loss;
        }
        slopes[1] = (loss[0] - loss[1]) / (2 * (double)step);
    }
    FAST_TRY(fast_trainer_teach(t, NULL, 0, 1, 0));
    fast__free(models);
    return fast_trainer_end(t);
}

/* Hinton's loss, with the temperature in the student's outputs, and its gradient belong together,
 * also with batch norm, whose statistics are those of the batch. */
static void gradient_is_of_the_softened_loss(void **state)
{
    static const fast_strategy strategy = { .name = "differ", .summary = "-", .worker = differ };
    static const char *const cases[][2] = { { "engine=ref", "model=mlp:hidden=8" },
                                            { "engine=cpu", "model=mlp:hidden=8" },
                                            { "engine=ref", "model=resnet8:width=1" } };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const options[] = { cases[i][0], cases[i][1], "data=digits:train=64,test=16",
                                        "batch=8",   "steps=3",   "evaluate=no",
                                        "plan=no",   NULL };
        fast_run *run = NULL;

        assert_int_equal(fast_run_open_strategy(options, &strategy, &run), FAST_OK);
        if (fast_run_train(run))
            fail_msg("%s: %s", cases[i][1], fast_error_detail());
        fast_run_close(run);
        if (!(slopes[0] > 1e-4 && fabs(slopes[0] - slopes[1]) < 0.03 * slopes[0]))
            fail_msg("%s, %s: the gradient has %g, the loss %g", cases[i][0], cases[i][1],
                     slopes[0], slopes[1]);
    }
}

static void a_student_passes_the_mean_member(void **state)
{
    static const char *policies[] = { "representative=worker:rank=0",
                                      "representative=worker:rank=1",
                                      "representative=worker:rank=2",
                                      "representative=worker:rank=3" };
    const char *job[] = { "data=digits:train=4000,test=400",
                          "model=mlp:hidden=32",
                          "optimizer=momentum",
                          "lr=0.1",
                          "batch=16",
                          "engine=auto",
                          "evaluate=end",
                          "steps=200",
                          NULL,
                          NULL };
    double mean = 0, student;
    fast_result r;

    (void)state;
#ifdef FAST_SANITIZED
    skip();
#endif
    for (int i = 0; i < 4; i++) {
        job[8] = policies[i];
        mean += test_small_run("ensemble", 4, job).test_accuracy / 4;
    }
    job[7] = "steps=400";
    job[8] = NULL;
    r = test_small_run("distill:share=0.9", 4, job);
    student = r.test_accuracy;
    assert_true(r.divergence == 0);
    print_message("members %.3f, student %.3f\n", mean, student);
    if (!(student > mean - 0.02))
        fail_msg("members %.3f, student %.3f", mean, student);
}

static void stop_at_once(void *ctx, const fast_event *event)
{
    if (event->kind == FAST_EVENT_EVALUATE)
        fast_run_cancel(ctx);
}

/* Members, which do not synchronise for long, stop soon and at the same step. */
static void members_stop_when_asked(void **state)
{
    static const char *const strategies[] = { "strategy=distill", "strategy=local:period=0" };
    static const char *const transports[] = { "transport=threads", "transport=sim" };

    (void)state;
    for (int i = 0; i < 4; i++) {
        const char *const options[] = { strategies[i / 2],
                                        transports[i % 2],
                                        "engine=ref",
                                        "model=mlp:hidden=8",
                                        "data=digits:train=64,test=16",
                                        "batch=8",
                                        "workers=3",
                                        "steps=40000",
                                        "evaluate=10steps",
                                        "plan=no",
                                        NULL };
        fast_run *run = NULL;
        fast_worker worker;
        int64_t steps;

        assert_int_equal(fast_run_open(options, &run), FAST_OK);
        fast_run_watch(run, stop_at_once, run);
        assert_int_equal(fast_run_train(run), FAST_OK);
        assert_true(fast_run_result(run)->canceled);
        steps = fast_run_result(run)->steps;
        assert_in_range(steps, 10, 10000);
        for (int64_t k = 0; k < 3; k++) {
            assert_true(fast_run_worker(run, k, &worker));
            assert_int_equal(worker.steps, steps);
        }
        fast_run_close(run);
    }
}

static char teacher[] = "/tmp/fast-teacher-XXXXXX"; /* a saved model of mlp:hidden=16 */

/* Train a teacher and save it. */
static int save_teacher(void **state)
{
    const char *const options[] = { "model=mlp:hidden=16",
                                    "data=digits:train=1000,test=100",
                                    "batch=10",
                                    "epochs=4",
                                    "lr=0.1",
                                    "evaluate=no",
                                    "plan=no",
                                    NULL };
    const int fd = mkstemp(teacher);
    fast_run *run = NULL;

    (void)state;
    if (fd < 0 || close(fd) || fast_run_open(options, &run) || fast_run_train(run) ||
        fast_run_save(run, teacher))
        return 1;
    fast_run_close(run);
    return 0;
}

static int remove_teacher(void **state)
{
    (void)state;
    return unlink(teacher);
}

static bool alike; /* are both gradients the same bits? One worker writes */

/* The gradient of a student under the weights that were loaded, in memory and from their file. */
static fast_err ask_twice(fast_trainer *t, const void *config)
{
    const size_t size = (size_t)t->count * sizeof(float);
    float *models = NULL;

    (void)config;
    FAST_TRY(fast__alloc("a teacher and a gradient", 2 * t->count, sizeof *models, &models));
    memcpy(models, t->w, size);
    for (int64_t i = 0; i < t->count; i++)
        t->w[i] *= 0.5f;
    fast_err err = fast_trainer_next(t) ? fast_trainer_teach(t, models, 1, 2, 0.9) : FAST_ECANCELED;
    if (!err)
        err = fast_trainer_micro_gradient(t, 0);
    if (!err) {
        memcpy(models + t->count, t->g, size);
        fast_trainer_count_step(t);
        err = fast__trainer_teach_saved(t, teacher, 2, 0.9);
    }
    if (!err)
        err = fast_trainer_micro_gradient(t, 0);
    if (!err) {
        alike = memcmp(models + t->count, t->g, size) == 0;
        fast_trainer_count_step(t);
        err = fast_trainer_teach(t, NULL, 0, 1, 0);
    }
    fast__free(models);
    return err ? err : fast_trainer_end(t);
}

static void saved_models_are_as_those_in_memory(void **state)
{
    static const fast_strategy strategy = { .name = "twice", .summary = "-", .worker = ask_twice };
    static const char *const engines[] = { "engine=ref", "engine=auto" };
    char load[64];

    (void)state;
    snprintf(load, sizeof load, "load=%s", teacher);
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
        const char *const options[] = { engines[i],    "model=mlp:hidden=16",
                                        load,          "data=digits:train=64,test=16",
                                        "batch=8",     "steps=2",
                                        "evaluate=no", "plan=no",
                                        NULL };
        fast_run *run = NULL;

        alike = false;
        assert_int_equal(fast_run_open_strategy(options, &strategy, &run), FAST_OK);
        if (fast_run_train(run))
            fail_msg("%s: %s", engines[i], fast_error_detail());
        fast_run_close(run);
        assert_true(alike);
    }
}

/* Half of the teacher's width, and no label. */
static void a_small_student_learns_without_labels(void **state)
{
    const char *job[] = { "data=digits:train=1000,test=100",
                          "model=mlp:hidden=8",
                          "optimizer=momentum",
                          "lr=0.05",
                          "batch=10",
                          "steps=200",
                          "evaluate=end",
                          NULL };
    char strategy[128];
    fast_result one, again;

    (void)state;
    snprintf(strategy, sizeof strategy, "distill:share=1,teachers=%s", teacher);
    one = test_small_run(strategy, 4, job);
    assert_true(one.divergence == 0);
    if (!(one.test_loss < 2.1)) /* that of a guess is 2.3 */
        fail_msg("the student has a loss of %g", one.test_loss);
    snprintf(strategy, sizeof strategy, "distill:share=1,teachers=%s+%s", teacher, teacher);
    again = test_small_run(strategy, 4, job); /* the mean of equal teachers is one of them */
    assert_true(fabs(again.test_loss - one.test_loss) < 0.02);
}

static void other_teachers_are_refused(void **state)
{
    static const struct {
        const char *data, *files, *why;
    } cases[] = { { "data=digits:train=64,test=16", "+", "joined by +" },
                  { "data=digits:train=64,test=16", "/nowhere/t", "/nowhere/t" },
                  { "data=blobs", "", "a teacher answers what the student is asked" },
                  { "data=digits:train=64,test=16,normalize=standard", "", "the same --data" } };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char strategy[128];
        const char *const options[] = { strategy,  "model=mlp:hidden=4", cases[i].data,
                                        "batch=8", "workers=2",          "transport=sim",
                                        "steps=2", "evaluate=no",        "plan=no",
                                        NULL };
        fast_run *run = NULL;

        snprintf(strategy, sizeof strategy, "strategy=distill:teachers=%s",
                 cases[i].files[0] ? cases[i].files : teacher);
        assert_int_equal(fast_run_open(options, &run), FAST_OK);
        assert_int_not_equal(fast_run_train(run), FAST_OK);
        if (!strstr(fast_error_detail(), cases[i].why))
            fail_msg("%s on %s: %s", strategy, cases[i].data, fast_error_detail());
        fast_run_close(run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(teachers_are_the_targets),
        cmocka_unit_test(gradient_is_of_the_softened_loss),
        cmocka_unit_test(a_student_passes_the_mean_member),
        cmocka_unit_test(members_stop_when_asked),
        cmocka_unit_test(saved_models_are_as_those_in_memory),
        cmocka_unit_test(a_small_student_learns_without_labels),
        cmocka_unit_test(other_teachers_are_refused),
    };

    return cmocka_run_group_tests(tests, save_teacher, remove_teacher);
}
