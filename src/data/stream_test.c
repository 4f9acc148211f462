/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: shards give back what was written, in an order that is a permutation, with a cache of any
 * size and any number of threads; damaged files are refused. Method: small sets written to a
 * temporary folder and read back; every byte of the index changed; threads that read against each
 * other through a cache of two shards.
 */
#include "base/file.h"
#include "base/folder_fixture.h"
#include "base/rng.h"
#include "base/thread.h"
#include "data/data_fixture.h"
#include "data/loader.h"
#include "data/stream_cache.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", root, name);
    return path;
}

/* Write a set as shards; FAST_OK expected. */
static void write_shards(const char *data, const char *size, const char *order,
                         const char *compression)
{
    char text[5][128];
    snprintf(text[0], 128, "data=%s", data);
    snprintf(text[1], 128, "out=%s", root);
    snprintf(text[2], 128, "size=%s", size);
    snprintf(text[3], 128, "order=%s", order);
    snprintf(text[4], 128, "compression=%s", compression);
    const char *const options[] = { text[0], text[1], text[2], text[3], text[4], NULL };
    fast_shards_result result;
    remove(path_of("index.json"));
    if (fast_shards_write(options, &result) != FAST_OK)
        fail_msg("%s", fast_error_detail());
    assert_true(result.train > 0 && result.shards > 0 && result.bytes > 0);
}

static const char *spec(const char *more)
{
    static char text[FIXTURE_SPEC];
    snprintf(text, sizeof text, "shards:dir=%s%s", root, more);
    return text;
}

/* Order. */

static void windows_are_permutations(void **state)
{
    (void)state;
    const int sizes[][3] = { { 1, 1, 1 },  { 10, 3, 1 },   { 10, 3, 2 },
                             { 10, 5, 1 }, { 64, 8, 3 },   { 65, 8, 3 },
                             { 7, 10, 1 }, { 100, 7, 14 }, { 100, 7, 15 } };
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        const fast_window_order order = { sizes[k][0], sizes[k][1], sizes[k][2] };
        const int64_t span = order.block * order.window;
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            int seen[128] = { 0 };
            for (int64_t i = 0; i < order.count; i++) {
                const int64_t sample = fast__window_sample(&order, 5, epoch, i);
                assert_in_range(sample, 0, order.count - 1);
                seen[sample]++;
                /* It is in a block of its window. */
                bool found = false;
                for (int64_t p = i / span * order.window;
                     p < (i / span + 1) * order.window && p * order.block < order.count; p++)
                    found =
                        found || fast__window_block(&order, 5, epoch, p) == sample / order.block;
                assert_true(found || fast__window_count(&order) == 1);
            }
            for (int64_t i = 0; i < order.count; i++)
                assert_int_equal(seen[i], 1);
        }
    }
    /* Passes and seeds differ. */
    const fast_window_order order = { 100, 10, 3 };
    int same = 0, other = 0;
    for (int64_t i = 0; i < 100; i++) {
        same += fast__window_sample(&order, 5, 0, i) == fast__window_sample(&order, 5, 1, i);
        other += fast__window_sample(&order, 5, 0, i) == fast__window_sample(&order, 6, 0, i);
    }
    assert_true(same < 30 && other < 30);
}

/* Sets. */

/* Compare all samples and answers of two sets that have the same order. */
static void expect_equal(const fast_data *a, const fast_data *b)
{
    static uint8_t x[1 << 14], y[1 << 14];
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->features, b->features);
    assert_int_equal(a->dtype, b->dtype);
    assert_int_equal(a->tokens, b->tokens);
    assert_int_equal(a->vocabulary, b->vocabulary);
    assert_true(fast__data_row_size(a) <= sizeof x);
    for (int64_t i = 0; i < a->count; i++) {
        assert_int_equal(fast__data_row(a, i, x), FAST_OK);
        assert_int_equal(fast__data_row(b, i, y), FAST_OK);
        assert_memory_equal(x, y, fast__data_row_size(a));
    }
    assert_memory_equal(a->mean, b->mean, (size_t)a->channels * sizeof(float));
    assert_memory_equal(a->scale, b->scale, (size_t)a->channels * sizeof(float));
    assert_true(a->target_mean == b->target_mean && a->target_scale == b->target_scale);
    if (a->labels != NULL)
        assert_memory_equal(a->labels, b->labels, (size_t)(a->count * a->positions) * 4);
    else
        assert_memory_equal(a->targets, b->targets, (size_t)(a->count * a->outputs) * 4);
}

