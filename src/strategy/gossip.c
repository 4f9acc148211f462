/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gossip: synchronous mixing with neighbours. W is the mixing matrix of the topology, w_ij the
 * weight that worker i gives to the model of worker j; it may change from exchange to exchange.
 *
 *   first=combine   w_i <- rule(sum_j w_ij w_j, g_i(w_i))          weights are sent while g_i is
 *                                                                  computed
 *   first=adapt     w_i <- sum_j w_ij rule(w_j, g_j(w_j))
 *   sends=gradients w_i <- rule(w_i, sum_j w_ij g_j)               replicas drift apart
 *   push=yes        a_i <- sum_j w_ij a_j;  z_i <- sum_j w_ij a_j rule(z_j, g_j / a_j) / a_i
 *
 * Members of the family: D-PSGD (Lian et al. 2017) is `combine` on a ring; GossipGraD (Daily et al.
 * 2018) is `adapt` on `exponential:one=yes,renumber=N`, one partner a step, in rotation; neighbour
 * exchange (Jiang et al. 2017) is either of them on a fixed graph; stochastic gradient push (SGP,
 * Assran et al. 2019) is `push` on `exponential:one=yes`. On a directed graph W is column
 * stochastic only, so a mass a_i is mixed too, and weights are divided by it. This strategy sends
 * and updates z = x / a of the paper; a step of size lr on x is one of lr / a on z.
 *
 * `drop` is the fraction of links that are dropped at an exchange, drawn equally at both ends. The
 * receiver adds the mixing weight of a dropped link to its own, so that W stays doubly stochastic
 * on undirected graphs; with push the sender does, and W stays column stochastic. `rounds` mixes
 * several times at each exchange. `correct` adds rounds on a ring whose links are never dropped,
 * after Corrected Gossip (Hoefler et al. 2017): every worker surely mixes with its `correct` next
 * ranks on both sides.
 *
 * With a lossy codec weights are mixed by differences (links.c): the mean is conserved on
 * undirected graphs, and with push the sum of all a z, because the sender retains the loss of a
 * message; directed graphs need push. If links are dropped or the graph changes, each link has its
 * own differences, which a message that is not sent does not touch. Gradients are decoded and
 * added; a worker's own gradient counts as it was sent, so that replicas that mix the same
 * gradients stay equal.
 *
 * If W is doubly stochastic, the mean of all replicas moves by the mean update, and without
 * updates the distance to it shrinks by 1 - gap (fast_topology_gap()) in a period.
 *
 * Cost per worker and exchange: one copy of the model, `degree` messages of it in each round; with
 * codecs one encoding, or `degree` where links differ, and as many decodings as messages.
 */
#include "base/err.h"
#include "base/memory.h"
#include "base/rng.h"
#include "strategy/links.h"
#include "strategy/vector_kernels.h"
#include "tensor/vector.h"

#include <math.h>
#include <string.h>

/* Longest period of a topology, in rounds, whose links are reserved before the first step. */
enum { WALK_MAX = 4096 };

typedef struct gossip_config {
    int64_t period;  /* steps between exchanges */
    int first;       /* 0 combine, 1 adapt */
    int sends;       /* 0 weights, 1 gradients */
    bool push;       /* push-sum: masses are mixed too */
    int64_t rounds;  /* mixing rounds on the topology at an exchange */
    int64_t correct; /* mixing rounds on a ring after them */
    double drop;     /* fraction of links that are dropped */
    int state;       /* fast_rule_state: the rule's state at an exchange */
    double gamma;    /* consensus step size of fast_links */
} gossip_config;

