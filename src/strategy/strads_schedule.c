/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler of strads. Candidate k is drawn without replacement with a probability proportional
 * to
 *
 *     c_k = |last change of block k|^2 + floor mean(c)
 *
 * and a block that was never updated counts as the one that changed most. Candidates are accepted
 * in the order of the draw unless one that was accepted before is coupled with them:
 *
 *     accept k if d(j, k) < dependency for all accepted j
 *
 * Cost: the number of blocks times that of candidates.
 */
#include "strategy/strads_schedule.h"

#include "base/err.h"

/* Fill in the weights that candidates are drawn by; returns their sum. */
static double weigh(const fast_strads_schedule *s)
{
    double largest = 0, sum = 0;

    FAST_ASSERT(s->changes != NULL && s->weights != NULL);
    for (int64_t k = 0; k < s->count; k++)
        largest = s->changes[k] > largest ? s->changes[k] : largest;
    for (int64_t k = 0; k < s->count; k++) {
        s->weights[k] = s->changes[k] < 0 ? largest : s->changes[k];
        sum += s->weights[k];
    }
    const bool alike = s->order != FAST_STRADS_PRIORITY || !(sum > 0);
    const double least = s->floor * sum / (double)s->count;

    sum = 0;
    for (int64_t k = 0; k < s->count; k++)
        sum += s->weights[k] = alike ? 1 : s->weights[k] + least;
    return sum;
}

/* Draw a block by the weights, of which those drawn before are 0; -1: none has a weight. */
static int64_t draw(const fast_strads_schedule *s, double sum, fast_rng *rng)
{
    double at = (double)fast__rng_uniform(rng) * sum;
    int64_t last = -1;

    FAST_ASSERT(s->count >= 1);
    for (int64_t k = 0; k < s->count; k++) {
        if (!(s->weights[k] > 0))
            continue;
        last = k;
        at -= s->weights[k];
        if (at < 0)
            break;
    }
    return last;
}

/* Does block k depend on one of those that were accepted? */
static bool depends(const fast_strads_schedule *s, int64_t k, int64_t accepted)
{
    FAST_ASSERT(k >= 0 && k < s->count);
    for (int64_t i = 0; s->coupling && i < accepted; i++)
        if (!((double)s->coupling[s->chosen[i] * s->count + k] < s->dependency))
            return true;
    return false;
}

/* Put the last of the accepted blocks in its place by number. */
static void sort_last(int64_t *chosen, int64_t accepted)
{
    FAST_ASSERT(accepted >= 1);
    for (int64_t i = accepted - 1; i > 0 && chosen[i - 1] > chosen[i]; i--) {
        const int64_t block = chosen[i];

        chosen[i] = chosen[i - 1];
        chosen[i - 1] = block;
    }
}

int64_t fast__strads_choose(const fast_strads_schedule *s, fast_rng *rng, int64_t *next)
{
    double sum = s->order == FAST_STRADS_CYCLIC ? 0 : weigh(s);
    int64_t accepted = 0, drawn = 0;
    const int64_t first = *next;

    FAST_ASSERT(s->count >= 1 && s->candidates >= 1 && s->chosen_max >= 1);
    FAST_ASSERT(first >= 0 && first < s->count);
    for (; drawn < s->candidates && drawn < s->count && accepted < s->chosen_max; drawn++) {
        const int64_t k =
            s->order == FAST_STRADS_CYCLIC ? (first + drawn) % s->count : draw(s, sum, rng);

        if (k < 0)
            break;
        if (s->order != FAST_STRADS_CYCLIC) {
            sum -= s->weights[k];
            s->weights[k] = 0;
        }
        if (depends(s, k, accepted)) {
            if (s->order == FAST_STRADS_CYCLIC) /* it is the first of the next round */
                break;
            continue;
        }
        s->chosen[accepted++] = k;
        sort_last(s->chosen, accepted);
    }
    *next = (first + drawn) % s->count;
    FAST_ASSERT(accepted >= 1);
    return accepted;
}
