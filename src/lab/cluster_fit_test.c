/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: `fast bench cluster` finds the cluster that it measures, and its file says so.
 * Method: simulated clusters, whose parameters are known: the file that is measured on one is
 *   parsed and compared. Times that are made up try the fit where a simulated link cannot:
 *   connections that are slower than their ends, noise, sizes that were not measured.
 */
#include "fast/lab.h"
#include "lab/cluster_fit.h"
#include "transport/sim/cluster.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void is_close(double value, double expected, double tolerance)
{
    if (!(fabs(value - expected) <= tolerance * fabs(expected)))
        fail_msg("%g is not %g within %g%%", value, expected, 100 * tolerance);
}

/* Times of m bytes: t0 + m / rate, and `round` above `eager`. */
static fast_pair_times make_times(double t0, double rate, double eager, double round)
{
    fast_pair_times p = { .from = 0, .to = 1, .pings = 300, .burst_s = t0 / 100 };
    for (int i = 0; i < FAST_FIT_SIZES; i++) {
        const double m = (double)fast__fit_sizes[i];
        p.least_s[i] = t0 + m / 12.5e6;
        p.median_s[i] = t0 + (i == 0 ? 0 : m / rate) + (m > eager ? round : 0);
    }
    return p;
}

static void test_fit(void **state)
{
    (void)state;
    /* A connection as fast as its ends, an eager size between 48 and 96 KiB. */
    fast_pair_times p = make_times(5e-3, 12.5e6, 65536, 10e-3);
    fast_link_fit fit = fast__link_fit(&p);
    is_close(fit.latency_s + fit.overhead_s, 5e-3, 1e-3);
    is_close(fit.overhead_s, 5e-5, 1e-3);
    is_close(fit.bandwidth, 12.5e6, 0.01);
    is_close(fit.round_s, 10e-3, 0.01);
    assert_int_equal(fit.eager, 4);
    assert_true(fit.stream == 0);
    /* A connection that is slower than its ends, no rendezvous. */
    p = make_times(5e-3, 1.5e6, INFINITY, 0);
    fit = fast__link_fit(&p);
    is_close(fit.stream, 1.5e6, 0.01);
    is_close(fit.bandwidth, 12.5e6, 0.01);
    assert_true(fit.round_s == 0);
    is_close(fast__fit_seconds(&fit, 150e3), 0.105, 0.01);
    /* Noise of a tenth is no rendezvous. */
    for (int i = 0; i < FAST_FIT_SIZES; i++)
        p.median_s[i] *= i % 3 == 0 ? 1.1 : 0.95;
    assert_true(fast__link_fit(&p).round_s == 0);
    /* Large messages were not measured, and the burst failed. */
    p = make_times(5e-3, 1.5e6, INFINITY, 0);
    for (int i = 5; i < FAST_FIT_SIZES; i++)
        p.median_s[i] = p.least_s[i] = NAN;
    p.burst_s = NAN;
    fit = fast__link_fit(&p);
    is_close(fit.stream, 1.5e6, 0.01);
    is_close(fit.latency_s, 5e-3, 1e-3);
}

/* The parsed file of a measurement. */
static void parse(void *ctx, const fast_cluster_measure *measure)
{
    fast_cluster **out = ctx;
    if (fast__cluster_parse("measured", measure->file, strlen(measure->file), out))
        fail_msg("%s:\n%s", fast_error_detail(), measure->file);
}

#ifdef FAST_HAVE_YAML
static void test_known_clusters(void **state)
{
    (void)state;
    static const struct {
        const char *cluster; /* option */
        double latency_us;   /* and parameters */
        double ns_per_byte;
        double eager;
        double loss;
    } known[] = {
        { "cluster=ethernet-10g", 20, 0.8, 0, 0 },
        { "cluster=ethernet-1g:latency=5ms,eager=64KiB,overhead=30us", 5000, 8, 65536, 0 },
        { "cluster=ethernet-1g:latency=1ms,eager=1MiB,overhead=3us", 1000, 8, 1 << 20, 0 },
        { "cluster=ethernet-1g:latency=5ms,loss=2%,retry=200ms", 5000, 8, 0, 0.02 },
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const char *options[] = { "transport=sim", "workers=3", known[i].cluster, NULL };
        fast_cluster *cluster = NULL;
        if (fast_bench_cluster(options, parse, &cluster))
            fail_msg("%s", fast_error_detail());
        assert_non_null(cluster);
        assert_int_equal(cluster->node_count, 3);
        is_close(cluster->nodes[0].speed, 20e9, 0.01);
        is_close(cluster->nodes[2].memory, 10e9, 0.01);
        is_close((double)cluster->link.latency_ns * 1e-3, known[i].latency_us, 0.01);
        is_close(cluster->link.ns_per_byte, known[i].ns_per_byte, 0.05);
        is_close((double)cluster->link.eager, known[i].eager, 0.02);
        is_close((double)cluster->link.loss * 0x1p-32, known[i].loss, 0.5);
        assert_int_equal(cluster->link_count, 0);
        fast__cluster_free(cluster);
    }
}

/* Nodes and links that differ are written as overrides. */
static void test_differences(void **state)
{
    (void)state;
    const double speed[] = { 20e9, 20e9, 5e9 }, memory[] = { 10e9, 10e9, 10e9 };
    fast_pair_times pairs[] = { make_times(1e-3, 12.5e6, INFINITY, 0),
                                make_times(9e-3, 1.25e6, INFINITY, 0),
                                make_times(1e-3, 12.5e6, INFINITY, 0) };
    fast_cluster_fit fit = {
        "title", 3, speed, memory, pairs, 3, fast__link_fit(&pairs[0]), 0, 0, 0
    };
    fast_cluster *cluster = NULL;
    char *text = NULL;
    size_t size = 0;
    pairs[1].from = 0;
    pairs[1].to = 2;
    pairs[2].slow = 18;
    pairs[2].retry_s = 0.2;
    fast__cluster_fit_loss(&fit);
    is_close(fit.loss, 0.01, 0.001);
    is_close(fit.retry_s, 0.2, 0.001);
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    fast__cluster_fit_write(&fit, out);
    fclose(out);
    if (fast__cluster_parse("text", text, size, &cluster))
        fail_msg("%s:\n%s", fast_error_detail(), text);
    is_close(cluster->nodes[2].speed, 5e9, 0.001);
    assert_int_equal(cluster->link_count, 2);
    assert_int_equal(cluster->links[0].to, 2);
    assert_int_equal(cluster->links[1].from, 2);
    is_close((double)cluster->links[1].link.latency_ns, 9e6, 0.01);
    is_close(cluster->links[1].link.ns_per_byte, 800, 0.01);
    fast__cluster_free(cluster);
    free(text);
}
#endif

static void test_wrong_options(void **state)
{
    (void)state;
    fast_cluster *cluster = NULL;
    const char *one[] = { "transport=sim", "workers=1", NULL };
    const char *unknown[] = { "wrokers=2", NULL };
    assert_int_equal(fast_bench_cluster(one, parse, &cluster), FAST_EINVAL);
    assert_int_equal(fast_bench_cluster(unknown, parse, &cluster), FAST_EINVAL);
    if (!strstr(fast_error_detail(), "workers"))
        fail_msg("%s", fast_error_detail());
    assert_null(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fit),
#ifdef FAST_HAVE_YAML
        cmocka_unit_test(test_known_clusters),
        cmocka_unit_test(test_differences),
#endif
        cmocka_unit_test(test_wrong_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
