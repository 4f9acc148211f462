/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: timelines are exported as JSON that viewers read: spans nest and are ordered, faults are
 * instants, arrows join sends with receives, hostile names are escaped, what a full ring dropped is
 * said, a clock that jumps back breaks nothing, and a file that cannot be written fails.
 * Method: two actors of a world made by hand, whose clock is a variable; a strict checker reads the
 * file, and Python's json where there is one.
 */
#include "transport/timeline.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/rng.h"
#include "trace.h"
#include "transport/transport.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int64_t clock_now;

static int64_t read_clock(fast_actor *actor)
{
    (void)actor;
    return clock_now;
}

static const fast_transport hand = { .name = "hand", .now = read_clock };

/* Two actors on two nodes. */
typedef struct fixture {
    fast_world world;
    fast_actor actors[2];
    fast_actor *list[2];
    fast_place places[2];
    fast_role roles[2];
    char path[64];
} fixture;

static void setup(fixture *f, int64_t events_max)
{
    memset(f, 0, sizeof *f);
    clock_now = 0;
    f->world.transport = f->world.inner = &hand;
    f->world.count = 2;
    f->world.actors = f->list;
    f->world.places = f->places;
    f->world.roles = f->roles;
    f->world.role_count = 2;
    for (int i = 0; i < 2; i++) {
        f->actors[i].world = &f->world;
        f->actors[i].id = i;
        f->list[i] = &f->actors[i];
        f->places[i] = (fast_place){ .node = i, .role = i, .here = true };
        f->roles[i] = (fast_role){ .name = i ? "server" : "worker", .count = 1 };
        assert_int_equal(fast__timeline_new(events_max, &f->actors[i].timeline), FAST_OK);
    }
    snprintf(f->path, sizeof f->path, "timeline_test.%d.json", (int)getpid());
}

static void teardown(fixture *f)
{
    fast__timeline_free(f->actors[0].timeline);
    fast__timeline_free(f->actors[1].timeline);
    unlink(f->path);
}

/* Write the file and have it checked. */
static trace_summary export(fixture *f)
{
    trace_summary summary;
    char why[256];
    assert_int_equal(fast__timeline_write(&f->world, f->path), FAST_OK);
    if (!trace_check(f->path, &summary, why))
        fail_msg("%s", why);
    return summary;
}

/* The same, and Python reads it too. */
static trace_summary export_to_all(fixture *f)
{
    const trace_summary summary = export(f);
    char command[256];
    snprintf(command, sizeof command,
             "command -v python3 >/dev/null || exit 0; python3 -c 'import json, sys; "
             "json.load(open(sys.argv[1], encoding=\"utf-8\"))' %s",
             f->path);
    assert_int_equal(system(command), 0);
    return summary;
}

static char *read_text(fixture *f)
{
    char *text = NULL;
    size_t size = 0;
    assert_int_equal(fast__file_read(f->path, 1 << 24, &text, &size), FAST_OK);
    return text;
}

/* A step: compute with a send inside, then the other's wait within its receive. */
static void record_step(fixture *f)
{
    const int64_t begin = clock_now;
    clock_now += 100;
    fast__timeline_add(&f->actors[0], FAST_SPAN_SEND, "send", clock_now - 10, 1, 64);
    clock_now += 1900;
    fast__timeline_add(&f->actors[0], FAST_SPAN_COMPUTE, "gradient", begin, -1, 0);
    fast__timeline_add(&f->actors[1], FAST_SPAN_WAIT, NULL, begin + 5, 0, 0);
    clock_now += 7;
    fast__timeline_add(&f->actors[1], FAST_SPAN_RECEIVE, "receive", begin + 5, 0, 64);
}

static void test_export(void **state)
{
    (void)state;
    fixture f;
    setup(&f, 100);
    for (int i = 0; i < 10; i++)
        record_step(&f);
    fast__timeline_add(&f.actors[1], FAST_SPAN_FAULT, "crash", clock_now, -1, 0);
    const trace_summary s = export_to_all(&f);
    assert_int_equal(s.spans, 40);
    assert_int_equal(s.instants, 1);
    assert_int_equal(s.arrows, 10);
    assert_int_equal(s.counters, 10);
    assert_int_equal(s.names, 6);
    assert_int_equal(s.depth_max, 2);
    assert_int_equal(s.last_ns, clock_now);
    assert_false(s.dropped);
    char *text = read_text(&f);
    assert_non_null(strstr(text, "\"name\":\"worker 0\""));
    assert_non_null(strstr(text, "\"name\":\"server 0\""));
    assert_non_null(strstr(text, "\"name\":\"node 1\""));
    assert_non_null(strstr(text, "\"ts\":0.09,\"dur\":0.01,\"cat\":\"send\""));
    assert_non_null(strstr(text, "\"transport\":\"hand\""));
    fast__free(text);
    teardown(&f);
}

