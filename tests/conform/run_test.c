/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs through the public header alone. Goal: a run repeats to the bit, also when it is stopped
 * anywhere and resumed; it stops where it is asked to; it refuses what does not fit, with the
 * reason, before anything is written. Method: small models on small data, compared by
 * params_hash, by the running means and by the last evaluation.
 */
#include "fast/lab.h"
#include "fast/run.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { OPTIONS_MAX = 32, OPTION_MAX = 600 };

static char folder[256]; /* of this program's files */

static const char *path_of(const char *name)
{
    static char paths[8][512];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

/* "option=FOLDER/name" */
static const char *file_option(const char *option, const char *name, char text[OPTION_MAX])
{
    snprintf(text, OPTION_MAX, "%s=%s", option, path_of(name));
    return text;
}

/* A job: its options, and a network where it has one of its own. */
typedef struct job {
    const char *options[OPTIONS_MAX]; /* "name=value" */
    const char *network[OPTIONS_MAX]; /* lines; empty: by the options */
} job;

static const char *const always[] = { "data=digits:train=80,test=24", "batch=8" };
static char engine[64] = "engine=ref"; /* of every job; some tests try them all */
static char plan[OPTION_MAX];          /* "plan=FILE": what is measured once is then read */

static const job sgd = { { "model=mlp:hidden=12", "optimizer=sgd", "steps=25" }, { NULL } };
static const job momentum = {
    { "model=mlp:hidden=12", "optimizer=momentum", "steps=25", "schedule=cosine" }, { NULL }
};
static const job adam = { { "model=mlp:hidden=12", "optimizer=adam", "lr=0.002", "steps=25" },
                          { NULL } };
static const job lamb = { { "model=mlp:hidden=12", "optimizer=lamb", "lr=0.002", "steps=25" },
                          { NULL } };
static const job images = { { "optimizer=momentum", "steps=25", "augment=shift:2+flip+noise:0.1",
                              "evaluate=7steps" },
                            { "conv 3 kernel=5 stride=2", "batch_norm", "relu", "dropout 0.3",
                              "max_pool 2", "flatten", "dense 10" } };

/* Open a job with more options. The network, where there is one, is the caller's to free. */
static fast_err open_job(const job *j, const char *const *more, fast_network **network,
                         fast_run **run)
{
    const char *options[OPTIONS_MAX] = { NULL };
    int count = 0;
    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++)
        options[count++] = always[i];
    options[count++] = engine;
    options[count++] = plan;
    for (int i = 0; j->options[i]; i++)
        options[count++] = j->options[i];
    for (int i = 0; more && more[i]; i++)
        options[count++] = more[i];
    assert_true(count < OPTIONS_MAX);
    *network = NULL;
    if (j->network[0]) {
        assert_int_equal(fast_network_new(network), FAST_OK);
        for (int i = 0; j->network[i]; i++)
            if (fast_network_add(*network, j->network[i]) != FAST_OK)
                fail_msg("%s: %s", j->network[i], fast_error_detail());
    }
    const fast_err err = fast_run_open_with(options, *network, NULL, NULL, run);
    if (err) {
        fast_network_free(*network);
        *network = NULL;
    }
    return err;
}

/* Train a job to its end and give the result. */
static fast_result train_job(const job *j, const char *const *more)
{
    fast_network *network;
    fast_run *run;
    if (open_job(j, more, &network, &run) != FAST_OK)
        fail_msg("%s", fast_error_detail());
    if (fast_run_train(run) != FAST_OK)
        fail_msg("%s", fast_error_detail());
    const fast_result result = *fast_run_result(run);
    fast_run_close(run);
    fast_network_free(network);
    return result;
}

static void assert_same_number(double a, double b)
{
    assert_true(isnan(a) == isnan(b));
    if (!isnan(a))
        assert_memory_equal(&a, &b, sizeof a);
}

static void assert_same(const fast_result *a, const fast_result *b)
{
    assert_int_equal(a->steps, b->steps);
    assert_int_equal(a->samples, b->samples);
    assert_int_equal(a->params_hash, b->params_hash);
    assert_same_number(a->loss, b->loss);
    assert_same_number(a->train_accuracy, b->train_accuracy);
    assert_same_number(a->test_loss, b->test_loss);
    assert_same_number(a->test_accuracy, b->test_accuracy);
}

