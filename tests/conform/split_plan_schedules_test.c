/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: plans of all schedules are predicted as they run, and the search takes the one that is the
 * fastest.
 *
 * Method: equal stages without costs of links have the bubbles of closed forms; each schedule is
 * planned by name and trained for a few steps; every schedule of every mesh is simulated beside the
 * choice; the halves of backward passes are those of the engines.
 */
#include "fast/lab.h"
#include "fast/run.h"

#include "jobs.h"
#include "model/network.h"
#include "split/named_cuts.h"
#include "split/placement.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DATA  "data=digits:train=512,test=16"
#define SMALL "model=mlp:hidden=96x96x96x96"

/* Plan with some options; the result is the caller's. NULL: there is no plan. */
static fast_plan_result *plan(const char *cluster, const char *a, const char *b, const char *c,
                              const char *d)
{
    char place[512];
    const char *const given[] = { a, b, c, d };
    const char *options[12] = { DATA, "batch=32", place };
    fast_plan_result *result = NULL;
    int used = 3;

    snprintf(place, sizeof place, "cluster=%s", cluster);
    for (int i = 0; i < 4; i++)
        if (given[i])
            options[used++] = given[i];
    const fast_err err = fast_plan_run(options, NULL, NULL, &result);
    assert_true(err == FAST_OK || err == FAST_EINVAL);
    return err ? NULL : result;
}

/* Sixteen equal layers. Both passes of the first one but its input's gradient are as long. */
static fast_graph *equal_layers(void)
{
    char text[1024] = "input 128\n";
    fast_graph *graph = NULL;

    for (int i = 0; i < 16; i++)
        strcat(text, "dense 128\nrelu\n");
    assert_int_equal(fast__graph_parse(text, &graph), FAST_OK);
    return graph;
}

/* Predict a step of 8 micro-batches through 4 equal stages, or 16 in chunks. */
static fast_plan_cost predict(const fast_graph *graph, const char *cluster, fast_plan_way way)
{
    const fast_plan_job job = { .graph = graph,
                                .cluster = cluster,
                                .workers = 4,
                                .batch = 32,
                                .pipeline = "",
                                .strategy = "",
                                .layout = "",
                                .cuts = "" };
    fast_plan_space *space = NULL;
    fast_plan plan = { .mesh = { 1, 4, 1 }, .way = way, .nodes = { 0, 1, 2, 3 } };
    const int stages = (int)fast__plan_stages(&plan);
    fast_plan_cost cost;

    assert_int_equal(fast__plan_space_open(&job, &space), FAST_OK);
    for (int s = 0; s < stages; s++)
        for (int k = 0; k < space->cut_count; k++)
            if (space->cuts[k] == 2 * (s + 1) * 16 / stages)
                plan.cuts[s] = k;
    assert_int_equal(fast__plan_dry_run(space, &plan, &cost), FAST_OK);
    fast__plan_space_close(space);
    return cost;
}

/* The bubble of a dry run is that of the closed form. The first stage has no gradient of the input
 * to compute, a twelfth of its work at most. */
static void equal_stages_wait_as_long_as_closed_forms_say(void **state)
{
    static const fast_plan_way ways[] = { { 8, FAST_PIPELINE_1F1B, 1 },
                                          { 8, FAST_PIPELINE_GPIPE, 1 },
                                          { 8, FAST_PIPELINE_ZERO_BUBBLE, 1 },
                                          { 8, FAST_PIPELINE_INTERLEAVED, 2 },
                                          { 8, FAST_PIPELINE_INTERLEAVED, 4 } };
    const char *const free_links = "infiniband:nodes=4,latency=0,bandwidth=1e6Gbit/s";
    fast_graph *graph = equal_layers();
    double steps[5]; /* without updates */

    (void)state;
    for (int i = 0; i < 5; i++) {
        const fast_pipe_place place = {
            .pipeline = ways[i].pipeline, .stages = 4, .micro_batches = 8, .chunks = ways[i].chunks
        };
        const fast_plan_cost cost = predict(graph, free_links, ways[i]);
        const double bubble = fast__pipe_bubble(&place);

        if (fabs(cost.bubble - bubble) > 0.03)
            fail_msg("schedule %d: bubble %g instead of %g", i, cost.bubble, bubble);
        steps[i] = cost.step_s - cost.exchange_s;
    }
    /* M + (S - 1) / V passes through a worker. */
    assert_true(fabs(steps[3] / steps[0] - (8 + 1.5) / 11) < 0.03);
    assert_true(fabs(steps[4] / steps[0] - (8 + 0.75) / 11) < 0.03);
    assert_true(steps[2] < steps[0] && steps[3] < steps[0]);
    /* With slow links the messages of chunks take longer than what they save. */
    const char *const slow_links = "ethernet-1g:nodes=4,bandwidth=10Mbit/s";
    assert_true(predict(graph, slow_links, ways[3]).step_s >
                predict(graph, slow_links, ways[0]).step_s);
    fast__graph_free(graph);
}

