/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verdict: one paragraph for a person who has to choose. Which line, how sure that is, why, and
 * what is wrong with the others. Sentences are said only where there is something to say.
 *
 * Sentences, in their order, and when they are said:
 *
 *   Incomplete: no recommendation     the comparison was canceled: a line may lack its best run
 *   No run has a result               the first line has no run that was measured to its end; this
 *                                     stands instead of a recommendation
 *   Choose A: it reached 95% first    the median of the first line is finite: more than half of its
 *                                     seeds reached the target
 *   That is n times sooner than B     a line was beaten beyond the spread (find_reference): by how
 *                                     much in time, samples and bytes, and how long both waited
 *   None reached ... Choose A: ...    no median is finite: by the accuracy or loss at the end
 *   B and C cannot be told apart      lines that the first does not beat (compare_rank.c); if one
 *                                     of them sends less than half of the bytes, it is named
 *   B ended before A was there        without a budget, B's runs ended earlier than A's target: B
 *                                     may be sooner, and A is the choice among the others only
 *   B reached it with some seeds      between one and all but one
 *   C: not within 3 epochs (4.19 s)   unless that is true of all lines; lines without a result have
 *                                     a sentence of their own
 *   D: 1 of 3 runs have no result     with the first reason
 *   The batches differ                a step of one line learns from more samples than another's
 *   The trials of E chose the edge    the best value may lie outside of the grid
 *   One seed shows no spread          the recommendation above rests on one run a line
 *   Nothing was tuned                 it may rest on a learning rate that suits one line
 *   The cost model ...                some line has a forecast; lines are named whose measured time
 *                                     of a step differs from it by more than a factor of 1.25
 *
 *   With twice the workers ...        the cost model's answer to a change, and two simulations
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
/* A value this close to the end of a range is at its edge, as a fraction of the range. */
#define EDGE 0.02

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

bool fast__line_is_open(const fast_compare *compare, const fast_compared *line)
{
    const fast_compared *first = compare->lines;
    const double late =
        isfinite(first->to_target.max) ? first->to_target.max : first->to_target.median;

    return line != first && line->shown && isfinite(late) && isinf(line->to_target.median) &&
           line->not_within < late;
}

bool fast__line_ties(const fast_compare *compare, const fast_compared *line)
{
    return line != compare->lines && line->shown && !fast__line_beats(compare->lines, line) &&
           !fast__line_is_open(compare, line);
}

