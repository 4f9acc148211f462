/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the lock lets in whom it should, wakes whom it should, and nobody waits for more than one
 * phase of the other kind. Method: every rule by hand, then random walks against a plain model.
 */
#include "space/space_lock.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void readers_share_and_writers_do_not(void **state)
{
    (void)state;
    fast_space_lock lock = { 0 };
    assert_true(fast__space_lock_try(&lock, false));
    assert_true(fast__space_lock_try(&lock, false));
    assert_false(fast__space_lock_try(&lock, true));
    assert_int_equal(fast__space_lock_release(&lock, false), FAST_SPACE_WAKE_NONE);
    assert_int_equal(fast__space_lock_release(&lock, false), FAST_SPACE_WAKE_NONE);
    assert_true(fast__space_lock_try(&lock, true));
    assert_false(fast__space_lock_try(&lock, true));
    assert_false(fast__space_lock_try(&lock, false));
    assert_int_equal(fast__space_lock_release(&lock, true), FAST_SPACE_WAKE_NONE);
    assert_true(lock.word == 0);
}

static void phases_take_turns(void **state)
{
    (void)state;
    fast_space_lock lock = { 0 };
    assert_true(fast__space_lock_try(&lock, true));
    fast__space_lock_queue(&lock, false);
    fast__space_lock_queue(&lock, false);
    fast__space_lock_queue(&lock, true);
    /* The readers that queue go before the writer, those that come later do not. */
    assert_int_equal(fast__space_lock_release(&lock, true), FAST_SPACE_WAKE_READERS);
    assert_false(fast__space_lock_try(&lock, true));
    assert_false(fast__space_lock_queued(&lock, true));
    assert_false(fast__space_lock_try(&lock, false));
    assert_true(fast__space_lock_queued(&lock, false));
    assert_true(fast__space_lock_queued(&lock, false));
    fast__space_lock_queue(&lock, false);
    assert_false(fast__space_lock_queued(&lock, false));
    assert_int_equal(fast__space_lock_release(&lock, false), FAST_SPACE_WAKE_NONE);
    assert_int_equal(fast__space_lock_release(&lock, false), FAST_SPACE_WAKE_WRITER);
    assert_true(fast__space_lock_queued(&lock, true));
    assert_int_equal(fast__space_lock_release(&lock, true), FAST_SPACE_WAKE_READERS);
    assert_true(fast__space_lock_queued(&lock, false));
    assert_int_equal(fast__space_lock_release(&lock, false), FAST_SPACE_WAKE_NONE);
    assert_true(lock.word == 0);
}

static void queues_can_be_left(void **state)
{
    (void)state;
    fast_space_lock lock = { 0 };
    assert_true(fast__space_lock_try(&lock, true));
    fast__space_lock_queue(&lock, false);
    fast__space_lock_queue(&lock, true);
    assert_int_equal(fast__space_lock_release(&lock, true), FAST_SPACE_WAKE_READERS);
    /* The reader that was granted entry gives up: the writer is next. */
    assert_int_equal(fast__space_lock_leave(&lock, false), FAST_SPACE_WAKE_WRITER);
    fast__space_lock_queue(&lock, false);
    /* And the writer: nothing stops the reader any more. */
    assert_int_equal(fast__space_lock_leave(&lock, true), FAST_SPACE_WAKE_READERS);
    assert_true(fast__space_lock_queued(&lock, false));
    assert_int_equal(fast__space_lock_release(&lock, false), FAST_SPACE_WAKE_NONE);
    assert_true(lock.word == 0);
}

/* A random walk: never a reader beside a writer, and whenever the lock is free and someone queues,
 * someone was told. */
static void random_walks_keep_the_rules(void **state)
{
    (void)state;
    enum { STEPS = 200000 };
    fast_space_lock lock = { 0 };
    fast_rng rng;
    fast__rng_init(&rng, 7, 0, 0, 0, 0);
    int inside[2] = { 0, 0 }, queued[2] = { 0, 0 };
    for (int i = 0; i < STEPS; i++) {
        const bool write = fast__rng_u32(&rng) % 2;
        fast_space_wake wake = FAST_SPACE_WAKE_NONE;
        bool freed = false;
        switch (fast__rng_u32(&rng) % 6) {
        case 0:
            inside[write] += fast__space_lock_try(&lock, write);
            break;
        case 1:
            if (queued[write] < 5) {
                fast__space_lock_queue(&lock, write);
                queued[write]++;
            }
            break;
        case 2:
            if (queued[write] > 0 && fast__space_lock_queued(&lock, write)) {
                queued[write]--;
                inside[write]++;
            }
            break;
        case 3:
            if (queued[write] > 0) {
                wake = fast__space_lock_leave(&lock, write);
                queued[write]--;
                freed = true;
            }
            break;
        default:
            if (inside[write] > 0) {
                wake = fast__space_lock_release(&lock, write);
                inside[write]--;
                freed = true;
            }
        }
        assert_true(inside[true] <= 1);
        assert_true(inside[true] == 0 || inside[false] == 0);
        if (freed && inside[true] + inside[false] == 0 && queued[true] + queued[false] > 0)
            assert_int_not_equal(wake, FAST_SPACE_WAKE_NONE);
        if (wake != FAST_SPACE_WAKE_NONE)
            assert_true(queued[wake == FAST_SPACE_WAKE_WRITER] > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_share_and_writers_do_not),
        cmocka_unit_test(phases_take_turns),
        cmocka_unit_test(queues_can_be_left),
        cmocka_unit_test(random_walks_keep_the_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
