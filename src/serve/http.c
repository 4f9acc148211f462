/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP and HTTPS, by libmicrohttpd, without threads: its epoll runs inside fast__http_wait(),
 * so handlers, streams and the store's reader need no locks.
 *
 *     first call     headers: the guard; a refused request is answered before its body is read
 *     calls with data the body, into memory of the announced size
 *     last call      the handler; its answer is queued, or the connection sleeps until there is one
 *
 * Everything is bounded: connections, memory of a connection, headers, the body, and the time until
 * a request is whole. libmicrohttpd's own timeout starts again with each byte, so a client that
 * sends one byte a second (slowloris) would stay: here the whole request has one deadline. Before
 * that, connections that have not shown the token take a third of the places at most.
 *
 * A connection that sleeps is not watched by libmicrohttpd; each tick looks whether its client has
 * left.
 */
#include "serve/serve_request.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/system_random.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

static const int64_t second_ns = 1000000000;

/* Take a connection out of the event loop until fast__request_resume(): it has nothing to send. */
void fast__request_suspend(fast_http_request *request)
{
    FAST_ASSERT(!request->suspended);
    request->suspended = true;
    MHD_suspend_connection(request->connection);
}

/* Put a connection back into the event loop. Allowed for one that was not suspended. */
void fast__request_resume(fast_http_request *request)
{
    if (!request->suspended)
        return;
    request->suspended = false;
    MHD_resume_connection(request->connection);
}

/* A request begins: libmicrohttpd has read its first line. Returns the request, or NULL, which
 * closes the connection. */
static void *on_target(void *ctx, const char *target, struct MHD_Connection *connection)
{
    fast_http *http = ctx;
    fast_http_request *request;

    (void)connection;
    if (fast__alloc("request", 1, sizeof *request, &request))
        return NULL;
    request->http = http;
    request->malformed = fast__uri_parse(target, &request->uri) != FAST_OK;
    request->next = http->requests;
    if (http->requests)
        http->requests->prev = request;
    http->requests = request;
    return request;
}

/* A request ends, whether it was answered or not. */
static void on_completed(void *ctx, struct MHD_Connection *connection, void **slot,
                         enum MHD_RequestTerminationCode why)
{
    fast_http *http = ctx;
    fast_http_request *request = *slot;

    (void)connection;
    (void)why;
    if (!request)
        return;
    *slot = NULL;
    if (request->prev)
        request->prev->next = request->next;
    else
        http->requests = request->next;
    if (request->next)
        request->next->prev = request->prev;
    if (request->peer) {
        request->peer->busy = false;
        request->peer->since = fast__clock_ns();
    }
    /* Whoever wanted to answer later, or streams the answer, forgets the request. */
    if (request->gone)
        request->gone(request->gone_ctx);
    if (request->stream)
        request->stream->request = NULL;
    if (request->response)
        MHD_destroy_response(request->response);
    fast__page_fini(&request->piece);
    fast__free(request->body);
    fast__free(request);
}

/* Shut down the oldest connection that has not shown the token, if there are too many of them. They
 * cannot take all places: one of the user is accepted at any time. */
static void limit_strangers(fast_http *http)
{
    http_peer *oldest = NULL;
    int count = 0;

    for (http_peer *peer = http->peers; peer; peer = peer->next) /* the newest is first */
        if (!peer->known && !peer->ended && peer->fd >= 0) {
            oldest = peer;
            count++;
        }
    if (count <= FAST_HTTP_STRANGERS)
        return;
    oldest->ended = true;
    shutdown(oldest->fd, SHUT_RDWR); /* libmicrohttpd reads the end, and closes */
}

/* A connection opens or closes. */
static void on_connection(void *ctx, struct MHD_Connection *connection, void **slot,
                          enum MHD_ConnectionNotificationCode what)
{
    fast_http *http = ctx;
    http_peer *peer = *slot;

    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

        if (fast__alloc("connection", 1, sizeof *peer, &peer))
            return; /* it is served without a deadline of ours */
        peer->fd = info ? info->connect_fd : -1;
        peer->since = fast__clock_ns();
        peer->next = http->peers;
        if (http->peers)
            http->peers->prev = peer;
        http->peers = peer;
        *slot = peer;
        limit_strangers(http);
    } else if (peer) {
        if (peer->prev)
            peer->prev->next = peer->next;
        else
            http->peers = peer->next;
        if (peer->next)
            peer->next->prev = peer->prev;
        for (fast_http_request *request = http->requests; request; request = request->next)
            if (request->peer == peer)
                request->peer = NULL;
        fast__free(peer);
        *slot = NULL;
    }
}