static const fast_option options[] = {
    FAST_OPT_INT(gossip_config, period, "1", 1, 1e12, "steps between exchanges"),
    FAST_OPT_CHOICE(
        gossip_config, first, "combine", "combine|adapt",
        "combine: mix, then update by the gradient at the old weights; adapt: update, then mix"),
    FAST_OPT_CHOICE(gossip_config, sends, "weights", "weights|gradients",
                    "send weights or gradients to neighbours"),
    FAST_OPT_BOOL(gossip_config, push, "no",
                  "push-sum: mix masses too, which conserves the mean on directed graphs (SGP)"),
    FAST_OPT_INT(gossip_config, rounds, "1", 1, 1000,
                 "mixing rounds on the topology at an exchange"),
    FAST_OPT_INT(gossip_config, correct, "0", 0, 1000,
                 "further mixing rounds on a ring, never dropped (corrected gossip)"),
    FAST_OPT_REAL(gossip_config, drop, "0", 0, 1,
                  "fraction of links that are dropped at random in a round"),
    FAST_OPT_CHOICE(gossip_config, state, "local", FAST_RULE_STATES, FAST_RULE_STATES_HELP),
    FAST_LINKS_GAMMA(gossip_config),
    FAST_OPT_END,
};

/* Pairs of options that make no sense together. */
static const fast_exclusion exclusions[] = {
    { "sends=gradients", "push|period", NULL,
      "gradients are exchanged at each step, and without masses" },
    { "sends=gradients", "state", NULL, "the optimizer's state is mixed with weights only" },
    { "sends=gradients", "rounds|correct", NULL, "gradients are mixed once" },
    { NULL, NULL, NULL, NULL },
};

/* Persistent numbers of a worker. */
typedef struct gossip_numbers {
    double mass;   /* push-sum mass a; 0 before the first step */
    int64_t round; /* rounds so far */
} gossip_numbers;

/* A worker's state besides its replica. */
typedef struct mixer {
    fast_trainer *t;         /* the worker */
    const gossip_config *c;  /* its options */
    fast_neighbours to;      /* receivers of this round */
    fast_neighbours from;    /* senders of this round */
    fast_links links;        /* of weights */
    fast_flow *flow;         /* of gradients; NULL without a codec */
    fast_buffer *own;        /* gradients: the packed own one of this round; or NULL */
    size_t own_size;         /* bytes of own that are used */
    double *gammas;          /* [room]: step size gamma of the message to each of `to` */
    fast_msg **msgs;         /* [room]: messages of this round, by `from` */
    int64_t room;            /* neighbours of a round, at most */
    gossip_numbers *numbers; /* persistent */
    uint64_t seed;           /* of the dropped links; equal at all workers */
    double *shares;          /* scratch: contributions of a gradient that arrived; NULL where
                                weights are sent */
} mixer;

/* Free everything, also after a failed mixer_init(). */
static void mixer_fini(mixer *m)
{
    FAST_ASSERT(m->t != NULL);
    for (int64_t i = 0; m->msgs && i < m->room; i++)
        fast_msg_free(m->msgs[i]);
    fast__neighbours_fini(&m->to);
    fast__neighbours_fini(&m->from);
    fast__links_fini(&m->links);
    fast_buffer_free(m->own);
    fast__free(m->gammas);
    fast__free(m->msgs);
    fast__free(m->shares);
}

/* Open the links of weights, or the flow of gradients. One encoding serves all neighbours if every
 * round has the same ones. FAST_EINVAL for a lossy codec on a directed graph without push. */
static fast_err open_links(mixer *m)
{
    fast_trainer *t = m->t;
    const gossip_config *c = m->c;
    /* Not all neighbours get each message, so each needs a copy of its own. */
    const bool per_receiver =
        fast_topology_period(t->topology) != 1 || c->drop > 0 || c->correct > 0;
    const fast_flow_options gradients = { 0 };

    FAST_ASSERT(t->topology != NULL);
    FAST_TRY(fast__links_init(t, per_receiver && c->sends == 0, true, c->gamma, &m->links));
    if (c->sends == 1)
        return m->links.coded ? fast_trainer_flow(t, &gradients, &m->flow) : FAST_OK;
    if (m->links.differ && !c->push && fast_topology_is_directed(t->topology))
        return fast__fail(FAST_EINVAL,
                          "gossip: a lossy codec conserves the mean on a directed graph "
                          "only with masses; give push=yes or an undirected topology");
    return FAST_OK;
}

