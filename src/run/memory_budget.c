/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a run: what it will take, and the options recompute and memory.
 *
 *   predicted peak = resident now, with the program, its libraries and the data
 *                  + parameters, gradients, optimizer state (and with several workers the run's own
 *                    model)
 *                  + a workspace of activations for each worker, and one for evaluations
 *                  + messages of sums, or the model that workers of a process share
 *                  + a few megabytes that threads, batches and the store take while it trains
 *
 * The prediction is made when the team is open: MPI is resident then.
 *
 * With memory=SIZE the network is compiled plainly first. Where that does not fit, what is left of
 * the budget is divided among the workspaces, and it is compiled again to recompute as little as
 * fits.
 *
 * With micro_batch a workspace is that of the micro-batches (micro_sizes.c), which are chosen
 * first, within the budget: so activations are recomputed only where no sizes fit. A vector more
 * for each workspace sums their gradients; it is counted in the program's memory.
 */
#include "run/memory_budget.h"

#include "base/memory.h"
#include "run/micro_sizes.h"
#include "run/team.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double MB = 1e6;

fast_err fast__memory_size(const char *text, int64_t *out)
{
    static const struct {
        const char *name; /* as it is typed */
        double bytes;     /* of one */
    } units[] = { { "", 1 },     { "kB", 1e3 },   { "KB", 1e3 },        { "MB", 1e6 },
                  { "GB", 1e9 }, { "KiB", 1024 }, { "MiB", 1048576.0 }, { "GiB", 1073741824.0 } };
    const size_t digits = strspn(text, "0123456789.");
    const double number = digits > 0 ? strtod(text, NULL) : -1;

    for (size_t i = 0; number > 0 && i < sizeof units / sizeof *units; i++)
        if (strcmp(text + digits, units[i].name) == 0 && number * units[i].bytes < 1e15) {
            *out = (int64_t)(number * units[i].bytes);
            return FAST_OK;
        }
    return fast__fail(FAST_EINVAL, "memory=%s: write a size like 500MB or 2GB", text);
}

fast_err fast__run_budget(const fast_run *run, int64_t *out)
{
    FAST_ASSERT(out != NULL);
    *out = 0;
    return run->config.memory[0] ? fast__memory_size(run->config.memory, out) : FAST_OK;
}

/* Workers of this process, as far as it is known before actors are placed. */
static int64_t workers_here(const fast_run_config *c)
{
    return strcmp(c->transport, "mpi") == 0 ? 1 : c->workers;
}

/* Rows of the sum of micro-batches besides g: log2 of their number. */
int64_t fast__run_sum_rows(int64_t micro_batches)
{
    int64_t rows = 0;

    FAST_ASSERT(micro_batches >= 1);
    while (((int64_t)1 << rows) < micro_batches)
        rows++;
    return rows;
}

/* The stage of strategy zero: vectors of which a worker has a part; 0 for other strategies. */
static int64_t zero_stage(const fast_run_config *c)
{
    const char *stage = strstr(c->strategy, "stage=");

    if (strncmp(c->strategy, "zero", 4) != 0 || (c->strategy[4] && c->strategy[4] != ':'))
        return 0;
    return stage ? strtoll(stage + strlen("stage="), NULL, 10) : 2;
}

/* Bytes of the vectors of the model and of the rule in this process. With zero w is whole at the
 * start and at the end, and the run's own model has no state of the rule. */
static int64_t vector_bytes(const fast_run *run)
{
    const fast_run_config *c = &run->config;
    const int64_t count = run->graph->params.count * (int64_t)sizeof(float);
    const int64_t slots = fast__run_slots(run);
    const int64_t worker = (2 + slots + fast__run_sum_rows(c->accumulate)) * count;
    if (c->workers == 1)
        return worker;
    /* Simulated workers have one copy of w and the rule's state. */
    if (strcmp(c->transport, "sim") == 0)
        return (1 + slots) * count + (1 + slots + c->workers) * count;
    const int64_t stage = zero_stage(c), parts = stage > 0 ? c->workers : 1;
    if (stage > 0)
        return count +
               workers_here(c) * (count + count / (stage > 1 ? parts : 1) + slots * count / parts +
                                  fast__run_sum_rows(c->accumulate) * count);
    return (1 + slots) * count + workers_here(c) * worker;
}

