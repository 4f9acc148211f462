/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of a comparison as processes, a few at a time.
 *
 * Trials of all lines come first, as their searchers propose them; the runs of a line wait until
 * its search is over and something was chosen. A process prints a line of JSON for each evaluation
 * (--log /dev/stdout) and one for the result; what it says on standard error last is the reason
 * where it fails. When points of a run fill their room every other one is dropped, and from then on
 * every other evaluation is left out: curves have their shape in bounded memory.
 *
 *   fast compare                        a place of the pool
 *     start_some()   a process -------> fast train ... --log /dev/stdout --quiet --json
 *     task_read()    <--- stdout pipe   {"time_s":..,"test_accuracy":..}   an evaluation: a point
 *                    <--- stdout pipe   {..,"stop":"target",..}            the result, once
 *     read_trouble() <--- stderr pipe   fast: ...                          the reason, if it fails
 *     end_child()    <--- end           exit code or signal
 *
 * One thread does everything: fast__child_next() waits for the pipes of all children, for 100 ms at
 * most, so that a watcher sees progress and a cancel is noticed even if no child prints. A child's
 * end is delivered after its last line, so a result is never lost to an early exit.
 *
 * A task is first "waiting", then "running" in a place, then as its result says: done, target,
 * diverged or canceled; a trial may be "held" in between, and is "stopped" if its searcher ends it,
 * or "saved" if others start with its model;
 * a task is "failed" if its process ended without one. A task that failed does not end
 * the comparison: the reason stands in its line. FAST_ENOMEM and an error of the pipes do end it.
 *
 * The time that is left is estimated from the mean m of the tasks that ran here and have ended;
 * those that run are taken as half done, those read from the store took no time:
 *
 *   left = m * (tasks - done - running / 2) / jobs
 *
 * Of 40 tasks 10 are done and 4 run on 4 places, m = 6 s: 6 * (30 - 2) / 4 = 42 s.
 */
#include "lab/compare.h"

#include "base/clock.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

#define TELL_NS  INT64_C(100000000)  /* between two looks at the progress */
#define GRACE_NS INT64_C(5000000000) /* for a process that is asked to end */
enum { HELD_MAX = 64 };              /* processes of trials that are held */

/* The processes and what they run. */
typedef struct compare_pool {
    fast_compare *compare;                           /* the comparison */
    fast_compare_task *list;                         /* tasks that are run */
    int64_t count;                                   /* number of tasks */
    fast_child *children[FAST_COMPARE_JOBS_MAX];     /* NULL: free */
    fast_compare_task *tasks[FAST_COMPARE_JOBS_MAX]; /* the task of each process */
    int64_t begun_ns[FAST_COMPARE_JOBS_MAX];         /* when it was started */
    int64_t running;                                 /* number of processes */
    int64_t done;                                    /* tasks that have ended */
    int64_t timed;                                   /* ended tasks that ran in a process */
    int64_t sum_ns;                                  /* of their times */
    fast_compare_stored *stored; /* runs of an earlier comparison of this name; or NULL */
    int64_t told_ns;             /* when the watcher was told last */
    bool searches;               /* trials are among the tasks */
    int64_t held;                /* processes of held trials, which wait for an answer */
} compare_pool;

/* True for a task that has neither started nor ended. */
static bool is_waiting(const fast_compare_task *task)
{
    return strcmp(task->view->status, "waiting") == 0;
}

/* Tell the watcher how far the comparison is, and which run has ended. */
static void tell(compare_pool *p, const fast_compare_task *ended)
{
    fast_compare *compare = p->compare;
    const double mean = p->timed > 0 ? (double)p->sum_ns * 1e-9 / (double)p->timed : NAN;
    const double left = (double)(p->count - p->done) - 0.5 * (double)p->running;

    p->told_ns = fast__clock_ns();
    if (!compare->watcher.tell)
        return;
    compare->watcher.tell(compare->watcher.ctx,
                          &(fast_compare_progress){
                              .runs_done = p->done,
                              .runs_count = p->count,
                              .running = p->running,
                              .seconds_left = mean * left / (double)compare->jobs,
                              .phase = p->list == compare->tasks ? "runs"
                                       : p->list->changes        ? "changes"
                                                                 : "budget",
                              .line = ended ? compare->sweep.lines[ended->line].name : NULL,
                              .run = ended ? ended->view : NULL,
                              .trial = ended && ended->trial,
                          });
}

