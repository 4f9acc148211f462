/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a mixture of experts computes what PyTorch computes, in every engine; its gradients are
 * slopes; positions have the experts, slots and balance that the papers say.
 *
 * Method: tests/oracle/experts.safetensors (made by make_experts.py) holds networks as text with
 * their parameters, and PyTorch's outputs, loss and gradients in double precision. Slopes are taken
 * where experts are preferred by far, so that a step changes no route. Routes and balances are of
 * small logits, by hand.
 */
#include "jobs.h"

#include "base/memory.h"
#include "engine/experts.h"
#include "model/network.h"
#include "tensor/safetensors.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const double bound = 2e-5;

/* A tensor of case `i`; fails the test if it has another size. */
static void load(const fast_tensors *file, int64_t i, const char *name, int64_t count, void *out)
{
    char full[160];
    snprintf(full, sizeof(full), "%lld.%s", (long long)i, name);
    const fast_tensor *tensor = fast__tensors_find(file, full);
    if (!tensor || tensor->count != count)
        fail_msg("\"%s\" is missing or has the wrong size", full);
    memcpy(out, tensor->data, (size_t)count * 4);
}

/* Return the deviation from a tensor of case `i`. */
static double far_from(const fast_tensors *file, int64_t i, const char *name, int64_t count,
                       const float *values)
{
    float *answer = test_floats(count);
    load(file, i, name, count, answer);
    const double far = test_distance(count, values, answer, 1e-2);
    fast__free(answer);
    if (!(far < bound))
        fail_msg("case %lld: %s is off by %g", (long long)i, name, far);
    return far;
}

/* Samples of case `i`, from the size of its inputs. */
static int64_t samples_of(const fast_tensors *file, int64_t i, const fast_graph *graph)
{
    char full[32];
    snprintf(full, sizeof(full), "%lld.x", (long long)i);
    return fast__tensors_find(file, full)->count / graph->nodes[0].count;
}

static double run_case(const fast_tensors *file, int64_t i, const fast_engine *engine)
{
    char key[32], name[128];
    fast_graph *graph = NULL;
    test_runner runner;
    test_job job;
    snprintf(key, sizeof(key), "case.%lld", (long long)i);
    assert_int_equal(fast__graph_parse(fast__tensors_meta(file, key), &graph), FAST_OK);
    const int64_t n = samples_of(file, i, graph);
    test_job_open(&job, graph, n, 1);
    test_runner_open(&runner, engine, graph, n);
    load(file, i, "x", n * graph->nodes[0].count, job.x);
    load(file, i, "labels", n * graph->positions, job.labels);
    for (int64_t s = 0; s < graph->params.segment_count; s++) {
        const fast_segment *segment = &graph->params.segments[s];
        load(file, i, segment->name, segment->count, job.params + segment->offset);
    }
    assert_int_equal(test_job_run(&job, &runner, &(test_job_options){ 0 }), FAST_OK);
    double worst =
        far_from(file, i, "y", n * graph->nodes[graph->node_count - 1].count, job.outputs);
    worst = fmax(worst, far_from(file, i, "loss", 1, &(float){ (float)job.pass.loss }));
    for (int64_t s = 0; s < graph->params.segment_count; s++) {
        const fast_segment *segment = &graph->params.segments[s];
        snprintf(name, sizeof(name), "d.%s", segment->name);
        worst = fmax(worst, far_from(file, i, name, segment->count, job.grad + segment->offset));
    }
    test_runner_close(&runner);
    test_job_close(&job);
    fast__graph_free(graph);
    return worst;
}

static void mixtures_are_those_of_pytorch(void **state)
{
    (void)state;
    fast_tensors *file = NULL;
    double worst = 0;
    if (fast__tensors_open(FAST_SOURCE_FOLDER "/tests/oracle/experts.safetensors", &file))
        fail_msg("%s", fast_error_detail());
    const int64_t count = strtoll(fast__tensors_meta(file, "cases"), NULL, 10);
    assert_int_equal(count, 5);
    for (const fast_engine *const *engine = fast__engines; *engine; engine++)
        for (int64_t i = 0; i < count; i++)
            worst = fmax(worst, run_case(file, i, *engine));
    fast__tensors_close(file);
    print_message("largest deviation from PyTorch: %.1e\n", worst);
}

/* The loss of the engine with one parameter moved; and its central difference. */
static double loss_at(test_job *job, const test_runner *runner, int64_t i, float step)
{
    const float before = job->params[i];
    job->params[i] = before + step;
    assert_int_equal(test_job_run(job, runner, &(test_job_options){ .forward = true }), FAST_OK);
    job->params[i] = before;
    return job->pass.loss;
}

static double slope_at(test_job *job, const test_runner *runner, int64_t i, float h)
{
    return (loss_at(job, runner, i, h) - loss_at(job, runner, i, -h)) / (2 * (double)h);
}

