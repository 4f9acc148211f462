/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: every topology is the graph that its name says and is fit for mixing. Method: all kinds
 * over many sizes are checked (sums, both directions agree, everyone is reached), degrees and
 * single links against the definitions, gaps against known eigenvalues; bad names, sizes and files
 * give one sentence; every allocation may fail.
 */
#include "base/memory.h"
#include "comm/topology.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { SIZE_MAX_HERE = 70 };

static fast_topology *make(const char *spec, int64_t size)
{
    fast_topology *topology = NULL;

    assert_int_equal(fast_topology_new(spec, size, 7, &topology), FAST_OK);
    assert_int_equal(fast_topology_size(topology), size);
    return topology;
}

/* w(i, j) of a step as a matrix, from the senders' side or the receivers'. */
static void matrix(const fast_topology *topology, int64_t step, bool in, double *w)
{
    const int64_t n = fast_topology_size(topology);
    int64_t ranks[SIZE_MAX_HERE];
    double weights[SIZE_MAX_HERE];

    memset(w, 0, (size_t)(n * n) * sizeof *w);
    for (int64_t r = 0; r < n; r++) {
        double self = -1;
        const int64_t count = in ? fast_topology_in(topology, step, r, ranks, weights, &self)
                                 : fast_topology_out(topology, step, r, ranks, weights, &self);

        assert_true(count <= fast_topology_degree_max(topology));
        w[r * n + r] = self;
        for (int64_t i = 0; i < count && !in; i++) { /* one by one, from any number on */
            int64_t found = -1;

            assert_int_equal(fast__topology_out_at(topology, step, r, i + 2 * count, &found),
                             ranks[i]);
            assert_int_equal(found, count);
        }
        for (int64_t i = 0; i < count; i++) {
            const int64_t from = in ? ranks[i] : r;
            const int64_t to = in ? r : ranks[i];

            assert_int_not_equal(ranks[i], r);
            assert_true(w[from * n + to] == 0);
            w[from * n + to] = weights[i];
        }
    }
}

static void check_one(const char *spec, int64_t size)
{
    static double out[SIZE_MAX_HERE * SIZE_MAX_HERE];
    static double in[SIZE_MAX_HERE * SIZE_MAX_HERE];
    fast_topology *topology = make(spec, size);
    const int64_t period = fast_topology_period(topology);

    if (fast_topology_check(topology) != FAST_OK)
        fail_msg("%s of %lld: %s", spec, (long long)size, fast_error_detail());
    for (int64_t t = 0; t < (period ? 2 * period : 5) && t < 20; t++) {
        matrix(topology, t, false, out);
        matrix(topology, t, true, in);
        for (int64_t i = 0; i < size * size; i++) {
            assert_true(fabs(out[i] - in[i]) < 1e-15);
            if (!fast_topology_is_directed(topology))
                assert_true(fabs(out[i] - out[i % size * size + i / size]) < 1e-15);
        }
    }
    fast_topology_free(topology);
}

static void all_kinds_are_fit(void **state)
{
    static const char *const any[] = { "ring",
                                       "line",
                                       "tree",
                                       "tree:arity=3",
                                       "star",
                                       "full",
                                       "exponential",
                                       "exponential:one=yes",
                                       "exponential:one=yes,renumber=3",
                                       "grid",
                                       "grid:axes=1",
                                       "grid:axes=3",
                                       "torus",
                                       "halton",
                                       "pairs",
                                       "pairs:order=random" };

    (void)state;
    for (size_t k = 0; k < sizeof any / sizeof *any; k++)
        for (int64_t size = 1; size <= 17; size++)
            check_one(any[k], size);
    for (size_t k = 0; k < sizeof any / sizeof *any; k++)
        check_one(any[k], 64);
    for (int64_t size = 1; size <= 64; size *= 2) {
        check_one("hypercube", size);
        check_one("hypercube:one=yes", size);
    }
    for (int64_t size = 5; size <= 40; size++)
        check_one("random", size);
    check_one("random:degree=3", 20);
    check_one("random:degree=1", 2);
    check_one("torus:rows=2", 14);
}

static bool has_link(const fast_topology *topology, int64_t step, int64_t from, int64_t to)
{
    int64_t ranks[SIZE_MAX_HERE];
    double weights[SIZE_MAX_HERE];
    double self;
    const int64_t count = fast_topology_out(topology, step, from, ranks, weights, &self);

    for (int64_t i = 0; i < count; i++)
        if (ranks[i] == to)
            return true;
    return false;
}

/* Partners rotate: with renumber=N each of N passes has partners of its own, then they repeat. */
static void passes_have_other_partners(void **state)
{
    enum { SIZE = 16, STEPS = 4, PASSES = 3 };
    fast_topology *topology = make("exponential:one=yes,renumber=3", SIZE);
    int others[PASSES] = { 0 };

    (void)state;
    for (int64_t pass = 1; pass <= PASSES; pass++)
        for (int64_t from = 0; from < SIZE; from++)
            for (int64_t to = 0; to < SIZE; to++)
                others[pass - 1] +=
                    has_link(topology, 0, from, to) != has_link(topology, pass * STEPS, from, to);
    fast_topology_free(topology);
    assert_true(others[0] > SIZE / 2 && others[1] > SIZE / 2);
    assert_int_equal(others[2], 0);
}

