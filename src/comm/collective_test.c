/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: every collective, by every algorithm, gives the right numbers on real threads, for one to
 *   seventeen members and counts from none to more than a message's worth.
 * Method: the program of tests/collectives.h, which compares to the bit.
 */
#include "collectives.h"

#include "base/err.h"
#include "comm/allreduce.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static const int64_t counts[] = { 0, 1, 2, 3, 7, 64, 1000, 4099 };
enum { COUNTS = sizeof counts / sizeof counts[0] };

static void run(const char *transport, const char *algorithm, int64_t actors, bool allreduce_only)
{
    collectives what = { .algorithm = algorithm,
                         .counts = counts,
                         .count_count = COUNTS,
                         .seed = 11,
                         .allreduce_only = allreduce_only };
    const fast_role roles[] = { { "worker", actors, collectives_main, &what } };
    char option[64];
    snprintf(option, sizeof option, "transport=%s", transport);
    const char *options[] = { option, "timeout=60", NULL };
    const fast_err err = fast_actors_run(options, roles, 1, NULL);
    if (err)
        print_error("%s on %s: %s\n", algorithm, transport, fast_error_detail());
    assert_int_equal(err, FAST_OK);
}

static void test_threads(void **state)
{
    (void)state;
    const char *algorithms[] = { "auto",         "tree",         "butterfly", "ring",
                                 "ring:chunk=5", "rabenseifner", "direct" };
    for (int64_t n = 1; n <= 17; n += n < 9 ? 1 : 4)
        for (int a = 0; a < 7; a++)
            run("threads", algorithms[a], n, a > 0);
}

/* Nodes of equal powers of two, however many: the canonical order. */
static void test_hierarchical(void **state)
{
    (void)state;
    for (int64_t nodes = 1; nodes <= 6; nodes++) {
        run("threads", "hierarchical", nodes, true);
        run("threads", "hierarchical:members=1", nodes, true);
        run("threads", "hierarchical:members=2,across=tree", 2 * nodes, true);
        run("threads", "hierarchical:members=4,across=butterfly", 4 * nodes, true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_hierarchical),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
