/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gossip_async: pairwise exchanges between workers that each train at their own pace. At a step a
 * worker starts an exchange with probability p, with a random neighbour j that is up, chosen with
 * the probability of that edge (choice.c):
 *
 *   how=average   w_i, w_j <- (w_i + w_j) / 2, both at once
 *   how=push      a_i <- a_i / 2; sends (w_i, a_i); the receiver r, before its next step:
 *                 w_r <- (a_r w_r + a_i w_i) / (a_r + a_i),  a_r <- a_r + a_i
 *                 masses start at 1/P; their sum, including masses in flight, is always 1
 *   how=pull      asks j for w_j;  w_i <- (w_i + w_j) / 2; w_j does not change
 *
 * `average` with overlap is AD-PSGD (Lian et al. 2018): the exchange overlaps the gradient, which
 * is computed at the weights before it. Without overlap it is Ram et al. (2010) and the randomised
 * gossip of Boyd et al. (2006): average, then a gradient at the average. `push` is GoSGD (Blot et
 * al. 2016); with mass=no the receiver takes one half, as Jin et al. (2016) do, who also pull.
 *
 * Deadlock. A worker answers requests in all its waits, but its weights must not change while it
 * computes a gradient or awaits a reply itself. A request that arrives meanwhile is deferred if it
 * is from a lower rank; if it is from a higher rank and this worker awaits a reply, it is refused.
 * So a worker only waits for one of a higher rank, or one that computes or answers: there is no
 * cycle of waits, on any graph. A worker whose request is refused skips the exchange.
 *
 * Peers that crashed or ended are not chosen. An exchange with a peer that goes down is given up,
 * and its late reply is discarded. A worker that ends tells its neighbours, because its actor may
 * live on without answering while it collects models. A restarted worker starts with mass 0 and
 * becomes the first model that reaches it. At the end `push` receives the models in flight (drain
 * of exchange.c).
 *
 * With a lossy codec, h_ij is the copy of w_i that worker j holds (links.c), and gamma the smaller
 * step size of both ends:
 *
 *   average   w_i <- w_i + gamma (h_ji - h_ij) / 2, and w_j symmetrically: w_i + w_j is conserved
 *   push      gives gamma a_i / 2 away with h_ij and retains the rest of a_i w_i:
 *             w_i <- w_i + gamma / (2 - gamma) (w_i - h_ij); the sum of all a w is conserved
 *   pull      w_i <- w_i + gamma (h_ji - w_i) / 2
 *
 * A receiver follows a difference even if the request is refused or the reply is late, because the
 * next difference is relative to it. A restarted worker holds no copies and asks for a complete
 * model (resync); the mass of a push that it could not decode is returned.
 *
 * Cost per worker and step: p messages of the model (push), 2 p (average), p and p small ones
 * (pull).
 */
#include "base/err.h"
#include "base/memory.h"
#include "strategy/choice.h"
#include "strategy/links.h"
#include "tensor/vector.h"
#include "trainer/part.h"
#include "trainer/remember.h"

#include <string.h>

enum { AVERAGE, PUSH, PULL };

typedef struct async_config {
    int how;      /* AVERAGE, PUSH or PULL */
    double p;     /* probability of an exchange at a step */
    bool overlap; /* average, pull: the exchange overlaps the gradient */
    bool mass;    /* push: models are weighted by masses */
    bool flush;   /* push: receive the models in flight at the end */
    int edges;    /* FAST_EDGES_*: probabilities of neighbours */
    double gamma; /* consensus step size of fast_links */
} async_config;

enum { OVER = -1 }; /* instead of a request's number: this worker replies no more */

