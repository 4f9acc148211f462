/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The range test of learning rates (Smith, "Cyclical Learning Rates for Training Neural Networks",
 * 2017): one short training, in which the learning rate grows from step to step,
 *
 *     lr_i = lr_min (lr_max / lr_min)^(i / (N - 1))
 *
 * At small rates the loss hardly moves, then it falls, then training becomes unstable and it rises:
 * gradient descent on a loss of curvature L is stable below 2 / L. The losses are smoothed as
 *
 *     m_i = b m_{i-1} + (1 - b) loss_i,   smoothed_i = m_i / (1 - b^{i+1}),   b = 0.9
 *
 * and the test ends when smoothed_i is four times the smallest, or not a number. Suggested are the
 * rate at which the smoothed loss falls fastest by log lr, and a tenth of the rate of its minimum,
 * which is behind the stable range. The first tenth of the steps is not looked at: its means are of
 * few batches.
 *
 * P workers that sum their gradients see the samples of one worker that accumulates P batches (see
 * data/loader.h), so the test needs no team. Cost: N steps of such a worker, on its own loop over
 * the learner's contract.
 */
#include "base/memory.h"
#include "fast/lab.h"
#include "run/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STEPS_STANDARD = 100, STEPS_MIN = 10, STEPS_MAX = 1000000, OPTIONS_MAX = 256 };
static const double DECAY = 0.9; /* of the running mean */
static const double RISE = 4;    /* of the loss, at which the test ends */

/* A test under way. */
typedef struct find_lr {
    fast_run *run;         /* whose learner trains */
    double first, last;    /* learning rates */
    int64_t steps;         /* to take */
    int64_t count;         /* of points */
    fast_lr_point *points; /* [steps] */
} find_lr;

/* Refuse options that a test of learning rates would ignore. */
static fast_err check_options(const fast_run_config *config)
{
    static const char *const ignored[] = {
        "lr",         "schedule", "epochs", "target",      "patience", "save",
        "checkpoint", "resume",   "log",    "tensorboard", "strategy", "system",
        "phases",     "trace",    "record", "replay",      "mesh",
    };
    char text[FAST_PATH_MAX];

    for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++) {
        const fast_option *option = fast__options_find(fast__run_options, ignored[i]);

        fast__config_text(option, config, text, sizeof text);
        if (strcmp(text, option->standard) != 0)
            return fast__fail(FAST_EINVAL,
                              "%s=%.100s has no meaning where learning rates are tried; leave it "
                              "out",
                              option->name, text);
    }
    return FAST_OK;
}

/* Open the run: one worker, whose micro-batches are the batches of all. */
static fast_err open_run(find_lr *f, const char *const *options)
{
    const char *all[OPTIONS_MAX];
    char batch[48], accumulate[48], steps[48];
    fast_run_config *config = NULL;
    int count = 0;

    FAST_TRY(fast__alloc("options", 1, sizeof *config, &config));
    fast_err err = fast__config_parse(options, config);
    if (!err)
        err = check_options(config);
    f->steps = config->steps > 0 ? config->steps : STEPS_STANDARD;
    if (!err && (f->steps < STEPS_MIN || f->steps > STEPS_MAX))
        err = fast__fail(FAST_EINVAL, "steps=%lld is not between %d and %d", (long long)f->steps,
                         STEPS_MIN, STEPS_MAX);
    snprintf(batch, sizeof batch, "batch=%lld", (long long)config->batch);
    snprintf(accumulate, sizeof accumulate, "accumulate=%lld",
             (long long)(config->accumulate * config->workers));
    snprintf(steps, sizeof steps, "steps=%lld", (long long)f->steps);
    fast__free(config);
    FAST_TRY(err);
    for (; options && *options && count < OPTIONS_MAX - 10; options++)
        all[count++] = *options;
    if (options && *options)
        return fast__fail(FAST_EINVAL, "more than %d options", OPTIONS_MAX - 10);
    const char *const own[] = { "workers=1", "global_batch=0", batch,        accumulate,
                                steps,       "evaluate=end",   "store=none", NULL };
    for (const char *const *option = own; *option; option++)
        all[count++] = *option;
    all[count] = NULL;
    return fast_run_open(all, &f->run);
}