/* The schedule of the best plan of four stages. */
static void best_schedule(const char *cluster, const char *model, char schedule[64])
{
    fast_plan_result *r =
        plan(cluster, model, "mesh=data=1,pipe=4,tensor=1", "accumulate=8", "verify=no");

    assert_non_null(r);
    snprintf(schedule, 64, "%s", r->rows[0].pipeline);
    fast_plan_free(r);
}

static void the_search_takes_the_schedule_that_is_the_fastest(void **state)
{
    char schedule[64];

    (void)state;
    best_schedule("infiniband:nodes=4,latency=0,bandwidth=1e6Gbit/s",
                  "model=mlp:hidden=784x784x784x784x784x784x784x784x784x784x784x784x784x784x784",
                  schedule);
    assert_true(strcmp(schedule, "interleaved") == 0 || strcmp(schedule, "zero_bubble") == 0);
    best_schedule("ethernet-1g:nodes=4,bandwidth=10Mbit/s", SMALL, schedule);
    assert_string_not_equal(schedule, "interleaved");
}

/* Schedules that are never drained compute something else: they are not in the search. */
static void asynchronous_schedules_are_planned_by_name_alone(void **state)
{
    fast_plan_result *r = plan("infiniband:nodes=4", SMALL, "top=512", "verify=no", "dry_runs=2");
    bool chunks = false, divided = false, plain = false;

    (void)state;
    assert_non_null(r);
    for (int64_t i = 0; i < r->row_count; i++) {
        const fast_plan_row *row = &r->rows[i];

        divided = divided || strcmp(row->pipeline, "zero_bubble") == 0;
        plain = plain || strcmp(row->pipeline, "1f1b") == 0;
        chunks = chunks || (strcmp(row->pipeline, "interleaved") == 0 && row->chunks > 1);
        if (row->pipeline[0] && !strstr("1f1b gpipe zero_bubble interleaved", row->pipeline))
            fail_msg("%s was not asked for", row->options);
        assert_int_equal(row->pipeline[0] != '\0', strstr(row->mesh, "pipe=") != NULL);
    }
    assert_true(divided && plain && chunks);
    fast_plan_free(r);
}

/* Plan stages by a schedule's name, and compare the prediction with a run. `memory_off` is how far
 * that of a worker may be off. */
static void check_schedule(double memory_off, const char *cluster, const char *model,
                           const char *mesh, const char *schedule, const char *more)
{
    static const char drained[] = "1f1b gpipe interleaved zero_bubble";
    char name[64];
    fast_plan_result *r;

    snprintf(name, sizeof name, "pipeline=%s", schedule);
    r = plan(cluster, model, name, mesh, more);
    if (!r)
        fail_msg("%s: %s", schedule, fast_error_detail());
    const fast_plan_row *row = &r->rows[0];
    const double memory = (double)row->memory / (double)row->verified_memory;

    assert_string_equal(row->pipeline, schedule);
    if (fabs(row->step_s / row->verified_s - 1) > 0.05)
        fail_msg("%s: %g s instead of %g s", row->options, row->step_s, row->verified_s);
    if (fabs(row->estimate_s / row->verified_s - 1) > (strstr(drained, schedule) ? 0.15 : 0.25))
        fail_msg("%s: estimate %g s instead of %g s", row->options, row->estimate_s,
                 row->verified_s);
    if (fabs(memory - 1) > memory_off)
        fail_msg("%s: %lld bytes instead of %lld", row->options, (long long)row->memory,
                 (long long)row->verified_memory);
    fast_plan_free(r);
}

