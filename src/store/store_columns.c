/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables as data: the columns of every table, with the fields of its row.
 *
 * Statements, lists, JSON and CSV are made from these. A column of the schema that is missing here
 * would never be read, and one that is only here would fail: the tests compare both.
 */
#include "store/store_columns.h"

#include <math.h>
#include <string.h>

/* A field as a column of the same name: its kind decides how it is bound, read and printed. */
#define COLUMN(row, field, kind)                         \
    {                                                    \
#field, FAST_COLUMN_##kind, offsetof(row, field) \
    }
/* A table and its row. */
#define TABLE(name, row)                                                    \
    {                                                                       \
#name, row##_columns, sizeof row##_columns / sizeof *row##_columns, \
            sizeof(fast_stored_##row)                                       \
    }

/* Columns of `runs`, one row for each run. Columns of JSON come last: lists of runs leave them out
 * (store_read.c). */
static const fast_column run_columns[] = {
    COLUMN(fast_stored_run, id, INT),
    COLUMN(fast_stored_run, status, TEXT),
    COLUMN(fast_stored_run, name, TEXT),
    COLUMN(fast_stored_run, created, REAL),
    COLUMN(fast_stored_run, finished, REAL),
    COLUMN(fast_stored_run, pid, INT),
    COLUMN(fast_stored_run, host, TEXT),
    COLUMN(fast_stored_run, boot, TEXT),
    COLUMN(fast_stored_run, version, TEXT),
    COLUMN(fast_stored_run, system, TEXT),
    COLUMN(fast_stored_run, strategy, TEXT),
    COLUMN(fast_stored_run, topology, TEXT),
    COLUMN(fast_stored_run, model, TEXT),
    COLUMN(fast_stored_run, data, TEXT),
    COLUMN(fast_stored_run, transport, TEXT),
    COLUMN(fast_stored_run, cluster, TEXT),
    COLUMN(fast_stored_run, codec, TEXT),
    COLUMN(fast_stored_run, optimizer, TEXT),
    COLUMN(fast_stored_run, lr, REAL),
    COLUMN(fast_stored_run, workers, INT),
    COLUMN(fast_stored_run, batch, INT),
    COLUMN(fast_stored_run, seed, INT),
    COLUMN(fast_stored_run, batch_of, TEXT),
    COLUMN(fast_stored_run, epoch, INT),
    COLUMN(fast_stored_run, steps, INT),
    COLUMN(fast_stored_run, step_count, INT),
    COLUMN(fast_stored_run, samples, INT),
    COLUMN(fast_stored_run, loss, REAL),
    COLUMN(fast_stored_run, train_accuracy, REAL),
    COLUMN(fast_stored_run, test_loss, REAL),
    COLUMN(fast_stored_run, test_accuracy, REAL),
    COLUMN(fast_stored_run, samples_per_s, REAL),
    COLUMN(fast_stored_run, time_s, REAL),
    COLUMN(fast_stored_run, wall_time_s, REAL),
    COLUMN(fast_stored_run, time_to_target_s, REAL),
    COLUMN(fast_stored_run, bytes_sent, INT),
    COLUMN(fast_stored_run, staleness_mean, REAL),
    COLUMN(fast_stored_run, divergence, REAL),
    COLUMN(fast_stored_run, params_hash, TEXT),
    COLUMN(fast_stored_run, weights, TEXT),
    COLUMN(fast_stored_run, trace, TEXT),
    COLUMN(fast_stored_run, dropped, INT),
    COLUMN(fast_stored_run, error, TEXT),
    COLUMN(fast_stored_run, command, TEXT),
    COLUMN(fast_stored_run, options, JSON),
    COLUMN(fast_stored_run, machine, JSON),
    COLUMN(fast_stored_run, result, JSON),
};

/* Columns of `metrics`: one row for each report of progress and each evaluation, numbered by seq
 * from 0. */
static const fast_column metric_columns[] = {
    COLUMN(fast_stored_metric, seq, INT),
    COLUMN(fast_stored_metric, step, INT),
    COLUMN(fast_stored_metric, epoch, REAL),
    COLUMN(fast_stored_metric, time_s, REAL),
    COLUMN(fast_stored_metric, wall_s, REAL),
    COLUMN(fast_stored_metric, samples, INT),
    COLUMN(fast_stored_metric, bytes, INT),
    COLUMN(fast_stored_metric, loss, REAL),
    COLUMN(fast_stored_metric, train_accuracy, REAL),
    COLUMN(fast_stored_metric, test_loss, REAL),
    COLUMN(fast_stored_metric, test_accuracy, REAL),
    COLUMN(fast_stored_metric, samples_per_s, REAL),
    COLUMN(fast_stored_metric, compute_s, REAL),
    COLUMN(fast_stored_metric, exchange_s, REAL),
    COLUMN(fast_stored_metric, wait_s, REAL),
    COLUMN(fast_stored_metric, codec_s, REAL),
    COLUMN(fast_stored_metric, staleness_mean, REAL),
    COLUMN(fast_stored_metric, divergence, REAL),
    COLUMN(fast_stored_metric, validation_loss, REAL),
    COLUMN(fast_stored_metric, validation_accuracy, REAL),
};

/* Columns of `events`: notes, checkpoints and other moments of a run, with their time. */
static const fast_column event_columns[] = {
    COLUMN(fast_stored_event, seq, INT),   COLUMN(fast_stored_event, time_s, REAL),
    COLUMN(fast_stored_event, step, INT),  COLUMN(fast_stored_event, kind, TEXT),
    COLUMN(fast_stored_event, text, TEXT),
};

/* Columns of `workers`: totals of each actor, replaced as the run advances. */
static const fast_column worker_columns[] = {
    COLUMN(fast_stored_worker, rank, INT),          COLUMN(fast_stored_worker, name, TEXT),
    COLUMN(fast_stored_worker, steps, INT),         COLUMN(fast_stored_worker, compute_s, REAL),
    COLUMN(fast_stored_worker, exchange_s, REAL),   COLUMN(fast_stored_worker, wait_s, REAL),
    COLUMN(fast_stored_worker, codec_s, REAL),      COLUMN(fast_stored_worker, bytes_sent, INT),
    COLUMN(fast_stored_worker, messages_sent, INT),
};

/* Columns of `links`: messages and bytes from one actor to another, for the traffic matrix. */
static const fast_column link_columns[] = {
    COLUMN(fast_stored_link, sender, INT),   COLUMN(fast_stored_link, receiver, INT),
    COLUMN(fast_stored_link, messages, INT), COLUMN(fast_stored_link, bytes, INT),
    COLUMN(fast_stored_link, wait_s, REAL),
};

/* Columns of `staleness`: a histogram, one row for each bucket. */
static const fast_column staleness_columns[] = {
    COLUMN(fast_stored_staleness, bucket, INT),
    COLUMN(fast_stored_staleness, updates, INT),
};

/* Columns of `spans`: recent activity of actors, for the timeline; old rows are trimmed. */
static const fast_column span_columns[] = {
    COLUMN(fast_stored_span, seq, INT),    COLUMN(fast_stored_span, actor, INT),
    COLUMN(fast_stored_span, kind, TEXT),  COLUMN(fast_stored_span, start_s, REAL),
    COLUMN(fast_stored_span, end_s, REAL),
};

/* Columns of `tags`: words that users gave a run. */
static const fast_column tag_columns[] = {
    COLUMN(fast_stored_tag, tag, TEXT),
};

/* Columns of `activity`: the whole timeline of an actor, in bins. A row is replaced at each look of
 * the writer; phases of a run have rows of their own, since the actors' clock starts again. */
static const fast_column activity_columns[] = {
    COLUMN(fast_stored_activity, world, INT),    COLUMN(fast_stored_activity, actor, INT),
    COLUMN(fast_stored_activity, start_s, REAL), COLUMN(fast_stored_activity, bin_s, REAL),
    COLUMN(fast_stored_activity, bins, TEXT),
};

/* Columns of `usage`: processor, memory and network over time. Rows come about once a second of the
 * machine's clock, whatever the run does. */
static const fast_column usage_columns[] = {
    COLUMN(fast_stored_usage, seq, INT),         COLUMN(fast_stored_usage, wall_s, REAL),
    COLUMN(fast_stored_usage, cpu, REAL),        COLUMN(fast_stored_usage, machine_cpu, REAL),
    COLUMN(fast_stored_usage, memory, INT),      COLUMN(fast_stored_usage, received_per_s, REAL),
    COLUMN(fast_stored_usage, sent_per_s, REAL),
};

/* Columns of `notes`: words of a user on a run. The first column orders the rows of a table, so it
 * is a number. */
static const fast_column note_columns[] = {
    COLUMN(fast_stored_note, changed, REAL),
    COLUMN(fast_stored_note, text, TEXT),
};

/* Columns of `places`: which part of a split model each worker has. */
static const fast_column place_columns[] = {
    COLUMN(fast_stored_place, worker, INT),  COLUMN(fast_stored_place, replica, INT),
    COLUMN(fast_stored_place, stage, INT),   COLUMN(fast_stored_place, shard, INT),
    COLUMN(fast_stored_place, layers, TEXT), COLUMN(fast_stored_place, params, INT),
};

/* Columns of `passes`: the first passes of micro-batches through each worker's part. */
static const fast_column pass_columns[] = {
    COLUMN(fast_stored_pass, seq, INT),      COLUMN(fast_stored_pass, worker, INT),
    COLUMN(fast_stored_pass, kind, TEXT),    COLUMN(fast_stored_pass, number, INT),
    COLUMN(fast_stored_pass, step, INT),     COLUMN(fast_stored_pass, staleness, INT),
    COLUMN(fast_stored_pass, start_s, REAL), COLUMN(fast_stored_pass, end_s, REAL),
    COLUMN(fast_stored_pass, chunk, INT),
};

/* fast_store_series has an array for each of them. */
_Static_assert(sizeof metric_columns / sizeof *metric_columns == FAST_STORE_METRIC_COLUMNS,
               "a series has all columns of metrics");

/* All tables, by their number. The order within a table is that of SELECT and INSERT. */
const fast_store_form fast__store_tables[FAST_STORE_TABLES] = {
    [FAST_STORE_RUNS] = TABLE(runs, run),
    [FAST_STORE_METRICS] = TABLE(metrics, metric),
    [FAST_STORE_EVENTS] = TABLE(events, event),
    [FAST_STORE_WORKERS] = TABLE(workers, worker),
    [FAST_STORE_LINKS] = TABLE(links, link),
    [FAST_STORE_STALENESS] = TABLE(staleness, staleness),
    [FAST_STORE_SPANS] = TABLE(spans, span),
    [FAST_STORE_TAGS] = TABLE(tags, tag),
    [FAST_STORE_ACTIVITY] = TABLE(activity, activity),
    [FAST_STORE_USAGE] = TABLE(usage, usage),
    [FAST_STORE_NOTES] = TABLE(notes, note),
    [FAST_STORE_PLACES] = TABLE(places, place),
    [FAST_STORE_PASSES] = TABLE(passes, pass),
};

/* Callers make JSON, CSV and tables from this, so that a new column needs no other code. */
const fast_column *fast_store_columns(fast_store_table table, int64_t *count_out)
{
    FAST_ASSERT(table >= FAST_STORE_RUNS && table < FAST_STORE_TABLES);
    *count_out = fast__store_tables[table].count;
    return fast__store_tables[table].columns;
}

/* No value is -1 in a whole number, NAN in a number and NULL in a text. */
void fast__store_row_init(fast_store_table table, void *row)
{
    const fast_store_form *form = &fast__store_tables[table];
    FAST_ASSERT(row != NULL);
    memset(row, 0, form->size);
    for (int64_t i = 0; i < form->count; i++) {
        void *at = (char *)row + form->columns[i].offset;
        if (form->columns[i].kind == FAST_COLUMN_INT)
            *(int64_t *)at = -1;
        else if (form->columns[i].kind == FAST_COLUMN_REAL)
            *(double *)at = NAN;
    }
}