/* Escapes stay: uri.c reads targets. */
static size_t on_unescape(void *ctx, struct MHD_Connection *connection, char *text)
{
    (void)ctx;
    (void)connection;
    return strlen(text);
}

/* Headers of one name. */
typedef struct header_search {
    const char *name;  /* that is looked for */
    const char *value; /* of the last one */
    int count;         /* number of matching headers */
} header_search;

/* libmicrohttpd calls this for each header of a request; names do not differ by case. */
static enum MHD_Result on_header(void *ctx, enum MHD_ValueKind kind, const char *name,
                                 const char *value)
{
    header_search *search = ctx;

    (void)kind;
    if (name && strcasecmp(name, search->name) == 0) {
        search->count++;
        search->value = value;
    }
    return MHD_YES;
}

/* The header, if there is one and one alone. *count_out is how many there are. */
static const char *find_header(const fast_http_request *request, const char *name, int *count_out)
{
    header_search search = { name, NULL, 0 };

    MHD_get_connection_values(request->connection, MHD_HEADER_KIND, on_header, &search);
    *count_out = search.count;
    return search.count == 1 ? search.value : NULL;
}

/* NULL also for a header that is there twice: two values are no value to trust. */
const char *fast__request_header(const fast_http_request *request, const char *name)
{
    int count;

    return find_header(request, name, &count);
}

/* The announced length of the body; -1 if it is malformed, or if the body comes in chunks. */
static int64_t body_length(const fast_http_request *request)
{
    int chunked, count;
    const char *text = find_header(request, "Transfer-Encoding", &chunked);
    int64_t length = 0;

    text = find_header(request, "Content-Length", &count);
    if (chunked || count > 1)
        return -1;
    for (; text && *text >= '0' && *text <= '9' && length < INT32_MAX; text++)
        length = 10 * length + (*text - '0');
    return text && *text ? -1 : length;
}

/* The identity of the sender, by its headers. Header lines that may not be repeated and are count
 * as `twice`. */
static fast_facts read_facts(const fast_http_request *request, bool *twice)
{
    static const char *const names[] = { "Host",          "Origin", "Sec-Fetch-Site",
                                         "Authorization", "Cookie", "Content-Type" };
    const char *values[6];

    *twice = false;
    for (int i = 0; i < 6; i++) {
        int count;

        values[i] = find_header(request, names[i], &count);
        *twice |= count > 1;
    }
    return (fast_facts){ .method = request->method,
                         .path = request->uri.path,
                         .host = values[0],
                         .origin = values[1],
                         .site = values[2],
                         .authorization = values[3],
                         .cookie = values[4],
                         .type = values[5],
                         .body = body_length(request) };
}

/* The first call: let the request in, or answer it. */
static void begin(fast_http_request *request)
{
    fast_http *http = request->http;
    const int headers = MHD_get_connection_values(request->connection, MHD_HEADER_KIND, NULL, NULL);
    bool twice;
    const fast_facts facts = read_facts(request, &twice);
    const char *why = "";
    const char *token;
    const int status = fast__guard_check(&http->guard, &facts, &request->access, &why);

    if (request->peer && !status && request->access != FAST_HTTP_STRANGER)
        request->peer->known = true;
    if (headers > FAST_HTTP_HEADERS)
        fast__reply_error(request, 431, "a request has at most %d headers", FAST_HTTP_HEADERS);
    else if (twice)
        fast__reply_error(request, 400, "a header is there twice");
    else if (facts.body < 0)
        fast__reply_error(request, 411, "a body needs its Content-Length");
    else if (status)
        fast__reply_error(request, status, "%s", why);
    else if (request->malformed)
        fast__reply_error(request, 400, "the address is malformed");
    else if (strcmp(facts.path, "/") == 0 && strcmp(facts.method, "GET") == 0 &&
             (token = fast__uri_arg(&request->uri, "token")) != NULL &&
             fast__guard_is_token(&http->guard, token, strlen(token)))
        fast__reply_cookie(request, false);
    else if (request->access == FAST_HTTP_STRANGER &&
             !(http->open && http->open(http->ctx, facts.method, facts.path)))
        fast__reply_error(request, 401,
                          "open the address that fast ui printed, which has the token, or send it "
                          "as Authorization: Bearer");
    else if (facts.body > 0 && fast__alloc("body", facts.body + 1, 1, &request->body))
        fast__reply_error(request, 503, "out of memory");
    else
        request->body_size = (size_t)facts.body;
}

/* Send the answer that was made. */
static enum MHD_Result send_response(fast_http_request *request)
{
    struct MHD_Response *response = request->response;
    const enum MHD_Result result =
        MHD_queue_response(request->connection, (unsigned)request->status, response);

