/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpca: MPCA-SGD. Workers never wait: a penalty in their loss holds them to the last known model z
 * of the master, while models are in transit.
 *
 *     worker:  every step   w_i <- rule(w_i, g_i + rho (w_i - z))
 *              the answer to the last model arrived and `period` steps are over:  send w_i
 *              after the last step: send w_i, and receive the last answer
 *     master:  w_i arrives  m <- m + share (w_i - m)                  merge
 *              P merges     v <- m - m';  m' <- m                     change by a round
 *              answer       z = m + length v                          extrapolate
 *
 * Langer, Hall et al., "MPCA SGD: a method for distributed training of deep learning models on
 * Spark", 2018. The penalty is rho / 2 |w - z|^2 in the loss, so that the rule sees it like any
 * gradient and with plain SGD it pulls by lr rho a step. The master's model is always about a round
 * older than the model that it is compared with, and a merge of weight 1 / P lags behind by another
 * round: extrapolation by `length` rounds makes up for that.
 * A worker has at most one model in transit, so that its period is at least the time of a round
 * trip: that bounds the staleness softly. The paper gathers models by a binomial tree of machines:
 * tree=yes, mpca_tree.c. Else each worker sends to the master when it can, and a round is P merges.
 *
 * With codecs models are values: a lossy codec encodes the difference to the copy of the other end,
 * in both directions, so that its loss is sent with the next model. The first answer to a worker is
 * not encoded.
 *
 * The model of the run is the newest z. The run continues without a worker that crashes; a crash of
 * the master ends it. Statistics of batch norm are the mean of the workers'.
 *
 * Cost per worker: one model up and one down every `period` steps, none of it waited for; memory:
 * one more vector, three at the master. With codecs both ends hold two more for each worker.
 */
#include "strategy/mpca.h"
#include "base/err.h"
#include "base/memory.h"
#include "strategy/vector_kernels.h"
#include "strategy/vector_message.h"
#include "tensor/vector.h"
#include "trainer/part.h"
#include "trainer/remember.h"
#include "transport/transport.h"

#include <math.h>
#include <string.h>

enum { TAG_MODEL = 1, TAG_ANSWER = 2 };

static const fast_option options[] = {
    FAST_OPT_REAL(mpca_config, rho, "0.3", 0, 1e6,
                  "weight of the penalty for the distance to the master's model"),
    FAST_OPT_REAL(mpca_config, share, "-1", -1, 1,
                  "weight of a worker's model when the master merges it; -1: 1 / workers"),
    FAST_OPT_REAL(mpca_config, length, "2", 0, 100,
                  "rounds by which the master extrapolates its model"),
    FAST_OPT_INT(mpca_config, period, "4", 1, 1e12,
                 "least number of steps between two models that a worker sends"),
    FAST_OPT_BOOL(mpca_config, tree, "no",
                  "gather the models of all workers along a binomial tree to a dedicated master; "
                  "no: each worker sends to it when it can"),
    FAST_OPT_END,
};

/* One master. */
static int64_t servers(const void *config, int64_t workers)
{
    (void)config;
    (void)workers;
    FAST_ASSERT(workers > 0);
    return 1;
}

/* Bytes of the contributions in a message. */
static size_t shares_size(const fast_trainer *t)
{
    FAST_ASSERT(t->workers > 0);
    return (size_t)fast_trainer_share_count(t) * sizeof(double);
}

/* Words of a message: merges of the newest model that the sender has; answers that a worker has
 * received. */
enum { WORD_VERSION, WORD_ANSWERS, WORDS };

/* Send the model x with its contributions and words, by a flow or as floats. */
static fast_err send(fast_trainer *t, int64_t to, uint64_t tag, fast_flow *flow, const float *x,
                     const double *shares, const int64_t words[WORDS])
{
    const fast_vector_message what = { .shares = shares, .x = x, .count = t->count, .flow = flow };
    const fast_vector_address address = { to, tag, words, WORDS, false };
    fast_buffer *buffer = NULL;
    size_t size;

    FAST_ASSERT(shares != NULL);
    FAST_TRY(fast__vector_message_pack(t, &what, &buffer, &size));
    const fast_err err = fast__vector_message_send(t, &address, buffer, size);
    fast_buffer_free(buffer);
    return err;
}

