/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the words of a user expand to the lines, the job and the trials that docs/compare.md
 * promises, and nonsense is refused before anything runs.
 * Method: texts and what they stand for, side by side; memory that fails at every allocation.
 */
#include "base/memory.h"
#include "lab/compare.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const fast_option text = { .name = "codec", .type = FAST_OPTION_TEXT, .choices = "codec" };
static const fast_option whole = { .name = "faults", .type = FAST_OPTION_TEXT };

static void expect_values(const fast_option *option, const char *words, const char *expected)
{
    fast_words values = { 0 };
    char joined[1024] = "";

    assert_int_equal(fast__sweep_values(option, words, &values), FAST_OK);
    for (int64_t i = 0; i < values.count; i++) {
        const size_t used = strlen(joined);
        snprintf(joined + used, sizeof joined - used, "%s%s", i ? " " : "", values.items[i]);
    }
    assert_string_equal(joined, expected);
    assert_null(values.items[values.count]);
    fast__words_fini(&values);
}

static void lists_and_ranges(void **state)
{
    (void)state;
    expect_values(&text, "bsp", "bsp");
    expect_values(&text, "bsp,ssp", "bsp ssp");
    expect_values(&text, "none,topk:ratio=0.1,small=64,int8", "none topk:ratio=0.1,small=64 int8");
    expect_values(&text, "topk:ratio=0.01+zstd,sign", "topk:ratio=0.01+zstd sign");
    expect_values(&text, "0..3", "0 1 2 3");
    expect_values(&text, "1..9+2", "1 3 5 7 9");
    expect_values(&text, "1..8+2", "1 3 5 7");
    expect_values(&text, "2..16x2", "2 4 8 16");
    expect_values(&text, "2..17x2", "2 4 8 16");
    expect_values(&text, "0.025..0.4x2", "0.025 0.05 0.1 0.2 0.4");
    expect_values(&text, "1e-3..1e-1x10", "0.001 0.01 0.1");
    expect_values(&text, "0.1..0.5+0.1", "0.1 0.2 0.3 0.4 0.5");
    expect_values(&text, "-1..1", "-1 0 1");
    expect_values(&text, "5..5", "5");
    expect_values(&text, "ps:slack=0..2", "ps:slack=0 ps:slack=1 ps:slack=2");
    expect_values(&text, "ps:slack=0..1,servers=1..2",
                  "ps:slack=0,servers=1 ps:slack=0,servers=2 ps:slack=1,servers=1 "
                  "ps:slack=1,servers=2");
    expect_values(&text, "topk:ratio=0.01..0.1x10+zstd",
                  "topk:ratio=0.01+zstd topk:ratio=0.1+zstd");
    expect_values(&text, "1,2..3,9", "1 2 3 9");
    /* Not ranges, not lists. */
    expect_values(&text, "file:../net.txt", "file:../net.txt");
    expect_values(&text, "a1..3", "a1..3");
    expect_values(&text, "1..x2", "1..x2");
    expect_values(&text, "", "");
    expect_values(&whole, "partition 0,1|2,3 at 1ms", "partition 0,1|2,3 at 1ms");
}

static void nonsense(void **state)
{
    (void)state;
    static const char *const words[] = { "a,,b",   ",a",     "a,",     "3..1",
                                         "1..4x1", "0..4x2", "1..9+0", "1..1000000" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        fast_words values = { 0 };
        assert_int_equal(fast__sweep_values(&text, words[i], &values), FAST_EINVAL);
        fast__words_fini(&values);
    }
}

static void open_sweep(fast_sweep *sweep, const char *const *options, const char *const *tune)
{
    assert_int_equal(
        fast__sweep_open(&(fast_compare_config){ .options = options, .tune = tune }, sweep),
        FAST_OK);
}

/* All combinations, the first axis slowest; one value is the job's. */
static void combinations(void **state)
{
    (void)state;
    const char *const options[] = { "system=bsp,ssp", "workers=2..8x2", "data=digits",
                                    "cluster=wan", NULL };
    static const char *const names[] = { "bsp, workers 2", "bsp, workers 4", "bsp, workers 8",
                                         "ssp, workers 2", "ssp, workers 4", "ssp, workers 8" };
    fast_sweep sweep;

    open_sweep(&sweep, options, NULL);
    assert_int_equal(sweep.line_count, 6);
    for (int64_t i = 0; i < 6; i++)
        assert_string_equal(sweep.lines[i].name, names[i]);
    assert_string_equal(sweep.lines[5].options.items[0], "system=ssp");
    assert_string_equal(sweep.lines[5].options.items[1], "workers=8");
    assert_string_equal(fast__words_value(&sweep.job, "data"), "digits");
    assert_string_equal(fast__words_value(&sweep.job, "transport"), "sim"); /* a cluster is */
    assert_null(fast__words_value(&sweep.job, "target")); /* not the standard job */
    assert_int_equal(sweep.space.count, 0);
    fast__sweep_close(&sweep);
}

