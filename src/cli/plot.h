/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/lab.h"

#include <stdio.h>

/* Accuracy over time in characters: the median run of each line, as the letter that it has in the
 * table. Nothing where there is nothing to draw. */
void cli_plot(const fast_compared *lines, int64_t count, double target, FILE *out);
