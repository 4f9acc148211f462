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
 *     delay:            no local steps: the gradients of a period, of all workers, are one mean
 *                       and make one update (bunch mode, delayed update; gradient accumulation)
 *                       grow doubles the period every so many epochs: the batch grows instead of
 *                       the rate falling (Smith et al. 2018); noise doubles it where the variance
 *                       of the mean gradient, estimated from the P workers' means m_i, exceeds
 *                       noise^2 |m|^2:  (1/P sum |m_i|^2 - |m|^2) / (P - 1)   (Friedlander and
 *                       Schmidt 2012; Byrd et al. 2012)
 *     polyak:           what stands for the run is the mean of the models after the exchanges since
 *                       some epoch (Polyak and Juditsky 1992)
 *
 * With period 1, no outer step and plain SGD it is synchronous SGD up to rounding. The members of
 * the family: SparkNet (Moritz et al. 2016) and model averaging are `none`; ParallelSGD (Zinkevich
 * et al. 2010) averages once, at the end (period=0); BMUF (Chen and Huo 2016) is `classical` or
 * `nesterov` with momentum 1 - 1/P and rate 1; SlowMo (Wang et al. 2020) is `classical`; DiLoCo
 * (Douillard et al. 2023) is `nesterov` with an inner AdamW; post-local SGD (Lin et al. 2020)
 * exchanges at each step until `after`. The rule's own state (momentum) stays local, is averaged,
 * or is reset.
 *
 * A codec encodes the weights, or their change since the last exchange where it is fit for that
 * alone; the rule's state and what is not trained go as they are.
 *
 * Cost per worker: one allreduce of the weights in a period; memory: one or two more vectors.
 */
#include "base/err.h"
#include "strategy/exchange.h"
#include "strategy/kernels.h"
#include "tensor/vector.h"

#include <string.h>

typedef struct local_config {
    int64_t period;     /* steps between exchanges; 0: only at the end */
    int outer;          /* 0 none, 1 classical, 2 nesterov */
    double momentum;    /* of the outer step */
    double rate;        /* of the outer step */
    double after;       /* epochs with an exchange at each step before the periods begin */
    int state;          /* fast_rule_state */
    bool delay;         /* one update a period, by the mean gradient */
    double grow;        /* delay: epochs after which the period doubles; 0: never */
    double noise;       /* delay: relative deviation of the mean at which it doubles; 0: never */
    int64_t longest;    /* period that it grows to at most */
    double polyak;      /* epoch from which models are averaged over time; -1: never */
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
    FAST_OPT_CHOICE(local_config, state, "local", FAST_RULE_STATES, FAST_RULE_STATES_HELP),
    FAST_OPT_BOOL(local_config, delay, "no",
                  "sum gradients up, and update once in a period (bunch mode)"),
    FAST_OPT_REAL(local_config, grow, "0", 0, 1e9,
                  "delay: epochs after which the period doubles, again and again; 0: never"),
    FAST_OPT_REAL(local_config, noise, "0", 0, 1e9,
                  "delay: the period doubles when the mean gradient deviates by this part of "
                  "itself; 0: never"),
    FAST_OPT_INT(local_config, longest, "64", 1, 1e9, "period that it grows to at most"),
    FAST_OPT_REAL(local_config, polyak, "-1", -1, 1e9,
                  "epoch from which the mean of models over time stands for the run; -1: never"),
    FAST_OPT_TEXT(local_config, algorithm, "auto", "allreduce",
                  "how the average is made: a collective by name"),
    FAST_OPT_END,
};

/* Numbers that last as long as a worker's replica. */
typedef struct lasting {
    int64_t begun;      /* 1: they do */
    int64_t sum_count;  /* gradients since the last exchange */
    int64_t mean_count; /* models in the mean over time */
    int64_t versions;   /* of that mean */
    int64_t period;     /* steps between exchanges now; 0: none before the end */
    int64_t grown;      /* how often it doubled by the epochs */
} lasting;

