/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fast bench allreduce`: how long does a sum over all workers take, by each algorithm and length?
 *
 * On threads and mpi the calls follow each other, as the usual benchmarks of MPI do it: a few to
 * warm up, then batches of 200 below 1 MiB and of 20 above; the median batch counts, so that what
 * else the machine does matters less. The rate is the bytes of one vector by the time: a vector
 * that is read and written at each of n workers moves more. Nobody writes to its vector between the
 * calls, so each core may find what it sums in its own cache; with `fresh` each worker writes its
 * whole vector before each call and checks the sums behind it, as training writes and reads
 * gradients, the calls are timed one by one, and the median counts. On `sim` one call is timed,
 * from the instant at which all workers begin to the end of the last one, in virtual time, and no
 * values are sent. The forecast of the model behind `auto` (comm/collective/cost_model.c) stands
 * beside each measurement.
 *
 * Expected: algorithms with few rounds win for short vectors, those that send few bytes win for
 * long ones, and `auto` is the fastest or close to it everywhere. With alpha seconds a message and
 * beta seconds a byte, n workers and vectors of b bytes, additions left out:
 *
 *     butterfly   log2(n) (alpha + b beta)
 *     ring        2 (n - 1) alpha + 2 (n - 1) / n b beta
 *
 * No algorithm that sends messages can take less than 2 (n - 1) / n b beta, because each worker has
 * to send that much; ring reaches it. For n = 8 on a link of 10 Gbit/s (beta = 0.8 ns) with alpha =
 * 5 us, 32 MiB take at least 1.75 * 33.6 MB * 0.8 ns = 47 ms. A vector of 1 KiB takes the butterfly
 * 3 * (5 + 0.8) = 17 us and the ring at least 14 * 5 = 70 us.
 */
#include "base/memory.h"
#include "comm/cost_model.h"
#include "lab/bench.h"
#include "run/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZES_MAX = 64, BATCHES = 5, WARM_UP = 3, FACTOR = 8, FRESH_CALLS = 100 };

/* The options, in the order of the table. */
typedef struct bench_allreduce_config {
    char transport[32];  /* a name */
    int64_t workers;     /* actors */
    char algorithm[128]; /* with options; "": each */
    char bytes[512];     /* a list */
    char cluster[4096];  /* sim: a preset or a file */
    double timeout;      /* seconds */
    int64_t seed;        /* of sim */
    bool fresh;          /* new values before each call */
} bench_allreduce_config;

typedef bench_allreduce_config C;

static const fast_option bench_options[] = {
    FAST_OPT_TEXT(C, transport, "threads", "transport", "what runs the workers"),
    FAST_OPT_INT(C, workers, "2", 2, 65536, "that sum their vectors"),
    FAST_OPT_TEXT(C, algorithm, "", "allreduce", "of allreduce, or auto; each where none is named"),
    FAST_OPT_TEXT(C, bytes, "1Ki-32Mi", NULL,
                  "lengths: 4096,1Mi or from-to by factors of 8; Ki, Mi, Gi are powers of 1024"),
    FAST_OPT_TEXT(C, cluster, "", "cluster", "sim: the cluster, a preset or a file"),
    FAST_OPT_REAL(C, timeout, "30", 1e-6, 1e9, "seconds that a wait takes at most"),
    FAST_OPT_INT(C, seed, "1", 0, 9007199254740992.0, "sim: of everything that is random"),
    FAST_OPT_BOOL(C, fresh, "no", "write the vectors before each call, and check the sums"),
    FAST_OPT_END,
};

const fast_part fast__bench_allreduce_part = { "bench_allreduce", "measure allreduce",
                                               bench_options };

/* One measurement, in the memory of rank 0. */
typedef struct bench_row {
    char algorithm[128]; /* as it was asked for, or what auto chose */
    int64_t bytes;       /* of a vector */
    double seconds;      /* measured */
    double predicted;    /* or NAN */
} bench_row;

/* State that the workers of a process share. Rank 0 writes the rows; ends are each worker's own. */
typedef struct allreduce_bench {
    const bench_allreduce_config *config; /* the options */
    int64_t sizes[SIZES_MAX];             /* bytes */
    int64_t size_count;                   /* of sizes */
    int64_t size_max;                     /* the largest */
    bool sim;                             /* virtual time, no values */
    bench_row *rows;                      /* of rank 0 */
    int64_t row_count;                    /* of rows */
    int64_t row_max;                      /* that fit */
    int64_t *ends;                        /* sim: when each worker was done */
} allreduce_bench;

/* Read a number of bytes. */
static fast_err parse_size(const char *text, int64_t *out)
{
    int64_t bytes = 0;
    FAST_TRY(fast__parse_int("bytes", text, &bytes));
    if (bytes < 4 || bytes > (int64_t)1 << 40 || bytes % 4 != 0)
        return fast__fail(FAST_EINVAL, "bytes=%s: a vector has 4 bytes to 1024Gi, a multiple of 4",
                          text);
    *out = bytes;
    return FAST_OK;
}

/* Append a size to the list of those that are measured; FAST_EINVAL if there are too many. */
static fast_err add_size(allreduce_bench *b, int64_t bytes)
{
    if (b->size_count == SIZES_MAX)
        return fast__fail(FAST_EINVAL, "bytes=%s: more than %d lengths", b->config->bytes,
                          SIZES_MAX);
    b->sizes[b->size_count++] = bytes;
    if (bytes > b->size_max)
        b->size_max = bytes;
    return FAST_OK;
}

/* "1Ki-32Mi,100M" */
static fast_err parse_sizes(allreduce_bench *b)
{
    char list[sizeof b->config->bytes];
    memcpy(list, b->config->bytes, sizeof list);
    char *rest = list;
    for (char *word = strsep(&rest, ","); word; word = strsep(&rest, ",")) {
        int64_t first = 0, last = 0;
        char *dash = strchr(word, '-');
        if (dash)
            *dash = '\0';
        FAST_TRY(parse_size(word, &first));
        last = first;
        if (dash)
            FAST_TRY(parse_size(dash + 1, &last));
        if (last < first)
            return fast__fail(FAST_EINVAL, "bytes=%s: a range goes up", b->config->bytes);
        for (int64_t bytes = first; bytes <= last; bytes *= FACTOR)
            FAST_TRY(add_size(b, bytes));
    }
    return FAST_OK;
}

/* Order of times, for qsort(). */
static int compare(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* Calls that follow each other; the median batch, in seconds a call. Each call sums the sums of the
 * one before, so values grow by a factor of n and become infinite; vector units add infinities as
 * fast as other numbers, and no value is checked here. */
static fast_err time_batches(fast_actor *actor, fast_group *group, float *x, int64_t bytes,
                             double *out)
{
    const int64_t count = bytes / 4;
    const int64_t rounds = bytes < 1 << 20 ? 200 : 20;
    double times[BATCHES];
    for (int64_t i = 0; i < count; i++)
        x[i] = (float)(i % 7);
    for (int i = 0; i < WARM_UP; i++)
        FAST_TRY(fast_allreduce(group, x, count, FAST_SOON));
    for (int batch = 0; batch < BATCHES; batch++) {
        FAST_TRY(fast_barrier(group, FAST_SOON));
        const int64_t begin = fast_now(actor);
        for (int64_t i = 0; i < rounds; i++)
            FAST_TRY(fast_allreduce(group, x, count, FAST_SOON));
        times[batch] = (double)(fast_now(actor) - begin) * 1e-9 / (double)rounds;
    }
    qsort(times, BATCHES, sizeof times[0], compare);
    *out = times[BATCHES / 2];
    return FAST_OK;
}

/* Small whole numbers, whose sums are exact in any order. */
static float fresh_value(int64_t rank, int64_t call, int64_t i)
{
    return (float)((rank + call + i) & 15);
}

/* Calls that each begin together with new values; the median, in seconds. */
static fast_err time_fresh(fast_actor *actor, fast_group *group, float *x, int64_t bytes,
                           double *out)
{
    const int64_t count = bytes / 4;
    const int64_t size = fast_group_size(group);
    double times[FRESH_CALLS];
    for (int call = -WARM_UP; call < FRESH_CALLS; call++) {
        float sums[16] = { 0 };
        for (int64_t i = 0; i < count; i++)
            x[i] = fresh_value(fast_group_rank(group), call, i);
        for (int64_t i = 0; i < 16; i++)
            for (int64_t rank = 0; rank < size; rank++)
                sums[i] += fresh_value(rank, call, i);
        FAST_TRY(fast_barrier(group, FAST_SOON));
        const int64_t begin = fast_now(actor);
        FAST_TRY(fast_allreduce(group, x, count, FAST_SOON));
        if (call >= 0)
            times[call] = (double)(fast_now(actor) - begin) * 1e-9;
        for (int64_t i = 0; i < count; i++)
            if (!(x[i] == sums[i & 15]))
                return fast__fail(FAST_EIO, "number %lld of %lld is %g, not the sum %g",
                                  (long long)i, (long long)count, (double)x[i],
                                  (double)sums[i & 15]);
    }
    qsort(times, FRESH_CALLS, sizeof times[0], compare);
    *out = times[FRESH_CALLS / 2];
    return FAST_OK;
}

/* One call in virtual time, without values. The first barrier makes sure that all ends are written
 * before they are read, the second one that they are read before the next call overwrites them. */
static fast_err time_virtual(allreduce_bench *b, fast_actor *actor, fast_group *group,
                             int64_t bytes, double *out)
{
    int64_t begin = 0;
    /* Later than the news of it reaches anyone: a wait's timeout. */
    if (fast_group_rank(group) == 0)
        begin = fast_now(actor) + (int64_t)(b->config->timeout * 1e9);
    FAST_TRY(fast_broadcast(group, 0, &begin, sizeof begin, FAST_SOON));
    FAST_TRY(fast_sleep_until(actor, begin));
    FAST_TRY(fast_allreduce(group, NULL, bytes / 4, FAST_SOON));
    b->ends[fast_group_rank(group)] = fast_now(actor);
    FAST_TRY(fast_barrier(group, FAST_SOON));
    int64_t end = begin;
    for (int64_t i = 0; i < fast_group_size(group); i++)
        end = b->ends[i] > end ? b->ends[i] : end;
    *out = (double)(end - begin) * 1e-9;
    return fast_barrier(group, FAST_SOON);
}

/* All lengths of one algorithm. */
static fast_err bench_algorithm(allreduce_bench *b, fast_actor *actor, fast_group *group, float *x,
                                const char *algorithm)
{
    for (int64_t i = 0; i < b->size_count; i++) {
        const int64_t bytes = b->sizes[i];
        double seconds = 0, predicted = NAN;
        if (b->sim)
            FAST_TRY(time_virtual(b, actor, group, bytes, &seconds));
        else
            FAST_TRY(
                (b->config->fresh ? time_fresh : time_batches)(actor, group, x, bytes, &seconds));
        const char *chosen = fast_group_choice(group, bytes / 4, &predicted);
        if (fast_group_rank(group) != 0)
            continue;
        FAST_ASSERT(b->row_count < b->row_max);
        bench_row *row = &b->rows[b->row_count++];
        *row = (bench_row){ .bytes = bytes, .seconds = seconds, .predicted = predicted };
        const bool automatic = strcmp(algorithm, "auto") == 0;
        snprintf(row->algorithm, sizeof row->algorithm, "%s%s", automatic ? "auto:" : "",
                 automatic ? chosen : algorithm);
    }
    return FAST_OK;
}

/* Measure the chosen algorithm, or every one that this group can run. All workers call this
 * together. */
static fast_err bench_group(allreduce_bench *b, fast_actor *actor, fast_group *group, float *x)
{
    FAST_TRY(fast__model_fit(group, FAST_SOON));
    if (b->config->algorithm[0]) {
        FAST_TRY(fast_group_algorithm(group, b->config->algorithm));
        return bench_algorithm(b, actor, group, x, b->config->algorithm);
    }
    for (int i = 0; fast__allreduces[i]; i++) {
        const fast_err err = fast_group_algorithm(group, fast__allreduces[i]->name);
        if (err == FAST_ENOTSUP)
            continue; /* not for this transport, or not for this group */
        FAST_TRY(err);
        FAST_TRY(bench_algorithm(b, actor, group, x, fast__allreduces[i]->name));
    }
    return FAST_OK;
}

/* The program of a worker. On `sim` no vector is needed: only times are simulated. */
static fast_err bench_worker(fast_actor *actor, void *ctx)
{
    allreduce_bench *b = ctx;
    fast_group *group = NULL;
    float *x = NULL;
    fast_err err = FAST_OK;
    if (!b->sim)
        err = fast__alloc("a vector to sum", b->size_max / 4, sizeof *x, &x);
    if (!err)
        err = fast_group_all(actor, NULL, &group);
    if (!err)
        err = bench_group(b, actor, group, x);
    fast_group_free(group);
    fast__free(x);
    return err;
}

/* Run the workers. */
static fast_err bench_run(allreduce_bench *b)
{
    const fast_bench_place place = { b->config->transport, b->config->cluster, b->config->timeout,
                                     b->config->seed };

    return fast__bench_actors(&place, b->config->workers, bench_worker, b);
}

fast_err fast_bench_allreduce(const char *const *options, fast_allreduce_measure_fn *report,
                              void *ctx)
{
    FAST_ASSERT(report != NULL);
    bench_allreduce_config config = { 0 };
    FAST_TRY(fast__lab_options("fast bench allreduce", bench_options, options, &config));
    allreduce_bench b = { .config = &config, .sim = strcmp(config.transport, "sim") == 0 };
    FAST_TRY(parse_sizes(&b));
    b.row_max = b.size_count * FAST_ALLREDUCE_MAX;
    FAST_TRY(fast__alloc("measurements", b.row_max, sizeof *b.rows, &b.rows));
    fast_err err = fast__alloc("times", config.workers, sizeof *b.ends, &b.ends);
    if (!err)
        err = bench_run(&b);
    for (int64_t i = 0; i < b.row_count && !err; i++) {
        const bench_row *row = &b.rows[i];
        const fast_allreduce_measure measure = {
            .transport = config.transport,
            .algorithm = row->algorithm,
            .workers = config.workers,
            .bytes = row->bytes,
            .seconds = row->seconds,
            .gb_per_s = (double)row->bytes / row->seconds * 1e-9,
            .predicted_s = row->predicted,
        };
        report(ctx, &measure);
    }
    fast__free(b.ends);
    fast__free(b.rows);
    return err;
}
