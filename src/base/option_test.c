/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: options are parsed by their table, and a wrong one changes nothing and gets one sentence
 * that helps.
 * Method: every type with its limits and with malformed text; whole sentences compared; a locale
 * with a decimal comma where the machine has one.
 */
#include "base/option.h"

#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

typedef struct config {
    bool nesterov;
    int64_t batch_size;
    int64_t seed;
    int64_t anything;
    double beta1;
    double lr;
    char model[8];
    int loss;
} config;

static const fast_option table[] = {
    FAST_OPT_BOOL(config, nesterov, "no", "look ahead"),
    FAST_OPT_INT(config, batch_size, "64", 1, 65536, "samples a step"),
    FAST_OPT_INT(config, seed, "1", 0, 1e18, "of all randomness"),
    FAST_OPT_INT(config, anything, "-3", 0, 0, "any number"),
    FAST_OPT_REAL(config, beta1, "0.9", 0, 1, "decay of the mean"),
    FAST_OPT_REAL(config, lr, "1e-3", 0, 0, "learning rate"),
    FAST_OPT_TEXT(config, model, "lenet", "model", "what is trained"),
    FAST_OPT_CHOICE(config, loss, "mse", "softmax|mse|mae", "what is minimised"),
    FAST_OPT_END,
};

static config defaults(void)
{
    config c;
    memset(&c, 0, sizeof c);
    fast__options_default(table, &c);
    return c;
}

static void test_defaults(void **state)
{
    (void)state;
    const config c = defaults();
    assert_false(c.nesterov);
    assert_int_equal(c.batch_size, 64);
    assert_int_equal(c.anything, -3);
    assert_true(c.beta1 == 0.9);
    assert_true(c.lr == 1e-3);
    assert_string_equal(c.model, "lenet");
    assert_int_equal(c.loss, 1);
    fast__options_default(NULL, NULL);
}

static void test_values(void **state)
{
    (void)state;
    config c = defaults();
    static const char *const yes[] = { "yes", "true", "on", "1" };
    static const char *const no[] = { "no", "false", "off", "0" };
    for (int i = 0; i < 4; i++) {
        assert_int_equal(fast__options_set("x", table, &c, "nesterov", yes[i]), FAST_OK);
        assert_true(c.nesterov);
        assert_int_equal(fast__options_set("x", table, &c, "nesterov", no[i]), FAST_OK);
        assert_false(c.nesterov);
    }
    static const struct {
        const char *text;
        int64_t value;
    } whole[] = { { "0", 0 },
                  { "-7", -7 },
                  { "+7", 7 },
                  { "16Mi", 16777216 },
                  { "3Ki", 3072 },
                  { "-2Gi", -2147483648 },
                  { "60k", 60000 },
                  { "-2M", -2000000 },
                  { "3G", 3000000000 },
                  { "007", 7 },
                  { "9223372036854775807", INT64_MAX },
                  { "-9223372036854775808", INT64_MIN },
                  { "9223372036G", 9223372036000000000 } };
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        assert_int_equal(fast__options_set("x", table, &c, "anything", whole[i].text), FAST_OK);
        assert_true(c.anything == whole[i].value);
    }
    static const struct {
        const char *text;
        double value;
    } real[] = { { "0", 0 },     { "-1.5", -1.5 }, { ".5", 0.5 },
                 { "5.", 5 },    { "1e3", 1e3 },   { "+2E-2", 2e-2 },
                 { "0.1", 0.1 }, { "1e-400", 0 },  { "1e308", 1e308 } };
    for (size_t i = 0; i < sizeof real / sizeof *real; i++) {
        assert_int_equal(fast__options_set("x", table, &c, "lr", real[i].text), FAST_OK);
        assert_true(c.lr == real[i].value);
    }
    assert_int_equal(fast__options_set("x", table, &c, "model", "1234567"), FAST_OK);
    assert_int_equal(fast__options_set("x", table, &c, "model", ""), FAST_OK);
    assert_string_equal(c.model, "");
    assert_memory_equal(c.model, "\0\0\0\0\0\0\0", 8); /* nothing of the old value is left */
    assert_int_equal(fast__options_set("x", table, &c, "loss", "mae"), FAST_OK);
    assert_int_equal(c.loss, 2);
    /* A flag's spelling is the same option. */
    assert_int_equal(fast__options_set("x", table, &c, "batch-size", "32"), FAST_OK);
    assert_int_equal(c.batch_size, 32);
}

