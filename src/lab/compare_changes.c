/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of the answer: the cost model is asked about a slower network and about more
 * workers, and its answer is verified by simulations.
 *
 *   network   a tenth of the bandwidth of the cluster (a preset; a file is left as it is)
 *   workers   twice as many, unless the workers are an axis
 *
 * For each of them, and each line that reached the target:
 *
 *   forecast  a run of 8 steps gives the model's time of a step, s'. The samples until the target
 *             are taken as they were, so that t' = t * s'/s * P/P' for P workers; s is the model's
 *             time of a step as it is now, by which its error cancels
 *   verify    the line with the least t' and the best of the others are simulated once, with the
 *             first seed, until the target
 *
 * Example: easgd 5.65 s, a step 26.7 ms by the model; with a tenth of the bandwidth 31.2 ms, so 6.6
 * s. fedavg 7.30 s hardly sends: 7.4 s. easgd stays first; both are simulated.
 *
 * The cost for L lines is 2 L forecasts of 8 steps and 4 runs. Forecasts are not stored.
 */
#include "lab/compare.h"

#include "base/memory.h"
#include "transport/sim/cluster.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FORECAST_STEPS = 8, CANDIDATES_MAX = 8 };

/* The runs of one change while they are made. */
typedef struct change_runs {
    fast_compare *compare;                   /* the comparison */
    fast_compare_change *change;             /* the result */
    fast_words options;                      /* in place of the job's */
    fast_words forecast;                     /* the same, and few steps */
    const fast_compared *at[CANDIDATES_MAX]; /* lines that reached the target, best first */
    double predicted[CANDIDATES_MAX];        /* time to target of each with the change */
    int64_t count;                           /* number of lines */
} change_runs;

/* The number of a line in the sweep, by its name's address. */
static int64_t line_number(const fast_compare *compare, const fast_compared *line)
{
    for (int64_t i = 0; i < compare->sweep.line_count; i++)
        if (compare->sweep.lines[i].name == line->name)
            return i;
    FAST_ASSERT(!"a line of the sweep");
    return 0;
}

/* The tuned options that the trials of a line chose; NULL if nothing was tuned. */
static const fast_words *chosen(const fast_compare *compare, const fast_compared *line)
{
    for (int64_t i = 0; i < line->trial_count; i++)
        if (line->tuned == line->trials[i].tuned)
            return &compare->tasks[line_number(compare, line) * compare->trial_count + i].settings;
    return NULL;
}

/* Run a list of lines with some options changed; their measures are NAN where a run failed. */
static fast_err run_lines(fast_compare *compare, const fast_compared *const *lines, int64_t count,
                          const fast_words *changes, bool stored, fast_compare_measures *out)
{
    fast_compare_task tasks[CANDIDATES_MAX] = { 0 };
    fast_compared_run views[CANDIDATES_MAX] = { 0 };
    fast_err err = FAST_OK;

    FAST_ASSERT(count <= CANDIDATES_MAX);
    for (int64_t i = 0; !err && i < count; i++) {
        const int64_t number = line_number(compare, lines[i]);

        views[i] = (fast_compared_run){ .status = "waiting", .tuned = "" };
        fast__read_measures(NULL, &views[i].measures);
        tasks[i] = (fast_compare_task){
            .view = &views[i], .line = number, .changes = changes, .unstored = !stored
        };
        if (compare->steps && !fast__words_value(changes, "steps"))
            tasks[i].steps = compare->steps[number];
        err = fast__task_make(compare, &tasks[i], chosen(compare, lines[i]), compare->seed);
    }
    if (!err)
        err = fast__pool_run(compare, tasks, count);
    for (int64_t i = 0; i < count; i++) {
        out[i] = views[i].measures;
        fast__task_fini(&tasks[i]);
    }
    return err;
}

/* Find the option of a slower network; false where the cluster is a file or has its bandwidth
 * given. */
static bool slower_network(const fast_compare *compare, char option[160])
{
    const char *text = fast__words_value(&compare->sweep.job, "cluster");
    fast_cluster *cluster = NULL;

    for (int64_t i = 0; i < compare->sweep.line_count; i++)
        if (fast__words_value(&compare->sweep.lines[i].options, "cluster"))
            return false;
    text = text && *text ? text : "ethernet-10g";
    if (strchr(text, '/') || strchr(text, '.') || strstr(text, "bandwidth=") || strlen(text) > 80 ||
        fast__cluster_open(text, &cluster) != FAST_OK)
        return false;
    const double each = cluster->link.ns_per_byte;
    fast__cluster_free(cluster);
    snprintf(option, 160, "cluster=%s%sbandwidth=%.6g", text, strchr(text, ':') ? "," : ":",
             1e8 / each);
    return each > 0;
}

