/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenMetrics 1.0 of runs. A family is its description and its samples:
 *
 *     # TYPE fast_run_sent_bytes counter
 *     # UNIT fast_run_sent_bytes bytes
 *     # HELP fast_run_sent_bytes Sent by all actors.
 *     fast_run_sent_bytes_total{run="7"} 1048576
 *
 * Counters end in _total; a family with a unit has it in its name; the text ends with # EOF. What
 * describes a run is one info sample of it, and its status a set of states of which one is 1, so
 * that no label of a measurement ever changes. What was not measured has no sample.
 */
#include "serve/scrape.h"

#include "base/utf8.h"
#include "serve/server.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Types, as OpenMetrics writes them. */
typedef enum scrape_type { INFO, STATE, COUNTER, GAUGE } scrape_type;
static const char *const type_names[] = { "info", "stateset", "counter", "gauge" };
static const char *const states[] = { "running",  "done",     "target", "patience",
                                      "canceled", "diverged", "failed", "interrupted" };

/* All families, in the order in which they are written. A new column of the store needs a row here
 * to be scraped. */
static const struct {
    const char *name;   /* of the family */
    scrape_type type;   /* its type */
    const char *unit;   /* its last word; or NULL */
    const char *help;   /* a sentence */
    const char *column; /* of the run's row; NULL for INFO */
} families[FAST_SCRAPE_FAMILIES] = {
    { "fast_run", INFO, NULL, "What the run is.", NULL },
    { "fast_run_status", STATE, NULL, "How the run is doing.", "status" },
    { "fast_run_created_seconds", GAUGE, "seconds", "Unix time at which it began.", "created" },
    { "fast_run_finished_seconds", GAUGE, "seconds", "Unix time at which it ended.", "finished" },
    { "fast_run_steps", COUNTER, NULL, "Steps taken.", "steps" },
    { "fast_run_planned_steps", GAUGE, NULL, "Steps in all.", "step_count" },
    { "fast_run_epochs", COUNTER, NULL, "Epochs finished.", "epoch" },
    { "fast_run_samples", COUNTER, NULL, "Samples seen.", "samples" },
    { "fast_run_sent_bytes", COUNTER, "bytes", "Sent by all actors.", "bytes_sent" },
    { "fast_run_loss", GAUGE, NULL, "Training loss.", "loss" },
    { "fast_run_train_accuracy_ratio", GAUGE, "ratio", "Training accuracy.", "train_accuracy" },
    { "fast_run_test_loss", GAUGE, NULL, "Loss of the last evaluation.", "test_loss" },
    { "fast_run_test_accuracy_ratio", GAUGE, "ratio", "Accuracy of the last evaluation.",
      "test_accuracy" },
    { "fast_run_samples_per_second", GAUGE, NULL, "Samples trained a second.", "samples_per_s" },
    { "fast_run_time_seconds", GAUGE, "seconds", "Time of training, virtual on sim.", "time_s" },
    { "fast_run_wall_time_seconds", GAUGE, "seconds", "Time by the machine's clock.",
      "wall_time_s" },
    { "fast_run_target_seconds", GAUGE, "seconds", "Time until the target was reached.",
      "time_to_target_s" },
    { "fast_run_staleness_updates", GAUGE, "updates", "Mean staleness of applied updates.",
      "staleness_mean" },
    { "fast_run_divergence", GAUGE, NULL, "Distance of the replicas from their mean.",
      "divergence" },
    { "fast_run_dropped_rows", COUNTER, "rows", "Rows that were not written to the store.",
      "dropped" },
};

/* Columns that describe a run. */
static const char *const info_columns[] = { "name",      "model",    "data",    "system",
                                            "strategy",  "topology", "codec",   "optimizer",
                                            "transport", "cluster",  "workers", "seed",
                                            "version" };

/* A label's value: backslash, quote and line feed escaped, bytes that are not UTF-8 replaced. */
static void put_label(fast_page *text, const char *name, const char *value)
{
    size_t left = strlen(value);

    if (text->size > 0 && text->bytes[text->size - 1] != '{')
        fast__page_add(text, ",");
    fast__page_add(text, name);
    fast__page_add(text, "=\"");
    while (left > 0) {
        const int length = fast__utf8_length(value, left);

        if (*value == '\\' || *value == '"' || *value == '\n')
            fast__page_add(text, *value == '\n' ? "\\n" : *value == '"' ? "\\\"" : "\\\\");
        else if (length == 0)
            fast__page_add(text, "\xef\xbf\xbd");
        else
            fast__page_put(text, value, (size_t)length);
        value += length > 0 ? length : 1;
        left -= (size_t)(length > 0 ? length : 1);
    }
    fast__page_add(text, "\"");
}

/* Return the column of a name, which must exist: the table of families is checked by use in every
 * test. */
static const fast_column *find_column(const char *name)
{
    int64_t count;
    const fast_column *columns = fast_store_columns(FAST_STORE_RUNS, &count);

    while (count > 0 && strcmp(columns->name, name) != 0) {
        columns++;
        count--;
    }
    FAST_ASSERT(count > 0);
    return columns;
}

/* The number in a column; NAN if it has no value. */
static double number_of(const fast_column *column, const fast_stored_run *run)
{
    const char *field = (const char *)run + column->offset;

    if (column->kind == FAST_COLUMN_INT) {
        const int64_t value = *(const int64_t *)(const void *)field;

        return value == -1 ? NAN : (double)value;
    }
    return *(const double *)(const void *)field;
}

