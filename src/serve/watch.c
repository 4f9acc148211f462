/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All runs as they happen, for the list of runs: Server-Sent Events named `runs`, with the rows
 * that may have changed and how many runs there are.
 *
 * Rows change while a run is running, and once more when it ends. So what is sent is: the runs that
 * are running, those that were at the last look and are no more, and those with a higher number
 * than any before; a row is sent when its text differs from what was sent last. At most once a
 * second.
 */
#include "serve/server.h"

#include "base/clock.h"
#include "base/hash.h"

#include <stdio.h>
#include <string.h>

enum { NEW_MAX = 100 };
static const int64_t pause_ns = 1000000000;

/* A run that was running when it was looked at last. */
typedef struct watched {
    int64_t run;   /* its number */
    uint64_t hash; /* of the row that was sent */
    bool running;  /* at this look */
} watched;

typedef struct runs_live {
    serve_live live;                 /* first, so that one is the other */
    int64_t newest;                  /* number of the newest run; -1 before the first look */
    int64_t total;                   /* runs of the store */
    watched runs[SERVE_RUNNING_MAX]; /* that are running */
    int count;                       /* number of running runs */
    json_t *rows;                    /* of the look that is under way; NULL: memory was missing */
} runs_live;

/* Return the entry of a run that was running at the last look; NULL if it was not. */
static watched *find(runs_live *l, int64_t run)
{
    for (int i = 0; i < l->count; i++)
        if (l->runs[i].run == run)
            return &l->runs[i];
    return NULL;
}

/* Add a run's row, unless it is as it was. */
static void put_row(runs_live *l, const fast_stored_run *run)
{
    fast_page row = { .bytes = NULL };
    json_t *object = fast__serve_run_row(l->live.server, run), *copy = json_incref(object);
    watched *known = find(l, run->id);
    const bool running = strcmp(run->status, "running") == 0;
    uint64_t hash;

    fast__page_json(&row, &copy);
    if (row.failed) {
        fast__json_append(&l->rows, NULL);
        json_decref(object);
        return;
    }
    hash = fast__hash(row.bytes, row.size, 0);
    if (!known || known->hash != hash)
        fast__json_append(&l->rows, json_incref(object));
    json_decref(object);
    if (!known && running && l->count < SERVE_RUNNING_MAX) {
        known = &l->runs[l->count++];
        known->run = run->id;
    }
    if (known) {
        known->hash = hash;
        known->running = running;
    }
    fast__page_fini(&row);
}

/* Take a row of a run that is, or was, running. */
static fast_err on_running(void *ctx, const void *row)
{
    put_row(ctx, row);
    return FAST_OK;
}

/* Newer runs, from the newest down; what is not new ends it. */
static fast_err on_new(void *ctx, const void *row)
{
    runs_live *l = ctx;
    const fast_stored_run *run = row;

    if (run->id <= l->newest)
        return FAST_ECANCELED;
    if (strcmp(run->status, "running") != 0) /* the others were looked at */
        put_row(l, run);
    return FAST_OK;
}

/* Take the number of the newest run. */
static fast_err on_newest(void *ctx, const void *row)
{
    *(int64_t *)ctx = ((const fast_stored_run *)row)->id;
    return FAST_OK;
}

/* Those that were running and are no more: they are sent once again, and forgotten. */
static void look_at_ended(runs_live *l)
{
    int left = 0;

    for (int i = 0; i < l->count; i++)
        if (!l->runs[i].running)
            (void)!fast_store_find(l->live.server->store, l->runs[i].run, on_running, l);
    for (int i = 0; i < l->count; i++)
        if (l->runs[i].running)
            l->runs[left++] = l->runs[i];
    l->count = left;
}

/* Read the rows that may have changed into l->rows. */
static fast_err look(runs_live *l)
{
    fast_store *store = l->live.server->store;
    int64_t newest = 0;
    fast_err err;

    /* Running runs first, then those that were running, then new ones that ended between two looks.
     * */
    l->rows = json_array();
    for (int i = 0; i < l->count; i++)
        l->runs[i].running = false;
    FAST_TRY(fast_store_list(
        store,
        &(fast_store_query){ .status = "running", .sort = "-id", .limit = SERVE_RUNNING_MAX },
        on_running, l, NULL));
    look_at_ended(l);
    FAST_TRY(fast_store_list(store, &(fast_store_query){ .sort = "-id", .limit = 1 }, on_newest,
                             &newest, &l->total));
    if (l->newest >= 0 && newest > l->newest) {
        err = fast_store_list(store, &(fast_store_query){ .sort = "-id", .limit = NEW_MAX }, on_new,
                              l, NULL);
        if (err && err != FAST_ECANCELED)
            return err;
    }
    l->newest = newest;
    return FAST_OK;
}

/* Say l->rows, which are taken. */
static void say_rows(runs_live *l, fast_page *text)
{
    fast_page piece = { .bytes = NULL };
    json_t *object = json_object();

    fast__json_set(&object, "runs", l->rows);
    fast__json_set(&object, "total", json_integer(l->total));
    fast__page_json(&piece, &object);
    if (piece.failed)
        text->failed = true;
    else
        fast__live_say(&l->live, text, "runs", NULL, piece.bytes);
    fast__page_fini(&piece);
}

/* Make the next piece of the stream. A change within the pause is not lost: `again` makes the
 * server ask once more. */
static fast_http_stream_state next_piece(fast_http_stream *stream, fast_page *text)
{
    runs_live *l = (runs_live *)stream;
    serve_live *live = &l->live;
    const int64_t now = fast__clock_ns();
    const bool early = live->begun && now - live->looked < pause_ns;

    if (!live->begun)
        fast__page_add(text, "retry: 2000\n\n");
    /* Too early for a change that is there: ask again at the next tick. */
    live->again = live->changes != live->server->changes && early;
    if (!early && (live->changes != live->server->changes || now - live->looked > SERVE_LOOK)) {
        const int64_t total = l->total;
        const fast_err err = look(l);

        live->changes = live->server->changes;
        live->looked = now;
        if (err || !l->rows) {
            json_decref(l->rows);
            return FAST_STREAM_END;
        }
        if (json_array_size(l->rows) > 0 || total != l->total || !live->begun)
            say_rows(l, text);
        else
            json_decref(l->rows);
    }
    live->begun = true;
    if (text->size == 0 && now - live->said > SERVE_HEARTBEAT) {
        fast__page_add(text, ": still there\n\n");
        live->said = now;
    }
    return text->size > 0 ? FAST_STREAM_MORE : FAST_STREAM_IDLE;
}

/* GET /api/live. */
void fast__serve_watch(fast_server *server, fast_http_request *request, int64_t id)
{
    runs_live *l = fast__live_new(server, request, sizeof *l, next_piece);

    (void)id;
    if (!l)
        return;
    l->newest = -1;
    fast__reply_stream(request, 200, "text/event-stream", &l->live.stream);
}