static const job *const jobs[] = { &sgd, &momentum, &adam, &lamb, &images };
enum { JOB_COUNT = sizeof jobs / sizeof jobs[0] };

/* Call `check` once for each engine of the build. */
static void for_engines(void (*check)(void))
{
    int64_t count = 0;
    const fast_part *engines = fast_part_list("engine", &count);
    for (int64_t i = 0; i < count; i++) {
        snprintf(engine, sizeof engine, "engine=%s", engines[i].name);
        check();
    }
    snprintf(engine, sizeof engine, "engine=ref");
}

static void check_same_seed(void)
{
    for (size_t i = 0; i < JOB_COUNT; i++) {
        const fast_result a = train_job(jobs[i], NULL);
        const fast_result b = train_job(jobs[i], NULL);
        assert_same(&a, &b);
        assert_int_equal(a.steps, 25);
        assert_int_equal(a.samples, 200);
        assert_string_equal(a.stop, "done");
        const fast_result c = train_job(jobs[i], (const char *const[]){ "seed=2", NULL });
        assert_int_not_equal(a.params_hash, c.params_hash);
    }
}

static void same_seed_same_bits(void **state)
{
    (void)state;
    for_engines(check_same_seed);
}

/* Prefetching changes when batches are made, never what they are. */
static void prefetch_same_bits(void **state)
{
    (void)state;
    const fast_result a = train_job(&images, (const char *const[]){ "prefetch=0", NULL });
    const fast_result b = train_job(&images, (const char *const[]){ "prefetch=3", NULL });
    assert_same(&a, &b);
}

/* Cancels a run after a number of steps; every step is evaluated, so every step has an event. */
typedef struct stopper {
    fast_run *run;
    int64_t step;
} stopper;

static void cancel_at(void *ctx, const fast_event *event)
{
    stopper *s = ctx;
    if (event->kind == FAST_EVENT_EVALUATE && event->step >= s->step)
        fast_run_cancel(s->run);
}

/* Train until step k, then leave a checkpoint. */
static void stop_job(const job *j, int64_t k, const char *const *more)
{
    const char *options[OPTIONS_MAX] = { "evaluate=1steps" };
    for (int i = 0; more[i]; i++)
        options[i + 1] = more[i];
    fast_network *network;
    fast_run *run;
    if (open_job(j, options, &network, &run) != FAST_OK)
        fail_msg("%s", fast_error_detail());
    stopper s = { run, k };
    fast_run_watch(run, cancel_at, &s);
    assert_int_equal(fast_run_train(run), FAST_OK);
    assert_true(fast_run_result(run)->canceled);
    assert_string_equal(fast_run_result(run)->stop, "canceled");
    assert_int_equal(fast_run_result(run)->steps, k);
    fast_run_close(run);
    fast_network_free(network);
}

/* The evaluation that the stopped half made at every step is not the whole run's; the last one of
 * both is at the end. */
static void check_resume(void)
{
    const int64_t stops[] = { 1, 7, 10, 13, 20, 24 };
    char checkpoint[OPTION_MAX];
    char resume[OPTION_MAX];
    file_option("checkpoint", "stop.safetensors", checkpoint);
    file_option("resume", "stop.safetensors", resume);
    for (size_t i = 0; i < JOB_COUNT; i++) {
        const fast_result whole = train_job(jobs[i], NULL);
        for (size_t k = 0; k < sizeof stops / sizeof stops[0]; k++) {
            stop_job(jobs[i], stops[k], (const char *const[]){ checkpoint, NULL });
            const fast_result parts = train_job(jobs[i], (const char *const[]){ resume, NULL });
            assert_same(&whole, &parts);
        }
    }
}

static void resume_same_bits(void **state)
{
    (void)state;
    for_engines(check_resume);
}

