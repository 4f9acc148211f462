/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trials of a comparison: a search for each line, all with one seed and one searcher.
 *
 *   proposal of a searcher  ->  settings and command of a task
 *   evaluation of a task    ->  observation: progress, value, amount spent
 *
 *   progress   of a run with a budget the fraction of it that is spent, else the fraction of its
 *              steps
 *   value      1 - accuracy on the held-out part (the loss of regression), at least 0; of a trial
 *              that has reached the target -1 / amount, so that any of them is better than those
 *              that have not, and the smallest amount is best; INFINITY if it diverged
 *
 * Trials see the held-out part of the training set, never the test set (compare.c).
 */
#include "lab/compare.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

fast_err fast__trials_open(fast_compare *compare, const char *searcher)
{
    const char *spec = searcher && searcher[0] ? searcher : "grid";
    const int64_t lines = compare->line_count;

    if (compare->sweep.space.count == 0)
        return searcher && searcher[0]
                   ? fast__fail(FAST_EINVAL, "searcher=%.60s has nothing to search; give --tune",
                                searcher)
                   : FAST_OK;
    FAST_TRY(fast__alloc("searches", lines, sizeof *compare->searches, &compare->searches));
    for (int64_t i = 0; i < lines; i++)
        FAST_TRY(fast__search_open(spec, &compare->sweep.space, (uint64_t)compare->seed,
                                   &compare->searches[i]));
    for (int64_t i = 0; i < lines; i++)
        compare->searches[i]->restarts = !compare->sweep.simulated;
    const fast_search *first = compare->searches[0];
    compare->trial_count = fast__search_bound(first);
    return FAST_OK;
}

void fast__trials_close(fast_compare *compare)
{
    for (int64_t i = 0; compare->searches && i < compare->line_count; i++)
        fast__search_close(compare->searches[i]);
    fast__free(compare->searches);
}

fast_err fast__trials_next(fast_compare *compare, int64_t line, fast_compare_task **out,
                           bool *over_out)
{
    fast_search *search = compare->searches[line];
    int64_t id;

    *out = NULL;
    FAST_TRY(fast__search_propose(search, &id));
    *over_out = id == FAST_SEARCH_OVER;
    if (id < 0)
        return FAST_OK;
    FAST_ASSERT(id < compare->trial_count);
    fast_compare_task *task = &compare->tasks[line * compare->trial_count + id];
    if (task->argv.count == 0) {
        FAST_TRY(fast__search_space_words(&compare->sweep.space, search->trials[id].at,
                                          &task->settings));
        task->steps = compare->steps ? compare->steps[line] : 0;
        FAST_TRY(fast__task_make(compare, task, &task->settings, task->view->seed));
    }
    *out = task;
    return FAST_OK;
}

/* The value of a trial by a measure of it. */
static double value_of(double accuracy, double loss)
{
    return isfinite(accuracy) ? 1 - accuracy : isfinite(loss) ? loss : INFINITY;
}

/* The amount that a point has spent, in the measure of the budget. */
static double spent_at(const fast_budget *budget, const fast_compare_point *p)
{
    return budget->by == FAST_BY_TIME    ? p->time_s
           : budget->by == FAST_BY_BYTES ? p->bytes_sent
                                         : p->samples;
}

fast_err fast__trials_observe(fast_compare *compare, const fast_compare_task *task, bool ended,
                              fast_trial_order *order_out)
{
    const fast_budget *budget = &compare->budget;
    const fast_compared_run *view = task->view;
    const fast_compare_measures *m = &view->measures;
    fast_search *search = compare->searches[task->line];
    const int64_t id = task - compare->tasks - task->line * compare->trial_count;
    fast_observation o = { .progress = NAN, .value = INFINITY, .ended = ended };

    if (view->point_count > 0) {
        const fast_compare_point *last = &view->points[view->point_count - 1];

        o.spent = spent_at(budget, last);
        o.value = value_of(last->test_accuracy, last->test_loss);
        o.progress = budget->amount > 0 ? o.spent / budget->amount : last->progress;
    }
    if (ended && task->outcome && strcmp(task->outcome, "diverged") != 0) {
        const double amount = fast__budget_to_target(budget, m);

        o.reached = isfinite(amount);
        o.spent = o.reached ? amount : fast__budget_spent(budget, m);
        o.value = o.reached ? -1 / fmax(amount, 1e-300) : value_of(m->test_accuracy, m->test_loss);
    } else if (ended) {
        o.value = INFINITY;
    }
    FAST_TRY(fast__search_observe(search, id, &o));
    *order_out = fast__search_stop(search, id);
    return FAST_OK;
}

void fast_compare_cost(const fast_compare *compare, bool trials, double *samples_out,
                       double *seconds_out)
{
    *samples_out = *seconds_out = 0;
    for (int64_t i = 0; i < compare->task_count; i++) {
        const fast_compare_task *task = &compare->tasks[i];
        const fast_compare_measures *m = &task->view->measures;

        if (task->trial != trials)
            continue;
        /* A trial that was canceled has no result, but points on the way there. */
        const fast_compare_point *last =
            task->view->point_count > 0 ? &task->view->points[task->view->point_count - 1] : NULL;
        *samples_out += task->spent_before[0] + (isfinite(m->samples) ? m->samples
                                                 : last               ? (double)last->samples
                                                                      : 0);
        *seconds_out += task->spent_before[1] + (isfinite(m->time_s) ? m->time_s : 0);
    }
}
