/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elastic: asynchronous elastic averaging (EASGD). Workers explore; springs hold them to a centre z
 * that lives at a master.
 *
 *     every tau steps:  d   <- w_i - z          z as the master has it now
 *                       w_i <- w_i - alpha d
 *                       z   <- z + beta d       at the master
 *     every step:       w_i <- rule(w_i, g_i)   with the gradient from before the exchange
 *
 * Zhang, Choromanska and LeCun, "Deep learning with elastic averaging SGD", 2015, algorithm 1;
 * beta = alpha unless it is given: what a worker loses the centre gains, the elastic symmetry. They
 * set alpha = 0.9 / P. EAMSGD is the same with the rule `nesterov`: the momentum is the workers'
 * own and does not see the springs. The paper's rho is alpha / lr.
 *
 * The master is a space, on one server or cut over several. Between the read and the add of one
 * worker others may move z: the sum of all models is kept all the same. The model of the run is z;
 * statistics of batch norm are the mean of the workers'. A worker that goes away is not missed; a
 * master that goes away ends the run.
 *
 * With codecs beta d goes up encoded, and what an encoding loses is added to the next: z, all w_i
 * and what the workers still owe keep their sum. The centre comes down as values, or by a codec
 * that loses much as the difference to what the worker holds of it; d is to that.
 *
 * Cost per worker and step: one get and one add of the model every tau steps; one more vector.
 */
#include "strategy/elastic.h"

#include "base/err.h"
#include "base/memory.h"
#include "strategy/strategy.h"
#include "tensor/vector.h"

#include <string.h>

typedef struct elastic_config {
    double alpha;    /* < 0: 0.9 / workers */
    double beta;     /* < 0: alpha */
    int64_t period;  /* steps between exchanges */
    int64_t servers; /* that share the centre */
} elastic_config;

static const fast_option options[] = {
    FAST_OPT_REAL(elastic_config, alpha, "-1", -1, 1,
                  "how far a worker moves to the centre; -1: 0.9 / workers"),
    FAST_OPT_REAL(elastic_config, beta, "-1", -1, 1,
                  "how far the centre moves to a worker; -1: alpha"),
    FAST_OPT_INT(elastic_config, period, "4", 1, 1e12, "steps between exchanges"),
    FAST_OPT_INT(elastic_config, servers, "1", 1, 65536, "servers that share the centre"),
    FAST_OPT_END,
};

void fast__elastic_pull(int64_t n, float alpha, float beta, float *w, const float *z, float *d)
{
    FAST_ASSERT(w != z && w != d);
    memcpy(d, w, (size_t)n * sizeof *d);
    fast__vector_axpy(n, -1, z, d);
    fast__vector_axpy(n, -alpha, d, w);
    fast__vector_scale(n, beta, d);
}

void fast__elastic_approach(int64_t n, float alpha, const float *x, float *w)
{
    FAST_ASSERT(x != w);
    for (int64_t i = 0; i < n; i++)
        w[i] += alpha * (x[i] - w[i]);
}

fast_err fast__elastic_read(fast_space *space, const fast_elastic_end *end, fast_space_read *read)
{
    FAST_TRY(fast_space_get(space, 0, end->z, read, FAST_SOON));
    return end->apart ? fast_space_get(space, 1, end->z + end->n, NULL, FAST_SOON) : FAST_OK;
}

fast_err fast__elastic_exchange(fast_space *space, const fast_elastic_end *end,
                                fast_space_read *read)
{
    fast_buffer *buffer = NULL;
    float *d;
    fast_err err;

    *read = (fast_space_read){ 0 };
    FAST_TRY(fast__elastic_read(space, end, read));
    /* Of the pool: few are inside an exchange at once, and none keeps a vector between them. */
    FAST_TRY(fast_buffer_new(end->actor, (size_t)(end->n + end->workers) * sizeof *d, &buffer));
    d = fast_buffer_data(buffer);
    fast__elastic_pull(end->n, end->alpha, end->beta, end->w, end->z, d);
    if (end->workers > 0)
        fast__elastic_pull(end->workers, end->alpha, end->beta, end->carried, end->z + end->n,
                           d + end->n);
    err = fast_space_add(space, 0, d, FAST_SOON);
    if (!err && end->apart)
        err = fast_space_add(space, 1, d + end->n, FAST_SOON);
    fast_buffer_free(buffer);
    return err;
}

static int64_t servers(const void *config, int64_t workers)
{
    const elastic_config *c = config;

    (void)workers;
    return c->servers;
}