/* Persistent vectors of a worker besides its replica; `x` is NULL where they are not needed. */
typedef struct outer {
    lasting *last;    /* numbers */
    fast_vector z;    /* the model after the last exchange: outer steps */
    fast_vector d;    /* its momentum */
    fast_vector base; /* the model that changes are sent to: codecs that do not fit weights */
    fast_vector sum;  /* gradients since the last exchange: delay */
    fast_vector mean; /* models averaged over time, the run's centre: polyak */
} outer;

static fast_err check(const void *config, int64_t workers, const char *optimizer)
{
    const local_config *c = config;

    (void)workers;
    (void)optimizer;
    if (c->delay && c->outer != 0)
        return fast__fail(FAST_EINVAL, "local: with delay=yes no worker moves between exchanges: "
                                       "there is no outer step; leave out outer");
    if (!c->delay && (c->grow > 0 || c->noise > 0))
        return fast__fail(FAST_EINVAL, "local: %s is of bunches of gradients; give delay=yes too",
                          c->grow > 0 ? "grow" : "noise");
    if (c->delay && c->period == 0)
        return fast__fail(FAST_EINVAL, "local: delay=yes with period=0 is one update in all; give "
                                       "a period");
    return FAST_OK;
}

/* Numbers of persistent memory: those of a vector, and SHARES further its contributions. */
enum { NUMBERS, LAST, MOMENTUM, BASE, SUM, MEAN, SHARES = 16 };

/* Find a persistent vector; where it is new it starts as w, or as 0. */
static fast_err find_vector(fast_trainer *t, const outer *o, int64_t number, bool as_w,
                            fast_vector *out)
{
    const size_t size = (size_t)t->count * sizeof *out->x;
    void *x = NULL, *shares = NULL;

    FAST_TRY(fast_trainer_persist(t, number, size, &x));
    FAST_TRY(
        fast_trainer_persist(t, SHARES + number, (size_t)t->workers * sizeof(double), &shares));
    *out = (fast_vector){ .x = x, .shares = shares, .age = -1 };
    if (!o->last->begun && as_w)
        memcpy(x, t->w, size);
    return FAST_OK;
}

/* Of a checkpoint, which may be forged: all are counted in steps, but for the period. */
static fast_err check_numbers(const fast_trainer *t, const lasting *k)
{
    const int64_t most = INT64_C(1) << 40;

    if (k->sum_count >= 0 && k->sum_count <= t->step && k->mean_count >= 0 &&
        k->mean_count <= t->step && k->versions >= 0 && k->versions <= t->step && k->grown >= 0 &&
        k->grown <= t->step && k->period >= 0 && k->period <= most)
        return FAST_OK;
    return fast__fail(FAST_EFORMAT,
                      "local: worker %lld cannot go on with %lld gradients of a period of %lld",
                      (long long)t->rank, (long long)k->sum_count, (long long)k->period);
}

static fast_err outer_init(fast_trainer *t, const local_config *c, outer *o)
{
    void *last = NULL;

    *o = (outer){ 0 };
    FAST_TRY(fast_trainer_persist(t, NUMBERS, sizeof *o->last, &last));
    o->last = last;
    FAST_TRY(check_numbers(t, o->last));
    if (c->outer != 0)
        FAST_TRY(find_vector(t, o, LAST, true, &o->z));
    if (c->outer != 0)
        FAST_TRY(find_vector(t, o, MOMENTUM, false, &o->d));
    if (!c->delay && fast_trainer_codec_fit(t) == FAST_FIT_CHANGES)
        FAST_TRY(find_vector(t, o, BASE, true, &o->base));
    if (c->delay)
        FAST_TRY(find_vector(t, o, SUM, false, &o->sum));
    if (c->polyak >= 0) {
        FAST_TRY(find_vector(t, o, MEAN, true, &o->mean));
        t->centre = o->mean.x;
        t->centre_version = o->last->versions;
    }
    if (!o->last->begun)
        *o->last = (lasting){ .begun = 1, .period = c->period };
    return FAST_OK;
}

/* w holds the average; make the next model of it, with z and its momentum D. */
static void run_outer(const void *ctx, int64_t n, float *const *x)
{
    const local_config *c = ctx;
    const float m = (float)c->momentum;
    const float r = (float)c->rate;
    float *w = x[0], *z = x[1], *d = x[2];

    for (int64_t i = 0; i < n; i++) {
        const float gain = r * (w[i] - z[i]);

        d[i] = m * d[i] + gain;
        z[i] += c->outer == 1 ? d[i] : m * d[i] + gain;
        w[i] = z[i];
    }
}

