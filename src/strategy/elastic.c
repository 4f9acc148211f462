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
 * Zhang, Choromanska and LeCun, "Deep learning with elastic averaging SGD", 2015, algorithm 1. By
 * default beta = alpha: the worker and the centre move by opposite amounts, the elastic symmetry.
 * The paper sets alpha = 0.9 / P; its rho is alpha / lr. EAMSGD is this strategy with the rule
 * `nesterov`, whose momentum is local to a worker and independent of the springs.
 *
 * The master is a space on one or several servers. Other workers may move z between a worker's read
 * and its add; the sum of all models is conserved nevertheless. The model of the run is z; its
 * batch-norm statistics are the mean of the workers'. A worker may crash; a crash of the master
 * ends the run.
 *
 * With codecs beta d is sent encoded, and the residual of an encoding is added to the next one, so
 * that the sum of z, all w_i and all residuals is conserved. Workers read the centre as values, or
 * through a strongly lossy codec as the difference to their copy of it; d is relative to that copy.
 *
 * Cost per worker and step: one get and one add of the model every tau steps; one more vector.
 */
#include "strategy/elastic.h"

#include "base/err.h"
#include "base/memory.h"
#include "strategy/strategy.h"
#include "tensor/vector.h"

#include <string.h>

/* Options. */
typedef struct elastic_config {
    double alpha;    /* of the worker's move; < 0: 0.9 / workers */
    double beta;     /* of the centre's move; < 0: alpha */
    int64_t period;  /* steps between exchanges */
    int64_t servers; /* servers that share the centre */
} elastic_config;

static const fast_option options[] = {
    FAST_OPT_REAL(elastic_config, alpha, "-1", -1, 1,
                  "fraction of the distance that a worker moves to the centre; -1: 0.9 / workers"),
    FAST_OPT_REAL(elastic_config, beta, "-1", -1, 1,
                  "fraction of the distance that the centre moves to a worker; -1: alpha"),
    FAST_OPT_INT(elastic_config, period, "4", 1, 1e12, "steps between exchanges"),
    FAST_OPT_INT(elastic_config, servers, "1", 1, 65536, "servers that share the centre"),
    FAST_OPT_END,
};

/* x = w, d, z: pull w towards z; d is the change of z. */
static void run_pull(const void *ctx, int64_t n, float *const *x)
{
    const fast_spring *spring = ctx;
    float *w = x[0], *d = x[1];

    FAST_ASSERT(w != x[2] && w != d);
    memcpy(d, w, (size_t)n * sizeof *d);
    fast__vector_axpy(n, -1, x[2], d);
    fast__vector_axpy(n, -spring->alpha, d, w);
    fast__vector_scale(n, spring->beta, d);
}

/* Deferred: a worker moves its own model while the difference is sent. */
const fast_kernel fast__elastic_pull = { "elastic pull", 5, 36, 3, 2, true, run_pull };

fast_err fast__elastic_read(fast_space *space, const fast_elastic_end *end, fast_space_read *read)
{
    FAST_ASSERT(space != NULL && end->z != NULL);
    FAST_TRY(fast_space_get(space, 0, end->z, read, FAST_SOON));
    return end->separate ? fast_space_get(space, 1, end->z + end->n, NULL, FAST_SOON) : FAST_OK;
}

/* Move w towards z. d becomes the change of z: n floats, then its contributions. */
static fast_err pull(const fast_elastic_end *end, float *d)
{
    const int64_t n = end->share_count;
    double *z_shares = end->shares, *d_shares = end->shares + n;

    FAST_ASSERT(end->w != NULL && d != NULL);
    if (!end->t) {
        fast__elastic_pull.run(&end->spring, end->n, (float *[]){ end->w, d, end->z });
        return FAST_OK;
    }
    /* Contributions travel as floats behind the values. */
    fast__vector_convert(n, FAST_F32, end->z + end->n, FAST_F64, z_shares, 1);
    FAST_TRY(fast_trainer_apply(end->t, &fast__elastic_pull, &end->spring,
                                (fast_vector[]){ fast_trainer_model(end->t),
                                                 { .x = d, .shares = d_shares, .age = -1 },
                                                 { .x = end->z, .shares = z_shares, .age = -1 } }));
    fast__vector_convert(n, FAST_F64, d_shares, FAST_F32, d + end->n, 1);
    return FAST_OK;
}

fast_err fast__elastic_exchange(fast_space *space, const fast_elastic_end *end,
                                fast_space_read *read)
{
    fast_buffer *buffer = NULL;
    float *d;
    fast_err err;

    FAST_ASSERT(end->n > 0 && end->share_count >= 0);
    *read = (fast_space_read){ 0 };
    FAST_TRY(fast__elastic_read(space, end, read));
    /* From the pool, because a worker needs it during an exchange only. */
    FAST_TRY(fast_buffer_new(end->actor, (size_t)(end->n + end->share_count) * sizeof *d, &buffer));
    d = fast_buffer_data(buffer);
    err = pull(end, d);
    if (!err)
        err = fast_space_add(space, 0, d, FAST_SOON);
    if (!err && end->separate)
        err = fast_space_add(space, 1, d + end->n, FAST_SOON);
    fast_buffer_free(buffer);
    return err;
}

