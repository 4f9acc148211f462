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
 *   aggregate n  workers (BSP), 1 (asynchronous)
 *   softsync k   n = workers / k (k-softsync, Rudra: Gupta et al. 2016)
 *   backup b     with s = 0: the first workers - b gradients of a round are its update, the others
 *                are dropped, and who was late goes on with the newest model (Chen et al. 2016)
 *   fetch, push  steps between reads and between writes; gradients between two writes are summed
 *   send         what a write is: gradients: their sum; differences: w_i - w_read after `push`
 *                local steps by the worker's rule, which the server adds; mean: the same by `push`
 *                (AGN, ADAG: Hermans et al. 2017)
 *   staleness    scale of an update that is d updates late: none: 1; inverse: 1 / max(1, d), as in
 *                staleness-aware async-SGD (Zhang et al. 2016) and DynSGD (Jiang et al. 2017);
 *                workers: 1 / workers, whatever d is (ConSGD, likewise)
 *   reject       updates that are later than this are dropped
 *   filter v     of the gradients since the last push only those elements are sent that would move
 *                their weight by more than the part v / sqrt(t) at step t; the others wait and add
 *                up, until the last push takes all (significance filters: Li et al. 2014; Gaia:
 *                Hsieh et al. 2017). The vector that is sent is dense, with zeros
 *   compensate   DC-ASGD's lambda, constant or (decay > 0) adaptive: compensate.c
 *
 * With s = 0 and n = workers the gradients of a round are summed in the canonical order, so that it
 * is `allreduce` to the bit; with backup workers those that came, in the order of their ranks.
 * Staleness is counted in updates of the model.
 *
 * Cost per worker and step: one add and one get of the model, cut over the servers; the servers
 * move P times that. Memory at a server: its range, the rule's state, and with s = 0 a range for
 * each worker.
 */
#include "base/err.h"
#include "base/memory.h"
#include "comm/sum.h"
#include "strategy/compensate.h"
#include "strategy/strategy.h"
#include "tensor/vector.h"

#include <math.h>
#include <string.h>

/* Versions by which a gradient may be late, for each worker, and still be compensated exactly. */
enum { PAST = 2 };

typedef struct ps_config {
    int64_t servers;   /* 0: one for each worker */
    int64_t slack;     /* -1: unbounded */
    int64_t aggregate; /* gradients in an update; 0: all workers' if slack is 0, else 1 */
    int64_t softsync;  /* n of n-softsync; 0: by aggregate */
    int64_t backup;    /* workers whose gradients a round does not wait for */
    int64_t fetch;     /* steps between reads */
    int64_t push;      /* steps between writes */
    int send;          /* 0 gradients, 1 differences, 2 mean */
    int staleness;     /* 0 none, 1 inverse, 2 workers */
    int64_t reject;    /* -1: none */
    double filter;     /* smallest relative change that is sent at step 1; 0: all */
    double compensate; /* DC-ASGD's lambda; 0: none */
    double decay;      /* 0: lambda is constant */
} ps_config;

static const fast_option options[] = {
    FAST_OPT_INT(ps_config, servers, "1", 0, 65536,
                 "servers that share the model; 0: one for each worker"),
    FAST_OPT_INT(ps_config, slack, "-1", -1, 1e12,
                 "rounds that a worker may be ahead of the slowest; 0: synchronous, -1: any"),
    FAST_OPT_INT(ps_config, aggregate, "0", 0, 65536,
                 "gradients in an update; 0: all workers' with slack 0, else 1"),
    FAST_OPT_INT(ps_config, softsync, "0", 0, 65536,
                 "workers / N gradients in an update (N-softsync); 0: by aggregate"),
    FAST_OPT_INT(ps_config, backup, "0", 0, 65536,
                 "slack 0: workers whose gradients a round does not wait for"),
    FAST_OPT_INT(ps_config, fetch, "1", 1, 1e12, "steps between reads of the model"),
    FAST_OPT_INT(ps_config, push, "1", 1, 1e12, "steps between writes of gradients"),
    FAST_OPT_CHOICE(ps_config, send, "gradients", "gradients|differences|mean",
                    "what is written: sums of gradients, differences of weights after local "
                    "steps, or those by the number of steps"),
    FAST_OPT_CHOICE(ps_config, staleness, "none", "none|inverse|workers",
                    "how much an update counts: whole, one over its staleness, or one over the "
                    "number of workers"),
    FAST_OPT_INT(ps_config, reject, "-1", -1, 1e12,
                 "drop updates that are more updates late than this; -1: none"),
    FAST_OPT_REAL(ps_config, filter, "0", 0, 1e6,
                  "keep back what would move a weight by a smaller part than this, by the root of "
                  "the step; 0: nothing"),
    FAST_OPT_REAL(ps_config, compensate, "0", 0, 1e6,
                  "correct late gradients to first order with this weight (DC-ASGD); 0: not"),
    FAST_OPT_REAL(
        ps_config, decay, "0", 0, 0.9999999,
        "compensate: makes the weight adaptive by a mean of squares that keeps this part"),
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
    if (c->softsync)
        return c->softsync < workers ? workers / c->softsync : 1;
    return c->aggregate ? c->aggregate : c->slack == 0 ? workers - c->backup : 1;
}

