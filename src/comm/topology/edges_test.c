/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the second largest eigenvalue of randomised gossip, and probabilities of edges that lower
 * it. Method: eigenvalues of graphs in closed form; the optimum of a line of four, by calculus; a
 * fine grid of all probabilities of a graph that is not regular; averages of random pairs, whose
 * distance to the mean falls as the eigenvalue says; every allocation may fail.
 */
#include "base/memory.h"
#include "base/rng.h"
#include "comm/edges.h"
#include "comm/topology.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const double PI = 3.14159265358979323846;

static fast_edges *list(const char *spec, int64_t size)
{
    fast_topology *topology = NULL;
    fast_edges *edges = NULL;

    assert_int_equal(fast_topology_new(spec, size, 7, &topology), FAST_OK);
    assert_int_equal(fast__edges_new(topology, false, &edges), FAST_OK);
    fast_topology_free(topology);
    return edges;
}

static fast_edges *parse(const char *text, int64_t size, bool weighted)
{
    fast_topology *topology = NULL;
    fast_edges *edges = NULL;

    assert_int_equal(fast__topology_parse(text, strlen(text), size, &topology), FAST_OK);
    assert_int_equal(fast__edges_new(topology, weighted, &edges), FAST_OK);
    fast_topology_free(topology);
    return edges;
}

static double eigenvalue(const fast_edges *edges)
{
    double value = -1;

    assert_int_equal(fast__edges_eigenvalue(edges, &value), FAST_OK);
    return value;
}

static double *p_of(fast_edges *edges, int64_t from, int64_t to)
{
    for (int64_t k = edges->start[from]; k < edges->start[from + 1]; k++)
        if (edges->peer[k] == to)
            return &edges->p[k];
    fail_msg("no edge %d %d", (int)from, (int)to);
    return NULL;
}

/* Uniform choices: complete graphs have 1 - 1 / (n - 1), stars 1 - 1 / (2 (n - 1)), rings
 * 1 - (1 - cos(2 pi / n)) / n, and one pair is averaged at once. */
static void eigenvalues_are_the_closed_forms(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= FAST_EDGES_SIZE_MAX; n = n < 8 ? n + 1 : 2 * n) {
        const double size = (double)n;
        fast_edges *full = list("full", n), *star = list("star", n), *ring = list("ring", n);

        assert_true(fabs(eigenvalue(full) - (n < 3 ? 0 : 1 - 1 / (size - 1))) < 1e-12);
        if (n <= 8)
            assert_int_equal(fast__edges_optimise(full), FAST_OK); /* has nothing to gain */
        assert_true(fabs(eigenvalue(full) - (n < 3 ? 0 : 1 - 1 / (size - 1))) < 1e-9);
        if (n >= 2)
            assert_true(fabs(eigenvalue(star) - (n < 3 ? 0 : 1 - 0.5 / (size - 1))) < 1e-12);
        if (n >= 3)
            assert_true(fabs(eigenvalue(ring) - (1 - (1 - cos(2 * PI / size)) / size)) < 1e-12);
        fast__edges_free(full);
        fast__edges_free(star);
        fast__edges_free(ring);
    }
}

/* The inner ranks of a line of four choose the outer ones with probability p, the edges have 1 + p
 * and 2 (1 - p): mu = 3 - p - sqrt(5 p^2 - 6 p + 5), 0.697 for p = 1/2, and the most, 0.8, for
 * p = 1/5. So the eigenvalue falls from 0.9129 to 0.9. */
static void a_line_has_its_optimum(void **state)
{
    fast_edges *line = list("line", 4);

    (void)state;
    assert_true(fabs(eigenvalue(line) - (1 - (2.5 - sqrt(3.25)) / 8)) < 1e-12);
    assert_int_equal(fast__edges_optimise(line), FAST_OK);
    assert_true(fabs(eigenvalue(line) - 0.9) < 1e-6);
    assert_true(fabs(*p_of(line, 1, 0) - 0.2) < 2e-3);
    assert_true(fabs(*p_of(line, 2, 3) - 0.2) < 2e-3);
    assert_true(*p_of(line, 0, 1) == 1);
    fast__edges_free(line);
    /* The same by hand: weights of a topology, of which the larger counts twice for its ranks. */
    line = parse("0 1 0.2\n1 2 0.8\n2 3 0.2\n", 4, true);
    assert_true(fabs(eigenvalue(line) - 0.9) < 1e-12);
    assert_true(*p_of(line, 0, 1) == 1);
    fast__edges_free(line);
}

/* Where all edges are alike nothing is better than uniform choices; other graphs gain. */
static void optimised_probabilities_never_lose(void **state)
{
    static const char *const specs[] = { "full", "ring", "hypercube", "star", "line", "tree" };

    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        fast_edges *edges = list(specs[i], 16);
        const double uniform = eigenvalue(edges);
        double best;

        assert_int_equal(fast__edges_optimise(edges), FAST_OK);
        best = eigenvalue(edges);
        if (i < 4 ? fabs(best - uniform) > 1e-9 : 1 - best < 1.05 * (1 - uniform))
            fail_msg("%s: %.9f instead of %.9f", specs[i], best, uniform);
        for (int64_t r = 0; r < 16; r++) {
            double sum = 0;

            for (int64_t k = edges->start[r]; k < edges->start[r + 1]; k++)
                sum += edges->p[k];
            assert_true(fabs(sum - 1) < 1e-12);
        }
        fast__edges_free(edges);
    }
}

