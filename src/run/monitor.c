/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the steps of a team's workers: which model is evaluated, and who stops when.
 *
 * Evaluation. Where replicas are identical, worker 0 copies its own when an evaluation is due and
 * evaluates the copy. Elsewhere there is a vote (representative.c): a synchronous worker adds its
 * replica when its own step is due; an asynchronous one after its current step once a vote is open,
 * which is when all workers together have taken as many steps as make one due. The last worker to
 * vote evaluates; workers that ended or crashed are not waited for.
 *
 * Stopping. A single worker and asynchronous ones stop by themselves. Synchronous ones must stop at
 * the same step, or some would wait for workers that have stopped. A worker at step s that has not
 * yet contributed to the exchange that ends its period holds all others before the end of that
 * period: so
 *
 *     stop_step = (s / period + 1) period
 *
 * is a step that nobody has passed. Where workers exchange with neighbours only, remote ones may be
 * ahead: there s is the largest step that any worker has started. Workers that do not synchronise
 * for a long time stop in that way too, with a period of 1. Other processes cannot read s: there
 * synchronous workers agree by a small allreduce every AGREE steps, and asynchronous ones are sent
 * a message.
 *
 * An evaluation takes time in which its worker makes no step, and no peer may fail for that: the
 * world's waits are held meanwhile. Workers of other processes know at which steps the first one
 * evaluates.
 *
 * Several processes. A remote worker sends its replica to worker 0 when its program ends, and where
 * workers are synchronous also at every vote. Asynchronous ones have no moment in common: their
 * votes in mid-run are of the first process's workers.
 *
 * A vote, one of FAST_VOTES places of the ballot; the mutex guards every edge:
 *
 *     free, step = -1 --first replica of a step--> open --cast: local < workers_up--> open
 *       ^                                           |
 *       |         local >= workers_up: the last worker cast, or a worker that was missing left
 *       +---- evaluate, save <---- fast__vote_count: learner->w <----+
 *
 * Where both places are open a worker that needs a third sleeps 1 ms and looks again. Each open
 * vote closes: its missing workers either come to that step or end, and ending lowers workers_up.
 *
 * Example of stop_step: with a period of 8 a worker at step 19 sees the cancel. Every other worker
 * needs its part of the exchange at step 24, so none is beyond: (19 / 8 + 1) 8 = 24.
 *
 * Messages between processes:
 *
 *     TAG_VOTE    worker to worker 0          words[0] the bits of its loss; part 0: w, s; of a
 *                                             split model the centre, version words[1]
 *     TAG_LAST    worker to worker 0          as TAG_VOTE, when its program ends
 *     TAG_STOP    worker to remote workers    words[0] bits of FAST_WHY_*: asynchronous, once
 */
#include "run/team.h"

#include "base/memory.h"
#include "run/caller_loop.h"
#include "run/sink/store_sink.h"
#include "tensor/vector.h"
#include "transport/peers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    AGREE = 32,
    SAVE_TIMEOUTS = 10 /* time that another process may take to save a checkpoint */
};
enum { TAG_VOTE = 0x7ffffffd, TAG_STOP, TAG_LAST }; /* messages between processes */

static const int64_t SHOW_NS = 100000000;     /* between looks at whether to show progress */
static const int64_t HOUR_NS = 3600000000000; /* that an evaluation in another process may take */

/* A worker's own loss, for the policies that compare replicas. */
static void note_loss(fast_team_actor *self, double loss)
{
    if (self->progress.loss_count < self->team->representative.smooth)
        self->progress.loss_count++;
    self->progress.loss += (loss - self->progress.loss) / (double)self->progress.loss_count;
}

int64_t fast__monitor_counted(fast_team_actor *self)
{
    fast_actor_progress *p = &self->progress;

    if (p->counted < 0 || !self->context.resumed)
        p->counted = self->context.trainer.step;
    return p->counted;
}

void fast__monitor_step(fast_team_actor *self, const fast_gradient *gradient)
{
    fast_team *team = self->team;
    fast_run *run = team->run;

    fast__count(&self->measures.steps, 1);
    if (gradient)
        note_loss(self, gradient->loss);
    fast__team_lock(self);
    fast__sums_count(self, gradient);
    team->progress.steps_sum++;
    self->progress.counted++;
    /* Other processes count for themselves, and are as fast as this one. */
    if (gradient)
        run->progress.times.samples +=
            gradient->samples * self->context.trainer.workers / team->place.here;
    run->step = team->progress.steps_sum / team->place.here;
    if (gradient && !isfinite(gradient->loss) && !run->finished) {
        run->finished = true;
        run->result.stop = "diverged";
    }
    if (run->finished)
        atomic_store(&team->stop.finished, true);
    fast__team_unlock(self);
}

