/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: every operator's backward pass is the derivative of its forward pass, in every engine.
 *
 * Method: for each case of cases.c, with the operator's inputs and weights as parameters w, let
 * L(w) = sum_i r_i y_i(w) for random r. The engine is given targets y - r N / 2, for which the
 * gradient of its mean squared error is exactly dL/dw. L itself is summed in double from the
 * engine's outputs, and its slope along each coordinate is taken by central differences D at two
 * widths, (4 D(h / 2) - D(h)) / 3, which cancels the terms of third order.
 *
 * Tolerance: with h = 1/16 the terms that remain are h^4 / 30 = 5e-7 times a fifth derivative, and
 * rounding of N < 1000 outputs of size 1 gives about sqrt(N) 6e-8 / (h / 2) = 6e-5; the bound is
 * 3e-4 of the largest slope of the segment or of 1, and a wrong formula is off by far more.
 *
 * Whole networks follow, for gradients that are summed: nodes with several consumers, with none,
 * one taken twice. There L is the engine's own loss, of networks without kinks, and the bound is
 * 1e-3 of the largest slope of all, since the loss is a mean and slopes are small.
 */
#include "jobs.h"

#include "base/memory.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CHECKED_MAX = 60 }; /* coordinates of one segment */

typedef struct probe {
    test_graph g;
    test_runner runner;
    fast_batch batch;
    int64_t count; /* outputs of the batch */
    float *params, *state, *state_now, *x, *r, *y, *targets, *grad;
} probe;

static void probe_open(probe *p, const fast_engine *engine, const char *text, bool direct)
{
    test_graph_case(&p->g, text, direct);
    const fast_graph *graph = &p->g.graph;
    p->count = p->g.n * graph->nodes[graph->node_count - 1].count;
    p->params = test_floats(graph->params.count);
    p->state = test_floats(graph->state.count);
    p->state_now = test_floats(graph->state.count);
    p->x = test_floats(p->g.n * graph->nodes[0].count);
    p->r = test_floats(p->count);
    p->y = test_floats(p->count);
    p->targets = test_floats(p->count);
    p->grad = test_floats(graph->params.count);
    test_graph_init(&p->g, 11, p->params, p->state, p->x);
    test_fill(5, p->count, 1.0F, p->r);
    p->batch = (fast_batch){ .count = p->g.n, .x = p->x, .targets = p->targets };
    test_runner_open(&p->runner, engine, graph, p->g.n);
}

static void probe_close(probe *p)
{
    test_runner_close(&p->runner);
    float *all[] = { p->params, p->state, p->state_now, p->x, p->r, p->y, p->targets, p->grad };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        fast__free(all[i]);
}

static void probe_run(probe *p, float *grad)
{
    memcpy(p->state_now, p->state, (size_t)p->g.graph.state.count * sizeof(float));
    fast_pass pass = { .params = p->params,
                       .state = p->state_now,
                       .batch = &p->batch,
                       .grad = grad,
                       .train = true,
                       .seed = 3,
                       .step = 4,
                       .outputs = p->y };
    const fast_err err = p->runner.engine->run(p->runner.program, p->runner.workspace, &pass);
    if (err)
        fail_msg("%s: %s", p->runner.engine->name, fast_error_detail());
}

/* L with one coordinate moved by `step`. */
static double probe_at(probe *p, int64_t i, float step)
{
    const float before = p->params[i];
    p->params[i] = before + step;
    probe_run(p, NULL);
    p->params[i] = before;
    double sum = 0;
    for (int64_t k = 0; k < p->count; k++)
        sum += (double)p->r[k] * (double)p->y[k];
    return sum;
}

static double probe_slope(probe *p, int64_t i)
{
    const float h = 0.0625F;
    const double wide = (probe_at(p, i, h) - probe_at(p, i, -h)) / (2 * (double)h);
    const double narrow = (probe_at(p, i, h / 2) - probe_at(p, i, -h / 2)) / (double)h;
    return (4 * narrow - wide) / 3;
}

