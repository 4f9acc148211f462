/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer of a run: a thread that takes rows from the queue and puts them into the store, in a
 * transaction a few times a second.
 *
 * Whatever happens here, the run continues. A locked, full or read-only store is tried again once a
 * second, with the rows that still wait in the queue; one that is damaged or of another form
 * is given up. The first failure is one sentence for the user. Rows leave the queue when they are
 * committed, so that a failed transaction loses none of them; what does not fit into the queue
 * meanwhile is dropped and counted by who puts it there. A store that somebody moves or deletes is
 * noticed, and the run continues in a new one, so that at least its end is there.
 *
 * Cost: about 0.2 ms of one core for a transaction of a few rows, 3 microseconds a row.
 *
 * States of the writer; try_round() takes one edge about every ROUND_NS:
 *
 *     closed --open_store--> open --write_round, committed--> open
 *       ^  |                  |  |
 *       |  +-- failed --------|--+-- failed: rolled back; the rows stay in the queue
 *       |                     |        FAST_ETIMEDOUT, FAST_EIO, FAST_ENOMEM: again after RETRY_NS
 *       +--- file was moved --+        other errors: hopeless, nothing is tried any more
 *
 * The last round runs when `closing` is set, also before RETRY_NS is over. If it fails, one row
 * with the run's end is tried alone, and the rows that waited are added to its count of dropped
 * rows.
 */
#include "base/clock.h"
#include "run/sink/store_queue.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PATIENCE_MS = 1000 };
static const int64_t ROUND_NS = 200000000;  /* between transactions */
static const int64_t RETRY_NS = 1000000000; /* after a failure */
static const int64_t USAGE_NS = 1000000000; /* between rows of the machine's usage */

/* Remember the first failure, and whether there is hope. */
static void note_trouble(fast_store_sink *sink, fast_err err)
{
    sink->writer.retry_ns = fast__clock_ns() + RETRY_NS;
    sink->writer.hopeless = err != FAST_ETIMEDOUT && err != FAST_EIO && err != FAST_ENOMEM;
    if (atomic_load(&sink->queue.troubled))
        return;
    snprintf(sink->queue.trouble, sizeof sink->queue.trouble, "%s: %s; training continues",
             atomic_load(&sink->queue.id) ? "the run is not stored from here on"
                                          : "the run is not stored",
             fast_error_detail());
    atomic_store(&sink->queue.troubled, true);
}

/* Open the store and start the run in it, or continue it. */
static fast_err open_store(fast_store_sink *sink)
{
    long long id = atomic_load(&sink->queue.id);
    fast_store *store = NULL;
    fast_err err = fast_store_open(sink->start.path, true, &store);

    if (err)
        return err;
    fast__store_patience(store, PATIENCE_MS);
    if (id == 0) {
        int64_t new_id = 0;
        err = fast__store_begin(store, &sink->start.run, &new_id);
        id = new_id;
    } else {
        fast_stored_run again;
        fast__store_row_init(FAST_STORE_RUNS, &again);
        again.status = "running";
        err = fast__store_update(store, id, &again);
    }
    if (err) {
        fast_store_close(store);
        return err;
    }
    atomic_store(&sink->queue.id, id);
    sink->writer.store = store;
    return FAST_OK;
}

/* A store that was moved or deleted under the run: the rest of the run begins in a new one. */
static void leave_moved(fast_store_sink *sink)
{
    if (!sink->writer.store || !fast__store_has_moved(sink->writer.store))
        return;
    fast_store_close(sink->writer.store);
    sink->writer.store = NULL;
    atomic_store(&sink->queue.id, 0);
    if (atomic_load(&sink->queue.troubled))
        return;
    snprintf(sink->queue.trouble, sizeof sink->queue.trouble,
             "the run store was moved or deleted; the rest of the run is in a new one");
    atomic_store(&sink->queue.troubled, true);
}

