/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saved models. Goal: a file that a run saved gives the outputs of that run to the bit, from a path
 * and from memory, on every engine, for every kind of input; files without a description need
 * --model and --data; damaged descriptions are one sentence; generated text repeats. Method: train
 * a little, save, open, and compare with fast_run_predict().
 */
#include "base/file.h"
#include "base/memory.h"
#include "run/predict/predictor.h"
#include "run/run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { VALUES_MAX = 1 << 20 };
static char path[64], plan[80], plan_option[96];
static float x[VALUES_MAX], y[VALUES_MAX], z[VALUES_MAX], p[VALUES_MAX];

static int make_path(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/fast-predict-XXXXXX");
    const int fd = mkstemp(path);

    /* Both sides use one plan: kernels that are measured twice may be different ones. */
    snprintf(plan, sizeof plan, "%s.plan", path);
    snprintf(plan_option, sizeof plan_option, "plan=%s", plan);
    return fd < 0 ? 1 : close(fd);
}

static int drop_path(void **state)
{
    (void)state;
    unlink(plan);
    strncat(plan, ".lock", sizeof plan - strlen(plan) - 1);
    unlink(plan);
    return unlink(path);
}

/* Train and save. The run stays open. */
static fast_run *train(const char *engine, const char *model, const char *data)
{
    const char *const options[] = { engine, model, data, "batch=8", "steps=6", plan_option, NULL };
    fast_run *run = NULL;

    if (fast_run_open(options, &run) || fast_run_train(run) || fast_run_save(run, path))
        fail_msg("%s %s: %s", model, data, fast_error_detail());
    return run;
}

/* The run's test set as the source holds it, and the run's outputs of it. */
static int64_t run_outputs(fast_run *run)
{
    const fast_data *test = run->data.test;

    assert_true(test->count * fast_run_outputs(run) <= VALUES_MAX);
    assert_true(test->count * test->features <= VALUES_MAX);
    for (int64_t i = 0; i < test->count * test->features; i++)
        x[i] = test->dtype == FAST_U8 ? ((const uint8_t *)test->x)[i] : ((const float *)test->x)[i];
    assert_int_equal(fast_run_predict(run, test->count, x, y), FAST_OK);
    return test->count;
}

/* A saved file predicts as its run does, by samples in memory and by its data set's name. */
static void check_same(const char *engine, const char *model, const char *data)
{
    fast_run *run = train(engine, model, data);
    const int64_t count = run_outputs(run), each = fast_run_outputs(run);
    const fast_predictor_options options = { .engine = strchr(engine, '=') + 1, .plan = plan };
    fast_predictor *predictor = NULL;
    fast_samples *samples = NULL;
    fast_prediction prediction;
    double loss = 0;

    if (fast_predictor_open(path, &options, &predictor))
        fail_msg("%s %s: %s", model, data, fast_error_detail());
    assert_int_equal(fast_predictor_get_sizes(predictor)->batch, 8);
    assert_int_equal(fast_predictor_run(predictor, count, x, z, p), FAST_OK);
    assert_memory_equal(y, z, (size_t)(count * each) * sizeof *y);
    if (fast_samples_open(predictor, strchr(data, '=') + 1, true, &samples))
        fail_msg("%s %s: %s", model, data, fast_error_detail());
    int64_t seen = 0;
    for (;;) {
        assert_int_equal(fast_samples_next(samples, &prediction), FAST_OK);
        if (prediction.count == 0)
            break;
        assert_int_equal(prediction.first, seen);
        assert_memory_equal(prediction.outputs, y + seen * each,
                            (size_t)(prediction.count * each) * sizeof *y);
        if (prediction.probabilities)
            assert_memory_equal(prediction.probabilities, p + seen * each,
                                (size_t)(prediction.count * each) * sizeof *y);
        loss += prediction.loss * (double)prediction.count;
        seen += prediction.count;
    }
    assert_int_equal(seen, count);
    assert_true(fabs(loss / (double)count - fast_run_result(run)->test_loss) < 1e-6);
    fast_samples_close(samples);
    fast_predictor_close(predictor);
    fast_run_close(run);
}