/* The search of a line is over: choose. Choosing gives each run of the line a command, or marks all
 * of them as failed if no trial has a result; failed ones count as ended here, and so do trials
 * that the searcher did not need. Trials that are held end. */
static fast_err end_search(compare_pool *p, int64_t line)
{
    fast_compare *compare = p->compare;
    fast_compare_task *trials = compare->tasks + line * compare->trial_count;

    compare->lines[line].trial_count = compare->trials.searches[line]->count;
    p->done += compare->trial_count - compare->trials.searches[line]->count;
    for (int64_t i = 0; i < compare->trials.searches[line]->count; i++)
        if (strcmp(trials[i].view->status, "held") == 0)
            trials[i].ending = true;
    FAST_TRY(fast__compare_choose(compare, line));
    for (int64_t i = 0; i < p->count; i++) {
        const fast_compare_task *b = &p->list[i];

        if (b->line != line || b->trial || is_waiting(b))
            continue;
        p->done++;
        tell(p, b);
    }
    return FAST_OK;
}

/* A task has ended as `status` says. */
static fast_err end(compare_pool *p, fast_compare_task *task, const char *status)
{
    task->view->status = status;
    task->view->error = task->error[0] ? task->error : NULL;
    p->done++;
    if (p->searches && task->trial && !p->compare->canceled) {
        fast_trial_order order;

        FAST_TRY(fast__trials_observe(p->compare, task, true, &order));
    }
    tell(p, task);
    return FAST_OK;
}

/* Write the next trial that a searcher proposes, line by line, or NULL. A held trial whose search
 * is over comes first: its process ends in a place of the pool, as all others. */
static fast_err next_trial(compare_pool *p, fast_compare_task **out)
{
    fast_compare *compare = p->compare;

    *out = NULL;
    for (int64_t i = 0; i < compare->line_count * compare->trial_count; i++)
        if (compare->tasks[i].ending && strcmp(compare->tasks[i].view->status, "held") == 0) {
            *out = &compare->tasks[i];
            return FAST_OK;
        }
    for (int64_t i = 0; i < compare->line_count; i++) {
        bool over = compare->trials.searches[i]->over; /* and its runs are made */

        if (over || (compare->steps && compare->steps[i] == 0))
            continue;
        FAST_TRY(fast__trials_next(compare, i, out, &over));
        if (over)
            FAST_TRY(end_search(p, i));
        if (*out)
            return FAST_OK;
    }
    return FAST_OK;
}

/* Write the next task that can run, or NULL. Trials come first, so that all lines are tuned before
 * the first run starts, as long as a searcher has a proposal. */
static fast_err next_task(compare_pool *p, fast_compare_task **out)
{
    *out = NULL;
    if (p->searches)
        FAST_TRY(next_trial(p, out));
    for (int64_t i = 0; !*out && i < p->count; i++) {
        fast_compare_task *b = &p->list[i];

        if (is_waiting(b) && b->argv.count > 0 && !(p->searches && b->trial))
            *out = b;
    }
    return FAST_OK;
}

/* Put the process of a held trial into a place: it trains on, or it ends. */
static void continue_child(compare_pool *p, int64_t i, fast_compare_task *task)
{
    p->children[i] = task->child;
    task->child = NULL;
    p->held--;
    if (task->ending)
        fast__child_end_input(p->children[i]);
    else
        fast__child_answer(p->children[i]);
}

/* Count what a trial has spent in a process that ended when it was held, and forget the rest: the
 * next process starts from the beginning. */
static void start_again(fast_compare_task *task)
{
    fast_compare_measures *m = &task->view->measures;

    task->spent_before[0] += isfinite(m->samples) ? m->samples : 0;
    task->spent_before[1] += isfinite(m->time_s) ? m->time_s : 0;
    fast__read_measures(NULL, m);
    task->view->point_count = 0;
    task->seen = task->thinned = 0;
}

