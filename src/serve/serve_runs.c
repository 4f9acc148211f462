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

#include <stdio.h>
#include <string.h>

/* The JSON of a column, {} if it is not JSON. */
static json_t *read_column(const char *text)
{
    json_t *value = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;

    return value ? value : json_object();
}

/* One value of a row. */
static json_t *value_of(const fast_column *column, const void *row)
{
    const void *field = (const char *)row + column->offset;

    switch (column->kind) {
    case FAST_COLUMN_INT:
        return *(const int64_t *)field == -1 ? json_null() : json_integer(*(const int64_t *)field);
    case FAST_COLUMN_REAL:
        return fast__json_exact(*(const double *)field);
    case FAST_COLUMN_TEXT:
        return fast__json_text(*(const char *const *)field);
    default:
        return read_column(*(const char *const *)field);
    }
}

/* A row as an object, without columns of JSON, which only fast__serve_run() adds. */
json_t *fast__serve_row(fast_store_table table, const void *row)
{
    int64_t count;
    const fast_column *columns = fast_store_columns(table, &count);
    json_t *object = json_object();

    for (int64_t i = 0; i < count; i++)
        if (columns[i].kind != FAST_COLUMN_JSON)
            fast__json_set(&object, columns[i].name, value_of(&columns[i], row));
    return object;
}

/* Rows of one table, collected in an array. */
typedef struct row_list {
    fast_server *server;    /* whose store is read */
    fast_store_table table; /* whose rows they are */
    json_t *array;          /* NULL once memory was missing */
} row_list;

/* Append a row of any table to the array: tags as plain texts, runs with their tags. */
static fast_err add_row(void *ctx, const void *row)
{
    row_list *list = ctx;

    if (list->table == FAST_STORE_TAGS)
        fast__json_append(&list->array, fast__json_text(((const fast_stored_tag *)row)->tag));
    else if (list->table == FAST_STORE_RUNS)
        fast__json_append(&list->array, fast__serve_run_row(list->server, row));
    else
        fast__json_append(&list->array, fast__serve_row(list->table, row));
    return list->array ? FAST_OK : fast__fail(FAST_ENOMEM, "out of memory");
}

/* All rows of a run in a table; NULL if the store fails or memory is missing. */
json_t *fast__serve_rows(fast_server *server, fast_store_table table, int64_t run)
{
    row_list list = { server, table, json_array() };

    if (!fast_store_read(server->store, table, run, -1, add_row, &list))
        return list.array;
    json_decref(list.array);
    return NULL;
}

/* Add the note of a run to its row; a run without one has no such member. */
static fast_err add_note(void *ctx, const void *row)
{
    fast__json_set(ctx, "note", fast__json_text(((const fast_stored_note *)row)->text));
    return FAST_OK;
}

json_t *fast__serve_run_row(fast_server *server, const fast_stored_run *run)
{
    json_t *row = fast__serve_row(FAST_STORE_RUNS, run);

    fast__json_set(&row, "tags", fast__serve_rows(server, FAST_STORE_TAGS, run->id));
    if (row)
        (void)!fast_store_read(server->store, FAST_STORE_NOTES, run->id, -1, add_note, &row);
    return row;
}

/* Answer with a tree, which is taken, or with the error. */
static void finish(fast_http_request *request, fast_err err, json_t **move)
{
    if (err) {
        json_decref(*move);
        *move = NULL;
        fast__reply_err(request, err);
    } else {
        fast__reply_json(request, 200, move);
    }
}

/* An argument, or NULL if it is empty. */
static const char *argument(fast_http_request *request, const char *name)
{
    const char *value = fast__uri_arg(fast__request_uri(request), name);

    return value && *value ? value : NULL;
}

void fast__serve_query(fast_http_request *request, fast_store_query *query)
{
    *query = (fast_store_query){ .search = argument(request, "q"),
                                 .where = argument(request, "where"),
                                 .status = argument(request, "status"),
                                 .tag = argument(request, "tag"),
                                 .ids = argument(request, "ids"),
                                 .sort = argument(request, "sort") };
}

