/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: what is saved is read back, what others save is read, and hostile files get an error.
 * Method: a round trip with every type and odd names; headers written by hand, valid and wrong in
 * one thing each; every prefix of a valid file; memory that fails; and, where python is installed,
 * a file that a few lines of python check and another that they write.
 */
#include "base/file.h"
#include "base/memory.h"
#include "tensor/safetensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];

static const char *inside(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "%s/fast_tensors_XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    return mkdtemp(folder) ? 0 : 1;
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

/* A file in memory: the header's length, the header, `data_size` bytes that count up. */
static size_t build(unsigned char *bytes, const char *header, size_t data_size)
{
    const uint64_t length = strlen(header);
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, header, length);
    for (size_t i = 0; i < data_size; i++)
        bytes[8 + length + i] = (unsigned char)i;
    return 8 + length + data_size;
}

/* Parse a copy of just that size, so that a sanitizer sees a step too far. */
static fast_err parse(const unsigned char *bytes, size_t size, fast_tensors **out, void **copy)
{
    void *exact = malloc(size ? size : 1);
    assert_non_null(exact);
    memcpy(exact, bytes, size);
    *copy = exact;
    return fast__tensors_parse(exact, size, out);
}

static const char *const TWO = "{\"__metadata__\":{\"format\":\"pt\"},"
                               "\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[4,28]},"
                               "\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}  ";

static void test_read(void **state)
{
    (void)state;
    unsigned char bytes[512];
    void *copy;
    fast_tensors *t = NULL;
    assert_int_equal(parse(bytes, build(bytes, TWO, 28), &t, &copy), FAST_OK);
    assert_int_equal(fast__tensors_count(t), 2);
    assert_string_equal(fast__tensors_at(t, 0)->name, "a"); /* the order of the bytes */
    const fast_tensor *b = fast__tensors_find(t, "b");
    assert_ptr_equal(b, fast__tensors_at(t, 1));
    assert_int_equal(b->dtype, FAST_F32);
    assert_int_equal(b->rank, 2);
    assert_int_equal(b->shape[1], 3);
    assert_int_equal(b->count, 6);
    assert_int_equal(*(const unsigned char *)b->data, 4);
    assert_null(fast__tensors_find(t, "c"));
    assert_string_equal(fast__tensors_meta(t, "format"), "pt");
    assert_null(fast__tensors_meta(t, "model"));
    fast__tensors_close(t);
    free(copy);
    fast__tensors_close(NULL);
}

static void test_escapes(void **state)
{
    (void)state;
    unsigned char bytes[512];
    void *copy;
    fast_tensors *t = NULL;
    const size_t size = build(bytes,
                              "{ \"__metadata__\" : { \"a\\n\\u00e9\\ud83d\\ude00\" : "
                              "\"\\\"\\\\\\/\\b\\f\\r\\t\\u001f\\u20AC\" }\r\n,\t"
                              "\"gr\xc3\xbc\xc3\x9f\" : { \"shape\" : [ ] , \"data_offsets\" : [ 0 "
                              ", 1 ] , \"dtype\" : \"I8\" } }",
                              1);
    assert_int_equal(parse(bytes, size, &t, &copy), FAST_OK);
    assert_string_equal(fast__tensors_meta(t, "a\n\xc3\xa9\xf0\x9f\x98\x80"),
                        "\"\\/\b\f\r\t\x1f\xe2\x82\xac");
    assert_int_equal(fast__tensors_find(t, "gr\xc3\xbc\xc3\x9f")->rank, 0);
    fast__tensors_close(t);
    free(copy);
}

#define T "\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]"

