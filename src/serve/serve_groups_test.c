/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: runs come in groups with medians that are right; notes and views of anyone are stored as
 * text or refused; a trace is sent only if it is one; usage of long runs is averaged.
 * Method: a real server on a real socket, over a store that the test writes.
 */
#include "serve/serve_fixture.h"

#include "base/json.h"

static int setup(void **state)
{
    static stage s;

    stage_open(&s, "", false);
    *state = &s;
    return 0;
}

static int teardown(void **state)
{
    stage_close(*state);
    return 0;
}

/* Store a run that has ended, with its system, seed and accuracy. */
static int64_t add_ended(stage *s, const char *system, int64_t seed, double accuracy,
                         const char *status)
{
    fast_stored_run run = empty_run("x");
    int64_t id = 0;

    run.system = system;
    run.seed = seed;
    run.lr = 0.1;
    run.batch_of = "night";
    assert_ok(fast__store_begin(s->store, &run, &id));
    run.status = status;
    run.test_accuracy = accuracy;
    assert_ok(fast__store_update(s->store, id, &run));
    return id;
}

/* The last answer as a tree. */
static json_t *tree_of(const stage *s)
{
    json_t *tree = NULL;

    assert_ok(fast__json_read("answer", body_of(s), strlen(body_of(s)), &tree));
    return tree;
}

/* Check the number of groups, and of the i-th its key, runs, seeds and median accuracy. */
static void assert_group(stage *s, const char *target, size_t groups, size_t i, const char *key,
                         int runs, int seeds, double median)
{
    assert_int_equal(ask(s, "GET", target, NULL), 200);
    json_t *tree = tree_of(s);
    const json_t *list = json_object_get(tree, "groups");
    const json_t *group = json_array_get(list, i);
    const json_t *spread = json_object_get(group, "test_accuracy");

    assert_int_equal(json_array_size(list), groups);
    if (key)
        assert_string_equal(json_string_value(json_object_get(group, "key")), key);
    assert_int_equal(json_integer_value(json_object_get(group, "runs")), runs);
    assert_int_equal(json_integer_value(json_object_get(group, "seeds")), seeds);
    assert_true(fabs(json_number_value(json_object_get(spread, "median")) - median) < 1e-12);
    json_decref(tree);
}

/* Five runs of two systems: groups by each word, newest first, with conditions; bad requests. */
static void runs_come_in_groups(void **state)
{
    stage *s = *state;

    add_ended(s, "ssp", 1, 0.5, "done");
    add_ended(s, "ssp", 2, 0.9, "target");
    add_ended(s, "ssp", 3, 0.7, "done");
    add_ended(s, "ssp", 3, 0.1, "canceled"); /* counted, not measured */
    const int64_t last = add_ended(s, "bsp", 1, 0.8, "done");
    assert_ok(fast_store_tag(s->store, last, "a"));
    assert_ok(fast_store_tag(s->store, last, "b"));
    assert_group(s, "/api/groups?by=system", 2, 0, "bsp", 1, 1, 0.8);
    assert_group(s, "/api/groups?by=system", 2, 1, "ssp", 4, 3, 0.7);
    assert_group(s, "/api/groups?by=options", 2, 1, NULL, 4, 3, 0.7);
    assert_group(s, "/api/groups?by=comparison", 1, 0, "night", 5, 3, 0.75);
    assert_group(s, "/api/groups?by=tag", 3, 2, "", 4, 3, 0.7);
    assert_group(s, "/api/groups?by=system&status=done&ids=1,5", 2, 1, "ssp", 1, 1, 0.5);
    assert_int_equal(ask(s, "GET", "/api/groups", NULL), 400);
    assert_int_equal(ask(s, "GET", "/api/groups?by=seed", NULL), 400);
    assert_int_equal(ask(s, "GET", "/api/groups?by=tag&ids=x", NULL), 400);
    assert_int_equal(ask(s, "GET", "/api/runs?ids=2,3", NULL), 200);
    assert_true(replied(s, "\"total\":2"));
}

