/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gossip_async: workers that meet by chance, each at its own pace. With probability p a worker
 * takes up contact at a step, with a random neighbour j of the topology that is up:
 *
 *   how=average   w_i, w_j <- (w_i + w_j) / 2, both at once
 *   how=push      a_i <- a_i / 2; sends (w_i, a_i); the receiver r, before its next step:
 *                 w_r <- (a_r w_r + a_i w_i) / (a_r + a_i),  a_r <- a_r + a_i
 *                 masses begin with 1/P; their sum, with those on their way, is always 1
 *   how=pull      asks j for w_j;  w_i <- (w_i + w_j) / 2; j keeps its own
 *
 * `average` with overlap is AD-PSGD (Lian et al. 2018): the exchange goes on while the gradient is
 * computed at the weights of before; without, it is Ram et al. (2010) and the randomised gossip of
 * Boyd et al. (2006): average, then a gradient at the average. `push` is GoSGD (Blot et al. 2016);
 * with mass=no the receiver takes one half, as Jin et al. (2016) do, who also pull.
 *
 * Deadlock. Requests are answered in all waits of a worker; but while it computes a gradient or
 * awaits an answer itself its weights must not change. A request that comes meanwhile is kept until
 * then if it is of a lower rank, and refused if of a higher one and this worker waits too. So whom
 * one waits for has a higher rank, or computes, or answers: there is no circle of waits, on any
 * graph. Who is refused skips the exchange.
 *
 * Peers that crashed or ended are not chosen; an exchange with one that goes down is given up, and
 * its late answer thrown away. Who ends says so, because it may be there without answering while it
 * collects the models of others. A worker that restarts begins with no mass: it becomes what
 * reaches it. At the end `push` takes in what is still on its way (flush).
 *
 * Through a codec that loses something each link has what its receiver holds, h_ij of w_i at j
 * (links.c), and with gamma, the smaller one of both ends:
 *
 *   average   w_i <- w_i + gamma (h_ji - h_ij) / 2, w_j likewise: w_i + w_j stays as it is
 *   push      gives gamma a_i / 2 away with h_ij, and keeps the rest of a_i w_i:
 *             w_i <- w_i + gamma / (2 - gamma) (w_i - h_ij); the sum of all a w stays as it is
 *   pull      w_i <- w_i + gamma (h_ji - w_i) / 2
 *
 * A difference counts even if its request is refused or its answer comes late: the next one is to
 * it. Who restarted holds nothing, and asks for everything; a push that it could not use is given
 * back.
 *
 * Cost per worker and step: p messages of the model (push), 2 p (average), p and p small ones
 * (pull).
 */
#include "base/err.h"
#include "base/memory.h"
#include "strategy/links.h"
#include "tensor/vector.h"

#include <string.h>

typedef struct gossip_config {
    int how;      /* 0 average, 1 push, 2 pull */
    double p;     /* contacts in a step */
    bool overlap; /* average, pull: with the gradient */
    bool mass;    /* push: weighted by masses */
    bool flush;   /* push: take in the last messages */
    double gamma; /* of fast_links */
} gossip_config;

enum { AVERAGE, PUSH, PULL };

enum { OVER = -1 }; /* instead of a question's number: no answer comes any more */

static const fast_option options[] = {
    FAST_OPT_CHOICE(gossip_config, how, "average", "average|push|pull",
                    "both take the mean; or one sends its model; or one asks for a model"),
    FAST_OPT_REAL(gossip_config, p, "1", 0, 1, "probability of a contact at a step"),
    FAST_OPT_BOOL(gossip_config, overlap, "yes",
                  "average, pull: compute the gradient meanwhile, at the weights of before"),
    FAST_OPT_BOOL(gossip_config, mass, "yes",
                  "push: halve a mass and send half of it, by which models are weighted"),
    FAST_OPT_BOOL(gossip_config, flush, "yes",
                  "push: at the end wait for the models that are on their way"),
    FAST_LINKS_GAMMA(gossip_config),
    FAST_OPT_END,
};

/* What a worker keeps. */
typedef struct talker {
    fast_trainer *t;
    const gossip_config *c;
    fast_service *service; /* answers requests in the actor's waits; NULL with push */
    fast_links links;      /* through which models travel */
    fast_neighbours near;  /* whom it may choose */
    fast_intake in;        /* push: models that arrive; else who answers no more */
    fast_msg **kept;       /* [workers]: requests that wait for us */
    int64_t kept_count;    /* of them */
    bool *lost;       /* [workers]: their last difference is to something that we do not hold */
    bool computing;   /* the weights are in use */
    int64_t asked;    /* whom a request is under way to; -1: none */
    int64_t question; /* number of the last request */
    double mass;      /* push: a_i */
} talker;

