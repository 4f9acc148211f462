/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Budgets: every run of a comparison may spend the same seconds, bytes or samples, and lines are
 * compared by the amount that they spend until the target.
 *
 * A schedule of learning rates needs the number of steps before the run starts, so a budget is no
 * clock that ends a run: it is turned into steps, and a run's command repeats it on any machine.
 *
 *   probe    a short run of each line, first 16 steps, then up to 8 times as many, until it has
 *            spent an eighth of the budget: periods of local steps and start-up are then small
 *   fit      steps = steps of the probe * budget / amount that the probe has spent
 *
 * Example: a budget of 10 s; 16 steps take 0.4 s, so the second probe takes 50 steps, 1.3 s: the
 * runs of this line take 384 steps. A line with rounds of 40 local steps sends nothing in the first
 * probe, and is probed again with 128 steps.
 *
 * A run may end a little before or after its budget, where its steps vary. A target that is reached
 * after the budget counts as not reached.
 */
#include "lab/compare.h"

#include "base/memory.h"
#include "base/option.h"

#include <math.h>
#include <string.h>

enum { PROBE_STEPS = 16, PROBE_GROWTH = 8, PROBES_MAX = 8, PROBE_PART = 8, SILENT_MAX = 3 };

/* Units of a budget. */
static const struct {
    const char *name;
    fast_compare_by by;
    double factor;
} units[] = {
    { "ms", FAST_BY_TIME, 1e-3 },      { "s", FAST_BY_TIME, 1 },
    { "min", FAST_BY_TIME, 60 },       { "h", FAST_BY_TIME, 3600 },
    { "B", FAST_BY_BYTES, 1 },         { "kB", FAST_BY_BYTES, 1e3 },
    { "MB", FAST_BY_BYTES, 1e6 },      { "GB", FAST_BY_BYTES, 1e9 },
    { "TB", FAST_BY_BYTES, 1e12 },     { "KiB", FAST_BY_BYTES, 0x1p10 },
    { "MiB", FAST_BY_BYTES, 0x1p20 },  { "GiB", FAST_BY_BYTES, 0x1p30 },
    { "samples", FAST_BY_SAMPLES, 1 },
};

fast_err fast__budget_read(const char *text, fast_budget *out)
{
    const size_t digits = strspn(text, "0123456789.eE+-");
    char number[64];

    *out = (fast_budget){ FAST_BY_TIME, 0 };
    if (!text[0])
        return FAST_OK;
    for (size_t i = 0; i < sizeof units / sizeof *units && digits < sizeof number; i++) {
        double value;

        if (digits == 0 || strcmp(text + digits, units[i].name) != 0)
            continue;
        snprintf(number, sizeof number, "%.*s", (int)digits, text);
        FAST_TRY(fast__parse_real("budget", number, &value));
        if (!(value > 0) || !isfinite(value * units[i].factor))
            break;
        *out = (fast_budget){ units[i].by, value * units[i].factor };
        return FAST_OK;
    }
    return fast__fail(FAST_EINVAL,
                      "budget=%.60s: write seconds of training as 10s, bytes sent as 5MB, or "
                      "samples as 100000samples",
                      text);
}

double fast__budget_spent(const fast_budget *budget, const fast_compare_measures *m)
{
    return budget->by == FAST_BY_TIME    ? m->time_s
           : budget->by == FAST_BY_BYTES ? m->bytes_sent
                                         : m->samples;
}

double fast__budget_to_target(const fast_budget *budget, const fast_compare_measures *m)
{
    double amount = m->time_to_target_s;

    /* A run ends at its target, so its bytes and samples are those until the target. */
    if (isfinite(amount) && budget->by != FAST_BY_TIME)
        amount = fast__budget_spent(budget, m);
    if (!isfinite(amount) || (budget->amount > 0 && amount > budget->amount))
        return INFINITY;
    return amount;
}

void fast__budget_text(const fast_budget *budget, double amount, char text[48])
{
    char number[32];

    if (budget->by == FAST_BY_TIME)
        fast__people_time(amount, number);
    else if (budget->by == FAST_BY_BYTES)
        fast__people_bytes(amount, number);
    else
        snprintf(number, sizeof number, "%.0f samples", amount);
    snprintf(text, 48, "%.46s", isinf(amount) ? "never" : number);
}

/* The value of an option of a line, else of the job; NULL if it was not given. */
static const char *option_of(const fast_compare *compare, const char *line, const char *name)
{
    for (int64_t i = 0; i < compare->sweep.line_count; i++)
        if (compare->sweep.lines[i].name == line) {
            const char *own = fast__words_value(&compare->sweep.lines[i].options, name);

            return own ? own : fast__words_value(&compare->sweep.job, name);
        }
    return NULL;
}

