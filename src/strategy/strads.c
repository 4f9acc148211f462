/* SPDX-License-Identifier: Apache-2.0 */
/*
 * strads: scheduled updates of blocks of parameters. A round of every worker is
 *
 *     schedule     S = blocks of high priority that depend little on each other, the same at all
 *     update       g_k = gradient of the own batch, k in S
 *     aggregate    G_k = sum over workers of g_k;   w_k <- rule(w_k, 1/P G_k)
 *                  with l1:  w_k <- sign(w_k) max(|w_k| - l1 step_k, 0)
 *
 * Blocks that depend on each other must not change at once: each step corrects the same error, and
 * the sum overshoots. The coupling of two blocks is measured where the run starts, and every
 * `renew` steps, by finite differences along random directions u_k of the blocks:
 *
 *     D_jk = |(G(w + e u_k) - G(w))_j| / e,   d(j, k) = max(D_jk, D_kj) / sqrt(D_jj D_kk)
 *
 * A least-squares model's G is linear, so with blocks of one variable D is exact and d is the
 * correlation of two features, by which the paper's Lasso tells dependent coefficients. D_kk is the
 * curvature of a variable: with `newton` the gradient is divided by it, and sgd at a learning rate
 * of 1 is coordinate descent, with l1 that of the Lasso. For deep networks blocks are pieces of the
 * vector, and d compares norms of products with the Hessian.
 *
 * Schedules are drawn by every worker from the same stream and the same changes of w, so nothing is
 * sent for them. Cost per worker and step: the gradient, which is computed as a whole, and
 * allreduces of the chosen blocks; a measure of the coupling takes a gradient and an allreduce for
 * each block. Memory: the square of the number of blocks.
 *
 * Kim, Ho, Lee, Zheng, Dai, Gibson and Xing, "STRADS: A Distributed Framework for Scheduled Model
 * Parallel Machine Learning", 2016.
 */
#include "base/err.h"
#include "base/memory.h"
#include "strategy/overlap.h"
#include "strategy/strads_schedule.h"
#include "tensor/vector.h"

#include <math.h>
#include <string.h>

enum { BLOCKS_MAX = 2048 };

typedef struct strads_config {
    int64_t blocks;     /* that the parameters are cut into, at most one for each */
    int64_t scheduled;  /* blocks that are updated in a step, at most */
    int64_t candidates; /* blocks that are drawn for them; 0: twice as many */
    int order;          /* a fast_strads_order */
    double floor;       /* added to priorities, as a fraction of their mean */
    double dependency;  /* coupling from which two blocks are not updated together */
    int64_t renew;      /* steps between two measures of it; 0: at the start alone */
    double probe;       /* length of the step of a finite difference in each element */
    bool newton;        /* gradients of blocks are divided by their curvature */
    double l1;          /* weight of the absolute values in what is minimised */
} strads_config;

static const fast_option options[] = {
    FAST_OPT_INT(strads_config, blocks, "16", 1, BLOCKS_MAX,
                 "blocks of parameters, at most one for each"),
    FAST_OPT_INT(strads_config, scheduled, "4", 1, BLOCKS_MAX, "blocks updated in a step, at most"),
    FAST_OPT_INT(strads_config, candidates, "0", 0, BLOCKS_MAX,
                 "blocks drawn for them; 0: twice as many"),
    FAST_OPT_CHOICE(strads_config, order, "priority", "priority|random|cyclic",
                    "how they are drawn: by their last change, at random, or in turn"),
    FAST_OPT_REAL(strads_config, floor, "0.1", 0, 1e6,
                  "added to each priority, as a fraction of their mean"),
    FAST_OPT_REAL(strads_config, dependency, "0.5", 0, 1e6,
                  "coupling from which two blocks are not updated together; 0: not measured"),
    FAST_OPT_INT(strads_config, renew, "0", 0, 1 << 30,
                 "steps between two measures of the coupling; 0: at the start alone"),
    FAST_OPT_REAL(strads_config, probe, "0.01", 1e-6, 1e3,
                  "step of each element in a measure of the coupling"),
    FAST_OPT_BOOL(strads_config, newton, "no",
                  "divide each block's gradient by its curvature: coordinate descent with sgd"),
    FAST_OPT_REAL(strads_config, l1, "0", 0, 1e6,
                  "weight of the sum of absolute values in what is minimised"),
    FAST_OPT_END,
};

/* The persistent numbers of a worker, followed by what follows from the number of blocks. */
typedef struct strads_numbers {
    uint64_t seed;    /* of the schedules, equal at all workers */
    int64_t next;     /* first block of the next round in a cyclic order */
    int64_t measured; /* 1 + step at which the coupling was measured; 0: it was not */
} strads_numbers;