/* Several stops in one run; a resumed run without a checkpoint of its own keeps the old file. */
static void resume_again_and_again(void **state)
{
    (void)state;
    char checkpoint[OPTION_MAX];
    char resume[OPTION_MAX];
    file_option("checkpoint", "again.safetensors", checkpoint);
    file_option("resume", "again.safetensors", resume);
    const fast_result whole = train_job(&images, NULL);
    for (int64_t k = 5; k <= 20; k += 5)
        stop_job(&images, k, (const char *const[]){ k > 5 ? resume : checkpoint, NULL });
    const fast_result parts = train_job(&images, (const char *const[]){ resume, NULL });
    assert_same(&whole, &parts);
}

/* A run that has not ended has no reason why it ended. */
static void expect_no_stop(void *ctx, const fast_event *event)
{
    (void)ctx;
    assert_string_equal(event->result->stop, "");
}

/* The same run continues where it was canceled. */
static void cancel_and_train_again(void **state)
{
    (void)state;
    const fast_result whole = train_job(&adam, NULL);
    fast_network *network;
    fast_run *run;
    assert_int_equal(open_job(&adam, NULL, &network, &run), FAST_OK);
    fast_run_cancel(run); /* before the first step */
    assert_int_equal(fast_run_train(run), FAST_OK);
    assert_true(fast_run_result(run)->canceled);
    assert_int_equal(fast_run_result(run)->steps, 0);
    fast_run_watch(run, expect_no_stop, NULL);
    assert_int_equal(fast_run_train(run), FAST_OK);
    assert_false(fast_run_result(run)->canceled);
    assert_string_equal(fast_run_result(run)->stop, "done");
    const fast_result parts = *fast_run_result(run);
    assert_same(&whole, &parts);
    fast_run_close(run);
}

static void *cancel_soon(void *ctx)
{
    usleep(50000);
    fast_run_cancel(ctx);
    return NULL;
}

static const char *const endless[] = { "steps=100000000", "evaluate=no", NULL };

static void cancel_from_a_thread(void **state)
{
    (void)state;
    fast_network *network;
    fast_run *run;
    assert_int_equal(open_job(&sgd, endless, &network, &run), FAST_OK);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, run), 0);
    assert_int_equal(fast_run_train(run), FAST_OK);
    pthread_join(thread, NULL);
    assert_true(fast_run_result(run)->canceled);
    assert_true(fast_run_result(run)->steps > 0);
    fast_run_close(run);
}

static fast_run *volatile alarmed;

static void on_alarm(int number)
{
    (void)number;
    fast_run_cancel(alarmed);
}

static void cancel_from_a_signal(void **state)
{
    (void)state;
    fast_network *network;
    fast_run *run;
    assert_int_equal(open_job(&sgd, endless, &network, &run), FAST_OK);
    alarmed = run;
    signal(SIGALRM, on_alarm);
    alarm(1);
    assert_int_equal(fast_run_train(run), FAST_OK);
    signal(SIGALRM, SIG_DFL);
    assert_true(fast_run_result(run)->canceled);
    fast_run_close(run);
}

static void target_stops(void **state)
{
    (void)state;
    char file[OPTION_MAX];
    const char *const data = "data=digits:train=400,test=60,noise=0,distort=0.2";
    const char *const more[] = {
        "epochs=100", "steps=0", "target=0.5", "lr=0.02", data, file, NULL
    };
    file_option("checkpoint", "target.safetensors", file);
    const fast_result r = train_job(&momentum, more);
    assert_string_equal(r.stop, "target");
    assert_true(r.test_accuracy >= 0.5);
    assert_true(r.steps < 5000 && r.steps % 50 == 0);
    assert_true(r.time_to_target_s > 0 && r.time_to_target_s <= r.time_s);

    /* Resumed, it is still at the target. */
    file_option("resume", "target.safetensors", file);
    const fast_result again = train_job(&momentum, more);
    assert_string_equal(again.stop, "target");
    assert_same(&r, &again);
}

