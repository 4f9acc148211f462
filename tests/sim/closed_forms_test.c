/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: on a simulated network without contention and with free reductions, allreduce takes the
 *   time that its closed form says, within 1%, from 2 to 1024 actors and from 1 KB to 1 GB.
 * Method: the real program on the transport sim, with sizes that are declared and not sent; the
 *   formulas are those of section 2.4 of "Demystifying Parallel and Distributed Deep Learning"
 *   (Ben-Nun, Hoefler, 2019), written here once more. Times are virtual: nothing depends on the
 *   machine. The environment variable FAST_SOAK asks for every size; otherwise a ring of very many,
 *   which has millions of messages, is tried at the ends of the range only.
 */
#include "base/err.h"
#include "fast/comm.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

/* The allreduce of a test, and the network of the preset `ideal`. */
typedef struct job {
    const char *algorithm;
    int64_t count; /* of floats */
} job;
static const double L = 1e-6, G = 1e-9;

static fast_err reduce_sizes(fast_actor *actor, void *ctx)
{
    const job *what = ctx;
    fast_group *group = NULL;
    FAST_TRY(fast_group_all(actor, NULL, &group));
    fast_err err = fast_group_algorithm(group, what->algorithm);
    if (!err)
        err = fast_allreduce(group, NULL, what->count, FAST_SOON);
    fast_group_free(group);
    return err;
}

static double simulate_on(const char *cluster, const char *algorithm, int64_t actors, int64_t count)
{
    job what = { algorithm, count };
    const fast_role roles[] = { { "worker", actors, reduce_sizes, &what } };
    const char *options[] = { "transport=sim", cluster, "timeout=3600", NULL };
    fast_actors_result result;
    const fast_err err = fast_actors_run(options, roles, 1, &result);
    if (err)
        print_error("%s of %lld actors: %s\n", algorithm, (long long)actors, fast_error_detail());
    assert_int_equal(err, FAST_OK);
    return (double)result.time_ns * 1e-9;
}

static double simulate(const char *algorithm, int64_t actors, int64_t count)
{
    return simulate_on("cluster=ideal", algorithm, actors, count);
}

typedef double form_fn(double P, double m);

static double tree(double P, double m)
{
    return 2 * log2(P) * (L + m * G);
}

static double butterfly(double P, double m)
{
    return log2(P) * (L + m * G);
}

static double ring(double P, double m)
{
    return 2 * (P - 1) * (L + m / P * G);
}

static double rabenseifner(double P, double m)
{
    return 2 * L * log2(P) + 2 * m * G * (P - 1) / P;
}

/* With 8 chunks, of which one is passed on while the next arrives. */
static double chain(double P, double m)
{
    return (2 * (P - 1) + (P > 2 ? 14 : 7)) * m / 8 * G;
}

/* Actors of a box of sides a, b and c: the slices of a dimension are those of the one before. */
static double box(double a, double b, double c, double m)
{
    return 2 * (a - 1) * (L + m / a * G) + 2 * (b - 1) * (L + m / (a * b) * G) +
           2 * (c - 1) * (L + m / (a * b * c) * G);
}

/* Sanitizers are slow: fewer actors there. */
#ifdef FAST_SLOW
enum { ACTORS_MAX = 64 };
#else
enum { ACTORS_MAX = 1024 };
#endif

/* All sizes; or, for rounds that are many, only the ends. */
static void sweep(const char *algorithm, form_fn *form, int64_t cheap_max)
{
    const bool soak = getenv("FAST_SOAK") != NULL;
    double worst = 0;
    for (int64_t actors = 2; actors <= ACTORS_MAX; actors *= 2)
        for (int64_t bytes = 1 << 10; bytes <= 1 << 30; bytes *= soak ? 2 : 32) {
            const bool end = bytes == 1 << 10 || bytes == 1 << 30;
            if (!soak && actors > cheap_max && (!end || actors < 1024))
                continue;
            const double want = form((double)actors, (double)bytes);
            const double got = simulate(algorithm, actors, bytes / 4);
            const double off = fabs(got - want) / want;
            worst = off > worst ? off : worst;
            if (off > 0.01)
                print_error("%s, %lld actors, %lld bytes: %g s, not %g\n", algorithm,
                            (long long)actors, (long long)bytes, got, want);
            assert_true(off <= 0.01);
        }
    print_message("%s: at most %.4f%% off\n", algorithm, 100 * worst);
}

static void test_tree(void **state)
{
    (void)state;
    sweep("tree", tree, 1024);
}

static void test_butterfly(void **state)
{
    (void)state;
    sweep("butterfly", butterfly, 1024);
}

static void test_ring(void **state)
{
    (void)state;
    sweep("ring", ring, 128);
}

static void test_chain(void **state)
{
    /* Chunks of one sender follow each other: there is contention, and no latency. */
    (void)state;
    for (int64_t actors = 2; actors <= 32; actors *= 2) {
        const double want = chain((double)actors, 1 << 24);
        const double got =
            simulate_on("cluster=ideal:contention=yes,latency=0us", "chain", actors, 1 << 22);

        if (!(fabs(got - want) <= 0.01 * want))
            fail_msg("chain of %lld actors: %g s, not %g", (long long)actors, got, want);
    }
}

static void test_dimensions(void **state)
{
    static const struct {
        const char *algorithm;
        double sides[3];
    } boxes[] = { { "dimensions:sizes=2x3x4", { 2, 3, 4 } },
                  { "dimensions:sizes=4x2x8", { 4, 2, 8 } },
                  { "dimensions:sizes=5x5", { 5, 5, 1 } },
                  { "dimensions:sizes=8x1x3", { 8, 1, 3 } } };

    (void)state;
    for (int i = 0; i < 4; i++)
        for (int64_t bytes = 1 << 12; bytes <= 1 << 28; bytes *= 256) {
            const double *s = boxes[i].sides;
            const double want = box(s[0], s[1], s[2], (double)bytes);
            const double got =
                simulate(boxes[i].algorithm, (int64_t)(s[0] * s[1] * s[2]), bytes / 4);

            if (!(fabs(got - want) <= 0.01 * want))
                fail_msg("%s, %lld bytes: %g s, not %g", boxes[i].algorithm, (long long)bytes, got,
                         want);
        }
}

static void test_rabenseifner(void **state)
{
    (void)state;
    sweep("rabenseifner", rabenseifner, 1024);
}

/* A sum of n floats costs n operations and 12 n bytes: two members exchange and add a million, at
 * 20 us, 1.25 GB/s, 20 GFLOP/s and 10 GB/s. */
static void test_charges(void **state)
{
    (void)state;
    job what = { "butterfly", 1000000 };
    const fast_role roles[] = { { "worker", 2, reduce_sizes, &what } };
    const char *options[] = { "transport=sim", "cluster=ethernet-10g", NULL };
    fast_actors_result result;
    assert_int_equal(fast_actors_run(options, roles, 1, &result), FAST_OK);
    const int64_t add = 50000 + 1200000;
    assert_int_equal(result.compute_ns, 2 * add);
    assert_int_equal(result.time_ns, 20000 + 3200000 + add);
    assert_int_equal(result.messages_sent, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tree),       cmocka_unit_test(test_butterfly),
        cmocka_unit_test(test_ring),       cmocka_unit_test(test_rabenseifner),
        cmocka_unit_test(test_charges),    cmocka_unit_test(test_chain),
        cmocka_unit_test(test_dimensions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
