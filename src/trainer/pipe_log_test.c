/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the log of passes has the first passes of a worker, whole, whoever reads it when.
 * Method: logs of few entries; another thread reads while one appends.
 */
#include "trainer/pipe_log.h"

#include "base/thread.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* A log has its share of all entries, and at least a few. */
static void logs_are_bounded(void **state)
{
    fast_pipe_log log = { 0 };
    fast_pipe_entry seen[FAST_PIPE_LOG_MIN + 4];

    (void)state;
    assert_int_equal(fast__pipe_log_init(&log, FAST_PIPE_LOG_ALL), FAST_OK);
    assert_int_equal(log.size, FAST_PIPE_LOG_MIN);
    for (int i = 0; i < FAST_PIPE_LOG_MIN + 4; i++)
        fast__pipe_log_add(&log, &(fast_pipe_entry){ .number = i, .begin = i, .end = i + 1 });
    assert_int_equal(fast__pipe_log_read(&log, 0, FAST_PIPE_LOG_MIN + 4, seen), FAST_PIPE_LOG_MIN);
    assert_int_equal(seen[FAST_PIPE_LOG_MIN - 1].number, FAST_PIPE_LOG_MIN - 1);
    assert_int_equal(fast__pipe_log_read(&log, FAST_PIPE_LOG_MIN - 2, 1, seen), 1);
    assert_int_equal(seen[0].number, FAST_PIPE_LOG_MIN - 2);
    assert_int_equal(fast__pipe_log_read(&log, FAST_PIPE_LOG_MIN, 9, seen), 0);
    fast__pipe_log_fini(&log);
    assert_int_equal(fast__pipe_log_init(&log, 1), FAST_OK);
    assert_int_equal(log.size, FAST_PIPE_LOG_ALL);
    fast__pipe_log_fini(&log);
    fast__pipe_log_fini(&log);
}

/* The appending thread. */
static void *append_all(void *ctx)
{
    for (int64_t i = 0; i < FAST_PIPE_LOG_ALL; i++)
        fast__pipe_log_add(ctx, &(fast_pipe_entry){ FAST_PIPE_WEIGHTS, i, i, i, i, i });
    return NULL;
}

/* A reader of another thread sees whole entries in their order. */
static void readers_see_whole_entries(void **state)
{
    fast_pipe_log log = { 0 };
    fast_pipe_entry seen[7];
    fast_thread thread;
    int64_t next = 0;

    (void)state;
    assert_int_equal(fast__pipe_log_init(&log, 1), FAST_OK);
    assert_int_equal(fast__thread_start(&thread, append_all, &log), FAST_OK);
    while (next < FAST_PIPE_LOG_ALL) {
        const int64_t count = fast__pipe_log_read(&log, next, 7, seen);

        for (int64_t i = 0; i < count; i++, next++) {
            assert_int_equal(seen[i].number, next);
            assert_int_equal(seen[i].kind, FAST_PIPE_WEIGHTS);
            assert_int_equal(seen[i].end, next);
        }
    }
    fast__thread_join(&thread);
    fast__pipe_log_fini(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logs_are_bounded),
        cmocka_unit_test(readers_see_whole_entries),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
