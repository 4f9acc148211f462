/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: which samples a step has, whoever asks. Method: a set whose x is the sample's number, so
 * that a batch shows its samples; batches of every worker are put together and compared with the
 * batches of one worker, with the set, with the contract's formula, and with prefetching.
 */
#include "data/loader.h"

#include "base/memory.h"
#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* `count` samples of one number, its own; labels go round. */
static fast_data *numbered(int64_t count, int64_t classes)
{
    float *x = malloc((size_t)count * sizeof *x);
    int32_t *labels = malloc((size_t)count * sizeof *labels);
    assert_true(x != NULL && labels != NULL);
    for (int64_t i = 0; i < count; i++) {
        x[i] = (float)i;
        labels[i] = (int32_t)(i * 7 % classes);
    }
    fast_data *data = NULL;
    assert_int_equal(fast_data_new(&(fast_data_options){ .count = count,
                                                         .rank = 1,
                                                         .shape = { 1 },
                                                         .x = x,
                                                         .labels = labels,
                                                         .classes = classes },
                                   &data),
                     FAST_OK);
    free(x);
    free(labels);
    return data;
}

static fast_loader *open_loader(const fast_data *data, fast_loader_options options)
{
    fast_loader *loader = NULL;
    assert_int_equal(fast__loader_new(data, &options, &loader), FAST_OK);
    return loader;
}

/* Parts of the same size are not walked in the same order. */
static void parts_are_shuffled_apart(void **state)
{
    (void)state;
    enum { COUNT = 200, BATCH = 100 };
    fast_data *data = numbered(COUNT, 10);
    float first[BATCH];
    int same = 0;
    for (int64_t k = 0; k < 2; k++) {
        fast_loader *part = open_loader(data, (fast_loader_options){ .seed = 5,
                                                                     .batch = BATCH,
                                                                     .workers = 2,
                                                                     .worker = k,
                                                                     .shard = FAST_SHARD_CONTIGUOUS,
                                                                     .shuffle = true });
        const fast_batch *batch;
        assert_int_equal(fast__loader_get(part, 0, &batch), FAST_OK);
        assert_int_equal(batch->count, BATCH);
        for (int i = 0; i < BATCH; i++) {
            if (k == 0)
                first[i] = batch->x[i];
            else
                same += batch->x[i] == first[i] + BATCH;
        }
        fast__loader_free(part);
    }
    assert_true(same < BATCH / 10);
    fast_data_free(data);
}

static void order_does_not_depend_on_workers(void **state)
{
    (void)state;
    enum { COUNT = 1000, GLOBAL = 168, EPOCHS = 3 }; /* 168 = 8 * 7 * 3 */
    fast_data *data = numbered(COUNT, 10);
    const int64_t workers[] = { 1, 2, 3, 4, 7, 8 };
    fast_loader *one =
        open_loader(data, (fast_loader_options){ .seed = 5, .batch = GLOBAL, .shuffle = true });
    const int64_t steps = fast__loader_steps(one);
    assert_int_equal(steps, COUNT / GLOBAL);
    for (size_t n = 0; n < sizeof workers / sizeof workers[0]; n++) {
        for (int64_t k = 0; k < workers[n]; k++) {
            const int64_t batch = GLOBAL / workers[n];
            fast_loader *part = open_loader(data, (fast_loader_options){ .seed = 5,
                                                                         .batch = batch,
                                                                         .workers = workers[n],
                                                                         .worker = k,
                                                                         .shuffle = true });
            assert_int_equal(fast__loader_steps(part), steps);
            for (int64_t step = 0; step < EPOCHS * steps; step++) {
                const fast_batch *whole, *mine;
                assert_int_equal(fast__loader_get(one, step, &whole), FAST_OK);
                assert_int_equal(fast__loader_get(part, step, &mine), FAST_OK);
                assert_int_equal(mine->count, batch);
                for (int64_t i = 0; i < batch; i++) {
                    assert_true(mine->x[i] == whole->x[k * batch + i]);
                    assert_int_equal(mine->labels[i], whole->labels[k * batch + i]);
                    assert_int_equal(mine->ids[i], k * batch + i);
                    assert_int_equal(mine->labels[i], (int64_t)mine->x[i] * 7 % 10);
                }
            }
            fast__loader_free(part);
        }
    }
    fast__loader_free(one);
    fast_data_free(data);
}

