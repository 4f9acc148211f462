/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/graph.h"

/*
 * Cuts by hand: "conv2,dense1" are the first layers with parameters of all stages but the first, as
 * a person writes them who knows the model (Wu et al. 2016 place the layers of GNMT so). A name is
 * that of a layer, LAYER in LAYER.weight, or the start of several, up to a dot: block3.
 */

/* Return the number of names in a list. */
int64_t fast__split_cut_count(const char *cuts);

/* Find the cuts before the named layers: ends[i] receives the last node of stage i, of `count`. A
 * cut is as late as it can be: behind an activation. FAST_EINVAL names the layer that does not
 * exist, is out of order, or before which the model cannot be cut, and the next one that can. */
fast_err fast__split_named(const fast_graph *graph, const char *cuts, int64_t count, int *ends);

/* List the cuts that have names, in order: ends[0 .. count) receives the last nodes before them, of
 * at most as many as the network has nodes. Returns their number. */
int fast__split_cut_list(const fast_graph *graph, int *ends);

/* Write the name of the first layer with parameters behind node `end`, by which a cut behind that
 * node is found again; "" behind the last layer. */
void fast__split_cut_name(const fast_graph *graph, int end, char *text, size_t size);