/* Update the run's row by its newest metric. */
static void take_metric(fast_store_sink *sink, const fast_store_item *item)
{
    fast_stored_run *now = &sink->writer.now;
    const fast_stored_metric *m = &item->metric;

    now->steps = m->step;
    now->epoch = (int64_t)m->epoch;
    now->samples = m->samples;
    now->loss = item->loss;
    now->train_accuracy = item->train_accuracy;
    now->samples_per_s = item->samples_per_s;
    now->time_s = m->time_s;
    now->wall_time_s = m->wall_s;
    now->bytes_sent = m->bytes;
    now->staleness_mean = item->staleness_mean;
    now->divergence = m->divergence;
    if (isfinite(m->test_loss)) {
        now->test_loss = m->test_loss;
        now->test_accuracy = m->test_accuracy;
        sink->writer.news = true;
    }
    sink->writer.news = sink->writer.news || isfinite(m->validation_loss);
}

/* Write one item of the queue: an event, or a row of metrics. */
static fast_err write_item(fast_store_sink *sink, const fast_store_item *item)
{
    const int64_t id = atomic_load(&sink->queue.id);

    if (item->is_event) {
        const fast_stored_event event = { item->event.seq, item->event.time_s, item->event.step,
                                          item->event.kind, item->event.text };
        return fast__store_put(sink->writer.store, FAST_STORE_EVENTS, id, &event);
    }
    take_metric(sink, item);
    return fast__store_put(sink->writer.store, FAST_STORE_METRICS, id, &item->metric);
}

/* Write traffic and waits between actors; pairs without them have no row. */
static fast_err write_links(fast_store_sink *sink)
{
    const fast_store_look *look = &sink->queue.look;
    const int64_t id = atomic_load(&sink->queue.id);

    for (int64_t i = 0; look->links && i < look->actors * look->actors; i++) {
        const fast_snapshot_traffic *t = &look->links[i];
        const fast_stored_link link = { i / look->actors, i % look->actors, t->messages, t->bytes,
                                        (double)t->wait_ns * 1e-9 };
        if (link.messages > 0 || t->wait_ns > 0)
            FAST_TRY(fast__store_put(sink->writer.store, FAST_STORE_LINKS, id, &link));
    }
    return FAST_OK;
}

/* Write the newest spans, and trim the oldest: a run stores a bounded number. */
static fast_err write_spans(fast_store_sink *sink)
{
    static const char *const kinds[FAST_SPAN_COUNT] = { "compute", "codec", "send",
                                                        "receive", "wait",  "fault" };
    const fast_store_look *look = &sink->queue.look;
    const int64_t id = atomic_load(&sink->queue.id);

    for (int64_t i = 0; i < look->span_count; i++) {
        const fast_snapshot_span *seen = &look->spans[i];
        const fast_stored_span span = { sink->writer.span_seq + i, seen->actor, kinds[seen->span],
                                        look->span_s + (double)seen->begin * 1e-9,
                                        look->span_s + (double)seen->end * 1e-9 };
        FAST_TRY(fast__store_put(sink->writer.store, FAST_STORE_SPANS, id, &span));
    }
    const int64_t first = sink->writer.span_seq + look->span_count - FAST_STORE_SINK_SPANS_MAX;
    return look->span_count > 0 && first > 0 ? fast__store_trim(sink->writer.store, id, first)
                                             : FAST_OK;
}

/* Write the places of a split model's workers, once, and their passes since the look before. */
static fast_err write_passes(fast_store_sink *sink)
{
    const fast_store_look *look = &sink->queue.look;
    const int64_t id = atomic_load(&sink->queue.id);

    for (int64_t i = 0; i < look->place_count && sink->writer.pass_seq == 0; i++)
        FAST_TRY(fast__store_put(sink->writer.store, FAST_STORE_PLACES, id, &look->places[i]));
    for (int64_t i = 0; i < look->pass_count; i++) {
        const fast_pipe_entry *e = &look->passes[i].entry;
        const fast_stored_pass row = {
            .seq = sink->writer.pass_seq + i,
            .worker = look->passes[i].worker,
            .kind = fast__pipe_kind_name(e->kind),
            .number = e->number,
            .step = e->step,
            .staleness = e->staleness,
            .start_s = look->span_s + (double)e->begin * 1e-9,
            .end_s = look->span_s + (double)e->end * 1e-9,
            .chunk = e->chunk,
        };
        FAST_TRY(fast__store_put(sink->writer.store, FAST_STORE_PASSES, id, &row));
    }
    return FAST_OK;
}

