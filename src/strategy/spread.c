/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far push gossip comes. With k of n workers informed, each of the k messages of a round goes
 * to any given one of the others with probability 1 / (n - 1). So a round is a throw of k balls:
 * with m new workers so far, the next ball informs another one with probability
 * (n - k - m) / (n - 1). The number of informed workers is a Markov chain, and its distribution is
 * computed exactly: q(k) after t rounds -> q(k + m) after t + 1.
 *
 * Cost: n^3 / 3 operations for a round. For large n the rounds are log2 n + ln n + x with
 * probability e^(-e^-x) (Pittel, "On spreading a rumor", 1987).
 */
#include "base/memory.h"
#include "strategy/broadcaster.h"

#include <math.h>
#include <string.h>

enum { EXACT_MAX = 512, ROUNDS_MAX = 250 };

/* The distribution of the number of informed workers after a round. */
static void throw_round(int64_t n, const double *q, double *next)
{
    double hit[EXACT_MAX + 1];

    FAST_ASSERT(n >= 2 && n <= EXACT_MAX);
    memset(next, 0, (size_t)(n + 1) * sizeof *next);
    for (int64_t k = 1; k <= n; k++) {
        if (q[k] == 0)
            continue;
        memset(hit, 0, sizeof hit);
        hit[0] = 1;
        for (int64_t ball = 0; ball < k; ball++)
            for (int64_t m = ball < n - k ? ball : n - k; m >= 0; m--) {
                const double fresh = (double)(n - k - m) / (double)(n - 1);

                if (m < n - k)
                    hit[m + 1] += hit[m] * fresh;
                hit[m] *= 1 - fresh;
            }
        for (int64_t m = 0; m <= n - k && m <= k; m++)
            next[k + m] += q[k] * hit[m];
    }
}

double fast__spread_probability(int64_t n, int64_t rounds)
{
    double q[EXACT_MAX + 1] = { 0 }, next[EXACT_MAX + 1];

    FAST_ASSERT(n >= 1 && n <= EXACT_MAX && rounds >= 0);
    if (n == 1)
        return 1;
    q[1] = 1;
    for (int64_t t = 0; t < rounds; t++) {
        throw_round(n, q, next);
        memcpy(q, next, (size_t)(n + 1) * sizeof *q);
    }
    return q[n];
}

int64_t fast__spread_rounds(int64_t n, double sure)
{
    double q[EXACT_MAX + 1] = { 0 }, next[EXACT_MAX + 1];
    int64_t rounds = 0;

    FAST_ASSERT(n >= 1 && sure >= 0 && sure < 1);
    if (n == 1)
        return 0;
    if (n > EXACT_MAX)
        return (int64_t)ceil(log2((double)n) + log((double)n) - log(-log(fmax(sure, 0.01))));
    q[1] = 1;
    while (q[n] < sure && rounds < ROUNDS_MAX) {
        throw_round(n, q, next);
        memcpy(q, next, (size_t)(n + 1) * sizeof *q);
        rounds++;
    }
    return rounds;
}
