/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shape of the canonical order, and the binomial tree over it. At level l the core is cut into
 * blocks of 2^l places; one rank speaks for each: the root for its own block, the first place for
 * any other. In a sum the blocks of a level are joined in pairs, and the one that does not speak
 * for the pair sends what it has to the one that does; a broadcast goes the same way back, largest
 * blocks first. Both take ceil(log2 n) messages one after the other, whatever the root.
 *
 * Sums travel in the buffer that came: a rank adds its own vector to what its first child sent,
 * adds the other children's to that, and passes it on. Broadcasts pass one frozen buffer on.
 */
#include "comm/collective/moves.h"

int fast__log2_ceil(int64_t n)
{
    FAST_ASSERT(n >= 1);
    int bits = 0;
    while (((int64_t)1 << bits) < n)
        bits++;
    return bits;
}

void fast__range(int64_t count, int64_t n, int64_t i, int64_t *offset_out, int64_t *count_out)
{
    FAST_ASSERT(count >= 0 && n >= 1);
    FAST_ASSERT(i >= 0 && i < n);
    const int64_t each = count / n;
    const int64_t longer = count % n;
    *offset_out = i * each + (i < longer ? i : longer);
    *count_out = each + (i < longer ? 1 : 0);
}

fast_fold fast__fold(int64_t size)
{
    const int up = fast__log2_ceil(size);
    const int bits = ((int64_t)1 << up) == size ? up : up - 1;
    const int64_t core = (int64_t)1 << bits;
    return (fast_fold){ core, size - core, bits };
}

int64_t fast__fold_place(const fast_fold *fold, int64_t rank)
{
    FAST_ASSERT(rank >= 0 && rank < fold->core + fold->extra);
    return rank < 2 * fold->extra ? rank / 2 : rank - fold->extra;
}

int64_t fast__fold_rank(const fast_fold *fold, int64_t place, int64_t root)
{
    FAST_ASSERT(place >= 0 && place < fold->core);
    if (place >= fold->extra)
        return place + fold->extra;
    return root == 2 * place + 1 ? root : 2 * place;
}

/* What a rank does at one level of the tree. */
typedef struct level {
    bool speaks;  /* for its block; else nothing */
    bool up;      /* it speaks for the joined block too */
    int64_t peer; /* the rank that speaks for the other block */
} level;

/* The place that speaks for block b of level l. */
static int64_t speaker(int64_t b, int l, int64_t root)
{
    return root >> l == b ? root : b << l;
}

/* Level -1 is the folding of pairs. */
static level at_level(const fast_ask *ask, const fast_fold *fold, int l)
{
    const int64_t place = fast__fold_place(fold, ask->rank);
    const int64_t root = fast__fold_place(fold, ask->root);
    const bool speaks = fast__fold_rank(fold, place, ask->root) == ask->rank;
    if (l < 0)
        return (level){ place < fold->extra, speaks, ask->rank ^ 1 };
    const int64_t block = place >> l;
    const int64_t other = speaker(block ^ 1, l, root);
    return (level){ speaks && speaker(block, l, root) == place,
                    speaker(block >> 1, l + 1, root) == place,
                    fast__fold_rank(fold, other, ask->root) };
}

int fast__rounds_reduce(const fast_ask *ask, int64_t round, fast_move *moves)
{
    const fast_fold fold = fast__fold(ask->size);
    const int l = (int)round - 1;
    if (round > fold.bits)
        return FAST_ROUNDS_END;
    const level at = at_level(ask, &fold, l);
    if (!at.speaks)
        return 0;
    /* Whoever speaks for more than itself holds a sum already. */
    const bool first = l < 0 || (l == 0 && fast__fold_place(&fold, ask->rank) >= fold.extra);
    fast_move move = { FAST_MOVE_SEND, first ? 0 : FAST_MOVE_KEPT, at.peer, 0, ask->count };
    if (at.up && ask->rank == ask->root) {
        move.kind = FAST_MOVE_ADD;
        move.flags = 0;
    } else if (at.up) {
        move.kind = first ? FAST_MOVE_MERGE : FAST_MOVE_ADD;
        move.flags = first ? FAST_MOVE_KEEP : FAST_MOVE_KEPT;
    }
    moves[0] = move;
    return 1;
}

int fast__rounds_broadcast(const fast_ask *ask, int64_t round, fast_move *moves)
{
    const fast_fold fold = fast__fold(ask->size);
    if (round > fold.bits)
        return FAST_ROUNDS_END;
    const int l = fold.bits - 1 - (int)round;
    const level at = at_level(ask, &fold, l);
    if (!at.speaks)
        return 0;
    /* The root's first message makes the buffer that everyone passes on. */
    const bool makes = ask->rank == ask->root && round == 0;
    const unsigned flags = FAST_MOVE_KEEP | (makes ? 0 : FAST_MOVE_KEPT);
    moves[0] = at.up ? (fast_move){ FAST_MOVE_SEND, flags, at.peer, 0, ask->count }
                     : (fast_move){ FAST_MOVE_COPY, FAST_MOVE_KEEP, at.peer, 0, ask->count };
    return 1;
}
