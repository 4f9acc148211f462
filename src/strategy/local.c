/* SPDX-License-Identifier: Apache-2.0 */
/*
 * local: every worker trains alone for a period, then models are averaged.
 *
 *     tau local steps:  w_i <- rule(w_i, g_i)
 *     exchange:         a = 1/P sum_i w_i          the average
 *                       G = a - z                  progress since the last common model z
 *     outer step:       none       z <- a
 *                       classical  D <- m D + r G;  z <- z + D               (block momentum)
 *                       nesterov   D <- m D + r G;  z <- z + m D + r G
 *                       w_i <- z
 *
 *     delay:            no local steps: the mean of all gradients of a period makes one update
 *                       (bunch mode, delayed update, gradient accumulation). `grow` multiplies
 *                       the period by `factor` every `grow` epochs, `milestones` at given epochs,
 *                       so that the batch grows instead of the learning rate falling (Smith et al.
 *                       2018). `noise` does so when the
 *                       variance of the mean gradient m, estimated from the P workers' means m_i,
 *                       exceeds noise^2 |m|^2:  V = (1/P sum |m_i|^2 - |m|^2) / (P - 1)
 *                       (Friedlander and Schmidt 2012; Byrd et al. 2012). With `shrink` it divides
 *                       it again when the variance of the smaller batch, factor V, would be within
 *                       that bound (Orr 1996)
 *     fragments:        F ranges of the model are exchanged in turn, one every period / F steps,
 *                       each with its own outer step: F times smaller messages at a time (streaming
 *                       DiLoCo, Douillard et al. 2025: local_fragments.c). At the end of the run
 *                       all are exchanged
 *     master:           one server at a node of its own sums the models and sends their mean back,
 *                       by a binomial tree, by slices or with each worker (via_master.h); else
 *                       workers average by an allreduce, with the same bits
 *     polyak:           the run is represented by the mean of the models after the exchanges from
 *                       epoch `polyak` on (Polyak and Juditsky 1992)
 *
 * With period 1, no outer step and plain SGD it is synchronous SGD up to rounding. Members of the
 * family: SparkNet (Moritz et al. 2016) and model averaging are `none`; ParallelSGD (Zinkevich et
 * al. 2010) averages once, at the end (period=0); BMUF (Chen and Huo 2016) is `classical` or
 * `nesterov` with momentum 1 - 1/P and rate 1; SlowMo (Wang et al. 2020) is `classical`; DiLoCo
 * (Douillard et al. 2023) is `nesterov` with an inner AdamW; post-local SGD (Lin et al. 2020)
 * exchanges at each step for the first `after` epochs. The rule's own state (momentum) stays local,
 * is averaged, or is reset.
 *
 * A codec encodes the weights, or their change since the last exchange if it is fit for differences
 * only. The rule's state and the state that is not trained are sent without a codec.
 *
 * Cost per worker: one allreduce of the weights in a period; memory: one or two more vectors.
 */
#include "strategy/local.h"

