/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hogwild: near workers write to one model without locks.
 *
 *     g_i <- gradient at w_i, what worker i last saw of the model
 *     for each chunk:  w_i <- model;  w_i <- rule(w_i, g_i);  model <- w_i
 *
 * Niu, Recht, Re and Wright, "Hogwild!", 2011. Elements are loaded and stored as relaxed atomics: a
 * race by design, in which an update is lost where two workers are in one chunk at once, and not by
 * undefined behaviour. The pass that writes is also the one that reads for the next gradient. The
 * chunk is as long as the gap between load and store: short ones lose less. Gradients here are
 * dense, while the paper's proofs need sparse ones. Rules that need the norm of the whole make one
 * chunk of it. The rule's state (momentum) is each worker's own. With one worker it is plain SGD to
 * the bit; updates of P workers add up, so that lr / P compares with lr of synchronous training.
 * Simulated workers let others run between a chunk's load and its store: updates are lost
 * there too, and the same ones each time.
 *
 * Hogwild++ (Zhang, Hsieh and Akella 2016): a model for each cluster of workers, and a token that
 * goes round. Who has it passes, after `period` updates, what its cluster has moved since it last
 * did, to the next:
 *
 *     d <- model_i - s_i;  s_i <- model_i
 *     model_j <- model_j + lambda beta d + (1 - lambda) (model_i - model_j)
 *
 * beta solves beta + ... + beta^c = 1 for c clusters, so that a change that goes on round the ring
 * counts once in all, and lambda = 1 - beta^(c-1) unless it is given. The idea is the paper's:
 * changes go round with decay; the form is chosen here. d is scaled by lambda because the part
 * (1 - lambda) of model_i holds it already.
 *
 * The model of the run is the shared one; with several clusters the mean of the workers' views.
 *
 * Looks at the model and changes of it are turns of its workers (fast_critical_begin): where a run is
 * recorded they come one after the other, chunk by chunk, and in a replay in the same order.
 *
 * Cost per worker and step: the model is read and written once, in memory; no messages.
 */
#include "base/err.h"
#include "base/memory.h"
#include "strategy/strategy.h"
#include "tensor/race.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum {
    KEY = 0x686f67,    /* of the shared memory of cluster i: KEY + i; of the token: KEY - 1 */
    CLUSTERS_MAX = 64, /* models */
    PAUSE_NS = 1000,   /* between looks at whether the model is there */
    BUSY = -1          /* the token is being passed */
};

typedef struct hogwild_config {
    int64_t chunk;    /* elements between load and store */
    int64_t clusters; /* models; 1: Hogwild */
    double lambda;    /* what a cluster keeps of its own; < 0: by the formula */
    int64_t period;   /* updates of a cluster before it passes the token */
} hogwild_config;

static const fast_option options[] = {
    FAST_OPT_INT(hogwild_config, chunk, "1024", 1, 1e12, "elements that are updated at once"),
    FAST_OPT_INT(hogwild_config, clusters, "1", 1, CLUSTERS_MAX,
                 "models, each of as many workers; above 1 a token goes round (Hogwild++)"),
    FAST_OPT_REAL(hogwild_config, lambda, "-1", -1, 1,
                  "what a model keeps of its own when the token comes; -1: by their number"),
    FAST_OPT_INT(hogwild_config, period, "8", 1, 1e12,
                 "updates of a model before the token goes on"),
    FAST_OPT_END,
};

/* A model that workers share. */
typedef struct model {
    atomic_int ready;     /* 0: nobody came yet, 1: being filled, 2: there */
    atomic_llong updates; /* passes of workers over it */
    atomic_llong passed;  /* updates when its cluster last passed the token */
    /* [all] the model and its contributions of each worker, then [all] as they were when the token
     * was passed (Hogwild++); all = count + workers */
    _Alignas(FAST_ALIGN) _Atomic float data[];
} model;

