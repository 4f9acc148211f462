/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Losses and right answers of the current epoch, which progress, evaluations and checkpoints tell.
 *
 * Losses are summed as whole numbers in units of 2^-28, so that the sum does not depend on the
 * order of the workers: a loss below 2^16 takes 44 bits, and 2^19 of them fit. Two epochs are open
 * at a time, by parity; a worker more than one epoch behind is not counted.
 *
 * An evaluation of a synchronous team tells the batches up to its own step, though some workers may
 * be ahead: each worker also has sums of its own, and remembers them at steps where something is
 * due. A worker alone races with nobody; its losses are summed in their order.
 *
 * A third sum holds the batches since the store's last row of metrics, of all epochs: curves show
 * values of intervals, which do not jump where an epoch starts.
 *
 * Workers of other processes send their sums (remote_sums.c).
 */
#include "run/team.h"

#include <math.h>

static const int64_t COUNTED_NS = 1000000000; /* that worker 0 waits for the others' counts */
static const double LOSS_UNIT = 268435456.0;  /* 2^28 */
static const double LOSS_LARGE = 65536.0;     /* of which 2^19 fit */

void fast__sums_wake(fast_team *team)
{
    atomic_fetch_add(&team->progress.counted, 1);
    fast__futex_wake(&team->progress.counted);
}

/* Add a batch to sums. A loss that is not finite ends the run, and is in no sum of several
 * workers. */
static void add_batch(const fast_team *team, fast_epoch_sums *sums, const fast_gradient *gradient)
{
    if (!team->single && !isfinite(gradient->loss))
        return;
    if (!team->single && fabs(gradient->loss) < LOSS_LARGE)
        sums->loss += llround(gradient->loss * LOSS_UNIT);
    else
        sums->large += gradient->loss;
    sums->batches++;
    sums->correct += gradient->correct;
    sums->positions += gradient->positions;
}

/* Count the step in the worker's own sums, and remember them where something is due. The mutex is
 * held. */
static void count_own(fast_team_actor *self, int64_t epoch, const fast_gradient *gradient)
{
    const fast_run *run = self->team->run;
    fast_worker_sums *own = &self->sums;

    if (own->now.epoch != epoch)
        own->now = (fast_epoch_sums){ .epoch = epoch };
    if (gradient)
        add_batch(self->team, &own->now, gradient);
    own->step = self->context.trainer.step;
    if (!fast__run_is_due(run, run->config.evaluate_period, own->step) &&
        !fast__run_is_due(run, run->config.checkpoint_period, own->step))
        return;
    own->due[own->due_count++ % FAST_STEP_SUMS] = (fast_step_sums){ own->step, own->now };
    fast__sums_wake(self->team);
}

void fast__sums_resume(fast_team *team)
{
    const fast_run_sums *sums = &team->run->progress.sums;
    const int64_t step = team->run->step;
    const int64_t epoch = step > 0 ? (step - 1) / team->run->learner->epoch_steps : 0;

    team->progress.resumed = (fast_epoch_sums){ .epoch = epoch,
                                                .large = sums->loss,
                                                .batches = sums->batches,
                                                .correct = sums->correct,
                                                .positions = sums->positions };
    team->progress.epochs[epoch % 2] = team->progress.resumed;
}

/* Add sums of the same epoch. */
static void add_sums(const fast_epoch_sums *from, fast_epoch_sums *to)
{
    to->loss += from->loss;
    to->large += from->large;
    to->batches += from->batches;
    to->correct += from->correct;
    to->positions += from->positions;
}

/* Sums become the run's. The mutex is held. */
static void set_sums(fast_team *team, const fast_epoch_sums *sums)
{
    team->run->progress.sums =
        (fast_run_sums){ .loss = (double)sums->loss / LOSS_UNIT + sums->large,
                         .batches = sums->batches,
                         .correct = sums->correct,
                         .positions = sums->positions };
}

/* The newest epoch of this process that has sums. */
static const fast_epoch_sums *newest(const fast_team *team)
{
    const fast_epoch_sums *a = &team->progress.epochs[0];
    const fast_epoch_sums *b = &team->progress.epochs[1];

    return b->batches > 0 && b->epoch > a->epoch ? b : a;
}

void fast__sums_take(fast_team *team)
{
    set_sums(team, newest(team));
}

