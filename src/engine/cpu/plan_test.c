/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a plan that was written is read again; damage costs a measurement, never an error; runs
 * that write at once lose nothing. Method: files in a temporary folder, written by the plan itself,
 * then damaged byte by byte, or by several processes at once.
 */
#include "engine/cpu/plan.h"

#include "base/file.h"
#include "base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/fast-plan-XXXXXX";
static char path[64];

static int setup(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/sub/plan", folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    char other[96];
    unlink(path);
    snprintf(other, sizeof other, "%s.lock", path);
    unlink(other);
    snprintf(other, sizeof other, "%s/sub", folder);
    rmdir(other);
    return rmdir(folder);
}

static fast_conv_plan *reopen(const char *at)
{
    fast_conv_plan *plan;
    assert_int_equal(fast__plan_open(at, &plan), FAST_OK);
    return plan;
}

static void round_trip(void **state)
{
    (void)state;
    unlink(path);
    fast_conv_plan *plan = reopen(path);
    assert_null(fast__plan_get(plan, "a shape"));
    assert_int_equal(fast__plan_hash(plan), 0);
    assert_int_equal(fast__plan_put(plan, "a shape", "xsmm"), FAST_OK);
    assert_int_equal(fast__plan_put(plan, "another shape", "xsmm / im2col / xsmm"), FAST_OK);
    const uint64_t hash = fast__plan_hash(plan);
    assert_true(hash != 0);
    fast__plan_close(plan);

    plan = reopen(path);
    assert_string_equal(fast__plan_get(plan, "a shape"), "xsmm");
    assert_string_equal(fast__plan_get(plan, "another shape"), "xsmm / im2col / xsmm");
    assert_int_equal(fast__plan_hash(plan), hash); /* measured or read: the same run */
    assert_null(fast__plan_get(plan, "a shap"));
    fast__plan_close(plan);
    fast__plan_close(NULL);
}

static void order_and_choice_count(void **state)
{
    (void)state;
    uint64_t hash[3];
    for (int i = 0; i < 3; i++) {
        fast_conv_plan *plan = reopen("");
        assert_int_equal(fast__plan_put(plan, i == 1 ? "b" : "a", "x"), FAST_OK);
        assert_int_equal(fast__plan_put(plan, i == 1 ? "a" : "b", i == 2 ? "y" : "x"), FAST_OK);
        hash[i] = fast__plan_hash(plan);
        fast__plan_close(plan);
    }
    assert_true(hash[0] != hash[1] && hash[0] != hash[2] && hash[1] != hash[2]);
}

static void put_again_replaces(void **state)
{
    (void)state;
    fast_conv_plan *plan = reopen("");
    assert_int_equal(fast__plan_put(plan, "a", "x"), FAST_OK);
    assert_int_equal(fast__plan_put(plan, "b", "x"), FAST_OK);
    assert_int_equal(fast__plan_put(plan, "a", "longer than before"), FAST_OK);
    assert_string_equal(fast__plan_get(plan, "a"), "longer than before");
    assert_string_equal(fast__plan_get(plan, "b"), "x");
    fast__plan_close(plan);

    /* In the file too. */
    unlink(path);
    for (int i = 0; i < 3; i++) {
        static const char *const choices[] = { "old", "new", "new" };
        plan = reopen(path);
        if (i == 2)
            assert_string_equal(fast__plan_get(plan, "a"), "new");
        assert_int_equal(fast__plan_put(plan, "a", choices[i]), FAST_OK);
        fast__plan_close(plan);
    }
}

/* Change each byte of the file in turn, and cut it anywhere: the line concerned is gone, the other
 * is right or gone too (where the change joins them), and nothing else appears. */
