/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/graph.h"

/*
 * Recomputation of activations (gradient checkpointing). The steps of a pass are cut into segments
 * that follow each other. Between the forward and the backward pass only the values that cross a
 * cut are stored; before the backward pass of a segment its forward pass is computed again, with
 * the same bits. Each step is computed at most twice, and with sqrt(n) segments of n equal steps
 * the memory is that of 2 sqrt(n) steps instead of n.
 *
 * Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016; Griewank and Walther, 2000.
 */

/* Cut `count` steps into `segments` of about equal size, each cut where few floats cross it:
 * size[s] are stored by step s, crossing[s] are read after step s and were written before its end.
 * Write the number of each step's segment, from 0. */
void fast__recompute_cut(int count, const int64_t *size, const int64_t *crossing, int segments,
                         int *segment_of);

/* Return what it takes to compute a node again, in operations of one sample: those of its products,
 * and 10 for each element that it writes. */
double fast__recompute_work(const fast_graph *graph, int node);

/* Return ceil(sqrt(count)), at least 1. */
int fast__recompute_segments(int count);
