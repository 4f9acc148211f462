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
 * Where all actors share memory, an exchange is one pass over z and w, in pieces that nobody else
 * uses meanwhile, and no other worker moves z between a read and its add.
 *
 * Cost per worker and step: one get and one add of the model every tau steps; one more vector.
 */
#include "strategy/elastic.h"

#include "base/err.h"
#include "base/memory.h"
#include "space/space.h"
#include "strategy/strategy.h"
#include "tensor/vector.h"
#include "trainer/in_place.h"

#include <string.h>

enum { BLOCK = 2048 }; /* floats of a block of an exchange in shared memory */

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

/* An exchange in the memory of the centre, piece by piece (space/space_visit.c). */

/* Pull a block of w and z together, in the order of operations of an exchange by get and add. */
static void pull_block(const fast_elastic_end *end, int64_t offset, int64_t n, float *z)
{
    float d[BLOCK];

    FAST_ASSERT(n <= BLOCK);
    fast__vector_copy(n, z, end->z + offset);
    fast__device_run(fast__elastic_pull.run, &end->spring, n, 3, 2,
                     (float *[]){ end->w + offset, d, z });
    fast__vector_add(n, d, z);
}

/* The contributions of the centre lie behind its values: those from number `first` on. */
static void pull_shares(const fast_elastic_end *end, int64_t first, int64_t count, float *z)
{
    double *w = fast_trainer_model(end->t).shares;
    const double alpha = (double)end->spring.alpha, beta = (double)end->spring.beta;

    FAST_ASSERT(first >= 0 && first + count <= end->share_count);
    fast__vector_copy(count, z, end->z + end->n + first);
    float *to = fast__map(z, count, FAST_ACCESS_UPDATE);
    for (int64_t i = 0; i < count; i++) {
        const double d = w[first + i] - (double)to[i];

        w[first + i] -= alpha * d;
        to[i] += (float)(beta * d);
    }
    fast__unmap(z, count, FAST_ACCESS_UPDATE);
}

/* Pull a piece: values, then contributions. */
static void pull_piece(void *ctx, int64_t offset, int64_t count, float *z)
{
    const fast_elastic_end *end = ctx;
    const int64_t stop = offset + count < end->n ? offset + count : end->n;

    FAST_ASSERT(end->t != NULL);
    for (int64_t at = offset; at < stop; at += BLOCK)
        pull_block(end, at, stop - at < BLOCK ? stop - at : BLOCK, z + (at - offset));
    if (offset + count > end->n) {
        const int64_t from = offset > end->n ? offset : end->n;

        pull_shares(end, from - end->n, offset + count - from, z + (from - offset));
    }
}

/* Update a piece of w that was pulled, while it is in the cache. */
static void update_piece(void *ctx, int64_t offset, int64_t count)
{
    fast_trainer *t = ((const fast_elastic_end *)ctx)->t;
    const int64_t n = offset + count < t->count ? count : t->count - offset;

    FAST_ASSERT(offset >= 0);
    if (n > 0)
        fast_trainer_update_range(t, t->step, t->lr, t->w + offset, t->g + offset, 1, offset, n);
}

/* Exchange and update in one pass over the centre's memory. */
static fast_err exchange_there(fast_space *space, fast_elastic_end *end)
{
    FAST_ASSERT(!end->separate);
    return fast__trainer_visit(
        space, NULL,
        &(fast_space_visitor){
            .piece = pull_piece, .after = update_piece, .ctx = end, .reads = true },
        &end->t->centre_version, FAST_SOON);
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

/* Report of a gradient without exchange: the range is final, so it is updated now. */
static void update_reported(void *ctx, int64_t offset, int64_t count)
{
    fast_trainer *t = ctx;

    FAST_ASSERT(offset + count <= t->count);
    fast_trainer_update_range(t, t->step + 1, t->lr, t->w + offset, t->g + offset, 1, offset,
                              count);
}

/* Train where the centre is in shared memory: an exchange is one pass that ends in the update, and
 * steps without exchange update each range as its gradient becomes final. */
static fast_err train_there(fast_trainer *t, const elastic_config *c, fast_space *space,
                            fast_elastic_end *end)
{
    FAST_ASSERT(c->period >= 1);
    while (fast_trainer_next(t)) {
        const bool exchanges = (t->step + 1) % c->period == 0;

        FAST_TRY(fast_trainer_gradient(t, exchanges ? NULL : update_reported, t));
        if (!exchanges)
            continue;
        fast_actor_at(t->actor, t->step, "the centre");
        FAST_TRY(exchange_there(space, end));
    }
    return fast_trainer_end(t);
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
    return fast_trainer_end(t);
}

/* The worker that ends last reads the final centre. */
static fast_err read_last(fast_trainer *t, fast_space *space, const fast_elastic_end *end)
{
    fast_space_read read = { .full_values = true };

    FAST_ASSERT(end->z == t->centre);
    fast_actor_at(t->actor, t->step, "the centre");
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
        err = fast__trainer_updates_early(t) && fast__space_can_visit(space)
                  ? train_there(t, c, space, &end)
                  : train(t, c, space, &end);
    if (!err)
        err = read_last(t, space, &end);
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
