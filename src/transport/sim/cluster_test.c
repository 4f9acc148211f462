/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: clusters are what their presets and files say, and wrong ones are refused with a sentence
 * that helps. Method: every preset opens, alone and with options; a file sets every key; a list of
 * wrong texts with a piece of the sentence that each must give; out of memory at every allocation.
 */
#include "base/memory.h"
#include "transport/sim/cluster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void test_presets_open(void **state)
{
    (void)state;
    fast_part part;
    int64_t count = 0;
    for (; fast__cluster_part(count, &part); count++) {
        fast_cluster *cluster = NULL;
        assert_int_equal(fast__cluster_open(part.name, &cluster), FAST_OK);
        assert_true(cluster->spec_count >= 1);
        assert_true(cluster->zone_count >= 1);
        assert_true(cluster->detection_ns > 0);
        assert_true(strlen(part.summary) > 0);
        fast__cluster_free(cluster);
    }
    assert_int_equal(count, 8);
    assert_false(fast__cluster_part(-1, &part));
}

static void test_options_change_presets(void **state)
{
    (void)state;
    fast_cluster *cluster = NULL;
    assert_int_equal(fast__cluster_open("hetero:nodes=16,latency=1ms,bandwidth=1Gbit/s,jitter=50%,"
                                        "loss=0.5,contention=no,cores=3,speed=8GFLOP/s,"
                                        "speed_jitter=0.25,detection=2s,retry=7ms,eager=64KiB,"
                                        "overhead=3us,stream=10MB/s",
                                        &cluster),
                     FAST_OK);
    assert_int_equal(cluster->node_count, 16);
    assert_int_equal(cluster->link.latency_ns, 1000000);
    assert_true(cluster->link.ns_per_byte == 8);
    assert_int_equal(cluster->link.jitter_ns, 500000);
    assert_int_equal(cluster->link.loss, 0x80000000u);
    assert_int_equal(cluster->link.retry_ns, 7000000);
    assert_int_equal(cluster->link.eager, 65536);
    assert_int_equal(cluster->link.overhead_ns, 3000);
    assert_true(cluster->link.stream_ns_per_byte == 100);
    assert_false(cluster->link.contention);
    assert_int_equal(cluster->spec_count, 4);
    assert_int_equal(cluster->nodes[0].cores, 3);
    assert_true(cluster->nodes[0].speed == 8e9);
    assert_true(cluster->nodes[1].speed == 4e9);
    assert_true(cluster->nodes[3].speed == 2e9);
    assert_true(cluster->nodes[3].jitter == 0.25);
    assert_int_equal(cluster->detection_ns, 2000000000);
    fast__cluster_free(cluster);
    assert_int_equal(fast__cluster_open("", &cluster), FAST_OK); /* the default */
    assert_int_equal(cluster->link.latency_ns, 20000);
    fast__cluster_free(cluster);
}

static void test_wrong_names(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        fast_err err;
        const char *says;
    } wrong[] = {
        { "infinibant", FAST_EINVAL, "did you mean \"infiniband\"" },
        { "ideal:latancy=1us", FAST_EINVAL, "did you mean" },
        { "ideal:latency=1", FAST_EINVAL, "unit" },
        { "ideal:eager=64GB/s", FAST_EINVAL, "write it like 64KiB or 70kB" },
        { "ideal:eager=-1", FAST_EINVAL, "out of range" },
        { "ideal:overhead=1", FAST_EINVAL, "unit" },
        { "ideal:stream=fast", FAST_EINVAL, "not a number" },
        { "ideal:latency=-1us", FAST_EINVAL, "out of range" },
        { "ideal:latency=2h", FAST_EINVAL, "out of range" },
        { "ideal:bandwidth=fast", FAST_EINVAL, "not a number" },
        { "ideal:bandwidth=1parsec", FAST_EINVAL, "Gbit/s" },
        { "ideal:bandwidth=-3", FAST_EINVAL, "out of range" },
        { "ideal:loss=1", FAST_EINVAL, "out of range" },
        { "ideal:loss=nan", FAST_EINVAL, "not a number" },
        { "ideal:contention=maybe", FAST_EINVAL, "yes or no" },
        { "ideal:nodes=-1", FAST_EINVAL, "out of range" },
        { "ideal:nodes=100000", FAST_EINVAL, "out of range" },
        { "ideal:cores=1.5", FAST_EINVAL, "cores" },
        { "ideal:detection=-1s", FAST_EINVAL, "negative" },
        { "no/such.yaml", FAST_ENOENT, "such.yaml" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        fast_cluster *cluster = NULL;
        const fast_err err = fast__cluster_open(wrong[i].text, &cluster);
        if (err != wrong[i].err || !strstr(fast_error_detail(), wrong[i].says))
            fail_msg("%s: %s: %s", wrong[i].text, fast_err_name(err), fast_error_detail());
        assert_null(cluster);
    }
}

