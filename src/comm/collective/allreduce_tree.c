/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allreduce by a tree: the sum to rank 0 along the canonical tree, and back along the same one.
 * Every rank sends and receives the vector about twice at most log2 P times, one after the other:
 *
 *   T = 2 log2(P) (L + m G)          additions log2(P) m on the longest path
 *
 * It is the algorithm that is easiest to see through, and rarely the fastest.
 */
#include "comm/allreduces.h"
#include "comm/collective/moves.h"

static int tree_rounds(const fast_ask *ask, int64_t round, fast_move *moves)
{
    const int64_t half = fast__core_of(ask->size).bits + 1;
    FAST_ASSERT(ask->root == 0);
    if (round < half)
        return fast__rounds_reduce(ask, round, moves);
    return fast__rounds_broadcast(ask, round - half, moves);
}

static double tree_seconds(const fast_comm_cost *cost, const fast_ask *ask)
{
    FAST_ASSERT(ask->size >= 1);
    const double steps = fast__log2_ceil(ask->size);
    const double bytes = 4.0 * (double)ask->count;
    return 2 * steps * (cost->alpha + bytes * cost->beta) +
           steps * (double)ask->count * cost->gamma;
}

const fast_algorithm fast__allreduce_tree = {
    .name = "tree",
    .summary = "sum up a binary tree and send the result back down it",
    .canonical = true,
    .rounds = tree_rounds,
    .seconds = tree_seconds,
};
