/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: every engine keeps the contract of engine/engine.h.
 *
 * Method: the networks of jobs.c run on each engine of the registry, between guards: reports cover
 * the vector once and mean what they say, factors multiply to the gradient, passes repeat to the
 * bit whatever ran before and on any thread, modes differ as they should, nothing is allocated, bad
 * batches are refused before anything is written, and running out of memory leaks nothing.
 */
#include "jobs.h"

#include "base/memory.h"
#include "base/thread.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BATCH = 6 };

/* Run `check` on every network and engine. */
typedef void check_fn(const test_graph *g, const test_runner *runner, test_job *job);

static void each(check_fn *check)
{
    static test_graph g;
    for (const fast_engine *const *engine = fast__engines; *engine; engine++)
        for (const test_network *network = test_networks; network->name; network++) {
            test_runner runner;
            test_job job;
            network->build(&g);
            test_runner_open(&runner, *engine, &g.graph, BATCH);
            test_job_open(&job, &g.graph, BATCH, 31);
            check(&g, &runner, &job);
            test_job_close(&job);
            test_runner_close(&runner);
        }
}

/* A listener: how often each element was reported, and its gradient at that moment. From
 * then on the parameters of the range are the listener's: it destroys them. */
typedef struct listener {
    test_job *job;
    int *times;
    float *seen;
    int64_t last;     /* offset of the report before */
    bool descending;  /* reports came from the back to the front */
    int64_t factored; /* segments that went away as factors */
    bool take;        /* take factors */
} listener;

static void on_report(void *ctx, int64_t offset, int64_t count)
{
    listener *l = ctx;
    assert_true(offset >= 0 && count > 0);
    assert_true(offset + count <= l->job->graph->params.count);
    for (int64_t i = offset; i < offset + count; i++) {
        l->times[i]++;
        l->seen[i] = l->job->grad[i];
        l->job->params[i] = NAN;
        l->job->grad[i] = NAN;
    }
}

static void listener_open(listener *l, test_job *job)
{
    *l = (listener){ .job = job };
    l->times = (int *)(void *)test_floats(job->graph->params.count);
    l->seen = test_floats(job->graph->params.count);
}

static void listener_close(listener *l)
{
    fast__free(l->times);
    fast__free(l->seen);
}

static void check_reports(const test_graph *g, const test_runner *runner, test_job *job)
{
    test_job plain;
    listener l;
    test_job_open(&plain, &g->graph, BATCH, 31);
    assert_int_equal(test_job_run(&plain, runner, &(test_job_options){ 0 }), FAST_OK);
    listener_open(&l, job);
    const test_job_options options = { .report = on_report, .ctx = &l };
    assert_int_equal(test_job_run(job, runner, &options), FAST_OK);
    for (int64_t i = 0; i < g->graph.params.count; i++)
        assert_int_equal(l.times[i], 1);
    assert_memory_equal(l.seen, plain.grad, (size_t)g->graph.params.count * sizeof(float));
    assert_true(job->pass.loss == plain.pass.loss);
    listener_close(&l);
    test_job_close(&plain);
}

static void reports_are_final_and_complete(void **state)
{
    (void)state;
    each(check_reports);
}

/* Reports that come one layer after the other, last layer first, let communication begin early. */
static void note_order(void *ctx, int64_t offset, int64_t count)
{
    listener *l = ctx;
    const fast_layout *params = &l->job->graph->params;
    int layer = -1;
    for (int64_t s = 0; s < params->segment_count; s++)
        if (offset >= params->segments[s].offset &&
            offset + count <= params->segments[s].offset + params->segments[s].count)
            layer = params->segments[s].layer;
    assert_true(layer >= 0);
    l->descending = l->descending && layer <= l->last;
    l->last = layer;
}

static void reports_go_from_the_back_to_the_front(void **state)
{
    (void)state;
    static test_graph g;
    for (const fast_engine *const *engine = fast__engines; *engine; engine++) {
        test_runner runner;
        test_job job;
        test_networks[1].build(&g); /* lenet: a chain */
        test_runner_open(&runner, *engine, &g.graph, BATCH);
        test_job_open(&job, &g.graph, BATCH, 31);
        listener l = { .job = &job, .last = INT64_MAX, .descending = true };
        const test_job_options options = { .report = note_order, .ctx = &l };
        assert_int_equal(test_job_run(&job, &runner, &options), FAST_OK);
        assert_true(l.descending);
        test_job_close(&job);
        test_runner_close(&runner);
    }
}

