/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gossip: synchronous mixing with neighbours. W is the topology's matrix of weights, w_ij what i
 * takes of j; it may be another one at each exchange.
 *
 *   first=combine   w_i <- rule(sum_j w_ij w_j, g_i(w_i))          weights travel while g_i is
 *                                                                  computed
 *   first=adapt     w_i <- sum_j w_ij rule(w_j, g_j(w_j))
 *   sends=gradients w_i <- rule(w_i, sum_j w_ij g_j)               replicas drift apart
 *   push=yes        a_i <- sum_j w_ij a_j;  z_i <- sum_j w_ij a_j rule(z_j, g_j / a_j) / a_i
 *
 * The members of the family: D-PSGD (Lian et al. 2017) is `combine` on a ring; GossipGraD (Daily et
 * al. 2018) is `adapt` on `pairs` or `hypercube:one=yes`, one partner a step, in rotation;
 * neighbour exchange (Jiang et al. 2017) is any of both on a fixed graph; stochastic gradient push
 * (SGP, Assran et al. 2019) is `push` on `exponential:one=yes`: on directed graphs what a worker
 * gives away sums to 1 and what it takes need not, so a mass a_i travels too, by which weights are
 * divided. With push, z is what travels and what the rule changes: x = a z of the paper is
 * not kept, and a step of size lr on x is one of lr / a on z.
 *
 * drop is the share of links that carry nothing at an exchange, drawn alike at both ends; what
 * would have been taken is kept instead, so that W stays doubly stochastic on undirected graphs and
 * column stochastic with push. rounds mixes several times at each exchange; correct adds rounds on
 * a ring that are never dropped, after Corrected Gossip (Hoefler et al. 2017): whatever chance did,
 * everyone hears of its `correct` nearest on both sides.
 *
 * If W is doubly stochastic, the mean of all replicas moves by the mean update, and without
 * updates the distance to it shrinks by 1 - gap (fast_topology_gap()) in a period.
 *
 * Cost per worker and exchange: one copy of the model, `degree` messages of it in each round.
 */
#include "base/err.h"
#include "base/memory.h"
#include "base/rng.h"
#include "strategy/exchange.h"
#include "tensor/vector.h"

#include <math.h>
#include <string.h>

typedef struct gossip_config {
    int64_t period;  /* steps between exchanges */
    int first;       /* 0 combine, 1 adapt */
    int sends;       /* 0 weights, 1 gradients */
    bool push;       /* push-sum */
    int64_t rounds;  /* of mixing at an exchange */
    int64_t correct; /* rounds on a ring after them */
    double drop;     /* share of links that carry nothing */
    int state;       /* fast_rule_state */
} gossip_config;

static const fast_option options[] = {
    FAST_OPT_INT(gossip_config, period, "1", 1, 1e12, "steps between exchanges"),
    FAST_OPT_CHOICE(gossip_config, first, "combine", "combine|adapt",
                    "mix, then update by a gradient from before; or update, then mix"),
    FAST_OPT_CHOICE(gossip_config, sends, "weights", "weights|gradients",
                    "what neighbours exchange"),
    FAST_OPT_BOOL(gossip_config, push, "no",
                  "push-sum: masses travel too, so that directed graphs keep the mean"),
    FAST_OPT_INT(gossip_config, rounds, "1", 1, 1000, "of mixing at an exchange"),
    FAST_OPT_INT(gossip_config, correct, "0", 0, 1000,
                 "rounds on a ring after them, never dropped (corrected gossip)"),
    FAST_OPT_REAL(gossip_config, drop, "0", 0, 1, "share of links that carry nothing"),
    FAST_OPT_CHOICE(gossip_config, state, "local", FAST_RULE_STATES, FAST_RULE_STATES_HELP),
    FAST_OPT_END,
};

static fast_err check(const void *config, int64_t workers, const char *optimizer)
{
    const gossip_config *c = config;

    (void)workers;
    (void)optimizer;
    if (c->sends == 1 && (c->push || c->period > 1))
        return fast__fail(FAST_EINVAL,
                          "gossip: gradients are exchanged at each step and without "
                          "masses; leave out %s",
                          c->push ? "push" : "period");
    if (c->sends == 1 && c->state != FAST_RULE_LOCAL)
        return fast__fail(FAST_EINVAL, "gossip: the rule's state goes with weights; leave out "
                                       "state, or sends=gradients");
    if (c->sends == 1 && c->rounds + c->correct > 1)
        return fast__fail(FAST_EINVAL, "gossip: gradients are mixed once; leave out rounds and "
                                       "correct");
    return FAST_OK;
}

/* What a worker keeps. */
typedef struct mixer {
    fast_trainer *t;
    const gossip_config *c;
    fast_neighbours to;   /* whom it sends to in a round */
    fast_neighbours from; /* whom it hears of */
    fast_msg **msgs;      /* [room]: of the round, by `from` */
    int64_t room;         /* neighbours that fit */
    double mass;          /* a, for push */
    uint64_t seed;        /* of the drops; the same at all */
    int64_t round;        /* rounds so far */
} mixer;

