/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: fault schedules mean what is written, and what is wrong is refused in one clear line.
 * Method: canonical texts are parsed and printed back; other spellings give the canonical one; bad
 * ones give the expected words; random schedules of many seeds are valid, repeat and cover all
 * kinds; every allocation fails once.
 */
#include "base/memory.h"
#include "transport/sim/fault.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { NODES = 6 };

static char *printed(const char *text)
{
    fast_faults *faults = NULL;
    char *out = NULL;
    const fast_err err = fast__faults_parse(text, strlen(text), NODES, &faults);
    if (err)
        print_error("%s: %s\n", text, fast_error_detail());
    assert_int_equal(err, FAST_OK);
    assert_int_equal(fast__faults_text(faults, &out), FAST_OK);
    fast__faults_free(faults);
    return out;
}

static void expect(const char *text, const char *canonical)
{
    char *once = printed(text);
    assert_string_equal(once, canonical);
    char *twice = printed(once);
    assert_string_equal(twice, canonical);
    fast__free(once);
    fast__free(twice);
}

static void test_canonical(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "crash 3 at 1.5s; restart 3 at 2s",
        "pause 2 at 1s for 500ms",
        "slow 1 at 0s for 10s by 4",
        "slow 1 at 0s by 1.5",
        "cut 0-3 at 1s for 2s; cut 0>3 at 4.000000001s",
        "partition 0,1|2,3 at 1s for 2s; partition 5 at 1ns; partition 0|1|2 at 1ms for 1us",
        "partition 0,1>2,3 at 1s",
        "lossy 0-1 at 0s for 5s loss 0.2; lossy 5>0 at 1s loss 0.05",
        "jump 2 at 1s by -3s; jump 2 at 1s by 1.5ms",
        "join 4 at 2s",
        "lie 3 at 0s for 10s how negate; lie 0 at 0s how scale; lie 1 at 0s how random; lie 2 at "
        "0s how nan",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        expect(texts[i], texts[i]);
}

static void test_spelling(void **state)
{
    (void)state;
    expect(" ;;\n  crash  3\tat 1500ms ;\r\n", "crash 3 at 1.5s");
    expect("# all goes wrong\ncrash 3 at .5s # here\nrestart 3 at 0.01min", "crash 3 at 500ms; "
                                                                            "restart 3 at 600ms");
    expect("slow 1 by 4 for 0.5h at 0ns", "slow 1 at 0s for 1800s by 4");
    expect("slow 01 by 4.000 at 00s", "slow 1 at 0s by 4");
    expect("jump 2 by +1us at 1.25us", "jump 2 at 1.25us by 1us");
    expect("pause 0 at 999ns for 1000ns", "pause 0 at 999ns for 1us");
    expect("restart 3 at 2s; crash 3 at 1s", "restart 3 at 2s; crash 3 at 1s");
}

static void refuse(const char *text, const char *words)
{
    fast_faults *faults = NULL;
    assert_int_equal(fast__faults_parse(text, strlen(text), NODES, &faults), FAST_EINVAL);
    assert_null(faults);
    if (!strstr(fast_error_detail(), words))
        fail_msg("\"%s\" does not say \"%s\" of: %s", fast_error_detail(), words, text);
    assert_null(strchr(fast_error_detail(), '\n'));
}

