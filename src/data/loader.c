/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches by step, without a stored position (loader.h says which samples a step has).
 *
 * The shuffle is a permutation with random access (fast__rng_permute), so a batch costs the same at
 * any position, workers need not agree on anything but the options, and a resumed run continues by
 * asking for the next step.
 *
 * The length of an epoch is the same for all shards: count / (workers * batch) steps, or count /
 * batch if every worker has the whole set. A worker with a shard of its own cycles through it at
 * its own pace, shuffled anew each time; with `partial` an epoch is one pass over that shard.
 *
 *     FAST_SHARD_SAMPLE, 2 workers, batch 3      shuffled set   | 0 0 0 | 1 1 1 | 0 0 0 | ...
 *                                                               step 0          step 1
 *
 * Samples that are not in memory (rows.h) are shuffled in windows; while one window is used, the
 * blocks of the next one are announced.
 *
 * Making a batch: sample numbers first, then the gather with normalisation, then labels, then
 * augmentation. With prefetching a thread does this for the steps to come, in a ring of slots;
 * the batches are the same.
 */
#include "data/loader.h"

#include "base/memory.h"
#include "base/rng.h"
#include "data/augment.h"
#include "data/prefetch.h"
#include "data/sample_gather.h"
#include "data/shard.h"

#include <stdio.h>
#include <string.h>

enum { BATCH_MAX = 1 << 24, WORKERS_MAX = 1 << 20, ACCUMULATE_MAX = 1 << 16, PREFETCH_MAX = 1024 };

/* Making a batch takes microseconds: a minute means that something is wrong with the machine. */
static const int64_t prefetch_deadline_ns = 60 * INT64_C(1000000000);

/* Memory for one batch. */
typedef struct loader_slot {
    fast_batch batch;  /* views of the arrays below */
    float *x;          /* [batch][features] */
    int32_t *labels;   /* [batch][positions], or NULL */
    float *targets;    /* [batch][outputs], or NULL */
    uint32_t *ids;     /* [batch] */
    uint32_t *samples; /* [batch]: which sample of the set */
    int64_t *places;   /* [batch]: positions in that pass; NULL if samples are in memory */
    uint32_t *epochs;  /* [batch]: which pass over the set; keys the augmentation */
    int64_t step;      /* of a remote loader: the step that it holds; -1: none yet */
    fast_err err;      /* why samples could not be read; FAST_OK: they were */
    char detail[FAST_DETAIL_MAX]; /* of err */
} loader_slot;

struct fast_loader {
    const fast_data *data;       /* the set; borrowed */
    fast_loader_options options; /* the caller's options; `augment` is NULL */
    fast_augment augment;        /* parsed from the caller's options */
    float *scratch;     /* one sample, for augmentation; used by the thread that makes batches */
    uint32_t *own;      /* samples of this worker's shard; NULL for FAST_SHARD_SAMPLE */
    int64_t own_count;  /* number of samples in `own` */
    int64_t steps;      /* steps of an epoch */
    loader_slot *slots; /* prefetch + 1 */
    int64_t slot_count; /* number of allocated slots */
    fast_prefetch *prefetch; /* NULL: batches are made when asked for */
    /* Samples that are not in memory. Used by the thread that makes batches. */
    fast_window_order order; /* of shuffled blocks; block is 0 if samples are read one by one */
    void *row;               /* bytes of one sample; NULL if samples are in memory */
    int64_t expected;        /* blocks that were announced: window * blocks of a window + number */
};

/* Seed of the shuffle: shards are shuffled independently of each other. */
static uint64_t shuffle_seed(const fast_loader *loader)
{
    const uint64_t key =
        loader->own == NULL ? 0 : 0x9e3779b97f4a7c15u * (uint64_t)(loader->options.worker + 1);
    return loader->options.seed + key;
}

/* Return sample number `position` of pass `epoch` over `count` samples. */
static uint32_t sample_at(const fast_loader *loader, int64_t epoch, int64_t count, int64_t position)
{
    const fast_loader_options *o = &loader->options;
    FAST_ASSERT(position >= 0 && position < count);
    uint64_t i = (uint64_t)position;
    if (loader->order.block > 0)
        i = (uint64_t)fast__window_sample(&loader->order, shuffle_seed(loader), (uint64_t)epoch,
                                          position);
    else if (o->shuffle)
        i = fast__rng_permute(shuffle_seed(loader), FAST_PURPOSE_SHUFFLE, (uint64_t)epoch,
                              (uint64_t)count, i);
    return loader->own == NULL ? (uint32_t)i : loader->own[i];
}

