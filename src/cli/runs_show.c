/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fast runs show` and `fast runs compare`: one run with all its rows, and several side
 * by side, of whose options only those are shown that differ.
 *
 * Options are a flat JSON object of texts and numbers.
 *
 *   Run 1: done                                       run                1             2
 *     created             2026-11-16 08:33            status             done          done
 *     ...                                             name               -             -
 *   Result
 *     test_accuracy       26.20%                      Options that differ
 *     bytes_sent          53.8 MB                     workers            2             1
 *                                                     steps              40            20
 *   Links
 *      sender  receiver  messages    bytes            Results
 *           0         1        40  26.9 MB            test_accuracy      26.20%        9.35%
 *
 * `show` leaves out columns without a value, and shows the first 40 rows of each table, then "and
 * 12 more". `compare` leaves out results that no run has. With --json both print one object a run,
 * with all columns and options, but without the rows of other tables.
 */
#include "cli_figures.h"
#include "cmd_runs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS_MAX = 20, VALUE_MAX = 512 };

/* An option's value as text: "-" if it has none or it is not one value. */
static void value_text(const json_t *options, const char *key, char text[VALUE_MAX])
{
    const json_t *value = json_object_get(options, key);
    size_t size = 0;

    if (json_is_string(value))
        snprintf(text, VALUE_MAX, "%s", json_string_value(value));
    else if (json_is_number(value))
        size = json_dumpb(value, text, VALUE_MAX - 1, CLI_JSON_FLAGS);
    else
        text[0] = '\0';
    if (size > 0)
        text[size < VALUE_MAX ? size : VALUE_MAX - 1] = '\0';
    if (!text[0])
        snprintf(text, VALUE_MAX, "-");
}

/* Print a name and its value as a row of the page. */
static void put_pair(cli_page *page, const char *name, const char *value)
{
    cli_page_row(page, 2, 22, name, value);
}

/* Is a column a time of the simulated cluster's clock? */
static bool is_virtual(const fast_stored_run *run, const char *column)
{
    return run->transport && strncmp(run->transport, "sim", 3) == 0 &&
           (strcmp(column, "time_s") == 0 || strcmp(column, "time_to_target_s") == 0);
}

/* Columns from `first` to `last` that have a value. */
static void put_columns(cli_page *page, const fast_stored_run *run, const char *first,
                        const char *last)
{
    int64_t count = 0;
    const fast_column *columns = fast_store_columns(FAST_STORE_RUNS, &count);
    bool inside = false;

    for (int64_t i = 0; i < count; i++) {
        char text[CLI_SAFE_MAX];
        inside = inside || strcmp(columns[i].name, first) == 0;
        if (!inside)
            continue;
        const char *value = cli_column_text(&columns[i], run, text);
        if (strcmp(value, "-") != 0 && is_virtual(run, columns[i].name))
            snprintf(text + strlen(text), sizeof text - strlen(text), " (virtual)");
        if (strcmp(value, "-") != 0)
            put_pair(page, columns[i].name, value);
        if (strcmp(columns[i].name, last) == 0)
            break;
    }
}

/* Rows of other tables, under the names of their columns. */
typedef struct show_rows {
    cli_page *page;         /* where the rows go */
    const char *title;      /* before the first row; NULL once it is written */
    fast_store_table table; /* whose rows they are */
    int64_t count;          /* of rows */
} show_rows;

enum { ROWS_SHOWN = 40 };

/* Columns of a table of a run are as wide as their names, and at least as a number. */
static int width_of(const fast_column *column)
{
    const int length = (int)strlen(column->name);
    const int least = column->kind == FAST_COLUMN_TEXT ? 10 : 7;
    return length > least ? length : least;
}

/* Print the heads of a table. */
static void put_names(const cli_page *page, const fast_column *columns, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        fprintf(page->out, "  %*s", width_of(&columns[i]), columns[i].name);
    fputc('\n', page->out);
}

/* Print a bucket of the staleness by its range: 0, 1, 2, 3, 4-7, 8-15, ..., 8192+. */
static void put_bucket(const cli_page *page, const fast_column *columns,
                       const fast_stored_staleness *row)
{
    const int64_t last = FAST_STALENESS_BUCKETS - 1;
    const int64_t bucket = row->bucket < last ? row->bucket : last;
    const int64_t low = bucket < 4 ? bucket : (int64_t)1 << (bucket - 2);
    char range[48];

    if (bucket < 4)
        snprintf(range, sizeof range, "%lld", (long long)low);
    else if (bucket < last)
        snprintf(range, sizeof range, "%lld-%lld", (long long)low, (long long)(2 * low - 1));
    else
        snprintf(range, sizeof range, "%lld+", (long long)low);
    fprintf(page->out, "  %*s  %*lld\n", width_of(&columns[0]), range, width_of(&columns[1]),
            (long long)row->updates);
}

/* Print one row of a table. */
static fast_err on_row(void *ctx, const void *row)
{
    show_rows *rows = ctx;
    int64_t count = 0;
    const fast_column *columns = fast_store_columns(rows->table, &count);

    if (rows->count++ >= ROWS_SHOWN)
        return FAST_OK;
    const bool named = rows->title != NULL;
    if (named)
        cli_page_title(rows->page, rows->title);
    rows->title = NULL;
    if (rows->table == FAST_STORE_EVENTS) {
        const fast_stored_event *event = row;
        char kind[CLI_SAFE_MAX], text[CLI_SAFE_MAX], time[CLI_VALUE_MAX], left[160];
        cli_value_text("time_s", event->time_s, time);
        snprintf(left, sizeof left, "%10s  step %-7lld %.20s", time, (long long)event->step,
                 cli_text_safe(event->kind, 20, kind));
        cli_page_row(rows->page, 2, 38, left, cli_text_safe(event->text, 300, text));
        return FAST_OK;
    }
    if (named)
        put_names(rows->page, columns, count);
    if (rows->table == FAST_STORE_STALENESS) {
        put_bucket(rows->page, columns, row);
        return FAST_OK;
    }
    for (int64_t i = 0; i < count; i++) {
        char text[CLI_SAFE_MAX];
        fprintf(rows->page->out, "  %*s", width_of(&columns[i]),
                cli_column_text(&columns[i], row, text));
    }
    fputc('\n', rows->page->out);
    return FAST_OK;
}

/* Print one tag; all tags of a run are one line. */
static fast_err on_tag(void *ctx, const void *row)
{
    show_rows *rows = ctx;
    const fast_stored_tag *tag = row;
    char text[CLI_SAFE_MAX];
    fprintf(rows->page->out, "%s%s",
            rows->count++ ? ", " : "\nTags: ", cli_text_safe(tag->tag, 64, text));
    return FAST_OK;
}

/* Print the note of a run; its lines become one. */
static fast_err on_note(void *ctx, const void *row)
{
    const cli_page *page = ctx;
    char text[CLI_SAFE_MAX];

    fprintf(page->out, "\nNote: %s\n",
            cli_text_safe(((const fast_stored_note *)row)->text, CLI_SAFE_MAX, text));
    return FAST_OK;
}

/* A table's rows under a title, and how many were left out. */
static fast_err put_rows(cli_page *page, fast_store *store, int64_t id, fast_store_table table,
                         const char *title)
{
    show_rows rows = { .page = page, .title = title, .table = table };
    const fast_err err = fast_store_read(store, table, id, -1, on_row, &rows);
    if (!err && rows.count > ROWS_SHOWN)
        fprintf(page->out, "  and %lld more\n", (long long)(rows.count - ROWS_SHOWN));
    return err;
}

/* Print the figures of the test set, which are part of the result. */
static void put_figures(cli_page *page, const fast_stored_run *run)
{
    json_t *result = run->result ? json_loads(run->result, 0, NULL) : NULL;
    const json_t *figures = json_object_get(result, "figures");
    const json_t *best = json_object_get(result, "best_step");

    if (json_is_object(figures)) {
        cli_page_title(page, "Figures of the test set");
        fputs("  ", page->out);
        cli_figures_line(figures, page->out);
        if (json_is_integer(best))
            fprintf(page->out, "\n  best validation at step %lld",
                    (long long)json_integer_value(best));
        fputc('\n', page->out);
        cli_figures_tables(figures, page);
    }
    json_decref(result);
}

/* Print one run with all that is stored of it. */
static fast_err put_run(cli_page *page, fast_store *store, const fast_stored_run *run)
{
    char text[CLI_SAFE_MAX];
    show_rows tags = { .page = page };

    fprintf(page->out, "Run %lld: %s\n", (long long)run->id, cli_text_safe(run->status, 20, text));
    put_columns(page, run, "name", "finished");
    put_columns(page, run, "host", "host");
    put_columns(page, run, "version", "batch_of");
    put_columns(page, run, "error", "error");
    fprintf(page->out, "\n%s\n", cli_text_safe(run->command, CLI_SAFE_MAX, text));
    cli_page_title(page, "Result");
    put_columns(page, run, "epoch", "dropped");
    put_figures(page, run);
    fast_err err = put_rows(page, store, run->id, FAST_STORE_WORKERS, "Actors");
    if (!err)
        err = put_rows(page, store, run->id, FAST_STORE_LINKS, "Links");
    if (!err)
        err = put_rows(page, store, run->id, FAST_STORE_STALENESS, "Staleness of updates");
    if (!err)
        err = put_rows(page, store, run->id, FAST_STORE_EVENTS, "Events");
    if (!err)
        err = fast_store_read(store, FAST_STORE_TAGS, run->id, -1, on_tag, &tags);
    fputs(tags.count ? "\n" : "", page->out);
    return err ? err : fast_store_read(store, FAST_STORE_NOTES, run->id, -1, on_note, page);
}

int cli_runs_show(fast_store *store, int64_t id, bool json)
{
    fast_stored_run run;
    cli_page page;
    int code = cli_run_get(store, id, &run);

    if (code != CLI_DONE)
        return code;
    cli_page_init(&page, stdout);
    if (json) {
        cli_row_json(FAST_STORE_RUNS, 0, &run, stdout);
    } else {
        const fast_err err = put_run(&page, store, &run);
        code = err ? cli_fail_err(err) : CLI_DONE;
    }
    cli_run_free(&run);
    return code;
}

/* The table of a comparison: a name of 18 columns, then a cell for each run. The cells share the
 * page less 20 columns, at least 10 each: many runs make lines longer than the page. */
static void put_cells(const cli_page *page, const char *name, const char *const *cells, int count)
{
    const int width = (page->width - 20) / count - 1 > 10 ? (page->width - 20) / count - 1 : 10;
    char safe[CLI_SAFE_MAX];

    fprintf(page->out, "%-18s", name);
    for (int i = 0; i < count; i++) {
        const char *cell = cli_text_safe(cells[i], width, safe);
        int columns = 0;
        for (const char *c = cell; *c; c++)
            columns += ((unsigned char)*c & 0xc0) != 0x80;
        fprintf(page->out, " %s%*s", cell, i + 1 < count ? width - columns : 0, "");
    }
    fputc('\n', page->out);
}

/* The options that are not equal in all runs. */
static void put_options(cli_page *page, const fast_stored_run *runs, int count)
{
    static const char *const left_out[] = { "store", "name", "batch_of" };
    static char texts[RUNS_MAX][VALUE_MAX];
    json_t *options[RUNS_MAX], *value;
    const char *key;
    int shown = 0;

    for (int i = 0; i < count; i++)
        options[i] = runs[i].options ? json_loads(runs[i].options, 0, NULL) : NULL;
    for (size_t i = 0; i < sizeof left_out / sizeof left_out[0]; i++)
        json_object_del(options[0], left_out[i]);
    json_object_foreach(options[0], key, value)
    {
        const char *cells[RUNS_MAX];
        char safe[CLI_SAFE_MAX];
        bool same = true;

        for (int i = 0; i < count; i++) {
            value_text(options[i], key, texts[i]);
            cells[i] = texts[i];
            same = same && strcmp(cells[i], cells[0]) == 0;
        }
        if (same)
            continue;
        if (shown++ == 0)
            cli_page_title(page, "Options that differ");
        put_cells(page, cli_text_safe(key, 18, safe), cells, count);
    }
    if (shown == 0)
        fprintf(page->out, "\nThe options are the same.\n");
    for (int i = 0; i < count; i++)
        json_decref(options[i]);
}

/* Print the results of several runs side by side. */
static void put_results(cli_page *page, const fast_stored_run *runs, int count)
{
    int64_t column_count = 0;
    const fast_column *columns = fast_store_columns(FAST_STORE_RUNS, &column_count);
    static char texts[RUNS_MAX][CLI_SAFE_MAX];
    bool inside = false;

    cli_page_title(page, "Results");
    for (int64_t k = 0; k < column_count; k++) {
        const char *cells[RUNS_MAX];
        bool any = false;
        inside = inside || strcmp(columns[k].name, "epoch") == 0;
        for (int i = 0; inside && i < count; i++) {
            cells[i] = cli_column_text(&columns[k], &runs[i], texts[i]);
            any = any || strcmp(cells[i], "-") != 0;
        }
        if (any)
            put_cells(page, columns[k].name, cells, count);
        if (strcmp(columns[k].name, "dropped") == 0)
            break;
    }
}

/* Print where the time of a step went, which is part of the result: measured and predicted, and the
 * actor that workers waited for most. */
static void put_steps(cli_page *page, const fast_stored_run *runs, int count)
{
    static const char *const names[] = { "step_s", "predicted_step_s", "wait_s", "waited_for" };
    static char texts[RUNS_MAX][CLI_VALUE_MAX];
    json_t *results[RUNS_MAX];

    for (int i = 0; i < count; i++)
        results[i] = runs[i].result ? json_loads(runs[i].result, 0, NULL) : NULL;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        const char *cells[RUNS_MAX];
        bool any = false;

        for (int i = 0; i < count; i++) {
            const json_t *value = json_object_get(results[i], names[k]);

            if (json_is_number(value))
                snprintf(texts[i], sizeof texts[i], "%.3g ms", 1e3 * json_number_value(value));
            else
                snprintf(texts[i], sizeof texts[i], "%.40s",
                         json_is_string(value) ? json_string_value(value) : "-");
            cells[i] = texts[i];
            any = any || json_is_number(value) || json_is_string(value);
        }
        if (any)
            put_cells(page, names[k], cells, count);
    }
    for (int i = 0; i < count; i++)
        json_decref(results[i]);
}

/* Warn where the batches differ: such runs differ in more than their way of training. */
static void put_batches(cli_page *page, const fast_stored_run *runs, int count)
{
    int few = 0, many = 0;
    char text[256];

    for (int i = 1; i < count; i++) {
        if (runs[i].batch < runs[few].batch)
            few = i;
        if (runs[i].batch > runs[many].batch)
            many = i;
    }
    if (runs[few].batch < 1 || runs[few].batch == runs[many].batch)
        return;
    snprintf(text, sizeof text,
             "The batches differ: run %lld takes %lld samples a worker and step, run %lld %lld, so "
             "they differ in more than their way of training.",
             (long long)runs[few].id, (long long)runs[few].batch, (long long)runs[many].id,
             (long long)runs[many].batch);
    fputc('\n', page->out);
    cli_page_text(page, 0, text);
}

/* Print several runs side by side: who they are, their options, their results. */
static void put_comparison(const fast_stored_run *runs, int count)
{
    cli_page page;
    char ids[RUNS_MAX][32], dates[RUNS_MAX][CLI_VALUE_MAX];
    const char *cells[4][RUNS_MAX] = { { NULL } };

    cli_page_init(&page, stdout);
    for (int i = 0; i < count; i++) {
        snprintf(ids[i], sizeof ids[i], "%lld", (long long)runs[i].id);
        cli_value_text("created", runs[i].created, dates[i]);
        cells[0][i] = ids[i];
        cells[1][i] = runs[i].status;
        cells[2][i] = dates[i];
        cells[3][i] = runs[i].name;
    }
    put_cells(&page, "run", cells[0], count);
    put_cells(&page, "status", cells[1], count);
    put_cells(&page, "started", cells[2], count);
    put_cells(&page, "name", cells[3], count);
    put_options(&page, runs, count);
    put_results(&page, runs, count);
    put_steps(&page, runs, count);
    put_batches(&page, runs, count);
}

int cli_runs_compare(fast_store *store, const int64_t *ids, int count, bool json)
{
    fast_stored_run runs[RUNS_MAX];
    int got = 0;
    int code = CLI_DONE;

    if (count > RUNS_MAX)
        return cli_fail(CLI_USAGE, "compare at most %d runs", RUNS_MAX);
    for (; got < count && code == CLI_DONE; got += code == CLI_DONE)
        code = cli_run_get(store, ids[got], &runs[got]);
    for (int i = 0; json && code == CLI_DONE && i < count; i++)
        cli_row_json(FAST_STORE_RUNS, 0, &runs[i], stdout);
    if (code == CLI_DONE && !json)
        put_comparison(runs, count);
    for (int i = 0; i < got; i++)
        cli_run_free(&runs[i]);
    return code;
}
