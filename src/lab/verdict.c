/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verdict: one paragraph for a person who has to choose. Which line, how sure that is, why, and
 * what is wrong with the others. Sentences are said only where there is something to say.
 *
 * Sentences, in their order, and when they are said:
 *
 *   Stopped before its end            the comparison was canceled
 *   No run has a result               the first line has no run that was measured to its end; this
 *                                     stands instead of a recommendation
 *   Choose A: it reached 95% first    the median time of the first line is finite: more than half
 *                                     of its seeds reached the target
 *   That is n times sooner than B     a line was beaten beyond the spread (find_reference)
 *   None reached ... Choose A: ...    no median is finite: by the accuracy or loss at the end
 *   B and C cannot be told apart      lines that the first does not beat (compare_rank.c); if one
 *                                     of them sends less than half of the bytes, it is named
 *   B reached it with some seeds      between one and all but one
 *   C never reached it                unless that is true of all lines; lines without a result have
 *                                     a sentence of their own
 *   D: 1 of 3 runs have no result     with the first reason
 *   The trials of E chose the edge    the best value may lie outside of the grid
 *   One seed shows no spread          the recommendation above rests on one run a line
 *   Nothing was tuned                 it may rest on a learning rate that suits one line
 *   The cost model ...                some line has a forecast; lines are named whose measured time
 *                                     of a step differs from it by more than a factor of 1.25
 *
 * Of lines that tie with A the verdict does not say that they are worse: A has the best median, and
 * the next sentence says that the seeds do not separate B from it.
 *
 * Names come from the user's words; they go through here as they are, and whoever shows the text
 * makes it safe for its medium.
 */
#include "lab/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A prediction is called wrong when it is off by more than this factor. */
#define MODEL_WRONG 1.25

void fast__people_time(double seconds, char text[32])
{
    if (isnan(seconds))
        snprintf(text, 32, "-");
    else if (isinf(seconds))
        snprintf(text, 32, "never");
    else if (seconds < 1e-3)
        snprintf(text, 32, "%.3g us", 1e6 * seconds);
    else if (seconds < 1)
        snprintf(text, 32, "%.3g ms", 1e3 * seconds);
    else if (seconds < 1000)
        snprintf(text, 32, "%.3g s", seconds);
    else
        snprintf(text, 32, "%.0f s", seconds);
}

void fast__people_bytes(double bytes, char text[32])
{
    static const char *const units[] = { "B", "kB", "MB", "GB", "TB", "PB" };
    int unit = 0;

    if (isnan(bytes)) {
        snprintf(text, 32, "-");
        return;
    }
    while (bytes >= 999.5 && unit < 5) {
        bytes /= 1000;
        unit++;
    }
    snprintf(text, 32, unit == 0 ? "%.0f %s" : "%.3g %s", bytes, units[unit]);
}

void fast__people_times(const fast_compare_spread *spread, char text[96])
{
    char median[32], min[32], max[32];

    fast__people_time(spread->median, median);
    fast__people_time(spread->min, min);
    fast__people_time(spread->max, max);
    if (strcmp(min, max) == 0)
        snprintf(text, 96, "%s", median);
    else
        snprintf(text, 96, "%.28s (%.28s to %.28s)", median, min, max);
}

/* Names of the lines that `takes` chooses, as "a, b and c"; their number. */
typedef bool takes_fn(const fast_compare *compare, const fast_compared *line);

/* Write the names of the lines that a function takes, joined by commas and "and". Return their
 * number. */
static int64_t put_names(FILE *out, const fast_compare *compare, takes_fn *takes)
{
    int64_t count = 0, said = 0;

    for (int64_t i = 0; i < compare->line_count; i++)
        count += takes(compare, &compare->lines[i]);
    for (int64_t i = 0; out && i < compare->line_count; i++) {
        if (!takes(compare, &compare->lines[i]))
            continue;
        fprintf(out, "%s%s",
                said == 0           ? ""
                : said + 1 == count ? " and "
                                    : ", ",
                compare->lines[i].name);
        said++;
    }
    return count;
}

/* True if the winner does not clearly beat a line: their ranges touch. */
static bool ties_with_first(const fast_compare *compare, const fast_compared *line)
{
    return line != compare->lines && !fast__line_beats(compare->lines, line) && line->shown;
}

/* True if no run of a line reached the target. */
static bool never_reached(const fast_compare *compare, const fast_compared *line)
{
    return compare->target > 0 && line->shown && line->reached_count == 0;
}

/* True if some runs of a line reached the target, and others did not. */
static bool sometimes_reached(const fast_compare *compare, const fast_compared *line)
{
    (void)compare;
    return line->reached_count > 0 && line->reached_count < line->run_count;
}

