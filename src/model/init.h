/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/graph.h"

/*
 * How a segment's initial values are drawn: the fields `init` and `init_a` (here: a) of a segment.
 * Layers choose them by their option `init` when a graph is built; fast__graph_init() draws.
 */
typedef enum fast_init {
    FAST_INIT_ZEROS,      /* all 0 */
    FAST_INIT_ONES,       /* all 1 */
    FAST_INIT_UNIFORM,    /* [-a, a): Xavier a = sqrt(6 / (fan_in + fan_out)), PyTorch's layers
                             a = 1 / sqrt(fan_in) */
    FAST_INIT_NORMAL,     /* standard deviation a: He a = sqrt(2 / fan_in) */
    FAST_INIT_ORTHOGONAL, /* a times a matrix with orthonormal rows, or columns if it is tall */
    FAST_INIT_GATES,      /* orthogonal, for each square block of a recurrent weight */
    FAST_INIT_FORGET,     /* zeros, and a in the second quarter: an LSTM's forget gate */
    FAST_INIT_GAIN        /* weight norm: the norms of the weight's rows, so that training begins
                             with the weight itself */
} fast_init;

/* The values of a layer's option `init`, in the order of its choices. */
typedef enum fast_init_rule {
    FAST_INIT_RULE_TORCH,      /* as PyTorch's layer of this kind */
    FAST_INIT_RULE_XAVIER,     /* Glorot and Bengio 2010 */
    FAST_INIT_RULE_HE,         /* He et al. 2015 */
    FAST_INIT_RULE_ORTHOGONAL, /* Saxe et al. 2013 */
    FAST_INIT_RULE_NORMAL,     /* normal with the option `std` */
    FAST_INIT_RULE_ZEROS       /* all 0 */
} fast_init_rule;
#define FAST_INIT_CHOICES "torch|xavier|he|orthogonal|normal|zeros"

/* Set how the segment of a weight, or of the bias beside it, is drawn under a rule; only
 * FAST_INIT_RULE_NORMAL uses `std`. */
void fast__init_weight(fast_init_rule rule, double std, int64_t fan_in, int64_t fan_out,
                       fast_segment *segment);
void fast__init_bias(fast_init_rule rule, int64_t fan_in, fast_segment *segment);