/* Find the option of more workers; false where the workers are an axis. */
static bool more_workers(const fast_compare *compare, char option[160], double *workers_out)
{
    const double workers = compare->lines[0].shown->measures.workers;

    for (int64_t i = 0; i < compare->sweep.line_count; i++)
        if (fast__words_value(&compare->sweep.lines[i].options, "workers"))
            return false;
    *workers_out = workers;
    snprintf(option, 160, "workers=%.0f", 2 * workers);
    return workers >= 1;
}

/* Ask the cost model for each line's time to the target with the change. Lines without a forecast
 * are left out. */
static fast_err forecast(change_runs *r)
{
    fast_compare_measures measures[CANDIDATES_MAX];
    int64_t left = 0;

    FAST_TRY(run_lines(r->compare, r->at, r->count, &r->forecast, false, measures));
    for (int64_t i = 0; i < r->count; i++) {
        const fast_compared *line = r->at[i];
        const double time = line->time_to_target_s.median * measures[i].predicted_step_s /
                            line->predicted_step_s.median * line->shown->measures.workers /
                            measures[i].workers;

        if (!isfinite(time))
            continue;
        r->at[left] = line;
        r->predicted[left++] = time;
    }
    r->count = left;
    return FAST_OK;
}

/* Simulate the line that the model expects first, and the best of the others by the model. */
static fast_err verify(change_runs *r)
{
    fast_compare_change *c = r->change;
    fast_compare_measures measures[2];
    const fast_compared *pair[2];
    int64_t first = 0, second = -1;

    for (int64_t i = 1; i < r->count; i++)
        if (r->predicted[i] < r->predicted[first])
            first = i;
    for (int64_t i = 0; i < r->count; i++)
        if (i != first && (second < 0 || r->predicted[i] < r->predicted[second]))
            second = i;
    if (second < 0)
        return FAST_OK;
    pair[0] = r->at[first];
    pair[1] = r->at[first == 0 ? second : 0]; /* another first line is verified against the best */
    FAST_TRY(run_lines(r->compare, pair, 2, &r->options, true, measures));
    *c = (fast_compare_change){ .what = c->what,
                                .first = pair[0]->name,
                                .other = pair[1]->name,
                                .predicted_s = r->predicted[first],
                                .first_s = measures[0].time_to_target_s,
                                .other_s = measures[1].time_to_target_s };
    return FAST_OK;
}

/* Look at one change. */
static fast_err look(fast_compare *compare, const char *what, const char *option)
{
    static const char *const few[] = { "target=0", "evaluate=no", "epochs=1" };
    change_runs r = { .compare = compare,
                      .change = &compare->changes.items[compare->changes.count] };
    char steps[32];
    fast_err err;

    r.change->what = what;
    for (int64_t i = 0; i < compare->line_count && r.count < CANDIDATES_MAX; i++)
        if (isfinite(compare->lines[i].to_target.median))
            r.at[r.count++] = &compare->lines[i];
    snprintf(steps, sizeof steps, "steps=%d", FORECAST_STEPS);
    err = fast__words_add(&r.options, option);
    if (!err)
        err = fast__words_add(&r.forecast, option);
    for (size_t i = 0; !err && i < sizeof few / sizeof *few; i++)
        err = fast__words_add(&r.forecast, few[i]);
    if (!err)
        err = fast__words_add(&r.forecast, steps);
    if (!err)
        err = forecast(&r);
    if (!err && r.count > 1)
        err = verify(&r);
    if (!err && r.change->first)
        compare->changes.count++;
    fast__words_fini(&r.options);
    fast__words_fini(&r.forecast);
    return err;
}

fast_err fast__compare_changes(fast_compare *compare)
{
    char option[160];
    double workers = 0;

    compare->changes.count = 0;
    if (!compare->changes.asked || compare->line_count < 2 || compare->budget.by != FAST_BY_TIME ||
        !isfinite(compare->lines[0].to_target.median) ||
        !isfinite(compare->lines[0].shown->measures.virtual_time_s))
        return FAST_OK;
    if (slower_network(compare, option))
        FAST_TRY(look(compare, "a tenth of the bandwidth", option));
    if (more_workers(compare, option, &workers))
        FAST_TRY(look(compare, "twice the workers", option));
    return FAST_OK;
}
