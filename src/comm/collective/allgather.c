/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allgather by Bruck's algorithm: in round k each rank sends all that it has, the ranges of 2^k
 * ranks from its own on around the end, to the rank 2^k below, and doubles what it has. Any number
 * of members takes ceil(log2 P) rounds and m (P - 1) / P bytes each:
 *
 *   T = L ceil(log2 P) + m G (P - 1) / P
 *
 * What goes over the end of the vector goes as two messages. (Bruck et al., "Efficient algorithms
 * for all-to-all communications in multiport message-passing systems", 1997.)
 */
#include "comm/collective/moves.h"

/* Moves of the ranges of `n` ranks from `rank` on: two where that goes over the end, or one. */
static int ranges(const fast_ask *ask, fast_move_kind kind, int64_t peer, int64_t rank, int64_t n,
                  fast_move *moves)
{
    FAST_ASSERT(n >= 0 && rank < ask->size);
    int moved = 0;
    while (n > 0) {
        const int64_t last = rank + n <= ask->size ? rank + n - 1 : ask->size - 1;
        int64_t offset, end, count;
        fast__range(ask->count, ask->size, rank, &offset, &count);
        fast__range(ask->count, ask->size, last, &end, &count);
        moves[moved++] = (fast_move){ kind, 0, peer, offset, end + count - offset };
        n -= last + 1 - rank;
        rank = 0;
    }
    return moved;
}

/* The last round sends only the ranges that are still missing. */
int fast__rounds_allgather(const fast_ask *ask, int64_t round, fast_move *moves)
{
    FAST_ASSERT(round >= 0 && ask->rank < ask->size);
    const int64_t n = ask->size;
    if (round >= fast__log2_ceil(n))
        return FAST_ROUNDS_END;
    const int64_t step = (int64_t)1 << round;
    const int64_t have = step < n - step ? step : n - step;
    const int64_t from = (ask->rank + step) % n;
    const int64_t to = (ask->rank + n - step) % n;
    const int sent = ranges(ask, FAST_MOVE_SEND, to, ask->rank, have, moves);
    return sent + ranges(ask, FAST_MOVE_COPY, from, from, have, moves + sent);
}

/* Each rank's own range of x is its input; the rest is overwritten. */
fast_err fast_allgather(fast_group *group, float *x, int64_t count, int64_t deadline)
{
    FAST_ASSERT(group != NULL);
    return fast__collective_floats(group, "allgather", fast__rounds_allgather,
                                   (fast_ask){ .count = count }, x, x, deadline);
}
