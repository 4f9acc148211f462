/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bayesian search: a Gaussian process over the space, and the setting with the largest expected
 * improvement (Jones et al. 1998; Snoek et al. 2012).
 *
 *   values       y_i: normal scores of the ranks of the trials' last values, so that the scale of
 *                the measure and trials that diverged have no weight of their own
 *   kernel       k(a, b) = (1 + r + r^2 / 3) exp(-r), r = sqrt(5 d^2 / 3) / l' (Matern 5/2), d the
 *                distance of settings; l and the noise by the largest likelihood of a small grid
 *   posterior    mean = k^T K^-1 y, variance = 1 - k^T K^-1 k, by Cholesky's factors
 *   proposal     largest EI = (y* - mean) Phi(z) + s phi(z), z = (y* - mean) / s, among all
 *                settings that were not tried, or of 1024 drawn ones where an option has a range
 *                or there are more than 4096: half of them uniform, half around the best
 *   in a round   a proposal counts as if its mean had been measured ("kriging believer")
 *
 * The first `start` trials are a Latin hypercube. Cost: O(n^3) a proposal for n <= 256 trials.
 */
#include "lab/search.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

enum { CANDIDATES = 1024, LISTED_MAX = 4096 };

/* A process that was fitted to trials. */
typedef struct bayes_model {
    const fast_search_space *space; /* of the settings */
    int64_t n;                      /* measured settings */
    const double **at;              /* [n]: settings */
    double *y;                      /* [n]: values */
    double *factor;                 /* [n * n]: lower triangle of Cholesky */
    double *weight;                 /* [n]: K^-1 y */
    double *scratch;                /* [n] */
    double length;                  /* of the kernel */
    double noise;                   /* variance of a measure */
} bayes_model;

/* The covariance of two settings. */
static double kernel(const bayes_model *m, const double *a, const double *b)
{
    const double d = sqrt(5 * fast__search_space_distance(m->space, a, b)) / m->length;

    return (1 + d + d * d / 3) * exp(-d);
}

/* Solve L x = b in place. */
static void solve_lower(const bayes_model *m, double *x)
{
    for (int64_t i = 0; i < m->n; i++) {
        for (int64_t k = 0; k < i; k++)
            x[i] -= m->factor[i * m->n + k] * x[k];
        x[i] /= m->factor[i * m->n + i];
    }
}

/* Factorise the kernel's matrix for the current length and noise; return the logarithm of the
 * likelihood up to a constant. */
static double fit(bayes_model *m)
{
    const int64_t n = m->n;
    double *L = m->factor, likelihood = 0;

    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k <= i; k++) {
            double sum = kernel(m, m->at[i], m->at[k]) + (i == k ? m->noise : 0);

            for (int64_t j = 0; j < k; j++)
                sum -= L[i * n + j] * L[k * n + j];
            L[i * n + k] = i == k ? sqrt(fmax(sum, 1e-12)) : sum / L[k * n + k];
        }
    memcpy(m->weight, m->y, (size_t)n * sizeof *m->y);
    solve_lower(m, m->weight);
    for (int64_t i = 0; i < n; i++)
        likelihood -= 0.5 * m->weight[i] * m->weight[i] + log(L[i * n + i]);
    for (int64_t i = n - 1; i >= 0; i--) { /* solve L^T x = b */
        for (int64_t k = i + 1; k < n; k++)
            m->weight[i] -= L[k * n + i] * m->weight[k];
        m->weight[i] /= L[i * n + i];
    }
    return likelihood;
}

/* Choose length and noise by the likelihood. */
static void fit_best(bayes_model *m)
{
    static const double lengths[] = { 0.1, 0.2, 0.4, 0.8, 1.6 }, noises[] = { 1e-4, 1e-2, 0.1 };
    double best = -INFINITY, length = 0.4, noise = 1e-2;

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (size_t k = 0; k < sizeof noises / sizeof *noises; k++) {
            m->length = lengths[i];
            m->noise = noises[k];
            const double likelihood = fit(m);
            if (likelihood > best) {
                best = likelihood;
                length = m->length;
                noise = m->noise;
            }
        }
    m->length = length;
    m->noise = noise;
    fit(m);
}

/* The posterior at a setting. */
static void predict(const bayes_model *m, const double *at, double *mean, double *deviation)
{
    double variance = 1;

    *mean = 0;
    for (int64_t i = 0; i < m->n; i++) {
        m->scratch[i] = kernel(m, m->at[i], at);
        *mean += m->scratch[i] * m->weight[i];
    }
    solve_lower(m, m->scratch);
    for (int64_t i = 0; i < m->n; i++)
        variance -= m->scratch[i] * m->scratch[i];
    *deviation = sqrt(fmax(variance, 1e-12));
}

/* Expected improvement over `best`. */
static double improvement(const bayes_model *m, const double *at, double best)
{
    double mean, s;

    predict(m, at, &mean, &s);
    const double z = (best - mean) / s;
    return (best - mean) * fast__normal_below(z, 0, 1) + s * exp(-z * z / 2) / sqrt(2 * M_PI);
}

/* The inverse of the normal distribution, by bisection. */
static double normal_score(double p)
{
    double low = -8, high = 8;

    for (int i = 0; i < 60; i++) {
        const double middle = (low + high) / 2;

        if (fast__normal_below(middle, 0, 1) < p)
            low = middle;
        else
            high = middle;
    }
    return (low + high) / 2;
}

