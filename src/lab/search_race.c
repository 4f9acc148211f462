/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A race: all trials train side by side in slices of a run, and those behind fall out.
 *
 *   score of a trial    mean of its values over the second half of what it has trained: single
 *                       evaluations of a small held-out part are noise
 *   after p of a run    the best ceil(N * slice / p) of N trials train on: all together never cost
 *                       more than N slices for each doubling of p. The second one also does if its
 *                       score is within slack * (1 - p) of the best: the less is left to train, the
 *                       closer it has to be
 *   the target          a trial that reaches it ends the race for those that have spent as much
 *
 * Where halving compares trials at a few rungs, a race does so at every slice: it needs less for
 * trials that are hopeless from the start, and does not decide between the last two before it has
 * to. Choices are those of the grid as long as the best trial is not behind early.
 *
 * Example, 7 trials, slices of 1/32, the target is reached after half a run: 7 + 4 + 3 + 13 * 2
 * slices are 1.25 runs, where a grid takes between 3.5 and 7.
 */
#include "lab/search.h"

#include <math.h>

/* The score of a trial. */
static double score_of(const fast_trial *t)
{
    double sum = 0;
    int64_t count = 0;

    for (int64_t i = t->point_count - 1; i >= 0; i--) {
        if (count > 0 && t->points[i].progress <= t->points[t->point_count - 1].progress / 2)
            break;
        sum += t->points[i].value;
        count++;
    }
    return count > 0 ? sum / (double)count : INFINITY;
}

/* Held trials of the last round, the best first; of all rounds if none is left and no trial has
 * come to its end, because those ahead diverged. Return their number. */
static int64_t sort_held(const fast_search *search, int64_t *ids, double *scores)
{
    int64_t count = 0;

    for (int pass = 0; pass < 2 && count == 0; pass++)
        for (int64_t i = 0; i < search->count; i++) {
            const fast_trial *t = &search->trials[i];
            const double score = score_of(t);
            int64_t at = count;

            if (pass == 1 && t->state == FAST_TRIAL_ENDED && isfinite(t->value))
                return 0;
            if (t->state != FAST_TRIAL_HELD || !isfinite(score) ||
                (pass == 0 && t->round != search->round - 1))
                continue;
            for (; at > 0 && scores[at - 1] > score; at--) {
                scores[at] = scores[at - 1];
                ids[at] = ids[at - 1];
            }
            scores[at] = score;
            ids[at] = i;
            count++;
        }
    return count;
}

fast_err fast__race_plan(fast_search *search)
{
    const double slice = search->config.first;
    double at[FAST_SEARCH_OPTIONS_MAX], scores[FAST_SEARCH_TRIALS_MAX];
    int64_t ids[FAST_SEARCH_TRIALS_MAX];

    if (search->round == 0) {
        while (fast__search_sample(search, false, at))
            FAST_TRY(fast__search_add(search, at, -1, slice));
        return FAST_OK;
    }
    const int64_t count = sort_held(search, ids, scores);
    for (int64_t i = 0; i < count; i++) {
        const fast_trial *t = &search->trials[ids[i]];
        const double trained = t->points[t->point_count - 1].progress;
        const double most = ceil((double)search->count * slice / trained - 1e-9);
        /* Where it starts again from the beginning, slices double: they cost two runs at most. */
        const double length = search->restarts ? fmax(trained, slice) : slice;
        const double until = trained + length > 1 - slice / 2 ? 1 : trained + length;

        if ((double)i < fmax(1, most) ||
            (i == 1 && scores[1] <= scores[0] + search->config.slack * (1 - trained)))
            FAST_TRY(fast__search_continue(search, ids[i], until));
    }
    return FAST_OK;
}