/* True if a link is dropped in this round. Both ends draw the same number; an undirected link has
 * one for both directions. */
static bool is_dropped(const mixer *m, int64_t from, int64_t to)
{
    const bool swap = from > to && !fast_topology_is_directed(m->t->topology);
    fast_rng rng;

    FAST_ASSERT(from != to);
    fast__rng_init(&rng, m->seed, FAST_PURPOSE_EXCHANGE, (uint64_t)(swap ? to : from),
                   (uint64_t)m->numbers->round & UINT32_MAX, (uint64_t)(swap ? from : to));
    return (double)fast__rng_uniform(&rng) < m->c->drop;
}

/* Remove dropped links from a list; the worker's own mixing weight grows by theirs. */
static void drop_links(const mixer *m, fast_neighbours *n, bool in)
{
    const int64_t me = m->t->rank;
    int64_t count = 0;

    FAST_ASSERT(n->count <= m->room);
    for (int64_t i = 0; i < n->count; i++) {
        if (is_dropped(m, in ? n->ranks[i] : me, in ? me : n->ranks[i])) {
            n->self += n->weights[i];
            continue;
        }
        n->ranks[count] = n->ranks[i];
        n->weights[count++] = n->weights[i];
    }
    n->count = count;
}

/* Find the two neighbours on a ring, with equal mixing weights. */
static void ring_links(const fast_trainer *t, fast_neighbours *n)
{
    FAST_ASSERT(t->workers >= 1);
    n->count = t->workers > 2 ? 2 : t->workers - 1;
    n->ranks[0] = (t->rank + 1) % t->workers;
    if (n->count > 1)
        n->ranks[1] = (t->rank + t->workers - 1) % t->workers;
    n->self = 1 / (double)(n->count + 1);
    for (int64_t i = 0; i < n->count; i++)
        n->weights[i] = n->self;
}

/* Find the receivers and senders of the next round. With push a dropped link raises the sender's
 * own weight, so self is that of the receivers' list. */
static void find_links(mixer *m, bool ring)
{
    fast_trainer *t = m->t;

    if (ring) {
        ring_links(t, &m->to);
        ring_links(t, &m->from);
    } else {
        m->to.count = fast_topology_out(t->topology, m->numbers->round, t->rank, m->to.ranks,
                                        m->to.weights, &m->to.self);
        m->from.count = fast_topology_in(t->topology, m->numbers->round, t->rank, m->from.ranks,
                                         m->from.weights, &m->from.self);
        if (m->c->drop > 0) {
            drop_links(m, &m->to, false);
            drop_links(m, &m->from, true);
        }
        if (m->c->push)
            m->from.self = m->to.self;
    }
    m->numbers->round++;
    FAST_ASSERT(m->to.count <= m->room && m->from.count <= m->room);
}

/* Allocate the flows of all links of the graph's period before the first step, in the order of
 * their use. With random drops or a long period they are allocated at their first use instead. */
static fast_err reserve_links(mixer *m)
{
    const gossip_config *c = m->c;
    const int64_t each = c->rounds + c->correct, start = m->numbers->round;
    const int64_t period = fast_topology_period(m->t->topology);
    fast_err err = FAST_OK;

    FAST_ASSERT(each >= 1 && start >= 0);
    if (!m->links.coded || c->sends == 1 || c->drop > 0 || period > WALK_MAX / each)
        return FAST_OK;
    m->numbers->round = 0;
    while (!err && m->numbers->round < period * each) {
        find_links(m, m->numbers->round % each >= c->rounds);
        for (int64_t i = 0; i < m->to.count && !err; i++)
            err = fast__links_reserve(&m->links, m->to.ranks[i], false);
        for (int64_t i = 0; i < m->from.count && !err; i++)
            err = fast__links_reserve(&m->links, m->from.ranks[i], true);
    }
    m->numbers->round = start;
    return err;
}

