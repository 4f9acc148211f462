/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a process that has parts of a split model: what it will take, and the options recompute
 * and memory.
 *
 *   predicted peak = resident now, with the program, its libraries and the data
 *                  + for each of its workers
 *                        w, g, the rule's vectors, and the sums of micro-batches' gradients
 *                        a workspace for each micro-batch in flight, in each section of its stages,
 *                        with older versions of the weights
 *                        activations between sections
 *                        messages: activations that came, one for each micro-batch in flight, and
 *                        one each of activations and gradients on the way; those of sums over
 *                        the replicas
 *                  + a few megabytes that threads, batches and the store take while it trains
 *                  + where all workers are in this process, for checkpoints the rule's vectors of
 *                    the run's own model, which is resident
 *                  + where the parts of other processes come together, a piece of each
 *                  + where it evaluates, a workspace of the whole model, and the largest layer of
 *                    it that is read from disk
 *
 * With memory=SIZE the sections are compiled plainly first. Where that does not fit, what is left
 * of the budget is divided among the workspaces in proportion to what each would take, and they are
 * compiled again to recompute as little as fits:
 *
 *     budget 100 MB, 40 MB besides workspaces of 80, 40 and 40 MB     30, 15 and 15 MB
 */
#include "base/memory.h"
#include "run/memory_budget.h"
#include "run/team.h"

#include <math.h>
#include <stdio.h>

/* How the sections of this process are compiled. */
typedef struct split_compile {
    fast_team *team;
    bool recompute; /* by the rule of sqrt(n), or to fit */
    double share;   /* of what a workspace takes plainly; 0: not to fit */
} split_compile;

/* Compile a section; `plain` is what a workspace of it takes plainly, where that is known. */
static fast_err compile_section(const split_compile *c, const fast_split_section *section,
                                fast_staged_section *out)
{
    const fast_run *run = c->team->run;
    fast_engine_options options = fast__run_engine_options(run);
    fast_program *program = NULL;

    options.recompute = c->recompute;
    options.divide = fast__pipe_divides((fast_pipeline)run->config.pipeline);
    options.flight = true;
    if (c->share > 0)
        options.memory = (int64_t)(c->share * (double)out->program->memory) + 1;
    FAST_TRY(run->engine->compile(&section->graph, &options, &program));
    if (out->program)
        run->engine->program_free((fast_program *)(uintptr_t)out->program);
    *out = (fast_staged_section){ .program = program,
                                  .rounds = section->rounds,
                                  .enter = section->enter,
                                  .leave = section->leave,
                                  .params_offset = section->params_offset,
                                  .state_offset = section->state_offset,
                                  .retained = section->retained,
                                  .first_row = section->first_row,
                                  .rows = section->rows,
                                  .divided = section->divided };
    return FAST_OK;
}

/* Compile the sections of a shard. */
static fast_err compile_shard(const split_compile *c, fast_team_shard *shared)
{
    const fast_split_shard *shard = shared->shard;

    if (!shared->sections)
        FAST_TRY(fast__alloc("sections", shard->section_count, sizeof *shared->sections,
                             &shared->sections));
    for (int64_t k = 0; k < shard->section_count; k++)
        FAST_TRY(compile_section(c, &shard->sections[k], &shared->sections[k]));
    return FAST_OK;
}

/* Compile the shards of this process's workers, each once. */
static fast_err compile_all(const split_compile *c)
{
    const fast_team *team = c->team;
    const int64_t parts = fast__split_parts(team);

    FAST_ASSERT(team->place.mine != NULL);
    for (int64_t p = 0; p < parts; p++) {
        bool mine = false;

        for (int64_t i = 0; i < team->workers; i++)
            mine = mine || (team->place.mine[i] && fast__split_part_of(team, i) == p);
        for (int64_t k = 0; mine && k < team->split.chunks; k++)
            FAST_TRY(compile_shard(c, fast__split_shard(team, fast__split_first(team, p), k)));
    }
    return FAST_OK;
}

