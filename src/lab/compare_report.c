/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report: one HTML file for a person, that needs neither network nor script. Text of users goes
 * through fast__html_text(), which leaves no character that HTML knows. Colours are those of Okabe
 * and Ito, made darker for white and lighter for black paper, so that people who see colours
 * otherwise can distinguish them; names stand beside what they name. Widths are parts of the page,
 * so that it reads on a phone; tables use the whole window and scroll with a shadow at the edge.
 *
 * The page, from the answer to the details, each part a function of this file:
 *
 *   head         the job's options, the verdict, the user's command
 *   table        one row a line, best first: median, and the least and the largest below it; a line
 *                without a result has its reason in place of the figures
 *   curves       accuracy (or test loss) over time, over samples and over bytes sent
 *   time_split   a bar a line: compute, codec, exchange and wait of a worker's time
 *   amounts      bytes sent, staleness, and the divergence of replicas over time
 *   model        forecast and measured time of a step; right means within a factor of 1.25
 *   tuning       a row a line, a cell a trial with its setting, the chosen one marked
 *   commands     the command that repeats the first run of each line
 *
 * The content security policy forbids scripts, images and requests, so that a text that slipped
 * through the escapes could still do nothing. Everything is written to memory by the caller, which
 * sees errors of the stream once at the end; functions here return nothing.
 */
#include "lab/chart.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static const char style[] =
    "<style>\n"
    ":root{color-scheme:light dark;--paper:#fff;--ink:#1b1f24;--soft:#5c6670;--rule:#d8dde3;"
    "--box:#f3f6f9;--edge:#1b1f2455;--c0:#0072b2;--c1:#c4560a;--c2:#00845f;--c3:#b0508a;--c4:#"
    "9a6f00;--c5:#2f8fc4;"
    "--c6:#3b3f45;--c7:#7a7a00;--compute:#0072b2;--codec:#cc79a7;--exchange:#e69f00;"
    "--wait:#a3abb3}\n"
    "@media(prefers-color-scheme:dark){:root{--paper:#14171a;--ink:#e8ebee;--soft:#a2adb8;"
    "--rule:#343b43;--box:#1e2328;--edge:#e8ebee55;--c0:#56b4e9;--c1:#ff8a4c;--c2:#2ccb9b;--c3:#"
    "e79cc8;"
    "--c4:#f0b429;--c5:#8fb8ff;--c6:#dde1e6;--c7:#d9d24a;--compute:#3d8fc9;--codec:#d48db5;"
    "--exchange:#d9950a;--wait:#6b757f}}\n"
    "body{margin:0 auto;padding:1rem;max-width:60rem;background:var(--paper);color:var(--ink);"
    "font:16px/1.5 system-ui,sans-serif}\n"
    "h1{font-size:1.5rem;line-height:1.2}h2{font-size:1.15rem;margin:2.2rem 0 .4rem}\n"
    "p{margin:.5rem 0}.soft{color:var(--soft);font-size:.9rem}\n"
    ".verdict{background:var(--box);border-left:4px solid var(--c0);padding:.8rem 1rem;"
    "font-size:1.05rem;overflow-wrap:anywhere}\n"
    ".wide,.fig{overflow-x:auto}\n"
    /* Tables are wider than the text where the window has room; where they scroll, a shadow at the
       edge tells that there is more. */
    ".wide{margin:0 calc(50% - min(50vw - 1.5rem,44rem));background:"
    "linear-gradient(90deg,var(--paper) 30%,transparent) left,"
    "linear-gradient(270deg,var(--paper) 30%,transparent) right,"
    "linear-gradient(90deg,var(--edge),transparent) left,"
    "linear-gradient(270deg,var(--edge),transparent) right;background-repeat:no-repeat;"
    "background-size:3rem 100%,3rem 100%,1rem 100%,1rem 100%;"
    "background-attachment:local,local,scroll,scroll}\n"
    ".wide table{margin:0 auto;min-width:min(60rem,100%)}\n"
    "table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}\n"
    "th,td{padding:.3rem .5rem;border-bottom:1px solid var(--rule);text-align:right;"
    "vertical-align:top}\n"
    "th{font-weight:600;color:var(--soft);white-space:nowrap}\n"
    "td:first-child,th:first-child,.left{text-align:left}td{white-space:nowrap}\n"
    "td.why{white-space:normal;text-align:left;min-width:14rem;color:var(--soft)}\n"
    "small{color:var(--soft)}.best{font-weight:700}\n"
    "svg{display:block;width:100%;min-width:36rem;height:auto}\n"
    "svg text{font:12px system-ui,sans-serif;fill:var(--soft)}svg .name{font-weight:600}\n"
    ".grid{stroke:var(--rule);stroke-width:1}.target{stroke:var(--soft);stroke-dasharray:6 4}\n"
    "polyline{fill:none}.strong{stroke-width:2.2}.thin{stroke-width:1;opacity:.35}"
    ".leader{stroke-width:1;opacity:.5;stroke-dasharray:1 3}\n"
    ".row{display:grid;grid-template-columns:9rem 1fr 9rem;gap:.6rem;align-items:center;"
    "margin:.25rem 0;font-size:.9rem}\n"
    ".row>:first-child{overflow-wrap:anywhere}\n"
    ".bar{display:flex;height:1.3rem;background:var(--box);border-radius:3px;overflow:hidden}\n"
    ".bar i{display:block;font:.75rem/1.3rem system-ui,sans-serif;color:#fff;text-align:center;"
    "font-style:normal;overflow:hidden;white-space:nowrap}\n"
    ".bar .dark{color:#14171a}\n"
    ".key i{display:inline-block;width:.9em;height:.9em;border-radius:2px;margin:0 .3em 0 1em;"
    "vertical-align:-.1em}\n"
    "pre{background:var(--box);padding:.6rem .8rem;white-space:pre-wrap;overflow-wrap:anywhere;"
    "font-size:.85rem;margin:.3rem 0 1rem}\n"
    "@media(max-width:40rem){.row{grid-template-columns:1fr;gap:.1rem;margin:.6rem 0}}\n"
    "@media print{body{max-width:none}.wide{margin:0}}\n"
    "</style>\n";

