/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evaluation of a run's model, shared by one worker and by teams:
 *
 *     without validation   every evaluation is of the test set
 *     with validation      evaluations during training are of the validation set, which decides on
 *                          the target, the patience and the best model (early_stop.c); the test set
 *                          is looked at once, after training, with the model that was chosen
 *
 * So no choice is made after a look at the test set. Each evaluation of the test set also collects
 * the figures (learner/figures.h): outputs are copied and counted as they come; ranks are sorted
 * once, at the end. An ensemble is evaluated as one model. A learner of the caller's does not show
 * its outputs, so it has no figures.
 *
 * The time of an evaluation is not training time. Memory is taken when the run is opened.
 */
#include "learner/figures.h"
#include "run/representative.h"
#include "run/run.h"
#include "run/team.h"

#include "base/memory.h"
#include "tensor/device_file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Memory of the figures of a set. */
static fast_err open_sums(const fast_run *run, int64_t rows, fast_figure_sums **out)
{
    const bool classes = run->graph->loss == FAST_LOSS_CROSS_ENTROPY;
    const fast_figures_options options = { .classes = classes ? run->graph->outputs : 0,
                                           .outputs = run->graph->outputs,
                                           .rows = rows };

    return fast__figures_new(&options, out);
}

/* Refuse to monitor a figure that the evaluation does not have, or to retain an ensemble. */
static fast_err check_monitor(const fast_run *run)
{
    const fast_run_config *c = &run->config;
    const bool classes = run->foreign || run->graph->loss == FAST_LOSS_CROSS_ENTROPY;

    if (c->monitor != FAST_MONITOR_LOSS && !classes)
        return fast__fail(FAST_EINVAL, "monitor=%s is of classes, and data %s is a regression",
                          c->monitor == FAST_MONITOR_F1 ? "f1" : "accuracy", c->data);
    if (c->monitor == FAST_MONITOR_F1 && run->foreign)
        return fast__fail(FAST_EINVAL,
                          "monitor=f1 needs outputs, which learner %s does not show; use "
                          "monitor=accuracy",
                          run->foreign->name);
    if (c->best == 1 && run->team->representative.policy == FAST_POLICY_ENSEMBLE)
        return fast__fail(FAST_EINVAL,
                          "best=yes is of one model, and an ensemble stands for this run; give "
                          "best=no");
    return FAST_OK;
}

fast_err fast__run_evaluation_open(fast_run *run)
{
    fast_run_evaluation *e = &run->evaluation;
    const fast_data *test = run->data.test, *validation = run->data.validation;
    int64_t count = 0;

    if (run->graph && test && run->config.evaluate_period.unit != FAST_PERIOD_NEVER)
        FAST_TRY(open_sums(run, test->count * run->graph->positions, &e->test));
    if (!validation)
        return FAST_OK;
    FAST_TRY(check_monitor(run));
    if (run->config.monitor == FAST_MONITOR_F1) /* without ranks */
        FAST_TRY(open_sums(run, 0, &e->validation));
    if (run->config.best != 1)
        return FAST_OK;
    count = run->learner->params.count + run->learner->state.count;
    if (!run->evaluation.file)
        return fast__alloc("the best model", count, sizeof(float), &e->best.model);
    FAST_TRY(fast__vector_new(run->evaluation.file, "the best model", count, &e->best.model));
    return run->team->place.first
               ? fast__device_file_reserve(run->evaluation.file, e->best.model, count)
               : FAST_OK;
}

void fast__run_evaluation_close(fast_run *run)
{
    fast__figures_free(run->evaluation.test);
    fast__figures_free(run->evaluation.validation);
    fast__vector_free(run->evaluation.best.model);
}

/* Append a JSON line to the file of --log. */
static void write_log(fast_run *run)
{
    FILE *file = run->sinks.log;
    const fast_result *r = &run->result;
    if (!file)
        return;
    if (fast__run_json_log(r, !run->team->single, run->step_count, file) == FAST_OK)
        return;
    /* The log does not end hours of training, but a hole in it is said, once. */
    char note[FAST_PATH_MAX + 128];
    snprintf(note, sizeof note, "cannot write %s: %s; the log ends here", run->config.log,
             strerror(errno));
    fclose(file);
    run->sinks.log = NULL;
    fast__run_tell(run, FAST_EVENT_NOTE, note);
}