/* GET /api/runs: a page of the list, and the number of all runs that fit the conditions. */
void fast__serve_runs(fast_server *server, fast_http_request *request, int64_t id)
{
    const fast_uri *uri = fast__request_uri(request);
    row_list list = { server, FAST_STORE_RUNS, json_array() };
    json_t *answer = json_object();
    fast_store_query query;
    int64_t total = 0;

    fast__serve_query(request, &query);
    fast_err err = fast__uri_count(uri, "limit", SERVE_LIST_STANDARD, SERVE_LIST_MAX, &query.limit);

    (void)id;
    if (!err)
        err = fast__uri_count(uri, "offset", 0, INT32_MAX, &query.offset);
    /* limit=0 asks for all, which has a limit, too. */
    if (!err && query.limit == 0)
        query.limit = SERVE_LIST_MAX;
    if (!err)
        err = fast_store_list(server->store, &query, add_row, &list, &total);
    fast__json_set(&answer, "runs", list.array);
    fast__json_set(&answer, "total", json_integer(total));
    finish(request, err, &answer);
}

/* A run on its way into an answer. */
typedef struct run_answer {
    fast_server *server; /* whose store is read */
    json_t *object;      /* the answer so far */
} run_answer;

/* Add {"run": {...}} and the columns of JSON, which lists leave out. */
static fast_err add_run(void *ctx, const void *row)
{
    static const char *const names[] = { "options", "machine", "result" };
    run_answer *answer = ctx;
    int64_t count;
    const fast_column *columns = fast_store_columns(FAST_STORE_RUNS, &count);

    fast__json_set(&answer->object, "run", fast__serve_run_row(answer->server, row));
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++)
        for (int64_t i = 0; i < count; i++)
            if (strcmp(columns[i].name, names[k]) == 0)
                fast__json_set(&answer->object, names[k], value_of(&columns[i], row));
    return FAST_OK;
}

/* GET /api/runs/#: the run's row, its JSON columns and its rows in the small tables. */
void fast__serve_run(fast_server *server, fast_http_request *request, int64_t id)
{
    static const struct {
        const char *key;        /* in the answer */
        fast_store_table table; /* whose rows it has */
    } parts[] = {
        { "workers", FAST_STORE_WORKERS }, { "events", FAST_STORE_EVENTS },
        { "links", FAST_STORE_LINKS },     { "staleness", FAST_STORE_STALENESS },
        { "tags", FAST_STORE_TAGS },       { "places", FAST_STORE_PLACES },
        { "passes", FAST_STORE_PASSES },
    };
    run_answer answer = { server, json_object() };
    const fast_err err = fast_store_find(server->store, id, add_run, &answer);

    for (size_t i = 0; !err && i < sizeof parts / sizeof parts[0]; i++)
        fast__json_set(&answer.object, parts[i].key, fast__serve_rows(server, parts[i].table, id));
    if (!err)
        fast__json_set(&answer.object, "usage", fast__serve_usage(server, id));
    finish(request, err, &answer.object);
}

/* Spans, of which the last ones are listed. */
typedef struct span_list {
    json_t *array;  /* of [actor, kind, start, end] */
    int64_t skip;   /* number of spans that are left out at the start */
    int64_t count;  /* number of spans so far */
    int64_t actors; /* one more than the largest rank */
} span_list;

/* First pass: count the spans and find the largest rank. */
static fast_err count_span(void *ctx, const void *row)
{
    span_list *list = ctx;
    const fast_stored_span *span = row;

    list->count++;
    if (span->actor >= list->actors)
        list->actors = span->actor + 1;
    return FAST_OK;
}

/* Second pass: append a span as an array, which is a third as long as an object. */
static fast_err add_span(void *ctx, const void *row)
{
    span_list *list = ctx;
    const fast_stored_span *span = row;
    json_t *array;

    if (list->skip-- > 0)
        return FAST_OK;
    array = json_array();
    fast__json_append(&array, json_integer(span->actor));
    fast__json_append(&array, fast__json_text(span->kind));
    fast__json_append(&array, fast__json_exact(span->start_s));
    fast__json_append(&array, fast__json_exact(span->end_s));
    fast__json_append(&list->array, array);
    return FAST_OK;
}

/* Append the whole timeline of an actor in one world. */
static fast_err add_activity(void *ctx, const void *row)
{
    const fast_stored_activity *activity = row;
    json_t **array = ctx, *object = fast__serve_row(FAST_STORE_ACTIVITY, activity);
    json_t *bins = activity->bins ? json_loads(activity->bins, 0, NULL) : NULL;

    fast__json_set(&object, "bins", json_is_array(bins) ? bins : json_array());
    if (!json_is_array(bins))
        json_decref(bins);
    fast__json_append(array, object);
    return *array ? FAST_OK : fast__fail(FAST_ENOMEM, "out of memory");
}

