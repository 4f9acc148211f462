/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Curves as inline SVG, drawn here so that the report needs no script and no network.
 *
 * A line of the comparison is one colour: its median run a strong curve, the other seeds thin ones.
 * Curves end where runs reach the target, so that their ends crowd at one height: names stand in
 * the right margin, at a distance, in the order of the ends, each with a thin leader to its curve.
 * Axes are linear from 0, or logarithmic where ends differ by more than a factor of 8.
 *
 *        56                            590        760
 *     14 +------------------------------+
 *        |             _____----*...... | ....... name of a line, in its colour
 *        |- - - - -/- - - - - - - - - - | target
 *        |      /      ____-----*...... | ....... name, at least 15 units below the one above
 *    278 +------------------------------+
 *          ticks and the title of x
 *    320
 *
 * Order of events: measure the extents of all points, draw the axes, the target, the thin curves,
 * the strong ones above them, and the names last. Nothing is drawn if no point has two finite
 * numbers; the caller then writes a sentence instead.
 */
#include "lab/chart.h"

#include <math.h>
#include <string.h>

enum {
    WIDTH = 760,
    HEIGHT = 320,
    LEFT = 56,
    RIGHT = 170, /* room for names */
    TOP = 14,
    BOTTOM = 42,
    LABEL = 15, /* pixels between two names */
    COLORS = 8, /* of the page's style; further curves are dashed */
    TEXT_MAX = 22
};

/* One axis: values to pixels. */
typedef struct chart_scale {
    double min;  /* value at the start of the axis */
    double max;  /* value at its end */
    double from; /* pixel of min */
    double to;   /* pixel of max */
    bool log;    /* logarithmic */
} chart_scale;

/* The place of a value on an axis, in units of the drawing. */
static double at(const chart_scale *s, double value)
{
    const double part = s->log ? (log(value) - log(s->min)) / (log(s->max) - log(s->min))
                               : (value - s->min) / (s->max - s->min);

    return s->from + part * (s->to - s->from);
}

/* A measure of a point, by its offset in the struct. */
static double value_of(const fast_compare_point *point, size_t offset)
{
    return *(const double *)(const void *)((const char *)point + offset);
}

/* Can the point be drawn? */
static bool is_drawn(const fast_chart *chart, const chart_scale *x, const fast_compare_point *point)
{
    const double u = value_of(point, chart->x), v = value_of(point, chart->y);

    return isfinite(u) && isfinite(v) && (!x || !x->log || u >= x->min);
}

/* Extents of all curves, and of their ends. */
static bool measure(const fast_chart *chart, const fast_compared *lines, int64_t count,
                    chart_scale *x, chart_scale *y)
{
    double end_min = INFINITY, end_max = 0, x_min = INFINITY;

    x->min = 0;
    x->max = 0;
    y->min = INFINITY;
    y->max = -INFINITY;
    for (int64_t i = 0; i < count; i++)
        for (int64_t r = 0; r < lines[i].run_count; r++) {
            const fast_compared_run *run = &lines[i].runs[r];

            for (int64_t k = 0; k < run->point_count; k++) {
                if (!is_drawn(chart, NULL, &run->points[k]))
                    continue;
                const double u = value_of(&run->points[k], chart->x);
                const double v = value_of(&run->points[k], chart->y);

                x->max = fmax(x->max, u);
                x_min = u > 0 ? fmin(x_min, u) : x_min;
                y->min = fmin(y->min, v);
                y->max = fmax(y->max, v);
                if (k + 1 == run->point_count && u > 0) {
                    end_min = fmin(end_min, u);
                    end_max = fmax(end_max, u);
                }
            }
        }
    if (!(x->max > 0) || !isfinite(y->min))
        return false;
    x->log = chart->may_log && end_max > 8 * end_min && x_min < x->max;
    if (x->log) /* three decades say enough */
        x->min = fmax(x_min, x->max * 1e-3);
    if (y->max <= y->min)
        y->max = y->min + (y->min != 0 ? fabs(y->min) : 1);
    if (chart->percent) {
        y->min = fmax(0, floor(10 * y->min) / 10);
        y->max = fmin(1, ceil(20 * y->max) / 20);
        y->max = fmax(y->max, y->min + 0.05);
    }
    return true;
}