static void run_copy(const void *ctx, int64_t n, float *const *x)
{
    (void)ctx;
    memcpy(x[0], x[1], (size_t)n * sizeof **x);
}

/* mean <- mean + (w - mean) / count */
static void run_mean(const void *ctx, int64_t n, float *const *x)
{
    const float count = *(const float *)ctx;

    for (int64_t i = 0; i < n; i++)
        x[0][i] += (x[1][i] - x[0][i]) / count;
}

static const fast_kernel outer_step = { "outer step", 6, 28, 3, 3, false, run_outer };
/* Passes that hide behind the gradient's and the exchange's are not charged. */
static const fast_kernel gather = { "sum of gradients", 0, 0, 2, 1, false, fast__run_add };
static const fast_kernel retain = { "copy", 0, 0, 2, 1, false, run_copy };
static const fast_kernel average_time = { "mean over time", 0, 0, 2, 1, false, run_mean };

static double square(int64_t count, const float *x, double scale)
{
    double sum = 0;

    for (int64_t i = 0; i < count; i++)
        sum += (double)x[i] * (double)x[i];
    return sum * scale * scale;
}

/* True if all workers' mean gradient is too uncertain. `own` is the square of this worker's mean;
 * every worker gets the same answer. */
static fast_err is_noisy(fast_trainer *t, const local_config *c, const outer *o, double own,
                         bool *out)
{
    const double workers = (double)t->workers;
    const double mean = square(t->count, o->sum.x, 1 / (workers * (double)o->last->sum_count));
    float all = (float)own;

    fast_actor_at(t->actor, t->step, "noise");
    FAST_TRY(fast_allreduce(t->group, &all, 1, FAST_SOON));
    *out = t->workers > 1 &&
           ((double)all / workers - mean) / (workers - 1) > c->noise * c->noise * mean;
    return FAST_OK;
}

/* The gradients of a period make one update, the same at everyone; then the period may grow. */
static fast_err update_late(fast_trainer *t, const local_config *c, outer *o)
{
    const float share = 1.0f / (float)(t->workers * o->last->sum_count);
    const double own =
        c->noise > 0 ? square(t->count, o->sum.x, 1 / (double)o->last->sum_count) : 0;
    bool noisy = false;

    fast_actor_at(t->actor, t->step, "gradient");
    FAST_TRY(fast_trainer_sum_vector(t, &o->sum));
    if (c->noise > 0)
        FAST_TRY(is_noisy(t, c, o, own, &noisy));
    FAST_TRY(fast_trainer_update_by(t, &o->sum, share));
    memset(o->sum.x, 0, (size_t)t->count * sizeof *o->sum.x);
    memset(o->sum.shares, 0, (size_t)t->workers * sizeof *o->sum.shares);
    o->last->sum_count = 0;
    if (c->grow > 0 &&
        (double)t->step >= (double)(o->last->grown + 1) * c->grow * (double)t->epoch_steps) {
        o->last->grown++;
        noisy = true;
    }
    if (noisy && o->last->period * 2 <= c->longest)
        o->last->period *= 2;
    return FAST_OK;
}

/* Take the model after an exchange into the mean over time; before it begins, the mean is it. */
static fast_err remember(fast_trainer *t, const local_config *c, outer *o)
{
    const bool begun = (double)t->step > c->polyak * (double)t->epoch_steps;
    const fast_vector v[] = { o->mean, fast_trainer_model(t) };

    t->centre_version = ++o->last->versions;
    if (begun)
        o->last->mean_count++;
    if (o->last->mean_count <= 1)
        return fast_trainer_apply(t, &retain, NULL, v);
    return fast_trainer_apply(t, &average_time, &(float){ (float)o->last->mean_count }, v);
}

