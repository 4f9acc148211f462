/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of the store as JSON: the list, one of them with all that is known, its spans; and the two
 * changes that need no process: tags and deletion. Objects are made from the store's own table of
 * columns, so a new column is in the answers by being in that table.
 *
 * Changes open the store for writing for that moment alone; the reader stays read only.
 */
#include "serve/server.h"

#include "serve/serve_body.h"

#include <math.h>
#include <string.h>

/* One value of a row. */
static void put_value(fast_page *text, const fast_column *column, const void *row)
{
    const char *field = (const char *)row + column->offset;

    if (column->kind == FAST_COLUMN_INT) {
        const int64_t value = *(const int64_t *)(const void *)field;

        if (value == -1)
            fast__page_add(text, "null");
        else
            fast__page_int(text, value);
    } else if (column->kind == FAST_COLUMN_REAL) {
        fast__page_real(text, *(const double *)(const void *)field);
    } else {
        const char *value = *(const char *const *)(const void *)field;

        if (column->kind == FAST_COLUMN_TEXT)
            fast__page_string(text, value);
        else if (value && fast__json_is_valid(value, strlen(value)))
            fast__page_add(text, value);
        else
            fast__page_add(text, "{}");
    }
}

void fast__serve_row(fast_page *text, fast_store_table table, const void *row, bool json)
{
    int64_t count;
    const fast_column *columns = fast_store_columns(table, &count);

    fast__page_add(text, "{");
    for (int64_t i = 0; i < count; i++) {
        if (columns[i].kind == FAST_COLUMN_JSON && !json)
            continue;
        fast__page_key(text, columns[i].name);
        put_value(text, &columns[i], row);
    }
    fast__page_add(text, "}");
}

/* Rows of one table, on their way into an array. */
typedef struct row_writer {
    fast_server *server;    /* NULL where only the row is written */
    fast_page *text;        /* where to */
    fast_store_table table; /* what they are */
} row_writer;

static fast_err put_row(void *ctx, const void *row)
{
    const row_writer *writer = ctx;

    fast__page_comma(writer->text);
    if (writer->table == FAST_STORE_TAGS)
        fast__page_string(writer->text, ((const fast_stored_tag *)row)->tag);
    else if (writer->table == FAST_STORE_RUNS)
        fast__serve_run_row(writer->server, writer->text, row);
    else
        fast__serve_row(writer->text, writer->table, row, false);
    return writer->text->failed ? fast__fail(FAST_ENOMEM, "out of memory") : FAST_OK;
}

fast_err fast__serve_rows(fast_server *server, fast_page *text, fast_store_table table, int64_t run)
{
    row_writer writer = { server, text, table };

    fast__page_add(text, "[");
    FAST_TRY(fast_store_read(server->store, table, run, -1, put_row, &writer));
    fast__page_add(text, "]");
    return FAST_OK;
}

void fast__serve_run_row(fast_server *server, fast_page *text, const fast_stored_run *run)
{
    fast__serve_row(text, FAST_STORE_RUNS, run, false);
    if (text->failed)
        return;
    text->size--; /* the brace, to go on inside of it */
    fast__page_key(text, "tags");
    if (fast__serve_rows(server, text, FAST_STORE_TAGS, run->id))
        text->failed = true;
    fast__page_add(text, "}");
}

/* Answer with the text, or with the error. */
static void finish(fast_request *request, fast_err err, fast_page *text)
{
    if (err) {
        fast__page_fini(text);
        fast__reply_err(request, err);
    } else {
        fast__reply(request, 200, "application/json", text);
    }
}

/* An argument, or NULL where it is empty. */
static const char *argument(fast_request *request, const char *name)
{
    const char *value = fast__uri_arg(fast__request_uri(request), name);

    return value && *value ? value : NULL;
}

