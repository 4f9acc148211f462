/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: stored comparisons are served with their verdicts; one comparison is started, watched and
 * canceled; hostile and wrong requests start nothing and get one sentence.
 * Method: a real server; this program plays `fast compare` where it is started with that word, and
 * lasts until it is told to end.
 */
#include "serve/serve_fixture.h"

#include <signal.h>

static int setup(void **state)
{
    static stage s;

    stage_open(&s, "/proc/self/exe", false);
    *state = &s;
    return 0;
}

static int teardown(void **state)
{
    stage_close(*state);
    return 0;
}

/* A list has no results; one by its name has them; names are values, never SQL. */
static void test_stored(void **state)
{
    stage *s = *state;

    assert_int_equal(ask(s, "GET", "/api/comparisons", NULL), 200);
    assert_true(replied(s, "{\"comparisons\":[]}"));
    assert_ok(fast__store_comparison_put(
        s->store, &(fast_stored_comparison){ .name = "study",
                                             .created = 5,
                                             .status = "complete",
                                             .command = "fast compare",
                                             .verdict = "Choose <b>bsp</b>.",
                                             .result = "{\"best\":\"bsp\",\"lines\":[]}" }));
    assert_ok(fast__store_comparison_put(
        s->store, &(fast_stored_comparison){
                      .name = "a b", .created = 6, .status = "incomplete", .result = "not JSON" }));
    assert_int_equal(ask(s, "GET", "/api/comparisons", NULL), 200);
    assert_true(strstr(s->reply, "\"a b\"") < strstr(s->reply, "\"study\"")); /* newest first */
    assert_false(replied(s, "\"best\""));
    assert_int_equal(ask(s, "GET", "/api/comparisons?name=study", NULL), 200);
    assert_true(replied(s, "\"verdict\":\"Choose \\u003cb\\u003ebsp\\u003c/b\\u003e.\""));
    assert_true(replied(s, "\"result\":{\"best\":\"bsp\",\"lines\":[]}"));
    assert_int_equal(ask(s, "GET", "/api/comparisons?name=a%20b", NULL), 200);
    assert_false(replied(s, "not JSON"));
    assert_int_equal(ask(s, "GET", "/api/comparisons?name=%27%20OR%201", NULL), 404);
    assert_true(replied(s, "no comparison of this name"));
}

/* Each request is refused with a reason, by the server or by the program that it starts. */
static void test_refused(void **state)
{
    stage *s = *state;
    static const struct {
        const char *body;
        const char *why;
    } wrong[] = {
        { "", "body" },
        { "[]", "an object" },
        { "{\"options\":[]}", "options are an object" },
        { "{\"options\":{\"system\":{}}}", "a text, a number" },
        { "{\"options\":{\"system\":null}}", "a text, a number" },
        { "{\"tags\":[\"x\"]}", "no tags" },
        { "{\"more\":1}", "unknown member" },
        { "{\"options\":{\"systems\":\"bsp\"}}", "no option" },
        { "{\"options\":{\"report\":\"x\"}}", "no option" },
        { "{\"options\":{\"json\":true}}", "no option" },
        { "{\"options\":{\"program\":\"x\"}}", "no option" },
        { "{\"options\":{\"store\":\"x\"}}", "names a file" },
        { "{\"options\":{\"save\":\"x\"}}", "names a file" },
        { "{\"options\":{\"log\":\"x\"}}", "names a file" },
        { "{\"options\":{\"data\":\"my.csv\"}}", "names a file" },
        { "{\"options\":{\"data\":\"digits,my.csv\"}}", "names a file" },
        { "{\"options\":{\"data\":\"digits,csv:file=x\"}}", "names a file" },
        { "{\"options\":{\"data\":\"digits, folder:path=x\"}}", "names a file" },
        { "{\"options\":{\"data\":\"fashion-mnist:folder=/etc\"}}", "names a file" },
        { "{\"options\":{\"data\":\".\"}}", "names a file" },
        { "{\"options\":{\"model\":\"mlp,file:x\"}}", "names a file" },
        { "{\"options\":{\"model\":\"x.onnx\"}}", "names a file" },
        { "{\"options\":{\"cluster\":\"hetero,.\"}}", "names a file" },
        { "{\"options\":{\"system\":\"bsp,/etc/passwd\"}}", "names a file" },
        { "{\"options\":{\"tune\":\"tensorboard=x,y\"}}", "names a file" },
        { "{\"options\":{\"tune\":\"model=mlp,file:x\"}}", "names a file" },
        { "{\"options\":{\"system\":\"refused\"}}", "no system \\\"refused\\\"" },
    };

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(ask(s, "POST", "/api/comparisons", wrong[i].body), 400);
        if (!replied(s, wrong[i].why))
            fail_msg("%s: no \"%s\" in %s", wrong[i].body, wrong[i].why, body_of(s));
    }
    assert_int_equal(ask(s, "POST", "/api/comparisons", "{\"options\":{\"system\":\"broken\"}}"),
                     500);
    assert_int_equal(ask(s, "POST", "/api/comparisons/stop", NULL), 409);
    assert_int_equal(ask(s, "DELETE", "/api/comparisons", NULL), 405);
}