/* The contributions in a message. */
static const double *shares_of(const fast_msg *msg)
{
    FAST_ASSERT(msg->part_count == 1);
    return fast_msg_data(msg, 0);
}

/* Refuse a message that is no model: one of a snapshot may be forged. */
static fast_err check_model(const fast_trainer *t, const fast_msg *msg, bool coded)
{
    const size_t head = shares_size(t), whole = head + (size_t)t->count * sizeof(float);

    FAST_ASSERT(t->count > 0);
    if (msg->part_count == 1 && msg->parts[0].size >= head &&
        (coded || msg->parts[0].size == whole) && msg->words[WORD_VERSION] >= 0)
        return FAST_OK;
    return fast__fail(FAST_EFORMAT, "mpca: actor %lld sent no model", (long long)msg->from);
}

/* Return the model in a message: in the message, or decoded and lent until the next call. */
static fast_err model_of(fast_trainer *t, const fast_msg *msg, fast_flow *flow, const float **out)
{
    const char *data = (const char *)fast_msg_data(msg, 0) + shares_size(t);

    FAST_ASSERT(msg->part_count == 1 && msg->parts[0].size >= shares_size(t));
    if (flow)
        return fast_trainer_decode_values(t, flow, data, msg->parts[0].size - shares_size(t), out);
    *out = (const float *)(const void *)data;
    return FAST_OK;
}

/* Open the two flows between the master and a worker: *to is encoded at this end, *from is decoded.
 * Both are NULL without codecs. */
static fast_err open_flows(fast_trainer *t, bool master, int64_t worker, fast_flow **to,
                           fast_flow **from)
{
    const fast_flow_options up = { .number = worker, .values = true, .decodes = master };
    const fast_flow_options down = {
        .number = t->workers + worker, .values = true, .down = true, .decodes = !master
    };

    FAST_ASSERT(worker >= 0 && worker < t->workers);
    *to = *from = NULL;
    if (fast_trainer_codec_fit(t) == FAST_FIT_NONE)
        return FAST_OK;
    FAST_TRY(fast_trainer_flow(t, &up, master ? from : to));
    return fast_trainer_flow(t, &down, master ? to : from);
}

/* Memory of the master. */
typedef struct mpca_master {
    float *m;       /* the merged model: the server's w */
    float *before;  /* m at the end of the last round */
    float *v;       /* change of m by the last round */
    float *z;       /* scratch: the answer */
    float share;    /* weight of a model that arrives */
    float length;   /* of the extrapolation, in rounds */
    int64_t merges; /* number of merges so far */
    double *shares; /* four lists: contributions of m, before, v and z */
    fast_flow **to; /* [2 workers]: to each worker, then from each; NULL each without codecs */
} mpca_master;

/* x = m, m', v, z and the model that arrived: merge, end the round, extrapolate. */
static void run_merge(const void *ctx, int64_t n, float *const *x)
{
    const mpca_merge *step = ctx;
    const size_t size = (size_t)n * sizeof **x;
    float *m = x[0], *before = x[1], *v = x[2], *z = x[3];

    FAST_ASSERT(x[4] != m);
    if (step->share == 1) /* without rounding */
        memcpy(m, x[4], size);
    else
        fast__kernel_approach.run(&step->share, n, (float *[]){ m, x[4] });
    if (step->ends) {
        memcpy(v, m, size);
        fast__vector_axpy(n, -1, before, v);
        memcpy(before, m, size);
    }
    memcpy(z, m, size);
    fast__vector_axpy(n, step->length, v, z);
}
const fast_kernel fast__mpca_merge = { "merge", 6, 40, 5, 4, false, run_merge };

