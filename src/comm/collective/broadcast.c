/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Broadcast. Short ones go down the binomial tree (moves.c), log2(P) (L + m G), in one frozen
 * buffer that is passed on. Long ones are scattered down a tree, each rank getting what its part of
 * the ranks is to have, and gathered by all: 2 L log2(P) + 2 m G (P - 1) / P (van de Geijn).
 */
#include "comm/collective/moves.h"

/* Where the second algorithm is faster: the vector's time is then many latencies. */
enum { LONG_SIZE = 256 << 10, LONG_MEMBERS = 4 };

/* Ranks are counted from the root: 0 has all. In round k, from the largest distance d = 2^k down,
 * the multiples of 2 d send what d ranks above them are to have. */
static int scatter(const fast_ask *ask, int64_t round, fast_move *moves)
{
    FAST_ASSERT(round >= 0 && ask->rank < ask->size);
    const int64_t n = ask->size;
    const int k = fast__log2_ceil(n) - 1 - (int)round;
    if (k < 0)
        return FAST_ROUNDS_END;
    const int64_t step = (int64_t)1 << k;
    const bool sends = ask->rank % (2 * step) == 0 && ask->rank + step < n;
    const bool receives = ask->rank % (2 * step) == step;
    const int64_t head = sends ? ask->rank + step : ask->rank;
    const int64_t last = (head + step < n ? head + step : n) - 1;
    if (!sends && !receives)
        return 0;
    int64_t offset, end, count;
    fast__range(ask->count, n, head, &offset, &count);
    fast__range(ask->count, n, last, &end, &count);
    moves[0] = (fast_move){ sends ? FAST_MOVE_SEND : FAST_MOVE_COPY, 0,
                            sends ? head : ask->rank - step, offset, end + count - offset };
    return 1;
}

/* Scatter from the root, then gather by all; ranks are turned so that the root is 0. */
static int scatter_gather(const fast_ask *ask, int64_t round, fast_move *moves)
{
    FAST_ASSERT(ask->root >= 0 && ask->root < ask->size);
    const int64_t half = fast__log2_ceil(ask->size);
    fast_ask turned = *ask;
    turned.rank = (ask->rank + ask->size - ask->root) % ask->size;
    const int count = round < half ? scatter(&turned, round, moves)
                                   : fast__rounds_allgather(&turned, round - half, moves);
    for (int i = 0; i < count; i++)
        moves[i].peer = (moves[i].peer + ask->root) % ask->size;
    return count;
}

/* Bytes, not floats: nothing is added. All members choose by the size, which they agree on. */
fast_err fast_broadcast(fast_group *group, int64_t root, void *data, size_t size, int64_t deadline)
{
    FAST_ASSERT(group != NULL);
    FAST_TRY(fast__group_check_rank(group, "root", root));
    FAST_TRY(fast__group_check_count("broadcast", (int64_t)size));
    const bool is_long = size >= LONG_SIZE && group->size >= LONG_MEMBERS;
    fast_collective collective = { .group = group,
                                   .doing = "broadcast",
                                   .ask = { group->rank, group->size, (int64_t)size, root, NULL,
                                            NULL },
                                   .rounds = is_long ? scatter_gather : fast__rounds_broadcast,
                                   .x = data,
                                   .y = data,
                                   .element = 1 };
    return fast__collective_run(&collective, deadline);
}
