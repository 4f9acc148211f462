/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fast bench`: how fast is this machine?
 *
 * Alone it trains the canonical workload, lenet with batch 64, for a few hundred steps and prints
 * two numbers: samples per second, and the fraction of the step spent waiting for other workers,
 * which is 0 for one worker. `fast bench engine` measures training steps of whole models and their
 * layers beside what the core's multiply-adds allow.
 */
#include "json.h"
#include "tables.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One command line, read. */
typedef struct bench_line {
    char **options; /* "name=value", ends with NULL; one more fits in front */
    int count;      /* of them */
    bool json;
    bool engine; /* fast bench engine */
    bool model;  /* a model was named */
} bench_line;

static const char *bench_name_at(const void *ctx, int64_t i)
{
    (void)ctx;
    (void)i;
    return "engine";
}

static int set(void *ctx, const fast_option *option, const char *value)
{
    bench_line *line = ctx;
    size_t size;
    char *text;

    if (!option) {
        if (strcmp(value, "engine") != 0)
            return cli_fail(CLI_USAGE, "no bench \"%.60s\"; %s\"engine\"%s", value,
                            cli_nearest(value, bench_name_at, NULL, 1) ? "did you mean "
                                                                       : "there is ",
                            cli_nearest(value, bench_name_at, NULL, 1) ? "?" : "");
        line->engine = true;
        return CLI_DONE;
    }
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
    bool head; /* the head of the table was printed */
} bench_show;

static void show_measure(void *ctx, const fast_measure *measure)
{
    bench_show *show = ctx;
    cli_json json;

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

/* The models that the table shows where none is named. */
static int bench_engine(const bench_line *line)
{
    static const char *const models[] = { "model=mlp", "model=lenet", "model=resnet8" };
    bench_show show = { .json = line->json };

    if (line->model) {
        const fast_err err =
            fast_bench_engine((const char *const *)line->options, show_measure, &show);

        return err ? cli_fail_err(err) : CLI_DONE;
    }
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        const char **options = calloc((size_t)line->count + 2, sizeof *options);
        fast_err err;

        if (!options)
            return cli_fail(CLI_FAILED, "out of memory");
        options[0] = models[i];
        memcpy(options + 1, line->options, (size_t)line->count * sizeof *options);
        err = fast_bench_engine(options, show_measure, &show);
        free(options);
        if (err)
            return cli_fail_err(err);
    }
    return CLI_DONE;
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
    cli_json json;
    fast_err err;

    if (!options)
        return cli_fail(CLI_FAILED, "out of memory");
    memcpy(options, workload, sizeof workload);
    memcpy(options + COUNT, line->options, (size_t)line->count * sizeof *options);
    err = fast_run_open(options, &run);
    free(options);
    if (!err)
        err = fast_run_train(run);
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
    if (code == CLI_DONE)
        code = line.engine ? bench_engine(&line) : bench_canonical(&line);
    else if (code == CLI_HELPED)
        code = CLI_DONE;
    for (int i = 0; i < line.count; i++)
        free(line.options[i]);
    free(line.options);
    return code;
}
