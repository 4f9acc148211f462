/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hogwild: workers of one process update one model in memory without locks.
 *
 *     g_i <- gradient at w_i, the last view of the model by worker i
 *     for each chunk:  w_i <- model;  w_i <- rule(w_i, g_i);  model <- w_i where it changed
 *
 * Niu, Recht, Re and Wright, "Hogwild!", 2011. Elements are loaded and stored as relaxed atomics: a
 * race by design without undefined behaviour. Only elements that the rule changed are written: a
 * gradient of 0 leaves them to the other workers, if the rule has neither momentum nor decay; with
 * decay nothing is looked at.
 * Where at most an eighth of a chunk changed, as with the sparse gradients that the paper is about,
 * the changes are added atomically, as its proofs assume, and no update is lost; in denser chunks
 * one is where two workers change an element at the same time (tensor/race.c). The pass that writes
 * also reads for the next gradient. The chunk sets the time between load and store: short chunks
 * lose less. Rules that need a norm of the whole vector take it as one chunk.
 * The rule's state (momentum) is each worker's own. With one worker it is plain SGD to the bit;
 * updates of P workers add up, so that lr / P compares with lr of synchronous training. Simulated
 * workers let other workers run between a chunk's load and its store: updates are lost there too,
 * and the same ones each time.
 *
 * Hogwild++ (Zhang, Hsieh and Akella 2016): each cluster of workers has a model, and a token
 * circulates among the clusters. After `period` updates the cluster i with the token adds the
 * change of its model since it last had the token to the model of the next cluster j:
 *
 *     d <- model_i - s_i;  s_i <- model_i
 *     model_j <- model_j + lambda beta d + (1 - lambda) (model_i - model_j)
 *
 * beta solves beta + ... + beta^c = 1 for c clusters, so that a change that travels round the ring
 * counts once in all, and lambda = 1 - beta^(c-1) unless it is given. The decay of changes round
 * the ring is the paper's idea; this formula is chosen here. d is scaled by lambda because the
 * fraction (1 - lambda) of model_i already holds it.
 *
 * The model of the run is the shared one; with several clusters the mean of the workers' views.
 *
 * Where time is real and the run is not recorded, a range is updated when the backward pass has
 * made its gradient final.
 *
 * Reads and writes of the model are critical sections (fast_critical_begin): a recorded run
 * executes them one after the other, chunk by chunk, and a replay in the same order.
 *
 * Cost per worker and step: the model is read and written once, in memory; no messages.
 */
#include "base/err.h"
#include "base/memory.h"
#include "strategy/strategy.h"
#include "tensor/race.h"
#include "trainer/in_place.h"
#include "trainer/part.h"
#include "trainer/remember.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum {
    KEY = 0x686f67,    /* of the shared memory of cluster i: KEY + i; of the token: KEY - 1 */
    CLUSTERS_MAX = 64, /* models */
    PAUSE_NS = 1000,   /* between checks whether the model is filled */
    BUSY = -1          /* the token is being passed */
};

/* The options. */
typedef struct hogwild_config {
    int64_t chunk;    /* elements between load and store */
    int64_t clusters; /* models; 1: Hogwild */
    double lambda;    /* weight of a cluster's own model; < 0: by the formula */
    int64_t period;   /* updates of a cluster before it passes the token */
} hogwild_config;

static const fast_option options[] = {
    FAST_OPT_INT(hogwild_config, chunk, "1024", 1, 1e12,
                 "elements between a load of the model and its store"),
    FAST_OPT_INT(hogwild_config, clusters, "1", 1, CLUSTERS_MAX,
                 "clusters of workers with a model each; above 1: Hogwild++"),
    FAST_OPT_REAL(hogwild_config, lambda, "-1", -1, 1,
                  "with clusters: weight of a cluster's own model when another one is mixed in; "
                  "-1: by the number of clusters"),
    FAST_OPT_INT(hogwild_config, period, "8", 1, 1e12,
                 "with clusters: updates of a model before it is mixed into the next one"),
    FAST_OPT_END,
};

/* A model that the workers of a cluster share. All fields are written by any of them. */
typedef struct hogwild_model {
    atomic_int ready;     /* 0: untouched, 1: a worker fills it, 2: filled */
    atomic_llong updates; /* updates by all workers */
    atomic_llong passed;  /* updates when its cluster last passed the token */
    /* [all] the model and its contributions of each worker, then [all] as they were when the token
     * was passed (Hogwild++); all = count + workers */
    _Alignas(FAST_ALIGN) _Atomic float data[];
} hogwild_model;

