/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "strategy/strategy.h"

/* Synchronous steps whose sums are made in the order of the next forward pass: priority.c. */

/* Train to the end, in slices of at most `most` floats. Only for rules that update by range, with
 * at least two workers and without codecs. */
fast_err fast__priority_train(fast_trainer *t, const char *algorithm, int64_t most);
