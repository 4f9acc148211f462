/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allreduce by a butterfly (recursive doubling): in step s everyone exchanges its sum with the
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

static int butterfly_rounds(const fast_ask *ask, int64_t round, fast_move *moves)
{
    const fast_fold fold = fast__fold(ask->size);
    const int64_t place = fast__fold_place(&fold, ask->rank);
    const bool speaks = fast__fold_rank(&fold, place, -1) == ask->rank;
    if (round > fold.bits + 1)
        return FAST_ROUNDS_END;
    if (round == 0 || round == fold.bits + 1) {
        const bool sends = speaks == (round > 0);
        const fast_move_kind in = round == 0 ? FAST_MOVE_ADD : FAST_MOVE_COPY;
        moves[0] = (fast_move){ sends ? FAST_MOVE_SEND : in, 0, ask->rank ^ 1, 0, ask->count };
        return place < fold.extra ? 1 : 0;
    }
    if (!speaks)
        return 0;
    const int64_t peer = fast__fold_rank(&fold, place ^ (int64_t)1 << (round - 1), -1);
    moves[0] = (fast_move){ FAST_MOVE_SEND, 0, peer, 0, ask->count };
    moves[1] = (fast_move){ FAST_MOVE_ADD, 0, peer, 0, ask->count };
    return 2;
}

static double butterfly_seconds(const fast_price *price, const fast_ask *ask)
{
    const fast_fold fold = fast__fold(ask->size);
    const double sums = fold.bits + (fold.extra ? 1 : 0);
    const double steps = fold.bits + (fold.extra ? 2 : 0);
    const double bytes = 4.0 * (double)ask->count;
    return steps * (price->alpha + bytes * price->beta) + sums * (double)ask->count * price->gamma;
}

const fast_algorithm fast__allreduce_butterfly = {
    .name = "butterfly",
    .summary = "exchange and add pairwise, at doubling distances: for short vectors",
    .canonical = true,
    .rounds = butterfly_rounds,
    .seconds = butterfly_seconds,
};
