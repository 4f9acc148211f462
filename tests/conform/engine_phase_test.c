/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a pass in phases is the same pass, on every engine: what parts of a split network stand on.
 *
 * Method: the networks of jobs.c run whole and in phases, with another micro-batch in a workspace
 * of its own between the phases; losses come from outside; the gradient of the inputs is compared
 * with finite differences on ref, and with ref's on the others; misuse is refused.
 */
#include "jobs.h"

#include "base/memory.h"
#include "engine/loss.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BATCH = 6 };

/* Run `check` on every network and engine. */
typedef void check_fn(test_graph *g, const fast_engine *engine);

static void each(check_fn *check)
{
    static test_graph g;
    for (const fast_engine *const *engine = fast__engines; *engine; engine++)
        for (const test_network *network = test_networks; network->name; network++) {
            network->build(&g);
            check(&g, *engine);
        }
}

/* Run one phase of a job whose pass test_job_run() has prepared. */
static fast_err phase(test_job *job, const test_runner *runner, fast_pass_phase which)
{
    job->pass.phase = which;
    job->pass.grad = which == FAST_PASS_FORWARD || which == FAST_PASS_INPUTS ? NULL : job->grad;
    return runner->engine->run(runner->program, runner->workspace, &job->pass);
}

/* Two micro-batches in flight, each in a workspace of its own, give what each gives alone. */
static void check_flight(test_graph *g, const fast_engine *engine)
{
    test_runner runner, other;
    test_job whole[2], split[2];
    test_runner_open(&runner, engine, &g->graph, BATCH);
    other = runner;
    assert_int_equal(engine->workspace_new(runner.program, &other.workspace), FAST_OK);
    for (int i = 0; i < 2; i++) {
        const test_job_options options = { .count = BATCH - i, .step = (uint64_t)i };
        test_job_open(&whole[i], &g->graph, BATCH, 31 + (uint64_t)i);
        test_job_open(&split[i], &g->graph, BATCH, 31 + (uint64_t)i);
        assert_int_equal(test_job_run(&whole[i], &runner, &options), FAST_OK);
        assert_int_equal(test_job_run(&split[i], &runner, &options), FAST_OK);
        memset(split[i].grad, 0, (size_t)g->graph.params.count * sizeof(float));
        memset(split[i].outputs, 0, (size_t)BATCH * sizeof(float));
        memcpy(split[i].state_after, split[i].state, (size_t)g->graph.state.count * sizeof(float));
    }
    assert_int_equal(phase(&split[0], &runner, FAST_PASS_FORWARD), FAST_OK);
    assert_int_equal(phase(&split[1], &other, FAST_PASS_FORWARD), FAST_OK);
    assert_int_equal(phase(&split[0], &runner, FAST_PASS_BACKWARD), FAST_OK);
    assert_int_equal(phase(&split[1], &other, FAST_PASS_BACKWARD), FAST_OK);
    for (int i = 0; i < 2; i++) {
        assert_true(test_job_same(&whole[i], &split[i]));
        test_job_close(&whole[i]);
        test_job_close(&split[i]);
    }
    engine->workspace_free(other.workspace);
    test_runner_close(&runner);
}

static void micro_batches_in_flight_are_separate(void **state)
{
    (void)state;
    each(check_flight);
}

/* Open a runner of a program whose backward pass may be divided. */
static void open_divided(test_runner *runner, const fast_engine *engine, const fast_graph *graph)
{
    const fast_engine_options options = {
        .batch = BATCH, .train = true, .plan_path = "", .divide = true, .flight = true
    };
    *runner = (test_runner){ .engine = engine };
    assert_int_equal(engine->compile(graph, &options, &runner->program), FAST_OK);
    assert_int_equal(engine->workspace_new(runner->program, &runner->workspace), FAST_OK);
}

/* A backward pass in two halves has the bits of a whole one, also with all phases of another
 * micro-batch between them, in a workspace that shares what a phase leaves for nobody. */
