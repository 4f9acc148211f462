/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract of a search: rounds of trials, their curves, and trials that end early.
 *
 *   propose   the next trial of the round; after the last one wait until all have come to rest,
 *             then plan the next round
 *   observe   append to the curve; at the end of a run the trial rests
 *   stop      hold a trial at its `until`; end one that cannot be better, or that the searcher
 *             drops
 *
 * A trial cannot be better any more if another one has reached the target and it has spent as much
 * without reaching it. This is exact: trials are compared by what they spend until the target.
 *
 * Cost: propose plans in at most O(n^3) for n trials (a model of them); observe is O(1).
 */
#include "lab/search.h"

#include "base/memory.h"
#include "base/option.h"
#include "fast/comparison.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define PROGRESS_TOLERANCE 1e-9 /* of fractions that are sums and quotients */

/* Names of the searchers, for fast__name_find(). */
static const char *searcher_name(const void *parts, int64_t i)
{
    return ((const fast_part *)parts)[i].name;
}

/* Read "name:key=value". */
static fast_err read_spec(const char *spec, fast_search *search)
{
    int64_t count = 0;
    const fast_part *parts = fast_searcher_list(&count);
    const char *rest = NULL;
    char name[64], where[96];

    FAST_TRY(fast__spec_split(spec, name, sizeof name, &rest));
    const int64_t i = fast__name_find(name, searcher_name, parts, count, NULL);
    if (i < 0)
        return fast__name_unknown("searcher", name, searcher_name, parts, count);
    search->searcher = &fast__searchers(&count)[i];
    search->name = parts[i].name;
    snprintf(where, sizeof where, "searcher %s", name);
    if (parts[i].options)
        fast__options_default(parts[i].options, &search->config);
    return fast__options_parse(where, parts[i].options, &search->config, rest);
}

/* Refuse a space that the searcher cannot search. */
static fast_err check_space(const fast_search *search)
{
    const fast_search_space *space = search->space;

    for (int64_t i = 0; i < space->count; i++)
        if (search->searcher->lists && space->options[i].values.count == 0)
            return fast__fail(FAST_EINVAL,
                              "searcher %s needs values, not a range; write %s=0.0125..0.8x2, or "
                              "search with random, bayes or asha",
                              search->name, space->options[i].name);
    if (space->count < search->searcher->options_min)
        return fast__fail(FAST_EINVAL,
                          "searcher %s needs %lld options: a momentum first, and last the systems "
                          "or numbers of groups, the most asynchronous first",
                          search->name, (long long)search->searcher->options_min);
    return FAST_OK;
}

fast_err fast__search_open(const char *spec, const fast_search_space *space, uint64_t seed,
                           fast_search **out)
{
    fast_search *search;
    fast_err err;

    FAST_ASSERT(space->count > 0 && space->count <= FAST_SEARCH_OPTIONS_MAX);
    FAST_TRY(fast__alloc("a search", 1, sizeof *search, &search));
    search->space = space;
    search->seed = seed;
    search->round = -1;
    search->goal = -INFINITY;
    err = read_spec(spec, search);
    if (!err)
        err = check_space(search);
    if (!err && fast__search_bound(search) > FAST_SEARCH_TRIALS_MAX)
        err =
            fast__fail(FAST_EINVAL, "searcher %s: %lld trials are more than %d; give fewer",
                       search->name, (long long)fast__search_bound(search), FAST_SEARCH_TRIALS_MAX);
    if (!err)
        err =
            fast__alloc("trials", FAST_SEARCH_TRIALS_MAX, sizeof *search->trials, &search->trials);
    if (err) {
        fast__search_close(search);
        return err;
    }
    *out = search;
    return FAST_OK;
}

void fast__search_close(fast_search *search)
{
    if (!search)
        return;
    for (int64_t i = 0; search->trials && i < search->count; i++)
        fast__free(search->trials[i].points);
    fast__free(search->trials);
    fast__free(search);
}

int64_t fast__search_trial_count(const fast_search *search)
{
    const int64_t all = fast__search_space_count(search->space);
    const int64_t asked = search->config.trials;

    if (all > 0)
        return asked > 0 && asked < all ? asked : all;
    return asked > 0 ? asked : FAST_SEARCH_TRIALS_STANDARD;
}

