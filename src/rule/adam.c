/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adam and AdamW: momentum over a running mean of squares, both corrected for their start at zero.
 *
 *   w *= 1 - lr weight_decay                      adamw only; adam adds it to g
 *   m = beta1 m + (1 - beta1) g
 *   v = beta2 v + (1 - beta2) g^2
 *   w -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
 *
 * With `freeze` = N, from step N + 1 on v stays, and g is taken for the mean m itself, which codecs
 * then make (onebit:beta): 1-bit Adam, Tang et al. 2021.
 *
 *   w -= lr g / (sqrt(v) / sqrt(1 - beta2^N) + eps)
 *
 * 28 bytes of traffic a parameter. Kingma and Ba, "Adam: A Method for Stochastic Optimization",
 * ICLR 2015; Loshchilov and Hutter, "Decoupled Weight Decay Regularization", ICLR 2019.
 */
#include "rule/kernel.h"

typedef struct adam_config {
    fast_rule_common common; /* options of all rules */
    double beta1;            /* decay of the mean of gradients */
    double beta2;            /* decay of the mean of squares */
    double eps;              /* added to the root */
    int64_t freeze;          /* N, the last step that changes the mean of squares; 0: all do */
} adam_config;

/* Below 1, because 1 - beta^t divides. */
#define ADAM_OPTIONS                                                                              \
    FAST_OPT_REAL(adam_config, beta1, "0.9", 0, 0.9999999, "decay of the mean of gradients"),     \
        FAST_OPT_REAL(adam_config, beta2, "0.999", 0, 0.9999999, "decay of the mean of squares"), \
        FAST_OPT_REAL(adam_config, eps, "1e-8", 0, 1, "added to the root of the mean"),           \
        FAST_OPT_INT(adam_config, freeze, "0", 0, 1e12,                                           \
                     "steps after which the mean of squares stays and g is momentum, as a codec " \
                     "makes it (1-bit Adam); 0: never")

static const fast_option adam_options[] = {
    ADAM_OPTIONS,
    FAST_RULE_COMMON("0", FAST_RULE_DECAY_L2),
    FAST_OPT_END,
};

static const fast_option adamw_options[] = {
    ADAM_OPTIONS,
    FAST_RULE_COMMON(
        "0.01", "each step subtracts this times lr times the weight, decoupled from the gradient"),
    FAST_OPT_END,
};

/* The coefficients of one step. */
typedef struct adam_step {
    float rate;   /* lr / (1 - beta1^t) */
    float beta1;  /* decay of the mean of gradients */
    float take1;  /* 1 - beta1 */
    float beta2;  /* decay of the mean of squares */
    float take2;  /* 1 - beta2 */
    float root;   /* 1 / sqrt(1 - beta2^t) */
    float eps;    /* added to the root */
    float shrink; /* adamw: 1 - lr weight_decay; 1 in adam */
} adam_step;

FAST_INLINE void adam_loop(int64_t n, float *restrict w, float *restrict m, float *restrict v,
                           const float *restrict g, const adam_step *step,
                           const fast_rule_terms *terms, bool plain)
{
    const adam_step s = *step;

    for (int64_t i = 0; i < n; i++) {
        const float grad = fast__rule_grad(terms, plain, g[i], w[i]);
        const float mean = s.beta1 * m[i] + s.take1 * grad;
        const float square = s.beta2 * v[i] + s.take2 * (grad * grad);

        m[i] = mean;
        v[i] = square;
        w[i] = s.shrink * w[i] - s.rate * (mean / (sqrtf(square) * s.root + s.eps));
    }
}

FAST_CLONES static void adam_update(int64_t n, float *w, float *m, float *v, const float *g,
                                    adam_step step, fast_rule_terms terms)
{
    if (terms.plain)
        adam_loop(n, w, m, v, g, &step, &terms, true);
    else
        adam_loop(n, w, m, v, g, &step, &terms, false);
}

/* A step with frozen squares: rate is lr, root that of step N. */
FAST_CLONES static void frozen_update(int64_t n, float *restrict w, const float *restrict v,
                                      const float *restrict g, adam_step s, fast_rule_terms terms)
{
    for (int64_t i = 0; i < n; i++) {
        const float mean = fast__rule_grad(&terms, false, g[i], w[i]);

        w[i] = s.shrink * w[i] - s.rate * (mean / (sqrtf(v[i]) * s.root + s.eps));
    }
}

static void moments_apply(const adam_config *c, const fast_rule_slice *slice, bool decoupled)
{
    const fast_rule_terms terms = fast__rule_terms(&c->common, slice, decoupled ? 0 : slice->decay);
    const bool frozen = c->freeze > 0 && slice->step > c->freeze;
    const double t = (double)(frozen ? c->freeze : slice->step);
    const adam_step step = {
        .rate = (float)(frozen ? slice->lr : slice->lr / (1.0 - pow(c->beta1, t))),
        .beta1 = (float)c->beta1,
        .take1 = (float)(1.0 - c->beta1),
        .beta2 = (float)c->beta2,
        .take2 = (float)(1.0 - c->beta2),
        .root = (float)(1.0 / sqrt(1.0 - pow(c->beta2, t))),
        .eps = (float)c->eps,
        .shrink = decoupled ? (float)(1.0 - slice->lr * (double)slice->decay) : 1.0f,
    };

    FAST_ASSERT(slice->step >= 1);
    if (frozen)
        frozen_update(slice->count, slice->w, slice->state[1], slice->g, step, terms);
    else
        adam_update(slice->count, slice->w, slice->state[0], slice->state[1], slice->g, step,
                    terms);
}

static void adam_apply(const void *config, const fast_rule_slice *slice)
{
    moments_apply(config, slice, false);
}

static void adamw_apply(const void *config, const fast_rule_slice *slice)
{
    moments_apply(config, slice, true);
}

const fast_rule fast__rule_adam = {
    .name = "adam",
    .summary = "momentum over a running mean of squares",
    .options = adam_options,
    .config_size = sizeof(adam_config),
    .slots = 2,
    .lr = 0.001,
    .momentum_offset = offsetof(adam_config, beta1),
    .apply = adam_apply,
};

const fast_rule fast__rule_adamw = {
    .name = "adamw",
    .summary = "adam with decoupled weight decay",
    .options = adamw_options,
    .config_size = sizeof(adam_config),
    .slots = 2,
    .lr = 0.001,
    .momentum_offset = offsetof(adam_config, beta1),
    .apply = adamw_apply,
};
