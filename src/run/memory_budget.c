/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a run: what it will take, and the options recompute and memory.
 *
 *   predicted peak = resident now, with the program, its libraries and the data
 *                  + parameters, gradients, optimizer state (and with several workers the run's own
 *                    model)
 *                  + a workspace of activations for each worker, and one for evaluations
 *                  + a few megabytes that threads, batches and the store take while it trains
 *
 * With memory=SIZE the network is compiled plainly first. Where that does not fit, what is left of
 * the budget is divided among the workspaces, and it is compiled again to recompute as little as
 * fits.
 */
#include "run/memory_budget.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double MB = 1e6;

/* Bytes of "500MB": a number with kB, MB, GB or nothing behind it. */
static fast_err parse_size(const char *text, int64_t *out)
{
    static const struct {
        const char *name; /* as it is typed */
        double bytes;     /* of one */
    } units[] = { { "", 1 }, { "kB", 1e3 }, { "KB", 1e3 }, { "MB", 1e6 }, { "GB", 1e9 } };
    const size_t digits = strspn(text, "0123456789.");
    const double number = digits > 0 ? strtod(text, NULL) : -1;

    for (size_t i = 0; number > 0 && i < sizeof units / sizeof *units; i++)
        if (strcmp(text + digits, units[i].name) == 0 && number * units[i].bytes < 1e15) {
            *out = (int64_t)(number * units[i].bytes);
            return FAST_OK;
        }
    return fast__fail(FAST_EINVAL, "memory=%s: write a size like 500MB or 2GB", text);
}

/* Workers of this process, as far as it is known before actors are placed. */
static int64_t workers_here(const fast_run_config *c)
{
    return strcmp(c->transport, "mpi") == 0 ? 1 : c->workers;
}

/* Rows of the sum of micro-batches besides g: log2 of their number. */
static int64_t sum_rows(const fast_run_config *c)
{
    int64_t rows = 0;

    while (((int64_t)1 << rows) < c->accumulate)
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
    int64_t slots = 0;

    while (fast__optimizer_slot(run->optimizer, (int)slots))
        slots++;
    const int64_t worker = (2 + slots + sum_rows(c)) * count;
    if (c->workers == 1)
        return worker;
    /* Simulated workers have one copy of w and the rule's state. */
    if (strcmp(c->transport, "sim") == 0)
        return (1 + slots) * count + (1 + slots + c->workers) * count;
    const int64_t stage = zero_stage(c), parts = stage > 0 ? c->workers : 1;
    if (stage > 0)
        return count + workers_here(c) * (count + count / (stage > 1 ? parts : 1) +
                                          slots * count / parts + sum_rows(c) * count);
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

/* Bytes resident without activations, with those that threads, batches and the store take later. */
static int64_t fixed_bytes(const fast_run *run)
{
    const bool stored = strcmp(run->config.store, "none") != 0;
    const int64_t later = (stored ? 4 : 1) << 20; /* 3.2 MB and 0 to 0.5 MB were measured */

    return fast__memory_resident() + later + vector_bytes(run);
}

/* Compile with less memory for a workspace. */
static fast_err compile_again(fast_run *run, int64_t budget)
{
    const int64_t fixed = fixed_bytes(run), count = workspaces(&run->config);
    const int64_t room = (budget - fixed) / count;
    fast_engine_options options = fast__run_engine_options(run);

    options.recompute = true;
    options.memory = room > 0 ? room : 1;
    run->engine->program_free(run->program);
    run->program = NULL;
    FAST_TRY(run->engine->compile(run->graph, &options, &run->program));
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

fast_err fast__run_compile(fast_run *run)
{
    const fast_engine_options options = fast__run_engine_options(run);
    const bool always = run->config.recompute == FAST_RUN_RECOMPUTE_YES;
    int64_t budget = 0, plain;

    if (run->config.memory[0])
        FAST_TRY(parse_size(run->config.memory, &budget));
    if (budget > 0 && always)
        return fast__fail(FAST_EINVAL,
                          "recompute=yes and memory=%s: the size says how much is "
                          "recomputed; leave out one of them",
                          run->config.memory);
    FAST_TRY(run->engine->compile(run->graph, &options, &run->program));
    plain = run->program->memory;
    if (always) {
        fast_engine_options by_rule = options;

        by_rule.recompute = true;
        run->engine->program_free(run->program);
        run->program = NULL;
        FAST_TRY(run->engine->compile(run->graph, &by_rule, &run->program));
    } else if (budget > 0 && fixed_bytes(run) + workspaces(&run->config) * plain > budget) {
        FAST_TRY(compile_again(run, budget));
    }
    run->result.predicted_memory =
        fixed_bytes(run) + workspaces(&run->config) * run->program->memory;
    note(run, plain);
    return FAST_OK;
}