/* Each header is wrong in one thing; the data has 4 bytes. */
static const char *const wrong_headers[] = {
    "",
    "{",
    "[]",
    " {}",
    "{}x",
    "{}\n",
    "null",
    "{\"a\"}",
    "{\"a\":1}",
    "{\"a\":{}}",
    "{,}",
    "{\"a\":{" T "},}",
    "{\"a\":{" T ",}}",
    "{\"a\":{" T "}",
    "{\"a\":{" T "}} {",
    "{a:{" T "}}",
    /* keys */
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[4]}}",
    "{\"a\":{" T ",\"more\":1}}",
    "{\"a\":{" T ",\"dtype\":\"U8\"}}",
    "{\"a\":{" T ",\"shape\":[4]}}",
    "{\"a\":{" T ",\"data_offsets\":[0,4]}}",
    "{\"a\":{" T ",\"a name that is longer than any of the format\":1}}",
    /* types and numbers */
    "{\"a\":{\"dtype\":\"BOOL\",\"shape\":[4],\"data_offsets\":[0,4]}}",
    "{\"a\":{\"dtype\":8,\"shape\":[4],\"data_offsets\":[0,4]}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":4,\"data_offsets\":[0,4]}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[-4],\"data_offsets\":[0,4]}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[4.0],\"data_offsets\":[0,4]}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[04],\"data_offsets\":[0,4]}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[4e0],\"data_offsets\":[0,4]}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[[4]],\"data_offsets\":[0,4]}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[4,],\"data_offsets\":[0,4]}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,4],\"data_offsets\":[0,4]}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[18446744073709551620],\"data_offsets\":[0,4]}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296,0],\"data_offsets\":[0,0]}}",
    "{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387905],\"data_offsets\":[0,4]}}",
    "{\"a\":{\"dtype\":\"F64\",\"shape\":[2305843009213693952],\"data_offsets\":[0,0]}}",
    /* places */
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[5],\"data_offsets\":[0,5]}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[5],\"data_offsets\":[0,4]}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[1,4]}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,0]}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0]}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4,4]}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,9223372036854775807]}}",
    "{\"a\":{" T "},\"b\":{" T "}}",
    "{}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
    "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]}}",
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
    "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]}}",
    /* a hole and an overlap of the same size */
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
    "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]},"
    "\"c\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[3,4]}}",
    /* names */
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
    "\"\\u0061\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]}}",
    "{\"a\n\":{" T "}}",
    "{\"a\\x\":{" T "}}",
    "{\"\\u0000\":{" T "}}",
    "{\"\\ud83d\":{" T "}}",
    "{\"\\ud83d\\u0041\":{" T "}}",
    "{\"\\ud83d\\ue000\":{" T "}}",
    "{\"\\ude00\":{" T "}}",
    "{\"\\u12\":{" T "}}",
    "{\"\\u00zz\":{" T "}}",
    "{\"\xff\":{" T "}}",
    "{\"\xc0\xaf\":{" T "}}",
    "{\"\xed\xa0\x80\":{" T "}}",
    "{\"\xf5\x80\x80\x80\":{" T "}}",
    "{\"\xe2\x82\":{" T "}}",
    "{\"a",
    "{\"a\\",
    "{\"a\\u",
    "{\"a\xe2",
    /* metadata */
    "{\"__metadata__\":{\"a\":1},\"a\":{" T "}}",
    "{\"__metadata__\":[],\"a\":{" T "}}",
    "{\"__metadata__\":{\"a\":{}},\"a\":{" T "}}",
    "{\"__metadata__\":{" T "}}",
    "{\"__metadata__\":{\"a\":\"\",\"a\":\"\"},\"a\":{" T "}}",
    "{\"__metadata__\":{},\"__metadata__\":{},\"a\":{" T "}}",
    "{\"__metadata__\":{},\"\\u005f_metadata__\":{},\"a\":{" T "}}",
};

static void test_wrong_headers(void **state)
{
    (void)state;
    unsigned char bytes[1024];
    void *copy;
    fast_tensors *t = NULL;
    for (size_t i = 0; i < sizeof wrong_headers / sizeof *wrong_headers; i++) {
        const size_t size = build(bytes, wrong_headers[i], 4);
        if (parse(bytes, size, &t, &copy) != FAST_EFORMAT)
            fail_msg("accepted: %s", wrong_headers[i]);
        assert_null(t);
        assert_int_equal(strncmp(fast_error_detail(), "safetensors: ", 13), 0);
        free(copy);
    }
    /* And the one that they all differ from is right. */
    assert_int_equal(parse(bytes, build(bytes, "{\"a\":{" T "}}", 4), &t, &copy), FAST_OK);
    fast__tensors_close(t);
    free(copy);
}

static void test_lengths(void **state)
{
    (void)state;
    unsigned char bytes[512];
    void *copy;
    fast_tensors *t = NULL;
    const size_t size = build(bytes, TWO, 28);
    for (size_t i = 0; i < size; i++) { /* every prefix */
        assert_int_equal(parse(bytes, i, &t, &copy), FAST_EFORMAT);
        free(copy);
    }
    const uint64_t claims[] = {
        (uint64_t)1 << 30, UINT64_MAX, UINT64_MAX - 7, (uint64_t)1 << 63, 100000001, size - 7, 0, 1
    };
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
        memcpy(bytes, &claims[i], 8);
        const int64_t before = fast__alloc_count();
        assert_int_equal(parse(bytes, size, &t, &copy), FAST_EFORMAT);
        assert_true(fast__alloc_count() - before <= 1); /* not what it claims */
        if (claims[i] > 100000000)
            assert_non_null(strstr(fast_error_detail(), "at most 100000000 are read"));
        free(copy);
    }
    assert_null(t);
}

