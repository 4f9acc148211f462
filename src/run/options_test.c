/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of a run. Goal: every default parses, texts are canonical (equal values give equal
 * text, and the text parses to the value), and what two options get wrong together is refused.
 * Method: tables of texts.
 */
#include "run/run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static fast_run_config config; /* large: not on the stack */

static fast_err parse(const char *a, const char *b)
{
    const char *const options[] = { a, a ? b : NULL, NULL };
    return fast__config_parse(options, &config);
}

static const fast_option *row(const char *name)
{
    const fast_option *option = fast__options_find(fast__run_options, name);
    assert_non_null(option);
    return option;
}

static void defaults_parse_and_read_back(void **state)
{
    (void)state;
    assert_int_equal(parse(NULL, NULL), FAST_OK);
    for (const fast_option *o = fast__run_options; o->name; o++) {
        char text[FAST_PATH_MAX];
        fast__config_text(o, &config, text, sizeof text);
        assert_string_equal(text, o->standard);
        assert_true(strlen(o->help) > 0 && o->help[strlen(o->help) - 1] != '.');
    }
    assert_int_equal(fast__config_parse(NULL, &config), FAST_OK);
}

static void texts_are_canonical(void **state)
{
    (void)state;
    static const char *const same[][3] = { { "lr", "0.1", "0.1" },
                                           { "lr", "0.10", "0.1" },
                                           { "lr", "1e-1", "0.1" },
                                           { "batch", "1k", "1000" },
                                           { "seed", "007", "7" },
                                           { "shard", "label", "label" },
                                           { "target", "0.9", "0.9" },
                                           { "model", "mlp", "mlp" },
                                           { "lr", "0.05000000000000001", "0.05000000000000001" },
                                           { "lr", "1e-07", "1e-07" } };
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        char option[64];
        char text[FAST_PATH_MAX];
        snprintf(option, sizeof option, "%s=%s", same[i][0], same[i][1]);
        assert_int_equal(parse(option, NULL), FAST_OK);
        fast__config_text(row(same[i][0]), &config, text, sizeof text);
        assert_string_equal(text, same[i][2]);
    }
}

static void periods(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        fast_period period;
    } good[] = { { "evaluate=no", { FAST_PERIOD_NEVER, 0 } },
                 { "evaluate=0", { FAST_PERIOD_NEVER, 0 } },
                 { "evaluate=end", { FAST_PERIOD_END, 0 } },
                 { "evaluate=1", { FAST_PERIOD_EPOCHS, 1 } },
                 { "evaluate=12epochs", { FAST_PERIOD_EPOCHS, 12 } },
                 { "evaluate=1epoch", { FAST_PERIOD_EPOCHS, 1 } },
                 { "evaluate=500steps", { FAST_PERIOD_STEPS, 500 } },
                 { "evaluate=1step", { FAST_PERIOD_STEPS, 1 } } };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(parse(good[i].text, NULL), FAST_OK);
        assert_int_equal(config.evaluate_period.unit, good[i].period.unit);
        assert_int_equal(config.evaluate_period.count, good[i].period.count);
    }
    static const char *const bad[] = { "evaluate=",         "evaluate=-1",
                                       "evaluate=1.5",      "evaluate=0steps",
                                       "evaluate=steps",    "evaluate=1 epochs",
                                       "evaluate=1minutes", "evaluate=no1",
                                       "evaluate=end5",     "evaluate=9999999999999999" };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (parse(bad[i], NULL) != FAST_EINVAL)
            fail_msg("%s", bad[i]);
}

static void together(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        { "target=0.5", "evaluate=no" }, { "load=a", "resume=b" }, { "save=a", "checkpoint=a" },
        { "checkpoint=a", "log=a" },     { "log=a", "save=a" },    { "save=a", "resume=a" },
        { "prefetch=2000", NULL },       { "prefetch=some", NULL }
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(parse(bad[i][0], bad[i][1]), FAST_EINVAL);
    assert_int_equal(parse("checkpoint=a", "resume=a"), FAST_OK);
    assert_int_equal(parse("load=a", "save=a"), FAST_OK);
    assert_int_equal(parse("global_batch=96", "batch=7"), FAST_OK);
    assert_int_equal(config.batch, 96);
    assert_int_equal(parse("augment=flip", NULL), FAST_OK);
    assert_int_equal(config.prefetch_count, 2);
    assert_int_equal(parse("augment=flip", "prefetch=0"), FAST_OK);
    assert_int_equal(config.prefetch_count, 0);
    assert_int_equal(parse("prefetch=4", NULL), FAST_OK);
    assert_int_equal(config.prefetch_count, 4);
}