static void test_empty(void **state)
{
    (void)state;
    fixture f;
    setup(&f, 1);
    fast__timeline_free(f.actors[1].timeline);
    f.actors[1].timeline = NULL;
    fast__timeline_add(&f.actors[1], FAST_SPAN_SEND, "send", 0, 0, 1); /* nothing to write to */
    const trace_summary s = export_to_all(&f);
    assert_int_equal(s.spans, 0);
    assert_int_equal(s.names, 6);
    teardown(&f);
}

static void test_full_ring(void **state)
{
    (void)state;
    fixture f;
    setup(&f, 8);
    for (int i = 0; i < 100; i++)
        record_step(&f);
    const int64_t before = fast__alloc_count();
    record_step(&f);
    assert_int_equal(fast__alloc_count(), before);
    const trace_summary s = export_to_all(&f);
    assert_int_equal(s.spans, 16);
    assert_int_equal(s.arrows, 0);
    assert_int_equal(s.last_ns, clock_now);
    assert_true(s.dropped);
    char *text = read_text(&f);
    assert_non_null(strstr(text, "194 earlier events were dropped"));
    assert_non_null(strstr(text, "\"events_dropped\":194"));
    fast__free(text);
    teardown(&f);
}

static void test_hostile_names(void **state)
{
    (void)state;
    fixture f;
    setup(&f, 8);
    f.roles[0].name = "a\"b\\c\n\x01\x7f\xff\xc3(\xf0\x9f\x90\x87</script>";
    f.roles[1].name = "";
    fast__timeline_add(&f.actors[0], FAST_SPAN_CODEC, "\"}]", 0, -1, 0);
    const trace_summary s = export_to_all(&f);
    assert_int_equal(s.spans, 1);
    char *text = read_text(&f);
    assert_non_null(strstr(text, "a\\\"b\\\\c\\n\\u0001\x7f\xef\xbf\xbd\xef\xbf\xbd("));
    fast__free(text);
    teardown(&f);
}

/* Any sequence of begins and clocks, forwards and back, gives spans that nest. */
static void test_jumping_clock(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        fixture f;
        fast_rng rng;
        setup(&f, 64);
        fast__rng_init(&rng, seed, FAST_PURPOSE_TEST, 0, 0, 0);
        clock_now = 1000;
        for (int i = 0; i < 60; i++) {
            clock_now += (int64_t)fast__rng_below(&rng, 100) - (i % 10 == 9 ? 500 : 0);
            clock_now = clock_now < 0 ? 0 : clock_now;
            fast__timeline_add(&f.actors[i % 2], FAST_SPAN_WAIT, "wait",
                               (int64_t)fast__rng_below(&rng, 2000), 1 - i % 2, 0);
        }
        assert_int_equal(export(&f).spans, 60);
        teardown(&f);
    }
}

static void test_cannot_write(void **state)
{
    (void)state;
    fixture f;
    setup(&f, 8);
    record_step(&f);
    assert_int_not_equal(fast__timeline_write(&f.world, "no/such/folder/trace.json"), FAST_OK);
    /* A process that hosts only some of the actors writes those. */
    f.list[0] = NULL;
    assert_int_equal(export(&f).spans, 2);
    f.list[0] = &f.actors[0];
    teardown(&f);
}

static void test_no_memory(void **state)
{
    (void)state;
    fixture f;
    setup(&f, 8);
    record_step(&f);
    for (int64_t n = 0; n < 2; n++) {
        fast_timeline *timeline = NULL;
        fast__alloc_fail_after(n, true);
        assert_int_equal(fast__timeline_new(8, &timeline), FAST_ENOMEM);
        fast__alloc_fail_after(-1, true);
        assert_null(timeline);
    }
    int64_t n = 0;
    for (;; n++) {
        fast__alloc_fail_after(n, true);
        const fast_err err = fast__timeline_write(&f.world, f.path);
        fast__alloc_fail_after(-1, true);
        if (!err)
            break;
        assert_int_equal(err, FAST_ENOMEM);
        assert_int_not_equal(access(f.path, F_OK), 0);
    }
    assert_true(n >= 4);
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_export),        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_full_ring),     cmocka_unit_test(test_hostile_names),
        cmocka_unit_test(test_jumping_clock), cmocka_unit_test(test_cannot_write),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
