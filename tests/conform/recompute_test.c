/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recomputation of activations. Goal: a pass that computes activations twice has the bits of one
 * that stores them: outputs, loss, statistics, gradients, reports; its memory is less, that of
 * sqrt(n) segments about 2 sqrt(n) layers, and never more than a budget that it accepts. Method:
 * every test network on both engines, in sqrt(n) segments and under shrinking budgets; a deep chain
 * for the rule.
 */
#include "base/folder_fixture.h"
#include "base/memory.h"
#include "engine/recompute.h"
#include "jobs.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { BATCH = 5 };

/* Products and convolutions that are measured have other bits each: what one program chooses is
 * the choice of the others too. */
static char plan[sizeof root + 8];

/* Compile with these options. */
static test_runner runner_of(const fast_engine *engine, const fast_graph *graph, bool recompute,
                             int64_t memory)
{
    const fast_engine_options options = { .batch = BATCH,
                                          .train = true,
                                          .plan_path = plan,
                                          .method =
                                              strcmp(engine->name, "cpu") == 0 ? "im2col" : NULL,
                                          .recompute = recompute,
                                          .memory = memory };
    const fast_engine_options any = {
        .batch = BATCH, .train = true, .plan_path = plan, .recompute = recompute, .memory = memory
    };
    test_runner r = { .engine = engine };

    if (engine->compile(graph, &options, &r.program) != FAST_OK) /* it has no convolution */
        assert_int_equal(engine->compile(graph, &any, &r.program), FAST_OK);
    assert_int_equal(engine->workspace_new(r.program, &r.workspace), FAST_OK);
    return r;
}

/* Two steps, so that statistics of the first are used. */
static void run_both(test_job *a, const test_runner *x, test_job *b, const test_runner *y)
{
    for (uint64_t step = 0; step < 2; step++) {
        const test_job_options o = { .step = step };
        const test_job_options part = { .step = step, .count = 3 };

        assert_int_equal(test_job_run(a, x, &o), FAST_OK);
        assert_int_equal(test_job_run(b, y, &o), FAST_OK);
        assert_true(test_job_same(a, b));
        assert_int_equal(test_job_run(a, x, &part), FAST_OK);
        assert_int_equal(test_job_run(b, y, &part), FAST_OK);
        assert_true(test_job_same(a, b));
    }
}

/* All test networks: sqrt(n) segments, and budgets from all of the memory to too little. */
static void same_bits(void **state)
{
    (void)state;
    for (int e = 0; fast__engines[e]; e++)
        for (int i = 0; test_networks[i].name; i++) {
            test_graph g = { 0 };
            test_job a, b;
            int changed = 0;

            test_networks[i].build(&g);
            test_job_open(&a, &g.graph, BATCH, 7);
            test_job_open(&b, &g.graph, BATCH, 7);
            test_runner plain = runner_of(fast__engines[e], &g.graph, false, 0);
            const int64_t memory = plain.program->memory;

            assert_true(memory > 0 && plain.program->flops_again == 0);
            for (int k = 0; k < 8; k++) {
                const int64_t budget = k == 0 ? 0 : memory * (9 - k) / 8;
                test_runner r = runner_of(fast__engines[e], &g.graph, true, budget);

                if (budget > 0 && r.program->memory_least == 0)
                    assert_true(r.program->memory <= budget);
                if (k == 1) /* all of it fits */
                    assert_true(r.program->segments == 0 && r.program->memory == memory);
                changed += r.program->segments > 0;
                run_both(&a, &plain, &b, &r);
                test_runner_close(&r);
            }
            assert_true(changed > 0 || g.graph.node_count < 5);
            test_runner_close(&plain);
            test_job_close(&a);
            test_job_close(&b);
        }
}

/* Cuts are where little crosses, and of equal size otherwise. */
static void cuts_are_narrow(void **state)
{
    int64_t size[12], crossing[12];
    int segment[12];

    (void)state;
    for (int s = 0; s < 12; s++) {
        size[s] = 10;
        crossing[s] = s % 3 == 2 ? 1 : 2; /* blocks of three */
    }
    fast__recompute_cut(12, size, crossing, 4, segment);
    for (int s = 0; s < 12; s++)
        assert_int_equal(segment[s], s / 3);
    fast__recompute_cut(12, size, crossing, 1, segment);
    assert_int_equal(segment[11], 0);
    for (int s = 0; s < 12; s++)
        crossing[s] = 1;
    fast__recompute_cut(12, size, crossing, 12, segment);
    for (int s = 0; s < 12; s++)
        assert_int_equal(segment[s], s);
    fast__recompute_cut(3, size, crossing, 12, segment);
    assert_int_equal(segment[2], 2);
    assert_int_equal(fast__recompute_segments(16), 4);
    assert_int_equal(fast__recompute_segments(17), 5);
}

/* The folder of the plan file. */
static int make_plan(void **state)
{
    const int err = make_root(state);

    snprintf(plan, sizeof plan, "%s/plan", root);
    return err;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(same_bits),
                                        cmocka_unit_test(cuts_are_narrow) };

    return cmocka_run_group_tests(tests, make_plan, drop_root);
}
