/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders of transfers. Goal: on a chain both orders are that of the layers; TIC orders a graph with
 * branches by hand-computed priorities; for branches that run side by side TAC's rule is Johnson's,
 * which is optimal. Method: small graphs, and all permutations of the transfers played on one link
 * and one processor.
 */
#include "strategy/transfer_order.h"

#include "base/err.h"
#include "base/memory.h"
#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { BRANCHES = 5 };

static void a_chain_is_in_order(void **state)
{
    static const int before[] = { 0, 1, 2, 3, 4, 5 };
    fast_transfer_node nodes[7];
    int64_t order[7], placed;

    (void)state;
    for (int i = 0; i < 7; i++) /* every other operator has no parameters */
        nodes[i] = (fast_transfer_node){ i > 0 ? &before[i - 1] : NULL, i > 0, 1 + i % 3,
                                         i % 2 == 0 ? 5 - i % 4 : 0 };
    for (int timed = 0; timed < 2; timed++) {
        assert_int_equal(fast__transfer_order(nodes, 7, timed == 1, order, &placed), FAST_OK);
        assert_int_equal(placed, 4);
        for (int i = 0; i < 4; i++)
            assert_int_equal(order[i], 2 * i);
    }
}

/* A block with a shortcut: 1 and 2 after 0 in succession, 3 after 0, joined by 4, then 5. M+ counts
 * the transfers that an operator needs: of 0 and 1 two, of 3 two, of 2 three, of 5 five. */
static void branches_come_before_depth(void **state)
{
    static const int in[][2] = { { 0, 0 }, { 0, 0 }, { 1, 0 }, { 0, 0 }, { 2, 3 }, { 4, 0 } };
    static const int64_t wanted[] = { 0, 1, 3, 2, 5 };
    fast_transfer_node nodes[6];
    int64_t order[6], placed;

    (void)state;
    for (int i = 0; i < 6; i++)
        nodes[i] = (fast_transfer_node){ in[i], i == 0 ? 0 : i == 4 ? 2 : 1, 1, i == 4 ? 0 : 1 };
    assert_int_equal(fast__transfer_order(nodes, 6, false, order, &placed), FAST_OK);
    assert_int_equal(placed, 5);
    assert_memory_equal(order, wanted, sizeof wanted);
}

/* Return the time at which all operators of independent branches are done, for an order. */
static double play(const fast_transfer_node *nodes, const int64_t *order)
{
    double link = 0, processor = 0;

    for (int i = 0; i < BRANCHES; i++) {
        link += nodes[order[i]].transfer_s;
        processor = fmax(processor, link) + nodes[order[i]].compute_s;
    }
    return processor;
}

/* The shortest time over all orders of the transfers from `at` on. */
static double shortest(const fast_transfer_node *nodes, int64_t *order, int at)
{
    double best = at == BRANCHES ? play(nodes, order) : INFINITY;

    for (int i = at; i < BRANCHES; i++) {
        const int64_t chosen = order[i];

        order[i] = order[at];
        order[at] = chosen;
        best = fmin(best, shortest(nodes, order, at + 1));
        order[at] = order[i];
        order[i] = chosen;
    }
    return best;
}

static void timed_orders_of_branches_are_optimal(void **state)
{
    static const int all[] = { 0, 1, 2, 3, 4 };
    int worse = 0;
    fast_rng rng;

    (void)state;
    fast__rng_init(&rng, 7, FAST_PURPOSE_TEST, 0, 0, 0);
    for (int n = 0; n < 200; n++) {
        fast_transfer_node nodes[BRANCHES + 1];
        int64_t order[BRANCHES + 1], plain[BRANCHES + 1], any[BRANCHES] = { 0, 1, 2, 3, 4 }, placed;

        for (int i = 0; i < BRANCHES; i++)
            nodes[i] = (fast_transfer_node){ NULL, 0, 0.1 + (double)fast__rng_uniform(&rng),
                                             0.1 + (double)fast__rng_uniform(&rng) };
        nodes[BRANCHES] = (fast_transfer_node){ all, BRANCHES, 0, 0 }; /* joins them */
        assert_int_equal(fast__transfer_order(nodes, BRANCHES + 1, true, order, &placed), FAST_OK);
        assert_int_equal(placed, BRANCHES);
        assert_true(play(nodes, order) <= shortest(nodes, any, 0) * (1 + 1e-12));
        assert_int_equal(fast__transfer_order(nodes, BRANCHES + 1, false, plain, &placed), FAST_OK);
        worse += play(nodes, plain) > play(nodes, order) * 1.01;
    }
    assert_true(worse > 100); /* without times the order is another */
}

static void memory_may_run_out(void **state)
{
    const fast_transfer_node node = { NULL, 0, 1, 1 };
    int64_t order[1], placed = 0;
    fast_err err = FAST_ENOMEM;

    (void)state;
    for (int64_t n = 0; err == FAST_ENOMEM; n++) {
        fast__alloc_fail_after(n, false);
        err = fast__transfer_order(&node, 1, true, order, &placed);
        fast__alloc_fail_after(-1, false);
        assert_true(n < 8 && (err == FAST_OK) == (placed == 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_is_in_order),
        cmocka_unit_test(branches_come_before_depth),
        cmocka_unit_test(timed_orders_of_branches_are_optimal),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
