/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/lab.h"

#include <stdio.h>

/* A curve of `count` points whose x grow by equal steps of their logarithm, as letters 'o'; finite
 * values only. `mark` is an x under which the axis has a '^'; NAN: none. `name` is of y. */
void cli_plot_log(const double *x, const double *y, int64_t count, double mark, const char *name,
                  FILE *out);

/* Accuracy over time in characters: the median run of each line, as the letter that it has in the
 * table. Nothing where there is nothing to draw. */
void cli_plot(const fast_compared *lines, int64_t count, double target, FILE *out);
