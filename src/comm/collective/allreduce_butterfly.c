/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allreduce by a butterfly (recursive doubling): in step s each rank exchanges its sum with the
 * place whose number differs in bit s, and both add. All have the same sums, because x + y = y + x
 * to the bit, and the order is the canonical one.
 *
 *   T = log2(P) (L + m G)            additions log2(P) m
 *
 * Near-optimal for short vectors. Members beyond a power of two hand their vector to their pair's
 * even rank first and get the result from it last: two messages more.
 */
#include "comm/allreduces.h"
#include "comm/collective/moves.h"

/* Pairs add up, the core exchanges at doubling distances, pairs get the sum. */
static int butterfly_rounds(const fast_ask *ask, int64_t round, fast_move *moves)
{
    FAST_ASSERT(round >= 0 && ask->rank < ask->size);
    const fast_core core = fast__core_of(ask->size);
    const int64_t place = fast__core_place(&core, ask->rank);
    const bool speaks = fast__core_rank(&core, place, -1) == ask->rank;
    if (round > core.bits + 1)
        return FAST_ROUNDS_END;
    if (round == 0 || round == core.bits + 1) {
        const bool sends = speaks == (round > 0);
        const fast_move_kind in = round == 0 ? FAST_MOVE_ADD : FAST_MOVE_COPY;
        moves[0] = (fast_move){ sends ? FAST_MOVE_SEND : in, 0, ask->rank ^ 1, 0, ask->count };
        return place < core.extra ? 1 : 0;
    }
    if (!speaks)
        return 0;
    const int64_t peer = fast__core_rank(&core, place ^ (int64_t)1 << (round - 1), -1);
    moves[0] = (fast_move){ FAST_MOVE_SEND, 0, peer, 0, ask->count };
    moves[1] = (fast_move){ FAST_MOVE_ADD, 0, peer, 0, ask->count };
    return 2;
}

static double butterfly_seconds(const fast_comm_cost *cost, const fast_ask *ask)
{
    FAST_ASSERT(ask->size >= 1);
    const fast_core core = fast__core_of(ask->size);
    const double sums = core.bits + (core.extra ? 1 : 0);
    const double steps = core.bits + (core.extra ? 2 : 0);
    const double bytes = 4.0 * (double)ask->count;
    return steps * (cost->alpha + bytes * cost->beta) + sums * (double)ask->count * cost->gamma;
}

const fast_algorithm fast__allreduce_butterfly = {
    .name = "butterfly",
    .summary = "exchange and add pairwise, at doubling distances: for short vectors",
    .canonical = true,
    .rounds = butterfly_rounds,
    .seconds = butterfly_seconds,
};
