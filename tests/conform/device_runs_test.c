/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole runs with their vectors on the device `check`. Goal: parts of a run that the matrices of
 * strategies and codecs and the suite of named systems do not reach touch no vector outside kernels
 * either, and give the bits and the files of the host. Method: each run once on the host and once
 * on `check`: batch norm, micro-batches, every kind of representative model, phases, shared models
 * and collectives of threads, learners of the caller's, checkpoints and weights in files.
 */
#include "fast/learner.h"
#include "fast/run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { OPTIONS_MAX = 32, FILE_MAX = 1 << 20 };

static const char *const devices[] = { "device=host", "device=check" };
static char folder[] = "/tmp/fast_device_runs_XXXXXX";

/* Options, separated by spaces, over those of a small run. */
typedef struct device_case {
    char text[512];                /* holds the options */
    const char *list[OPTIONS_MAX]; /* as the library takes them */
} device_case;

static void list_options(device_case *c, const char *device, const char *options)
{
    static const char *const base[] = {
        "data=digits:train=160,test=32", "plan=no", "batch=4", "steps=6", "seed=3", "timeout=60"
    };
    int count = 0;

    for (size_t i = 0; i < sizeof base / sizeof *base; i++)
        c->list[count++] = base[i];
    c->list[count++] = device;
    snprintf(c->text, sizeof c->text, "%s", options);
    for (char *at = strtok(c->text, " "); at; at = strtok(NULL, " ")) {
        assert_true(count < OPTIONS_MAX - 1);
        c->list[count++] = at;
    }
    c->list[count] = NULL;
}

/* The learner w -> 0 of a caller, with one number of state, in host memory. */
static fast_err learn(void *ctx, fast_learner_request *r)
{
    (void)ctx;
    r->loss = 0;
    for (int i = 0; i < 3; i++) {
        if (r->g)
            r->g[i] = r->w[i] - (float)r->worker;
        r->loss += (double)(r->w[i] * r->w[i]);
    }
    if (r->g)
        r->s[0] += 1;
    r->samples = r->batch;
    return FAST_OK;
}

static fast_err open_foreign(const char *const *options, fast_run **out)
{
    const float first[] = { 3, 4, 5 };
    const fast_learner_tensor w = { .name = "w", .rank = 1, .shape = { 3 }, .initial = first };
    const fast_learner_tensor s = { .name = "s", .rank = 1, .shape = { 1 } };
    const fast_learner_kind kind = { .name = "own",
                                     .params = &w,
                                     .param_count = 1,
                                     .state = &s,
                                     .state_count = 1,
                                     .samples = 64,
                                     .gradient = learn,
                                     .evaluate = learn };

    return fast_run_open_learner(options, &kind, NULL, out);
}

/* Train and return the bits that the run ends with; it also predicts, where it can. */
static uint64_t train(const char *device, const char *options, bool foreign)
{
    device_case c;
    fast_run *run = NULL;
    float x[784] = { 0 }, y[10] = { 0 };

    list_options(&c, device, options);
    fast_err err = foreign ? open_foreign(c.list + 1, &run) : fast_run_open(c.list, &run);
    if (!err)
        err = fast_run_train(run);
    if (!err && !foreign)
        err = fast_run_predict(run, 1, x, y);
    if (err)
        fail_msg("%s %s: %s", device, options, fast_error_detail());
    const fast_result *r = fast_run_result(run);
    assert_string_equal(r->stop, "done");
    assert_true(isfinite(r->test_loss) && isfinite(y[0]));
    const uint64_t hash = r->params_hash;
    fast_run_close(run);
    return hash;
}

static void compare(const char *options, bool foreign)
{
    const uint64_t host = train(devices[0], options, foreign);

    if (train(devices[1], options, foreign) != host)
        fail_msg("%s: other bits on the device check", options);
}

/* With batch norm a model has state, which strategies average, add and send. */
static void state_is_a_vector(void **state)
{
    static const char *const strategies[] = {
        "allreduce:overlap=yes,bucket=1024",
        "allreduce:priority=yes,bucket=1024",
        "ps:slack=0,servers=2",
        "ps:slack=0,servers=2,tasks=yes,ring=2",
        "ps:slack=2,servers=2,cache_age=2",
        "ps:slack=0,proxies=2",
        "quorum",
        "local:period=2",
        "gossip",
        "gossip_async",
        "elastic:period=2",
        "federated",
        "distill",
    };
    char options[256];

    (void)state;
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        snprintf(options, sizeof options,
                 "transport=sim workers=4 engine=ref model=resnet8:width=4 steps=3 strategy=%s",
                 strategies[i]);
        compare(options, false);
    }
}

