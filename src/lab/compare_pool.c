/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of a comparison as processes, a few at a time.
 *
 * Trials of all lines come first; the runs of a line wait until its trials have ended and something
 * was chosen. A process prints a line of JSON for each evaluation (--log /dev/stdout) and one for
 * the result; what it says on standard error last is the reason where it fails. When points of a
 * run fill their room every other one is dropped, and from then on every other evaluation is left
 * out: curves have their shape in bounded memory.
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
 * diverged or canceled; "failed" if its process ended without one. A task that failed does not end
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
    if (!compare->watch)
        return;
    compare->watch(compare->watch_ctx, &(fast_compare_progress){
                                           .runs_done = p->done,
                                           .runs_count = p->count,
                                           .running = p->running,
                                           .seconds_left = mean * left / (double)compare->jobs,
                                           .line = ended ? compare->lines[ended->line].name : NULL,
                                           .run = ended ? ended->view : NULL,
                                           .trial = ended && ended->trial,
                                       });
}

/* After the last trial of a line: choose. Choosing gives each run of the line a command, or marks
 * all of them as failed if no trial has a result; failed ones count as ended here. */
static fast_err look_at_trials(compare_pool *p, int64_t line)
{
    fast_compare *compare = p->compare;

    for (int64_t i = 0; i < p->count; i++) {
        const fast_compare_task *b = &p->list[i];
        const char *status = b->view->status;

        if (b->line == line && b->trial &&
            (strcmp(status, "waiting") == 0 || strcmp(status, "running") == 0))
            return FAST_OK;
    }
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
    tell(p, task);
    return task->trial && !p->compare->canceled ? look_at_trials(p, task->line) : FAST_OK;
}

/* The next task that can run, or NULL. A run has no command before its line's trials have ended;
 * trials come first in the array, so that all lines are tuned before the first run starts, as long
 * as trials are waiting. */
static fast_compare_task *next_task(const compare_pool *p)
{
    for (int64_t i = 0; i < p->count; i++) {
        fast_compare_task *b = &p->list[i];

        if (is_waiting(b) && b->argv.count > 0)
            return b;
    }
    return NULL;
}

/* Start waiting tasks while there are free places. A task whose result the store has ends at once
 * and takes no place. One that cannot be started, say because the program is missing, has failed
 * with the reason; FAST_ENOMEM alone is returned, since every further start would fail with it. */
static fast_err start_some(compare_pool *p)
{
    fast_compare *compare = p->compare;

    for (int64_t i = 0; i < compare->jobs && !compare->canceled; i++) {
        fast_compare_task *task = p->children[i] ? NULL : next_task(p);

        bool found = false;
        if (!task)
            continue;
        FAST_TRY(fast__compare_stored_read(p->stored, task, &found));
        if (found) {
            FAST_TRY(end(p, task, task->outcome));
            i--; /* the place is still free */
            continue;
        }
        const fast_child_options options = { .argv = (const char *const *)task->argv.items };
        const fast_err err = fast__child_start(&options, &p->children[i]);
        if (err == FAST_ENOMEM)
            return err;
        if (err) {
            snprintf(task->error, sizeof task->error, "%.255s", fast_error_detail());
            FAST_TRY(end(p, task, "failed"));
            continue;
        }
        task->view->status = "running";
        p->tasks[i] = task;
        p->begun_ns[i] = fast__clock_ns();
        p->running++;
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

/* A process has ended: read its last words, and mark its task. */
static fast_err end_child(compare_pool *p, int64_t i, const fast_child_event *event)
{
    fast_compare_task *task = p->tasks[i];
    const char *status = task->outcome ? task->outcome : "failed";

    fast__child_free(p->children[i]);
    p->children[i] = NULL;
    p->running--;
    p->timed++;
    p->sum_ns += fast__clock_ns() - p->begun_ns[i];
    if (p->compare->canceled && strcmp(status, "failed") == 0)
        status = "canceled";
    /* Whatever a run that worked said on standard error was a warning, not a reason. */
    if (strcmp(status, "done") == 0 || strcmp(status, "target") == 0 ||
        strcmp(status, "patience") == 0)
        task->error[0] = '\0';
    else if (!task->error[0] && event->signal)
        snprintf(task->error, sizeof task->error, "ended by signal %d (%s)", event->signal,
                 strsignal(event->signal));
    else if (!task->error[0])
        snprintf(task->error, sizeof task->error, "ended with code %d and no result", event->code);
    return end(p, task, status);
}

/* Ask all children to end, and wait for them; what has not ended then was canceled. All are asked
 * before the first is waited for, so that they use the time of grace together and not in sequence.
 * After a comparison that ran to its end there is no child and this does nothing. */
static void stop_all(compare_pool *p)
{
    for (int64_t i = 0; i < FAST_COMPARE_JOBS_MAX; i++)
        if (p->children[i])
            fast__child_terminate(p->children[i]);
    for (int64_t i = 0; i < FAST_COMPARE_JOBS_MAX; i++) {
        if (!p->children[i])
            continue;
        fast__child_stop(p->children[i], GRACE_NS);
        fast__child_free(p->children[i]);
        p->children[i] = NULL;
        p->tasks[i]->view->status = "canceled";
    }
    for (int64_t i = 0; i < p->count; i++)
        if (is_waiting(&p->list[i]))
            p->list[i].view->status = "canceled";
    p->running = 0;
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
    for (int64_t i = 0; i < count; i++) /* lines that could not be fitted have ended already */
        p->done += !is_waiting(&tasks[i]);
    err = fast__compare_stored_open(compare, &p->stored);
    tell(p, NULL);
    while (!err && !compare->canceled && p->done < count) {
        fast_child_event event;

        /* If nothing runs after start_some(), it has ended tasks (stored ones, or failed starts)
           and the loop looks again. It cannot spin: while a task waits, some waiting task has a
           command. Trials have theirs from the start, and a run without one belongs to a line
           whose trials have not all ended. */
        err = start_some(p);
        if (err || p->running == 0)
            continue;
        const fast_err got = fast__child_next(p->children, compare->jobs, TELL_NS, &which, &event);
        if (got == FAST_OK && event.kind == FAST_CHILD_OUT)
            err = fast__task_read(p->tasks[which], event.line);
        else if (got == FAST_OK && event.kind == FAST_CHILD_ERR)
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
