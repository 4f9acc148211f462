/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the steps of a team's workers: which model is evaluated, and who stops when.
 *
 * Evaluation. Where replicas are identical, worker 0 copies its own when one is due and evaluates
 * the copy. Elsewhere there is a vote (represent.c): a synchronous worker adds its replica when its
 * own step is due; asynchronous ones when they next come by after somebody opened a vote, which is
 * when all workers together have taken as many steps as make one due. Who comes last evaluates;
 * those who ended or crashed are not waited for.
 *
 * Stopping. Asynchronous workers stop one by one. Synchronous ones must stop at the same step, or
 * those who go on would wait for those who do not. A worker that is at step s and has not yet given
 * its part to the exchange that ends its period holds all others before the end of that period: so
 *
 *     stop_step = (s / period + 1) period
 *
 * is a step that nobody has passed. Where workers exchange with neighbours only, those further away
 * may be ahead: there s is the largest step that anybody has begun; likewise where they do not meet
 * for long, with a period of 1. Other processes cannot read it;
 * there synchronous workers agree by a small allreduce every AGREE steps, and asynchronous ones are
 * sent a message.
 *
 * Judging takes time in which its worker does not go on, and no peer may fail for that: the world's
 * waits are held meanwhile. Workers of other processes know at which steps the first one judges.
 *
 * Several processes. A far worker sends its replica to worker 0 when its program ends, and where
 * workers are synchronous also at every vote. Asynchronous ones have no moment in common: their
 * votes in mid-run are of the first process's workers.
 */
#include "run/team.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { AGREE = 32 };
enum { TAG_VOTE = 0x7ffffffd, TAG_STOP, TAG_LAST }; /* messages between processes */

static const int64_t SHOW_NS = 100000000;     /* between looks at whether to show progress */
static const int64_t HOUR_NS = 3600000000000; /* that judging in another process may take */

static const double LOSS_UNIT = 268435456.0; /* 2^28 */
static const double LOSS_LARGE = 65536.0;    /* of which 2^19 fit */

/* A worker's own loss, for the policies that compare replicas. */
static void note_loss(fast_seat *seat, double loss)
{
    if (seat->loss_count < seat->team->represent.smooth)
        seat->loss_count++;
    seat->loss += (loss - seat->loss) / (double)seat->loss_count;
}

void fast__monitor_step(fast_seat *seat, const fast_gradient *gradient)
{
    fast_team *team = seat->team;
    fast_run *run = team->run;
    const int64_t epoch = (seat->trainer.step - 1) / seat->trainer.epoch_steps;
    fast_epoch_sums *sums = &team->epochs[epoch % 2];

    fast__count(&seat->steps, 1);
    if (gradient)
        note_loss(seat, gradient->loss);
    fast__team_lock(seat);
    if (sums->epoch < epoch)
        *sums = (fast_epoch_sums){ .epoch = epoch };
    if (gradient && sums->epoch == epoch && isfinite(gradient->loss)) {
        if (fabs(gradient->loss) < LOSS_LARGE)
            sums->loss += llround(gradient->loss * LOSS_UNIT);
        else
            sums->large += gradient->loss;
        sums->batches++;
        sums->correct += gradient->correct;
        sums->positions += gradient->positions;
    }
    team->steps_sum++;
    /* Other processes count for themselves, and are as fast as this one. */
    if (gradient)
        run->times.samples += gradient->samples * team->workers / team->here;
    run->step = team->steps_sum / team->here;
    if (gradient && !isfinite(gradient->loss) && !run->finished) {
        run->finished = true;
        run->result.stop = "diverged";
    }
    if (run->finished)
        atomic_store(&team->finished, true);
    fast__team_unlock(seat);
}

void fast__monitor_move(fast_seat *seat, int64_t step)
{
    fast_team *team = seat->team;

    fast__team_lock(seat);
    if (step < seat->trainer.step) /* what is left out is not counted, what comes again not twice */
        team->steps_sum -= seat->trainer.step - step;
    team->run->step = team->steps_sum / team->here;
    seat->trainer.step = step;
    fast__team_unlock(seat);
}

