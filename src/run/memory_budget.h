/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "run/run.h"

/* Compile the run's network as the options recompute and memory ask for, and predict the peak of
 * memory. FAST_EINVAL if the budget is too small, with the smallest possible. */
fast_err fast__run_compile(fast_run *run);
/* Predict the peak of this process's memory, when the team is open and nothing has trained. */
void fast__run_predict_memory(fast_run *run);

/* Read the bytes of "500MB": a number with kB, MB, GB, KiB, MiB, GiB or nothing behind it.
 * FAST_EINVAL names the option `memory`. */
fast_err fast__memory_size(const char *text, int64_t *out);
/* Return the bytes of the option `memory`, 0 without; FAST_EINVAL. */
fast_err fast__run_budget(const fast_run *run, int64_t *out);
/* Return the vectors of the update rule, and the rows of the sum of micro-batches besides g. */
int64_t fast__run_slots(const fast_run *run);
int64_t fast__run_sum_rows(int64_t micro_batches);
/* Return the bytes that threads, batches and the store take while a run trains. */
int64_t fast__run_later_bytes(const fast_run *run);
/* Return the bytes of a worker's messages of a sum of its part of a split model over its replicas:
 * over MPI the buffers of what it sends and of what it receives. With zero only a few units are
 * under way, and workers of one process read each other's vectors. */
double fast__run_sum_bytes(const fast_run *run, int64_t replicas, int64_t count);
/* Return whether a run is evaluated while it trains, or at its end. */
bool fast__run_evaluates(const fast_run *run);

/* split_memory.c: compile the parts of a split model that this process has, as recompute and memory
 * ask for, and predict its peak. FAST_EINVAL if the budget is too small, with the smallest. */
fast_err fast__split_compile(fast_run *run);