#include "base/err.h"
#include "strategy/exchange.h"
#include "strategy/vector_kernels.h"
#include "strategy/via_master.h"
#include "tensor/vector.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const fast_option options[] = {
    FAST_OPT_INT(local_config, period, "8", 0, 1e12,
                 "steps between exchanges; 0: once, at the end"),
    FAST_OPT_CHOICE(
        local_config, outer, "none", "none|classical|nesterov",
        "outer step on the averages: none, with classical (block) momentum, or Nesterov's"),
    FAST_OPT_REAL(local_config, momentum, "0.5", 0, 1, "momentum of the outer step"),
    FAST_OPT_REAL(local_config, rate, "1", 0, 100, "learning rate of the outer step"),
    FAST_OPT_REAL(local_config, after, "0", 0, 1e9,
                  "first epochs, in which workers exchange at each step (post-local SGD)"),
    FAST_OPT_CHOICE(local_config, state, "local", FAST_RULE_STATES, FAST_RULE_STATES_HELP),
    FAST_OPT_BOOL(local_config, delay, "no",
                  "accumulate gradients and update once in a period (bunch mode)"),
    FAST_OPT_REAL(
        local_config, grow, "0", 0, 1e9,
        "delay: lengthen the period each time this number of epochs has passed; 0: never"),
    FAST_OPT_TEXT(local_config, milestones, "", NULL,
                  "delay: lengthen the period at these epochs, in rising order: 1+3+4.5"),
    FAST_OPT_REAL(local_config, noise, "0", 0, 1e9,
                  "delay: lengthen the period when the standard deviation of the mean gradient "
                  "exceeds this fraction of its norm; 0: never"),
    FAST_OPT_BOOL(local_config, shrink, "no",
                  "noise: shorten the period again, down to 1, when a shorter one is within it"),
    FAST_OPT_INT(local_config, factor, "2", 2, 1e6,
                 "factor by which grow and noise change the period"),
    FAST_OPT_INT(local_config, longest, "64", 1, 1e9, "longest period that grow and noise lead to"),
    FAST_OPT_REAL(local_config, polyak, "-1", -1, 1e9,
                  "epoch from which the mean of all later models represents the run; -1: never"),
    FAST_OPT_INT(local_config, fragments, "1", 1, 1e6,
                 "ranges of the model that are exchanged in turn, each once a period (streaming "
                 "DiLoCo); the period is a multiple of it"),
    FAST_OPT_CHOICE(local_config, master, "none", "none|tree|scatter|direct",
                    "average at a dedicated master instead, that a binomial tree, slices or each "
                    "worker's own messages lead to and back from"),
    FAST_OPT_INT(local_config, overlap, "0", 0, 1e12,
                 "fragments: steps before its end at which the exchange of a fragment starts; less "
                 "than period / fragments"),
    FAST_OPT_REAL(local_config, mix, "0.5", 0, 1,
                  "overlap: fraction of a worker's own weights that remains after an exchange"),
    FAST_OPT_TEXT(local_config, algorithm, "auto", "allreduce",
                  "collective that averages the models; auto: the fastest by measurement"),
    FAST_OPT_END,
};

/* Pairs of options that make no sense together. */
static const fast_exclusion exclusions[] = {
    { "delay=yes", "outer", NULL, "no worker moves between exchanges, so no outer step is left" },
    { "delay=yes", "period=0", NULL, "the whole run would be one update" },
    { "grow", NULL, "delay=yes", "the period grows by gradients that one update collects" },
    { "milestones", NULL, "delay=yes", "the period grows by gradients that one update collects" },
    { "milestones", "grow", NULL, "epochs are given by one of them" },
    { "fragments", "delay|polyak|state", NULL, "fragments are exchanged at different steps" },
    { "overlap", NULL, "fragments", "whole models are exchanged at once" },
    { "mix", NULL, "overlap", "without an overlap workers have the same weights afterwards" },
    { "master", "outer|delay|fragments|algorithm", NULL,
      "the master makes the mean of whole models, and no more" },
    { "shrink=yes", NULL, "noise", "the noise decides when a shorter period is enough" },
    { "noise", NULL, "delay=yes", "the noise is that of the gradients that one update collects" },
    { NULL, NULL, NULL, NULL },
};

/* Numbers of persistent blocks: local_numbers, then vectors. */
enum { NUMBERS, LAST, MOMENTUM, BASE, SUM, MEAN };

/* Find a persistent vector. A new one starts as w if `as_w`, else as 0. */
static fast_err find_vector(fast_trainer *t, const local_state *o, int64_t number, bool as_w,
                            fast_vector *out)
{
    FAST_ASSERT(o->numbers != NULL);
    FAST_TRY(fast_trainer_persist_vector(t, number, out));
    if (!o->numbers->set && as_w)
        fast__vector_copy(t->count, t->w, out->x);
    return FAST_OK;
}

/* Check numbers that may come from a forged checkpoint: counters are at most the steps.
 * FAST_EFORMAT. */
static fast_err check_numbers(const fast_trainer *t, const local_numbers *k)
{
    const int64_t most = INT64_C(1) << 40;

    FAST_ASSERT(t->step >= 0);
    if (k->sum_count >= 0 && k->sum_count <= t->step && k->mean_count >= 0 &&
        k->mean_count <= t->step && k->versions >= 0 && k->versions <= t->step && k->grown >= 0 &&
        k->grown <= t->step && k->period >= 0 && k->period <= most)
        return FAST_OK;
    return fast__fail(FAST_EFORMAT,
                      "local: worker %lld cannot resume with %lld gradients of a period of %lld",
                      (long long)t->rank, (long long)k->sum_count, (long long)k->period);
}