static void gradients_are_slopes(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "input 6 3\nrouter: dense 3 bias=no\nbalance: head balance weight=0.7\n"
        "route: route 1 capacity=0.9\ndispatch input route\nexperts 5 count=3\ntanh\n"
        "last: experts 4 count=3\ncombine last route\nloss cross_entropy\n",
        "input 6 3\nrouter: dense 3 bias=no\nbalance: head balance weight=0.7\n"
        "route: route 2 capacity=0.9\ndispatch input route\nexperts 5 count=3\ntanh\n"
        "last: experts 4 count=3\ncombine last route\nloss cross_entropy\n",
    };
    enum { BATCH = 3 };
    for (const fast_engine *const *engine = fast__engines; *engine; engine++)
        for (size_t k = 0; k < sizeof(texts) / sizeof(texts[0]); k++) {
            fast_graph *graph = NULL;
            test_runner runner;
            test_job job;
            assert_int_equal(fast__graph_parse(texts[k], &graph), FAST_OK);
            test_runner_open(&runner, *engine, graph, BATCH);
            test_job_open(&job, graph, BATCH, 3);
            /* Sample i at t likes expert (i + t) % 3, then the next: logits about 2, 1, 0. */
            for (int64_t i = 0; i < BATCH * 6 * 3; i++)
                job.x[i] = (float)((i % 3 + i / 3 + i / 18) % 3) + 0.1F * job.x[i];
            for (int64_t i = 0; i < 9; i++)
                job.params[i] = (i % 4 == 0 ? 1.0F : 0.0F) + 0.05F * job.params[i];
            assert_int_equal(test_job_run(&job, &runner, &(test_job_options){ 0 }), FAST_OK);
            float *grad = test_floats(graph->params.count);
            memcpy(grad, job.grad, (size_t)graph->params.count * sizeof(float));
            double far = 0, large = 0;
            const float h = 0.0625F;
            for (int64_t i = 0; i < graph->params.count; i++) {
                const double wide = slope_at(&job, &runner, i, h);
                const double slope = (4 * slope_at(&job, &runner, i, h / 2) - wide) / 3;
                far = fmax(far, fabs(slope - (double)grad[i]));
                large = fmax(large, fabs(slope));
            }
            if (!(far < 1e-3 * fmax(large, 0.1)))
                fail_msg("%s, network %zu: gradients are off by %g of %g", (*engine)->name, k, far,
                         large);
            fast__free(grad);
            test_job_close(&job);
            test_runner_close(&runner);
            fast__graph_free(graph);
        }
}

/* Four positions and two experts with two slots: first choices before second ones, in the order of
 * positions. */
static void routes_by_hand(void **state)
{
    (void)state;
    const float logits[] = { 2, 0, 1, 0, 3, 3, 0, 1 };
    const float *x[] = { logits };
    fast_element e = { .kind = 2, .x = { 1, 4, 2 }, .slots = 2 };
    float y[16];
    fast__route.forward(&e, 1, NULL, x, y);
    const float slots[4][2] = { { 0, 3 }, { 1, -1 }, { -1, -1 }, { 2, -1 } };
    for (int t = 0; t < 4; t++)
        for (int i = 0; i < 2; i++) {
            assert_true(y[t * 4 + i] == slots[t][i]);
            assert_true(fabsf(y[t * 4 + 2] + y[t * 4 + 3] - 1) < 1e-6F);
        }
    assert_true(fabsf(y[2] - 1 / (1 + expf(-2))) < 1e-6F);
    e.kind = 1;
    fast__route.forward(&e, 1, NULL, x, y);
    assert_true(y[0] == 0 && y[2] == 1 && y[4] == -1 && y[6] == 2);
    assert_true(fabsf(y[1] - 1 / (1 + expf(-2))) < 1e-6F);
}

/* Equal logits prefer none: 1. All to one expert, surely: E. */
static void balances_by_hand(void **state)
{
    (void)state;
    const fast_node head = { .rank = 2, .shape = { 3, 4 }, .count = 12 };
    float y[12] = { 0 }, dy[12];
    assert_true(fabs(fast__balance_loss(&head, 1, y, 1, dy) - 1) < 1e-6);
    for (int t = 0; t < 3; t++)
        y[t * 4 + 2] = 50;
    assert_true(fabs(fast__balance_loss(&head, 1, y, 1, NULL) - 4) < 1e-6);
    const float even[12] = { 50, 0, 0, 0, 0, 50, 0, 0, 0, 0, 50, 0 };
    assert_true(fabs(fast__balance_loss(&head, 1, even, 1, NULL) - 4.0 / 3) < 1e-6);
}

/* Slots that a route does not have are taken for none. */
static void hostile_routes(void **state)
{
    (void)state;
    const float tokens[] = { 1, 2, 3, 4 };
    const float route[] = { NAN, 1, 1e30F, 1, -5, 1, 2, 1 };
    const float *x[] = { tokens, route };
    const fast_element e = { .x = { 1, 4, 1 }, .z = { 1, 4, 2 }, .y = { 1, 2, 1 } };
    float y[2] = { 9, 9 };
    fast__dispatch.forward(&e, 1, (int64_t[]){ 4, 8, 2 }, x, y);
    assert_true(y[0] == 0 && y[1] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mixtures_are_those_of_pytorch),
        cmocka_unit_test(gradients_are_slopes),
        cmocka_unit_test(routes_by_hand),
        cmocka_unit_test(balances_by_hand),
        cmocka_unit_test(hostile_routes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