/* Evaluate one of the sets, and write its loss and accuracy into the result. */
static fast_err evaluate_set(fast_run *run, bool validation)
{
    const int64_t slow_ns = 100000000; /* so that it is not said more often than progress is */
    fast_run_times *times = &run->progress.times;
    fast_evaluation evaluation = { .validation = validation,
                                   .figures = validation ? run->evaluation.validation
                                                         : run->evaluation.test };

    if (times->evaluations == 0 || times->tested_ns >= slow_ns)
        fast__run_tell(run, FAST_EVENT_PROGRESS, "testing");
    const int64_t wall_ns = fast__run_wall();
    const int64_t begin_ns = fast__run_now(run);
    if (fast__members_stand(run))
        FAST_TRY(fast__members_evaluate(run, &evaluation));
    else
        FAST_TRY(run->learner->ops->evaluate(run->learner, &evaluation));
    const int64_t spent_ns = fast__run_now(run) - begin_ns;
    times->tested_ns = fast__run_wall() - wall_ns;
    fast__count(&times->pause_ns, spent_ns);
    times->evaluate_ns += spent_ns;
    times->evaluations++;
    run->evaluation.validated = validation;
    run->evaluation.tested = run->evaluation.tested || !validation;
    *(validation ? &run->result.validation_loss : &run->result.test_loss) = evaluation.loss;
    *(validation ? &run->result.validation_accuracy : &run->result.test_accuracy) =
        evaluation.accuracy;
    return FAST_OK;
}

/* The value of the monitored figure in the last evaluation of the validation set. */
static double monitored(fast_run *run)
{
    fast_figures figures = { .f1 = NAN };

    if (run->config.monitor == FAST_MONITOR_LOSS)
        return run->result.validation_loss;
    if (run->config.monitor == FAST_MONITOR_ACCURACY)
        return run->result.validation_accuracy;
    fast__figures_compute(run->evaluation.validation, &figures);
    return figures.f1;
}

/* Tell everyone of an evaluation. The log is first: a watcher may wait for an answer to it. */
static void tell(fast_run *run)
{
    write_log(run);
    fast__run_tell(run, FAST_EVENT_EVALUATE, NULL);
}

void fast__run_look(fast_run *run)
{
    const bool validation = run->data.validation_loader != NULL;
    const double accuracy =
        validation ? run->result.validation_accuracy : run->result.test_accuracy;

    if (run->config.target > 0 && accuracy >= run->config.target) {
        run->finished = true;
        run->result.stop = "target";
        run->result.time_to_target_s = run->result.time_s;
    } else if (run->config.patience > 0 && run->step < run->step_count &&
               run->evaluation.best.waited >= run->config.patience) {
        run->finished = true;
        run->result.stop = "patience";
    }
}

fast_err fast__run_evaluate(fast_run *run)
{
    const bool validation = run->data.validation_loader != NULL;

    FAST_TRY(evaluate_set(run, validation));
    run->progress.step_evaluated = run->step;
    if (validation)
        fast__best_look(run, monitored(run));
    fast__run_measure(run);
    fast__run_look(run);
    tell(run);
    return FAST_OK;
}

/* Compute the figures of the test set. Errors of a regression are on the scale of the source, also
 * where its targets are standardised. */
static void compute_figures(fast_run *run)
{
    fast_figures *figures = &run->evaluation.figures;

    fast__figures_compute(run->evaluation.test, figures);
    figures->mae /= (double)run->data.train->target_scale;
    figures->rmse /= (double)run->data.train->target_scale;
}

fast_err fast__run_finish(fast_run *run)
{
    fast_run_evaluation *e = &run->evaluation;

    if (!run->result.canceled && run->data.validation_loader) {
        if (e->best.model && run->result.best_step >= 0 && !e->best.swapped)
            fast__best_swap(run);
        if (run->data.test_loader) {
            FAST_TRY(evaluate_set(run, false));
            tell(run);
        }
    }
    if (e->test && e->tested)
        compute_figures(run);
    return FAST_OK;
}

const fast_figures *fast_run_figures(const fast_run *run)
{
    FAST_ASSERT(run != NULL);
    return run->evaluation.figures.rows > 0 ? &run->evaluation.figures : NULL;
}
