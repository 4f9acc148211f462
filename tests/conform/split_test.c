/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a network cut into stages computes what the whole network computes.
 *
 * Method: the networks of jobs.c are cut into every possible number of stages, which run in phases
 * one after the other: outputs, loss, state and gradients of each engine are the whole network's,
 * on ref to the bit. Balance, boundaries and impossible cuts are checked on models by name.
 */
#include "jobs.h"

#include "base/memory.h"
#include "model/network.h"
#include "split/shards.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BATCH = 6, STAGES_MAX = 12 };

/* The stages of a network, each with an engine's program and what crosses its boundaries. */
typedef struct test_stage {
    fast_split_stage *stage;
    fast_program *program;
    fast_workspace *workspace;
    float *y, *dx; /* outputs, and gradient of the inputs */
} test_stage;

static void stage_open(test_stage *t, const fast_engine *engine, const fast_graph *graph, int first,
                       int last)
{
    const fast_engine_options options = { .batch = BATCH, .train = true, .plan_path = "" };
    assert_int_equal(fast__split_stage_new(graph, first, last, &t->stage), FAST_OK);
    assert_int_equal(engine->compile(&t->stage->graph, &options, &t->program), FAST_OK);
    assert_int_equal(engine->workspace_new(t->program, &t->workspace), FAST_OK);
    t->y = test_floats(BATCH * graph->nodes[last].count);
    t->dx = test_floats(BATCH * graph->nodes[first].count);
}

static void stage_close(test_stage *t, const fast_engine *engine)
{
    engine->workspace_free(t->workspace);
    engine->program_free(t->program);
    fast__split_stage_free(t->stage);
    fast__free(t->y);
    fast__free(t->dx);
}

/* Run a job through stages; its gradient, outputs, state and loss receive the result. */
static void run_stages(test_job *job, const fast_engine *engine, test_stage *stages, int count)
{
    fast_batch batch = job->batch, inner = { .count = job->batch.count };
    fast_pass pass[STAGES_MAX];
    fast_batch batches[STAGES_MAX];
    for (int s = 0; s < count; s++) {
        const fast_split_stage *stage = stages[s].stage;
        batches[s] = inner;
        batches[s].x = s == 0 ? batch.x : stages[s - 1].y;
        batches[s].ids = batch.ids;
        if (s == count - 1 || fast__graph_has_heads(&stage->graph)) {
            batches[s].labels = batch.labels;
            batches[s].targets = batch.targets;
        }
        pass[s] = (fast_pass){ .phase = FAST_PASS_FORWARD,
                               .params = job->params + stage->params_offset,
                               .state = job->state_after + stage->state_offset,
                               .batch = &batches[s],
                               .train = true,
                               .seed = job->pass.seed,
                               .step = job->pass.step,
                               .outputs = s == count - 1 ? job->outputs : stages[s].y };
        assert_int_equal(engine->run(stages[s].program, stages[s].workspace, &pass[s]), FAST_OK);
    }
    job->pass.loss = pass[count - 1].loss;
    for (int s = 0; s < count - 1; s++) /* of heads on the way */
        job->pass.loss += fast__graph_has_heads(&stages[s].stage->graph) ? pass[s].loss : 0;
    job->pass.correct = pass[count - 1].correct;
    job->pass.positions = pass[count - 1].positions;
    for (int s = count - 1; s >= 0; s--) {
        pass[s].phase = FAST_PASS_BACKWARD;
        pass[s].grad = job->grad + stages[s].stage->params_offset;
        pass[s].outputs = NULL;
        pass[s].outputs_grad = s < count - 1 ? stages[s + 1].dx : NULL;
        pass[s].inputs_grad = s > 0 ? stages[s].dx : NULL;
        assert_int_equal(engine->run(stages[s].program, stages[s].workspace, &pass[s]), FAST_OK);
    }
}

/* Compare the whole network with it cut into `count` stages; false if it cannot be cut so. */
static bool check_count(const test_graph *g, const fast_engine *engine, int count, const char *name)
{
    int ends[STAGES_MAX], first = 0;
    test_stage stages[STAGES_MAX];
    test_runner runner;
    test_job whole, split;
    const test_job_options options = { .step = 3 };
    if (fast__split_choose(&g->graph, count, NULL, &fast__split_speed_typical, ends) != FAST_OK)
        return false;
    for (int s = 0; s < count; s++) {
        stage_open(&stages[s], engine, &g->graph, first, ends[s]);
        first = ends[s];
    }
    test_runner_open(&runner, engine, &g->graph, BATCH);
    test_job_open(&whole, &g->graph, BATCH, 31);
    test_job_open(&split, &g->graph, BATCH, 31);
    assert_int_equal(test_job_run(&whole, &runner, &options), FAST_OK);
    assert_int_equal(test_job_run(&split, &runner, &options), FAST_OK);
    memset(split.grad, 0, (size_t)g->graph.params.count * sizeof(float));
    memcpy(split.state_after, split.state, (size_t)g->graph.state.count * sizeof(float));
    run_stages(&split, engine, stages, count);
    if (engine == &fast__engine_ref && !test_job_same(&split, &whole))
        fail_msg("ref, %s in %d stages: other bits", name, count);
    const double far = test_job_distance(&split, &whole);
    if (!(far < 1e-5))
        fail_msg("%s, %s in %d stages: distance %g", engine->name, name, count, far);
    test_job_close(&whole);
    test_job_close(&split);
    test_runner_close(&runner);
    for (int s = 0; s < count; s++)
        stage_close(&stages[s], engine);
    return true;
}

