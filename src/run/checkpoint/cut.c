/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Consistent snapshots of asynchronous teams. A cut goes through every worker at the point before
 * its next step, where its program has no state on the stack, and through every server in its wait.
 *
 *   open     a worker that finds a checkpoint due, or the run canceled, opens the cut. Workers join
 *            before their next step. Where a read may wait for the steps of other workers (SSP), or
 *            for rounds that they make together (quorum, backup workers), all join at one step or
 *            round, the largest plus 1, or a worker that is ahead would wait for one that has
 *            joined. A worker that has joined still answers requests, in its wait, and yields what
 *            others may wait for (the clock of a value bound): so a worker in mid-step gets its
 *            reply and comes to its own cut
 *   quiet    worker 0 asks every actor how many messages it has sent and got, until nobody has done
 *            anything between two questions and no message is in flight (Mattern 1987): channels
 *            are empty, and messages that arrived and were not received are in mailboxes. Servers
 *            that act by themselves (proxies) are idle, and from the first question on those that
 *            act by their clock (windows of federated rounds) stand still
 *   state    every actor packs itself: what a checkpoint of a synchronous run has, the messages in
 *            its mailbox, its random streams. A resumed actor takes over its streams and messages
 *   start    worker 0 writes the file, and names the time at which workers continue
 *
 * The cut is consistent: a message sent before it was received before it, or is in a mailbox and in
 * the file; no message is sent after it and received before. Chandy and Lamport's markers would let
 * workers run on, but a worker that waits for a reply in mid-step cannot be recorded there, and its
 * reply may come from beyond the cut. So workers pause, at most until the slowest has ended its
 * step, or with a slack its steps up to the common one.
 *
 * A resumed run starts with the same cut: its programs come to their first step, and from there all
 * is as in the run that was saved: replicas, servers, mailboxes, streams, idle links. In virtual
 * time workers start a nanosecond after each other, so that the order of events is the same too,
 * and the resumed run repeats the saved one to the bit.
 *
 * No cut is opened before all workers are in their loops, or once one has left it. If a worker is
 * lost meanwhile the cut is given up with a note; the run continues, and the older file stays.
 *
 *     TAG_HERE      worker to worker 0    words[0] number of the cut: it has joined
 *     TAG_COMMAND   worker 0 to all       words[0] COUNT or STATE, words[1] the run's step; to
 *                                         servers START, words[1] the time, or -1 where the cut
 *                                         was given up; it has no answer
 *     TAG_DONE      all to worker 0       words[0] messages sent and got, words[1] an error,
 *                                         words[2] it is busy
 *     TAG_START     worker 0 to workers   words[0] time, words[1] number of the cut, or minus it
 *                                         where it was given up
 *
 * Cost: a copy of all state, 2 messages for each question and actor, usually 3 questions.
 */
#include "run/checkpoint/cut.h"

#include "base/memory.h"
#include "run/team.h"
#include "transport/saved_actor.h"

#include <string.h>

/* Beyond the tags of programs: one that receives any tag does not get these. */
#define TAG_HERE    (FAST_TAG_CUT + 1)
#define TAG_COMMAND (FAST_TAG_CUT + 2)
#define TAG_DONE    (FAST_TAG_CUT + 3)
#define TAG_START   (FAST_TAG_CUT + 4)
enum { COUNT, STATE, START };
enum { ROUNDS_MAX = 10000 }; /* questions before a team that does not come to rest is left alone */

/* Between looks for a message. Waits with a deadline would ask other actors for the reason, and
 * their questions would be in flight when the state is taken. */
static const int64_t LOOK_NS = 100000, LOOK_VIRTUAL_NS = 1000000;

/* The actors of the phase: workers, then servers. */
static int64_t actor_count(const fast_team *team)
{
    return team->workers + team->phases.list[team->phases.current].servers;
}

