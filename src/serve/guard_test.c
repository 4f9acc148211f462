/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: nobody without the token, from another host's name, another origin or by a crooked path
 * gets an answer, whatever bytes are sent, and a client that takes its time does not stay.
 * Method: a real server on a real socket, and requests written byte by byte; each is refused with
 * the right status and a sentence, and a right one beside it is answered, so that a guard that
 * refuses all fails too.
 */
#include "serve/guard.h"
#include "serve/serve_fixture.h"

static int setup(void **state)
{
    static stage s;

    stage_open(&s, NULL, false);
    add_run(s.store, "first");
    *state = &s;
    return 0;
}

static int teardown(void **state)
{
    stage_close(*state);
    return 0;
}

/* Header lines with a Host and what else is given, in which %P is the port and %T the token. */
static int ask_as(stage *s, const char *method, const char *target, const char *format,
                  const char *body)
{
    char headers[4096];
    size_t used = 0;

    for (const char *c = format; *c && used < sizeof headers - 64; c++) {
        if (strncmp(c, "%P", 2) == 0)
            used += (size_t)snprintf(headers + used, sizeof headers - used, "%d", s->port);
        else if (strncmp(c, "%T", 2) == 0)
            used += (size_t)snprintf(headers + used, sizeof headers - used, "%s", s->token);
        else
            headers[used++] = *c;
        c += *c == '%';
    }
    headers[used] = '\0';
    return ask_with(s, method, target, headers, body);
}

/* The reply is an error of ours: JSON with one sentence. */
static void assert_error(const stage *s)
{
    const char *body = body_of(s);

    assert_int_equal(strncmp(body, "{\"error\":\"", 10), 0);
    assert_true(strlen(body) > 20);
    assert_int_equal(body[strlen(body) - 1], '}');
    assert_true(replied(s, "Content-Type: application/json\r\n"));
    assert_true(replied(s, "X-Content-Type-Options: nosniff\r\n"));
}

static void test_token(void **state)
{
    stage *s = *state;
    static const char *const wrong[] = {
        "Host: 127.0.0.1:%P\r\n",
        "Host: 127.0.0.1:%P\r\nAuthorization: Bearer 0123456789abcdef0123456789abcdef\r\n",
        "Host: 127.0.0.1:%P\r\nAuthorization: Bearer \r\n",
        "Host: 127.0.0.1:%P\r\nAuthorization: Bearer %T0\r\n",
        "Host: 127.0.0.1:%P\r\nAuthorization: Basic %T\r\n",
        "Host: 127.0.0.1:%P\r\nAuthorization: %T\r\n",
        "Host: 127.0.0.1:%P\r\nCookie: fast_ui_%P=\r\n",
        "Host: 127.0.0.1:%P\r\nCookie: fast_ui_%P=%T0\r\n",
        "Host: 127.0.0.1:%P\r\nCookie: fast_ui_1=%T\r\n",
        "Host: 127.0.0.1:%P\r\nCookie: token=%T; x=fast_ui_%P=%T\r\n",
        "Host: 127.0.0.1:%P\r\nCookie: fast_ui_%P=%T\r\nAuthorization: Bearer wrong\r\n",
    };
    static const char *const right[] = {
        "Host: 127.0.0.1:%P\r\nAuthorization: Bearer %T\r\n",
        "Host: localhost:%P\r\nAuthorization: bearer %T\r\n",
        "Host: 127.0.0.1:%P\r\nCookie: fast_ui_%P=%T\r\n",
        "Host: 127.0.0.1:%P\r\nCookie: a=b; fast_ui_%P=wrong; fast_ui_%P=%T; c=d\r\n",
    };
    char target[128];

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(ask_as(s, "GET", "/api/runs", wrong[i], NULL), 401);
        assert_error(s);
        assert_int_equal(ask_as(s, "GET", "/metrics", wrong[i], NULL), 401);
        /* The pages, which hold no data, ask for the token; a wrong bearer gets nothing. */
        assert_int_equal(ask_as(s, "GET", "/", wrong[i], NULL),
                         fast_server_has_pages() && !strstr(wrong[i], "Authorization") ? 200 : 401);
        assert_int_equal(ask_as(s, "GET", "/nothing", wrong[i], NULL), 401);
    }
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++)
        assert_int_equal(ask_as(s, "GET", "/api/runs", right[i], NULL), 200);
    /* The token in an address counts at the front page alone, and is turned into a cookie there. */
    snprintf(target, sizeof target, "/api/runs?token=%s", s->token);
    assert_int_equal(ask_as(s, "GET", target, wrong[0], NULL), 401);
    assert_int_equal(ask_as(s, "GET", "/?token=0123456789abcdef0123456789abcdef", wrong[0], NULL),
                     fast_server_has_pages() ? 200 : 401);
    assert_false(replied(s, "Set-Cookie"));
    snprintf(target, sizeof target, "/?token=%s", s->token);
    assert_int_equal(ask_as(s, "GET", target, wrong[0], NULL), 303);
    assert_true(replied(s, "Location: /\r\n"));
    assert_true(replied(s, "HttpOnly"));
    assert_true(replied(s, "SameSite=Strict"));
    assert_false(replied(s, "Access-Control"));
}