/*
 * Bytes that are no UTF-8 become U+FFFD, so that the page is valid whatever a process printed. The
 * first byte of a character tells how many follow: c2..df one, e0..ef two, f0..f4 three; each of
 * them is 10xxxxxx. A sequence that is cut by the end of the text stops at its zero byte, which is
 * no such byte, so nothing behind the end is read.
 */
void fast__html_text(FILE *out, const char *text)
{
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        int more = *c >= 0xf0 && *c <= 0xf4 ? 3 : *c >= 0xe0 ? 2 : *c >= 0xc2 ? 1 : 0;

        if (*c > 0xf4)
            more = 0;
        for (int i = 1; i <= more; i++)
            if ((c[i] & 0xc0) != 0x80)
                more = 0;
        if (*c == '&')
            fputs("&amp;", out);
        else if (*c == '<')
            fputs("&lt;", out);
        else if (*c == '>')
            fputs("&gt;", out);
        else if (*c == '"')
            fputs("&quot;", out);
        else if (*c == '\'')
            fputs("&#39;", out);
        else if (*c < ' ' || *c == 0x7f)
            fputc(' ', out);
        else if (*c < 0x80 || more > 0)
            fwrite(c, 1, (size_t)more + 1, out);
        else
            fputs("&#65533;", out); /* not UTF-8 */
        c += more;
    }
}

/* The head of the page: title, style and the job. */
static void head(const fast_compare *compare, const char *command, FILE *out)
{
    const char *const *job = fast_compare_job(compare);

    fprintf(out,
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
            "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
            "style-src 'unsafe-inline'\">\n"
            "<title>fast compare: %lld ways of training</title>\n%s</head><body>\n"
            "<h1>%lld ways of training the same job</h1>\n<p class=\"soft\">",
            (long long)compare->line_count, style, (long long)compare->line_count);
    for (int64_t i = 0; job && job[i]; i++) {
        const char *equals = strchr(job[i], '=');

        fputs(i ? " &middot; " : "", out);
        fprintf(out, "%.*s <b>", (int)(equals - job[i]), job[i]); /* a name of the table */
        fast__html_text(out, equals + 1);
        fputs("</b>", out);
    }
    fputs("</p>\n<p class=\"verdict\">", out);
    fast__html_text(out, compare->verdict);
    fputs("</p>\n", out);
    if (command) {
        fputs("<pre>", out);
        fast__html_text(out, command);
        fputs("</pre>\n", out);
    }
}