void fast__cut_begin(fast_team *team)
{
    const fast_run *run = team->run;
    fast_cut *cut = &team->cut;

    *cut = (fast_cut){ .on = !team->strategy->synchronous && team->strategy->resumable &&
                             !team->place.agreeing && team->saved.open,
                       .dues = fast__run_dues(run, run->config.checkpoint_period, run->step) };
    for (int64_t i = 0; i < team->workers; i++) {
        if (!team->actors[i])
            continue;
        team->actors[i]->progress.begun = false;
        cut->resuming = cut->resuming || (cut->on && team->actors[i]->context.resumed);
    }
    cut->open = cut->resuming;
    cut->number = cut->open;
}

/* Messages that an actor has sent and got. */
static int64_t activity(const fast_actor *actor)
{
    return fast__counted(&actor->counters.messages_sent) + (int64_t)actor->mailbox.stamp;
}

/* An actor saves its state, or takes over that of the run that was saved. */
static fast_err take_state(fast_team_actor *self, int64_t step)
{
    fast_team *team = self->team;

    if (!team->cut.resuming)
        return fast__saved_states_pack(team, fast_actor_id(self->context.trainer.actor), step);
    FAST_TRY(fast__saved_states_continue(self));
    self->context.resumed = false;
    return FAST_OK;
}

/* The time of the run continues: where it is virtual at `time`, so that a resumed run has the same
 * times; else now. */
static void continue_at(fast_team_actor *self, int64_t time)
{
    fast_actor *actor = self->context.trainer.actor;

    fast__actor_continue(actor, self->team->run->clock.is_virtual ? time : fast__steady_now(actor));
}

/* Has an actor anything to do but to wait? */
static bool is_busy(const fast_team_actor *self)
{
    const fast_context_cut *cut = &self->context.cut;

    return cut->idle && !cut->idle(cut->idle_ctx);
}

/* A command of worker 0, in a wait of the actor. */
static fast_err obey(void *ctx, fast_msg **move)
{
    fast_team_actor *self = ctx;
    fast_actor *actor = self->context.trainer.actor;
    const fast_msg *msg = *move;
    fast_msg *reply = NULL;
    fast_err err = FAST_OK;

    self->progress.yields = false; /* all have joined */
    self->context.cut.held = msg->words[0] != START;
    if (msg->words[0] == START) {
        if (msg->words[1] >= 0)
            continue_at(self, msg->words[1]);
        return FAST_OK;
    }
    if (msg->words[0] == STATE)
        err = take_state(self, msg->words[1]);
    FAST_TRY(fast_msg_new(actor, TAG_DONE, &reply));
    reply->words[0] = activity(actor);
    reply->words[1] = err;
    reply->words[2] = is_busy(self);
    return fast_send(actor, msg->from, &reply);
}

fast_err fast__cut_serve(fast_team_actor *self)
{
    if (!self->team->cut.on)
        return FAST_OK;
    self->context.cut.open = &self->team->cut.open;
    return fast_serve(self->context.trainer.actor, TAG_COMMAND, obey, self, &self->cut);
}

void fast__cut_end(fast_team_actor *self)
{
    fast_service_end(self->cut);
    self->cut = NULL;
    fast__context_forget(&self->context); /* memory of the program is gone */
}

/* Send a message of the protocol; *gone_out: its receiver is gone. */
static fast_err send_words(fast_actor *actor, int64_t to, uint64_t tag, int64_t a, int64_t b,
                           bool *gone_out)
{
    fast_msg *msg = NULL;

    FAST_TRY(fast_msg_new(actor, tag, &msg));
    msg->words[0] = a;
    msg->words[1] = b;
    const fast_err err = fast_send(actor, to, &msg);
    *gone_out = *gone_out || err == FAST_EPEER;
    return err == FAST_EPEER ? FAST_OK : err;
}