/* A worker's program. */
typedef struct strads_worker {
    fast_trainer *t;               /* the worker */
    const strads_config *c;        /* its options */
    strads_numbers *numbers;       /* persistent */
    double *changes;               /* persistent, [blocks] squared norms of last changes */
    float *coupling;               /* persistent, [blocks][blocks]; NULL: not measured */
    float *curvature;              /* persistent, [blocks] */
    float *base;                   /* gradient of a measure; then values before an update */
    float *old;                    /* parameters before a measure */
    fast_strads_schedule schedule; /* of each step */
} strads_worker;

enum { NUMBERS, CHANGES, COUPLING, CURVATURE }; /* persistent blocks */

/* The first element of block k, or the end of the last one. */
static int64_t start_of(const strads_worker *s, int64_t k)
{
    const int64_t count = s->t->count, blocks = s->schedule.count;

    FAST_ASSERT(k >= 0 && k <= blocks);
    return count / blocks * k + (k < count % blocks ? k : count % blocks);
}

static int64_t size_of(const strads_worker *s, int64_t k)
{
    FAST_ASSERT(k < s->schedule.count);
    return start_of(s, k + 1) - start_of(s, k);
}

/* Is the coupling, or the curvature, of blocks needed? */
static bool measures(const strads_config *c)
{
    return c->dependency > 0 || c->newton;
}

/* A step along a random direction of signs; with blocks of one variable along that. */
typedef struct strads_probe {
    uint64_t seed; /* of the direction */
    int64_t block; /* whose elements they are */
    float length;  /* of the step in each element */
} strads_probe;

static void run_probe(const void *ctx, int64_t n, float *const *x)
{
    const strads_probe *probe = ctx;
    fast_rng rng;

    FAST_ASSERT(probe->length > 0);
    fast__rng_init(&rng, probe->seed, FAST_PURPOSE_EXCHANGE, 1, 0, (uint64_t)probe->block);
    for (int64_t i = 0; i < n; i++)
        x[0][i] += n > 1 && fast__rng_u32(&rng) % 2 ? -probe->length : probe->length;
}

static const fast_kernel probe_kernel = {
    .name = "probe", .operations = 1, .bytes = 8, .vectors = 1, .written = 1, .run = run_probe
};

/* The proximal step of l1: soft thresholding by *ctx. */
static void run_shrink(const void *ctx, int64_t n, float *const *x)
{
    const float by = *(const float *)ctx;

    FAST_ASSERT(by > 0);
    for (int64_t i = 0; i < n; i++)
        x[0][i] = x[0][i] > by ? x[0][i] - by : x[0][i] < -by ? x[0][i] + by : 0;
}

static const fast_kernel shrink_kernel = {
    .name = "shrink", .operations = 2, .bytes = 8, .vectors = 1, .written = 1, .run = run_shrink
};

/* Run a kernel on a block of x, without contributions: it holds no other worker's update. */
static fast_err run_on(const strads_worker *s, const fast_kernel *kernel, const void *ctx,
                       int64_t k, float *x)
{
    const fast_vector block = { .x = x + start_of(s, k), .age = -1 };

    FAST_ASSERT(x != NULL && size_of(s, k) > 0);
    return fast_trainer_apply_range(s->t, kernel, ctx, &block, 1, size_of(s, k));
}

/* Compute the mean gradient of all workers' next batches at w, without counting a step. */
static fast_err measure_gradient(const strads_worker *s, float *out)
{
    fast_trainer *t = s->t;

    FAST_ASSERT(out != NULL && t->micro_batches >= 1);
    fast__vector_fill(t->count, 0, out);
    for (int64_t m = 0; m < t->micro_batches; m++) {
        FAST_TRY(fast_trainer_micro_gradient(t, t->step * t->micro_batches + m));
        fast__vector_axpy(t->count, 1.0f / (float)(t->micro_batches * t->workers), t->g, out);
    }
    fast__vector_copy(t->count, out, t->g);
    fast_actor_at(t->actor, t->step, "coupling of blocks");
    FAST_TRY(fast_trainer_sum_range(t, t->group, 0, t->count));
    fast__vector_copy(t->count, t->g, out);
    return FAST_OK;
}