static const fast_option options[] = {
    FAST_OPT_CHOICE(async_config, how, "average", "average|push|pull",
                    "average: both workers take the mean; push: send the model to a neighbour; "
                    "pull: average with a neighbour's model"),
    FAST_OPT_REAL(async_config, p, "1", 0, 1,
                  "probability that a worker starts an exchange at a step"),
    FAST_OPT_BOOL(async_config, overlap, "yes",
                  "average, pull: exchange during the gradient, which uses the weights before it"),
    FAST_OPT_BOOL(async_config, mass, "yes",
                  "push: weight models by masses, of which a push gives one half away (GoSGD)"),
    FAST_OPT_BOOL(async_config, flush, "yes",
                  "push: wait for models in flight at the end and mix them in"),
    FAST_OPT_CHOICE(async_config, edges, "uniform", FAST_EDGES_CHOICES, FAST_EDGES_HELP),
    FAST_LINKS_GAMMA(async_config),
    FAST_OPT_END,
};

/* A worker's persistent block: what a snapshot needs besides the replica and the flows. */
typedef struct async_block {
    int64_t question; /* number of the last request */
    double mass;      /* push: a_i */
    bool flags[];     /* [2 * workers]: `lost` of the agent, then `sent` */
} async_block;

/* A worker's state besides its replica. */
typedef struct agent {
    fast_trainer *t;        /* the worker */
    const async_config *c;  /* its options */
    fast_service *service;  /* answers requests in the actor's waits; NULL with push */
    fast_links links;       /* of models to and from all workers */
    fast_choice choice;     /* of the neighbour of an exchange */
    fast_intake in;         /* push: models that arrive; else `last` alone is used */
    fast_msg **deferred;    /* [deferred_room]: requests to answer once the weights are free */
    int64_t deferred_room;  /* workers that may ask this one */
    int64_t deferred_count; /* length of deferred */
    bool *lost;             /* [workers]: this worker's copy is lost; ask for a complete model */
    bool *sent;             /* push: [workers]: a model was pushed to that worker; else NULL */
    bool computing;         /* the weights are in use */
    int64_t asked;          /* rank whose reply is awaited; -1: none is */
    async_block *own;       /* persists */
} agent;

/* Ask the receiver of a message for a complete model, or not. */
static void set_resync(fast_msg *msg, bool wanted)
{
    FAST_ASSERT(msg != NULL);
    msg->words[FAST_REPLICA_RESYNC] = wanted;
}

/* Return the weight of the other model in a mix: one half, with a lossy codec gamma / 2. */
static double mixing_weight(const agent *a, double gamma)
{
    FAST_ASSERT(gamma >= 0 && gamma <= 1);
    return a->links.differ ? 0.5 * gamma : 0.5;
}

/* Create the reply to a request. `average` first mixes the requester's model in and replies with
 * the mean. With a lossy codec both ends move by the held copies, so this worker's model is packed
 * before it moves. */
static fast_err make_reply(agent *a, int64_t rank, const fast_replica *other, double gamma,
                           fast_msg **out)
{
    fast_trainer *t = a->t;
    const bool average = a->c->how == AVERAGE;
    fast_buffer *buffer = NULL;
    fast_err err = FAST_OK;
    double own = 1;
    size_t size;

    FAST_ASSERT(a->computing);
    if (average && !a->links.differ)
        FAST_TRY(fast__replica_mix(t, 0.5, other, 0.5));
    FAST_TRY(fast__links_pack(&a->links, rank, t->w, &buffer, &size, &own));
    own = average && gamma < own ? gamma : own;
    if (average && a->links.differ)
        err = fast__links_mix(&a->links, rank, 1 - mixing_weight(a, own), other,
                              mixing_weight(a, own));
    if (!err)
        err = fast__links_msg(&a->links, FAST_TAG_REPLY, 0, own, buffer, size, out);
    fast_buffer_free(buffer);
    return err;
}

/* Decode the model of a request, also if it is refused, because the next difference is relative to
 * it. *lost_out: it is a difference to a copy that this worker does not have. */
