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
    fast_snapshot_traffic link;
    int64_t node = 0, time = 0;
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
    fast__snapshot_add_wait(snapshot, 1, 0, 70);
    fast__snapshot_add_wait(snapshot, 1, -1, 70);
    assert_true(fast__snapshot_link(snapshot, 0, 1, &link));
    assert_int_equal(link.messages, 2);
    assert_int_equal(link.bytes, 15);
    assert_int_equal(link.wait_ns, 70);
    assert_true(fast__snapshot_link(snapshot, 1, 0, &link) && link.wait_ns == 0);
    for (int i = 0; i < 2 * FAST_SNAPSHOT_FAULTS; i++)
        fast__snapshot_add_fault(snapshot, "crash", 1, 7);
    assert_true(fast__snapshot_fault_at(snapshot, FAST_SNAPSHOT_FAULTS - 1, &name, &node, &time));
    assert_false(fast__snapshot_fault_at(snapshot, FAST_SNAPSHOT_FAULTS, &name, &node, &time));
    fast__snapshot_free(snapshot);
    /* Of very many actors links are not counted. */
    assert_int_equal(fast__snapshot_new(FAST_SNAPSHOT_LINKED_MAX + 1, &snapshot), FAST_OK);
    fast__snapshot_add_sent(snapshot, 0, 1, 10);
    assert_false(fast__snapshot_link(snapshot, 0, 1, &link));
    fast__snapshot_free(snapshot);
}

/* However long a timeline becomes, its bins hold all of it: half computing, half waiting. */
static void whole_timelines_are_binned(void **state)
{
    static uint16_t parts[FAST_SNAPSHOT_BINS][FAST_ACTIVITY_KINDS];
    fast_snapshot *snapshot = NULL;
    int64_t length = 0;

    (void)state;
    assert_int_equal(fast__snapshot_new(3, &snapshot), FAST_OK);
    assert_int_equal(fast__snapshot_activity(snapshot, 1, parts[0], &length), 0);
    for (int64_t i = 0; i < 100000; i++) {
        fast__snapshot_add_span(snapshot, 1, FAST_SPAN_COMPUTE, 100 * i, 100 * i + 50);
        fast__snapshot_add_span(snapshot, 1, FAST_SPAN_WAIT, 100 * i + 50, 100 * i + 100);
    }
    const int64_t count = fast__snapshot_activity(snapshot, 1, parts[0], &length);
    assert_true(count > FAST_SNAPSHOT_BINS / 2 && count <= FAST_SNAPSHOT_BINS);
    assert_true(length * (count - 1) < 10000000 && length * count >= 10000000);
    for (int64_t i = 0; i < count - 1; i++) {
        assert_in_range(parts[i][FAST_ACTIVITY_COMPUTE], 490, 510);
        assert_in_range(parts[i][FAST_ACTIVITY_WAIT], 490, 510);
        assert_int_equal(parts[i][FAST_ACTIVITY_SEND], 0);
    }
    /* One span over all bins, and one that is far away. */
    fast__snapshot_add_span(snapshot, 2, FAST_SPAN_CODEC, 0, 1000000);
    fast__snapshot_add_span(snapshot, 2, FAST_SPAN_SEND, INT64_C(1) << 60, (INT64_C(1) << 60) + 9);
    assert_true(fast__snapshot_activity(snapshot, 2, parts[0], &length) <= FAST_SNAPSHOT_BINS);
    assert_int_equal(fast__snapshot_activity(snapshot, 0, parts[0], &length), 0);
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
        cmocka_unit_test(whole_timelines_are_binned),
        cmocka_unit_test(seen_while_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