void fast__monitor_move(fast_team_actor *self, int64_t step)
{
    fast_team *team = self->team;

    fast__team_lock(self);
    if (step < self->context.trainer.step) { /* skipped ones are not counted, repeated ones once */
        team->progress.steps_sum -= self->context.trainer.step - step;
        self->progress.counted -= self->context.trainer.step - step;
    }
    team->run->step = team->progress.steps_sum / team->place.here;
    self->context.trainer.step = step;
    fast__team_unlock(self);
}

/* Where a worker is now. */
static fast_voter replica_of(const fast_team_actor *self)
{
    const fast_trainer *t = &self->context.trainer;

    return (fast_voter){ .worker = self->number,
                         .w = t->w,
                         .s = t->s,
                         .loss = self->progress.loss_count > 0 ? self->progress.loss : NAN,
                         .centre = t->centre,
                         .centre_version = t->centre_version };
}

void fast__monitor_cast(fast_vote *vote, const fast_team_actor *self)
{
    const fast_voter replica = replica_of(self);

    fast__vote_cast(self->team, vote, &replica);
    vote->local++;
}

/* Worker 0's replica and its rule's state become the run's, which a checkpoint holds; a single
 * worker's are. */
static void take_replica(const fast_team_actor *self)
{
    fast_run *run = self->team->run;
    const fast_trainer *t = &self->context.trainer;

    self->team->measures.divergence = 0;
    if (self->team->single || fast__split_is(self->team)) /* it has the ranges of all stages */
        return;
    fast__vector_copy(t->count, t->w, run->learner->w);
    fast__vector_copy(t->state_count, t->s, run->learner->s);
    if (!self->context.sharded.parted) /* a part of it is of no use */
        fast__rule_state_copy(run->optimizer, self->context.optimizer, NULL, t->count);
}

/* Evaluate the representative. The mutex is held: nobody else touches the run, and workers that
 * come by wait here, so that evaluation takes nothing from training. It takes no virtual time. */
static fast_err evaluate(fast_team_actor *self, int64_t step)
{
    fast_team *team = self->team;
    fast_run *run = team->run;
    const int64_t step_before = run->step;
    fast_actor *actor = self->context.trainer.actor;
    fast_err err = FAST_OK;
    /* Synchronous workers of other processes know the step at which this one evaluates. */
    const bool tells = !team->place.alone && !team->strategy->synchronous;

    if (!run->clock.is_virtual)
        fast__world_hold(team->place.world, INT64_MAX);
    if (tells)
        fast__peers_tell_busy(actor);
    run->clock.actor = actor;
    run->step = step;
    fast__sums_take_at(team, step);
    if (!run->finished && run->progress.step_evaluated != step &&
        fast__run_is_due(run, run->config.evaluate_period, step))
        err = fast__run_evaluate(run);
    if (!err)
        fast__run_save_due(run);
    else
        fast__team_break(self, err);
    run->step = step_before > step ? step_before : step;
    run->clock.actor = NULL;
    if (!run->clock.is_virtual)
        fast__world_hold(team->place.world, fast_now(actor) + 1);
    if (tells)
        fast__peers_tell_stood(actor);
    if (run->finished)
        atomic_store(&team->stop.finished, true);
    return err;
}

/* Let everybody stop. `step` is this worker's, or the largest that anybody has begun. */
static void stop_all(fast_team *team, int64_t step, int64_t period)
{
    long long none = INT64_MAX;

    atomic_store(&team->stop.now, true);
    atomic_compare_exchange_strong(&team->stop.step, &none,
                                   (long long)((step / period + 1) * period));
}

/* The vote of a step; NULL if both places are taken by older ones. The mutex is held. */
static fast_vote *vote_of(fast_team *team, int64_t step)
{
    fast_vote *place = NULL;

    for (int i = 0; i < FAST_VOTES; i++) {
        if (team->ballot.votes[i].step == step)
            return &team->ballot.votes[i];
        if (team->ballot.votes[i].step < 0)
            place = &team->ballot.votes[i];
    }
    if (place)
        fast__vote_clear(team, place, step);
    return place;
}

