/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: counters of the kernel are read as they are documented, and texts that are not theirs leave
 * the values unknown.
 * Method: texts of real machines, cut at every byte, and texts of other shapes; then the files of
 * this machine, whose counters only grow.
 */
#include "base/usage.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char stat_text[] = "17 (a) R 1 (x) S 1 17 17 0 -1 4194304 99 0 0 0 250 150 0 0 20 0";
static const char net_text[] =
    "Inter-|   Receive                            |  Transmit\n"
    " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets\n"
    "    lo: 5000 5 0 0 0 0 0 0 5000 5 0 0 0 0 0 0\n"
    "  eth0:1000 9 0 0 0 0 0 0 300 4 0 0 0 0 0 0\n"
    " wlan0: 7 1 0 0 0 0 0 0 11 1 0 0 0 0 0 0\n";

static void texts_are_read(void **state)
{
    fast_usage u;

    (void)state;
    fast__usage_process(stat_text, 100, &u);
    assert_true(fabs(u.cpu_s - 4) < 1e-12); /* also with ')' in its name */
    fast__usage_memory("900 300 200 1 0 100 0", 4096, &u);
    assert_int_equal(u.memory, 300 * 4096);
    fast__usage_machine("cpu  100 0 50 9000 30 0 0 50 0 0\ncpu0 1 2", 100, &u);
    assert_true(fabs(u.machine_cpu_s - 2) < 1e-12);
    fast__usage_network(net_text, &u);
    assert_int_equal(u.received, 1007);
    assert_int_equal(u.sent, 311);
}

/* Cut at every byte, and of other shapes: unknown or smaller, never anything else. */
static void other_texts_are_unknown(void **state)
{
    static const char *const others[] = { "",
                                          " ",
                                          ")",
                                          "cpu",
                                          "cpu ",
                                          "cpu x",
                                          ":",
                                          "\n\n:\n",
                                          "eth0: -1 2\n",
                                          "9 99999999999999999999999",
                                          "cpu 1 2 3 99999999999999999999 5 6 7 8" };
    char text[sizeof net_text];
    fast_usage u;

    (void)state;
    for (size_t i = 0; i < sizeof net_text; i++) {
        memcpy(text, net_text, i);
        text[i] = '\0';
        fast__usage_network(text, &u);
        assert_true(u.received == -1 || u.received == 1000 || u.received == 1007);
    }
    for (size_t i = 0; i < sizeof stat_text; i++) {
        memcpy(text, stat_text, i);
        text[i] = '\0';
        fast__usage_process(text, 100, &u);
        assert_true(isnan(u.cpu_s) || u.cpu_s <= 4);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        fast__usage_process(others[i], 100, &u);
        fast__usage_memory(others[i], 4096, &u);
        fast__usage_machine(others[i], 100, &u);
        fast__usage_network(others[i], &u);
        assert_true(isnan(u.cpu_s) && isnan(u.machine_cpu_s) && u.memory == -1);
        assert_int_equal(u.received, -1);
    }
}

static void this_machine(void **state)
{
    fast_usage a, b;

    (void)state;
    fast__usage_read(&a);
    fast__usage_read(&b);
    assert_true(a.cpu_s >= 0 && b.cpu_s >= a.cpu_s);
    assert_true(a.machine_cpu_s > 0 && b.machine_cpu_s >= a.machine_cpu_s);
    assert_true(a.memory > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_read),
        cmocka_unit_test(other_texts_are_unknown),
        cmocka_unit_test(this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