static void predictions_of_all_schedules_are_those_of_runs(void **state)
{
    static const char *const schedules[][2] = {
        { "1f1b", "accumulate=8" },
        { "gpipe", "accumulate=8" },
        { "interleaved", "accumulate=8" },
        { "zero_bubble", "accumulate=8" },
        { "pipedream", NULL },
        { "pipedream_2bw", "accumulate=4" },
        { "stale", "accumulate=2" },
        { "ampnet", "accumulate=2" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
        check_schedule(0.1, "ethernet-10g:nodes=4", "model=mlp:hidden=96x96x96x96x96x96x96",
                       "mesh=data=1,pipe=4,tensor=1", schedules[i][0], schedules[i][1]);
#ifndef FAST_SLOW
        check_schedule(0.15, "ethernet-1g:nodes=4", "model=resnet8", "mesh=data=2,pipe=2,tensor=1",
                       schedules[i][0], schedules[i][1]);
#endif
    }
}

/* Simulate the best plan of each schedule and mesh; the choice is within a tenth of the best. */
static void check_choice(const char *cluster)
{
    static const char *const schedules[] = { "pipeline=1f1b", "pipeline=gpipe",
                                             "pipeline=zero_bubble", "pipeline=interleaved" };
    static const char *const meshes[] = { "mesh=data=1,pipe=1", "mesh=data=4,pipe=1",
                                          "mesh=data=2,pipe=2", "mesh=data=1,pipe=2",
                                          "mesh=data=1,pipe=3", "mesh=data=1,pipe=4" };
    double best = INFINITY;

    for (size_t i = 0; i < sizeof meshes / sizeof *meshes; i++)
        for (size_t k = 0; k < sizeof schedules / sizeof *schedules; k++) {
            fast_plan_result *r = plan(cluster, SMALL, meshes[i], schedules[k], "top=2");

            for (int64_t n = 0; r && n < r->row_count; n++)
                best = fmin(best, r->rows[n].verified_s);
            fast_plan_free(r);
        }
    fast_plan_result *choice = plan(cluster, SMALL, "top=1", NULL, NULL);
    assert_non_null(choice);
    if (choice->rows[0].verified_s > 1.1 * best)
        fail_msg("%s: %s takes %g s, the best %g s", cluster, choice->rows[0].options,
                 choice->rows[0].verified_s, best);
    fast_plan_free(choice);
}

static void the_choice_is_near_the_best_of_all_schedules(void **state)
{
    (void)state;
    check_choice("ethernet-1g:nodes=4,bandwidth=300Mbit/s");
#ifndef FAST_SLOW
    check_choice("infiniband:nodes=4");
    check_choice("hetero:speed_jitter=0");
    check_choice("ethernet-1g:nodes=4,bandwidth=30Mbit/s,latency=1ms");
#endif
}

/* A plan is a run with named cuts: each place has a name, by which it is found again. */
static void cuts_are_found_again_by_their_names(void **state)
{
    static const char text[] = "input 1 28 28\nconv 4 kernel=5\nrelu\nmax_pool 2\nconv 8 kernel=5\n"
                               "relu\nmax_pool 2\ndense 32\nrelu\ndense 10\n";
    fast_graph *graph = NULL;
    fast_plan_space *space = NULL;

    (void)state;
    if (fast__graph_parse(text, &graph))
        fail_msg("%s", fast_error_detail());
    const fast_plan_job job = { .graph = graph,
                                .cluster = "infiniband:nodes=4",
                                .workers = 4,
                                .batch = 32,
                                .pipeline = "",
                                .strategy = "",
                                .layout = "",
                                .cuts = "" };
    assert_int_equal(fast__plan_space_open(&job, &space), FAST_OK);
    assert_int_equal(space->cut_count, 5); /* before conv2, dense1 and dense2, and both ends */
    for (int k = 1; k + 1 < space->cut_count; k++) {
        char name[FAST_SEGMENT_NAME_MAX];
        int ends[2];

        fast__split_cut_name(graph, space->cuts[k], name, sizeof name);
        assert_int_equal(fast__split_named(graph, name, 2, ends), FAST_OK);
        assert_int_equal(ends[0], space->cuts[k]);
    }
    fast__plan_space_close(space);
    fast__graph_free(graph);
}

/* Cuts that are named are those of the chunks, too. */
static void named_cuts_are_of_chunks(void **state)
{
    fast_plan_result *r = plan("infiniband:nodes=4", SMALL, "cuts=dense2,dense3,dense4",
                               "pipeline=interleaved", "mesh=data=1,pipe=2,tensor=1");

    (void)state;
    assert_non_null(r);
    assert_non_null(strstr(r->rows[0].options, "--cuts dense2,dense3,dense4"));
    assert_non_null(strstr(r->rows[0].options, "--pipeline interleaved --chunks 2"));
    assert_true(fabs(r->rows[0].verified_s / r->rows[0].step_s - 1) < 0.02);
    fast_plan_free(r);
}

static void schedules_that_cannot_be_are_refused(void **state)
{
    static const char *const wrong[][3] = {
        { "pipeline=magic", NULL, "no such schedule" },
        { "chunks=3", NULL, "give pipeline=interleaved too" },
        { "chunks=3", "pipeline=1f1b", "give pipeline=interleaved too" },
        { "chunks=1", "pipeline=interleaved", "two or more" },
        { "accumulate=4", "pipeline=pipedream", "take pipedream_2bw" },
        { "accumulate=2", "pipeline=interleaved", "pipeline=interleaved" },
        { "accumulate=1", "pipeline=pipedream_2bw", "pipeline=pipedream_2bw" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_null(plan("infiniband:nodes=4", SMALL, "mesh=data=1,pipe=4,tensor=1", wrong[i][0],
                         wrong[i][1]));
        if (!strstr(fast_error_detail(), wrong[i][2]))
            fail_msg("%s: %s", wrong[i][0], fast_error_detail());
    }
}

/* A mesh that is chosen has the schedule that is given, or the fastest. */
static void a_chosen_mesh_has_a_schedule(void **state)
{
    static const char *const given[][2] = { { "pipeline=1f1b", "1f1b" },
                                            { "pipeline=stale", "stale" },
                                            { "seed=1", "gpipe" } };

    (void)state;
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        const char *const options[] = { DATA,
                                        "model=mlp:hidden=512x512x512",
                                        "mesh=auto",
                                        "transport=sim",
                                        "cluster=ethernet-1g:nodes=2,bandwidth=300Mbit/s",
                                        "batch=32",
                                        "steps=3",
                                        "evaluate=no",
                                        "store=none",
                                        given[i][0],
                                        NULL };
        fast_run *run = NULL;

        if (fast_run_open(options, &run))
            fail_msg("%s: %s", given[i][0], fast_error_detail());
        assert_non_null(strstr(fast_run_option(run, "mesh"), "pipe=2"));
        assert_string_equal(fast_run_option(run, "pipeline"), given[i][1]);
        assert_int_equal(fast_run_train(run), FAST_OK);
        fast_run_close(run);
    }
}

/* Notes of a run. */
typedef struct notes {
    char text[1024]; /* all notes, a line each */
} notes;

static void take_notes(void *ctx, const fast_event *event)
{
    notes *n = ctx;
    const size_t used = strlen(n->text);

    if (event->kind == FAST_EVENT_NOTE)
        snprintf(n->text + used, sizeof n->text - used, "%s\n", event->text);
}

/* ampnet has no shards, also where the best mesh would have nothing else; a schedule that is given
 * in vain is named. */
static void schedules_of_auto_that_cannot_be(void **state)
{
    const char *const options[] = { DATA,
                                    "model=mlp:hidden=1024x1024",
                                    "mesh=auto",
                                    "transport=sim",
                                    "cluster=ethernet-10g:nodes=2",
                                    "batch=2",
                                    "steps=2",
                                    "evaluate=no",
                                    "store=none",
                                    "pipeline=ampnet",
                                    NULL };
    const char *const alone[] = {
        DATA,      "model=mlp:hidden=8", "mesh=auto",  "transport=sim",  "cluster=wan:nodes=2",
        "steps=2", "evaluate=no",        "store=none", "pipeline=gpipe", NULL
    };
    const char *const dream[] = { DATA,
                                  "model=mlp:hidden=none",
                                  "mesh=auto",
                                  "transport=sim",
                                  "cluster=hetero",
                                  "batch=24",
                                  "steps=2",
                                  "evaluate=no",
                                  "store=none",
                                  "pipeline=pipedream",
                                  NULL };
    const char *const plans[] = { DATA,        "model=mlp:hidden=8", "cluster=wan:nodes=2",
                                  "verify=no", "pipeline=gpipe",     NULL };
    fast_plan_result *result = NULL;
    fast_run *run = NULL;
    notes n = { "" };

    (void)state;
    if (fast_run_open(options, &run))
        fail_msg("%s", fast_error_detail());
    assert_null(strstr(fast_run_option(run, "mesh"), "tensor"));
    fast_run_close(run);
    if (fast_run_open(dream, &run)) /* updates after each batch: there is no micro-batch */
        fail_msg("%s", fast_error_detail());
    assert_string_equal(fast_run_option(run, "accumulate"), "1");
    fast_run_close(run);
    assert_int_equal(fast_run_open(alone, &run), FAST_OK);
    fast_run_watch(run, take_notes, &n);
    assert_int_equal(fast_run_train(run), FAST_OK);
    fast_run_close(run);
    if (!strstr(n.text, "it has one stage, so pipeline=gpipe has no effect"))
        fail_msg("%s", n.text);
    assert_int_equal(fast_plan_run(plans, NULL, NULL, &result), FAST_OK);
    if (!strstr(result->why, "It has one stage, so pipeline=gpipe has no effect."))
        fail_msg("%s", result->why);
    fast_plan_free(result);
}

/* The operations of both halves are those of divided programs. */
static void halves_are_those_of_engines(void **state)
{
    static test_graph g;

    (void)state;
    for (const fast_engine *const *engine = fast__engines; *engine; engine++)
        for (const test_network *network = test_networks; network->name; network++) {
            const fast_engine_options options = {
                .batch = 2, .train = true, .divide = true, .plan_path = ""
            };
            fast_program *program = NULL;
            double sum = 0;

            network->build(&g);
            assert_int_equal((*engine)->compile(&g.graph, &options, &program), FAST_OK);
            bool *needs = calloc((size_t)g.graph.node_count, sizeof *needs);
            fast__graph_needs(&g.graph, needs);
            for (int i = 1; i < g.graph.node_count; i++)
                sum += fast__split_weights(&g.graph, needs, i);
            /* A layer that nobody reads is in the graph, and not computed. */
            if (fabs(sum - program->flops_weights) > 1e-6 * sum &&
                strcmp(network->name, "branches") != 0)
                fail_msg("%s, engine %s: %g instead of %g operations", network->name,
                         (*engine)->name, sum, program->flops_weights);
            free(needs);
            (*engine)->program_free(program);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_stages_wait_as_long_as_closed_forms_say),
        cmocka_unit_test(the_search_takes_the_schedule_that_is_the_fastest),
        cmocka_unit_test(asynchronous_schedules_are_planned_by_name_alone),
        cmocka_unit_test(predictions_of_all_schedules_are_those_of_runs),
        cmocka_unit_test(the_choice_is_near_the_best_of_all_schedules),
        cmocka_unit_test(cuts_are_found_again_by_their_names),
        cmocka_unit_test(named_cuts_are_of_chunks),
        cmocka_unit_test(schedules_that_cannot_be_are_refused),
        cmocka_unit_test(a_chosen_mesh_has_a_schedule),
        cmocka_unit_test(schedules_of_auto_that_cannot_be),
        cmocka_unit_test(halves_are_those_of_engines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