/* A worker's view of the models. */
typedef struct hogwild_view {
    fast_trainer *t;     /* the worker's */
    fast_actor *actor;   /* the worker */
    hogwild_model *mine; /* of its cluster */
    hogwild_model *next; /* of the cluster that the token goes to */
    atomic_int *token;   /* the cluster that has the token, or BUSY; NULL with one cluster */
    int64_t cluster;     /* number of the worker's cluster */
    int64_t clusters;    /* number of clusters */
    int64_t count;       /* elements of a model */
    int64_t all;         /* elements of a model and its contributions: the token moves both */
    double *shares;      /* scratch: contributions of the model at the last view */
    float *before;       /* [chunk] scratch: the chunk as it was loaded; of the host */
    int64_t chunk;       /* elements of a chunk */
    float beta, lambda;  /* of the formula */
} hogwild_view;

/* Refuse more clusters than workers. */
static fast_err check(const void *config, int64_t workers, const char *optimizer)
{
    const hogwild_config *c = config;

    (void)optimizer;
    FAST_ASSERT(c->clusters > 0);
    if (c->clusters > workers)
        return fast__fail(FAST_EINVAL,
                          "hogwild: clusters=%lld need at least as many workers, not %lld",
                          (long long)c->clusters, (long long)workers);
    return FAST_OK;
}

/* Return the cluster of a worker. */
static int64_t cluster_of(const fast_trainer *t, int64_t rank, int64_t clusters)
{
    FAST_ASSERT(rank >= 0 && rank < t->workers);
    return rank * clusters / t->workers;
}

/* The first worker of a cluster has its model in snapshots, and fills it from one. */
static fast_err remember_model(fast_trainer *t, hogwild_model *m)
{
    const size_t size = 2 * (size_t)(t->count + t->workers) * sizeof(float);

    FAST_ASSERT(m != NULL);
    FAST_TRY(fast__trainer_remember(t, 0, (void *)&m->updates, sizeof m->updates));
    FAST_TRY(fast__trainer_remember(t, 1, (void *)&m->passed, sizeof m->passed));
    FAST_TRY(fast__trainer_remember(t, 2, (void *)m->data, size));
    if (fast_trainer_resumed(t))
        atomic_store(&m->ready, 2);
    return FAST_OK;
}

/* Workers of each part of a split model share memory of their own. */
static uint64_t key_of(const fast_trainer *t, int64_t key)
{
    FAST_ASSERT(key > 0);
    return (uint64_t)(fast__trainer_part(t) << 32 | key);
}

/* Open the model of a cluster. The first worker fills it; all replicas start with equal values. */
static fast_err open_model(fast_trainer *t, int64_t cluster, int64_t clusters, hogwild_model **out)
{
    const bool first = cluster_of(t, t->rank, clusters) == cluster &&
                       (t->rank == 0 || cluster_of(t, t->rank - 1, clusters) < cluster);
    const int64_t all = t->count + t->workers;
    const size_t size = sizeof(hogwild_model) + 2 * (size_t)all * sizeof(float);
    hogwild_model *m = NULL;
    int untouched = 0, ready = 0;

    FAST_ASSERT(cluster >= 0 && cluster < CLUSTERS_MAX);
    FAST_TRY(fast_actor_share(t->actor, key_of(t, KEY + cluster), size, &m));
    if (first)
        FAST_TRY(remember_model(t, m));
    fast_critical_begin(t->actor, KEY);
    if (!fast_trainer_resumed(t) && atomic_compare_exchange_strong(&m->ready, &untouched, 1)) {
        fast__race_store(m->data, t->w, t->count);
        fast__race_store(m->data + all, t->w, t->count);
        atomic_store(&m->ready, 2);
    }
    fast_critical_end(t->actor);
    for (;;) {
        fast_critical_begin(t->actor, KEY);
        ready = atomic_load(&m->ready);
        fast_critical_end(t->actor);
        if (ready == 2)
            break;
        FAST_TRY(fast_sleep_until(t->actor, fast_now(t->actor) + PAUSE_NS));
    }
    *out = m;
    return FAST_OK;
}