/* Sleep until the next look. */
static fast_err look_later(fast_team_actor *self)
{
    fast_actor *actor = self->context.trainer.actor;
    const bool is_virtual = self->team->run->clock.is_virtual;

    return fast_sleep_until(actor, fast_now(actor) + (is_virtual ? LOOK_VIRTUAL_NS : LOOK_NS));
}

/* Sleep until the next look, while others have not joined. */
static fast_err wait_to_join(fast_team_actor *self)
{
    const fast_context_cut *cut = &self->context.cut;

    if (cut->yield && self->progress.yields)
        FAST_TRY(cut->yield(cut->yield_ctx));
    return look_later(self);
}

/* Receive the answer of one actor, however slow it is; *busy_out: it has something to do. */
static fast_err take_answer(fast_team_actor *self, int64_t from, int64_t *out, bool *busy_out,
                            bool *gone_out)
{
    fast_actor *actor = self->context.trainer.actor;
    fast_msg *msg = NULL;

    while (!(msg = fast__take(actor, from, TAG_DONE)) && !*gone_out) {
        FAST_TRY(look_later(self));
        *gone_out = fast_member_is_down(actor, from);
    }
    if (!msg)
        return FAST_OK;
    *out = msg->words[0];
    *gone_out = *gone_out || msg->words[1] != FAST_OK;
    *busy_out = *busy_out || msg->words[2] != 0;
    fast_msg_free(msg);
    return FAST_OK;
}

/* Worker 0 commands all other actors and receives their answers. *busy_out: one has something to
 * do; *gone_out: one is gone, or failed to do it. */
static fast_err command(fast_team_actor *self, int64_t what, int64_t *answers, bool *busy_out,
                        bool *gone_out)
{
    const fast_team *team = self->team;
    fast_actor *actor = self->context.trainer.actor;

    for (int64_t i = 1; i < actor_count(team); i++)
        FAST_TRY(send_words(actor, team->ids[i], TAG_COMMAND, what, team->run->step, gone_out));
    for (int64_t i = 1; i < actor_count(team) && !*gone_out; i++)
        FAST_TRY(take_answer(self, team->ids[i], &answers[i], busy_out, gone_out));
    return FAST_OK;
}

/* Ask until nobody has done anything but answer since the question before, and no message is in
 * flight. *gone_out: that does not happen. */
static fast_err find_quiet(fast_team_actor *self, int64_t *answers, bool *gone_out)
{
    const fast_team *team = self->team;
    fast_actor *actor = self->context.trainer.actor;
    const int64_t count = actor_count(team);
    int64_t *const before = answers + count;
    bool quiet = false;

    for (int round = 0; round < ROUNDS_MAX && !quiet && !*gone_out; round++) {
        bool busy = false;

        FAST_TRY(command(self, COUNT, answers, &busy, gone_out));
        answers[0] = activity(actor);
        quiet = round > 0 && !busy && fast__pool_in_flight(actor->world->pool) == 0 &&
                answers[0] - before[0] == 2 * (count - 1);
        for (int64_t i = 1; i < count; i++)
            quiet = quiet && answers[i] - before[i] == 2;
        memcpy(before, answers, (size_t)count * sizeof *before);
    }
    *gone_out = *gone_out || !quiet;
    return FAST_OK;
}

/* Write the file: all states are saved. The mutex is held. */
static void save(fast_team_actor *self)
{
    fast_team *team = self->team;
    fast_run *run = team->run;
    fast_saved_states *o = &team->saved;
    const char *path = run->config.checkpoint[0] ? run->config.checkpoint : run->config.resume;

    o->step = o->whole = run->step;
    fast__vote_clear(team, &o->vote, run->step);
    for (int64_t i = 0; i < team->workers; i++)
        fast__monitor_cast(&o->vote, team->actors[i]);
    fast__vote_count(team, &o->vote);
    if (!run->clock.is_virtual)
        fast__world_hold(team->place.world, INT64_MAX);
    run->clock.actor = self->context.trainer.actor;
    fast__sums_take(team);
    fast__run_save_now(run, path);
    run->clock.actor = NULL;
    if (!run->clock.is_virtual)
        fast__world_hold(team->place.world, fast_now(self->context.trainer.actor) + 1);
}

