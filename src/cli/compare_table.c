/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of `fast compare`, one row a line, best first:
 *
 *     way  place  time to target, s           accuracy, %  MB sent  waiting  ...
 *   a bsp      1  4.75 (4.61..4.90)  95.38 (95.10..95.60)      488      37%
 *   b ssp      -        not in 4.19  93.52 (93.10..93.95)      490      39%
 *
 * A window that is too narrow never breaks a row, since a number on two lines is no number. Steps
 * from the whole table to the narrowest one, taken until a row fits:
 *
 *   1. without the staleness, the measured and the predicted time of a step
 *   2. all columns with medians alone, without their ranges
 *   3. without the columns of step 1, then the chosen values, waiting, bytes, places
 *   4. names are cut
 *
 * A line below says what was left out. A file takes the whole table.
 */
#include "compare_table.h"

#include "cli.h"
#include "cli_page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Columns of the table; the first one is the name. Cells longer than CELL_MAX - 1 bytes are cut. */
enum { COLUMNS = 10, CELL_MAX = 64, NAME_MIN = 8 };

/* Columns in the order in which they are left out. */
static const int dispensable[] = { 6, 7, 8, 9, 5, 4, 1 };
enum { DISPENSABLE = sizeof dispensable / sizeof *dispensable, FIRST_DROPS = 3 };

/* The table while it is made. */
typedef struct compare_table {
    const fast_compared *lines;       /* its rows */
    int64_t count;                    /* number of lines */
    const char *measure;              /* that lines are compared by: "time_s", ... */
    bool ranges;                      /* cells have the least and the largest value */
    bool dropped[COLUMNS];            /* columns that are left out */
    int widths[COLUMNS];              /* columns of the window that each takes */
    char (*cells)[COLUMNS][CELL_MAX]; /* the titles, then a row for each line */
} compare_table;

/* Seconds: 0.5321 gives "0.532", 12.3 gives "12.30", 345.6 gives "346". A dash for
 * NAN (nothing was measured), "never" for an infinite time (no run ended normally). */
static void time_text(double seconds, char text[32])
{
    if (isnan(seconds))
        snprintf(text, 32, "-");
    else if (isinf(seconds))
        snprintf(text, 32, "never");
    else
        snprintf(text, 32, seconds < 1 ? "%.3f" : seconds < 100 ? "%.2f" : "%.0f", seconds);
}

/* A median with its range, in the given unit; a dash where nothing was measured. The format is
 * "time" for time_text(), "fine" for two decimals, "" for three digits:
 *
 *   fine, 100    0.2738 (0.2165 to 0.3310)    27.38 (21.65..33.10)
 *   "", 1e-6     488300000                    488       (and 1234.6 MB as 1235, not 1.23e+03)
 *
 * The range is left out if both ends print alike, as they do for one seed. */
static void spread_text(const compare_table *t, const fast_compare_spread *s, double unit,
                        const char *format, char text[CELL_MAX])
{
    char values[3][32];
    const double numbers[3] = { s->median, s->min, s->max };

    for (int i = 0; i < 3; i++) {
        if (strcmp(format, "time") == 0)
            time_text(unit * numbers[i], values[i]);
        else if (isnan(numbers[i]))
            snprintf(values[i], 32, "-");
        else if (isinf(numbers[i]))
            snprintf(values[i], 32, "never");
        else
            snprintf(values[i], 32,
                     strcmp(format, "fine") == 0  ? "%.2f"
                     : unit * numbers[i] >= 999.5 ? "%.0f"
                                                  : "%.3g",
                     unit * numbers[i]);
    }
    if (!t->ranges || strcmp(values[1], values[2]) == 0)
        snprintf(text, CELL_MAX, "%.31s", values[0]);
    else
        snprintf(text, CELL_MAX, "%.18s (%.18s..%.18s)", values[0], values[1], values[2]);
}