/* Merge a worker's model, and compute the answer z. */
static fast_err merge(fast_trainer *t, mpca_master *k, int64_t worker, const fast_msg *msg)
{
    const int64_t n = t->workers, late = k->merges - msg->words[WORD_VERSION];
    const int64_t shares = fast_trainer_share_count(t);
    const mpca_merge step = { k->share, k->length, (k->merges + 1) % n == 0 };
    const float *x;

    FAST_ASSERT(worker >= 0 && worker < n);
    FAST_TRY(model_of(t, msg, k->to[n + worker], &x));
    k->merges++;
    return fast_trainer_apply(
        t, &fast__mpca_merge, &step,
        (fast_vector[]){ { k->m, k->shares, -1 },
                         { k->before, k->shares + shares, -1 },
                         { k->v, k->shares + 2 * shares, -1 },
                         { k->z, k->shares + 3 * shares, -1 },
                         { (float *)(uintptr_t)x, (double *)(uintptr_t)shares_of(msg), late } });
}

/* Merge and answer until no worker is left. */
static fast_err serve(fast_trainer *t, mpca_master *k)
{
    FAST_ASSERT(k->shares && k->to);
    for (;;) {
        fast_msg *msg = NULL;
        int64_t from, i;
        fast_err err = fast_receive(t->actor, FAST_ANY, TAG_MODEL,
                                    fast__patience(t->actor, FAST_PATIENCE), &msg);

        if (err == FAST_EPEER)
            return FAST_OK;
        if (err == FAST_ETIMEDOUT) /* a period may take longer than a timeout */
            continue;
        FAST_TRY(err);
        from = msg->from;
        i = fast__trainer_rank(t, from);
        err = merge(t, k, i, msg);
        if (k->to[i] && msg->words[WORD_ANSWERS] == 0) /* the worker has no copy, or restarted */
            fast_flow_reset(k->to[i]);
        fast_msg_free(msg);
        if (!err)
            err = send(t, from, TAG_ANSWER, k->to[i], k->z,
                       k->shares + 3 * fast_trainer_share_count(t),
                       (const int64_t[WORDS]){ k->merges, 0 });
        if (err != FAST_EPEER) /* the worker may be down by now */
            FAST_TRY(err);
    }
}

/* Have snapshots include the master's memory; z is scratch. */
static fast_err remember_master(fast_trainer *t, mpca_master *k)
{
    const size_t size = (size_t)t->count * sizeof(float);

    FAST_ASSERT(k->v == k->before + t->count);
    FAST_TRY(fast__trainer_remember(t, 0, &k->merges, sizeof k->merges));
    FAST_TRY(fast__trainer_remember(t, 1, k->m, size));
    FAST_TRY(fast__trainer_remember(t, 2, k->before, 2 * size));
    return fast__trainer_remember(t, 3, k->shares, 4 * shares_size(t));
}

/* The master's program. */
static fast_err server(fast_trainer *t, const void *config)
{
    const mpca_config *c = config;
    mpca_master k = { .m = t->w, .length = (float)c->length };
    float *memory = NULL;
    fast_err err;

    FAST_ASSERT(t->servers == 1);
    if (c->tree)
        return fast__mpca_tree_master(t, c);
    k.share = (float)(c->share < 0 ? 1 / (double)t->workers : c->share);
    FAST_TRY(fast__vector_new(fast__device_of(t->w), "the master's models", 3 * t->count, &memory));
    k.before = memory;
    k.v = memory + t->count;
    k.z = memory + 2 * t->count;
    fast__vector_copy(t->count, t->w, k.before);
    err =
        fast__alloc("contributions", 4 * fast_trainer_share_count(t), sizeof *k.shares, &k.shares);
    if (!err)
        err = fast__alloc("flows of workers", 2 * t->workers, sizeof(fast_flow *), &k.to);
    for (int64_t i = 0; !err && i < t->workers; i++)
        err = open_flows(t, true, i, &k.to[i], &k.to[t->workers + i]);
    if (!err)
        err = remember_master(t, &k);
    if (!err)
        err = serve(t, &k);
    fast__free(k.to);
    fast__free(k.shares);
    fast__vector_free(memory);
    return err;
}