static void damaged(void **state)
{
    (void)state;
    unlink(path);
    fast_conv_plan *plan = reopen(path);
    assert_int_equal(fast__plan_put(plan, "first", "xsmm"), FAST_OK);
    assert_int_equal(fast__plan_put(plan, "second", "im2col"), FAST_OK);
    fast__plan_close(plan);
    char *text;
    size_t size;
    assert_int_equal(fast__file_read(path, 1000, &text, &size), FAST_OK);
    for (size_t i = 0; i < 2 * size; i++) {
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        const bool cut = i >= size;
        const char was = text[i % size];
        if (!cut)
            text[i] = (char)(was ^ (i % 2 ? 0x55 : 0x01));
        fwrite(text, 1, cut ? i - size : size, file);
        fclose(file);
        text[i % size] = was;
        plan = reopen(path);
        const char *first = fast__plan_get(plan, "first");
        if (first)
            assert_string_equal(first, "xsmm");
        const char *second = fast__plan_get(plan, "second");
        if (second)
            assert_string_equal(second, "im2col");
        assert_true(!first || !second);
        fast__plan_close(plan);
    }
    fast__free(text);
}

static void hostile(void **state)
{
    (void)state;
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (int i = 0; i < 200000; i++)
        fputc(i % 977 == 0 ? '\n' : i * 7 % 251, file);
    fclose(file);
    fast_conv_plan *plan = reopen(path);
    assert_null(fast__plan_get(plan, "first"));
    assert_int_equal(fast__plan_put(plan, "first", "xsmm"), FAST_OK);
    fast__plan_close(plan);
    plan = reopen(path);
    assert_string_equal(fast__plan_get(plan, "first"), "xsmm");
    fast__plan_close(plan);
}

/* A folder that cannot be written: the plan still serves its run. */
static void not_writable(void **state)
{
    (void)state;
    fast_conv_plan *plan = reopen("/proc/fast/plan");
    assert_int_equal(fast__plan_put(plan, "a", "x"), FAST_OK);
    assert_string_equal(fast__plan_get(plan, "a"), "x");
    fast__plan_close(plan);
}

/* Processes that open the same old plan, then write their own choices and one they all make. */
static void concurrent(void **state)
{
    (void)state;
    enum { WRITERS = 8, KEYS = 20 };
    unlink(path);
    for (int w = 0; w < WRITERS; w++) {
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            fast_conv_plan *plan;
            char key[48], choice[32];
            if (fast__plan_open(path, &plan) != FAST_OK)
                _exit(1);
            for (int k = 0; k < KEYS; k++) {
                snprintf(key, sizeof key, "writer %d key %d", w, k);
                if (fast__plan_put(plan, key, "x") != FAST_OK)
                    _exit(1);
            }
            snprintf(choice, sizeof choice, "choice %d", w);
            if (!fast__plan_get(plan, "all") && fast__plan_put(plan, "all", choice) != FAST_OK)
                _exit(1);
            fast__plan_close(plan);
            _exit(0);
        }
    }
    for (int w = 0; w < WRITERS; w++) {
        int status;
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    fast_conv_plan *plan = reopen(path);
    for (int i = 0; i < WRITERS * KEYS; i++) {
        char key[48];
        snprintf(key, sizeof key, "writer %d key %d", i / KEYS, i % KEYS);
        assert_non_null(fast__plan_get(plan, key));
    }
    assert_non_null(fast__plan_get(plan, "all"));
    fast__plan_close(plan);
}

static void out_of_memory(void **state)
{
    (void)state;
    for (int n = 0;; n++) {
        fast_conv_plan *plan = NULL;
        fast__alloc_fail_after(n, true);
        fast_err err = fast__plan_open(path, &plan);
        if (!err)
            err = fast__plan_put(plan, "new", "x");
        fast__alloc_fail_after(-1, true);
        fast__plan_close(plan);
        if (!err)
            break;
        assert_int_equal(err, FAST_ENOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(order_and_choice_count),
        cmocka_unit_test(put_again_replaces),
        cmocka_unit_test(damaged),
        cmocka_unit_test(hostile),
        cmocka_unit_test(not_writable),
        cmocka_unit_test(concurrent),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
