/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "comm/collective.h"

/*
 * The parts of schedules. The canonical order of sums (comm.h) is a shape over ranks: n
 * members are a core of 2^k, of which the first r = n - 2^k are pairs. Here with n = 6:
 *
 *   rank   0 1   2 3   4   5
 *           +     +    |   |      pairs add up at their even rank
 *   core    0     1    2   3      then a perfect binary tree, or a butterfly
 */
typedef struct fast_core {
    int64_t size;  /* 2^k: the largest power of two that is not above the size */
    int64_t extra; /* r: places of the core that are pairs */
    int bits;      /* k */
} fast_core;

/* Return the core of a group of this size. */
fast_core fast__core_of(int64_t size);
/* Return the place in the core that a rank belongs to, and the rank that represents a place: a
 * pair's even one, or the root where it is in the pair. root < 0: no root. */
int64_t fast__core_place(const fast_core *core, int64_t rank);
int64_t fast__core_rank(const fast_core *core, int64_t place, int64_t root);

/* Rounds that several schedules share, each numbered from 0 to its FAST_ROUNDS_END. */

/* Sum along the canonical tree to ask->root: the root's y is its x; the others' does not change. */
fast_round_fn fast__rounds_reduce;
/* Copy from ask->root to all ranks, along the same tree. */
fast_round_fn fast__rounds_broadcast;
/* Copy each rank's fast__range() to all ranks. */
fast_round_fn fast__rounds_allgather;
/* Sum by halving, in the canonical order: each place of the core ends with one part of the sum, the
 * range that fast__halve() gives after as many steps as the core has bits. */
fast_round_fn fast__rounds_halving;
/* Set the part of [0, count) that a place has after this many halvings. */
void fast__halve(int64_t count, int64_t place, int steps, int64_t *offset_out, int64_t *count_out);
