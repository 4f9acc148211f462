/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hand rows of a run to its store writer (store_writer.c), so that the store never blocks the run
 * or fails it.
 *
 *     events of the run -> a queue of FAST_STORE_SINK_QUEUE rows -> the writer -> the store
 *     counters of actors, once a second -> one look -> the writer
 *
 * Handing over is copying a few hundred bytes, without a lock, a system call or memory of its own;
 * once a second also 80 bytes for each actor. What finds the queue full is dropped and counted.
 * What the writer cannot do is told as a note, at the next event.
 *
 * Rows: at most ten metrics a second, as progress is told, and one for each evaluation.
 *
 *     event of the run         rows
 *     START                    event "start"
 *     PROGRESS                 metric without test figures
 *     EVALUATE                 metric with them, event "evaluate"
 *     SAVE, NOTE               event "save", event "note"
 *     a change of phase        event "phase"
 *     a fault of `sim`         event "fault", found at the next event of the run
 *     a node that joins        event "join", on `sim`: it starts late, or again after a crash
 *     a lost or hung actor     event "fault", besides the note; "join" when it is back
 *     the end                  a metric if the step has none yet, event "stop", the run's last row
 *
 * Example of an event's row:
 *
 *     seq 4, time_s 1.52, step 500, kind "evaluate", text "test loss 0.3121, accuracy 91.20%"
 */
#include "run/sink/store_sink.h"

#include "base/clock.h"
#include "base/memory.h"
#include "run/sink/store_queue.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEW_ACTORS = 16 };                  /* whose whole timelines are in every look */
static const int64_t LOOK_NS = 1000000000; /* between looks at the actors */

/* NULL for "" and "auto": nothing was chosen. */
static const char *chosen(const char *text)
{
    return text[0] && strcmp(text, "auto") != 0 && strcmp(text, "none") != 0 ? text : NULL;
}

/* A slot of the queue, or NULL if it is full. */
static fast_store_item *next_item(fast_store_sink *sink)
{
    const long long put = atomic_load_explicit(&sink->queue.put, memory_order_relaxed);
    const long long taken = atomic_load_explicit(&sink->queue.taken, memory_order_acquire);

    FAST_ASSERT(put - taken <= FAST_STORE_SINK_QUEUE);
    if (put - taken == FAST_STORE_SINK_QUEUE) {
        sink->feed.dropped++;
        return NULL;
    }
    return &sink->queue.items[put % FAST_STORE_SINK_QUEUE];
}

/* Wake the writer. */
static void poke(fast_store_sink *sink)
{
    atomic_fetch_add(&sink->queue.word, 1);
    fast__futex_wake(&sink->queue.word);
}

/* The slot is filled. */
static void hand_over(fast_store_sink *sink)
{
    const long long put = atomic_load_explicit(&sink->queue.put, memory_order_relaxed) + 1;

    atomic_store_explicit(&sink->queue.put, put, memory_order_release);
    if (put % (FAST_STORE_SINK_QUEUE / 2) == 0) /* it fills faster than the writer looks */
        poke(sink);
}

__attribute__((format(printf, 5, 6))) static void put_event(fast_store_sink *sink, const char *kind,
                                                            double time_s, int64_t step,
                                                            const char *format, ...)
{
    fast_store_item *item = next_item(sink);
    va_list args;

    if (!item)
        return;
    item->is_event = true;
    item->event.seq = sink->feed.event_seq++;
    item->event.kind = kind;
    item->event.time_s = time_s;
    item->event.step = step;
    va_start(args, format);
    vsnprintf(item->event.text, sizeof item->event.text, format, args);
    va_end(args);
    hand_over(sink);
}

/* Seconds by the machine's clock since the run started, all calls together. */
static double wall_s(const fast_run *run)
{
    return (double)(run->progress.times.wall_ns + fast__clock_ns() -
                    run->sinks.store->feed.wall_ns) *
           1e-9;
}