/* Nothing changes, and the sentence is this. */
static void refuse(const char *where, const char *name, const char *value, const char *sentence)
{
    config c = defaults();
    const config before = c;
    assert_int_equal(fast__options_set(where, table, &c, name, value), FAST_EINVAL);
    assert_memory_equal(&c, &before, sizeof c);
    if (sentence)
        assert_string_equal(fast_error_detail(), sentence);
}

static void test_sentences(void **state)
{
    (void)state;
    refuse("optimizer adam", "betta1", "1",
           "optimizer adam: no option \"betta1\"; did you mean \"beta1\"?");
    refuse("fast train", "btach_size", "1",
           "fast train: no option \"--btach-size\"; did you mean \"--batch-size\"?");
    refuse("fast train", "colour", "1", "fast train: no option \"--colour\"");
    refuse("fast train", "batch_size", "0",
           "fast train: --batch-size must be a whole number between 1 and 65536, not \"0\"");
    refuse("model mlp", "batch_size", "64x",
           "model mlp: batch_size must be a whole number between 1 and 65536, not \"64x\"");
    refuse("fast train", "seed", "-1",
           "fast train: --seed must be a whole number, at least 0, not \"-1\"");
    refuse("x", "anything", "1.5", "x: anything must be a whole number, not \"1.5\"");
    refuse("x", "lr", "fast", "x: lr must be a number, not \"fast\"");
    refuse("x", "nesterov", "maybe", "x: nesterov must be yes or no, not \"maybe\"");
    refuse("x", "model", "12345678", "x: model is longer than 7 bytes: \"12345678...\"");
    refuse("x", "loss", "rmse", "x: loss must be one of softmax, mse, mae, not \"rmse\"");
}

static void test_malformed(void **state)
{
    (void)state;
    static const char *const whole[] = { "",
                                         " 1",
                                         "1 ",
                                         "k",
                                         "1K",
                                         "1i",
                                         "1Kii",
                                         "1kk",
                                         "1K",
                                         "--1",
                                         "0x10",
                                         "1e3",
                                         "1,",
                                         "+",
                                         "1 k",
                                         "9223372036854775808",
                                         "99999999999999999999999",
                                         "9223372037G" };
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        refuse("x", "anything", whole[i], NULL);
    static const char *const real[] = { "",      "nan", "inf", "-inf",  "NAN(1)", "infinity",
                                        "0x1p3", "1,5", " 1",  "1 ",    ".",      "e5",
                                        "1e",    "1e+", "--1", "1e999", "-1e999", "1k" };
    for (size_t i = 0; i < sizeof real / sizeof *real; i++)
        refuse("x", "lr", real[i], NULL);
    static const char *const choice[] = { "", "m", "mse|mae", "|", "softmax|", "MSE" };
    for (size_t i = 0; i < sizeof choice / sizeof *choice; i++)
        refuse("x", "loss", choice[i], NULL);
    refuse("x", "", "1", NULL);
    char longest[3000];
    memset(longest, 'b', sizeof longest);
    longest[sizeof longest - 1] = 0;
    refuse("x", longest, longest, NULL);
    refuse("x", "lr", longest, NULL);
}

static void test_locale(void **state)
{
    (void)state;
    double value = 0;
    const char *comma = setlocale(LC_ALL, "de_DE.UTF-8");
    assert_int_equal(fast__parse_real("lr", "0.25", &value), FAST_OK);
    assert_true(value == 0.25);
    assert_int_equal(fast__parse_real("lr", "0,25", &value), FAST_EINVAL);
    assert_string_equal(fast_error_detail(), "lr must be a number, not \"0,25\"");
    if (comma)
        setlocale(LC_ALL, "C");
    int64_t whole = 0;
    assert_int_equal(fast__parse_int("count", "12k", &whole), FAST_OK);
    assert_int_equal(whole, 12000);
    assert_int_equal(fast__parse_int("count", "12q", &whole), FAST_EINVAL);
    assert_int_equal(whole, 12000);
}

