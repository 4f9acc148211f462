/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "comm/collective.h"

/*
 * What schedules are made of. The canonical order of sums (strategy.h) is a shape over ranks: n
 * members are a core of 2^k, of which the first r = n - 2^k are pairs. Here with n = 6:
 *
 *   rank   0 1   2 3   4   5
 *           +     +    |   |      folded: the pair's even rank speaks for it
 *   core    0     1    2   3      then a perfect binary tree, or a butterfly
 */
typedef struct fast_fold {
    int64_t core;  /* 2^k: the largest power of two that is not above the size */
    int64_t extra; /* r: how many of the core are pairs */
    int bits;      /* k */
} fast_fold;

fast_fold fast__fold(int64_t size);
/* The place in the core that a rank belongs to, and the rank that speaks for a place: a pair's even
 * one, or the root where it is in the pair. A negative root is none. */
int64_t fast__fold_place(const fast_fold *fold, int64_t rank);
int64_t fast__fold_rank(const fast_fold *fold, int64_t place, int64_t root);

/* The smallest k with 2^k >= n, for n >= 1. */
int fast__log2_ceil(int64_t n);

/* Rounds that several schedules share; those of one kind are numbered from 0 and end with
 * FAST_ROUNDS_END. The canonical tree's sum to ask->root: the root's y is its x; the others' is
 * left as it is. */
fast_round_fn fast__rounds_reduce;
/* The same tree from ask->root to everyone. */
fast_round_fn fast__rounds_broadcast;
/* Everyone's fast__range() to everyone. */
fast_round_fn fast__rounds_allgather;
/* Halving: the canonical sum, of which each place of the core keeps one part: the range that
 * fast__halve() gives after as many steps as the core has bits. */
fast_round_fn fast__rounds_halving;
void fast__halve(int64_t count, int64_t place, int steps, int64_t *offset_out, int64_t *count_out);