static void every_kind_of_set_comes_back(void **state)
{
    (void)state;
    const char *const sets[] = { "digits:train=50,test=20,normalize=standard",
                                 "spirals:train=60,test=30", "linear:train=40,test=20",
                                 "copy:train=30,test=20" };
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        fast_data *a, *a_test, *b, *b_test;
        open_well(sets[i], &a, &a_test);
        write_shards(sets[i], "4k", "set", "none");
        open_well(spec(",cache=12k"), &b, &b_test);
        expect_equal(a, b);
        expect_equal(a_test, b_test);
        fast_data_free(a);
        fast_data_free(a_test);
        fast_data_free(b);
        fast_data_free(b_test);
    }
}

/* Predictions are on the scale of the source: its constants come back with the targets. */
static void standardised_targets_come_back(void **state)
{
    (void)state;
    char table[160];
    fast_data *a, *a_test, *b, *b_test;
    FILE *file = fopen(path_of("houses.csv"), "w");
    assert_non_null(file);
    fprintf(file, "area,worth\n");
    for (int i = 0; i < 50; i++)
        fprintf(file, "%d.5,%d.25\n", i, 100000 + 3000 * i);
    assert_int_equal(fclose(file), 0);
    snprintf(table, sizeof table, "csv:file=%s", path_of("houses.csv"));
    open_well(table, &a, &a_test);
    assert_true(a->target_scale < 0.01F);
    write_shards(table, "4k", "set", "none");
    open_well(spec(""), &b, &b_test);
    expect_equal(a, b);
    expect_equal(a_test, b_test);
    fast_data_free(a);
    fast_data_free(a_test);
    fast_data_free(b);
    fast_data_free(b_test);
}

static void a_large_cache_gives_the_order_of_memory(void **state)
{
    (void)state;
    fast_data *a, *a_test, *b, *b_test;
    const char *const compressions[] = { "none", "zstd" };
    open_well("digits:train=200,test=20", &a, &a_test);
    for (int k = 0; k < 2; k++) {
        fast_loader *la, *lb;
        const fast_loader_options options = {
            .seed = 3, .batch = 16, .workers = 2, .worker = 1, .shuffle = true, .prefetch = 2 * k
        };
        write_shards("digits:train=200,test=20", "10k", "set", compressions[k]);
        open_well(spec(""), &b, &b_test);
        assert_int_equal(fast__loader_new(a, &options, &la), FAST_OK);
        assert_int_equal(fast__loader_new(b, &options, &lb), FAST_OK);
        for (int64_t step = 0; step < 20; step++) {
            const fast_batch *x, *y;
            assert_int_equal(fast__loader_get(la, step, &x), FAST_OK);
            assert_int_equal(fast__loader_get(lb, step, &y), FAST_OK);
            assert_memory_equal(x->x, y->x, 16 * 784 * sizeof(float));
            assert_memory_equal(x->labels, y->labels, 16 * sizeof(int32_t));
        }
        fast__loader_free(la);
        fast__loader_free(lb);
        fast_data_free(b);
        fast_data_free(b_test);
    }
    fast_data_free(a);
    fast_data_free(a_test);
}

/* Count how often an epoch of `workers` has each label; the sum over all is the epoch's samples. */
static void count_labels(const fast_data *data, fast_shard shard, int64_t workers, int64_t *counts)
{
    for (int64_t w = 0; w < workers; w++) {
        fast_loader *loader;
        const fast_loader_options options = {
            .seed = 9, .batch = 5, .workers = workers, .worker = w, .shard = shard, .shuffle = true
        };
        const fast_err err = fast__loader_new(data, &options, &loader);
        if (err)
            fail_msg("%s", fast_error_detail());
        for (int64_t step = 0; step < fast__loader_steps(loader); step++) {
            const fast_batch *batch;
            assert_int_equal(fast__loader_get(loader, step, &batch), FAST_OK);
            for (int64_t i = 0; i < batch->count; i++)
                counts[batch->labels[i]]++;
        }
        fast__loader_free(loader);
    }
}

static void small_caches_deliver_every_sample(void **state)
{
    (void)state;
    fast_data *data, *test;
    write_shards("digits:train=200,test=20", "8k", "random", "none");
    int64_t want[10] = { 0 };
    for (int k = 0; k < 3; k++) {
        const char *const caches[] = { ",cache=16k", ",cache=33k,readers=3", ",cache=64k" };
        open_well(spec(caches[k]), &data, &test);
        int64_t counts[10] = { 0 };
        for (int64_t i = 0; i < data->count && k == 0; i++)
            want[data->labels[i]]++;
        count_labels(data, FAST_SHARD_SAMPLE, 4, counts);
        assert_memory_equal(counts, want, sizeof want);
        if (k == 2) {
            /* 20 shards of 10 samples: 10 for each of two workers. */
            memset(counts, 0, sizeof counts);
            count_labels(data, FAST_SHARD_CONTIGUOUS, 2, counts);
            assert_memory_equal(counts, want, sizeof want);
        }
        fast_data_free(data);
        fast_data_free(test);
    }
}

