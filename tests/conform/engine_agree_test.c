/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: all engines compute the same thing.
 *
 * Method: every case of cases.c and every network of jobs.c runs on each engine and on `ref`, in
 * training and in evaluation, with full and partial batches; outputs, loss, right answers, state
 * and gradients must agree. Engines sum in different orders, in fp32: the bound of 1e-4 of the
 * largest element is some hundred times the rounding of sums of these lengths. Gradients that are
 * zero by mathematics (a bias before batch norm) are measured against the whole gradient's size.
 *
 * A network has thousands of kinks, and now and then two numbers under a max differ by less than
 * rounding: then engines rightly send a gradient different ways, which moves it by a percent though
 * the outputs agree. So outputs and loss must always agree, and gradients for one of a few seeds: a
 * mistake shows in all of them.
 */
#include "jobs.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const double bound = 1e-4;

/* One pass on both; gives the largest deviation, and fails where even the outputs differ. */
static double compare(const char *what, const test_runner *runner, const test_runner *truth,
                      test_job *job, test_job *true_job, const test_job_options *options)
{
    assert_int_equal(test_job_run(job, runner, options), FAST_OK);
    assert_int_equal(test_job_run(true_job, truth, options), FAST_OK);
    const int64_t out = job->graph->nodes[job->graph->node_count - 1].count * job->batch.count;
    const double outputs = test_distance(out, job->outputs, true_job->outputs, 1e-3);
    if (!(outputs < bound))
        fail_msg("%s, %s, %lld samples%s: outputs differ from ref's by %g", runner->engine->name,
                 what, (long long)job->batch.count, options->evaluate ? ", evaluation" : "",
                 outputs);
    assert_true(fabs(job->pass.loss - true_job->pass.loss) < bound * (1 + true_job->pass.loss));
    assert_int_equal(job->pass.positions, true_job->pass.positions);
    assert_int_equal(job->pass.correct, true_job->pass.correct);
    return test_job_distance(job, true_job);
}

/* One graph on one engine and on ref, at several batches, in both modes. */
static double compare_graph(const char *what, const fast_engine *engine, const test_graph *g,
                            int64_t batch, bool is_case, uint64_t seed)
{
    test_runner runner;
    test_runner truth;
    test_job job;
    test_job true_job;
    test_runner_open(&runner, engine, &g->graph, batch);
    test_runner_open(&truth, &fast__engine_ref, &g->graph, batch);
    if (is_case) {
        test_job_open_case(&job, g, seed);
        test_job_open_case(&true_job, g, seed);
    } else {
        test_job_open(&job, &g->graph, batch, seed);
        test_job_open(&true_job, &g->graph, batch, seed);
    }
    const int64_t counts[] = { 0, 1, batch / 2 + 1 };
    double worst = 0;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        /* A statistic of one number has no gradient worth comparing. */
        const bool single = g->graph.state.count > 0 && counts[i] == 1;
        for (int evaluate = single; evaluate < 2; evaluate++)
            worst = fmax(worst, compare(what, &runner, &truth, &job, &true_job,
                                        &(test_job_options){
                                            .count = counts[i], .evaluate = evaluate, .step = 2 }));
    }
    test_job_close(&job);
    test_job_close(&true_job);
    test_runner_close(&runner);
    test_runner_close(&truth);
    if (getenv("FAST_TEST_VERBOSE"))
        print_message("%s %s %.1e\n", engine->name, what, worst);
    return worst;
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
                const double far = compare_graph(*text, *engine, &g, g.n, true, 21);
                if (!(far < bound))
                    fail_msg("%s, %s: differs from ref by %g", (*engine)->name, *text, far);
                worst = fmax(worst, far);
            }
    print_message("largest deviation of operators from ref: %.1e\n", worst);
}

static void networks_agree(void **state)
{
    (void)state;
    enum { SEEDS = 4 };
    static test_graph g;
    double worst = 0;
    for (const fast_engine *const *engine = fast__engines; *engine; engine++)
        for (const test_network *network = test_networks; network->name; network++) {
            double best = INFINITY;
            network->build(&g);
            for (uint64_t seed = 21; seed < 21 + SEEDS && !(best < bound); seed++)
                best = fmin(best, compare_graph(network->name, *engine, &g, 19, false, seed));
            if (!(best < bound))
                fail_msg("%s, %s: differs from ref by %g", (*engine)->name, network->name, best);
            worst = fmax(worst, best);
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