static void test_host_and_origin(void **state)
{
    stage *s = *state;
    static const char *const foreign[] = {
        "Host: evil.example\r\n",
        "Host: evil.example:%P\r\n",
        "Host: 127.0.0.1\r\n",
        "Host: 127.0.0.1:1\r\n",
        "Host: 127.0.0.1:%P.evil.example\r\n",
        "Host: 127.0.0.1:%P@evil.example\r\n",
        "Host: [::1]:%P\r\n",
        "Host: \r\n",
        "Host: 127.0.0.1:%P\r\nOrigin: http://evil.example\r\n",
        "Host: 127.0.0.1:%P\r\nOrigin: null\r\n",
        "Host: 127.0.0.1:%P\r\nOrigin: https://127.0.0.1:%P\r\n",
        "Host: 127.0.0.1:%P\r\nOrigin: http://127.0.0.1:1\r\n",
        "Host: 127.0.0.1:%P\r\nOrigin: http://localhost:%P\r\n",
        "Host: 127.0.0.1:%P\r\nOrigin: http://127.0.0.1:%P.evil.example\r\n",
        "Host: 127.0.0.1:%P\r\nSec-Fetch-Site: cross-site\r\n",
        "Host: 127.0.0.1:%P\r\nSec-Fetch-Site: same-site\r\n",
    };

    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        char headers[512];

        snprintf(headers, sizeof headers, "%sAuthorization: Bearer %%T\r\n", foreign[i]);
        assert_int_equal(ask_as(s, "GET", "/api/runs", headers, NULL), 403);
        assert_error(s);
        assert_int_equal(ask_as(s, "POST", "/api/runs/1/tags", headers, "{\"add\":[\"x\"]}"), 403);
    }
    /* None, and two: libmicrohttpd refuses the first by itself. */
    assert_int_equal(ask_as(s, "GET", "/api/runs", "Authorization: Bearer %T\r\n", NULL), 400);
    assert_int_equal(
        ask_as(s, "GET", "/api/runs",
               "Host: 127.0.0.1:%P\r\nHost: 127.0.0.1:%P\r\nAuthorization: Bearer %T\r\n", NULL),
        400);
    assert_int_equal(ask_as(s, "GET", "/api/runs",
                            "Host: 127.0.0.1:%P\r\nOrigin: http://127.0.0.1:%P\r\nSec-Fetch-Site: "
                            "same-origin\r\nAuthorization: Bearer %T\r\n",
                            NULL),
                     200);
}

/* Headers that a browser sends by itself do not allow a change. */
static void test_changes(void **state)
{
    stage *s = *state;
    static const char cookie[] = "Host: 127.0.0.1:%P\r\nCookie: fast_ui_%P=%T\r\n";
    static const char page[] = "Host: 127.0.0.1:%P\r\nCookie: fast_ui_%P=%T\r\nOrigin: "
                               "http://127.0.0.1:%P\r\n";
    static const char *const changes[][2] = {
        { "POST", "/api/runs/1/tags" },
        { "POST", "/api/runs/1/stop" },
        { "POST", "/api/runs" },
        { "DELETE", "/api/runs/1" },
    };

    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++)
        assert_int_equal(ask_as(s, changes[i][0], changes[i][1], cookie, "{\"add\":[\"x\"]}"), 403);
    assert_int_equal(ask(s, "GET", "/api/runs/1", NULL), 200);
    assert_true(replied(s, "\"tags\":[]"));
    assert_int_equal(ask_as(s, "POST", "/api/runs/1/tags", page, "{\"add\":[\"good\"]}"), 200);
    assert_int_equal(ask(s, "GET", "/api/runs/1", NULL), 200);
    assert_true(replied(s, "\"tags\":[\"good\"]"));
}