/* Of the members that are not synchronous. */
static fast_err check_asynchronous(const ps_config *c)
{
    if (c->backup > 0)
        return fast__fail(FAST_EINVAL, "ps: backup=%lld is of rounds; give slack=0 too",
                          (long long)c->backup);
    if (c->softsync > 0 && c->aggregate > 0)
        return fast__fail(FAST_EINVAL,
                          "ps: softsync=%lld and aggregate=%lld say the same thing; "
                          "give one of them",
                          (long long)c->softsync, (long long)c->aggregate);
    if (c->send != 0 && c->fetch != c->push)
        return fast__fail(FAST_EINVAL,
                          "ps: differences are to the weights that were read: fetch=%lld and "
                          "push=%lld must be equal",
                          (long long)c->fetch, (long long)c->push);
    if (c->send != 0 && c->compensate > 0)
        return fast__fail(FAST_EINVAL, "ps: compensate corrects gradients; leave out send");
    return FAST_OK;
}

static fast_err check(const void *config, int64_t workers, const char *optimizer)
{
    const ps_config *c = config;

    (void)optimizer;
    if (c->filter > 0 && c->send != 0)
        return fast__fail(FAST_EINVAL, "ps: filter is of gradients; leave out send");
    if (c->decay > 0 && c->compensate == 0)
        return fast__fail(FAST_EINVAL, "ps: decay=%g is of compensate; give that too", c->decay);
    if (c->slack != 0)
        return check_asynchronous(c);
    if (c->backup >= workers)
        return fast__fail(FAST_EINVAL, "ps: backup=%lld leaves none of %lld workers",
                          (long long)c->backup, (long long)workers);
    if (c->softsync > 0 || batch_of(c, workers) != workers - c->backup)
        return fast__fail(FAST_EINVAL,
                          "ps: with slack=0 a round is one update of %lld gradients; leave out "
                          "%s=%lld",
                          (long long)(workers - c->backup), c->softsync ? "softsync" : "aggregate",
                          (long long)(c->softsync ? c->softsync : c->aggregate));
    if (c->send != 0 || c->compensate > 0)
        return fast__fail(FAST_EINVAL, "ps: with slack=0 no update is late; leave out %s",
                          c->send ? "send" : "compensate");
    if (workers > FAST_SUM_MAX)
        return fast__fail(FAST_EINVAL, "ps: slack=0 takes at most %d workers, not %lld",
                          FAST_SUM_MAX, (long long)workers);
    if (c->fetch != 1 || c->push != 1)
        return fast__fail(FAST_EINVAL, "ps: with slack=0 every step reads and writes; leave out "
                                       "fetch and push");
    return FAST_OK;
}

/* What the owner of a range keeps. Guarded by the space: one update of a range at a time. */
typedef struct owner {
    fast_trainer *t;
    const ps_config *config;
    float **round;      /* slack 0: [workers] gradients of the round; else NULL */
    bool *came;         /* slack 0: [workers] whose gradients came; else NULL */
    const float **list; /* slack 0: [workers] those that came, in the order of ranks */
    fast_past past;     /* the last models, where late gradients are compensated */
    float *sum;         /* of the gradients that wait for an update; NULL where none does */
    int64_t pending;    /* gradients in it */
    int64_t updates;    /* made */
} owner;

/* Keep a gradient for the round; the last one makes the sum, in the canonical order. */
static void collect_round(owner *o, const fast_space_update *u, int64_t n)
{
    const int64_t workers = o->t->workers;
    int64_t used = 0;

    FAST_ASSERT(u->from < workers && !o->came[u->from]);
    memcpy(o->round[u->from], u->x, (size_t)u->count * sizeof *u->x);
    o->came[u->from] = true;
    if (++o->pending < n)
        return;
    for (int64_t i = 0; i < workers; i++)
        if (o->came[i])
            o->list[used++] = o->round[i];
    fast__sum(o->list, used, u->count, o->sum);
    memset(o->came, 0, (size_t)workers * sizeof *o->came);
}

