/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: every collective, by every algorithm, gives the right numbers, to the bit, on real threads
 *   and in virtual time, for one to seventeen members and counts from none to many; and reads no
 *   vector outside kernels.
 * Method: the program of tests/collectives.h, which compares to the bit.
 */
#include "collectives.h"

#include "base/err.h"
#include "comm/allreduces.h"
#include "tensor/device_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

/* Sanitizers are slow: less of the same there. */
#ifdef FAST_SLOW
static const int64_t counts[] = { 0, 1, 7, 1000 };
enum { STEP = 8 };
#else
static const int64_t counts[] = { 0, 1, 2, 3, 7, 64, 1000, 4099 };
enum { STEP = 4 };
#endif
enum { COUNTS = sizeof counts / sizeof counts[0] };

/* `where` is options of the run, the transport first. */
static void run(const char *const *where, const char *algorithm, int64_t actors,
                bool allreduce_only)
{
    collectives what = { .algorithm = algorithm,
                         .counts = counts,
                         .count_count = COUNTS,
                         .seed = 11,
                         .allreduce_only = allreduce_only };
    const fast_role roles[] = { { "worker", actors, collectives_main, &what } };
    const fast_err err = fast_actors_run(where, roles, 1, NULL);
    if (err)
        print_error("%s on %s: %s\n", algorithm, where[0], fast_error_detail());
    assert_int_equal(err, FAST_OK);
}

static const char *const threads[] = { "transport=threads", "timeout=60", NULL };

static void test_threads(void **state)
{
    (void)state;
    const char *algorithms[] = { "auto",         "tree",         "butterfly", "ring",
                                 "ring:chunk=5", "rabenseifner", "direct" };
    for (int64_t n = 1; n <= 17; n += n < 9 ? STEP / 4 : STEP)
        for (int a = 0; a < 7; a++)
            run(threads, algorithms[a], n, a > 0);
}

/* A vector that is long enough for the other way of broadcasting. */
static void test_long(void **state)
{
    (void)state;
    const int64_t count = 70001;
    collectives what = { .algorithm = "rabenseifner", .counts = &count, .count_count = 1 };
    for (int64_t n = 4; n <= 7; n++) {
        const fast_role roles[] = { { "worker", n, collectives_main, &what } };
        assert_int_equal(fast_actors_run(threads, roles, 1, NULL), FAST_OK);
    }
}

/* The same bits in virtual time, whatever the links do: jitter, loss, duplicates, reordering. */
static void test_sim(void **state)
{
    (void)state;
    const char *algorithms[] = { "auto",         "tree",           "butterfly",
                                 "ring",         "rabenseifner",   "hierarchical:members=1",
                                 "ring:chunk=9", "chain:chunks=3", "dimensions",
                                 "direct" };
    const char *clusters[] = { "cluster=ideal", "cluster=edge:loss=0.2,reorder=0.2,jitter=3",
                               "cluster=hetero", "cluster=laptop" };
    for (int64_t n = 1; n <= 17; n += n < 9 ? STEP / 4 : STEP)
        for (int c = 0; c < 4; c++)
            for (int a = 0; a < (c == 3 ? 10 : 9); a++) {
                const char *seed = a % 2 ? "seed=5" : "seed=6";
                const char *where[] = { "transport=sim", "timeout=600", clusters[c], seed, NULL };
                run(where, algorithms[a], n, a > 0);
            }
}

/* Nodes of equal powers of two, however many: the canonical order. */
static void test_hierarchical(void **state)
{
    (void)state;
    for (int64_t nodes = 1; nodes <= 6; nodes += STEP / 4) {
        run(threads, "hierarchical", nodes, true);
        run(threads, "hierarchical:members=1", nodes, true);
        run(threads, "hierarchical:members=2,across=tree", 2 * nodes, true);
        run(threads, "hierarchical:members=4,across=butterfly", 4 * nodes, true);
    }
}

/* Boxes of any number of dimensions, of ranks and of nodes with several ranks. */
static void test_dimensions(void **state)
{
    const char *const nodes[] = { "transport=sim", "timeout=600", "cluster=infiniband:nodes=3",
                                  NULL };

    (void)state;
    run(threads, "dimensions:sizes=3x1x2", 6, false);
    run(threads, "dimensions:sizes=2x2x2", 8, false);
    run(threads, "dimensions:sizes=2x3x2x2", 24, false);
    run(threads, "dimensions:sizes=7", 7, false);
    run(nodes, "dimensions", 12, false);
    run(threads, "chain:chunks=1", 6, false);
    run(threads, "chain:chunks=100", 3, false);
}

/* The wrapper that verifies the contract finds nothing to complain of. */
static void test_checked(void **state)
{
    (void)state;
    const char *algorithms[] = { "tree", "ring", "rabenseifner" };
    const char *const transports[] = { "transport=threads", "transport=sim" };
    for (int t = 0; t < 2; t++)
        for (int a = 0; a < 3; a++) {
            const char *where[] = { transports[t], "timeout=60", "check=yes", NULL };
            run(where, algorithms[a], 5, false);
        }
}

/* Vectors on the device `check`: an access outside a kernel ends the test. */
static void test_devices(void **state)
{
    (void)state;
    static const int64_t few[] = { 0, 1, 7, 40 };
    const char *algorithms[] = { "tree",      "butterfly", "ring:chunk=5",           "rabenseifner",
                                 "direct",    "auto",      "hierarchical:members=1", "chain",
                                 "dimensions" };
    const char *laptop[] = { "transport=sim", "timeout=600", "cluster=laptop", NULL };
    const fast_device *device = NULL;
    assert_int_equal(fast__device_check_open(&device), FAST_OK);
    for (int a = 0; a < 9; a++)
        for (int t = 0; t < 2; t++)
            for (int64_t n = 2; n <= 5; n += 3) {
                collectives what = { algorithms[a], few, 4, 11, false, device };
                const fast_role roles[] = { { "worker", n, collectives_main, &what } };
                const fast_err err = fast_actors_run(t ? threads : laptop, roles, 1, NULL);
                if (err)
                    fail_msg("%s: %s", algorithms[a], fast_error_detail());
            }
    assert_true(fast__device_check_maps(device) > 0);
    fast__device_check_close(device);
}

/* Ranks with one actor each, and with several. */
static void test_mpi(void **state)
{
    (void)state;
    const char *algorithms[] = { "auto", "tree",         "butterfly",
                                 "ring", "rabenseifner", "hierarchical:members=2" };
    const char *where[] = { "transport=mpi", "timeout=60", NULL };
    const char *size = getenv("OMPI_COMM_WORLD_SIZE");
    const int64_t ranks = size ? atoi(size) : 1;
    for (int a = 0; a < 6; a++) {
        run(where, algorithms[a], ranks, a > 0);
        run(where, algorithms[a], 2 * ranks, a > 0);
        if (a < 5)
            run(where, algorithms[a], 2 * ranks + 1, true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),    cmocka_unit_test(test_long),
        cmocka_unit_test(test_sim),        cmocka_unit_test(test_hierarchical),
        cmocka_unit_test(test_checked),    cmocka_unit_test(test_devices),
        cmocka_unit_test(test_dimensions),
    };
    const struct CMUnitTest mpi_tests[] = { cmocka_unit_test(test_mpi) };
    /* Started by mpirun, all ranks run the programs on mpi. */
    if (getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMI_RANK") || getenv("PMIX_RANK"))
        return cmocka_run_group_tests(mpi_tests, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
