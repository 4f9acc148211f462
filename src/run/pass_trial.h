/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/engine.h"

/*
 * A pass that is measured: the forward and the backward pass of a compiled network, or of a stage
 * of one, on samples without meaning. The caller compiles the program; closing frees it.
 */
typedef struct fast_pass_trial {
    fast_program *program;     /* compiled for a size; set by the caller before open */
    fast_workspace *workspace; /* of its passes */
    float *memory;             /* params, gradient, sum, state, x, targets or those of a stage */
    int32_t *labels;           /* [size][positions] */
    fast_batch batch;          /* samples without meaning */
    fast_pass pass;            /* forward and backward; a stage's is run in phases */
} fast_pass_trial;

/* Hash what the time of a pass depends on: operators, shapes and how they are connected. Names,
 * values and the loss do not matter; two networks with one hash have one time. */
uint64_t fast__pass_trial_hash(const fast_graph *graph);

/* Allocate and fill the vectors of a pass. Weights are those of the start of a run: denormal or
 * exploding values would not take their usual time. FAST_ENOMEM: close() is still to be called. */
fast_err fast__pass_trial_open(const fast_graph *graph, fast_pass_trial *trial);
void fast__pass_trial_close(fast_pass_trial *trial); /* all 0 is allowed */

/* Set *seconds_out to the time of a pass, and of adding its gradient to a sum: the shortest of a
 * few, in time of the processor. Fails as the engine does. */
fast_err fast__pass_trial_time(fast_pass_trial *trial, double *seconds_out);