static fast_err open_request(agent *a, int64_t rank, const fast_msg *request, bool refuse,
                             fast_replica *out, bool *lost_out)
{
    FAST_ASSERT(rank != a->t->rank);
    *lost_out = false;
    if (a->c->how != AVERAGE || (refuse && !a->links.differ))
        return FAST_OK;
    const fast_err err = fast__links_open(&a->links, rank, request, out);
    *lost_out = a->links.differ && err == FAST_EFORMAT;
    return *lost_out ? FAST_OK : err;
}

/* Answer a request by a model, or refuse it by a reply without a part. Takes the request. */
static fast_err reply_to(agent *a, fast_msg *request, bool refuse)
{
    fast_trainer *t = a->t;
    const int64_t rank = fast__trainer_rank(t, request->from);
    const bool computing = a->computing;
    fast_msg *reply = NULL;
    fast_replica other = { 0 };
    bool lost = false;
    fast_err err;

    FAST_ASSERT(rank != t->rank);
    a->computing = true; /* one request at a time: mixing takes time where that is virtual */
    if (request->words[FAST_REPLICA_RESYNC])
        fast__links_renew(&a->links, rank);
    err = open_request(a, rank, request, refuse, &other, &lost);
    if (!err && (refuse || lost))
        err = fast_msg_new(t->actor, FAST_TAG_REPLY, &reply);
    else if (!err)
        err = make_reply(a, rank, &other, fast__links_gamma(request), &reply);
    if (!err) {
        set_resync(reply, lost);
        reply->words[FAST_REPLICA_STEP] = t->step;
        reply->words[FAST_REPLICA_OWN] = request->words[FAST_REPLICA_OWN];
        err = fast_send(t->actor, request->from, &reply);
        if (err)
            fast__links_renew(&a->links, rank);
    }
    a->computing = computing;
    fast_msg_free(reply);
    fast_msg_free(request);
    return err && !fast__is_peers(err) ? err : FAST_OK;
}

/* Answer, refuse or defer a request that arrived. Called in the actor's waits. */
static fast_err serve(void *ctx, fast_msg **move)
{
    agent *a = ctx;
    fast_msg *request = *move;

    FAST_ASSERT(a->c->how != PUSH && request != NULL);
    *move = NULL;
    if (a->c->how == PULL || (!a->computing && a->asked < 0))
        return reply_to(a, request, false);
    if (a->asked >= 0 && request->from > fast_actor_id(a->t->actor))
        return reply_to(a, request, true);
    if (a->deferred_count == a->deferred_room) /* more requests than peers: one restarted */
        return reply_to(a, request, true);
    a->deferred[a->deferred_count++] = request;
    return FAST_OK;
}

/* Answer the deferred requests, then those that arrived meanwhile: the weights are free again. */
static fast_err release(agent *a, bool refuse)
{
    FAST_ASSERT(!a->computing && a->asked < 0);
    while (a->deferred_count > 0)
        FAST_TRY(reply_to(a, a->deferred[--a->deferred_count], refuse));
    return fast_service_poll(a->service);
}

/* Create a request: with this worker's model to average with, or without a part to pull one. */
static fast_err make_request(agent *a, int64_t rank, fast_msg **out)
{
    fast_trainer *t = a->t;
    fast_buffer *buffer = NULL;
    double gamma;
    size_t size;
    fast_err err;

    FAST_ASSERT(a->asked == rank);
    if (a->c->how != AVERAGE)
        return fast_msg_new(t->actor, FAST_TAG_ASK, out);
    FAST_TRY(fast__links_pack(&a->links, rank, t->w, &buffer, &size, &gamma));
    err = fast__links_msg(&a->links, FAST_TAG_ASK, 0, gamma, buffer, size, out);
    fast_buffer_free(buffer);
    return err;
}

