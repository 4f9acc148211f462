/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Curves in characters, for a terminal: a grid whose columns are time and whose rows are accuracy,
 * or the test loss if it has no accuracy. A curve is the letter that its line has in the table;
 * where curves cross, the better line is seen. Between two evaluations a curve is a straight line.
 *
 *   accuracy over time, letters as in the table
 *    63.2% |                     aaa
 *          |..................aaaa.............................    the target, 60%
 *          |               aaaa
 *    52.4% |              aa
 *          |             aa                       bbbbbbbbbbbbb
 *          |           aaa            bbbbbbbbbbbbb
 *    41.6% |           a           bbbb
 *     ...
 *    16.2% |    b
 *          +---------------------------------------------------
 *           0                                           5.942 s
 *
 * The grid has 14 rows, and the columns of the page less 9, at most 90. Every third row and the
 * last one are labelled. The left edge is time 0, the right one the last evaluation of any line;
 * top and bottom are the largest and the smallest value. A row of dots marks the target of an
 * accuracy. Nothing is drawn where all values are equal, at a single point of time 0, or below 20
 * columns.
 *
 * Lines after the 26th have no letter and are not drawn. `fast compare` draws these curves on a
 * terminal; `fast find-lr` draws one curve over learning rates.
 */
#include "plot.h"

#include "cli_page.h"

#include <math.h>
#include <string.h>

enum { ROWS = 14, COLUMNS_MAX = 90, MARGIN = 8 };

/* The picture and its extents. */
typedef struct plot {
    char cells[ROWS][COLUMNS_MAX]; /* 0: empty */
    int columns;                   /* that are used */
    double time_max;               /* of the right edge; the left one is 0 */
    double low;                    /* of the lowest row */
    double high;                   /* of the highest */
    bool loss;                     /* rows are test losses */
} plot;

/* The value of a point that the plot shows: accuracy, or loss without one. */
static double height_of(const plot *p, const fast_compare_point *point)
{
    return p->loss ? point->test_loss : point->test_accuracy;
}

/* Find the range of times and values of all curves. */
static void measure(plot *p, const fast_compared *lines, int64_t count)
{
    p->low = INFINITY;
    p->high = -INFINITY;
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; lines[i].shown && k < lines[i].shown->point_count; k++) {
            const fast_compare_point *point = &lines[i].shown->points[k];
            const double h = height_of(p, point);

            if (!isfinite(h))
                continue;
            p->time_max = fmax(p->time_max, point->time_s);
            p->low = fmin(p->low, h);
            p->high = fmax(p->high, h);
        }
}

/* Put a letter into the grid, at the place of a time and a value. */
static void put(plot *p, double time, double height, char letter)
{
    const int x = (int)(time / p->time_max * (p->columns - 1) + 0.5);
    const int y = (int)((p->high - height) / (p->high - p->low) * (ROWS - 1) + 0.5);

    if (x >= 0 && x < p->columns && y >= 0 && y < ROWS)
        p->cells[y][x] = letter;
}

/* Draw the curve of one run with its letter. A straight line between two evaluations is sampled at
 * 181 points, twice the widest grid, so that no column stays empty. An evaluation without a finite
 * value interrupts the curve. */
static void draw(plot *p, const fast_compared_run *run, char letter)
{
    for (int64_t k = 0; k < run->point_count; k++) {
        const fast_compare_point *b = &run->points[k];
        const fast_compare_point *a = k > 0 ? b - 1 : b;

        if (!isfinite(height_of(p, a)) || !isfinite(height_of(p, b)))
            continue;
        for (int i = 0; i <= 2 * COLUMNS_MAX; i++) {
            const double part = (double)i / (2 * COLUMNS_MAX);

            put(p, a->time_s + part * (b->time_s - a->time_s),
                height_of(p, a) + part * (height_of(p, b) - height_of(p, a)), letter);
        }
    }
}

/* Lines are drawn from the last to the first: the table has the best first, and a later letter in a
 * cell replaces an earlier one. */
