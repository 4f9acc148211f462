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
 *
 * Where trials start with models of others, each writes a checkpoint into a folder of the search,
 * and a trial resumes its parent's as a branch of that run: with its own settings. Samples of a
 * resumed run include those before it, its time and its bytes do not.
 */
#include "lab/compare.h"

#include "base/file.h"
#include "base/memory.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The checkpoint of a trial. */
static void model_path(const fast_compare *compare, int64_t trial, char path[FAST_PATH_MAX])
{
    snprintf(path, FAST_PATH_MAX, "%s/%lld.safetensors", compare->trials.folder, (long long)trial);
}

/* Make the folder of checkpoints: beside the user's file, to which the best one is moved, else a
 * temporary one. */
static fast_err make_models(fast_compare *compare)
{
    const char *temporary = getenv("TMPDIR");
    char path[FAST_PATH_MAX];

    if (compare->trials.checkpoint)
        snprintf(path, sizeof path, "%.4000s.XXXXXX", compare->trials.checkpoint);
    else
        snprintf(path, sizeof path, "%.4000s/fast-search-XXXXXX",
                 temporary && temporary[0] ? temporary : "/tmp");
    if (!mkdtemp(path))
        return fast__fail(FAST_EIO, "cannot make the folder %.200s for models of trials: %s", path,
                          strerror(errno));
    const fast_err err = fast__alloc("a path", FAST_PATH_MAX, 1, &compare->trials.folder);
    if (!err)
        memcpy(compare->trials.folder, path, FAST_PATH_MAX);
    return err;
}

/* Check what a searcher needs of the comparison, and make room for models. */
static fast_err check_forks(fast_compare *compare, const fast_search *search)
{
    static const char fixed[] =
        "|model|data|batch|accumulate|global_batch|shard|alpha|augment|codec|codec_down|feedback|"
        "codec_scope|codec_small|codec_sum|validation|monitor|best|class_weights|tied|";

    if (!search->searcher->forks && compare->trials.checkpoint)
        return fast__fail(FAST_EINVAL,
                          "checkpoint is of searchers whose trials start with models of others, "
                          "as pbt; with %s run the best setting with --checkpoint",
                          search->name);
    if (!search->searcher->forks)
        return FAST_OK;
    if (!compare->sweep.trials_only)
        return fast__fail(FAST_EINVAL,
                          "searcher %s trains one model with changing settings, which no run of a "
                          "comparison repeats; use fast search",
                          search->name);
    for (int64_t i = 0; i < search->space->count; i++) {
        char mark[72];

        snprintf(mark, sizeof mark, "|%.64s|", search->space->options[i].name);
        if (strstr(fixed, mark))
            return fast__fail(FAST_EINVAL,
                              "searcher %s cannot search %s: a trial resumes another one's "
                              "checkpoint, and those of a run have one %s",
                              search->name, search->space->options[i].name,
                              search->space->options[i].name);
    }
    return make_models(compare);
}

fast_err fast__trials_open(fast_compare *compare, const char *searcher)
{
    const char *spec = searcher && searcher[0] ? searcher : "grid";
    const int64_t lines = compare->line_count;

    if (compare->sweep.space.count == 0)
        return searcher && searcher[0]
                   ? fast__fail(FAST_EINVAL, "searcher=%.60s has nothing to search; give --tune",
                                searcher)
                   : FAST_OK;
    FAST_TRY(fast__alloc("searches", lines, sizeof *compare->trials.searches,
                         &compare->trials.searches));
    for (int64_t i = 0; i < lines; i++)
        FAST_TRY(fast__search_open(spec, &compare->sweep.space, (uint64_t)compare->seed,
                                   &compare->trials.searches[i]));
    for (int64_t i = 0; i < lines; i++)
        compare->trials.searches[i]->restarts = !compare->sweep.simulated;
    const fast_search *first = compare->trials.searches[0];
    compare->trial_count = fast__search_bound(first);
    for (int64_t i = 0; i < lines && compare->target > 0; i++)
        compare->trials.searches[i]->goal = 1 - compare->target;
    return check_forks(compare, first);
}

