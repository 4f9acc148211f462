/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a rank's sleep ends when another process rings, no ring is lost, and a page that is not the
 * rank's own is not used.
 * Method: a child process maps the bell by its card and rings while the parent sleeps, and before
 * it does. Cards with a wrong token, file or process are silent.
 */
#include "transport/mpi/bell.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND_NS ((int64_t)1000 * 1000 * 1000)

enum { RANKS = 2, RINGS = 200 };

/* Ring `count` times for rank 0 from another process, each after `pause_ns`. */
static pid_t ring(const fast_bell_card *card, int count, int64_t pause_ns)
{
    const pid_t child = fork();
    fast_bell_card mine;
    fast_bells *bells = NULL;

    if (child != 0)
        return child;
    if (fast__bells_new(RANKS, &mine, &bells) != FAST_OK)
        _exit(1);
    fast__bells_add(bells, 0, card);
    fast__bells_add(bells, 1, &mine);
    if (!fast__bells_are_all(bells))
        _exit(2);
    for (int i = 0; i < count; i++) {
        nanosleep(&(struct timespec){ .tv_nsec = pause_ns }, NULL);
        fast__bells_ring(bells, 0);
    }
    fast__bells_free(bells);
    _exit(0);
}

static void check_exit(pid_t child)
{
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* Each ring ends a sleep of a minute, whenever it comes; a ring before the sleep does too. */
static void test_ring(void **state)
{
    fast_bell_card card;
    fast_bells *bells = NULL;
    unsigned heard;

    (void)state;
    assert_int_equal(fast__bells_new(RANKS, &card, &bells), FAST_OK);
    assert_true(card.fd >= 0);
    heard = fast__bells_heard(bells);
    const int64_t start = fast__clock_ns();
    const pid_t child = ring(&card, RINGS, 1000 * 1000);
    for (const unsigned first = heard; heard - first < RINGS;) {
        fast__bells_sleep(bells, heard, 60 * SECOND_NS);
        heard = fast__bells_heard(bells);
    }
    assert_true(fast__clock_ns() - start < 30 * SECOND_NS);
    check_exit(child);
    heard = fast__bells_heard(bells);
    check_exit(ring(&card, 1, 0));
    fast__bells_sleep(bells, heard, 60 * SECOND_NS);
    assert_true(fast__clock_ns() - start < 60 * SECOND_NS);
    fast__bells_free(bells);
}

/* Without a ring a sleep lasts its time. */
static void test_silence(void **state)
{
    fast_bell_card card;
    fast_bells *bells = NULL;

    (void)state;
    assert_int_equal(fast__bells_new(1, &card, &bells), FAST_OK);
    const int64_t start = fast__clock_ns();
    while (fast__clock_ns() - start < SECOND_NS / 50)
        fast__bells_sleep(bells, fast__bells_heard(bells), SECOND_NS / 50);
    fast__bells_free(bells);
    fast__bells_free(NULL);
}

/* Cards that lead to no page, or to another one. */
static void test_wrong(void **state)
{
    fast_bell_card card;
    fast_bells *bells = NULL;

    (void)state;
    assert_int_equal(fast__bells_new(5, &card, &bells), FAST_OK);
    fast__bells_add(bells, 0, &(fast_bell_card){ .pid = card.pid, .fd = -1 });
    fast__bells_add(bells, 1, &(fast_bell_card){ card.pid, card.fd, card.token + 1 });
    fast__bells_add(bells, 2, &(fast_bell_card){ card.pid, 1, card.token });
    fast__bells_add(bells, 3, &(fast_bell_card){ 1 << 30, card.fd, card.token });
    for (int rank = 0; rank < 5; rank++)
        fast__bells_ring(bells, rank); /* nobody hears it */
    assert_int_equal(fast__bells_heard(bells), 0);
    fast__bells_add(bells, 4, &card);
    fast__bells_ring(bells, 4);
    assert_int_equal(fast__bells_heard(bells), 1);
    assert_false(fast__bells_are_all(bells));
    fast__bells_free(bells);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
