/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: what is in the store is in the answers, escaped, by column, thinned without losing peaks,
 * as it happens, and without leaks where memory is missing; and runs are started and stopped.
 * Method: a real server on a real socket over a store that the test writes. The program that is
 * started is this one: with the word `train` it plays a run.
 */
#include "serve/serve_fixture.h"

#include "base/memory.h"
#include "serve/serve_body.h"
#include "serve/server.h"

#include <signal.h>
#include <sys/wait.h>

static int setup(void **state)
{
    static stage s;

    stage_open(&s, "/proc/self/exe", true);
    *state = &s;
    return 0;
}

static int teardown(void **state)
{
    stage_close(*state);
    return 0;
}

static bool is_json(const char *text, size_t size)
{
    json_t *value = NULL;
    const bool valid = fast__json_read("answer", text, size, &value) == FAST_OK;

    json_decref(value);
    return valid;
}

static const char nasty[] = "</script><script>alert(\"x\")</script>\\ \n\x01 \xc3\xa4 \xff";

/* A run's name is text of the user's: as JSON and as OpenMetrics it stays text. */
static void test_escapes(void **state)
{
    stage *s = *state;
    const int64_t run = add_run(s->store, nasty);
    char target[64];

    add_event(s->store, run, 0, nasty);
    assert_int_equal(ask(s, "GET", "/api/runs", NULL), 200);
    assert_false(replied(s, "<script"));
    assert_true(replied(s, "\\u003c/script\\u003e\\u003cscript\\u003ealert(\\\"x\\\")"));
    assert_true(is_json(body_of(s), strlen(body_of(s))));
    snprintf(target, sizeof target, "/api/runs/%lld", (long long)run);
    assert_int_equal(ask(s, "GET", target, NULL), 200);
    assert_false(replied(s, "<script"));
    assert_true(is_json(body_of(s), strlen(body_of(s))));
    assert_int_equal(ask(s, "GET", "/metrics", NULL), 200);
    assert_true(replied(s, "name=\"</script><script>alert(\\\"x\\\")</script>\\\\ \\n"));
    assert_true(replied(s, "application/openmetrics-text"));
    end_run(s->store, run, "done");
}

static void test_runs(void **state)
{
    stage *s = *state;
    const int64_t first = add_run(s->store, "alpha"), second = add_run(s->store, "beta");
    char target[96];

    end_run(s->store, first, "done");
    assert_int_equal(ask(s, "GET", "/api/runs?q=alpha", NULL), 200);
    assert_true(replied(s, "\"name\":\"alpha\""));
    assert_true(replied(s, "\"total\":1"));
    assert_true(replied(s, "\"loss\":null"));
    assert_false(replied(s, "\"options\""));
    assert_int_equal(ask(s, "GET", "/api/runs?status=running&sort=-created&limit=1", NULL), 200);
    assert_true(replied(s, "\"name\":\"beta\""));
    assert_false(replied(s, "\"name\":\"alpha\""));
    assert_int_equal(ask(s, "GET", "/api/runs?sort=nothing", NULL), 400);
    assert_true(replied(s, "nothing"));
    snprintf(target, sizeof target, "/api/runs/%lld", (long long)second);
    assert_int_equal(ask(s, "GET", target, NULL), 200);
    assert_true(replied(s, "\"options\":{\"lr\":\"0.1\"}"));
    assert_true(replied(s, "\"machine\":{}"));
    assert_int_equal(ask(s, "DELETE", target, NULL), 409);
    snprintf(target, sizeof target, "/api/runs/%lld/tags", (long long)first);
    assert_int_equal(ask(s, "POST", target, "{\"add\":[\"a\",\"b<c\"]}"), 200);
    assert_true(replied(s, "{\"tags\":[\"a\",\"b\\u003cc\"]}"));
    assert_int_equal(ask(s, "POST", target, "{\"remove\":[\"a\"],\"add\":[]}"), 200);
    assert_true(replied(s, "{\"tags\":[\"b\\u003cc\"]}"));
    assert_int_equal(ask(s, "GET", "/api/runs?tag=b%3Cc", NULL), 200);
    assert_true(replied(s, "\"total\":1"));
    snprintf(target, sizeof target, "/api/runs/%lld", (long long)first);
    assert_int_equal(ask(s, "DELETE", target, NULL), 200);
    assert_int_equal(ask(s, "GET", target, NULL), 404);
    assert_int_equal(ask(s, "DELETE", target, NULL), 404);
    assert_int_equal(ask(s, "GET", "/api/runs/123456", NULL), 404);
    assert_int_equal(ask(s, "GET", "/api/runs/123456/metrics", NULL), 404);
    assert_int_equal(ask(s, "GET", "/api/runs/123456/live", NULL), 404);
    end_run(s->store, second, "done");
}

