/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: an address that lasts: the token is stored beside the runs, for its owner's eyes only, the
 * port is the same or another one that is told; a token can be typed; a proxy's origin is accepted
 * and no other; an address of the network without TLS is refused; a read-only server changes
 * nothing.
 * Method: real servers on stores in a temporary folder; each refusal beside something that works.
 */
#include "serve/guard.h"
#include "serve/serve_fixture.h"

#include <sys/stat.h>

static int setup(void **state)
{
    static stage s;

    stage_open_with(&s, (fast_server_options){ .origin = "https://fast.example.org" });
    add_run(s.store, "first");
    *state = &s;
    return 0;
}

static int teardown(void **state)
{
    stage_close(*state);
    return 0;
}

/* Open another server on the stage's store; its token goes to `token`. */
static void reopen(const stage *s, bool renew, char token[33])
{
    fast_server *server = NULL;

    assert_ok(
        fast_server_open(&(fast_server_options){ .store = s->path, .new_token = renew }, &server));
    assert_int_equal(sscanf(strstr(fast_server_url(server), "?token="), "?token=%32s", token), 1);
    fast_server_close(server);
}

/* Replace the token's file by this text. */
static void write_file(const char *path, const char *text, mode_t mode)
{
    FILE *file;

    unlink(path);
    file = fopen(path, "wb");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

/* The token stays, unless its file could have been read by others, was changed, or is a link. */
static void test_token_file(void **state)
{
    const stage *s = *state;
    static const char *const bad[] = { "",
                                       "\n",
                                       "0123456789abcdef0123456789ABCDEF\n",
                                       "0123456789abcdef0123456789abcdef0\n",
                                       "0123456789abcdef0123456789abcde\n",
                                       "../../../../../../../../../etc/ab\n" };
    char path[128], token[33], again[33], other[128];
    struct stat st;

    snprintf(path, sizeof path, "%s.token", s->path);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    reopen(s, false, token);
    assert_string_equal(token, s->token);
    reopen(s, true, again);
    assert_string_not_equal(again, token);
    reopen(s, false, token);
    assert_string_equal(token, again);
    /* One that others could read is not used again. */
    assert_int_equal(chmod(path, 0644), 0);
    reopen(s, false, again);
    assert_string_not_equal(again, token);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        write_file(path, bad[i], 0600);
        reopen(s, false, again);
        assert_int_equal(strspn(again, "0123456789abcdef"), 32);
        reopen(s, false, token);
        assert_string_equal(token, again);
    }
    /* A link is not followed, and its target stays. */
    snprintf(other, sizeof other, "%s/elsewhere", s->folder);
    write_file(other, "0123456789abcdef0123456789abcdef\n", 0600);
    unlink(path);
    assert_int_equal(symlink(other, path), 0);
    reopen(s, false, token);
    assert_string_not_equal(token, "0123456789abcdef0123456789abcdef");
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISREG(st.st_mode));
    /* A token that cannot be replaced is not used instead of a new one. */
    fast_server *server = NULL;
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(
        fast_server_open(&(fast_server_options){ .store = s->path, .new_token = true }, &server),
        FAST_EIO);
    assert_non_null(strstr(fast_error_detail(), "cannot be replaced"));
    assert_int_equal(rmdir(path), 0);
    write_file(path, token, 0600);
}

/* A port that is taken is an error, or another port where the caller allows it. */
static void test_port(void **state)
{
    const stage *s = *state;
    fast_server *server = NULL;

    assert_int_equal(
        fast_server_open(&(fast_server_options){ .store = s->path, .port = s->port }, &server),
        FAST_EIO);
    assert_non_null(strstr(fast_error_detail(), "is taken; choose another port"));
    assert_ok(fast_server_open(
        &(fast_server_options){ .store = s->path, .port = s->port, .free_port = true }, &server));
    assert_int_not_equal(fast_server_port(server), s->port);
    fast_server_close(server);
}

/* The right token alone gives a cookie, and a login opens nothing else. */
static void test_login(void **state)
{
    stage *s = *state;
    char host[64], body[256];
    static const char *const wrong[] = {
        "{\"token\":\"\"}",
        "{\"token\":\"0123456789abcdef0123456789abcdef\"}",
        "{\"token\":7}",
        "{}",
        "[]",
        "{\"token\":null}",
        "not JSON",
    };

    snprintf(host, sizeof host, "Host: 127.0.0.1:%d\r\n", s->port);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const int status = ask_with(s, "POST", "/api/login", host, wrong[i]);

        assert_int_equal(status, i < 2 ? 401 : 400);
        assert_false(replied(s, "Set-Cookie"));
    }
    snprintf(body, sizeof body, "{\"token\":\"%s\",\"more\":1}", s->token);
    assert_int_equal(ask_with(s, "POST", "/api/login", host, body), 400);
    snprintf(body, sizeof body, "{\"token\":\"%s\"}", s->token);
    assert_int_equal(ask_with(s, "POST", "/api/login", host, body), 200);
    assert_true(replied(s, "HttpOnly; SameSite=Strict\r\n"));
    /* Nothing else is open, and reading is not a login. */
    assert_int_equal(ask_with(s, "GET", "/api/login", host, NULL), 401);
    assert_int_equal(ask_with(s, "GET", "/api/server", host, NULL), 401);
    assert_int_equal(ask_with(s, "POST", "/api/comparisons", host, "{}"), 401);
    assert_int_equal(ask_with(s, "POST", "/api/runs", host, "{}"), 401);
}

