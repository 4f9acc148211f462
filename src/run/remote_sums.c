/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Losses of the workers of other processes, so that the result of a run is of all replicas however
 * many processes they are in.
 *
 * Each process counts the batches of its own workers (epoch_sums.c). A worker of another process
 * sends what it has counted to worker 0: in a synchronous team at each step with an evaluation or a
 * checkpoint, in every team when its program ends. Worker 0 adds it where the run's sums are made.
 * In mid-run an asynchronous team tells the losses of worker 0's process, as nobody waits there.
 *
 *     TAG_LOSSES    worker to worker 0, at a step that is due
 *     TAG_ENDED     worker to worker 0, when its program ends
 *         words[0]  the worker's step, which says the epoch
 *         words[1]  sum of losses in units of 2^-28, words[2] bits of the sum of large ones
 *         words[3]  batches, words[4] correct positions, words[5] evaluated positions
 *
 * Cost: one small message a worker for each evaluation. Whole numbers are added, so the order does
 * not matter, and the result has the bits of workers that are threads.
 */
#include "run/team.h"

#include <string.h>

enum { TAG_LOSSES = 0x7fffff23, TAG_ENDED }; /* messages between processes */

/* The sums of a worker as a message. */
static void pack(const fast_step_sums *sums, int64_t *words)
{
    words[0] = sums->step;
    words[1] = sums->sums.loss;
    memcpy(&words[2], &sums->sums.large, sizeof words[2]);
    words[3] = sums->sums.batches;
    words[4] = sums->sums.correct;
    words[5] = sums->sums.positions;
}

/* A message as the sums of a worker. */
static fast_step_sums unpack(const int64_t *words, int64_t epoch_steps)
{
    fast_step_sums sums = { .step = words[0],
                            .sums = { .epoch = words[0] > 0 ? (words[0] - 1) / epoch_steps : 0,
                                      .loss = words[1],
                                      .batches = words[3],
                                      .correct = words[4],
                                      .positions = words[5] } };

    memcpy(&sums.sums.large, &words[2], sizeof sums.sums.large);
    return sums;
}

fast_err fast__sums_send(fast_team_actor *self, bool last)
{
    const fast_team *team = self->team;
    fast_actor *actor = self->context.trainer.actor;
    fast_msg *msg = NULL;

    FAST_ASSERT(!team->place.first);
    FAST_TRY(fast_msg_new(actor, last ? TAG_ENDED : TAG_LOSSES, &msg));
    fast__mutex_lock(&self->team->mutex);
    const fast_step_sums sums =
        fast__sums_of(self, last ? self->sums.step : self->context.trainer.step);
    fast__mutex_unlock(&self->team->mutex);
    pack(&sums, msg->words);
    return fast_send(actor, team->ids[0], &msg);
}

fast_err fast__sums_receive(fast_team_actor *self, bool last)
{
    fast_team *team = self->team;
    const fast_trainer *t = &self->context.trainer;

    FAST_ASSERT(self->number == 0 && team->place.first);
    fast_actor_at(t->actor, t->step, "the losses of other processes");
    for (int64_t i = 0; i < team->workers; i++) {
        fast_err err = team->actors[i] ? FAST_EPEER : FAST_ETIMEDOUT;
        fast_msg *msg = NULL;

        while (err == FAST_ETIMEDOUT) /* it may be slow; if it is gone, that is told */
            err = fast_receive(t->actor, team->ids[i], last ? TAG_ENDED : TAG_LOSSES, FAST_SOON,
                               &msg);
        if (err == FAST_EPEER)
            continue;
        FAST_TRY(err);
        fast__mutex_lock(&team->mutex);
        team->progress.remote[i] = unpack(msg->words, t->epoch_steps);
        fast__mutex_unlock(&team->mutex);
        fast_msg_free(msg);
    }
    return FAST_OK;
}