/* The program's own tables. */
static void test_tables(void **state)
{
    stage *s = *state;
    static const char *const targets[] = { "/api/systems", "/api/options", "/api/clusters" };

    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        assert_int_equal(ask(s, "GET", targets[i], NULL), 200);
        assert_true(is_json(body_of(s), strlen(body_of(s))));
    }
    assert_int_equal(ask(s, "GET", "/api/options", NULL), 200);
    assert_true(replied(s, "\"name\":\"lr\""));
    assert_true(replied(s, "\"codec\":[{"));
}

/* The body of a reply in chunks, with the chunks' lines taken out, in place. */
static char *join_chunks(stage *s)
{
    char *from = strstr(s->reply, "\r\n\r\n") + 4, *to = from, *joined = from;

    assert_true(replied(s, "Transfer-Encoding: chunked"));
    for (;;) {
        char *end;
        const size_t size = strtoul(from, &end, 16);

        from = end + 2;
        if (size == 0)
            break;
        memmove(to, from, size);
        to += size;
        from += size + 2;
    }
    *to = '\0';
    return joined;
}

/* Numbers of a column, at most `max`; NAN for null. */
static int column_of(const char *body, const char *name, double *values, int max)
{
    char key[64];
    const char *at;
    int count = 0;

    snprintf(key, sizeof key, "\"%s\":[", name);
    at = strstr(body, key);
    assert_non_null(at);
    at += strlen(key);
    while (*at != ']' && count < max) {
        char *end;

        values[count] = strncmp(at, "null", 4) == 0 ? NAN : strtod(at, &end);
        at += strcspn(at, ",]");
        at += *at == ',';
        count++;
    }
    return count;
}

/* Of ten thousand rows with one peak and one dip those two stay, and the ends, and evaluations. */
static void test_metrics(void **state)
{
    enum { ROWS = 10000, MAX = 2 * ROWS };
    stage *s = *state;
    const int64_t run = add_run(s->store, "metrics");
    double *seq = calloc(MAX, sizeof *seq), *loss = calloc(MAX, sizeof *loss);
    bool peak = false, dip = false, tested = false;
    char target[128];
    const char *body;
    int count;

    assert_non_null(seq);
    assert_non_null(loss);
    assert_ok(fast__store_transaction_begin(s->store));
    for (int i = 0; i < ROWS; i++)
        add_metric(s->store, run, i,
                   i == 4321   ? 99
                   : i == 1234 ? -7
                               : 1 + 1e-4 * (i % 10),
                   i == 7777);
    assert_ok(fast__store_transaction_end(s->store));
    snprintf(target, sizeof target, "/api/runs/%lld/metrics", (long long)run);
    assert_int_equal(ask(s, "GET", target, NULL), 200);
    body = join_chunks(s);
    assert_true(is_json(body, strlen(body)));
    assert_int_equal(column_of(body, "seq", seq, MAX), ROWS);
    assert_int_equal(column_of(body, "loss", loss, MAX), ROWS);
    assert_int_equal(column_of(body, "bytes", loss, MAX), 0); /* nothing measured */
    snprintf(target, sizeof target, "/api/runs/%lld/metrics?points=100&columns=loss",
             (long long)run);
    assert_int_equal(ask(s, "GET", target, NULL), 200);
    body = join_chunks(s);
    assert_true(is_json(body, strlen(body)));
    assert_null(strstr(body, "\"step\""));
    count = column_of(body, "seq", seq, MAX);
    assert_true(count >= 50);
    assert_true(count <= 110);
    assert_int_equal(column_of(body, "loss", loss, MAX), count);
    for (int i = 0; i < count; i++) {
        assert_true(i == 0 || seq[i] > seq[i - 1]);
        peak |= loss[i] == 99;
        dip |= loss[i] == -7;
        tested |= seq[i] == 7777;
    }
    assert_true(peak);
    assert_true(dip);
    assert_true(tested);
    assert_true(seq[count - 1] == ROWS - 1);
    snprintf(target, sizeof target, "/api/runs/%lld/metrics?after=9989", (long long)run);
    assert_int_equal(ask(s, "GET", target, NULL), 200);
    assert_int_equal(column_of(join_chunks(s), "seq", seq, MAX), 10);
    assert_true(seq[0] == 9990);
    snprintf(target, sizeof target, "/api/runs/%lld/metrics?after=9999", (long long)run);
    assert_int_equal(ask(s, "GET", target, NULL), 200);
    assert_int_equal(column_of(join_chunks(s), "seq", seq, MAX), 0);
    end_run(s->store, run, "done");
    free(seq);
    free(loss);
}

