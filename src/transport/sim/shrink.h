/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "transport/sim/fault.h"

/* Test whether a schedule still causes the failure. Must be deterministic. An error ends the search
 * and is returned. */
typedef fast_err fast_shrink_fn(void *ctx, const fast_faults *faults, bool *fails_out);

/* Reduce a failing schedule to a smaller one that still fails: fewer faults, then rounder times and
 * numbers. Calls `fails` at most tries_max times and returns the best result so far. The caller
 * frees *out. FAST_EINVAL if the given schedule does not fail. */
fast_err fast__faults_shrink(const fast_faults *faults, fast_shrink_fn *fails, void *ctx,
                             int64_t tries_max, fast_faults **out, int64_t *tries_out);
