/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scatter, of the family `partial`: MALT (Li et al., EuroSys 2015). Every `period` steps a worker
 * writes its weights or its gradient to its slot at each neighbour. The neighbour mixes the new
 * values of its slots, each once, with its own:
 *
 *     x_i <- (x_i + sum of n new x_j) / (1 + n)
 *
 * A sender's last `queue` messages wait to be mixed; older ones are dropped. With slack s a worker
 * first waits until each neighbour that is up has sent round r - s; 0 is bulk synchronous.
 *
 * Survivors rebuild the graph: who sends to a crashed worker sends to those that it sent to,
 * through any number of crashed ones. Paths that led through them lead past them, so that survivors
 * of a connected graph are connected. Rounds do not wait for senders that came so. A worker that
 * restarts has its place back.
 *
 * With a lossy codec weights are sent as differences, which are decoded as they arrive:
 * x_i <- x_i + sum gamma (h_j - h_i) / (1 + n), h_j the copy of x_j that its neighbours hold
 * (links.c). A restarted worker asks its neighbours for a complete model.
 *
 * Cost per worker: degree models every `period` steps; memory: a message for each sender.
 */
#include "base/err.h"
#include "base/memory.h"
#include "strategy/partial.h"
#include "strategy/vector_kernels.h"
#include "tensor/vector.h"
#include "trainer/part.h"

#include <string.h>

fast_err fast__scatter_open(fast_partial *sh)
{
    fast_trainer *t = sh->t;
    const fast_flow_options gradients = { 0 };

    FAST_ASSERT(sh->flows == NULL);
    FAST_TRY(fast__links_init(t, false, false, sh->c->gamma, &sh->links));
    if (sh->links.differ && sh->c->sends == 0 && sh->c->queue > 1)
        return fast__fail(FAST_EINVAL,
                          "partial: a lossy codec sends weights as differences, of which "
                          "the last counts alone; leave out queue or use "
                          "sends=gradients");
    if (!sh->links.coded)
        return FAST_OK;
    /* One flow sends and receives gradients: each counts, so any message decodes alone. */
    if (sh->c->sends == 1) {
        sh->flow_count = 1;
        FAST_TRY(fast__alloc("flows", 1, sizeof(fast_flow *), &sh->flows));
        return fast_trainer_flow(t, &gradients, &sh->flows[0]);
    }
    if (sh->links.differ && fast_topology_period(t->topology) != 1)
        return fast__fail(FAST_EINVAL,
                          "partial: a lossy codec sends weights as differences to the neighbours' "
                          "copies, so the neighbours must stay the same; use another topology or "
                          "sends=gradients");
    return FAST_OK;
}

/* Decode a difference as it arrives, because the next one is relative to it. *incomplete_out: this
 * worker restarted and has no copy that it fits; the sender is asked for a complete model. */
static fast_err follow(fast_partial *sh, int64_t rank, const fast_msg *msg, bool *incomplete_out)
{
    fast_trainer *t = sh->t;
    fast_msg *note = NULL;
    fast_replica other;
    fast_err err = fast__links_open(&sh->links, rank, msg, &other);

    FAST_ASSERT(sh->links.differ);
    *incomplete_out = err == FAST_EFORMAT;
    if (!*incomplete_out)
        return err;
    FAST_TRY(fast_msg_new(t->actor, FAST_TAG_REPLY, &note));
    err = fast_send(t->actor, msg->from, &note);
    return err && !fast__is_peers(err) ? err : FAST_OK;
}

fast_err fast__scatter_take(void *ctx, fast_msg **move)
{
    fast_partial *sh = ctx;
    fast_trainer *t = sh->t;
    const int64_t rank = fast__trainer_rank(t, (*move)->from);
    const bool differ = sh->c->sends == 0 && sh->links.differ;
    fast_replica other;
    bool incomplete = false;

    FAST_ASSERT(rank != t->rank);
    if (differ)
        FAST_TRY(follow(sh, rank, *move, &incomplete));
    else
        FAST_TRY(fast__replica_open(t, sh->links.coded, *move, &other));
    /* The round counts even if the message cannot be used: nobody waits for it any more. */
    sh->round[rank] = (*move)->words[FAST_REPLICA_OWN];
    if (!incomplete)
        fast__scatter_queue(sh->newest + rank * sh->c->queue, sh->c->queue, move);
    return FAST_OK;
}