static void note_anew(fast_msg *msg, bool anew)
{
    msg->words[FAST_REPLICA_ANEW] = anew;
}

/* Both ends take half of the way, or less where the codec lost something. */
static double half(const talker *k, double gamma)
{
    return k->links.differ ? 0.5 * gamma : 0.5;
}

/* What was asked for: our model, after taking the other's in where both take the mean. As
 * differences, both move by what each holds of the other: ours is sent as it was before. */
static fast_err make_answer(talker *k, int64_t rank, const fast_replica *other, double gamma,
                            fast_msg **out)
{
    fast_trainer *t = k->t;
    const bool average = k->c->how == AVERAGE;
    fast_buffer *buffer = NULL;
    fast_err err = FAST_OK;
    double own = 1;
    size_t size;

    if (average && !k->links.differ)
        FAST_TRY(fast__replica_mix(t, 0.5, other, 0.5));
    FAST_TRY(fast__links_pack(&k->links, rank, t->w, &buffer, &size, &own));
    own = average && gamma < own ? gamma : own;
    if (average && k->links.differ)
        err = fast__links_mix(&k->links, rank, 1 - half(k, own), other, half(k, own));
    if (!err)
        err = fast__links_msg(&k->links, FAST_TAG_REPLY, 0, own, buffer, size, out);
    fast_buffer_free(buffer);
    return err;
}

/* Answer a request, which is of a model to average with, or to be given ours. Takes it. Without a
 * part the answer is a refusal; what came is taken in even then, because the next difference is one
 * to it. */
static fast_err answer(talker *k, fast_msg *ask, bool refuse)
{
    fast_trainer *t = k->t;
    const int64_t rank = fast_actor_index(t->actor, ask->from);
    const bool computing = k->computing;
    fast_msg *reply = NULL;
    bool lost = false;
    fast_replica other;
    fast_err err = FAST_OK;

    k->computing = true; /* one request at a time: mixing takes time where that is virtual */
    if (ask->words[FAST_REPLICA_ANEW])
        fast__links_renew(&k->links, rank);
    if (k->c->how == AVERAGE && (!refuse || k->links.differ)) {
        err = fast__links_open(&k->links, rank, ask, &other);
        lost = k->links.differ && err == FAST_EFORMAT;
        if (lost)
            err = FAST_OK;
    }
    if (!err && (refuse || lost))
        err = fast_msg_new(t->actor, FAST_TAG_REPLY, &reply);
    else if (!err)
        err = make_answer(k, rank, &other, fast__links_gamma(ask), &reply);
    if (!err) {
        note_anew(reply, lost);
        reply->words[FAST_REPLICA_STEP] = t->step;
        reply->words[FAST_REPLICA_OWN] = ask->words[FAST_REPLICA_OWN];
        err = fast_send(t->actor, ask->from, &reply);
        if (err)
            fast__links_renew(&k->links, rank);
    }
    k->computing = computing;
    fast_msg_free(reply);
    fast_msg_free(ask);
    return err && !fast__is_peers(err) ? err : FAST_OK;
}

/* A request has arrived. Called in the actor's waits. */
static fast_err serve(void *ctx, fast_msg **move)
{
    talker *k = ctx;
    fast_msg *ask = *move;

    *move = NULL;
    if (k->c->how == PULL || (!k->computing && k->asked < 0))
        return answer(k, ask, false);
    if (k->asked >= 0 && ask->from > fast_actor_id(k->t->actor))
        return answer(k, ask, true);
    if (k->kept_count == k->t->workers) /* more requests than peers: of one that restarted */
        return answer(k, ask, true);
    k->kept[k->kept_count++] = ask;
    return FAST_OK;
}

/* The weights are free again: answer whom we kept, and whoever came while nobody looked. */
static fast_err release(talker *k, bool refuse)
{
    while (k->kept_count > 0)
        FAST_TRY(answer(k, k->kept[--k->kept_count], refuse));
    return fast_service_poll(k->service);
}

