/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: stages by measured profiles are those of the fastest partition of the measured times, which
 * the plan file repeats, and train the model that the whole one trains.
 *
 * Method: the lines of a plan file are replaced by times of the test's own, which name the cut that
 * must follow. Cuts that were measured are given by name; engine ref compares to the bit.
 */
#include "split_runs.h"

#include "base/hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define LIST(...) ((const char *const[]){ __VA_ARGS__, NULL })

static const char *const small[] = { "model=mlp:hidden=14x12x10x8",
                                     "data=digits:train=320,test=64",
                                     "engine=ref",
                                     "timeout=60",
                                     "batch=4",
                                     "accumulate=2",
                                     "steps=6",
                                     "evaluate=end",
                                     "lr=0.05",
                                     NULL };

static char path[] = "/tmp/fast_profile_XXXXXX", plan[64];

static int make_plan(void **state)
{
    (void)state;
    const int fd = mkstemp(path);
    snprintf(plan, sizeof plan, "plan=%s", path);
    return fd < 0 || close(fd);
}

static int remove_plan(void **state)
{
    (void)state;
    return remove(path);
}

/* Train; gives the cuts and the parameters' hash. */
static uint64_t train(const char *const *more, char cuts[64])
{
    fast_run *run = test_open_run(small, more);
    if (fast_run_train(run))
        fail_msg("%s", fast_error_detail());
    const uint64_t hash = fast_run_result(run)->params_hash;
    snprintf(cuts, 64, "%s", fast_run_option(run, "cuts"));
    fast_run_close(run);
    return hash;
}

static void profiles_repeat_and_train_the_model(void **state)
{
    char cuts[64], again[64], none[64], named[80];
    (void)state;
    const uint64_t whole = train(LIST("workers=1", plan), none);
    const uint64_t first = train(LIST("mesh=pipe=3", "cuts=measured", plan), cuts);
    const uint64_t second = train(LIST("mesh=pipe=3", "cuts=measured", plan), again);
    assert_string_equal(cuts, again);
    assert_non_null(strchr(cuts, ','));
    snprintf(named, sizeof named, "cuts=%s", cuts);
    const uint64_t third = train(LIST("mesh=pipe=3", named, plan), again);
    assert_string_equal(cuts, again);
    assert_true(first == whole && second == whole && third == whole);
}

/* Write the plan again with other times of its five pieces, which are in the order of the model:
 * <hash> <key>\t<choice>. */
static void replace_times(const double *seconds)
{
    char lines[16][1024];
    int count = 0, piece = 0;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (count < 16 && fgets(lines[count], sizeof lines[0], file))
        count++;
    fclose(file);
    file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < count; i++) {
        const char *key = strstr(lines[i], "piece 1 "), *tab = strchr(lines[i], '\t');
        char text[1024];
        if (!key || !tab)
            continue;
        snprintf(text, sizeof text, "%.*s\t%.9f s", (int)(tab - key), key, seconds[piece++]);
        fprintf(file, "%016llx %s\n", (unsigned long long)fast__hash(text, strlen(text), 0), text);
    }
    fclose(file);
    assert_int_equal(piece, 5);
}

static void times_decide_the_cuts(void **state)
{
    static const struct {
        double seconds[5];
        const char *cuts;
    } cases[] = {
        { { 1, 1, 1, 1, 4 }, "dense5" },
        { { 4, 1, 1, 1, 1 }, "dense2" },
        { { 1, 2, 3, 2, 2 }, "dense4" },
        { { 1, 2, 3, 3, 3 }, "dense4" },
    };
    char cuts[64];
    (void)state;
    (void)train(LIST("mesh=pipe=2", "cuts=measured", plan), cuts);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        replace_times(cases[i].seconds);
        (void)train(LIST("mesh=pipe=2", "cuts=measured", plan), cuts);
        assert_string_equal(cuts, cases[i].cuts);
    }
}

/* Pieces of a transformer, of a residual network and of a recurrent one can be timed. */
static void models_are_measured(void **state)
{
    static const char *const models[][2] = { { "model=resnet8:width=2", "data=digits:train=64" },
                                             { "model=gpt:width=8,heads=2,depth=2", "data=copy" },
                                             { "model=lenet", "data=digits:train=64" } };
    char cuts[64];
    (void)state;
    for (int m = 0; m < 3; m++) {
        (void)train(LIST(models[m][0], models[m][1], "steps=1", "evaluate=no", "mesh=pipe=2",
                         "cuts=measured", "plan=no", "engine=auto"),
                    cuts);
        assert_true(cuts[0] && strcmp(cuts, "measured") != 0);
    }
}

static void the_rest_is_refused(void **state)
{
    static const char *const bad[][3] = {
        { "mesh=pipe=2", "transport=sim", "transport=threads" },
        { "mesh=pipe=6", "transport=threads", "use fewer stages" },
        { "mesh=pipe=2", "model=dsn:modules=3", "heads" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *why = test_refusal(small, LIST(bad[i][0], bad[i][1], "cuts=measured", plan));
        if (!strstr(why, bad[i][2]))
            fail_msg("%s %s: %s", bad[i][0], bad[i][1], why);
    }
}

static void memory_can_run_out(void **state)
{
    (void)state;
    test_out_of_memory(small,
                       LIST("model=mlp:hidden=6x5", "data=digits:train=64,test=16", "steps=1",
                            "evaluate=no", "mesh=pipe=2", "cuts=measured", "plan=no"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(profiles_repeat_and_train_the_model),
        cmocka_unit_test(times_decide_the_cuts),
        cmocka_unit_test(models_are_measured),
        cmocka_unit_test(the_rest_is_refused),
        cmocka_unit_test(memory_can_run_out),
    };
    return cmocka_run_group_tests(tests, make_plan, remove_plan);
}