/* Workspaces that a pass has been or will be run in. */
static int64_t workspaces(const fast_run_config *c)
{
    const bool evaluates = strcmp(c->evaluate, "no") != 0;

    if (c->workers == 1)
        return 1;
    if (strcmp(c->transport, "sim") == 0)
        return 1 + c->pool + evaluates;
    return workers_here(c) + evaluates;
}

int64_t fast__run_later_bytes(const fast_run *run)
{
    const bool stored = strcmp(run->config.store, "none") != 0;

    return (stored ? 4 : 1) << 20; /* 3.2 MB and 0 to 0.5 MB were measured */
}

bool fast__run_evaluates(const fast_run *run)
{
    return strcmp(run->config.evaluate, "no") != 0;
}

int64_t fast__run_slots(const fast_run *run)
{
    int64_t slots = 0;

    while (fast__optimizer_slot(run->optimizer, (int)slots))
        slots++;
    return slots;
}

double fast__run_sum_bytes(const fast_run *run, int64_t replicas, int64_t count)
{
    const double workers = (double)replicas;
    const bool mpi = strcmp(run->config.transport, "mpi") == 0;

    FAST_ASSERT(workers >= 1);
    return mpi && strcmp(run->config.strategy, "allreduce") == 0
               ? 4 * (workers - 1) / workers * (double)count * sizeof(float)
               : 0;
}

/* The bytes that sums and gathers take besides in this process, where the model is whole. Over MPI
 * sums go along with the backward pass, so that their messages are reused: 11 to 14 MB were
 * measured for vectors of 3 to 26 MB. Workers of one process share a model and the rule's
 * vectors. */
static int64_t exchange_bytes(const fast_run *run)
{
    const fast_run_config *c = &run->config;
    const int64_t model = run->graph->params.count * (int64_t)sizeof(float);

    const bool mpi = strcmp(c->transport, "mpi") == 0;

    /* At the end the first process receives the slices of all others; about all but two are under
     * way at once, as was measured with 2 to 8. */
    if (mpi && zero_stage(c) == 3 && run->team->place.first)
        return model - 2 * model / c->workers;
    if (c->workers == 1 || strcmp(c->strategy, "allreduce") != 0 ||
        strcmp(c->transport, "sim") == 0)
        return 0;
    return mpi ? 12 << 20 : (1 + fast__run_slots(run)) * model;
}

/* Bytes resident without activations, with those that threads, batches and the store take later. */
static int64_t fixed_bytes(const fast_run *run)
{
    return fast__memory_resident() + fast__run_later_bytes(run) + vector_bytes(run);
}

/* Bytes of the budget that a workspace may take; 0 without a budget. */
static int64_t room_of(const fast_run *run, int64_t budget)
{
    const int64_t room = (budget - fixed_bytes(run)) / workspaces(&run->config);

    FAST_ASSERT(budget >= 0);
    return budget == 0 ? 0 : room > 0 ? room : 1;
}

/* Compile, in place of what was compiled before: whole batches, or micro-batches. */
static fast_err compile(fast_run *run, const fast_engine_options *options,
                        const fast_micro_plan *parts)
{
    if (run->program)
        run->program->engine->program_free(run->program);
    run->program = NULL;
    if (parts->part_count == 1)
        return run->engine->compile(run->graph, options, &run->program);
    return fast__micro_compile(run->engine, run->graph, options, parts->parts, parts->part_count,
                               &run->program);
}

