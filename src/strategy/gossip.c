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
 * By a codec that loses something weights mix by differences (links.c): the mean stays as it is
 * on undirected graphs, and with push the sum of all a z, of which the sender keeps what a message
 * lost; directed graphs need push. Links that drop, and graphs that change, have differences of
 * their own, which a message that is not sent does not touch. Gradients are decoded and added; the
 * own one counts as it was sent, so that who takes the same gradients stays equal.
 *
 * If W is doubly stochastic, the mean of all replicas moves by the mean update, and without
 * updates the distance to it shrinks by 1 - gap (fast_topology_gap()) in a period.
 *
 * Cost per worker and exchange: one copy of the model, `degree` messages of it in each round; by
 * codecs one encoding, or `degree` where links differ, and as many decodings as messages.
 */
#include "base/err.h"
#include "base/memory.h"
#include "base/rng.h"
#include "strategy/kernels.h"
#include "strategy/links.h"
#include "tensor/vector.h"

#include <math.h>
#include <string.h>

enum { WALK_MAX = 4096 }; /* rounds that are looked at before the first */

typedef struct gossip_config {
    int64_t period;  /* steps between exchanges */
    int first;       /* 0 combine, 1 adapt */
    int sends;       /* 0 weights, 1 gradients */
    bool push;       /* push-sum */
    int64_t rounds;  /* of mixing at an exchange */
    int64_t correct; /* rounds on a ring after them */
    double drop;     /* share of links that carry nothing */
    int state;       /* fast_rule_state */
    double gamma;    /* of fast_links */
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
    FAST_LINKS_GAMMA(gossip_config),
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

/* What lasts as long as a worker's replica. */
typedef struct lasting {
    double mass;   /* a, for push; 0: it has not begun yet */
    int64_t round; /* rounds so far */
} lasting;

/* What a worker keeps. */
typedef struct mixer {
    fast_trainer *t;
    const gossip_config *c;
    fast_neighbours to;   /* whom it sends to in a round */
    fast_neighbours from; /* whom it hears of */
    fast_links links;     /* through which weights travel */
    fast_flow *flow;      /* through which gradients do; NULL without a codec */
    fast_buffer *own;     /* gradients: what it sent in this round; NULL: nothing */
    size_t own_size;      /* bytes of it */
    double *given;        /* [room]: how much of its weights each of `to` may take */
    fast_msg **msgs;      /* [room]: of the round, by `from` */
    int64_t room;         /* neighbours that fit */
    lasting *last;        /* masses and rounds, also after a stop */
    uint64_t seed;        /* of the drops; the same at all, and after a stop */
    double *shares;       /* [workers] scratch: contributions of a gradient that arrived */
} mixer;

static void mixer_fini(mixer *m)
{
    for (int64_t i = 0; m->msgs && i < m->room; i++)
        fast_msg_free(m->msgs[i]);
    fast__neighbours_fini(&m->to);
    fast__neighbours_fini(&m->from);
    fast__links_fini(&m->links);
    fast_buffer_free(m->own);
    fast__free(m->given);
    fast__free(m->msgs);
    fast__free(m->shares);
}

/* What sends and receives through the run's codec. One encoding serves all neighbours where they
 * are the same in all rounds. */
static fast_err open_links(mixer *m)
{
    fast_trainer *t = m->t;
    const gossip_config *c = m->c;
    const bool apart = fast_topology_period(t->topology) != 1 || c->drop > 0 || c->correct > 0;
    const fast_flow_options gradients = { 0 };

    FAST_TRY(fast__links_init(t, apart && c->sends == 0, true, c->gamma, &m->links));
    if (c->sends == 1)
        return m->links.coded ? fast_trainer_flow(t, &gradients, &m->flow) : FAST_OK;
    if (m->links.differ && !c->push && fast_topology_is_directed(t->topology))
        return fast__fail(FAST_EINVAL, "gossip: through a codec that loses something, weights keep "
                                       "their mean on directed graphs with masses only; give "
                                       "push=yes");
    return FAST_OK;
}

/* Both ends of a link draw the same; of an undirected one for both directions. */
static bool is_dropped(const mixer *m, int64_t from, int64_t to)
{
    const bool swap = from > to && !fast_topology_is_directed(m->t->topology);
    fast_rng rng;

    fast__rng_init(&rng, m->seed, FAST_PURPOSE_EXCHANGE, (uint64_t)(swap ? to : from),
                   (uint64_t)m->last->round & UINT32_MAX, (uint64_t)(swap ? from : to));
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
        m->to.count = fast_topology_out(t->topology, m->last->round, t->rank, m->to.ranks,
                                        m->to.weights, &m->to.self);
        m->from.count = fast_topology_in(t->topology, m->last->round, t->rank, m->from.ranks,
                                         m->from.weights, &m->from.self);
        if (m->c->drop > 0) {
            drop_links(m, &m->to, false);
            drop_links(m, &m->from, true);
        }
        if (m->c->push)
            m->from.self = m->to.self;
    }
    m->last->round++;
}

