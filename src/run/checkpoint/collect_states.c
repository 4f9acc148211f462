/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the saved state of workers and servers comes together for a checkpoint (saved_states.c).
 *
 *   one process          a worker that comes to the step saves its own; the last one saves the
 *                        servers', which do not change until it continues, and writes the file
 *   several processes    remote workers send theirs to worker 0 in a message. When all workers have
 *                        come, worker 0 asks remote servers, which answer in their waits
 *   at the end           remote workers send theirs when their programs end; a remote server waits
 *                        for worker 0's last message, which says whether its state is wanted
 *
 * Cost: one copy of all saved state, and over processes one message for each actor.
 *
 * One checkpoint over two processes; worker 0 is in the first, with worker 1:
 *
 *     worker 0    admit, receive worker 2, wait for worker 1, ask, receive server 0, arrive, save
 *     worker 1    admit, arrive, train on
 *     worker 2    pack --TAG_STATE--> worker 0
 *     server 0                        <--TAG_ASK-- worker 0; pack --TAG_STATE--> worker 0
 *
 *     TAG_STATE   words[0] step, words[1] bytes; part 0: the records (saved_states.c)
 *     TAG_ASK     words[0] step; a server answers inside its own waits, as a background task
 *     TAG_END     words[0] step, or -1: no state is wanted; the last message to a server
 *
 * Worker 0 asks servers only when all other workers of its process have arrived: a server's state
 * must not change after it was packed, and a worker that still trains would change it. A state of
 * another step, or one shorter than it says, is FAST_EFORMAT. An actor that is gone (FAST_EPEER) is
 * left out here and found when the file is written.
 */
#include "run/team.h"

#include "base/memory.h"

#include <string.h>

enum { TAG_END = 0x7ffffffa, TAG_ASK, TAG_STATE }; /* messages between processes */

/* An actor of another process sends its state to worker 0. */
static fast_err send_state(fast_team_actor *self, int64_t step)
{
    fast_team *team = self->team;
    const fast_trainer *t = &self->context.trainer;
    const int64_t i = fast_actor_id(t->actor);
    const fast_saved *saved = &team->saved.states[i];
    fast_buffer *buffer;
    fast_msg *msg;
    fast_err err;

    FAST_TRY(fast__saved_states_pack(team, i, step));
    FAST_TRY(fast_msg_new(t->actor, TAG_STATE, &msg));
    err = fast_buffer_new(t->actor, saved->size, &buffer);
    if (err) {
        fast_msg_free(msg);
        return err;
    }
    memcpy(fast_buffer_data(buffer), saved->bytes, saved->size);
    msg->words[0] = step;
    msg->words[1] = (int64_t)saved->size;
    fast_msg_add(msg, &buffer);
    return fast_send(t->actor, team->ids[0], &msg);
}

/* Worker 0 receives the state of actor i; nothing if that is gone. */
static fast_err take_state(fast_team_actor *self, int64_t i, int64_t step)
{
    fast_team *team = self->team;
    const fast_trainer *t = &self->context.trainer;
    fast_err err = FAST_ETIMEDOUT;
    fast_msg *msg = NULL;

    fast_actor_at(t->actor, t->step, "the state of a remote actor");
    while (err == FAST_ETIMEDOUT)
        err = fast_receive(t->actor, team->ids[i], TAG_STATE, FAST_SOON, &msg);
    if (err == FAST_EPEER)
        return FAST_OK;
    FAST_TRY(err);
    if ((msg->words[0] != step && team->strategy->synchronous) || msg->part_count != 1 ||
        msg->words[1] < 0 || (size_t)msg->words[1] > msg->parts[0].size)
        err = fast__fail(FAST_EFORMAT, "actor %lld sent its state of step %lld, not %lld",
                         (long long)i, (long long)msg->words[0], (long long)step);
    fast__mutex_lock(&team->mutex);
    if (!err)
        err = fast__saved_states_take(team, i, step, fast_msg_data(msg, 0), (size_t)msg->words[1]);
    fast__mutex_unlock(&team->mutex);
    fast_msg_free(msg);
    return err;
}

/* Receive those of all remote workers, whenever they come; a missing one is noticed when the file
 * is written. */
static fast_err take_workers(fast_team_actor *self, int64_t step)
{
    const fast_team *team = self->team;

    for (int64_t i = 0; i < team->workers; i++)
        if (!team->actors[i])
            FAST_TRY(take_state(self, i, step));
    return FAST_OK;
}

/* Worker 0 writes to all remote servers, with a step if it wants their state, and receives it. */
static fast_err take_servers(fast_team_actor *self, uint64_t tag, int64_t step)
{
    const fast_team *team = self->team;
    const fast_trainer *t = &self->context.trainer;
    const int64_t end = team->workers + team->saved.servers;

    for (int64_t i = team->workers; i < end; i++) {
        fast_msg *msg;

        if (team->actors[i])
            continue;
        FAST_TRY(fast_msg_new(t->actor, tag, &msg));
        msg->words[0] = step;
        const fast_err err = fast_send(t->actor, team->ids[i], &msg);
        if (err && err != FAST_EPEER)
            return err;
    }
    for (int64_t i = team->workers; step >= 0 && i < end; i++)
        if (!team->actors[i])
            FAST_TRY(take_state(self, i, step));
    return FAST_OK;
}

/* True if a server of the team lives in another process: its state has to be sent here. */
static bool has_remote_servers(const fast_team *team)
{
    for (int64_t i = team->workers; i < team->workers + team->saved.servers; i++)
        if (!team->actors[i])
            return true;
    return false;
}