static void mixer_fini(mixer *m)
{
    for (int64_t i = 0; m->msgs && i < m->room; i++)
        fast_msg_free(m->msgs[i]);
    fast__neighbours_fini(&m->to);
    fast__neighbours_fini(&m->from);
    fast__free(m->msgs);
}

static fast_err mixer_init(fast_trainer *t, const gossip_config *c, mixer *m)
{
    *m = (mixer){ .t = t, .c = c, .mass = 1 };
    m->room = fast_topology_degree_max(t->topology);
    if (m->room < 2) /* a ring's */
        m->room = 2;
    FAST_TRY(fast__neighbours_init(t, &m->to));
    FAST_TRY(fast__neighbours_init(t, &m->from));
    FAST_TRY(fast__alloc("messages of a round", m->room, sizeof(fast_msg *), &m->msgs));
    /* Undirected graphs are fit for mixing. One looks for all: it takes a while on large ones. */
    if (!c->push && t->rank == 0 && fast_topology_is_directed(t->topology))
        FAST_TRY(fast_topology_check(t->topology));
    m->seed = fast_random(t->actor);
    return c->drop > 0 ? fast_broadcast(t->group, 0, &m->seed, sizeof m->seed, FAST_SOON) : FAST_OK;
}

/* Both ends of a link draw the same; of an undirected one for both directions. */
static bool is_dropped(const mixer *m, int64_t from, int64_t to)
{
    const bool swap = from > to && !fast_topology_is_directed(m->t->topology);
    fast_rng rng;

    fast__rng_init(&rng, m->seed, FAST_PURPOSE_EXCHANGE, (uint64_t)(swap ? to : from),
                   (uint64_t)m->round & UINT32_MAX, (uint64_t)(swap ? from : to));
    return (double)fast__rng_uniform(&rng) < m->c->drop;
}

