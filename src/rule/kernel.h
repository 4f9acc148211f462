/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rule/rule.h"
#include "tensor/clones.h"

#include <math.h>

/*
 * Shared by all rules: common options, the preparation of the gradient, and how loops are
 * compiled. A rule is one fused pass over w, g and its state. The loops are plain C that
 * the compiler vectorises, once per instruction set; without contraction every variant, and every
 * cut of a vector, gives the same bits.
 */
#define FAST_INLINE static inline __attribute__((always_inline))

/* The head of every rule's configuration. */
typedef struct fast_rule_common {
    double weight_decay; /* of matrices and filters */
    bool decay_all;      /* biases and norms too */
    double clip_norm;    /* of the whole gradient; 0: off */
    double clip_value;   /* of each element; 0: off */
} fast_rule_common;

/* The rows of a rule's option table for the common options. */
#define FAST_RULE_COMMON(decay, decay_help)                                                        \
    FAST_OPT_REAL(fast_rule_common, weight_decay, decay, 0, 1e3, decay_help),                      \
        FAST_OPT_BOOL(fast_rule_common, decay_all, "no", "weight decay for biases and norms too"), \
        FAST_OPT_REAL(fast_rule_common, clip_norm, "0", 0, 1e30,                                   \
                      "scale the gradient down to this norm; 0 does not"),                         \
        FAST_OPT_REAL(fast_rule_common, clip_value, "0", 0, 1e30,                                  \
                      "clip each element of the gradient to this size, after clip_norm; 0 does "   \
                      "not")

#define FAST_RULE_DECAY_L2 "added to the gradient, times the weight"

/* How a slice's gradient becomes the one that a rule sees: clip(scale * g) + decay * w. */
typedef struct fast_rule_terms {
    float scale; /* multiplies g: clipping by norm */
    float clip;  /* INFINITY: off */
    float decay; /* 0: off */
    bool plain;  /* no change: the rule sees g itself */
} fast_rule_terms;

/* `decay` is 0 where the rule decouples it from the gradient. */
FAST_INLINE fast_rule_terms fast__rule_terms(const fast_rule_common *common,
                                             const fast_rule_slice *slice, float decay)
{
    fast_rule_terms terms;

    terms.scale = slice->g_scale;
    terms.clip = common->clip_value > 0 ? (float)common->clip_value : INFINITY;
    terms.decay = decay;
    terms.plain = terms.scale == 1.0f && isinf(terms.clip) && decay == 0.0f;
    return terms;
}

/* Not a number stays so: both comparisons are false. */
FAST_INLINE float fast__rule_grad(const fast_rule_terms *terms, bool plain, float g, float w)
{
    if (plain)
        return g;
    g *= terms->scale;
    g = g > terms->clip ? terms->clip : g;
    g = g < -terms->clip ? -terms->clip : g;
    return g + terms->decay * w;
}