/* The counts of a run now. */
static fast_store_mark mark_of(const fast_run *run)
{
    const fast_staleness *s = &run->team->measures.staleness;
    const double pause_s = (double)fast__counted(&run->progress.times.pause_ns) * 1e-9;

    return (fast_store_mark){ run->progress.times.samples, run->result.time_s - pause_s, s->count,
                              s->sum };
}

/* Write the values of the interval since the last row that had some. An interval is long enough
 * when each worker has taken a step in it, on average, or when the run ends; until then they stay
 * NAN. */
static void fill_interval(fast_run *run, fast_stored_metric *m)
{
    fast_store_mark *mark = &run->sinks.store->feed.mark;
    fast_interval_sums *sums = &run->team->progress.interval;
    const fast_store_mark now = mark_of(run);
    const double time_s = now.time_s - mark->time_s;
    const bool counted = sums->positions > 0 && isfinite(run->result.train_accuracy);

    if (sums->batches < (run->step < run->step_count ? run->team->place.here : 1))
        return;
    m->loss = sums->loss / (double)sums->batches;
    m->train_accuracy = counted ? (double)sums->correct / (double)sums->positions : NAN;
    if (time_s > 0 && now.samples > mark->samples)
        m->samples_per_s = (double)(now.samples - mark->samples) / time_s;
    if (now.updates > mark->updates)
        m->staleness_mean =
            (double)(now.staleness - mark->staleness) / (double)(now.updates - mark->updates);
    *mark = now;
    *sums = (fast_interval_sums){ 0 };
}

/* Queue a row of metrics. Never blocks: a full queue drops the row and counts it. */
static void put_metric(fast_run *run, bool evaluated)
{
    fast_store_sink *sink = run->sinks.store;
    const fast_result *r = &run->result;
    fast_store_item *item = next_item(sink);

    if (!item)
        return;
    item->is_event = false;
    fast_stored_metric *m = &item->metric;
    fast__store_row_init(FAST_STORE_METRICS, m);
    m->seq = sink->feed.metric_seq++;
    m->step = sink->feed.step_last = run->step;
    m->epoch = (double)run->step / (double)run->learner->epoch_steps;
    m->time_s = r->time_s;
    m->wall_s = wall_s(run);
    m->samples = r->samples;
    m->bytes = r->bytes_sent;
    fill_interval(run, m);
    if (evaluated && run->evaluation.validated) {
        m->validation_loss = r->validation_loss;
        m->validation_accuracy = r->validation_accuracy;
    } else if (evaluated) {
        m->test_loss = r->test_loss;
        m->test_accuracy = r->test_accuracy;
    }
    m->compute_s = r->compute_s;
    m->exchange_s = r->exchange_s;
    m->wait_s = r->wait_s;
    m->codec_s = r->codec_s;
    m->divergence = r->divergence;
    item->loss = r->loss;
    item->train_accuracy = r->train_accuracy;
    item->samples_per_s = r->samples_per_s;
    item->staleness_mean = r->staleness_mean;
    hand_over(sink);
}

/* The actors that run, as they can be seen; NULL where none do. */
static fast_snapshot *snapshot_of(const fast_run *run)
{
    return run->team->place.world && !run->sinks.store->feed.world_over
               ? run->team->place.world->snapshot
               : NULL;
}

/* The names of the actors of a node: "worker 3, server 0", cut where they are many. */
static void node_names(const fast_world *world, int64_t node, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (int64_t i = 0; node >= 0 && i < world->count && used + 40 < size; i++) {
        if (world->places[i].node != node)
            continue;
        used += (size_t)snprintf(text + used, size - used, "%s", used ? ", " : "");
        fast__actor_name(world, i, text + used, size - used);
        used += strlen(text + used);
    }
}

/* Faults that the simulator made since; nodes that start late or again are joins. The actors' clock
 * was 0 at `base` of the run's. */