static void options_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    fast_data *data, *test;
    fast_loader *loader;
    fast_shards_result result;
    open_badly("shards", FAST_EINVAL, "shards:dir=PATH", 1 << 16);
    open_badly("shards:dir=/nowhere", FAST_ENOENT, "/nowhere", 1 << 16);
    write_shards("digits:train=200,test=20", "8k", "random", "none");
    open_badly(spec(",cache=8k"), FAST_EINVAL, "2 shards of 7840 bytes", 1 << 16);
    open_badly(spec(",cache=20k,window=5"), FAST_EINVAL, "window=5", 1 << 16);
    open_well(spec(",cache=24k"), &data, &test);
    fast_loader_options options = {
        .batch = 5, .workers = 2, .shard = FAST_SHARD_CONTIGUOUS, .shuffle = true
    };
    assert_int_equal(fast__loader_new(data, &options, &loader), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "raise cache"));
    options.shard = FAST_SHARD_LABEL;
    assert_int_equal(fast__loader_new(data, &options, &loader), FAST_EINVAL);
    assert_int_equal(fast__data_hold_out(0.1, &data, &test), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "holdout=0.1"));
    fast_data_free(data);
    fast_data_free(test);
    char out[128];
    snprintf(out, sizeof out, "out=%s", root);
    assert_int_equal(fast_shards_write((const char *const[]){ "data=digits", out, NULL }, &result),
                     FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "has shards already"));
    assert_int_equal(fast_shards_write((const char *const[]){ "data=digits", NULL }, &result),
                     FAST_EINVAL);
    assert_int_equal(fast_shards_write((const char *const[]){ "bytes=3", NULL }, &result),
                     FAST_EINVAL);
    assert_int_equal(fast_shards_write((const char *const[]){ "size", NULL }, &result),
                     FAST_EINVAL);
}

/* Change one byte of a file; return the old one. */
static uint8_t change(const char *name, off_t at, uint8_t to)
{
    uint8_t old;
    const int fd = open(path_of(name), O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &old, 1, at), 1);
    assert_int_equal(pwrite(fd, &to, 1, at), 1);
    close(fd);
    return old;
}

static void damaged_shards_end_the_run(void **state)
{
    (void)state;
    fast_data *data, *test;
    uint8_t row[784];
    for (int k = 0; k < 2; k++) {
        write_shards("digits:train=40,test=20", "8k", "random", k == 0 ? "none" : "zstd");
        const uint8_t old = change("train-000002.shard", 100, 0);
        change("train-000002.shard", 100, (uint8_t)(old + 1));
        open_well(spec(",cache=24k"), &data, &test);
        assert_int_equal(fast__data_row(data, 5, row), FAST_OK);
        assert_int_equal(fast__data_row(data, 25, row), FAST_EFORMAT);
        assert_non_null(strstr(fast_error_detail(), "train-000002.shard is damaged"));
        /* The error stays, and a loader says it. */
        assert_int_equal(fast__data_row(data, 5, row), FAST_EFORMAT);
        fast_loader *loader;
        const fast_batch *batch;
        assert_int_equal(
            fast__loader_new(data, &(fast_loader_options){ .batch = 4, .prefetch = 1 }, &loader),
            FAST_OK);
        assert_int_equal(fast__loader_get(loader, 0, &batch), FAST_EFORMAT);
        assert_non_null(strstr(fast_error_detail(), "train-000002.shard is damaged"));
        fast__loader_free(loader);
        fast_data_free(data);
        fast_data_free(test);
        change("train-000002.shard", 100, old);
        assert_int_equal(truncate(path_of("train-000001.shard"), 99), 0);
        open_well(spec(",cache=24k"), &data, &test);
        assert_int_equal(fast__data_row(data, 15, row), FAST_EFORMAT);
        assert_non_null(strstr(fast_error_detail(), "has 99 bytes"));
        fast_data_free(data);
        fast_data_free(test);
        change("train.answers", 5, 0xff);
        open_badly(spec(",cache=24k"), FAST_EFORMAT, "train.answers is damaged", 1 << 16);
        assert_int_equal(truncate(path_of("train.answers"), 8), 0);
        open_badly(spec(",cache=24k"), FAST_EFORMAT, "another size", 1 << 16);
    }
}

