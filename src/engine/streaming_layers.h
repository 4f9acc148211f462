/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/round_op.h"

/* The layers of a streaming rollout over shards (fast__streaming_layers of round_op.h): an operator
 * with weights, and perhaps an activation behind it. */

/* Return whether a node is such a layer's: dense without weight norm, or rnn. */
bool fast__streaming_weights(const fast_node *node);
/* Return whether an operator is its activation. */
bool fast__streaming_activation(fast_op op);
/* Return the operations of a sample's frame in the forward pass of such a node. */
double fast__streaming_operations(const fast_graph *graph, int node);