/* Memory of a worker besides its replica. */
typedef struct mpca_worker {
    float *z;        /* the master's last known model: the run's centre */
    double *shares;  /* two lists: contributions of z; scratch */
    fast_flow *to;   /* of models that it sends; NULL without codecs */
    fast_flow *from; /* of answers; NULL without codecs */
    int64_t answers; /* answers that arrived */
    int64_t sent;    /* step at which the last model was sent */
    bool in_transit; /* a model was sent and not answered */
} mpca_worker;

/* Receive the master's answer by the deadline; FAST_AT_ONCE: only if it has arrived. */
static fast_err receive_answer(fast_trainer *t, mpca_worker *p, int64_t deadline)
{
    fast_msg *msg = NULL;
    const float *z;
    fast_err err = fast_receive(t->actor, t->server_ids[0], TAG_ANSWER, deadline, &msg);

    if (err == FAST_ETIMEDOUT && deadline == FAST_AT_ONCE)
        return FAST_OK;
    FAST_TRY(err);
    err = check_model(t, msg, p->from != NULL);
    if (!err)
        err = model_of(t, msg, p->from, &z);
    if (!err) {
        fast__vector_copy(t->count, z, p->z);
        memcpy(p->shares, shares_of(msg), shares_size(t));
        t->centre_version = msg->words[WORD_VERSION];
        p->in_transit = false;
        p->answers++;
    }
    fast_msg_free(msg);
    return err;
}

/* g += rho (w - z) */
static void run_penalty(const void *ctx, int64_t n, float *const *x)
{
    const float rho = *(const float *)ctx;

    FAST_ASSERT(rho >= 0);
    fast__vector_axpy(n, rho, x[1], x[0]);
    fast__vector_axpy(n, -rho, x[2], x[0]);
}
static const fast_kernel penalty = { "penalty", 4, 24, 3, 1, false, run_penalty };

/* The penalty in g pulls w towards z by the fraction `pull` under plain SGD: so do w's
 * contributions. */
static void pull_shares(fast_trainer *t, double pull, double *shares)
{
    const fast_vector w = fast_trainer_model(t);
    double *pulled = shares + fast_trainer_share_count(t);

    FAST_ASSERT(pull >= 0);
    for (int64_t i = 0; i < fast_trainer_share_count(t); i++)
        pulled[i] = (1 - pull) * w.shares[i] + pull * shares[i];
    fast_trainer_adopt(t, &(fast_vector){ .x = t->w, .shares = pulled, .age = -1 });
}

fast_err fast__mpca_step(fast_trainer *t, const mpca_config *c, float *z, double *shares)
{
    const float rho = (float)c->rho;

    FAST_ASSERT(z != NULL && shares != NULL);
    FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
    FAST_TRY(fast_trainer_apply(
        t, &penalty, &rho,
        (fast_vector[]){ { t->g, NULL, -1 }, { t->w, NULL, -1 }, { z, NULL, -1 } }));
    pull_shares(t, t->lr * c->rho, shares);
    return fast_trainer_update(t, t->g, 1);
}

/* Send the worker's model. */
static fast_err send_model(fast_trainer *t, mpca_worker *p)
{
    FAST_ASSERT(!p->in_transit);
    FAST_TRY(send(t, t->server_ids[0], TAG_MODEL, p->to, t->w, fast_trainer_model(t).shares,
                  (const int64_t[WORDS]){ t->centre_version, p->answers }));
    p->sent = t->step;
    p->in_transit = true;
    return FAST_OK;
}

/* Receive the last answers. The model of the last step is sent even if an earlier one was in
 * transit then: else the master would not have the steps since, all but the first few where it is
 * slower than the workers. */