static void test_spans(void **state)
{
    stage *s = *state;
    const int64_t run = add_run(s->store, "spans");
    const fast_stored_worker worker = { .rank = 1, .name = "server", .steps = -1 };
    const fast_stored_span span = {
        .seq = 0, .actor = 2, .kind = "wait", .start_s = 1, .end_s = 2.5
    };
    char target[64];

    assert_ok(fast__store_put(s->store, FAST_STORE_WORKERS, run, &worker));
    const fast_stored_activity activity = { 1, 2, 0.5, 0.25, "[1000,0,0,0,0,0,0,500]" };
    const fast_stored_activity broken = { 2, 2, 0.5, 0.25, "x" };

    assert_ok(fast__store_put(s->store, FAST_STORE_SPANS, run, &span));
    assert_ok(fast__store_put(s->store, FAST_STORE_ACTIVITY, run, &activity));
    assert_ok(fast__store_put(s->store, FAST_STORE_ACTIVITY, run, &broken));
    snprintf(target, sizeof target, "/api/runs/%lld/spans", (long long)run);
    assert_int_equal(ask(s, "GET", target, NULL), 200);
    assert_string_equal(body_of(s), "{\"actors\":[\"actor 0\",\"server\",\"actor 2\"],"
                                    "\"spans\":[[2,\"wait\",1,2.5]],\"activity\":["
                                    "{\"world\":1,\"actor\":2,\"start_s\":0.5,\"bin_s\":0.25,"
                                    "\"bins\":[1000,0,0,0,0,0,0,500]},"
                                    "{\"world\":2,\"actor\":2,\"start_s\":0.5,\"bin_s\":0.25,"
                                    "\"bins\":[]}]}");
    end_run(s->store, run, "done");
}

/* Begin to listen to an event stream. */
static int listen_to(stage *s, const char *target, const char *last)
{
    const int fd = dial(s->port);
    char text[512];

    snprintf(text, sizeof text,
             "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\n"
             "Last-Event-ID: %s\r\n\r\n",
             target, s->port, s->token, last);
    send_bytes(fd, text, strlen(text));
    s->reply[0] = '\0';
    return fd;
}

/* Read on until the text is there. */
static void hear(stage *s, int fd, const char *text)
{
    size_t used = strlen(s->reply);

    while (!strstr(s->reply, text)) {
        const ssize_t got = recv_some(fd, s->reply + used, REPLY_MAX - 1 - used);

        if (got <= 0)
            fail_msg("\"%s\" is not in \"%s\"", text, s->reply);
        used += (size_t)got;
        s->reply[used] = '\0';
    }
}

