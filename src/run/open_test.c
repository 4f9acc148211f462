/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trouble from outside. Goal: every allocation of opening a run, of a checkpoint and of loading one
 * may fail, with FAST_ENOMEM, nothing leaked and nothing changed; a process that is killed while it
 * writes a checkpoint leaves the old one or the new one. Method: let the n-th allocation fail for
 * n = 0, 1, ... until nothing fails; kill children at random moments.
 */
#include "base/memory.h"
#include "run/run.h"
#include "tensor/safetensors.h"
#include "tensor/vector.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char path[256];   /* a checkpoint */
static char resume[300]; /* the option for it */
static char gone[256];   /* a folder that goes away */
static char folder[200]; /* of all of them */

static const char *const options[] = { "engine=ref",   "model=mlp:hidden=4",
                                       "batch=8",      "data=digits:train=16,test=8",
                                       "epochs=1",     "optimizer=adam",
                                       "plan=no",      "prefetch=0",
                                       "augment=flip", NULL };
static const char *const options_resume[] = { "engine=ref",
                                              "model=mlp:hidden=4",
                                              "batch=8",
                                              "data=digits:train=16,test=8",
                                              "epochs=1",
                                              "optimizer=adam",
                                              "plan=no",
                                              "prefetch=0",
                                              "augment=flip",
                                              resume,
                                              NULL };

/* Open until no allocation fails; the number of tries. */
static int64_t open_until_ok(const char *const *what, fast_run **out)
{
    for (int64_t n = 0;; n++) {
        fast_run *run = NULL;
        fast__alloc_fail_after(n, true);
        const fast_err err = fast_run_open(what, &run);
        fast__alloc_fail_after(-1, true);
        if (err == FAST_OK) {
            *out = run;
            return n;
        }
        if (err != FAST_ENOMEM)
            fail_msg("allocation %lld: %s %s", (long long)n, fast_err_name(err),
                     fast_error_detail());
        assert_null(run);
        assert_true(n < 10000);
    }
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    fast_run *run;
    assert_true(open_until_ok(options, &run) > 10);
    assert_int_equal(fast_run_train(run), FAST_OK);
    const uint64_t hash = fast_run_result(run)->params_hash;
    for (int64_t n = 0;; n++) {
        fast__alloc_fail_after(n, true);
        const fast_err err = fast_run_checkpoint(run, path);
        fast__alloc_fail_after(-1, true);
        if (err == FAST_OK) {
            assert_true(n > 0);
            break;
        }
        assert_int_equal(err, FAST_ENOMEM);
        assert_int_not_equal(access(path, F_OK), 0); /* nothing was written */
    }
    fast_run_close(run);

    open_until_ok(options_resume, &run);
    assert_int_equal(fast_run_result(run)->params_hash, hash);
    fast_run_close(run);
}

