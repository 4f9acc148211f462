/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --mesh auto: the split of the model with the shortest step, by estimates and dry runs of plans
 * (split/planner.h); nothing is trained before. It is chosen when the network is known, before the
 * parts of the run that depend on workers and batches are made:
 *
 *     samples of a step   global_batch, else batch * accumulate * workers: those of the same
 *                         options without a mesh
 *     workers             as many as are given; without workers=N as many as pay, of the nodes of
 *                         the simulated cluster, or the cores of this machine
 *     links               the simulated cluster's; memory between threads; 10 Gbit/s Ethernet
 *                         between ranks of mpi
 *     memory              memory=SIZE less what the process takes already; workers of one process
 *                         share it. Estimates are rough: if no plan fits, or the one that is chosen
 *                         does not fit when it is compiled, there is one worker; of given workers
 *                         the fastest plan is taken, and refused if it does not fit
 *     what is given       cuts, layout, pipeline, chunks and strategy stay; the schedule that is
 *                         not given, micro-batches and the nodes of simulated workers are chosen:
 *                         batch, accumulate and placement follow
 *
 * On a machine a pass computes whole lanes of samples, which plans take into account.
 */
#include "base/memory.h"
#include "base/thread.h"
#include "run/memory_budget.h"
#include "run/run.h"
#include "split/planner.h"

#include <stdio.h>
#include <string.h>

enum { DRY_RUNS = 16, LANES = 16, OPTIONS_SIZE = 2048 };

/* Workspaces of typical networks. */
static const fast_plan_rooms ROOMS = { { 0.8, 4 }, { 1.5, 4 }, { 2, 6 } };

bool fast__mesh_is_auto(const fast_run_config *config)
{
    return strcmp(config->mesh, "auto") == 0;
}

/* Write the cluster that stands for where the run is. */
static void name_cluster(const fast_run_config *c, char *text, size_t size)
{
    if (strcmp(c->transport, "sim") == 0)
        snprintf(text, size, "%s", c->cluster);
    else if (strcmp(c->transport, "mpi") == 0)
        snprintf(text, size, "ethernet-10g:nodes=%lld", (long long)c->workers);
    else
        snprintf(text, size, "laptop:cores=%lld", (long long)fast__cpu_count());
}

/* Write the name of the schedule that is given; "" for any. */
static void name_pipeline(const fast_run_config *c, char text[FAST_PIPELINE_NAME_MAX])
{
    text[0] = '\0';
    if (c->pipeline_given)
        fast__pipe_name((fast_pipeline)c->pipeline, text);
}

/* Make the job of a run. The texts are the caller's. */
static fast_plan_job job_of(const fast_run *run, const char *cluster, const char *pipeline)
{
    const fast_run_config *c = &run->config;
    const bool sim = strcmp(c->transport, "sim") == 0, cpu = strcmp(run->engine->name, "cpu") == 0;
    const bool recomputes = c->recompute == FAST_RUN_RECOMPUTE_YES;
    const bool coded = strcmp(c->codec, "none") != 0 || strcmp(c->codec_down, "none") != 0;
    fast_plan_job job = { .graph = run->graph,
                          .cluster = cluster,
                          .workers = c->workers_given ? c->workers : 0,
                          .all_workers = c->workers_given,
                          .batch = c->global_batch > 0 ? c->global_batch
                                                       : c->batch * c->accumulate * c->workers,
                          .lanes = cpu ? LANES : 1,
                          .granule = cpu && !sim ? LANES : 1,
                          .rooms = ROOMS,
                          .pipeline = pipeline,
                          .chunks = c->chunks,
                          .delay = c->pipe_delay,
                          .active = c->pipe_active,
                          .vertical = c->vertical_sync,
                          .strategy = strcmp(c->strategy, "auto") == 0 ? "" : c->strategy,
                          .layout = c->layout,
                          .cuts = c->cuts,
                          .recompute = c->recompute == FAST_RUN_RECOMPUTE_NO,
                          .recomputes = recomputes,
                          .undivided = recomputes || (c->memory[0] && !c->pipeline_given),
                          .seed = c->seed };

    if (coded && !c->layout[0]) /* shards take no lossy codec */
        job.mesh.tensor = 1;
    return job;
}

/* Set the memory that workers may take, if the run has a budget: without the run's own model, and a
 * fifth for messages and what else estimates do not have. */
static fast_err set_memory(const fast_run *run, fast_plan_job *job)
{
    int64_t budget = 0;

    FAST_TRY(fast__run_budget(run, &budget));
    if (budget == 0)
        return FAST_OK;
    const int64_t model = run->graph->params.count * (int64_t)sizeof(float);
    const int64_t left = budget - fast__memory_resident() - fast__run_later_bytes(run) -
                         model * (run->config.checkpoint[0] ? 1 + job->slots : 1);
    job->memory = left > 0 ? left - left / 5 : 1;
    job->shared_memory = strcmp(run->config.transport, "mpi") != 0;
    return FAST_OK;
}

/* Set an option of the run, unless it was given. */
static fast_err set_option(fast_run_config *c, const char *option)
{
    const size_t length = strcspn(option, "=");
    char name[64];

    snprintf(name, sizeof name, "%.*s", (int)length, option);
    return fast__options_set("train", fast__run_options, c, name, option + length + 1);
}

