/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fast search`: the best values of some options, by trials on a held-out part of the training set.
 * The flags are those of `fast train`, with --tune for the options that are searched. Standard
 * output has a table of trials and the result, or with --json an object for each trial and one for
 * the result; talk goes to standard error:
 *
 *     trial  setting    result       trained  samples  status
 *         1  lr=0.0125  26.7%           100%    2,112  done
 *   *     2  lr=0.05    12.1 ms          34%      720  target
 *         3  lr=0.8     9.2%             11%      232  stopped
 *
 * Exit codes: 0 found, 1 no trial has a result, 2 usage, 130 after Ctrl-C: the table then has the
 * trials that ended.
 */
#include "fast/lab.h"

#include "cli.h"
#include "cli_json.h"
#include "cli_page.h"
#include "cli_tables.h"
#include "cmd_runs.h"
#include "compare_table.h"
#include "progress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One command line, read. */
typedef struct search_line {
    cli_list options;       /* of the job */
    cli_list tune;          /* "lr=0.001..1:log": options to search */
    int64_t jobs;           /* trials at a time; 0: the default */
    const char *budget;     /* of every trial; "": none */
    const char *searcher;   /* "asha:reduction=4" */
    const char *checkpoint; /* for that of the best trial; NULL: none */
    bool json;              /* print objects */
    bool quiet;             /* print only the result */
} search_line;

/* How the search is shown while it runs. */
typedef struct search_show {
    cli_bar bar; /* of progress */
    bool quiet;  /* draw nothing */
} search_show;

/* Called by the first Ctrl-C. */
static void cancel_search(void *compare)
{
    fast_compare_cancel(compare);
}

/* Take a flag, for cli_flags_read(). */
static int set_flag(void *ctx, const fast_option *option, const char *value)
{
    search_line *line = ctx;

    if (!option)
        return cli_fail(CLI_USAGE, "\"%s\" is not an option; options begin with --", value);
    if (strcmp(option->name, "json") == 0 || strcmp(option->name, "quiet") == 0) {
        *(option->name[0] == 'j' ? &line->json : &line->quiet) = strcmp(value, "yes") == 0;
        return CLI_DONE;
    }
    if (strcmp(option->name, "searcher") == 0 || strcmp(option->name, "budget") == 0) {
        *(option->name[0] == 's' ? &line->searcher : &line->budget) = value;
        return CLI_DONE;
    }
    if (strcmp(option->name, "checkpoint") == 0) {
        line->checkpoint = value;
        return CLI_DONE;
    }
    if (strcmp(option->name, "tune") == 0)
        return cli_list_add(&line->tune, NULL, value);
    if (strcmp(option->name, "jobs") == 0) {
        char *end = NULL;

        line->jobs = strtoll(value, &end, 10);
        return end != value && !*end && line->jobs >= 0 && line->jobs <= 64
                   ? CLI_DONE
                   : cli_fail(CLI_USAGE, "--jobs %s: write a number from 0 to 64", value);
    }
    return cli_list_add(&line->options, option->name, value);
}

/* Seconds for people. */
static void time_text(double seconds, char text[48])
{
    if (seconds < 1)
        snprintf(text, 48, "%.3g ms", 1e3 * seconds);
    else
        snprintf(text, 48, "%.3g s", seconds);
}

/* The result of a trial: the time to the target, else the accuracy or the loss. */
static void result_text(const fast_compared_run *run, char text[48])
{
    const fast_compare_measures *m = &run->measures;
    const fast_compare_point *last =
        run->point_count > 0 ? &run->points[run->point_count - 1] : NULL;
    const double accuracy =
        isfinite(m->test_accuracy) || !last ? m->test_accuracy : last->test_accuracy;
    const double loss = isfinite(m->test_loss) || !last ? m->test_loss : last->test_loss;

    if (isfinite(m->time_to_target_s))
        time_text(run->time_before_s + m->time_to_target_s, text);
    else if (isfinite(accuracy))
        snprintf(text, 48, "%.1f%%", 100 * accuracy);
    else if (isfinite(loss))
        snprintf(text, 48, "loss %.4g", loss);
    else
        snprintf(text, 48, "-");
}

/* The fraction of a whole run that a trial has trained; NAN before its first evaluation. A trial
 * that reached the target has trained less than a whole run too, and was not stopped by its
 * searcher. */
static double progress_of(const fast_compared_run *run)
{
    return run->point_count > 0 ? run->points[run->point_count - 1].progress : NAN;
}

/* A trial has ended: draw the bar, and print why if it failed. */
static void on_progress(void *ctx, const fast_compare_progress *p)
{
    search_show *show = ctx;
    char text[160] = "", result[48];

    if (show->quiet)
        return;
    if (p->run) {
        result_text(p->run, result);
        snprintf(text, sizeof text, "%.80s: %s, %.20s", p->run->tuned, result, p->run->status);
        if (p->run->error && strcmp(p->run->status, "canceled") != 0) {
            cli_bar_clear(&show->bar);
            fprintf(show->bar.file, "trial %s: %s\n", p->run->tuned, p->run->error);
        }
    }
    cli_bar_show(&show->bar, "trials", p->runs_done, p->runs_count, p->seconds_left, text);
}

/* The trial that was chosen; NULL if none has a result. */
static const fast_compared_run *find_chosen(const fast_compared *line)
{
    for (int64_t i = 0; line->tuned[0] && i < line->trial_count; i++)
        if (line->trials[i].tuned == line->tuned)
            return &line->trials[i];
    return NULL;
}

/* The table of trials, in the order in which they were proposed; the chosen one has an asterisk.
 * Columns of settings and results are as wide as their longest cell; in a narrow window settings
 * are cut, numbers never. */
static void put_table(const fast_compared *line)
{
    int setting = 7, result = 6, status = 6;
    char text[48], percent[16], samples[32], safe[CLI_SAFE_MAX];

    for (int64_t i = 0; i < line->trial_count; i++) {
        result_text(&line->trials[i], text);
        setting = (int)fmax(setting, (double)strlen(line->trials[i].tuned));
        result = (int)fmax(result, (double)strlen(text));
        status = (int)fmax(status, (double)strlen(line->trials[i].status) +
                                       (line->trials[i].parent >= 0 ? strlen(", from 100") : 0));
    }
    const int room = cli_window_width(stdout) - (9 + 2 + result + 2 + 7 + 2 + 10 + 2 + status);
    setting = setting > room ? (room > 8 ? room : 8) : setting;
    printf("  trial  %-*s  %*s  trained     samples  status\n", setting, "setting", result,
           "result");
    for (int64_t i = 0; i < line->trial_count; i++) {
        const fast_compared_run *run = &line->trials[i];
        const double progress = progress_of(run);

        result_text(run, text);
        snprintf(percent, sizeof percent, isfinite(progress) ? "%.0f%%" : "-", 100 * progress);
        cli_group_digits(isfinite(run->measures.samples)
                             ? (int64_t)(run->measures.samples - run->samples_before)
                             : 0,
                         samples);
        printf("%s %5lld  %-*s  %*s  %7s  %10s  %s", run->tuned == line->tuned ? "*" : " ",
               (long long)i + 1, setting, cli_text_safe(run->tuned, setting, safe), result, text,
               percent, samples, run->status);
        if (run->parent >= 0)
            printf(", from %lld", (long long)run->parent + 1);
        printf("\n");
    }
}

/* The samples that all trials would have used to their ends, from the parts that they trained. */
static double whole_samples(const fast_compared *line)
{
    double sum = 0;

    for (int64_t i = 0; i < line->trial_count; i++) {
        const fast_compared_run *run = &line->trials[i];
        const double progress = progress_of(run);
        const bool early = strcmp(run->status, "stopped") == 0 && progress > 0;

        if (isfinite(run->measures.samples))
            sum += run->measures.samples / (early ? fmin(1, progress) : 1) - run->samples_before;
    }
    return sum;
}

/* The settings of a model that several trials have trained, the first one last: "lr=0.1 to 25%,
 * lr=0.12 to 100%". Equal ones that follow one another are one. */
static void put_schedule(const fast_compared *line, const fast_compared_run *run)
{
    const fast_compared_run *before = run->parent >= 0 ? &line->trials[run->parent] : NULL;

    while (before && strcmp(before->tuned, run->tuned) == 0)
        before = before->parent >= 0 ? &line->trials[before->parent] : NULL;
    if (before) {
        put_schedule(line, before);
        printf(", ");
    }
    printf("%s to %.0f%%", run->tuned, 100 * progress_of(run));
}

/* The result in words: the best setting, the cost of all trials, and the command that trains with
 * it. The command has no --holdout: the run learns from the whole training set, and its seed is
 * that of the user, not that of the trials. A model of several trials has a schedule instead. */
static void put_result(const fast_compare *compare, const fast_compared *line,
                       const char *checkpoint)
{
    const fast_compared_run *chosen = find_chosen(line);
    char text[48], used[32];
    double samples, seconds;
    int64_t stopped = 0;

    for (int64_t i = 0; i < line->trial_count; i++)
        stopped += strcmp(line->trials[i].status, "stopped") == 0;
    fast_compare_cost(compare, true, &samples, &seconds);
    cli_group_digits((int64_t)samples, used);
    if (chosen) {
        result_text(chosen, text);
        printf("\nbest: %s (%s%s on held-out data)\n", chosen->tuned,
               isfinite(chosen->measures.time_to_target_s) ? "target after " : "", text);
    }
    printf("%s%lld trials used %s samples", chosen ? "" : "\n", (long long)line->trial_count, used);
    if (stopped > 0)
        printf("; %lld were stopped early, which saved about %.0f%%", (long long)stopped,
               100 * (1 - samples / fmax(samples, whole_samples(line))));
    printf("\n");
    if (chosen && chosen->parent >= 0) {
        printf("schedule: ");
        put_schedule(line, chosen);
        printf("\n%s%s\n", checkpoint ? "checkpoint: " : "",
               checkpoint ? checkpoint : "its model was not saved; give --checkpoint FILE");
    } else if (chosen && line->runs[0].command) {
        printf("run it: %s\n", line->runs[0].command);
    }
}

/* Trials and the result as objects. `samples` of the result is the cost of all trials, and
 * `samples_whole` an estimate of what they would have cost to their ends. */
static void put_json(const fast_compare *compare, const fast_compared *line, bool whole)
{
    const fast_compared_run *chosen = find_chosen(line);
    double samples, seconds;
    cli_json json;

    for (int64_t i = 0; i < line->trial_count; i++) {
        const fast_compared_run *run = &line->trials[i];
        const fast_compare_measures *m = &run->measures;

        cli_json_begin(&json, stdout);
        cli_json_int(&json, "trial", i + 1);
        cli_json_text(&json, "setting", run->tuned);
        cli_json_text(&json, "status", run->status);
        cli_json_text(&json, "error", run->error);
        cli_json_real(&json, "progress", progress_of(run));
        cli_json_real(&json, "time_to_target_s", run->time_before_s + m->time_to_target_s);
        cli_json_real(&json, "test_accuracy", m->test_accuracy);
        cli_json_real(&json, "test_loss", m->test_loss);
        cli_json_real(&json, "samples", m->samples);
        cli_json_real(&json, "bytes_sent", m->bytes_sent);
        cli_json_real(&json, "time_s", m->time_s);
        if (run->parent >= 0)
            cli_json_int(&json, "parent", run->parent + 1);
        cli_json_text(&json, "command", run->command);
        cli_json_end(&json);
    }
    fast_compare_cost(compare, true, &samples, &seconds);
    cli_json_begin(&json, stdout);
    cli_json_text(&json, "best", chosen ? chosen->tuned : NULL);
    cli_json_bool(&json, "complete", whole);
    cli_json_int(&json, "trials", line->trial_count);
    cli_json_real(&json, "samples", samples);
    cli_json_real(&json, "samples_whole", whole_samples(line));
    cli_json_real(&json, "time_s", seconds);
    cli_json_text(&json, "name", fast_compare_name(compare));
    cli_json_text(&json, "run_it", chosen && chosen->parent < 0 ? line->runs[0].command : NULL);
    cli_json_end(&json);
}

/* Say what is searched, before it runs. */
static void say_plan(const fast_compare *compare, const search_line *line)
{
    const char *const *job = fast_compare_job(compare);
    int64_t count = 0;
    const fast_compared *lines = fast_compare_lines(compare, &count);

    fprintf(stderr, "search by %s, at most %lld trials, of", line->searcher,
            (long long)lines->trial_count);
    for (int i = 0; i < line->tune.count; i++)
        fprintf(stderr, "%s %s", i ? "," : "", line->tune.items[i]);
    for (int64_t i = 0; job && job[i]; i++)
        fprintf(stderr, "%s%s", i ? ", " : "\nfor ", job[i]);
    fputc('\n', stderr);
}

/* Open the search, run it and show the result. */
static int search_all(const search_line *line)
{
    char program[4096];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    fast_compare *compare = NULL;
    search_show show = { .quiet = line->quiet };
    int64_t count = 0;

    program[length > 0 ? length : 0] = '\0';
    const fast_compare_config config = {
        .program = length > 0 ? program : NULL,
        .options = (const char *const *)line->options.items,
        .tune = (const char *const *)line->tune.items,
        .jobs = line->jobs,
        .budget = line->budget,
        .searcher = line->searcher,
        .checkpoint = line->checkpoint,
        .trials_only = true,
    };
    fast_err err = fast_compare_open(&config, &compare);
    if (err)
        return cli_fail_err(err);
    cli_on_interrupt(cancel_search, compare);
    if (!line->quiet)
        say_plan(compare, line);
    cli_bar_init(&show.bar, stderr);
    fast_compare_watch(compare, on_progress, &show);
    err = fast_compare_run(compare);
    cli_on_interrupt(NULL, NULL);
    cli_bar_clear(&show.bar);
    const fast_compared *result = fast_compare_lines(compare, &count);
    int code = err ? CLI_CANCELED : find_chosen(result) ? CLI_DONE : CLI_FAILED;
    if (err && err != FAST_ECANCELED) {
        code = cli_fail_err(err);
    } else if (line->json) {
        put_json(compare, result, !err);
    } else {
        put_table(result);
        put_result(compare, result, line->checkpoint);
    }
    if (err == FAST_ECANCELED)
        cli_fail(CLI_CANCELED, "the search was stopped: some trials are missing");
    fast_compare_close(compare);
    return code;
}

int cli_search(int argc, char **argv)
{
    search_line line = { .budget = "", .searcher = "race" };
    int code = cli_flags_read(cli_command_find("search"), argc, argv, set_flag, &line);

    if (code == CLI_DONE)
        code = search_all(&line);
    cli_list_free(&line.options);
    cli_list_free(&line.tune);
    return code == CLI_HELPED ? CLI_DONE : code;
}