/* Ask how far it is until the answer has a text. */
static void await(stage *s, const char *text)
{
    for (int i = 0; i < 3000; i++) {
        assert_int_equal(ask(s, "GET", "/api/comparisons/current", NULL), 200);
        if (replied(s, text))
            return;
        usleep(20000);
    }
    fail_msg("never \"%s\": %s", text, body_of(s));
}

/* Options arrive as words of a command line; one comparison at a time, which can be stopped. */
static void test_job(void **state)
{
    stage *s = *state;

    assert_int_equal(ask(s, "POST", "/api/comparisons",
                         "{\"options\":{\"system\":\"bsp,ssp; rm -rf x\",\"seeds\":2,"
                         "\"tune\":\"lr=0.1,0.2\",\"budget\":\"5s\"}}"),
                     202);
    assert_true(replied(s, "{\"name\":\"played\"}"));
    await(s, "\"state\":\"running\"");
    assert_true(replied(s, "\"run\":\"--system=bsp,ssp; rm -rf x --seeds=2 --tune=lr=0.1,0.2 "
                           "--budget=5s --store="));
    assert_true(replied(s, "\"done\":1,\"count\":4"));
    assert_int_equal(ask(s, "POST", "/api/comparisons", "{\"options\":{}}"), 409);
    assert_true(replied(s, "runs already"));
    assert_int_equal(ask(s, "POST", "/api/comparisons/stop", NULL), 202);
    await(s, "\"state\":\"ended\"");
    assert_true(replied(s, "\"code\":130"));
    assert_true(replied(s, "\"error\":\"it was told to end\""));
    /* The next one replaces it; the server's end ends it too. */
    assert_int_equal(ask(s, "POST", "/api/comparisons", "{\"options\":{\"system\":\"bsp\"}}"), 202);
    await(s, "\"state\":\"running\"");
}

static volatile sig_atomic_t asked;

static void on_signal(int number)
{
    asked = number;
}

/* This program as `fast compare`: it refuses, breaks, or says how far it is until SIGTERM. */
static int play_compare(int argc, char **argv)
{
    signal(SIGTERM, on_signal);
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--system=refused") == 0) {
            fputs("note: something else\nfast: no system \"refused\"\n", stderr);
            return 2;
        }
        if (strcmp(argv[i], "--system=broken") == 0)
            return 1;
    }
    fputs("{\"name\":\"played\",\"phase\":\"runs\",\"done\":1,\"count\":4,\"running\":1,"
          "\"seconds_left\":null,\"run\":\"",
          stderr);
    for (int i = 3; i < argc; i++)
        fprintf(stderr, "%s%s", i > 3 ? " " : "", argv[i]);
    fputs("\",\"error\":null}\n", stderr);
    for (int i = 0; i < 6000 && !asked; i++)
        usleep(10000);
    fputs("fast: it was told to end\n", stderr);
    return 130;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stored),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_job),
    };

    if (argc > 1 && strcmp(argv[1], "compare") == 0)
        return play_compare(argc, argv);
    return cmocka_run_group_tests(tests, setup, teardown);
}
