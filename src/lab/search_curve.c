/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Learning curves: where will a trial be at the end, and with which probability below a value?
 *
 *   curve      y(x) = a + b g(x) + e,   x the fraction of a run, e normal
 *   shapes     g(x) = (x / x_1)^-q,  exp(-q (x - x_1))  or  1 / (1 + (x / h)^q),   q and h of small
 *              lists, x_1 the first point; the last has a plateau before it falls
 *   prior      a normal around half of the least value seen, b around the first value less that:
 *              values are errors or losses, which fall and stay above 0
 *   posterior  of (a, b) in closed form for each shape and each standard deviation of e, which are
 *              weighted by their evidence: a mixture of normals
 *
 * The early drop (Domhan, Springenberg and Hutter 2015): a trial ends when the probability that its
 * last value will be below the best trial's is less than 1 - confidence. Where a trial has reached
 * the target, the question is whether this one will reach it for the same amount.
 *
 * Cost: O(points * shapes * deviations) a question; no sampling, so equal curves give equal bits.
 */
#include "lab/search.h"

#include <math.h>

enum { POINTS_MIN = 4 }; /* of a curve that is extrapolated */

static const struct {
    char kind;   /* p: x^-q, e: exp(-q x), h: 1 / (1 + (x / half)^q) */
    double rate; /* q */
    double half; /* fraction of a run where half of it has fallen */
} shapes[] = { { 'p', 0.25, 0 }, { 'p', 0.5, 0 }, { 'p', 1, 0 },   { 'p', 2, 0 },   { 'e', 1, 0 },
               { 'e', 2, 0 },    { 'e', 4, 0 },   { 'e', 8, 0 },   { 'e', 16, 0 },  { 'h', 2, 0.1 },
               { 'h', 2, 0.2 },  { 'h', 2, 0.4 }, { 'h', 2, 0.8 }, { 'h', 4, 0.1 }, { 'h', 4, 0.2 },
               { 'h', 4, 0.4 },  { 'h', 4, 0.8 } };

static const double deviations[] = { 0.003, 0.01, 0.03, 0.1 }; /* of the first value */

enum {
    SHAPES = sizeof shapes / sizeof *shapes,
    DEVIATIONS = sizeof deviations / sizeof *deviations
};

double fast__normal_below(double x, double mean, double deviation)
{
    return 0.5 * erfc((mean - x) / (deviation * sqrt(2)));
}

/* g at x for a curve that begins at `first`. */
static double shape_at(int shape, double x, double first)
{
    const double q = shapes[shape].rate;

    return shapes[shape].kind == 'p'   ? pow(x / first, -q)
           : shapes[shape].kind == 'e' ? exp(-q * (x - first))
                                       : 1 / (1 + pow(x / shapes[shape].half, q));
}

/* A normal prediction of one shape and deviation, and the logarithm of its evidence. */
typedef struct curve_part {
    double mean, variance; /* of the value at the asked fraction, noise included */
    double evidence;       /* up to a constant */
} curve_part;

/*
 * Bayesian regression with two coefficients. With P = diag(p_a, p_b) the precision of the prior and
 * m its mean, residuals r = y - m_a - m_b g and s^2 the noise:
 *
 *   A = P + [n, sum g; sum g, sum g^2] / s^2        d = A^-1 [sum r, sum g r] / s^2
 *   log evidence = -n log s - 1/2 log(|A| / |P|) - 1/2 (sum r^2 / s^2 - d^T A d)
 */
static curve_part fit(const fast_trial *t, int shape, double deviation, double at)
{
    const fast_search_point *p = t->points;
    const double first = p[0].progress;
    double least = p[0].value, sum_g = 0, sum_gg = 0, sum_r = 0, sum_gr = 0, sum_rr = 0;

    for (int64_t i = 1; i < t->point_count; i++)
        least = fmin(least, p[i].value);
    const double scale = fmax(fabs(p[0].value), 1e-12), spread_a = fmax(least / 2, 0.01 * scale);
    const double m_a = least / 2, m_b = p[0].value - m_a, s = deviation * scale;
    const double p_a = 1 / (spread_a * spread_a), p_b = 1 / (scale * scale);
    for (int64_t i = 0; i < t->point_count; i++) {
        const double g = shape_at(shape, p[i].progress, first), r = p[i].value - m_a - m_b * g;

        sum_g += g;
        sum_gg += g * g;
        sum_r += r;
        sum_gr += g * r;
        sum_rr += r * r;
    }
    const double v = s * s, n = (double)t->point_count;
    const double aa = p_a + n / v, ab = sum_g / v, bb = p_b + sum_gg / v;
    const double determinant = aa * bb - ab * ab;
    const double u = sum_r / v, w = sum_gr / v;
    const double d_a = (bb * u - ab * w) / determinant, d_b = (aa * w - ab * u) / determinant;
    const double g = shape_at(shape, at, first);

    return (curve_part){
        .mean = m_a + d_a + (m_b + d_b) * g,
        .variance = v + (bb - 2 * g * ab + g * g * aa) / determinant,
        .evidence = -n * log(s) - 0.5 * log(determinant / (p_a * p_b)) -
                    0.5 * (sum_rr / v - d_a * u - d_b * w),
    };
}

double fast__curve_below(const fast_trial *trial, double progress, double value)
{
    curve_part parts[SHAPES * DEVIATIONS];
    double most = -INFINITY, sum = 0, below = 0;
    int count = 0;

    if (!isfinite(trial->value))
        return 0;
    for (int64_t i = 0; i < trial->point_count; i++)
        if (!isfinite(trial->points[i].value))
            return 0;
    if (trial->point_count < POINTS_MIN)
        return NAN;
    for (int i = 0; i < SHAPES; i++)
        for (int k = 0; k < DEVIATIONS; k++) {
            parts[count] = fit(trial, i, deviations[k], progress);
            most = fmax(most, parts[count++].evidence);
        }
    for (int i = 0; i < count; i++) {
        const double weight = exp(parts[i].evidence - most);

        sum += weight;
        below += weight * fast__normal_below(value, parts[i].mean, sqrt(parts[i].variance));
    }
    return below / sum;
}

/* The least of `a` and `b` by their amounts until the target; NULL stands for no trial. */
static const fast_trial *cheaper(const fast_trial *a, const fast_trial *b)
{
    return !a || b->spent < a->spent ? b : a;
}

bool fast__curve_drop(const fast_search *search, const fast_trial *trial)
{
    const double progress = trial->points[trial->point_count - 1].progress;
    const fast_trial *winner = NULL;
    double best = INFINITY;

    if (progress < search->config.first)
        return false;
    for (int64_t i = 0; i < search->count; i++) {
        const fast_trial *other = &search->trials[i];

        if (!fast__trial_is_history(search, other, trial->round))
            continue;
        if (other->reached)
            winner = cheaper(winner, other);
        else if (other->state == FAST_TRIAL_ENDED)
            best = fmin(best, other->value);
    }
    double probability = NAN;
    if (winner && isfinite(search->goal) && trial->spent > 0)
        probability = fast__curve_below(trial, fmin(1, progress * winner->spent / trial->spent),
                                        search->goal);
    else if (!winner && isfinite(best))
        probability = fast__curve_below(trial, 1, best);
    return probability < 1 - search->config.confidence;
}