/* Find or create the persistent state that the options need. */
static fast_err local_state_init(fast_trainer *t, const local_config *c, local_state *o)
{
    void *numbers = NULL;

    FAST_ASSERT(t->group != NULL && t->workers >= 1);
    *o = (local_state){ 0 };
    FAST_TRY(fast_trainer_persist(t, NUMBERS, sizeof *o->numbers, &numbers));
    o->numbers = numbers;
    FAST_TRY(check_numbers(t, o->numbers));
    const bool coded = fast_trainer_codec_fit(t) != FAST_FIT_NONE;
    if (c->outer != OUTER_NONE || (c->fragments > 1 && coded))
        FAST_TRY(find_vector(t, o, LAST, true, &o->z));
    if (c->outer != OUTER_NONE)
        FAST_TRY(find_vector(t, o, MOMENTUM, false, &o->d));
    if (!c->delay && c->fragments == 1 && fast_trainer_codec_fit(t) == FAST_FIT_CHANGES)
        FAST_TRY(find_vector(t, o, BASE, true, &o->base));
    fast_trainer_reference(t, o->base.x); /* w becomes the difference to it while it is sent */
    if (c->delay)
        FAST_TRY(find_vector(t, o, SUM, false, &o->sum));
    if (c->polyak >= 0) {
        FAST_TRY(find_vector(t, o, MEAN, true, &o->mean));
        t->centre = o->mean.x;
        t->centre_version = o->numbers->versions;
    }
    if (!o->numbers->set)
        *o->numbers = (local_numbers){ .set = 1, .period = c->period };
    return FAST_OK;
}

/* x = w, z, D: the outer step of the formula. w holds the average and becomes the next model. */
static void run_outer(const void *ctx, int64_t n, float *const *x)
{
    const local_config *c = ctx;
    const float m = (float)c->momentum;
    const float r = (float)c->rate;
    float *w = x[0], *z = x[1], *d = x[2];

    FAST_ASSERT(w != z && z != d);
    for (int64_t i = 0; i < n; i++) {
        const float gain = r * (w[i] - z[i]);

        d[i] = m * d[i] + gain;
        z[i] += c->outer == OUTER_CLASSICAL ? d[i] : m * d[i] + gain;
        w[i] = z[i];
    }
}

/* x[0] <- x[1] */
static void run_copy(const void *ctx, int64_t n, float *const *x)
{
    (void)ctx;
    FAST_ASSERT(n >= 0 && x[0] != x[1]);
    memcpy(x[0], x[1], (size_t)n * sizeof **x);
}

/* mean <- mean + (w - mean) / count */
static void run_mean(const void *ctx, int64_t n, float *const *x)
{
    const float count = *(const float *)ctx;

    FAST_ASSERT(count > 1);
    for (int64_t i = 0; i < n; i++)
        x[0][i] += (x[1][i] - x[0][i]) / count;
}

static const fast_kernel outer_step = { "outer step", 6, 28, 3, 3, false, run_outer };
/* These passes overlap with the gradient's and the exchange's passes and are not charged. */
static const fast_kernel accumulate = { "sum of gradients", 0, 0, 2, 1, false, fast__run_add };
static const fast_kernel copy = { "copy", 0, 0, 2, 1, false, run_copy };
static const fast_kernel time_mean = { "mean over time", 0, 0, 2, 1, false, run_mean };

/* |scale x|^2, added in the order of elements: the noise bound is compared with such sums. */
static double square(int64_t count, const float *x, double scale)
{
    double sum = 0;

    FAST_ASSERT(count >= 0 && x != NULL);
    const float *at = fast__map(x, count, FAST_ACCESS_READ);
    for (int64_t i = 0; i < count; i++)
        sum += (double)at[i] * (double)at[i];
    fast__unmap(x, count, FAST_ACCESS_READ);
    return sum * scale * scale;
}

