/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compatibility matrix: strategy x topology x update rule x transport. Goal: each cell runs,
 * learns and in sim repeats, or is refused with a reason, never anything else. Method: the runs of
 * tests/matrix.c. Here every two values of two dimensions that go together occur in a cell (a
 * pairwise cover), and those that do not are refused; `tools/soak matrix` runs every cell.
 *
 *     matrix_test                       the cover on threads and sim
 *     matrix_test mpi                   its cells on mpi, under mpirun
 *     matrix_test all TRANSPORT FILE    every cell of a transport; FILE.PROCESS receives a line for
 *                [MEMBER ...]           each, with tabs between: the values, outcome, reason. Of
 *                                       some members only, where such are named
 */
#include "matrix.h"

#include "base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { ROWS_MAX = 20000, FILE_MAX = 1 << 22 };

#ifdef FAST_SANITIZED
enum { STRIDE = 12 }; /* every STRIDE-th cell is run */
#else
enum { STRIDE = 1 };
#endif

static bool on_ranks; /* run the cells on mpi, and only those */

/* Which pairs of the strategy and another dimension are refused: by trying. */
typedef struct refusals {
    bool refused[TEST_DIMENSIONS][TEST_VALUES_MAX]
                [TEST_VALUES_MAX]; /* dimension, strategy, value */
} refusals;

static refusals known;

static int transport_of(const char *name)
{
    const test_dimension *d = &test_matrix()[TEST_TRANSPORT];

    for (int i = 0; i < d->count; i++)
        if (strcmp(d->values[i], name) == 0)
            return i;
    return -1;
}

/* The cell with this strategy and one other value; else the standard ones in sim, which makes no
 * threads. */
static test_row cell_of(int strategy, int dimension, int value)
{
    test_row row = { { 0 } };

    row.value[TEST_STRATEGY] = strategy;
    row.value[TEST_TRANSPORT] = transport_of("sim");
    row.value[dimension] = value;
    return row;
}

static void probe_pairs(void)
{
    const test_dimension *d = test_matrix();
    char why[TEST_CELL_TEXT], name[TEST_CELL_TEXT];

    for (int s = 0; s < d[TEST_STRATEGY].count; s++)
        for (int k = TEST_TOPOLOGY; k <= TEST_RULE; k++)
            for (int v = 0; v < d[k].count; v++) {
                const test_row cell = cell_of(s, k, v);
                const test_outcome outcome = test_cell(&cell, true, why);

                test_cell_name(&cell, name);
                if (outcome == TEST_FAILED)
                    fail_msg("%s: %s", name, why);
                known.refused[k][s][v] = outcome == TEST_REFUSED;
            }
}

/* Workers on several ranks share no memory. */
static void refuse_near(int transport)
{
    const test_dimension *d = test_matrix();

    for (int s = 0; s < d[TEST_STRATEGY].count; s++)
        known.refused[TEST_TRANSPORT][s][transport] = test_is_near(d[TEST_STRATEGY].values[s]);
}

static bool goes_together(const void *ctx, int a, int va, int b, int vb)
{
    (void)ctx;
    return a != TEST_STRATEGY || !known.refused[b][va][vb];
}

/* The rows are a cover: no pair that goes together is missing, and none is there that does not. */
static void check_cover(const int *sizes, const test_row *rows, int count)
{
    for (int a = 0; a < TEST_DIMENSIONS; a++)
        for (int b = a + 1; b < TEST_DIMENSIONS; b++)
            for (int i = 0; i < sizes[a] * sizes[b]; i++) {
                const int va = i / sizes[b], vb = i % sizes[b];
                bool found = false;

                for (int r = 0; r < count && !found; r++)
                    found = rows[r].value[a] == va && rows[r].value[b] == vb;
                assert_int_equal(found, goes_together(NULL, a, va, b, vb));
            }
}

