/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call of fast_run_train(): events and files around the training of the team (team.c), whose
 * workers evaluate and save between their steps by the functions here.
 *
 * Between two steps a run is at rest: evaluation, checkpoints, the target and a cancel are looked
 * at there only, so that a checkpoint is always of a whole step. After the first step a run
 * allocates nothing.
 *
 * In the caller's thread:
 *
 *     log, event file, store writer    FAST_EIO or FAST_ENOMEM: nothing has trained
 *     START, notes                     of data, resume and codec=auto
 *     target, patience?                of the evaluation in a checkpoint
 *     fast__team_train()               steps, evaluations, PROGRESS ten times a second at most, the
 *                                      forecast; the end: "done", "target", "patience", "diverged",
 *                                      "canceled"
 *     checkpoint, best model, test     not after "diverged": older files stay as they are
 *     weights                          of the best model, if it is asked for
 *     measures, last row of the store
 *
 * Errors of a learner or an evaluation end the call. A checkpoint in mid-run that fails is a note,
 * told once until one succeeds; the checkpoint and the weights at the end are saved in FAST's own
 * folder if they cannot be saved where the user asked, and fail the call all the same. A log that
 * cannot be written is closed with a note.
 */
#include "run/run.h"

#include "base/binding.h"
#include "base/thread.h"
#include "run/sink/store_sink.h"
#include "run/sink/tensorboard.h"
#include "run/team.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Number of times that a period was due until a step. */
int64_t fast__run_dues(const fast_run *run, fast_period period, int64_t step)
{
    switch (period.unit) {
    case FAST_PERIOD_NEVER:
    case FAST_PERIOD_END:
        break;
    case FAST_PERIOD_STEPS:
        return step / period.count;
    case FAST_PERIOD_EPOCHS:
        return step / run->learner->epoch_steps / period.count;
    }
    return 0;
}

/* The end of the run is always due, but for a period that never is. */
bool fast__run_is_due(const fast_run *run, fast_period period, int64_t step)
{
    if (period.unit == FAST_PERIOD_NEVER)
        return false;
    return step >= run->step_count ||
           (step > 0 && fast__run_dues(run, period, step) > fast__run_dues(run, period, step - 1));
}

/* Evaluations that are still to come, for the estimate of the time left. */
static double evaluations_left(const fast_run *run)
{
    const fast_period period = run->config.evaluate_period;
    const double steps = (double)(run->step_count - run->step);
    switch (period.unit) {
    case FAST_PERIOD_NEVER:
        return 0;
    case FAST_PERIOD_END:
        return 1;
    case FAST_PERIOD_STEPS:
        return ceil(steps / (double)period.count);
    case FAST_PERIOD_EPOCHS:
        return ceil(steps / ((double)period.count * (double)run->learner->epoch_steps));
    }
    return 0;
}

/* Estimate the time to the end by the speed so far, by the machine's clock:
 *
 *   steps left * samples of a step / samples_per_s + evaluations left * their mean time
 *
 * A simulated run has a speed of the cluster's; there the wall time so far is divided by the steps.
 * NAN until 0.2 s were computed: the first steps choose kernels and would say too much. */
static double seconds_left(const fast_run *run)
{
    const fast_run_times *times = &run->progress.times;
    const double rate = run->result.samples_per_s;
    if (!(rate > 0) || times->compute_ns < 200000000)
        return NAN;
    const double steps = (double)(run->step_count - run->step);
    if (run->clock.is_virtual) {
        const double wall = (double)(fast__run_wall() - run->progress.times.begun[0]) * 1e-9;
        const int64_t taken = run->step - run->progress.times.begun[1];

        return taken > 0 ? steps * wall / (double)taken : NAN;
    }
    double seconds =
        steps * (double)(run->config.batch * run->config.accumulate * run->config.replicas) / rate;
    if (times->evaluations > 0)
        seconds +=
            evaluations_left(run) * (double)times->evaluate_ns * 1e-9 / (double)times->evaluations;
    return seconds;
}

/* An event, and whom it is of. */
typedef struct told {
    const fast_run *run;     /* whose watcher is called */
    const fast_event *event; /* lent for the call */
} told;

/* Call the watcher, perhaps in a thread of its own. */
static void *tell_main(void *ctx)
{
    const told *what = ctx;

    what->run->sinks.watch(what->run->sinks.watch_ctx, what->event);
    return NULL;
}

/* Measures are brought up to date first; the store and the event file hear of an event before the
 * watcher. */