/* Worker 0 waits for all others to join. *gone_out: one never will. */
static fast_err wait_for_all(fast_team_actor *self, bool *gone_out)
{
    const fast_team *team = self->team;
    fast_actor *actor = self->context.trainer.actor;
    int64_t joined = 1;

    while (joined < team->workers && !*gone_out) {
        fast_msg *msg = fast__take(actor, FAST_ANY, TAG_HERE);

        joined += msg && msg->words[0] == team->cut.number;
        if (!msg)
            FAST_TRY(wait_to_join(self));
        fast_msg_free(msg);
        fast__team_lock(self);
        *gone_out = team->cut.left > 0 || team->progress.workers_up < team->workers;
        fast__team_unlock(self);
    }
    return FAST_OK;
}

/* A cut that is given up is told once; what it would have saved is saved by the next one. */
static void tell_failure(fast_team_actor *self)
{
    fast_team *team = self->team;

    if (!team->cut.failed && !team->cut.resuming && team->cut.left == 0) {
        team->run->clock.actor = self->context.trainer.actor;
        fast__run_tell(team->run, FAST_EVENT_NOTE,
                       "no checkpoint was saved: an actor was lost, or did not come to rest");
        team->run->clock.actor = NULL;
        team->cut.failed = true;
    }
}

/* Let all workers continue, in virtual time one after the other. */
static fast_err start(fast_team_actor *self, int64_t trip, bool gone)
{
    fast_team *team = self->team;
    fast_actor *actor = self->context.trainer.actor;
    const int64_t time = fast_now(actor) + 4 * trip + 4 * LOOK_VIRTUAL_NS;

    fast__team_lock(self);
    const int64_t number = team->cut.number;

    if (gone)
        tell_failure(self);
    else if (!team->cut.resuming && team->run->step < team->run->step_count)
        save(self); /* the end is saved when the programs have ended */
    team->cut.open = team->cut.resuming = false;
    fast__team_unlock(self);
    for (int64_t i = team->workers; i < actor_count(team); i++)
        FAST_TRY(send_words(actor, team->ids[i], TAG_COMMAND, START, gone ? -1 : time,
                            &(bool){ false }));
    for (int64_t i = 1; i < team->workers; i++)
        FAST_TRY(send_words(actor, team->ids[i], TAG_START, time, gone ? -number : number,
                            &(bool){ false }));
    if (!gone)
        continue_at(self, time);
    return team->run->clock.is_virtual ? fast_sleep_until(actor, time) : FAST_OK;
}

/* Worker 0's part of a cut. */
static fast_err lead(fast_team_actor *self)
{
    fast_team *team = self->team;
    fast_actor *actor = self->context.trainer.actor;
    int64_t *answers = NULL;
    bool gone = false;
    fast_err err;

    FAST_TRY(fast__alloc("a cut", 2 * actor_count(team), sizeof *answers, &answers));
    err = wait_for_all(self, &gone);
    if (!err && !gone)
        err = find_quiet(self, answers, &gone);
    if (!err && !gone)
        err = take_state(self, team->run->step);
    /* From here on a resumed run draws the same random numbers: the trip is the same too. */
    const int64_t begin = fast_now(actor);
    if (!err && !gone)
        err = command(self, STATE, answers, &(bool){ false }, &gone);
    fast__free(answers);
    self->context.resumed = false;
    FAST_TRY(err);
    return start(self, fast_now(actor) - begin, gone);
}

/* Has a worker left without joining? Perhaps worker 0, and nobody would say so. */
static bool is_deserted(fast_team_actor *self)
{
    fast_cut *cut = &self->team->cut;

    fast__team_lock(self);
    const bool deserted = cut->left > 0;

    cut->open = cut->open && !deserted;
    fast__team_unlock(self);
    return deserted;
}

