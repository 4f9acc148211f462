/* SPDX-License-Identifier: Apache-2.0 */
/* Normal distribution. */
#include "lab/search.h"

#include <math.h>

double fast__normal_below(double x, double mean, double deviation)
{
    return 0.5 * erfc((mean - x) / (deviation * sqrt(2)));
}
