/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/strategy.h"
#include "learner/learner.h"

/* Describe operator i of the worker's network, in the order of the forward pass; false past the
 * last, or if the learner has no graph. */
bool fast__trainer_node(const fast_trainer *t, int64_t i, fast_learner_node *out);
/* Call `mark` with each range of w that the worker's gradient of batch `step` reads: all of it if
 * the learner does not say. Fails as loading the batch does. */
fast_err fast__trainer_rows(const fast_trainer *t, int64_t step, fast_learner_report_fn *mark,
                            void *ctx);
