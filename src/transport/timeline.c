/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timelines of all actors, for Perfetto (ui.perfetto.dev) and chrome://tracing.
 *
 * An actor writes its spans to a ring of its own, without a lock and without allocating: when the
 * ring is full, the oldest event is overwritten. Cost: 56 bytes an event and one reading of the
 * clock.
 *
 * The export is the JSON trace-event format: one object with "traceEvents", an array of events with
 * a phase "ph" and times in microseconds, with nanoseconds as their fraction. Events are written
 * one at a time, so that the export needs memory for one JSON object only:
 *
 *     M  names: a process is a node, a thread is an actor ("worker 3")
 *     X  a span, with its duration, peer and bytes
 *     i  an instant: a fault, a lost actor, and how many events the ring dropped
 *     C  a counter: bytes that the actor has sent
 *     s, f  an arrow from a send to its receive
 *
 * Viewers draw a span inside another only if it lies wholly within, so overlaps that a clock jump
 * caused are repaired: spans are in the order of their ends, and a span that started inside an
 * earlier one and ended after it starts at the end of that one instead. Parents are written before
 * their children.
 *
 * Arrows: between two actors the k-th send of a size belongs to the k-th receive of that size,
 * since messages arrive in order and once. Arrows are left out where a ring dropped events, or
 * where the times contradict them.
 */
#include "transport/timeline.h"

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "transport/transport.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    COUNTER_COUNT_MAX = 1000 /* samples of an actor's counter in a file */
};

/* One span. */
typedef struct timeline_event {
    const char *name; /* a literal */
    int64_t begin;    /* nanoseconds */
    int64_t end;      /* not before begin */
    int64_t peer;     /* the other actor, or -1 */
    int64_t order;    /* serial number, for sorting */
    size_t size;      /* bytes of the message */
    fast_span span;   /* kind of the span */
} timeline_event;

struct fast_timeline {
    int64_t events_max;     /* size of the ring */
    int64_t count;          /* events ever written; the ring holds the last ones */
    int64_t last;           /* the latest end; no later event ends before it */
    timeline_event *events; /* the ring */
};

/* A send or a receive: one end of an arrow. */
typedef struct timeline_end {
    int64_t from, to;  /* sender and receiver */
    size_t size;       /* bytes of the message */
    int64_t order;     /* serial number in its actor */
    timeline_event at; /* the span where it is drawn */
} timeline_end;

/* The state of an export. */
typedef struct timeline_writer {
    const fast_world *world;        /* that is exported */
    void *stream;                   /* the open file */
    timeline_event *events;         /* spans of one actor, repaired and sorted */
    timeline_event *stack;          /* scratch of the repair */
    timeline_end *sends, *receives; /* ends of all arrows */
    int64_t send_count;             /* number of sends */
    int64_t receive_count;          /* number of receives */
    bool comma;                     /* the next element of the open list needs a comma */
    fast_err err;                   /* of the element that is being written */
} timeline_writer;

static const char *const span_names[FAST_SPAN_COUNT] = { "compute", "codec", "send",
                                                         "receive", "wait",  "fault" };

fast_err fast__timeline_new(int64_t events_max, fast_timeline **out)
{
    FAST_ASSERT(events_max > 0);
    FAST_ASSERT(out != NULL);
    fast_timeline *timeline = NULL;
    FAST_TRY(fast__alloc("a timeline", 1, sizeof *timeline, &timeline));
    const fast_err err =
        fast__alloc("a timeline's events", events_max, sizeof(timeline_event), &timeline->events);
    if (err) {
        fast__free(timeline);
        return err;
    }
    timeline->events_max = events_max;
    *out = timeline;
    return FAST_OK;
}

void fast__timeline_free(fast_timeline *timeline)
{
    if (!timeline)
        return;
    fast__free(timeline->events);
    fast__free(timeline);
}

void fast__timeline_add(fast_actor *actor, fast_span span, const char *name, int64_t begin,
                        int64_t peer, size_t size)
{
    fast_timeline *const timeline = actor->timeline;
    fast_snapshot *const snapshot = actor->world->snapshot;
    if (!timeline && !snapshot)
        return;
    FAST_ASSERT((unsigned)span < FAST_SPAN_COUNT);
    int64_t end = fast__record_peek_now(actor);
    if (snapshot)
        fast__snapshot_add_span(snapshot, actor->id, span, begin, end);
    if (!timeline)
        return;
    if (end < timeline->last)
        end = timeline->last;
    timeline->last = end;
    timeline->events[timeline->count % timeline->events_max] = (timeline_event){
        .name = name ? name : span_names[span],
        .begin = begin < end ? begin : end,
        .end = end,
        .peer = peer,
        .order = timeline->count,
        .size = size,
        .span = span,
    };
    timeline->count++;
}

