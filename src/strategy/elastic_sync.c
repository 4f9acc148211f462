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
 * With `tune` the number of learners follows from their throughput (CROSSBOW's auto-tuner): at
 * first worker 0 learns alone. Every `tune` steps worker 0's clock gives the steps of all learners
 * per second; while these grow by the fraction `gain`, one more worker starts from the
 * centre. The first that does not pay leaves again, and the number is final. A worker that does not
 * learn is at the centre and adds a difference of 0; with n learners alpha is 1 / n. The choice
 * follows from measured times, so such runs repeat to the bit on `sim` only.
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
    int64_t tune;       /* steps between changes of the number of learners; 0: all workers learn */
    double gain;        /* tune: fraction by which throughput grows with a learner that pays */
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
    FAST_OPT_INT(sync_config, tune, "0", 0, 1e12,
                 "steps after which one more worker learns, while throughput grows (CROSSBOW's "
                 "auto-tuner); 0: all workers learn"),
    FAST_OPT_REAL(sync_config, gain, "0.05", 0, 100,
                  "tune: fraction by which one more learner must raise the throughput"),
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

/* Persistent numbers of a worker, with `tune`; equal at all workers. */
typedef struct sync_tuner {
    int64_t learners; /* workers that learn, from rank 0 on; 0: not set */
    int64_t settled;  /* 1: the number is final */
    int64_t since;    /* step at which it was changed */
    double speed;     /* steps of all learners per ns, with the last number that paid */
} sync_tuner;

/* Set the number of learners, and the spring's constant that it gives. */
static void set_learners(fast_trainer *t, const sync_config *c, fast_elastic_centre *e,
                         sync_tuner *n, int64_t learners)
{
    FAST_ASSERT(learners >= 1 && learners <= t->workers);
    if (t->rank >= n->learners && t->rank < learners)
        fast_trainer_adopt(t, &e->z); /* it starts from the centre */
    n->learners = learners;
    n->since = t->step;
    e->alpha =
        (float)(c->alpha < 0 ? (c->mu > 0 ? 1.0 : 0.9) / (double)n->learners : (double)c->alpha);
}

/* Change the number of learners if it is due. *began is when the number was changed, by this
 * worker's clock; worker 0's counts. */
static fast_err tune(fast_trainer *t, const sync_config *c, fast_elastic_centre *e, sync_tuner *n,
                     int64_t *began)
{
    float elapsed = t->rank == 0 ? (float)(fast_now(t->actor) - *began) : 0;

    FAST_ASSERT(n->learners >= 1);
    if (n->settled || t->step - n->since < c->tune)
        return FAST_OK;
    fast_actor_at(t->actor, t->step, "throughput");
    FAST_TRY(fast_allreduce(t->group, &elapsed, 1, FAST_SOON));
    /* All workers compute the same number from worker 0's time, and agree without a vote. */
    const double steps = (double)n->learners * (double)(t->step - n->since);
    const double speed = steps / (elapsed > 1 ? (double)elapsed : 1);
    const bool pays = speed > n->speed * (1 + c->gain);

    /* The first interval has nothing to be compared with: one learner always pays. Where the last
     * worker pays, nobody is left to add. */
    n->settled = !pays || n->learners == t->workers;
    if (pays)
        n->speed = speed;
    const int64_t next = n->learners + (pays ? 1 : -1);
    set_learners(t, c, e, n, next < 1 ? 1 : next > t->workers ? t->workers : next);
    *began = fast_now(t->actor);
    return FAST_OK;
}

/* Find the persistent numbers; new ones start with one learner. FAST_EFORMAT. */
static fast_err find_tuner(fast_trainer *t, const sync_config *c, fast_elastic_centre *e,
                           sync_tuner **out)
{
    void *memory = NULL;

    FAST_TRY(fast_trainer_persist(t, 3, sizeof **out, &memory));
    *out = memory;
    FAST_ASSERT(e->z.x != NULL);
    if ((*out)->learners < 0 || (*out)->learners > t->workers)
        return fast__fail(FAST_EFORMAT,
                          "elastic_sync: %lld learners of %lld workers in a checkpoint",
                          (long long)(*out)->learners, (long long)t->workers);
    const int64_t learners = (*out)->learners;
    (*out)->learners = t->workers; /* nobody starts from the centre here */
    set_learners(t, c, e, *out, learners > 0 ? learners : 1);
    return FAST_OK;
}

/* The elastic step of all workers. One that does not learn is at the centre: its difference is 0.
 * It follows the centre, which moves. */
static fast_err exchange(fast_trainer *t, fast_elastic_centre *e, sync_numbers *k, bool learns)
{
    FAST_ASSERT(e->t == t);
    if (!learns)
        fast_trainer_adopt(t, &e->z);
    fast_actor_at(t->actor, t->step, "weights");
    FAST_TRY(fast__elastic_together(t->group, t->count, e, t->w));
    t->centre_version = k->versions = e->versions;
    return FAST_OK;
}

/* Train to the end: restarts, local steps, and the elastic step of all workers in each period. */
static fast_err train(fast_trainer *t, const sync_config *c, fast_elastic_centre *e,
                      sync_numbers *k, sync_tuner *n)
{
    int64_t began = fast_now(t->actor);

    FAST_ASSERT(k->set && c->period >= 1);
    while (fast_trainer_next(t)) {
        const bool learns = !n || t->rank < n->learners;
        const bool due = c->restart < 0    ? t->lr != k->lr
                         : c->restart == 0 ? false
                                           : t->step - k->restarted >= c->restart;

        if (due) {
            restart(t, e);
            k->restarted = t->step;
            k->lr = t->lr;
        }
        /* All workers count all steps, so that those that join later have the learning rate and the
         * stops of the others. */
        if (learns)
            FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        else
            fast_trainer_count_step(t);
        const bool together = t->step % c->period == 0 || t->step == t->step_count;
        if (together)
            FAST_TRY(exchange(t, e, k, learns));
        if (learns)
            FAST_TRY(fast_trainer_update(t, t->g, 1));
        if (n && together)
            FAST_TRY(tune(t, c, e, n, &began));
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

/* An exchange comes before the update of its step, and a restart drops what was not exchanged. */
static fast_err check(const void *config, int64_t workers, const char *optimizer)
{
    const sync_config *c = config;

    (void)optimizer;
    FAST_ASSERT(workers >= 1);
    if (c->restart == 1)
        return fast__fail(FAST_EINVAL, "elastic_sync: with restart=1 workers go back to the centre "
                                       "before each step, and learn nothing; use 2 or more");
    return FAST_OK;
}

static fast_err worker(fast_trainer *t, const void *config)
{
    const sync_config *c = config;
    const double share = c->mu > 0 ? 1.0 : 0.9;
    fast_elastic_centre e = { .t = t, .mu = (float)c->mu };
    sync_numbers *k = NULL;
    sync_tuner *n = NULL;
    fast_err err;

    FAST_ASSERT(c != NULL && t->group != NULL);
    e.alpha = (float)(c->alpha < 0 ? share / (double)t->workers : c->alpha);
    t->period = c->period;
    FAST_TRY(fast_group_algorithm(t->group, c->algorithm));
    FAST_TRY(find_centre(t, c, &e, &k));
    if (c->tune > 0)
        FAST_TRY(find_tuner(t, c, &e, &n));
    err = make_scratch(t, &e);
    if (!err)
        err = train(t, c, &e, k, n);
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
    .check = check,
    .worker = worker,
};