static void test_paths(void **state)
{
    stage *s = *state;
    static const char *const paths[] = {
        "/../etc/passwd",
        "/..%2fetc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/./index.html",
        "//etc/passwd",
        "/assets/../../../../etc/passwd",
        "/api/runs/../runs",
        "/api//runs",
        "/api/runs/",
        "/api/runs/1/",
        "/api/runs/0",
        "/api/runs/01",
        "/api/runs/-1",
        "/api/runs/1x",
        "/api/runs/99999999999999999999999999",
        "/api/runs%00",
        "/api/runs?q=%00",
        "/api/runs?q=%zz",
        "/api/runs?q=%ff",
        "/api/runs?limit=-1",
        "/api/runs?limit=1e9",
        "/api/runs?sort=id;drop%20table%20runs",
        "/api/runs?a&b&c&d&e&f&g&h&i&j&k&l&m&n&o&p&q",
        "/api/runs/1/metrics?columns=nothing",
        "/api/runs/1/metrics?every=-3",
        "/API/RUNS",
        "/index.html%00.js",
        "http://127.0.0.1/api/runs",
        "*",
        "/api\\runs",
        "/\xc3\xa4",
    };
    char lengthy[20000];
    int status;

    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        status = ask(s, "GET", paths[i], NULL);
        if (status != 400 && status != 404)
            fail_msg("%s gives %d", paths[i], status);
        assert_error(s);
        assert_false(replied(s, "root:"));
    }
    memset(lengthy, 'a', sizeof lengthy);
    lengthy[0] = '/';
    lengthy[3000] = '\0';
    assert_int_equal(ask(s, "GET", lengthy, NULL), 400);
    lengthy[3000] = 'a';
    lengthy[sizeof lengthy - 1] = '\0';
    status = ask(s, "GET", lengthy, NULL);
    assert_true(status == 400 || status == 414 || status == 0);
    assert_int_equal(ask(s, "PUT", "/api/runs", NULL), 405);
    assert_int_equal(ask(s, "TRACE", "/api/runs", NULL), 405);
    assert_int_equal(ask(s, "OPTIONS", "/api/runs", NULL), 405);
    assert_int_equal(ask(s, "DELETE", "/api/runs", NULL), 405);
    assert_int_equal(ask(s, "GET", "/api/runs", NULL), 200);
}

static void test_bodies(void **state)
{
    stage *s = *state;
    static const char *const wrong[] = {
        "{",
        "[]",
        "{\"add\":\"x\"}",
        "{\"add\":[1]}",
        "{\"add\":[\"a\"]} more",
        "{\"other\":[]}",
        "{\"add\":[],\"add\":[]}",
        "{\"add\":[\"\\u0000\"]}",
        "{\"add\":[\"\xff\"]}",
        "nonsense",
    };
    const size_t size = FAST_HTTP_BODY_MAX + 1;
    char *large = malloc(size + 1);
    char text[512];

    assert_non_null(large);
    memset(large, ' ', size);
    large[size] = '\0';
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(ask(s, "POST", "/api/runs/1/tags", wrong[i]), 400);
        assert_error(s);
    }
    assert_int_equal(ask(s, "POST", "/api/runs/1/tags", large), 413);
    memset(large, '[', size - 1);
    large[size - 1] = '\0';
    assert_int_equal(ask(s, "POST", "/api/runs/1/tags", large), 400);
    free(large);
    assert_int_equal(ask(s, "GET", "/api/runs", "{}"), 400);
    /* A form's type, a body in chunks, a length that is not a number. */
    assert_int_equal(ask_as(s, "POST", "/api/runs/1/tags",
                            "Host: 127.0.0.1:%P\r\nAuthorization: Bearer %T\r\nContent-Type: "
                            "text/plain\r\nContent-Length: 2\r\n",
                            NULL),
                     415);
    assert_int_equal(ask_as(s, "POST", "/api/runs/1/tags",
                            "Host: 127.0.0.1:%P\r\nAuthorization: Bearer %T\r\nContent-Type: "
                            "application/json\r\nTransfer-Encoding: chunked\r\n",
                            NULL),
                     411);
    snprintf(text, sizeof text,
             "POST /api/runs HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\nAuthorization: "
             "Bearer %s\r\nContent-Length: -5\r\n\r\n",
             s->port, s->token);
    assert_true(ask_raw(s, text, strlen(text)) >= 400);
}

