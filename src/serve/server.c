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
#include "serve/token.h"
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
    { "GET", "/api/runs/#/trace", fast__serve_trace },
    { "GET", "/api/groups", fast__serve_groups },
    { "GET", "/api/views", fast__serve_views },
    { "GET", "/api/live", fast__serve_watch },
    { "GET", "/api/comparisons", fast__serve_comparisons },
    { "GET", "/api/comparisons/current", fast__serve_comparing },
    { "GET", "/api/server", fast__serve_server },
    { "GET", "/api/systems", fast__serve_systems },
    { "GET", "/api/options", fast__serve_options },
    { "GET", "/api/clusters", fast__serve_clusters },
    { "GET", "/metrics", fast__serve_scrape },
    { "POST", "/api/runs", fast__serve_launch },
    { "POST", "/api/login", fast__serve_login },
    { "POST", "/api/comparisons", fast__serve_compare },
    { "POST", "/api/comparisons/stop", fast__serve_compare_stop },
    { "POST", "/api/runs/#/stop", fast__serve_stop },
    { "POST", "/api/runs/#/tags", fast__serve_tags },
    { "POST", "/api/runs/#/note", fast__serve_note },
    { "POST", "/api/views", fast__serve_view },
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
            if (server->read_only && strcmp(method, "GET") != 0 &&
                routes[i].answer != fast__serve_login) {
                fast__reply_error(request, 403, "this server is read-only: it changes nothing");
                return;
            }
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

/* The pages hold no data and ask for the token; /metrics is open where the user said so. */
static bool is_open(void *ctx, const char *method, const char *path)
{
    const fast_server *server = ctx;

    if (strcmp(method, "POST") == 0)
        return strcmp(path, "/api/login") == 0;
    return strcmp(method, "GET") == 0 &&
           (fast__asset_find(path) || (server->open_metrics && strcmp(path, "/metrics") == 0));
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

/* FAST_EINVAL for an address of the network without TLS that the user did not ask for, and for an
 * origin that is no address of a site. */
static fast_err check_host(const fast_server_options *o)
{
    const char *host = o->host && strcmp(o->host, "localhost") != 0 ? o->host : "127.0.0.1";
    const bool local = strncmp(host, "127.", 4) == 0;
    const char *name = o->origin && strncmp(o->origin, "https://", 8) == 0  ? o->origin + 8
                       : o->origin && strncmp(o->origin, "http://", 7) == 0 ? o->origin + 7
                                                                            : NULL;

    if (!o->cert != !o->key)
        return fast__fail(FAST_EINVAL, "https needs both files, --cert and --key");
    if (!local && !o->cert && !o->insecure)
        return fast__fail(FAST_EINVAL,
                          "--host %.60s without TLS shows the token and the runs to the network: "
                          "give --cert and --key, or --insecure, or use a reverse proxy "
                          "(docs/serve.md)",
                          host);
    if (strcmp(host, "0.0.0.0") == 0 && !o->origin)
        return fast__fail(FAST_EINVAL, "--host 0.0.0.0 needs --origin, the address that browsers "
                                       "open, like https://fast.example.org:8420");
    if (o->origin && (!name || !*name || strpbrk(name, "/?#@ \t\r\n") ||
                      strlen(o->origin) >= FAST_HTTP_ORIGIN_MAX))
        return fast__fail(FAST_EINVAL, "--origin \"%.60s\" is not like https://fast.example.org",
                          o->origin);
    return FAST_OK;
}

/* Read the certificate and the key; the caller frees both. */
static fast_err read_pem(const fast_server_options *o, char **cert_out, char **key_out)
{
    enum { PEM_MAX = 1 << 20 };
    size_t size;

    *cert_out = *key_out = NULL;
    if (!o->cert)
        return FAST_OK;
    FAST_TRY(fast__file_read(o->cert, PEM_MAX, cert_out, &size));
    const fast_err err = fast__file_read(o->key, PEM_MAX, key_out, &size);
    if (err) {
        fast__free(*cert_out);
        *cert_out = NULL;
    }
    return err;
}

/* Listen with the store's token. */
static fast_err open_http(fast_server *server, const fast_server_options *o)
{
    const bool standard = !o->host || strcmp(o->host, "localhost") == 0;
    char token[FAST_HTTP_TOKEN_SIZE], origin[FAST_HTTP_ORIGIN_MAX], *cert, *key;

    FAST_TRY(fast__token_load(server->path, o->new_token, token));
    FAST_TRY(read_pem(o, &cert, &key));
    const fast_err err = fast__http_open(&(fast_http_options){ .port = o->port,
                                                               .free_port = o->free_port,
                                                               .host = standard ? NULL : o->host,
                                                               .origin = o->origin,
                                                               .cert = cert,
                                                               .key = key,
                                                               .token = token,
                                                               .open = is_open,
                                                               .handler = handle,
                                                               .ctx = server },
                                         &server->http);
    fast__free(cert);
    fast__free(key);
    if (err)
        return err;
    fast__http_origin(server->http, origin);
    snprintf(server->url, sizeof server->url, "%s/?token=%s", origin, token);
    return FAST_OK;
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
    FAST_TRY(check_host(o));
    FAST_TRY(fast__alloc("server", 1, sizeof *server, &server));
    server->groups = o->groups;
    server->read_only = o->read_only;
    server->open_metrics = o->open_metrics;
    snprintf(server->program, sizeof server->program, "%s",
             o->program && !o->read_only ? o->program : "");
    err = open_store(server, o->store);
    if (err)
        goto undo_server;
    err = open_http(server, o);
    if (err)
        goto undo_store;
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

int64_t fast_server_port(const fast_server *server)
{
    return fast__http_port(server->http);
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
    fast__compare_tick(server);
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
    fast__compare_fini(server);
    fast__halt_fini(server);
    FAST_ASSERT(!server->lives);
    fast_store_close(server->store);
    fast__free(server);
}
