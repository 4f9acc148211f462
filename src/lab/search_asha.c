/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Searchers without a model of the space.
 *
 *   grid, random   all trials in one round, each to its end
 *   asha           rungs at fractions first * reduction^k of a run, the last at 1. A trial that is
 *                  among the best 1/reduction of its rung trains on to the next one; else a new
 *                  one starts. With all trials in one round this is successive halving (Jamieson
 *                  and Talwalkar 2016); with fewer in parallel it is ASHA (Li et al. 2020), whose
 *                  rungs do not wait until they are full. Where too few are left for a promotion
 *                  the best of the highest rung continues, so that one trial always ends.
 *   median         the median stopping rule (Golovin et al. 2017): a trial ends when its best value
 *                  so far is worse than the median of the running means of earlier trials
 *
 * Example, 7 trials, reduction 3, first 1/9: 7 trials take 7/9 of a run; 2 of them train to 1/3,
 * which takes 4/9; 1 trains to the end, 6/9. That is 1.9 runs instead of 7.
 */
#include "lab/search.h"

#include <math.h>
#include <string.h>

fast_err fast__grid_plan(fast_search *search)
{
    double at[FAST_SEARCH_OPTIONS_MAX];
    const bool random = strcmp(search->name, "random") == 0;

    while (fast__search_sample(search, random, at))
        FAST_TRY(fast__search_add(search, at, -1, 1));
    return FAST_OK;
}

/* The number of trials of a round. */
static int64_t round_size(const fast_search *search)
{
    return search->config.parallel > 0 ? search->config.parallel : FAST_SEARCH_TRIALS_MAX;
}

/* The rung above a fraction of a run. */
static double next_rung(const fast_search *search, double progress)
{
    double rung = fmin(1, search->config.first);

    if (search->config.reduction <= 1)
        return 1;
    if (rung <= progress * (1 + 1e-6))
        rung *= pow(search->config.reduction,
                    ceil(log(progress * (1 + 1e-6) / rung) / log(search->config.reduction) + 1e-9));
    /* A rung shortly before the end would hold a trial that is all but done. */
    return rung * sqrt(search->config.reduction) >= 1 ? 1 : rung;
}

/* True if a trial has been measured at a rung, or has ended before. */
static bool has_rung(const fast_trial *t, double rung)
{
    return t->state == FAST_TRIAL_ENDED || t->state == FAST_TRIAL_STOPPED ||
           (t->point_count > 0 && t->points[t->point_count - 1].progress >= rung * (1 - 1e-6));
}

/* True if a held trial is among the best of its rung. Equal ones are ordered by number. */
static bool may_rise(const fast_search *search, int64_t trial)
{
    const fast_trial *t = &search->trials[trial];
    int64_t count = 0, better = 0;

    for (int64_t i = 0; i < search->count; i++) {
        const fast_trial *other = &search->trials[i];

        if (!has_rung(other, t->until))
            continue;
        const double a = fast__trial_value(other, t->until), b = fast__trial_value(t, t->until);
        count++;
        better += a < b || (a == b && i < trial);
    }
    return isfinite(t->value) &&
           better < (int64_t)floor((double)count / search->config.reduction + 1e-9);
}

/* The held trial that is to continue: of the highest rung, there the best; -1 if none is. `forced`
 * takes one that is not among the best of its rung. */
static int64_t find_riser(const fast_search *search, bool forced)
{
    int64_t found = -1;

    for (int64_t i = 0; i < search->count; i++) {
        const fast_trial *t = &search->trials[i];
        const fast_trial *best = found < 0 ? NULL : &search->trials[found];

        if (t->state != FAST_TRIAL_HELD || !isfinite(t->value) || (!forced && !may_rise(search, i)))
            continue;
        if (!best || t->until > best->until || (t->until == best->until && t->value < best->value))
            found = i;
    }
    return found;
}

fast_err fast__asha_plan(fast_search *search)
{
    double at[FAST_SEARCH_OPTIONS_MAX];

    for (int64_t n = round_size(search); n > 0; n--) {
        int64_t riser = find_riser(search, false);

        if (riser < 0 && fast__search_sample(search, false, at)) {
            FAST_TRY(fast__search_add(search, at, -1, next_rung(search, 0)));
            continue;
        }
        if (riser < 0 && search->job_count == 0 && !fast__search_has_whole(search))
            riser = find_riser(search, true);
        if (riser < 0)
            break;
        const fast_trial *t = &search->trials[riser];
        /* Evaluations may be further apart than rungs: rungs that it has passed are not trained
         * for. */
        const double trained = t->points[t->point_count - 1].progress;
        FAST_TRY(fast__search_continue(search, riser, next_rung(search, fmax(t->until, trained))));
    }
    return FAST_OK;
}

fast_err fast__median_plan(fast_search *search)
{
    double at[FAST_SEARCH_OPTIONS_MAX];

    for (int64_t n = round_size(search); n > 0 && fast__search_sample(search, true, at); n--)
        FAST_TRY(fast__search_add(search, at, -1, 1));
    return FAST_OK;
}

/* The mean of a curve up to a fraction of a run; NAN without a point. */
static double running_mean(const fast_trial *t, double progress)
{
    double sum = 0;
    int64_t i = 0;

    for (; i < t->point_count && t->points[i].progress <= progress * (1 + 1e-9); i++)
        sum += t->points[i].value;
    return i > 0 ? sum / (double)i : NAN;
}

bool fast__median_drop(const fast_search *search, const fast_trial *trial)
{
    const double progress = trial->points[trial->point_count - 1].progress;
    double best = INFINITY;
    int64_t better = 0, count = 0;

    if (progress < search->config.first)
        return false;
    for (int64_t i = 0; i < trial->point_count; i++)
        best = fmin(best, trial->points[i].value);
    /* The median is below `best` if more than half of the means are. */
    for (int64_t i = 0; i < search->count; i++) {
        const fast_trial *other = &search->trials[i];
        const double mean = running_mean(other, progress);

        if (!fast__trial_is_history(search, other, trial->round) || isnan(mean))
            continue;
        count++;
        better += mean < best;
    }
    return 2 * better > count;
}
