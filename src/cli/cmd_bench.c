/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fast bench`: how fast is this machine?
 *
 * Alone it trains the canonical workload, lenet with batch 64, for a few hundred steps and prints
 * two numbers: samples per second, and the fraction of the step spent waiting for other workers,
 * which is 0 for one worker. `fast bench engine` measures training steps of whole models and their
 * layers beside what the core's multiply-adds allow; `fast bench sim` counts the events a second of
 * the simulator; `fast bench allreduce` and `fast bench codec` are in files of their own.
 */
#include "busy.h"
#include "cli_json.h"
#include "cli_tables.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One command line, read. */
typedef struct bench_line {
    char **options; /* "name=value", ends with NULL; one more fits in front */
    int count;      /* number of options */
    bool json;
    const char *kind; /* fast bench KIND; NULL: the canonical workload */
    bool model;       /* a model was named */
} bench_line;

static const char *const kinds[] = { "engine", "allreduce", "codec", "sim" };
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static const char *bench_name_at(const void *ctx, int64_t i)
{
    (void)ctx;
    return kinds[i];
}

/* The kind of that name, or a usage error that names the nearest, or all. */
static int set_kind(bench_line *line, const char *name)
{
    const char *nearest = cli_nearest(name, bench_name_at, NULL, KINDS);

    for (int i = 0; i < KINDS; i++)
        if (strcmp(name, kinds[i]) == 0) {
            line->kind = kinds[i];
            return CLI_DONE;
        }
    if (nearest)
        return cli_fail(CLI_USAGE, "no bench \"%.60s\"; did you mean \"%s\"?", name, nearest);
    return cli_fail(CLI_USAGE, "no bench \"%.60s\"; there are engine, allreduce, codec and sim",
                    name);
}

static int set(void *ctx, const fast_option *option, const char *value)
{
    bench_line *line = ctx;
    size_t size;
    char *text;

    if (!option)
        return set_kind(line, value);
    if (strcmp(option->name, "json") == 0) {
        line->json = strcmp(value, "no") != 0;
        return CLI_DONE;
    }
    size = strlen(option->name) + strlen(value) + 2;
    text = malloc(size);
    if (!text)
        return cli_fail(CLI_FAILED, "out of memory");
    snprintf(text, size, "%s=%s", option->name, value);
    line->options[line->count++] = text;
    line->model |= strcmp(option->name, "model") == 0;
    return CLI_DONE;
}

/* How measurements are shown. */
typedef struct bench_show {
    bool json;
    bool head;     /* the head of the table was printed */
    cli_busy busy; /* a sign of life between two rows */
} bench_show;

static void show_measure(void *ctx, const fast_measure *measure)
{
    bench_show *show = ctx;
    cli_json json;

    cli_busy_clear(&show->busy);
    if (!show->json) {
        if (!show->head)
            printf("%-12s %-16s %-36s %12s %10s %8s\n", "model", "layer", "method", "samples/s",
                   "GFLOP/s", "of bound");
        show->head = true;
        printf("%-12s %-16s %-36s %12.0f %10.1f %7.0f%%\n", measure->model,
               measure->layer ? measure->layer : "(all)", measure->method ? measure->method : "",
               measure->samples_per_s, measure->gflops, 100 * measure->bound_fraction);
    } else {
        cli_json_begin(&json, stdout);
        cli_json_text(&json, "model", measure->model);
        cli_json_text(&json, "layer", measure->layer);
        cli_json_text(&json, "method", measure->method);
        cli_json_real(&json, "samples_per_s", measure->samples_per_s);
        cli_json_real(&json, "gflops", measure->gflops);
        cli_json_real(&json, "bound_fraction", measure->bound_fraction);
        cli_json_end(&json);
    }
    fflush(stdout);
}

static void show_sim(void *ctx, const fast_sim_measure *measure)
{
    bench_show *show = ctx;
    cli_json json;

    cli_busy_clear(&show->busy);
    if (!show->json) {
        if (!show->head)
            printf("%-12s %8s %12s %14s %10s %14s\n", "program", "actors", "events", "events/s",
                   "seconds", "virtual ms");
        show->head = true;
        printf("%-12s %8lld %12lld %14.0f %10.3f %14.3f\n", measure->program,
               (long long)measure->actors, (long long)measure->events, measure->events_per_s,
               measure->time_s, 1e3 * measure->virtual_time_s);
    } else {
        cli_json_begin(&json, stdout);
        cli_json_text(&json, "program", measure->program);
        cli_json_int(&json, "actors", measure->actors);
        cli_json_int(&json, "events", measure->events);
        cli_json_real(&json, "events_per_s", measure->events_per_s);
        cli_json_real(&json, "time_s", measure->time_s);
        cli_json_real(&json, "virtual_time_s", measure->virtual_time_s);
        cli_json_end(&json);
    }
    fflush(stdout);
}

static int bench_sim(const bench_line *line)
{
    bench_show show = { .json = line->json };
    fast_err err;

    cli_busy_begin(&show.busy, stderr, "measuring the simulator", 15);
    err = fast_bench_sim((const char *const *)line->options, show_sim, &show);
    cli_busy_end(&show.busy);
    return err ? cli_fail_err(err) : CLI_DONE;
}

/* The models that the table shows where none is named. */
static fast_err bench_models(const bench_line *line, bench_show *show)
{
    static const char *const models[] = { "model=mlp", "model=lenet", "model=resnet8" };
    const char **options = calloc((size_t)line->count + 2, sizeof *options);
    fast_err err = options ? FAST_OK : FAST_ENOMEM;

    for (size_t i = 0; !err && i < sizeof models / sizeof models[0]; i++) {
        options[0] = models[i];
        memcpy(options + 1, line->options, (size_t)line->count * sizeof *options);
        err = fast_bench_engine(options, show_measure, show);
    }
    free(options);
    return err;
}

static int bench_engine(const bench_line *line)
{
    bench_show show = { .json = line->json };
    fast_err err;

    cli_busy_begin(&show.busy, stderr, "measuring models and their layers", line->model ? 0 : 5);
    err = line->model ? fast_bench_engine((const char *const *)line->options, show_measure, &show)
                      : bench_models(line, &show);
    cli_busy_end(&show.busy);
    return err ? cli_fail_err(err) : CLI_DONE;
}

/* The canonical workload; what the user gives comes after it and wins. */
static int bench_canonical(const bench_line *line)
{
    static const char *const workload[] = { "model=lenet", "batch=64", "steps=300", "evaluate=no" };
    enum { COUNT = sizeof workload / sizeof workload[0] };
    const char **options = calloc((size_t)line->count + COUNT + 1, sizeof *options);
    const double wait_fraction = 0; /* one worker waits for nobody */
    const fast_result *result;
    fast_run *run = NULL;
    cli_busy busy;
    cli_json json;
    fast_err err;

    if (!options)
        return cli_fail(CLI_FAILED, "out of memory");
    cli_busy_begin(&busy, stderr, "training a few hundred steps", 5);
    memcpy(options, workload, sizeof workload);
    memcpy(options + COUNT, line->options, (size_t)line->count * sizeof *options);
    err = fast_run_open(options, &run);
    free(options);
    if (!err)
        err = fast_run_train(run);
    cli_busy_end(&busy);
    if (err) {
        const int code = cli_fail_err(err);

        fast_run_close(run);
        return code;
    }
    result = fast_run_result(run);
    if (line->json) {
        cli_json_begin(&json, stdout);
        cli_json_text(&json, "model", fast_run_option(run, "model"));
        cli_json_text(&json, "data", fast_run_option(run, "data"));
        cli_json_int(&json, "batch", strtoll(fast_run_option(run, "batch"), NULL, 10));
        cli_json_real(&json, "samples_per_s", result->samples_per_s);
        cli_json_real(&json, "wait_fraction", wait_fraction);
        cli_json_end(&json);
    } else {
        printf("%.0f samples/s, %.0f%% of the step spent waiting (%s, batch %s, %s)\n",
               result->samples_per_s, 100 * wait_fraction, fast_run_option(run, "model"),
               fast_run_option(run, "batch"), fast_run_option(run, "data"));
    }
    fast_run_close(run);
    return CLI_DONE;
}

int cli_bench(int argc, char **argv)
{
    bench_line line = { .options = calloc((size_t)argc + 1, sizeof *line.options) };
    int code;

    if (!line.options)
        return cli_fail(CLI_FAILED, "out of memory");
    code = cli_flags_read(cli_command_find("bench"), argc, argv, set, &line);
    if (code == CLI_DONE && !line.kind)
        code = bench_canonical(&line);
    else if (code == CLI_DONE && strcmp(line.kind, "allreduce") == 0)
        code = cli_bench_allreduce((const char *const *)line.options, line.json);
    else if (code == CLI_DONE && strcmp(line.kind, "codec") == 0)
        code = cli_bench_codec((const char *const *)line.options, line.json);
    else if (code == CLI_DONE)
        code = strcmp(line.kind, "sim") == 0 ? bench_sim(&line) : bench_engine(&line);
    else if (code == CLI_HELPED)
        code = CLI_DONE;
    for (int i = 0; i < line.count; i++)
        free(line.options[i]);
    free(line.options);
    return code;
}