/* Start a task in a place, or end it: with its result in the store, or because it cannot be
 * started, say because the program is missing. *started_out tells. FAST_ENOMEM. */
static fast_err start(compare_pool *p, int64_t i, fast_compare_task *task, bool *started_out)
{
    const fast_child_options options = { .argv = (const char *const *)task->argv.items,
                                         .input = p->searches && task->trial };
    bool found = false;

    *started_out = false;
    if (!task->child && task->ending) /* its process has ended when it was held */
        return end(p, task, "stopped");
    if (task->child) {
        continue_child(p, i, task);
    } else {
        if (strcmp(task->view->status, "held") == 0)
            start_again(task);
        /* Searchers that end trials decide by curves, whose progress is not stored. */
        if (!task->trial || !p->searches ||
            p->compare->trials.searches[task->line]->searcher->plan == fast__grid_plan)
            FAST_TRY(fast__compare_stored_read(p->stored, task, &found));
        if (found)
            return end(p, task, task->outcome);
        const fast_err err = fast__child_start(&options, &p->children[i]);
        if (err == FAST_ENOMEM)
            return err;
        if (err) {
            snprintf(task->error, sizeof task->error, "%.255s", fast_error_detail());
            return end(p, task, "failed");
        }
    }
    task->view->status = "running";
    p->tasks[i] = task;
    p->begun_ns[i] = fast__clock_ns();
    p->running++;
    *started_out = true;
    return FAST_OK;
}

/* Start tasks while there are free places. A task that ends at once takes no place. */
static fast_err start_some(compare_pool *p)
{
    fast_compare *compare = p->compare;

    for (int64_t i = 0; i < compare->jobs && !compare->canceled;) {
        fast_compare_task *task = NULL;
        bool started = true;

        if (!p->children[i]) {
            FAST_TRY(next_task(p, &task));
            if (!task)
                return FAST_OK;
            FAST_TRY(start(p, i, task, &started));
        }
        i += started;
    }
    return FAST_OK;
}

/*
 * When the room is full, every other point goes. Invariant: point i is evaluation i * 2^thinned.
 * It holds at first with thinned = 0. Dropping the odd points makes point i the former point 2i,
 * which is evaluation i * 2^(thinned + 1); the point that found the room full is evaluation
 * 256 * 2^thinned = 128 * 2^(thinned + 1) and becomes number 128. A run of 1000 evaluations ends
 * with thinned = 2: evaluations 0, 4, ..., 996, which are 250 points, and its last one.
 */
fast_err fast__task_point(fast_compare_task *task, const fast_compare_point *point)
{
    fast_compared_run *view = task->view;

    if (!isfinite(point->time_s) ||
        (!isfinite(point->test_accuracy) && !isfinite(point->test_loss)))
        return FAST_OK;
    if (!task->points) { /* and one for the end, which is never left out */
        FAST_TRY(fast__alloc("points of a run", FAST_COMPARE_POINTS_MAX + 1, sizeof *task->points,
                             &task->points));
        view->points = task->points;
    }
    if (task->seen++ % (INT64_C(1) << task->thinned) != 0)
        return FAST_OK;
    if (view->point_count == FAST_COMPARE_POINTS_MAX) {
        for (int64_t i = 0; i < FAST_COMPARE_POINTS_MAX / 2; i++)
            task->points[i] = task->points[2 * i];
        view->point_count = FAST_COMPARE_POINTS_MAX / 2;
        task->thinned++;
    }
    task->points[view->point_count++] = *point;
    return FAST_OK;
}

/* Take a result that stopped as `stop` says. */
static void take_result(fast_compare_task *task, const json_t *object, const char *stop)
{
    static const char *const outcomes[] = { "target", "patience", "diverged", "canceled" };
    fast_compared_run *view = task->view;
    fast_compare_point point;

    fast__read_point(object, &point);
    fast__read_measures(object, &view->measures);
    if (strcmp(stop, "diverged") == 0)
        snprintf(task->error, sizeof task->error, "diverged: the loss is not a finite number");
    task->outcome = "done";
    for (size_t i = 0; i < sizeof outcomes / sizeof outcomes[0]; i++)
        if (strcmp(stop, outcomes[i]) == 0)
            task->outcome = outcomes[i];
    /* The end of a curve is never thinned out. A run that reached its target may still wait for
       workers that have not noticed: its curve ends at the target. */
    if (isfinite(view->measures.time_to_target_s))
        point.time_s = view->measures.time_to_target_s;
    if (view->point_count > 0) {
        const fast_compare_point *last = &task->points[view->point_count - 1];

        point.progress = fmin(1, last->progress * point.samples / last->samples);
    }
    if (view->point_count > 0 && task->points[view->point_count - 1].samples < point.samples &&
        (isfinite(point.test_accuracy) || isfinite(point.test_loss)))
        task->points[view->point_count++] = point;
}

