/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shards on disk as a data set: samples are read through a bounded cache (stream_cache.c) when a
 * batch is made, answers are in memory.
 *
 * The window is half of the cache: one half is used while the other half is read. If all shards fit
 * the window is the whole set, and the batches are those of the set in memory, to the bit. One slot
 * of the cache is for the test set, which is read in order.
 */
#include "base/hash.h"
#include "base/memory.h"
#include "data/byte_reader.h"
#include "data/make.h"
#include "data/stream_cache.h"

#include <stdio.h>
#include <string.h>

typedef struct shards_config {
    char dir[FAST_PATH_MAX]; /* the folder */
    int64_t cache;           /* bytes of samples in memory at most */
    int64_t window;          /* shards that are shuffled together; 0: by the cache */
    int64_t readers;         /* threads that read */
} shards_config;

static const fast_option shards_options[] = {
    FAST_OPT_TEXT(shards_config, dir, "", NULL, "folder that fast shard wrote"),
    FAST_OPT_INT(shards_config, cache, "256Mi", 1, 1e15,
                 "bytes of samples in memory at most, as in 64Mi"),
    FAST_OPT_INT(shards_config, window, "0", 0, 1e9,
                 "shards that are shuffled together; 0: half of the cache"),
    FAST_OPT_INT(shards_config, readers, "1", 1, 16, "threads that read shards ahead"),
    FAST_OPT_END,
};

/* The samples of one part. */
typedef struct stream_samples {
    fast_rows base;           /* the contract */
    fast_stream_cache *cache; /* shared by both parts */
    int64_t first;            /* number of the part's first shard */
    int64_t rows;             /* samples of a shard */
} stream_samples;

/* Find the shard of a sample. */
static fast_err samples_read(fast_rows *rows, int64_t sample, int64_t when, void *out)
{
    const stream_samples *self = (const stream_samples *)rows;
    return fast__stream_cache_read(self->cache, self->first + sample / self->rows,
                                   sample % self->rows, when, out);
}

/* Announce the shard of a sample. */
static void samples_expect(fast_rows *rows, int64_t sample, int64_t when)
{
    const stream_samples *self = (const stream_samples *)rows;
    fast__stream_cache_expect(self->cache, self->first + sample / self->rows, when);
}

/* One owner less of the cache. */
static void samples_free(fast_rows *rows)
{
    stream_samples *self = (stream_samples *)rows;
    fast__stream_cache_free(self->cache);
    fast__free(self);
}

static const fast_rows_ops samples_ops = { .read = samples_read,
                                           .expect = samples_expect,
                                           .free = samples_free };

/* Hash of the checksums of all files of a part. */
static uint64_t hash_part(const fast_stream_part *part)
{
    uint64_t hash = fast__hash(&part->answers, sizeof part->answers, (uint64_t)part->count);
    for (int64_t i = 0; i < part->shards; i++)
        hash = fast__hash(&part->files[i].hash, sizeof part->files[i].hash, hash);
    return hash;
}

/* Choose how many shards are shuffled together. */
static fast_err choose_window(const shards_config *c, const fast_stream_cache *cache, int64_t *out)
{
    const fast_stream_index *index = fast__stream_cache_index(cache);
    const int64_t slots = fast__stream_cache_slots(cache);
    const int64_t tests = index->part[1].shards > 0 ? 1 : 0;
    int64_t window = (slots - tests) / 2;
    if (slots - tests >= index->part[0].shards)
        window = index->part[0].shards;
    if (c->window > slots)
        return fast__fail(FAST_EINVAL,
                          "window=%lld shards do not fit: the cache holds %lld; raise cache",
                          (long long)c->window, (long long)slots);
    *out = c->window > 0 ? c->window : window > 0 ? window : 1;
    return FAST_OK;
}

/* Read the answers of a part. */
static fast_err read_answers(const char *dir, int part, const fast_stream_file *file,
                             fast_data *data)
{
    char name[FAST_STREAM_NAME_MAX], path[FAST_PATH_MAX + FAST_STREAM_NAME_MAX];
    fast_byte_reader reader;
    void *answers = data->labels != NULL ? (void *)data->labels : (void *)data->targets;
    fast__stream_name(part, -1, name);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FAST_TRY(fast__reader_open(path, &reader));
    fast_err err = FAST_OK;
    if (reader.inflate != NULL || reader.bound != file->size)
        err = fast__fail(FAST_EFORMAT, "%s has another size than its index says", path);
    if (!err)
        err = fast__reader_read(&reader, answers, file->size);
    fast__reader_close(&reader);
    if (!err && fast__hash(answers, (size_t)file->size, 0) != file->hash)
        err =
            fast__fail(FAST_EFORMAT, "%s is damaged: its checksum is not that of the index", path);
    return err;
}

