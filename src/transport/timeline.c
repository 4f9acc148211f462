/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timelines: what every actor did when, for Perfetto (ui.perfetto.dev) and chrome://tracing.
 *
 * An actor writes its spans to a ring of its own, without a lock and without memory of its own:
 * when the ring is full the oldest event goes. Cost: 56 bytes an event and one reading of the
 * clock.
 *
 * The export is the JSON trace-event format: one object with "traceEvents", an array of events with
 * a phase "ph", times in microseconds with a fraction of three digits:
 *
 *     M  names: a process is a node, a thread is an actor ("worker 3")
 *     X  a span, with its duration, peer and bytes
 *     i  an instant: a fault, and how many events the ring dropped
 *     C  a counter: bytes that the actor has sent
 *     s, f  an arrow from a send to its receive
 *
 * Viewers draw a span inside another only if it lies wholly within, so what a clock that jumped
 * tore is mended: spans come in the order of their ends, and one that began inside an earlier span
 * and ended after it begins at that one's end instead. Parents are written before their children.
 *
 * Arrows: between two actors the k-th send of a size belongs to the k-th receive of that size, as
 * messages come in order and once. There are none where a ring dropped events, or where the times
 * contradict it.
 */
#include "transport/timeline.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "transport/transport.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    COUNTER_COUNT_MAX = 1000, /* samples of an actor's counter in a file */
    PIECE_MAX = 512           /* bytes of one formatted piece */
};

/* One span. */
typedef struct event {
    const char *name; /* a literal */
    int64_t begin;    /* nanoseconds */
    int64_t end;      /* not before begin */
    int64_t peer;     /* or -1 */
    int64_t order;    /* of recording, for sorting */
    size_t size;      /* bytes */
    fast_span span;   /* kind */
} event;

struct fast_timeline {
    int64_t events_max; /* the ring's size */
    int64_t count;      /* of events ever written; the ring holds the last of them */
    int64_t last;       /* the latest end, which the next one does not precede */
    event *events;      /* the ring */
};

/* A send or a receive, as the arrows are sorted. */
typedef struct end_point {
    int64_t from, to; /* the pair */
    size_t size;      /* of the message */
    int64_t order;    /* in its actor */
    event at;         /* where it is drawn */
} end_point;

/* One export under way. */
typedef struct writer {
    const fast_world *world;     /* what is written */
    void *stream;                /* of the file */
    event *events;               /* one actor's, mended and sorted */
    event *stack;                /* scratch of mending */
    end_point *sends, *receives; /* of all actors */
    int64_t send_count;          /* of sends */
    int64_t receive_count;       /* of receives */
    bool comma;                  /* something was written before */
} writer;

static const char *const span_names[FAST_SPAN_COUNT] = { "compute", "codec", "send",
                                                         "receive", "wait",  "fault" };

fast_err fast__timeline_new(int64_t events_max, fast_timeline **out)
{
    FAST_ASSERT(events_max > 0);
    FAST_ASSERT(out != NULL);
    fast_timeline *timeline = NULL;
    FAST_TRY(fast__alloc("a timeline", 1, sizeof *timeline, &timeline));
    const fast_err err =
        fast__alloc("a timeline's events", events_max, sizeof(event), &timeline->events);
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
    fast_glance *const glance = actor->world->glance;
    if (!timeline && !glance)
        return;
    FAST_ASSERT((unsigned)span < FAST_SPAN_COUNT);
    int64_t end = fast__record_look(actor);
    if (glance)
        fast__glance_span(glance, actor->id, span, begin, end);
    if (!timeline)
        return;
    if (end < timeline->last)
        end = timeline->last;
    timeline->last = end;
    timeline->events[timeline->count % timeline->events_max] = (event){
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

static int64_t kept(const fast_timeline *timeline)
{
    return timeline->count < timeline->events_max ? timeline->count : timeline->events_max;
}

/* A piece of the file that is known to fit and needs no escapes. */
__attribute__((format(printf, 2, 3))) static fast_err put(writer *w, const char *format, ...)
{
    char line[PIECE_MAX];
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    FAST_ASSERT(length >= 0);
    FAST_ASSERT((size_t)length < sizeof line);
    return fast__file_put(w->stream, line, (size_t)length);
}

/* A text inside a JSON string: what JSON does not allow is escaped, what is not UTF-8 becomes the
 * replacement character. */
static fast_err put_text(writer *w, const char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        const unsigned char c = (unsigned char)*text;
        const size_t size = (size_t)fast__utf8_length(text, left);
        if (size == 0)
            FAST_TRY(put(w, "\\ufffd"));
        else if (c < 0x20 || c == 0x7f)
            FAST_TRY(put(w, "\\u%04x", c));
        else if (c == '"' || c == '\\')
            FAST_TRY(put(w, "\\%c", c));
        else
            FAST_TRY(fast__file_put(w->stream, text, size));
        text += size > 0 ? size : 1;
        left -= size > 0 ? size : 1;
    }
    return FAST_OK;
}

/* The start of an event of one actor. A time below zero is left out. */
static fast_err put_event(writer *w, const char *phase, int64_t id, int64_t time)
{
    FAST_TRY(put(w, "%s\n{\"ph\":\"%s\",\"pid\":%" PRId64 ",\"tid\":%" PRId64, w->comma ? "," : "",
                 phase, w->world->places[id].node, id));
    w->comma = true;
    if (time < 0)
        return FAST_OK;
    return put(w, ",\"ts\":%" PRId64 ".%03d", time / 1000, (int)(time % 1000));
}

/* The actor's place among those of its role. */
static int64_t index_of(const fast_world *world, int64_t id)
{
    int64_t index = 0;
    for (int64_t i = 0; i < id; i++)
        index += world->places[i].role == world->places[id].role;
    return index;
}

static fast_err put_names(writer *w, int64_t id)
{
    const fast_place *place = &w->world->places[id];
    FAST_TRY(put_event(w, "M", id, -1));
    FAST_TRY(put(w, ",\"name\":\"process_name\",\"args\":{\"name\":\"node %" PRId64 "\"}}",
                 place->node));
    FAST_TRY(put_event(w, "M", id, -1));
    FAST_TRY(put(w, ",\"name\":\"thread_name\",\"args\":{\"name\":\""));
    FAST_TRY(put_text(w, w->world->roles[place->role].name));
    FAST_TRY(put(w, " %" PRId64 "\"}}", index_of(w->world, id)));
    FAST_TRY(put_event(w, "M", id, -1));
    return put(w, ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%" PRId64 "}}", id);
}