fast_err fast__task_read(fast_compare_task *task, const char *line)
{
    json_t *object = NULL;
    fast_err err = fast__json_read("a line of a run", line, strlen(line), &object);

    if (err) /* lines that are not JSON, of a library's or a user's print, are skipped */
        return err == FAST_EFORMAT ? FAST_OK : err;
    const char *stop = json_string_value(json_object_get(object, "stop"));
    if (stop) {
        take_result(task, object, stop);
    } else {
        fast_compare_point point;

        fast__read_point(object, &point);
        err = fast__task_point(task, &point);
    }
    json_decref(object);
    return err;
}

/* Trouble is the last line of standard error; "fast: " in front of it is ours. */
static void read_trouble(fast_compare_task *task, const char *line)
{
    if (line[0] && strncmp(line, "note: ", 6) != 0)
        snprintf(task->error, sizeof task->error, "%.255s",
                 strncmp(line, "fast: ", 6) == 0 ? line + 6 : line);
}

/* A process of a trial has ended because it was held where processes do not wait: it starts again
 * when the trial is continued. What it measured stays, for a trial that is not. */
static void end_held(fast_compare_task *task)
{
    task->view->status = "held";
    task->outcome = NULL;
    task->error[0] = '\0';
    task->restarts = false;
}

/* A process has ended: read its last words, and mark its task. */
static fast_err end_child(compare_pool *p, int64_t i, const fast_child_event *event)
{
    fast_compare_task *task = p->tasks[i];
    const char *status = task->outcome ? task->outcome : "failed";

    fast__child_free(p->children[i]);
    p->children[i] = NULL;
    p->running--;
    if (task->restarts && !p->compare->canceled) {
        end_held(task);
        return FAST_OK;
    }
    p->timed++;
    p->sum_ns += fast__clock_ns() - p->begun_ns[i];
    if (task->ending) /* whether it was done in the meantime depends on the machine */
        status = "stopped";
    if (task->saving && strcmp(status, "canceled") == 0)
        status = "saved";
    if (p->compare->canceled && strcmp(status, "failed") == 0)
        status = "canceled";
    /* Whatever a run that worked said on standard error was a warning, not a reason. */
    if (strcmp(status, "done") == 0 || strcmp(status, "target") == 0 ||
        strcmp(status, "patience") == 0 || strcmp(status, "stopped") == 0 ||
        strcmp(status, "saved") == 0)
        task->error[0] = '\0';
    else if (!task->error[0] && event->signal)
        snprintf(task->error, sizeof task->error, "ended by signal %d (%s)", event->signal,
                 strsignal(event->signal));
    else if (!task->error[0])
        snprintf(task->error, sizeof task->error, "ended with code %d and no result", event->code);
    return end(p, task, status);
}

/*
 * A trial has printed an evaluation and waits: ask its searcher, and answer. A trial that is held
 * gets no answer, and its place is free. On transports other than sim times are those of the
 * machine, and too many processes that wait would fill its memory: there its process ends, and
 * starts again from the beginning when it is continued.
 */
static fast_err look_at_trial(compare_pool *p, int64_t i)
{
    fast_compare_task *task = p->tasks[i];
    fast_child *child = p->children[i];
    fast_trial_order order;

    if (!p->searches || !task->trial || task->ending || task->saving || task->restarts ||
        task->outcome)
        return FAST_OK;
    FAST_TRY(fast__trials_observe(p->compare, task, false, &order));
    if (order == FAST_TRIAL_GO) {
        fast__child_answer(child);
    } else if (order == FAST_TRIAL_HOLD && p->compare->sweep.simulated && p->held < HELD_MAX) {
        task->child = child;
        task->view->status = "held";
        p->children[i] = NULL;
        p->running--;
        p->held++;
        tell(p, NULL);
    } else {
        task->ending = order == FAST_TRIAL_END;
        task->saving = order == FAST_TRIAL_SAVE;
        task->restarts = order == FAST_TRIAL_HOLD;
        fast__child_end_input(child);
    }
    return FAST_OK;
}

