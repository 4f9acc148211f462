/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The members of the family ps. Goal: the limits of its options are other members, to the bit; what
 * makes no sense is refused; compensation is its formula. Method: small runs on the simulator,
 * compared by their hashes; the formula on vectors.
 */
#include "base/memory.h"
#include "small_run.h"
#include "strategy/compensate.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static fast_result train(const char *strategy, int workers, const char *more)
{
    const char *const list[] = { more, NULL };

    return test_small_run(strategy, workers, list);
}

static void same(const char *a, const char *b, int workers, const char *more)
{
    if (train(a, workers, more).params_hash != train(b, workers, more).params_hash)
        fail_msg("%s and %s differ with %d workers", a, b, workers);
}

static void differ(const char *a, const char *b, int workers, const char *more)
{
    if (train(a, workers, more).params_hash == train(b, workers, more).params_hash)
        fail_msg("%s and %s are the same with %d workers", a, b, workers);
}

static void limits_are_other_members(void **state)
{
    (void)state;
    same("ps:slack=0", "allreduce:algorithm=tree", 4, NULL);
    same("ps:slack=0,servers=3,backup=0", "allreduce:algorithm=tree", 4, NULL);
    same("ps:slack=1000", "ps", 4, NULL);
    same("ps:compensate=0", "ps", 4, NULL);
    same("ps:softsync=4", "ps", 4, NULL);
    same("ps:softsync=2", "ps:aggregate=2", 4, NULL);
    same("ps:send=mean", "ps:send=differences", 4, NULL); /* after one step they are the same */
    same("ps:filter=0", "ps", 4, NULL);
    same("ps:filter=1e-30", "ps", 4, NULL); /* everything is significant */
    same("ps:slack=0,filter=1e-30", "allreduce", 4, NULL);
    same("ps:filter=1e6", "ps:push=24", 1, NULL); /* all of it waits for the last push */
    same("ps:reject=1000,staleness=none", "ps", 4, NULL);
}

/* With one worker no update is late. */
static void nothing_is_late_alone(void **state)
{
    (void)state;
    same("ps:compensate=5", "ps", 1, NULL);
    same("ps:compensate=5,decay=0.9", "ps", 1, NULL);
    same("ps:staleness=inverse", "ps", 1, NULL);
    same("ps:staleness=workers", "ps", 1, NULL);
    same("ps", "allreduce", 1, NULL);
}

static void options_matter(void **state)
{
    (void)state;
    differ("ps:compensate=5", "ps", 4, NULL);
    differ("ps:compensate=5,decay=0.9", "ps:compensate=5", 4, NULL);
    differ("ps:fetch=4,push=4,send=mean", "ps:fetch=4,push=4,send=differences", 4, NULL);
    differ("ps:filter=0.1", "ps", 4, NULL);
    differ("ps:staleness=workers", "ps", 4, NULL);
    differ("ps:staleness=inverse", "ps", 4, NULL);
}

/* A straggler does not hold the others when a backup worker makes up for it. */
static void backup_workers_outrun_stragglers(void **state)
{
    static const char *const slow = "faults=slow 3 at 0s by 50";
    const fast_result without = train("ps:slack=0", 4, slow),
                      with = train("ps:slack=0,backup=1", 4, slow);

    (void)state;
    assert_true(with.params_hash != without.params_hash);
    assert_int_equal(without.steps, 24);
    assert_true(with.steps < 24); /* the slow one missed most rounds */
    assert_true(with.staleness_max == 0 &&
                without.staleness_max == 0); /* late gradients are dropped */
    assert_true(with.virtual_time_s < 0.5 * without.virtual_time_s);
    (void)train("ps:slack=0,backup=3", 4, slow);
    (void)train("ps:slack=0,backup=2,servers=0", 5, slow);
    (void)train("ps:slack=0,backup=1,servers=3", 5, "cluster=hetero");
}

static void nonsense_is_refused(void **state)
{
    static const char *const bad[] = {
        "ps:backup=1",           "ps:slack=0,backup=4",       "ps:slack=0,softsync=2",
        "ps:slack=0,send=mean",  "ps:slack=0,compensate=1",   "ps:softsync=2,aggregate=2",
        "ps:send=mean,push=2",   "ps:send=mean,compensate=1", "ps:decay=0.9",
        "ps:filter=1,send=mean", "ps:slack=0,aggregate=2",    "ps:slack=0,push=2,fetch=2",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[128];
        const char *options[] = { text,
                                  "workers=4",
                                  "model=mlp:hidden=4",
                                  "transport=sim",
                                  "data=digits:train=64,test=16",
                                  "engine=ref",
                                  NULL };
        fast_run *run = NULL;

        snprintf(text, sizeof text, "strategy=%s", bad[i]);
        if (fast_run_open(options, &run) != FAST_EINVAL)
            fail_msg("%s is not refused", bad[i]);
        assert_null(run);
    }
}

/* The formula, by hand: models 1, 2, 4 of one number, gradients of older ones. */
static void compensation_is_its_formula(void **state)
{
    const fast_compensation constant = { 0.5, 0 }, adaptive = { 0.5, 0.75 };
    const float w[4] = { 1, 2, 4, 8 };
    const float g = 3;
    fast_past past;
    float square = 0;

    (void)state;
    assert_int_equal(fast__past_init(&constant, 3, 1, &past), FAST_OK);
    assert_true(*fast__past_compensate(&past, &constant, 0, 0, 1, &g, &w[0]) == 3);
    assert_true(*fast__past_compensate(&past, &constant, 0, 1, 1, &g, &w[1]) == 3 + 0.5f * 9 * 1);
    assert_true(*fast__past_compensate(&past, &constant, 0, 2, 1, &g, &w[2]) == 3 + 0.5f * 9 * 3);
    /* Version 0 is no longer kept: the oldest is version 1. */
    assert_true(*fast__past_compensate(&past, &constant, 0, 3, 1, &g, &w[3]) == 3 + 0.5f * 9 * 6);
    assert_true(*fast__past_compensate(&past, &constant, 3, 3, 1, &g, &w[3]) == 3);
    fast__past_fini(&past);

    assert_int_equal(fast__past_init(&adaptive, 3, 1, &past), FAST_OK);
    for (int i = 0; i < 3; i++) {
        const float *out = fast__past_compensate(&past, &adaptive, 0, i, 1, &g, &w[i]);

        square = 0.75f * square + 0.25f * 9;
        assert_true(fabsf(*out - (3 + 0.5f / sqrtf(square) * 9 * (w[i] - 1))) < 1e-4f);
    }
    fast__past_fini(&past);
}

static void memory_may_run_out(void **state)
{
    const fast_compensation how = { 1, 0.5 };
    fast_err err = FAST_ENOMEM;

    (void)state;
    for (int64_t n = 0; err == FAST_ENOMEM; n++) {
        fast_past past = { .models = NULL };

        fast__alloc_fail_after(n, false);
        err = fast__past_init(&how, 4, 8, &past);
        fast__alloc_fail_after(-1, false);
        assert_true(n < 32 && (err == FAST_OK) == (past.models != NULL));
        fast__past_fini(&past);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_are_other_members),
        cmocka_unit_test(nothing_is_late_alone),
        cmocka_unit_test(options_matter),
        cmocka_unit_test(backup_workers_outrun_stragglers),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(compensation_is_its_formula),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