/* Deep nesting is no token of the format: it ends at the first bracket, on any stack. */
static void test_nesting(void **state)
{
    (void)state;
    enum { DEPTH = 2000000 };
    unsigned char *bytes;
    assert_int_equal(fast__alloc("brackets", DEPTH, 1, &bytes), FAST_OK);
    memset(bytes, '[', DEPTH);
    const uint64_t length = DEPTH - 8;
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, "{\"a\":", 5);
    fast_tensors *t = NULL;
    assert_int_equal(fast__tensors_parse(bytes, DEPTH, &t), FAST_EFORMAT);
    fast__free(bytes);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    unsigned char bytes[512];
    const size_t size = build(bytes, TWO, 28);
    for (int64_t n = 0;; n++) {
        fast_tensors *t = NULL;
        fast__alloc_fail_after(n, true);
        const fast_err err = fast__tensors_parse(bytes, size, &t);
        fast__alloc_fail_after(-1, true);
        if (!err) {
            assert_int_equal(n, 5);
            fast__tensors_close(t);
            return;
        }
        assert_int_equal(err, FAST_ENOMEM);
        assert_null(t);
    }
}

/* Saving. */

static const float weights[6] = { 1, -2, 3.5f, 0, 1e-40f, 1e30f };
static const int64_t counts[2] = { INT64_MIN, INT64_MAX };

static void save_sample(const char *path)
{
    const fast_tensor tensors[] = {
        { "conv1.weight", FAST_F32, 2, { 2, 3 }, 6, weights },
        { "", FAST_I64, 1, { 2 }, 2, counts },
        { "quote \" \\ \n gr\xc3\xbc\xc3\x9f", FAST_U8, 3, { 1, 1, 3 }, 3, "xyz" },
        { "none", FAST_F16, 2, { 0, 5 }, 0, NULL },
        { "scalar", FAST_I8, 0, { 0 }, 1, "s" },
    };
    const char *const meta[] = { "model", "lenet:width=2", "empty", "", "key \x01", "\t", NULL };
    assert_int_equal(fast__tensors_save(path, tensors, 5, meta), FAST_OK);
}

static void test_save_and_open(void **state)
{
    (void)state;
    save_sample(inside("sample"));
    fast_tensors *t = NULL;
    assert_int_equal(fast__tensors_open(inside("sample"), &t), FAST_OK);
    assert_int_equal(fast__tensors_count(t), 5);
    const fast_tensor *w = fast__tensors_find(t, "conv1.weight");
    assert_memory_equal(w->data, weights, sizeof weights);
    assert_int_equal((uintptr_t)w->data % 8, 0);
    assert_memory_equal(fast__tensors_find(t, "")->data, counts, sizeof counts);
    assert_memory_equal(fast__tensors_find(t, "quote \" \\ \n gr\xc3\xbc\xc3\x9f")->data, "xyz", 3);
    assert_int_equal(fast__tensors_find(t, "none")->shape[1], 5);
    assert_int_equal(fast__tensors_find(t, "scalar")->count, 1);
    assert_string_equal(fast__tensors_meta(t, "model"), "lenet:width=2");
    assert_string_equal(fast__tensors_meta(t, "empty"), "");
    assert_string_equal(fast__tensors_meta(t, "key \x01"), "\t");

    /* A file that was read can be saved again, with the same bytes. */
    const char *const meta[] = { "model", "lenet:width=2", "empty", "", "key \x01", "\t", NULL };
    fast_tensor all[5];
    for (int i = 0; i < 5; i++)
        all[i] = *fast__tensors_at(t, i);
    assert_int_equal(fast__tensors_save(inside("again"), all, 5, meta), FAST_OK);
    fast__tensors_close(t);
    char *a, *b;
    size_t a_size, b_size;
    assert_int_equal(fast__file_read(inside("sample"), 10000, &a, &a_size), FAST_OK);
    assert_int_equal(fast__file_read(inside("again"), 10000, &b, &b_size), FAST_OK);
    assert_int_equal(a_size, b_size);
    assert_memory_equal(a, b, a_size);
    fast__free(a);
    fast__free(b);

    assert_int_equal(fast__tensors_save(inside("empty"), NULL, 0, NULL), FAST_OK);
    assert_int_equal(fast__tensors_open(inside("empty"), &t), FAST_OK);
    assert_int_equal(fast__tensors_count(t), 0);
    fast__tensors_close(t);
}