/* Rows that are written arrive in order, once; a reader that comes back continues where it was. */
static void test_live(void **state)
{
    stage *s = *state;
    const int64_t run = add_run(s->store, "live");
    const fast_stored_staleness stale = { .bucket = 1, .updates = 42 };
    char target[64];
    int fd;

    add_metric(s->store, run, 0, 0.5, false);
    add_event(s->store, run, 0, "begins");
    snprintf(target, sizeof target, "/api/runs/%lld/live", (long long)run);
    fd = listen_to(s, target, "-1.-1");
    hear(s, fd, "event: run\n");
    hear(s, fd, "\"loss\":[0.5]");
    hear(s, fd, "begins");
    assert_true(replied(s, "Content-Type: text/event-stream"));
    add_metric(s->store, run, 1, 0.25, false);
    hear(s, fd, "\"loss\":[0.25]");
    assert_ok(fast__store_put(s->store, FAST_STORE_STALENESS, run, &stale));
    hear(s, fd, "\"updates\":42");
    add_event(s->store, run, 1, nasty);
    hear(s, fd, "id: 1.1\n");
    assert_false(replied(s, "<script"));
    close(fd);
    /* Back after a while. */
    add_metric(s->store, run, 2, 0.125, false);
    end_run(s->store, run, "target");
    fd = listen_to(s, target, "1.0");
    hear(s, fd, "event: end\n");
    hear(s, fd, "{\"status\":\"target\"}");
    assert_true(replied(s, "\"loss\":[0.125]"));
    assert_false(replied(s, "begins"));
    assert_true(replied(s, "\"seq\":1,"));
    hear(s, fd, "\r\n0\r\n\r\n"); /* the stream ends by itself */
    close(fd);
    fd = listen_to(s, target, "nonsense");
    hear(s, fd, "400");
    close(fd);
}

static void test_watch(void **state)
{
    stage *s = *state;
    int64_t run;
    const int fd = listen_to(s, "/api/live", "");

    hear(s, fd, "\"total\":");
    run = add_run(s->store, "watched");
    hear(s, fd, "\"name\":\"watched\"");
    hear(s, fd, "\"status\":\"running\"");
    end_run(s->store, run, "diverged");
    hear(s, fd, "\"status\":\"diverged\"");
    close(fd);
}

/* A run that is started is in the store with its tags; one that is stopped gets SIGINT; options
 * that are wrong, and programs that refuse, give their sentence. */
static void test_launch(void **state)
{
    stage *s = *state;
    char target[64];
    long long run = 0;
    int fd;

    assert_int_equal(ask(s, "POST", "/api/runs", "{\"options\":{\"lrr\":1}}"), 400);
    assert_true(replied(s, "lrr"));
    assert_int_equal(ask(s, "POST", "/api/runs", "{\"options\":{\"save\":\"x\"}}"), 400);
    assert_true(replied(s, "names a file"));
    static const char *const files[] = { "\"data\":\"csv:file=x\"",
                                         "\"data\":\"text:file=x\"",
                                         "\"data\":\"fashion-mnist:folder=/etc\"",
                                         "\"model\":\"file:x\"",
                                         "\"topology\":\"file:x\"",
                                         "\"cluster\":\"/etc/passwd\"",
                                         "\"faults\":\".\"" };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char body[128];
        snprintf(body, sizeof body, "{\"options\":{%s}}", files[i]);
        assert_int_equal(ask(s, "POST", "/api/runs", body), 400);
        assert_true(replied(s, "names a file"));
    }
    assert_int_equal(ask(s, "POST", "/api/runs", "{\"options\":{\"json\":true}}"), 400);
    assert_int_equal(ask(s, "POST", "/api/runs", "{\"options\":{\"model\":\"refused\"}}"), 400);
    assert_true(replied(s, "{\"error\":\"no model \\\"refused\\\"\"}"));
    assert_int_equal(ask(s, "POST", "/api/runs", "{\"options\":{\"model\":\"broken\"}}"), 500);
    assert_int_equal(ask(s, "POST", "/api/runs",
                         "{\"tags\":[\"mine\"],\"options\":{\"model\":\"lenet\",\"lr\":0.5}}"),
                     201);
    assert_int_equal(sscanf(body_of(s), "{\"id\":%lld}", &run), 1);
    snprintf(target, sizeof target, "/api/runs/%lld", run);
    assert_int_equal(ask(s, "GET", target, NULL), 200);
    assert_true(replied(s, "--lr=0.5"));
    assert_true(replied(s, "\"tags\":[\"mine\"]"));
    assert_true(replied(s, "\"status\":\"running\""));
    snprintf(target, sizeof target, "/api/runs/%lld/live", run);
    fd = listen_to(s, target, "");
    hear(s, fd, "event: run\n");
    snprintf(target, sizeof target, "/api/runs/%lld/stop", run);
    {
        char *heard = s->reply;

        s->reply = malloc(REPLY_MAX);
        assert_non_null(s->reply);
        assert_int_equal(ask(s, "POST", target, NULL), 202);
        free(s->reply);
        s->reply = heard;
    }
    hear(s, fd, "{\"status\":\"canceled\"}");
    close(fd);
    assert_int_equal(ask(s, "POST", target, NULL), 409);
    assert_int_equal(ask(s, "POST", "/api/runs/123456/stop", NULL), 404);
}

