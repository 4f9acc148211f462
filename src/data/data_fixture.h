/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * For the tests of readers: files that live in memory, and the checks that every reader passes.
 */
#include "base/memory.h"
#include "data/data.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { FIXTURE_PATH = 64, FIXTURE_SPEC = 1024, BYTES_MAX = 1 << 16 };

/* Bytes of a file under construction. */
typedef struct bytes {
    uint8_t at[BYTES_MAX]; /* written so far, and room for the rest */
    size_t size;           /* written so far */
} bytes;

/* Append bytes; a test's buffer is large enough. */
static inline void put(bytes *b, const void *from, size_t size)
{
    assert_true(b->size + size <= sizeof b->at);
    memcpy(b->at + b->size, from, size);
    b->size += size;
}

/* A file in memory: `path` opens it until fixture_drop(). */
typedef struct data_fixture {
    int fd;                  /* that keeps it */
    char path[FIXTURE_PATH]; /* that opens it */
} data_fixture;

/* Write bytes to a new temporary file. */
static inline data_fixture fixture_make(const void *from, size_t size)
{
    data_fixture f = { .fd = memfd_create("fixture", 0) };
    assert_true(f.fd >= 0);
    assert_int_equal(write(f.fd, from, size), (ssize_t)size);
    snprintf(f.path, sizeof f.path, "/proc/self/fd/%d", f.fd);
    return f;
}

/* Delete the file. */
static inline void fixture_drop(data_fixture *f)
{
    close(f->fd);
}

/* Open a spec that must be fine. */
static inline void open_well(const char *spec, fast_data **train, fast_data **test)
{
    *train = *test = NULL;
    const fast_err err = fast__data_open(spec, 1, train, test, NULL);
    if (err)
        fail_msg("%s: %s", spec, fast_error_detail());
    assert_non_null(*train);
}

/* Open a spec that must be refused with a detail that says `word`, without an allocation above
 * `size_max` bytes. */
static inline void open_badly(const char *spec, fast_err want, const char *word, int64_t size_max)
{
    fast_data *train = NULL, *test = NULL;
    fast__alloc_largest();
    const fast_err err = fast__data_open(spec, 1, &train, &test, NULL);
    if (err != want)
        fail_msg("%s: %s, expected %s to say \"%s\"", spec, fast_err_name(err), fast_err_name(want),
                 word);
    if (strstr(fast_error_detail(), word) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", fast_error_detail(), word);
    assert_null(train);
    assert_null(test);
    assert_true(fast__alloc_largest() <= size_max);
}

/* Fail the n-th allocation for n = 0, 1, ... until the spec opens; sanitizers see the leaks. */
static inline void open_without_memory(const char *spec)
{
    fast_err err = FAST_ENOMEM;
    for (int64_t n = 0; err != FAST_OK; n++) {
        fast_data *train = NULL, *test = NULL;
        fast__alloc_fail_after(n, true);
        err = fast__data_open(spec, 1, &train, &test, NULL);
        fast__alloc_fail_after(-1, true);
        if (err != FAST_OK && err != FAST_ENOMEM)
            fail_msg("%s: allocation %lld: %s", spec, (long long)n, fast_error_detail());
        assert_true((train != NULL) == (err == FAST_OK));
        fast_data_free(train);
        fast_data_free(test);
        assert_true(n < 1000);
    }
}
