/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: who looks at an actor while it runs sees spans that it did write, in order, none twice, and
 * what it sent to whom.
 * Method: spans whose end is told by their begin, written by a thread while another one reads: a
 * torn one would not fit.
 */
#include "base/thread.h"
#include "transport/snapshot.h"
#include "transport/transport.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#ifdef FAST_SANITIZED
enum { SPANS = 20000 };
#else
enum { SPANS = 400000 };
#endif

static void newest_are_retained(void **state)
{
    fast_snapshot *snapshot = NULL;
    fast_snapshot_span seen[1024];
    int64_t messages = 0, bytes = 0, node = 0, time = 0;
    const char *name = NULL;

    (void)state;
    assert_int_equal(fast__snapshot_new(2, &snapshot), FAST_OK);
    assert_int_equal(fast__snapshot_spans(snapshot, 0, seen, 1024), 0);
    for (int64_t i = 0; i < 1000; i++)
        fast__snapshot_add_span(snapshot, 0, FAST_SPAN_WAIT, i, i + 2);
    fast__snapshot_add_span(snapshot, 0, FAST_SPAN_RECEIVE, 1, 2); /* is no span of its own */
    fast__snapshot_add_span(snapshot, 0, FAST_SPAN_SEND, 5, 5);    /* took no time */
    const int64_t count = fast__snapshot_spans(snapshot, 0, seen, 1024);
    assert_int_equal(count, 255); /* the slot that may be written next is left out */
    assert_int_equal(seen[count - 1].begin, 999);
    assert_int_equal(seen[count - 1].end, 1001);
    assert_int_equal(seen[0].begin, 1000 - count);
    assert_int_equal(seen[0].span, FAST_SPAN_WAIT);
    assert_int_equal(fast__snapshot_spans(snapshot, 0, seen, 1024), 0);
    assert_int_equal(fast__snapshot_spans(snapshot, 1, seen, 1024), 0);
    fast__snapshot_add_sent(snapshot, 0, 1, 10);
    fast__snapshot_add_sent(snapshot, 0, 1, 5);
    assert_true(fast__snapshot_link(snapshot, 0, 1, &messages, &bytes));
    assert_int_equal(messages, 2);
    assert_int_equal(bytes, 15);
    for (int i = 0; i < 2 * FAST_SNAPSHOT_FAULTS; i++)
        fast__snapshot_add_fault(snapshot, "crash", 1, 7);
    assert_true(fast__snapshot_fault_at(snapshot, FAST_SNAPSHOT_FAULTS - 1, &name, &node, &time));
    assert_false(fast__snapshot_fault_at(snapshot, FAST_SNAPSHOT_FAULTS, &name, &node, &time));
    fast__snapshot_free(snapshot);
    /* Of very many actors links are not counted. */
    assert_int_equal(fast__snapshot_new(FAST_SNAPSHOT_LINKED_MAX + 1, &snapshot), FAST_OK);
    fast__snapshot_add_sent(snapshot, 0, 1, 10);
    assert_false(fast__snapshot_link(snapshot, 0, 1, &messages, &bytes));
    fast__snapshot_free(snapshot);
}

static void *write_spans(void *ctx)
{
    fast_snapshot *snapshot = ctx;
    for (int64_t i = 0; i < SPANS; i++)
        fast__snapshot_add_span(snapshot, 0, i % 2 ? FAST_SPAN_COMPUTE : FAST_SPAN_WAIT, 3 * i,
                                5 * i + 1);
    return NULL;
}

static void seen_while_written(void **state)
{
    fast_snapshot *snapshot = NULL;
    fast_snapshot_span seen[256];
    fast_thread thread;
    int64_t last = -1;

    (void)state;
    assert_int_equal(fast__snapshot_new(1, &snapshot), FAST_OK);
    assert_int_equal(fast__thread_start(&thread, write_spans, snapshot), FAST_OK);
    while (last < SPANS - 1) {
        const int64_t count = fast__snapshot_spans(snapshot, 0, seen, 256);
        for (int64_t k = 0; k < count; k++) {
            const int64_t i = seen[k].begin / 3;
            assert_true(i > last);
            assert_int_equal(seen[k].begin, 3 * i);
            assert_int_equal(seen[k].end, 5 * i + 1);
            assert_int_equal(seen[k].span, i % 2 ? FAST_SPAN_COMPUTE : FAST_SPAN_WAIT);
            last = i;
        }
    }
    fast__thread_join(&thread);
    fast__snapshot_free(snapshot);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(newest_are_retained),
        cmocka_unit_test(seen_while_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
