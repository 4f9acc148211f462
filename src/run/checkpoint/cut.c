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
 *            that act by themselves (proxies) and workers with an exchange under way are idle, and
 *            from the first question on those that act by their clock (windows of federated rounds)
 *            stand still
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
 * Several processes. Workers of one process read the cut in its memory; others cannot. There worker
 * 0 opens it, asks every worker which round it is in, and tells all where to join; a worker that
 * was asked stands before its next step until it is told. Messages between the others cannot be
 * seen by worker 0, so the counts of all actors decide whether any is in flight: as many were
 * received as were sent. States travel with the answers. Worker 0 hears of workers that have left,
 * or that are canceled.
 *
 *     TAG_HERE      worker to worker 0    words[0] number of the cut: it has joined
 *     TAG_COMMAND   worker 0 to all       words[0] COUNT or STATE, words[1] the run's step; to
 *                                         servers START, words[1] the time, or -1 where the cut
 *                                         was given up; it has no answer
 *                                         Several processes, to workers: OPEN, whose answer is
 *                                         the worker's round; JOIN, words[1] the round, words[2]
 *                                         the number of the cut, 0: it is not opened, or -1: worker
 *                                         0 has left
 *     TAG_DONE      all to worker 0       words[0] messages sent and got, words[1] an error,
 *                                         words[2] it is busy, words[3] messages sent less those
 *                                         got; of another process part 0: the state of STATE
 *     TAG_LEFT      worker to worker 0    several processes: it takes no further step
 *     TAG_CANCEL    worker to worker 0    several processes: its process is canceled
 *     TAG_START     worker 0 to workers   words[0] time, words[1] number of the cut, or minus it
 *                                         where it was given up, words[2] the file is damaged
 *
 * Cost: a copy of all state, 2 messages for each question and actor, usually 3 questions.
 */
#include "run/checkpoint/cut.h"

#include "base/memory.h"
#include "run/team.h"
#include "transport/peers.h"
#include "transport/saved_actor.h"

#include <string.h>

/* Beyond the tags of programs: one that receives any tag does not get these. */
#define TAG_HERE    (FAST_TAG_CUT + 1)
#define TAG_COMMAND (FAST_TAG_CUT + 2)
#define TAG_DONE    (FAST_TAG_CUT + 3)
#define TAG_START   (FAST_TAG_CUT + 4)
#define TAG_LEFT    (FAST_TAG_CUT + 5)
#define TAG_CANCEL  (FAST_TAG_CUT + 6)
enum { COUNT, STATE, START, OPEN, JOIN };
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
                       .spread = !team->place.alone,
                       .dues = fast__run_dues(run, run->config.checkpoint_period, run->step) };
    for (int64_t i = 0; i < team->workers + team->servers; i++)
        if (team->actors[i])
            team->actors[i]->cutting =
                (fast_cut_worker){ .open = team->actors[i]->context.resumed };
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

/* Messages that an actor has sent less those that it got, without those of a snapshot. */
static int64_t balance(const fast_team_actor *self)
{
    const fast_actor *actor = self->context.trainer.actor;

    return fast__counted(&actor->counters.messages_sent) -
           fast__counted(&actor->counters.messages_stale) - (int64_t)actor->mailbox.stamp +
           self->cutting.uncounted;
}

/* An actor saves its state, or takes over that of the run that was saved. */
static fast_err take_state(fast_team_actor *self, int64_t step)
{
    fast_team *team = self->team;

    if (!(team->cut.spread ? self->context.resumed : team->cut.resuming)) {
        self->cutting.packs = true;
        const fast_err err =
            fast__saved_states_pack(team, fast_actor_id(self->context.trainer.actor), step);
        self->cutting.packs = false;
        return err;
    }
    FAST_TRY(fast__saved_states_continue(self));
    self->context.resumed = false;
    return FAST_OK;
}

/* The time of the run continues: where it is virtual at `time`, so that a resumed run has the same
 * times; else now. */
static void continue_at(fast_team_actor *self, int64_t time)
{
    fast_actor *actor = self->context.trainer.actor;

    self->context.cut.count++;
    fast__actor_continue(actor, self->team->run->clock.is_virtual ? time : fast__steady_now(actor));
}

