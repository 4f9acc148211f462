/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elastic_tree: TreeEASGD. All nodes of a tree are workers; springs run along its edges.
 *
 *     every up[level] steps:    send w to the parent
 *     every down[level] steps:  send w to the children
 *     a model x arrives:        w <- w - alpha (w - x)
 *     every step:               w <- rule(w, g)
 *
 * Zhang's thesis (2016) and the survey of Langer et al. describe it; neither says what waits for
 * what, so nothing waits: what has arrived is taken in before each gradient, in the order of
 * arrival. The periods belong to the sender's level, the root's is the first; a list "2x8" gives
 * the last one to all deeper levels too. alpha is 0.9 / (d + 1) by default, d the largest degree.
 * A message moves its receiver only: the sum of two neighbours is kept where both
 * send at the same time, and only then.
 *
 * On other topologies a neighbour of lower rank is a parent, one of higher rank a child. The model
 * of the run is the root's; if it is gone, the mean of those who are left. Whoever is down is
 * not sent to.
 *
 * On a simulated cluster whose computing takes no time (ideal) nothing arrives before the end.
 *
 * With codecs `codec` is of models to the parent and `codec_down` of those to the children. By one
 * that loses something the difference to what the other end holds travels. A message says whether
 * its sender holds anything of the receiver's: who restarted does not, and gets a whole model next.
 *
 * Cost per worker and step: 1/up models to the parent, 1/down to each child.
 */
#include "base/err.h"
#include "base/memory.h"
#include "strategy/kernels.h"
#include "strategy/strategy.h"

#include <stdlib.h>
#include <string.h>

enum { TAG_MODEL = 1 };

typedef struct tree_config {
    double alpha;  /* < 0: 0.9 / (degree + 1) */
    char up[64];   /* periods by level, "2x8" */
    char down[64]; /* likewise */
} tree_config;

static const fast_option options[] = {
    FAST_OPT_REAL(tree_config, alpha, "-1", -1, 1,
                  "how far a worker moves to a model that arrives; -1: 0.9 / (degree + 1)"),
    FAST_OPT_TEXT(tree_config, up, "4", NULL,
                  "steps between models to the parent, by level from the root: 2x8"),
    FAST_OPT_TEXT(tree_config, down, "4", NULL, "steps between models to the children, likewise"),
    FAST_OPT_END,
};