int64_t fast__search_bound(const fast_search *search)
{
    return search->searcher->bound ? search->searcher->bound(search)
                                   : fast__search_trial_count(search);
}

bool fast__search_sample(fast_search *search, bool shuffled, double *at)
{
    const int64_t all = fast__search_space_count(search->space);
    const int64_t count = fast__search_trial_count(search);
    const int64_t i = search->drawn;
    fast_rng rng;

    if (i >= count)
        return false;
    search->drawn++;
    if (all > 0) {
        const bool mixed = shuffled || count < all;

        fast__search_space_at(search->space,
                              mixed ? (int64_t)fast__rng_permute(search->seed, FAST_PURPOSE_SEARCH,
                                                                 0, (uint64_t)all, (uint64_t)i)
                                    : i,
                              at);
        return true;
    }
    fast__rng_init(&rng, search->seed, FAST_PURPOSE_SEARCH, 0, 1, (uint64_t)i);
    fast__search_space_draw(search->space, &rng, at);
    return true;
}

/* Add a trial to the list of the round. */
static fast_err add_job(fast_search *search, int64_t trial, double until)
{
    fast_trial *t = &search->trials[trial];

    FAST_ASSERT(search->job_count < FAST_SEARCH_TRIALS_MAX);
    FAST_ASSERT(until > t->from && until <= 1 + PROGRESS_TOLERANCE);
    t->until = until;
    t->round = search->round;
    t->state = FAST_TRIAL_WAITS;
    search->jobs[search->job_count++] = trial;
    return FAST_OK;
}

fast_err fast__search_add(fast_search *search, const double *at, int64_t parent, double until)
{
    fast_trial *t = &search->trials[search->count];

    if (search->count == FAST_SEARCH_TRIALS_MAX)
        return fast__fail(FAST_EINVAL, "searcher %s: more than %d trials; give fewer", search->name,
                          FAST_SEARCH_TRIALS_MAX);
    *t = (fast_trial){ .parent = parent, .value = INFINITY };
    memcpy(t->at, at, (size_t)search->space->count * sizeof *at);
    if (parent >= 0) {
        FAST_ASSERT(parent < search->count);
        const fast_trial *p = &search->trials[parent];

        t->from = p->point_count > 0 ? p->points[p->point_count - 1].progress : p->until;
        t->spent = p->spent;
    }
    return add_job(search, search->count++, until);
}

fast_err fast__search_continue(fast_search *search, int64_t trial, double until)
{
    FAST_ASSERT(search->trials[trial].state == FAST_TRIAL_HELD);
    return add_job(search, trial, until);
}

/* True if a trial of the round has not come to rest. */
static bool round_runs(const fast_search *search)
{
    for (int64_t i = 0; i < search->job_count; i++) {
        const fast_trial_state state = search->trials[search->jobs[i]].state;

        if (state == FAST_TRIAL_RUNS || state == FAST_TRIAL_WAITS)
            return true;
    }
    return false;
}

fast_err fast__search_propose(fast_search *search, int64_t *trial_out)
{
    *trial_out = search->over ? FAST_SEARCH_OVER : FAST_SEARCH_WAIT;
    if (search->over)
        return FAST_OK;
    if (search->job_next == search->job_count) {
        if (round_runs(search))
            return FAST_OK;
        search->round++;
        search->job_count = search->job_next = 0;
        FAST_TRY(search->searcher->plan(search));
        if (search->job_count == 0) {
            search->over = true;
            *trial_out = FAST_SEARCH_OVER;
            return FAST_OK;
        }
    }
    *trial_out = search->jobs[search->job_next++];
    search->trials[*trial_out].state = FAST_TRIAL_RUNS;
    return FAST_OK;
}

/* Append a point; one that is not behind the last is of a run that was started again. */
static fast_err add_point(fast_trial *t, double progress, double value)
{
    if (t->point_count > 0 && progress <= t->points[t->point_count - 1].progress)
        return FAST_OK;
    if (!t->points)
        FAST_TRY(fast__alloc("a curve", FAST_SEARCH_CURVE_MAX, sizeof *t->points, &t->points));
    if (t->point_count == FAST_SEARCH_CURVE_MAX) {
        for (int64_t i = 0; i < FAST_SEARCH_CURVE_MAX / 2; i++)
            t->points[i] = t->points[2 * i];
        t->point_count = FAST_SEARCH_CURVE_MAX / 2;
    }
    t->points[t->point_count++] = (fast_search_point){ progress, value };
    return FAST_OK;
}

