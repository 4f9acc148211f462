/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LARS: momentum whose rate follows the ratio of norms of each layer, for very large batches.
 *
 *   r = trust |w| / (|g| + weight_decay |w| + eps)     per segment; 1 where |w| is 0
 *   v = mu v + lr r (g + weight_decay w)
 *   w -= v
 *
 * with g after clipping. Biases and norms, which do not decay, are not scaled either (r = 1) unless
 * decay_all asks for it. Two passes over w and g, 28 bytes of traffic a parameter.
 * You, Gitman, Ginsburg, "Large Batch Training of Convolutional Networks", 2017, algorithm 1.
 */
#include "rule/kernel.h"

#include "tensor/vector.h"

typedef struct lars_config {
    fast_rule_common common; /* options of all rules */
    double momentum;         /* mu */
    double trust;            /* length of a step over the norm of its layer */
    double eps;              /* added to the gradient's norm */
} lars_config;

static const fast_option lars_options[] = {
    FAST_OPT_REAL(lars_config, momentum, "0.9", 0, 1,
                  "fraction of the previous velocity that is added"),
    FAST_OPT_REAL(lars_config, trust, "0.001", 0, 1e3,
                  "trust ratio: length of a layer's step as a fraction of its norm"),
    FAST_OPT_REAL(lars_config, eps, "1e-8", 0, 1, "added to the gradient's norm"),
    FAST_RULE_COMMON("0", FAST_RULE_DECAY_L2),
    FAST_OPT_END,
};

FAST_CLONES static void lars_update(int64_t n, float *restrict w, float *restrict v,
                                    const float *restrict g, float mu, float rate,
                                    fast_rule_terms terms)
{
    for (int64_t i = 0; i < n; i++) {
        const float velocity = mu * v[i] + rate * fast__rule_grad(&terms, false, g[i], w[i]);

        v[i] = velocity;
        w[i] -= velocity;
    }
}

/* The clipped gradient, in a buffer whose norm is taken. */
FAST_CLONES static void lars_prepare(int64_t n, const float *restrict g, float *restrict out,
                                     fast_rule_terms terms)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = fast__rule_grad(&terms, false, g[i], 0.0f);
}

/* The square of the norm of the clipped gradient; without clipping before g_scale. */
static double lars_grad_square(const fast_rule_slice *slice, const fast_rule_terms *terms)
{
    enum { BLOCK = 1024 };
    float buf[BLOCK];
    double sum = 0;

    if (isinf(terms->clip))
        return fast__vector_norm2(slice->count, slice->g);
    for (int64_t i = 0; i < slice->count; i += BLOCK) {
        const int64_t n = slice->count - i < BLOCK ? slice->count - i : BLOCK;

        lars_prepare(n, slice->g + i, buf, *terms);
        sum += fast__vector_norm2(n, buf);
    }
    return sum;
}

/* Squares of the norms of the weights and of the clipped gradient. */
static void lars_measure(const void *config, const fast_rule_slice *slice,
                         double squares[FAST_RULE_SQUARES])
{
    const lars_config *c = config;
    const fast_rule_terms terms = fast__rule_terms(&c->common, slice, slice->decay);

    if (!slice->adapt)
        return;
    squares[0] += fast__vector_norm2(slice->count, slice->w);
    squares[1] += lars_grad_square(slice, &terms);
}

static void lars_apply(const void *config, const fast_rule_slice *slice)
{
    const lars_config *c = config;
    const fast_rule_terms terms = fast__rule_terms(&c->common, slice, slice->decay);
    double ratio = 1, squares[FAST_RULE_SQUARES] = { 0 };

    if (slice->adapt) {
        if (!slice->squares)
            lars_measure(config, slice, squares);
        const double *s = slice->squares ? slice->squares : squares;
        const double w_norm = sqrt(s[0]);
        const double g_norm = sqrt(s[1]) * (isinf(terms.clip) ? fabs((double)terms.scale) : 1);
        const double below = g_norm + (double)slice->decay * w_norm + c->eps;

        if (w_norm > 0 && below > 0)
            ratio = c->trust * w_norm / below;
    }
    lars_update(slice->count, slice->w, slice->state[0], slice->g, (float)c->momentum,
                (float)(slice->lr * ratio), terms);
}

const fast_rule fast__rule_lars = {
    .name = "lars",
    .summary = "momentum with a learning rate per layer, for very large batches",
    .options = lars_options,
    .config_size = sizeof(lars_config),
    .slots = 1,
    .lr = 5,
    .by_segment = true,
    .momentum_offset = offsetof(lars_config, momentum),
    .measure = lars_measure,
    .apply = lars_apply,
};
