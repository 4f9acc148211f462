/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: messages and buffers are reused, whoever frees them, so that memory is stable; sizes are
 * what was asked for, aligned and apart; a frozen buffer lives as long as its last holder. Method:
 * a pool alone, with threads that allocate and threads that free, and its count of allocations.
 */
#include "transport/message_pool.h"

#include "base/memory.h"
#include "base/thread.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#ifdef FAST_SANITIZED
enum { STREAM = 20000 };
#else
enum { STREAM = 100000 };
#endif

static void sizes_fit(void **state)
{
    (void)state;
    fast_pool *pool = NULL;
    fast_buffer *buffers[120];
    int count = 0;
    assert_int_equal(fast__pool_new(&pool), FAST_OK);
    fast__pool_enter(pool);
    for (size_t size = 1; size < (size_t)1 << 20; size *= 2)
        for (size_t add = 0; add <= 2; add++) {
            fast_buffer *buffer = NULL;
            const size_t asked = size + size / 2 * (add / 2) + add - 1;
            assert_int_equal(fast__pool_buffer(pool, asked, &buffer), FAST_OK);
            assert_int_equal(fast_buffer_size(buffer), asked);
            assert_int_equal((uintptr_t)fast_buffer_data(buffer) % FAST_ALIGN, 0);
            memset(fast_buffer_data(buffer), count, asked);
            buffers[count++] = buffer;
        }
    for (int i = 0; i < count; i++) {
        const unsigned char *bytes = fast_buffer_data(buffers[i]);
        for (size_t j = 0; j < fast_buffer_size(buffers[i]); j += 61)
            assert_int_equal(bytes[j], i);
        fast_buffer_free(buffers[i]);
    }
    fast_buffer *none = NULL;
    assert_int_equal(fast__pool_buffer(pool, (size_t)1 << 60, &none), FAST_ENOMEM);
    assert_int_equal(fast__pool_buffer(pool, SIZE_MAX, &none), FAST_ENOMEM);
    assert_null(none);
    fast__pool_leave(pool);
    fast__pool_free(pool);
    fast__pool_free(NULL);
    fast_buffer_free(NULL);
    fast_msg_free(NULL);
}

static void what_is_freed_is_used_next(void **state)
{
    (void)state;
    fast_pool *pool = NULL;
    assert_int_equal(fast__pool_new(&pool), FAST_OK);
    for (int inside = 0; inside <= 1; inside++) {
        if (inside)
            fast__pool_enter(pool);
        fast_msg *msg = NULL, *again = NULL;
        assert_int_equal(fast__pool_msg(pool, 1, &msg), FAST_OK);
        msg->words[3] = 77;
        msg->unreliable = true;
        fast_msg_free(msg);
        const fast_pool_use use = fast__pool_used(pool);
        for (int i = 0; i < 1000; i++) {
            assert_int_equal(fast__pool_msg(pool, 2, &again), FAST_OK);
            assert_int_equal(again->words[3], 0); /* nothing is left of the last one */
            assert_false(again->unreliable);
            assert_int_equal(again->part_count, 0);
            fast_msg_free(again);
        }
        assert_int_equal(fast__pool_used(pool).allocations, use.allocations);
        if (inside)
            fast__pool_leave(pool);
    }
    fast__pool_free(pool);
}

