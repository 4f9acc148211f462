/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run as it happens, as Server-Sent Events: metrics, event, run, staleness, workers, links,
 * spans, usage, places, passes, and end, which is the last one.
 *
 * The store is asked for its count of changes a few times a second; where it has changed, streams
 * wake and read what is new to them. Metrics and events are sent once, by their numbers; what is
 * replaced as a whole (the run's row, counters, links, spans) when its text differs from the last,
 * at most once a second or two. `id` is METRIC.EVENT, the numbers that were sent last: a reader
 * that comes back with Last-Event-ID misses nothing and gets nothing twice.
 *
 * A stream with nothing to say for a while says so in a comment, so that a reader that has left
 * without a word is noticed.
 */
#include "serve/server.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    METRICS_MAX = 500, /* rows in one event */
    EVENTS_MAX = 100,  /* events in one piece */
    SPANS_MAX = 4000   /* the newest, in one event */
};

/* Tables that are sent whole when they differ. */
enum {
    WHOLE_RUN,
    WHOLE_STALENESS,
    WHOLE_WORKERS,
    WHOLE_LINKS,
    WHOLE_SPANS,
    WHOLE_USAGE,
    WHOLE_PLACES,
    WHOLE_PASSES,
    WHOLES
};
static const struct {
    const char *name;       /* of the event */
    fast_store_table table; /* whose rows it has */
    int64_t pause;          /* nanoseconds between two at least */
} wholes[WHOLES] = {
    { "run", FAST_STORE_RUNS, 0 },
    { "staleness", FAST_STORE_STALENESS, 1000000000 },
    { "workers", FAST_STORE_WORKERS, 1000000000 },
    { "links", FAST_STORE_LINKS, 1000000000 },
    { "spans", FAST_STORE_SPANS, 2000000000 },
    { "usage", FAST_STORE_USAGE, 2000000000 },
    { "places", FAST_STORE_PLACES, 1000000000 },
    { "passes", FAST_STORE_PASSES, 2000000000 },
};

typedef struct run_live {
    serve_live live;       /* first, so that one is the other */
    int64_t run;           /* which */
    int64_t metric;        /* `seq` that was sent last; -1 */
    int64_t event;         /* `seq` of the event that was sent last; -1 */
    uint64_t seen[WHOLES]; /* hashes of what was sent last */
    int64_t sent[WHOLES];  /* when; nanoseconds, 0: never */
    char status[16];       /* of the run */
    bool ended;            /* the last event was sent */
} run_live;

/* Remove a stream from the server's list and free it; called when its connection ends. */
static void unlink_live(fast_http_stream *stream)
{
    serve_live *live = (serve_live *)stream;
    serve_live **at = &live->server->lives;

    while (*at != live)
        at = &(*at)->next;
    *at = live->next;
    live->server->live_count--;
    fast__free(live);
}

void *fast__live_new(fast_server *server, fast_http_request *request, size_t size,
                     fast_http_stream_state (*next)(fast_http_stream *stream, fast_page *text))
{
    serve_live *live;
    fast_err err;

    FAST_ASSERT(size >= sizeof *live);
    if (server->live_count >= SERVE_LIVES_MAX) {
        fast__reply_error(request, 503, "more than %d event streams are open; close some pages",
                          SERVE_LIVES_MAX);
        return NULL;
    }
    err = fast__alloc("event stream", 1, size, &live);
    if (err) {
        fast__reply_err(request, err);
        return NULL;
    }
    live->stream.next = next;
    live->stream.free = unlink_live;
    live->server = server;
    live->changes = -1;
    live->next = server->lives;
    server->lives = live;
    server->live_count++;
    return live;
}

