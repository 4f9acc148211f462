/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: all engines compute the same thing.
 *
 * Method: every case of cases.c and every network of jobs.c runs on each engine and on `ref`, in
 * training and in evaluation, with full and partial batches; outputs, loss, right answers, state
 * and gradients must agree. Engines sum in different orders, in fp32: the bound of 1e-4 of the
 * largest element is some hundred times the rounding of sums of these lengths. Gradients that are
 * zero by mathematics (a bias before batch norm) are judged against the whole gradient's size.
 */
#include "jobs.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const double bound = 1e-4;

static void compare(const char *what, const test_runner *runner, const test_runner *truth,
                    test_job *job, test_job *true_job, const test_job_options *options,
                    double *worst)
{
    assert_int_equal(test_job_run(job, runner, options), FAST_OK);
    assert_int_equal(test_job_run(true_job, truth, options), FAST_OK);
    const double far = test_job_distance(job, true_job);
    if (getenv("FAST_TEST_VERBOSE"))
        print_message("%s %s %.1e\n", runner->engine->name, what, far);
    if (!(far < bound))
        fail_msg("%s, %s, %lld samples%s: differs from ref by %g", runner->engine->name, what,
                 (long long)job->batch.count, options->evaluate ? ", evaluation" : "", far);
    assert_int_equal(job->pass.positions, true_job->pass.positions);
    assert_int_equal(job->pass.correct, true_job->pass.correct);
    *worst = fmax(*worst, far);
}

/* One graph on one engine and on ref, at several batches, in both modes. */
static void compare_graph(const char *what, const fast_engine *engine, const test_graph *g,
                          int64_t batch, bool is_case, double *worst)
{
    test_runner runner;
    test_runner truth;
    test_job job;
    test_job true_job;
    test_runner_open(&runner, engine, &g->graph, batch);
    test_runner_open(&truth, &fast__engine_ref, &g->graph, batch);
    if (is_case) {
        test_job_open_case(&job, g, 21);
        test_job_open_case(&true_job, g, 21);
    } else {
        test_job_open(&job, &g->graph, batch, 21);
        test_job_open(&true_job, &g->graph, batch, 21);
    }
    const int64_t counts[] = { 0, 1, batch / 2 + 1 };
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        /* A statistic of one number has no gradient worth comparing. */
        const bool single = g->graph.state.count > 0 && counts[i] == 1;
        for (int evaluate = single; evaluate < 2; evaluate++)
            compare(what, &runner, &truth, &job, &true_job,
                    &(test_job_options){ .count = counts[i], .evaluate = evaluate, .step = 2 },
                    worst);
    }
    test_job_close(&job);
    test_job_close(&true_job);
    test_runner_close(&runner);
    test_runner_close(&truth);
}

static void operators_agree(void **state)
{
    (void)state;
    static test_graph g;
    double worst = 0;
    for (const fast_engine *const *engine = fast__engines; *engine; engine++)
        for (const char *const *text = test_cases; *text; text++)
            for (int direct = 0; direct < 2; direct++) {
                if (direct && strchr(strstr(*text, "in="), ','))
                    continue;
                test_graph_case(&g, *text, direct);
                compare_graph(*text, *engine, &g, g.n, true, &worst);
            }
    print_message("largest deviation of operators from ref: %.1e\n", worst);
}

static void networks_agree(void **state)
{
    (void)state;
    static test_graph g;
    double worst = 0;
    for (const fast_engine *const *engine = fast__engines; *engine; engine++)
        for (const test_network *network = test_networks; network->name; network++) {
            network->build(&g);
            compare_graph(network->name, *engine, &g, 19, false, &worst);
        }
    print_message("largest deviation of networks from ref: %.1e\n", worst);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators_agree),
        cmocka_unit_test(networks_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