/* Compare the deviation of the mean gradient with the bound of `noise`: *out is 1 if it exceeds it,
 * -1 if that of a batch smaller by `factor` would not, else 0. `own` is |m_i|^2, of this worker's
 * mean gradient. Every worker gets the same answer. */
static fast_err compare_noise(fast_trainer *t, const local_config *c, const local_state *o,
                              double own, int *out)
{
    const double workers = (double)t->workers;
    const double mean = square(t->count, o->sum.x, 1 / (workers * (double)o->numbers->sum_count));
    const double bound = c->noise * c->noise * mean;
    float all = (float)own;

    FAST_ASSERT(own >= 0 && o->numbers->sum_count > 0);
    fast_actor_at(t->actor, t->step, "noise");
    FAST_TRY(fast_allreduce(t->group, &all, 1, FAST_SOON));
    *out = 0;
    if (t->workers == 1) /* one mean has no deviation */
        return FAST_OK;
    const double variance = ((double)all / workers - mean) / (workers - 1);
    if (variance > bound)
        *out = 1;
    else if ((double)c->factor * variance <= bound)
        *out = -1;
    return FAST_OK;
}

/* Parse milestone `number`, from 0, of "1+3+4.5": *out is its epoch, infinite past the last.
 * FAST_EINVAL unless the epochs of the list rise from more than 0. */
static fast_err find_milestone(const char *text, int64_t number, double *out)
{
    double last = 0, found = INFINITY;

    FAST_ASSERT(text != NULL && number >= 0);
    for (const char *at = text; *at != '\0'; number--) {
        char *end = NULL;
        const double epoch = *at >= '0' && *at <= '9' ? strtod(at, &end) : 0;

        if (!(epoch > last && epoch <= 1e9) || (*end != '\0' && (*end != '+' || end[1] == '\0')))
            return fast__fail(FAST_EINVAL,
                              "local: milestones=%s is not a rising list of epochs like 1+3+4.5",
                              text);
        if (number == 0)
            found = epoch;
        last = epoch;
        at = *end == '+' ? end + 1 : end;
    }
    *out = found;
    return FAST_OK;
}

/* Find the epoch at which the period grows next; infinite: never again. */
static fast_err next_growth(const local_config *c, const local_numbers *k, double *out)
{
    FAST_ASSERT(k->grown >= 0);
    *out = c->grow > 0 ? (double)(k->grown + 1) * c->grow : INFINITY;
    return c->grow > 0 ? FAST_OK : find_milestone(c->milestones, k->grown, out);
}

/* Change the period: longer, if `change` is positive, or shorter. */
static void change_period(const local_config *c, local_numbers *k, int change)
{
    FAST_ASSERT(k->period > 0 && c->factor >= 2);
    if (change > 0 && k->period <= c->longest / c->factor)
        k->period *= c->factor;
    /* A divisor of the period, so that workers still stop at the end of one. */
    if (change < 0 && c->shrink && k->period % c->factor == 0)
        k->period /= c->factor;
}

/* Make one update of all gradients of a period, which is equal at all workers, and change the
 * period where due. */
static fast_err update_accumulated(fast_trainer *t, const local_config *c, local_state *o)
{
    const float share = 1.0f / (float)(t->workers * o->numbers->sum_count);
    const double own =
        c->noise > 0 ? square(t->count, o->sum.x, 1 / (double)o->numbers->sum_count) : 0;
    int change = 0;
    double epoch;

    FAST_ASSERT(o->numbers->sum_count > 0);
    fast_actor_at(t->actor, t->step, "gradient");
    FAST_TRY(fast_trainer_sum_vector(t, &o->sum));
    if (c->noise > 0)
        FAST_TRY(compare_noise(t, c, o, own, &change));
    FAST_TRY(fast_trainer_update_by(t, &o->sum, share));
    fast__vector_fill(t->count, 0, o->sum.x);
    memset(o->sum.shares, 0, (size_t)fast_trainer_share_count(t) * sizeof *o->sum.shares);
    o->numbers->sum_count = 0;
    FAST_TRY(next_growth(c, o->numbers, &epoch));
    if ((double)t->step >= epoch * (double)t->epoch_steps) {
        o->numbers->grown++;
        change = 1;
    }
    change_period(c, o->numbers, change);
    return FAST_OK;
}

