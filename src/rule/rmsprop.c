/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RMSProp: a rate per parameter from a running mean of squares.
 *
 *   s = alpha s + (1 - alpha) g^2
 *   a = alpha a + (1 - alpha) g                   centered: d = sqrt(s - a^2) + eps
 *   d = sqrt(s) + eps                             otherwise
 *   v = mu v + g / d ;  w -= lr v                 with momentum
 *   w -= lr g / d                                 without
 *
 * With `sgd` it turns into SGD during the run (Akiba, Suzuki and Fukuda, "Extremely Large Minibatch
 * SGD: Training ResNet-50 on ImageNet in 15 Minutes", 2017): g / d becomes
 *
 *   (sgd a + (1 - a) / d) g         a = exp(2 x) / 2           x = (step - center) / width < 0
 *                                       min(1/2 + x, 1)        x >= 0
 *
 * lr is RMSProp's rate, and sgd lr that of SGD in the end; the paper has 10 epochs for the centre
 * and 5 for the width, of 90. Steps are counted, since a rule does not know epochs.
 *
 * Slots: s, then v where mu > 0, then a where centered. 20 to 36 bytes of traffic a parameter.
 * Tieleman and Hinton, "Lecture 6.5 - rmsprop", 2012; centered: Graves, "Generating Sequences With
 * Recurrent Neural Networks", 2013. As PyTorch writes it.
 */
#include "rule/kernel.h"

typedef struct rmsprop_config {
    fast_rule_common common; /* options of all rules */
    double alpha;            /* decay of the means */
    double eps;              /* added to the root */
    double momentum;         /* mu; 0: no velocity */
    bool centered;           /* divide by the deviation from the mean gradient */
    double sgd;              /* SGD's rate by RMSProp's; 0: RMSProp to the end */
    int64_t center;          /* step at which both have half the weight */
    int64_t width;           /* steps that the change takes, about */
} rmsprop_config;

static const fast_option rmsprop_options[] = {
    FAST_OPT_REAL(rmsprop_config, alpha, "0.99", 0, 1, "decay of the mean of squares"),
    FAST_OPT_REAL(rmsprop_config, eps, "1e-8", 0, 1, "added to the root of the mean"),
    FAST_OPT_REAL(rmsprop_config, momentum, "0", 0, 1,
                  "fraction of the previous velocity that is added"),
    FAST_OPT_BOOL(rmsprop_config, centered, "no", "divide by the deviation from the mean gradient"),
    FAST_OPT_REAL(rmsprop_config, sgd, "0", 0, 1e9,
                  "change to SGD with a learning rate of this times lr; 0: never"),
    FAST_OPT_INT(rmsprop_config, center, "200", 0, 1e12, "sgd: step in the middle of the change"),
    FAST_OPT_INT(rmsprop_config, width, "100", 1, 1e12, "sgd: steps that the change takes, about"),
    FAST_RULE_COMMON("0", FAST_RULE_DECAY_L2),
    FAST_OPT_END,
};

/* The coefficients of one step, and which slots there are. */
typedef struct rmsprop_step {
    float lr;       /* learning rate */
    float alpha;    /* decay of the means */
    float take;     /* 1 - alpha */
    float eps;      /* added to the root */
    float mu;       /* momentum */
    float sgd;      /* SGD's summand to 1 / d */
    float fraction; /* of 1 / d: 1 without SGD */
    float *s;       /* mean of squares */
    float *v;       /* velocity, or NULL */
    float *a;       /* mean of gradients, or NULL */
} rmsprop_step;

FAST_INLINE void rmsprop_loop(int64_t n, float *restrict w, const float *restrict g,
                              const rmsprop_step *step, const fast_rule_terms *terms, bool velocity,
                              bool centered)
{
    const float lr = step->lr, alpha = step->alpha, take = step->take, eps = step->eps;
    const float mu = step->mu, sgd = step->sgd, fraction = step->fraction;
    float *restrict s = step->s;
    float *restrict v = step->v;
    float *restrict a = step->a;

    for (int64_t i = 0; i < n; i++) {
        const float grad = fast__rule_grad(terms, false, g[i], w[i]);
        float square = alpha * s[i] + take * (grad * grad);
        float update;

        s[i] = square;
        if (centered) {
            const float mean = alpha * a[i] + take * grad;

            a[i] = mean;
            square -= mean * mean;
            square = square < 0.0f ? 0.0f : square; /* rounding only */
        }
        /* Without SGD that is grad / d to the bit. */
        update = fraction * grad / (sqrtf(square) + eps) + sgd * grad;
        if (velocity) {
            update += mu * v[i];
            v[i] = update;
        }
        w[i] -= lr * update;
    }
}

FAST_CLONES static void rmsprop_update(int64_t n, float *w, const float *g, rmsprop_step step,
                                       fast_rule_terms terms)
{
    if (!step.v && !step.a)
        rmsprop_loop(n, w, g, &step, &terms, false, false);
    else if (!step.a)
        rmsprop_loop(n, w, g, &step, &terms, true, false);
    else if (!step.v)
        rmsprop_loop(n, w, g, &step, &terms, false, true);
    else
        rmsprop_loop(n, w, g, &step, &terms, true, true);
}

/* Return the weight of SGD at a step. */
static double sgd_weight(const rmsprop_config *c, int64_t step)
{
    const double x = (double)(step - c->center) / (double)c->width;

    return x < 0 ? 0.5 * exp(2 * x) : fmin(0.5 + x, 1);
}

static void rmsprop_apply(const void *config, const fast_rule_slice *slice)
{
    const rmsprop_config *c = config;
    const fast_rule_terms terms = fast__rule_terms(&c->common, slice, slice->decay);
    const bool velocity = c->momentum > 0;
    const double weight = c->sgd > 0 ? sgd_weight(c, slice->step) : 0;
    const rmsprop_step step = {
        .lr = (float)slice->lr,
        .alpha = (float)c->alpha,
        .take = (float)(1.0 - c->alpha),
        .eps = (float)c->eps,
        .mu = (float)c->momentum,
        .sgd = (float)(c->sgd * weight),
        .fraction = (float)(1.0 - weight),
        .s = slice->state[0],
        .v = velocity ? slice->state[1] : NULL,
        .a = c->centered ? slice->state[velocity ? 2 : 1] : NULL,
    };

    rmsprop_update(slice->count, slice->w, slice->g, step, terms);
}

static int rmsprop_slots_needed(const void *config)
{
    const rmsprop_config *c = config;

    return 1 + (c->momentum > 0) + c->centered;
}

const fast_rule fast__rule_rmsprop = {
    .name = "rmsprop",
    .summary = "a learning rate per parameter from a running mean of squares",
    .options = rmsprop_options,
    .config_size = sizeof(rmsprop_config),
    .slots = 3,
    .lr = 0.001,
    .slots_needed = rmsprop_slots_needed,
    .momentum_offset = offsetof(rmsprop_config, momentum),
    .apply = rmsprop_apply,
};