void fast__scatter_queue(fast_msg **queue, int64_t length, fast_msg **move)
{
    int64_t used = 0;

    FAST_ASSERT(length >= 1 && *move != NULL);
    while (used < length && queue[used])
        used++;
    if (used == length) {
        fast_msg_free(queue[0]);
        for (int64_t i = 1; i < length; i++)
            queue[i - 1] = queue[i];
        used--;
    }
    queue[used] = *move;
    *move = NULL;
}

int64_t fast__scatter_receivers(const fast_topology *topology, int64_t round, int64_t rank,
                                const bool *down, fast_neighbours *n, int64_t *reached, bool *seen)
{
    const int64_t size = fast_topology_size(topology);
    int64_t found = 0, live = 0;

    FAST_ASSERT(rank >= 0 && rank < size);
    memset(seen, 0, (size_t)size * sizeof *seen);
    seen[rank] = true;
    /* A crashed worker's receivers are appended while the list is walked. */
    for (int64_t at = -1; at < found; at++) {
        const int64_t from = at < 0 ? rank : reached[at];

        if (at >= 0 && !down[from])
            continue;
        n->count = fast_topology_out(topology, round, from, n->ranks, n->weights, &n->self);
        for (int64_t i = 0; i < n->count; i++) {
            if (!seen[n->ranks[i]])
                reached[found++] = n->ranks[i];
            seen[n->ranks[i]] = true;
        }
    }
    /* Crashed workers were needed on the way only: remove them, in place and in order. */
    for (int64_t i = 0; i < found; i++)
        if (!down[reached[i]])
            reached[live++] = reached[i];
    return live;
}

/* Find the receivers of a round in *ranks_out: the neighbours, without crashed ones. Memory is
 * taken at the first crash. */
static fast_err find_receivers(fast_partial *sh, int64_t round, const int64_t **ranks_out,
                               int64_t *count_out)
{
    fast_trainer *t = sh->t;
    fast_neighbours *n = &sh->neighbours;
    bool crashed = false;

    FAST_ASSERT(round >= 1);
    n->count = fast_topology_out(t->topology, round, t->rank, n->ranks, n->weights, &n->self);
    *ranks_out = n->ranks;
    *count_out = n->count;
    /* A worker that has finished is no crashed one; until its last message arrives it looks so,
     * and is sent past too. */
    for (int64_t i = 0; i < n->count; i++)
        crashed = crashed || (fast_member_is_down(t->actor, t->worker_ids[n->ranks[i]]) &&
                              !sh->in.last[n->ranks[i]]);
    if (!crashed)
        return FAST_OK;
    if (!sh->reached) {
        FAST_TRY(fast__alloc("workers to send to", t->workers, sizeof *sh->reached, &sh->reached));
        FAST_TRY(fast__alloc("workers that are down", 2 * t->workers, sizeof *sh->down, &sh->down));
    }
    for (int64_t i = 0; i < t->workers; i++)
        sh->down[i] = !sh->in.last[i] && fast_member_is_down(t->actor, t->worker_ids[i]);
    *count_out = fast__scatter_receivers(t->topology, round, t->rank, sh->down, n, sh->reached,
                                         sh->down + t->workers);
    *ranks_out = sh->reached;
    return FAST_OK;
}