static void test_refused(void **state)
{
    (void)state;
    refuse("crash", "fault 1, \"crash\": it says no node; write it like crash 3 at 1.5s");
    refuse("pause 1 at 1s for 1s; crsh 3 at 1s",
           "fault 2, \"crsh 3 at 1s\": no fault \"crsh\"; did you mean \"crash\"?");
    refuse("crash 6 at 1s", "there is no node 6; nodes are 0 to 5");
    refuse("crash -1 at 1s", "a node is a number from 0 to 5, not \"-1\"");
    refuse("crash 1k at 1s", "a node is a number");
    refuse("crash 99999999999999999999 at 1s", "a node is a number");
    refuse("crash 1 at 1", "at has no unit: 1; write it like 1s or 1ms");
    refuse("crash 1 at 1m", "units are ns, us, ms, s, min, h");
    refuse("crash 1 at x", "at is not a time");
    refuse("crash 1 at", "nothing follows \"at\"");
    refuse("crash 1", "it says too little; write it like crash 3 at 1.5s");
    refuse("crash 1 at -1s", "at must be 0s or later");
    refuse("crash 1 at 1s at 2s", "it says \"at\" twice");
    refuse("crash 1 at 1s for 2s", "crash takes no \"for\"");
    refuse("crash 1 at 0.1ns", "whole number of nanoseconds");
    refuse("crash 1 at 1.2.3s", "whole number of nanoseconds");
    refuse("crash 1 at 99999999999999999999s", "up to a year");
    refuse("crash 1 at 366h; pause 1 for 1s at 8761h", "up to a year");
    refuse("pause 1 at 1s for 0s", "for must be longer than nothing");
    refuse("slow 1 at 1s", "it says too little");
    refuse("slow 1 at 1s by 0.5", "how many times slower");
    refuse("slow 1 at 1s by fast", "by");
    refuse("cut 1 at 1s", "a link is two nodes, like 0-3 or one way 0>3");
    refuse("cut 1-1 at 1s", "node 1 has no link to itself");
    refuse("cut 1-9 at 1s", "there is no node 9");
    refuse("cut 1-2-3 at 1s", "a node is a number");
    refuse("partition 0,1|1,2 at 1s", "node 1 is named twice");
    refuse("partition 0,|1 at 1s", "a node is a number");
    refuse("partition 0|1>2 at 1s", "one way has two sides");
    refuse("partition 0>1|2 at 1s", "one way has two sides");
    refuse("lossy 0-1 at 1s loss 1", "a link that loses everything is cut");
    refuse("lossy 0-1 at 1s loss -0.1", "loss is from 0 to 0.99");
    refuse("lie 1 at 1s how nicely", "no lie \"nicely\"");
    refuse("jump 1 at 1s by 3", "by has no unit");
    refuse("restart 1 at 2s", "the node has not crashed before");
    refuse("crash 1 at 2s; crash 1 at 3s", "crashed before, without a restart");
    refuse("join 1 at 2s; join 1 at 3s", "the node joins twice");
    refuse("join 1 at 2s; crash 1 at 1s", "the node crashes before it joins");
    refuse("crash 1 at 1s \001\002 2s", "crash takes no");
    refuse("crash 1 at 1s a b c d e f g h i j k l m n o p q r", "too long");
}

static void test_bounds(void **state)
{
    (void)state;
    const size_t size = FAST_FAULT_TEXT_MAX + 1;
    char *text = malloc(size);
    fast_faults *faults = NULL;
    assert_non_null(text);
    memset(text, ';', size);
    assert_int_equal(fast__faults_parse(text, size, NODES, &faults), FAST_EINVAL);
    assert_int_equal(fast__faults_parse(text, size - 1, NODES, &faults), FAST_OK);
    assert_int_equal(faults->count, 0);
    fast__faults_free(faults);
    faults = NULL;
    char *end = text;
    for (int i = 0; i <= FAST_FAULTS_MAX; i++)
        end += sprintf(end, "pause 0 at 1s for 1s\n");
    assert_int_equal(fast__faults_parse(text, (size_t)(end - text), NODES, &faults), FAST_EINVAL);
    assert_int_equal(fast__faults_parse(text, (size_t)(end - text) - 21, NODES, &faults), FAST_OK);
    assert_int_equal(faults->count, FAST_FAULTS_MAX);
    fast__faults_free(faults);
    free(text);
}

static void test_open(void **state)
{
    (void)state;
    char path[] = "/tmp/fast-faults-XXXXXX";
    const char text[] = "# a file\ncrash 1 at 1s\n\ncut 0-1 at 2s\n";
    fast_faults *faults = NULL;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
    close(fd);
    assert_int_equal(fast__faults_make(path, 1, NODES, &faults), FAST_OK);
    assert_int_equal(faults->count, 2);
    fast__faults_free(faults);
    assert_int_equal(fast__faults_make(path, 1, 1, &faults), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), path));
    unlink(path);
    assert_int_equal(fast__faults_make(path, 1, 1, &faults), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "neither a file"));
    assert_int_equal(fast__faults_make("", 1, 1, &faults), FAST_OK);
    assert_int_equal(faults->count, 0);
    fast__faults_free(faults);
    assert_int_equal(fast__faults_make("crash 0 at 1s", 1, 1, &faults), FAST_OK);
    assert_int_equal(faults->count, 1);
    fast__faults_free(faults);
    assert_int_equal(fast__faults_make("random:span=2", 1, 1, &faults), FAST_EINVAL);
    assert_int_equal(fast__faults_make("random:kinds=restart", 1, 1, &faults), FAST_EINVAL);
    assert_int_equal(fast__faults_make("random:kinds=crush", 1, 1, &faults), FAST_EINVAL);
    assert_int_equal(fast__faults_make("random:cont=2", 1, 1, &faults), FAST_EINVAL);
}