static void test_pairs(void **state)
{
    (void)state;
    config c = defaults();
    assert_int_equal(fast__options_parse("x", table, &c, NULL), FAST_OK);
    assert_int_equal(fast__options_parse("x", table, &c, ""), FAST_OK);
    assert_int_equal(fast__options_parse("x", table, &c, "beta1=0.5,model=a=b,lr=2"), FAST_OK);
    assert_true(c.beta1 == 0.5 && c.lr == 2);
    assert_string_equal(c.model, "a=b");
    assert_int_equal(fast__options_parse("x", NULL, NULL, ""), FAST_OK);
    /* Values in quotes have commas and quotes inside; a quote inside a plain value is plain. */
    assert_int_equal(fast__options_parse("x", table, &c, "model=\"a,b=\"\"c\"\"\",lr=3"), FAST_OK);
    assert_string_equal(c.model, "a,b=\"c\"");
    assert_true(c.lr == 3);
    assert_int_equal(fast__options_parse("x", table, &c, "model=\"\",lr=2"), FAST_OK);
    assert_string_equal(c.model, "");
    assert_int_equal(fast__options_parse("x", table, &c, "model=a\"b"), FAST_OK);
    assert_string_equal(c.model, "a\"b");
    static const char *const open[] = { "model=\"", "model=\"a", "model=\"a\"\"", "model=\"a\"b",
                                        "model=\"a\"lr=2" };
    for (size_t i = 0; i < sizeof open / sizeof open[0]; i++)
        assert_int_equal(fast__options_parse("x", table, &c, open[i]), FAST_EINVAL);

    const config before = c;
    static const char *const wrong[] = { "beta1",      "=1",          "beta1=0.1,",  ",beta1=0.1",
                                         "lr=1,,lr=1", "lr=1,bta1=1", "lr=1,beta1=2" };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(fast__options_parse("x", table, &c, wrong[i]), FAST_EINVAL);
        assert_memory_equal(&c, &before, sizeof c); /* not even the right ones before it */
    }
    assert_int_equal(fast__options_parse("x", NULL, NULL, "a=1"), FAST_EINVAL);
    assert_string_equal(fast_error_detail(), "x: no option \"a\"");
    assert_int_equal(fast__options_parse("part p", table, &c, "lr"), FAST_EINVAL);
    assert_string_equal(fast_error_detail(), "part p: \"lr\" is not written key=value");
}

static void test_spec(void **state)
{
    (void)state;
    char name[8];
    const char *rest = "";
    assert_int_equal(fast__spec_split("adam", name, sizeof name, &rest), FAST_OK);
    assert_string_equal(name, "adam");
    assert_null(rest);
    assert_int_equal(fast__spec_split("csv:path=a:b", name, sizeof name, &rest), FAST_OK);
    assert_string_equal(name, "csv");
    assert_string_equal(rest, "path=a:b");
    assert_int_equal(fast__spec_split("a:", name, sizeof name, &rest), FAST_OK);
    assert_string_equal(rest, "");
    assert_int_equal(fast__spec_split("", name, sizeof name, &rest), FAST_EINVAL);
    assert_int_equal(fast__spec_split(":a=b", name, sizeof name, &rest), FAST_EINVAL);
    assert_int_equal(fast__spec_split("12345678", name, sizeof name, &rest), FAST_EINVAL);
    assert_int_equal(fast__spec_split("1234567", name, sizeof name, &rest), FAST_OK);
}

static const char *model_at(const void *ctx, int64_t i)
{
    return ((const char *const *)ctx)[i];
}

static void test_names(void **state)
{
    (void)state;
    static const char *const models[] = { "mlp", "lenet", "alexnet", "resnet8", "resnet20", "gpt" };
    const char *near = NULL;
    assert_int_equal(fast__name_find("resnet8", model_at, models, 6, &near), 3);
    assert_int_equal(fast__name_find("lennet", model_at, models, 6, &near), -1);
    assert_string_equal(near, "lenet");
    static const struct {
        const char *typed;
        const char *near;
    } cases[] = { { "LeNet", "lenet" },
                  { "mpl", "mlp" },
                  { "resnet", "resnet8" },
                  { "gtp", "gpt" },
                  { "alex", "alexnet" },
                  { "transformer", NULL },
                  { "gpt_medium", "gpt" },
                  { "gpt-2", "gpt" },
                  { "gpt2_", "gpt" },
                  { "", NULL },
                  { "x", NULL } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        near = "untouched";
        assert_int_equal(fast__name_find(cases[i].typed, model_at, models, 6, &near), -1);
        if (cases[i].near)
            assert_string_equal(near, cases[i].near);
        else
            assert_null(near);
    }
    assert_int_equal(fast__name_find("a", model_at, models, 0, NULL), -1);

    assert_int_equal(fast__name_unknown("model", "lennet", model_at, models, 6), FAST_EINVAL);
    assert_string_equal(fast_error_detail(),
                        "no model \"lennet\"; did you mean \"lenet\"? (mlp, lenet, alexnet, "
                        "resnet8, resnet20, gpt)");
    assert_int_equal(fast__name_unknown("model", "quux", model_at, models, 6), FAST_EINVAL);
    assert_string_equal(fast_error_detail(), "no model \"quux\"; there are: mlp, lenet, alexnet, "
                                             "resnet8, resnet20, gpt");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),  cmocka_unit_test(test_values),
        cmocka_unit_test(test_sentences), cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_locale),    cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_spec),      cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
