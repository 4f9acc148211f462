/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"
#include "base/thread.h"
#include "fast/serve.h"
#include "store/store.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* For tests: a server on a store of its own, answered by a thread, and a client that sends bytes as
 * they are, so that nothing is made right on the way. */
enum { REPLY_MAX = 4 << 20 };

typedef struct stage {
    char folder[64];     /* to be removed */
    char path[96];       /* of the store */
    fast_store *store;   /* for writing */
    fast_server *server; /* that is tested */
    fast_thread thread;  /* that it answers on */
    int port;            /* that it listens on */
    char token[33];      /* that it wants */
    char *reply;         /* the last one, REPLY_MAX bytes */
} stage;

#define assert_ok(expr)                                                   \
    do {                                                                  \
        const fast_err err_ = (expr);                                     \
        if (err_ != FAST_OK)                                              \
            fail_msg("%s: %s", fast_err_text(err_), fast_error_detail()); \
    } while (0)

/* The thread of the server under test. */
static inline void *stage_serve(void *ctx)
{
    stage *s = ctx;

    return fast_server_run(s->server) == FAST_OK ? NULL : s;
}

/* Open a store and a server on it, in a thread of its own. */
static inline void stage_open_with(stage *s, fast_server_options options)
{
    memset(s, 0, sizeof *s);
    snprintf(s->folder, sizeof s->folder, "/tmp/fast-serve-XXXXXX");
    assert_non_null(mkdtemp(s->folder));
    snprintf(s->path, sizeof s->path, "%s/runs.db", s->folder);
    assert_ok(fast_store_open(s->path, true, &s->store));
    s->reply = malloc(REPLY_MAX);
    assert_non_null(s->reply);
    options.store = s->path;
    assert_ok(fast_server_open(&options, &s->server));
    s->port = (int)fast_server_port(s->server);
    assert_int_equal(
        sscanf(strstr(fast_server_url(s->server), "/?token="), "/?token=%32s", s->token), 1);
    assert_int_equal(strlen(s->token), 32);
    assert_ok(fast__thread_start(&s->thread, stage_serve, s));
}

/* The same for most tests. */
static inline void stage_open(stage *s, const char *program, bool open_metrics)
{
    stage_open_with(s, (fast_server_options){ .program = program, .open_metrics = open_metrics });
}

/* Stop the server, and delete the store. */
static inline void stage_close(stage *s)
{
    char command[128];

    fast_server_stop(s->server);
    fast__thread_join(&s->thread);
    fast_server_close(s->server);
    fast_store_close(s->store);
    free(s->reply);
    snprintf(command, sizeof command, "rm -rf %s", s->folder);
    assert_int_equal(system(command), 0);
}

/* A connection; closed by the caller. */
static inline int dial(int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr = { htonl(INADDR_LOOPBACK) } };
    const struct timeval patience = { .tv_sec = 60 };
    const int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* Send all bytes; a connection that was closed is no error here. */
static inline void send_bytes(int fd, const char *bytes, size_t size)
{
    while (size > 0) {
        const ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);

        if (sent <= 0)
            return; /* the server has refused the rest */
        bytes += sent;
        size -= (size_t)sent;
    }
}

/* As recv(), which a signal may interrupt. */
static inline ssize_t recv_some(int fd, char *bytes, size_t size)
{
    ssize_t got;

    do
        got = recv(fd, bytes, size, 0);
    while (got < 0 && errno == EINTR);
    return got;
}

/* Everything until the server closes, into `reply`; the number of bytes. */
static inline size_t read_all(int fd, char *reply)
{
    size_t used = 0;
    ssize_t got;

    while (used < REPLY_MAX - 1 && (got = recv_some(fd, reply + used, REPLY_MAX - 1 - used)) > 0)
        used += (size_t)got;
    reply[used] = '\0';
    return used;
}

/* Send a request as it is; return the status of the reply in s->reply, 0 without a reply. */
static inline int ask_raw(stage *s, const char *bytes, size_t size)
{
    const int fd = dial(s->port);
    int status = 0;

    send_bytes(fd, bytes, size);
    read_all(fd, s->reply);
    close(fd);
    sscanf(s->reply, "HTTP/1.1 %d", &status);
    return status;
}