/* Requests that are not even HTTP; the server stays. */
static void test_noise(void **state)
{
    stage *s = *state;
    char noise[4096], headers[8192];
    uint32_t random = 1;

    for (int round = 0; round < 20; round++) {
        for (size_t i = 0; i < sizeof noise; i++) {
            random = random * 1664525u + 1013904223u;
            noise[i] = (char)(random >> 24);
        }
        memcpy(noise, "GET / HTTP/1.1\r\n", 16 * (size_t)(round % 2));
        memcpy(noise + sizeof noise - 4, "\r\n\r\n", 4);
        assert_int_not_equal(ask_raw(s, noise, sizeof noise), 200);
    }
    /* Too many headers, and too long ones. */
    headers[0] = '\0';
    for (int i = 0; i <= FAST_HTTP_HEADERS; i++)
        snprintf(headers + strlen(headers), sizeof headers - strlen(headers), "X-%d: y\r\n", i);
    snprintf(headers + strlen(headers), sizeof headers - strlen(headers),
             "Host: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\n", s->port, s->token);
    assert_int_equal(ask_with(s, "GET", "/api/runs", headers, NULL), 431);
    assert_int_equal(ask(s, "GET", "/api/runs", NULL), 200);
}

static void answer_nothing(void *ctx, fast_http_request *request)
{
    (void)ctx;
    fast__reply_error(request, 404, "nothing");
}

static void *send_slowly(void *ctx)
{
    const int fd = *(const int *)ctx;
    static const char text[] = "GET / HTTP/1.1\r\nX-Header: this never ends";

    for (size_t i = 0;; i++) {
        char byte;

        if (send(fd, text + (i < sizeof text - 2 ? i : sizeof text - 2), 1, MSG_NOSIGNAL) != 1)
            return NULL;
        usleep(10000);
        if (recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0)
            return NULL;
    }
}

/* A byte now and then is not enough to stay: the connection is closed, and others are answered. */
static void test_slow(void **state)
{
    fast_http *http;
    fast_thread thread;
    int fd;
    int64_t began;

    (void)state;
    assert_ok(fast__http_open(&(fast_http_options){ .patience_s = 0.3, .handler = answer_nothing },
                              &http));
    fd = dial((int)fast__http_port(http));
    assert_ok(fast__thread_start(&thread, send_slowly, &fd));
    began = fast__clock_ns();
    for (;;) {
        char byte;

        assert_ok(fast__http_wait(http));
        if (recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0)
            break;
        /* Much later than asked for, on a machine that is busy; without the deadline it never
         * ends. */
        assert_true(fast__clock_ns() - began < 60 * (int64_t)1000000000);
    }
    fast__thread_join(&thread);
    close(fd);
    fast__http_close(http);
}

/* More connections than there is room for: the rest waits or is closed; the server continues. */
static void test_many(void **state)
{
    stage *s = *state;
    int fds[FAST_HTTP_CONNECTIONS + 20];

    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        fds[i] = dial(s->port);
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        close(fds[i]);
    for (int tries = 0; tries < 100; tries++) {
        if (ask(s, "GET", "/api/runs", NULL) == 200)
            return;
        usleep(100000);
    }
    fail_msg("the server does not answer any more");
}

/* The whole token is compared, whatever its beginning. */
static void test_compare(void **state)
{
    const fast_guard guard = { .port = 1, .token = "0123456789abcdef0123456789abcdef" };
    char text[33];

    (void)state;
    for (size_t i = 0; i < 32; i++) {
        memcpy(text, guard.token, sizeof text);
        assert_true(fast__guard_is_token(&guard, text, 32));
        text[i] = 'x';
        assert_false(fast__guard_is_token(&guard, text, 32));
        assert_false(fast__guard_is_token(&guard, guard.token, i));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_token),   cmocka_unit_test(test_host_and_origin),
        cmocka_unit_test(test_changes), cmocka_unit_test(test_paths),
        cmocka_unit_test(test_bodies),  cmocka_unit_test(test_noise),
        cmocka_unit_test(test_slow),    cmocka_unit_test(test_many),
        cmocka_unit_test(test_compare),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
