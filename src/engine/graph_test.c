/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: what is said of a graph without running it: names, where gradients flow, costs by the
 * textbook; and that broken graphs are refused before an engine relies on them.
 *
 * Method: small graphs whose numbers are known by hand; one thing broken at a time.
 */
#include "graphs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void names_are_those_of_the_network_language(void **state)
{
    (void)state;
    assert_string_equal(fast__op_name(FAST_OP_INPUT), "input");
    assert_string_equal(fast__op_name(FAST_OP_LEAKY_RELU), "leaky_relu");
    assert_string_equal(fast__op_name(FAST_OP_LAYER_NORM), "layer_norm");
    assert_string_equal(fast__op_name(FAST_OP_LSTM), "lstm");
    assert_string_equal(fast__op_name(FAST_OP_ATTENTION), "attention");
    assert_string_equal(fast__op_name(FAST_OP_CUSTOM), "custom");
}

static void gradients_flow_from_the_first_weight(void **state)
{
    (void)state;
    static test_graph g;
    bool needs[8];
    test_graph_begin(&g, "4x3", 0);
    test_graph_then(&g, "relu");
    const int dense = test_graph_then(&g, "dense out=3");
    const int tanh = test_graph_add1(&g, "tanh", 0);
    test_graph_add2(&g, "add", dense, tanh);
    test_graph_end(&g, FAST_LOSS_MSE, 0);
    fast__graph_needs(&g.graph, needs);
    assert_false(needs[0]);
    assert_false(needs[1]);
    assert_true(needs[2]);
    assert_false(needs[3]);
    assert_true(needs[4]);
}

static void costs_are_the_textbooks(void **state)
{
    (void)state;
    static test_graph g;
    bool needs[8];
    test_graph_begin(&g, "5", 7);
    test_graph_then(&g, "embed out=4");
    test_graph_then(&g, "attention heads=2");
    test_graph_then(&g, "lstm out=3");
    test_graph_then(&g, "gru out=2");
    test_graph_then(&g, "dense out=7");
    test_graph_end(&g, FAST_LOSS_CROSS_ENTROPY, 0);
    const double attention = 2.0 * 5 * 4 * 16;
    const double scores = 2.0 * 5 * 6 * 4; /* q k' and p v, half of the square and its diagonal */
    const double lstm = 2.0 * 5 * 12 * (4 + 3);
    const double gru = 2.0 * 5 * 6 * (3 + 2);
    const double dense = 2.0 * 5 * 2 * 7;
    fast__graph_needs(&g.graph, needs);
    assert_true(fast__node_flops_forward(&g.graph, 1) == 0);
    assert_true(fast__node_flops_forward(&g.graph, 2) == attention + scores);
    assert_true(fast__node_flops_forward(&g.graph, 3) == lstm);
    assert_true(fast__node_flops_forward(&g.graph, 4) == gru);
    assert_true(fast__node_flops_forward(&g.graph, 5) == dense);
    assert_true(fast__node_flops_backward(&g.graph, 5, true) == 2 * dense);
    assert_true(fast__node_flops_backward(&g.graph, 5, false) == dense);
    assert_true(fast__graph_flops_train(&g.graph, needs) ==
                3 * (attention + scores + lstm + gru + dense));
    test_graph_case(&g, "conv n=1 in=4x6x6 out=6 kernel=3x2 groups=2", true);
    assert_true(fast__node_flops_forward(&g.graph, 1) == 2.0 * 6 * 4 * 5 * 2 * 6);
}

static void refuse(const test_graph *g, const char *part)
{
    assert_int_equal(fast__graph_check(&g->graph), FAST_EINVAL);
    if (!strstr(fast_error_detail(), part))
        fail_msg("\"%s\" does not say \"%s\"", fast_error_detail(), part);
}

static void build(test_graph *g)
{
    test_graph_begin(g, "4", 0);
    test_graph_then(g, "dense out=3");
    test_graph_then(g, "batch_norm");
    test_graph_then(g, "dense out=2");
    test_graph_end(g, FAST_LOSS_MSE, 0);
}

static void broken_graphs_are_refused(void **state)
{
    (void)state;
    static test_graph g;
    build(&g);
    assert_int_equal(fast__graph_check(&g.graph), FAST_OK);
    g.graph.outputs = 3;
    refuse(&g, "outputs");
    build(&g);
    g.nodes[2].inputs[0] = 2;
    refuse(&g, "not before it");
    build(&g);
    g.nodes[3].inputs[0] = -1;
    refuse(&g, "not before it");
    build(&g);
    g.nodes[3].weight[FAST_W_WEIGHT] = g.nodes[1].weight[FAST_W_WEIGHT];
    refuse(&g, "instead of one");
    build(&g);
    g.nodes[3].weight[FAST_W_WEIGHT] = 99;
    refuse(&g, "names segment 99");
    build(&g);
    g.params[1].offset++;
    refuse(&g, "does not follow");
    build(&g);
    g.graph.state.count++;
    refuse(&g, "state segments hold");
    build(&g);
    g.nodes[1].op = FAST_OP_INPUT;
    refuse(&g, "no operator");
    build(&g);
    g.nodes[1].rank = 4;
    refuse(&g, "no shape");
    build(&g);
    g.nodes[1].input_count = 0;
    refuse(&g, "0 inputs");
    g.graph.node_count = 0;
    refuse(&g, "needs an input");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_those_of_the_network_language),
        cmocka_unit_test(gradients_flow_from_the_first_weight),
        cmocka_unit_test(costs_are_the_textbooks),
        cmocka_unit_test(broken_graphs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
