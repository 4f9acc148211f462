/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scatter, of the family `partial`: MALT (Li et al., EuroSys 2015). Every `period` steps a worker
 * writes its weights or its gradient to a place of its own at each neighbour, which takes from its
 * places what is new, each once, and averages it with its own:
 *
 *     x_i <- (x_i + sum of n new x_j) / (1 + n)
 *
 * A newer message replaces an older one that was not taken: queues have length 1. With slack s a
 * worker first waits until each neighbour that is up has sent round r - s; 0 is bulk synchronous.
 * The graph is of all workers; who crashed is left out by its neighbours.
 *
 * Cost per worker: degree models every `period` steps; memory: a message for each that sends here.
 */
#include "base/err.h"
#include "strategy/partial.h"
#include "tensor/vector.h"

fast_err fast__scatter_take(void *ctx, fast_msg **move)
{
    fast_partial *sh = ctx;
    fast_trainer *t = sh->t;
    const int64_t rank = fast_actor_index(t->actor, (*move)->from);
    fast_replica other;

    FAST_TRY(fast__replica_open(t, *move, &other));
    sh->round[rank] = (*move)->words[FAST_REPLICA_OWN];
    fast_msg_free(sh->newest[rank]);
    sh->newest[rank] = *move;
    *move = NULL;
    return FAST_OK;
}

/* One copy of x to all neighbours, as round `round`. */
static fast_err scatter(fast_partial *sh, const float *x, int64_t round)
{
    fast_trainer *t = sh->t;
    fast_neighbours *n = &sh->near;
    fast_buffer *buffer = NULL;
    fast_err err = FAST_OK;

    n->count = fast_topology_out(t->topology, round, t->rank, n->ranks, n->weights, &n->self);
    FAST_TRY(fast__replica_pack(t, x, &buffer));
    fast_buffer_freeze(buffer);
    for (int64_t i = 0; i < n->count && !err; i++) {
        fast_buffer *held = fast_buffer_hold(buffer);
        fast_msg *msg = NULL;

        err = fast__replica_msg(t, FAST_TAG_MODEL, 0, &held, &msg);
        if (err)
            break;
        msg->words[FAST_REPLICA_OWN] = round;
        err = fast_send(t->actor, t->worker_ids[n->ranks[i]], &msg);
        if (fast__is_peers(err))
            err = FAST_OK;
    }
    fast_buffer_free(buffer);
    return err;
}

/* Wait until each neighbour that is up and not done has sent round `least`. */
static fast_err await_round(fast_partial *sh, int64_t round, int64_t least)
{
    fast_trainer *t = sh->t;
    fast_neighbours *n = &sh->near;

    n->count = fast_topology_in(t->topology, round, t->rank, n->ranks, n->weights, &n->self);
    for (int64_t i = 0; i < n->count; i++) {
        const int64_t rank = n->ranks[i];
        fast_err err = FAST_OK;

        while (!err && sh->round[rank] < least && !sh->in.last[rank])
            err = fast__intake_wait(&sh->in, t->worker_ids[rank]);
        if (err && err != FAST_EPEER)
            return err;
    }
    return FAST_OK;
}

/* Take what is new, with weights 1 / (1 + n), into w or g. */
static fast_err gather(fast_partial *sh)
{
    fast_trainer *t = sh->t;
    int64_t count = 0;
    double share;
    double keep;

    for (int64_t i = 0; i < t->workers; i++)
        count += sh->newest[i] != NULL;
    share = 1 / (double)(1 + count);
    keep = share;
    if (sh->c->sends == 1) {
        fast__vector_scale(t->count, (float)share, t->g);
        fast_trainer_carry(t, t->rank, share * (double)t->workers);
    }
    for (int64_t i = 0; i < t->workers; i++) {
        fast_replica other;

        if (!sh->newest[i])
            continue;
        FAST_TRY(fast__replica_open(t, sh->newest[i], &other));
        fast_trainer_staleness(t, fast__partial_age(sh, sh->newest[i]));
        if (sh->c->sends == 0) {
            FAST_TRY(fast__replica_mix(t, keep, &other, share));
        } else {
            fast__vector_axpy(t->count, (float)share, other.x, t->g);
            fast__vector_axpby(t->state_count, (float)share, other.s, (float)keep, t->s);
            fast_trainer_carry(t, i, share * (double)t->workers);
            FAST_TRY(fast_charge(t->actor, 2 * (double)t->count, 12 * (double)t->count));
        }
        keep = 1;
        fast_msg_free(sh->newest[i]);
        sh->newest[i] = NULL;
    }
    return FAST_OK;
}

/* One exchange; round r is the r-th from 1. */
static fast_err meet(fast_partial *sh, const float *x)
{
    fast_trainer *t = sh->t;
    const int64_t round = t->step / sh->c->period;

    fast_actor_at(t->actor, t->step, sh->c->sends == 1 ? "gradient" : "weights");
    FAST_TRY(scatter(sh, x, round));
    if (sh->c->slack != 0) /* who is ahead must not hide its part of this round */
        FAST_TRY(fast__intake_poll(&sh->in));
    if (sh->c->slack >= 0)
        FAST_TRY(await_round(sh, round, round - sh->c->slack));
    return gather(sh);
}

fast_err fast__scatter_step(fast_partial *sh)
{
    fast_trainer *t = sh->t;

    FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
    if (sh->c->sends == 1) {
        if (t->step % sh->c->period == 0)
            FAST_TRY(meet(sh, t->g));
        else
            fast_trainer_carry(t, t->rank, (double)t->workers);
        return fast_trainer_update(t, t->g, 1);
    }
    FAST_TRY(fast_trainer_update(t, t->g, 1));
    fast_trainer_carry(t, t->rank, (double)t->workers);
    return t->step % sh->c->period == 0 ? meet(sh, t->w) : FAST_OK;
}
