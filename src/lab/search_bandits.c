/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Searchers that divide places among trials slice by slice.
 *
 *   tupaq        a batch of `parallel` trials trains a slice; those whose error is more than
 *                1 + slack times the best one so far end, and new ones take their places (Sparks
 *                et al. 2015)
 *   hyperdrive   `parallel` places; after each slice a trial's curve gives the probability p that
 *                it reaches the target by the end of its run (Rasley et al. 2017). It is poor if
 *                p < 1 - confidence, and ends. With
 *                    desired(p)  = number of trials whose probability is at least p
 *                    deserved(p) = places * p
 *                those above the p with the largest min(desired, deserved) are promising and have
 *                that many places of their own; the others are opportunistic and take the other
 *                places in turn, new trials first. The first trial at the target ends the search.
 *                Without a target it is the best value so far.
 *
 * Example: 4 places, probabilities 0.9, 0.8, 0.3, 0.2. min(1, 3.6) = 1, min(2, 3.2) = 2,
 * min(3, 1.2) = 1.2, min(4, 0.8) = 0.8: the first two are promising and have a place each, the
 * others and new trials share the other two places.
 */
#include "lab/search.h"

#include <math.h>

/* The fraction at which the next slice of a trial ends. */
static double next_slice(const fast_search *search, const fast_trial *t)
{
    const double slice = search->config.first;
    const double trained = t->point_count > 0 ? t->points[t->point_count - 1].progress : 0;

    return trained + slice > 1 - slice / 2 ? 1 : trained + slice;
}

/* The best value so far: the target where a trial has reached it. */
static double best_yet(const fast_search *search)
{
    double best = INFINITY;

    for (int64_t i = 0; i < search->count; i++) {
        const fast_trial *t = &search->trials[i];

        if (!fast__trial_is_history(search, t, search->round))
            continue;
        if (!t->reached)
            best = fmin(best, t->value);
        else if (isfinite(search->goal))
            best = fmin(best, search->goal);
    }
    return best;
}

/* Continue the best held trial to its end where no other one gets there. */
static fast_err finish_best(fast_search *search)
{
    int64_t best = -1;

    if (search->job_count > 0 || fast__search_has_whole(search))
        return FAST_OK;
    for (int64_t i = 0; i < search->count; i++) {
        const fast_trial *t = &search->trials[i];

        if (t->state == FAST_TRIAL_HELD && isfinite(t->value) &&
            (best < 0 || t->value < search->trials[best].value))
            best = i;
    }
    return best < 0 ? FAST_OK : fast__search_continue(search, best, 1);
}

fast_err fast__tupaq_plan(fast_search *search)
{
    const double best = best_yet(search), slack = search->config.slack;
    const int64_t places =
        search->config.parallel > 0 ? search->config.parallel : FAST_SEARCH_TRIALS_MAX;
    double at[FAST_SEARCH_OPTIONS_MAX];

    for (int64_t i = 0; i < search->count; i++) {
        const fast_trial *t = &search->trials[i];

        if (t->state == FAST_TRIAL_HELD && t->round == search->round - 1 &&
            t->value <= (1 + slack) * best)
            FAST_TRY(fast__search_continue(search, i, next_slice(search, t)));
    }
    while (search->job_count < places && fast__search_sample(search, true, at))
        FAST_TRY(fast__search_add(search, at, -1, fmin(1, search->config.first)));
    return finish_best(search);
}

/* A held trial with its probability. */
typedef struct pop_trial {
    int64_t id;         /* number */
    double probability; /* to reach the target by its end */
} pop_trial;

/* True if `a` comes before `b`: the likelier one, then the one that has waited longer. */
static bool is_before(const fast_search *search, const pop_trial *a, const pop_trial *b)
{
    if (a->probability != b->probability)
        return a->probability > b->probability;
    return search->trials[a->id].round < search->trials[b->id].round;
}

/* Held trials that are not poor, the likeliest first. A curve that is too short to be extrapolated
 * has probability 1 - confidence: neither poor nor promising. Return their number. */
static int64_t sort_held(const fast_search *search, pop_trial *out)
{
    const double least = 1 - search->config.confidence;
    const double goal = isfinite(search->goal) ? search->goal : best_yet(search);
    int64_t count = 0;

    for (int64_t i = 0; i < search->count; i++) {
        const fast_trial *t = &search->trials[i];
        pop_trial one = { i, 0 };
        int64_t at = count;

        if (t->state != FAST_TRIAL_HELD)
            continue;
        one.probability = fast__curve_below(t, 1, goal);
        if (isnan(one.probability))
            one.probability = least;
        if (!(one.probability >= least) || !isfinite(t->value))
            continue;
        for (; at > 0 && is_before(search, &one, &out[at - 1]); at--)
            out[at] = out[at - 1];
        out[at] = one;
        count++;
    }
    return count;
}

/* The number of promising trials: places of their own. */
static int64_t count_promising(const pop_trial *trials, int64_t count, int64_t places)
{
    double most = 0;

    for (int64_t i = 0; i < count; i++)
        if (i + 1 == count || trials[i + 1].probability < trials[i].probability)
            most = fmax(most, fmin((double)(i + 1), (double)places * trials[i].probability));
    return (int64_t)floor(most + 1e-9);
}

fast_err fast__hyperdrive_plan(fast_search *search)
{
    const int64_t places =
        search->config.parallel > 0 ? search->config.parallel : FAST_SEARCH_TRIALS_MAX;
    pop_trial held[FAST_SEARCH_TRIALS_MAX];
    double at[FAST_SEARCH_OPTIONS_MAX];

    if (fast__search_has_reached(search))
        return FAST_OK;
    const int64_t count = sort_held(search, held);
    const int64_t promising = count_promising(held, count, places);
    for (int64_t i = 0; i < promising; i++)
        FAST_TRY(fast__search_continue(search, held[i].id,
                                       next_slice(search, &search->trials[held[i].id])));
    while (search->job_count < places && fast__search_sample(search, true, at))
        FAST_TRY(fast__search_add(search, at, -1, fmin(1, search->config.first)));
    while (search->job_count < places) { /* those that have waited longest */
        int64_t next = -1;

        for (int64_t i = promising; i < count; i++)
            if (search->trials[held[i].id].state == FAST_TRIAL_HELD &&
                (next < 0 || search->trials[held[i].id].round < search->trials[next].round))
                next = held[i].id;
        if (next < 0)
            break;
        FAST_TRY(fast__search_continue(search, next, next_slice(search, &search->trials[next])));
    }
    return finish_best(search);
}
