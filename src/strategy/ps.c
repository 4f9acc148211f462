/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ps: parameter servers. The model is a space; its owners apply the update rule.
 *
 *     worker i, round c:  w_i <- get(w) once every worker has finished c - s rounds
 *                         g_i <- gradient at w_i;  add(g_i);  tick(c + 1)
 *     server:             of every n gradients that arrive:  w <- rule(w, scale 1/n sum g)
 *
 *   slack s      0: bulk synchronous (BSP); > 0: stale synchronous (SSP, Ho et al. 2013: Petuum,
 *                Cui et al., GeePS); -1: unbounded (Downpour, Dean et al. 2012)
 *   aggregate n  workers (BSP), 1 (asynchronous), workers / k (k-softsync, Rudra)
 *   fetch, push  steps between reads and between writes; gradients between two writes are summed
 *   staleness    scale of an update that is d updates late: none: 1; inverse: 1 / max(1, d), as in
 *                staleness-aware async-SGD (Zhang et al. 2016) and DynSGD (Jiang et al. 2017)
 *   reject       updates that are later than this are dropped
 *
 * With s = 0 and n = workers the gradients of a round are summed in the canonical order, so that it
 * is `allreduce` to the bit. Staleness is counted in updates of the model.
 *
 * Cost per worker and step: one add and one get of the model, cut over the servers; the servers
 * move P times that. Memory at a server: its range, the rule's state, and with s = 0 a range for
 * each worker.
 */
#include "base/err.h"
#include "base/memory.h"
#include "comm/sum.h"
#include "strategy/strategy.h"
#include "tensor/vector.h"

#include <string.h>

typedef struct ps_config {
    int64_t servers;   /* 0: one for each worker */
    int64_t slack;     /* -1: unbounded */
    int64_t aggregate; /* gradients in an update; 0: all workers' if slack is 0, else 1 */
    int64_t fetch;     /* steps between reads */
    int64_t push;      /* steps between writes */
    int staleness;     /* 0 none, 1 inverse */
    int64_t reject;    /* -1: none */
} ps_config;

static const fast_option options[] = {
    FAST_OPT_INT(ps_config, servers, "1", 0, 65536,
                 "servers that share the model; 0: one for each worker"),
    FAST_OPT_INT(ps_config, slack, "-1", -1, 1e12,
                 "rounds that a worker may be ahead of the slowest; 0: synchronous, -1: any"),
    FAST_OPT_INT(ps_config, aggregate, "0", 0, 65536,
                 "gradients in an update; 0: all workers' with slack 0, else 1"),
    FAST_OPT_INT(ps_config, fetch, "1", 1, 1e12, "steps between reads of the model"),
    FAST_OPT_INT(ps_config, push, "1", 1, 1e12, "steps between writes of gradients"),
    FAST_OPT_CHOICE(ps_config, staleness, "none", "none|inverse",
                    "how much a late update counts: whole, or one over its staleness"),
    FAST_OPT_INT(ps_config, reject, "-1", -1, 1e12,
                 "drop updates that are more updates late than this; -1: none"),
    FAST_OPT_END,
};

static int64_t servers(const void *config, int64_t workers)
{
    const ps_config *c = config;

    return c->servers ? c->servers : workers;
}

/* Gradients that make an update. */
static int64_t batch_of(const ps_config *c, int64_t workers)
{
    return c->aggregate ? c->aggregate : c->slack == 0 ? workers : 1;
}

static fast_err check(const void *config, int64_t workers, const char *optimizer)
{
    const ps_config *c = config;

    (void)optimizer;
    if (c->slack == 0 && batch_of(c, workers) != workers)
        return fast__fail(FAST_EINVAL,
                          "ps: with slack=0 a round is one update of %lld gradients; leave out "
                          "aggregate=%lld",
                          (long long)workers, (long long)c->aggregate);
    if (c->slack == 0 && workers > FAST_SUM_MAX)
        return fast__fail(FAST_EINVAL, "ps: slack=0 takes at most %d workers, not %lld",
                          FAST_SUM_MAX, (long long)workers);
    if (c->slack == 0 && (c->fetch != 1 || c->push != 1))
        return fast__fail(FAST_EINVAL, "ps: with slack=0 every step reads and writes; leave out "
                                       "fetch and push");
    return FAST_OK;
}

