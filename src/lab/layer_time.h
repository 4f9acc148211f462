/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/engine.h"

/* The time of one layer of a network: layer_time.c. */

/* How layers are timed. */
typedef struct fast_layer_bench {
    const fast_engine *engine;   /* that computes them */
    fast_engine_options options; /* with the batch */
    const fast_graph *graph;     /* of the layers */
    int64_t limit_ns;            /* time of a measurement */
    int passes;                  /* that are made at least */
} fast_layer_bench;

/* Set *seconds_out to the time of a forward and backward pass through a node with weights. Fails as
 * the engine does; FAST_ENOMEM. */
fast_err fast__layer_time(const fast_layer_bench *bench, int node, double *seconds_out);