static void saved_models_predict_as_their_runs(void **state)
{
    (void)state;
    int64_t count = 0;
    const fast_part *engines = fast_part_list("engine", &count);
    const char *images = "data=digits:train=48,test=21,normalize=standard";

    for (int64_t i = 0; i < count; i++) {
        char engine[64] = "engine=";

        strncat(engine, engines[i].name, sizeof engine - strlen(engine) - 1);
        check_same(engine, "model=mlp:hidden=16", images);
        check_same(engine, "model=lenet", images);
        check_same(engine, "model=resnet8:width=4", images);
        check_same(engine, "model=densenet:depth=7,growth=4", images);
        check_same(engine, "model=mlp:hidden=16", "data=blobs:train=48,test=21");
        check_same(engine, "model=mlp:hidden=16", "data=nonlinear:train=48,test=21");
        check_same(engine, "model=gru:hidden=8", "data=copy:train=48,test=21,length=3,symbols=4");
        check_same(engine, "model=lstm:hidden=8", "data=copy:train=48,test=21,length=3,symbols=4");
        check_same(engine, "model=rnn:hidden=8", "data=copy:train=48,test=21,length=3,symbols=4");
        check_same(engine, "model=gpt:width=8,heads=2,depth=1",
                   "data=copy:train=48,test=21,length=3,symbols=4");
    }
    check_same("engine=ref", "model=alexnet:width=4,hidden=16", images);
}

/* Tables: features are encoded, and a regression's values are on the scale of the file. */
static void tables_predict_as_their_runs(void **state)
{
    (void)state;
    char classes[128], values[128], data[320];

    snprintf(classes, sizeof classes, "%s.classes.csv", path);
    snprintf(values, sizeof values, "%s.values.csv", path);
    FILE *a = fopen(classes, "w"), *b = fopen(values, "w");
    assert_true(a && b);
    fputs("n,word,kind\n", a);
    fputs("n,word,worth\n", b);
    for (int i = 0; i < 40; i++) {
        fprintf(a, "%d,%s,%s\n", i * 7 % 23, i % 3 ? "red" : "blue", i % 2 ? "x" : "\"y, z\"");
        fprintf(b, "%d,%s,%d\n", i * 7 % 23, i % 3 ? "red" : "blue", 200000 + 1000 * (i * 7 % 23));
    }
    fclose(a);
    fclose(b);
    snprintf(data, sizeof data, "data=csv:file=%s,test_file=%s", classes, classes);
    check_same("engine=ref", "model=mlp:hidden=8", data);
    snprintf(data, sizeof data, "data=csv:file=%s,test_file=%s", values, values);
    check_same("engine=ref", "model=mlp:hidden=8", data);
    for (int i = 0; i < 40; i++)
        assert_true(y[i] > 150000 && y[i] < 280000);
    unlink(classes);
    unlink(values);
}

/* A model in memory is the model of the file: programs with a model inside need no file. */
static void models_open_from_memory(void **state)
{
    (void)state;
    fast_run *run = train("engine=ref", "model=mlp:hidden=16", "data=digits:train=48,test=21");
    const int64_t count = run_outputs(run), each = fast_run_outputs(run);
    fast_predictor_options options = { .engine = "ref", .plan = "no" };
    void *bytes = NULL;
    fast_predictor *predictor = NULL;

    assert_int_equal(fast__file_read(path, 1 << 24, &bytes, &options.byte_count), FAST_OK);
    options.bytes = bytes;
    assert_int_equal(fast_predictor_open("inside", &options, &predictor), FAST_OK);
    assert_int_equal(fast_predictor_run(predictor, count, x, z, NULL), FAST_OK);
    assert_memory_equal(y, z, (size_t)(count * each) * sizeof *y);
    assert_non_null(strstr(fast_predictor_json(predictor), "\"network\": \"input 1 28 28\\n"));
    assert_non_null(strstr(fast_predictor_json(predictor), "\"command\": \"fast train --engine"));
    fast_predictor_close(predictor);
    fast__free(bytes);
    fast_run_close(run);
}

/* Save the run's weights with other metadata. */
static void save_with(const fast_run *run, const char *const *meta)
{
    fast_weights weights;

    assert_int_equal(fast__weights_list(run, 0, &weights), FAST_OK);
    assert_int_equal(fast__tensors_save(path, weights.tensors, weights.count, meta), FAST_OK);
    fast__weights_fini(&weights);
}