/* Has an actor anything to do but to wait? */
static bool is_busy(const fast_team_actor *self)
{
    const fast_context_cut *cut = &self->context.cut;

    return cut->idle && !cut->idle(cut->idle_ctx);
}

/* Add the state of an actor of another process to its answer. */
static fast_err add_state(const fast_team_actor *self, fast_msg *reply)
{
    fast_actor *actor = self->context.trainer.actor;
    const fast_saved *saved = &self->team->saved.states[fast_actor_id(actor)];
    fast_buffer *buffer = NULL;

    if (self->team->place.first || self->cutting.restores || saved->size == 0)
        return FAST_OK;
    FAST_TRY(fast_buffer_new(actor, saved->size, &buffer));
    memcpy(fast_buffer_data(buffer), saved->bytes, saved->size);
    fast_msg_add(reply, &buffer);
    return FAST_OK;
}

/* Several processes: answer a question for the round, or learn where to join. */
static void take_invitation(fast_team_actor *self, const fast_msg *msg, fast_msg *reply)
{
    fast_cut_worker *w = &self->cutting;

    if (msg->words[0] == OPEN) {
        w->asked = true;
        reply->words[0] = self->progress.next;
        reply->words[2] = !self->progress.begun;
    } else {
        w->asked = false;
        w->at = msg->words[1];
        w->number = msg->words[2];
    }
    atomic_store(&w->open, w->asked || w->number != 0);
}

/* A command of worker 0, in a wait of the actor. */
static fast_err obey(void *ctx, fast_msg **move)
{
    fast_team_actor *self = ctx;
    fast_actor *actor = self->context.trainer.actor;
    const fast_msg *msg = *move;
    fast_msg *reply = NULL;
    fast_err err = FAST_OK;

    if (msg->words[0] == JOIN) {
        take_invitation(self, msg, NULL);
        return FAST_OK;
    }
    if (msg->words[0] == OPEN) {
        FAST_TRY(fast_msg_new(actor, TAG_DONE, &reply));
        take_invitation(self, msg, reply);
        return fast_send(actor, msg->from, &reply);
    }
    self->progress.yields = false; /* all have joined */
    self->context.cut.held = msg->words[0] != START;
    if (msg->words[0] == START) {
        self->context.resumed = false; /* it may have no state, if the cut was given up */
        if (msg->words[1] >= 0)
            continue_at(self, msg->words[1]);
        return FAST_OK;
    }
    if (msg->words[0] == STATE) {
        self->cutting.restores = self->context.resumed;
        err = take_state(self, msg->words[1]);
    }
    FAST_TRY(fast_msg_new(actor, TAG_DONE, &reply));
    if (msg->words[0] == STATE && !err)
        err = add_state(self, reply);
    reply->words[0] = activity(actor);
    reply->words[1] = err;
    reply->words[2] = is_busy(self);
    reply->words[3] = balance(self);
    return fast_send(actor, msg->from, &reply);
}

fast_err fast__cut_serve(fast_team_actor *self)
{
    if (!self->team->cut.on)
        return FAST_OK;
    self->context.cut.open = self->team->cut.spread ? &self->cutting.open : &self->team->cut.open;
    /* A server that is to be resumed may have to learn that worker 0 will not. */
    if (self->context.resumed && self->context.trainer.actor->met)
        fast__peers_ask(self->context.trainer.actor, self->team->ids[0]);
    return fast_serve(self->context.trainer.actor, TAG_COMMAND, obey, self, &self->cut);
}

void fast__cut_end(fast_team_actor *self, fast_err err)
{
    fast__team_lock(self);
    self->team->cut.damaged |= err == FAST_EFORMAT && self->context.resumed;
    fast__team_unlock(self);
    fast_service_end(self->cut);
    self->cut = NULL;
    fast__context_forget(&self->context); /* memory of the program is gone */
}

