/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/option.h"
#include "fast/strategy.h"

/*
 * The strategies of this build: one file a family, options for its members. At the top of a file:
 * the algorithm in formulas, its cost in messages and bytes per worker and step, the paper. A
 * strategy knows no transport, no engine and no codec by name.
 */
extern const fast_strategy *const fast__strategies[]; /* the last is NULL */

/* From "name:key=value,...": the strategy, by name or the caller's `own` (may be NULL), and its
 * configuration, which the caller frees with fast__free(). FAST_EINVAL for an unknown name or
 * option. */
fast_err fast__strategy_open(const char *spec, const fast_strategy *own, const fast_strategy **out,
                             void **config_out);
