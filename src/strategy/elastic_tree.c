/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elastic_tree: TreeEASGD. All nodes of a tree are workers; springs run along its edges.
 *
 *     every up[level] steps:    send w to the parent
 *     every down[level] steps:  send w to the children
 *     a model x arrives:        w <- w - alpha (w - x)
 *     every step:               w <- rule(w, g)
 *
 * Zhang's thesis (2016) and the survey of Langer et al. describe it. Models that have arrived are
 * applied before each gradient, in the order of arrival. The periods belong to the sender's level,
 * the root's is the first; a list "2x8" gives the last period to all deeper levels. alpha is
 * 0.9 / (d + 1) by default, d the largest degree. A message moves its receiver only: the sum of two
 * neighbours is conserved only if both send at the same time.
 *
 * With slack s >= 0 staleness is bounded: at step k a worker first waits until each neighbour that
 * is up has sent all models but the last s of those that it sends by its own step k, every q steps.
 * So a model is at most s q steps old when it is applied, and the worker with the fewest steps
 * never waits. A worker that ends tells its neighbours.
 *
 * On other topologies a neighbour of lower rank is a parent, one of higher rank a child. The model
 * of the run is the root's; if the root has crashed, the mean of the other workers. Workers that
 * are down are not sent to.
 *
 * On a simulated cluster whose computing takes no time (ideal) no model arrives before the end.
 *
 * With codecs, `codec` encodes models to the parent and `codec_down` models to the children. A
 * lossy codec encodes the difference to the copy that the receiver holds. A message says whether
 * its sender holds a copy of the receiver's model: a restarted worker holds none, and is sent a
 * whole model next.
 *
 * Cost per worker and step: 1/up models to the parent, 1/down to each child.
 */
#include "base/err.h"
#include "base/memory.h"
#include "strategy/exchange.h"
#include "strategy/vector_kernels.h"
#include "trainer/part.h"
#include "trainer/remember.h"

#include <stdlib.h>
#include <string.h>

typedef struct tree_config {
    double alpha;  /* constant of the springs; < 0: 0.9 / (degree + 1) */
    char up[64];   /* periods of models to the parent by level, "2x8" */
    char down[64]; /* periods of models to the children by level, "2x8" */
    int64_t slack; /* models that a neighbour may be behind; -1: any number */
} tree_config;

static const fast_option options[] = {
    FAST_OPT_REAL(tree_config, alpha, "-1", -1, 1,
                  "fraction of the distance that a worker moves to a model that arrives; -1: 0.9 / "
                  "(degree + 1)"),
    FAST_OPT_TEXT(tree_config, up, "4", NULL,
                  "steps between models to the parent, by level of the sender from the root: 2x8"),
    FAST_OPT_TEXT(
        tree_config, down, "4", NULL,
        "steps between models to the children, by level of the sender from the root: 2x8"),
    FAST_OPT_INT(tree_config, slack, "-1", -1, 1e9,
                 "models that a neighbour may be behind: a worker waits for older ones; -1: never"),
    FAST_OPT_END,
};

/* Parse the period of a level from "2x8x32"; the last one holds for all deeper levels.
 * FAST_EINVAL. */
static fast_err period_of(const char *name, const char *text, int64_t level, int64_t *out)
{
    int64_t period = 0;

    FAST_ASSERT(text != NULL && level >= 0);
    for (const char *at = text;; at++) {
        char *end = NULL;
        const long long value = *at >= '0' && *at <= '9' ? strtoll(at, &end, 10) : 0;

        if (value < 1 || value > 1000000000 || (*end != 'x' && *end != '\0'))
            return fast__fail(FAST_EINVAL, "elastic_tree: %s=%s is not a list of periods like 2x8",
                              name, text);
        if (level-- >= 0)
            period = value;
        at = end;
        if (*at == '\0')
            break;
    }
    *out = period;
    return FAST_OK;
}

