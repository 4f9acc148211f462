/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "strategy/strategy.h"

/* Sums in the order in which the next step needs them: priority.c. */

/* Train so to the end, in slices of at most so many floats. Only where updates go by range. */
fast_err fast__priority_train(fast_trainer *t, const char *algorithm, int64_t most);
