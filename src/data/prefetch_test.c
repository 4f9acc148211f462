/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the ring between maker and taker: steps are right, the maker stays within its bound, and a
 * maker that hangs is named. Method: a maker that counts, and one that waits for a semaphore.
 */
#include "data/prefetch.h"

#include "base/memory.h"

#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { DEPTH = 3 };

typedef struct ring {
    int64_t slots[DEPTH + 1]; /* the step that each holds */
    _Atomic int64_t top;      /* highest step made */
    sem_t *gate;              /* waited for before each step; NULL: none */
} ring;

static void make(void *ctx, int64_t step, int64_t slot)
{
    ring *r = ctx;
    if (r->gate != NULL)
        sem_wait(r->gate);
    r->slots[slot] = step;
    if (step > atomic_load(&r->top))
        atomic_store(&r->top, step);
}

static const int64_t minute_ns = INT64_C(60000000000);

static void steps_come_in_order(void **state)
{
    (void)state;
    ring r = { .top = -1 };
    fast_prefetch *prefetch;
    assert_int_equal(fast__prefetch_new(make, &r, DEPTH, minute_ns, &prefetch), FAST_OK);
    usleep(2000);
    assert_int_equal(atomic_load(&r.top), -1); /* it sleeps until it is asked */
    for (int64_t step = 100; step < 2000; step++) {
        int64_t slot;
        assert_int_equal(fast__prefetch_get(prefetch, step, &slot), FAST_OK);
        assert_int_equal(r.slots[slot], step);
        assert_true(atomic_load(&r.top) <= step + DEPTH);
        if (step % 500 == 0) {
            /* The slot stays ours while the maker runs ahead. */
            for (int i = 0; i < 5000 && atomic_load(&r.top) < step + DEPTH; i++)
                usleep(1000);
            usleep(1000);
            assert_int_equal(r.slots[slot], step);
            assert_int_equal(atomic_load(&r.top), step + DEPTH);
        }
    }
    fast__prefetch_free(prefetch);
    fast__prefetch_free(NULL);
}

static void a_hanging_maker_is_named(void **state)
{
    (void)state;
    sem_t gate;
    assert_int_equal(sem_init(&gate, 0, 1), 0);
    ring r = { .top = -1, .gate = &gate };
    fast_prefetch *prefetch;
    assert_int_equal(fast__prefetch_new(make, &r, DEPTH, 20000000, &prefetch), FAST_OK);
    int64_t slot = -1;
    assert_int_equal(fast__prefetch_get(prefetch, 7, &slot), FAST_OK);
    assert_int_equal(r.slots[slot], 7);
    slot = -1;
    assert_int_equal(fast__prefetch_get(prefetch, 8, &slot), FAST_ETIMEDOUT);
    assert_int_equal(slot, -1);
    assert_non_null(strstr(fast_error_detail(), "step 8 was not made"));
    for (int i = 0; i < 100; i++)
        sem_post(&gate);
    fast_err err = FAST_ETIMEDOUT;
    for (int i = 0; i < 100 && err == FAST_ETIMEDOUT; i++)
        err = fast__prefetch_get(prefetch, 8, &slot);
    assert_int_equal(err, FAST_OK);
    assert_int_equal(r.slots[slot], 8);
    fast__prefetch_free(prefetch);
    sem_destroy(&gate);
}

/* A step that was under way when the taker started over elsewhere counts for nothing there. */
static void starting_over_forgets_what_was_under_way(void **state)
{
    (void)state;
    sem_t gate;
    assert_int_equal(sem_init(&gate, 0, 1), 0);
    ring r = { .top = -1, .gate = &gate };
    fast_prefetch *prefetch;
    assert_int_equal(fast__prefetch_new(make, &r, DEPTH, 20000000, &prefetch), FAST_OK);
    int64_t slot = -1;
    fast_err err = FAST_ETIMEDOUT;
    for (int i = 0; i < 100 && err == FAST_ETIMEDOUT; i++)
        err = fast__prefetch_get(prefetch, 7, &slot);
    assert_int_equal(err, FAST_OK);
    assert_int_equal(fast__prefetch_get(prefetch, 3, &slot), FAST_ETIMEDOUT); /* it is at 8 */
    sem_post(&gate);
    err = fast__prefetch_get(prefetch, 3, &slot); /* 8 is made, 3 is not */
    assert_int_equal(err, FAST_ETIMEDOUT);
    for (int i = 0; i < 100; i++)
        sem_post(&gate);
    for (int i = 0; i < 100 && err == FAST_ETIMEDOUT; i++)
        err = fast__prefetch_get(prefetch, 3, &slot);
    assert_int_equal(err, FAST_OK);
    assert_int_equal(r.slots[slot], 3);
    fast__prefetch_free(prefetch);
    sem_destroy(&gate);
}

static void memory_may_run_out(void **state)
{
    (void)state;
    ring r = { .top = -1 };
    fast_prefetch *prefetch = NULL;
    fast__alloc_fail_after(0, true);
    assert_int_equal(fast__prefetch_new(make, &r, DEPTH, minute_ns, &prefetch), FAST_ENOMEM);
    fast__alloc_fail_after(-1, true);
    assert_null(prefetch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_come_in_order),
        cmocka_unit_test(a_hanging_maker_is_named),
        cmocka_unit_test(starting_over_forgets_what_was_under_way),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
