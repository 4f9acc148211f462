/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PipeDream's partition (Narayanan et al. 2019, section 3.1) for given numbers of replicas r_s, by
 * dynamic programming over prefixes: with T(i, j) the measured time of units i .. j - 1 and of the
 * messages at their ends,
 *
 *     best(1, j) = T(0, j) / r_1
 *     best(s, j) = min over i < j of max(best(s - 1, i), T(i, j) / r_s)
 *
 * Among equal times the later boundary wins. Cost: count n^2 steps.
 */
#include "split/partition.h"

#include "base/memory.h"

#include <math.h>

/* A search for boundaries. */
typedef struct partition {
    const double *seconds;   /* [n] */
    const double *crossing;  /* [n] */
    const int16_t *replicas; /* [count] workers that a range is divided among; NULL: one each */
    int64_t n;               /* units */
    double *best;            /* [count + 1][n + 1] seconds of the slowest range of a prefix */
    int64_t *from;           /* [count + 1][n + 1] first unit of the last range of it */
} partition;

/* Find the best way to divide the prefixes of every length into s ranges. */
static void extend(const partition *p, int64_t s)
{
    const int64_t row = s * (p->n + 1), before = row - (p->n + 1);
    const double workers = p->replicas ? (double)p->replicas[s - 1] : 1;

    FAST_ASSERT(s >= 1);
    for (int64_t j = s; j <= p->n; j++) {
        const double behind = j < p->n ? p->crossing[j - 1] : 0;
        double sum = behind;

        p->best[row + j] = INFINITY;
        for (int64_t i = j - 1; i >= s - 1; i--) {
            sum += p->seconds[i];
            const double own = sum + (i > 0 ? p->crossing[i - 1] : 0);
            const double slowest = fmax(p->best[before + i], own / workers);

            if (slowest < p->best[row + j]) {
                p->best[row + j] = slowest;
                p->from[row + j] = i;
            }
        }
    }
}

fast_err fast__split_partition(const double *seconds, const double *crossing, int64_t n,
                               const int16_t *replicas, int64_t count, int64_t *ends)
{
    partition p = { .seconds = seconds, .crossing = crossing, .replicas = replicas, .n = n };
    fast_err err;

    FAST_ASSERT(count >= 1 && count <= n);
    err = fast__alloc("a partition", (count + 1) * (n + 1), sizeof *p.best, &p.best);
    if (!err)
        err = fast__alloc("a partition", (count + 1) * (n + 1), sizeof *p.from, &p.from);
    for (int64_t j = 0; j <= n && !err; j++)
        p.best[j] = j == 0 ? 0 : INFINITY;
    for (int64_t s = 1; s <= count && !err; s++) {
        p.best[s * (n + 1)] = INFINITY;
        extend(&p, s);
    }
    for (int64_t s = count, at = n; s > 0 && !err; s--) {
        ends[s - 1] = at - 1;
        at = p.from[s * (n + 1) + at];
        FAST_ASSERT(at > 0 || s == 1);
    }
    fast__free(p.best);
    fast__free(p.from);
    return err;
}