/* Return the number of events in the ring. */
static int64_t stored(const fast_timeline *timeline)
{
    return timeline->count < timeline->events_max ? timeline->count : timeline->events_max;
}

/* Write text that is JSON already. */
static fast_err put(timeline_writer *w, const char *text)
{
    return fast__file_put(w->stream, text, strlen(text));
}

/* The callback of json_dump_callback(). */
static int put_piece(const char *bytes, size_t size, void *ctx)
{
    timeline_writer *w = ctx;
    w->err = fast__file_put(w->stream, bytes, size);
    return w->err ? -1 : 0;
}

/* Write an element of the list that is open, on a line of its own. Takes `value`; NULL means that
 * memory was missing. One element is in memory at a time. */
static fast_err put_element(timeline_writer *w, json_t *value)
{
    FAST_TRY(put(w, w->comma ? ",\n" : "\n"));
    w->comma = true;
    w->err = FAST_OK;
    const bool failed =
        !value || json_dump_callback(value, put_piece, w, FAST_JSON_FLAGS | JSON_COMPACT) != 0;
    json_decref(value);
    if (failed && !w->err)
        return fast__fail(FAST_ENOMEM, "no memory for an event of a timeline");
    return w->err;
}

/* Return a time as JSON: microseconds, with nanoseconds as their fraction. */
static json_t *micros(int64_t ns)
{
    return json_real((double)ns / 1000);
}

/* Write an event of one actor: the fields that all have, then `fields`, which it takes. A negative
 * time is left out. */
static fast_err put_event(timeline_writer *w, const char *phase, int64_t id, int64_t time,
                          json_t *fields)
{
    json_t *event = json_pack("{s:s, s:I, s:I}", "ph", phase, "pid",
                              (json_int_t)w->world->places[id].node, "tid", (json_int_t)id);
    if (time >= 0)
        fast__json_set(&event, "ts", micros(time));
    const bool failed = json_object_update(event, fields) != 0; /* also where one is NULL */
    json_decref(fields);
    if (failed) {
        json_decref(event);
        event = NULL;
    }
    return put_element(w, event);
}

/* Return the index of an actor in its role. */
static int64_t index_of(const fast_world *world, int64_t id)
{
    int64_t index = 0;
    for (int64_t i = 0; i < id; i++)
        index += world->places[i].role == world->places[id].role;
    return index;
}

/* Write the names of the node and the actor. */
static fast_err put_names(timeline_writer *w, int64_t id)
{
    const fast_place *place = &w->world->places[id];
    json_t *name = fast__json_text(w->world->roles[place->role].name);
    FAST_TRY(put_event(w, "M", id, -1,
                       json_pack("{s:s, s:{s:o}}", "name", "process_name", "args", "name",
                                 json_sprintf("node %" PRId64, place->node))));
    json_t *full = json_sprintf("%s %" PRId64, json_string_value(name), index_of(w->world, id));
    json_decref(name);
    FAST_TRY(put_event(w, "M", id, -1,
                       json_pack("{s:s, s:{s:o}}", "name", "thread_name", "args", "name", full)));
    return put_event(w, "M", id, -1,
                     json_pack("{s:s, s:{s:I}}", "name", "thread_sort_index", "args", "sort_index",
                               (json_int_t)id));
}

/* Order parents first: by begin, then the longer, then the later one. */
static int compare_events(const void *a, const void *b)
{
    const timeline_event *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end)
        return x->end > y->end ? -1 : 1;
    return x->order > y->order ? -1 : x->order < y->order;
}

/* Copy an actor's ring to w->events so that its spans nest, and sort them. Returns their number. */
static int64_t repair(timeline_writer *w, const fast_timeline *timeline)
{
    const int64_t count = stored(timeline);
    int64_t depth = 0;
    for (int64_t i = 0; i < count; i++) {
        timeline_event *e = &w->events[i];
        *e = timeline->events[(timeline->count - count + i) % timeline->events_max];
        if (e->span == FAST_SPAN_FAULT)
            continue; /* drawn as an instant: it overlaps with nothing */
        while (depth > 0 && w->stack[depth - 1].begin >= e->begin)
            depth--;
        if (depth > 0 && w->stack[depth - 1].end > e->begin)
            e->begin = w->stack[depth - 1].end;
        FAST_ASSERT(e->begin <= e->end);
        w->stack[depth++] = *e;
    }
    if (count > 0)
        qsort(w->events, (size_t)count, sizeof *w->events, compare_events);
    return count;
}

