/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YellowFin: momentum that sets its own momentum and learning rate, by measures of the gradient.
 *
 *   h     = |g|^2;  h_min, h_max  means of the least and the largest h of the last `window` steps
 *   C     = mean(|g|^2) - |mean(g)|^2                       variance of gradients
 *   D     = mean(mean(|g|) / mean(h))                       distance to the optimum
 *   mu    = the least of mu D^2 + (1 - sqrt(mu))^4 C / h_min^2, but at least
 *           ((sqrt(h_max / h_min) - 1) / (sqrt(h_max / h_min) + 1))^2
 *   alpha = (1 - sqrt(mu))^2 / h_min
 *   v     = mean(mu) v - lr min(1, t / (10 window)) mean(alpha) g'
 *   w    += v
 *
 * with g' the gradient, no longer than sqrt(h_max) of the steps before. A mean is exponential with
 * `beta` and divided by 1 - beta^t, so that it is one from the first step; those of mu and alpha
 * are not, and start with 0 and with `initial`. With x = sqrt(mu) the least is where (1 - x)^3 =
 * p x, p = D^2 h_min^2 / 2 C, which has one root in [0, 1]. The learning rate of the run is a
 * factor: 1 is the paper's.
 *
 * Limit cases, after many steps: a gradient of constant length a and direction has C = 0, mu = 0,
 * alpha = 1 / a^2.
 * Lengths that alternate with a ratio of r have mu >= ((r - 1) / (r + 1))^2.
 *
 * The measures are of the whole vector; a server with a slice of it measures its slice. The last
 * state vector holds them in its first RECORD elements; a vector with fewer has mu = 0 and
 * alpha = `initial`.
 * Momentum that asynchrony adds is not taken off: the paper's closed loop is not here.
 * 32 bytes of traffic a parameter.
 *
 * Zhang and Mitliagkas, "YellowFin and the Art of Momentum Tuning", 2017, algorithms 1 to 4.
 */
#include "rule/kernel.h"

#include "tensor/vector.h"

enum { WINDOW_MAX = 56, SLOW = 10, RECORD = 8 + WINDOW_MAX };

/* Places in the record; the window is behind them. */
enum { H_MIN, H_MAX, NORM, H, DISTANCE, MU, ALPHA, CLIP, WINDOW };

typedef struct yellowfin_config {
    fast_rule_common common; /* options of all rules */
    double beta;             /* of the means */
    int64_t window;          /* steps whose curvatures have a range */
    double initial;          /* alpha before the first measure */
    bool slow_start;         /* grow to the learning rate over 10 windows */
} yellowfin_config;

static const fast_option yellowfin_options[] = {
    FAST_OPT_REAL(yellowfin_config, beta, "0.999", 0, 0.9999999, "decay of all means"),
    FAST_OPT_INT(yellowfin_config, window, "20", 1, WINDOW_MAX,
                 "steps whose least and largest curvature are the range"),
    FAST_OPT_REAL(yellowfin_config, initial, "0.1", 0, 1e6,
                  "learning rate before the first measure, which beta forgets"),
    FAST_OPT_BOOL(yellowfin_config, slow_start, "yes",
                  "the learning rate grows over the first 10 windows"),
    FAST_RULE_COMMON("0", FAST_RULE_DECAY_L2),
    FAST_OPT_END,
};

/* m = beta m + (1 - beta) g, and the clipped gradient for its norm. */
FAST_CLONES static void take_mean(int64_t n, const float *restrict g, float *restrict m,
                                  float *restrict out, float beta, float take,
                                  fast_rule_terms terms)
{
    for (int64_t i = 0; i < n; i++) {
        const float grad = fast__rule_grad(&terms, false, g[i], 0.0f);

        m[i] = beta * m[i] + take * grad;
        out[i] = grad;
    }
}

/* Move a mean of the record towards `value`, and return it without its bias. */
static double mean(float *record, int i, double beta, double bias, double value)
{
    const double moved = beta * (double)record[i] + (1 - beta) * value;

    record[i] = (float)moved;
    return moved / bias;
}

