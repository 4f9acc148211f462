/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: every engine computes what PyTorch computes, forward and backward, operator by operator.
 *
 * Method: tests/oracle/operators.safetensors (made by make_operators.py) holds cases as lines of
 * text with inputs, weights, upstream gradients and PyTorch's answers in double precision. Each
 * case runs with its inputs as parameters, so that their gradients can be seen, and again as the
 * first layer. The upstream gradient dy comes from the mean squared error with targets y - dy N /
 * 2. What remains is fp32's rounding in sums of at most some hundred terms: the bound is 2e-5 of
 * the largest element.
 */
#include "jobs.h"

#include "base/memory.h"
#include "tensor/safetensors.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const double bound = 2e-5;

/* One case on one engine. */
typedef struct trial {
    const fast_tensors *file;
    int64_t index;
    const char *text;
    bool direct;
    test_graph g;
    test_job job;
    test_runner runner;
    double worst; /* deviation so far */
} trial;

/* A tensor of the case, or NULL. */
static const fast_tensor *find(const trial *t, const char *name)
{
    char full[64];
    snprintf(full, sizeof(full), "%lld.%s", (long long)t->index, name);
    return fast__tensors_find(t->file, full);
}

static void load(const trial *t, const char *name, int64_t count, void *out)
{
    const fast_tensor *tensor = find(t, name);
    if (!tensor || tensor->count != count)
        fail_msg("%s: \"%s\" is missing or has the wrong size", t->text, name);
    memcpy(out, tensor->data, (size_t)count * 4);
}

/* Compare with an answer of the file. */
static void expect(trial *t, const char *name, int64_t count, const float *values)
{
    float *answer = test_floats(count);
    load(t, name, count, answer);
    const double far = test_distance(count, values, answer, 1e-2);
    fast__free(answer);
    t->worst = fmax(t->worst, far);
    if (!(far < bound))
        fail_msg("%s, %s%s: %s is off by %g", t->runner.engine->name, t->text,
                 t->direct ? ", as the first layer" : "", name, far);
}

static const char *const slots[] = { "weight", "bias", "weight2", "bias2", "gain" };

static void open_trial(trial *t, const fast_engine *engine)
{
    test_graph_case(&t->g, t->text, t->direct);
    if (test_word_is(t->text, "loss", "cross_entropy"))
        test_graph_end(&t->g, FAST_LOSS_CROSS_ENTROPY,
                       (float)test_word_number(t->text, "smoothing", 0));
    test_job_open_case(&t->job, &t->g, 1);
    test_runner_open(&t->runner, engine, &t->g.graph, t->g.n);
    const fast_node *op = &t->g.nodes[t->g.op];
    for (int k = 0; k < t->g.input_count; k++) {
        char name[32];
        snprintf(name, sizeof(name), "x%d", k);
        load(t, name, t->g.n * t->g.x_count[k],
             t->g.x[k] < 0 ? t->job.x : t->job.params + t->g.params[t->g.x[k]].offset);
    }
    for (size_t w = 0; w < sizeof(slots) / sizeof(slots[0]); w++)
        if (op->weight[w] >= 0)
            load(t, slots[w], t->g.params[op->weight[w]].count,
                 t->job.params + t->g.params[op->weight[w]].offset);
    if (op->state[0] >= 0) {
        load(t, "mean", t->g.state[op->state[0]].count,
             t->job.state + t->g.state[op->state[0]].offset);
        load(t, "var", t->g.state[op->state[1]].count,
             t->job.state + t->g.state[op->state[1]].offset);
    }
}

static void close_trial(trial *t)
{
    test_runner_close(&t->runner);
    test_job_close(&t->job);
}

/* The case's own labels or targets, or those that make its upstream gradient. */
static void set_targets(trial *t)
{
    const int64_t count = t->g.n * t->g.nodes[t->g.op].count;
    if (find(t, "labels")) {
        load(t, "labels", t->g.n * t->g.graph.positions, t->job.labels);
    } else if (find(t, "targets")) {
        load(t, "targets", count, t->job.targets);
    } else {
        float *dy = test_floats(count);
        load(t, "dy", count, dy);
        for (int64_t i = 0; i < count; i++)
            t->job.targets[i] = t->job.outputs[i] - dy[i] * (float)count / 2;
        fast__free(dy);
    }
}

