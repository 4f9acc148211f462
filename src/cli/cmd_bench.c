/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fast bench`: how fast is this machine?
 *
 * Alone it trains the canonical workload, lenet with batch 64, for a few hundred steps and prints
 * two numbers: samples per second, and the fraction of the step spent waiting for other workers,
 * which is 0 for one worker.
 *
 *   engine      training steps of whole models and their layers, beside the core's multiply-adds
 *   forecast    models of their time beside measurements
 *   allreduce   sums over workers, by algorithm and length
 *   pipeline    schedules of a split model: step time, bubble, activations, staleness, memory
 *   codec       encodings: how small, how fast, how wrong
 *   sim         events a second of the simulator
 *   cluster     nodes and links, printed as a file for --cluster
 *
 *   14090 samples/s, 0% of the step spent waiting (lenet, batch 64, fashion-mnist)
 *
 * Rows go to standard output as they are measured, under a head that the first row prints; with
 * --json each row is one object with the same values, and no head. Standard error has a sign of
 * life on a terminal and errors. Columns have fixed widths, names on the left and numbers on the
 * right; none is dropped, so a narrow terminal wraps rows. Exit codes: 0 measured, 1 failed, 2
 * usage. Ctrl-C ends the program at once; rows that were printed stay.
 */
#include "busy.h"
#include "cli_json.h"
#include "cli_tables.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One command line, read. */
typedef struct bench_line {
    cli_list options;  /* for the library */
    bool json;         /* print objects */
    const char *kind;  /* fast bench KIND; NULL: the canonical workload */
    bool model;        /* a model was named */
    bool workers;      /* a number of workers was given */
    bool transport;    /* a transport was given */
    const char *hosts; /* cluster: start mpirun on these; NULL: not given */
} bench_line;

/* Benchmarks by name: fast bench KIND. */
static const char *const kinds[] = { "engine", "forecast", "allreduce", "pipeline",
                                     "codec",  "sim",      "cluster" };
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* Names of benchmarks, for fast_text_nearest(). */
static const char *bench_name_at(const void *ctx, int64_t i)
{
    (void)ctx;
    return kinds[i];
}

/* The kind of that name, or a usage error that names the nearest, or all. */
static int set_kind(bench_line *line, const char *name)
{
    const char *nearest = fast_text_nearest(name, bench_name_at, NULL, KINDS);

    for (int i = 0; i < KINDS; i++)
        if (strcmp(name, kinds[i]) == 0) {
            line->kind = kinds[i];
            return CLI_DONE;
        }
    if (nearest)
        return cli_fail(CLI_USAGE, "no bench \"%.60s\"; did you mean \"%s\"?", name, nearest);
    return cli_fail(CLI_USAGE,
                    "no bench \"%.60s\"; there are engine, forecast, allreduce, pipeline, codec, "
                    "sim and cluster",
                    name);
}

/* Take one flag of the command line, or a word that is no flag (option NULL), for
 * cli_flags_read(). */
static int set(void *ctx, const fast_option *option, const char *value)
{
    bench_line *line = ctx;

    if (!option)
        return set_kind(line, value);
    if (strcmp(option->name, "json") == 0) {
        line->json = strcmp(value, "no") != 0;
        return CLI_DONE;
    }
    if (strcmp(option->name, "hosts") == 0) {
        line->hosts = value;
        return CLI_DONE;
    }
    line->model |= strcmp(option->name, "model") == 0;
    line->workers |= strcmp(option->name, "workers") == 0;
    line->transport |= strcmp(option->name, "transport") == 0;
    return cli_list_add(&line->options, option->name, value);
}

/* How measurements are shown. */
typedef struct bench_show {
    bool json;     /* print objects */
    bool head;     /* the head of the table was printed */
    cli_busy busy; /* a sign of life between two rows */
} bench_show;

/* Print one measurement of an engine: a model, or one of its layers. The head of the table is
 * printed with the first row, when it is known that there is one.
 *
 *   model        layer            method                              samples/s  GFLOP/s of bound
 *   mlp          (all)                                                    35516    114.0      64%
 *   mlp          dense1           xsmm + activation, slabs of 24 rows     96716    155.3      87%
 *
 * (The column of methods is shortened here.) "of bound" is the share of the speed that the core's
 * multiply-adds allow. */
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

/* Print a time in microseconds, and how far it is from the measurement. */
static void forecast_cell(double seconds, double measured)
{
    if (!isfinite(seconds))
        printf(" %11s %6s", "-", "");
    else if (!isfinite(measured))
        printf(" %11.1f %6s", 1e6 * seconds, "");
    else
        printf(" %11.1f %+5.0f%%", 1e6 * seconds, 100 * (seconds / measured - 1));
}

/* Print the forecasts of an operator, or of the whole step. Brent's bounds are in operations.
 *
 *   operator                W       D      W/D   T_P from       T_P to   device us   table us ...
 *   1 conv             15.5M      24  645120      968640       968664       220.1   +3% ...
 */
static void show_forecast(void *ctx, const fast_forecast_measure *m)
{
    bench_show *show = ctx;
    cli_json json;

    cli_busy_clear(&show->busy);
    if (show->json) {
        cli_json_begin(&json, stdout);
        cli_json_text(&json, "model", m->model);
        cli_json_text(&json, "operator", m->operator_name);
        cli_json_real(&json, "work", m->work);
        cli_json_real(&json, "depth", m->depth);
        cli_json_real(&json, "brent_low", m->brent_low);
        cli_json_real(&json, "brent_high", m->brent_high);
        cli_json_real(&json, "bytes", m->bytes);
        cli_json_real(&json, "device_us", 1e6 * m->device_s);
        cli_json_real(&json, "table_us", 1e6 * m->table_s);
        cli_json_real(&json, "measured_us", 1e6 * m->measured_s);
        cli_json_end(&json);
        fflush(stdout);
        return;
    }
    if (!show->head)
        printf("%-16s %12s %6s %10s %12s %12s %11s %6s %11s %6s %11s\n", "operator", "W", "D",
               "W/D", "T_P from", "T_P to", "device us", "off", "table us", "off", "measured us");
    show->head = true;
    printf("%-16s %12.0f %6.0f %10.0f %12.0f %12.0f",
           m->operator_name ? m->operator_name : "(step)", m->work, m->depth, m->work / m->depth,
           m->brent_low, m->brent_high);
    forecast_cell(m->device_s, m->measured_s);
    forecast_cell(m->table_s, m->measured_s);
    if (isfinite(m->measured_s))
        printf(" %11.1f\n", 1e6 * m->measured_s);
    else
        printf(" %11s\n", "-");
    fflush(stdout);
}

/* Print one measurement of the simulator: real seconds, and the virtual time that they simulated.
 *
 *   program        actors       events       events/s    seconds     virtual ms
 *   ring               64      2097280        4882173      0.430         66.322
 */
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

/* The columns of the usual benchmarks of MPI, and the prediction of the model behind `auto`, or a
 * dash where the model has no prediction.
 *
 *   transport algorithm            workers        bytes           us       GB/s predicted us
 *   threads   butterfly                  2         4096         1.41      2.907         1.01
 */
static void allreduce_line(const fast_allreduce_measure *measure)
{
    printf("%-9s %-20s %7" PRId64 " %12" PRId64 " %12.2f %10.3f", measure->transport,
           measure->algorithm, measure->workers, measure->bytes, 1e6 * measure->seconds,
           measure->gb_per_s);
    if (isfinite(measure->predicted_s))
        printf(" %12.2f\n", 1e6 * measure->predicted_s);
    else
        printf(" %12s\n", "-");
}

/* Print one measurement of a sum over workers. */
static void show_allreduce(void *ctx, const fast_allreduce_measure *measure)
{
    bench_show *show = ctx;
    cli_json json;

    cli_busy_clear(&show->busy);
    if (show->json) {
        cli_json_begin(&json, stdout);
        cli_json_text(&json, "transport", measure->transport);
        cli_json_text(&json, "algorithm", measure->algorithm);
        cli_json_int(&json, "workers", measure->workers);
        cli_json_int(&json, "bytes", measure->bytes);
        cli_json_real(&json, "us", 1e6 * measure->seconds);
        cli_json_real(&json, "gb_per_s", measure->gb_per_s);
        cli_json_real(&json, "predicted_us", 1e6 * measure->predicted_s);
        cli_json_end(&json);
    } else {
        if (!show->head)
            printf("%-9s %-20s %7s %12s %12s %10s %12s\n", "transport", "algorithm", "workers",
                   "bytes", "us", "GB/s", "predicted us");
        show->head = true;
        allreduce_line(measure);
    }
    fflush(stdout);
}

/* Print a fraction as a percentage, or a dash where it is not known: of a schedule without a closed
 * form, or where too few passes were recorded. */
static void percent_cell(double fraction, int width)
{
    if (isfinite(fraction))
        printf(" %*.1f%%", width - 1, 100 * fraction);
    else
        printf(" %*s", width, "-");
}

/* Print one measurement of a schedule. "equal stages" is the closed form of the bubble.
 *
 *   pipeline   transport  stages micro-batches    step ms   bubble equal stages in flight ...
 *   gpipe      sim             4             8     21.755    29.1%        27.3%         8 ...
 */
static void show_pipeline(void *ctx, const fast_pipeline_measure *m)
{
    bench_show *show = ctx;
    cli_json json;

    cli_busy_clear(&show->busy);
    if (!show->json) {
        if (!show->head)
            printf("%-18s %-9s %6s %13s %10s %8s %12s %9s %9s %9s\n", "pipeline", "transport",
                   "stages", "micro-batches", "step ms", "bubble", "equal stages", "in flight",
                   "staleness", "memory MB");
        show->head = true;
        printf("%-18s %-9s %6" PRId64 " %13" PRId64 " %10.3f", m->pipeline, m->transport, m->stages,
               m->micro_batches, 1e3 * m->step_s);
        percent_cell(m->bubble, 8);
        percent_cell(m->bubble_expected, 12);
        printf(" %9" PRId64 " %9" PRId64 " %9.1f\n", m->in_flight, m->staleness,
               1e-6 * (double)m->memory);
    } else {
        cli_json_begin(&json, stdout);
        cli_json_text(&json, "pipeline", m->pipeline);
        cli_json_text(&json, "transport", m->transport);
        cli_json_int(&json, "stages", m->stages);
        cli_json_int(&json, "micro_batches", m->micro_batches);
        cli_json_real(&json, "step_s", m->step_s);
        cli_json_real(&json, "bubble", m->bubble);
        cli_json_real(&json, "bubble_expected", m->bubble_expected);
        cli_json_int(&json, "in_flight", m->in_flight);
        cli_json_int(&json, "staleness", m->staleness);
        cli_json_int(&json, "memory", m->memory);
        cli_json_end(&json);
    }
    fflush(stdout);
}

/* How much smaller, how fast beside memcpy(), how wrong, and the link below which it pays. "of
 * memcpy" is the time of a copy over that of encoding, then over that of decoding: 0.57 means that
 * encoding takes 1.75 times as long as a copy.
 *
 *   codec    smaller   enc GB/s   dec GB/s of memcpy of memcpy      error pays below Mb/s
 *   int8        3.98      26.67      39.24      0.57      0.84   1.29e-02          95153
 */
static void codec_line(const fast_codec_measure *m)
{
    printf("%-28s %9.2f %10.2f %10.2f %9.2f %9.2f %10.2e %14.0f\n", m->codec,
           (double)m->bytes_in / (double)m->bytes_out, m->encode_gb_per_s, m->decode_gb_per_s,
           m->copy_s / m->encode_s, m->copy_s / m->decode_s, m->error, m->break_even_mbit_per_s);
}

/* Print one measurement of a codec. */
static void show_codec(void *ctx, const fast_codec_measure *m)
{
    bench_show *show = ctx;
    cli_json json;

    cli_busy_clear(&show->busy);
    if (show->json) {
        cli_json_begin(&json, stdout);
        cli_json_text(&json, "codec", m->codec);
        cli_json_int(&json, "bytes_in", m->bytes_in);
        cli_json_int(&json, "bytes_out", m->bytes_out);
        cli_json_real(&json, "encode_gb_per_s", m->encode_gb_per_s);
        cli_json_real(&json, "decode_gb_per_s", m->decode_gb_per_s);
        cli_json_real(&json, "copy_gb_per_s", m->copy_gb_per_s);
        cli_json_real(&json, "error", m->error);
        cli_json_real(&json, "break_even_mbit_per_s", m->break_even_mbit_per_s);
        cli_json_end(&json);
    } else {
        if (!show->head)
            printf("%-28s %9s %10s %10s %9s %9s %10s %14s\n", "codec", "smaller", "enc GB/s",
                   "dec GB/s", "of memcpy", "of memcpy", "error", "pays below Mb/s");
        show->head = true;
        codec_line(m);
    }
    fflush(stdout);
}

/* Print the measurement of a cluster: a file that --cluster reads, or an object. */
static void show_cluster(void *ctx, const fast_cluster_measure *m)
{
    bench_show *show = ctx;
    cli_json json;

    cli_busy_clear(&show->busy);
    if (!show->json) {
        fputs(m->file, stdout);
    } else {
        cli_json_begin(&json, stdout);
        cli_json_text(&json, "transport", m->transport);
        cli_json_int(&json, "nodes", m->nodes);
        cli_json_real(&json, "latency_s", m->latency_s);
        cli_json_real(&json, "overhead_s", m->overhead_s);
        cli_json_real(&json, "bandwidth", m->bandwidth);
        cli_json_real(&json, "stream", m->stream);
        cli_json_real(&json, "eager", m->eager);
        cli_json_real(&json, "loss", m->loss);
        cli_json_real(&json, "retry_s", m->retry_s);
        cli_json_text(&json, "file", m->file);
        cli_json_end(&json);
    }
    fflush(stdout);
}

/* Start mpirun with one rank of this program on each host, in place of this process. Returns only
 * if that fails. */
static int start_hosts(const bench_line *line, int argc, char **argv)
{
    char self[4096], count[16];
    const char **words = calloc((size_t)argc + 8, sizeof *words);
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    int hosts = 1, used = 0;

    if (!words || length < 0) {
        free(words);
        return cli_fail(CLI_FAILED, "cannot tell where this program is");
    }
    self[length] = '\0';
    for (const char *c = line->hosts; *c; c++)
        hosts += *c == ',';
    snprintf(count, sizeof count, "%d", hosts);
    const char *const own[] = { "mpirun", "--host", line->hosts, "-n", count, self, "bench" };
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        words[used++] = own[i];
    for (int i = 1; i < argc; i++) {
        const bool alone = strcmp(argv[i], "--hosts") == 0;
        if (alone)
            i++;
        else if (strncmp(argv[i], "--hosts=", 8) != 0)
            words[used++] = argv[i];
    }
    execvp("mpirun", (char *const *)words);
    free(words);
    return cli_fail(CLI_FAILED, "cannot start mpirun: %s; install openmpi-bin", strerror(errno));
}

/* Complete the command line of `bench cluster`: a worker on each rank, over MPI. */
static int set_cluster(bench_line *line, int argc, char **argv)
{
    char workers[32];

    if (line->hosts && cli_ranks() > 1)
        return cli_fail(CLI_USAGE, "--hosts starts mpirun by itself; leave one of them out");
    if (line->hosts)
        return start_hosts(line, argc, argv);
    if (!line->transport && cli_ranks() < 2)
        return cli_fail(CLI_USAGE, "a cluster has at least 2 nodes; name them: --hosts a,b,c");
    snprintf(workers, sizeof workers, "%d", cli_ranks() > 1 ? cli_ranks() : 2);
    return line->workers ? CLI_DONE : cli_list_add(&line->options, "workers", workers);
}

/* Measure the models that the table shows where none is named. The user's options follow the model,
 * so --batch and --engine apply to each. */
static fast_err bench_models(const bench_line *line, bench_show *show)
{
    static const char *const models[] = { "model=mlp", "model=lenet", "model=resnet8" };
    const char **options = calloc((size_t)line->options.count + 2, sizeof *options);
    fast_err err = options ? FAST_OK : FAST_ENOMEM;

    for (size_t i = 0; !err && i < sizeof models / sizeof models[0]; i++) {
        options[0] = models[i];
        memcpy(options + 1, line->options.items, (size_t)line->options.count * sizeof *options);
        err = fast_bench_engine(options, show_measure, show);
    }
    free(options);
    return err;
}

/* Measure sums, codecs, the simulator or engines. Under mpirun every rank runs this, and only the
 * first one reports. */
static int bench_parts(const bench_line *line)
{
    const char *const *options = (const char *const *)line->options.items;
    bench_show show = { .json = line->json };
    fast_err err;

    if (strcmp(line->kind, "allreduce") == 0) {
        cli_busy_begin(&show.busy, stderr, "measuring sums over workers", 0);
        err = fast_bench_allreduce(options, show_allreduce, &show);
    } else if (strcmp(line->kind, "pipeline") == 0) {
        cli_busy_begin(&show.busy, stderr, "measuring schedules of a pipeline", 5);
        err = fast_bench_pipeline(options, show_pipeline, &show);
    } else if (strcmp(line->kind, "codec") == 0) {
        cli_busy_begin(&show.busy, stderr, "measuring codecs", 0);
        err = fast_bench_codec(options, show_codec, &show);
    } else if (strcmp(line->kind, "cluster") == 0) {
        cli_busy_begin(&show.busy, stderr, "measuring nodes and links", 30);
        err = fast_bench_cluster(options, show_cluster, &show);
    } else if (strcmp(line->kind, "forecast") == 0) {
        cli_busy_begin(&show.busy, stderr, "measuring tables of layers", 10);
        err = fast_bench_forecast(options, show_forecast, &show);
    } else if (strcmp(line->kind, "sim") == 0) {
        cli_busy_begin(&show.busy, stderr, "measuring the simulator", 15);
        err = fast_bench_sim(options, show_sim, &show);
    } else {
        cli_busy_begin(&show.busy, stderr, "measuring models and their layers",
                       line->model ? 0 : 5);
        err = line->model ? fast_bench_engine(options, show_measure, &show)
                          : bench_models(line, &show);
    }
    cli_busy_end(&show.busy);
    return err ? cli_fail_err(err) : CLI_DONE;
}

/* The canonical workload; what the user gives comes after it and wins. */
static int bench_canonical(const bench_line *line)
{
    static const char *const workload[] = { "model=lenet", "batch=64", "steps=300", "evaluate=no" };
    enum { COUNT = sizeof workload / sizeof workload[0] };
    const char **options = calloc((size_t)line->options.count + COUNT + 1, sizeof *options);
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
    memcpy(options + COUNT, line->options.items, (size_t)line->options.count * sizeof *options);
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

/* The command `fast bench`. */
int cli_bench(int argc, char **argv)
{
    bench_line line = { .json = false };
    int code;

    code = cli_flags_read(cli_command_find("bench"), argc, argv, set, &line);
    if (code == CLI_DONE && line.hosts && (!line.kind || strcmp(line.kind, "cluster") != 0))
        code = cli_fail(CLI_USAGE, "--hosts belongs to fast bench cluster");
    if (code == CLI_DONE && line.kind && strcmp(line.kind, "cluster") == 0)
        code = set_cluster(&line, argc, argv);
    if (code == CLI_DONE && !line.kind)
        code = bench_canonical(&line);
    else if (code == CLI_DONE)
        code = bench_parts(&line);
    else if (code == CLI_HELPED)
        code = CLI_DONE;
    cli_list_free(&line.options);
    return code;
}
