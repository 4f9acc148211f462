/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AdaGrad: a rate per parameter that shrinks with the squares seen so far.
 *
 *   s += g^2
 *   w -= lr / (1 + (t - 1) lr_decay) * g / (sqrt(initial + s) + eps)
 *
 * The slot holds s without the initial value, because slots begin at zero. 20 bytes of traffic a
 * parameter. Duchi, Hazan, Singer, "Adaptive Subgradient Methods for Online Learning and
 * Stochastic Optimization", JMLR 2011.
 */
#include "rule/kernel.h"

typedef struct adagrad_config {
    fast_rule_common common; /* options of all rules */
    double lr_decay;         /* the learning rate is lr / (1 + (t - 1) lr_decay) */
    double initial;          /* start of the sum of squares */
    double eps;              /* added to the root */
} adagrad_config;

static const fast_option adagrad_options[] = {
    FAST_OPT_REAL(adagrad_config, lr_decay, "0", 0, 1e6,
                  "the learning rate is divided by 1 + this times the steps so far"),
    FAST_OPT_REAL(adagrad_config, initial, "0", 0, 1e30, "initial value of the sum of squares"),
    FAST_OPT_REAL(adagrad_config, eps, "1e-10", 0, 1, "added to the root of the sum"),
    FAST_RULE_COMMON("0", FAST_RULE_DECAY_L2),
    FAST_OPT_END,
};

/* The coefficients of one step. */
typedef struct adagrad_step {
    float lr;      /* learning rate with its decay */
    float initial; /* start of the sum of squares */
    float eps;     /* added to the root */
} adagrad_step;

FAST_INLINE void adagrad_loop(int64_t n, float *restrict w, float *restrict s,
                              const float *restrict g, adagrad_step step,
                              const fast_rule_terms *terms, bool plain)
{
    for (int64_t i = 0; i < n; i++) {
        const float grad = fast__rule_grad(terms, plain, g[i], w[i]);
        const float sum = s[i] + grad * grad;

        s[i] = sum;
        w[i] -= step.lr * (grad / (sqrtf(step.initial + sum) + step.eps));
    }
}

FAST_CLONES static void adagrad_update(int64_t n, float *w, float *s, const float *g,
                                       adagrad_step step, fast_rule_terms terms)
{
    if (terms.plain)
        adagrad_loop(n, w, s, g, step, &terms, true);
    else
        adagrad_loop(n, w, s, g, step, &terms, false);
}

static void adagrad_apply(const void *config, const fast_rule_slice *slice)
{
    const adagrad_config *c = config;
    const fast_rule_terms terms = fast__rule_terms(&c->common, slice, slice->decay);
    const adagrad_step step = {
        .lr = (float)(slice->lr / (1.0 + (double)(slice->step - 1) * c->lr_decay)),
        .initial = (float)c->initial,
        .eps = (float)c->eps,
    };

    adagrad_update(slice->count, slice->w, slice->state[0], slice->g, step, terms);
}

const fast_rule fast__rule_adagrad = {
    .name = "adagrad",
    .summary = "a learning rate per parameter from the sum of squared gradients",
    .options = adagrad_options,
    .config_size = sizeof(adagrad_config),
    .slots = 1,
    .lr = 0.01,
    .apply = adagrad_apply,
};