/* Write the whole timeline of an actor: a row that is replaced at each look. */
static fast_err write_bins(fast_store_sink *sink, int64_t actor)
{
    const fast_store_look *look = &sink->queue.look;
    const fast_store_bins *bins = &look->bins[actor];
    char text[FAST_SNAPSHOT_BINS * FAST_ACTIVITY_KINDS * 5 + 2] = "[";
    size_t used = 1;

    if (bins->count == 0)
        return FAST_OK;
    for (int64_t i = 0; i < bins->count * FAST_ACTIVITY_KINDS; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, i ? ",%d" : "%d", bins->parts[i]);
    snprintf(text + used, sizeof text - used, "]");
    const fast_stored_activity row = { look->world, actor, look->span_s,
                                       (double)bins->bin_ns * 1e-9, text };
    return fast__store_put(sink->writer.store, FAST_STORE_ACTIVITY, atomic_load(&sink->queue.id),
                           &row);
}

/* Write how much of the machine was used since the row before. The first reading has no row. */
static fast_err write_usage(fast_store_sink *sink, bool closing)
{
    const int64_t now_ns = fast__clock_ns(), before_ns = sink->writer.usage_ns;
    const double time_s = (double)(now_ns - before_ns) * 1e-9;
    const fast_usage before = sink->writer.usage;
    fast_usage now;

    if (before_ns && !closing && now_ns - before_ns < USAGE_NS)
        return FAST_OK;
    fast__usage_read(&now);
    sink->writer.usage_ns = now_ns;
    sink->writer.usage = now;
    if (!before_ns || time_s < 0.05) /* ticks are 10 ms: shorter times say nothing */
        return FAST_OK;
    const bool network = now.received >= before.received && before.received >= 0;
    const fast_stored_usage row = {
        .seq = sink->writer.usage_seq,
        .wall_s = (double)(now_ns - sink->start.opened_ns) * 1e-9,
        .cpu = (now.cpu_s - before.cpu_s) / time_s,
        .machine_cpu = (now.machine_cpu_s - before.machine_cpu_s) / time_s,
        .memory = now.memory,
        .received_per_s = network ? (double)(now.received - before.received) / time_s : NAN,
        .sent_per_s = network ? (double)(now.sent - before.sent) / time_s : NAN,
    };
    FAST_TRY(
        fast__store_put(sink->writer.store, FAST_STORE_USAGE, atomic_load(&sink->queue.id), &row));
    sink->writer.usage_seq++;
    return FAST_OK;
}

/* Write a copy of the actors' counters: workers, staleness, timelines, links,
 * spans. */
static fast_err write_look(fast_store_sink *sink)
{
    const fast_store_look *look = &sink->queue.look;
    const int64_t id = atomic_load(&sink->queue.id);

    for (int64_t i = 0; i < look->actors; i++)
        if (look->workers[i].rank >= 0)
            FAST_TRY(
                fast__store_put(sink->writer.store, FAST_STORE_WORKERS, id, &look->workers[i]));
    for (int64_t i = 0; i < FAST_STALENESS_BUCKETS; i++) {
        const fast_stored_staleness row = { i, look->staleness[i] };
        if (row.updates > 0)
            FAST_TRY(fast__store_put(sink->writer.store, FAST_STORE_STALENESS, id, &row));
    }
    for (int64_t i = 0; i < look->actors; i++)
        FAST_TRY(write_bins(sink, i));
    FAST_TRY(write_links(sink));
    FAST_TRY(write_passes(sink));
    return write_spans(sink);
}