/* Worker 0: all other workers of this process have put theirs in. */
static fast_err wait_for_local(fast_team_actor *self)
{
    const fast_team *team = self->team;
    bool here = false;

    while (!here) {
        fast__team_lock(self);
        here = team->saved.arrived >= team->progress.workers_up - 1;
        fast__team_unlock(self);
        if (!here)
            FAST_TRY(fast_sleep_until(self->context.trainer.actor,
                                      fast_now(self->context.trainer.actor) + 1000000));
    }
    return FAST_OK;
}

/* Worker 0 receives the state of remote actors. */
static fast_err take_remote(fast_team_actor *self, int64_t step)
{
    FAST_TRY(take_workers(self, step));
    if (!has_remote_servers(self->team))
        return FAST_OK;
    FAST_TRY(wait_for_local(self));
    return take_servers(self, TAG_ASK, step);
}

/* All states are saved: write the file as of worker 0's step. The mutex is held. */
static void save(fast_team_actor *self, int64_t step)
{
    fast_team *team = self->team;
    fast_run *run = team->run;
    const int64_t before = run->step;
    const fast_run_sums sums = run->progress.sums;

    if (team->saved.votes)
        fast__vote_count(team, &team->saved.vote);
    if (!run->clock.is_virtual)
        fast__world_hold(team->place.world, INT64_MAX);
    run->clock.actor = self->context.trainer.actor;
    run->step = step;
    fast__sums_take_at(team, step);
    fast__run_save_due(run);
    run->step = before > step ? before : step;
    run->progress.sums = sums;
    run->clock.actor = NULL;
    if (!run->clock.is_virtual)
        fast__world_hold(team->place.world, fast_now(self->context.trainer.actor) + 1);
}

/* The states of other processes come to worker 0; of a synchronous team with the losses up to this
 * step. */
static fast_err bring_together(fast_team_actor *self, int64_t step)
{
    const fast_team *team = self->team;
    const bool losses = team->strategy->synchronous;

    if (!team->place.first) {
        FAST_TRY(send_state(self, step));
        return losses ? fast__sums_send(self, false) : FAST_OK;
    }
    if (team->place.alone || self->number > 0)
        return FAST_OK;
    FAST_TRY(take_remote(self, step));
    return losses ? fast__sums_receive(self, false) : FAST_OK;
}

/* One that is ahead waits until an earlier checkpoint is whole. */
fast_err fast__collect_due(fast_team_actor *self, int64_t step)
{
    fast_team *team = self->team;
    const fast_trainer *t = &self->context.trainer;
    bool admitted = false, last = false;
    fast_err err;

    self->progress.step_voted = step;
    if (!team->place.first)
        return bring_together(self, step);
    while (!admitted) {
        fast__team_lock(self);
        admitted = fast__saved_states_admit(team, step);
        fast__team_unlock(self);
        if (!admitted)
            FAST_TRY(fast_sleep_until(t->actor, fast_now(t->actor) + 1000000));
    }
    FAST_TRY(bring_together(self, step));
    fast__team_lock(self);
    if (team->saved.votes)
        fast__monitor_cast(&team->saved.vote, self);
    err = fast__saved_states_arrive(self, step, &last);
    if (!err && last && !team->run->finished)
        save(self, step);
    fast__team_unlock(self);
    return err;
}

fast_err fast__collect_leave(fast_team_actor *self, int64_t step)
{
    fast_team *team = self->team;
    const bool due = fast__saved_states_due(team, step);

    if (due && !team->place.first)
        return send_state(self, step);
    if (due)
        FAST_TRY(take_workers(self, step));
    return team->place.first ? take_servers(self, TAG_END, due ? step : -1) : FAST_OK;
}

/* A server that worker 0 may ask. */
static bool is_asked(const fast_team_actor *self)
{
    const fast_team *team = self->team;

    return !team->place.alone && !team->place.first && self->number < team->saved.servers;
}

/* In the server's waits. */
static fast_err answer(fast_actor *actor, fast_task *task, bool *done)
{
    fast_team_actor *self = (fast_team_actor *)((char *)task - offsetof(fast_team_actor, asked));
    fast_msg *msg;

    *done = false;
    while ((msg = fast__take(actor, self->team->ids[0], TAG_ASK)) != NULL) {
        const int64_t step = msg->words[0];

        fast_msg_free(msg);
        if (step < 0 || !fast__saved_states_due(self->team, step))
            return fast__fail(FAST_EFORMAT, "worker 0 asks for step %lld", (long long)step);
        FAST_TRY(send_state(self, step));
    }
    return FAST_OK;
}

void fast__collect_serve(fast_team_actor *self)
{
    if (!is_asked(self))
        return;
    self->asked = (fast_task){ .advance = answer, .background = true };
    fast__post(self->context.trainer.actor, &self->asked);
}

fast_err fast__collect_served(fast_team_actor *self, fast_err err)
{
    fast_actor *actor = self->context.trainer.actor;
    fast_err heard = FAST_ETIMEDOUT;
    fast_msg *msg = NULL;

    if (!is_asked(self))
        return err;
    fast__unpost(actor, &self->asked);
    FAST_TRY(err);
    FAST_TRY(self->asked.err);
    while (heard == FAST_ETIMEDOUT)
        heard = fast_receive(actor, self->team->ids[0], TAG_END, FAST_SOON, &msg);
    if (heard == FAST_EPEER)
        return FAST_OK;
    FAST_TRY(heard);
    const int64_t step = msg->words[0];
    fast_msg_free(msg);
    return step >= 0 && fast__saved_states_due(self->team, step) ? send_state(self, step) : FAST_OK;
}
