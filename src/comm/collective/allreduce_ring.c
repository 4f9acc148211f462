/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allreduce by a ring, a pipeline of P segments: segment s starts at rank s + 1 and goes around
 * once, each rank adding its own, until rank s has the sum; then it goes around again for all to
 * copy. A rank sends one segment in each of the 2 (P - 1) steps:
 *
 *   T = 2 (P - 1) (L + m G / P)      additions (P - 1) m / P
 *
 * Best in bytes, worst in messages: for long vectors and few members. A segment's buffer is made by
 * its first rank and then passed on: the sums are added to it as it comes, and nothing is copied
 * but the result. The order of additions goes around the ring, from a different rank in each
 * segment: deterministic, but not canonical.
 *
 * `chunk` cuts the segments once more, so that a rank can pass the first piece on while the next
 * arrives.
 */
#include "comm/allreduces.h"
#include "comm/collective/moves.h"

typedef struct ring_config {
    int64_t chunk; /* floats; 0: whole segments */
} ring_config;

static const fast_option ring_options[] = {
    FAST_OPT_INT(ring_config, chunk, "0", 0, 1 << 30,
                 "floats that are passed on at once; 0 means whole segments"),
    FAST_OPT_END,
};

/* How many pieces the longest segment has. */
static int64_t pieces(const fast_ask *ask)
{
    FAST_ASSERT(ask->size >= 1);
    const ring_config *config = ask->config;
    const int64_t longest = (ask->count + ask->size - 1) / ask->size;
    if (!config || config->chunk == 0 || longest <= config->chunk)
        return 1;
    return (longest + config->chunk - 1) / config->chunk;
}

/* Piece i of a segment as a move from or to a neighbour. */
static fast_move piece(const fast_ask *ask, int64_t segment, int64_t i, fast_move_kind kind,
                       unsigned flags)
{
    FAST_ASSERT(i >= 0 && i < pieces(ask));
    const int64_t n = ask->size;
    int64_t offset, count, inner;
    fast__range(ask->count, n, (segment + 2 * n) % n, &offset, &count);
    fast__range(count, pieces(ask), i, &inner, &count);
    const int64_t peer = (ask->rank + (kind == FAST_MOVE_SEND ? 1 : n - 1)) % n;
    return (fast_move){ kind, flags, peer, offset + inner, count };
}

/* Step 0 sends the own start; step s receives what it then passes on, in 2 (P - 1) steps. */
static int ring_rounds(const fast_ask *ask, int64_t round, fast_move *moves)
{
    FAST_ASSERT(round >= 0 && ask->rank < ask->size);
    const int64_t n = ask->size;
    const int64_t step = round / pieces(ask);
    const int64_t i = round % pieces(ask);
    const int64_t segment = ask->rank - 1 - step;
    if (n == 1 || step > 2 * (n - 1))
        return FAST_ROUNDS_END;
    if (step == 0) {
        moves[0] = piece(ask, segment, i, FAST_MOVE_SEND, 0);
        return 1;
    }
    if (step == 2 * (n - 1)) {
        moves[0] = piece(ask, segment, i, FAST_MOVE_COPY, 0);
        return 1;
    }
    const bool adds = step < n;
    moves[0] = piece(ask, segment, i, adds ? FAST_MOVE_MERGE : FAST_MOVE_COPY,
                     FAST_MOVE_RETAIN | (step == n - 1 ? FAST_MOVE_STORE : 0));
    moves[1] = piece(ask, segment, i, FAST_MOVE_SEND, FAST_MOVE_RETAINED);
    return 2;
}

static double ring_seconds(const fast_comm_cost *cost, const fast_ask *ask)
{
    FAST_ASSERT(ask->size >= 1);
    const double steps = (double)(ask->size - 1);
    const double part = (double)ask->count / (double)ask->size;
    return 2 * steps * (cost->alpha + 4 * part * cost->beta) + steps * part * cost->gamma;
}

const fast_algorithm fast__allreduce_ring = {
    .name = "ring",
    .summary = "pass segments around twice, adding: for long vectors and few members",
    .options = ring_options,
    .by_place = true,
    .rounds = ring_rounds,
    .seconds = ring_seconds,
};
