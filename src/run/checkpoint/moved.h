/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "run/run.h"
#include "tensor/safetensors.h"

/* Return the replicas of the model that the file's run had; 0: its options are damaged. */
int64_t fast__moved_replicas(const fast_tensors *tensors);

/* Have the file's run and this one schedules of stages with a flush, which take the same steps? */
bool fast__moved_flushed(const fast_run *run, const fast_tensors *tensors);

/* The step of this run at which as many samples were seen as in `step` steps of the file's: with
 * more workers it is an earlier one. */
int64_t fast__moved_step(const fast_run *run, const fast_tensors *tensors, int64_t step);

/* The file's sums of the epoch, as this run has them: each worker of a replica counts its batches,
 * and this run may divide the model over more or fewer of them. */
fast_run_sums fast__moved_sums(const fast_run *run, const fast_tensors *tensors,
                               fast_run_sums sums);
