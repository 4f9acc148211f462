/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allreduce by Rabenseifner's algorithm: a reduce-scatter by halving, then an allgather by
 * doubling. In step s the places whose numbers differ in bit s cut their common range in two, send
 * each other the half that they give up, and add; after log2 P steps each has the sum of one P-th.
 * The same steps back exchange what each has:
 *
 *   T = 2 L log2(P) + 2 m G (P - 1) / P      additions m (P - 1) / P
 *
 * The neighbours are exchanged with first, so that the order of every element's sum is the
 * canonical one. (Rabenseifner, "Optimization of Collective Reduction Operations", ICCS 2004.)
 */
#include "comm/allreduces.h"
#include "comm/collective/moves.h"

/* The lower half is longer if the count is odd; bit s of the place selects the half in step s. */
void fast__halve(int64_t count, int64_t place, int steps, int64_t *offset_out, int64_t *count_out)
{
    FAST_ASSERT(count >= 0 && steps >= 0);
    int64_t offset = 0;
    for (int s = 0; s < steps; s++) {
        const int64_t lower = count - count / 2;
        if (place >> s & 1) {
            offset += lower;
            count -= lower;
        } else {
            count = lower;
        }
    }
    *offset_out = offset;
    *count_out = count;
}

/* Exchange with the place that differs in bit s: the range that this one has after step s is
 * `mine`, the other half `theirs`. */
static int exchange(const fast_ask *ask, const fast_core *core, int s, bool adds, fast_move *moves)
{
    FAST_ASSERT(s >= 0 && s < core->bits);
    const int64_t place = fast__core_place(core, ask->rank);
    const int64_t other = place ^ (int64_t)1 << s;
    const int64_t peer = fast__core_rank(core, other, -1);
    fast_move mine = { FAST_MOVE_ADD, 0, peer, 0, 0 };
    fast_move theirs = { FAST_MOVE_SEND, 0, peer, 0, 0 };
    fast__halve(ask->count, place, s + 1, &mine.offset, &mine.count);
    fast__halve(ask->count, other, s + 1, &theirs.offset, &theirs.count);
    if (!adds) {
        mine.kind = FAST_MOVE_SEND;
        theirs.kind = FAST_MOVE_COPY;
    }
    moves[0] = adds ? theirs : mine;
    moves[1] = adds ? mine : theirs;
    return 2;
}

/* Round 0 joins pairs, round s + 1 exchanges bit s. */
int fast__rounds_halving(const fast_ask *ask, int64_t round, fast_move *moves)
{
    FAST_ASSERT(round >= 0 && ask->rank < ask->size);
    const fast_core core = fast__core_of(ask->size);
    const int64_t place = fast__core_place(&core, ask->rank);
    const bool speaks = fast__core_rank(&core, place, -1) == ask->rank;
    if (round > core.bits)
        return FAST_ROUNDS_END;
    if (round > 0)
        return speaks ? exchange(ask, &core, (int)round - 1, true, moves) : 0;
    moves[0] =
        (fast_move){ speaks ? FAST_MOVE_ADD : FAST_MOVE_SEND, 0, ask->rank ^ 1, 0, ask->count };
    return place < core.extra ? 1 : 0;
}

/* Halve and add, then double and copy back. */
static int rabenseifner_rounds(const fast_ask *ask, int64_t round, fast_move *moves)
{
    FAST_ASSERT(round >= 0);
    const fast_core core = fast__core_of(ask->size);
    const int64_t place = fast__core_place(&core, ask->rank);
    const bool speaks = fast__core_rank(&core, place, -1) == ask->rank;
    if (round <= core.bits)
        return fast__rounds_halving(ask, round, moves);
    if (round > 2 * core.bits + 1)
        return FAST_ROUNDS_END;
    if (round <= 2 * core.bits)
        return speaks ? exchange(ask, &core, 2 * core.bits - (int)round, false, moves) : 0;
    moves[0] =
        (fast_move){ speaks ? FAST_MOVE_SEND : FAST_MOVE_COPY, 0, ask->rank ^ 1, 0, ask->count };
    return place < core.extra ? 1 : 0;
}

static double rabenseifner_seconds(const fast_comm_cost *cost, const fast_ask *ask)
{
    FAST_ASSERT(ask->size >= 1);
    const fast_core core = fast__core_of(ask->size);
    const double part = (double)(core.size - 1) / (double)core.size;
    const double count = (double)ask->count;
    double seconds = 2 * core.bits * cost->alpha + 2 * part * 4 * count * cost->beta +
                     part * count * cost->gamma;
    if (core.extra)
        seconds += 2 * (cost->alpha + 4 * count * cost->beta) + count * cost->gamma;
    return seconds;
}

const fast_algorithm fast__allreduce_rabenseifner = {
    .name = "rabenseifner",
    .summary = "halve and add, then double and copy: few messages and few bytes",
    .canonical = true,
    .rounds = rabenseifner_rounds,
    .seconds = rabenseifner_seconds,
};
