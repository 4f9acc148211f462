/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the native learner computes the gradient of the right batch at w, reports all of it once,
 * evaluates over the whole test set and allocates nothing while it runs. Method: a small set with
 * the reference engine; the learner's gradient of a batch of 2 n against the mean of the gradients
 * of its two halves; an evaluation with a partial last batch against one pass over all.
 */
#include "model/native.h"

#include "base/memory.h"
#include "base/rng.h"
#include "model/network.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SAMPLES = 50, FEATURES = 6, CLASSES = 3, BATCH = 8 };

/* A learner and all that it stands on. */
typedef struct bench {
    fast_data *data;
    fast_graph *graph;
    fast_program *program;
    fast_workspace *workspace;
    fast_loader *loader;
    fast_loader *test;
    fast_learner *learner;
} bench;

static const char *const classifier = "input 6\ndense 9\nbatch_norm\ntanh\ndense 3";
static const char *const plain = "input 6\ndense 9\ntanh\ndense 3";
static const char *const regressor = "input 6\ndense 9\ntanh\ndense 3\nloss mse";

static void check(fast_err err)
{
    if (err)
        fail_msg("%s", fast_error_detail());
}

static fast_data *make_data(bool regression)
{
    static float x[SAMPLES * FEATURES];
    static float targets[SAMPLES * CLASSES];
    static int32_t labels[SAMPLES];
    fast_data_options options = { .count = SAMPLES, .rank = 1, .shape = { FEATURES }, .x = x };
    fast_data *data = NULL;
    fast_rng rng;

    fast__rng_init(&rng, 1, FAST_PURPOSE_TEST, 0, 0, 0);
    for (int i = 0; i < SAMPLES * FEATURES; i++)
        x[i] = fast__rng_normal(&rng);
    for (int i = 0; i < SAMPLES; i++)
        labels[i] = x[i * FEATURES] > 0.4f ? 2 : x[i * FEATURES] > -0.4f ? 1 : 0;
    for (int i = 0; i < SAMPLES * CLASSES; i++)
        targets[i] = fast__rng_normal(&rng);
    options.labels = regression ? NULL : labels;
    options.classes = regression ? 0 : CLASSES;
    options.targets = regression ? targets : NULL;
    options.outputs = regression ? CLASSES : 0;
    check(fast_data_new(&options, &data));
    return data;
}

static fast_native_options native_options(const bench *b)
{
    return (fast_native_options){ .graph = b->graph,
                                  .engine = &fast__engine_ref,
                                  .program = b->program,
                                  .workspace = b->workspace,
                                  .loader = b->loader,
                                  .test = b->test,
                                  .seed = 3 };
}

static void set_up(bench *b, const char *text, int64_t batch, bool test)
{
    const fast_engine_options engine = { .batch = SAMPLES, .train = true, .plan_path = "" };
    const fast_loader_options loader = { .seed = 3, .batch = batch, .shuffle = true };
    const fast_loader_options in_order = { .batch = BATCH, .partial = true };

    memset(b, 0, sizeof *b);
    b->data = make_data(strstr(text, "mse") != NULL);
    check(fast__graph_parse(text, &b->graph));
    check(fast__engine_ref.compile(b->graph, &engine, &b->program));
    check(fast__engine_ref.workspace_new(b->program, &b->workspace));
    check(fast__loader_new(b->data, &loader, &b->loader));
    if (test)
        check(fast__loader_new(b->data, &in_order, &b->test));
    const fast_native_options options = native_options(b);
    check(fast__native_new(&options, &b->learner));
}

static void tear_down(bench *b)
{
    const fast_learner_ops *ops = b->learner->ops;

    ops->free(b->learner);
    ops->free(NULL);
    fast__loader_free(b->loader);
    fast__loader_free(b->test);
    fast__engine_ref.workspace_free(b->workspace);
    fast__engine_ref.program_free(b->program);
    fast__graph_free(b->graph);
    fast_data_free(b->data);
}