/* Weights of other programs: every type that is read, at odd addresses, gives the same numbers. */
static void weights_of_other_types(void **state)
{
    (void)state;
    static const fast_dtype types[] = { FAST_F32, FAST_F64, FAST_F16, FAST_BF16 };
    enum { TENSORS_MAX = 8 };
    fast_run *run;
    assert_int_equal(fast_run_open(options, &run), FAST_OK);
    const fast_layout *layout = &run->learner->params;
    float *w = run->learner->w;
    assert_in_range(layout->segment_count, 1, TENSORS_MAX - 1);
    for (int64_t i = 0; i < layout->count; i++)
        w[i] = (float)(i % 256 - 128) * 0.5f; /* exact in all of them */
    fast__run_measure_all(run);
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        fast_tensor tensors[TENSORS_MAX] = { { .name = "a.num_batches_tracked",
                                               .dtype = FAST_U8,
                                               .rank = 1,
                                               .shape = { 3 },
                                               .count = 3,
                                               .data = "odd" } };
        char *bytes;
        assert_int_equal(fast__alloc("bytes", layout->count, sizeof(double), &bytes), FAST_OK);
        fast__vector_convert(layout->count, FAST_F32, w, types[t], bytes, 1.0f);
        for (int64_t i = 0; i < layout->segment_count; i++) {
            const fast_segment *segment = &layout->segments[i];
            tensors[i + 1] = (fast_tensor){
                .name = segment->name,
                .dtype = types[t],
                .rank = segment->rank,
                .shape = { segment->shape[0], segment->rank > 1 ? segment->shape[1] : 0 },
                .count = segment->count,
                .data = bytes + (size_t)segment->offset * fast__dtype_size(types[t]),
            };
        }
        assert_int_equal(fast__tensors_save(path, tensors, layout->segment_count + 1, NULL),
                         FAST_OK);
        fast__free(bytes);
        fast_run *other;
        assert_int_equal(fast_run_open(options, &other), FAST_OK);
        assert_int_equal(fast__weights_load(other, path), FAST_OK);
        fast__run_measure_all(other);
        assert_int_equal(fast_run_result(other)->params_hash, fast_run_result(run)->params_hash);
        fast_run_close(other);
    }
    assert_int_equal(unlink(path), 0);
    fast_run_close(run);
}

/* Random streams number steps with 32 bits: a file that claims more is refused, not believed. */
static void steps_are_bounded(void **state)
{
    (void)state;
    fast_run *run;
    assert_int_equal(fast_run_open(options, &run), FAST_OK);
    run->step = FAST_STEPS_MAX + 1;
    assert_int_equal(fast_run_checkpoint(run, path), FAST_OK);
    fast_run_close(run);
    assert_int_equal(fast_run_open(options_resume, &run), FAST_EFORMAT);
    assert_int_equal(unlink(path), 0);

    const char *const more[] = { "engine=ref", "model=mlp:hidden=4", "data=digits:train=80,test=8",
                                 "batch=8",    "epochs=1G",          NULL };
    assert_int_equal(fast_run_open(more, &run), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "epochs=1000000000"));
}

/* A method is taken where it fits, and the others are chosen freely; one that fits nowhere is
 * refused. */
static void methods_fit_some_convolutions(void **state)
{
    static const struct {
        const char *method;
        const char *model;
        fast_err err;
    } cases[] = { { "method=winograd_2x2_3x3", "model=resnet8", FAST_OK }, /* has strides of 2 */
                  { "method=im2col", "model=lenet", FAST_OK },
                  { "method=winograd_6x6_3x3", "model=lenet", FAST_ENOTSUP } }; /* kernels 5x5 */

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *given[] = { "data=digits:train=32,test=16",
                                "plan=no",
                                "batch=16",
                                cases[i].model,
                                cases[i].method,
                                NULL };
        fast_run *run = NULL;
        const fast_err err = fast_run_open(given, &run);
        if (err != cases[i].err)
            fail_msg("%s, %s: %s", cases[i].model, cases[i].method, fast_error_detail());
        fast_run_close(run);
    }
    assert_non_null(strstr(fast_error_detail(), "fits none of the 2 convolutions"));
}

/* Where checkpoints cannot be written any more: note it, and stop there. */
static void cancel_at_note(void *ctx, const fast_event *event)
{
    fast_run *run = ctx;
    if (event->kind == FAST_EVENT_START)
        assert_int_equal(rmdir(gone), 0);
    if (event->kind == FAST_EVENT_NOTE)
        fast_run_cancel(run);
}

/* A checkpoint that fails in mid-run is a note; the one that a cancel asks for is not: a run that
 * could not be saved does not end well. */
