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
 * With alpha = 1 / P and mu = 0 the centre is the mean of the models from before the update;
 * with alpha = 1 as well, that is with one worker, it follows the worker one exchange behind.
 * A restart puts every worker on the centre and takes the centre's momentum away: CROSSBOW does it
 * when the learning rate changes, since what was averaged belongs to the old one; its algorithm
 * begins anew from z. The rule's own momentum is kept. The rate of a smooth schedule changes at
 * each step: there a number of steps is the better choice.
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
    double alpha;       /* < 0: 0.9 / workers; 0 is a worker that goes alone */
    double mu;          /* momentum of the centre */
    int64_t period;     /* steps between exchanges */
    int64_t restart;    /* steps between restarts; 0: none, -1: at changes of the rate */
    char algorithm[64]; /* of the group */
} sync_config;

static const fast_option options[] = {
    FAST_OPT_REAL(
        sync_config, alpha, "-1", -1, 1,
        "how far a worker moves to the centre; -1: 0.9 / workers, or 1 / workers with mu"),
    FAST_OPT_REAL(sync_config, mu, "0", 0, 1, "momentum of the centre (SMA: 0.9)"),
    FAST_OPT_INT(sync_config, period, "1", 1, 1e12, "steps between exchanges"),
    FAST_OPT_INT(sync_config, restart, "0", -1, 1e12,
                 "steps after which workers begin anew from the centre; 0: never, -1: when the "
                 "learning rate changes"),
    FAST_OPT_TEXT(sync_config, algorithm, "auto", "allreduce",
                  "how the sum is made: a collective by name"),
    FAST_OPT_END,
};

fast_err fast__elastic_together(fast_group *group, int64_t n, fast_elastic_centre *c, float *w)
{
    const size_t size = (size_t)n * sizeof *w;

    memcpy(c->d, w, size);
    fast__vector_axpy(n, -1, c->z, c->d);
    memcpy(c->sum, c->d, size);
    FAST_TRY(c->t ? fast_trainer_sum(c->t, c->sum) : fast_allreduce(group, c->sum, n, FAST_SOON));
    fast__vector_axpy(n, -c->alpha, c->d, w);
    if (c->z_before) { /* d is free: it holds z while z moves */
        memcpy(c->d, c->z, size);
        fast__vector_axpy(n, -1, c->d, c->z_before);
        fast__vector_axpy(n, -c->mu, c->z_before, c->z);
        memcpy(c->z_before, c->d, size);
    }
    fast__vector_axpy(n, c->alpha, c->sum, c->z);
    c->versions++;
    return FAST_OK;
}

/* Everyone on the centre, which stands still. */
static void restart(const fast_trainer *t, const fast_elastic_centre *e)
{
    const size_t size = (size_t)t->count * sizeof *t->w;

    memcpy(t->w, e->z, size);
    if (e->z_before)
        memcpy(e->z_before, e->z, size);
}

/* What replicas and centre carry, for the measures: workers go in step, so each replica holds as
 * much of its own updates as any other of its own, and as much of every other's. */
typedef struct ledger {
    double own;      /* of this worker's updates, in its replica */
    double other;    /* of another's */
    double z;        /* of each worker's, in the centre */
    double z_before; /* at the exchange before */
} ledger;

/* What lasts as long as a worker's replica, besides the centre. */
typedef struct lasting {
    int64_t begun;     /* 1: it does */
    ledger l;          /* what is carried */
    double lr;         /* the rate at the last restart */
    int64_t restarted; /* the step of it */
    int64_t versions;  /* moves of the centre */
} lasting;

/* The exchange, as it acts on contributions. */
static void mix_ledger(const fast_trainer *t, const fast_elastic_centre *e, ledger *l)
{
    const double alpha = (double)e->alpha;
    const double sum = l->own + (double)(t->workers - 1) * l->other;
    const double z = l->z;

    l->own -= alpha * (l->own - z);
    l->other -= alpha * (l->other - z);
    l->z += alpha * (sum - (double)t->workers * z) + (double)e->mu * (z - l->z_before);
    l->z_before = z;
}

/* Tell the run what this replica holds now. */
static void tell_ledger(fast_trainer *t, const ledger *l)
{
    const double *carried = fast_trainer_carried(t);

    for (int64_t i = 0; i < t->workers; i++)
        fast_trainer_carry(t, i, (i == t->rank ? l->own : l->other) - carried[i]);
}