/* A request with these header lines, each ending in CRLF, and a body or NULL. */
static inline int ask_with(stage *s, const char *method, const char *target, const char *headers,
                           const char *body)
{
    const size_t length = body ? strlen(body) : 0;
    const size_t size = strlen(target) + strlen(headers) + length + 512;
    char *text = malloc(size);
    int status;

    assert_non_null(text);
    snprintf(text, size, "%s %s HTTP/1.1\r\nConnection: close\r\n%s", method, target, headers);
    if (body)
        snprintf(text + strlen(text), size - strlen(text),
                 "Content-Type: application/json\r\nContent-Length: %zu\r\n", length);
    snprintf(text + strlen(text), size - strlen(text), "\r\n%s", body ? body : "");
    status = ask_raw(s, text, strlen(text));
    free(text);
    return status;
}

/* A request of somebody who has the token. */
static inline int ask(stage *s, const char *method, const char *target, const char *body)
{
    char headers[256];

    snprintf(headers, sizeof headers, "Host: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\n", s->port,
             s->token);
    return ask_with(s, method, target, headers, body);
}

/* The body of the last reply; of one in chunks, with the chunks' lines. */
static inline const char *body_of(const stage *s)
{
    const char *end = strstr(s->reply, "\r\n\r\n");

    return end ? end + 4 : "";
}

/* True if the last reply contains a text. */
static inline bool replied(const stage *s, const char *text)
{
    return strstr(s->reply, text) != NULL;
}

/* A run with nothing measured. */
static inline fast_stored_run empty_run(const char *name)
{
    fast_stored_run run;
    int64_t count;
    const fast_column *columns = fast_store_columns(FAST_STORE_RUNS, &count);

    memset(&run, 0, sizeof run);
    for (int64_t i = 0; i < count; i++) {
        char *field = (char *)&run + columns[i].offset;

        if (columns[i].kind == FAST_COLUMN_INT)
            *(int64_t *)(void *)field = -1;
        else if (columns[i].kind == FAST_COLUMN_REAL)
            *(double *)(void *)field = NAN;
    }
    run.status = "running";
    run.name = name;
    run.created = 1e9;
    run.model = "lenet";
    run.version = "0";
    run.command = "fast train";
    run.options = "{\"lr\":\"0.1\"}";
    return run;
}

/* Store a running run and return its number. */
static inline int64_t add_run(fast_store *store, const char *name)
{
    const fast_stored_run run = empty_run(name);
    int64_t id = 0;

    assert_ok(fast__store_begin(store, &run, &id));
    return id;
}

/* A row of metrics with a loss, and with a test's if `tested`. */
static inline void add_metric(fast_store *store, int64_t run, int64_t seq, double loss, bool tested)
{
    const fast_stored_metric row = { .seq = seq,
                                     .step = 10 * seq,
                                     .epoch = NAN,
                                     .time_s = 0.5 * (double)seq,
                                     .wall_s = NAN,
                                     .samples = -1,
                                     .bytes = -1,
                                     .loss = loss,
                                     .train_accuracy = NAN,
                                     .test_loss = tested ? loss : NAN,
                                     .test_accuracy = NAN,
                                     .samples_per_s = NAN,
                                     .compute_s = NAN,
                                     .exchange_s = NAN,
                                     .wait_s = NAN,
                                     .codec_s = NAN,
                                     .staleness_mean = NAN,
                                     .divergence = NAN,
                                     .validation_loss = NAN,
                                     .validation_accuracy = NAN };

    assert_ok(fast__store_put(store, FAST_STORE_METRICS, run, &row));
}

/* Store an event of a run. */
static inline void add_event(fast_store *store, int64_t run, int64_t seq, const char *text)
{
    const fast_stored_event row = {
        .seq = seq, .time_s = 1, .step = 2, .kind = "note", .text = text
    };

    assert_ok(fast__store_put(store, FAST_STORE_EVENTS, run, &row));
}

/* End a run with a status. */
static inline void end_run(fast_store *store, int64_t run, const char *status)
{
    fast_stored_run row = empty_run(NULL);

    row.status = status;
    row.finished = 2e9;
    assert_ok(fast__store_update(store, run, &row));
}