void cli_plot(const fast_compared *lines, int64_t count, double target, FILE *out)
{
    plot p = { .loss = count > 0 && isnan(lines[0].accuracy.median) };
    cli_page page;

    cli_page_init(&page, out);
    p.columns = page.width - MARGIN - 1 < COLUMNS_MAX ? page.width - MARGIN - 1 : COLUMNS_MAX;
    measure(&p, lines, count);
    if (!(p.time_max > 0) || !(p.high > p.low) || p.columns < 20)
        return;
    for (int64_t i = count < 26 ? count - 1 : 25; i >= 0; i--)
        if (lines[i].shown)
            draw(&p, lines[i].shown, (char)('a' + i));
    fprintf(out, "\n%s over time, letters as in the table\n", p.loss ? "test loss" : "accuracy");
    for (int y = 0; y < ROWS; y++) {
        const double height = p.high - (p.high - p.low) * y / (ROWS - 1);
        const double row = (p.high - p.low) / (ROWS - 1);
        const bool aim = !p.loss && target > 0 && fabs(height - target) <= row / 2;

        if (y % 3 == 0 || y == ROWS - 1)
            fprintf(out, p.loss ? "%6.3f" : "%5.1f%%", p.loss ? height : 100 * height);
        else
            fputs("      ", out);
        fputs(" |", out);
        for (int x = 0; x < p.columns; x++)
            fputc(p.cells[y][x] ? p.cells[y][x] : aim ? '.' : ' ', out);
        fputc('\n', out);
    }
    fputs("       +", out);
    for (int x = 0; x < p.columns; x++)
        fputc('-', out);
    fprintf(out, "\n        0%*.4g s\n", p.columns - 3, p.time_max);
}

/* A row's label and its cells. */
static void put_row(const plot *p, int y, FILE *out)
{
    const double height = p->high - (p->high - p->low) * y / (ROWS - 1);

    if (y % 3 == 0 || y == ROWS - 1)
        fprintf(out, "%7.4g", height);
    else
        fputs("       ", out);
    fputs(" |", out);
    for (int x = 0; x < p->columns; x++)
        fputc(p->cells[y][x] ? p->cells[y][x] : ' ', out);
    fputc('\n', out);
}

/* Points are the columns of the axis in their order, so that the logarithm needs no scale. */
void cli_plot_log(const double *x, const double *y, int64_t count, double mark, const char *name,
                  FILE *out)
{
    plot p = { .time_max = (double)(count - 1), .low = INFINITY, .high = -INFINITY };
    cli_page page;
    int64_t marked = -1;

    cli_page_init(&page, out);
    p.columns = page.width - MARGIN - 2 < COLUMNS_MAX ? page.width - MARGIN - 2 : COLUMNS_MAX;
    for (int64_t i = 0; i < count; i++) {
        if (isfinite(y[i])) {
            p.low = fmin(p.low, y[i]);
            p.high = fmax(p.high, y[i]);
        }
        marked = x[i] <= mark ? i : marked;
    }
    if (count < 2 || !(p.high > p.low) || p.columns < 20)
        return;
    for (int64_t i = 0; i + 1 < count; i++)
        for (int k = 0; k <= 2 * COLUMNS_MAX && isfinite(y[i]) && isfinite(y[i + 1]); k++) {
            const double part = (double)k / (2 * COLUMNS_MAX);

            put(&p, (double)i + part, y[i] + part * (y[i + 1] - y[i]), 'o');
        }
    fprintf(out, "\n%s over learning rates\n", name);
    for (int row = 0; row < ROWS; row++)
        put_row(&p, row, out);
    fputs("        +", out);
    for (int column = 0; column < p.columns; column++)
        fputc(marked >= 0 && column == (int)((double)marked / p.time_max * (p.columns - 1) + 0.5)
                  ? '^'
                  : '-',
              out);
    fprintf(out, "\n         %-12.3g%*.3g\n", x[0], p.columns - 12, x[count - 1]);
}