static fast_err train(fast_trainer *t, const sync_config *c, fast_elastic_centre *e, lasting *k)
{
    const double rate = 1 / (double)c->period;
    const fast_cost cost = { .allreduces = rate, .moved = 44 * rate, .meets = (double)c->period };

    fast_trainer_cost(t, &cost);
    while (fast_trainer_next(t)) {
        const bool due = c->restart < 0    ? t->lr != k->lr
                         : c->restart == 0 ? false
                                           : t->step - k->restarted >= c->restart;

        if (due) {
            restart(t, e);
            k->l.own = k->l.other = k->l.z_before = k->l.z;
            k->restarted = t->step;
            k->lr = t->lr;
        }
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        if (t->step % c->period == 0 || t->step == t->step_count) {
            fast_actor_at(t->actor, t->step, "weights");
            FAST_TRY(fast__elastic_together(t->group, t->count, e, t->w));
            FAST_TRY(fast_charge(t->actor, 6 * (double)t->count, 44 * (double)t->count));
            t->centre_version = k->versions = e->versions;
            mix_ledger(t, e, &k->l);
        }
        FAST_TRY(fast_trainer_update(t, t->g, 1));
        k->l.own += (double)t->workers;
        tell_ledger(t, &k->l);
        fast_trainer_staleness(t, 0);
    }
    return fast_trainer_end(t);
}

/* The centre, and what goes with it: new, or as an earlier call left it. */
static fast_err find_centre(fast_trainer *t, const sync_config *c, fast_elastic_centre *e,
                            lasting **out)
{
    const size_t size = (size_t)t->count * sizeof(float);
    void *k = NULL, *z = NULL, *z_before = NULL;

    FAST_TRY(fast_trainer_keep(t, 0, sizeof **out, &k));
    FAST_TRY(fast_trainer_keep(t, 1, size, &z));
    if (c->mu > 0)
        FAST_TRY(fast_trainer_keep(t, 2, size, &z_before));
    *out = k;
    if ((*out)->restarted < 0 || (*out)->restarted > t->step || (*out)->versions < 0 ||
        (*out)->versions > t->step) /* of a checkpoint, which may be forged */
        return fast__fail(FAST_EFORMAT,
                          "elastic_sync: worker %lld cannot go on from move %lld of the centre and "
                          "a restart at step %lld",
                          (long long)t->rank, (long long)(*out)->versions,
                          (long long)(*out)->restarted);
    if (!(*out)->begun) {
        memcpy(z, t->w, size);
        if (z_before)
            memcpy(z_before, t->w, size);
        **out = (lasting){ .begun = 1, .lr = fast_trainer_lr(t, t->step), .restarted = t->step };
    }
    e->z = z;
    e->z_before = z_before;
    e->versions = (*out)->versions;
    t->centre = e->z;
    t->centre_version = e->versions;
    return FAST_OK;
}

static fast_err worker(fast_trainer *t, const void *config)
{
    const sync_config *c = config;
    const double share = c->mu > 0 ? 1.0 : 0.9;
    fast_elastic_centre e = { .t = t, .mu = (float)c->mu };
    lasting *k = NULL;
    fast_err err;

    e.alpha = (float)(c->alpha < 0 ? share / (double)t->workers : c->alpha);
    t->period = c->period;
    FAST_TRY(fast_group_algorithm(t->group, c->algorithm));
    FAST_TRY(find_centre(t, c, &e, &k));
    err = fast__alloc("a difference", t->count, sizeof *e.d, &e.d);
    if (!err)
        err = fast__alloc("the sum of differences", t->count, sizeof *e.sum, &e.sum);
    if (!err)
        err = train(t, c, &e, k);
    fast__free(e.d);
    fast__free(e.sum);
    return err;
}

const fast_strategy fast__strategy_elastic_sync = {
    .name = "elastic_sync",
    .summary = "elastic averaging in rounds; with momentum and restarts CROSSBOW's",
    .options = options,
    .config_size = sizeof(sync_config),
    .synchronous = true,
    .resumes = true,
    .codes = true,
    .sends = "differences",
    .worker = worker,
};
