/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/* Measured times on a grid of three sizes, and times between them: time_table.c. */
enum { FAST_TABLE_SIZES = 4 };
typedef struct fast_time_table {
    double sizes[3][FAST_TABLE_SIZES]; /* ascending, of each dimension */
    double seconds[FAST_TABLE_SIZES][FAST_TABLE_SIZES][FAST_TABLE_SIZES]; /* measured, positive */
} fast_time_table;

/* Return the seconds at three sizes: linear in the logarithms between the entries of the table, as
 * of the first entry below it, and proportional to the size above it. */
double fast__table_seconds(const fast_time_table *table, const double at[3]);