/* Refuse lists of periods that do not parse: FAST_EINVAL. */
static fast_err check(const void *config, int64_t workers, const char *optimizer)
{
    const tree_config *c = config;
    int64_t period = 0;

    (void)optimizer;
    FAST_ASSERT(workers >= 1);
    FAST_TRY(period_of("up", c->up, 0, &period));
    return period_of("down", c->down, 0, &period);
}

/* A worker's node of the tree. */
typedef struct tree_node {
    int64_t *peers;  /* [degree] ranks of neighbours */
    double *weights; /* [degree] of the topology; not used */
    int64_t degree;  /* number of neighbours */
    int64_t up;      /* steps between models to the parent */
    int64_t down;    /* steps between models to the children */
    float alpha;     /* constant of its springs */
    fast_flow **to;  /* [2 degree]: to each neighbour, then from each; NULL without codecs */
    bool *holds;     /* [degree]: this worker has a copy of that neighbour's model */
    int64_t slack;   /* models that a neighbour may be behind; -1: any number */
    int64_t *sends;  /* [degree]: steps between the models of that neighbour to this worker */
    int64_t *newest; /* [degree]: step of that neighbour's newest model; ENDED: it sends no more */
} tree_node;

/* Instead of the step of a neighbour's model. */
enum { ENDED = -1 };

/* Return the number of edges to the root. A parent is the neighbour of the lowest rank. */
static int64_t level_of(const fast_topology *topology, int64_t rank, tree_node *p)
{
    int64_t level = 0;
    double self;

    FAST_ASSERT(p->peers && p->weights);
    while (rank > 0) {
        const int64_t n = fast_topology_out(topology, 0, rank, p->peers, p->weights, &self);
        int64_t parent = rank;

        for (int64_t i = 0; i < n; i++)
            if (p->peers[i] < parent)
                parent = p->peers[i];
        if (parent == rank)
            break;
        rank = parent;
        level++;
    }
    return level;
}

/* Free everything; flows belong to the trainer. */
static void tree_node_fini(tree_node *p)
{
    FAST_ASSERT(p != NULL);
    fast__free(p->peers);
    fast__free(p->weights);
    fast__free(p->to);
    fast__free(p->holds);
    fast__free(p->sends);
    fast__free(p->newest);
}

/* Open the flows to and from all neighbours, if the run has codecs. */
static fast_err open_flows(fast_trainer *t, tree_node *p)
{
    FAST_ASSERT(p->to == NULL && p->degree >= 0);
    if (fast_trainer_codec_fit(t) == FAST_FIT_NONE)
        return FAST_OK;
    FAST_TRY(fast__alloc("flows of neighbours", 2 * p->degree, sizeof(fast_flow *), &p->to));
    FAST_TRY(fast__alloc("copies of neighbours' models", p->degree, sizeof *p->holds, &p->holds));
    for (int64_t i = 0; i < p->degree; i++) {
        const bool child = p->peers[i] > t->rank;
        const fast_flow_options to = { .number = i, .values = true, .down = child };
        const fast_flow_options from = {
            .number = p->degree + i, .values = true, .down = !child, .decodes = true
        };

        FAST_TRY(fast_trainer_flow(t, &to, &p->to[i]));
        FAST_TRY(fast_trainer_flow(t, &from, &p->to[p->degree + i]));
        if (!fast_trainer_resumed(t)) /* messages of an earlier call may be lost */
            fast_flow_reset(p->to[i]);
    }
    return fast__trainer_remember(t, 0, p->holds, (size_t)p->degree * sizeof *p->holds);
}

/* Find the periods at which neighbours send to this worker, for the bound on staleness.
 * FAST_EINVAL on a directed graph, where a neighbour may send nothing. */
