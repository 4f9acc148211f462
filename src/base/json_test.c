/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: JSON looks as users know it, whatever goes into it, and quoted words come back from a
 * shell. Method: trees with every kind of value, texts that are not UTF-8, memory that fails;
 * texts that must not be read; a table of words.
 */
#include "base/json.h"
#include "base/memory.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static json_t *sample(void)
{
    json_t *list = json_array(), *o = json_object();

    fast__json_append(&list, fast__json_real(NAN));
    fast__json_append(&list, fast__json_real(15));
    fast__json_append(&list, fast__json_real(-INFINITY));
    fast__json_set(&o, "z", fast__json_real(1.0 / 3));
    fast__json_set(&o, "a", json_integer(INT64_MAX));
    fast__json_set(&o, "list", list);
    fast__json_set(&o, "exact", fast__json_exact(1763277432.125));
    fast__json_set(&o, "small", fast__json_real(1.5e-7));
    fast__json_set(&o, "none", fast__json_text(NULL));
    fast__json_set(&o, "hash", fast__json_hash(255));
    fast__json_set(&o, "bytes", fast__json_text("\"caf\xe9 \xc3\xa9\n"));
    return o;
}

static const char expected[] =
    "{\"z\": 0.333333333, \"a\": 9223372036854775807, \"list\": [null, 15, null], "
    "\"exact\": 1763277432.125, \"small\": 1.5e-7, \"none\": null, "
    "\"hash\": \"00000000000000ff\", \"bytes\": \"\\\"caf\xef\xbf\xbd \xc3\xa9\\n\"}";

static void test_print(void **state)
{
    json_t *o = sample();
    char *text = NULL;

    (void)state;
    assert_int_equal(fast__json_print(&o, &text), FAST_OK);
    assert_null(o);
    assert_string_equal(text, expected);
    fast__free(text);
}

/* Two allocations are of this library: the replaced text and the printed one. */
static void test_out_of_memory(void **state)
{
    (void)state;
    for (int64_t n = 0;; n++) {
        char *text = NULL;

        fast__alloc_fail_after(n, true);
        json_t *o = sample();
        const fast_err err = fast__json_print(&o, &text);
        fast__alloc_fail_after(-1, true);
        assert_null(o);
        if (!err) {
            assert_int_equal(n, 2);
            fast__free(text);
            return;
        }
        assert_int_equal(err, FAST_ENOMEM);
        assert_null(text);
    }
}

static void test_read(void **state)
{
    static const char *const wrong[] = {
        "",  "{", "{} x", "[1,]", "NaN", "\xff", "\"\\u0000\"", "\"\xc0\xaf\"", "{\"a\":1,\"a\":2}",
        "01"
    };
    char deep[8192];
    json_t *o = NULL;
    size_t used = 0;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(fast__json_read("it", wrong[i], strlen(wrong[i]), &o), FAST_EFORMAT);
        assert_memory_equal(fast_error_detail(), "it: ", 4);
        assert_null(o);
    }
    memset(deep, '[', sizeof deep);
    assert_int_equal(fast__json_read("it", deep, sizeof deep, &o), FAST_EFORMAT);
    assert_int_equal(fast__json_read("it", NULL, 0, &o), FAST_EFORMAT);
    assert_int_equal(fast__json_read_first("it", "{\"a\": 2.5} rest", 15, &used, &o), FAST_OK);
    assert_int_equal(used, 10);
    assert_true(fast__json_number(o, "a") == 2.5);
    assert_true(isnan(fast__json_number(o, "b")));
    assert_true(isnan(fast__json_number(NULL, "b")));
    json_decref(o);
}

static void test_quote(void **state)
{
    static const char *const words[][2] = {
        { "--lr=0.1", "--lr=0.1" }, { "", "''" },           { "a b", "'a b'" },
        { "it's", "'it'\\''s'" },   { "$(rm)", "'$(rm)'" }, { "caf\xc3\xa9", "'caf\xc3\xa9'" },
    };
    char text[64];

    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        assert_int_equal(fast_text_quote(words[i][0], text, sizeof text), strlen(words[i][1]));
        assert_string_equal(text, words[i][1]);
    }
    assert_int_equal(fast_text_quote("a b", NULL, 0), 5);
    assert_int_equal(fast_text_quote("a b", text, 3), 5);
    assert_string_equal(text, "'a");
}

static void test_utf8(void **state)
{
    char text[8];

    (void)state;
    assert_int_equal(fast_text_utf8("a\xff", text, sizeof text), 4);
    assert_string_equal(text, "a\xef\xbf\xbd");
    assert_int_equal(fast_text_utf8("\xc3\xa9\xc3\xa9", text, 4), 4); /* cut between characters */
    assert_string_equal(text, "\xc3\xa9");
    assert_int_equal(fast_text_utf8("\xed\xa0\x80", NULL, 0), 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_print), cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_read),  cmocka_unit_test(test_quote),
        cmocka_unit_test(test_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