/* "median" and, small below it, "min to max". */
static void cell(FILE *out, const char *median, const char *min, const char *max)
{
    fprintf(out, "<td>%s", median);
    if (strcmp(min, max) != 0)
        fprintf(out, "<br><small>%s to %s</small>", min, max);
    fputs("</td>", out);
}

/* A cell with a time and its range. */
static void time_cell(FILE *out, const fast_compare_spread *s)
{
    char median[32], min[32], max[32];

    fast__people_time(s->median, median);
    fast__people_time(s->min, min);
    fast__people_time(s->max, max);
    cell(out, median, min, max);
}

/* A cell with bytes in the unit that suits each number. */
static void bytes_cell(FILE *out, const fast_compare_spread *s)
{
    char median[32], min[32], max[32];

    fast__people_bytes(s->median, median);
    fast__people_bytes(s->min, min);
    fast__people_bytes(s->max, max);
    cell(out, median, min, max);
}

/* A cell with a number in a unit. */
static void real_cell(FILE *out, const fast_compare_spread *s, double unit, const char *format)
{
    char text[3][32];
    const double values[3] = { s->median, s->min, s->max };

    for (int i = 0; i < 3; i++) {
        if (isnan(values[i]))
            snprintf(text[i], 32, "-");
        else if (unit * values[i] >= 1000)
            snprintf(text[i], 32, "%.3gk", 1e-3 * unit * values[i]);
        else
            snprintf(text[i], 32, strcmp(format, "%.3g") == 0 ? "%.3g" : "%.2f", unit * values[i]);
    }
    cell(out, text[0], text[1], text[2]);
}

/* The table of results, best first. */
static void table(const fast_compare *compare, FILE *out)
{
    const bool by_loss = isnan(compare->lines[0].accuracy.median);

    fprintf(
        out,
        "<h2>The figures</h2>\n<p class=\"soft\">Sorted by the time to the target. Medians over "
        "%lld seed%s, the least and the largest below them. A place is 1 + the lines that "
        "are better beyond the spread.</p>\n<div "
        "class=\"wide\"><table><thead><tr><th>way</th><th>place</th>"
        "<th>time to target</th><th>reached</th><th>%s</th><th>samples</th><th>bytes sent</th>"
        "<th>waiting, %%</th><th>staleness</th><th>divergence</th><th>chosen by trials</th>"
        "</tr></thead><tbody>\n",
        (long long)compare->seed_count, compare->seed_count == 1 ? "" : "s",
        by_loss ? "test loss" : "test accuracy, %");
    for (int64_t i = 0; i < compare->line_count; i++) {
        const fast_compared *line = &compare->lines[i];

        fprintf(out, "<tr><td%s>", line->place == 1 && line->shown ? " class=\"best\"" : "");
        fast__html_text(out, line->name);
        if (!line->shown) {
            fputs("</td><td>-</td><td colspan=\"9\" class=\"why\">", out);
            fast__html_text(out, line->error ? line->error : "no result");
            fputs("</td></tr>\n", out);
            continue;
        }
        if (line->place > 0)
            fprintf(out, "</td><td>%lld</td>", (long long)line->place);
        else
            fputs("</td><td>-</td>", out);
        if (line->place == 0 && isinf(line->to_target.median)) {
            char limit[96];

            fast__line_limit(compare, line, limit);
            fputs("<td>not within ", out);
            fast__html_text(out, limit);
            fputs("</td>", out);
        } else {
            time_cell(out, &line->time_to_target_s);
        }
        fprintf(out, "<td>%lld of %lld</td>", (long long)line->reached_count,
                (long long)line->run_count);
        real_cell(out, by_loss ? &line->test_loss : &line->accuracy, by_loss ? 1 : 100,
                  by_loss ? "%.3g" : "%.2f");
        real_cell(out, &line->samples, 1, "%.3g");
        bytes_cell(out, &line->bytes_sent);
        real_cell(out, &line->wait_share, 100, "%.3g");
        real_cell(out, &line->staleness, 1, "%.3g");
        real_cell(out, &line->divergence, 1, "%.3g");
        fputs("<td>", out);
        fast__html_text(out, line->tuned[0] ? line->tuned : "-");
        fputs("</td></tr>\n", out);
        if (line->failed_count > 0 && line->error) {
            fputs("<tr><td></td><td colspan=\"10\" class=\"why\">a run has no result: ", out);
            fast__html_text(out, line->error);
            fputs("</td></tr>\n", out);
        }
    }
    fputs("</tbody></table></div>\n", out);
}