/* Append names for the actors up to `rank` that the store has no name for. */
static void number_actors(json_t **names, int64_t rank)
{
    char name[32];

    while (*names && (int64_t)json_array_size(*names) < rank) {
        snprintf(name, sizeof name, "actor %lld", (long long)json_array_size(*names));
        fast__json_append(names, json_string(name));
    }
}

/* Append the name of an actor; rows come in the order of ranks. */
static fast_err add_actor(void *ctx, const void *row)
{
    json_t **names = ctx;
    const fast_stored_worker *worker = row;

    if (worker->rank < (int64_t)json_array_size(*names) || worker->rank > INT16_MAX)
        return FAST_OK;
    number_actors(names, worker->rank);
    fast__json_append(names, fast__json_text(worker->name ? worker->name : ""));
    return FAST_OK;
}

/* Spans are read twice, since only the last `max` of them are sent and their number is not known
 * before. */
json_t *fast__serve_span_rows(fast_server *server, int64_t run, int64_t max)
{
    span_list spans = { .array = json_array() };
    json_t *names = json_array(), *object = json_object(), *activity = json_array();
    fast_err err = fast_store_read(server->store, FAST_STORE_SPANS, run, -1, count_span, &spans);

    if (!err)
        err = fast_store_read(server->store, FAST_STORE_WORKERS, run, -1, add_actor, &names);
    number_actors(&names, spans.actors < INT16_MAX ? spans.actors : INT16_MAX);
    spans.skip = spans.count - max;
    if (!err)
        err = fast_store_read(server->store, FAST_STORE_SPANS, run, -1, add_span, &spans);
    fast__json_set(&object, "actors", names);
    fast__json_set(&object, "spans", spans.array);
    if (!err)
        err = fast_store_read(server->store, FAST_STORE_ACTIVITY, run, -1, add_activity, &activity);
    fast__json_set(&object, "activity", activity);
    if (!err)
        return object;
    json_decref(object);
    return NULL;
}

/* Take a row and do nothing: only whether the run exists is asked for. */
static fast_err ignore_row(void *ctx, const void *row)
{
    (void)ctx;
    (void)row;
    return FAST_OK;
}

fast_err fast__serve_find(fast_store *store, int64_t run)
{
    return fast_store_find(store, run, ignore_row, NULL);
}

void fast__serve_spans(fast_server *server, fast_http_request *request, int64_t id)
{
    const fast_err err = fast__serve_find(server->store, id);
    json_t *answer = err ? NULL : fast__serve_span_rows(server, id, INT32_MAX);

    finish(request, err, &answer);
}

/* A store that may be written, and the run to change. */
typedef struct tag_change {
    fast_store *store; /* open for writing */
    int64_t run;       /* whose tags */
} tag_change;

/* Add a tag that the body names. */
static fast_err add_tag(void *ctx, const char *tag)
{
    const tag_change *change = ctx;

    return fast_store_tag(change->store, change->run, tag);
}

/* Remove a tag that the body names. */
static fast_err remove_tag(void *ctx, const char *tag)
{
    const tag_change *change = ctx;

    return fast_store_untag(change->store, change->run, tag);
}

/* POST /api/runs/#/tags: add and remove, and answer with the tags that the run has now. */
void fast__serve_tags(fast_server *server, fast_http_request *request, int64_t id)
{
    tag_change change = { NULL, id };
    json_t *answer = json_object();
    size_t size;
    const char *body = fast__request_body(request, &size);
    fast_err err = fast_store_open(server->path, true, &change.store);

    if (!err)
        err = fast__serve_find(change.store, id);
    if (!err)
        err = fast__body_tags(body, size, add_tag, remove_tag, &change);
    fast_store_close(change.store);
    if (!err)
        fast__json_set(&answer, "tags", fast__serve_rows(server, FAST_STORE_TAGS, id));
    finish(request, err, &answer);
}

/* DELETE /api/runs/#. A run that still runs is a conflict (409), not a malformed request. */
void fast__serve_delete(fast_server *server, fast_http_request *request, int64_t id)
{
    fast_store *store = NULL;
    json_t *answer = json_object();
    fast_err err = fast_store_open(server->path, true, &store);

    if (!err)
        err = fast_store_delete(store, id);
    fast_store_close(store);
    /* The run still runs: the state of the run is in the way, not the request. */
    if (err == FAST_EINVAL) {
        json_decref(answer);
        fast__reply_error(request, 409, "%s", fast_error_detail());
        return;
    }
    finish(request, err, &answer);
}