/* A request: our model, or only the wish for one. */
static fast_err make_request(talker *k, int64_t rank, fast_msg **out)
{
    fast_trainer *t = k->t;
    fast_buffer *buffer = NULL;
    double gamma;
    size_t size;
    fast_err err;

    if (k->c->how != AVERAGE)
        return fast_msg_new(t->actor, FAST_TAG_ASK, out);
    FAST_TRY(fast__links_pack(&k->links, rank, t->w, &buffer, &size, &gamma));
    err = fast__links_msg(&k->links, FAST_TAG_ASK, 0, gamma, buffer, size, out);
    fast_buffer_free(buffer);
    return err;
}

/* Take up contact with a neighbour, if chance will. */
static fast_err ask(talker *k)
{
    fast_trainer *t = k->t;
    fast_msg *msg = NULL;
    int64_t rank;
    fast_err err;

    if (k->c->p < 1 && fast__chance(t->actor) >= k->c->p)
        return FAST_OK;
    rank = fast__neighbour_pick(t, &k->near);
    if (rank < 0 || k->in.last[rank])
        return FAST_OK;
    k->asked = rank; /* from now on: encoding takes time, and what goes to a worker goes in order */
    err = make_request(k, rank, &msg);
    if (err)
        k->asked = -1;
    FAST_TRY(err);
    note_anew(msg, k->lost[rank]);
    k->lost[rank] = false;
    msg->words[FAST_REPLICA_OWN] = ++k->question;
    err = fast_send(t->actor, t->worker_ids[rank], &msg);
    if (err) {
        k->asked = -1;
        fast__links_renew(&k->links, rank);
    }
    return err && !fast__is_peers(err) ? err : FAST_OK;
}

/* Mix the answer in. Of an average the other has made it: both end with the same bits. Of
 * differences a late one is taken in, too, without mixing. */
static fast_err take_answer(talker *k, const fast_msg *msg, bool late, bool *mixed_out)
{
    fast_trainer *t = k->t;
    const int64_t rank = k->asked;
    const bool average = k->c->how == AVERAGE;
    fast_replica other;

    if (msg->words[FAST_REPLICA_ANEW])
        fast__links_renew(&k->links, rank);
    if (msg->part_count == 0 || (late && !k->links.differ))
        return FAST_OK;
    const fast_err err = fast__links_open(&k->links, rank, msg, &other);
    k->lost[rank] = k->links.differ && err == FAST_EFORMAT;
    if (k->lost[rank] || late)
        return FAST_OK;
    FAST_TRY(err);
    *mixed_out = true;
    const double take = half(k, fast__links_gamma(msg));
    if (average && k->links.differ)
        return fast__links_mix(&k->links, rank, 1 - take, &other, take);
    return fast__replica_mix(t, average ? 0 : 1 - take, &other, average ? 1 : take);
}

/* Wait for the answer to the last request; *mixed_out tells whether it changed the weights. */
static fast_err await(talker *k, bool *mixed_out)
{
    fast_trainer *t = k->t;
    fast_err err = FAST_OK;
    bool found = false;

    *mixed_out = false;
    fast_actor_at(t->actor, t->step, "weights");
    while (k->asked >= 0 && !found && !err) {
        fast_msg *msg = NULL;

        err = fast_receive(t->actor, t->worker_ids[k->asked], FAST_TAG_REPLY, FAST_SOON, &msg);
        if (err)
            break;
        k->in.last[k->asked] = msg->words[FAST_REPLICA_OWN] == OVER;
        found = k->in.last[k->asked] || msg->words[FAST_REPLICA_OWN] == k->question;
        if (!k->in.last[k->asked])
            err = take_answer(k, msg, !found, mixed_out);
        fast_msg_free(msg);
    }
    k->asked = -1;
    if (err && !fast__is_peers(err))
        return err;
    return release(k, false);
}

/* The end of those who answer: refuse whom we kept, and tell everyone else that no answer comes any
 * more. This worker may live on without its program, on mpi while it collects others' models. */
static fast_err part(talker *k)
{
    fast_trainer *t = k->t;

    FAST_TRY(release(k, true));
    for (int64_t rank = 0; rank < t->workers; rank++) {
        fast_msg *msg = NULL;
        fast_err err;

        if (rank == t->rank || fast_member_is_down(t->actor, t->worker_ids[rank]))
            continue;
        FAST_TRY(fast_msg_new(t->actor, FAST_TAG_REPLY, &msg));
        msg->words[FAST_REPLICA_OWN] = OVER;
        err = fast_send(t->actor, t->worker_ids[rank], &msg);
        fast_msg_free(msg);
        if (err && !fast__is_peers(err))
            return err;
    }
    return FAST_OK;
}