static void position_is_the_formula(void **state)
{
    (void)state;
    fast_data *data = numbered(103, 4);
    fast_loader *loader = open_loader(
        data,
        (fast_loader_options){ .seed = 9, .batch = 5, .workers = 3, .worker = 2, .shuffle = true });
    assert_int_equal(fast__loader_steps(loader), 6);
    const fast_batch *batch;
    assert_int_equal(fast__loader_get(loader, 2 * 6 + 4, &batch), FAST_OK);
    for (uint64_t i = 0; i < 5; i++) {
        const uint64_t want =
            fast__rng_permute(9, FAST_PURPOSE_SHUFFLE, 2, 103, (4 * 3 + 2) * 5 + i);
        assert_true(batch->x[i] == (float)want);
    }
    fast__loader_free(loader);
    fast_data_free(data);
}

/* With `partial` an epoch has every sample exactly once, shuffled or not. */
static void every_sample_once(void **state)
{
    (void)state;
    enum { COUNT = 217 };
    fast_data *data = numbered(COUNT, 10);
    for (int shuffle = 0; shuffle < 2; shuffle++) {
        for (int64_t workers = 1; workers <= 5; workers++) {
            int seen[COUNT] = { 0 };
            for (int64_t k = 0; k < workers; k++) {
                fast_loader *loader = open_loader(data, (fast_loader_options){ .seed = 1,
                                                                               .batch = 10,
                                                                               .workers = workers,
                                                                               .worker = k,
                                                                               .shuffle = shuffle,
                                                                               .partial = true });
                const int64_t steps = fast__loader_steps(loader);
                assert_int_equal(steps, (COUNT + workers * 10 - 1) / (workers * 10));
                for (int64_t step = steps; step < 2 * steps; step++) {
                    const fast_batch *batch;
                    assert_int_equal(fast__loader_get(loader, step, &batch), FAST_OK);
                    assert_in_range(batch->count, 0, 10);
                    for (int64_t i = 0; i < batch->count; i++)
                        seen[(int)batch->x[i]]++;
                    if (!shuffle && workers == 1)
                        assert_true(batch->x[0] == (float)((step - steps) * 10));
                }
                fast__loader_free(loader);
            }
            for (int i = 0; i < COUNT; i++)
                assert_int_equal(seen[i], 1);
        }
    }
    fast_data_free(data);
}

static void epochs_differ_and_seeds_differ(void **state)
{
    (void)state;
    fast_data *data = numbered(64, 2);
    fast_loader *a =
        open_loader(data, (fast_loader_options){ .seed = 1, .batch = 64, .shuffle = true });
    fast_loader *b =
        open_loader(data, (fast_loader_options){ .seed = 2, .batch = 64, .shuffle = true });
    const fast_batch *batch;
    float first[64];
    assert_int_equal(fast__loader_get(a, 0, &batch), FAST_OK);
    memcpy(first, batch->x, sizeof first);
    assert_int_equal(fast__loader_get(a, 1, &batch), FAST_OK);
    assert_memory_not_equal(first, batch->x, sizeof first);
    assert_int_equal(fast__loader_get(b, 0, &batch), FAST_OK);
    assert_memory_not_equal(first, batch->x, sizeof first);
    fast__loader_free(a);
    fast__loader_free(b);
    fast_data_free(data);
}

/* The samples that a worker owns: one pass in order. */
static int64_t own(const fast_data *data, fast_loader_options options, int *seen)
{
    options.partial = true;
    options.batch = 16;
    fast_loader *loader = open_loader(data, options);
    int64_t count = 0;
    for (int64_t step = 0; step < fast__loader_steps(loader); step++) {
        const fast_batch *batch;
        assert_int_equal(fast__loader_get(loader, step, &batch), FAST_OK);
        for (int64_t i = 0; i < batch->count; i++)
            seen[(int)batch->x[i]]++;
        count += batch->count;
    }
    fast__loader_free(loader);
    return count;
}