/* Refuse counts that the file of answers does not have, before memory is taken for them: four bytes
 * an answer are on disk for each that is in memory. */
static fast_err check_answers(const char *dir, int part, const fast_stream_file *file)
{
    char name[FAST_STREAM_NAME_MAX], path[FAST_PATH_MAX + FAST_STREAM_NAME_MAX];
    fast_byte_reader reader;
    fast__stream_name(part, -1, name);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FAST_TRY(fast__reader_open(path, &reader));
    const bool same = reader.inflate != NULL || reader.bound == file->size;
    fast__reader_close(&reader);
    if (!same)
        return fast__fail(FAST_EFORMAT, "%s has another size than its index says", path);
    return FAST_OK;
}

/* Make the set of one part: form and texts of the index, answers of their file, samples in the
 * cache. The set owns its share of the cache from the moment that it is made. */
static fast_err make_part(const shards_config *c, fast_stream_cache *cache, int part,
                          fast_data **out)
{
    const fast_stream_index *index = fast__stream_cache_index(cache);
    stream_samples *samples;
    fast_data like = index->form;
    fast_data *data;
    like.count = index->part[part].count;
    FAST_TRY(fast__alloc("shards of a set", 1, sizeof *samples, &samples));
    *samples = (stream_samples){ .base = { .ops = &samples_ops,
                                           .block = index->rows,
                                           .hash = hash_part(&index->part[part]) },
                                 .cache = cache,
                                 .first = part == 0 ? 0 : index->part[0].shards,
                                 .rows = index->rows };
    like.rows = &samples->base;
    fast_err err = choose_window(c, cache, &samples->base.window);
    if (!err)
        err = fast__data_make(&like, &data);
    if (err) {
        fast__free(samples);
        return err;
    }
    fast__stream_cache_share(cache);
    memcpy(data->mean, index->form.mean, (size_t)data->channels * sizeof(float));
    memcpy(data->scale, index->form.scale, (size_t)data->channels * sizeof(float));
    err = fast__data_copy_texts(&index->form, data);
    if (!err)
        err = read_answers(c->dir, part, &index->part[part].answers, data);
    if (err) {
        fast_data_free(data);
        return err;
    }
    *out = data;
    return FAST_OK;
}

/* Read the index and make the cache. */
static fast_err open_cache(const shards_config *c, fast_stream_cache **out)
{
    fast_stream_index index;
    FAST_TRY(fast__stream_index_read(c->dir, &index));
    for (int p = 0; p < 2; p++) {
        const fast_err err =
            index.part[p].count > 0 ? check_answers(c->dir, p, &index.part[p].answers) : FAST_OK;
        if (err) {
            fast__stream_index_fini(&index);
            return err;
        }
    }
    const fast_stream_options options = { .folder = c->dir,
                                          .cache = c->cache,
                                          .readers = c->readers };
    return fast__stream_cache_new(&options, &index, out);
}

/* Read the index, make the cache, then both sets on it. */
static fast_err shards_open(const void *config, uint64_t seed, fast_data **train_out,
                            fast_data **test_out)
{
    (void)seed;
    const shards_config *c = config;
    fast_stream_cache *cache;
    fast_data *train = NULL, *test = NULL;
    if (c->dir[0] == 0)
        return fast__fail(FAST_EINVAL, "data shards needs a folder: shards:dir=PATH");
    FAST_TRY(open_cache(c, &cache));
    fast_err err = make_part(c, cache, 0, &train);
    if (!err && fast__stream_cache_index(cache)->part[1].count > 0)
        err = make_part(c, cache, 1, &test);
    fast__stream_cache_free(cache);
    if (err) {
        fast_data_free(train);
        return err;
    }
    return fast__data_finish(FAST_NORMALIZE_NONE, &train, &test, train_out, test_out);
}

const fast_data_kind fast__data_shards = {
    .name = "shards",
    .summary = "shards on disk, streamed through a bounded cache; fast shard writes them",
    .options = shards_options,
    .config_size = sizeof(shards_config),
    .open = shards_open,
};