static void links_are_as_defined(void **state)
{
    fast_topology *topology = make("ring", 5);

    (void)state;
    assert_true(has_link(topology, 0, 0, 4) && has_link(topology, 0, 4, 0));
    assert_false(has_link(topology, 0, 0, 2));
    fast_topology_free(topology);

    topology = make("halton", 16); /* 16 / 2, / 4, 3 / 4, / 8, and 1 */
    assert_true(fast_topology_is_directed(topology));
    assert_int_equal(fast_topology_degree_max(topology), 5);
    assert_true(has_link(topology, 0, 3, 4));
    assert_true(has_link(topology, 0, 3, 11) && has_link(topology, 0, 3, 7));
    assert_true(has_link(topology, 0, 3, 15) && has_link(topology, 0, 3, 5));
    fast_topology_free(topology);

    topology = make("exponential:one=yes", 8);
    assert_int_equal(fast_topology_period(topology), 3);
    assert_true(has_link(topology, 0, 6, 7) && has_link(topology, 1, 6, 0));
    assert_true(has_link(topology, 5, 6, 2) && !has_link(topology, 5, 6, 7));
    fast_topology_free(topology);

    topology = make("torus:rows=3", 12);
    assert_int_equal(fast_topology_degree_max(topology), 4);
    assert_true(has_link(topology, 0, 0, 1) && has_link(topology, 0, 0, 3));
    assert_true(has_link(topology, 0, 0, 4) && has_link(topology, 0, 0, 8));
    fast_topology_free(topology);

    topology = make("tree:arity=3", 13);
    assert_true(has_link(topology, 0, 0, 3) && has_link(topology, 0, 3, 12));
    assert_false(has_link(topology, 0, 0, 4));
    fast_topology_free(topology);
}

/* Over a period of pairs each rank exchanges with every other once, and rests at most once. */
static void pairs_are_a_tournament(void **state)
{
    (void)state;
    for (int64_t n = 2; n <= 13; n++) {
        fast_topology *topology = make("pairs", n);
        int met[16][16] = { { 0 } };

        for (int64_t t = 0; t < fast_topology_period(topology); t++)
            for (int64_t r = 0; r < n; r++)
                for (int64_t q = 0; q < n; q++)
                    met[r][q] += has_link(topology, t, r, q);
        for (int64_t r = 0; r < n; r++)
            for (int64_t q = 0; q < n; q++)
                assert_int_equal(met[r][q], r != q);
        fast_topology_free(topology);
    }
}

/* Random graphs follow the seed, and are as regular as they say. */
static void random_graphs_are_regular(void **state)
{
    static double one[40 * 40];
    static double two[40 * 40];
    fast_topology *a = make("random:degree=5", 40);
    fast_topology *b = make("random:degree=5", 40);
    fast_topology *c = NULL;

    (void)state;
    assert_int_equal(fast_topology_new("random:degree=5", 40, 8, &c), FAST_OK);
    matrix(a, 0, false, one);
    matrix(b, 0, false, two);
    assert_memory_equal(one, two, sizeof one);
    for (int64_t r = 0; r < 40; r++) {
        int64_t degree = -1;

        for (int64_t q = 0; q < 40; q++)
            degree += one[r * 40 + q] > 0;
        assert_int_equal(degree, 5);
    }
    matrix(c, 0, false, two);
    assert_memory_not_equal(one, two, sizeof one);
    fast_topology_free(a);
    fast_topology_free(b);
    fast_topology_free(c);
}

static void gaps_are_known(void **state)
{
    const double pi = acos(-1.0);
    const struct {
        const char *spec;
        int64_t size;
        double gap;
    } known[] = {
        { "ring", 16, 1 - (1 + 2 * cos(2 * pi / 16)) / 3 },
        { "ring", 1000, 1 - (1 + 2 * cos(2 * pi / 1000)) / 3 },
        { "full", 9, 1 },
        { "hypercube", 16, 2.0 / 5 },
        { "hypercube:one=yes", 16, 1 },
        { "exponential:one=yes", 32, 1 },
        { "exponential:one=yes,renumber=4", 32, 1 },
        { "grid", 12, 1 },
        { "grid:axes=3", 24, 1 },
        /* A line's Metropolis weights: 1/3 inside; eigenvalues 1 - 2/3 (1 - cos(pi k / n)). */
        { "line", 8, 2.0 / 3 * (1 - cos(pi / 8)) },
        { "star", 5, 1.0 / 5 },
    };

    (void)state;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        fast_topology *topology = make(known[k].spec, known[k].size);
        const double gap = fast_topology_gap(topology);

        if (!(fabs(gap - known[k].gap) < 1e-6))
            fail_msg("%s of %lld: gap %.9f, expected %.9f", known[k].spec, (long long)known[k].size,
                     gap, known[k].gap);
        fast_topology_free(topology);
    }
}