static void every_part_of_a_run(void **state)
{
    static const char *const runs[] = {
        "workers=1 engine=ref model=lenet",
        "workers=1 model=mlp:hidden=8 accumulate=3",
        "workers=1 model=mlp:hidden=8 engine=ref optimizer=adam:clip_norm=0.1",
        "transport=sim workers=3 model=mlp:hidden=8 accumulate=3 strategy=allreduce:overlap=yes",
        "transport=sim workers=3 model=mlp:hidden=8 strategy=allreduce:factors=yes",
        "transport=sim workers=4 model=mlp:hidden=8 strategy=gossip representative=best",
        "transport=sim workers=4 model=mlp:hidden=8 strategy=gossip representative=consensus",
        "transport=sim workers=4 model=mlp:hidden=8 strategy=gossip representative=worker",
        "transport=sim workers=3 model=mlp:hidden=8 strategy=ensemble",
        "transport=sim workers=4 model=mlp:hidden=8 strategy=allreduce phases=gossip@step=2",
        "transport=sim workers=4 model=mlp:hidden=8 strategy=ps:slack=0 phases=local@step=3",
        "transport=sim workers=3 model=mlp:hidden=8 strategy=allreduce codec=powersgd",
        "transport=sim workers=3 model=mlp:hidden=8 strategy=ps:slack=0,overlap=yes codec=int8",
        "transport=sim workers=3 model=mlp:hidden=8 strategy=ps:slack=2,eager=yes "
        "codec=budget:bytes=900 "
        "codec_down=budget:bytes=900",
        "transport=sim workers=4 data=words:train=64,test=16 model=mlp:hidden=8 "
        "strategy=ps:slack=0,proxies=2,rows=yes",
        "workers=1 model=mlp:hidden=8 validation=0.2 best=yes evaluate=2steps",
        "workers=2 engine=ref model=resnet8:width=4 validation=0.2 best=yes evaluate=2steps",
        "transport=threads workers=2 engine=ref model=lenet strategy=allreduce",
        "transport=threads workers=3 model=mlp:hidden=8 strategy=allreduce",
        "transport=threads workers=3 model=mlp:hidden=8 strategy=ps:slack=0,servers=2",
        "transport=threads workers=4 model=mlp:hidden=8 strategy=gossip codec=fp16",
    };

    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        compare(runs[i], false);
}

static void learners_of_the_caller(void **state)
{
    (void)state;
    compare("workers=1 lr=0.1", true);
    compare("workers=1 lr=0.1 accumulate=2", true);
    compare("transport=sim workers=3 lr=0.1 strategy=allreduce", true);
}

/* Read a file whole. */
static size_t read_file(const char *path, char *bytes)
{
    FILE *file = fopen(path, "rb");

    assert_non_null(file);
    const size_t size = fread(bytes, 1, FILE_MAX, file);
    assert_int_equal(fclose(file), 0);
    assert_true(size > 0 && size < FILE_MAX);
    return size;
}

/* Return where the tensors of a safetensors file begin: behind the size of its header, and that. */
static size_t tensors_of(const char *bytes)
{
    uint64_t size;

    memcpy(&size, bytes, sizeof size);
    return sizeof size + (size_t)size;
}

/* Checkpoints are the same bytes and weights have the same tensors: their header holds the command,
 * which names the device. A run continues from either. */
static void files_are_equal(void **state)
{
    static const char *const strategies[] = {
        "allreduce",    "allreduce codec=topk:ratio=0.1", "local:period=2,momentum=0.9",
        "elastic_sync", "gossip codec=topk:ratio=0.1",    "ps:slack=0,momentum=0.5",
    };
    static char bytes[2][FILE_MAX];
    char options[512], path[2][2][64];

    (void)state;
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        uint64_t hash[2];

        for (int d = 0; d < 2; d++) {
            for (int f = 0; f < 2; f++)
                snprintf(path[d][f], sizeof path[d][f], "%s/%d%d", folder, d, f);
            snprintf(options, sizeof options,
                     "transport=sim workers=3 model=mlp:hidden=8 checkpoint=%s save=%s strategy=%s",
                     path[d][0], path[d][1], strategies[i]);
            hash[d] = train(devices[d], options, false);
        }
        assert_true(hash[0] == hash[1]);
        for (int f = 0; f < 2; f++) {
            const size_t size = read_file(path[0][f], bytes[0]);
            const size_t other = read_file(path[1][f], bytes[1]);
            const size_t at[2] = { f ? tensors_of(bytes[0]) : 0, f ? tensors_of(bytes[1]) : 0 };
            assert_int_equal(size - at[0], other - at[1]);
            if (memcmp(bytes[0] + at[0], bytes[1] + at[1], size - at[0]) != 0)
                fail_msg("%s: file %d differs", strategies[i], f);
        }
        snprintf(options, sizeof options,
                 "transport=sim workers=3 model=mlp:hidden=8 steps=9 resume=%s strategy=%s",
                 path[0][0], strategies[i]);
        compare(options, false);
        snprintf(options, sizeof options, "workers=1 model=mlp:hidden=8 load=%s", path[0][1]);
        compare(options, false);
    }
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : 1;
}

static int remove_folder(void **state)
{
    char path[64];

    (void)state;
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%d%d", folder, i / 2, i % 2);
        (void)unlink(path);
    }
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(state_is_a_vector),
        cmocka_unit_test(every_part_of_a_run),
        cmocka_unit_test(learners_of_the_caller),
        cmocka_unit_test(files_are_equal),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