/* Change the model by the sum of n writes, or by one. */
static void change(owner *o, const fast_space_update *u, float *w, const float *x, float scale)
{
    /* Rounds count themselves, because a worker may miss some. */
    const int64_t step = o->config->slack == 0 ? o->updates : u->clock;

    o->updates++;
    if (o->config->send == 0)
        fast_trainer_update_range(o->t, o->updates, fast_trainer_lr(o->t, step), w, x, scale,
                                  u->offset, u->count);
    else
        fast__vector_axpy(u->count, scale, x, w);
}

/* How much an update counts that is so many updates late. */
static float scale_of(const owner *o, int64_t late)
{
    if (o->config->staleness == 2)
        return 1.0f / (float)o->t->workers;
    return o->config->staleness == 1 && late > 1 ? 1.0f / (float)late : 1.0f;
}

static bool apply(void *ctx, const fast_space_update *u, float *w)
{
    owner *o = ctx;
    const ps_config *c = o->config;
    const int64_t n = batch_of(c, o->t->workers);
    const int64_t late = u->version / n - u->read / n;
    const float scale = scale_of(o, late);
    const float *x = u->x;

    if (u->tensor != 0) { /* state is added as it is */
        fast__vector_add(u->count, u->x, w);
        return true;
    }
    if (c->reject >= 0 && late > c->reject)
        return false;
    /* With backup workers a round takes one gradient of each, and none of an older round. */
    if (c->slack == 0 && (late > 0 || o->came[u->from]))
        return false;
    fast_trainer_staleness(o->t, late);
    if (c->compensate > 0) {
        const fast_compensation how = { c->compensate, c->decay };

        x = fast__past_compensate(&o->past, &how, u->read, u->version, u->count, x, w);
    }
    if (n == 1 && c->slack != 0) {
        change(o, u, w, x, scale);
        return true;
    }
    if (c->slack == 0) {
        collect_round(o, u, n);
    } else {
        fast__vector_axpy(u->count, scale, x, o->sum);
        o->pending++;
    }
    if (o->pending == n) {
        change(o, u, w, o->sum, 1.0f / (float)n);
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
    fast__free(o->came);
    fast__free(o->list);
    fast__free(o->sum);
    fast__past_fini(&o->past);
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
    if (!err && c->slack == 0)
        err = fast__alloc("a round's senders", t->workers, sizeof *o->came, &o->came);
    if (!err && c->slack == 0)
        err = fast__alloc("a round's list", t->workers, sizeof *o->list, &o->list);
    for (int64_t i = 0; o->round && i < t->workers && !err; i++)
        err = fast__alloc("a round's gradients", room, sizeof **o->round, &o->round[i]);
    if (!err && c->compensate > 0) {
        const fast_compensation how = { c->compensate, c->decay };

        err = fast__past_init(&how, PAST * t->workers, room, &o->past);
    }
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
    float *sum;    /* gradients since the last push; NULL where each is pushed */
    float *part;   /* what of it is sent; NULL without a filter */
    float *base;   /* the weights that were read, where differences are sent; else NULL */
    int64_t round; /* slack 0: updates that the last read held */
    float *seen;   /* the state that was read; NULL without any */
} client;

/* What a read waits for: with backup workers the next update, whoever made it; else the slowest
 * worker, within the slack. */
static fast_space_read wish(const fast_trainer *t, const ps_config *c, const client *cl)
{
    if (c->backup > 0)
        return (fast_space_read){ .version_min = (cl->round + 1) * batch_of(c, t->workers) };
    return (fast_space_read){ .clock_min = c->slack < 0 ? 0 : t->step - c->slack };
}

static fast_err fetch(fast_trainer *t, const ps_config *c, client *cl)
{
    fast_space_read read = wish(t, c, cl);

    fast_actor_at(t->actor, t->step, "weights");
    FAST_TRY(fast_space_get(cl->space, 0, t->w, &read, FAST_SOON));
    cl->round = read.version / batch_of(c, t->workers);
    if (cl->base)
        memcpy(cl->base, t->w, (size_t)t->count * sizeof *t->w);
    if (!cl->seen)
        return FAST_OK;
    FAST_TRY(fast_space_get(cl->space, 1, t->s, NULL, FAST_SOON));
    memcpy(cl->seen, t->s, (size_t)t->state_count * sizeof *t->s);
    return FAST_OK;
}

/* What was learned since the last read, in place of it: the difference, or its mean by step. */
static const float *difference(const fast_trainer *t, const ps_config *c, const client *cl,
                               int64_t steps)
{
    const float scale = c->send == 2 ? 1.0f / (float)steps : 1.0f;

    for (int64_t i = 0; i < t->count; i++)
        cl->base[i] = scale * (t->w[i] - cl->base[i]);
    return cl->base;
}

/* Of the gradients that wait, take those that matter to their weights, or all at the end. The rate
 * stands for the rule: momentum and the like are the server's. */
static const float *significant(const fast_trainer *t, const ps_config *c, const client *cl)
{
    const bool last = t->step == t->step_count;
    const float bound = (float)(c->filter / sqrt((double)t->step));
    const float lr = (float)t->lr;

    for (int64_t i = 0; i < t->count; i++) {
        const bool sent = last || fabsf(lr * cl->sum[i]) >= bound * fabsf(t->w[i]);

        cl->part[i] = sent ? cl->sum[i] : 0;
        cl->sum[i] = sent ? 0 : cl->sum[i];
    }
    return cl->part;
}

/* Send what was learned since the last push. Of the state, each worker's change counts 1/P. */
static fast_err push(fast_trainer *t, const ps_config *c, const client *cl)
{
    const int64_t steps = t->step % c->push ? t->step % c->push : c->push;
    const float *x = cl->base   ? difference(t, c, cl, steps)
                     : cl->part ? significant(t, c, cl)
                     : cl->sum  ? cl->sum
                                : t->g;

    fast_actor_at(t->actor, t->step, cl->base ? "difference" : "gradient");
    FAST_TRY(fast_space_add(cl->space, 0, x, FAST_SOON));
    if (cl->sum && !cl->part)
        memset(cl->sum, 0, (size_t)t->count * sizeof *cl->sum);
    if (!cl->seen)
        return FAST_OK;
    for (int64_t i = 0; i < t->state_count; i++)
        cl->seen[i] = (t->s[i] - cl->seen[i]) / (float)t->workers;
    FAST_TRY(fast_space_add(cl->space, 1, cl->seen, FAST_SOON));
    memcpy(cl->seen, t->s, (size_t)t->state_count * sizeof *t->s);
    return FAST_OK;
}

/* One step on the weights that were read: a gradient, and where differences are sent, an update by
 * the worker's own rule. */
static fast_err step(fast_trainer *t, const client *cl)
{
    FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
    if (cl->base)
        return fast_trainer_update(t, t->g, 1);
    if (cl->sum)
        fast__vector_add(t->count, t->g, cl->sum);
    return FAST_OK;
}

static fast_err train(fast_trainer *t, const ps_config *c, client *cl)
{
    while (fast_trainer_next(t)) {
        /* Before its first step everyone has what the others begin with. */
        if (t->step % c->fetch == 0 && !(c->backup > 0 && t->step == 0))
            FAST_TRY(fetch(t, c, cl));
        if (c->backup > 0 && cl->round >= t->step_count)
            break; /* the others have made all updates, and this one missed some */
        FAST_TRY(step(t, cl));
        if (t->step % c->push == 0 || t->step == t->step_count)
            FAST_TRY(push(t, c, cl));
        FAST_TRY(fast_space_tick(cl->space, t->step));
    }
    FAST_TRY(fast_trainer_end(t));
    if (c->backup > 0 && cl->round >= t->step_count)
        return FAST_OK;
    return fetch(t, c, cl);
}

static fast_err worker(fast_trainer *t, const void *config)
{
    const ps_config *c = config;
    client cl = { .space = NULL };
    fast_err err = FAST_OK;

    if (c->send != 0)
        err = fast__alloc("the weights read", t->count, sizeof *cl.base, &cl.base);
    else if (c->push > 1 || c->filter > 0)
        err = fast__alloc("gradients to push", t->count, sizeof *cl.sum, &cl.sum);
    if (!err && c->filter > 0)
        err = fast__alloc("significant gradients", t->count, sizeof *cl.part, &cl.part);
    if (!err && t->state_count > 0)
        err = fast__alloc("the state read", t->state_count, sizeof *cl.seen, &cl.seen);
    if (!err)
        err = open_space(t, NULL, &cl.space);
    if (!err && t->step > 0) /* a run that goes on: its clocks do too */
        err = fast_space_tick(cl.space, t->step);
    if (!err)
        err = train(t, c, &cl);
    fast_space_close(cl.space);
    fast__free(cl.sum);
    fast__free(cl.part);
    fast__free(cl.base);
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
