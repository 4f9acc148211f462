/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allreduce along a chain: rank r adds its vector to the one that comes from rank r - 1 and passes
 * it on; the last rank has the sum, which is passed back. This is the linear topology of GPUs in
 * Tencent's Mariana (Zou et al., "Mariana: Tencent Deep Learning Platform and its Applications",
 * 2014). In C chunks, both directions are pipelines that run at once; above two ranks
 *
 *   T = 2 (P - 1 + C - 1) (L + m G / C)      additions P - 1 + C - 1 of m / C
 *
 * A rank sends and receives the vector twice at most, by one link to both of its neighbours; its
 * own chunks alone travel between two ranks, 2 + C - 1 of them in a row. The order
 * of additions is from the first rank to the last: deterministic, but not canonical.
 */
#include "comm/allreduces.h"
#include "comm/collective/moves.h"

/* Options, as they are typed. */
typedef struct chain_config {
    int64_t chunks; /* that a vector is cut into */
} chain_config;

static const fast_option chain_options[] = {
    FAST_OPT_INT(chain_config, chunks, "8", 1, 1 << 20,
                 "pieces of a vector, of which one is passed on while the next arrives"),
    FAST_OPT_END,
};

/* Return the number of chunks; without options, 1. */
static int64_t chunks_of(const fast_ask *ask)
{
    const chain_config *config = ask->config;

    FAST_ASSERT(!config || config->chunks >= 1);
    return config ? config->chunks : 1;
}

/* Return a move of chunk i. */
static fast_move chunk(const fast_ask *ask, int64_t i, fast_move_kind kind, unsigned flags,
                       int64_t peer)
{
    int64_t offset, count;

    FAST_ASSERT(i >= 0 && i < chunks_of(ask));
    fast__range(ask->count, chunks_of(ask), i, &offset, &count);
    return (fast_move){ kind, flags, peer, offset, count };
}

/* Pass chunk i on towards the last rank, which has its sum then. */
static int move_up(const fast_ask *ask, int64_t i, fast_move *moves)
{
    const bool last = ask->rank == ask->size - 1;
    int moved = 0;

    FAST_ASSERT(ask->size > 1);
    if (ask->rank == 0) {
        moves[moved++] = chunk(ask, i, FAST_MOVE_SEND, 0, 1);
        return moved;
    }
    moves[moved++] = chunk(ask, i, FAST_MOVE_MERGE, FAST_MOVE_RETAIN | (last ? FAST_MOVE_STORE : 0),
                           ask->rank - 1);
    moves[moved++] =
        chunk(ask, i, FAST_MOVE_SEND, FAST_MOVE_RETAINED, last ? ask->rank - 1 : ask->rank + 1);
    return moved;
}

/* Pass the sum of chunk i back. */
static int move_down(const fast_ask *ask, int64_t i, fast_move *moves)
{
    int moved = 0;

    FAST_ASSERT(ask->rank < ask->size - 1);
    moves[moved++] =
        chunk(ask, i, FAST_MOVE_COPY, ask->rank > 0 ? FAST_MOVE_RETAIN : 0, ask->rank + 1);
    if (ask->rank > 0)
        moves[moved++] = chunk(ask, i, FAST_MOVE_SEND, FAST_MOVE_RETAINED, ask->rank - 1);
    return moved;
}

/* A chunk comes back to a rank after twice its distance to the end of the chain, and is passed on
 * between two chunks of the other direction. */
static int chain_rounds(const fast_ask *ask, int64_t round, fast_move *moves)
{
    const int64_t chunks = chunks_of(ask);
    const int64_t distance = ask->size - 1 - ask->rank, back = round - 2 * distance;
    int moved = 0;

    FAST_ASSERT(round >= 0 && distance >= 0);
    if (ask->size == 1 || back >= chunks)
        return FAST_ROUNDS_END;
    if (round < chunks)
        moved = move_up(ask, round, moves);
    return distance > 0 && back >= 0 ? moved + move_down(ask, back, moves + moved) : moved;
}

/* The first chunk goes all the way and back; the others follow it, above two ranks in both
 * directions of each link. */
static double chain_seconds(const fast_comm_cost *cost, const fast_ask *ask)
{
    const double chunks = (double)chunks_of(ask);
    const double hops = (double)(ask->size - 1), part = (double)ask->count / chunks;

    FAST_ASSERT(ask->size >= 1);
    if (ask->size == 1)
        return 0;
    return (2 * hops + (hops > 1 ? 2 : 1) * (chunks - 1)) * (cost->alpha + 4 * part * cost->beta) +
           (hops + chunks - 1) * part * cost->gamma;
}

const fast_algorithm fast__allreduce_chain = {
    .name = "chain",
    .summary = "pass along a line of ranks, adding, and back",
    .options = chain_options,
    .rounds = chain_rounds,
    .seconds = chain_seconds,
};