/* Compile with less memory for a workspace. */
static fast_err compile_again(fast_run *run, int64_t budget, const fast_micro_plan *parts)
{
    const int64_t fixed = fixed_bytes(run), count = workspaces(&run->config);
    fast_engine_options options = fast__run_engine_options(run);

    options.recompute = true;
    options.memory = room_of(run, budget);
    FAST_TRY(compile(run, &options, parts));
    if (run->program->memory_least == 0)
        return FAST_OK;
    return fast__fail(
        FAST_EINVAL,
        "memory=%s is too small: at least %.0f MB are needed, of which %.0f MB are the program, "
        "the "
        "data, parameters, gradients and optimizer state, and the rest activations; take a smaller "
        "batch with accumulate, or a smaller model",
        run->config.memory, ceil((double)(fixed + count * run->program->memory_least) / MB),
        (double)fixed / MB);
}

/* Say what is recomputed. */
static void note(fast_run *run, int64_t plain)
{
    const fast_program *p = run->program;

    if (p->segments == 0)
        return;
    snprintf(run->text.memory_note, sizeof run->text.memory_note,
             "activations take %.1f MB instead of %.1f MB: %d segments, of which what is needed is "
             "computed twice, %.0f%% more operations",
             (double)p->memory / MB, (double)plain / MB, p->segments,
             100 * p->flops_again / (p->flops_train - p->flops_again));
}

/* Compile with micro-batches of the plan, whose memory is the caller's: plainly, by the rule of
 * recomputation, or, where a budget needs it, with as much recomputation as fits. */
static fast_err compile_parts(fast_run *run, fast_micro_plan *parts)
{
    const fast_engine_options options = fast__run_engine_options(run);
    const bool always = run->config.recompute == FAST_RUN_RECOMPUTE_YES;
    int64_t budget = 0, plain;

    FAST_TRY(fast__run_budget(run, &budget));
    if (budget > 0 && always)
        return fast__fail(FAST_EINVAL,
                          "recompute=yes and memory=%s: the size says how much is "
                          "recomputed; leave out one of them",
                          run->config.memory);
    if (run->config.mesh[0]) /* of each worker's part, which split_memory.c compiles */
        budget = 0;
    if (fast__run_has_micro(run) && zero_stage(&run->config) == 3)
        return fast__fail(FAST_EINVAL,
                          "micro_batch=%s and strategy=%s: stage 3 gathers parameters once for a "
                          "gradient; leave out micro_batch, or take stage 2",
                          run->config.micro_batch, run->config.strategy);
    FAST_TRY(fast__run_micro_parts(run, &options, room_of(run, budget), parts));
    FAST_TRY(compile(run, &options, parts));
    plain = run->program->memory;
    if (always) {
        fast_engine_options by_rule = options;

        by_rule.recompute = true;
        FAST_TRY(compile(run, &by_rule, parts));
    } else if (budget > 0 && fixed_bytes(run) + workspaces(&run->config) * plain > budget) {
        FAST_TRY(compile_again(run, budget, parts));
    }
    if (!run->config.mesh[0])
        note(run, plain);
    return FAST_OK;
}

/* The bytes of vectors that are resident already: the run's own w, and of a single worker all of
 * them where they are so small that they were written when they were made. */
static int64_t resident_vectors(const fast_run *run)
{
    const int64_t w = run->graph->params.count * (int64_t)sizeof(float);

    return run->config.workers == 1 && !fast__alloc_is_lazy(w) ? vector_bytes(run) : w;
}

void fast__run_predict_memory(fast_run *run)
{
    if (run->foreign || run->config.mesh[0])
        return;
    run->result.predicted_memory = fixed_bytes(run) - resident_vectors(run) + exchange_bytes(run) +
                                   workspaces(&run->config) * run->program->memory;
}

fast_err fast__run_compile(fast_run *run)
{
    fast_micro_plan *parts = NULL;

    FAST_ASSERT(run->program == NULL);
    FAST_TRY(fast__alloc("micro-batches", 1, sizeof *parts, &parts));
    const fast_err err = compile_parts(run, parts);
    fast__free(parts);
    return err;
}