/* Measure column k of D: how much the gradient of each block follows a step in block k. */
static fast_err measure_block(const strads_worker *s, int64_t k, float *moved)
{
    const int64_t blocks = s->schedule.count;
    const strads_probe probe = { s->numbers->seed, k, (float)s->c->probe };
    fast_trainer *t = s->t;

    FAST_ASSERT(s->old != NULL && moved != NULL);
    FAST_TRY(run_on(s, &probe_kernel, &probe, k, t->w));
    FAST_TRY(measure_gradient(s, moved));
    fast__vector_copy(size_of(s, k), s->old + start_of(s, k), t->w + start_of(s, k));
    fast__vector_axpy(t->count, -1, s->base, moved);
    for (int64_t j = 0; j < blocks; j++) {
        const double norm = fast__vector_norm2(size_of(s, j), moved + start_of(s, j));

        s->coupling[k * blocks + j] = (float)(sqrt(norm) / s->c->probe);
    }
    return FAST_OK;
}

/* Turn D into couplings, and its diagonal into curvatures: |H u| / |u| of each block. */
static void normalise(const strads_worker *s)
{
    const int64_t blocks = s->schedule.count;
    float *d = s->coupling;

    FAST_ASSERT(d != NULL && s->curvature != NULL);
    for (int64_t k = 0; k < blocks; k++)
        s->curvature[k] = d[k * blocks + k];
    for (int64_t j = 0; j < blocks; j++)
        for (int64_t k = 0; k < j; k++) {
            const float larger = fmaxf(d[j * blocks + k], d[k * blocks + j]);
            const float scale = sqrtf(s->curvature[j] * s->curvature[k]);

            d[j * blocks + k] = d[k * blocks + j] = scale > 0 ? larger / scale : 0;
        }
    for (int64_t k = 0; k < blocks; k++) {
        d[k * blocks + k] = 1;
        s->curvature[k] /= sqrtf((float)size_of(s, k));
    }
}

/* Measure couplings and curvatures, if they are due. */
static fast_err measure(const strads_worker *s)
{
    fast_trainer *t = s->t;
    const int64_t since = t->step + 1 - s->numbers->measured;
    float *moved = NULL;

    FAST_ASSERT(s->numbers->measured <= t->step + 1);
    if (!measures(s->c) || (s->numbers->measured > 0 && (s->c->renew == 0 || since < s->c->renew)))
        return FAST_OK;
    FAST_TRY(fast__vector_new(fast__device_of(t->w), "a moved gradient", t->count, &moved));
    fast__vector_copy(t->count, t->w, s->old);
    fast_err err = measure_gradient(s, s->base);
    for (int64_t k = 0; k < s->schedule.count && !err; k++)
        err = measure_block(s, k, moved);
    fast__vector_free(moved);
    FAST_TRY(err);
    normalise(s);
    s->numbers->measured = t->step + 1;
    return FAST_OK;
}

/* Sum and update block k, and note how much it changed. */
static fast_err update_block(const strads_worker *s, int64_t k)
{
    fast_trainer *t = s->t;
    const int64_t at = start_of(s, k), n = size_of(s, k);
    const double curve = s->c->newton ? (double)s->curvature[k] : 1;
    const double step = curve > 0 ? 1 / curve : 0;
    const float threshold = (float)(s->c->l1 * t->lr * step);

    FAST_ASSERT(step >= 0 && t->step > 0);
    FAST_TRY(fast_trainer_sum_range(t, t->group, at, n));
    fast__vector_copy(n, t->w + at, s->base + at);
    fast_trainer_update_range(t, t->step, t->lr, t->w + at, t->g + at,
                              (float)(step / (double)t->workers), at, n);
    if (threshold > 0)
        FAST_TRY(run_on(s, &shrink_kernel, &threshold, k, t->w));
    fast__vector_axpy(n, -1, t->w + at, s->base + at);
    s->changes[k] = fast__vector_norm2(n, s->base + at);
    return FAST_OK;
}

/* Take the state of the rule from worker 0: after another strategy each worker has its own, and
 * changes of w, from which schedules follow, would differ. */
static fast_err agree_on_rule(fast_trainer *t)
{
    float *slot;

    FAST_ASSERT(t->group != NULL);
    for (int i = 0; (slot = fast_trainer_rule_slot(t, i)) != NULL; i++)
        FAST_TRY(fast_broadcast(t->group, 0, slot, (size_t)t->count * sizeof *slot, FAST_SOON));
    return FAST_OK;
}