/* Everyone who is still there has voted. The mutex is held. */
static void close_vote(fast_team_actor *self, fast_vote *vote)
{
    fast_team *team = self->team;
    const int64_t step = vote->step;
    fast_err err;

    fast__vote_count(team, vote);
    vote->step = -1;
    team->ballot.step = -1;
    err = evaluate(self, step);
    if (!self->err)
        self->err = err;
}

/* Take part in the vote of `step`, or, with -1, in the one that is open. True once done, false if
 * there is no room for it yet. */
static bool vote_once(fast_team_actor *self, int64_t step)
{
    fast_team *team = self->team;
    const fast_trainer *t = &self->context.trainer;
    fast_vote *vote;

    fast__team_lock(self);
    if (step < 0) { /* the one that was seen may be closed since, and the next one open */
        self->progress.votes_cast = team->ballot.opened;
        if (team->ballot.step < 0) {
            fast__team_unlock(self);
            return true;
        }
    }
    vote = vote_of(team, step < 0 ? team->ballot.step : step);
    if (vote) {
        fast__monitor_cast(vote, self);
        fast__measure_vote(self);
        self->progress.step_voted = t->step;
        if (vote->local >= team->progress.workers_up)
            close_vote(self, vote);
    }
    fast__team_unlock(self);
    return vote != NULL;
}

/* Asynchronous strategies: open a vote when all steps together make one due. */
static int64_t open_vote(fast_team_actor *self)
{
    fast_team *team = self->team;
    const fast_run *run = team->run;
    int64_t opened;

    fast__team_lock(self);
    if (team->ballot.step < 0 && run->step < run->step_count &&
        fast__run_dues(run, run->config.evaluate_period, run->step) > team->ballot.opened) {
        team->ballot.step = run->step;
        team->ballot.opened = fast__run_dues(run, run->config.evaluate_period, run->step);
    }
    opened = team->ballot.opened;
    fast__team_unlock(self);
    return opened;
}

/* Evaluate and save at a step of worker 0, where all replicas are equal; workers of other processes
 * send their losses, and stages of replica 0 their parts. */
static void evaluate_equal(fast_team_actor *self, int64_t step)
{
    fast_run *run = self->team->run;

    self->progress.step_voted = step;
    if (!fast__run_is_due(run, run->config.evaluate_period, step) &&
        !fast__run_is_due(run, run->config.checkpoint_period, step))
        return;
    if (!self->team->place.first)
        self->err = fast__sums_send(self, false);
    if (self->err || self->context.trainer.rank > 0)
        return;
    if (fast__split_is(self->team)) {
        self->err = self->number == 0 ? fast__split_gather(self) : fast__split_send(self);
        if (self->err || self->number > 0)
            return;
    }
    if (self->number == 0 && !self->team->place.alone)
        self->err = fast__sums_receive(self, false);
    if (self->err)
        return;
    fast__sums_wait(self->team, step);
    fast__team_lock(self);
    if (!run->finished) {
        take_replica(self);
        self->err = evaluate(self, step);
    }
    fast__team_unlock(self);
}

/* Show progress ten times a second, by the machine's clock also where time is virtual. Workers in
 * lockstep do not contend for the lock with it. */
static void progress(fast_team_actor *self)
{
    fast_team *team = self->team;
    fast_run *run = team->run;
    const int64_t now = fast__run_wall();

    if (!fast__record_value(self->context.trainer.actor, now - self->progress.shown_ns >= SHOW_NS))
        return;
    self->progress.shown_ns = now;
    fast__team_lock(self);
    if (fast__record_value(self->context.trainer.actor, fast__run_is_time(run))) {
        run->clock.actor = self->context.trainer.actor;
        fast__sums_take(team);
        fast__run_tell(run, FAST_EVENT_PROGRESS, NULL);
        run->clock.actor = NULL;
    }
    fast__team_unlock(self);
}

/* Was the run canceled? In a replay: was the recorded run canceled at this point? */
static bool is_canceled(fast_team_actor *self)
{
    fast_team *team = self->team;
    const bool now = atomic_load(&team->run->cancel);
    const bool recorded = fast__record_value(self->context.trainer.actor, now);

    if (now && !recorded)
        fast__record_stop(team->place.world, "the replay was canceled before its end");
    if (recorded)
        atomic_fetch_or(&team->stop.why, FAST_WHY_CANCELED);
    return now || recorded;
}

