/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fast plan`: how to split a model over a cluster. Standard output has the best plans with their
 * predicted and simulated steps, what else was possible, why the best is the best, and the command
 * that trains with it; with --json an object for each plan and one for the result.
 *
 *     plan            workers  batch micro    step ms   in a run  waiting       MB
 *     data=2,pipe=2         4      8     4    106.211    106.208      42%     19.0
 *     instead of it
 *     data=2                2     16     2    123.406          -       0%     23.7
 *
 * "in a run" is the step of a short run of the plan, on the simulator or on threads; it is left out
 * with --verify no. "waiting" is the fraction of the time from the first pass of a step to the last
 * in which workers run none, "MB" the memory of the worker with most.
 *
 * With --json, times are in seconds, memory in bytes, and "options" has the plan as flags of
 * `fast train`:
 *
 *     {"kind": "plan", "mesh": "data=2,pipe=2", "options": "--mesh data=2,pipe=2 --cuts ...",
 *      "step_s": 0.106, "verified_s": 0.106, "bubble": 0.42, "memory": 18956360, ...}
 *     {"kind": "other", "mesh": "data=2", ...}
 *     {"kind": "result", "planner": "exhaustive", "offered": 9599, "why": "...", "command": "..."}
 *
 * Exit codes: 0 planned, 1 failed, 2 usage, 130 after Ctrl-C.
 */
#include "cli.h"
#include "cli_json.h"
#include "cli_page.h"
#include "cli_tables.h"
#include "progress.h"

#include <math.h>
#include <signal.h>
#include <string.h>

/* One command line, read, and what its search needs. */
typedef struct plan_line {
    cli_list options;               /* for the library */
    bool json;                      /* print objects */
    bool quiet;                     /* no progress */
    cli_bar bar;                    /* how far it is */
    volatile sig_atomic_t canceled; /* set by a signal */
} plan_line;

/* A signal: end the search, at its next sign of life. Nothing is printed then: plans that were
 * found so far need not be the best. */
static void cancel(void *object)
{
    ((plan_line *)object)->canceled = 1;
}

/* Take a flag: all but the command's own become options of the library, which divides them between
 * the planner and the runs; it refuses names and values that are wrong. */
static int set_flag(void *ctx, const fast_option *option, const char *value)
{
    plan_line *line = ctx;

    if (!option)
        return cli_fail(CLI_USAGE, "\"%s\" is not an option; options begin with --", value);
    if (strcmp(option->name, "json") == 0) {
        line->json = strcmp(value, "yes") == 0;
        return CLI_DONE;
    }
    if (strcmp(option->name, "quiet") == 0) {
        line->quiet = strcmp(value, "yes") == 0;
        return CLI_DONE;
    }
    return cli_list_add(&line->options, option->name, value);
}

/* Show how far it is: plans so far, whose number is not known before, then dry runs and short runs
 * out of as many as there will be. */
static bool on_progress(void *ctx, const char *what, int64_t done, int64_t count)
{
    plan_line *line = ctx;

    if (!line->quiet)
        cli_bar_show(&line->bar, what, done, count, NAN, "");
    return !line->canceled;
}

/* Print a plan as an object. `kind` says whether it is one of the best, or the best with one
 * dimension alone; a plan that was not run has no verified_s. */
static void put_row_json(const fast_plan_row *row, const char *kind)
{
    cli_json json;

    cli_json_begin(&json, stdout);
    cli_json_text(&json, "kind", kind);
    cli_json_text(&json, "mesh", row->mesh);
    cli_json_text(&json, "options", row->options);
    cli_json_text(&json, "pipeline", row->pipeline[0] ? row->pipeline : NULL);
    cli_json_int(&json, "chunks", row->chunks);
    cli_json_int(&json, "workers", row->workers);
    cli_json_int(&json, "batch", row->batch);
    cli_json_int(&json, "accumulate", row->accumulate);
    cli_json_real(&json, "step_s", row->step_s);
    cli_json_real(&json, "estimate_s", row->estimate_s);
    cli_json_real(&json, "compute_s", row->compute_s);
    cli_json_real(&json, "exchange_s", row->exchange_s);
    cli_json_real(&json, "bubble", row->bubble);
    cli_json_int(&json, "memory", row->memory);
    cli_json_int(&json, "fullest", row->fullest);
    cli_json_real(&json, "verified_s", row->verified_s);
    cli_json_int(&json, "verified_memory", row->verified_memory);
    cli_json_text(&json, "why", row->why);
    cli_json_end(&json);
}

/* Print all as objects: kind "plan" for each of the best, the best first; kind "other" for the best
 * with one dimension; kind "result" at the end. */
static void put_json(const fast_plan_result *r)
{
    cli_json json;

    for (int64_t i = 0; i < r->row_count; i++)
        put_row_json(&r->rows[i], "plan");
    for (int64_t i = 0; i < r->other_count; i++)
        put_row_json(&r->others[i], "other");
    cli_json_begin(&json, stdout);
    cli_json_text(&json, "kind", "result");
    cli_json_text(&json, "planner", r->planner);
    cli_json_text(&json, "model", r->model);
    cli_json_text(&json, "cluster", r->cluster);
    cli_json_int(&json, "params", r->params);
    cli_json_int(&json, "batch", r->batch);
    cli_json_int(&json, "nodes", r->nodes);
    cli_json_int(&json, "offered", r->offered);
    cli_json_int(&json, "dry_runs", r->dry_runs);
    cli_json_int(&json, "unfit", r->unfit);
    cli_json_text(&json, "unfit_mesh", r->unfit > 0 ? r->unfit_mesh : NULL);
    cli_json_real(&json, "unfit_s", r->unfit > 0 ? r->unfit_s : NAN);
    cli_json_int(&json, "unfit_memory", r->unfit_memory);
    cli_json_text(&json, "why", r->why);
    cli_json_text(&json, "command", r->command);
    cli_json_end(&json);
}

/* A number of milliseconds in a column; "-" for a plan that was not run: others than the best ones,
 * and all with --verify no. */
static void put_ms(double seconds)
{
    if (isfinite(seconds))
        printf(" %10.3f", 1e3 * seconds);
    else
        printf(" %10s", "-");
}

/* Print a plan as a line, in the columns of put_text(). */
static void put_row(const fast_plan_row *row, bool verified)
{
    char schedule[32];

    snprintf(schedule, sizeof schedule, row->chunks > 1 ? "%s %lld" : "%s",
             row->pipeline[0] ? row->pipeline : "-", (long long)row->chunks);
    printf("%-24s %-13s %8lld %6lld %5lld", row->mesh, schedule, (long long)row->workers,
           (long long)row->batch, (long long)row->accumulate);
    put_ms(row->step_s);
    if (verified)
        put_ms(row->verified_s);
    printf(" %7.0f%% %8.1f\n", 100 * row->bubble, (double)row->memory * 1e-6);
}

/* Print the plans, what else was possible, and why: a line of the job, one of the search, the
 * table, the explanation as wide as the terminal, and the command to copy. */
static void put_text(const fast_plan_result *r)
{
    const bool verified = isfinite(r->rows[0].verified_s);
    char params[32], offered[32];
    cli_page page;

    cli_page_init(&page, stdout);
    cli_group_digits(r->params, params);
    cli_group_digits(r->offered, offered);
    printf("%s (%s parameters), %lld samples a step, up to %lld worker%s%s%s\n", r->model, params,
           (long long)r->batch, (long long)r->nodes, r->nodes == 1 ? "" : "s",
           r->cluster[0] ? " on " : "", r->cluster);
    printf("%s search: %s plans, %lld dry runs\n\n", r->planner, offered, (long long)r->dry_runs);
    printf("%-24s %-13s %8s %6s %5s %10s%s%s %8s %8s\n", "plan", "schedule", "workers", "batch",
           "micro", "step ms", verified ? " " : "", verified ? "in a run" : "", "waiting", "MB");
    for (int64_t i = 0; i < r->row_count; i++)
        put_row(&r->rows[i], verified);
    if (r->other_count > 0)
        puts("instead of it");
    for (int64_t i = 0; i < r->other_count; i++)
        put_row(&r->others[i], verified);
    fputc('\n', stdout);
    cli_page_text(&page, 0, r->why);
    printf("\ntrain with it: %s\n", r->command);
}

int cli_plan(int argc, char **argv)
{
    plan_line line = { .json = false };
    fast_plan_result *result = NULL;
    int code = cli_flags_read(cli_command_find("plan"), argc, argv, set_flag, &line);

    if (code == CLI_DONE) {
        cli_bar_init(&line.bar, stderr);
        cli_on_interrupt(cancel, &line);
        const fast_err err =
            fast_plan_run((const char *const *)line.options.items, on_progress, &line, &result);
        cli_on_interrupt(NULL, NULL);
        cli_bar_clear(&line.bar);
        if (err == FAST_ECANCELED)
            code = cli_fail(CLI_CANCELED, "interrupted: %s", fast_error_detail());
        else if (err)
            code = cli_fail_err(err);
        else if (line.json)
            put_json(result);
        else
            put_text(result);
    }
    fast_plan_free(result);
    cli_list_free(&line.options);
    return code == CLI_HELPED ? CLI_DONE : code;
}