#ifdef FAST_HAVE_YAML

static fast_err parse(const char *text, fast_cluster **out)
{
    return fast__cluster_parse("a.yaml", text, strlen(text), out);
}

static void test_file_sets_every_key(void **state)
{
    (void)state;
    fast_cluster *cluster = NULL;
    const fast_err err =
        fast__cluster_open(FAST_SOURCE_FOLDER "/examples/clusters/two-zones.yaml", &cluster);
    if (err)
        fail_msg("%s", fast_error_detail());
    assert_int_equal(cluster->node_count, 8);
    assert_int_equal(cluster->spec_count, 8);
    assert_int_equal(cluster->zone_count, 3);
    assert_string_equal(cluster->zones[1], "west");
    assert_string_equal(cluster->zones[2], "east");
    assert_int_equal(cluster->nodes[3].zone, 1);
    assert_int_equal(cluster->nodes[4].zone, 2);
    assert_true(cluster->nodes[3].speed == 20e9);
    assert_true(cluster->nodes[7].speed == 10e9);
    assert_int_equal(cluster->nodes[7].cores, 4);
    assert_true(cluster->nodes[7].jitter == 0.05);
    assert_int_equal(cluster->link.latency_ns, 20000);
    assert_int_equal(cluster->local.latency_ns, 500);
    assert_int_equal(cluster->link_count, 1);
    assert_true(cluster->links[0].zones && cluster->links[0].both);
    assert_int_equal(cluster->links[0].from, 1);
    assert_int_equal(cluster->links[0].to, 2);
    assert_int_equal(cluster->links[0].link.latency_ns, 5000000);
    assert_int_equal(cluster->links[0].link.jitter_ns, 1000000);
    assert_true(cluster->links[0].link.contention);
    assert_int_equal(cluster->detection_ns, 1000000000);
    assert_int_equal(cluster->place_count, 2);
    assert_string_equal(cluster->places[1].role, "server");
    assert_int_equal(cluster->places[1].last, 3);
    fast__cluster_free(cluster);
}