static void check_divided(test_graph *g, const fast_engine *engine)
{
    test_runner runner, other;
    test_job whole[2], split[2];
    open_divided(&runner, engine, &g->graph);
    other = runner;
    if (engine->workspace_beside)
        assert_int_equal(engine->workspace_beside(runner.workspace, &other.workspace), FAST_OK);
    else
        assert_int_equal(engine->workspace_new(runner.program, &other.workspace), FAST_OK);
    assert_true(runner.program->memory_shared <= runner.program->memory);
    for (int i = 0; i < 2; i++) {
        const test_job_options options = { .count = BATCH - i, .step = (uint64_t)i };
        test_job_open(&whole[i], &g->graph, BATCH, 31 + (uint64_t)i);
        test_job_open(&split[i], &g->graph, BATCH, 31 + (uint64_t)i);
        assert_int_equal(test_job_run(&whole[i], &runner, &options), FAST_OK);
        assert_int_equal(test_job_run(&split[i], &runner, &options), FAST_OK);
        memset(split[i].grad, 0, (size_t)g->graph.params.count * sizeof(float));
        memcpy(split[i].state_after, split[i].state, (size_t)g->graph.state.count * sizeof(float));
    }
    assert_int_equal(phase(&split[0], &runner, FAST_PASS_FORWARD), FAST_OK);
    assert_int_equal(phase(&split[0], &runner, FAST_PASS_INPUTS), FAST_OK);
    assert_int_equal(phase(&split[1], &other, FAST_PASS_FORWARD), FAST_OK);
    assert_int_equal(phase(&split[1], &other, FAST_PASS_INPUTS), FAST_OK);
    assert_int_equal(phase(&split[1], &other, FAST_PASS_WEIGHTS), FAST_OK);
    assert_int_equal(phase(&split[0], &runner, FAST_PASS_WEIGHTS), FAST_OK);
    for (int i = 0; i < 2; i++) {
        if (!test_job_same(&whole[i], &split[i]))
            fail_msg("a network of %d nodes: other bits on %s", g->graph.node_count, engine->name);
        test_job_close(&whole[i]);
        test_job_close(&split[i]);
    }
    engine->workspace_free(other.workspace);
    test_runner_close(&runner);
}

static void backward_passes_have_halves(void **state)
{
    (void)state;
    each(check_divided);
}

/* The gradient of the loss by the outputs is computed here, and given to the backward phase. */
static void check_outside(test_graph *g, const fast_engine *engine)
{
    const int64_t out = g->nodes[g->graph.node_count - 1].count;
    if (fast__graph_has_heads(&g->graph)) /* their losses are not those of the outputs */
        return;
    test_runner runner;
    test_job whole, split;
    float *dy = test_floats(BATCH * out);
    test_runner_open(&runner, engine, &g->graph, BATCH);
    test_job_open(&whole, &g->graph, BATCH, 31);
    test_job_open(&split, &g->graph, BATCH, 31);
    assert_int_equal(test_job_run(&whole, &runner, &(test_job_options){ 0 }), FAST_OK);
    assert_int_equal(test_job_run(&split, &runner, &(test_job_options){ 0 }), FAST_OK);
    memcpy(split.state_after, split.state, (size_t)g->graph.state.count * sizeof(float));
    fast__loss_run(&g->graph, &split.pass, split.outputs, dy);
    split.batch.labels = NULL;
    split.batch.targets = NULL;
    memset(split.grad, 0, (size_t)g->graph.params.count * sizeof(float));
    assert_int_equal(phase(&split, &runner, FAST_PASS_FORWARD), FAST_OK);
    assert_true(isnan(split.pass.loss));
    split.pass.outputs_grad = dy;
    assert_int_equal(phase(&split, &runner, FAST_PASS_BACKWARD), FAST_OK);
    split.pass.loss = whole.pass.loss;
    assert_true(test_job_distance(&split, &whole) < 1e-5);
    test_job_close(&whole);
    test_job_close(&split);
    test_runner_close(&runner);
    fast__free(dy);
}

static void the_loss_may_be_elsewhere(void **state)
{
    (void)state;
    each(check_outside);
}

/* The loss of a training pass at a changed input. */
static double loss_at(test_job *job, const test_runner *runner, int64_t i, float value)
{
    const float before = job->x[i];
    job->x[i] = value;
    assert_int_equal(test_job_run(job, runner, &(test_job_options){ .forward = true }), FAST_OK);
    job->x[i] = before;
    return job->pass.loss;
}

/* The gradient of the inputs: of ref by finite differences where the function is smooth, of other
 * engines as ref's. */