/* Runs of other commands are no seeds of one; seed and names make no other job. */
static void commands_are_options(void **state)
{
    stage *s = *state;
    static const char *const commands[] = {
        "fast train --shard sample --seed 1 --name 'a b'", "fast train --shard label --seed=2",
        "fast train --name=\\'x --shard sample --batch-of 'it'\\''s'",
        "fast train --shard sample --store x --seed 3"
    };

    for (int i = 0; i < 4; i++) {
        const int64_t id = add_ended(s, "easgd", i + 1, 0.1 * (i + 1), "done");
        fast_stored_run run;

        fast__store_row_init(FAST_STORE_RUNS, &run);
        run.command = commands[i];
        assert_ok(fast__store_update(s->store, id, &run));
    }
    assert_group(s, "/api/groups?by=options&where=system%3Deasgd", 2, 0, NULL, 3, 3, 0.3);
    assert_group(s, "/api/groups?by=options&where=system%3Deasgd", 2, 1, NULL, 1, 1, 0.2);
}

/* A note is text wherever it is shown; bodies of other shapes, long ones, control characters, runs
 * that do not exist and requests without the token are refused. */
static void notes_are_text(void **state)
{
    static const char *const bad[] = { "",
                                       "{}",
                                       "[]",
                                       "{\"text\":1}",
                                       "{\"text\":null}",
                                       "{\"text\":\"a\",\"more\":1}",
                                       "{\"text\":\"a\"",
                                       "{\"text\":\"\\u0000\"}",
                                       "{\"text\":\"\\u001b[2J\"}" };
    stage *s = *state;
    char *large = malloc(20000);

    assert_non_null(large);
    assert_int_equal(
        ask(s, "POST", "/api/runs/1/note", "{\"text\":\"</script>\\n'; DROP TABLE notes; --\"}"),
        200);
    assert_int_equal(ask(s, "GET", "/api/runs/1", NULL), 200);
    assert_true(replied(s, "DROP TABLE notes"));
    assert_false(replied(s, "</script>")); /* escaped */
    assert_int_equal(ask(s, "GET", "/api/runs?q=DROP%20TABLE", NULL), 200);
    assert_true(replied(s, "\"total\":1"));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (ask(s, "POST", "/api/runs/1/note", bad[i]) != 400)
            fail_msg("%s was taken: %s", bad[i], s->reply);
    snprintf(large, 20000, "{\"text\":\"%010000d\"}", 0);
    assert_int_equal(ask(s, "POST", "/api/runs/1/note", large), 400);
    free(large);
    assert_int_equal(ask(s, "POST", "/api/runs/999/note", "{\"text\":\"a\"}"), 404);
    assert_int_equal(ask(s, "GET", "/api/runs/1/note", NULL), 405);
    assert_int_equal(
        ask_with(s, "POST", "/api/runs/1/note", "Host: 127.0.0.1\r\n", "{\"text\":\"a\"}") / 100,
        4); /* without the token */
    assert_int_equal(ask(s, "POST", "/api/runs/1/note", "{\"text\":\"\"}"), 200);
    assert_int_equal(ask(s, "GET", "/api/runs/1", NULL), 200);
    assert_false(replied(s, "\"note\""));
}

/* Views are saved, replaced and removed; bodies of other shapes are refused. */
static void views_are_saved(void **state)
{
    stage *s = *state;

    assert_int_equal(ask(s, "POST", "/api/views", "{\"name\":\"<b>\",\"query\":\"q=1\"}"), 200);
    assert_int_equal(ask(s, "GET", "/api/views", NULL), 200);
    assert_true(replied(s, "\"query\":\"q=1\""));
    assert_false(replied(s, "<b>"));
    assert_int_equal(ask(s, "POST", "/api/views", "{\"name\":\"\",\"query\":\"q\"}"), 400);
    assert_int_equal(ask(s, "POST", "/api/views", "{\"name\":\"a\",\"query\":7}"), 400);
    assert_int_equal(ask(s, "POST", "/api/views", "{\"query\":\"q\"}"), 400);
    assert_int_equal(ask(s, "POST", "/api/views", "{\"name\":\"a\",\"who\":\"q\"}"), 400);
    assert_int_equal(ask(s, "POST", "/api/views", "{\"name\":\"<b>\",\"query\":null}"), 200);
    assert_true(replied(s, "{\"views\":[]}"));
    /* With all places taken a view can still be changed. */
    for (int i = 0; i <= 200; i++) {
        char body[64];

        snprintf(body, sizeof body, "{\"name\":\"%d\",\"query\":\"q\"}", i);
        assert_int_equal(ask(s, "POST", "/api/views", body), i < 200 ? 200 : 400);
    }
    assert_int_equal(ask(s, "POST", "/api/views", "{\"name\":\"7\",\"query\":\"other\"}"), 200);
    assert_true(replied(s, "\"query\":\"other\""));
}

