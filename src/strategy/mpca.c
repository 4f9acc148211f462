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
 * The model of the run is the newest z. A worker that goes away is not missed; a master that goes
 * away ends the run. Statistics of batch norm are the mean of the workers'.
 *
 * Cost per worker: one model there and one back every `period` steps, none of it waited for; one
 * more vector. The master holds three.
 */
#include "base/err.h"
#include "base/memory.h"
#include "strategy/elastic.h"
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

/* Send count floats of x with two words. */
static fast_err send(fast_trainer *t, int64_t to, uint64_t tag, const float *x, int64_t word)
{
    fast_buffer *buffer = NULL;
    fast_msg *msg = NULL;
    fast_err err;

    FAST_TRY(fast_buffer_new(t->actor, (size_t)t->count * sizeof *x, &buffer));
    memcpy(fast_buffer_data(buffer), x, (size_t)t->count * sizeof *x);
    err = fast_msg_new(t->actor, tag, &msg);
    if (err) {
        fast_buffer_free(buffer);
        return err;
    }
    msg->words[0] = word;
    fast_msg_add(msg, &buffer);
    return fast_send(t->actor, to, &msg);
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
} master;

static fast_err merge(fast_trainer *t, master *k, const fast_msg *msg)
{
    const size_t size = (size_t)t->count * sizeof *k->m;

    FAST_ASSERT(msg->part_count == 1);
    fast_trainer_staleness(t, k->merges - msg->words[0]);
    fast__elastic_approach(t->count, k->share, fast_msg_data(msg, 0), k->m);
    if (++k->merges % t->workers == 0) {
        memcpy(k->v, k->m, size);
        fast__vector_axpy(t->count, -1, k->before, k->v);
        memcpy(k->before, k->m, size);
    }
    memcpy(k->z, k->m, size);
    fast__vector_axpy(t->count, k->length, k->v, k->z);
    return fast_charge(t->actor, 6 * (double)t->count, 40 * (double)t->count);
}

/* Merge and answer until nobody is left. */
static fast_err serve(fast_trainer *t, master *k)
{
    for (;;) {
        fast_msg *msg = NULL;
        int64_t from;
        fast_err err = fast_receive(t->actor, FAST_ANY, TAG_MODEL, FAST_SOON, &msg);

        if (err == FAST_EPEER)
            return FAST_OK;
        if (err == FAST_ETIMEDOUT) /* they train longer than a timeout: no reason to go */
            continue;
        FAST_TRY(err);
        from = msg->from;
        err = merge(t, k, msg);
        fast_msg_free(msg);
        if (!err)
            err = send(t, from, TAG_ANSWER, k->z, k->merges);
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
    err = serve(t, &k);
    fast__free(memory);
    return err;
}

/* Take the master's answer if it is there, or by the deadline. */
static fast_err answer(fast_trainer *t, float *z, int64_t deadline, bool *under_way)
{
    fast_msg *msg = NULL;
    const fast_err err = fast_receive(t->actor, t->server_ids[0], TAG_ANSWER, deadline, &msg);

    if (err == FAST_ETIMEDOUT && deadline == FAST_AT_ONCE)
        return FAST_OK;
    FAST_TRY(err);
    FAST_ASSERT(msg->part_count == 1);
    memcpy(z, fast_msg_data(msg, 0), (size_t)t->count * sizeof *z);
    t->centre_version = msg->words[0];
    fast_msg_free(msg);
    *under_way = false;
    return FAST_OK;
}

static fast_err worker(fast_trainer *t, const void *config)
{
    const mpca_config *c = config;
    const float rho = (float)c->rho;
    int64_t sent = t->step;
    bool under_way = false;
    float *z = NULL;

    FAST_TRY(fast_trainer_centre(t, &z));
    while (fast_trainer_next(t)) {
        if (under_way)
            FAST_TRY(answer(t, z, FAST_AT_ONCE, &under_way));
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        fast__vector_axpy(t->count, rho, t->w, t->g);
        fast__vector_axpy(t->count, -rho, z, t->g);
        FAST_TRY(fast_charge(t->actor, 4 * (double)t->count, 24 * (double)t->count));
        FAST_TRY(fast_trainer_update(t, t->g, 1));
        if (!under_way && (t->step - sent >= c->period || t->step == t->step_count)) {
            FAST_TRY(send(t, t->server_ids[0], TAG_MODEL, t->w, t->centre_version));
            sent = t->step;
            under_way = true;
        }
    }
    FAST_TRY(fast_trainer_end(t));
    fast_actor_at(t->actor, t->step, "the master's model");
    return under_way ? answer(t, z, FAST_SOON, &under_way) : FAST_OK;
}

const fast_strategy fast__strategy_mpca = {
    .name = "mpca",
    .summary = "a penalty for leaving the master, which looks ahead; nobody waits",
    .options = options,
    .config_size = sizeof(mpca_config),
    .sends = "weights",
    .servers = servers,
    .worker = worker,
    .server = server,
};