/* True if no run of a line reached the target, and it had as long as the first line. */
static bool never_reached(const fast_compare *compare, const fast_compared *line)
{
    return compare->target > 0 && line->shown && line->reached_count == 0 &&
           !fast__line_is_open(compare, line);
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

/* The text of an option in "lr=0.1 momentum=0.9" by its number, with its length; NULL past the
 * last. */
static const char *tuned_option(const char *tuned, int64_t number, size_t *length_out)
{
    for (; number > 0 && tuned; number--) {
        tuned = strchr(tuned, ' ');
        tuned = tuned ? tuned + 1 : NULL;
    }
    *length_out = tuned ? strcspn(tuned, " ") : 0;
    return tuned && *tuned ? tuned : NULL;
}

/* The values of each option are tried in their order, so the first and the last trial have its
 * ends. A range has two ends where they differ. */
/* True if a value is the first or the last of a searched option. Names have no order. */
static bool is_edge(const fast_search_option *o, const char *text, size_t size)
{
    const fast_words *v = &o->values;
    const char *equals = memchr(text, '=', size);

    if (!o->numbers || !equals)
        return false;
    for (int64_t i = 0; v->count > 1 && i < v->count; i += v->count - 1)
        if (strlen(v->items[i]) == size && strncmp(v->items[i], text, size) == 0)
            return true;
    const double x = strtod(equals + 1, NULL);
    const double u =
        o->log ? log(x / o->low) / log(o->high / o->low) : (x - o->low) / (o->high - o->low);
    return v->count == 0 && (u < EDGE || u > 1 - EDGE);
}

bool fast__line_edge(const fast_compare *compare, const fast_compared *line, char text[64])
{
    const fast_search_space *space = &compare->sweep.space;

    for (int64_t k = 0; k < space->count && line->tuned[0] && line->shown; k++) {
        size_t size;
        const char *at = tuned_option(line->tuned, k, &size);

        if (!at || !is_edge(&space->options[k], at, size))
            continue;
        snprintf(text, 64, "%.*s", (int)size, at);
        return true;
    }
    return false;
}

/* True if a line's trials chose the edge of a range. */
static bool chose_the_edge(const fast_compare *compare, const fast_compared *line)
{
    char text[64];

    return fast__line_edge(compare, line, text);
}

/* The line that the first one is measured against: bsp if it is there and was beaten, else the last
 * line that reached the target and was beaten. */
static const fast_compared *find_reference(const fast_compare *compare)
{
    const fast_compared *found = NULL;

    for (int64_t i = 1; i < compare->line_count; i++) {
        const fast_compared *line = &compare->lines[i];

        if (!isfinite(line->to_target.median) || !fast__line_beats(compare->lines, line))
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
static void say_why(FILE *out, const fast_budget *budget, const fast_compared *first,
                    const fast_compared *other)
{
    const double samples = first->samples.median / other->samples.median;
    const double times = first->time_to_target_s.median / other->time_to_target_s.median;
    const double bytes = first->bytes_sent.median / other->bytes_sent.median;
    const double each = times / samples;
    char amount[48];

    fast__budget_text(budget, other->to_target.median, amount);
    if (budget->by == FAST_BY_TIME)
        fprintf(out, " That is %.3g times sooner than %s (%s): ", 1 / times, other->name, amount);
    else
        fprintf(out, " That is %.3g times as much as %s (%s), in %.3g times the time: ",
                first->to_target.median / other->to_target.median, other->name, amount, times);
    if (samples < 0.95 || samples > 1.05)
        fprintf(out, "it needed %.2g times the samples, ", samples);
    else
        fputs("it needed as many samples, ", out);
    if (each < 0.95 || each > 1.05)
        fprintf(out, "%s %.2g times the time for each", (samples < 1) == (each < 1) ? "and" : "but",
                each);
    else
        fputs("and the same time for each", out);
    if (isfinite(bytes) && budget->by != FAST_BY_BYTES)
        fprintf(out, "; it sent %.2g times the bytes", bytes);
    if (isfinite(first->wait_share.median) && isfinite(other->wait_share.median))
        fprintf(out, "; its workers waited %.0f%% of their time, those of %s %.0f%%",
                100 * first->wait_share.median, other->name, 100 * other->wait_share.median);
    fputc('.', out);
}

/* An amount with its range: "5.65 s (5.65 s to 6.09 s)". */
static void put_amounts(FILE *out, const fast_budget *budget, const fast_compare_spread *s)
{
    char median[48], min[48], max[48];

    fast__budget_text(budget, s->median, median);
    fast__budget_text(budget, s->min, min);
    fast__budget_text(budget, s->max, max);
    fputs(median, out);
    if (strcmp(min, max) != 0)
        fprintf(out, " (%s to %s)", min, max);
}

/* The best line, where a target is to be reached. */
static void say_first_timed(const fast_compare *compare, FILE *out)
{
    const fast_budget *budget = &compare->budget;
    const fast_compared *first = compare->lines;
    const fast_compared *other = find_reference(compare);
    const bool open = put_names(NULL, compare, fast__line_is_open) > 0;

    fprintf(out, "Choose %s%s: it reached %.4g%% %s, after ", first->name,
            open ? ", as far as this comparison goes" : "", 100 * compare->target,
            budget->by == FAST_BY_TIME    ? "first"
            : budget->by == FAST_BY_BYTES ? "with the fewest bytes"
                                          : "with the fewest samples");
    put_amounts(out, budget, &first->to_target);
    if (first->run_count > 1)
        fprintf(out, " over %lld seeds", (long long)first->run_count);
    fprintf(out, "%s.",
            isfinite(first->shown->measures.virtual_time_s) ? " of the simulated cluster" : "");
    if (other)
        say_why(out, budget, first, other);
    for (int64_t i = 1; i < compare->line_count; i++) {
        const fast_compared *line = &compare->lines[i];
        char limit[96];

        if (!fast__line_is_open(compare, line))
            continue;
        fast__line_limit(compare, line, limit);
        fprintf(out,
                " %s has no place: its runs ended after %s, before %s was there, so it may be "
                "sooner; --budget ",
                line->name, limit, first->name);
        fprintf(out, "%.3gs gives all lines the same time.", 1.2 * first->to_target.max);
    }
}

/* Without a budget lines get the same epochs: say how their times differ. */
static void say_times(const fast_compare *compare, FILE *out)
{
    double least = INFINITY, most = 0;
    char low[32], high[32];

    for (int64_t i = 0; i < compare->line_count; i++) {
        least = fmin(least, compare->lines[i].time_s.median);
        most = fmax(most, compare->lines[i].time_s.median);
    }
    if (compare->budget.amount > 0 || !(most > MODEL_WRONG * least))
        return;
    fast__people_time(least, low);
    fast__people_time(most, high);
    fprintf(out, " The lines took %s to %s: --budget gives all the same time.", low, high);
}

/* The best line by what it has learned. */
static void say_first_scored(const fast_compare *compare, FILE *out)
{
    const fast_compared *first = compare->lines;
    const bool loss = isnan(first->accuracy.median);
    char time[32];

    fast__people_time(first->time_s.median, time);
    if (compare->target > 0) {
        char limit[96];

        fast__line_limit(compare, first, limit);
        fprintf(out, "None reached %.4g%% with most seeds", 100 * compare->target);
        fprintf(out, "%s%s. ", compare->budget.amount > 0 ? " within " : "",
                compare->budget.amount > 0 ? limit : "");
    }
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
    say_times(compare, out);
}

/* Those that tie with the first, and which of them is the cheapest for the network. Less than half
 * of the first line's bytes is required: smaller savings are no reason to change the choice. */
static void say_ties(const fast_compare *compare, FILE *out)
{
    const fast_compared *first = compare->lines;
    const fast_compared *least = first;
    char few[32], many[32];

    if (put_names(NULL, compare, fast__line_ties) == 0)
        return;
    fputc(' ', out);
    put_names(out, compare, fast__line_ties);
    fprintf(out, " cannot be told apart from it here: %s.",
            compare->seed_count > 1 ? "the spreads over the seeds overlap"
                                    : "there is no difference");
    for (int64_t i = 1; i < compare->line_count; i++)
        if (fast__line_ties(compare, &compare->lines[i]) &&
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

/* Say which lines were tuned to the edge of a range, and to which value. */
static void say_edges(const fast_compare *compare, FILE *out)
{
    int64_t said = 0;

    fputs(" The trials of", out);
    for (int64_t i = 0; i < compare->line_count; i++) {
        const fast_compared *line = &compare->lines[i];
        char value[64];

        if (fast__line_edge(compare, line, value))
            fprintf(out, "%s %s (%s)", said++ ? "," : "", line->name, value);
    }
    fputs(" chose the edge of what was tuned: a wider range may do more for them.", out);
}

/* Warn where the samples of a worker's step differ between lines. */
static void say_batches(const fast_compare *compare, FILE *out)
{
    double least = INFINITY, most = 0;
    const char *few = "", *many = "";

    for (int64_t i = 0; i < compare->line_count; i++) {
        const fast_compared *line = &compare->lines[i];
        const double batch = line->shown ? line->shown->measures.batch : NAN;

        if (batch < least) {
            least = batch;
            few = line->name;
        }
        if (batch > most) {
            most = batch;
            many = line->name;
        }
    }
    if (least < most)
        fprintf(out,
                " The batches differ: %s takes %.0f samples a worker and step, %s %.0f, so they "
                "differ in more than their way of training; --batch gives all the same.",
                few, least, many, most);
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
    for (int64_t i = 0; count < compare->line_count && i < compare->line_count; i++) {
        const fast_compared *line = &compare->lines[i];
        char limit[96];

        if (!never_reached(compare, line))
            continue;
        fast__line_limit(compare, line, limit);
        fprintf(out, " %s: not within %s.", line->name, limit);
    }
    for (int64_t i = 0; i < compare->line_count; i++) {
        const fast_compared *line = &compare->lines[i];

        if (line->failed_count > 0)
            fprintf(out, " %s: %lld of %lld runs have no result (%s).", line->name,
                    (long long)line->failed_count, (long long)line->run_count,
                    line->error ? line->error : "stopped");
    }
    say_batches(compare, out);
    if (put_names(NULL, compare, chose_the_edge) > 0)
        say_edges(compare, out);
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

/* Say what would change the answer: the model's answer to each change, and the simulations'. */
static void say_changes(const fast_compare *compare, FILE *out)
{
    for (int64_t i = 0; i < compare->changes.count; i++) {
        const fast_compare_change *c = &compare->changes.items[i];
        const bool stays = c->first == compare->lines[0].name;
        const bool right = c->first_s < c->other_s || isnan(c->other_s);
        char predicted[32], first[32], other[32];

        fast__people_time(c->predicted_s, predicted);
        fast__people_time(isfinite(c->first_s) ? c->first_s : INFINITY, first);
        fast__people_time(isfinite(c->other_s) ? c->other_s : INFINITY, other);
        if (right && isfinite(c->first_s))
            fprintf(out,
                    " With %s %s %s: %s by the cost model, %s in a simulation with one seed (%s: "
                    "%s).",
                    c->what, c->first, stays ? "stays first" : "would be first", predicted, first,
                    c->other, other);
        else if (!isfinite(c->first_s) && !isfinite(c->other_s))
            fprintf(out,
                    " With %s the cost model expects %s first, after %s, but in a simulation with "
                    "one seed neither it nor %s reached the target.",
                    c->what, c->first, predicted, c->other);
        else
            fprintf(out,
                    " With %s the cost model expects %s first, after %s, but a simulation with one "
                    "seed does not agree: %s, and %s: %s.",
                    c->what, c->first, predicted, first, c->other, other);
    }
}

/* A stopped comparison recommends nothing: seeds that are missing are not seeds that failed. */
static void say_incomplete(const fast_compare *compare, FILE *out)
{
    int64_t done = 0;

    for (int64_t i = 0; i < compare->task_count; i++)
        done += fast__run_is_whole(&compare->views[i]) ||
                strcmp(compare->views[i].status, "diverged") == 0;
    fprintf(out, "Incomplete: no recommendation. %lld of %lld runs have a result.", (long long)done,
            (long long)compare->task_count);
}

fast_err fast__verdict(fast_compare *compare)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (!out)
        return fast__fail(FAST_ENOMEM, "no memory for the verdict");
    if (compare->canceled) {
        say_incomplete(compare, out);
    } else {
        if (!compare->lines[0].shown)
            fputs("No run has a result.", out);
        else if (isfinite(compare->lines[0].to_target.median))
            say_first_timed(compare, out);
        else
            say_first_scored(compare, out);
        say_others(compare, out);
        say_model(compare, out);
        say_changes(compare, out);
    }
    const bool failed = ferror(out) != 0;
    if (fclose(out) != 0 || failed) {
        free(text);
        return fast__fail(FAST_ENOMEM, "no memory for the verdict");
    }
    free(compare->verdict);
    compare->verdict = text;
    return FAST_OK;
}