/* Add the model after an exchange to the mean over time. Before epoch `polyak` the mean is a copy.
 * */
static fast_err average_over_time(fast_trainer *t, const local_config *c, local_state *o)
{
    const bool started = (double)t->step > c->polyak * (double)t->epoch_steps;
    const fast_vector v[] = { o->mean, fast_trainer_model(t) };

    FAST_ASSERT(c->polyak >= 0 && o->mean.x == t->centre);
    t->centre_version = ++o->numbers->versions;
    if (started)
        o->numbers->mean_count++;
    if (o->numbers->mean_count <= 1)
        return fast_trainer_apply(t, &copy, NULL, v);
    return fast_trainer_apply(t, &time_mean, &(float){ (float)o->numbers->mean_count }, v);
}

/* x <- the mean of all workers' x, made by the master. */
static fast_err exchange_with_master(local_state *o, float *x, int64_t count)
{
    FAST_ASSERT(o->via != NULL);
    FAST_TRY(fast__via_send(o->via, x, count));
    return fast__via_receive(o->via, x, count);
}

/* Average the state that is not trained. */
static fast_err average_state(fast_trainer *t, local_state *o)
{
    FAST_ASSERT(t->state_count >= 0);
    if (!o->via || t->state_count == 0)
        return fast__state_average(t);
    fast_actor_at(t->actor, t->step, "state");
    return exchange_with_master(o, t->s, t->state_count);
}

/* Average every vector of the rule's state over the workers, without the run's codec, whose
 * residual is that of weights. */
static fast_err average_rule(fast_trainer *t, local_state *o, float share)
{
    const bool coded = fast_trainer_codec_fit(t) != FAST_FIT_NONE;
    float *slot;

    FAST_ASSERT(share > 0);
    fast_actor_at(t->actor, t->step, "the rule's state");
    for (int i = 0; (slot = fast_trainer_rule_slot(t, i)) != NULL; i++) {
        const fast_vector v = { .x = slot, .age = -1 };

        if (o->via) {
            FAST_TRY(exchange_with_master(o, slot, t->count));
            continue;
        }
        FAST_TRY(coded ? fast_allreduce(t->group, slot, t->count, FAST_SOON)
                       : fast_trainer_sum_vector(t, &v));
        FAST_TRY(fast_trainer_apply(t, &fast__kernel_scale, &share, &v));
    }
    return FAST_OK;
}

/* w <- the mean of all models. A codec for differences sums the changes to the model of the last
 * exchange, which all workers have. */
static fast_err average_weights(fast_trainer *t, local_state *o, float share)
{
    const fast_vector v[] = { fast_trainer_model(t), o->base };

    FAST_ASSERT(o->sum.x == NULL);
    /* The master's mean holds the steps of all workers alike. */
    if (o->via) {
        FAST_TRY(exchange_with_master(o, t->w, t->count));
        fast_trainer_adopt(t, &(fast_vector){ .x = t->w, .age = -1 });
        return FAST_OK;
    }
    if (o->base.x)
        FAST_TRY(fast_trainer_apply(t, &fast__kernel_subtract, NULL, v));
    FAST_TRY(fast_trainer_sum(t, t->w));
    FAST_TRY(fast_trainer_apply(t, &fast__kernel_scale, &share, v));
    return o->base.x ? fast_trainer_apply(t, &fast__kernel_add, NULL, v) : FAST_OK;
}

/* Average the models, or update by the accumulated gradients, and take the outer step. */
static fast_err exchange(fast_trainer *t, const local_config *c, local_state *o)
{
    const float share = 1.0f / (float)t->workers;
    const fast_vector w = fast_trainer_model(t);

    FAST_ASSERT(!(o->sum.x && o->z.x));
    if (o->sum.x) {
        FAST_TRY(update_accumulated(t, c, o));
    } else {
        fast_actor_at(t->actor, t->step, "weights");
        FAST_TRY(average_weights(t, o, share));
    }
    FAST_TRY(average_state(t, o));
    if (o->z.x)
        FAST_TRY(fast_trainer_apply(t, &outer_step, c, (fast_vector[]){ w, o->z, o->d }));
    if (o->base.x)
        FAST_TRY(fast_trainer_apply(t, &copy, NULL, (fast_vector[]){ o->base, w }));
    if (c->state == FAST_RULE_RESET)
        fast_trainer_reset_rule(t);
    if (c->state == FAST_RULE_AVERAGE)
        FAST_TRY(average_rule(t, o, share));
    return o->mean.x ? average_over_time(t, c, o) : FAST_OK;
}