fast_err fast__search_observe(fast_search *search, int64_t trial, const fast_observation *o)
{
    fast_trial *t = &search->trials[trial];

    FAST_ASSERT(trial >= 0 && trial < search->count);
    if (t->state != FAST_TRIAL_RUNS)
        return FAST_OK;
    const double value = isnan(o->value) ? INFINITY : o->value;
    if (isfinite(o->progress))
        FAST_TRY(add_point(t, o->progress, value));
    t->value = value;
    t->spent = o->spent;
    t->reached = o->reached;
    if (o->ended)
        t->state = FAST_TRIAL_ENDED;
    return FAST_OK;
}

bool fast__trial_is_history(const fast_search *search, const fast_trial *trial, int64_t round)
{
    (void)search;
    return trial->round < round &&
           (trial->state == FAST_TRIAL_ENDED || trial->state == FAST_TRIAL_STOPPED ||
            trial->state == FAST_TRIAL_HELD);
}

/* True if the trial has spent as much as another one needed to reach the target. */
static bool is_beaten(const fast_search *search, const fast_trial *trial)
{
    for (int64_t i = 0; i < search->count; i++) {
        const fast_trial *other = &search->trials[i];

        if (fast__trial_is_history(search, other, trial->round) && other->reached &&
            trial->spent >= other->spent)
            return true;
    }
    return false;
}

fast_trial_order fast__search_stop(fast_search *search, int64_t trial)
{
    fast_trial *t = &search->trials[trial];
    const fast_searcher *searcher = search->searcher;

    if (t->state == FAST_TRIAL_STOPPED)
        return FAST_TRIAL_END;
    if (t->state != FAST_TRIAL_RUNS || t->point_count == 0 || t->reached)
        return FAST_TRIAL_GO;
    if ((searcher->prunes && is_beaten(search, t)) ||
        (searcher->drop && searcher->drop(search, t))) {
        t->state = FAST_TRIAL_STOPPED;
        return FAST_TRIAL_END;
    }
    const double progress = t->points[t->point_count - 1].progress;
    if (progress < t->until - PROGRESS_TOLERANCE)
        return FAST_TRIAL_GO;
    if (progress >= 1 - PROGRESS_TOLERANCE) /* an evaluation behind the end of a budget */
        t->until = 1;
    if (t->until >= 1) /* its process ends by itself */
        return FAST_TRIAL_GO;
    if (searcher->forks) /* others may start when its process has ended */
        return FAST_TRIAL_SAVE;
    t->state = FAST_TRIAL_HELD;
    return FAST_TRIAL_HOLD;
}

double fast__trial_value(const fast_trial *trial, double progress)
{
    for (int64_t i = 0; i < trial->point_count; i++)
        if (trial->points[i].progress >= progress - PROGRESS_TOLERANCE)
            return trial->points[i].value;
    return trial->value;
}

bool fast__search_has_whole(const fast_search *search)
{
    for (int64_t i = 0; i < search->count; i++) {
        const fast_trial *t = &search->trials[i];

        const bool end =
            t->point_count > 0 && t->points[t->point_count - 1].progress >= 1 - PROGRESS_TOLERANCE;

        if (t->state == FAST_TRIAL_ENDED && isfinite(t->value) &&
            (t->until >= 1 || t->reached || end))
            return true;
    }
    return false;
}

bool fast__search_has_reached(const fast_search *search)
{
    for (int64_t i = 0; i < search->count; i++)
        if (search->trials[i].reached)
            return true;
    return false;
}

const fast_trial *fast__search_best(const fast_search *search)
{
    const fast_trial *best = NULL;

    for (int64_t i = 0; i < search->count; i++) {
        const fast_trial *t = &search->trials[i];

        if (fast__trial_is_history(search, t, search->round) && isfinite(t->value) &&
            (!best || t->value < best->value))
            best = t;
    }
    return best;
}
