/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lion: the sign of a mean of gradients; all elements move by the same amount.
 *
 *   c = beta1 m + (1 - beta1) g
 *   w = (1 - lr weight_decay) w - lr sign(c)
 *   m = beta2 m + (1 - beta2) g
 *
 * with g after clipping, and sign(0) = 0. 20 bytes of traffic a parameter. Learning rates are 3 to
 * 10 times smaller than Adam's, weight decay as much larger.
 * Chen et al., "Symbolic Discovery of Optimization Algorithms", 2023, algorithm 2.
 */
#include "rule/kernel.h"

typedef struct lion_config {
    fast_rule_common common; /* options of all rules */
    double beta1;            /* weight of the mean in the step */
    double beta2;            /* decay of the mean of gradients */
} lion_config;

static const fast_option lion_options[] = {
    FAST_OPT_REAL(lion_config, beta1, "0.9", 0, 1, "weight of the mean of gradients in a step"),
    FAST_OPT_REAL(lion_config, beta2, "0.99", 0, 1, "decay of the mean of gradients"),
    FAST_RULE_COMMON(
        "0.01", "each step subtracts this times lr times the weight, decoupled from the gradient"),
    FAST_OPT_END,
};

/* Not a number has no sign, and stays not a number: both comparisons are false. */
FAST_CLONES static void lion_update(int64_t n, float *restrict w, float *restrict m,
                                    const float *restrict g, const float *restrict betas, float lr,
                                    float shrink, fast_rule_terms terms)
{
    const float beta1 = betas[0], take1 = betas[1], beta2 = betas[2], take2 = betas[3];

    for (int64_t i = 0; i < n; i++) {
        const float grad = fast__rule_grad(&terms, false, g[i], 0.0f);
        const float c = beta1 * m[i] + take1 * grad;
        const float sign = c > 0 ? 1.0f : c < 0 ? -1.0f : c;

        m[i] = beta2 * m[i] + take2 * grad;
        w[i] = shrink * w[i] - lr * sign;
    }
}

static void lion_apply(const void *config, const fast_rule_slice *slice)
{
    const lion_config *c = config;
    const float betas[4] = { (float)c->beta1, (float)(1 - c->beta1), (float)c->beta2,
                             (float)(1 - c->beta2) };

    lion_update(slice->count, slice->w, slice->state[0], slice->g, betas, (float)slice->lr,
                (float)(1 - slice->lr * (double)slice->decay),
                fast__rule_terms(&c->common, slice, 0));
}

const fast_rule fast__rule_lion = {
    .name = "lion",
    .summary = "the sign of a mean of gradients",
    .options = lion_options,
    .config_size = sizeof(lion_config),
    .slots = 1,
    .lr = 0.0003,
    .momentum_offset = offsetof(lion_config, beta2),
    .apply = lion_apply,
};