/* Exchange what is due after a step: nothing, a fragment, or the models. With several fragments
 * `due` is the end of a period of the first one. */
static fast_err exchange_due(fast_trainer *t, const local_config *c, local_state *o,
                             local_fragments *k, bool due)
{
    FAST_ASSERT(t->step > 0);
    if (c->fragments == 1)
        return due ? exchange(t, c, o) : FAST_OK;
    /* In the first epochs of post-local SGD and at the end of the run all are due. */
    return fast__fragments_step(k, t->step == t->step_count || (due && t->step % c->period != 0));
}

/* True if the step just taken ends a period. */
static bool is_due(const fast_trainer *t, const local_config *c, const local_state *o)
{
    const int64_t switch_step = (int64_t)(c->after * (double)t->epoch_steps);
    const int64_t period = o->numbers->period;

    FAST_ASSERT(t->step > 0 && period >= 0);
    return t->step <= switch_step || (period > 0 && t->step % period == 0) ||
           t->step == t->step_count;
}

/* Train to the end: local steps, or accumulated gradients, and an exchange in each period. */
static fast_err train(fast_trainer *t, const local_config *c, local_state *o, local_fragments *k)
{
    FAST_ASSERT(o->numbers->set);
    while (fast_trainer_next(t)) {
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        if (o->sum.x) {
            FAST_TRY(fast_trainer_apply(t, &accumulate, NULL,
                                        (fast_vector[]){ o->sum, fast_trainer_grad(t) }));
            o->numbers->sum_count++;
        } else {
            FAST_TRY(fast_trainer_update(t, t->g, 1));
        }
        FAST_TRY(exchange_due(t, c, o, k, is_due(t, c, o)));
    }
    return fast_trainer_end(t);
}

/* Refuse milestones that do not parse, and fragments that do not divide the period: each would be
 * exchanged at steps of its own, and some of them never. */
static fast_err check(const void *config, int64_t workers, const char *optimizer)
{
    const local_config *c = config;
    double epoch;

    (void)optimizer;
    FAST_ASSERT(c->fragments >= 1);
    FAST_TRY(find_milestone(c->milestones, 0, &epoch));
    FAST_TRY(fast__via_check("local", (fast_via)c->master, workers));
    if (c->fragments > 1 && (c->period == 0 || c->period % c->fragments != 0))
        return fast__fail(FAST_EINVAL,
                          "local: a period of %lld steps is no multiple of fragments=%lld",
                          (long long)c->period, (long long)c->fragments);
    if (c->overlap > 0 && c->overlap >= c->period / c->fragments)
        return fast__fail(
            FAST_EINVAL,
            "local: an overlap of %lld steps is not shorter than the %lld between two "
            "fragments",
            (long long)c->overlap, (long long)(c->period / c->fragments));
    return FAST_OK;
}

/* Train with exchanges of fragments. */
static fast_err train_fragments(fast_trainer *t, const local_config *c, local_state *o)
{
    local_fragments k;
    fast_err err = fast__fragments_init(t, c, o, &k);

    FAST_ASSERT(c->fragments > 1);
    if (!err)
        err = train(t, c, o, &k);
    fast__fragments_fini(&k);
    return err;
}

/* The program of a worker. */
static fast_err worker(fast_trainer *t, const void *config)
{
    const local_config *c = config;
    fast_via_master via;
    local_state o;

    FAST_ASSERT(c != NULL);
    /* Workers that never exchange may stop at any step; all others at the end of a period. */
    t->period = c->period > 0 ? c->period : t->step_count;
    /* The longest of the periods that growing leads to is a multiple of all others. */
    while ((c->grow > 0 || c->milestones[0] != '\0' || c->noise > 0) &&
           t->period <= c->longest / c->factor)
        t->period *= c->factor;
    FAST_TRY(fast_group_algorithm(t->group, c->algorithm));
    FAST_TRY(local_state_init(t, c, &o));
    t->free_running =
        c->period == 0 && !o.z.x && !o.sum.x && !o.base.x; /* no state in common before the end */
    if (c->fragments > 1)
        return train_fragments(t, c, &o);
    if (c->master == FAST_VIA_NONE)
        return train(t, c, &o, NULL);
    FAST_TRY(fast__via_open(t, (fast_via)c->master, &via));
    o.via = &via;
    const fast_err err = train(t, c, &o, NULL);
    fast__via_close(&via);
    return err;
}