/* At the master: z += x. */
static bool apply(void *ctx, const fast_space_update *u, float *z)
{
    fast_trainer *t = ctx;

    fast__vector_add(u->count, u->x, z);
    if (u->tensor == 0)
        fast_trainer_staleness(t, u->version - u->read);
    return true;
}

/* The centre, and behind it what it carries, or apart, where the centre is encoded; z are both as
 * they begin. */
static fast_err open_space(fast_trainer *t, const float *z, fast_space **out)
{
    const bool apart = fast_trainer_codes(t) != FAST_CODES_NONE;
    const fast_space_tensor tensors[] = { { "z", t->count + (apart ? 0 : t->workers), z },
                                          { "carried", t->workers, z + t->count } };
    const fast_space_options space = { .name = "centre",
                                       .tensors = tensors,
                                       .tensor_count = apart ? 2 : 1,
                                       .owners = t->server_ids,
                                       .owner_count = t->servers,
                                       .writers = t->worker_ids,
                                       .writer_count = t->workers,
                                       .apply = apply,
                                       .ctx = t };

    return apart ? fast_trainer_space(t, &space, out) : fast_space_open(t->actor, &space, out);
}

static fast_err server(fast_trainer *t, const void *config)
{
    fast_space *space = NULL;
    float *z = NULL;
    fast_err err;

    (void)config;
    FAST_TRY(fast__alloc("the centre", t->count + t->workers, sizeof *z, &z));
    memcpy(z, t->w, (size_t)t->count * sizeof *z);
    err = open_space(t, z, &space);
    fast__free(z); /* the space has a copy */
    if (!err)
        err = fast_space_serve(space, INT64_MAX);
    fast_space_close(space);
    return err;
}

/* One exchange with the centre; what the replica carries moves like it. */
static fast_err meet(fast_trainer *t, const fast_elastic_end *end, fast_space *space)
{
    const double *carried = fast_trainer_carried(t);
    fast_space_read read = { 0 };

    for (int64_t i = 0; i < t->workers; i++)
        end->carried[i] = (float)carried[i];
    fast_actor_at(t->actor, t->step, "the centre");
    FAST_TRY(fast__elastic_exchange(space, end, &read));
    for (int64_t i = 0; i < t->workers; i++)
        fast_trainer_carry(t, i, (double)end->carried[i] - carried[i]);
    t->centre_version = read.version;
    return fast_charge(t->actor, 5 * (double)t->count, 36 * (double)t->count);
}

static fast_err train(fast_trainer *t, const elastic_config *c, fast_space *space,
                      const fast_elastic_end *end)
{
    const double rate = 1 / (double)c->period;
    const fast_cost cost = { .trips = 2 * rate, .waits = rate, .served = rate, .moved = 36 * rate };
    fast_space_read read = { .whole = true };

    fast_trainer_cost(t, &cost);
    while (fast_trainer_next(t)) {
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        if (t->step % c->period == 0)
            FAST_TRY(meet(t, end, space));
        FAST_TRY(fast_trainer_update(t, t->g, 1));
        fast_trainer_carry(t, t->rank, (double)t->workers);
    }
    FAST_TRY(fast_trainer_end(t));
    /* Who ends last sees where the centre came to. */
    fast_actor_at(t->actor, t->step, "the centre");
    FAST_TRY(fast__elastic_read(space, end, &read));
    t->centre_version = read.version;
    return FAST_OK;
}

static fast_err worker(fast_trainer *t, const void *config)
{
    const elastic_config *c = config;
    fast_elastic_end end = { .w = t->w, .actor = t->actor, .n = t->count, .workers = t->workers };
    fast_space *space = NULL;
    fast_err err;

    end.alpha = (float)(c->alpha < 0 ? 0.9 / (double)t->workers : c->alpha);
    end.beta = c->beta < 0 ? end.alpha : (float)c->beta;
    end.apart = fast_trainer_codes(t) != FAST_CODES_NONE;
    FAST_TRY(fast_trainer_centre(t, &end.z));
    FAST_TRY(fast__alloc("contributions", t->workers, sizeof *end.carried, &end.carried));
    err = open_space(t, end.z, &space);
    if (!err)
        err = train(t, c, space, &end);
    fast_space_close(space);
    fast__free(end.carried);
    return err;
}

const fast_strategy fast__strategy_elastic = {
    .name = "elastic",
    .summary = "elastic averaging: springs between free workers and a centre",
    .options = options,
    .config_size = sizeof(elastic_config),
    .codes = true,
    .sends = "differences",
    .answers = "weights",
    .servers = servers,
    .worker = worker,
    .server = server,
};