static void stages_equal_the_whole(void **state)
{
    (void)state;
    static test_graph g;
    for (const fast_engine *const *engine = fast__engines; *engine; engine++)
        for (const test_network *network = test_networks; network->name; network++) {
            int count = 1;
            network->build(&g);
            while (count <= STAGES_MAX && check_count(&g, *engine, count, network->name))
                count++;
            /* Every network of the list but one has at least three stages. */
            assert_true(count > (strcmp(network->name, "branches") == 0 ? 2 : 3));
        }
}

/* The stages of a model by name; gives their shares of the time. */
static void shares_of(const char *text, int count, double *shares, int *ends)
{
    fast_graph *graph;
    double sum = 0;
    int first = 0;
    assert_int_equal(fast__graph_parse(text, &graph), FAST_OK);
    bool *needs = calloc((size_t)graph->node_count, sizeof *needs);
    fast__graph_needs(graph, needs);
    assert_int_equal(fast__split_choose(graph, count, NULL, &fast__split_speed_typical, ends),
                     FAST_OK);
    for (int s = 0; s < count; s++) {
        const fast_split_cost cost = fast__split_cost(graph, needs, first, ends[s]);
        sum += shares[s] = fast__split_seconds(&cost, &fast__split_speed_typical);
        first = ends[s];
    }
    assert_int_equal(first, graph->node_count - 1);
    for (int s = 0; s < count; s++)
        shares[s] /= sum;
    free(needs);
    fast__graph_free(graph);
}

/* Equal layers come to equal stages. */
static void equal_layers_are_dealt_out_equally(void **state)
{
    (void)state;
    double shares[4];
    int ends[4];
    shares_of("input 512\n"
              "dense 512\nrelu\ndense 512\nrelu\ndense 512\nrelu\ndense 512\nrelu\n"
              "dense 512\nrelu\ndense 512\nrelu\ndense 512\nrelu\ndense 512\n",
              4, shares, ends);
    for (int s = 0; s < 4; s++)
        assert_true(fabs(shares[s] - 0.25) < 0.04);
    for (int s = 0; s < 3; s++)
        assert_int_equal(ends[s], 4 * (s + 1)); /* after the relu of each second layer */
}

/* Nothing is cut inside a residual block, and too many stages are refused with the reason. */
static void residual_blocks_stay_whole(void **state)
{
    (void)state;
    static test_graph g;
    fast_split_stage *stage = NULL;
    int ends[64];
    test_networks[3].build(&g); /* resnet */
    assert_int_equal(fast__split_stage_new(&g.graph, 0, 5, &stage), FAST_EINVAL);
    assert_int_equal(fast__split_choose(&g.graph, 40, NULL, &fast__split_speed_typical, ends),
                     FAST_EINVAL);
    assert_null(stage);
}

/* Memory can run out at every allocation. */
static void memory_can_run_out(void **state)
{
    (void)state;
    static test_graph g;
    int ends[2];
    test_networks[0].build(&g);
    for (int64_t n = 0;; n++) {
        fast_split_stage *stage = NULL;
        fast_split_shard *shard = NULL;
        fast_layout_map map;
        fast__alloc_fail_after(n, true);
        fast_err err = fast__split_choose(&g.graph, 2, NULL, &fast__split_speed_typical, ends);
        if (!err)
            err = fast__split_stage_new(&g.graph, 0, ends[0], &stage);
        if (!err)
            err = fast__layout_map_parse("", &map);
        if (!err)
            err = fast__split_shard_new(stage, &map, 2, 1, &shard);
        fast__alloc_fail_after(-1, true);
        fast__split_shard_free(shard);
        fast__split_stage_free(stage);
        if (!err)
            break;
        assert_int_equal(err, FAST_ENOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_equal_the_whole),
        cmocka_unit_test(equal_layers_are_dealt_out_equally),
        cmocka_unit_test(residual_blocks_stay_whole),
        cmocka_unit_test(memory_can_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