/* Multiply the factors out, into `seen`. */
static bool on_factors(void *ctx, const fast_factors *f)
{
    listener *l = ctx;
    const fast_segment *segment = &l->job->graph->params.segments[f->segment];
    assert_int_equal(f->outputs * f->inputs, segment->count);
    assert_true(f->u_stride >= f->rows && f->v_stride >= f->rows);
    if (!l->take)
        return false;
    for (int64_t o = 0; o < f->outputs; o++)
        for (int64_t i = 0; i < f->inputs; i++) {
            double sum = 0;
            for (int64_t n = 0; n < f->rows; n++)
                sum += (double)f->u[o * f->u_stride + n] * (double)f->v[i * f->v_stride + n];
            l->seen[segment->offset + o * f->inputs + i] = (float)sum;
        }
    for (int64_t i = segment->offset; i < segment->offset + segment->count; i++)
        l->times[i]++;
    l->factored++;
    return true;
}

static void check_factors(const test_graph *g, const test_runner *runner, test_job *job)
{
    test_job plain;
    int64_t dense = 0;
    test_job_open(&plain, &g->graph, BATCH, 31);
    assert_int_equal(test_job_run(&plain, runner, &(test_job_options){ .count = 5 }), FAST_OK);
    for (int i = 0; i < g->graph.node_count; i++)
        dense += g->nodes[i].op == FAST_OP_DENSE && g->nodes[i].weight[FAST_W_GAIN] < 0;
    for (int take = 0; take < 2; take++) {
        listener l;
        listener_open(&l, job);
        l.take = take;
        memcpy(job->params, plain.params, (size_t)g->graph.params.count * sizeof(float));
        const test_job_options options = {
            .count = 5, .report = on_report, .factor = on_factors, .ctx = &l
        };
        assert_int_equal(test_job_run(job, runner, &options), FAST_OK);
        /* A layer that nobody uses has no gradient, and need not be offered. */
        assert_true(l.factored <= (take ? dense : 0));
        assert_true(l.factored >= (take ? dense - 1 : 0));
        for (int64_t i = 0; i < g->graph.params.count; i++)
            assert_int_equal(l.times[i], 1);
        for (int64_t s = 0; s < g->graph.params.segment_count; s++) {
            const fast_segment *segment = &g->params[s];
            const double far = test_distance(segment->count, l.seen + segment->offset,
                                             plain.grad + segment->offset, 1e-4);
            assert_true(far < 1e-4);
        }
        listener_close(&l);
    }
    test_job_close(&plain);
}

static void factors_multiply_to_the_gradient(void **state)
{
    (void)state;
    each(check_factors);
}

/* A taken segment's gradient is not written. */
static bool take_all(void *ctx, const fast_factors *factors)
{
    *(int64_t *)ctx = factors->segment;
    return true;
}

static void taken_segments_are_not_written(void **state)
{
    (void)state;
    static test_graph g;
    for (const fast_engine *const *engine = fast__engines; *engine; engine++) {
        test_runner runner;
        test_job job;
        int64_t first = -1;
        test_networks[1].build(&g);
        test_runner_open(&runner, *engine, &g.graph, BATCH);
        test_job_open(&job, &g.graph, BATCH, 31);
        const test_job_options options = { .factor = take_all, .ctx = &first };
        assert_int_equal(test_job_run(&job, &runner, &options), FAST_OK);
        assert_true(first >= 0);
        const fast_segment *segment = &g.params[first];
        for (int64_t i = segment->offset + 1; i < segment->offset + segment->count; i++)
            assert_true(job.grad[i] == job.grad[segment->offset]); /* still the poison */
        test_job_close(&job);
        test_runner_close(&runner);
    }
}

/* The same pass again, after other passes left their traces in the workspace, and in another
 * workspace. */
static void check_repeats(const test_graph *g, const test_runner *runner, test_job *job)
{
    test_job again;
    test_runner other = *runner;
    test_job_open(&again, &g->graph, BATCH, 31);
    assert_int_equal(runner->engine->workspace_new(runner->program, &other.workspace), FAST_OK);
    for (int64_t count = BATCH; count > 0; count -= 3) {
        const test_job_options options = { .count = count, .step = 5 };
        assert_int_equal(test_job_run(job, runner, &options), FAST_OK);
        assert_int_equal(test_job_run(&again, runner, &(test_job_options){ .step = 6 }), FAST_OK);
        assert_int_equal(test_job_run(&again, runner, &(test_job_options){ .evaluate = true }),
                         FAST_OK);
        assert_int_equal(test_job_run(&again, runner, &options), FAST_OK);
        assert_true(test_job_same(job, &again));
        assert_int_equal(test_job_run(&again, &other, &options), FAST_OK);
        assert_true(test_job_same(job, &again));
    }
    runner->engine->workspace_free(other.workspace);
    test_job_close(&again);
}

