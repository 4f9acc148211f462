/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a layout map names layers by operator or name, and everything else is refused.
 *
 * Method: maps of a small network, the entry of each of its nodes; texts that are wrong.
 */
#include "split/layout_map.h"

#include "split/kinds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/network.h"

static const char NETWORK[] = "input 1 8 8\nconv 4 kernel=3\nrelu\ndense 8\nrelu\ndense 4\n";

/* Find the entry of each node of the network, as digits; "-" without one. */
static void entries_of(const char *text, char *out)
{
    fast_layout_map map;
    fast_graph *graph;

    assert_int_equal(fast__layout_map_parse(text, &map), FAST_OK);
    assert_int_equal(fast__graph_parse(NETWORK, &graph), FAST_OK);
    for (int i = 1; i < graph->node_count; i++) {
        const int entry = fast__layout_map_find(&map, graph, i);
        *out++ = entry < 0 ? '-' : (char)('0' + entry);
    }
    *out = '\0';
    fast__graph_free(graph);
}

static void check(const char *text, const char *right)
{
    char got[16];

    entries_of(text, got);
    assert_string_equal(got, right);
}

static void layers_are_named(void **state)
{
    (void)state;
    check("", "--1-1");
    check("dense=pairs", "--0-0");
    check("dense2=pairs,dense=pairs", "--1-0");
    check("output=vocabulary,dense=pairs", "--1-0");
    check("dense=pairs,dense2=pairs", "--0-0");
    check("conv=pairs,dense1=pairs", "0-1--");
    check("dense2=pairs,pairs", "11110");
    check("dense1.weight=pairs,dens=pairs", "-----");
    check("relu=pairs", "-0-0-");
    check("hidden", "--0-0");
    check("conv=samples,rows", "01111");
    check("vocab,hidden", "--2-1"); /* entry 0: embeddings */
    check("hidden=pairs", "-----"); /* a layer of this name */
}

static void others_are_refused(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        { "conv=", "no kind of split \"\"" }, { "conv=shards", "no kind of split \"shards\"" },
        { ",", "no kind of split \"\"" },     { "pairs,", "no kind of split \"\"" },
        { "=pairs", "names no layers" },      { "conv=pairs=pairs", "no kind of split" },
    };
    fast_layout_map map = { .count = 7 };
    char text[512] = "pairs";

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(fast__layout_map_parse(bad[i][0], &map), FAST_EINVAL);
        assert_non_null(strstr(fast_error_detail(), bad[i][1]));
    }
    for (int i = 1; i <= FAST_LAYOUT_ENTRIES_MAX; i++)
        strcat(text, ",pairs");
    assert_int_equal(fast__layout_map_parse(text, &map), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "more than 16 entries"));
    memset(text, 'a', sizeof text - 1);
    assert_int_equal(fast__layout_map_parse(text, &map), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "too long"));
    memcpy(text + 80, "=pairs", 7);
    assert_int_equal(fast__layout_map_parse(text, &map), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "names no layers"));
    assert_int_equal(map.count, 7); /* failures leave it as it was */
}

/* A text that names no layer is refused with what the network has. */
static void unknown_layers_are_named(void **state)
{
    static const char *const good[] = { "samples", "dense1=pairs", "output=vocabulary",
                                        "relu=spatial,conv=samples",
                                        "output=vocabulary,dense=pairs" };
    static const char *const bad[][2] = {
        { "nope=pairs", "no layer nope; it has conv, relu, dense; a layer has a name, like conv1" },
        { "dense=pairs,dense3=pairs", "layout dense3=pairs: the model has no layer dense3" },
        { "vocab", "no layer embed" },
        { "dense=pairs,dense=outputs", "layout dense=outputs: entries before it name all" },
        { "pairs,samples", "layout samples: entries before it name all" },
        { "dense=pairs,output=vocabulary", "output=vocabulary: entries before it" },
        { "dens=pairs", "no layer dens;" },
        { "dense1.weight=pairs", "no layer dense1.weight" },
    };
    fast_layout_map map;
    fast_graph *graph;

    (void)state;
    assert_int_equal(fast__graph_parse(NETWORK, &graph), FAST_OK);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(fast__layout_map_parse(good[i], &map), FAST_OK);
        assert_int_equal(fast__layout_map_check(&map, graph), FAST_OK);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(fast__layout_map_parse(bad[i][0], &map), FAST_OK);
        assert_int_equal(fast__layout_map_check(&map, graph), FAST_EINVAL);
        assert_non_null(strstr(fast_error_detail(), bad[i][1]));
    }
    fast__graph_free(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_named),
        cmocka_unit_test(others_are_refused),
        cmocka_unit_test(unknown_layers_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