void fast__line_limit(const fast_compare *compare, const fast_compared *line, char text[96])
{
    const char *steps = option_of(compare, line->name, "steps");
    const char *epochs = option_of(compare, line->name, "epochs");
    const bool by_steps = steps && strcmp(steps, "0") != 0;
    char amount[48];

    if (compare->budget.amount > 0) {
        fast__budget_text(&compare->budget, compare->budget.amount, amount);
        snprintf(text, 96, "%s", amount);
        return;
    }
    fast__budget_text(&compare->budget, line->not_within, amount);
    snprintf(text, 96, "%.30s %s (%s)",
             by_steps ? steps
             : epochs ? epochs
                      : "8",
             by_steps ? "steps" : "epochs", amount);
}

/* Make the probe of a line again, with other steps. */
static fast_err make_probe(fast_compare *compare, fast_compare_task *task, fast_compared_run *view,
                           int64_t line, int64_t steps)
{
    fast__task_fini(task);
    *view = (fast_compared_run){ .status = "waiting", .tuned = "" };
    fast__read_measures(NULL, &view->measures);
    *task = (fast_compare_task){ .view = view, .line = line, .steps = steps, .unstored = true };
    return fast__task_make(compare, task, NULL, compare->trial_seed);
}

/* Look at a probe that has ended: the steps of its line are known, or *again_out is the number of
 * steps for the next probe. Steps of 0 stand for a line that cannot be fitted. */
static void read_probe(fast_compare *compare, fast_compare_task *task, int round,
                       int64_t *again_out)
{
    const fast_compare_measures *m = &task->view->measures;
    const double spent = fast__budget_spent(&compare->budget, m);
    /* A probe that reached the target took fewer steps than it was told. */
    const double steps =
        isfinite(m->time_to_target_s) && m->steps > 0 ? m->steps : (double)task->steps;

    *again_out = 0;
    compare->steps[task->line] = 0;
    if (!(m->samples > 0) || !isfinite(spent))
        return;
    if (spent <= 0) {
        snprintf(task->error, sizeof task->error,
                 "sent no byte in %.0f steps; give a budget of time or samples", steps);
        *again_out = round < SILENT_MAX ? task->steps * PROBE_GROWTH : 0;
        return;
    }
    task->error[0] = '\0';
    const double fit = floor(steps * compare->budget.amount / spent);
    if (fit < 1) {
        snprintf(task->error, sizeof task->error, "one step takes more than the budget");
        return;
    }
    compare->steps[task->line] = (int64_t)fmin(1e9, fit);
    if (round < PROBES_MAX && steps >= (double)task->steps &&
        spent * PROBE_PART < compare->budget.amount)
        *again_out = (int64_t)fmin(steps * PROBE_GROWTH, fmax(steps * 2, fit / PROBE_PART));
}

/* Mark everything of a line whose probe failed. */
static void fail_line(fast_compare *compare, const fast_compare_task *probe)
{
    for (int64_t i = 0; i < compare->task_count; i++) {
        fast_compare_task *task = &compare->tasks[i];

        if (task->line != probe->line)
            continue;
        task->view->status = "failed";
        snprintf(task->error, sizeof task->error, "%.255s",
                 probe->error[0] ? probe->error : "no step could be measured");
        task->view->error = task->error;
    }
}

fast_err fast__budget_fit(fast_compare *compare)
{
    const int64_t lines = compare->line_count;
    fast_compare_task *tasks = NULL;
    fast_compared_run *views = NULL;
    int64_t again = lines;
    fast_err err;

    if (!(compare->budget.amount > 0))
        return FAST_OK;
    err = fast__alloc("probes", lines, sizeof *tasks, &tasks);
    if (!err)
        err = fast__alloc("probes", lines, sizeof *views, &views);
    if (!err)
        err = fast__alloc("steps of lines", lines, sizeof *compare->steps, &compare->steps);
    for (int64_t i = 0; !err && i < lines; i++)
        err = make_probe(compare, &tasks[i], &views[i], i, PROBE_STEPS);
    for (int round = 1; !err && again > 0; round++) {
        err = fast__pool_run(compare, tasks, lines);
        again = 0;
        for (int64_t i = 0; !err && i < lines; i++) {
            int64_t steps;

            if (strcmp(views[i].status, "fitted") == 0)
                continue;
            read_probe(compare, &tasks[i], round, &steps);
            again += steps > 0;
            if (compare->steps[i] == 0 && steps == 0)
                fail_line(compare, &tasks[i]);
            if (steps > 0)
                err = make_probe(compare, &tasks[i], &views[i], i, steps);
            else
                views[i].status = "fitted";
        }
    }
    if (!err)
        err = fast__compare_make_tasks(compare);
    for (int64_t i = 0; tasks && i < lines; i++)
        fast__task_fini(&tasks[i]);
    fast__free(tasks);
    fast__free(views);
    return err;
}
