/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/engine.h"

/*
 * Nodes of split networks that exchange values with other shards in the middle of a pass: rows of
 * images (FAST_OP_EXCHANGE), or the moments of batch norm. Such a node has two halves, and the
 * caller of the pass exchanges between them, since an engine never blocks:
 *
 *     part 0    nodes before A | first half of A      due: what A gives, and where it takes
 *     part 1    second half of A | ... | first half of B
 *     part 2    second half of B | ...
 *
 * A graph with n of them has n + 1 parts in each phase of a pass, which run() takes one by one, in
 * order and without another pass in between. Engines may order the nodes differently, but all
 * shards of one engine in the same way. A residual around such a node stays where it is.
 *
 * Batch norm over T shards exchanges for each channel the mean, the centred squares and the number
 * of its elements, which combine without cancellation (Chan et al. 1979):
 *
 *     m = sum of m_t     mean = sum of m_t mean_t / m
 *     squares = sum of squares_t + m_t (mean_t - mean)^2
 *
 * and backward the sums of dy and of dy (x - mean), or dy x^. A shard gives a block of 2 C + 1
 * floats, [C][C][1], and takes those of all, in the order of shards: so all have the same bits.
 */

/* Return the number of nodes of a graph that exchange. */
int64_t fast__graph_exchanges(const fast_graph *graph);
/* Return the samples of the value that a node exchanges in a micro-batch of `batch` samples. */
int64_t fast__exchange_samples(const fast_node *node, int64_t batch);

/* The role of a node in a part of a pass. */
typedef enum fast_part_role {
    FAST_PART_SKIP,   /* nothing: it belongs to another part */
    FAST_PART_RUN,    /* all of it */
    FAST_PART_RESUME, /* its second half */
    FAST_PART_STOP    /* its first half; the part is over */
} fast_part_role;

/* Return it for the next node in the order of the pass, which exchanges or not; *met counts those
 * that do, first 0. */
fast_part_role fast__part_role(const fast_pass *pass, bool exchanges, int64_t *met);

/* Return the floats of a shard's block of moments, or of sums. */
int64_t fast__moments_block(int64_t channels);
/* Return the elements of all shards, and set mean and centred squares of channel c over them; `all`
 * is the blocks of all shards. */
double fast__moments_join(const fast_reshard *how, int64_t channels, int64_t c, const float *all,
                          double *mean_out, double *squares_out);
/* Return the sum over the shards of float i of their blocks. */
double fast__moments_sum(const fast_reshard *how, int64_t channels, int64_t i, const float *all);