/* The newest epoch that has sums becomes the run's. The mutex is held. */
static void take_sums(fast_team *team)
{
    const fast_epoch_sums *a = &team->epochs[0];
    const fast_epoch_sums *b = &team->epochs[1];
    const fast_epoch_sums *sums = b->batches > 0 && b->epoch > a->epoch ? b : a;

    team->run->sums = (fast_run_sums){ .loss = (double)sums->loss / LOSS_UNIT + sums->large,
                                       .batches = sums->batches,
                                       .correct = sums->correct,
                                       .positions = sums->positions };
}

/* Where a worker is now. */
static fast_replica replica_of(const fast_seat *seat)
{
    const fast_trainer *t = &seat->trainer;

    return (fast_replica){ .rank = t->rank,
                           .w = t->w,
                           .s = t->s,
                           .loss = seat->loss_count > 0 ? seat->loss : NAN,
                           .centre = t->centre,
                           .centre_version = t->centre_version };
}

void fast__monitor_cast(fast_vote *vote, const fast_seat *seat)
{
    const fast_replica replica = replica_of(seat);

    fast__vote_cast(seat->team, vote, &replica);
    vote->near++;
}

/* Worker 0's replica and its rule's state become the run's, which a checkpoint holds. */
static void take_replica(const fast_seat *seat)
{
    fast_run *run = seat->team->run;
    const fast_trainer *t = &seat->trainer;
    float *slot;

    seat->team->divergence = 0;
    memcpy(run->learner->w, t->w, (size_t)t->count * sizeof *t->w);
    memcpy(run->learner->s, t->s, (size_t)t->state_count * sizeof *t->s);
    for (int i = 0; (slot = fast__optimizer_slot(run->optimizer, i)) != NULL; i++)
        memcpy(slot, fast__optimizer_slot(seat->optimizer, i), (size_t)t->count * sizeof *slot);
}

/* Evaluate the representative. The mutex is held: nobody else touches the run, and workers that
 * come by wait here, so that judging takes nothing from training. It takes no virtual time. */
static fast_err judge(fast_seat *seat, int64_t step)
{
    fast_team *team = seat->team;
    fast_run *run = team->run;
    const int64_t step_before = run->step;
    fast_err err = FAST_OK;

    if (!run->is_virtual)
        fast__world_hold(team->world, INT64_MAX);
    run->actor = seat->trainer.actor;
    run->step = step;
    take_sums(team);
    if (!run->finished && run->step_judged != step &&
        fast__run_is_due(run, run->config.evaluate_period, step))
        err = fast__run_evaluate(run);
    if (!err)
        err = fast__run_keep_due(run);
    else
        fast__team_break(seat, err);
    run->step = step_before > step ? step_before : step;
    run->actor = NULL;
    if (!run->is_virtual)
        fast__world_hold(team->world, fast_now(seat->trainer.actor) + 1);
    if (run->finished)
        atomic_store(&team->finished, true);
    return err;
}

/* Let everybody stop. `step` is this worker's, or the largest that anybody has begun. */
static void stop_all(fast_team *team, int64_t step, int64_t period)
{
    long long none = INT64_MAX;

    atomic_store(&team->stop, true);
    atomic_compare_exchange_strong(&team->stop_step, &none,
                                   (long long)((step / period + 1) * period));
}

/* The vote of a step; NULL if both places are taken by older ones. The mutex is held. */
static fast_vote *vote_of(fast_team *team, int64_t step)
{
    fast_vote *place = NULL;

    for (int i = 0; i < FAST_VOTES; i++) {
        if (team->votes[i].step == step)
            return &team->votes[i];
        if (team->votes[i].step < 0)
            place = &team->votes[i];
    }
    if (place)
        fast__vote_clear(team, place, step);
    return place;
}