/* The bytes of this process's workers. */
typedef struct split_bytes {
    double vectors;    /* parameters, gradients, the rule's, stashed weights */
    double workspaces; /* of activations */
    double least;      /* that workspaces can have */
    double between;    /* activations between sections and in messages */
} split_bytes;

/* Add a worker's stage: `flight` micro-batches are in it at once. */
static void add_chunk(const fast_team *team, const fast_pipe_place *place, int64_t worker,
                      int64_t chunk, split_bytes *out)
{
    const fast_team_shard *shared = fast__split_shard(team, worker, chunk);
    const double batch = (double)team->run->config.batch * sizeof(float);
    const double flight = (double)fast__pipe_chunk_flight(place, chunk);
    const int64_t stages = team->split.chunks * team->split.mesh.pipe;
    const int64_t stage = chunk * team->split.mesh.pipe + place->stage;

    FAST_ASSERT(shared->sections != NULL);
    for (int64_t k = 0; k < shared->shard->section_count; k++) {
        const fast_program *program = shared->sections[k].program;
        const fast_graph *graph = program->graph;
        const double in = batch * (double)graph->nodes[0].count;
        const double leaves = batch * (double)graph->nodes[graph->node_count - 1].count;
        const bool end = k == shared->shard->section_count - 1;

        for (int64_t i = 0; i < (int64_t)flight; i++) {
            const int64_t own = fast__split_section_bytes(team, worker, &shared->sections[k], i);

            out->workspaces += (double)own;
            out->least += (double)(program->memory_least > 0 ? program->memory_least : own);
        }
        /* Inputs: the batch's samples are copied, others have arrived in messages. */
        out->between += k == 0 ? flight * in + (stage > 0 ? 2 * in : 0) : 0;
        out->between += !end ? (flight + 1) * leaves : stage < stages - 1 ? 2 * leaves : 0;
    }
}

/* Versions of weights that a stage has besides the newest one (trainer/pipe_versions.c). */
static int64_t older_versions(const fast_run *run, const fast_pipe_place *place)
{
    enum { ESTIMATES = 3 }; /* the one before, the estimate, and perhaps the mean change */
    const int64_t late = fast__pipe_staleness(place);
    const bool stored =
        place->pipeline == FAST_PIPELINE_PIPEDREAM || place->pipeline == FAST_PIPELINE_2BW;
    const bool estimates = run->config.pipe_extrapolate != FAST_PIPE_EXTRAPOLATE_NO && late > 0;

    return stored ? late : estimates ? ESTIMATES : 0;
}

/* The bytes of a worker. */
static void add_worker(const fast_team *team, int64_t worker, split_bytes *out)
{
    const fast_run *run = team->run;
    const fast_team_part part = fast__split_part(team, fast__split_part_of(team, worker));
    const fast_pipe_place place = fast__split_pipe_place(team, worker);
    const int64_t vectors = 2 + fast__run_slots(run) + fast__run_sum_rows(place.micro_batches) +
                            older_versions(run, &place);

    out->vectors += (double)(vectors * part.params->count + part.state->count) * sizeof(float);
    out->between += fast__run_sum_bytes(run, fast__mesh_replicas(&team->split.mesh, place.stage),
                                        part.params->count);
    for (int64_t k = 0; k < team->split.chunks; k++)
        add_chunk(team, &place, worker, k, out);
}

static split_bytes bytes_of(const fast_team *team)
{
    split_bytes bytes = { 0 };

    FAST_ASSERT(fast__split_is(team));
    for (int64_t i = 0; i < team->workers; i++)
        if (team->place.mine[i])
            add_worker(team, i, &bytes);
    return bytes;
}

/* The bytes of the largest tensor: of a model on disk no more is in memory while it is
 * evaluated. */
