/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exclusions. Goal: every kind of term and of row refuses what it says, names both options with
 * their values, and lets everything else pass. Method: a small part with one option of each type.
 */
#include "base/exclusion.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

typedef struct part_config {
    bool eager;
    int64_t slack;
    double warm;
    char codec[16];
    int send;
} part_config;

static const fast_option options[] = {
    FAST_OPT_BOOL(part_config, eager, "no", "eager"),
    FAST_OPT_INT(part_config, slack, "-1", -1, 100, "slack"),
    FAST_OPT_REAL(part_config, warm, "0", 0, 10, "warm"),
    FAST_OPT_TEXT(part_config, codec, "none", NULL, "codec"),
    FAST_OPT_CHOICE(part_config, send, "gradients", "gradients|differences|mean", "send"),
    FAST_OPT_END,
};

static const fast_exclusion rows[] = {
    { "warm", "slack!=-1|send=mean", NULL, "one worker goes ahead" },
    { "eager", NULL, "slack|codec", "values are as old as the slack" },
    { "slack=0&send", "codec", NULL, "a round is whole" },
    { NULL, NULL, NULL, NULL },
};

static fast_err check(const char *text)
{
    part_config config;

    memset(&config, 0, sizeof config);
    fast__options_default(options, &config);
    assert_int_equal(fast__options_parse("part", options, &config, text), FAST_OK);
    return fast__exclusions_check("part", options, rows, &config);
}

static void refuses(const char *text, const char *detail)
{
    assert_int_equal(check(text), FAST_EINVAL);
    assert_string_equal(fast_error_detail(), detail);
}

static void rows_refuse_and_say_why(void **state)
{
    (void)state;
    refuses("warm=2.5,slack=1", "part: warm=2.5 does not go with slack=1: one worker goes ahead; "
                                "leave out one of them");
    refuses("warm=1,send=mean", "part: warm=1 does not go with send=mean: one worker goes ahead; "
                                "leave out one of them");
    refuses("eager=yes", "part: eager=yes needs slack or codec: values are as old as the slack");
    refuses("slack=0,send=differences,codec=fp16",
            "part: slack=0 does not go with codec=fp16: a round is whole; leave out one of them");
}

static void the_rest_passes(void **state)
{
    static const char *const good[] = { "",
                                        "warm=1",
                                        "warm=1,send=differences",
                                        "eager=yes,slack=0",
                                        "eager=yes,codec=fp16",
                                        "slack=0,codec=fp16",
                                        "send=mean,codec=fp16",
                                        "slack=1,send=mean,codec=fp16" };

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        if (check(good[i]))
            fail_msg("%s: %s", good[i], fast_error_detail());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_refuse_and_say_why),
        cmocka_unit_test(the_rest_passes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
