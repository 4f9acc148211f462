/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fast train`: flags to options, a run, and what a person and a program want to know of it. The
 * flags are the options of fast_part_list("train"), with hyphens, and --json and --quiet. Talk
 * goes to standard error; with --json one object is the last line of standard output.
 *
 * The first Ctrl-C (or SIGTERM, or SIGUSR1, which mpirun passes on) asks the run to stop: it
 * finishes its step, saves, says how to continue, and the program exits 75. A second one ends the
 * program at once; files are replaced atomically, so the last checkpoint stays whole.
 *
 * Flow: read flags into "name=value" options; fast_run_open() reads the data and prepares (with a
 * sign of life on a terminal if that takes more than a second); header; fast_run_train(), whose
 * events draw progress; summary; JSON. --quiet leaves out all talk but errors, notes, and how to
 * continue a stopped run. Standard error of a short run on two workers:
 *
 *   mlp (669,706 parameters) on digits: engine cpu, batch 64, momentum:weight_decay=0.0005 with ...
 *   regression on `y`, 12 numeric columns (12 features)             (if a table was read)
 *   2 workers: strategy allreduce on threads
 *   step 40/40  loss 2.2756  acc 16.9%  test loss 2.2458  test acc 26.20%  18129 samples/s
 *   done: 40 steps in 0.3 s, 18125 samples/s, loss 2.2756, test accuracy 26.20%, peak memory 108 MB
 *   figures: macro F1 0.2198, precision 0.3011, recall 0.2604, AUC 0.7731
 *   stored: fast runs show 1 --store s.db
 *
 * Exit codes:
 *
 *     0  trained to the end or to the target
 *     1  training failed or diverged, most workers were lost, or a file could not be saved where it
 *        was asked for
 *     2  an option, or a file that it names, is wrong; found before the first step
 *    75  stopped by a signal and saved
 *   130  stopped by a signal and not saved: workers of other processes were gone, or the strategy
 *        has no checkpoints
 *
 * Under mpirun every rank runs this code, and only the first one (`first`) watches events, prints
 * and serves metrics.
 */
#include "busy.h"
#include "cli.h"
#include "cli_figures.h"
#include "cli_tables.h"
#include "progress.h"

#include <math.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One command line, read. */
typedef struct train_line {
    cli_list options;  /* for fast_run_open() */
    bool json;         /* print the object */
    bool quiet;        /* say only what cannot be left out */
    bool confusion;    /* show the classes and the confusion matrix */
    bool lockstep;     /* wait for an answer after each evaluation */
    long metrics_port; /* of --metrics-port; -1: none */
} train_line;

/* A run and how it is shown. */
typedef struct train_show {
    fast_run *run;           /* the run */
    cli_progress progress;   /* its line on the terminal */
    char checkpoint[4096];   /* where the last one was saved; "" */
    int64_t saved_step;      /* of which step it is */
    int64_t steps_before;    /* of the run that this one resumes */
    bool first;              /* this process speaks for the run */
    bool confusion;          /* show the classes and the confusion matrix at the end */
    bool lockstep;           /* wait for an answer after each evaluation */
    bool dismissed;          /* the input has ended: the run ends and is not saved */
    atomic_bool canceled;    /* by a signal */
    fast_exporter *exporter; /* of --metrics-port; or NULL */
} train_show;

/* Called by the first Ctrl-C: the run ends after its step. */
static void cancel_run(void *ctx)
{
    train_show *show = ctx;

    atomic_store(&show->canceled, true);
    fast_run_cancel(show->run);
}

/* Read the port of --metrics-port; a usage error for anything but 0 to 65535. */
static int set_port(train_line *line, const char *value)
{
    char *end = NULL;

    line->metrics_port = strtol(value, &end, 10);
    if (end == value || *end || line->metrics_port < 0 || line->metrics_port > 65535)
        return cli_fail(CLI_USAGE, "--metrics-port takes a number from 0 to 65535, not \"%.60s\"",
                        value);
    return CLI_DONE;
}

/* Take a flag: those of the run become options of the library. --json, --quiet and --metrics-port
 * are the command's own. The library checks the values of all others when it opens the run. */
static int set_flag(void *ctx, const fast_option *option, const char *value)
{
    train_line *line = ctx;
    if (!option)
        return cli_fail(CLI_USAGE, "\"%s\" is not an option; options begin with --", value);
    bool *own = strcmp(option->name, "json") == 0        ? &line->json
                : strcmp(option->name, "quiet") == 0     ? &line->quiet
                : strcmp(option->name, "confusion") == 0 ? &line->confusion
                : strcmp(option->name, "lockstep") == 0  ? &line->lockstep
                                                         : NULL;
    if (own) {
        *own = strcmp(value, "yes") == 0;
        return CLI_DONE;
    }
    if (strcmp(option->name, "metrics_port") == 0)
        return set_port(line, value);
    return cli_list_add(&line->options, option->name, value);
}

/* Several workers, or one that was asked to take part in a strategy. */
static bool has_team(const fast_run *run)
{
    return strcmp(fast_run_option(run, "transport"), "auto") != 0;
}

/* "1 worker", "2 workers". */
static void say_count(const fast_run *run, FILE *file)
{
    const char *workers = fast_run_option(run, "workers");

    fprintf(file, "%s worker%s", workers, strcmp(workers, "1") == 0 ? "" : "s");
}

/* Say who trains, and how they cooperate. */
static void say_workers(const fast_run *run, FILE *file)
{
    const char *phases = fast_run_option(run, "phases"), *mesh = fast_run_option(run, "mesh");
    const char *cluster = fast_run_option(run, "cluster"), *layout = fast_run_option(run, "layout");

    say_count(run, file);
    fputs(": ", file);
    if (mesh[0])
        fprintf(file, "mesh %s, %s%s%spipeline %s, ", mesh, layout[0] ? "layout " : "", layout,
                layout[0] ? ", " : "", fast_run_option(run, "pipeline"));
    fprintf(file, "strategy %s%s%s on %s%s%s\n", fast_run_option(run, "strategy"),
            phases[0] ? ", then " : "", phases, fast_run_option(run, "transport"),
            cluster[0] ? ", cluster " : "", cluster);
}

/* Say what is trained, on what and how, before the first step. Up to four lines:
 *
 *   mlp (669,706 parameters) on digits: engine cpu, batch 64, momentum:weight_decay=0.0005 with
 *   lr 0.05 cosine, 40 steps, seed 1                                (one line on the screen)
 *   2 workers: strategy allreduce on threads                        (if has_team())
 *   continuing after step 20 of 40                                  (if it was resumed)
 */
static void say_header(const train_show *show, const fast_event *event)
{
    const fast_run *run = show->run;
    FILE *file = show->progress.file;
    char params[32];
    cli_group_digits(event->result->param_count, params);
    fprintf(file, "%s (%s parameters) on %s: engine %s, batch %s, %s with lr %s %s, ",
            fast_run_option(run, "model"), params, fast_run_option(run, "data"),
            fast_run_option(run, "engine"), fast_run_option(run, "batch"),
            fast_run_option(run, "optimizer"), fast_run_option(run, "lr"),
            fast_run_option(run, "schedule"));
    const char *epochs = fast_run_option(run, "epochs");
    if (event->step_count == 0)
        fputs("evaluation only", file);
    else if (strcmp(fast_run_option(run, "steps"), "0") == 0)
        fprintf(file, "%s epoch%s", epochs, strcmp(epochs, "1") == 0 ? "" : "s");
    else
        fprintf(file, "%s steps", fast_run_option(run, "steps"));
    fprintf(file, ", seed %s\n", fast_run_option(run, "seed"));
    if (event->text)
        fprintf(file, "%s\n", event->text);
    if (has_team(run))
        say_workers(run, file);
    if (event->step > 0)
        fprintf(file, "continuing after step %lld of %lld\n", (long long)event->step,
                (long long)event->step_count);
}

/* Wait for a line of standard input; its end ends the run. A signal ends the wait, though not the
 * read of an empty input: the input is asked first. */
static void wait_for_answer(train_show *show)
{
    struct pollfd input = { STDIN_FILENO, POLLIN, 0 };
    char byte = 0;
    ssize_t got = 1;

    while (got == 1 && byte != '\n' && !atomic_load(&show->canceled))
        if (poll(&input, 1, 100) > 0)
            got = read(STDIN_FILENO, &byte, 1);
    if (got != 0)
        return;
    show->dismissed = true;
    fast_run_cancel(show->run);
}

/* Take an event of the run: draw progress, print evaluations, notes and saved files. The exporter
 * gets every event, so that /metrics is as fresh as the progress line. A saved file that is not the
 * one of --save is a checkpoint; its path is remembered for say_again(). */
static void on_event(void *ctx, const fast_event *event)
{
    train_show *show = ctx;
    if (show->exporter)
        fast_exporter_update(show->exporter, event->result);
    switch (event->kind) {
    case FAST_EVENT_START:
        if (!show->progress.quiet)
            say_header(show, event);
        break;
    case FAST_EVENT_SAVE:
        cli_progress_clear(&show->progress);
        if (strcmp(event->text, fast_run_option(show->run, "save")) != 0) {
            snprintf(show->checkpoint, sizeof show->checkpoint, "%s", event->text);
            show->saved_step = event->step;
        } else if (!show->progress.quiet)
            fprintf(show->progress.file, "weights saved in %s\n", event->text);
        break;
    case FAST_EVENT_PROGRESS:
    case FAST_EVENT_EVALUATE:
    case FAST_EVENT_NOTE:
        cli_progress_show(&show->progress, event);
        break;
    }
    if (show->lockstep && event->kind == FAST_EVENT_EVALUATE && !show->dismissed)
        wait_for_answer(show);
}

/* Write the command that continues from `checkpoint`: this one, with --resume. A --resume or --load
 * of this command line is left out, in both spellings, because the checkpoint replaces it.
 *
 *   continue with: fast train --model mlp --epochs 500 --resume mlp-76db6899.safetensors
 */
static void say_again(FILE *file, int argc, char **argv, const char *checkpoint)
{
    fputs("continue with: ", file);
    cli_put_launcher(file, argc, argv);
    fputs("fast train", file);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--resume") == 0 || strcmp(argv[i], "--load") == 0) {
            i++;
            continue;
        }
        if (strncmp(argv[i], "--resume=", 9) == 0 || strncmp(argv[i], "--load=", 7) == 0)
            continue;
        fputc(' ', file);
        cli_put_quoted(file, argv[i]);
    }
    fputs(" --resume ", file);
    cli_put_quoted(file, checkpoint);
    fputc('\n', file);
}

/* 12345 bytes as "12.3 kB": powers of 1000, one decimal below 100, no decimals from 100 on and for
 * plain bytes: "512 B", "26.9 MB", "672 kB". */
static void say_bytes(FILE *file, double bytes)
{
    static const char *const units[] = { "B", "kB", "MB", "GB", "TB" };
    int unit = 0;

    while (bytes >= 1000 && unit < 4) {
        bytes /= 1000;
        unit++;
    }
    fprintf(file, "%.*f %s", unit == 0 || bytes >= 100 ? 0 : 1, bytes, units[unit]);
}

/* Where the workers' time went, what they sent, and what became of their updates. Two lines:
 *
 *   2 workers (allreduce on threads): computing 51%, exchanging 14%, waiting 36% (58% of it for
 *   worker 1), 672 kB sent a step
 *   updates: staleness 0.00 (p95 0, at most 0), completeness 1.000, divergence 0
 *
 * The percentages are of the sum of the three times and rounded one by one, so they may add up to
 * 101. The worker that was waited for is named if waiting took at least 1%. Measures that the
 * strategy does not have (NAN) are left out. */
static void say_team(const train_show *show, const fast_result *r)
{
    FILE *file = show->progress.file;
    const double all = r->compute_s + r->exchange_s + r->wait_s;
    const double part = all > 0 ? 100 / all : 0;

    say_count(show->run, file);
    fprintf(file, " (%s on %s): computing %.0f%%, exchanging %.0f%%, waiting %.0f%%",
            fast_run_option(show->run, "strategy"), fast_run_option(show->run, "transport"),
            part * r->compute_s, part * r->exchange_s, part * r->wait_s);
    if (r->waited_for && part * r->wait_s >= 1)
        fprintf(file, " (%.0f%% of it for %s)", 100 * r->waited_share, r->waited_for);
    fputs(", ", file);
    if (isfinite(r->bytes_per_step))
        say_bytes(file, r->bytes_per_step);
    fputs(" sent a step\n", file);
    fputs("updates:", file);
    if (r->staleness_max >= 0)
        fprintf(file, " staleness %.2f (p95 %lld, at most %lld)", r->staleness_mean,
                (long long)r->staleness_p95, (long long)r->staleness_max);
    else
        fputs(" staleness unknown", file);
    if (isfinite(r->completeness))
        fprintf(file, ", completeness %.3f", r->completeness);
    if (isfinite(r->divergence))
        fprintf(file, ", divergence %.3g", r->divergence);
    if (isfinite(r->momentum))
        fprintf(file, ", implicit momentum %.2f (+- %.2f)", r->momentum, r->momentum_error);
    fputc('\n', file);
}

/* Does the run encode its messages, in any phase? */
static bool is_coded(const fast_run *run)
{
    return strcmp(fast_run_option(run, "codec"), "none") != 0 ||
           strcmp(fast_run_option(run, "codec_down"), "none") != 0 ||
           strstr(fast_run_option(run, "phases"), "codec=");
}

/* How many times smaller encodings were; NAN before one. */
static double codec_ratio(const fast_result *r)
{
    return r->codec_bytes_out > 0 ? (double)r->codec_bytes_in / (double)r->codec_bytes_out : NAN;
}

/* The codec's savings and costs, and the links on which it pays:
 *
 *   codec: int8, 3.98 times smaller (214.3 MB to 53.79 MB), encode 0.0114 s, decode 0.0115 s, pays
 *   on links below 3.74e+04 Mbit/s
 */
static void say_codec(const train_show *show, const fast_result *r)
{
    FILE *file = show->progress.file;

    fprintf(file, "codec: %s", fast_run_option(show->run, "codec"));
    if (strcmp(fast_run_option(show->run, "codec_down"), "none") != 0)
        fprintf(file, ", back %s", fast_run_option(show->run, "codec_down"));
    if (r->codec_bytes_out == 0) {
        fputs(", nothing was encoded\n", file);
        return;
    }
    fprintf(file, ", %.3g times smaller (%.4g MB to %.4g MB), encode %.3g s, decode %.3g s",
            codec_ratio(r), (double)r->codec_bytes_in * 1e-6, (double)r->codec_bytes_out * 1e-6,
            r->encode_s, r->decode_s);
    if (r->codec_sum)
        fprintf(file, ", summed by %s", r->codec_sum);
    if (isfinite(r->break_even_mbit_per_s) && r->break_even_mbit_per_s > 0)
        fprintf(file, ", pays on links below %.3g Mbit/s", r->break_even_mbit_per_s);
    fputc('\n', file);
}

/* The cost model's prediction of a step beside the measured time:
 *
 *   step: predicted 44.9 ms (compute 25.7, exchange 0.227, straggler 19), measured 45.3 ms
 *
 * The unit follows the measured time, us below 1 ms and ms below 1 s, and holds for the whole line.
 * The parenthesis is left out where the model predicts computation alone. */
static void say_step(FILE *file, const fast_result *r)
{
    const double unit = r->step_s < 1e-3 ? 1e6 : r->step_s < 1 ? 1e3 : 1;
    const char *name = r->step_s < 1e-3 ? "us" : r->step_s < 1 ? "ms" : "s";

    fprintf(file, "step: predicted %.3g %s", unit * r->predicted_step_s, name);
    if (r->predicted_exchange_s + r->predicted_straggler_s > 0)
        fprintf(file, " (compute %.3g, exchange %.3g, straggler %.3g)",
                unit * r->predicted_compute_s, unit * r->predicted_exchange_s,
                unit * r->predicted_straggler_s);
    fprintf(file, ", measured %.3g %s\n", unit * r->step_s, name);
}

/* The figures of the test set in one line, and of which model:
 *
 *   figures: macro F1 0.7213, precision 0.7301, recall 0.7218, AUC 0.9512; best model, of step 300
 *
 * --confusion adds the classes and the confusion matrix. */
static void say_figures(const train_show *show, const fast_result *r)
{
    FILE *file = show->progress.file;
    const char *text = fast_run_json(show->run);
    json_t *result = text ? json_loads(text, 0, NULL) : NULL;
    const json_t *figures = json_object_get(result, "figures");
    cli_page page;

    fputs("figures: ", file);
    cli_figures_line(figures, file);
    if (r->best_step >= 0 && strcmp(fast_run_option(show->run, "best"), "yes") == 0)
        fprintf(file, "; best model, of step %lld", (long long)r->best_step);
    fputc('\n', file);
    if (show->confusion && json_integer_value(json_object_get(figures, "classes")) == 0) {
        fputs("note: the data have no classes, so --confusion shows nothing\n", file);
    } else if (show->confusion) {
        cli_page_init(&page, file);
        cli_figures_tables(figures, &page);
    }
    json_decref(result);
}

/* Say what the run came to: steps, speed, loss, accuracy, memory; then the lines on the team, the
 * codec and the step that apply, and where the run is stored.
 *
 *   done: 40 steps in 0.3 s, 18125 samples/s, loss 2.2756, test accuracy 26.20%, peak memory 108 MB
 *   stored: fast runs show 1 --store s.db
 *
 * The first word is the reason why the run stopped. Times from a minute on are written as 1:05;
 * those of a simulated run as "a virtual 1.4 s (0.3 s of wall time)". A job without an accuracy
 * shows its test loss. The step is compared with its prediction only if the run was not cut
 * short. */
static void say_summary(const train_show *show, const fast_result *r)
{
    FILE *file = show->progress.file;
    char time[32];
    if (r->time_s < 60)
        snprintf(time, sizeof time, "%.1f s", r->time_s);
    else
        cli_progress_time(r->time_s, time);
    if (strcmp(r->stop, "target") == 0)
        fprintf(file,
                "target reached after %s%.1f s: ", isfinite(r->virtual_time_s) ? "a virtual " : "",
                r->time_to_target_s);
    else if (strcmp(r->stop, "patience") == 0)
        fprintf(file, "stopped early, no better validation %s for %s evaluation%s: ",
                fast_run_option(show->run, "monitor"), fast_run_option(show->run, "patience"),
                strcmp(fast_run_option(show->run, "patience"), "1") == 0 ? "" : "s");
    else
        fprintf(file, "%s: ", r->stop);
    const bool simulated = isfinite(r->virtual_time_s);
    fprintf(file, "%lld steps in %s%s", (long long)r->steps, simulated ? "a virtual " : "", time);
    if (simulated)
        fprintf(file, " (%.1f s of wall time)", r->wall_time_s);
    if (isfinite(r->samples_per_s))
        fprintf(file, ", %.0f samples/s", r->samples_per_s);
    if (isfinite(r->loss))
        fprintf(file, ", loss %.4f", r->loss);
    if (isfinite(r->test_accuracy))
        fprintf(file, ", test accuracy %.2f%%", 100 * r->test_accuracy);
    else if (isfinite(r->test_loss))
        fprintf(file, ", test loss %.4f", r->test_loss);
    fprintf(file, ", peak memory %.0f MB", (double)r->memory_peak * 1e-6);
    if (r->workers_lost > 0)
        fprintf(file, ", %lld of %s workers lost", (long long)r->workers_lost,
                fast_run_option(show->run, "workers"));
    fputc('\n', file);
    if (fast_run_figures(show->run))
        say_figures(show, r);
    if (has_team(show->run))
        say_team(show, r);
    if (is_coded(show->run))
        say_codec(show, r);
    const bool whole = strcmp(r->stop, "done") == 0 || strcmp(r->stop, "target") == 0 ||
                       strcmp(r->stop, "patience") == 0;
    if (whole && isfinite(r->predicted_step_s) && isfinite(r->step_s))
        say_step(file, r);
    const int64_t id = fast_run_id(show->run);
    const char *store = fast_run_option(show->run, "store");
    if (id)
        fprintf(file, "stored: fast runs show %lld", (long long)id);
    if (id && strcmp(store, "auto") != 0) {
        fputs(" --store ", file);
        cli_put_quoted(file, store);
    }
    fputs(id ? "\n" : "", file);
}

/* True if a checkpoint holds the last step of the run. */
static bool is_saved(const train_show *show)
{
    return show->checkpoint[0] && show->saved_step == fast_run_result(show->run)->steps;
}

/* After a cancel: where the run is saved, and how to continue it. The run may have saved a
 * checkpoint itself, where --checkpoint asked for one; else one is saved now in FAST's own folder.
 *
 *   stopped after step 595, saved in ~/.cache/fast/checkpoints/mlp-76db6899.safetensors
 *   continue with: fast train --model mlp --epochs 500 --resume ...
 *
 * Both lines are printed with --quiet too: without them the work would be lost. */
static int finish_canceled(train_show *show, int argc, char **argv)
{
    const fast_result *r = fast_run_result(show->run);
    if (!show->first) /* the first rank's exit code is the job's */
        return CLI_DONE;
    if (show->dismissed)
        return CLI_CANCELED;
    if (!is_saved(show)) {
        const fast_err err = fast_run_checkpoint(show->run, NULL);
        /* Workers of other processes are gone, or the strategy has no checkpoints. */
        if (err == FAST_EPEER || err == FAST_EINVAL || err == FAST_ENOTSUP) {
            fprintf(show->progress.file, "stopped after step %lld, not saved: %s\n",
                    (long long)r->steps, fast_error_detail());
            return CLI_CANCELED;
        }
        if (err) {
            fprintf(show->progress.file, "stopped after step %lld\n", (long long)r->steps);
            cli_fail_err(err);
            return CLI_FAILED;
        }
    }
    fprintf(show->progress.file, "stopped after step %lld, saved in %s\n", (long long)r->steps,
            show->checkpoint);
    say_again(show->progress.file, argc, argv, show->checkpoint);
    return CLI_AGAIN;
}

/* Serve what is measured, where --metrics-port asks for it. Port 0 takes a free one, so the address
 * is printed: metrics at http://127.0.0.1:40123/metrics */
static int open_exporter(const train_line *line, train_show *show)
{
    if (line->metrics_port < 0 || !show->first)
        return CLI_DONE;
    const fast_err err = fast_exporter_open(show->run, line->metrics_port, &show->exporter);
    if (err)
        return cli_fail_err(err);
    if (!line->quiet)
        fprintf(show->progress.file, "metrics at http://127.0.0.1:%lld/metrics\n",
                (long long)fast_exporter_port(show->exporter));
    return CLI_DONE;
}

/* Say what ranks of a launcher do that have no worker, since nothing else shows it. */
static void say_ranks(const train_show *show)
{
    const int ranks = cli_ranks();
    const long long workers = strtoll(fast_run_option(show->run, "workers"), NULL, 10);
    const bool shared = strcmp(fast_run_option(show->run, "transport"), "mpi") == 0;

    if (ranks < 2 || (shared && workers >= ranks) || !(shared ? show->first : cli_rank() == 0))
        return;
    if (shared && fast_run_option(show->run, "mesh")[0]) {
        fprintf(stderr,
                "note: %d ranks were started for the %lld worker(s) of the mesh, so some have "
                "none; start fewer, or give a larger --mesh\n",
                ranks, workers);
        return;
    }
    fprintf(stderr,
            shared ? "note: %d ranks were started for %lld worker(s), so some have none; give "
                     "--workers %d\n"
                   : "note: %d ranks were started, and each trains all of this run (workers %lld, "
                     "not on mpi); to share it give --workers %d --transport mpi\n",
            ranks, workers, ranks);
}

/* Print the object of --json, also for a run that failed. */
static void say_json(const train_show *show, const train_line *line)
{
    const char *json = line->json && show->first ? fast_run_json(show->run) : NULL;
    if (json)
        printf("%s\n", json);
}

/* Report a run that has ended and return the exit code. A run that came to its end and could not
 * save its files (a full disk) has a result all the same; a checkpoint that is in FAST's own folder
 * instead continues it, which saves them again. */
static int finish(train_show *show, const train_line *line, fast_err err, int argc, char **argv)
{
    const fast_result *result = fast_run_result(show->run);
    int code = CLI_DONE;

    if (err) {
        /* Options that workers find wrong before their first step are a usage error. */
        const bool begun = result->stop[0] || result->steps > show->steps_before;

        code = cli_fail_err(err);
        code = begun ? CLI_FAILED : code;
        if (!result->stop[0]) {
            say_json(show, line);
            return code;
        }
    }
    if (!line->quiet && show->first)
        say_summary(show, result);
    const int64_t workers = strtoll(fast_run_option(show->run, "workers"), NULL, 10);
    if (strcmp(result->stop, "diverged") == 0 || 2 * result->workers_lost > workers)
        code = show->first ? CLI_FAILED : code; /* other ranks do not know the whole */
    else if (result->canceled)
        code = finish_canceled(show, argc, argv);
    else if (err && is_saved(show))
        say_again(show->progress.file, argc, argv, show->checkpoint);
    say_json(show, line);
    return code;
}

/* Open the run, train it and report. The exit code is 75 where a stopped run was saved. */
static int train(const train_line *line, int argc, char **argv)
{
    train_show show = { .confusion = line->confusion, .lockstep = line->lockstep };
    cli_busy busy = { .runs = false };
    if (!line->quiet)
        cli_busy_begin(&busy, stderr, "reading data and preparing to train", 0);
    fast_err err = fast_run_open((const char *const *)line->options.items, &show.run);
    cli_busy_end(&busy);
    if (err)
        return cli_fail_err(err);
    const bool by_steps = strcmp(fast_run_option(show.run, "steps"), "0") != 0;
    const int64_t epochs = strtoll(fast_run_option(show.run, "epochs"), NULL, 10);
    show.first = fast_run_is_first(show.run);
    cli_progress_init(&show.progress, stderr, line->quiet || !show.first, by_steps ? 0 : epochs);
    int code = open_exporter(line, &show);
    if (code != CLI_DONE) {
        fast_run_close(show.run);
        return code;
    }
    if (show.first)
        fast_run_watch(show.run, on_event, &show);
    say_ranks(&show);
    cli_on_interrupt(cancel_run, &show);
    show.steps_before = fast_run_result(show.run)->steps;
    err = fast_run_train(show.run);
    cli_progress_clear(&show.progress);
    if (show.exporter)
        fast_exporter_update(show.exporter, fast_run_result(show.run));
    code = finish(&show, line, err, argc, argv);
    cli_on_interrupt(NULL, NULL);
    fast_exporter_close(show.exporter);
    fast_run_close(show.run);
    return code;
}

/* The command `fast train`. It stores its runs in the user's store; the library alone does not. */
int cli_train(int argc, char **argv)
{
    train_line line = { .metrics_port = -1 };
    /* Unless another store is given: the last one counts. */
    int code = set_flag(&line, &(fast_option){ .name = "store" }, "auto");
    if (code == CLI_DONE)
        code = cli_flags_read(cli_command_find("train"), argc, argv, set_flag, &line);
    if (code == CLI_DONE)
        code = train(&line, argc, argv);
    cli_list_free(&line.options);
    return code == CLI_HELPED ? CLI_DONE : code;
}
