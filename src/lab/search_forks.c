/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Searchers whose trials start with the models of other trials: the result is a model that was
 * trained with a schedule of settings.
 *
 *   pbt        population based training (Jaderberg et al. 2017). `parallel` members train a
 *              `stages`-th of a run side by side. Then each looks at a random other member: where
 *              that one's values are lower by Welch's test, it takes over its model and setting
 *              (exploit) and changes each number by a factor of `perturb`, up or down (explore)
 *   omnivore   (Hadjis et al. 2016) a run has `stages` periods. Each starts with a grid: all
 *              combinations train `first` of a run from the same model, and the best one trains on
 *              until the end of the period. The last option are systems or numbers of groups, the
 *              most asynchronous first; the first option is a momentum, the least first. While the
 *              grid's best momentum is the least one, asynchrony has more momentum than is good,
 *              and the period's grid is repeated with the next value of the last option. The first
 *              period is a cold start with the last, synchronous value
 *
 * A trial is a part of a run: `parent` is the trial before it. Values of Welch's test are those of
 * the last part; where one of the two has less than two of them, the last values are compared.
 *
 * Example of pbt: 8 members, 8 stages, 64 trials of an eighth of a run: the cost of 8 runs. Of
 * omnivore: 4 periods of 8 combinations that train 1/64 of a run each, at one value of the last
 * option: 4 * 7 / 64 = 0.44 of a run more than the run itself.
 */
#include "lab/search.h"

#include <math.h>
#include <string.h>

/* The end of stage i of a run. */
static double stage_end(const fast_search *search, int64_t i)
{
    return i + 1 >= search->config.stages ? 1 : (double)(i + 1) / (double)search->config.stages;
}

/* The fraction of a run that a trial has trained, parents included. */
static double trained(const fast_trial *t)
{
    return t->point_count > 0 ? t->points[t->point_count - 1].progress : t->from;
}

/* The first stage of a run whose end is behind a fraction of it: rare evaluations pass several. */
static int64_t stage_after(const fast_search *search, double progress)
{
    int64_t i = 0;

    while (i < search->config.stages && stage_end(search, i) <= progress + 1e-9)
        i++;
    return i;
}

/* Mean and variance of the mean of a trial's values. */
static void moments(const fast_trial *t, double *mean, double *variance)
{
    const double n = (double)t->point_count;

    *mean = *variance = 0;
    for (int64_t i = 0; i < t->point_count; i++)
        *mean += t->points[i].value / n;
    for (int64_t i = 0; i < t->point_count; i++)
        *variance += (t->points[i].value - *mean) * (t->points[i].value - *mean) / (n * (n - 1));
}

/*
 * The probability that Student's t with `degrees` of freedom is below `t`, by its density's
 * integral from 0 with Simpson's rule; beyond 40 it is 0 or 1 for any use here.
 */
static double student_below(double t, double degrees)
{
    const double most = fmin(fabs(t), 40);
    const double scale =
        exp(lgamma((degrees + 1) / 2) - lgamma(degrees / 2)) / sqrt(degrees * M_PI);
    enum { PARTS = 2000 };
    double sum = 0;

    for (int i = 0; i <= PARTS; i++) {
        const double x = most * i / PARTS;
        const double weight = i == 0 || i == PARTS ? 1 : i % 2 ? 4 : 2;

        sum += weight * pow(1 + x * x / degrees, -(degrees + 1) / 2);
    }
    const double half = fmin(0.5, scale * sum * most / PARTS / 3);
    return t < 0 ? 0.5 - half : 0.5 + half;
}

bool fast__welch_below(const fast_trial *a, const fast_trial *b, double confidence)
{
    double mean_a, mean_b, var_a, var_b;

    if (!isfinite(a->value) || !isfinite(b->value))
        return isfinite(a->value);
    if (a->point_count < 2 || b->point_count < 2)
        return a->value < b->value;
    moments(a, &mean_a, &var_a);
    moments(b, &mean_b, &var_b);
    const double both = var_a + var_b;
    if (!isfinite(both) || both <= 0)
        return mean_a < mean_b;
    const double degrees = both * both /
                           (var_a * var_a / (double)(a->point_count - 1) +
                            var_b * var_b / (double)(b->point_count - 1));
    return student_below((mean_b - mean_a) / sqrt(both), degrees) > confidence;
}

/* Change each number of a setting by the factor, up or down: one value of a list. A name is drawn
 * again in one of four cases. */