/* The master: set y to the mean of the workers' vectors and send it to them. */
static fast_err answer_mean(fast_trainer *t, fast_via_master *m, float *y, int64_t count,
                            bool *over)
{
    const float share = 1.0f / (float)t->workers;
    const fast_vector mean = { .x = m->sum, .age = -1 };

    FAST_ASSERT(y != NULL && y != m->sum);
    FAST_TRY(fast__via_sum(m, count, over));
    if (*over)
        return FAST_OK;
    FAST_TRY(fast_trainer_apply_range(t, &fast__kernel_scale, &share, &mean, 1, count));
    fast__vector_copy(count, m->sum, y);
    return fast__via_answer(m, y, count);
}

/* The master's loop, until the workers have ended: models, state, and the rule's state. */
static fast_err serve(fast_trainer *t, const local_config *c, fast_via_master *m)
{
    bool over = false;
    float *slot;

    FAST_ASSERT(c->master != FAST_VIA_NONE);
    while (!over) {
        fast_actor_at(t->actor, t->step, "weights");
        FAST_TRY(answer_mean(t, m, t->w, t->count, &over));
        if (!over && t->state_count > 0)
            FAST_TRY(answer_mean(t, m, t->s, t->state_count, &over));
        for (int i = 0; !over && c->state == FAST_RULE_AVERAGE &&
                        (slot = fast_trainer_rule_slot(t, i)) != NULL;
             i++)
            FAST_TRY(answer_mean(t, m, slot, t->count, &over));
    }
    return FAST_OK;
}

/* The program of the master. */
static fast_err server(fast_trainer *t, const void *config)
{
    const local_config *c = config;
    fast_via_master m;

    FAST_ASSERT(t->servers == 1);
    FAST_TRY(fast__via_open(t, (fast_via)c->master, &m));
    const fast_err err = serve(t, c, &m);
    fast__via_close(&m);
    return err;
}

/* One master, or none. */
static int64_t servers(const void *config, int64_t workers)
{
    FAST_ASSERT(workers > 0);
    return ((const local_config *)config)->master != FAST_VIA_NONE;
}

/* True if there is a master: it lives on a node of its own. */
static bool dedicated(const void *config)
{
    FAST_ASSERT(config != NULL);
    return ((const local_config *)config)->master != FAST_VIA_NONE;
}

/* Sums are counted by the trainer; the master is reached once a period. */
static void cost(const void *config, const fast_trainer *t, fast_cost *out)
{
    const local_config *c = config;
    const int64_t period = c->period > 0 ? c->period : t->step_count;

    FAST_ASSERT(out != NULL && period > 0);
    if (c->master != FAST_VIA_NONE)
        fast__via_cost((fast_via)c->master, t->workers, 1 / (double)period, out);
}

/* Weights; differences of fragments; or sums on their way to a master, which are sent without a
 * codec. */
static const char *sends(const void *config)
{
    const local_config *c = config;

    FAST_ASSERT(c != NULL && c->fragments >= 1);
    return c->master != FAST_VIA_NONE ? "sums" : c->fragments > 1 ? "differences" : "weights";
}

/* Fragments are sent to all workers, and summed there; whole models are summed on the way. */
static const char *answers(const void *config)
{
    const local_config *c = config;

    FAST_ASSERT(c != NULL && c->fragments >= 1);
    return c->fragments > 1 ? "nothing" : NULL;
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
    .exclusions = exclusions,
    .sends_by = sends,
    .answers_by = answers,
    .cost = cost,
    .servers = servers,
    .check = check,
    .worker = worker,
    .server = server,
    .dedicated = dedicated,
};
