/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fast compare`: flags to a sweep, a display of how far it is, then a table, curves in characters
 * on a terminal, a verdict, and the report. The flags are those of `fast train`, whose values may
 * be lists and ranges, and a few of its own.
 *
 * The table, the curves and the verdict go to standard output, or with --json one object a line of
 * the table; talk goes to standard error. The first Ctrl-C ends the runs and reports what there is;
 * the second one ends the program.
 *
 *   2 ways of training: model=mlp, data=digits, cluster=hetero, workers=4, steps=30, transport=sim
 *   each with 0 trials to tune it and 2 seeds: 4 runs                           (standard error)
 *
 *     way  place  time to target, s           accuracy, %  MB sent  waiting  ...
 *   a bsp      1              never  27.38 (21.65..33.10)      488      37%
 *   b ssp      2              never  19.52 (18.10..20.95)      490      39%
 *
 *   Choose bsp: it ended with the best accuracy, 27.38% (21.65 to 33.10), after 1.35 s. ...
 *
 * Exit codes: 0 if at least one line has a result, 1 if none has or the comparison failed, 2 for a
 * command line that is wrong or a report whose file cannot be opened, 130 after Ctrl-C. Finished
 * runs of a stopped comparison are in the store, and the command that continues it is printed,
 * unless --quiet is given or this build has no store.
 *
 * Each run is a process of this program, found by /proc/self/exe; --jobs limits how many there are
 * at a time.
 */
#include "fast/lab.h"

#include "cli.h"
#include "cli_json.h"
#include "cli_page.h"
#include "cli_tables.h"
#include "compare_table.h"
#include "plot.h"
#include "progress.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One command line, read. */
typedef struct compare_line {
    cli_list options;     /* of the job and its axes */
    cli_list tune;        /* "lr=0.1,0.2": values to tune */
    const char *searcher; /* of trials: "asha"; "": the grid */
    int64_t seeds;        /* runs of a line; 0: the default */
    int64_t jobs;         /* runs at a time; 0: the default */
    const char *budget;   /* of every run: "10s"; "": none */
    bool unchanged;       /* do not ask what would change the answer */
    const char *report;   /* path of the HTML file; "": none */
    bool json;            /* print objects */
    bool quiet;           /* print only the result */
    bool progress_json;   /* say how far it is as objects */
} compare_line;

/* How the comparison is shown while it runs. */
typedef struct compare_show {
    cli_bar bar;              /* the bar of progress */
    bool quiet;               /* draw nothing */
    const fast_compare *json; /* print objects of this comparison instead; or NULL */
    int64_t said;             /* whole seconds that the last object had left; -1 */
} compare_show;

/* Called by the first Ctrl-C: running trials end, and their results count. */
static void cancel_compare(void *compare)
{
    fast_compare_cancel(compare);
}

/* Read a number of runs or jobs, at least `least`; a usage error names the flag. */
static int read_count(const char *name, const char *value, int64_t least, int64_t *out)
{
    char *end = NULL;
    const long long number = strtoll(value, &end, 10);

    if (end == value || *end || number < least || number > 1000)
        return cli_fail(CLI_USAGE, "--%s %s: write a number from %lld to 1000", name, value,
                        (long long)least);
    *out = number;
    return CLI_DONE;
}

/* Take one flag of the command line, or a word that is no flag (option NULL), for
 * cli_flags_read(). */
static int set_flag(void *ctx, const fast_option *option, const char *value)
{
    compare_line *line = ctx;

    if (!option)
        return cli_fail(CLI_USAGE, "\"%s\" is not an option; options begin with --", value);
    if (strcmp(option->name, "json") == 0 || strcmp(option->name, "quiet") == 0) {
        *(option->name[0] == 'j' ? &line->json : &line->quiet) = strcmp(value, "yes") == 0;
        return CLI_DONE;
    }
    if (strcmp(option->name, "report") == 0 || strcmp(option->name, "budget") == 0) {
        *(option->name[0] == 'r' ? &line->report : &line->budget) = value;
        return CLI_DONE;
    }
    if (strcmp(option->name, "searcher") == 0) {
        line->searcher = value;
        return CLI_DONE;
    }
    if (strcmp(option->name, "progress") == 0) {
        line->progress_json = strcmp(value, "json") == 0;
        return line->progress_json || strcmp(value, "bar") == 0
                   ? CLI_DONE
                   : cli_fail(CLI_USAGE, "--progress is bar or json, not \"%s\"", value);
    }
    if (strcmp(option->name, "changes") == 0) {
        line->unchanged = strcmp(value, "no") == 0;
        return line->unchanged || strcmp(value, "auto") == 0
                   ? CLI_DONE
                   : cli_fail(CLI_USAGE, "--changes is auto or no, not \"%s\"", value);
    }
    if (strcmp(option->name, "seeds") == 0)
        return read_count("seeds", value, 1, &line->seeds);
    if (strcmp(option->name, "jobs") == 0)
        return read_count("jobs", value, 0, &line->jobs);
    if (strcmp(option->name, "tune") == 0)
        return cli_list_add(&line->tune, NULL, value);
    return cli_list_add(&line->options, option->name, value);
}

/* The outcome of a run, in a few words, for the end of the bar: "bsp, trial lr=0.1: target
 * after 12.3 s", "ssp: 88.1%", "ssp: loss 0.412". */
static void run_text(const fast_compare_progress *p, char text[160])
{
    const fast_compare_measures *m = &p->run->measures;
    char what[96];

    if (p->run->error)
        snprintf(what, sizeof what, "%s", p->run->status);
    else if (isfinite(m->time_to_target_s))
        snprintf(what, sizeof what, "target after %.3g s", m->time_to_target_s);
    else if (isfinite(m->test_accuracy))
        snprintf(what, sizeof what, "%.1f%%", 100 * m->test_accuracy);
    else if (isfinite(m->test_loss))
        snprintf(what, sizeof what, "loss %.4g", m->test_loss);
    else
        snprintf(what, sizeof what, "done");
    snprintf(text, 160, "%.60s%s%.40s: %.40s", p->line, p->trial ? ", trial " : "",
             p->trial ? p->run->tuned : "", what);
}

/* Print how far the comparison is as one object a line, for programs: when a run ends, and where
 * the time that is left has changed by a second. */
static void say_json(compare_show *show, const fast_compare_progress *p)
{
    const int64_t left = isfinite(p->seconds_left) ? (int64_t)p->seconds_left : 0;
    char text[160] = "";
    cli_json json;

    if (!p->run && left == show->said)
        return;
    show->said = left;
    if (p->run)
        run_text(p, text);
    cli_json_begin(&json, stderr);
    cli_json_text(&json, "name", fast_compare_name(show->json));
    cli_json_text(&json, "phase", p->phase);
    cli_json_int(&json, "done", p->runs_done);
    cli_json_int(&json, "count", p->runs_count);
    cli_json_int(&json, "running", p->running);
    cli_json_real(&json, "seconds_left", p->seconds_left);
    cli_json_text(&json, "run", p->run ? text : NULL);
    cli_json_text(&json, "error", p->run ? p->run->error : NULL);
    cli_json_end(&json);
    fflush(stderr);
}

/* The comparison tells how far it is: draw the bar, and print a line for each run that
 * failed. */
static void on_progress(void *ctx, const fast_compare_progress *p)
{
    compare_show *show = ctx;
    char text[160] = "";

    if (show->json) {
        say_json(show, p);
        return;
    }
    if (p->run) {
        run_text(p, text);
        if (p->run->error && strcmp(p->run->status, "canceled") != 0 && !show->quiet) {
            cli_bar_clear(&show->bar);
            if (p->trial)
                fprintf(show->bar.file, "%.200s, trial %s: %s\n", p->line, p->run->tuned,
                        p->run->error);
            else
                fprintf(show->bar.file, "%.200s, seed %lld: %s\n", p->line, (long long)p->run->seed,
                        p->run->error);
        }
    }
    if (!show->quiet)
        cli_bar_show(&show->bar, "runs", p->runs_done, p->runs_count, p->seconds_left, text);
}

/* A spread as three members: the median under its name, and _min and _max. */
static void json_spread(cli_json *json, const char *name, const fast_compare_spread *s)
{
    char key[64];

    cli_json_real(json, name, s->median);
    snprintf(key, sizeof key, "%s_min", name);
    cli_json_real(json, key, s->min);
    snprintf(key, sizeof key, "%s_max", name);
    cli_json_real(json, key, s->max);
}

/* One line of the table as an object. */
static void print_json(const fast_compared *line)
{
    cli_json json;

    cli_json_begin(&json, stdout);
    cli_json_text(&json, "name", line->name);
    if (line->place > 0)
        cli_json_int(&json, "place", line->place);
    else
        cli_json_real(&json, "place", NAN);
    cli_json_int(&json, "seeds", line->run_count);
    cli_json_int(&json, "reached", line->reached_count);
    cli_json_int(&json, "failed", line->failed_count);
    cli_json_text(&json, "error", line->error);
    cli_json_int(&json, "trials", line->trial_count);
    cli_json_text(&json, "tuned", line->tuned[0] ? line->tuned : NULL);
    json_spread(&json, "to_target", &line->to_target);
    cli_json_real(&json, "not_within", line->not_within);
    json_spread(&json, "time_to_target_s", &line->time_to_target_s);
    json_spread(&json, "test_accuracy", &line->accuracy);
    json_spread(&json, "test_loss", &line->test_loss);
    json_spread(&json, "time_s", &line->time_s);
    json_spread(&json, "samples", &line->samples);
    json_spread(&json, "samples_per_s", &line->samples_per_s);
    json_spread(&json, "bytes_sent", &line->bytes_sent);
    json_spread(&json, "compute_share", &line->compute_share);
    json_spread(&json, "codec_share", &line->codec_share);
    json_spread(&json, "exchange_share", &line->exchange_share);
    json_spread(&json, "wait_share", &line->wait_share);
    json_spread(&json, "staleness_mean", &line->staleness);
    json_spread(&json, "staleness_max", &line->staleness_max);
    json_spread(&json, "divergence", &line->divergence);
    json_spread(&json, "step_s", &line->step_s);
    json_spread(&json, "predicted_step_s", &line->predicted_step_s);
    cli_json_text(&json, "command", line->runs[0].command);
    cli_json_end(&json);
}

/* The job, before it runs. */
static void say_plan(const fast_compare *compare, const char *budget, FILE *file)
{
    const char *const *job = fast_compare_job(compare);
    int64_t count = 0;
    const fast_compared *lines = fast_compare_lines(compare, &count);

    fprintf(file, "%lld way%s of training", (long long)count, count == 1 ? "" : "s");
    for (int64_t i = 0; job && job[i]; i++)
        fprintf(file, "%s%s", i ? ", " : ": ", job[i]);
    if (budget[0])
        fprintf(file, "\nevery run ends after %s", budget);
    fprintf(file, "\neach with %lld trial%s to tune it and %lld seed%s: %lld runs\n",
            (long long)lines->trial_count, lines->trial_count == 1 ? "" : "s",
            (long long)lines->run_count, lines->run_count == 1 ? "" : "s",
            (long long)(count * (lines->trial_count + lines->run_count)));
}

/* True if this build has a run store. */
static bool has_store(void)
{
    int64_t count = 0;
    const fast_feature *features = fast_feature_list(&count);

    for (int64_t i = 0; i < count; i++)
        if (strcmp(features[i].name, "SQLite") == 0)
            return features[i].present;
    return false;
}

/* Where the runs are stored, and how to continue a comparison that was stopped: the same command
 * with its --name, by which finished runs are found in the store and not repeated.
 *
 *   runs stored as compare-20261116-083352-26727
 */
static void say_stored(const fast_compare *compare, const char *command, bool stopped)
{
    const char *name = fast_compare_name(compare);

    if (!name || !has_store())
        return;
    fprintf(stderr, "runs stored as %s\n", name);
    if (stopped)
        fprintf(stderr, "continue with: %s%s%s\n", command,
                strstr(command, " --name") ? "" : " --name ",
                strstr(command, " --name") ? "" : name);
}

/* The cost of tuning: trials that were stopped early cost the samples that they used.
 *
 *   tuning took 28 trials, 21 of them stopped early, and 94,112 samples; the runs took 153,664
 */
static void say_cost(const fast_compare *compare)
{
    int64_t count = 0, trials = 0, stopped = 0;
    const fast_compared *lines = fast_compare_lines(compare, &count);
    double samples, all, seconds;
    char used[32], runs[32];

    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < lines[i].trial_count; k++, trials++)
            stopped += strcmp(lines[i].trials[k].status, "stopped") == 0;
    if (trials == 0)
        return;
    fast_compare_cost(compare, true, &samples, &seconds);
    fast_compare_cost(compare, false, &all, &seconds);
    cli_group_digits((int64_t)samples, used);
    cli_group_digits((int64_t)all, runs);
    fprintf(stderr, "tuning took %lld trials", (long long)trials);
    if (stopped > 0)
        fprintf(stderr, ", %lld of them stopped early,", (long long)stopped);
    fprintf(stderr, " and %s samples; the runs took %s\n", used, runs);
}

/* Everything that is told at the end. Curves need a terminal: a file or a pipe gets the table
 * and the verdict alone. --report writes the HTML page in every case. */
static int show_result(const fast_compare *compare, const compare_line *line, const char *command)
{
    int64_t count = 0;
    const fast_compared *lines = fast_compare_lines(compare, &count);
    cli_page page;

    if (line->json) {
        for (int64_t i = 0; i < count; i++)
            print_json(&lines[i]);
        const fast_err err = fast_compare_json(compare, stdout);
        if (err)
            return cli_fail_err(err);
    } else {
        cli_compare_table(compare, stdout);
        if (isatty(STDOUT_FILENO))
            cli_plot(lines, count, fast_compare_target(compare), stdout);
        cli_page_init(&page, stdout);
        putchar('\n');
        cli_page_text(&page, 0, fast_compare_verdict(compare));
    }
    if (line->report[0]) {
        const fast_err err = fast_compare_report(compare, line->report, command);
        if (err)
            return cli_fail_err(err);
        if (!line->quiet)
            fprintf(stderr, "report written to %s\n", line->report);
    }
    for (int64_t i = 0; i < count; i++)
        if (lines[i].shown)
            return CLI_DONE;
    return CLI_FAILED;
}

/* Hours of runs must not end with a report that has no place. What is there stays. */
static int check_report(const char *path)
{
    if (!path[0])
        return CLI_DONE;
    const bool there = access(path, F_OK) == 0;
    FILE *file = fopen(path, "ab");
    if (!file)
        return cli_fail(CLI_USAGE, "cannot write \"%s\": %s", path, strerror(errno));
    fclose(file);
    if (!there)
        remove(path);
    return CLI_DONE;
}

/* Open the comparison, run it and show the result. A canceled one shows what there is and exits
 * with CLI_CANCELED. */
static int compare_all(const compare_line *line, const char *command)
{
    char program[4096];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    fast_compare *compare = NULL;
    const bool quiet = line->quiet || line->progress_json;
    compare_show show = { .quiet = quiet, .said = -1 };
    int code = check_report(line->report);

    if (code != CLI_DONE)
        return code;
    program[length > 0 ? length : 0] = '\0';
    const fast_compare_config config = {
        .program = length > 0 ? program : NULL,
        .options = (const char *const *)line->options.items,
        .tune = (const char *const *)line->tune.items,
        .seeds = line->seeds,
        .jobs = line->jobs,
        .budget = line->budget,
        .searcher = line->searcher,
        .changes = !line->unchanged,
        .command = command,
    };
    fast_err err = fast_compare_open(&config, &compare);
    if (err)
        return cli_fail_err(err);
    if (line->progress_json)
        show.json = compare;
    cli_on_interrupt(cancel_compare, compare);
    if (!quiet)
        say_plan(compare, line->budget, stderr);
    cli_bar_init(&show.bar, stderr);
    fast_compare_watch(compare, on_progress, &show);
    err = fast_compare_run(compare);
    cli_on_interrupt(NULL, NULL);
    cli_bar_clear(&show.bar);
    if (err && err != FAST_ECANCELED) {
        code = cli_fail_err(err);
    } else {
        code = show_result(compare, line, command);
        if (!quiet)
            say_cost(compare);
        if (!quiet)
            say_stored(compare, command, err != FAST_OK);
        if (err)
            code = CLI_CANCELED;
    }
    fast_compare_close(compare);
    return code;
}

/* The command `fast compare`. Its words, quoted for a shell, are part of the report. */
int cli_compare(int argc, char **argv)
{
    compare_line line = { .report = "", .budget = "" };
    char *command = NULL;
    size_t size = 0;
    FILE *text = open_memstream(&command, &size);
    int code = text ? cli_flags_read(cli_command_find("compare"), argc, argv, set_flag, &line)
                    : cli_fail(CLI_FAILED, "out of memory");

    for (int i = 0; text && i < argc; i++) {
        fputs(i ? " " : "fast ", text);
        cli_put_quoted(text, argv[i]);
    }
    if (text && fclose(text) == 0 && code == CLI_DONE)
        code = compare_all(&line, command);
    free(command);
    cli_list_free(&line.options);
    cli_list_free(&line.tune);
    return code == CLI_HELPED ? CLI_DONE : code;
}