static void put_faults(fast_run *run, int64_t base)
{
    fast_store_sink *sink = run->sinks.store;
    const fast_snapshot *snapshot = snapshot_of(run);
    const char *name = NULL;
    int64_t node = 0, time = 0;
    char names[160];

    while (snapshot && fast__snapshot_fault_at(snapshot, sink->feed.faults, &name, &node, &time)) {
        const bool joins = strcmp(name, "join") == 0 || strcmp(name, "restart") == 0;
        const double time_s = (double)(base + time) * 1e-9;

        sink->feed.faults++;
        node_names(run->team->place.world, node, names, sizeof names);
        if (names[0])
            put_event(sink, joins ? "join" : "fault", time_s, run->step, "%s, node %lld (%s)", name,
                      (long long)node, names);
        else
            put_event(sink, joins ? "join" : "fault", time_s, run->step, "%s", name);
    }
}

/* Copy messages, bytes and waits between all actors, those of earlier worlds included. */
static void look_at_links(const fast_run *run, fast_store_sink *sink)
{
    const int64_t actors = sink->queue.look.actors;
    const fast_snapshot *snapshot = snapshot_of(run);

    for (int64_t i = 0; sink->queue.look.links && i < actors * actors; i++) {
        const fast_snapshot_traffic *before = &sink->feed.links_before[i];
        fast_snapshot_traffic now = { 0 };

        if (snapshot)
            fast__snapshot_link(snapshot, i / actors, i % actors, &now);
        sink->queue.look.links[i] =
            (fast_snapshot_traffic){ before->messages + now.messages, before->bytes + now.bytes,
                                     before->wait_ns + now.wait_ns };
    }
}

/* Copy the whole timelines. Of many actors they are long, so that most looks leave them out, but
 * for the last one of a world. */
static void look_at_activity(const fast_run *run, fast_store_sink *sink, bool last)
{
    fast_store_look *look = &sink->queue.look;
    const fast_snapshot *snapshot = snapshot_of(run);
    const bool due =
        snapshot && (last || look->actors <= FEW_ACTORS || sink->feed.looks++ % FEW_ACTORS == 0);
    const int64_t size =
        fast__snapshot_bins_of(run->team->workers + run->team->servers) * FAST_ACTIVITY_KINDS;

    look->world = sink->feed.world;
    for (int64_t i = 0; i < look->actors; i++) {
        fast_store_bins *bins = &look->bins[i];

        bins->parts = look->parts + i * size;
        bins->count =
            due ? fast__snapshot_activity(snapshot, i, look->parts + i * size, &bins->bin_ns) : 0;
    }
}

/* Copy the passes that workers of a split model have made since the look before. */
static void look_at_passes(const fast_run *run, fast_store_sink *sink)
{
    fast_store_look *look = &sink->queue.look;
    fast_pipe_entry entries[FAST_PIPE_LOG_MIN];
    int64_t count = 0, n;

    for (int64_t i = 0; look->passes && i < run->team->workers; i++) {
        const fast_team_actor *self = run->team->actors[i];

        while (self && (n = fast__pipe_log_read(&self->context.pipe.log, sink->feed.passes[i],
                                                FAST_PIPE_LOG_MIN, entries)) > 0) {
            if (count + n > FAST_STORE_SINK_PASSES_MAX)
                break;
            for (int64_t k = 0; k < n; k++)
                look->passes[count++] = (fast_store_pass){ i, entries[k] };
            sink->feed.passes[i] += n;
        }
    }
    look->pass_count = count;
}

/* Copy the counters of all actors, if the writer is done with the last copy. The team's mutex is
 * held, or nothing runs; `base` as above; `last`: of this world. */
