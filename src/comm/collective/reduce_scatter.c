/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reduce-scatter: halving as in rabenseifner.c, which leaves each part of the canonical sum at some
 * place of the core, in an order that halving dictates; then every part goes to the ranks whose
 * ranges it overlaps: at most four, because a part is hardly longer than two ranges.
 *
 *   T = L (log2(P) + 1) + m G (P - 1) / P + m G / P
 */
#include "comm/collective/moves.h"

/* The place of the core whose part holds element `at`: the halving, followed down. */
static int64_t place_at(const fast_ask *ask, const fast_core *core, int64_t at)
{
    int64_t place = 0, count = ask->count;
    FAST_ASSERT(at >= 0 && at < count);
    for (int s = 0; s < core->bits; s++) {
        const int64_t lower = count - count / 2;
        if (at >= lower) {
            place |= (int64_t)1 << s;
            at -= lower;
            count -= lower;
        } else {
            count = lower;
        }
    }
    return place;
}

/* The rank whose range holds element `at`: the first `longer` ranges have one element more. */
static int64_t rank_at(const fast_ask *ask, int64_t at)
{
    const int64_t each = ask->count / ask->size;
    const int64_t longer = ask->count % ask->size;
    FAST_ASSERT(at >= 0 && at < ask->count);
    if (at < longer * (each + 1))
        return at / (each + 1);
    return longer + (at - longer * (each + 1)) / each;
}

/* Cut [at, end) where the owner of its other side changes: at ranks' ranges where this rank sends
 * its part, at places' parts where it receives its range. */
static int cut(const fast_ask *ask, const fast_core *core, bool sends, int64_t at, int64_t end,
               fast_move *moves)
{
    int moved = 0;
    while (at < end) {
        int64_t peer, offset, count;
        if (sends) {
            peer = rank_at(ask, at);
            fast__range(ask->count, ask->size, peer, &offset, &count);
        } else {
            const int64_t place = place_at(ask, core, at);
            peer = fast__core_rank(core, place, -1);
            fast__halve(ask->count, place, core->bits, &offset, &count);
        }
        const int64_t stop = offset + count < end ? offset + count : end;
        FAST_ASSERT(stop > at && moved < 4);
        if (peer != ask->rank)
            moves[moved++] =
                (fast_move){ sends ? FAST_MOVE_SEND : FAST_MOVE_COPY, 0, peer, at, stop - at };
        at = stop;
    }
    return moved;
}

/* Halve and add; then each place sends the parts of other ranks' ranges. */
static int reduce_scatter_rounds(const fast_ask *ask, int64_t round, fast_move *moves)
{
    FAST_ASSERT(round >= 0 && ask->rank < ask->size);
    const fast_core core = fast__core_of(ask->size);
    if (round <= core.bits)
        return fast__rounds_halving(ask, round, moves);
    if (round > core.bits + 1)
        return FAST_ROUNDS_END;
    const int64_t place = fast__core_place(&core, ask->rank);
    int64_t offset, count;
    int moved = 0;
    if (fast__core_rank(&core, place, -1) == ask->rank) {
        fast__halve(ask->count, place, core.bits, &offset, &count);
        moved = cut(ask, &core, true, offset, offset + count, moves);
    }
    fast__range(ask->count, ask->size, ask->rank, &offset, &count);
    return moved + cut(ask, &core, false, offset, offset + count, moves + moved);
}

/* Outside its own range a rank's x holds partial sums afterwards. */
fast_err fast_reduce_scatter(fast_group *group, float *x, int64_t count, int64_t deadline)
{
    FAST_ASSERT(group != NULL);
    return fast__collective_floats(group, "reduce_scatter", reduce_scatter_rounds,
                                   (fast_ask){ .count = count }, x, x, deadline);
}