static void save_and_load(void **state)
{
    (void)state;
    char save[OPTION_MAX];
    char load[OPTION_MAX];
    file_option("save", "w.safetensors", save);
    file_option("load", "w.safetensors", load);
    const fast_result a = train_job(&images, (const char *const[]){ save, NULL });
    const char *const options[] = { load, "steps=0", "epochs=0", "lr=9", NULL };
    const fast_result b = train_job(&images, options);
    assert_int_equal(a.params_hash, b.params_hash);
    assert_int_equal(b.steps, 0);
    assert_same_number(a.test_loss, b.test_loss); /* no epochs: evaluates only */
    assert_same_number(a.test_accuracy, b.test_accuracy);

    fast_network *network;
    fast_run *run;
    file_option("save", "m.safetensors", save);
    file_option("load", "m.safetensors", load);
    train_job(&sgd, (const char *const[]){ save, NULL });
    assert_int_equal(open_job(&images, (const char *const[]){ load, NULL }, &network, &run),
                     FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "has no tensor \"conv"));
    const char *const wider[] = { load, "model=mlp:hidden=13", NULL };
    assert_int_equal(open_job(&sgd, wider, &network, &run), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "[12, 784]"));
    static const char *const missing[] = { "load=/nonexistent/w.safetensors", NULL };
    assert_int_equal(open_job(&sgd, missing, &network, &run), FAST_ENOENT);
}

/* A checkpoint of another run is refused, and the sentence names what differs. */
static void foreign_checkpoints(void **state)
{
    (void)state;
    char checkpoint[OPTION_MAX];
    char resume[OPTION_MAX];
    file_option("checkpoint", "c.safetensors", checkpoint);
    file_option("resume", "c.safetensors", resume);
    train_job(&momentum, (const char *const[]){ checkpoint, NULL });
    static const char *const changes[][2] = { { "model=mlp:hidden=13", "model=mlp:hidden=12" },
                                              { "optimizer=adam", "optimizer=momentum" },
                                              { "data=digits:train=88,test=24", "data=" },
                                              { "seed=3", "seed=1" },
                                              { "lr=0.01", "lr=0.05" },
                                              { "batch=4", "batch=8" },
                                              { "augment=flip", "augment=no" } };
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        fast_network *network;
        fast_run *run;
        const char *const options[] = { resume, changes[i][0], NULL };
        assert_int_equal(open_job(&momentum, options, &network, &run), FAST_EINVAL);
        if (!strstr(fast_error_detail(), changes[i][0]) ||
            !strstr(fast_error_detail(), changes[i][1]))
            fail_msg("%s", fast_error_detail());
    }
}

static void write_bytes(const char *path, const char *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static fast_err resume_file(const char *name)
{
    char resume[OPTION_MAX];
    file_option("resume", name, resume);
    fast_network *network;
    fast_run *run;
    const fast_err err = open_job(&momentum, (const char *const[]){ resume, NULL }, &network, &run);
    if (err == FAST_OK)
        fast_run_close(run);
    return err;
}

/* A truncated or damaged file is no checkpoint, wherever it is cut; nor is a file of weights. */
static void damaged_checkpoints(void **state)
{
    (void)state;
    char option[OPTION_MAX];
    file_option("checkpoint", "d.safetensors", option);
    train_job(&momentum, (const char *const[]){ option, NULL });
    FILE *file = fopen(path_of("d.safetensors"), "rb");
    assert_non_null(file);
    static char bytes[1 << 20];
    const size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    assert_true(size > 1000 && size < sizeof bytes);
    assert_int_equal(resume_file("d.safetensors"), FAST_OK);

    for (size_t cut = 0; cut < size; cut += cut < 24 ? 1 : 3989) {
        write_bytes(path_of("t.safetensors"), bytes, cut);
        if (resume_file("t.safetensors") != FAST_EFORMAT)
            fail_msg("cut at %zu: %s", cut, fast_error_detail());
    }
    bytes[size / 4] ^= 1; /* in the parameters */
    write_bytes(path_of("t.safetensors"), bytes, size);
    assert_int_equal(resume_file("t.safetensors"), FAST_EFORMAT);
    assert_non_null(strstr(fast_error_detail(), "damaged"));
    bytes[size / 4] ^= 1;

    /* One bit, anywhere: in the position, the sums or the rule's state as in the parameters. */
    uint64_t header;
    memcpy(&header, bytes, sizeof header);
    for (size_t at = 0; at < size; at += at < 8 + header ? 5 : 3989) {
        bytes[at] ^= (char)(1 << at % 7);
        write_bytes(path_of("t.safetensors"), bytes, size);
        if (resume_file("t.safetensors") == FAST_OK)
            fail_msg("byte %zu of %zu, header %zu", at, size, (size_t)header);
        bytes[at] ^= (char)(1 << at % 7);
    }

    file_option("save", "w2.safetensors", option);
    train_job(&momentum, (const char *const[]){ option, NULL });
    assert_int_equal(resume_file("w2.safetensors"), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "not a checkpoint"));
}