static void test_random(void **state)
{
    (void)state;
    int64_t seen[FAST_FAULT_KINDS] = { 0 };
    for (uint64_t seed = 0; seed < 500; seed++) {
        const int64_t nodes = 1 + (int64_t)(seed % 12);
        fast_faults *faults = NULL;
        fast_faults *again = NULL;
        char *text = NULL;
        char *text_again = NULL;
        assert_int_equal(fast__faults_make("random:count=5,span=2s", seed, nodes, &faults),
                         FAST_OK);
        assert_true(faults->count >= 1);
        assert_true(faults->count <= 5);
        for (int64_t i = 0; i < faults->count; i++)
            seen[faults->list[i].kind]++;
        assert_int_equal(fast__faults_text(faults, &text), FAST_OK);
        assert_int_equal(fast__faults_parse(text, strlen(text), nodes, &again), FAST_OK);
        assert_int_equal(fast__faults_text(again, &text_again), FAST_OK);
        assert_string_equal(text, text_again);
        assert_memory_equal(faults->list, again->list, 0);
        fast__faults_free(faults);
        fast__faults_free(again);
        fast__free(text);
        fast__free(text_again);
    }
    for (int kind = 0; kind < FAST_FAULT_KINDS; kind++)
        assert_true(seen[kind] > 20);
}

/* Only the kinds that were asked for; another seed gives another schedule. */
static void test_random_kinds(void **state)
{
    (void)state;
    int64_t different = 0;
    char *before = NULL;
    for (uint64_t seed = 0; seed < 50; seed++) {
        fast_faults *faults = NULL;
        char *text = NULL;
        assert_int_equal(fast__faults_make("random:kinds=crash+pause,count=2", seed, 4, &faults),
                         FAST_OK);
        assert_int_equal(faults->count, 2);
        for (int64_t i = 0; i < 2; i++)
            assert_true(faults->list[i].kind == FAST_FAULT_CRASH ||
                        faults->list[i].kind == FAST_FAULT_PAUSE);
        assert_int_equal(fast__faults_text(faults, &text), FAST_OK);
        different += before && strcmp(before, text) != 0;
        fast__free(before);
        before = text;
        fast__faults_free(faults);
    }
    fast__free(before);
    assert_true(different > 40);
}

static void test_pick(void **state)
{
    (void)state;
    const char text[] = "partition 0|1 at 1s; crash 2 at 1s; partition 3,4|5 at 2s";
    const bool keep[] = { false, true, true };
    fast_faults *faults = NULL;
    fast_faults *picked = NULL;
    char *out = NULL;
    assert_int_equal(fast__faults_parse(text, sizeof text - 1, NODES, &faults), FAST_OK);
    assert_int_equal(fast__faults_pick(faults, keep, &picked), FAST_OK);
    assert_int_equal(fast__faults_text(picked, &out), FAST_OK);
    assert_string_equal(out, "crash 2 at 1s; partition 3,4|5 at 2s");
    fast__free(out);
    fast__faults_free(picked);
    fast__faults_free(faults);
}

static void test_memory(void **state)
{
    (void)state;
    static const char *const specs[] = { "crash 0 at 1s; partition 0|1 at 2s", "random" };
    for (size_t s = 0; s < 2; s++) {
        fast_err err = FAST_ENOMEM;
        for (int64_t n = 0; err; n++) {
            fast_faults *faults = NULL;
            fast__alloc_fail_after(n, true);
            err = fast__faults_make(specs[s], 1, 4, &faults);
            fast__alloc_fail_after(-1, true);
            assert_true(err == FAST_OK || err == FAST_ENOMEM);
            assert_true((err == FAST_OK) == (faults != NULL));
            fast__faults_free(faults);
            assert_true(n < 100);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_canonical),    cmocka_unit_test(test_spelling),
        cmocka_unit_test(test_refused),      cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_open),         cmocka_unit_test(test_random),
        cmocka_unit_test(test_random_kinds), cmocka_unit_test(test_pick),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