/* Find the persistent numbers, allocate the rest, and agree on the seed of drops. FAST_EFORMAT. */
static fast_err mixer_init(fast_trainer *t, const gossip_config *c, mixer *m)
{
    void *numbers = NULL;

    FAST_ASSERT(t->topology != NULL);
    *m = (mixer){ .t = t, .c = c };
    FAST_TRY(fast_trainer_persist(t, 0, sizeof *m->numbers, &numbers));
    m->numbers = numbers;
    if (m->numbers->round < 0 || m->numbers->round > INT64_MAX / 2) /* no round of a graph */
        return fast__fail(FAST_EFORMAT, "gossip: worker %lld cannot resume from round %lld",
                          (long long)t->rank, (long long)m->numbers->round);
    if (m->numbers->mass == 0)
        m->numbers->mass = 1;
    m->room = fast_topology_degree_max(t->topology);
    if (m->room < 2) /* neighbours on the ring of `correct` */
        m->room = 2;
    FAST_TRY(fast__neighbours_init(t, &m->to));
    FAST_TRY(fast__neighbours_init(t, &m->from));
    FAST_TRY(fast__alloc("messages of a round", m->room, sizeof(fast_msg *), &m->msgs));
    FAST_TRY(fast__alloc("shares of a round", m->room, sizeof *m->gammas, &m->gammas));
    if (c->sends == 1)
        FAST_TRY(fast__alloc("contributions", fast_trainer_share_count(t), sizeof *m->shares,
                             &m->shares));
    FAST_TRY(open_links(m));
    /* Drawn at all workers, so that their streams stay in step; worker 0's is broadcast where links
     * are dropped. */
    m->seed = fast_random(t->actor);
    FAST_TRY(reserve_links(m));
    return c->drop > 0 ? fast_broadcast(t->group, 0, &m->seed, sizeof m->seed, FAST_SOON) : FAST_OK;
}

/* Pack x for a receiver, through the flow of gradients or the link; *gamma_out is its step size. */
static fast_err pack(mixer *m, int64_t rank, const float *x, fast_buffer **out, size_t *size_out,
                     double *gamma_out)
{
    FAST_ASSERT(*out == NULL);
    if (m->c->sends == 1)
        return fast__replica_pack(m->t, m->flow, x, out, size_out);
    return fast__links_pack(&m->links, rank, x, out, size_out, gamma_out);
}

/* Start a round: send x to its receivers, one copy for all unless each has a flow of its own. */
static fast_err send_round(mixer *m, const float *x, bool ring)
{
    fast_trainer *t = m->t;
    fast_buffer *buffer = NULL;
    fast_err err = FAST_OK;
    double gamma = 1;
    size_t size = 0;

    find_links(m, ring);
    FAST_ASSERT(m->to.count <= m->room && m->own == NULL);
    for (int64_t i = 0; i < m->to.count && !err; i++) {
        const int64_t rank = m->to.ranks[i];
        fast_msg *msg = NULL;

        if (!buffer)
            err = pack(m, rank, x, &buffer, &size, &gamma);
        m->gammas[i] = gamma;
        if (!err)
            err = fast__links_msg(&m->links, FAST_TAG_MODEL, m->numbers->mass * gamma, gamma,
                                  buffer, size, &msg);
        if (!err)
            err = fast_send(t->actor, t->worker_ids[rank], &msg);
        if (m->links.per_receiver) {
            fast_buffer_free(buffer);
            buffer = NULL;
        }
    }
    /* A gradient's encoding is needed again: the own one counts as it was sent. */
    if (m->c->sends == 1) {
        m->own = buffer;
        m->own_size = size;
    } else {
        fast_buffer_free(buffer);
    }
    return err;
}

/* Receive the round's messages. */
static fast_err receive_round(mixer *m)
{
    fast_trainer *t = m->t;

    FAST_ASSERT(m->from.count <= m->room);
    fast_actor_at(t->actor, t->step, m->c->sends == 1 ? "gradient" : "weights");
    for (int64_t i = 0; i < m->from.count; i++)
        FAST_TRY(fast_receive(t->actor, t->worker_ids[m->from.ranks[i]], FAST_TAG_MODEL, FAST_SOON,
                              &m->msgs[i]));
    return FAST_OK;
}