/* Servers of the master. */
static int64_t servers(const void *config, int64_t workers)
{
    const elastic_config *c = config;

    FAST_ASSERT(workers >= 1 && c->servers >= 1);
    return c->servers;
}

/* Open the space of the centre, to which workers add. Contributions follow the values in one
 * tensor, or are a second tensor if the run has codecs. */
static fast_err open_space(fast_trainer *t, const float *z, fast_space **out)
{
    const bool separate = fast_trainer_codec_fit(t) != FAST_FIT_NONE;
    const fast_space_tensor tensors[] = {
        { "z", t->count + (separate ? 0 : fast_trainer_share_count(t)), z },
        { "contributions", fast_trainer_share_count(t), z + t->count }
    };

    FAST_ASSERT(t->servers >= 1 && z != NULL);
    return fast_trainer_space(t,
                              &(fast_space_options){ .name = "centre",
                                                     .tensors = tensors,
                                                     .tensor_count = separate ? 2 : 1,
                                                     .owners = t->server_ids,
                                                     .owner_count = t->servers,
                                                     .writers = t->worker_ids,
                                                     .writer_count = t->workers },
                              out);
}

/* The program of the master: serve its part of the centre until all workers have ended. */
static fast_err server(fast_trainer *t, const void *config)
{
    fast_space *space = NULL;
    float *z = NULL;
    fast_err err;

    (void)config;
    FAST_ASSERT(t->g == NULL);
    FAST_TRY(fast__vector_new(fast__device_of(t->w), "the centre",
                              t->count + fast_trainer_share_count(t), &z));
    fast__vector_copy(t->count, t->w, z);
    err = open_space(t, z, &space);
    fast__vector_free(z); /* the space has a copy */
    if (!err)
        err = fast_space_serve(space, INT64_MAX);
    const fast_err last = fast_trainer_space_close(t, space);
    return err ? err : last;
}

/* Algorithm 1 of the paper: local steps, and every tau steps an exchange with the centre. */
static fast_err train(fast_trainer *t, const elastic_config *c, fast_space *space,
                      const fast_elastic_end *end)
{
    fast_space_read read = { .full_values = true };

    FAST_ASSERT(c->period >= 1);
    while (fast_trainer_next(t)) {
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        if (t->step % c->period == 0) {
            fast_actor_at(t->actor, t->step, "the centre");
            FAST_TRY(fast__elastic_exchange(space, end, &read));
            t->centre_version = read.version;
        }
        FAST_TRY(fast_trainer_update(t, t->g, 1));
    }
    FAST_TRY(fast_trainer_end(t));
    /* The worker that ends last reads the final centre. */
    fast_actor_at(t->actor, t->step, "the centre");
    read = (fast_space_read){ .full_values = true };
    FAST_TRY(fast__elastic_read(space, end, &read));
    t->centre_version = read.version;
    return FAST_OK;
}

/* The program of a worker. */
static fast_err worker(fast_trainer *t, const void *config)
{
    const elastic_config *c = config;
    fast_elastic_end end = { .t = t,
                             .w = t->w,
                             .actor = t->actor,
                             .n = t->count,
                             .share_count = fast_trainer_share_count(t) };
    fast_space *space = NULL;
    fast_err err, last;

    FAST_ASSERT(c != NULL && t->g != NULL);
    end.spring.alpha = (float)(c->alpha < 0 ? 0.9 / (double)t->workers : c->alpha);
    end.spring.beta = c->beta < 0 ? end.spring.alpha : (float)c->beta;
    end.separate = fast_trainer_codec_fit(t) != FAST_FIT_NONE;
    FAST_TRY(fast_trainer_centre(t, &end.z));
    FAST_TRY(fast__alloc("contributions", 2 * fast_trainer_share_count(t), sizeof *end.shares,
                         &end.shares));
    err = open_space(t, end.z, &space);
    if (!err)
        err = train(t, c, space, &end);
    last = fast_trainer_space_close(t, space);
    fast__free(end.shares);
    return err ? err : last;
}

/* An exchange waits for the read and the add, and moves one model each way. */
static void cost(const void *config, const fast_trainer *t, fast_cost *out)
{
    const double exchanges = 1 / (double)((const elastic_config *)config)->period;

    (void)t;
    FAST_ASSERT(exchanges > 0 && exchanges <= 1);
    out->round_trips = 2 * exchanges;
    out->waits = out->served = exchanges;
}

const fast_strategy fast__strategy_elastic = {
    .name = "elastic",
    .summary = "elastic averaging: springs between asynchronous workers and a centre",
    .options = options,
    .config_size = sizeof(elastic_config),
    .resumable = true,
    .uses_codec = true,
    .sends = "differences",
    .answers = "weights",
    .cost = cost,
    .servers = servers,
    .worker = worker,
    .server = server,
};