/* The first value of the dimension that has the same name, whatever its options. */
static int family_of(int dimension, int value)
{
    const test_dimension *d = &test_matrix()[dimension];
    const size_t size = strcspn(d->values[value], ":");
    int first = 0;

    while (strcspn(d->values[first], ":") != size ||
           strncmp(d->values[first], d->values[value], size) != 0)
        first++;
    return first;
}

/* Ranks that share cores are slow: of theirs, the rows with a family that was not there yet. */
static bool is_news(const test_row *row)
{
    static bool seen[TEST_DIMENSIONS][TEST_VALUES_MAX];
    bool news = false;

    for (int d = 0; d < TEST_DIMENSIONS; d++) {
        const int family = family_of(d, row->value[d]);

        news = news || !seen[d][family];
        seen[d][family] = true;
    }
    return news;
}

/* Run every STRIDE-th row of these transports; the sum of what failed. */
static int run_rows(const test_row *rows, int count)
{
    const int mpi = transport_of("mpi");
    char why[TEST_CELL_TEXT], name[TEST_CELL_TEXT];
    int failed = 0;

    for (int r = 0; r < count; r += STRIDE) {
        if ((rows[r].value[TEST_TRANSPORT] == mpi) != on_ranks || (on_ranks && !is_news(&rows[r])))
            continue;
        test_cell_name(&rows[r], name);
        if (test_cell(&rows[r], false, why) != TEST_RAN) {
            print_error("%s: %s\n", name, why);
            failed++;
        }
    }
    return failed;
}

static void every_pair_runs_or_is_refused(void **state)
{
    const test_dimension *d = test_matrix();
    static test_row rows[ROWS_MAX];
    int sizes[TEST_DIMENSIONS], count;
    int64_t cells = 1;

    (void)state;
    probe_pairs();
    if (on_ranks)
        refuse_near(transport_of("mpi"));
    for (int i = 0; i < TEST_DIMENSIONS; i++) {
        sizes[i] = d[i].count;
        cells *= sizes[i];
    }
    count = test_cover(sizes, TEST_DIMENSIONS, goes_together, NULL, rows, ROWS_MAX);
    assert_true(count > 0);
    check_cover(sizes, rows, count);
    print_message("%d cells for all pairs of %lld cells\n", count, (long long)cells);
    assert_int_equal(run_rows(rows, count), 0);
}

/* A strategy without a topology says so for each. */
static void topologies_without_use_are_refused(void **state)
{
    const test_dimension *d = test_matrix();

    (void)state;
    for (int s = 0; s < d[TEST_STRATEGY].count; s++)
        for (int v = 1; v < d[TEST_TOPOLOGY].count; v++)
            if (!test_has_topology(d[TEST_STRATEGY].values[s]))
                assert_true(known.refused[TEST_TOPOLOGY][s][v]);
}

/* Where everything goes together the cover is far smaller than the product. */
static bool always(const void *ctx, int a, int va, int b, int vb)
{
    (void)ctx;
    return a < b && va >= 0 && vb >= 0;
}

/* One pair of values is not allowed together. */
static bool but_one(const void *ctx, int a, int va, int b, int vb)
{
    return always(ctx, a, va, b, vb) && !(a == 0 && b == 2 && va == 1 && vb == 2);
}

/* Value 0 of the first dimension goes with nothing of the second. */
static bool nothing(const void *ctx, int a, int va, int b, int vb)
{
    return always(ctx, a, va, b, vb) && !(a == 0 && b == 1 && va == 0);
}

static void covers_are_small(void **state)
{
    static const int sizes[] = { 7, 5, 4, 3 };
    test_row rows[100];
    int count = test_cover(sizes, 4, always, NULL, rows, 100);

    (void)state;
    assert_in_range(count, 35, 45);
    count = test_cover(sizes, 4, but_one, NULL, rows, 100);
    assert_in_range(count, 35, 45);
    for (int r = 0; r < count; r++)
        assert_false(rows[r].value[0] == 1 && rows[r].value[2] == 2);
    assert_int_equal(test_cover(sizes, 4, nothing, NULL, rows, 100), -1);
    assert_int_equal(test_cover(sizes, 4, always, NULL, rows, 30), -1);
}

