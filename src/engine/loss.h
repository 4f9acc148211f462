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

/* Return whether training a pass minimises the loss of its outputs. */
bool fast__loss_trains(const fast_graph *graph, const fast_pass *pass);

/* Return whether a head has a loss in a pass: in training, if the batch has answers or the loss
 * needs none. */
bool fast__head_counts(const fast_node *head, const fast_pass *pass);

/* The loss of a head, on its outputs y in rows [count][positions][classes or values]: return it
 * times the head's weight, and write its gradient to `dy` unless that is NULL. The batch has labels
 * or targets, or the loss needs none. */
double fast__head_loss(const fast_graph *graph, int node, const fast_pass *pass, const float *y,
                       float *dy);

/* Return the rows of a head's outputs for one sample, and the columns of a row. */
int64_t fast__head_rows(const fast_node *head);
int64_t fast__head_columns(const fast_node *head);
/* Return the first head of a graph that needs answers; NULL: no head does. */
const fast_node *fast__head_answered(const fast_graph *graph);

/* Return the class weights of a pass; NULL if all are 1. An evaluation has none, so that its loss
 * can be compared with that of other weights. */
const float *fast__loss_weights(const fast_graph *graph, const fast_pass *pass);
/* Return the divisor of the sum of the rows' cross-entropies: the sum of their labels' weights; the
 * number of rows without weights or with soft targets. */
double fast__loss_divisor(const fast_graph *graph, const fast_pass *pass);

/* Return the index of the largest of n values, the first among equals. */
int64_t fast__argmax(int64_t n, const float *y);