static void shards_are_disjoint_and_complete(void **state)
{
    (void)state;
    enum { COUNT = 501 };
    fast_data *data = numbered(COUNT, 10);
    for (int shard = FAST_SHARD_CONTIGUOUS; shard <= FAST_SHARD_DIRICHLET; shard++) {
        for (int64_t workers = 1; workers <= 9; workers += 2) {
            int seen[COUNT] = { 0 };
            for (int64_t k = 0; k < workers; k++) {
                const int64_t count = own(data,
                                          (fast_loader_options){ .seed = 3,
                                                                 .workers = workers,
                                                                 .worker = k,
                                                                 .shard = (fast_shard)shard,
                                                                 .alpha = 0.05,
                                                                 .shuffle = k % 2 == 0 },
                                          seen);
                assert_true(count > 0);
                if (shard != FAST_SHARD_DIRICHLET)
                    assert_in_range(count, COUNT / workers, COUNT / workers + 1);
            }
            for (int i = 0; i < COUNT; i++)
                assert_int_equal(seen[i], 1);
        }
    }
    fast_data_free(data);
}

/* Shard ring: a batch of worker k in epoch e is that of worker k + 1 in epoch e + 1; after an epoch
 * for each worker all workers have seen all samples. */
static void batches_move_around_a_ring(void **state)
{
    (void)state;
    enum { COUNT = 63, WORKERS = 4, BATCH = 3, STEPS = 5 };
    fast_data *data = numbered(COUNT, 3);
    int seen[WORKERS][COUNT] = { { 0 } }, last[WORKERS][STEPS][BATCH];
    for (int64_t epoch = 0; epoch <= WORKERS; epoch++) {
        int now[WORKERS][STEPS][BATCH];
        for (int64_t k = 0; k < WORKERS; k++) {
            const fast_loader_options options = { .seed = 3,
                                                  .batch = BATCH,
                                                  .workers = WORKERS,
                                                  .worker = k,
                                                  .shard = FAST_SHARD_RING,
                                                  .shuffle = true };
            fast_loader *loader = open_loader(data, options);
            assert_int_equal(fast__loader_steps(loader), STEPS);
            for (int64_t step = 0; step < STEPS; step++) {
                const fast_batch *batch;
                assert_int_equal(fast__loader_get(loader, epoch * STEPS + step, &batch), FAST_OK);
                assert_int_equal(batch->count, BATCH);
                for (int64_t i = 0; i < BATCH; i++) {
                    now[k][step][i] = (int)batch->x[i];
                    seen[k][now[k][step][i]] += epoch < WORKERS;
                }
            }
            fast__loader_free(loader);
        }
        for (int64_t k = 0; k < WORKERS && epoch > 0; k++) {
            const void *before = last[(k + WORKERS - 1) % WORKERS];
            if (epoch < WORKERS)
                assert_memory_equal(now[k], before, sizeof now[k]);
            else /* back at its first worker, which shuffles it */
                assert_memory_not_equal(now[k], before, sizeof now[k]);
        }
        memcpy(last, now, sizeof last);
    }
    for (int64_t k = 1; k < WORKERS; k++)
        assert_memory_equal(seen[k], seen[0], sizeof seen[0]);
    int samples = 0;
    for (int64_t i = 0; i < COUNT; i++) {
        assert_in_range(seen[0][i], 0, 1);
        samples += seen[0][i];
    }
    assert_int_equal(samples, WORKERS * STEPS * BATCH);
    fast_data_free(data);
}

/* Shard all: an epoch shows every worker every sample once, each in an order of its own. */
static void everyone_has_all(void **state)
{
    (void)state;
    enum { COUNT = 60 };
    fast_data *data = numbered(COUNT, 3);
    int first[2] = { 0 };
    for (int64_t worker = 0; worker < 2; worker++) {
        fast_loader *loader = open_loader(data, (fast_loader_options){ .seed = 3,
                                                                       .batch = 30,
                                                                       .workers = 9,
                                                                       .worker = worker,
                                                                       .shard = FAST_SHARD_ALL,
                                                                       .shuffle = true });
        int seen[COUNT] = { 0 };
        assert_int_equal(fast__loader_steps(loader), 2);
        for (int64_t step = 0; step < 2; step++) {
            const fast_batch *batch;
            assert_int_equal(fast__loader_get(loader, step, &batch), FAST_OK);
            for (int64_t i = 0; i < 30; i++) {
                seen[(int)batch->x[i]]++;
                if (step == 0) /* a hash of the order */
                    first[worker] = (31 * first[worker] + (int)batch->x[i]) % 1000003;
            }
        }
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(seen[i], 1);
        fast__loader_free(loader);
    }
    assert_int_not_equal(first[0], first[1]);
    fast_data_free(data);
}