/* Something to draw over an axis, for accuracy or, in regression, for the loss. */
static void curves(const fast_compare *compare, FILE *out)
{
    const bool by_loss = isnan(compare->lines[0].accuracy.median);
    const size_t y = by_loss ? offsetof(fast_compare_point, test_loss)
                             : offsetof(fast_compare_point, test_accuracy);
    const char *what = by_loss ? "Test loss" : "Accuracy";
    const struct {
        const char *over;
        const char *note;
        size_t x;
        fast_chart_unit unit;
    } charts[] = {
        { "over time", "what you wait for", offsetof(fast_compare_point, time_s),
          FAST_CHART_SECONDS },
        { "over samples", "what was learned from as many samples; speed does not count here",
          offsetof(fast_compare_point, samples), FAST_CHART_SAMPLES },
        { "over bytes", "what it costs the network, all workers and servers together",
          offsetof(fast_compare_point, bytes_sent), FAST_CHART_BYTES },
    };
    char title[64];

    for (size_t i = 0; i < sizeof charts / sizeof *charts; i++) {
        snprintf(title, sizeof title, "%s %s", what, charts[i].over);
        fprintf(out, "<h2>%s</h2>\n<p class=\"soft\">%s</p>\n", title, charts[i].note);
        const fast_chart chart = { .title = title,
                                   .x_title = charts[i].over + 5,
                                   .x = charts[i].x,
                                   .y = y,
                                   .unit = charts[i].unit,
                                   .percent = !by_loss,
                                   .may_log = charts[i].unit == FAST_CHART_BYTES };
        if (!fast__chart_draw(&chart, compare->lines, compare->line_count, compare->target, out))
            fputs("<p>There is nothing to draw: no evaluation took place.</p>\n", out);
    }
    if (compare->line_count > FAST_CHART_LINES_MAX)
        fprintf(out, "<p class=\"soft\">The %d best lines are drawn.</p>\n", FAST_CHART_LINES_MAX);
}

/* Begin a row with the name of a line. */
static void row_begin(FILE *out, const char *name)
{
    fputs("<div class=\"row\"><span>", out);
    fast__html_text(out, name);
    fputs("</span>", out);
}

/* Where a worker's time went. */
static void time_split(const fast_compare *compare, FILE *out)
{
    static const char *const names[] = { "compute", "codec", "exchange", "wait" };

    fputs("<h2>Where the workers' time went</h2>\n<p class=\"soft key\">", out);
    for (int k = 0; k < 4; k++)
        fprintf(out, "<i style=\"background:var(--%s)\"></i>%s", names[k], names[k]);
    fputs("</p>\n", out);
    for (int64_t i = 0; i < compare->line_count; i++) {
        const fast_compared *line = &compare->lines[i];
        const double parts[] = { line->compute_share.median, line->codec_share.median,
                                 line->exchange_share.median, line->wait_share.median };
        char step[32];

        if (!line->shown || isnan(parts[0]))
            continue;
        row_begin(out, line->name);
        fputs("<span class=\"bar\">", out);
        for (int k = 0; k < 4; k++) {
            fprintf(out, "<i%s title=\"%s %.1f%%\" style=\"width:%.2f%%;background:var(--%s)\">",
                    k > 0 ? " class=\"dark\"" : "", names[k], 100 * parts[k], 100 * parts[k],
                    names[k]);
            if (parts[k] >= 0.12) /* narrower stretches have no room for a word, only a tooltip */
                fprintf(out, "%s %.0f%%", names[k], 100 * parts[k]);
            fputs("</i>", out);
        }
        fast__people_time(line->step_s.median, step);
        fprintf(out, "</span><span>a step: %s</span></div>\n", step);
    }
}