static double largest_layer(const fast_run *run)
{
    const fast_layout *params = &run->learner->params;
    int64_t most = 0;

    for (int64_t i = 0; i < params->segment_count; i++)
        most = params->segments[i].count > most ? params->segments[i].count : most;
    return (double)most * sizeof(float);
}

/* Bytes of this process without those of its workers. */
static double bytes_besides(const fast_team *team)
{
    const fast_run *run = team->run;
    const double model = (double)run->learner->params.count * sizeof(float);
    const bool evaluates = fast__run_evaluates(run) && team->place.first;
    double bytes = (double)(fast__memory_resident() + fast__run_later_bytes(run)) +
                   fast__split_gather_bytes(team);

    if (team->place.alone && run->config.checkpoint[0])
        bytes += (double)fast__run_slots(run) * model;
    if (evaluates)
        bytes += (double)run->program->memory + (run->evaluation.file ? largest_layer(run) : 0);
    return bytes;
}

/* Say what is recomputed in this process. */
static void note(fast_run *run, double plain, double now)
{
    const double MB = 1e6;

    if (now < plain)
        snprintf(run->text.memory_note, sizeof run->text.memory_note,
                 "activations of this process's workers take %.1f MB instead of %.1f MB: segments "
                 "are computed twice",
                 now / MB, plain / MB);
}

/* Compile again, to fit a budget. */
static fast_err compile_to_fit(split_compile *c, double budget, double besides, split_bytes *bytes)
{
    const double room = budget - besides - bytes->vectors - bytes->between;
    const double MB = 1e6;

    if (besides + bytes->vectors + bytes->between + bytes->workspaces <= budget)
        return FAST_OK;
    if (fast__pipe_divides((fast_pipeline)c->team->run->config.pipeline))
        return fast__fail(
            FAST_EINVAL,
            "memory=%s is too small: %.0f MB are needed with pipeline=zero_bubble, "
            "which reads activations twice and cannot compute them again; take "
            "another pipeline, or a smaller batch",
            c->team->run->config.memory,
            ceil((besides + bytes->vectors + bytes->between + bytes->workspaces) / MB));
    c->recompute = true;
    c->share = room > 0 ? room / bytes->workspaces : 1e-9;
    FAST_TRY(compile_all(c));
    *bytes = bytes_of(c->team);
    if (besides + bytes->vectors + bytes->between + bytes->workspaces <= budget * 1.001)
        return FAST_OK;
    return fast__fail(FAST_EINVAL,
                      "memory=%s is too small: at least %.0f MB are needed, of which %.0f MB are "
                      "the program, the data, parameters, gradients, optimizer state and messages "
                      "of %lld worker%s, and the rest activations; take a smaller batch%s",
                      c->team->run->config.memory,
                      ceil((besides + bytes->vectors + bytes->between + bytes->least) / MB),
                      (besides + bytes->vectors + bytes->between) / MB,
                      (long long)c->team->place.here, c->team->place.here == 1 ? "" : "s",
                      !c->team->place.alone     ? ", or more workers"
                      : c->team->place.here > 1 ? ", or fewer workers in a process"
                                                : "");
}

fast_err fast__split_compile(fast_run *run)
{
    split_compile c = { .team = run->team };
    int64_t budget = 0;

    if (!fast__split_is(run->team))
        return FAST_OK;
    FAST_TRY(fast__run_budget(run, &budget));
    FAST_TRY(compile_all(&c));
    split_bytes bytes = bytes_of(run->team);
    const double plain = bytes.workspaces;
    if (run->config.recompute == FAST_RUN_RECOMPUTE_YES) {
        c.recompute = true;
        FAST_TRY(compile_all(&c));
        bytes = bytes_of(run->team);
    }
    const double besides = bytes_besides(run->team);
    if (budget > 0)
        FAST_TRY(compile_to_fit(&c, (double)budget, besides, &bytes));
    run->result.predicted_memory =
        (int64_t)(besides + bytes.vectors + bytes.between + bytes.workspaces);
    note(run, plain, bytes.workspaces);
    return FAST_OK;
}