/* Without `partial` a worker goes through its own part again and again: each pass complete. */
static void own_parts_go_round(void **state)
{
    (void)state;
    fast_data *data = numbered(60, 3);
    fast_loader *loader = open_loader(data, (fast_loader_options){ .seed = 3,
                                                                   .batch = 7,
                                                                   .workers = 2,
                                                                   .worker = 1,
                                                                   .shard = FAST_SHARD_CONTIGUOUS,
                                                                   .shuffle = true });
    assert_int_equal(fast__loader_steps(loader), 60 / 14);
    int seen[60] = { 0 };
    for (int64_t step = 0; step < 30; step++) { /* 210 samples: 7 passes over 30 */
        const fast_batch *batch;
        assert_int_equal(fast__loader_get(loader, step, &batch), FAST_OK);
        assert_int_equal(batch->count, 7);
        assert_int_equal(batch->ids[0], 7);
        for (int64_t i = 0; i < 7; i++)
            seen[(int)batch->x[i]]++;
    }
    for (int i = 0; i < 60; i++)
        assert_int_equal(seen[i], i < 30 ? 0 : 7);
    fast__loader_free(loader);
    fast_data_free(data);
}

static void labels_shard_is_sorted(void **state)
{
    (void)state;
    fast_data *data = numbered(100, 10);
    for (int64_t k = 0; k < 10; k++) {
        int seen[100] = { 0 };
        assert_int_equal(
            own(data,
                (fast_loader_options){ .workers = 10, .worker = k, .shard = FAST_SHARD_LABEL },
                seen),
            10);
        for (int i = 0; i < 100; i++)
            assert_int_equal(seen[i], i * 7 % 10 == k);
    }
    fast_data_free(data);
}

/* The share of a worker's largest class, averaged: 1/classes for an even split, 1 for a full
 * skew. */
static double skew(const fast_data *data, double alpha)
{
    enum { WORKERS = 10 };
    double sum = 0;
    int *seen = calloc((size_t)data->count, sizeof *seen);
    assert_non_null(seen);
    for (int64_t k = 0; k < WORKERS; k++) {
        memset(seen, 0, (size_t)data->count * sizeof *seen);
        const int64_t count = own(data,
                                  (fast_loader_options){ .seed = 11,
                                                         .workers = WORKERS,
                                                         .worker = k,
                                                         .shard = FAST_SHARD_DIRICHLET,
                                                         .alpha = alpha },
                                  seen);
        int64_t classes[10] = { 0 }, top = 0;
        for (int64_t i = 0; i < data->count; i++)
            classes[data->labels[i]] += seen[i];
        for (int c = 0; c < 10; c++)
            top = classes[c] > top ? classes[c] : top;
        sum += (double)top / (double)count;
    }
    free(seen);
    return sum / WORKERS;
}

static void dirichlet_skews(void **state)
{
    (void)state;
    fast_data *data = numbered(5000, 10);
    const double even = skew(data, 1000), some = skew(data, 1), strong = skew(data, 0.02);
    assert_true(even < 0.12);
    assert_true(some > 0.18 && some < 0.5);
    assert_true(strong > 0.7);
    fast_data_free(data);
}

