/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All-to-all: in round s each rank sends to the rank s above and receives from the rank s below,
 * around the end, so that no rank is sent to by two at once: P - 1 messages of m / P each.
 */
#include "base/memory.h"
#include "comm/collective/moves.h"
#include "tensor/vector.h"

#include <string.h>

/* Part i of x goes to rank i; part i of y comes from rank i. */
static int alltoall_rounds(const fast_ask *ask, int64_t round, fast_move *moves)
{
    FAST_ASSERT(round >= 0 && ask->rank < ask->size);
    const int64_t n = ask->size;
    if (round >= n - 1)
        return FAST_ROUNDS_END;
    const int64_t to = (ask->rank + round + 1) % n;
    const int64_t from = (ask->rank + n - round - 1) % n;
    moves[0] = (fast_move){ FAST_MOVE_SEND, 0, to, to * ask->count, ask->count };
    moves[1] = (fast_move){ FAST_MOVE_COPY, 0, from, from * ask->count, ask->count };
    return 2;
}

/* The own part is copied here: no schedule sends to itself. */
fast_err fast_alltoall(fast_group *group, const float *x, int64_t count, float *y, int64_t deadline)
{
    FAST_ASSERT(group != NULL);
    FAST_ASSERT((x == NULL) == (y == NULL) && (x == NULL || x != y));
    FAST_TRY(fast__group_check_count("alltoall", count));
    int64_t total = INT64_MAX;
    (void)fast__mul_size(count, group->size, &total);
    FAST_TRY(fast__group_check_count("alltoall", total));
    if (x && count > 0)
        fast__vector_copy(count, x + group->rank * count, y + group->rank * count);
    return fast__collective_floats(group, "alltoall", alltoall_rounds, (fast_ask){ .count = count },
                                   x, y, deadline);
}
