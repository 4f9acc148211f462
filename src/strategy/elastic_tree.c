/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elastic_tree: TreeEASGD. All nodes of a tree are workers; springs run along its edges.
 *
 *     every up[level] steps:    send w to the parent
 *     every down[level] steps:  send w to the children
 *     a model x arrives:        w <- w - alpha (w - x)
 *     every step:               w <- rule(w, g)
 *
 * Zhang's thesis (2016) and the survey of Langer et al. describe it. Neither says which messages
 * are waited for, so no worker waits: models that have arrived are applied before each gradient, in
 * the order of arrival. The periods belong to the sender's level, the root's is the first; a list
 * "2x8" gives the last period to all deeper levels. alpha is 0.9 / (d + 1) by default, d the
 * largest degree. A message moves its receiver only: the sum of two neighbours is conserved only if
 * both send at the same time.
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
#include "trainer/remember.h"

#include <stdlib.h>
#include <string.h>

typedef struct tree_config {
    double alpha;  /* constant of the springs; < 0: 0.9 / (degree + 1) */
    char up[64];   /* periods of models to the parent by level, "2x8" */
    char down[64]; /* periods of models to the children by level, "2x8" */
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
} tree_node;

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

/* Find the neighbours and the periods of this worker's level. */
static fast_err tree_node_init(const fast_trainer *t, const tree_config *c, tree_node *p)
{
    const int64_t most = fast_topology_degree_max(t->topology);
    int64_t level;
    double self;
    fast_err err;

    FAST_ASSERT(t->topology != NULL && most >= 0);
    *p = (tree_node){ .alpha = (float)(c->alpha < 0 ? 0.9 / (double)(most + 1) : c->alpha) };
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

/* Decode the model of a message. *out is NULL if it is a difference to a copy that is missing. */
static fast_err model_of(fast_trainer *t, const tree_node *p, const fast_msg *msg,
                         const float **out)
{
    const int64_t rank = fast_actor_index(t->actor, msg->from);
    int64_t i = 0;

    *out = fast_msg_data(msg, 0);
    if (!p->to)
        return FAST_OK;
    while (i < p->degree && p->peers[i] != rank)
        i++;
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
    const int64_t rank = fast_actor_index(t->actor, msg->from);
    bool known = !p->to;

    FAST_ASSERT(t->count > 0);
    for (int64_t i = 0; i < p->degree; i++)
        known = known || p->peers[i] == rank;
    if (!known || msg->part_count != 2 ||
        msg->parts[1].size != (size_t)fast_trainer_share_count(t) * sizeof(double) ||
        (!p->to && msg->parts[0].size != (size_t)t->count * sizeof(float)))
        return fast__fail(FAST_EFORMAT, "elastic_tree: worker %lld sent no model", (long long)rank);
    return FAST_OK;
}

/* Move w towards every model that has arrived; never waits. */
static fast_err apply_arrived(fast_trainer *t, const tree_node *p)
{
    for (;;) {
        fast_msg *msg = NULL;
        const float *x = NULL;
        fast_err err = fast_receive(t->actor, FAST_ANY, FAST_TAG_MODEL, FAST_AT_ONCE, &msg);

        if (err == FAST_ETIMEDOUT || err == FAST_EPEER) /* no message, or no worker is left */
            return FAST_OK;
        FAST_TRY(err);
        err = check_model(t, p, msg);
        if (!err)
            err = model_of(t, p, msg, &x);
        if (!err && x)
            err = fast_trainer_apply(
                t, &fast__kernel_approach, &p->alpha,
                (fast_vector[]){
                    fast_trainer_model(t),
                    { .x = (float *)(uintptr_t)x,
                      .shares = (double *)(uintptr_t)fast_msg_data(msg, 1),
                      .age = t->step > msg->words[0] ? t->step - msg->words[0] : 0 } });
        fast_msg_free(msg);
        FAST_TRY(err);
    }
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

/* Train to the end: apply arrived models, take a step, and send w at the periods of this level. */
static fast_err train(fast_trainer *t, const tree_node *p)
{
    FAST_ASSERT(p->up >= 1 && p->down >= 1);
    while (fast_trainer_next(t)) {
        FAST_TRY(apply_arrived(t, p));
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        FAST_TRY(fast_trainer_update(t, t->g, 1));
        t->centre_version = t->step;
        if (t->step % p->up == 0 || t->step % p->down == 0)
            FAST_TRY(send_models(t, p, t->step % p->up == 0, t->step % p->down == 0));
    }
    return fast_trainer_end(t);
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
    .check = check,
    .worker = worker,
};