void fast__run_tell(fast_run *run, fast_event_kind kind, const char *text)
{
    const bool pause = kind == FAST_EVENT_PROGRESS && text; /* nothing new to store */

    fast__run_measure(run);
    if (!pause) {
        fast__store_sink_event(run, kind, text);
        fast__tensorboard_event(run, kind);
    }
    if (!run->sinks.watch)
        return;
    const fast_event event = { .kind = kind,
                               .step = run->step,
                               .step_count = run->step_count,
                               .epoch = run->step / run->learner->epoch_steps,
                               .seconds_left = seconds_left(run),
                               .result = &run->result,
                               .text = text };
    told what = { run, &event };
    /* Simulated actors have small stacks, and a watcher may be of a language that needs a large
     * one. Without a thread it is called all the same. */
    if (!run->clock.actor || !run->clock.is_virtual || fast__thread_call(tell_main, &what))
        tell_main(&what);
}

/* Save a checkpoint; its time is not training time. */
static fast_err save(fast_run *run, const char *path)
{
    const int64_t begin_ns = fast__run_now(run);
    const fast_err err = fast__checkpoint_save(run, path);
    fast__count(&run->progress.times.pause_ns, fast__run_now(run) - begin_ns);
    if (err)
        return err;
    run->progress.step_saved = run->step;
    snprintf(run->text.checkpoint, sizeof run->text.checkpoint, "%s", path);
    fast__run_tell(run, FAST_EVENT_SAVE, path);
    return FAST_OK;
}

/* Save the weights at the end. */
static fast_err save_weights(fast_run *run, const char *path)
{
    FAST_TRY(fast__weights_save(run, path));
    snprintf(run->text.weights, sizeof run->text.weights, "%s", path);
    return FAST_OK;
}

/* The file of the end could not be written, and hours of training are not to be lost: save it in
 * FAST's own folder instead. Returns the error, whose detail says where. */
static fast_err save_instead(fast_run *run, bool weights, fast_err err)
{
    char own[FAST_PATH_MAX], why[FAST_DETAIL_MAX];

    snprintf(why, sizeof why, "%s", fast_error_detail());
    if (fast__checkpoint_path(run, weights, own, sizeof own) ||
        (weights ? save_weights(run, own) : save(run, own)))
        return fast__fail(err, "%s, and %s", why, fast_error_detail());
    return fast__fail(err, "%s; %s in %s instead", why,
                      weights ? "the weights are" : "the checkpoint is", own);
}

/* A checkpoint in mid-run that cannot be written does not end hours of training: the user is told,
 * once, and the next one may succeed. */
void fast__run_save_now(fast_run *run, const char *path)
{
    const bool failed = save(run, path) != FAST_OK;

    if (failed && !run->progress.save_failed)
        fast__run_tell(run, FAST_EVENT_NOTE, fast_error_detail());
    run->progress.save_failed = failed;
}

void fast__run_save_due(fast_run *run)
{
    const char *path = run->config.checkpoint;
    const bool last = run->finished || run->step >= run->step_count;
    const bool whole = run->team->strategy->identical || run->team->strategy->resumable;
    if (path[0] && whole && !last && run->step != run->progress.step_saved &&
        fast_run_is_first(run) && !fast__saved_states_waits(run) &&
        fast__run_is_due(run, run->config.checkpoint_period, run->step))
        fast__run_save_now(run, path);
}