static fast_err bound_init(fast_trainer *t, const tree_config *c, tree_node *p)
{
    tree_node scratch = { 0 }; /* level_of() overwrites the list of neighbours */
    fast_err err;

    FAST_ASSERT(p->slack >= 0 && p->newest == NULL);
    if (fast_topology_is_directed(t->topology))
        return fast__fail(FAST_EINVAL, "elastic_tree: slack needs links that lead both ways; give "
                                       "an undirected topology");
    FAST_TRY(fast__alloc("periods of neighbours", p->degree, sizeof *p->sends, &p->sends));
    FAST_TRY(fast__alloc("steps of neighbours", p->degree, sizeof *p->newest, &p->newest));
    err = fast__alloc("neighbours", fast_topology_degree_max(t->topology) + 1,
                      sizeof *scratch.peers, &scratch.peers);
    if (!err)
        err = fast__alloc("weights", fast_topology_degree_max(t->topology) + 1,
                          sizeof *scratch.weights, &scratch.weights);
    for (int64_t i = 0; i < p->degree && !err; i++) {
        const int64_t level = level_of(t->topology, p->peers[i], &scratch);
        const bool child = p->peers[i] > t->rank;

        p->newest[i] = t->step;
        err = period_of(child ? "up" : "down", child ? c->up : c->down, level, &p->sends[i]);
    }
    tree_node_fini(&scratch);
    return err ? err
               : fast__trainer_remember(t, 1, p->newest, (size_t)p->degree * sizeof *p->newest);
}

/* Find the neighbours and the periods of this worker's level. */
static fast_err tree_node_init(const fast_trainer *t, const tree_config *c, tree_node *p)
{
    const int64_t most = fast_topology_degree_max(t->topology);
    int64_t level;
    double self;
    fast_err err;

    FAST_ASSERT(t->topology != NULL && most >= 0);
    *p = (tree_node){ .alpha = (float)(c->alpha < 0 ? 0.9 / (double)(most + 1) : c->alpha),
                      .slack = c->slack };
    FAST_TRY(fast__alloc("neighbours", most + 1, sizeof *p->peers, &p->peers));
    err = fast__alloc("weights", most + 1, sizeof *p->weights, &p->weights);
    if (!err) {
        level = level_of(t->topology, t->rank, p);
        p->degree = fast_topology_out(t->topology, 0, t->rank, p->peers, p->weights, &self);
        err = period_of("up", c->up, level, &p->up);
        if (!err)
            err = period_of("down", c->down, level, &p->down);
    }
    if (err)
        tree_node_fini(p);
    return err;
}

/* Return the index of the neighbour that sent a message; degree: another worker did. */
static int64_t sender_of(const fast_trainer *t, const tree_node *p, const fast_msg *msg)
{
    const int64_t rank = fast__trainer_rank(t, msg->from);
    int64_t i = 0;

    FAST_ASSERT(p->degree >= 0);
    while (i < p->degree && p->peers[i] != rank)
        i++;
    return i;
}

/* Decode the model of a message. *out is NULL if it is a difference to a copy that is missing. */
static fast_err model_of(fast_trainer *t, const tree_node *p, const fast_msg *msg,
                         const float **out)
{
    const int64_t i = sender_of(t, p, msg);

    *out = fast_msg_data(msg, 0);
    if (!p->to)
        return FAST_OK;
    FAST_ASSERT(i < p->degree);
    if (msg->words[1] == 0) /* the sender holds no copy of this worker's model */
        fast_flow_reset(p->to[i]);
    const fast_err err =
        fast_trainer_decode_values(t, p->to[p->degree + i], *out, msg->parts[0].size, out);
    p->holds[i] = p->holds[i] || !err;
    if (err != FAST_EFORMAT)
        return err;
    *out = NULL;
    return FAST_OK;
}

/* Refuse a message that is no model: one of a snapshot may be forged. Where edges have a direction
 * it may come from any worker, and only flows tell senders apart. */
static fast_err check_model(const fast_trainer *t, const tree_node *p, const fast_msg *msg)
{
    const bool known = (!p->to && !p->newest) || sender_of(t, p, msg) < p->degree;

    FAST_ASSERT(t->count > 0);
    if (known && msg->part_count == 0 && p->newest) /* the sender's last message */
        return FAST_OK;
    if (!known || msg->part_count != 2 ||
        msg->parts[1].size != (size_t)fast_trainer_share_count(t) * sizeof(double) ||
        (!p->to && msg->parts[0].size != (size_t)t->count * sizeof(float)))
        return fast__fail(FAST_EFORMAT, "elastic_tree: worker %lld sent no model",
                          (long long)fast__trainer_rank(t, msg->from));
    return FAST_OK;
}