/* With probability p send a request to a random neighbour. */
static fast_err start_exchange(agent *a)
{
    fast_trainer *t = a->t;
    fast_msg *msg = NULL;
    int64_t rank;
    fast_err err;

    FAST_ASSERT(a->asked < 0);
    if (a->c->p < 1 && fast__random_uniform(t->actor) >= a->c->p)
        return FAST_OK;
    /* A peer that ended is not asked: this step has no exchange. */
    rank = fast__choice_draw(&a->choice);
    if (rank < 0 || a->in.last[rank])
        return FAST_OK;
    a->asked =
        rank; /* from now on: encoding takes time, and messages to a worker must stay in order */
    err = make_request(a, rank, &msg);
    if (err)
        a->asked = -1;
    FAST_TRY(err);
    set_resync(msg, a->lost[rank]);
    a->lost[rank] = false;
    msg->words[FAST_REPLICA_OWN] = ++a->own->question;
    err = fast_send(t->actor, t->worker_ids[rank], &msg);
    if (err) {
        a->asked = -1;
        fast__links_renew(&a->links, rank);
    }
    return err && !fast__is_peers(err) ? err : FAST_OK;
}

/* Mix the reply. Of `average` it is the mean that the other worker made: both have the same bits. A
 * late reply through a lossy codec is decoded, but not mixed. */
static fast_err mix_reply(agent *a, const fast_msg *msg, bool late, bool *mixed_out)
{
    fast_trainer *t = a->t;
    const int64_t rank = a->asked;
    const bool average = a->c->how == AVERAGE;
    fast_replica other;

    FAST_ASSERT(rank >= 0);
    if (msg->words[FAST_REPLICA_RESYNC])
        fast__links_renew(&a->links, rank);
    if (msg->part_count == 0 || (late && !a->links.differ))
        return FAST_OK;
    const fast_err err = fast__links_open(&a->links, rank, msg, &other);
    a->lost[rank] = a->links.differ && err == FAST_EFORMAT;
    if (a->lost[rank] || late)
        return FAST_OK;
    FAST_TRY(err);
    *mixed_out = true;
    const double weight = mixing_weight(a, fast__links_gamma(msg));
    if (average && a->links.differ)
        return fast__links_mix(&a->links, rank, 1 - weight, &other, weight);
    return fast__replica_mix(t, average ? 0 : 1 - weight, &other, average ? 1 : weight);
}

/* Wait for the reply to the last request. *mixed_out: it changed the weights. */
static fast_err receive_reply(agent *a, bool *mixed_out)
{
    fast_trainer *t = a->t;
    fast_err err = FAST_OK;
    bool found = false;

    FAST_ASSERT(!a->computing);
    *mixed_out = false;
    fast_actor_at(t->actor, t->step, "weights");
    while (a->asked >= 0 && !found && !err) {
        fast_msg *msg = NULL;

        err = fast_receive(t->actor, t->worker_ids[a->asked], FAST_TAG_REPLY, FAST_SOON, &msg);
        if (err)
            break;
        a->in.last[a->asked] = msg->words[FAST_REPLICA_OWN] == OVER;
        /* A reply to an earlier request, which was given up, is late. */
        found = a->in.last[a->asked] || msg->words[FAST_REPLICA_OWN] == a->own->question;
        if (!a->in.last[a->asked])
            err = mix_reply(a, msg, !found, mixed_out);
        fast_msg_free(msg);
    }
    a->asked = -1;
    if (err && !fast__is_peers(err))
        return err;
    return release(a, false);
}

/* Does a worker have the same neighbours at all steps? */
static bool is_static(const fast_trainer *t)
{
    FAST_ASSERT(t->topology != NULL);
    return fast_topology_period(t->topology) == 1;
}

/* Tell a worker that this one replies no more. A silent one is told too: it may be back later. */
static fast_err tell_over(agent *a, int64_t rank)
{
    fast_trainer *t = a->t;
    fast_msg *msg = NULL;

    FAST_ASSERT(rank != t->rank);
    FAST_TRY(fast_msg_new(t->actor, FAST_TAG_REPLY, &msg));
    msg->words[FAST_REPLICA_OWN] = OVER;
    const fast_err err = fast_send(t->actor, t->worker_ids[rank], &msg);
    return err && !fast__is_peers(err) ? err : FAST_OK;
}