/* Write a span, or a fault as an instant. */
static fast_err put_span(timeline_writer *w, int64_t id, const timeline_event *e)
{
    const bool fault = e->span == FAST_SPAN_FAULT;
    json_t *fields =
        fault ? json_pack("{s:s}", "s", "t") : json_pack("{s:o}", "dur", micros(e->end - e->begin));
    json_t *args = json_pack("{s:I}", "bytes", (json_int_t)e->size);
    if (e->peer >= 0)
        fast__json_set(&args, "peer", json_integer(e->peer));
    fast__json_set(&fields, "cat", json_string(span_names[e->span]));
    fast__json_set(&fields, "name", fast__json_text(e->name));
    fast__json_set(&fields, "args", args);
    /* That an actor is lost or back is drawn in its own row, by whoever found it out. */
    if (fault && e->peer >= 0 && w->world->actors[e->peer])
        id = e->peer;
    return put_event(w, fault ? "i" : "X", id, e->begin, fields);
}

/* Store a send or a receive for the arrows. */
static void note_end(timeline_writer *w, int64_t id, const timeline_event *e)
{
    if (e->peer < 0 || (e->span != FAST_SPAN_SEND && e->span != FAST_SPAN_RECEIVE))
        return;
    timeline_end point = {
        .from = id, .to = e->peer, .size = e->size, .order = e->order, .at = *e
    };
    if (e->span == FAST_SPAN_SEND) {
        w->sends[w->send_count++] = point;
        return;
    }
    point.from = e->peer;
    point.to = id;
    w->receives[w->receive_count++] = point;
}

/* Write one actor: names, number of dropped events, spans and counter. */
static fast_err put_actor(timeline_writer *w, int64_t id)
{
    const fast_timeline *timeline = w->world->actors[id]->timeline;
    FAST_TRY(put_names(w, id));
    if (!timeline)
        return FAST_OK;
    const int64_t count = repair(w, timeline);
    const int64_t dropped = timeline->count - count;
    if (dropped > 0) {
        json_t *name = json_sprintf("%" PRId64 " earlier events were dropped", dropped);
        FAST_TRY(put_event(w, "i", id, count > 0 ? w->events[0].begin : 0,
                           json_pack("{s:s, s:o}", "s", "t", "name", name)));
    }
    int64_t send_count = 0;
    for (int64_t i = 0; i < count; i++)
        send_count += w->events[i].span == FAST_SPAN_SEND;
    const int64_t stride = 1 + send_count / COUNTER_COUNT_MAX;
    uint64_t sent = 0;
    for (int64_t i = 0, send = 0; i < count; i++) {
        const timeline_event *e = &w->events[i];
        FAST_TRY(put_span(w, id, e));
        if (dropped == 0)
            note_end(w, id, e);
        if (e->span != FAST_SPAN_SEND)
            continue;
        sent += e->size;
        if (send++ % stride != 0)
            continue;
        FAST_TRY(put_event(w, "C", id, e->begin,
                           json_pack("{s:o, s:{s:I}}", "name",
                                     json_sprintf("bytes sent by actor %" PRId64, id), "args",
                                     "bytes", (json_int_t)sent)));
    }
    return FAST_OK;
}