void fast__sums_take_all(fast_team *team)
{
    const fast_step_sums *remote = team->progress.remote;
    fast_epoch_sums all = *newest(team);

    for (int64_t i = 0; remote && i < team->workers; i++)
        if (remote[i].sums.batches > 0 && remote[i].sums.epoch > all.epoch)
            all = (fast_epoch_sums){ .epoch = remote[i].sums.epoch };
    for (int64_t i = 0; remote && i < team->workers; i++)
        if (remote[i].sums.epoch == all.epoch)
            add_sums(&remote[i].sums, &all);
    set_sums(team, &all);
}

fast_step_sums fast__sums_of(const fast_team_actor *self, int64_t step)
{
    for (int i = 0; i < FAST_STEP_SUMS; i++)
        if (step > 0 && self->sums.due[i].step == step)
            return self->sums.due[i];
    return (fast_step_sums){ .step = self->sums.step, .sums = self->sums.now };
}

/* Return the sums of a worker of any process up to `step`; nothing of a worker elsewhere that has
 * not sent those. */
static fast_epoch_sums sums_at(const fast_team *team, int64_t i, int64_t step)
{
    const fast_step_sums *remote = team->progress.remote;

    if (team->actors[i])
        return fast__sums_of(team->actors[i], step).sums;
    return remote && remote[i].step == step ? remote[i].sums : (fast_epoch_sums){ .epoch = -1 };
}

/* The batches of all workers up to `step` become the run's sums, though some workers may be ahead:
 * so a synchronous run tells the same numbers whenever it is repeated. The mutex is held. */
static void take_at(fast_team *team, int64_t step)
{
    const fast_team_actor *first = team->actors[0];
    const int64_t epoch = (step - 1) / first->context.trainer.epoch_steps;
    fast_epoch_sums all = { .epoch = epoch };

    if (team->progress.resumed.epoch == epoch)
        all = team->progress.resumed;

    for (int64_t i = 0; i < team->workers; i++) {
        const fast_epoch_sums own = sums_at(team, i, step);

        if (own.epoch == all.epoch)
            add_sums(&own, &all);
    }
    set_sums(team, &all);
}

/* Is a worker of this process still to count `step`? */
static bool is_uncounted(fast_team *team, int64_t step)
{
    bool found = false;

    fast__mutex_lock(&team->mutex);
    for (int64_t i = 0; i < team->workers; i++)
        found = found ||
                (team->actors[i] && !team->actors[i]->over && team->actors[i]->sums.step < step);
    fast__mutex_unlock(&team->mutex);
    return found;
}

/* Where replicas are identical, worker 0 evaluates without a vote. The gradients of all are in its
 * replica, but a thread may have been interrupted before it counted its own. It needs nobody for
 * that, so this takes microseconds; the bound only holds off a strategy of the caller's. Simulated
 * workers cannot wait here, and need not: their order repeats. */
void fast__sums_wait(fast_team *team, int64_t step)
{
    const int64_t end_ns = fast__run_wall() + COUNTED_NS;

    while (!team->run->clock.is_virtual && !team->single) {
        const unsigned seen = atomic_load(&team->progress.counted);
        const int64_t left_ns = end_ns - fast__run_wall();

        if (left_ns <= 0 || !is_uncounted(team, step))
            return;
        fast__futex_wait(&team->progress.counted, seen, left_ns);
    }
}

/* Add a batch to the sums since the store's last row. The mutex is held. */
static void count_interval(fast_team *team, const fast_gradient *gradient)
{
    fast_interval_sums *sums = &team->progress.interval;

    if (!gradient || !isfinite(gradient->loss))
        return;
    sums->loss += gradient->loss;
    sums->batches++;
    sums->correct += gradient->correct;
    sums->positions += gradient->positions;
}

void fast__sums_count(fast_team_actor *self, const fast_gradient *gradient)
{
    fast_team *team = self->team;
    const int64_t epoch = (self->context.trainer.step - 1) / self->context.trainer.epoch_steps;
    fast_epoch_sums *sums = &team->progress.epochs[epoch % 2];

    count_interval(team, gradient);
    if (sums->epoch < epoch)
        *sums = (fast_epoch_sums){ .epoch = epoch };
    if (gradient && sums->epoch == epoch)
        add_batch(team, sums, gradient);
    if (!team->single)
        count_own(self, epoch, gradient);
}

void fast__sums_take_at(fast_team *team, int64_t step)
{
    if (team->strategy->synchronous && !team->single)
        take_at(team, step);
    else
        fast__sums_take(team);
}