/* The period of a level from "2x8x32"; the last stands for all deeper ones. */
static fast_err period_of(const char *name, const char *text, int64_t level, int64_t *out)
{
    int64_t period = 0;

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

static fast_err check(const void *config, int64_t workers, const char *optimizer)
{
    const tree_config *c = config;
    int64_t period = 0;

    (void)workers;
    (void)optimizer;
    FAST_TRY(period_of("up", c->up, 0, &period));
    return period_of("down", c->down, 0, &period);
}

/* Where a worker is. */
typedef struct place {
    int64_t *peers;  /* [degree] ranks of neighbours */
    double *weights; /* [degree] of the topology, not used */
    int64_t degree;  /* of them */
    int64_t up;      /* period */
    int64_t down;    /* likewise */
    float alpha;     /* of its springs */
    fast_flow **to;  /* [2 degree]: to each neighbour, then from each; NULL: no codecs */
    bool *holds;     /* [degree]: something of that neighbour came */
} place;

/* Steps to the root, by parents: neighbours of the lowest rank. */
static int64_t level_of(const fast_topology *topology, int64_t rank, place *p)
{
    int64_t level = 0;
    double self;

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

static void place_fini(place *p)
{
    fast__free(p->peers);
    fast__free(p->weights);
    fast__free(p->to);
    fast__free(p->holds);
}

/* Flows to and from all neighbours, where the run has codecs. */
static fast_err open_flows(fast_trainer *t, place *p)
{
    if (fast_trainer_codec_fit(t) == FAST_FIT_NONE)
        return FAST_OK;
    FAST_TRY(fast__alloc("flows of neighbours", 2 * p->degree, sizeof(fast_flow *), &p->to));
    FAST_TRY(fast__alloc("models that came", p->degree, sizeof *p->holds, &p->holds));
    for (int64_t i = 0; i < p->degree; i++) {
        const bool child = p->peers[i] > t->rank;
        const fast_flow_options to = { .number = i, .values = true, .down = child };
        const fast_flow_options from = {
            .number = p->degree + i, .values = true, .down = !child, .decodes = true
        };

        FAST_TRY(fast_trainer_flow(t, &to, &p->to[i]));
        FAST_TRY(fast_trainer_flow(t, &from, &p->to[p->degree + i]));
        fast_flow_reset(p->to[i]); /* what went there in another call need not have come */
    }
    return FAST_OK;
}

static fast_err place_init(const fast_trainer *t, const tree_config *c, place *p)
{
    const int64_t most = fast_topology_degree_max(t->topology);
    int64_t level;
    double self;
    fast_err err;

    *p = (place){ .alpha = (float)(c->alpha < 0 ? 0.9 / (double)(most + 1) : c->alpha) };
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
        place_fini(p);
    return err;
}

/* The model of a message; *out is NULL where it is a difference to one that did not come. */
static fast_err model_of(fast_trainer *t, const place *p, const fast_msg *msg, const float **out)
{
    const int64_t rank = fast_actor_index(t->actor, msg->from);
    int64_t i = 0;

    *out = fast_msg_data(msg, 0);
    if (!p->to)
        return FAST_OK;
    while (i < p->degree && p->peers[i] != rank)
        i++;
    FAST_ASSERT(i < p->degree);
    if (msg->words[1] == 0) /* it holds nothing of this one's */
        fast_flow_reset(p->to[i]);
    const fast_err err =
        fast_trainer_decode_values(t, p->to[p->degree + i], *out, msg->parts[0].size, out);
    p->holds[i] = p->holds[i] || !err;
    if (err != FAST_EFORMAT)
        return err;
    *out = NULL;
    return FAST_OK;
}

/* Take in what has arrived. */
static fast_err take(fast_trainer *t, const place *p)
{
    for (;;) {
        fast_msg *msg = NULL;
        const float *x = NULL;
        fast_err err = fast_receive(t->actor, FAST_ANY, TAG_MODEL, FAST_AT_ONCE, &msg);

        if (err == FAST_ETIMEDOUT || err == FAST_EPEER) /* nothing there, or nobody */
            return FAST_OK;
        FAST_TRY(err);
        FAST_ASSERT(msg->part_count == 2);
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

/* w, by a flow or as it is, and behind it what it carries, in a frozen buffer; *size_out are the
 * bytes of w. */
static fast_err pack(fast_trainer *t, fast_flow *flow, fast_buffer **out, size_t *size_out)
{
    const size_t carried = (size_t)t->workers * sizeof(double);
    size_t size = (size_t)t->count * sizeof *t->w;
    fast_buffer *model = NULL;
    fast_err err = FAST_OK;

    FAST_TRY(fast_buffer_new(t->actor, carried + (flow ? fast_flow_bound(flow) : size), &model));
    char *data = fast_buffer_data(model);
    memcpy(data, fast_trainer_model(t).shares, carried);
    if (flow)
        err = fast_trainer_encode(t, flow, t->w, data + carried, &size);
    else
        memcpy(data + carried, t->w, size);
    if (err) {
        fast_buffer_free(model);
        return err;
    }
    fast_buffer_freeze(model);
    *out = model;
    *size_out = size;
    return FAST_OK;
}

/* Send a packed model to a neighbour; who is down is not missed. */
static fast_err tell_one(fast_trainer *t, const place *p, int64_t i, fast_buffer *model,
                         size_t size)
{
    const size_t carried = (size_t)t->workers * sizeof(double);
    fast_msg *msg = NULL;

    FAST_TRY(fast_msg_new(t->actor, TAG_MODEL, &msg));
    msg->words[0] = t->step;
    msg->words[1] = p->holds ? p->holds[i] : 1;
    fast_msg_add_view(msg, model, carried, size);
    fast_msg_add_view(msg, model, 0, carried);
    const fast_err err = fast_send(t->actor, t->worker_ids[p->peers[i]], &msg);
    if (err == FAST_EPEER && p->to)
        fast_flow_reset(p->to[i]);
    return err == FAST_EPEER ? FAST_OK : err;
}

/* Send w, and what it carries, to the neighbours of one side: one copy, shared by all, or with
 * codecs one for each, since they hold different things. */
static fast_err tell(fast_trainer *t, const place *p, bool up, bool down)
{
    fast_buffer *model = NULL;
    size_t size = 0;
    fast_err err = FAST_OK;

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
            err = tell_one(t, p, i, model, size);
    }
    fast_buffer_free(model);
    return err;
}

static fast_err train(fast_trainer *t, const place *p)
{
    while (fast_trainer_next(t)) {
        FAST_TRY(take(t, p));
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        FAST_TRY(fast_trainer_update(t, t->g, 1));
        t->centre_version = t->step;
        if (t->step % p->up == 0 || t->step % p->down == 0)
            FAST_TRY(tell(t, p, t->step % p->up == 0, t->step % p->down == 0));
    }
    return fast_trainer_end(t);
}

static fast_err worker(fast_trainer *t, const void *config)
{
    fast_err err;
    place p;

    FAST_TRY(place_init(t, config, &p));
    if (t->rank == 0)
        t->centre = t->w;
    err = open_flows(t, &p);
    if (!err)
        err = train(t, &p);
    place_fini(&p);
    return err;
}

const fast_strategy fast__strategy_elastic_tree = {
    .name = "elastic_tree",
    .summary = "elastic averaging along a tree of workers, with a period for each level",
    .options = options,
    .config_size = sizeof(tree_config),
    .uses_codec = true,
    .topology = "tree",
    .sends = "weights",
    .answers = "weights",
    .check = check,
    .worker = worker,
};