/* End of a worker that answers: refuse the deferred requests, and tell all workers that may ask it
 * that it replies no more. Its actor may live on, with mpi while it collects the models of other
 * workers. */
static fast_err leave(agent *a)
{
    fast_trainer *t = a->t;
    fast_neighbours from;
    fast_err err = FAST_OK;

    FAST_ASSERT(a->c->how != PUSH);
    FAST_TRY(release(a, true));
    if (!is_static(t)) {
        for (int64_t rank = 0; rank < t->workers && !err; rank++)
            if (rank != t->rank)
                err = tell_over(a, rank);
        return err;
    }
    FAST_TRY(fast__neighbours_init(t, &from));
    from.count =
        fast_topology_in(t->topology, t->step, t->rank, from.ranks, from.weights, &from.self);
    for (int64_t i = 0; i < from.count && !err; i++)
        err = tell_over(a, from.ranks[i]);
    fast__neighbours_fini(&from);
    return err;
}

/* Compute the gradient; requests that arrive meanwhile are deferred. */
static fast_err gradient(agent *a)
{
    fast_err err;

    FAST_ASSERT(!a->computing);
    a->computing = true;
    err = fast_trainer_gradient(a->t, NULL, NULL);
    a->computing = false;
    return err;
}

/* Update by g. `late`: a mix took place since its weights were read. */
static fast_err update(agent *a, bool late)
{
    fast_trainer *t = a->t;

    FAST_ASSERT(!a->computing);
    t->staleness = late ? 1 : 0;
    return fast_trainer_update(t, t->g, 1);
}

/* Train to the end with requests and replies: average, pull. */
static fast_err train_asking(agent *a)
{
    fast_trainer *t = a->t;

    FAST_ASSERT(a->service != NULL);
    while (fast_trainer_next(t)) {
        bool mixed = false;

        FAST_TRY(release(a, false));
        FAST_TRY(start_exchange(a));
        if (!a->c->overlap)
            FAST_TRY(receive_reply(a, &mixed));
        FAST_TRY(gradient(a));
        if (a->c->overlap)
            FAST_TRY(receive_reply(a, &mixed));
        FAST_TRY(update(a, mixed && a->c->overlap));
        /* Nobody may wait for a worker that waits in fast_trainer_next(). */
        if (!a->c->overlap)
            FAST_TRY(release(a, false));
    }
    FAST_TRY(fast_trainer_end(t));
    return leave(a);
}

/* Ask the sender of a push that cannot be decoded for a complete model, and return its mass. */
static fast_err request_resync(agent *a, const fast_msg *msg)
{
    fast_trainer *t = a->t;
    fast_msg *note = NULL;
    fast_err err;

    FAST_ASSERT(a->c->how == PUSH);
    FAST_TRY(fast_msg_new(t->actor, FAST_TAG_REPLY, &note));
    note->words[FAST_REPLICA_MASS] = msg->words[FAST_REPLICA_MASS];
    set_resync(note, true);
    err = fast_send(t->actor, msg->from, &note);
    return err && !fast__is_peers(err) ? err : FAST_OK;
}

/* Receive the requests for complete models that have arrived, with the masses that they return. */
static fast_err receive_resyncs(agent *a)
{
    fast_trainer *t = a->t;
    fast_msg *note = NULL;
    fast_err err = FAST_OK;

    FAST_ASSERT(a->c->how == PUSH);
    while (a->links.differ && !err) {
        err = fast_receive(t->actor, FAST_ANY, FAST_TAG_REPLY, FAST_AT_ONCE, &note);
        if (err)
            break;
        fast__links_renew(&a->links, fast__trainer_rank(t, note->from));
        a->own->mass += fast__replica_mass(note);
        fast_msg_free(note);
    }
    return err && !fast__is_peers(err) ? err : FAST_OK;
}