/* Take the measured trials, their values as normal scores of ranks. */
static void take_trials(const fast_search *search, bayes_model *m)
{
    const fast_trial *t = search->trials;

    m->n = 0;
    for (int64_t i = 0; i < search->count; i++) {
        double below = 0, count = 0;

        if (t[i].round == search->round)
            continue;
        for (int64_t k = 0; k < search->count; k++)
            if (t[k].round != search->round) {
                count++;
                below += t[k].value < t[i].value ? 1 : t[k].value == t[i].value ? 0.5 : 0;
            }
        m->at[m->n] = t[i].at;
        m->y[m->n++] = normal_score(below / count);
    }
}

/* True if a setting is that of a trial. */
static bool is_tried(const fast_search *search, const double *at)
{
    for (int64_t i = 0; i < search->count; i++)
        if (memcmp(search->trials[i].at, at, (size_t)search->space->count * sizeof *at) == 0)
            return true;
    return false;
}

/* True if the model can look at every setting. */
static bool is_listed(const fast_search_space *space)
{
    const int64_t all = fast__search_space_count(space);

    return all > 0 && all <= LISTED_MAX;
}

/* Candidate `i`: a setting of the lists, or one that is drawn. */
static void candidate(const fast_search *search, int64_t i, const double *best, double *at)
{
    const fast_search_space *space = search->space;
    fast_rng rng;

    if (is_listed(space)) {
        fast__search_space_at(space, i, at);
        return;
    }
    fast__rng_init(&rng, search->seed, FAST_PURPOSE_SEARCH, (uint64_t)search->count, 2,
                   (uint64_t)i);
    fast__search_space_draw(space, &rng, at);
    for (int64_t k = 0; i % 2 == 1 && k < space->count; k++) {
        const double width = i % 4 == 1 ? 0.1 : 0.01;

        if (space->options[k].values.count == 0)
            at[k] = fmin(1, fmax(0, best[k] + width * (double)fast__rng_normal(&rng)));
        else if (fast__rng_below(&rng, 2) == 0)
            at[k] = best[k];
    }
}

/* Write the setting with the largest expected improvement; false if all were tried. */
static bool find_setting(const fast_search *search, const bayes_model *m, double *at)
{
    const int64_t count =
        is_listed(search->space) ? fast__search_space_count(search->space) : CANDIDATES;
    const double *best = m->at[0];
    double least = m->y[0], most = -INFINITY;
    bool found = false;

    for (int64_t i = 1; i < m->n; i++)
        if (m->y[i] < least) {
            least = m->y[i];
            best = m->at[i];
        }
    for (int64_t i = 0; i < count; i++) {
        double x[FAST_SEARCH_OPTIONS_MAX] = { 0 };

        candidate(search, i, best, x);
        if (is_tried(search, x))
            continue;
        const double gain = improvement(m, x, least);
        if (!found || gain > most) {
            most = gain;
            memcpy(at, x, sizeof x);
            found = true;
        }
    }
    return found;
}

/* One setting of the Latin hypercube of the first round: option k of trial i lies in a stratum of
 * its own. */
static void first_setting(const fast_search *search, int64_t i, int64_t count, double *at)
{
    for (int64_t k = 0; k < search->space->count; k++) {
        const int64_t values = search->space->options[k].values.count;
        const double u =
            ((double)fast__rng_permute(search->seed, FAST_PURPOSE_SEARCH, (uint64_t)(3 + k),
                                       (uint64_t)count, (uint64_t)i) +
             0.5) /
            (double)count;

        at[k] = values > 0 ? floor(u * (double)values) : u;
    }
}

/* Plan trials by the model. */
static fast_err plan_by_model(fast_search *search, bayes_model *m, int64_t count)
{
    double *memory;

    FAST_TRY(fast__alloc("a model", FAST_SEARCH_TRIALS_MAX * (FAST_SEARCH_TRIALS_MAX + 3),
                         sizeof *memory, &memory));
    m->factor = memory;
    m->y = memory + FAST_SEARCH_TRIALS_MAX * FAST_SEARCH_TRIALS_MAX;
    m->weight = m->y + FAST_SEARCH_TRIALS_MAX;
    m->scratch = m->weight + FAST_SEARCH_TRIALS_MAX;
    take_trials(search, m);
    fast_err err = FAST_OK;
    for (int64_t i = 0; !err && i < count; i++) {
        double at[FAST_SEARCH_OPTIONS_MAX] = { 0 }, mean, deviation;

        fit_best(m);
        if (!find_setting(search, m, at))
            break;
        predict(m, at, &mean, &deviation);
        err = fast__search_add(search, at, -1, 1);
        m->at[m->n] = search->trials[search->count - 1].at;
        m->y[m->n++] = mean;
    }
    fast__free(memory);
    return err;
}

fast_err fast__bayes_plan(fast_search *search)
{
    const double *at[FAST_SEARCH_TRIALS_MAX + 1];
    bayes_model m = { .space = search->space, .at = at };
    const int64_t all = fast__search_trial_count(search);
    const int64_t start = search->config.start < all ? search->config.start : all;
    int64_t left = all - search->count;

    if (search->count == 0) {
        for (int64_t i = 0; i < start; i++) {
            double x[FAST_SEARCH_OPTIONS_MAX] = { 0 };

            first_setting(search, i, start, x);
            if (!is_tried(search, x))
                FAST_TRY(fast__search_add(search, x, -1, 1));
        }
        return FAST_OK;
    }
    if (search->config.parallel > 0 && search->config.parallel < left)
        left = search->config.parallel;
    return left > 0 ? plan_by_model(search, &m, left) : FAST_OK;
}
