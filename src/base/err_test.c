/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: an error's detail is one clean line that belongs to the actor that failed.
 * Method: fail with long, dirty and self-referring texts, from two threads and with two buffers.
 */
#include "base/err.h"
#include "base/log.h"
#include "base/thread.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(fast_version(), "0.1.0");
    assert_string_equal(fast_err_name(FAST_OK), "OK");
    assert_string_equal(fast_err_name(FAST_ETIMEDOUT), "ETIMEDOUT");
    assert_string_equal(fast_err_text(FAST_EFORMAT), "malformed message or file");
    assert_string_equal(fast_err_name((fast_err)-1000), "unknown");
    assert_string_equal(fast_err_text((fast_err)-1000), "unknown error");
}

static void test_detail(void **state)
{
    (void)state;
    errno = ENOSPC;
    assert_int_equal(fast__fail(FAST_EINVAL, "no %s \"%s\"", "model", "le\nnet\x1b[1m"),
                     FAST_EINVAL);
    assert_string_equal(fast_error_detail(), "no model \"le?net?[1m\"");
    assert_int_equal(errno, ENOSPC);

    /* A caller may put something before the detail. */
    assert_int_equal(fast__fail(FAST_EIO, "file: %s", fast_error_detail()), FAST_EIO);
    assert_string_equal(fast_error_detail(), "file: no model \"le?net?[1m\"");

    char longer[2 * FAST_DETAIL_MAX];
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = 0;
    assert_int_equal(fast__fail(FAST_EIO, "%s", longer), FAST_EIO);
    assert_int_equal(strlen(fast_error_detail()), FAST_DETAIL_MAX - 1);
    assert_string_equal(fast_error_detail() + FAST_DETAIL_MAX - 5, "x...");
}

static void *fail_elsewhere(void *ctx)
{
    (void)ctx;
    (void)fast__fail(FAST_EPEER, "rank 3 left");
    return NULL;
}

static void test_detail_belongs_to_actor(void **state)
{
    (void)state;
    char actor[FAST_DETAIL_MAX] = "";
    fast_thread thread;
    (void)fast__fail(FAST_EIO, "mine");
    assert_int_equal(fast__thread_start(&thread, fail_elsewhere, NULL), FAST_OK);
    fast__thread_join(&thread);
    assert_string_equal(fast_error_detail(), "mine");

    fast__fail_buffer(actor);
    assert_string_equal(fast_error_detail(), "");
    (void)fast__fail(FAST_EIO, "the other actor's");
    fast__fail_buffer(NULL);
    assert_string_equal(fast_error_detail(), "mine");
    assert_string_equal(actor, "the other actor's");
}

static fast_err passes_on(fast_err err, int *reached)
{
    FAST_TRY(err);
    (*reached)++;
    return FAST_OK;
}

static void test_try(void **state)
{
    (void)state;
    int reached = 0;
    assert_int_equal(passes_on(FAST_EIO, &reached), FAST_EIO);
    assert_int_equal(reached, 0);
    assert_int_equal(passes_on(FAST_OK, &reached), FAST_OK);
    assert_int_equal(reached, 1);
}

/* The log. */

typedef struct log_seen {
    int count;            /* lines so far; one at a time, so no lock */
    char line[1100];      /* the last one */
    fast_log_level level; /* of the last one */
} log_seen;

static void log_see(void *ctx, fast_log_level level, const char *line)
{
    log_seen *seen = ctx;
    seen->count++;
    seen->level = level;
    snprintf(seen->line, sizeof seen->line, "%s", line);
}

static void *log_from_thread(void *ctx)
{
    (void)ctx;
    for (int i = 0; i < 100; i++)
        fast__log(FAST_LOG_DEBUG, "line %d", i);
    return NULL;
}

static void test_log(void **state)
{
    (void)state;
    log_seen seen = { 0 };
    fast__log(FAST_LOG_WARN, "to nobody");
    fast_log_set(log_see, &seen);
    fast__log(FAST_LOG_WARN, "slow disk: %d MB/s\n", 3);
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.level, FAST_LOG_WARN);
    assert_string_equal(seen.line, "slow disk: 3 MB/s?");

    fast_thread threads[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(fast__thread_start(&threads[i], log_from_thread, NULL), FAST_OK);
    for (int i = 0; i < 2; i++)
        fast__thread_join(&threads[i]);
    fast_log_set(NULL, NULL);
    fast__log(FAST_LOG_WARN, "to nobody");
    assert_int_equal(seen.count, 201);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_detail),
        cmocka_unit_test(test_detail_belongs_to_actor),
        cmocka_unit_test(test_try),
        cmocka_unit_test(test_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