/* Send a message of the protocol; *gone_out: its receiver is gone. */
static fast_err send_three(fast_actor *actor, int64_t to, uint64_t tag, const int64_t words[3],
                           bool *gone_out)
{
    fast_msg *msg = NULL;

    FAST_TRY(fast_msg_new(actor, tag, &msg));
    memcpy(msg->words, words, 3 * sizeof *words);
    const fast_err err = fast_send(actor, to, &msg);
    *gone_out = *gone_out || err == FAST_EPEER;
    return err == FAST_EPEER ? FAST_OK : err;
}

/* Send a message of two words. */
static fast_err send_words(fast_actor *actor, int64_t to, uint64_t tag, int64_t a, int64_t b,
                           bool *gone_out)
{
    return send_three(actor, to, tag, (const int64_t[3]){ a, b, 0 }, gone_out);
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

/* Take in the state that the answer of an actor of another process has. */
static fast_err take_remote_state(fast_team_actor *self, int64_t i, const fast_msg *msg)
{
    fast_team *team = self->team;

    if (msg->part_count != 1 || team->actors[i])
        return FAST_OK;
    fast__team_lock(self);
    team->cut.voting = true;
    const fast_err err = fast__saved_states_take(team, i, team->run->step, fast_msg_data(msg, 0),
                                                 msg->parts[0].size);
    team->cut.voting = false;
    fast__team_unlock(self);
    return err;
}

/* Receive the answer of actor i, however slow it is; *busy_out: it has something to do. */
static fast_err take_answer(fast_team_actor *self, int64_t i, int64_t *out, int64_t *balance_out,
                            bool *busy_out, bool *gone_out)
{
    const int64_t from = self->team->ids[i];
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
    fast__team_lock(self);
    self->team->cut.damaged |= self->team->cut.resuming && msg->words[1] != FAST_OK;
    fast__team_unlock(self);
    *busy_out = *busy_out || msg->words[2] != 0;
    *balance_out += msg->words[3];
    const fast_err err = take_remote_state(self, i, msg);
    fast_msg_free(msg);
    return err;
}

/* Worker 0 commands the first `count` actors and receives their answers. *balance_out: messages of
 * all that were sent and not received, with this one's; *busy_out: one has something to do;
 * *gone_out: one is gone, or failed to do it. */
static fast_err command(fast_team_actor *self, int64_t what, int64_t count, int64_t *answers,
                        int64_t *balance_out, bool *busy_out, bool *gone_out)
{
    const fast_team *team = self->team;
    fast_actor *actor = self->context.trainer.actor;

    *balance_out = 0;
    for (int64_t i = 1; i < count; i++)
        FAST_TRY(send_words(actor, team->ids[i], TAG_COMMAND, what, team->run->step, gone_out));
    for (int64_t i = 1; i < count && !*gone_out; i++)
        FAST_TRY(take_answer(self, i, &answers[i], balance_out, busy_out, gone_out));
    /* Each answer was counted by its receiver, and not by its sender. */
    *balance_out += balance(self) + count - 1;
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
        int64_t missing = 0;

        FAST_TRY(command(self, COUNT, count, answers, &missing, &busy, gone_out));
        answers[0] = activity(actor);
        busy = busy || is_busy(self);
        if (!team->cut.spread)
            missing = fast__pool_in_flight(actor->world->pool);
        quiet = round > 0 && !busy && missing == 0 && answers[0] - before[0] == 2 * (count - 1);
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

    o->whole = run->step;
    for (int64_t i = 0; i < team->workers; i++)
        if (team->actors[i])
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

/* Several processes: worker 0 counts the workers of other processes that have left. */
static void hear_of_leaving(fast_team_actor *self)
{
    fast_msg *msg;

    while (self->team->cut.spread &&
           (msg = fast__take(self->context.trainer.actor, FAST_ANY, TAG_LEFT)) != NULL) {
        fast__team_lock(self);
        self->team->cut.left++;
        fast__team_unlock(self);
        fast_msg_free(msg);
    }
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
        hear_of_leaving(self);
        fast__team_lock(self);
        *gone_out = team->cut.left > 0 || team->progress.workers_up < team->place.here;
        fast__team_unlock(self);
    }
    return FAST_OK;
}

/* A cut that is given up is told once; what it would have saved is saved by the next one. */
static void tell_failure(fast_team_actor *self)
{
    fast_team *team = self->team;

    if (!team->cut.failed && !team->cut.resuming && !team->cut.between && team->cut.left == 0) {
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
    const int64_t number = team->cut.number, damaged = team->cut.damaged;

    if (gone)
        tell_failure(self);
    else if (!team->cut.resuming && team->run->step < team->run->step_count)
        save(self); /* the end is saved when the programs have ended */
    team->cut.open = team->cut.resuming = false;
    team->cut.saved_last = team->cut.last && !gone;
    fast__team_unlock(self);
    for (int64_t i = team->workers; i < actor_count(team); i++)
        FAST_TRY(send_words(actor, team->ids[i], TAG_COMMAND, START, gone ? -1 : time,
                            &(bool){ false }));
    for (int64_t i = 1; i < team->workers; i++)
        FAST_TRY(send_three(actor, team->ids[i], TAG_START,
                            (const int64_t[3]){ time, gone ? -number : number, damaged },
                            &(bool){ false }));
    if (!gone)
        continue_at(self, time);
    return team->run->clock.is_virtual ? fast_sleep_until(actor, time) : FAST_OK;
}

/* Return whether an actor of this process could not take over its part of the file. */
static bool is_damaged(fast_team_actor *self)
{
    fast__team_lock(self);
    const bool damaged = self->team->cut.damaged;
    fast__team_unlock(self);
    return damaged;
}

/* FAST_EFORMAT: the run does not continue with a part of a snapshot. */
static fast_err refuse_damaged(void)
{
    return fast__fail(FAST_EFORMAT,
                      "the checkpoint is damaged: an actor cannot take over its part");
}

/* Worker 0's part of a cut. */
static fast_err lead(fast_team_actor *self)
{
    fast_team *team = self->team;
    fast_actor *actor = self->context.trainer.actor;
    const int64_t count = actor_count(team);
    int64_t *answers = NULL, missing = 0;
    bool gone = false;
    fast_err err;

    FAST_TRY(fast__alloc("a cut", 2 * count, sizeof *answers, &answers));
    err = wait_for_all(self, &gone);
    if (!err && !gone)
        err = find_quiet(self, answers, &gone);
    fast__team_lock(self);
    team->saved.step = team->run->step;
    team->saved.whole = -1;
    fast__vote_clear(team, &team->saved.vote, team->run->step);
    team->cut.between = !team->cut.resuming && !fast__saved_states_can(team);
    gone = gone || team->cut.between;
    fast__team_unlock(self);
    if (!err && !gone)
        err = take_state(self, team->run->step);
    fast__team_lock(self);
    team->cut.damaged |= err == FAST_EFORMAT;
    fast__team_unlock(self);
    /* From here on a resumed run draws the same random numbers: the trip is the same too. */
    const int64_t begin = fast_now(actor);
    if (!err && !gone)
        err = command(self, STATE, count, answers, &missing, &(bool){ false }, &gone);
    fast__free(answers);
    self->context.resumed = false;
    /* Nobody may wait for a worker 0 that fails. */
    const fast_err started = start(self, fast_now(actor) - begin, gone || err);
    FAST_TRY(err);
    return started || !is_damaged(self) ? started : refuse_damaged();
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
    bool gone = false, damaged = false;

    fast_actor_at(actor, self->context.trainer.step, "a checkpoint");
    FAST_TRY(send_words(actor, leader, TAG_HERE, number, 0, &gone));
    while (time < 0 && !gone) {
        const bool ended = self->cutting.number < 0; /* worker 0; its start would be here */
        fast_msg *msg = fast__take(actor, leader, TAG_START);

        if (msg && (msg->words[1] == number || msg->words[1] == -number))
            time = msg->words[0];
        damaged = msg && msg->words[1] == -number && msg->words[2];
        if (msg && msg->words[1] == number)
            continue_at(self, time);
        if (!msg)
            FAST_TRY(wait_to_join(self));
        gone = !msg && (is_deserted(self) || ended || fast_member_is_down(actor, leader));
        fast_msg_free(msg);
    }
    self->context.resumed = false;
    if (damaged || (gone && is_damaged(self)))
        return refuse_damaged();
    return is_virtual && !gone ? fast_sleep_until(actor, time + self->context.trainer.rank)
                               : FAST_OK;
}

/* Return the step or round at which workers join: the next one, or where a worker may wait for the
 * steps of others, one that nobody has passed. This worker stands before a step, others may be in
 * it. `others` are the rounds that workers answered; NULL: all are in this process, and the mutex
 * is held. */
static int64_t common_round(const fast_team_actor *self, const int64_t *others)
{
    const fast_team *team = self->team;
    const fast_trainer *t = &self->context.trainer;
    fast_cost cost = { 0 };
    int64_t most = self->context.cut.next ? self->progress.rounds : self->progress.next;

    if (team->strategy->cost)
        team->strategy->cost(team->config, t, &cost);
    if (self->context.cut.at_once || (!(cost.barrier > 0) && !self->context.cut.rounds))
        return 0;
    for (int64_t i = 0; i < team->workers; i++) {
        const int64_t next = i == t->rank ? most
                             : others     ? others[i]
                                          : team->actors[i]->progress.next;

        most = next > most ? next : most;
    }
    return most < t->step_count ? most : t->step_count;
}

/* Several processes: worker 0 asks all workers for their rounds, and tells them where to join; not
 * if one has not begun or is gone. */
static fast_err invite(fast_team_actor *self, bool last)
{
    fast_team *team = self->team;
    fast_actor *actor = self->context.trainer.actor;
    fast_cut_worker *w = &self->cutting;
    int64_t *rounds = NULL, unused = 0;
    bool early = false, gone = false;

    FAST_TRY(fast__alloc("a cut", team->workers, sizeof *rounds, &rounds));
    fast_err err = command(self, OPEN, team->workers, rounds, &unused, &early, &gone);
    early = early || gone;
    if (!err && !early) {
        team->cut.last = last;
        w->at = common_round(self, rounds);
        w->number = ++team->cut.number;
        atomic_store(&w->open, true);
    }
    fast__free(rounds);
    for (int64_t i = 1; i < team->workers && !err; i++)
        err = send_three(actor, team->ids[i], TAG_COMMAND,
                         (const int64_t[3]){ JOIN, w->at, early ? 0 : w->number }, &gone);
    return err;
}

/* Several processes: is a checkpoint due, or a process canceled? Worker 0 invites to a cut. */
static fast_err invite_if_due(fast_team_actor *self, bool canceled)
{
    fast_team *team = self->team;
    const fast_run *run = team->run;
    fast_cut *cut = &team->cut;
    fast_msg *msg;

    hear_of_leaving(self);
    while ((msg = fast__take(self->context.trainer.actor, FAST_ANY, TAG_CANCEL)) != NULL) {
        atomic_store(&team->run->cancel, true);
        canceled = true;
        fast_msg_free(msg);
    }
    fast__team_lock(self);
    const int64_t dues = fast__run_dues(run, run->config.checkpoint_period, run->step);
    const bool due = run->config.checkpoint[0] && dues > cut->dues && run->step < run->step_count;
    const bool wanted = (due || (canceled && !cut->last)) && cut->left == 0 &&
                        team->progress.workers_up == team->place.here;

    fast__team_unlock(self);
    if (!wanted || self->cutting.number > 0)
        return FAST_OK;
    FAST_TRY(invite(self, canceled));
    if (self->cutting.number > 0)
        cut->dues = dues;
    return FAST_OK;
}

/* A worker joins: it completes its w. Batches made ahead are not saved: they are received,
 * since their makers take no part in the cut, and requested again. */
static fast_err prepare(fast_team_actor *self)
{
    self->progress.yields = !self->context.resumed;
    FAST_TRY(fast__preprocess_drain(&self->preprocess, self->context.trainer.actor));
    return self->context.resumed ? FAST_OK : fast__context_settle(&self->context);
}

/* Before the next step of a worker of several processes. */
static fast_err next_spread(fast_team_actor *self, bool canceled)
{
    const fast_team *team = self->team;
    fast_actor *actor = self->context.trainer.actor;
    const bool leads = self->context.trainer.rank == 0;
    fast_cut_worker *w = &self->cutting;

    fast__progress(actor); /* a command may be here */
    if (self->context.resumed) {
        w->number = 1;
        w->at = 0;
    } else if (leads) {
        FAST_TRY(invite_if_due(self, canceled));
    } else if (canceled && !w->told && !fast_member_is_down(actor, team->ids[0])) {
        w->told = true;
        FAST_TRY(send_words(actor, team->ids[0], TAG_CANCEL, 0, 0, &(bool){ false }));
    }
    while (w->asked && !fast_member_is_down(actor, team->ids[0]))
        FAST_TRY(look_later(self));
    if (w->number < 0) { /* worker 0 has left */
        w->number = 0;
        atomic_store(&w->open, false);
    }
    if (w->number == 0 || self->progress.rounds < w->at)
        return FAST_OK;
    const int64_t number = w->number;
    fast_err err = prepare(self);
    if (!err)
        err = leads ? lead(self) : follow(self, number);
    if (w->number == number) /* worker 0 may have opened the next cut meanwhile */
        w->number = 0;
    atomic_store(&w->open, w->asked || w->number != 0);
    return err;
}

fast_err fast__cut_next(fast_team_actor *self, bool canceled)
{
    fast_team *team = self->team;
    const fast_run *run = team->run;
    const fast_trainer *t = &self->context.trainer;
    const fast_context_cut *c = &self->context.cut;
    fast_cut *cut = &team->cut;

    if (!cut->on)
        return FAST_OK;
    fast__team_lock(self);
    cut->begun += !self->progress.begun;
    self->progress.begun = true;
    self->progress.rounds = c->rounds ? *c->rounds : t->step;
    self->progress.next = c->next ? *c->next : self->progress.rounds + 1;
    if (cut->spread) {
        fast__team_unlock(self);
        return next_spread(self, canceled);
    }
    const int64_t dues = fast__run_dues(run, run->config.checkpoint_period, run->step);
    const bool due = run->config.checkpoint[0] && dues > cut->dues && run->step < run->step_count;

    if (!cut->open && (due || (canceled && !cut->last)) && cut->left == 0 &&
        cut->begun == team->workers && team->progress.workers_up == team->workers) {
        cut->open = true;
        cut->last = canceled;
        cut->at = common_round(self, NULL);
        cut->number++;
    }
    if (cut->begun == team->workers)
        cut->dues = dues;
    const bool join = cut->open && self->progress.rounds >= cut->at;
    const int64_t number = cut->number;
    fast__team_unlock(self);
    if (!join)
        return FAST_OK;
    FAST_TRY(prepare(self));
    return t->rank == 0 ? lead(self) : follow(self, number);
}

bool fast__cut_waits(fast_team_actor *self)
{
    bool waits;

    if (!self->team->cut.on)
        return false;
    if (self->team->cut.spread) /* worker 0 stops all once it has saved, or cannot */
        return atomic_load(&self->cutting.open) ||
               (self->context.trainer.rank > 0 &&
                !fast_member_is_down(self->context.trainer.actor, self->team->ids[0]));
    fast__team_lock(self);
    waits = self->team->cut.open;
    fast__team_unlock(self);
    return waits;
}

void fast__cut_leave(fast_team_actor *self)
{
    fast_actor *actor = self->context.trainer.actor;

    if (!self->team->cut.on)
        return;
    fast__team_lock(self);
    self->team->cut.left++;
    fast__team_unlock(self);
    if (!self->team->cut.spread || self->cutting.left)
        return;
    self->cutting.left = true;
    if (!self->team->place.first)
        (void)!send_words(actor, self->team->ids[0], TAG_LEFT, 0, 0, &(bool){ false });
    /* A worker that waits long between two steps looks now whether all stop. */
    for (int64_t i = 1; i < self->team->workers && self->context.trainer.rank == 0; i++)
        (void)!send_three(actor, self->team->ids[i], TAG_COMMAND, (const int64_t[3]){ JOIN, 0, -1 },
                          &(bool){ false });
}
