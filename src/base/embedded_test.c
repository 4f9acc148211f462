/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: files behind a program come back as they were, and a damaged program is refused with a
 * sentence and within bounded memory.
 * Method: a "program" of some bytes with two files; then every byte of its directory and trailer
 * is changed, and the whole is cut at every length.
 */
#include "base/embedded.h"
#include "base/file.h"
#include "base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64], runtime[128], one[128], two[128], out[128];

static void put(const char *path, const void *bytes, size_t size)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "%s/fast_embedded_XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(folder))
        return 1;
    snprintf(runtime, sizeof runtime, "%s/runtime", folder);
    snprintf(one, sizeof one, "%s/one", folder);
    snprintf(two, sizeof two, "%s/two", folder);
    snprintf(out, sizeof out, "%s/out", folder);
    put(runtime, "#!/bin/true\n", 12);
    put(one, "first\0file", 10);
    put(two, "", 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    const char *paths[] = { runtime, one, two, out };
    for (size_t i = 0; i < 4; i++)
        unlink(paths[i]);
    return rmdir(folder);
}

/* Write the program with both files. */
static void write_program(void)
{
    int64_t bytes = 0;
    struct stat info;
    const char *const files[] = { one, two };

    assert_int_equal(fast__embedded_write(runtime, out, "{\"a\": 1}", files, 2, &bytes), FAST_OK);
    assert_int_equal(stat(out, &info), 0);
    assert_int_equal(info.st_size, bytes);
    assert_true(info.st_mode & S_IXUSR);
}

static void files_come_back(void **state)
{
    const char *settings = NULL;
    char *bytes = NULL;
    size_t size = 0;

    (void)state;
    write_program();
    put(one, "changed", 7); /* the embedded file is read, not this one */
    assert_int_equal(fast__embedded_read(out, &settings), FAST_OK);
    assert_string_equal(settings, "{\"a\": 1}");
    assert_int_equal(fast__file_read(one, 100, &bytes, &size), FAST_OK);
    assert_int_equal(size, 10);
    assert_memory_equal(bytes, "first\0file", 10);
    fast__free(bytes);
    assert_int_equal(fast__file_read(two, 100, &bytes, &size), FAST_OK);
    assert_int_equal(size, 0);
    fast__free(bytes);
    assert_int_equal(fast__file_read(runtime, 100, &bytes, &size), FAST_OK); /* a file outside */
    fast__free(bytes);
    fast__embedded_close();
    put(one, "first\0file", 10);
}

static void other_programs_are_not_packed(void **state)
{
    const char *settings = NULL;
    int64_t bytes = 0;

    (void)state;
    assert_int_equal(fast__embedded_read(runtime, &settings), FAST_ENOENT);
    assert_int_equal(fast__embedded_read(two, &settings), FAST_ENOENT);
    write_program();
    assert_int_equal(fast__embedded_write(out, one, "{}", NULL, 0, &bytes), FAST_EFORMAT);
    assert_int_equal(fast__embedded_write("nowhere", one, "{}", NULL, 0, &bytes), FAST_ENOENT);
    assert_int_equal(fast__embedded_write(runtime, out, "{", NULL, 0, &bytes), FAST_EFORMAT);
}

/* Read a program of these bytes and its files: every result but a crash is fine. */
static void try_program(const char *bytes, size_t size)
{
    const char *settings = NULL;
    char *copy = NULL;
    size_t got;

    put(out, bytes, size);
    const fast_err err = fast__embedded_read(out, &settings);
    assert_true(err == FAST_OK || err == FAST_ENOENT || err == FAST_EFORMAT);
    if (!err && fast__file_read(one, 100, &copy, &got) == FAST_OK)
        fast__free(copy);
    fast__embedded_close();
}

static void damage_is_refused(void **state)
{
    char *bytes = NULL;
    size_t size = 0, got = 0;
    const char *settings = NULL;

    (void)state;
    write_program();
    assert_int_equal(fast__file_read(out, 4096, &bytes, &size), FAST_OK);
    for (size_t n = 0; n < size; n++)
        try_program(bytes, n);
    for (size_t n = 22; n < size; n++)
        for (int bit = 0; bit < 8; bit++) {
            bytes[n] = (char)(bytes[n] ^ 1 << bit);
            try_program(bytes, size);
            bytes[n] = (char)(bytes[n] ^ 1 << bit);
        }
    bytes[13] ^= 1; /* of the first file */
    put(out, bytes, size);
    fast__free(bytes);
    assert_int_equal(fast__embedded_read(out, &settings), FAST_OK);
    assert_int_equal(fast__file_read(one, 100, &bytes, &got), FAST_EFORMAT);
    assert_non_null(strstr(fast_error_detail(), "checksum"));
    fast__embedded_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_come_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_programs_are_not_packed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damage_is_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