/* Take the memory of all links that rounds will use, in the order of that use: the graph repeats.
 * What is dropped is chance's, and a long period not worth the walk: links are made on the way. */
static fast_err reserve_links(mixer *m)
{
    const gossip_config *c = m->c;
    const int64_t each = c->rounds + c->correct, begin = m->last->round;
    const int64_t period = fast_topology_period(m->t->topology);
    fast_err err = FAST_OK;

    if (!m->links.coded || c->sends == 1 || c->drop > 0 || period > WALK_MAX / each)
        return FAST_OK;
    m->last->round = 0;
    while (!err && m->last->round < period * each) {
        find_links(m, m->last->round % each >= c->rounds);
        for (int64_t i = 0; i < m->to.count && !err; i++)
            err = fast__links_reserve(&m->links, m->to.ranks[i], false);
        for (int64_t i = 0; i < m->from.count && !err; i++)
            err = fast__links_reserve(&m->links, m->from.ranks[i], true);
    }
    m->last->round = begin;
    return err;
}

static fast_err mixer_init(fast_trainer *t, const gossip_config *c, mixer *m)
{
    void *last = NULL;

    *m = (mixer){ .t = t, .c = c };
    FAST_TRY(fast_trainer_persist(t, 0, sizeof *m->last, &last));
    m->last = last;
    if (m->last->round < 0 || m->last->round > INT64_MAX / 2) /* graphs are asked for that round */
        return fast__fail(FAST_EFORMAT, "gossip: worker %lld cannot go on from round %lld",
                          (long long)t->rank, (long long)m->last->round);
    if (m->last->mass == 0)
        m->last->mass = 1;
    m->room = fast_topology_degree_max(t->topology);
    if (m->room < 2) /* a ring's */
        m->room = 2;
    FAST_TRY(fast__neighbours_init(t, &m->to));
    FAST_TRY(fast__neighbours_init(t, &m->from));
    FAST_TRY(fast__alloc("messages of a round", m->room, sizeof(fast_msg *), &m->msgs));
    FAST_TRY(fast__alloc("shares of a round", m->room, sizeof *m->given, &m->given));
    FAST_TRY(fast__alloc("contributions", t->workers, sizeof *m->shares, &m->shares));
    FAST_TRY(open_links(m));
    /* Undirected graphs are fit for mixing. One looks for all: it takes a while on large ones. */
    if (!c->push && t->rank == 0 && fast_topology_is_directed(t->topology))
        FAST_TRY(fast_topology_check(t->topology));
    m->seed = fast_random(t->actor);
    FAST_TRY(reserve_links(m));
    return c->drop > 0 ? fast_broadcast(t->group, 0, &m->seed, sizeof m->seed, FAST_SOON) : FAST_OK;
}