/* A round step that gives about `count` of them: 1, 2 or 5 times a power of ten, rounded up. For a
 * range of 7.3 and 5 steps 1.46 becomes 2, and ticks are at 0, 2, 4 and 6. */
static double round_step(double range, int count)
{
    const double raw = range / count, power = pow(10, floor(log10(raw)));
    const double lead = raw / power;

    return power * (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10);
}

/* 12000 as "12k"; seconds and bytes with their units. */
static void tick_text(const fast_chart *chart, bool vertical, double value, char text[32])
{
    if (vertical && chart->percent)
        snprintf(text, 32, "%.3g%%", 100 * value);
    else if (vertical)
        snprintf(text, 32, "%.3g", value);
    else if (chart->unit == FAST_CHART_BYTES)
        fast__people_bytes(value, text);
    else if (chart->unit == FAST_CHART_SECONDS)
        snprintf(text, 32, "%.4g s", value);
    else if (value >= 1e6)
        snprintf(text, 32, "%.3gM", value * 1e-6);
    else if (value >= 1e3)
        snprintf(text, 32, "%.3gk", value * 1e-3);
    else
        snprintf(text, 32, "%.3g", value);
}

/* Draw one tick of an axis with its number. */
static void tick(const fast_chart *chart, bool vertical, const chart_scale *s, double value,
                 FILE *out)
{
    const double p = at(s, value);
    char text[32];

    tick_text(chart, vertical, value, text);
    if (vertical)
        fprintf(out,
                "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>"
                "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                LEFT, WIDTH - RIGHT, p, p, LEFT - 6, p + 4, text);
    else
        fprintf(out,
                "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>"
                "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
                p, p, TOP, HEIGHT - BOTTOM, p, HEIGHT - BOTTOM + 16, text);
}

/* Draw an axis with its ticks and its title. */
static void draw_axis(const fast_chart *chart, bool vertical, const chart_scale *s, FILE *out)
{
    const double step = round_step(s->max - s->min, 5);

    if (s->log) { /* 1, 2, 5 where there are few decades, else powers of ten */
        const bool few = s->max / s->min < 500;

        for (double power = pow(10, floor(log10(s->min))); power <= s->max; power *= 10)
            for (int k = 1; k <= (few ? 5 : 1); k += k == 1 ? 1 : 3)
                if (k * power >= s->min && k * power <= s->max)
                    tick(chart, vertical, s, k * power, out);
        return;
    }
    for (double v = ceil(s->min / step - 1e-9) * step; v <= s->max + 1e-9 * step; v += step)
        tick(chart, vertical, s, fabs(v) < 1e-9 * step ? 0 : v, out);
}

/* One run's curve; false if it has no point. Remembers the place of the last point. */
static bool draw_curve(const fast_chart *chart, const fast_compared_run *run, const chart_scale *x,
                       const chart_scale *y, int64_t color, bool strong, double end[2], FILE *out)
{
    bool begun = false;

    for (int64_t k = 0; k < run->point_count; k++) {
        if (!is_drawn(chart, x, &run->points[k]))
            continue;
        end[0] = at(x, value_of(&run->points[k], chart->x));
        end[1] = at(y, value_of(&run->points[k], chart->y));
        if (!begun)
            fprintf(out, "<polyline class=\"%s\" style=\"stroke:var(--c%d)%s\" points=\"",
                    strong ? "strong" : "thin", (int)(color % COLORS),
                    color >= COLORS ? ";stroke-dasharray:5 3" : "");
        fprintf(out, "%.1f,%.1f ", end[0], end[1]);
        begun = true;
    }
    if (begun)
        fputs("\"/>\n", out);
    if (begun && strong)
        fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" style=\"fill:var(--c%d)\"/>\n",
                end[0], end[1], (int)(color % COLORS));
    return begun;
}

/* A name and the end of its curve. */
typedef struct chart_label {
    double end[2]; /* last point of the curve, in the picture */
    double y;      /* of the name */
    int64_t line;  /* index of the line */
} chart_label;

/* Higher ends first; of those that are level the one further to the left, whose leader passes above
 * the others. */
