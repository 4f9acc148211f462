/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpca: MPCA-SGD. Workers never wait: they are held to the master's last known model z by a penalty
 * in their loss, while models travel.
 *
 *     worker:  every step   w_i <- rule(w_i, g_i + rho (w_i - z))
 *              the answer to the last model came and `period` steps are over:  send w_i
 *     master:  w_i arrives  m <- m + share (w_i - m)                  merge
 *              of P merges  v <- m - m';  m' <- m                     how far a round took it
 *              answer       z = m + length v                          extrapolate
 *
 * Langer, Hall et al., "MPCA SGD: a method for distributed training of deep learning models on
 * Spark", 2018. The penalty is rho / 2 |w - z|^2 in the loss, so that the rule sees it like any
 * gradient and with plain SGD it pulls by lr rho a step. The master's model is always about a round
 * older than what it is compared with, and a merge that counts 1 / P lags behind by another: it is
 * moved ahead by `length` rounds to make up for that.
 * A worker has one model under way at most, so that its period is at least what the network takes:
 * that bounds the staleness softly. The paper gathers models by a binomial tree of machines; here
 * workers send to the master itself, each when it can, and a round is P merges.
 *
 * With codecs models are values: by one that loses something the difference to what the other end
 * holds travels, on both ways, so that what is lost comes with the next model. The answer to a
 * worker that has none yet is whole.
 *
 * The model of the run is the newest z. A worker that goes away is not missed; a master that goes
 * away ends the run. Statistics of batch norm are the mean of the workers'.
 *
 * Cost per worker: one model there and one back every `period` steps, none of it waited for; one
 * more vector. The master holds three. With codecs both ends hold two more for each worker.
 */
#include "base/err.h"
#include "base/memory.h"
#include "strategy/kernels.h"
#include "strategy/strategy.h"
#include "tensor/vector.h"

#include <string.h>

enum { TAG_MODEL = 1, TAG_ANSWER = 2 };

typedef struct mpca_config {
    double rho;     /* weight of the penalty */
    double share;   /* < 0: 1 / workers */
    double length;  /* of the extrapolation, in rounds */
    int64_t period; /* steps between models at least */
} mpca_config;

static const fast_option options[] = {
    FAST_OPT_REAL(mpca_config, rho, "0.3", 0, 1e6, "weight of the penalty for leaving the master"),
    FAST_OPT_REAL(mpca_config, share, "-1", -1, 1,
                  "how far the master moves to a model that arrives; -1: 1 / workers"),
    FAST_OPT_REAL(mpca_config, length, "2", 0, 100,
                  "rounds that the master's model is moved ahead"),
    FAST_OPT_INT(mpca_config, period, "4", 1, 1e12, "steps between models, at least"),
    FAST_OPT_END,
};

static int64_t servers(const void *config, int64_t workers)
{
    (void)config;
    (void)workers;
    return 1;
}

static size_t shares_size(const fast_trainer *t)
{
    return (size_t)t->workers * sizeof(double);
}

/* Words of a message: what the sender knows; how many answers the worker has had. */
enum { WORD_VERSION, WORD_ANSWERS };

/* Send a model by a flow, or as it is, what it carries of each worker, and words. */
static fast_err send(fast_trainer *t, int64_t to, uint64_t tag, fast_flow *flow, const float *x,
                     const double *shares, const int64_t words[2])
{
    const size_t head = shares_size(t);
    size_t size = (size_t)t->count * sizeof *x;
    fast_buffer *buffer = NULL;
    fast_msg *msg = NULL;
    fast_err err = FAST_OK;

    FAST_TRY(fast_buffer_new(t->actor, head + (flow ? fast_flow_bound(flow) : size), &buffer));
    char *data = fast_buffer_data(buffer);
    memcpy(data, shares, head);
    if (flow)
        err = fast_trainer_encode(t, flow, x, data + head, &size);
    else
        memcpy(data + head, x, size);
    if (!err)
        err = fast_msg_new(t->actor, tag, &msg);
    if (!err) {
        memcpy(msg->words, words, 2 * sizeof *words);
        fast_buffer_freeze(buffer);
        fast_msg_add_view(msg, buffer, 0, head + size);
    }
    fast_buffer_free(buffer);
    return err ? err : fast_send(t->actor, to, &msg);
}

/* The parts of such a message. */
static const double *shares_of(const fast_msg *msg)
{
    return fast_msg_data(msg, 0);
}

static fast_err model_of(fast_trainer *t, const fast_msg *msg, fast_flow *flow, const float **out)
{
    const char *data = (const char *)fast_msg_data(msg, 0) + shares_size(t);

    FAST_ASSERT(msg->part_count == 1 && msg->parts[0].size >= shares_size(t));
    if (flow)
        return fast_trainer_decode_values(t, flow, data, msg->parts[0].size - shares_size(t), out);
    *out = (const float *)(const void *)data;
    return FAST_OK;
}