static void passes_repeat_to_the_bit(void **state)
{
    (void)state;
    each(check_repeats);
}

typedef struct thread_job {
    test_runner runner;
    test_job job;
    fast_err err;
} thread_job;

static void *thread_main(void *ctx)
{
    thread_job *t = ctx;
    for (int i = 0; i < 3 && t->err == FAST_OK; i++)
        t->err = test_job_run(&t->job, &t->runner, &(test_job_options){ .step = 5 });
    return NULL;
}

static void check_threads(const test_graph *g, const test_runner *runner, test_job *job)
{
    enum { THREADS = 3 };
    thread_job jobs[THREADS];
    fast_thread threads[THREADS];
    assert_int_equal(test_job_run(job, runner, &(test_job_options){ .step = 5 }), FAST_OK);
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (thread_job){ .runner = *runner };
        test_job_open(&jobs[i].job, &g->graph, BATCH, 31);
        assert_int_equal(runner->engine->workspace_new(runner->program, &jobs[i].runner.workspace),
                         FAST_OK);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(fast__thread_start(&threads[i], thread_main, &jobs[i]), FAST_OK);
    for (int i = 0; i < THREADS; i++) {
        fast__thread_join(&threads[i]);
        assert_int_equal(jobs[i].err, FAST_OK);
        assert_true(test_job_same(job, &jobs[i].job));
        runner->engine->workspace_free(jobs[i].runner.workspace);
        test_job_close(&jobs[i].job);
    }
}

static void threads_share_a_program(void **state)
{
    (void)state;
    each(check_threads);
}

static void check_modes(const test_graph *g, const test_runner *runner, test_job *job)
{
    const size_t state_size = (size_t)g->graph.state.count * sizeof(float);
    const size_t out = BATCH * (size_t)g->nodes[g->graph.node_count - 1].count;
    float *outputs = test_floats((int64_t)out);
    float *after = test_floats(g->graph.state.count);
    bool drops = false;
    for (int i = 0; i < g->graph.node_count; i++)
        drops = drops || g->nodes[i].op == FAST_OP_DROPOUT;
    /* Training with and without the backward pass: the same outputs, loss and state. */
    assert_int_equal(test_job_run(job, runner, &(test_job_options){ 0 }), FAST_OK);
    const double loss = job->pass.loss;
    memcpy(outputs, job->outputs, out * sizeof(float));
    memcpy(after, job->state_after, state_size);
    assert_int_equal(test_job_run(job, runner, &(test_job_options){ .forward = true }), FAST_OK);
    assert_true(job->pass.loss == loss);
    assert_memory_equal(outputs, job->outputs, out * sizeof(float));
    assert_memory_equal(after, job->state_after, state_size);
    if (g->graph.state.count > 0)
        assert_memory_not_equal(after, job->state, state_size);
    /* Another step has other masks, and only masks differ. */
    assert_int_equal(test_job_run(job, runner, &(test_job_options){ .step = 1 }), FAST_OK);
    assert_int_equal(memcmp(outputs, job->outputs, out * sizeof(float)) != 0, drops);
    /* Evaluation reads the state and leaves it; it drops nothing, so steps do not matter. */
    assert_int_equal(test_job_run(job, runner, &(test_job_options){ .evaluate = true }), FAST_OK);
    assert_memory_equal(job->state, job->state_after, state_size);
    assert_int_equal(memcmp(outputs, job->outputs, out * sizeof(float)) != 0,
                     drops || g->graph.state.count > 0);
    memcpy(outputs, job->outputs, out * sizeof(float));
    assert_int_equal(test_job_run(job, runner, &(test_job_options){ .evaluate = true, .step = 1 }),
                     FAST_OK);
    assert_memory_equal(outputs, job->outputs, out * sizeof(float));
    fast__free(outputs);
    fast__free(after);
}

static void modes_differ_as_they_should(void **state)
{
    (void)state;
    each(check_modes);
}