/* Free the messages of the round. */
static void free_round(mixer *m)
{
    FAST_ASSERT(m->from.count <= m->room);
    for (int64_t i = 0; i < m->from.count; i++) {
        fast_msg_free(m->msgs[i]);
        m->msgs[i] = NULL;
    }
}

/* w <- the mix of whole models. Without push all masses are 1. */
static fast_err combine_models(mixer *m)
{
    fast_trainer *t = m->t;
    double mass = m->from.self * m->numbers->mass;
    double own_weight = m->from.self;

    FAST_ASSERT(!m->links.differ);
    if (m->c->push) {
        for (int64_t i = 0; i < m->from.count; i++)
            mass += m->from.weights[i] * fast__replica_mass(m->msgs[i]);
        own_weight = m->from.self * m->numbers->mass / mass;
        m->numbers->mass = mass;
    }
    for (int64_t i = 0; i < m->from.count; i++) {
        const double weight = m->c->push
                                  ? m->from.weights[i] * fast__replica_mass(m->msgs[i]) / mass
                                  : m->from.weights[i];
        fast_replica model;

        FAST_TRY(fast__links_open(&m->links, m->from.ranks[i], m->msgs[i], &model));
        FAST_TRY(fast__replica_mix(t, own_weight, &model, weight));
        own_weight = 1;
    }
    return FAST_OK;
}

/* Return the mixing weight of sender i: w_ij times the smaller gamma of both ends. On undirected
 * graphs senders and receivers are the same workers. */
static double link_weight(const mixer *m, int64_t i)
{
    int64_t k = 0;

    while (k < m->to.count && m->to.ranks[k] != m->from.ranks[i])
        k++;
    FAST_ASSERT(k < m->to.count);
    return m->from.weights[i] * fmin(m->gammas[k], fast__links_gamma(m->msgs[i]));
}

/* w <- w + sum_j gamma_ij w_ij (h_j - h_i) */
static fast_err combine_differences(mixer *m)
{
    double own_weight = 1;

    FAST_ASSERT(m->links.differ && !m->c->push);
    for (int64_t i = 0; i < m->from.count; i++)
        own_weight -= link_weight(m, i);
    for (int64_t i = 0; i < m->from.count; i++) {
        const int64_t rank = m->from.ranks[i];
        fast_replica model;

        FAST_TRY(fast__links_open(&m->links, rank, m->msgs[i], &model));
        FAST_TRY(fast__links_mix(&m->links, rank, own_weight, &model, link_weight(m, i)));
        own_weight = 1;
    }
    return FAST_OK;
}

static const fast_kernel add_scaled = { "add", 2, 12, 2, 1, false, fast__run_axpy };
static const fast_kernel scale_mass = { "scale", 2, 12, 1, 1, false, fast__run_scale };

/* Push-sum through a lossy codec. Receivers got h, and the sender retains the rest of its mass
 * times z, so that the sum of all a z is conserved:
 *
 *     a' = a (1 - sum_j gamma_j w_ji) + sum_j w_ij gamma a_j
 *     z' = (a z - sum_j gamma_j w_ji a h_j + sum_j w_ij gamma a_j h_j) / a'
 */