/* Give a run a trace file with this content. */
static void set_trace(stage *s, int64_t id, const char *path, const char *text)
{
    fast_stored_run run = empty_run("x");
    FILE *file = text ? fopen(path, "w") : NULL;

    if (file) {
        fputs(text, file);
        assert_int_equal(fclose(file), 0);
    }
    run.status = "done";
    run.trace = path;
    assert_ok(fast__store_update(s->store, id, &run));
}

/* A store may name any file: only traces are sent. */
static void traces_are_sent(void **state)
{
    stage *s = *state;
    char path[128], target[64];
    const int64_t id = add_ended(s, "ssp", 1, 0.5, "done");

    snprintf(path, sizeof path, "%s/trace.json", s->folder);
    snprintf(target, sizeof target, "/api/runs/%lld/trace", (long long)id);
    assert_int_equal(ask(s, "GET", target, NULL), 404);
    assert_true(replied(s, "was not traced"));
    set_trace(s, id, path, "{\"traceEvents\":[\n{\"ph\":\"X\"}]}");
    assert_int_equal(ask(s, "GET", target, NULL), 200);
    assert_true(replied(s, "{\"traceEvents\":[\n{\"ph\":\"X\"}]}"));
    set_trace(s, id, path, "secret");
    assert_int_equal(ask(s, "GET", target, NULL) / 100, 4);
    assert_false(replied(s, "secret"));
    set_trace(s, id, "/etc/passwd", NULL);
    assert_int_equal(ask(s, "GET", target, NULL) / 100, 4);
    assert_false(replied(s, "root:"));
    set_trace(s, id, "/dev/zero", NULL);
    assert_int_equal(ask(s, "GET", target, NULL) / 100, 4);
    set_trace(s, id, "/nowhere", NULL);
    assert_int_equal(ask(s, "GET", target, NULL), 404);
    assert_int_equal(ask(s, "GET", "/api/runs/9999/trace", NULL), 404);
}

/* Of 2,500 rows each three become their mean. */
static void usage_is_averaged(void **state)
{
    enum { ROWS = 2500 };
    stage *s = *state;
    const int64_t id = add_ended(s, "ssp", 1, 0.5, "done");
    char target[64];

    assert_ok(fast__store_transaction_begin(s->store));
    for (int64_t i = 0; i < ROWS; i++) {
        const fast_stored_usage row = { i, (double)i, (double)(i % 3), NAN, i < 3 ? -1 : 7, 0, 0 };
        assert_ok(fast__store_put(s->store, FAST_STORE_USAGE, id, &row));
    }
    assert_ok(fast__store_transaction_end(s->store));
    snprintf(target, sizeof target, "/api/runs/%lld", (long long)id);
    assert_int_equal(ask(s, "GET", target, NULL), 200);
    json_t *tree = tree_of(s);
    const json_t *usage = json_object_get(tree, "usage");
    const json_t *wall = json_object_get(usage, "wall_s"), *cpu = json_object_get(usage, "cpu");
    assert_int_equal(json_array_size(wall), 834);
    assert_true(json_number_value(json_array_get(wall, 0)) == 2);
    assert_true(json_number_value(json_array_get(wall, 833)) == ROWS - 1);
    assert_true(json_number_value(json_array_get(cpu, 5)) == 1);
    assert_true(json_is_null(json_array_get(json_object_get(usage, "memory"), 0)));
    assert_true(json_is_null(json_array_get(json_object_get(usage, "machine_cpu"), 9)));
    json_decref(tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_come_in_groups), cmocka_unit_test(notes_are_text),
        cmocka_unit_test(views_are_saved),     cmocka_unit_test(traces_are_sent),
        cmocka_unit_test(usage_is_averaged),   cmocka_unit_test(commands_are_options),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