static void take_look(fast_run *run, int64_t base, bool last)
{
    fast_team *team = run->team;
    fast_store_sink *sink = run->sinks.store;
    fast_store_look *look = &sink->queue.look;

    if (look->actors == 0 || atomic_load_explicit(&sink->queue.looked, memory_order_acquire))
        return;
    for (int64_t i = 0; i < look->actors; i++) {
        const fast_tally tally = fast__measure_tally(team, i);
        const fast_worker w = fast__measure_split(&tally);
        look->workers[i].rank = team->actors[i] ? i : -1; /* of another process */
        look->workers[i].steps = w.steps;
        look->workers[i].compute_s = w.compute_s;
        look->workers[i].exchange_s = i < team->workers ? w.exchange_s : 0;
        look->workers[i].wait_s = w.wait_s;
        look->workers[i].codec_s = (double)(tally.encode_ns + tally.decode_ns) * 1e-9;
        look->workers[i].bytes_sent = w.bytes_sent;
        look->workers[i].messages_sent = w.messages_sent;
    }
    memcpy(look->staleness, team->measures.staleness.counts, sizeof look->staleness);
    look_at_links(run, sink);
    look_at_activity(run, sink, last);
    look_at_passes(run, sink);
    look->span_count = 0;
    look->span_s = (double)base * 1e-9;
    fast_snapshot *snapshot = snapshot_of(run);
    for (int64_t i = 0; snapshot && i < look->actors; i++)
        look->span_count += fast__snapshot_spans(snapshot, i, look->spans + look->span_count,
                                                 FAST_STORE_SINK_SEEN_MAX - look->span_count);
    atomic_store_explicit(&sink->queue.looked, true, memory_order_release);
}

/* Say once that the run is not stored; a build without a store is silent unless one was chosen. */
static void say_trouble(fast_run *run)
{
    fast_store_sink *sink = run->sinks.store;

    if (sink->feed.said || sink->feed.saying || !atomic_load(&sink->queue.troubled))
        return;
    sink->feed.said = sink->feed.saying = true;
    if (chosen(run->config.store) || !strstr(sink->queue.trouble, "this build keeps no runs"))
        fast__run_tell(run, FAST_EVENT_NOTE, sink->queue.trouble);
    sink->feed.saying = false;
}

/* Queue the event of an evaluation, which names its set. */
static void put_evaluation(fast_run *run)
{
    const fast_result *r = &run->result;
    const bool validated = run->evaluation.validated;
    const double accuracy = validated ? r->validation_accuracy : r->test_accuracy;
    char text[48] = "";

    if (isfinite(accuracy))
        snprintf(text, sizeof text, ", accuracy %.2f%%", 100 * accuracy);
    put_event(run->sinks.store, "evaluate", r->time_s, run->step, "%s loss %.4f%s%s",
              validated ? "validation" : "test", validated ? r->validation_loss : r->test_loss,
              text, validated && r->best_step == run->step ? ", the best so far" : "");
}

void fast__store_sink_event(fast_run *run, fast_event_kind kind, const char *text)
{
    fast_store_sink *sink = run->sinks.store;
    const fast_result *r = &run->result;

    if (!sink)
        return;
    put_faults(run, run->progress.times.total_ns);
    switch (kind) {
    case FAST_EVENT_START:
        put_event(sink, "start", r->time_s, run->step, "step %lld of %lld", (long long)run->step,
                  (long long)run->step_count);
        break;
    case FAST_EVENT_PROGRESS:
        put_metric(run, false);
        break;
    case FAST_EVENT_EVALUATE:
        put_metric(run, true);
        put_evaluation(run);
        break;
    case FAST_EVENT_SAVE:
        put_event(sink, "save", r->time_s, run->step, "%s", text);
        break;
    case FAST_EVENT_NOTE:
        put_event(sink, "note", r->time_s, run->step, "%s", text);
        break;
    }
    const int64_t now = fast__clock_ns();
    if (now - sink->feed.looked_ns >= LOOK_NS) {
        sink->feed.looked_ns = now;
        take_look(run, run->progress.times.total_ns, false);
    }
    say_trouble(run);
}

/* Other actors than before. */
static void begin_world(fast_store_sink *sink)
{
    sink->feed.world_over = false;
    sink->feed.faults = 0;
    sink->feed.world++;
}

void fast__store_sink_fault(fast_run *run, bool over, const char *text)
{
    if (run->sinks.store)
        put_event(run->sinks.store, over ? "join" : "fault", run->result.time_s, run->step, "%s",
                  text);
}

