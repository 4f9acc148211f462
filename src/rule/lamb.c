/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LAMB: Adam whose step follows the norm of each layer, for very large batches.
 *
 *   m = beta1 m + (1 - beta1) g ;  v = beta2 v + (1 - beta2) g^2
 *   u = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay w
 *   w -= lr |w| / |u| u                            per segment; ratio 1 where a norm is 0
 *
 * with g after clipping. Biases and norms, which do not decay, are not scaled either unless
 * decay_all asks for it. The first pass moves m and v and takes the norm of u block by block, the
 * second computes u again, so that no vector is needed for it: 40 bytes of traffic a parameter.
 * You et al., "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes", ICLR 2020,
 * algorithm 2 with the identity for phi.
 */
#include "rule/kernel.h"

#include "tensor/vector.h"

typedef struct lamb_config {
    fast_rule_common common; /* options of all rules */
    double beta1;            /* decay of the mean of gradients */
    double beta2;            /* decay of the mean of squares */
    double eps;              /* added to the root */
} lamb_config;

/* Betas stay below 1, because 1 - beta^t divides. */
static const fast_option lamb_options[] = {
    FAST_OPT_REAL(lamb_config, beta1, "0.9", 0, 0.9999999, "decay of the mean of gradients"),
    FAST_OPT_REAL(lamb_config, beta2, "0.999", 0, 0.9999999, "decay of the mean of squares"),
    FAST_OPT_REAL(lamb_config, eps, "1e-6", 0, 1, "added to the root of the mean"),
    FAST_RULE_COMMON("0.01", "added to the step, times the weight, before its norm is taken"),
    FAST_OPT_END,
};

/* The coefficients of one step. */
typedef struct lamb_step {
    float beta1; /* decay of the mean of gradients */
    float take1; /* 1 - beta1 */
    float beta2; /* decay of the mean of squares */
    float take2; /* 1 - beta2 */
    float mean;  /* 1 / (1 - beta1^t) */
    float root;  /* 1 / sqrt(1 - beta2^t) */
    float eps;   /* added to the root */
    float decay; /* weight decay of this slice */
} lamb_step;

FAST_CLONES static void lamb_moments(int64_t n, float *restrict m, float *restrict v,
                                     const float *restrict g, lamb_step s, fast_rule_terms terms)
{
    for (int64_t i = 0; i < n; i++) {
        const float grad = fast__rule_grad(&terms, false, g[i], 0.0f);

        m[i] = s.beta1 * m[i] + s.take1 * grad;
        v[i] = s.beta2 * v[i] + s.take2 * (grad * grad);
    }
}

FAST_CLONES static void lamb_step_of(int64_t n, const float *restrict w, const float *restrict m,
                                     const float *restrict v, lamb_step s, float *restrict u)
{
    for (int64_t i = 0; i < n; i++)
        u[i] = s.mean * m[i] / (sqrtf(v[i]) * s.root + s.eps) + s.decay * w[i];
}

enum { BLOCK = 1024 }; /* elements of a step that are in the cache at a time */

/* The coefficients of a slice's step. */
static lamb_step lamb_coefficients(const lamb_config *c, const fast_rule_slice *slice)
{
    const double t = (double)slice->step;

    FAST_ASSERT(slice->step >= 1);
    return (lamb_step){
        .beta1 = (float)c->beta1,
        .take1 = (float)(1.0 - c->beta1),
        .beta2 = (float)c->beta2,
        .take2 = (float)(1.0 - c->beta2),
        .mean = (float)(1.0 / (1.0 - pow(c->beta1, t))),
        .root = (float)(1.0 / sqrt(1.0 - pow(c->beta2, t))),
        .eps = (float)c->eps,
        .decay = slice->decay,
    };
}

/* Move m and v, and take the squares of the norms of the step and of the weights. */
static void lamb_measure(const void *config, const fast_rule_slice *slice,
                         double squares[FAST_RULE_SQUARES])
{
    const lamb_config *c = config;
    const fast_rule_terms terms = fast__rule_terms(&c->common, slice, 0.0f);
    const lamb_step step = lamb_coefficients(c, slice);
    float *w = slice->w, *m = slice->state[0], *v = slice->state[1];
    float u[BLOCK];

    for (int64_t i = 0; i < slice->count; i += BLOCK) {
        const int64_t n = slice->count - i < BLOCK ? slice->count - i : BLOCK;

        lamb_moments(n, m + i, v + i, slice->g + i, step, terms);
        if (!slice->adapt)
            continue;
        lamb_step_of(n, w + i, m + i, v + i, step, u);
        squares[0] += fast__vector_norm2(n, u);
        squares[1] += fast__vector_norm2(n, w + i);
    }
}

static void lamb_apply(const void *config, const fast_rule_slice *slice)
{
    const lamb_step step = lamb_coefficients(config, slice);
    float *w = slice->w, *m = slice->state[0], *v = slice->state[1];
    double ratio = 1, squares[FAST_RULE_SQUARES] = { 0 };
    float u[BLOCK];

    if (!slice->squares)
        lamb_measure(config, slice, squares);
    const double *s = slice->squares ? slice->squares : squares;
    if (slice->adapt && s[0] > 0 && s[1] > 0)
        ratio = sqrt(s[1]) / sqrt(s[0]);
    for (int64_t i = 0; i < slice->count; i += BLOCK) {
        const int64_t n = slice->count - i < BLOCK ? slice->count - i : BLOCK;

        lamb_step_of(n, w + i, m + i, v + i, step, u);
        fast__vector_axpy(n, (float)(-slice->lr * ratio), u, w + i);
    }
}

const fast_rule fast__rule_lamb = {
    .name = "lamb",
    .summary = "adam with a learning rate per layer, for very large batches",
    .options = lamb_options,
    .config_size = sizeof(lamb_config),
    .slots = 2,
    .lr = 0.01,
    .by_segment = true,
    .momentum_offset = offsetof(lamb_config, beta1),
    .measure = lamb_measure,
    .apply = lamb_apply,
};