/* Solve beta + beta^2 + ... + beta^c = 1 by bisection. */
static double ring_beta(int64_t clusters)
{
    double low = 0, high = 1;

    for (int i = 0; i < 60; i++) {
        const double beta = (low + high) / 2;
        double sum = 0, power = 1;

        for (int64_t k = 0; k < clusters; k++)
            sum += power *= beta;
        *(sum < 1 ? &low : &high) = beta;
    }
    FAST_ASSERT(low > 0 && low <= 1);
    return low;
}

/* Open the models of a worker's cluster and of the next one. */
static fast_err open_view(fast_trainer *t, const hogwild_config *c, hogwild_view *h)
{
    const double beta = ring_beta(c->clusters);

    *h = (hogwild_view){ .t = t,
                         .actor = t->actor,
                         .cluster = cluster_of(t, t->rank, c->clusters),
                         .clusters = c->clusters,
                         .count = t->count,
                         .all = t->count + t->workers,
                         .chunk = fast_trainer_can_update_range(t) ? c->chunk : t->count,
                         .beta = (float)beta };
    h->lambda = (float)(c->lambda < 0 ? 1 - pow(beta, (double)(c->clusters - 1)) : c->lambda);
    FAST_ASSERT(h->cluster < c->clusters);
    FAST_TRY(open_model(t, h->cluster, c->clusters, &h->mine));
    if (c->clusters == 1)
        return FAST_OK;
    FAST_TRY(open_model(t, (h->cluster + 1) % c->clusters, c->clusters, &h->next));
    FAST_TRY(fast_actor_share(t->actor, key_of(t, KEY - 1), sizeof *h->token, &h->token));
    return t->rank == 0 ? fast__trainer_remember(t, 3, (void *)h->token, sizeof *h->token)
                        : FAST_OK;
}

/* A chunk of the shared model that a kernel works on. */
typedef struct hogwild_chunk {
    const hogwild_view *h;     /* the worker's view */
    int64_t at;                /* first element */
    int64_t count;             /* elements; a kernel is charged for whole chunks */
    fast_race_density density; /* of the gradient: `before` is needed unless it is dense */
} hogwild_chunk;

/* x <- the chunk of the shared model. */
static void run_load(const void *ctx, int64_t n, float *const *x)
{
    const hogwild_chunk *work = ctx;

    FAST_ASSERT(n == work->count);
    fast_critical_begin(work->h->actor, KEY);
    fast__race_load(work->h->mine->data + work->at, x[0], n);
    fast_critical_end(work->h->actor);
    if (work->density != FAST_RACE_DENSE)
        memcpy(work->h->before, x[0], (size_t)n * sizeof *x[0]);
}
static const fast_kernel load = { "load", 0, 8, 1, 1, false, run_load };

/* Store the changes of a chunk of w, which was loaded with this density of the gradient. */
static void store_chunk(const hogwild_view *h, int64_t at, int64_t n, fast_race_density density)
{
    const float *w = h->t->w + at;

    FAST_ASSERT(at >= 0 && at + n <= h->count);
    if (density != FAST_RACE_DENSE)
        fast__race_merge(h->mine->data + at, h->before, w, n, density);
    else
        fast__race_store(h->mine->data + at, w, n);
}

/* How much of a chunk an update changes: where weights decay all of it, whatever the gradient. */
static fast_race_density density_of(const fast_trainer *t, int64_t at, int64_t n)
{
    FAST_ASSERT(at >= 0 && n >= 0 && at + n <= t->count);
    return fast__trainer_decays(t, at, n) ? FAST_RACE_DENSE : fast__race_look(t->g + at, n);
}

/* Chunk by chunk: load the model, update, store the changes. On `sim` other workers run in between.
 * Each worker starts at another chunk, or workers in step would race in every chunk. */
