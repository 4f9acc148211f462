/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fast runs show` and `fast runs compare`: one run with all that is kept of it, and several side
 * by side, of whose options only those are shown that differ.
 *
 * Options are a flat JSON object of texts and numbers, which the store has checked; here it is read
 * pair by pair.
 */
#include "cmd_runs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS_MAX = 20, PAIRS_MAX = 256, KEY_MAX = 64, VALUE_MAX = 512 };

/* One member of an object. */
typedef struct pair {
    char key[KEY_MAX];
    char value[VALUE_MAX];
} pair;

/* Read a JSON string or number at `at` into `text`, cut where it does not fit. Returns what follows
 * it. Escapes of other characters than quotes and backslashes stay as they are. */
static const char *read_value(const char *at, char *text, size_t size)
{
    const bool quoted = *at == '"';
    size_t used = 0;

    at += quoted;
    while (*at && (quoted ? *at != '"' : !strchr(",}] ", *at))) {
        if (quoted && *at == '\\' && (at[1] == '"' || at[1] == '\\' || at[1] == '/'))
            at++;
        else if (quoted && *at == '\\' && at[1]) {
            if (used + 1 < size)
                text[used++] = *at;
            at++;
        }
        if (used + 1 < size)
            text[used++] = *at;
        at++;
    }
    text[used] = '\0';
    return at + (quoted && *at == '"');
}

/* The members of a flat object; what is nested is left out. Returns their count. */
static int read_pairs(const char *json, pair *pairs, int count_max)
{
    int count = 0;
    const char *at = json && json[0] == '{' ? json + 1 : "";

    while (*at == '"' && count < count_max) {
        pair *p = &pairs[count];
        at = read_value(at, p->key, sizeof p->key);
        at += strspn(at, ": ");
        if (*at == '{' || *at == '[')
            break;
        at = read_value(at, p->value, sizeof p->value);
        at += strspn(at, ", ");
        count++;
    }
    return count;
}

static void put_pair(cli_page *page, const char *name, const char *value)
{
    cli_page_row(page, 2, 22, name, value);
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
        if (strcmp(value, "-") != 0)
            put_pair(page, columns[i].name, value);
        if (strcmp(columns[i].name, last) == 0)
            break;
    }
}

/* Rows of other tables, under the names of their columns. */
typedef struct show_rows {
    cli_page *page;
    const char *title; /* before the first row; NULL once it is written */
    fast_store_table table;
    int64_t count; /* of rows */
} show_rows;

enum { ROWS_SHOWN = 40 };

/* Columns of a table of a run are as wide as their names, and at least as a number. */
static int width_of(const fast_column *column)
{
    const int length = (int)strlen(column->name);
    const int least = column->kind == FAST_COLUMN_TEXT ? 10 : 7;
    return length > least ? length : least;
}

static void put_names(const cli_page *page, const fast_column *columns, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        fprintf(page->out, "  %*s", width_of(&columns[i]), columns[i].name);
    fputc('\n', page->out);
}

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
    for (int64_t i = 0; i < count; i++) {
        char text[CLI_SAFE_MAX];
        fprintf(rows->page->out, "  %*s", width_of(&columns[i]),
                cli_column_text(&columns[i], row, text));
    }
    fputc('\n', rows->page->out);
    return FAST_OK;
}

static fast_err on_tag(void *ctx, const void *row)
{
    show_rows *rows = ctx;
    const fast_stored_tag *tag = row;
    char text[CLI_SAFE_MAX];
    fprintf(rows->page->out, "%s%s",
            rows->count++ ? ", " : "\nTags: ", cli_text_safe(tag->tag, 64, text));
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
    return err;
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

/* The table of a comparison: a name, then a cell for each run. */
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

static const char *pair_value(const pair *pairs, int count, const char *key)
{
    for (int i = 0; i < count; i++)
        if (strcmp(pairs[i].key, key) == 0)
            return pairs[i].value;
    return "-";
}

/* The options that are not the same in all runs. */
static int put_options(cli_page *page, const fast_stored_run *runs, int count)
{
    static const char *const apart[] = { "store", "name", "batch_of", NULL };
    pair *pairs = calloc((size_t)count * PAIRS_MAX, sizeof *pairs);
    int counts[RUNS_MAX] = { 0 };
    int shown = 0;

    if (!pairs)
        return cli_fail(CLI_FAILED, "out of memory");
    for (int i = 0; i < count; i++)
        counts[i] = read_pairs(runs[i].options, pairs + i * PAIRS_MAX, PAIRS_MAX);
    for (int k = 0; k < counts[0]; k++) {
        const char *cells[RUNS_MAX];
        const char *key = pairs[k].key;
        bool same = true;
        for (int i = 0; apart[i]; i++)
            key = key && strcmp(key, apart[i]) == 0 ? NULL : key;
        for (int i = 0; key && i < count; i++) {
            cells[i] = pair_value(pairs + i * PAIRS_MAX, counts[i], key);
            cells[i] = cells[i][0] ? cells[i] : "-";
            same = same && strcmp(cells[i], cells[0]) == 0;
        }
        if (!key || same)
            continue;
        if (shown++ == 0)
            cli_page_title(page, "Options that differ");
        char safe[CLI_SAFE_MAX];
        put_cells(page, cli_text_safe(key, 18, safe), cells, count);
    }
    if (shown == 0)
        fprintf(page->out, "\nThe options are the same.\n");
    free(pairs);
    return CLI_DONE;
}

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

static int put_comparison(const fast_stored_run *runs, int count)
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
    const int code = put_options(&page, runs, count);
    if (code == CLI_DONE)
        put_results(&page, runs, count);
    return code;
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
        code = put_comparison(runs, count);
    for (int i = 0; i < got; i++)
        cli_run_free(&runs[i]);
    return code;
}
