/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elastic_sync: elastic averaging in rounds: synchronous EASGD, and CROSSBOW's synchronous model
 * averaging (SMA).
 *
 *     every tau steps, all together, with the models from before the update:
 *         d_i <- w_i - z
 *         w_i <- w_i - alpha d_i
 *         z   <- z + alpha sum_i d_i + mu (z - z_before)
 *     every step:  w_i <- rule(w_i, g_i)
 *
 *   EASGD   alpha = 0.9 / P, mu = 0 (Zhang, Choromanska and LeCun 2015, equations 5 and 6)
 *   SMA     alpha = 1 / P, mu = 0.9, tau = 1 (Koliousis et al., "CROSSBOW", 2019)
 *
 * With alpha = 1 / P and mu = 0 the centre is the mean of the models before the update. A single
 * worker with alpha = 1 is followed by its centre one exchange later. A restart sets every worker
 * to the centre and clears the centre's momentum: CROSSBOW restarts when the learning rate changes,
 * because the average belongs to the old rate. The rule's own momentum is not reset. A smooth
 * schedule changes the learning rate at each step: there use a number of steps.
 *
 * All copies of z are equal to the bit. The model of the run is z.
 *
 * Cost per worker: one allreduce of the model every tau steps; three more vectors, four with mu.
 */
#include "base/err.h"
#include "base/memory.h"
#include "strategy/elastic.h"
#include "strategy/strategy.h"
#include "tensor/vector.h"

#include <string.h>

typedef struct sync_config {
    double alpha;       /* constant of the spring; < 0: 0.9 / workers; 0: workers train alone */
    double mu;          /* momentum of the centre */
    int64_t period;     /* steps between exchanges */
    int64_t restart;    /* steps between restarts; 0: never, -1: when the learning rate changes */
    char algorithm[64]; /* collective that sums the differences */
} sync_config;

static const fast_option options[] = {
    FAST_OPT_REAL(
        sync_config, alpha, "-1", -1, 1,
        "fraction of the distance that a worker moves to the centre; -1: 0.9 / workers, or "
        "1 / workers with mu"),
    FAST_OPT_REAL(sync_config, mu, "0", 0, 1, "momentum of the centre (SMA: 0.9)"),
    FAST_OPT_INT(sync_config, period, "1", 1, 1e12, "steps between exchanges"),
    FAST_OPT_INT(sync_config, restart, "0", -1, 1e12,
                 "steps after which workers restart from the centre; 0: never, -1: when the "
                 "learning rate changes"),
    FAST_OPT_TEXT(sync_config, algorithm, "auto", "allreduce",
                  "collective that sums the differences; auto: the fastest by measurement"),
    FAST_OPT_END,
};

/* x = d, sum, w, z:  d = w - z;  sum = d. */
static void run_difference(const void *ctx, int64_t n, float *const *x)
{
    (void)ctx;
    FAST_ASSERT(x[0] != x[1] && x[2] != x[3]);
    memcpy(x[0], x[2], (size_t)n * sizeof **x);
    fast__vector_axpy(n, -1, x[3], x[0]);
    memcpy(x[1], x[0], (size_t)n * sizeof **x);
}

/* x = w, z, d, sum, z_before, the last only with mu:
 *   w -= alpha d;  z += alpha sum + mu (z - z_before);  z_before = z from before. */
static void run_springs(const void *ctx, int64_t n, float *const *x)
{
    const fast_elastic_centre *c = ctx;
    const size_t size = (size_t)n * sizeof **x;
    float *w = x[0], *z = x[1], *d = x[2];

    FAST_ASSERT(w != z && d != z);
    fast__vector_axpy(n, -c->alpha, d, w);
    if (c->z_before.x) { /* d is not needed any more: it holds the old z */
        memcpy(d, z, size);
        fast__vector_axpy(n, -1, d, x[4]);
        fast__vector_axpy(n, -c->mu, x[4], z);
        memcpy(x[4], d, size);
    }
    fast__vector_axpy(n, c->alpha, x[3], z);
}

static const fast_kernel difference = { "difference", 0, 0, 4, 2, false, run_difference };
static const fast_kernel springs = { "springs", 6, 44, 4, 4, false, run_springs };
static const fast_kernel springs_momentum = { "springs", 6, 44, 5, 5, false, run_springs };

fast_err fast__elastic_together(fast_group *group, int64_t n, fast_elastic_centre *c, float *w)
{
    const fast_vector model = c->t ? fast_trainer_model(c->t) : (fast_vector){ .x = w };
    const fast_vector before[] = { c->d, c->sum, model, c->z };
    const fast_vector after[] = { model, c->z, c->d, c->sum, c->z_before };
    const fast_kernel *move = c->z_before.x ? &springs_momentum : &springs;

    FAST_ASSERT(n > 0 && c->d.x && c->sum.x);
    c->versions++;
    if (c->t) {
        FAST_TRY(fast_trainer_apply(c->t, &difference, NULL, before));
        FAST_TRY(fast_trainer_sum_vector(c->t, &c->sum));
        return fast_trainer_apply(c->t, move, c, after);
    }
    run_difference(NULL, n, (float *[]){ c->d.x, c->sum.x, w, c->z.x });
    FAST_TRY(fast_allreduce(group, c->sum.x, n, FAST_SOON));
    run_springs(c, n, (float *[]){ w, c->z.x, c->d.x, c->sum.x, c->z_before.x });
    return FAST_OK;
}