/* The root of (1 - x)^3 = p x. The left falls from 1 to 0 where the right rises from 0. */
static double cubic_root(double p)
{
    double low = 0, high = 1;

    for (int i = 0; i < 60; i++) {
        const double x = (low + high) / 2, y = 1 - x;

        if (y * y * y > p * x)
            low = x;
        else
            high = x;
    }
    return (low + high) / 2;
}

static void yellowfin_observe(const void *config, const fast_rule_slice *whole)
{
    enum { BLOCK = 1024 };
    const yellowfin_config *c = config;
    const fast_rule_terms terms = fast__rule_terms(&c->common, whole, 0);
    const double beta = c->beta, bias = 1 - pow(beta, (double)whole->step);
    float *record = whole->record, buf[BLOCK];
    double h = 0;

    for (int64_t i = 0; i < whole->count; i += BLOCK) {
        const int64_t n = whole->count - i < BLOCK ? whole->count - i : BLOCK;

        take_mean(n, whole->g + i, whole->state[1] + i, buf, (float)beta, (float)(1 - beta), terms);
        h += fast__vector_norm2(n, buf);
    }
    if (!record)
        return;
    record[WINDOW + (whole->step - 1) % c->window] = (float)h;
    double least = h, most = h;
    for (int64_t i = 0; i < c->window && i < whole->step; i++) {
        least = fmin(least, (double)record[WINDOW + i]);
        most = fmax(most, (double)record[WINDOW + i]);
    }
    const double tiny = 1e-30;
    /* The longest gradient that this step may have, by the steps before. */
    const double before =
        whole->step > 1 ? (double)record[H_MAX] / (1 - pow(beta, (double)whole->step - 1)) : h;
    record[CLIP] = (float)(h > before && before > 0 ? sqrt(before / h) : 1);
    const double h_min = fmax(tiny, mean(record, H_MIN, beta, bias, least));
    const double h_max = fmax(tiny, mean(record, H_MAX, beta, bias, most));
    const double norm = mean(record, NORM, beta, bias, sqrt(h));
    const double h_mean = fmax(tiny, mean(record, H, beta, bias, h));
    const double distance = mean(record, DISTANCE, beta, bias, norm / h_mean);
    const double variance =
        fmax(tiny, h_mean - fast__vector_norm2(whole->count, whole->state[1]) / (bias * bias));
    const double range = sqrt(h_max / h_min);
    const double x = fmax(cubic_root(distance * distance * h_min * h_min / (2 * variance)),
                          (range - 1) / (range + 1));

    mean(record, MU, beta, 1, x * x);
    mean(record, ALPHA, beta, 1, (1 - x) * (1 - x) / h_min);
}

FAST_CLONES static void yellowfin_update(int64_t n, float *restrict w, float *restrict v,
                                         const float *restrict g, float mu, float rate,
                                         fast_rule_terms terms)
{
    for (int64_t i = 0; i < n; i++) {
        v[i] = mu * v[i] - rate * fast__rule_grad(&terms, false, g[i], w[i]);
        w[i] += v[i];
    }
}

static void yellowfin_apply(const void *config, const fast_rule_slice *slice)
{
    const yellowfin_config *c = config;
    const double start =
        c->slow_start ? fmin(1, (double)slice->step / (SLOW * (double)c->window)) : 1;
    fast_rule_terms terms = fast__rule_terms(&c->common, slice, slice->decay);
    double mu = 0, alpha = c->initial;

    if (slice->record) {
        mu = (double)slice->record[MU];
        alpha = pow(c->beta, (double)slice->step) * c->initial + (double)slice->record[ALPHA];
        terms.scale *= slice->record[CLIP];
        terms.clip *= slice->record[CLIP];
    }
    yellowfin_update(slice->count, slice->w, slice->state[0], slice->g, (float)mu,
                     (float)(slice->lr * start * alpha), terms);
}

const fast_rule fast__rule_yellowfin = {
    .name = "yellowfin",
    .summary = "momentum that measures its momentum and learning rate",
    .options = yellowfin_options,
    .config_size = sizeof(yellowfin_config),
    .slots = 3,
    .lr = 1,
    .record = RECORD,
    .observe = yellowfin_observe,
    .apply = yellowfin_apply,
};
