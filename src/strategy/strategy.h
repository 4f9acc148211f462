/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/option.h"
#include "fast/strategy.h"

/*
 * The strategies of this build: one file for each family, with options for its members. The top of
 * a file has the algorithm in formulas, its cost in messages and bytes per worker and step, and the
 * paper. A strategy names no transport, engine or codec.
 *
 * Vectors may be device memory, which only kernels read (tensor/device.h): a strategy computes by
 * the functions of tensor/vector.h and by fast_kernels, copies by fast__vector_copy(), and
 * allocates scratch vectors on the device of w. Contributions and messages are host memory. The
 * tests run every strategy with vectors that are inaccessible outside kernels.
 */
extern const fast_strategy *const fast__strategies[]; /* the last is NULL */

/* Find the strategy of "name:key=value,..." in the registry, or `own` if that has the name (it may
 * be NULL), and parse its configuration, which the caller frees with fast__free(). FAST_EINVAL for
 * an unknown name or option. */
fast_err fast__strategy_open(const char *spec, const fast_strategy *own, const fast_strategy **out,
                             void **config_out);