/* Say what was chosen, and what other meshes would take. */
static void note(fast_run *run, const fast_planning *planning, const char *pipeline)
{
    const fast_planned *best = &planning->plans[0], *other = NULL;
    char schedule[FAST_PIPELINE_NAME_MAX] = "", instead[96] = "", idle[96] = "";

    if (best->plan.mesh.pipe > 1)
        fast__pipe_name(best->plan.way.pipeline, schedule);
    for (int64_t i = 1; i < planning->count && !other; i++) {
        const fast_mesh *a = &planning->plans[i].plan.mesh, *b = &best->plan.mesh;

        if (a->data != b->data || a->pipe != b->pipe || a->tensor != b->tensor)
            other = &planning->plans[i];
    }
    if (other)
        snprintf(instead, sizeof instead, ", %.3g ms with data=%lld,pipe=%lld,tensor=%lld",
                 1e3 * other->cost.step_s, (long long)other->plan.mesh.data,
                 (long long)other->plan.mesh.pipe, (long long)other->plan.mesh.tensor);
    if (pipeline[0] && best->plan.mesh.pipe == 1)
        snprintf(idle, sizeof idle, "; it has one stage, so pipeline=%s has no effect", pipeline);
    snprintf(run->text.mesh_note, sizeof run->text.mesh_note,
             "mesh auto: %s%s%s, batch %lld, accumulate %lld, the best of %lld plans: %.3g ms a "
             "step predicted%s%s",
             run->config.mesh, schedule[0] ? ", " : "", schedule, (long long)run->config.batch,
             (long long)run->config.accumulate, (long long)planning->offered,
             1e3 * best->cost.step_s, instead, idle);
}

/* Make the best plan's options the run's. */
static fast_err take(fast_run *run, fast_plan_space *space, const fast_planning *planning)
{
    fast_run_config *c = &run->config;
    const bool sim = strcmp(c->transport, "sim") == 0;
    char options[OPTIONS_SIZE], pipeline[FAST_PIPELINE_NAME_MAX];

    name_pipeline(c, pipeline); /* as it was given: options of the plan follow */
    if (fast__plan_options(space, &planning->plans[0].plan, options, sizeof options) >
        sizeof options)
        return fast__fail(FAST_EINVAL, "mesh=auto: the plan of %lld workers is too long",
                          (long long)space->node_count);
    c->workers_given = false;
    c->global_batch = 0;
    if (planning->plans[0].plan.mesh.pipe == 1 && c->pipeline == FAST_PIPELINE_INTERLEAVED) {
        c->pipeline = FAST_PIPELINE_1F1B; /* one stage has no chunks */
        c->chunks = 0;
    }
    for (const char *o = options; *o; o += strlen(o) + 1)
        if ((sim || strncmp(o, "placement=", 10) != 0) &&
            (!c->memory[0] || strncmp(o, "recompute=", 10) != 0)) /* as much as memory needs */
            FAST_TRY(set_option(c, o));
    FAST_TRY(fast__config_mesh(c));
    note(run, planning, pipeline);
    return FAST_OK;
}

/* Search the plans of a job, and make the best one the run's. */
static fast_err choose(fast_run *run, const fast_plan_job *job)
{
    const fast_planning_options options = { .planner = "", .dry_runs = DRY_RUNS };
    fast_plan_space *space = NULL;
    fast_planning planning = { .count = 0 };

    FAST_TRY(fast__plan_space_open(job, &space));
    fast_err err = fast__plan_search(space, &options, &planning);
    if (!err)
        err = take(run, space, &planning);
    fast__planning_fini(&planning);
    fast__plan_space_close(space);
    return err;
}

fast_err fast__run_mesh_auto(fast_run *run)
{
    char cluster[FAST_PATH_MAX], pipeline[FAST_PIPELINE_NAME_MAX];

    if (!fast__mesh_is_auto(&run->config))
        return FAST_OK;
    if (run->foreign)
        return fast__fail(FAST_EINVAL,
                          "mesh=auto splits a network, and learner %s has none; leave "
                          "out mesh",
                          run->foreign->name);
    if (run->config.placement[0])
        return fast__fail(FAST_EINVAL,
                          "placement=%.100s: mesh=auto chooses the nodes; leave out "
                          "one of them",
                          run->config.placement);
    name_cluster(&run->config, cluster, sizeof cluster);
    name_pipeline(&run->config, pipeline);
    fast_plan_job job = job_of(run, cluster, pipeline);
    fast_optimizer *optimizer = NULL;
    FAST_TRY(
        fast__optimizer_new(&fast__host, run->config.optimizer, &run->graph->params, &optimizer));
    fast__plan_job_rule(&job, optimizer);
    fast__optimizer_free(optimizer);
    FAST_TRY(set_memory(run, &job));
    const bool shared = job.shared_memory && !job.all_workers && !job.cuts[0];
    fast_err err = run->progress.single_only ? FAST_EINVAL : choose(run, &job);
    if (err == FAST_EINVAL && job.memory > 0) {
        job.memory = 0;
        if (shared)
            job.mesh = (fast_mesh){ .data = 1, .pipe = 1, .tensor = 1 };
        err = choose(run, &job);
    }
    run->progress.budgeted =
        !err && shared && !run->progress.single_only && run->config.workers > 1;
    return err;
}