/* True if the forecast of a line's step is off by more than a factor of MODEL_WRONG. */
static bool predicted_wrong(const fast_compare *compare, const fast_compared *line)
{
    const double ratio = line->step_s.median / line->predicted_step_s.median;

    (void)compare;
    return isfinite(ratio) && (ratio > MODEL_WRONG || ratio < 1 / MODEL_WRONG);
}

/* True if a line has a forecast. */
static bool was_predicted(const fast_compare *compare, const fast_compared *line)
{
    (void)compare;
    return isfinite(line->step_s.median / line->predicted_step_s.median);
}

/* Was the first or the last of the trials chosen? Then better ones may lie beyond. With several
 * tuned options only the two extreme corners of the grid are noticed. Texts are compared by their
 * address, since fast__compare_choose() lends the text of the trial. */
static bool chose_the_edge(const fast_compare *compare, const fast_compared *line)
{
    const int64_t last = compare->trial_count - 1;

    return last > 0 && line->tuned[0] && line->shown &&
           (line->tuned == line->trials[0].tuned || line->tuned == line->trials[last].tuned);
}

/* The line that the first one is measured against: bsp if it is there and was beaten, else the last
 * line that reached the target and was beaten. */
static const fast_compared *find_reference(const fast_compare *compare)
{
    const fast_compared *found = NULL;

    for (int64_t i = 1; i < compare->line_count; i++) {
        const fast_compared *line = &compare->lines[i];

        if (!isfinite(line->time_to_target_s.median) || !fast__line_beats(compare->lines, line))
            continue;
        found = line;
        if (strcmp(line->name, "bsp") == 0)
            break;
    }
    return found;
}

/*
 * Say by which measure the winner beats another line. Time to the target is a product:
 *
 *   t = samples * (t / samples)     so     t1 / t2 = (samples1 / samples2) * (each1 / each2)
 *
 * The first factor is statistical efficiency, the second one is hardware efficiency. Factors within
 * 5% of 1 are called equal. Example: 0.5 times the time with 1.25 times the samples means that each
 * sample took 0.4 times as long. "but" joins factors that point in opposite directions.
 */
static void say_why(FILE *out, const fast_compared *first, const fast_compared *other)
{
    const double samples = first->samples.median / other->samples.median;
    const double times = first->time_to_target_s.median / other->time_to_target_s.median;
    const double each = times / samples;
    char time[32];

    fast__people_time(other->time_to_target_s.median, time);
    fprintf(out, " That is %.3g times sooner than %s (%s): ", 1 / times, other->name, time);
    if (samples < 0.95 || samples > 1.05)
        fprintf(out, "it needed %.2g times the samples, ", samples);
    else
        fputs("it needed as many samples, ", out);
    if (each < 0.95 || each > 1.05)
        fprintf(out, "%s %.2g times the time for each", (samples < 1) == (each < 1) ? "and" : "but",
                each);
    else
        fputs("and the same time for each", out);
    if (isfinite(first->wait_share.median) && isfinite(other->wait_share.median))
        fprintf(out, "; its workers waited %.0f%% of their time, those of %s %.0f%%",
                100 * first->wait_share.median, other->name, 100 * other->wait_share.median);
    fputc('.', out);
}

/* The best line, where a target is to be reached. */
static void say_first_timed(const fast_compare *compare, FILE *out)
{
    const fast_compared *first = compare->lines;
    const fast_compared *other = find_reference(compare);
    char times[96];

    fast__people_times(&first->time_to_target_s, times);
    fprintf(out, "Choose %s: it reached %.4g%% first, after %s", first->name, 100 * compare->target,
            times);
    if (first->run_count > 1)
        fprintf(out, " over %lld seeds", (long long)first->run_count);
    fprintf(out, "%s.",
            isfinite(first->shown->measures.virtual_time_s) ? " of the simulated cluster" : "");
    if (other)
        say_why(out, first, other);
}

/* The best line by what it has learned. */
static void say_first_scored(const fast_compare *compare, FILE *out)
{
    const fast_compared *first = compare->lines;
    const bool loss = isnan(first->accuracy.median);
    char time[32];

    fast__people_time(first->time_s.median, time);
    if (compare->target > 0)
        fprintf(out, "None reached %.4g%% with most seeds. ", 100 * compare->target);
    if (loss)
        fprintf(out,
                "Choose %s: it ended with the smallest test loss, %.4g (%.4g to %.4g), after "
                "%s.",
                first->name, first->test_loss.median, first->test_loss.min, first->test_loss.max,
                time);
    else
        fprintf(out,
                "Choose %s: it ended with the best accuracy, %.2f%% (%.2f to %.2f), after "
                "%s.",
                first->name, 100 * first->accuracy.median, 100 * first->accuracy.min,
                100 * first->accuracy.max, time);
}