/* Everyone who is still there has voted. The mutex is held. */
static void close_vote(fast_seat *seat, fast_vote *vote)
{
    fast_team *team = seat->team;
    const int64_t step = vote->step;
    fast_err err;

    fast__vote_count(team, vote);
    vote->step = -1;
    team->vote_step = -1;
    err = judge(seat, step);
    if (!seat->err)
        seat->err = err;
}

/* Take part in the vote of `step`, or, with -1, in the one that is open. True once done, false if
 * there is no room for it yet. */
static bool vote_once(fast_seat *seat, int64_t step)
{
    fast_team *team = seat->team;
    const fast_trainer *t = &seat->trainer;
    fast_vote *vote;

    fast__team_lock(seat);
    if (step < 0) { /* the one that was seen may be closed since, and the next one open */
        seat->votes_cast = team->votes_opened;
        if (team->vote_step < 0) {
            fast__team_unlock(seat);
            return true;
        }
    }
    vote = vote_of(team, step < 0 ? team->vote_step : step);
    if (vote) {
        fast__monitor_cast(vote, seat);
        fast__measure_vote(seat);
        seat->step_judged = t->step;
        if (vote->near >= team->workers_up)
            close_vote(seat, vote);
    }
    fast__team_unlock(seat);
    return vote != NULL;
}

/* Asynchronous strategies: open a vote when all steps together make one due. */
static int64_t open_vote(fast_seat *seat)
{
    fast_team *team = seat->team;
    const fast_run *run = team->run;
    int64_t opened;

    fast__team_lock(seat);
    if (team->vote_step < 0 && run->step < run->step_count &&
        fast__run_dues(run, run->config.evaluate_period, run->step) > team->votes_opened) {
        team->vote_step = run->step;
        team->votes_opened = fast__run_dues(run, run->config.evaluate_period, run->step);
    }
    opened = team->votes_opened;
    fast__team_unlock(seat);
    return opened;
}

/* What an identical strategy's worker 0 does at its own step. */
static void judge_alone(fast_seat *seat, int64_t step)
{
    fast_team *team = seat->team;
    fast_run *run = team->run;

    fast__team_lock(seat);
    if (!run->finished && (fast__run_is_due(run, run->config.evaluate_period, step) ||
                           fast__run_is_due(run, run->config.checkpoint_period, step))) {
        take_replica(seat);
        seat->err = judge(seat, step);
    }
    seat->step_judged = step;
    fast__team_unlock(seat);
}

/* Show how it goes, now and then; by the machine's clock also where time is virtual. Workers that
 * go on together do not meet at the lock for it. */
static void progress(fast_seat *seat)
{
    fast_team *team = seat->team;
    fast_run *run = team->run;
    const int64_t now = fast__run_wall();

    if (!fast__record_value(seat->trainer.actor, now - seat->shown_ns >= SHOW_NS))
        return;
    seat->shown_ns = now;
    fast__team_lock(seat);
    if (fast__record_value(seat->trainer.actor, fast__run_is_time(run))) {
        run->actor = seat->trainer.actor;
        take_sums(team);
        fast__run_tell(run, FAST_EVENT_PROGRESS, NULL);
        run->actor = NULL;
    }
    fast__team_unlock(seat);
}

/* Was the run canceled? In a replay: was it then? */
static bool is_canceled(fast_seat *seat)
{
    fast_team *team = seat->team;
    const bool now = atomic_load(&team->run->cancel);
    const bool then = fast__record_value(seat->trainer.actor, now);

    if (now && !then)
        fast__record_stop(team->world, "the replay was canceled before its end");
    if (then)
        atomic_fetch_or(&team->why, FAST_WHY_CANCELED);
    return now || then;
}

/* Why this process wants to stop, as bits. */
static int why_stop(fast_team *team)
{
    const fast_run *run = team->run;

    if (atomic_load(&team->finished)) {
        fast__mutex_lock(&team->mutex);
        const bool target = strcmp(run->result.stop, "target") == 0;
        fast__mutex_unlock(&team->mutex);
        return target ? FAST_WHY_TARGET : FAST_WHY_DIVERGED;
    }
    return atomic_load(&run->cancel) ? FAST_WHY_CANCELED : 0;
}