/* Two batches of n are the batch of 2 n: the mean of their gradients is its gradient. */
static void test_accumulation(void **state)
{
    (void)state;
    bench whole;
    bench halves;
    fast_gradient first = { .step = 0 };
    fast_gradient second = { .step = 1 };
    fast_gradient both = { .step = 0 };

    set_up(&whole, plain, 2 * BATCH, false);
    set_up(&halves, plain, BATCH, false);
    const int64_t n = whole.graph->params.count;
    float *sum = calloc((size_t)n, sizeof *sum);
    assert_memory_equal(whole.learner->w, halves.learner->w, (size_t)n * sizeof(float));
    check(whole.learner->ops->gradient(whole.learner, &both));
    check(halves.learner->ops->gradient(halves.learner, &first));
    for (int64_t i = 0; i < n; i++)
        sum[i] = 0.5f * halves.learner->g[i];
    check(halves.learner->ops->gradient(halves.learner, &second));
    double largest = 0;
    for (int64_t i = 0; i < n; i++) {
        sum[i] += 0.5f * halves.learner->g[i];
        largest = fmax(largest, fabs((double)sum[i]));
        assert_true(fabs((double)(sum[i] - whole.learner->g[i])) < 1e-6);
    }
    assert_true(largest > 1e-3);
    assert_true(fabs(both.loss - 0.5 * (first.loss + second.loss)) < 1e-6);
    assert_int_equal(both.correct, first.correct + second.correct);
    assert_int_equal(both.samples, 2 * BATCH);
    assert_int_equal(both.positions, 2 * BATCH);
    assert_true(both.flops == first.flops + second.flops);
    assert_true(both.flops > 0);
    free(sum);
    tear_down(&whole);
    tear_down(&halves);
}

static void count_report(void *ctx, int64_t offset, int64_t count)
{
    unsigned char *seen = ctx;

    for (int64_t i = offset; i < offset + count; i++)
        seen[i]++;
}

/* Training: reports cover the vector once, the loss falls, nothing is allocated after opening. */
static void test_training(void **state)
{
    (void)state;
    bench b;
    double first = 0;

    set_up(&b, classifier, BATCH, true);
    const int64_t n = b.graph->params.count;
    unsigned char *seen = calloc((size_t)n, 1);
    fast_evaluation before = { 0 };
    fast_evaluation after = { 0 };
    assert_int_equal(b.learner->epoch_steps, SAMPLES / BATCH);
    check(b.learner->ops->evaluate(b.learner, &before));
    const int64_t allocations = fast__alloc_count();
    for (int64_t step = 0; step < 120; step++) {
        fast_gradient gradient = { .step = step, .report = count_report, .ctx = seen };
        check(b.learner->ops->gradient(b.learner, &gradient));
        for (int64_t i = 0; i < n; i++) {
            assert_int_equal(seen[i], 1);
            seen[i] = 0;
            b.learner->w[i] -= 0.1f * b.learner->g[i];
        }
        first = step == 0 ? gradient.loss : first;
    }
    check(b.learner->ops->evaluate(b.learner, &after));
    assert_int_equal(fast__alloc_count(), allocations);
    assert_int_equal(after.samples, SAMPLES);
    assert_true(after.loss < 0.6 * before.loss);
    assert_true(after.accuracy > 0.8);
    assert_true(first > after.loss);
    free(seen);
    tear_down(&b);
}

/* The evaluation weighs its last, smaller batch by its samples. */
static void test_evaluation(void **state)
{
    (void)state;
    static const char *const texts[] = { plain, regressor };

    for (int i = 0; i < 2; i++) {
        const fast_loader_options options = { .batch = SAMPLES };
        fast_loader *all = NULL;
        fast_evaluation evaluation = { 0 };
        bench b;
        set_up(&b, texts[i], BATCH, true);
        fast_pass pass = { .params = b.learner->w, .state = b.learner->s };
        check(fast__loader_new(b.data, &options, &all));
        check(fast__loader_get(all, 0, &pass.batch));
        check(fast__engine_ref.run(b.program, b.workspace, &pass));
        check(b.learner->ops->evaluate(b.learner, &evaluation));
        assert_true(fabs(evaluation.loss - pass.loss) < 1e-5);
        if (i == 0)
            assert_true(fabs(evaluation.accuracy - (double)pass.correct / SAMPLES) < 1e-12);
        else
            assert_true(isnan(evaluation.accuracy));
        fast__loader_free(all);
        tear_down(&b);
    }
}

static void test_no_test_set(void **state)
{
    (void)state;
    fast_evaluation evaluation = { .samples = 7 };
    bench b;

    set_up(&b, classifier, BATCH, false);
    assert_int_equal(b.learner->ops->evaluate(b.learner, &evaluation), FAST_ENOTSUP);
    assert_int_equal(evaluation.samples, 7);
    tear_down(&b);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    bench b;
    fast_learner *learner = NULL;
    fast_err err = FAST_ENOMEM;
    int64_t n = 0;

    set_up(&b, classifier, BATCH, false);
    const fast_native_options options = native_options(&b);
    for (; err == FAST_ENOMEM; n++) {
        fast__alloc_fail_after(n, true);
        err = fast__native_new(&options, &learner);
        fast__alloc_fail_after(-1, false);
        assert_true((err == FAST_OK) == (learner != NULL));
    }
    assert_int_equal(err, FAST_OK);
    assert_int_equal(n, 5);
    learner->ops->free(learner);
    tear_down(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accumulation),  cmocka_unit_test(test_training),
        cmocka_unit_test(test_evaluation),    cmocka_unit_test(test_no_test_set),
        cmocka_unit_test(test_out_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