static void a_frozen_buffer_outlives_its_messages(void **state)
{
    (void)state;
    fast_pool *pool = NULL;
    fast_buffer *buffer = NULL;
    fast_msg *msgs[10];
    assert_int_equal(fast__pool_new(&pool), FAST_OK);
    fast__pool_enter(pool);
    assert_int_equal(fast__pool_buffer(pool, 100, &buffer), FAST_OK);
    memset(fast_buffer_data(buffer), 9, 100);
    assert_false(fast_buffer_is_frozen(buffer));
    fast_buffer_freeze(buffer);
    assert_true(fast_buffer_is_frozen(buffer));
    for (int i = 0; i < 10; i++) {
        assert_int_equal(fast__pool_msg(pool, 1, &msgs[i]), FAST_OK);
        fast_msg_add_view(msgs[i], buffer, (size_t)i, 100 - (size_t)i);
        assert_int_equal(fast__msg_payload(msgs[i]), 100 - i);
        assert_ptr_equal(fast_msg_data(msgs[i], 0), (char *)fast_buffer_data(buffer) + i);
    }
    fast_buffer_free(buffer);
    for (int i = 0; i < 9; i++)
        fast_msg_free(msgs[i]);
    fast_buffer *last = fast_msg_take(msgs[9], 0); /* the last holder */
    fast_msg_free(msgs[9]);
    assert_ptr_equal(last, buffer);
    assert_int_equal(((char *)fast_buffer_data(last))[99], 9);
    fast_buffer_free(last);
    fast_buffer *next = NULL;
    assert_int_equal(fast__pool_buffer(pool, 100, &next), FAST_OK);
    assert_ptr_equal(next, buffer); /* it came back once it was let go */
    assert_false(fast_buffer_is_frozen(next));
    fast_buffer_free(next);
    fast__pool_leave(pool);
    fast__pool_free(pool);
}

/* A stream in one direction: one thread allocates, the other frees, WINDOW at most under way. */
enum { WINDOW = 1024 };
typedef struct stream {
    fast_pool *pool;
    _Atomic(fast_msg *) ring[WINDOW]; /* handed over */
} stream;

static void *stream_free(void *ctx)
{
    stream *s = ctx;
    fast__pool_enter(s->pool);
    for (int64_t i = 0; i < STREAM; i++) {
        fast_msg *msg;
        while (!(msg = atomic_exchange(&s->ring[i % WINDOW], NULL)))
            sched_yield();
        fast_msg_free(msg);
    }
    fast__pool_leave(s->pool);
    return NULL;
}

static void a_stream_needs_no_more_memory(void **state)
{
    (void)state;
    stream s = { 0 };
    fast_thread thread;
    assert_int_equal(fast__pool_new(&s.pool), FAST_OK);
    assert_int_equal(fast__thread_start(&thread, stream_free, &s), FAST_OK);
    fast__pool_enter(s.pool);
    for (int64_t i = 0; i < STREAM; i++) {
        fast_msg *msg = NULL;
        fast_buffer *buffer = NULL;
        assert_int_equal(fast__pool_msg(s.pool, 1, &msg), FAST_OK);
        assert_int_equal(fast__pool_buffer(s.pool, 1000, &buffer), FAST_OK);
        fast_msg_add(msg, &buffer);
        while (atomic_load(&s.ring[i % WINDOW]))
            sched_yield();
        atomic_store(&s.ring[i % WINDOW], msg);
    }
    fast__thread_join(&thread);
    fast__pool_leave(s.pool);
    /* At most the window and the caches of two threads, however many messages are sent. */
    const fast_pool_use use = fast__pool_used(s.pool);
    const int64_t batches = (WINDOW + 6 * 32 + 31) / 32;
    assert_true(use.allocations <= 2 * batches + 2);
    fast__pool_free(s.pool);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    for (int64_t n = 0;; n++) {
        fast_pool *pool = NULL;
        fast_msg *msg = NULL;
        fast_buffer *buffer = NULL;
        fast__alloc_fail_after(n, true);
        fast_err err = fast__pool_new(&pool);
        if (!err) {
            fast__pool_enter(pool); /* continues without a cache */
            err = fast__pool_msg(pool, 1, &msg);
            if (!err)
                err = fast__pool_buffer(pool, 5000, &buffer);
            fast_buffer_free(buffer);
            fast_msg_free(msg);
            fast__pool_leave(pool);
        }
        fast__alloc_fail_after(-1, true);
        fast__pool_free(pool);
        if (!err && n > 4)
            return;
        assert_true(!err || err == FAST_ENOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_fit),
        cmocka_unit_test(what_is_freed_is_used_next),
        cmocka_unit_test(a_frozen_buffer_outlives_its_messages),
        cmocka_unit_test(a_stream_needs_no_more_memory),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