static void perturb(const fast_search *search, fast_rng *rng, double *at)
{
    const double factor = search->config.perturb;

    for (int64_t k = 0; k < search->space->count; k++) {
        const fast_search_option *o = &search->space->options[k];
        const double count = (double)o->values.count;
        const bool up = fast__rng_below(rng, 2) == 1;

        if (count > 0 && o->numbers) {
            at[k] = fmin(count - 1, fmax(0, at[k] + (up ? 1 : -1)));
        } else if (count > 0) {
            if (fast__rng_below(rng, 4) == 0)
                at[k] = (double)fast__rng_below(rng, (uint64_t)count);
        } else if (o->log) {
            const double step = log(factor) / log(o->high / o->low);
            at[k] = fmin(1, fmax(0, at[k] + (up ? step : -step)));
        } else {
            const double value = (o->low + at[k] * (o->high - o->low)) * (up ? factor : 1 / factor);
            at[k] = fmin(1, fmax(0, (value - o->low) / (o->high - o->low)));
        }
    }
}

int64_t fast__pbt_bound(const fast_search *search)
{
    return search->config.parallel * search->config.stages;
}

/* The best trial of the last round; -1 if all diverged. */
static int64_t best_of_round(const fast_search *search)
{
    int64_t best = -1;

    for (int64_t i = 0; i < search->count; i++) {
        const fast_trial *t = &search->trials[i];

        if (t->round == search->round - 1 && isfinite(t->value) &&
            (best < 0 || t->value < search->trials[best].value))
            best = i;
    }
    return best;
}

fast_err fast__pbt_plan(fast_search *search)
{
    const int64_t members = search->config.parallel, round = search->round;
    double at[FAST_SEARCH_OPTIONS_MAX] = { 0 };

    const int64_t best = round > 0 ? best_of_round(search) : -1;

    if (round > 0 &&
        (best < 0 || fast__search_has_whole(search) || fast__search_has_reached(search)))
        return FAST_OK;
    for (int64_t i = 0; i < members; i++) {
        const int64_t own = (round - 1) * members + i;
        fast_rng rng;

        fast__rng_init(&rng, search->seed, FAST_PURPOSE_SEARCH, (uint64_t)round, 5, (uint64_t)i);
        if (round == 0) {
            fast__search_space_draw(search->space, &rng, at);
            FAST_TRY(fast__search_add(search, at, -1, stage_end(search, 0)));
            continue;
        }
        int64_t other = (round - 1) * members + (int64_t)fast__rng_below(&rng, (uint64_t)members);
        const bool better = fast__welch_below(&search->trials[other], &search->trials[own],
                                              search->config.confidence);
        if (!better || other == own)
            other = own;
        if (!isfinite(search->trials[other].value)) /* it failed, and has no model to start with */
            other = best;
        memcpy(at, search->trials[other].at, sizeof at);
        if (other != own)
            perturb(search, &rng, at);
        const double begin = trained(&search->trials[other]);
        FAST_TRY(
            fast__search_add(search, at, other, stage_end(search, stage_after(search, begin))));
    }
    return FAST_OK;
}

/* The number of values of the last option, and of combinations of the others. */
static int64_t count_levels(const fast_search *search, int64_t *combinations)
{
    const fast_search_space *space = search->space;
    const int64_t levels = space->options[space->count - 1].values.count;

    *combinations = levels > 0 ? fast__search_space_count(space) / levels : 0;
    return levels;
}

int64_t fast__omnivore_bound(const fast_search *search)
{
    int64_t combinations;
    const int64_t levels = count_levels(search, &combinations);

    return search->config.stages * (levels * combinations + 1);
}

/* Start the grid of a period: all combinations at one value of the last option. */
static fast_err add_grid(fast_search *search)
{
    const int64_t from = search->parent;
    const double begin = from < 0 ? 0 : trained(&search->trials[from]);
    double at[FAST_SEARCH_OPTIONS_MAX] = { 0 };
    int64_t combinations;
    const int64_t levels = count_levels(search, &combinations);

    search->probes = true;
    for (int64_t i = 0; i < combinations; i++) {
        fast__search_space_at(search->space, i * levels + search->level, at);
        FAST_TRY(
            fast__search_add(search, at, from,
                             fmin(begin + search->config.first, stage_end(search, search->stage))));
    }
    return FAST_OK;
}

fast_err fast__omnivore_plan(fast_search *search)
{
    int64_t combinations;
    const int64_t levels = count_levels(search, &combinations);

    if (search->round == 0) {
        search->parent = -1;
        search->level = levels - 1; /* cold start */
        return add_grid(search);
    }
    const int64_t best = best_of_round(search);
    if (fast__search_has_reached(search))
        return FAST_OK;
    /* A grid whose trials all diverged or failed is repeated too. */
    if (search->probes && search->stage > 0 && search->level + 1 < levels &&
        (best < 0 || search->trials[best].at[0] == 0)) {
        search->level++;
        return add_grid(search);
    }
    if (best < 0)
        return FAST_OK;
    if (search->probes && trained(&search->trials[best]) < stage_end(search, search->stage)) {
        search->probes = false;
        return fast__search_add(search, search->trials[best].at, best,
                                stage_end(search, search->stage));
    }
    search->stage = stage_after(search, trained(&search->trials[best]));
    if (search->stage >= search->config.stages)
        return FAST_OK;
    search->parent = best;
    search->level = 0;
    return add_grid(search);
}