/* Open the file of --log for appending. */
static fast_err open_log(fast_run *run)
{
    if (!run->config.log[0] || run->sinks.log || !fast_run_is_first(run))
        return FAST_OK;
    /* Without O_NONBLOCK a named pipe would wait for a reader, and no signal would end that. */
    const int fd =
        open(run->config.log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (fd < 0)
        return fast__fail(FAST_EIO, "cannot write %s: %s", run->config.log, strerror(errno));
    fcntl(fd, F_SETFL, O_APPEND);
    run->sinks.log = fdopen(fd, "a");
    if (!run->sinks.log) {
        close(fd);
        return fast__fail(FAST_ENOMEM, "no memory to write %s", run->config.log);
    }
    return FAST_OK;
}

/* Files that a run leaves behind. A run that diverged leaves its older ones as they are; a resumed
 * run without a checkpoint of its own that is canceled goes back into the file it came from. */
static fast_err write_files(fast_run *run)
{
    if (strcmp(run->result.stop, "diverged") == 0) {
        fast__run_tell(run, FAST_EVENT_NOTE,
                       "the loss is not a finite number: the run stops here and saves nothing; "
                       "try a smaller learning rate, or clipping");
        return FAST_OK;
    }
    const char *path = run->config.checkpoint;
    fast_err err = FAST_OK;
    if (!fast_run_is_first(run))
        return FAST_OK;
    if (!path[0] && run->result.canceled)
        path = run->config.resume;
    if (path[0] && !run->team->strategy->identical && !run->team->strategy->resumable)
        fast__run_tell(
            run, FAST_EVENT_NOTE,
            "the run ends where each worker has a replica of its own: the last checkpoint "
            "is of the strategy before");
    else if (path[0] && run->step != run->progress.step_saved &&
             !(run->team->cut.spread && run->team->cut.saved_last))
        err = save(run, path);
    if (err)
        err = save_instead(run, false, err);
    char why[FAST_DETAIL_MAX];
    snprintf(why, sizeof why, "%s", err ? fast_error_detail() : "");
    FAST_TRY(fast__run_finish(run));
    if (!run->config.save[0])
        return err ? fast__fail(err, "%s", why) : FAST_OK;
    const fast_err failed = save_weights(run, run->config.save);
    if (!failed)
        fast__run_tell(run, FAST_EVENT_SAVE, run->config.save);
    else if (save_instead(run, true, failed) && err) /* both are said */
        return fast__fail(err, "%s; %s", why, fast_error_detail());
    return err ? fast__fail(err, "%s", why) : failed;
}

/* May be called again after a cancel: the run continues where it stopped. */
/* Tell the user of options that have no effect on this run. */
static void tell_idle_options(fast_run *run)
{
    if (run->config.bind != FAST_BIND_NONE && strcmp(run->config.transport, "threads") != 0)
        fast__run_tell(run, FAST_EVENT_NOTE,
                       "bind places workers of transport=threads, and has no effect on this one");
    for (int i = 0; i < 2; i++)
        if (run->codecs.chains[i] && fast__chain_only_fades(run->codecs.chains[i]))
            fast__run_tell(run, FAST_EVENT_NOTE,
                           "codec decay has no effect: residuals fade where a codec loses "
                           "something; add one, as in decay:rate=0.9+sign");
}

fast_err fast_run_train(fast_run *run)
{
    FAST_ASSERT(run != NULL);
    fast_err err = open_log(run);
    if (!err)
        err = fast__tensorboard_open(run);
    if (err)
        return fast__team_decline(run, err);
    const int64_t wall_ns = fast__run_wall();
    run->progress.times.begun[0] = wall_ns;
    run->progress.times.begun[1] = run->step;
    run->result.canceled = false;
    if (!run->finished)
        run->result.stop = "";
    run->progress.times.start_ns = fast__run_now(run);
    fast__store_sink_begin(run);
    fast__run_tell(run, FAST_EVENT_START, run->data.train ? run->data.train->summary : NULL);
    if (run->text.data_note)
        fast__run_tell(run, FAST_EVENT_NOTE, run->text.data_note);
    if (run->text.micro_note[0])
        fast__run_tell(run, FAST_EVENT_NOTE, run->text.micro_note);
    if (run->text.memory_note[0])
        fast__run_tell(run, FAST_EVENT_NOTE, run->text.memory_note);
    if (run->text.resume_note[0])
        fast__run_tell(run, FAST_EVENT_NOTE, run->text.resume_note);
    if (run->text.mesh_note[0])
        fast__run_tell(run, FAST_EVENT_NOTE, run->text.mesh_note);
    if (run->text.codec_note[0])
        fast__run_tell(run, FAST_EVENT_NOTE, run->text.codec_note);
    tell_idle_options(run);
    if (run->step == run->progress.step_evaluated) /* by the run that this one resumes */
        fast__run_look(run);
    err = fast__team_train(run->team);
    if (err)
        err = fast__team_decline(run, err);
    if (err == FAST_OK)
        err = write_files(run);
    snprintf(run->text.error, sizeof run->text.error, "%s", err ? fast_error_detail() : "");
    if (run->progress.times.start_ns)
        run->progress.times.total_ns += fast__run_now(run) - run->progress.times.start_ns;
    run->progress.times.start_ns = 0;
    run->progress.times.wall_ns += fast__run_wall() - wall_ns;
    run->result.wall_time_s = (double)run->progress.times.wall_ns * 1e-9;
    atomic_store(&run->cancel, false);
    fast__run_measure_all(run);
    fast__store_sink_end(run, err);
    return err;
}