/* Ask a process to end; one that waits for an answer does when its input ends. */
static void ask_to_end(fast_child *child)
{
    if (!child)
        return;
    fast__child_terminate(child);
    fast__child_end_input(child);
}

/* Ask all children to end, and wait for them; what has not ended then was canceled. All are asked
 * before the first is waited for, so that they use the time of grace together and not in sequence.
 * After a comparison that ran to its end there is no child and this does nothing. */
static void stop_all(compare_pool *p)
{
    for (int64_t i = 0; i < FAST_COMPARE_JOBS_MAX; i++)
        ask_to_end(p->children[i]);
    for (int64_t i = 0; i < p->count; i++)
        ask_to_end(p->list[i].child);
    for (int64_t i = 0; i < FAST_COMPARE_JOBS_MAX; i++) {
        if (!p->children[i])
            continue;
        fast__child_stop(p->children[i], GRACE_NS);
        fast__child_free(p->children[i]);
        p->children[i] = NULL;
        p->tasks[i]->view->status = "canceled";
    }
    for (int64_t i = 0; i < p->count; i++) {
        fast_compare_task *task = &p->list[i];

        if (task->child)
            fast__child_stop(task->child, GRACE_NS);
        fast__child_free(task->child);
        task->child = NULL;
        if (is_waiting(task) || strcmp(task->view->status, "held") == 0)
            task->view->status = "canceled";
    }
    p->running = 0;
}

/* True if a line's search is not over. */
static bool is_searching(const compare_pool *p)
{
    for (int64_t i = 0; p->searches && i < p->compare->line_count; i++)
        if (!p->compare->trials.searches[i]->over &&
            !(p->compare->steps && p->compare->steps[i] == 0))
            return true;
    return false;
}

fast_err fast__pool_run(fast_compare *compare, fast_compare_task *tasks, int64_t count)
{
    compare_pool *p;
    int64_t which = -1;
    fast_err err = FAST_OK;

    FAST_TRY(fast__alloc("processes", 1, sizeof *p, &p));
    p->compare = compare;
    p->list = tasks;
    p->count = count;
    p->searches = compare->trials.searches && tasks == compare->tasks;
    for (int64_t i = 0; i < count; i++) /* lines that could not be fitted have ended already */
        p->done += !is_waiting(&tasks[i]);
    err = fast__compare_stored_open(compare, &p->stored);
    tell(p, NULL);
    while (!err && !compare->canceled && (p->done < count || is_searching(p))) {
        fast_child_event event;

        /* If nothing runs after start_some(), it has ended tasks (stored ones, or failed starts)
           and the loop looks again. It cannot spin: a searcher waits only for trials that run, and
           a run without a command belongs to a line whose search is not over. */
        err = start_some(p);
        if (err || p->running == 0)
            continue;
        const fast_err got = fast__child_next(p->children, compare->jobs, TELL_NS, &which, &event);
        if (got == FAST_OK && event.kind == FAST_CHILD_OUT) {
            err = fast__task_read(p->tasks[which], event.line);
            if (!err)
                err = look_at_trial(p, which);
        } else if (got == FAST_OK && event.kind == FAST_CHILD_ERR)
            read_trouble(p->tasks[which], event.line);
        else if (got == FAST_OK)
            err = end_child(p, which, &event);
        else if (got != FAST_ETIMEDOUT)
            err = got;
        if (fast__clock_ns() - p->told_ns >= TELL_NS)
            tell(p, NULL);
    }
    stop_all(p);
    fast__compare_stored_close(p->stored);
    fast__free(p);
    if (!err && compare->canceled)
        err = fast__fail(FAST_ECANCELED, "the comparison was stopped");
    return err;
}