/* Choose the samples of a step with FAST_SHARD_RING: of the worker that had the batch first. */
static void choose_ring(const fast_loader *loader, int64_t step, loader_slot *s)
{
    const fast_loader_options *o = &loader->options;
    const int64_t pass = step / o->accumulate / loader->steps;
    const int64_t owner = (o->worker + o->workers - pass % o->workers) % o->workers;
    const int64_t start = fast__shard_cut(loader->data->count, o->workers, owner);
    const int64_t count = fast__shard_cut(loader->data->count, o->workers, owner + 1) - start;
    const int64_t first = step % (loader->steps * o->accumulate) * o->batch;
    const uint64_t seed = o->seed + 0x9e3779b97f4a7c15u * (uint64_t)(owner + 1);
    FAST_ASSERT(first + o->batch <= count);
    for (int64_t i = 0; i < o->batch; i++) {
        uint64_t at = (uint64_t)(first + i);
        if (o->shuffle)
            at = fast__rng_permute(seed, FAST_PURPOSE_SHUFFLE, (uint64_t)(pass / o->workers),
                                   (uint64_t)count, at);
        s->samples[i] = (uint32_t)(start + (int64_t)at);
        s->epochs[i] = (uint32_t)pass;
        fast__gather_request(loader->data, s->samples[i]);
    }
    s->batch.count = o->batch;
}

/* Choose the samples of a step. */
static void choose(const fast_loader *loader, int64_t step, loader_slot *s)
{
    const fast_loader_options *o = &loader->options;
    const int64_t count = loader->own == NULL ? loader->data->count : loader->own_count;
    const int64_t parts = o->accumulate;
    const int64_t virtual_worker = o->worker * parts + step % parts;
    int64_t epoch = step / parts / loader->steps;
    int64_t first;
    int64_t size = o->batch;
    for (int64_t i = 0; i < size && parts > 1; i++)
        s->ids[i] = (uint32_t)(virtual_worker * o->batch + i);
    if (o->shard == FAST_SHARD_RING) {
        choose_ring(loader, step, s);
        return;
    }
    if (loader->own == NULL)
        first = (step / parts % loader->steps * o->workers * parts + virtual_worker) * o->batch;
    else if (o->partial)
        first = step % loader->steps * o->batch;
    else
        first = step * o->batch; /* counted over all passes */
    if (loader->own == NULL || o->partial)
        size = first >= count ? 0 : count - first < size ? count - first : size;
    for (int64_t i = 0; i < size; i++) {
        int64_t position = first + i;
        if (loader->own != NULL && !o->partial) {
            epoch = position / count;
            position %= count;
        }
        s->samples[i] = sample_at(loader, epoch, count, position);
        fast__gather_request(loader->data, s->samples[i]);
        s->epochs[i] = (uint32_t)epoch;
        if (s->places != NULL)
            s->places[i] = position;
    }
    s->batch.count = size;
}

/* Number of the window, over all passes, that position `at` of pass `epoch` is in. */
static int64_t window_of(const fast_loader *loader, int64_t epoch, int64_t at)
{
    const fast_window_order *order = &loader->order;
    return epoch * fast__window_count(order) + at / (order->block * order->window);
}

/* Announce blocks of the next window, as many of it as have been used of this one: reading is
 * spread over time, and blocks that others still use stay in the cache:
 *
 *   window n     | used | used | at   |      |      |
 *   window n+1   | ask  | ask  | ask  |      |      |
 */
static void expect_blocks(fast_loader *loader, int64_t epoch, int64_t at)
{
    const fast_window_order *order = &loader->order;
    const fast_rows *rows = loader->data->rows;
    const int64_t windows = fast__window_count(order);
    const int64_t blocks = (order->count + order->block - 1) / order->block;
    const int64_t now = window_of(loader, epoch, at);
    const int64_t used = at % (order->block * order->window) / order->block;
    const int64_t end = (now + 1) * order->window + used + 1;
    int64_t next = loader->expected;
    if (next < (now + 1) * order->window || next > end)
        next = (now + 1) * order->window;
    for (; next < end; next++) {
        const int64_t window = next / order->window;
        const int64_t place = window % windows * order->window + next % order->window;
        if (place >= blocks)
            continue;
        const int64_t block =
            fast__window_block(order, shuffle_seed(loader), (uint64_t)(window / windows), place);
        const int64_t i = block * order->block;
        rows->ops->expect(loader->data->rows, loader->own == NULL ? i : (int64_t)loader->own[i],
                          window);
    }
    loader->expected = next;
}