void fast__serve_runs(fast_server *server, fast_request *request, int64_t id)
{
    const fast_uri *uri = fast__request_uri(request);
    fast_page text = { .bytes = NULL };
    row_writer writer = { server, &text, FAST_STORE_RUNS };
    fast_store_query query = { .search = argument(request, "q"),
                               .where = argument(request, "where"),
                               .status = argument(request, "status"),
                               .tag = argument(request, "tag"),
                               .sort = argument(request, "sort") };
    int64_t total = 0;
    fast_err err = fast__uri_count(uri, "limit", SERVE_LIST_STANDARD, SERVE_LIST_MAX, &query.limit);

    (void)id;
    if (!err)
        err = fast__uri_count(uri, "offset", 0, INT32_MAX, &query.offset);
    if (!err && query.limit == 0)
        query.limit = SERVE_LIST_MAX;
    fast__page_add(&text, "{\"runs\":[");
    if (!err)
        err = fast_store_list(server->store, &query, put_row, &writer, &total);
    fast__page_format(&text, "],\"total\":%lld}", (long long)total);
    finish(request, err, &text);
}

/* The JSON of a run that lists leave out: {"run": {...}, "options": ..., and so on. */
static fast_err put_run(void *ctx, const void *row)
{
    static const char *const names[] = { "options", "machine", "result" };
    const row_writer *writer = ctx;
    int64_t count;
    const fast_column *columns = fast_store_columns(FAST_STORE_RUNS, &count);

    fast__page_key(writer->text, "run");
    fast__serve_run_row(writer->server, writer->text, row);
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++)
        for (int64_t i = 0; i < count; i++)
            if (strcmp(columns[i].name, names[k]) == 0) {
                fast__page_key(writer->text, names[k]);
                put_value(writer->text, &columns[i], row);
            }
    return FAST_OK;
}

void fast__serve_run(fast_server *server, fast_request *request, int64_t id)
{
    static const struct {
        const char *key;        /* in the answer */
        fast_store_table table; /* its rows */
    } parts[] = {
        { "workers", FAST_STORE_WORKERS }, { "events", FAST_STORE_EVENTS },
        { "links", FAST_STORE_LINKS },     { "staleness", FAST_STORE_STALENESS },
        { "tags", FAST_STORE_TAGS },
    };
    fast_page text = { .bytes = NULL };
    row_writer writer = { server, &text, FAST_STORE_RUNS };
    fast_err err;

    fast__page_add(&text, "{");
    err = fast_store_find(server->store, id, put_run, &writer);
    for (size_t i = 0; !err && i < sizeof parts / sizeof parts[0]; i++) {
        fast__page_key(&text, parts[i].key);
        err = fast__serve_rows(server, &text, parts[i].table, id);
    }
    fast__page_add(&text, "}");
    finish(request, err, &text);
}

/* Spans, of which the last `max` are written. */
typedef struct span_writer {
    fast_page *text; /* where to */
    int64_t skip;    /* of the first ones */
    int64_t count;   /* so far */
    int64_t actors;  /* above all of them */
} span_writer;

static fast_err count_span(void *ctx, const void *row)
{
    span_writer *writer = ctx;
    const fast_stored_span *span = row;

    writer->count++;
    if (span->actor >= writer->actors)
        writer->actors = span->actor + 1;
    return FAST_OK;
}

static fast_err put_span(void *ctx, const void *row)
{
    span_writer *writer = ctx;
    const fast_stored_span *span = row;

    if (writer->skip-- > 0)
        return FAST_OK;
    fast__page_comma(writer->text);
    fast__page_format(writer->text, "[%lld", (long long)span->actor);
    fast__page_comma(writer->text);
    fast__page_string(writer->text, span->kind);
    fast__page_comma(writer->text);
    fast__page_real(writer->text, span->start_s);
    fast__page_comma(writer->text);
    fast__page_real(writer->text, span->end_s);
    fast__page_add(writer->text, "]");
    return FAST_OK;
}

/* Names of actors, by rank; those that the store does not know are numbers. */
typedef struct actor_writer {
    fast_page *text; /* where to */
    int64_t next;    /* rank that was not written yet */
} actor_writer;

