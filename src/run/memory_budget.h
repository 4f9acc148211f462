/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "run/run.h"

/* Compile the run's network as the options recompute and memory ask for, and predict the peak of
 * memory. FAST_EINVAL if the budget is too small, with the smallest possible. */
fast_err fast__run_compile(fast_run *run);