/* Those that tie with the first, and which of them is the cheapest for the network. Less than half
 * of the first line's bytes is required: smaller savings are no reason to change the choice. */
static void say_ties(const fast_compare *compare, FILE *out)
{
    const fast_compared *first = compare->lines;
    const fast_compared *least = first;
    char few[32], many[32];

    if (put_names(NULL, compare, ties_with_first) == 0)
        return;
    fputc(' ', out);
    put_names(out, compare, ties_with_first);
    fprintf(out, " cannot be told apart from it here: %s.",
            compare->seed_count > 1 ? "the spreads over the seeds overlap"
                                    : "there is no difference");
    for (int64_t i = 1; i < compare->line_count; i++)
        if (ties_with_first(compare, &compare->lines[i]) &&
            compare->lines[i].bytes_sent.median < least->bytes_sent.median)
            least = &compare->lines[i];
    if (!(least->bytes_sent.median < 0.5 * first->bytes_sent.median))
        return;
    fast__people_bytes(least->bytes_sent.median, few);
    fast__people_bytes(first->bytes_sent.median, many);
    fprintf(out,
            " Of these, %s sends the least, %s instead of %s: choose it where the network is "
            "shared or slow.",
            least->name, few, many);
}

/* Say which lines tie with the winner, and which reached the target with some seeds only or never.
 * */
static void say_others(const fast_compare *compare, FILE *out)
{
    int64_t count;

    say_ties(compare, out);
    count = put_names(NULL, compare, sometimes_reached);
    if (count > 0) {
        fputc(' ', out);
        put_names(out, compare, sometimes_reached);
        fprintf(out, " reached the target with some seeds only.");
    }
    count = put_names(NULL, compare, never_reached);
    if (count > 0 && count < compare->line_count) {
        fputc(' ', out);
        put_names(out, compare, never_reached);
        fprintf(out, " never reached it.");
    }
    for (int64_t i = 0; i < compare->line_count; i++) {
        const fast_compared *line = &compare->lines[i];

        if (line->failed_count > 0)
            fprintf(out, " %s: %lld of %lld runs have no result (%s).", line->name,
                    (long long)line->failed_count, (long long)line->run_count,
                    line->error ? line->error : "stopped");
    }
    if (put_names(NULL, compare, chose_the_edge) > 0) {
        fputs(" The trials of ", out);
        put_names(out, compare, chose_the_edge);
        fputs(" chose the edge of what was tuned: a wider range may do more for them.", out);
    }
    if (!compare->lines[0].shown || compare->line_count == 1)
        return;
    if (compare->seed_count == 1)
        fputs(" One seed shows no spread: --seeds 3 finds ties.", out);
    if (compare->trial_count == 0)
        fputs(" Nothing was tuned: every line ran as it is; --tune lr=0.0125..0.8x2 gives all the "
              "same trials.",
              out);
}

/* Say how good the forecasts were. */
static void say_model(const fast_compare *compare, FILE *out)
{
    const int64_t count = put_names(NULL, compare, was_predicted);
    const int64_t wrong = put_names(NULL, compare, predicted_wrong);

    if (count == 0)
        return;
    if (wrong == 0) {
        fputs(" The cost model had every step's time right within 25%.", out);
        return;
    }
    fputs(" The cost model was off by more than 25% for", out);
    for (int64_t i = 0, said = 0; i < compare->line_count; i++) {
        const fast_compared *line = &compare->lines[i];
        char predicted[32], measured[32];

        if (!predicted_wrong(compare, line))
            continue;
        fast__people_time(line->predicted_step_s.median, predicted);
        fast__people_time(line->step_s.median, measured);
        fprintf(out, "%s %s (a step: predicted %s, measured %s)",
                said == 0           ? ""
                : said + 1 == wrong ? " and"
                                    : ",",
                line->name, predicted, measured);
        said++;
    }
    fputc('.', out);
}

fast_err fast__verdict(fast_compare *compare)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (!out)
        return fast__fail(FAST_ENOMEM, "no memory for the verdict");
    if (compare->canceled)
        fputs("Stopped before its end; of what there is: ", out);
    if (!compare->lines[0].shown)
        fputs("No run has a result.", out);
    else if (isfinite(compare->lines[0].time_to_target_s.median))
        say_first_timed(compare, out);
    else
        say_first_scored(compare, out);
    say_others(compare, out);
    say_model(compare, out);
    const bool failed = ferror(out) != 0;
    if (fclose(out) != 0 || failed) {
        free(text);
        return fast__fail(FAST_ENOMEM, "no memory for the verdict");
    }
    free(compare->verdict);
    compare->verdict = text;
    return FAST_OK;
}