/* Everything that waits, inside a transaction. */
static fast_err write_rows(fast_store_sink *sink, long long put, bool looked, bool closing)
{
    for (long long i = atomic_load_explicit(&sink->queue.taken, memory_order_relaxed); i < put; i++)
        FAST_TRY(write_item(sink, &sink->queue.items[i % FAST_STORE_SINK_QUEUE]));
    if (looked)
        FAST_TRY(write_look(sink));
    FAST_TRY(write_usage(sink, closing));
    if (closing)
        return fast__store_update(sink->writer.store, atomic_load(&sink->queue.id), &sink->end.run);
    if (looked || sink->writer.news)
        return fast__store_update(sink->writer.store, atomic_load(&sink->queue.id),
                                  &sink->writer.now);
    return FAST_OK;
}

/* One transaction, if there is anything to write. */
static fast_err write_round(fast_store_sink *sink, bool closing)
{
    const long long put = atomic_load_explicit(&sink->queue.put, memory_order_acquire);
    const bool looked = atomic_load_explicit(&sink->queue.looked, memory_order_acquire);

    const bool idle = sink->writer.usage_ns && fast__clock_ns() - sink->writer.usage_ns < USAGE_NS;
    if (put == atomic_load_explicit(&sink->queue.taken, memory_order_relaxed) && !looked &&
        !closing && idle)
        return FAST_OK;
    FAST_TRY(fast__store_transaction_begin(sink->writer.store));
    const fast_err err = write_rows(sink, put, looked, closing);
    if (err) {
        fast__store_transaction_undo(sink->writer.store);
        return err;
    }
    FAST_TRY(fast__store_transaction_end(sink->writer.store));
    sink->writer.news = false;
    atomic_store_explicit(&sink->queue.taken, put, memory_order_release);
    if (looked) {
        sink->writer.span_seq += sink->queue.look.span_count;
        sink->writer.pass_seq += sink->queue.look.pass_count;
        atomic_store_explicit(&sink->queue.looked, false, memory_order_release);
    }
    return FAST_OK;
}

/* The end of the run alone: a full disk that has no room for all that waits has it for one row. */
static fast_err write_end(fast_store_sink *sink)
{
    const long long put = atomic_load_explicit(&sink->queue.put, memory_order_acquire);

    sink->end.run.dropped += put - atomic_load_explicit(&sink->queue.taken, memory_order_relaxed);
    fast__store_make_room(sink->writer.store);
    FAST_TRY(fast__store_transaction_begin(sink->writer.store));
    const fast_err err =
        fast__store_update(sink->writer.store, atomic_load(&sink->queue.id), &sink->end.run);
    if (err) {
        fast__store_transaction_undo(sink->writer.store);
        return err;
    }
    return fast__store_transaction_end(sink->writer.store);
}

/* Try, unless it is too early to try again or of no use. */
static void try_round(fast_store_sink *sink, bool closing)
{
    fast_err err = FAST_OK;

    if (sink->writer.hopeless || (!closing && sink->writer.retry_ns > fast__clock_ns()))
        return;
    leave_moved(sink);
    if (!sink->writer.store)
        err = open_store(sink);
    if (!err)
        err = write_round(sink, closing);
    if (err) {
        note_trouble(sink, err);
        if (closing && sink->writer.store && atomic_load(&sink->queue.id))
            (void)write_end(sink); /* the trouble is told already */
    } else {
        sink->writer.retry_ns = 0;
    }
}

/* The writer's thread: a transaction about once a round, and the last one when the run closes its
 * sink. */
void *fast__store_writer(void *ctx)
{
    fast_store_sink *sink = ctx;

    fast__store_row_init(FAST_STORE_RUNS, &sink->writer.now);
    for (;;) {
        const unsigned word = atomic_load(&sink->queue.word);
        const bool closing = atomic_load(&sink->queue.closing);
        try_round(sink, closing);
        if (closing)
            break;
        fast__futex_wait(&sink->queue.word, word, ROUND_NS);
    }
    fast_store_close(sink->writer.store);
    sink->writer.store = NULL;
    return NULL;
}