static void checkpoint_cannot_be_written(void **state)
{
    (void)state;
    char checkpoint[300];
    snprintf(checkpoint, sizeof checkpoint, "checkpoint=%s/c.safetensors", gone);
    const char *const job[] = { "engine=ref",
                                "model=mlp:hidden=4",
                                "data=digits:train=80,test=8",
                                "batch=8",
                                "plan=no",
                                "checkpoint_every=7steps",
                                checkpoint,
                                NULL };
    assert_int_equal(mkdir(gone, 0700), 0);
    fast_run *run;
    assert_int_equal(fast_run_open(job, &run), FAST_OK);
    fast_run_watch(run, cancel_at_note, run);
    assert_int_equal(fast_run_train(run), FAST_ENOENT);
    assert_int_equal(fast_run_result(run)->steps, 7);
    fast_run_close(run);
}

/* The last note of a run. */
static char note[256];

static void copy_note(void *ctx, const fast_event *event)
{
    (void)ctx;
    if (event->kind == FAST_EVENT_NOTE)
        snprintf(note, sizeof note, "%s", event->text);
}

/* Options that are accepted, and change nothing here, are told. */
static void options_without_effect_are_told(void **state)
{
    static const char *const cases[][3] = {
        { "transport=sim", "bind=core", "bind places workers of transport=threads" },
        { "transport=threads", "strategy=ps:rate=1e9", "ps:rate is of messages" },
        { "transport=threads", "strategy=ps:rate=1e9,proxies=2", "ps:rate is of messages" },
        { "transport=sim", "strategy=ps:rate=1e9", NULL },
        { "transport=sim", "codec=decay+lz4", "codec decay has no effect" },
        { "transport=sim", "strategy=gossip_async:edges=weights", "edges changes nothing" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const job[] = { "engine=ref",
                                    "model=mlp:hidden=4",
                                    "data=digits:train=80,test=8",
                                    "batch=8",
                                    "plan=no",
                                    "workers=2",
                                    "steps=2",
                                    cases[i][0],
                                    cases[i][1],
                                    NULL };
        fast_run *run;

        note[0] = '\0';
        assert_int_equal(fast_run_open(job, &run), FAST_OK);
        fast_run_watch(run, copy_note, NULL);
        assert_int_equal(fast_run_train(run), FAST_OK);
        if (cases[i][2] ? !strstr(note, cases[i][2]) : note[0] != '\0')
            fail_msg("%s %s: \"%s\"", cases[i][0], cases[i][1], note);
        fast_run_close(run);
    }
}

/* Weights that are tied have equal gradients: parts that would change them in different ways are
 * refused, others keep them equal. */
static void tied_weights_stay_equal(void **state)
{
    static const struct {
        const char *options[3];
        bool refused;
    } cases[] = {
        { { "strategy=allreduce", "codec=qsgd", "optimizer=sgd" }, true },
        { { "strategy=allreduce", "codec=none+lz4", "optimizer=adam" }, false },
        { { "strategy=ps", "codec=none", "optimizer=sgd" }, true },
        { { "strategy=ps:slack=0,servers=2", "codec=none", "optimizer=sgd" }, false },
        { { "strategy=hogwild", "codec=none", "optimizer=sgd" }, true },
        { { "strategy=local:period=4,fragments=2", "codec=none", "optimizer=sgd" }, true },
        { { "strategy=local:period=4", "codec=none", "optimizer=sgd" }, false },
        { { "strategy=allreduce", "codec=none", "optimizer=muon" }, true },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const job[] = { "engine=ref",
                                    "model=mlp:hidden=4",
                                    "data=digits:train=80,test=8",
                                    "batch=8",
                                    "plan=no",
                                    "workers=2",
                                    "steps=4",
                                    "tied=yes",
                                    cases[i].options[0],
                                    cases[i].options[1],
                                    cases[i].options[2],
                                    NULL };
        fast_run *run = NULL;
        const fast_err err = fast_run_open(job, &run);

        if ((err == FAST_EINVAL) != cases[i].refused ||
            (err && !strstr(fast_error_detail(), "tied=yes")))
            fail_msg("%s %s %s: %s", cases[i].options[0], cases[i].options[1], cases[i].options[2],
                     fast_error_detail());
        fast_run_close(run);
    }
}

/* The folder of both files goes away while the run trains. */
static void remove_gone(void *ctx, const fast_event *event)
{
    (void)ctx;
    if (event->kind == FAST_EVENT_START)
        assert_int_equal(rmdir(gone), 0);
}

/* Files that cannot be saved at the end are in FAST's own folder; the call fails and says where. */
static void files_are_saved_elsewhere(void **state)
{
    (void)state;
    char checkpoint[300], save[300], home[300], load[FAST_PATH_MAX + 16];
    snprintf(checkpoint, sizeof checkpoint, "checkpoint=%s/c.safetensors", gone);
    snprintf(save, sizeof save, "save=%s/w.safetensors", gone);
    snprintf(home, sizeof home, "%s/home", folder);
    assert_int_equal(setenv("FAST_HOME", home, 1), 0);
    const char *job[] = { "engine=ref",
                          "model=mlp:hidden=4",
                          "data=digits:train=80,test=8",
                          "batch=8",
                          "plan=no",
                          "checkpoint_every=end",
                          checkpoint,
                          save,
                          NULL };
    assert_int_equal(mkdir(gone, 0700), 0);
    fast_run *run, *again;
    assert_int_equal(fast_run_open(job, &run), FAST_OK);
    fast_run_watch(run, remove_gone, NULL);
    assert_int_equal(fast_run_train(run), FAST_ENOENT);
    assert_string_equal(fast_run_result(run)->stop, "done");
    assert_non_null(strstr(fast_error_detail(), run->text.checkpoint));
    assert_non_null(strstr(fast_run_json(run), run->text.weights));
    job[5] = "seed=1";
    job[7] = NULL;
    for (int i = 0; i < 2; i++) {
        snprintf(load, sizeof load, "%s=%s", i ? "load" : "resume",
                 i ? run->text.weights : run->text.checkpoint);
        job[6] = load;
        if (fast_run_open(job, &again))
            fail_msg("%s: %s", load, fast_error_detail());
        assert_int_equal(again->step, i ? 0 : run->step);
        fast_run_close(again);
    }
    fast_run_close(run);
}

/* A child that writes checkpoints until it dies. */
_Noreturn static void write_forever(void)
{
    fast_run *run;
    if (fast_run_open(options, &run) != FAST_OK)
        _exit(1);
    while (fast_run_checkpoint(run, path) == FAST_OK)
        ;
    _exit(2);
}

static void killed_while_saving(void **state)
{
    char command[300];

    (void)state;
    fast_run *run;
    assert_int_equal(fast_run_open(options, &run), FAST_OK);
    assert_int_equal(fast_run_checkpoint(run, path), FAST_OK);
    fast_run_close(run);
    for (int i = 0; i < 12; i++) {
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            write_forever();
        usleep((useconds_t)(30000 + 3777 * i));
        kill(child, SIGKILL);
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        if (fast_run_open(options_resume, &run) != FAST_OK)
            fail_msg("after kill %d: %s", i, fast_error_detail());
        fast_run_close(run);
        snprintf(command, sizeof command, "test -z \"$(ls '%s' | grep tmp)\"", folder);
        assert_int_equal(system(command), 0); /* nothing half written is left behind */
    }
}

static int make_folder(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/fast_open_test.XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/c.safetensors", folder);
    snprintf(resume, sizeof resume, "resume=%s", path);
    snprintf(gone, sizeof gone, "%s/gone", folder);
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
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(weights_of_other_types),
        cmocka_unit_test(steps_are_bounded),
        cmocka_unit_test(checkpoint_cannot_be_written),
        cmocka_unit_test(options_without_effect_are_told),
        cmocka_unit_test(tied_weights_stay_equal),
        cmocka_unit_test(files_are_saved_elsewhere),
        cmocka_unit_test(killed_while_saving),
        cmocka_unit_test(methods_fit_some_convolutions),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
