/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "run/run.h"

/* Runs whose gradients are computed by a loop of the caller's: see fast_run_next(). */

/* Open a learner without functions, whose requests go to the loop of `run`. FAST_EINVAL names the
 * field that is wrong; FAST_ENOMEM. */
fast_err fast__caller_loop_open(fast_run *run, const fast_learner_kind *kind);
/* End the run if its loop has not come to the end, and free the loop of a run that has one. */
void fast__caller_loop_close(fast_run *run);
/* Return whether a loop of the caller's computes the gradients of a run. */
bool fast__caller_loop_is(const fast_run *run);
