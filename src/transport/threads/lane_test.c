/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a lane keeps what it is given, in order, until it is full; what does not fit is numbered
 * and left to the inbox; a message stays where it is while there is no memory for it. Method: both
 * ends in one thread, then one thread at each end.
 */
#include "transport/threads/lane.h"

#include "base/memory.h"
#include "base/thread.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

typedef struct ends {
    fast_pool *pool;
    fast_lane *lane;
} ends;

static ends open_lane(void)
{
    ends e = { NULL, NULL };
    assert_int_equal(fast__pool_new(&e.pool), FAST_OK);
    assert_int_equal(fast__alloc("a lane", 1, sizeof *e.lane, &e.lane), FAST_OK);
    fast__lane_init(e.lane);
    return e;
}

static void close_lane(ends *e)
{
    fast__free(e->lane);
    fast__pool_free(e->pool);
}

/* Send a small message; true if it took the lane. */
static bool put(ends *e, int64_t word, size_t declared)
{
    fast_msg *msg = NULL;
    assert_int_equal(fast__pool_msg(e->pool, 5, &msg), FAST_OK);
    for (int i = 0; i < FAST_MSG_WORDS; i++)
        msg->words[i] = word + i;
    msg->declared = declared;
    msg->generation = (uint32_t)word;
    const bool taken = fast__lane_send(e->lane, msg);
    fast_msg_free(msg);
    return taken;
}

/* Take one; its word, or -1. */
static int64_t take(ends *e)
{
    fast_msg *msg = fast__lane_take(e->lane, e->pool);
    if (!msg)
        return -1;
    const int64_t word = msg->words[0];
    assert_true(msg->tag == 5);
    assert_int_equal(msg->words[5], word + 5);
    assert_int_equal(msg->generation, word);
    assert_int_equal(msg->part_count, 0);
    fast_msg_free(msg);
    return word;
}

static void order_and_room(void **state)
{
    (void)state;
    ends e = open_lane();
    assert_false(fast__lane_has_news(e.lane));
    assert_int_equal(take(&e), -1);
    for (int64_t lap = 0; lap < 5; lap++) {
        for (int64_t i = 0; i < FAST_LANE_SLOTS; i++)
            assert_true(put(&e, lap * 100 + i, 0));
        assert_int_equal(fast__lane_left(e.lane, 6), FAST_LANE_SLOTS);
        assert_int_equal(fast__lane_left(e.lane, 5), 0);
        assert_false(put(&e, 99, 0)); /* full: this one goes through the inbox */
        for (int64_t i = 0; i < FAST_LANE_SLOTS; i++) {
            assert_true(fast__lane_has_news(e.lane));
            assert_int_equal(take(&e), lap * 100 + i);
        }
        assert_true(put(&e, 7, 0)); /* sent after the one in the inbox: not due yet */
        assert_int_equal(take(&e), -1);
        e.lane->next++; /* as if the inbox had brought it */
        assert_int_equal(take(&e), 7);
        assert_false(put(&e, 8, 1)); /* not small */
        e.lane->next++;
    }
    close_lane(&e);
}

static void without_memory_it_stays(void **state)
{
    (void)state;
    ends e = open_lane();
    fast_msg *all[32];
    assert_true(put(&e, 3, 0));
    for (int i = 0; i < 32; i++) /* the whole batch is in use */
        assert_int_equal(fast__pool_msg(e.pool, 1, &all[i]), FAST_OK);
    fast__alloc_fail_after(0, false);
    assert_int_equal(take(&e), -1);
    assert_true(fast__lane_has_news(e.lane));
    fast__alloc_fail_after(-1, false);
    assert_int_equal(take(&e), 3);
    for (int i = 0; i < 32; i++)
        fast_msg_free(all[i]);
    close_lane(&e);
}

#ifdef FAST_SANITIZED
enum { STREAM = 5000 };
#else
enum { STREAM = 100000 };
#endif

static void *sender(void *ctx)
{
    ends *e = ctx;
    fast__pool_enter(e->pool);
    for (int64_t i = 0; i < STREAM;) {
        if (put(e, i, 0)) {
            i++;
            continue;
        }
        /* Undo the send: the receiver is next. */
        e->lane->number--;
        sched_yield();
    }
    fast__pool_leave(e->pool);
    return NULL;
}

static void two_threads(void **state)
{
    (void)state;
    ends e = open_lane();
    fast_thread thread;
    assert_int_equal(fast__thread_start(&thread, sender, &e), FAST_OK);
    fast__pool_enter(e.pool);
    for (int64_t i = 0; i < STREAM;) {
        const int64_t word = take(&e);
        if (word < 0) {
            sched_yield();
            continue;
        }
        assert_int_equal(word, i);
        i++;
    }
    fast__thread_join(&thread);
    fast__pool_leave(e.pool);
    close_lane(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_and_room),
        cmocka_unit_test(without_memory_it_stays),
        cmocka_unit_test(two_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