/* Why this process wants to stop, as bits. */
static int why_stop(fast_team *team)
{
    const fast_run *run = team->run;

    if (atomic_load(&team->stop.finished)) {
        fast__mutex_lock(&team->mutex);
        const int why = fast__team_why(run->result.stop);
        fast__mutex_unlock(&team->mutex);
        return why;
    }
    return atomic_load(&run->cancel) ? FAST_WHY_CANCELED : 0;
}

fast_err fast__monitor_agree(fast_team *team, fast_group *group, int own, bool *stop_out)
{
    float flags[FAST_WHYS + 1]; /* the last: the sum of the ranks that cancel, each plus 1 */
    int why = 0;

    for (int i = 0; i < FAST_WHYS; i++)
        flags[i] = (own & (1 << i)) ? 1.0f : 0.0f;
    flags[FAST_WHYS] = (own & FAST_WHY_CANCELED) ? (float)(1 + fast_group_rank(group)) : 0.0f;
    FAST_TRY(fast_allreduce(group, flags, FAST_WHYS + 1, FAST_SOON));
    if (flags[0] == 1)
        atomic_store(&team->stop.canceler, (int64_t)flags[FAST_WHYS]);
    for (int i = 0; i < FAST_WHYS; i++)
        why |= flags[i] > 0 ? 1 << i : 0;
    atomic_fetch_or(&team->stop.why, why);
    *stop_out = why != 0;
    return FAST_OK;
}

/* Does the team agree to stop? Across processes: by sums of flags at steps that all pass. */
static fast_err agree(fast_team_actor *self, bool *stop_out)
{
    fast_team *team = self->team;
    fast_trainer *t = &self->context.trainer;
    /* The loop of a caller's may end before those of other processes, and they learn it at once. */
    const int64_t steps = fast__caller_loop_is(team->run) ? 1 : AGREE;
    const int64_t every = (steps + t->period - 1) / t->period * t->period;
    const int own = why_stop(team);

    *stop_out = false;
    if (t->step % every != 0)
        return FAST_OK;
    fast_actor_at(t->actor, t->step, "whether to stop");
    return fast__monitor_agree(team, self->everyone ? self->everyone : t->group, own, stop_out);
}

/* Is something due at this step, or up to the end of the period that begins with it? */
static bool is_due_soon(const fast_run *run, fast_period period, const fast_trainer *t)
{
    const int64_t before = t->step > 0 ? t->step - 1 : 0;

    return fast__run_dues(run, period, t->step + t->period) > fast__run_dues(run, period, before);
}

/* Another process evaluates at this step: its workers are late for the next exchange, and a worker
 * that has passed that exchange knows that they are back. The exchange before may not be over here
 * when it is there, and its messages wait for the evaluation too: so the hold starts a period
 * early. */
static void wait_for_evaluation(fast_team_actor *self)
{
    const fast_run *run = self->team->run;
    const fast_trainer *t = &self->context.trainer;
    const int64_t now = fast_now(t->actor);

    const bool evaluates = is_due_soon(run, run->config.evaluate_period, t);

    if (evaluates ||
        (run->config.checkpoint[0] && is_due_soon(run, run->config.checkpoint_period, t))) {
        fast_world *world = self->team->place.world;
        fast__world_hold(world, now + (evaluates ? HOUR_NS : SAVE_TIMEOUTS * world->timeout_ns));
        self->progress.step_held = t->step + t->period;
    } else if (self->progress.step_held > 0 && t->step >= self->progress.step_held) {
        fast__world_hold(self->team->place.world, now + 1);
        self->progress.step_held = 0;
    }
}

/* Send a remote worker's replica to worker 0. */
static fast_err send_replica(const fast_team_actor *self, uint64_t tag)
{
    const fast_trainer *t = &self->context.trainer;
    const size_t w_size = (size_t)t->count * sizeof(float);
    const size_t s_size = (size_t)t->state_count * sizeof(float);
    /* Worker 0 has the centre of its own part. */
    const size_t centre_size = fast__split_is(self->team) && t->centre ? w_size : 0;
    const double loss = replica_of(self).loss;
    fast_buffer *buffer;
    fast_msg *msg;
    fast_err err;

    FAST_TRY(fast_msg_new(t->actor, tag, &msg));
    err = fast_buffer_new(t->actor, w_size + s_size + centre_size, &buffer);
    if (err) {
        fast_msg_free(msg);
        return err;
    }
    fast__vector_copy(t->count, t->w, fast_buffer_data(buffer));
    fast__vector_copy(t->state_count, t->s, (char *)fast_buffer_data(buffer) + w_size);
    if (centre_size > 0)
        fast__vector_copy(t->count, t->centre,
                          (float *)fast_buffer_data(buffer) + t->count + t->state_count);
    memcpy(&msg->words[0], &loss, sizeof loss);
    msg->words[1] = t->centre_version;
    fast_msg_add(msg, &buffer);
    return fast_send(t->actor, self->team->ids[0], &msg);
}