/* Receive one message, of an actor or FAST_ANY, and move w towards its model. Fails as
 * fast_receive() does. */
static fast_err apply_one(fast_trainer *t, const tree_node *p, int64_t from, int64_t deadline)
{
    fast_msg *msg = NULL;
    const float *x = NULL;
    fast_err err;

    FAST_TRY(fast_receive(t->actor, from, FAST_TAG_MODEL, deadline, &msg));
    FAST_ASSERT(msg != NULL);
    err = check_model(t, p, msg);
    if (!err && p->newest)
        p->newest[sender_of(t, p, msg)] = msg->part_count > 0 ? msg->words[0] : ENDED;
    if (!err && msg->part_count > 0)
        err = model_of(t, p, msg, &x);
    if (!err && x)
        err = fast_trainer_apply(
            t, &fast__kernel_approach, &p->alpha,
            (fast_vector[]){ fast_trainer_model(t),
                             { .x = (float *)(uintptr_t)x,
                               .shares = (double *)(uintptr_t)fast_msg_data(msg, 1),
                               .age = t->step > msg->words[0] ? t->step - msg->words[0] : 0 } });
    fast_msg_free(msg);
    return err;
}

/* Move w towards every model that has arrived; never waits. */
static fast_err apply_arrived(fast_trainer *t, const tree_node *p)
{
    fast_err err;

    FAST_ASSERT(p->peers != NULL);
    do
        err = apply_one(t, p, FAST_ANY, FAST_AT_ONCE);
    while (!err);
    return fast__is_peers(err) ? FAST_OK : err; /* no message, or no worker is left */
}

/* Wait for the models that the bound on staleness asks for. A neighbour that is down is no error,
 * and is not waited for. */
static fast_err apply_awaited(fast_trainer *t, const tree_node *p)
{
    FAST_ASSERT(p->newest != NULL);
    fast_actor_at(t->actor, t->step, "weights");
    for (int64_t i = 0; i < p->degree; i++) {
        const int64_t least = (t->step / p->sends[i] - p->slack) * p->sends[i];
        fast_err err = FAST_OK;

        while (!err && p->newest[i] != ENDED && p->newest[i] < least)
            err = apply_one(t, p, t->worker_ids[p->peers[i]], FAST_SOON);
        if (err && err != FAST_EPEER)
            return err;
    }
    return FAST_OK;
}

/* Pack w, encoded if there is a flow, behind its contributions, in a frozen buffer. *size_out is
 * the size of w in bytes. */
static fast_err pack(fast_trainer *t, fast_flow *flow, fast_buffer **out, size_t *size_out)
{
    const size_t shares_size = (size_t)fast_trainer_share_count(t) * sizeof(double);

    FAST_ASSERT(fast_trainer_model(t).shares != NULL);
    FAST_TRY(fast__floats_pack(t, flow, shares_size, t->w, t->count, out, size_out));
    memcpy(fast_buffer_data(*out), fast_trainer_model(t).shares, shares_size);
    fast_buffer_freeze(*out);
    return FAST_OK;
}

/* Send a packed model to neighbour i. A neighbour that is down is no error. */
static fast_err send_model(fast_trainer *t, const tree_node *p, int64_t i, fast_buffer *model,
                           size_t size)
{
    const size_t shares_size = (size_t)fast_trainer_share_count(t) * sizeof(double);
    fast_msg *msg = NULL;

    FAST_ASSERT(i >= 0 && i < p->degree);
    FAST_TRY(fast_msg_new(t->actor, FAST_TAG_MODEL, &msg));
    msg->words[0] = t->step;
    msg->words[1] = p->holds ? p->holds[i] : 1;
    fast_msg_add_view(msg, model, shares_size, size);
    fast_msg_add_view(msg, model, 0, shares_size);
    const fast_err err = fast_send(t->actor, t->worker_ids[p->peers[i]], &msg);
    if (err == FAST_EPEER && p->to)
        fast_flow_reset(p->to[i]);
    return err == FAST_EPEER ? FAST_OK : err;
}