/* The amount until the target; "not in 4.19" where most runs ended after 4.19 s without it. */
static void target_text(const compare_table *t, const fast_compared *line, char text[CELL_MAX])
{
    const bool timed = strcmp(t->measure, "time_s") == 0;
    const double unit = strcmp(t->measure, "bytes_sent") == 0 ? 1e-6 : 1;

    if (isinf(line->to_target.median) && isfinite(line->not_within)) {
        const fast_compare_spread end = { line->not_within, line->not_within, line->not_within };
        char amount[CELL_MAX];

        spread_text(t, &end, unit, timed ? "time" : "", amount);
        snprintf(text, CELL_MAX, "not in %.40s", amount);
        return;
    }
    spread_text(t, &line->to_target, unit, timed ? "time" : "", text);
}

/* The cost model's step time in ms, and measured over predicted: "44.9, x1.01". An exclamation mark
 * follows where the model is wrong by more than 25%: "30.1, x1.50 !". */
static void model_text(const fast_compared *line, char text[CELL_MAX])
{
    const double ratio = line->step_s.median / line->predicted_step_s.median;

    if (isfinite(ratio))
        snprintf(text, CELL_MAX, "%.3g, x%.2f%s", 1e3 * line->predicted_step_s.median, ratio,
                 ratio > 1.25 || ratio < 0.8 ? " !" : "");
    else
        snprintf(text, CELL_MAX, "-");
}

/* Make the cells of one line of the table. The letter before the name, a to z, identifies the line
 * in the curves; lines after the 26th have none. A line without a result has its name alone. */
static void fill_row(const compare_table *t, int64_t number, char cells[COLUMNS][CELL_MAX])
{
    const fast_compared *line = &t->lines[number];
    const bool loss = isnan(line->accuracy.median);

    snprintf(cells[0], CELL_MAX, "%c %.50s", (char)(number < 26 ? 'a' + number : ' '), line->name);
    if (!line->shown)
        return;
    if (line->place > 0)
        snprintf(cells[1], CELL_MAX, "%lld", (long long)line->place);
    else
        snprintf(cells[1], CELL_MAX, "-");
    target_text(t, line, cells[2]);
    spread_text(t, loss ? &line->test_loss : &line->accuracy, loss ? 1 : 100, "fine", cells[3]);
    spread_text(t, &line->bytes_sent, 1e-6, "", cells[4]);
    snprintf(cells[5], CELL_MAX, "%.0f%%", 100 * line->wait_share.median);
    if (isnan(line->wait_share.median))
        snprintf(cells[5], CELL_MAX, "-");
    spread_text(t, &line->staleness, 1, "", cells[6]);
    snprintf(cells[7], CELL_MAX, "%.3g", 1e3 * line->step_s.median);
    model_text(line, cells[8]);
    snprintf(cells[9], CELL_MAX, "%.60s", line->tuned[0] ? line->tuned : "-");
}

/* Make all cells, with or without ranges. The column of accuracies becomes "test loss" for a job
 * that has no accuracy. */
static void fill(compare_table *t, bool ranges)
{
    static const char *const titles[COLUMNS] = { "  way",       "place",    "time to target, s",
                                                 "accuracy, %", "MB sent",  "waiting",
                                                 "staleness",   "step, ms", "predicted, ms",
                                                 "chosen" };

    t->ranges = ranges;
    memset(t->cells, 0, ((size_t)t->count + 1) * sizeof *t->cells);
    for (int k = 0; k < COLUMNS; k++)
        snprintf(t->cells[0][k], CELL_MAX, "%s", titles[k]);
    if (strcmp(t->measure, "time_s") != 0)
        snprintf(t->cells[0][2], CELL_MAX, "%s to target",
                 strcmp(t->measure, "samples") == 0 ? "samples" : "MB");
    for (int64_t i = 0; i < t->count; i++) {
        fill_row(t, i, t->cells[i + 1]);
        if (isnan(t->lines[i].accuracy.median) && isfinite(t->lines[i].test_loss.median))
            snprintf(t->cells[0][3], CELL_MAX, "test loss");
    }
    for (int k = 0; k < COLUMNS; k++) {
        t->widths[k] = 0;
        for (int64_t i = 0; i <= t->count; i++)
            if ((int)strlen(t->cells[i][k]) > t->widths[k])
                t->widths[k] = (int)strlen(t->cells[i][k]);
    }
}