/* The largest deviation over all segments, relative to the largest slope of a segment or 1. */
static double probe_deviation(probe *p)
{
    probe_run(p, NULL);
    for (int64_t i = 0; i < p->count; i++)
        p->targets[i] = p->y[i] - p->r[i] * (float)p->count / 2;
    probe_run(p, p->grad);
    double worst = 0;
    for (int64_t s = 0; s < p->g.graph.params.segment_count; s++) {
        const fast_segment *segment = &p->g.graph.params.segments[s];
        const int64_t step = 1 + (segment->count - 1) / CHECKED_MAX;
        double large = 1;
        double far = 0;
        for (int64_t i = segment->offset; i < segment->offset + segment->count; i += step) {
            const double slope = probe_slope(p, i);
            far = fmax(far, fabs(slope - (double)p->grad[i]));
            if (isnan(slope) || isnan(p->grad[i]))
                far = INFINITY;
            large = fmax(large, fabs(slope));
        }
        worst = fmax(worst, far / large);
    }
    return worst;
}

static void check_all(bool direct)
{
    double worst_of_all = 0;
    static probe p;
    for (const fast_engine *const *engine = fast__engines; *engine; engine++)
        for (const char *const *text = test_cases; *text; text++) {
            if (direct && strchr(strstr(*text, "in="), ','))
                continue; /* a first layer has one input */
            probe_open(&p, *engine, *text, direct);
            const double worst = probe_deviation(&p);
            probe_close(&p);
            if (getenv("FAST_TEST_VERBOSE"))
                print_message("%s %-60s %.1e\n", (*engine)->name, *text, worst);
            if (!(worst < 3e-4))
                fail_msg("%s, %s%s: gradients are off by %g", (*engine)->name, *text,
                         direct ? ", as the first layer" : "", worst);
            worst_of_all = fmax(worst_of_all, worst);
        }
    print_message("largest deviation from finite differences: %.1e\n", worst_of_all);
}

static void gradients_are_slopes(void **state)
{
    (void)state;
    check_all(false);
}

/* The first layer has no gradient of its input to compute: engines take shortcuts there. */
static void gradients_of_first_layers_are_slopes(void **state)
{
    (void)state;
    check_all(true);
}

/* The engine's loss with one coordinate moved by `step`. */
static double loss_at(test_job *job, const test_runner *runner, int64_t i, float step)
{
    const float before = job->params[i];
    job->params[i] = before + step;
    assert_int_equal(test_job_run(job, runner, &(test_job_options){ .forward = true }), FAST_OK);
    job->params[i] = before;
    return job->pass.loss;
}

static double network_deviation(const fast_graph *graph, const fast_engine *engine)
{
    enum { BATCH = 5, STEP = 7 }; /* every seventh coordinate */
    test_runner runner;
    test_job job;
    test_runner_open(&runner, engine, graph, BATCH);
    test_job_open(&job, graph, BATCH, 41);
    assert_int_equal(test_job_run(&job, &runner, &(test_job_options){ 0 }), FAST_OK);
    float *grad = test_floats(graph->params.count);
    memcpy(grad, job.grad, (size_t)graph->params.count * sizeof(float));
    const float h = 0.0625F;
    double far = 0;
    double large = 0;
    for (int64_t i = 0; i < graph->params.count; i += STEP) {
        const double wide =
            (loss_at(&job, &runner, i, h) - loss_at(&job, &runner, i, -h)) / (2 * (double)h);
        const double narrow =
            (loss_at(&job, &runner, i, h / 2) - loss_at(&job, &runner, i, -h / 2)) / (double)h;
        const double slope = (4 * narrow - wide) / 3;
        const double difference = fabs(slope - (double)grad[i]);
        far = difference > far || isnan(difference) ? difference : far;
        large = fmax(large, fabs(slope));
    }
    fast__free(grad);
    test_job_close(&job);
    test_runner_close(&runner);
    return far / large;
}

static void gradients_of_networks_are_slopes(void **state)
{
    (void)state;
    static test_graph g;
    static const char *const smooth[] = { "branches", "rnn",    "lstm",  "gru",
                                          "gpt",      "custom", "heads", "head_rows" };
    double worst = 0;
    for (const fast_engine *const *engine = fast__engines; *engine; engine++)
        for (const test_network *network = test_networks; network->name; network++)
            for (size_t i = 0; i < sizeof(smooth) / sizeof(smooth[0]); i++) {
                if (strcmp(network->name, smooth[i]) != 0)
                    continue;
                network->build(&g);
                const double far = network_deviation(&g.graph, *engine);
                if (!(far < 1e-3))
                    fail_msg("%s, %s: gradients are off by %g", (*engine)->name, network->name,
                             far);
                worst = fmax(worst, far);
            }
    print_message("largest deviation of networks from finite differences: %.1e\n", worst);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_slopes),
        cmocka_unit_test(gradients_of_first_layers_are_slopes),
        cmocka_unit_test(gradients_of_networks_are_slopes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