/* Does the team agree to stop? Across processes: by sums of flags at steps that all pass. */
static fast_err agree(fast_seat *seat, bool *stop_out)
{
    fast_team *team = seat->team;
    fast_trainer *t = &seat->trainer;
    const int64_t every = (AGREE + t->period - 1) / t->period * t->period;
    float flags[FAST_WHYS];
    const int own = why_stop(team);
    int why = 0;

    *stop_out = false;
    if (t->step % every != 0)
        return FAST_OK;
    fast_actor_at(t->actor, t->step, "whether to stop");
    for (int i = 0; i < FAST_WHYS; i++)
        flags[i] = (own & (1 << i)) ? 1.0f : 0.0f;
    FAST_TRY(fast_allreduce(t->group, flags, FAST_WHYS, FAST_SOON));
    for (int i = 0; i < FAST_WHYS; i++)
        why |= flags[i] > 0 ? 1 << i : 0;
    atomic_fetch_or(&team->why, why);
    *stop_out = why != 0;
    return FAST_OK;
}

/* Is something due at this step, or up to the end of the period that begins with it? */
static bool is_due_soon(const fast_run *run, fast_period period, const fast_trainer *t)
{
    const int64_t before = t->step > 0 ? t->step - 1 : 0;

    return fast__run_dues(run, period, t->step + t->period) > fast__run_dues(run, period, before);
}

/* Another process judges at this step: its workers are late for the next exchange, and who has
 * passed that knows that they are back. The exchange before may not be over here when it is there,
 * and what is still to be sent waits for the judge, too: so it begins a period early. */
static void wait_for_judges(fast_seat *seat)
{
    const fast_run *run = seat->team->run;
    const fast_trainer *t = &seat->trainer;
    const int64_t now = fast_now(t->actor);

    if (is_due_soon(run, run->config.evaluate_period, t) ||
        (run->config.checkpoint[0] && is_due_soon(run, run->config.checkpoint_period, t))) {
        fast__world_hold(seat->team->world, now + HOUR_NS);
        seat->step_held = t->step + t->period;
    } else if (seat->step_held > 0 && t->step >= seat->step_held) {
        fast__world_hold(seat->team->world, now + 1);
        seat->step_held = 0;
    }
}

/* A far worker's replica goes to worker 0. */
static fast_err send_replica(const fast_seat *seat, uint64_t tag)
{
    const fast_trainer *t = &seat->trainer;
    const size_t w_size = (size_t)t->count * sizeof(float);
    const size_t s_size = (size_t)t->state_count * sizeof(float);
    const double loss = replica_of(seat).loss;
    fast_buffer *buffer;
    fast_msg *msg;
    fast_err err;

    FAST_TRY(fast_msg_new(t->actor, tag, &msg));
    err = fast_buffer_new(t->actor, w_size + s_size, &buffer);
    if (err) {
        fast_msg_free(msg);
        return err;
    }
    memcpy(fast_buffer_data(buffer), t->w, w_size);
    memcpy((char *)fast_buffer_data(buffer) + w_size, t->s, s_size);
    memcpy(&msg->words[0], &loss, sizeof loss);
    fast_msg_add(msg, &buffer);
    return fast_send(t->actor, t->worker_ids[0], &msg);
}

