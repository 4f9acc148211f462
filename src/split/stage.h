/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "split/cost.h"

/*
 * Stages: a network cut across its depth. A stage is an ordinary graph; its node 0 stands for the
 * last node of the stage before, whose output arrives, and its last node's output leaves. Its
 * parameters and state are ranges of the whole network's vectors, under the same names.
 *
 *     whole    0  1  2  3 | 4  5  6 | 7  8        nodes; cut after 3 and after 6
 *     stage 0  0  1  2  3                         outputs: node 3
 *     stage 1           0   1  2  3               input: node 3, outputs: node 6
 *     stage 2                     0   1  2        input: node 6, outputs: the loss's
 *
 * A cut is possible after a node if nothing but its output is read behind it: between the blocks of
 * a residual network, not inside them.
 */
typedef struct fast_split_stage {
    fast_graph graph;      /* of the stage; engines compile it like any other */
    int first;             /* node of the whole network that is the input */
    int last;              /* last node of the whole network that it has */
    int64_t params_offset; /* of its parameters in the whole vector */
    int64_t state_offset;  /* of its state in the whole vector */
    bool draws;            /* it has dropout, whose masks are keyed by samples */
    bool answers;          /* it has heads, which need the answers of samples */
} fast_split_stage;

/* Return whether node k's output is all that crosses a cut behind it. */
bool fast__split_can_cut(const fast_graph *graph, int k);

/* Choose `count` stages whose slowest is as fast as possible, by the cost model; ends[i] receives
 * the last node of stage i, which replicas[i] workers divide among them, or one where that is NULL.
 * Every stage has parameters. FAST_EINVAL if the network cannot be cut into that number.
 * FAST_ENOMEM. */
fast_err fast__split_choose(const fast_graph *graph, int64_t count, const int16_t *replicas,
                            const fast_split_speed *speed, int *ends);

/* Make the stage of nodes first + 1 .. last, which borrows the whole graph: that lives longer.
 * FAST_EINVAL if it cannot be cut there. FAST_ENOMEM. */
fast_err fast__split_stage_new(const fast_graph *graph, int first, int last,
                               fast_split_stage **out);
void fast__split_stage_free(fast_split_stage *stage); /* NULL is allowed */