/* A worker's view. */
typedef struct replica {
    fast_actor *actor;  /* whose */
    model *mine;        /* of its cluster */
    model *next;        /* of the cluster that the token goes to */
    atomic_int *token;  /* the cluster that has it, or BUSY; NULL with one cluster */
    int64_t cluster;    /* its own */
    int64_t clusters;   /* of them */
    int64_t count;      /* elements of a model */
    int64_t all;        /* and of its contributions: the token moves both alike */
    double *shares;     /* [workers]: contributions of the model, as this worker saw them */
    int64_t chunk;      /* elements of a chunk */
    float beta, lambda; /* of the token */
} replica;

static fast_err check(const void *config, int64_t workers, const char *optimizer)
{
    const hogwild_config *c = config;

    (void)optimizer;
    if (c->clusters > workers)
        return fast__fail(FAST_EINVAL, "hogwild: %lld clusters need as many workers, not %lld",
                          (long long)c->clusters, (long long)workers);
    return FAST_OK;
}

/* The model of a cluster; whoever comes first fills it, and all begin with the same values. */
static fast_err open_model(fast_trainer *t, int64_t cluster, model **out)
{
    const int64_t all = t->count + t->workers;
    const size_t size = sizeof(model) + 2 * (size_t)all * sizeof(float);
    model *m = NULL;
    int nobody = 0, ready = 0;

    FAST_TRY(fast_actor_share(t->actor, (uint64_t)(KEY + cluster), size, &m));
    fast_critical_begin(t->actor, KEY);
    if (atomic_compare_exchange_strong(&m->ready, &nobody, 1)) {
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

/* beta + beta^2 + ... + beta^c = 1, by halving. */
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
    return low;
}

static fast_err open_replica(fast_trainer *t, const hogwild_config *c, replica *h)
{
    const double beta = ring_beta(c->clusters);

    *h = (replica){ .actor = t->actor,
                    .cluster = t->rank * c->clusters / t->workers,
                    .clusters = c->clusters,
                    .count = t->count,
                    .all = t->count + t->workers,
                    .chunk = fast_trainer_can_update_range(t) ? c->chunk : t->count,
                    .beta = (float)beta };
    h->lambda = (float)(c->lambda < 0 ? 1 - pow(beta, (double)(c->clusters - 1)) : c->lambda);
    FAST_TRY(open_model(t, h->cluster, &h->mine));
    if (c->clusters == 1)
        return FAST_OK;
    FAST_TRY(open_model(t, (h->cluster + 1) % c->clusters, &h->next));
    return fast_actor_share(t->actor, KEY - 1, sizeof *h->token, &h->token);
}

/* A chunk of the shared model that a kernel works on. */
typedef struct chunk_work {
    const replica *h; /* the worker's view */
    int64_t at;       /* first element */
    int64_t count;    /* elements; a kernel is charged for whole chunks */
} chunk_work;

static void run_load(const void *ctx, int64_t n, float *const *x)
{
    const chunk_work *work = ctx;

    fast_critical_begin(work->h->actor, KEY);
    fast__race_load(work->h->mine->data + work->at, x[0], n);
    fast_critical_end(work->h->actor);
}
static const fast_kernel load = { "load", 0, 8, 1, 1, false, run_load };

/* Chunk by chunk: see the model as it is now, update it, write it. In `sim` others run between.
 * Everyone begins elsewhere, or workers in step would meet in every chunk. */
static fast_err update(fast_trainer *t, const replica *h)
{
    const bool whole = h->chunk >= h->count;
    const int64_t chunks = (h->count + h->chunk - 1) / h->chunk;

    for (int64_t i = 0; i < chunks; i++) {
        const int64_t at = (i + t->rank * chunks / t->workers) % chunks * h->chunk;
        const int64_t n = h->count - at < h->chunk ? h->count - at : h->chunk;

        FAST_TRY(fast_trainer_apply_range(t, &load, &(chunk_work){ h, at, n },
                                          &(fast_vector){ .x = t->w + at, .age = -1 }, 1, n));
        if (whole)
            FAST_TRY(fast_trainer_update(t, t->g, 1));
        else
            fast_trainer_update_range(t, t->step, t->lr, t->w + at, t->g + at, 1, at, n);
        fast_critical_begin(t->actor, KEY);
        fast__race_store(h->mine->data + at, t->w + at, n);
        if (i == chunks - 1)
            atomic_fetch_add(&h->mine->updates, 1);
        fast_critical_end(t->actor);
    }
    return FAST_OK;
}

/* Give the next cluster the changes of this one. */
static void run_pass(const void *ctx, int64_t n, float *const *unused)
{
    const chunk_work *work = ctx;
    const replica *h = work->h;

    (void)n;
    (void)unused;
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

/* True if nobody of a cluster is up. */
static bool is_deserted(const fast_trainer *t, const replica *h, int64_t cluster)
{
    for (int64_t r = 0; r < t->workers; r++)
        if (r * h->clusters / t->workers == cluster &&
            (r == t->rank || !fast_member_is_down(t->actor, t->worker_ids[r])))
            return false;
    return true;
}

/* Pass the token if this cluster has it for long enough. It skips clusters that nobody is left in;
 * what it brings goes to the next one all the same. */
static fast_err pass_token(fast_trainer *t, const hogwild_config *c, const replica *h)
{
    int64_t to = (h->cluster + 1) % h->clusters;
    int here = (int)h->cluster;

    fast_critical_begin(t->actor, KEY);
    const long long updates = atomic_load(&h->mine->updates);
    const bool mine = updates - atomic_load(&h->mine->passed) >= c->period &&
                      atomic_compare_exchange_strong(h->token, &here, BUSY);
    fast_critical_end(t->actor);
    if (!mine)
        return FAST_OK;
    for (int64_t at = 0; at < h->all; at += h->chunk) {
        const int64_t n = h->all - at < h->chunk ? h->all - at : h->chunk;

        FAST_TRY(fast_trainer_apply_range(t, &pass, &(chunk_work){ h, at, n },
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

/* Updates of the worker's model so far; and, where it is wanted, the model. */
static long long look(fast_trainer *t, const replica *h, bool whole)
{
    fast_critical_begin(t->actor, KEY);
    const long long updates = atomic_load(&h->mine->updates);
    if (whole)
        fast__race_load(h->mine->data, t->w, t->count);
    fast_critical_end(t->actor);
    return updates;
}

/* The model holds `own` more of this worker's updates, the last of them `age` updates late, and the
 * replica holds the contributions of the model. An update that a race lost counts too. */
static void see(fast_trainer *t, const replica *h, float own, int64_t age)
{
    _Atomic float *shares = h->mine->data + h->count;

    fast_critical_begin(t->actor, KEY);
    const float before = atomic_load_explicit(&shares[t->rank], memory_order_relaxed);

    atomic_store_explicit(&shares[t->rank], before + own, memory_order_relaxed);
    for (int64_t i = 0; i < t->workers; i++)
        h->shares[i] = (double)atomic_load_explicit(&shares[i], memory_order_relaxed);
    fast_critical_end(t->actor);
    fast_trainer_adopt(t, &(fast_vector){ .x = t->w, .shares = h->shares, .age = age });
}

static fast_err train(fast_trainer *t, const hogwild_config *c, const replica *h)
{
    long long seen = look(t, h, true);

    while (fast_trainer_next(t)) {
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        const long long updates = look(t, h, false), age = updates - seen;
        seen = updates + 1;
        FAST_TRY(update(t, h));
        see(t, h, 1, age);
        t->centre_version = seen;
        if (h->token)
            FAST_TRY(pass_token(t, c, h));
    }
    t->centre_version = look(t, h, true);
    see(t, h, 0, -1);
    return fast_trainer_end(t);
}

static fast_err worker(fast_trainer *t, const void *config)
{
    const hogwild_config *c = config;
    fast_err err;
    replica h;

    FAST_TRY(open_replica(t, c, &h));
    if (h.clusters == 1)
        t->centre = t->w;
    FAST_TRY(fast__alloc("contributions", t->workers, sizeof *h.shares, &h.shares));
    err = train(t, c, &h);
    fast__free(h.shares);
    return err;
}

const fast_strategy fast__strategy_hogwild = {
    .name = "hogwild",
    .summary = "workers write to one model in memory without locks",
    .options = options,
    .config_size = sizeof(hogwild_config),
    .shares_memory = true,
    .sends = "nothing",
    .check = check,
    .worker = worker,
};