    request->response = NULL;
    if (request->peer)
        request->peer->busy = true;
    MHD_destroy_response(response);
    return result;
}

/* libmicrohttpd calls this several times for a request: with the headers, with each part of the
 * body, and when the body is whole. Return MHD_NO to close the connection. */
static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *size, void **slot)
{
    fast_http *http = ctx;
    fast_http_request *request = *slot;

    (void)url;
    (void)version;
    if (!request || http->closing)
        return MHD_NO;
    if (!request->begun) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

        request->begun = true;
        request->connection = connection;
        request->peer = info ? info->socket_context : NULL;
        snprintf(request->method, sizeof request->method, "%s", method);
        begin(request);
        return request->response ? send_response(request) : MHD_YES;
    }
    /* A part of the body; its announced length was checked with the headers. */
    if (*size > 0) {
        if (*size > request->body_size - request->body_used)
            return MHD_NO; /* more than was announced */
        memcpy(request->body + request->body_used, data, *size);
        request->body_used += *size;
        *size = 0;
        return MHD_YES;
    }
    /* The request is whole. A handler that answers later makes this be called again, then with a
     * response. */
    if (!request->handled) {
        request->handled = true;
        if (request->peer)
            request->peer->busy = true;
        http->handler(http->ctx, request);
    }
    if (request->response)
        return send_response(request);
    if (!request->gone)
        return MHD_NO; /* there was no memory even for an error */
    fast__request_suspend(request);
    return MHD_YES;
}

/* The handler answers later. `gone` is called when the request ends without an answer, so that the
 * caller forgets its pointer to it. */
void fast__request_later(fast_http_request *request, void (*gone)(void *ctx), void *ctx)
{
    FAST_ASSERT(gone);
    FAST_ASSERT(!request->response);
    request->gone = gone;
    request->gone_ctx = ctx;
}

const char *fast__request_method(const fast_http_request *request)
{
    return request->method;
}

const fast_uri *fast__request_uri(const fast_http_request *request)
{
    return &request->uri;
}

/* The body of a GET is empty. */
const char *fast__request_body(const fast_http_request *request, size_t *size_out)
{
    *size_out = request->body_used;
    return request->body ? request->body : "";
}

/* Start libmicrohttpd with all limits set. Port 0 lets the system choose. */
static struct MHD_Daemon *listen_at(fast_http *http, struct sockaddr_in *address,
                                    const struct MHD_OptionItem *tls)
{
    const unsigned secure = tls[0].option != MHD_OPTION_END ? MHD_USE_TLS : 0;

    errno = 0;
    return MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | secure, 0, NULL, NULL, on_request, http,
        MHD_OPTION_SOCK_ADDR, (struct sockaddr *)address, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)FAST_HTTP_CONNECTIONS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)FAST_HTTP_MEMORY, MHD_OPTION_CONNECTION_TIMEOUT, 3u * FAST_HTTP_PATIENCE_S,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_URI_LOG_CALLBACK, on_target, http,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, http, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, http, MHD_OPTION_UNESCAPE_CALLBACK, on_unescape, NULL, MHD_OPTION_ARRAY, tls,
        MHD_OPTION_END);
}

/* The error of a server that could not be started. */
static fast_err fail_start(const fast_http_options *options, const char *host)
{
    const int why = errno;

    if (options->cert && why != EADDRINUSE && why != EACCES && why != EADDRNOTAVAIL)
        return fast__fail(FAST_EIO,
                          "cannot serve https on %s, port %lld: the certificate and the "
                          "key must be PEM files that belong together",
                          host, (long long)options->port);
    if (why == EADDRINUSE)
        return fast__fail(
            FAST_EIO, "port %lld of %s is taken; choose another port, --port 0 finds a free one",
            (long long)options->port, host);
    return fast__fail(FAST_EIO, "cannot listen on %s, port %lld: %s; choose another port", host,
                      (long long)options->port, why ? strerror(why) : "the server did not start");
}

/* Listen, and tell the guard the port and the origin, which are part of the names that it
 * accepts. */