/* In evaluation a sample's outputs do not depend on the batch around it. */
static void check_partial(const test_graph *g, const test_runner *runner, test_job *job)
{
    const int64_t out = g->nodes[g->graph.node_count - 1].count;
    float *outputs = test_floats(BATCH * out);
    assert_int_equal(test_job_run(job, runner, &(test_job_options){ .evaluate = true }), FAST_OK);
    memcpy(outputs, job->outputs, (size_t)(BATCH * out) * sizeof(float));
    for (int64_t count = 1; count < BATCH; count++) {
        const test_job_options options = { .count = count, .evaluate = true };
        assert_int_equal(test_job_run(job, runner, &options), FAST_OK);
        assert_true(test_distance(count * out, job->outputs, outputs, 1e-3) < 1e-5);
        assert_int_equal(job->pass.positions, count * g->graph.positions);
    }
    fast__free(outputs);
}

static void partial_batches_give_the_same_outputs(void **state)
{
    (void)state;
    each(check_partial);
}

/* Masks follow a sample's id, not its place in the batch: sample 4 alone, as the first of a
 * batch. */
static void dropout_follows_the_sample(void **state)
{
    (void)state;
    static test_graph g;
    for (const fast_engine *const *engine = fast__engines; *engine; engine++) {
        test_runner runner;
        test_job job;
        float row[5];
        test_networks[0].build(&g); /* mlp, with dropout */
        test_runner_open(&runner, *engine, &g.graph, BATCH);
        test_job_open(&job, &g.graph, BATCH, 31);
        assert_int_equal(test_job_run(&job, &runner, &(test_job_options){ .step = 9 }), FAST_OK);
        memcpy(row, job.outputs + 4 * 5, sizeof(row));
        memmove(job.x, job.x + 4 * 13, 13 * sizeof(float));
        const uint32_t ids[] = { 4 };
        const test_job_options options = { .count = 1, .step = 9, .ids = ids };
        assert_int_equal(test_job_run(&job, &runner, &options), FAST_OK);
        assert_true(test_distance(5, job.outputs, row, 1e-3) < 1e-5);
        assert_int_equal(test_job_run(&job, &runner, &(test_job_options){ .count = 1, .step = 9 }),
                         FAST_OK);
        assert_true(test_distance(5, job.outputs, row, 1e-3) > 1e-3);
        test_job_close(&job);
        test_runner_close(&runner);
    }
}

static void check_allocations(const test_graph *g, const test_runner *runner, test_job *job)
{
    (void)g;
    for (int i = 0; i < 3; i++) {
        const int64_t before = fast__alloc_count();
        assert_int_equal(test_job_run(job, runner, &(test_job_options){ .count = 2 * i }), FAST_OK);
        assert_int_equal(fast__alloc_count(), before);
    }
}

static void passes_allocate_nothing(void **state)
{
    (void)state;
    each(check_allocations);
}

/* Refused, and nothing written: test_job_run() finds outputs and gradient still poisoned. */
static void expect_refusal(test_job *job, const test_runner *runner)
{
    assert_int_equal(test_job_run(job, runner, &(test_job_options){ 0 }), FAST_EINVAL);
    assert_true(strlen(fast_error_detail()) > 0);
    assert_memory_equal(job->state, job->state_after,
                        (size_t)job->graph->state.count * sizeof(float));
    assert_true(job->pass.loss == -1);
    assert_int_equal(job->pass.correct, -1);
}

static void check_refusals(const test_graph *g, const test_runner *runner, test_job *job)
{
    if (g->graph.loss == FAST_LOSS_CROSS_ENTROPY) {
        const int32_t bad[] = { -1, (int32_t)g->graph.outputs, INT32_MIN, INT32_MAX };
        int32_t *last = &job->labels[BATCH * g->graph.positions - 1];
        const int32_t before = *last;
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
            *last = bad[i];
            expect_refusal(job, runner);
        }
        *last = before;
    }
    if (g->graph.tokens) {
        const float bad[] = { -1,       0.5F,     (float)g->graph.vocabulary, 1e30F, -1e30F, NAN,
                              INFINITY, -INFINITY };
        float *last = &job->x[BATCH * g->nodes[0].count - 1];
        const float before = *last;
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
            *last = bad[i];
            expect_refusal(job, runner);
        }
        *last = before;
    }
    assert_int_equal(test_job_run(job, runner, &(test_job_options){ 0 }), FAST_OK);
    fast_batch batch = job->batch;
    fast_pass pass = job->pass;
    pass.batch = &batch;
    batch.count = 0;
    assert_int_equal(runner->engine->run(runner->program, runner->workspace, &pass), FAST_EINVAL);
    batch.count = BATCH + 1;
    assert_int_equal(runner->engine->run(runner->program, runner->workspace, &pass), FAST_EINVAL);
    batch.count = BATCH;
    pass.train = false;
    assert_int_equal(runner->engine->run(runner->program, runner->workspace, &pass), FAST_EINVAL);
    /* Without labels: outputs alone. */
    pass.grad = NULL;
    batch.labels = NULL;
    batch.targets = NULL;
    assert_int_equal(runner->engine->run(runner->program, runner->workspace, &pass), FAST_OK);
    assert_true(isnan(pass.loss));
    assert_int_equal(pass.positions, 0);
}

