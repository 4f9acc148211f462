/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/engine.h"
#include "learner/learner.h"

/* Let a backward pass be one half of itself: that of the values computes no mean and reports
 * nothing, that of the weights reads and writes no gradients of values. */
void fast__half_set(fast_stage_half half, fast_pass *pass);
/* Return the operations of a program's backward pass, or of a half, for one sample. */
double fast__half_flops(const fast_program *program, fast_stage_half half);
