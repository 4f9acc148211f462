/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Barrier by dissemination: in round k each rank sends to the rank 2^k above and receives from the
 * rank 2^k below, around the end. After ceil(log2 P) rounds each rank has heard, through others,
 * from all. (Hensgen, Finkel, Manber: "Two algorithms for barrier synchronization", 1988.)
 */
#include "comm/collective/moves.h"

/* Messages are empty, and marked so that the executor does not leave them out. */
static int barrier_rounds(const fast_ask *ask, int64_t round, fast_move *moves)
{
    FAST_ASSERT(round >= 0 && ask->rank < ask->size);
    const int64_t n = ask->size;
    if (round >= fast__log2_ceil(n))
        return FAST_ROUNDS_END;
    const int64_t step = (int64_t)1 << round;
    const int64_t to = (ask->rank + step) % n;
    const int64_t from = (ask->rank + n - step) % n;
    moves[0] = (fast_move){ FAST_MOVE_SEND, FAST_MOVE_EMPTY, to, 0, 0 };
    moves[1] = (fast_move){ FAST_MOVE_COPY, FAST_MOVE_EMPTY, from, 0, 0 };
    return 2;
}

fast_err fast_barrier(fast_group *group, int64_t deadline)
{
    FAST_ASSERT(group != NULL);
    fast_collective collective = { .group = group,
                                   .doing = "barrier",
                                   .ask = { .rank = group->rank, .size = group->size },
                                   .rounds = barrier_rounds,
                                   .element = 1 };
    return fast__collective_run(&collective, deadline);
}