/* Worker 0 takes the replicas of all workers of other processes into a vote, whenever they come. */
static fast_err take_replicas(const fast_seat *seat, uint64_t tag, fast_vote *vote)
{
    fast_team *team = seat->team;
    const fast_trainer *t = &seat->trainer;

    for (int64_t i = 0; i < team->workers; i++) {
        fast_err err = team->seats[i] ? FAST_EPEER : FAST_ETIMEDOUT;
        fast_replica replica = { .rank = i };
        fast_msg *msg = NULL;

        fast_actor_at(t->actor, t->step, "a far replica");
        while (err == FAST_ETIMEDOUT) /* it may be slow; if it is gone, that is told */
            err = fast_receive(t->actor, t->worker_ids[i], tag, FAST_SOON, &msg);
        if (err == FAST_EPEER)
            continue;
        FAST_TRY(err);
        replica.w = fast_msg_data(msg, 0);
        replica.s = replica.w + t->count;
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
static fast_err vote_together(fast_seat *seat)
{
    fast_team *team = seat->team;
    const fast_trainer *t = &seat->trainer;

    if (!team->first) {
        seat->step_judged = t->step;
        return send_replica(seat, TAG_VOTE);
    }
    if (!team->alone && t->rank == 0) {
        fast_vote *vote = NULL;

        for (;;) {
            fast__mutex_lock(&team->mutex);
            vote = vote_of(team, t->step);
            fast__mutex_unlock(&team->mutex);
            if (vote)
                break;
            FAST_TRY(fast_sleep_until(t->actor, fast_now(t->actor) + 1000000));
        }
        FAST_TRY(take_replicas(seat, TAG_VOTE, vote));
    }
    while (!vote_once(seat, t->step))
        FAST_TRY(fast_sleep_until(t->actor, fast_now(t->actor) + 1000000));
    return seat->err;
}

/* May this worker take its next step, or is it the one at which all stop? With neighbours alone
 * (a topology), or with nobody, a worker is told to go on, and is counted as having begun, in one:
 * under a lock. */
static bool is_last_step(fast_seat *seat)
{
    fast_team *team = seat->team;
    fast_trainer *t = &seat->trainer;
    const bool asked = is_canceled(seat) || atomic_load(&team->finished);
    const bool apart = t->apart && team->alone, locked = team->topology || apart;
    bool stop;

    if (locked)
        fast__mutex_lock(&team->mutex);
    if (asked)
        stop_all(team, locked && team->step_begun > t->step ? team->step_begun : t->step,
                 apart ? 1 : t->period);
    stop = t->step >= atomic_load(&team->stop_step);
    if (locked) {
        if (!stop && t->step > team->step_begun)
            team->step_begun = t->step;
        fast__mutex_unlock(&team->mutex);
    }
    return stop;
}

static bool synchronous_next(fast_seat *seat)
{
    fast_team *team = seat->team;
    fast_run *run = team->run;
    fast_trainer *t = &seat->trainer;
    bool stop = false;

    if (t->step >= t->step_count) /* the end is judged when all have come to it */
        return false;
    if (!team->first)
        wait_for_judges(seat);
    if (seat->step_judged != t->step && t->step > 0) {
        if (!team->strategy->identical &&
            fast__run_is_due(run, run->config.evaluate_period, t->step))
            seat->err = vote_together(seat);
        else if (team->strategy->identical && t->rank == 0)
            judge_alone(seat, t->step);
        if (!seat->err && run->config.checkpoint[0] &&
            fast__run_is_due(run, run->config.checkpoint_period, t->step) &&
            fast__owed_is_due(team, t->step))
            seat->err = fast__gather_due(seat, t->step);
    }
    fast_turn_begin(t->actor, FAST_TURN_TEAM);
    stop = is_last_step(seat);
    fast_turn_end(t->actor);
    if (!seat->err && !team->alone)
        seat->err = agree(seat, &stop);
    return !seat->err && !stop;
}

/* Asynchronous workers of several processes: whoever stops tells those of the others, once. */
static void spread_stop(fast_seat *seat, bool stop)
{
    fast_team *team = seat->team;
    fast_actor *actor = seat->trainer.actor;
    fast_msg *msg;

    for (int64_t i = 0; i < team->workers; i++) {
        msg = fast__take(actor, team->ids[i], TAG_STOP);
        if (msg) {
            atomic_fetch_or(&team->why, (int)msg->words[0]);
            atomic_store(&team->stop, true);
        }
        fast_msg_free(msg);
    }
    for (int64_t i = 0; stop && i < team->workers; i++) {
        if (team->seats[i] || fast_msg_new(actor, TAG_STOP, &msg))
            continue;
        msg->words[0] = why_stop(team);
        (void)!fast_send(actor, team->ids[i], &msg); /* who is gone has stopped */
    }
}

static bool asynchronous_next(fast_seat *seat)
{
    fast_team *team = seat->team;
    fast_trainer *t = &seat->trainer;
    const int64_t opened = team->first ? open_vote(seat) : 0;
    bool first = false, stop;

    if (t->step >= t->step_count)
        return false;
    if (seat->votes_cast < opened)
        vote_once(seat, -1);
    if (!team->alone)
        spread_stop(seat, false);
    fast_turn_begin(t->actor, FAST_TURN_TEAM);
    if (is_canceled(seat) || atomic_load(&team->finished))
        first = !atomic_exchange(&team->stop, true);
    stop = atomic_load(&team->stop);
    fast_turn_end(t->actor);
    if (first && !team->alone)
        spread_stop(seat, true);
    return !seat->err && !stop;
}

bool fast__monitor_next(fast_seat *seat)
{
    const bool go_on =
        seat->team->strategy->synchronous ? synchronous_next(seat) : asynchronous_next(seat);

    if (seat->err)
        snprintf(seat->why, sizeof seat->why, "%s", fast_error_detail());
    else if (go_on)
        progress(seat);
    return go_on;
}

void fast__monitor_return(fast_seat *seat)
{
    fast_team *team = seat->team;

    fast__team_lock(seat);
    team->workers_up += seat->over; /* who crashed before it began is counted still */
    seat->over = false;
    seat->lost = false;
    seat->votes_cast = team->votes_opened;
    fast__team_unlock(seat);
}

fast_err fast__monitor_leave(fast_seat *seat)
{
    fast_team *team = seat->team;
    const int64_t step = seat->trainer.step;

    fast__team_lock(seat);
    FAST_ASSERT(!seat->over);
    seat->over = true;
    team->workers_up--;
    /* The votes that only waited for this one are complete now. */
    for (int i = 0; i < FAST_VOTES; i++)
        if (team->votes[i].step >= 0 && team->votes[i].near > 0 &&
            team->votes[i].near >= team->workers_up)
            close_vote(seat, &team->votes[i]);
    fast__team_unlock(seat);
    if (team->alone || seat->lost || (team->first && seat->trainer.rank != 0))
        return FAST_OK;
    FAST_TRY(fast__gather_leave(seat, step));
    if (team->strategy->identical)
        return FAST_OK;
    return team->first ? take_replicas(seat, TAG_LAST, &team->last) : send_replica(seat, TAG_LAST);
}

/* The replicas that the workers ended with become the representative. */
static void take_ends(fast_team *team)
{
    fast_vote *vote = &team->last;

    for (int64_t i = 0; i < team->workers && team->strategy->identical; i++)
        if (team->seats[i]) {
            take_replica(team->seats[i]);
            return;
        }
    if (vote->near > 0) /* an earlier call counted them, and nobody has trained since */
        return;
    for (int64_t i = 0; i < team->workers; i++)
        if (team->seats[i] && !team->seats[i]->lost)
            fast__monitor_cast(vote, team->seats[i]);
    if (vote->count > 0)
        fast__vote_count(team, vote);
}

fast_err fast__monitor_finish(fast_team *team)
{
    fast_run *run = team->run;
    const bool judged = run->step_judged == run->step && run->step_judged >= 0;

    take_sums(team);
    if (team->first && strcmp(run->result.stop, "target") == 0)
        return FAST_OK; /* the model that reached it stands */
    take_ends(team);
    /* Where workers were lost fewer steps were taken than asked for; it is the end all the same. */
    if (!run->finished && !run->result.canceled && !judged && team->first &&
        run->config.evaluate_period.unit != FAST_PERIOD_NEVER &&
        (!fast__phases_left(team) || fast__run_is_due(run, run->config.evaluate_period, run->step)))
        FAST_TRY(fast__run_evaluate(run));
    return fast__phases_left(team) ? fast__run_keep_due(run) : FAST_OK;
}
