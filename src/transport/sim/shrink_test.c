/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the shrinker finds the guilty faults among many, and rounds them. Method: planted failures,
 * predicates over schedules that need one or two certain faults, hidden in random schedules of many
 * seeds; the smallest schedule is known beforehand.
 */
#include "base/memory.h"
#include "transport/sim/shrink.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { NODES = 8 };

static fast_faults *parse(const char *text)
{
    fast_faults *faults = NULL;
    assert_int_equal(fast__faults_parse(text, strlen(text), NODES, &faults), FAST_OK);
    return faults;
}

/* Guilty: node 3 is crashed at 4 s. */
static fast_err one_guilty(void *ctx, const fast_faults *faults, bool *fails_out)
{
    int64_t *calls = ctx;
    bool crashed = false;
    ++*calls;
    for (int64_t i = 0; i < faults->count; i++) {
        const fast_fault *fault = &faults->list[i];
        if (fault->node == 3 && fault->kind == FAST_FAULT_CRASH && fault->at <= 4000000000)
            crashed = true;
        if (fault->node == 3 && fault->kind == FAST_FAULT_RESTART && fault->at <= 4000000000)
            crashed = false;
    }
    *fails_out = crashed;
    return FAST_OK;
}

/* Guilty: node 1 is slow by 3 or more while link 2-5 is cut. */
static fast_err two_guilty(void *ctx, const fast_faults *faults, bool *fails_out)
{
    int64_t *calls = ctx;
    ++*calls;
    *fails_out = false;
    for (int64_t i = 0; i < faults->count; i++) {
        const fast_fault *slow = &faults->list[i];
        if (slow->kind != FAST_FAULT_SLOW || slow->node != 1 || slow->by < 3)
            continue;
        for (int64_t j = 0; j < faults->count; j++) {
            const fast_fault *cut = &faults->list[j];
            if (cut->kind == FAST_FAULT_CUT && cut->node == 2 && cut->other == 5 &&
                cut->at < slow->at + slow->length && slow->at < cut->at + cut->length)
                *fails_out = true;
        }
    }
    return FAST_OK;
}

static void expect(const char *text, fast_shrink_fn *fails, const char *smallest)
{
    fast_faults *faults = parse(text);
    fast_faults *small = NULL;
    int64_t calls = 0;
    int64_t tries = 0;
    char *out = NULL;
    assert_int_equal(fast__faults_shrink(faults, fails, &calls, 1000, &small, &tries), FAST_OK);
    assert_int_equal(fast__faults_text(small, &out), FAST_OK);
    assert_string_equal(out, smallest);
    assert_int_equal(calls, tries);
    fast__free(out);
    fast__faults_free(small);
    fast__faults_free(faults);
}

static void test_one(void **state)
{
    (void)state;
    expect("crash 3 at 1.234567s", one_guilty, "crash 3 at 0s");
    expect("pause 1 at 1s for 1s; crash 3 at 3.999s; crash 2 at 1s; restart 2 at 2s; lie 0 at 1s "
           "how nan",
           one_guilty, "crash 3 at 0s");
    expect("crash 3 at 1s; restart 3 at 2s; crash 3 at 3s; restart 3 at 5s; crash 3 at 6s",
           one_guilty, "crash 3 at 0s");
}

static void test_two(void **state)
{
    (void)state;
    expect("crash 0 at 1s; slow 1 at 1.123s for 777ms by 12.5; partition 0,1|2 at 3s; pause 3 at "
           "1s for 1s; cut 2-5 at 1.5s for 2.222s; restart 0 at 2s; lossy 1-2 at 0s loss 0.1",
           two_guilty, "slow 1 at 0s for 1s by 10; cut 2-5 at 0s for 2s");
}

/* The two guilty ones among forty random ones. */
static void test_many(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        fast_faults *faults = NULL;
        char *text = NULL;
        char all[1 << 14];
        assert_int_equal(fast__faults_make("random:count=40,kinds=crash+restart+pause+partition",
                                           seed, NODES, &faults),
                         FAST_OK);
        assert_int_equal(fast__faults_text(faults, &text), FAST_OK);
        snprintf(all, sizeof all, "cut 2-5 at 1s for 5s; %s; slow 1 at 2s for 1s by 3", text);
        expect(all, two_guilty, "cut 2-5 at 0s for 5s; slow 1 at 0s for 1s by 3");
        fast__free(text);
        fast__faults_free(faults);
    }
}

static void test_innocent(void **state)
{
    (void)state;
    fast_faults *faults = parse("crash 2 at 1s");
    fast_faults *small = NULL;
    int64_t calls = 0;
    assert_int_equal(fast__faults_shrink(faults, one_guilty, &calls, 100, &small, NULL),
                     FAST_EINVAL);
    assert_null(small);
    fast__faults_free(faults);
}

/* With few tries the result still fails. */
static void test_few_tries(void **state)
{
    (void)state;
    fast_faults *faults =
        parse("pause 0 at 1s for 1s; pause 1 at 1s for 1s; crash 3 at 1s; pause 2 at 1s for 1s");
    for (int64_t tries_max = 1; tries_max < 8; tries_max++) {
        fast_faults *small = NULL;
        int64_t calls = 0;
        bool fails = false;
        assert_int_equal(fast__faults_shrink(faults, one_guilty, &calls, tries_max, &small, NULL),
                         FAST_OK);
        assert_true(calls <= tries_max);
        assert_int_equal(one_guilty(&calls, small, &fails), FAST_OK);
        assert_true(fails);
        fast__faults_free(small);
    }
    fast__faults_free(faults);
}

static void test_memory(void **state)
{
    (void)state;
    fast_faults *faults =
        parse("pause 0 at 1s for 1s; pause 1 at 1s for 1s; crash 3 at 1.5s; pause 2 at 1s for 1s");
    fast_err err = FAST_ENOMEM;
    for (int64_t n = 0; err; n++) {
        fast_faults *small = NULL;
        int64_t calls = 0;
        fast__alloc_fail_after(n, true);
        err = fast__faults_shrink(faults, one_guilty, &calls, 100, &small, NULL);
        fast__alloc_fail_after(-1, true);
        assert_true(err == FAST_OK || err == FAST_ENOMEM);
        fast__faults_free(small);
        assert_true(n < 500);
    }
    fast__faults_free(faults);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one),       cmocka_unit_test(test_two),
        cmocka_unit_test(test_many),      cmocka_unit_test(test_innocent),
        cmocka_unit_test(test_few_tries), cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