/* Begin a round: x goes out. One copy is shared by all messages, unless links are apart. */
static fast_err begin(mixer *m, const float *x, bool ring)
{
    fast_trainer *t = m->t;
    fast_buffer *buffer = NULL;
    fast_err err = FAST_OK;
    double gamma = 1;
    size_t size = 0;

    find_links(m, ring);
    for (int64_t i = 0; i < m->to.count && !err; i++) {
        const int64_t rank = m->to.ranks[i];
        fast_msg *msg = NULL;

        if (m->c->sends == 1 && !buffer)
            err = fast__replica_pack(t, m->flow, x, &buffer, &size);
        else if (!buffer)
            err = fast__links_pack(&m->links, rank, x, &buffer, &size, &gamma);
        m->given[i] = gamma;
        if (!err)
            err = fast__links_msg(&m->links, FAST_TAG_MODEL, m->last->mass * gamma, gamma, buffer,
                                  size, &msg);
        if (!err)
            err = fast_send(t->actor, t->worker_ids[rank], &msg);
        if (m->links.apart) {
            fast_buffer_free(buffer);
            buffer = NULL;
        }
    }
    if (m->c->sends == 1) {
        m->own = buffer;
        m->own_size = size;
    } else {
        fast_buffer_free(buffer);
    }
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

/* The round's messages were taken in. */
static void drop_msgs(mixer *m)
{
    for (int64_t i = 0; i < m->from.count; i++) {
        fast_msg_free(m->msgs[i]);
        m->msgs[i] = NULL;
    }
}

/* w becomes the mix of whole models. The sum of masses is 1 for each worker without push. */
static fast_err combine_models(mixer *m)
{
    fast_trainer *t = m->t;
    double mass = m->from.self * m->last->mass;
    double keep = m->from.self;

    if (m->c->push) {
        for (int64_t i = 0; i < m->from.count; i++)
            mass += m->from.weights[i] * fast__replica_mass(m->msgs[i]);
        keep = m->from.self * m->last->mass / mass;
        m->last->mass = mass;
    }
    for (int64_t i = 0; i < m->from.count; i++) {
        const double take = m->c->push ? m->from.weights[i] * fast__replica_mass(m->msgs[i]) / mass
                                       : m->from.weights[i];
        fast_replica model;

        FAST_TRY(fast__links_open(&m->links, m->from.ranks[i], m->msgs[i], &model));
        FAST_TRY(fast__replica_mix(t, keep, &model, take));
        keep = 1;
    }
    return FAST_OK;
}

/* What is taken of the i-th of those that one hears of. Undirected graphs have the same neighbours
 * in both lists; the smaller share of both ends counts. */
static double share_of(const mixer *m, int64_t i)
{
    int64_t k = 0;

    while (k < m->to.count && m->to.ranks[k] != m->from.ranks[i])
        k++;
    FAST_ASSERT(k < m->to.count);
    return m->from.weights[i] * fmin(m->given[k], fast__links_gamma(m->msgs[i]));
}

/* w moves by differences. */
static fast_err combine_differences(mixer *m)
{
    double keep = 1;

    for (int64_t i = 0; i < m->from.count; i++)
        keep -= share_of(m, i);
    for (int64_t i = 0; i < m->from.count; i++) {
        const int64_t rank = m->from.ranks[i];
        fast_replica model;

        FAST_TRY(fast__links_open(&m->links, rank, m->msgs[i], &model));
        FAST_TRY(fast__links_mix(&m->links, rank, keep, &model, share_of(m, i)));
        keep = 1;
    }
    return FAST_OK;
}

static const fast_kernel add_scaled = { "add", 2, 12, 2, 1, false, fast__run_axpy };
static const fast_kernel scale_mass = { "scale", 2, 12, 1, 1, false, fast__run_scale };

/* With push: what others hold of w is what was given away, and the rest is kept, so that the sum of
 * all a z stays as it is:
 *
 *     a' = a (1 - sum_j gamma_j w_ji) + sum_j w_ij gamma a_j
 *     z' = (a z - sum_j gamma_j w_ji a h_j + sum_j w_ij gamma a_j h_j) / a'
 */
static fast_err combine_pushed(mixer *m)
{
    fast_trainer *t = m->t;
    const fast_vector w = fast_trainer_model(t);
    double kept = 1, mass, keep;

    for (int64_t i = 0; i < m->to.count; i++)
        kept -= m->given[i] * m->to.weights[i];
    mass = kept * m->last->mass;
    for (int64_t i = 0; i < m->from.count; i++)
        mass += m->from.weights[i] * fast__replica_mass(m->msgs[i]);
    FAST_TRY(fast_trainer_apply(t, &scale_mass, &(float){ (float)(m->last->mass / mass) }, &w));
    for (int64_t i = 0; i < m->to.count; i++) {
        const float given = (float)(-m->given[i] * m->to.weights[i] * m->last->mass / mass);
        const fast_vector held = { .x = (float *)(uintptr_t)fast__links_held(&m->links,
                                                                             m->to.ranks[i]),
                                   .shares = w.shares,
                                   .age = -1 };

        FAST_TRY(fast_trainer_apply(t, &add_scaled, &given, (fast_vector[]){ w, held }));
    }
    keep = kept * m->last->mass / mass;
    m->last->mass = mass;
    for (int64_t i = 0; i < m->from.count; i++) {
        const double take = m->from.weights[i] * fast__replica_mass(m->msgs[i]) / mass;
        fast_replica model;

        FAST_TRY(fast__links_open(&m->links, m->from.ranks[i], m->msgs[i], &model));
        FAST_TRY(fast__replica_mix_rest(t, keep, &model, take));
        FAST_TRY(fast_trainer_apply(t, &add_scaled, &(float){ (float)take },
                                    (fast_vector[]){ w, fast__replica_vector(&model) }));
        keep = 1;
    }
    return FAST_OK;
}

/* End a round: w becomes the mix. */
static fast_err combine(mixer *m)
{
    FAST_TRY(await(m));
    FAST_TRY(!m->links.differ ? combine_models(m)
             : m->c->push     ? combine_pushed(m)
                              : combine_differences(m));
    drop_msgs(m);
    if (m->c->state == FAST_RULE_RESET)
        fast_trainer_reset_rule(m->t);
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

/* g <- g + weight of a gradient that arrived; a decoder has added the values already. */
static void run_add_gradient(const void *ctx, int64_t n, float *const *x)
{
    if (x[1])
        fast__run_axpy(ctx, n, x);
}
static const fast_kernel mix_gradient = { "mix", 3, 12, 2, 1, false, run_add_gradient };

static fast_err add_gradient(mixer *m, int64_t rank, const fast_replica *model, double weight)
{
    fast_trainer *t = m->t;
    fast_vector other = fast__replica_vector(model);

    other.shares = m->shares;
    fast_trainer_shares_of(t, rank, m->shares);
    if (m->flow)
        FAST_TRY(
            fast_trainer_decode(t, m->flow, model->coded, model->coded_size, (float)weight, t->g));
    return fast_trainer_apply(t, &mix_gradient, &(float){ (float)weight },
                              (fast_vector[]){ fast_trainer_grad(t), other });
}

/* The gradients' mix, for the update. */
static fast_err combine_gradients(mixer *m)
{
    fast_trainer *t = m->t;

    FAST_TRY(begin(m, t->g, false));
    FAST_TRY(await(m));
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
    drop_msgs(m);
    return FAST_OK;
}

/* One's own step. */
static fast_err adapt(mixer *m)
{
    fast_trainer *t = m->t;

    return fast_trainer_update(t, t->g, (float)(1 / m->last->mass));
}

/* Models to and from neighbours, some while the gradient is computed. */
static void cost(const void *config, const fast_trainer *t, fast_cost *out)
{
    const gossip_config *c = config;
    const double rate = 1 / (double)c->period;
    const double rounds = (double)(c->rounds + c->correct);
    const double degree = (double)fast_topology_degree_max(t->topology) * (1 - c->drop);
    const bool early = c->sends == 0 && c->first == 0 && !c->push;
    const double late = early ? rounds - 1 : rounds;

    out->round_trips = late * rate;
    out->waits = late * degree * rate;
    out->hidden = (rounds - late) * degree * rate;
    out->barrier = (double)c->period;
}

static fast_err train(mixer *m)
{
    const gossip_config *c = m->c;
    fast_trainer *t = m->t;

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
    t->mixes_rule_state = c->state == FAST_RULE_AVERAGE;
    err = mixer_init(t, c, &m);
    if (!err)
        err = train(&m);
    mixer_fini(&m);
    return err;
}

static const char *sends(const void *config)
{
    const gossip_config *c = config;

    return c->sends == 1 ? "gradients" : "weights";
}

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
    .check = check,
    .cost = cost,
    .sends_by = sends,
    .worker = worker,
};
