/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/rng.h"

/* The order in which blocks of parameters are drawn. */
typedef enum fast_strads_order {
    FAST_STRADS_PRIORITY, /* at random, with a probability that grows with the last change */
    FAST_STRADS_RANDOM,   /* at random, all alike */
    FAST_STRADS_CYCLIC    /* one after the other */
} fast_strads_order;

/*
 * A scheduler of blocks: schedule() of STRADS (Kim et al. 2016). Each round it draws candidates and
 * accepts those that depend little on each other, so that they can be updated at once.
 */
typedef struct fast_strads_schedule {
    fast_strads_order order; /* of the candidates */
    int64_t count;           /* number of blocks */
    int64_t candidates;      /* blocks that are drawn in a round, at most */
    int64_t chosen_max;      /* blocks that are accepted, at most */
    double floor;            /* added to each priority, as a fraction of their mean */
    double dependency;       /* least coupling of two blocks that are not updated together */
    const float *coupling;   /* [count][count], 1 on the diagonal; NULL: blocks are independent */
    const double *changes;   /* [count] squared norm of a block's last change; negative: none yet */
    double *weights;         /* [count] scratch */
    int64_t *chosen;         /* [chosen_max] receives the accepted blocks, in ascending order */
} fast_strads_schedule;

/* Choose the blocks of a round, the same for the same stream; return their number, at least 1.
 * `next` is the first block of a cyclic order, and becomes that of the next round. */
int64_t fast__strads_choose(const fast_strads_schedule *schedule, fast_rng *rng, int64_t *next);
