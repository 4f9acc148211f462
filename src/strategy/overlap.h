/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "strategy/factoring.h"

/*
 * Synchronous steps whose sums start while the gradient is still computed: overlap.c. Allreduce
 * uses them over a network, or where layers travel as factors.
 */
typedef struct fast_overlap_options {
    bool early;     /* sums start during the backward pass, where the codec allows it */
    int64_t bucket; /* floats of a sum at least */
    int factors;    /* FAST_FACTORS_* */
    bool native;    /* the collective is the transport's own, which cannot be started */
} fast_overlap_options;

/* True if a step with these options is the plain one: gradient, sum, update. */
bool fast__overlap_is_plain(const fast_trainer *t, const fast_overlap_options *options);
/* Train to the end. FAST_EINVAL if factors are wanted and the run has a codec. */
fast_err fast__overlap_train(fast_trainer *t, const fast_overlap_options *options);

/* Average the state that is not trained over all workers (allreduce.c). */
fast_err fast__allreduce_state(fast_trainer *t);