static void put_actors_to(actor_writer *writer, int64_t rank)
{
    for (; writer->next < rank; writer->next++) {
        fast__page_comma(writer->text);
        fast__page_format(writer->text, "\"actor %lld\"", (long long)writer->next);
    }
}

static fast_err put_actor(void *ctx, const void *row)
{
    actor_writer *writer = ctx;
    const fast_stored_worker *worker = row;

    if (worker->rank < writer->next || worker->rank > INT16_MAX)
        return FAST_OK;
    put_actors_to(writer, worker->rank);
    fast__page_comma(writer->text);
    fast__page_string(writer->text, worker->name ? worker->name : "");
    writer->next = worker->rank + 1;
    return FAST_OK;
}

fast_err fast__serve_span_rows(fast_server *server, fast_page *text, int64_t run, int64_t max)
{
    span_writer spans = { .text = text };
    actor_writer actors = { text, 0 };

    FAST_TRY(fast_store_read(server->store, FAST_STORE_SPANS, run, -1, count_span, &spans));
    fast__page_add(text, "{\"actors\":[");
    FAST_TRY(fast_store_read(server->store, FAST_STORE_WORKERS, run, -1, put_actor, &actors));
    put_actors_to(&actors, spans.actors < INT16_MAX ? spans.actors : INT16_MAX);
    fast__page_add(text, "],\"spans\":[");
    spans.skip = spans.count - max;
    FAST_TRY(fast_store_read(server->store, FAST_STORE_SPANS, run, -1, put_span, &spans));
    fast__page_add(text, "]}");
    return FAST_OK;
}

/* FAST_ENOENT if there is no such run. */
static fast_err ignore_row(void *ctx, const void *row)
{
    (void)ctx;
    (void)row;
    return FAST_OK;
}

void fast__serve_spans(fast_server *server, fast_request *request, int64_t id)
{
    fast_page text = { .bytes = NULL };
    fast_err err = fast_store_find(server->store, id, ignore_row, NULL);

    if (!err)
        err = fast__serve_span_rows(server, &text, id, INT32_MAX);
    finish(request, err, &text);
}

/* A store that may be written, and the run to change. */
typedef struct tag_change {
    fast_store *store; /* open for writing */
    int64_t run;       /* whose tags */
} tag_change;

static fast_err add_tag(void *ctx, const char *tag)
{
    const tag_change *change = ctx;

    return fast_store_tag(change->store, change->run, tag);
}

static fast_err remove_tag(void *ctx, const char *tag)
{
    const tag_change *change = ctx;

    return fast_store_untag(change->store, change->run, tag);
}

void fast__serve_tags(fast_server *server, fast_request *request, int64_t id)
{
    tag_change change = { NULL, id };
    fast_page text = { .bytes = NULL };
    size_t size;
    const char *body = fast__request_body(request, &size);
    fast_err err = fast_store_open(server->path, true, &change.store);

    if (!err)
        err = fast_store_find(change.store, id, ignore_row, NULL);
    if (!err)
        err = fast__json_tags(body, size, add_tag, remove_tag, &change);
    fast_store_close(change.store);
    fast__page_add(&text, "{");
    fast__page_key(&text, "tags");
    if (!err)
        err = fast__serve_rows(server, &text, FAST_STORE_TAGS, id);
    fast__page_add(&text, "}");
    finish(request, err, &text);
}

void fast__serve_delete(fast_server *server, fast_request *request, int64_t id)
{
    fast_store *store = NULL;
    fast_page text = { .bytes = NULL };
    fast_err err = fast_store_open(server->path, true, &store);

    if (!err)
        err = fast_store_delete(store, id);
    fast_store_close(store);
    fast__page_add(&text, "{}");
    if (err == FAST_EINVAL) {
        fast__page_fini(&text);
        fast__reply_error(request, 409, "%s", fast_error_detail());
        return;
    }
    finish(request, err, &text);
}