/* A finished run can be made longer. */
static void longer_run(void **state)
{
    (void)state;
    char checkpoint[OPTION_MAX];
    char resume[OPTION_MAX];
    file_option("checkpoint", "l.safetensors", checkpoint);
    file_option("resume", "l.safetensors", resume);
    const char *const whole[] = { "schedule=constant", "steps=30", NULL };
    const char *const part[] = { "schedule=constant", checkpoint, NULL };
    const char *const rest[] = { "schedule=constant", "steps=30", resume, NULL };
    const fast_result a = train_job(&momentum, whole);
    train_job(&momentum, part);
    const fast_result b = train_job(&momentum, rest);
    assert_same(&a, &b);
}

static void wrong_options(void **state)
{
    (void)state;
    static const struct {
        const char *option;
        const char *says;
    } wrong[] = {
        { "epoch=3", "epochs" },
        { "model=lennet", "lenet" },
        { "data=digit", "digits" },
        { "optimizer=adan", "adam" },
        { "schedule=cosin", "cosine" },
        { "engine=reff", "ref" },
        { "workers=2", "does not fit" },
        { "batch=0", "batch" },
        { "batch=x", "batch" },
        { "target=0.9x", "target" },
        { "target=91", "target" },
        { "evaluate=often", "evaluate" },
        { "shard=labels", "label" },
        { "batch=1000000", "1000000" },
        { "augment=flop", "flip" },
        { "steps", "name=value" },
        { "save=/nonexistent/a/b", "/nonexistent/a" },
        { "save=/tmp", "folder" },
        { "prefetch=-1", "prefetch" },
        { "optimizer=adam:beta3=1", "beta" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const char *const options[] = { "engine=ref", "data=digits:train=80,test=24",
                                        wrong[i].option, NULL };
        fast_run *run = NULL;
        const fast_err err = fast_run_open(options, &run);
        if (err != FAST_EINVAL || !strstr(fast_error_detail(), wrong[i].says))
            fail_msg("%s: %s %s", wrong[i].option, fast_err_name(err), fast_error_detail());
        assert_null(run);
        assert_null(strchr(fast_error_detail(), '\n'));
    }
}

static void options_as_text(void **state)
{
    (void)state;
    fast_network *network;
    fast_run *run;
    assert_int_equal(open_job(&sgd, NULL, &network, &run), FAST_OK);
    assert_string_equal(fast_run_option(run, "model"), "mlp:hidden=12");
    assert_string_equal(fast_run_option(run, "engine"), "ref");
    assert_string_equal(fast_run_option(run, "steps"), "25");
    assert_string_equal(fast_run_option(run, "lr"), "0.1");
    assert_string_equal(fast_run_option(run, "shard"), "sample");
    assert_null(fast_run_option(run, "no_such"));
    fast_run_close(run);
}

/* A plane over a square, and a network that can find it. */
enum { PLANE_COUNT = 64 };
typedef struct plane {
    float x[PLANE_COUNT][2];
    float y[PLANE_COUNT];
    fast_data *data;
    fast_network *network;
} plane;

static void plane_init(plane *p)
{
    for (int i = 0; i < PLANE_COUNT; i++) {
        p->x[i][0] = (float)(i % 8) / 8 - 0.5f;
        p->x[i][1] = (float)(i / 8) / 8 - 0.5f;
        p->y[i] = 2 * p->x[i][0] - p->x[i][1] + 0.25f;
    }
    const fast_data_options options = { .count = PLANE_COUNT,
                                        .rank = 1,
                                        .shape = { 2 },
                                        .x = &p->x[0][0],
                                        .targets = p->y,
                                        .outputs = 1 };
    assert_int_equal(fast_data_new(&options, &p->data), FAST_OK);
    assert_int_equal(fast_network_new(&p->network), FAST_OK);
    assert_int_equal(fast_network_add(p->network, "dense 1"), FAST_OK);
}

static void plane_fini(plane *p)
{
    fast_network_free(p->network);
    fast_data_free(p->data);
}

/* A loss that is not a number ends the run; it is a reason, not an error, and saves nothing. */
static void divergence_stops(void **state)
{
    (void)state;
    plane p;
    plane_init(&p);
    char save[OPTION_MAX];
    file_option("save", "never.safetensors", save);
    const char *const options[] = { "engine=ref", "batch=16", "epochs=1000", "lr=1000",
                                    "plan=no",    save,       NULL };
    fast_run *run;
    assert_int_equal(fast_run_open_with(options, p.network, p.data, NULL, &run), FAST_OK);
    assert_int_equal(fast_run_train(run), FAST_OK);
    assert_string_equal(fast_run_result(run)->stop, "diverged");
    assert_true(fast_run_result(run)->steps < 4000);
    assert_int_not_equal(access(path_of("never.safetensors"), F_OK), 0);
    fast_run_close(run);
    plane_fini(&p);
}

/* Regression on data of the caller's: the plane is found, there is no accuracy, and predictions are
 * near the targets. */
static void own_regression_data(void **state)
{
    (void)state;
    plane p;
    plane_init(&p);
    const char *const options[] = { "engine=ref",         "batch=16", "epochs=60", "lr=0.2",
                                    "optimizer=momentum", "plan=no",  NULL };
    fast_run *run;
    if (fast_run_open_with(options, p.network, p.data, p.data, &run) != FAST_OK)
        fail_msg("%s", fast_error_detail());
    assert_int_equal(fast_run_train(run), FAST_OK);
    const fast_result *r = fast_run_result(run);
    assert_true(r->test_loss < 1e-4);
    assert_true(isnan(r->test_accuracy) && isnan(r->train_accuracy));
    assert_int_equal(fast_run_inputs(run), 2);
    assert_int_equal(fast_run_outputs(run), 1);
    float outputs[PLANE_COUNT];
    assert_int_equal(fast_run_predict(run, PLANE_COUNT - 3, &p.x[0][0], outputs), FAST_OK);
    for (int i = 0; i < PLANE_COUNT - 3; i++)
        assert_true(fabsf(outputs[i] - p.y[i]) < 0.05f);
    fast_run_close(run);

    const char *const target[] = { "target=0.5", "plan=no", NULL };
    assert_int_equal(fast_run_open_with(target, p.network, p.data, p.data, &run), FAST_EINVAL);
    assert_int_equal(fast_run_open_with(target, p.network, p.data, NULL, &run), FAST_EINVAL);
    plane_fini(&p);
}

/* --log appends a line per evaluation. */
static void log_has_a_line_per_evaluation(void **state)
{
    (void)state;
    char option[OPTION_MAX];
    file_option("log", "log.jsonl", option);
    for (int round = 1; round <= 2; round++) {
        train_job(&sgd, (const char *const[]){ option, "evaluate=10steps", NULL });
        FILE *file = fopen(path_of("log.jsonl"), "r");
        assert_non_null(file);
        char line[512];
        int count = 0;
        while (fgets(line, sizeof line, file)) {
            const char *steps[] = { "{\"step\": 10,", "{\"step\": 20,", "{\"step\": 25," };
            assert_int_equal(strncmp(line, steps[count % 3], strlen(steps[0])), 0);
            assert_non_null(strstr(line, "\"test_accuracy\": 0"));
            assert_int_equal(line[strlen(line) - 2], '}');
            count++;
        }
        fclose(file);
        assert_int_equal(count, 3 * round);
    }
}

/* Sequences: a few steps of each kind of model are better than guessing. */
static void text_models(void **state)
{
    (void)state;
    FILE *file = fopen(path_of("text.txt"), "w");
    assert_non_null(file);
    for (int i = 0; i < 60; i++)
        fputs("the quick brown fox jumps over the lazy dog. ", file);
    fclose(file);
    char data[OPTION_MAX];
    snprintf(data, sizeof data, "data=text:file=%s,length=16", path_of("text.txt"));
    const char *const models[] = { "model=lstm:hidden=16", "model=gpt:depth=1,heads=2,width=16" };
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        const char *const options[] = { "engine=ref",     data,      models[i], "steps=12",
                                        "batch=8",        "lr=0.01", "plan=no", "evaluate=end",
                                        "optimizer=adam", NULL };
        fast_run *run;
        if (fast_run_open(options, &run) != FAST_OK)
            fail_msg("%s: %s", models[i], fast_error_detail());
        assert_int_equal(fast_run_train(run), FAST_OK);
        assert_string_equal(fast_run_result(run)->stop, "done");
        assert_true(fast_run_result(run)->test_loss < 3.3);
        fast_run_close(run);
    }
}