/* Read the samples of a slot from where they are. */
static fast_err read_rows(fast_loader *loader, loader_slot *s)
{
    const fast_data *data = loader->data;
    const bool windows = loader->order.block > 0;
    for (int64_t i = 0; i < s->batch.count; i++) {
        const int64_t when = windows ? window_of(loader, s->epochs[i], s->places[i]) : -1;
        if (windows && data->rows->ops->expect != NULL && i == 0)
            expect_blocks(loader, s->epochs[i], s->places[i]);
        FAST_TRY(data->rows->ops->read(data->rows, s->samples[i], when, loader->row));
        fast__gather_row(data, loader->row, s->x + i * data->features);
    }
    return FAST_OK;
}

/* Fill slot `index` for a step; the prefetching thread runs it too. */
static void make(void *ctx, int64_t step, int64_t index)
{
    fast_loader *loader = ctx;
    FAST_ASSERT(index >= 0 && index < loader->slot_count);
    const fast_data *data = loader->data;
    loader_slot *s = &loader->slots[index];
    choose(loader, step * loader->options.stride + loader->options.offset, s);
    const int64_t count = s->batch.count;
    s->err = FAST_OK;
    if (data->rows == NULL)
        fast__gather(data, s->samples, count, s->x);
    else
        s->err = read_rows(loader, s);
    if (s->err) {
        snprintf(s->detail, sizeof s->detail, "%s", fast_error_detail());
        return;
    }
    for (int64_t i = 0; i < count && data->labels != NULL; i++)
        memcpy(s->labels + i * data->positions,
               data->labels + (int64_t)s->samples[i] * data->positions,
               (size_t)data->positions * sizeof(int32_t));
    for (int64_t i = 0; i < count && data->targets != NULL; i++)
        memcpy(s->targets + i * data->outputs,
               data->targets + (int64_t)s->samples[i] * data->outputs,
               (size_t)data->outputs * sizeof(float));
    for (int64_t i = 0; i < count && fast__augment_any(&loader->augment); i++)
        fast__augment_apply(&loader->augment, data, loader->options.seed, s->epochs[i],
                            s->samples[i], s->x + i * data->features, loader->scratch);
}

/* Number of workers that share one pass over the set. */
static int64_t sharers(const fast_loader_options *o)
{
    return o->shard == FAST_SHARD_ALL ? 1 : o->workers;
}

/* Check the options against each other and the set. */
static fast_err check_options(const fast_data *data, const fast_loader_options *o)
{
    if (o->batch < 1 || o->batch > BATCH_MAX)
        return fast__fail(FAST_EINVAL, "batch=%lld is not in 1 to %d", (long long)o->batch,
                          BATCH_MAX);
    if (o->workers < 1 || o->workers > WORKERS_MAX || o->worker < 0 || o->worker >= o->workers)
        return fast__fail(FAST_EINVAL, "worker %lld of %lld does not exist", (long long)o->worker,
                          (long long)o->workers);
    if (o->accumulate < 1 || o->accumulate > ACCUMULATE_MAX)
        return fast__fail(FAST_EINVAL, "accumulate=%lld is not in 1 to %d",
                          (long long)o->accumulate, ACCUMULATE_MAX);
    if (o->prefetch < 0 || o->prefetch > PREFETCH_MAX)
        return fast__fail(FAST_EINVAL, "prefetch=%lld is not in 0 to %d", (long long)o->prefetch,
                          PREFETCH_MAX);
    if (o->shard < FAST_SHARD_SAMPLE || o->shard > FAST_SHARD_RING)
        return fast__fail(FAST_EINVAL, "no shard %d", (int)o->shard);
    if (o->shard == FAST_SHARD_RING && (o->partial || data->rows != NULL))
        return fast__fail(FAST_EINVAL, "shard=ring needs samples in memory, and whole batches");
    if (o->shard == FAST_SHARD_DIRICHLET && !(o->alpha > 0 && o->alpha <= 1e6))
        return fast__fail(FAST_EINVAL, "alpha=%g is not in (0, 1e6]", o->alpha);
    if (!o->partial && o->batch > data->count / sharers(o) / o->accumulate)
        return fast__fail(FAST_EINVAL,
                          "a batch of %lld for each of %lld worker%s does not fit in %lld samples",
                          (long long)(o->batch * o->accumulate), (long long)sharers(o),
                          sharers(o) == 1 ? "" : "s", (long long)data->count);
    return FAST_OK;
}