/* The two flows between the master and a worker, or NULL without codecs: the one that this end
 * encodes to and the one that it decodes. */
static fast_err open_flows(fast_trainer *t, bool master, int64_t worker, fast_flow **to,
                           fast_flow **from)
{
    const fast_flow_options up = { .number = worker, .values = true, .decodes = master };
    const fast_flow_options down = {
        .number = t->workers + worker, .values = true, .down = true, .decodes = !master
    };

    *to = *from = NULL;
    if (fast_trainer_codec_fit(t) == FAST_FIT_NONE)
        return FAST_OK;
    FAST_TRY(fast_trainer_flow(t, &up, master ? from : to));
    return fast_trainer_flow(t, &down, master ? to : from);
}

/* What the master keeps. */
typedef struct master {
    float *m;       /* the merged model: the server's w */
    float *before;  /* at the last round's end */
    float *v;       /* what the last round brought */
    float *z;       /* scratch: the answer */
    float share;    /* of a model that arrives */
    float length;   /* of the extrapolation */
    int64_t merges; /* made */
    double *shares; /* [4 workers]: contributions of m, before, v and z */
    fast_flow **to; /* [2 workers]: to each worker, then from each; NULL each without codecs */
} master;

/* A merge: x = m, before, v, z and the model that arrived. */
typedef struct merge_step {
    float share;  /* of the model that arrives */
    float length; /* of the extrapolation */
    bool ends;    /* it ends a round of all workers */
} merge_step;

static void run_merge(const void *ctx, int64_t n, float *const *x)
{
    const merge_step *step = ctx;
    const size_t size = (size_t)n * sizeof **x;
    float *m = x[0], *before = x[1], *v = x[2], *z = x[3];

    fast__kernel_approach.run(&step->share, n, (float *[]){ m, x[4] });
    if (step->ends) {
        memcpy(v, m, size);
        fast__vector_axpy(n, -1, before, v);
        memcpy(before, m, size);
    }
    memcpy(z, m, size);
    fast__vector_axpy(n, step->length, v, z);
}
static const fast_kernel merge_kernel = { "merge", 6, 40, 5, 4, false, run_merge };

static fast_err merge(fast_trainer *t, master *k, int64_t worker, const fast_msg *msg)
{
    const int64_t n = t->workers, late = k->merges - msg->words[WORD_VERSION];
    const merge_step step = { k->share, k->length, (k->merges + 1) % n == 0 };
    const float *x;

    FAST_TRY(model_of(t, msg, k->to[n + worker], &x));
    k->merges++;
    return fast_trainer_apply(
        t, &merge_kernel, &step,
        (fast_vector[]){ { k->m, k->shares, -1 },
                         { k->before, k->shares + n, -1 },
                         { k->v, k->shares + 2 * n, -1 },
                         { k->z, k->shares + 3 * n, -1 },
                         { (float *)(uintptr_t)x, (double *)(uintptr_t)shares_of(msg), late } });
}

/* Merge and answer until nobody is left. */
static fast_err serve(fast_trainer *t, master *k)
{
    for (;;) {
        fast_msg *msg = NULL;
        int64_t from, i;
        fast_err err = fast_receive(t->actor, FAST_ANY, TAG_MODEL, FAST_SOON, &msg);

        if (err == FAST_EPEER)
            return FAST_OK;
        if (err == FAST_ETIMEDOUT) /* they train longer than a timeout: no reason to go */
            continue;
        FAST_TRY(err);
        from = msg->from;
        i = fast_actor_index(t->actor, from);
        err = merge(t, k, i, msg);
        if (k->to[i] && msg->words[WORD_ANSWERS] == 0) /* it holds nothing, or came anew */
            fast_flow_reset(k->to[i]);
        fast_msg_free(msg);
        if (!err)
            err = send(t, from, TAG_ANSWER, k->to[i], k->z, k->shares + 3 * t->workers,
                       (const int64_t[2]){ k->merges, 0 });
        if (err != FAST_EPEER) /* it may be down by now */
            FAST_TRY(err);
    }
}

static fast_err server(fast_trainer *t, const void *config)
{
    const mpca_config *c = config;
    master k = { .m = t->w, .length = (float)c->length };
    float *memory = NULL;
    fast_err err;

    k.share = (float)(c->share < 0 ? 1 / (double)t->workers : c->share);
    FAST_TRY(fast__alloc("the master's models", 3 * t->count, sizeof *memory, &memory));
    k.before = memory;
    k.v = memory + t->count;
    k.z = memory + 2 * t->count;
    memcpy(k.before, t->w, (size_t)t->count * sizeof *t->w);
    err = fast__alloc("contributions", 4 * t->workers, sizeof *k.shares, &k.shares);
    if (!err)
        err = fast__alloc("flows of workers", 2 * t->workers, sizeof(fast_flow *), &k.to);
    for (int64_t i = 0; !err && i < t->workers; i++)
        err = open_flows(t, true, i, &k.to[i], &k.to[t->workers + i]);
    if (!err)
        err = serve(t, &k);
    fast__free(k.to);
    fast__free(k.shares);
    fast__free(memory);
    return err;
}

