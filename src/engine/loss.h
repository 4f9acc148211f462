/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/engine.h"

/* Check a pass before anything is written: its count is within the program's batch, labels are
 * below the number of outputs, tokens are below the vocabulary, targets fit the loss, and a
 * gradient is asked for only in training mode and of a program compiled for it. FAST_EINVAL. */
fast_err fast__pass_check(const fast_graph *graph, int64_t batch, bool train,
                          const fast_pass *pass);

/* Compute the loss of outputs [count][positions][outputs], row major: sets the pass's loss, correct
 * and positions, and writes the gradient of the loss to `dy` (of that shape) unless it is NULL. A
 * batch without labels and targets has the loss NAN and no positions. */
void fast__loss_run(const fast_graph *graph, fast_pass *pass, const float *y, float *dy);

/* Return the class weights of a pass; NULL if all are 1. An evaluation has none, so that its loss
 * can be compared with that of other weights. */
const float *fast__loss_weights(const fast_graph *graph, const fast_pass *pass);
/* Return the divisor of the sum of the rows' cross-entropies: the sum of their labels' weights; the
 * number of rows without weights or with soft targets. */
double fast__loss_divisor(const fast_graph *graph, const fast_pass *pass);

/* Return the index of the largest of n values, the first among equals. */
int64_t fast__argmax(int64_t n, const float *y);