/* Mix a model that was pushed to this worker. A worker without mass becomes that model. */
static fast_err take_push(void *ctx, fast_msg **move)
{
    agent *a = ctx;
    const fast_msg *msg = *move;
    const double mass = fast__replica_mass(msg);
    const double share =
        a->c->mass ? mass / (a->own->mass + mass) : mixing_weight(a, fast__links_gamma(msg));
    const int64_t age = a->t->step - msg->words[FAST_REPLICA_STEP];
    fast_replica other;
    const fast_err err =
        fast__links_open(&a->links, fast__trainer_rank(a->t, msg->from), msg, &other);

    FAST_ASSERT(a->c->how == PUSH && a->own->mass >= 0);
    if (a->links.differ && err == FAST_EFORMAT)
        return request_resync(a, msg);
    FAST_TRY(err);
    if (a->c->mass) {
        if (!(mass > 0))
            return FAST_OK;
        a->own->mass += mass;
    }
    other.age = age > 0 ? age : 0;
    return fast__replica_mix(a->t, 1 - share, &other, share);
}

/* x = w, held:  w += a (w - held) */
static void run_retain(const void *ctx, int64_t n, float *const *x)
{
    const float a = *(const float *)ctx;

    FAST_ASSERT(x[0] != x[1]);
    for (int64_t i = 0; i < n; i++)
        x[0][i] += a * (x[0][i] - x[1][i]);
}
static const fast_kernel retain = { "retain", 3, 12, 2, 1, false, run_retain };

/* Give a fraction of the mass away. The receiver got `held`, and this worker retains the rest, so
 * that the sum of all a w is conserved. */
static fast_err give_mass(agent *a, int64_t rank, double fraction)
{
    fast_trainer *t = a->t;
    const float more = (float)(fraction / (1 - fraction));
    fast_vector held = fast_trainer_model(t); /* the copy has the same contributions */

    FAST_ASSERT(fraction >= 0 && fraction < 1);
    if (a->c->mass)
        a->own->mass *= 1 - fraction;
    if (!a->c->mass || !a->links.differ)
        return FAST_OK;
    held.x = (float *)(uintptr_t)fast__links_held(&a->links, rank);
    return fast_trainer_apply(t, &retain, &more, (fast_vector[]){ fast_trainer_model(t), held });
}

/* With probability p push the model to a random neighbour. */
static fast_err push(agent *a)
{
    fast_trainer *t = a->t;
    fast_buffer *buffer = NULL;
    fast_msg *msg = NULL;
    double gamma;
    int64_t rank;
    size_t size;
    fast_err err;

    FAST_ASSERT(a->c->how == PUSH);
    if (a->c->p < 1 && fast__random_uniform(t->actor) >= a->c->p)
        return FAST_OK;
    rank = fast__choice_draw(&a->choice);
    if (rank < 0)
        return FAST_OK;
    fast_actor_at(t->actor, t->step, "weights");
    FAST_TRY(fast__links_pack(&a->links, rank, t->w, &buffer, &size, &gamma));
    const double fraction = mixing_weight(a, gamma);
    err = fast__links_msg(&a->links, FAST_TAG_MODEL, a->own->mass * fraction, gamma, buffer, size,
                          &msg);
    fast_buffer_free(buffer);
    FAST_TRY(err);
    err = fast_send(t->actor, t->worker_ids[rank], &msg);
    a->sent[rank] = true;
    if (!err)
        return give_mass(a, rank, fraction);
    fast__links_renew(&a->links, rank);
    return fast__is_peers(err) ? FAST_OK : err;
}

/* Train to the end with pushes. */
static fast_err train_pushing(agent *a)
{
    fast_trainer *t = a->t;

    FAST_ASSERT(a->c->how == PUSH);
    while (fast_trainer_next(t)) {
        FAST_TRY(receive_resyncs(a));
        FAST_TRY(fast__intake_poll(&a->in));
        FAST_TRY(gradient(a));
        FAST_TRY(update(a, false));
        FAST_TRY(push(a));
    }
    FAST_TRY(fast_trainer_end(t));
    return a->c->flush ? fast__intake_drain(&a->in, a->sent) : FAST_OK;
}