/* What a worker keeps of its master. */
typedef struct follower {
    float *z;        /* the last known model: the run's centre */
    double *shares;  /* [2 workers] its contributions; scratch */
    fast_flow *to;   /* models go by; NULL without codecs */
    fast_flow *from; /* answers come by */
    int64_t answers; /* that came */
    bool under_way;  /* a model was sent and not answered */
} follower;

/* Take the master's answer if it is there, or by the deadline. */
static fast_err answer(fast_trainer *t, follower *p, int64_t deadline)
{
    fast_msg *msg = NULL;
    const float *z;
    fast_err err = fast_receive(t->actor, t->server_ids[0], TAG_ANSWER, deadline, &msg);

    if (err == FAST_ETIMEDOUT && deadline == FAST_AT_ONCE)
        return FAST_OK;
    FAST_TRY(err);
    err = model_of(t, msg, p->from, &z);
    if (!err) {
        memcpy(p->z, z, (size_t)t->count * sizeof *p->z);
        memcpy(p->shares, shares_of(msg), shares_size(t));
        t->centre_version = msg->words[WORD_VERSION];
        p->under_way = false;
        p->answers++;
    }
    fast_msg_free(msg);
    return err;
}

/* g += rho (w - z) */
static void run_penalty(const void *ctx, int64_t n, float *const *x)
{
    const float rho = *(const float *)ctx;

    fast__vector_axpy(n, rho, x[1], x[0]);
    fast__vector_axpy(n, -rho, x[2], x[0]);
}
static const fast_kernel penalty = { "penalty", 4, 24, 3, 1, false, run_penalty };

/* The penalty in g pulls w to the master by `part`, as plain SGD would: w's contributions move. */
static void pull_shares(fast_trainer *t, double part, const follower *p)
{
    const fast_vector w = fast_trainer_model(t);
    double *pulled = p->shares + t->workers;

    for (int64_t i = 0; i < t->workers; i++)
        pulled[i] = (1 - part) * w.shares[i] + part * p->shares[i];
    fast_trainer_adopt(t, &(fast_vector){ .x = t->w, .shares = pulled, .age = -1 });
}

static fast_err train(fast_trainer *t, const mpca_config *c, follower *p)
{
    const float rho = (float)c->rho;
    int64_t sent = t->step;

    while (fast_trainer_next(t)) {
        if (p->under_way)
            FAST_TRY(answer(t, p, FAST_AT_ONCE));
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        FAST_TRY(fast_trainer_apply(
            t, &penalty, &rho,
            (fast_vector[]){ { t->g, NULL, -1 }, { t->w, NULL, -1 }, { p->z, NULL, -1 } }));
        pull_shares(t, t->lr * c->rho, p);
        FAST_TRY(fast_trainer_update(t, t->g, 1));
        if (!p->under_way && (t->step - sent >= c->period || t->step == t->step_count)) {
            FAST_TRY(send(t, t->server_ids[0], TAG_MODEL, p->to, t->w, fast_trainer_model(t).shares,
                          (const int64_t[2]){ t->centre_version, p->answers }));
            sent = t->step;
            p->under_way = true;
        }
    }
    FAST_TRY(fast_trainer_end(t));
    fast_actor_at(t->actor, t->step, "the master's model");
    return p->under_way ? answer(t, p, FAST_SOON) : FAST_OK;
}

static fast_err worker(fast_trainer *t, const void *config)
{
    follower p = { .z = NULL };
    fast_err err;

    FAST_TRY(fast_trainer_centre(t, &p.z));
    FAST_TRY(open_flows(t, false, t->rank, &p.to, &p.from));
    if (p.to) /* what went to the master in another call need not be what it has now */
        fast_flow_reset(p.to);
    FAST_TRY(fast__alloc("contributions", 2 * t->workers, sizeof *p.shares, &p.shares));
    err = train(t, config, &p);
    fast__free(p.shares);
    return err;
}

static void cost(const void *config, const fast_trainer *t, fast_cost *out)
{
    (void)t;
    out->served = 1 / (double)((const mpca_config *)config)->period;
}

const fast_strategy fast__strategy_mpca = {
    .name = "mpca",
    .summary = "a penalty for leaving the master, which looks ahead; nobody waits",
    .options = options,
    .config_size = sizeof(mpca_config),
    .uses_codec = true,
    .sends = "weights",
    .answers = "weights",
    .cost = cost,
    .servers = servers,
    .worker = worker,
    .server = server,
};