/* Worker 0 takes the replicas of all workers of other processes into a vote, whenever they come. */
static fast_err take_replicas(const fast_team_actor *self, uint64_t tag, fast_vote *vote)
{
    fast_team *team = self->team;
    const fast_trainer *t = &self->context.trainer;

    for (int64_t i = 0; i < team->workers; i++) {
        fast_err err = team->actors[i] ? FAST_EPEER : FAST_ETIMEDOUT;
        const fast_team_part part = fast__split_part(team, fast__split_part_of(team, i));
        const int64_t floats = part.params->count + part.state->count;
        fast_voter replica = { .worker = i };
        fast_msg *msg = NULL;

        fast_actor_at(t->actor, t->step, "a remote replica");
        while (err == FAST_ETIMEDOUT) /* it may be slow; if it is gone, that is told */
            err = fast_receive(t->actor, team->ids[i], tag, FAST_SOON, &msg);
        if (err == FAST_EPEER)
            continue;
        FAST_TRY(err);
        replica.w = fast_msg_data(msg, 0);
        replica.s = replica.w + part.params->count;
        if (msg->parts[0].size > (size_t)floats * sizeof(float)) {
            replica.centre = replica.w + floats;
            replica.centre_version = msg->words[1];
        }
        memcpy(&replica.loss, &msg->words[0], sizeof replica.loss);
        fast__mutex_lock(&team->mutex);
        fast__vote_cast(team, vote, &replica);
        fast__mutex_unlock(&team->mutex);
        fast_msg_free(msg);
    }
    return FAST_OK;
}

/* Synchronous workers vote at their own step. There are places for two votes; a third waits. Those
 * of other processes send their replicas to worker 0, whose own comes last, so that the vote is
 * open until all others are in it. */
static fast_err vote_together(fast_team_actor *self)
{
    fast_team *team = self->team;
    const fast_trainer *t = &self->context.trainer;

    if (!team->place.first) {
        self->progress.step_voted = t->step;
        FAST_TRY(send_replica(self, TAG_VOTE));
        return fast__sums_send(self, false);
    }
    if (!team->place.alone && self->number == 0) {
        fast_vote *vote = NULL;

        for (;;) {
            fast__mutex_lock(&team->mutex);
            vote = vote_of(team, t->step);
            fast__mutex_unlock(&team->mutex);
            if (vote)
                break;
            FAST_TRY(fast_sleep_until(t->actor, fast_now(t->actor) + 1000000));
        }
        FAST_TRY(take_replicas(self, TAG_VOTE, vote));
        FAST_TRY(fast__sums_receive(self, false));
    }
    while (!vote_once(self, t->step))
        FAST_TRY(fast_sleep_until(t->actor, fast_now(t->actor) + 1000000));
    return self->err;
}

/* May this worker take its next step, or is it the one at which all stop? Where workers exchange
 * with neighbours only (a topology), or run freely, the answer and the count of started steps
 * change together, under a lock. */
static bool is_last_step(fast_team_actor *self)
{
    fast_team *team = self->team;
    fast_trainer *t = &self->context.trainer;
    const bool asked = is_canceled(self) || atomic_load(&team->stop.finished);
    const bool free_running = t->free_running && team->place.alone;
    const bool locked = team->topology || free_running || fast__split_is(team);
    bool stop;

    if (team->single) /* nobody waits for it */
        return asked;
    if (locked)
        fast__mutex_lock(&team->mutex);
    if (asked)
        stop_all(team,
                 locked && team->progress.step_begun > t->step ? team->progress.step_begun
                                                               : t->step,
                 free_running ? 1 : t->period);
    stop = t->step >= atomic_load(&team->stop.step);
    if (locked) {
        if (!stop && t->step > team->progress.step_begun)
            team->progress.step_begun = t->step;
        fast__mutex_unlock(&team->mutex);
    }
    return stop;
}