/* One bar a line, as long as its part of the largest. The scale is the largest value of any seed,
 * while bars show medians: the longest bar may end before the edge. */
static void bars(const fast_compare *compare, size_t offset, bool bytes, FILE *out)
{
    double most = 0;

    for (int64_t i = 0; i < compare->line_count; i++) {
        const fast_compare_spread *s =
            (const fast_compare_spread *)(const void *)((const char *)&compare->lines[i] + offset);
        if (isfinite(s->max))
            most = fmax(most, s->max);
    }
    for (int64_t i = 0; i < compare->line_count; i++) {
        const fast_compared *line = &compare->lines[i];
        const fast_compare_spread *s =
            (const fast_compare_spread *)(const void *)((const char *)line + offset);
        char text[32];

        if (!line->shown)
            continue;
        row_begin(out, line->name);
        fputs("<span class=\"bar\">", out);
        if (isfinite(s->median) && most > 0)
            fprintf(out, "<i style=\"width:%.2f%%;background:var(--c%d)\"></i>",
                    100 * s->median / most, (int)(i % 8));
        if (bytes)
            fast__people_bytes(s->median, text);
        else if (isfinite(s->median))
            snprintf(text, sizeof text, "%.3g", s->median);
        else
            snprintf(text, sizeof text, "not told");
        fprintf(out, "</span><span>%s</span></div>\n", text);
    }
}

/* Charts of bytes sent, and of the divergence of replicas over time. */
static void amounts(const fast_compare *compare, FILE *out)
{
    const fast_chart chart = { .title = "Divergence of the replicas over time",
                               .x_title = "time",
                               .x = offsetof(fast_compare_point, time_s),
                               .y = offsetof(fast_compare_point, divergence),
                               .unit = FAST_CHART_SECONDS };

    fputs("<h2>Bytes sent</h2>\n<p class=\"soft\">by all workers and servers until the end of the "
          "run</p>\n",
          out);
    bars(compare, offsetof(fast_compared, bytes_sent), true, out);
    fputs("<h2>Staleness</h2>\n<p class=\"soft\">updates that were applied between the read of the "
          "model and the arrival of the gradient; mean of a run</p>\n",
          out);
    bars(compare, offsetof(fast_compared, staleness), false, out);
    fputs(
        "<h2>Divergence</h2>\n<p class=\"soft\">how far the workers' replicas are from their mean "
        "at evaluations; 0: all are equal</p>\n",
        out);
    if (!fast__chart_draw(&chart, compare->lines, compare->line_count, 0, out))
        fputs("<p>No line tells it.</p>\n", out);
}

/* The table of forecast and measured times of a step. */
static void model(const fast_compare *compare, FILE *out)
{
    fputs("<h2>Was the cost model right?</h2>\n<p class=\"soft\">the time of a worker's step as it "
          "was predicted before the run, and as it was measured</p>\n<div class=\"wide\"><table>"
          "<thead><tr><th>way</th><th>predicted</th><th>measured</th><th>measured / predicted</th>"
          "<th class=\"left\">verdict</th></tr></thead><tbody>\n",
          out);
    for (int64_t i = 0; i < compare->line_count; i++) {
        const fast_compared *line = &compare->lines[i];
        const double ratio = line->step_s.median / line->predicted_step_s.median;

        if (!line->shown)
            continue;
        fputs("<tr><td>", out);
        fast__html_text(out, line->name);
        fputs("</td>", out);
        time_cell(out, &line->predicted_step_s);
        time_cell(out, &line->step_s);
        if (isfinite(ratio))
            fprintf(out, "<td>%.2f</td><td class=\"left\">%s</td></tr>\n", ratio,
                    ratio > 1.25       ? "wrong: it took longer"
                    : ratio < 1 / 1.25 ? "wrong: it was quicker"
                                       : "right within 25%");
        else
            fputs("<td>-</td><td class=\"left\">no prediction</td></tr>\n", out);
    }
    fputs("</tbody></table></div>\n", out);
}

