/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fast bench cluster`: what are the latency, the bandwidth, the eager size and the speeds of these
 * nodes? Answers with a cluster file, so that `--cluster FILE` simulates them.
 *
 * One worker lives on each node. Pair by pair, one worker sends messages and the other echoes them,
 * while the other workers wait; so the times are those of FAST's own messages over the transport:
 * MPI, its polling and TCP included. Per pair: 300 pings, whose slow ones tell the loss. For the
 * first pair also: all sizes of cluster_fit.c, bursts of small messages, and the eager size by
 * bisection. Up to 8 nodes all pairs are measured, beyond that neighbours in a ring. A node's speed
 * is that of a few training steps of a model: operations that the simulator charges, by their time.
 *
 * Medians count, so that what else the machines do matters less; a size is timed 7 to 40 times,
 * within 1.2 s if it can. Expected: 10 s a pair with a latency of 5 ms. On `sim` the result is the
 * cluster that is simulated, which tests the fit: cluster_fit_test.c.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "fast/run.h"
#include "lab/bench.h"
#include "lab/cluster_fit.h"
#include "run/run.h"
#include "tensor/vector.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    TAG = 1,           /* of messages */
    PINGS = 300,       /* round trips of a small message */
    TRIES_MIN = 7,     /* round trips of a size */
    TRIES_MAX = 40,    /* round trips of a size */
    WARM_UP = 5,       /* round trips before them: a connection learns its window */
    BURSTS = 12,       /* bursts, of which the fastest counts */
    BURST = 25,        /* small messages in a row */
    ALL_PAIRS_MAX = 8, /* nodes of which all pairs are measured */
    STEPS = 50,        /* training steps that give a node's speed */
    FLOATS = 1 << 20,  /* of the vectors that give the bandwidth of its memory */
    NODES_MAX = 1024   /* workers */
};
#define BUDGET_S  1.2  /* seconds for the round trips of a size */
#define LONG_S    0.5  /* a size that takes this long is the last one */
#define TIMEOUT_S 0.15 /* pings slower by this much were lost: TCP repeats after 0.2 s or more */

typedef struct bench_cluster_config {
    char transport[32]; /* a name */
    int64_t workers;    /* one on each node */
    char cluster[4096]; /* sim: a preset or a file */
    double timeout;     /* seconds */
    int64_t seed;       /* of sim */
    char model[1024];   /* whose training gives the speed */
    char data[1024];    /* of the model */
    int64_t batch;      /* of the model */
} bench_cluster_config;

typedef bench_cluster_config C;

static const fast_option bench_options[] = {
    FAST_OPT_TEXT(C, transport, "mpi", "transport", "what runs the workers"),
    FAST_OPT_INT(C, workers, "2", 2, NODES_MAX, "one on each node"),
    FAST_OPT_TEXT(C, cluster, "", "cluster", "sim: the cluster, a preset or a file"),
    FAST_OPT_REAL(C, timeout, "120", 1e-6, 1e9, "seconds that a wait takes at most"),
    FAST_OPT_INT(C, seed, "1", 0, 9007199254740992.0, "sim: of everything that is random"),
    FAST_OPT_TEXT(C, model, "mlp:hidden=64", "model", "whose training gives the speed of a node"),
    FAST_OPT_TEXT(C, data, "digits:train=2048,test=64", "data", "of the model"),
    FAST_OPT_INT(C, batch, "32", 1, 1 << 20, "of the model"),
    FAST_OPT_END,
};

/* State of a process's workers; rank 0's is reported. */
typedef struct cluster_bench {
    const bench_cluster_config *config; /* the options */
    bool sim;                           /* virtual time */
    double speed, memory;               /* of this process's node, measured; sim: 0 */
    fast_cluster_fit fit;               /* rank 0's */
    double *speeds;                     /* [2 workers]: of each node, then of its memory */
} cluster_bench;

/* Order of times, for qsort(). */
static int compare(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* Send `size` bytes; the receiver answers with as many if `answer`, ends if size is negative. */
static fast_err put(fast_actor *actor, int64_t to, int64_t size, bool answer)
{
    fast_msg *msg = NULL;
    fast_buffer *buffer = NULL;

    FAST_TRY(fast_msg_new(actor, TAG, &msg));
    msg->words[0] = size;
    msg->words[1] = answer;
    if (size > 0) {
        const fast_err err = fast_buffer_new(actor, (size_t)size, &buffer);
        if (err) {
            fast_msg_free(msg);
            return err;
        }
        memset(fast_buffer_data(buffer), 1, (size_t)size);
        fast_msg_add(msg, &buffer);
    }
    return fast_send(actor, to, &msg);
}

/* Answer messages until one has a negative size. */
static fast_err echo(fast_actor *actor, int64_t from)
{
    for (;;) {
        fast_msg *msg = NULL;
        FAST_TRY(fast_receive(actor, from, TAG, FAST_SOON, &msg));
        const int64_t size = msg->words[0], answer = msg->words[1];
        fast_msg_free(msg);
        if (size < 0)
            return FAST_OK;
        if (answer)
            FAST_TRY(put(actor, from, size, false));
    }
}

/* Time one round trip, in seconds. */
static fast_err round_trip(fast_actor *actor, int64_t to, int64_t size, double *out)
{
    fast_msg *msg = NULL;
    const int64_t begin = fast_now(actor);

    FAST_TRY(put(actor, to, size, true));
    FAST_TRY(fast_receive(actor, to, TAG, FAST_SOON, &msg));
    fast_msg_free(msg);
    *out = (double)(fast_now(actor) - begin) * 1e-9;
    return FAST_OK;
}

/* Time messages of a size one way: the median and the shortest. */
static fast_err time_size(fast_actor *actor, int64_t to, int64_t size, double *median_out,
                          double *least_out)
{
    double times[TRIES_MAX], sum = 0;
    int count = 0;

    for (int i = -WARM_UP; count < TRIES_MAX; i++) {
        double t = 0;
        FAST_TRY(round_trip(actor, to, size, &t));
        if (i >= 0)
            times[count++] = t / 2;
        sum += t;
        if (count >= TRIES_MIN && sum > BUDGET_S)
            break;
    }
    qsort(times, (size_t)count, sizeof times[0], compare);
    *median_out = times[count / 2];
    *least_out = times[0];
    return FAST_OK;
}

/* Ping: the time of a small message, and how many were lost. */
static fast_err time_pings(const cluster_bench *b, fast_actor *actor, fast_pair_times *p)
{
    double times[PINGS], delay = 0;

    for (int i = -WARM_UP; i < PINGS; i++)
        FAST_TRY(round_trip(actor, p->to, 1, &times[i < 0 ? 0 : i]));
    qsort(times, PINGS, sizeof times[0], compare);
    const double usual = times[PINGS / 2];
    const double limit = b->sim ? 2 * usual : usual + fmax(TIMEOUT_S, usual);
    p->pings = PINGS;
    for (int i = 0; i < PINGS; i++)
        if (times[i] > limit) {
            p->slow++;
            delay += times[i] - usual;
        }
    p->retry_s = p->slow > 0 ? delay / (double)p->slow : 0;
    p->median_s[0] = usual / 2;
    p->least_s[0] = times[0] / 2;
    return FAST_OK;
}

/* Time small messages in a row: the time of one in the fastest burst. A burst is short, so that one
 * without a loss is among them. */
static fast_err time_bursts(fast_actor *actor, fast_pair_times *p)
{
    double best = INFINITY;

    for (int burst = 0; burst < BURSTS; burst++) {
        double last = 0;
        const int64_t begin = fast_now(actor);
        for (int i = 0; i < BURST; i++)
            FAST_TRY(put(actor, p->to, 1, false));
        FAST_TRY(round_trip(actor, p->to, 1, &last));
        const double took = (double)(fast_now(actor) - begin) * 1e-9 - 2 * p->least_s[0];
        best = fmin(best, took / BURST);
    }
    p->burst_s = best;
    return FAST_OK;
}

/* Find the largest message without a rendezvous, between the two sizes of the fit. */
static fast_err find_eager(fast_actor *actor, int64_t to, const fast_link_fit *fit, double *out)
{
    int64_t low = fast__fit_sizes[fit->eager], high = fast__fit_sizes[fit->eager + 1];

    while (high - low > 1024 && high - low > low / 64) {
        const int64_t size = (low + high) / 2;
        double usual = 0, least = 0;
        FAST_TRY(time_size(actor, to, size, &usual, &least));
        if (usual > fast__fit_seconds(fit, (double)size) + fit->round_s / 2)
            high = size;
        else
            low = size;
    }
    *out = (double)low;
    return FAST_OK;
}

/* The sizes of the first pair, or the two by which links are compared. */
static fast_err time_sizes(fast_actor *actor, fast_pair_times *p, bool all)
{
    for (int i = 1; i < FAST_FIT_SIZES; i++) {
        if (!all && i != FAST_FIT_LARGE)
            continue;
        FAST_TRY(time_size(actor, p->to, fast__fit_sizes[i], &p->median_s[i], &p->least_s[i]));
        if (p->median_s[i] > LONG_S)
            break;
    }
    return FAST_OK;
}

/* A result of a pair, told to all workers. */
typedef struct pair_result {
    fast_pair_times times; /* measured */
    fast_link_fit fit;     /* of the first pair */
    double eager;          /* of the first pair */
} pair_result;

/* Measure a pair as the worker that sends. */
static fast_err lead(const cluster_bench *b, fast_actor *actor, bool all, pair_result *r)
{
    for (int i = 0; i < FAST_FIT_SIZES; i++)
        r->times.median_s[i] = r->times.least_s[i] = NAN;
    FAST_TRY(time_pings(b, actor, &r->times));
    FAST_TRY(time_sizes(actor, &r->times, all));
    r->times.burst_s = NAN;
    if (all) {
        FAST_TRY(time_bursts(actor, &r->times));
        r->fit = fast__link_fit(&r->times);
        if (r->fit.round_s > 0)
            FAST_TRY(find_eager(actor, r->times.to, &r->fit, &r->eager));
    }
    return put(actor, r->times.to, -1, false);
}

/* Measure one pair of nodes; all workers call this, and all have the result. */
static fast_err measure_pair(cluster_bench *b, fast_actor *actor, fast_group *group, int64_t from,
                             int64_t to)
{
    pair_result r = { .times = { .from = from, .to = to } };
    const int64_t rank = fast_group_rank(group);
    fast_cluster_fit *fit = &b->fit;
    const bool all = rank == 0 ? fit->pair_count == 0 : from == 0 && to == 1;

    if (rank == from)
        FAST_TRY(lead(b, actor, all, &r));
    else if (rank == to)
        FAST_TRY(echo(actor, from));
    FAST_TRY(fast_broadcast(group, from, &r, sizeof r, FAST_SOON));
    if (rank != 0)
        return FAST_OK;
    if (all) {
        fit->link = r.fit;
        fit->eager = r.eager;
    }
    fit->pairs[fit->pair_count++] = r.times;
    return FAST_OK;
}

/* Tell all workers the speed of each node. On sim it is the time of a charge. */
static fast_err measure_speeds(cluster_bench *b, fast_actor *actor, fast_group *group)
{
    const int64_t rank = fast_group_rank(group), count = fast_group_size(group);
    double own[2] = { b->speed, b->memory };

    for (int i = 0; i < 2 && b->sim; i++) {
        const int64_t begin = fast_now(actor);
        FAST_TRY(fast_charge(actor, i == 0 ? 1e9 : 0, i == 1 ? 1e9 : 0));
        const int64_t took = fast_now(actor) - begin;
        own[i] = took > 0 ? 1e18 / (double)took : 0;
    }
    for (int64_t i = 0; i < count; i++) {
        double told[2] = { own[0], own[1] };
        FAST_TRY(fast_broadcast(group, i, told, sizeof told, FAST_SOON));
        if (rank == 0) {
            b->speeds[i] = told[0];
            b->speeds[count + i] = told[1];
        }
    }
    return FAST_OK;
}

/* The program of a worker. */
static fast_err bench_worker(fast_actor *actor, void *ctx)
{
    cluster_bench *b = ctx;
    fast_group *group = NULL;

    FAST_TRY(fast_group_all(actor, NULL, &group));
    const int64_t n = fast_group_size(group);
    fast_err err = measure_speeds(b, actor, group);
    for (int64_t i = 0; i < n && !err; i++)
        for (int64_t j = i + 1; j < n && !err; j++)
            if (n <= ALL_PAIRS_MAX || j == i + 1 || (i == 0 && j == n - 1))
                err = measure_pair(b, actor, group, i, j);
    if (!err)
        err = fast_barrier(group, FAST_SOON);
    fast_group_free(group);
    return err;
}

/* Bytes per second that a sum of vectors moves on this machine. */
static fast_err memory_speed(double *out)
{
    float *x = NULL;
    double best = INFINITY;

    FAST_TRY(fast__alloc("vectors to measure with", 2 * FLOATS, sizeof *x, &x));
    for (int i = 0; i < TRIES_MIN; i++) {
        const int64_t begin = fast__clock_ns();
        fast__vector_add(FLOATS, x, x + FLOATS);
        best = fmin(best, (double)(fast__clock_ns() - begin) * 1e-9);
    }
    fast__free(x);
    *out = 12.0 * FLOATS / fmax(best, 1e-9);
    return FAST_OK;
}

/* Operations per second of training on this machine: the median of three short runs. */
static fast_err training_speed(const bench_cluster_config *config, double *out)
{
    char model[1040], data[1040], batch[48], steps[48];
    const char *options[] = { model,         data,         batch,       steps,
                              "evaluate=no", "store=none", "workers=1", NULL };
    double speeds[3];

    snprintf(model, sizeof model, "model=%s", config->model);
    snprintf(data, sizeof data, "data=%s", config->data);
    snprintf(batch, sizeof batch, "batch=%lld", (long long)config->batch);
    snprintf(steps, sizeof steps, "steps=%d", STEPS);
    for (int i = 0; i < 3; i++) {
        fast_run *run = NULL;
        FAST_TRY(fast_run_open(options, &run));
        const fast_err err = fast_run_train(run);
        const fast_result *r = fast_run_result(run);
        speeds[i] = r->compute_s > 0 ? r->work * STEPS / r->compute_s : 0;
        fast_run_close(run);
        FAST_TRY(err);
    }
    qsort(speeds, 3, sizeof speeds[0], compare);
    *out = speeds[1];
    return FAST_OK;
}

/* Run the workers. */
static fast_err bench_run(cluster_bench *b)
{
    const fast_bench_place place = { b->config->transport, b->config->cluster, b->config->timeout,
                                     b->config->seed };

    return fast__bench_actors(&place, b->config->workers, bench_worker, b);
}

/* Make the file and report it, where this process has rank 0. */
static fast_err report_fit(cluster_bench *b, fast_cluster_measure_fn *report, void *ctx)
{
    fast_cluster_fit *fit = &b->fit;
    char title[1280], *text = NULL;
    size_t size = 0;

    if (fit->pair_count == 0)
        return FAST_OK; /* another rank reports */
    snprintf(title, sizeof title,
             "fast bench cluster: %lld nodes over %s; speed of %s with batches of %lld",
             (long long)fit->nodes, b->config->transport, b->config->model,
             (long long)b->config->batch);
    fit->title = title;
    fast__cluster_fit_loss(fit);
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return fast__fail(FAST_ENOMEM, "no memory for a cluster file");
    fast__cluster_fit_write(fit, out);
    if (fclose(out)) {
        free(text);
        return fast__fail(FAST_ENOMEM, "no memory for a cluster file");
    }
    const fast_cluster_measure measure = {
        .transport = b->config->transport,
        .nodes = fit->nodes,
        .latency_s = fit->link.latency_s,
        .overhead_s = fit->link.overhead_s,
        .bandwidth = fit->link.bandwidth,
        .stream = fit->link.stream,
        .eager = fit->eager,
        .loss = fit->loss,
        .retry_s = fit->retry_s,
        .speeds = fit->speed,
        .file = text,
    };
    report(ctx, &measure);
    free(text);
    return FAST_OK;
}

fast_err fast_bench_cluster(const char *const *options, fast_cluster_measure_fn *report, void *ctx)
{
    FAST_ASSERT(report != NULL);
    bench_cluster_config config = { 0 };
    FAST_TRY(fast__lab_options("fast bench cluster", bench_options, options, &config));
    cluster_bench b = { .config = &config, .sim = strcmp(config.transport, "sim") == 0 };
    const int64_t n = config.workers, pairs = n <= ALL_PAIRS_MAX ? n * (n - 1) / 2 : n;

    if (!b.sim) {
        FAST_TRY(training_speed(&config, &b.speed));
        FAST_TRY(memory_speed(&b.memory));
    }
    FAST_TRY(fast__alloc("speeds", 2 * n, sizeof *b.speeds, &b.speeds));
    fast_err err = fast__alloc("pairs of nodes", pairs, sizeof *b.fit.pairs, &b.fit.pairs);
    b.fit.nodes = n;
    b.fit.speed = b.speeds;
    b.fit.memory = b.speeds + n;
    if (!err)
        err = bench_run(&b);
    if (!err)
        err = report_fit(&b, report, ctx);
    fast__free(b.fit.pairs);
    fast__free(b.speeds);
    return err;
}