/* Between two steps of a synchronous worker: vote or evaluate where that is due, collect states for
 * a checkpoint, then decide together whether to stop. Return false to end the program. */
static bool synchronous_next(fast_team_actor *self)
{
    fast_team *team = self->team;
    fast_run *run = team->run;
    fast_trainer *t = &self->context.trainer;
    bool stop = false;

    if (t->step >= t->step_count) /* the end is evaluated when all have come to it */
        return false;
    if (team->single && is_canceled(self)) /* before an evaluation, too */
        return false;
    if (!team->place.first)
        wait_for_evaluation(self);
    if (self->progress.step_voted != t->step && t->step > 0) {
        if (!team->strategy->identical &&
            fast__run_is_due(run, run->config.evaluate_period, t->step))
            self->err = vote_together(self);
        else if (team->strategy->identical)
            evaluate_equal(self, t->step);
        if (!self->err && run->config.checkpoint[0] &&
            fast__run_is_due(run, run->config.checkpoint_period, t->step) &&
            fast__saved_states_due(team, t->step))
            self->err = fast__collect_due(self, t->step);
    }
    fast_critical_begin(t->actor, FAST_CRITICAL_TEAM);
    stop = is_last_step(self);
    fast_critical_end(t->actor);
    if (!self->err && !team->place.alone)
        self->err = agree(self, &stop);
    return !self->err && !stop;
}

/* Asynchronous workers of several processes: whoever stops tells those of the others, once. */
static void spread_stop(fast_team_actor *self, bool stop)
{
    fast_team *team = self->team;
    fast_actor *actor = self->context.trainer.actor;
    fast_msg *msg;

    for (int64_t i = 0; i < team->workers; i++) {
        msg = fast__take(actor, team->ids[i], TAG_STOP);
        if (msg) {
            atomic_fetch_or(&team->stop.why, (int)msg->words[0]);
            atomic_store(&team->stop.now, true);
        }
        fast_msg_free(msg);
    }
    for (int64_t i = 0; stop && i < team->workers; i++) {
        if (team->actors[i] || fast_msg_new(actor, TAG_STOP, &msg))
            continue;
        msg->words[0] = why_stop(team);
        (void)!fast_send(actor, team->ids[i], &msg); /* who is gone has stopped */
    }
}

/* Take part in the open vote: over several processes by the replica of worker 0 alone, whose parts
 * come together here. */
static void vote_replica(fast_team_actor *self)
{
    fast_team *team = self->team;

    if (team->place.alone) {
        vote_once(self, -1);
        return;
    }
    self->err = self->number == 0 ? fast__split_gather(self) : fast__split_send(self);
    if (self->err || self->number > 0)
        return;
    fast__team_lock(self);
    const int64_t step = team->ballot.step;

    self->progress.votes_cast = team->ballot.opened;
    team->ballot.step = -1;
    if (step >= 0)
        self->err = evaluate(self, step);
    fast__team_unlock(self);
}

/* Between two steps of a worker that is not the first of its replica: that one decides. */
static bool follow_next(fast_team_actor *self)
{
    fast_team *team = self->team;
    const fast_trainer *t = &self->context.trainer;
    bool more = false, votes = false;

    if (t->step >= t->step_count)
        return false;
    if (is_canceled(self) && !atomic_exchange(&team->stop.now, true) && !team->place.alone)
        spread_stop(self, true);
    self->err = fast__split_follow(self, &more, &votes);
    if (!self->err && votes)
        vote_replica(self);
    return !self->err && more;
}

/* Between two steps of an asynchronous worker: cast a vote that was opened, and look whether anyone
 * stopped. Return false to end the program. */
static bool asynchronous_next(fast_team_actor *self)
{
    fast_team *team = self->team;
    fast_trainer *t = &self->context.trainer;
    const bool split = fast__split_is(team);
    bool first = false, stop;

    if (split && fast__split_leader(team, self->number) != self->number)
        return follow_next(self);
    const bool speaks = team->place.first && (!split || team->place.alone || self->number == 0);
    const bool votes = speaks && self->progress.votes_cast < open_vote(self);

    fast__monitor_news(self);
    if (team->cut.on)
        self->err = fast__cut_next(self, is_canceled(self));
    if (self->err || t->step >= t->step_count)
        return false;
    if (!team->place.alone) /* also where workers do not exchange anything: other ranks ask */
        fast__progress(t->actor);
    if (votes && !split)
        vote_once(self, -1);
    if (!team->place.alone)
        spread_stop(self, false);
    const bool waits = fast__cut_waits(self);
    fast_critical_begin(t->actor, FAST_CRITICAL_TEAM);
    if ((is_canceled(self) && !waits) || atomic_load(&team->stop.finished))
        first = !atomic_exchange(&team->stop.now, true);
    stop = atomic_load(&team->stop.now);
    fast_critical_end(t->actor);
    if (first && !team->place.alone)
        spread_stop(self, true);
    if (split && !self->err)
        self->err = fast__split_lead(self, !stop, votes);
    if (split && !self->err && votes)
        vote_replica(self);
    return !self->err && !stop;
}

