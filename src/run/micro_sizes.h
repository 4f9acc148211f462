/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/micro_batch.h"
#include "run/run.h"

/* Return whether the option micro_batch asks for micro-batches inside a pass. */
bool fast__run_has_micro(const fast_run *run);

/* Choose the micro-batches of a pass as the option micro_batch asks for: of N samples, or, with
 * auto, the fastest by measurement whose workspaces take at most `room` bytes (0: any number; where
 * none fit, the smallest). Times are read from and written to the plan file. One part of the whole
 * batch: it is not cut. Writes the note of the run. FAST_EINVAL for a size that is not one. */
fast_err fast__run_micro_parts(fast_run *run, const fast_engine_options *options, int64_t room,
                               fast_micro_plan *out);
