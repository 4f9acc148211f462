/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dashboard's server: one thread, one reader of the store, a table of what can be asked for.
 *
 *     wait for requests (http.c) -> the table -> an answer from the store
 *     5 times a second: has the store changed? then event streams have something to say;
 *                       how are the runs that were started here?
 *
 * Files are a table of constants too (assets), found by their whole path: no name of a request ever
 * reaches the file system.
 */
#include "serve/server.h"

#include "base/clock.h"
#include "base/memory.h"
#include "store/store.h"

#include <stdio.h>
#include <string.h>

/* The requests that are answered; # is the number of a run. */
static const struct {
    const char *method;      /* GET, POST, DELETE */
    const char *pattern;     /* of the path */
    serve_answer_fn *answer; /* answers */
} routes[] = {
    { "GET", "/api/runs", fast__serve_runs },
    { "GET", "/api/runs/#", fast__serve_run },
    { "GET", "/api/runs/#/metrics", fast__serve_metrics },
    { "GET", "/api/runs/#/spans", fast__serve_spans },
    { "GET", "/api/runs/#/live", fast__serve_live },
    { "GET", "/api/live", fast__serve_watch },
    { "GET", "/api/comparisons", fast__serve_comparisons },
    { "GET", "/api/systems", fast__serve_systems },
    { "GET", "/api/options", fast__serve_options },
    { "GET", "/api/clusters", fast__serve_clusters },
    { "GET", "/metrics", fast__serve_scrape },
    { "POST", "/api/runs", fast__serve_launch },
    { "POST", "/api/runs/#/stop", fast__serve_stop },
    { "POST", "/api/runs/#/tags", fast__serve_tags },
    { "DELETE", "/api/runs/#", fast__serve_delete },
};

/* Compare whole paths with the table; "/" is the front page. */
const fast_asset *fast__asset_find(const char *path)
{
    if (strcmp(path, "/") == 0)
        path = "/index.html";
    for (const fast_asset *asset = fast__assets; asset->path; asset++)
        if (strcmp(asset->path, path) == 0)
            return asset;
    return NULL;
}

bool fast_server_has_pages(void)
{
    return fast__assets[0].path != NULL;
}

/* Find the route of a request and answer it. A path of the table with another method is 405, a path
 * that is nowhere is 404. */
static void handle(void *ctx, fast_http_request *request)
{
    fast_server *server = ctx;
    const fast_uri *uri = fast__request_uri(request);
    const char *method = fast__request_method(request);
    const fast_asset *asset = fast__asset_find(uri->path);
    bool known = asset != NULL;

    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        int64_t id = 0;

        if (!fast__uri_match(uri, routes[i].pattern, &id))
            continue;
        known = true;
        if (strcmp(routes[i].method, method) == 0) {
            routes[i].answer(server, request, id);
            return;
        }
    }
    /* Paths of the interface come first, so that no file can hide one. */
    if (asset && strcmp(method, "GET") == 0)
        fast__reply_asset(request, asset);
    else if (known)
        fast__reply_error(request, 405, "%s is not for this address", method);
    else if (strcmp(uri->path, "/") == 0)
        fast__reply_error(request, 404,
                          "this build has no pages: install npm and configure again; /api answers");
    else
        fast__reply_error(request, 404, "there is nothing at this address");
}

/* Open the store for reading; create it first if it does not exist. */
static fast_err open_store(fast_server *server, const char *path)
{
    fast_store *made;
    fast_err err;

    FAST_TRY(fast_store_path(path, server->path, sizeof server->path));
    err = fast_store_open(server->path, false, &server->store);
    if (err != FAST_ENOENT)
        return err;
    FAST_TRY(fast_store_open(server->path, true, &made));
    fast_store_close(made);
    return fast_store_open(server->path, false, &server->store);
}

/* The store is created where it is missing, so that the dashboard can be opened before the first
 * run. */
fast_err fast_server_open(const fast_server_options *options, fast_server **out)
{
    static const fast_server_options standard = { .store = NULL };
    const fast_server_options *o = options ? options : &standard;
    fast_server *server;
    fast_err err;

    FAST_TRY(fast__check_size("fast_server_options", o->size, sizeof *o));
    FAST_TRY(fast__alloc("server", 1, sizeof *server, &server));
    server->groups = o->groups;
    snprintf(server->program, sizeof server->program, "%s", o->program ? o->program : "");
    err = open_store(server, o->store);
    if (err)
        goto undo_server;
    err = fast__http_open(&(fast_http_options){ .port = o->port,
                                                .open_path = o->open_metrics ? "/metrics" : NULL,
                                                .handler = handle,
                                                .ctx = server },
                          &server->http);
    if (err)
        goto undo_store;
    snprintf(server->url, sizeof server->url, "http://127.0.0.1:%lld/?token=%s",
             (long long)fast__http_port(server->http), fast__http_token(server->http));
    *out = server;
    return FAST_OK;

undo_store:
    fast_store_close(server->store);
undo_server:
    fast__free(server);
    return err;
}

const char *fast_server_url(const fast_server *server)
{
    return server->url;
}

/* Only sets a flag: safe in a signal handler. */
void fast_server_stop(fast_server *server)
{
    atomic_store(&server->stop, true);
}

/* A store that was moved or deleted shows what nobody has any more: as soon as there is a new one,
 * that is read. */
static void follow_store(fast_server *server)
{
    fast_store *store = NULL;

    if (!fast__store_has_moved(server->store) ||
        fast_store_open(server->path, false, &store) != FAST_OK)
        return;
    fast_store_close(server->store);
    server->store = store;
}

/* Work that is done a few times a second: look for changes of the store, and after the processes
 * that this server started or told to stop. Requests in between cost no look. */
static void tick(fast_server *server)
{
    const int64_t now = fast__clock_ns();
    int64_t changes;

    if (now - server->ticked < (int64_t)FAST_HTTP_TICK_MS * 1000000)
        return;
    server->ticked = now;
    follow_store(server);
    if (fast_store_changes(server->store, &changes) == FAST_OK)
        server->changes = changes;
    fast__launch_tick(server, now);
    fast__halt_tick(server, now);
    fast__live_tick(server, now);
}

/* The event loop. Everything happens in the thread that calls this. */
fast_err fast_server_run(fast_server *server)
{
    while (!atomic_load(&server->stop)) {
        FAST_TRY(fast__http_wait(server->http));
        tick(server);
    }
    return FAST_OK;
}

/* Connections close first: streams refer to the store. */
void fast_server_close(fast_server *server)
{
    if (!server)
        return;
    fast__http_close(server->http);
    fast__launch_fini(server);
    fast__halt_fini(server);
    FAST_ASSERT(!server->lives);
    fast_store_close(server->store);
    fast__free(server);
}