/* Count the steps of an epoch. */
static int64_t count_steps(const fast_loader *loader)
{
    const fast_loader_options *o = &loader->options;
    const int64_t all = o->batch * sharers(o) * o->accumulate;
    if (!o->partial)
        return loader->data->count / all;
    if (loader->own == NULL)
        return (loader->data->count + all - 1) / all;
    return (loader->own_count + o->batch - 1) / o->batch;
}

/* Allocate the arrays of a slot. */
static fast_err alloc_slot(const fast_loader *loader, loader_slot *s)
{
    const fast_data *data = loader->data;
    const int64_t batch = loader->options.batch;
    int64_t values, labels, targets;
    if (!fast__mul_size(batch, data->features, &values) ||
        !fast__mul_size(batch, data->positions, &labels) ||
        !fast__mul_size(batch, data->outputs, &targets))
        return fast__fail(FAST_ENOMEM, "a batch of %lld samples is too large", (long long)batch);
    FAST_TRY(fast__alloc("a batch", values, sizeof *s->x, &s->x));
    if (data->labels != NULL)
        FAST_TRY(fast__alloc("a batch's labels", labels, sizeof *s->labels, &s->labels));
    if (data->targets != NULL)
        FAST_TRY(fast__alloc("a batch's targets", targets, sizeof *s->targets, &s->targets));
    FAST_TRY(fast__alloc("a batch's places", batch, sizeof *s->ids, &s->ids));
    FAST_TRY(fast__alloc("a batch's samples", batch, sizeof *s->samples, &s->samples));
    FAST_TRY(fast__alloc("a batch's epochs", batch, sizeof *s->epochs, &s->epochs));
    if (data->rows != NULL)
        FAST_TRY(fast__alloc("a batch's positions", batch, sizeof *s->places, &s->places));
    for (int64_t i = 0; i < batch; i++)
        s->ids[i] = (uint32_t)(loader->options.worker * batch + i);
    s->step = -1;
    s->batch = (fast_batch){ .x = s->x, .labels = s->labels, .targets = s->targets, .ids = s->ids };
    return FAST_OK;
}

/* Prepare for samples that are not in memory: the window of a worker with a shard of its own is its
 * part of the cache. */
static fast_err open_rows(fast_loader *loader)
{
    const fast_loader_options *o = &loader->options;
    const fast_rows *rows = loader->data->rows;
    const int64_t sharing = loader->own == NULL ? 1 : o->workers;
    FAST_TRY(fast__alloc("a sample", 1, fast__data_row_size(loader->data), &loader->row));
    if (rows->block == 0)
        return FAST_OK;
    if (o->shard == FAST_SHARD_LABEL || o->shard == FAST_SHARD_DIRICHLET)
        return fast__fail(FAST_EINVAL, "samples that are streamed cannot be divided by label; use "
                                       "shard=sample or shard=contiguous");
    if (rows->window < sharing && o->shuffle)
        return fast__fail(FAST_EINVAL,
                          "the cache holds %lld shards, and each of %lld workers with samples of "
                          "its own needs 2: raise cache, or write smaller shards",
                          (long long)(2 * rows->window), (long long)sharing);
    loader->order =
        (fast_window_order){ .count = loader->own == NULL ? loader->data->count : loader->own_count,
                             .block = rows->block,
                             .window = rows->window / sharing };
    if (!o->shuffle)
        loader->order.block = 0;
    return FAST_OK;
}

/* Everything of fast__loader_new() that can fail. */
static fast_err open_parts(fast_loader *loader, const char *augment)
{
    const fast_loader_options *o = &loader->options;
    FAST_TRY(fast__augment_parse(augment, loader->data, &loader->augment));
    if (o->shard != FAST_SHARD_SAMPLE && o->shard != FAST_SHARD_RING)
        FAST_TRY(fast__shard_own(loader->data, o, &loader->own, &loader->own_count));
    if (loader->data->rows != NULL)
        FAST_TRY(open_rows(loader));
    loader->steps = count_steps(loader);
    FAST_ASSERT(loader->steps > 0);
    FAST_TRY(fast__alloc("a sample", loader->data->features, sizeof(float), &loader->scratch));
    const int64_t slots = o->remote ? o->accumulate : o->prefetch + 1;
    FAST_TRY(fast__alloc("slots of batches", slots, sizeof(loader_slot), &loader->slots));
    loader->slot_count = slots;
    for (int64_t i = 0; i < loader->slot_count; i++)
        FAST_TRY(alloc_slot(loader, &loader->slots[i]));
    /* Last, because the thread uses everything above. */
    if (o->prefetch > 0 && !o->remote)
        FAST_TRY(
            fast__prefetch_new(make, loader, o->prefetch, prefetch_deadline_ns, &loader->prefetch));
    return FAST_OK;
}

