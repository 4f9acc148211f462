/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * The plan file: choices that were measured once on a machine and are read by every later run, so
 * that runs repeat. Text, one line each: a key (shape, instruction set, versions of the libraries)
 * and the choice. A damaged line is ignored and measured again.
 */
typedef struct fast_conv_plan fast_conv_plan;

/* Read the plan; a missing file is an empty plan. path NULL: FAST's cache folder (memory only if
 * no such folder can be made); "": memory only. */
fast_err fast__plan_open(const char *path, fast_conv_plan **out);

/* Write new choices, merged with those of concurrent runs (atomically), and free. Failure to write
 * is logged and is no error. */
void fast__plan_close(fast_conv_plan *plan);

/* Return the choice for a key, or NULL. Lent until the next put. It is added to the hash. */
const char *fast__plan_get(fast_conv_plan *plan, const char *key);

/* Store a choice, or replace one that could not be used. */
fast_err fast__plan_put(fast_conv_plan *plan, const char *key, const char *choice);

/* Return the hash of the (key, choice) pairs that were read or stored, in that order: the choices
 * that a run depended on. 0 if no pair was. */
uint64_t fast__plan_hash(const fast_conv_plan *plan);