static volatile sig_atomic_t asked;

static void on_signal(int number)
{
    asked = number;
}

/* This program as the one that is started: a run that lasts until SIGINT, or one that refuses. */
static int play_run(int argc, char **argv)
{
    fast_stored_run run = empty_run("played");
    fast_store *store = NULL;
    const char *path = NULL;
    int64_t id = 0;
    char command[256] = "fast";

    signal(SIGINT, on_signal);
    for (int i = 2; i < argc; i++) {
        snprintf(command + strlen(command), sizeof command - strlen(command), " %s", argv[i]);
        if (strcmp(argv[i], "--model=refused") == 0) {
            fputs("note: something else\nfast: no model \"refused\"\n", stderr);
            return 2;
        }
        if (strcmp(argv[i], "--model=broken") == 0)
            return 1;
        if (strncmp(argv[i], "--store=", 8) == 0)
            path = argv[i] + 8;
    }
    run.command = command;
    if (!path || fast_store_open(path, true, &store) != FAST_OK ||
        fast__store_begin(store, &run, &id) != FAST_OK)
        return 1;
    for (int i = 0; i < 6000 && !asked; i++)
        usleep(10000);
    run.status = asked == SIGINT ? "canceled" : "failed";
    if (fast__store_update(store, id, &run) != FAST_OK)
        return 1;
    fast_store_close(store);
    return 75;
}

/* Every allocation of open fails once: an error, and nothing leaks. */
static void test_memory(void **state)
{
    const stage *s = *state;
    fast_server *server = NULL;
    fast_err err = FAST_ENOMEM;

    for (int n = 0; err == FAST_ENOMEM; n++) {
        assert_true(n < 1000);
        fast__alloc_fail_after(n, true);
        err = fast_server_open(&(fast_server_options){ .store = s->path }, &server);
        fast__alloc_fail_after(-1, true);
    }
    assert_ok(err);
    fast_server_close(server);
    fast_server_close(NULL);
    assert_int_equal(
        fast_server_open(&(fast_server_options){ .store = s->path, .port = s->port }, &server),
        FAST_EIO);
    assert_int_equal(
        fast_server_open(&(fast_server_options){ .store = s->path, .port = 65536 }, &server),
        FAST_EINVAL);
    assert_int_equal(fast_server_open(&(fast_server_options){ .size = 8 }, &server), FAST_EINVAL);
    assert_int_equal(fast_server_open(&(fast_server_options){ .store = "/" }, &server) == FAST_OK,
                     false);
}

/* One request to a server that this thread answers itself; the status, 0 where it was cut off. */
static int ask_here(fast_server *server, stage *s, const char *target)
{
    const int fd = dial((int)fast__http_port(server->http));
    char text[512];
    size_t used = 0;
    int status = 0;

    snprintf(text, sizeof text,
             "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\nAuthorization: Bearer "
             "%s\r\n\r\n",
             target, (int)fast__http_port(server->http), fast__http_token(server->http));
    send_bytes(fd, text, strlen(text));
    for (;;) {
        const ssize_t got = recv(fd, s->reply + used, REPLY_MAX - 1 - used, MSG_DONTWAIT);

        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
            break;
        used += got > 0 ? (size_t)got : 0;
        if (got < 0)
            assert_ok(fast__http_wait(server->http));
    }
    s->reply[used] = '\0';
    close(fd);
    sscanf(s->reply, "HTTP/1.1 %d", &status);
    return status;
}