static fast_err gradient(talker *k)
{
    fast_err err;

    k->computing = true;
    err = fast_trainer_gradient(k->t, NULL, NULL);
    k->computing = false;
    return err;
}

/* One's own step, which a gradient from before `late` mixings makes. */
static fast_err adapt(talker *k, bool late)
{
    fast_trainer *t = k->t;

    t->staleness = late ? 1 : 0;
    return fast_trainer_update(t, t->g, 1);
}

/* Requests and answers: average, pull. */
static fast_err train_asking(talker *k)
{
    fast_trainer *t = k->t;

    while (fast_trainer_next(t)) {
        bool mixed = false;

        FAST_TRY(release(k, false));
        FAST_TRY(ask(k));
        if (!k->c->overlap)
            FAST_TRY(await(k, &mixed));
        FAST_TRY(gradient(k));
        if (k->c->overlap)
            FAST_TRY(await(k, &mixed));
        FAST_TRY(adapt(k, mixed && k->c->overlap));
    }
    FAST_TRY(fast_trainer_end(t));
    return part(k);
}

/* What a worker pushed to us is no difference to what we hold: ask for everything, and give its
 * mass back. */
static fast_err ask_anew(talker *k, const fast_msg *msg)
{
    fast_trainer *t = k->t;
    fast_msg *note = NULL;
    fast_err err;

    FAST_TRY(fast_msg_new(t->actor, FAST_TAG_REPLY, &note));
    note->words[FAST_REPLICA_MASS] = msg->words[FAST_REPLICA_MASS];
    note_anew(note, true);
    err = fast_send(t->actor, msg->from, &note);
    return err && !fast__is_peers(err) ? err : FAST_OK;
}

/* Notes of those who ask for everything. */
static fast_err take_notes(talker *k)
{
    fast_trainer *t = k->t;
    fast_msg *note = NULL;
    fast_err err = FAST_OK;

    while (k->links.differ && !err) {
        err = fast_receive(t->actor, FAST_ANY, FAST_TAG_REPLY, FAST_AT_ONCE, &note);
        if (err)
            break;
        fast__links_renew(&k->links, fast_actor_index(t->actor, note->from));
        k->mass += fast__replica_mass(note);
        fast_msg_free(note);
    }
    return err && !fast__is_peers(err) ? err : FAST_OK;
}

/* A model was pushed to us. A worker without mass becomes it. */
static fast_err take_push(void *ctx, fast_msg **move)
{
    talker *k = ctx;
    const fast_msg *msg = *move;
    const double mass = fast__replica_mass(msg);
    const double share = k->c->mass ? mass / (k->mass + mass) : half(k, fast__links_gamma(msg));
    const int64_t age = k->t->step - msg->words[FAST_REPLICA_STEP];
    fast_replica other;
    const fast_err err =
        fast__links_open(&k->links, fast_actor_index(k->t->actor, msg->from), msg, &other);

    if (k->links.differ && err == FAST_EFORMAT)
        return ask_anew(k, msg);
    FAST_TRY(err);
    if (k->c->mass) {
        if (!(mass > 0))
            return FAST_OK;
        k->mass += mass;
    }
    other.age = age > 0 ? age : 0;
    return fast__replica_mix(k->t, 1 - share, &other, share);
}

/* w += a (w - held) */
static void run_retain(const void *ctx, int64_t n, float *const *x)
{
    const float a = *(const float *)ctx;

    for (int64_t i = 0; i < n; i++)
        x[0][i] += a * (x[0][i] - x[1][i]);
}
static const fast_kernel retain = { "retain", 3, 12, 2, 1, false, run_retain };

/* A part of our mass was given away. What went with it is what the receiver holds of w: the rest
 * stays here, so that the sum of all a w stays as it is. */
static fast_err give(talker *k, int64_t rank, double part)
{
    fast_trainer *t = k->t;
    const float more = (float)(part / (1 - part));
    fast_vector held = fast_trainer_model(t); /* the receiver's copy holds the same updates */

    if (k->c->mass)
        k->mass *= 1 - part;
    if (!k->c->mass || !k->links.differ)
        return FAST_OK;
    held.x = (float *)(uintptr_t)fast__links_held(&k->links, rank);
    return fast_trainer_apply(t, &retain, &more, (fast_vector[]){ fast_trainer_model(t), held });
}

