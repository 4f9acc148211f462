/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing shards of any data set (the format is in stream_index.h).
 *
 * Samples are written in a random order, by default, so that every shard is a fair sample of the
 * set: training shuffles shards and windows of shards, and a set that is sorted by class would stay
 * sorted in parts. Memory: the data set, or, if its samples are not in memory (folder with
 * decode=batch), one shard and the answers. Each file is replaced as a whole, so that a writer that
 * is interrupted leaves no half file. The index is written last: a folder without one is no
 * set.
 */
#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/rng.h"
#include "data/data.h"
#include "data/stream_index.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifdef FAST_HAVE_ZSTD
#include <zstd.h>
#endif

enum { ZSTD_LEVEL = 3, ORDER_RANDOM = 0, COMPRESSION_NONE = 0 };

/* How shards are written. */
typedef struct shards_plan {
    char data[FAST_PATH_MAX]; /* the set */
    char out[FAST_PATH_MAX];  /* the folder */
    int64_t size;             /* bytes of a shard before compression */
    int order;                /* random, or that of the set */
    int compression;          /* none, zstd */
    int64_t seed;             /* of the order, and of synthetic sets */
} shards_plan;

static const fast_option plan_options[] = {
    FAST_OPT_TEXT(shards_plan, data, "", "data", "the set to write, with its options"),
    FAST_OPT_TEXT(shards_plan, out, "", "file", "folder to write to; made if it does not exist"),
    FAST_OPT_INT(shards_plan, size, "8Mi", 1, 1e12, "bytes of a shard before compression"),
    FAST_OPT_CHOICE(shards_plan, order, "random", "random|set",
                    "order of the training samples: shuffled once, or that of the set"),
    FAST_OPT_CHOICE(shards_plan, compression, "none", "none|zstd", "of shards on disk"),
    FAST_OPT_INT(shards_plan, seed, "1", 0, 1e15, "draws that order, and synthetic sets"),
    FAST_OPT_END,
};

const fast_part fast__shard_part = { .name = "shard",
                                     .summary = "write a data set as shards",
                                     .options = plan_options };

/* Bytes that fast__file_replace() writes. */
typedef struct write_bytes {
    const void *bytes; /* all of the file */
    size_t size;       /* number of bytes */
} write_bytes;

/* Write them all. */
static fast_err put_bytes(void *ctx, void *stream)
{
    const write_bytes *w = ctx;
    return fast__file_put(stream, w->bytes, w->size);
}

/* The work on one part. */
typedef struct write_work {
    const shards_plan *plan; /* the caller's options */
    const fast_data *data;   /* the part */
    fast_stream_part *part;  /* its rows in the index */
    int number;              /* 0: training set, 1: test set */
    int64_t rows;            /* samples of a shard */
    uint8_t *plain;          /* one shard */
    uint8_t *packed;         /* one shard compressed; NULL: they stay plain */
    size_t packed_room;      /* bytes of `packed` */
    int64_t bytes;           /* written so far */
} write_work;

/* Write a file of the folder, and enter it in the index. */
static fast_err write_file(write_work *w, int64_t shard, const void *bytes, size_t size,
                           fast_stream_file *file)
{
    char name[FAST_STREAM_NAME_MAX], path[FAST_PATH_MAX + FAST_STREAM_NAME_MAX];
    fast__stream_name(w->number, shard, name);
    snprintf(path, sizeof path, "%s/%s", w->plan->out, name);
    *file = (fast_stream_file){ .size = (int64_t)size, .hash = fast__hash(bytes, size, 0) };
    w->bytes += (int64_t)size;
    return fast__file_replace(path, put_bytes, &(write_bytes){ bytes, size });
}

/* Return the sample at place `i` of the files. The test set stays in order: evaluation reads it
 * from the start to the end. */
static int64_t sample_at(const write_work *w, int64_t i)
{
    if (w->plan->order != ORDER_RANDOM || w->number == 1)
        return i;
    return (int64_t)fast__rng_permute((uint64_t)w->plan->seed, FAST_PURPOSE_SYNTHETIC, 1,
                                      (uint64_t)w->data->count, (uint64_t)i);
}

/* Write one shard: gather its samples from wherever the set has them, compress them if that is
 * wanted, write. */
static fast_err write_shard(write_work *w, int64_t shard)
{
    const size_t row = fast__data_row_size(w->data);
    const int64_t first = shard * w->rows;
    const int64_t left = w->data->count - first;
    const int64_t count = left < w->rows ? left : w->rows;
    const void *bytes = w->plain;
    size_t size = (size_t)count * row;
    for (int64_t i = 0; i < count; i++)
        FAST_TRY(fast__data_row(w->data, sample_at(w, first + i), w->plain + (size_t)i * row));
#ifdef FAST_HAVE_ZSTD
    if (w->packed != NULL) {
        const size_t packed = ZSTD_compress(w->packed, w->packed_room, w->plain, size, ZSTD_LEVEL);
        if (ZSTD_isError(packed))
            return fast__fail(FAST_ENOMEM, "cannot compress a shard: %s",
                              ZSTD_getErrorName(packed));
        bytes = w->packed;
        size = packed;
    }
#endif
    return write_file(w, shard, bytes, size, &w->part->files[shard]);
}