/* The sample's name and the label of its run; the brace stays open where `more` labels follow. */
static void put_head(fast_page *text, const char *name, const char *suffix, int64_t run, bool more)
{
    char id[24];

    fast__page_add(text, name);
    fast__page_add(text, suffix);
    if (run < 0 && !more)
        return;
    fast__page_add(text, "{");
    snprintf(id, sizeof id, "%lld", (long long)run);
    if (run >= 0)
        put_label(text, "run", id);
    if (!more)
        fast__page_add(text, "}");
}

/* The info sample of a run: all that describes it, as labels. Values that are not set are left
 * out. */
static void put_info(fast_page *text, const char *name, const fast_stored_run *run)
{
    put_head(text, name, "_info", run->id, true);
    for (size_t i = 0; i < sizeof info_columns / sizeof info_columns[0]; i++) {
        const fast_column *column = find_column(info_columns[i]);
        const char *field = (const char *)run + column->offset;
        const double number = column->kind == FAST_COLUMN_TEXT ? NAN : number_of(column, run);
        const char *value =
            column->kind == FAST_COLUMN_TEXT ? *(const char *const *)(const void *)field : NULL;
        char digits[32];

        snprintf(digits, sizeof digits, "%.0f", number);
        if (isfinite(number))
            value = digits;
        if (value && *value)
            put_label(text, column->name, value);
    }
    fast__page_add(text, "} 1\n");
}

/* The states of a run, one sample for each; the current one is 1. */
static void put_states(fast_page *text, const char *name, const fast_stored_run *run)
{
    for (size_t i = 0; run->status && i < sizeof states / sizeof states[0]; i++) {
        put_head(text, name, "", run->id, true);
        put_label(text, name, states[i]);
        fast__page_add(text, strcmp(run->status, states[i]) == 0 ? "} 1\n" : "} 0\n");
    }
}

/* Write a number with as few digits as read back to the same bits. */
static void put_number(fast_page *text, double value)
{
    char digits[40];

    if (isinf(value)) {
        fast__page_add(text, value > 0 ? "+Inf" : "-Inf");
        return;
    }
    /* 15 digits are enough for most numbers, 17 for all. */
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value)
            break;
    }
    fast__page_add(text, digits);
}

void fast__scrape_add(fast_scrape *scrape, const fast_stored_run *run)
{
    for (int i = 0; i < FAST_SCRAPE_FAMILIES; i++) {
        fast_page *text = &scrape->samples[i];
        const scrape_type type = families[i].type;

        if (type == INFO) {
            put_info(text, families[i].name, run);
        } else if (type == STATE) {
            put_states(text, families[i].name, run);
        } else {
            const double value = number_of(find_column(families[i].column), run);

            /* A counter that is not a finite number of things was not measured. */
            if (isnan(value) || (type == COUNTER && (!isfinite(value) || value < 0)))
                continue;
            put_head(text, families[i].name, type == COUNTER ? "_total" : "", run->id, false);
            fast__page_add(text, " ");
            put_number(text, value);
            fast__page_add(text, "\n");
        }
    }
}

void fast__scrape_end(fast_scrape *scrape, fast_page *text)
{
    for (int i = 0; i < FAST_SCRAPE_FAMILIES; i++) {
        fast_page *samples = &scrape->samples[i];

        /* A family without samples is not described either. */
        if (samples->failed)
            text->failed = true;
        if (samples->size > 0) {
            fast__page_format(text, "# TYPE %s %s\n", families[i].name,
                              type_names[families[i].type]);
            if (families[i].unit)
                fast__page_format(text, "# UNIT %s %s\n", families[i].name, families[i].unit);
            fast__page_format(text, "# HELP %s %s\n", families[i].name, families[i].help);
            fast__page_put(text, samples->bytes, samples->size);
        }
        fast__page_fini(samples);
    }
    fast__page_add(text, "# EOF\n");
}

/* Runs of the store, each once. */
typedef struct scrape_reader {
    fast_scrape scrape; /* so far */
    bool running;       /* these are the running ones; they are left out later */
} scrape_reader;

/* Take a run of a list. Running runs come with the first list and are skipped in the second. */
static fast_err read_run(void *ctx, const void *row)
{
    scrape_reader *reader = ctx;
    const fast_stored_run *run = row;

    if (reader->running || strcmp(run->status, "running") != 0)
        fast__scrape_add(&reader->scrape, run);
    return FAST_OK;
}

/* GET /metrics: all running runs, and the recent ones, so that a run's last values can still be
 * scraped after its end. */
void fast__serve_scrape(fast_server *server, fast_http_request *request, int64_t id)
{
    enum { RECENT = 20 };
    scrape_reader reader = { .running = true };
    fast_page text = { .bytes = NULL };
    fast_err err = fast_store_list(
        server->store, &(fast_store_query){ .status = "running", .limit = SERVE_RUNNING_MAX },
        read_run, &reader, NULL);

    (void)id;
    reader.running = false;
    if (!err)
        err = fast_store_list(server->store, &(fast_store_query){ .limit = RECENT }, read_run,
                              &reader, NULL);
    fast__scrape_end(&reader.scrape, &text);
    if (err) {
        fast__page_fini(&text);
        fast__reply_err(request, err);
        return;
    }
    fast__reply(request, 200, FAST_SCRAPE_TYPE, &text);
}
