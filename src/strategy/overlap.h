/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "strategy/factoring.h"

/*
 * Synchronous steps whose sums start while the gradient is still computed: overlap.c. Allreduce
 * takes them where a network has to be waited for, or where layers travel as factors.
 */
typedef struct fast_overlap_options {
    bool early;     /* sums start during the backward pass, where the codec allows it */
    int64_t bucket; /* floats of a sum at least */
    int factors;    /* FAST_FACTORS_* */
    bool native;    /* the collective is the transport's own, which cannot be started */
} fast_overlap_options;

/* Does a step with these options differ from gradient, sum, update? */
bool fast__overlap_is_plain(const fast_trainer *t, const fast_overlap_options *options);
/* Train to the end. FAST_EINVAL where factors were asked for and cannot be sent. */
fast_err fast__overlap_train(fast_trainer *t, const fast_overlap_options *options);

/* Average the state that is not trained over all workers. allreduce.c */
fast_err fast__allreduce_state(fast_trainer *t);