/* Every allocation while a request is answered fails once: an error or an answer that is cut off,
 * never half of one that looks whole; and the server continues. */
static void test_memory_of_answers(void **state)
{
    static const char *const targets[] = { "/api/runs",    "/api/runs/1", "/api/runs/1/metrics",
                                           "/api/systems", "/metrics",    "/nothing" };
    stage *s = *state;
    fast_server *server = NULL;

    assert_ok(fast_server_open(&(fast_server_options){ .store = s->path }, &server));
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        const int whole = ask_here(server, s, targets[i]);
        const size_t length = strlen(body_of(s));

        assert_true(whole == 200 || i == 5);
        for (int n = 0, failures = 1; failures > 0; n++) {
            const int64_t before = fast__alloc_count();
            int status;

            assert_true(n < 500);
            fast__alloc_fail_after(n, true);
            status = ask_here(server, s, targets[i]);
            fast__alloc_fail_after(-1, true);
            failures = fast__alloc_count() - before > n;
            if (status != whole || !failures)
                continue;
            /* It was said to be whole: then it is, or it breaks off without its last chunk. */
            assert_true(strlen(body_of(s)) == length ||
                        (replied(s, "chunked") && !strstr(s->reply, "\r\n0\r\n\r\n")));
        }
        assert_int_equal(ask_here(server, s, targets[i]), whole);
    }
    fast_server_close(server);
}

/* Somebody deletes the store, and a run makes a new one: that is what is shown then. */
static void test_new_store(void **state)
{
    static stage own;
    char file[128];
    fast_stored_run run;
    int64_t id = 0;

    (void)state;
    stage_open(&own, NULL, false);
    fast__store_row_init(FAST_STORE_RUNS, &run);
    run.created = 1;
    assert_ok(fast__store_begin(own.store, &run, &id));
    assert_int_equal(ask(&own, "GET", "/api/runs", NULL), 200);
    assert_true(replied(&own, "\"total\":1"));
    fast_store_close(own.store);
    for (int i = 0; i < 3; i++) {
        snprintf(file, sizeof file, "%s%s", own.path, i == 0 ? "" : i == 1 ? "-wal" : "-shm");
        unlink(file);
    }
    assert_ok(fast_store_open(own.path, true, &own.store));
    for (int i = 0; i < 600 && !replied(&own, "\"total\":0"); i++) {
        usleep(50000);
        assert_int_equal(ask(&own, "GET", "/api/runs", NULL), 200);
    }
    assert_true(replied(&own, "\"total\":0"));
    stage_close(&own);
}

/* Clients without a token that never finish a request leave room for one that has it. */
static void test_slow_clients(void **state)
{
    enum { SLOW = 200, ANSWER_MS = 4000 };
    stage *s = *state;
    int fds[SLOW];

    for (int i = 0; i < SLOW; i++) {
        fds[i] = dial(s->port);
        send_bytes(fds[i], "GET / HTTP/1.1\r\nHo", 18);
    }
    const int64_t begin = fast__clock_ns();
    assert_int_equal(ask(s, "GET", "/api/runs", NULL), 200);
    assert_true(fast__clock_ns() - begin < ANSWER_MS * INT64_C(1000000));
    for (int i = 0; i < SLOW; i++)
        close(fds[i]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_escapes),   cmocka_unit_test(test_runs),
        cmocka_unit_test(test_tables),    cmocka_unit_test(test_metrics),
        cmocka_unit_test(test_spans),     cmocka_unit_test(test_live),
        cmocka_unit_test(test_watch),     cmocka_unit_test(test_launch),
        cmocka_unit_test(test_memory),    cmocka_unit_test(test_memory_of_answers),
        cmocka_unit_test(test_new_store), cmocka_unit_test(test_slow_clients),
    };

    if (argc > 1 && strcmp(argv[1], "train") == 0)
        return play_run(argc, argv);
    return cmocka_run_group_tests(tests, setup, teardown);
}