/* Push our model to a neighbour, if chance will. */
static fast_err push(talker *k)
{
    fast_trainer *t = k->t;
    fast_buffer *buffer = NULL;
    fast_msg *msg = NULL;
    double gamma;
    int64_t rank;
    size_t size;
    fast_err err;

    if (k->c->p < 1 && fast__chance(t->actor) >= k->c->p)
        return FAST_OK;
    rank = fast__neighbour_pick(t, &k->near);
    if (rank < 0)
        return FAST_OK;
    fast_actor_at(t->actor, t->step, "weights");
    FAST_TRY(fast__links_pack(&k->links, rank, t->w, &buffer, &size, &gamma));
    const double part = half(k, gamma);
    err = fast__links_msg(&k->links, FAST_TAG_MODEL, k->mass * part, gamma, buffer, size, &msg);
    fast_buffer_free(buffer);
    FAST_TRY(err);
    err = fast_send(t->actor, t->worker_ids[rank], &msg);
    if (!err)
        return give(k, rank, part);
    fast__links_renew(&k->links, rank);
    return fast__is_peers(err) ? FAST_OK : err;
}

static fast_err train_pushing(talker *k)
{
    fast_trainer *t = k->t;

    while (fast_trainer_next(t)) {
        FAST_TRY(take_notes(k));
        FAST_TRY(fast__intake_poll(&k->in));
        FAST_TRY(gradient(k));
        FAST_TRY(adapt(k, false));
        FAST_TRY(push(k));
    }
    FAST_TRY(fast_trainer_end(t));
    return k->c->flush ? fast__intake_flush(&k->in) : FAST_OK;
}

static fast_err talker_init(fast_trainer *t, const gossip_config *c, talker *k)
{
    *k = (talker){ .t = t,
                   .c = c,
                   .asked = -1,
                   .mass = fast_actor_life(t->actor) > 0 ? 0 : 1 / (double)t->workers };
    FAST_TRY(fast__neighbours_init(t, &k->near));
    FAST_TRY(fast__intake_init(t, FAST_TAG_MODEL, take_push, k, &k->in));
    FAST_TRY(fast__links_init(t, true, false, c->gamma, &k->links));
    FAST_TRY(fast__alloc("what is missing", t->workers, sizeof *k->lost, &k->lost));
    return fast__alloc("requests", t->workers, sizeof(fast_msg *), &k->kept);
}

static void talker_fini(talker *k)
{
    for (int64_t i = 0; i < k->kept_count; i++)
        fast_msg_free(k->kept[i]);
    fast__free(k->kept);
    fast__free(k->lost);
    fast__links_fini(&k->links);
    fast__intake_fini(&k->in);
    fast__neighbours_fini(&k->near);
}

/* For the forecast. With overlap a request hides behind the gradient; the other one answers after
 * its own, and its model, which comes back then, does not. */
static void cost(const void *config, const fast_trainer *t, fast_cost *out)
{
    const gossip_config *c = config;
    const double asks = c->how == PUSH ? 0 : c->p;
    const double early = c->overlap && c->how == AVERAGE ? asks : 0;

    (void)t;
    out->round_trips = (c->overlap ? 1 : 2) * asks;
    out->waits = (c->how == AVERAGE ? 2 : 1) * asks - early;
    out->hidden = early;
}

static fast_err worker(fast_trainer *t, const void *config)
{
    const gossip_config *c = config;
    fast_err err;
    talker k;

    err = talker_init(t, c, &k);
    if (!err && c->how == PUSH) {
        err = train_pushing(&k);
    } else if (!err) {
        err = fast_serve(t->actor, FAST_TAG_ASK, serve, &k, &k.service);
        if (!err)
            err = train_asking(&k);
        fast_service_end(k.service);
    }
    talker_fini(&k);
    return err;
}

const fast_strategy fast__strategy_gossip_async = {
    .name = "gossip_async",
    .summary = "asynchronous gossip: averages, pushes or pulls with random neighbours",
    .options = options,
    .config_size = sizeof(gossip_config),
    .uses_codec = true,
    .topology = "full",
    .sends = "weights",
    .answers = "nothing",
    .cost = cost,
    .worker = worker,
};