static bool is_above(const chart_label *a, const chart_label *b)
{
    return fabs(a->end[1] - b->end[1]) > LABEL ? a->end[1] < b->end[1] : a->end[0] < b->end[0];
}

/* Write the names of lines at the ends of their curves, moved so that they do not cover each
 * other: one pass down gives each name at least LABEL units below the one before, one pass up moves
 * those that left the picture back. 16 names have 15 gaps of 15 units, 225 of the 264: all fit. */
static void draw_labels(const fast_compared *lines, chart_label *labels, int64_t count, FILE *out)
{
    for (int64_t i = 1; i < count; i++) {
        const chart_label l = labels[i];
        int64_t k = i;

        for (; k > 0 && is_above(&l, &labels[k - 1]); k--)
            labels[k] = labels[k - 1];
        labels[k] = l;
    }
    double floor_y = TOP;
    for (int64_t i = 0; i < count; i++) { /* down, each below the one before */
        labels[i].y = fmax(labels[i].end[1], floor_y);
        floor_y = labels[i].y + LABEL;
    }
    double ceiling = HEIGHT - BOTTOM;
    for (int64_t i = count - 1; i >= 0; i--) { /* and up again where they leave the picture */
        labels[i].y = fmin(labels[i].y, ceiling);
        ceiling = labels[i].y - LABEL;
    }
    for (int64_t i = 0; i < count; i++) {
        const int color = (int)(labels[i].line % COLORS);
        char name[TEXT_MAX + 4];

        snprintf(name, sizeof name, "%.*s%s", TEXT_MAX, lines[labels[i].line].name,
                 strlen(lines[labels[i].line].name) > TEXT_MAX ? "..." : "");
        fprintf(out,
                "<polyline class=\"leader\" style=\"stroke:var(--c%d)\" "
                "points=\"%.1f,%.1f %d,%.1f\"/>"
                "<text x=\"%d\" y=\"%.1f\" class=\"name\" style=\"fill:var(--c%d)\">",
                color, labels[i].end[0], labels[i].end[1], WIDTH - RIGHT + 8, labels[i].y,
                WIDTH - RIGHT + 12, labels[i].y + 4, color);
        fast__html_text(out, name);
        fputs("</text>\n", out);
    }
}

bool fast__chart_draw(const fast_chart *chart, const fast_compared *lines, int64_t count,
                      double target, FILE *out)
{
    chart_scale x = { .from = LEFT, .to = WIDTH - RIGHT };
    chart_scale y = { .from = HEIGHT - BOTTOM, .to = TOP };
    chart_label labels[FAST_CHART_LINES_MAX];
    int64_t used = 0;

    if (count > FAST_CHART_LINES_MAX)
        count = FAST_CHART_LINES_MAX;
    if (!measure(chart, lines, count, &x, &y))
        return false;
    fprintf(out, "<div class=\"fig\"><svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n",
            WIDTH, HEIGHT, chart->title);
    draw_axis(chart, true, &y, out);
    draw_axis(chart, false, &x, out);
    fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" class=\"axis\">%s%s</text>\n",
            (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, chart->x_title, x.log ? ", logarithmic" : "");
    if (chart->percent && target > y.min && target <= y.max)
        fprintf(out,
                "<line class=\"target\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>"
                "<text x=\"%d\" y=\"%.1f\" class=\"axis\">target %.4g%%</text>\n",
                LEFT, WIDTH - RIGHT, at(&y, target), at(&y, target), LEFT + 4, at(&y, target) - 4,
                100 * target);
    for (int64_t i = 0; i < count; i++) {
        double end[2];

        for (int64_t r = 0; r < lines[i].run_count; r++)
            if (&lines[i].runs[r] != lines[i].shown)
                draw_curve(chart, &lines[i].runs[r], &x, &y, i, false, end, out);
    }
    for (int64_t i = 0; i < count; i++)
        if (lines[i].shown &&
            draw_curve(chart, lines[i].shown, &x, &y, i, true, labels[used].end, out))
            labels[used++].line = i;
    draw_labels(lines, labels, used, out);
    fputs("</svg></div>\n", out);
    return true;
}
