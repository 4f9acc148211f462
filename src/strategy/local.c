/* SPDX-License-Identifier: Apache-2.0 */
/*
 * local: every worker trains alone for a period, then models are averaged.
 *
 *     tau local steps:  w_i <- rule(w_i, g_i)
 *     exchange:         a = 1/P sum_i w_i          the average
 *                       G = a - z                  what the period brought to the last model z
 *     outer step:       none       z <- a
 *                       classical  D <- m D + r G;  z <- z + D               (block momentum)
 *                       nesterov   D <- m D + r G;  z <- z + m D + r G
 *                       w_i <- z
 *
 * With period 1, no outer step and plain SGD it is synchronous SGD up to rounding. The members of
 * the family: SparkNet (Moritz et al. 2016) and model averaging are `none`; ParallelSGD (Zinkevich
 * et al. 2010) averages once, at the end (period=0); BMUF (Chen and Huo 2016) is `classical` or
 * `nesterov` with momentum 1 - 1/P and rate 1; SlowMo (Wang et al. 2020) is `classical`; DiLoCo
 * (Douillard et al. 2023) is `nesterov` with an inner AdamW; post-local SGD (Lin et al. 2020)
 * exchanges at each step until `after`. The rule's own state (momentum) stays local, is averaged,
 * or is reset.
 *
 * Cost per worker: one allreduce of the weights in a period; memory: one or two more vectors.
 */
#include "base/err.h"
#include "base/memory.h"
#include "strategy/strategy.h"
#include "tensor/vector.h"

#include <string.h>

typedef struct local_config {
    int64_t period;     /* steps between exchanges; 0: only at the end */
    int outer;          /* 0 none, 1 classical, 2 nesterov */
    double momentum;    /* of the outer step */
    double rate;        /* of the outer step */
    double after;       /* epochs with an exchange at each step before the periods begin */
    int state;          /* of the rule: 0 local, 1 reset */
    char algorithm[64]; /* of the group */
} local_config;

static const fast_option options[] = {
    FAST_OPT_INT(local_config, period, "8", 0, 1e12,
                 "steps between exchanges; 0: once, at the end"),
    FAST_OPT_CHOICE(local_config, outer, "none", "none|classical|nesterov",
                    "momentum over the averages: none, block momentum, or Nesterov's"),
    FAST_OPT_REAL(local_config, momentum, "0.5", 0, 1, "of the outer step"),
    FAST_OPT_REAL(local_config, rate, "1", 0, 100, "of the outer step"),
    FAST_OPT_REAL(local_config, after, "0", 0, 1e9,
                  "epochs of an exchange at each step before (post-local SGD)"),
    FAST_OPT_CHOICE(local_config, state, "local", "local|reset",
                    "the rule's state at an exchange: kept by each worker, or begun anew"),
    FAST_OPT_TEXT(local_config, algorithm, "auto", "allreduce",
                  "how the average is made: a collective by name"),
    FAST_OPT_END,
};

/* What a worker keeps besides its replica, for the outer step. */
typedef struct outer {
    float *z; /* the model after the last exchange; NULL without outer steps */
    float *d; /* its momentum */
} outer;

static fast_err outer_init(const fast_trainer *t, const local_config *c, outer *o)
{
    fast_err err;

    *o = (outer){ NULL, NULL };
    if (c->outer == 0)
        return FAST_OK;
    FAST_TRY(fast__alloc("the last model", t->count, sizeof *o->z, &o->z));
    err = fast__alloc("the outer momentum", t->count, sizeof *o->d, &o->d);
    if (err) {
        fast__free(o->z);
        return err;
    }
    memcpy(o->z, t->w, (size_t)t->count * sizeof *o->z);
    return FAST_OK;
}

/* w holds the average; make the next model of it. */
static void outer_step(fast_trainer *t, const local_config *c, outer *o)
{
    const float m = (float)c->momentum;
    const float r = (float)c->rate;

    for (int64_t i = 0; i < t->count; i++) {
        const float gain = r * (t->w[i] - o->z[i]);

        o->d[i] = m * o->d[i] + gain;
        o->z[i] += c->outer == 1 ? o->d[i] : m * o->d[i] + gain;
        t->w[i] = o->z[i];
    }
}

/* Average the models and take the outer step. */
static fast_err exchange(fast_trainer *t, const local_config *c, outer *o)
{
    const float share = 1.0f / (float)t->workers;

    fast_actor_at(t->actor, t->step, "weights");
    FAST_TRY(fast_allreduce(t->group, t->w, t->count, FAST_SOON));
    fast__vector_scale(t->count, share, t->w);
    if (t->state_count > 0) {
        fast_actor_at(t->actor, t->step, "state");
        FAST_TRY(fast_allreduce(t->group, t->s, t->state_count, FAST_SOON));
        fast__vector_scale(t->state_count, share, t->s);
    }
    FAST_TRY(fast_charge(t->actor, (double)t->count, 8 * (double)t->count));
    if (o->z) {
        outer_step(t, c, o);
        FAST_TRY(fast_charge(t->actor, 6 * (double)t->count, 28 * (double)t->count));
    }
    if (c->state == 1)
        fast_trainer_reset_rule(t);
    return FAST_OK;
}

static fast_err train(fast_trainer *t, const local_config *c, outer *o)
{
    const int64_t switch_step = (int64_t)(c->after * (double)t->epoch_steps);

    while (fast_trainer_next(t)) {
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        FAST_TRY(fast_trainer_update(t, t->g, 1));
        fast_trainer_staleness(t, 0);
        if (t->step <= switch_step || (c->period > 0 && t->step % c->period == 0) ||
            t->step == t->step_count)
            FAST_TRY(exchange(t, c, o));
    }
    return fast_trainer_end(t);
}

static fast_err worker(fast_trainer *t, const void *config)
{
    const local_config *c = config;
    fast_err err;
    outer o;

    /* Workers that never meet may stop where they like; all others at the end of a period. */
    t->period = c->period > 0 ? c->period : t->step_count;
    FAST_TRY(fast_group_algorithm(t->group, c->algorithm));
    FAST_TRY(outer_init(t, c, &o));
    err = train(t, c, &o);
    fast__free(o.z);
    fast__free(o.d);
    return err;
}

const fast_strategy fast__strategy_local = {
    .name = "local",
    .summary = "periodic averaging: local steps, then the mean of all models",
    .options = options,
    .config_size = sizeof(local_config),
    .synchronous = true,
    .sends = "weights",
    .worker = worker,
};