static void bad_ones_are_refused(void **state)
{
    const struct {
        const char *spec;
        int64_t size;
        const char *says;
    } bad[] = {
        { "rign", 4, "did you mean \"ring\"" },
        { "ring", 0, "1 to" },
        { "ring:k=2", 4, "k" },
        { "hypercube", 6, "power of two" },
        { "torus:rows=4", 6, "4 rows" },
        { "random:degree=3", 5, "even" },
        { "random:degree=6", 6, "below" },
        { "halton:degree=9", 6, "lower degree" },
        { "tree:arity=0", 6, "arity" },
        { "file", 4, "file:PATH" },
        { "file:", 4, "file:PATH" },
    };
    fast_topology *topology = NULL;

    (void)state;
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        assert_int_equal(fast_topology_new(bad[k].spec, bad[k].size, 1, &topology), FAST_EINVAL);
        if (!strstr(fast_error_detail(), bad[k].says))
            fail_msg("%s: %s", bad[k].spec, fast_error_detail());
    }
    assert_int_equal(fast_topology_new("file:/nowhere/at/all", 4, 1, &topology), FAST_ENOENT);
    assert_null(topology);
}

static fast_err parse(const char *text, int64_t size, fast_topology **out)
{
    return fast__topology_parse(text, strlen(text), size, out);
}

static void files_are_read(void **state)
{
    const struct {
        const char *text;
        const char *says;
    } bad[] = {
        { "0 1\n", "size N" },
        { "size 3\n0 1\n", "rank 2 is not reached" },
        { "size 4\n0 1\n1 0\n2 3\n", "twice" },
        { "size 2\n0 0\n", "itself" },
        { "size 2\n0 2\n", "line 2 names rank 2; ranks are 0 to 1" },
        { "size 2\n0 1 0.5 9\n", "line 2" },
        { "size 2\n0 1 1.5\n", "from 0 to 1" },
        { "size 2\n0 1 nan\n", "line 2" },
        { "size 3\n0 1 0.5\n1 2\n", "either all" },
        { "size 3\n0 1 0.9\n1 2 0.9\n", "less than 0" },
        { "size 3\nsize 4\n", "4 ranks" },
        { "hello\n", "line 1" },
    };
    fast_topology *topology = NULL;
    int64_t ranks[4];
    double weights[4];
    double self = 0;

    (void)state;
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        assert_int_equal(parse(bad[k].text, 0, &topology), FAST_EINVAL);
        if (!strstr(fast_error_detail(), bad[k].says))
            fail_msg("%s: %s", bad[k].text, fast_error_detail());
    }
    assert_int_equal(parse("size 2\n0 1\n", 3, &topology), FAST_EINVAL);
    assert_null(topology);

    assert_int_equal(
        parse("# two steps\nsize 4\n0 1 0.25\n2 3 0.25\nstep\n0 2 0.5\n1 3 0.5", 4, &topology),
        FAST_OK);
    assert_int_equal(fast_topology_period(topology), 2);
    assert_int_equal(fast_topology_out(topology, 2, 1, ranks, weights, &self), 1);
    assert_int_equal(ranks[0], 0);
    assert_true(weights[0] == 0.25 && self == 0.75);
    assert_int_equal(fast_topology_out(topology, 3, 1, ranks, weights, &self), 1);
    assert_int_equal(ranks[0], 3);
    fast_topology_free(topology);

    /* Directed with unequal degrees: good for push-sum, and refused for plain mixing. */
    assert_int_equal(parse("directed\nsize 3\n0 1\n0 2\n1 0\n2 0", 3, &topology), FAST_OK);
    assert_int_equal(fast_topology_out(topology, 0, 0, ranks, weights, &self), 2);
    assert_true(fabs(weights[0] + weights[1] + self - 1) < 1e-15);
    assert_int_equal(fast_topology_check(topology), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "push-sum"));
    fast_topology_free(topology);
}

static void memory_may_run_out(void **state)
{
    static const char *const specs[] = {
        "full",  "halton", "exponential:one=yes,renumber=2", "hypercube:one=yes", "random",
        "pairs", "torus"
    };

    (void)state;
    for (size_t k = 0; k < sizeof specs / sizeof *specs; k++) {
        fast_topology *topology = NULL;
        fast_err err = FAST_ENOMEM;

        for (int64_t n = 0; err; n++) {
            fast__alloc_fail_after(n, true);
            err = fast_topology_new(specs[k], 16, 1, &topology);
            fast__alloc_fail_after(-1, true);
            /* The check inside of random may fail alone; then it only draws again. */
            assert_true(err == FAST_OK || err == FAST_ENOMEM);
            assert_true((topology != NULL) == (err == FAST_OK));
        }
        fast_topology_free(topology);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_kinds_are_fit),         cmocka_unit_test(passes_have_other_partners),
        cmocka_unit_test(links_are_as_defined),      cmocka_unit_test(pairs_are_a_tournament),
        cmocka_unit_test(random_graphs_are_regular), cmocka_unit_test(gaps_are_known),
        cmocka_unit_test(bad_ones_are_refused),      cmocka_unit_test(files_are_read),
        cmocka_unit_test(memory_may_run_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