/* A file of an earlier version says what it needs, and predicts with it. */
static void older_files_need_model_and_data(void **state)
{
    (void)state;
    const char *const meta[] = { "format", "pt", "fast_model", "mlp:hidden=16", NULL };
    fast_run *run = train("engine=ref", "model=mlp:hidden=16", "data=digits:train=48,test=21");
    const int64_t count = run_outputs(run), each = fast_run_outputs(run);
    fast_predictor_options options = { .engine = "ref", .plan = "no", .batch = 8 };
    fast_predictor *predictor = NULL;

    save_with(run, meta);
    assert_int_equal(fast_predictor_open(path, &options, &predictor), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "give --model and --data"));
    options.data = "digits:train=48,test=21";
    assert_int_equal(fast_predictor_open(path, &options, &predictor), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "does not describe its network; give --model"));
    options.model = "mlp:hidden=8";
    assert_int_equal(fast_predictor_open(path, &options, &predictor), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "\"dense1.weight\" is [16, 784]"));
    options.model = "mlp:hidden=16";
    assert_int_equal(fast_predictor_open(path, &options, &predictor), FAST_OK);
    assert_int_equal(fast_predictor_run(predictor, count, x, z, NULL), FAST_OK);
    assert_memory_equal(y, z, (size_t)(count * each) * sizeof *y);
    fast_predictor_close(predictor);
    fast_run_close(run);
}

/* Descriptions that are wrong, each with words of the sentence that says so. */
static void wrong_descriptions_are_refused(void **state)
{
    (void)state;
    static const char network[] = "input 1 28 28\ndense 16\nrelu\ndense 10\nloss cross_entropy\n";
    static const char data[] = "{\"version\": 1, \"shape\": [1, 28, 28], \"dtype\": \"U8\", "
                               "\"mean\": [0], \"scale\": [1], \"classes\": 10, \"outputs\": 10, "
                               "\"source\": {\"kind\": \"array\"}}";
    static const char large[] = "{\"version\": 1, \"shape\": [1, 28, 28], \"dtype\": \"U8\", "
                                "\"mean\": [0], \"scale\": [1], \"classes\": 10, \"outputs\": 10, "
                                "\"positions\": 784, \"source\": {\"kind\": \"array\"}}";
    static const char *const cases[][3] = {
        { "input 1 28\n", data, "no layers" },
        { "input 2\ndense 10\n", data, "takes 2 but the data have 1x28x28" },
        { "input 1 28 28\ndense 10\n", data, "\"dense1.weight\" is [16, 784]" },
        { "", data, "no layers" },
        { network, "{", "at byte" },
        { network, "[]", "is not an object" },
        { network, "{}", "version 0" },
        { network, "{\"version\": 1}", "\"shape\"" },
        { network, large, "answers 1 times a sample" },
    };
    fast_run *run = train("engine=ref", "model=mlp:hidden=16", "data=digits:train=48,test=21");
    const fast_predictor_options options = { .engine = "ref", .plan = "no" };
    fast_predictor *predictor = NULL;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const meta[] = { "fast_network", cases[i][0], "fast_data", cases[i][1], NULL };

        save_with(run, meta);
        const fast_err err = fast_predictor_open(path, &options, &predictor);
        if (err != FAST_EFORMAT && err != FAST_EINVAL)
            fail_msg("case %zu: %d", i, err);
        if (!strstr(fast_error_detail(), cases[i][2]))
            fail_msg("case %zu: %s", i, fast_error_detail());
        assert_null(predictor);
    }
    const char *const fine[] = { "fast_network",  network, "fast_data", data,
                                 "fast_training", "[",     NULL };
    save_with(run, fine);
    const fast_err err = fast_predictor_open(path, &options, &predictor);
    assert_true(err == FAST_OK || err == FAST_EFORMAT);
    fast_predictor_close(predictor);
    fast_run_close(run);
}

/* Attention weighs all pairs of positions, and a longer sequence needs no larger file. */
static void long_sequences_are_refused(void **state)
{
    (void)state;
    static const char layers[] = "embed 2\nattention 1\ndense 6\nloss cross_entropy\n";
    static const char data[] = "{\"version\": 1, \"shape\": [30000], \"dtype\": \"U8\", "
                               "\"mean\": [0], \"scale\": [1], \"classes\": 6, \"outputs\": 6, "
                               "\"positions\": 30000, \"vocabulary\": 6, "
                               "\"source\": {\"kind\": \"array\"}}";
    char file[] = "/tmp/fast-predict-net-XXXXXX", model[64], network[128];
    const int fd = mkstemp(file);
    fast_predictor *predictor = NULL;

    assert_true(fd >= 0 && dprintf(fd, "input 12 tokens=6\n%s", layers) > 0);
    close(fd);
    snprintf(model, sizeof model, "model=file:%s", file);
    snprintf(network, sizeof network, "input 30000 tokens=6\n%s", layers);
    fast_run *run = train("engine=ref", model, "data=copy:train=48,test=16,length=6,symbols=4");
    save_with(run, (const char *const[]){ "fast_network", network, "fast_data", data, NULL });
    fast__alloc_largest();
    const fast_predictor_options options = { .engine = "ref", .plan = "no" };
    assert_int_equal(fast_predictor_open(path, &options, &predictor), FAST_EFORMAT);
    assert_non_null(strstr(fast_error_detail(), "one sample takes"));
    assert_true(fast__alloc_largest() < 1 << 24);
    fast_run_close(run);
    unlink(file);
}