static void prefetching_changes_nothing(void **state)
{
    (void)state;
    fast_data *data = numbered(500, 10);
    fast_loader_options options = { .seed = 4, .batch = 32, .shuffle = true, .augment = "noise:1" };
    fast_loader *plain = open_loader(data, options);
    for (int64_t depth = 1; depth <= 5; depth += 2) {
        options.prefetch = depth;
        fast_loader *ahead = open_loader(data, options);
        /* In order, then jumps ahead and back, the same step twice, and in order again. */
        const int64_t jumps[] = { 700, 3, 3, 4, 9, 8, 0, 1, 2, 12345, 12346 };
        for (int64_t i = 0; i < 111; i++) {
            const int64_t step = i < 100 ? i : jumps[i - 100];
            const fast_batch *a, *b;
            assert_int_equal(fast__loader_get(plain, step, &a), FAST_OK);
            assert_int_equal(fast__loader_get(ahead, step, &b), FAST_OK);
            assert_memory_equal(a->x, b->x, 32 * sizeof(float));
            assert_memory_equal(a->labels, b->labels, 32 * sizeof(int32_t));
            assert_memory_equal(a->ids, b->ids, 32 * sizeof(uint32_t));
        }
        fast__loader_free(ahead);
    }
    /* A loader that is never asked, and one that is closed while it works, end cleanly. */
    options.prefetch = 4;
    fast__loader_free(open_loader(data, options));
    fast_loader *busy = open_loader(data, options);
    const fast_batch *batch;
    assert_int_equal(fast__loader_get(busy, 0, &batch), FAST_OK);
    fast__loader_free(busy);
    fast__loader_free(plain);
    fast_data_free(data);
}

/* The change of a sample depends on epoch and sample, not on the worker that loads it. */
static void augmentation_varies_by_epoch(void **state)
{
    (void)state;
    enum { COUNT = 40 };
    fast_data *data = numbered(COUNT, 10);
    const fast_loader_options options = {
        .seed = 4, .batch = COUNT, .shuffle = true, .augment = "noise:0.1"
    };
    fast_loader *whole = open_loader(data, options);
    float noise[2][COUNT];
    const fast_batch *batch;
    for (int epoch = 0; epoch < 2; epoch++) {
        assert_int_equal(fast__loader_get(whole, epoch, &batch), FAST_OK);
        for (int i = 0; i < COUNT; i++) {
            const int sample = (int)roundf(batch->x[i]); /* the noise is small */
            noise[epoch][sample] = batch->x[i] - (float)sample;
        }
    }
    for (int i = 0; i < COUNT; i++)
        assert_true(noise[0][i] != 0 && noise[0][i] != noise[1][i]);
    for (int k = 0; k < 2; k++) {
        fast_loader_options half = options;
        half.batch = COUNT / 2;
        half.workers = 2;
        half.worker = k;
        fast_loader *loader = open_loader(data, half);
        assert_int_equal(fast__loader_get(loader, 1, &batch), FAST_OK);
        for (int i = 0; i < COUNT / 2; i++) {
            const int sample = (int)roundf(batch->x[i]);
            assert_true(batch->x[i] - (float)sample == noise[1][sample]);
        }
        fast__loader_free(loader);
    }
    fast__loader_free(whole);
    fast_data_free(data);
}

static void nothing_is_allocated_after_new(void **state)
{
    (void)state;
    fast_data *data = numbered(500, 10);
    fast_loader *loader = open_loader(
        data, (fast_loader_options){ .batch = 32, .shuffle = true, .augment = "noise:0.1" });
    const int64_t before = fast__alloc_count();
    for (int64_t step = 0; step < 50; step++) {
        const fast_batch *batch;
        assert_int_equal(fast__loader_get(loader, step, &batch), FAST_OK);
    }
    assert_int_equal(fast__alloc_count(), before);
    fast__loader_free(loader);
    fast_data_free(data);
}

