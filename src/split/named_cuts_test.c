/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: cuts by the names of layers are where a stage that begins with the layer begins, and names
 * that do not fit are refused with the reason.
 *
 * Method: cuts of a chain and of a network with a residual sum; each cut's name finds it again.
 */
#include "split/named_cuts.h"

#include "fast/fast.h"
#include "model/network.h"
#include "split/stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Nodes:                         0            1                2    3       4    5       6 */
static const char CHAIN[] = "input 1 8 8\nconv 4 kernel=3\nrelu\ndense 8\nrelu\ndense 4\n";

/* The ends of stages of a network; the result of fast__split_named(). */
static fast_err cut(const char *network, const char *cuts, int ends[4])
{
    fast_graph *graph = NULL;

    assert_int_equal(fast__graph_parse(network, &graph), FAST_OK);
    const fast_err err = fast__split_named(graph, cuts, fast__split_cut_count(cuts) + 1, ends);
    fast__graph_free(graph);
    return err;
}

static void names_are_counted(void **state)
{
    (void)state;
    assert_int_equal(fast__split_cut_count(""), 0);
    assert_int_equal(fast__split_cut_count("dense1"), 1);
    assert_int_equal(fast__split_cut_count("conv2,dense1,dense2"), 3);
}

static void a_stage_begins_with_its_layer(void **state)
{
    int ends[4];

    (void)state;
    assert_int_equal(cut(CHAIN, "dense1", ends), FAST_OK);
    assert_int_equal(ends[0], 2);
    assert_int_equal(ends[1], 5);
    assert_int_equal(cut(CHAIN, "dense1,dense2", ends), FAST_OK);
    assert_int_equal(ends[0], 2);
    assert_int_equal(ends[1], 4);
    assert_int_equal(ends[2], 5);
}

static void a_cut_is_found_by_its_name(void **state)
{
    fast_graph *graph = NULL;

    (void)state;
    assert_int_equal(fast__graph_parse(CHAIN, &graph), FAST_OK);
    for (int end = 1; end < graph->node_count - 1; end++) {
        char name[64], again[64];
        int ends[2];

        fast__split_cut_name(graph, end, name, sizeof name);
        assert_int_equal(fast__split_named(graph, name, 2, ends), FAST_OK);
        assert_true(ends[0] >= end);
        fast__split_cut_name(graph, ends[0], again, sizeof again);
        assert_string_equal(again, name);
    }
    char none[8];
    fast__split_cut_name(graph, graph->node_count - 1, none, sizeof none);
    assert_string_equal(none, "");
    fast__graph_free(graph);
}

static void names_that_do_not_fit_are_refused(void **state)
{
    int ends[4];

    (void)state;
    assert_int_equal(cut(CHAIN, "dense9", ends), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "no layer dense9"));
    assert_int_equal(cut(CHAIN, "dense2,dense1", ends), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "in the order of the model"));
    assert_int_equal(cut(CHAIN, "conv1", ends), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "the first stage begins with conv1"));
    assert_int_equal(cut(CHAIN, "dens", ends), FAST_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_counted),
        cmocka_unit_test(a_stage_begins_with_its_layer),
        cmocka_unit_test(a_cut_is_found_by_its_name),
        cmocka_unit_test(names_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
