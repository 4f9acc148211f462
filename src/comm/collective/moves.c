/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shape of the canonical order, and the binomial tree over it. At level l the core is cut into
 * blocks of 2^l places; one rank represents each: the root its own block, the first place any
 * other. In a sum the blocks of a level are joined in pairs, and the rank that does not represent
 * the pair sends its partial sum to the one that does; a broadcast makes the same moves in reverse,
 * largest blocks first. Both take ceil(log2 n) messages one after the other, whatever the root.
 *
 * Sums travel in the buffer that came: a rank adds its own vector to what its first child sent,
 * adds the other children's to that, and passes it on. Broadcasts pass one frozen buffer on.
 */
#include "comm/collective/moves.h"

/* A loop of at most 62 steps; called once a round. */
int fast__log2_ceil(int64_t n)
{
    FAST_ASSERT(n >= 1);
    int bits = 0;
    while (((int64_t)1 << bits) < n)
        bits++;
    return bits;
}

/* The first count % n parts have one element more. */
void fast__range(int64_t count, int64_t n, int64_t i, int64_t *offset_out, int64_t *count_out)
{
    FAST_ASSERT(count >= 0 && n >= 1);
    FAST_ASSERT(i >= 0 && i < n);
    const int64_t each = count / n;
    const int64_t longer = count % n;
    *offset_out = i * each + (i < longer ? i : longer);
    *count_out = each + (i < longer ? 1 : 0);
}

/* For n = 6: a core of 4 places, of which 2 are pairs. */
fast_core fast__core_of(int64_t size)
{
    FAST_ASSERT(size >= 1);
    const int up = fast__log2_ceil(size);
    const int bits = ((int64_t)1 << up) == size ? up : up - 1;
    const int64_t core = (int64_t)1 << bits;
    return (fast_core){ core, size - core, bits };
}

/* Ranks below 2 r share places in pairs; the others follow. */
int64_t fast__core_place(const fast_core *core, int64_t rank)
{
    FAST_ASSERT(rank >= 0 && rank < core->size + core->extra);
    return rank < 2 * core->extra ? rank / 2 : rank - core->extra;
}

int64_t fast__core_rank(const fast_core *core, int64_t place, int64_t root)
{
    FAST_ASSERT(place >= 0 && place < core->size);
    if (place >= core->extra)
        return place + core->extra;
    return root == 2 * place + 1 ? root : 2 * place;
}

/* The part of a rank at one level of the tree. */
typedef struct level {
    bool speaks;  /* it represents its block; else it does nothing */
    bool up;      /* it represents the joined block too */
    int64_t peer; /* the rank that represents the other block */
} level;

/* Return the place that represents block b of level l. */
static int64_t speaker(int64_t b, int l, int64_t root)
{
    FAST_ASSERT(b >= 0 && l >= 0);
    return root >> l == b ? root : b << l;
}

/* Return the part of a rank at level l; level -1 joins pairs. */
static level at_level(const fast_ask *ask, const fast_core *core, int l)
{
    FAST_ASSERT(l >= -1 && l < core->bits);
    const int64_t place = fast__core_place(core, ask->rank);
    const int64_t root = fast__core_place(core, ask->root);
    const bool speaks = fast__core_rank(core, place, ask->root) == ask->rank;
    if (l < 0)
        return (level){ place < core->extra, speaks, ask->rank ^ 1 };
    const int64_t block = place >> l;
    const int64_t other = speaker(block ^ 1, l, root);
    return (level){ speaks && speaker(block, l, root) == place,
                    speaker(block >> 1, l + 1, root) == place,
                    fast__core_rank(core, other, ask->root) };
}

/* Round 0 joins pairs; round l + 1 joins blocks of level l. */
int fast__rounds_reduce(const fast_ask *ask, int64_t round, fast_move *moves)
{
    FAST_ASSERT(round >= 0 && ask->root >= 0 && ask->root < ask->size);
    const fast_core core = fast__core_of(ask->size);
    const int l = (int)round - 1;
    if (round > core.bits)
        return FAST_ROUNDS_END;
    const level at = at_level(ask, &core, l);
    if (!at.speaks)
        return 0;
    /* A rank that represents more than itself holds a partial sum already. */
    const bool first = l < 0 || (l == 0 && fast__core_place(&core, ask->rank) >= core.extra);
    fast_move move = { FAST_MOVE_SEND, first ? 0 : FAST_MOVE_RETAINED, at.peer, 0, ask->count };
    if (at.up && ask->rank == ask->root) {
        move.kind = FAST_MOVE_ADD;
        move.flags = 0;
    } else if (at.up) {
        move.kind = first ? FAST_MOVE_MERGE : FAST_MOVE_ADD;
        move.flags = first ? FAST_MOVE_RETAIN : FAST_MOVE_RETAINED;
    }
    moves[0] = move;
    return 1;
}

/* The levels of the reduce in reverse; the last round hands the vector to the second of each
 * pair. */
int fast__rounds_broadcast(const fast_ask *ask, int64_t round, fast_move *moves)
{
    FAST_ASSERT(round >= 0 && ask->root >= 0 && ask->root < ask->size);
    const fast_core core = fast__core_of(ask->size);
    if (round > core.bits)
        return FAST_ROUNDS_END;
    const int l = core.bits - 1 - (int)round;
    const level at = at_level(ask, &core, l);
    if (!at.speaks)
        return 0;
    /* The root's first message makes the buffer that all ranks pass on. */
    const bool makes = ask->rank == ask->root && round == 0;
    const unsigned flags = FAST_MOVE_RETAIN | (makes ? 0 : FAST_MOVE_RETAINED);
    moves[0] = at.up ? (fast_move){ FAST_MOVE_SEND, flags, at.peer, 0, ask->count }
                     : (fast_move){ FAST_MOVE_COPY, FAST_MOVE_RETAIN, at.peer, 0, ask->count };
    return 1;
}