static void parts_are_listed(void **state)
{
    (void)state;
    static const char *const kinds[] = { "train",     "model",    "data",  "layer",
                                         "optimizer", "schedule", "engine" };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        int64_t count = 0;
        const fast_part *parts = fast_part_list(kinds[i], &count);
        assert_non_null(parts);
        assert_true(count > 0);
        for (int64_t k = 0; k < count; k++) {
            assert_true(parts[k].name[0] != '\0');
            assert_true(parts[k].summary[0] != '\0');
        }
    }
    int64_t count = 7;
    assert_null(fast_part_list("nothing", &count));
    assert_int_equal(count, 0);
    assert_non_null(fast_feature_list(&count));
    assert_true(count >= 4);
}

/* The bench reports the whole model first, then each layer with products, all with figures. */
static void on_measure(void *ctx, const fast_measure *measure)
{
    int *count = ctx;
    assert_string_equal(measure->model, "lenet");
    assert_true((*count == 0) == (measure->layer == NULL));
    assert_true(measure->samples_per_s > 0 && isfinite(measure->samples_per_s));
    assert_true(measure->gflops > 0 && measure->bound_fraction > 0);
    (*count)++;
}

static void check_bench(void)
{
    int count = 0;
    const char *const options[] = { "model=lenet", "data=digits:train=80,test=24",
                                    "batch=8",     engine,
                                    plan,          NULL };
    if (fast_bench_engine(options, on_measure, &count) != FAST_OK)
        fail_msg("%s", fast_error_detail());
    assert_int_equal(count, 5); /* conv1, conv2, dense1, dense2 */
}

