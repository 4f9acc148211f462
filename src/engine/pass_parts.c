/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of a pass between exchanges of shards, and moments of batch norm that shards join. Sums are
 * double precision in the order of shards.
 */
#include "engine/pass_parts.h"

/* Each of them ends a part. */
int64_t fast__graph_exchanges(const fast_graph *graph)
{
    int64_t count = 0;

    for (int i = 0; i < graph->node_count; i++)
        count += graph->nodes[i].exchange != NULL;
    return count;
}

/* Moments are one value of the whole micro-batch. */
int64_t fast__exchange_samples(const fast_node *node, int64_t batch)
{
    FAST_ASSERT(node->exchange != NULL);
    return node->op == FAST_OP_BATCH_NORM ? 1 : batch;
}

/* Part p starts with the second half of the p-th node that exchanges, and ends with the first half
 * of the next one. */
fast_part_role fast__part_role(const fast_pass *pass, bool exchanges, int64_t *met)
{
    if (!exchanges)
        return *met == pass->part ? FAST_PART_RUN : FAST_PART_SKIP;
    if (*met == pass->part)
        return FAST_PART_STOP;
    ++*met;
    return *met == pass->part ? FAST_PART_RESUME : FAST_PART_SKIP;
}

/* Two figures for each channel, and the number of elements. */
int64_t fast__moments_block(int64_t channels)
{
    return 2 * channels + 1;
}

/* First the mean, then the squares around it: nothing cancels. */
double fast__moments_join(const fast_reshard *how, int64_t channels, int64_t c, const float *all,
                          double *mean_out, double *squares_out)
{
    const int64_t block = fast__moments_block(channels);
    double m = 0, sum = 0, squares = 0;

    for (int64_t t = 0; t < how->dim; t++) {
        const float *of = all + t * block;

        m += (double)of[2 * channels];
        sum += (double)of[2 * channels] * (double)of[c];
    }
    FAST_ASSERT(m > 0);
    for (int64_t t = 0; t < how->dim; t++) {
        const float *of = all + t * block;
        const double d = (double)of[c] - sum / m;

        squares += (double)of[channels + c] + (double)of[2 * channels] * d * d;
    }
    *mean_out = sum / m;
    *squares_out = squares;
    return m;
}

double fast__moments_sum(const fast_reshard *how, int64_t channels, int64_t i, const float *all)
{
    double sum = 0;

    for (int64_t t = 0; t < how->dim; t++)
        sum += (double)all[t * fast__moments_block(channels) + i];
    return sum;
}