/* Find the persistent state, and agree on the seed of the schedules. */
static fast_err init_state(strads_worker *s)
{
    const size_t blocks = (size_t)s->schedule.count;
    fast_trainer *t = s->t;
    void *numbers, *changes, *coupling = NULL, *curvature = NULL;

    FAST_ASSERT(blocks >= 1 && blocks <= BLOCKS_MAX);
    FAST_TRY(fast_trainer_persist(t, NUMBERS, sizeof *s->numbers, &numbers));
    FAST_TRY(fast_trainer_persist(t, CHANGES, blocks * sizeof *s->changes, &changes));
    s->numbers = numbers;
    s->changes = changes;
    if (measures(s->c)) {
        FAST_TRY(fast_trainer_persist(t, COUPLING, blocks * blocks * sizeof(float), &coupling));
        FAST_TRY(fast_trainer_persist(t, CURVATURE, blocks * sizeof(float), &curvature));
    }
    s->coupling = coupling;
    s->curvature = curvature;
    if (fast_trainer_resumed(t) && s->numbers->seed != 0)
        return FAST_OK;
    for (size_t k = 0; k < blocks; k++)
        s->changes[k] = -1;
    s->numbers->seed = fast_random(t->actor) | 1;
    FAST_TRY(fast_broadcast(t->group, 0, &s->numbers->seed, sizeof s->numbers->seed, FAST_SOON));
    return agree_on_rule(t);
}

/* Make a worker. */
static fast_err init_worker(strads_worker *s)
{
    const strads_config *c = s->c;
    fast_strads_schedule *schedule = &s->schedule;
    const int64_t blocks = c->blocks < s->t->count ? c->blocks : s->t->count;

    *schedule = (fast_strads_schedule){
        .order = (fast_strads_order)c->order,
        .count = blocks,
        .candidates = c->candidates > 0 ? c->candidates : 2 * c->scheduled,
        .chosen_max = c->scheduled < blocks ? c->scheduled : blocks,
        .floor = c->floor,
        .dependency = c->dependency,
    };
    FAST_TRY(init_state(s));
    FAST_TRY(fast__alloc("weights of blocks", blocks, sizeof(double), &schedule->weights));
    FAST_TRY(fast__alloc("chosen blocks", blocks, sizeof(int64_t), &schedule->chosen));
    FAST_TRY(fast__vector_new(fast__device_of(s->t->w), "older values", s->t->count, &s->base));
    if (measures(c))
        FAST_TRY(fast__vector_new(fast__device_of(s->t->w), "older weights", s->t->count, &s->old));
    schedule->coupling = c->dependency > 0 ? s->coupling : NULL;
    schedule->changes = s->changes;
    return FAST_OK;
}

/* Train to the end. */
static fast_err train(const strads_worker *s)
{
    fast_trainer *t = s->t;

    while (fast_trainer_next(t)) {
        fast_rng rng;

        FAST_TRY(measure(s));
        fast__rng_init(&rng, s->numbers->seed, FAST_PURPOSE_EXCHANGE, 0, (uint64_t)t->step, 0);
        const int64_t chosen = fast__strads_choose(&s->schedule, &rng, &s->numbers->next);
        FAST_ASSERT(chosen <= s->schedule.chosen_max);
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        fast_actor_at(t->actor, t->step, "blocks");
        for (int64_t i = 0; i < chosen; i++)
            FAST_TRY(update_block(s, s->schedule.chosen[i]));
        FAST_TRY(fast__allreduce_state(t));
    }
    return fast_trainer_end(t);
}

static fast_err worker(fast_trainer *t, const void *config)
{
    strads_worker s = { .t = t, .c = config };
    fast_err err;

    if (!fast_trainer_can_update_range(t))
        return fast__fail(FAST_EINVAL, "strads updates blocks, but this optimizer needs norms of "
                                       "whole layers; use another one, like sgd");
    err = init_worker(&s);
    if (!err)
        err = train(&s);
    fast__vector_free(s.base);
    fast__vector_free(s.old);
    fast__free(s.schedule.weights);
    fast__free(s.schedule.chosen);
    return err;
}

/* Refuse fewer candidates than blocks to accept of them. */
static fast_err check(const void *config, int64_t workers, const char *optimizer)
{
    const strads_config *c = config;

    (void)workers;
    (void)optimizer;
    if (c->candidates == 0 || c->candidates >= c->scheduled)
        return FAST_OK;
    return fast__fail(
        FAST_EINVAL,
        "strategy strads: scheduled=%lld blocks are accepted of candidates=%lld; give "
        "at least as many candidates, or 0 for twice as many",
        (long long)c->scheduled, (long long)c->candidates);
}

const fast_strategy fast__strategy_strads = {
    .name = "strads",
    .summary = "scheduled blocks: those of high priority that depend little on each other",
    .options = options,
    .check = check,
    .config_size = sizeof(strads_config),
    .synchronous = true,
    .resumable = true,
    .sends = "gradients",
    .worker = worker,
};