/* What the owner of a range keeps. Guarded by the space: one update of a range at a time. */
typedef struct owner {
    fast_trainer *t;
    const ps_config *config;
    float **round;   /* slack 0: [workers] gradients of the round; else NULL */
    float *sum;      /* of the gradients that wait for an update; NULL where none does */
    int64_t pending; /* gradients in it */
    int64_t updates; /* made */
} owner;

/* Keep a gradient for the round; the last one makes the sum, in the canonical order. */
static void collect_round(owner *o, const fast_space_update *u)
{
    const int64_t workers = o->t->workers;

    FAST_ASSERT(u->from >= 0 && u->from < workers);
    memcpy(o->round[u->from], u->x, (size_t)u->count * sizeof *u->x);
    if (++o->pending == workers)
        fast__sum((const float *const *)o->round, workers, u->count, o->sum);
}

static bool apply(void *ctx, const fast_space_update *u, float *w)
{
    owner *o = ctx;
    const ps_config *c = o->config;
    const int64_t n = batch_of(c, o->t->workers);
    const int64_t late = u->version / n - u->read / n;
    const float scale = c->staleness == 1 && late > 1 ? 1.0f / (float)late : 1.0f;

    if (u->tensor != 0) { /* state is added as it is */
        fast__vector_add(u->count, u->x, w);
        return true;
    }
    if (c->reject >= 0 && late > c->reject)
        return false;
    fast_trainer_staleness(o->t, late);
    if (c->slack == 0) {
        collect_round(o, u);
    } else if (n > 1) {
        fast__vector_axpy(u->count, scale, u->x, o->sum);
        o->pending++;
    } else {
        fast_trainer_update_range(o->t, ++o->updates, fast_trainer_lr(o->t, u->clock), w, u->x,
                                  scale, u->offset, u->count);
        return true;
    }
    if (o->pending == n) {
        fast_trainer_update_range(o->t, ++o->updates, fast_trainer_lr(o->t, u->clock), w, o->sum,
                                  1.0f / (float)n, u->offset, u->count);
        memset(o->sum, 0, (size_t)u->count * sizeof *o->sum);
        o->pending = 0;
    }
    return true;
}

/* The space of the model, alike at everyone: w, and what is not trained. */
static fast_err open_space(fast_trainer *t, owner *o, fast_space **out)
{
    const fast_space_tensor tensors[2] = { { "w", t->count, t->w }, { "s", t->state_count, t->s } };
    const fast_space_options space = { .name = "model",
                                       .tensors = tensors,
                                       .tensor_count = t->state_count > 0 ? 2 : 1,
                                       .owners = t->server_ids,
                                       .owner_count = t->servers,
                                       .writers = t->worker_ids,
                                       .writer_count = t->workers,
                                       .apply = apply,
                                       .ctx = o };

    return fast_space_open(t->actor, &space, out);
}

static void owner_fini(owner *o)
{
    for (int64_t i = 0; o->round && i < o->t->workers; i++)
        fast__free(o->round[i]);
    fast__free(o->round);
    fast__free(o->sum);
}

/* Room for the gradients that wait for an update: of the largest range that a server may hold. */
static fast_err owner_init(fast_trainer *t, const ps_config *c, owner *o)
{
    const int64_t room = (t->count + t->servers - 1) / t->servers;
    fast_err err = FAST_OK;

    *o = (owner){ .t = t, .config = c };
    if (batch_of(c, t->workers) > 1 || c->slack == 0)
        err = fast__alloc("the sum of gradients", room, sizeof *o->sum, &o->sum);
    if (!err && c->slack == 0)
        err = fast__alloc("a round", t->workers, sizeof *o->round, &o->round);
    for (int64_t i = 0; o->round && i < t->workers && !err; i++)
        err = fast__alloc("a round's gradients", room, sizeof **o->round, &o->round[i]);
    if (err)
        owner_fini(o);
    return err;
}

