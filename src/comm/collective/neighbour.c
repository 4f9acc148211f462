/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Neighbour exchange: each rank sends its vector to the ranks that it names and receives one from
 * each of those that name it, as the edges of a topology do (MPI's neighbourhood collectives). The
 * vector is copied once, to a frozen buffer that all neighbours share. All members of the group
 * call it, also those without a neighbour.
 */
#include "base/memory.h"
#include "comm/collective/moves.h"

/* The lists of one call, for its schedule. */
typedef struct neighbours {
    const int64_t *to;   /* lent */
    int64_t to_count;    /* ranks to send to */
    const int64_t *from; /* lent */
    int64_t from_count;  /* ranks to receive from */
} neighbours;

/* First all sends, one a round, then all receives. */
static int neighbour_rounds(const fast_ask *ask, int64_t round, fast_move *moves)
{
    FAST_ASSERT(ask->state && round >= 0);
    const neighbours *lists = ask->state;
    if (round < lists->to_count) {
        const unsigned flags = FAST_MOVE_RETAIN | (round == 0 ? 0 : FAST_MOVE_RETAINED);
        moves[0] = (fast_move){ FAST_MOVE_SEND, flags, lists->to[round], 0, ask->count };
        return 1;
    }
    const int64_t i = round - lists->to_count;
    if (i >= lists->from_count)
        return FAST_ROUNDS_END;
    moves[0] = (fast_move){ FAST_MOVE_COPY, 0, lists->from[i], i * ask->count, ask->count };
    return 1;
}

/* y has one vector for each sender, in the order of `from`. */
fast_err fast_neighbour_exchange(fast_group *group, const int64_t *to, int64_t to_count,
                                 const int64_t *from, int64_t from_count, const float *x,
                                 int64_t count, float *y, int64_t deadline)
{
    FAST_ASSERT(group != NULL);
    FAST_ASSERT(to_count >= 0 && from_count >= 0);
    FAST_TRY(fast__group_check_count("neighbour_exchange", count));
    int64_t total = INT64_MAX;
    (void)fast__mul_size(count, from_count, &total);
    FAST_TRY(fast__group_check_count("neighbour_exchange", total));
    for (int64_t i = 0; i < to_count; i++)
        FAST_TRY(fast__group_check_rank(group, "neighbour", to[i]));
    for (int64_t i = 0; i < from_count; i++)
        FAST_TRY(fast__group_check_rank(group, "neighbour", from[i]));
    const neighbours lists = { to, to_count, from, from_count };
    return fast__collective_floats(group, "neighbour_exchange", neighbour_rounds,
                                   (fast_ask){ .count = count, .state = &lists }, x, y, deadline);
}