void fast__live_say(serve_live *live, fast_page *text, const char *name, const char *id,
                    const char *data)
{
    if (id) {
        fast__page_add(text, "id: ");
        fast__page_add(text, id);
        fast__page_add(text, "\n");
    }
    fast__page_add(text, "event: ");
    fast__page_add(text, name);
    fast__page_add(text, "\ndata: ");
    fast__page_add(text, data);
    fast__page_add(text, "\n\n");
    live->said = fast__clock_ns();
}

void fast__live_tick(fast_server *server, int64_t now)
{
    for (serve_live *live = server->lives; live; live = live->next)
        if (live->changes != server->changes || live->again || now - live->looked > SERVE_LOOK)
            fast__stream_wake(&live->stream);
}

/* Say `piece` under a name, with the numbers that were sent so far. */
static void say(run_live *r, fast_page *text, const char *name, fast_page *piece)
{
    char id[64];

    snprintf(id, sizeof id, "%lld.%lld", (long long)r->metric, (long long)r->event);
    if (piece->failed)
        text->failed = true;
    else
        fast__live_say(&r->live, text, name, id, piece->bytes);
    fast__page_fini(piece);
}

/* Add the metrics that were stored since the last look, by column, as one event. */
static fast_err say_metrics(run_live *r, fast_page *text)
{
    fast_page piece = { .bytes = NULL };
    int64_t count = 0;
    const fast_err err =
        fast__serve_metric_rows(r->live.server, &piece, r->run, METRICS_MAX, &r->metric, &count);

    if (!err && count > 0)
        say(r, text, "metrics", &piece);
    fast__page_fini(&piece);
    if (count == METRICS_MAX)
        r->live.again = true;
    return err;
}

/* Events, on their way into a piece. */
typedef struct event_writer {
    run_live *run;   /* whose they are */
    fast_page *text; /* where to */
    int left;        /* that may still be sent */
} event_writer;

/* Add one row of `events` to the text that is being made. */
static fast_err put_event(void *ctx, const void *row)
{
    event_writer *writer = ctx;
    const fast_stored_event *event = row;
    fast_page piece = { .bytes = NULL };
    json_t *object;

    if (writer->left-- == 0) {
        writer->run->live.again = true;
        return FAST_ECANCELED;
    }
    writer->run->event = event->seq;
    object = fast__serve_row(FAST_STORE_EVENTS, event);
    fast__page_json(&piece, &object);
    say(writer->run, writer->text, "event", &piece);
    return FAST_OK;
}

/* Add the events that were stored since the last look. */
static fast_err say_events(run_live *r, fast_page *text)
{
    event_writer writer = { r, text, EVENTS_MAX };
    const fast_err err = fast_store_read(r->live.server->store, FAST_STORE_EVENTS, r->run, r->event,
                                         put_event, &writer);

    return err == FAST_ECANCELED ? FAST_OK : err;
}

/* The run's row. */
typedef struct run_row {
    run_live *run;  /* whose it is */
    json_t *object; /* the row */
} run_row;

/* Take over the row of the run, of which a copy is sent when it has changed. */
static fast_err take_run(void *ctx, const void *row)
{
    run_row *taken = ctx;
    const fast_stored_run *run = row;

    snprintf(taken->run->status, sizeof taken->run->status, "%s", run->status);
    taken->object = fast__serve_run_row(taken->run->live.server, run);
    return FAST_OK;
}

/* Send a table whole, if it differs and its pause is over. */
static fast_err say_whole(run_live *r, fast_page *text, int which)
{
    fast_server *server = r->live.server;
    const int64_t now = fast__clock_ns();
    fast_page piece = { .bytes = NULL };
    run_row row = { r, NULL };
    fast_err err = FAST_OK;
    uint64_t hash;

    if (r->sent[which] > 0 && now - r->sent[which] < wholes[which].pause &&
        strcmp(r->status, "running") == 0) {
        r->live.again = true;
        return FAST_OK;
    }
    if (which == WHOLE_RUN)
        err = fast_store_find(server->store, r->run, take_run, &row);
    else if (which == WHOLE_SPANS)
        row.object = fast__serve_span_rows(server, r->run, SPANS_MAX);
    else if (which == WHOLE_USAGE)
        row.object = fast__serve_usage(server, r->run);
    else
        row.object = fast__serve_rows(server, wholes[which].table, r->run);
    if (!err)
        fast__page_json(&piece, &row.object);
    if (err || piece.failed) {
        fast__page_fini(&piece);
        return err;
    }
    hash = fast__hash(piece.bytes, piece.size, 0);
    if (hash != r->seen[which] || r->sent[which] == 0)
        say(r, text, wholes[which].name, &piece);
    r->seen[which] = hash;
    r->sent[which] = now;
    fast__page_fini(&piece);
    return FAST_OK;
}