static void test_wrong_files(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *says;
    } wrong[] = {
        { "", "empty" },
        { "# nothing", "empty" },
        { "12", "needs keys" },
        { "nodes: {count: 3", "not YAML" },
        { "%YAML 1.2\n---\nnodes: {count: 3}", "directive" },
        { "nodes: {count: 3}\n\x01", "no text" },
        { "nodes: {zone: \xff}", "no text" },
        { "nods: {count: 3}", "did you mean \"nodes\"" },
        { "nodes: 3", "needs keys" },
        { "nodes: {cuont: 3}", "did you mean \"count\"" },
        { "nodes: {count: 0}", "out of range" },
        { "nodes: {count: 99999999999999999999}", "count" },
        { "nodes: {speed: }", "needs a value" },
        { "nodes: {speed: [1]}", "needs a value" },
        { "nodes: {overrides: [{nodes: 1}]}", "need a count" },
        { "nodes: {count: 2, overrides: 1}", "needs a list" },
        { "nodes: {count: 2, overrides: [{nodes: 2, speed: 1}]}", "names node 2" },
        { "nodes: {count: 2, overrides: [{nodes: 1-0}]}", "no range" },
        { "nodes: {count: 2, overrides: [{nodes: []}]}", "empty" },
        { "nodes: {count: 2, overrides: [{speed: 1}]}", "which nodes" },
        { "nodes: {count: 2, overrides: [{nodes: 1, sped: 1}]}", "did you mean \"speed\"" },
        { "nodes: &a {count: 2}\nlinks: *a", "needs keys" },
        { "links: {latency: 20}", "unit" },
        { "links: {eager: 64Kib}", "write it like" },
        { "links: {eager: 1e300}", "out of range" },
        { "links: {overrides: [{from: 0, to: 1, steram: 1}]}", "did you mean \"stream\"" },
        { "links: {latncy: 20us}", "did you mean \"latency\"" },
        { "links: {local: {latency: x}}", "latency" },
        { "links: {overrides: [{latency: 1us}]}", "between" },
        { "links: {overrides: [{from: 0, latency: 1us}]}", "between" },
        { "links: {overrides: [{from: 0-1, to: 2}]}", "one node" },
        { "nodes: {count: 2}\nlinks: {overrides: [{from: 0, to: 2}]}", "the node 2" },
        { "nodes: {count: 2}\n---\nnodes: {count: 3}", "second document" },
        { "nodes: {count: 2}\n---\n{", "not YAML" },
        { "links: {overrides: [{between: [a, b]}]}", "no node is in the zone" },
        { "links: {overrides: [{between: west}]}", "two zones" },
        { "detection: soon", "detection" },
        { "detection: -1s", "negative" },
        { "placement: {worker: x}", "worker" },
        { "nodes: {count: 2}\nplacement: {worker: 2}", "placed on node 2" },
        { "placement: {worker: 70000}", "no range" },
        { "nodes: {zone: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}", "over 31 bytes" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        fast_cluster *cluster = NULL;
        const fast_err err = parse(wrong[i].text, &cluster);
        if ((err != FAST_EFORMAT && err != FAST_EINVAL) ||
            !strstr(fast_error_detail(), wrong[i].says) ||
            strncmp(fast_error_detail(), "a.yaml: ", 8) != 0)
            fail_msg("%s: %s: %s", wrong[i].text, fast_err_name(err), fast_error_detail());
        assert_null(cluster);
    }
}

#endif

/* The nodes of the first rows of a placement; -1 behind the last one. */
static void test_workers_are_placed(void **state)
{
    static const struct {
        const char *list;   /* as it is typed */
        int64_t rows[3][2]; /* first and last node of each row */
    } right[] = {
        { "2", { { 2, 2 }, { -1, -1 }, { -1, -1 } } },
        { "3,0,1-2", { { 3, 3 }, { 0, 0 }, { 1, 2 } } },
    };
    static const char *const wrong[] = { "", "x", "1,", "1-", "-1", "2-1", "1;2", "70000" };
    fast_cluster *cluster = NULL;

    (void)state;
    assert_int_equal(fast__cluster_open("ethernet-1g:nodes=4,capacity=64MB", &cluster), FAST_OK);
    assert_true(cluster->nodes[0].capacity == 64e6);
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        assert_int_equal(fast__cluster_place(cluster, "worker", right[i].list), FAST_OK);
        for (int64_t k = 0; k < 3 && right[i].rows[k][0] >= 0; k++) {
            assert_true(k < cluster->place_count);
            assert_int_equal(cluster->places[k].first, right[i].rows[k][0]);
            assert_int_equal(cluster->places[k].last, right[i].rows[k][1]);
        }
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(fast__cluster_place(cluster, "worker", wrong[i]), FAST_EINVAL);
        assert_int_equal(cluster->place_count, 3);
    }
    fast__cluster_free(cluster);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "hetero",
#ifdef FAST_HAVE_YAML
        FAST_SOURCE_FOLDER "/examples/clusters/two-zones.yaml",
#endif
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        fast_cluster *cluster = NULL;
        fast_err err = FAST_ENOMEM;
        int64_t n = 0;
        for (; err == FAST_ENOMEM; n++) {
            assert_null(cluster);
            fast__alloc_fail_after(n, true);
            err = fast__cluster_open(texts[i], &cluster);
            fast__alloc_fail_after(-1, true);
        }
        assert_int_equal(err, FAST_OK);
        assert_true(n > 1);
        fast__cluster_free(cluster);
    }
    fast__cluster_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_workers_are_placed),     cmocka_unit_test(test_presets_open),
        cmocka_unit_test(test_options_change_presets), cmocka_unit_test(test_wrong_names),
#ifdef FAST_HAVE_YAML
        cmocka_unit_test(test_file_sets_every_key),    cmocka_unit_test(test_wrong_files),
#endif
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