static void bench_measures(void **state)
{
    (void)state;
    for_engines(check_bench);
    const char *const wrong[] = { "model=lennet", NULL };
    assert_int_equal(fast_bench_engine(wrong, on_measure, NULL), FAST_EINVAL);
}

static int make_folder(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/fast_run_test.XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(folder))
        return -1;
    file_option("plan", "plan", plan);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_seed_same_bits),
        cmocka_unit_test(prefetch_same_bits),
        cmocka_unit_test(resume_same_bits),
        cmocka_unit_test(resume_again_and_again),
        cmocka_unit_test(cancel_and_train_again),
        cmocka_unit_test(cancel_from_a_thread),
        cmocka_unit_test(cancel_from_a_signal),
        cmocka_unit_test(target_stops),
        cmocka_unit_test(divergence_stops),
        cmocka_unit_test(save_and_load),
        cmocka_unit_test(foreign_checkpoints),
        cmocka_unit_test(damaged_checkpoints),
        cmocka_unit_test(longer_run),
        cmocka_unit_test(wrong_options),
        cmocka_unit_test(options_as_text),
        cmocka_unit_test(own_regression_data),
        cmocka_unit_test(text_models),
        cmocka_unit_test(parts_are_listed),
        cmocka_unit_test(bench_measures),
        cmocka_unit_test(log_has_a_line_per_evaluation),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