fast_err fast__trials_add_flags(fast_compare *compare, fast_compare_task *task)
{
    const int64_t parent = task->view->parent;
    char path[FAST_PATH_MAX];

    if (!compare->trials.folder)
        return FAST_OK;
    model_path(compare, task - compare->tasks, path);
    FAST_TRY(fast__words_add(&task->argv, "--checkpoint"));
    FAST_TRY(fast__words_add(&task->argv, path));
    FAST_TRY(fast__words_add(&task->argv, "--checkpoint-every"));
    FAST_TRY(fast__words_add(&task->argv, "end"));
    if (parent < 0)
        return FAST_OK;
    model_path(compare, parent, path);
    FAST_TRY(fast__words_add(&task->argv, "--resume"));
    FAST_TRY(fast__words_add(&task->argv, path));
    FAST_TRY(fast__words_add(&task->argv, "--branch"));
    return fast__words_add(&task->argv, "yes");
}

fast_err fast__trials_save(const fast_compare *compare)
{
    const fast_compared *line = &compare->lines[0];
    char path[FAST_PATH_MAX];

    for (int64_t i = 0;
         compare->trials.folder && compare->trials.checkpoint && i < line->trial_count; i++) {
        if (!line->tuned[0] || line->trials[i].tuned != line->tuned)
            continue;
        model_path(compare, i, path);
        if (rename(path, compare->trials.checkpoint) != 0)
            return fast__fail(FAST_EIO, "cannot write %.200s: %s", compare->trials.checkpoint,
                              strerror(errno));
    }
    return FAST_OK;
}

void fast__trials_close(fast_compare *compare)
{
    for (int64_t i = 0; compare->trials.searches && i < compare->line_count; i++)
        fast__search_close(compare->trials.searches[i]);
    fast__free(compare->trials.searches);
    for (int64_t i = 0; compare->trials.folder && i < compare->trial_count; i++) {
        char path[FAST_PATH_MAX];

        model_path(compare, i, path);
        unlink(path);
        fast__file_sweep(path);
    }
    if (compare->trials.folder)
        rmdir(compare->trials.folder);
    fast__free(compare->trials.folder);
}

fast_err fast__trials_next(fast_compare *compare, int64_t line, fast_compare_task **out,
                           bool *over_out)
{
    fast_search *search = compare->trials.searches[line];
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
        task->view->parent = search->trials[id].parent;
        if (task->view->parent >= 0) {
            const fast_compared_run *parent = compare->tasks[task->view->parent].view;

            task->view->samples_before = parent->measures.samples;
            task->view->time_before_s = parent->time_before_s + parent->measures.time_s;
        }
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
    fast_search *search = compare->trials.searches[task->line];
    const int64_t id = task - compare->tasks - task->line * compare->trial_count;
    const fast_trial *trial = &search->trials[id];
    const bool samples = budget->by == FAST_BY_SAMPLES; /* those of parents are among them */
    const double before = trial->parent >= 0 && !samples ? search->trials[trial->parent].spent : 0;
    fast_observation o = { .progress = NAN, .value = INFINITY, .ended = ended };

    if (view->point_count > 0) {
        const fast_compare_point *last = &view->points[view->point_count - 1];

        o.spent = before + spent_at(budget, last);
        o.value = value_of(last->test_accuracy, last->test_loss);
        o.progress = budget->amount > 0 ? o.spent / budget->amount : last->progress;
    }
    if (ended && task->outcome && strcmp(task->outcome, "diverged") != 0) {
        const double amount = before + fast__budget_to_target(budget, m);

        o.reached = isfinite(amount);
        o.spent = o.reached ? amount : before + fast__budget_spent(budget, m);
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
        /* A trial that was canceled has no result, but points of its curve. */
        const fast_compare_point *last =
            task->view->point_count > 0 ? &task->view->points[task->view->point_count - 1] : NULL;
        const double samples = isfinite(m->samples) ? m->samples
                               : last               ? (double)last->samples
                                                    : task->view->samples_before;
        *samples_out += task->spent_before[0] + samples - task->view->samples_before;
        *seconds_out += task->spent_before[1] + (isfinite(m->time_s) ? m->time_s : 0);
    }
}