/* Opening fails with each allocation in turn, and leaks nothing. */
static void openings_survive_missing_memory(void **state)
{
    (void)state;
    fast_run *run = train("engine=ref", "model=mlp:hidden=4", "data=blobs:train=48,test=21");
    const fast_predictor_options options = { .engine = "ref", .plan = "no" };
    fast_err err = FAST_ENOMEM;

    for (int64_t n = 0; err == FAST_ENOMEM; n++) {
        fast_predictor *predictor = NULL;

        fast__alloc_fail_after(n, true);
        err = fast_predictor_open(path, &options, &predictor);
        fast__alloc_fail_after(-1, true);
        fast_predictor_close(predictor);
        assert_true(n < 1000);
    }
    assert_int_equal(err, FAST_OK);
    fast_run_close(run);
}

/* Collect generated characters. */
static bool collect(void *ctx, char character)
{
    char *text = ctx;
    const size_t length = strlen(text);

    text[length] = character;
    text[length + 1] = '\0';
    return true;
}

static void text_is_generated_and_repeats(void **state)
{
    (void)state;
    char file[] = "/tmp/fast-predict-text-XXXXXX", data[128];
    const int fd = mkstemp(file);
    fast_predictor *predictor = NULL;
    char a[256] = "", b[256] = "", c[256] = "", greedy[256] = "";

    for (int i = 0; i < 200; i++)
        assert_int_equal(write(fd, "abcd.\n", 6), 6);
    close(fd);
    snprintf(data, sizeof data, "data=text:file=%s,length=12", file);
    const char *const options[] = {
        "engine=ref", "model=gru:hidden=24", data,      "batch=8", "epochs=20",
        "plan=no",    "optimizer=adam",      "lr=0.01", NULL
    };
    fast_run *run = NULL;
    if (fast_run_open(options, &run) || fast_run_train(run) || fast_run_save(run, path) ||
        fast_predictor_open(path, &(fast_predictor_options){ .engine = "ref" }, &predictor))
        fail_msg("%s", fast_error_detail());
    fast_generate_options how = { .prompt = "ab", .length = 30, .temperature = 3, .seed = 7 };
    assert_int_equal(fast_predictor_generate(predictor, &how, collect, a), FAST_OK);
    assert_int_equal(fast_predictor_generate(predictor, &how, collect, b), FAST_OK);
    how.seed = 8;
    assert_int_equal(fast_predictor_generate(predictor, &how, collect, c), FAST_OK);
    assert_int_equal(strlen(a), 30);
    assert_string_equal(a, b);
    assert_string_not_equal(a, c);
    how = (fast_generate_options){ .prompt = "d.\nab", .length = 16 };
    assert_int_equal(fast_predictor_generate(predictor, &how, collect, greedy), FAST_OK);
    assert_string_equal(greedy, "cd.\nabcd.\nabcd.\n");
    how.temperature = 5;
    how.top_k = 1;
    b[0] = '\0';
    assert_int_equal(fast_predictor_generate(predictor, &how, collect, b), FAST_OK);
    assert_string_equal(greedy, b);
    how.prompt = "abZ";
    assert_int_equal(fast_predictor_generate(predictor, &how, collect, b), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "0x5a"));
    fast_predictor_close(predictor);
    fast_run_close(run);
    unlink(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saved_models_predict_as_their_runs),
        cmocka_unit_test(tables_predict_as_their_runs),
        cmocka_unit_test(models_open_from_memory),
        cmocka_unit_test(older_files_need_model_and_data),
        cmocka_unit_test(wrong_descriptions_are_refused),
        cmocka_unit_test(long_sequences_are_refused),
        cmocka_unit_test(openings_survive_missing_memory),
        cmocka_unit_test(text_is_generated_and_repeats),
    };
    return cmocka_run_group_tests(tests, make_path, drop_path);
}
