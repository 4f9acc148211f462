/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * The plan file: choices that were measured once on a machine and are read by every later run, so
 * that runs repeat. Text, a line each: a key (what was measured: shape, instruction set, versions
 * of the libraries) and the choice. A damaged line is ignored and measured again.
 */
typedef struct fast_conv_plan fast_conv_plan;

/* Read the plan; a missing file is an empty plan. path NULL: FAST's cache folder (where there is
 * none, the plan lives in memory only); "": memory only. */
fast_err fast__plan_open(const char *path, fast_conv_plan **out);

/* Write new choices back, merged with what others wrote meanwhile (atomically), and free. A plan
 * that cannot be written is logged, not an error. */
void fast__plan_close(fast_conv_plan *plan);

/* The choice for a key, or NULL. Lent until the next put. Counts in the hash. */
const char *fast__plan_get(fast_conv_plan *plan, const char *key);

/* Put a choice, or another one in place of one that could not be used. */
fast_err fast__plan_put(fast_conv_plan *plan, const char *key, const char *choice);

/* Hash of the (key, choice) pairs that were asked for or put, in that order: what a run depended
 * on. 0 if none. */
uint64_t fast__plan_hash(const fast_conv_plan *plan);