/* Receive the requests for complete models that have arrived. */
static fast_err receive_resyncs(fast_partial *sh)
{
    fast_msg *note = NULL;
    fast_err err = FAST_OK;

    FAST_ASSERT(sh->newest != NULL);
    while (sh->links.differ && !err) {
        err = fast_receive(sh->t->actor, FAST_ANY, FAST_TAG_REPLY, FAST_AT_ONCE, &note);
        if (err)
            break;
        /* All neighbours follow one flow: one that lost its copy gets a complete model, and so do
         * the other ones. */
        fast__links_renew(&sh->links, 0);
        fast_msg_free(note);
    }
    return err && !fast__is_peers(err) ? err : FAST_OK;
}

/* Send one copy of x to all neighbours, as round `round`. */
static fast_err scatter(fast_partial *sh, const float *x, int64_t round)
{
    fast_trainer *t = sh->t;
    fast_buffer *buffer = NULL;
    fast_err err = FAST_OK;
    const int64_t *ranks;
    int64_t count;
    size_t size;

    FAST_ASSERT(round >= 1);
    FAST_TRY(find_receivers(sh, round, &ranks, &count));
    if (sh->c->sends == 1)
        FAST_TRY(fast__replica_pack(t, sh->flows ? sh->flows[0] : NULL, x, &buffer, &size));
    else
        FAST_TRY(fast__links_pack(&sh->links, 0, x, &buffer, &size, &sh->gamma));
    for (int64_t i = 0; i < count && !err; i++) {
        fast_msg *msg = NULL;

        err = fast__links_msg(&sh->links, FAST_TAG_MODEL, 0, sh->gamma, buffer, size, &msg);
        if (err)
            break;
        msg->words[FAST_REPLICA_OWN] = round;
        err = fast_send(t->actor, t->worker_ids[ranks[i]], &msg);
        if (fast__is_peers(err))
            err = FAST_OK;
    }
    /* The own gradient counts as the neighbours decode it. */
    if (sh->c->sends == 1 && sh->flows && !err)
        err = fast__replica_as_sent(t, sh->flows[0], buffer, size, 1, fast_trainer_grad(t));
    fast_buffer_free(buffer);
    return err;
}

