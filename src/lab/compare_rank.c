/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures of runs -> spreads, places and a verdict in words.
 *
 *   amount of a run      seconds, bytes or samples until the target (the unit of the budget;
 *                        without one seconds), INFINITY if it was not reached or the run failed
 *   bound of a run       the same, but the amount at its end if it was not reached: later than that
 *                        is all that is known. With a budget it is the budget
 *   a beats b            every amount of a is less than every bound of b; where no run of either
 *                        reached the target: every run of a ended more accurate than every one of b
 *   place of a line      1 + the lines that beat it: lines whose spreads overlap tie. Without a
 *                        budget a line whose median is "never" has no place beside lines that
 *                        reached the target: it was given the same epochs, not the same time
 *
 *   spread of a measure  median, least and largest over the seeds; values that are NAN are left out
 *                        median of v[0] <= ... <= v[n-1]: (v[(n-1)/2] + v[n/2]) / 2, indices
 *                        rounded down
 *
 * Spreads are the least and the largest of a few seeds, so "beats" is a rank test: with three seeds
 * against three, it happens at random in 1 of 20 cases for a given pair and direction. In general
 * that is 1 / C(2s, s) for s seeds: 1/2 for one, 1/6 for two, 1/20 for three, 1/252 for five. With
 * a single seed nothing but exact equality ties, and the verdict recommends more seeds.
 *
 * A run that failed or missed the target has an infinite amount, so it takes part in the spread:
 *
 *   times 3.1 3.4 3.2    median 3.2, 3.1 to 3.4
 *   times 3.1 inf 3.2    median 3.2, 3.1 to never: this line beats no other by time
 *   times 3.1 inf inf    median never: sorted by how many seeds reached it, then by accuracy
 *
 * The order of lines is by medians, places are by ranges, so places need not rise down the table: x
 * = 5 to 7, a = 10 to 12 (median 11), b = 1 to 30 (median 20) are listed x, a, b with the places 1,
 * 2, 1, since x beats a and nothing beats b.
 *
 * Why one line is faster is told as a product, which is exact for each run:
 *   time to target = samples until the target * time of a sample
 */
#include "lab/compare.h"

#include "base/memory.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

bool fast__run_is_whole(const fast_compared_run *run)
{
    return strcmp(run->status, "done") == 0 || strcmp(run->status, "target") == 0 ||
           strcmp(run->status, "patience") == 0;
}

fast_compare_spread fast__spread_of(double *values, int64_t count)
{
    int64_t used = 0;

    for (int64_t i = 0; i < count; i++) { /* insertion: a few seeds */
        const double value = values[i];
        int64_t at = used;

        if (isnan(value))
            continue;
        for (; at > 0 && values[at - 1] > value; at--)
            values[at] = values[at - 1];
        values[at] = value;
        used++;
    }
    if (used == 0)
        return (fast_compare_spread){ NAN, NAN, NAN };
    /* Both are one element for an odd number. Infinite times sort last, so the median is finite
       only if more than half of the seeds reached the target. */
    const double low = values[(used - 1) / 2], high = values[used / 2];
    return (fast_compare_spread){ low == high ? low : (low + high) / 2, values[0],
                                  values[used - 1] };
}

/* A number of a run for the spreads. */
typedef double value_fn(const fast_compared_run *run, size_t offset);

/* A measure of a run, by its offset in the struct. */
static double plain(const fast_compared_run *run, size_t offset)
{
    return fast__run_is_whole(run)
               ? *(const double *)(const void *)((const char *)&run->measures + offset)
               : NAN;
}

/* A time of a run; infinite if it was never reached, so that it sorts last. */
static double time_of(const fast_compared_run *run, size_t offset)
{
    const double time = plain(run, offset);

    return isfinite(time) ? time : INFINITY;
}

/* A run that diverged has learned nothing; one that failed says nothing. */
static double accuracy_of(const fast_compared_run *run, size_t offset)
{
    return strcmp(run->status, "diverged") == 0 ? 0 : plain(run, offset);
}

/* The part of a worker's time that a measure is: compute / (compute + exchange + wait + codec).
 * Medians of the four shares need not add up to 1, since each may come from another seed. */
static double share_of(const fast_compared_run *run, size_t offset)
{
    const fast_compare_measures *m = &run->measures;
    const double all = m->compute_s + m->exchange_s + m->wait_s + m->codec_s;

    return all > 0 ? plain(run, offset) / all : NAN;
}

/* Where a spread comes from. */
static const struct {
    size_t to;   /* the spread in the line */
    size_t from; /* the measure of a run */
    value_fn *value;
} rows[] = {
#define ROW(to, from, value)                                                      \
    {                                                                             \
        offsetof(fast_compared, to), offsetof(fast_compare_measures, from), value \
    }
    ROW(time_to_target_s, time_to_target_s, time_of),
    ROW(accuracy, test_accuracy, accuracy_of),
    ROW(test_loss, test_loss, plain),
    ROW(time_s, time_s, plain),
    ROW(samples, samples, plain),
    ROW(bytes_sent, bytes_sent, plain),
    ROW(compute_share, compute_s, share_of),
    ROW(codec_share, codec_s, share_of),
    ROW(exchange_share, exchange_s, share_of),
    ROW(wait_share, wait_s, share_of),
    ROW(staleness, staleness_mean, plain),
    ROW(staleness_max, staleness_max, plain),
    ROW(divergence, divergence, plain),
    ROW(step_s, step_s, plain),
    ROW(predicted_step_s, predicted_step_s, plain),
    ROW(samples_per_s, samples_per_s, plain),
#undef ROW
};