static fast_err start(fast_http *http, const fast_http_options *options)
{
    const char *host = options->host ? options->host : "127.0.0.1";
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)options->port) };
    const struct MHD_OptionItem end = { MHD_OPTION_END, 0, NULL };
    struct MHD_OptionItem tls[] = {
        { MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(uintptr_t)options->cert },
        { MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)options->key },
        end,
    };
    const union MHD_DaemonInfo *info;

    if (inet_pton(AF_INET, host, &address.sin_addr) != 1)
        return fast__fail(FAST_EINVAL,
                          "\"%.60s\" is not an IPv4 address of this machine, like "
                          "192.168.1.5 or 0.0.0.0",
                          host);
    if (options->cert && MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
        return fast__fail(FAST_ENOTSUP, "this libmicrohttpd has no TLS; use a reverse proxy");
    if (!options->cert)
        tls[0] = end;
    http->daemon = listen_at(http, &address, tls);
    if (!http->daemon && errno == EADDRINUSE && options->free_port) {
        address.sin_port = 0;
        http->daemon = listen_at(http, &address, tls);
    }
    if (!http->daemon)
        return fail_start(options, host);
    info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_BIND_PORT);
    FAST_ASSERT(info);
    http->guard.port = info->port;
    http->guard.tls = options->cert != NULL;
    if (options->origin)
        snprintf(http->guard.origin, sizeof http->guard.origin, "%s", options->origin);
    else
        snprintf(http->guard.origin, sizeof http->guard.origin, "%s://%s:%lld",
                 http->guard.tls ? "https" : "http", host, (long long)http->guard.port);
    return FAST_OK;
}

/* Without a token of the caller's it comes from the system's random numbers. */
fast_err fast__http_open(const fast_http_options *options, fast_http **out)
{
    unsigned char random[FAST_HTTP_TOKEN_BYTES];
    fast_http *http;
    fast_err err;

    FAST_ASSERT(options->handler);
    if (options->port < 0 || options->port > 65535)
        return fast__fail(FAST_EINVAL, "a port is a number from 0 to 65535, not %lld",
                          (long long)options->port);
    FAST_TRY(fast__system_random(random, sizeof random));
    FAST_TRY(fast__alloc("server", 1, sizeof *http, &http));
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(http->guard.token + 2 * i, 3, "%02x", random[i]);
    if (options->token)
        snprintf(http->guard.token, sizeof http->guard.token, "%s", options->token);
    FAST_ASSERT(strlen(http->guard.token) == sizeof http->guard.token - 1);
    http->open = options->open;
    http->handler = options->handler;
    http->ctx = options->ctx;
    http->patience =
        (int64_t)((options->patience_s > 0 ? options->patience_s : FAST_HTTP_PATIENCE_S) *
                  (double)second_ns);
    err = start(http, options);
    if (err) {
        fast__free(http);
        return err;
    }
    *out = http;
    return FAST_OK;
}

/* Suspended connections are resumed first: libmicrohttpd cannot end them otherwise. */
void fast__http_close(fast_http *http)
{
    if (!http)
        return;
    http->closing = true;
    for (fast_http_request *request = http->requests; request; request = request->next)
        fast__request_resume(request);
    MHD_stop_daemon(http->daemon);
    FAST_ASSERT(!http->requests);
    FAST_ASSERT(!http->peers);
    fast__free(http);
}

int64_t fast__http_port(const fast_http *http)
{
    return http->guard.port;
}

const char *fast__http_token(const fast_http *http)
{
    return http->guard.token;
}

bool fast__http_is_token(const fast_http *http, const char *text)
{
    return fast__guard_is_token(&http->guard, text, strlen(text));
}

void fast__http_origin(const fast_http *http, char out[FAST_HTTP_ORIGIN_MAX])
{
    snprintf(out, FAST_HTTP_ORIGIN_MAX, "%s", http->guard.origin);
}

/* End what takes too long, and notice who has left. */
static void look_after(fast_http *http, int64_t now)
{
    for (http_peer *peer = http->peers; peer; peer = peer->next)
        if (!peer->busy && peer->fd >= 0 && now - peer->since > http->patience)
            shutdown(peer->fd, SHUT_RDWR); /* libmicrohttpd reads the end, and closes */
    for (fast_http_request *request = http->requests; request; request = request->next) {
        char byte;

        if (!request->suspended || !request->peer || request->peer->fd < 0 ||
            recv(request->peer->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0)
            continue;
        request->left = true;
        if (request->stream)
            fast__request_resume(request);
    }
}

/* Answer what is there, then look after connections at most once a tick. */
fast_err fast__http_wait(fast_http *http)
{
    int64_t now;

    if (MHD_run_wait(http->daemon, FAST_HTTP_TICK_MS) != MHD_YES)
        return fast__fail(FAST_EIO, "the server cannot wait for requests: %s", strerror(errno));
    now = fast__clock_ns();
    if (now - http->ticked > FAST_HTTP_TICK_MS * (second_ns / 1000)) {
        http->ticked = now;
        look_after(http, now);
    }
    return FAST_OK;
}