bool fast__monitor_next(fast_team_actor *self)
{
    const bool continues =
        self->team->strategy->synchronous ? synchronous_next(self) : asynchronous_next(self);

    if (!continues)
        fast__cut_leave(self);
    if (self->err)
        snprintf(self->why, sizeof self->why, "%s", fast_error_detail());
    else if (continues)
        progress(self);
    return continues;
}

void fast__monitor_return(fast_team_actor *self)
{
    fast_team *team = self->team;

    fast__team_lock(self);
    team->progress.workers_up += self->over; /* who crashed before it began is counted still */
    self->over = false;
    self->lost = false;
    self->progress.votes_cast = team->ballot.opened;
    fast__team_unlock(self);
}

fast_err fast__monitor_leave(fast_team_actor *self)
{
    fast_team *team = self->team;
    const int64_t step = self->context.trainer.step;

    fast__cut_leave(self); /* also where the program ended by itself */
    fast__team_lock(self);
    FAST_ASSERT(!self->over);
    self->over = true;
    team->progress.workers_up--;
    fast__sums_wake(team);
    /* The votes that only waited for this one are complete now. */
    for (int i = 0; i < FAST_VOTES; i++)
        if (team->ballot.votes[i].step >= 0 && team->ballot.votes[i].local > 0 &&
            team->ballot.votes[i].local >= team->progress.workers_up)
            close_vote(self, &team->ballot.votes[i]);
    fast__team_unlock(self);
    if (team->place.alone || self->lost || (team->place.first && self->number != 0))
        return FAST_OK;
    if (fast__split_is(team) && team->strategy->identical)
        FAST_TRY(fast__split_leave(self));
    FAST_TRY(fast__collect_leave(self, step));
    if (!team->strategy->identical)
        FAST_TRY(team->place.first ? take_replicas(self, TAG_LAST, &team->ballot.last)
                                   : send_replica(self, TAG_LAST));
    return team->place.first ? fast__sums_receive(self, true) : fast__sums_send(self, true);
}

/* The replicas that the workers ended with become the representative. */
static void take_ends(fast_team *team)
{
    fast_vote *vote = &team->ballot.last;

    if (fast__split_is(team) && team->strategy->identical) {
        fast__split_take_ends(team);
        return;
    }
    for (int64_t i = 0; i < team->workers && team->strategy->identical; i++)
        if (team->actors[i]) {
            take_replica(team->actors[i]);
            return;
        }
    if (vote->local > 0) /* an earlier call counted them, and nobody has trained since */
        return;
    for (int64_t i = 0; i < team->workers; i++)
        if (team->actors[i] && !team->actors[i]->lost)
            fast__monitor_cast(vote, team->actors[i]);
    if (vote->count > 0)
        fast__vote_count(team, vote);
}

fast_err fast__monitor_finish(fast_team *team)
{
    fast_run *run = team->run;
    const bool evaluated =
        run->progress.step_evaluated == run->step && run->progress.step_evaluated >= 0;

    fast__sums_take_all(team);
    if (team->place.first && run->finished && fast__team_why(run->result.stop) != FAST_WHY_DIVERGED)
        return FAST_OK; /* the model of that evaluation stands */
    take_ends(team);
    /* Where workers were lost fewer steps were taken than asked for; it is the end all the same. */
    if (!run->finished && !run->result.canceled && !evaluated && team->place.first &&
        run->config.evaluate_period.unit != FAST_PERIOD_NEVER &&
        (!fast__phases_left(team) || fast__run_is_due(run, run->config.evaluate_period, run->step)))
        FAST_TRY(fast__run_evaluate(run));
    if (fast__phases_left(team))
        fast__run_save_due(run);
    return FAST_OK;
}
