/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times from a table of measurements (Qi et al. 2017 and others give 5 to 19% of error for products
 * of matrices). With x = log size, the logarithm of the time is trilinear in x between eight
 * entries of the table, so that a law t = a m^p k^q n^r is exact. Small sizes are dominated by
 * costs that do not shrink: below the table its first entry counts. Above it the time is
 * proportional to the size.
 */
#include "lab/time_table.h"

#include <math.h>

/* Find the cell of a size and the place in it, from 0 to 1; return the factor of sizes above the
 * table. */
static double locate(const double *sizes, double at, int *cell, double *place)
{
    const int last = FAST_TABLE_SIZES - 1;
    const double inside = fmin(fmax(at, sizes[0]), sizes[last]);

    FAST_ASSERT(at > 0 && sizes[0] > 0);
    *cell = 0;
    while (*cell < last - 1 && inside > sizes[*cell + 1])
        ++*cell;
    *place = log(inside / sizes[*cell]) / log(sizes[*cell + 1] / sizes[*cell]);
    return fmax(1, at / sizes[last]);
}

double fast__table_seconds(const fast_time_table *table, const double at[3])
{
    int cell[3];
    double place[3], factor = 1, sum = 0;

    for (int d = 0; d < 3; d++)
        factor *= locate(table->sizes[d], at[d], &cell[d], &place[d]);
    for (int corner = 0; corner < 8; corner++) {
        double weight = 1;
        int i[3];

        for (int d = 0; d < 3; d++) {
            const int upper = corner >> d & 1;

            i[d] = cell[d] + upper;
            weight *= upper ? place[d] : 1 - place[d];
        }
        FAST_ASSERT(table->seconds[i[0]][i[1]][i[2]] > 0);
        sum += weight * log(table->seconds[i[0]][i[1]][i[2]]);
    }
    return factor * exp(sum);
}