static fast_err update(fast_trainer *t, const hogwild_view *h)
{
    const bool whole = h->chunk >= h->count;
    const int64_t chunks = (h->count + h->chunk - 1) / h->chunk;

    FAST_ASSERT(chunks > 0);
    for (int64_t i = 0; i < chunks; i++) {
        const int64_t at = (i + t->rank * chunks / t->workers) % chunks * h->chunk;
        const int64_t n = h->count - at < h->chunk ? h->count - at : h->chunk;
        /* Dense chunks are stored whole: every element changed, and a copy of them would cost as
         * much as the update. */
        const fast_race_density density = density_of(t, at, n);

        FAST_TRY(fast_trainer_apply_range(t, &load, &(hogwild_chunk){ h, at, n, density },
                                          &(fast_vector){ .x = t->w + at, .age = -1 }, 1, n));
        if (whole)
            FAST_TRY(fast_trainer_update(t, t->g, 1));
        else
            fast_trainer_update_range(t, t->step, t->lr, t->w + at, t->g + at, 1, at, n);
        fast_critical_begin(t->actor, KEY);
        store_chunk(h, at, n, density);
        if (i == chunks - 1)
            atomic_fetch_add(&h->mine->updates, 1);
        fast_critical_end(t->actor);
    }
    return FAST_OK;
}

/* Report of a gradient: the range is final, so it is updated now, chunk by chunk as update() does.
 * The gradient and the worker's view of the range are in the cache. */
static void update_reported(void *ctx, int64_t offset, int64_t count)
{
    const hogwild_view *h = ctx;
    fast_trainer *t = h->t;

    FAST_ASSERT(offset >= 0 && offset + count <= h->count);
    for (int64_t at = offset; at < offset + count; at += h->chunk) {
        const int64_t n = offset + count - at < h->chunk ? offset + count - at : h->chunk;
        const fast_race_density density = density_of(t, at, n);
        const int64_t left = offset + count - at - n;

        if (density != FAST_RACE_SPARSE && at == offset)
            fast__race_expect(h->mine->data + at, n);
        if (density != FAST_RACE_SPARSE)
            fast__race_expect(h->mine->data + at + n, left < h->chunk ? left : h->chunk);
        fast__device_run(run_load, &(hogwild_chunk){ h, at, n, density }, n, 1, 1,
                         (float *[]){ t->w + at });
        fast_trainer_update_range(t, t->step + 1, t->lr, t->w + at, t->g + at, 1, at, n);
        store_chunk(h, at, n, density);
    }
}

/* Mix a chunk of this cluster's model and its change into the next cluster's, by the formula. */
static void run_pass(const void *ctx, int64_t n, float *const *unused)
{
    const hogwild_chunk *work = ctx;
    const hogwild_view *h = work->h;

    (void)n;
    (void)unused;
    FAST_ASSERT(work->at + work->count <= h->all);
    fast_critical_begin(h->actor, KEY);
    for (int64_t i = work->at; i < work->at + work->count; i++) {
        const float x = atomic_load_explicit(&h->mine->data[i], memory_order_relaxed);
        const float s = atomic_load_explicit(&h->mine->data[h->all + i], memory_order_relaxed);
        const float y = atomic_load_explicit(&h->next->data[i], memory_order_relaxed);

        atomic_store_explicit(&h->next->data[i],
                              y + h->lambda * h->beta * (x - s) + (1 - h->lambda) * (x - y),
                              memory_order_relaxed);
        atomic_store_explicit(&h->mine->data[h->all + i], x, memory_order_relaxed);
    }
    fast_critical_end(h->actor);
}
static const fast_kernel pass = { "token", 7, 20, 1, 1, false, run_pass };

/* True if no worker of a cluster is up. */
static bool is_deserted(const fast_trainer *t, const hogwild_view *h, int64_t cluster)
{
    FAST_ASSERT(cluster >= 0 && cluster < h->clusters);
    for (int64_t r = 0; r < t->workers; r++)
        if (cluster_of(t, r, h->clusters) == cluster &&
            (r == t->rank || !fast_member_is_down(t->actor, t->worker_ids[r])))
            return false;
    return true;
}

/* Pass the token if this cluster has it and made `period` updates. The token skips clusters without
 * workers; the change is mixed into the next cluster's model nevertheless. */