/* Systems and strategies are one axis, also where --system names a strategy; an option that is
 * given again is an axis; phases (then) are not. */
static void ways(void **state)
{
    (void)state;
    const char *const options[] = { "system=bsp,gossip",     "strategy=ps:slack=3,servers=2,local",
                                    "data=digits",           "phases=local@epoch=2",
                                    "phases=gossip@epoch=3", NULL };
    const char *const faults[] = { "data=digits", "system=ssp", "faults=crash 1 at 1s",
                                   "faults=slow 2 at 0s by 3", NULL };
    fast_sweep sweep;

    open_sweep(&sweep, options, NULL);
    assert_int_equal(sweep.line_count, 4);
    assert_string_equal(sweep.lines[0].options.items[0], "system=bsp");
    assert_string_equal(sweep.lines[1].options.items[0], "strategy=gossip");
    assert_string_equal(sweep.lines[2].options.items[0], "strategy=ps:slack=3,servers=2");
    assert_string_equal(sweep.lines[3].name, "local");
    int phases = 0;
    for (int64_t i = 0; i < sweep.job.count; i++)
        phases += strncmp(sweep.job.items[i], "phases=", 7) == 0;
    assert_int_equal(phases, 2);
    fast__sweep_close(&sweep);

    open_sweep(&sweep, faults, NULL);
    assert_int_equal(sweep.line_count, 2);
    assert_string_equal(sweep.lines[1].name, "faults slow 2 at 0s by 3");
    fast__sweep_close(&sweep);
}

/* Nothing given: eight systems, a small job, trials; what is given wins. */
static void standards(void **state)
{
    (void)state;
    const char *const none[] = { NULL };
    const char *const some[] = { "codec=none,int8", "workers=2", "lr=0.1", NULL };
    const char *const no[] = { "no", NULL };
    fast_sweep sweep;

    open_sweep(&sweep, none, NULL);
    assert_int_equal(sweep.line_count, 8);
    assert_int_equal(fast__search_space_count(&sweep.space), 7);
    assert_string_equal(sweep.space.options[0].values.items[0], "lr=0.0125");
    assert_string_equal(fast__words_value(&sweep.job, "transport"), "sim");
    assert_non_null(fast__words_value(&sweep.job, "target"));
    fast__sweep_close(&sweep);
    open_sweep(&sweep, none, no);
    assert_int_equal(sweep.space.count, 0);
    fast__sweep_close(&sweep);
    open_sweep(&sweep, some, NULL);
    assert_int_equal(sweep.line_count, 2);
    assert_string_equal(sweep.lines[0].name, "no codec");
    assert_string_equal(fast__words_value(&sweep.job, "workers"), "2");
    assert_int_equal(sweep.space.count, 0); /* the rate is given */
    fast__sweep_close(&sweep);
}

static void trials(void **state)
{
    (void)state;
    const char *const options[] = { "system=ssp", "data=digits", NULL };
    const char *const tune[] = { "lr=0.1,0.2,0.4", "batch=8,16", NULL };
    fast_sweep sweep;

    open_sweep(&sweep, options, tune);
    assert_int_equal(sweep.line_count, 1);
    assert_string_equal(sweep.lines[0].name, "ssp");
    assert_int_equal(fast__search_space_count(&sweep.space), 6);
    static const struct {
        int64_t i;
        const char *lr, *batch;
    } cases[] = { { 5, "lr=0.4", "batch=16" }, { 2, "lr=0.2", "batch=8" } };
    for (size_t i = 0; i < 2; i++) {
        fast_words words = { 0 };
        double at[FAST_SEARCH_OPTIONS_MAX];

        fast__search_space_at(&sweep.space, cases[i].i, at);
        assert_int_equal(fast__search_space_words(&sweep.space, at, &words), FAST_OK);
        assert_string_equal(words.items[0], cases[i].lr);
        assert_string_equal(words.items[1], cases[i].batch);
        fast__words_fini(&words);
    }
    fast__sweep_close(&sweep);
}