/* Two triangles that a bridge 2 3 joins. By symmetry three probabilities are free at most, and each
 * rank beside the bridge chooses it with q: 0 and 1 choose rank 2 with r. A grid of both finds no
 * eigenvalue that is less than the optimum, and one within 1e-4 of it. */
static void no_grid_point_is_better(void **state)
{
    fast_edges *edges = parse("0 1\n1 2\n2 0\n3 4\n4 5\n5 3\n2 3\n", 6, false);
    double best, least = 1;

    (void)state;
    assert_int_equal(fast__edges_optimise(edges), FAST_OK);
    best = eigenvalue(edges);
    for (int a = 1; a < 100; a++)
        for (int b = 1; b < 100; b++) {
            const double q = a / 100.0, r = b / 100.0;

            for (int64_t side = 0; side < 6; side += 3) {
                const int64_t gate = side ? 3 : 2, one = side ? 4 : 0, two = side ? 5 : 1;

                *p_of(edges, gate, 5 - gate) = q;
                *p_of(edges, gate, one) = *p_of(edges, gate, two) = (1 - q) / 2;
                *p_of(edges, one, gate) = *p_of(edges, two, gate) = r;
                *p_of(edges, one, two) = *p_of(edges, two, one) = 1 - r;
            }
            least = fmin(least, eigenvalue(edges));
        }
    if (!(best <= least + 1e-6 && best >= least - 1e-3))
        fail_msg("%.6f, and %.6f by the grid", best, least);
    fast__edges_free(edges);
}

/* Random pairs of a line of four: the mean over 4000 trials of the squared distance to the mean
 * after 40 ticks is at most lambda^40 of the first, for both choices, and at least that of the
 * expected values, about lambda^80. */
static void averages_fall_by_the_eigenvalue(void **state)
{
    (void)state;
    for (int best = 0; best < 2; best++) {
        fast_edges *edges = list("line", 4);
        double square = 0, lambda;
        fast_rng rng;

        if (best)
            assert_int_equal(fast__edges_optimise(edges), FAST_OK);
        lambda = eigenvalue(edges);
        fast__rng_init(&rng, 3, FAST_PURPOSE_EXCHANGE, 0, 0, 0);
        for (int trial = 0; trial < 4000; trial++) {
            double x[4] = { 1, 1, -1, -1 };

            for (int tick = 0; tick < 40; tick++) {
                const int64_t i = (int64_t)fast__rng_below(&rng, 4);
                double u = (double)fast__rng_uniform(&rng);
                int64_t k = edges->start[i];

                while (k + 1 < edges->start[i + 1] && u >= edges->p[k])
                    u -= edges->p[k++];
                x[i] = x[edges->peer[k]] = (x[i] + x[edges->peer[k]]) / 2;
            }
            for (int i = 0; i < 4; i++)
                square += x[i] * x[i] / 4 / 4000;
        }
        if (!(square < pow(lambda, 40) && square > 0.5 * pow(lambda, 80)))
            fail_msg("%g after 40 ticks, lambda %g", square, lambda);
        fast__edges_free(edges);
    }
}

/* Ranks that choose nobody across a cut never agree: the eigenvalue is 1. */
static void cut_graphs_have_one(void **state)
{
    fast_edges *edges = parse("0 1 0.5\n1 2 0\n2 3 0.5\n", 4, true);

    (void)state;
    assert_true(eigenvalue(edges) == 1);
    assert_int_equal(fast__edges_optimise(edges), FAST_OK);
    assert_true(*p_of(edges, 1, 2) == 0);
    fast__edges_free(edges);
}

static void allocations_may_fail(void **state)
{
    fast_topology *topology = NULL;
    double value;

    (void)state;
    assert_int_equal(fast_topology_new("line", 4, 7, &topology), FAST_OK);
    for (int64_t n = 0;; n++) {
        fast_edges *edges = NULL;

        fast__alloc_fail_after(n, true);
        fast_err err = fast__edges_new(topology, false, &edges);
        if (!err)
            err = fast__edges_optimise(edges);
        if (!err)
            err = fast__edges_eigenvalue(edges, &value);
        fast__alloc_fail_after(-1, true);
        fast__edges_free(edges);
        if (!err)
            break;
        assert_int_equal(err, FAST_ENOMEM);
    }
    fast_topology_free(topology);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eigenvalues_are_the_closed_forms),
        cmocka_unit_test(a_line_has_its_optimum),
        cmocka_unit_test(optimised_probabilities_never_lose),
        cmocka_unit_test(no_grid_point_is_better),
        cmocka_unit_test(averages_fall_by_the_eigenvalue),
        cmocka_unit_test(cut_graphs_have_one),
        cmocka_unit_test(allocations_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