void fast__store_sink_phase(fast_run *run, const char *text)
{
    if (!run->sinks.store)
        return;
    put_event(run->sinks.store, "phase", run->result.time_s, run->step, "%s", text);
    begin_world(run->sinks.store);
}

/* Nothing trains just now: let the writer be done with the last look, so that the next one, which
 * is the last of a world, is not lost. It is not waited for long. */
static void make_room(fast_store_sink *sink)
{
    atomic_uint nobody = 0;

    for (int i = 0;
         i < 300 && atomic_load(&sink->queue.looked) && !atomic_load(&sink->queue.troubled); i++) {
        if (i == 0)
            poke(sink);
        fast__futex_wait(&nobody, 0, 1000000);
    }
}

void fast__store_sink_world(fast_run *run, int64_t time_ns)
{
    fast_store_sink *sink = run->sinks.store;
    const fast_team *team = run->team;

    if (!sink || !team->place.world || !team->place.world->snapshot)
        return;
    const int64_t base = run->progress.times.total_ns - time_ns;
    put_faults(run, base);
    make_room(sink);
    take_look(run, base, true);
    const int64_t actors = sink->queue.look.actors;
    for (int64_t i = 0; sink->feed.links_before && i < actors * actors; i++) {
        fast_snapshot_traffic *before = &sink->feed.links_before[i], now;
        if (!fast__snapshot_link(team->place.world->snapshot, i / actors, i % actors, &now))
            break;
        before->messages += now.messages;
        before->bytes += now.bytes;
        before->wait_ns += now.wait_ns;
    }
    sink->feed.world_over = true;
}

/* The memory of looks at a split model, and its places. */
static fast_err open_places(const fast_run *run, fast_store_sink *sink)
{
    fast_store_look *look = &sink->queue.look;
    const int64_t workers = run->team->workers;

    if (!fast__split_is(run->team) || look->actors < workers)
        return FAST_OK;
    FAST_TRY(fast__alloc("places to store", workers, sizeof *look->places, &look->places));
    FAST_TRY(fast__alloc("places to store", workers, sizeof *look->layers, &look->layers));
    FAST_TRY(fast__alloc("passes to store", FAST_STORE_SINK_PASSES_MAX, sizeof *look->passes,
                         &look->passes));
    look->place_count = workers;
    for (int64_t i = 0; i < workers; i++) {
        const fast_mesh_place at = fast__mesh_place(&run->team->split.mesh, i);

        look->places[i] = (fast_stored_place){ .worker = i,
                                               .replica = at.data,
                                               .stage = at.pipe,
                                               .shard = at.tensor,
                                               .layers = look->layers[i] };
        look->places[i].params =
            fast__split_describe(run->team, i, look->layers[i], sizeof look->layers[i]);
    }
    return fast__alloc("passes to store", workers, sizeof *sink->feed.passes, &sink->feed.passes);
}

/* The memory of looks at a team. */
static fast_err open_look(fast_run *run, fast_store_sink *sink)
{
    fast_store_look *look = &sink->queue.look;
    const fast_team *team = run->team;
    if (team->single)
        return FAST_OK;
    const int64_t actors = team->workers + team->servers;
    look->actors = actors < FAST_STORE_SINK_ACTORS_MAX ? actors : FAST_STORE_SINK_ACTORS_MAX;
    FAST_TRY(fast__alloc("counters to store", look->actors, sizeof *look->workers, &look->workers));
    FAST_TRY(fast__alloc("names to store", look->actors, sizeof *look->names, &look->names));
    FAST_TRY(
        fast__alloc("spans to store", FAST_STORE_SINK_SEEN_MAX, sizeof *look->spans, &look->spans));
    for (int64_t i = 0; i < look->actors; i++) {
        const bool worker = i < team->workers;
        snprintf(look->names[i], sizeof look->names[i], "%s %lld", worker ? "worker" : "server",
                 (long long)(worker ? i : i - team->workers));
        look->workers[i].rank = i;
        look->workers[i].name = look->names[i];
    }
    FAST_TRY(fast__alloc("timelines to store", look->actors, sizeof *look->bins, &look->bins));
    FAST_TRY(fast__alloc("timelines to store", look->actors * fast__snapshot_bins_of(actors),
                         FAST_ACTIVITY_KINDS * sizeof *look->parts, &look->parts));
    FAST_TRY(open_places(run, sink));
    if (actors > FAST_SNAPSHOT_LINKED_MAX)
        return FAST_OK;
    FAST_TRY(fast__alloc("links to store", actors * actors, sizeof *look->links, &look->links));
    return fast__alloc("links to store", actors * actors, sizeof *look->links,
                       &sink->feed.links_before);
}