static fast_err combine_pushed(mixer *m)
{
    fast_trainer *t = m->t;
    const fast_vector w = fast_trainer_model(t);
    double retained = 1, mass, own_weight;

    FAST_ASSERT(m->links.differ && m->c->push);
    for (int64_t i = 0; i < m->to.count; i++)
        retained -= m->gammas[i] * m->to.weights[i];
    mass = retained * m->numbers->mass;
    for (int64_t i = 0; i < m->from.count; i++)
        mass += m->from.weights[i] * fast__replica_mass(m->msgs[i]);
    FAST_TRY(fast_trainer_apply(t, &scale_mass, &(float){ (float)(m->numbers->mass / mass) }, &w));
    for (int64_t i = 0; i < m->to.count; i++) {
        const float removed = (float)(-m->gammas[i] * m->to.weights[i] * m->numbers->mass / mass);
        const fast_vector held = { .x = (float *)(uintptr_t)fast__links_held(&m->links,
                                                                             m->to.ranks[i]),
                                   .shares = m->links.shares,
                                   .age = -1 };

        FAST_TRY(fast_trainer_apply(t, &add_scaled, &removed, (fast_vector[]){ w, held }));
    }
    own_weight = retained * m->numbers->mass / mass;
    m->numbers->mass = mass;
    for (int64_t i = 0; i < m->from.count; i++) {
        const double weight = m->from.weights[i] * fast__replica_mass(m->msgs[i]) / mass;
        fast_replica model;

        FAST_TRY(fast__links_open(&m->links, m->from.ranks[i], m->msgs[i], &model));
        FAST_TRY(fast__replica_mix_rest(t, own_weight, &model, weight));
        FAST_TRY(fast_trainer_apply(t, &add_scaled, &(float){ (float)weight },
                                    (fast_vector[]){ w, fast__replica_vector(&model) }));
        own_weight = 1;
    }
    return FAST_OK;
}

/* End a round: receive its messages and mix. */
static fast_err combine(mixer *m)
{
    FAST_ASSERT(m->c->sends == 0);
    FAST_TRY(receive_round(m));
    FAST_TRY(!m->links.differ ? combine_models(m)
             : m->c->push     ? combine_pushed(m)
                              : combine_differences(m));
    free_round(m);
    if (m->c->state == FAST_RULE_RESET)
        fast_trainer_reset_rule(m->t);
    return FAST_OK;
}

/* Mix in the rounds from `done` on: on the topology, then on the ring. */
static fast_err mix(mixer *m, int64_t done)
{
    FAST_ASSERT(done >= 0 && done <= 1);
    for (int64_t i = done; i < m->c->rounds + m->c->correct; i++) {
        FAST_TRY(send_round(m, m->t->w, i >= m->c->rounds));
        FAST_TRY(combine(m));
    }
    return FAST_OK;
}

/* g <- g + weight x. x is NULL where a decoder has added the values already. */
static void run_add_gradient(const void *ctx, int64_t n, float *const *x)
{
    FAST_ASSERT(x[0] != NULL);
    if (x[1])
        fast__run_axpy(ctx, n, x);
}
static const fast_kernel mix_gradient = { "mix", 3, 12, 2, 1, false, run_add_gradient };

/* Add a gradient that arrived from `rank`, with its contributions. */
static fast_err add_gradient(mixer *m, int64_t rank, const fast_replica *model, double weight)
{
    fast_trainer *t = m->t;
    fast_vector other = fast__replica_vector(model);

    FAST_ASSERT(rank != t->rank);
    other.shares = m->shares;
    fast_trainer_shares_of(t, rank, m->shares);
    if (m->flow)
        FAST_TRY(
            fast_trainer_decode(t, m->flow, model->coded, model->coded_size, (float)weight, t->g));
    return fast_trainer_apply(t, &mix_gradient, &(float){ (float)weight },
                              (fast_vector[]){ fast_trainer_grad(t), other });
}

/* g <- sum_j w_ij g_j, for the update. */
static fast_err combine_gradients(mixer *m)
{
    fast_trainer *t = m->t;

    FAST_ASSERT(m->c->sends == 1);
    FAST_TRY(send_round(m, t->g, false));
    FAST_TRY(receive_round(m));
    FAST_TRY(fast__replica_as_sent(t, m->flow, m->own, m->own_size, (float)m->from.self,
                                   fast_trainer_grad(t)));
    fast_buffer_free(m->own);
    m->own = NULL;
    for (int64_t i = 0; i < m->from.count; i++) {
        const double weight = m->from.weights[i];
        fast_replica model;

        FAST_TRY(fast__replica_open(t, m->flow != NULL, m->msgs[i], &model));
        FAST_TRY(add_gradient(m, m->from.ranks[i], &model, weight));
        fast__vector_axpby(t->state_count, (float)weight, model.s, i == 0 ? (float)m->from.self : 1,
                           t->s);
    }
    free_round(m);
    return FAST_OK;
}

