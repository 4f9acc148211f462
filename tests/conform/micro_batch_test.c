/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Micro-batches inside a pass. Goal: the choice is the fastest of all that fit; a pass that is cut
 * gives loss, outputs, gradient and counts of the whole pass to rounding, with dropout, soft
 * targets, heads and class weights, whatever the number of samples; it reports each range once,
 * when it is final; batch norm follows the micro-batches; what cannot be cut is refused before
 * anything is written; memory may run out anywhere. Method: every test network on both engines,
 * cut in several ways, beside the whole one; all sequences of sizes for small batches.
 */
#include "base/memory.h"
#include "engine/micro_batch.h"
#include "jobs.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { BATCH = 13 };

/* The least time of any sequence of sizes a and b that holds `left` samples. */
static double all_sequences(const fast_micro_size *a, const fast_micro_size *b, int64_t left)
{
    if (left <= 0)
        return 0;
    return fmin(a->seconds + all_sequences(a, b, left - a->count),
                b->seconds + all_sequences(a, b, left - b->count));
}

/* Random times and memory: the choice is as fast as the best of all sequences that fit. */
static void fastest_of_all(void **state)
{
    float numbers[8];

    (void)state;
    for (uint64_t trial = 0; trial < 60; trial++) {
        fast_micro_size sizes[4];
        fast_micro_plan plan;
        const int64_t batch = 1 + (int64_t)trial % 24, room = trial % 3 == 0 ? 0 : 100;
        double best = INFINITY, time = 0;
        int64_t held = 0, memory = 0;

        test_fill(trial, 8, 1.0F, numbers);
        for (int i = 0; i < 4; i++)
            sizes[i] = (fast_micro_size){ .count = 1 + 2 * i,
                                          .seconds = 1.1 + (double)numbers[i] + 0.3 * i,
                                          .memory = 60 + (int64_t)(50.0F * numbers[4 + i]) };
        for (int i = 0; i < 4; i++)
            for (int j = i; j < 4; j++)
                if (room == 0 || sizes[i].memory + (i == j ? 0 : sizes[j].memory) <= room)
                    best = fmin(best, all_sequences(&sizes[i], &sizes[j], batch));
        const fast_err err = fast__micro_choose(sizes, 4, batch, room, &plan);
        assert_int_equal(err, isfinite(best) ? FAST_OK : FAST_EINVAL);
        if (err)
            continue;
        assert_true(fabs(plan.seconds - best) < 1e-12);
        for (int i = 0; i < 4; i++) {
            bool used = false;
            for (int k = 0; k < plan.part_count; k++)
                if (plan.parts[k] == sizes[i].count) {
                    time += sizes[i].seconds;
                    held += sizes[i].count;
                    used = true;
                }
            memory += used ? sizes[i].memory : 0;
        }
        assert_true(fabs(time - best) < 1e-9);
        assert_true(held >= batch && memory <= plan.memory && (room == 0 || plan.memory <= room));
    }
}

/* Compile whole, or in micro-batches. */
static test_runner runner_of(const fast_engine *engine, const fast_graph *graph,
                             const int64_t *parts, int part_count)
{
    const fast_engine_options options = { .batch = BATCH, .train = true, .plan_path = "" };
    test_runner r = { .engine = engine };

    assert_int_equal(
        parts ? fast__micro_compile(engine, graph, &options, parts, part_count, &r.program)
              : engine->compile(graph, &options, &r.program),
        FAST_OK);
    r.engine = r.program->engine;
    assert_int_equal(r.engine->workspace_new(r.program, &r.workspace), FAST_OK);
    assert_int_equal(r.program->micro_batches, parts ? part_count : 0);
    return r;
}

/* A listener: how often each element was reported, and its gradient at that moment. */
typedef struct listener {
    const test_job *job;
    int32_t *count; /* [params] */
    float *seen;    /* [params] */
} listener;

static void on_report(void *ctx, int64_t offset, int64_t count)
{
    const listener *l = ctx;

    for (int64_t i = offset; i < offset + count; i++) {
        l->count[i]++;
        l->seen[i] = l->job->grad[i];
    }
}