/* The row that the run begins with. Texts are lent by the run. */
static void fill_first(const fast_run *run, fast_store_sink *sink)
{
    const fast_run_config *c = &run->config;
    fast_stored_run *row = &sink->start.run;

    fast__store_row_init(FAST_STORE_RUNS, row);
    row->created = fast__clock_date();
    row->name = chosen(c->name);
    row->command = run->text.command;
    row->version = fast_version();
    row->system = chosen(c->system);
    row->strategy = chosen(c->strategy);
    row->topology = run->team->single ? NULL : chosen(c->topology);
    row->model = c->model;
    row->data = c->data;
    row->transport = chosen(c->transport);
    row->cluster = chosen(c->cluster);
    row->codec = chosen(c->codec);
    row->optimizer = c->optimizer;
    row->lr = c->rate;
    row->workers = c->workers;
    row->batch = c->batch;
    row->seed = c->seed;
    row->batch_of = chosen(c->batch_of);
    row->epoch = run->result.epoch;
    row->steps = run->step;
    row->step_count = run->step_count;
    row->options = sink->start.options;
    row->machine = sink->start.machine;
}

/* Free the queue and the copies. */
static void free_sink(fast_store_sink *sink)
{
    fast__free(sink->queue.look.workers);
    fast__free(sink->queue.look.names);
    fast__free(sink->queue.look.spans);
    fast__free(sink->queue.look.links);
    fast__free(sink->queue.look.bins);
    fast__free(sink->queue.look.parts);
    fast__free(sink->queue.look.places);
    fast__free(sink->queue.look.layers);
    fast__free(sink->queue.look.passes);
    fast__free(sink->feed.links_before);
    fast__free(sink->feed.passes);
    fast__free(sink->start.options);
    fast__free(sink->start.machine);
    fast__free(sink->end.result);
    fast__free(sink->queue.items);
    fast__free(sink);
}

/* Allocate the queue and the copies, and write down what is known of the run before it starts. */
static fast_err open_sink(fast_run *run, fast_store_sink **out)
{
    fast_store_sink *sink = NULL;
    fast_err err;

    FAST_TRY(fast__alloc("the store's sink", 1, sizeof *sink, &sink));
    const char *path = chosen(run->config.store);
    snprintf(sink->start.path, sizeof sink->start.path, "%s", path ? path : "");
    err = fast__alloc("rows to store", FAST_STORE_SINK_QUEUE, sizeof *sink->queue.items,
                      &sink->queue.items);
    if (!err)
        err = open_look(run, sink);
    if (!err)
        err = fast__run_json_options(run, &sink->start.options);
    if (!err)
        err = fast__run_json_machine(&sink->start.machine);
    if (err) {
        free_sink(sink);
        return err;
    }
    fill_first(run, sink);
    sink->feed.mark = mark_of(run);
    sink->start.opened_ns = fast__clock_ns();
    *out = sink;
    return FAST_OK;
}