static void bad_batches_are_refused(void **state)
{
    (void)state;
    each(check_refusals);
}

/* Fail the n-th allocation for n = 0, 1, ... until everything succeeds. */
static void memory_can_run_out(void **state)
{
    (void)state;
    static test_graph g;
    test_networks[2].build(&g); /* small: an engine may measure at each compile */
    for (const fast_engine *const *engine = fast__engines; *engine; engine++) {
        const fast_engine_options options = { .batch = BATCH, .train = true, .plan_path = "" };
        bool done = false;
        for (int64_t n = 0; !done; n++) {
            fast_program *program = NULL;
            fast_workspace *workspace = NULL;
            fast__alloc_fail_after(n, true);
            fast_err err = (*engine)->compile(&g.graph, &options, &program);
            if (err == FAST_OK)
                err = (*engine)->workspace_new(program, &workspace);
            fast__alloc_fail_after(-1, true);
            done = err == FAST_OK;
            assert_true(done || err == FAST_ENOMEM);
            (*engine)->workspace_free(workspace);
            (*engine)->program_free(program);
            assert_true(n < 1000);
        }
    }
}

static void engines_are_found_by_name(void **state)
{
    (void)state;
    const fast_engine *engine = NULL;
    assert_int_equal(fast__engine_find("ref", &engine), FAST_OK);
    assert_ptr_equal(engine, &fast__engine_ref);
    assert_int_equal(fast__engine_find("auto", &engine), FAST_OK);
    assert_ptr_equal(engine, fast__engines[0]);
    engine = NULL;
    assert_int_equal(fast__engine_find("rev", &engine), FAST_EINVAL);
    assert_null(engine);
    assert_non_null(strstr(fast_error_detail(), "\"ref\""));
    for (const fast_engine *const *e = fast__engines; *e; e++)
        assert_true((*e)->name && (*e)->summary && (*e)->compile && (*e)->run);
}

static void programs_say_what_they_cost(void **state)
{
    (void)state;
    static test_graph g;
    test_networks[1].build(&g);
    for (const fast_engine *const *engine = fast__engines; *engine; engine++) {
        test_runner runner;
        test_runner_open(&runner, *engine, &g.graph, 2);
        const fast_program *head = runner.program;
        const double conv1 = 2.0 * 24 * 24 * 20 * 25;
        const double rest = 2.0 * (8 * 8 * 50 * 20 * 25 + 800 * 500 + 500 * 10);
        assert_true(head->flops_forward == conv1 + rest);
        assert_true(head->flops_train == 2 * conv1 + 3 * rest);
        assert_int_equal(head->batch, 2);
        assert_ptr_equal(head->engine, *engine);
        if ((*engine)->describe) {
            assert_non_null((*engine)->describe(runner.program, 1));
            assert_null((*engine)->describe(runner.program, g.graph.node_count));
        }
        test_runner_close(&runner);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(engines_are_found_by_name),
        cmocka_unit_test(programs_say_what_they_cost),
        cmocka_unit_test(reports_are_final_and_complete),
        cmocka_unit_test(reports_go_from_the_back_to_the_front),
        cmocka_unit_test(factors_multiply_to_the_gradient),
        cmocka_unit_test(taken_segments_are_not_written),
        cmocka_unit_test(passes_repeat_to_the_bit),
        cmocka_unit_test(threads_share_a_program),
        cmocka_unit_test(modes_differ_as_they_should),
        cmocka_unit_test(partial_batches_give_the_same_outputs),
        cmocka_unit_test(dropout_follows_the_sample),
        cmocka_unit_test(passes_allocate_nothing),
        cmocka_unit_test(bad_batches_are_refused),
        cmocka_unit_test(memory_can_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