/* Send w and its contributions to the parent, the children or both: one copy for all, or with
 * codecs one encoding for each, because neighbours hold different copies. */
static fast_err send_models(fast_trainer *t, const tree_node *p, bool up, bool down)
{
    fast_buffer *model = NULL;
    size_t size = 0;
    fast_err err = FAST_OK;

    FAST_ASSERT(up || down);
    for (int64_t i = 0; i < p->degree && !err; i++) {
        if (!(p->peers[i] < t->rank ? up : down))
            continue;
        if (p->to) {
            fast_buffer_free(model);
            model = NULL;
        }
        if (!model)
            err = pack(t, p->to ? p->to[i] : NULL, &model, &size);
        if (!err)
            err = send_model(t, p, i, model, size);
    }
    fast_buffer_free(model);
    return err;
}

/* Tell all neighbours that no model follows, so that none waits for one. */
static fast_err leave(fast_trainer *t, const tree_node *p)
{
    fast_err err = FAST_OK;

    FAST_ASSERT(p->newest != NULL);
    for (int64_t i = 0; i < p->degree && !err; i++) {
        fast_msg *msg = NULL;

        FAST_TRY(fast_msg_new(t->actor, FAST_TAG_MODEL, &msg));
        err = fast_send(t->actor, t->worker_ids[p->peers[i]], &msg);
        if (err == FAST_EPEER)
            err = FAST_OK;
    }
    return err;
}

/* Train to the end: apply arrived models, take a step, and send w at the periods of this level. */
static fast_err train(fast_trainer *t, const tree_node *p)
{
    FAST_ASSERT(p->up >= 1 && p->down >= 1);
    while (fast_trainer_next(t)) {
        FAST_TRY(apply_arrived(t, p));
        if (p->newest)
            FAST_TRY(apply_awaited(t, p));
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        FAST_TRY(fast_trainer_update(t, t->g, 1));
        t->centre_version = t->step;
        if (t->step % p->up == 0 || t->step % p->down == 0)
            FAST_TRY(send_models(t, p, t->step % p->up == 0, t->step % p->down == 0));
    }
    FAST_TRY(fast_trainer_end(t));
    return p->newest ? leave(t, p) : FAST_OK;
}

/* Only a worker with a slack waits for messages: worker 0 for those of its children. */
static void cost(const void *config, const fast_trainer *t, fast_cost *out)
{
    const tree_config *c = config;
    int64_t up = 1, down = 1;

    (void)t;
    FAST_ASSERT(c->slack >= -1);
    if (c->slack < 0 || period_of("up", c->up, 1, &up) || period_of("down", c->down, 1, &down))
        return;
    out->barrier = (double)((up > down ? up : down) * (c->slack + 1));
}

/* The program of a worker. The root's model represents the run. */
static fast_err worker(fast_trainer *t, const void *config)
{
    fast_err err;
    tree_node p;

    FAST_ASSERT(config != NULL);
    FAST_TRY(tree_node_init(t, config, &p));
    if (t->rank == 0)
        t->centre = t->w;
    err = open_flows(t, &p);
    if (!err && p.slack >= 0)
        err = bound_init(t, config, &p);
    if (!err)
        err = train(t, &p);
    tree_node_fini(&p);
    return err;
}

const fast_strategy fast__strategy_elastic_tree = {
    .name = "elastic_tree",
    .summary = "elastic averaging along a tree of workers, with a period for each level",
    .options = options,
    .config_size = sizeof(tree_config),
    .resumable = true,
    .uses_codec = true,
    .topology = "tree",
    .sends = "weights",
    .answers = "weights",
    .cost = cost,
    .check = check,
    .worker = worker,
};
