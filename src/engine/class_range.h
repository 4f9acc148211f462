/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/engine.h"

/*
 * Cross-entropy of classes that are split over T shards: each has the logits of a range of them,
 * and of each row the shards exchange four figures in the place of the logits (Shoeybi et al.
 * 2019). With z_t the logits of shard t and l the label,
 *
 *     s_t = log sum exp z_t      z_l if it is in the range, else 0      max z_t      sum z_t
 *     s = log sum_t exp s_t      loss = s - z_l      dz_t = exp(z_t - s) - [l]
 */
enum { FAST_FIGURES = 4 }; /* floats of a row and shard, in the order above */

/* Compute the figures of rows of K logits, of the classes from `first` on; `own` receives each
 * label's place in the range, or -1. Without labels all are -1. */
void fast__class_figures(int64_t rows, int64_t K, int64_t first, const float *z,
                         const int32_t *labels, float *own, float *figures);
/* Add the gradient of the logits, from that of the figures. */
void fast__class_figures_back(int64_t rows, int64_t K, const float *z, const float *own,
                              const float *figures, const float *grad, float *dz);

/* Return the mean loss of the figures of all shards, y [rows][T][FAST_FIGURES], and set the number
 * of rows whose label has the largest logit; dy receives the gradient unless it is NULL, and may be
 * y. The last node of the graph has the number of classes in columns[1]. */
double fast__figures_loss(const fast_graph *graph, int64_t rows, const float *y, int64_t *correct,
                          float *dy);