static void hostile_indexes_are_refused(void **state)
{
    (void)state;
    char *text;
    size_t size;
    write_shards("copy:train=20,test=10", "8k", "random", "none");
    assert_int_equal(fast__file_read(path_of("index.json"), 1 << 20, &text, &size), FAST_OK);
    const char letters[] = "0\"]9-";
    for (size_t i = 0; i < size; i++) {
        for (size_t k = 0; k < sizeof letters - 1; k++) {
            change("index.json", (off_t)i, (uint8_t)letters[k]);
            fast_data *train = NULL, *test = NULL;
            fast__alloc_largest();
            const fast_err err = fast__data_open(spec(",cache=64k"), 1, &train, &test, NULL);
            assert_true(err == FAST_OK || err == FAST_EFORMAT || err == FAST_EINVAL ||
                        err == FAST_ENOENT);
            assert_true(fast__alloc_largest() <= 1 << 17);
            fast_data_free(train);
            fast_data_free(test);
        }
        change("index.json", (off_t)i, (uint8_t)text[i]);
    }
    fast__free(text);
}

static void tokens_of_shards_are_checked(void **state)
{
    (void)state;
    fast_data *data, *test;
    float row[1024];
    /* A vocabulary that is too small for the tokens, in an index that is valid otherwise. */
    write_shards("copy:train=20,test=10", "8k", "random", "none");
    char *text;
    size_t size;
    assert_int_equal(fast__file_read(path_of("index.json"), 1 << 20, &text, &size), FAST_OK);
    char *at = strstr(text, "\"vocabulary\": ");
    assert_non_null(at);
    at += strlen("\"vocabulary\": ");
    change("index.json", at - text, '1');
    if (at[1] != ',')
        change("index.json", at - text + 1, ' ');
    fast__free(text);
    open_well(spec(",cache=64k"), &data, &test);
    assert_int_equal(fast__data_row(data, 0, row), FAST_EFORMAT);
    assert_non_null(strstr(fast_error_detail(), "token"));
    fast_data_free(data);
    fast_data_free(test);
}

/* Threads. */

typedef struct test_reader {
    const fast_data *data;
    uint64_t seed;
    fast_thread thread;
    int64_t wrong; /* samples that are not what they should be */
} test_reader;

enum { THREADS = 4, READS = 3000 };

/* Read samples at random, in windows that differ from thread to thread. */
static void *read_samples(void *ctx)
{
    test_reader *self = ctx;
    fast_rng rng;
    fast__rng_init(&rng, self->seed, FAST_PURPOSE_TEST, 0, 0, 0);
    for (int i = 0; i < READS; i++) {
        float row[8];
        const int64_t sample = (int64_t)fast__rng_below(&rng, (uint64_t)self->data->count);
        const int64_t other = (int64_t)fast__rng_below(&rng, (uint64_t)self->data->count);
        self->data->rows->ops->expect(self->data->rows, other, i / 10 + 1);
        const fast_err err = self->data->rows->ops->read(self->data->rows, sample, i / 10, row);
        self->wrong += err != FAST_OK || row[0] != (float)sample;
    }
    return NULL;
}

static void threads_share_a_cache(void **state)
{
    (void)state;
    fast_data *data, *test;
    test_reader readers[THREADS];
    /* Sample i is the number i. */
    const char *csv = path_of("numbers.csv");
    FILE *file = fopen(csv, "w");
    for (int i = 0; i < 200; i++)
        fprintf(file, "%d,%d\n", i, i % 3);
    fclose(file);
    char set[256];
    snprintf(set, sizeof set, "csv:file=%s,normalize=none,test_fraction=0", csv);
    write_shards(set, "40", "set", "none");
    open_well(spec(",cache=80,readers=2"), &data, &test);
    for (int i = 0; i < THREADS; i++) {
        readers[i] = (test_reader){ .data = data, .seed = (uint64_t)i };
        assert_int_equal(fast__thread_start(&readers[i].thread, read_samples, &readers[i]),
                         FAST_OK);
    }
    for (int i = 0; i < THREADS; i++) {
        fast__thread_join(&readers[i].thread);
        assert_int_equal(readers[i].wrong, 0);
    }
    fast_data_free(data);
    fast_data_free(test);
}

static void shards_open_without_memory(void **state)
{
    (void)state;
    write_shards("digits:train=40,test=20", "8k", "random", "zstd");
    open_without_memory(spec(",cache=30k"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_root, drop_root)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_are_permutations), TEST(every_kind_of_set_comes_back),
        TEST(standardised_targets_come_back),       TEST(a_large_cache_gives_the_order_of_memory),
        TEST(small_caches_deliver_every_sample),    TEST(options_that_do_not_fit_are_refused),
        TEST(damaged_shards_end_the_run),           TEST(hostile_indexes_are_refused),
        TEST(tokens_of_shards_are_checked),         TEST(threads_share_a_cache),
        TEST(shards_open_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