/* Write the answers, in the order of the samples. */
static fast_err write_answers(write_work *w)
{
    const fast_data *data = w->data;
    const int64_t each = data->labels != NULL ? data->positions : data->outputs;
    const char *from =
        data->labels != NULL ? (const char *)data->labels : (const char *)data->targets;
    const size_t size = (size_t)each * 4;
    char *bytes;
    FAST_TRY(fast__alloc("answers", data->count, size, &bytes));
    for (int64_t i = 0; i < data->count; i++)
        memcpy(bytes + (size_t)i * size, from + (size_t)sample_at(w, i) * size, size);
    const fast_err err = write_file(w, -1, bytes, (size_t)data->count * size, &w->part->answers);
    fast__free(bytes);
    return err;
}

/* Write all files of a part. */
static fast_err write_part(write_work *w)
{
    w->part->count = w->data->count;
    w->part->shards = (w->data->count + w->rows - 1) / w->rows;
    FAST_TRY(fast__alloc("an index of shards", w->part->shards, sizeof *w->part->files,
                         &w->part->files));
    for (int64_t i = 0; i < w->part->shards; i++)
        FAST_TRY(write_shard(w, i));
    return write_answers(w);
}

/* Allocate one shard, and room to compress it. */
static fast_err alloc_buffers(write_work *w, size_t row)
{
    FAST_TRY(fast__alloc("a shard", w->rows, row, &w->plain));
    if (w->plan->compression == COMPRESSION_NONE)
        return FAST_OK;
#ifdef FAST_HAVE_ZSTD
    w->packed_room = ZSTD_compressBound((size_t)w->rows * row);
    return fast__alloc("a compressed shard", (int64_t)w->packed_room, 1, &w->packed);
#else
    return fast__fail(FAST_ENOTSUP,
                      "this build cannot compress shards; install libzstd-dev and build again");
#endif
}

/* Write both parts and the index. A shard has as many samples as fit into its bytes, at least one;
 * both parts have the same number, so that one cache serves both. */
static fast_err write_all(const shards_plan *plan, const fast_data *train, const fast_data *test,
                          fast_stream_index *index, fast_shards_result *result)
{
    const size_t row = fast__data_row_size(train);
    write_work w = { .plan = plan, .rows = plan->size / (int64_t)row };
    if (w.rows < 1)
        w.rows = 1;
    if (w.rows > train->count)
        w.rows = train->count;
    FAST_TRY(fast__data_copy_texts(train, &index->form));
    index->rows = w.rows;
    index->compressed = plan->compression != COMPRESSION_NONE;
    fast_err err = alloc_buffers(&w, row);
    for (int i = 0; i < 2 && !err; i++) {
        w.number = i;
        w.data = i == 0 ? train : test;
        w.part = &index->part[i];
        if (w.data != NULL)
            err = write_part(&w);
    }
    if (!err)
        err = fast__stream_index_write(plan->out, index);
    fast__free(w.plain);
    fast__free(w.packed);
    *result = (fast_shards_result){ .train = train->count,
                                    .test = test != NULL ? test->count : 0,
                                    .shards = index->part[0].shards + index->part[1].shards,
                                    .bytes = w.bytes };
    return err;
}

/* Make the folder; refuse one that has shards, since a run may be streaming them just now. Shards
 * without an index, of a writer that was interrupted, are replaced. */
static fast_err make_folder(const char *folder)
{
    char path[FAST_PATH_MAX + 16];
    if (strlen(folder) >= FAST_PATH_MAX - 1)
        return fast__fail(FAST_EINVAL, "the name of the folder is too long");
    snprintf(path, sizeof path, "%s/index.json", folder);
    if (access(path, F_OK) == 0)
        return fast__fail(FAST_EINVAL, "%s has shards already; name another folder", folder);
    return fast__file_make_folder(folder);
}

/* Read "name=value", ..., NULL. */
static fast_err read_plan(const char *const *options, shards_plan *plan)
{
    fast__options_default(plan_options, plan);
    for (; options != NULL && *options != NULL; options++) {
        char name[64];
        const char *equal = strchr(*options, '=');
        const int length = equal != NULL ? (int)(equal - *options) : 0;
        if (equal == NULL || length >= (int)sizeof name)
            return fast__fail(FAST_EINVAL, "shard: \"%s\" is not name=value", *options);
        snprintf(name, sizeof name, "%.*s", length, *options);
        FAST_TRY(fast__options_set("shard", plan_options, plan, name, equal + 1));
    }
    if (plan->data[0] == 0 || plan->out[0] == 0)
        return fast__fail(FAST_EINVAL, "shard needs data to write and a folder to write to: %s",
                          plan->data[0] == 0 ? "data is missing" : "out is missing");
    return FAST_OK;
}

/* Open the set, write its files, then the index. */
fast_err fast_shards_write(const char *const *options, fast_shards_result *out)
{
    FAST_ASSERT(out != NULL);
    shards_plan plan;
    fast_data *train, *test;
    FAST_TRY(read_plan(options, &plan));
    FAST_TRY(make_folder(plan.out));
    FAST_TRY(fast__data_open(plan.data, (uint64_t)plan.seed, &train, &test, NULL));
    /* The index borrows the constants of normalisation and owns its texts. */
    fast_stream_index index = { .form = *train };
    index.form.alphabet = index.form.class_names = index.form.recipe = index.form.summary = NULL;
    fast_shards_result result;
    const fast_err err = write_all(&plan, train, test, &index, &result);
    index.form.mean = index.form.scale = NULL;
    fast__stream_index_fini(&index);
    fast_data_free(train);
    fast_data_free(test);
    if (!err)
        *out = result;
    return err;
}