static void check_inputs(test_graph *g, const fast_engine *engine)
{
    const int64_t in = BATCH * g->nodes[0].count;
    test_runner runner, truth;
    test_job job;
    float *dx[2] = { test_floats(in), test_floats(in) };
    double large = 0;
    if (g->graph.tokens)
        goto done;
    g->graph.input_grad = true;
    test_runner_open(&runner, engine, &g->graph, BATCH);
    test_runner_open(&truth, &fast__engine_ref, &g->graph, BATCH);
    test_job_open(&job, &g->graph, BATCH, 33);
    for (int i = 0; i < 2; i++) {
        const test_runner *r = i ? &truth : &runner;
        assert_int_equal(test_job_run(&job, r, &(test_job_options){ .forward = true }), FAST_OK);
        job.pass.grad = job.grad;
        job.pass.inputs_grad = dx[i];
        assert_int_equal(r->engine->run(r->program, r->workspace, &job.pass), FAST_OK);
    }
    assert_true(test_distance(in, dx[0], dx[1], 1e-6) < 1e-4);
    for (int64_t i = 0; i < in; i++)
        large = fmax(large, fabs((double)dx[1][i]));
    assert_true(large > 0);
    const bool smooth = g->graph.loss_use == FAST_LOSS_TRAINED; /* nothing is detached */
    for (int64_t i = 0; i < in && engine == &fast__engine_ref && smooth; i += in / 7 + 1) {
        const float h = 1e-3F, x = job.x[i];
        const double slope =
            (loss_at(&job, &truth, i, x + h) - loss_at(&job, &truth, i, x - h)) / (2 * (double)h);
        /* A kink or fp32's rounding moves single slopes, never the scale. */
        assert_true(fabs(slope - (double)dx[1][i]) < 0.06 * large);
    }
    test_job_close(&job);
    test_runner_close(&runner);
    test_runner_close(&truth);
    g->graph.input_grad = false;
done:
    fast__free(dx[0]);
    fast__free(dx[1]);
}

static void inputs_have_a_gradient(void **state)
{
    (void)state;
    each(check_inputs);
}

/* Masks are keyed by the number in the whole network. */
static void dropout_follows_the_global_number(void **state)
{
    (void)state;
    static test_graph g;
    for (const fast_engine *const *engine = fast__engines; *engine; engine++) {
        test_runner runner;
        test_job plain, moved;
        test_networks[0].build(&g);
        test_runner_open(&runner, *engine, &g.graph, BATCH);
        test_job_open(&plain, &g.graph, BATCH, 31);
        test_job_open(&moved, &g.graph, BATCH, 31);
        assert_int_equal(test_job_run(&plain, &runner, &(test_job_options){ 0 }), FAST_OK);
        for (int i = 0; i < g.graph.node_count; i++)
            g.nodes[i].global = i + 1;
        assert_int_equal(test_job_run(&moved, &runner, &(test_job_options){ 0 }), FAST_OK);
        assert_true(test_job_same(&plain, &moved));
        for (int i = 0; i < g.graph.node_count; i++)
            g.nodes[i].global = i + 2;
        assert_int_equal(test_job_run(&moved, &runner, &(test_job_options){ 0 }), FAST_OK);
        assert_false(test_job_same(&plain, &moved));
        test_job_close(&plain);
        test_job_close(&moved);
        test_runner_close(&runner);
    }
}

/* Combinations that mean nothing are refused. */
static void misuse_is_refused(void **state)
{
    (void)state;
    static test_graph g;
    float dx[BATCH * 13];
    for (const fast_engine *const *engine = fast__engines; *engine; engine++) {
        test_runner runner;
        test_job job;
        test_networks[0].build(&g);
        test_runner_open(&runner, *engine, &g.graph, BATCH);
        test_job_open(&job, &g.graph, BATCH, 31);
        assert_int_equal(test_job_run(&job, &runner, &(test_job_options){ 0 }), FAST_OK);
        const fast_pass good = job.pass;
        job.pass.phase = FAST_PASS_FORWARD; /* with a gradient */
        assert_int_equal((*engine)->run(runner.program, runner.workspace, &job.pass), FAST_EINVAL);
        job.pass = good;
        job.pass.phase = FAST_PASS_BACKWARD; /* without one */
        job.pass.grad = NULL;
        assert_int_equal((*engine)->run(runner.program, runner.workspace, &job.pass), FAST_EINVAL);
        job.pass = good;
        job.pass.phase = FAST_PASS_FORWARD; /* an evaluation */
        job.pass.grad = NULL;
        job.pass.train = false;
        assert_int_equal((*engine)->run(runner.program, runner.workspace, &job.pass), FAST_EINVAL);
        job.pass = good;
        job.pass.inputs_grad = dx; /* the graph does not ask for it */
        assert_int_equal((*engine)->run(runner.program, runner.workspace, &job.pass), FAST_EINVAL);
        test_job_close(&job);
        test_runner_close(&runner);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(micro_batches_in_flight_are_separate),
        cmocka_unit_test(backward_passes_have_halves),
        cmocka_unit_test(the_loss_may_be_elsewhere),
        cmocka_unit_test(inputs_have_a_gradient),
        cmocka_unit_test(dropout_follows_the_global_number),
        cmocka_unit_test(misuse_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