/* Update by g; with push by g / a. */
static fast_err update(mixer *m)
{
    fast_trainer *t = m->t;

    FAST_ASSERT(m->numbers->mass > 0);
    return fast_trainer_update(t, t->g, (float)(1 / m->numbers->mass));
}

/* True if the weights of an exchange are sent before the gradient: `combine` without push. */
static bool is_early(const gossip_config *c)
{
    FAST_ASSERT(c != NULL);
    return c->sends == 0 && c->first == 0 && !c->push;
}

/* Messages of models to and from neighbours; with `combine` the first round overlaps the gradient.
 * */
static void cost(const void *config, const fast_trainer *t, fast_cost *out)
{
    const gossip_config *c = config;
    const double rate = 1 / (double)c->period;
    const double rounds = (double)(c->rounds + c->correct);
    const double degree = (double)fast_topology_degree_max(t->topology) * (1 - c->drop);
    const double late = is_early(c) ? rounds - 1 : rounds;

    FAST_ASSERT(t->topology != NULL && rounds >= 1);
    out->round_trips = late * rate;
    out->waits = late * degree * rate;
    out->hidden = (rounds - late) * degree * rate;
    out->barrier = (double)c->period;
}

/* Train to the end, by the formulas above. */
static fast_err train(mixer *m)
{
    const gossip_config *c = m->c;
    fast_trainer *t = m->t;

    FAST_ASSERT(c->period >= 1 && m->numbers->mass > 0);
    while (fast_trainer_next(t)) {
        const bool due = c->sends == 0 && (t->step + 1) % c->period == 0;
        const bool early = due && is_early(c);

        if (early)
            FAST_TRY(send_round(m, t->w, false));
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        if (c->sends == 1)
            FAST_TRY(combine_gradients(m));
        if (early) {
            FAST_TRY(combine(m));
            FAST_TRY(mix(m, 1));
        }
        FAST_TRY(update(m));
        if (due && !early)
            FAST_TRY(mix(m, 0));
    }
    return fast_trainer_end(t);
}

/* The program of a worker. */
static fast_err worker(fast_trainer *t, const void *config)
{
    const gossip_config *c = config;
    fast_err err;
    mixer m;

    FAST_ASSERT(c != NULL);
    t->period = c->period;
    t->mixes_rule_state = c->state == FAST_RULE_AVERAGE;
    err = mixer_init(t, c, &m);
    if (!err)
        err = train(&m);
    mixer_fini(&m);
    return err;
}

/* Gradients or weights, by the option `sends`. */
static const char *sends(const void *config)
{
    const gossip_config *c = config;

    FAST_ASSERT(c != NULL);
    return c->sends == 1 ? "gradients" : "weights";
}

/* Push-sum divides by the masses that arrive; plain mixing needs weights that sum to 1. */
static bool mixes(const void *config)
{
    const gossip_config *c = config;

    FAST_ASSERT(c != NULL);
    return !c->push;
}

/* Gossip resumes: masses, rounds and the copies at neighbours are all that it has besides replicas.
 * */
const fast_strategy fast__strategy_gossip = {
    .name = "gossip",
    .summary = "synchronous mixing with the neighbours of a topology",
    .options = options,
    .config_size = sizeof(gossip_config),
    .synchronous = true,
    .resumable = true,
    .uses_codec = true,
    .topology = "ring",
    .sends = "weights",
    .answers = "nothing",
    .exclusions = exclusions,
    .cost = cost,
    .sends_by = sends,
    .worker = worker,
    .mixes = mixes,
};
