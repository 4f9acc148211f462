/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "lab/compare.h"

/* Curves beyond this are left out of a chart; the tables have all lines. */
enum { FAST_CHART_LINES_MAX = 16 };

typedef enum fast_chart_unit {
    FAST_CHART_SECONDS,
    FAST_CHART_SAMPLES,
    FAST_CHART_BYTES
} fast_chart_unit;

/* The contents of a chart; its texts are constants, written without escapes. */
typedef struct fast_chart {
    const char *title;    /* read aloud by screen readers */
    const char *x_title;  /* below the axis */
    size_t x;             /* offset of a number of a point */
    size_t y;             /* offset of the double on the other axis */
    fast_chart_unit unit; /* of x */
    bool percent;         /* y is a part of 1 */
    bool may_log;         /* x may be logarithmic */
} fast_chart;

/* Draw the curves of all runs as inline SVG; false if there is nothing to draw. `target` is a line
 * across, 0: none. */
bool fast__chart_draw(const fast_chart *chart, const fast_compared *lines, int64_t count,
                      double target, FILE *out);