/* The run that stands for a line: whose time, else whose accuracy, is next to the median. */
static const fast_compared_run *find_shown(const fast_compared *line)
{
    const bool timed = isfinite(line->to_target.median);
    const fast_compared_run *best = NULL;
    double best_distance = INFINITY;

    for (int64_t i = 0; i < line->run_count; i++) {
        const fast_compared_run *run = &line->runs[i];
        const fast_compare_measures *m = &run->measures;
        const double distance = timed ? fabs(m->time_to_target_s - line->time_to_target_s.median)
                                : isfinite(line->accuracy.median)
                                    ? fabs(m->test_accuracy - line->accuracy.median)
                                    : fabs(m->test_loss - line->test_loss.median);

        if (fast__run_is_whole(run) && (!best || distance < best_distance)) {
            best = run;
            best_distance = distance;
        }
    }
    return best;
}

/* Compute the amounts until the target, and the least amount after which a run ended without it. */
static void rate_amounts(const fast_budget *budget, fast_compared *line, double *values)
{
    line->not_within = INFINITY;
    for (int64_t i = 0; i < line->run_count; i++) {
        const fast_compared_run *run = &line->runs[i];
        const double spent = fast__budget_spent(budget, &run->measures);

        values[i] =
            fast__run_is_whole(run) ? fast__budget_to_target(budget, &run->measures) : INFINITY;
        line->reached_count += isfinite(values[i]);
        if (isinf(values[i]) && fast__run_is_whole(run) && isfinite(spent))
            line->not_within = fmin(line->not_within, budget->amount > 0 ? budget->amount : spent);
    }
    line->to_target = fast__spread_of(values, line->run_count);
}

/* Compute the medians and ranges of a line's runs. */
static void rate_line(const fast_budget *budget, fast_compared *line, double *values)
{
    line->reached_count = line->failed_count = 0;
    line->error = NULL;
    rate_amounts(budget, line, values);
    for (int64_t i = 0; i < line->run_count; i++) {
        const fast_compared_run *run = &line->runs[i];

        line->failed_count += !fast__run_is_whole(run) && strcmp(run->status, "waiting") != 0;
        if (!line->error && run->error)
            line->error = run->error;
    }
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        for (int64_t i = 0; i < line->run_count; i++)
            values[i] = rows[k].value(&line->runs[i], rows[k].from);
        *(fast_compare_spread *)(void *)((char *)line + rows[k].to) =
            fast__spread_of(values, line->run_count);
    }
    line->shown = find_shown(line);
}

/* Accuracy, or the negative loss for regression, so that larger is better in both. Negation swaps
 * the ends of the range: the largest loss is the least score. */
static fast_compare_spread score_of(const fast_compared *line)
{
    const fast_compare_spread *l = &line->test_loss;

    return isnan(line->accuracy.median) ? (fast_compare_spread){ -l->median, -l->max, -l->min }
                                        : line->accuracy;
}

/* The relation is transitive (a.max < b.min <= b.max < c.min), but "ties" is not: a may tie with b,
 * and b with c, while a beats c. */
bool fast__line_beats(const fast_compared *a, const fast_compared *b)
{
    const fast_compare_spread x = score_of(a), y = score_of(b);

    if (!a->shown || !b->shown) /* a line without a result is behind all others */
        return a->shown != NULL;
    if (isfinite(a->to_target.max) && a->to_target.max < b->to_target.min &&
        a->to_target.max <= b->not_within)
        return true;
    /* A seed of either line reached the target and the ranges of times overlap: a tie. Accuracy
       decides only where time cannot, or a line could win by the measure that suits it. */
    if (isfinite(a->to_target.min) || isfinite(b->to_target.min))
        return false;
    return x.min > y.max;
}

/* Should `a` stand before `b`? */
static bool is_before(const fast_compared *a, const fast_compared *b)
{
    const double s = a->to_target.median, t = b->to_target.median;
    const fast_compare_spread x = score_of(a), y = score_of(b);

    if (isfinite(s) || isfinite(t))
        return s < t;
    if (a->reached_count != b->reached_count)
        return a->reached_count > b->reached_count;
    return isnan(y.median) ? !isnan(x.median) : x.median > y.median;
}

/* Median first; lines that are equal stay in the order of the sweep. */
static void sort_lines(const fast_budget *budget, fast_compared *lines, int64_t count)
{
    for (int64_t i = 1; i < count; i++) {
        const fast_compared line = lines[i];
        int64_t at = i;

        for (; at > 0 && is_before(&line, &lines[at - 1]); at--)
            lines[at] = lines[at - 1];
        lines[at] = line;
    }
    for (int64_t i = 0; i < count; i++) {
        lines[i].place = 1;
        for (int64_t k = 0; k < count; k++)
            lines[i].place += fast__line_beats(&lines[k], &lines[i]);
        if (budget->amount <= 0 && isfinite(lines[0].to_target.median) &&
            isinf(lines[i].to_target.median))
            lines[i].place = 0;
    }
}

fast_err fast__compare_rank(fast_compare *compare)
{
    double *values;

    FAST_TRY(fast__alloc("values of seeds", compare->seed_count, sizeof *values, &values));
    for (int64_t i = 0; i < compare->line_count; i++)
        rate_line(&compare->budget, &compare->lines[i], values);
    fast__free(values);
    sort_lines(&compare->budget, compare->lines, compare->line_count);
    for (int64_t i = 0; compare->canceled && i < compare->line_count; i++)
        compare->lines[i].place = 0; /* seeds that are missing have no time */
    return fast__verdict(compare);
}