/* Fill in defaults, check the options, then allocate every slot: making a batch allocates
 * nothing. */
fast_err fast__loader_new(const fast_data *data, const fast_loader_options *options,
                          fast_loader **out)
{
    FAST_ASSERT(data != NULL && options != NULL && out != NULL);
    fast_loader_options o = *options;
    if (o.workers == 0)
        o.workers = 1;
    if (o.accumulate == 0)
        o.accumulate = 1;
    if (o.stride == 0)
        o.stride = 1;
    FAST_ASSERT(o.offset >= 0 && o.offset < o.stride);
    o.augment = NULL;
    FAST_TRY(check_options(data, &o));
    fast_loader *loader;
    FAST_TRY(fast__alloc("a loader", 1, sizeof *loader, &loader));
    loader->data = data;
    loader->options = o;
    const fast_err err = open_parts(loader, options->augment);
    if (err) {
        fast__loader_free(loader);
        return err;
    }
    *out = loader;
    return FAST_OK;
}

/* Stop the prefetching thread first: it writes to the slots. */
void fast__loader_free(fast_loader *loader)
{
    if (loader == NULL)
        return;
    fast__prefetch_free(loader->prefetch);
    for (int64_t i = 0; i < loader->slot_count; i++) {
        const loader_slot *s = &loader->slots[i];
        fast__free(s->x);
        fast__free(s->labels);
        fast__free(s->targets);
        fast__free(s->ids);
        fast__free(s->samples);
        fast__free(s->epochs);
        fast__free(s->places);
    }
    fast__free(loader->slots);
    fast__free(loader->scratch);
    fast__free(loader->own);
    fast__free(loader->row);
    fast__free(loader);
}

int64_t fast__loader_steps(const fast_loader *loader)
{
    return loader->steps;
}

int64_t fast__loader_own(const fast_loader *loader, int64_t *batch_out)
{
    const int64_t part = loader->data->count / loader->options.workers;
    *batch_out = loader->options.batch;
    return loader->own != NULL ? loader->own_count : part > 0 ? part : 1;
}

fast_err fast__loader_get(fast_loader *loader, int64_t step, const fast_batch **out)
{
    FAST_ASSERT(loader != NULL && out != NULL);
    FAST_ASSERT(step >= 0 && step < INT64_MAX / BATCH_MAX);
    int64_t index = 0;
    if (loader->options.remote)
        index = step % loader->slot_count;
    else if (loader->prefetch != NULL)
        FAST_TRY(fast__prefetch_get(loader->prefetch, step, &index));
    else
        make(loader, step, 0);
    FAST_ASSERT(index >= 0 && index < loader->slot_count);
    const loader_slot *s = &loader->slots[index];
    FAST_ASSERT(s->batch.count <= loader->options.batch);
    if (s->err)
        return fast__fail(s->err, "%s", s->detail);
    if (loader->options.remote && s->step != step)
        return fast__fail(FAST_EINVAL, "the batch of step %lld was not fetched", (long long)step);
    *out = &s->batch;
    return FAST_OK;
}

/* Compare the sizes, then copy: a batch may come from another process. */
fast_err fast__loader_put(fast_loader *loader, int64_t step, const fast_batch *batch,
                          const size_t sizes[3])
{
    FAST_ASSERT(loader->options.remote && step >= 0);
    const fast_data *data = loader->data;
    loader_slot *s = &loader->slots[step % loader->slot_count];
    const size_t count = (size_t)batch->count;
    const size_t answer = (size_t)(data->labels != NULL ? data->positions : data->outputs) * 4;
    if (batch->count < 0 || batch->count > loader->options.batch ||
        sizes[0] != count * (size_t)data->features * sizeof(float) || sizes[1] != count * answer ||
        sizes[2] != count * sizeof(uint32_t))
        return fast__fail(FAST_EFORMAT, "a batch of %lld samples has other sizes than this set's",
                          (long long)batch->count);
    memcpy(s->x, batch->x, sizes[0]);
    if (data->labels != NULL)
        memcpy(s->labels, batch->labels, sizes[1]);
    else
        memcpy(s->targets, batch->targets, sizes[1]);
    memcpy(s->ids, batch->ids, sizes[2]);
    s->batch.count = batch->count;
    s->step = step;
    return FAST_OK;
}
