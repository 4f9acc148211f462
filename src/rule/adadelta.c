/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AdaDelta: steps of the size that earlier steps had, in the units of the parameter.
 *
 *   s = rho s + (1 - rho) g^2
 *   d = sqrt(u + eps) / sqrt(s + eps) g
 *   u = rho u + (1 - rho) d^2
 *   w -= lr d
 *
 * Slots: s and u. 28 bytes of traffic a parameter. Zeiler, "ADADELTA: An Adaptive Learning Rate
 * Method", 2012, whose lr is 1. As PyTorch writes it.
 */
#include "rule/kernel.h"

typedef struct adadelta_config {
    fast_rule_common common; /* options of all rules */
    double rho;              /* decay of the means */
    double eps;              /* added under the roots */
} adadelta_config;

static const fast_option adadelta_options[] = {
    FAST_OPT_REAL(adadelta_config, rho, "0.9", 0, 1, "decay of the means of squares"),
    FAST_OPT_REAL(adadelta_config, eps, "1e-6", 0, 1, "added under the roots of the means"),
    FAST_RULE_COMMON("0", FAST_RULE_DECAY_L2),
    FAST_OPT_END,
};

/* The coefficients of one step. */
typedef struct adadelta_step {
    float lr;   /* learning rate */
    float rho;  /* decay of the means */
    float take; /* 1 - rho */
    float eps;  /* added under the roots */
} adadelta_step;

FAST_INLINE void adadelta_loop(int64_t n, float *restrict w, float *restrict s, float *restrict u,
                               const float *restrict g, adadelta_step step,
                               const fast_rule_terms *terms, bool plain)
{
    for (int64_t i = 0; i < n; i++) {
        const float grad = fast__rule_grad(terms, plain, g[i], w[i]);
        const float square = step.rho * s[i] + step.take * (grad * grad);
        const float delta = sqrtf(u[i] + step.eps) / sqrtf(square + step.eps) * grad;

        s[i] = square;
        u[i] = step.rho * u[i] + step.take * (delta * delta);
        w[i] -= step.lr * delta;
    }
}

FAST_CLONES static void adadelta_update(int64_t n, float *w, float *s, float *u, const float *g,
                                        adadelta_step step, fast_rule_terms terms)
{
    if (terms.plain)
        adadelta_loop(n, w, s, u, g, step, &terms, true);
    else
        adadelta_loop(n, w, s, u, g, step, &terms, false);
}

static void adadelta_apply(const void *config, const fast_rule_slice *slice)
{
    const adadelta_config *c = config;
    const fast_rule_terms terms = fast__rule_terms(&c->common, slice, slice->decay);
    const adadelta_step step = {
        .lr = (float)slice->lr,
        .rho = (float)c->rho,
        .take = (float)(1.0 - c->rho),
        .eps = (float)c->eps,
    };

    adadelta_update(slice->count, slice->w, slice->state[0], slice->state[1], slice->g, step,
                    terms);
}

const fast_rule fast__rule_adadelta = {
    .name = "adadelta",
    .summary = "steps as large as the steps before, in the units of each parameter",
    .options = adadelta_options,
    .config_size = sizeof(adadelta_config),
    .slots = 2,
    .lr = 1,
    .apply = adadelta_apply,
};
