/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a pass is cut into segments: the k-th of K - 1 cuts is looked for where between (k - 1/2) /
 * K and (k + 1/2) / K of all stored floats are behind it, at the step that the fewest floats cross;
 * of several such the nearest to k / K. In a residual network this is between two blocks.
 */
#include "engine/recompute.h"

#include "base/err.h"

#include <math.h>

double fast__recompute_work(const fast_graph *graph, int node)
{
    const double element = 10; /* reads, a few operations and a write take about as long */

    FAST_ASSERT(node >= 0 && node < graph->node_count);
    return fast__node_flops_forward(graph, node) + element * (double)graph->nodes[node].count;
}

int fast__recompute_segments(int count)
{
    int root = 1;

    FAST_ASSERT(count >= 0);
    while (root * root < count)
        root++;
    return root;
}

/* The last step before cut k, which lies after step `first`; -1 if no step is left. */
static int choose_cut(int count, const int64_t *size, const int64_t *crossing, double total,
                      double target, double half, int first)
{
    double sum = 0, best_away = 0;
    int best = -1;

    for (int s = 0; s + 1 < count; s++) {
        sum += (double)size[s];
        const double away = fabs(sum - target);

        if (s <= first || (away > half && (best >= 0 || sum < target) && sum < total))
            continue;
        if (best < 0 || crossing[s] < crossing[best] ||
            (crossing[s] == crossing[best] && away < best_away)) {
            best = s;
            best_away = away;
        }
    }
    return best;
}

void fast__recompute_cut(int count, const int64_t *size, const int64_t *crossing, int segments,
                         int *segment_of)
{
    double total = 0;
    int first = -1, at = 0;

    FAST_ASSERT(segments >= 1);
    for (int s = 0; s < count; s++)
        total += (double)size[s];
    for (int k = 1; k < segments; k++) {
        const int cut = choose_cut(count, size, crossing, total, total * k / segments,
                                   total / (2 * segments), first);

        if (cut < 0)
            break;
        for (int s = first + 1; s <= cut; s++)
            segment_of[s] = at;
        at++;
        first = cut;
    }
    for (int s = first + 1; s < count; s++)
        segment_of[s] = at;
}