/* Ranges that are searched at any of their numbers. */
static void ranges_to_search(void **state)
{
    (void)state;
    const char *const options[] = { "data=digits", NULL };
    const char *const tune[] = { "lr=0.001..1:log", "batch=4..64:linear", "system=bsp,ssp", NULL };
    const char *const twice[] = { "lr=0.1,0.2", "lr=0.4", NULL };
    fast_sweep sweep;

    assert_int_equal(
        fast__sweep_open(
            &(fast_compare_config){ .options = options, .tune = tune, .trials_only = true },
            &sweep),
        FAST_OK);
    assert_int_equal(sweep.line_count, 1); /* a search has no standard systems */
    assert_int_equal(sweep.space.count, 3);
    assert_int_equal(fast__search_space_count(&sweep.space), 0);
    assert_true(sweep.space.options[0].log && !sweep.space.options[0].whole);
    assert_true(sweep.space.options[0].low == 0.001 && sweep.space.options[0].high == 1);
    assert_true(!sweep.space.options[1].log && sweep.space.options[1].whole);
    assert_true(sweep.space.options[0].numbers && !sweep.space.options[2].numbers);
    fast__sweep_close(&sweep);
    assert_int_equal(
        fast__sweep_open(&(fast_compare_config){ .options = options, .tune = twice }, &sweep),
        FAST_EINVAL);
}

static void refused(void **state)
{
    (void)state;
    static const char *const options[][3] = {
        { "sistem=bsp", NULL },     { "system=bps", NULL },      { "strategy=gossipp", NULL },
        { "workers=0", NULL },      { "workers=2,four", NULL },  { "save=a.safetensors", NULL },
        { "log=x", NULL },          { "system", NULL },          { "lr=1..300", "epochs=1..300" },
        { "system=bsp,bsp", NULL }, { "workers=2", "workers=2" }
    };
    static const char *const tunes[][2] = { { "lr", NULL },
                                            { "rate=3", NULL },
                                            { "seed=1,2", NULL },
                                            { "checkpoint-every=1,2", NULL },
                                            { "batch-of=a,b", NULL },
                                            { "tensorboard=a,b", NULL },
                                            { "epochs=1,2", NULL },
                                            { "lr=", NULL },
                                            { "lr=1..0.1:log", NULL },
                                            { "lr=0..1:log", NULL },
                                            { "lr=1..1:log", NULL },
                                            { "lr=-1..1:log", NULL },
                                            { "lr=..:log", NULL },
                                            { "lr=:log", NULL },
                                            { "lr=:linear", NULL },
                                            { "lr=0.1..1x2:log", NULL },
                                            { "lr=0.1..1+2:linear", NULL },
                                            { "lr=0.1:log", NULL },
                                            { "lr=x0.1..1:log", NULL },
                                            { "lr=0.1..inf:log", NULL },
                                            { "lr=0.1..1e999:log", NULL },
                                            { "lr=0.1..1:log,2", NULL },
                                            { "batch=0..4:linear", NULL } };
    const char *const given[] = { "data=digits", "epochs=3", NULL };
    fast_sweep sweep;

    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        assert_int_equal(fast__sweep_open(&(fast_compare_config){ .options = options[i] }, &sweep),
                         FAST_EINVAL);
    for (size_t i = 0; i < sizeof tunes / sizeof *tunes; i++)
        assert_int_equal(
            fast__sweep_open(&(fast_compare_config){ .options = given, .tune = tunes[i] }, &sweep),
            FAST_EINVAL);
}

/* Every allocation may fail; nothing is left then. */
static void no_memory(void **state)
{
    (void)state;
    const char *const options[] = { "system=bsp,ssp", "workers=2..4x2", NULL };
    fast_compare *compare = NULL;
    fast_err err = FAST_ENOMEM;

    for (int64_t n = 0; err == FAST_ENOMEM; n++) {
        fast__alloc_fail_after(n, true);
        err = fast_compare_open(&(fast_compare_config){ .options = options }, &compare);
        fast__alloc_fail_after(-1, true);
        assert_true(err == FAST_OK || err == FAST_ENOMEM);
    }
    fast_compare_close(compare);
    fast_compare_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_and_ranges), cmocka_unit_test(nonsense),
        cmocka_unit_test(combinations),     cmocka_unit_test(ways),
        cmocka_unit_test(standards),        cmocka_unit_test(trials),
        cmocka_unit_test(ranges_to_search), cmocka_unit_test(refused),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