/* Take one step at its learning rate. False in *more: the loss has left the stable range. */
static fast_err step(find_lr *f, double *mean, double *best, bool *more)
{
    fast_learner *learner = f->run->learner;
    const int64_t i = f->count;
    const double lr = f->first * pow(f->last / f->first, (double)i / (double)(f->steps - 1));
    fast_gradient gradient = { .step = i };

    FAST_TRY(learner->ops->gradient(learner, &gradient));
    *mean = DECAY * *mean + (1 - DECAY) * gradient.loss;
    fast_lr_point *point = &f->points[f->count++];
    *point = (fast_lr_point){ lr, gradient.loss, *mean / (1 - pow(DECAY, (double)(i + 1))) };
    *more = isfinite(point->smoothed) && !(point->smoothed > RISE * *best);
    *best = fmin(*best, point->smoothed);
    if (*more)
        fast__optimizer_apply(f->run->optimizer, i + 1, lr, learner->w, learner->g, 0,
                              learner->params.count);
    return FAST_OK;
}

/* Find the minimum of the smoothed loss, and where it falls fastest before that. */
static void suggest(const find_lr *f, fast_lr_range *out)
{
    const int64_t skip = f->count / 10;
    int64_t lowest = skip, steepest = -1;
    double slope = 0;

    for (int64_t i = skip; i < f->count; i++)
        if (f->points[i].smoothed < f->points[lowest].smoothed)
            lowest = i;
    /* All steps are equal in log lr. */
    for (int64_t i = skip > 0 ? skip : 1; i < lowest; i++) {
        const double fall = f->points[i - 1].smoothed - f->points[i + 1].smoothed;

        if (fall > slope) {
            slope = fall;
            steepest = i;
        }
    }
    if (steepest < 0)
        return;
    out->minimum = f->points[lowest].lr;
    out->suggested = out->minimum / 10;
    out->steepest = f->points[steepest].lr;
}

/* Take all steps. */
static fast_err run_steps(find_lr *f, fast_lr_point_fn *report, void *ctx, fast_lr_range *out)
{
    fast_lr_range found = { .steepest = NAN, .minimum = NAN, .suggested = NAN };
    double mean = 0, best = INFINITY;
    bool more = true;

    FAST_TRY(fast__alloc("learning rates", f->steps, sizeof *f->points, &f->points));
    while (more && f->count < f->steps) {
        FAST_TRY(step(f, &mean, &best, &more));
        if (report && !report(ctx, &f->points[f->count - 1]))
            return fast__fail(FAST_ECANCELED,
                              "the range is incomplete after %lld of %lld steps: no learning rate "
                              "is suggested",
                              (long long)f->count, (long long)f->steps);
    }
    found.steps = f->count;
    found.diverged = !more;
    suggest(f, &found);
    *out = found;
    return FAST_OK;
}

fast_err fast_find_lr(const char *const *options, double lr_min, double lr_max,
                      fast_lr_point_fn *report, void *ctx, fast_lr_range *out)
{
    find_lr f = { .first = lr_min, .last = lr_max };
    fast_err err;

    FAST_ASSERT(out != NULL);
    if (!(lr_min > 0) || !(lr_max > lr_min) || !(lr_max <= 1e9))
        return fast__fail(FAST_EINVAL,
                          "lr_min=%g and lr_max=%g: give two learning rates, the smaller one first "
                          "and above 0",
                          lr_min, lr_max);
    FAST_TRY(open_run(&f, options));
    err = run_steps(&f, report, ctx, out);
    fast_run_close(f.run);
    fast__free(f.points);
    return err;
}