/* Parents first: by begin, then the longer, then the later recorded. */
static int compare_events(const void *a, const void *b)
{
    const event *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end)
        return x->end > y->end ? -1 : 1;
    return x->order > y->order ? -1 : x->order < y->order;
}

/* Copy an actor's ring to w->events so that its spans nest, and sort it. Returns their count. */
static int64_t mend(writer *w, const fast_timeline *timeline)
{
    const int64_t count = kept(timeline);
    int64_t depth = 0;
    for (int64_t i = 0; i < count; i++) {
        event *e = &w->events[i];
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

static fast_err put_span(writer *w, int64_t id, const event *e)
{
    const bool fault = e->span == FAST_SPAN_FAULT;
    FAST_TRY(put_event(w, fault ? "i" : "X", id, e->begin));
    if (fault)
        FAST_TRY(put(w, ",\"s\":\"t\""));
    else
        FAST_TRY(put(w, ",\"dur\":%" PRId64 ".%03d", (e->end - e->begin) / 1000,
                     (int)((e->end - e->begin) % 1000)));
    FAST_TRY(put(w, ",\"cat\":\"%s\",\"name\":\"", span_names[e->span]));
    FAST_TRY(put_text(w, e->name));
    FAST_TRY(put(w, "\",\"args\":{\"bytes\":%zu", e->size));
    if (e->peer >= 0)
        FAST_TRY(put(w, ",\"peer\":%" PRId64, e->peer));
    return put(w, "}}");
}

/* Remember a send or a receive for the arrows. */
static void note_end(writer *w, int64_t id, const event *e)
{
    if (e->peer < 0 || (e->span != FAST_SPAN_SEND && e->span != FAST_SPAN_RECEIVE))
        return;
    end_point point = { .from = id, .to = e->peer, .size = e->size, .order = e->order, .at = *e };
    if (e->span == FAST_SPAN_SEND) {
        w->sends[w->send_count++] = point;
        return;
    }
    point.from = e->peer;
    point.to = id;
    w->receives[w->receive_count++] = point;
}

/* One actor: its names, what was dropped, its spans and its counter. */
static fast_err put_actor(writer *w, int64_t id)
{
    const fast_timeline *timeline = w->world->actors[id]->timeline;
    FAST_TRY(put_names(w, id));
    if (!timeline)
        return FAST_OK;
    const int64_t count = mend(w, timeline);
    const int64_t dropped = timeline->count - count;
    if (dropped > 0) {
        FAST_TRY(put_event(w, "i", id, count > 0 ? w->events[0].begin : 0));
        FAST_TRY(
            put(w, ",\"s\":\"t\",\"name\":\"%" PRId64 " earlier events were dropped\"}", dropped));
    }
    int64_t send_count = 0;
    for (int64_t i = 0; i < count; i++)
        send_count += w->events[i].span == FAST_SPAN_SEND;
    const int64_t stride = 1 + send_count / COUNTER_COUNT_MAX;
    uint64_t sent = 0;
    for (int64_t i = 0, send = 0; i < count; i++) {
        const event *e = &w->events[i];
        FAST_TRY(put_span(w, id, e));
        if (dropped == 0)
            note_end(w, id, e);
        if (e->span != FAST_SPAN_SEND)
            continue;
        sent += e->size;
        if (send++ % stride != 0)
            continue;
        FAST_TRY(put_event(w, "C", id, e->begin));
        FAST_TRY(put(
            w, ",\"name\":\"bytes sent by actor %" PRId64 "\",\"args\":{\"bytes\":%" PRIu64 "}}",
            id, sent));
    }
    return FAST_OK;
}

/* By pair, then size, then order. */
static int compare_ends(const void *a, const void *b)
{
    const end_point *x = a, *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    if (x->size != y->size)
        return x->size < y->size ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* Like compare_ends(), but any two of a pair and size are equal. */
static int compare_streams(const end_point *x, const end_point *y)
{
    end_point z = *y;
    z.order = x->order;
    return compare_ends(x, &z);
}

static fast_err put_arrow(writer *w, int64_t number, const end_point *send,
                          const end_point *receive)
{
    int64_t arrival = receive->at.begin;
    if (receive->at.end < send->at.begin)
        return FAST_OK; /* not the same message */
    if (arrival < send->at.begin)
        arrival = send->at.begin;
    FAST_TRY(put_event(w, "s", send->from, send->at.begin));
    FAST_TRY(put(w, ",\"id\":%" PRId64 ",\"cat\":\"message\",\"name\":\"message\"}", number));
    FAST_TRY(put_event(w, "f", send->to, arrival));
    return put(w, ",\"bp\":\"e\",\"id\":%" PRId64 ",\"cat\":\"message\",\"name\":\"message\"}",
               number);
}

/* Walk sends and receives together; the k-th of each stream belong to each other. */
static fast_err put_arrows(writer *w)
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

/* What was counted, whatever the rings dropped. */
static fast_err put_totals(writer *w)
{
    const fast_world *world = w->world;
    FAST_TRY(put(w,
                 "\n],\"displayTimeUnit\":\"ns\",\"otherData\":{\"transport\":\"%s\","
                 "\"actors\":[",
                 world->inner ? world->inner->name : world->transport->name));
    bool comma = false;
    for (int64_t id = 0; id < world->count; id++) {
        const fast_actor *actor = world->actors[id];
        if (!actor)
            continue;
        const fast_counters *c = &actor->counters;
        const fast_timeline *timeline = actor->timeline;
        FAST_TRY(put(w,
                     "%s\n{\"actor\":%" PRId64 ",\"messages_sent\":%" PRId64
                     ",\"bytes_sent\":%" PRId64 ",\"messages_received\":%" PRId64
                     ",\"messages_stale\":%" PRId64 ",\"compute_ns\":%" PRId64
                     ",\"wait_ns\":%" PRId64 ",\"waits\":%" PRId64 ",\"events_dropped\":%" PRId64
                     "}",
                     comma ? "," : "", id, c->messages_sent, c->bytes_sent, c->messages_received,
                     c->messages_stale, c->compute_ns, c->wait_ns, c->waits,
                     timeline ? timeline->count - kept(timeline) : 0));
        comma = true;
    }
    return put(w, "\n]}}\n");
}

static fast_err write_all(void *ctx, void *stream)
{
    writer *w = ctx;
    w->stream = stream;
    FAST_TRY(put(w, "{\"traceEvents\":["));
    for (int64_t id = 0; id < w->world->count; id++)
        if (w->world->actors[id])
            FAST_TRY(put_actor(w, id));
    FAST_TRY(put_arrows(w));
    return put_totals(w);
}

/* Scratch of the export: the largest ring twice, and an entry for each event of all rings. */
static fast_err writer_init(writer *w)
{
    int64_t largest = 0, total = 0;
    for (int64_t id = 0; id < w->world->count; id++) {
        const fast_actor *actor = w->world->actors[id];
        const int64_t count = actor && actor->timeline ? kept(actor->timeline) : 0;
        largest = count > largest ? count : largest;
        total += count;
    }
    FAST_TRY(fast__alloc("a timeline's export", largest, sizeof(event), &w->events));
    FAST_TRY(fast__alloc("a timeline's export", largest, sizeof(event), &w->stack));
    FAST_TRY(fast__alloc("a timeline's arrows", total, sizeof(end_point), &w->sends));
    return fast__alloc("a timeline's arrows", total, sizeof(end_point), &w->receives);
}

fast_err fast__timeline_write(const fast_world *world, const char *path)
{
    FAST_ASSERT(world != NULL);
    FAST_ASSERT(path != NULL);
    writer w = { .world = world };
    fast_err err = writer_init(&w);
    if (!err)
        err = fast__file_replace(path, write_all, &w);
    fast__free(w.events);
    fast__free(w.stack);
    fast__free(w.sends);
    fast__free(w.receives);
    return err;
}
