/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fast runs`: the runs of the store (docs/runs.md). Without a word it lists them, newest first;
 * the words show, compare, tag, untag, export and delete take numbers of runs. Everything but tag,
 * untag and delete opens the store to read, which disturbs no run that writes.
 *
 *     run status      started     what           model     workers accuracy     time
 *       2 done        11-16 08:33 momentum:wei.. mlp             1    9.35%   0.06 s
 *       1 done        11-16 08:33 allreduce      mlp             2   26.20%   0.32 s
 *
 * The table has eight columns with fixed widths, but for "what", which takes the columns that the
 * page has beyond 66. The number of the run, workers, accuracy and time are aligned on the right.
 * Longer texts are cut and end in "..". "what" is the first that a run has of its name, system,
 * strategy and optimizer. A date less than 300 days away is shown without its year; "-" stands for
 * a value that was not measured.
 *
 * Rows go to standard output; "20 of 57 runs; --limit 0 shows all", "no runs" and the question of
 * delete to standard error. --limit is 20 by default, and all runs with --json.
 *
 * Exit codes: 0, also for an empty list; 1 if the user answers no or the store fails; 2 for a wrong
 * command line or a run that does not exist.
 */
#include "cmd_runs.h"
#include "cli_tables.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { NAME_MIN = 14, WIDE = 80, IDS_MAX = 1000, LIMIT = 20, YEAR_S = 300 * 86400 };

/* One command line, read. */
typedef struct runs_line {
    const char *verb;      /* "list", "show", ... */
    int64_t ids[IDS_MAX];  /* of runs */
    int id_count;          /* number of ids */
    const char *word;      /* tag, untag: the tag */
    const char *store;     /* path; NULL: the usual one */
    fast_store_query what; /* which runs */
    bool limited;          /* --limit was given */
    bool json;             /* one object a line */
    bool csv;              /* export: else JSON lines */
    bool yes;              /* delete: do not ask */
} runs_line;

static const char *const verbs[] = {
    "list", "show", "compare", "tag", "untag", "export", "delete"
};
enum { VERB_COUNT = sizeof verbs / sizeof verbs[0] };

/* Names of verbs, for fast_text_nearest(). */
static const char *verb_at(const void *ctx, int64_t i)
{
    (void)ctx;
    return verbs[i];
}

/* A number from 0 on, or -1. */
static int64_t read_number(const char *text)
{
    char *end = NULL;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && !*end && !errno ? value : -1;
}

/* A word: what to do, then numbers of runs, then perhaps a tag. A number that is repeated counts
 * once. Errors name the next step:
 *
 *   fast: say what to do with run 17: fast runs show 17
 *   fast: no "shw"; did you mean "show"?
 */
static int set_word(runs_line *line, const char *word)
{
    if (!line->verb) {
        for (int i = 0; i < VERB_COUNT; i++)
            if (strcmp(verbs[i], word) == 0)
                line->verb = verbs[i];
        if (line->verb)
            return CLI_DONE;
        if (read_number(word) >= 0)
            return cli_fail(CLI_USAGE, "say what to do with run %s: fast runs show %s", word, word);
        const char *nearest = fast_text_nearest(word, verb_at, NULL, VERB_COUNT);
        return nearest ? cli_fail(CLI_USAGE, "no \"%s\"; did you mean \"%s\"?", word, nearest)
                       : cli_fail(CLI_USAGE, "no \"%s\"; fast help runs lists what there is", word);
    }
    const int64_t id = read_number(word);
    const bool tags = strcmp(line->verb, "tag") == 0 || strcmp(line->verb, "untag") == 0;
    if (id < 0 && tags && !line->word && line->id_count > 0) {
        line->word = word;
        return CLI_DONE;
    }
    if (id < 0)
        return cli_fail(CLI_USAGE, "\"%s\" is not the number of a run", word);
    if (line->id_count == IDS_MAX)
        return cli_fail(CLI_USAGE, "more than %d runs", IDS_MAX);
    for (int i = 0; i < line->id_count; i++)
        if (line->ids[i] == id)
            return CLI_DONE;
    line->ids[line->id_count++] = id;
    return CLI_DONE;
}

/* Take one flag of the command line, or a word that is no flag (option NULL), for
 * cli_flags_read(). */
static int set_flag(void *ctx, const fast_option *option, const char *value)
{
    runs_line *line = ctx;
    if (!option)
        return set_word(line, value);
    const struct {
        const char *name;
        const char **text;
        bool *flag;
    } flags[] = {
        { "store", &line->store, NULL },        { "where", &line->what.where, NULL },
        { "search", &line->what.search, NULL }, { "tag", &line->what.tag, NULL },
        { "status", &line->what.status, NULL }, { "sort", &line->what.sort, NULL },
        { "json", NULL, &line->json },          { "yes", NULL, &line->yes },
    };
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        if (strcmp(flags[i].name, option->name) != 0)
            continue;
        if (flags[i].text)
            *flags[i].text = value;
        else
            *flags[i].flag = strcmp(value, "yes") == 0;
        return CLI_DONE;
    }
    if (strcmp(option->name, "format") == 0) {
        line->csv = strcmp(value, "csv") == 0;
        return line->csv || strcmp(value, "jsonl") == 0
                   ? CLI_DONE
                   : cli_fail(CLI_USAGE, "--format is csv or jsonl, not \"%s\"", value);
    }
    int64_t *number = strcmp(option->name, "offset") == 0 ? &line->what.offset : &line->what.limit;
    *number = read_number(value);
    line->limited = line->limited || number == &line->what.limit;
    return *number >= 0 ? CLI_DONE
                        : cli_fail(CLI_USAGE, "--%s must be a number from 0 on, not \"%s\"",
                                   option->name, value);
}

/* The table under way. */
typedef struct runs_table {
    cli_page page; /* where the table goes */
    int64_t count; /* of rows */
    bool json;     /* instead */
} runs_table;

/* Print a cell of the table, padded to its width on the left or on the right. */
static void put_cell(FILE *out, const char *text, int width, bool right)
{
    char safe[CLI_SAFE_MAX];
    const char *cell = cli_text_safe(text, width, safe);
    int columns = 0;

    for (const char *c = cell; *c; c++)
        columns += ((unsigned char)*c & 0xc0) != 0x80;
    fprintf(out, "%*s%s%*s", right ? width - columns : 0, "", cell, right ? 0 : width - columns,
            "");
}

/* One row. The name takes the rest of the page; where that is too little, the date, the workers and
 * the model are left out, in this order. */
static void put_row(const cli_page *page, const char *const cells[8])
{
    static const int order[3] = { 2, 5, 4 };
    int widths[8] = { 5, 11, 11, 0, 9, 7, 8, 8 };
    bool omitted[8] = { false };
    int name = page->width;

    if (page->width > WIDE) /* half of the rest is the model's */
        widths[4] += (page->width - WIDE) / 2;
    for (int i = 0; i < 8; i++)
        name -= widths[i] + (i > 0);
    for (int i = 0; i < 3 && name < NAME_MIN; i++) {
        omitted[order[i]] = true;
        name += widths[order[i]] + 1;
    }
    for (int i = 0; i < 8; i++) {
        if (omitted[i])
            continue;
        fputs(i ? " " : "", page->out);
        put_cell(page->out, cells[i], widths[i] ? widths[i] : name, i == 0 || i > 4);
    }
    fputc('\n', page->out);
}

/* Take one run of the list: its row of the table, or its object. */
static fast_err on_run(void *ctx, const void *row)
{
    runs_table *table = ctx;
    const fast_stored_run *run = row;
    char id[32], date[CLI_VALUE_MAX], accuracy[CLI_VALUE_MAX], took[CLI_VALUE_MAX], workers[32];

    if (table->json) {
        cli_row_json(FAST_STORE_RUNS, 0, row, table->page.out);
        return FAST_OK;
    }
    if (table->count++ == 0)
        put_row(&table->page, (const char *const[]){ "run", "status", "started", "what", "model",
                                                     "workers", "accuracy", "time" });
    snprintf(id, sizeof id, "%lld", (long long)run->id);
    snprintf(workers, sizeof workers, "%lld", (long long)run->workers);
    cli_value_text("created", run->created, date);
    /* Without the year, unless it is another one. */
    const bool recent = strlen(date) == 16 && fabs((double)time(NULL) - run->created) < YEAR_S;
    cli_value_text("test_accuracy", run->test_accuracy, accuracy);
    cli_value_text("time_s", run->time_s, took);
    const char *what = run->name       ? run->name
                       : run->system   ? run->system
                       : run->strategy ? run->strategy
                                       : run->optimizer;
    put_row(&table->page,
            (const char *const[]){ id, run->status, recent ? date + 5 : date, what, run->model,
                                   run->workers < 0 ? "-" : workers, accuracy, took });
    return FAST_OK;
}

/* `fast runs`: the newest runs, or those that a query finds. */
static int list_runs(fast_store *store, runs_line *line)
{
    runs_table table = { .json = line->json };
    int64_t total = 0;

    cli_page_init(&table.page, stdout);
    if (!line->limited)
        line->what.limit = line->json ? 0 : LIMIT;
    const fast_err err = fast_store_list(store, &line->what, on_run, &table, &total);
    if (err)
        return cli_fail_err(err);
    if (line->json)
        return CLI_DONE;
    if (table.count < total)
        fprintf(stderr, "%lld of %lld runs; --limit 0 shows all\n", (long long)table.count,
                (long long)total);
    else if (total == 0)
        fprintf(stderr, "no runs\n");
    return CLI_DONE;
}

/* Whether all of the runs can be changed: a mistake in the last number changes none of them. */
static int check_runs(fast_store *store, const runs_line *line)
{
    for (int i = 0; i < line->id_count; i++) {
        fast_stored_run run;
        const int code = cli_run_get(store, line->ids[i], &run);
        if (code != CLI_DONE)
            return code;
        const bool runs = strcmp(run.status, "running") == 0;
        cli_run_free(&run);
        if (runs && strcmp(line->verb, "delete") == 0)
            return cli_fail(CLI_USAGE, "run %lld still runs; stop it first",
                            (long long)line->ids[i]);
    }
    return CLI_DONE;
}

/* `fast runs tag` and `untag`. */
static int change_tags(fast_store *store, const runs_line *line)
{
    const bool add = strcmp(line->verb, "tag") == 0;
    if (!line->word)
        return cli_fail(CLI_USAGE, "give a tag after the runs: fast runs %s 17 good", line->verb);
    const int code = check_runs(store, line);
    if (code != CLI_DONE)
        return code;
    for (int i = 0; i < line->id_count; i++) {
        const fast_err err = add ? fast_store_tag(store, line->ids[i], line->word)
                                 : fast_store_untag(store, line->ids[i], line->word);
        if (err)
            return cli_fail_err(err);
    }
    return CLI_DONE;
}

/* Ask, unless told not to; without a terminal nobody can answer. */
static int may_delete(const runs_line *line)
{
    if (line->yes)
        return CLI_DONE;
    if (!isatty(0))
        return cli_fail(CLI_USAGE, "to delete without being asked, give --yes");
    fprintf(stderr, "delete %d run%s with all they measured? [y/N] ", line->id_count,
            line->id_count == 1 ? "" : "s");
    char answer[16] = "";
    if (fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y'))
        return CLI_DONE;
    fprintf(stderr, "nothing was deleted\n");
    return CLI_FAILED;
}

/* `fast runs delete`: all numbers are checked, and the user is asked, before the first run is
 * deleted. */
static int delete_runs(fast_store *store, const runs_line *line)
{
    int code = check_runs(store, line);
    if (code == CLI_DONE)
        code = may_delete(line);
    if (code != CLI_DONE)
        return code;
    for (int i = 0; i < line->id_count; i++) {
        const fast_err err = fast_store_delete(store, line->ids[i]);
        if (err)
            return cli_fail_err(err);
    }
    return CLI_DONE;
}

/* Carry out the verb on an open store. */
static int do_verb(fast_store *store, runs_line *line)
{
    const char *verb = line->verb;

    if (strcmp(verb, "list") == 0)
        return line->id_count ? cli_fail(CLI_USAGE, "list takes no numbers; fast runs show %lld",
                                         (long long)line->ids[0])
                              : list_runs(store, line);
    if (strcmp(verb, "export") == 0)
        return cli_runs_export(store, &line->what, line->ids, line->id_count, line->csv);
    if (strcmp(verb, "compare") == 0)
        return line->id_count < 2 ? cli_fail(CLI_USAGE, "give two runs or more to compare")
                                  : cli_runs_compare(store, line->ids, line->id_count, line->json);
    if (line->id_count == 0)
        return cli_fail(CLI_USAGE, "give the number of a run: fast runs %s 17", verb);
    if (strcmp(verb, "delete") == 0)
        return delete_runs(store, line);
    if (strcmp(verb, "show") != 0)
        return change_tags(store, line);
    for (int i = 0; i < line->id_count; i++) {
        const int code = cli_runs_show(store, line->ids[i], line->json);
        if (code != CLI_DONE)
            return code;
    }
    return CLI_DONE;
}

/* The command `fast runs`. A store that is to be changed is opened to read first, so that a wrong
 * path is an error and does not create an empty store. */
int cli_runs(int argc, char **argv)
{
    static runs_line line;
    line = (runs_line){ .csv = true };
    int code = cli_flags_read(cli_command_find("runs"), argc, argv, set_flag, &line);
    if (code != CLI_DONE)
        return code == CLI_HELPED ? CLI_DONE : code;
    if (!line.verb)
        line.verb = "list";
    const bool write = strcmp(line.verb, "tag") == 0 || strcmp(line.verb, "untag") == 0 ||
                       strcmp(line.verb, "delete") == 0;
    fast_store *store = NULL;
    fast_err err = fast_store_open(line.store, false, &store);
    if (err == FAST_ENOENT && strcmp(line.verb, "list") == 0 && !line.store) {
        if (!line.json)
            fprintf(stderr, "no runs are stored yet; fast train stores each\n");
        return CLI_DONE;
    }
    if (!err && write) { /* it exists: now to be changed */
        fast_store_close(store);
        err = fast_store_open(line.store, true, &store);
    }
    if (err)
        return cli_fail_err(err);
    code = do_verb(store, &line);
    fast_store_close(store);
    return code;
}
