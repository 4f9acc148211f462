/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words of users: the note of a run and saved views; and the trace file of a run.
 *
 *     POST /api/runs/ID/note    {"text": "lr was too large"}; "" removes it
 *     GET  /api/views           {"views": [{"name": "diverged", "query": "status=diverged"}]}
 *     POST /api/views           {"name": "diverged", "query": "..."}; a query of null removes it
 *     GET  /api/runs/ID/trace   the file that --trace wrote, for Perfetto
 *
 * No request names a file: the path of a trace is the one that the run stored, and only a file that
 * starts as FAST's traces do is sent.
 */
#include "serve/server.h"

#include "base/memory.h"

#include <string.h>
#include <unistd.h>

enum { TRACE_PIECE = 65536 };
static const char TRACE_START[] = "{\"traceEvents\":[";

/* Answer with the error of a call, or with a tree, which is taken. */
static void finish(fast_http_request *request, fast_err err, json_t **move)
{
    if (err) {
        json_decref(*move);
        fast__reply_err(request, err);
    } else {
        fast__reply_json(request, 200, move);
    }
}

/* Read a body that is an object of at most two texts; the second may be missing or null. The tree
 * owns them. FAST_EFORMAT if it has another shape. */
static fast_err read_texts(fast_http_request *request, const char *first, const char *second,
                           json_t **tree_out, const char *texts[2])
{
    size_t size;
    const char *body = fast__request_body(request, &size);
    json_t *tree = NULL;

    FAST_TRY(fast__json_read("the body", body, size, &tree));
    const json_t *other = second ? json_object_get(tree, second) : NULL;
    texts[0] = json_string_value(json_object_get(tree, first));
    texts[1] = json_string_value(other);
    /* Members that are not known are refused: a misspelled one must not be ignored. */
    const size_t known = 1 + (other ? 1 : 0);
    if (!texts[0] || json_object_size(tree) != known ||
        (other && !texts[1] && !json_is_null(other))) {
        json_decref(tree);
        return fast__fail(FAST_EFORMAT,
                          "the body is not the JSON that is expected here: \"%s\"%s%s", first,
                          second ? " and " : "", second ? second : "");
    }
    *tree_out = tree;
    return FAST_OK;
}

/* POST /api/runs/ID/note. The store checks the text; the answer is the note as it is stored, which
 * pages show as text. The store is open for writing for this moment alone. */
void fast__serve_note(fast_server *server, fast_http_request *request, int64_t id)
{
    fast_store *store = NULL;
    json_t *tree = NULL, *answer = json_object();
    const char *texts[2];
    fast_err err = read_texts(request, "text", NULL, &tree, texts);

    if (!err)
        err = fast_store_open(server->path, true, &store);
    if (!err)
        err = fast_store_note(store, id, texts[0]);
    fast_store_close(store);
    if (!err)
        fast__json_set(&answer, "note", fast__json_text(texts[0]));
    finish(request, err, &answer);
    json_decref(tree);
}

/* Append a view to an array. */
static fast_err add_view(void *ctx, const void *row)
{
    const fast_stored_view *view = row;
    json_t **array = ctx, *object = json_object();

    fast__json_set(&object, "name", fast__json_text(view->name));
    fast__json_set(&object, "query", fast__json_text(view->query));
    fast__json_append(array, object);
    return *array ? FAST_OK : fast__fail(FAST_ENOMEM, "out of memory");
}

/* Answer with all views. */
static void reply_views(fast_http_request *request, fast_store *store, fast_err err)
{
    json_t *array = json_array(), *answer = json_object();

    if (!err)
        err = fast_store_views(store, add_view, &array);
    fast__json_set(&answer, "views", array);
    finish(request, err, &answer);
}

/* GET /api/views: all of them, since there are at most 200 and each is a line of text. */
void fast__serve_views(fast_server *server, fast_http_request *request, int64_t id)
{
    (void)id;
    reply_views(request, server->store, FAST_OK);
}