/* Behind a proxy: the public name is accepted, with its own scheme, and its cookie is Secure. */
static void test_origin(void **state)
{
    stage *s = *state;
    static const char *const wrong[] = {
        "Host: fast.example.org:443\r\n",
        "Host: evil.fast.example.org\r\n",
        "Host: fast.example.org.evil\r\n",
        "Host: fast.example.org\r\nOrigin: http://fast.example.org\r\n",
        "Host: fast.example.org\r\nOrigin: https://evil.example\r\n",
    };
    char headers[256], target[64];

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(headers, sizeof headers, "%sAuthorization: Bearer %s\r\n", wrong[i], s->token);
        assert_int_equal(ask_with(s, "GET", "/api/runs", headers, NULL), 403);
    }
    snprintf(
        headers, sizeof headers,
        "Host: fast.example.org\r\nOrigin: https://fast.example.org\r\nCookie: fast_ui_%d=%s\r\n",
        s->port, s->token);
    assert_int_equal(ask_with(s, "POST", "/api/runs/1/tags", headers, "{\"add\":[\"x\"]}"), 200);
    snprintf(target, sizeof target, "/?token=%s", s->token);
    assert_int_equal(ask_with(s, "GET", target, "Host: fast.example.org\r\n", NULL), 303);
    assert_true(replied(s, "; Secure\r\n"));
    snprintf(headers, sizeof headers, "Host: 127.0.0.1:%d\r\n", s->port);
    assert_int_equal(ask_with(s, "GET", target, headers, NULL), 303);
    assert_false(replied(s, "; Secure"));
    assert_non_null(strstr(fast_server_url(s->server), "https://fast.example.org/?token="));
}

/* Hosts, origins and files that cannot work are refused with the reason. */
static void test_host(void **state)
{
    const stage *s = *state;
    const struct {
        fast_server_options options;
        const char *why;
    } wrong[] = {
        { { .host = "0.0.0.0" }, "--host 0.0.0.0 without TLS" },
        { { .host = "192.168.1.5" }, "--host 192.168.1.5 without TLS" },
        { { .host = "0.0.0.0", .insecure = true }, "needs --origin" },
        { { .host = "example.org", .insecure = true }, "is not an IPv4 address" },
        { { .host = "127.1" }, "is not an IPv4 address" },
        { { .cert = "c.pem" }, "both files" },
        { { .origin = "fast.example.org" }, "is not like https" },
        { { .origin = "https://" }, "is not like https" },
        { { .origin = "https://a.org/path" }, "is not like https" },
        { { .origin = "https://a.org\r\nSet-Cookie: x" }, "is not like https" },
        { { .cert = "/nowhere/c.pem", .key = "/nowhere/k.pem" }, "/nowhere/c.pem" },
    };

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        fast_server_options options = wrong[i].options;
        fast_server *server = NULL;

        options.store = s->path;
        assert_int_not_equal(fast_server_open(&options, &server), FAST_OK);
        if (!strstr(fast_error_detail(), wrong[i].why))
            fail_msg("\"%s\" does not say \"%s\"", fast_error_detail(), wrong[i].why);
    }
}

/* Every change is refused, and the pages are told so. */
static void test_read_only(void **state)
{
    stage s;

    (void)state;
    stage_open_with(&s, (fast_server_options){ .program = "/bin/false", .read_only = true });
    add_run(s.store, "first");
    assert_int_equal(ask(&s, "GET", "/api/server", NULL), 200);
    assert_true(replied(&s, "\"starts_runs\":false,\"read_only\":true"));
    assert_true(replied(&s, s.path)); /* commands of the pages need --store */
    assert_int_equal(ask(&s, "POST", "/api/runs", "{\"options\":{}}"), 403);
    assert_true(replied(&s, "read-only"));
    assert_int_equal(ask(&s, "POST", "/api/comparisons", "{\"options\":{}}"), 403);
    assert_int_equal(ask(&s, "POST", "/api/comparisons/stop", NULL), 403);
    assert_int_equal(ask(&s, "POST", "/api/runs/1/tags", "{\"add\":[\"x\"]}"), 403);
    assert_int_equal(ask(&s, "POST", "/api/runs/1/stop", NULL), 403);
    assert_int_equal(ask(&s, "DELETE", "/api/runs/1", NULL), 403);
    assert_int_equal(ask(&s, "GET", "/api/runs", NULL), 200);
    stage_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_login),      cmocka_unit_test(test_origin),
        cmocka_unit_test(test_host),       cmocka_unit_test(test_port),
        cmocka_unit_test(test_token_file), cmocka_unit_test(test_read_only),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