static void malformed(void **state)
{
    (void)state;
    char text[200];
    memset(text, 'x', sizeof text);
    text[150] = '=';
    text[199] = '\0';
    assert_int_equal(parse(text, NULL), FAST_EINVAL);
    assert_int_equal(parse("=1", NULL), FAST_EINVAL);
    assert_int_equal(parse("", NULL), FAST_EINVAL);
    assert_int_equal(parse("model", NULL), FAST_EINVAL);
    char *path = malloc(10000);
    assert_non_null(path);
    memset(path, 'p', 10000);
    memcpy(path, "save=", 5);
    path[9999] = '\0';
    assert_int_equal(parse(path, NULL), FAST_EINVAL);
    free(path);
}

/* Count the lines that name the old option. */
static void count_notes(void *ctx, fast_log_level level, const char *line)
{
    int *count = ctx;
    *count += level == FAST_LOG_WARN && strstr(line, "then is called phases") != NULL;
}

/* The former name sets the option, also when it is repeated, and is noted once. */
static void former_names(void **state)
{
    (void)state;
    int notes = 0;
    fast_log_set(count_notes, &notes);
    assert_int_equal(parse("then=local@epoch=2", "then=gossip@epoch=4"), FAST_OK);
    assert_string_equal(config.phases, "local@epoch=2;gossip@epoch=4");
    assert_int_equal(notes, 1);
    assert_int_equal(parse("phases=local@epoch=2", "phases="), FAST_OK);
    assert_string_equal(config.phases, "");
    assert_int_equal(notes, 1);
    fast_log_set(NULL, NULL);
}

/* Options of ps that became codecs: the spec and the chain that they mean. */
static void moved_options_are_codecs(void **state)
{
    static const char *const cases[][4] = {
        { "strategy=ps:filter=0.1", "codec=none", "ps", "significance:threshold=0.1" },
        { "strategy=ps:slack=2,skip=0.5", "codec=topk", "ps:slack=2", "skip:probability=0.5+topk" },
        { "strategy=ps:budget=400,filter=1,slack=3", "codec=none+lz4", "ps:slack=3",
          "significance:threshold=1+budget:bytes=400+lz4" },
        { "strategy=ps:l1=0.02,kkt=yes,cache=yes", "codec=none", "ps:l1=0.02,cache=yes",
          "kkt:l1=0.02" },
        { "strategy=ps:kkt=yes,slack=1,l1=0.5", "codec=none", "ps:slack=1,l1=0.5", "kkt:l1=0.5" },
        { "strategy=ps:slack=1", "codec=none+lz4", "ps:slack=1", "none+lz4" },
        { "strategy=ps:filter=0,skip=0.0,kkt=no", "codec=none", "ps", "none" },
        { "strategy=ps:filter=0.1", "system=gaia-asp",
          "ps:proxies=2,mirror=yes,slack=1,barrier=100000", "significance:threshold=0.1" },
        { "strategy=ps:kkt=no", "system=kkt-filter", "ps:servers=2,slack=8,l1=0.0001,cache=yes",
          "none" },
        { "strategy=gossip:drop=0.1", "codec=skip", "gossip:drop=0.1", "skip" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(parse(cases[i][0], cases[i][1]), FAST_OK);
        assert_string_equal(config.strategy, cases[i][2]);
        assert_string_equal(config.codec, cases[i][3]);
    }
    assert_int_equal(parse("strategy=ps:kkt=yes", NULL), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "needs l1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moved_options_are_codecs),
        cmocka_unit_test(defaults_parse_and_read_back),
        cmocka_unit_test(texts_are_canonical),
        cmocka_unit_test(periods),
        cmocka_unit_test(together),
        cmocka_unit_test(malformed),
        cmocka_unit_test(former_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