static fast_err finish(fast_trainer *t, mpca_worker *p)
{
    FAST_ASSERT(p->sent <= t->step);
    fast_actor_at(t->actor, t->step, "the master's model");
    if (p->in_transit)
        FAST_TRY(receive_answer(t, p, FAST_SOON));
    if (p->sent == t->step || t->step < t->step_count)
        return FAST_OK;
    FAST_TRY(send_model(t, p));
    return receive_answer(t, p, FAST_SOON);
}

/* The worker's loop of the formula above. */
static fast_err train(fast_trainer *t, const mpca_config *c, mpca_worker *p)
{
    FAST_ASSERT(c->period > 0);
    while (fast_trainer_next(t)) {
        if (p->in_transit)
            FAST_TRY(receive_answer(t, p, FAST_AT_ONCE));
        FAST_TRY(fast__mpca_step(t, c, p->z, p->shares));
        if (!p->in_transit && (t->step - p->sent >= c->period || t->step == t->step_count))
            FAST_TRY(send_model(t, p));
    }
    FAST_TRY(fast_trainer_end(t));
    return finish(t, p);
}

/* Have snapshots include the worker's memory. */
static fast_err remember_worker(fast_trainer *t, mpca_worker *p)
{
    FAST_ASSERT(p->z != NULL && p->shares != NULL);
    FAST_TRY(fast__trainer_remember(t, 0, &p->answers, 2 * sizeof p->answers));
    FAST_TRY(fast__trainer_remember(t, 1, &p->in_transit, sizeof p->in_transit));
    FAST_TRY(fast__trainer_remember(t, 2, p->z, (size_t)t->count * sizeof *p->z));
    FAST_TRY(fast__trainer_remember(t, 3, &t->centre_version, sizeof t->centre_version));
    FAST_TRY(fast__trainer_remember(t, 4, p->shares, 2 * shares_size(t)));
    return fast__trainer_check_saved(t, p->sent >= 0 && p->sent <= t->step && p->answers >= 0);
}

/* The worker's program. */
static fast_err worker(fast_trainer *t, const void *config)
{
    mpca_worker p = { .sent = t->step };
    fast_err err;

    FAST_ASSERT(t->servers == 1);
    if (((const mpca_config *)config)->tree)
        return fast__mpca_tree_worker(t, config);
    FAST_TRY(fast_trainer_centre(t, &p.z));
    FAST_TRY(open_flows(t, false, t->rank, &p.to, &p.from));
    if (p.to && !fast_trainer_resumed(
                    t)) /* the master may have another copy than at the end of an earlier call */
        fast_flow_reset(p.to);
    FAST_TRY(
        fast__alloc("contributions", 2 * fast_trainer_share_count(t), sizeof *p.shares, &p.shares));
    err = remember_worker(t, &p);
    if (!err)
        err = train(t, config, &p);
    fast__free(p.shares);
    return err;
}

/* Forecast: no message is waited for, and the master receives a model each period. */
static void cost(const void *config, const fast_trainer *t, fast_cost *out)
{
    const mpca_config *c = config;
    const double n = (double)t->workers;

    FAST_ASSERT(c->period > 0);
    out->served = (c->tree ? ceil(log2(n + 1)) / n : 1) / (double)c->period;
}

/* Models, or sums of them on their way along the tree, which are sent without a codec. */
static const char *sends(const void *config)
{
    FAST_ASSERT(config != NULL);
    return ((const mpca_config *)config)->tree ? "sums" : "weights";
}

/* True with a tree: its master lives on a node of its own. */
static bool dedicated(const void *config)
{
    FAST_ASSERT(config != NULL);
    return ((const mpca_config *)config)->tree;
}

const fast_strategy fast__strategy_mpca = {
    .name = "mpca",
    .summary = "a penalty holds workers to the master's extrapolated model; no worker waits",
    .options = options,
    .config_size = sizeof(mpca_config),
    .uses_codec = true,
    .sends = "weights",
    .answers = "weights",
    .resumable = true,
    .sends_by = sends,
    .cost = cost,
    .servers = servers,
    .worker = worker,
    .server = server,
    .dedicated = dedicated,
};
