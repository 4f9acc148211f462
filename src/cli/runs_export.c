/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fast runs export`: runs, or the metrics of some runs, for other programs. CSV as RFC 4180 has
 * it: a line of names, texts in quotes where they need them, nothing where there is no value; or
 * one JSON object a line, null for a missing value.
 *
 *   run,seq,step,epoch,time_s,wall_s,samples,bytes,loss,train_accuracy,...
 *   1,0,0,0,0.00023966600000000001,0.022248497000000002,0,0,,,...
 *
 * CSV has 17 digits, with which a reader gets the very double that was stored; JSON has 9. Lines of
 * CSV end in CR LF. Several runs share one line of names, and their rows begin with the run's
 * number. Without numbers of runs the rows are those of the list: the filters of `fast runs` apply.
 */
#include "cmd_runs.h"

#include <math.h>
#include <string.h>

/* An export under way. */
typedef struct export_rows {
    fast_store_table table; /* whose rows they are */
    int64_t run;            /* whose rows they are; 0 for runs */
    bool csv;               /* else JSON lines */
    bool named;             /* the line of names is written */
} export_rows;

/* Write a field of CSV, quoted where it has to be (RFC 4180). */
static void put_field(FILE *out, const char *text)
{
    if (!text[strcspn(text, ",\"\r\n")]) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

/* Write the value of a column; nothing where it has none. */
static void put_value(FILE *out, const fast_column *column, const void *row)
{
    const void *at = (const char *)row + column->offset;

    if (column->kind == FAST_COLUMN_INT && *(const int64_t *)at != -1)
        fprintf(out, "%lld", (long long)*(const int64_t *)at);
    else if (column->kind == FAST_COLUMN_REAL && isfinite(*(const double *)at))
        fprintf(out, "%.17g", *(const double *)at);
    else if (column->kind == FAST_COLUMN_TEXT && *(const char *const *)at)
        put_field(out, *(const char *const *)at);
}

/* Write one row of the store as a line. */
static fast_err on_row(void *ctx, const void *row)
{
    export_rows *rows = ctx;
    int64_t count = 0;
    const fast_column *columns = fast_store_columns(rows->table, &count);

    if (!rows->csv) {
        cli_row_json(rows->table, rows->run, row, stdout);
        return FAST_OK;
    }
    for (int64_t i = 0; !rows->named && i < count; i++)
        if (columns[i].kind != FAST_COLUMN_JSON)
            printf("%s%s", i ? "," : rows->run ? "run," : "", columns[i].name);
    fputs(rows->named ? "" : "\r\n", stdout);
    rows->named = true;
    if (rows->run)
        printf("%lld,", (long long)rows->run);
    for (int64_t i = 0; i < count; i++) {
        if (columns[i].kind == FAST_COLUMN_JSON) /* a list of runs does not read them */
            continue;
        fputs(i ? "," : "", stdout);
        put_value(stdout, &columns[i], row);
    }
    fputs("\r\n", stdout);
    return FAST_OK;
}

/* A run that does not exist has no metrics, but that is not why. */
static fast_err on_found(void *ctx, const void *row)
{
    (void)ctx;
    (void)row;
    return FAST_OK;
}

int cli_runs_export(fast_store *store, const fast_store_query *query, const int64_t *ids, int count,
                    bool csv)
{
    export_rows rows = { .table = count ? FAST_STORE_METRICS : FAST_STORE_RUNS, .csv = csv };
    fast_err err = FAST_OK;

    if (count == 0)
        err = fast_store_list(store, query, on_row, &rows, NULL);
    for (int i = 0; i < count && !err; i++) {
        rows.run = ids[i];
        err = fast_store_find(store, ids[i], on_found, NULL);
        if (!err)
            err = fast_store_read(store, FAST_STORE_METRICS, ids[i], -1, on_row, &rows);
    }
    return err ? cli_fail_err(err) : CLI_DONE;
}
