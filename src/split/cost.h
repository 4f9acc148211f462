/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/graph.h"

/*
 * The cost of a range of nodes of a network: arithmetic, memory traffic, memory. The same model
 * balances stages and predicts their time.
 */
typedef struct fast_split_cost {
    double forward;   /* operations of one sample, forward pass */
    double backward;  /* operations of one sample, backward pass */
    double weights;   /* of those the ones of a divided pass's second half (engine.h) */
    double floats;    /* floats of one sample that both passes read or write between products */
    int64_t params;   /* elements of the parameters */
    int64_t boundary; /* floats of one sample that arrive and leave, forward; backward the same */
    int64_t activations; /* floats of one sample that are retained from forward to backward */
} fast_split_cost;

/* A processor, as far as it matters here. */
typedef struct fast_split_speed {
    double operations; /* arithmetic operations a second */
    double bytes;      /* bytes a second through memory */
} fast_split_speed;

/* One core of a current server: what stages are balanced by where nothing is measured. */
extern const fast_split_speed fast__split_speed_typical;

/* Return the operations of one sample of a node that the second half of a divided backward pass
 * makes: gradients of weights, where the operator computes them apart or no other gradient. */
double fast__split_weights(const fast_graph *graph, const bool *needs, int node);

/* Add the cost of one node, without boundaries. */
void fast__split_cost_add(const fast_graph *graph, const bool *needs, int node,
                          fast_split_cost *cost);
/* Add the tensors that cross the boundaries of nodes first + 1 .. last. */
void fast__split_cost_bound(const fast_graph *graph, int first, int last, fast_split_cost *cost);

/* Return the cost of nodes first + 1 .. last; `needs` is from fast__graph_needs(). */
fast_split_cost fast__split_cost(const fast_graph *graph, const bool *needs, int first, int last);

/* Return the seconds of one sample, forward and backward pass together. */
double fast__split_seconds(const fast_split_cost *cost, const fast_split_speed *speed);
