/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of asynchronous workers of a split model. Replicas do not wait for each other, but the
 * workers of one replica take each step together: a stage that stopped, or started, a step before
 * the others would leave them waiting for its activations. So the first worker of a replica decides
 * between two steps, as an asynchronous worker does, and the others do as it says:
 *
 *     leader     next: stop? vote?  --TAG_NEXT-->  follower    next: receive, vote, continue
 *
 * A stage needs the activations of the one before in any case, so the message delays nobody. All
 * stages take part in a vote at the same step: what is evaluated is one replica, or a mean of them.
 *
 *     TAG_NEXT    leader to the others of its replica    words[0] 1: take the step that follows,
 *                                                        words[1] 1: take part in the open vote
 *
 * Cost: pipe times tensor - 1 messages without data for each step of a replica.
 */
#include "run/team.h"

enum { TAG_NEXT = 0x7fffff21 }; /* messages of a replica */

fast_err fast__split_lead(const fast_team_actor *self, bool more, bool votes)
{
    const fast_team *team = self->team;
    fast_actor *actor = self->context.trainer.actor;

    FAST_ASSERT(fast__split_leader(team, self->number) == self->number);
    for (int64_t i = 1; i < fast__split_parts(team); i++) {
        fast_msg *msg = NULL;

        FAST_TRY(fast_msg_new(actor, TAG_NEXT, &msg));
        msg->words[0] = more;
        msg->words[1] = votes;
        FAST_TRY(fast_send(actor, team->ids[self->number + i], &msg));
    }
    return FAST_OK;
}

fast_err fast__split_follow(const fast_team_actor *self, bool *more_out, bool *votes_out)
{
    const fast_team *team = self->team;
    const fast_trainer *t = &self->context.trainer;
    fast_msg *msg = NULL;

    fast_actor_at(t->actor, t->step, "the first stage");
    FAST_TRY(fast_receive(t->actor, team->ids[fast__split_leader(team, self->number)], TAG_NEXT,
                          FAST_SOON, &msg));
    *more_out = msg->words[0] != 0;
    *votes_out = msg->words[1] != 0;
    fast_msg_free(msg);
    return FAST_OK;
}