/* The part of any other worker: it joins, and waits for worker 0's start. */
static fast_err follow(fast_team_actor *self, int64_t number)
{
    const fast_team *team = self->team;
    fast_actor *actor = self->context.trainer.actor;
    const int64_t leader = team->ids[0];
    const bool is_virtual = team->run->clock.is_virtual;
    int64_t time = -1;
    bool gone = false;

    fast_actor_at(actor, self->context.trainer.step, "a checkpoint");
    FAST_TRY(send_words(actor, leader, TAG_HERE, number, 0, &gone));
    while (time < 0 && !gone) {
        fast_msg *msg = fast__take(actor, leader, TAG_START);

        if (msg && (msg->words[1] == number || msg->words[1] == -number))
            time = msg->words[0];
        if (msg && msg->words[1] == number)
            continue_at(self, time);
        if (!msg)
            FAST_TRY(wait_to_join(self));
        gone = !msg && (fast_member_is_down(actor, leader) || is_deserted(self));
        fast_msg_free(msg);
    }
    self->context.resumed = false;
    return is_virtual && !gone ? fast_sleep_until(actor, time + self->context.trainer.rank)
                               : FAST_OK;
}

/* Return the step or round at which workers join: the next one, or where a worker may wait for the
 * steps of others, one that nobody has passed. The mutex is held. */
static int64_t common_round(const fast_team_actor *self)
{
    const fast_team *team = self->team;
    const fast_trainer *t = &self->context.trainer;
    fast_cost cost = { 0 };
    int64_t most = 0;

    if (team->strategy->cost)
        team->strategy->cost(team->config, t, &cost);
    if (self->context.cut.at_once || (!(cost.barrier > 0) && !self->context.cut.rounds))
        return 0;
    for (int64_t i = 0; i < team->workers; i++)
        most = team->actors[i]->progress.rounds > most ? team->actors[i]->progress.rounds : most;
    return most + 1 < t->step_count ? most + 1 : t->step_count;
}

fast_err fast__cut_next(fast_team_actor *self, bool canceled)
{
    fast_team *team = self->team;
    const fast_run *run = team->run;
    const fast_trainer *t = &self->context.trainer;
    fast_cut *cut = &team->cut;

    if (!cut->on)
        return FAST_OK;
    fast__team_lock(self);
    cut->begun += !self->progress.begun;
    self->progress.begun = true;
    self->progress.rounds = self->context.cut.rounds ? *self->context.cut.rounds : t->step;
    const int64_t dues = fast__run_dues(run, run->config.checkpoint_period, run->step);
    const bool due = run->config.checkpoint[0] && dues > cut->dues && run->step < run->step_count;

    if (!cut->open && (due || (canceled && !cut->last)) && cut->left == 0 &&
        cut->begun == team->workers && team->progress.workers_up == team->workers) {
        cut->open = true;
        cut->last = canceled;
        cut->at = common_round(self);
        cut->number++;
    }
    if (cut->begun == team->workers)
        cut->dues = dues;
    const bool join = cut->open && self->progress.rounds >= cut->at;
    const int64_t number = cut->number;
    fast__team_unlock(self);
    if (!join)
        return FAST_OK;
    self->progress.yields = !self->context.resumed;
    self->preprocess.next =
        -1; /* batches are not saved: request them again, as a resumed run does */
    return t->rank == 0 ? lead(self) : follow(self, number);
}

bool fast__cut_waits(fast_team_actor *self)
{
    bool waits;

    if (!self->team->cut.on)
        return false;
    fast__team_lock(self);
    waits = self->team->cut.open;
    fast__team_unlock(self);
    return waits;
}

void fast__cut_leave(fast_team_actor *self)
{
    if (!self->team->cut.on)
        return;
    fast__team_lock(self);
    self->team->cut.left++;
    fast__team_unlock(self);
}
