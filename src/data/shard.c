/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fixed shards of a data set, one for each worker: asynchronous and federated strategies are tested
 * on data that differs from worker to worker.
 *
 *   contiguous  worker k owns the samples from k * count / workers on
 *   label       contiguous after a stable sort by label: a worker sees few classes
 *   dirichlet   for each class, shares q ~ Dirichlet(alpha, ..., alpha) of its samples go to the
 *               workers (Hsu, Qi, Brown, "Measuring the Effects of Non-Identical Data
 *               Distribution for Federated Visual Classification", 2019): alpha large is even,
 *               alpha small gives a class to few workers
 *
 * A Dirichlet draw is normalised Gamma(alpha) draws (Marsaglia and Tsang 2000), stored as
 * logarithms because for small alpha all of them can be below the smallest double. Sequences are
 * sharded by their first label.
 */
#include "data/shard.h"

#include "base/memory.h"
#include "base/rng.h"

#include <math.h>

int64_t fast__shard_cut(int64_t count, int64_t workers, int64_t k)
{
    return count / workers * k + (count % workers) * k / workers;
}

/* Sort the samples by label, stably; start[c] is where class c begins, start[classes] the end. */
static void sort_by_label(const fast_data *data, uint32_t *order, int64_t *start)
{
    for (int64_t i = 0; i < data->count; i++)
        start[data->labels[i * data->positions]]++;
    int64_t sum = 0;
    for (int64_t c = 0; c <= data->classes; c++) {
        const int64_t count = start[c];
        start[c] = sum;
        sum += count;
    }
    FAST_ASSERT(sum == data->count);
    for (int64_t i = 0; i < data->count; i++)
        order[start[data->labels[i * data->positions]]++] = (uint32_t)i;
    for (int64_t c = data->classes; c > 0; c--)
        start[c] = start[c - 1];
    start[0] = 0;
}

/* Uniform in (0, 1), so that its logarithm is finite: the middle of one of 2^32 equal
 * intervals. */
static double open_uniform(fast_rng *rng)
{
    return ((double)fast__rng_u32(rng) + 0.5) / 4294967296.0;
}

/* The logarithm of a Gamma(alpha) draw. */
static double log_gamma_draw(double alpha, fast_rng *rng)
{
    /* Gamma(a) = Gamma(a + 1) * U^(1/a) */
    const double boost = alpha < 1 ? log(open_uniform(rng)) / alpha : 0;
    const double d = (alpha < 1 ? alpha + 1 : alpha) - 1.0 / 3;
    const double c = 1 / sqrt(9 * d);
    for (;;) {
        const double x = (double)fast__rng_normal(rng);
        const double t = 1 + c * x;
        const double v = t * t * t;
        if (v > 0 && log(open_uniform(rng)) < 0.5 * x * x + d - d * v + d * log(v))
            return log(d * v) + boost;
    }
}

/* Draw shares[k], worker k's fraction of class `label`; they sum to 1. */
static void draw_shares(const fast_loader_options *o, int64_t label, double *shares)
{
    fast_rng rng;
    fast__rng_init(&rng, o->seed, FAST_PURPOSE_SHARD, 0, 0, (uint64_t)label);
    double top = -INFINITY;
    for (int64_t k = 0; k < o->workers; k++) {
        shares[k] = log_gamma_draw(o->alpha, &rng);
        top = shares[k] > top ? shares[k] : top;
    }
    double sum = 0;
    for (int64_t k = 0; k < o->workers; k++) {
        shares[k] = exp(shares[k] - top);
        sum += shares[k];
    }
    for (int64_t k = 0; k < o->workers; k++)
        shares[k] /= sum;
}

/* Deal a class's samples, in a random order, to the workers by their shares. */
static void deal_class(const fast_loader_options *o, int64_t label, const uint32_t *samples,
                       int64_t count, const double *shares, uint32_t *owner)
{
    double share = 0;
    int64_t done = 0;
    for (int64_t k = 0; k < o->workers; k++) {
        share += shares[k];
        int64_t end = (int64_t)(share * (double)count + 0.5);
        if (k == o->workers - 1 || end > count)
            end = count;
        for (; done < end; done++) {
            const uint64_t i = fast__rng_permute(o->seed, FAST_PURPOSE_SHARD, (uint64_t)label,
                                                 (uint64_t)count, (uint64_t)done);
            owner[samples[i]] = (uint32_t)k;
        }
    }
}

/* Give every worker without samples one of the largest shard, since it could not take part. */
static void fill_empty_shards(const fast_loader_options *o, int64_t count, uint32_t *owner,
                              int64_t *sizes)
{
    for (int64_t i = 0; i < count; i++)
        sizes[owner[i]]++;
    for (int64_t k = 0; k < o->workers; k++) {
        if (sizes[k] > 0)
            continue;
        int64_t rich = 0;
        for (int64_t j = 1; j < o->workers; j++)
            rich = sizes[j] > sizes[rich] ? j : rich;
        int64_t i = 0;
        while (owner[i] != (uint32_t)rich)
            i++;
        owner[i] = (uint32_t)k;
        sizes[k]++;
        sizes[rich]--;
    }
}

/* Set the owner of every sample by Dirichlet shares. */
static fast_err deal_dirichlet(const fast_data *data, const fast_loader_options *o,
                               const uint32_t *order, const int64_t *start, uint32_t *owner)
{
    double *shares;
    int64_t *sizes = NULL;
    FAST_TRY(fast__alloc("shares of workers", o->workers, sizeof *shares, &shares));
    const fast_err err = fast__alloc("parts of workers", o->workers, sizeof *sizes, &sizes);
    if (!err) {
        for (int64_t c = 0; c < data->classes; c++) {
            draw_shares(o, c, shares);
            deal_class(o, c, order + start[c], start[c + 1] - start[c], shares, owner);
        }
        fill_empty_shards(o, data->count, owner, sizes);
    }
    fast__free(sizes);
    fast__free(shares);
    return err;
}

/* Copy the samples that the worker owns. */
static fast_err pick(const fast_data *data, const fast_loader_options *o, const uint32_t *order,
                     const uint32_t *owner, uint32_t **out, int64_t *count_out)
{
    /* Samples that are read in blocks are divided at the ends of blocks: a worker then reads the
     * files of its own samples alone. */
    const int64_t unit = data->rows != NULL && data->rows->block > 0 ? data->rows->block : 1;
    const int64_t units = (data->count + unit - 1) / unit;
    if (units < o->workers)
        return fast__fail(FAST_EINVAL,
                          "%lld shards on disk do not give each of %lld workers one: write smaller "
                          "shards, or use shard=sample",
                          (long long)units, (long long)o->workers);
    int64_t first = fast__shard_cut(units, o->workers, o->worker) * unit;
    int64_t count = fast__shard_cut(units, o->workers, o->worker + 1) * unit - first;
    count = count < data->count - first ? count : data->count - first;
    if (owner != NULL) {
        count = 0;
        for (int64_t i = 0; i < data->count; i++)
            count += owner[i] == (uint32_t)o->worker;
    }
    FAST_ASSERT(count > 0);
    uint32_t *own;
    FAST_TRY(fast__alloc("a worker's part of the samples", count, sizeof *own, &own));
    if (owner == NULL) {
        for (int64_t i = 0; i < count; i++)
            own[i] = order != NULL ? order[first + i] : (uint32_t)(first + i);
    } else {
        for (int64_t i = 0, n = 0; i < data->count; i++) {
            if (owner[i] == (uint32_t)o->worker)
                own[n++] = (uint32_t)i;
        }
    }
    *out = own;
    *count_out = count;
    return FAST_OK;
}

/* The worker's samples for shards by label and by Dirichlet. */
static fast_err own_by_label(const fast_data *data, const fast_loader_options *o, uint32_t *order,
                             int64_t *start, uint32_t *owner, uint32_t **out, int64_t *count_out)
{
    sort_by_label(data, order, start);
    if (owner != NULL)
        FAST_TRY(deal_dirichlet(data, o, order, start, owner));
    return pick(data, o, order, owner, out, count_out);
}

/* List the samples of one worker. All workers compute the whole assignment, so they agree
 * without a message. */
fast_err fast__shard_own(const fast_data *data, const fast_loader_options *options, uint32_t **out,
                         int64_t *count_out)
{
    FAST_ASSERT(options->shard != FAST_SHARD_SAMPLE);
    FAST_ASSERT(options->worker >= 0 && options->worker < options->workers);
    if (options->shard == FAST_SHARD_ALL) {
        const fast_loader_options alone = { .shard = FAST_SHARD_CONTIGUOUS, .workers = 1 };
        return pick(data, &alone, NULL, NULL, out, count_out);
    }
    if (options->workers > data->count)
        return fast__fail(FAST_EINVAL, "%lld samples do not give each of %lld workers one",
                          (long long)data->count, (long long)options->workers);
    if (options->shard == FAST_SHARD_CONTIGUOUS)
        return pick(data, options, NULL, NULL, out, count_out);
    if (data->labels == NULL)
        return fast__fail(FAST_EINVAL, "this data set has no labels to shard by; use shard=sample "
                                       "or shard=contiguous");
    uint32_t *order = NULL;
    uint32_t *owner = NULL;
    int64_t *start = NULL;
    fast_err err = fast__alloc("samples by label", data->count, sizeof *order, &order);
    if (!err)
        err = fast__alloc("classes", data->classes + 1, sizeof *start, &start);
    if (!err && options->shard == FAST_SHARD_DIRICHLET)
        err = fast__alloc("owners of samples", data->count, sizeof *owner, &owner);
    if (!err)
        err = own_by_label(data, options, order, start, owner, out, count_out);
    fast__free(owner);
    fast__free(start);
    fast__free(order);
    return err;
}