static void test_open_refuses(void **state)
{
    (void)state;
    fast_tensors *t = NULL;
    assert_int_equal(fast__tensors_open(inside("absent"), &t), FAST_ENOENT);
    assert_int_equal(fast__tensors_open(folder, &t), FAST_EFORMAT);
    assert_int_equal(truncate(inside("sample"), 40), 0);
    assert_int_equal(fast__tensors_open(inside("sample"), &t), FAST_EFORMAT);
    assert_non_null(strstr(fast_error_detail(), inside("sample"))); /* which file */
    assert_null(t);
    save_sample(inside("sample"));
    for (int64_t n = 0; n < 6; n++) {
        fast__alloc_fail_after(n, true);
        assert_int_equal(fast__tensors_open(inside("sample"), &t), FAST_ENOMEM);
        fast__alloc_fail_after(-1, true);
        assert_null(t);
    }
}

static void test_save_refuses(void **state)
{
    (void)state;
    const fast_tensor wrong[] = {
        { "count", FAST_F32, 1, { 5 }, 6, weights },
        { "rank", FAST_F32, 9, { 1, 1, 1, 1, 1, 1, 1, 1 }, 1, weights },
        { "negative", FAST_F32, 2, { -1, -6 }, 6, weights },
        { "huge", FAST_F64, 1, { INT64_MAX }, INT64_MAX, weights },
        { "__metadata__", FAST_F32, 1, { 6 }, 6, weights },
        { "not utf-8 \xff", FAST_F32, 1, { 6 }, 6, weights },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(fast__tensors_save(inside("wrong"), &wrong[i], 1, NULL), FAST_EINVAL);
        assert_int_not_equal(access(inside("wrong"), F_OK), 0);
    }
    const fast_tensor twice[2] = { { "a", FAST_F32, 1, { 6 }, 6, weights },
                                   { "a", FAST_F32, 1, { 6 }, 6, weights } };
    assert_int_equal(fast__tensors_save(inside("wrong"), twice, 2, NULL), FAST_EINVAL);
    assert_int_equal(fast__tensors_save(inside("no/folder"), twice, 1, NULL), FAST_ENOENT);
}

static void test_python(void **state)
{
    (void)state;
    if (system("python3 -c 'import json, struct' 2> /dev/null") != 0)
        skip();
    save_sample(inside("sample"));
    char command[4096];
    snprintf(command, sizeof command,
             "python3 -c '\n"
             "import json, struct\n"
             "raw = open(\"%s/sample\", \"rb\").read()\n"
             "n, = struct.unpack(\"<Q\", raw[:8])\n"
             "header, data = json.loads(raw[8:8 + n]), raw[8 + n:]\n"
             "assert (8 + n) %% 8 == 0\n"
             "assert list(header) == [\"__metadata__\", \"conv1.weight\", \"\",\n"
             "    \"quote \\\" \\\\ \\n gr\\u00fc\\u00df\", \"none\", \"scalar\"], list(header)\n"
             "assert header[\"__metadata__\"] == {\"model\": \"lenet:width=2\", \"empty\": \"\",\n"
             "    \"key \\x01\": \"\\t\"}\n"
             "w = header[\"conv1.weight\"]\n"
             "assert w == {\"dtype\": \"F32\", \"shape\": [2, 3], \"data_offsets\": [0, 24]}, w\n"
             "assert struct.unpack(\"<6f\", data[:24])[:4] == (1, -2, 3.5, 0)\n"
             "assert data[24:] == struct.pack(\"<qq\", -2**63, 2**63 - 1) + b\"xyzs\"\n"
             "out = {\"__metadata__\": {\"from\": \"python \\U0001F600\"},\n"
             "    \"z\\u00e9\": {\"dtype\": \"F32\", \"shape\": [3], \"data_offsets\": [0, 12]}}\n"
             "text = json.dumps(out).encode()\n"
             "open(\"%s/python\", \"wb\").write(struct.pack(\"<Q\", len(text)) + text +\n"
             "    struct.pack(\"<3f\", 1, 2, 3))'",
             folder, folder);
    assert_int_equal(system(command), 0);
    fast_tensors *t = NULL;
    assert_int_equal(fast__tensors_open(inside("python"), &t), FAST_OK);
    const float expected[3] = { 1, 2, 3 };
    assert_memory_equal(fast__tensors_find(t, "z\xc3\xa9")->data, expected, sizeof expected);
    assert_string_equal(fast__tensors_meta(t, "from"), "python \xf0\x9f\x98\x80");
    fast__tensors_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),          cmocka_unit_test(test_escapes),
        cmocka_unit_test(test_wrong_headers), cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_nesting),       cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_save_and_open), cmocka_unit_test(test_open_refuses),
        cmocka_unit_test(test_save_refuses),  cmocka_unit_test(test_python),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