/* Gradients, the statistics and the loss. */
static void expect_answers(trial *t)
{
    const fast_node *op = &t->g.nodes[t->g.op];
    for (int k = 0; k < t->g.input_count; k++) {
        char name[32];
        snprintf(name, sizeof(name), "dx%d", k);
        if (t->g.x[k] >= 0)
            expect(t, name, t->g.n * t->g.x_count[k], t->job.grad + t->g.params[t->g.x[k]].offset);
    }
    for (size_t w = 0; w < sizeof(slots) / sizeof(slots[0]); w++) {
        char name[16];
        snprintf(name, sizeof(name), "d%s", slots[w]);
        if (op->weight[w] >= 0)
            expect(t, name, t->g.params[op->weight[w]].count,
                   t->job.grad + t->g.params[op->weight[w]].offset);
    }
    if (op->state[0] >= 0) {
        expect(t, "mean_after", t->g.state[op->state[0]].count,
               t->job.state_after + t->g.state[op->state[0]].offset);
        expect(t, "var_after", t->g.state[op->state[1]].count,
               t->job.state_after + t->g.state[op->state[1]].offset);
    }
    if (find(t, "loss"))
        expect(t, "loss", 1, &(float){ (float)t->job.pass.loss });
}

/* test_job_run() gives labels to cross-entropy; soft targets replace them here. */
static void run_soft(trial *t)
{
    t->job.batch.labels = NULL;
    t->job.batch.targets = t->job.targets;
    assert_int_equal(t->runner.engine->run(t->runner.program, t->runner.workspace, &t->job.pass),
                     FAST_OK);
}

static void run_trial(trial *t, const fast_engine *engine)
{
    const bool evaluate = test_word_number(t->text, "evaluate", 0) != 0;
    open_trial(t, engine);
    const int64_t count = t->g.n * t->g.nodes[t->g.op].count;
    assert_int_equal(
        test_job_run(&t->job, &t->runner,
                     &(test_job_options){ .evaluate = evaluate, .forward = !evaluate }),
        FAST_OK);
    expect(t, "y", count, t->job.outputs);
    if (!evaluate) {
        set_targets(t);
        assert_int_equal(test_job_run(&t->job, &t->runner, &(test_job_options){ 0 }), FAST_OK);
        if (test_word_number(t->text, "soft", 0) != 0)
            run_soft(t);
        expect_answers(t);
    }
    close_trial(t);
}

static void check_all(bool direct)
{
    static trial t;
    fast_tensors *file = NULL;
    if (fast__tensors_open(FAST_SOURCE_FOLDER "/tests/oracle/operators.safetensors", &file))
        fail_msg("%s", fast_error_detail());
    const int64_t count = strtoll(fast__tensors_meta(file, "cases"), NULL, 10);
    assert_true(count >= 100);
    double worst = 0;
    for (const fast_engine *const *engine = fast__engines; *engine; engine++)
        for (int64_t i = 0; i < count; i++) {
            char key[32];
            snprintf(key, sizeof(key), "case.%lld", (long long)i);
            const char *text = fast__tensors_meta(file, key);
            assert_non_null(text);
            if (direct && strchr(strstr(text, "in="), ','))
                continue;
            t = (trial){ .file = file, .index = i, .text = text, .direct = direct };
            run_trial(&t, *engine);
            if (getenv("FAST_TEST_VERBOSE"))
                print_message("%s %-60s %.1e\n", (*engine)->name, text, t.worst);
            worst = fmax(worst, t.worst);
        }
    fast__tensors_close(file);
    print_message("largest deviation from PyTorch, %lld cases: %.1e\n", (long long)count, worst);
}

static void operators_are_those_of_pytorch(void **state)
{
    (void)state;
    check_all(false);
}

static void first_layers_are_those_of_pytorch(void **state)
{
    (void)state;
    check_all(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators_are_those_of_pytorch),
        cmocka_unit_test(first_layers_are_those_of_pytorch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
