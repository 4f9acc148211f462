/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "transport/sim/fault.h"

/* Whether the schedule still shows the failure that is looked for. Deterministic. An error ends the
 * shrinking and is passed on. */
typedef fast_err fast_shrink_fn(void *ctx, const fast_faults *faults, bool *fails_out);

/* Reduce a schedule that fails to a smaller one that still does: fewer faults, then rounder times
 * and numbers. `fails` is called at most tries_max times; the best so far is the result. The caller
 * frees *out. FAST_EINVAL if the schedule does not fail to begin with. */
fast_err fast__faults_shrink(const fast_faults *faults, fast_shrink_fn *fails, void *ctx,
                             int64_t tries_max, fast_faults **out, int64_t *tries_out);
