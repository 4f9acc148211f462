/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/lab.h"

#include <stdio.h>

/* Print the lines of a comparison as a table that fits the window: COLUMNS, else the terminal's
 * width; a file gets all columns. */
void cli_compare_table(const fast_compare *compare, FILE *out);

/* The width of the window; very large for a file, which takes a row of any length. */
int cli_window_width(FILE *out);
