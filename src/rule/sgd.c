/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stochastic gradient descent, with and without momentum.
 *
 *   sgd        w -= lr g
 *   momentum   v = mu v + (1 - dampening) g       v = g at step 1
 *              w -= lr v
 *   nesterov   w -= lr (g + mu v)                 with the new v
 *
 * where g is already clipped and has weight_decay * w added. One pass: 12 bytes of traffic a
 * parameter without momentum, 20 with it, so the speed is the memory's.
 * Polyak 1964; Nesterov 1983; the form is that of Sutskever et al., "On the importance of
 * initialization and momentum in deep learning", ICML 2013, as PyTorch writes it.
 */
#include "rule/kernel.h"

typedef struct momentum_config {
    fast_rule_common common; /* options of all rules */
    double momentum;         /* mu */
    double dampening;        /* the velocity takes 1 - dampening of the gradient */
} momentum_config;

static const fast_option sgd_options[] = {
    FAST_RULE_COMMON("0", FAST_RULE_DECAY_L2),
    FAST_OPT_END,
};

static const fast_option momentum_options[] = {
    FAST_OPT_REAL(momentum_config, momentum, "0.9", 0, 1,
                  "fraction of the previous velocity that is added"),
    FAST_OPT_REAL(momentum_config, dampening, "0", 0, 1,
                  "the velocity takes 1 - dampening of the gradient"),
    FAST_RULE_COMMON("0", FAST_RULE_DECAY_L2),
    FAST_OPT_END,
};

FAST_INLINE void sgd_loop(int64_t n, float *restrict w, const float *restrict g, float lr,
                          const fast_rule_terms *terms, bool plain)
{
    for (int64_t i = 0; i < n; i++)
        w[i] -= lr * fast__rule_grad(terms, plain, g[i], w[i]);
}

FAST_CLONES static void sgd_update(int64_t n, float *w, const float *g, float lr,
                                   fast_rule_terms terms)
{
    if (terms.plain)
        sgd_loop(n, w, g, lr, &terms, true);
    else
        sgd_loop(n, w, g, lr, &terms, false);
}

/* The coefficients of one step. */
typedef struct momentum_step {
    float lr;      /* learning rate */
    float mu;      /* momentum */
    float take;    /* 1 - dampening */
    bool nesterov; /* step along g + mu v instead of v */
} momentum_step;

FAST_INLINE void momentum_loop(int64_t n, float *restrict w, float *restrict v,
                               const float *restrict g, const momentum_step *step,
                               const fast_rule_terms *terms, bool plain, bool nesterov)
{
    const float lr = step->lr, mu = step->mu, take = step->take;

    for (int64_t i = 0; i < n; i++) {
        const float grad = fast__rule_grad(terms, plain, g[i], w[i]);
        const float velocity = mu * v[i] + take * grad;

        v[i] = velocity;
        w[i] -= lr * (nesterov ? grad + mu * velocity : velocity);
    }
}

FAST_CLONES static void momentum_update(int64_t n, float *w, float *v, const float *g,
                                        momentum_step step, fast_rule_terms terms)
{
    if (terms.plain && !step.nesterov)
        momentum_loop(n, w, v, g, &step, &terms, true, false);
    else if (terms.plain)
        momentum_loop(n, w, v, g, &step, &terms, true, true);
    else if (!step.nesterov)
        momentum_loop(n, w, v, g, &step, &terms, false, false);
    else
        momentum_loop(n, w, v, g, &step, &terms, false, true);
}

static void sgd_apply(const void *config, const fast_rule_slice *slice)
{
    const fast_rule_terms terms = fast__rule_terms(config, slice, slice->decay);

    sgd_update(slice->count, slice->w, slice->g, (float)slice->lr, terms);
}

static void velocity_apply(const void *config, const fast_rule_slice *slice, bool nesterov)
{
    const momentum_config *c = config;
    const fast_rule_terms terms = fast__rule_terms(&c->common, slice, slice->decay);
    const momentum_step step = {
        .lr = (float)slice->lr,
        .mu = (float)c->momentum,
        .take = slice->step == 1 ? 1.0f : (float)(1.0 - c->dampening),
        .nesterov = nesterov,
    };

    momentum_update(slice->count, slice->w, slice->state[0], slice->g, step, terms);
}

static void momentum_apply(const void *config, const fast_rule_slice *slice)
{
    velocity_apply(config, slice, false);
}

static void nesterov_apply(const void *config, const fast_rule_slice *slice)
{
    velocity_apply(config, slice, true);
}

const fast_rule fast__rule_sgd = {
    .name = "sgd",
    .summary = "plain stochastic gradient descent",
    .options = sgd_options,
    .config_size = sizeof(fast_rule_common),
    .lr = 0.1,
    .apply = sgd_apply,
};

const fast_rule fast__rule_momentum = {
    .name = "momentum",
    .summary = "gradient descent with momentum",
    .options = momentum_options,
    .config_size = sizeof(momentum_config),
    .slots = 1,
    .lr = 0.05,
    .momentum_offset = offsetof(momentum_config, momentum),
    .apply = momentum_apply,
};

const fast_rule fast__rule_nesterov = {
    .name = "nesterov",
    .summary = "Nesterov's momentum, which looks one step ahead",
    .options = momentum_options,
    .config_size = sizeof(momentum_config),
    .slots = 1,
    .lr = 0.05,
    .momentum_offset = offsetof(momentum_config, momentum),
    .apply = nesterov_apply,
};