/* Set the worker to the centre and clear the centre's momentum. */
static void restart(fast_trainer *t, const fast_elastic_centre *e)
{
    FAST_ASSERT(e->z.x == t->centre);
    fast_trainer_adopt(t, &e->z);
    if (!e->z_before.x)
        return;
    fast__vector_copy(t->count, e->z.x, e->z_before.x);
    memcpy(e->z_before.shares, e->z.shares, (size_t)fast_trainer_share_count(t) * sizeof(double));
}

/* Persistent numbers of a worker. */
typedef struct sync_numbers {
    int64_t set;       /* 1: the numbers below are set */
    double unused[4];  /* contributions, in checkpoints of version 0.1; now beside their vectors */
    double lr;         /* learning rate at the last restart */
    int64_t restarted; /* step of the last restart */
    int64_t versions;  /* moves of the centre */
} sync_numbers;

/* Train to the end: restarts, local steps, and the elastic step of all workers in each period. */
static fast_err train(fast_trainer *t, const sync_config *c, fast_elastic_centre *e,
                      sync_numbers *k)
{
    FAST_ASSERT(k->set && c->period >= 1);
    while (fast_trainer_next(t)) {
        const bool due = c->restart < 0    ? t->lr != k->lr
                         : c->restart == 0 ? false
                                           : t->step - k->restarted >= c->restart;

        if (due) {
            restart(t, e);
            k->restarted = t->step;
            k->lr = t->lr;
        }
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        if (t->step % c->period == 0 || t->step == t->step_count) {
            fast_actor_at(t->actor, t->step, "weights");
            FAST_TRY(fast__elastic_together(t->group, t->count, e, t->w));
            t->centre_version = k->versions = e->versions;
        }
        FAST_TRY(fast_trainer_update(t, t->g, 1));
    }
    return fast_trainer_end(t);
}

/* Find the persistent centre; a new one starts as w. FAST_EFORMAT for numbers that make no sense.
 * */
static fast_err find_centre(fast_trainer *t, const sync_config *c, fast_elastic_centre *e,
                            sync_numbers **out)
{
    sync_numbers *k;
    void *memory = NULL;

    FAST_ASSERT(e->t == t);
    FAST_TRY(fast_trainer_persist(t, 0, sizeof *k, &memory));
    FAST_TRY(fast_trainer_persist_vector(t, 1, &e->z));
    if (c->mu > 0)
        FAST_TRY(fast_trainer_persist_vector(t, 2, &e->z_before));
    *out = k = memory;
    if (k->restarted < 0 || k->restarted > t->step || k->versions < 0 || k->versions > t->step)
        return fast__fail(FAST_EFORMAT, /* of a checkpoint, which may be forged */
                          "elastic_sync: worker %lld cannot resume from move %lld of the centre "
                          "and a restart at step %lld",
                          (long long)t->rank, (long long)k->versions, (long long)k->restarted);
    if (!k->set) {
        fast__vector_copy(t->count, t->w, e->z.x);
        if (e->z_before.x)
            fast__vector_copy(t->count, t->w, e->z_before.x);
        *k = (sync_numbers){ .set = 1, .lr = fast_trainer_lr(t, t->step), .restarted = t->step };
    }
    e->versions = k->versions;
    t->centre = e->z.x;
    t->centre_version = e->versions;
    return FAST_OK;
}

/* Allocate the scratch vectors of an exchange: one block for values, one for contributions. */
static fast_err make_scratch(const fast_trainer *t, fast_elastic_centre *e)
{
    FAST_ASSERT(e->d.x == NULL && e->sum.x == NULL);
    e->d.age = e->sum.age = -1;
    FAST_TRY(fast__vector_new(fast__device_of(t->w), "differences", 2 * t->count, &e->d.x));
    FAST_TRY(fast__alloc("contributions", 2 * fast_trainer_share_count(t), sizeof *e->d.shares,
                         &e->d.shares));
    e->sum.x = e->d.x + t->count;
    e->sum.shares = e->d.shares + fast_trainer_share_count(t);
    return FAST_OK;
}

static fast_err worker(fast_trainer *t, const void *config)
{
    const sync_config *c = config;
    const double share = c->mu > 0 ? 1.0 : 0.9;
    fast_elastic_centre e = { .t = t, .mu = (float)c->mu };
    sync_numbers *k = NULL;
    fast_err err;

    FAST_ASSERT(c != NULL && t->group != NULL);
    e.alpha = (float)(c->alpha < 0 ? share / (double)t->workers : c->alpha);
    t->period = c->period;
    FAST_TRY(fast_group_algorithm(t->group, c->algorithm));
    FAST_TRY(find_centre(t, c, &e, &k));
    err = make_scratch(t, &e);
    if (!err)
        err = train(t, c, &e, k);
    fast__vector_free(e.d.x);
    fast__free(e.d.shares);
    return err;
}

const fast_strategy fast__strategy_elastic_sync = {
    .name = "elastic_sync",
    .summary = "elastic averaging in rounds; with momentum and restarts CROSSBOW's",
    .options = options,
    .config_size = sizeof(sync_config),
    .synchronous = true,
    .resumable = true,
    .uses_codec = true,
    .sends = "differences",
    .worker = worker,
};