void fast__store_sink_begin(fast_run *run)
{
    char note[FAST_DETAIL_MAX + 64];
    const char *store = run->config.store;
    fast_err err = FAST_OK;

    if (!store[0] || strcmp(store, "none") == 0 || strcmp(store, "no") == 0 ||
        !fast_run_is_first(run))
        return;
    if (!run->sinks.store)
        err = open_sink(run, &run->sinks.store);
    if (!err) {
        run->sinks.store->feed.wall_ns = run->sinks.store->feed.looked_ns = fast__clock_ns();
        run->sinks.store->feed.step_last = -1;
        atomic_store(&run->sinks.store->queue.closing, false);
        begin_world(run->sinks.store);
        err = fast__thread_start(&run->sinks.store->writer.thread, fast__store_writer,
                                 run->sinks.store);
    }
    if (!err)
        return;
    fast__store_sink_free(run);
    snprintf(note, sizeof note, "the run is not stored: %s", fast_error_detail());
    fast__run_tell(run, FAST_EVENT_NOTE, note);
}

/* A file of the run as others find it: from the root. */
static const char *find_file(const char *path, char place[FAST_PATH_MAX])
{
    char *found = path[0] ? realpath(path, NULL) : NULL;

    if (found)
        snprintf(place, FAST_PATH_MAX, "%s", found);
    free(found);
    return found ? place : NULL;
}

/* How the run ended. */
static void fill_last(fast_run *run, fast_err err)
{
    fast_store_sink *sink = run->sinks.store;
    const fast_result *r = &run->result;
    fast_stored_run *row = &sink->end.run;

    fast__store_row_init(FAST_STORE_RUNS, row);
    row->status = err ? "failed" : r->stop[0] ? r->stop : "done";
    row->finished = fast__clock_date();
    row->error = err ? sink->end.error : NULL;
    row->epoch = r->epoch;
    row->steps = r->steps;
    row->samples = r->samples;
    row->loss = r->loss;
    row->train_accuracy = r->train_accuracy;
    row->test_loss = r->test_loss;
    row->test_accuracy = r->test_accuracy;
    row->samples_per_s = r->samples_per_s;
    row->time_s = r->time_s;
    row->wall_time_s = r->wall_time_s;
    row->time_to_target_s = r->time_to_target_s;
    row->bytes_sent = r->bytes_sent;
    row->staleness_mean = r->staleness_mean;
    row->divergence = r->divergence;
    snprintf(sink->end.params_hash, sizeof sink->end.params_hash, "%016llx",
             (unsigned long long)r->params_hash);
    row->params_hash = r->stop[0] ? sink->end.params_hash : NULL; /* failed: no trained model */
    row->weights = find_file(run->config.save, sink->end.weights);
    row->trace = find_file(run->config.trace, sink->end.trace);
    row->dropped = sink->feed.dropped;
    fast__free(sink->end.result);
    sink->end.result = NULL;
    if (fast__run_json_result(run, &sink->end.result) == FAST_OK)
        row->result = sink->end.result;
}

void fast__store_sink_end(fast_run *run, fast_err err)
{
    fast_store_sink *sink = run->sinks.store;
    char note[96];

    if (!sink)
        return;
    snprintf(sink->end.error, sizeof sink->end.error, "%s", err ? fast_error_detail() : "");
    make_room(sink);
    take_look(run, 0, true);
    if (run->step != sink->feed.step_last)
        put_metric(run, false);
    put_event(sink, "stop", run->result.time_s, run->step, "%s",
              err ? sink->end.error : run->result.stop);
    fill_last(run, err);
    atomic_store(&sink->queue.closing, true);
    poke(sink);
    fast__thread_join(&sink->writer.thread);
    say_trouble(run);
    if (sink->feed.dropped > 0 && !sink->feed.said) {
        snprintf(note, sizeof note, "%lld rows came too fast and are not in the store",
                 (long long)sink->feed.dropped);
        fast__run_tell(run, FAST_EVENT_NOTE, note);
    }
    if (err)
        fast__fail_record("%s", sink->end.error);
}

void fast__store_sink_free(fast_run *run)
{
    if (run->sinks.store)
        free_sink(run->sinks.store);
    run->sinks.store = NULL;
}

int64_t fast_run_id(const fast_run *run)
{
    FAST_ASSERT(run != NULL);
    return run->sinks.store ? atomic_load(&run->sinks.store->queue.id) : 0;
}