/* Allocate the state of a worker. A restarted one has mass 0. */
static fast_err agent_init(fast_trainer *t, const async_config *c, agent *a)
{
    const size_t size = sizeof *a->own + 2 * (size_t)t->workers * sizeof *a->own->flags;

    *a = (agent){ .t = t, .c = c, .asked = -1 };
    FAST_ASSERT(t->topology != NULL);
    FAST_TRY(fast_trainer_persist(t, 0, size, (void **)&a->own));
    if (!fast_trainer_resumed(t)) {
        memset(a->own, 0, size);
        a->own->mass = fast_actor_life(t->actor) > 0 ? 0 : 1 / (double)t->workers;
    }
    FAST_TRY(fast__trainer_check_saved(t, a->own->mass >= 0 && a->own->mass <= 2 &&
                                              a->own->question >= 0));
    for (int64_t i = 0; i < 2 * t->workers; i++) /* of a checkpoint, which may be forged */
        a->own->flags[i] = ((const uint8_t *)a->own->flags)[i] == 1 && i != t->workers + t->rank;
    a->lost = a->own->flags;
    a->sent = c->how == PUSH ? a->own->flags + t->workers : NULL;
    FAST_TRY(fast__intake_init(t, FAST_TAG_MODEL, take_push, a, &a->in));
    /* Every pair has flows of its own, and messages of an earlier call may be lost. */
    FAST_TRY(fast__links_init(t, true, false, c->gamma, &a->links));
    FAST_TRY(fast__choice_init(t, c->edges, &a->choice));
    if (c->how == PUSH)
        return FAST_OK;
    a->deferred_room = is_static(t) ? fast_topology_degree_max(t->topology) : t->workers;
    return fast__alloc("requests", a->deferred_room, sizeof(fast_msg *), &a->deferred);
}

/* Free everything, also after a failed agent_init(). */
static void agent_fini(agent *a)
{
    FAST_ASSERT(a->t != NULL);
    for (int64_t i = 0; i < a->deferred_count; i++)
        fast_msg_free(a->deferred[i]);
    fast__free(a->deferred);
    fast__links_fini(&a->links);
    fast__choice_fini(&a->choice);
    fast__intake_fini(&a->in);
}

/* With overlap the request is sent during the gradient; the other worker replies after its own
 * gradient, and that reply is waited for. */
static void cost(const void *config, const fast_trainer *t, fast_cost *out)
{
    const async_config *c = config;
    const double asks = c->how == PUSH ? 0 : c->p;
    const double early = c->overlap && c->how == AVERAGE ? asks : 0;

    (void)t;
    FAST_ASSERT(asks >= 0 && asks <= 1);
    out->round_trips = (c->overlap ? 1 : 2) * asks;
    out->waits = (c->how == AVERAGE ? 2 : 1) * asks - early;
    out->hidden = early;
}

/* The program of a worker. Requests are served in all its waits until it ends. */
static fast_err worker(fast_trainer *t, const void *config)
{
    const async_config *c = config;
    fast_err err;
    agent a;

    FAST_ASSERT(c != NULL);
    err = agent_init(t, c, &a);
    if (!err && c->how == PUSH) {
        err = train_pushing(&a);
    } else if (!err) {
        err = fast_serve(t->actor, FAST_TAG_ASK, serve, &a, &a.service);
        if (!err)
            err = train_asking(&a);
        fast_service_end(a.service);
    }
    agent_fini(&a);
    return err;
}

const fast_strategy fast__strategy_gossip_async = {
    .name = "gossip_async",
    .summary = "asynchronous gossip: averages, pushes or pulls with random neighbours",
    .options = options,
    .config_size = sizeof(async_config),
    .resumable = true,
    .uses_codec = true,
    .topology = "full",
    .sends = "weights",
    .answers = "nothing",
    .cost = cost,
    .worker = worker,
};