/* POST /api/views: save or remove one, and answer with the list that holds now, so that a page
 * needs no second request. The server's own reader sees the change at its next look. */
void fast__serve_view(fast_server *server, fast_http_request *request, int64_t id)
{
    fast_store *store = NULL;
    json_t *tree = NULL;
    const char *texts[2];
    fast_err err = read_texts(request, "name", "query", &tree, texts);

    (void)id;
    if (!err)
        err = fast_store_open(server->path, true, &store);
    if (!err)
        err = fast_store_view(store, texts[0], texts[1]);
    reply_views(request, store, err);
    fast_store_close(store);
    json_decref(tree);
}

/* A trace file on its way out. */
typedef struct trace_stream {
    fast_http_stream stream; /* first, so that one is the other */
    int fd;                  /* of the file */
} trace_stream;

/* Close the file, whether it was sent whole or its reader has left. */
static void free_trace(fast_http_stream *stream)
{
    trace_stream *trace = (trace_stream *)stream;

    close(trace->fd);
    fast__free(trace);
}

/* Send the next piece of the file. */
static fast_http_stream_state next_trace(fast_http_stream *stream, fast_page *text)
{
    trace_stream *trace = (trace_stream *)stream;
    char bytes[TRACE_PIECE + 1];
    const ssize_t got = read(trace->fd, bytes, TRACE_PIECE);

    if (got <= 0) {
        text->failed = got < 0; /* the status was sent: the answer breaks off */
        return FAST_STREAM_END;
    }
    bytes[got] = '\0'; /* JSON holds no zero bytes */
    fast__page_add(text, bytes);
    return FAST_STREAM_MORE;
}

/* Where a run's trace is. */
typedef struct trace_place {
    char path[FAST_PATH_MAX]; /* "" if the run has no trace */
    bool running;             /* the file is not written yet */
} trace_place;

/* Copy the path of a run's trace, and whether the run still trains, from its row. */
static fast_err take_trace(void *ctx, const void *row)
{
    trace_place *place = ctx;
    const fast_stored_run *run = row;

    snprintf(place->path, sizeof place->path, "%s", run->trace ? run->trace : "");
    place->running = strcmp(run->status, "running") == 0;
    return FAST_OK;
}

/* Open a trace at its first byte. FAST_EFORMAT if the file is no trace of FAST's. */
static fast_err open_trace(const char *path, int *fd_out)
{
    char start[sizeof TRACE_START] = "";
    int64_t size;
    int fd;

    FAST_TRY(fast__file_open(path, &fd, &size));
    if (pread(fd, start, sizeof start - 1, 0) != (ssize_t)(sizeof start - 1) ||
        strcmp(start, TRACE_START) != 0) {
        close(fd);
        return fast__fail(FAST_EFORMAT, "\"%s\" is no trace file", path);
    }
    *fd_out = fd;
    return FAST_OK;
}

/* GET /api/runs/ID/trace. A trace is as large as its run was long, so that it is sent in pieces and
 * never held in memory; a page saves it under a name of its own. */
void fast__serve_trace(fast_server *server, fast_http_request *request, int64_t id)
{
    trace_place place = { .running = false };
    trace_stream *trace = NULL;
    int fd = -1;
    fast_err err = fast_store_find(server->store, id, take_trace, &place);

    if (!err && (place.running || !place.path[0])) {
        fast__reply_error(request, 404,
                          place.running ? "the trace is written when the run ends"
                                        : "the run was not traced; start it with --trace FILE");
        return;
    }
    /* Opened before the answer starts, so that a file that was deleted is an error with its name,
     * and not an answer that breaks off. */
    if (!err)
        err = open_trace(place.path, &fd);
    if (!err)
        err = fast__alloc("a trace's answer", 1, sizeof *trace, &trace);
    if (err) {
        if (fd >= 0)
            close(fd);
        fast__reply_err(request, err);
        return;
    }
    trace->stream.next = next_trace;
    trace->stream.free = free_trace;
    trace->fd = fd;
    fast__reply_stream(request, 200, "application/json", &trace->stream);
}