/* Take dropped links out of a list; what they would have carried is kept. */
static void drop_links(const mixer *m, fast_neighbours *n, bool in)
{
    const int64_t me = m->t->rank;
    int64_t count = 0;

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

/* The neighbours on a ring, at equal weights. */
static void ring_links(const fast_trainer *t, fast_neighbours *n)
{
    n->count = t->workers > 2 ? 2 : t->workers - 1;
    n->ranks[0] = (t->rank + 1) % t->workers;
    if (n->count > 1)
        n->ranks[1] = (t->rank + t->workers - 1) % t->workers;
    n->self = 1 / (double)(n->count + 1);
    for (int64_t i = 0; i < n->count; i++)
        n->weights[i] = n->self;
}

/* Who sends to whom in this round. With push a dropped link changes what its sender keeps: self
 * comes from the list of those it sends to. */
static void find_links(mixer *m, bool ring)
{
    fast_trainer *t = m->t;

    if (ring) {
        ring_links(t, &m->to);
        ring_links(t, &m->from);
    } else {
        m->to.count = fast_topology_out(t->topology, m->round, t->rank, m->to.ranks, m->to.weights,
                                        &m->to.self);
        m->from.count = fast_topology_in(t->topology, m->round, t->rank, m->from.ranks,
                                         m->from.weights, &m->from.self);
        if (m->c->drop > 0) {
            drop_links(m, &m->to, false);
            drop_links(m, &m->from, true);
        }
        if (m->c->push)
            m->from.self = m->to.self;
    }
    m->round++;
}

/* Begin a round: x goes out. One copy is shared by all messages. */
static fast_err begin(mixer *m, const float *x, bool ring)
{
    fast_trainer *t = m->t;
    fast_buffer *buffer = NULL;
    fast_err err = FAST_OK;

    find_links(m, ring);
    if (m->to.count == 0)
        return FAST_OK;
    FAST_TRY(fast__replica_pack(t, x, &buffer));
    fast_buffer_freeze(buffer);
    for (int64_t i = 0; i < m->to.count && !err; i++) {
        fast_buffer *held = fast_buffer_hold(buffer);
        fast_msg *msg = NULL;

        err = fast__replica_msg(t, FAST_TAG_MODEL, m->mass, &held, &msg);
        if (!err)
            err = fast_send(t->actor, t->worker_ids[m->to.ranks[i]], &msg);
    }
    fast_buffer_free(buffer);
    return err;
}

/* Receive the round's messages. */
static fast_err await(mixer *m)
{
    fast_trainer *t = m->t;

    fast_actor_at(t->actor, t->step, m->c->sends == 1 ? "gradient" : "weights");
    for (int64_t i = 0; i < m->from.count; i++)
        FAST_TRY(fast_receive(t->actor, t->worker_ids[m->from.ranks[i]], FAST_TAG_MODEL, FAST_SOON,
                              &m->msgs[i]));
    return FAST_OK;
}

/* End a round: w becomes the mix. The sum of masses is 1 for each worker without push. */
static fast_err combine(mixer *m)
{
    fast_trainer *t = m->t;
    double mass = m->from.self * m->mass;
    double keep = m->from.self;

    FAST_TRY(await(m));
    if (m->c->push) {
        for (int64_t i = 0; i < m->from.count; i++)
            mass += m->from.weights[i] * fast__replica_mass(m->msgs[i]);
        keep = m->from.self * m->mass / mass;
        m->mass = mass;
    }
    for (int64_t i = 0; i < m->from.count; i++) {
        const double take = m->c->push ? m->from.weights[i] * fast__replica_mass(m->msgs[i]) / mass
                                       : m->from.weights[i];
        fast_replica model;

        FAST_TRY(fast__replica_open(t, m->msgs[i], &model));
        FAST_TRY(fast__replica_mix(t, keep, &model, take));
        keep = 1;
        fast_msg_free(m->msgs[i]);
        m->msgs[i] = NULL;
    }
    if (m->c->state == FAST_RULE_RESET)
        fast_trainer_reset_rule(t);
    return FAST_OK;
}

/* Rounds from `done` on, on the topology and then on the ring. */
static fast_err mix(mixer *m, int64_t done)
{
    for (int64_t i = done; i < m->c->rounds + m->c->correct; i++) {
        FAST_TRY(begin(m, m->t->w, i >= m->c->rounds));
        FAST_TRY(combine(m));
    }
    return FAST_OK;
}

/* The gradients' mix, for the update. */
static fast_err combine_gradients(mixer *m)
{
    fast_trainer *t = m->t;

    FAST_TRY(begin(m, t->g, false));
    FAST_TRY(await(m));
    fast__vector_scale(t->count, (float)m->from.self, t->g);
    fast_trainer_carry(t, t->rank, m->from.self * (double)t->workers);
    for (int64_t i = 0; i < m->from.count; i++) {
        const double weight = m->from.weights[i];
        fast_replica model;

        FAST_TRY(fast__replica_open(t, m->msgs[i], &model));
        fast__vector_axpy(t->count, (float)weight, model.x, t->g);
        fast__vector_axpby(t->state_count, (float)weight, model.s, i == 0 ? (float)m->from.self : 1,
                           t->s);
        fast_trainer_carry(t, m->from.ranks[i], weight * (double)t->workers);
        fast_msg_free(m->msgs[i]);
        m->msgs[i] = NULL;
    }
    return fast_charge(t->actor, 3 * (double)(t->count * m->from.count),
                       12 * (double)(t->count * m->from.count));
}

/* One's own step. */
static fast_err adapt(mixer *m)
{
    fast_trainer *t = m->t;

    FAST_TRY(fast_trainer_update(t, t->g, (float)(1 / m->mass)));
    if (m->c->sends == 0)
        fast_trainer_carry(t, t->rank, (double)t->workers);
    fast_trainer_staleness(t, 0);
    return FAST_OK;
}

/* For the forecast: models to and from neighbours, some while the gradient is computed. */
static void tell_cost(const mixer *m)
{
    const gossip_config *c = m->c;
    const double rate = 1 / (double)c->period;
    const double rounds = (double)(c->rounds + c->correct);
    const double degree = (double)fast_topology_degree_max(m->t->topology) * (1 - c->drop);
    const bool early = c->sends == 0 && c->first == 0 && !c->push;
    const double late = early ? rounds - 1 : rounds;
    const fast_cost cost = { .trips = late * rate,
                             .waits = late * degree * rate,
                             .behind = (rounds - late) * degree * rate,
                             .moved = 12 * rounds * degree * rate,
                             .meets = (double)c->period };

    fast_trainer_cost(m->t, &cost);
}

static fast_err train(mixer *m)
{
    const gossip_config *c = m->c;
    fast_trainer *t = m->t;

    tell_cost(m);
    while (fast_trainer_next(t)) {
        const bool meet = (t->step + 1) % c->period == 0;
        const bool early = meet && c->sends == 0 && c->first == 0 && !c->push;

        if (early)
            FAST_TRY(begin(m, t->w, false));
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        if (c->sends == 1)
            FAST_TRY(combine_gradients(m));
        if (early) {
            FAST_TRY(combine(m));
            FAST_TRY(mix(m, 1));
        }
        FAST_TRY(adapt(m));
        if (meet && !early && c->sends == 0)
            FAST_TRY(mix(m, 0));
    }
    return fast_trainer_end(t);
}

static fast_err worker(fast_trainer *t, const void *config)
{
    const gossip_config *c = config;
    fast_err err;
    mixer m;

    t->period = c->period;
    t->rule_travels = c->state == FAST_RULE_AVERAGE;
    err = mixer_init(t, c, &m);
    if (!err)
        err = train(&m);
    mixer_fini(&m);
    return err;
}

const fast_strategy fast__strategy_gossip = {
    .name = "gossip",
    .summary = "synchronous mixing with the neighbours of a topology",
    .options = options,
    .config_size = sizeof(gossip_config),
    .synchronous = true,
    .topology = "ring",
    .sends = "weights",
    .check = check,
    .worker = worker,
};