/* Compare a cut pass with the whole one, for all counts of samples. */
static void compare(const test_graph *g, const test_runner *whole, const test_runner *cut)
{
    const int64_t params = g->graph.params.count;
    float *seen = test_floats(params);
    int32_t *count = (int32_t *)(void *)test_floats(params);
    test_job a, b;

    test_job_open(&a, &g->graph, BATCH, 7);
    test_job_open(&b, &g->graph, BATCH, 7);
    for (int64_t n = 1; n <= BATCH; n++)
        for (int kind = 0; kind < 3; kind++) {
            listener l = { &b, count, seen };
            test_job_options o = {
                .step = (uint64_t)n, .count = n, .evaluate = kind == 1, .forward = kind == 2
            };

            assert_int_equal(test_job_run(&a, whole, &o), FAST_OK);
            memset(count, 0, (size_t)params * sizeof *count);
            o.report = on_report;
            o.ctx = &l;
            assert_int_equal(test_job_run(&b, cut, &o), FAST_OK);
            assert_true(test_job_distance(&b, &a) < 2e-4);
            assert_int_equal(a.pass.correct, b.pass.correct);
            assert_int_equal(a.pass.positions, b.pass.positions);
            for (int64_t i = 0; kind == 0 && i < params; i++)
                assert_true(count[i] == 1 && seen[i] == b.grad[i]);
        }
    test_job_close(&a);
    test_job_close(&b);
    fast__free(seen);
    fast__free(count);
}

static const int64_t cuts[][4] = { { 8, 5 }, { 5, 5, 3 }, { 4, 4, 4, 1 }, { 13 } };
static const int cut_counts[] = { 2, 3, 4, 1 };

/* All networks but those whose batch norm sees the whole batch, with and without class weights. */
static void as_the_whole(void **state)
{
    int compared = 0;

    (void)state;
    for (int e = 0; fast__engines[e]; e++)
        for (int i = 0; test_networks[i].name; i++)
            for (int weighted = 0; weighted < 2; weighted++) {
                test_graph g = { 0 };
                float class_weights[64];

                test_networks[i].build(&g);
                for (int k = 0; k < 64; k++)
                    class_weights[k] = 0.2F + (float)(k * 7 % 5);
                if (weighted && (g.graph.loss != FAST_LOSS_CROSS_ENTROPY || g.graph.outputs > 64))
                    continue;
                g.graph.class_weights = weighted ? class_weights : NULL;
                if (!fast__micro_is_exact(&g.graph, 4) && strcmp(test_networks[i].name, "custom"))
                    continue;
                test_runner whole = runner_of(fast__engines[e], &g.graph, NULL, 0);
                for (int c = 0; c < 4; c++) {
                    test_runner cut = runner_of(fast__engines[e], &g.graph, cuts[c], cut_counts[c]);

                    assert_true(c == 3 || cut.program->memory > 0);
                    compare(&g, &whole, &cut);
                    test_runner_close(&cut);
                    compared++;
                }
                test_runner_close(&whole);
            }
    assert_true(compared > 40);
}

/* A chain with a batch norm of `text`. */
static void normed(test_graph *g, const char *text)
{
    test_graph_begin(g, "3x4x4", 0);
    test_graph_then(g, "conv out=4 kernel=3 pad=1");
    test_graph_then(g, text);
    test_graph_then(g, "dense out=5");
    test_graph_end(g, FAST_LOSS_CROSS_ENTROPY, 0);
}

/* Batch norm has the statistics of micro-batches: another gradient, unless its groups are whole. */
static void batch_norm_sees_micro_batches(void **state)
{
    static const int64_t parts[] = { 8, 5 };

    (void)state;
    for (int e = 0; fast__engines[e]; e++)
        for (int ghost = 0; ghost < 2; ghost++) {
            test_graph g = { 0 };
            test_job a, b;

            normed(&g, ghost ? "batch_norm ghost=4" : "batch_norm");
            assert_int_equal(fast__micro_is_exact(&g.graph, 8), ghost);
            assert_false(fast__micro_is_exact(&g.graph, 6));
            test_runner whole = runner_of(fast__engines[e], &g.graph, NULL, 0);
            test_runner cut = runner_of(fast__engines[e], &g.graph, parts, 2);
            test_job_open(&a, &g.graph, BATCH, 7);
            test_job_open(&b, &g.graph, BATCH, 7);
            assert_int_equal(test_job_run(&a, &whole, &(test_job_options){ 0 }), FAST_OK);
            assert_int_equal(test_job_run(&b, &cut, &(test_job_options){ 0 }), FAST_OK);
            const double d = test_distance(g.graph.params.count, a.grad, b.grad, 1e-2);
            assert_true(ghost ? d < 1e-4 : d > 1e-3);
            /* In evaluation its statistics are given. */
            const test_job_options test = { .evaluate = true };
            assert_int_equal(test_job_run(&a, &whole, &test), FAST_OK);
            assert_int_equal(test_job_run(&b, &cut, &test), FAST_OK);
            assert_true(test_job_distance(&b, &a) < 1e-4);
            test_job_close(&a);
            test_job_close(&b);
            test_runner_close(&whole);
            test_runner_close(&cut);
        }
}