/* Columns of the window that a row takes. */
static int row_width(const compare_table *t)
{
    int width = t->widths[0];

    for (int k = 1; k < COLUMNS; k++)
        width += t->dropped[k] ? 0 : 2 + t->widths[k];
    return width;
}

/* Make the widest form of the table that fits `width`. */
static void fit(compare_table *t, int width)
{
    for (int pass = 0; pass < 2; pass++) {
        const int drops = pass == 0 ? FIRST_DROPS : DISPENSABLE;

        memset(t->dropped, 0, sizeof t->dropped);
        fill(t, pass == 0);
        for (int k = 0; k < drops && row_width(t) > width; k++)
            t->dropped[dispensable[k]] = true;
        if (row_width(t) <= width)
            return;
    }
    const int rest = width - (row_width(t) - t->widths[0]);
    t->widths[0] = rest > NAME_MIN ? rest : NAME_MIN;
}

int cli_window_width(FILE *out)
{
    const char *columns = getenv("COLUMNS");
    struct winsize size;
    const long width = columns ? strtol(columns, NULL, 10) : 0;

    if (width > 0 && width < 10000)
        return (int)width;
    if (isatty(fileno(out)) && ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return 10000;
}

/* Name the columns that are left out. */
static void say_dropped(const compare_table *t, cli_page *page)
{
    char text[256] = "Not shown here:";
    bool any = !t->ranges;

    if (any)
        snprintf(text + strlen(text), sizeof text - strlen(text), " ranges");
    for (int k = 1; k < COLUMNS; k++) {
        if (!t->dropped[k])
            continue;
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s %.*s", any ? "," : "",
                 (int)strcspn(t->cells[0][k], ","), t->cells[0][k]);
        any = true;
    }
    if (!any)
        return;
    snprintf(text + strlen(text), sizeof text - strlen(text),
             "; a wider window and --json have them.");
    cli_page_text(page, 0, text);
}

/* A line whose runs all failed shows the error in place of its numbers, wrapped at spaces:
 *
 *   c easgd  no result: ...
 */
static void put_row(const compare_table *t, int64_t row, cli_page *page)
{
    const int width = t->widths[0];

    if (row > 0 && !t->lines[row - 1].shown) {
        const char *error = t->lines[row - 1].error;
        char text[512], name[CELL_MAX];

        snprintf(text, sizeof text, "no result: %.480s", error ? error : "stopped");
        snprintf(name, sizeof name, "%.*s", width, t->cells[row][0]);
        cli_page_row(page, 0, width + 2, name, text);
        return;
    }
    fprintf(page->out, "%-*.*s", width, width, t->cells[row][0]);
    for (int k = 1; k < COLUMNS; k++)
        if (!t->dropped[k])
            fprintf(page->out, "  %*s", t->widths[k], t->cells[row][k]);
    fputc('\n', page->out);
}

void cli_compare_table(const fast_compare *compare, FILE *out)
{
    compare_table t = { .measure = fast_compare_measure(compare) };
    cli_page page;

    t.lines = fast_compare_lines(compare, &t.count);
    t.cells = calloc((size_t)t.count + 1, sizeof *t.cells);
    if (!t.cells)
        return;
    cli_page_init(&page, out);
    fit(&t, cli_window_width(out));
    for (int64_t i = 0; i <= t.count; i++)
        put_row(&t, i, &page);
    say_dropped(&t, &page);
    free(t.cells);
}