static fast_err server(fast_trainer *t, const void *config)
{
    fast_space *space = NULL;
    fast_err err;
    owner o;

    FAST_TRY(owner_init(t, config, &o));
    err = open_space(t, &o, &space);
    if (!err)
        err = fast_space_serve(space, INT64_MAX);
    fast_space_close(space);
    owner_fini(&o);
    return err;
}

/* A worker's memory besides its replica. */
typedef struct client {
    fast_space *space;
    float *sum;  /* gradients since the last push; NULL where each is pushed */
    float *seen; /* the state that was read; NULL without any */
} client;

static fast_err fetch(fast_trainer *t, const client *cl, int64_t clock_min)
{
    fast_space_read read = { .clock_min = clock_min };

    fast_actor_at(t->actor, t->step, "weights");
    FAST_TRY(fast_space_get(cl->space, 0, t->w, &read, FAST_SOON));
    if (!cl->seen)
        return FAST_OK;
    FAST_TRY(fast_space_get(cl->space, 1, t->s, NULL, FAST_SOON));
    memcpy(cl->seen, t->s, (size_t)t->state_count * sizeof *t->s);
    return FAST_OK;
}

/* Send what was learned since the last push. Of the state, each worker's change counts 1/P. */
static fast_err push(fast_trainer *t, const client *cl)
{
    fast_actor_at(t->actor, t->step, "gradient");
    FAST_TRY(fast_space_add(cl->space, 0, cl->sum ? cl->sum : t->g, FAST_SOON));
    if (cl->sum)
        memset(cl->sum, 0, (size_t)t->count * sizeof *cl->sum);
    if (!cl->seen)
        return FAST_OK;
    for (int64_t i = 0; i < t->state_count; i++)
        cl->seen[i] = (t->s[i] - cl->seen[i]) / (float)t->workers;
    FAST_TRY(fast_space_add(cl->space, 1, cl->seen, FAST_SOON));
    memcpy(cl->seen, t->s, (size_t)t->state_count * sizeof *t->s);
    return FAST_OK;
}

static fast_err train(fast_trainer *t, const ps_config *c, const client *cl)
{
    while (fast_trainer_next(t)) {
        if (t->step % c->fetch == 0)
            FAST_TRY(fetch(t, cl, c->slack < 0 ? 0 : t->step - c->slack));
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        if (cl->sum)
            fast__vector_add(t->count, t->g, cl->sum);
        if (t->step % c->push == 0 || t->step == t->step_count)
            FAST_TRY(push(t, cl));
        FAST_TRY(fast_space_tick(cl->space, t->step));
    }
    FAST_TRY(fast_trainer_end(t));
    return fetch(t, cl, c->slack < 0 ? 0 : t->step - c->slack);
}

static fast_err worker(fast_trainer *t, const void *config)
{
    const ps_config *c = config;
    client cl = { NULL, NULL, NULL };
    fast_err err = FAST_OK;

    if (c->push > 1)
        err = fast__alloc("gradients to push", t->count, sizeof *cl.sum, &cl.sum);
    if (!err && t->state_count > 0)
        err = fast__alloc("the state read", t->state_count, sizeof *cl.seen, &cl.seen);
    if (!err)
        err = open_space(t, NULL, &cl.space);
    if (!err)
        err = train(t, c, &cl);
    fast_space_close(cl.space);
    fast__free(cl.sum);
    fast__free(cl.seen);
    return err;
}

const fast_strategy fast__strategy_ps = {
    .name = "ps",
    .summary = "parameter servers: synchronous, bounded staleness, or asynchronous",
    .options = options,
    .config_size = sizeof(ps_config),
    .sends = "gradients",
    .servers = servers,
    .check = check,
    .worker = worker,
    .server = server,
};