/* The table in the documents has every strategy, topology, rule and transport of this build. */
static void document_is_of_this_build(void **state)
{
    static char text[FILE_MAX];
    const test_dimension *d = test_matrix();
    FILE *file = fopen(FAST_SOURCE_FOLDER "/results/matrix.md", "r");
    size_t size;

    (void)state;
    assert_non_null(file);
    size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = '\0';
    for (int k = 0; k < TEST_DIMENSIONS; k++)
        for (int v = 0; v < d[k].count; v++) {
            char quoted[TEST_CELL_TEXT];

            if (strchr(d[k].values[v], ':')) /* a member: presets change often */
                continue;
            snprintf(quoted, sizeof quoted, "`%s`", d[k].values[v]);
            if (!strstr(text, quoted))
                fail_msg("results/matrix.md is older than %s=%s; make it again: tools/soak matrix",
                         d[k].option, d[k].values[v]);
        }
}

/* One cell of the whole matrix as a line of the file. */
static bool write_cell(const test_row *cell, FILE *file)
{
    static const char *const words[] = { "ran", "refused", "failed" };
    const test_dimension *d = test_matrix();
    char why[TEST_CELL_TEXT] = "", name[TEST_CELL_TEXT];
    const test_outcome outcome = test_cell(cell, false, why);

    for (int k = 0; k < TEST_DIMENSIONS; k++)
        fprintf(file, "%s\t", d[k].values[cell->value[k]]);
    fprintf(file, "%s\t%s\n", words[outcome], why);
    if (outcome == TEST_FAILED) {
        test_cell_name(cell, name);
        fprintf(stderr, "%s: %s\n", name, why);
    }
    return outcome != TEST_FAILED;
}

/* Whether a member is in the list; an empty one has all. */
static bool is_named(const char *member, char **members, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(member, members[i]) == 0)
            return true;
    return count == 0;
}

/* Every cell of a transport; what needs no more than opening to be refused is refused so. */
static int run_all(const char *transport, const char *path, char **members, int member_count)
{
    const test_dimension *d = test_matrix();
    test_row row = { { 0 } };
    char own[1024];
    FILE *file;
    int failed = 0;

    /* Ranks each have a file. */
    snprintf(own, sizeof own, "%s.%ld", path, (long)getpid());
    file = fopen(own, "w");
    row.value[TEST_TRANSPORT] = transport_of(transport);
    if (!file || row.value[TEST_TRANSPORT] < 0)
        return 2;
    for (int s = 0; s < d[TEST_STRATEGY].count; s++)
        for (int t = 0; t < d[TEST_TOPOLOGY].count; t++)
            for (int r = 0; r < d[TEST_RULE].count; r++) {
                if (!is_named(d[TEST_STRATEGY].values[s], members, member_count))
                    continue;
                row.value[TEST_STRATEGY] = s;
                row.value[TEST_TOPOLOGY] = t;
                row.value[TEST_RULE] = r;
                failed += !write_cell(&row, file);
            }
    if (fclose(file))
        return 2;
    return failed > 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(covers_are_small),
        cmocka_unit_test(every_pair_runs_or_is_refused),
        cmocka_unit_test(topologies_without_use_are_refused),
        cmocka_unit_test(document_is_of_this_build),
    };
    const struct CMUnitTest ranks[] = { cmocka_unit_test(every_pair_runs_or_is_refused) };

    if (argc >= 4 && strcmp(argv[1], "all") == 0)
        return run_all(argv[2], argv[3], argv + 4, argc - 4);
    on_ranks = argc > 1 && strcmp(argv[1], "mpi") == 0;
    return on_ranks ? cmocka_run_group_tests(ranks, NULL, NULL)
                    : cmocka_run_group_tests(tests, NULL, NULL);
}
