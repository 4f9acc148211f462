/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/engine.h"

/* Check a pass before anything is written: count within the program's batch, labels below the
 * number of outputs, tokens whole numbers below the vocabulary, a target that fits the loss, a way
 * back only in training mode and only if the program was compiled for it. FAST_EINVAL. */
fast_err fast__pass_check(const fast_graph *graph, int64_t batch, bool train,
                          const fast_pass *pass);

/* Judge the outputs [count][positions][outputs], row major: sets the pass's loss, correct and
 * positions, and writes the gradient of the loss to `dy` (the same shape) where it is not NULL.
 * A batch with neither labels nor targets has no loss: NAN, and no positions. */
void fast__loss_run(const fast_graph *graph, fast_pass *pass, const float *y, float *dy);

/* The largest of n values, the first among equals. */
int64_t fast__argmax(int64_t n, const float *y);