/* Order ends by pair, then size, then serial number. */
static int compare_ends(const void *a, const void *b)
{
    const timeline_end *x = a, *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    if (x->size != y->size)
        return x->size < y->size ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* As compare_ends(), but ends of equal pair and size are equal. */
static int compare_streams(const timeline_end *x, const timeline_end *y)
{
    timeline_end z = *y;
    z.order = x->order;
    return compare_ends(x, &z);
}

/* Write an arrow from a send to its receive. */
static fast_err put_arrow(timeline_writer *w, int64_t number, const timeline_end *send,
                          const timeline_end *receive)
{
    int64_t arrival = receive->at.begin;
    if (receive->at.end < send->at.begin)
        return FAST_OK; /* these are different messages */
    if (arrival < send->at.begin)
        arrival = send->at.begin;
    FAST_TRY(put_event(w, "s", send->from, send->at.begin,
                       json_pack("{s:I, s:s, s:s}", "id", (json_int_t)number, "cat", "message",
                                 "name", "message")));
    return put_event(w, "f", send->to, arrival,
                     json_pack("{s:s, s:I, s:s, s:s}", "bp", "e", "id", (json_int_t)number, "cat",
                               "message", "name", "message"));
}

/* Merge sends and receives: the k-th send of a stream belongs to its k-th receive. */
static fast_err put_arrows(timeline_writer *w)
{
    if (w->send_count == 0 || w->receive_count == 0)
        return FAST_OK;
    qsort(w->sends, (size_t)w->send_count, sizeof *w->sends, compare_ends);
    qsort(w->receives, (size_t)w->receive_count, sizeof *w->receives, compare_ends);
    int64_t s = 0, r = 0;
    while (s < w->send_count && r < w->receive_count) {
        const int order = compare_streams(&w->sends[s], &w->receives[r]);
        if (order == 0)
            FAST_TRY(put_arrow(w, s, &w->sends[s], &w->receives[r]));
        s += order <= 0;
        r += order >= 0;
    }
    return FAST_OK;
}

/* Write the counters of all actors, which include dropped events. */
static fast_err put_totals(timeline_writer *w)
{
    const fast_world *world = w->world;
    FAST_TRY(put(w, "\n],\"displayTimeUnit\":\"ns\",\"otherData\":{\"transport\":\""));
    FAST_TRY(put(w, world->inner ? world->inner->name : world->transport->name));
    FAST_TRY(put(w, "\",\"actors\":["));
    w->comma = false;
    for (int64_t id = 0; id < world->count; id++) {
        const fast_actor *actor = world->actors[id];
        if (!actor)
            continue;
        const fast_counters *c = &actor->counters;
        const int64_t dropped =
            actor->timeline ? actor->timeline->count - stored(actor->timeline) : 0;
        FAST_TRY(put_element(
            w, json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "actor", (json_int_t)id,
                         "messages_sent", (json_int_t)c->messages_sent, "bytes_sent",
                         (json_int_t)c->bytes_sent, "messages_received",
                         (json_int_t)c->messages_received, "messages_stale",
                         (json_int_t)c->messages_stale, "compute_ns", (json_int_t)c->compute_ns,
                         "wait_ns", (json_int_t)c->wait_ns, "waits", (json_int_t)c->waits,
                         "events_dropped", (json_int_t)dropped)));
    }
    return put(w, "\n]}}\n");
}

/* Write the whole file: the callback of fast__file_replace(). */
static fast_err write_all(void *ctx, void *stream)
{
    timeline_writer *w = ctx;
    w->stream = stream;
    FAST_TRY(put(w, "{\"traceEvents\":["));
    for (int64_t id = 0; id < w->world->count; id++)
        if (w->world->actors[id])
            FAST_TRY(put_actor(w, id));
    FAST_TRY(put_arrows(w));
    return put_totals(w);
}

/* Allocate the scratch memory: the largest ring twice, and two ends for each event. */
static fast_err writer_init(timeline_writer *w)
{
    int64_t largest = 0, total = 0;
    for (int64_t id = 0; id < w->world->count; id++) {
        const fast_actor *actor = w->world->actors[id];
        const int64_t count = actor && actor->timeline ? stored(actor->timeline) : 0;
        largest = count > largest ? count : largest;
        total += count;
    }
    FAST_TRY(fast__alloc("a timeline's export", largest, sizeof(timeline_event), &w->events));
    FAST_TRY(fast__alloc("a timeline's export", largest, sizeof(timeline_event), &w->stack));
    FAST_TRY(fast__alloc("a timeline's arrows", total, sizeof(timeline_end), &w->sends));
    return fast__alloc("a timeline's arrows", total, sizeof(timeline_end), &w->receives);
}

fast_err fast__timeline_write(const fast_world *world, const char *path)
{
    FAST_ASSERT(world != NULL);
    FAST_ASSERT(path != NULL);
    timeline_writer w = { .world = world };
    fast_err err = writer_init(&w);
    if (!err)
        err = fast__file_replace(path, write_all, &w);
    fast__free(w.events);
    fast__free(w.stack);
    fast__free(w.sends);
    fast__free(w.receives);
    return err;
}