/* A cell with the outcome of a trial. */
static void trial_cell(const fast_compared *line, const fast_compared_run *trial, FILE *out)
{
    const fast_compare_measures *m = &trial->measures;
    const bool chosen = line->tuned == trial->tuned && line->tuned[0];
    char time[32];

    fprintf(out, "<td%s><small>", chosen ? " class=\"best\"" : "");
    fast__html_text(out, trial->tuned);
    fputs("</small><br>", out);
    if (!fast__run_is_whole(trial)) {
        fputs("<small>", out);
        fast__html_text(out, trial->status);
        fputs("</small></td>", out);
        return;
    }
    fast__people_time(m->time_to_target_s, time);
    if (isfinite(m->time_to_target_s))
        fprintf(out, "%s%s</td>", chosen ? "&#10003; " : "", time);
    else if (isfinite(m->test_accuracy))
        fprintf(out, "%s<small>%.1f%%</small></td>", chosen ? "&#10003; " : "",
                100 * m->test_accuracy);
    else
        fprintf(out, "%s<small>loss %.3g</small></td>", chosen ? "&#10003; " : "", m->test_loss);
}

/* The table of trials, by line and tuned value. */
static void tuning(const fast_compare *compare, FILE *out)
{
    fputs("<h2>What each was given</h2>\n", out);
    if (compare->trial_count == 0) {
        fputs("<p>No trials: every line ran as it is, with what its preset or the command says. "
              "<code>--tune lr=0.0125..0.8x2</code> gives all lines the same trials.</p>\n",
              out);
        return;
    }
    double samples, seconds;

    fast_compare_cost(compare, true, &samples, &seconds);
    fprintf(out,
            "<p>Trials were chosen by the searcher <code>%s</code>, at most %lld for each line, on "
            "%.4g%% of the training set that was held out, with seed %lld, which no run below has. "
            "What reached the target first, else what ended with the best accuracy, was then run "
            "with each seed on the test set. Cells are times to the target, or the accuracy where "
            "it was not reached; a trial that was stopped early has cost what it used. All trials "
            "took %.0f samples.</p>\n<div class=\"wide\"><table>\n<tbody>\n",
            compare->trials.searches[0]->name, (long long)compare->trial_count,
            100 * compare->holdout, (long long)compare->trial_seed, samples);
    for (int64_t i = 0; i < compare->line_count; i++) {
        const fast_compared *line = &compare->lines[i];

        fputs("<tr><td>", out);
        fast__html_text(out, line->name);
        fputs("</td>", out);
        for (int64_t k = 0; k < line->trial_count; k++)
            trial_cell(line, &line->trials[k], out);
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div>\n", out);
}

/* The commands that repeat each line's first run. */
static void commands(const fast_compare *compare, FILE *out)
{
    fputs("<h2>To repeat a line</h2>\n<p class=\"soft\">the command of its first seed; the others "
          "differ in <code>--seed</code> alone</p>\n",
          out);
    for (int64_t i = 0; i < compare->line_count; i++) {
        const fast_compared *line = &compare->lines[i];
        const fast_compared_run *run = line->runs[0].command ? line->runs : line->trials;

        if (!run->command)
            continue;
        fputs("<p><b>", out);
        fast__html_text(out, line->name);
        fputs("</b></p><pre>", out);
        fast__html_text(out, run->command);
        fputs("</pre>\n", out);
    }
}

void fast__report_write(const fast_compare *compare, const char *command, FILE *out)
{
    head(compare, command, out);
    table(compare, out);
    curves(compare, out);
    time_split(compare, out);
    amounts(compare, out);
    model(compare, out);
    tuning(compare, out);
    commands(compare, out);
    fprintf(
        out,
        "<p class=\"soft\">Made by fast %s. With <code>--transport sim</code> times are those of "
        "the simulated cluster and repeat on any machine; on others they are this machine's."
        "</p>\n</body></html>\n",
        fast_version());
}