static void never(void *ctx, int64_t offset, int64_t count)
{
    (void)ctx;
    (void)offset;
    (void)count;
}

/* A wrong label of the second micro-batch, phases and parameters that come twice are refused before
 * anything is written, which the job's guards see. */
static void refusals(void **state)
{
    static const int64_t parts[] = { 8, 5 };
    test_graph g = { 0 };
    test_job job;

    (void)state;
    test_networks[1].build(&g);
    test_runner cut = runner_of(fast__engines[0], &g.graph, parts, 2);
    test_job_open(&job, &g.graph, BATCH, 7);
    job.labels[10] = 1000;
    assert_int_equal(test_job_run(&job, &cut, &(test_job_options){ 0 }), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "label 1000 of sample 10"));
    job.labels[10] = 0;
    fast_pass pass = job.pass;
    pass.batch = &job.batch;
    pass.need = never;
    pass.need_again = true;
    assert_int_equal(cut.engine->run(cut.program, cut.workspace, &pass), FAST_ENOTSUP);
    pass = job.pass;
    pass.phase = FAST_PASS_FORWARD;
    pass.grad = NULL;
    assert_int_equal(cut.engine->run(cut.program, cut.workspace, &pass), FAST_ENOTSUP);
    test_job_close(&job);
    test_runner_close(&cut);
}

/* Recomputation divides its budget among the sizes, and micro-batches take less memory. */
static void less_memory(void **state)
{
    static const int64_t parts[] = { 4, 4, 4, 1 };
    test_graph g = { 0 };
    fast_program *p = NULL;

    (void)state;
    test_networks[1].build(&g);
    test_runner whole = runner_of(&fast__engine_ref, &g.graph, NULL, 0);
    test_runner cut = runner_of(&fast__engine_ref, &g.graph, parts, 4);
    const int64_t vectors = g.graph.params.count * (int64_t)sizeof(float);
    assert_true(cut.program->memory - vectors < whole.program->memory);
    fast_engine_options options = {
        .batch = BATCH, .train = true, .plan_path = "", .recompute = true, .memory = 1
    };
    assert_int_equal(fast__micro_compile(&fast__engine_ref, &g.graph, &options, parts, 4, &p),
                     FAST_OK);
    assert_true(p->memory_least > vectors && p->memory_least <= cut.program->memory);
    options.memory = cut.program->memory;
    p->engine->program_free(p);
    assert_int_equal(fast__micro_compile(&fast__engine_ref, &g.graph, &options, parts, 4, &p),
                     FAST_OK);
    assert_true(p->memory <= options.memory || p->memory_least > 0);
    p->engine->program_free(p);
    test_runner_close(&cut);
    test_runner_close(&whole);
}

/* Every allocation of compiling, opening and choosing fails once. */
static void without_memory(void **state)
{
    static const int64_t parts[] = { 8, 5 };
    static const fast_micro_size sizes[] = { { 4, 1, 1 }, { 8, 1.5, 1 } };
    const fast_engine_options options = { .batch = BATCH, .train = true, .plan_path = "" };
    test_graph g = { 0 };
    fast_err err = FAST_ENOMEM;

    (void)state;
    test_networks[0].build(&g);
    for (int64_t n = 0; err == FAST_ENOMEM; n++) {
        fast_program *p = NULL;
        fast_workspace *w = NULL;
        fast_micro_plan plan;

        fast__alloc_fail_after(n, true);
        err = fast__micro_choose(sizes, 2, BATCH, 0, &plan);
        if (!err)
            err = fast__micro_compile(&fast__engine_ref, &g.graph, &options, parts, 2, &p);
        if (!err)
            err = p->engine->workspace_new(p, &w);
        fast__alloc_fail_after(-1, true);
        if (w)
            p->engine->workspace_free(w);
        if (p)
            p->engine->program_free(p);
        assert_true(n < 200 && (err == FAST_OK) == (w != NULL));
        assert_true(n > 6 || err == FAST_ENOMEM);
    }
    assert_int_equal(err, FAST_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(fastest_of_all),
                                        cmocka_unit_test(as_the_whole),
                                        cmocka_unit_test(batch_norm_sees_micro_batches),
                                        cmocka_unit_test(refusals),
                                        cmocka_unit_test(less_memory),
                                        cmocka_unit_test(without_memory) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