/* All that is new to this reader. */
static fast_err say_news(run_live *r, fast_page *text)
{
    r->live.again = false;
    FAST_TRY(say_whole(r, text, WHOLE_RUN));
    FAST_TRY(say_metrics(r, text));
    FAST_TRY(say_events(r, text));
    for (int which = WHOLE_STALENESS; which < WHOLES; which++)
        FAST_TRY(say_whole(r, text, which));
    return FAST_OK;
}

/* Make the next piece of the stream: news of the run, or a comment after a while without news, by
 * which both ends learn that the connection is alive. */
static fast_http_stream_state next_piece(fast_http_stream *stream, fast_page *text)
{
    run_live *r = (run_live *)stream;
    serve_live *live = &r->live;
    const int64_t now = fast__clock_ns();

    if (r->ended)
        return FAST_STREAM_END;
    if (!live->begun)
        fast__page_add(text, "retry: 2000\n\n");
    live->begun = true;
    if (live->changes != live->server->changes || live->again || now - live->looked > SERVE_LOOK) {
        live->changes = live->server->changes;
        live->looked = now;
        if (say_news(r, text) != FAST_OK) {
            /* The run was deleted, or the store cannot be read: both end this. */
            fast__live_say(live, text, "end", NULL, "{\"status\":null}");
            r->ended = true;
        } else if (!live->again && strcmp(r->status, "running") != 0) {
            fast_page piece = { .bytes = NULL };
            json_t *object = json_object();

            fast__json_set(&object, "status", fast__json_text(r->status));
            fast__page_json(&piece, &object);
            say(r, text, "end", &piece);
            r->ended = true;
        }
    }
    if (text->size == 0 && now - live->said > SERVE_HEARTBEAT) {
        fast__page_add(text, ": still there\n\n");
        live->said = now;
    }
    return text->size > 0 ? FAST_STREAM_MORE : FAST_STREAM_IDLE;
}

/* METRIC or METRIC.EVENT, from the header or from after=; false if it is malformed. */
static bool read_resume(run_live *r, const char *text)
{
    char *end;

    if (!text || !*text)
        return true;
    r->metric = strtoll(text, &end, 10);
    if (end == text || r->metric < -1)
        return false;
    if (*end == '.') {
        text = end + 1;
        r->event = strtoll(text, &end, 10);
        if (end == text || r->event < -1)
            return false;
    }
    return *end == '\0';
}

void fast__serve_live(fast_server *server, fast_http_request *request, int64_t id)
{
    const char *last = fast__request_header(request, "Last-Event-ID");
    const fast_err err = fast__serve_find(server->store, id);
    run_live *r;

    if (err) {
        fast__reply_err(request, err);
        return;
    }
    r = fast__live_new(server, request, sizeof *r, next_piece);
    if (!r)
        return;
    r->run = id;
    r->metric = -1;
    r->event = -1;
    if (!read_resume(r, last ? last : fast__uri_arg(fast__request_uri(request), "after"))) {
        unlink_live(&r->live.stream);
        fast__reply_error(request, 400, "after is the number of a row of metrics");
        return;
    }
    fast__reply_stream(request, 200, "text/event-stream", &r->live.stream);
}