/* Wait until each neighbour that is up and not done has sent round `least`. */
static fast_err await_round(fast_partial *sh, int64_t round, int64_t least)
{
    fast_trainer *t = sh->t;
    fast_neighbours *n = &sh->neighbours;

    FAST_ASSERT(least <= round);
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

/* g <- g + a x. x is NULL where a decoder has added the values already. */
static void run_add_scaled(const void *ctx, int64_t n, float *const *x)
{
    FAST_ASSERT(x[0] != NULL);
    if (x[1])
        fast__run_axpy(ctx, n, x);
}
static const fast_kernel add_scaled = { "add", 2, 12, 2, 1, false, run_add_scaled };
static const fast_kernel scale_own = { "scale", 0, 0, 1, 1, false, fast__run_scale };

/* g <- g + share times a gradient that arrived; the state becomes `own` of itself and `share` of
 * the sender's. */
static fast_err add_gradient(fast_partial *sh, int64_t rank, const fast_replica *other, double own,
                             double share)
{
    fast_trainer *t = sh->t;
    fast_vector v = fast__replica_vector(other);

    FAST_ASSERT(rank != t->rank);
    v.shares = sh->shares;
    fast_trainer_shares_of(t, rank, sh->shares);
    if (sh->flows)
        FAST_TRY(fast_trainer_decode(t, sh->flows[0], other->coded, other->coded_size, (float)share,
                                     t->g));
    fast__vector_axpby(t->state_count, (float)share, other->s, (float)own, t->s);
    return fast_trainer_apply(t, &add_scaled, &(float){ (float)share },
                              (fast_vector[]){ fast_trainer_grad(t), v });
}

/* Return the mixing weight of message i of the queues: share, with a lossy codec times the smaller
 * gamma. */
static double weight_of(const fast_partial *sh, int64_t i, double share)
{
    const double gamma = fast__links_gamma(sh->newest[i]);

    FAST_ASSERT(share > 0 && share <= 1);
    if (sh->c->sends == 1 || !sh->links.differ)
        return share;
    return share * (gamma < sh->gamma ? gamma : sh->gamma);
}

/* Mix message i of the queues into w or g. */
static fast_err mix_newest(fast_partial *sh, int64_t i, double own, double share)
{
    fast_trainer *t = sh->t;
    const int64_t rank = i / sh->c->queue;
    const fast_msg *msg = sh->newest[i];
    const bool differ = sh->links.differ;
    fast_replica other;

    FAST_ASSERT(msg != NULL);
    if (sh->c->sends == 1 || differ)
        FAST_TRY(fast__replica_open(t, sh->links.coded, msg, &other));
    else
        FAST_TRY(fast__links_open(&sh->links, rank, msg, &other));
    other.age = fast__partial_age(sh, msg);
    if (sh->c->sends == 1)
        return add_gradient(sh, rank, &other, own, share);
    if (!differ)
        return fast__replica_mix(t, own, &other, share);
    /* The difference was decoded when it arrived: x is the copy that it led to. */
    other.x = fast__links_known(&sh->links, rank);
    return fast__links_mix(&sh->links, rank, own, &other, share);
}

/* Mix the n new messages into w or g, each with the weight 1 / (1 + n). */
static fast_err mix_new(fast_partial *sh)
{
    fast_trainer *t = sh->t;
    const bool gradients = sh->c->sends == 1;
    const fast_vector g = fast_trainer_grad(t);
    const int64_t slots = t->workers * sh->c->queue;
    int64_t count = 0;
    double own = 1;

    for (int64_t i = 0; i < slots; i++)
        count += sh->newest[i] != NULL;
    const double share = 1 / (double)(1 + count);

    FAST_ASSERT(count <= slots - sh->c->queue);
    if (gradients)
        FAST_TRY(fast_trainer_apply(t, &scale_own, &(float){ (float)share }, &g));
    /* The own weight is 1 - n share; with differences 1 - the sum of the weights of all messages.
     * The first message is mixed with it, and all later ones are added. */
    if (gradients || !sh->links.differ)
        own = share;
    for (int64_t i = 0; i < slots && own != share; i++)
        own -= sh->newest[i] ? weight_of(sh, i, share) : 0;
    for (int64_t i = 0; i < slots; i++) {
        if (!sh->newest[i])
            continue;
        FAST_TRY(mix_newest(sh, i, own, weight_of(sh, i, share)));
        own = 1;
        fast_msg_free(sh->newest[i]);
        sh->newest[i] = NULL;
    }
    return FAST_OK;
}

/* Exchange x with the neighbours. Rounds are counted from 1. */
static fast_err exchange(fast_partial *sh, const float *x)
{
    fast_trainer *t = sh->t;
    const int64_t round = t->step / sh->c->period;

    FAST_ASSERT(round >= 1 && t->step % sh->c->period == 0);
    fast_actor_at(t->actor, t->step, sh->c->sends == 1 ? "gradient" : "weights");
    FAST_TRY(receive_resyncs(sh));
    FAST_TRY(scatter(sh, x, round));
    if (sh->c->slack != 0) /* with slack 0 a later round must not replace this one */
        FAST_TRY(fast__intake_poll(&sh->in));
    if (sh->c->slack >= 0)
        FAST_TRY(await_round(sh, round, round - sh->c->slack));
    return mix_new(sh);
}

fast_err fast__scatter_step(fast_partial *sh)
{
    fast_trainer *t = sh->t;

    FAST_ASSERT(sh->newest != NULL && sh->c->period >= 1);
    FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
    /* Gradients are mixed before the update, weights after it. */
    if (sh->c->sends == 1) {
        if (t->step % sh->c->period == 0)
            FAST_TRY(exchange(sh, t->g));
        return fast_trainer_update(t, t->g, 1);
    }
    FAST_TRY(fast_trainer_update(t, t->g, 1));
    return t->step % sh->c->period == 0 ? exchange(sh, t->w) : FAST_OK;
}