static fast_err pass_token(fast_trainer *t, const hogwild_config *c, const hogwild_view *h)
{
    int64_t to = (h->cluster + 1) % h->clusters;
    int here = (int)h->cluster;

    FAST_ASSERT(h->token && h->next);
    fast_critical_begin(t->actor, KEY);
    const long long updates = atomic_load(&h->mine->updates);
    const bool mine = updates - atomic_load(&h->mine->passed) >= c->period &&
                      atomic_compare_exchange_strong(h->token, &here, BUSY);
    fast_critical_end(t->actor);
    if (!mine)
        return FAST_OK;
    for (int64_t at = 0; at < h->all; at += h->chunk) {
        const int64_t n = h->all - at < h->chunk ? h->all - at : h->chunk;

        FAST_TRY(fast_trainer_apply_range(t, &pass, &(hogwild_chunk){ h, at, n, FAST_RACE_DENSE },
                                          &(fast_vector){ .age = -1 }, 1, h->chunk));
    }
    while (to != h->cluster && is_deserted(t, h, to))
        to = (to + 1) % h->clusters;
    fast_critical_begin(t->actor, KEY);
    atomic_store(&h->mine->passed, updates);
    atomic_store(h->token, (int)to);
    fast_critical_end(t->actor);
    return FAST_OK;
}

/* Return the number of updates of the worker's model; with `whole` load the model to w. */
static long long load_model(fast_trainer *t, const hogwild_view *h, bool whole)
{
    FAST_ASSERT(h->mine != NULL);
    fast_critical_begin(t->actor, KEY);
    const long long updates = atomic_load(&h->mine->updates);
    if (whole)
        fast__race_load(h->mine->data, t->w, t->count);
    fast_critical_end(t->actor);
    return updates;
}

/* Count `own` more updates of this worker in the model, the last of them `age` updates late, and
 * give the replica the contributions of the model. An update that a race lost counts too. */
static void count_updates(fast_trainer *t, const hogwild_view *h, float own, int64_t age)
{
    _Atomic float *shares = h->mine->data + h->count;

    FAST_ASSERT(own >= 0 && h->shares);
    fast_critical_begin(t->actor, KEY);
    const float before = atomic_load_explicit(&shares[t->rank], memory_order_relaxed);

    atomic_store_explicit(&shares[t->rank], before + own, memory_order_relaxed);
    for (int64_t i = 0; i < fast_trainer_share_count(t); i++)
        h->shares[i] = (double)atomic_load_explicit(&shares[fast_trainer_share_rank(t, i)],
                                                    memory_order_relaxed);
    fast_critical_end(t->actor);
    fast_trainer_adopt(t, &(fast_vector){ .x = t->w, .shares = h->shares, .age = age });
}

/* The worker's loop of the formula above. */
static fast_err train(fast_trainer *t, const hogwild_config *c, hogwild_view *h)
{
    const bool early = fast__trainer_updates_early(t);
    long long seen = load_model(t, h, !fast_trainer_resumed(t));

    FAST_ASSERT(seen >= 0);
    FAST_TRY(fast__trainer_remember(t, 4, &seen, sizeof seen));
    while (fast_trainer_next(t)) {
        FAST_TRY(fast_trainer_gradient(t, early ? update_reported : NULL, h));
        const long long updates = load_model(t, h, false), age = updates - seen;
        seen = updates + 1;
        if (early)
            atomic_fetch_add(&h->mine->updates, 1);
        else
            FAST_TRY(update(t, h));
        count_updates(t, h, 1, age);
        t->centre_version = seen;
        if (h->token)
            FAST_TRY(pass_token(t, c, h));
    }
    t->centre_version = load_model(t, h, true);
    count_updates(t, h, 0, -1);
    return fast_trainer_end(t);
}

/* The worker's program. */
static fast_err worker(fast_trainer *t, const void *config)
{
    const hogwild_config *c = config;
    fast_err err;
    hogwild_view h;

    FAST_ASSERT(c->clusters <= t->workers);
    FAST_TRY(open_view(t, c, &h));
    if (h.clusters == 1)
        t->centre = t->w;
    FAST_TRY(
        fast__alloc("contributions", fast_trainer_share_count(t), sizeof *h.shares, &h.shares));
    err = fast__alloc("a chunk of the model", h.chunk < h.count ? h.chunk : h.count,
                      sizeof *h.before, &h.before);
    if (!err)
        err = train(t, c, &h);
    fast__free(h.before);
    fast__free(h.shares);
    return err;
}

const fast_strategy fast__strategy_hogwild = {
    .name = "hogwild",
    .summary = "workers update one model in memory without locks",
    .options = options,
    .config_size = sizeof(hogwild_config),
    .resumable = true,
    .shares_memory = true,
    .sends = "nothing",
    .check = check,
    .worker = worker,
};