static fast_err average_rule(fast_trainer *t, float share)
{
    float *slot;

    fast_actor_at(t->actor, t->step, "the rule's state");
    for (int i = 0; (slot = fast_trainer_rule_slot(t, i)) != NULL; i++) {
        FAST_TRY(fast_allreduce(t->group, slot, t->count, FAST_SOON));
        FAST_TRY(fast_trainer_apply(t, &fast__kernel_scale, &share,
                                    &(fast_vector){ .x = slot, .age = -1 }));
    }
    return FAST_OK;
}

/* w becomes the mean of all. Where a codec is fit for changes only, what is summed are those since
 * the last exchange, from a model that all have. */
static fast_err average_weights(fast_trainer *t, outer *o, float share)
{
    const fast_vector v[] = { fast_trainer_model(t), o->base };

    if (o->base.x)
        FAST_TRY(fast_trainer_apply(t, &fast__kernel_subtract, NULL, v));
    FAST_TRY(fast_trainer_sum(t, t->w));
    FAST_TRY(fast_trainer_apply(t, &fast__kernel_scale, &share, v));
    return o->base.x ? fast_trainer_apply(t, &fast__kernel_add, NULL, v) : FAST_OK;
}

/* Average the models and take the outer step. */
static fast_err exchange(fast_trainer *t, const local_config *c, outer *o)
{
    const float share = 1.0f / (float)t->workers;
    const fast_vector w = fast_trainer_model(t);

    if (o->sum.x) {
        FAST_TRY(update_late(t, c, o));
    } else {
        fast_actor_at(t->actor, t->step, "weights");
        FAST_TRY(average_weights(t, o, share));
    }
    if (t->state_count > 0) {
        fast_actor_at(t->actor, t->step, "state");
        FAST_TRY(fast_allreduce(t->group, t->s, t->state_count, FAST_SOON));
        fast__vector_scale(t->state_count, share, t->s);
    }
    if (o->z.x)
        FAST_TRY(fast_trainer_apply(t, &outer_step, c, (fast_vector[]){ w, o->z, o->d }));
    if (o->base.x)
        FAST_TRY(fast_trainer_apply(t, &retain, NULL, (fast_vector[]){ o->base, w }));
    if (c->state == FAST_RULE_RESET)
        fast_trainer_reset_rule(t);
    if (c->state == FAST_RULE_AVERAGE)
        FAST_TRY(average_rule(t, share));
    return o->mean.x ? remember(t, c, o) : FAST_OK;
}

static fast_err train(fast_trainer *t, const local_config *c, outer *o)
{
    const int64_t switch_step = (int64_t)(c->after * (double)t->epoch_steps);

    while (fast_trainer_next(t)) {
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        if (o->sum.x) {
            FAST_TRY(fast_trainer_apply(t, &gather, NULL,
                                        (fast_vector[]){ o->sum, fast_trainer_grad(t) }));
            o->last->sum_count++;
        } else {
            FAST_TRY(fast_trainer_update(t, t->g, 1));
        }
        if (t->step <= switch_step || (o->last->period > 0 && t->step % o->last->period == 0) ||
            t->step == t->step_count)
            FAST_TRY(exchange(t, c, o));
    }
    return fast_trainer_end(t);
}

static fast_err worker(fast_trainer *t, const void *config)
{
    const local_config *c = config;
    outer o;

    /* Workers that never meet may stop where they like; all others at the end of a period. */
    t->period = c->period > 0 ? c->period : t->step_count;
    /* Of a period that doubles, the longest ends where all others end too. */
    while ((c->grow > 0 || c->noise > 0) && t->period * 2 <= c->longest)
        t->period *= 2;
    FAST_TRY(fast_group_algorithm(t->group, c->algorithm));
    FAST_TRY(outer_init(t, c, &o));
    t->free_running =
        c->period == 0 && !o.z.x && !o.sum.x && !o.base.x; /* nothing else is on its way */
    return train(t, c, &o);
}

const fast_strategy fast__strategy_local = {
    .name = "local",
    .summary = "periodic averaging: local steps, then the mean of all models",
    .options = options,
    .config_size = sizeof(local_config),
    .synchronous = true,
    .resumable = true,
    .uses_codec = true,
    .sends = "weights",
    .check = check,
    .worker = worker,
};