static void refuse(const fast_data *data, fast_loader_options options, const char *word)
{
    fast_loader *loader = NULL;
    assert_int_equal(fast__loader_new(data, &options, &loader), FAST_EINVAL);
    assert_null(loader);
    if (strstr(fast_error_detail(), word) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", fast_error_detail(), word);
}

static void wrong_options_are_refused(void **state)
{
    (void)state;
    fast_data *data = numbered(100, 10);
    refuse(data, (fast_loader_options){ .batch = 0 }, "batch=0");
    refuse(data, (fast_loader_options){ .batch = 101 }, "does not fit in 100");
    refuse(data, (fast_loader_options){ .batch = 26, .workers = 4 }, "does not fit");
    refuse(data, (fast_loader_options){ .batch = 1, .workers = 4, .worker = 4 }, "worker 4 of 4");
    refuse(data, (fast_loader_options){ .batch = 1, .shard = FAST_SHARD_DIRICHLET }, "alpha=0");
    refuse(data, (fast_loader_options){ .batch = 1, .shard = FAST_SHARD_RING + 1 }, "no shard");
    refuse(data, (fast_loader_options){ .batch = data->count + 1, .shard = FAST_SHARD_ALL },
           "does not fit");
    refuse(data, (fast_loader_options){ .batch = 1, .prefetch = -1 }, "prefetch=-1");
    refuse(data, (fast_loader_options){ .batch = 1, .augment = "shift:2" }, "needs images");
    refuse(data, (fast_loader_options){ .batch = 1, .augment = "nois:1" }, "noise");
    refuse(data, (fast_loader_options){ .batch = 1, .augment = "noise:x" }, "noise");
    refuse(data, (fast_loader_options){ .batch = 1, .augment = "noise" }, "needs a value");
    fast_data_free(data);
}

static void out_of_memory_is_survived(void **state)
{
    (void)state;
    fast_data *data = numbered(100, 10);
    for (int shard = FAST_SHARD_SAMPLE; shard <= FAST_SHARD_RING; shard++) {
        const fast_loader_options options = { .batch = 8,
                                              .workers = 2,
                                              .shard = (fast_shard)shard,
                                              .alpha = 0.5,
                                              .prefetch = 2,
                                              .shuffle = true };
        fast_err err = FAST_ENOMEM;
        int64_t n = 0;
        for (; err != FAST_OK; n++) {
            fast_loader *loader = NULL;
            fast__alloc_fail_after(n, true);
            err = fast__loader_new(data, &options, &loader);
            fast__alloc_fail_after(-1, true);
            assert_true(err == FAST_OK || err == FAST_ENOMEM);
            assert_true((loader != NULL) == (err == FAST_OK));
            fast__loader_free(loader);
        }
        assert_true(n > 5);
    }
    fast_data_free(data);
}

/* Loaders with a stride have the micro-batches of one between them, prefetched or not. */
static void strides_deal_out_micro_batches(void **state)
{
    (void)state;
    enum { COUNT = 500, BATCH = 3, STEPS = 9 };
    fast_data *data = numbered(COUNT, 10);
    fast_loader_options options = { .seed = 5, .batch = BATCH, .accumulate = 6, .shuffle = true };
    fast_loader *one = open_loader(data, options);
    for (options.stride = 1; options.stride <= 3; options.stride++)
        for (options.offset = 0; options.offset < options.stride; options.offset++)
            for (options.prefetch = 0; options.prefetch <= 2; options.prefetch += 2) {
                fast_loader *part = open_loader(data, options);
                assert_int_equal(fast__loader_steps(part), fast__loader_steps(one));
                for (int64_t i = 0; i < 6 * STEPS / options.stride; i++) {
                    const fast_batch *whole, *mine;
                    assert_int_equal(
                        fast__loader_get(one, i * options.stride + options.offset, &whole),
                        FAST_OK);
                    assert_int_equal(fast__loader_get(part, i, &mine), FAST_OK);
                    assert_int_equal(mine->count, BATCH);
                    assert_memory_equal(mine->x, whole->x, BATCH * sizeof *mine->x);
                    assert_memory_equal(mine->ids, whole->ids, BATCH * sizeof *mine->ids);
                }
                fast__loader_free(part);
            }
    fast__loader_free(one);
    fast_data_free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_does_not_depend_on_workers),
        cmocka_unit_test(parts_are_shuffled_apart),
        cmocka_unit_test(position_is_the_formula),
        cmocka_unit_test(every_sample_once),
        cmocka_unit_test(epochs_differ_and_seeds_differ),
        cmocka_unit_test(shards_are_disjoint_and_complete),
        cmocka_unit_test(batches_move_around_a_ring),
        cmocka_unit_test(everyone_has_all),
        cmocka_unit_test(own_parts_go_round),
        cmocka_unit_test(labels_shard_is_sorted),
        cmocka_unit_test(dirichlet_skews),
        cmocka_unit_test(prefetching_changes_nothing),
        cmocka_unit_test(strides_deal_out_micro_batches),
        cmocka_unit_test(augmentation_varies_by_epoch),
        cmocka_unit_test(nothing_is_allocated_after_new),
        cmocka_unit_test(wrong_options_are_refused),
        cmocka_unit_test(out_of_memory_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
